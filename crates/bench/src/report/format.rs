//! How figures are written for people: three or four digits, and a unit that fits.
//!
//! The JSON and the CSV have the numbers themselves; this is for tables, pages and terminals.

use std::time::Duration;

use time::OffsetDateTime;

/// In the unit of a metric: `12,345/s`, `1.25 ms`, `28.9 MiB`.
pub(crate) fn figure(value: f64, unit: &str) -> String {
    match unit {
        "1/s" => format!("{}/s", number(value)),
        "us" => time_us(value),
        "ms" => time_us(value * 1e3),
        "s" => time_us(value * 1e6),
        "bytes" => bytes(value),
        "" => number(value),
        _ => format!("{} {unit}", number(value)),
    }
}

/// Thousands are set apart; decimals only where they say something.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "not a number".to_owned();
    }
    let size = value.abs();
    let decimals = match size {
        _ if size >= 100.0 || value.fract() == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{size:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}{rest}", grouped(whole))
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn time_us(us: f64) -> String {
    match us.abs() {
        size if size >= 1e6 => format!("{} s", number(us / 1e6)),
        size if size >= 1e3 => format!("{} ms", number(us / 1e3)),
        _ => format!("{} us", number(us)),
    }
}

pub(super) fn bytes(bytes: f64) -> String {
    let size = bytes.abs();
    for (unit, name) in [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")] {
        if size >= unit {
            return format!("{} {name}", number(bytes / unit));
        }
    }
    format!("{} B", number(bytes))
}

/// `0.62 x`.
pub(super) fn times(ratio: f64) -> String {
    if ratio >= 100.0 { format!("{} x", number(ratio)) } else { format!("{ratio:.2} x") }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// `2 h 5 min`, `5 min 40 s`, `12 s`.
pub(super) fn duration(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// `2026-11-21 23:35:46 UTC` of seconds since 1970; the number itself where it can be no date.
pub(super) fn utc(unix_s: u64) -> String {
    match i64::try_from(unix_s).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok()) {
        Some(at) => {
            let (hour, minute, second) = at.to_hms();
            format!("{} {hour:02}:{minute:02}:{second:02} UTC", at.date())
        }
        None => format!("{unix_s} s after 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (value, unit, text) in [
            (1_234_567.8, "1/s", "1,234,568/s"),
            (999.4, "1/s", "999/s"),
            (12.34, "1/s", "12.3/s"),
            (0.1234, "1/s", "0.123/s"),
            (850.0, "us", "850 us"),
            (1250.0, "us", "1.25 ms"),
            (2_500_000.0, "us", "2.50 s"),
            (4.12, "s", "4.12 s"),
            (0.035, "s", "35 ms"),
            (30_303_846.0, "bytes", "28.9 MiB"),
            (512.0, "bytes", "512 B"),
            (-1234.0, "", "-1,234"),
            (3.0, "keys", "3 keys"),
            (f64::NAN, "1/s", "not a number/s"),
        ] {
            assert_eq!(figure(value, unit), text);
        }
        assert_eq!((times(0.618), times(1234.0)), ("0.62 x".to_owned(), "1,234 x".to_owned()));
    }

    #[test]
    fn durations_have_two_parts_at_most() {
        assert_eq!([0.4, 59.9, 340.0, 7540.0].map(duration), ["0 s", "59 s", "5 min 40 s", "2 h 5 min"]);
        assert_eq!(duration(f64::NAN), "0 s");
    }

    #[test]
    fn days_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_304_146), "2026-11-21 23:35:46 UTC");
        assert_eq!(utc(u64::MAX), "18446744073709551615 s after 1970");
    }
}
