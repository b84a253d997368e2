//! What fuzz/targets give bytes to. Built for them alone.

use rocketmq::frame::{Parsed, parse};
use rocketmq::stored;

use crate::queue::message;

/// A broker's stream: every frame of it, and the messages that an answer may hold.
pub fn frames(data: &[u8]) {
    let mut rest = data;
    loop {
        let bytes = match parse(rest) {
            Ok(Parsed::Answer(answer, bytes)) => {
                stored::messages(&answer.body).for_each(drop);
                drop(answer.number("maxOffset"));
                bytes
            }
            Ok(Parsed::Other(bytes)) => bytes,
            Ok(Parsed::Partial) | Err(_) => break,
        };
        assert!((1..=rest.len()).contains(&bytes), "a frame takes what it has");
        rest = &rest[bytes..];
    }
    stored::messages(data).for_each(drop);
}

/// An order on its way: whatever is read is written the same, byte for byte.
pub fn messages(data: &[u8]) {
    if let Ok(order) = message::decode(data) {
        let mut again = Vec::new();
        message::encode(&order, &mut again);
        assert_eq!(again, data);
    }
}
