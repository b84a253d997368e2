//! What this server knows of its engines at the moment: whether orders should come here, and why not.
//!
//! Each fact is written by the stage that learns it, and read by the readiness probe and by the relay, which takes
//! no order that could not be published. Must not: ask an engine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::PartAway;
use super::settings::{Engine, EngineSettings};

/// What a remark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remarks {
    Queues,
    /// They do not say where the brokers are.
    NameServers,
    Clocks,
    /// The n-th endpoint of the shop.
    Webhook(usize),
}

/// What an operator should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remark {
    /// Of which things: what is said of them may change at every look.
    of: Vec<String>,
    text: String,
}

impl Remark {
    /// Adds what is to say of one thing.
    pub(crate) fn add(&mut self, of: &impl ToString, text: impl AsRef<str>) {
        if !self.text.is_empty() {
            self.text.push_str("; ");
        }
        self.text.push_str(text.as_ref());
        self.of.push(of.to_string());
    }
}

/// One thing that must hold for all to be served. Orders are taken without the ledger, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// This server's clock agrees with most others.
    Clock,
    /// The clocks of all Redis masters do.
    GateClocks,
    /// Redis answers, takes writes, and keeps what it is given.
    Gate,
    /// It never evicts a key: `maxmemory-policy` is `noeviction`.
    GateKeepsKeys,
    /// The broker lets us make and describe our topics.
    Topics,
    /// The broker takes messages.
    Broker,
    /// The broker's disk is not nearly full.
    BrokerDisk,
    /// No message was deleted before it was consumed.
    QueueWhole,
    /// The shared ledger answers.
    Ledger,
    /// It is known how many messages wait at the broker.
    Backlog,
    /// No gate waits for a queue that is not there.
    QueuesThere,
}

const NEEDS: [(Need, &str); 11] = [
    (Need::Clock, "the server's clock is not believed"),
    (Need::GateClocks, "the stock gate (Redis) takes no orders"),
    // Before the next one, whose cause it may be.
    (Need::QueuesThere, "gates stay closed, for their rebuild waits for a queue"),
    (Need::Gate, "the stock gate (Redis) can't be used"),
    (Need::GateKeepsKeys, "the stock gate may evict keys: set Redis' maxmemory-policy to noeviction"),
    // Before the next one, whose cause it may be.
    (Need::Topics, "the topics (RocketMQ) can't be made or described"),
    (Need::Broker, "the broker (RocketMQ) takes no messages"),
    (Need::BrokerDisk, "the broker's disk is nearly full (queue.broker_disk_percent_max)"),
    (Need::QueueWhole, "the broker has deleted messages that were not consumed: orders may be missing"),
    (Need::Ledger, "the ledger (MySQL) can't be used"),
    (Need::Backlog, "it is not known how many messages wait at the broker (cluster.backlog_max)"),
];

/// What a server of a cluster stands on besides its own clock.
const ENGINES: [(&str, &[Need]); 3] = [
    (Health::GATE, &[Need::GateClocks, Need::Gate, Need::GateKeepsKeys]),
    (
        Health::QUEUES,
        &[Need::Topics, Need::Broker, Need::BrokerDisk, Need::QueueWhole, Need::QueuesThere, Need::Backlog],
    ),
    (Health::LEDGER, &[Need::Ledger]),
];

/// Which engine a remark is about that does not keep orders from being taken.
const OF_ENGINES: [(&str, Remarks); 1] = [(Health::QUEUES, Remarks::NameServers)];

/// What a server that has just started does not know yet.
const NOT_YET: &str = "not reached yet since the start";

/// All needs, each met or not.
#[derive(Debug, Default)]
pub struct Health {
    /// Read for every order.
    unmet: [AtomicBool; NEEDS.len()],
    states: Mutex<[NeedState; NEEDS.len()]>,
    /// Of a gate that can be used.
    part_away: Mutex<Option<PartAway>>,
    /// As they were read last.
    settings: Mutex<BTreeMap<Engine, Vec<EngineSettings>>>,
    /// What an operator should know although orders are taken.
    remarks: Mutex<BTreeMap<Remarks, Remark>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum NeedState {
    #[default]
    Met,
    /// Not met, and not tried in full: no error.
    NotYet,
    /// Not met, and reported; with what the engine said, if that is known.
    Unmet(Option<String>),
}

impl Health {
    /// The engine that has the gate, and that carries the figures of servers to each other.
    pub(crate) const GATE: &str = "Redis";
    /// The engine that has the ledger.
    pub(crate) const LEDGER: &str = "MySQL";
    /// The engine that has the queues.
    pub(crate) const QUEUES: &str = "RocketMQ";

