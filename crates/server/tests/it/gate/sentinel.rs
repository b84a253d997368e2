//! A Redis that real Sentinels watch: masters that die, are cut off or give way, and what is wrong in the configuration.

use std::time::{Duration, Instant};

use engine::SkuId;
use server::gate::{
    Closed, Gate, GateAnswer, GateConfig, GateError, GateTls, Layout, Reserved, Sentinel, Why, limits,
};

use super::refusals::{file, pem};
use super::servers::{PATIENCE, Redis, config, free_port, until};
use super::{available, build, fresh, is_taken, place, reserve};

const SKU: SkuId = SkuId(1);
const OTHER_RUN: GateError = GateError::Closed(Closed::OtherRun);
/// Where it is waited for that a master is taken for dead. Before that it never is, however little of the processor it gets.
const DOWN_AFTER_MS: &str = "1500";

const SET_MODE: &str = "it is a Sentinel: set gate.mode = \"sentinel\"";
const REFUSED: &str = "check gate.sentinel_user and gate.sentinel_password_file";

/// A master with a replica, and the Sentinels.
struct Watched {
    /// The master first.
    nodes: [Redis; 2],
    sentinels: Vec<Redis>,
}

/// A Sentinel of this master, which `quorum` of them may take for dead.
fn sentinel(host: &str, master: u16, quorum: usize, more: &str) -> Redis {
    let (port, dir) = (free_port(), tempfile::tempdir().unwrap());
    let path = dir.path().join("sentinel.conf");
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {:?}\n{more}\nsentinel monitor mymaster {host} {master} {quorum}\n\
         sentinel down-after-milliseconds mymaster 600000\nsentinel failover-timeout mymaster 5000\n",
        dir.path()
    );
    std::fs::write(&path, text).unwrap();
    Redis::spawn(port, dir, &[path.to_str().unwrap(), "--sentinel"])
}

impl Watched {
    fn start(sentinels: usize) -> Watched {
        let master = Redis::start(&["--repl-diskless-sync-delay", "0"]);
        let replica = Redis::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
        let watching = |_| sentinel("127.0.0.1", master.port, sentinels / 2 + 1, "");
        let sentinels: Vec<Redis> = (0..sentinels).map(watching).collect();
        let watched = Watched { nodes: [master, replica], sentinels };
        let others = (watched.sentinels.len() - 1).to_string();
        for sentinel in &watched.sentinels {
            until("the Sentinel answers", || sentinel.pings());
            until("it knows the replica and the other Sentinels", || {
                let known: Vec<String> = sentinel.command(&["SENTINEL", "MASTER", "mymaster"]);
                let has = |name: &str, value: &str| known.windows(2).any(|two| two == [name, value]);
                has("num-slaves", "1") && has("num-other-sentinels", &others)
            });
        }
        until("the replica is linked", || {
            let info: String = watched.nodes[1].command(&["INFO", "replication"]);
            info.contains("master_link_status:up")
        });
        watched
    }

    fn config(&self) -> GateConfig {
        behind(self.sentinels.iter().map(Redis::address).collect())
    }

    fn gate(&self) -> Gate {
        Gate::new(self.config())
    }
}

fn behind(addresses: Vec<String>) -> GateConfig {
    config(addresses, Layout::Sentinel(named("mymaster", None)))
}

fn named(master: &str, password: Option<&str>) -> Sentinel {
    Sentinel { master: master.to_owned(), user: None, password: password.map(str::to_owned) }
}

/// As it is of another run. The new master may have missed the last writes, besides: that the gate was opened, or made.
fn is_closed(got: Result<GateAnswer<Reserved>, GateError>) -> bool {
    match got {
        Err(GateError::Closed(Closed::OtherRun | Closed::Fenced | Closed::Lost)) => true,
        Err(GateError::Closed(other)) => panic!("{other}"),
        _ => false,
    }
}

fn lines(gate: &mut Gate) -> Option<String> {
    server::gate::fault(&gate.health())
}

