//! Placing an order, the same for all three routes that can: admission, the hand-over to the profile, and the
//! counting of what became of it. received = accepted + replayed + refused + rejected + unavailable + unknown +
//! in flight.
//!
//! Must not: know how any route's answer looks.

pub(super) mod order_id;
pub(super) mod order_number;

use std::net::IpAddr;
use std::time::Duration;

use engine::{
    Accepted, BuyerId, Fingerprint, OrderId, OrderView, Placement, ProductId, Refusal, SaleId, SkuId, UnixMs,
};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::pending::{Pending, Waiting};
use crate::http::placing::order_id::{KEY_BYTES_MAX, Named};
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::intake::admission::{BuyerBounds, NotAdmitted};
use crate::intake::attempts::{Attempt, Came};
use crate::intake::{Judged, NewOrder, Reply, Request, RequestOutcome};
use crate::ledger::Buyer;
use crate::net::Answer;
use crate::time::Instant;

/// An order that was admitted as far as the event loop can judge, and has a name.
#[derive(Debug)]
pub(in crate::http) struct Admitted {
    sku: SkuId,
    id: OrderId,
    asks: Asks,
    judged: Judged,
    received: Instant,
}

/// Who asks for an order, and from where.
#[derive(Clone, Debug)]
pub(in crate::http) struct Asks {
    pub(in crate::http) buyer: Buyer,
    pub(in crate::http) client: IpAddr,
}

/// An order that was accepted, now or at an earlier request with the same key.
#[derive(Debug)]
pub(in crate::http) struct Placed {
    pub(in crate::http) order: OrderView,
    /// Otherwise the broker has it, and the ledger will.
    pub(in crate::http) in_ledger: bool,
    pub(in crate::http) replayed: bool,
}

impl Placed {
    pub(in crate::http) fn of(reply: Reply) -> Result<Placed, Problem> {
        match reply {
            Reply::Accepted(Accepted::Order { order, replayed }) => {
                Ok(Placed { order, in_ledger: true, replayed })
            }
            Reply::Pending { order, replayed } => Ok(Placed { order, in_ledger: false, replayed }),
            reply => Err(reply.into()),
        }
    }
}

/// What an order comes to that was only looked for, because its price has changed.
pub(in crate::http) fn found(reply: Reply, unit_price: u64) -> Reply {
    match reply {
        Reply::Order(order) => Reply::Accepted(Accepted::Order { order, replayed: true }),
        Reply::Pending { order, .. } => Reply::Pending { order, replayed: true },
        Reply::Refused(_) | Reply::Lost(_) => Reply::Refused(Refusal::PriceChanged { unit_price }),
        reply => reply,
    }
}

/// The idempotency key, if there is one.
pub(in crate::http) fn key_of<'a>(call: &Call<'a>) -> Result<Option<&'a str>, Problem> {
    call.fields.idempotency_key.map(as_key).transpose()
}

pub(in crate::http) fn as_key(text: &str) -> Result<&str, Problem> {
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !visible || text.is_empty() || text.len() > KEY_BYTES_MAX {
        return Err(Problem::invalid("Idempotency-Key must have 1 to 64 visible ASCII characters."));
    }
    Ok(text)
}

impl HttpService {
    /// The first step: finds the SKU, and judges a request without a key on committed state. One with a key
    /// may be known, so the profile judges it.
    pub(in crate::http) fn admit(
        &mut self,
        call: &Call<'_>,
        buyer: Buyer,
        (sale, product): (SaleId, ProductId),
        key: Option<&str>,
    ) -> Result<Admitted, Problem> {
        self.admit_within(call, (buyer, BuyerBounds::Kept), (sale, product), key)
    }

    /// As [`HttpService::admit`], on a published route: one buyer may ask without end where that is configured.
    pub(in crate::http) fn admit_published(
        &mut self,
        call: &Call<'_>,
        buyer: Buyer,
        named: (SaleId, ProductId),
        key: Option<&str>,
    ) -> Result<Admitted, Problem> {
        let unlimited = self.shared.options.published_unlimited;
        let bounds = if unlimited { BuyerBounds::Lifted } else { BuyerBounds::Kept };
        self.admit_within(call, (buyer, bounds), named, key)
    }

    fn admit_within(
        &mut self,
        call: &Call<'_>,
        (buyer, bounds): (Buyer, BuyerBounds),
        named: (SaleId, ProductId),
        key: Option<&str>,
    ) -> Result<Admitted, Problem> {
        self.shared.metrics.orders_received.inc();
        let sku = match self.find_sku(named) {
            Ok(sku) => sku,
            Err(refusal) => {
                self.count_refusal(refusal);
                return Err(refusal.into());
            }
        };
        let asks = Asks { client: call.client(&self.shared.options.trusted_proxies), buyer };
        match self.judge(call, (asks.buyer.id, bounds), (sku, named), key) {
            Ok((id, judged)) => Ok(Admitted { sku, id, asks, judged, received: call.received }),
            Err(why) => Err(self.not_admitted(call, (sku, asks), why)),
        }
    }

