//! When to kill in mid-load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(5);

/// Until the load has run for `time` and an order is accepted, or it has ended, or `stop` is raised.
///
/// A machine that is busy may have accepted nothing by then, and a kill would have nothing to lose.
pub(crate) fn wait_for_an_order<T>(
    load: &ScopedJoinHandle<'_, T>,
    time: Duration,
    won: &AtomicBool,
    stop: &AtomicBool,
) {
    let begun = Instant::now();
    let is_early = || begun.elapsed() < time || !won.load(Ordering::Relaxed);
    while is_early() && !load.is_finished() && !stop.load(Ordering::Relaxed) {
        thread::sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Who waits, and what ends it: seen from a load that goes on until the wait is over.
    fn ended_by(won: bool, raise: impl Fn(&AtomicBool, &AtomicBool) + Sync) {
        let (won, stop) = (&AtomicBool::new(won), &AtomicBool::new(false));
        let (end, ended) = mpsc::sync_channel::<()>(1);
        thread::scope(|scope| {
            let load = scope.spawn(move || ended.recv());
            let raise = &raise;
            let waiting = scope.spawn(move || {
                wait_for_an_order(&load, Duration::from_millis(1), won, stop);
                (won.load(Ordering::Relaxed), stop.load(Ordering::Relaxed), load.is_finished())
            });
            raise(won, stop);
            let found = waiting.join().unwrap();
            assert!(found.0 || found.1, "it waited for neither an order nor the stop: {found:?}");
            assert!(!found.2, "the load ended first");
            drop(end);
        });
    }

    #[test]
    fn it_waits_for_an_order_or_for_the_stop() {
        ended_by(true, |_, _| {});
        // Long past its time: what it waits for is the order.
        let late = Duration::from_millis(50);
        ended_by(false, |won, _| {
            thread::sleep(late);
            won.store(true, Ordering::Relaxed);
        });
        ended_by(false, |_, stop| {
            thread::sleep(late);
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_load_that_has_ended_is_not_waited_for() {
        thread::scope(|scope| {
            let load = scope.spawn(|| ());
            wait_for_an_order(
                &load,
                Duration::from_secs(3600),
                &AtomicBool::new(false),
                &AtomicBool::new(false),
            );
        });
    }
}
