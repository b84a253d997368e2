//! Amounts as people read them.
//!
//! Must not: count; amounts are whole numbers of a currency's smallest unit everywhere else.

/// `499900, "EUR"` is `4999.00`: digits alone.
pub fn amount(minor: u64, currency: &str) -> String {
    let digits = minor_digits(currency);
    let unit = 10_u64.pow(digits);
    match digits {
        0 => minor.to_string(),
        _ => format!("{}.{:0width$}", minor / unit, minor % unit, width = digits as usize),
    }
}

/// Digits after the point, by ISO 4217.
pub fn minor_digits(currency: &str) -> u32 {
    match currency {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "VND"
        | "VUV" | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        _ => 2,
    }
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
}
