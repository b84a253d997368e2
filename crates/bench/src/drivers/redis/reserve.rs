//! The server's own reserve script, driven as plain commands: how a gate's state is made. What its answers mean is judged
//! with those of all commands.
//!
//! The text of the script is the server's file, taken in when this program is built: what is measured is what sells.
//! Everything else about it is written down here a second time, from the comments of that file, so that a change of
//! its layout that breaks its callers is found.

use anyhow::ensure;

use super::command::{Expect, Piece, RedisCommand};

/// The first line makes Redis refuse it with a full memory before it has written anything.
pub const SCRIPT: &str =
    concat!("#!lua\n", include_str!("../../../../server/src/gate/redis/lua/reserve.lua"));
const RUN_BYTES: usize = 40;
/// See `prelude.lua` beside the script.
const GATE_FORMAT: u8 = 2;
const EPOCH: u64 = 1;
/// Milliseconds since 1970: the window is open in any year that this runs in.
const ENDS_MS: u64 = 1 << 52;
/// Bytes of what a caller keeps with a reservation; the whole order has about so many.
const RECORD_BYTES: usize = 100;

/// A SKU's stock as the script keeps it.
#[derive(Debug, Clone)]
pub struct Gate {
    /// The keys' common part: in a cluster they are of one slot.
    pub tag: String,
    pub units: u64,
    pub buyers: u64,
    /// Units per buyer; 0 is no limit.
    pub limit: u32,
}

impl Gate {
    /// State, marks, open reservations, buyers.
    pub fn keys(&self) -> [String; 4] {
        ["s", "k", "t", "b"].map(|kind| format!("{{{}}}:{kind}", self.tag))
    }

    /// The command that makes the gate, open from now on. The name of the run is our own: only the script compares it.
    pub fn making(&self) -> Vec<Vec<u8>> {
        let mut gate = run();
        // Open and selling.
        gate.extend_from_slice(b"Ol");
        for number in [EPOCH, 0, ENDS_MS] {
            gate.extend_from_slice(&number.to_be_bytes());
        }
        gate.extend_from_slice(&self.limit.to_be_bytes());
        gate.push(GATE_FORMAT);
        let [state, ..] = self.keys();
        let units = self.units.to_string();
        let words: [&[u8]; 8] =
            [b"HSET", state.as_bytes(), b"gate", &gate, b"seq", b"1", b"avail", units.as_bytes()];
        words.map(<[u8]>::to_vec).to_vec()
    }

    /// One order of `units` units by a random buyer, its id never seen before.
    ///
    /// # Errors
    /// If the units don't fit the three bytes that the mark has for them, or are none.
    pub fn order(&self, sha: &str, units: u32) -> anyhow::Result<RedisCommand> {
        let bytes = units.to_be_bytes();
        ensure!(units > 0 && bytes[0] == 0, "an order has 1 to 2^24 - 1 units, not {units}");
        let text = |text: &[u8]| vec![Piece::Text(text.to_vec())];
        let mut words = vec![text(b"EVALSHA"), text(sha.as_bytes()), text(b"4")];
        words.extend(self.keys().map(|key| text(key.as_bytes())));
        words.push(text(&run()));
        // No time, so that clocks are not compared; and no gate before this one.
        words.extend([text(b"0"), text(self.limit.to_string().as_bytes()), text(b"0")]);
        words.push(vec![Piece::Random(16)]);
        words.push(vec![Piece::Random(8), Piece::Text(bytes[1..].to_vec()), Piece::Below(self.buyers)]);
        words.push(text(&[b'r'; RECORD_BYTES]));
        Ok(RedisCommand::new(words)?.expecting(Expect::Reserve))
    }
}

fn run() -> Vec<u8> {
    b"b".repeat(RUN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_orders_are_refused() {
        let gate = Gate { tag: "t".to_owned(), units: 1, buyers: 1, limit: 0 };
        assert!(gate.order("s", 0).is_err() && gate.order("s", 1 << 24).is_err());
        assert!(gate.order("s", 1).is_ok());
    }
}
