//! The page as a whole: it stands alone, its tags are balanced, and nothing in a report can change that.

use super::*;
use crate::report::sample;

/// Elements that have no end.
const VOID: [&str; 1] = ["meta"];

/// The first mistake in the nesting of the tags, if there is one.
fn mistake(page: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>")?;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>')?;
        rest = after;
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        // A quote that is not closed before the end of the tag would swallow what follows.
        if tag.matches('"').count() % 2 == 1 {
            return Some(format!("quotes of <{tag}>"));
        }
        if tag.starts_with('/') {
            let last = open.pop();
            if last != Some(name) {
                return Some(format!("</{name}> ends {last:?}"));
            }
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    open.last().map(|name| format!("<{name}> has no end"))
}

#[test]
fn the_checker_finds_mistakes() {
    for (page, found) in [
        ("<!DOCTYPE html><p><b>x</b></p>", None),
        ("<!DOCTYPE html><p><b>x</p></b>", Some("</p> ends Some(\"b\")")),
        ("<!DOCTYPE html><p>", Some("<p> has no end")),
        ("<!DOCTYPE html><p class=\"x></p>", Some("quotes of <p class=\"x>")),
    ] {
        assert_eq!(mistake(page).as_deref(), found, "{page}");
    }
}

#[test]
fn the_page_is_well_formed_and_stands_alone() {
    let page = html(&sample::report());
    assert_eq!(mistake(&page), None);
    for from_elsewhere in ["http://", "https://", "<script", "<link", "<img", "<iframe", "@import", "url("] {
        assert!(!page.contains(from_elsewhere), "{from_elsewhere}");
    }
}

#[test]
fn a_short_revision_keeps_its_doubts() {
    for (revision, shown) in [
        ("0123456789abcdef", "0123456789ab"),
        ("0123456789abcdef-dirty", "0123456789ab-dirty"),
        ("0123456789abcdef-dirty-newer-than-the-program", "0123456789ab-dirty-newer-than-the-program"),
    ] {
        let page = html(&Report { git_revision: Some(revision.to_owned()), ..sample::report() });
        assert!(page.contains(&format!("sources {shown},")), "{shown}");
    }
}

#[test]
fn what_limits_reads_as_a_sentence() {
    let mut report = sample::report();
    report.scenarios[2].limiter.as_mut().unwrap().what =
        "Nothing was used up, so waiting limits it.".to_owned();
    let page = html(&report);
    assert!(!page.contains("Limited by Nothing"), "{page}");
    let limit = page.split("The limit</h4>").nth(1).unwrap_or_default();
    assert!(limit.split("<li>").nth(1).unwrap_or_default().starts_with("Nothing was used up"), "{page}");
}

#[test]
fn everything_of_a_report_is_on_the_page() {
    let page = html(&sample::report());
    for wanted in [
        "throughput against threads",
        "set, published",
        "response time by percentile",
        "published against measured, per second",
        "No chart over time: 3 of at least 20 seconds.",
        "6 x 3 s, 765,000 requests",
        "p99 against offered load, 1/s",
        "42,500/s",
        "<small>1 of 2 trials invalid</small>",
        "9 requests were due and never sent</td>",
        "p99 at most 50 ms, errors at most 0.1%. Confirmed by repeats.",
        "40,000/s to 45,000/s",
        "NOT found",
        "INVALID: set, 5000 threads",
        "Limited by processor",
        "100 units at first",
        "redis 7.0.15: appendfsync = everysec",
        "thresholds met: 1 of 2",
        "audits, all clean: 3",
        "orders_per_s = 2400 # &lt;b&gt;",
        "up to a second of reservations",
        "cgroup limits",
        "sources abcdef0",
        "prefers-color-scheme: dark",
        "@media print",
        "width=device-width",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn an_empty_report_is_a_page_too() {
    let mut report = sample::report();
    report.scenarios.clear();
    report.failures.clear();
    report.thresholds.clear();
    report.complete = false;
    let page = html(&report);
    assert_eq!(mistake(&page), None);
    assert!(page.contains("INVALID: NOT COMPLETE") && !page.contains("<figure"), "{page}");
}

#[test]
fn every_link_within_the_page_leads_somewhere() {
    let page = html(&sample::report());
    let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(links.len() >= 4, "{links:?}");
    for link in links {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
}

#[test]
fn nothing_gets_out_of_an_element_or_an_attribute() {
    assert_eq!(escaped("<a href=\"x\">&'\u{1}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\u{fffd}");
    let mut report = sample::report();
    report.scenarios[0].cases[1].metrics[0].name = "\" onload=\"alert(1)".to_owned();
    let page = html(&report);
    assert_eq!(mistake(&page), None);
    assert!(page.contains("aria-label=\"&quot; onload=&quot;alert(1) against threads\""), "{page}");
}

/// As many scenarios and cases as a run of all has: it was a page of 2.3 MB, and a column of 200 rows.
#[test]
fn a_run_of_all_is_a_small_page_with_ten_rows_at_first() {
    let mut report = sample::report();
    let of = report.scenarios[0].clone();
    let case = |n: u32| {
        let mut case = of.cases[1].clone();
        case.name = format!("set, {n} threads, values of some length");
        case.x.as_mut().unwrap().value = n.into();
        case.trials.truncate(1);
        case
    };
    report.scenarios = (0..20)
        .map(|n| ScenarioReport {
            name: format!("{}-{n}", ["redis", "rocketmq", "mysql", "stock", "order"][n % 5]),
            cases: (1..=12).map(case).collect(),
            ..of.clone()
        })
        .collect();
    report.thresholds.clear();
    let page = html(&report);
    assert!(page.len() < 550_000, "{} bytes", page.len());
    let (first, folded) = page.split_once("<details").unwrap();
    assert_eq!((first.matches("<figure>").count(), first.matches("<tr>").count() - 1), (1, ROWS_AT_FIRST));
    assert!(first.contains("10 more scenarios, and every case: below, by tier."), "{first}");
    let tiers: Vec<&str> = folded.split("<summary>").skip(1).filter_map(|of| of.split(':').next()).collect();
    assert!(["Gate", "Queue", "Ledger", "Pages", "Orders"].iter().all(|of| tiers.contains(of)), "{tiers:?}");
    // A single tier is what the page is about.
    report.scenarios.truncate(1);
    assert!(html(&report).contains("<details open id=\"tier-gate\">"));
}

#[test]
fn a_lost_order_stands_out() {
    let mut report = sample::report();
    assert!(!html(&report).contains("num bad\">"));
    report.scenarios[3].cases[0].metrics[3].values = vec![17.0];
    assert!(html(&report).contains("<td class=\"num bad\">17 orders</td>"));
}

#[test]
fn without_a_reference_a_shape_is_expected_and_not_published() {
    let mut report = sample::report();
    assert!(markdown(&report).contains("| shape | published |"));
    report.scenarios.iter_mut().for_each(|of| of.reference = None);
    assert!(markdown(&report).contains("| shape | expected |"));
}

#[test]
fn everything_is_in_the_markdown_and_text_stays_text() {
    let text = markdown(&sample::report());
    for wanted in [
        "| set, 50 threads | throughput | 42,500/s | 40,000/s to 45,000/s | 42,634/s | 1.00 x | 6 x 3 s, 765,000 requests |",
        "| set, 5000 threads | throughput | not measured (6 of 6 trials invalid) |  |  |  |",
        "| 400,000 keys | used memory | 28.6 MiB | 28.9 MiB ((?) &lt;script>",
        "| levels off at 50 threads | 42,634/s |",
        "NOT found",
        "Limited by processor:",
        "INVALID: set, 5000 threads, repeat 0, 1, 2, 3, 4, 5: the generator was late: p99 of the send lag 9 ms, at most 5 ms",
        "100 units at first = 40 remaining + 60 held + 0 sold",
        "redis 7.0.15: appendfsync = everysec",
        "| case | verdict | p99 | throughput | sample |",
        "| 2,450/s, bisect (1 of 1 trials invalid) | invalid | not measured | not measured | 3 s, 7,350 requests |",
        "| 2,400/s, confirm (1 of 2 trials invalid) | pass | 2 ms | 2,400/s | 3 s, 7,200 requests |",
        "INVALID: 2,400/s, confirm, repeat 1: 9 requests were due and never sent",
        "| closed loop |  | 2 ms | 3,000/s |",
        "| embedded | 2,400/s | 2,500/s | 3,000/s | 1.50 s |",
        "INVALID: 2,450/s, bisect, repeat 0: 7 requests were due and never sent",
        "```toml\n[admission]\norders_per_s = 2400 # <b>\n```",
        "| case | of | throughput | p99 | acknowledged | acknowledged lost | unknown | back after | sample |",
        "| cluster, redis appendfsync = everysec (1 of 1 trials invalid) |  | 1,100/s | 21 ms |",
        "|  | redis killed |  |  | 5,000 orders | 0 orders | 4 orders | 700 ms |  |",
        "| nothing:x>=1 | not measured | MISSED |",
        "- broken: &lt;script",
        "INVALID: cluster, redis appendfsync = everysec, repeat 0: 9 answers were followed by bytes",
        "- as it said itself: redis 7.0.15: appendfsync = everysec",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    assert!(!text.contains("<script"), "{text}");
    // No cell can break a row: every row of a table has as many bars as its head.
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    for (head, row) in text
        .lines()
        .zip(text.lines().skip(1))
        .filter(|(head, row)| head.starts_with('|') && row.starts_with('|'))
    {
        assert_eq!(bars(head), bars(row), "{head}\n{row}");
    }
}

#[test]
fn no_interval_is_shown_for_few_repeats() {
    let mut report = sample::report();
    for metric in report.scenarios.iter_mut().flat_map(|of| &mut of.cases).flat_map(|case| &mut case.metrics)
    {
        metric.values.truncate(5);
    }
    report.repeats = 5;
    let text = markdown(&report);
    assert!(!text.contains("interval |") && text.contains("5; intervals need 6, so none is shown"), "{text}");
}
