//! A sale rehearsed at an operator's word: played by the program itself as a process of its own, one at a time.
//!
//! Must not: play or judge anything. What is refused, how it is played and what it says is `doorbuster rehearse`'s.

mod cut_off;
mod elsewhere;
mod process;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use engine::{Action, By, Command, ItemSpec, Payment, SaleId, SaleSpec, UnixMs};
use serde::Serialize;
use serde_json::{Value, json};

use crate::intake::{Asker, Intake, Reply, Request};
use crate::ledger::{Source, mysql};
use crate::net::Stop;
use elsewhere::{Elsewhere, Watch};
use engine::format_utc;
pub use process::needed_for;
use process::{Ended, Process, in_the_way};

/// Of what is kept of a rehearsal in the ledger.
const ABOUT_BYTES_MAX: usize = 255;
const LEDGER_PATIENCE: Duration = Duration::from_secs(10);
/// Of a server that stops: what writes to the ledger may have ended.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// How the program is called so that it rehearses the sale that it reads on its standard input, and prints JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct RehearseCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// So that it removes what one that was killed has left.
    pub clean_up: Vec<OsString>,
}

/// How large a crowd is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Crowd {
    pub buyers: u64,
    pub over_s: u64,
}

impl Crowd {
    /// More than that is for `doorbuster rehearse`, on a machine where nobody serves.
    pub const BUYERS_MAX: u64 = 200_000;
    pub const OVER_S: std::ops::RangeInclusive<u64> = 4..=60;
}

/// Why none was begun.
#[derive(Debug, thiserror::Error)]
pub enum NotBegun {
    #[error("this server was not started by the program that rehearses")]
    Off,
    #[error(
        "product {0} is sold to a line, and the crowd of a rehearsal does not queue: `doorbuster bench run line` plays a night with one"
    )]
    Line(u64),
    #[error("sale {0} is being rehearsed")]
    Playing(u64),
    /// By another server, or in a terminal.
    #[error("another rehearsal of this installation is under way{0}")]
    Elsewhere(String),
    #[error("{0}")]
    Needed(String),
    #[error("the key was used for another rehearsal")]
    OtherKey,
    #[error("it can't be started: {0}")]
    NotStarted(#[from] io::Error),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum RehearsalOutcome {
    /// It says what the installation carries.
    Carried,
    /// The machine was too busy, or the crowd too small.
    Inconclusive,
    /// Refused, the audit failed, or something that it needs was not there.
    Failed,
    Stopped,
}

/// The latest rehearsal.
#[derive(Clone, Debug, Serialize)]
struct Played {
    state: &'static str,
    sale: u64,
    title: String,
    #[serde(flatten)]
    crowd: Crowd,
    by: String,
    began_at_ms: u64,
    /// The latest line about what it does.
    progress: String,
    ended_at_ms: Option<u64>,
    outcome: Option<RehearsalOutcome>,
    /// Its first line.
    says: Option<String>,
    /// All of what it found.
    report: Option<Value>,
    /// Who or what ended it before its time.
    #[serde(skip)]
    stopped: Option<String>,
    /// It ends, by itself or because it was stopped: nobody stops it any more.
    #[serde(skip)]
    is_ending: bool,
    /// What operators did to it that the ledger has, or is being given.
    #[serde(skip)]
    kept: Vec<Action>,
    /// Of those that began here.
    #[serde(skip)]
    number: u64,
    /// The idempotency key of the call that has begun it.
    #[serde(skip)]
    key: Option<String>,
}

/// What the wish came to that the one that is played ends.
#[derive(Debug, PartialEq, Eq)]
pub enum StopOutcome {
    /// It ends within moments; and which one it is.
    Asked { about: String },
    /// The latest one was stopped, and has ended or is about to.
    Before,
    /// The latest one is not the one that was meant.
    Another,
    /// None was played here, or the latest one ended by itself.
    NonePlayed,
}

impl Played {
    fn is_playing(&self) -> bool {
        self.ended_at_ms.is_none()
    }

