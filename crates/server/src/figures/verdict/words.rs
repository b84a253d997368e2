//! Numbers and times as verdicts say them.
//!
//! Must not: judge.

pub(in crate::figures) fn units(count: u64) -> String {
    if count == 1 { "1 unit".to_owned() } else { format!("{} units", grouped(count)) }
}

/// 10000000 as "10,000,000".
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Orders per second, whole.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is no less than 0, and far from the end of numbers"
)]
pub(super) fn whole(rate: f64) -> String {
    grouped(rate.round() as u64)
}

/// As a sentence begins.
pub(in crate::figures) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

/// How long that is, in words.
pub(in crate::figures) fn ago(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// In how long that is, in words.
pub(super) fn ahead(ms: u64) -> String {
    match ms.div_ceil(1_000) {
        seconds @ ..=90 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}
