//! Whether the gate and the brokers of a configuration can be reached, before a server starts on them. Changes nothing.

use super::start::{StartError, gate_config, queue_options};
use crate::config::{Config, Secrets};
use crate::gate::Gate;
use crate::queue::Admin;

/// What can't be reached or can't serve, each with its reason.
///
/// # Errors
/// If a file that the configuration names can't be read.
pub fn unreachable(config: &Config, secrets: &Secrets) -> Result<Vec<String>, StartError> {
    let mut gate = Gate::new(gate_config(config, secrets)?);
    let mut found: Vec<String> = gate
        .health()
        .into_iter()
        .filter_map(|node| node.fault.map(|fault| format!("the gate (Redis) at {}: {fault}", node.address)))
        .collect();
    if let Err(error) = Admin::new(queue_options(config, secrets)?).settings() {
        found.push(format!("the brokers (RocketMQ): {error}"));
    }
    Ok(found)
}
