//! A server's figures, from counters that a test moves and at times that it says.

mod away;
mod cluster;
mod heard;
mod shown;

use engine::{
    Book, BuyerId, Command, Fingerprint, ItemSpec, LineTerms, OrderId, Payment, Placement, ProductId, SaleId,
    SaleSpec, SkuId, Stock, UnixMs,
};
use serde_json::{Value, json};

use super::verdict::SECONDS;
use super::*;
use crate::intake::admission::Limits;
use crate::intake::catalog::Catalog;
use crate::intake::{Health, Mailbox, RequestOutcome, ServerReport, Servers};

const NOW: UnixMs = UnixMs(1_700_000_000_000);
const HOUR_MS: u64 = 3_600_000;

const LINE: LineTerms =
    LineTerms { units: 1, turn_ms: 60_000, grace_ms: 10_000, close_ms: 120_000, beacon: None, access: None };

struct Server {
    intake: Intake,
    looking: Looking,
    begun: Instant,
    book: Book,
    catalog: Catalog,
    stop: Stop,
    health: Arc<Health>,
    /// What it hears of other servers.
    servers: Arc<Servers>,
    cluster: Option<Cluster>,
    /// When it was looked at last, since the start.
    looked_ms: u64,
}

fn begin(watched: Watched, now: Instant) -> Looking {
    let mut looking = Looking::new(watched, now);
    looking.host = looking.host.without_processors();
    looking
}

impl Server {
    fn new(sales: Vec<SaleSpec>) -> Server {
        Server::with(sales, false)
    }

    fn with(sales: Vec<SaleSpec>, of_a_cluster: bool) -> Server {
        let servers = Arc::<Servers>::default();
        let cluster = of_a_cluster.then(|| Cluster {
            servers: Arc::clone(&servers),
            servers_expected: 1,
            dead_letters: Counter::default(),
            orders_lost: Counter::default(),
            ledger_lost_tail: Counter::default(),
            drift_units: Counter::default(),
            backlog: Gauge::default(),
            backlog_age_ms: Gauge::default(),
            reconciled: Counter::default(),
            units_read: Counter::default(),
            clock_ahead_ms: Gauge::default(),
        });
        let health = Arc::<Health>::default();
        let limits = Limits {
            orders_per_s: 500,
            burst: 1,
            orders_per_s_per_buyer: 0,
            in_flight_max: 77,
            in_flight_per_buyer_max: 0,
            gate_judges: false,
        };
        let intake = Intake::new(|| NOW, limits);
        let stop = Stop::new();
        let watched = Watched {
            intake: intake.clone(),
            net: Arc::default(),
            health: Arc::clone(&health),
            client: Mailbox::new(Vec::new(), 1).client(0),
            stop: stop.clone(),
            server: "here:80".to_owned(),
            data_dir: None,
            history_dir: None,
            ledger: None,
            cluster: cluster.clone(),
            measured_peak: Some((18_000, "2026-11-20".to_owned())),
            webhooks: Vec::new(),
            beacon: None,
        };
        let begun = Instant::now();
        let looking = begin(watched, begun);
        let mut server = Server {
            intake,
            looking,
            begun,
            book: Book::new(),
            catalog: Catalog::default(),
            stop,
            health,
            servers,
            cluster,
            looked_ms: 0,
        };
        for sale in sales {
            server.book.execute(NOW, Command::CreateSale(sale)).unwrap();
        }
        server.publish();
        server
    }

    /// Starts anew, with a history on disk.
    fn keep_in(&mut self, dir: &std::path::Path) {
        let watched = Watched { history_dir: Some(dir.to_owned()), ..self.looking.watched.clone() };
        self.looking = begin(watched, self.begun);
    }

    fn publish(&mut self) {
        self.catalog = Catalog::of(self.book.registry(), &self.catalog);
        self.book.drain_touched(|sku, stock| self.catalog.skus[sku.0 as usize].counters.publish(stock));
        self.book.drain_moved_lines(|sku, line, message| {
            self.catalog.skus[sku.0 as usize].board.as_ref().unwrap().publish(NOW, line, message);
        });
        self.intake.shelf.publish(self.catalog.clone());
    }

