//! What a search and the price list measure: a server of our own, a cluster of our own, or one that runs already; its
//! buyers, and the answers that they got.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::audit::Answered;
use crate::audit::gates::Gates;
use crate::audit::receipts::Receipts;
use crate::audit::running::Running;
use crate::drivers::http::traffic::{self, BUYER_FIRST, OWN_PRODUCT, OWN_UNITS, Traffic};
use crate::drivers::http::{Heard, Http, Workload, once};
use crate::host::environment;
use crate::host::usage::Watched;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Settings, Trial};
use crate::measure;
use crate::peak::Order;
use crate::report::model::Audit;
use crate::target::address::is_local;
use crate::target::installation::{Installation, Site};
use crate::target::{OPERATOR_TOKEN, TOKEN_SECRET};

pub(crate) struct Testbed {
    pub(crate) traffic: Traffic,
    pub(crate) answered: Answered,
    pub(crate) receipts: Receipts,
    servers: Servers,
    /// The block device of its data.
    disk: Option<String>,
}

enum Servers {
    Own(Installation),
    Running { address: SocketAddr, audit: Running },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) schedule: Schedule,
    pub(crate) connections: usize,
    /// Of an open loop only as many as are needed are opened at first.
    pub(crate) opened: usize,
    pub(crate) p99: Duration,
    pub(crate) repeat: usize,
}

impl Testbed {
    /// Of an installation with the sale that nobody can buy out.
    pub(crate) fn own(installation: Installation, folder: &Path) -> anyhow::Result<Self> {
        Self::of(Servers::Own(installation), Traffic::own(TOKEN_SECRET, BUYER_FIRST), folder)
    }

    /// A server that runs; nobody else may order there meanwhile.
    pub(crate) fn running(
        address: SocketAddr,
        order: &Order,
        operator: Option<&str>,
        site: &Site,
        folder: &Path,
    ) -> anyhow::Result<Self> {
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
                let body = traffic::sale(*sale, OWN_PRODUCT, OWN_UNITS, 1).to_string();
                let request = once::operating(operator, "POST", "/api/v1/sales", body.as_bytes());
                let answer = once::exchange(address, &request).context("creating the sale")?;
                ensure!(answer.status == 201, "sale {sale} can't be created: {}", answer.text());
                Traffic::own_of(token_secret, *sale, BUYER_FIRST)
            }
        };
        Self::of(Servers::Running { address, audit }, traffic, folder)
    }

    fn of(servers: Servers, traffic: Traffic, folder: &Path) -> anyhow::Result<Self> {
        let receipts = Receipts::create(&folder.join("receipts")).context("the receipts' file")?;
        Ok(Self {
            traffic,
            answered: Answered::default(),
            receipts,
            servers,
            disk: environment::disk(folder),
        })
    }

    /// Once all of them are open: what is measured before is no figure.
    pub(crate) fn gates(&self, operator: Option<&str>, site: &Site) -> anyhow::Result<Gates> {
        let token = match &self.servers {
            Servers::Own(_) => Some(OPERATOR_TOKEN),
            Servers::Running { .. } => operator,
        };
        let token = token.context("gates are asked for with the operator's token")?;
        Gates::opened(self.addresses()[0], token, &site.stop, Some(&site.progress))
    }

    /// # Errors
    /// If it is a server that runs.
    pub(crate) fn installation(&mut self) -> anyhow::Result<&mut Installation> {
        match &mut self.servers {
            Servers::Own(installation) => Ok(installation),
            Servers::Running { .. } => bail!("a server that runs is left as it is"),
        }
    }

    /// Everything at once, for who loads it on one thread and kills on another.
    pub(crate) fn parts(&mut self) -> anyhow::Result<(impl Workload + Send, &mut Installation)> {
        let Servers::Own(installation) = &mut self.servers else { bail!("a server that runs is not killed") };
        let keep = |body: &[u8]| self.receipts.keep(body);
        Ok((Heard { inner: &mut self.traffic, won: keep }, installation))
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match &self.servers {
            Servers::Own(installation) => installation.addresses(),
            Servers::Running { address, .. } => vec![*address],
        }
    }

    fn watched(&self) -> Vec<Watched> {
        match &self.servers {
            Servers::Own(installation) => installation.watched(),
            Servers::Running { .. } => Vec::new(),
        }
    }

    /// The generator shares the machine with what it measures.
    pub(crate) fn is_local(&self) -> bool {
        self.addresses().into_iter().all(is_local)
    }

    /// A trial, and when its load began. Its answers count for the audit.
    pub(crate) fn load(&mut self, site: &Site, load: Load) -> anyhow::Result<(Trial, Instant)> {
        let Load { schedule, connections, opened, p99, repeat } = load;
        let (addresses, watched, co_located) = (self.addresses(), self.watched(), self.is_local());
        let whom: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let mut kept = Heard { inner: &mut self.traffic, won: |body: &[u8]| self.receipts.keep(body) };
        let mut http = Http { workload: &mut kept };
        let settings = Settings { opened, ..Settings::spread(addresses, connections) };
        let mut generator = Generator::connect(settings, &mut http)
            .with_context(|| format!("connecting to {}", whom.join(", ")))?;
        let around = site.around(&watched, self.disk.as_deref(), co_located);
        let begun = Instant::now();
        let trial = measure::trial_within(p99, &mut generator, schedule, &mut http, repeat, around)?;
        self.answered.add(&trial.outcomes);
        Ok((trial, begun))
    }

    /// Between two trials: what was accepted is taken in, so that no trial pays for the one before.
    pub(crate) fn rest(&mut self) -> anyhow::Result<()> {
        if let Servers::Own(installation) = &mut self.servers {
            installation.drain(self.answered)?;
            if let Installation::Cluster { set, .. } = installation {
                set.database(None)?.purge_binary_logs()?;
            }
        }
        Ok(())
    }

    /// The gate of every result. `gates` were open before the first load: they are asked first, before the audit ends
    /// the servers; but orders that are missing weigh more than a gate that was lost.
    ///
    /// Whoever killed nothing has it [`rest`](Self::rest) first: the connection of that may have died with the database.
    pub(crate) fn close(self, gates: Option<&Gates>, site: &Site) -> anyhow::Result<Audit> {
        let Self { answered, mut receipts, servers, .. } = self;
        let same_gates = gates.map_or(Ok(()), Gates::check);
        let audit = match servers {
            Servers::Own(installation) => installation.close(answered, &mut receipts, &site.stop),
            Servers::Running { audit, .. } => audit.close(answered),
        }?;
        same_gates.map(|()| audit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_server_without_its_token_gets_no_request() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (address, folder) = (listener.local_addr().unwrap(), tempfile::tempdir().unwrap());
        let order = Order::Published { sale: 3, product: 29 };
        let opened = Testbed::running(address, &order, None, &Site::new("doorbuster".into()), folder.path());
        let error = opened.err().expect("it is refused").to_string();
        assert!(error.contains("set DOORBUSTER_OPERATOR_TOKEN"), "{error}");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
