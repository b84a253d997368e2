//! Who runs next: everybody in a run takes turns on one thread, each on a stack of its own, by one seed and a time of its own.
//!
//! A turn goes on until whoever has it waits by [`server::time`]. Whoever holds a lock while it waits stops the run for good, if
//! another wants that lock. Must not: look at the machine's clock, nor start a thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use engine::UnixMs;
use generator::{Generator, Gn};
use server::time::{self, Instant, Keeper};

use crate::random::Random;

/// Half a mebibyte, in words: the client's errors and the scripts' interpreter fit.
const STACK_WORDS: usize = 64 * 1024;
/// What a turn takes at most.
const TURN_NS_MAX: usize = 20_000;

/// Work of a host, to be added.
type Added = (String, Box<dyn FnOnce() + Send>);

thread_local! {
    /// What the clock of the machine that has the turn says.
    static WALL: Cell<UnixMs> = const { Cell::new(UnixMs(0)) };
    /// How far its [`Instant`]s are behind those of machines that were never paused.
    static BEHIND: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static STOPS: RefCell<BTreeMap<String, Stop>> = const { RefCell::new(BTreeMap::new()) };
    static ADDED: RefCell<Vec<Added>> = const { RefCell::new(Vec::new()) };
}

/// What the clock of the machine says on which this runs.
pub fn wall() -> UnixMs {
    WALL.get()
}

/// What time it is where no machine was ever paused, whoever has the turn.
pub fn instant() -> Instant {
    Instant::now() + BEHIND.get()
}

/// What time it is on this host's machine.
pub fn instant_of(host: &str) -> Instant {
    STOPS.with_borrow(|stops| stops.get(host).map_or(instant(), Stop::its_now))
}

/// Whether that stands still as a whole.
pub fn is_stopped(host: &str) -> bool {
    STOPS.with_borrow(|stops| stops.get(host).is_some_and(|stop| instant() < stop.ends))
}

/// Somebody more who belongs to this host, for who has the turn.
pub fn spawn(host: &str, work: impl FnOnce() + Send + 'static) {
    ADDED.with_borrow_mut(|added| added.push((host.to_owned(), Box::new(work))));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// Until this much time has gone by, or this place is notified.
    Waits {
        until: Duration,
        place: Option<usize>,
    },
    Ended,
}

/// A machine.
#[derive(Debug)]
struct Host {
    name: String,
    /// Until then nobody of it has a turn.
    frozen: Duration,
    /// How far its clock was set.
    set_ms: i64,
}

/// A machine that stands still as a whole, or did.
#[derive(Debug)]
struct Stop {
    ends: Instant,
    /// How far its [`Instant`]s are behind since, and where they stood.
    behind: Duration,
    stood_at: Instant,
}

impl Stop {
    fn its_now(&self) -> Instant {
        (instant() - self.behind).max(self.stood_at)
    }
}

struct Task {
    /// Its place among the hosts.
    host: usize,
    stack: Generator<'static, (), ()>,
    state: State,
}

/// Keeps the time of the thread.
#[derive(Debug)]
struct Time {
    gone_by: Cell<Duration>,
    /// What whoever has the turn waits for.
    waits: Cell<Option<State>>,
    notified: RefCell<Vec<usize>>,
}

impl Time {
    fn hand_over(&self, duration: Duration, place: Option<usize>) {
        let until = self.gone_by.get().saturating_add(duration);
        if !generator::is_generator() {
            return self.gone_by.set(until);
        }
        self.waits.set(Some(State::Waits { until, place }));
        #[expect(
            deprecated,
            reason = "the scope that replaces it can't be kept beside the stack that it is of"
        )]
        generator::yield_with(());
    }
}

impl Keeper for Time {
    fn now(&self) -> Duration {
        self.gone_by.get() - BEHIND.get()
    }

    fn sleep(&self, duration: Duration) {
        self.hand_over(duration, None);
    }

