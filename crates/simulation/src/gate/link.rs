//! The way of the server's client to a simulated Redis.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use server::gate::{Dial, Link, Why};

use super::{Redis, commands};

/// One server for several clients; what `GateConfig::dial` takes.
#[derive(Clone, Debug)]
pub struct Shared(pub Arc<Mutex<Redis>>);

impl Dial for Shared {
    fn dial(&self, _: &str) -> Result<Box<dyn Link>, Why> {
        Ok(Box::new(Way { redis: self.clone(), replies: VecDeque::new() }))
    }
}

/// Commands are carried out when they are written.
struct Way {
    redis: Shared,
    replies: VecDeque<Vec<u8>>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("replies", &self.replies.len()).finish_non_exhaustive()
    }
}

impl Link for Way {
    fn write(&mut self, packed: &[u8]) -> Result<(), Why> {
        let mut redis = self.redis.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.replies.extend(commands(packed).iter().map(|parts| redis.answer(parts)));
        Ok(())
    }

    fn read(&mut self) -> Result<Value, Why> {
        let reply = self.replies.pop_front().ok_or(Why::TimedOut)?;
        Ok(redis::parse_redis_value(&reply).expect("a reply of ours is RESP"))
    }

    fn wait_at_most(&mut self, _: Duration) -> Result<(), Why> {
        Ok(())
    }
}
