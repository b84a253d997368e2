//! The system under test with its load: a server of our own, a cluster of our own, or one that runs already; its buyers,
//! and the answers that they got.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};

use super::{Order, PeakOptions, PeakTarget};
use crate::audit::Answered;
use crate::audit::gates::Gates;
use crate::audit::receipts::Receipts;
use crate::audit::running::Running;
use crate::drivers::http::once;
use crate::drivers::http::traffic::{self, BUYER_FIRST, OWN_PRODUCT, OWN_UNITS, Traffic};
use crate::host::usage::Watched;
use crate::report::model::Audit;
use crate::target::address::is_local;
use crate::target::engines::{BrokerFlush, Flushes};
use crate::target::installation::{Installation, Site};
use crate::target::{OPERATOR_TOKEN, TOKEN_SECRET};

/// The system under test, its buyers, and the answers that they got.
pub(super) struct PeakTestbed {
    pub(super) traffic: Traffic,
    pub(super) answered: Answered,
    pub(super) receipts: Receipts,
    servers: Servers,
    /// As they were before the first load.
    gates: Gates,
}

enum Servers {
    Own(Installation),
    Running { address: SocketAddr, audit: Running },
}

impl PeakTestbed {
    pub(super) fn open(options: &PeakOptions, folder: &Path) -> anyhow::Result<Self> {
        let own = |installation| (Servers::Own(installation), Traffic::own(TOKEN_SECRET, BUYER_FIRST));
        let (servers, traffic) = match &options.target {
            PeakTarget::Embedded => own(Installation::embedded(&options.site, folder, "")?),
            PeakTarget::Cluster { servers } => {
                let safe = Flushes::with_broker(BrokerFlush::Synchronous);
                own(Installation::cluster(&options.site, folder, safe, *servers)?)
            }
            PeakTarget::Running { address, order, operator_token } => {
                running(*address, order, operator_token.as_deref(), &options.site)?
            }
        };
        let receipts = Receipts::create(&folder.join("receipts")).context("the receipts' file")?;
        let (address, token) = match (&servers, &options.target) {
            (Servers::Own(installation), _) => (installation.addresses()[0], Some(OPERATOR_TOKEN)),
            (Servers::Running { address, .. }, PeakTarget::Running { operator_token, .. }) => {
                (*address, operator_token.as_deref())
            }
            (Servers::Running { address, .. }, _) => (*address, None),
        };
        let token = token.context("gates are asked for with the operator's token")?;
        let gates = Gates::opened(address, token, &options.site.stop, Some(&options.site.progress))?;
        Ok(Self { traffic, answered: Answered::default(), receipts, servers, gates })
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        match &self.servers {
            Servers::Own(installation) => installation.addresses(),
            Servers::Running { address, .. } => vec![*address],
        }
    }

    pub(super) fn watched(&self) -> Vec<Watched> {
        match &self.servers {
            Servers::Own(installation) => installation.watched(),
            Servers::Running { .. } => Vec::new(),
        }
    }

    /// The generator shares the machine with what it measures.
    pub(super) fn is_local(&self) -> bool {
        self.addresses().into_iter().all(is_local)
    }

    /// Between two trials: what was accepted is taken in, so that no trial pays for the one before.
    pub(super) fn rest(&mut self) -> anyhow::Result<()> {
        if let Servers::Own(installation) = &mut self.servers {
            installation.drain(self.answered)?;
            if let Installation::Cluster { set, .. } = installation {
                set.database(None)?.purge_binary_logs()?;
            }
        }
        Ok(())
    }

    /// The gate of every result.
    pub(super) fn close(mut self, stop: &AtomicBool) -> anyhow::Result<Audit> {
        self.rest()?;
        let Self { answered, mut receipts, servers, gates, .. } = self;
        // Asked before the audit ends the servers; but orders that are missing weigh more than a gate that was lost.
        let same_gates = gates.check();
        let audit = match servers {
            Servers::Own(installation) => installation.close(answered, &mut receipts, stop),
            Servers::Running { audit, .. } => audit.close(answered),
        }?;
        same_gates.map(|()| audit)
    }
}

fn running(
    address: SocketAddr,
    order: &Order,
    operator: Option<&str>,
    site: &Site,
) -> anyhow::Result<(Servers, Traffic)> {
    let audit = Running::open(address, operator, &site.stop)?.reporting_to(&site.progress);
    let ready = once::exchange(address, &once::encode("GET", "/readyz", &[], &[]))
        .with_context(|| format!("asking {address} whether it is ready"))?;
    ensure!(ready.status == 200, "the server on {address} is not ready: {}", ready.text());
    let traffic = match order {
        Order::Published { sale, product } => Traffic::published_of(*sale, *product),
        Order::Own { sale, token_secret } => {
            let operator = operator.context(
                "orders of the own API need the operator's token, to create the sale that they are placed in",
            )?;
            let authorization = format!("Authorization: Bearer {operator}");
            let body = traffic::sale(*sale, OWN_PRODUCT, OWN_UNITS, 1).to_string();
            let request = once::encode("POST", "/api/v1/sales", &[&authorization], body.as_bytes());
            let answer = once::exchange(address, &request).context("creating the sale")?;
            ensure!(answer.status == 201, "sale {sale} can't be created: {}", answer.text());
            Traffic::own_of(token_secret, *sale, BUYER_FIRST)
        }
    };
    Ok((Servers::Running { address, audit }, traffic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_server_without_its_token_gets_no_request() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let target = PeakTarget::Running {
            address: listener.local_addr().unwrap(),
            order: Order::Published { sale: 3, product: 29 },
            operator_token: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let opened = PeakTestbed::open(&PeakOptions::new("doorbuster".into(), target), folder.path());
        let error = opened.err().expect("it is refused").to_string();
        assert!(error.contains("set DOORBUSTER_OPERATOR_TOKEN"), "{error}");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
