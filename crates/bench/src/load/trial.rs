//! One run of the load as reports keep it: outcomes, distributions, what it cost, and whether it is to be believed.

use serde::{Deserialize, Serialize};

pub use super::distribution::{Distribution, Quantile};
use super::outcome::Outcomes;
use super::record::Record;
use super::schedule::Schedule;
pub use super::series::Second;
use crate::host::usage::Usage;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    pub repeat: usize,
    /// `closed loop, 100 users`, `Poisson, 5000/s`.
    pub arrivals: String,
    /// From the first request's send to the last answer.
    pub seconds: f64,
    pub outcomes: Outcomes,
    /// Due, and never sent.
    pub unsent: u64,
    pub reconnects: u64,
    /// Answers followed by bytes that belong to no answer: the target does not speak as it should.
    #[serde(default)]
    pub stray_answers: u64,
    /// Attempts after the first, and buyers who had no further one: see [`Retries`](super::schedule::Retries).
    #[serde(default)]
    pub retries: u64,
    #[serde(default)]
    pub gave_up: u64,
    /// From the planned send: what a buyer waits.
    pub response: Distribution,
    /// From the actual send: what the target takes.
    pub service: Distribution,
    /// From the planned to the actual send: the generator's own lateness, and waiting for a free connection.
    pub send_lag: Distribution,
    /// The first of the two alone, by request.
    #[serde(default)]
    pub generator_lag: Distribution,
    pub seconds_series: Vec<Second>,
    /// Seconds from the run's start to the last good answer.
    #[serde(default)]
    pub last_good_s: Option<f64>,
    /// Processor time of the generator, the engines and the servers.
    pub usage: Option<Usage>,
    pub flags: Vec<Flag>,
    pub first_surprise: Option<String>,
}

/// What a reader must know of a trial; see [`Flag::invalidates`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Flag {
    /// The generator shares the machine with the target.
    CoLocated,
    /// An open loop wanted more requests in flight than the cap allows.
    InFlightCap { cap: u64, times: u64 },
    /// The generator itself was late: p99 of the send lag over a tenth of the latency limit.
    SendLag { p99_us: u64, most_us: u64 },
    /// A thread of the generator used more than this of its processor, and the target is elsewhere.
    GeneratorBusy { share: f64, most: f64 },
    /// Time that the hypervisor gave to others, and the target is elsewhere.
    Steal { share: f64, most: f64 },
    /// So many were refused by admission, failed or are unknown: the times are of all answers, carried or not.
    NotCarried { requests: u64, of: u64 },
    /// Work that is not ours used so many processors of this machine: the figures stay, and may not be quoted.
    Disturbed { processors: f64, most: f64 },
    /// Requests that were due and never sent, because nothing answered any more.
    Unsent { requests: u64 },
    /// The last answers of a closed loop came so long after its time was up that the rate is too low by this part.
    SlowTail { seconds: f64, share: f64, most: f64 },
    /// Answers were longer than they said: what was counted may belong to another request.
    Stray { answers: u64 },
}

impl Flag {
    /// Its figures say nothing about the target. Other flags are to be read beside the figures.
    pub fn invalidates(&self) -> bool {
        self.forbids_quoting() && !matches!(self, Self::Disturbed { .. })
    }

    /// Nothing of the report may be quoted as a result: its figures are left out, or stand there with a warning.
    pub fn forbids_quoting(&self) -> bool {
        !matches!(self, Self::CoLocated | Self::NotCarried { .. })
    }
}

impl Trial {
    pub fn is_valid(&self) -> bool {
        !self.flags.iter().any(Flag::invalidates)
    }

    /// Requests that were not carried, and all of them, if they were too many: see [`Flag::NotCarried`].
    pub fn not_carried(&self) -> Option<(u64, u64)> {
        self.flags.iter().find_map(|flag| match flag {
            Flag::NotCarried { requests, of } => Some((*requests, *of)),
            _ => None,
        })
    }

    /// Without flags: see `measure.rs`.
    pub fn new(repeat: usize, schedule: &Schedule, record: &Record, usage: Option<Usage>) -> Self {
        Self {
            repeat,
            arrivals: schedule.to_string(),
            seconds: record.elapsed.as_secs_f64(),
            outcomes: record.outcomes,
            unsent: record.unsent,
            reconnects: record.reconnects,
            stray_answers: record.stray_answers,
            retries: record.retries,
            gave_up: record.gave_up,
            response: record.response(),
            service: record.service(),
            send_lag: record.send_lag(),
            generator_lag: record.generator_lag(),
            seconds_series: record.seconds.clone(),
            last_good_s: record.last_good.map(|last| last.as_secs_f64()),
            usage,
            flags: Vec::new(),
            first_surprise: record.first_surprise.clone(),
        }
    }

    /// Orders won, reads served and messages queued, per second. Refusals are not among them.
    pub fn good_per_s(&self) -> f64 {
        self.outcomes.good() as f64 / self.seconds.max(1e-9)
    }
}
