//! Which sales and items are shown, of more than can be.

use std::time::Duration;

use engine::{Command, Refusal, SaleId, SkuId, Stock};
use serde_json::{Value, json};

use super::{HOUR_MS, NOW, Server, sale};
use crate::figures::sales::{ITEMS_MAX, SALES_MAX, TO_COME_MIN};
use crate::intake::{PartAway, RequestOutcome, ServerReport};

#[test]
fn sales_are_shown_nearest_first_and_within_bounds() {
    let day = 24 * HOUR_MS;
    let mut server = Server::new(vec![
        sale(1, NOW.0 - day - 2 * HOUR_MS, 1),
        sale(2, NOW.0 - 2 * HOUR_MS, 1),
        sale(3, NOW.0 - 3 * HOUR_MS, 1),
        sale(4, NOW.0 + 2 * HOUR_MS, 1),
        sale(5, NOW.0 + HOUR_MS, 1),
        sale(6, NOW.0 - 2, 60),
        sale(7, NOW.0 - 1, 60),
    ]);
    let seen = server.look(1_000);
    let sales = seen["sales"].as_array().unwrap();
    let shown: Vec<_> = sales
        .iter()
        .map(|sale| {
            let items = sale["items"].as_array().unwrap().len();
            (sale["id"].as_u64().unwrap(), sale["state"].as_str().unwrap(), items)
        })
        .collect();
    assert_eq!(
        shown,
        [
            (7, "live", 60),
            (6, "live", 36),
            (5, "not_started", 1),
            (4, "not_started", 1),
            (2, "ended", 1),
            (3, "ended", 1)
        ]
    );
    assert_eq!((&sales[1]["items_total"], &sales[1]["units"]["total"]), (&json!(60), &json!(600)));
    assert_eq!(shown.iter().map(|(_, _, items)| items).sum::<usize>(), ITEMS_MAX);

    for id in 8..60 {
        server.book.execute(NOW, Command::CreateSale(sale(id, NOW.0, 1))).unwrap();
    }
    server.publish();
    assert_eq!(server.look(2_000)["sales"].as_array().unwrap().len(), SALES_MAX);
}

/// With 20 sales that ran, the one that everybody waited for was shown nowhere, nor was what sold most; and sums were of those shown.
#[test]
fn what_begins_next_and_what_sells_is_shown_however_many_sales_run() {
    let running = (1..=30).map(|id| sale(id, NOW.0 - 1_000_000 + id, 1));
    let to_come = (0..TO_COME_MIN as u64).map(|after| sale(40 + after, NOW.0 + (1 + after) * 150_000, 1));
    let sells = sale(99, NOW.0 - 2_000_000, 1);
    let mut server = Server::new([sells].into_iter().chain(running).chain(to_come).collect());
    server.book.execute(NOW, Command::Pause(SaleId(44))).unwrap();
    server.publish();
    server.catalog.skus[0].counters.publish(Stock::of(10, 1, 0).unwrap());
    let seen = server.look(1_000);
    let shown: Vec<_> =
        seen["sales"].as_array().unwrap().iter().map(|sale| sale["id"].as_u64().unwrap()).collect();
    assert_eq!(shown, [vec![99], (17..=30).rev().collect(), vec![40, 41, 42, 43, 44]].concat());
    let says = seen["verdict"]["says"].as_str().unwrap();
    assert!(says.starts_with("31 sales are selling") && says.ends_with("; 3 min until “Drop 40”."), "{says}");
    assert_eq!((&seen["sales_total"], &seen["open"]["sales"]), (&json!(36), &json!(31)));
    let units = &seen["open"]["units"];
    assert_eq!((&units["total"], &units["available"], &units["held"]), (&json!(310), &json!(309), &json!(1)));
}

