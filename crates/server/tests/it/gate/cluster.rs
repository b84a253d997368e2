//! A real Redis Cluster: slots that move, masters that die, replicas that take over.

use std::time::{Duration, Instant};

use engine::SkuId;
use server::gate::{Closed, Gate, GateConfig, GateError, Reserve, Why};

use super::servers::{Cluster, PATIENCE, until};
use super::{available, build, fresh, is_taken, place, reserve, reserve_of};

/// SKUs, enough that every master of three has some.
const SKUS: u32 = 24;
/// Where it is waited for that a node is taken for dead.
const NODE_TIMEOUT_MS: &str = "1500";

fn build_all(gate: &mut Gate, epoch: u64) {
    for sku in 0..SKUS {
        build(gate, SkuId(sku), &fresh(epoch, 1_000_000, None));
    }
}

/// One order of every SKU, under this hash.
fn order_all(gate: &mut Gate, hash: u128) -> Vec<Result<(), GateError>> {
    let requests: Vec<Reserve<'_>> = (0..SKUS)
        .map(|sku| Reserve { placement: place(SkuId(sku), hash, 9, 1), limit: None, record: b"r" })
        .collect();
    gate.reserve(&requests, None)
        .into_iter()
        .map(|answer| answer.map(|answer| assert!(is_taken(&Ok(answer.clone())), "{answer:?}")))
        .collect()
}

#[test]
fn a_batch_goes_to_every_master_and_moved_slots_are_followed() {
    let cluster = Cluster::start(3, 0);
    let mut gate = cluster.gate();
    build_all(&mut gate, 1);
    assert!(order_all(&mut gate, 1).iter().all(Result::is_ok));
    let sizes: Vec<i64> = cluster.nodes.iter().map(|node| node.command(&["DBSIZE"])).collect();
    assert!(sizes.iter().all(|size| *size >= 4), "{sizes:?}");
    assert_eq!(server::gate::fault(&gate.health()), None);

    // A slot without keys moves, unseen by the client: MOVED, and the same call is answered.
    let sku = SkuId(1_000);
    let slot = cluster.slot_of(sku);
    let (from, to) = cluster.owner_and_another(slot);
    cluster.assign(slot, to);
    build(&mut gate, sku, &fresh(1, 5, None));
    assert!(is_taken(&reserve(&mut gate, place(sku, 1, 9, 1))));
    assert_eq!(cluster.nodes[to].command::<i64>(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]), 3);
    assert_eq!(cluster.nodes[from].command::<i64>(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]), 0);
}

#[test]
fn all_keys_of_a_prefix_are_removed_from_every_master_and_no_others() {
    let cluster = Cluster::start(3, 0);
    let mut gate = cluster.gate();
    let mut own = Gate::new(GateConfig { key_prefix: "db_rehearsal".to_owned(), ..cluster.config() });
    build_all(&mut gate, 1);
    let keys = |node: usize| cluster.nodes[node].command::<i64>(&["DBSIZE"]);
    let before = [0, 1, 2].map(keys);
    build_all(&mut own, 1);
    own.want(&[SkuId(1)]).unwrap();
    assert!([0, 1, 2].map(keys).iter().zip(before).all(|(now, before)| *now > before));
    // The second time there are none.
    for _ in 0..2 {
        own.remove_all().unwrap();
        assert_eq!([0, 1, 2].map(keys), before);
    }
    assert!(order_all(&mut gate, 1).iter().all(Result::is_ok));
}

#[test]
fn a_slot_that_is_being_moved_is_asked_for_and_its_gate_is_of_another_run() {
    let cluster = Cluster::start(3, 0);
    let mut gate = cluster.gate();
    let sku = SkuId(7);
    build(&mut gate, sku, &fresh(1, 5, Some(9)));
    assert!(is_taken(&reserve_of(&mut gate, place(sku, 1, 9, 1), Some(9))));
    let slot = cluster.slot_of(sku);
    let (from, to) = cluster.owner_and_another(slot);
    cluster.begin_move(slot, from, to);

    // All keys are here still: as before. Some have gone: TRYAGAIN, and in the end the caller is answered that nothing was
    // done. (A gate without a limit has no buyers' key: it is answered so from the beginning of a move to its end.)
    assert!(is_taken(&reserve_of(&mut gate, place(sku, 2, 9, 1), Some(9))));
    cluster.migrate(sku, "b", from, to);
    let got = reserve_of(&mut gate, place(sku, 3, 9, 1), Some(9));
    assert_eq!(got, Err(GateError::NotExecuted(Why::SlotMoving)));
    // All have gone: ASK, and there the state is one of another run.
    for key in ["s", "k", "t"] {
        cluster.migrate(sku, key, from, to);
    }
    assert_eq!(reserve_of(&mut gate, place(sku, 3, 9, 1), Some(9)), Err(GateError::Closed(Closed::OtherRun)));
    cluster.assign(slot, to);
    assert_eq!(reserve_of(&mut gate, place(sku, 3, 9, 1), Some(9)), Err(GateError::Closed(Closed::OtherRun)));
    assert_eq!(cluster.nodes[to].command::<i64>(&["HGET", "{db:00000007}:s", "avail"]), 3);
    build(&mut gate, sku, &fresh(2, 3, None));
    assert!(is_taken(&reserve(&mut gate, place(sku, 3, 9, 1))));
}

