//! Each scenario once with sizes of almost nothing, on real servers: that it runs, audits and fills its report.

use std::fs::{self, File};
use std::net::TcpListener;
use std::time::Duration;

use super::case::{Session, Sweep, workload};
use super::nodes::Nodes;
use super::server::{Subject, no_persistence};
use super::{cluster, get_set, hot_key, memory, persistence, pipelining, recovery, reserve};
use crate::drivers::redis::Workload;
use crate::drivers::redis::keys::Order;
use crate::drivers::redis::slots::{self, SlotMap};
use crate::experiments::{Addresses, ScenarioContext, Target};
use crate::load::record::Outcomes;
use crate::load::schedule::Schedule;
use crate::report::model::{ScenarioReport, Shape};
use crate::target::engines::redis::Redis;

const WINDOW: Duration = Duration::from_millis(100);

/// A context with ports that no other test has, and the lock that keeps them: the other tests lock the same files.
fn context() -> (ScenarioContext, tempfile::TempDir, File) {
    let locks = std::env::temp_dir().join("doorbuster-test-ports");
    fs::create_dir_all(&locks).unwrap();
    let free = |base: u16| (base..base + 100).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    let (port_base, lock) = (22_000..32_000)
        .step_by(100)
        .rev()
        .find_map(|base| {
            let lock = File::create(locks.join(base.to_string())).unwrap();
            (lock.try_lock().is_ok() && free(base)).then_some((base, lock))
        })
        .expect("free ports");
    let folder = tempfile::tempdir().unwrap();
    let context = ScenarioContext {
        repeats: 2,
        target: Target::Spawn,
        port_base,
        ..crate::experiments::context_at(([127, 0, 0, 1], 9).into(), folder.path())
    };
    (context, folder, lock)
}

/// The published figure beside the first metric of each case.
fn published(report: &ScenarioReport) -> Vec<Option<f64>> {
    report.cases.iter().map(|case| case.metrics[0].published.as_ref().map(|of| of.value)).collect()
}

/// Every metric has a figure for each repeat, every case is there once, and something was measured.
fn check(report: &ScenarioReport, cases: usize) {
    let mut names: Vec<_> = report.cases.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases, "{names:?}");
    assert_eq!(report.cases.len(), cases);
    for case in &report.cases {
        assert!(!case.metrics.is_empty(), "{}", case.name);
        // On a machine that is busy with something else no trial may be valid, and then there is no figure.
        let disturbed = !case.trials.is_empty() && case.valid().next().is_none();
        for metric in &case.metrics {
            let has_figures = !metric.values.is_empty() || disturbed;
            assert!(has_figures && metric.values.len() <= 2, "{} {metric:?}", case.name);
        }
        assert!(
            case.metrics[0].values.iter().all(|value| *value > 0.0),
            "{} {:?}",
            case.name,
            case.metrics[0]
        );
        for trial in &case.trials {
            assert_eq!(trial.outcomes.bad(), 0, "{}: {:?}", case.name, trial.first_surprise);
        }
        let repeats = case.trials.iter().map(|trial| trial.repeat);
        assert!(repeats.eq(1..=case.trials.len()), "{}: repeats are numbered from 1", case.name);
    }
    assert!(!report.engines.is_empty());
}

#[test]
fn get_and_set() {
    let (context, _folder, _ports) = context();
    let report = get_set::run(&context, WINDOW).unwrap();
    check(&report, 8);
    assert_eq!(report.engines[0].settings["appendfsync"], "everysec");
    assert!(report.shapes.iter().all(|shape| shape.measured != "its cases were not run"));
    let rates = [55_447.74, 55_447.74, 72_411.30, 72_411.30, 59_541.53, 59_541.53];
    assert_eq!(published(&report)[..6], rates.map(Some));
    assert_eq!(published(&report)[6..], [None, None], "nobody published a busy script");
    for (name, wanted) in [("mean", 1231.0), ("max", 8415.0)] {
        let metric = report.cases[0].metrics.iter().find(|of| of.name == name).unwrap();
        assert_eq!(metric.published.as_ref().unwrap().value, wanted);
    }
    let second_host = "32 GB: SET 157729/s (mean 0.338 ms";
    assert!(report.notes.iter().any(|note| note.contains(second_host)), "{:?}", report.notes);
    assert!(report.limiter.is_some());
}