    /// Of a server of a cluster that has reached neither the gate nor the broker yet.
    pub(crate) fn starting() -> Health {
        let health = Health::default();
        for need in [Need::Gate, Need::Broker, Need::Backlog] {
            let (index, _) = place(need);
            health.lock()[index] = NeedState::NotYet;
            health.unmet[index].store(true, Ordering::Release);
        }
        health
    }

    /// Notes how a need stands; a change is logged once. Returns whether something was logged.
    pub(crate) fn note(&self, need: Need, met: bool) -> bool {
        if met {
            return self.note_fault(need, None);
        }
        let known = match &self.lock()[place(need).0] {
            NeedState::Unmet(fault) => fault.clone(),
            NeedState::Met | NeedState::NotYet => None,
        };
        self.set(need, NeedState::Unmet(known))
    }

    /// As [`Health::note`], with what keeps the need from being met. Another fault than before is logged, too.
    pub(crate) fn note_fault(&self, need: Need, fault: Option<String>) -> bool {
        self.set(need, fault.map_or(NeedState::Met, |fault| NeedState::Unmet(Some(fault))))
    }

    /// As [`Health::note_fault`], with what is seen of a fault that may be over at the next try: it changes from try to
    /// try, so it is logged only when the fault begins.
    pub(crate) fn note_passing(&self, need: Need, fault: String) -> bool {
        let (index, _) = place(need);
        match &mut self.lock()[index] {
            NeedState::Unmet(known) => {
                *known = Some(fault);
                return false;
            }
            NeedState::Met | NeedState::NotYet => {}
        }
        self.note_fault(need, Some(fault))
    }

    fn set(&self, need: Need, now: NeedState) -> bool {
        let (index, text) = place(need);
        if now == NeedState::Met && self.is_met(need) {
            return false;
        }
        let mut states = self.lock();
        let before = std::mem::replace(&mut states[index], now.clone());
        self.unmet[index].store(now != NeedState::Met, Ordering::Release);
        drop(states);
        match (before, &now) {
            (before, now) if before == *now => return false,
            (NeedState::NotYet, NeedState::Met) => return false,
            (NeedState::Unmet(_), NeedState::Met) => tracing::info!("over: {text}"),
            (NeedState::Unmet(_), now) => tracing::warn!("still not ready: {}", now.reason(text)),
            (_, now) => tracing::error!("not ready: {}", now.reason(text)),
        }
        true
    }

    pub(crate) fn is_met(&self, need: Need) -> bool {
        !self.unmet[place(need).0].load(Ordering::Acquire)
    }

    /// Why orders should not come here, if they should not.
    pub(crate) fn why_not_ready(&self) -> Option<String> {
        self.first_unmet(|_need| true).map(|(_, reason)| reason)
    }

    /// Why those that come are not taken, if they are not, and the engine that it is about; `None`: this server's clock. Without the ledger they are, and wait at the broker; but whoever
    /// can be sent elsewhere finds more there: here nothing is paid or cancelled.
    pub(crate) fn why_no_orders(&self) -> Option<(Option<&'static str>, String)> {
        let (need, reason) = self.first_unmet(|need| need != Need::Ledger)?;
        let engine = ENGINES.iter().find(|(_, needs)| needs.contains(&need));
        Some((engine.map(|(engine, _)| *engine), reason))
    }

    fn first_unmet(&self, counts: impl Fn(Need) -> bool) -> Option<(Need, String)> {
        let states = self.lock();
        let mut needs = NEEDS.iter().zip(states.iter());
        let unmet = needs.find(|((need, _), state)| **state != NeedState::Met && counts(*need));
        unmet.map(|((need, text), state)| (*need, state.reason(text)))
    }

