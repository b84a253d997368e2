//! Everything that is not placing: what operators, buyers and payment providers ask for, in one transaction.
//!
//! The answers are the book's: sales are judged by the engine's book of sales, units and payments by its rules.

use engine::handover::{Claim, Grant};
use engine::{Accepted, Adjust, BuyerId, Closing, Command, OrderId, Refusal, SaleId, SkuId, UnixMs, rules};

use super::outbox::correction_id;
use super::reads::Reads;
use super::session::Failure;
use super::transaction::Transaction;
use super::{Executed, LedgerError, OPERATIONS_MAX, Operation, SharedLedger};

/// Why a sale can't be, beside what the engine says.
const NO_OPEN_HOLDS: &str = "the number of open holds per buyer can't be bounded where several servers sell: leave \
                             open_holds_per_buyer_max (sale create --open-holds) out";

impl SharedLedger {
    /// Carries operations out one after the other, in one transaction. Returns what each came to.
    ///
    /// # Errors
    /// See [`LedgerError`].
    ///
    /// # Panics
    /// If there are more than [`OPERATIONS_MAX`].
    pub fn execute(&mut self, now: UnixMs, operations: &[Operation]) -> Result<Vec<Executed>, LedgerError> {
        assert!(operations.len() <= OPERATIONS_MAX, "a batch is bounded by whoever makes it");
        self.transact(now, |transaction| {
            read(transaction, operations)?;
            Ok(operations.iter().map(|operation| carry_out(transaction, operation)).collect())
        })
    }

    /// The adjustments that bring each item of a sale to this many available units, as the ledger shows them now;
    /// all or none can be. Corrections among them need grants. Asked for twice at the same state of the ledger,
    /// they have the same keys.
    ///
    /// # Errors
    /// See [`LedgerError`]. The answer may be a refusal.
    pub fn plan_balance(
        &mut self,
        sale: SaleId,
        balance: u64,
    ) -> Result<Result<Vec<Operation>, Refusal>, LedgerError> {
        self.transact(UnixMs(0), |transaction| {
            transaction.read(Reads::default())?;
            let Some(skus) = transaction.catalog.skus(sale) else { return Ok(Err(Refusal::UnknownSale)) };
            transaction.read(Reads { skus: skus.iter().copied().collect(), ..Reads::default() })?;
            let next = transaction.next_seq();
            let mut plan = Vec::new();
            for sku in skus {
                let stock = transaction.sku(sku).stock;
                let total = balance.saturating_add(stock.held() + stock.sold());
                if total > engine::limits::TOTAL_MAX {
                    return Ok(Err(Refusal::InvalidChange(
                        "an item may have at most 1,000,000,000,000 units",
                    )));
                }
                let (how, units) = if balance >= stock.available() {
                    (Adjust::Restock, balance - stock.available())
                } else {
                    (Adjust::Correct, stock.available() - balance)
                };
                if units > 0 {
                    // With a space in it, which an operator's key can't have.
                    let key = format!("balance {}", next.0).into();
                    plan.push(Operation::Adjust { sku, how, units, key, grant: Grant::NotAsked });
                }
            }
            Ok(Ok(plan))
        })
    }
}

/// Reads in two steps: the second is for what only the first can tell, whose units a late payment takes.
fn read(transaction: &mut Transaction<'_>, operations: &[Operation]) -> Result<(), Failure> {
    let mut reads = Reads::default();
    for operation in operations {
        match operation {
            Operation::Adjust { sku, key, .. } => {
                reads.skus.insert(*sku);
                reads.adjustments.insert((*sku, key.clone()));
            }
            Operation::Cancel { order, .. } => {
                reads.skus.insert(order.sku);
                reads.orders.insert(*order);
            }
            Operation::Pay { pay, .. } => {
                reads.skus.insert(pay.order.sku);
                reads.orders.insert(pay.order);
                reads.payments.insert(pay.id.clone());
            }
            Operation::Settle { payment } => {
                reads.payments.insert(payment.clone());
            }
            Operation::CreateSale(_)
            | Operation::ChangeSale { .. }
            | Operation::Pause(_)
            | Operation::Resume(_)
            | Operation::End(_) => {}
        }
    }
    transaction.read(reads)?;
    let buyers = transaction.known.orders.iter().map(|(id, row)| (id.sku, row.buyer)).collect();
    transaction.read(Reads { buyers, ..Reads::default() })
}

