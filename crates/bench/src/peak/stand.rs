//! What is searched: a server of our own, a cluster of our own, or one that runs already; its buyers, and what they were
//! told.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::{Order, PeakOptions, PeakTarget};
use crate::audit::Told;
use crate::audit::invariants::{self, Stock};
use crate::audit::receipts::Receipts;
use crate::audit::running::Running;
use crate::cluster::shop::Shop;
use crate::drivers::http::once;
use crate::engines::{BrokerFlush, EngineSet, Place, find_scripts};
use crate::report::model::Audit;
use crate::target::{Setup, TOKEN_SECRET, Target};
use crate::token;
use crate::traffic::{BUYER_FIRST, OWN_PRODUCT, OWN_SALE, Traffic};
use crate::usage::Watched;

/// More than a search can sell.
const UNITS: u64 = 100_000_000;
/// No hold of the search may expire within it: expiring is work that is not measured here.
const PAYMENT_S: u64 = 12 * 3600;
const SALE_LIFE_MS: u64 = 24 * 3600 * 1000;

pub(super) struct Stand {
    pub(super) traffic: Traffic,
    pub(super) told: Told,
    pub(super) receipts: Receipts,
    servers: Servers,
}

enum Servers {
    Embedded(Target),
    /// Servers before the engines under them, for the order in which they are dropped.
    Cluster {
        shop: Box<Shop>,
        set: EngineSet,
    },
    Running {
        address: SocketAddr,
        audit: Running,
    },
}

impl Stand {
    pub(super) fn open(options: &PeakOptions, folder: &Path) -> anyhow::Result<Self> {
        let (servers, traffic) = match &options.target {
            PeakTarget::Embedded => (embedded(options, folder)?, Traffic::own(TOKEN_SECRET, BUYER_FIRST)),
            PeakTarget::Cluster { servers } => {
                let servers = cluster(options, folder, *servers, &options.stop)?;
                (servers, Traffic::own(TOKEN_SECRET, BUYER_FIRST))
            }
            PeakTarget::Running { address, order, operator_token } => {
                running(*address, order, operator_token.as_deref(), &options.stop)?
            }
        };
        let receipts = Receipts::create(&folder.join("receipts")).context("the receipts' file")?;
        Ok(Self { traffic, told: Told::default(), receipts, servers })
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        match &self.servers {
            Servers::Embedded(target) => vec![target.address()],
            Servers::Cluster { shop, .. } => shop.addresses(),
            Servers::Running { address, .. } => vec![*address],
        }
    }

    pub(super) fn watched(&self) -> Vec<Watched> {
        match &self.servers {
            Servers::Embedded(target) => vec![Watched::new("server", target.pid())],
            Servers::Cluster { shop, set } => {
                let mut watched = shop.watched();
                watched.extend(set.all_watched());
                watched
            }
            Servers::Running { .. } => Vec::new(),
        }
    }

    /// The generator shares the machine with what it measures.
    pub(super) fn is_local(&self) -> bool {
        self.addresses().iter().all(|address| address.ip().is_loopback())
    }

    /// Between two trials: what was accepted is taken in, so that no trial pays for the one before.
    pub(super) fn rest(&mut self) -> anyhow::Result<()> {
        if let Servers::Cluster { shop, set } = &mut self.servers {
            shop.told = self.told;
            shop.drain()?;
            set.database(None)?.purge_binary_logs()?;
        }
        Ok(())
    }

    /// The gate of every result.
    pub(super) fn close(mut self, stop: &AtomicBool) -> anyhow::Result<Audit> {
        self.rest()?;
        let Self { told, mut receipts, servers, .. } = self;
        match servers {
            Servers::Embedded(mut target) => {
                let stock = Stock { server: target.address(), product: OWN_PRODUCT };
                let audit = invariants::embedded(&target.data_dir(), stock, told, &mut receipts)?;
                target.stop()?;
                target.audit()?;
                Ok(audit)
            }
            Servers::Cluster { shop, set } => {
                let stock = Stock { server: shop.addresses()[0], product: OWN_PRODUCT };
                let mut ledger = shop.ledger(&set)?;
                invariants::wait_until_still(&mut ledger, told, stop)?;
                let mut audit = invariants::cluster(&mut ledger, stock, told, &mut receipts)?;
                (*shop).close()?;
                audit.method.push_str("; gate, queue and ledger compared by the program's own audit");
                Ok(audit)
            }
            Servers::Running { audit, .. } => audit.close(told),
        }
    }
}

fn sale() -> Value {
    let now_ms = token::unix_s() * 1000;
    json!({
        "id": OWN_SALE, "title": "Benchmark", "currency": "EUR",
        "starts_at_ms": now_ms - 1000, "ends_at_ms": now_ms + SALE_LIFE_MS,
        "payment_s": PAYMENT_S, "open_holds_per_buyer_max": 0,
        "items": [{
            "product": OWN_PRODUCT, "title": "Measured thing", "price": 4999, "list_price": 9999,
            "total": UNITS, "limit": 1,
        }],
    })
}

fn embedded(options: &PeakOptions, folder: &Path) -> anyhow::Result<Servers> {
    let folder = folder.join("server");
    std::fs::create_dir(&folder).context("the server's folder")?;
    let target =
        Target::start(&options.program, &folder, Setup { demo: false, settings: "", stop: &options.stop })?;
    target.operate("/api/v1/sales", &sale(), 201)?;
    Ok(Servers::Embedded(target))
}

fn cluster(
    options: &PeakOptions,
    folder: &Path,
    servers: usize,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Servers> {
    let place = Place {
        scripts: find_scripts(&options.scripts)?,
        folder: folder.join("engines"),
        port_base: options.port_base,
    };
    let set = EngineSet::start(place, BrokerFlush::Synchronous, stop)?;
    let mut shop = Shop::open(&options.program, &folder.join("servers"), &set, stop)?;
    shop.serve_by(servers)?;
    Ok(Servers::Cluster { shop: Box::new(shop), set })
}

fn running(
    address: SocketAddr,
    order: &Order,
    operator: Option<&str>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<(Servers, Traffic)> {
    let audit = Running::open(address, operator, stop)?;
    let ready = once::exchange(address, &once::encode("GET", "/readyz", &[], &[]))
        .with_context(|| format!("asking {address} whether it is ready"))?;
    ensure!(ready.status == 200, "the server on {address} is not ready: {}", ready.text());
    let traffic = match order {
        Order::Published { sale, product } => Traffic::published_of(*sale, *product),
        Order::Own { token_secret } => {
            let operator = operator.context(
                "orders of the own API need the operator's token, to create the sale that they are placed in",
            )?;
            let authorization = format!("Authorization: Bearer {operator}");
            let body = sale().to_string();
            let request = once::encode("POST", "/api/v1/sales", &[&authorization], body.as_bytes());
            let answer = once::exchange(address, &request).context("creating the sale")?;
            ensure!(answer.status == 201, "sale {OWN_SALE} can't be created: {}", answer.text());
            Traffic::own(token_secret, BUYER_FIRST)
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
        let opened = Stand::open(&PeakOptions::new("doorbuster".into(), target), folder.path());
        let error = opened.err().expect("it is refused").to_string();
        assert!(error.contains("set DOORBUSTER_OPERATOR_TOKEN"), "{error}");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