    fn end(&mut self, ended: Ended, now: UnixMs) {
        self.state = "ended";
        self.ended_at_ms = Some(now.0);
        self.outcome = Some(ended.outcome);
        self.says = Some(ended.says);
        self.report = ended.report;
    }
}

/// Begins rehearsals and shows the latest one.
pub struct Rehearsals {
    command: Option<RehearseCommand>,
    intake: Intake,
    asker: Asker,
    /// The server's own.
    stop: Stop,
    latest: Arc<Latest>,
    elsewhere: Arc<Elsewhere>,
    ended: Arc<AtomicBool>,
    /// How many were begun here.
    begun: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Clears up after one from before this start, or watches what others play.
    beside: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Latest(Mutex<Option<Played>>);

impl Latest {
    fn lock(&self) -> MutexGuard<'_, Option<Played>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Played)) {
        if let Some(played) = &mut *self.lock() {
            change(played);
        }
    }
}

impl fmt::Debug for Rehearsals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rehearsals").field("command", &self.command).finish_non_exhaustive()
    }
}

impl Rehearsals {
    /// `None`: there are none.
    pub fn new(command: Option<RehearseCommand>, intake: Intake, asker: Asker, stop: Stop) -> Rehearsals {
        Rehearsals {
            command,
            intake,
            asker,
            stop,
            latest: Arc::default(),
            elsewhere: Arc::default(),
            ended: Arc::default(),
            begun: AtomicU64::default(),
            thread: Mutex::default(),
            beside: Mutex::default(),
        }
    }

    /// What became of rehearsals that were not begun here: in a cluster those of others, else from before this start.
    pub fn follow(&self, ledger: Source, in_cluster: bool) {
        match ledger {
            _ if self.command.is_none() => {}
            Source::MySql(options) if in_cluster => self.watch_others(*options),
            ledger => self.note_cut_off(&ledger),
        }
    }

