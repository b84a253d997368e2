//! Time as the servers know it: the machine's, or that of whoever plays them.
//!
//! A simulation gives its thread a [`Keeper`]: from then on nothing on that thread that goes by these types looks at the machine's
//! clock, sleeps or blocks. It is the keeper who says what time it is, and to whom a wait hands over
//! (docs/decisions/040-time-of-the-stages.md). Elsewhere that costs a look at one of the thread's own variables.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::rc::Rc;
use std::sync::{self, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Keeps the time of one thread, on which several take turns. Must not panic except to end whoever waits.
pub trait Keeper {
    /// How much time has gone by since a moment of its own: never less than before.
    fn now(&self) -> Duration;

    /// Returns once so long has gone by.
    fn sleep(&self, duration: Duration);

    /// Returns once this place was notified, or so long has gone by.
    fn wait(&self, place: usize, at_most: Duration);

    /// Ends the wait of everybody who waits at this place now.
    fn notify(&self, place: usize);
}

thread_local! {
    static KEEPER: RefCell<Option<Rc<dyn Keeper>>> = const { RefCell::new(None) };
}

/// Gives this thread's time to a keeper, or back to the machine.
pub fn keep(keeper: Option<Rc<dyn Keeper>>) {
    KEEPER.set(keeper);
}

fn keeper() -> Option<Rc<dyn Keeper>> {
    KEEPER.with_borrow(Clone::clone)
}

/// [`std::thread::sleep`], by the thread's own time.
pub fn sleep(duration: Duration) {
    match keeper() {
        Some(keeper) => keeper.sleep(duration),
        None => std::thread::sleep(duration),
    }
}

/// There are moments before the machine was started.
const BOOT: Duration = Duration::from_secs(1 << 32);

/// A moment, by the thread's own time. The machine's counts on while it is suspended, which [`std::time::Instant`] does not:
/// whoever wakes up knows that what it had in mind is old.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Instant {
        let since_boot = KEEPER.with_borrow(|keeper| match keeper {
            Some(keeper) => keeper.now(),
            None => since_boot(),
        });
        Instant(BOOT + since_boot)
    }

    pub fn elapsed(self) -> Duration {
        Instant::now().duration_since(self)
    }

    /// No time if `earlier` is later.
    pub fn duration_since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

fn since_boot() -> Duration {
    let at = clock_gettime(ClockId::Boottime);
    Duration::try_from(at).expect("the machine was started before now")
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0 - duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

/// [`sync::Condvar`], waited at for a bounded time, by the thread's own.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Locks, and waits while it must, at most so long.
    pub fn wait_while<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        at_most: Duration,
        mut must: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let lock = || mutex.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(keeper) = keeper() else {
            let waited = self.0.wait_timeout_while(lock(), at_most, must);
            return waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        let begun = Instant::now();
        loop {
            let mut guard = lock();
            let left = at_most.saturating_sub(begun.elapsed());
            if left.is_zero() || !must(&mut guard) {
                return guard;
            }
            drop(guard);
            keeper.wait(self.place(), left);
        }
    }

    pub fn notify_one(&self) {
        match keeper() {
            Some(keeper) => keeper.notify(self.place()),
            None => self.0.notify_one(),
        }
    }

    pub fn notify_all(&self) {
        match keeper() {
            Some(keeper) => keeper.notify(self.place()),
            None => self.0.notify_all(),
        }
    }

    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::env;
    use std::process::Command;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn it_is_of_the_clock_that_counts_on() {
        let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap();
        let [awake, in_all] = [ClockId::Monotonic, ClockId::Boottime].map(read);
        assert!(Instant::now() >= Instant(BOOT + in_all));
        println!("suspended for {} s", in_all.saturating_sub(awake).as_secs());
    }

    /// In a namespace in which that clock is ahead of the other, as it is once a machine was suspended.
    #[test]
    fn what_counts_is_also_the_time_in_which_the_machine_was_suspended() {
        let mut test = Command::new("unshare");
        test.args(["--map-root-user", "--time", "--boottime", "100000", "--fork"]);
        test.arg(env::current_exe().unwrap()).args(["it_is_of_the_clock_that_counts_on", "--nocapture"]);
        let output = test.output().expect("unshare is of util-linux, which every Debian has");
        let says = String::from_utf8_lossy(&output.stdout);
        let is_ahead = says.contains("suspended for 100000 s") && says.contains("1 passed");
        assert!(output.status.success() && is_ahead, "{output:?}");
    }

    /// Whoever sleeps or waits is alone, and time goes by at once. Every third wait ends for no reason.
    struct Alone {
        gone_by: Cell<Duration>,
        waits: Cell<u32>,
        notified: Cell<usize>,
    }

    impl Keeper for Alone {
        fn now(&self) -> Duration {
            self.gone_by.get()
        }

        fn sleep(&self, duration: Duration) {
            self.gone_by.set(self.gone_by.get() + duration);
        }

        fn wait(&self, place: usize, at_most: Duration) {
            assert_ne!(place, 0);
            self.waits.set(self.waits.get() + 1);
            self.sleep(if self.waits.get().is_multiple_of(3) { Duration::from_secs(1) } else { at_most });
        }

        fn notify(&self, place: usize) {
            self.notified.set(place);
        }
    }

    #[test]
    fn a_thread_with_a_keeper_goes_by_its_time_and_the_others_by_the_machines() {
        let gone_by = Cell::new(since_boot());
        let alone = Rc::new(Alone { gone_by, waits: Cell::default(), notified: Cell::default() });
        keep(Some(alone.clone()));
        let (at, mutex, condvar) = (Instant::now(), Mutex::new(0), Condvar::default());
        sleep(HOUR);
        assert_eq!((at.elapsed(), Instant::now() - at), (HOUR, HOUR));
        assert_eq!(at.duration_since(Instant::now()), Duration::ZERO);
        // Nobody makes it true: it is waited for to the end. The third wait of it all is cut short, and gone on with.
        for _ in 0..3 {
            *condvar.wait_while(&mutex, HOUR, |_| true) += 1;
        }
        assert_eq!((at.elapsed(), alone.waits.get()), (4 * HOUR, 4));
        assert_eq!(*condvar.wait_while(&mutex, HOUR, |_| false), 3);
        condvar.notify_all();
        assert_eq!(alone.notified.get(), condvar.place());
        let late = Instant::now();
        let elsewhere = std::thread::spawn(move || Instant::now() < late);
        assert!(elsewhere.join().unwrap(), "the time of another thread has not gone on");
        keep(None);
        assert!(Instant::now() < late);
    }
}
