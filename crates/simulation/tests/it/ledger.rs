//! The ledger in memory beside the one on a real MariaDB: the same calls must be answered alike.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use engine::handover::{Grant, Reservation};
use engine::working_set::Operation;
use engine::{Book, Command, OrderId, Placement, Seq, SkuId, UnixMs};
use server::ledger::mysql::cluster::{
    ClusterLedger, Holder, LedgerError, Marks, Progress, QUEUE_LEASE_MS, SharedLedger,
};
use simulation::ledger::Database as Simulated;

use crate::history::{Random, commands, text_of};
use crate::places::Database;

const START: u64 = 1_000;
const QUEUES: [&str; 3] = ["a/0", "a/1", "b/0"];
const SERVERS: u64 = 3;
const ROUNDS: usize = 60;

/// From then on a queue may be nobody's in one of the two, and still be its server's in the other.
const LEASES_HOLD: Duration = Duration::from_millis(QUEUE_LEASE_MS);

struct Both {
    /// The real one first.
    ledgers: [Box<dyn ClusterLedger>; 2],
    /// When each server has leased its queues.
    leased: BTreeMap<u64, Instant>,
    /// Nothing is compared any more.
    too_slow: bool,
}

impl Both {
    /// The same of both, but for the texts of failures.
    #[track_caller]
    fn ask<T: Debug>(
        &mut self,
        what: &str,
        mut call: impl FnMut(&mut dyn ClusterLedger) -> Result<T, LedgerError>,
    ) -> T {
        let [real, simulated] = self.ledgers.each_mut().map(|ledger| call(&mut **ledger));
        self.too_slow |= self.leased.values().any(|at| at.elapsed() >= LEASES_HOLD);
        let text = |answer: &Result<T, LedgerError>| match answer {
            Ok(value) => format!("{value:?}"),
            Err(LedgerError::Fenced(what)) => format!("fenced: {what}"),
            Err(error) => panic!("{what}: {error}"),
        };
        let (simulated, answer) = (text(&simulated), text(&real));
        assert!(self.too_slow || simulated == answer, "{what}: {simulated} and not {answer}");
        real.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    fn consume(&mut self, now: UnixMs, progress: &[Progress], places: &[Placement]) {
        let order = |place: &Placement| Reservation {
            placement: *place,
            buyer_text: text_of(place.buyer),
            epoch: place.id.hash as u64 % 3,
            reserved_at: now,
            address: Some(b"{}"[..].into()),
        };
        let orders: Vec<_> = places.iter().map(order).collect();
        let asked = self.ask("consume", |ledger| ledger.consume(now, &[], &orders, &|_| None));
        // Half of them have their units at the gate of now.
        let mut orders = orders;
        for order in orders.iter_mut().filter(|order| !order.placement.id.hash.is_multiple_of(2)) {
            if asked.as_ref().err().is_some_and(|ask| ask.contains(&order.placement.id)) {
                order.epoch = u64::from(u32::MAX);
            }
        }
        let refuse = |_| Some(engine::Refusal::SoldOut);
        drop(self.ask("consume again", |ledger| ledger.consume(now, progress, &orders, &refuse)));
    }

    fn execute(&mut self, now: UnixMs, commands: &[Command]) {
        let operation = |(number, command): (usize, &Command)| {
            let grant = [Grant::NotAsked, Grant::Taken { epoch: 1 }, Grant::SoldOut, Grant::OverLimit];
            Operation::of(command.clone(), grant[number % 4]).unwrap()
        };
        let operations: Vec<_> = commands.iter().enumerate().map(operation).collect();
        self.ask("execute", |ledger| ledger.execute(now, &operations));
    }

    fn look(&mut self) {
        self.ask("the end", |ledger| ledger.end());
        self.ask("stocks", |ledger| ledger.stocks());
        self.ask("stocks of two", |ledger| ledger.stocks_of(&[SkuId(1), SkuId(2)]));
        self.ask("entries", |ledger| ledger.sale_entries(Seq(3)));
        self.ask("the outbox", |ledger| ledger.outbox(1_000, 2));
        self.ask("rows of the outbox", |ledger| ledger.outbox_len(Some(SkuId(1))));
        self.ask("refunds", |ledger| ledger.refunds_due(Seq(2), 5));
        self.ask("refunds counted", |ledger| ledger.refunds_due_count());
        self.ask("adjustments", |ledger| {
            (0..5)
                .map(|key| ledger.has_adjustment(SkuId(0), &format!("key-{key}")))
                .collect::<Result<Vec<_>, _>>()
        });
        self.ask("operators", |ledger| ledger.operators());
        let ids: Vec<_> =
            (0..4).flat_map(|sku| (0..300).map(move |hash| OrderId { sku: SkuId(sku), hash })).collect();
        self.ask("orders", |ledger| ledger.lookup(&ids));
        self.ask("addresses", |ledger| {
            let mut kept = ledger.kept_addresses(&ids)?;
            kept.sort_by_key(|(id, _)| *id);
            Ok(kept)
        });
    }

    fn rebuild(&mut self) {
        let skus = [SkuId(0), SkuId(1), SkuId(2), SkuId(9)];
        let raised = self.ask("epochs", |ledger| ledger.raise_epochs(&skus));
        self.ask("marks", |ledger| {
            let mut portions = Marks::of_run(&raised, 7);
            let mut marks = Vec::new();
            while let Some(portion) = portions.next(ledger)? {
                marks.push(portion);
            }
            Ok(marks)
        });
    }

    /// Whose a queue is does not depend on how fast one of the two is.
    fn share(&mut self, random: &mut Random) -> Vec<(u64, Progress)> {
        let server = 1 + random.below(SERVERS);
        let reached: Vec<_> = QUEUES
            .map(|queue| (queue.to_owned(), 5))
            .into_iter()
            .take(1 + random.below(3) as usize)
            .collect();
        let begun = Instant::now();
        self.ask("a sign of life", |ledger| ledger.heartbeat(server, &format!("server-{server}")));
        let mine = self.ask("queues", |ledger| ledger.lease_queues(server, &reached));
        // Until here it was what it had before that could end.
        self.leased.insert(server, begun);
        if random.below(6) == 0 {
            self.ask("leaving", |ledger| ledger.leave(server));
            self.leased.remove(&server);
        }
        self.ask("rows of queues", |ledger| {
            let mut rows = ledger.queue_rows()?;
            // Who left has no address, by a name or another.
            rows.iter_mut().for_each(|row| {
                if row.holder == Holder::Server(String::new()) {
                    row.holder = Holder::Nobody;
                }
            });
            Ok(rows)
        });
        let progress = |assigned: server::ledger::mysql::cluster::Assignment| {
            let (from, owner, generation) = (assigned.next_offset, server, assigned.generation);
            (server, Progress { queue: assigned.queue, owner, generation, from, to: from + random.below(4) })
        };
        mine.into_iter().map(progress).collect()
    }

    fn tasks(&mut self, random: &mut Random) {
        let (server, name) = (1 + random.below(SERVERS), ["one", "two"][random.below(2) as usize]);
        let lease = self.ask("a task", |ledger| ledger.lease(name, server, 60_000));
        if let Some(lease) = lease.filter(|_| random.below(3) == 0) {
            self.ask("a task given back", |ledger| ledger.release(&lease));
        }
    }
}

fn history(seed: u64) {
    let database = Database::shared();
    let simulated = Simulated::new(UnixMs(START), seed);
    let real = SharedLedger::open(&database.options).unwrap();
    let ledgers: [Box<dyn ClusterLedger>; 2] = [Box::new(real), Box::new(simulated.connect("server"))];
    let mut both = Both { ledgers, leased: BTreeMap::new(), too_slow: false };
    let (mut random, mut book, mut at) = (Random(seed), Book::new(), START);
    for round in 0..ROUNDS {
        at += random.below(60);
        let now = UnixMs(at);
        let (mut places, mut others) = (Vec::new(), Vec::new());
        for command in commands(&mut random, &book) {
            // What comes next depends on how it stands by the rules of one server: near enough.
            drop(book.execute(now, command.clone()));
            match command {
                Command::Place(place) => places.push(place),
                Command::CreateSale(mut spec) => {
                    spec.open_holds_per_buyer_max = None;
                    others.push(Command::CreateSale(spec));
                }
                other => others.push(other),
            }
        }
        both.execute(now, &others);
        let shared = both.share(&mut random);
        let progress: Vec<_> = shared.into_iter().map(|(_, progress)| progress).collect();
        // Of the server that leased queues last; if it left, it is fenced.
        let fenced = both.ledgers.each_mut().map(|ledger| {
            let consumed = ledger.consume(now, &progress, &[], &|_| None);
            matches!(consumed, Err(LedgerError::Fenced(_)))
        });
        if both.too_slow {
            return;
        }
        assert_eq!(fenced[0], fenced[1], "fenced");
        both.consume(now, &[], &places);
        both.ask("what expires", |ledger| ledger.expire_due(now, 3));
        both.tasks(&mut random);
        if round % 10 == 9 {
            both.rebuild();
            let done: Vec<_> =
                both.ask("the outbox", |ledger| ledger.outbox(4, 0)).iter().map(|row| row.id).collect();
            both.ask("changes that the gate has", |ledger| ledger.outbox_done(&done));
        }
        both.look();
    }
    assert!(book.orders_len() > 20, "{} orders", book.orders_len());
}

#[test]
fn it_answers_as_the_real_one_does() {
    for seed in 0..3 {
        history(seed);
    }
}
