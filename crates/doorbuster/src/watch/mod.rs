//! `doorbuster watch`: the figures of a running server as they change, on a terminal, as lines, or as JSON.
//!
//! Must not: judge anything; the server does, and this shows it.

mod figures;
mod screen;
mod terminal;
mod verdict;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use server::config::Environment;
use signal_hook::consts::{SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::client::{Answer, Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, plain};
use crate::time::{format_duration, format_utc, parse_duration};
use figures::{Figures, Units};
use screen::{Look, screen};
use terminal::{Size, fit};
use verdict::is_old;

/// The server takes the figures once a second; who looks once in an hour does not watch.
const EVERY_MIN: Duration = Duration::from_secs(1);
const EVERY_MAX: Duration = Duration::from_secs(3600);
/// A server that has not answered in this time has gone, as far as somebody who watches is concerned.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// For a sale that the server had no room for: it shows it from its next second on, in a cluster a second or two later.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
const ASKED_MAX: usize = 3;
/// To the top left corner, and what is wider than the terminal is cut; what is left of a line, or of the screen, goes.
const HOME: &str = "\x1b[H\x1b[?7l";
const REST_OF_LINE: &str = "\x1b[K\n";
const REST_OF_SCREEN: &str = "\x1b[J\x1b[?7h";

/// Watch a running server: a verdict in one line with what to do next, rates, times, stock and the machine.
#[derive(Args, Debug)]
#[command(after_help = "\
On a terminal the screen is drawn again in place: the verdict first, with the command for what is to be done if there is one, then as much
as there is room for; the last line says how much is left out. Of a cluster the last table has each server's own disk, memory and clock:
how far it is from most clocks of the cluster (- behind them), and from its system's.
Into a pipe or a file each look is a line, and that the figures are old is said on standard error; with --json it is the server's answer, on a terminal too. Ctrl-C stops it. A server that goes
away is waited for.

Exit codes, by the last look: 0 the server took orders, in a cluster every server; 1 it answered and took none, or its figures
were older than 5 s, or in a cluster at least one server took none or was silent, which is named; 64 the token is not an operator's; 69 the server did not answer.

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
    /// The terminal has another size.
    Resized,
    Stop,
}

pub(crate) fn run(arguments: &WatchArguments, environment: &Environment) -> Result<(), Failure> {
    let client = Arc::new(Client::connect_within(ANSWER_TIMEOUT, &arguments.server, environment)?);
    let base = client.base().to_owned();
    let (sender, heard) = sync_channel(1);
    hear_signals(sender.clone())?;
    let every = arguments.every;
    let asking = Arc::clone(&client);
    let (sale, json) = (arguments.sale, arguments.server.json);
    let ask = move || ask(&asking, (sale, every), &sender);
    std::thread::Builder::new().name("asking".to_owned()).spawn(ask).map_err(Failure::unavailable)?;
    let drawn = std::io::stdout().is_terminal() && !arguments.server.json;
    Watching { client, sale, every, json, drawn, base, seen: None, gone: None, were_old: false }
        .until_stopped(&heard)
}

