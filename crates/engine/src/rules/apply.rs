//! Carrying out events: what each does to the rows of a state. Live commands and replayed ledgers come this way.
//!
//! Must not: judge. An event that comes here is right, and what is asserted is a bug, never input.

use super::rows::{Rows, SkuRow, UnitsMoved};
use crate::line::{Line, Reached};
use crate::order::Order;
use crate::{
    Adjust, BuyerId, Closing, Disposition, Entry, Event, Pay, Placement, Refunded, SaleId, SaleSpec, Seq,
    SkuId, Status, Stock, UnixMs,
};

/// Appends an event and carries it out.
pub(crate) fn record<R: Rows>(rows: &mut R, at: UnixMs, event: Event) {
    let entry = Entry { seq: rows.end().next, at, event };
    apply(rows, &entry);
    rows.journal().push(entry);
}

/// Carries out the next entry.
pub(crate) fn apply<R: Rows>(rows: &mut R, entry: &Entry) {
    let Entry { seq, at, ref event } = *entry;
    let end = rows.end();
    assert_eq!(seq, end.next, "entries come without gaps");
    (end.next, end.last_at) = (Seq(seq.0 + 1), at);
    match event {
        Event::SaleCreated(spec) => {
            rows.registry_mut().apply(entry);
            created(rows, spec);
        }
        Event::SaleChanged { sale, .. }
        | Event::SaleEnded(sale)
        | Event::SalePaused(sale)
        | Event::SaleResumed(sale) => change_sale(rows, *sale, entry),
        Event::SaleDeleted(_) => rows.registry_mut().apply(entry),
        Event::StockAdjusted { sku, how, units, key } => adjusted(rows, *sku, *how, *units, key),
        Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
            let (buyer, quantity, fingerprint) = (*buyer, *quantity, *fingerprint);
            placed(rows, (seq, at), &Placement { id: *id, buyer, quantity, fingerprint }, *unit_price);
        }
        Event::OrderClosed { order, how } => closed(rows, *order, at, *how),
        Event::PaymentRecorded { pay, disposition } => {
            let requested = disposition.requested();
            let is_settled = matches!(disposition, Disposition::Settled(_));
            assert!(requested.is_some() || !is_settled, "a payment is settled by an event of its own");
            rows.insert_payment(seq, at, pay, *disposition);
            if let Some(units) = requested {
                refunded(rows, pay, units);
            }
        }
        Event::PaymentMatched { payment } => end_refund(rows, *payment, |_| Disposition::Applied),
        Event::RefundSettled { payment } => end_refund(rows, *payment, Disposition::Settled),
        // No rule goes by an address, what a buyer is called, what was rejected, or what the shop was notified of.
        Event::OrderAddressed { .. }
        | Event::BuyerErased(_)
        | Event::OrderRejected { .. }
        | Event::Noticed(_) => {}
        Event::OperatorAdded(operator) => rows.operators().add(operator),
        Event::OperatorRevoked(name) => rows.operators().revoke(name),
        Event::Operated(_) => {}
        Event::LineJoined { sku, buyer } => line(rows, *sku).join(*buyer),
        Event::LineClosed { sku, closed } => line(rows, *sku).close(**closed),
        Event::LineDrawn { sku, spoken } => line(rows, *sku).place_by_draw(spoken.as_deref().copied()),
        Event::LineMoved { sku, to } => {
            let left = rows.sku_mut(*sku).stock.available();
            line(rows, *sku).move_to(at, *to, Reached { by: seq, left });
        }
        Event::PaceLimited { sku, per_s_max } => line(rows, *sku).limit_pace(*per_s_max),
        Event::LineMessageSet { sku, message } => line(rows, *sku).set_message(message.clone()),
        Event::TurnOpened { sku, turn } => {
            let units = line(rows, *sku).open_turn(at, *turn);
            rows.sku_mut(*sku).stock.set_aside(units.into());
            rows.add_turn(*sku, turn.buyer);
        }
        Event::TurnEnded { sku, place, how } => {
            let buyer = line(rows, *sku).buyer_at(*place);
            end_turn(rows, *sku, buyer, |line| line.let_go(*place, *how));
        }
        Event::ClockCorrected { from, to, .. } => rows.correct_clock(seq, (*from, *to)),
    }
}

fn created<R: Rows>(rows: &mut R, spec: &SaleSpec) {
    let skus = rows.registry().get(spec.id).expect("it was just created").skus();
    for (sku, item) in skus.zip(&spec.items) {
        rows.insert_sku(sku, SkuRow { stock: Stock::new(item.total), orders: 0 });
        if let Some(terms) = item.line {
            rows.insert_line(sku, (spec.id, item.product), terms);
        }
    }
}

