//! The payment provider's signature: `Doorbuster-Signature: t=<unix s>,v1=<hex HMAC-SHA256>` over
//! `"<t>." + body`. The time is signed too, so that a callback that somebody recorded can't be sent later.
//!
//! Must not: read a clock.

use ring::hmac;

use crate::clock::Between;
use crate::http::wire::{decimal, read_hex};

/// Why a callback is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Unsigned {
    Missing,
    Malformed,
    /// Signed longer ago, or further ahead, than is tolerated.
    Stale,
    Wrong,
}

impl Unsigned {
    /// Of a webhook of Stripe's.
    pub(in crate::http) fn detail_of_stripe(self) -> &'static str {
        match self {
            Unsigned::Missing => "The header Stripe-Signature is missing.",
            Unsigned::Malformed => "Stripe-Signature must read t=<unix seconds>,v1=<64 hexadecimal digits>.",
            Unsigned::Stale => "The signature's time is too far from the server's clock.",
            Unsigned::Wrong => {
                "The signature is wrong: stripe.webhook_secret_file must have this endpoint's signing secret."
            }
        }
    }

    pub(in crate::http) fn detail(self) -> &'static str {
        match self {
            Unsigned::Missing => "The header Doorbuster-Signature is missing.",
            Unsigned::Malformed => {
                "Doorbuster-Signature must read t=<unix seconds>,v1=<64 hexadecimal digits>."
            }
            Unsigned::Stale => "The signature's time is too far from the server's clock.",
            Unsigned::Wrong => {
                "The signature is wrong: it must be made of \"<t>.\" and the body as it was sent."
            }
        }
    }
}

/// Checks callbacks with one secret, or with either of two while the provider changes from one to the other.
#[derive(Debug)]
pub(in crate::http) struct Checker {
    keys: Box<[hmac::Key]>,
    tolerance_s: u64,
    /// That a header may have: one of them must be right.
    tags_max: usize,
}

/// Of Stripe, which signs with each of two secrets while it changes them.
const STRIPE_TAGS_MAX: usize = 8;

impl Checker {
    pub(in crate::http) fn new(secrets: &[Box<[u8]>], tolerance_s: u64) -> Checker {
        let keys = secrets.iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)).collect();
        Checker { keys, tolerance_s, tags_max: 1 }
    }

    /// Of Stripe's webhooks.
    pub(in crate::http) fn of_stripe(secrets: &[Box<[u8]>], tolerance_s: u64) -> Checker {
        Checker { tags_max: STRIPE_TAGS_MAX, ..Checker::new(secrets, tolerance_s) }
    }

    pub(in crate::http) fn check(
        &self,
        header: Option<&str>,
        body: &[u8],
        between: Between,
    ) -> Result<(), Unsigned> {
        let found = parse(header.ok_or(Unsigned::Missing)?, self.tags_max);
        let (time, tags) = found.ok_or(Unsigned::Malformed)?;
        let mut signed = Vec::with_capacity(time.len() + 1 + body.len());
        signed.extend_from_slice(time.as_bytes());
        signed.push(b'.');
        signed.extend_from_slice(body);
        let is_right = |tag: &[u8; 32]| self.keys.iter().any(|key| hmac::verify(key, &signed, tag).is_ok());
        if !tags.iter().any(is_right) {
            return Err(Unsigned::Wrong);
        }
        let signed_s = decimal(time).ok_or(Unsigned::Malformed)?;
        let earliest_s = (between.earliest.0 / 1000).saturating_sub(self.tolerance_s);
        let latest_s = (between.latest.0 / 1000).saturating_add(self.tolerance_s);
        if (earliest_s..=latest_s).contains(&signed_s) { Ok(()) } else { Err(Unsigned::Stale) }
    }
}

/// The time as it was written, and the tags. Unknown parts are passed over: a later version may add one.
fn parse(header: &str, tags_max: usize) -> Option<(&str, Vec<[u8; 32]>)> {
    let (mut time, mut tags) = (None, Vec::new());
    for part in header.split(',') {
        let (name, value) = part.trim().split_once('=')?;
        match name {
            "t" if time.is_none() => time = Some(value),
            "v1" if tags.len() < tags_max => {
                let mut bytes = [0; 32];
                tags.push(read_hex(value, &mut bytes).then_some(bytes)?);
            }
            "t" | "v1" => return None,
            _ => {}
        }
    }
    let time = time.filter(|time| decimal(time).is_some())?;
    (!tags.is_empty()).then_some((time, tags))
}

