//! Every error that Redis can answer with, provoked for real: what the caller is answered, and that nothing was changed.

use std::time::Duration;

use engine::SkuId;
use engine::handover::{Change, OutboxRow, Settle, Verdict};
use server::clock::wall_clock;
use server::gate::{Applied, Gate, GateConfig, GateError, Layout, Reserve, Settled, Why};

use super::servers::{Redis, free_port, until};
use super::{available, build, fresh, is_taken, place, reserve};

const SKU: SkuId = SkuId(1);

/// A server with a gate of 10 units and a client.
fn ready(arguments: &[&str]) -> (Redis, Gate) {
    let redis = Redis::start(arguments);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 10, None));
    (redis, gate)
}

/// The caller is answered that nothing was done, and nothing was.
fn refused(gate: &mut Gate, why: Why) {
    let got = reserve(gate, place(SKU, 99, 9, 1));
    assert_eq!(got, Err(GateError::NotExecuted(why)));
}

/// The health check, which writes nothing, answers the same as an order would be answered.
fn unhealthy(gate: &mut Gate, why: &Why) {
    assert_eq!(gate.health()[0].fault, Some(why.to_string()));
}

fn healthy(gate: &mut Gate) {
    assert_eq!(server::gate::fault(&gate.health()), None);
}

#[test]
fn noscript_loads_the_scripts_and_sends_the_same_again() {
    let (redis, mut gate) = ready(&[]);
    redis.command::<()>(&["SCRIPT", "FLUSH"]);
    let requests: Vec<Reserve<'_>> = (0..200)
        .map(|hash| Reserve { placement: place(SKU, hash, 9, 1), limit: None, record: b"" })
        .collect();
    let answers = gate.reserve(&requests, None);
    assert_eq!(answers.iter().filter(|answer| is_taken(answer)).count(), 10);
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(available(&mut gate, SKU), 0);
    redis.command::<()>(&["SCRIPT", "FLUSH"]);
    healthy(&mut gate);
}

#[test]
fn a_full_memory_refuses_before_any_write_and_lets_units_come_back() {
    let (redis, mut gate) = ready(&[]);
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    redis.command::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    refused(&mut gate, Why::OutOfMemory);
    unhealthy(&mut gate, &Why::OutOfMemory);
    // What gives memory or units back, stops the sale or only reads goes on.
    let id = place(SKU, 1, 9, 1).id;
    assert!(gate.find(&[id])[0].is_ok());
    let settled = gate.settle(&[Settle { id, epoch: 1, verdict: Verdict::Placed }]);
    assert_eq!(settled, [Ok(Settled::Done)]);
    let release = Change::Release(place(SKU, 1, 9, 1));
    let applied = gate.apply(&[OutboxRow { id: 1, sku: SKU, epoch: 1, change: release }]).remove(0);
    assert_eq!(applied.unwrap().what, Applied::Done);
    redis.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(available(&mut gate, SKU), 10);
    healthy(&mut gate);
    assert!(is_taken(&reserve(&mut gate, place(SKU, 99, 9, 1))));
}

#[test]
fn misconf_is_reported_while_the_snapshot_fails() {
    // A folder stands where the snapshot is to be written: saving fails, whoever we are.
    let (redis, mut gate) = ready(&["--dbfilename", "taken.rdb"]);
    std::fs::create_dir(redis.dir.path().join("taken.rdb")).unwrap();
    redis.command::<()>(&["CONFIG", "SET", "save", "3600 1000000"]);
    redis.command::<String>(&["BGSAVE"]);
    let failed = || {
        let info: String = redis.command(&["INFO", "persistence"]);
        info.contains("rdb_last_bgsave_status:err")
    };
    until("the snapshot fails", failed);
    refused(&mut gate, Why::DiskError);
    unhealthy(&mut gate, &Why::DiskError);
    assert_eq!(available(&mut gate, SKU), 10);
    std::fs::remove_dir(redis.dir.path().join("taken.rdb")).unwrap();
    redis.command::<String>(&["BGSAVE"]);
    until("the snapshot succeeds", || !failed());
    assert!(is_taken(&reserve(&mut gate, place(SKU, 99, 9, 1))));
}

