//! Days as dates, in the Gregorian calendar and UTC; times, and how long something takes, as people read them.
//!
//! Must not: read a clock.

use std::fmt::Write as _;

const DAY_S: u64 = 86_400;

/// Year, month from 1 and day from 1 of a day counted from 1970-01-01: in here years begin in March, so that the
/// leap day is the last of its year, and 400 of them are one cycle.
pub fn date_of(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (cycle, of_cycle) = (day / 146_097, day % 146_097);
    let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + carry, month, day)
}

/// A time as a person reads it, to the second: `2026-12-01T10:00:00Z`.
pub fn format_utc(ms: u64) -> String {
    let seconds = ms / 1_000;
    let ((year, month, day), second_of_day) = (date_of(seconds / DAY_S), seconds % DAY_S);
    let (hour, minute, second) = (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same, with milliseconds where there are any: two times that differ are written differently.
pub fn format_utc_exactly(ms: u64) -> String {
    let text = format_utc(ms);
    match ms % 1_000 {
        0 => text,
        rest => text.replace('Z', &format!(".{rest:03}Z")),
    }
}

/// A length of time: 900 s is `15m`, 5,400 s `1h30m`.
pub fn format_seconds(seconds: u64) -> String {
    let mut rest = seconds;
    let mut text = String::new();
    for (unit_s, unit) in [(DAY_S, "d"), (3_600, "h"), (60, "m"), (1, "s")] {
        if rest >= unit_s {
            write!(text, "{}{unit}", rest / unit_s).expect("a String takes every write");
            rest %= unit_s;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_a_cycle_follows_the_one_before() {
        let leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for count in 0..=146_097 {
            assert_eq!(date_of(count), (year, month, day), "day {count}");
            let days = match month {
                2 if leap(year) => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == days => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert_eq!((year, month, day), (2370, 1, 2));
    }
}
