//! `doorbuster watch`: the figures of a running server as they change, on a terminal, as lines, or as JSON.
//!
//! Must not: judge anything; the server does, and this shows it.

mod figures;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use server::config::Environment;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::client::{Answer, Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, numbers, plain, table, words};
use crate::sale;
use crate::time::{format_duration, format_utc, parse_duration};
use figures::{Event, Figures, Holds, Item, Sale, Server, Took, Units};

/// The server takes the figures once a second; who looks once in an hour does not watch.
const EVERY_MIN: Duration = Duration::from_secs(1);
const EVERY_MAX: Duration = Duration::from_secs(3600);
/// A server that has not answered in this time has gone, as far as somebody who watches is concerned.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Figures that are older are said to be old.
const OLD: Duration = Duration::from_secs(5);
/// A screen's worth of items.
const ROWS_MAX: usize = 20;
const EVENTS_MAX: usize = 5;
/// To the top left corner; what is left of a line, or of the screen, goes.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K\n";
const REST_OF_SCREEN: &str = "\x1b[J";

/// Watch a running server: a verdict in one line with what to do next, rates, times, stock and the machine.
#[derive(Args, Debug)]
#[command(after_help = "\
On a terminal it is drawn again in place; elsewhere each look is a line, with --json the server's answer. Ctrl-C stops it. A
server that goes away is waited for.

Exit codes: 0 at the last look the server took orders, in a cluster every server; 1 it ran and took none, or in a cluster one server
at least took none or was silent, which is named; 64 the token is not the operator's; 69 the server does not answer.

Examples:
  doorbuster watch
  doorbuster watch 3 --server https://drops.shop.example --token-file operator-token
  doorbuster watch --json >> night.jsonl")]
pub(crate) struct WatchArguments {
    /// Show this sale alone, with its items
    sale: Option<u64>,

    /// Time between two looks, from 1s to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = every)]
    every: Duration,

    #[command(flatten)]
    server: ServerArguments,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    if !(EVERY_MIN..=EVERY_MAX).contains(&every) {
        return Err(format!("{text:?} is not from 1s to 1h"));
    }
    Ok(every)
}

/// What the loop hears of.
enum Heard {
    Figures(Result<Answer, Failure>),
    Stop,
}

pub(crate) fn run(arguments: &WatchArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Client::connect_within(ANSWER_TIMEOUT, &arguments.server, environment)?;
    let base = client.base().to_owned();
    let (sender, heard) = sync_channel(1);
    stop_on_signals(sender.clone())?;
    let every = arguments.every;
    let ask = move || ask(&client, every, &sender);
    std::thread::Builder::new().name("asking".to_owned()).spawn(ask).map_err(Failure::unavailable)?;
    let drawn = std::io::stdout().is_terminal() && !arguments.server.json;
    Watching { sale: arguments.sale, json: arguments.server.json, drawn, base, seen: None, gone: None }
        .until_stopped(&heard)
}

