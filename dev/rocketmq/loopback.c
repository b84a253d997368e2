/* For a server that has no setting of where to listen: binds it to 127.0.0.1 instead of to every address (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
	struct sockaddr_in here;

	if (address->sa_family == AF_INET && length >= sizeof here) {
		here = *(const struct sockaddr_in *)address;
		if (here.sin_addr.s_addr == htonl(INADDR_ANY))
			here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return next(fd, (struct sockaddr *)&here, sizeof here);
	}
	return next(fd, address, length);
}
