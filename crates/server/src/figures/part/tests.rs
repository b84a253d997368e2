use serde_json::json;

use super::*;
use crate::figures::history::Refused;
use crate::figures::sample::EngineFigures;
use crate::figures::selling::refused;
use crate::intake::PartAway;
use crate::metrics::Latencies;

fn part(server: &str, accepted: f64, order_ms: &[u64]) -> Part {
    let latencies = Latencies::default();
    order_ms.iter().for_each(|ms| latencies.observe(Duration::from_millis(*ms)));
    Part {
        server: server.to_owned(),
        rates: Rates { received: accepted, accepted, ..Rates::default() },
        refused_by_code: [("sold_out".to_owned(), 0.1)].into(),
        order: latencies.counts(),
        recent: Recent { order: latencies.counts(), unknown: 1, ..Recent::default() },
        totals: Totals { accepted: 100, ..Totals::default() },
        health: HealthFigures {
            ready: true,
            in_flight: 3,
            in_flight_max: 10,
            orders_per_s_max: 500,
            clock_difference_ms: -2,
            clock_confirmed: true,
            memory_bytes: Some(1_000),
            connections: 7,
            processors_busy: Some(0.25),
            ..HealthFigures::default()
        },
        ..Part::default()
    }
}

fn heard(part: &Part, at: Instant, lives: bool) -> ServerReport {
    ServerReport { said: part.written().into(), at, lives }
}

#[test]
fn what_servers_do_is_added_and_percentiles_are_of_all() {
    let now = Instant::now();
    // The slow tenth is all on one server: a mean of the two percentiles would be far off.
    let (a, mut b) = (part("a", 0.1, &[1; 90]), part("b", 0.2, &[1_000; 10]));
    b.health.processors_busy = Some(0.75);
    b.health.clock_difference_ms = 40;
    b.refused_by_code.insert("paused".to_owned(), 5.0);
    let (sum, servers) = a.with(&[heard(&b, now, true)], now);
    assert_eq!((sum.rates.accepted, sum.totals.accepted, sum.recent.unknown), (0.3, 200, 2));
    assert_eq!(json!(sum.refused_by_code), json!({ "paused": 5.0, "sold_out": 0.2 }));
    let took = Took::of(&sum.order).unwrap();
    assert!(took.count == 100 && took.p50_ms < 2.0 && took.p99_ms >= 1_000.0, "{took:?}");
    assert_eq!(sum.recent.order, sum.order);
    let health = &sum.health;
    assert_eq!((health.in_flight, health.in_flight_max, health.orders_per_s_max), (6, 20, 1_000));
    assert_eq!((health.memory_bytes, health.connections), (Some(2_000), 14));
    assert_eq!((health.processors_busy, health.clock_difference_ms), (Some(0.75), 40), "the worst");
    let shown: Vec<_> = servers.iter().map(|shown| (&*shown.server, shown.accepted_per_s)).collect();
    assert_eq!(shown, [("a", 0.1), ("b", 0.2)]);

    b.health.in_flight_max = 0;
    let (sum, _) = a.with(&[heard(&b, now, true)], now);
    assert_eq!(sum.health.in_flight_max, 0, "one without a bound makes it none");
}

/// As another server writes it.
fn selling(sales: serde_json::Value) -> Option<Selling> {
    Some(serde_json::from_value(sales).unwrap())
}

