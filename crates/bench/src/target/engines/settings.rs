//! The server's configuration that leads it to the engines of a set.

use super::EngineSet;

/// The disk of whoever measures may be fuller than a broker's should be; at 90% the broker itself takes nothing.
const BROKER_DISK_PERCENT_MAX: u8 = 89;

impl EngineSet {
    /// `[cluster]`, `[gate]`, `[queue]` and `[ledger]`. Nothing is tuned.
    pub(crate) fn cluster_settings(
        &self,
        prefix: &str,
        topic: &str,
        database: &str,
    ) -> anyhow::Result<String> {
        Ok(format!(
            "[cluster]\nenabled = true\n\
             [gate]\naddresses = [\"{}\"]\nprefix = \"{prefix}\"\n\
             [queue]\nname_servers = [\"{}\"]\ntopic = \"{topic}\"\n\
             broker_disk_percent_max = {BROKER_DISK_PERCENT_MAX}\n{}",
            self.address("redis")?,
            self.address("rocketmq-namesrv")?,
            self.ledger_settings(database)?,
        ))
    }

    /// `[ledger]`.
    pub(crate) fn ledger_settings(&self, database: &str) -> anyhow::Result<String> {
        Ok(format!(
            "[ledger]\nbackend = \"mysql\"\nmysql_address = \"{}\"\nmysql_user = \"root\"\n\
             mysql_database = \"{database}\"\n",
            self.address("mariadb")?
        ))
    }
}
