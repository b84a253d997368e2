//! `doorbuster audit` of a cluster: gate, queue and ledger against each other.
//!
//! Must not: change any of them.

use server::Secrets;
use server::cluster::{QueueSight, SkuSight, ThreeWay, audit};
use server::config::{Config, Environment};

use crate::audit_report::report;
use crate::failure::Failure;
use crate::output::{self, numbers, plain, words};
use crate::queues::retired_at;

/// SKUs that are shown one by one; of more, only those that are not at rest.
const ROWS_MAX: usize = 50;

pub(crate) fn run(config: &Config, environment: &Environment) -> Result<(), Failure> {
    let found = read(config, environment)?;
    output::print(&report(&found.ledger))?;
    output::print(&gate_report(&found))?;
    output::print(&settings_report(&found))?;
    output::print(&queue_report(&found))?;
    output::print(
        &found.clocks.iter().map(|clock| format!("clocks: {}\n", plain(clock))).collect::<String>(),
    )?;
    check(&found)?;
    check_compared(&found)
}

/// Reads all three.
pub(crate) fn read(config: &Config, environment: &Environment) -> Result<ThreeWay, Failure> {
    let secrets = Secrets::load_for_ledger(config, environment)?;
    audit(config, &secrets).map_err(Failure::unavailable)
}

pub(crate) fn check(found: &ThreeWay) -> Result<(), Failure> {
    if found.broken.is_empty() {
        return Ok(());
    }
    let lines: String = found.broken.iter().map(|line| format!("\n  {line}")).collect();
    Err(Failure::check(format!("gate, queue and ledger break {} invariant(s):{lines}", found.broken.len())))
}

/// What could not be compared is neither right nor wrong.
fn check_compared(found: &ThreeWay) -> Result<(), Failure> {
    let closed = found.skus.iter().filter(|sku| !sku.over).find_map(|sku| sku.closed);
    let Some(why) = closed else { return Ok(()) };
    let what_to_do = match &found.rebuild_waits {
        None => "run a server, it rebuilds them".to_owned(),
        Some(waits) => format!("no server can rebuild them, for {waits}"),
    };
    Err(Failure::unavailable(format!(
        "no invariant is broken, but the gates of {} of {} SKUs are closed ({why}), so they can't be audited now: \
         {what_to_do}",
        found.closed,
        found.skus.len()
    )))
}

/// What an accepted order survives, as the engines are set now.
fn settings_report(found: &ThreeWay) -> String {
    found.settings.iter().map(|server| format!("{}\n", plain(&server.to_string()))).collect()
}

/// What there is to say of queues that were removed, or are missing.
fn queue_report(found: &ThreeWay) -> String {
    let mut text: String =
        found.remarks.iter().map(|remark| format!("queues: {}\n", plain(remark))).collect();
    for QueueSight { queue, row, .. } in &found.retired {
        if let Some((row, at)) = row.as_ref().and_then(|row| Some((row, retired_at(row)?))) {
            text.push_str(&format!("queue {queue} was retired at offset {} on {at}\n", row.next_offset));
        }
    }
    text
}

fn gate_report(found: &ThreeWay) -> String {
    let all = found.skus.len() <= ROWS_MAX;
    let shown = |sku: &&SkuSight| all || sku.open > 0 || sku.closed.is_some();
    let rows: Vec<_> = found
        .skus
        .iter()
        .filter(shown)
        .map(|sku| {
            [
                sku.sku.0.to_string(),
                sku.available.to_string(),
                sku.open_units.to_string(),
                (sku.held + sku.sold).to_string(),
                sku.total.to_string(),
                match sku.closed {
                    Some(_) if sku.over => "over".to_owned(),
                    closed => closed.unwrap_or("open").to_owned(),
                },
            ]
        })
        .collect();
    let columns = [
        numbers("SKU"),
        numbers("gate"),
        numbers("on the way"),
        numbers("held + sold"),
        numbers("total"),
        words("state"),
    ];
    let rest = if found.at_rest() { "at rest" } else { "not at rest" };
    let compared = found.skus.iter().filter(|sku| sku.compared).count();
    format!(
        "{}{} of {} SKUs shown; {rest}: {} messages not consumed, {} rows for the gate, {} SKUs on their way; {}\n",
        output::table(columns, &rows),
        rows.len(),
        found.skus.len(),
        found.backlog,
        found.outbox,
        found.moving,
        match compared {
            0 => "gate and ledger were NOT COMPARED".to_owned(),
            _ => format!("gate and ledger were compared of {compared}"),
        }
    )
}
