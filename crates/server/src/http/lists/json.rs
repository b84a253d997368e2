//! Sales and items as JSON, a page of them at a time.

use std::ops::Range;

use engine::{BeaconTerms, GroupName, LineAccess, LineTerms, Opening, Payment, UnixMs};
use serde_json::{Value, json};

use super::page::SIZE_DEFAULT;
use crate::beacon::is_unasked;
use crate::http::wire::{EXACT_MAX, Object};
use crate::intake::catalog::{Catalog, Sale, Sku};
use crate::pages::Pages;

/// Items of a sale in a list of sales; its own page has the others.
const LISTED_ITEMS: u32 = 6;
/// A page ends before what would make it longer than this, if it has anything.
pub(super) const PAGE_BYTES_MAX: usize = 64 * 1024;

/// Who reads of a sale. How its orders go (held, sold) is the operator's business alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Reader {
    Anybody,
    Operator,
}

/// What is written, and for whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Showing<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) now: UnixMs,
    pub(super) reader: Reader,
    /// That this server asks for draws.
    pub(super) beacon: Option<&'a BeaconTerms>,
    /// To pay, of a sale that is made without saying it; `None`: it is not to be written.
    pub(super) payment_default_ms: Option<u64>,
}

/// Appends sales, the newest first, as far as they fit. Calls `shown` for each with the SKUs that are in it, before
/// their stock is read.
pub(super) fn write_sales(
    out: &mut Vec<u8>,
    showing: Showing<'_>,
    places: impl Iterator<Item = u32>,
    size: u8,
    mut shown: impl FnMut(Range<u32>),
) {
    let mut places = places.peekable();
    let mut object = Object::begin(out);
    let list = object.value("sales");
    list.push(b'[');
    let begun = list.len();
    let mut next = None;
    for count in 0.. {
        let Some(place) = places.peek().copied() else { break };
        next = Some(u64::from(place) + 1);
        if count == size {
            break;
        }
        let before = list.len();
        if before > begun {
            list.push(b',');
        }
        let sale = &showing.catalog.sales[place as usize];
        shown(skus_of(sale, 0, LISTED_ITEMS));
        write_sale(list, showing, sale, (0, LISTED_ITEMS));
        if before > begun && list.len() - begun > PAGE_BYTES_MAX {
            list.truncate(before);
            break;
        }
        places.next();
        next = None;
    }
    list.push(b']');
    object.number_or_null("next_cursor", next);
    if showing.reader == Reader::Operator {
        object.number("next_id", showing.catalog.next_id(EXACT_MAX));
        object.number_or_null("largest_total", showing.catalog.largest_total());
        if let Some(ms) = showing.payment_default_ms {
            object.number("payment_default_s", ms / 1000);
        }
    }
    object.end();
}

/// The SKUs of so many items of a sale.
pub(super) fn skus_of(sale: &Sale, from: u32, size: u32) -> Range<u32> {
    let items = u32::try_from(sale.spec.items.len()).expect("a sale has at most 10,000 items");
    let first = sale.first_sku.0;
    first + from.min(items)..first + from.saturating_add(size).min(items)
}

/// Appends a sale with the page of its items that has this one.
pub(in crate::http) fn write_sale_with(
    out: &mut Vec<u8>,
    (catalog, sale): (&Catalog, &Sale),
    item: usize,
    (now, beacon): (UnixMs, Option<&BeaconTerms>),
) {
    let item = u32::try_from(item).expect("a sale has at most 10,000 items");
    let size = u32::from(SIZE_DEFAULT);
    let showing = Showing { catalog, now, reader: Reader::Operator, beacon, payment_default_ms: None };
    write_sale(out, showing, sale, (item - item % size, size));
}