    /// Each engine of a cluster by name, with the first of its needs that is not met, or else what is to be known of it.
    pub(crate) fn engines(&self) -> [(&'static str, Option<String>); ENGINES.len()] {
        let remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let part_away = self.part_away().map(|part| part.to_string());
        let remark = |engine| {
            if engine == Health::GATE {
                return part_away.clone();
            }
            let (_, about) = OF_ENGINES.iter().find(|(of, _)| *of == engine)?;
            remarks.get(about).map(|remark| remark.text.clone())
        };
        let states = self.lock();
        ENGINES.map(|(engine, needs)| {
            let unmet =
                needs.iter().map(|need| place(*need)).find(|(index, _)| states[*index] != NeedState::Met);
            (engine, unmet.map(|(index, text)| states[index].reason(text)).or_else(|| remark(engine)))
        })
    }

    /// Notes what can't be sold because of the gate while the rest is; it is logged when that changes. Orders should come here
    /// all the same: another server finds the same, and most of them are taken.
    pub(crate) fn note_part_away(&self, now: Option<PartAway>) {
        let mut known = self.part_away.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &now) {
            (None, None) => {}
            (Some(before), Some(now)) if now.is_as(before) => {}
            (_, Some(part)) => tracing::error!("{part}"),
            (Some(before), None) => tracing::info!("over: {before}"),
        }
        *known = now;
    }

