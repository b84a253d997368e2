//! The three loads of a peer, and what its store has after each.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::orders::Orders;
use super::{Kind, Order, Peer, PeersOptions, Played};
use crate::audit::Answered;
use crate::audit::receipts::Receipts;
use crate::drivers::http::{Heard, Http, Workload};
use crate::host::environment;
use crate::load::choice::Random;
use crate::load::mid_load::wait_for_an_order;
use crate::load::record::Record;
use crate::load::schedule::Schedule;
use crate::load::{Generator, RunError, Settings, Trial};
use crate::measure::trial;

/// Of the requests that come to the sale, so many of a hundred are its units: the last buyers find it sold out.
const UNITS_PERCENT: u64 = 70;
/// More than any peer sells each second on the machines that this is run on.
const PEAK_UNITS_PER_S: u64 = 200_000;
/// In flight at once at a stated rate.
const IN_FLIGHT_MAX: usize = 4000;
/// A killed peer is killed between these parts of the load.
const KILL_FROM_PERCENT: u64 = 20;
const KILL_TO_PERCENT: u64 = 70;
/// What is under way at a kill has no answer any more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections are open, and code is warm, after so much of a product that is not counted.
const WARM_UP: Duration = Duration::from_millis(500);

const WARMED: u64 = 1;
const SOLD_OUT: u64 = 2;
const PEAK: u64 = 3;
const KILLED: u64 = 4;

/// What buyers were answered, and what the store has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Books {
    pub units: u64,
    pub orders: u64,
    pub accepted: u64,
    /// Requests without an answer: each is an order or is none.
    pub unknown: u64,
    /// Accepted, and no row.
    pub lost: u64,
    /// Rows above the limit of their buyer.
    pub over_limit: u64,
}

impl Books {
    /// All units and no more, none lost, no buyer with two.
    pub fn exact(self) -> bool {
        self.orders == self.units && self.accepted <= self.units && self.lost == 0 && self.over_limit == 0
    }

    /// No unit too many, none lost, no buyer with two; units may be left.
    pub fn sound(self) -> bool {
        self.orders <= self.units
            && (self.accepted..=self.accepted + self.unknown).contains(&self.orders)
            && self.lost == 0
            && self.over_limit == 0
    }

    /// Buyers who were answered that they have a unit, beyond what there is.
    pub fn oversold(self) -> u64 {
        self.accepted.max(self.orders).saturating_sub(self.units)
    }

    /// Units that nobody has, though more buyers came than there were units.
    pub fn unsold(self) -> u64 {
        self.units.saturating_sub(self.orders)
    }

    fn of(units: u64, orders: &[Order], accepted: &HashSet<u128>, answered: Answered) -> Self {
        let rows: HashSet<u128> = orders.iter().map(|order| order.hash).collect();
        let mut by_buyer: HashMap<&str, u64> = HashMap::new();
        for order in orders {
            *by_buyer.entry(&order.buyer).or_default() += 1;
        }
        Self {
            units,
            orders: orders.len() as u64,
            accepted: answered.accepted,
            unknown: answered.unknown,
            lost: accepted.difference(&rows).count() as u64,
            over_limit: by_buyer.values().map(|rows| rows - 1).sum(),
        }
    }
}

impl fmt::Display for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { units, orders, accepted, unknown, lost, over_limit } = self;
        write!(
            f,
            "{units} units; {orders} orders in the store, {accepted} accepted, {unknown} without an answer, {lost} lost, \
             {over_limit} over the limit"
        )
    }
}

pub(super) struct PeerRun<'a> {
    pub(super) options: &'a PeersOptions,
    pub(super) folder: &'a Path,
    pub(super) peer: Box<dyn Peer>,
    /// From 1.
    pub(super) round: usize,
}

