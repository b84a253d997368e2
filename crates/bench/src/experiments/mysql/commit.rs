//! The database alone, by blocking connections, a thread each: what one row, and one whole order, cost it.
//!
//! The floor under the submit-order scenario: a shop that commits each order by itself can't be faster than this.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use mysql::Opts;

use super::{DISK_BYTES_MAX, FLUSHES, Flush, settings, start};
use crate::drivers::mysql::{MySql, Statement, Workload};
use crate::experiments::cases::{Point, Run};
use crate::experiments::shapes::Judged;
use crate::experiments::{ScenarioContext, Target, limit};
use crate::load::Trial;
use crate::load::choice::Random;
use crate::load::record::Outcome;
use crate::load::schedule::Schedule;
use crate::measure::trial_of_clients;
use crate::report::model::{Case, ScenarioReport, Shape};
use crate::report::statistics::median;
use crate::target::address;
use crate::target::address::is_local;
use crate::target::engines::EngineSet;
use crate::target::engines::mariadb::{self, Database, url};

const DATABASE: &str = "doorbuster_bench";
const CONNECTIONS: [usize; 4] = [1, 10, 50, 100];
/// As many as the published shop has.
const GOODS: u64 = 1000;
/// More than a run can sell.
const BALANCE: u64 = 1_000_000_000;
/// A transaction without an answer after this is unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Statements and answers are short; known, it is not asked for.
const PACKET_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Inserts one row, in a transaction of its own.
    Row,
    /// Reads a good, takes a unit if there is one, inserts the order: one transaction.
    Order,
}

const KINDS: [Kind; 2] = [Kind::Row, Kind::Order];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Row => "one row",
            Self::Order => "one order",
        }
    }
}

#[derive(Debug)]
struct Commits {
    kind: Kind,
    random: Random,
}

impl Workload for Commits {
    fn statements(&mut self) -> String {
        let (good, buyer) = (1 + self.random.below(GOODS), self.random.below(1_000_000_000));
        match self.kind {
            Kind::Row => format!("INSERT INTO bought(good, buyer, quantity) VALUES ({good}, {buyer}, 1)"),
            // The last statement inserts only if the one before it took a unit.
            Kind::Order => format!(
                "START TRANSACTION; SELECT price FROM goods WHERE id = {good}; \
                 UPDATE inventory SET balance = balance - 1 WHERE good = {good} AND balance >= 1; \
                 INSERT INTO bought(good, buyer, quantity) SELECT {good}, {buyer}, 1 FROM DUAL WHERE ROW_COUNT() = 1; \
                 COMMIT"
            ),
        }
    }

    fn judge(&mut self, results: &[Statement]) -> Outcome {
        let affected: Vec<u64> = results.iter().map(|of| of.affected).collect();
        match (self.kind, &affected[..]) {
            (Kind::Row, [1]) | (Kind::Order, [0, 0, 1, 1, 0]) => Outcome::Won,
            (Kind::Order, [0, 0, 0, 0, 0]) => Outcome::SoldOut,
            _ => Outcome::Unknown,
        }
    }
}

struct Server {
    set: Option<EngineSet>,
    address: SocketAddr,
    options: Opts,
    database: Database,
}

