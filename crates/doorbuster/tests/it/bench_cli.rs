//! `doorbuster bench` without a measurement: its lists, its refusals, and what becomes of a report that exists.

use std::path::Path;

use serde_json::{Value, json};

use crate::run;

#[test]
fn the_help_counts_the_rows_right() {
    use bench::durability::{DurabilityOptions, Extent};
    let rows = |extent| DurabilityOptions { extent, ..DurabilityOptions::new("".into()) }.plan().len();
    let counts = [Extent::Quick, Extent::OneAtATime, Extent::Full].map(rows);
    let folder = tempfile::tempdir().unwrap();
    let (_, help, _) = run(folder.path(), &["bench", "durability", "--help"]);
    let [quick, one_at_a_time, full] = counts;
    let sizes = format!("--extent quick {quick}, one-at-a-time {one_at_a_time}, full {full};");
    assert!(help.contains(&sizes), "{sizes}\n{help}");
}

/// As `bench run` writes it, with one figure: so much throughput in each repeat.
fn report(throughput: &[f64]) -> Value {
    json!({
        "schema": "doorbuster-bench/2", "program": "doorbuster 0.1.0", "git_revision": null, "command": [],
        "started_unix_s": 1_795_304_146, "elapsed_s": 10.0, "complete": true, "size": "full",
        "repeats": throughput.len(), "seed": 1,
        "environment": {
            "processor": "some", "processors": 2, "memory_mib": 1000, "swap_mib": 0, "governor": "none",
            "cgroup_processors": null, "cgroup_memory_mib": null, "kernel": "6.1", "nginx": "nginx/1.22",
            "file_system": "ext4 on /dev/vda", "load_before": "0.1", "co_located": true
        },
        "scenarios": [{
            "name": "threads", "title": "Threads", "reference": null, "scaled_down": [], "notes": ["<b>"],
            "engines": [{"engine": "redis", "version": "7", "settings": {"save": ""}}],
            "cases": [{
                "name": "set, 50 threads", "series": "set", "x": {"label": "threads", "value": 50.0}, "trials": [],
                "metrics": [{
                    "name": "throughput", "unit": "1/s", "better": "higher", "values": throughput,
                    "published": {"value": 42_634.0, "dubious": null}
                }]
            }],
            "shapes": [], "audit": null, "limiter": null
        }],
        "failures": [], "thresholds": []
    })
}

const STEADY: [f64; 6] = [40_000.0, 40_100.0, 40_200.0, 40_300.0, 40_400.0, 40_500.0];

fn write(folder: &Path, name: &str, report: &Value) {
    std::fs::write(folder.join(name), report.to_string()).unwrap();
}

fn slower(share: f64) -> Value {
    report(&STEADY.map(|value| value * (1.0 - share)))
}

