//! A whole night: people join beside orders of an open item, the board is read beside nginx, the places are drawn, and the pages
//! of those near the front wait, are called, order, and pay or do not, with bots among them, until it is sold out or over. Then
//! everything that they were answered is compared with the ledger.

use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::joins::{self, Joins, PERSON_FIRST};
use super::judge::{Judged, Sold, judge};
use super::pages::{Guest, Seen, Times, play};
use super::places::Places;
use super::{LINE, ScenarioContext, Shown, Terms, case, shape, story};
use crate::audit::{AUDIT_FAILED, Answered, Ledger};
use crate::drivers::http::traffic::{self, BUYER_FIRST, Traffic};
use crate::drivers::http::{Http, once};
use crate::experiments::beside::{self, Bounds, CPU_BESIDE_NGINX, Comparison, Probe};
use crate::experiments::cases::{Point, shown};
use crate::experiments::{cases, limit};
use crate::goal::Goal;
use crate::host::procfs;
use crate::host::usage::Watched;
use crate::load::choice::Random;
use crate::load::distribution::{Distribution, Durations};
use crate::load::record::Outcome;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Settings, Trial};
use crate::measure::{trial, watch};
use crate::report::model::{Audit, Better, Case, Metric, Sample, ScenarioReport};
use crate::report::statistics::median;
use crate::target::nginx::Nginx;
use crate::target::{TOKEN_SECRET, Target};

pub(super) const METRICS: &[&str] = &[
    "throughput",
    "p50",
    "p99",
    "p99.9",
    "CPU per answer",
    "CPU beside nginx",
    "throughput beside nginx",
    JOINS_BESIDE_ORDERS,
    MEMORY,
    "people",
    "called",
    "sold",
    "zones kept",
    WRONG,
    WITHOUT_UNIT,
    WITHOUT_TURN,
    OVERTAKEN,
    REFUSED,
    TOO_LATE,
    "orders out of turn",
    KNOWN,
    PRESENCE,
    CPU_PER_PERSON,
    "board reads",
];
const JOINS: &str = "joins";
const ORDERS: &str = "orders of an open item";
const BOARD: &str = "board";
const NIGHT: &str = "the night";
const JOINS_BESIDE_ORDERS: &str = "joins beside orders";
const MEMORY: &str = "memory per person";
const WRONG: &str = "wrong promises";
const WITHOUT_UNIT: &str = "turns without a unit";
const WITHOUT_TURN: &str = "orders without a turn";
const OVERTAKEN: &str = "overtaken";
const REFUSED: &str = "orders with a turn refused";
const TOO_LATE: &str = "turns known too late";
const KNOWN: &str = "p99 from called to known";
const PRESENCE: &str = "p99 of presence";
const CPU_PER_PERSON: &str = "CPU per waiting person and second";

/// Of those near the front: they have closed the page.
const NOT_THERE: f64 = 0.1;
/// Of all who wait.
const BOTS: f64 = 0.1;
/// Joins and orders are measured in turn, in so many parts.
const PARTS: u32 = 3;
const BOARD_CONNECTIONS: usize = 200;
const WARM_UP: Duration = Duration::from_millis(300);
/// As nginx serves it: a name of that form alone.
const BOARD_FILE: &str = "board.html";
/// Fewer people, and the buffers of server and ledger outweigh them.
const PEOPLE_FOR_MEMORY: u32 = 500_000;
const JOIN_BOUNDS: Bounds = &[(JOINS_BESIDE_ORDERS, Goal::AtLeast(1.0))];
const BOARD_BOUNDS: Bounds = &[(CPU_BESIDE_NGINX, Goal::AtMost(1.2))];

#[derive(Debug, Clone, Copy)]
pub struct NightSizes {
    pub people: u32,
    pub units: u64,
    /// Places whose pages are played, from the first on.
    pub front: u32,
    /// Pages farther back, evenly.
    pub behind: u32,
    /// Of each trial of orders and boards.
    pub window: Duration,
    /// Of board and nginx.
    pub rounds: usize,
    /// From the close of the entries: the boards are measured in it.
    pub starts_in: Duration,
    pub lasts: Duration,
    pub turn_s: u64,
    pub grace_s: u64,
    pub payment_s: u64,
    pub bot_requests_per_s: u64,
}

