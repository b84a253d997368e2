//! What is shown on a terminal, line by line.
//!
//! Must not: leave out what is too much for the terminal; that is `terminal`'s.

use std::collections::BTreeMap;
use std::time::Duration;

use super::figures::{Event, Figures, Holds, Item, Sale, Server, Took};
use super::terminal::Line;
use super::verdict;
use crate::output::{self, Column, cut, numbers, plain, table_without, words};
use crate::sale;
use crate::time::{format_duration, format_utc};

/// Of items, and of lines about them.
const ROWS_MAX: usize = 20;
const EVENTS_MAX: usize = 5;
/// Of a table that is narrowed: a title may be long.
const NARROW_CELLS_MAX: usize = 18;

/// What is drawn at one moment.
pub(super) struct Look<'a> {
    /// The server's URL.
    pub(super) base: &'a str,
    pub(super) figures: &'a Figures,
    /// They are of one sale that was named: its items are shown too.
    pub(super) named: bool,
    pub(super) age: Duration,
    /// They should be newer by now: what they judge is not known any more.
    pub(super) old: bool,
    /// Why there is no answer, and for how long.
    pub(super) gone: Option<(String, Duration)>,
}

/// All of it, what matters most first.
pub(super) fn screen(look: &Look<'_>, columns: usize) -> Vec<Line> {
    let Figures { at_ms, sales, events, .. } = look.figures;
    let mut lines = verdict::lines(look);
    if look.named {
        lines.extend(listed(sales, 0, columns));
        for sale in sales {
            lines.extend(when(sale, *at_ms).map(Line::Words));
            lines.extend(items(sale, columns));
        }
        lines.extend(doing(sales));
        lines.push(Line::Words(String::new()));
        lines.extend(machine(look.figures));
    } else {
        lines.extend(machine(look.figures));
        lines.extend(listed(sales, look.figures.sales_not_shown(), columns));
        lines.extend(doing(sales));
    }
    lines.extend(happened(events));
    let machines = machines(look.figures, look.age, columns);
    if !machines.is_empty() {
        lines.push(Line::Words(String::new()));
    }
    lines.extend(machines.lines().map(|row| Line::Row(row.to_owned())));
    lines
}

/// What it stands on, and what it does, of all sales.
fn machine(figures: &Figures) -> Vec<Line> {
    let Figures { rates, refused_by_code, order_route, health, servers, .. } = figures;
    let mut lines = Vec::new();
    let mut say = |line: &str| lines.push(Line::Words(line.to_owned()));
    let engines = health.engines();
    if !engines.is_empty() {
        say(&format!("engines     {engines}"));
    }
    if servers.len() > 1 {
        let counted = servers.iter().filter(|server| server.counted).count();
        let each: Vec<_> = servers.iter().map(Server::words).collect();
        say(&format!("servers     {counted} of {}: {}", servers.len(), each.join(", ")));
    }
    say("");
    say(&format!("per second  {}", per_s(rates)));
    if !refused_by_code.is_empty() {
        say(&format!("refused     {}", per_s(refused_by_code)));
    }
    let took = |took: &Option<Took>| match took {
        Some(took) => took.words(),
        None => "none".to_owned(),
    };
    say(&format!("orders      {}", took(order_route)));
    say(&format!("commits     {}", took(&health.commit)));
    say(&format!(
        "server      in flight {}  connections {}  processors {}  memory {}  disk free {}",
        health.in_flight,
        health.connections,
        health.processors_busy.map_or_else(|| "-".to_owned(), |busy| format!("{:.0}%", busy * 100.0)),
        mib(health.memory_bytes),
        mib(health.disk_free_bytes),
    ));
    if let Some(clock) = health.clock() {
        say(&format!("clock       {clock}"));
    }
    if let Some(admission) = health.admission() {
        say(&format!("admission   {admission}"));
    }
    let behind = health.behind();
    if !behind.is_empty() {
        say(&format!("behind      {}", behind.join("  ")));
    }
    lines
}