#[test]
fn hot_key() {
    let (context, _folder, _ports) = context();
    let sizes = Sweep { window: 3 * WINDOW, at: vec![10, 150] };
    let report = hot_key::run(&context, &sizes).unwrap();
    check(&report, 2);
    let instantaneous =
        report.cases[1].metrics.iter().find(|of| of.name == "instantaneous_ops_per_sec").unwrap();
    assert_eq!(instantaneous.published.as_ref().unwrap().value, 8350.0);
    for name in ["used_cpu_sys per INCR", "used_cpu_user per INCR"] {
        let cpu = report.cases[0].metrics.iter().find(|of| of.name == name).unwrap();
        // No INCR takes a millisecond of a processor; a run of them together does.
        assert!(cpu.values.iter().all(|us| (0.0..1000.0).contains(us)), "{cpu:?}");
        assert!(cpu.published.as_ref().unwrap().dubious.is_some());
    }
}

#[test]
fn persistence_under_each_policy() {
    let (context, _folder, _ports) = context();
    let sizes =
        persistence::Sizes { single: vec![100, 200], single_synced: vec![50, 60], pipelined: vec![10_000] };
    let report = persistence::run(&context, &sizes).unwrap();
    check(&report, 6 * 3);
    assert_eq!(report.engines.len(), 7);
    let unmeasured = |shape: &Shape| shape.measured == "its cases were not run";
    assert!(!report.shapes.iter().any(unmeasured), "{:?}", report.shapes);
    assert_eq!(published(&report)[..4], [Some(2538.0), Some(2705.0), Some(131_611.0), Some(2840.0)]);
    let forks = |case: &&crate::report::model::Case| {
        case.metrics.iter().any(|metric| metric.name == "latest_fork_usec" && metric.values[0] > 0.0)
    };
    assert_eq!(report.cases.iter().filter(forks).count(), 3);
}

#[test]
fn pipelines() {
    let (context, _folder, _ports) = context();
    let sizes = Sweep { window: 3 * WINDOW, at: vec![1, 100, 10_000] };
    let report = pipelining::run(&context, &sizes).unwrap();
    check(&report, 3);
    assert!(report.cases.iter().all(|case| case.trials.len() == 2));
}

#[test]
fn memory_of_keys() {
    let (context, _folder, _ports) = context();
    let report = memory::run(&context, &[10_000, 20_000]).unwrap();
    check(&report, 2);
    let per_key = &report.cases[1].metrics[1];
    assert_eq!(per_key.name, "memory per key");
    assert!(per_key.values.iter().all(|bytes| (40.0..200.0).contains(bytes)), "{per_key:?}");
}

#[test]
fn recovery_gives_back_what_was_written() {
    let (context, _folder, _ports) = context();
    let report = recovery::run(&context, &recovery::Sizes { keys: 20_000, window: WINDOW }).unwrap();
    let left_out = report.notes.iter().filter(|note| note.starts_with("Left out")).count();
    assert_eq!(report.cases.len() + left_out, 5, "{:?}", report.notes);
    assert!(report.cases.len() >= 3);
    let reads = report.cases.last().unwrap();
    assert_eq!(reads.name, "read latency, 20000 keys");
    // A key that is not there would be a failure.
    for trial in &reads.trials {
        assert!(trial.outcomes.served > 0 && trial.outcomes.bad() == 0, "{:?}", trial.first_surprise);
    }
    assert!(report.limiter.is_some());
}

#[test]
fn a_cluster_and_then_the_same_one_as_if_it_were_somebodys() {
    let (mut context, _folder, _ports) = context();
    let sizes = cluster::Sizes {
        window: Some(WINDOW),
        threads: vec![5, 20],
        values: vec![10, 10_000],
        keys: vec![10, 1000],
        read_keys: 500,
        swap_operations: 10,
    };
    let report = cluster::run(&context, &sizes).unwrap();
    let swapping = report.cases.iter().filter(|case| case.series == "swap").count();
    check(&report, 2 + 2 + 2 + 3 + swapping);
    assert_eq!(report.engines.len(), 2 + 2 * 3);
    let known = published(&report).into_iter().filter(Option::is_some).count();
    assert_eq!((published(&report)[0], known), (Some(9704.0), 2 + 2 + 2 + 3));

    let nodes = Nodes::of(&context).unwrap();
    let member = *nodes.slots().unwrap().masters.last().unwrap();
    let map = SlotMap::read(member, None).unwrap();
    assert_eq!(map.masters.len(), 3);
    let mut masters: Vec<Redis> = map.masters.iter().map(|of| Redis::connect(*of).unwrap()).collect();
    let mut protect = |password| {
        for redis in &mut masters {
            redis.exec(&["CONFIG", "SET", "requirepass", password]).unwrap();
        }
    };
    protect("a secret");
    assert!(SlotMap::read(member, None).is_err() && SlotMap::read(member, Some("a guess")).is_err());
    context.target = Target::Running(Addresses {
        redis_cluster: Some(member),
        redis_password: Some("a secret".to_owned()),
        ..Addresses::default()
    });
    let report = cluster::run(&context, &sizes).unwrap();
    check(&report, 2 + 2 + 2);
    protect("");
    assert_eq!(nodes.keys().unwrap(), 0);
    context.target = Target::Spawn;
    a_slot_that_moves_is_followed(&context, &nodes);
}

