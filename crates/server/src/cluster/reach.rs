//! Whether the gate and the brokers of a configuration can be reached, before a server starts on them. Changes nothing.

use super::start::{StartError, gate_config, queue_options};
use crate::config::{Config, Secrets};
use crate::gate::{Gate, unguarded_master};
use crate::queue::Admin;

/// What can't be reached or can't serve, each with its reason.
///
/// # Errors
/// If a file that the configuration names can't be read.
pub fn unreachable(config: &Config, secrets: &Secrets) -> Result<Vec<String>, StartError> {
    let mut gate = Gate::new(gate_config(config, secrets)?);
    let nodes = gate.health();
    let mut found: Vec<String> =
        unguarded_master(&nodes).into_iter().map(|how| format!("the gate may sell twice: {how}")).collect();
    let faults = nodes
        .into_iter()
        .filter_map(|node| node.fault.map(|fault| format!("the gate (Redis) at {}: {fault}", node.address)));
    found.extend(faults);
    if let Err(error) = Admin::new(queue_options(config, secrets)?).settings() {
        found.push(format!("the brokers (RocketMQ): {error}"));
    }
    Ok(found)
}
