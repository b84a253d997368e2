//! Binding the port that buyers come to.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// Connections that the kernel completes and keeps until a loop accepts them; it may cap this
/// (`net.core.somaxconn`, 4,096 by default). The standard library and mio ask for 128, and each connection
/// over that costs its buyer a second, when the client's kernel tries again.
const BACKLOG: i32 = 4096;

/// Binds an address with room for a rush of connections.
///
/// # Errors
/// If the address is taken, not this machine's, or needs more rights.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Finds out whether an address could be served. Nobody can connect meanwhile.
///
/// # Errors
/// As of [`listen`].
pub fn check_address(address: SocketAddr) -> io::Result<()> {
    bound(address).map(drop)
}

fn bound(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // A server that was just stopped leaves connections behind; its successor need not wait for them.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_thousand_buyers_connect_before_anybody_accepts() {
        let kernel_max: usize =
            std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let second = std::time::Duration::from_millis(900);
        let buyers: Vec<TcpStream> = (0..1_000.min(kernel_max))
            .map(|_| TcpStream::connect_timeout(&address, second).expect("the queue has room"))
            .collect();
        assert!(buyers.len() > 128);
    }
}
