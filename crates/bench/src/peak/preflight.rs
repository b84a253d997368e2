//! Before the search: what this machine does to a program that only sleeps, and what the generator alone can send.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::trials::LAG_SHARE;
use crate::drivers::http::Http;
use crate::drivers::http::traffic::{Reference, Traffic};
use crate::load::distribution::Durations;
use crate::load::record::{Outcome, micros};
use crate::load::schedule::Schedule;
use crate::load::trial::Distribution;
use crate::load::{Generator, Settings};
use crate::target::nginx::Nginx;

const NOISE_FOR: Duration = Duration::from_secs(1);
const NOISE_STEP: Duration = Duration::from_millis(1);

/// How much later than asked a sleeping thread runs again, while nothing else of ours does.
pub(super) fn idle_noise(stop: &AtomicBool) -> anyhow::Result<Distribution> {
    let begun = Instant::now();
    let mut late = Durations::default();
    while begun.elapsed() < NOISE_FOR {
        ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        let asleep = Instant::now();
        std::thread::sleep(NOISE_STEP);
        late.saturating_record(micros(Instant::now(), asleep + NOISE_STEP));
    }
    Ok(Distribution::of(&late))
}

/// What is to be said before the search if this machine wakes a sleeper so late that a generator can hardly be on time.
pub(super) fn too_noisy(noise: &Distribution, limit: Duration) -> Option<String> {
    let (late_us, most_us) = (noise.at(0.99) as f64, limit.as_micros() as f64 / LAG_SHARE as f64);
    (late_us > most_us).then(|| {
        format!(
            "This machine is busy with other work: it runs a thread {:.1} ms late (p99), and a generator that is more \
             than {:.1} ms late makes a trial invalid. End that work, or raise the limit.",
            late_us / 1e3,
            most_us / 1e3
        )
    })
}

/// Requests per second to an nginx that answers each with nothing: the same bytes, as many users.
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
    let mut generator = Generator::connect(Settings::keep_alive(nginx.address, users), &mut http)
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
    fn a_late_machine_is_noted_beside_the_limit() {
        let mut late = Durations::default();
        late.record_n(6000, 100).unwrap();
        let late = Distribution::of(&late);
        assert!(too_noisy(&late, Duration::from_millis(50)).is_some_and(|said| said.contains("6.0 ms late")));
        assert_eq!(too_noisy(&late, Duration::from_millis(100)), None);
    }

    #[test]
    fn a_sleeper_is_never_early() {
        let noise = idle_noise(&AtomicBool::new(false)).unwrap();
        assert!(noise.mean_us > 0.0 && noise.at(0.99) <= noise.max_us, "{noise:?}");
        assert!(idle_noise(&AtomicBool::new(true)).is_err());
    }
}
