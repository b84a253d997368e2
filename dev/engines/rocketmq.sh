# shellcheck shell=bash
# RocketMQ: a name server and one broker, or two masters with a slave each (`rocketmq-pairs`). Maven fetches the jars into a cache that all clones share.
# Sourced by dev/engines.sh.

rocketmq_flush=${DOORBUSTER_ROCKETMQ_FLUSH:-SYNC_FLUSH}
rocketmq_role=${DOORBUSTER_ROCKETMQ_ROLE:-ASYNC_MASTER} # of masters
rocketmq_options=$(tr ' ' '\n' <<<"${DOORBUSTER_ROCKETMQ_OPTIONS:-}") # more lines of the broker's settings
# A folder with certificate.pem and key.pem: name server and broker take TLS alone. If it has a clients.pem, too, they take only
# clients whose certificate that file vouches for, their own among them.
rocketmq_tls_dir=${DOORBUSTER_ROCKETMQ_TLS_DIR:-}
rocketmq_version=${DOORBUSTER_ROCKETMQ_VERSION:-}
[ -n "$rocketmq_version" ] || rocketmq_version=$(sed -n 's:.*<rocketmq.version>\(.*\)</rocketmq.version>.*:\1:p' "$repo/dev/rocketmq/pom.xml")
rocketmq_lib=${DOORBUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/doorbuster}/rocketmq-$rocketmq_version
rocketmq_fetch_seconds_max=600

is_rocketmq_4() { [[ $rocketmq_version == 4.* ]]; }

ports_rocketmq_namesrv() { echo $((port_base + 40)); }
# Port - 2 is the one that RocketMQ derives for important clients, port + 1 is for replication.
ports_rocketmq_broker() {
	local first
	case $1 in
	rocketmq-broker) first=$((port_base + 50)) ;;
	rocketmq-broker-b) first=$((port_base + 54)) ;;
	rocketmq-broker-a-slave) first=$((port_base + 58)) ;;
	rocketmq-broker-b-slave) first=$((port_base + 72)) ;;
	esac
	echo "$first" $((first - 2)) $((first + 1))
}

# Fetches the jars once, into a folder aside that is renamed at the end, so that an interrupted run leaves nothing that looks
# complete.
fetch_rocketmq() {
	[ -d "$rocketmq_lib" ] && return 0
	local lock_fd new=$rocketmq_lib.new
	mkdir -p "$(dirname "$rocketmq_lib")"
	exec {lock_fd}>"$rocketmq_lib.lock"
	flock --wait "$rocketmq_fetch_seconds_max" "$lock_fd" || fail "another run holds $rocketmq_lib.lock"
	if [ ! -d "$rocketmq_lib" ]; then
		echo "fetching RocketMQ $rocketmq_version through Maven (100 MB, once) into $rocketmq_lib" >&2
		rm -rf "$new"
		timeout "$rocketmq_fetch_seconds_max" mvn --quiet --batch-mode --strict-checksums \
			-Drocketmq.version="$rocketmq_version" $(is_rocketmq_4 && echo '-P!benchmark') \
			-f "$repo/dev/rocketmq/pom.xml" dependency:copy-dependencies \
			-DincludeScope=runtime -DoutputDirectory="$new" </dev/null >&2 ||
			fail "Maven could not fetch RocketMQ: can a Maven registry be reached (settings.xml)?"
		mv "$new" "$rocketmq_lib"
	fi
	exec {lock_fd}>&-
}

# What a Java process of RocketMQ needs to take TLS alone, and to speak it to the others.
rocketmq_tls_options() {
	local dir=$rocketmq_tls_dir
	[ -n "$dir" ] || return 0
	printf '%s\n' -Dtls.server.mode=enforcing -Dtls.enable=true -Dtls.test.mode.enable=false \
		-Dtls.server.certPath="$dir/certificate.pem" -Dtls.server.keyPath="$dir/key.pem" \
		-Dtls.client.certPath="$dir/certificate.pem" -Dtls.client.keyPath="$dir/key.pem"
	[ ! -e "$dir/clients.pem" ] || printf '%s\n' -Dtls.server.need.client.auth=require \
		-Dtls.server.authClient=true -Dtls.server.trustCertPath="$dir/clients.pem"
}

# 4.x is of the days of Java 8 and listens on every address, and each of its servers wants a file that says where it logs.
prepare_rocketmq_4() { # prepare_rocketmq_4 MEMBER
	local conf=$dev_dir/$1/home/conf server
	mkdir -p "$conf/acl"
	for server in namesrv broker; do
		cat >"$conf/logback_$server.xml" <<-XML
			<configuration>
				<appender name="log" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %p %m%n</pattern></encoder></appender>
				<root level="WARN"><appender-ref ref="log"/></root>
			</configuration>
		XML
	done
	cc -shared -fPIC -o "$dev_dir/$1/loopback.so" "$repo/dev/rocketmq/loopback.c" -ldl
}

