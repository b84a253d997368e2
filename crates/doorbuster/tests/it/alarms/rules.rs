//! Which alerts fire on which series, judged by promtool: every case is a healthy server with some of its metrics changed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use super::{ALERTS, alerts, file, metrics_in, text};
use crate::succeeds;

/// From one sample to the next, in seconds; a case is looked at when it has so many.
const INTERVAL_S: usize = 15;
const SAMPLES: usize = 120;

/// A metric and its values, in promtool's notation; `N` becomes how often a step is repeated.
type Series = (&'static str, &'static str);

/// How a healthy server stands.
const HEALTHY: &[Series] = &[
    ("up", "1+0xN"),
    ("doorbuster_ready", "1+0xN"),
    ("doorbuster_gate_part_away", "0+0xN"),
    ("doorbuster_clock_unconfirmed", "0+0xN"),
    ("doorbuster_clock_difference_ms", "-900+0xN"),
    ("doorbuster_orders_unknown_total", "7+0xN"),
    ("doorbuster_commits_failed_total", "7+0xN"),
    ("doorbuster_orders_rejected_total", "7+0xN"),
    ("doorbuster_stock_units{kind=\"available\"}", "50+0xN"),
    ("doorbuster_stock_units{kind=\"sold\"}", "50+0xN"),
    ("doorbuster_order_seconds_bucket{le=\"0.8192\"}", "0+995xN"),
    ("doorbuster_order_seconds_bucket{le=\"1.6384\"}", "0+999xN"),
    ("doorbuster_order_seconds_bucket{le=\"+Inf\"}", "0+1000xN"),
    ("doorbuster_commit_seconds_bucket{le=\"0.4096\"}", "0+995xN"),
    ("doorbuster_commit_seconds_bucket{le=\"0.8192\"}", "0+999xN"),
    ("doorbuster_commit_seconds_bucket{le=\"+Inf\"}", "0+1000xN"),
    ("doorbuster_processors_busy_ratio", "0.94+0xN"),
    ("doorbuster_connections_refused_total", "7+0xN"),
    ("doorbuster_disk_free_bytes", "6000000000+0xN"),
    ("doorbuster_disk_bytes", "500000000000+0xN"),
    ("doorbuster_refunds_due", "0+0xN"),
    ("doorbuster_stripe_refunds_failed_total", "7+0xN"),
    ("doorbuster_stripe_authorisations_lost_total", "7+0xN"),
    ("doorbuster_webhook_off{endpoint=\"shop\"}", "0+0xN"),
    ("doorbuster_webhook_waiting_since_seconds{endpoint=\"shop\"}", "0+0xN"),
    ("doorbuster_webhook_events_given_up{endpoint=\"shop\"}", "0+0xN"),
    ("doorbuster_line_verifications_total{outcome=\"passed\"}", "0+95xN"),
    ("doorbuster_line_verifications_total{outcome=\"unreachable\"}", "0+5xN"),
    ("doorbuster_clocks_out", "0+0xN"),
    ("doorbuster_orders_lost_total", "7+0xN"),
    ("doorbuster_ledger_lost_tail_total", "0+0xN"),
    ("doorbuster_messages_misplaced", "0+0xN"),
    ("doorbuster_drift_units_total", "7+0xN"),
    ("doorbuster_reconciling", "1+0xN"),
    ("doorbuster_backlog", "99999+0xN"),
    ("doorbuster_dead_letters_total", "7+0xN"),
];

/// A 1 that a server loses for one sample, shortly before the look.
const BLIP: &str = "1+0x114 0 1+0x4";

