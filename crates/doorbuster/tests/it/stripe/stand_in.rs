//! Stands in for Stripe: keeps sessions, intents and refunds as Stripe does, refuses what Stripe would, and can be away, fail,
//! or lose its answer after it has done the work.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

pub(super) const KEY: &str = "sk_test_oftheprogramtests";

/// What happens to the next requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// Connections end without an answer, and nothing is done.
    Away,
    /// Everything is answered so.
    Status(u16),
    /// What is to be changed is changed, and the connection ends without an answer.
    Deaf,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) order: String,
    ledger: String,
    pub(super) amount: u64,
    pub(super) currency: String,
    pub(super) status: &'static str,
    pub(super) expires_at: u64,
    intent: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) order: String,
    /// `None`: it was made by hand.
    ledger: Option<String>,
    pub(super) amount: u64,
    pub(super) currency: String,
    pub(super) status: &'static str,
    pub(super) received: u64,
    /// How often it was captured: never more than once.
    pub(super) captures: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Refund {
    pub(super) intent: String,
    pub(super) amount: u64,
    pub(super) status: &'static str,
    name: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) line: String,
    pub(super) form: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) sessions: BTreeMap<String, Session>,
    pub(super) intents: BTreeMap<String, Intent>,
    pub(super) refunds: BTreeMap<String, Refund>,
    /// What was answered under an idempotency key, and to what.
    keys: BTreeMap<String, (String, u16, Value)>,
    pub(super) asked: Vec<Asked>,
    pub(super) fault: Fault,
    /// Another server that every request is repeated to, and what was wrong with those that it refused.
    pub(super) mirror: Option<SocketAddr>,
    pub(super) refused: Vec<String>,
    last: u32,
}

#[derive(Clone, Debug)]
pub(super) struct StandIn {
    pub(super) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct Request {
    method: String,
    target: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl StandIn {
    pub(super) fn start() -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stand_in = StandIn { address: listener.local_addr().unwrap(), state: Arc::default() };
        let shared = stand_in.clone();
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = shared.clone();
                thread::spawn(move || shared.serve(&stream.unwrap()));
            }
        });
        stand_in
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn set(&self, fault: Fault) {
        self.state().fault = fault;
    }

    pub(super) fn intent(&self, id: &str) -> Intent {
        self.state().intents[id].clone()
    }

    /// How the money of an intent stands: its state, what was captured, and what of that went back.
    pub(super) fn money(&self, id: &str) -> (&'static str, u64, u64) {
        let state = self.state();
        let refunds =
            state.refunds.values().filter(|refund| refund.intent == id && refund.status == "succeeded");
        (state.intents[id].status, state.intents[id].received, refunds.map(|refund| refund.amount).sum())
    }

    /// A buyer authorises the payment of an open session; its intent.
    pub(super) fn authorise(&self, session: &str) -> String {
        let mut state = self.state();
        let Session { order, ledger, amount, currency, status, .. } = state.sessions[session].clone();
        assert_eq!(status, "open", "nobody pays in a session that is over");
        let id = state.new_intent(&order, amount, &currency);
        state.intents.get_mut(&id).unwrap().ledger = Some(ledger);
        let session = state.sessions.get_mut(session).unwrap();
        (session.status, session.intent) = ("complete", Some(id.clone()));
        id
    }

    /// An intent is authorised that no session of ours has made.
    pub(super) fn authorised(&self, order: &str, amount: u64, currency: &str) -> String {
        self.state().new_intent(order, amount, currency)
    }

    /// A refund is made by hand.
    pub(super) fn refund_by_hand(&self, intent: &str, amount: u64) -> String {
        let mut state = self.state();
        let id = state.next("re");
        let refund = Refund { intent: intent.to_owned(), amount, status: "succeeded", name: None };
        state.refunds.insert(id.clone(), refund);
        id
    }

    /// A day goes by: Stripe remembers no key.
    pub(super) fn forget_keys(&self) {
        self.state().keys.clear();
    }

    /// The event about an intent as it stands.
    pub(super) fn intent_event(&self, kind: &str, id: &str) -> Value {
        event(kind, &self.state().show_intent(id))
    }

    pub(super) fn refund_event(&self, kind: &str, id: &str) -> Value {
        event(kind, &self.state().show_refund(id))
    }

    fn serve(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read(&mut reader) {
            let fault = self.state().fault;
            if fault == Fault::Away {
                return;
            }
            self.mirror(&request);
            let (status, answer) = match fault {
                Fault::Status(status) => (status, json!({ "error": { "message": "it fails" } })),
                _ => self.state().answer(&request),
            };
            if fault == Fault::Deaf && request.method == "POST" {
                return;
            }
            let body = answer.to_string();
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
        }
    }

    fn mirror(&self, request: &Request) {
        let Some(address) = self.state().mirror else { return };
        let Request { method, target, headers, body } = request;
        let mut stream = TcpStream::connect(address).unwrap();
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for name in ["authorization", "content-type", "idempotency-key"] {
            if let Some(value) = headers.get(name) {
                text += &format!("{name}: {value}\r\n");
            }
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        if !answer.starts_with("HTTP/1.1 200") {
            self.state().refused.push(format!("{method} {target} {body}: {answer}"));
        }
    }
}

