//! Durations and instants as people write them: `90s`, `1h30m`, `2026-12-01T10:00:00+01:00`.
//!
//! Instants are milliseconds since 1970-01-01T00:00:00Z, as in the API. Must not: read a clock; a relative start
//! is counted from the server's.

use std::time::Duration;

use ::time::OffsetDateTime;
use ::time::format_description::well_known::Rfc3339;

pub(crate) use engine::{format_utc, format_utc_exactly};

const DAY_S: u64 = 86_400;

/// Reads `500ms`, `60s`, `15m`, `2h`, `1d`, or a sequence of such parts.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: write it like 60s, 15m, 2h, 1d or 1h30m");
    let mut rest = text.trim();
    let mut total_ms: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_not_a_number| wrong())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit_ms = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => DAY_S * 1_000,
            _ => return Err(wrong()),
        };
        rest = &rest[letters..];
        total_ms = number.checked_mul(unit_ms).and_then(|ms| total_ms.checked_add(ms)).ok_or_else(wrong)?;
    }
    Ok(Duration::from_millis(total_ms))
}

/// Writes a duration the same way: 900 s is `15m`, 5,400 s `1h30m`.
pub(crate) fn format_duration(duration: Duration) -> String {
    engine::format_seconds(duration.as_secs())
}

/// Where a moment is from another, in its two largest units: `in 3h12m`, `2d4h ago`, `now`.
pub(crate) fn format_distance(at_ms: u64, from_ms: u64) -> String {
    let exact = Duration::from_millis(at_ms.abs_diff(from_ms)).as_secs();
    let unit_s = match exact {
        DAY_S.. => 3_600,
        3_600.. => 60,
        _ => 1,
    };
    let text = format_duration(Duration::from_secs(exact - exact % unit_s));
    match (exact, at_ms < from_ms) {
        (0, _) => "now".to_owned(),
        (_, true) => format!("{text} ago"),
        (_, false) => format!("in {text}"),
    }
}

/// A moment as an argument says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Milliseconds since 1970.
    At(u64),
    /// After the server's present.
    In(Duration),
}

/// Reads `now`, `+60s` or RFC 3339.
pub(crate) fn parse_moment(text: &str) -> Result<Moment, String> {
    if text == "now" {
        return Ok(Moment::In(Duration::ZERO));
    }
    if let Some(duration) = text.strip_prefix('+') {
        return parse_duration(duration).map(Moment::In);
    }
    parse_rfc3339(text).map(Moment::At).ok_or_else(|| {
        format!(
            "{text:?} is no time: write it like 2026-12-01T10:00:00Z, 2026-12-01T11:00:00+01:00, now or +60s"
        )
    })
}

/// From 1970 on.
fn parse_rfc3339(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos().div_euclid(1_000_000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, seconds, written) in [
            ("60s", 60, "1m"),
            ("15m", 900, "15m"),
            ("2h", 7_200, "2h"),
            ("1d", 86_400, "1d"),
            ("1h30m", 5_400, "1h30m"),
            ("1500ms", 1, "1s"),
            ("0s", 0, "0s"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(
                (duration.as_secs(), format_duration(duration).as_str()),
                (seconds, written),
                "{text}"
            );
        }
        for text in
            ["", "60", "s", "1x", "-1s", "1.5h", "1h 30m", "99999999999999999999s", "9999999999999999d", "é"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn instants_are_read_and_written() {
        for (text, ms, written) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            ("2000-02-29T23:59:59.25Z", 951_868_799_250, "2000-02-29T23:59:59Z"),
            ("2026-12-01T11:00:00+01:00", 1_796_119_200_000, "2026-12-01T10:00:00Z"),
            ("2026-12-01 04:30:00-05:30", 1_796_119_200_000, "2026-12-01T10:00:00Z"),
            ("9999-12-31T23:59:59z", 253_402_300_799_000, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(parse_moment(text), Ok(Moment::At(ms)), "{text}");
            assert_eq!(format_utc(ms), written);
        }
    }

    #[test]
    fn distances_have_two_units() {
        for (at_ms, text) in [
            (100_000_000, "now"),
            (100_000_999, "now"),
            (100_059_000, "in 59s"),
            (100_090_000, "in 1m30s"),
            (111_527_000, "in 3h12m"),
            (100_000_000 + 187_999_000, "in 2d4h"),
            (96_400_000, "1h ago"),
            (0, "1d3h ago"),
        ] {
            assert_eq!(format_distance(at_ms, 100_000_000), text, "{at_ms}");
        }
    }

    #[test]
    fn instants_are_written_to_the_millisecond() {
        for text in ["2026-12-01T10:00:00Z", "2026-12-01T10:00:00.250Z", "2026-12-01T10:00:00.007Z"] {
            let Ok(Moment::At(ms)) = parse_moment(text) else { panic!("{text} is an instant") };
            assert_eq!(format_utc_exactly(ms), text);
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "2026-12-01",
            "2026-12-01T10:00Z",
            "2026-12-01T10:00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-12-01T24:00:00Z",
            "1969-12-31T23:59:59Z",
            "1969-12-31T23:59:59.9999Z",
            "1970-01-01T00:00:00+01:00",
            "2026-12-01T10:00:00.Z",
            "2026-12-01T10:00:00+1:00",
            "2026-12-01T10:00:00+01:00x",
            "+026-12-01T10:00:00Z",
            "ü026-12-01T10:00:00Z",
            "+60",
            "yesterday",
        ] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn relative_moments_count_from_the_servers_present() {
        assert_eq!(parse_moment("now"), Ok(Moment::In(Duration::ZERO)));
        assert_eq!(parse_moment("+90s"), Ok(Moment::In(Duration::from_secs(90))));
    }
}
