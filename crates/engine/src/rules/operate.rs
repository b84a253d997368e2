//! Every command but placing, for any state; and what operators do: sales, and the moves of a stock.

use super::Declined;
use super::apply::record;
use super::rows::Rows;
use crate::handover::{Claim, Grant};
use crate::sale::limits;
use crate::sales::Sale;
use crate::{Accepted, Adjust, Command, DrawView, Event, Notice, Refusal, SaleId, Sales, SkuId, UnixMs};

/// Carries out one command that is no placing, or refuses it and changes nothing. `grant`: what the gate said, for a
/// command that needs its units.
///
/// # Panics
/// If the command places an order or gives it an address: the states differ in what they judge before, see
/// [`super::place`].
pub(crate) fn execute<R: Rows>(
    rows: &mut R,
    now: UnixMs,
    command: Command,
    grant: Grant,
) -> Result<Accepted, Declined> {
    let sales = rows.registry();
    let (sale, judged) = match command {
        Command::CreateSale(spec) => (spec.id, sales.create(spec)),
        Command::ChangeSale { sale, change } => (sale, sales.change(now, sale, change)),
        Command::Pause(sale) => (sale, sales.pause(now, sale)),
        Command::Resume(sale) => (sale, sales.resume(now, sale)),
        Command::End(sale) => (sale, sales.end(sale)),
        Command::DeleteSale(sale) => (sale, sales.delete(now, sale)),
        Command::Adjust { sku, how, units, key } => return adjust(rows, now, sku, (how, units), key, grant),
        Command::Cancel { order, buyer } => return Ok(super::place::cancel(rows, now, order, Some(buyer))?),
        Command::CancelFor(order) => return Ok(super::place::cancel(rows, now, order, None)?),
        Command::Pay(pay) => return super::pay::pay(rows, now, pay, grant),
        Command::Refund(refund) => return Ok(super::pay::refund(rows, now, refund)?),
        Command::Settle { payment } => return Ok(super::pay::settle(rows, now, &payment)?),
        Command::EraseBuyer(buyer) => {
            record(rows, now, Event::BuyerErased(buyer));
            return Ok(Accepted::BuyerErased);
        }
        Command::AddOperator(operator) => {
            rows.operators().judge_add(&operator)?;
            record(rows, now, Event::OperatorAdded(operator));
            return Ok(Accepted::Operators);
        }
        Command::RevokeOperator(name) => {
            rows.operators().judge_revoke(&name)?;
            record(rows, now, Event::OperatorRevoked(name));
            return Ok(Accepted::Operators);
        }
        Command::Notice(notice) => {
            judge_notice(sales, notice)?;
            record(rows, now, Event::Noticed(notice));
            return Ok(Accepted::Noticed);
        }
        // The entry of who did it is all.
        Command::KeepAction(_, about) => {
            let fits = about.len() <= limits::PAYMENT_ID_BYTES_MAX;
            let too_long = Refusal::InvalidChange("what an action is about has 255 bytes at most");
            return if fits { Ok(Accepted::ActionKept) } else { Err(too_long.into()) };
        }
        Command::Place(_)
        | Command::Address { .. }
        | Command::Join { .. }
        | Command::ShowPresence { .. }
        | Command::Draw { .. }
        | Command::LimitPace { .. }
        | Command::SetLineMessage { .. }
        | Command::GiveTurnBack { .. } => {
            unreachable!("these have ways of their own")
        }
    };
    let event = judged?;
    if let Some(event) = &event {
        judge_orders(rows, event)?;
        judge_deletion(rows, event)?;
    }
    Ok(of_sale(rows, now, sale, event))
}