    fn wait(&self, place: usize, at_most: Duration) {
        self.hand_over(at_most, Some(place));
    }

    fn notify(&self, place: usize) {
        self.notified.borrow_mut().push(place);
    }
}

/// One run. While there is one, its thread's time is its own.
pub struct Schedule {
    time: Rc<Time>,
    tasks: Vec<Task>,
    hosts: Vec<Host>,
    /// What all clocks said when the run began.
    began: UnixMs,
    random: Random,
    turns: u64,
    trace: u64,
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Schedule { time, turns, .. } = self;
        f.debug_struct("Schedule").field("time", time).field("turns", turns).finish_non_exhaustive()
    }
}

impl Schedule {
    /// `began`: what all clocks say now.
    pub fn new(began: UnixMs, seed: u64) -> Schedule {
        let (gone_by, waits, notified) = (Cell::default(), Cell::default(), RefCell::default());
        let time = Rc::new(Time { gone_by, waits, notified });
        time::keep(Some(time.clone()));
        let (tasks, hosts) = (Vec::new(), Vec::new());
        WALL.set(began);
        // What a run has left that ended with a panic.
        drop(ADDED.take());
        drop(STOPS.take());
        BEHIND.set(Duration::ZERO);
        Schedule { time, tasks, hosts, began, random: Random(seed), turns: 0, trace: 0 }
    }

    /// Somebody more, who belongs to this host.
    pub fn add(&mut self, host: &str, work: impl FnOnce() + Send + 'static) {
        let stack = Gn::<()>::new_opt(STACK_WORDS, work);
        let host = self.host(host);
        self.tasks.push(Task { host, stack, state: State::Ready });
    }

    /// How much time has gone by.
    pub fn gone_by(&self) -> Duration {
        self.time.gone_by.get()
    }

    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// A number that two runs have in common if the same had their turns at the same time.
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// Lets one have its turn. False: nobody can before so much time has gone by.
    fn turn(&mut self, until: Duration) -> bool {
        let Some(at) = self.next(until) else { return false };
        let took = Duration::from_nanos(self.random.below(TURN_NS_MAX) as u64);
        self.time.gone_by.set(self.gone_by() + took);
        let host = &self.hosts[self.tasks[at].host];
        let gone_by = u64::try_from(self.gone_by().as_millis()).unwrap_or(u64::MAX);
        WALL.set(self.began.plus(gone_by).shifted(host.set_ms));
        BEHIND
            .set(STOPS.with_borrow(|stops| stops.get(&host.name).map_or(Duration::ZERO, |stop| stop.behind)));
        let task = &mut self.tasks[at];
        task.stack.resume();
        BEHIND.set(Duration::ZERO);
        // Whoever had the turn began to wait after it had notified. What it notified may be gone, and what it waits at stand in its place.
        let notified = self.time.notified.take();
        let hears = |task: &&mut Task| match task.state {
            State::Waits { place: Some(place), .. } => notified.contains(&place),
            State::Waits { place: None, .. } | State::Ready | State::Ended => false,
        };
        let waits = self.time.waits.take();
        let now = if task.stack.is_done() { State::Ended } else { waits.unwrap_or(State::Ready) };
        self.tasks.iter_mut().filter(hears).for_each(|task| task.state = State::Ready);
        self.tasks[at].state = now;
        for (host, work) in ADDED.take() {
            self.add(&host, work);
        }
        self.turns += 1;
        let seen = (at as u64) << 48 ^ u64::try_from(self.gone_by().as_nanos()).unwrap_or(u64::MAX);
        self.trace = Random(self.trace ^ seen).number();
        true
    }

    /// Until so much time has gone by.
    pub fn run(&mut self, until: Duration) {
        self.run_and_look(until, |_| {});
    }

    /// The same, with a look after each turn; it is given the time.
    pub fn run_and_look(&mut self, until: Duration, mut look: impl FnMut(Duration)) {
        while self.turn(until) {
            look(self.gone_by());
        }
        self.time.gone_by.set(self.gone_by().max(until));
    }