/// What is changed, and what fires then. Not scraped at all is `_`.
const CASES: &[(&[Series], &[&str])] = &[
    (&[], &[]),
    (&[("up", "1+0x100 0+0x19")], &["DoorbusterServerAway"]),
    (&[("up", BLIP)], &[]),
    (&[("up", "_xN")], &["DoorbusterNoServers"]),
    (&[("doorbuster_ready", "1+0x100 0+0x19")], &["DoorbusterNotReady"]),
    (&[("doorbuster_ready", BLIP)], &[]),
    (&[("doorbuster_gate_part_away", "0+0x100 1+0x19")], &["DoorbusterGatePartAway"]),
    (&[("doorbuster_gate_part_away", "0+0x117 1+0x2")], &[]),
    (
        &[("doorbuster_clock_unconfirmed", "1+0xN"), ("doorbuster_ready", "0+0xN")],
        &["DoorbusterClockUnconfirmed", "DoorbusterNotReady"],
    ),
    (&[("doorbuster_clock_difference_ms", "-1100+0xN")], &["DoorbusterClockDiffers"]),
    (&[("doorbuster_clock_difference_ms", "1100+0xN")], &["DoorbusterClockDiffers"]),
    (&[("doorbuster_orders_unknown_total", "7+0x110 8+0x9")], &["DoorbusterOutcomesUnknown"]),
    (&[("doorbuster_orders_unknown_total", "7+0x20 8+0x99")], &[]),
    (&[("doorbuster_commits_failed_total", "7+0x110 8+0x9")], &["DoorbusterCommitsFailed"]),
    (&[("doorbuster_orders_rejected_total", "0+9xN")], &["DoorbusterBusyWithStock"]),
    (
        &[
            ("doorbuster_orders_rejected_total", "0+9xN"),
            ("doorbuster_stock_units{kind=\"available\"}", "0+0xN"),
        ],
        &[],
    ),
    (&[("doorbuster_orders_rejected_total", "7+0x116 9+0x3")], &[]),
    (&[("doorbuster_order_seconds_bucket{le=\"0.8192\"}", "0+980xN")], &["DoorbusterOrdersSlow"]),
    (&[("doorbuster_commit_seconds_bucket{le=\"0.4096\"}", "0+980xN")], &["DoorbusterCommitsSlow"]),
    (&[("doorbuster_processors_busy_ratio", "0.96+0xN")], &["DoorbusterProcessorsBusy"]),
    (&[("doorbuster_processors_busy_ratio", "0.96+0x116 0.5 1+0x2")], &[]),
    (&[("doorbuster_connections_refused_total", "7+0x110 8+0x9")], &["DoorbusterConnectionsRefused"]),
    (&[("doorbuster_disk_free_bytes", "5000000000+0xN")], &["DoorbusterDiskLow"]),
    (&[("doorbuster_disk_free_bytes", "100000000+0xN")], &["DoorbusterDiskFullSoon", "DoorbusterDiskLow"]),
    (&[("doorbuster_disk_free_bytes", "90000000+0xN"), ("doorbuster_disk_bytes", "800000000+0xN")], &[]),
    (&[("doorbuster_refunds_due", "1+0xN")], &["DoorbusterRefundsDue"]),
    (&[("doorbuster_stripe_refunds_failed_total", "7+0x20 8+0x99")], &["DoorbusterRefundFailed"]),
    (&[("doorbuster_stripe_authorisations_lost_total", "7+0x20 8+0x99")], &["DoorbusterAuthorisationLost"]),
    (&[("doorbuster_webhook_off{endpoint=\"shop\"}", "1+0xN")], &["DoorbusterWebhookOff"]),
    (&[("doorbuster_webhook_off{endpoint=\"shop\"}", "0+0x105 1+0x14")], &[]),
    // The clock of promtool begins at 0: this is 29 minutes ago at the look, and 10 minutes.
    (
        &[("doorbuster_webhook_waiting_since_seconds{endpoint=\"shop\"}", "60+0xN")],
        &["DoorbusterWebhookWaiting"],
    ),
    (&[("doorbuster_webhook_waiting_since_seconds{endpoint=\"shop\"}", "1200+0xN")], &[]),
    (&[("doorbuster_webhook_events_given_up{endpoint=\"shop\"}", "1+0xN")], &["DoorbusterWebhookGivenUp"]),
    (
        &[("doorbuster_line_verifications_total{outcome=\"unreachable\"}", "0+20xN")],
        &["DoorbusterLineVerifierAway"],
    ),
    // Since a minute before the look alone.
    (&[("doorbuster_line_verifications_total{outcome=\"unreachable\"}", "0+5x115 800+90x3")], &[]),
    (
        &[
            ("doorbuster_line_verifications_total{outcome=\"passed\"}", "7+0xN"),
            ("doorbuster_line_verifications_total{outcome=\"unreachable\"}", "0+1xN"),
        ],
        &["DoorbusterLineVerifierAway"],
    ),
    (
        &[
            ("doorbuster_line_verifications_total{outcome=\"passed\"}", "7+0xN"),
            ("doorbuster_line_verifications_total{outcome=\"unreachable\"}", "7+0xN"),
        ],
        &[],
    ),
    (&[("doorbuster_clocks_out", "1+0xN")], &["DoorbusterClocksOut"]),
    (&[("doorbuster_orders_lost_total", "7+0x20 8+0x99")], &["DoorbusterOrdersLost"]),
    (&[("doorbuster_ledger_lost_tail_total", "0+0x20 1+0x99")], &["DoorbusterLedgerLostTail"]),
    (&[("doorbuster_messages_misplaced", "1+0xN")], &["DoorbusterMessagesMisplaced"]),
    (&[("doorbuster_drift_units_total", "7+0x20 8+0x99")], &["DoorbusterDrift"]),
    (&[("doorbuster_reconciling", "0+0xN")], &["DoorbusterNobodyReconciles"]),
    (&[("doorbuster_backlog", "100001+0xN")], &["DoorbusterBacklog"]),
    (&[("doorbuster_dead_letters_total", "7+0x20 8+0x99")], &["DoorbusterDeadLetters"]),
];

