//! Before the search: what this machine does to a program that only sleeps, and what the generator alone can send.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::drivers::http::Http;
use crate::load::distribution::times;
use crate::load::record::{Outcome, micros};
use crate::load::schedule::Schedule;
use crate::load::trial::Distribution;
use crate::load::{Generator, Settings};
use crate::nginx::Nginx;
use crate::traffic::{Reference, Traffic};

const NOISE_FOR: Duration = Duration::from_secs(1);
const NOISE_STEP: Duration = Duration::from_millis(1);

/// How much later than asked a sleeping thread runs again, while nothing else of ours does.
///
/// # Errors
/// If the stop flag is raised.
pub(super) fn idle_noise(stop: &AtomicBool) -> anyhow::Result<Distribution> {
    let begun = Instant::now();
    let mut late = times();
    while begun.elapsed() < NOISE_FOR {
        ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        let asleep = Instant::now();
        std::thread::sleep(NOISE_STEP);
        late.saturating_record(micros(Instant::now(), asleep + NOISE_STEP));
    }
    Ok(Distribution::of(&late))
}

/// Requests per second to an nginx that answers each with nothing: the same bytes, as many users.
///
/// # Errors
/// If nginx can't be started, or does not answer.
pub(super) fn ceiling(
    folder: &Path,
    traffic: &mut Traffic,
    users: usize,
    length: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<f64> {
    let folder = folder.join("nginx");
    std::fs::create_dir(&folder).context("nginx's folder")?;
    let nginx = Nginx::start(&folder)?;
    let mut requests = Reference(traffic);
    let mut http = Http { workload: &mut requests };
    let mut generator = Generator::connect(Settings::keep_alive(nginx.address(), users), &mut http)
        .context("connecting to nginx")?;
    let record = generator.run(Schedule::closed(length), &mut http, stop)?;
    let served = record.per_s(Outcome::Served);
    ensure!(served > 0.0, "nginx answers nothing: {:?}", record.outcomes);
    Ok(served)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_never_early() {
        let noise = idle_noise(&AtomicBool::new(false)).unwrap();
        assert!(noise.mean_us > 0.0 && noise.at(0.99) <= noise.max_us, "{noise:?}");
        assert!(idle_noise(&AtomicBool::new(true)).is_err());
    }
}
