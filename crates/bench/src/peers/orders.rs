//! The buyers of a comparison: the same bytes for every peer. It has what each of them reads: a token and a key for
//! Doorbuster, the buyer's number in a header for the others, which check neither and have less to do.

use crate::drivers::http::{Workload, traffic};
use crate::load::record::Outcome;
use crate::target::TOKEN_SECRET;
use crate::target::token::Minter;

const BUYER_FIRST: u64 = 1_000_000_000;
/// One attempt in so many is by the buyer of the one before, who wants a second unit.
pub(super) const GREEDY_EVERY: u64 = 10;

/// Orders of one product, one unit each. The sale has the product's number.
#[derive(Debug)]
pub(super) struct Orders {
    minter: Minter,
    product: u64,
    attempts: u64,
    buyer: u64,
    request: Vec<u8>,
}

impl Orders {
    pub(super) fn new(product: u64) -> Self {
        Self {
            minter: Minter::new(TOKEN_SECRET),
            product,
            attempts: 0,
            buyer: BUYER_FIRST,
            request: Vec::new(),
        }
    }
}

impl Workload for Orders {
    fn request(&mut self) -> &[u8] {
        self.attempts += 1;
        if !self.attempts.is_multiple_of(GREEDY_EVERY) {
            self.buyer += 1;
        }
        let Self { product, attempts, buyer, request, .. } = self;
        let body = format!(
            "{{\"sale\":{product},\"product\":{product},\"quantity\":1,\"address\":{{\"name\":\"Ada Example\",\"phone\":\
             \"+49 30 901820\",\"country\":\"DE\",\"city\":\"Berlin\",\"detail\":\"Unter den Linden 77\",\"post_code\":\"10117\"}}}}"
        );
        request.clear();
        request
            .extend_from_slice(b"POST /api/v1/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ");
        self.minter.append(*buyer, request);
        request.extend_from_slice(
            format!(
                "\r\nMember-Id: {buyer}\r\nIdempotency-Key: attempt-{attempts}\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
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
