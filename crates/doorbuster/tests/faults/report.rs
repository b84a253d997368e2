//! What each scenario came to, and the table of all of them.
//!
//! The table is written by a full run of all scenarios only: its figures are those of one run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::SCENARIOS;
use crate::testbed::is_full;
use crate::verdict::Outcome;

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) fault: &'static str,
    pub(crate) lasted: Duration,
    /// From the fault's end to the first order that was asked for after it, accepted.
    pub(crate) back: Duration,
    /// The longest time without an accepted order.
    pub(crate) silence: Duration,
    /// Orders that the gate may have forgotten.
    pub(crate) forgettable: u64,
    pub(crate) outcome: Outcome,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { fault, lasted, back, silence, forgettable, outcome } = self;
        let Outcome { accepted, refused, doubtful, rejected, late, answers, .. } = outcome;
        let saw: Vec<String> = answers.iter().map(|(label, count)| format!("{count} {label}")).collect();
        let rejected = if *forgettable > 0 {
            format!("{rejected} (at most {forgettable})")
        } else {
            rejected.to_string()
        };
        write!(
            f,
            "| {fault} | {:.1} s | {accepted} | {refused} | {doubtful} | {rejected} | {late} | {:.1} s | {:.2} s | {} |",
            lasted.as_secs_f64(),
            silence.as_secs_f64(),
            back.as_secs_f64(),
            saw.join(", ")
        )
    }
}

const HEAD: &str = "\
# Faults

What the cluster profile did when each part of it failed under load: two servers, Redis with `appendfsync everysec`,
RocketMQ with synchronous flush, MariaDB with both logs synced at each commit, the default bounds. Written by
`make faults`; every row is one run that ended in a clean three-way audit, with every accepted order found, and with
everything that was left bought up to the last unit, and not one more. The program is a debug build, and all of it shares
one machine with the engines and 32 buyers: the times show how long a fault is felt, and the counts are no benchmark.

- accepted, refused: attempts to buy, by what became of them in the end; a refused one has no order.
- unknown: attempts whose buyers at some time did not know what had become of them (503 `outcome_unknown`, or no
  answer). All of them learnt it by asking again with the same key. They include those from before the fault: until a
  new sale's gate is built, for about a second, buyers are answered so.
- then rejected: accepted, and then without units in the ledger. In brackets: how many the gate may have forgotten.
- late: refused on a second request while the first, held up by the fault, was carried out after that.
- silence: the longest time in which no order of any buyer was accepted.
- back: from the end of the fault to the first accepted order that was asked for after it.

| fault | lasted | accepted | refused | unknown | then rejected | late | silence | back | what the buyers saw (answers) |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

/// Keeps a row; with the last one of a full run, writes the table.
pub(crate) fn add(row: &Row) {
    static ROWS: Mutex<BTreeMap<usize, String>> = Mutex::new(BTreeMap::new());
    let place = SCENARIOS.iter().position(|scenario| scenario.name == row.fault).expect("it is listed");
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    rows.insert(place, row.to_string());
    if is_full() && rows.len() == SCENARIOS.len() {
        let table: String = rows.values().map(|row| format!("{row}\n")).collect();
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md");
        std::fs::write(path, format!("{HEAD}{table}")).unwrap();
    }
}
