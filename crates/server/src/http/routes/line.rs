//! The line of an item: joining it, showing to be there, giving a turn back; the board that everybody who waits reads, and the
//! draw of its places.

use std::borrow::Cow;
use std::sync::Arc;

use engine::draw::{LedgerSecret, LineSecrets, randomness};
use engine::{
    Accepted, BuyerId, Command, DrawView, ItemSpec, LineTerms, LineView, Phase, PlaceView, Refusal, SkuId,
    Standing, TurnEnd, UnixMs,
};
use serde::Deserialize;

use crate::hex::push_hex;
use crate::http::call::Call;
use crate::http::pending::{Next, Show, Waiting};
use crate::http::reads::ShowRead;
use crate::http::route::{Handler, Route};
use crate::http::wire::Object;
use crate::http::wire::answer::{Answering, JSON};
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::{HttpService, Shared};
use crate::intake::board::Board;
use crate::intake::{Reply, Request};
use crate::ledger::{Buyer, Statements};
use crate::line_ticket::LineTicket;
use crate::net::Answer;
use crate::signing::SigningKey;
use crate::verifier::{Candidate, Given, Question, RequiredProof, TokenOutcome, Verification};

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/api/v1/sales/{sale}/items/{product}/line", Handler::Anybody(HttpService::show_board)),
    Route::post("/api/v1/sales/{sale}/items/{product}/line", Handler::Buyer(HttpService::join_line)),
    Route::get(
        "/api/v1/sales/{sale}/items/{product}/line/message",
        Handler::Anybody(HttpService::show_message),
    ),
    Route::get("/api/v1/sales/{sale}/items/{product}/line/draw", Handler::Anybody(HttpService::show_draw)),
    Route::post(
        "/api/v1/sales/{sale}/items/{product}/line/presence",
        Handler::Anybody(HttpService::show_presence),
    ),
    Route::post(
        "/api/v1/sales/{sale}/items/{product}/line/leave",
        Handler::Buyer(HttpService::give_turn_back),
    ),
];

/// Boards and draws are the same for all, and may be this old.
const FOR_A_SECOND: (&str, &str) = ("Cache-Control", "public, max-age=1");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShownTicket {
    ticket: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verified<'a> {
    #[serde(borrow)]
    verification: Option<Cow<'a, str>>,
}

/// Signatures of what became of a draw.
#[derive(Debug)]
pub(in crate::http) struct SignedDraw {
    close: Box<str>,
    drawn: Option<Box<str>>,
}

/// Who would join the line of which item, with what they gave for it, and under which text, as of an order.
pub(in crate::http) struct Joining<'a> {
    pub(in crate::http) sku: SkuId,
    pub(in crate::http) buyer: Buyer,
    pub(in crate::http) given: Given<'a>,
}

/// What is asked of the line for somebody who may not join: the place that they have already.
fn ask_for_own_place(sku: SkuId, buyer: Buyer, problem: Problem, show: Show) -> (Request, Show) {
    let request = Request::Execute(Command::ShowPresence { sku, buyer: buyer.id });
    (request, show_or_refuse(problem, show))
}

/// The same for somebody who may join once they have given what is asked first.
fn ask_for_place(sku: SkuId, buyer: Buyer, given: Result<(), Problem>, show: Show) -> (Request, Show) {
    let verified = given.is_ok();
    let request = Request::Join { sku, buyer: buyer.id, buyer_text: buyer.text, verified };
    let show = match given {
        Ok(()) => show,
        Err(problem) => show_or_refuse(problem, show),
    };
    (request, show)
}

fn show_or_refuse(problem: Problem, show: Show) -> Show {
    Box::new(move |service, reply, out| match reply {
        Reply::Refused(Refusal::NotInLine) => Err(problem),
        reply => show(service, reply, out),
    })
}

impl From<RequiredProof> for Problem {
    fn from(proof: RequiredProof) -> Problem {
        match proof {
            RequiredProof::Challenge(challenge) => Problem::verification_required(challenge),
            RequiredProof::Token => Problem::verification_token_required(),
        }
    }
}

