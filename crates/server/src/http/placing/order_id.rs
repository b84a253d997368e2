//! Order ids and fingerprints: keyed hashes of what was asked, so that a retry asks for the same order.
//!
//! The key comes from the ledger, which keeps it for good: with another one a retry after a restart would be
//! a new order. It is secret, so that nobody can choose a request whose id collides with somebody else's.
//! Must not: know a route.

use std::hash::Hasher;

use engine::{BuyerId, Fingerprint, OrderId, ProductId, SaleId, SkuId};
use ring::rand::{SecureRandom, SystemRandom};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24x128};

use super::order_number::OrderNumbers;

/// Longest idempotency key, in bytes.
pub(in crate::http) const KEY_BYTES_MAX: usize = 64;

/// Makes the ids of one event loop.
#[derive(Debug)]
pub(in crate::http) struct Ids {
    /// From the ledger.
    secret: [u8; 16],
    /// Of this loop and this run: hashes the counter of orders without a key.
    run_secret: [u8; 16],
    without_key: u64,
    pub(in crate::http) numbers: OrderNumbers,
}

/// What an order is named after.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Named<'a> {
    pub(in crate::http) sku: SkuId,
    pub(in crate::http) sale: SaleId,
    pub(in crate::http) product: ProductId,
    pub(in crate::http) buyer: BuyerId,
    pub(in crate::http) key: &'a str,
}

impl Ids {
    /// # Panics
    /// If the system has no entropy: nothing could be signed or named then.
    pub(in crate::http) fn new(secret: [u8; 16]) -> Ids {
        let mut run_secret = [0; 16];
        SystemRandom::new().fill(&mut run_secret).expect("the system gives entropy");
        Ids { secret, run_secret, without_key: 0, numbers: OrderNumbers::new(secret) }
    }

    /// The id of what a buyer asks for under a key. Only the last part has no width of its own.
    pub(in crate::http) fn keyed(&self, named: &Named<'_>) -> OrderId {
        let mut hasher = SipHasher24x128::new_with_key(&self.secret);
        // Little-endian on every machine: a ledger may move to another one.
        hasher.write(&named.sale.0.to_le_bytes());
        hasher.write(&named.product.0.to_le_bytes());
        // A hash ends in a byte above all of ASCII, where a number is followed by the key: the two never meet.
        match named.buyer.number() {
            Some(number) => hasher.write(&number.to_le_bytes()),
            None => hasher.write(&named.buyer.0.to_le_bytes()),
        }
        hasher.write(named.key.as_bytes());
        OrderId { sku: named.sku, hash: hasher.finish128().as_u128() }
    }

    /// An id that was never given before and can't be guessed, for a request without a key.
    pub(in crate::http) fn random(&mut self, sku: SkuId) -> OrderId {
        self.without_key += 1;
        let mut hasher = SipHasher24x128::new_with_key(&self.run_secret);
        hasher.write_u64(self.without_key);
        OrderId { sku, hash: hasher.finish128().as_u128() }
    }

