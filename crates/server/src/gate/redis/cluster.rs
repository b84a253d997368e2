//! Who has which slots.

use std::ops::RangeInclusive;

use redis::Value;

use super::commands::SLOTS;
use super::connection::{self, Connection};
use super::reply::{array, bytes, int};
use crate::gate::{GateConfig, Why};

/// In the map of slots: nobody has it.
pub(super) const NO_NODE: u16 = u16::MAX;

/// Slots that follow one another and their master.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) slots: RangeInclusive<usize>,
    pub(super) master: String,
}

/// The map of slots, from a node that we are connected to.
pub(super) fn ask(connection: &mut Connection, address: &str) -> Result<Vec<Range>, Why> {
    parse(&connection.ask(&command())?, address)
}

/// The map of slots, from any node: a replica knows it too.
pub(super) fn ask_at(config: &GateConfig, address: &str) -> Result<Vec<Range>, Why> {
    parse(&connection::ask_once(config, address, &command())?, address)
}

fn command() -> redis::Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    command
}

fn parse(value: &Value, asked: &str) -> Result<Vec<Range>, Why> {
    let ranges = array(value).map(|ranges| ranges.iter().map(|range| parse_range(range, asked)).collect());
    ranges.flatten().ok_or_else(|| Why::Unexpected("CLUSTER SLOTS can't be read".into()))
}

fn parse_range(value: &Value, asked: &str) -> Option<Range> {
    let [first, last, master, ..] = array(value)? else { return None };
    let [host, port, ..] = array(master)? else { return None };
    let slot = |value| int(value).and_then(|slot| usize::try_from(slot).ok()).filter(|slot| *slot < SLOTS);
    // A node that does not know its own name yet leaves it empty: it is the one that we asked.
    let host = match bytes(host).map(std::str::from_utf8) {
        Some(Ok(host)) if !host.is_empty() && host != "?" => host,
        _ => asked.rsplit_once(':')?.0,
    };
    let port = u16::try_from(int(port)?).ok()?;
    Some(Range { slots: slot(first)?..=slot(last)?, master: format!("{host}:{port}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_slots_is_read() {
        let node = |host: Option<&str>, port| {
            let host = host.map_or(Value::Nil, |host| Value::BulkString(host.into()));
            Value::Array(vec![host, Value::Int(port), Value::BulkString("id".into()), Value::Array(vec![])])
        };
        let range = |first, last, node| Value::Array(vec![Value::Int(first), Value::Int(last), node]);
        let map =
            Value::Array(vec![range(0, 5460, node(Some("10.0.0.1"), 1)), range(5461, 16_383, node(None, 2))]);
        let read = parse(&map, "here:9").unwrap();
        assert_eq!(read[0], Range { slots: 0..=5460, master: "10.0.0.1:1".into() });
        assert_eq!(read[1], Range { slots: 5461..=16_383, master: "here:2".into() });
        let beyond = Value::Array(vec![range(0, 16_384, node(None, 2))]);
        assert!(parse(&beyond, "here:9").is_err());
        assert!(parse(&Value::Okay, "here:9").is_err());
    }
}