/// Whether somebody may join, by what a service said of them.
fn may_join(outcome: TokenOutcome) -> Result<(), Problem> {
    match outcome {
        TokenOutcome::Passed => Ok(()),
        TokenOutcome::Refused => Err(RequiredProof::Token.into()),
        TokenOutcome::Unreachable => {
            let detail =
                "What the check gave can't be looked at right now. Nothing is lost; try again in a moment.";
            Err(Problem::unavailable(detail))
        }
        TokenOutcome::Busy => Err(Problem::busy()),
    }
}

impl HttpService {
    fn show_board(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let (sku, board, mut line) = self.line_of(call)?;
        let (sale, _) = self.catalog.item(sku).expect("a SKU has a sale");
        if sale.is_called_off() {
            line.borders.sure_to = line.borders.reached;
        }
        let (state, pace) = (sale.phase(call.now).as_str(), board.pace(call.now));
        self.scratch.clear();
        write_board(&mut self.scratch, &line, (state, pace), call.now.0);
        out.cached(&[FOR_A_SECOND], JSON, &self.scratch);
        Ok(Answer::Ready)
    }

    fn show_message(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let (_, board, _) = self.line_of(call)?;
        let (changes, message) = board.message().expect("the line was just read");
        self.scratch.clear();
        Object::begin(&mut self.scratch).number("told", changes.into()).text("message", &message).end();
        out.cached(&[FOR_A_SECOND], JSON, &self.scratch);
        Ok(Answer::Ready)
    }

    fn show_draw(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let (sku, _, line) = self.line_of(call)?;
        let (sale, _) = self.catalog.item(sku).expect("a SKU has a sale");
        let starts_at = sale.spec.starts_at;
        let is_over = sale.phase(call.now) == Phase::Ended;
        self.sign_draw(call, sku, &line);
        let signed = self.shared.signing_key.as_ref().zip(self.signed_draws.get(&sku));
        self.scratch.clear();
        write_draw(&mut self.scratch, &line, (starts_at, is_over), signed);
        out.cached(&[FOR_A_SECOND], JSON, &self.scratch);
        Ok(Answer::Ready)
    }

    /// Each once for each line: what was closed stays, and what was drawn.
    fn sign_draw(&mut self, call: &Call<'_>, sku: SkuId, line: &LineView) {
        let Some((key, closed)) = self.shared.signing_key.as_ref().zip(line.draw.closed()) else { return };
        let (sale, product) = (call.params.sale, call.params.product);
        let (commitment, beacon) = (&line.commitment, line.terms.beacon.as_ref());
        let statements = Statements { sale, product, commitment, closed: &closed, beacon };
        let signed = self.signed_draws.entry(sku).or_insert_with(|| SignedDraw {
            close: key.sign(statements.close().as_bytes()).into(),
            drawn: None,
        });
        if let DrawView::Drawn { spoken, seed, .. } = &line.draw {
            let drawn = || key.sign(statements.drawn(spoken.as_ref(), seed).as_bytes()).into();
            signed.drawn.get_or_insert_with(drawn);
        }
    }

    fn join_line(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let sku = self.sku_of(call)?;
        let given = match call.request.body.is_empty() {
            true => None,
            false => read_object::<Verified<'_>>(call)?.verification,
        };
        let buyer_id = buyer.id;
        let joining = Joining { sku, buyer, given: Given::Answer(given.as_deref()) };
        self.join(call, joining, move |service, reply, out| {
            let is_new = matches!(reply, Reply::Accepted(Accepted::InLine { replayed: false, .. }));
            service.show_place(buyer_id, reply, if is_new { 201 } else { 200 }, out)
        })
    }

