//! A service is asked about whoever would join a line: a stand-in that answers as its tokens say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::joining::open;
use super::shop::{Delivered, Sent, Setup, Shop};
use super::{Response, problem};
use crate::http::AuthMode;
use crate::metrics::Metrics;
use crate::secret::SecretBytes;
use crate::verifier::{Desk, Expected, Service, Verifier};

const LINE: &str = "/api/v1/sales/77/items/5/line";
const OTHER: &str = "/api/v1/sales/77/items/6/line";
/// As in the desk.
const THREADS: usize = 16;
const WAITING_MAX: usize = 1_024;
const FAILURES_MAX: u32 = 8;

/// What was asked so far, and whether those who are held may be answered.
#[derive(Default)]
struct Heard {
    forms: Mutex<Vec<String>>,
    held: Mutex<(usize, bool)>,
    changed: Condvar,
}

struct StandIn {
    url: String,
    heard: Arc<Heard>,
}

impl StandIn {
    fn start() -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (url, heard) =
            (format!("http://{}/siteverify", listener.local_addr().unwrap()), Arc::new(Heard::default()));
        let hears = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let hears = Arc::clone(&hears);
                thread::spawn(move || hears.answer(&stream.unwrap()));
            }
        });
        StandIn { url, heard }
    }

    fn asked(&self) -> usize {
        self.heard.forms.lock().unwrap().len()
    }

    fn wait_for_held(&self, count: usize) {
        let held = self.heard.held.lock().unwrap();
        let few = |held: &mut (usize, bool)| held.0 < count;
        let (held, _) = self.heard.changed.wait_timeout_while(held, Duration::from_secs(60), few).unwrap();
        assert_eq!(held.0, count);
    }

    fn release(&self) {
        self.heard.held.lock().unwrap().1 = true;
        self.heard.changed.notify_all();
    }
}

