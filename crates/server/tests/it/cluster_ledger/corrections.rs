//! Corrections before the start where several servers sell: judged in time, or not at all.

use engine::working_set::Executed;
use engine::{Command, ItemChange, Payment, ProductId, Refusal, SaleChange, SaleId, SaleSpec, UnixMs};
use server::clock::wall_clock;
use server::ledger::mysql::cluster::{LedgerError, SharedLedger};

use super::{asked, assert_sound, item, open, sale};

const HOUR_MS: i64 = 3_600_000;

fn price(sale: u64, price: u64) -> Command {
    let item = ItemChange {
        product: ProductId(1),
        title: None,
        description: None,
        price: Some(price),
        list_price: None,
        limit: None,
    };
    let change = SaleChange { items: vec![item], ..SaleChange::default() };
    Command::ChangeSale { sale: SaleId(sale), change }
}

fn start(sale: u64, starts_at: UnixMs) -> Command {
    let change = SaleChange { starts_at: Some(starts_at), ..SaleChange::default() };
    Command::ChangeSale { sale: SaleId(sale), change }
}

fn among_servers(
    ledger: &mut SharedLedger,
    now: UnixMs,
    command: Command,
) -> Result<Vec<Executed>, LedgerError> {
    ledger.execute(now, &[asked(command).among_servers()])
}

#[test]
fn a_correction_by_a_time_that_is_over_does_not_happen_and_all_else_does() {
    let (mut ledger, database) = open();
    let now = wall_clock();
    let times = (now.shifted(HOUR_MS), now.shifted(2 * HOUR_MS));
    for id in [1, 2] {
        let spec = sale(id, Payment::WithinMs(500), vec![item(1, 5, None)]);
        let spec = SaleSpec { starts_at: times.0, ends_at: times.1, ..spec };
        ledger.execute(now.shifted(-HOUR_MS), &[asked(Command::CreateSale(spec))]).unwrap();
    }
    let entries = |ledger: &mut SharedLedger| ledger.sale_entries(engine::Seq(0)).unwrap().len();

    // As of a server that was stopped before it had the lock.
    let stale = now.shifted(-HOUR_MS / 2);
    for command in [price(1, 7), start(1, now.shifted(2 * HOUR_MS - 1)), Command::DeleteSale(SaleId(2))] {
        let executed = among_servers(&mut ledger, stale, command);
        assert!(matches!(executed, Err(LedgerError::Unknown(_))), "{executed:?}");
    }
    assert_eq!(entries(&mut ledger), 2);
    let paused = among_servers(&mut ledger, stale, Command::Pause(SaleId(1))).unwrap();
    assert!(matches!(paused[..], [Executed::Accepted(_)]), "{paused:?}");

    for command in [price(1, 7), Command::DeleteSale(SaleId(2))] {
        let executed = among_servers(&mut ledger, wall_clock(), command).unwrap();
        assert!(matches!(executed[..], [Executed::Accepted(_)]), "{executed:?}");
    }
    let terms = ledger.sales().terms(engine::SkuId(0)).unwrap();
    assert_eq!(terms.price, 7);
    let near = among_servers(&mut ledger, wall_clock(), start(1, wall_clock().shifted(30_000))).unwrap();
    assert!(matches!(near[..], [Executed::Accepted(_)]), "{near:?}");
    for command in [price(1, 8), Command::DeleteSale(SaleId(1))] {
        let executed = among_servers(&mut ledger, wall_clock(), command).unwrap();
        assert!(matches!(executed[..], [Executed::Refused(Refusal::InvalidChange(_))]), "{executed:?}");
    }
    assert_eq!(entries(&mut ledger), 6);
    assert_sound(&database);
}
