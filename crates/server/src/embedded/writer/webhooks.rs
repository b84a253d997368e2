//! What the shop is notified of: notices go into the batch, and how far its endpoints have come is stored now and then.

use std::time::Instant;

use engine::{Command, UnixMs};

use super::Writer;
use crate::ledger::AppendError;

impl Writer {
    /// What the shop is to hear of beside its orders goes into the batch.
    pub(super) fn notice(&mut self, now: UnixMs) {
        if !self.expires() {
            return;
        }
        let Some(noticing) = &mut self.noticing else { return };
        match noticing.look(now, &self.catalog) {
            Ok(notices) => {
                for notice in notices {
                    if let Err(refusal) = self.book.execute(now, Command::Notice(notice)) {
                        tracing::error!(?notice, ?refusal, "the shop can't be notified of this");
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "what the shop was notified of could not be read"),
        }
    }

    /// Stores how far the shop's endpoints have come, and what operators changed of them.
    ///
    /// # Errors
    /// As [`Writer::run`].
    pub fn store_progress(&mut self) -> Result<(), AppendError> {
        self.progress_stored_at = Instant::now();
        let (progress, changes) = (self.duty.take_progress(), self.duty.take_changes());
        if progress.is_empty() && changes.is_empty() {
            return Ok(());
        }
        let stored = self.ledger.note_progress(&progress, &changes);
        if stored.is_err() {
            self.duty.put_progress_back(progress);
            self.duty.put_changes_back(changes);
        } else if !changes.is_empty() {
            self.duty.begin_anew();
        }
        stored
    }
}