/// On a thread of its own, so that whoever stops this waits for no answer. It ends with the process.
fn ask(client: &Client, every: Duration, to: &SyncSender<Heard>) {
    let mut next = Instant::now();
    while to.send(Heard::Figures(client.get("/figures"))).is_ok() {
        next = (next + every).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn stop_on_signals(to: SyncSender<Heard>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::unavailable)?;
    let wait = move || {
        if signals.forever().next().is_some() {
            // If nobody listens, it is stopping.
            to.send(Heard::Stop).ok();
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(Failure::unavailable)?;
    Ok(())
}

struct Watching {
    sale: Option<u64>,
    json: bool,
    /// In place, on a terminal.
    drawn: bool,
    base: String,
    /// The last figures, and when they were taken.
    seen: Option<(Figures, Instant)>,
    /// Why there is no answer, and since when.
    gone: Option<(Failure, Instant)>,
}

impl Watching {
    fn until_stopped(mut self, heard: &Receiver<Heard>) -> Result<(), Failure> {
        loop {
            match heard.recv_timeout(EVERY_MIN) {
                Ok(Heard::Figures(Ok(answer))) => self.answered(&answer)?,
                Ok(Heard::Figures(Err(failure))) => self.not_answered(failure)?,
                Ok(Heard::Stop) => return self.end(),
                // The age of what is shown goes on.
                Err(RecvTimeoutError::Timeout) => self.draw()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::unavailable("the thread that asks has panicked"));
                }
            }
        }
    }

    fn answered(&mut self, answer: &Answer) -> Result<(), Failure> {
        let mut figures: Figures = answer.read()?;
        if let Some((_, since)) = self.gone.take() {
            self.note(&format!("{} answers again, after {}", self.base, format_duration(since.elapsed())));
        }
        if let Some(sale) = self.sale {
            figures.sales.retain(|shown| shown.id == sale);
            if figures.sales.is_empty() && self.seen.is_none() {
                return Err(Failure::check(format!(
                    "sale {sale} neither runs, nor is near, nor has ended today: `doorbuster sale show {sale}`"
                )));
            }
        }
        if self.seen.as_ref().is_some_and(|(before, _)| before.number == figures.number) {
            return self.draw();
        }
        if self.json {
            output::print(&self.as_json(answer)?)?;
        } else if !self.drawn {
            output::print(&line(&figures))?;
        }
        let now = Instant::now();
        let taken_at = now.checked_sub(Duration::from_millis(figures.age_ms)).unwrap_or(now);
        self.seen = Some((figures, taken_at));
        self.draw()
    }

    /// As it came, but for the sales that were not asked for.
    fn as_json(&self, answer: &Answer) -> Result<String, Failure> {
        let Some(sale) = self.sale else { return Ok(answer.text()) };
        let mut figures: Value = answer.read()?;
        if let Some(sales) = figures["sales"].as_array_mut() {
            sales.retain(|shown| shown["id"] == sale);
        }
        Ok(format!("{figures}\n"))
    }

    /// At the first look it is a mistake more often than not; later it is waited for.
    fn not_answered(&mut self, failure: Failure) -> Result<(), Failure> {
        if self.seen.is_none() || !matches!(failure, Failure::Unavailable(_)) {
            return Err(failure);
        }
        match &mut self.gone {
            Some((why, _)) => *why = failure,
            None => {
                self.note(&format!("{}; waiting for it", failure.message()));
                self.gone = Some((failure, Instant::now()));
            }
        }
        self.draw()
    }

    /// For whoever reads lines; on a terminal it is drawn.
    fn note(&self, text: &str) {
        if !self.drawn {
            eprintln!("{text}");
        }
    }

    fn draw(&self) -> Result<(), Failure> {
        let Some((figures, since)) = self.seen.as_ref().filter(|_| self.drawn) else { return Ok(()) };
        let mut text = String::new();
        let gone = self.gone.as_ref().map(|(why, since)| (why.message(), since.elapsed()));
        screen(&mut text, (&self.base, figures, self.sale.is_some()), since.elapsed(), gone);
        output::print(&format!("{HOME}{}{REST_OF_SCREEN}", text.replace('\n', REST_OF_LINE)))
    }

    fn end(self) -> Result<(), Failure> {
        match (self.gone, self.seen) {
            (Some((failure, _)), _) => Err(failure),
            (None, None) => Err(Failure::unavailable(format!("no answer from {} yet", self.base))),
            (None, Some((figures, _))) => match figures.out() {
                Some(out) => Err(Failure::check(out)),
                None => Ok(()),
            },
        }
    }
}

/// One look, for a log.
fn line(figures: &Figures) -> String {
    let rate = |name: &str| figures.rates.get(name).copied().unwrap_or(0.0);
    let sum = |of: fn(&Units) -> u64| figures.sales.iter().map(|sale| of(&sale.units)).sum::<u64>();
    let p99 =
        figures.order_route.as_ref().map_or_else(|| "-".to_owned(), |took| format!("{} ms", took.p99_ms));
    format!(
        "{}  {} {}  accepted {}/s  refused {}/s  busy {}/s  unknown {}/s  p99 {p99}  available {}  held {}  sold {}  {}\n",
        format_utc(figures.at_ms),
        figures.verdict.level,
        figures.verdict.code,
        rate("accepted"),
        rate("refused"),
        rate("busy"),
        rate("unknown"),
        sum(|units| units.available),
        sum(|units| units.held),
        sum(|units| units.sold),
        plain(&figures.verdict.says),
    )
}

/// All of it.
fn screen(
    out: &mut String,
    (base, figures, with_items): (&str, &Figures, bool),
    age: Duration,
    gone: Option<(String, Duration)>,
) {
    let Figures {
        at_ms, verdict, rates, refused_by_code, order_route, health, servers, sales, events, ..
    } = figures;
    let mut say = |line: &str| {
        out.push_str(line);
        out.push('\n');
    };
    let age_s = age.as_secs();
    say(&format!("{}  {base}  {}  {age_s} s ago", verdict.level.to_uppercase(), format_utc(*at_ms)));
    if let Some((why, since)) = gone {
        say(&format!("NO ANSWER for {}: {}; waiting for it", format_duration(since), plain(&why)));
    } else if age > OLD {
        say(&format!("THE FIGURES ARE OLD: the server answers, and takes none for {age_s} s"));
    }
    say(&plain(&verdict.says));
    say(&format!("-> {}", plain(&verdict.action)));
    // While other servers take orders, a reason begins with the name of the one that takes none.
    let state = if health.ready { "out" } else { "not ready" };
    for reason in &health.reasons {
        say(&format!("{state}: {}", plain(reason)));
    }
    let engines = health.engines();
    if !engines.is_empty() {
        say(&format!("engines     {engines}"));
    }
    if servers.len() > 1 {
        let counted = servers.iter().filter(|server| server.counted).count();
        let each: Vec<_> = servers.iter().map(Server::words).collect();
        say(&format!("servers     {counted} of {}: {}", servers.len(), each.join(", ")));
    }
    say(&format!("\nper second  {}", per_s(rates)));
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
    if let Some(admission) = health.admission() {
        say(&format!("admission   {admission}"));
    }
    let behind = health.behind();
    if !behind.is_empty() {
        say(&format!("behind      {}", behind.join("  ")));
    }
    out.push_str(&happening(sales, events));
    if with_items {
        sales.iter().for_each(|sale| out.push_str(&items_table(sale)));
    }
}

fn per_s(rates: &BTreeMap<String, f64>) -> String {
    let each: Vec<_> = rates.iter().map(|(name, rate)| format!("{} {rate}", plain(name))).collect();
    each.join("  ")
}

/// The sales, what they do, and what happened last.
fn happening(sales: &[Sale], events: &[Event]) -> String {
    let mut out = format!("\n{}", sales_table(sales));
    for sale in sales {
        let happens = sale.rates.iter().flatten().filter(|(_, rate)| **rate > 0.0);
        let rates: BTreeMap<_, _> = happens.map(|(name, rate)| (name.clone(), *rate)).collect();
        if !rates.is_empty() {
            out += &format!("sale {}  per second  {}\n", sale.id, per_s(&rates));
        }
        if !sale.refused_by_code.is_empty() {
            out += &format!("sale {}  refused  {}\n", sale.id, per_s(&sale.refused_by_code));
        }
        if let Some(took) = &sale.order_route {
            out += &format!("sale {}  orders  {}\n", sale.id, took.words());
        }
        let sold_out = sale.items.iter().filter_map(|item| Some((item.product, item.sold_out_at_ms?)));
        for (product, at_ms) in sold_out.take(ROWS_MAX) {
            out += &format!("sale {}  product {product} sold out at {}\n", sale.id, format_utc(at_ms));
        }
        if let Some(at_ms) = sale.ended_at_ms {
            out += &format!("sale {}  ended at {}, before its time\n", sale.id, format_utc(at_ms));
        }
        if let Some(holds) = sale.holds.as_ref().and_then(Holds::words) {
            out += &format!("sale {}  {holds}\n", sale.id);
        }
        let lines = sale.items.iter().filter_map(|item| Some((item.product, item.line.as_ref()?)));
        for (product, line) in lines.take(ROWS_MAX) {
            out += &format!("sale {}  line of {product}  {}\n", sale.id, line.words());
        }
    }
    if !events.is_empty() {
        out.push('\n');
    }
    for event in events.iter().take(EVENTS_MAX) {
        out += &format!("{}  {}\n", format_utc(event.at_ms), plain(&event.says));
    }
    out
}

fn sales_table(sales: &[Sale]) -> String {
    let row = |sale: &Sale| {
        let [total, available, held, sold] = sale.units.words();
        let (title, state) = (plain(&sale.title), plain(&sale.state));
        let ends = format_utc(sale.ended_at_ms.unwrap_or(sale.ends_at_ms));
        let starts = format_utc(sale.starts_at_ms);
        let items = sale.items_total.to_string();
        [sale.id.to_string(), title, state, starts, ends, items, total, available, held, sold]
    };
    sale::table_of_sales(&sales.iter().map(row).collect::<Vec<_>>())
}

fn items_table(sale: &Sale) -> String {
    let columns = [
        numbers("product"),
        words("item"),
        numbers("total"),
        numbers("available"),
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
        let [total, available, held, sold] = item.units.words();
        let known = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let rate = |name| known(item.rates.as_ref().and_then(|rates| rates.get(name).copied()));
        let took = |of: fn(&Took) -> f64| known(item.order_route.as_ref().map(of));
        [
            item.product.to_string(),
            plain(&item.title),
            total,
            available,
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
    let more = match sale.items_total.saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!("and {more} items more: `doorbuster sale show {}`\n", sale.id),
    };
    let why = sale.items.iter().take(ROWS_MAX).filter_map(|item| {
        let refused = item.refused_by_code.as_ref().filter(|refused| !refused.is_empty())?;
        Some(format!("product {}  refused  {}\n", item.product, per_s(refused)))
    });
    format!("\n{}{more}{}", table(columns, &shown), why.collect::<String>())
}

fn mib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &str = r#"{"number":1,"at_ms":1796119200000,"server":"a:1",
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
            "units":{"total":9,"available":4,"held":2,"sold":3},"rates":{"accepted":2.5,"busy":0.0,"refused":0.5},"items_total":30,
            "refused_by_code":{"sold_out":0.5},"order_route":{"count":3,"p50_ms":1.5,"p99_ms":9.0},
            "holds":{"since_ms":1796119200000,"paid":6,"paid_late":1,"paid_after_p50_s":61.0,"paid_after_p90_s":80.0,"cancelled":2,"expired":3},
            "items":[{"product":7,"title":"Shoe","total":9,"available":4,"held":2,"sold":3,"sold_out_at_ms":1796119230000,"rates":{"accepted":1.5,"refused":0.5,"busy":4.0},
                "refused_by_code":{"sold_out":0.5},"order_route":{"count":2,"p50_ms":1.5,"p99_ms":9.5},
                "line":{"draw":"drawn","joined":900,"joins_per_s":2.5,"waiting":700,"present":40,"sure_to":210,"reached":200,
                    "in_grace":1,"away":20,"turns":4,"called":180,"ordered":160,"expired":9,"given_back":7,"pace":60,"pace_max_per_s":2,
                    "tail_wait_s":700,"wait":{"said_s":280,"took_s":300}}}]}],
        "events":[{"at_ms":1796119201000,"kind":"sale_paused","says":"Drop is paused.\u001b","sale":3,"product":null}]}"#;

    fn shown(with_items: bool, age_s: u64, gone: Option<(String, Duration)>) -> String {
        let figures = serde_json::from_str(FIGURES).unwrap();
        let mut text = String::new();
        screen(&mut text, ("http://a:1", &figures, with_items), Duration::from_secs(age_s), gone);
        text
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
            "   3  Drop   live   2026-12-01T10:00:00Z  2026-12-01T11:00:00Z     30      9          4     2     3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("Shoe") && !text.contains("servers"), "{text}");
        let named = shown(true, 1, None);
        assert!(
            named.contains("      7  Shoe      9          4     2     3       1.5      0.5     4        -     1.5     9.5\n")
                && named.ends_with(
                    "and 29 items more: `doorbuster sale show 3`\nproduct 7  refused  sold_out 0.5\n"
                ),
            "{named}"
        );
        assert!(shown(false, 9, None).contains("\nTHE FIGURES ARE OLD: "));
        let gone = Some(("no answer".to_owned(), Duration::from_secs(61)));
        assert!(shown(false, 62, gone).contains("\nNO ANSWER for 1m1s: no answer; waiting for it\n"));
    }

    #[test]
    fn the_screen_names_the_servers_of_a_cluster() {
        let server = |name: &str, silent_ms, counted, ready| Server {
            server: name.to_owned(),
            silent_ms,
            counted,
            ready,
            accepted_per_s: 1.5,
        };
        let mut figures: Figures = serde_json::from_str(FIGURES).unwrap();
        figures.servers = vec![
            server("a", 0, true, true),
            server("b", 900, true, false),
            server("c\u{1b}", 4_100, false, true),
        ];
        let mut text = String::new();
        screen(&mut text, ("http://a:1", &figures, false), Duration::ZERO, None);
        let says = "servers     2 of 3: a 1.5/s, b takes no orders, c\u{fffd} silent for 4 s\n";
        assert!(text.contains(says), "{text}");
        assert_eq!(figures.out().unwrap(), "no server takes orders: it stops");
        figures.sales[0].ended_at_ms = Some(1_796_120_045_000);
        figures.health.ready = true;
        figures.health.reasons = vec!["b: it stops".to_owned()];
        let mut text = String::new();
        screen(&mut text, ("http://a:1", &figures, false), Duration::ZERO, None);
        assert!(text.contains("sale 3  ended at 2026-12-01T10:14:05Z, before its time\n"), "{text}");
        assert!(text.contains("\nout: b: it stops\n") && !text.contains("not ready"), "{text}");
        let out = "2 of 3 servers are out: b takes no orders, c\u{fffd} silent for 4 s";
        assert_eq!(figures.out().unwrap(), out);
        figures.servers.truncate(1);
        assert_eq!(figures.out(), None);
    }

    #[test]
    fn a_line_is_one_look() {
        let figures = serde_json::from_str(FIGURES).unwrap();
        assert_eq!(
            line(&figures),
            "2026-12-01T10:00:00Z  amber disk_low  accepted 2.5/s  refused 0/s  busy 0/s  unknown 0/s  p99 8 ms  \
             available 4  held 2  sold 3  4 GiB\u{fffd} are free.\n"
        );
    }
}
