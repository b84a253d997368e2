//! What an audit of a ledger prints: a line per product, and the verdict.
//!
//! Must not: audit anything; it is given what the audit found.

use server::ledger::Audit;

use crate::output::{self, numbers, plain, words};

pub(crate) fn report(audit: &Audit) -> String {
    let rows: Vec<_> = audit
        .skus
        .iter()
        .map(|sku| {
            [
                sku.sale.0.to_string(),
                sku.product.0.to_string(),
                plain(&sku.title),
                sku.total.to_string(),
                sku.available.to_string(),
                sku.turns.to_string(),
                sku.held.to_string(),
                sku.sold.to_string(),
                sku.orders.to_string(),
            ]
        })
        .collect();
    let columns = [
        numbers("sale"),
        numbers("product"),
        words("title"),
        numbers("total"),
        numbers("available"),
        numbers("turns"),
        numbers("held"),
        numbers("sold"),
        numbers("orders"),
    ];
    // Of lines alone.
    let left_out = audit.skus.iter().all(|sku| sku.turns == 0).then_some(5);
    let verdict = match (audit.broken.is_empty(), audit.complete) {
        (true, _) => "ok: every invariant holds",
        (false, true) => "not ok",
        (false, false) => "not ok, and the table is no result: it stops before the first entry that is wrong",
    };
    format!(
        "{}\n{verdict}; {} entries, {} orders, {} refunds due\n",
        output::table_without(left_out, columns, &rows),
        audit.entries,
        audit.orders,
        audit.refunds_due
    )
}