    /// Nobody works for a line that is closed: that is refused as it is without a verifier.
    pub(in crate::http) fn join(
        &mut self,
        call: &Call<'_>,
        joining: Joining<'_>,
        show: impl FnOnce(&mut HttpService, Reply, &mut Answering<'_, '_>) -> Result<(), Problem> + Send + 'static,
    ) -> Result<Answer, Problem> {
        let Joining { sku, buyer, given } = joining;
        self.shared.admission.admit_buyer(buyer.id)?;
        let Shared { options, order_id_secret, verifier, .. } = &*self.shared;
        let (sale, specified) = self.catalog.item(sku).ok_or(Refusal::UnknownSku)?;
        let address = call.client(&options.trusted_proxies);
        let candidate =
            Candidate { sale: sale.spec.id, product: specified.product, buyer: buyer.id, address };
        let show: Show = Box::new(show);
        let (request, show) = if sale.phase(call.now) == Phase::Ended {
            ask_for_place(sku, buyer, Ok(()), show)
        } else if let Some(opens_at) = self.opens_later(call, (sale.spec.starts_at, specified)) {
            ask_for_own_place(sku, buyer, Problem::line_not_open(opens_at), show)
        } else {
            match verifier.judge(order_id_secret, &candidate, given, call.now) {
                Verification::Passed => ask_for_place(sku, buyer, Ok(()), show),
                Verification::Required(proof) => ask_for_place(sku, buyer, Err(proof.into()), show),
                Verification::Later(question) => {
                    return self.join_once_answered(call, question, (sku, buyer), show);
                }
            }
        };
        self.ask_and_wait(call, request, Waiting::Reply(show))
    }

    /// `None`: whoever asks may join now. Else when they may; within: never.
    fn opens_later(&self, call: &Call<'_>, (starts_at, item): (UnixMs, &ItemSpec)) -> Option<Option<UnixMs>> {
        let access = item.line.and_then(|line| line.access)?;
        let groups = self.access.auth.groups(&call.fields, call.between);
        let opens_at = access.opens_at(starts_at, &groups);
        opens_at.is_none_or(|at| at > call.now).then_some(opens_at)
    }

    /// Nobody is asked about whoever has a place in the sale already.
    fn join_once_answered(
        &mut self,
        call: &Call<'_>,
        question: Question,
        (sku, buyer): (SkuId, Buyer),
        show: Show,
    ) -> Result<Answer, Problem> {
        let (shared, event_loop, ticket) = (Arc::clone(&self.shared), self.client.event_loop(), call.ticket);
        let known = Request::Join { sku, buyer: buyer.id, buyer_text: buyer.text.clone(), verified: false };
        let ask = move |reply: Reply| -> Result<Next, Problem> {
            if !matches!(reply, Reply::Refused(Refusal::NotInLine)) {
                return Ok(Next::Show(reply, show));
            }
            let answers = shared.reads.answers();
            let go_on = move |outcome| {
                let (request, show) = ask_for_place(sku, buyer, may_join(outcome), show);
                answers.give(event_loop, ticket, ShowRead::ask(request, Waiting::Reply(show)));
            };
            shared.verifier.ask(question, Box::new(go_on));
            Ok(Next::Thread)
        };
        self.ask_and_wait(call, known, Waiting::Step(Box::new(ask)))
    }

    fn show_place(
        &mut self,
        buyer: BuyerId,
        reply: Reply,
        status: u16,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let Reply::Accepted(Accepted::InLine { place, .. }) = reply else {
            return Err(reply.into());
        };
        self.scratch.clear();
        write_place(&mut self.scratch, buyer, place, self.shared.clock.now().0);
        out.json(status, &self.scratch);
        Ok(())
    }

    /// By the ticket alone, or by whoever is signed in.
    fn show_presence(&mut self, call: &Call<'_>, _: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let (sku, buyer) = self.who_stands_in_line(call)?;
        self.ask_line(call, buyer, Command::ShowPresence { sku, buyer })
    }

    pub(super) fn who_stands_in_line(&mut self, call: &Call<'_>) -> Result<(SkuId, BuyerId), Problem> {
        let sku = self.sku_of(call)?;
        let buyer = match call.request.body.is_empty() {
            true => self.acting_buyer(call)?.id,
            false => self.ticket_holder(call, &read_object::<ShownTicket>(call)?.ticket)?,
        };
        Ok((sku, buyer))
    }

    fn give_turn_back(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let command = Command::GiveTurnBack { sku: self.sku_of(call)?, buyer: buyer.id };
        self.ask_line(call, buyer.id, command)
    }

    /// What each of these costs the writer is bounded for each buyer.
    pub(in crate::http) fn ask_of_line(
        &mut self,
        call: &Call<'_>,
        buyer: BuyerId,
        request: Request,
        show: impl FnOnce(&mut HttpService, Reply, &mut Answering<'_, '_>) -> Result<(), Problem> + Send + 'static,
    ) -> Result<Answer, Problem> {
        self.shared.admission.admit_buyer(buyer)?;
        self.ask(call, request, show)
    }