fn line<R: Rows>(rows: &mut R, sku: SkuId) -> &mut Line {
    rows.line_mut(sku).expect("only an item that is sold to a line has events of one")
}

/// Its lines hear of it. A pause that was over by then ended when the sale did as it was before.
fn change_sale<R: Rows>(rows: &mut R, sale: SaleId, entry: &Entry) {
    let known = |rows: &R| {
        let sale = rows.registry().get(sale).expect("only sales that exist change");
        (sale.skus(), sale.lines_go_on_at(), sale.phase(entry.at))
    };
    let (skus, over_at, _) = known(rows);
    rows.registry_mut().apply(entry);
    let (at, (.., phase)) = (entry.at, known(rows));
    for sku in skus {
        if let Some(line) = rows.line_mut(sku) {
            line.end_pause(at, over_at);
            line.follow(at, phase);
        }
    }
}

/// The units are available again: to the next in the line, or to the order that uses the turn.
fn end_turn<R: Rows>(rows: &mut R, sku: SkuId, buyer: BuyerId, end: impl FnOnce(&mut Line) -> u32) {
    let units = end(line(rows, sku));
    rows.sku_mut(sku).stock.put_back(units.into());
    rows.take_turn(sku, buyer);
}

fn adjusted<R: Rows>(rows: &mut R, sku: SkuId, how: Adjust, units: u64, key: &str) {
    assert!(rows.sku_mut(sku).stock.adjust(how, units), "a correction was checked before");
    rows.insert_adjusted(sku, key, (how, units));
    rows.note_change(sku, UnitsMoved::Adjusted { how, units, key });
}

fn placed<R: Rows>(rows: &mut R, (seq, at): (Seq, UnixMs), placement: &Placement, unit_price: u64) {
    let Placement { id, buyer, quantity, fingerprint } = *placement;
    let sales = rows.registry();
    let terms = sales.terms(id.sku).expect("an order that was judged has a SKU");
    assert_eq!(unit_price, terms.price, "a SKU's price stays once it has an order");
    let payment = sales.of(terms).spec.payment;
    let (payment_ms, status) = (payment.hold_ms(), payment.placed_as());
    if terms.has_line {
        let place = line(rows, id.sku).turn_of(buyer).expect("only who was called orders from a line");
        end_turn(rows, id.sku, buyer, |line| line.end_turn(place));
    }
    let sku = rows.sku_mut(id.sku);
    sku.orders += 1;
    if status == Status::Held {
        sku.stock.hold(u64::from(quantity));
    } else {
        sku.stock.sell(u64::from(quantity));
    }
    if terms.limit.is_some() {
        rows.add_units(id.sku, buyer, quantity);
    }
    rows.insert_order(Order {
        hash: id.hash,
        seq,
        buyer,
        placed_at: at,
        closed_at: UnixMs(0),
        fingerprint,
        sku: id.sku,
        quantity,
        payment_ms,
        status,
        paid_late: false,
    });
}

fn closed<R: Rows>(rows: &mut R, seq: Seq, at: UnixMs, how: Closing) {
    let name = rows.find_at(seq).expect("only orders that exist are closed");
    let order = rows.order_row(name);
    rows.close_order(name, how, at);
    rows.sku_mut(order.sku).stock.close(how, u64::from(order.quantity));
    let terms = rows.registry().terms(order.sku).expect("an order has a SKU");
    if terms.limit.is_some() {
        match how {
            Closing::Paid | Closing::Refunded => {}
            Closing::Cancelled | Closing::Expired => rows.take_units(order.sku, order.buyer, order.quantity),
            Closing::PaidLate => rows.add_units(order.sku, order.buyer, order.quantity),
        }
    }
    rows.note_change(order.sku, UnitsMoved::Closed(order, how));
}

/// The buyer's units stay as they are: what was taken back was had, and a limit counts it.
fn refunded<R: Rows>(rows: &mut R, pay: &Pay, units: u32) {
    let order = rows.find(pay.order).expect("only orders that exist are refunded");
    rows.add_refunded(order, Refunded { amount: pay.amount, units });
    if units > 0 {
        let sku = pay.order.sku;
        rows.sku_mut(sku).stock.take_back(u64::from(units));
        rows.note_change(sku, UnitsMoved::TakenBack { units });
    }
}

fn end_refund<R: Rows>(rows: &mut R, seq: Seq, to: impl Fn(crate::RefundReason) -> Disposition) {
    let payment = rows.find_payment_at(seq).expect("only payments that exist are changed");
    let Disposition::RefundDue(reason) = rows.payment(payment).disposition else {
        unreachable!("only a refund that is due ends")
    };
    rows.end_refund(payment, to(reason));
}