impl NightSizes {
    pub(super) fn of(context: &ScenarioContext) -> Self {
        let quick = Self {
            people: 50_000,
            units: 400,
            front: 11_200,
            behind: 1_000,
            window: Duration::from_secs(1),
            rounds: 3,
            starts_in: Duration::from_secs(25),
            lasts: Duration::from_secs(60),
            turn_s: 10,
            grace_s: 3,
            payment_s: 2,
            bot_requests_per_s: 1_000,
        };
        if context.quick() {
            return quick;
        }
        Self {
            people: 1_000_000,
            units: 3_500,
            behind: 5_000,
            window: Duration::from_secs(3),
            starts_in: Duration::from_secs(50),
            lasts: Duration::from_secs(600),
            turn_s: 30,
            grace_s: 10,
            payment_s: 10,
            ..quick
        }
    }

    fn terms(&self) -> Terms {
        let Self { units, turn_s, grace_s, payment_s, .. } = *self;
        Terms { units, turn_s, grace_s, payment_s }
    }
}

/// # Errors
/// If anything can't be started or measured; `AUDIT FAILED` if a promise was broken.
pub fn run(context: &ScenarioContext, sizes: NightSizes) -> anyhow::Result<ScenarioReport> {
    super::check(context, sizes.people)?;
    let mut measured = Measured::default();
    for repeat in 1..=context.repeats {
        let (mut night, mut parts) = (Night::open(context, sizes, repeat, &mut measured)?, Parts::default());
        night.join(&mut parts)?;
        night.wait_and_sell(&mut parts, &mut measured)?;
        // Its audit was clean.
        measured.add(parts);
        measured.cases().iter().for_each(|case| context.keep(case));
    }
    Ok(measured.report(sizes))
}

/// What one night measures in turn, in parts.
#[derive(Debug)]
struct Parts {
    joins: Vec<Trial>,
    orders: Vec<Trial>,
    joins_beside_orders: Vec<f64>,
    memory: Vec<f64>,
    board: Comparison,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            joins: Vec::new(),
            orders: Vec::new(),
            joins_beside_orders: Vec::new(),
            memory: Vec::new(),
            board: Comparison::new(BOARD.to_owned(), "server", Outcome::Served),
        }
    }
}

impl Parts {
    fn cases(self) -> Vec<Case> {
        let names = ["throughput", "p50", "p99"];
        let own = vec![
            Metric::new(JOINS_BESIDE_ORDERS, "x", Better::Higher, self.joins_beside_orders),
            Metric::new(MEMORY, "bytes", Better::Lower, self.memory),
        ];
        let joins = cases::Measured { trials: self.joins, own, ..cases::Measured::default() };
        let joins = Point::bar(JOINS, JOINS).case(joins, &names);
        let orders = Point::bar(ORDERS, ORDERS).case(self.orders.into(), &names);
        let [board, of_nginx] = self.board.cases();
        vec![joins, orders, board, of_nginx]
    }
}

#[derive(Debug)]
struct Measured {
    /// Each figure has one value for each night: parts of one are no repeats.
    in_parts: Vec<Case>,
    night: cases::Measured,
    report: ScenarioReport,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            in_parts: Vec::new(),
            night: cases::Measured::default(),
            report: ScenarioReport { title: "A night with a line".to_owned(), ..ScenarioReport::default() },
        }
    }
}

impl Measured {
    /// The medians of a night's parts.
    fn add(&mut self, parts: Parts) {
        for mut case in parts.cases() {
            case.metrics.iter_mut().for_each(|of| of.values = median(&of.values).into_iter().collect());
            let Some(all) = self.in_parts.iter_mut().find(|of| of.name == case.name) else {
                self.in_parts.push(case);
                continue;
            };
            all.trials.extend(case.trials);
            for (all, of) in all.metrics.iter_mut().zip(case.metrics) {
                all.values.extend(of.values);
            }
        }
    }

    fn cases(&self) -> Vec<Case> {
        self.in_parts.iter().cloned().chain([case(&self.night, NIGHT)]).collect()
    }

