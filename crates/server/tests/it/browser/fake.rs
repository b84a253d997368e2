//! The real pages over a scripted API: a shop whose answers can be lost, delayed or refused at will.
//!
//! It keeps the two rules that the page relies on: a known key gets its first answer again, before any
//! fault or refusal is decided, and the clock is the server's. It checks nothing else.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::pages::{
    AddressAsked, Branding, CONTENT_SECURITY_POLICY, ItemView, Languages, Links, Pages, Rendered, SaleState,
    SaleView, Session, Settings,
};

/// Half a year off the real time, so that a page that trusts the browser's clock is found out.
const EPOCH_MS: u64 = 1_780_000_000_000;
const PAYMENT_TIME_MS: u64 = 900_000;
pub(crate) const SALE: u64 = 3;
pub(crate) const PRODUCT: u64 = 30;

/// What happens to the next request that places an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is placed, but the connection breaks before the answer.
    LoseAnswer,
    /// The connection breaks before anything was done.
    LoseRequest,
    /// It is placed, and answered as usual once the test has set `released`.
    HoldAnswer,
    /// 503 `outcome_unknown`, though it was placed.
    Unknown,
    /// 503 `busy` with `Retry-After: 1`; not placed.
    Busy,
    /// 409 with this code; not placed.
    Refuse(&'static str),
    /// The page shows another than this one.
    OtherPrice(u64),
}

/// Everything that a test sets or looks at.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) phase: &'static str,
    pub(crate) starts_at_ms: u64,
    pub(crate) ends_at_ms: u64,
    pub(crate) total: u64,
    pub(crate) available: u64,
    pub(crate) limit: Option<u32>,
    /// Pages are rendered with the stock as it is, not as a CDN would hold it.
    pub(crate) rendered_fresh: bool,
    /// The API can't be reached; what is in the browser stays there.
    pub(crate) unreachable: bool,
    pub(crate) faults: VecDeque<Fault>,
    /// When no other is left: of every request, until the test ends it.
    pub(crate) lasting: Option<Fault>,
    /// Lets held answers go.
    pub(crate) released: bool,
    /// By id.
    pub(crate) orders: HashMap<String, Value>,
    /// Key and body of every request that wanted to place an order, in order of arrival.
    pub(crate) placings: Vec<(String, String)>,
    /// `Authorization` of the latest request to the API.
    pub(crate) authorization: String,
    ids_by_key: HashMap<String, String>,
    /// Orders have no address, and are given one.
    pub(crate) address_after: bool,
}

/// A running shop. Dropping it stops the listener.
pub(crate) struct FakeShop {
    pub(crate) base: String,
    shop: Arc<Shop>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

struct Shop {
    pages: Pages,
    started: Instant,
    stopping: AtomicBool,
    state: Mutex<State>,
}

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

enum Reply {
    Page(u16, Rendered),
    Json(u16, Value),
    RetryAfter(Value),
    /// The connection is closed without a word.
    None,
}

impl FakeShop {
    /// A live sale of 100 units with a limit of one.
    pub(crate) fn start() -> FakeShop {
        FakeShop::with_session(Session::Demo)
    }

    pub(crate) fn with_session(session: Session) -> FakeShop {
        FakeShop::with_branding(session, Branding::default())
    }

    pub(crate) fn with_branding(session: Session, branding: Branding) -> FakeShop {
        FakeShop::with_settings(Settings {
            shop: "Doorbuster".into(),
            session,
            demo_pay: true,
            address_asked: AddressAsked::Before,
            refused_without_script: None,
            verification_url: None,
            branding,
            languages: Languages::built_in(),
        })
    }

