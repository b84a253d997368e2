//! Where a buyer pays an order: the shop's payment page, with what it must know and a signature over it.
//!
//! The signature is the lower-case hex HMAC-SHA-256, made with the secret that the payment callbacks are signed with,
//! over `pay:<order>:<amount>:<currency>:<return>`. A callback's text begins with a number, so neither passes for
//! the other. Must not: read a clock, or keep an order.

use engine::{OrderView, Status};
use ring::hmac;

use super::wire::{parameter, push_hex, push_number, push_order_id, read_hex};

/// The addresses as they are configured, with places in braces.
#[derive(Clone, Debug, Default)]
pub struct PayPage {
    /// `{order}`, `{amount}`, `{currency}`, `{return}` and `{signature}`.
    pub pay_url: String,
    /// `{order}`; empty: buyers are not sent back.
    pub return_url: String,
}

/// Makes the addresses.
#[derive(Debug)]
pub(super) struct PayLink {
    page: PayPage,
    key: hmac::Key,
}

impl PayLink {
    pub(super) fn new(page: &PayPage, secret: &[u8]) -> PayLink {
        PayLink { page: page.clone(), key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// Whether an order's page leads here: the query has what [`PayLink::of`] signed.
    pub(super) fn leads_here(&self, order: &str, query: &str) -> bool {
        let named = |name| parameter(query, name).unwrap_or_default();
        let back = self.page.return_url.replace("{order}", order);
        let signed = format!("pay:{order}:{}:{}:{back}", named("amount"), named("currency"));
        let mut tag = [0; 32];
        read_hex(named("signature"), &mut tag) && hmac::verify(&self.key, signed.as_bytes(), &tag).is_ok()
    }

    /// The address at which this order is paid; `None` if it can't be any more. A few microseconds.
    pub(super) fn of(&self, order: &OrderView, currency: &str) -> Option<String> {
        if order.status != Status::Held {
            return None;
        }
        let text = |push: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::with_capacity(64);
            push(&mut bytes);
            String::from_utf8(bytes).expect("digits are ASCII")
        };
        let id = text(&|out| push_order_id(out, order.id));
        let amount = text(&|out| push_number(out, order.amount()));
        let back = self.page.return_url.replace("{order}", &id);
        let signed = format!("pay:{id}:{amount}:{currency}:{back}");
        let tag = hmac::sign(&self.key, signed.as_bytes());
        let signature = text(&|out| push_hex(out, tag.as_ref()));
        let mut url = String::with_capacity(self.page.pay_url.len() + 256);
        let mut rest = self.page.pay_url.as_str();
        while let Some((before, place)) = rest.split_once('{') {
            let (name, after) = place.split_once('}')?;
            url.push_str(before);
            match name {
                "order" => url.push_str(&id),
                "amount" => url.push_str(&amount),
                "currency" => url.push_str(currency),
                "return" => push_encoded(&mut url, &back),
                "signature" => url.push_str(&signature),
                _ => return None,
            }
            rest = after;
        }
        url.push_str(rest);
        Some(url)
    }
}

/// Percent-encodes all but what RFC 3986 never reserves.
fn push_encoded(out: &mut String, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)].into());
            out.extend(['%', high, low]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_for_a_query() {
        let mut out = String::new();
        push_encoded(&mut out, "https://a.example/orders/0f?x=1&y=ä ~");
        assert_eq!(out, "https%3A%2F%2Fa.example%2Forders%2F0f%3Fx%3D1%26y%3D%C3%A4%20~");
    }
}