fn event(kind: &str, object: &Value) -> Value {
    json!({ "id": "evt_1", "object": "event", "type": kind, "livemode": false, "data": { "object": object } })
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let mut words = lines[0].split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let headers: BTreeMap<String, String> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, target, headers, body: String::from_utf8(body).unwrap() })
}

/// Fields of a form, or of a query.
fn fields(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                byte => byte,
            });
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn refusal(code: &str) -> (u16, Value) {
    (400, json!({ "error": { "code": code, "message": "it is refused", "type": "invalid_request_error" } }))
}

impl State {
    fn next(&mut self, kind: &str) -> String {
        self.last += 1;
        format!("{kind}_{}", self.last)
    }

    fn new_intent(&mut self, order: &str, amount: u64, currency: &str) -> String {
        let id = self.next("pi");
        let (order, currency) = (order.to_owned(), currency.to_ascii_lowercase());
        let intent = Intent {
            order,
            ledger: None,
            amount,
            currency,
            status: "requires_capture",
            received: 0,
            captures: 0,
        };
        self.intents.insert(id.clone(), intent);
        id
    }

    fn show_intent(&self, id: &str) -> Value {
        let Intent { order, ledger, amount, currency, status, received, .. } = &self.intents[id];
        let mut metadata = json!({ "doorbuster_order": order });
        if let Some(ledger) = ledger {
            metadata["doorbuster_ledger"] = ledger.as_str().into();
        }
        let capturable = if *status == "requires_capture" { *amount } else { 0 };
        json!({ "id": id, "object": "payment_intent", "amount": amount, "amount_capturable": capturable,
            "amount_received": received, "currency": currency, "status": status,
            "metadata": metadata })
    }

    fn show_session(&self, id: &str) -> Value {
        let Session { status, expires_at, intent, .. } = &self.sessions[id];
        let url = (*status == "open").then(|| format!("https://checkout.example/{id}"));
        json!({ "id": id, "object": "checkout.session", "status": status, "url": url, "payment_intent": intent,
            "expires_at": expires_at })
    }

    fn show_refund(&self, id: &str) -> Value {
        let Refund { intent, amount, status, name } = &self.refunds[id];
        let metadata = name.as_ref().map_or(json!({}), |name| json!({ "doorbuster_refund": name }));
        json!({ "id": id, "object": "refund", "amount": amount, "payment_intent": intent, "status": status,
            "currency": self.intents[intent].currency, "metadata": metadata })
    }

