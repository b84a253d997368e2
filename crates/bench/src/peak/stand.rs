//! What is searched: a server of our own, a cluster of our own, or one that runs already; its buyers, and what they were
//! told.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::{Order, PeakOptions, PeakTarget};
use crate::audit::Told;
use crate::audit::invariants::{self, Stock};
use crate::audit::receipts::Receipts;
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
        operator: Option<String>,
        orders_before: u64,
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
                running(*address, order, operator_token.as_deref())?
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

    /// The gate of every result. `None`: the ledger of a running server can't be read from here.
    pub(super) fn close(mut self, stop: &AtomicBool) -> anyhow::Result<Option<Audit>> {
        self.rest()?;
        let Self { told, mut receipts, servers, .. } = self;
        match servers {
            Servers::Embedded(mut target) => {
                let stock = Stock { server: target.address(), product: OWN_PRODUCT };
                let audit = invariants::embedded(&target.data_dir(), stock, told, &mut receipts)?;
                target.stop()?;
                target.audit()?;
                Ok(Some(audit))
            }
            Servers::Cluster { shop, set } => {
                let stock = Stock { server: shop.addresses()[0], product: OWN_PRODUCT };
                let mut ledger = shop.ledger(&set)?;
                invariants::wait_until_still(&mut ledger, told, stop)?;
                let mut audit = invariants::cluster(&mut ledger, stock, told, &mut receipts)?;
                (*shop).close()?;
                audit.method.push_str("; gate, queue and ledger compared by the program's own audit");
                Ok(Some(audit))
            }
            Servers::Running { address, operator: Some(token), orders_before } => {
                running_audit(address, &token, orders_before, told).map(Some)
            }
            Servers::Running { operator: None, .. } => Ok(None),
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
    let target = Target::start(&options.program, &folder, Setup { demo: false, settings: "" })?;
    target.operate("/api/v1/sales", &sale(), 201)?;
    Ok(Servers::Embedded(target))
}

fn cluster(
    options: &PeakOptions,
    folder: &Path,
    servers: usize,
    stop: &AtomicBool,
) -> anyhow::Result<Servers> {
    let place = Place {
        scripts: find_scripts(&options.scripts)?,
        folder: folder.join("engines"),
        port_base: options.port_base,
    };
    let set = EngineSet::start(place, BrokerFlush::Synchronous, stop)?;
    let mut shop = Shop::open(&options.program, &folder.join("servers"), &set)?;
    shop.serve_by(servers)?;
    Ok(Servers::Cluster { shop: Box::new(shop), set })
}

fn running(address: SocketAddr, order: &Order, operator: Option<&str>) -> anyhow::Result<(Servers, Traffic)> {
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
    let orders_before = match operator {
        Some(token) => audit_of(address, token)?.1,
        None => 0,
    };
    let operator = operator.map(str::to_owned);
    Ok((Servers::Running { address, operator, orders_before }, traffic))
}

/// The server's audit of its own ledger, which must be clean; and its orders.
fn audit_of(address: SocketAddr, token: &str) -> anyhow::Result<(Value, u64)> {
    let authorization = format!("Authorization: Bearer {token}");
    let request = once::encode("GET", "/api/v1/audit", &[&authorization], &[]);
    let answer = once::exchange(address, &request).context("asking for the audit")?;
    ensure!(answer.status == 200, "asking for the audit: {}", answer.text());
    let audit: Value = serde_json::from_slice(&answer.body).context("the audit as JSON")?;
    ensure!(audit["clean"] == true && audit["complete"] == true, "AUDIT FAILED: {}", audit["broken"]);
    let orders = audit["orders"].as_u64().context("the audit's count of orders")?;
    Ok((audit, orders))
}

/// From outside only sums can be had: its own audit, and that it has as many orders more as were acknowledged.
fn running_audit(address: SocketAddr, token: &str, before: u64, told: Told) -> anyhow::Result<Audit> {
    let (audit, after) = audit_of(address, token)?;
    let orders = after.checked_sub(before).context("AUDIT FAILED: the ledger lost orders")?;
    told.check(orders)?;
    let skus = audit["skus"].as_array().context("the audit's products")?;
    let sum = |name: &str| -> u64 { skus.iter().filter_map(|sku| sku[name].as_u64()).sum() };
    let (initial, remaining, held, sold) = (sum("total"), sum("available"), sum("held"), sum("sold"));
    ensure!(
        initial == remaining + held + sold,
        "AUDIT FAILED: of {initial} units {remaining} remain, {held} are held and {sold} sold"
    );
    Ok(Audit {
        initial_units: initial,
        remaining_units: remaining,
        held_units: held,
        sold_units: sold,
        accepted: told.accepted,
        unknown: told.unknown,
        orders,
        method:
            "the server's own audit, and its count of orders before and after: nobody else may have ordered"
                .to_owned(),
    })
}
