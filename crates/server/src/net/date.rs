//! The `Date` header, formatted once a second. Informational only: no order ever depends on it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::date_of;

const LINE_BYTES: usize = "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n".len();

/// The current header line, and when it was made.
#[derive(Debug)]
pub(super) struct DateLine {
    line: [u8; LINE_BYTES],
    unix_seconds: u64,
    started: Instant,
    started_unix: Duration,
}

impl DateLine {
    #[allow(
        clippy::disallowed_methods,
        reason = "the Date header says the wall time, read once here and carried on by the monotonic clock"
    )]
    pub(super) fn new(now: Instant) -> DateLine {
        let started_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_seconds = started_unix.as_secs();
        DateLine { line: format_line(unix_seconds), unix_seconds, started: now, started_unix }
    }

    /// Called once per poll round; formats only when a new second has begun.
    pub(super) fn advance(&mut self, now: Instant) {
        let unix_seconds = (self.started_unix + now.duration_since(self.started)).as_secs();
        if unix_seconds != self.unix_seconds {
            self.unix_seconds = unix_seconds;
            self.line = format_line(unix_seconds);
        }
    }

    /// `Date: ...` with its line end.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }
}

/// IMF-fixdate (RFC 9110, 5.6.7) of a time after 1970.
fn format_line(unix_seconds: u64) -> [u8; LINE_BYTES] {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = unix_seconds / 86_400;
    let second = unix_seconds % 86_400;
    let (year, month, day) = date_of(days);
    let text = format!(
        "Date: {}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT\r\n",
        WEEKDAYS[usize::try_from(days % 7).expect("below 7")],
        MONTHS[usize::try_from(month - 1).expect("below 12")],
        second / 3_600,
        second / 60 % 60,
        second % 60,
    );
    text.as_bytes().try_into().expect("every field has a fixed width before the year 10000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (unix, expected) in [
            (0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
            (784_111_777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (951_827_696, "Date: Tue, 29 Feb 2000 12:34:56 GMT\r\n"),
            (1_735_689_599, "Date: Tue, 31 Dec 2024 23:59:59 GMT\r\n"),
            (4_107_542_400, "Date: Mon, 01 Mar 2100 00:00:00 GMT\r\n"),
        ] {
            assert_eq!(std::str::from_utf8(&format_line(unix)).unwrap(), expected);
        }
    }

    #[test]
    fn advances_with_the_monotonic_clock() {
        let start = Instant::now();
        let mut date = DateLine::new(start);
        let first = date.unix_seconds;
        date.advance(start + Duration::from_secs(61));
        assert_eq!(date.unix_seconds, first + 61);
        assert_eq!(date.line(), &format_line(first + 61));
    }
}