/// In how long it begins or ends. `None`: it is over.
fn when(sale: &Sale, now_ms: u64) -> Option<String> {
    let until = |ms: u64| format_duration(Duration::from_secs(ms.saturating_sub(now_ms).div_ceil(1_000)));
    match sale.state.as_str() {
        "ended" => None,
        "paused" if now_ms < sale.starts_at_ms => {
            Some(format!("starts in {}, if it is resumed by then", until(sale.starts_at_ms)))
        }
        _ if now_ms < sale.starts_at_ms => Some(format!("starts in {}", until(sale.starts_at_ms))),
        _ => Some(format!("ends in {}", until(sale.ends_at_ms))),
    }
}

fn per_s(rates: &BTreeMap<String, f64>) -> String {
    let each: Vec<_> = rates.iter().map(|(name, rate)| format!("{} {rate}", plain(name))).collect();
    each.join("  ")
}

/// The sales, a row each.
fn listed(sales: &[Sale], not_shown: usize, columns: usize) -> Vec<Line> {
    let mut lines = vec![Line::Words(String::new())];
    let table = sales_table(sales, columns);
    let mut rows = table.lines().map(str::to_owned);
    lines.extend(rows.next().map(Line::Row));
    lines.extend(rows.map(Line::Sale));
    if not_shown > 0 {
        lines.push(Line::Words(format!("and {not_shown} sales more: `doorbuster sale list`")));
    }
    lines
}

/// What each of them does.
fn doing(sales: &[Sale]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut say = |line: String| lines.push(Line::Words(line));
    for sale in sales {
        let happens = sale.rates.iter().flatten().filter(|(_, rate)| **rate > 0.0);
        let rates: BTreeMap<_, _> = happens.map(|(name, rate)| (name.clone(), *rate)).collect();
        if !rates.is_empty() {
            say(format!("sale {}  per second  {}", sale.id, per_s(&rates)));
        }
        if !sale.refused_by_code.is_empty() {
            say(format!("sale {}  refused  {}", sale.id, per_s(&sale.refused_by_code)));
        }
        if let Some(took) = &sale.order_route {
            say(format!("sale {}  orders  {}", sale.id, took.words()));
        }
        let sold_out = sale.items.iter().filter_map(|item| Some((item.product, item.sold_out_at_ms?)));
        for (product, at_ms) in sold_out.take(ROWS_MAX) {
            say(format!("sale {}  product {product} sold out at {}", sale.id, format_utc(at_ms)));
        }
        if let Some(at_ms) = sale.ended_at_ms {
            say(format!("sale {}  ended at {}, before its time", sale.id, format_utc(at_ms)));
        }
        if let Some(holds) = sale.holds.as_ref().and_then(Holds::words) {
            say(format!("sale {}  {holds}", sale.id));
        }
        let lines = sale.items.iter().filter_map(|item| Some((item.product, item.line.as_ref()?)));
        for (product, line) in lines.take(ROWS_MAX) {
            say(format!("sale {}  line of {product}  {}", sale.id, line.words()));
        }
    }
    lines
}

/// The last of it.
fn happened(events: &[Event]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut say = |line: String| lines.push(Line::Words(line));
    if !events.is_empty() {
        say(String::new());
    }
    for event in events.iter().take(EVENTS_MAX) {
        say(format!("{}  {}", format_utc(event.at_ms), plain(&event.says)));
    }
    lines
}

fn sales_table(sales: &[Sale], width: usize) -> String {
    let row = |sale: &Sale| {
        let [total, available, turns, held, sold] = sale.units.words();
        let (title, state) = (plain(&sale.title), plain(&sale.state));
        let ends = format_utc(sale.ended_at_ms.unwrap_or(sale.ends_at_ms));
        let starts = format_utc(sale.starts_at_ms);
        let items = sale.items_total.to_string();
        [sale.id.to_string(), title, state, starts, ends, items, total, available, turns, held, sold]
    };
    let rows: Vec<_> = sales.iter().map(row).collect();
    let has_lines = sales.iter().any(has_line);
    let left_out = (!has_lines).then_some(sale::TURNS);
    fitting(left_out, sale::COLUMNS, &rows, [0, 1, 2, 6, 7, 8, 9, 10], width)
}

