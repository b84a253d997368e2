//! The admission settings that follow from a measured peak, as a fragment that `doorbuster serve --config` takes.

/// The published rule: day-to-day traffic at a third to a half of the measured peak.
const EVERYDAY: (f64, f64) = (1.0 / 3.0, 1.0 / 2.0);
/// The keys' upper bounds.
const ORDERS_PER_S_MAX: u64 = 10_000_000;
const IN_FLIGHT_MAX: u64 = 1_000_000;

/// `peak_per_s` was carried within `p99_us` by `servers` servers together.
///
/// The rate is the peak. In flight, by Little's law: more orders than come in during the limit can't all be answered
/// within it. The burst is half of that, because the server's own default, a tenth of a second's worth, is longer than
/// many limits.
pub fn admission(peak_per_s: f64, p99_us: u64, servers: u64) -> String {
    let limit_s = p99_us as f64 / 1e6;
    let orders_per_s = whole(peak_per_s).clamp(1, ORDERS_PER_S_MAX);
    let in_flight = whole(peak_per_s * limit_s).clamp(1, IN_FLIGHT_MAX);
    let burst = whole(peak_per_s * limit_s / 2.0).clamp(1, ORDERS_PER_S_MAX);
    // Each server keeps its own count of orders in flight; the rate it divides itself, by cluster.servers.
    let in_flight_each = (in_flight / servers.max(1)).max(1);
    format!(
        "# From a measured peak of {peak_per_s:.0} orders/s with a p99 of at most {:.1} ms.\n\
         # Day-to-day traffic: {:.0} to {:.0} orders/s.\n\
         [admission]\norders_per_s = {orders_per_s}\nburst = {burst}\nin_flight_max = {in_flight_each}\nmeasured_peak_per_s = {orders_per_s}\n",
        limit_s * 1e3,
        peak_per_s * EVERYDAY.0,
        peak_per_s * EVERYDAY.1
    )
}

/// Rounded down; a figure that was measured fits.
fn whole(value: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(value).map_or(0, |value| value.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_from_peak_and_limit() {
        let config = admission(9000.7, 50_000, 2);
        assert!(config.contains("# Day-to-day traffic: 3000 to 4500 orders/s.\n"), "{config}");
        let keys = "[admission]\norders_per_s = 9000\nburst = 225\nin_flight_max = 225\nmeasured_peak_per_s = 9000\n";
        assert!(config.ends_with(keys), "{config}");
    }

    #[test]
    fn no_setting_is_outside_of_its_bounds() {
        for (peak, limit) in [(0.2, 1000), (3.0, 50), (1e9, 60_000_000)] {
            let config = admission(peak, limit, 3);
            assert!(!config.contains("= 0\n"), "{config}");
            assert!(config.lines().all(|line| line.len() < 100), "{config}");
        }
    }
}