    /// What is seen so long after the start.
    fn look(&mut self, after_ms: u64) -> Value {
        self.looked_ms = after_ms;
        self.looking.look_and_keep(self.begun + Duration::from_millis(after_ms));
        self.seen()
    }

    fn seen(&self) -> Value {
        serde_json::from_slice(&self.looking.figures().latest().to_json(self.begun)).unwrap()
    }
}

fn sale(id: u64, starts_at_ms: u64, items: usize) -> SaleSpec {
    let item = |product| ItemSpec {
        product: ProductId(product),
        title: "A \"shoe\"".to_owned(),
        description: String::new(),
        price: 1,
        list_price: 1,
        total: 10,
        limit: None,
        image: None,
        line: None,
    };
    SaleSpec {
        id: SaleId(id),
        title: format!("Drop {id}"),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(starts_at_ms),
        ends_at: UnixMs(starts_at_ms + HOUR_MS),
        payment: Payment::OnPlacing,
        open_holds_per_buyer_max: None,
        items: (1..=items as u64).map(item).collect(),
    }
}

#[test]
fn a_second_is_the_difference_to_the_one_before() {
    let mut server = Server::new(vec![sale(3, NOW.0, 1)]);
    let first = server.seen();
    assert_eq!(
        (&first["number"], &first["order_route"], &first["sales"]),
        (&json!(0), &Value::Null, &json!([]))
    );
    let metrics = Arc::clone(&server.intake.metrics);
    metrics.orders_received.inc_by(60);
    metrics.orders_accepted.inc_by(30);
    metrics.orders_refused.inc_by(20);
    metrics.refusals.get_or_create(&[("code", "sold_out")]).inc_by(20);
    metrics.orders_rejected.inc_by(10);
    for ms in [1, 2, 4, 900] {
        metrics.order_seconds.observe(Duration::from_millis(ms));
    }
    metrics.commit_seconds.observe(Duration::from_millis(3));
    metrics.refunds_due.set(4);
    // A second and a half, because the machine was busy.
    let seen = server.look(1_500);
    assert_eq!(seen["number"], 1);
    let rates = json!({ "received": 40.0, "accepted": 20.0, "replayed": 0.0, "refused": 13.3, "busy": 6.7, "unknown": 0.0, "requests": 0.0 });
    assert_eq!(seen["rates"], rates);
    assert_eq!(seen["refused_by_code"], json!({ "sold_out": 13.3 }));
    let took = &seen["order_route"];
    assert_eq!(took["count"], 4);
    let near = |value: &Value, ms: f64| {
        let found = value.as_f64().unwrap();
        assert!((ms..=ms * 1.13).contains(&found), "{found} for {ms}");
    };
    near(&took["p50_ms"], 2.0);
    near(&took["p99_ms"], 900.0);
    near(&seen["health"]["commit"]["p99_ms"], 3.0);
    assert_eq!(seen["verdict"]["code"], "refunds_due");
    let health = &seen["health"];
    for (name, value) in [
        ("ready", json!(true)),
        ("reasons", json!([])),
        ("refunds_due", json!(4)),
        ("webhooks", Value::Null),
        ("dead_letters", Value::Null),
        ("backlog", Value::Null),
        ("in_flight_max", json!(77)),
        ("orders_per_s_max", json!(500)),
        ("measured_peak", json!({ "orders_per_s": 18_000, "on": "2026-11-20" })),
        ("disk_free_bytes", Value::Null),
        ("ledger_bytes", Value::Null),
        ("clock_confirmed", json!(true)),
    ] {
        assert_eq!(health[name], value, "{name}");
    }
    let quiet = server.look(2_500);
    assert_eq!((&quiet["rates"]["received"], &quiet["order_route"]), (&json!(0.0), &Value::Null));
    assert_eq!((&quiet["refused_by_code"], &quiet["totals"]["received"]), (&json!({}), &json!(60)));
    assert_eq!(quiet["server"], "here:80");
}