    /// The one that this ledger's server began before its restart, and did not see ended: what it left is removed, and its end
    /// noted, on a thread. Before any is begun here; not of a cluster, where another server may be playing it.
    fn note_cut_off(&self, ledger: &Source) {
        let Some(command) = self.command.clone() else { return };
        let began = match cut_off::unended(ledger) {
            Ok(Some(began)) => began.operated,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%error, "whether a rehearsal was cut off is not known"),
        };
        let (asker, stop) = (self.asker.clone(), self.stop.clone());
        let clear = move || {
            cut_off::clear(&command, &stop);
            tracing::info!(rehearsal = %began.about, "a rehearsal was cut off");
            let about = format!("{}: Cut off: its server ended before it did.", began.about);
            keep((&asker, LEDGER_PATIENCE), began.by, about);
        };
        self.start_beside("rehearsal-cut", clear);
    }

    /// Follows on a thread what is rehearsed by others on this ledger's server, and notes the end of what was cut off there.
    fn watch_others(&self, ledger: mysql::Options) {
        let watch = Watch::new(ledger, self.asker.clone());
        let (elsewhere, latest) = (Arc::clone(&self.elsewhere), Arc::clone(&self.latest));
        let (ended, stop) = (Arc::clone(&self.ended), self.stop.clone());
        self.start_beside("rehearsals", move || {
            let plays_here = || latest.lock().as_ref().is_some_and(Played::is_playing);
            watch.run(&elsewhere, plays_here, || ended.load(Ordering::Relaxed) || stop.is_requested());
        });
    }

    fn start_beside(&self, name: &str, run: impl FnOnce() + Send + 'static) {
        match thread::Builder::new().name(name.to_owned()).spawn(run) {
            Ok(started) => *self.beside.lock().unwrap_or_else(PoisonError::into_inner) = Some(started),
            Err(error) => {
                tracing::warn!(%error, "what became of the rehearsals of other servers, or from before this start, is not known")
            }
        }
    }

    /// Whether this sale, which has not started, can be rehearsed now. `doorbuster rehearse` judges again, by the ledger.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, sale: &SaleSpec) -> Result<(), NotBegun> {
        if self.command.is_none() {
            return Err(NotBegun::Off);
        }
        if let Some(item) = sale.items.iter().find(|item| item.line.is_some()) {
            return Err(NotBegun::Line(item.product.0));
        }
        if let Some(played) = self.latest.lock().as_ref().filter(|played| played.is_playing()) {
            return Err(NotBegun::Playing(played.sale));
        }
        if let Some(played) = self.elsewhere.get() {
            return Err(NotBegun::Elsewhere(played));
        }
        if self.ended.load(Ordering::Relaxed) {
            return Err(NotBegun::Needed("the server stops".to_owned()));
        }
        match in_the_way(&self.intake.shelf.current(), self.intake.clock.now()) {
            Some(why) => Err(NotBegun::Needed(why)),
            None => Ok(()),
        }
    }

    /// Whether a call with this key has begun the latest one.
    ///
    /// # Errors
    /// If it has begun another one with it.
    pub fn was_begun(&self, key: Option<&str>, sale: SaleId, crowd: Crowd) -> Result<bool, NotBegun> {
        match &*self.latest.lock() {
            Some(played) if key.is_some() && played.key.as_deref() == key => {
                if (played.sale, played.crowd) == (sale.0, crowd) {
                    Ok(true)
                } else {
                    Err(NotBegun::OtherKey)
                }
            }
            Some(_) | None => Ok(false),
        }
    }

    /// One that was begun with this key is not begun again.
    ///
    /// # Errors
    /// As [`Rehearsals::check`] and [`Rehearsals::was_begun`], or if it can't be started.
    pub fn begin(
        &self,
        sale: &SaleSpec,
        crowd: Crowd,
        (by, key): (&By, Option<&str>),
    ) -> Result<(), NotBegun> {
        let command = self.command.as_ref().ok_or(NotBegun::Off)?;
        // Held until it is started, so that of two who press at once one is answered that the other has.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if self.was_begun(key, sale.id, crowd)? {
            return Ok(());
        }
        self.check(sale)?;
        let before = self.latest.lock().replace(Played {
            state: "playing",
            sale: sale.id.0,
            title: sale.title.clone(),
            crowd,
            by: by.who.to_string(),
            began_at_ms: self.intake.clock.now().0,
            progress: String::new(),
            ended_at_ms: None,
            outcome: None,
            says: None,
            report: None,
            stopped: None,
            is_ending: false,
            kept: Vec::new(),
            number: self.begun.fetch_add(1, Ordering::Relaxed),
            key: key.map(str::to_owned),
        });
        match self.play(command.clone(), sale, crowd, by.clone()) {
            Ok(started) => *thread = Some(started),
            Err(error) => {
                *self.latest.lock() = before;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Starts the process on the thread that waits for it: the process is signalled to end when the thread that started it is
    /// gone, and signalled twice it leaves its files.
    fn play(
        &self,
        command: RehearseCommand,
        sale: &SaleSpec,
        crowd: Crowd,
        by: By,
    ) -> io::Result<JoinHandle<()>> {
        let (latest, intake, stop) = (Arc::clone(&self.latest), self.intake.clone(), self.stop.clone());
        let (asker, written, sale) = (self.asker.clone(), written(sale).to_string(), sale.id.0);
        let (started_tx, started) = sync_channel(1);
        let play = move || {
            let process = match Process::start(&command, written, crowd) {
                Ok(process) => process,
                Err(error) => return drop(started_tx.send(Err(error))),
            };
            drop(started_tx.send(Ok(())));
            let mut ended = process.attend(&latest, &intake, &stop);
            tracing::info!(sale, buyers = crowd.buyers, says = ended.says, "a rehearsal ended");
            let patience = if stop.is_requested() { LAST_PATIENCE } else { LEDGER_PATIENCE };
            let about = format!("sale {sale}, {} buyers: {}", crowd.buyers, ended.says);
            if !keep((&asker, patience), by, about) {
                ended.says.push_str(" This could not be kept in the operators' log.");
            }
            latest.change(|played| played.end(ended, intake.clock.now()));
        };
        let thread = thread::Builder::new().name("rehearsal".to_owned()).spawn(play)?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended")))?;
        Ok(thread)
    }

    /// Asks the one that is played to end, if it is the one that began then. To ask again changes nothing.
    pub fn stop(&self, began_at_ms: Option<u64>, why: impl Into<String>) -> StopOutcome {
        match &mut *self.latest.lock() {
            Some(played) if began_at_ms.is_some_and(|at| at != played.began_at_ms) => StopOutcome::Another,
            Some(played) if !played.is_ending => {
                played.stopped.get_or_insert(why.into());
                StopOutcome::Asked { about: format!("sale {}, {} buyers", played.sale, played.crowd.buyers) }
            }
            Some(played) if played.stopped.is_some() => StopOutcome::Before,
            Some(_) | None => StopOutcome::NonePlayed,
        }
    }

    /// Whoever is the first to give this to the ledger, of the one that is played, is given its number. Of calls that are repeated,
    /// or come at once, one alone leaves an entry; and none comes after the one of its end.
    pub fn claim(&self, action: Action) -> Option<u64> {
        let mut latest = self.latest.lock();
        let played = latest.as_mut().filter(|played| !played.is_ending && !played.kept.contains(&action))?;
        played.kept.push(action);
        Some(played.number)
    }

    /// The ledger has not taken it, or perhaps: whoever repeats the call may.
    pub fn give_back(&self, number: u64, action: Action) {
        self.latest.change(|played| {
            if played.number == number {
                played.kept.retain(|kept| *kept != action);
            }
        });
    }

    /// Ends the one that is played, and waits for it: the server stops. Later ones are not begun.
    pub fn end(&self) {
        self.stop(None, "the server stops");
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.store(true, Ordering::Relaxed);
        let beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner).take();
        for thread in [thread.take(), beside].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("the thread that attends to a rehearsal panicked");
            }
        }
    }

    /// The latest one, as the API shows it; and what is played elsewhere.
    pub fn shown(&self) -> Value {
        let mut shown = match &*self.latest.lock() {
            Some(played) => json!(played),
            None => json!({ "state": "none" }),
        };
        if let Some(played) = self.elsewhere.get() {
            shown["elsewhere"] =
                format!("Another rehearsal of this installation is under way{played}.").into();
        }
        shown
    }
}