/// The driver's map is from before the move: each user is refused at most once, and no increment is lost.
fn a_slot_that_moves_is_followed(context: &ScenarioContext, nodes: &Nodes) {
    const USERS: u64 = 5;
    let old = nodes.slots().unwrap();
    let slot = slots::slot(b"hot").to_string();
    let mut masters: Vec<Redis> = old.masters.iter().map(|of| Redis::connect(*of).unwrap()).collect();
    let to = (old.lane(b"hot") + 1) % masters.len();
    let name: String = masters[to].query(&["CLUSTER", "MYID"]).unwrap();
    // The new owner first, so that the slot is somebody's at any time.
    let order = [to, (to + 1) % 3, (to + 2) % 3];
    for index in order {
        masters[index].exec(&["CLUSTER", "SETSLOT", &slot, "NODE", &name]).unwrap();
    }
    let session = Session::new(context, &old.masters, Vec::new());
    let workload = Workload { slots: Some(old), ..workload("INCR hot", "", 1, 1, Order::Random).unwrap() };
    let (trial, _) =
        session.run(usize::try_from(USERS).unwrap(), workload, Schedule::closed_requests(1000), 0).unwrap();
    let Outcomes { served, failed, .. } = trial.outcomes;
    assert!((1..=USERS).contains(&failed) && served == 1000 - failed, "{:?}", trial.outcomes);
    assert!(trial.first_surprise.unwrap().starts_with("MOVED"));
    assert_eq!(masters[to].query::<u64>(&["GET", "hot"]).unwrap(), served);
}

#[test]
fn the_reserve_script_sells_what_there_is() {
    let (context, _folder, _ports) = context();
    let sizes = Sweep { window: 5 * WINDOW, at: vec![1, 64] };
    let report = reserve::run(&context, &sizes).unwrap();
    check(&report, 3);
    let audit = report.audit.unwrap();
    assert_eq!(audit.initial_units, audit.remaining_units + audit.held_units);
    assert!(audit.accepted > 0 && audit.accepted == audit.orders);
}

/// Nothing of somebody else's server is touched: neither its settings nor its keys.
#[test]
fn a_server_that_runs_already_keeps_what_it_has() {
    let (mut context, _folder, _ports) = context();
    let server = Subject::of(&context, no_persistence()).unwrap();
    let mut redis = server.client().unwrap();
    redis.exec(&["SET", "theirs", "1"]).unwrap();
    // This connection stays as it is; every other one needs the password from here on.
    redis.exec(&["CONFIG", "SET", "requirepass", "a secret"]).unwrap();
    assert!(Redis::connect(server.address).unwrap().exec(&["PING"]).is_err());
    context.target = Target::Running(Addresses {
        redis: Some(server.address),
        redis_password: Some("a secret".to_owned()),
        ..Addresses::default()
    });
    context.repeats = 1;
    check(&get_set::run(&context, WINDOW).unwrap(), 8);
    let sizes = Sweep { window: WINDOW, at: vec![10] };
    check(&hot_key::run(&context, &sizes).unwrap_or_else(|error| panic!("{error:#}")), 1);
    let sizes = persistence::Sizes { single: vec![100], single_synced: vec![50], pipelined: vec![10_000] };
    check(&persistence::run(&context, &sizes).unwrap(), 2);
    let sizes = Sweep { window: WINDOW, at: vec![1] };
    check(&pipelining::run(&context, &sizes).unwrap(), 1);
    check(&memory::run(&context, &[10_000]).unwrap(), 1);
    let sizes = Sweep { window: WINDOW, at: vec![1] };
    check(&reserve::run(&context, &sizes).unwrap(), 2);
    let left_out = recovery::run(&context, &recovery::Sizes { keys: 1000, window: WINDOW }).unwrap();
    assert!(left_out.cases.is_empty() && left_out.notes[0].starts_with("Left out"));
    assert_eq!(redis.query::<Vec<String>>(&["KEYS", "*"]).unwrap(), ["theirs"]);
    assert_eq!(redis.setting("appendonly").unwrap(), "no");
}
