//! The provider of a rehearsal: every second order that is held is paid for, by signed callbacks as a shop's provider sends
//! them. The other half never pays.

use std::io::Write;

use anyhow::Context;
use ring::hmac;
use serde_json::Value;

use crate::drivers::http::{Workload, once};
use crate::load::record::Outcome;
use crate::target::token::unix_s;
use crate::target::{OPERATOR_TOKEN, PAYMENT_SECRET, Target};

#[derive(Debug)]
pub(super) struct Bill {
    order: String,
    amount: u64,
}

/// Those of every second order that is held, by the feed for the shop's fulfilment.
pub(super) fn bills(server: &Target) -> anyhow::Result<Vec<Bill>> {
    let (mut bills, mut since, mut held) = (Vec::new(), 0, 0_u64);
    loop {
        let path = format!("/api/v1/orders?status=held&limit=5000&since={since}");
        let answer = server.exchange(&once::operating(OPERATOR_TOKEN, "GET", &path, &[]), 200)?;
        let page: Value = serde_json::from_slice(&answer.body).context("a page of the feed")?;
        for order in page["orders"].as_array().context("a page of the feed has orders")? {
            held += 1;
            if held % 2 == 1 {
                let named = order["id"].as_str().map(str::to_owned);
                let (order, amount) =
                    named.zip(order["amount"].as_u64()).context("an order has an id and an amount")?;
                bills.push(Bill { order, amount });
            }
        }
        since = page["cursor"].as_u64().context("a page of the feed has a cursor")?;
        if page["more"] != true {
            return Ok(bills);
        }
    }
}

/// The callbacks, each once and then again from the first on, as a provider repeats them: that pays for nothing more.
pub(super) struct Callbacks<'a> {
    bills: &'a [Bill],
    sent: usize,
    key: hmac::Key,
    request: Vec<u8>,
}

impl<'a> Callbacks<'a> {
    pub(super) fn new(bills: &'a [Bill]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, PAYMENT_SECRET.as_bytes());
        Self { bills, sent: 0, key, request: Vec::new() }
    }
}

/// A signed callback that says that this order is paid.
pub(crate) fn callback(key: &hmac::Key, order: &str, amount: u64, out: &mut Vec<u8>) {
    let body = format!("{{\"payment_id\":\"of-{order}\",\"order\":\"{order}\",\"amount\":{amount}}}");
    let at_s = unix_s();
    let signature = hmac::sign(key, format!("{at_s}.{body}").as_bytes());
    let mut head = format!("Doorbuster-Signature: t={at_s},v1=").into_bytes();
    for byte in signature.as_ref() {
        write!(head, "{byte:02x}").expect("memory takes what is written");
    }
    let head = String::from_utf8(head).expect("it was made of texts");
    out.extend(once::encode("POST", "/api/v1/payments", &[&head], body.as_bytes()));
}

impl Workload for Callbacks<'_> {
    fn request(&mut self) -> &[u8] {
        let Bill { order, amount } = &self.bills[self.sent % self.bills.len()];
        self.sent += 1;
        self.request.clear();
        callback(&self.key, order, *amount, &mut self.request);
        &self.request
    }

    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome {
        let pays = || body.windows(15).any(|part| part == b"\"result\":\"paid\"");
        match status {
            200 if pays() => Outcome::Served,
            429 => Outcome::Limited,
            503 => Outcome::Busy,
            _ => Outcome::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bill_is_paid_by_a_signed_callback_of_its_own_id() {
        let bills = [1, 2].map(|number| Bill { order: format!("{number:040x}"), amount: number });
        let mut callbacks = Callbacks::new(&bills);
        let texts = [0, 1, 2].map(|_| String::from_utf8(callbacks.request().to_vec()).unwrap());
        let bodies = texts.each_ref().map(|text| text.split_once("\r\n\r\n").unwrap().1);
        let order = format!("{:040x}", 2);
        assert_eq!(
            bodies[1],
            format!("{{\"payment_id\":\"of-{order}\",\"order\":\"{order}\",\"amount\":2}}")
        );
        assert_eq!(bodies[0], bodies[2]);
        let (_, rest) = texts[1].split_once("Doorbuster-Signature: t=").unwrap();
        let (at_s, tag) = rest.split_once("\r\n").unwrap().0.split_once(",v1=").unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, PAYMENT_SECRET.as_bytes());
        let tag: Vec<u8> =
            (0..64).step_by(2).map(|at| u8::from_str_radix(&tag[at..at + 2], 16).unwrap()).collect();
        hmac::verify(&key, format!("{at_s}.{}", bodies[1]).as_bytes(), &tag).unwrap();
        for (status, body, outcome) in [
            (200, "{\"payment_id\":\"of\",\"result\":\"paid\"}", Outcome::Served),
            (200, "{\"payment_id\":\"of\",\"result\":\"refund_due\"}", Outcome::Failed),
            (503, "{}", Outcome::Busy),
            (401, "{}", Outcome::Failed),
        ] {
            assert_eq!(callbacks.judge(status, body.as_bytes()), outcome, "{status} {body}");
        }
    }
}