impl Drop for Rehearsals {
    fn drop(&mut self) {
        self.end();
    }
}

/// The sentence stays in the ledger (whether it does is returned), so that every server of a cluster shows it, also the next morning.
fn keep((asker, patience): (&Asker, Duration), by: By, mut about: String) -> bool {
    let end = (0..=ABOUT_BYTES_MAX.min(about.len())).rev().find(|end| about.is_char_boundary(*end));
    about.truncate(end.unwrap_or_default());
    let request = Request::Operate(Command::KeepAction(Action::RehearsalEnded, about.into()), by);
    match asker.ask(request, patience) {
        Reply::Accepted(_) => true,
        other => {
            tracing::warn!(?other, "what a rehearsal said could not be kept in the ledger");
            false
        }
    }
}

/// As `doorbuster sale create` reads a sale.
fn written(sale: &SaleSpec) -> Value {
    let payment = match sale.payment {
        Payment::WithinMs(ms) => format!("{ms}ms"),
        Payment::OnPlacing => "none".to_owned(),
    };
    let item = |item: &ItemSpec| {
        let line = item.line.as_ref().map(|line| json!({ "units": line.units }));
        json!({
            "product": item.product.0,
            "title": item.title,
            "description": item.description,
            "price": item.price,
            "list": item.list_price,
            "total": item.total,
            "limit": item.limit,
            "line": line,
        })
    };
    json!({
        "id": sale.id.0,
        "title": sale.title,
        "currency": sale.currency,
        "starts_at": format_utc(sale.starts_at.0),
        "ends_at": format_utc(sale.ends_at.0),
        "payment": payment,
        "open_holds_per_buyer_max": sale.open_holds_per_buyer_max,
        "item": sale.items.iter().map(item).collect::<Vec<_>>(),
    })
}
