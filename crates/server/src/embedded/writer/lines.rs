//! The lines of the book: called with every batch, and shown to whoever waits after the commit.

use engine::{BuyerId, LineView, SkuId, UnixMs};

use super::Writer;
use crate::intake::Reply;
use crate::intake::catalog::Sku;

/// Steps of all lines together with one batch: bounds the batch, the rest follow with the next.
const CALLS_PER_BATCH: usize = 1_000;

impl Writer {
    pub(super) fn call_lines(&mut self, now: UnixMs) {
        self.book.call_due(now, CALLS_PER_BATCH);
    }

    pub(super) fn receipt(&self, sku: SkuId, buyer: BuyerId) -> Reply {
        match self.book.receipt(sku, buyer) {
            Ok(receipt) => Reply::Receipt(Box::new(receipt)),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// From now on it serves, maybe after a time in which it did not.
    pub(super) fn open_lines(&mut self) {
        let now = self.shared.clock.now().max(self.book.last_at());
        self.book.open_lines(now);
    }
}

pub(super) fn publish_line(now: UnixMs, sku: &Sku, line: LineView) {
    sku.board.as_ref().expect("the catalog is made from the book").publish(now, line);
}
