//! What can keep the gate from answering, by what it means for the units.

use std::fmt;

/// A request that the gate gave no result for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Surely nothing was changed. Asking again is safe, and may help.
    #[error("the gate did not carry it out: {0}")]
    NotExecuted(Why),
    /// It may have been carried out: the same request again tells.
    #[error("whether the gate carried it out is unknown: {0}")]
    Unknown(Why),
    /// Surely nothing was changed, and nothing will be before this SKU's gate is rebuilt. Never to be told as sold out.
    #[error("the gate of this product must be rebuilt: {0}")]
    Closed(Closed),
}

/// Why a gate of one SKU may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// There is no state: it was never built, or the memory was wiped.
    Lost,
    /// It was closed on purpose, or is being built.
    Fenced,
    /// It was built for another run of Redis: a restart or a fail-over may have lost what was answered before.
    OtherRun,
    /// It was seen in a later state before, so it has lost something; told by this client's memory.
    RanBackwards,
}

impl Closed {
    pub fn as_str(self) -> &'static str {
        match self {
            Closed::Lost => "gate_lost",
            Closed::Fenced => "fenced",
            Closed::OtherRun => "other_run",
            Closed::RanBackwards => "ran_backwards",
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What went wrong between us and Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// No connection could be made.
    Unreachable,
    TimedOut,
    ConnectionLost,
    /// The server is reading its data.
    Loading,
    /// A replica: the master is somewhere else now.
    ReadOnly,
    /// The cluster does not serve the slot.
    ClusterDown,
    /// A slot is being moved, and it took longer than we wait.
    SlotMoving,
    /// Redis refuses writes, because it could not save or append.
    DiskError,
    /// A script runs for too long.
    Busy,
    OutOfMemory,
    /// Password, user or permission.
    Denied,
    /// A replica whose master is away.
    MasterDown,
    /// Fewer replicas than `min-replicas-to-write` are in touch.
    NoReplicas,
    /// The scripts could not be loaded.
    ScriptMissing,
    /// The answer is of an older state than one that was seen before: what it says can't be relied upon.
    RanBackwards,
    /// The request breaks a bound.
    Invalid(&'static str),
    /// An answer that we do not know; the text is the server's.
    Unexpected(Box<str>),
}

impl Why {
    /// A short stable name, for metrics and logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Why::Unreachable => "unreachable",
            Why::TimedOut => "timed_out",
            Why::ConnectionLost => "connection_lost",
            Why::Loading => "loading",
            Why::ReadOnly => "read_only",
            Why::ClusterDown => "cluster_down",
            Why::SlotMoving => "slot_moving",
            Why::DiskError => "disk_error",
            Why::Busy => "busy",
            Why::OutOfMemory => "out_of_memory",
            Why::Denied => "denied",
            Why::MasterDown => "master_down",
            Why::NoReplicas => "no_replicas",
            Why::ScriptMissing => "script_missing",
            Why::RanBackwards => "ran_backwards",
            Why::Invalid(_) => "invalid",
            Why::Unexpected(_) => "unexpected",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Invalid(text) => write!(f, "invalid: {text}"),
            Why::Unexpected(text) => write!(f, "unexpected answer: {text}"),
            other => f.write_str(other.as_str()),
        }
    }
}
