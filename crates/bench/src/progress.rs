//! What is going on, on stderr: one line that changes on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::time::Instant;

#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    begun: Instant,
}

impl Progress {
    pub fn start() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), begun: Instant::now() }
    }

    /// Something has begun; on a terminal the line is replaced by the next one.
    pub fn doing(&self, what: &str) {
        if self.terminal {
            self.write(&format!("\r\x1b[2K{} {what} ...", self.clock()));
        }
    }

    /// Something is done.
    pub fn done(&self, what: &str) {
        let clear = if self.terminal { "\r\x1b[2K" } else { "" };
        self.write(&format!("{clear}{} {what}\n", self.clock()));
    }

    fn clock(&self) -> String {
        let seconds = self.begun.elapsed().as_secs();
        format!("[{:02}:{:02}]", seconds / 60, seconds % 60)
    }

    /// A closed stderr is no reason to lose a measurement.
    fn write(&self, text: &str) {
        let mut stderr = std::io::stderr();
        drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
    }
}
