//! SIGINT, SIGTERM and SIGHUP while something is measured: the first one stops in order, a later one at once; either way
//! no engine is left running.
//!
//! Must not: know what is measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::bench::host::leftovers;
use ::bench::host::procfs;
use ::bench::progress::say;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;

/// One wish to stop often comes as several signals: `timeout` sends two, and a finger is on the keys twice.
const SAME: Duration = Duration::from_secs(1);

/// Held while all is ended at once: the rest of the program sees its servers die, and must not be the first to end.
static AT_ONCE: Mutex<()> = Mutex::new(());

/// Comes back unless this process is being ended at once; then it dies by the signal.
pub(crate) fn wait_for_end() {
    drop(AT_ONCE.lock());
}

/// Ends what killed benches left, then listens for signals.
pub(crate) fn begin(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let ended = leftovers::end_orphans().map_err(Failure::unavailable)?;
    if !ended.is_empty() {
        say(&format!("ended what a bench that was killed had left: {}", leftovers::list(&ended)));
    }
    stop_on_signals(stop)
}

/// Of a command that starts nothing.
pub(crate) fn stop_on_signals(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let mut wanted = vec![SIGINT, SIGTERM];
    // A terminal that is gone is a wish to stop, unless `nohup` says otherwise.
    if !procfs::ignores(SIGHUP).map_err(Failure::unavailable)? {
        wanted.push(SIGHUP);
    }
    let mut signals = Signals::new(wanted).map_err(Failure::unavailable)?;
    let stop = Arc::clone(stop);
    let wait = move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            match first {
                None => {
                    first = Some(Instant::now());
                    stop.store(true, Ordering::Relaxed);
                    say("\nstopping, and ending what was started; a second Ctrl-C ends at once");
                }
                Some(at) if at.elapsed() < SAME => {}
                Some(_) => end_at_once(signal),
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(Failure::unavailable)?;
    Ok(())
}

/// Our children first, then this process, as if nobody listened for the signal.
fn end_at_once(signal: i32) {
    let _held = AT_ONCE.lock();
    match leftovers::end_own() {
        Ok(ended) if ended.is_empty() => {}
        Ok(ended) => say(&format!("\nended at once; their files stay: {}", leftovers::list(&ended))),
        Err(error) => say(&format!("\nerror: {error}")),
    }
    // If even that fails nobody can learn of it; the orderly stop goes on.
    drop(emulate_default_handler(signal));
}