impl Server {
    fn open(context: &ScenarioContext) -> anyhow::Result<Self> {
        let (set, at) = match &context.target {
            Target::Spawn => {
                let set = start(context)?;
                let at = url(set.address("mariadb")?, "");
                (Some(set), at)
            }
            Target::Running(addresses) => {
                (None, addresses.mysql.clone().context("no MySQL server is given: --target-mysql URL")?)
            }
        };
        let address = address::of_mysql(&at).map_err(anyhow::Error::msg)?;
        let options = mariadb::options(&at)?
            .db_name(Some(DATABASE))
            .read_timeout(Some(ANSWER_TIMEOUT))
            .write_timeout(Some(ANSWER_TIMEOUT))
            .tcp_connect_timeout(Some(ANSWER_TIMEOUT))
            .max_allowed_packet(Some(PACKET_BYTES_MAX))
            .into();
        let mut database = Database::open(&at)?;
        database.recreate(DATABASE)?;
        database.execute(&format!("USE {DATABASE}"))?;
        database.execute(
            "CREATE TABLE goods(id INT PRIMARY KEY, name VARCHAR(64) NOT NULL, price BIGINT NOT NULL) ENGINE=InnoDB;
             CREATE TABLE inventory(good INT PRIMARY KEY, balance BIGINT NOT NULL) ENGINE=InnoDB;
             CREATE TABLE bought(id BIGINT AUTO_INCREMENT PRIMARY KEY, good INT NOT NULL, buyer BIGINT NOT NULL,
                                 quantity INT NOT NULL) ENGINE=InnoDB",
        )?;
        let rows = |row: fn(u64) -> String| (1..=GOODS).map(row).collect::<Vec<_>>().join(",");
        database.execute(&format!(
            "INSERT INTO goods VALUES {};INSERT INTO inventory VALUES {}",
            rows(|good| format!("({good},'good {good}',100)")),
            rows(|good| format!("({good},{BALANCE})"))
        ))?;
        Ok(Self { set, address, options, database })
    }

    /// Rows of orders, and units that were taken.
    fn state(&mut self) -> anyhow::Result<(u64, u64)> {
        let rows = self.database.count("bought")?;
        let left = self.database.number("SELECT CAST(SUM(balance) AS UNSIGNED) FROM inventory")?;
        Ok((rows, GOODS * BALANCE - left.context("there are goods")?))
    }
}

pub(super) fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "MariaDB alone: commits");
    run.note("an order is one transaction of five statements sent in one packet, so it costs one round trip");
    run.note("rows and units taken were counted after each run against what was acknowledged");
    if context.quick() {
        run.scaled_down("runs of 2 s");
    }
    let mut server = Server::open(context)?;
    let own = server.set.is_some();
    if own {
        for flush in FLUSHES {
            flush.apply(&mut server.database)?;
            measure(&mut run, &mut server, flush.name())?;
        }
    } else {
        run.note("the server's flush settings were left as they are");
        measure(&mut run, &mut server, "as found")?;
    }
    server.database.execute(&format!("DROP DATABASE {DATABASE}"))?;
    run.ensure_some()?;
    Ok(run.finish(|cases| if own { shapes(cases) } else { Vec::new() }))
}

fn measure(run: &mut Run<'_>, server: &mut Server, under: &str) -> anyhow::Result<()> {
    let context = run.context;
    run.report.engines.push(settings(&mut server.database, under)?);
    for kind in KINDS {
        for connections in CONNECTIONS {
            let plural = if connections == 1 { "" } else { "s" };
            let series = format!("{}, {under}", kind.name());
            let name = format!("{series}, {connections} connection{plural}");
            let point = Point::at(&series, "connections", connections as u64).named(name);
            run.case(point, &["throughput", "p99 response"], || trials(context, server, kind, connections))?;
        }
    }
    Ok(())
}

fn trials(
    context: &ScenarioContext,
    server: &mut Server,
    kind: Kind,
    connections: usize,
) -> anyhow::Result<Vec<Trial>> {
    let window = Duration::from_secs(if context.quick() { 2 } else { 10 });
    let local = is_local(server.address);
    let watched = server.set.as_ref().map(EngineSet::all_watched).unwrap_or_default();
    let mut random = Random::new(context.seed);
    let mut clients = (0..connections)
        .map(|_| MySql::connect(server.options.clone(), Commits { kind, random: random.fork() }))
        .collect::<mysql::Result<Vec<_>>>()
        .context("connecting to the MySQL server")?;
    let mut trials = Vec::new();
    // The first is a warm-up: it is checked like the others, and gives no figure.
    for repeat in 0..=context.repeats {
        if let Some(set) = &server.set {
            server.database.purge_binary_logs()?;
            set.check_room(DISK_BYTES_MAX)?;
        }
        let before = server.state()?;
        let around = context.around(&watched, local);
        let trial = trial_of_clients(&mut clients, Schedule::closed(window), repeat, around)?;
        check(kind, &trial, before, server.state()?)?;
        if repeat > 0 {
            trials.push(trial);
        }
    }
    Ok(trials)
}

