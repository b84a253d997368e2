//! Whether the machine is needed for a sale while it is rehearsed on: then the rehearsal ends, as one that a console's button began.
//!
//! Must not: keep a rehearsal from ending, or end one because the ledger could not be read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use ::bench::progress::say;
use ::bench::target::token::unix_ms;
use engine::{Entry, Sales, UnixMs};
use server::ledger::Source;
use server::rehearsals::needed_for;

use crate::failure::Failure;

/// Between two looks, of which each reads what is new.
const INTERVAL: Duration = Duration::from_secs(2);

/// Why the rehearsal is to end, once a sale needs the machine.
pub(super) type Needed = Arc<OnceLock<String>>;

/// Looks until it is dropped.
pub(super) struct Watch {
    _ends: SyncSender<()>,
}

impl Watch {
    /// Looks at the installation's ledger on a thread, which ends by itself: a look at a database that hangs is not waited for.
    pub(super) fn start(ledger: Source, stop: &Arc<AtomicBool>, needed: &Needed) -> Result<Watch, Failure> {
        let (ends, ended) = sync_channel(0);
        let (stop, needed) = (Arc::clone(stop), Arc::clone(needed));
        let watch = move || {
            let (mut sales, mut latest) = (Sales::new(), UnixMs(0));
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(INTERVAL) {
                read_on(&mut sales, &mut latest, &ledger);
                if let Some(why) = found(&sales, UnixMs(unix_ms())) {
                    say(&format!("{why}: the rehearsal ends, and removes what it has made"));
                    // Once: nobody else sets it.
                    needed.set(why).ok();
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("needed".to_owned());
        thread.spawn(watch).map_err(Failure::unavailable)?;
        Ok(Watch { _ends: ends })
    }
}

/// A ledger that can't be read now, or is not there yet, is read at the next look.
fn read_on(sales: &mut Sales, latest: &mut UnixMs, ledger: &Source) {
    for entry in ledger.sale_entries(sales.seen()).unwrap_or_default() {
        // After a correction of the clock, of which these entries say nothing, times begin anew.
        *latest = entry.at.max(*latest);
        // One that does not follow is for the audit to report.
        sales.replay(&Entry { at: *latest, ..entry }).ok();
    }
}

/// Why the machine is needed now, if it is.
fn found(sales: &Sales, now: UnixMs) -> Option<String> {
    let there = sales.iter().filter(|sale| !sale.deleted);
    there.into_iter().find_map(|sale| needed_for(&sale.spec, sale.phase(now), now))
}

#[cfg(test)]
mod tests {
    use engine::{Event, ItemSpec, Payment, ProductId, SaleId, SaleSpec, Seq};

    use super::*;

    #[test]
    fn a_sale_needs_the_machine_from_a_minute_before_its_start_to_its_end() {
        const SOON_MS: u64 = 60_000;
        const STARTS: u64 = 10 * SOON_MS;
        let item = ItemSpec {
            product: ProductId(30),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: 1,
            list_price: 1,
            total: 1,
            limit: None,
            image: None,
            line: None,
        };
        let spec = SaleSpec {
            id: SaleId(3),
            title: "Drop".to_owned(),
            currency: "EUR".to_owned(),
            starts_at: UnixMs(STARTS),
            ends_at: UnixMs(STARTS + 1_000),
            payment: Payment::OnPlacing,
            open_holds_per_buyer_max: None,
            items: vec![item],
        };
        let mut sales = Sales::new();
        let mut follow = |seq: u64, event: Event| {
            sales.replay(&Entry { seq: Seq(seq), at: UnixMs(seq), event }).unwrap();
            sales.clone()
        };
        let planned = follow(1, Event::SaleCreated(Box::new(spec)));
        let paused = follow(2, Event::SalePaused(SaleId(3)));
        let ended = follow(3, Event::SaleEnded(SaleId(3)));
        let at = |sales: &Sales, now_ms: u64| found(sales, UnixMs(now_ms));
        for (now_ms, why) in [
            (STARTS - SOON_MS - 1, None),
            (STARTS - SOON_MS, Some("begins within a minute")),
            (STARTS - 1, Some("begins within a minute")),
            (STARTS, Some("is live")),
            (STARTS + 999, Some("is live")),
            (STARTS + 1_000, None),
        ] {
            assert_eq!(at(&planned, now_ms), why.map(|why| format!("sale 3 {why}")), "{now_ms}");
            assert_eq!(at(&ended, now_ms), None, "{now_ms}");
        }
        assert_eq!(at(&paused, STARTS).as_deref(), Some("sale 3 is paused"));
        assert_eq!(at(&Sales::new(), STARTS), None);
    }
}
