//! The fields of requests that more than one program makes.

use std::fmt::Display;

use serde::{Serialize, Serializer};

/// Bits of the request: it names its subscription (no consumer has registered one), and it may be held.
const FLAG_SUBSCRIPTION: u32 = 4;
const FLAG_HOLD: u32 = 2;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PullFields<'a> {
    consumer_group: &'a str,
    topic: &'a str,
    #[serde(serialize_with = "text")]
    queue_id: u32,
    #[serde(serialize_with = "text")]
    queue_offset: u64,
    #[serde(serialize_with = "text")]
    max_msg_nums: usize,
    #[serde(serialize_with = "text")]
    sys_flag: u32,
    commit_offset: &'static str,
    #[serde(serialize_with = "text")]
    suspend_timeout_millis: u128,
    subscription: &'static str,
    sub_version: &'static str,
    expression_type: &'static str,
}

impl<'a> PullFields<'a> {
    /// At most `messages` from this offset on; held for so long if there are none.
    pub fn new(
        (group, topic): (&'a str, &'a str),
        (queue, offset): (u32, u64),
        messages: usize,
        hold_ms: u128,
    ) -> PullFields<'a> {
        PullFields {
            consumer_group: group,
            topic,
            queue_id: queue,
            queue_offset: offset,
            max_msg_nums: messages,
            sys_flag: FLAG_SUBSCRIPTION | if hold_ms > 0 { FLAG_HOLD } else { 0 },
            commit_offset: "0",
            suspend_timeout_millis: hold_ms,
            subscription: "*",
            sub_version: "0",
            expression_type: "TAG",
        }
    }
}

/// For the oldest and the newest offset.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OffsetFields<'a> {
    pub topic: &'a str,
    #[serde(serialize_with = "text")]
    pub queue_id: u32,
}

/// For the brokers of a topic.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteFields<'a> {
    topic: &'a str,
    /// Without it the keys of maps are numbers without quotes.
    accept_standard_json_only: &'static str,
}

impl<'a> RouteFields<'a> {
    pub fn new(topic: &'a str) -> RouteFields<'a> {
        RouteFields { topic, accept_standard_json_only: "true" }
    }
}

/// A field as the text that the protocol wants for every value.
pub fn text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
