//! Placing an order, cancelling it, and letting it expire: the sequence of judging, for any state.

use super::apply::record;
use super::rows::Rows;
use super::{OpenHolds, Placing};
use crate::sales::Terms;
use crate::{
    Accepted, BuyerId, Closing, Event, KeptAddress, OrderId, OrderView, Placement, Refusal, Seq, UnixMs,
};

/// Places an order, or answers again what was answered under this id: the order as it was placed.
///
/// The id comes before everything else: only a request whose id is unknown can be refused. `before` is asked then: it
/// judges what some states leave to the gate before them (window, pause), and counts the open holds.
pub(crate) fn place<R: Rows>(
    rows: &mut R,
    now: UnixMs,
    asked: &Placement,
    before: impl FnOnce(&R) -> Result<Option<OpenHolds>, Refusal>,
) -> Result<(OrderView, bool), Refusal> {
    if let Some(answer) = lookup(rows, asked) {
        return answer.map(|order| (order, true));
    }
    let open_holds = before(rows)?;
    let terms = judge(rows, asked, open_holds)?;
    let Placement { id, buyer, quantity, fingerprint } = *asked;
    record(rows, now, Event::OrderPlaced { id, buyer, quantity, unit_price: terms.price, fingerprint });
    let order = rows.find(id).expect("the order was just placed");
    super::pay::match_early(rows, now, order);
    Ok((rows.order_view(order).as_placed(), false))
}

/// What was answered under this id, if it is known: the order, or a conflict with another request.
pub(crate) fn lookup<R: Rows>(rows: &R, asked: &Placement) -> Option<Result<OrderView, Refusal>> {
    let name = rows.find(asked.id)?;
    let order = rows.order_row(name);
    let known = (order.fingerprint, order.buyer, order.quantity);
    Some(super::repeat(known, asked).map(|()| rows.order_view(name).as_placed()))
}

/// Whether units may be taken for an order under an id that is unknown yet.
pub(crate) fn judge<R: Rows>(
    rows: &R,
    asked: &Placement,
    open_holds: Option<OpenHolds>,
) -> Result<Terms, Refusal> {
    let sku = asked.id.sku;
    let terms = rows.registry().terms(sku).ok_or(Refusal::UnknownSku)?;
    super::place(&Placing {
        quantity: asked.quantity,
        limit: terms.limit,
        units: units_of(rows, sku, terms, asked.buyer),
        open_holds,
        available: rows.available_to(sku, asked.buyer),
    })?;
    Ok(terms)
}

/// What the buyer holds and owns, if there is a limit to it.
pub(super) fn units_of<R: Rows>(rows: &R, sku: crate::SkuId, terms: Terms, buyer: BuyerId) -> u32 {
    if terms.limit.is_some() { rows.units_of(sku, buyer) } else { 0 }
}

/// Cancels a buyer's own unpaid order. Cancelling it again is answered as the first time.
pub(super) fn cancel<R: Rows>(
    rows: &mut R,
    now: UnixMs,
    id: OrderId,
    buyer: Option<BuyerId>,
) -> Result<Accepted, Refusal> {
    let name = rows.find(id).ok_or(Refusal::UnknownOrder)?;
    let order = rows.order_row(name);
    if buyer.is_some_and(|buyer| buyer != order.placement().buyer) {
        return Err(Refusal::UnknownOrder);
    }
    let cancels = super::cancel(order.status)?;
    if cancels {
        record(rows, now, Event::OrderClosed { order: order.seq, how: Closing::Cancelled });
    }
    Ok(Accepted::Order { order: rows.order_view(name), replayed: !cancels })
}

/// Gives a buyer's own order an address, if it has none; returns the entry with which it is to be kept, unless it was given
/// before.
pub(crate) fn give_address<R: Rows>(
    rows: &mut R,
    now: UnixMs,
    (id, buyer): (OrderId, BuyerId),
    asked: &[u8],
    kept: &KeptAddress,
) -> Result<(OrderView, Option<Seq>), Refusal> {
    let name = rows.find(id).ok_or(Refusal::UnknownOrder)?;
    let order = rows.order_view(name);
    if order.buyer != buyer {
        return Err(Refusal::UnknownOrder);
    }
    let entry = if super::give_address(order.status, kept, asked)? {
        let entry = rows.end().next;
        record(rows, now, Event::OrderAddressed { order: order.seq });
        Some(entry)
    } else {
        None
    };
    Ok((order, entry))
}

/// Lets an order expire if it is held and its time is over; says whether.
pub(crate) fn expire<R: Rows>(rows: &mut R, now: UnixMs, name: R::Order) -> bool {
    let order = rows.order_row(name);
    let expires = super::expires(order.status, order.pay_by(rows.shift_ms_since(order.seq)), now);
    if expires {
        record(rows, now, Event::OrderClosed { order: order.seq, how: Closing::Expired });
    }
    expires
}
