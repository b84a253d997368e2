//! What limits the cluster: what is used up, and where orders wait.

use super::watch::Queues;
use crate::usage::Usage;

/// One or more sentences.
pub(crate) fn limit(usage: &Usage, queues: Option<&Queues>) -> String {
    crate::limit::limit(usage) + &queues.map(waiting).unwrap_or_default()
}

/// Where the orders stand that are accepted or about to be, if they stand anywhere.
fn waiting(queues: &Queues) -> String {
    let publishing = queues.publishing_mean.map_or(String::new(), |mean| {
        format!("{mean:.0} waited for the broker (most {}), ", queues.publishing_max.unwrap_or(0))
    });
    format!(
        " Orders on average: {publishing}{:.0} were in the broker before the ledger (most {}), {:.0} accepted and \
         not in the ledger (most {}, growing by {:.1}% of what is accepted).",
        queues.in_broker_mean,
        queues.in_broker_max,
        queues.backlog_mean,
        queues.backlog_max,
        queues.backlog_growth * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_named_after_what_is_used_up() {
        let usage = Usage {
            seconds: 5.0,
            processors: 2,
            steal: 0.0,
            machine_busy: 0.95,
            others: 0.0,
            disk_busy: None,
            processes: Vec::new(),
        };
        let queues = Queues { in_broker_mean: 900.0, in_broker_max: 1500, ..Queues::default() };
        let (alone, both) = (limit(&usage, None), limit(&usage, Some(&queues)));
        assert_eq!(alone, crate::limit::limit(&usage));
        assert!(both.starts_with(&alone), "{both}");
        assert!(both.contains("900 were in the broker before the ledger (most 1500)"), "{both}");
    }
}