#[test]
fn misconf_is_reported_while_the_log_can_not_be_written() {
    let dir = tempfile::tempdir().unwrap();
    // The log is a device that is always full.
    std::fs::create_dir(dir.path().join("appendonlydir")).unwrap();
    let log = dir.path().join("appendonlydir/appendonly.aof.1.incr.aof");
    std::os::unix::fs::symlink("/dev/full", log).unwrap();
    let redis = Redis::spawn(free_port(), dir, &["--appendonly", "yes"]);
    until("redis answers", || redis.pings());
    let mut gate = redis.gate();
    // Redis notices with the first write, which it has carried out already.
    drop(gate.build(SKU, &fresh(1, 10, None), &mut || ()));
    let seen = || {
        let info: String = redis.command(&["INFO", "persistence"]);
        info.contains("aof_last_write_status:err")
    };
    until("the log can't be written", seen);
    refused(&mut gate, Why::DiskError);
    refused(&mut gate, Why::DiskError);
    unhealthy(&mut gate, &Why::DiskError);
}

#[test]
fn busy_is_reported_while_a_script_runs_for_too_long() {
    let (redis, mut gate) = ready(&["--busy-reply-threshold", "50"]);
    let mut connection = redis.connect();
    let forever = std::thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection)
    });
    let busy = || {
        let ping = redis::cmd("PING").query::<String>(&mut redis.connect());
        ping.is_err_and(|error| error.code() == Some("BUSY"))
    };
    until("a script runs for too long", busy);
    refused(&mut gate, Why::Busy);
    unhealthy(&mut gate, &Why::Busy);
    redis.command::<()>(&["SCRIPT", "KILL"]);
    assert!(forever.join().unwrap().is_err());
    assert_eq!(available(&mut gate, SKU), 10);
    assert!(is_taken(&reserve(&mut gate, place(SKU, 99, 9, 1))));
}

#[test]
fn loading_is_reported_while_the_data_are_read() {
    // It reads slowly, and looks up from it often.
    let slowly = ["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"];
    let debug = ["--appendonly", "yes", "--enable-debug-command", "local"];
    let mut redis = Redis::start(&[slowly, debug].concat());
    redis.command::<()>(&["DEBUG", "POPULATE", "20000"]);
    redis.command::<String>(&["BGREWRITEAOF"]);
    until("the log is written", || {
        let info: String = redis.command(&["INFO", "persistence"]);
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });
    redis.kill();
    redis.start_again();
    let mut gate = redis.gate();
    until("it says that it is loading", || {
        reserve(&mut gate, place(SKU, 1, 9, 1)) == Err(GateError::NotExecuted(Why::Loading))
    });
    unhealthy(&mut gate, &Why::Loading);
}

#[test]
fn a_replica_is_no_gate_and_its_promotion_is_another_run() {
    promotion(Redis::start);
}

pub(super) fn promotion(start: impl Fn(&[&str]) -> Redis) {
    let master = start(&[]);
    let mut gate = master.gate();
    build(&mut gate, SKU, &fresh(1, 10, None));
    let replica = start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    until("the replica has all", || {
        let info: String = replica.command(&["INFO", "replication"]);
        info.contains("master_link_status:up") && replica.command::<i64>(&["EXISTS", "{db:00000001}:s"]) == 1
    });
    refused(&mut replica.gate(), Why::ReadOnly);
    let mut both =
        Gate::new(super::servers::config(vec![replica.address(), master.address()], Layout::Single));
    assert!(is_taken(&reserve(&mut both, place(SKU, 1, 9, 1))), "the one that is the master is used");

    let health = gate.health().remove(0);
    assert_eq!((health.fault, health.replicas.len()), (None, 1));

    // A fail-over with the old master alive: it becomes a replica of the new one.
    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    master.command::<()>(&["REPLICAOF", "127.0.0.1", &replica.port.to_string()]);
    unhealthy(&mut gate, &Why::ReadOnly);
    refused(&mut gate, Why::ReadOnly);
    let other_run = Err(GateError::Closed(server::gate::Closed::OtherRun));
    until("the new master is found", || reserve(&mut both, place(SKU, 2, 9, 1)) == other_run);
    build(&mut both, SKU, &fresh(2, 9, None));
    assert!(is_taken(&reserve(&mut both, place(SKU, 2, 9, 1))));
    assert_eq!(available(&mut both, SKU), 8);
}

