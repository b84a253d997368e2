//! Each alarm made to happen on a real server: the cause, a real Prometheus that reports it by the shipped rules, the verdict of
//! the server, and both gone once the cause is.
//!
//! `make test` plays a few of them, `make alarms` (`DOORBUSTER_ALARMS=full`) all, and writes the table of docs/runbook.md.

mod alarm;
mod cluster;
mod shop;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::sync::Mutex;
use std::thread;

pub(crate) use self::alarm::Alarm;
use super::{RUNBOOK, alerts, file, text};
use crate::{stripe, verifier};

/// What is made to happen, and what has to show it.
#[derive(Debug)]
struct Row {
    cause: &'static str,
    alerts: &'static [&'static str],
    /// The line of `doorbuster watch` and the console, if it is one that the cause shows.
    verdict: Option<&'static str>,
    made: fn(&mut Alarm),
    /// Also in `make test`.
    is_quick: bool,
}

const fn row(
    cause: &'static str,
    alerts: &'static [&'static str],
    verdict: Option<&'static str>,
    made: fn(&mut Alarm),
) -> Row {
    Row { cause, alerts, verdict, made, is_quick: false }
}

const fn quick(row: Row) -> Row {
    Row { is_quick: true, ..row }
}

const ROWS: &[Row] = &[
    quick(row("the server frozen (SIGSTOP)", &["DoorbusterServerAway"], None, shop::server_frozen)),
    row("no server in Prometheus' list", &["DoorbusterNoServers"], None, shop::no_servers),
    row("SIGTERM, while a request is on its way", &[], Some("stopping"), shop::stopping),
    row(
        "the ledger's disk full",
        &["DoorbusterNotReady", "DoorbusterCommitsFailed", "DoorbusterOutcomesUnknown"],
        Some("disk_takes_no_writes"),
        shop::disk_full,
    ),
    row(
        "the ledger's MariaDB frozen with an order on its way",
        &["DoorbusterOutcomesUnknown"],
        Some("outcomes_unknown"),
        shop::database_frozen,
    ),
    row(
        "20 MiB free of a disk of 300 MiB",
        &["DoorbusterDiskFullSoon"],
        Some("disk_full_soon"),
        shop::disk_full_soon,
    ),
    row("110 MiB free of a disk of 1200 MiB", &["DoorbusterDiskLow"], Some("disk_low"), shop::disk_low),
    row(
        "a start with a clock that is four days ahead",
        &["DoorbusterClockUnconfirmed", "DoorbusterNotReady"],
        Some("clock_unconfirmed"),
        shop::clock_unconfirmed,
    ),
    row(
        "the system's clock set ahead by 5 s",
        &["DoorbusterClockDiffers"],
        Some("clock_differs"),
        shop::clock_differs,
    ),
    row(
        "more orders than `admission.orders_per_s`",
        &["DoorbusterBusyWithStock"],
        Some("busy_with_stock"),
        shop::busy,
    ),
    row(
        "the ledger's MariaDB frozen for 1.3 s at each order",
        &["DoorbusterOrdersSlow", "DoorbusterCommitsSlow"],
        Some("orders_slow"),
        shop::orders_slow,
    ),
    row(
        "the ledger's MariaDB frozen for 0.6 s at each order",
        &["DoorbusterCommitsSlow"],
        Some("commits_slow"),
        shop::commits_slow,
    ),
    row(
        "each processor with a loop",
        &["DoorbusterProcessorsBusy"],
        Some("processors_busy"),
        shop::processors_busy,
    ),
    row(
        "more connections than `http.connections_max`",
        &["DoorbusterConnectionsRefused"],
        Some("connections_refused"),
        shop::connections_refused,
    ),
    quick(row("an order paid twice", &["DoorbusterRefundsDue"], Some("refunds_due"), shop::refunds_due)),
    row(
        "Stripe reports a refund as failed",
        &["DoorbusterRefundFailed"],
        None,
        stripe::alarms::refund_failed,
    ),
    row(
        "an authorisation that Stripe has cancelled",
        &["DoorbusterAuthorisationLost"],
        None,
        stripe::alarms::authorisation_lost,
    ),
    row(
        "a service that verifies who joins a line answers 500",
        &["DoorbusterLineVerifierAway"],
        None,
        verifier::away,
    ),
    row("an endpoint that answers 410", &["DoorbusterWebhookOff"], Some("webhook_off"), shop::webhook_off),
    row(
        "an endpoint that answered 500 for 16 min",
        &["DoorbusterWebhookWaiting"],
        Some("webhook_waiting"),
        shop::webhook_waiting,
    ),
    row(
        "an endpoint that answered 500 for three days",
        &["DoorbusterWebhookGivenUp"],
        None,
        shop::webhook_given_up,
    ),
    quick(row("`doorbuster sale pause`", &[], Some("sale_paused"), shop::sale_paused)),
    row("the broker frozen", &["DoorbusterNotReady"], Some("not_ready"), cluster::broker_frozen),
    row("the only name server frozen", &[], Some("broker_not_well"), cluster::name_server_frozen),
    row(
        "one of two servers frozen",
        &["DoorbusterServerAway"],
        Some("servers_silent"),
        cluster::server_frozen,
    ),
    row("one of two servers stopped", &[], Some("servers_fewer"), cluster::server_stopped),
    row(
        "the network cut between one of two servers and the database",
        &[],
        Some("server_cut_off"),
        cluster::server_cut_off,
    ),
    row(
        "a master of a Redis Cluster and its replica killed",
        &["DoorbusterGatePartAway"],
        Some("gate_part_away"),
        cluster::shard_away,
    ),
    row(
        "a second server starts with a clock that is a day ahead",
        &["DoorbusterClocksOut"],
        Some("servers_out"),
        cluster::clock_out,
    ),
    row(
        "the shared ledger's MariaDB frozen",
        &["DoorbusterNobodyReconciles"],
        Some("ledger_away"),
        cluster::ledger_frozen,
    ),
    row(
        "a unit taken from a gate by hand",
        &["DoorbusterDrift"],
        Some("gate_and_ledger_differ"),
        cluster::drift,
    ),
    row("110,000 messages while the ledger is frozen", &["DoorbusterBacklog"], None, cluster::backlog),
    row("the queues kept by a server that is not there", &[], Some("backlog"), cluster::queues_kept),
    row(
        "the task of reconciliation kept by a server that is not there",
        &["DoorbusterNobodyReconciles"],
        Some("nobody_reconciles"),
        cluster::reconciliation_kept,
    ),
    row(
        "messages that are no orders",
        &["DoorbusterDeadLetters"],
        Some("dead_letters"),
        cluster::dead_letters,
    ),
    row(
        "the shared ledger's database put back to a copy from before a cancellation",
        &["DoorbusterLedgerLostTail"],
        Some("ledger_lost_tail"),
        cluster::ledger_put_back,
    ),
    row(
        "Redis wiped, and half of the queues retired unread and put back",
        &["DoorbusterOrdersLost"],
        Some("orders_lost"),
        cluster::orders_lost,
    ),
];

