//! Money, counts and times as text, in a language, the way `Intl` writes them in the browser: what the server rendered must not
//! change before the reader's eyes when the script takes over.
//!
//! Must not: read a clock.

use fluent_bundle::FluentValue;

use super::language::{Language, Numbers};
use engine::{date_of, minor_digits};

/// `499900, "EUR"` is `€4,999.00`, or `4.999,00 €`; a currency without a sign of its own is written `CHF 12.50`.
pub(super) fn money(language: &Language, minor: u64, currency: &str) -> String {
    let digits = minor_digits(currency);
    let unit = 10_u64.pow(digits);
    let rest = match digits {
        0 => String::new(),
        _ => format!("{}{:0width$}", language.numbers.decimal, minor % unit, width = digits as usize),
    };
    let code = FluentValue::from(currency.to_owned());
    let sign = language.text("currency-sign", vec![("code", code.clone())]);
    let amount = FluentValue::from(grouped(&language.numbers, minor / unit) + &rest);
    language.text("money", vec![("sign", FluentValue::from(sign)), ("code", code), ("amount", amount)])
}

/// As text stands in a page.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

/// `10000000` is `10,000,000`, as the language groups digits.
pub(super) fn grouped(numbers: &Numbers, count: u64) -> String {
    let digits = count.to_string();
    if digits.len() < numbers.group_from {
        return digits;
    }
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push_str(&numbers.group);
        }
        text.push(digit);
    }
    text
}

/// `900000` is `15 minutes`; under two minutes it is said in seconds.
pub(super) fn duration(language: &Language, ms: u64) -> String {
    let seconds = ms / 1000;
    let (name, count) = match seconds {
        0..120 => ("duration-seconds", seconds),
        120..7200 => ("duration-minutes", seconds / 60),
        _ => ("duration-hours", seconds / 3600),
    };
    let text = FluentValue::from(grouped(&language.numbers, count));
    language.text(name, vec![("count", FluentValue::from(count)), ("text", text)])
}

/// Milliseconds since the epoch as `2026-11-20T12:00:00Z`, for `<time datetime>`.
pub(super) fn rfc3339(ms: u64) -> String {
    let (year, month, day) = date_of(ms / DAY_MS);
    let (hour, minute, second) = time_of_day(ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same for people, until the script writes it in their own time zone: `20 Nov 2026, 12:00 UTC`.
pub(super) fn utc(language: &Language, ms: u64) -> String {
    let (hour, minute, _) = time_of_day(ms);
    moment(language, ms, format!("{hour:02}:{minute:02}"))
}

/// The same to the second: what can be too late by one.
pub(super) fn utc_second(language: &Language, ms: u64) -> String {
    let (hour, minute, second) = time_of_day(ms);
    moment(language, ms, format!("{hour:02}:{minute:02}:{second:02}"))
}

fn moment(language: &Language, ms: u64, time: String) -> String {
    let (year, month, day) = date_of(ms / DAY_MS);
    let month = language.text("month", vec![("month", FluentValue::from(month))]);
    let text = |text: String| FluentValue::from(text);
    let values = vec![
        ("day", text(day.to_string())),
        ("month", text(month)),
        ("year", text(year.to_string())),
        ("time", text(time)),
    ];
    language.text("moment", values)
}

const DAY_MS: u64 = 86_400_000;

/// `12:00:00 UTC`, of today.
pub(super) fn utc_time(ms: u64) -> String {
    let (hour, minute, second) = time_of_day(ms);
    format!("{hour:02}:{minute:02}:{second:02} UTC")
}

fn time_of_day(ms: u64) -> (u64, u64, u64) {
    let second = ms % DAY_MS / 1000;
    (second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(code: &str) -> Language {
        Language::built_in(code).unwrap()
    }

    /// As Chromium and Node write them, by the locales that a language names.
    #[test]
    fn money_is_written_as_in_the_browser() {
        for (code, minor, currency, text) in [
            ("en", 499_900, "EUR", "€4,999.00"),
            ("en", 5, "USD", "$0.05"),
            ("en", 0, "GBP", "£0.00"),
            ("en", 1_234_567, "JPY", "¥1,234,567"),
            ("en", 499_900, "CNY", "CN¥4,999.00"),
            ("en", 12_345, "KWD", "KWD\u{a0}12.345"),
            ("en", u64::MAX, "CHF", "CHF\u{a0}184,467,440,737,095,516.15"),
            ("de", 499_900, "EUR", "4.999,00\u{a0}€"),
            ("de", 123_456_750, "CHF", "1.234.567,50\u{a0}CHF"),
            ("de", 1234, "JPY", "1.234\u{a0}¥"),
            ("es", 499_900, "EUR", "4999,00\u{a0}€"),
            ("es", 1_234_550, "EUR", "12.345,50\u{a0}€"),
            ("es", 100, "USD", "1,00\u{a0}US$"),
            ("es", 100, "GBP", "1,00\u{a0}GBP"),
            ("zh", 499_900, "CNY", "¥4,999.00"),
            ("zh", 1234, "JPY", "JP¥1,234"),
            ("zh", 100, "CHF", "CHF\u{a0}1.00"),
            ("ar", 499_900, "EUR", "\u{200f}4,999.00\u{a0}€"),
            ("ar", 100, "CHF", "\u{200f}1.00\u{a0}CHF"),
        ] {
            assert_eq!(money(&language(code), minor, currency), text, "{code}");
        }
    }

    #[test]
    fn counts_are_grouped_by_three() {
        for (code, count, text) in [
            ("en", 0, "0"),
            ("en", 999, "999"),
            ("en", 1000, "1,000"),
            ("en", 12_345, "12,345"),
            ("en", 10_000_000, "10,000,000"),
            ("de", 1000, "1.000"),
            ("es", 1000, "1000"),
            ("es", 12_345, "12.345"),
        ] {
            assert_eq!(grouped(&language(code).numbers, count), text, "{code}");
        }
    }

    #[test]
    fn durations_keep_a_unit_that_one_can_picture() {
        for (code, ms, text) in [
            ("en", 1000, "1 second"),
            ("en", 90_000, "90 seconds"),
            ("en", 900_000, "15 minutes"),
            ("en", 7_200_000, "2 hours"),
            ("de", 900_000, "15 Minuten"),
            ("zh", 900_000, "15 分钟"),
            ("ar", 180_000, "3 دقائق"),
            ("ar", 900_000, "15 دقيقة"),
        ] {
            assert_eq!(duration(&language(code), ms), text);
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
            assert_eq!(utc(&language("en"), ms), human);
        }
        for (code, human) in [
            ("de", "20. Nov. 2026, 12:00 UTC"),
            ("es", "20 nov 2026, 12:00 UTC"),
            ("zh", "2026年11月20日 12:00 UTC"),
        ] {
            assert_eq!(utc(&language(code), 1_795_176_000_000), human);
        }
        // The largest input neither overflows nor takes long.
        assert!(rfc3339(u64::MAX).ends_with('Z'));
    }
}
