//! Redis Cluster: which of its masters a key belongs to.
//!
//! The map is read once, before a load, by a blocking connection; MOVED corrects it. A master that was not known at
//! the start can't be followed: the generator's connections are made by then.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, ensure};
use redis::Value;

use crate::target::engines::redis::Redis;

pub const SLOTS: usize = 16_384;
const NOBODY: u16 = u16::MAX;

/// The lane of each slot. Lanes are the masters, in the order of their first slots.
#[derive(Debug, Clone)]
pub struct SlotMap {
    pub masters: Vec<SocketAddr>,
    lanes: Vec<u16>,
}

impl SlotMap {
    /// Asks one member of a cluster, which may want a password.
    ///
    /// # Errors
    /// If it can't be reached, is no cluster, or serves not all slots.
    pub fn read(member: SocketAddr, password: Option<&str>) -> anyhow::Result<Self> {
        let mut redis = Redis::connect(member)?.authenticated(password)?;
        Self::of(
            member,
            &redis.query::<Vec<Value>>(&["CLUSTER", "SLOTS"]).with_context(|| member.to_string())?,
        )
    }

    fn of(member: SocketAddr, ranges: &[Value]) -> anyhow::Result<Self> {
        let mut map = Self { masters: Vec::new(), lanes: vec![NOBODY; SLOTS] };
        for range in ranges {
            let (first, last, host, port) = range_of(range).context("a range of slots and their master")?;
            let master = address(member, &host, port)?;
            let lane = match map.lane_at(master) {
                Some(lane) => lane,
                None => {
                    map.masters.push(master);
                    u16::try_from(map.masters.len() - 1).context("masters")?
                }
            };
            map.lanes[first..=last].fill(lane);
        }
        let missing = map.lanes.iter().filter(|lane| **lane == NOBODY).count();
        ensure!(missing == 0, "{missing} slots of the cluster are served by nobody");
        Ok(map)
    }

    pub fn lane(&self, key: &[u8]) -> usize {
        self.lanes[slot(key)].into()
    }

    /// After `MOVED 3999 127.0.0.1:6381` from the master of `lane`; whether that one is known here.
    pub(super) fn moved(&mut self, lane: usize, error: &[u8]) -> bool {
        let moved = || {
            let mut words = std::str::from_utf8(error).ok()?.split(' ').skip(1);
            let slot: usize = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
            let (host, port) = words.next()?.rsplit_once(':')?;
            let port = port.parse().ok()?;
            let ip = if host.is_empty() { self.masters.get(lane)?.ip() } else { host.parse().ok()? };
            Some((slot, self.lane_at(SocketAddr::new(ip, port))?))
        };
        let Some((slot, lane)) = moved() else { return false };
        self.lanes[slot] = lane;
        true
    }

    fn lane_at(&self, address: SocketAddr) -> Option<u16> {
        u16::try_from(self.masters.iter().position(|master| *master == address)?).ok()
    }
}

/// A member that does not know its own name leaves it to be the one that it was reached by.
fn address(member: SocketAddr, host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    if host.is_empty() {
        return Ok(SocketAddr::new(member.ip(), port));
    }
    let found = (host, port).to_socket_addrs().with_context(|| format!("looking up {host}"))?.next();
    found.with_context(|| format!("{host} has no address"))
}

/// First and last slot, host and port of the master.
fn range_of(range: &Value) -> Option<(usize, usize, String, u16)> {
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = range.as_sequence()? else {
        return None;
    };
    let [host, Value::Int(port), ..] = &master[..] else { return None };
    let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
    let host: Option<String> = redis::from_redis_value_ref(host).ok()?;
    (first <= last && last < SLOTS).then_some((
        first,
        last,
        host.unwrap_or_default(),
        u16::try_from(*port).ok()?,
    ))
}

/// Of the part in the first pair of braces if there is something in it, else of the whole key.
pub fn slot(key: &[u8]) -> usize {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let length = key[open + 1..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[open + 1..=open + length])
    });
    usize::from(crc16(tag.unwrap_or(key))) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, from zero, nothing reflected.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = table();
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(*byte))])
}

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index: u16 = 0;
    while index < 256 {
        let mut crc = index << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The first value is of Redis Cluster's specification, the others are CLUSTER KEYSLOT's of Redis 7.0.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, wanted) in SLOTS_OF_REDIS {
            assert_eq!(slot(key.as_bytes()), wanted, "{key}");
        }
    }

    const SLOTS_OF_REDIS: [(&str, usize); 8] = [
        ("", 0),
        ("foo", 12182),
        ("somekey", 11058),
        ("foo{hash_tag}", 2515),
        ("bar{hash_tag}", 2515),
        ("foo{}{bar}", 8363),
        ("foo{{bar}}zap", 4015),
        ("foo{bar}{zap}", 5061),
    ];

    pub(in super::super) fn map() -> SlotMap {
        let answer = b"*2\r\n\
            *4\r\n:0\r\n:8000\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$1\r\na\r\n*3\r\n$9\r\n127.0.0.1\r\n:7003\r\n$1\r\nd\r\n\
            *3\r\n:8001\r\n:16383\r\n*4\r\n$0\r\n\r\n:7001\r\n$1\r\nb\r\n*0\r\n";
        SlotMap::of("127.0.0.1:7001".parse().unwrap(), &ranges(answer)).unwrap()
    }

    fn ranges(answer: &[u8]) -> Vec<Value> {
        redis::from_redis_value(redis::parse_redis_value(answer).unwrap()).unwrap()
    }

    #[test]
    fn the_map_follows_cluster_slots_and_moved() {
        let mut map = map();
        let masters: Vec<_> = map.masters.iter().map(SocketAddr::port).collect();
        assert_eq!(masters, [7000, 7001]);
        assert_eq!((map.lane(b"foo"), map.lane(b"foo{hash_tag}")), (1, 0));
        assert!(map.moved(1, b"MOVED 12182 127.0.0.1:7000"));
        assert_eq!(map.lane(b"foo"), 0);
        assert!(map.moved(1, b"MOVED 12182 :7001"));
        assert_eq!(map.lane(b"foo"), 1);
        let unknown: [&[u8]; 5] =
            [b"MOVED 1 127.0.0.1:9", b"MOVED 99999 :7001", b"MOVED", b"MOVED x :1", b"MOVED 1 \xff"];
        for error in unknown {
            assert!(!map.moved(0, error));
        }
        assert_eq!(map.lane(b"foo"), 1);
    }

    #[test]
    fn a_cluster_with_a_hole_or_without_masters_is_refused() {
        for (answer, why) in [
            (&b"*1\r\n*3\r\n:0\r\n:8000\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n"[..], "8383 slots"),
            (b"*1\r\n*3\r\n:9\r\n:8\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n", "a range of slots"),
            (b"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n", "a range of slots"),
            (b"*1\r\n*2\r\n:0\r\n:16383\r\n", "a range of slots"),
            (b"*1\r\n:0\r\n", "a range of slots"),
        ] {
            let refused = SlotMap::of("127.0.0.1:7000".parse().unwrap(), &ranges(answer)).unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
    }
}
