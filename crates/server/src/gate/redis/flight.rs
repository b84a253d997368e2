//! Commands on their way to one node, and what came back.

use std::time::Duration;

use redis::Value;

use super::commands::Commands;
use super::connection::Connection;
use super::reply::{self, ErrorMeaning};
use crate::gate::{GateError, Why};
use crate::time::Instant;

pub(super) type CommandResult = Result<Value, GateError>;

/// A command to send: which, and whether only after ASKING to a node that does not own its slot.
#[derive(Clone, Debug)]
pub(super) struct Todo {
    pub(super) index: usize,
    pub(super) ask: Option<String>,
    /// What it is answered if there is no next time.
    pub(super) why: Why,
}

/// What the replies say about the node and the map of slots.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    pub(super) load_scripts: bool,
    /// The connection is to be dropped and the map to be read again.
    pub(super) distrust: bool,
    pub(super) moved: Vec<(usize, String)>,
    /// A slot is on its way: the next round waits a little.
    pub(super) pause: bool,
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) node: usize,
    /// Each command is preceded by ASKING, which has a reply of its own.
    pub(super) asking: bool,
    /// Indices into the commands, in order.
    pub(super) commands: Vec<usize>,
    written: usize,
    read: usize,
    /// Why nothing more can be written or read.
    broken: Option<Why>,
    pub(super) learnt: Learnt,
}

impl Flight {
    pub(super) fn new(node: usize, asking: bool) -> Flight {
        Flight {
            node,
            asking,
            commands: Vec::new(),
            written: 0,
            read: 0,
            broken: None,
            learnt: Learnt::default(),
        }
    }

    pub(super) fn is_owed_replies(&self) -> bool {
        self.read < self.written && self.broken.is_none()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Writes the next batch, unless two are on their way already.
    pub(super) fn write(
        &mut self,
        commands: &Commands,
        connection: &mut Connection,
        batch: usize,
        buffer: &mut Vec<u8>,
    ) {
        let is_full = self.batch_end(commands, self.read, batch) < self.written;
        if self.is_broken() || self.written == self.commands.len() || is_full {
            return;
        }
        let end = self.batch_end(commands, self.written, batch);
        buffer.clear();
        for index in &self.commands[self.written..end] {
            if self.asking {
                buffer.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
            }
            commands.write(*index, &connection.run, buffer);
        }
        // Written, even if writing fails: some of them may have left.
        self.written = end;
        self.broken = connection.write(buffer).err();
    }

    /// Reads the replies of one batch. All of it must come within `limit`; `wait` is how long to wait for the first.
    pub(super) fn read(
        &mut self,
        (commands, batch): (&Commands, usize),
        connection: &mut Connection,
        (wait, limit): (Duration, Duration),
        outcomes: &mut [Option<CommandResult>],
        again: &mut Vec<Todo>,
    ) {
        let end = self.written.min(self.batch_end(commands, self.read, batch));
        let started = Instant::now();
        self.broken = connection.wait_at_most(wait).err();
        while self.read < end && !self.is_broken() {
            match read_one(connection, self.asking) {
                Err(why) => self.broken = Some(why),
                Ok(_) if started.elapsed() > limit => self.broken = Some(Why::TimedOut),
                Ok(value) => {
                    let index = self.commands[self.read];
                    self.read += 1;
                    self.take(index, value, outcomes, again);
                }
            }
        }
    }

    /// Behind the batch that begins there: at least one command, and no more than weigh so much.
    fn batch_end(&self, commands: &Commands, begin: usize, batch: usize) -> usize {
        let mut weight = 0;
        let fits = |index: &&usize| {
            weight += commands.weight(**index);
            weight <= batch
        };
        let fitting = self.commands[begin..].iter().take_while(fits).count();
        self.commands.len().min(begin + fitting.max(1))
    }

    fn take(
        &mut self,
        index: usize,
        value: Value,
        outcomes: &mut [Option<CommandResult>],
        again: &mut Vec<Todo>,
    ) {
        let Value::ServerError(error) = value else {
            outcomes[index] = Some(Ok(value));
            return;
        };
        let mut later = |why, ask| again.push(Todo { index, ask, why });
        match reply::judge(&error) {
            ErrorMeaning::LoadScripts => {
                self.learnt.load_scripts = true;
                later(Why::ScriptMissing, None);
            }
            ErrorMeaning::Moved(slot, address) => {
                self.learnt.moved.push((slot, address));
                later(Why::SlotMoving, None);
            }
            ErrorMeaning::Ask(address) => later(Why::SlotMoving, Some(address)),
            ErrorMeaning::TryAgain => {
                self.learnt.pause = true;
                later(Why::SlotMoving, None);
            }
            ErrorMeaning::Refused { why, distrust } => {
                self.learnt.distrust |= distrust;
                outcomes[index] = Some(Err(GateError::NotExecuted(why)));
            }
            ErrorMeaning::Unknown(why) => outcomes[index] = Some(Err(GateError::Unknown(why))),
        }
    }

    /// The end: what was written and not answered is unknown, what was not written was not carried out.
    pub(super) fn land(&self, outcomes: &mut [Option<CommandResult>]) {
        let Some(why) = &self.broken else { return };
        for (at, index) in self.commands.iter().enumerate().skip(self.read) {
            let why = why.clone();
            outcomes[*index] = Some(Err(if at < self.written {
                GateError::Unknown(why)
            } else {
                GateError::NotExecuted(why)
            }));
        }
    }
}

fn read_one(connection: &mut Connection, asking: bool) -> Result<Value, Why> {
    if asking {
        connection.read()?;
    }
    connection.read()
}