/// Nobody could watch one of the others.
#[test]
fn a_sale_that_is_wanted_by_its_number_is_shown_beside_the_others_for_a_while() {
    let mut server = Server::new((1..=180).map(|id| sale(id, NOW.0 - 1_000_000 + id, 1)).collect());
    let ids = |seen: &Value| -> Vec<u64> {
        seen["sales"].as_array().unwrap().iter().map(|sale| sale["id"].as_u64().unwrap()).collect()
    };
    let before = ids(&server.look(1_000));
    let wanted = |server: &Server, sale, after_ms| {
        let at = server.begun + Duration::from_millis(after_ms);
        server.looking.figures().wanted.ask(sale, at);
    };
    // One that is shown anyway stays in its place, and one that there is not takes none.
    for sale in [3, 180, 999] {
        wanted(&server, sale, 1_000);
    }
    assert_eq!(ids(&server.look(2_000)), [&before[..], &[3]].concat());
    let outcomes = &server.catalog.skus[2].counters.outcomes;
    outcomes.count(RequestOutcome::Accepted);
    outcomes.count_refused(Refusal::OverLimit);
    let seen = server.look(3_000);
    let third = &seen["sales"][SALES_MAX];
    assert_eq!(
        (&third["rates"]["accepted"], &third["refused_by_code"]["over_limit"]),
        (&json!(1.0), &json!(1.0))
    );
    assert_eq!(ids(&server.look(11_000)), before);
}

/// Whichever server of a cluster is asked, all say what they sell of it.
#[test]
fn a_sale_that_is_wanted_at_another_server_is_shown_too() {
    let sales = (1..=30).map(|id| sale(id, NOW.0 - 1_000_000 + id, 1)).collect();
    let mut server = Server::with(sales, true);
    server.look(1_000);
    let said =
        br#"{"server":"there:80","wanted":[3],"sales":{"3":{"rates":[2.0,0.0,0.0,0.0,0.0]}},"holds":{}}"#;
    let at = server.begun + Duration::from_millis(1_000);
    server.servers.hear(vec![ServerReport { said: said[..].into(), at, lives: true }]);
    server.look(2_000);
    // From here on it is counted.
    server.look(2_500);
    server.catalog.skus[2].counters.outcomes.count(RequestOutcome::Accepted);
    let seen = server.look(3_000);
    let third = &seen["sales"][SALES_MAX];
    assert_eq!((&third["id"], &third["rates"]["accepted"]), (&json!(3), &json!(4.0)));
}

/// With 20 of 180 sales shown, the verdict was green while one of the others was paused, and no event reported it.
#[test]
fn a_pause_is_seen_however_many_sales_run() {
    let mut server = Server::new((1..=180).map(|id| sale(id, NOW.0 - 1_000_000 + id, 1)).collect());
    assert_eq!(server.look(1_000)["verdict"]["code"], "selling");
    for (s, pause, code, kind) in [
        (2_000, Command::Pause(SaleId(5)), "sale_paused", "sale_paused"),
        (3_000, Command::Resume(SaleId(5)), "selling", "sale_resumed"),
    ] {
        server.book.execute(NOW, pause).unwrap();
        server.publish();
        let seen = server.look(s);
        assert_eq!(seen["verdict"]["code"], code, "{}", seen["verdict"]);
        assert_eq!(seen["sales"][0]["id"] == 5, code == "sale_paused", "the paused one is the first");
        let events = seen["events"].as_array().unwrap();
        assert!(events.iter().any(|event| event["kind"] == kind && event["sale"] == 5), "{events:?}");
    }
}

#[test]
fn while_a_part_of_the_gate_is_away_the_server_is_ready_and_says_what_can_not_be_bought() {
    let mut server = Server::with(vec![sale(3, NOW.0, 2)], true);
    assert_eq!(server.look(1_000)["verdict"]["code"], "selling");
    let why = "redis 10.0.0.1:7000: refused";
    server.health.note_part_away(Some(PartAway::of(&server.catalog, &[SkuId(1)], why.to_owned())));
    let seen = server.look(2_000);
    let says = "“A \"shoe\"” can't be bought, other products can: redis 10.0.0.1:7000: refused";
    assert_eq!(seen["verdict"]["says"], format!("{says}."));
    assert_eq!((&seen["health"]["ready"], &seen["health"]["reasons"]), (&json!(true), &json!([])));
    assert_eq!(seen["health"]["part_away"], json!({"titles": ["A \"shoe\""], "products": 1, "why": why}));
    assert_eq!(seen["health"]["engines"][0], json!({"engine": "Redis", "fault": says}));
    let kinds: Vec<_> = seen["events"].as_array().unwrap().iter().map(|event| &event["kind"]).collect();
    assert!(kinds.contains(&&json!("part_away")) && !kinds.contains(&&json!("no_orders_taken")), "{kinds:?}");
    server.health.note_part_away(None);
    assert_eq!(server.look(3_000)["verdict"]["code"], "selling");
}