launch_java() { # launch_java MEMBER MAIN_CLASS CONFIG_FILE JVM_OPTION...
	local member=$1 main=$2 config=$3 dir=$dev_dir/$1
	shift 3
	local tls
	mapfile -t tls < <(rocketmq_tls_options)
	# A broker unpacks 12 MB of RocksDB at each start, and a killed one does not take them away.
	rm -rf "$dir/tmp"
	mkdir -p "$dir/home" "$dir/tmp"
	local preload=() of_4=()
	if is_rocketmq_4; then
		prepare_rocketmq_4 "$member"
		preload=(env LD_PRELOAD="$dir/loopback.so")
		of_4=(-Djava.net.preferIPv4Stack=true --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED
			--add-exports=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED
			--add-opens=java.base/sun.nio.ch=ALL-UNNAMED)
	fi
	ROCKETMQ_HOME=$dir/home launch "$member" "${preload[@]}" java "$@" "${tls[@]}" "${of_4[@]}" -Duser.home="$dir/home" \
		-Djava.io.tmpdir="$dir/tmp" -cp "$rocketmq_lib/*" "$main" -c "$config"
}

launch_rocketmq_namesrv() {
	local dir=$dev_dir/$1
	printf 'listenPort=%s\nbindAddress=127.0.0.1\n' "$((port_base + 40))" >"$dir/namesrv.conf"
	launch_java "$1" org.apache.rocketmq.namesrv.NamesrvStartup "$dir/namesrv.conf" -Xms32m -Xmx96m
}

# The shortest possible period of registering: a restarted name server knows the broker within 10 s. A thread of the broker's spins
# until its transaction metrics are first written: a second instead of ten. Each flush of its timers copies 39 MB, and nobody
# here delays a message: once a minute instead of each second. (Without its timers it can't delete a topic.)
launch_rocketmq_broker() {
	local dir=$dev_dir/$1 name=broker-a id=0 role=$rocketmq_role heap=512m light=() ports
	read -r -a ports < <(ports_of "$1")
	case $1 in *-b | *-b-slave) name=broker-b ;; esac
	case $1 in *-slave) id=1 role=SLAVE heap=256m ;; esac
	# Only the first broker is measured: the others start sooner so, and take less memory.
	[ "$1" = rocketmq-broker ] || light=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)
	case $rocketmq_role in
	ASYNC_MASTER | SYNC_MASTER) ;;
	*) fail "DOORBUSTER_ROCKETMQ_ROLE must be ASYNC_MASTER or SYNC_MASTER, not '$rocketmq_role'" ;;
	esac
	case $rocketmq_flush in
	SYNC_FLUSH | ASYNC_FLUSH) ;;
	*) fail "DOORBUSTER_ROCKETMQ_FLUSH must be SYNC_FLUSH or ASYNC_FLUSH, not '$rocketmq_flush'" ;;
	esac
	cat >"$dir/broker.conf" <<-CONF
		brokerClusterName=DefaultCluster
		brokerName=$name
		brokerId=$id
		brokerRole=$role
		flushDiskType=$rocketmq_flush
		namesrvAddr=127.0.0.1:$((port_base + 40))
		brokerIP1=$advertised_host
		brokerIP2=127.0.0.1
		bindAddress=127.0.0.1
		listenPort=${ports[0]}
		haListenPort=${ports[2]}
		storePathRootDir=$dir/store
		storePathCommitLog=$dir/store/commitlog
		mappedFileSizeCommitLog=134217728
		maxTransferCountOnMessageInMemory=1024
		maxTransferBytesOnMessageInMemory=1048576
		cleanFileForciblyEnable=false
		autoCreateTopicEnable=true
		defaultTopicQueueNums=8
		autoCreateSubscriptionGroup=true
		registerNameServerPeriod=10000
		transactionMetricFlushInterval=1000
		timerFlushIntervalMs=60000
		$rocketmq_options
	CONF
	launch_java "$1" org.apache.rocketmq.broker.BrokerStartup "$dir/broker.conf" \
		"-Xms$heap" "-Xmx$heap" -XX:MaxDirectMemorySize=512m "${light[@]}"
}

# Asks the name server for its brokers (request code 106), in RocketMQ's own protocol: two lengths, then JSON. A Java
# tool would need 4 s.
rocketmq_brokers() (
	header='{"code":106,"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":0}'
	if [ -n "$rocketmq_tls_dir" ]; then
		# Unless it is ended here it stays, and with it the lock on the folder, until the name server hangs up.
		trap 'kill "$tls_PID" 2>/dev/null || true' EXIT
		coproc tls { exec openssl s_client -quiet -connect "127.0.0.1:$((port_base + 40))" \
			-cert "$rocketmq_tls_dir/certificate.pem" -key "$rocketmq_tls_dir/key.pem" 2>/dev/null; }
		exec {server}<&"${tls[0]}" {client}>&"${tls[1]}"
	else
		exec {server}<>"/dev/tcp/127.0.0.1/$((port_base + 40))"
		client=$server
	fi
	# Both lengths fit one byte: 4 + the header, and the header.
	printf '\0\0\0%b\0\0\0%b%s' "\\x$(printf %02x $((${#header} + 4)))" "\\x$(printf %02x ${#header})" "$header" >&"$client"
	length=$(timeout "$check_seconds_max" head -c 4 <&"$server" | od -An -tx1 | tr -d ' \n')
	timeout "$check_seconds_max" head -c "$((16#$length))" <&"$server" | tr -d '\0'
)

ready_rocketmq_namesrv() { [[ $(rocketmq_brokers) == *brokerAddrTable* ]]; }

# To be registered is not enough after a crash: the name server may still list the dead broker.
ready_rocketmq_broker() {
	local ports
	read -r -a ports < <(ports_of "$1")
	(exec 3<>"/dev/tcp/127.0.0.1/${ports[0]}") && [[ $(rocketmq_brokers) == *"$advertised_host:${ports[0]}"* ]]
}
