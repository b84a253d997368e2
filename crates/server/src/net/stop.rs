//! Ending event loops from outside: the handle that wakes a loop and the one that stops all of them.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Wakes one event loop from any thread; each call is one write to an eventfd.
#[derive(Clone, Debug)]
pub struct Waker(Arc<mio::Waker>);

impl Waker {
    pub(super) fn new(waker: mio::Waker) -> Waker {
        Waker(Arc::new(waker))
    }

    /// Makes the loop run a round, and so call [`Service::deliver`](super::Service::deliver), soon.
    pub fn wake(&self) {
        if let Err(error) = self.0.wake() {
            tracing::error!(%error, "an event loop could not be woken");
        }
    }
}

/// Whether the loops are to stop, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    Run,
    Drain,
    Abort,
}

const RUN: u8 = 0;
const DRAIN: u8 = 1;
const ABORT: u8 = 2;

/// Stops the loops that run with it. Clones are one handle. An order only ever becomes stricter.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    order: AtomicU8,
    wakers: Mutex<Vec<Waker>>,
}

impl Stop {
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Graceful: the loops stop accepting, answer every request that they have received or begun to
    /// receive with `Connection: close`, close idle connections, and end within `Limits::drain`.
    pub fn request(&self) {
        self.raise(DRAIN);
    }

    /// At once: the loops take up the answers that are ready, try to send what is written, and end.
    pub fn abort(&self) {
        self.raise(ABORT);
    }

    /// Whether the loops are to stop, in whichever way.
    pub fn is_requested(&self) -> bool {
        self.stopping() != Stopping::Run
    }

    fn raise(&self, order: u8) {
        self.0.order.fetch_max(order, Ordering::SeqCst);
        self.wake_all();
    }

    /// Makes each of the loops run a round, whether it is to stop or not.
    pub fn wake_all(&self) {
        for waker in self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            waker.wake();
        }
    }

    /// A loop adds its waker before it first looks at the order, so that no order is missed.
    pub(super) fn register(&self, waker: Waker) {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// As a loop that waits on this would.
    #[cfg(test)]
    pub(crate) fn register_poll(&self, poll: &mio::Poll) {
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("it has no waker yet");
        self.register(Waker::new(waker));
    }

    pub(super) fn stopping(&self) -> Stopping {
        match self.0.order.load(Ordering::SeqCst) {
            RUN => Stopping::Run,
            DRAIN => Stopping::Drain,
            _ => Stopping::Abort,
        }
    }
}
