//! What a connection writes to and reads from: a socket, or a stand-in of a simulation.
//!
//! Must not: retry, nor know what a command means.

use std::time::Duration;

use redis::Value;

use super::connection::broken;
use crate::gate::Why;

/// A way to one server. Its replies come in the order of the commands.
pub trait Link: Send {
    /// Writes packed commands, in RESP. An error says nothing about how many of them have left.
    fn write(&mut self, packed: &[u8]) -> Result<(), Why>;

    /// The next reply, an error reply included. After an error the link is of no more use: what it is owed may still come.
    fn read(&mut self) -> Result<Value, Why>;

    /// Replies are waited for at most so long from now on.
    fn wait_at_most(&mut self, limit: Duration) -> Result<(), Why>;
}

/// Connects to servers by their addresses.
pub trait Dial: Send + Sync {
    /// # Errors
    /// If nobody can be reached there.
    fn dial(&self, address: &str) -> Result<Box<dyn Link>, Why>;
}

impl Link for redis::Connection {
    fn write(&mut self, packed: &[u8]) -> Result<(), Why> {
        self.send_packed_command(packed).map_err(|error| broken(&error))
    }

    fn read(&mut self) -> Result<Value, Why> {
        self.recv_response().map_err(|error| broken(&error))
    }

    fn wait_at_most(&mut self, limit: Duration) -> Result<(), Why> {
        self.set_read_timeout(Some(limit)).map_err(|error| broken(&error))
    }
}
