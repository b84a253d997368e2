# shellcheck shell=bash
# nginx as the edge (edge/render describes the EDGE_* variables), in front of two servers on ports 61 and 62 of the set.
# Without a secret it is a demo, for load tools. Sourced by dev/engines.sh.

ports_nginx() { echo $((port_base + 60)); }

render_nginx() {
	local dir=$dev_dir/$1
	[ -n "${EDGE_TOKEN_SECRET_FILE:-}" ] || local -x EDGE_DEMO=true
	EDGE_DIR=$dir EDGE_LISTEN=127.0.0.1:$((port_base + 60)) EDGE_REDIS_PORT=$((port_base + 1)) \
		EDGE_SERVERS=${EDGE_SERVERS:-127.0.0.1:$((port_base + 61)) 127.0.0.1:$((port_base + 62))} \
		EDGE_PAGES=${EDGE_PAGES:-$dir/pages} "$repo/edge/render"
}

launch_nginx() {
	local dir=$dev_dir/$1
	render_nginx "$1" >"$dir/nginx.conf" || return 1
	launch "$1" nginx -p "$dir/" -e "$dir/log" -c "$dir/nginx.conf"
}

# With other settings than those asked for, the edge would refuse orders or show another sale's pages, without a sign of
# why. One that serves a dev/run-cluster is not touched.
outdated_nginx() {
	local wanted server
	wanted=$(render_nginx "$1") || fail "nginx can't have these settings: see above"
	[ "$wanted" != "$(cat "$dev_dir/$1/nginx.conf")" ] || return 1
	for server in "${servers_all[@]}"; do
		! member_pid "$server" >/dev/null ||
			fail "nginx serves a dev/run-cluster, with other settings than are wanted here: stop that first"
	done
	echo "nginx runs with other settings than are wanted here: restarting it" >&2
}

# Every edge answers this itself, without its servers.
ready_nginx() {
	local status
	(
		exec 3<>"/dev/tcp/127.0.0.1/$((port_base + 60))"
		printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
		read -r -t "$check_seconds_max" _ status _ <&3
		[ "$status" = 404 ]
	)
}
