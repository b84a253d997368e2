//! Doorbuster's embedded profile, on its default settings, and the orders in its ledger's file.

use std::net::SocketAddr;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use super::{Order, Peer};
use crate::drivers::http::traffic;
use crate::host::usage::Watched;
use crate::target::installation::Site;
use crate::target::{Setup, Target};

#[derive(Debug)]
pub(super) struct Doorbuster {
    target: Target,
    /// The ledger's last number before the product that is on sale.
    opened_after: i64,
}

impl Doorbuster {
    pub(super) fn start(site: &Site, folder: &Path) -> anyhow::Result<Self> {
        let setup = Setup { demo: false, settings: "", stop: &site.stop };
        Ok(Self { target: Target::start(&site.program, folder, setup)?, opened_after: 0 })
    }

    fn ledger(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(self.target.data_dir().join("ledger.db"), flags)
    }
}

impl Peer for Doorbuster {
    fn address(&self) -> SocketAddr {
        self.target.address()
    }

    fn watched(&self) -> anyhow::Result<Vec<Watched>> {
        Ok(vec![Watched::new("server", self.target.pid())])
    }

    fn open(&mut self, product: u64, units: u64) -> anyhow::Result<()> {
        let last = "SELECT coalesce(max(seq), 0) FROM orders";
        self.opened_after = self.ledger()?.query_row(last, [], |row| row.get(0))?;
        self.target.operate("/api/v1/sales", &traffic::sale(product, product, units, 1), 201)?;
        Ok(())
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        self.target.kill()
    }

    fn start_again(&mut self) -> anyhow::Result<()> {
        self.target.start_again()
    }

    fn orders(&mut self, _product: u64) -> anyhow::Result<Vec<Order>> {
        let ledger = self.ledger()?;
        let mut statement = ledger.prepare("SELECT hash, buyer FROM orders WHERE seq > ?1")?;
        let order = |row: &rusqlite::Row<'_>| {
            let buyer: Value = row.get(1)?;
            Ok(Order { hash: u128::from_be_bytes(row.get(0)?), buyer: format!("{buyer:?}") })
        };
        let orders = statement.query_map([self.opened_after], order)?;
        Ok(orders.collect::<rusqlite::Result<_>>()?)
    }
}
