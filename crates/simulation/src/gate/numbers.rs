//! Numbers as the engines take them from C and from Lua.

/// A whole number as Redis reads it: digits, no sign but a minus, no zero before others, no space.
pub(crate) fn whole(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
/// What an x86-64 makes of a number that does not fit; C leaves it open. An ARM takes the nearest one that fits, as Rust does.
const SATURATES: bool = cfg!(target_arch = "aarch64");

/// C's conversion to `long long`, which cuts off the fraction.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is cut off, and what does not fit is looked for first"
)]
pub(crate) fn to_i64(number: f64) -> i64 {
    let fits = (-TWO_TO_63..TWO_TO_63).contains(&number);
    if fits || SATURATES { number as i64 } else { i64::MIN }
}

/// C's conversion to `unsigned long`, by way of `long` for what is negative.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as to_i64")]
pub(crate) fn to_u64(number: f64) -> u64 {
    if number >= TWO_TO_63 {
        let fits = number < 2.0 * TWO_TO_63;
        if fits || SATURATES { number as u64 } else { 0 }
    } else {
        to_i64(number) as u64
    }
}

/// The shortest text that reads back as this number, laid out as by the library that Valkey has for it.
pub(crate) fn shortest(number: f64) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_nan() {
        return format!("{sign}nan");
    }
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    if number.fract() == 0.0 && number.abs() <= TWO_TO_63 / 2.0 {
        return to_i64(number).to_string();
    }
    let written = format!("{:e}", number.abs());
    let (digits, exponent) = written.split_once('e').expect("it was written with one");
    let digits = digits.replace('.', "");
    let exponent: i32 = exponent.parse().expect("it was written as one");
    let count = i32::try_from(digits.len()).expect("17 at most");
    // Digits after the last one, if positive; behind the point, if negative.
    let shift = exponent - count + 1;
    let layout = if shift >= 0 && exponent < count + 7 {
        format!("{digits}{}", "0".repeat(usize::try_from(shift).expect("not negative")))
    } else if shift < 0 && (shift > -7 || exponent.abs() < 4) {
        behind_the_point(&digits, exponent)
    } else {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        format!("{first}{point}{rest}e{exponent:+}")
    };
    format!("{sign}{layout}")
}

fn behind_the_point(digits: &str, exponent: i32) -> String {
    match usize::try_from(exponent) {
        Ok(before) => format!("{}.{}", &digits[..=before], &digits[before + 1..]),
        Err(_) => {
            let zeros = usize::try_from(-exponent - 1).expect("it is negative");
            format!("0.{}{digits}", "0".repeat(zeros))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_written_in_one_way_alone() {
        for (text, number) in [("0", Some(0)), ("-7", Some(-7)), ("9223372036854775807", Some(i64::MAX))] {
            assert_eq!(whole(text.as_bytes()), number);
        }
        for text in ["", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "0x1"] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_fraction_is_cut_off() {
        assert_eq!([2.9, -2.9, 0.0].map(to_i64), [2, -2, 0]);
        assert_eq!(to_u64(-1.0), u64::MAX);
        assert_eq!(to_u64(TWO_TO_63), 1 << 63);
    }
}
