# shellcheck shell=bash
# What dev/up, dev/down and dev/status share: names, places, ports, pid files, and starting and stopping a member.
# A member is one process (redis-cluster has six, rocketmq two); each has the folder DOORBUSTER_DEV_DIR/MEMBER with
# its data, log, pid and address. What differs from engine to engine is in dev/engines/*.sh, which gives for a member:
#   ports_MEMBER     the ports that it listens on; the first one is its address
#   launch_MEMBER    writes its settings, creates its data if there are none, and calls `launch`
#   ready_MEMBER     succeeds if it serves; one check, bounded in time
#   outdated_MEMBER  succeeds if it runs with other settings than are wanted now, and must be restarted; most members
#                    have no such function, and are left running as they are
# Sourced only; it stops only processes that its own pid files name.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dev_dir=${DOORBUSTER_DEV_DIR:-$repo/target/dev}
mkdir -p "$dev_dir"
dev_dir=$(cd "$dev_dir" && pwd)
port_base=${DOORBUSTER_DEV_PORT_BASE:-17000}
# The address that RocketMQ's broker and Redis Cluster announce to their clients. With another loopback address than the
# one that they listen on, a test can put a proxy in between.
advertised_host=${DOORBUSTER_DEV_ADVERTISED_HOST:-127.0.0.1}

# Crash recovery of a large InnoDB log and reading a large AOF take long, and so do five Java processes on a busy machine.
ready_seconds_max=300
stop_seconds_max=30 # then SIGKILL
lock_seconds_max=600
check_seconds_max=5 # one ready check

members_all=(redis redis-cluster-{0..5} mariadb rocketmq-namesrv rocketmq-broker redis-edge nginx)
# Started by name only.
members_more=(postgresql valkey sentinel-redis-{0..2} sentinel-{0..2} rocketmq-broker-b rocketmq-broker-{a,b}-slave)
members_known=("${members_all[@]}" "${members_more[@]}")
servers_all=(server-1 server-2) # only dev/run-cluster starts them

fail() {
	echo "error: $*" >&2
	exit 1
}

case $port_base in
'' | *[!0-9]*) fail "DOORBUSTER_DEV_PORT_BASE must be a port number, not '$port_base'" ;;
esac

# The kinds of members share functions: redis-cluster-3 is launched by launch_redis_cluster.
kind_of() {
	case $1 in
	redis-cluster-*) echo redis_cluster ;;
	rocketmq-broker*) echo rocketmq_broker ;;
	sentinel-redis-*) echo sentinel_redis ;;
	sentinel-*) echo sentinel ;;
	server-*) echo server ;;
	*) echo "${1//-/_}" ;;
	esac
}

# The members that a name on the command line stands for.
members_of() {
	local member
	case $1 in
	all) printf '%s\n' "${members_all[@]}" ;;
	redis-cluster) printf '%s\n' redis-cluster-{0..5} ;;
	sentinel) printf '%s\n' sentinel-redis-{0..2} sentinel-{0..2} ;;
	rocketmq-pairs) printf '%s\n' rocketmq-namesrv rocketmq-broker{,-b} rocketmq-broker-{a,b}-slave ;;
	rocketmq) printf '%s\n' rocketmq-namesrv rocketmq-broker ;;
	*)
		for member in "${members_known[@]}"; do
			[ "$member" = "$1" ] && echo "$member" && return 0
		done
		echo "error: no engine is called '$1': redis, redis-cluster, sentinel, valkey, rocketmq, rocketmq-pairs, mariadb, postgresql, nginx, all, or one of" \
			"${members_known[*]}" >&2
		return 1
		;;
	esac
}

ports_of() { "ports_$(kind_of "$1")" "$1"; }

address_of() {
	local ports
	read -r -a ports < <(ports_of "$1")
	echo "127.0.0.1:${ports[0]}"
}

# Two runs of dev/up or dev/down on one folder would start or stop the same member at once.
lock_dev_dir() {
	exec {lock_fd}>"$dev_dir/.lock"
	flock --wait "$lock_seconds_max" "$lock_fd" ||
		fail "another dev/up or dev/down has held $dev_dir/.lock for $lock_seconds_max s"
}

