//! What the clocks of the masters say.

use engine::UnixMs;

use crate::time::Instant;

use super::Gate;
use super::reply::{array, int};

/// A clock that was read, and when it was: between these moments.
#[derive(Clone, Debug)]
pub struct TimeRead {
    /// Of the Redis.
    pub address: String,
    pub at: UnixMs,
    pub between: (Instant, Instant),
}

impl Gate {
    /// The time by each master that answers.
    pub fn times(&mut self) -> Vec<TimeRead> {
        let mut read = Vec::new();
        for (address, connection) in self.router.masters() {
            let Ok(connection) = connection else { continue };
            let asked = Instant::now();
            let Ok(value) = connection.ask(&redis::cmd("TIME")) else { continue };
            let between = (asked, Instant::now());
            let Some([seconds, micros]) = array(&value) else { continue };
            if let (Some(seconds), Some(micros)) = (int(seconds), int(micros)) {
                let at = UnixMs(seconds.unsigned_abs() * 1_000 + micros.unsigned_abs() / 1_000);
                read.push(TimeRead { address, at, between });
            }
        }
        read
    }
}
