//! The servers of one row, with its settings, their buyers, and the answers that these got.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};

use super::DurabilityOptions;
use super::combination::Combination;
use crate::audit::Answered;
use crate::audit::invariants::{self, Matched};
use crate::audit::receipts::{Kept, Receipts};
use crate::drivers::http::Http;
use crate::drivers::http::traffic::{BUYER_FIRST, Traffic};
use crate::load::record::Record;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Settings, Trial};
use crate::measure::{Surroundings, trial};
use crate::report::model::Audit;
use crate::target::TOKEN_SECRET;
use crate::target::installation::Installation;

/// The system under test, its buyers, and the answers that they got.
pub(super) struct DurabilityTestbed {
    pub(super) traffic: Traffic,
    pub(super) answered: Answered,
    pub(super) receipts: Receipts,
    pub(super) installation: Installation,
}

impl DurabilityTestbed {
    pub(super) fn open(options: &DurabilityOptions, folder: &Path, row: Combination) -> anyhow::Result<Self> {
        let installation = match row {
            Combination::Embedded(synchronous) => {
                let settings = format!("[ledger]\nsynchronous = \"{}\"\n", synchronous.setting());
                let installation = Installation::embedded(&options.site, folder, &settings)?;
                for found in installation.settings()? {
                    for name in ["ledger synchronous", "ledger checkpoint_synchronous"] {
                        found.expect(name, synchronous.setting())?;
                    }
                }
                installation
            }
            Combination::Cluster(flushes) => Installation::cluster(&options.site, folder, flushes, 1)?,
        };
        let receipts = Receipts::create(&folder.join("receipts")).context("the receipts' file")?;
        let traffic = Traffic::own(TOKEN_SECRET, BUYER_FIRST);
        Ok(Self { traffic, answered: Answered::default(), receipts, installation })
    }

    /// A closed loop.
    pub(super) fn load(&mut self, options: &DurabilityOptions, repeat: usize) -> anyhow::Result<Trial> {
        let addresses = self.installation.addresses();
        let watched = self.installation.watched();
        let mut kept = Kept { inner: &mut self.traffic, receipts: &mut self.receipts };
        let mut http = Http { workload: &mut kept };
        let mut generator = Generator::connect(Settings::spread(addresses, options.users), &mut http)
            .context("connecting to the server")?;
        let around = Surroundings {
            watched: &watched,
            disk: None,
            co_located: true,
            stop: &options.site.stop,
            progress: Some(&options.site.progress),
        };
        let trial = trial(&mut generator, Schedule::closed(options.load), &mut http, repeat, around)?;
        self.answered.add_outcomes(&trial.outcomes);
        self.installation.drain(self.answered)?;
        let surprise = trial.first_surprise.as_deref().unwrap_or("no answer at all");
        ensure!(trial.outcomes.won > 0, "no order was accepted: {surprise}");
        Ok(trial)
    }

    /// Orders in the ledger now.
    pub(super) fn orders(&self) -> anyhow::Result<u64> {
        self.installation.ledger()?.count()
    }

    /// Looks up the receipts from number `first` on.
    pub(super) fn look_up(&mut self, first: u64) -> anyhow::Result<Matched> {
        let mut ledger = self.installation.ledger()?;
        let orders = ledger.count()?;
        invariants::compare(&mut *ledger, orders, &mut self.receipts, first)
    }

    /// The audit as a gate.
    pub(super) fn close(self, stop: &AtomicBool) -> anyhow::Result<Audit> {
        let Self { answered, mut receipts, installation, .. } = self;
        installation.close(answered, &mut receipts, stop)
    }
}

pub(super) fn surprise(record: &Record) -> String {
    let first = record.first_surprise.as_deref().unwrap_or("none");
    format!("{:?}; the first other answer was: {first}", record.outcomes)
}
