//! An order on its way through the queue, as bytes; the gate keeps its open reservations in the same form.
//!
//! Must not: judge an order. What has the right shape is decoded, whatever it asks for.
//!
//! Layout, big-endian, no padding: format (1 byte), SKU (4), hash (16), buyer (8 bytes of a number in format 1, 16 of a
//! hash in format 2), quantity (4), fingerprint (8), epoch (8), reserved at (8), in format 2 the length of the buyer's text (1) and the
//! text, address flag (1), and with an address its length (2) and its bytes.
//!
//! An order of a buyer who is a number is written in format 1, byte for byte as before there were others: a server that
//! knows no other reads it too. It puts one of format 2 aside as a dead letter, by its first byte.

use engine::handover::Reservation;
use engine::{BuyerId, Fingerprint, OrderId, Placement, SkuId, UnixMs};

/// First byte of a message whose buyer is a number.
pub const OF_NUMBER: u8 = 1;
/// First byte of a message whose buyer is the hash of a text.
pub const OF_HASH: u8 = 2;
/// Epoch, and reserved at.
const STAMP_BYTES: usize = 16;
/// Of a message, without its texts: for a hash, with an address.
const LONGEST_FIXED: usize = 1 + 4 + 16 + 16 + 4 + 8 + STAMP_BYTES + 1 + 1 + 2;
/// Longest address, in bytes: its length takes two.
pub const ADDRESS_BYTES_MAX: usize = u16::MAX as usize;

/// The bytes are no message of a format that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAMessage {
    #[error("the message is empty")]
    Empty,
    #[error(
        "the message has format {0}, and this release knows formats {OF_NUMBER} and {OF_HASH}: it is of a newer release, \
         which can read it, or of another program"
    )]
    Format(u8),
    #[error("a message of {0} bytes is cut off, or too long for what it says it holds")]
    Length(usize),
    #[error("{0} is no flag of an address")]
    Flag(u8),
    #[error("the buyer of a message of format {0} is none that this format has")]
    Buyer(u8),
    #[error("the buyer's text is no text")]
    Text,
}

/// Appends the message of an order.
///
/// # Panics
/// If the address is longer than [`ADDRESS_BYTES_MAX`], or a buyer who is a hash comes without a text of at most 255
/// bytes.
pub fn encode(order: &Reservation, out: &mut Vec<u8>) {
    let Reservation { placement, buyer_text, epoch, reserved_at, address } = order;
    let begin = out.len();
    encode_asked(placement, (buyer_text.as_deref(), address.as_deref()), out);
    stamp(&mut out[begin..], *epoch, *reserved_at);
}

/// Appends the same of an order that no gate has reserved yet: of no epoch, and at no time.
///
/// # Panics
/// As [`encode`].
pub fn encode_asked(
    placement: &Placement,
    (buyer_text, address): (Option<&str>, Option<&[u8]>),
    out: &mut Vec<u8>,
) {
    let number = placement.buyer.number();
    out.reserve(LONGEST_FIXED + buyer_text.map_or(0, str::len) + address.map_or(0, <[u8]>::len));
    out.push(if number.is_some() { OF_NUMBER } else { OF_HASH });
    out.extend_from_slice(&placement.id.sku.0.to_be_bytes());
    out.extend_from_slice(&placement.id.hash.to_be_bytes());
    match number {
        Some(number) => out.extend_from_slice(&number.to_be_bytes()),
        None => out.extend_from_slice(&placement.buyer.0.to_be_bytes()),
    }
    out.extend_from_slice(&placement.quantity.to_be_bytes());
    out.extend_from_slice(&placement.fingerprint.0.to_be_bytes());
    out.extend_from_slice(&[0; STAMP_BYTES]);
    assert_eq!(number.is_none(), buyer_text.is_some(), "a hash comes with its text, a number without");
    if let Some(text) = buyer_text {
        out.push(u8::try_from(text.len()).expect("a buyer's text has at most 128 bytes"));
        out.extend_from_slice(text.as_bytes());
    }
    out.push(u8::from(address.is_some()));
    if let Some(address) = address {
        let bytes = u16::try_from(address.len()).expect("an address has at most ADDRESS_BYTES_MAX bytes");
        out.extend_from_slice(&bytes.to_be_bytes());
        out.extend_from_slice(address);
    }
}

