//! Who runs next: everybody in a run takes turns on one thread, each on a stack of its own, by one seed and a time of its own.
//!
//! A turn goes on until whoever has it waits by [`server::time`]. Whoever holds a lock while it waits stops the run for good, if
//! another wants that lock. Must not: look at the machine's clock but to begin, nor start a thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use generator::{Generator, Gn};
use server::time::{self, Keeper};

use crate::random::Random;

/// Half a mebibyte, in words: the client's errors and the scripts' interpreter fit.
const STACK_WORDS: usize = 64 * 1024;
/// What a turn takes at most.
const TURN_NS_MAX: usize = 20_000;

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

struct Task {
    host: String,
    stack: Generator<'static, (), ()>,
    state: State,
}

/// Keeps the time of the thread.
#[derive(Debug)]
struct Time {
    begun: Instant,
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
    fn now(&self) -> Instant {
        self.begun + self.gone_by.get()
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
    frozen: BTreeMap<String, Duration>,
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
    pub fn new(seed: u64) -> Schedule {
        let (gone_by, waits, notified) = (Cell::default(), Cell::default(), RefCell::default());
        let time = Rc::new(Time { begun: Instant::now(), gone_by, waits, notified });
        time::keep(Some(time.clone()));
        let (tasks, frozen) = (Vec::new(), BTreeMap::new());
        Schedule { time, tasks, frozen, random: Random(seed), turns: 0, trace: 0 }
    }

    /// Somebody more, who belongs to this host.
    pub fn add(&mut self, host: &str, work: impl FnOnce() + Send + 'static) {
        let stack = Gn::<()>::new_opt(STACK_WORDS, work);
        self.tasks.push(Task { host: host.to_owned(), stack, state: State::Ready });
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
        let task = &mut self.tasks[at];
        task.stack.resume();
        let waits = self.time.waits.take();
        task.state = if task.stack.is_done() { State::Ended } else { waits.unwrap_or(State::Ready) };
        let notified = self.time.notified.take();
        let hears = |task: &&mut Task| match task.state {
            State::Waits { place: Some(place), .. } => notified.contains(&place),
            State::Waits { place: None, .. } | State::Ready | State::Ended => false,
        };
        self.tasks.iter_mut().filter(hears).for_each(|task| task.state = State::Ready);
        self.turns += 1;
        let seen = (at as u64) << 48 ^ u64::try_from(self.gone_by().as_nanos()).unwrap_or(u64::MAX);
        self.trace = Random(self.trace ^ seen).number();
        true
    }

    /// Until so much time has gone by.
    pub fn run(&mut self, until: Duration) {
        while self.turn(until) {}
        self.time.gone_by.set(self.gone_by().max(until));
    }

    /// Ends everybody of this host where it waits.
    pub fn crash(&mut self, host: &str) {
        for task in self.tasks.iter_mut().filter(|task| task.host == host) {
            task.stack.cancel();
            task.state = State::Ended;
        }
        self.time.notified.take();
    }

    /// Nobody of this host has a turn for so long.
    pub fn freeze(&mut self, host: &str, duration: Duration) {
        self.frozen.insert(host.to_owned(), self.gone_by() + duration);
    }

    /// When it could have a turn; `None`: never more.
    fn due(&self, task: &Task) -> Option<Duration> {
        let thaws = self.frozen.get(&task.host).copied().unwrap_or_default();
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