/// What nothing here makes happen, and why.
const NOT_MADE: &[(&str, &str)] = &[
    (
        "DoorbusterMessagesMisplaced",
        "a broker whose disk is full misplaces messages only in some of its threads, which nobody can choose; \
         that the metric counts them is tested by answers as such a broker gives them",
    ),
    (
        "beacon_not_configured",
        "it takes a start with another configuration between two looks, \
         which a test of the program does, to the verdict and the log and back",
    ),
];

/// Which are played: `full` is all of them, another word those in whose cause it is, and without one the quick ones.
fn is_played(row: &Row) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a test is steered by its environment")]
    let which = std::env::var("DOORBUSTER_ALARMS");
    which.map_or(row.is_quick, |word| word == "full" || row.cause.contains(&word))
}

#[test]
fn every_alarm_happens_by_its_cause_and_ends_with_it() {
    let lines = Mutex::new(vec![None; ROWS.len()]);
    thread::scope(|scope| {
        for (place, row) in ROWS.iter().enumerate() {
            if is_played(row) {
                let lines = &lines;
                scope.spawn(move || {
                    let mut alarm = Alarm::new(row);
                    (row.made)(&mut alarm);
                    let line = alarm.line();
                    println!("{line}");
                    lines.lock().unwrap()[place] = Some(line);
                });
            }
        }
    });
    let lines: Option<Vec<String>> = lines.into_inner().unwrap().into_iter().collect();
    if let Some(lines) = lines {
        write_table(&lines);
    }
}

const HEADING: &str = "\n## Made to happen\n";

/// The last part of the runbook.
fn write_table(lines: &[String]) {
    let runbook = text(RUNBOOK);
    let (before, _) = runbook.split_once(HEADING).expect("the runbook has such a part");
    let mut part = String::from(
        "
`make alarms` causes each alarm on a real server with real engines, waits until a real Prometheus reports it by the shipped rules and the
server shows the verdict, takes the cause away, and waits until both are gone. Prometheus looks each second, and a minute of `for:` is a second
there: add the minutes of the rule, and up to 15 s for each look. What looks back over 5 min or an hour is gone when that time is over.

| cause | alerts | verdict | seen after | gone after |
| --- | --- | --- | --- | --- |
",
    );
    lines.iter().for_each(|line| writeln!(part, "{line}").unwrap());
    for (alert, why) in NOT_MADE {
        write!(part, "\nNot made to happen: `{alert}`: {why}.\n").unwrap();
    }
    fs::write(file(RUNBOOK), format!("{before}{HEADING}{part}")).unwrap();
}

#[test]
fn every_alert_and_every_verdict_of_a_fault_is_made_or_said_not_to_be() {
    let runbook = text(RUNBOOK);
    let of_fault = |line: &'static str| runbook.lines().filter(move |of| of.starts_with(line));
    let verdicts = ["Red: verdict `", "Amber: verdict `"].into_iter().flat_map(of_fault);
    let mut expected: BTreeSet<String> =
        verdicts.map(|line| line.split('`').nth(1).unwrap().to_owned()).collect();
    expected.extend(alerts().into_iter().map(|alert| alert.name));
    let made = ROWS.iter().flat_map(|row| row.alerts.iter().copied().chain(row.verdict));
    let not_made: Vec<_> = NOT_MADE.iter().map(|(alert, _)| *alert).collect();
    let found: BTreeSet<String> = made.chain(not_made).map(str::to_owned).collect();
    assert_eq!(found, expected);
    let (_, table) = runbook.split_once(HEADING).unwrap();
    for row in ROWS {
        assert!(table.contains(&format!("| {} | {} |", row.cause, alarm::named(row.alerts))), "{row:?}");
    }
    assert!(NOT_MADE.iter().all(|(alert, why)| table.contains(&format!("`{alert}`: {why}."))));
}
