//! What operators do to a cluster by the program itself, past the servers, with the entry that says who did it and why.
//!
//! Must not: do what it keeps, but for moving a queue, which is a row of the ledger.

use std::ops::Range;

use engine::handover::Grant;
use engine::working_set::{Executed, Needs, Operation};
use engine::{Accepted, Action, By, Command, UnixMs, limits};

use super::{LedgerError, OPERATIONS_MAX, SharedLedger};

/// Who does something, and when.
#[derive(Clone, Debug)]
pub struct Acting {
    pub by: By,
    /// What the clock of the machine says, on which it is done.
    pub now: UnixMs,
}

impl Acting {
    fn operation(&self, action: Action, mut about: String) -> Operation {
        while about.len() > limits::PAYMENT_ID_BYTES_MAX {
            about.pop();
        }
        let kept = Operation::of(Command::KeepAction(action, about.into()), Grant::NotAsked);
        kept.expect("it places nothing").by(Some(self.by.clone()))
    }

    /// The earlier of two clocks: neither may set the ledger's time ahead, for no entry is ever before its latest.
    fn at(&self, ledger: &mut SharedLedger) -> Result<UnixMs, LedgerError> {
        Ok(ledger.time()?.at.min(self.now))
    }
}

impl SharedLedger {
    /// Keeps what was done, in an entry for each text. A text is cut where an entry takes no more. After an answer that was lost
    /// some entries may be there twice.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn keep_actions(
        &mut self,
        acting: &Acting,
        action: Action,
        abouts: Vec<String>,
    ) -> Result<(), LedgerError> {
        let at = acting.at(self)?;
        let operations: Vec<_> = abouts.into_iter().map(|about| acting.operation(action, about)).collect();
        for batch in operations.chunks(OPERATIONS_MAX) {
            let executed = self.execute(at, batch)?;
            assert!(executed.iter().all(is_kept), "an action of this length is kept: {executed:?}");
        }
        Ok(())
    }

    /// Reads a queue on behind these messages, if it stands at the first of them, and keeps who had that done. Whether it
    /// stands behind them now.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn pass_over(
        &mut self,
        acting: &Acting,
        queue: &str,
        messages: Range<u64>,
    ) -> Result<bool, LedgerError> {
        let at = acting.at(self)?;
        let about = format!("messages {} to {} of {queue}", messages.start, messages.end - 1);
        let operation = acting.operation(Action::MessagesPassedOver, about);
        self.transact(at, |transaction| {
            transaction.read_with_queues(Needs::default(), vec![queue.to_owned()])?;
            let next = transaction.queues.get(queue).map(|state| state.next_offset);
            if next == Some(messages.start) {
                transaction.offsets.push((queue.to_owned(), messages.end));
                let executed = transaction.set.execute(&operation);
                assert!(is_kept(&executed), "an action of this length is kept: {executed:?}");
                return Ok(true);
            }
            // Once more after a lost answer it finds the queue behind them already.
            Ok(next == Some(messages.end))
        })
    }
}

fn is_kept(executed: &Executed) -> bool {
    matches!(executed, Executed::Accepted(Accepted::ActionKept))
}
