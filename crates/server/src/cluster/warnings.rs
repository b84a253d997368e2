//! What the stages of a cluster meet again and again while an engine is away, each kind logged as one fault.

use crate::recurring::Recurring;

/// One for each kind; threads of a stage share it.
#[derive(Debug)]
pub(super) struct Warnings {
    pub(super) consuming: Recurring,
    pub(super) reconciling: Recurring,
    pub(super) publishing: Recurring,
    pub(super) reading: Recurring,
    pub(super) reading_refunds: Recurring,
    pub(super) commanding: Recurring,
    pub(super) claiming: Recurring,
    pub(super) returning: Recurring,
    pub(super) updating_gates: Recurring,
    pub(super) balancing: Recurring,
    pub(super) fencing: Recurring,
    pub(super) comparing: Recurring,
    pub(super) differing: Recurring,
    pub(super) following: Recurring,
    pub(super) unreadable: Recurring,
    pub(super) sending_webhooks: Recurring,
    pub(super) operators: Recurring,
}

impl Default for Warnings {
    fn default() -> Warnings {
        Warnings {
            consuming: Recurring::new("consumption pauses"),
            reconciling: Recurring::new("reconciliation pauses"),
            publishing: Recurring::new("the broker did not acknowledge a batch"),
            reading: Recurring::new("orders could not be read"),
            reading_refunds: Recurring::new("the refunds that are due could not be read"),
            commanding: Recurring::new("commands were not carried out"),
            claiming: Recurring::new("what was claimed for was not carried out"),
            returning: Recurring::new("returned units wait in the outbox"),
            updating_gates: Recurring::new("the gates of changed sales have not heard of it yet"),
            balancing: Recurring::new("a balance was not set"),
            fencing: Recurring::new("a gate could not be fenced"),
            comparing: Recurring::new("the clocks can't be compared"),
            differing: Recurring::new("orders are refused, for a gate differs from this server"),
            following: Recurring::new(
                "the sales can't be read: what starts meanwhile is not sold by this server",
            ),
            unreadable: Recurring::new("an open reservation can't be read"),
            operators: Recurring::new("who may could not be read: who was known goes on"),
            sending_webhooks: Recurring::new("the shop is not notified of what becomes of orders"),
        }
    }
}
