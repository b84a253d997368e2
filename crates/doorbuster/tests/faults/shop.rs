//! The sales that every round sells, and one buyer's or operator's call to a server.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ring::hmac;
use serde_json::{Value, json};

use crate::attempt::{Answer, Attempt};
use crate::cluster::{OPERATOR, PAYMENT_SECRET};
use crate::exchange::{Connection, Response};

/// A buyer's patience. Longer than every bound of the servers; shorter than the time for which they are frozen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
const KNOWN_WITHIN: Duration = Duration::from_secs(60);
const OPERATED_WITHIN: Duration = Duration::from_secs(60);
const FEED_PAGE: u64 = 5000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) sale: u64,
    pub(crate) number: u64,
    pub(crate) price: u64,
    pub(crate) total: u64,
    pub(crate) limit: Option<u32>,
}

/// Lasts through every fault, so that a gap in selling is the fault's.
pub(crate) const PLENTY: Product = Product { sale: 51, number: 1, price: 100, total: 200_000, limit: None };
/// Sells out, and comes back by every cancelled order.
pub(crate) const FEW: Product = Product { sale: 51, number: 2, price: 700, total: 60, limit: None };
pub(crate) const LIMITED: Product = Product { sale: 51, number: 3, price: 300, total: 120, limit: Some(2) };
/// Comes back by itself: nobody has long to pay it.
pub(crate) const FLEETING: Product = Product { sale: 52, number: 4, price: 900, total: 60, limit: None };
const PRODUCTS: [Product; 4] = [PLENTY, FEW, LIMITED, FLEETING];
/// A round has two.
const SALES: u64 = 2;
pub(crate) const FLEETING_PAYMENT_S: u64 = 3;
/// The longest that a sale may give. None of these holds ends while a soak lasts: of a SKU whose holds end one after the
/// other, something is on its way at any moment, and an audit is never at rest.
const LONG_PAYMENT_S: u64 = 30 * 24 * 3600;

/// One sale after the other on the same engines: each round sells products, and has keys, of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) number: u64,
    /// Where the feed of orders stood before it.
    pub(crate) since: u64,
}

impl Round {
    /// The only one of a scenario.
    pub(crate) const FIRST: Round = Round { number: 0, since: 0 };

    pub(crate) fn products(self) -> [Product; 4] {
        PRODUCTS.map(|product| product.of_round(self.number))
    }
}

impl Product {
    pub(crate) fn of_round(self, round: u64) -> Product {
        let number = self.number + round * PRODUCTS.len() as u64;
        Product { sale: self.sale + round * SALES, number, ..self }
    }

    /// Whether this is the other one, of whichever round.
    pub(crate) fn is(self, other: Product) -> bool {
        self.number.abs_diff(other.number).is_multiple_of(PRODUCTS.len() as u64)
    }
}

/// By its number, which says its round too.
pub(crate) fn product(number: u64) -> Product {
    let place = number - 1;
    let kinds = PRODUCTS.len() as u64;
    PRODUCTS[usize::try_from(place % kinds).unwrap()].of_round(place / kinds)
}

/// An order as the ledger has it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) id: String,
    pub(crate) buyer: u64,
    pub(crate) product: u64,
    pub(crate) quantity: u64,
    pub(crate) status: String,
}

/// A connection to one server, opened when it is needed.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) server: SocketAddr,
    /// `None`: as long as it takes in a calm moment, also to read the whole ledger.
    patience: Option<Duration>,
    connection: Option<Connection>,
}

impl Caller {
    pub(crate) fn buyer(server: SocketAddr) -> Caller {
        Caller { server, patience: Some(PATIENCE), connection: None }
    }

    pub(crate) fn calm(server: SocketAddr) -> Caller {
        Caller { server, patience: None, connection: None }
    }