/// Its gates are read as before, and nothing can be reserved there.
#[test]
fn a_full_master_is_at_fault_for_what_it_has_and_the_others_are_not() {
    let cluster = Cluster::start(3, 0);
    let mut gate = cluster.gate();
    build_all(&mut gate, 1);
    cluster.nodes[0].command::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let nodes = gate.health();
    let mut at_fault = 0;
    for sku in (0..SKUS).map(SkuId) {
        let (owner, _) = cluster.owner_and_another(cluster.slot_of(sku));
        assert_eq!(gate.is_at_fault(&nodes, sku), owner == 0, "{sku:?}: {nodes:?}");
        at_fault += u32::from(owner == 0);
    }
    assert!((1..SKUS).contains(&at_fault), "{at_fault}");
    assert!(gate.states(&[SkuId(0)])[0].as_ref().is_ok_and(Option::is_some));
}

#[test]
fn a_dead_master_without_a_replica_takes_its_slots_down_and_is_reported_at_once() {
    let mut cluster = Cluster::start(3, 0);
    let mut gate = cluster.gate();
    build_all(&mut gate, 1);
    cluster.nodes[0].kill();
    let first = order_all(&mut gate, 1);
    let unknown = |got: &&Result<(), GateError>| matches!(got, Err(GateError::Unknown(_)));
    assert!(first.iter().any(|got| got.is_ok()), "the other masters answer");
    assert!(first.iter().filter(unknown).count() > 0, "what was written to the dead one is unknown");
    // Then nothing is written to it, and in the end the cluster says that it is down.
    let second = order_all(&mut gate, 2);
    assert!(second.iter().filter(unknown).count() == 0, "{second:?}");
    let down = Err(GateError::NotExecuted(Why::ClusterDown));
    // Only now: while so short a time is enough, nodes that get no processor are taken for dead as well.
    for node in &cluster.nodes[1..] {
        node.command::<()>(&["CONFIG", "SET", "cluster-node-timeout", NODE_TIMEOUT_MS]);
    }
    let mut hash = 3;
    let mut last = Vec::new();
    let started = Instant::now();
    while !last.contains(&down) {
        assert!(started.elapsed() < PATIENCE, "the cluster is never down: {last:?}");
        hash += 1;
        last = order_all(&mut gate, hash);
    }
    assert!(server::gate::fault(&gate.health()).is_some());
}

#[test]
fn a_replica_takes_over_and_its_gates_are_rebuilt() {
    let cluster = Cluster::start(3, 1);
    let mut gate = Gate::new(GateConfig { reply_timeout: Duration::from_secs(1), ..cluster.config() });
    build_all(&mut gate, 1);
    assert!(order_all(&mut gate, 1).iter().all(Result::is_ok));
    // The slots of a master that is frozen: the other masters serve on, and its replica takes over.
    cluster.nodes[0].freeze();
    let got = order_all(&mut gate, 2);
    assert!(
        got.iter().any(Result::is_ok) && got.contains(&Err(GateError::Unknown(Why::TimedOut))),
        "{got:?}"
    );
    // By command: a vote would need nodes that take each other for dead after a second, which on a busy machine they do at
    // any other time, too.
    cluster.nodes[3].command::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    let other_run = Err(GateError::Closed(Closed::OtherRun));
    let mut hash = 3;
    until("the replica has taken over", || {
        hash += 1;
        order_all(&mut gate, hash).contains(&other_run)
    });
    let states = gate.states(&(0..SKUS).map(SkuId).collect::<Vec<_>>());
    let mut rebuilt = 0;
    for (sku, state) in (0..SKUS).map(SkuId).zip(states) {
        if state.unwrap().unwrap().closed == Some(Closed::OtherRun) {
            build(&mut gate, sku, &fresh(2, 10, None));
            rebuilt += 1;
        }
    }
    assert!(rebuilt > 0);
    assert!(order_all(&mut gate, 100).iter().all(Result::is_ok));
    // The old master comes back, finds that it is none any more, and its connection is of no use.
    cluster.nodes[0].thaw();
    until("it is a replica", || {
        let info: String = cluster.nodes[0].command(&["INFO", "replication"]);
        info.contains("role:slave")
    });
    assert!(order_all(&mut gate, 101).iter().all(Result::is_ok));
    assert!(available(&mut gate, SkuId(0)) > 0);
}
