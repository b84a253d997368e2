//! The shared ledger in memory: the real working set and its rules, over tables that a transaction changes all at once.
//!
//! It keeps no addresses beyond their orders' and erases none. What [`SharedLedger`] does about a lost answer, trying the same
//! once more until its time is over, it does too.
//!
//! [`SharedLedger`]: server::ledger::mysql::cluster::SharedLedger

mod contract;
mod notes;
mod tables;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::working_set::{Effects, Needs, WorkingSet};
use engine::{Entry, Event, OrderId, Sales, Seq, SkuId, UnixMs};
use server::intake::HoldEnded;
use server::ledger::mysql::cluster::{Continuity, Lease, LedgerError, correction_id};
use server::time::{self, Instant};

use self::tables::Tables;
use crate::random::Random;
use crate::record;
use crate::schedule::instant;

/// One way, mostly.
const WAY_US: (usize, usize) = (50, 500);
/// How long a server tries before it says that the ledger is away, or that an outcome is unknown.
const SETTLE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// States that a fail-over can go back to.
const STATES_KEPT: usize = 32;

/// How often what goes wrong, out of so many calls; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The connection is lost before anything was done.
    pub lost_before: usize,
    /// It was done, and the answer is lost.
    pub lost_after: usize,
    /// It takes up to seconds to get there.
    pub slow: usize,
}

/// How often each happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    pub lost_before: u64,
    pub lost_after: u64,
    pub slow: u64,
    /// Calls that were given up without an outcome.
    pub unknown: u64,
    /// Transactions that a fail-over has undone.
    pub undone: u64,
}

struct Inside {
    tables: Tables,
    /// What it was before each of the latest transactions, the oldest first.
    states: Vec<Tables>,
    keeps_states: bool,
    /// What fail-overs have undone.
    undone: Vec<Entry>,
    /// Orders whose closing is among that.
    closings_undone: BTreeSet<OrderId>,
    /// How often another database has taken over: no connection outlives that.
    lives: u64,
    /// What its clock said when the run began, and how far it was set since.
    began: UnixMs,
    begun: Instant,
    set_ms: i64,
    away: bool,
    /// Hosts that do not reach it.
    cut: BTreeSet<String>,
    read_only: bool,
    random: Random,
    faults: Faults,
    happened: FaultCounts,
}

/// One database for all servers.
#[derive(Clone)]
pub struct Database(Arc<Mutex<Inside>>);

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("happened", &self.happened()).finish_non_exhaustive()
    }
}

impl Database {
    /// Empty. `began`: what its clock says now.
    pub fn new(began: UnixMs, seed: u64) -> Database {
        Database(Arc::new(Mutex::new(Inside {
            tables: Tables::default(),
            states: Vec::new(),
            keeps_states: true,
            undone: Vec::new(),
            closings_undone: BTreeSet::new(),
            lives: 0,
            began,
            begun: instant(),
            set_ms: 0,
            away: false,
            cut: BTreeSet::new(),
            read_only: false,
            random: Random(seed),
            faults: Faults::default(),
            happened: FaultCounts::default(),
        })))
    }

    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub fn happened(&self) -> FaultCounts {
        self.lock().happened
    }

    /// It answers nobody.
    pub fn set_away(&self, away: bool) {
        self.lock().away = away;
    }

    /// One host does not reach it.
    pub fn set_cut(&self, host: &str, cut: bool) {
        let mut inside = self.lock();
        if cut {
            inside.cut.insert(host.to_owned())
        } else {
            inside.cut.remove(host)
        };
    }

