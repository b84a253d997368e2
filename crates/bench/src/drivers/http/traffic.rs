//! The requests of the benchmarks, and what their answers mean.
//!
//! Written from the API's description. The reference gets the very same bytes, so that generator and kernel do the
//! same work for both.

use std::fmt;
use std::io::Write;

use serde_json::{Value, json};

use crate::drivers::http::{Workload, once};
use crate::load::choice::Random;
use crate::load::record::Outcome;
use crate::target::token::{self, Minter};

/// Buyers are numbered from here: ten digits, so that all requests have one length.
pub(crate) const BUYER_FIRST: u64 = 1_000_000_000;

/// The published plan's goods, and users enough that two orders of one are rare.
const GOOD_FIRST: u64 = 101;
const GOODS: u64 = 1000;
const SUBMIT_USER_FIRST: u64 = 1_000_000_000;
const SUBMIT_USERS: u64 = 1_000_000_000;
const SUBMIT_SEED: u64 = 20_260_101;

/// Bytes at the beginning of a read that distinguish a page, or a figure, from an error.
const LIKE_HEAD: usize = 16;

/// Requests and the meaning of their answers.
#[derive(Debug)]
pub(crate) struct Traffic {
    requests: Requests,
    judge: fn(u16, &[u8]) -> Outcome,
    /// A read that does not begin as this one does, or has not half of its length, is counted as failed.
    sample: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Requests {
    Fixed(Vec<u8>),
    Orders(Box<OwnOrders>),
    Submits(Submits),
}

/// Orders of the own API: each by another buyer, with a token and a key of its own.
#[derive(Debug)]
pub(crate) struct OwnOrders {
    minter: Minter,
    pub(crate) buyer: u64,
    tail: String,
    request: Vec<u8>,
}

/// The sale of the own route.
pub(crate) const OWN_SALE: u64 = 7;
pub(crate) const OWN_PRODUCT: u64 = 1;

/// More than a measurement can sell.
pub(crate) const OWN_UNITS: u64 = 100_000_000;
/// No hold of a measurement may expire within it: expiring is work that is not measured.
const PAYMENT_S: u64 = 12 * 3600;
const SALE_LIFE_MS: u64 = 24 * 3600 * 1000;

/// The sale of the own route, as an operator creates it.
pub(crate) fn own_sale() -> Value {
    sale(OWN_SALE, OWN_PRODUCT, OWN_UNITS, 1)
}

/// A sale of one product that is open already.
pub(crate) fn sale(id: u64, product: u64, units: u64, limit: u64) -> Value {
    sale_of(id, "Benchmark", &[item(product, "Measured thing", units, limit)])
}

pub(crate) fn sale_of(id: u64, title: &str, items: &[Value]) -> Value {
    let now_ms = token::unix_s() * 1000;
    json!({
        "id": id, "title": title, "currency": "EUR",
        "starts_at_ms": now_ms - 1000, "ends_at_ms": now_ms + SALE_LIFE_MS,
        "payment_s": PAYMENT_S, "open_holds_per_buyer_max": 0, "items": items,
    })
}

pub(crate) fn item(product: u64, title: &str, units: u64, limit: u64) -> Value {
    json!({
        "product": product, "title": title, "price": 4999, "list_price": 9999,
        "total": units, "limit": limit,
    })
}

impl Traffic {
    /// The published order command.
    pub(crate) fn published() -> Self {
        Self::published_of(3, 29)
    }

    /// The published message command: the same body, which is no order.
    pub(crate) fn message() -> Self {
        let requests = Requests::Fixed(published("/seckillOrder/pressureMQ", 3, 29));
        Self { requests, judge: judge_message, sample: None }
    }

    /// The published order command for another product.
    pub(crate) fn published_of(sale: u64, product: u64) -> Self {
        let requests = Requests::Fixed(published_order(sale, product));
        Self { requests, judge: judge_published, sample: None }
    }

    /// The published order command for a product that has none left.
    pub(crate) fn sold_out(sale: u64, product: u64) -> Self {
        let requests = Requests::Fixed(published_order(sale, product));
        Self { requests, judge: judge_published_refusal, sample: None }
    }

