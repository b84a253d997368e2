//! What the stages of a server ask of the queue: kept by `rocketmq/`, and by the simulation in memory.
//!
//! See the methods of the same names there. Each thread has one of its own, and every call has a time limit.

use std::fmt::Debug;
use std::time::Duration;

use super::{
    Admin, AdminError, Consumer, Producer, PullError, Pulled, Queue, SendError, Survey, Unavailable,
};
use crate::intake::EngineSettings;

/// Sends.
pub trait Produce: Debug + Send {
    fn look(&mut self, topic: &str) -> Result<(), Unavailable>;
    fn send(&mut self, topic: &str, bodies: &[&[u8]]) -> Result<(), SendError>;
}

/// Reads one topic.
pub trait Consume: Debug + Send {
    fn queues(&mut self) -> Result<Vec<Queue>, PullError>;
    fn max_offset(&mut self, queue: &Queue) -> Result<u64, PullError>;
    fn min_offset(&mut self, queue: &Queue) -> Result<u64, PullError>;
    fn pull(&mut self, from: &[(Queue, u64)], max: usize, wait: Duration) -> Result<Vec<Pulled>, PullError>;
}

/// Makes topics, and knows how the brokers are.
pub trait Administer: Debug + Send {
    fn create_topics(&mut self, topics: &[&str]) -> Result<(), AdminError>;
    fn disk_used(&mut self) -> Result<f64, AdminError>;
    fn settings(&mut self) -> Result<Vec<EngineSettings>, AdminError>;
    fn survey(&mut self, topic: &str, further: &[Queue]) -> Result<Survey, AdminError>;
}

impl Produce for Producer {
    fn look(&mut self, topic: &str) -> Result<(), Unavailable> {
        Producer::look(self, topic)
    }

    fn send(&mut self, topic: &str, bodies: &[&[u8]]) -> Result<(), SendError> {
        Producer::send(self, topic, bodies)
    }
}

impl Consume for Consumer {
    fn queues(&mut self) -> Result<Vec<Queue>, PullError> {
        Consumer::queues(self)
    }

    fn max_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        Consumer::max_offset(self, queue)
    }

    fn min_offset(&mut self, queue: &Queue) -> Result<u64, PullError> {
        Consumer::min_offset(self, queue)
    }

    fn pull(&mut self, from: &[(Queue, u64)], max: usize, wait: Duration) -> Result<Vec<Pulled>, PullError> {
        Consumer::pull(self, from, max, wait)
    }
}

impl Administer for Admin {
    fn create_topics(&mut self, topics: &[&str]) -> Result<(), AdminError> {
        Admin::create_topics(self, topics)
    }

    fn disk_used(&mut self) -> Result<f64, AdminError> {
        Admin::disk_used(self)
    }

    fn settings(&mut self) -> Result<Vec<EngineSettings>, AdminError> {
        Admin::settings(self)
    }

    fn survey(&mut self, topic: &str, further: &[Queue]) -> Result<Survey, AdminError> {
        Admin::survey(self, topic, further)
    }
}