#[test]
fn the_replica_of_a_master_that_died_is_found_and_sells_nothing_before_it_is_rebuilt() {
    let mut watched = Watched::start(3);
    let mut gate = watched.gate();
    build(&mut gate, SKU, &fresh(1, 5, None));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    assert_eq!(gate.health()[0].address, watched.nodes[0].address());
    assert_eq!(lines(&mut gate), None);
    for sentinel in &watched.sentinels {
        sentinel.command::<()>(&["SENTINEL", "SET", "mymaster", "down-after-milliseconds", DOWN_AFTER_MS]);
    }
    watched.nodes[0].kill();
    // Whoever comes first finds a dead connection; a command that was written to it may have been carried out.
    let got = reserve(&mut gate, place(SKU, 2, 9, 1));
    assert_eq!(got, Err(GateError::Unknown(Why::ConnectionLost)));
    until("the replica is the master", || {
        let got = reserve(&mut gate, place(SKU, 2, 9, 1));
        assert!(!is_taken(&got), "it was promoted, and may have forgotten something: {got:?}");
        is_closed(got)
    });
    build(&mut gate, SKU, &fresh(2, 4, None));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 2, 9, 1))));
    assert_eq!((gate.health()[0].address.clone(), lines(&mut gate)), (watched.nodes[1].address(), None));
    // The same for whoever comes later, and with two of three Sentinels dead. The third hears of the new master from the others.
    let new_master = watched.nodes[1].port.to_string();
    until("every Sentinel names the new master", || {
        let named = |sentinel: &Redis| -> Vec<String> {
            sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"])
        };
        watched.sentinels.iter().all(|sentinel| named(sentinel)[1] == new_master)
    });
    watched.sentinels[0].kill();
    watched.sentinels[1].kill();
    assert_eq!(available(&mut watched.gate(), SKU), 3);
}

#[test]
fn a_master_that_gives_way_is_left_and_its_gates_are_of_another_run() {
    let watched = Watched::start(1);
    let mut gate = watched.gate();
    let mut forth_and_back = Vec::new();
    for epoch in 1..=3 {
        build(&mut gate, SKU, &fresh(epoch, 5, None));
        assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
        forth_and_back.push(gate.health()[0].address.clone());
        let sentinel = &watched.sentinels[0];
        until("the Sentinel begins a fail-over", || {
            sentinel.try_command(&["SENTINEL", "FAILOVER", "mymaster"])
        });
        until("the new master is found", || is_closed(reserve(&mut gate, place(SKU, 2, 9, 1))));
    }
    // The third one is the same process as the first, a replica in between.
    let [first, second] = watched.nodes.each_ref().map(Redis::address);
    assert_eq!(forth_and_back, [first.clone(), second, first]);
}