    pub(crate) fn go_to(&mut self, server: SocketAddr) {
        *self = Caller { server, patience: self.patience, connection: None };
    }

    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.patience {
                Some(patience) => Connection::open_patient(self.server, patience)?,
                None => Connection::open(self.server)?,
            },
        };
        let response = connection.exchange(method, path, headers, body)?;
        let closes = response.head.to_ascii_lowercase().contains("connection: close");
        self.connection = Some(connection).filter(|_| !closes);
        Ok(response)
    }

    pub(crate) fn place(&mut self, attempt: &Attempt) -> Answer {
        let buyer = attempt.buyer.to_string();
        let headers = [("memberId", buyer.as_str()), ("Idempotency-Key", &attempt.key)];
        let body = attempt.body(product(attempt.product).sale);
        Answer::of(self.call("POST", "/api/v1/orders", &headers, &body))
    }

    /// Reports a payment of what the order costs, as the provider does.
    pub(crate) fn pay(&mut self, id: &str, amount: u64) -> std::io::Result<Response> {
        let body = json!({"payment_id": format!("p-{id}"), "order": id, "amount": amount}).to_string();
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let key = hmac::Key::new(hmac::HMAC_SHA256, PAYMENT_SECRET.as_bytes());
        let tag = hmac::sign(&key, format!("{now_s}.{body}").as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let signature = format!("t={now_s},v1={hex}");
        self.call("POST", "/api/v1/payments", &[("Doorbuster-Signature", &signature)], &body)
    }

    pub(crate) fn cancel(&mut self, id: &str, buyer: u64) -> std::io::Result<Response> {
        let headers = [("memberId", buyer.to_string())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.call("POST", &format!("/api/v1/orders/{id}/cancel"), &headers, "")
    }

    /// The order's status as its buyer reads it, waiting so long for one that is pending.
    pub(crate) fn status(&mut self, id: &str, buyer: u64, wait_s: u64) -> std::io::Result<Response> {
        let headers = [("memberId", buyer.to_string())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.call("GET", &format!("/api/v1/orders/{id}?wait={wait_s}"), &headers, "")
    }

    /// As an operator, who asks again while the outcome is unknown.
    fn operate(&mut self, method: &str, path: &str, body: &str) -> Value {
        let authorization = format!("Bearer {OPERATOR}");
        let deadline = Instant::now() + OPERATED_WITHIN;
        loop {
            let response = self.call(method, path, &[("Authorization", &authorization)], body).unwrap();
            if (200..300).contains(&response.status) {
                return response.json();
            }
            let again = response.status == 503 && Instant::now() < deadline;
            assert!(again, "{method} {path}: {response:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn create_sales(&mut self, round: Round) {
        let item = |product: Product| {
            let Product { number, price, total, limit, .. } = product;
            let title = format!("Product {number}");
            json!({"product": number, "title": title, "price": price, "list_price": price, "total": total, "limit": limit})
        };
        for (kind, payment_s) in [(PLENTY, LONG_PAYMENT_S), (FLEETING, FLEETING_PAYMENT_S)] {
            let sale = kind.of_round(round.number).sale;
            let items: Vec<Value> =
                round.products().into_iter().filter(|product| product.sale == sale).map(item).collect();
            let spec = json!({
                "id": sale, "title": "Rush", "currency": "EUR", "starts_at_ms": 0,
                "ends_at_ms": 9_999_999_999_999_u64, "payment_s": payment_s, "open_holds_per_buyer_max": 0,
                "items": items,
            });
            self.operate("POST", "/api/v1/sales", &spec.to_string());
        }
    }

    /// A sale that nobody buys from: over, or still to come.
    pub(crate) fn create_idle_sale(&mut self, sale: u64, items: u64, over: bool) {
        let item = |number: u64| json!({"product": sale * 100_000 + number, "title": "P", "price": 1, "list_price": 1, "total": 9, "limit": null});
        let (starts_at_ms, ends_at_ms) =
            if over { (0, 1) } else { (9_999_999_999_998_u64, 9_999_999_999_999_u64) };
        let spec = json!({
            "id": sale, "title": "Idle", "currency": "EUR", "starts_at_ms": starts_at_ms, "ends_at_ms": ends_at_ms,
            "payment_s": LONG_PAYMENT_S, "open_holds_per_buyer_max": 0, "items": (0..items).map(item).collect::<Vec<_>>(),
        });
        self.operate("POST", "/api/v1/sales", &spec.to_string());
    }

    /// Another server learns of a new sale a moment later.
    pub(crate) fn wait_for_sales(&mut self, round: Round) {
        let deadline = Instant::now() + KNOWN_WITHIN;
        for kind in [PLENTY, FLEETING] {
            let sale = kind.of_round(round.number).sale;
            let path = format!("/api/v1/sales/{sale}");
            while self.call("GET", &path, &[], "").unwrap().status != 200 {
                assert!(Instant::now() < deadline, "sale {sale} is not known within {KNOWN_WITHIN:?}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Every order of a round in the ledger, from the feed for the shop's fulfilment.
    pub(crate) fn orders(&mut self, round: Round) -> Vec<Line> {
        self.read_feed(round).0
    }

    /// Where the next round's part of the feed begins.
    pub(crate) fn end_of_feed(&mut self, round: Round) -> u64 {
        self.read_feed(round).1
    }

    fn read_feed(&mut self, round: Round) -> (Vec<Line>, u64) {
        let (mut lines, mut since) = (std::collections::HashMap::new(), round.since);
        let numbers = round.products().map(|product| product.number);
        loop {
            let page = self.operate("GET", &format!("/api/v1/orders?since={since}&limit={FEED_PAGE}"), "");
            for line in page["orders"].as_array().unwrap().iter().map(Line::of) {
                if numbers.contains(&line.product) {
                    lines.insert(line.id.clone(), line);
                }
            }
            since = page["cursor"].as_u64().unwrap();
            if page["more"] != true {
                return (lines.into_values().collect(), since);
            }
        }
    }
}

impl Line {
    fn of(order: &Value) -> Line {
        let text = |name: &str| order[name].as_str().unwrap().to_owned();
        Line {
            id: text("id"),
            buyer: text("buyer").parse().unwrap(),
            product: order["product"].as_u64().unwrap(),
            quantity: order["quantity"].as_u64().unwrap(),
            status: text("status"),
        }
    }

    pub(crate) fn has_units(&self) -> bool {
        matches!(self.status.as_str(), "held" | "paid")
    }
}