/// Every acknowledged transaction is there, whole, and no other but the unknown ones.
fn check(kind: Kind, trial: &Trial, before: (u64, u64), after: (u64, u64)) -> anyhow::Result<()> {
    let (rows, units) = (after.0 - before.0, after.1 - before.1);
    let (least, most) = (trial.outcomes.won, trial.outcomes.won + trial.outcomes.unknown);
    ensure!(
        (least..=most).contains(&rows) && units == if kind == Kind::Order { rows } else { 0 },
        "AUDIT FAILED: {least} transactions were acknowledged and {} have an unknown outcome; there are {rows} more \
         rows, and {units} units fewer",
        trial.outcomes.unknown
    );
    Ok(())
}

fn shapes(cases: &[Case]) -> Vec<Shape> {
    let best = |kind: Kind, flush: Flush| {
        let series = format!("{}, {}", kind.name(), flush.name());
        let of = cases.iter().filter(move |case| case.series == series);
        of.filter_map(|case| Some((case.name.as_str(), median(&case.metrics.first()?.values)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let shape = |kind: &Kind| {
        let pair = best(*kind, Flush::EachCommit).zip(best(*kind, Flush::Never));
        let said = pair.map(|((_, synced), (_, not))| {
            (format!("{not:.0}/s at best against {synced:.0}/s: {:.2} times", not / synced), not > synced)
        });
        let full = pair.and_then(|(synced, not)| limit::bound(cases, &[synced.0, not.0]));
        let claim = format!("{}: 0/0 commits more than 1/1", kind.name());
        Judged::new(said, "one of the two was not run")
            .doubted(full)
            .shape(&claim, "submit-order is better with 0/0")
    };
    KINDS.iter().map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_transaction_is_an_order() {
        let judge = |kind, affected: &[u64]| {
            let results: Vec<Statement> =
                affected.iter().map(|&affected| Statement { affected, rows: 0 }).collect();
            Commits { kind, random: Random::new(1) }.judge(&results)
        };
        assert_eq!(judge(Kind::Row, &[1]), Outcome::Won);
        assert_eq!(judge(Kind::Row, &[0]), Outcome::Unknown);
        assert_eq!(judge(Kind::Order, &[0, 0, 1, 1, 0]), Outcome::Won);
        assert_eq!(judge(Kind::Order, &[0, 0, 0, 0, 0]), Outcome::SoldOut);
        assert_eq!(judge(Kind::Order, &[0, 0, 1, 0, 0]), Outcome::Unknown);
        assert_eq!(judge(Kind::Order, &[0, 0, 1, 1]), Outcome::Unknown);
    }

    #[test]
    fn the_best_rates_are_compared_unless_one_is_the_generators() {
        let case = |flush: Flush, connections: usize, per_s, share| {
            let series = format!("{}, {}", Kind::Row.name(), flush.name());
            Case { series, ..limit::tests::case_of(&format!("{} {connections}", flush.name()), per_s, share) }
        };
        // The busy one is not the best.
        let mut cases = vec![
            case(Flush::EachCommit, 1, 90, 0.95),
            case(Flush::EachCommit, 9, 100, 0.5),
            case(Flush::Never, 9, 200, 0.5),
        ];
        assert_eq!(shapes(&cases).iter().map(|shape| shape.holds).collect::<Vec<_>>(), [Some(true), None]);
        assert_eq!(shapes(&cases)[0].measured, "200/s at best against 100/s: 2.00 times");
        cases.push(case(Flush::Never, 64, 300, 0.9));
        assert_eq!(shapes(&cases)[0].holds, None);
        assert!(shapes(&cases)[0].measured.contains("it may be the limit itself"), "{cases:?}");
    }
}
