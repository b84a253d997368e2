//! A load before the first measurement: a virtual machine compiles what is used often, and is slow until then.

use std::time::{Duration, Instant};

/// The least time is looked at in so many steps.
const STEPS: u32 = 4;
/// A step is faster than all before it if it is so by this factor.
const FASTER: f64 = 1.05;
/// Steps one after the other that are not faster: what is measured is warm.
const NO_FASTER: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Warm {
    pub after: Duration,
    /// Of the fastest step.
    pub per_s: f64,
}

/// Goes on until it gets no faster, for at least so long, and begins no step after the most. `step` loads for about the
/// given time and says at which rate.
pub(super) fn until_no_faster(
    least: Duration,
    most: Duration,
    mut step: impl FnMut(Duration) -> anyhow::Result<f64>,
) -> anyhow::Result<Warm> {
    let begun = Instant::now();
    let (mut per_s, mut no_faster) = (0.0, 0);
    loop {
        let rate = step(least / STEPS)?;
        no_faster = if rate > per_s * FASTER { 0 } else { no_faster + 1 };
        per_s = f64::max(per_s, rate);
        let after = begun.elapsed();
        if after >= least && no_faster >= NO_FASTER || after >= most {
            return Ok(Warm { after, per_s });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that were asked for, until it was warm.
    fn of(rates: &[f64], least: Duration, most: Duration) -> (usize, f64) {
        let mut asked = 0;
        let warm = until_no_faster(least, most, |window| {
            assert_eq!(window, least / STEPS);
            asked += 1;
            Ok(rates[asked - 1])
        });
        (asked, warm.unwrap().per_s)
    }

    #[test]
    fn it_ends_when_two_steps_in_a_row_are_no_faster() {
        let hour = Duration::from_secs(3600);
        let rising = [100.0, 200.0, 190.0, 300.0, 310.0, 311.0, 900.0];
        assert_eq!(
            of(&rising, Duration::ZERO, hour),
            (6, 311.0),
            "310 is not faster than 300 by a twentieth"
        );
        assert_eq!(of(&rising, Duration::ZERO, Duration::ZERO), (1, 100.0), "no longer than the most");
        assert_eq!(of(&[0.0, 0.0, 9.0], Duration::ZERO, hour), (2, 0.0));
    }

    #[test]
    fn what_a_step_fails_of_is_the_failure() {
        let failed = until_no_faster(Duration::ZERO, Duration::ZERO, |_| anyhow::bail!("no room"));
        assert_eq!(failed.unwrap_err().to_string(), "no room");
    }
}