#[cfg(test)]
mod tests {
    use engine::UnixMs;
    use proptest::prelude::*;

    use super::*;
    use crate::http::wire::push_hex;

    const SECRET: &[u8] = b"a secret of the provider";
    const BODY: &[u8] = br#"{"payment_id":"p1"}"#;

    fn tag(time: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
        let tag = hmac::sign(&key, &[time.as_bytes(), b".", body].concat());
        let mut hex = Vec::new();
        push_hex(&mut hex, tag.as_ref());
        String::from_utf8(hex).unwrap()
    }

    fn check(header: &str, now_s: u64) -> Result<(), Unsigned> {
        Checker::new(&[Box::from(*b"a newer one"), SECRET.into()], 300).check(
            Some(header),
            BODY,
            UnixMs(now_s.saturating_mul(1000)).into(),
        )
    }

    #[test]
    fn callbacks_are_believed_by_the_rules() {
        let good = tag("1000", BODY);
        for (header, now_s, verdict) in [
            (format!("t=1000,v1={good}"), 1000, Ok(())),
            (format!("v1={good}, t=1000, v2=later"), 1300, Ok(())),
            (format!("t=1000,v1={good}"), 1301, Err(Unsigned::Stale)),
            (format!("t=1000,v1={good}"), 699, Err(Unsigned::Stale)),
            (format!("t=1001,v1={good}"), 1000, Err(Unsigned::Wrong)),
            (format!("t=1000,v1={}", tag("1000", b"{}")), 1000, Err(Unsigned::Wrong)),
            (format!("t=1000,v1={}", good.to_uppercase()), 1000, Err(Unsigned::Malformed)),
            (format!("t=1000,t=1000,v1={good}"), 1000, Err(Unsigned::Malformed)),
            (format!("t=1000,v1={good},v1={good}"), 1000, Err(Unsigned::Malformed)),
            (format!("t=+1000,v1={good}"), 1000, Err(Unsigned::Malformed)),
            (format!("v1={good}"), 1000, Err(Unsigned::Malformed)),
            ("t=1000".to_owned(), 1000, Err(Unsigned::Malformed)),
            (format!("t=1000,v1={}", &good[..62]), 1000, Err(Unsigned::Malformed)),
            (String::new(), 1000, Err(Unsigned::Malformed)),
        ] {
            assert_eq!(check(&header, now_s), verdict, "{header} at {now_s}");
        }
        let checker = |secret: &[u8]| Checker::new(&[secret.into()], 300);
        assert_eq!(checker(SECRET).check(None, BODY, UnixMs(1000).into()), Err(Unsigned::Missing));
        let header = format!("t=1000,v1={good}");
        assert_eq!(checker(b"another").check(Some(&header), BODY, UnixMs(1000).into()), Err(Unsigned::Wrong));
    }

    #[test]
    fn one_of_several_tags_of_stripe_must_be_right() {
        let checker = Checker::of_stripe(&[Box::from(*b"a newer one"), SECRET.into()], 300);
        let (good, wrong) = (tag("1000", BODY), tag("1000", b"{}"));
        for (tags, verdict) in [
            (vec![&good], Ok(())),
            (vec![&wrong, &good], Ok(())),
            (vec![&wrong, &wrong], Err(Unsigned::Wrong)),
            (vec![&good; 9], Err(Unsigned::Malformed)),
            (vec![], Err(Unsigned::Malformed)),
        ] {
            let tags: String = tags.iter().map(|tag| format!(",v1={tag}")).collect();
            let header = format!("t=1000{tags},v0=old");
            let checked = checker.check(Some(&header), BODY, UnixMs(1_000_000).into());
            assert_eq!(checked, verdict, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_is_believed_or_panics(header in "\\PC*", now_s: u64) {
            prop_assert!(check(&header, now_s).is_err());
        }

        #[test]
        fn no_tag_is_believed_or_panics(time in "[0-9]{0,20}", tag in "[0-9a-f]{60,66}", now_s: u64) {
            let header = format!("t={time},v1={tag}");
            prop_assert!(check(&header, now_s).is_err());
        }
    }
}
