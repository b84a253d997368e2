//! Waiting in a line without a script: a form that joins, and a page of one's place that asks for itself again.
//!
//! Must not: judge a place in another way than the page with scripts does (`place.js`).

use engine::{
    Accepted, BuyerId, Command, LineView, PRESENT_AHEAD, Phase, PlaceView, ProductId, Refusal, SaleId, SkuId,
    Standing, TurnEnd, UnixMs,
};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::pages::forms::{form_of, private_page};
use crate::http::pages::shelf::{item_view, sale_view};
use crate::http::route::{Handler, Route};
use crate::http::routes::line::Joining;
use crate::http::wire::answer::{Answering, ProblemFormat};
use crate::http::wire::error::Problem;
use crate::http::wire::{needed_number_in, parameter};
use crate::intake::board::{BorderMove, MoveReason, ahead_of};
use crate::intake::{Reply, Request};
use crate::ledger::Buyer;
use crate::net::Answer;
use crate::pages::{LanguageId, Pages, PlacePageView, PlaceWait};
use crate::verifier::Given;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::post("/line", Handler::Anybody(HttpService::join_by_form)).problems(ProblemFormat::FORM),
    Route::get("/line", Handler::Anybody(HttpService::line_page)).problems(ProblemFormat::FORM),
    Route::post("/line/leave", Handler::Buyer(HttpService::leave_by_form)).problems(ProblemFormat::FORM),
    Route::post("/line/receipt", Handler::Buyer(HttpService::receipt_by_form)).problems(ProblemFormat::FORM),
];

/// How soon the page is asked for again: often enough that its reader counts as present, or, far from the front, to see how it goes.
const NEAR: (&str, &str) = ("Refresh", "5");
/// Where whoever is not there when reached is hardly waited for.
const NEAR_SHORT_GRACE: (&str, &str) = ("Refresh", "2");
const SHORT_GRACE_MS: u64 = 10_000;
const FAR: (&str, &str) = ("Refresh", "30");
/// More than the two lie apart, so that whoever waits is there at the start.
const NEAR_BEFORE_START_MS: u64 = 60_000;

/// An item whose line somebody stands in.
#[derive(Clone, Copy)]
struct Of {
    sale: SaleId,
    product: ProductId,
    sku: SkuId,
}

impl Of {
    fn page(self) -> String {
        format!("/line?sale={}&product={}", self.sale.0, self.product.0)
    }
}

impl HttpService {
    fn item_in(&self, fields: &str) -> Result<Of, Problem> {
        let sale = SaleId(needed_number_in(fields, "sale")?);
        let product = ProductId(needed_number_in(fields, "product")?);
        let sku = self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?;
        self.catalog.skus[sku.0 as usize].board.as_ref().ok_or(Refusal::NoLine)?;
        Ok(Of { sale, product, sku })
    }

    /// A demonstration's browser gets its cookie first, and sends the form with it once more.
    fn join_by_form(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.access.auth.same_site(&call.fields, call.request.secure)?;
        let of = self.item_in(form_of(call)?)?;
        let buyer = match self.access.auth.buyer(&call.fields, call.between) {
            Ok(buyer) => buyer,
            // Whoever keeps no cookies would be sent round for ever.
            Err(unknown) if parameter(call.request.query, "again").is_some() => return Err(unknown),
            Err(unknown) => {
                let cookie = self.demo_cookie(call).ok().flatten().ok_or(unknown)?;
                out.empty(307, &[("Location", "/line?again=1"), ("Set-Cookie", &cookie)]);
                return Ok(Answer::Ready);
            }
        };
        let joining = Joining { sku: of.sku, buyer, given: Given::NoScript };
        self.join(call, joining, move |_, reply, out| lead_to_place(of, reply, out))
    }

    fn leave_by_form(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let of = self.item_in(form_of(call)?)?;
        let command = Command::GiveTurnBack { sku: of.sku, buyer: buyer.id };
        let request = Request::Execute(command);
        self.ask_of_line(call, buyer.id, request, move |_, reply, out| lead_to_place(of, reply, out))
    }

    fn receipt_by_form(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let of = self.item_in(form_of(call)?)?;
        self.give_receipt(call, of.sku, buyer.id)
    }

