//! Sales: what everybody may read, and what operators do to them.

use engine::{
    Adjust, BeaconTerms, Command, GroupName, ItemChange, ItemImage, ItemSpec, LineAccess, LineTerms, Opening,
    Payment, ProductId, Refusal, Role, SaleChange, SaleId, SaleSpec, SkuId, UnixMs,
};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::lists::{items_page, sales_page, write_sale_with};
use crate::http::pending::{Show, Waiting};
use crate::http::placing::key_of;
use crate::http::reads::ShowRead;
use crate::http::route::{BodyLimit, Handler, Route, Served};
use crate::http::wire::answer::Answering;
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{EXACT_MAX, ExactNumber, Number, Object, Quantity, needed_number_in, not_null};
use crate::intake::Reply;
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/api/v1/sales", Handler::Anybody(HttpService::list_sales)).served(Served::Both),
    Route::post("/api/v1/sales", Handler::Operator(Role::Operator, HttpService::create_sale))
        .body(BodyLimit::Operator),
    Route::get("/api/v1/sales/{sale}", Handler::Anybody(HttpService::show_sale)).served(Served::Both),
    Route::patch("/api/v1/sales/{sale}", Handler::Operator(Role::Operator, HttpService::change_sale))
        .body(BodyLimit::Operator),
    Route::post("/api/v1/sales/{sale}/pause", Handler::Operator(Role::Operator, HttpService::pause_sale)),
    Route::post("/api/v1/sales/{sale}/resume", Handler::Operator(Role::Operator, HttpService::resume_sale)),
    Route::post("/api/v1/sales/{sale}/end", Handler::Operator(Role::Operator, HttpService::end_sale)),
    Route::post("/api/v1/sales/{sale}/delete", Handler::Operator(Role::Operator, HttpService::delete_sale)),
    Route::post(
        "/api/v1/sales/{sale}/items/{product}/restock",
        Handler::Operator(Role::Operator, HttpService::restock),
    ),
    Route::post(
        "/api/v1/sales/{sale}/items/{product}/correct",
        Handler::Operator(Role::Admin, HttpService::correct),
    ),
    Route::post(
        "/api/v1/sales/{sale}/items/{product}/line/pace",
        Handler::Operator(Role::Operator, HttpService::limit_pace),
    ),
    Route::post(
        "/api/v1/sales/{sale}/items/{product}/line/message",
        Handler::Operator(Role::Operator, HttpService::set_line_message),
    ),
    Route::get("/api/v1/stock", Handler::Anybody(HttpService::stock)),
];