/// Writes into a message by which epoch of the gate its order was reserved, and when.
///
/// # Panics
/// If it is no message.
pub fn stamp(message: &mut [u8], epoch: u64, reserved_at: UnixMs) {
    let buyer_bytes = if message[0] == OF_NUMBER { 8 } else { 16 };
    // Behind the format, the SKU, the hash, the buyer, the quantity and the fingerprint.
    let at = 1 + 4 + 16 + buyer_bytes + 4 + 8;
    let stamp = &mut message[at..at + STAMP_BYTES];
    stamp[..8].copy_from_slice(&epoch.to_be_bytes());
    stamp[8..].copy_from_slice(&reserved_at.0.to_be_bytes());
}

/// Every byte must be accounted for.
pub fn decode(message: &[u8]) -> Result<Reservation, NotAMessage> {
    let (&format, rest) = message.split_first().ok_or(NotAMessage::Empty)?;
    if ![OF_NUMBER, OF_HASH].contains(&format) {
        return Err(NotAMessage::Format(format));
    }
    let mut parts = Parts { rest, length: message.len() };
    let id =
        OrderId { sku: SkuId(u32::from_be_bytes(parts.take()?)), hash: u128::from_be_bytes(parts.take()?) };
    let buyer = match format {
        OF_NUMBER => BuyerId::of_number(u64::from_be_bytes(parts.take()?)),
        _ => Some(BuyerId(u128::from_be_bytes(parts.take()?))).filter(|buyer| buyer.is_hash()),
    };
    let quantity = u32::from_be_bytes(parts.take()?);
    let fingerprint = Fingerprint(u64::from_be_bytes(parts.take()?));
    let epoch = u64::from_be_bytes(parts.take()?);
    let reserved_at = UnixMs(u64::from_be_bytes(parts.take()?));
    let buyer_text = if format == OF_HASH { Some(parts.text()?) } else { None };
    let address = parts.address()?;
    let buyer = buyer.ok_or(NotAMessage::Buyer(format))?;
    let placement = Placement { id, buyer, quantity, fingerprint };
    Ok(Reservation { placement, buyer_text, epoch, reserved_at, address })
}

/// What is left of a message.
struct Parts<'m> {
    rest: &'m [u8],
    /// Of the whole message.
    length: usize,
}