    /// For whoever has the place; the others are led to where one joins. Asking for it shows that somebody is there.
    fn line_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let of = self.item_in(call.request.query)?;
        let language = self.language(&call.fields);
        let Ok(buyer) = self.access.auth.buyer(&call.fields, call.between) else {
            lead_to_product(of, out);
            return Ok(Answer::Ready);
        };
        self.ask_of_line(call, buyer.id, show_presence(of.sku, buyer.id), move |service, reply, out| {
            service.show_place_page(of, reply, language, out)
        })
    }

    fn show_place_page(
        &mut self,
        of: Of,
        reply: Reply,
        language: LanguageId,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let place = match reply {
            Reply::Accepted(Accepted::InLine { place, .. }) => place,
            Reply::Refused(Refusal::NotInLine) => {
                lead_to_product(of, out);
                return Ok(());
            }
            other => return Err(other.into()),
        };
        let now = self.shared.clock.now();
        let entry = &self.catalog.skus[of.sku.0 as usize];
        let board = entry.board.as_ref().expect("whoever has a place has it in a line");
        let posted = board.read().zip(board.message());
        let (line, (_, message)) =
            posted.ok_or_else(|| Problem::unavailable("The line is not known yet."))?;
        let sale = &self.catalog.sales[entry.sale];
        let phase = sale.phase(now);
        let view = worth_of(&line, place, phase, sale.is_called_off());
        let is_over = matches!(view, "over" | "closed");
        let is_paused = phase == Phase::Paused && !is_over;
        let (units, order_by_ms) = match place.standing {
            Standing::Called { units, until } => (units, (!is_paused).then_some(until.0)),
            _ => (line.terms.units, None),
        };
        // A page that is asked for again loses what is typed into it.
        let asks_again = !is_over && order_by_ms.is_none();
        let PlaceView { number, place, standing, .. } = place;
        let starts_at = sale.spec.starts_at.0;
        let moves = matches!(phase, Phase::Live | Phase::Ended) && matches!(view, "sure" | "maybe");
        let page = PlacePageView {
            view,
            words: words_of(view, standing),
            number,
            place,
            ahead: u64::from(place.unwrap_or(0).saturating_sub(line.borders.sure_to + 1)),
            open: open_units(&line),
            now_ms: now.0,
            gave_up: line.standings.gave_up.into(),
            wait: place.filter(|_| moves).map(|place| {
                let end = (view == "maybe").then_some(sale.spec.ends_at);
                wait_until(ahead_of(&line, place), board.pace(now), (now, end))
            }),
            moved: board.moved().filter(|_| matches!(view, "sure" | "maybe" | "none")).map(said),
            drawn_at_ms: place.is_none().then_some(starts_at.saturating_sub(line.terms.close_ms)),
            starts_at_ms: (phase == Phase::NotStarted).then_some(starts_at),
            units,
            is_paused,
            order_by_ms,
            asks_again,
            message: &message,
        };
        let views = (&sale_view(sale, Vec::new(), now), &item_view(&self.catalog, sale, entry.item));
        self.scratch.clear();
        self.shared.pages.pages.plain_line(language, views, &page, &mut self.scratch);
        let may_be_near =
            place.is_none_or(|place| place <= line.borders.sure_to.saturating_add(PRESENT_AHEAD));
        let is_near = may_be_near && starts_at <= now.0.saturating_add(NEAR_BEFORE_START_MS);
        let again = match is_near {
            true if line.terms.grace_ms < SHORT_GRACE_MS => NEAR_SHORT_GRACE,
            true => NEAR,
            false => FAR,
        };
        private_page(200, asks_again.then_some(again), &self.scratch, out);
        Ok(())
    }
}

fn show_presence(sku: SkuId, buyer: BuyerId) -> Request {
    Request::Execute(Command::ShowPresence { sku, buyer })
}

/// A reload of that page only shows it again.
fn lead_to_place(of: Of, reply: Reply, out: &mut Answering<'_, '_>) -> Result<(), Problem> {
    match reply {
        Reply::Accepted(Accepted::InLine { .. }) => {
            out.empty(303, &[("Location", &of.page())]);
            Ok(())
        }
        other => Err(other.into()),
    }
}

fn lead_to_product(of: Of, out: &mut Answering<'_, '_>) {
    let path = format!("/{}", Pages::sale_file_name(of.sale.0, of.product.0));
    out.empty(303, &[("Location", &path), ("Cache-Control", "no-store")]);
}

fn words_of(view: &'static str, standing: Standing) -> &'static str {
    match standing {
        Standing::Ordered => "ordered",
        Standing::LetGo(TurnEnd::Expired) => "expired",
        Standing::LetGo(TurnEnd::GivenBack) => "given-back",
        _ => view,
    }
}

/// The text for it, when it was, and how many.
fn said(BorderMove { at, why, count }: BorderMove) -> (&'static str, u64, u64) {
    let text = match why {
        MoveReason::Added => "line-moved-added",
        MoveReason::Taken => "line-moved-taken",
        MoveReason::Unpaid => "line-moved-unpaid",
        MoveReason::GaveUp => "line-moved-back",
    };
    (text, at.0, count)
}

/// How long a place waits with so many before it; `end`: after it nobody is reached who is not sure by then.
fn wait_until(ahead: Option<u32>, pace: u32, (now, end): (UnixMs, Option<UnixMs>)) -> PlaceWait {
    let tenths = 10 * u64::from(pace);
    let Some(ahead) = ahead.map(u64::from).filter(|_| pace > 0) else {
        return PlaceWait { minutes: None, ends_at_ms: None };
    };
    let (from, to) = (ahead * 7 / tenths, (ahead * 15).div_ceil(tenths) + 1);
    let is_late = |minutes: u64| end.is_some_and(|end| now.plus(minutes.saturating_mul(60_000)) >= end);
    PlaceWait {
        minutes: (!is_late(from)).then_some((from, to)),
        ends_at_ms: end.filter(|_| is_late(to)).map(|end| end.0),
    }
}

fn open_units(line: &LineView) -> u64 {
    line.stock.available() + line.stock.turns() + line.stock.held()
}

fn worth_of(
    line: &LineView,
    PlaceView { place, standing, has_too_many_holds, .. }: PlaceView,
    phase: Phase,
    called_off: bool,
) -> &'static str {
    let is_sure = !called_off && place.is_some_and(|place| place <= line.borders.sure_to);
    match standing {
        Standing::Called { .. } => "called",
        Standing::Grace if has_too_many_holds => "blocked",
        Standing::Grace => "reached",
        // Who was away is called for what is left over, and for nothing after the end.
        Standing::Away if phase == Phase::Ended => "closed",
        Standing::Away if open_units(line) == 0 => "none",
        Standing::Away if has_too_many_holds => "blocked",
        Standing::Away => "away",
        Standing::Ordered | Standing::LetGo(_) => "over",
        Standing::Waiting if is_sure => "sure",
        Standing::Waiting if phase == Phase::Ended => "closed",
        Standing::Waiting if place.is_none() => "drawing",
        Standing::Waiting if open_units(line) == 0 => "none",
        Standing::Waiting => "maybe",
    }
}
