//! The buyers of a comparison: the same bytes for every peer. It has what each of them reads: a token and a key for
//! Doorbuster, the buyer's number in a header for the others, which check neither and have less to do.

use crate::drivers::http::Workload;
use crate::drivers::http::traffic::{self, BUYER_FIRST};
use crate::load::record::Outcome;
use crate::target::TOKEN_SECRET;
use crate::target::token::Minter;

/// One attempt in so many is by the buyer of the one before, who wants a second unit.
pub(super) const GREEDY_EVERY: u64 = 10;

/// Orders of one product, one unit each. The sale has the product's number.
#[derive(Debug)]
pub(super) struct Orders {
    minter: Minter,
    attempts: u64,
    buyer: u64,
    tail: String,
    request: Vec<u8>,
}

impl Orders {
    pub(super) fn new(product: u64) -> Self {
        let (minter, tail) = (Minter::new(TOKEN_SECRET), traffic::order_tail(product, product));
        Self { minter, attempts: 0, buyer: BUYER_FIRST, tail, request: Vec::new() }
    }
}

impl Workload for Orders {
    fn request(&mut self) -> &[u8] {
        self.attempts += 1;
        if !self.attempts.is_multiple_of(GREEDY_EVERY) {
            self.buyer += 1;
        }
        let Self { minter, attempts, buyer, tail, request } = self;
        request.clear();
        traffic::append_order(
            minter,
            *buyer,
            format_args!("Member-Id: {buyer}\r\nIdempotency-Key: attempt-{attempts}"),
            tail,
            request,
        );
        request
    }

    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome {
        traffic::judge_own(status, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_ten_is_by_the_same_buyer_with_another_key() {
        let mut orders = Orders::new(3);
        let mut next = |name: &str| {
            let request = String::from_utf8(orders.request().to_vec()).unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            let field =
                |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
            assert_eq!(field("Content-Length: ").parse(), Ok(body.len()));
            field(name)
        };
        let buyers: Vec<String> = (0..10).map(|_| next("Member-Id: ")).collect();
        assert_eq!(buyers[8], buyers[9]);
        assert_eq!(buyers.iter().collect::<std::collections::HashSet<_>>().len(), 9);
        assert_eq!(next("Idempotency-Key: "), "attempt-11");
    }
}