    fn not_admitted(&mut self, call: &Call<'_>, (sku, asks): (SkuId, Asks), why: NotAdmitted) -> Problem {
        self.count_not_admitted(sku, why);
        self.count_attempt(sku, asks, came_of(why), call.now);
        why.into()
    }

    fn judge(
        &mut self,
        call: &Call<'_>,
        (asks, bounds): (BuyerId, BuyerBounds),
        (sku, (sale, product)): (SkuId, (SaleId, ProductId)),
        key: Option<&str>,
    ) -> Result<(OrderId, Judged), NotAdmitted> {
        let admission = &self.shared.admission;
        Ok(match key {
            Some(key) => {
                let over = admission.enter(asks, bounds);
                let id = self.ids.keyed(&Named { sku, sale, product, buyer: asks, key });
                (id, Judged::ByTheProfile { over, bounds })
            }
            // Whoever was called is not asked to come again, which the profile knows.
            None if self.catalog.item(sku).is_some_and(|(_, item)| item.line.is_some()) => {
                let over = admission.enter(asks, bounds);
                (self.ids.random(sku), Judged::ByTheProfile { over, bounds })
            }
            None => {
                let permit = admission.admit(&self.catalog, (asks, sku), bounds, call.now)?;
                if let Some(over) = admission.enter(asks, bounds) {
                    admission.leave(asks);
                    admission.take_back(permit);
                    return Err(over.into());
                }
                (self.ids.random(sku), Judged::ByTheLoop(permit))
            }
        })
    }

    fn find_sku(&self, (sale, product): (SaleId, ProductId)) -> Result<SkuId, Refusal> {
        self.catalog.sku_id(sale, product).ok_or_else(|| {
            if self.catalog.sale(sale).is_none() { Refusal::UnknownSale } else { Refusal::UnknownSku }
        })
    }

    /// The item, and what a unit of it costs now, if that is not what its buyer was shown.
    pub(in crate::http) fn other_price(
        &self,
        (sale, product): (SaleId, ProductId),
        shown: Option<u64>,
    ) -> Option<(SkuId, u64)> {
        let shown = shown?;
        let sku = self.catalog.sku_id(sale, product)?;
        let (_, item) = self.catalog.item(sku)?;
        (shown != item.price).then_some((sku, item.price))
    }

    /// In the place of both steps, of an order whose price has changed: it is the one that its key has placed before, or refused.
    pub(in crate::http) fn find_placed(
        &mut self,
        call: &Call<'_>,
        buyer: Buyer,
        ((sale, product), key): ((SaleId, ProductId), Option<&str>),
        (sku, unit_price): (SkuId, u64),
        show: impl FnOnce(&mut HttpService, Placed, &mut Answering<'_, '_>) -> Result<(), Problem>
        + Send
        + 'static,
    ) -> Result<Answer, Problem> {
        self.shared.metrics.orders_received.inc();
        let (id, asks) =
            (buyer.id, Asks { client: call.client(&self.shared.options.trusted_proxies), buyer });
        let Some(key) = key else {
            let changed = NotAdmitted::Refused(Refusal::PriceChanged { unit_price });
            return Err(self.not_admitted(call, (sku, asks), changed));
        };
        if let Err(limited) = self.shared.admission.admit_buyer(id) {
            return Err(self.not_admitted(call, (sku, asks), limited));
        }
        // The bound is of what may take units.
        let _over = self.shared.admission.enter(id, BuyerBounds::Kept);
        if !self.client.reserve() {
            return Err(self.turn_away(call, (sku, asks)));
        }
        let order = self.ids.keyed(&Named { sku, sale, product, buyer: id, key });
        let read = Request::Read { order, buyer: Some(id), wait: Duration::ZERO, with_address: false };
        let (received, unit_price) = (call.received, Some(unit_price));
        let waiting = Waiting::Placing { sku, asks, received, unit_price, show: Box::new(show) };
        self.hand_over(call.ticket, read, Pending::new(call, waiting));
        Ok(Answer::Later)
    }

    /// An order that was counted as in flight, and that the mailbox has no room for.
    fn turn_away(&mut self, call: &Call<'_>, (sku, asks): (SkuId, Asks)) -> Problem {
        self.shared.admission.leave(asks.buyer.id);
        self.not_admitted(call, (sku, asks), NotAdmitted::Busy)
    }