/// On a thread of its own, so that whoever stops this waits for no answer. It ends with the process.
fn ask(client: &Client, (sale, every): (Option<u64>, Duration), to: &SyncSender<Heard>) {
    let mut next = Instant::now();
    while to.send(Heard::Figures(look(client, sale))).is_ok() {
        next = (next + every).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Waits for a sale that the server has no room for and may show, being asked.
fn look(client: &Client, sale: Option<u64>) -> Result<Answer, Failure> {
    let Some(sale) = sale else { return client.get("/figures") };
    let path = format!("/figures?sale={sale}");
    let mut answer = client.get(&path)?;
    for _ in 1..ASKED_MAX {
        if answer.read::<Figures>()?.shows_all_or(sale) {
            break;
        }
        std::thread::sleep(SHOWN_AFTER);
        answer = client.get(&path)?;
    }
    Ok(answer)
}

fn hear_signals(to: SyncSender<Heard>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGWINCH]).map_err(Failure::unavailable)?;
    let wait = move || {
        for signal in signals.forever() {
            let heard = if signal == SIGWINCH { Heard::Resized } else { Heard::Stop };
            // If nobody listens, it is stopping.
            if to.send(heard).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(Failure::unavailable)?;
    Ok(())
}

struct Watching {
    client: Arc<Client>,
    sale: Option<u64>,
    every: Duration,
    json: bool,
    /// In place, on a terminal.
    drawn: bool,
    base: String,
    /// The last figures, and when they were taken.
    seen: Option<(Figures, Instant)>,
    /// Why there is no answer, and since when.
    gone: Option<(Failure, Instant)>,
    /// The figures of the last answer.
    were_old: bool,
}

impl Watching {
    fn until_stopped(mut self, heard: &Receiver<Heard>) -> Result<(), Failure> {
        loop {
            match heard.recv_timeout(EVERY_MIN) {
                Ok(Heard::Figures(Ok(answer))) => self.answered(&answer)?,
                Ok(Heard::Figures(Err(failure))) => self.not_answered(failure)?,
                Ok(Heard::Stop) => return self.end(),
                // The age of what is shown goes on.
                Ok(Heard::Resized) | Err(RecvTimeoutError::Timeout) => self.draw()?,
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
            let (figures_shown, not_shown) = (figures.sales.len(), figures.sales_not_shown());
            figures.retain(sale);
            if figures.sales.is_empty() && self.seen.is_none() {
                return Err(self.why_not_shown(sale, (figures_shown, not_shown))?);
            }
        }
        let age = Duration::from_millis(figures.age_ms);
        let old = is_old(age, self.every);
        if old && !self.were_old {
            let age = format_duration(age);
            self.note(&format!("the figures are {age} old: {} answers, and takes none", self.base));
        }
        self.were_old = old;
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

    fn why_not_shown(&self, sale: u64, (shown, not_shown): (usize, usize)) -> Result<Failure, Failure> {
        let why = match self.client.get_if_there(&format!("/sales/{sale}"))? {
            Err(_) => return Ok(Failure::check(format!("there is no sale {sale}: `doorbuster sale list`"))),
            Ok(_) if not_shown == 0 => "neither runs, nor is near, nor has ended today".to_owned(),
            Ok(_) => format!(
                "is not among the {shown} of {} sales that the server shows, and others are watched by their numbers; try again",
                shown + not_shown
            ),
        };
        Ok(Failure::check(format!("sale {sale} {why}: `doorbuster sale show {sale}`")))
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
        let gone = self.gone.as_ref().map(|(why, since)| (why.message(), since.elapsed()));
        let (base, age, named) = (self.base.as_str(), since.elapsed(), self.sale.is_some());
        let old = is_old(age, self.every);
        let size = Size::of_terminal();
        let text = fit(&screen(&Look { base, figures, named, age, old, gone }, size.columns), size, named);
        output::print(&format!("{HOME}{}{REST_OF_SCREEN}", text.replace('\n', REST_OF_LINE)))
    }

    fn end(self) -> Result<(), Failure> {
        match (self.gone, self.seen) {
            (Some((failure, _)), _) => Err(failure),
            (None, None) => Err(Failure::unavailable(format!("no answer from {} yet", self.base))),
            (None, Some((_, since))) if self.were_old || is_old(since.elapsed(), self.every) => {
                Err(Failure::check("the figures are old: whether it takes orders is not known"))
            }
            (None, Some((figures, _))) => match figures.out() {
                Some(out) => Err(Failure::check(out)),
                None => Ok(()),
            },
        }
    }
}

/// For one look that stays on the screen: the verdict with what is to be done; and the machines of a cluster, if it is one.
pub(crate) fn glance(answer: &Answer, base: &str) -> Result<(String, String), Failure> {
    Ok(verdict::glance(&answer.read()?, base))
}

/// One look, for a log.
fn line(figures: &Figures) -> String {
    let rate = |name: &str| figures.rates.get(name).copied().unwrap_or(0.0);
    let sum = |of: fn(&Units) -> u64| match &figures.open {
        Some(open) => of(&open.units),
        None => figures.sales.iter().map(|sale| of(&sale.units)).sum(),
    };
    let p99 =
        figures.order_route.as_ref().map_or_else(|| "-".to_owned(), |took| format!("{} ms", took.p99_ms));
    let turns = match sum(|units| units.turns) {
        0 => String::new(),
        turns => format!("  turns {turns}"),
    };
    format!(
        "{}  {} {}  accepted {}/s  refused {}/s  busy {}/s  unknown {}/s  p99 {p99}  available {}{turns}  held {}  sold {}  {}\n",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_look() {
        let figures = serde_json::from_str(screen::tests::FIGURES).unwrap();
        assert_eq!(
            line(&figures),
            "2026-12-01T10:00:00Z  amber disk_low  accepted 2.5/s  refused 0/s  busy 0/s  unknown 0/s  p99 8 ms  \
             available 3  turns 1  held 2  sold 3  4 GiB\u{fffd} are free.\n"
        );
    }
}