    fn report(self, sizes: NightSizes) -> ScenarioReport {
        let cases = self.cases();
        let [joins, _, board, _, night] = &cases[..] else { unreachable!("a night has five cases") };
        let mut report = self.report;
        let few = (sizes.people < PEOPLE_FOR_MEMORY)
            .then(|| format!("of fewer than {PEOPLE_FOR_MEMORY} people that is mostly buffers"));
        let shapes = &mut report.shapes;
        shapes.extend(beside::shapes(joins, JOIN_BOUNDS));
        shapes.extend(shape(joins, MEMORY, Goal::AtMost(100.0), few));
        shapes.extend(beside::shapes(board, BOARD_BOUNDS));
        let none = [WRONG, WITHOUT_UNIT, WITHOUT_TURN, OVERTAKEN, REFUSED, TOO_LATE].map(|name| (name, 0.0));
        let good = [(KNOWN, 6e6), (PRESENCE, 100e3), (CPU_PER_PERSON, 50.0)];
        shapes.extend(
            none.iter().chain(&good).filter_map(|(name, most)| shape(night, name, Goal::AtMost(*most), None)),
        );
        report.limiter = limit::of(&cases[..3]);
        report.cases = cases;
        report.notes.push(format!(
            "{} people joined; the pages of {} places from the first on and of {} farther back were played by the rules of docs/line.md. \
             {:.0}% of them had closed the page, {:.0}% are bots. The processor time of a waiting person has all that the server did in \
             the night: boards, presence, bots, orders.",
            sizes.people,
            sizes.front,
            sizes.behind,
            NOT_THERE * 100.0,
            BOTS * 100.0
        ));
        report
    }
}

struct Night<'a> {
    context: &'a ScenarioContext,
    sizes: NightSizes,
    repeat: usize,
    server: Target,
    nginx: Nginx,
    people: Joins,
    open_orders: Answered,
}

impl<'a> Night<'a> {
    fn open(
        context: &'a ScenarioContext,
        sizes: NightSizes,
        repeat: usize,
        measured: &mut Measured,
    ) -> anyhow::Result<Self> {
        let server = super::open(context, &format!("line-{repeat}"), sizes.terms())?;
        server.operate("/api/v1/sales", &traffic::own_sale(), 201)?;
        if repeat == 1 {
            measured.report.engines.push(server.settings()?);
        }
        let folder = context.folder.join(format!("nginx-{repeat}"));
        std::fs::create_dir(&folder).context("nginx's folder")?;
        let nginx = Nginx::start(&folder)?;
        let people = Joins::new(sizes.people);
        Ok(Self { context, sizes, repeat, server, nginx, people, open_orders: Answered::default() })
    }

    /// Everybody joins, in parts; beside each part, orders of the open item.
    fn join(&mut self, measured: &mut Parts) -> anyhow::Result<()> {
        let Self { context, sizes, server, people, .. } = self;
        let mut orders = Traffic::own(TOKEN_SECRET, BUYER_FIRST);
        let settings = Settings::keep_alive(server.address(), joins::CONNECTIONS);
        let mut generator = Generator::connect(settings, &mut Http { workload: &mut orders })?;
        let watched = [Watched::new("server", server.pid())];
        let (part, mut grown) = (u64::from(sizes.people.div_ceil(PARTS)), 0);
        for number in 1..=PARTS {
            let around = context.around(&watched, true);
            context.progress.doing(&format!("orders of an open item, {number} of {PARTS}"));
            let schedule = Schedule::closed(sizes.window);
            let ordered =
                trial(&mut generator, schedule, &mut Http { workload: &mut orders }, self.repeat, around)?;
            self.open_orders.add(&ordered.outcomes);
            context.progress.doing(&format!("joining, {number} of {PARTS}"));
            let before = procfs::rss_bytes(server.pid())?;
            let schedule = Schedule::closed_requests(part);
            let joined =
                trial(&mut generator, schedule, &mut Http { workload: people }, self.repeat, around)?;
            grown += procfs::rss_bytes(server.pid())?.saturating_sub(before);
            if joined.is_valid() && ordered.is_valid() {
                measured.joins_beside_orders.push(joined.good_per_s() / ordered.good_per_s().max(1e-9));
            }
            measured.joins.push(joined);
            measured.orders.push(ordered);
        }
        let joined = people.joined;
        ensure!(
            u64::from(joined) * 100 >= u64::from(sizes.people) * 99,
            "{joined} of {} who joined were answered a place; the first other answer was: {}",
            sizes.people,
            measured.joins.iter().find_map(|trial| trial.first_surprise.as_deref()).unwrap_or("none")
        );
        measured.memory.push(grown as f64 / f64::from(joined));
        let (joins, orders) = (shown(&measured.joins), shown(&measured.orders));
        context.progress.done(&format!("joins: {joins}, orders: {orders}"));
        Ok(())
    }

