//! Numbers of requests and answers, and what an answer to a send says about the batch.

pub(super) const PULL_MESSAGE: i32 = 11;
pub(super) const UPDATE_AND_CREATE_TOPIC: i32 = 17;
pub(super) const GET_ALL_TOPIC_CONFIG: i32 = 21;
pub(super) const GET_BROKER_CONFIG: i32 = 26;
pub(super) const GET_BROKER_RUNTIME_INFO: i32 = 28;
pub(super) const GET_MAX_OFFSET: i32 = 30;
pub(super) const GET_MIN_OFFSET: i32 = 31;
pub(super) const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
pub(super) const UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: i32 = 200;
pub(super) const GET_ALL_SUBSCRIPTIONGROUP_CONFIG: i32 = 201;
pub(super) const SEND_BATCH_MESSAGE: i32 = 320;
pub(super) const GET_TOPIC_CONFIG: i32 = 351;
pub(super) const GET_SUBSCRIPTIONGROUP_CONFIG: i32 = 352;

pub(super) const SUCCESS: i32 = 0;
pub(super) const SYSTEM_ERROR: i32 = 1;
pub(super) const SYSTEM_BUSY: i32 = 2;
pub(super) const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
pub(super) const MESSAGE_ILLEGAL: i32 = 13;
pub(super) const SERVICE_NOT_AVAILABLE: i32 = 14;
pub(super) const VERSION_NOT_SUPPORTED: i32 = 15;
pub(super) const NO_PERMISSION: i32 = 16;
pub(super) const TOPIC_NOT_EXIST: i32 = 17;
pub(super) const PULL_NOT_FOUND: i32 = 19;
pub(super) const PULL_RETRY_IMMEDIATELY: i32 = 20;
pub(super) const PULL_OFFSET_MOVED: i32 = 21;
pub(super) const SUBSCRIPTION_GROUP_NOT_EXIST: i32 = 26;
pub(super) const INVALID_PARAMETER: i32 = 29;
pub(super) const GO_AWAY: i32 = 1500;

/// What the answer to a send says about the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeMeaning {
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
pub(super) fn verdict(code: i32) -> CodeMeaning {
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

/// What a refusal of whoever asks means, and the key to change. Brokers of 4.x answer it as any error of theirs.
pub(super) fn refusal(code: i32, remark: &str, signed: bool) -> Option<String> {
    if code != NO_PERMISSION && !(code == SYSTEM_ERROR && remark.contains("AclException")) {
        return None;
    }
    let advice = if signed {
        "check queue.access_key and queue.secret_key_file, and what that key may do"
    } else {
        "set queue.access_key and queue.secret_key_file"
    };
    Some(format!("it refuses us with code {code}: {remark}; {advice}"))
}

/// Whether the broker will say the same to the next batch, for a while.
pub(super) fn is_unwilling(code: i32) -> bool {
    matches!(code, SERVICE_NOT_AVAILABLE | GO_AWAY)
}
