//! The bytes of a mark, as the scripts write them (redis/lua/prelude.lua).

use engine::handover::{Claim, MarkState};
use engine::{BuyerId, Fingerprint, Placement, SkuId, UnixMs};

use super::{Found, Open, OpenRecord, id_of};

/// Fingerprint, units, buyer; or units of an adjustment and zeros.
pub(crate) const BODY_BYTES: usize = 19;

/// Units take three bytes: this is more than any order may have, and the script refuses it as such.
const UNITS_MAX: u32 = (1 << 24) - 1;

pub(crate) type Body = [u8; BODY_BYTES];

pub(crate) fn place_body(place: &Placement) -> Body {
    let mut body = [0; BODY_BYTES];
    body[..8].copy_from_slice(&place.fingerprint.0.to_be_bytes());
    body[8..11].copy_from_slice(&place.quantity.min(UNITS_MAX).to_be_bytes()[1..]);
    body[11..].copy_from_slice(&place.buyer.0.to_be_bytes());
    body
}

pub(crate) fn adjustment_body(units: u64) -> Body {
    let mut body = [0; BODY_BYTES];
    body[..8].copy_from_slice(&units.to_be_bytes());
    body
}

/// A mark taken apart.
#[derive(Clone, Debug)]
pub(crate) struct MarkBytes<'a> {
    pub(crate) letter: u8,
    body: &'a [u8],
    rest: &'a [u8],
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl<'a> MarkBytes<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<MarkBytes<'a>> {
        let (letter, bytes) = bytes.split_first()?;
        let (body, rest) = bytes.split_at_checked(BODY_BYTES)?;
        Some(MarkBytes { letter: *letter, body, rest })
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint(u64_at(self.body, 0).expect("a body has 19 bytes"))
    }

    pub(crate) fn is_adjustment(&self) -> bool {
        matches!(self.letter, b'a' | b'd')
    }

    /// Of an order, or of an adjustment.
    pub(crate) fn units(&self) -> u64 {
        if self.is_adjustment() { self.fingerprint().0 } else { u64::from(self.order_units()) }
    }

    fn order_units(&self) -> u32 {
        u32::from_be_bytes([0, self.body[8], self.body[9], self.body[10]])
    }

    pub(crate) fn buyer(&self) -> BuyerId {
        BuyerId(u64_at(self.body, 11).expect("a body has 19 bytes"))
    }

    /// `None`: the bytes are no mark of an order or a claim.
    pub(crate) fn found(&self, sku: SkuId, hash: &[u8]) -> Option<Found> {
        let id = id_of(sku, hash)?;
        let place = || Placement {
            id,
            buyer: self.buyer(),
            quantity: self.order_units(),
            fingerprint: self.fingerprint(),
        };
        let what = match self.letter {
            b'o' => Open::Order(place()),
            b'c' => Open::Claim(Claim::LatePayment(place())),
            b'd' => Open::Claim(Claim::Correction { id, units: self.units() }),
            letter => return state_of(letter).map(Found::Settled),
        };
        Some(Found::Open(OpenRecord {
            what,
            epoch: u64_at(self.rest, 0)?,
            at: UnixMs(u64_at(self.rest, 8)?),
            record: self.rest[16..].into(),
        }))
    }
}

pub(crate) fn state_of(letter: u8) -> Option<MarkState> {
    Some(match letter {
        b's' => MarkState::Sold,
        b'r' => MarkState::Returned,
        b'x' => MarkState::RejectedKept,
        b'y' => MarkState::RejectedReturned,
        b'l' => MarkState::PaidLate,
        b'a' => MarkState::Adjustment,
        _ => return None,
    })
}

pub(crate) fn letter_of(state: MarkState) -> u8 {
    match state {
        MarkState::Sold => b's',
        MarkState::Returned => b'r',
        MarkState::RejectedKept => b'x',
        MarkState::RejectedReturned => b'y',
        MarkState::PaidLate => b'l',
        MarkState::Adjustment => b'a',
    }
}