    /// Orders of the own API, each by another buyer, from `buyer_first` on.
    pub(crate) fn own(secret: &str, buyer_first: u64) -> Self {
        Self::own_of(secret, OWN_SALE, buyer_first)
    }

    /// The same in another sale.
    pub(crate) fn own_of(secret: &str, sale: u64, buyer_first: u64) -> Self {
        Self {
            requests: Requests::Orders(Box::new(OwnOrders::new(secret, sale, buyer_first))),
            judge: judge_own,
            sample: None,
        }
    }

    /// Orders of the published submit-order plan: random users and goods.
    pub(crate) fn submit() -> Self {
        let requests = Requests::Submits(Submits { random: Random::new(SUBMIT_SEED), request: Vec::new() });
        Self { requests, judge: judge_submit, sample: None }
    }

    /// Answers are like the sample, if there is one: a page may be rendered again meanwhile, with another length.
    pub(crate) fn read(path: &str, fields: &[&str], sample: Option<&[u8]>) -> Self {
        Self {
            requests: Requests::Fixed(once::encode("GET", path, fields, &[])),
            judge: judge_read,
            sample: sample.map(<[u8]>::to_vec),
        }
    }

    /// A read whose every 200 is as it should be, an empty one too.
    pub(crate) fn read_any(path: &str) -> Self {
        let judge = |status, _: &[u8]| if status == 200 { Outcome::Served } else { Outcome::Failed };
        Self { requests: Requests::Fixed(once::encode("GET", path, &[], &[])), judge, sample: None }
    }
}

impl Workload for Traffic {
    fn request(&mut self) -> &[u8] {
        match &mut self.requests {
            Requests::Fixed(request) => request,
            Requests::Orders(orders) => orders.next(),
            Requests::Submits(submits) => submits.next(),
        }
    }

    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome {
        match (self.judge)(status, body) {
            Outcome::Served if self.sample.as_ref().is_some_and(|sample| !is_like(sample, body)) => {
                Outcome::Failed
            }
            outcome => outcome,
        }
    }
}

/// The same requests, sent to nginx: every 200 is as it should be.
#[derive(Debug)]
pub(crate) struct Reference<'a>(pub(crate) &'a mut Traffic);

impl Workload for Reference<'_> {
    fn request(&mut self) -> &[u8] {
        self.0.request()
    }

    fn judge(&mut self, status: u16, _body: &[u8]) -> Outcome {
        if status == 200 { Outcome::Served } else { Outcome::Failed }
    }
}

impl OwnOrders {
    pub(crate) fn new(secret: &str, sale: u64, buyer_first: u64) -> Self {
        let body = json!({
            "sale": sale, "product": OWN_PRODUCT, "quantity": 1,
            "address": {
                "name": "Ada Example", "phone": "+49 30 901820", "country": "DE", "province": "Berlin",
                "city": "Berlin", "district": "Mitte", "detail": "Unter den Linden 77, 3. OG", "post_code": "10117",
            },
        })
        .to_string();
        Self { minter: Minter::new(secret), buyer: buyer_first, tail: tail(&body), request: Vec::new() }
    }

    pub(crate) fn next(&mut self) -> &[u8] {
        self.buyer += 1;
        let Self { minter, buyer, tail, request } = self;
        request.clear();
        append_order(minter, *buyer, format_args!("Idempotency-Key: order-of-{buyer}"), tail, request);
        request
    }
}

/// Appends an order of the own API. `fields` are the others of its head; its body is in the tail, which need not be made anew for
/// each.
pub(crate) fn append_order(
    minter: &Minter,
    buyer: u64,
    fields: fmt::Arguments<'_>,
    tail: &str,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"POST /api/v1/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ");
    minter.append(buyer, out);
    out.extend_from_slice(b"\r\n");
    out.write_fmt(fields).expect("a Vec takes every write");
    out.extend_from_slice(tail.as_bytes());
}