    /// Ends everybody of this host where it waits.
    pub fn crash(&mut self, host: &str) {
        let host = self.host(host);
        for task in self.tasks.iter_mut().filter(|task| task.host == host) {
            task.stack.cancel();
            task.state = State::Ended;
        }
        self.time.notified.take();
    }

    /// The clock of this host's machine steps.
    pub fn set_clock(&mut self, host: &str, by_ms: i64) {
        let host = self.host(host);
        self.hosts[host].set_ms += by_ms;
    }

    /// Nobody of this host has a turn for so long, or as long as before.
    pub fn freeze(&mut self, host: &str, duration: Duration) {
        let (host, until) = (self.host(host), self.gone_by() + duration);
        let frozen = &mut self.hosts[host].frozen;
        *frozen = until.max(*frozen);
    }

    /// This host's machine stands still for so long, and so does what it waits for by its time. `clocks`: and its [`Instant`]s, as those
    /// of a virtual machine that is paused; what they count of one that is suspended goes on.
    /// How much longer it stands still than it would have without this.
    pub fn stop(&mut self, host: &str, duration: Duration, clocks: bool) -> Duration {
        self.freeze(host, duration);
        let (now, its_now, ends) = (instant(), instant_of(host), instant() + duration);
        let more = STOPS.with_borrow_mut(|stops| {
            let new = Stop { ends: now, behind: Duration::ZERO, stood_at: its_now };
            let stop = stops.entry(host.to_owned()).or_insert(new);
            let more = ends - stop.ends.max(now);
            stop.ends = stop.ends.max(ends);
            if clocks {
                (stop.behind, stop.stood_at) = (stop.behind + more, its_now);
            }
            more
        });
        let (host, gone_by) = (self.host(host), self.gone_by());
        for task in self.tasks.iter_mut().filter(|task| task.host == host) {
            if let State::Waits { until, .. } = &mut task.state
                && *until > gone_by
            {
                *until = until.saturating_add(more);
            }
        }
        more
    }

    fn host(&mut self, name: &str) -> usize {
        self.hosts.iter().position(|host| host.name == name).unwrap_or_else(|| {
            self.hosts.push(Host { name: name.to_owned(), frozen: Duration::ZERO, set_ms: 0 });
            self.hosts.len() - 1
        })
    }

    /// When it could have a turn; `None`: never more.
    fn due(&self, task: &Task) -> Option<Duration> {
        let thaws = self.hosts[task.host].frozen;
        match task.state {
            State::Ready => Some(thaws),
            State::Waits { until, .. } => Some(until.max(thaws)),
            State::Ended => None,
        }
    }

    fn next(&mut self, until: Duration) -> Option<usize> {
        let earliest = self.tasks.iter().filter_map(|task| self.due(task)).min()?;
        let now = self.gone_by().max(earliest);
        if now >= until {
            return None;
        }
        self.time.gone_by.set(now);
        let can = |task: &Task| self.due(task).is_some_and(|due| due <= now);
        let able: Vec<usize> =
            self.tasks.iter().enumerate().filter(|(_, task)| can(task)).map(|(at, _)| at).collect();
        Some(self.random.of(&able))
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        // Whoever ends by that may still look what time it is.
        self.tasks.clear();
        time::keep(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use server::time::Condvar;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A place is an address, which a new one may have of one that is gone: so a turn would depend on the allocator.
    #[test]
    fn whoever_notifies_and_then_waits_is_not_woken_by_itself() {
        let mut schedule = Schedule::new(UnixMs(0), 1);
        schedule.add("host", || {
            let condvar = Condvar::default();
            condvar.notify_all();
            drop(condvar.wait_while(&Mutex::new(()), HOUR, |()| true));
        });
        schedule.run(2 * HOUR);
        assert_eq!(schedule.turns(), 2);
    }
}