#[test]
fn the_list_and_the_schema_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = run(folder.path(), &["bench", "list"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("scenario"), "{stdout}");
    let (code, stdout, _) = run(folder.path(), &["bench", "schema"]);
    let schema: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, schema["properties"]["schema"]["const"].as_str()), (0, Some("doorbuster-bench/2")));
    for command in ["run", "peak", "durability", "peers", "report", "compare"] {
        let (code, stdout, _) = run(folder.path(), &["bench", command, "--help"]);
        assert!(code == 0 && stdout.contains("Examples:"), "{command}: {stdout}");
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("limits.toml"), "thresholds = [\"a:b\"]").unwrap();
    std::fs::write(folder.path().join("other.toml"), "limits = []").unwrap();
    for (arguments, reason) in [
        (&["run"][..], "<NAME|--all>"),
        (&["run", "no-such-scenario"], "there is no scenario 'no-such-scenario'"),
        (&["run", "x", "--all"], "cannot be used with"),
        (&["run", "--all", "--quick", "--full"], "cannot be used with"),
        (&["run", "--all", "--repeats", "0"], "invalid value '0' for '--repeats <N>'"),
        (&["run", "--all", "--spawn", "--target-redis", "127.0.0.1:1"], "cannot be used with"),
        (&["run", "--all", "--target-redis", "here"], "invalid value 'here'"),
        (&["run", "--all", "--target-http", "localhost"], "write it as host:port"),
        (&["producer", "-n", "no-such-host.invalid:1"], "the host 'no-such-host.invalid' was not resolved"),
        (&["run", "--all", "--target-mysql", "foo"], "write it as mysql://user:password@host:port/database"),
        (&["run", "--all", "--threshold", "fast"], "no >=, <=, > or <"),
        (&["run", "--all", "--threshold", "stock:throughput=>4"], "did you mean '>='?"),
        (&["run", "--all", "--threshold", "stock:p99<=50"], "the value needs a unit"),
        (&["run", "--all", "--threshold", "nothing:p99<=50ms"], "there is no scenario 'nothing'"),
        (&["run", "--all", "--thresholds", "limits.toml"], "limits.toml: 'a:b': no >=, <=, > or <"),
        (&["run", "--all", "--thresholds", "other.toml"], "other.toml: unknown field"),
        (&["run", "--all", "--thresholds", "none.toml"], "none.toml: can't be read"),
        (&["run", "redis-get-set", "--folder", "none/of/it"], "there is no folder none/of"),
        (&["peak", "--folder", "none/of/it"], "there is no folder none/of"),
        (&["run", "redis-memory", "mysql-commit"], "mysql-commit: dev has no script `up`"),
        (&["run", "submit-order", "--scripts", "nowhere"], "nowhere has no script `up`"),
        (&["durability", "--scripts", "nowhere"], "nowhere has no script `up`"),
        (&["peak", "--p99", "50"], "write a time with its unit"),
        (&["peak", "--p99", "100us"], "at least 1ms"),
        (&["peak", "--trial", "1us"], "at least 500ms"),
        (&["producer", "-n", "127.0.0.1:1", "-t", "bad topic!"], "RocketMQ takes names"),
        (&["producer", "-n", "127.0.0.1:1", "-t", "a\"b"], "RocketMQ takes names"),
        (&["consumer", "-n", "127.0.0.1:1", "-g", ""], "RocketMQ takes names"),
        (&["producer", "-n", "127.0.0.1:1", "--seconds", "0"], "0 is not in 1.."),
        (&["consumer", "-n", "127.0.0.1:1", "--seconds", "0"], "0 is not in 1.."),
        (&["peak", "--errors", "5"], "write a share below 100%"),
        (&["peak", "--cluster", "2", "--target-http", "127.0.0.1:1"], "cannot be used with"),
        (
            &["peak", "--trial", "1s", "--p99", "2s"],
            "a trial of 1s is over before an answer can be later than 2s",
        ),
        (&["peak", "--quick", "--p99", "1.5s"], "a trial of 1.5s is over before"),
        (&["peak", "--threshold", "fast"], "no >=, <=, > or <"),
        (&["peak", "--threshold", "stock:p99<=1s"], "only 'peak' is measured here"),
        (&["peak", "--threshold", "peak:recover<=1s"], "did you mean recovery?"),
        (&["peak", "--cluster", "2", "--threshold", "peak/cluster:recovery<=1s"], "no such case is measured"),
        (&["peak", "--thresholds", "limits.toml"], "limits.toml: 'a:b': no >=, <=, > or <"),
        (&["durability", "--extent", "some"], "invalid value 'some'"),
        (&["durability", "--only", "nothing of that name"], "nothing would be measured"),
        (&["durability", "--threshold", "peak:recovery<=1s"], "only 'durability' is measured here"),
        (
            &["durability", "--only", "embedded", "--threshold", "durability:back after, redis killed<=1s"],
            "did you mean back after, server killed?",
        ),
        (&["durability", "--thresholds", "none.toml"], "none.toml: can't be read"),
        (&["peers", "--load", "1s"], "write 3s to 60s"),
        (&["peers", "--scripts", "nowhere"], "nowhere has no script `up`"),
        (&["peers", "--threshold", "peak:recovery<=1s"], "only 'peers' is measured here"),
        (
            &["peers", "--threshold", "peers/Doorbuster, embeded, 100 users:p99<=1s"],
            "no such case is measured",
        ),
        (&["peers", "--threshold", "peers:lost, all killed<=0"], "did you mean lost, all processes killed?"),
        (&["report", "none.json"], "none.json: No such file"),
        (&["compare", "limits.toml", "limits.toml"], "limits.toml: no JSON"),
        (&["compare", "a", "b", "--threshold", "5"], "write a share below 100%"),
    ] {
        refused(folder.path(), arguments, reason);
    }
    assert!(!folder.path().join("bench-report").exists(), "nothing ran");
}

