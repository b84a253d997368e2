//! What is wrong with the queues, in words for `/readyz`, the log and the audit: which queues, and what to do.

use super::{QueueCondition, QueueSight, Queues};
use crate::queue::Queue;

/// Queues that are named one by one; of more, how many there are.
const NAMED_MAX: usize = 8;

/// What an operator has to know of the queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cluster) struct Faults {
    /// Gates can't be rebuilt while one of these holds.
    blocking: Vec<String>,
    /// Harmless, and to be cleared away.
    stale: Vec<String>,
}

impl Faults {
    pub(in crate::cluster) fn of(queues: &Queues) -> Faults {
        let mut faults = Faults::default();
        let having = |is: &dyn Fn(&QueueSight) -> bool| -> Vec<&QueueSight> {
            queues.sights.iter().filter(|sight| is(sight)).collect()
        };
        for (broker, why) in &queues.silent {
            faults.blocking.push(format!(
                "the broker {broker}, whose queues may hold orders, does not answer ({why}): start it"
            ));
        }
        let unread =
            having(&|sight| sight.is_removed() && sight.waiting().is_some_and(|waiting| waiting > 0));
        if !unread.is_empty() {
            let messages: u64 = unread.iter().filter_map(|sight| sight.waiting()).sum();
            faults.blocking.push(format!(
                "{} no longer in the topic, with {messages} message(s) that were not consumed: give the topic as many \
                 queues as before until they are, or retire the queues with `doorbuster queues retire --with-unread {}`",
                are(&unread),
                arguments(&unread)
            ));
        }
        let lost = having(&|sight| {
            sight.is_removed() && !sight.is_stale() && sight.waiting().is_none_or(|waiting| waiting == 0)
        });
        if !lost.is_empty() {
            faults.blocking.push(format!(
                "{} no longer in the topic, and the broker has lost what was there: retire with `doorbuster queues \
                 retire {}`",
                are(&lost),
                arguments(&lost)
            ));
        }
        let write_only = having(&|sight| sight.condition == QueueCondition::WriteOnly);
        if write_only.iter().any(|sight| !sight.lies_at_its_end()) {
            faults.blocking.push(format!(
                "{} written to and can't be read: give the topic as many read queues as write queues",
                are(&write_only)
            ));
        }
        let stale = having(&QueueSight::is_stale);
        if !stale.is_empty() {
            faults.stale.push(format!(
                "{} no longer in the topic, and everything that was there is in the ledger: `doorbuster queues retire {}` \
                 clears it away",
                are(&stale),
                arguments(&stale)
            ));
        }
        faults
    }

    /// Of queues that have lost their newest messages, and are about to be read again.
    pub(super) fn ahead(sights: &[&QueueSight]) -> Option<Faults> {
        let text = || format!("{} about to be read again, for the broker has lost messages", are(sights));
        (!sights.is_empty()).then(|| Faults { blocking: vec![text()], stale: Vec::new() })
    }

    /// Whether gates can't be rebuilt now.
    pub(in crate::cluster) fn blocks(&self) -> bool {
        !self.blocking.is_empty()
    }

    /// Why gates can't be rebuilt now.
    pub(in crate::cluster) fn blocking(&self) -> Option<String> {
        self.blocks().then(|| self.blocking.join("; "))
    }

    /// Everything.
    pub(in crate::cluster) fn all(&self) -> Vec<String> {
        self.blocking.iter().chain(&self.stale).cloned().collect()
    }
}

fn names<'a>(queues: impl ExactSizeIterator<Item = &'a Queue>, separator: &str, more: &str) -> String {
    let count = queues.len();
    let mut text: Vec<String> = queues.take(NAMED_MAX).map(ToString::to_string).collect();
    if count > NAMED_MAX {
        text.push(more.replace('#', &(count - NAMED_MAX).to_string()));
    }
    text.join(separator)
}

/// "queue a/1 is", "queues a/1, a/2 are".
fn are(sights: &[&QueueSight]) -> String {
    let named = names(sights.iter().map(|sight| &sight.queue), ", ", "and # more");
    if sights.len() == 1 { format!("queue {named} is") } else { format!("queues {named} are") }
}

fn arguments(sights: &[&QueueSight]) -> String {
    names(sights.iter().map(|sight| &sight.queue), " ", "...")
}
