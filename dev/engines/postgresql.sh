# shellcheck shell=bash
# PostgreSQL, which only a peer of the bench uses: user `postgres` without a password over TCP, database `postgres`. Its
# durability is the default: every commit is synced. Sourced by dev/engines.sh.

ports_postgresql() { echo $((port_base + 31)); }

# Debian has the programs of each release in a folder of its own, and none of them on the path.
postgresql_program() { # postgresql_program NAME
	local found
	found=$(printf '%s\n' /usr/lib/postgresql/*/bin/"$1" | sort -V | tail -n 1)
	[ -x "$found" ] || found=$(command -v "$1") || fail "there is no $1: install postgresql"
	echo "$found"
}

launch_postgresql() {
	local dir=$dev_dir/$1 as_user=() server initdb
	server=$(postgresql_program postgres) && initdb=$(postgresql_program initdb) || return 1
	# It refuses to run as root. The user that its package made gets the one right of root that it takes to reach a folder of root's.
	[ "$(id -u)" -ne 0 ] || as_user=(setpriv --reuid=postgres --regid=postgres --clear-groups
		--inh-caps=+dac_override --ambient-caps=+dac_override)
	if [ ! -d "$dir/data" ]; then # made aside and renamed, so that an interrupted run leaves nothing half done
		rm -rf "$dir/data.new"
		(cd "$dir" && "${as_user[@]}" "$initdb" --pgdata="$dir/data.new" --username=postgres --auth=trust --encoding=UTF8 \
			--no-locale >>log 2>&1 </dev/null) || return 1
		mv "$dir/data.new" "$dir/data"
	fi
	# It names the earlier process, which is gone: but while that is not buried, PostgreSQL takes it for a server that runs.
	rm -f "$dir/data/postmaster.pid"
	launch "$1" "${as_user[@]}" "$server" -D "$dir/data" -p $((port_base + 31)) -c listen_addresses=127.0.0.1 \
		-c unix_socket_directories= -c max_connections=200 -c shared_buffers=512MB
}

ready_postgresql() {
	local psql
	psql=$(postgresql_program psql) || return 1
	timeout "$check_seconds_max" "$psql" --no-psqlrc --host=127.0.0.1 --port=$((port_base + 31)) --username=postgres \
		--command='SELECT 1' </dev/null
}