    /// It is read from, and takes nothing.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock().read_only = read_only;
    }

    /// Its clock steps.
    pub fn set_clock(&self, by_ms: i64) {
        self.lock().set_ms += by_ms;
    }

    /// It never fails over, and needs no states to go back to.
    pub fn keep_no_states(&self) {
        self.lock().keeps_states = false;
    }

    /// A replica without so many of the latest transactions takes over.
    pub fn fail_over(&self, without: usize) {
        let mut inside = self.lock();
        let first = inside.states.len().saturating_sub(without);
        let undone = inside.states.split_off(first);
        inside.happened.undone += undone.len() as u64;
        inside.lives += 1;
        if let Some(state) = undone.into_iter().next() {
            let was = std::mem::replace(&mut inside.tables, state);
            let kept = inside.tables.entries.len();
            let closed = |entry: &Entry| match entry.event {
                Event::OrderClosed { order, .. } => Some(was.order_id(order)),
                _ => None,
            };
            notes::undone(&was.entries[kept..], &was);
            inside.closings_undone.extend(was.entries[kept..].iter().filter_map(closed));
            inside.undone.extend_from_slice(&was.entries[kept..]);
        }
    }

    /// Everything that it has.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().tables.entries.clone()
    }

    /// What has come since there were so many entries in this life of it; in another life, everything. And which life it has.
    pub fn entries_since(&self, (life, count): (u64, usize)) -> (u64, Vec<Entry>) {
        let inside = self.lock();
        let known = if life == inside.lives { count } else { 0 };
        (inside.lives, inside.tables.entries[known..].to_vec())
    }

    /// Everything that fail-overs have undone.
    pub fn undone(&self) -> Vec<Entry> {
        self.lock().undone.clone()
    }

    /// Orders that were closed once, and whose closing a fail-over has undone.
    pub fn closings_undone(&self) -> BTreeSet<OrderId> {
        self.lock().closings_undone.clone()
    }

    /// Of the gate that there is to be for a SKU, 0: of none.
    pub fn epoch(&self, sku: SkuId) -> u64 {
        self.lock().tables.sku(sku).map_or(0, |state| state.epoch)
    }

    /// Changes that no gate has heard of.
    pub fn outbox_len(&self) -> usize {
        self.lock().tables.outbox.len()
    }

    pub fn connect(&self, host: &str) -> Connection {
        Connection::new(self, host, Continuity::default())
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn now(&self) -> UnixMs {
        let gone_by = u64::try_from((instant() - self.begun).as_millis()).unwrap_or(u64::MAX);
        self.began.plus(gone_by).shifted(self.set_ms)
    }

    fn chance(&mut self, in_so_many: usize) -> bool {
        in_so_many > 0 && self.random.below(in_so_many) == 0
    }

    fn way(&mut self) -> Duration {
        let (least, most) = WAY_US;
        let mut way = Duration::from_micros((least + self.random.below(most - least)) as u64);
        if self.chance(self.faults.slow) {
            self.happened.slow += 1;
            way += Duration::from_millis(self.random.below(2_000) as u64);
        }
        way
    }

    /// What a transaction of this host came to.
    fn store(&mut self, effects: Effects, host: &str) {
        let noted = if record::is_on() { effects.entries.clone() } else { Vec::new() };
        self.tables.store(effects);
        notes::stored(host, &noted, &self.tables);
    }

    /// Keeps what it was before a transaction that has changed it, for a fail-over to go back to.
    fn keep_state(&mut self, before: Tables) {
        if before == self.tables {
            return;
        }
        if self.states.len() == STATES_KEPT {
            self.states.remove(0);
        }
        self.states.push(before);
    }
}

/// Why an attempt came to nothing.
enum Failure {
    Lost,
    Fenced(String),
    Damaged(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Damaged(error.to_string())
    }
}

/// One stage's way to it.
#[derive(Debug)]
pub struct Connection {
    database: Database,
    host: String,
    sales: Sales,
    sales_since: u64,
    continuity: Continuity,
    life: u64,
    lease: Option<Lease>,
    holds_ended: Vec<HoldEnded>,
}

impl Connection {
    fn new(database: &Database, host: &str, continuity: Continuity) -> Connection {
        let (database, host, life) = (database.clone(), host.to_owned(), database.lock().lives);
        let (sales, sales_since, lease, holds_ended) = (Sales::new(), 0, None, Vec::new());
        Connection { database, host, sales, sales_since, continuity, life, lease, holds_ended }
    }

    /// The same server's, for another stage.
    pub fn another(&self) -> Connection {
        Connection::new(&self.database, &self.host, self.continuity.clone())
    }

    /// Whether the newest entry that the server has seen is still there.
    fn compare(&self, inside: &Inside) {
        let tables = &inside.tables;
        let asked = self.continuity.end();
        let at =
            |seq: Seq| tables.entries.get(usize::try_from(seq.0).ok()?.checked_sub(1)?).map(|entry| entry.at);
        self.continuity.looked(asked, at(asked.0), (Seq(tables.next_seq().0 - 1), tables.latest_at));
    }

    /// Tries until it is done, or the time is over. `work` is done at one moment, on its own.
    fn attempt<T>(
        &mut self,
        writes: bool,
        mut work: impl FnMut(&mut Connection, &mut Inside) -> Result<T, Failure>,
    ) -> Result<T, LedgerError> {
        let begun = Instant::now();
        let mut unknown = false;
        loop {
            let tried = self.try_once(writes, &mut unknown, &mut work);
            match tried {
                Ok(value) => return Ok(value),
                Err(Failure::Fenced(what)) if unknown => {
                    return Err(LedgerError::Unknown(format!("{what} was taken over meanwhile").into()));
                }
                Err(Failure::Fenced(what)) => return Err(LedgerError::Fenced(what)),
                Err(Failure::Damaged(why)) => return Err(LedgerError::Damaged(why)),
                Err(Failure::Lost) => {}
            }
            if begun.elapsed() + PAUSE >= SETTLE {
                let error = if unknown { LedgerError::Unknown } else { LedgerError::Unavailable };
                self.database.lock().happened.unknown += u64::from(unknown);
                return Err(error("the connection was lost".into()));
            }
            time::sleep(PAUSE);
        }
    }