# Prints the pid of a member that runs. The pid alone proves nothing: another process may have it by now.
member_pid() {
	local pid
	[ -s "$dev_dir/$1/pid" ] || return 1
	read -r pid <"$dev_dir/$1/pid"
	# A zombie has no command line, and counts as stopped.
	[[ "$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")" == *"$dev_dir/$1/"* ]] 2>/dev/null || return 1
	echo "$pid"
}

# Prints the pids of the processes that are left of a member whose first process was killed: nginx's workers, whose
# command lines do not name the folder. They hold the lock of `launch`; and while one of them lives, no other process
# can get their group's number, which was the first one's pid. Only in another container it belongs to another process.
member_rest() {
	local dir=$dev_dir/$1 held=0 group pid
	! member_pid "$1" >/dev/null && [ -s "$dir/pid" ] && [ -s "$dir/lock" ] || return 0
	[ "$(cat "$dir/lock")" = "$(readlink /proc/self/ns/pid)" ] || return 0
	flock --shared --nonblock "$dir/lock" true || held=$?
	[ "$held" -eq 1 ] || return 0
	read -r group <"$dir/pid"
	# After the name, which is in brackets and may hold anything: the state, the parent, the group.
	for pid in $(cat /proc/[0-9]*/stat 2>/dev/null |
		awk -v group="$group" '{ pid = $1; sub(/.*\) /, "") } $3 == group { print pid }'); do
		is_gone "$pid" || echo "$pid"
	done
}

# Fails, naming the port and its holder, if a process listens on one of a member's ports: on 127.0.0.1, on ::1, or on
# all addresses. Other loopback addresses do not matter.
check_ports_free() {
	local port entry inode holder
	for port in $(ports_of "$1"); do
		entry=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
			awk -v port="$(printf ':%04X' "$port")" \
				'$4 == "0A" && $2 ~ ("(00000000|0100007F|01000000)" port "$") { print $10; exit }')
		[ -z "$entry" ] && continue
		inode="socket:\\[$entry\\]"
		holder=$(find /proc/[0-9]*/fd -lname "$inode" 2>/dev/null | head -n 1 | cut -d/ -f3) || true
		holder=${holder:+pid $holder ($(tr '\0' ' ' <"/proc/$holder/cmdline" | cut -c 1-100))}
		echo "error: $1 can't start: port $port is taken by ${holder:-another process}." >&2
		echo "       Stop that process, or choose other ports: DOORBUSTER_DEV_PORT_BASE=N (now $port_base)." >&2
		return 1
	done
}

# launch MEMBER COMMAND...: starts a process that outlives this shell, its terminal and the reader of its output.
# Every inherited descriptor is closed: it must not keep a lock, or a pipe that a caller reads to its end.
# It leads a group of its own; it and the processes that it starts there hold the lock in its folder while they live.
# It alone gets DOORBUSTER_DEV_PRELOAD: libfaketime shares memory with whoever its process inherits it from, and ends a
# program that finds the memory of a shell that is gone.
launch() {
	local dir=$dev_dir/$1
	shift
	rm -f "$dir/pid"
	# shellcheck disable=SC2016 # the inner shell expands it
	setsid --fork bash -c '
		dir=$1
		shift
		exec </dev/null >>"$dir/log" 2>&1
		for fd in /proc/$$/fd/*; do
			fd=${fd##*/}
			if [ "$fd" -gt 2 ]; then eval "exec $fd>&-"; fi
		done
		cd "$dir" && exec 9>lock && flock --wait 2 9 && readlink /proc/self/ns/pid >&9 || exit 1
		echo $$ >"$dir/pid.new" && mv "$dir/pid.new" "$dir/pid" &&
			exec ${DOORBUSTER_DEV_PRELOAD:+env LD_PRELOAD="$DOORBUSTER_DEV_PRELOAD"} "$@"
	' launch "$dir" "$@"
	local deadline=$((SECONDS + check_seconds_max))
	until [ -s "$dir/pid" ]; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.02
	done
}

# Prints the end of the log and the next step, for a member that did not become ready.
explain() {
	local log=$dev_dir/$1/log
	echo "error: $1 $2. The end of its log, $log:" >&2
	tail -n 20 "$log" 2>/dev/null | sed 's/^/  | /' >&2
	[ "$(kind_of "$1")" = server ] ||
		echo "       Try \`dev/up $1\` again; to start it from nothing, losing its data: \`dev/down --wipe $1\` first." >&2
	return 1
}