    /// A hash of everything that the request asked for, part by part. A route has always the same count of
    /// numbers, each of a fixed width.
    pub(in crate::http) fn fingerprint<'a>(
        &self,
        quantity: u32,
        numbers: &[Option<u64>],
        parts: impl Iterator<Item = Option<&'a str>>,
    ) -> Fingerprint {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write_u32(quantity);
        for number in numbers {
            hasher.write_u8(u8::from(number.is_some()));
            hasher.write_u64(number.unwrap_or_default());
        }
        for part in parts {
            // The length first, so that a text can't move from one part into the next; absent is no length.
            hasher.write_u64(part.map_or(u64::MAX, |part| part.len() as u64));
            hasher.write(part.unwrap_or_default().as_bytes());
        }
        Fingerprint(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 16] = *b"0123456789abcdef";

    fn named(sale: u64, product: u64, buyer: u64, key: &str) -> Named<'_> {
        Named {
            sku: SkuId(5),
            sale: SaleId(sale),
            product: ProductId(product),
            buyer: BuyerId(buyer.into()),
            key,
        }
    }

    #[test]
    fn the_same_request_has_the_same_id_and_any_other_another() {
        let (ids, again) = (Ids::new(SECRET), Ids::new(SECRET));
        let id = ids.keyed(&named(3, 29, 7, "k"));
        assert_eq!(again.keyed(&named(3, 29, 7, "k")), id);
        assert_eq!(id.sku, SkuId(5));
        for other in [named(4, 29, 7, "k"), named(3, 30, 7, "k"), named(3, 29, 8, "k"), named(3, 29, 7, "kk")]
        {
            assert_ne!(ids.keyed(&other), id, "{other:?}");
        }
        assert_ne!(Ids::new([0; 16]).keyed(&named(3, 29, 7, "k")), id);
    }

    /// The ledger's orders are named by this hash: it must not change with a version of the library.
    #[test]
    fn the_id_of_a_request_never_changes() {
        let id = Ids::new(SECRET).keyed(&named(3, 29, 7, "k"));
        assert_eq!(id.to_string(), "000000050f7111549bd406845b904b205773865f");
    }

    /// What a release before gave them: the same for the same requests, for as long as a ledger lives.
    #[test]
    fn the_requests_of_older_ledgers_get_their_ids_again() {
        let of_sqlite = {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ledgers/sqlite-1.db");
            let ledger = rusqlite::Connection::open(format!("file:{path}?immutable=1")).unwrap();
            let secret = "SELECT value FROM meta WHERE name = 'id_secret'";
            ledger.query_row(secret, [], |row| row.get::<_, [u8; 16]>(0)).unwrap()
        };
        let of_dump = |dump: &str| {
            let at = dump.find("('id_secret',0x").unwrap() + "('id_secret',0x".len();
            u128::from_str_radix(&dump[at..at + 32], 16).unwrap().to_be_bytes()
        };
        let mysql = include_str!("../../../tests/fixtures/ledgers/mysql-2.sql");
        let cluster = include_str!("../../../tests/fixtures/ledgers/cluster-2.sql");
        for (secret, answers) in [
            (of_sqlite, include_str!("../../../tests/fixtures/ledgers/sqlite-1.json")),
            (of_dump(mysql), include_str!("../../../tests/fixtures/ledgers/mysql-2.json")),
            (of_dump(cluster), include_str!("../../../tests/fixtures/ledgers/cluster-2.json")),
        ] {
            let answers: serde_json::Value = serde_json::from_str(answers).unwrap();
            let requests = answers["requests"].as_array().unwrap();
            assert!(requests.len() > 10);
            for request in requests {
                let id: OrderId = request["id"].as_str().unwrap().parse().unwrap();
                let named = Named {
                    sku: id.sku,
                    sale: SaleId(request["sale"].as_u64().unwrap()),
                    product: ProductId(request["product"].as_u64().unwrap()),
                    buyer: BuyerId::of_digits(request["buyer"].as_str().unwrap()).unwrap(),
                    key: request["key"].as_str().unwrap(),
                };
                assert_eq!(Ids::new(secret).keyed(&named), id, "{request}");
            }
        }
    }

    #[test]
    fn a_buyer_who_is_a_hash_has_ids_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        for buyer in [BuyerId(7), BuyerId::of_hash(7), BuyerId::of_hash(7 | 1 << 64)] {
            let keyed = |key| Ids::new(SECRET).keyed(&Named { buyer, ..named(3, 29, 0, key) });
            for key in ["k", "kkkkkkkk", "kkkkkkkkk"] {
                assert!(seen.insert(keyed(key)), "{buyer} {key}");
            }
        }
    }

    #[test]
    fn ids_without_a_key_never_repeat() {
        let (mut one, mut other) = (Ids::new(SECRET), Ids::new(SECRET));
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(one.random(SkuId(1))) && seen.insert(other.random(SkuId(1))));
        }
    }

    #[test]
    fn the_fingerprint_distinguishes_requests() {
        let ids = Ids::new(SECRET);
        let print = |quantity, parts: &[Option<&str>]| ids.fingerprint(quantity, &[], parts.iter().copied());
        let one = print(1, &[Some("ab"), Some("c")]);
        assert_eq!(print(1, &[Some("ab"), Some("c")]), one);
        for other in [
            print(2, &[Some("ab"), Some("c")]),
            print(1, &[Some("a"), Some("bc")]),
            print(1, &[Some("ab"), None]),
            print(1, &[Some("ab"), Some("")]),
            print(1, &[None, Some("abc")]),
        ] {
            assert_ne!(other, one);
        }
        let numbers = |numbers: &[Option<u64>]| ids.fingerprint(1, numbers, [].into_iter());
        let one = numbers(&[Some(0), None]);
        assert_eq!(numbers(&[Some(0), None]), one);
        for other in [[None, None], [None, Some(0)], [Some(1), None], [Some(0), Some(0)]] {
            assert_ne!(numbers(&other), one, "{other:?}");
        }
    }
}