    fn try_once<T>(
        &mut self,
        writes: bool,
        unknown: &mut bool,
        work: &mut impl FnMut(&mut Connection, &mut Inside) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let database = self.database.clone();
        let way = database.lock().way();
        time::sleep(way);
        let mut inside = database.lock();
        let lost_before = inside.faults.lost_before;
        if inside.away || inside.cut.contains(&self.host) || (writes && inside.read_only) {
            return Err(Failure::Lost);
        }
        if inside.chance(lost_before) {
            inside.happened.lost_before += 1;
            return Err(Failure::Lost);
        }
        // A connection that is made anew looks first.
        if std::mem::replace(&mut self.life, inside.lives) != inside.lives {
            self.compare(&inside);
            self.sales = Sales::new();
        }
        let times_back = self.continuity.times_back();
        if std::mem::replace(&mut self.sales_since, times_back) != times_back {
            self.sales = Sales::new();
        }
        let before = (writes && inside.keeps_states).then(|| inside.tables.clone());
        let result = work(self, &mut inside);
        before.into_iter().for_each(|before| inside.keep_state(before));
        let lost_after = inside.faults.lost_after;
        let lost = inside.chance(lost_after);
        inside.happened.lost_after += u64::from(lost);
        let way = inside.way();
        drop(inside);
        time::sleep(way);
        if lost {
            *unknown |= writes && result.is_ok();
            return Err(Failure::Lost);
        }
        result
    }

    fn read<T>(&mut self, mut look: impl FnMut(&Inside) -> T) -> Result<T, LedgerError> {
        self.attempt(false, |_, inside| Ok(look(inside)))
    }

    fn write<T>(
        &mut self,
        mut work: impl FnMut(&mut Inside) -> Result<T, Failure>,
    ) -> Result<T, LedgerError> {
        self.attempt(true, |_, inside| work(inside))
    }

    /// One transaction under the writer's lock. What `work` came to is stored unless it was given up.
    fn transact<T>(
        &mut self,
        now: UnixMs,
        mut work: impl FnMut(&mut WorkingSet<'_>, &mut Tables) -> Result<T, Failure>,
    ) -> Result<T, LedgerError> {
        let (value, end) = self.attempt(true, |connection, inside| {
            connection.fenced(inside)?;
            let Connection { sales, holds_ended, host, .. } = connection;
            let mut set = WorkingSet::new(sales, now, correction_id);
            set.begin(inside.tables.next_seq(), inside.tables.latest_at);
            let new: Vec<_> = inside.tables.sale_entries(set.sales().seen()).cloned().collect();
            new.iter().try_for_each(|entry| set.follow(entry))?;
            let worked = work(&mut set, &mut inside.tables);
            let ahead = set.sales_are_ahead();
            let of = |entry| HoldEnded::of(entry, |order| set.order_at(order));
            let ended: Vec<_> = set.entries().iter().filter_map(of).collect();
            let end = set.entries().last().map(|entry| (entry.seq, entry.at));
            let stored = worked.map(|value| {
                let effects = set.into_effects();
                let is_stored = effects.is_some();
                effects.into_iter().for_each(|effects| inside.store(effects, host));
                (value, is_stored)
            });
            match stored {
                Ok((value, true)) => {
                    holds_ended.extend(ended);
                    Ok((value, end))
                }
                stored => {
                    if ahead {
                        *sales = Sales::new();
                    }
                    stored.map(|(value, _)| (value, None))
                }
            }
        })?;
        end.into_iter().for_each(|end| self.continuity.committed(end));
        Ok(value)
    }

    fn fenced(&self, inside: &Inside) -> Result<(), Failure> {
        let Some(lease) = &self.lease else { return Ok(()) };
        let held = inside.tables.leases.get(&lease.name).copied().unwrap_or_default();
        if (held.owner, held.generation) == (lease.owner, lease.generation) {
            return Ok(());
        }
        Err(Failure::Fenced(format!("the task {}", lease.name)))
    }
}

/// Reads into a set.
fn load(set: &mut WorkingSet<'_>, tables: &Tables, needs: Needs) -> Result<(), Failure> {
    let found = tables.read(&needs);
    Ok(set.load(needs, found)?)
}