#[test]
fn a_run_that_measured_nothing_says_why() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (
            &["redis-recovery", "--target-redis", "127.0.0.1:1"][..],
            "redis-recovery: Left out: a server that is not",
        ),
        (&["static-page", "--only", "no such"], "no case was asked for by --only 'no such'"),
    ] {
        let arguments = [&["bench", "run"], arguments].concat();
        let (code, _, stderr) = run(folder.path(), &arguments);
        assert_eq!(code, 64, "{arguments:?}: {stderr}");
        assert!(stderr.contains(&format!("nothing was measured: {reason}")), "{stderr}");
        assert_eq!(stderr.contains("--only"), arguments.contains(&"--only"), "{stderr}");
    }
}

#[test]
fn a_threshold_on_what_no_case_has_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (threshold, reason) in [
        ("stock:nosuch<=5ms", "stock has no such metric; there are: throughput; mean"),
        ("stock:CPU per answer, serve<=5", "did you mean CPU per answer, server?"),
        ("flash-crowd:p99<=50ms", "flash-crowd has no such metric"),
    ] {
        refused(folder.path(), &["run", "--all", "--threshold", threshold], reason);
    }
    assert!(!folder.path().join("bench-report").exists(), "nothing ran");
}

/// With exit code 64, in a line or two.
#[track_caller]
fn refused(folder: &Path, arguments: &[&str], reason: &str) {
    let arguments: Vec<&str> = ["bench"].into_iter().chain(arguments.iter().copied()).collect();
    let (code, stdout, stderr) = run(folder, &arguments);
    assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
    assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
    assert!(stderr.lines().count() <= 2, "{arguments:?}: {stderr}");
}

#[test]
fn a_report_is_shown_and_written_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "report.json", &report(&STEADY));
    let (code, stdout, stderr) = run(folder.path(), &["bench", "report", "report.json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("42,634/s  40,250/s  0.94 x"), "{stdout}");
    let arguments =
        ["bench", "report", "report.json", "--html", "r.html", "--markdown", "r.md", "--csv", "r.csv"];
    assert_eq!(run(folder.path(), &arguments), (0, String::new(), String::new()));
    let written = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(written("r.html").starts_with("<!DOCTYPE html>") && written("r.html").contains("&lt;b&gt;"));
    assert!(written("r.md").contains("| 40,000/s to 40,500/s | 42,634/s | 0.94 x |"), "{}", written("r.md"));
    assert_eq!(written("r.csv").lines().count(), 7);
}

#[test]
fn no_form_of_a_report_overwrites_it_or_another_form() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "report.json", &report(&STEADY));
    std::os::unix::fs::symlink("report.json", folder.path().join("link")).unwrap();
    let before = std::fs::read(folder.path().join("report.json")).unwrap();
    for forms in [
        ["--html", "report.json", "--csv", "r.csv"],
        ["--csv", "r.csv", "--markdown", "./report.json"],
        ["--csv", "r.csv", "--markdown", "link"],
        ["--html", "new", "--markdown", "./new"],
    ] {
        let arguments = [&["report", "report.json"][..], &forms].concat();
        refused(folder.path(), &arguments, "need a file of their own");
    }
    assert_eq!(std::fs::read(folder.path().join("report.json")).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing was written");
}

