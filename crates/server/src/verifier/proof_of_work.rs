//! A task that costs a browser some seconds: whoever would join as thousands pays for it thousands of times.
//!
//! A challenge, `20.1764150000000.0f3c..`, is its difficulty, when it lapses, and an HMAC over these, the buyer and the item, so
//! nothing is kept until it comes back. The task has [`PARTS`] parts, each solved by a number with which the HMAC's hash begins with
//! zeros: with one part luck would decide how long it takes, and a page could show no progress. An answer is the challenge with
//! the numbers behind it. To check it costs an HMAC, and a hash of one block for each part.

use engine::UnixMs;
use ring::{digest, hmac};

use super::{Candidate, Given};
use crate::hex::{hex, unhex};

/// As in solver.js.
const PARTS: u32 = 16;
/// By so much each part is easier than the whole.
const PARTS_LOG2: u8 = 4;
/// Enough for a slow telephone, and too short to collect answers for a night.
const LASTS_MS: u64 = 600_000;
/// Keeps these HMACs apart from others under the ledger's secret.
const PURPOSE: &[u8] = b"doorbuster challenge 1";

/// See above.
#[derive(Clone, Copy, Debug)]
pub struct ProofOfWork {
    bits: u8,
    /// Whoever has no script joins without.
    admits_without_script: bool,
}

/// What proves that a challenge is ours.
type Tag = [u8; 32];

impl ProofOfWork {
    /// `bits`: the logarithm of how many hashes it takes on average; from 4 to 36.
    pub fn new(bits: u8, admits_without_script: bool) -> ProofOfWork {
        assert!((PARTS_LOG2..=32 + PARTS_LOG2).contains(&bits), "the configuration's bounds are narrower");
        ProofOfWork { bits, admits_without_script }
    }

    pub(super) fn challenge(
        &self,
        secret: &[u8; 16],
        candidate: &Candidate,
        given: Given<'_>,
        now: UnixMs,
    ) -> Option<String> {
        let passed = match given {
            Given::NoScript => self.admits_without_script,
            Given::Answer(answer) => {
                answer.is_some_and(|answer| self.is_solved(secret, candidate, answer, now).is_some())
            }
        };
        if passed {
            return None;
        }
        let lapses_at = now.0.saturating_add(LASTS_MS);
        let message = self.message(candidate, lapses_at);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &message);
        Some(format!("{}.{lapses_at}.{}", self.bits, hex(tag.as_ref())))
    }

    fn message(&self, candidate: &Candidate, lapses_at: u64) -> Vec<u8> {
        let Candidate { sale, product, buyer, address: _ } = candidate;
        let mut message = Vec::with_capacity(PURPOSE.len() + 41);
        message.extend_from_slice(PURPOSE);
        message.extend_from_slice(&sale.0.to_be_bytes());
        message.extend_from_slice(&product.0.to_be_bytes());
        message.extend_from_slice(&buyer.0.to_be_bytes());
        message.push(self.bits);
        message.extend_from_slice(&lapses_at.to_be_bytes());
        message
    }

    /// Ends at the first number that is wrong.
    fn is_solved(&self, secret: &[u8; 16], candidate: &Candidate, answer: &str, now: UnixMs) -> Option<()> {
        let mut fields = answer.split('.');
        let bits: u8 = fields.next()?.parse().ok()?;
        let lapses_at: u64 = fields.next()?.parse().ok()?;
        let tag: Tag = unhex(fields.next()?)?;
        // One that would last longer than any is from before the clock went back.
        let lasts = lapses_at.checked_sub(now.0)?;
        if bits != self.bits || lasts == 0 || lasts > LASTS_MS {
            return None;
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        hmac::verify(&key, &self.message(candidate, lapses_at), &tag).ok()?;
        for part in 0..PARTS {
            let number: u32 = fields.next()?.parse().ok()?;
            if zeros(&tag, part, number) < u32::from(bits - PARTS_LOG2) {
                return None;
            }
        }
        fields.next().is_none().then_some(())
    }
}