/// Appends a sale with `size` of its items, or as many as fit.
pub(super) fn write_sale(out: &mut Vec<u8>, showing: Showing<'_>, sale: &Sale, (from, size): (u32, u32)) {
    let spec = &*sale.spec;
    let payment_s = match spec.payment {
        Payment::WithinMs(ms) => Some(ms / 1000),
        Payment::OnPlacing => None,
    };
    let mut object = Object::begin(out);
    object
        .number("id", spec.id.0)
        .text("title", &spec.title)
        .text("currency", &spec.currency)
        .text("state", sale.phase(showing.now).as_str())
        .number("starts_at_ms", spec.starts_at.0)
        .number("ends_at_ms", spec.ends_at.0)
        .number_or_null("payment_s", payment_s)
        .number("open_holds_per_buyer_max", u64::from(spec.open_holds_per_buyer_max.unwrap_or(0)));
    let list = object.value("items");
    list.push(b'[');
    let begun = list.len();
    let skus = skus_of(sale, from, size);
    let mut end = skus.start;
    for sku in skus {
        let before = list.len();
        if before > begun {
            list.push(b',');
        }
        write_item(list, showing, sale, sku);
        if before > begun && list.len() - begun > PAGE_BYTES_MAX {
            list.truncate(before);
            break;
        }
        end = sku + 1;
    }
    list.push(b']');
    let next = u64::from(end - sale.first_sku.0);
    let total = spec.items.len() as u64;
    object.number("items_total", total);
    object.number_or_null("items_next_cursor", (next < total).then_some(next));
    object.end();
}

fn write_item(out: &mut Vec<u8>, showing: Showing<'_>, sale: &Sale, sku: u32) {
    let item = &sale.spec.items[(sku - sale.first_sku.0) as usize];
    let Sku { counters, board, .. } = &showing.catalog.skus[sku as usize];
    let mut object = Object::begin(out);
    object
        .number("product", item.product.0)
        .text("title", &item.title)
        .text("description", &item.description)
        .number("price", item.price)
        .number("list_price", item.list_price)
        .number("total", counters.total())
        .number("available", counters.available())
        .number("turns", counters.turns());
    if showing.reader == Reader::Operator {
        object.number("held", counters.held()).number("sold", counters.sold());
    }
    object.number_or_null("limit", item.limit.map(u64::from));
    match &item.image {
        None => {
            object.raw("image", b"null");
        }
        Some(image) => {
            let url = Pages::image_path(sale.spec.id.0, item.product.0, &image.name);
            Object::begin(object.value("image"))
                .text("name", &image.name)
                .text("alt", &image.alt)
                .text("url", &url)
                .end();
        }
    }
    if let Some(LineTerms { units, turn_ms, grace_ms, close_ms, beacon, access }) = item.line {
        let mut line = Object::begin(object.value("line"));
        line.number("units", units.into())
            .number("turn_s", turn_ms / 1000)
            .number("grace_s", grace_ms / 1000)
            .number("close_s", close_ms / 1000)
            .flag("beacon", beacon.is_some());
        match access {
            None => line.raw("access", b"null"),
            Some(access) => line.raw("access", access_json(&access).to_string().as_bytes()),
        };
        line.end();
    }
    let now = board.as_ref().filter(|_| showing.reader == Reader::Operator);
    if let Some((line, (_, message))) = now.and_then(|board| board.read().zip(board.message())) {
        Object::begin(object.value("line_now"))
            .number_or_null("pace_max_per_s", line.pace_max.map(u64::from))
            .text("message", &message)
            .number("promised", line.promised)
            .number("joined", line.joined.into())
            .flag("beacon_not_configured", is_unasked(showing.beacon, &line, sale.phase(showing.now)))
            .end();
    }
    object.end();
}
fn access_json(access: &LineAccess) -> Value {
    let before_s = |opening| match opening {
        Opening::Always => None,
        Opening::BeforeStart { ms } => Some(ms / 1000),
    };
    let group =
        |(name, opening): (GroupName, _)| json!({ "name": name.as_str(), "before_s": before_s(opening) });
    let others = access.others().map(|opening| json!({ "before_s": before_s(opening) }));
    json!({ "groups": access.groups().map(group).collect::<Vec<_>>(), "others": others })
}