    /// Once under one idempotency key, which is good for one request.
    fn answer(&mut self, request: &Request) -> (u16, Value) {
        let Request { method, target, headers, body } = request;
        if headers.get("authorization") != Some(&format!("Bearer {KEY}")) {
            return (401, json!({ "error": { "message": "Invalid API Key" } }));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let form = fields(if method == "GET" { query } else { body });
        self.asked.push(Asked { line: format!("{method} {path}"), form: form.clone() });
        if method == "GET" {
            return self.look(path, &form);
        }
        assert!(body.is_empty() || headers["content-type"] == "application/x-www-form-urlencoded");
        let (key, what) = (headers["idempotency-key"].clone(), format!("{path} {body}"));
        assert!(key.len() <= 255, "{key}");
        if let Some((before, status, answer)) = self.keys.get(&key) {
            assert_eq!(*before, what, "a key is for one request");
            return (*status, answer.clone());
        }
        let (status, answer) = self.change(path, &form);
        self.keys.insert(key, (what, status, answer.clone()));
        (status, answer)
    }

    fn look(&self, path: &str, form: &BTreeMap<String, String>) -> (u16, Value) {
        let missing = (404, json!({ "error": { "code": "resource_missing" } }));
        match path.split('/').collect::<Vec<_>>()[2..] {
            ["payment_intents"] => (200, json!({ "data": [], "has_more": false })),
            ["payment_intents", id] if self.intents.contains_key(id) => (200, self.show_intent(id)),
            ["checkout", "sessions", id] if self.sessions.contains_key(id) => (200, self.show_session(id)),
            ["refunds"] => {
                let of = self.refunds.iter().filter(|(_, refund)| refund.intent == form["payment_intent"]);
                let all: Vec<Value> = of.map(|(id, _)| self.show_refund(id)).collect();
                (200, json!({ "data": all, "has_more": false }))
            }
            _ => missing,
        }
    }

    fn change(&mut self, path: &str, form: &BTreeMap<String, String>) -> (u16, Value) {
        match path.split('/').collect::<Vec<_>>()[2..] {
            ["checkout", "sessions"] => self.open(form),
            ["checkout", "sessions", id, "expire"] => match self.sessions.get_mut(id) {
                Some(session) if session.status == "open" => {
                    session.status = "expired";
                    (200, self.show_session(id))
                }
                _ => refusal("session_not_open"),
            },
            ["payment_intents", id, what] => self.end(id, what, form),
            ["refunds"] => self.refund(form),
            _ => panic!("nobody asks for {path}"),
        }
    }

    fn open(&mut self, form: &BTreeMap<String, String>) -> (u16, Value) {
        assert_eq!(form["mode"], "payment");
        assert_eq!(form["payment_intent_data[capture_method]"], "manual");
        let number = |name: &str| form[name].parse::<u64>().unwrap();
        let unit = number("line_items[0][price_data][unit_amount]");
        let session = Session {
            order: form["payment_intent_data[metadata][doorbuster_order]"].clone(),
            ledger: form["payment_intent_data[metadata][doorbuster_ledger]"].clone(),
            amount: unit * number("line_items[0][quantity]"),
            currency: form["line_items[0][price_data][currency]"].clone(),
            status: "open",
            expires_at: number("expires_at"),
            intent: None,
        };
        let id = self.next("cs");
        self.sessions.insert(id.clone(), session);
        (200, self.show_session(&id))
    }

    fn end(&mut self, id: &str, what: &str, form: &BTreeMap<String, String>) -> (u16, Value) {
        let Some(intent) = self.intents.get_mut(id) else {
            return (404, json!({ "error": { "code": "resource_missing" } }));
        };
        if intent.status != "requires_capture" {
            return refusal("payment_intent_unexpected_state");
        }
        if what == "cancel" {
            intent.status = "canceled";
        } else {
            let amount: u64 = form["amount_to_capture"].parse().unwrap();
            if amount > intent.amount {
                return refusal("amount_too_large");
            }
            (intent.status, intent.received, intent.captures) = ("succeeded", amount, intent.captures + 1);
        }
        (200, self.show_intent(id))
    }

    fn refund(&mut self, form: &BTreeMap<String, String>) -> (u16, Value) {
        let (intent, amount) = (form["payment_intent"].clone(), form["amount"].parse::<u64>().unwrap());
        let found = &self.intents[&intent];
        let before: u64 =
            self.refunds.values().filter(|refund| refund.intent == intent).map(|refund| refund.amount).sum();
        if found.status != "succeeded" || before + amount > found.received {
            return refusal("charge_already_refunded");
        }
        let id = self.next("re");
        let name = form.get("metadata[doorbuster_refund]").cloned();
        self.refunds.insert(id.clone(), Refund { intent, amount, status: "succeeded", name });
        (200, self.show_refund(&id))
    }
}