#[test]
fn what_sales_do_is_added_and_not_known_where_one_did_not_say() {
    let now = Instant::now();
    let (mut a, mut b) = (part("a", 1.0, &[]), part("b", 2.0, &[]));
    a.sales = selling(
        json!({ "3": { "rates": [0.1, 0.0, 2.0, 0.0, 0.0], "items": { "30": [0.1, 0.0, 2.0, 0.0, 0.0] },
        "refused_by_code": { "sold_out": 2.0 }, "items_refused": { "30": { "sold_out": 2.0 } }, "order": [[40, 1]], "asked": 0.2 } }),
    );
    b.sales = selling(
        json!({ "3": { "rates": [0.2, 0.0, 0.0, 5.0, 0.0], "items": { "31": [0.2, 0.0, 0.0, 5.0, 0.0] },
        "refused_by_code": { "sold_out": 1.0, "paused": 1.0 }, "order": [[40, 2]], "asked": 0.1 }, "4": { "rates": [1.0, 0.0, 0.0, 0.0, 0.0] } }),
    );
    let (sum, _) = a.with(&[heard(&b, now, true)], now);
    let expected = selling(json!({
        "3": { "rates": [0.3, 0.0, 2.0, 5.0, 0.0], "items": { "30": [0.1, 0.0, 2.0, 0.0, 0.0], "31": [0.2, 0.0, 0.0, 5.0, 0.0] },
            "refused_by_code": { "sold_out": 3.0, "paused": 1.0 }, "items_refused": { "30": { "sold_out": 2.0 } }, "order": [[40, 3]], "asked": 0.3 },
        "4": { "rates": [1.0, 0.0, 0.0, 0.0, 0.0] }
    }));
    assert_eq!(sum.sales, expected);
    let kept = |product, code, orders| Refused { sale: 3, product, code, orders };
    let expected = [kept(None, "paused", 2.0), kept(Some(30), "sold_out", 4.0), kept(None, "sold_out", 2.0)];
    // In two seconds; what an older server refused is the sale's.
    assert_eq!(refused(sum.sales.as_ref(), Duration::from_secs(2)), expected);
    (b.sales, b.holds) = (None, None);
    a.holds = Some(Holds::new());
    let (sum, _) = a.with(&[heard(&b, now, true)], now);
    assert_eq!((sum.sales, sum.holds), (None, None), "it is of another version");
    (a.wanted, b.wanted) = (vec![3], vec![7, 3]);
    assert_eq!(a.with(&[heard(&b, now, true)], now).0.wanted, [3, 7, 3]);
    let (sum, _) = a.with(&[heard(&b, now, false)], now);
    assert!(sum.sales.is_some() && sum.wanted == [3], "it is not counted");
}

#[test]
fn what_was_not_sent_to_the_shop_is_added_and_what_was_put_aside_stays() {
    let now = Instant::now();
    let (mut a, mut b) = (part("a", 1.0, &[]), part("b", 2.0, &[]));
    let webhooks = |waiting, waiting_since_ms: Option<u64>, given_up| {
        let waiting_for = waiting_since_ms.map(|_| "shop".to_owned());
        Some(WebhookFigures { off: Vec::new(), waiting, waiting_since_ms, waiting_for, given_up })
    };
    (a.health.webhooks, b.health.webhooks) = (webhooks(0, None, 1), webhooks(4, Some(900), 2));
    (a.health.dead_letters, b.health.dead_letters) = (Some(1), Some(2));
    (a.health.dead_letter_age_ms, b.health.dead_letter_age_ms) = (Some(9_000), Some(4_000));
    (a.health.reconciled_age_ms, b.health.reconciled_age_ms) = (Some(70_000), Some(100));
    (a.health.refunds_due, b.health.refunds_due) = (Some(5), Some(5));
    (a.health.backlog, b.health.backlog) = (Some(70), Some(71));
    let holds = |holds: serde_json::Value| Some(serde_json::from_value::<Holds>(holds).unwrap());
    a.holds = holds(json!({ "3": { "expired": 2, "paid_after": [[40, 1]] } }));
    b.holds = holds(
        json!({ "3": { "cancelled": 1, "paid_late": 1, "paid_after": [[40, 2], [90, 1]] }, "4": { "expired": 1 } }),
    );
    let both = json!({ "3": { "expired": 2, "cancelled": 1, "paid_late": 1, "paid_after": [[40, 3], [90, 1]] }, "4": { "expired": 1 } });
    (a.holds_since_ms, b.holds_since_ms) = (Some(100), Some(700));
    let (sum, _) = a.with(&[heard(&b, now, true)], now);
    assert_eq!(sum.holds_since_ms, Some(700), "what b counted before it was started again is not in the sum");
    assert_eq!(sum.health.webhooks, webhooks(4, Some(900), 3));
    assert_eq!((sum.health.dead_letters, sum.health.dead_letter_age_ms), (Some(3), Some(4_000)));
    assert_eq!(sum.health.reconciled_age_ms, Some(100), "the one that did it last");
    assert_eq!((sum.health.refunds_due, sum.health.backlog), (Some(5), Some(70)), "each knows all of them");
    assert_eq!(sum.holds, holds(both.clone()));
    let (sum, _) = a.with(&[heard(&b, now, false)], now);
    assert_eq!(sum.holds, holds(both), "what ended stays ended");
    assert_eq!((sum.health.webhooks, sum.health.dead_letters), (webhooks(0, None, 1), Some(3)));
    assert_eq!(sum.health.reconciled_age_ms, Some(70_000), "who is silent does not count");
    let (sum, _) = a.with(&[heard(&b, now, true)], now + Duration::from_secs(2));
    assert_eq!(sum.health.reconciled_age_ms, Some(2_100), "it was longer ago by its silence");
    let later = now + Duration::from_secs(30);
    let (sum, _) = a.with(&[heard(&b, now, true)], later);
    assert_eq!(sum.health.dead_letter_age_ms, Some(9_000), "it was longer ago by its silence");

    let webhooks = |off: &[&str], since, endpoint: Option<&str>| WebhookFigures {
        off: off.iter().map(|name| (*name).to_owned()).collect(),
        waiting: 1,
        waiting_since_ms: since,
        waiting_for: endpoint.map(str::to_owned),
        given_up: 0,
    };
    let sum = webhooks(&["a"], Some(900), Some("a")).and(webhooks(&["b"], Some(800), Some("b")));
    assert_eq!(sum, WebhookFigures { waiting: 2, ..webhooks(&["a", "b"], Some(800), Some("b")) });
}

