# shellcheck shell=bash
# MariaDB, the ledger: root without a password over TCP, and an empty database `doorbuster`. Sourced by dev/engines.sh.

mariadb_options=${DOORBUSTER_MARIADB_OPTIONS:-} # more arguments for the server, separated by spaces
# InnoDB's log. 1: synced at each commit; 2: written at each commit, synced each second; 0: both each second
mariadb_flush_log=${DOORBUSTER_MARIADB_FLUSH_LOG:-1}
mariadb_sync_binlog=${DOORBUSTER_MARIADB_SYNC_BINLOG:-1} # the binary log. 1: synced at each commit; 0: when the system does it
PATH=$PATH:/usr/sbin                                     # mariadbd is there, and not on every user's path

ports_mariadb() { echo $((port_base + 30)); }

mariadb_say() { # mariadb_say STATEMENT
	timeout "$check_seconds_max" mariadb --no-defaults --protocol=tcp --host=127.0.0.1 --port=$((port_base + 30)) \
		--user=root --batch --skip-column-names --execute="$1" </dev/null
}

launch_mariadb() {
	local dir=$dev_dir/$1 as_root=()
	# A folder of its own: a server that starts removes all temporary tables of the folder, those of others too.
	mkdir -p "$dir/tmp"
	[ "$(id -u)" -ne 0 ] || as_root=(--user=root)
	case $mariadb_flush_log in
	0 | 1 | 2) ;;
	*) fail "DOORBUSTER_MARIADB_FLUSH_LOG must be 0, 1 or 2, not '$mariadb_flush_log'" ;;
	esac
	case $mariadb_sync_binlog in
	0 | 1) ;;
	*) fail "DOORBUSTER_MARIADB_SYNC_BINLOG must be 0 or 1, not '$mariadb_sync_binlog'" ;;
	esac
	if [ ! -d "$dir/data" ]; then # made aside and renamed, so that an interrupted run leaves nothing half done
		rm -rf "$dir/data.new"
		# Its script can't handle a path with a space.
		(cd "$dir" && TMPDIR=$dir/tmp mariadb-install-db --no-defaults "${as_root[@]}" --datadir=./data.new --skip-test-db \
			--auth-root-authentication-method=normal >>log 2>&1) || return 1
		mv "$dir/data.new" "$dir/data"
	fi
	local more=()
	read -r -a more <<<"$mariadb_options"
	# The socket's path is relative to the data folder: an absolute one may be too long for a socket.
	# The binary log is short-lived: nothing here reads it. It is on because its syncs are part of the cost.
	launch "$1" mariadbd --no-defaults "${as_root[@]}" --datadir="$dir/data" --tmpdir="$dir/tmp" --bind-address=127.0.0.1 \
		--port=$((port_base + 30)) --socket=mariadb.sock --pid-file=mariadb.pid --skip-name-resolve \
		--character-set-server=utf8mb4 --max-connections=200 --innodb-buffer-pool-size=512M \
		--log-bin=binlog --server-id=1 --expire-logs-days=1 --max-binlog-size=256M \
		--innodb-flush-log-at-trx-commit="$mariadb_flush_log" --sync-binlog="$mariadb_sync_binlog" "${more[@]}"
}

ready_mariadb() {
	mariadb_say 'CREATE DATABASE IF NOT EXISTS doorbuster CHARACTER SET utf8mb4' && [ "$(mariadb_say 'SELECT 1')" = 1 ]
}
