//! One alarm on its way: quiet, seen, gone.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Row;
use crate::alarms::prometheus::{Patience, Prometheus};
use crate::exchange::Connection;
use crate::serving::{OPERATOR, Serving};

/// Longer than a busy machine takes; only what fails waits for it.
const SEEN_WITHIN: Duration = Duration::from_secs(300);
/// Longer than the longest window of the rules that is waited for, which is 5 min.
const GONE_WITHIN: Duration = Duration::from_secs(900);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A server that is out of order may not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Causes act one after the other: one that freezes an engine, or the processors, is not to be seen by another alarm.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Debug, PartialEq)]
enum Gone {
    After(Duration),
    /// With the window of its rule, which is too long to be waited for.
    InAnHour,
}

pub(crate) struct Alarm {
    row: &'static Row,
    directory: TempDir,
    prometheus: Option<Prometheus>,
    /// Whose verdict is asked for.
    server: Option<SocketAddr>,
    alone: Option<MutexGuard<'static, ()>>,
    caused: Instant,
    seen: Option<Duration>,
    gone: Option<Gone>,
}

impl Alarm {
    /// Waits until no other is caused.
    pub(super) fn new(row: &'static Row) -> Alarm {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Alarm {
            row,
            directory: tempfile::tempdir().unwrap(),
            prometheus: None,
            server: None,
            alone: Some(alone),
            caused: Instant::now(),
            seen: None,
            gone: None,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn prometheus(&self) -> &Prometheus {
        self.prometheus.as_ref().expect("it was quiet first")
    }

    /// Has Prometheus look at these servers, and waits until it sees no alarm and the first has another verdict. What is done
    /// then is the cause.
    pub(crate) fn is_quiet(&mut self, servers: &[&Serving]) {
        let prometheus = Prometheus::start(self.directory.path(), servers, Patience::Seconds);
        prometheus.wait_until_scraped();
        prometheus.rules();
        (self.prometheus, self.server) = (Some(prometheus), Some(servers[0].address));
        self.wait_until("it is quiet", GONE_WITHIN, Alarm::shows_nothing);
        self.caused = Instant::now();
    }

    /// The cause is there, and does this before each look, until each alert was seen to fire and the verdict to be given.
    pub(crate) fn is_seen(&mut self, mut goes_on: impl FnMut()) {
        let (mut alerts, mut verdict) = (self.row.alerts.to_vec(), self.row.verdict);
        self.wait_until("it is seen", SEEN_WITHIN, |alarm| {
            goes_on();
            alerts.retain(|alert| !alarm.prometheus().fires(alert));
            verdict = verdict.filter(|verdict| alarm.verdict().as_deref() != Some(*verdict));
            alerts.is_empty() && verdict.is_none()
        });
        self.seen = Some(self.caused.elapsed());
    }

    /// As above, of a server that is asked in another way.
    pub(crate) fn verdict_is_seen(&mut self, verdict: &str) {
        assert_eq!((Some(verdict), self.row.alerts), (self.row.verdict, &[][..]));
        self.seen = Some(self.caused.elapsed());
    }

    /// What follows disturbs nobody.
    pub(crate) fn lets_others_go_on(&mut self) {
        self.alone = None;
    }

    /// The cause is not there any more; waits until no alert fires and another verdict is given.
    pub(crate) fn is_gone(&mut self) {
        let ended = Instant::now();
        self.wait_until("it is gone", GONE_WITHIN, Alarm::shows_nothing);
        self.gone = Some(Gone::After(ended.elapsed()));
    }

    pub(crate) fn is_gone_in_an_hour(&mut self) {
        self.gone = Some(Gone::InAnHour);
    }

    fn wait_until(&self, what: &str, within: Duration, mut is_so: impl FnMut(&Alarm) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            let verdict = self.verdict();
            assert!(began.elapsed() < within, "in vain: {what}: {:?}, now {verdict:?}", self.row);
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn shows_nothing(&self) -> bool {
        let fires = self.row.alerts.iter().any(|alert| self.prometheus().fires(alert));
        let verdict = self.verdict();
        !fires && verdict.is_some() && verdict.as_deref() != self.row.verdict
    }

    /// The code, if the server answers.
    fn verdict(&self) -> Option<String> {
        let bearer = format!("Bearer {OPERATOR}");
        let headers = [("Authorization", bearer.as_str())];
        let mut connection = Connection::open_patient(self.server?, ANSWER_TIMEOUT).ok()?;
        let answer = connection.exchange("GET", "/api/v1/figures", &headers, "").ok()?;
        (answer.status == 200).then(|| answer.json()["verdict"]["code"].as_str().unwrap().to_owned())
    }

    /// Of the table.
    pub(super) fn line(&self) -> String {
        let Row { cause, alerts, verdict, .. } = self.row;
        let verdict = verdict.map_or("-".to_owned(), |verdict| format!("`{verdict}`"));
        let seen = self.seen.expect("it was seen").as_secs_f64();
        let gone = match self.gone.as_ref().expect("it is gone") {
            Gone::After(after) => format!("{:.0} s", after.as_secs_f64()),
            Gone::InAnHour => "an hour, not waited for".to_owned(),
        };
        format!("| {cause} | {} | {verdict} | {seen:.0} s | {gone} |", named(alerts))
    }
}

pub(super) fn named(alerts: &[&str]) -> String {
    match alerts {
        [] => "-".to_owned(),
        _ => alerts.iter().map(|alert| format!("`{alert}`")).collect::<Vec<_>>().join(", "),
    }
}
