//! The receipt of a place in a line: what became of it and what it met, signed, for whoever wants to show it later.

use engine::{BuyerId, DrawView, Phase, PlaceView, ReceiptView, SkuId, Standing};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::route::{Handler, Route};
use crate::http::routes::line::{blocked_by, hex_or_null, outcome, push_hex_text};
use crate::http::wire::Object;
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::intake::catalog::{Catalog, Sale};
use crate::intake::{Reply, Request};
use crate::ledger::identity_of;
use crate::line_ticket::RECEIPT;
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[Route::post(
    "/api/v1/sales/{sale}/items/{product}/line/receipt",
    Handler::Anybody(HttpService::show_receipt),
)];

impl HttpService {
    /// By the ticket alone, or for whoever is signed in.
    fn show_receipt(&mut self, call: &Call<'_>, _: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let (sku, buyer) = self.who_stands_in_line(call)?;
        self.give_receipt(call, sku, buyer)
    }

    pub(in crate::http) fn give_receipt(
        &mut self,
        call: &Call<'_>,
        sku: SkuId,
        buyer: BuyerId,
    ) -> Result<Answer, Problem> {
        if self.shared.signing_key.is_none() {
            return Err(Problem::unavailable(
                "This server has no key to sign with (ledger.signing_key_file).",
            ));
        }
        self.ask_of_line(call, buyer, Request::Receipt { sku, buyer }, move |service, reply, out| {
            let Reply::Receipt(receipt) = reply else { return Err(reply.into()) };
            let now_ms = service.shared.clock.now().0;
            service.scratch.clear();
            let ledger = identity_of(&service.shared.order_id_secret);
            write_receipt(&mut service.scratch, (&service.catalog, sku), &ledger, &receipt, now_ms);
            let content = std::str::from_utf8(&service.scratch).expect("JSON is text");
            let key = service.shared.signing_key.as_ref().expect("it was there just now");
            let document = key.document(RECEIPT, content);
            let headers = [
                ("Cache-Control", "no-store"),
                ("Content-Disposition", "attachment; filename=\"receipt.json\""),
            ];
            out.json_with(200, &headers, document.as_bytes());
            Ok(())
        })
    }
}

/// The format is read by `doorbuster receipt verify`, of any release since.
fn write_receipt(
    out: &mut Vec<u8>,
    (catalog, sku): (&Catalog, SkuId),
    ledger: &[u8; 32],
    receipt: &ReceiptView,
    now_ms: u64,
) {
    let ReceiptView { buyer, place, reached, entry, line } = receipt;
    let (sale, item) = catalog.item(sku).expect("a SKU has a sale");
    let phase = sale.phase(engine::UnixMs(now_ms));
    let closed = line.draw.closed();
    let seed = match &line.draw {
        DrawView::Drawn { seed, .. } => Some(&seed[..]),
        DrawView::Open | DrawView::Closed(_) => None,
    };
    let mut object = Object::begin(out);
    object.number("format", 1);
    hex_or_null(&mut object, "ledger", Some(ledger));
    object.number("sale", sale.spec.id.0).number("product", item.product.0);
    object.text("title", &item.title).text("buyer", &buyer.to_string());
    object.number("number", place.number.into()).number_or_null("place", place.place.map(u64::from));
    object.text("outcome", what_became_of(*place, sale, phase, line.borders.sure_to));
    object.text_or_null("blocked_by", blocked_by(place));
    object.number_or_null("reached_by_entry", reached.map(|reached| reached.by.0));
    object.number_or_null("left_when_reached", reached.map(|reached| reached.left));
    object.text("state", phase.as_str());
    object.number("served", line.borders.reached.into()).number("sure_to", line.borders.sure_to.into());
    object.number("free", line.stock.available()).number("turns", line.stock.turns());
    object.number("held", line.stock.held()).number("sold", line.stock.sold());
    object.number_or_null("entries", closed.map(|closed| closed.entries.into()));
    hex_or_null(&mut object, "root", closed.as_ref().map(|closed| &closed.root[..]));
    hex_or_null(&mut object, "seed", seed);
    hex_or_null(&mut object, "leaf", entry.as_ref().map(|entry| &entry.leaf[..]));
    match entry {
        None => object.raw("path", b"null"),
        Some(entry) => object.list("path", &entry.path, |out, beside| push_hex_text(out, beside)),
    };
    object.number("entry", line.version.0).number("made_at_ms", now_ms).end();
}

/// Whoever is sure is reached still, after the end too, unless the sale was called off.
fn what_became_of(place: PlaceView, sale: &Sale, phase: Phase, sure_to: u32) -> &'static str {
    let is_sure = place.place.is_some_and(|place| place <= sure_to);
    match place.standing {
        Standing::Waiting if sale.is_called_off() => "called_off",
        Standing::Waiting if phase == Phase::Ended && !is_sure => "not_reached",
        Standing::Waiting => "waiting",
        Standing::Grace => "reached",
        Standing::Away => "away",
        Standing::Called { .. } => "called",
        standing @ (Standing::Ordered | Standing::LetGo(_)) => outcome(standing).expect("its turn is over"),
    }
}