    /// From the close of the entries to the end.
    fn wait_and_sell(mut self, parts: &mut Parts, measured: &mut Measured) -> anyhow::Result<()> {
        let Self { context, sizes, .. } = self;
        let starts_at_ms = super::close_entries(&self.server, sizes.starts_in, sizes.lasts)?;
        let drawn = super::drawn(context, &self.server)?;
        self.read_boards(&mut parts.board)?;
        let guests = self.guests(&drawn)?;
        let (waiting, bots) = (guests.len(), guests.iter().filter(|guest| guest.is_bot).count() as u64);
        let times = Times {
            starts_at_ms,
            ends_at_ms: starts_at_ms + u64::try_from(sizes.lasts.as_millis())?,
            over_after_ms: (sizes.turn_s + sizes.grace_s + sizes.payment_s + 3) * 1000,
            bot_wait_ms: bots * 1000 / sizes.bot_requests_per_s.max(1),
        };
        context.progress.doing("the night");
        let watched = [Watched::new("server", self.server.pid())];
        let around = context.around(&watched, true);
        let ((answers, seen), usage) = watch(around, || play(context, &self.server, guests, times))?;
        let spent = usage.processes.iter().find(|of| of.name == "server").map_or(0.0, |of| of.cpu_seconds);
        context.progress.doing("judging the night");
        self.server.stop()?;
        self.server.audit()?;
        let order = Places::new(&drawn.hash("seed")?, drawn.entries()?);
        let numbers = &self.people.numbers;
        let place_of = |buyer: u64| {
            let person = usize::try_from(buyer.checked_sub(PERSON_FIRST)?).ok()?;
            numbers.get(person).filter(|number| **number > 0).map(|number| order.place_of(*number))
        };
        let entries = story::read(&self.server.data_dir())?;
        let sold = Sold { units: sizes.units, grace_ms: sizes.grace_s * 1000 };
        let judged = judge(&entries, &answers, sold, place_of);
        self.audit(&judged, &seen, measured)?;
        let per_person = spent * 1e6 / (waiting as f64 * seen.seconds.max(1e-9));
        add(&mut measured.night, waiting, answers.readings.len(), &judged, &seen, per_person);
        measured.night.samples.push(Sample { seconds: seen.seconds, requests: seen.answers, usage });
        context.progress.done(&format!(
            "the night: {} sold of {}, {} called, {} zones kept, none wrong",
            judged.sold,
            sizes.units,
            judged.called,
            answers.readings.len()
        ));
        super::remove(self.server)
    }

    /// The board as everybody reads it, beside a file of its size.
    fn read_boards(&self, board: &mut Comparison) -> anyhow::Result<()> {
        let content = self.server.exchange(&once::encode("GET", LINE, &[], &[]), 200)?.body;
        self.nginx.serve_file(BOARD_FILE, &content, None).context("nginx's copy of the board")?;
        let watched = [Watched::new("server", self.server.pid()), Watched::new("nginx", self.nginx.pid())];
        let around = self.context.around(&watched, true);
        for round in 1..=self.sizes.rounds {
            self.context.progress.doing(&format!("board beside nginx, {round} of {}", self.sizes.rounds));
            let probe = Probe {
                address: self.server.address(),
                connections: BOARD_CONNECTIONS,
                warm_up: WARM_UP.min(self.sizes.window),
                schedule: Schedule::closed(self.sizes.window),
                wanted: Outcome::Served,
                repeat: round,
            };
            let of_nginx = Probe { address: self.nginx.address, ..probe };
            let mut boards = Traffic::read(LINE, &[], Some(&content));
            let mut files = Traffic::read(&format!("/{BOARD_FILE}"), &[], Some(&content));
            let mut server = || beside::sample(probe, &mut boards, around, |_| Ok(()));
            let mut nginx = || beside::sample(of_nginx, &mut files, around, |_| Ok(()));
            // Which of them comes first changes.
            let (of_server, of_nginx) = if round % 2 == 1 {
                let of_server = server()?;
                (of_server, nginx()?)
            } else {
                let of_nginx = nginx()?;
                (server()?, of_nginx)
            };
            board.server.push(of_server);
            board.nginx.push(of_nginx);
        }
        let (server, nginx) = (shown(&board.server), shown(&board.nginx));
        self.context.progress.done(&format!("board: {server}, nginx {nginx}"));
        Ok(())
    }