fn carry_out(transaction: &mut Transaction<'_>, operation: &Operation) -> Executed {
    match operation {
        Operation::CreateSale(spec) => {
            let new = transaction.catalog.skus(spec.id).is_none();
            if new && spec.open_holds_per_buyer_max.is_some() {
                return Executed::Refused(Refusal::InvalidSale(NO_OPEN_HOLDS));
            }
            of_sale(transaction, Command::CreateSale(spec.clone()))
        }
        Operation::ChangeSale { sale, change } => {
            of_sale(transaction, Command::ChangeSale { sale: *sale, change: change.clone() })
        }
        Operation::Pause(sale) => of_sale(transaction, Command::Pause(*sale)),
        Operation::Resume(sale) => of_sale(transaction, Command::Resume(*sale)),
        Operation::End(sale) => of_sale(transaction, Command::End(*sale)),
        Operation::Adjust { sku, how, units, key, grant } => {
            adjust(transaction, *sku, (*how, *units), key, *grant)
        }
        Operation::Cancel { order, buyer } => cancel(transaction, *order, *buyer),
        Operation::Pay { pay, grant } => super::payments::pay(transaction, pay, *grant),
        Operation::Settle { payment } => super::payments::settle(transaction, payment),
    }
}

fn of_sale(transaction: &mut Transaction<'_>, command: Command) -> Executed {
    let (answer, event) = transaction.catalog.execute(transaction.at(), command);
    if let Some(event) = event {
        transaction.record_sale(event);
    }
    answer.map_or_else(Executed::Refused, Executed::Accepted)
}

fn adjust(
    transaction: &mut Transaction<'_>,
    sku: SkuId,
    asked: (Adjust, u64),
    key: &str,
    grant: Grant,
) -> Executed {
    if transaction.catalog.terms(sku).is_none() {
        return Executed::Refused(Refusal::UnknownSku);
    }
    let stock = Executed::Accepted(Accepted::Stock(sku));
    if let Some(done) = transaction.known.adjustments.get(&(sku, key.into())) {
        return rules::adjust_again(*done, asked).map_or_else(Executed::Refused, |()| stock);
    }
    let (how, units) = asked;
    if let Err(refusal) = rules::adjust(transaction.sku(sku).stock, how, units, key) {
        return Executed::Refused(refusal);
    }
    if how == Adjust::Correct && !super::payments::is_asked(transaction, sku, grant) {
        return Executed::NeedsClaim(Claim::Correction { id: correction_id(sku, key), units });
    }
    match (how, grant) {
        (Adjust::Restock, _) | (Adjust::Correct, Grant::Taken { .. }) => {
            transaction.record_adjusted(sku, how, units, key.into());
            stock
        }
        (Adjust::Correct, Grant::NotAsked | Grant::SoldOut | Grant::OverLimit) => {
            Executed::Refused(Refusal::CorrectionTooLarge)
        }
    }
}

/// Cancels a buyer's own unpaid order. Cancelling it again is answered as the first time.
fn cancel(transaction: &mut Transaction<'_>, id: OrderId, buyer: BuyerId) -> Executed {
    let Some(order) = transaction.view(id).filter(|order| order.buyer == buyer) else {
        return Executed::Refused(Refusal::UnknownOrder);
    };
    match rules::cancel(order.status) {
        Err(refusal) => Executed::Refused(refusal),
        Ok(cancels) => {
            if cancels {
                transaction.record_closed(id, Closing::Cancelled);
            }
            let order = transaction.view(id).expect("it was just seen");
            Executed::Accepted(Accepted::Order { order, replayed: !cancels })
        }
    }
}