/// A sum says of nobody which server it is.
#[test]
fn each_server_says_what_its_own_machine_has_and_one_that_does_not_is_not_known() {
    let now = Instant::now();
    let (mut a, mut b) = (part("a", 1.0, &[]), part("b", 2.0, &[]));
    let of = |free, confirmed, ahead| MachineFigures {
        disk_free_bytes: Some(free),
        disk_bytes: Some(100),
        clock_confirmed: Some(confirmed),
        clock_difference_ms: Some(0),
        clock_ahead_ms: Some(ahead),
    };
    (a.machine, b.machine) = (of(50, true, 2), of(1, false, -3_600_000));
    let said = |text: &str| ServerReport { said: text.as_bytes().into(), at: now, lives: true };
    let others = [
        heard(&b, now, false),
        said(r#"{"server":"c","health":{"ready":true,"clock_confirmed":true,"memory_bytes":7}}"#),
        said(r#"{"server":"d","machine":{"disk_free_bytes":3,"tomorrow":{}}}"#),
    ];
    let (sum, servers) = a.with(&others, now);
    let unknown = MachineFigures::default();
    let expected = [a.machine, b.machine, unknown, MachineFigures { disk_free_bytes: Some(3), ..unknown }];
    assert_eq!(servers.iter().map(|shown| shown.machine).collect::<Vec<_>>(), expected);
    assert_eq!((servers[2].memory_bytes, sum.machine), (Some(7), a.machine));
    let shown = json!(servers[2]);
    assert_eq!(shown["clock_confirmed"], json!(null), "{shown}");
    assert!(shown.get("disk_free_bytes").is_some(), "it is there, and null: {shown}");
}

#[test]
fn a_server_counts_while_it_speaks_and_is_missed_afterwards() {
    let (a, b) = (part("a", 1.0, &[]), part("b", 2.0, &[]));
    let begun = Instant::now();
    for (silent_ms, lives, counted) in
        [(0, true, true), (2_000, true, true), (2_001, true, false), (0, false, false), (60_000, true, false)]
    {
        let now = begun + Duration::from_millis(silent_ms);
        let (sum, servers) = a.with(&[heard(&b, begun, lives)], now);
        let case = format!("{silent_ms} {lives}");
        assert_eq!((servers[1].counted, servers[1].silent_ms), (counted, silent_ms), "{case}");
        assert_eq!(sum.rates.accepted, if counted { 3.0 } else { 1.0 }, "{case}");
        assert_eq!(sum.totals.accepted, 200, "what it did stays done: {case}");
    }
}

#[test]
fn orders_are_taken_while_one_server_takes_them_and_reasons_say_whose_they_are() {
    let now = Instant::now();
    let (mut a, b) = (part("a", 1.0, &[]), part("b", 2.0, &[]));
    a.health.ready = false;
    a.health.reasons = vec!["It stops.".to_owned()];
    let (sum, servers) = a.with(&[heard(&b, now, true)], now);
    assert!(sum.health.ready && !servers[0].ready && servers[1].ready);
    assert_eq!(sum.health.reasons, ["a: It stops."]);
    let (sum, _) = a.with(&[], now);
    assert!(!sum.health.ready);
    assert_eq!(sum.health.reasons, ["It stops."], "nobody else could be meant");
    let (sum, _) = b.with(&[heard(&a, now, true)], now);
    assert!(sum.health.ready);
    assert_eq!(sum.health.reasons, ["a: It stops."]);
}

#[test]
fn the_server_that_finds_most_away_is_heard() {
    let now = Instant::now();
    let of = |server: &str, products| {
        let mut part = part(server, 1.0, &[]);
        let why = "w".repeat(1_000);
        part.health.part_away = Some(PartAway { titles: vec![server.to_owned()], products, why });
        part
    };
    let (a, b, well) = (of("a", 2), of("b", 3), part("c", 1.0, &[]));
    let sum = |ours: &Part, theirs: &Part| {
        let part = ours.with(&[heard(theirs, now, true)], now).0.health.part_away.unwrap();
        (part.titles.concat(), part.why.len())
    };
    assert_eq!(sum(&a, &b), ("b".to_owned(), REASON_CHARS_MAX));
    assert_eq!(sum(&b, &a), ("b".to_owned(), 1_000));
    assert_eq!(sum(&well, &a), ("a".to_owned(), REASON_CHARS_MAX));
}

/// One server alone was cut off from the database, and every console said to bring the database back.
#[test]
fn a_ledger_that_one_server_uses_is_not_away() {
    let now = Instant::now();
    let of = |server: &str, fault: Option<&str>, units_age_ms| {
        let mut part = part(server, 1.0, &[]);
        let (engine, fault) = (Health::LEDGER.to_owned(), fault.map(str::to_owned));
        part.health.engines = vec![EngineFigures { engine, fault, cut_off: Vec::new() }];
        part.health.units_age_ms = Some(units_age_ms);
        part
    };
    let cut_off = |ours: &Part, others: &[&Part], lives| {
        let others: Vec<_> = others.iter().map(|part| heard(part, now, lives)).collect();
        ours.with(&others, now).0.health.engines.remove(0).cut_off
    };
    let (well, away, hangs) = (of("a", None, 900), of("b", Some("It is away."), 900), of("c", None, 5_001));
    let older = part("d", 1.0, &[]);
    assert_eq!(cut_off(&well, &[&away, &hangs, &older], true), ["b", "c"]);
    assert_eq!(cut_off(&away, &[&well], true), ["b"]);
    assert_eq!(cut_off(&hangs, &[&well], true), ["c"]);
    let nobody: [&str; 0] = [];
    assert_eq!(cut_off(&away, &[&hangs], true), nobody, "no server uses it: it is the engine");
    assert_eq!(cut_off(&away, &[&older], true), nobody, "it does not say");
    assert_eq!(cut_off(&away, &[&well], false), nobody, "it may be gone");
    assert_eq!(cut_off(&well, &[], true), nobody);
}

#[test]
fn a_server_that_was_started_again_is_one() {
    let begun = Instant::now();
    let now = begun + Duration::from_secs(30);
    let (a, b) = (part("a", 1.0, &[]), part("b", 2.0, &[]));
    let names = |others: &[ServerReport]| {
        let (_, servers) = a.with(others, now);
        servers.iter().map(|shown| (shown.server.clone(), shown.counted)).collect::<Vec<_>>()
    };
    let both = [("a".to_owned(), true), ("b".to_owned(), true)];
    assert_eq!(names(&[heard(&b, begun, true), heard(&b, now, true)]), both);
    assert_eq!(names(&[heard(&b, now, true), heard(&b, begun, true), heard(&a, begun, true)]), both);
    let gone = [("a".to_owned(), true), ("b".to_owned(), false)];
    assert_eq!(names(&[heard(&b, begun, true), heard(&b, begun, false)]), gone);
}

#[test]
fn what_is_written_is_short_and_what_cannot_be_read_is_passed_over() {
    let mut full = part("a", 1.0, &[]);
    let latencies = Latencies::default();
    for us in (0..14_000_000).step_by(10).chain([u64::MAX]) {
        latencies.observe(Duration::from_micros(us));
    }
    let counts = latencies.counts();
    full.recent =
        Recent { order: counts.clone(), commit: counts.clone(), unknown: u64::MAX, refused: u64::MAX };
    (full.order, full.commit) = (counts.clone(), counts);
    full.health.reasons = vec!["\u{1}".repeat(100_000); 4];
    full.machine = MachineFigures {
        disk_free_bytes: Some(u64::MAX),
        disk_bytes: Some(u64::MAX),
        clock_confirmed: Some(false),
        clock_difference_ms: Some(i64::MIN),
        clock_ahead_ms: Some(i64::MIN),
    };
    let written = full.written();
    assert!(written.len() < Servers::SAID_BYTES_MAX, "{}", written.len());

    // What sells may be too much to say, and the rest is heard all the same.
    let items: serde_json::Map<_, _> =
        (0..100).map(|item| ((u64::MAX - item).to_string(), json!([1e9, 1e9, 1e9, 1e9, 1e9]))).collect();
    let sale = json!({ "rates": [1.0, 0.0, 0.0, 0.0, 0.0], "items": items });
    full.sales = selling(json!({ "1": sale.clone(), "2": sale }));
    let written: Part = serde_json::from_slice(&full.written()).unwrap();
    assert_eq!((written.sales, written.totals), (None, full.totals));
    let what_is_said = |times: u64, reasons: u64| {
        let buckets: Vec<_> = (0..40).map(|bucket| (bucket, 1)).collect();
        let order: serde_json::Map<_, _> =
            (0..times).map(|item| (item.to_string(), json!(buckets))).collect();
        let why =
            json!({ "sold_out": 1.0, "not_enough_left": 1.0, "over_limit": 1.0, "too_many_holds": 1.0 });
        let why: serde_json::Map<_, _> = (0..reasons).map(|item| (item.to_string(), why.clone())).collect();
        let mut full = part("a", 1.0, &[]);
        full.sales = selling(json!({ "1": { "items_refused": why, "items_order": order } }));
        let written: Part = serde_json::from_slice(&full.written()).unwrap();
        let ours = Part { sales: Some(Selling::new()), ..part("b", 1.0, &[]) };
        let (sum, _) = ours.with(&[heard(&written, Instant::now(), true)], Instant::now());
        let second = &sum.sales.unwrap()[&1];
        (second.order_route_of_item(0).is_some(), second.refused_of_item(0).map(|why| why.len()))
    };
    assert_eq!(what_is_said(10, 10), (true, Some(4)));
    assert_eq!(what_is_said(100, 10), (false, Some(4)), "how long they took goes first");
    assert_eq!(what_is_said(100, 400), (false, None), "and is not taken for none");
    full = part("a", 1.0, &[]);
    full.sales = selling(json!({ "1": { "rates": [1.0, 0.0, 0.0, 0.0, 0.0] } }));
    assert_eq!(serde_json::from_slice::<Part>(&full.written()).unwrap().sales, full.sales);

    let now = Instant::now();
    let said = |text: &str| ServerReport { said: text.as_bytes().into(), at: now, lives: true };
    let older = said(r#"{"server":"b","rates":{"accepted":2.0},"tomorrow":1}"#);
    let others = [said("\u{0}"), said("[]"), older];
    let (sum, servers) = part("a", 1.0, &[]).with(&others, now);
    assert_eq!((sum.rates.accepted, servers.len()), (3.0, 2));
}