impl Heard {
    fn answer(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
            let header = line.trim_end().to_lowercase();
            length = header.strip_prefix("content-length: ").map_or(length, |text| text.parse().unwrap());
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let form = String::from_utf8(body).unwrap();
        let kind = form.split("response=").nth(1).unwrap().split(['.', '&']).next().unwrap().to_owned();
        self.forms.lock().unwrap().push(form);
        let good = r#"{"success":true,"hostname":"shop.example","action":"join"}"#;
        let (status, body) = match &*kind {
            "good" => (200, good.to_owned()),
            "held" => {
                let mut held = self.held.lock().unwrap();
                held.0 += 1;
                self.changed.notify_all();
                drop(self.changed.wait_while(held, |held| !held.1).unwrap());
                (200, good.to_owned())
            }
            "bad" => (200, r#"{"success":false,"error-codes":["invalid-input-response"]}"#.to_owned()),
            "failing" => (500, good.to_owned()),
            "garbage" => (200, "<html>".to_owned()),
            "huge" => (200, format!("{good}{}", " ".repeat(1 << 20))),
            "moved" => (302, good.to_owned()),
            "silent" => return thread::sleep(Duration::from_secs(20)),
            "dead" => return,
            other => panic!("what is {other}?"),
        };
        let head = format!(
            "HTTP/1.1 {status} x\r\nLocation: /elsewhere\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        // The reader of a huge answer does not wait for its end.
        drop(stream.write_all((head + &body).as_bytes()));
    }
}

fn shop(stand_in: &StandIn, opens: bool) -> Shop {
    let mut setup = Setup::new(AuthMode::MemberId);
    let expected = Expected {
        hostnames: vec!["shop.example".to_owned()],
        action: Some("join".to_owned()),
        sends_address: true,
    };
    let service =
        Service::new(&stand_in.url, SecretBytes::from(&b"of-the-shop"[..]), expected, (None, true)).unwrap();
    let desk =
        Desk::start(service, opens, &Metrics::new(), |name| thread::Builder::new().name(name)).unwrap();
    setup.verifier = Verifier::Http { desk, admits_without_script: false };
    setup.queue_commands_max = 2 * WAITING_MAX;
    setup.refused_without_script = Some("refused-verification-token-required");
    open(setup)
}

fn joining(line: &str, buyer: u64, token: Option<&str>) -> Sent {
    let body = token.map_or(String::new(), |token| json!({ "verification": token }).to_string());
    Sent::post(line, &body).member(buyer)
}

fn join(shop: &mut Shop, buyer: u64, token: Option<&str>) -> Response {
    let answer = shop.send(&joining(LINE, buyer, token));
    shop.advance(0);
    answer
}

#[test]
fn what_the_service_calls_good_joins_once_and_is_never_asked_about_again() {
    let stand_in = StandIn::start();
    let mut shop = shop(&stand_in, false);
    let required = problem(403, "verification_token_required");
    for token in [None, Some(""), Some("good with a space"), Some(&*"x".repeat(4_097))] {
        assert_eq!(join(&mut shop, 1, token).problem(), required, "{token:?}");
    }
    assert_eq!(stand_in.asked(), 0, "none of these could be good");
    assert_eq!(join(&mut shop, 1, Some("bad.1")).problem(), required);
    let place = join(&mut shop, 1, Some("good.1&remoteip=1.2.3.4"));
    assert_eq!((place.status, &place.json()["number"]), (201, &json!(1)), "{}", place.text());
    let sent = stand_in.heard.forms.lock().unwrap()[1].clone();
    assert_eq!(sent, "secret=of-the-shop&response=good.1%26remoteip%3D1.2.3.4&remoteip=127.0.0.1");
    let asked = stand_in.asked();
    let used = "good.1&remoteip=1.2.3.4";
    for again in [None, Some("nonsense with spaces"), Some(used), Some("bad.2"), Some("good.3")] {
        let again = join(&mut shop, 1, again);
        assert_eq!((again.status, &again.json()["ticket"]), (200, &place.json()["ticket"]));
    }
    assert_eq!(stand_in.asked(), asked, "whoever has a place is not asked about again");
    assert_eq!(join(&mut shop, 2, Some("good.1&remoteip=1.2.3.4")).problem(), required, "it is used");
    assert_eq!(shop.send(&joining(OTHER, 2, Some("good.1&remoteip=1.2.3.4"))).problem(), required);
    assert_eq!(shop.send(&joining(OTHER, 1, Some("bad.3"))).status, 201, "has a place in the sale");
    assert_eq!(stand_in.asked(), asked, "which is known without asking");
    assert_eq!(join(&mut shop, 2, Some("good.2")).status, 201);
    let form =
        Sent::post("/line", "sale=77&product=5").with("Content-Type", "application/x-www-form-urlencoded");
    let form = form.with("Origin", "http://here").with("Accept", "text/html").member(3);
    let pressed = shop.send(&form);
    assert_eq!(pressed.status, 403);
    assert!(pressed.text().contains("on a page of the shop"), "{}", pressed.text());
    assert!(shop.send(&Sent::get("/seckill_77_5.html")).text().contains("on a page of the shop"));
    shop.send(&Sent::post("/api/v1/sales/77/end", "{}").operator());
    shop.advance(0);
    assert_eq!(
        join(&mut shop, 4, Some("good.4")).problem(),
        problem(409, "ended"),
        "nobody is asked for nothing"
    );
    assert_eq!(stand_in.asked(), asked + 1);
}

#[test]
fn without_an_answer_nobody_joins_unless_it_is_open_and_who_has_a_place_keeps_it() {
    for opens in [false, true] {
        let stand_in = StandIn::start();
        let mut shop = shop(&stand_in, opens);
        let place = join(&mut shop, 1, Some("good.1"));
        let kinds = ["dead", "failing", "garbage", "huge", "moved"].into_iter();
        // That takes as long as it is waited for.
        for (buyer, kind) in (2..).zip(kinds.chain((!opens).then_some("silent"))) {
            let answer = join(&mut shop, buyer, Some(kind));
            match opens {
                true => assert_eq!(answer.status, 201, "{kind}"),
                false => assert_eq!(answer.problem(), problem(503, "unavailable"), "{kind}"),
            }
            assert_eq!(join(&mut shop, 1, Some("dead")).json()["ticket"], place.json()["ticket"], "{kind}");
            // What is refused is so in either case, and shows that the service is there.
            assert_eq!(
                join(&mut shop, 90, Some("bad")).problem(),
                problem(403, "verification_token_required")
            );
        }
        for buyer in 100..100 + u64::from(FAILURES_MAX) {
            join(&mut shop, buyer, Some("dead"));
        }
        let asked = stand_in.asked();
        assert_eq!(join(&mut shop, 80, Some("good.2")).status, if opens { 201 } else { 503 });
        assert_eq!(stand_in.asked(), asked, "it is left alone for a moment");
        let until = Instant::now() + Duration::from_secs(60);
        while !opens && join(&mut shop, 80, Some("good.2")).status == 503 {
            assert!(Instant::now() < until);
        }
    }
}

#[test]
fn a_full_queue_asks_to_come_again_and_holds_up_nobody_else() {
    let stand_in = StandIn::start();
    let mut shop = shop(&stand_in, true);
    assert_eq!(join(&mut shop, 1, Some("good.1")).status, 201);
    let call = |shop: &mut Shop, buyer: u64| {
        let ticket = shop.call(&joining(LINE, buyer, Some(&format!("held.{buyer}")))).0;
        // Whoever has no place is asked about.
        shop.write();
        shop.service.deliver_to(&mut Delivered::default());
        ticket
    };
    let first = 1_000;
    let mut waiting: Vec<_> = (first..).take(THREADS).map(|buyer| call(&mut shop, buyer)).collect();
    stand_in.wait_for_held(THREADS);
    waiting.extend((first..).skip(THREADS).take(WAITING_MAX).map(|buyer| call(&mut shop, buyer)));
    for buyer in [2, first, first + 500] {
        let busy = join(&mut shop, buyer, Some(&format!("good.{buyer}")));
        assert_eq!(busy.problem(), problem(503, "busy"), "{buyer}: open is for a service that is away");
    }
    // Neither reading nor who has a place waits for it.
    assert_eq!(shop.send(&Sent::get(LINE)).json()["tail"], 1);
    assert_eq!(join(&mut shop, 1, Some("good.9")).status, 200);
    assert_eq!(join(&mut shop, 1, None).status, 200);
    stand_in.release();
    let until = Instant::now() + Duration::from_secs(60);
    while shop.send(&Sent::get(LINE)).json()["tail"] != json!(1 + waiting.len()) {
        assert!(Instant::now() < until, "{}", shop.send(&Sent::get(LINE)).text());
        shop.service.deliver_to(&mut Delivered::default());
        shop.write();
        shop.advance(0);
    }
}
