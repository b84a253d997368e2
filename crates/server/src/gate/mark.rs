//! The bytes of a mark, as the scripts write them (redis/lua/prelude.lua).

use engine::handover::{Claim, MarkState};
use engine::{BuyerId, Fingerprint, Placement, SkuId, UnixMs};

use super::{Found, Open, OpenRecord, id_of};

/// Fingerprint, units, and a buyer who is a number; or units of an adjustment and zeros.
const BODY_BYTES: usize = 19;
/// With a buyer who is a hash.
const BODY_BYTES_OF_HASH: usize = 27;
/// Where the buyer begins: a hash has the highest bit there set, a number has not.
const BUYER_AT: usize = 11;

/// Before a buyer, in the name of a field.
const RETURNED: u8 = b'r';

/// Units take three bytes: this is more than any order may have, and the script refuses it as such.
const UNITS_MAX: u32 = (1 << 24) - 1;

/// At most N bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

/// What a mark says beside its letter.
pub(crate) type Body = Bytes<BODY_BYTES_OF_HASH>;
pub(crate) type BuyerBytes = Bytes<16>;

impl<const N: usize> std::ops::Deref for Bytes<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

pub(crate) fn placement_body(placement: &Placement) -> Body {
    let mut bytes = [0; BODY_BYTES_OF_HASH];
    bytes[..8].copy_from_slice(&placement.fingerprint.0.to_be_bytes());
    bytes[8..BUYER_AT].copy_from_slice(&placement.quantity.min(UNITS_MAX).to_be_bytes()[1..]);
    let buyer = buyer_bytes(placement.buyer);
    let len = BUYER_AT + buyer.len();
    bytes[BUYER_AT..len].copy_from_slice(&buyer);
    Bytes { bytes, len }
}

/// A buyer, as in a mark and as the name of a field among those who have units.
pub(crate) fn buyer_bytes(buyer: BuyerId) -> BuyerBytes {
    let (mut bytes, mut len) = (buyer.0.to_be_bytes(), 16);
    if let Some(number) = buyer.number() {
        len = 8;
        bytes[..len].copy_from_slice(&number.to_be_bytes());
    }
    Bytes { bytes, len }
}

pub(crate) fn buyer_of(bytes: &[u8]) -> Option<BuyerId> {
    match bytes.len() {
        8 => BuyerId::of_number(u64::from_be_bytes(bytes.try_into().ok()?)),
        _ => Some(BuyerId(u128::from_be_bytes(bytes.try_into().ok()?))).filter(|buyer| buyer.is_hash()),
    }
}

/// The field of a buyer's returned holds, among those of the units.
pub(crate) fn returned_field(buyer: BuyerId) -> Vec<u8> {
    let mut field = vec![RETURNED];
    field.extend_from_slice(&buyer_bytes(buyer));
    field
}

/// Whether a field among those of the units says something else than units. A buyer has 8 or 16 bytes.
pub(crate) fn is_returned_field(field: &[u8]) -> bool {
    field.len() % 8 == 1 && field[0] == RETURNED
}

/// How many holds came back, and until when the buyer waits.
pub(crate) fn returned_value(count: u32, until: UnixMs) -> Vec<u8> {
    let mut value = count.to_be_bytes().to_vec();
    value.extend_from_slice(&until.0.to_be_bytes());
    value
}

pub(crate) fn adjustment_body(units: u64) -> Body {
    let mut bytes = [0; BODY_BYTES_OF_HASH];
    bytes[..8].copy_from_slice(&units.to_be_bytes());
    Bytes { bytes, len: BODY_BYTES }
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
        let of_hash = bytes.get(BUYER_AT)? & 0x80 != 0;
        let (body, rest) = bytes.split_at_checked(if of_hash { BODY_BYTES_OF_HASH } else { BODY_BYTES })?;
        Some(MarkBytes { letter: *letter, body, rest })
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint(u64_at(self.body, 0).expect("a body has at least 19 bytes"))
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
        buyer_of(&self.body[BUYER_AT..]).expect("the highest bit says how long it is")
    }

    /// `None`: the bytes are no mark of an order or a claim.
    pub(crate) fn found(&self, sku: SkuId, hash: &[u8]) -> Option<Found> {
        let id = id_of(sku, hash)?;
        let placement = || Placement {
            id,
            buyer: self.buyer(),
            quantity: self.order_units(),
            fingerprint: self.fingerprint(),
        };
        let what = match self.letter {
            b'o' => Open::Order(placement()),
            b'c' => Open::Claim(Claim::LatePayment(placement())),
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