    pub(crate) fn with_settings(settings: Settings) -> FakeShop {
        let pages = Pages::new(settings);
        let state = State {
            phase: "live",
            starts_at_ms: EPOCH_MS - 1000,
            ends_at_ms: EPOCH_MS + 3_600_000,
            total: 100,
            available: 100,
            limit: Some(1),
            rendered_fresh: false,
            unreachable: false,
            faults: VecDeque::new(),
            lasting: None,
            released: false,
            orders: HashMap::new(),
            placings: Vec::new(),
            authorization: String::new(),
            ids_by_key: HashMap::new(),
            address_after: false,
        };
        let shop = Arc::new(Shop {
            pages,
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            state: Mutex::new(state),
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let accepting = Arc::clone(&shop);
        let acceptor = std::thread::spawn(move || accept(&listener, &accepting));
        FakeShop { base: format!("http://{address}"), shop, address, acceptor: Some(acceptor) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shop.state.lock().expect("no request panicked")
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.shop.now_ms()
    }
}

impl Drop for FakeShop {
    fn drop(&mut self) {
        self.shop.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor, which then sees the flag. It may have gone already.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().expect("the acceptor does not panic");
        }
    }
}

fn accept(listener: &TcpListener, shop: &Arc<Shop>) {
    for stream in listener.incoming() {
        if shop.stopping.load(Ordering::SeqCst) {
            return;
        }
        let (Ok(stream), shop) = (stream, Arc::clone(shop)) else { continue };
        std::thread::spawn(move || serve(stream, &shop));
    }
}

/// One request per connection: a lost answer then looks the same every time.
fn serve(mut stream: TcpStream, shop: &Shop) {
    // A browser opens connections that it never uses, and leaves others half way.
    let Some(request) = read_request(&mut stream) else { return };
    let (status, kind, body, more) = match shop.answer(&request) {
        Reply::None => return,
        Reply::Page(status, page) => (status, page.content_type, page.body, ""),
        Reply::Json(status, Value::Null) => (status, "application/json", Vec::new(), ""),
        Reply::Json(status, value) => (status, "application/json", value.to_string().into_bytes(), ""),
        Reply::RetryAfter(value) => {
            (503, "application/problem+json", value.to_string().into_bytes(), "Retry-After: 1\r\n")
        }
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: {CONTENT_SECURITY_POLICY}\r\n{more}Connection: close\r\n\r\n",
        body.len()
    );
    // The page may be gone by now (a reload in mid-order): nobody is left to be answered.
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
}

pub(crate) fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let head_end = loop {
        let read = stream.read(&mut chunk).ok().filter(|&read| read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while bytes.len() < head_end + 4 + length {
        let read = stream.read(&mut chunk).ok().filter(|&read| read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
    }
    let body = String::from_utf8(bytes[head_end + 4..].to_vec()).ok()?;
    Some(Request { method: first.next()?.to_owned(), target: first.next()?.to_owned(), headers, body })
}

impl Shop {
    fn now_ms(&self) -> u64 {
        EPOCH_MS + u64::try_from(self.started.elapsed().as_millis()).expect("a test takes no centuries")
    }

    fn answer(&self, request: &Request) -> Reply {
        let path = request.target.split('?').next().unwrap_or_default();
        if let Some(api) = path.strip_prefix("/api/v1/") {
            if self.state.lock().expect("no request panicked").unreachable {
                return Reply::None;
            }
            return self.api(request, api);
        }
        if let Some(asset) = self.pages.asset(path) {
            return Reply::Page(200, asset.clone());
        }
        let sale = self.sale();
        let header = |name| request.headers.get(name).map(String::as_str);
        let language = self.pages.languages().for_reader(header("cookie"), header("accept-language"));
        match path {
            "/" => Reply::Page(200, self.pages.index(language, &[sale], &Links::default())),
            "/api" => Reply::Page(200, self.pages.api()),
            "/orders" => Reply::Page(200, self.pages.orders(language)),
            _ if path.starts_with("/orders/") => Reply::Page(200, self.pages.order(language)),
            _ if path == format!("/{}", Pages::sale_file_name(SALE, PRODUCT)) => {
                Reply::Page(200, self.pages.sale(language, &sale, &sale.items[0]))
            }
            "/no-script" => {
                Reply::Page(200, without_scripts(self.pages.sale(language, &sale, &sale.items[0])))
            }
            _ => Reply::Page(404, self.pages.not_found(language)),
        }
    }

    fn api(&self, request: &Request, api: &str) -> Reply {
        let mut state = self.state.lock().expect("no request panicked");
        state.authorization = request.headers.get("authorization").cloned().unwrap_or_default();
        let now_ms = self.now_ms();
        match (request.method.as_str(), api) {
            ("GET", "time") => Reply::Json(200, json!({ "now_ms": now_ms })),
            ("GET", "stock") => Reply::Json(200, state.stock(now_ms)),
            ("GET", "openapi.json") => Reply::Json(200, openapi()),
            ("POST", "demo/session") => Reply::Json(204, Value::Null),
            ("POST", "orders") => {
                let key = request.headers.get("idempotency-key").cloned().unwrap_or_default();
                state.placings.push((key.clone(), request.body.clone()));
                let fault = state.faults.pop_front().or(state.lasting);
                let reply = state.place(&key, &request.body, fault, now_ms);
                drop(state);
                if fault == Some(Fault::HoldAnswer) {
                    self.wait_for_release();
                }
                reply
            }
            (method, other) => state.order(method, other, &request.body),
        }
    }

    fn wait_for_release(&self) {
        while !self.stopping.load(Ordering::SeqCst) {
            if self.state.lock().expect("no request panicked").released {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Rendered as a CDN would hold it: with the state and stock of long ago.
    fn sale(&self) -> SaleView {
        let state = self.state.lock().expect("no request panicked");
        let phase = match state.phase {
            "live" if state.starts_at_ms <= self.now_ms() => SaleState::Live,
            "ended" => SaleState::Ended,
            _ => SaleState::NotStarted,
        };
        let item = ItemView {
            product: PRODUCT,
            title: "Aurora phone".into(),
            description:
                "Two lenses, three days of battery, a screen like the northern sky. One hundred made.".into(),
            price: 499_900,
            list_price: Some(699_900),
            total: state.total,
            available: if state.rendered_fresh { state.available } else { state.total },
            limit: state.limit,
            line: None,
            image: None,
        };
        SaleView {
            id: SALE,
            title: "Opening night".into(),
            currency: "EUR".into(),
            state: phase,
            starts_at_ms: state.starts_at_ms,
            ends_at_ms: state.ends_at_ms,
            ended_early: false,
            payment_time_ms: PAYMENT_TIME_MS,
            items: vec![item],
            items_total: 1,
        }
    }
}

impl State {
    fn stock(&self, now_ms: u64) -> Value {
        let phase =
            if self.phase == "live" && now_ms < self.starts_at_ms { "not_started" } else { self.phase };
        json!({
            "state": phase, "available": self.available, "total": self.total, "now_ms": now_ms,
            "starts_at_ms": self.starts_at_ms, "ends_at_ms": self.ends_at_ms, "price": 499_900, "currency": "EUR",
        })
    }

    fn place(&mut self, key: &str, body: &str, fault: Option<Fault>, now_ms: u64) -> Reply {
        match fault {
            Some(Fault::LoseRequest) => return Reply::None,
            Some(Fault::Busy) => return Reply::RetryAfter(problem(503, "busy")),
            Some(Fault::Refuse(code)) => return Reply::Json(409, problem(409, code)),
            Some(Fault::OtherPrice(price)) => {
                let mut changed = problem(409, "price_changed");
                changed["unit_price"] = price.into();
                return Reply::Json(409, changed);
            }
            _ => {}
        }
        if !self.ids_by_key.contains_key(key) && self.available == 0 {
            return Reply::Json(409, problem(409, "sold_out"));
        }
        let id = self.ids_by_key.get(key).cloned().unwrap_or_else(|| self.new_order(key, body, now_ms));
        match fault {
            Some(Fault::LoseAnswer) => Reply::None,
            Some(Fault::Unknown) => Reply::RetryAfter(problem(503, "outcome_unknown")),
            _ => Reply::Json(201, self.orders[&id].clone()),
        }
    }

    fn new_order(&mut self, key: &str, body: &str, now_ms: u64) -> String {
        let wanted: Value = serde_json::from_str(body).expect("the page sends JSON");
        let quantity = wanted["quantity"].as_u64().expect("the page sends a quantity");
        let id = format!("{:040x}", self.orders.len() + 0xabc);
        self.available -= quantity;
        let mut order = json!({
            "id": id, "sale": wanted["sale"], "product": wanted["product"], "buyer": "1", "quantity": quantity,
            "unit_price": 499_900, "amount": 499_900 * quantity, "currency": "EUR", "status": "held",
            "placed_at_ms": now_ms, "pay_by_ms": now_ms + PAYMENT_TIME_MS, "closed_at_ms": null,
            "refund_due": false,
        });
        if self.address_after {
            order["address"] = Value::Null;
        }
        self.orders.insert(id.clone(), order);
        self.ids_by_key.insert(key.to_owned(), id.clone());
        id
    }

    /// `GET orders/{id}`, and what gives it an address: nothing else is asked of an order here.
    fn order(&mut self, method: &str, api: &str, body: &str) -> Reply {
        let (_, named) = api.split_once('/').unwrap_or_default();
        let (id, what) = named.split_once('/').unwrap_or((named, ""));
        match (self.orders.get_mut(id), method, what) {
            (Some(order), "GET", "") => Reply::Json(200, order.clone()),
            (Some(order), "POST", "address") if order["address"].is_null() => {
                order["address"] = serde_json::from_str(body).expect("the page sends JSON");
                Reply::Json(200, order.clone())
            }
            (Some(_), "POST", "address") => Reply::Json(409, problem(409, "address_given")),
            _ => Reply::Json(404, problem(404, "not_found")),
        }
    }
}

/// As a browser shows it that runs none.
fn without_scripts(mut page: Rendered) -> Rendered {
    let text = String::from_utf8(page.body).expect("a page is text");
    page.body = text.replace("type=\"module\"", "type=\"text/plain\"").into_bytes();
    page
}

fn problem(status: u16, code: &str) -> Value {
    json!({
        "type": format!("https://doorbuster.dev/problems/{}", code.replace('_', "-")),
        "title": code, "status": status, "detail": format!("Refused: {code}."), "code": code,
    })
}

/// As much of a document as uses each feature that the page draws.
fn openapi() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Doorbuster", "version": "1" },
        "paths": {
            "/api/v1/orders": { "post": {
                "tags": ["Orders"], "summary": "Place an order", "operationId": "placeOrder",
                "security": [{ "buyer": [] }],
                "parameters": [{ "$ref": "#/components/parameters/Key" }],
                "requestBody": { "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/NewOrder" } } } },
                "responses": { "201": { "description": "Accepted." }, "409": { "description": "Refused." } },
            } },
            "/api/v1/time": { "get": {
                "tags": ["Sales"], "summary": "The server's clock",
                "responses": { "200": { "description": "Now.", "content": { "application/json": {
                    "example": { "now_ms": 1 } } } } },
            } },
        },
        "components": {
            "parameters": { "Key": {
                "name": "Idempotency-Key", "in": "header", "required": true, "schema": { "type": "string" },
                "description": "The buyer's name for one attempt.",
            } },
            "schemas": { "NewOrder": { "type": "object", "required": ["sale"], "properties": {
                "sale": { "type": "integer", "minimum": 0 },
                "note": { "type": "string", "description": "<b>text, not markup</b>" },
            } } },
        },
    })
}
