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
    let page = render(&sample::report());
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
        let page = render(&Report { git_revision: Some(revision.to_owned()), ..sample::report() });
        assert!(page.contains(&format!("sources {shown},")), "{shown}");
    }
}

#[test]
fn what_limits_reads_as_a_sentence() {
    let mut report = sample::report();
    let peak = report.peak.as_mut().unwrap();
    peak.limiter.as_mut().unwrap().what = "Nothing was used up, so waiting limits it.".to_owned();
    let page = render(&report);
    assert!(!page.contains("Limited by Nothing"), "{page}");
    let limit = page.split("The limit</h3>").nth(1).unwrap_or_default();
    assert!(limit.split("<li>").nth(1).unwrap_or_default().starts_with("Nothing was used up"), "{page}");
}

#[test]
fn everything_of_a_report_is_on_the_page() {
    let page = render(&sample::report());
    for wanted in [
        "throughput against threads",
        "set, published",
        "response time by percentile",
        "answers in each second",
        "p99 against the offered load",
        "42,500/s",
        "<td class=\"num\">2 (1 invalid)</td>",
        "9 requests were due and never sent</td>",
        "Each load: every trial",
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
    report.peak = None;
    report.durability.clear();
    report.thresholds.clear();
    report.complete = false;
    let page = render(&report);
    assert_eq!(mistake(&page), None);
    assert!(page.contains("NOT COMPLETE") && !page.contains("<svg"), "{page}");
}

#[test]
fn every_link_within_the_page_leads_somewhere() {
    let page = render(&sample::report());
    let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(links.len() >= 4, "{links:?}");
    for link in links {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
}

#[test]
fn a_lost_order_stands_out() {
    let mut report = sample::report();
    assert!(!render(&report).contains("num bad\">"));
    report.durability[0].kills[0].acknowledged_lost = 17;
    assert!(render(&report).contains("<td class=\"num bad\">17</td>"));
}