#[test]
fn a_master_that_was_cut_off_from_the_sentinels_is_left_within_a_second_or_two() {
    let watched = Watched::start(1);
    let mut gate = watched.gate();
    build(&mut gate, SKU, &fresh(1, 1_000_000, None));
    let (sentinel, replica) = (&watched.sentinels[0], &watched.nodes[1]);
    let commands = || -> u64 {
        let info: String = sentinel.command(&["INFO", "stats"]);
        info.lines()
            .find_map(|line| line.strip_prefix("total_commands_processed:")?.trim().parse().ok())
            .unwrap()
    };
    let (before, started) = (commands(), Instant::now());
    for hash in 1..=100 {
        assert!(is_taken(&reserve(&mut gate, place(SKU, hash, 9, 1))));
    }
    // Two are for a connection that it would make, and one is for the count.
    let asked = commands() - before;
    let checks = (started.elapsed().as_millis() / limits::SENTINEL_CHECK.as_millis()) as u64 + 1;
    assert!(asked <= checks + 3, "it asks only now and then: {asked} times in {:?}", started.elapsed());
    // The master goes on, and nobody tells it that there is another one now.
    let offset = |redis: &Redis, name: &str| -> u64 {
        let info: String = redis.command(&["INFO", "replication"]);
        info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
    };
    let written = offset(&watched.nodes[0], "master_repl_offset:");
    until("the replica has all", || offset(replica, "slave_repl_offset:") >= written);
    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    sentinel.command::<()>(&["SENTINEL", "REMOVE", "mymaster"]);
    sentinel.command::<()>(&["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &replica.port.to_string(), "1"]);
    let mut hash = 100;
    until("the Sentinels' master is used", || {
        hash += 1;
        let got = reserve(&mut gate, place(SKU, hash, 9, 1));
        assert!(is_taken(&got) || got == Err(OTHER_RUN), "{got:?}");
        !is_taken(&got)
    });
    assert_eq!(gate.health()[0].address, replica.address());
}

#[test]
fn without_sentinels_a_connection_is_kept_and_no_new_one_is_made() {
    let mut watched = Watched::start(1);
    let mut gate = watched.gate();
    build(&mut gate, SKU, &fresh(1, 5, None));
    assert!(gate.hears_of_the_master());
    watched.sentinels[0].kill();
    std::thread::sleep(limits::SENTINEL_CHECK + Duration::from_millis(100));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    assert!(!gate.hears_of_the_master(), "its master may be another by now");
    watched.nodes[0].command::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    let got = reserve(&mut gate, place(SKU, 2, 9, 1));
    assert_eq!(got, Err(GateError::Unknown(Why::ConnectionLost)));
    let got = reserve(&mut gate, place(SKU, 2, 9, 1));
    let no_sentinel = |why: &Why| why.to_string().starts_with("no Sentinel names its master: 127.0.0.1:");
    assert!(matches!(&got, Err(GateError::NotExecuted(why)) if no_sentinel(why)), "{got:?}");
    watched.sentinels[0].start_again();
    until("the Sentinel is back", || is_taken(&reserve(&mut gate, place(SKU, 2, 9, 1))));
    assert!(gate.hears_of_the_master());
}

/// A Sentinel that was cut off with the old master names that for as long as it is.
#[test]
fn what_most_sentinels_name_is_the_master() {
    let watched = Watched::start(3);
    let [_, replica] = &watched.nodes;
    // One that is without a processor for a moment is not silent.
    let config = || GateConfig { connect_timeout: PATIENCE, ..watched.config() };
    let mut gate = Gate::new(config());
    build(&mut gate, SKU, &fresh(1, 5, None));
    for sentinel in &watched.sentinels[1..] {
        sentinel.command::<()>(&["SENTINEL", "REMOVE", "mymaster"]);
        let port = replica.port.to_string();
        sentinel.command::<()>(&["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &port, "2"]);
    }
    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    until("the old master is left", || is_closed(reserve(&mut gate, place(SKU, 1, 9, 1))));
    assert_eq!(gate.health()[0].address, replica.address());
    assert!(gate.hears_of_the_master());
    // Whoever comes new asks the one first that is wrong.
    let mut new = Gate::new(config());
    assert!(is_closed(reserve(&mut new, place(SKU, 2, 9, 1))));
    assert_eq!(new.health()[0].address, replica.address());
}

/// A look asks one of them: that it is silent says nothing of the others.
#[test]
fn of_three_sentinels_two_are_enough_to_be_heard() {
    let mut watched = Watched::start(3);
    let mut gate = watched.gate();
    build(&mut gate, SKU, &fresh(1, 5, None));
    watched.sentinels[0].kill();
    std::thread::sleep(limits::SENTINEL_CHECK + Duration::from_millis(100));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    assert!(gate.hears_of_the_master(), "two are there");
    watched.sentinels[1].kill();
    watched.sentinels[2].kill();
    until("what they have said counts no more", || !gate.hears_of_the_master());
    assert!(is_taken(&reserve(&mut gate, place(SKU, 2, 9, 1))), "a connection that there is goes on");
}

#[test]
fn each_wrong_set_up_is_a_line_that_names_server_answer_and_key() {
    let mut watched = Watched::start(1);
    let guarded = sentinel("127.0.0.1", watched.nodes[0].port, 1, "requirepass hush");
    until("it answers", || {
        redis::Client::open(format!("redis://:hush@{}/", guarded.address())).unwrap().get_connection().is_ok()
    });
    let nobody = format!("127.0.0.1:{}", free_port());
    let open = watched.sentinels[0].address();
    let with = |address: &str, sentinel| config(vec![address.to_owned()], Layout::Sentinel(sentinel));
    let in_mode = |layout, password: Option<&str>| GateConfig {
        password: password.map(str::to_owned),
        ..config(vec![open.clone()], layout)
    };
    let two = vec![nobody.clone(), open.clone()];
    let node = watched.nodes[0].address();
    let cases: [(&str, GateConfig, &[&str]); 9] = [
        ("single", in_mode(Layout::Single, None), &[SET_MODE, "gate.sentinel_master"]),
        ("single with Redis' password", in_mode(Layout::Single, Some("secret")), &[SET_MODE]),
        (
            "cluster",
            in_mode(Layout::Cluster, None),
            &["unknown command 'CLUSTER'", "gate.mode = \"sentinel\""],
        ),
        (
            "Redis for a Sentinel",
            with(&node, named("mymaster", None)),
            &["unknown command 'SENTINEL'", "gate.mode = \"single\"", "gate.addresses"],
        ),
        (
            "an unknown name",
            with(&open, named("shop", None)),
            &["no master called \"shop\" (it watches \"mymaster\")", "set gate.sentinel_master"],
        ),
        ("no password", with(&guarded.address(), named("mymaster", None)), &["NOAUTH", REFUSED]),
        ("another", with(&guarded.address(), named("mymaster", Some("secret"))), &["WRONGPASS", REFUSED]),
        ("nobody is there", behind(vec![nobody.clone()]), &["no connection can be made", "gate.addresses"]),
        (
            "two without an answer",
            config(two, Layout::Sentinel(named("shop", None))),
            &["no connection can be made (gate.addresses); ", "no master called"],
        ),
    ];
    for (what, config, held) in cases {
        let address = config.addresses[0].clone();
        let line = lines(&mut Gate::new(config)).unwrap_or_else(|| panic!("{what}"));
        assert!(
            line.starts_with("redis ") && line.contains(&address) && !line.contains('\n'),
            "{what}: {line}"
        );
        assert!(held.iter().all(|text| line.contains(text)), "{what}: {line}");
        assert!(!line.contains("secret"), "{what}: {line}");
    }
    let right = with(&guarded.address(), named("mymaster", Some("hush")));
    assert_eq!(lines(&mut Gate::new(right)), None);
    assert_eq!(lines(&mut Gate::new(behind(vec![nobody, open]))), None, "one that answers is enough");

    // Of the master that they name, the line is about that.
    let mut gate = watched.gate();
    let of_the_master = |gate: &mut Gate, text: &str| {
        let line = lines(gate).unwrap();
        assert!(line.starts_with(&format!("redis {node}: ")) && line.contains(text), "{line}");
        assert!(!line.contains("gate.addresses"), "{line}");
    };
    let other = watched.nodes[1].port.to_string();
    watched.nodes[1].command::<()>(&["REPLICAOF", "NO", "ONE"]);
    watched.nodes[0].command::<()>(&["REPLICAOF", "127.0.0.1", &other]);
    of_the_master(&mut gate, "it is a replica, and the Sentinels name it as the master");
    watched.nodes[0].kill();
    until("its end is noticed", || {
        lines(&mut gate).is_some_and(|line| line.contains("no connection can be made"))
    });
    of_the_master(&mut gate, "no connection can be made, and the Sentinels name it");
}

#[test]
fn a_setting_that_lets_two_masters_sell_is_marked() {
    let watched = Watched::start(1);
    let shown = |gate: &mut Gate| gate.health()[0].settings.to_string();
    let mut gate = watched.gate();
    let text = shown(&mut gate);
    assert!(
        text.contains("min-replicas-to-write = 0 (a master that is cut off from the Sentinels goes on"),
        "{text}"
    );
    let node = watched.nodes[0].address();
    let how = server::gate::unguarded_master(&gate.health()).unwrap();
    assert!(how.starts_with(&format!("redis {node}: min-replicas-to-write = 0")), "{how}");
    assert_eq!(server::gate::unguarded_master(&watched.nodes[0].gate().health()), None, "one alone");
    watched.nodes[0].command::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(server::gate::unguarded_master(&gate.health()), None);
    let text = shown(&mut gate);
    assert!(text.ends_with("min-replicas-to-write = 1"), "{text}");
    assert!(shown(&mut watched.nodes[0].gate()).ends_with("min-replicas-to-write = 1"));
    watched.nodes[0].command::<()>(&["CONFIG", "SET", "min-replicas-max-lag", "0"]);
    let how = server::gate::unguarded_master(&gate.health());
    assert!(how.is_some(), "that turns it off");
}

#[test]
fn sentinels_and_their_master_are_spoken_to_in_tls() {
    let pems =
        ["localhost.cert.pem", "localhost.key.pem"].map(|name| file(name).to_str().unwrap().to_owned());
    let port = free_port();
    let arguments = [
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &pems[0],
        "--tls-key-file",
        &pems[1],
        "--tls-ca-cert-file",
        &pems[0],
        "--tls-auth-clients",
        "no",
    ];
    let _master = Redis::start(&arguments);
    let encrypted = free_port();
    let tls = format!(
        "tls-port {encrypted}\ntls-replication yes\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\n\
         tls-auth-clients no\nsentinel resolve-hostnames yes\nsentinel announce-hostnames yes",
        pems[0], pems[1], pems[0]
    );
    let sentinel = sentinel("localhost", port, 1, &tls);
    until("the Sentinel answers", || sentinel.pings());
    let ca = Some(pem("localhost.cert.pem"));
    let config = GateConfig {
        tls: Some(GateTls { ca, client: None }),
        ..behind(vec![format!("localhost:{encrypted}")])
    };
    let mut gate = Gate::new(config.clone());
    assert_eq!(lines(&mut gate), None);
    build(&mut gate, SKU, &fresh(1, 5, None));
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    let line = lines(&mut Gate::new(GateConfig { tls: None, ..config })).unwrap();
    assert!(line.contains("gate.tls = true"), "{line}");
}
