//! The loop that carries a transaction through conflicts, lost connections and lost answers, within a bound.

use std::fmt;
use std::time::{Duration, Instant};

use engine::{Event, Sales, UnixMs};
use mysql::prelude::Queryable;
use prometheus_client::metrics::counter::Counter;
use ring::rand::{SecureRandom, SystemRandom};

use super::leases::Lease;
use super::session::{Failure, Session};
use super::transaction::Transaction;
use super::writes::write;
use super::{Continuity, LedgerError};
use crate::intake::HoldEnded;
use crate::ledger::mysql::advice::explained;
use crate::ledger::mysql::connect::{Meaning, is_read_only};
use crate::ledger::mysql::migrate::FORMAT;
use crate::ledger::mysql::profile::{self, Profile};
use crate::ledger::mysql::{OpenError, Options, open};

/// Between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Of those whom nobody has counted yet.
const HOLDS_ENDED_MAX: usize = 10_000;

/// What transactions came to, of all connections together.
#[derive(Clone, Debug, Default)]
pub struct TransactionCounters {
    pub entries: Counter,
    pub payments: Counter,
    /// Those whose outcome is unknown among them; one that was taken over by another server is not.
    pub failed: Counter,
}

/// The shared ledger, by one connection. Each thread has its own.
pub struct SharedLedger {
    options: Options,
    session: Option<Session>,
    sales: Sales,
    /// The ledger had gone back so often when the sales were read first.
    sales_since: u64,
    pub(super) continuity: Continuity,
    /// Checked in every transaction that appends.
    pub(super) lease: Option<Lease>,
    /// By transactions of this connection that were committed; see [`SharedLedger::take_holds_ended`].
    holds_ended: Vec<HoldEnded>,
    counters: TransactionCounters,
}

impl fmt::Debug for SharedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLedger")
            .field("options", &self.options)
            .field("connected", &self.session.is_some())
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

impl SharedLedger {
    /// Connects, makes or migrates the tables, and marks a new ledger as the cluster's.
    ///
    /// # Errors
    /// See [`OpenError`]; a ledger of the embedded profile is refused.
    pub fn open(options: &Options) -> Result<SharedLedger, OpenError> {
        let (mut connection, _) = open(options, Profile::Cluster)?;
        profile::claim(&mut connection, options, Profile::Cluster)?;
        drop(connection);
        let ledger = SharedLedger {
            options: options.clone(),
            session: Some(Session::connect(options)?),
            sales: Sales::new(),
            sales_since: 0,
            continuity: Continuity::default(),
            lease: None,
            holds_ended: Vec::new(),
            counters: TransactionCounters::default(),
        };
        Ok(ledger)
    }

    /// The same ledger by another connection, made when it is first used.
    pub fn another(&self) -> SharedLedger {
        SharedLedger {
            options: self.options.clone(),
            session: None,
            sales: Sales::new(),
            sales_since: 0,
            continuity: self.continuity.clone(),
            lease: None,
            holds_ended: Vec::new(),
            counters: self.counters.clone(),
        }
    }

    /// Counts there from now on, with those that are made as [`SharedLedger::another`] of this one.
    pub fn count_into(&mut self, counters: TransactionCounters) {
        self.counters = counters;
    }

    /// The sales as far as this connection has read of them, with the stock for one.
    pub fn sales(&self) -> &Sales {
        &self.sales
    }

    /// The holds that have ended by what was committed on this connection since the last call. Those beyond
    /// `HOLDS_ENDED_MAX` are left out: nobody asked for a while.
    pub fn take_holds_ended(&mut self) -> Vec<HoldEnded> {
        std::mem::take(&mut self.holds_ended)
    }

    /// Kind and address of its server, for people.
    pub(crate) fn server(&self) -> String {
        self.options.server()
    }