#[test]
fn each_sale_and_item_has_what_became_of_its_own_orders() {
    let mut server = Server::new(vec![sale(3, NOW.0, 2), sale(4, NOW.0, 1)]);
    let of = |seen: &Value, id: u64| {
        let sales = seen["sales"].as_array().unwrap();
        sales.iter().find(|sale| sale["id"] == id).unwrap().clone()
    };
    server.look(1_000);
    let skus = &server.catalog.skus;
    for (sku, outcome, times) in [
        (0, RequestOutcome::Accepted, 6),
        (1, RequestOutcome::Accepted, 4),
        (2, RequestOutcome::Busy, 8),
        (2, RequestOutcome::Unknown, 1),
        (0, RequestOutcome::Replayed, 3),
    ] {
        (0..times).for_each(|_| skus[sku].counters.outcomes.count(outcome));
    }
    skus[1].counters.outcomes.count_refused(engine::Refusal::SoldOut);
    skus[1].counters.outcomes.count_refused(engine::Refusal::CoolingDown { retry_after_ms: 7 });
    let first = &server.catalog.sales[0].outcomes;
    skus[1].counters.outcomes.took(Duration::from_millis(4));
    (0..5).for_each(|_| first.stock_asked());
    let seen = server.look(3_000);
    let (one, other) = (of(&seen, 3), of(&seen, 4));
    let rates = |accepted: f64, replayed: f64, refused: f64, busy: f64, unknown: f64| json!({ "accepted": accepted, "replayed": replayed, "refused": refused, "busy": busy, "unknown": unknown });
    assert_eq!(one["rates"], rates(5.0, 1.5, 1.0, 0.0, 0.0));
    assert_eq!(one["items"][0]["rates"], rates(3.0, 1.5, 0.0, 0.0, 0.0));
    assert_eq!(one["items"][1]["rates"], rates(2.0, 0.0, 1.0, 0.0, 0.0));
    assert_eq!(other["rates"], rates(0.0, 0.0, 0.0, 4.0, 0.5));
    assert_eq!(one["refused_by_code"], json!({ "sold_out": 0.5, "cooling_down": 0.5 }));
    assert_eq!((&one["order_route"]["count"], &other["order_route"]), (&json!(1), &Value::Null));
    let [shoe, boot] = [&one["items"][0], &one["items"][1]];
    assert_eq!((&shoe["refused_by_code"], &shoe["order_route"]), (&json!({}), &Value::Null));
    assert_eq!(
        (&boot["refused_by_code"], &boot["order_route"]),
        (&one["refused_by_code"], &one["order_route"])
    );
    assert_eq!((&one["stock_asked_per_s"], &other["stock_asked_per_s"]), (&json!(2.5), &json!(0.0)));
    // A sale that changes goes on being counted, and one that is new is from its first order on.
    server.book.execute(NOW, Command::Pause(SaleId(3))).unwrap();
    server.book.execute(NOW, Command::CreateSale(sale(5, NOW.0, 1))).unwrap();
    server.publish();
    server.catalog.skus[0].counters.outcomes.count(RequestOutcome::Refused);
    server.catalog.skus[3].counters.outcomes.count(RequestOutcome::Accepted);
    let seen = server.look(4_000);
    assert_eq!(of(&seen, 3)["rates"], rates(0.0, 0.0, 1.0, 0.0, 0.0));
    assert_eq!(of(&seen, 5)["rates"], rates(1.0, 0.0, 0.0, 0.0, 0.0));
    assert_eq!(of(&seen, 3)["ended_at_ms"], Value::Null);
    server.book.execute(NOW, Command::End(SaleId(3))).unwrap();
    server.publish();
    let ended = of(&server.look(5_000), 3);
    assert_eq!((&ended["state"], &ended["ended_at_ms"]), (&json!("ended"), &json!(NOW.0)));
}

