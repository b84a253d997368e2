//! A way to the brokers with a defect.

use std::time::Duration;

use server::queue::{Consume, Produce, PullError, Pulled, Queue, SendError, Unavailable};

use super::Planted;
use crate::queue::Connection;
use crate::schedule;

#[derive(Debug)]
pub(super) struct Defective {
    pub(super) planted: Planted,
    /// Whose way it is.
    pub(super) host: String,
    pub(super) inner: Connection,
}

impl Produce for Defective {
    fn look(&mut self, topic: &str) -> Result<(), Unavailable> {
        self.inner.look(topic)
    }

    fn send(&mut self, topic: &str, bodies: &[&[u8]]) -> Result<(), SendError> {
        if self.planted == Planted::AnsweredBeforeAcknowledged {
            let (mut inner, topic) = (self.inner.clone(), topic.to_owned());
            let bodies: Vec<Vec<u8>> = bodies.iter().map(|body| body.to_vec()).collect();
            schedule::spawn(&self.host, move || {
                drop(inner.send(&topic, &bodies.iter().map(Vec::as_slice).collect::<Vec<_>>()));
            });
            return Ok(());
        }
        match self.inner.send(topic, bodies) {
            Err(SendError::NotSent(_) | SendError::Refused(..)) if self.planted == Planted::NotSentIsSent => {
                Ok(())
            }
            Err(SendError::Unknown(_)) if self.planted == Planted::UnknownIsSent => Ok(()),
            sent => sent,
        }
    }
}

impl Consume for Defective {
    fn queues(&mut self) -> Result<Vec<Queue>, PullError> {
        self.inner.queues()
    }

    fn max_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        self.inner.max_offset(queue)
    }

    fn min_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        self.inner.min_offset(queue)
    }

    fn pull(&mut self, from: &[(Queue, u64)], max: usize, wait: Duration) -> Result<Vec<Pulled>, PullError> {
        let mut pulled = self.inner.pull(from, max, wait)?;
        if self.planted == Planted::MessagePassedOver {
            pulled.iter_mut().for_each(|pulled| pulled.messages.retain(|(offset, _)| offset % 3 != 0));
        }
        Ok(pulled)
    }
}