/// What every server of a cluster counts alike is one alert, and not one of each server.
const ALIKE: [(&str, &str, &str); 3] = [
    ("doorbuster_refunds_due", "4+0xN", "DoorbusterRefundsDue"),
    ("doorbuster_backlog", "1200000+0xN", "DoorbusterBacklog"),
    ("doorbuster_ledger_lost_tail_total", "0+0x20 1+0x99", "DoorbusterLedgerLostTail"),
];

/// A series of the server that is scraped.
fn series(metric: &str) -> String {
    let (name, labels) = metric.split_once('{').unwrap_or((metric, "}"));
    let comma = if labels == "}" { "" } else { "," };
    format!("{name}{{job=\"doorbuster\",instance=\"one:8080\"{comma}{labels}")
}

/// The cases as promtool reads them.
fn tests() -> String {
    let mut tests = format!("rule_files: [{:?}]\nevaluation_interval: {INTERVAL_S}s\ntests:\n", file(ALERTS));
    for (changed, fires) in CASES {
        for (metric, _) in *changed {
            assert!(HEALTHY.iter().any(|(healthy, _)| healthy == metric), "{metric}");
        }
        writeln!(tests, "- interval: {INTERVAL_S}s\n  input_series:").unwrap();
        for (metric, healthy) in HEALTHY {
            let values =
                changed.iter().find(|(other, _)| other == metric).map_or(*healthy, |(_, values)| *values);
            let values = values.replace('N', &(SAMPLES - 1).to_string());
            writeln!(tests, "  - {{series: '{}', values: '{values}'}}", series(metric)).unwrap();
        }
        let at_s = INTERVAL_S * (SAMPLES - 1);
        let expr = "count by (alertname) (ALERTS{alertstate=\"firing\"})";
        writeln!(tests, "  promql_expr_test:\n  - expr: '{expr}'\n    eval_time: {at_s}s").unwrap();
        let samples = fires.iter().map(|alert| format!("{{labels: '{{alertname=\"{alert}\"}}', value: 1}}"));
        writeln!(tests, "    exp_samples: [{}]", samples.collect::<Vec<_>>().join(", ")).unwrap();
    }
    for (metric, values, alert) in ALIKE {
        let values = values.replace('N', &(SAMPLES - 1).to_string());
        writeln!(tests, "- interval: {INTERVAL_S}s\n  input_series:").unwrap();
        for instance in ["one", "two", "three"] {
            let series = format!("{metric}{{job=\"doorbuster\",instance=\"{instance}:8080\"}}");
            writeln!(tests, "  - {{series: '{series}', values: '{values}'}}").unwrap();
        }
        let expr = format!("count by (alertname) (ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
        let at_s = INTERVAL_S * (SAMPLES - 1);
        writeln!(tests, "  promql_expr_test:\n  - expr: '{expr}'\n    eval_time: {at_s}s").unwrap();
        writeln!(tests, "    exp_samples: [{{labels: '{{alertname=\"{alert}\"}}', value: 1}}]").unwrap();
    }
    tests
}

#[test]
fn each_alert_fires_on_what_it_is_for_and_on_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tests.yml");
    fs::write(&path, tests()).unwrap();
    succeeds(Command::new("promtool").args(["check", "rules"]).arg(file(ALERTS)));
    succeeds(Command::new("promtool").args(["test", "rules"]).arg(path));
    let fired: BTreeSet<&str> = CASES.iter().flat_map(|(_, fires)| *fires).copied().collect();
    let alerts = alerts();
    let all: BTreeSet<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    assert_eq!(fired, all, "each alert has a case in which it fires");
    let healthy: BTreeSet<&str> = HEALTHY.iter().flat_map(|(metric, _)| metrics_in(metric)).collect();
    assert_eq!(metrics_in(&text(ALERTS)), healthy, "a healthy server has all that is looked at");
}
