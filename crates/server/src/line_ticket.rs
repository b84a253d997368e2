//! A ticket of a line: `7.4711.0f..`, a number, whose it is, and the proof of it. Must not: check the proof.

use std::fmt;
use std::str::FromStr;

use engine::BuyerId;
use engine::draw::Proof;

use crate::hex::{hex, unhex};

/// The name of a receipt in its document.
pub const RECEIPT: &str = "receipt";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTicket {
    pub number: u32,
    pub buyer: BuyerId,
    pub proof: Proof,
}

/// It is none, whoever made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ticket is a number, a buyer and 32 hexadecimal digits, as 7.4711.0f3c..")]
pub struct NotATicket;

impl fmt::Display for LineTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.number, self.buyer, hex(&self.proof))
    }
}

impl FromStr for LineTicket {
    type Err = NotATicket;

    fn from_str(text: &str) -> Result<LineTicket, NotATicket> {
        // One ticket has one text.
        read(text).filter(|ticket| ticket.to_string() == text).ok_or(NotATicket)
    }
}

fn read(text: &str) -> Option<LineTicket> {
    let mut parts = text.splitn(3, '.');
    let number = parts.next()?.parse().ok()?;
    let buyer = parts.next()?;
    let hash =
        || unhex(buyer).map(|bytes| BuyerId(u128::from_be_bytes(bytes))).filter(|buyer| buyer.is_hash());
    let buyer = if buyer.len() == 32 { hash() } else { BuyerId::of_digits(buyer) }?;
    Some(LineTicket { number, buyer, proof: unhex(parts.next()?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_as_it_was_written_and_no_other() {
        for buyer in [BuyerId(0), BuyerId(4711), BuyerId::of_hash(9)] {
            let ticket = LineTicket { number: 7, buyer, proof: [0xab; 16] };
            let text = ticket.to_string();
            assert_eq!(text.parse(), Ok(ticket), "{text}");
            for other in [&text[1..], &text[..text.len() - 1], &format!("{text}0"), &format!("{text}.")] {
                assert_eq!(other.parse::<LineTicket>(), Err(NotATicket), "{other}");
            }
        }
        let proof = "0".repeat(32);
        for other in
            ["", ".", "..", "7", "7.4711", "7.-1.", "+7.1.", "07.1.", "7.01.", "5000000000.1.", "7.1 ."]
        {
            assert!(format!("{other}{proof}").parse::<LineTicket>().is_err(), "{other}");
        }
    }
}