impl PeerRun<'_> {
    pub(super) fn play(mut self, kind: Kind, random: &mut Random) -> anyhow::Result<Played> {
        let warm_per_s = self.warm_up()?;
        let (sale, sold) = self.sale(random)?;
        let (peak, peak_sold) = self.peak(warm_per_s)?;
        let killed = self.kill(random)?;
        Ok(Played { kind, sale, sold, peak, peak_sold, killed })
    }

    /// How many requests it carries per second by then.
    fn warm_up(&mut self) -> anyhow::Result<f64> {
        let units = PEAK_UNITS_PER_S;
        let settings = Settings::keep_alive(self.peer.address(), self.options.users);
        let (trial, _) = self.measure(WARMED, units, Schedule::closed(WARM_UP), settings)?;
        Ok(trial.outcomes.total() as f64 / trial.seconds)
    }

    /// More buyers than units at the stated rate.
    fn sale(&mut self, random: &mut Random) -> anyhow::Result<(Trial, Books)> {
        let options = self.options;
        let schedule =
            Schedule::poisson(f64::from(options.rate), options.sale_length()).seeded(random.next_u64());
        let settings = Settings::open_loop(self.peer.address(), IN_FLIGHT_MAX);
        self.measure(SOLD_OUT, options.requests() * UNITS_PERCENT / 100, schedule, settings)
    }

    /// A closed loop that no stock ends.
    fn peak(&mut self, warm_per_s: f64) -> anyhow::Result<(Trial, Books)> {
        let options = self.options;
        // A loop is made longer for few requests only: that needs no more of them.
        let units = PEAK_UNITS_PER_S * options.load.as_secs().max(1);
        let settings = Settings::keep_alive(self.peer.address(), options.users);
        self.measure(PEAK, units, Schedule::closed(options.loop_length(warm_per_s)), settings)
    }

    fn measure(
        &mut self,
        product: u64,
        units: u64,
        schedule: Schedule,
        settings: Settings,
    ) -> anyhow::Result<(Trial, Books)> {
        self.peer.open(product, units)?;
        let (mut receipts, mut orders) = (self.receipts()?, Orders::new(product));
        let mut kept = Heard { inner: &mut orders, won: |body: &[u8]| receipts.keep(body) };
        let mut http = Http { workload: &mut kept };
        let mut generator = Generator::connect(settings, &mut http).context("connecting")?;
        let (watched, disk) = (self.peer.watched()?, environment::disk(self.folder));
        let around = self.options.site.around(&watched, disk.as_deref(), true);
        let trial = trial(&mut generator, schedule, &mut http, self.round, around)?;
        let mut answered = Answered::default();
        answered.add(&trial.outcomes);
        ensure!(
            trial.outcomes.won > 0,
            "no order was accepted: {}",
            trial.first_surprise.as_deref().unwrap_or("no answer at all")
        );
        let books = self.books(product, units, &mut receipts, answered)?;
        Ok((trial, books))
    }

    /// Kills it at a random moment of a sale, once an order is accepted, starts it on what it has left, and sells the rest.
    fn kill(&mut self, random: &mut Random) -> anyhow::Result<Books> {
        let options = self.options;
        let units = options.requests();
        self.peer.open(KILLED, units)?;
        let (mut receipts, mut orders) = (self.receipts()?, Orders::new(KILLED));
        let won = AtomicBool::new(false);
        let hear = |body: &[u8]| {
            receipts.keep(body);
            won.store(true, Ordering::Relaxed);
        };
        let mut http = Http { workload: &mut Heard { inner: &mut orders, won: hear } };
        let percent = KILL_FROM_PERCENT + random.below(KILL_TO_PERCENT - KILL_FROM_PERCENT);
        let length = options.sale_length();
        let moment = length.mul_f64(percent as f64 / 100.0);
        let schedule = Schedule::poisson(f64::from(options.rate), length).seeded(random.next_u64());
        let before = self.load_and_kill(&mut http, schedule, (moment, &won))?;
        self.peer.start_again()?;
        // A tenth of them are by buyers who have one: more than enough ask for what is left.
        let schedule = Schedule::closed_requests(units + units / 2);
        let settings = Settings::keep_alive(self.peer.address(), options.users);
        let mut generator = Generator::connect(settings, &mut http).context("connecting after the kill")?;
        let after = generator.run(schedule, &mut http, &options.site.stop)?;
        let mut answered = Answered::default();
        answered.add(&before.outcomes);
        answered.add(&after.outcomes);
        ensure!(
            after.outcomes.sold_out > 0,
            "it did not sell out after the kill: {:?}\n{}",
            after.outcomes,
            self.peer.logged()
        );
        self.books(KILLED, units, &mut receipts, answered)
    }

    /// The load has a thread of its own; this one kills, and ends it.
    fn load_and_kill(
        &mut self,
        http: &mut Http<'_, impl Workload + Send>,
        schedule: Schedule,
        (moment, won): (Duration, &AtomicBool),
    ) -> anyhow::Result<Record> {
        let settings = Settings {
            answer_timeout: ANSWER_TIMEOUT,
            ..Settings::open_loop(self.peer.address(), IN_FLIGHT_MAX)
        };
        let mut generator = Generator::connect(settings, http).context("connecting")?;
        let (finish, stop) = (&AtomicBool::new(false), &self.options.site.stop);
        let peer = &mut self.peer;
        std::thread::scope(|scope| {
            let load = scope.spawn(move || -> Result<Record, RunError> {
                generator.run_until(schedule, http, finish, &mut |_| {})
            });
            wait_for_an_order(&load, moment, won, stop);
            let killed = peer.kill();
            finish.store(true, Ordering::Relaxed);
            let record = load.join().expect("the load does not panic")?;
            killed?;
            ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(record.outcomes.won > 0, "no order was accepted before the kill: {:?}", record.outcomes);
            Ok(record)
        })
    }

    fn receipts(&self) -> anyhow::Result<Receipts> {
        Receipts::create(&self.folder.join("receipts")).context("the file of receipts")
    }

    fn books(
        &mut self,
        product: u64,
        units: u64,
        receipts: &mut Receipts,
        answered: Answered,
    ) -> anyhow::Result<Books> {
        ensure!(receipts.unreadable == 0, "{} accepted orders have no id", receipts.unreadable);
        let accepted = receipts.all()?;
        ensure!(accepted.len() as u64 == answered.accepted, "orders were accepted under the same id");
        Ok(Books::of(units, &self.peer.orders(product)?, &accepted, answered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(units: u64, rows: &[(u128, &str)], accepted: &[u128]) -> Books {
        let row = |(hash, buyer): &(u128, &str)| Order { hash: *hash, buyer: (*buyer).to_owned() };
        let rows: Vec<Order> = rows.iter().map(row).collect();
        let answered = Answered { accepted: accepted.len() as u64, unknown: 0 };
        Books::of(units, &rows, &accepted.iter().copied().collect(), answered)
    }

    #[test]
    fn wrong_books_are_seen() {
        let good = books(2, &[(1, "a"), (2, "b")], &[1, 2]);
        assert!(good.exact() && good.sound() && good.oversold() == 0 && good.unsold() == 0);
        let left = books(3, &[(1, "a"), (2, "b")], &[1, 2]);
        assert!(!left.exact() && left.sound() && left.unsold() == 1);
        let lost = books(2, &[(1, "a"), (3, "c")], &[1, 2, 3]);
        assert_eq!((lost.lost, lost.oversold(), lost.exact(), lost.sound()), (1, 1, false, false));
        let twice = books(2, &[(1, "a"), (2, "a")], &[1, 2]);
        assert_eq!((twice.over_limit, twice.exact(), twice.sound()), (1, false, false));
        let unasked = books(5, &[(1, "a"), (2, "b")], &[1]);
        assert!(!unasked.sound());
    }
}