    pub(crate) fn part_away(&self) -> Option<PartAway> {
        self.part_away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what an engine's settings are; a change is logged once, and what it may lose as a warning.
    pub(crate) fn note_settings(&self, engine: Engine, settings: Vec<EngineSettings>) {
        let mut known = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(engine, settings.clone()).unwrap_or_default();
        drop(known);
        for server in settings.iter().filter(|server| !before.contains(server)) {
            if server.settings.iter().any(|setting| setting.weak.is_some()) {
                tracing::warn!("what accepted orders survive is less than the safe settings give: {server}");
            } else {
                tracing::info!("what accepted orders survive depends on {server}");
            }
        }
    }

    /// What each engine said of its settings, a line for each of its servers.
    pub(crate) fn settings(&self) -> String {
        let known = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().flatten().map(|server| format!("{server}\n")).collect()
    }

    /// Notes what an operator should know although orders are taken. It is logged when it is of other things than before.
    pub(crate) fn remark(&self, about: Remarks, remark: Remark) {
        let mut known = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.remove(&about).unwrap_or_default();
        if before.of != remark.of {
            if remark.of.is_empty() {
                tracing::info!("over: {}", before.text);
            } else {
                tracing::warn!("{}", remark.text);
            }
        }
        if !remark.of.is_empty() {
            known.insert(about, remark);
        }
    }

    /// A line for each.
    pub(crate) fn remarks(&self) -> String {
        let known = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|remark| format!("{}\n", remark.text)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, [NeedState; NEEDS.len()]> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NeedState {
    fn reason(&self, text: &str) -> String {
        match self {
            NeedState::NotYet => format!("{text}: {NOT_YET}"),
            NeedState::Unmet(Some(fault)) => format!("{text}: {fault}"),
            NeedState::Unmet(None) | NeedState::Met => text.to_owned(),
        }
    }
}

fn place(need: Need) -> (usize, &'static str) {
    let index = NEEDS.iter().position(|(other, _)| *other == need).expect("every need is listed");
    (index, NEEDS[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_need_that_is_not_met_is_reported_until_it_is() {
        let health = Health::default();
        assert_eq!(health.why_not_ready(), None);
        health.note(Need::Ledger, false);
        health.note(Need::Broker, false);
        assert_eq!(health.why_not_ready().as_deref(), Some("the broker (RocketMQ) takes no messages"));
        health.note(Need::Gate, false);
        health.note(Need::QueuesThere, false);
        let cause = "gates stay closed, for their rebuild waits for a queue";
        assert_eq!(health.why_not_ready().as_deref(), Some(cause), "what it causes comes behind it");
        for need in [Need::Gate, Need::QueuesThere, Need::Broker] {
            health.note(need, true);
        }
        assert!(!health.is_met(Need::Ledger) && health.is_met(Need::Broker));
        assert_eq!(health.why_not_ready().as_deref(), Some("the ledger (MySQL) can't be used"));
        assert_eq!(health.why_no_orders(), None, "orders wait at the broker");
        health.note(Need::Backlog, false);
        assert!(
            health.why_no_orders().unwrap().1.contains("cluster.backlog_max"),
            "but not behind the ledger"
        );
        health.note(Need::Backlog, true);
        health.note(Need::Ledger, true);
        assert_eq!(health.why_not_ready(), None);
    }

    #[test]
    fn each_engine_stands_by_its_own_needs() {
        let health = Health::default();
        assert!(health.engines().iter().all(|(_, fault)| fault.is_none()));
        health.note(Need::Clock, false);
        assert!(health.engines().iter().all(|(_, fault)| fault.is_none()), "the clock is none");
        health.note_fault(Need::Broker, Some("refused".to_owned()));
        let [redis, rocketmq, mysql] = health.engines();
        assert_eq!((redis, mysql), (("Redis", None), ("MySQL", None)));
        assert_eq!(
            rocketmq,
            ("RocketMQ", Some("the broker (RocketMQ) takes no messages: refused".to_owned()))
        );
        let mut remark = Remark::default();
        remark.add(&"name servers", "they are away");
        health.remark(Remarks::NameServers, remark);
        assert_eq!(health.engines()[1].1, rocketmq.1, "what keeps orders away comes first");
        health.note(Need::Broker, true);
        assert_eq!(health.engines()[1], ("RocketMQ", Some("they are away".to_owned())));
        health.remark(Remarks::NameServers, Remark::default());
        assert_eq!(health.engines()[1].1, None);
        let listed: usize = ENGINES.iter().map(|(_, needs)| needs.len()).sum();
        assert_eq!(listed, NEEDS.len() - 1, "every need but the clock is an engine's");
    }

    #[test]
    fn what_an_engine_said_is_reported_and_logged_once_until_it_says_something_else() {
        let health = Health::default();
        let fault = |text: &str| Some(text.to_owned());
        assert!(health.note_fault(Need::Gate, fault("full")));
        assert!(!health.note_fault(Need::Gate, fault("full")));
        assert!(!health.note(Need::Gate, false), "what is known of it stays");
        let reason = health.why_not_ready();
        assert_eq!(reason.as_deref(), Some("the stock gate (Redis) can't be used: full"));
        assert!(health.note_fault(Need::Gate, fault("loading")));
        assert!(health.note_fault(Need::Gate, None) && !health.note_fault(Need::Gate, None));
        assert_eq!(health.why_not_ready(), None);
    }

    #[test]
    fn a_fault_that_changes_from_try_to_try_is_shown_and_logged_once() {
        let health = Health::default();
        assert!(health.note_passing(Need::Broker, "refused".into()));
        assert!(!health.note_passing(Need::Broker, "closed".into()));
        assert!(health.why_not_ready().unwrap().ends_with(": closed"));
        assert!(health.note_fault(Need::Broker, Some("no such key".into())), "this one stays");
        assert!(health.note(Need::Broker, true));
        assert_eq!(health.why_not_ready(), None);
    }

    #[test]
    fn remarks_are_shown_as_they_are_now() {
        let health = Health::default();
        let remark = |text: &str| {
            let mut remark = Remark::default();
            remark.add(&"redis", text);
            remark
        };
        for text in ["3.0 s ahead", "3.1 s ahead"] {
            health.remark(Remarks::Clocks, remark(text));
            assert_eq!(health.remarks(), format!("{text}\n"));
        }
        let mut two = remark("a");
        two.add(&"mariadb", "b");
        health.remark(Remarks::Queues, two);
        assert_eq!(health.remarks(), "a; b\n3.1 s ahead\n");
        health.remark(Remarks::Queues, Remark::default());
        health.remark(Remarks::Clocks, Remark::default());
        assert_eq!(health.remarks(), "");
    }

    #[test]
    fn a_part_of_the_gate_that_is_away_is_the_gates_fault_and_does_not_make_the_server_unready() {
        let health = Health::default();
        let part = PartAway { titles: vec!["Hat".into()], products: 1, why: "refused".into() };
        health.note_part_away(Some(part.clone()));
        assert_eq!((health.why_not_ready(), health.why_no_orders()), (None, None));
        assert_eq!(health.engines()[0].1, Some(part.to_string()));
        health.note(Need::GateClocks, false);
        assert_ne!(health.engines()[0].1, Some(part.to_string()), "what keeps orders away comes first");
        health.note(Need::GateClocks, true);
        health.note_part_away(None);
        assert_eq!((health.part_away(), &health.engines()[0].1), (None, &None));
    }

    #[test]
    fn a_server_that_starts_is_not_ready_and_logs_nothing_unless_it_fails() {
        let health = Health::starting();
        assert!(!health.is_met(Need::Gate) && !health.is_met(Need::Broker) && health.is_met(Need::Ledger));
        assert!(health.why_not_ready().unwrap().ends_with(NOT_YET));
        assert!(!health.note(Need::Gate, true) && !health.note(Need::Broker, true));
        assert!(health.why_not_ready().is_some() && !health.note(Need::Backlog, true));
        assert_eq!(health.why_not_ready(), None);
        assert!(Health::starting().note(Need::Broker, false));
    }
}