/// With how many zero bits the hash of a part with this number begins, of its first 32.
fn zeros(tag: &Tag, part: u32, number: u32) -> u32 {
    let mut block = [0; 40];
    block[..32].copy_from_slice(tag);
    block[32..36].copy_from_slice(&part.to_be_bytes());
    block[36..].copy_from_slice(&number.to_be_bytes());
    let hash = digest::digest(&digest::SHA256, &block);
    let head = hash.as_ref().first_chunk().expect("a hash has 32 bytes");
    u32::from_be_bytes(*head).leading_zeros()
}

/// As solver.js does it.
#[cfg(test)]
pub(crate) fn solve(challenge: &str) -> String {
    let fields: Vec<&str> = challenge.split('.').collect();
    let bits: u32 = fields[0].parse().unwrap();
    let tag: Tag = unhex(fields[2]).unwrap();
    let solved = |part| (0..).find(|number| zeros(&tag, part, *number) >= bits - u32::from(PARTS_LOG2));
    (0..PARTS).fold(challenge.to_owned(), |answer, part| format!("{answer}.{}", solved(part).unwrap()))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use engine::{BuyerId, ProductId, SaleId};

    use super::*;

    const SECRET: [u8; 16] = [7; 16];
    const NOW: UnixMs = UnixMs(1_700_000_000_000);
    const WORK: ProofOfWork = ProofOfWork { bits: 12, admits_without_script: false };
    const WHO: Candidate = Candidate {
        sale: SaleId(1),
        product: ProductId(2),
        buyer: BuyerId(3),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };

    fn asked(given: Given<'_>) -> Option<String> {
        WORK.challenge(&SECRET, &WHO, given, NOW)
    }

    fn passes(work: ProofOfWork, who: Candidate, answer: &str, at: u64) -> bool {
        work.challenge(&SECRET, &who, Given::Answer(Some(answer)), UnixMs(at)).is_none()
    }

    #[test]
    fn an_answer_counts_for_one_buyer_and_item_until_it_lapses() {
        let answer = solve(&asked(Given::Answer(None)).unwrap());
        let now = NOW.0;
        for (who, bits, at, expected) in [
            (WHO, 12, now, true),
            (WHO, 12, now + LASTS_MS - 1, true),
            (WHO, 12, now + LASTS_MS, false),
            (WHO, 12, now - 1, false),
            (WHO, 12, u64::MAX, false),
            (WHO, 11, now, false),
            (WHO, 13, now, false),
            (Candidate { buyer: BuyerId(4), ..WHO }, 12, now, false),
            (Candidate { product: ProductId(3), ..WHO }, 12, now, false),
            (Candidate { sale: SaleId(2), ..WHO }, 12, now, false),
        ] {
            let passed = passes(ProofOfWork { bits, ..WORK }, who, &answer, at);
            assert_eq!(passed, expected, "{who:?} {bits} {at}");
        }
        assert!(WORK.challenge(&[8; 16], &WHO, Given::Answer(Some(&answer)), NOW).is_some());
    }

    #[test]
    fn nothing_less_than_the_whole_answer_passes() {
        let challenge = asked(Given::Answer(None)).unwrap();
        let answer = solve(&challenge);
        let (rest, last) = answer.rsplit_once('.').unwrap();
        let first = answer[challenge.len() + 1..].split('.').next().unwrap();
        // A part's number does for no other part.
        let repeated = format!("{challenge}{}", format!(".{first}").repeat(PARTS as usize));
        for wrong in [
            "",
            ".",
            "12",
            &challenge,
            rest,
            &repeated,
            &format!("{answer}.1"),
            &format!("{answer}."),
            &format!("{rest}.4294967296"),
            &format!("{rest}.-{last}"),
            &answer[1..],
            &answer.replacen("12.", "4.", 1),
            &"1.".repeat(8_000),
        ] {
            assert!(!passes(WORK, WHO, wrong, NOW.0), "{wrong}");
        }
        assert!(passes(WORK, WHO, &answer, NOW.0));
    }

    #[test]
    fn without_a_script_one_is_refused_unless_that_is_allowed() {
        assert!(asked(Given::NoScript).is_some());
        let lenient = ProofOfWork { admits_without_script: true, ..WORK };
        assert_eq!(lenient.challenge(&SECRET, &WHO, Given::NoScript, NOW), None);
        assert!(lenient.challenge(&SECRET, &WHO, Given::Answer(None), NOW).is_some());
    }
}
