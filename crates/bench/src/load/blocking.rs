//! A closed loop of clients that block, a thread for each: for a protocol whose client is somebody else's library.
//!
//! Schedule, record and the meaning of times are the [`Generator`](super::Generator)'s. An answer costs a switch of
//! threads more, so it is for targets that answer by the ten thousand in a second. It ends when the last client has its
//! answer or gives it up: clients need a time limit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::generator::{REST, RunError, SWEEP};
use super::protocol::Verdicts;
use super::rank::Raised;
use super::record::{Asking, Clocks, Outcome, Record};
use super::schedule::{Next, Pace, Schedule, Until};
use super::series::Series;
use super::trial::Second;

/// One user, with a connection.
pub trait Client: Send {
    /// Not so after an answer that cost the connection.
    fn is_open(&self) -> bool;
    /// A new connection, in place of one that is not open.
    fn open(&mut self) -> anyhow::Result<()>;
    /// Sends a request and waits for its answer; whether one came. Without a verdict the outcome is unknown.
    fn ask(&mut self, verdicts: &mut Verdicts) -> bool;
}

/// What all threads share. It is locked for a microsecond, twice in each request.
struct Run {
    pace: Pace,
    record: Record,
    asking: Option<Asking>,
    started: Instant,
    last_settled: Instant,
    last_whole: Option<Instant>,
    in_flight: usize,
    series: Series,
    /// Seconds that nobody was shown yet.
    over: Vec<Second>,
}

/// Asks as the schedule wants; `watch` is given each second when it is over.
///
/// # Errors
/// If the stop flag is raised. What the target does is no error.
///
/// # Panics
/// If requests are to come by the clock: it is a closed loop.
pub fn run_clients<C: Client>(
    clients: &mut [C],
    schedule: Schedule,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Second),
) -> Result<Record, RunError> {
    assert!(!schedule.is_open(), "clients that block make a closed loop");
    // A thread has the rank of the one that made it.
    let _raised = Raised::now().map_err(RunError::Rank)?;
    let run = Mutex::new(Run::start(schedule, clients.len()));
    thread::scope(|scope| {
        let (working, ended) = sync_channel::<()>(0);
        for client in clients {
            let (run, working) = (&run, working.clone());
            scope.spawn(move || {
                be_user(client, run, stop);
                drop(working);
            });
        }
        drop(working);
        while ended.recv_timeout(SWEEP) == Err(RecvTimeoutError::Timeout) {
            let mut run = locked(&run);
            run.roll(Instant::now());
            let over = std::mem::take(&mut run.over);
            drop(run);
            over.iter().for_each(&mut *watch);
        }
    });
    if stop.load(Ordering::Relaxed) {
        return Err(RunError::Stopped);
    }
    Ok(run.into_inner().unwrap_or_else(PoisonError::into_inner).finish(watch))
}

fn be_user<C: Client>(client: &mut C, run: &Mutex<Run>, stop: &AtomicBool) {
    let mut verdicts = Verdicts::default();
    while !stop.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let next = locked(run).next(sent, client.is_open());
        match next {
            Next::Send { .. } => {}
            Next::Wait { until } => {
                thread::sleep(until.saturating_duration_since(sent).min(SWEEP));
                continue;
            }
            Next::Finished => return,
        }
        if !client.is_open()
            && let Err(error) = client.open()
        {
            verdicts.surprise(|| format!("{error:#}"));
            locked(run).never_sent(&mut verdicts, Instant::now());
            thread::sleep(REST);
            continue;
        }
        let whole = client.ask(&mut verdicts);
        if verdicts.outcomes.is_empty() {
            verdicts.add(Outcome::Unknown);
        }
        locked(run).settle(&mut verdicts, sent, whole);
    }
}

