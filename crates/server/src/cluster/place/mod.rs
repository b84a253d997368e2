//! Placing: from the mailbox through admission and the gate to the broker, and the answer *pending*.

pub(super) mod publish;
pub(super) mod relay;