/// Whether a sale may come to what only one without orders may, or one whose lines are still open. Before its start it has none, unless the clock was set back
/// since.
pub(crate) fn judge_orders<R: Rows>(rows: &R, event: &Event) -> Result<(), Refusal> {
    let fixed_by_a_draw = match event {
        Event::SaleChanged { sale, change } if is_moved(rows, *sale, change.starts_at) => {
            Some((*sale, "the entries of a line of this sale are closed: its start stays as it is"))
        }
        Event::SaleDeleted(sale) => {
            let why =
                "the entries of a line of this sale are closed, and its draw stays listed: end the sale";
            Some((*sale, why))
        }
        _ => None,
    };
    if let Some((sale, why)) = fixed_by_a_draw {
        let mut skus = rows.registry().get(sale).into_iter().flat_map(Sale::skus);
        if skus.any(|sku| rows.line(sku).is_some_and(|line| line.draw() != DrawView::Open)) {
            return Err(Refusal::InvalidChange(why));
        }
    }
    let sale = rows.registry().needs_no_orders(event);
    let sold = sale.is_some_and(|sale| sale.skus().any(|sku| rows.sku(sku).orders > 0));
    if sold { Err(Refusal::SaleStarted) } else { Ok(()) }
}

/// Whether a sale would start at another time than it does.
fn is_moved<R: Rows>(rows: &R, sale: SaleId, starts_at: Option<UnixMs>) -> bool {
    let known = rows.registry().get(sale);
    starts_at.is_some_and(|at| known.is_none_or(|sale| sale.spec.starts_at != at))
}

/// Whether nobody has joined a line of a sale that is to be deleted. No rule of the ledger, which has deletions from before this rule.
fn judge_deletion<R: Rows>(rows: &R, event: &Event) -> Result<(), Refusal> {
    let Event::SaleDeleted(sale) = event else { return Ok(()) };
    let mut skus = rows.registry().get(*sale).into_iter().flat_map(Sale::skus);
    if skus.any(|sku| rows.line(sku).is_some_and(|line| line.joined() > 0)) {
        let why = "somebody has joined a line of this sale, and its draw stays listed: end the sale";
        return Err(Refusal::InvalidChange(why));
    }
    Ok(())
}

/// Whether there is what a notice is about.
pub(crate) fn judge_notice(sales: &Sales, notice: Notice) -> Result<(), Refusal> {
    match notice {
        Notice::SaleStarted(sale) | Notice::SaleEnded(sale) => {
            sales.get(sale).map(drop).ok_or(Refusal::UnknownSale)
        }
        Notice::SoldOut(sku) | Notice::BackInStock(sku) => {
            sales.terms(sku).map(drop).ok_or(Refusal::UnknownSku)
        }
    }
}

fn of_sale<R: Rows>(rows: &mut R, now: UnixMs, sale: SaleId, event: Option<Event>) -> Accepted {
    if let Some(event) = event {
        record(rows, now, event);
    }
    Accepted::Sale(sale)
}

fn adjust<R: Rows>(
    rows: &mut R,
    now: UnixMs,
    sku: SkuId,
    (how, units): (Adjust, u64),
    key: Box<str>,
    grant: Grant,
) -> Result<Accepted, Declined> {
    rows.registry().known_sku(sku)?;
    if let Some(done) = rows.adjusted(sku, &key) {
        super::adjust_again(done, (how, units))?;
        return Ok(Accepted::Stock(sku));
    }
    judge_adjust(rows, sku, (how, units), &key)?;
    if how == Adjust::Correct {
        match rows.grant(sku, grant) {
            Grant::NotAsked => {
                let claim = Claim::Correction { id: rows.correction_id(sku, &key), units };
                return Err(Declined::NeedsClaim(claim));
            }
            Grant::SoldOut | Grant::OverLimit => return Err(Refusal::CorrectionTooLarge(None).into()),
            Grant::Taken { .. } => {}
        }
    }
    record(rows, now, Event::StockAdjusted { sku, how, units, key });
    Ok(Accepted::Stock(sku))
}

/// Whether the total of a SKU may be moved so, under a key that was not used yet.
pub(crate) fn judge_adjust<R: Rows>(
    rows: &R,
    sku: SkuId,
    (how, units): (Adjust, u64),
    key: &str,
) -> Result<(), Refusal> {
    rows.registry().known_sku(sku)?;
    super::adjust((rows.sku(sku).stock, rows.spare(sku)), (how, units), key)
}
