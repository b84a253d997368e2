//! A Sentinel: it says where the master is. Who that is, whoever plays with it decides.

use super::resp::{Parts, Reply};

#[derive(Debug)]
pub(super) struct Sentinel {
    /// Host and port.
    pub(super) master: String,
}

impl Sentinel {
    /// The reply to one command, as bytes.
    pub(super) fn answer(&self, parts: &Parts) -> Vec<u8> {
        let is = |at: usize, name: &str| {
            parts.get(at).is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes()))
        };
        let reply = if is(0, "SENTINEL") && is(1, "GET-MASTER-ADDR-BY-NAME") && parts.len() == 3 {
            let (host, port) = self.master.rsplit_once(':').expect("an address has a port");
            Reply::texts([host.as_bytes(), port.as_bytes()])
        } else {
            let name = String::from_utf8_lossy(&parts.concat()).into_owned();
            Reply::Error(format!("ERR the simulation's Sentinel has no command '{name}'"))
        };
        reply.bytes()
    }
}