#[test]
fn an_item_that_is_sold_to_its_line_has_that_lines_figures() {
    let mut spec = sale(3, NOW.0 + 60_000, 2);
    spec.items[1].limit = Some(1);
    spec.items[1].line = Some(LINE);
    let mut server = Server::new(vec![spec]);
    let join = |server: &mut Server, buyers: std::ops::Range<u64>| {
        for buyer in buyers {
            let join = Command::Join { sku: SkuId(1), buyer: BuyerId(buyer.into()) };
            server.book.execute(NOW, join).unwrap();
        }
        server.book.call_due(NOW, usize::MAX, u32::MAX);
        server.publish();
    };
    join(&mut server, 0..5);
    let first = server.look(1_000)["sales"][0]["items"].clone();
    assert_eq!((&first[0]["line"], &first[1]["line"]["joins_per_s"]), (&Value::Null, &Value::Null));
    join(&mut server, 5..15);
    server.catalog.skus[1].board.as_ref().unwrap().publish_present(4);
    let seen = server.look(3_000)["sales"][0]["items"][1]["line"].clone();
    for (name, value) in [
        ("draw", json!("drawn")),
        ("joined", json!(15)),
        ("joins_per_s", json!(5.0)),
        ("waiting", json!(15)),
        ("present", json!(4)),
        ("sure_to", json!(10)),
        ("reached", json!(0)),
        ("called", json!(0)),
        ("pace", json!(0)),
        ("tail_wait_s", Value::Null),
        ("wait", Value::Null),
        ("message", json!("")),
    ] {
        assert_eq!(seen[name], value, "{name}");
    }
}

#[test]
fn what_is_in_turns_is_left_and_not_sold_out() {
    let mut spec = sale(3, NOW.0, 1);
    (spec.items[0].total, spec.items[0].limit, spec.items[0].line) = (1, Some(1), Some(LINE));
    let mut server = Server::new(vec![spec]);
    let (sku, buyer) = (SkuId(0), BuyerId(7));
    let call = |server: &mut Server, command| {
        server.book.call_due(NOW, usize::MAX, u32::MAX);
        server.book.execute(NOW, command).unwrap();
        server.book.call_due(NOW, usize::MAX, u32::MAX);
        server.publish();
    };
    let shown = |seen: &Value| {
        let is_out = seen["sales"][0]["items"][0]["sold_out_at_ms"] == seen["at_ms"];
        (seen["sales"][0]["units"].clone(), is_out, seen["verdict"]["code"].clone())
    };
    let units = |turns, sold| json!({ "total": 1, "available": 0, "turns": turns, "held": 0, "sold": sold });
    call(&mut server, Command::Join { sku, buyer });
    server.look(1_000);
    call(&mut server, Command::ShowPresence { sku, buyer });
    assert_eq!(shown(&server.look(2_000)), (units(1, 0), false, json!("selling")));
    let id = OrderId { sku, hash: 5 };
    let order = Placement { id, buyer, quantity: 1, fingerprint: Fingerprint(0) };
    call(&mut server, Command::Place(order));
    assert_eq!(shown(&server.look(3_000)), (units(0, 1), true, json!("sold_out")));
}

#[test]
fn what_is_unknown_is_remembered_for_ten_seconds_and_what_is_busy_counts_from_ten_on() {
    let mut server = Server::new(vec![sale(3, NOW.0, 1)]);
    let metrics = Arc::clone(&server.intake.metrics);
    metrics.orders_unknown.inc();
    let mut codes = Vec::new();
    for second in 1..=30 {
        metrics.orders_rejected.inc();
        let seen = server.look(second * 1_000);
        codes.push(seen["verdict"]["code"].as_str().unwrap().to_owned());
    }
    assert_eq!(codes[..SECONDS], ["outcomes_unknown"; SECONDS]);
    assert_eq!(codes[SECONDS..], vec!["busy_with_stock"; 30 - SECONDS]);
    for second in 31..=50 {
        let code = &server.look(second * 1_000)["verdict"]["code"];
        assert_ne!(code, "busy_with_stock", "admission turned nobody away in that second");
        metrics.orders_unavailable.inc();
    }
    assert_eq!(server.look(51_000)["rates"]["busy"], 1.0);
}

