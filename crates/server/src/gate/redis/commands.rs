//! Commands as bytes: packed once, sent to whichever node has their slot.

use engine::{ProductId, SkuId};

use super::scripts::Script;

/// The packed commands of one call, in order.
#[derive(Debug, Default)]
pub(super) struct Commands {
    bytes: Vec<u8>,
    list: Vec<Command>,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    start: usize,
    end: usize,
    slot: u16,
    /// Where the run of the node belongs, which is known only when a node was chosen.
    run_at: Option<usize>,
    /// How much of a batch it is.
    weight: usize,
}

impl Commands {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    pub(super) fn slot(&self, index: usize) -> u16 {
        self.list[index].slot
    }

    /// Appends a script's call; the run, which comes first, is added when the node is known.
    pub(super) fn script(&mut self, script: Script, slot: u16, keys: &[&[u8]], args: &[&[u8]]) {
        let start = self.bytes.len();
        self.header(3 + keys.len() + args.len() + 1);
        self.bulk(b"EVALSHA");
        self.bulk(script.sha().as_bytes());
        self.bulk(decimal(&mut [0; 20], keys.len() as u64));
        keys.iter().for_each(|key| self.bulk(key));
        let run_at = self.bytes.len();
        args.iter().for_each(|arg| self.bulk(arg));
        self.list.push(Command { start, end: self.bytes.len(), slot, run_at: Some(run_at), weight: 1 });
    }

    /// The last one does as much work as so many.
    pub(super) fn weigh(&mut self, weight: usize) {
        self.list.last_mut().expect("it was just appended").weight = weight;
    }

    pub(super) fn weight(&self, index: usize) -> usize {
        self.list[index].weight
    }

    /// Appends a plain command.
    pub(super) fn plain(&mut self, slot: u16, parts: &[&[u8]]) {
        let start = self.bytes.len();
        self.header(parts.len());
        for part in parts {
            self.bulk(part);
        }
        self.list.push(Command { start, end: self.bytes.len(), slot, run_at: None, weight: 1 });
    }

    /// The bytes of one command for a node of this run.
    pub(super) fn write(&self, index: usize, run: &str, into: &mut Vec<u8>) {
        let command = self.list[index];
        let mut start = command.start;
        if let Some(run_at) = command.run_at {
            into.extend_from_slice(&self.bytes[start..run_at]);
            append_bulk(into, run.as_bytes());
            start = run_at;
        }
        into.extend_from_slice(&self.bytes[start..command.end]);
    }

    fn header(&mut self, parts: usize) {
        self.bytes.push(b'*');
        self.bytes.extend_from_slice(decimal(&mut [0; 20], parts as u64));
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn bulk(&mut self, part: &[u8]) {
        append_bulk(&mut self.bytes, part);
    }
}

fn append_bulk(into: &mut Vec<u8>, part: &[u8]) {
    into.push(b'$');
    into.extend_from_slice(decimal(&mut [0; 20], part.len() as u64));
    into.extend_from_slice(b"\r\n");
    into.extend_from_slice(part);
    into.extend_from_slice(b"\r\n");
}

/// A number as decimal digits, without an allocation.
pub(super) fn decimal(into: &mut [u8; 20], mut number: u64) -> &[u8] {
    let mut at = into.len();
    loop {
        at -= 1;
        into[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &into[at..];
        }
    }
}

/// The four keys of a SKU, and their slot.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) slot: u16,
    names: [Vec<u8>; 4],
}

impl Keys {
    pub(super) fn of(prefix: &str, sku: SkuId) -> Keys {
        let tag = format!("{prefix}:{:08x}", sku.0);
        Keys {
            slot: slot_of(tag.as_bytes()),
            names: ["s", "k", "t", "b"].map(|kind| format!("{{{tag}}}:{kind}").into_bytes()),
        }
    }

    pub(super) fn all(&self) -> [&[u8]; 4] {
        self.names.each_ref().map(Vec::as_slice)
    }

    pub(super) fn state(&self) -> &[u8] {
        &self.names[0]
    }

    pub(super) fn marks(&self) -> &[u8] {
        &self.names[1]
    }

    pub(super) fn times(&self) -> &[u8] {
        &self.names[2]
    }

    pub(super) fn buyers(&self) -> &[u8] {
        &self.names[3]
    }
}

/// The key under which the edge finds a product's SKU.
pub(super) fn product_key(prefix: &str, product: ProductId) -> Vec<u8> {
    format!("{prefix}:product:{}", product.0).into_bytes()
}

/// Slots of a cluster.
pub(super) const SLOTS: usize = 16_384;

/// The slot of a key without a hash tag, or of the tag itself: CRC-16/XMODEM, as the cluster specification says.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let mut crc: u16 = 0;
    for byte in key {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn a_command_is_packed_with_the_run_of_its_node() {
        let mut commands = Commands::default();
        commands.plain(3, &[b"GET", b"a"]);
        commands.script(Script::Fence, 4, &[b"k"], &[b"1"]);
        let mut bytes = Vec::new();
        commands.write(0, "run", &mut bytes);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
        bytes.clear();
        commands.write(1, "run", &mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("*6\r\n$7\r\nEVALSHA\r\n$40\r\n"), "{text}");
        assert!(text.ends_with("$1\r\n1\r\n$1\r\nk\r\n$3\r\nrun\r\n$1\r\n1\r\n"), "{text}");
    }
}