    fn guests(&self, drawn: &Shown) -> anyhow::Result<Vec<Guest>> {
        let (entries, people) = (drawn.entries()?, self.people.person_by_number());
        let order = Places::new(&drawn.hash("seed")?, entries);
        let front = self.sizes.front.min(entries);
        let apart = (entries - front).div_ceil(self.sizes.behind.max(1)).max(1);
        let behind = (front + 1..=entries).step_by(apart as usize);
        let mut random = Random::new(self.context.seed).fork();
        let mut guests = Vec::new();
        for place in (1..=front).chain(behind) {
            let person = people.get(order.number_at(place) as usize).copied().flatten();
            let (is_there, is_bot) = (!random.happens(NOT_THERE), random.happens(BOTS));
            guests.extend(
                person.filter(|_| is_there || is_bot).map(|person| Guest::new(person, place, is_bot)),
            );
        }
        Ok(guests)
    }

    /// The ledger against what all buyers were answered, and against the promises.
    fn audit(&self, judged: &Judged, seen: &Seen, measured: &mut Measured) -> anyhow::Result<()> {
        let of_line = Answered { accepted: seen.ordered, unknown: seen.unknown };
        of_line.check(judged.orders)?;
        let all = Answered {
            accepted: of_line.accepted + self.open_orders.accepted,
            unknown: of_line.unknown + self.open_orders.unknown,
        };
        all.check(Ledger::open(&self.server.data_dir())?.orders_recounted()?)?;
        if judged.all_broken() + seen.refused > 0 {
            bail!(
                "{AUDIT_FAILED}: {} promises of the line were broken, {} turns had no unit, {} orders no turn, {} were overtaken, \
                 {} orders with a turn were refused: {}",
                judged.promises_broken(),
                judged.turns_without_unit,
                judged.orders_without_turn,
                judged.overtaken,
                seen.refused,
                judged.named.iter().chain(&seen.first_unexpected).cloned().collect::<Vec<_>>().join("; ")
            );
        }
        let audit = Audit {
            initial_units: self.sizes.units,
            remaining_units: judged.free,
            held_units: judged.held,
            sold_units: judged.sold,
            accepted: of_line.accepted,
            unknown: of_line.unknown,
            orders: judged.orders,
            method: "the line's item, from the ledger's entries, one by one; the whole ledger by the program's own audit".to_owned(),
        };
        if let Some(why) = audit.broken() {
            bail!("{AUDIT_FAILED}: {why}");
        }
        measured.report.notes.push(format!(
            "Night {}: {} of {} units sold, {}; {} orders paid.",
            self.repeat,
            judged.sold,
            self.sizes.units,
            if seen.sold_out { "until nothing was left" } else { "until the sale ended" },
            seen.paid
        ));
        match &mut measured.report.audit {
            Some(before) => before.add(&audit),
            none => *none = Some(audit),
        }
        Ok(())
    }
}

fn add(
    figures: &mut cases::Measured,
    people: usize,
    zones: usize,
    judged: &Judged,
    seen: &Seen,
    per_person: f64,
) {
    let mut known = Durations::default();
    judged.known_after_ms.iter().for_each(|ms| known.saturating_record((ms * 1000).max(1)));
    let p99 = |times: &Durations| Distribution::of(times).at(0.99) as f64;
    for (name, unit, better, value) in [
        (WRONG, "", Better::Lower, judged.promises_broken() as f64),
        ("people", "people", Better::Neither, people as f64),
        ("called", "people", Better::Neither, judged.called as f64),
        ("sold", "units", Better::Neither, judged.sold as f64),
        ("zones kept", "readings", Better::Neither, zones as f64),
        (WITHOUT_UNIT, "", Better::Lower, judged.turns_without_unit as f64),
        (WITHOUT_TURN, "", Better::Lower, judged.orders_without_turn as f64),
        (OVERTAKEN, "people", Better::Lower, judged.overtaken as f64),
        (REFUSED, "orders", Better::Lower, seen.refused as f64),
        (TOO_LATE, "orders", Better::Lower, seen.too_late as f64),
        ("orders out of turn", "requests", Better::Neither, seen.out_of_turn as f64),
        (KNOWN, "us", Better::Lower, p99(&known)),
        (PRESENCE, "us", Better::Lower, p99(&seen.presence)),
        (CPU_PER_PERSON, "us", Better::Lower, per_person),
        ("board reads", "1/s", Better::Neither, seen.boards as f64 / seen.seconds.max(1e-9)),
    ] {
        figures.add_value((name, unit, better), value);
    }
}