/// Of an order of one unit, with an address.
pub(crate) fn order_tail(sale: u64, product: u64) -> String {
    tail(&format!(
        "{{\"sale\":{sale},\"product\":{product},\"quantity\":1,\"address\":{{\"name\":\"Ada Example\",\"phone\":\"+49 30 \
         901820\",\"country\":\"DE\",\"city\":\"Berlin\",\"detail\":\"Unter den Linden 77\",\"post_code\":\"10117\"}}}}"
    ))
}

fn tail(body: &str) -> String {
    format!("\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Forms of the published submit-order plan. All have one length.
#[derive(Debug)]
struct Submits {
    /// Seeded: every run asks for the same goods in the same order.
    random: Random,
    request: Vec<u8>,
}

impl Submits {
    fn next(&mut self) -> &[u8] {
        let user = SUBMIT_USER_FIRST + self.random.below(SUBMIT_USERS);
        let good = GOOD_FIRST + self.random.below(GOODS);
        let body = format!("user_id={user}&goods_id={good:04}&count=1");
        self.request.clear();
        self.request.extend_from_slice(
            format!(
                "POST /order/submit HTTP/1.1\r\nHost: localhost\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
        &self.request
    }
}

/// The body of the published load command.
pub(crate) fn published_order(sale: u64, product: u64) -> Vec<u8> {
    published("/seckillOrder/generateOrder", sale, product)
}

fn published(route: &str, sale: u64, product: u64) -> Vec<u8> {
    let body = json!({
        "flashPromotionId": sale,
        "memberReceiveAddress": {
            "city": "Shenzhen", "defaultStatus": 1, "detailAddress": "Keji South Road 12", "id": 1, "memberId": 1,
            "name": "Li Example", "phoneNumber": "18033441849", "postCode": "518000", "province": "Guangdong",
            "region": "Nanshan",
        },
        "orderId": 1, "orderItemId": 1, "payType": 3, "productId": product,
    });
    once::encode("POST", route, &["memberId: 1"], body.to_string().as_bytes())
}

fn is_like(sample: &[u8], body: &[u8]) -> bool {
    body.starts_with(&sample[..LIKE_HEAD.min(sample.len())]) && body.len() >= sample.len() / 2
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|bytes| bytes == part)
}

fn judge_published(status: u16, body: &[u8]) -> Outcome {
    match status {
        200 => Outcome::Won,
        409 => Outcome::SoldOut,
        429 => Outcome::Limited,
        // The published shape has no place for a type: the message distinguishes "unknown" from "not known".
        503 if contains(body, b"known") => Outcome::Unknown,
        503 => Outcome::Busy,
        // The server does not say how far it came, so an order may exist.
        500.. => Outcome::Unknown,
        _ => Outcome::Failed,
    }
}

fn judge_message(status: u16, body: &[u8]) -> Outcome {
    match judge_published(status, body) {
        Outcome::Won if contains(body, b"\"data\":\"success\"") => Outcome::Queued,
        Outcome::Won => Outcome::Failed,
        outcome => outcome,
    }
}

/// For a product known to be sold out, where the published route says no more than `code` 500.
fn judge_published_refusal(status: u16, body: &[u8]) -> Outcome {
    match status {
        409 | 503 if contains(body, b"\"code\":500") => Outcome::SoldOut,
        // An order for a product that has none left: the audit will say so too.
        200 => Outcome::Won,
        429 => Outcome::Limited,
        _ => Outcome::Failed,
    }
}

pub(crate) fn judge_own(status: u16, body: &[u8]) -> Outcome {
    match status {
        // 202: the broker has the order, and the ledger will.
        201 | 202 => Outcome::Won,
        409 if contains(body, b"/sold-out\"") => Outcome::SoldOut,
        409 if contains(body, b"/over-limit\"") => Outcome::OverLimit,
        429 => Outcome::Limited,
        503 if contains(body, b"/outcome-unknown\"") => Outcome::Unknown,
        503 => Outcome::Busy,
        500.. => Outcome::Unknown,
        _ => Outcome::Failed,
    }
}

fn judge_submit(status: u16, body: &[u8]) -> Outcome {
    match status {
        200 => Outcome::Won,
        _ => judge_own(status, body),
    }
}

fn judge_read(status: u16, body: &[u8]) -> Outcome {
    if status == 200 && !body.is_empty() { Outcome::Served } else { Outcome::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_orders_differ_in_buyer_token_and_key_and_have_one_length() {
        let mut traffic = Traffic::own("secret", BUYER_FIRST);
        let first = String::from_utf8(traffic.request().to_vec()).unwrap();
        let second = String::from_utf8(traffic.request().to_vec()).unwrap();
        let field = |request: &str, name: &str| {
            request.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned).unwrap()
        };
        for name in ["Authorization: Bearer ", "Idempotency-Key: "] {
            assert_ne!(field(&first, name), field(&second, name));
        }
        assert_eq!(first.len(), second.len());
        let (head, body) = first.split_once("\r\n\r\n").unwrap();
        assert_eq!(field(head, "Content-Length: ").parse(), Ok(body.len()));
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["sale"], &body["quantity"]), (&json!(7), &json!(1)));
    }

    #[test]
    fn submitted_forms_ask_for_all_goods_and_have_one_length() {
        let mut traffic = Traffic::submit();
        let mut goods = std::collections::BTreeSet::new();
        let bytes = traffic.request().len();
        for _ in 0..20_000 {
            let request = String::from_utf8(traffic.request().to_vec()).unwrap();
            assert_eq!(request.len(), bytes, "{request}");
            let (_, good) = request.split_once("goods_id=").unwrap();
            goods.insert(good.split_once('&').unwrap().0.parse::<u64>().unwrap());
        }
        assert_eq!((goods.first(), goods.last(), goods.len()), (Some(&101), Some(&1100), 1000));
        assert_eq!(traffic.judge(200, b"id"), Outcome::Won);
        assert_eq!(traffic.judge(409, b"/sold-out\""), Outcome::SoldOut);
    }

    #[test]
    fn answers_are_judged_by_their_meaning() {
        let own = |status, body: &str| Traffic::own("s", BUYER_FIRST).judge(status, body.as_bytes());
        assert_eq!((own(201, "{}"), own(202, "{}")), (Outcome::Won, Outcome::Won));
        assert_eq!(own(409, r#"{"type":"https://x/sold-out"}"#), Outcome::SoldOut);
        assert_eq!(own(409, r#"{"type":"https://x/over-limit"}"#), Outcome::OverLimit);
        assert_eq!(own(409, r#"{"type":"https://x/key-conflict"}"#), Outcome::Failed);
        assert_eq!(own(503, r#"{"type":"https://x/outcome-unknown"}"#), Outcome::Unknown);
        assert_eq!(own(503, "{}"), Outcome::Busy);
        assert_eq!(own(429, ""), Outcome::Limited);
        assert_eq!(own(401, ""), Outcome::Failed);
        assert_eq!(own(500, ""), Outcome::Unknown);
        let published = |status, body: &str| Traffic::published().judge(status, body.as_bytes());
        assert_eq!(published(200, "{}"), Outcome::Won);
        assert_eq!(published(503, "busy, try again"), Outcome::Busy);
        assert_eq!(published(503, "it is not known whether this happened"), Outcome::Unknown);
        assert_eq!((published(500, ""), published(404, "")), (Outcome::Unknown, Outcome::Failed));
        let refused = |status| Traffic::sold_out(9, 90).judge(status, br#"{"code":500}"#);
        assert_eq!(
            (refused(409), refused(503), refused(200)),
            (Outcome::SoldOut, Outcome::SoldOut, Outcome::Won)
        );
        let head = "<!doctype html><title>Product 29</title>";
        let [shown, rendered_again] = [1, 20].map(|age| {
            format!("{head}<p>{age} s old, and all that a page of a product says beside it</p></html>")
        });
        let page = |body: &[u8]| Traffic::read("/", &[], Some(shown.as_bytes())).judge(200, body);
        assert_eq!(
            (page(shown.as_bytes()), page(rendered_again.as_bytes())),
            (Outcome::Served, Outcome::Served)
        );
        for wrong in ["<html><title>Welcome</title></html>", "", "<!doctype html>", head, &shown[1..]] {
            assert_eq!(page(wrong.as_bytes()), Outcome::Failed, "{wrong}");
        }
    }
}
