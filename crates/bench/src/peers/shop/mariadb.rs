//! MariaDB under the shop, on its default durability: every commit is synced, and there is no binary log.

use std::net::SocketAddr;

use anyhow::Context;

use super::Order;
use crate::target::engines::expect;
use crate::target::engines::mariadb::{Database, FLUSH_LOG, LOG_BIN};

const DATABASE: &str = "doorbuster";
/// `dev/up` has a binary log by itself, as a database with replicas has; none of the peers has replicas.
pub(super) const OPTIONS: &str = "--skip-log-bin";

pub(super) fn url(address: SocketAddr) -> String {
    format!("root@tcp({address})/{DATABASE}")
}

pub(super) fn check(address: SocketAddr) -> anyhow::Result<()> {
    let found = Database::connect(address, None)?.settings(&[FLUSH_LOG, LOG_BIN])?;
    expect("MariaDB", FLUSH_LOG, &found[FLUSH_LOG], "1")?;
    expect("MariaDB", LOG_BIN, &found[LOG_BIN], "0")
}

pub(super) fn open(address: SocketAddr, product: u64, units: u64) -> anyhow::Result<()> {
    Database::connect(address, Some(DATABASE))?
        .execute(&format!("INSERT INTO stock (product, units) VALUES ({product}, {units})"))
}

pub(super) fn orders(address: SocketAddr, product: u64) -> anyhow::Result<Vec<Order>> {
    let query = format!("SELECT id, buyer FROM orders WHERE product = {product}");
    let rows: Vec<(Vec<u8>, String)> = Database::connect(address, Some(DATABASE))?.rows(&query)?;
    let order = |(id, buyer): (Vec<u8>, String)| {
        let hash = u128::from_be_bytes(id.as_slice().try_into().context("16 bytes")?);
        Ok(Order { hash, buyer })
    };
    rows.into_iter().map(order).collect()
}
