//! What can keep the gate from answering, by what it means for the units.

use std::fmt;

/// A request that the gate gave no result for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Surely nothing was changed. Asking again is safe, and may help.
    #[error("the gate did not carry it out: {0}")]
    NotExecuted(Why),
    /// It may have been carried out: the same request again shows it.
    #[error("whether the gate carried it out is unknown: {0}")]
    Unknown(Why),
    /// Surely nothing was changed, and nothing will be before this SKU's gate is rebuilt, its clock set, or
    /// what it knows of the sale what the asker knows. Never to be answered as sold out.
    #[error("the gate of this product is closed: {0}")]
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
    /// It was seen in a later state before, so it has lost something; known by this client's memory.
    RanBackwards,
    /// An older release built it: it is rebuilt.
    OlderFormat,
    /// A newer release built it, in this format: it is left alone.
    NewerFormat(u64),
    /// The clock of its Redis, so far ahead of ours (negative: behind), decides nothing. Not rebuilt: it sells again when the
    /// clocks agree.
    WrongClock { ahead_ms: i64 },
    /// It has another limit for a buyer than the asker: one of the two has not heard yet of a change before the start.
    OtherLimit,
}

/// Of the gate's state that this release builds and uses, see redis/lua/prelude.lua.
pub(crate) const GATE_FORMAT: u8 = 2;

impl Closed {
    /// Of a gate whose format is not ours.
    pub(crate) fn of_format(found: u64) -> Closed {
        if found < u64::from(GATE_FORMAT) { Closed::OlderFormat } else { Closed::NewerFormat(found) }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Closed::Lost => "gate_lost",
            Closed::Fenced => "fenced",
            Closed::OtherRun => "other_run",
            Closed::RanBackwards => "ran_backwards",
            Closed::OlderFormat => "older_format",
            Closed::NewerFormat(_) => "newer_format",
            Closed::WrongClock { .. } => "wrong_clock",
            Closed::OtherLimit => "other_limit",
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::OlderFormat => {
                write!(
                    f,
                    "it has format 1, of an older doorbuster, and this one uses format {GATE_FORMAT}; it is rebuilt"
                )
            }
            Closed::NewerFormat(found) => write!(
                f,
                "it has format {found}, of a newer doorbuster, and this one uses format {GATE_FORMAT}; stop this one, and \
                 start the newer one in its place"
            ),
            Closed::WrongClock { ahead_ms } => {
                write!(f, "the clock of its Redis is {ahead_ms} ms ahead of ours")
            }
            Closed::OtherLimit => f.write_str(
                "it knows another limit per buyer than this server: one of the two has not heard of the latest change yet",
            ),
            closed => f.write_str(closed.as_str()),
        }
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
    /// Password, user or permission; the text is the server's.
    Denied(Box<str>),
    /// Of the connection itself: what was wrong with it, and which key of the configuration to change.
    Refused(Box<str>),
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

/// What to do about a refusal of ours.
const DENIED: &str = "check gate.user and gate.password_file, and what that user may do";

/// For operators: what Redis said, in words.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Unreachable => "no connection can be made (gate.addresses)",
            Why::TimedOut => "it does not answer in time",
            Why::ConnectionLost => "the connection was lost",
            Why::Loading => "it is loading its data (LOADING)",
            Why::ReadOnly => {
                "it is a replica: name its master in gate.addresses, or set gate.mode = \"sentinel\""
            }
            Why::ClusterDown => "the cluster does not serve every slot (CLUSTERDOWN)",
            Why::SlotMoving => "a slot is being moved",
            Why::DiskError => "it refuses writes, because it can't save to its disk (MISCONF)",
            Why::Busy => "a script runs in it for too long (BUSY)",
            Why::OutOfMemory => "its memory is full: maxmemory is reached (OOM)",
            Why::Denied(text) => return write!(f, "it refuses us: {text}; {DENIED}"),
            Why::Refused(text) => text,
            Why::MasterDown => "it is a replica whose master is away (MASTERDOWN)",
            Why::NoReplicas => "fewer replicas are in touch than min-replicas-to-write (NOREPLICAS)",
            Why::ScriptMissing => "the scripts can't be loaded",
            Why::RanBackwards => "it answered from an older state than was seen before",
            Why::Invalid(text) => return write!(f, "invalid: {text}"),
            Why::Unexpected(text) if text.contains("unknown command 'CLUSTER'") => {
                return write!(f, "{text}; if it is a Sentinel, set gate.mode = \"sentinel\"");
            }
            Why::Unexpected(text) if text.contains("cluster support disabled") => {
                return write!(f, "{text}; set gate.mode = \"single\"");
            }
            Why::Unexpected(text) => return write!(f, "unexpected answer: {text}"),
        })
    }
}