    fn ask_line(&mut self, call: &Call<'_>, buyer: BuyerId, command: Command) -> Result<Answer, Problem> {
        let show = move |service: &mut HttpService, reply, out: &mut Answering<'_, '_>| {
            service.show_place(buyer, reply, 200, out)
        };
        self.ask_of_line(call, buyer, Request::Execute(command), show)
    }

    /// Whose number a ticket proves.
    fn ticket_holder(&self, call: &Call<'_>, ticket: &str) -> Result<BuyerId, Problem> {
        let held: LineTicket = ticket.parse().map_err(|_none| Problem::invalid_ticket())?;
        let secret = LedgerSecret(self.shared.order_id_secret);
        let expected =
            LineSecrets::new(secret, call.params.sale, call.params.product).proof(held.number, held.buyer);
        // Where they differ must not show in the time that this takes.
        let differs = expected.iter().zip(held.proof).fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs == 0 { Ok(held.buyer) } else { Err(Problem::invalid_ticket()) }
    }

    fn line_of(&self, call: &Call<'_>) -> Result<(SkuId, &Board, LineView), Problem> {
        let sku = self.sku_of(call)?;
        let board = self.catalog.skus[sku.0 as usize].board.as_ref().ok_or(Refusal::NoLine)?;
        let line = board.read().ok_or_else(|| Problem::unavailable("The line is not known yet."))?;
        Ok((sku, board, line))
    }

    fn sku_of(&self, call: &Call<'_>) -> Result<SkuId, Problem> {
        let (sale, product) = (call.params.sale, call.params.product);
        Ok(self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?)
    }
}

/// At most 300 bytes.
fn write_board(out: &mut Vec<u8>, line: &LineView, (state, pace): (&str, u32), now_ms: u64) {
    let LineView { borders, joined, stock, standings, message_changes, version, .. } = line;
    Object::begin(out)
        .text("state", state)
        .number_or_null("drawn", line.draw.drawn().map(u64::from))
        .number("served", borders.reached.into())
        .number("sure_to", borders.sure_to.into())
        .number("tail", (*joined).into())
        .number("free", stock.available())
        .number("turns", stock.turns())
        .number("held", stock.held())
        .number("sold", stock.sold())
        .number("gave_up", standings.gave_up.into())
        .number("pace", pace.into())
        .number("told", (*message_changes).into())
        .number("version", version.0)
        .number("now_ms", now_ms)
        .end();
}

/// What was announced, and what has become of it: enough to find every place out again, once the places are drawn.
fn write_draw(
    out: &mut Vec<u8>,
    line: &LineView,
    (starts_at, is_over): (UnixMs, bool),
    signed: Option<(&SigningKey, &SignedDraw)>,
) {
    let LineView { terms: LineTerms { close_ms, beacon, .. }, draw, .. } = line;
    let (spoken, revealed) = match draw {
        DrawView::Open | DrawView::Closed(_) => (None, None),
        DrawView::Drawn { spoken, secret, seed, .. } => (spoken.as_ref(), Some((secret, seed))),
    };
    let closed = draw.closed();
    let mut object = Object::begin(out);
    object.text("state", draw.as_str(is_over)).number("closes_at_ms", starts_at.0.saturating_sub(*close_ms));
    hex_or_null(&mut object, "commitment", Some(&line.commitment));
    object.number_or_null("closed_at_ms", closed.map(|closed| closed.at.0));
    object.number_or_null("entries", closed.map(|closed| closed.entries.into()));
    hex_or_null(&mut object, "root", closed.as_ref().map(|closed| &closed.root[..]));
    object.text_or_null("signature", signed.map(|(_, signed)| &*signed.close));
    object.text_or_null("drawn_signature", signed.and_then(|(_, signed)| signed.drawn.as_deref()));
    object.text_or_null("signed_by", signed.map(|(key, _)| key.public()).as_deref());
    match beacon {
        None => object.raw("beacon", b"null"),
        Some(beacon) => {
            let round = closed.and_then(|closed| closed.round);
            let mut of_beacon = Object::begin(object.value("beacon"));
            hex_or_null(&mut of_beacon, "public_key", Some(&beacon.public_key));
            of_beacon.number("genesis_s", beacon.genesis_s).number("period_s", beacon.period_s.into());
            of_beacon.number_or_null("round", round);
            of_beacon.number_or_null("due_at_ms", round.map(|round| beacon.due_at(round).0));
            hex_or_null(&mut of_beacon, "signature", spoken.map(|spoken| &spoken.signature[..]));
            of_beacon.end();
            &mut object
        }
    };
    hex_or_null(&mut object, "secret", revealed.map(|(secret, _)| &secret[..]));
    hex_or_null(
        &mut object,
        "randomness",
        spoken.map(|spoken| randomness(&spoken.signature)).as_ref().map(|random| &random[..]),
    );
    hex_or_null(&mut object, "seed", revealed.map(|(_, seed)| &seed[..]));
    object.end();
}