/// A thread that panics takes the whole run with it, by its scope.
fn locked(run: &Mutex<Run>) -> MutexGuard<'_, Run> {
    run.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    fn start(schedule: Schedule, users: usize) -> Self {
        let started = Instant::now();
        let asking = match schedule.until {
            Until::Elapsed(time) => Some(Asking { time, good: 0 }),
            Until::Issued(_) => None,
        };
        Self {
            pace: Pace::start(schedule, users, started),
            record: Record::default(),
            asking,
            started,
            last_settled: started,
            last_whole: None,
            in_flight: 0,
            series: Series::start(started),
            over: Vec::new(),
        }
    }

    /// Finished is only what no answer under way brings back.
    fn next(&mut self, now: Instant, is_open: bool) -> Next {
        match self.pace.next(now) {
            Next::Finished if self.in_flight > 0 => Next::Wait { until: now + SWEEP },
            Next::Send { planned, attempt } => {
                self.in_flight += 1;
                self.record.issued(Duration::ZERO, attempt, false);
                if !is_open {
                    self.record.opened(true);
                }
                Next::Send { planned, attempt }
            }
            other => other,
        }
    }

    fn settle(&mut self, verdicts: &mut Verdicts, sent: Instant, whole: bool) {
        let answered = Instant::now();
        self.roll(answered);
        let tally = self.record.settle(verdicts, Clocks { planned: sent, sent, answered });
        if let Some(asking) = &mut self.asking
            && answered.duration_since(self.started) <= asking.time
        {
            asking.good += tally.good;
        }
        if tally.good > 0 {
            self.record.last_good = Some(answered.duration_since(self.started));
        }
        self.series.add(tally);
        if whole {
            self.last_whole = Some(answered);
        }
        self.free(answered, answered);
    }

    /// The user may try again after a rest.
    fn never_sent(&mut self, verdicts: &mut Verdicts, now: Instant) {
        self.roll(now);
        let tally = self.record.never_sent(verdicts, 1);
        self.series.add(tally);
        self.free(now, now + REST);
    }

    fn free(&mut self, now: Instant, ready: Instant) {
        self.pace.settled(1, false, ready);
        self.in_flight -= 1;
        self.last_settled = now;
    }

    /// Closes the seconds that are over.
    fn roll(&mut self, now: Instant) {
        while let Some(second) = self.series.close(now, self.in_flight) {
            self.over.push(second);
        }
    }

    fn finish(mut self, watch: &mut dyn FnMut(&Second)) -> Record {
        self.over.extend(self.series.last(self.last_settled));
        self.over.iter().for_each(watch);
        // A wait for an answer that never came is no time in which the target answered.
        self.record.elapsed = self.last_whole.unwrap_or(self.last_settled).duration_since(self.started);
        self.record.asking = self.asking;
        self.record.unsent = self.pace.unissued(self.last_settled);
        self.record.seconds = self.series.rows;
        self.record
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    static NOT_STOPPED: AtomicBool = AtomicBool::new(false);

    /// Of each five requests one costs the connection, and of each five connections one is refused.
    struct Fickle {
        open: bool,
        opens: u64,
        asks: u64,
        all: &'static AtomicU64,
    }

    impl Client for Fickle {
        fn is_open(&self) -> bool {
            self.open
        }

        fn open(&mut self) -> anyhow::Result<()> {
            self.opens += 1;
            anyhow::ensure!(!self.opens.is_multiple_of(5), "refused");
            self.open = true;
            Ok(())
        }

        fn ask(&mut self, verdicts: &mut Verdicts) -> bool {
            assert!(self.open);
            self.all.fetch_add(1, Ordering::Relaxed);
            self.asks += 1;
            self.open = !self.asks.is_multiple_of(5);
            if self.open {
                verdicts.add(Outcome::Won);
            }
            self.open
        }
    }

    fn clients(all: &'static AtomicU64) -> Vec<Fickle> {
        (0..4).map(|_| Fickle { open: true, opens: 0, asks: 0, all }).collect()
    }

    #[test]
    fn every_request_has_one_outcome() {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let mut clients = clients(&ASKED);
        let mut seconds = Vec::new();
        let mut watch = |second: &Second| seconds.push(*second);
        let record =
            run_clients(&mut clients, Schedule::closed_requests(600), &NOT_STOPPED, &mut watch).unwrap();
        let asked = ASKED.load(Ordering::Relaxed);
        let lost: u64 = clients.iter().map(|client| client.asks / 5).sum();
        let outcomes = record.outcomes;
        assert_eq!((outcomes.won, outcomes.unknown, outcomes.failed), (asked - lost, lost, 600 - asked));
        assert_eq!(record.reconnects, clients.iter().map(|client| client.opens).sum::<u64>());
        assert_eq!((record.unsent, record.first_surprise.as_deref()), (0, Some("refused")));
        assert_eq!(seconds.iter().map(|of| of.good + of.bad).sum::<u64>(), 600);
        assert_eq!(record.seconds, seconds);
        assert_eq!(record.asking, None);
    }

    #[test]
    fn a_time_ends_it_and_a_stop_gives_no_record() {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let mut clients = clients(&ASKED);
        let time = Duration::from_millis(1);
        let record = run_clients(&mut clients, Schedule::closed(time), &NOT_STOPPED, &mut |_| {}).unwrap();
        let good = record.asking.map(|asking| asking.good);
        assert!(good.is_some_and(|good| good <= record.outcomes.won), "{record:?}");
        assert_eq!(record.outcomes.total() - record.outcomes.failed, ASKED.load(Ordering::Relaxed));
        let stopped = AtomicBool::new(true);
        let run = run_clients(&mut clients, Schedule::closed(time), &stopped, &mut |_| {});
        assert!(matches!(run, Err(RunError::Stopped)));
    }
}
