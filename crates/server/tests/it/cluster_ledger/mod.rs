//! The shared ledger on a real MariaDB, each test in a database of its own.

mod conformance;
mod consuming;
mod corrections;
mod faults;
mod leases;
mod operators;
mod paying;
mod rebuilding;
mod refusals;
mod upkeep;

use engine::handover::{Grant, Reservation};
use engine::working_set::{Executed, Operation};
use engine::{
    BuyerId, Command, Fingerprint, ItemSpec, OrderId, Payment, Placement, ProductId, SaleId, SaleSpec, SkuId,
    UnixMs,
};
use server::ledger::mysql::audit;
use server::ledger::mysql::cluster::{Assignment, Progress, SharedLedger};

use crate::places::Database;

/// When the tests' sales have started.
const START: u64 = 1_000;

fn open() -> (SharedLedger, Database) {
    let database = Database::shared();
    (SharedLedger::open(&database.options).unwrap(), database)
}

fn item(product: u64, total: u64, limit: Option<u32>) -> ItemSpec {
    ItemSpec {
        product: ProductId(product),
        title: format!("Product {product}"),
        description: "It's \"new\" \\ good".to_owned(),
        price: 4_999,
        list_price: 9_999,
        total,
        limit,
        image: None,
        line: None,
    }
}

fn sale(id: u64, payment: Payment, items: Vec<ItemSpec>) -> SaleSpec {
    SaleSpec {
        id: SaleId(id),
        title: format!("Sale {id}: “quoted”"),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(START),
        ends_at: UnixMs(u64::from(u32::MAX)),
        payment,
        open_holds_per_buyer_max: None,
        items,
    }
}

/// A sale with one SKU, made in the ledger.
fn one_sku(ledger: &mut SharedLedger, total: u64, limit: Option<u32>) {
    let spec = sale(1, Payment::WithinMs(500), vec![item(1, total, limit)]);
    let created = ledger.execute(UnixMs(START), &[asked(Command::CreateSale(spec))]).unwrap();
    assert!(matches!(created[..], [Executed::Accepted(_)]), "{created:?}");
}

fn order(sku: u32, hash: u128, buyer: u64) -> Reservation {
    let id = OrderId { sku: SkuId(sku), hash };
    let place =
        Placement { id, buyer: BuyerId(buyer.into()), quantity: 1, fingerprint: Fingerprint(u64::MAX) };
    let address = Some(br#"{"city":"O'Fallon"}"#[..].into());
    Reservation { placement: place, buyer_text: None, epoch: 0, reserved_at: UnixMs(START), address }
}

/// The orders of these numbers, by as many buyers.
fn orders(numbers: std::ops::Range<u64>) -> Vec<Reservation> {
    numbers.map(|number| order(0, u128::from(number) << 64, number)).collect()
}

fn progress(assigned: &Assignment, owner: u64, from: u64, to: u64) -> Progress {
    Progress { queue: assigned.queue.clone(), owner, generation: assigned.generation, from, to }
}

/// The whole ledger, replayed and held against its tables, is right.
fn assert_sound(database: &Database) -> server::ledger::Audit {
    let audit = audit(&database.options).unwrap();
    assert_eq!(audit.broken, Vec::<String>::new());
    assert!(audit.complete);
    audit
}

/// A command as an operation, for which no gate was asked.
pub(crate) fn asked(command: Command) -> Operation {
    Operation::of(command, Grant::NotAsked).expect("it places nothing")
}