#[test]
fn a_master_that_was_a_replica_in_between_is_another_run() {
    let (master, _) = ready(&[]);
    let mut gate = Gate::new(GateConfig { idle_check: Duration::ZERO, ..master.config() });
    let other = Redis::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let linked = |redis: &Redis| {
        let info: String = redis.command(&["INFO", "replication"]);
        info.contains("master_link_status:up")
    };
    until("the replica is linked", || linked(&other));
    other.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    // An order that only the old master has: the fail-over loses it.
    assert!(is_taken(&reserve(&mut gate, place(SKU, 1, 9, 1))));
    master.command::<()>(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    until("the old master follows", || linked(&master));
    master.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    // The same process with the same run_id is a master again, and the state was built for it.
    let got = reserve(&mut gate, place(SKU, 2, 9, 1));
    assert_eq!(got, Err(GateError::Closed(server::gate::Closed::OtherRun)));
}

#[test]
fn too_few_replicas_refuse_if_redis_is_configured_so() {
    let (redis, mut gate) = ready(&[]);
    redis.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    refused(&mut gate, Why::NoReplicas);
    unhealthy(&mut gate, &Why::NoReplicas);
    redis.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert!(is_taken(&reserve(&mut gate, place(SKU, 99, 9, 1))));
}

#[test]
fn a_wrong_or_missing_password_is_denied() {
    let (redis, mut gate) = ready(&[]);
    redis.command::<()>(&["ACL", "SETUSER", "shop", "on", ">secret", "~db:*", "~{db:*", "+@all"]);
    redis.command::<()>(&["ACL", "SETUSER", "poor", "on", ">secret", "~db:*", "~{db:*", "+@all", "-evalsha"]);
    let with = |user: Option<&str>, password: Option<&str>| {
        let mut config = redis.config();
        config.user = user.map(str::to_owned);
        config.password = password.map(str::to_owned);
        Gate::new(config)
    };
    assert!(is_taken(&reserve(&mut with(Some("shop"), Some("secret")), place(SKU, 1, 9, 1))));
    // What Redis says is reported: an operator has to find the cause in it.
    let denied = |gate: &mut Gate, text: &str| {
        let got = reserve(gate, place(SKU, 99, 9, 1));
        let Err(GateError::NotExecuted(why @ Why::Denied(_))) = got else { panic!("{got:?}") };
        assert!(why.to_string().contains(text), "{why}");
        unhealthy(gate, &why);
    };
    denied(&mut with(Some("shop"), Some("wrong")), "WRONGPASS");
    denied(&mut with(None, Some("secret")), "without any password configured for the default user");
    denied(&mut with(Some("poor"), Some("secret")), "no permissions to run the 'evalsha' command");
    redis.command::<()>(&["CONFIG", "SET", "requirepass", "other"]);
    denied(&mut with(None, None), "NOAUTH");
    assert!(is_taken(&reserve(&mut with(None, Some("other")), place(SKU, 2, 9, 1))));
    // A connection from before is signed in still.
    assert_eq!(available(&mut gate, SKU), 8);
}

#[test]
fn a_server_that_can_not_sign_in_never_makes_us_show_the_password() {
    // It repeats what it was sent, as it does for any command that it does not know.
    let redis = Redis::start(&["--rename-command", "AUTH", ""]);
    let mut gate = Gate::new(GateConfig { password: Some("secret".into()), ..redis.config() });
    let fault = server::gate::fault(&gate.health()).unwrap();
    assert!(fault.contains("AUTH") && !fault.contains("secret"), "{fault}");
}

#[test]
fn a_single_redis_that_is_taken_for_a_cluster_says_so() {
    let redis = Redis::start(&[]);
    let mut gate = Gate::new(GateConfig { layout: Layout::Cluster, ..redis.config() });
    let got = reserve(&mut gate, place(SKU, 99, 9, 1)).unwrap_err();
    let fault = server::gate::fault(&gate.health()).unwrap();
    for got in [got.to_string(), fault] {
        assert!(got.contains("cluster support disabled"), "{got}");
    }
}

#[test]
fn a_silent_server_leaves_it_unknown_and_a_dead_one_does_nothing() {
    let (mut redis, mut gate) = ready(&[]);
    let mut other = Gate::new(GateConfig { reply_timeout: Duration::from_secs(1), ..redis.config() });
    std::mem::swap(&mut gate, &mut other);
    assert_eq!(available(&mut gate, SKU), 10, "it is connected");
    redis.freeze();
    let requests: Vec<Reserve<'_>> = (0..300)
        .map(|hash| Reserve { placement: place(SKU, hash, 9, 1), limit: None, record: b"" })
        .collect();
    let answers = gate.reserve(&requests, None);
    // Two batches of 64 were written, and the rest was not.
    let (written, rest) = answers.split_at(128);
    assert!(written.iter().all(|got| *got == Err(GateError::Unknown(Why::TimedOut))), "{written:?}");
    assert!(rest.iter().all(|got| *got == Err(GateError::NotExecuted(Why::TimedOut))), "{rest:?}");
    redis.thaw();
    // It had the commands, and carries them out although nobody is there to hear it: unknown, not failed.
    until("what was written is carried out", || available(&mut other, SKU) == 0);
    let again = other.reserve(&requests, None);
    assert!(again[..10].iter().all(|got| matches!(
        got,
        Ok(server::gate::GateAnswer { what: server::gate::Reserved::Open(_), .. })
    )));

    redis.kill();
    let got = reserve(&mut other, place(SKU, 99, 9, 1));
    assert_eq!(got, Err(GateError::Unknown(Why::ConnectionLost)));
    refused(&mut other, Why::Unreachable);
}

#[test]
fn what_a_silent_server_owes_is_not_taken_for_the_answer_to_something_else() {
    const SKUS: [SkuId; 3] = [SkuId(1), SkuId(2), SkuId(3)];
    let redis = Redis::start(&[]);
    let patience = Duration::from_secs(1);
    let mut gate =
        Gate::new(GateConfig { reply_timeout: patience, idle_check: patience * 100, ..redis.config() });
    for (sku, units) in SKUS.into_iter().zip([10, 20, 30]) {
        build(&mut gate, sku, &fresh(1, units, None));
    }
    for asks_for_the_time in [true, false] {
        redis.freeze();
        if asks_for_the_time {
            assert!(gate.times().is_empty());
        } else {
            assert!(server::gate::fault(&gate.health()).is_some());
        }
        redis.thaw();
        until("it answers again", || gate.states(&SKUS).iter().all(Result::is_ok));
        for (sku, units) in SKUS.into_iter().zip([10, 20, 30]) {
            assert_eq!(available(&mut gate, sku), units, "{sku:?}");
        }
        healthy(&mut gate);
        let before = wall_clock();
        let [read] = &gate.times()[..] else { panic!("one master has a clock") };
        assert!((before..=wall_clock()).contains(&read.at), "{read:?} after {before:?}");
    }
}

#[test]
fn the_policy_of_a_full_memory_must_be_to_refuse() {
    let (redis, mut gate) = ready(&[]);
    assert_eq!(server::gate::fault(&gate.health()), None);
    redis.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let fault = server::gate::fault(&gate.health()).unwrap();
    assert!(fault.contains("maxmemory-policy is allkeys-lru"), "{fault}");
}

#[test]
fn what_redis_keeps_is_read_back_and_what_it_does_not_show_is_not_guessed() {
    let redis = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    redis.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    let shown = |gate: &mut Gate| gate.health()[0].settings.to_string();
    let address = redis.address();
    assert_eq!(
        shown(&mut redis.gate()),
        format!("redis {address}: appendonly = yes, appendfsync = always, min-replicas-to-write = 0")
    );
    redis.command::<()>(&["ACL", "SETUSER", "shop", "on", ">secret", "~*", "+@all", "-config"]);
    let (user, password) = (Some("shop".to_owned()), Some("secret".to_owned()));
    let mut gate = Gate::new(GateConfig { user, password, ..redis.config() });
    let text = shown(&mut gate);
    for name in ["appendfsync", "min-replicas-to-write"] {
        let expected = format!("{name} can't be read (it refuses us: ");
        assert!(text.contains(&expected) && text.contains("no permissions to run the 'config"), "{text}");
    }
    assert_eq!(server::gate::fault(&gate.health()), None, "orders go on");
}
