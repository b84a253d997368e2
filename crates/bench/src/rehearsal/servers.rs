//! The servers of a rehearsal: one with a ledger of its own, or those of a cluster, on engines that are there already.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::{Profile, Rehearsal};
use crate::audit::gates::Gates;
use crate::audit::invariants::{self, Rows, STILL};
use crate::audit::receipts::Receipts;
use crate::audit::{AUDIT_FAILED, Answered, Ledger};
use crate::host::leftovers::listening_on;
use crate::host::usage::Watched;
use crate::target::address::{is_local, resolve};
use crate::target::{OPERATOR_TOKEN, Setup, Target};

const REST_POLL: Duration = Duration::from_millis(500);
/// Of the program's audit of a cluster: nothing was on its way, so all of gate and ledger was compared.
const AT_REST: &str = "; at rest: ";

pub(super) struct Servers {
    /// Never empty.
    all: Vec<Target>,
    /// Those on this machine: what they take of it is no other work.
    engines: Vec<Watched>,
}

impl Servers {
    /// Starts them and makes the sale. It is there before all but the first start: who finds it at its start sells it at once.
    pub(super) fn start(rehearsal: &Rehearsal<'_>) -> anyhow::Result<Self> {
        let count = match rehearsal.profile {
            Profile::Embedded => 1,
            Profile::Engines { servers, .. } => servers.max(1),
        };
        let mut all: Vec<Target> = Vec::new();
        for number in 1..=count {
            rehearsal.progress.phase(&format!("starting server {number} of {count}"));
            let folder = match rehearsal.profile {
                Profile::Embedded => rehearsal.folder.to_owned(),
                Profile::Engines { .. } => rehearsal.folder.join(format!("server-{number}")),
            };
            std::fs::create_dir_all(&folder).context("a server's folder")?;
            let setup = Setup { demo: false, settings: rehearsal.settings, stop: rehearsal.stop };
            all.push(Target::start(rehearsal.program, &folder, setup)?);
            if number == 1 {
                all[0].operate("/api/v1/sales", &rehearsal.sale_of_rehearsal(), 201)?;
            }
        }
        let engines = match rehearsal.profile {
            Profile::Embedded => Vec::new(),
            Profile::Engines { engines, .. } => engines.iter().filter_map(on_this_machine).collect(),
        };
        let servers = Self { all, engines };
        for server in servers.addresses() {
            Gates::opened(server, OPERATOR_TOKEN, rehearsal.stop, Some(rehearsal.progress))?;
        }
        Ok(servers)
    }

    /// Whom to ask for what all of them know.
    pub(super) fn first(&self) -> &Target {
        &self.all[0]
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.all.iter().map(Target::address).collect()
    }

    pub(super) fn watched(&self) -> Vec<Watched> {
        let servers = self.all.iter().map(|server| Watched::new("server", server.pid()));
        servers.chain(self.engines.iter().cloned()).collect()
    }

    /// Orders per second that all of them admit together, as they say; 0: as many as come.
    pub(super) fn admitted_per_s(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for server in &self.all {
            let said = server.settings()?.settings;
            sum += said.get("admission orders_per_s").and_then(|rate| rate.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    /// Looks up every acknowledged order in the ledger, stops the servers, and audits: the ledger, or gate, queue and ledger.
    pub(super) fn close(
        mut self,
        rehearsal: &Rehearsal<'_>,
        answered: Answered,
        receipts: &mut Receipts,
    ) -> anyhow::Result<()> {
        match rehearsal.profile {
            Profile::Embedded => {
                let [server] = &mut self.all[..] else { unreachable!("there is one") };
                invariants::acknowledged(&mut Ledger::open(&server.data_dir())?, answered, receipts)?;
                server.stop()?;
                server.audit()?;
            }
            Profile::Engines { ledger, gated, .. } => {
                let mut ledger = ledger()?;
                // Requests with an unknown outcome may still become orders.
                invariants::wait_until_still(&mut ledger, answered, rehearsal.stop)?;
                let rejected = ledger.count("rejections")?;
                ensure!(
                    rejected == 0,
                    "{AUDIT_FAILED}: {rejected} accepted orders were rejected by the ledger"
                );
                invariants::acknowledged(&mut ledger as &mut dyn Rows, answered, receipts)?;
                for server in self.all.iter_mut().skip(1) {
                    server.stop()?;
                }
                if gated {
                    self.audit_at_rest(rehearsal)?;
                    self.all[0].stop()?;
                } else {
                    self.all[0].stop()?;
                    self.first().audit_config()?;
                }
            }
        }
        Ok(())
    }

    /// What the ledger has decided comes to the gates within moments.
    fn audit_at_rest(&self, rehearsal: &Rehearsal<'_>) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !self.first().audit_config()?.contains(AT_REST) {
            ensure!(!rehearsal.stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(
                begun.elapsed() < STILL,
                "{AUDIT_FAILED}: {} s after the last order the gates are not at rest, so they can't be compared with the ledger",
                STILL.as_secs()
            );
            sleep(REST_POLL);
        }
        Ok(())
    }
}

/// `None` of an engine somewhere else, or whose process can't be seen.
fn on_this_machine((name, address): &(&str, String)) -> Option<Watched> {
    let address = resolve(address).ok().filter(|address| is_local(*address))?;
    Some(Watched::new(name, listening_on(address.port())?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_engine_on_this_machine_is_watched() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap().to_string();
        let watched = on_this_machine(&("redis", here)).unwrap();
        assert_eq!((&*watched.name, watched.pid), ("redis", std::process::id()));
        // Of the range for documentation: nobody has it.
        let port = listener.local_addr().unwrap().port();
        assert!(on_this_machine(&("redis", format!("203.0.113.77:{port}"))).is_none());
    }
}