#[test]
fn a_server_that_takes_no_orders_says_why() {
    let mut server = Server::new(vec![sale(3, NOW.0 + HOUR_MS, 1)]);
    assert_eq!(server.look(1_000)["verdict"]["code"], "planned");
    server.intake.clock.stand_at(NOW);
    let seen = server.look(2_000);
    assert_eq!(
        (&seen["verdict"]["code"], &seen["verdict"]["level"]),
        (&json!("clock_unconfirmed"), &json!("red"))
    );
    assert_eq!(seen["verdict"]["runbook"], "clock-unconfirmed");
    assert_eq!(seen["health"]["ready"], false);
    assert!(seen["health"]["reasons"][0].as_str().unwrap().contains("doorbuster clock confirm"));
    assert_eq!((&seen["number"], &seen["at_ms"]), (&json!(2), &json!(NOW.0)));
    server.stop.request();
    assert_eq!(server.look(3_000)["verdict"]["code"], "stopping");
    assert_eq!(server.seen()["health"]["reasons"].as_array().unwrap().len(), 2);
}

#[test]
fn holds_are_counted_since_ever_or_it_is_said_since_when() {
    let sales = || vec![sale(3, NOW.0 - 1, 1), sale(4, NOW.0 + 60_000, 1)];
    for of_a_cluster in [false, true] {
        let mut server = Server::with(sales(), of_a_cluster);
        let seen = server.look(1_000);
        let since = |id: u64| {
            let mut sales = seen["sales"].as_array().unwrap().iter();
            sales.find(|sale| sale["id"] == id).unwrap()["holds"]["since_ms"].as_u64()
        };
        // The server began a moment after its clock.
        let is_since_its_start = since(3).is_some_and(|at| (NOW.0..NOW.0 + 60_000).contains(&at));
        assert_eq!(is_since_its_start, of_a_cluster, "{:?}", since(3));
        assert_eq!(since(4), None, "the other had not begun before");
    }
}

#[test]
fn an_item_is_sold_out_from_the_second_that_saw_it() {
    let mut server = Server::new(vec![sale(3, NOW.0, 2)]);
    let publish = |server: &Server, available| {
        server.catalog.skus[0].counters.publish(Stock::new(available));
    };
    let since = |seen: &Value| seen["sales"][0]["items"][0]["sold_out_at_ms"].clone();
    publish(&server, 0);
    assert_eq!(since(&server.look(1_000)), Value::Null, "nobody saw when");
    publish(&server, 1);
    assert_eq!(since(&server.look(2_000)), Value::Null);
    publish(&server, 0);
    let seen = server.look(3_000);
    assert_eq!(since(&seen), seen["at_ms"]);
    let later = server.look(4_000);
    assert_eq!(since(&later), seen["at_ms"]);
    assert_eq!(
        later["sales"][0]["units"],
        json!({ "total": 10, "available": 10, "turns": 0, "held": 0, "sold": 0 })
    );
    assert_eq!(later["sales"][0]["items"][1]["available"], 10);
    publish(&server, 3);
    assert_eq!(since(&server.look(5_000)), Value::Null);
}

/// With units that were added after the end, the moment was gone.
#[test]
fn when_an_item_of_a_sale_that_is_over_was_sold_out_stays() {
    let mut server = Server::new(vec![sale(3, NOW.0 - 2 * HOUR_MS, 1)]);
    let mut since = |after_ms, available| {
        server.catalog.skus[0].counters.publish(Stock::new(available));
        let seen = server.look(after_ms);
        assert_eq!(seen["sales"][0]["state"], "ended");
        seen["sales"][0]["items"][0]["sold_out_at_ms"].as_u64()
    };
    assert_eq!(since(1_000, 1), None);
    let sold_out = since(2_000, 0);
    assert!(sold_out.is_some());
    assert_eq!(since(3_000, 4), sold_out);
}