impl<'m> Parts<'m> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], NotAMessage> {
        let (part, rest) = self.rest.split_first_chunk().ok_or(NotAMessage::Length(self.length))?;
        self.rest = rest;
        Ok(*part)
    }

    fn bytes(&mut self, count: usize) -> Result<&'m [u8], NotAMessage> {
        let (part, rest) = self.rest.split_at_checked(count).ok_or(NotAMessage::Length(self.length))?;
        self.rest = rest;
        Ok(part)
    }

    fn text(&mut self) -> Result<Box<str>, NotAMessage> {
        let [count] = self.take()?;
        let text = std::str::from_utf8(self.bytes(count.into())?);
        text.map(Box::from).map_err(|_not_utf8| NotAMessage::Text)
    }

    /// With which the message ends.
    fn address(&mut self) -> Result<Option<Box<[u8]>>, NotAMessage> {
        let [flag] = self.take()?;
        let address = match flag {
            0 => None,
            1 => {
                let count = u16::from_be_bytes(self.take()?);
                Some(self.bytes(count.into())?.into())
            }
            flag => return Err(NotAMessage::Flag(flag)),
        };
        if self.rest.is_empty() { Ok(address) } else { Err(NotAMessage::Length(self.length)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn orders()(
            (sku, hash, buyer, quantity) in any::<(u32, u128, u128, u32)>(),
            text in proptest::option::of(".{1,32}"),
            (fingerprint, epoch, reserved_at) in any::<(u64, u64, u64)>(),
            address in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..3000)),
        ) -> Reservation {
            let id = OrderId { sku: SkuId(sku), hash };
            let buyer_text = text.map(String::into_boxed_str);
            let number = BuyerId(buyer % (u128::from(BuyerId::NUMBER_MAX) + 1));
            let buyer = if buyer_text.is_some() { BuyerId::of_hash(buyer) } else { number };
            let fingerprint = Fingerprint(fingerprint);
            let placement = Placement { id, buyer, quantity, fingerprint };
            let address = address.map(Vec::into_boxed_slice);
            Reservation { placement, buyer_text, epoch, reserved_at: UnixMs(reserved_at), address }
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
        fn what_is_asked_becomes_what_was_reserved_by_its_stamp(order in orders(), other in any::<u64>()) {
            let mut bytes = Vec::new();
            encode_asked(&order.placement, (order.buyer_text.as_deref(), order.address.as_deref()), &mut bytes);
            let asked = Reservation { epoch: 0, reserved_at: UnixMs(0), ..order.clone() };
            prop_assert_eq!(decode(&bytes), Ok(asked));
            stamp(&mut bytes, other, UnixMs(other));
            stamp(&mut bytes, order.epoch, order.reserved_at);
            prop_assert_eq!(bytes, encoded(&order));
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
            shaped in proptest::option::of(OF_NUMBER..=OF_HASH),
        ) {
            if let Some(format) = shaped {
                bytes.resize(if format == OF_NUMBER { FIXED_BYTES } else { FIXED_BYTES + 9 }, 7);
                bytes[0] = format;
                bytes[21] = if format == OF_NUMBER { 7 } else { 0x80 };
                // No address, and of a hash an empty text before it.
                let end = bytes.len();
                bytes[end - usize::from(format)..].fill(0);
            }
            if let Ok(order) = decode(&bytes) {
                prop_assert_eq!(encoded(&order), bytes);
            } else {
                prop_assert!(shaped.is_none());
            }
        }
    }

    /// Format, SKU, hash, number, quantity, fingerprint, epoch, time and flag.
    const FIXED_BYTES: usize = 1 + 4 + 16 + 8 + 4 + 8 + 8 + 8 + 1;

    /// What lies in queues and gates is read by every later release, and a number's message by every earlier one.
    #[test]
    fn the_bytes_of_a_format_never_change() {
        let placement = Placement {
            id: OrderId { sku: SkuId(0x0102_0304), hash: 0xabcd },
            buyer: BuyerId(7),
            quantity: 2,
            fingerprint: Fingerprint(5),
        };
        let address = Some(b"{}".as_slice().into());
        let of_number =
            Reservation { placement, buyer_text: None, epoch: 3, reserved_at: UnixMs(9), address };
        let hex = |order: &Reservation| -> String {
            encoded(order).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let zeros = |count| "0".repeat(count);
        let id = format!("01020304{}abcd", zeros(28));
        let numbers = format!("00000002{}5{}3{}9", zeros(15), zeros(15), zeros(15));
        assert_eq!(hex(&of_number), format!("01{id}{}7{numbers}0100027b7d", zeros(15)));
        let mut of_hash = Reservation { address: None, buyer_text: Some("anna".into()), ..of_number };
        of_hash.placement.buyer = BuyerId::of_hash(7);
        assert_eq!(hex(&of_hash), format!("02{id}8{}7{numbers}04616e6e6100", zeros(30)));
    }

    #[test]
    fn the_reason_is_given() {
        let order = decode(&[OF_NUMBER; 2]);
        assert_eq!(order, Err(NotAMessage::Length(2)));
        assert_eq!(decode(b""), Err(NotAMessage::Empty));
        assert_eq!(decode(b"{}"), Err(NotAMessage::Format(b'{')));
        let newer = decode(&[3]).unwrap_err().to_string();
        assert!(newer.contains("format 3") && newer.contains("formats 1 and 2"), "{newer}");
        let mut bytes = vec![OF_NUMBER; FIXED_BYTES];
        bytes[FIXED_BYTES - 1] = 2;
        assert_eq!(decode(&bytes), Err(NotAMessage::Flag(2)));
        bytes[FIXED_BYTES - 1] = 0;
        bytes[21] = 0x80;
        assert_eq!(decode(&bytes), Err(NotAMessage::Buyer(OF_NUMBER)));
        bytes[0] = OF_HASH;
        bytes[21] = 0x7f;
        bytes.resize(FIXED_BYTES + 9, 0);
        bytes[FIXED_BYTES + 7..].fill(0);
        assert_eq!(decode(&bytes), Err(NotAMessage::Buyer(OF_HASH)));
    }
}