fn items(sale: &Sale, width: usize) -> Vec<Line> {
    let columns = [
        numbers("product"),
        words("item"),
        numbers("total"),
        numbers("available"),
        numbers("turns"),
        numbers("held"),
        numbers("sold"),
        numbers("orders/s"),
        numbers("refused"),
        numbers("busy"),
        numbers("unknown"),
        numbers("p50 ms"),
        numbers("p99 ms"),
    ];
    let row = |item: &Item| {
        let [total, available, turns, held, sold] = item.units.words();
        let known = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let rate = |name| known(item.rates.as_ref().and_then(|rates| rates.get(name).copied()));
        let took = |of: fn(&Took) -> f64| known(item.order_route.as_ref().map(of));
        [
            item.product.to_string(),
            plain(&item.title),
            total,
            available,
            turns,
            held,
            sold,
            rate("accepted"),
            rate("refused"),
            rate("busy"),
            rate("unknown"),
            took(|took| took.p50_ms),
            took(|took| took.p99_ms),
        ]
    };
    let shown: Vec<_> = sale.items.iter().take(ROWS_MAX).map(row).collect();
    let left_out = (!has_line(sale)).then_some(4);
    let table = fitting(left_out, columns, &shown, [0, 1, 3, 4, 5, 6, 7, 8, 12], width);
    let mut lines = vec![Line::Words(String::new())];
    lines.extend(table.lines().map(|row| Line::Row(row.to_owned())));
    let more = sale.items_total.saturating_sub(shown.len());
    if more > 0 {
        lines.push(Line::Words(format!("and {more} items more: `doorbuster sale show {}`", sale.id)));
    }
    lines.extend(sale.items.iter().take(ROWS_MAX).filter_map(|item| {
        let refused = item.refused_by_code.as_ref().filter(|refused| !refused.is_empty())?;
        Some(Line::Words(format!("product {}  refused  {}", item.product, per_s(refused))))
    }));
    lines
}

/// Whether units may be set aside in turns.
fn has_line(sale: &Sale) -> bool {
    sale.units.turns > 0 || sale.items.iter().any(|item| item.line.is_some())
}

/// A table without a column, and with those that are `kept` alone if all of them are too wide.
fn fitting<const N: usize, const M: usize>(
    left_out: Option<usize>,
    columns: [Column; N],
    rows: &[[String; N]],
    kept: [usize; M],
    width: usize,
) -> String {
    let whole = table_without(left_out, columns, rows);
    if whole.lines().all(|line| output::width(line) <= width) {
        return whole;
    }
    let rows: Vec<_> = rows.iter().map(|row| kept.map(|at| cut(&row[at], NARROW_CELLS_MAX))).collect();
    let left_out = kept.iter().position(|at| Some(*at) == left_out);
    table_without(left_out, kept.map(|at| columns[at]), &rows)
}

/// A row for each server of a cluster, of what is in no sum: which one is short of room, or has a wrong clock.
pub(super) fn machines(figures: &Figures, age: Duration, width: usize) -> String {
    if figures.health.dead_letters.is_none() || figures.servers.is_empty() {
        return String::new();
    }
    let columns = [
        words("server"),
        numbers("as of"),
        numbers("disk free"),
        numbers("of"),
        numbers("memory"),
        words("clock"),
        numbers("from most"),
        numbers("from system"),
    ];
    let row = |server: &Server| {
        let since = format_duration(age + Duration::from_millis(server.silent_ms));
        let [free, of, memory] = [server.disk_free_bytes, server.disk_bytes, server.memory_bytes].map(mib);
        let [clock, from_most, from_system] = server.clock();
        [plain(&server.server), format!("{since} ago"), free, of, memory, clock, from_most, from_system]
    };
    let rows: Vec<_> = figures.servers.iter().map(row).collect();
    fitting(None, columns, &rows, [0, 2, 4, 5, 6, 7], width)
}

