//! The real console over a scripted API: figures that come late, again or not at all, answers that are lost, other servers.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::pages::{
    AddressAsked, Branding, CONTENT_SECURITY_POLICY, Languages, Pages, Rendered, Session, Settings,
};

use super::fake::{Request, read_request};

/// Of every sample: its clock stands.
pub(crate) const NOW_MS: u64 = 1_780_000_000_000;
pub(crate) const SALE: u64 = 3;
pub(crate) const TITLE: &str = "Opening <b>night</b>";
const REPEATED_EVERY: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(10);

/// Everything that a test sets or looks at.
#[derive(Debug)]
pub(crate) struct State {
    /// What the session's call answers; `None`: nothing.
    pub(crate) session: Option<Value>,
    /// The latest sample; [`FakeConsole::sample`] makes the next.
    pub(crate) figures: Value,
    /// `None`: every stream says that they are of now.
    taken_at: Option<Instant>,
    /// Grows with each change.
    samples: u64,
    /// As a server does it: what did not change is a sample of now again and again. Without it figures grow old.
    pub(crate) repeats: bool,
    /// Streams that were begun.
    pub(crate) streams: u64,
    /// Once they have begun with the latest sample, and a moment later.
    pub(crate) streams_end_at_once: bool,
    /// Grows when all streams are to end.
    ended: u64,
    /// Presses are done, and not answered.
    pub(crate) silent: bool,
    /// What a press is answered; `None`: that it is done.
    pub(crate) refusal: Option<(u16, Value)>,
    /// Key, body and path of each press, in order of arrival.
    pub(crate) presses: Vec<(String, String, String)>,
    /// What else is there, by its path.
    pub(crate) answers: BTreeMap<String, Value>,
    /// So many more calls for the history find it busy.
    pub(crate) history_busy: u64,
    pub(crate) history: Value,
}

pub(crate) struct FakeConsole {
    pub(crate) url: String,
    server: Arc<Server>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

struct Server {
    pages: Pages,
    stopping: AtomicBool,
    state: Mutex<State>,
}

impl FakeConsole {
    /// One sale that sells, and an admin who is signed in.
    pub(crate) fn start() -> FakeConsole {
        let pages = Pages::new(Settings {
            shop: "Doorbuster".into(),
            session: Session::Demo,
            demo_pay: true,
            address_asked: AddressAsked::Before,
            refused_without_script: None,
            verification_url: None,
            branding: Branding::default(),
            languages: Languages::built_in(),
        });
        let state = State {
            session: Some(session("admin")),
            figures: figures(),
            taken_at: None,
            samples: 0,
            repeats: false,
            streams: 0,
            streams_end_at_once: false,
            ended: 0,
            silent: false,
            refusal: None,
            presses: Vec::new(),
            answers: BTreeMap::new(),
            history_busy: 0,
            history: history(1_000, 0..60),
        };
        let server = Arc::new(Server { pages, stopping: AtomicBool::new(false), state: Mutex::new(state) });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let accepting = Arc::clone(&server);
        let acceptor = std::thread::spawn(move || accept(&listener, &accepting));
        FakeConsole { url: format!("http://{address}/console"), server, address, acceptor: Some(acceptor) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.server.state()
    }

    /// The next sample, with these fields in the place of others, as JSON pointers name them.
    pub(crate) fn sample(&self, changes: &[(&str, Value)]) {
        self.sample_taken(None, changes);
    }

    /// The same of one that was taken then.
    pub(crate) fn sample_taken(&self, taken_at: Option<Instant>, changes: &[(&str, Value)]) {
        let mut state = self.state();
        for (pointer, value) in changes {
            let field = state.figures.pointer_mut(pointer);
            *field.unwrap_or_else(|| panic!("no {pointer} in the figures")) = value.clone();
        }
        state.samples += 1;
        state.taken_at = taken_at;
        state.figures["number"] = state.samples.into();
    }

    pub(crate) fn end_streams(&self) {
        self.state().ended += 1;
    }
}

impl Drop for FakeConsole {
    fn drop(&mut self) {
        self.server.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor, which then sees the flag. It may have gone already.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().expect("the acceptor does not panic");
        }
    }
}

pub(crate) fn session(role: &str) -> Value {
    json!({ "signed_in": true, "until_ms": NOW_MS + 3_600_000, "operator": "otto", "role": role })
}

pub(crate) fn no_session() -> Value {
    json!({ "signed_in": false, "until_ms": null, "operator": null, "role": null })
}

fn accept(listener: &TcpListener, server: &Arc<Server>) {
    for stream in listener.incoming() {
        if server.stopping.load(Ordering::SeqCst) {
            return;
        }
        let (Ok(stream), server) = (stream, Arc::clone(server)) else { continue };
        std::thread::spawn(move || server.serve(stream));
    }
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no request panicked")
    }

