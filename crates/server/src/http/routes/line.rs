//! The line of an item: joining it, showing to be there, giving a turn back; and the board that everybody who waits reads.

use engine::{Accepted, BuyerId, Command, LineView, PlaceView, Refusal, SkuId, Standing};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::route::{Handler, Route};
use crate::http::wire::Object;
use crate::http::wire::answer::{Answering, JSON};
use crate::http::wire::error::Problem;
use crate::intake::{Reply, Request};
use crate::ledger::Buyer;
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/api/v1/sales/{sale}/items/{product}/line", Handler::Anybody(HttpService::show_board)),
    Route::post("/api/v1/sales/{sale}/items/{product}/line", Handler::Buyer(HttpService::join_line)),
    Route::post(
        "/api/v1/sales/{sale}/items/{product}/line/presence",
        Handler::Buyer(HttpService::show_presence),
    ),
    Route::post(
        "/api/v1/sales/{sale}/items/{product}/line/leave",
        Handler::Buyer(HttpService::give_turn_back),
    ),
];

/// A board is the same for all, and may be this old.
const BOARD_FOR: (&str, &str) = ("Cache-Control", "public, max-age=1");

impl HttpService {
    fn show_board(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let sku = self.sku_of(call)?;
        let entry = &self.catalog.skus[sku.0 as usize];
        let board = entry.board.as_ref().ok_or(Refusal::NoLine)?;
        let line = board.read().ok_or_else(|| Problem::unavailable("The line is not known yet."))?;
        let (sale, _) = self.catalog.item(sku).expect("a SKU has a sale");
        let state = sale.phase(call.now).as_str();
        self.scratch.clear();
        write_board(&mut self.scratch, &line, state, call.now.0);
        out.cached(&[BOARD_FOR], JSON, &self.scratch);
        Ok(Answer::Ready)
    }

    fn join_line(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        self.ask_line(call, buyer, |sku, buyer| Command::Join { sku, buyer })
    }

    fn show_presence(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        self.ask_line(call, buyer, |sku, buyer| Command::ShowPresence { sku, buyer })
    }

    fn give_turn_back(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        self.ask_line(call, buyer, |sku, buyer| Command::GiveTurnBack { sku, buyer })
    }

    fn ask_line(
        &mut self,
        call: &Call<'_>,
        buyer: Buyer,
        command: impl FnOnce(SkuId, BuyerId) -> Command,
    ) -> Result<Answer, Problem> {
        let command = command(self.sku_of(call)?, buyer.id);
        self.ask(call, Request::Execute(command), |service, reply, out| service.show_place(reply, out))
    }

    fn sku_of(&self, call: &Call<'_>) -> Result<SkuId, Problem> {
        let (sale, product) = (call.params.sale, call.params.product);
        Ok(self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?)
    }

    fn show_place(&mut self, reply: Reply, out: &mut Answering<'_, '_>) -> Result<(), Problem> {
        let Reply::Accepted(Accepted::Place { place, replayed, .. }) = reply else {
            return Err(reply.into());
        };
        self.scratch.clear();
        write_place(&mut self.scratch, place, self.shared.clock.now().0);
        out.json(if replayed { 200 } else { 201 }, &self.scratch);
        Ok(())
    }
}

/// At most 300 bytes.
fn write_board(out: &mut Vec<u8>, line: &LineView, state: &str, now_ms: u64) {
    let LineView { borders, joined, stock, .. } = line;
    Object::begin(out)
        .text("state", state)
        .number("served", borders.reached.into())
        .number("sure_to", borders.sure_to.into())
        .number("joined", (*joined).into())
        .number("free", stock.available())
        .number("turns", stock.turns())
        .number("held", stock.held())
        .number("sold", stock.sold())
        .number("now_ms", now_ms)
        .end();
}

fn write_place(out: &mut Vec<u8>, PlaceView { place, standing }: PlaceView, now_ms: u64) {
    let (word, until) = match standing {
        Standing::Waiting => ("waiting", None),
        Standing::Grace => ("reached", None),
        Standing::Away => ("away", None),
        Standing::Called { until } => ("called", Some(until.0)),
        Standing::Over => ("over", None),
    };
    Object::begin(out)
        .number("place", place.into())
        .text("standing", word)
        .number_or_null("turn_until_ms", until)
        .number("now_ms", now_ms)
        .end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Borders, LineTerms, Stock};

    #[test]
    fn the_longest_board_has_at_most_300_bytes() {
        let most = 1_000_000_000_000;
        let line = LineView {
            terms: LineTerms { units: 1, turn_ms: 1, grace_ms: 1 },
            borders: Borders { away_to: u32::MAX, reached: u32::MAX, sure_to: u32::MAX },
            joined: u32::MAX,
            promised: most,
            stock: Stock::new(most),
        };
        let mut out = Vec::new();
        write_board(&mut out, &line, "not_started", u64::MAX);
        assert!(out.len() + 3 * 12 <= 300, "{} bytes", out.len());
    }
}