#[test]
fn a_comparison_exits_by_what_it_finds() {
    let folder = tempfile::tempdir().unwrap();
    let compare = |before: &Value, after: &Value, more: &[&str]| {
        write(folder.path(), "a.json", before);
        write(folder.path(), "b.json", after);
        let arguments = ["bench", "compare", "a.json", "b.json"];
        run(folder.path(), &arguments.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let base = report(&STEADY);
    let (code, stdout, stderr) = compare(&base, &base, &[]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let (code, stdout, stderr) = compare(&base, &slower(0.2), &[]);
    assert!(
        code == 1 && stdout.contains("WORSE") && stderr.contains("1 figure(s) got worse"),
        "{stdout}{stderr}"
    );
    assert_eq!(compare(&base, &slower(0.2), &["--threshold", "25%"]).0, 0);
    assert_eq!(compare(&base, &slower(-0.2), &[]).0, 0, "quicker is no failure");
    // Without six repeats the medians are judged, and it says so.
    let (code, stdout, _) = compare(&report(&STEADY[..3]), &report(&[30_000.0]), &[]);
    assert!(code == 1 && stdout.contains("judged by their medians"), "{stdout}");
}

#[test]
fn a_broken_measurement_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let compare = |before: &Value, after: &Value| {
        write(folder.path(), "a.json", before);
        write(folder.path(), "b.json", after);
        run(folder.path(), &["bench", "compare", "a.json", "b.json"])
    };
    let base = report(&STEADY);
    let (code, stdout, stderr) = compare(&base, &report(&[]));
    let named = "threads/set, 50 threads: throughput";
    assert!(code == 2 && stdout.contains("NOT MEASURED") && stderr.contains(named), "{code}: {stderr}");
    // Another case is left to compare.
    let with = |case: &str| {
        let mut two = report(&STEADY);
        let mut more = two["scenarios"][0]["cases"][0].clone();
        more["name"] = json!(case);
        two["scenarios"][0]["cases"].as_array_mut().unwrap().push(more);
        two
    };
    let (code, _, stderr) = compare(&with("gone"), &base);
    assert!(code == 2 && stderr.contains("threads/gone: throughput"), "{code}: {stderr}");
    assert_eq!(compare(&base, &with("new")).0, 0);

    let mut stopped = report(&STEADY);
    stopped["complete"] = json!(false);
    let mut audit = report(&STEADY);
    audit["failures"] = json!([{"name": "orders", "error": "AUDIT FAILED: 3 lost"}]);
    for (unfit, why) in [(&stopped, "NOT COMPLETE"), (&audit, "AUDIT FAILED in orders")] {
        for (before, after, file) in [(unfit, &base, "a.json: "), (&base, unfit, "b.json: ")] {
            let (code, stdout, stderr) = compare(before, after);
            assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
            assert!(stderr.contains(&format!("{file}{why}")), "{stderr}");
        }
        write(folder.path(), "c.json", unfit);
        let (code, stdout, _) = run(folder.path(), &["bench", "report", "c.json"]);
        assert!(code == 0 && stdout.starts_with(&format!("INVALID: {why}")), "{stdout}");
    }
}

#[test]
fn different_environments_are_compared_only_if_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.json", &report(&STEADY));
    let changes: [(&str, Value); 3] = [
        ("/environment/kernel", json!("6.2")),
        ("/scenarios/0/engines/0/settings/save", json!("60 1")),
        ("/size", json!("quick")),
    ];
    for (place, value) in changes {
        let mut other = report(&STEADY);
        *other.pointer_mut(place).unwrap() = value;
        write(folder.path(), "b.json", &other);
        let (code, stdout, stderr) = run(folder.path(), &["bench", "compare", "a.json", "b.json"]);
        assert_eq!((code, stdout.as_str()), (64, ""), "{place}");
        assert!(stderr.contains("different environments"), "{stderr}");
        let arguments = ["bench", "compare", "a.json", "b.json", "--any-environment"];
        let (code, stdout, _) = run(folder.path(), &arguments);
        assert!(code == 0 && stdout.contains("environments differ"), "{stdout}");
    }
    let mut unrelated = report(&STEADY);
    unrelated["scenarios"][0]["name"] = json!("other");
    write(folder.path(), "b.json", &unrelated);
    let (code, _, stderr) = run(folder.path(), &["bench", "compare", "a.json", "b.json"]);
    assert!(code == 64 && stderr.contains("no figure in common"), "{stderr}");
}
