//! Numbers of requests and answers, and what an answer to a send says about the batch.

pub const PULL_MESSAGE: i32 = 11;
pub const UPDATE_AND_CREATE_TOPIC: i32 = 17;
pub const GET_ALL_TOPIC_CONFIG: i32 = 21;
pub const GET_BROKER_CONFIG: i32 = 26;
pub const GET_BROKER_RUNTIME_INFO: i32 = 28;
pub const GET_MAX_OFFSET: i32 = 30;
pub const GET_MIN_OFFSET: i32 = 31;
pub const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
pub const UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: i32 = 200;
pub const GET_ALL_SUBSCRIPTIONGROUP_CONFIG: i32 = 201;
pub const DELETE_TOPIC_IN_BROKER: i32 = 215;
pub const DELETE_TOPIC_IN_NAME_SERVER: i32 = 216;
pub const SEND_MESSAGE_V2: i32 = 310;
pub const SEND_BATCH_MESSAGE: i32 = 320;
pub const GET_TOPIC_CONFIG: i32 = 351;
pub const GET_SUBSCRIPTIONGROUP_CONFIG: i32 = 352;

pub const SUCCESS: i32 = 0;
pub const SYSTEM_ERROR: i32 = 1;
pub const SYSTEM_BUSY: i32 = 2;
pub const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
pub const MESSAGE_ILLEGAL: i32 = 13;
pub const SERVICE_NOT_AVAILABLE: i32 = 14;
pub const VERSION_NOT_SUPPORTED: i32 = 15;
pub const NO_PERMISSION: i32 = 16;
pub const TOPIC_NOT_EXIST: i32 = 17;
pub const PULL_NOT_FOUND: i32 = 19;
pub const PULL_RETRY_IMMEDIATELY: i32 = 20;
pub const PULL_OFFSET_MOVED: i32 = 21;
pub const SUBSCRIPTION_GROUP_NOT_EXIST: i32 = 26;
pub const INVALID_PARAMETER: i32 = 29;
pub const GO_AWAY: i32 = 1500;

/// What the answer to a send says about the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeMeaning {
    /// Stored as durably as the broker is configured to.
    Stored,
    /// Surely not stored, now or later.
    Refused,
    Unknown,
}

/// Only codes with which every path through the broker ends before it appends are refusals:
/// - `SYSTEM_BUSY`: the request was rejected at the door, or removed from the waiting line before it ran;
/// - `REQUEST_CODE_NOT_SUPPORTED`, `VERSION_NOT_SUPPORTED`, `NO_PERMISSION`, `TOPIC_NOT_EXIST`,
///   `INVALID_PARAMETER`: found before the store is asked (the last one: a queue number that the topic does not have);
/// - `MESSAGE_ILLEGAL`: too long; a batch is encoded whole before a byte is appended;
/// - `SERVICE_NOT_AVAILABLE`: the store looks whether it may write (full disk, shut down, a slave) before it begins;
/// - `GO_AWAY`: the broker is about to stop, and did not look at the request.
///
/// `SYSTEM_ERROR` is what any exception becomes, those after the append too, and so does a file that could not be
/// made. The flush and replication time-outs (10, 11, 12) say that the batch was appended and may yet be lost.
/// Every other code, known or not, says nothing.
pub fn verdict(code: i32) -> CodeMeaning {
    match code {
        SUCCESS => CodeMeaning::Stored,
        SYSTEM_BUSY
        | REQUEST_CODE_NOT_SUPPORTED
        | MESSAGE_ILLEGAL
        | SERVICE_NOT_AVAILABLE
        | VERSION_NOT_SUPPORTED
        | NO_PERMISSION
        | TOPIC_NOT_EXIST
        | INVALID_PARAMETER
        | GO_AWAY => CodeMeaning::Refused,
        _ => CodeMeaning::Unknown,
    }
}

/// Whether the broker will say the same to the next batch, for a while.
pub fn is_unwilling(code: i32) -> bool {
    matches!(code, SERVICE_NOT_AVAILABLE | GO_AWAY)
}