const MS_PER_S: u64 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSale {
    /// The next free number if it is left out.
    #[serde(default, deserialize_with = "not_null")]
    id: Option<ExactNumber>,
    title: String,
    currency: String,
    starts_at_ms: Number,
    ends_at_ms: Number,
    /// Left out: the server's default; null: paid on placing.
    #[serde(default, deserialize_with = "not_null")]
    payment_s: Option<Option<Number>>,
    /// 0: no bound.
    #[serde(default, deserialize_with = "not_null")]
    open_holds_per_buyer_max: Option<Number>,
    items: Vec<NewItem>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewItem {
    product: ExactNumber,
    title: String,
    #[serde(default)]
    description: String,
    price: Number,
    #[serde(default, deserialize_with = "not_null")]
    list_price: Option<Number>,
    total: Number,
    limit: Option<Quantity>,
    #[serde(default)]
    image: Option<NewImage>,
    #[serde(default)]
    line: Option<NewLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLine {
    #[serde(default = "one")]
    units: Quantity,
    #[serde(default = "turn_s")]
    turn_s: Number,
    #[serde(default = "grace_s")]
    grace_s: Number,
    #[serde(default = "close_s")]
    close_s: Number,
    /// Left out: if this server knows one.
    #[serde(default, deserialize_with = "not_null")]
    beacon: Option<bool>,
    /// Left out, or null: everybody may join, always.
    #[serde(default)]
    access: Option<NewAccess>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewAccess {
    groups: Vec<NewGroup>,
    /// null: they may not join.
    #[serde(deserialize_with = "Option::deserialize")]
    others: Option<NewOpening>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewGroup {
    name: String,
    /// null: always.
    #[serde(deserialize_with = "Option::deserialize")]
    before_s: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOpening {
    #[serde(deserialize_with = "Option::deserialize")]
    before_s: Option<Number>,
}

fn one() -> Quantity {
    Quantity(1)
}

fn turn_s() -> Number {
    Number(120)
}

fn grace_s() -> Number {
    Number(20)
}

fn close_s() -> Number {
    Number(30)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewImage {
    name: String,
    #[serde(default)]
    alt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangedSale {
    #[serde(default, deserialize_with = "not_null")]
    title: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    starts_at_ms: Option<Number>,
    #[serde(default, deserialize_with = "not_null")]
    ends_at_ms: Option<Number>,
    #[serde(default, deserialize_with = "not_null")]
    payment_s: Option<Number>,
    #[serde(default, deserialize_with = "not_null")]
    items: Option<Vec<ChangedItem>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangedItem {
    product: Number,
    #[serde(default, deserialize_with = "not_null")]
    title: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    description: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    price: Option<Number>,
    #[serde(default, deserialize_with = "not_null")]
    list_price: Option<Number>,
    /// Left out: as it is; null: no limit.
    #[serde(default, deserialize_with = "not_null")]
    limit: Option<Option<Quantity>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Units {
    units: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pace {
    /// Null: no limit. What is left out is no wish to have none.
    #[serde(deserialize_with = "Option::deserialize")]
    per_s_max: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    /// Empty: nothing is to be read.
    message: Box<str>,
}

impl HttpService {
    fn list_sales(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.show_list(sales_page(call.request.query, &self.catalog, None)?, call, out)
    }

    fn show_sale(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.show_list(items_page(call.request.query, &self.catalog, call.params.sale, None)?, call, out)
    }

    fn stock(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let number = |name| needed_number_in(call.request.query, name);
        let (sale, product) = (SaleId(number("sale")?), ProductId(number("product")?));
        let sku = self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?;
        let counters = &self.catalog.skus[sku.0 as usize].counters;
        let (sale, item) = self.catalog.item(sku).expect("a SKU has a sale");
        let (price, has_line) = (item.price, item.line.is_some());
        sale.outcomes.stock_asked();
        self.scratch.clear();
        Object::begin(&mut self.scratch)
            .text("state", sale.phase(call.now).as_str())
            .number("available", counters.available())
            .number("turns", counters.turns())
            .number("total", counters.total())
            .flag("has_line", has_line)
            .number("price", price)
            .text("currency", &sale.spec.currency)
            .number("starts_at_ms", sale.spec.starts_at.0)
            .number("ends_at_ms", sale.spec.ends_at.0)
            .number("now_ms", call.now.0)
            .end();
        out.json(200, &self.scratch);
        Ok(Answer::Ready)
    }

    fn create_sale(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let new: NewSale = read_object(call)?;
        let id = SaleId(new.id.map_or_else(|| self.catalog.next_id(EXACT_MAX), |id| id.0));
        let payment = match new.payment_s {
            Some(Some(seconds)) => Payment::WithinMs(seconds.0.saturating_mul(MS_PER_S)),
            Some(None) => Payment::OnPlacing,
            None => Payment::WithinMs(self.shared.options.payment_ms),
        };
        let holds_max = match new.open_holds_per_buyer_max {
            None => self.shared.options.open_holds_per_buyer_max,
            Some(Number(max)) => u32::try_from(max).map_err(|_too_large| {
                let wanted = format!("a whole number from 0 to {}", u32::MAX);
                Problem::invalid(format!("\"open_holds_per_buyer_max\" must be {wanted}."))
            })?,
        };
        let beacon = self.shared.options.beacon;
        let spec = SaleSpec {
            id,
            title: new.title,
            currency: new.currency,
            starts_at: UnixMs(new.starts_at_ms.0),
            ends_at: UnixMs(new.ends_at_ms.0),
            payment,
            open_holds_per_buyer_max: (holds_max > 0).then_some(holds_max),
            items: new.items.into_iter().map(|item| item.into_spec(beacon)).collect::<Result<_, _>>()?,
        };
        let status = if self.catalog.sale(id).is_some() { 200 } else { 201 };
        let images = spec.items.iter().filter_map(|item| item.image.as_ref());
        let images: Vec<_> = images.map(|image| image.name.clone()).collect();
        let create = Command::CreateSale(spec);
        if images.is_empty() {
            return self.change(call, create, (id, status));
        }
        let create = call.command(create);
        self.ask_images(call, move |kept| {
            kept.check(&images)?;
            let show: Show =
                Box::new(move |service, reply, out| service.show_changed(reply, (id, status), 0, out));
            Ok(ShowRead::ask(create, Waiting::Reply(show)))
        })
    }

    fn change_sale(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let changed: ChangedSale = read_object(call)?;
        if changed.items.as_ref().is_some_and(Vec::is_empty) {
            return Err(Problem::invalid("\"items\" must have at least one item, or be left out."));
        }
        let items = changed.items.unwrap_or_default();
        let change = SaleChange {
            items: items.into_iter().map(ChangedItem::into_change).collect(),
            title: changed.title,
            starts_at: changed.starts_at_ms.map(|at| UnixMs(at.0)),
            ends_at: changed.ends_at_ms.map(|at| UnixMs(at.0)),
            payment_ms: changed.payment_s.map(|seconds| seconds.0.saturating_mul(MS_PER_S)),
        };
        if change == SaleChange::default() {
            return Err(Problem::invalid(
                "Name at least one of title, starts_at_ms, ends_at_ms, payment_s and items.",
            ));
        }
        let sale = call.params.sale;
        self.change(call, Command::ChangeSale { sale, change }, (sale, 200))
    }

    fn delete_sale(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let delete = call.command(Command::DeleteSale(call.params.sale));
        self.ask(call, delete, |_service, reply, out| {
            if !matches!(reply, Reply::Accepted(_)) {
                return Err(reply.into());
            }
            out.empty(204, &[]);
            Ok(())
        })
    }

    fn pause_sale(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.change(call, Command::Pause(call.params.sale), (call.params.sale, 200))
    }

    fn resume_sale(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.change(call, Command::Resume(call.params.sale), (call.params.sale, 200))
    }

    fn end_sale(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.change(call, Command::End(call.params.sale), (call.params.sale, 200))
    }

    fn restock(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.adjust_stock(call, Adjust::Restock)
    }

    fn correct(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.adjust_stock(call, Adjust::Correct)
    }

    fn adjust_stock(&mut self, call: &Call<'_>, how: Adjust) -> Result<Answer, Problem> {
        let key = key_of(call)?.ok_or_else(Problem::key_required)?;
        let Units { units: Number(units) } = read_object(call)?;
        let sku = self.catalog.sku_id(call.params.sale, call.params.product).ok_or(Refusal::UnknownSku)?;
        let item = self.catalog.skus[sku.0 as usize].item;
        let command = Command::Adjust { sku, how, units, key: key.into() };
        self.change_item(call, command, (call.params.sale, 200), item)
    }

    fn limit_pace(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let Pace { per_s_max } = read_object(call)?;
        // What is too much for a pace is refused as such.
        let per_s_max = per_s_max.map(|Number(per_s)| u32::try_from(per_s).unwrap_or(u32::MAX));
        self.steer_line(call, |sku| Command::LimitPace { sku, per_s_max })
    }

    fn set_line_message(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let Message { message } = read_object(call)?;
        self.steer_line(call, |sku| Command::SetLineMessage { sku, message })
    }

    fn steer_line(
        &mut self,
        call: &Call<'_>,
        command: impl FnOnce(SkuId) -> Command,
    ) -> Result<Answer, Problem> {
        let sku = self.catalog.sku_id(call.params.sale, call.params.product).ok_or(Refusal::UnknownSku)?;
        let item = self.catalog.skus[sku.0 as usize].item;
        self.change_item(call, command(sku), (call.params.sale, 200), item)
    }

    /// Carries a change out, and shows the sale as it is then, with this status.
    fn change(&mut self, call: &Call<'_>, command: Command, shown: (SaleId, u16)) -> Result<Answer, Problem> {
        self.change_item(call, command, shown, 0)
    }

    /// The same, with the page of its items on which this one is.
    fn change_item(
        &mut self,
        call: &Call<'_>,
        command: Command,
        shown: (SaleId, u16),
        item: usize,
    ) -> Result<Answer, Problem> {
        self.ask(call, call.command(command), move |service, reply, out| {
            service.show_changed(reply, shown, item, out)
        })
    }

    fn show_changed(
        &mut self,
        reply: Reply,
        (sale, status): (SaleId, u16),
        item: usize,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        if !matches!(reply, Reply::Accepted(_)) {
            return Err(reply.into());
        }
        let sale = self.catalog.sale(sale).ok_or(Refusal::UnknownSale)?;
        self.scratch.clear();
        let now = self.shared.clock.now();
        write_sale_with(
            &mut self.scratch,
            (&self.catalog, sale),
            item,
            (now, self.shared.options.beacon.as_ref()),
        );
        out.json(status, &self.scratch);
        Ok(())
    }
}

impl NewLine {
    fn into_terms(self, known: Option<BeaconTerms>) -> Result<LineTerms, Problem> {
        let beacon = match self.beacon {
            Some(false) => None,
            None => known,
            Some(true) => Some(known.ok_or(Refusal::InvalidSale(
                "line.beacon is true, but this server knows none: set beacon.url in its configuration",
            ))?),
        };
        let ms = |seconds: Number| seconds.0.saturating_mul(MS_PER_S);
        let access = self.access.map(NewAccess::into_access).transpose()?;
        Ok(LineTerms {
            units: self.units.0,
            turn_ms: ms(self.turn_s),
            grace_ms: ms(self.grace_s),
            close_ms: ms(self.close_s),
            beacon,
            access,
        })
    }
}

impl NewAccess {
    fn into_access(self) -> Result<LineAccess, Refusal> {
        let opening = |before_s: Option<Number>| {
            let before = |seconds: Number| Opening::BeforeStart { ms: seconds.0.saturating_mul(MS_PER_S) };
            before_s.map_or(Opening::Always, before)
        };
        let wrong = Refusal::InvalidSale("a group's name must have 1 to 24 visible ASCII characters");
        let named = |group: NewGroup| Some((GroupName::new(&group.name)?, opening(group.before_s)));
        let groups = self.groups.into_iter().map(named).collect::<Option<Vec<_>>>().ok_or(wrong)?;
        let others = self.others.map(|others| opening(others.before_s));
        LineAccess::new(groups, others).map_err(Refusal::InvalidSale)
    }
}

impl NewItem {
    fn into_spec(self, beacon: Option<BeaconTerms>) -> Result<ItemSpec, Problem> {
        Ok(ItemSpec {
            product: ProductId(self.product.0),
            title: self.title,
            description: self.description,
            price: self.price.0,
            list_price: self.list_price.unwrap_or(self.price).0,
            total: self.total.0,
            limit: self.limit.map(|limit| limit.0),
            image: self.image.map(|image| ItemImage { name: image.name, alt: image.alt }),
            line: self.line.map(|line| line.into_terms(beacon)).transpose()?,
        })
    }
}

impl ChangedItem {
    fn into_change(self) -> ItemChange {
        ItemChange {
            product: ProductId(self.product.0),
            title: self.title,
            description: self.description,
            price: self.price.map(|price| price.0),
            list_price: self.list_price.map(|price| price.0),
            limit: self.limit.map(|limit| limit.map(|units| units.0)),
        }
    }
}

/// What fuzz/targets ask of a body: whether it is understood, as a new sale and as a change of one.
#[cfg(fuzzing)]
pub(in crate::http) fn understand(body: &[u8]) -> [Result<(), Problem>; 2] {
    use crate::http::wire::body::parse;
    [parse::<NewSale>(body).map(drop), parse::<ChangedSale>(body).map(drop)]
}
