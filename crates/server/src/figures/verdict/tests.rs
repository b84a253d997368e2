use std::collections::BTreeSet;
use std::sync::LazyLock;

use engine::UnixMs;
use serde_json::{Value, json};

use super::*;
use crate::figures::host::Disk;
use crate::figures::sales::NearSale;
use crate::figures::sample::{MachineFigures, ServerFigures, WebhookFigures};
use crate::intake::PartAway;

const NOW: UnixMs = UnixMs(1_796_119_200_000);

fn sale(phase: Phase, starts_in_ms: u64, units: [u64; 3]) -> NearSale<'static> {
    let [available, held, sold] = units;
    NearSale {
        id: 3,
        title: "Drop",
        phase,
        starts_at_ms: NOW.0 + starts_in_ms,
        units: Units { total: available + held + sold, available, turns: 0, held, sold },
    }
}

fn quiet<'a>(sales: &'a [NearSale<'static>]) -> Night<'a> {
    Night {
        now: NOW,
        takes_orders: true,
        stopping: false,
        read_only: false,
        engine_fault: None,
        part_away: None,
        ledger_fault: None,
        queues_fault: None,
        cut_off: None,
        cut_off_seconds: SECONDS - 1,
        units_age_ms: UNITS_AGE_MS_MAX,
        clock_confirmed: true,
        clock_difference_ms: -1_000,
        disk: Some(Disk { free_bytes: DISK_LOW_BYTES, bytes: 100 * DISK_LOW_BYTES }),
        unknown: 0,
        busy_seconds: SECONDS - 1,
        busy_per_s: 12.0,
        accepted_per_s: 4055.4,
        order_p99: Some(ORDER_P99_MAX),
        commit_p99: Some(COMMIT_P99_MAX),
        refunds_due: 0,
        backlog: 9,
        backlog_age_ms: BACKLOG_AGE_MS_MAX,
        reconciled_age_ms: RECONCILED_AGE_MS_MAX,
        dead_letters: 3,
        dead_letter_age_ms: Some(DEAD_LETTER_AGE_MS_MAX),
        orders_lost: Some(Lately { count: 9, age_ms: COUNTED_AGE_MS_MAX }),
        ledger_lost_tail: Some(Lately { count: 9, age_ms: COUNTED_AGE_MS_MAX }),
        drift_units: Some(Lately { count: 9, age_ms: COUNTED_AGE_MS_MAX }),
        connections_refused: 0,
        webhooks: None,
        processors_busy_seconds: SECONDS - 1,
        reasons: &[],
        servers: &[],
        servers_expected: 3,
        servers_fewer_seconds: SECONDS - 1,
        sales,
        live: live(sales),
        unasked: None,
    }
}

fn live(sales: &[NearSale<'_>]) -> Open {
    let live = sales.iter().filter(|sale| sale.phase == Phase::Live);
    live.fold(Open::default(), |sum, sale| Open { sales: sum.sales + 1, units: sum.units + sale.units })
}

/// What makes a night one of each fault, the most severe first, and what is said then.
type Fault = (&'static str, fn(&mut Night<'_>), &'static str);

fn server(name: &str, silent_ms: u64, ready: bool) -> ServerFigures {
    ServerFigures {
        server: name.to_owned(),
        silent_ms,
        counted: silent_ms < 2_000,
        ready,
        accepted_per_s: 0.0,
        in_flight: 0,
        processors_busy: None,
        memory_bytes: None,
        machine: MachineFigures::default(),
    }
}

/// One of three stops, and another is silent.
static REASONS: LazyLock<[String; 1]> = LazyLock::new(|| ["b: The server is stopping.".to_owned()]);
static ONE_STOPS: LazyLock<[ServerFigures; 3]> =
    LazyLock::new(|| [server("a", 0, true), server("b", 500, false), server("c", 3_999, true)]);
static ONE_IS_SILENT: LazyLock<[ServerFigures; 3]> =
    LazyLock::new(|| [server("a", 0, true), server("b", 500, false), server("c", 4_000, true)]);

static CUT_OFF: LazyLock<EngineFigures> = LazyLock::new(|| EngineFigures {
    engine: "MySQL".to_owned(),
    fault: Some("b: it is away".to_owned()),
    cut_off: vec!["b".to_owned()],
});

static HATS: LazyLock<PartAway> = LazyLock::new(|| PartAway {
    titles: vec!["Hat".to_owned()],
    products: 7,
    why: "redis 10.0.0.1:7000: refused".to_owned(),
});

/// Two endpoints, one of which is off.
static ONE_IS_OFF: LazyLock<WebhookFigures> = LazyLock::new(|| WebhookFigures {
    off: vec!["shop".to_owned()],
    waiting: 1_200,
    ..WebhookFigures::default()
});
static ONE_WAITS: LazyLock<WebhookFigures> = LazyLock::new(|| WebhookFigures {
    waiting: 1,
    waiting_since_ms: Some(NOW.0 - WEBHOOK_AGE_MS_MAX - 1),
    waiting_for: Some("shop".to_owned()),
    ..WebhookFigures::default()
});
/// One of two.
static ONE_IS_PAUSED: LazyLock<[NearSale<'static>; 2]> =
    LazyLock::new(|| [sale(Phase::Live, 0, [5, 1, 0]), sale(Phase::Paused, 0, [5, 1, 0])]);

const FAULTS: [Fault; 31] = [
    ("stopping", |night| (night.takes_orders, night.stopping) = (false, true), "is stopping"),
    (
        "disk_takes_no_writes",
        |night| (night.takes_orders, night.read_only) = (false, true),
        "takes no writes",
    ),
    (
        "not_ready",
        |night| {
            (night.takes_orders, night.accepted_per_s) = (false, 0.0);
            night.engine_fault = Some((Some("RocketMQ"), "the broker (RocketMQ) takes no messages"));
        },
        "here: the broker (RocketMQ) takes no messages.",
    ),
    (
        "gate_part_away",
        |night| night.part_away = Some(&*HATS),
        "“Hat” and 6 more can't be bought, other products can: redis 10.0.0.1:7000: refused.",
    ),
    (
        "clock_unconfirmed",
        |night| (night.takes_orders, night.clock_confirmed) = (false, false),
        "not confirmed",
    ),
    (
        "disk_full_soon",
        |night| night.disk = Some(Disk { free_bytes: 99 * MIB, bytes: 1000 * DISK_LOW_BYTES }),
        "Only 99 MiB are free",
    ),
    ("outcomes_unknown", |night| night.unknown = 7, "7 answers of the last 10 s said"),
    (
        "ledger_lost_tail",
        |night| night.ledger_lost_tail = Some(Lately { count: 1, age_ms: 61_000 }),
        "The ledger lost its latest entries 61 s ago",
    ),
    (
        "orders_lost",
        |night| night.orders_lost = Some(Lately { count: 1_200, age_ms: COUNTED_AGE_MS_MAX - 1 }),
        "the ledger rejected 1,200; the last 9 min ago.",
    ),
    (
        "ledger_away",
        |night| night.ledger_fault = Some("b: the ledger (MySQL) can't be used"),
        "Orders are accepted, and wait at the broker until a server can store them. b: the ledger (MySQL) can't be used.",
    ),
    (
        "nobody_reconciles",
        |night| night.reconciled_age_ms = 31_000,
        "No server has made gate and ledger agree for 31 s",
    ),
    ("servers_silent", |night| night.servers = &*ONE_IS_SILENT, "2 of 3 servers; c silent for 4 s."),
    (
        "server_cut_off",
        |night| (night.cut_off, night.cut_off_seconds) = (Some(&*CUT_OFF), SECONDS),
        "b does not reach the ledger's database; other servers do: it is away.",
    ),
    (
        "servers_out",
        |night| (night.servers, night.reasons) = (&*ONE_STOPS, &*REASONS),
        "1 of 3 servers take no orders. b: The server is stopping.",
    ),
    (
        "broker_not_well",
        |night| night.queues_fault = Some("the name servers (RocketMQ) don't say where the brokers are"),
        "Orders are taken, and RocketMQ is not well: the name servers (RocketMQ) don't say where the brokers are.",
    ),
    (
        "backlog",
        |night| (night.backlog, night.backlog_age_ms) = (12_000, 125_000),
        "12,000 messages wait at the broker, the oldest for 2 min",
    ),
    (
        "busy_with_stock",
        |night| night.busy_seconds = SECONDS,
        "12 orders/s are asked to come again, for 10 s",
    ),
    ("connections_refused", |night| night.connections_refused = 1_300, "1,300 connections were turned away"),
    ("sale_paused", |night| night.sales = &*ONE_IS_PAUSED, "“Drop” is paused"),
    ("orders_slow", |night| night.order_p99 = Some(Duration::from_millis(1_200)), "after 1.2 s or later"),
    ("commits_slow", |night| night.commit_p99 = Some(Duration::from_millis(501)), "took 501 ms"),
    ("processors_busy", |night| night.processors_busy_seconds = SECONDS, "busier than 95% for 10 s"),
    (
        "webhook_off",
        |night| night.webhooks = Some(&ONE_IS_OFF),
        "endpoint shop: it is off, or paused after failures. 1,200 events wait.",
    ),
    (
        "webhook_waiting",
        |night| night.webhooks = Some(&ONE_WAITS),
        "endpoint shop has not taken an event for 10 min.",
    ),
    (
        "beacon_not_configured",
        |night| night.unasked = Some((SaleId(7), ProductId(30))),
        "The draw of item 30 in sale 7 was announced with a beacon",
    ),
    ("clock_differs", |night| night.clock_difference_ms = -2_100, "is 2 s behind the clock that sales"),
    ("servers_fewer", |night| night.servers_fewer_seconds = SECONDS, "0 of 3 servers are there: each lets"),
    (
        "disk_low",
        |night| night.disk = Some(Disk { free_bytes: DISK_LOW_BYTES - 1, bytes: 100 * DISK_LOW_BYTES }),
        "5119 MiB are free",
    ),
    (
        "gate_and_ledger_differ",
        |night| night.drift_units = Some(Lately { count: 3, age_ms: 5_000 }),
        "differed by 3 units; the last time 5 s ago.",
    ),
    (
        "dead_letters",
        |night| night.dead_letter_age_ms = Some(DEAD_LETTER_AGE_MS_MAX - 1),
        "3 messages could not be read since the servers' start, and were put aside; the last one 59 min ago.",
    ),
    ("refunds_due", |night| night.refunds_due = 2, "2 payments paid for nothing"),
];

#[test]
fn each_fault_is_a_verdict_and_the_most_severe_one_is_given() {
    let sales = [sale(Phase::Live, 0, [5, 1, 0])];
    let mut all = quiet(&sales);
    assert_eq!(Verdict::on(&all).code, "selling", "everything is at its bound, and not above");
    for (code, fault, says) in FAULTS.iter().rev() {
        let mut alone = quiet(&sales);
        for night in [&mut alone, &mut all] {
            fault(night);
            let verdict = Verdict::on(night);
            assert_eq!(verdict.code, *code);
            assert!(verdict.says.contains(says), "{code}: {}", verdict.says);
        }
    }
}

#[test]
fn a_ledger_that_hangs_is_away_before_it_is_known_to_be() {
    let sales = [sale(Phase::Live, 0, [5, 1, 0])];
    let night = Night { units_age_ms: 6_100, ..quiet(&sales) };
    let verdict = Verdict::on(&night);
    assert_eq!(verdict.code, "ledger_away");
    assert!(verdict.says.ends_with(
        "can store them. The ledger has not answered for 6 s: what is held and sold is as it was then."
    ));
}

#[test]
fn a_part_of_the_gate_of_which_nothing_is_on_sale_is_reported_too() {
    let part = PartAway { titles: Vec::new(), products: 0, why: "refused".to_owned() };
    let verdict = Verdict::on(&Night { part_away: Some(&part), ..quiet(&[]) });
    let says = "A part of the stock gate can't be used, nothing that is on sale is there: refused.";
    assert_eq!((verdict.code, &*verdict.says, verdict.no_orders), ("gate_part_away", says, false));
}

#[test]
fn it_is_not_said_that_no_order_is_taken_while_some_are() {
    let engine_fault = Some((Some("Redis"), "the stock gate (Redis) can't be used"));
    let night = Night { takes_orders: false, engine_fault, ..quiet(&[]) };
    let verdict = Verdict::on(&night);
    assert_eq!((verdict.code, verdict.no_orders), ("not_ready", false));
    assert_eq!(verdict.says, "Not every order is taken here: the stock gate (Redis) can't be used.");
    assert!(Verdict::on(&Night { accepted_per_s: 0.0, ..night }).no_orders);
}

#[test]
fn one_refund_is_one() {
    let night = Night { refunds_due: 1, ..quiet(&[]) };
    assert_eq!(Verdict::on(&night).says, "1 payment paid for nothing: its refund is due.");
}

#[test]
fn what_is_wrong_with_one_server_alone_is_not_red() {
    let sales = [sale(Phase::Live, 0, [5, 1, 0])];
    let mut night = quiet(&sales);
    (night.stopping, night.read_only, night.clock_confirmed) = (true, true, false);
    night.engine_fault = Some((Some("Redis"), "the gate (Redis) is not connected"));
    assert_eq!(Verdict::on(&night).code, "selling");
    (night.servers, night.reasons) = (&*ONE_STOPS, &*REASONS);
    assert_eq!(Verdict::on(&night).code, "servers_out");
}

#[test]
fn what_nobody_waits_for_is_not_busy_and_a_small_disk_is_measured_by_itself() {
    let sold_out = [sale(Phase::Live, 0, [0, 1, 5]), sale(Phase::NotStarted, SOON_MS + 1, [9, 0, 0])];
    let night = Night { busy_seconds: 60, ..quiet(&sold_out) };
    assert_eq!(Verdict::on(&night).code, "sold_out");
    let sales = [sale(Phase::Live, 0, [5, 1, 0])];
    for (busy_per_s, orders) in [(0.3, "Less than 1 order/s is"), (1.0, "1 orders/s are")] {
        let night = Night { busy_seconds: 60, busy_per_s, ..quiet(&sales) };
        let says = Verdict::on(&night).says;
        assert!(says.starts_with(&format!("{orders} asked to come again")), "{says}");
    }
    // A tenth of the smaller one would be less than the ledger keeps free, and come after the last order.
    for (mib, free_mib, code) in [
        (500, 50, "sold_out"),
        (500, 49, "disk_full_soon"),
        (100, 32, "sold_out"),
        (100, 31, "disk_full_soon"),
    ] {
        let disk = Some(Disk { free_bytes: free_mib * MIB, bytes: mib * MIB });
        assert_eq!(Verdict::on(&Night { disk, ..quiet(&sold_out) }).code, code, "{mib}, {free_mib}");
    }
    assert_eq!(Verdict::on(&Night { disk: None, ..quiet(&sold_out) }).code, "sold_out");
}

#[test]
fn a_night_without_faults_is_described_by_its_sales() {
    use Phase::{Ended, Live, NotStarted, Paused};
    let units = Units { total: 5, available: 0, turns: 2, held: 0, sold: 3 };
    let called = NearSale { units, ..sale(Live, 0, [0; 3]) };
    for (sales, code, says) in [
        (vec![], "nothing_planned", "Ready. No sale runs, and none is planned."),
        (vec![sale(Ended, 0, [5, 0, 0])], "nothing_planned", "none is planned"),
        (
            vec![sale(NotStarted, SOON_MS + 1, [5, 0, 0])],
            "planned",
            "Ready. “Drop” starts at 2026-12-01T10:10:00Z.",
        ),
        (vec![sale(NotStarted, SOON_MS, [5, 0, 0])], "starts_soon", "10 min until “Drop”, ready."),
        (vec![sale(NotStarted, 91_000, [5, 0, 0])], "starts_soon", "2 min until “Drop”, ready."),
        (vec![sale(NotStarted, 89_001, [5, 0, 0])], "starts_soon", "90 s until “Drop”, ready."),
        (
            vec![sale(NotStarted, 700_000, [5, 0, 0]), sale(NotStarted, 1_000, [5, 0, 0])],
            "starts_soon",
            "1 s until",
        ),
        (
            vec![sale(Live, 0, [5, 1, 0]), sale(NotStarted, 5_000, [5, 0, 0])],
            "selling",
            "“Drop” is selling at 4,055 orders/s, 5 units left; 5 s until “Drop”.",
        ),
        (
            vec![sale(Live, 0, [0, 0, 3]), sale(NotStarted, 5_000, [5, 0, 0])],
            "starts_soon",
            "5 s until “Drop”, ready.",
        ),
        (vec![sale(Live, 0, [1, 0, 0])], "selling", "“Drop” is selling at 4,055 orders/s, 1 unit left."),
        (
            vec![sale(Live, 0, [5, 1, 0]), sale(Live, 0, [2, 0, 0])],
            "selling",
            "2 sales are selling at 4,055 orders/s, 7 units left.",
        ),
        (vec![called], "selling", "“Drop” is selling at 4,055 orders/s, 2 units left."),
        (
            vec![sale(Live, 0, [0, 2, 3])],
            "sold_out",
            "“Drop” is sold out: 3 units sold, 2 held until they are paid or come back.",
        ),
        (vec![sale(Live, 0, [0, 0, 3])], "sold_out", "“Drop” is sold out: 3 units sold."),
        (
            vec![sale(Live, 0, [5, 0, 0]), sale(Paused, 0, [5, 0, 0])],
            "sale_paused",
            "“Drop” is paused: nothing of it is sold",
        ),
        (
            vec![sale(Paused, SOON_MS, [5, 0, 0])],
            "sale_paused",
            "“Drop” is paused, and was to start in 10 min.",
        ),
        // Paused days before its start, it turned the night amber all the while.
        (
            vec![sale(Paused, SOON_MS + 1, [5, 0, 0])],
            "planned",
            "Ready. “Drop” starts at 2026-12-01T10:10:00Z, and is paused.",
        ),
        (
            vec![sale(Live, 0, [5, 1, 0]), sale(Paused, SOON_MS + 1, [5, 0, 0])],
            "selling",
            "“Drop” is selling at",
        ),
    ] {
        let verdict = Verdict::on(&quiet(&sales));
        assert_eq!(verdict.code, code, "{}", verdict.says);
        assert!(verdict.says.contains(says), "{code}: {}", verdict.says);
    }
}

/// What is pressed is what the sentence is about, and of the sale that it names.
#[test]
fn what_is_to_be_done_is_a_button_where_the_console_has_one() {
    use Phase::{Ended, Live, NotStarted, Paused};
    let of = |id, phase, starts_in_ms| NearSale { id, ..sale(phase, starts_in_ms, [5, 0, 0]) };
    let resume = |sale: u64| json!({ "kind": "resume", "sale": sale, "product": null });
    let nothing = Value::Null;
    let mut given = BTreeSet::new();
    for (sales, code, action) in [
        (vec![of(3, Live, 0), of(4, Paused, 0)], "sale_paused", resume(4)),
        (vec![of(3, Paused, SOON_MS), of(4, Paused, 1_000)], "sale_paused", resume(4)),
        (vec![of(5, Paused, SOON_MS)], "sale_paused", resume(5)),
        // Nothing is to be done there yet.
        (vec![of(3, Paused, SOON_MS + 1)], "planned", nothing.clone()),
        (vec![of(3, Live, 0)], "selling", nothing.clone()),
        (vec![of(3, NotStarted, 1_000)], "starts_soon", nothing),
        (
            vec![of(3, Ended, 0)],
            "nothing_planned",
            json!({ "kind": "create", "sale": null, "product": null }),
        ),
    ] {
        let verdict = json!(Verdict::on(&quiet(&sales)));
        assert_eq!((&verdict["code"], &verdict["action"]), (&json!(code), &action), "{verdict}");
        if !action.is_null() {
            given.insert(code);
        }
    }
    // A cause that comes before says what to do about itself.
    let paused = [of(3, Paused, 0)];
    let verdict = Verdict::on(&Night { unknown: 1, ..quiet(&paused) });
    assert_eq!((verdict.code, verdict.press), ("outcomes_unknown", None));
    let have: BTreeSet<_> = RULES.iter().filter(|rule| rule.press.is_some()).map(|rule| rule.code).collect();
    assert_eq!(given, have, "each rule that has one is tried above");
}

/// Of a sale that was paused and another fault the verdict said the fault alone, and nobody saw why nothing was sold.
#[test]
fn a_live_sale_that_is_paused_is_said_whatever_else_is_amber() {
    let resume = json!({ "kind": "resume", "sale": 3, "product": null });
    for (code, fault, says) in FAULTS.iter().filter(|(code, ..)| *code != "sale_paused") {
        let paused = [sale(Phase::Live, 0, [5, 1, 0]), sale(Phase::Paused, 0, [5, 1, 0])];
        let mut night = quiet(&paused);
        fault(&mut night);
        let verdict = Verdict::on(&night);
        let is_said = verdict.says.contains("“Drop” is paused");
        if verdict.level == Level::Red {
            assert!(verdict.code == *code && !is_said, "{code}: {}", verdict.says);
            continue;
        }
        assert!(is_said, "{code}: {}", verdict.says);
        if verdict.code == "sale_paused" {
            assert_eq!(json!(verdict.press), resume, "{code}");
        } else {
            let expected = verdict.says.contains(says) && verdict.says.ends_with(" “Drop” is paused, too.");
            assert!(verdict.code == *code && expected && verdict.press.is_none(), "{code}: {}", verdict.says);
        }
    }
    // The processors are busy: so they are, and that is not why.
    let paused = [sale(Phase::Paused, 0, [5, 1, 0])];
    let night = Night { processors_busy_seconds: SECONDS, ..quiet(&paused) };
    assert_eq!(Verdict::on(&night).code, "sale_paused");
    // One that has not begun is not why nothing is sold.
    let to_come = [sale(Phase::Live, 0, [5, 1, 0]), sale(Phase::Paused, 1_000, [5, 1, 0])];
    let night = Night { connections_refused: 1, ..quiet(&to_come) };
    assert!(!Verdict::on(&night).says.contains("paused"));
}

#[test]
fn the_console_has_each_button() {
    let actions = include_str!("../../../templates/assets/console-actions.js");
    let page = include_str!("../../../templates/console.html");
    for press in [Press::resume(3), Press::CREATE] {
        let kind = json!(press)["kind"].as_str().unwrap().to_owned();
        let of_a_sale = actions.contains(&format!("\n  {kind}: {{\n    name: \""));
        let of_none = page.contains(&format!(" data-call=\"{kind}\">"));
        assert_eq!((of_a_sale, of_none), (press != Press::CREATE, press == Press::CREATE), "{kind}");
    }
}

#[test]
fn a_title_is_shown_as_it_is_and_turns_no_line_around() {
    for (title, shown) in [
        ("The \"Drop\" é", "“The \"Drop\" é” is selling at"),
        ("\u{202e}evil\u{1b}[2J", "“\u{fffd}evil\u{fffd}[2J” is selling at"),
    ] {
        let sales = [NearSale { title, ..sale(Phase::Live, 0, [5, 1, 0]) }];
        let says = Verdict::on(&quiet(&sales)).says;
        assert!(says.starts_with(shown), "{says:?}");
    }
}

/// In a cluster no order waits for the ledger.
#[test]
fn whoever_sees_unknown_outcomes_of_a_cluster_is_led_to_redis_and_the_broker() {
    let rule = RULES.iter().find(|rule| rule.code == "outcomes_unknown").unwrap();
    let runbook = include_str!("../../../../../docs/runbook.md");
    let (_, section) = runbook.split_once("\n### Outcomes unknown\n").unwrap();
    let look = section.lines().find(|line| line.starts_with("- **Look**")).unwrap();
    for says in [rule.action, look] {
        assert!(
            ["cluster", "Redis", "broker", "ledger's disk or database"].iter().all(|it| says.contains(it)),
            "{says}"
        );
    }
}

#[test]
fn the_most_severe_rules_come_first_and_the_runbook_has_each() {
    assert!(RULES.is_sorted_by_key(|rule| rule.level));
    let runbook = include_str!("../../../../../docs/runbook.md");
    let night = quiet(&[]);
    assert_eq!(Verdict::on(&night).runbook, "nothing-planned");
    let green = RULES.iter().filter(|rule| rule.level == Level::Green);
    let place = |rule: &Rule| runbook.find(&format!("\nGreen: verdict `{}`", rule.code));
    assert!(green.map(place).is_sorted(), "the runbook has the green ones in the rules' order");
    for rule in RULES {
        // A heading's anchor is the heading in small letters, with hyphens.
        let words = rule.code.replace('_', " ");
        let (first, rest) = words.split_at(1);
        let heading = format!("\n### {}{rest}\n", first.to_uppercase());
        let (_, section) = runbook.split_once(&heading).unwrap_or_else(|| panic!("{heading}"));
        let level = format!("\n{:?}: verdict `{}`", rule.level, rule.code);
        assert!(section.starts_with(&level), "{heading}: {level}");
    }
}