# A process has no command line for a moment while it is being replaced by its program, so that it seems stopped: as long as
# it reads that from a disk for the first time.
wait_ready() {
	local deadline=$((SECONDS + ready_seconds_max))
	until "ready_$(kind_of "$1")" "$1" >/dev/null 2>&1; do
		member_pid "$1" >/dev/null || ! is_gone "$(cat "$dev_dir/$1/pid" || echo 0)" || { explain "$1" "exited by itself"; return 1; }
		[ "$SECONDS" -lt "$deadline" ] || { explain "$1" "is not ready after $ready_seconds_max s"; return 1; }
		sleep 0.1
	done
}

wait_until() { # wait_until WHAT COMMAND...
	local what=$1 deadline=$((SECONDS + ready_seconds_max))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || fail "waited $ready_seconds_max s in vain until $what"
		sleep 0.1
	done
}

is_outdated() {
	local look
	look=outdated_$(kind_of "$1")
	declare -F "$look" >/dev/null && "$look" "$1"
}

# Starts a member, unless it runs already, and waits until it serves.
start_member() {
	local member=$1 dir=$dev_dir/$1 address
	address=$(address_of "$member")
	mkdir -p "$dir"
	if member_pid "$member" >/dev/null; then
		[ "$(cat "$dir/address")" = "$address" ] ||
			fail "$member runs at $(cat "$dir/address"), not at $address: \`dev/down $member\` first"
		! is_outdated "$member" || stop_member "$member"
	fi
	if ! member_pid "$member" >/dev/null; then
		end_rest "$member"
		check_ports_free "$member" || return 1
		echo "$address" >"$dir/address"
		"launch_$(kind_of "$member")" "$member" || { explain "$member" "could not be started"; return 1; }
	fi
	wait_ready "$member"
}

# A killed process of many threads loses its command line at once, but keeps its ports until its last thread is gone. Then
# the process is gone too, or is a zombie of one thread that nobody has waited for.
is_gone() { # is_gone PID
	local tasks=("/proc/$1/task"/*)
	[ ! -e "/proc/$1/stat" ] || { [ "${#tasks[@]}" -le 1 ] && grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
}

is_gone_within() { # is_gone_within SECONDS PID
	local deadline=$((SECONDS + $1))
	until is_gone "$2"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.05
	done
}

# Stops the processes that are left of a member whose first process was killed.
end_rest() {
	local pid pids
	mapfile -t pids < <(member_rest "$1")
	[ "${#pids[@]}" -gt 0 ] || return 0
	kill -KILL -- "-$(cat "$dev_dir/$1/pid")" 2>/dev/null || true
	for pid in "${pids[@]}"; do
		is_gone_within "$check_seconds_max" "$pid" || fail "pid $pid, left by a killed $1, survives SIGKILL"
	done
	echo "stopped what a killed $1 had left running (pid ${pids[*]})" >&2
}

# Stops a member by its pid, then what it left running. RocketMQ gets SIGKILL: a SIGTERM takes it 18 to 40 s, and its store
# is thrown away. PostgreSQL waits at a SIGTERM for its clients to go.
stop_member() {
	local member=$1 pid signal=TERM
	if pid=$(member_pid "$member"); then
		case $member in rocketmq-*) signal=KILL ;; postgresql) signal=INT ;; esac
		kill "-$signal" "$pid" 2>/dev/null || true
		kill -CONT "$pid" 2>/dev/null || true # a stopped process gets SIGTERM only after this
		if ! is_gone_within "$stop_seconds_max" "$pid"; then
			kill -KILL "$pid" 2>/dev/null || true
			is_gone_within "$check_seconds_max" "$pid" || fail "$member, pid $pid, survives SIGKILL"
		fi
		echo "stopped $member (pid $pid)" >&2
	fi
	end_rest "$member"
	rm -f "$dev_dir/$member/pid"
}

# Runs COMMAND for every member at once; fails if one of them failed.
for_all() { # for_all COMMAND MEMBER...
	local command=$1 member job jobs=() failed=0
	shift
	for member in "$@"; do
		("$command" "$member") &
		jobs+=($!)
	done
	# Background jobs of a script ignore Ctrl-C, so they are killed here.
	trap 'kill "${jobs[@]}" 2>/dev/null; exit 130' INT TERM
	for job in "${jobs[@]}"; do
		wait "$job" || failed=1
	done
	trap - INT TERM
	return "$failed"
}

for engine in redis mariadb postgresql rocketmq nginx; do
	# shellcheck source=engines/redis.sh
	. "$repo/dev/engines/$engine.sh"
done
