//! What fuzz/targets give bytes to. Built for them alone.

use engine::SkuId;
use redis::Value;

use super::reply::{ScriptReply, bytes, judge};
use crate::gate::mark::MarkBytes;

/// What a Redis answers: to a script, as an error, and as a mark.
pub fn replies(data: &[u8]) {
    if let Some(mark) = MarkBytes::parse(data) {
        drop(mark.found(SkuId(1), &[7; 16]));
    }
    match redis::parse_redis_value(data) {
        Ok(Value::ServerError(error)) => drop(judge(&error)),
        Ok(value) => {
            if let Ok(reply) = ScriptReply::read(value) {
                drop(reply.number());
                drop(reply.bytes());
                if let Some(mark) = reply.rest.first().and_then(bytes).and_then(MarkBytes::parse) {
                    drop(mark.found(SkuId(1), &[7; 16]));
                }
            }
        }
        Err(_) => {}
    }
}
