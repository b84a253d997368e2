//! Sales: what everybody may read, and what operators do to them.

use engine::{
    Adjust, Command, ItemSpec, Payment, Phase, ProductId, Refusal, SaleChange, SaleId, SaleSpec, UnixMs,
};
use serde::{Deserialize, Deserializer};

use crate::http::pending::Waiting;
use crate::http::placing::key_of;
use crate::http::route::Steer;
use crate::http::routes::orders::read_object;
use crate::http::service::{Call, HttpService, other};
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::http::wire::{NUMBER_MAX, Number, Object, decimal, parameter};
use crate::intake::catalog::{Catalog, Sale};
use crate::intake::{Reply, Request};
use crate::net::Answer;

const MS_PER_S: u64 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSale {
    /// The next free number if it is left out.
    id: Option<Number>,
    title: String,
    currency: String,
    starts_at_ms: Number,
    ends_at_ms: Number,
    /// Left out: the server's default; null: paid on placing.
    #[serde(default, deserialize_with = "present")]
    payment_s: Option<Option<Number>>,
    /// 0: no bound.
    open_holds_per_buyer_max: Option<u32>,
    items: Vec<NewItem>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewItem {
    product: Number,
    title: String,
    #[serde(default)]
    description: String,
    price: Number,
    list_price: Option<Number>,
    total: Number,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangedSale {
    title: Option<String>,
    starts_at_ms: Option<Number>,
    ends_at_ms: Option<Number>,
    payment_s: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Units {
    units: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Balance {
    balance: Number,
}

/// Tells null from absent: serde calls this only if the field is there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Number>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl HttpService {
    pub(in crate::http) fn list_sales(
        &mut self,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        let reader = self.reader(call);
        self.scratch.clear();
        Object::begin(&mut self.scratch)
            .list("sales", &self.catalog.sales, |out, sale| {
                write_sale(out, &self.catalog, sale, call.now, reader);
            })
            .end();
        out.json(200, &self.scratch);
        Ok(Answer::Ready)
    }

    pub(in crate::http) fn show_sale(
        &mut self,
        call: &Call<'_>,
        id: SaleId,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        self.write_known_sale(id, (200, self.reader(call)), call.now, out).map(|()| Answer::Ready)
    }

    fn reader(&self, call: &Call<'_>) -> Reader {
        if self.shared.auth.is_operator(&call.fields) { Reader::Operator } else { Reader::Anybody }
    }

    fn write_known_sale(
        &mut self,
        id: SaleId,
        (status, reader): (u16, Reader),
        now: UnixMs,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let sale = self.catalog.sale(id).ok_or(Refusal::UnknownSale)?;
        self.scratch.clear();
        write_sale(&mut self.scratch, &self.catalog, sale, now, reader);
        out.json(status, &self.scratch);
        Ok(())
    }

    pub(in crate::http) fn stock(
        &mut self,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        let number = |name| {
            let text = parameter(call.request.query, name).unwrap_or_default();
            decimal(text).ok_or_else(|| Problem::invalid("sale and product must be numbers."))
        };
        let (sale, product) = (SaleId(number("sale")?), ProductId(number("product")?));
        let sku = self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?;
        let counters = &self.catalog.skus[sku.0 as usize].counters;
        let sale = self.catalog.sale(sale).expect("a SKU's sale is in the catalog");
        self.scratch.clear();
        Object::begin(&mut self.scratch)
            .text("state", sale.phase(call.now).as_str())
            .number("available", counters.available())
            .number("total", counters.total())
            .number("starts_at_ms", sale.spec.starts_at.0)
            .number("ends_at_ms", sale.spec.ends_at.0)
            .number("now_ms", call.now.0)
            .end();
        out.json(200, &self.scratch);
        Ok(Answer::Ready)
    }

    pub(in crate::http) fn create_sale(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.shared.auth.operator(&call.fields)?;
        let new: NewSale = read_object(call)?;
        let next = || self.catalog.sales.iter().map(|sale| sale.spec.id.0 + 1).max().unwrap_or(1);
        let id = SaleId(new.id.map_or_else(next, |id| id.0));
        if id.0 > NUMBER_MAX {
            return Err(Problem::invalid("The highest number of a sale is taken: give this one an id."));
        }
        let payment = match new.payment_s {
            Some(Some(seconds)) => Payment::WithinMs(seconds.0.saturating_mul(MS_PER_S)),
            Some(None) => Payment::OnPlacing,
            None => Payment::WithinMs(self.shared.options.payment_ms),
        };
        let holds_max = new.open_holds_per_buyer_max.unwrap_or(self.shared.options.open_holds_per_buyer_max);
        let spec = SaleSpec {
            id,
            title: new.title,
            currency: new.currency,
            starts_at: UnixMs(new.starts_at_ms.0),
            ends_at: UnixMs(new.ends_at_ms.0),
            payment,
            open_holds_per_buyer_max: (holds_max > 0).then_some(holds_max),
            items: new.items.into_iter().map(NewItem::into_spec).collect(),
        };
        let status = if self.catalog.sale(id).is_some() { 200 } else { 201 };
        self.ask(call, Request::Execute(Command::CreateSale(spec)), Waiting::Sale { sale: id, status })
    }

    pub(in crate::http) fn change_sale(&mut self, call: &Call<'_>, sale: SaleId) -> Result<Answer, Problem> {
        self.shared.auth.operator(&call.fields)?;
        let changed: ChangedSale = read_object(call)?;
        let change = SaleChange {
            title: changed.title,
            starts_at: changed.starts_at_ms.map(|at| UnixMs(at.0)),
            ends_at: changed.ends_at_ms.map(|at| UnixMs(at.0)),
            payment_ms: changed.payment_s.map(|seconds| seconds.0.saturating_mul(MS_PER_S)),
        };
        if change == SaleChange::default() {
            return Err(Problem::invalid(
                "Name at least one of title, starts_at_ms, ends_at_ms and payment_s.",
            ));
        }
        let command = Command::ChangeSale { sale, change };
        self.ask(call, Request::Execute(command), Waiting::Sale { sale, status: 200 })
    }

    pub(in crate::http) fn steer_sale(
        &mut self,
        call: &Call<'_>,
        sale: SaleId,
        steer: Steer,
    ) -> Result<Answer, Problem> {
        self.shared.auth.operator(&call.fields)?;
        let command = match steer {
            Steer::Pause => Command::Pause(sale),
            Steer::Resume => Command::Resume(sale),
            Steer::End => Command::End(sale),
        };
        self.ask(call, Request::Execute(command), Waiting::Sale { sale, status: 200 })
    }

    pub(in crate::http) fn adjust_stock(
        &mut self,
        call: &Call<'_>,
        sale: SaleId,
        product: ProductId,
        how: Adjust,
    ) -> Result<Answer, Problem> {
        self.shared.auth.operator(&call.fields)?;
        let key = key_of(call)?.ok_or_else(|| {
            let detail = "Send an Idempotency-Key: without one a repeated call would move the stock twice.";
            Problem::new(400, "key_required", "An idempotency key is needed", detail)
        })?;
        let Units { units: Number(units) } = read_object(call)?;
        let sku = self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?;
        let command = Command::Adjust { sku, how, units, key: key.into() };
        self.ask(call, Request::Execute(command), Waiting::Sale { sale, status: 200 })
    }

    pub(in crate::http) fn show_changed_sale(
        &mut self,
        sale: SaleId,
        status: u16,
        reply: Reply,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        if !matches!(reply, Reply::Accepted(_)) {
            return Err(other(reply));
        }
        self.write_known_sale(sale, (status, Reader::Operator), self.shared.clock.now(), out)
    }

    pub(in crate::http) fn demo_load(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let sale = self.shared.options.shop_sale.filter(|_| self.shared.options.demo);
        let sale = sale.ok_or_else(Problem::demo_only)?;
        self.shared.auth.operator(&call.fields)?;
        let Balance { balance: Number(balance) } = read_object(call)?;
        if balance > engine::limits::TOTAL_MAX / 2 {
            return Err(Problem::invalid("The balance is more than a good may have."));
        }
        self.ask(call, Request::SetBalance { sale, balance }, Waiting::Balance { balance })
    }

    pub(in crate::http) fn show_balance(
        &mut self,
        balance: u64,
        reply: Reply,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let Reply::BalanceSet { items } = reply else { return Err(other(reply)) };
        self.scratch.clear();
        Object::begin(&mut self.scratch).number("items", items as u64).number("balance", balance).end();
        out.json(200, &self.scratch);
        Ok(())
    }
}

impl NewItem {
    fn into_spec(self) -> ItemSpec {
        ItemSpec {
            product: ProductId(self.product.0),
            title: self.title,
            description: self.description,
            price: self.price.0,
            list_price: self.list_price.unwrap_or(self.price).0,
            total: self.total.0,
            limit: self.limit,
        }
    }
}

/// Who reads of a sale. How its orders go (held, sold) is the operator's business alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Anybody,
    Operator,
}

fn write_sale(out: &mut Vec<u8>, catalog: &Catalog, sale: &Sale, now: UnixMs, reader: Reader) {
    let spec = &*sale.spec;
    let phase: Phase = sale.phase(now);
    let payment_s = match spec.payment {
        Payment::WithinMs(ms) => Some(ms / MS_PER_S),
        Payment::OnPlacing => None,
    };
    let skus = &catalog.skus[sale.first_sku.0 as usize..];
    Object::begin(out)
        .number("id", spec.id.0)
        .text("title", &spec.title)
        .text("currency", &spec.currency)
        .text("state", phase.as_str())
        .number("starts_at_ms", spec.starts_at.0)
        .number("ends_at_ms", spec.ends_at.0)
        .number_or_null("payment_s", payment_s)
        .number("open_holds_per_buyer_max", u64::from(spec.open_holds_per_buyer_max.unwrap_or(0)))
        .list("items", spec.items.iter().zip(skus), |out, (item, sku)| {
            let mut object = Object::begin(out);
            object
                .number("product", item.product.0)
                .text("title", &item.title)
                .text("description", &item.description)
                .number("price", item.price)
                .number("list_price", item.list_price)
                .number("total", sku.counters.total())
                .number("available", sku.counters.available());
            if reader == Reader::Operator {
                object.number("held", sku.counters.held()).number("sold", sku.counters.sold());
            }
            object.number_or_null("limit", item.limit.map(u64::from)).end();
        })
        .end();
}
