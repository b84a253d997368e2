//! How many orders per second the shared ledger takes in, on a MariaDB or MySQL that runs: one consumer, batches
//! of the given size, one queue, each batch with its offset in one transaction.
//!
//! `cargo run --release --example shared_ledger -- HOST:PORT DATABASE ORDERS BATCH SKUS LIMITED`; the database must
//! be empty, its user is root without a password.

use std::time::Instant;

use engine::handover::Grant;
use engine::handover::Reservation;
use engine::working_set::{Operation, Outcome};
use engine::{
    BuyerId, Command, Fingerprint, ItemSpec, OrderId, Payment, Placement, ProductId, SaleId, SaleSpec, SkuId,
    UnixMs,
};
use server::ledger::mysql::cluster::{Progress, SharedLedger};
use server::ledger::mysql::{Limits, Options, Tls};

const NOW: UnixMs = UnixMs(1_000);
const USAGE: &str = "give HOST:PORT DATABASE ORDERS BATCH SKUS LIMITED(yes|no)";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, database, orders, batch, skus, limited] = &arguments[..] else { panic!("{USAGE}") };
    let (host, port) = address.rsplit_once(':').expect(USAGE);
    let options = Options {
        host: host.to_owned(),
        port: port.parse().expect(USAGE),
        user: "root".to_owned(),
        password: None,
        database: database.clone(),
        tls: Tls::Off,
        limits: Limits::default(),
    };
    let orders: u64 = orders.parse().expect(USAGE);
    let per_batch: u64 = batch.parse().expect(USAGE);
    let skus: u32 = skus.parse().expect(USAGE);
    let mut ledger = SharedLedger::open(&options).expect("the database is there and empty");
    create(&mut ledger, skus, limited == "yes");
    let queue = "broker/0".to_owned();
    let assigned = ledger.lease_queues(1, &[(queue.clone(), 0)]).expect("the queue is free");
    let started = Instant::now();
    let (mut from, mut longest_ms) = (0, 0.0);
    while from < orders {
        let to = orders.min(from + per_batch);
        let batch: Vec<Reservation> = (from..to).map(|number| order(number, skus)).collect();
        let progress =
            Progress { queue: queue.clone(), owner: 1, generation: assigned[0].generation, from, to };
        let at = Instant::now();
        let outcomes = ledger.consume(NOW, &[progress], &batch).expect("the ledger is there");
        longest_ms = f64::max(longest_ms, at.elapsed().as_secs_f64() * 1e3);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Placed(_))));
        from = to;
    }
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = orders as f64 / seconds;
    println!("{orders} orders in batches of {batch}: {rate:.0}/s, longest transaction {longest_ms:.0} ms");
}

fn create(ledger: &mut SharedLedger, skus: u32, limited: bool) {
    let item = |product| ItemSpec {
        product: ProductId(product),
        title: format!("Product {product}"),
        description: String::new(),
        price: 4_999,
        list_price: 9_999,
        total: 1_000_000_000,
        limit: limited.then_some(1_000),
        image: None,
        line: None,
    };
    let spec = SaleSpec {
        id: SaleId(1),
        title: "Sale".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(0),
        ends_at: UnixMs(u64::from(u32::MAX)),
        payment: Payment::WithinMs(600_000),
        open_holds_per_buyer_max: None,
        items: (0..u64::from(skus)).map(item).collect(),
    };
    ledger
        .execute(
            NOW,
            &[Operation::of(Command::CreateSale(spec), Grant::NotAsked).expect("it places nothing")],
        )
        .expect("the sale can be");
}

/// Ids as random as a keyed hash, buyers all different.
fn order(number: u64, skus: u32) -> Reservation {
    let mixed = |salt: u64| {
        let mut z = (number ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 27)
    };
    let sku = SkuId(u32::try_from(mixed(1) % u64::from(skus)).expect("below the number of SKUs"));
    let hash = (u128::from(mixed(2)) << 64) | u128::from(mixed(3));
    let placement = Placement {
        id: OrderId { sku, hash },
        buyer: BuyerId(number.into()),
        quantity: 1,
        fingerprint: Fingerprint(mixed(4)),
    };
    let address =
        br#"{"name":"N. N.","phoneNumber":"18033441849","city":"Nanshan","detailAddress":"Keji 1"}"#;
    Reservation {
        placement,
        buyer_text: None,
        epoch: 0,
        reserved_at: UnixMs(0),
        address: Some(address[..].into()),
    }
}
