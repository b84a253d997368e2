//! Money, counts and times as text, in English, the way `Intl` writes them in the browser: what the server
//! rendered must not change before the reader's eyes when the script takes over.
//!
//! Must not: read a clock.

use crate::calendar::date_of;

/// `499900, "EUR"` is `€4,999.00`; a currency without a sign of its own is written `CHF 12.50`.
pub(super) fn money(minor: u64, currency: &str) -> String {
    let (whole, rest) = parts(minor, currency);
    let sign = sign(currency).map_or_else(|| format!("{currency}\u{a0}"), str::to_owned);
    sign + &grouped(whole) + &rest
}

/// `499900, "EUR"` is `4999.00`: digits alone, for what is no page.
pub fn amount(minor: u64, currency: &str) -> String {
    let (whole, rest) = parts(minor, currency);
    whole.to_string() + &rest
}

/// What stands before the point, and the point with what stands after it, if the currency has that.
fn parts(minor: u64, currency: &str) -> (u64, String) {
    let digits = minor_digits(currency);
    let unit = 10_u64.pow(digits);
    match digits {
        0 => (minor, String::new()),
        _ => (minor / unit, format!(".{:0width$}", minor % unit, width = digits as usize)),
    }
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
    let (year, month, day) = date_of(ms / DAY_MS);
    let (hour, minute, second) = time_of_day(ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same for people, until the script writes it in their own time zone: `20 Nov 2026, 12:00 UTC`.
pub(super) fn utc(ms: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = date_of(ms / DAY_MS);
    let (hour, minute, _) = time_of_day(ms);
    format!(
        "{day} {} {year}, {hour:02}:{minute:02} UTC",
        MONTHS[usize::try_from(month - 1).expect("below 12")]
    )
}

const DAY_MS: u64 = 86_400_000;

fn time_of_day(ms: u64) -> (u64, u64, u64) {
    let second = ms % DAY_MS / 1000;
    (second / 3600, second / 60 % 60, second % 60)
}

/// ISO 4217 exponents that are not 2.
fn minor_digits(currency: &str) -> u32 {
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
    fn amounts_have_the_digits_of_their_currency() {
        for (minor, currency, text) in
            [(499_900, "EUR", "4999.00"), (5, "USD", "0.05"), (4999, "JPY", "4999"), (4999, "KWD", "4.999")]
        {
            assert_eq!(amount(minor, currency), text);
        }
    }

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
