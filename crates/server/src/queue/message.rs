//! An order on its way through the queue, as bytes; the gate keeps its open reservations in the same form.
//!
//! Must not: judge an order. What has the right shape is decoded, whatever it asks for.
//!
//! Layout, big-endian, no padding: version (1 byte), SKU (4), hash (16), buyer (8), quantity (4), fingerprint
//! (8), epoch (8), reserved at (8), address flag (1), and with an address its length (2) and its bytes.

use engine::handover::Reservation;
use engine::{BuyerId, Fingerprint, OrderId, Placement, SkuId, UnixMs};

/// First byte of every message. A message of another version is a dead letter, not a guess.
pub const VERSION: u8 = 1;
/// Where the epoch stands (8 bytes, big-endian): the gate writes it when it takes the units.
pub const EPOCH_AT: usize = 41;
/// Where the time of the reservation stands (8 bytes, big-endian): also the gate's.
pub const RESERVED_AT: usize = 49;
/// Longest address, in bytes: its length takes two.
pub const ADDRESS_BYTES_MAX: usize = u16::MAX as usize;
/// Length of a message with the longest address.
pub const MESSAGE_BYTES_MAX: usize = ADDRESS_AT + 2 + ADDRESS_BYTES_MAX;

const FLAG_AT: usize = 57;
const ADDRESS_AT: usize = 58;

/// The bytes are no message of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAMessage {
    #[error("the message is empty")]
    Empty,
    #[error("the message has version {0}, and only {VERSION} is known")]
    Version(u8),
    #[error("a message of {0} bytes is cut off, or too long for what it says it holds")]
    Length(usize),
    #[error("{0} is no flag of an address")]
    Flag(u8),
}

/// Appends the message of an order.
///
/// # Panics
/// If the address is longer than [`ADDRESS_BYTES_MAX`].
pub fn encode(order: &Reservation, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(VERSION);
    out.extend_from_slice(&order.place.id.sku.0.to_be_bytes());
    out.extend_from_slice(&order.place.id.hash.to_be_bytes());
    out.extend_from_slice(&order.place.buyer.0.to_be_bytes());
    out.extend_from_slice(&order.place.quantity.to_be_bytes());
    out.extend_from_slice(&order.place.fingerprint.0.to_be_bytes());
    assert_eq!(out.len() - start, EPOCH_AT);
    out.extend_from_slice(&order.epoch.to_be_bytes());
    assert_eq!(out.len() - start, RESERVED_AT);
    out.extend_from_slice(&order.reserved_at.0.to_be_bytes());
    assert_eq!(out.len() - start, FLAG_AT);
    out.push(u8::from(order.address.is_some()));
    if let Some(address) = &order.address {
        let bytes = u16::try_from(address.len()).expect("an address has at most ADDRESS_BYTES_MAX bytes");
        out.extend_from_slice(&bytes.to_be_bytes());
        out.extend_from_slice(address);
    }
}

/// Every byte must be accounted for.
pub fn decode(message: &[u8]) -> Result<Reservation, NotAMessage> {
    match message.first() {
        None => return Err(NotAMessage::Empty),
        Some(&VERSION) => {}
        Some(&version) => return Err(NotAMessage::Version(version)),
    }
    let length = NotAMessage::Length(message.len());
    let Some((fixed, rest)) = message.split_first_chunk::<ADDRESS_AT>() else {
        return Err(length);
    };
    let address = match (fixed[FLAG_AT], rest.split_first_chunk::<2>()) {
        (0, _) if rest.is_empty() => None,
        (1, Some((bytes, address))) if usize::from(u16::from_be_bytes(*bytes)) == address.len() => {
            Some(address.into())
        }
        (0 | 1, _) => return Err(length),
        (flag, _) => return Err(NotAMessage::Flag(flag)),
    };
    let place = Placement {
        id: OrderId {
            sku: SkuId(u32::from_be_bytes(part(fixed, 1))),
            hash: u128::from_be_bytes(part(fixed, 5)),
        },
        buyer: BuyerId(u64::from_be_bytes(part(fixed, 21))),
        quantity: u32::from_be_bytes(part(fixed, 29)),
        fingerprint: Fingerprint(u64::from_be_bytes(part(fixed, 33))),
    };
    let epoch = u64::from_be_bytes(part(fixed, EPOCH_AT));
    let reserved_at = UnixMs(u64::from_be_bytes(part(fixed, RESERVED_AT)));
    Ok(Reservation { place, epoch, reserved_at, address })
}

fn part<const N: usize>(fixed: &[u8; ADDRESS_AT], at: usize) -> [u8; N] {
    fixed[at..at + N].try_into().expect("the slice has N bytes")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn orders()(
            (sku, hash, buyer, quantity) in any::<(u32, u128, u64, u32)>(),
            (fingerprint, epoch, reserved_at) in any::<(u64, u64, u64)>(),
            address in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..3000)),
        ) -> Reservation {
            let id = OrderId { sku: SkuId(sku), hash };
            let (buyer, fingerprint) = (BuyerId(buyer), Fingerprint(fingerprint));
            let place = Placement { id, buyer, quantity, fingerprint };
            let address = address.map(Vec::into_boxed_slice);
            Reservation { place, epoch, reserved_at: UnixMs(reserved_at), address }
        }
    }

    fn encoded(order: &Reservation) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(order, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn an_order_survives_its_encoding(order in orders()) {
            prop_assert_eq!(decode(&encoded(&order)), Ok(order));
        }

        #[test]
        fn what_is_shorter_or_longer_is_refused(order in orders(), cut in any::<prop::sample::Index>()) {
            let mut bytes = encoded(&order);
            let cut = cut.index(bytes.len());
            prop_assert!(decode(&bytes[..cut]).is_err());
            bytes.push(0);
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn whatever_is_decoded_is_encoded_to_the_same_bytes(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            shaped in any::<bool>(),
        ) {
            if shaped {
                bytes.resize(ADDRESS_AT, 7);
                bytes[0] = VERSION;
                bytes[FLAG_AT] = 0;
            }
            if let Ok(order) = decode(&bytes) {
                prop_assert_eq!(encoded(&order), bytes);
            } else {
                prop_assert!(!shaped);
            }
        }

        #[test]
        fn the_gate_can_overwrite_epoch_and_time(order in orders(), epoch: u64, at: u64) {
            let mut bytes = encoded(&order);
            bytes[EPOCH_AT..EPOCH_AT + 8].copy_from_slice(&epoch.to_be_bytes());
            bytes[RESERVED_AT..RESERVED_AT + 8].copy_from_slice(&at.to_be_bytes());
            let expected = Reservation { epoch, reserved_at: UnixMs(at), ..order };
            prop_assert_eq!(decode(&bytes), Ok(expected));
        }
    }

    #[test]
    fn the_reason_is_told() {
        let order = decode(&[VERSION; 2]);
        assert_eq!(order, Err(NotAMessage::Length(2)));
        assert_eq!(decode(b""), Err(NotAMessage::Empty));
        assert_eq!(decode(b"{}"), Err(NotAMessage::Version(b'{')));
        let mut bytes = vec![VERSION; ADDRESS_AT];
        bytes[FLAG_AT] = 2;
        assert_eq!(decode(&bytes), Err(NotAMessage::Flag(2)));
    }
}
