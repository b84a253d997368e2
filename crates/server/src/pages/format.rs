//! Money, counts and times as text, in English, the way `Intl` writes them in the browser: what the server
//! rendered must not change before the reader's eyes when the script takes over.
//!
//! Must not: read a clock. Called by: the pages.

/// `499900, "EUR"` is `€4,999.00`; a currency without a sign of its own is written `CHF 12.50`.
pub(super) fn money(minor: u64, currency: &str) -> String {
    let digits = minor_digits(currency);
    let unit = 10_u64.pow(digits);
    let mut text = sign(currency).map_or_else(|| format!("{currency}\u{a0}"), str::to_owned);
    text.push_str(&grouped(minor / unit));
    if digits > 0 {
        text.push_str(&format!(".{:0width$}", minor % unit, width = digits as usize));
    }
    text
}

/// `10000000` is `10,000,000`.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `900000` is `15 minutes`; under two minutes it is said in seconds.
pub(super) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        1 => "1 second".to_owned(),
        0..120 => format!("{seconds} seconds"),
        120..7200 => format!("{} minutes", seconds / 60),
        _ => format!("{} hours", seconds / 3600),
    }
}

/// Milliseconds since the epoch as `2026-11-20T12:00:00Z`, for `<time datetime>`.
pub(super) fn rfc3339(ms: u64) -> String {
    let (year, month, day) = civil_date(ms / DAY_MS);
    let (hour, minute, second) = time_of_day(ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same for people, until the script writes it in their own time zone: `20 Nov 2026, 12:00 UTC`.
pub(super) fn utc(ms: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = civil_date(ms / DAY_MS);
    let (hour, minute, _) = time_of_day(ms);
    format!("{day} {} {year}, {hour:02}:{minute:02} UTC", MONTHS[month - 1])
}

const DAY_MS: u64 = 86_400_000;

fn time_of_day(ms: u64) -> (u64, u64, u64) {
    let second = ms % DAY_MS / 1000;
    (second / 3600, second / 60 % 60, second % 60)
}

/// Year, month from 1 and day from 1 of a day counted from 1970-01-01 in the Gregorian calendar.
fn civil_date(mut day: u64) -> (u64, usize, u64) {
    // Whole cycles of 400 years first, so that the loop over years has a bound whatever the input.
    const CYCLE_DAYS: u64 = 146_097;
    let mut year = 1970 + 400 * (day / CYCLE_DAYS);
    day %= CYCLE_DAYS;
    loop {
        let year_days = if is_leap(year) { 366 } else { 365 };
        if day < year_days {
            break;
        }
        day -= year_days;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for month_days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < month_days {
            break;
        }
        day -= month_days;
        month += 1;
    }
    (year, month, day + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// ISO 4217 exponents that are not 2.
pub(crate) fn minor_digits(currency: &str) -> u32 {
    match currency {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "VND"
        | "VUV" | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        _ => 2,
    }
}

fn sign(currency: &str) -> Option<&'static str> {
    Some(match currency {
        "EUR" => "€",
        "USD" => "$",
        "GBP" => "£",
        "JPY" => "¥",
        "CNY" => "CN¥",
        "INR" => "₹",
        "KRW" => "₩",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_written_as_in_the_browser() {
        for (minor, currency, text) in [
            (499_900, "EUR", "€4,999.00"),
            (5, "USD", "$0.05"),
            (0, "GBP", "£0.00"),
            (1_234_567, "JPY", "¥1,234,567"),
            (499_900, "CNY", "CN¥4,999.00"),
            (12_345, "KWD", "KWD\u{a0}12.345"),
            (u64::MAX, "CHF", "CHF\u{a0}184,467,440,737,095,516.15"),
        ] {
            assert_eq!(money(minor, currency), text);
        }
    }

    #[test]
    fn counts_are_grouped_by_three() {
        for (count, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (10_000_000, "10,000,000")]
        {
            assert_eq!(grouped(count), text);
        }
    }

    #[test]
    fn durations_keep_a_unit_that_one_can_picture() {
        for (ms, text) in
            [(1000, "1 second"), (90_000, "90 seconds"), (900_000, "15 minutes"), (7_200_000, "2 hours")]
        {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (ms, machine, human) in [
            (0, "1970-01-01T00:00:00Z", "1 Jan 1970, 00:00 UTC"),
            (951_782_400_000, "2000-02-29T00:00:00Z", "29 Feb 2000, 00:00 UTC"),
            (1_795_176_000_000, "2026-11-20T12:00:00Z", "20 Nov 2026, 12:00 UTC"),
            (1_798_761_599_999, "2026-12-31T23:59:59Z", "31 Dec 2026, 23:59 UTC"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z", "1 Mar 2100, 00:00 UTC"),
        ] {
            assert_eq!(rfc3339(ms), machine);
            assert_eq!(utc(ms), human);
        }
        // The largest input neither overflows nor takes long.
        assert!(rfc3339(u64::MAX).ends_with('Z'));
    }
}