    /// The secret that order ids are made with: made once, shared by all servers.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn id_secret(&mut self) -> Result<[u8; 16], LedgerError> {
        self.attempt(|session, _| {
            let connection = &mut session.connection;
            let mut made = [0; 16];
            SystemRandom::new().fill(&mut made).expect("the system gives entropy");
            connection.exec_drop("INSERT IGNORE INTO meta VALUES ('id_secret', ?)", (&made[..],))?;
            let secret: Option<Vec<u8>> =
                connection.query_first("SELECT value FROM meta WHERE name = 'id_secret'")?;
            let wrong = || Failure::Damaged("its id_secret has not 16 bytes".to_owned());
            secret.and_then(|secret| secret.try_into().ok()).ok_or_else(wrong)
        })
    }

    /// Reads rows in one statement, without a lock.
    pub(super) fn select<T>(
        &mut self,
        query: String,
        mut parse: impl FnMut(mysql::Row) -> Result<T, Failure>,
    ) -> Result<Vec<T>, LedgerError> {
        self.attempt(|session, _| {
            let rows: Vec<mysql::Row> = session.connection.query(&query)?;
            rows.into_iter().map(&mut parse).collect()
        })
    }

    /// Carries out one transaction under the writer's lock. `work` is called again if an attempt came to nothing,
    /// and must read all it needs by the transaction.
    pub(super) fn transact<T>(
        &mut self,
        now: UnixMs,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, LedgerError> {
        let lease = self.lease.clone();
        let transacted = self.attempt(|session, parts| {
            let Parts { sales, committing } = parts;
            let mut transaction = Transaction::new(session, &mut *sales, now, lease.as_ref());
            let worked = work(&mut transaction);
            let ahead = transaction.set.sales_are_ahead();
            let result = worked.and_then(|value| {
                let set = &transaction.set;
                let ended = set
                    .entries()
                    .iter()
                    .filter_map(|entry| HoldEnded::of(entry, |order| set.order_at(order)));
                let ended: Vec<_> = ended.collect();
                let is_payment = |event: &Event| matches!(event, Event::PaymentRecorded { .. });
                let payments = set.entries().iter().filter(|entry| is_payment(&entry.event)).count();
                let entries = set.entries().len();
                let end = set.entries().last().map(|entry| (entry.seq, entry.at));
                let stored = write(transaction, committing)?;
                Ok((value, stored.then_some((ended, entries, payments, end))))
            });
            // What was not stored did not happen: the sales are read anew.
            if ahead && !matches!(result, Ok((_, Some(_)))) {
                *sales = Sales::new();
            }
            result
        });
        if !matches!(transacted, Ok(_) | Err(LedgerError::Fenced(_))) {
            self.counters.failed.inc();
        }
        let (value, stored) = transacted?;
        let Some((ended, entries, payments, end)) = stored else { return Ok(value) };
        end.into_iter().for_each(|end| self.continuity.committed(end));
        self.counters.entries.inc_by(entries as u64);
        self.counters.payments.inc_by(payments as u64);
        let room = HOLDS_ENDED_MAX - self.holds_ended.len();
        self.holds_ended.extend(ended.into_iter().take(room));
        Ok(value)
    }

    /// Tries something that can be tried again until it succeeds, is refused, or the time is over.
    pub(super) fn attempt<T>(
        &mut self,
        mut work: impl FnMut(&mut Session, Parts<'_>) -> Result<T, Failure>,
    ) -> Result<T, LedgerError> {
        let started = Instant::now();
        let mut pause = PAUSE_MIN;
        let mut unknown = false;
        loop {
            let mut committing = false;
            let tried = self.try_once(&mut committing, &mut work);
            let error = match tried {
                Ok(value) => return Ok(value),
                Err(Failure::Fenced(what)) if !unknown => return Err(LedgerError::Fenced(what)),
                Err(Failure::Fenced(what)) => {
                    return Err(LedgerError::Unknown(format!("{what} was taken over meanwhile").into()));
                }
                // The commit before it may have happened: that nothing was changed can't be said any more.
                Err(Failure::Format(_) | Failure::Damaged(_)) if unknown => {
                    let why = "a commit was not answered, and the ledger can't be read since";
                    return Err(LedgerError::Unknown(why.into()));
                }
                Err(Failure::Format(found)) => return Err(LedgerError::Format { found, known: FORMAT }),
                Err(Failure::Damaged(why)) => return Err(LedgerError::Damaged(why)),
                Err(Failure::Sql(error)) => error,
            };
            let meaning = Meaning::of(&error);
            unknown |= committing && meaning != Meaning::Conflict;
            tracing::debug!(%error, ?meaning, committing, "an attempt on the shared ledger came to nothing");
            if meaning == Meaning::Refused || started.elapsed() + pause >= self.options.limits.settle {
                let unknown = unknown.then_some(LedgerError::Unknown as fn(_) -> _);
                let why = format!("{}: {}", self.server(), explained(&error));
                return Err(unknown.unwrap_or(LedgerError::Unavailable)(why.into()));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn session(&mut self) -> Result<Session, Failure> {
        if let Some(mut session) = self.session.take()
            && !session.is_to_be_left()?
        {
            return Ok(session);
        }
        let mut session = Session::connect(&self.options)?;
        session.look_back(&self.continuity)?;
        // They may know of what this connection alone has seen.
        self.sales = Sales::new();
        Ok(session)
    }

    /// Finds out whether the ledger still has the newest entry that this server has seen.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn look_back(&mut self) -> Result<(), LedgerError> {
        let continuity = self.continuity.clone();
        self.attempt(|session, _| session.look_back(&continuity))
    }

    /// How often it had not, as far as this server knows.
    pub fn times_back(&self) -> u64 {
        self.continuity.times_back()
    }

    fn try_once<T>(
        &mut self,
        committing: &mut bool,
        work: &mut impl FnMut(&mut Session, Parts<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut session = self.session()?;
        let times_back = self.continuity.times_back();
        if std::mem::replace(&mut self.sales_since, times_back) != times_back {
            self.sales = Sales::new();
        }
        let result = work(&mut session, Parts { sales: &mut self.sales, committing });
        // After a failure the transaction may be open. Without its connection the server rolls it back by itself;
        // one that is lost is not asked, for it may not even say no.
        let leave = |error| Meaning::of(error) == Meaning::Lost || is_read_only(error);
        let left = matches!(&result, Err(Failure::Sql(error)) if leave(error));
        if result.is_ok() || (!left && session.connection.query_drop("ROLLBACK").is_ok()) {
            self.session = Some(session);
        }
        result
    }
}

/// What an attempt may use of the ledger beside its session.
pub(super) struct Parts<'l> {
    pub(super) sales: &'l mut Sales,
    /// Set before a commit is sent: from then on a lost connection leaves the outcome unknown.
    pub(super) committing: &'l mut bool,
}