    /// The second step: to the profile with it. `show` writes the answer of the route.
    pub(in crate::http) fn place(
        &mut self,
        call: &Call<'_>,
        admitted: Admitted,
        quantity: u32,
        (address, fingerprint): (Option<Box<[u8]>>, Fingerprint),
        show: impl FnOnce(&mut HttpService, Placed, &mut Answering<'_, '_>) -> Result<(), Problem>
        + Send
        + 'static,
    ) -> Result<Answer, Problem> {
        let Admitted { sku, id, asks, judged, received } = admitted;
        let Buyer { id: buyer, text: buyer_text } = asks.buyer.clone();
        // A place in the mailbox first: a full one must not keep the permit, which is of the rate that all share.
        if !self.client.reserve() {
            if let Judged::ByTheLoop(permit) = judged {
                self.shared.admission.take_back(permit);
            }
            return Err(self.turn_away(call, (sku, asks)));
        }
        let placement = Placement { id, buyer, quantity, fingerprint };
        let order = NewOrder { placement, buyer_text, address, admission: judged, asked_at: received };
        let waiting = Waiting::Placing { sku, asks, received, unit_price: None, show: Box::new(show) };
        self.hand_over(call.ticket, Request::Place(order), Pending::new(call, waiting));
        Ok(Answer::Later)
    }

    fn count(&self, sku: SkuId, outcome: RequestOutcome) {
        if let Some(sku) = self.catalog.sku(sku) {
            sku.counters.outcomes.count(outcome);
        }
    }

    fn count_attempt(&mut self, sku: SkuId, asks: Asks, came: Came, now: UnixMs) {
        let Some((sale, _)) = self.catalog.item(sku).filter(|(sale, _)| sale.ended_at.is_none()) else {
            return;
        };
        let (sale, ends_at) = (sale.spec.id, sale.spec.ends_at);
        let Asks { buyer: Buyer { id: buyer, text: name }, client } = asks;
        self.attempts.count(Attempt { sale, ends_at, sku, buyer, name, client, came, now });
    }

    fn count_refusal(&mut self, refusal: Refusal) {
        let metrics = &self.shared.metrics;
        metrics.orders_refused.inc();
        self.tally.refused(metrics, refusal);
    }

    fn count_not_admitted(&mut self, sku: SkuId, why: NotAdmitted) {
        match why {
            NotAdmitted::Refused(refusal) => {
                self.count_refusal(refusal);
                if let Some(sku) = self.catalog.sku(sku) {
                    sku.counters.outcomes.count_refused(refusal);
                }
            }
            NotAdmitted::RateLimited { .. }
            | NotAdmitted::BuyerRateLimited { .. }
            | NotAdmitted::Busy
            | NotAdmitted::BuyerBusy => {
                self.shared.metrics.orders_rejected.inc();
                self.count(sku, RequestOutcome::Busy);
            }
        }
    }

    /// Counts an order out, by what the profile said.
    pub(in crate::http) fn count_placed(
        &mut self,
        sku: SkuId,
        asks: Asks,
        reply: &Reply,
        (took, now): (Duration, UnixMs),
    ) {
        self.shared.admission.leave(asks.buyer.id);
        let metrics = &self.shared.metrics;
        metrics.order_seconds.observe(took);
        self.catalog.took(sku, took);
        let came = match reply {
            Reply::Accepted(Accepted::Order { replayed: false, .. })
            | Reply::Pending { replayed: false, .. } => {
                metrics.orders_accepted.inc();
                self.count(sku, RequestOutcome::Accepted);
                Came::Accepted
            }
            Reply::Accepted(_) | Reply::Pending { .. } | Reply::Lost(_) => {
                metrics.orders_replayed.inc();
                self.count(sku, RequestOutcome::Replayed);
                Came::Replayed
            }
            Reply::Refused(refusal) => {
                self.count_not_admitted(sku, NotAdmitted::Refused(*refusal));
                Came::of(*refusal)
            }
            Reply::NotAdmitted(why) => {
                self.count_not_admitted(sku, *why);
                came_of(*why)
            }
            Reply::Unavailable | Reply::ClockUnconfirmed => {
                metrics.orders_unavailable.inc();
                self.count(sku, RequestOutcome::Busy);
                Came::Busy
            }
            _ => {
                metrics.orders_unknown.inc();
                self.count(sku, RequestOutcome::Unknown);
                Came::Unknown
            }
        };
        self.count_attempt(sku, asks, came, now);
    }
}

fn came_of(why: NotAdmitted) -> Came {
    match why {
        NotAdmitted::Refused(refusal) => Came::of(refusal),
        NotAdmitted::RateLimited { .. }
        | NotAdmitted::BuyerRateLimited { .. }
        | NotAdmitted::Busy
        | NotAdmitted::BuyerBusy => Came::Busy,
    }
}