fn mib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::super::terminal::{Size, fit};
    use super::*;

    pub(in crate::watch) const FIGURES: &str = r#"{"number":1,"at_ms":1796119200000,"server":"a:1",
        "verdict":{"level":"amber","code":"disk_low","says":"4 GiB\u001b are free.","do":"Make room.","runbook":"disk-low"},
        "rates":{"received":3.0,"accepted":2.5},"refused_by_code":{"sold_out":0.5},"totals":{},
        "order_route":{"count":3,"p50_ms":1.25,"p99_ms":8.0},
        "health":{"ready":false,"reasons":["it stops"],"in_flight":1,"commit":null,"disk_free_bytes":4194304,
            "memory_bytes":null,"connections":2,"processors_busy":0.456,"refunds_due":4,"orders_per_s_max":15000,
            "measured_peak":{"orders_per_s":18000,"on":"2026-11-20"},
            "webhooks":{"off":["shop\u001b"],"waiting":3,"waiting_since_ms":1,"given_up":0},"dead_letters":2,
            "units_age_ms":12000,"mailbox":5,"backlog":300,"backlog_age_ms":8200,
            "engines":[{"engine":"Redis","fault":null},{"engine":"MySQL","fault":"b: it hangs\u001b"}]},
        "sales":[{"id":3,"title":"Drop","state":"live","starts_at_ms":1796119200000,"ends_at_ms":1796122800000,
            "units":{"total":9,"available":3,"turns":1,"held":2,"sold":3},"rates":{"accepted":2.5,"busy":0.0,"refused":0.5},"items_total":30,
            "refused_by_code":{"sold_out":0.5},"order_route":{"count":3,"p50_ms":1.5,"p99_ms":9.0},
            "holds":{"since_ms":1796119200000,"paid":6,"paid_late":1,"paid_after_p50_s":61.0,"paid_after_p90_s":80.0,"cancelled":2,"expired":3},
            "items":[{"product":7,"title":"Shoe","total":9,"available":3,"turns":1,"held":2,"sold":3,"sold_out_at_ms":1796119230000,"rates":{"accepted":1.5,"refused":0.5,"busy":4.0},
                "refused_by_code":{"sold_out":0.5},"order_route":{"count":2,"p50_ms":1.5,"p99_ms":9.5},
                "line":{"draw":"drawn","joined":900,"joins_per_s":2.5,"waiting":700,"present":40,"sure_to":210,"reached":200,
                    "in_grace":1,"away":20,"turns":4,"called":180,"ordered":160,"expired":9,"given_back":7,"pace":60,"pace_max_per_s":2,
                    "tail_wait_s":700,"wait":{"said_s":280,"took_s":300}}}]}],
        "events":[{"at_ms":1796119201000,"kind":"sale_paused","says":"Drop is paused.\u001b","sale":3,"product":null}]}"#;

    const BASE: &str = "http://a:1";

    /// On a terminal that has room for all of it.
    fn whole(figures: &Figures, named: bool, age_s: u64, gone: Option<(String, Duration)>) -> String {
        let age = Duration::from_secs(age_s);
        let old = verdict::is_old(age, Duration::from_secs(1));
        let lines = screen(&Look { base: BASE, figures, named, age, old, gone }, 1_000);
        fit(&lines, Size { rows: 1_000, columns: 1_000 }, named)
    }

    fn shown(named: bool, age_s: u64, gone: Option<(String, Duration)>) -> String {
        whole(&serde_json::from_str(FIGURES).unwrap(), named, age_s, gone)
    }

    #[test]
    fn what_the_last_in_a_line_waits_is_said_where_it_is_known() {
        for (figures, said) in [
            (
                r#""sure_to":200,"reached":200,"pace":60,"tail_wait_s":null"#,
                "the last is hardly reached before the end",
            ),
            (
                r#""sure_to":210,"reached":200,"pace":60,"tail_wait_s":null"#,
                "no saying how long the last waits",
            ),
            (
                r#""sure_to":200,"reached":200,"pace":0,"tail_wait_s":null"#,
                "no saying how long the last waits",
            ),
        ] {
            let line = format!(
                r#"{{"draw":"drawn","joined":9,"joins_per_s":null,"waiting":7,"present":0,"turns":0,"called":2,"ordered":2,
                    "expired":0,"given_back":0,"away":0,"pace_max_per_s":null,"wait":null,{figures}}}"#
            );
            let line: crate::watch::figures::Line = serde_json::from_str(&line).unwrap();
            assert!(line.words().contains(said), "{}", line.words());
        }
    }

    #[test]
    fn the_screen_has_the_verdict_first_and_says_how_old_it_is() {
        let text = shown(false, 1, None);
        let head = "AMBER  http://a:1  2026-12-01T10:00:00Z  1 s ago\n4 GiB\u{fffd} are free.\n-> Make room.\nnot ready: it stops\n";
        assert!(text.starts_with(head), "{text}");
        for line in [
            "per second  accepted 2.5  received 3",
            "refused     sold_out 0.5",
            "orders      p50 1.25 ms  p99 8 ms",
            "commits     none",
            "server      in flight 1  connections 2  processors 46%  memory -  disk free 4 MiB",
            "2026-12-01T10:00:01Z  Drop is paused.\u{fffd}",
            "admission   15000/s of a measured 18000/s  2026-11-20",
            "engines     Redis well  MySQL NOT WELL: b: it hangs\u{fffd}",
            "behind      refunds due 4  webhooks waiting 3  dead letters 2  commands waiting 5  messages waiting 300  the oldest for 8s  held and sold as of 12s ago  webhook shop\u{fffd} off",
            "sale 3  since 2026-12-01T10:00:00Z 5 of 10 holds were paid, half within 1m1s; 3 expired",
            "sale 3  per second  accepted 2.5  refused 0.5",
            "sale 3  refused  sold_out 0.5",
            "sale 3  orders  p50 1.5 ms  p99 9 ms",
            "sale 3  product 7 sold out at 2026-12-01T10:00:30Z",
            "sale 3  line of 7  joined 900 (2.5/s)  waiting 700  there 40  turns 4  called 180  ordered 160  expired 9  \
             given back 7  away 20  pace 60/min (limited to 2/s), the last waits 11m40s  waited 5m, the page said 4m40s  draw drawn",
            "   3  Drop   live   2026-12-01T10:00:00Z  2026-12-01T11:00:00Z     30      9          3      1     2     3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("Shoe") && !text.contains("servers"), "{text}");
        let named = shown(true, 1, None);
        assert!(
            named.contains("      7  Shoe      9          3      1     2     3       1.5      0.5     4        -     1.5     9.5\n")
                && named.contains(
                    "and 29 items more: `doorbuster sale show 3`\nproduct 7  refused  sold_out 0.5\n"
                ),
            "{named}"
        );
        let mut without: Value = serde_json::from_str(FIGURES).unwrap();
        (without["sales"][0]["items"][0]["line"], without["sales"][0]["units"]["turns"]) =
            (Value::Null, 0.into());
        let without = whole(&serde_json::from_value(without).unwrap(), false, 1, None);
        assert!(without.contains("  total  available  held  sold\n"), "{without}");
        // It was as green as ever.
        let old = shown(false, 9, None);
        let head = "UNKNOWN  http://a:1  2026-12-01T10:00:00Z  9 s ago\nTHE FIGURES ARE OLD: the server answers, and takes none for 9 s\n\
                    until then AMBER: 4 GiB\u{fffd} are free.\nnot ready: it stops\n";
        assert!(old.starts_with(head), "{old}");
        let gone = Some(("no answer".to_owned(), Duration::from_secs(61)));
        assert!(shown(false, 62, gone).contains("\nNO ANSWER for 1m1s: no answer; waiting for it\n"));
    }

    fn server(name: &str, silent_ms: u64, counted: bool, ready: bool) -> Server {
        let server = json!({
            "server": name, "silent_ms": silent_ms, "counted": counted, "ready": ready, "accepted_per_s": 1.5,
            "memory_bytes": 150 << 20, "disk_free_bytes": 80_u64 << 30, "disk_bytes": 500_u64 << 30,
            "clock_confirmed": true, "clock_ahead_ms": 2, "clock_difference_ms": 0,
        });
        serde_json::from_value(server).unwrap()
    }

    /// The terminal showed the installation as one: nobody saw there which server was short of disk, or whose clock was wrong.
    #[test]
    fn each_server_of_a_cluster_has_its_own_disk_memory_and_clock() {
        let mut figures: Figures = serde_json::from_str(FIGURES).unwrap();
        let mut wrong = server("10.0.0.12:8080", 3_400, true, true);
        (wrong.disk_free_bytes, wrong.clock_confirmed) = (Some(99 << 20), Some(false));
        (wrong.clock_ahead_ms, wrong.clock_difference_ms) = (Some(-3_600_000), Some(-7_000));
        let older = r#"{"server":"c\u001b","silent_ms":0,"counted":true,"ready":true,"accepted_per_s":1.5}"#;
        let older = serde_json::from_str(older).unwrap();
        figures.servers = vec![server("10.0.0.11:8080", 0, true, true), wrong, older];
        let text = whole(&figures, false, 1, None);
        let expected = "\n\
            server           as of  disk free          of   memory  clock          from most  from system\n\
            10.0.0.11:8080  1s ago  81920 MiB  512000 MiB  150 MiB  confirmed          +2 ms         0 ms\n\
            10.0.0.12:8080  4s ago     99 MiB  512000 MiB  150 MiB  NOT CONFIRMED        -1h      7000 ms\n\
            c\u{fffd}              1s ago          -           -        -  -                      -            -\n";
        assert!(text.ends_with(expected), "{text}");
        let narrow = machines(&figures, Duration::ZERO, 80);
        assert!(narrow.lines().all(|line| output::width(line) <= 80), "{narrow}");
        assert!(
            narrow.contains("10.0.0.12:8080     99 MiB  150 MiB  NOT CONFIRMED        -1h      7000 ms\n")
        );
        let (verdict, after) = verdict::glance(&figures, BASE);
        assert_eq!(verdict, "AMBER  4 GiB\u{fffd} are free.\n-> Make room.\n");
        assert!(after.starts_with("server  ") && after.contains("3s ago"), "{after}");
        // A server that is none of a cluster has all of it above.
        figures.health.dead_letters = None;
        (figures.health.clock_confirmed, figures.health.clock_difference_ms) = (Some(true), Some(-7_000));
        (figures.health.ledger_bytes, figures.health.measured_peak) = (Some(3 << 20), None);
        let text = whole(&figures, false, 1, None);
        let alone = "\nclock       confirmed, 7000 ms from the system's  ledger 3 MiB\nadmission   15000/s\n";
        assert!(text.contains(alone) && !text.contains("from most"), "{text}");
        figures.age_ms = 35_554;
        let old = "UNKNOWN  the figures are 35s old: the server answers, and takes none\nuntil then AMBER: 4 GiB\u{fffd} are free.\n";
        assert_eq!(verdict::glance(&figures, BASE), (old.to_owned(), String::new()));
    }

    #[test]
    fn what_is_to_be_done_is_a_command_where_there_is_one() {
        for (action, command) in [
            (json!({ "kind": "resume", "sale": 3, "product": null }), Some("sale resume 3")),
            (json!({ "kind": "create", "sale": null, "product": null }), Some("sale create drop.toml")),
            (json!({ "kind": "sing", "sale": 3, "product": null }), None),
            (Value::Null, None),
        ] {
            let mut figures: Value = serde_json::from_str(FIGURES).unwrap();
            figures["verdict"]["action"] = action;
            let figures = serde_json::from_value(figures).unwrap();
            let command = command
                .map_or_else(String::new, |command| format!("   doorbuster {command} --server http://a:1\n"));
            let expected = format!("\n-> Make room.\n{command}not ready: it stops\n");
            let text = whole(&figures, false, 1, None);
            assert!(text.contains(&expected), "{expected} in {text}");
        }
    }

    #[test]
    fn the_screen_names_the_servers_of_a_cluster() {
        let mut figures: Figures = serde_json::from_str(FIGURES).unwrap();
        figures.servers = vec![
            server("a", 0, true, true),
            server("b", 900, true, false),
            server("c\u{1b}", 4_100, false, true),
        ];
        let text = whole(&figures, false, 0, None);
        let says = "servers     2 of 3: a 1.5/s, b takes no orders, c\u{fffd} silent for 4 s\n";
        assert!(text.contains(says), "{text}");
        assert_eq!(figures.out().unwrap(), "no server takes orders: it stops");
        figures.sales[0].ended_at_ms = Some(1_796_120_045_000);
        figures.health.ready = true;
        figures.health.reasons = vec!["b: it stops".to_owned()];
        let text = whole(&figures, false, 0, None);
        assert!(text.contains("sale 3  ended at 2026-12-01T10:14:05Z, before its time\n"), "{text}");
        assert!(text.contains("\nout: b: it stops\n") && !text.contains("not ready"), "{text}");
        let out = "2 of 3 servers are out: b takes no orders, c\u{fffd} silent for 4 s";
        assert_eq!(figures.out().unwrap(), out);
        figures.servers.truncate(1);
        assert_eq!(figures.out(), None);
    }

    /// `doorbuster watch` drew 42 lines on a terminal of 24: the verdict was the first that went.
    #[test]
    fn with_five_sales_the_verdict_stays_on_a_terminal_of_24_by_80_and_what_is_not_shown_is_said() {
        let mut figures: Value = serde_json::from_str(FIGURES).unwrap();
        let sale = figures["sales"][0].clone();
        figures["sales"] = (3..8)
            .map(|id| {
                let mut sale = sale.clone();
                sale["id"] = id.into();
                sale
            })
            .collect();
        let figures = serde_json::from_value(figures).unwrap();
        let on = |named, rows, columns| {
            let (age, old, gone) = (Duration::ZERO, false, None);
            let lines = screen(&Look { base: BASE, figures: &figures, named, age, old, gone }, columns);
            let text = fit(&lines, Size { rows, columns }, named);
            assert!(text.lines().count() < rows, "the cursor is on the last line:\n{text}");
            assert!(text.lines().all(|line| output::width(line) <= columns), "{text}");
            text
        };
        let text = on(false, 24, 80);
        assert!(
            text.starts_with("AMBER  http://a:1  ")
                && text.contains("\n4 GiB\u{fffd} are free.\n-> Make room.\n")
        );
        assert!(
            text.contains("\n   3  Drop   live       9          3      1     2     3\n"),
            "units before times: {text}"
        );
        let more = text.lines().last().unwrap();
        assert!(
            more.ends_with(" lines more, 1 sale among them: a larger terminal, or `watch SALE`"),
            "{text}"
        );
        let named = on(true, 24, 80);
        assert!(named.ends_with(": a larger terminal shows them\n"), "{named}");
        assert!(named.contains("\nends in 1h\n") && named.contains("      7  Shoe"), "before rates: {named}");
        assert!(on(false, 6, 30).contains("\n4 GiB\u{fffd} are free.\n-> Make room.\n"));
        for rows in 1..=4 {
            assert!(
                on(false, rows, 80).lines().next().is_none_or(|line| line.starts_with("AMBER")),
                "{rows}"
            );
        }
        let large = on(false, 100, 200);
        assert!(
            !large.contains("lines more") && large.contains("  2026-12-01T11:00:00Z     30  "),
            "{large}"
        );
    }
}
