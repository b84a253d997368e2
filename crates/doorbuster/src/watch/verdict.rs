//! How it goes, and what is to be done: what stands first.
//!
//! Must not: judge; but of figures that are old it says that nobody knows.

use std::time::Duration;

use super::figures::{Figures, Verdict};
use super::screen::{Look, machines};
use super::terminal::Line;
use crate::output::plain;
use crate::time::{format_duration, format_utc};

/// The server takes its figures each second.
const OLD: Duration = Duration::from_secs(5);
const EACH: Duration = Duration::from_secs(1);

/// Of figures that are looked at so often.
pub(super) fn is_old(age: Duration, every: Duration) -> bool {
    age > OLD + every.saturating_sub(EACH)
}

/// For one look that stays on the screen: the verdict with what is to be done; and the machines of a cluster, if it is one.
pub(super) fn glance(figures: &Figures, base: &str) -> (String, String) {
    let age = Duration::from_millis(figures.age_ms);
    let verdict = &figures.verdict;
    let lines = if is_old(age, EACH) {
        let old = format_duration(age);
        vec![
            format!("UNKNOWN  the figures are {old} old: the server answers, and takes none"),
            before(verdict),
        ]
    } else {
        let first = format!("{}  {}", verdict.level.to_uppercase(), plain(&verdict.says));
        [vec![first], to_do(verdict, base)].concat()
    };
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    (lines, machines(figures, age, usize::MAX))
}

pub(super) fn lines(look: &Look<'_>) -> Vec<Line> {
    let Look { base, figures, age, old, gone, .. } = look;
    let Figures { at_ms, verdict, health, .. } = figures;
    let mut lines = Vec::new();
    let mut say = |line: &str| lines.push(Line::Words(line.to_owned()));
    let age_s = age.as_secs();
    let level = if *old { "UNKNOWN".to_owned() } else { verdict.level.to_uppercase() };
    say(&format!("{level}  {base}  {}  {age_s} s ago", format_utc(*at_ms)));
    if let Some((why, since)) = gone {
        say(&format!("NO ANSWER for {}: {}; waiting for it", format_duration(*since), plain(why)));
    } else if *old {
        say(&format!("THE FIGURES ARE OLD: the server answers, and takes none for {age_s} s"));
    }
    if *old {
        say(&before(verdict));
    } else {
        say(&plain(&verdict.says));
        for line in to_do(verdict, base) {
            say(&line);
        }
    }
    // While other servers take orders, a reason begins with the name of the one that takes none.
    let state = if health.ready { "out" } else { "not ready" };
    for reason in &health.reasons {
        say(&format!("{state}: {}", plain(reason)));
    }
    lines
}

/// What was known last.
fn before(verdict: &Verdict) -> String {
    format!("until then {}: {}", verdict.level.to_uppercase(), plain(&verdict.says))
}

/// In words, and as a command.
fn to_do(verdict: &Verdict, base: &str) -> Vec<String> {
    let command = verdict.command(base).map(|command| format!("   {command}"));
    [format!("-> {}", plain(&verdict.action))].into_iter().chain(command).collect()
}