    fn serve(&self, mut stream: TcpStream) {
        // A browser opens connections that it never uses.
        let Some(request) = read_request(&mut stream) else { return };
        let path = request.target.split('?').next().unwrap_or_default();
        if path == "/api/v1/figures/events" {
            return self.send_events(stream);
        }
        let answer = if path == "/console" {
            Some((200, self.pages.console()))
        } else if let Some(asset) = self.pages.asset(path) {
            Some((200, asset.clone()))
        } else {
            self.api(&request, path)
        };
        let Some((status, Rendered { content_type, body, .. })) = answer else {
            return self.wait_until(&|state| !state.silent);
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             Content-Security-Policy: {CONTENT_SECURITY_POLICY}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        // The page may be gone by now.
        drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
    }

    /// `None`: no answer, for as long as presses have none.
    fn api(&self, request: &Request, path: &str) -> Option<(u16, Rendered)> {
        let mut state = self.state();
        let (status, body) = match (request.method.as_str(), path) {
            (_, "/api/v1/console/session") => (200, state.session.clone()?),
            (_, "/api/v1/console/session/end") => {
                state.session = Some(no_session());
                (204, Value::Null)
            }
            (_, "/api/v1/figures/history") if state.history_busy > 0 => {
                state.history_busy -= 1;
                (503, json!({ "code": "busy", "detail": "Too many at once." }))
            }
            (_, "/api/v1/figures/history") => (200, state.history.clone()),
            (_, "/api/v1/operators/log") => (200, json!({ "log": [], "next_cursor": null })),
            ("GET", _) if state.answers.contains_key(path) => (200, state.answers[path].clone()),
            (_, "/api/v1/rehearsal") => (200, json!({ "state": "none" })),
            ("GET", _) => (404, json!({ "code": "not_found", "detail": "There is none." })),
            _ => {
                let key = request.headers.get("idempotency-key").cloned().unwrap_or_default();
                state.presses.push((key, request.body.clone(), path.to_owned()));
                if state.silent {
                    return None;
                }
                state.refusal.clone().unwrap_or((200, json!({})))
            }
        };
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Some((status, Rendered::list_json(bytes)))
    }

    fn send_events(&self, mut stream: TcpStream) {
        let head = "HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";
        let ends_after = {
            let mut state = self.state();
            state.streams += 1;
            state.ended
        };
        let (mut text, mut sent) = (head.to_owned(), None);
        let mut sent_at = Instant::now();
        loop {
            let (is_over, samples) = {
                let mut state = self.state();
                if state.repeats && sent == Some(state.samples) && sent_at.elapsed() >= REPEATED_EVERY {
                    state.samples += 1;
                    state.figures["number"] = state.samples.into();
                }
                let age = state.taken_at.map_or(Duration::ZERO, |at| at.elapsed());
                let mut figures = state.figures.clone();
                figures["age_ms"] = u64::try_from(age.as_millis()).expect("a test takes no centuries").into();
                if sent != Some(state.samples) {
                    sent_at = Instant::now();
                    text += &format!("data: {figures}\n\n");
                }
                let is_over = state.ended != ends_after || (state.streams_end_at_once && sent.is_some());
                (is_over, state.samples)
            };
            if stream.write_all(text.as_bytes()).is_err() || is_over || self.stopping.load(Ordering::SeqCst) {
                return;
            }
            (text, sent) = (String::new(), Some(samples));
            std::thread::sleep(POLL);
        }
    }

    fn wait_until(&self, condition: &dyn Fn(&State) -> bool) {
        while !self.stopping.load(Ordering::SeqCst) && !condition(&self.state()) {
            std::thread::sleep(POLL);
        }
    }
}

/// Rows of so many milliseconds, by their number; the 60th would begin now.
pub(crate) fn history(step_ms: u64, rows: impl IntoIterator<Item = u64>) -> Value {
    let columns = [
        "at_ms",
        "accepted",
        "refused",
        "busy",
        "unknown",
        "order_p50_ms",
        "order_p99_ms",
        "servers_heard",
        "servers_known",
        "available",
        "held",
        "sold",
    ];
    let row = |number: u64| {
        json!([NOW_MS + number * step_ms - 60 * step_ms, 7, 1, 0, 0, 1.5, 9.0, 2, 2, 100 - number, number, 0])
    };
    json!({
        "step_ms": step_ms, "columns": columns, "rows": rows.into_iter().map(row).collect::<Vec<_>>(), "incidents": [],
        "refused": null,
    })
}

fn figures() -> Value {
    let rates = json!({ "received": 8.0, "accepted": 7.0, "replayed": 0.0, "refused": 1.0, "busy": 0.0, "unknown": 0.0, "requests": 20.0 });
    json!({
        "number": 0, "at_ms": NOW_MS, "server": "one:80",
        "servers": [server("one:80", 0), server("two:80", 0)],
        "verdict": verdict("green", "“Opening <b>night</b>” is selling at 7 orders/s, 40 units left.", "Nothing to do."),
        "rates": rates, "refused_by_code": { "limit": 1.0 }, "order_route": { "count": 8, "p50_ms": 1.5, "p99_ms": 9.0 },
        "totals": { "received": 80, "accepted": 70, "replayed": 0, "refused": 10, "busy": 0, "unknown": 0 },
        "totals_since_ms": null,
        "health": {
            "ready": true, "reasons": [], "engines": [{ "engine": "Redis", "fault": null }], "mailbox": 0, "mailbox_max": 1024,
            "in_flight": 0, "in_flight_max": 0, "orders_per_s_max": 0, "measured_peak": null, "commit": null,
            "clock_difference_ms": 0, "clock_confirmed": true, "disk_free_bytes": null, "disk_bytes": null, "ledger_bytes": null,
            "memory_bytes": null, "connections": 3, "refunds_due": 0, "webhooks": null, "dead_letters": 0,
            "dead_letter_age_ms": null, "reconciled_age_ms": 100, "units_age_ms": 100, "backlog": 0, "backlog_age_ms": 0,
            "processors_busy": null,
        },
        "sales": [{
            "id": SALE, "title": TITLE, "currency": "CHF", "state": "live", "starts_at_ms": NOW_MS - 60_000, "ends_at_ms": NOW_MS + 3_600_000,
            "ended_at_ms": null, "units": { "total": 120, "available": 40, "held": 60, "sold": 20 }, "rates": rates,
            "refused_by_code": { "limit": 1.0 }, "order_route": null, "stock_asked_per_s": 2_808.7, "holds": null,
            "items_total": 1,
            "items": [{
                "product": 30, "title": "Aurora \"phone\"", "total": 120, "available": 40, "held": 60, "sold": 20, "rates": rates,
                "refused_by_code": { "limit": 1.0 }, "order_route": null, "sold_out_at_ms": null, "line": null,
            }],
        }],
        "sales_total": 1, "open": { "sales": 1, "units": { "total": 120, "available": 40, "held": 60, "sold": 20 } },
        "events": [{ "at_ms": NOW_MS - 60_000, "kind": "sale_opened", "says": "“Opening <b>night</b>” has started.", "sale": SALE, "product": null }],
    })
}

pub(crate) fn verdict(level: &str, says: &str, action: &str) -> Value {
    json!({ "level": level, "code": "selling", "says": says, "do": action, "runbook": "selling" })
}

/// The same with what the console has a button for.
pub(crate) fn verdict_with(action: Value, says: &str) -> Value {
    let mut verdict = verdict("amber", says, "`doorbuster sale resume SALE` when it may go on.");
    verdict["action"] = action;
    verdict
}

pub(crate) fn server(name: &str, silent_ms: u64) -> Value {
    json!({
        "server": name, "silent_ms": silent_ms, "counted": silent_ms < 5_000, "ready": true, "accepted_per_s": 3.5, "in_flight": 0,
        "processors_busy": null, "memory_bytes": 150_000_000, "disk_free_bytes": 80_000_000_000_u64, "disk_bytes": 500_000_000_000_u64,
        "clock_confirmed": true, "clock_difference_ms": 0, "clock_ahead_ms": 2,
    })
}