#[test]
fn what_another_server_saw_sold_out_is_known_and_what_was_seen_before_a_start() {
    let mut server = Server::with(vec![sale(3, NOW.0, 2)], true);
    server.catalog.skus[0].counters.publish(Stock::new(0));
    let since = |seen: &Value| seen["sales"][0]["items"][0]["sold_out_at_ms"].clone();
    assert_eq!(since(&server.look(1_000)), Value::Null);
    let said = br#"{"server":"there:80","sold_out":{"3":{"1":17,"2":18}},"health":{"ready":true}}"#;
    let heard = ServerReport { said: said[..].into(), at: server.begun, lives: false };
    server.servers.hear(vec![heard]);
    let seen = server.look(2_000);
    assert_eq!(since(&seen), 17);
    assert_eq!(seen["sales"][0]["items"][1]["sold_out_at_ms"], Value::Null, "some are left");
    server.servers.hear(Vec::new());
    assert_eq!(since(&server.look(3_000)), 17, "it is known from then on, and said");
    let ours: Value = serde_json::from_slice(&server.servers.ours().unwrap()).unwrap();
    assert_eq!(ours["sold_out"], json!({ "3": { "1": 17 } }));

    let dir = tempfile::tempdir().unwrap();
    let start = |available| {
        let mut server = Server::new(vec![sale(3, NOW.0, 1)]);
        server.catalog.skus[0].counters.publish(Stock::new(available));
        server.keep_in(dir.path());
        server
    };
    let mut server = start(1);
    server.look(1_000);
    server.catalog.skus[0].counters.publish(Stock::new(0));
    let seen = server.look(2_000);
    let at_ms = since(&seen);
    assert_eq!(at_ms, seen["at_ms"]);
    drop(server);
    assert_eq!(since(&start(0).look(1_000)), at_ms);
}

#[test]
fn the_stock_of_a_sale_is_kept_after_its_end() {
    let mut server = Server::new(vec![sale(3, NOW.0, 1)]);
    server.look(1_000);
    server.book.execute(NOW, Command::End(SaleId(3))).unwrap();
    server.publish();
    server.catalog.skus[0].counters.publish_committed(10, 0, 7);
    assert_eq!(server.look(2_000)["sales"][0]["state"], "ended");
    let asked = HistoryQuery::new((0, NOW.0 + HOUR_MS), 1, Some((3, 1)));
    let points = server.looking.figures().history.read(&asked).unwrap().to_json();
    let points: Value = serde_json::from_slice(&points).unwrap();
    assert_eq!(points["rows"][0].as_array().unwrap().last(), Some(&json!(7)), "{points}");
}

#[test]
fn a_sample_that_is_sent_late_says_how_old_it_is() {
    let mut server = Server::new(Vec::new());
    server.look(1_000);
    let sent = |after_ms| {
        let at = server.begun + Duration::from_millis(after_ms);
        serde_json::from_slice::<Value>(&server.looking.figures().latest().to_json(at)).unwrap()
    };
    for (after_ms, age_ms) in [(900, 0), (1_000, 0), (13_250, 12_250)] {
        let sent = sent(after_ms);
        assert_eq!((&sent["age_ms"], &sent["number"]), (&age_ms.into(), &1.into()), "{after_ms}");
    }
}

#[test]
fn the_thread_looks_by_itself_and_ends() {
    let server = Server::new(Vec::new());
    let figures = server.looking.figures();
    let sampling = Sampling::start(server.looking, |name| thread::Builder::new().name(name)).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let latest = || figures.latest().to_json(Instant::now());
    let number = || serde_json::from_slice::<Value>(&latest()).unwrap()["number"].as_u64().unwrap();
    while number() < 2 {
        assert!(Instant::now() < until, "it looked {} times", number());
        thread::sleep(Duration::from_millis(20));
    }
    drop(sampling);
    assert_eq!(Arc::strong_count(&figures), 1, "the thread is gone");
}