pub(super) fn hex_or_null(object: &mut Object<'_>, name: &str, bytes: Option<&[u8]>) {
    let Some(bytes) = bytes else {
        object.raw(name, b"null");
        return;
    };
    push_hex_text(object.value(name), bytes);
}

pub(super) fn push_hex_text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    push_hex(out, bytes);
    out.push(b'"');
}

fn write_place(out: &mut Vec<u8>, buyer: BuyerId, place: PlaceView, now_ms: u64) {
    let blocked = blocked_by(&place);
    let PlaceView { number, proof, place, standing, .. } = place;
    let word = match standing {
        Standing::Waiting => "waiting",
        Standing::Grace => "reached",
        Standing::Away => "away",
        Standing::Called { .. } => "called",
        Standing::Ordered | Standing::LetGo(_) => "over",
    };
    let (units, until) = match standing {
        Standing::Called { units, until } => (Some(units.into()), Some(until.0)),
        _ => (None, None),
    };
    let mut object = Object::begin(out);
    object.number("number", number.into()).number_or_null("place", place.map(u64::from));
    object.text("standing", word).text_or_null("blocked_by", blocked);
    object.text_or_null("outcome", outcome(standing));
    object.number_or_null("turn_until_ms", until).number_or_null("turn_units", units);
    object.text("ticket", &LineTicket { number, buyer, proof }.to_string());
    object.number("now_ms", now_ms).end();
}

/// Why whoever was reached is not called now; `None`: nothing but that they must be there, and a unit left.
pub(super) fn blocked_by(place: &PlaceView) -> Option<&'static str> {
    place.has_too_many_holds.then(|| Refusal::TooManyHolds.code())
}

/// What became of a turn; `None`: there was none, or it is open.
pub(in crate::http) fn outcome(standing: Standing) -> Option<&'static str> {
    match standing {
        Standing::Ordered => Some("ordered"),
        Standing::LetGo(TurnEnd::Expired) => Some("expired"),
        Standing::LetGo(TurnEnd::GivenBack) => Some("given_back"),
        Standing::Waiting | Standing::Grace | Standing::Away | Standing::Called { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Borders, ClosedLine, Seq, Standings, Stock, limits};

    #[test]
    fn the_longest_board_has_at_most_300_bytes() {
        let (places, units) = (limits::LINE_PLACES_MAX, limits::TOTAL_MAX);
        let closed = ClosedLine { at: UnixMs(0), entries: places, root: [0; 32], round: None };
        let mut line = LineView {
            terms: LineTerms { units: 1, turn_ms: 1, grace_ms: 1, close_ms: 1, beacon: None, access: None },
            draw: DrawView::Drawn { closed, spoken: None, secret: [0; 32], seed: [0; 32] },
            borders: Borders { away_to: places, reached: places, sure_to: places },
            joined: places,
            standings: Standings { gave_up: places, ..Standings::default() },
            pace_max: None,
            message_changes: u32::MAX,
            commitment: [0; 32],
            version: Seq(1 << 53),
            promised: units,
            stock: Stock::new(units),
        };
        let mut out = Vec::new();
        write_board(&mut out, &line, ("not_started", places), limits::TIME_MS_MAX);
        // Of four counts of units only one is as long here as each may be.
        assert!(out.len() + 3 * 12 <= 300, "{} bytes", out.len());
        line.draw = DrawView::Open;
        out.clear();
        write_board(&mut out, &line, ("live", 0), 0);
        assert!(std::str::from_utf8(&out).unwrap().contains(r#""drawn":null"#));
    }
}
