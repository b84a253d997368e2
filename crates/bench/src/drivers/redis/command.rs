//! Templates of commands, and what their answers mean.
//!
//! A template is made into bytes once: only keys, values and random parts are filled in for each request.

use std::ops::Range;

use anyhow::{Context, ensure};

use super::keys::{Keys, Values};
use super::resp::{self, Reply};
use crate::load::choice::Random;
use crate::load::record::Outcome;

/// A part of a word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(Vec<u8>),
    Key,
    /// A value; it must be the only piece of its word.
    Data,
    /// So many random bytes.
    Random(usize),
    /// 8 bytes, big-endian: a random number below this.
    Below(u64),
}

/// Which answers are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// `+OK`, as SET and AUTH say.
    Done,
    /// A string: GET of a key that exists.
    Value,
    Integer,
    /// Whatever is no error.
    Any,
    /// The answer of the server's reserve script: see `reserve.rs`.
    Reserve,
}

/// A command with holes for keys and values.
#[derive(Debug, Clone)]
pub struct RedisCommand {
    words: Vec<Vec<Piece>>,
    /// Which word holds the key that decides where in a cluster it goes.
    key_word: usize,
    expect: Expect,
}

impl RedisCommand {
    /// From words with `__key__` and `__data__` in them: `SET __key__ __data__`.
    ///
    /// # Errors
    /// If there is no word, or `__data__` is only a part of one.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        Self::new(text.split_whitespace().map(pieces).collect())
    }

    /// # Errors
    /// If there is no word, or a value is only a part of one.
    pub fn new(words: Vec<Vec<Piece>>) -> anyhow::Result<Self> {
        ensure!(!words.is_empty(), "a command has a name");
        let alone = |word: &Vec<Piece>| word.len() == 1 || !word.contains(&Piece::Data);
        ensure!(words.iter().all(alone), "a value is a word of its own");
        let name = match &words[0][..] {
            [Piece::Text(name)] => String::from_utf8_lossy(name).to_ascii_uppercase(),
            _ => String::new(),
        };
        let expect = match name.as_str() {
            "SET" | "MSET" | "SETEX" => Expect::Done,
            "GET" => Expect::Value,
            "INCR" | "DECR" | "INCRBY" | "DEL" | "UNLINK" | "HSET" | "LPUSH" | "SADD" => Expect::Integer,
            _ => Expect::Any,
        };
        let script = matches!(name.as_str(), "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO");
        Ok(Self { words, key_word: if script { 3 } else { 1 }, expect })
    }

    /// With other right answers than the name suggests.
    pub fn expecting(self, expect: Expect) -> Self {
        Self { expect, ..self }
    }
}

/// `a__key__b` is text, key, text.
fn pieces(word: &str) -> Vec<Piece> {
    let text = |text: &str| Piece::Text(text.as_bytes().to_vec());
    if word == "__data__" {
        return vec![Piece::Data];
    }
    let mut pieces = Vec::new();
    for (index, part) in word.split("__key__").enumerate() {
        if index > 0 {
            pieces.push(Piece::Key);
        }
        if !part.is_empty() {
            pieces.push(text(part));
        }
    }
    pieces
}

#[derive(Debug)]
pub(super) struct Template {
    holes: Vec<Hole>,
    key_word: usize,
    pub(super) expect: Expect,
    /// A script that fails in the middle keeps what it wrote before.
    script: bool,
}

#[derive(Debug)]
enum Hole {
    Bytes(Vec<u8>),
    Key,
    Data,
    Random(usize),
    Below(u64),
    /// A word begins here, behind its length, or has ended.
    Mark,
}

impl Template {
    pub(super) fn new(command: &RedisCommand, keys: &Keys) -> anyhow::Result<Self> {
        let mut holes = Vec::new();
        let mut bytes = Vec::new();
        resp::header(b'*', command.words.len(), &mut bytes);
        for (index, word) in command.words.iter().enumerate() {
            if word[..] == [Piece::Data] {
                holes.extend([Hole::Bytes(std::mem::take(&mut bytes)), Hole::Data]);
                continue;
            }
            let length = word.iter().map(|piece| match piece {
                Piece::Text(text) => text.len(),
                Piece::Key => keys.bytes(),
                Piece::Random(count) => *count,
                Piece::Below(_) => size_of::<u64>(),
                Piece::Data => unreachable!("a value is a word of its own"),
            });
            resp::header(b'$', length.sum(), &mut bytes);
            if index == command.key_word {
                holes.extend([Hole::Bytes(std::mem::take(&mut bytes)), Hole::Mark]);
            }
            for piece in word {
                let hole = match piece {
                    Piece::Text(text) => {
                        bytes.extend_from_slice(text);
                        continue;
                    }
                    Piece::Key => Hole::Key,
                    Piece::Random(count) => Hole::Random(*count),
                    Piece::Below(below) => Hole::Below(*below),
                    Piece::Data => unreachable!("a value is a word of its own"),
                };
                holes.extend([Hole::Bytes(std::mem::take(&mut bytes)), hole]);
            }
            if index == command.key_word {
                holes.extend([Hole::Bytes(std::mem::take(&mut bytes)), Hole::Mark]);
            }
            bytes.extend_from_slice(b"\r\n");
        }
        holes.push(Hole::Bytes(bytes));
        holes.retain(|hole| !matches!(hole, Hole::Bytes(bytes) if bytes.is_empty()));
        let name = command.words[0].first().context("a command has a name")?;
        let script = matches!(name, Piece::Text(name) if name.to_ascii_uppercase().starts_with(b"EVAL"));
        Ok(Self { holes, key_word: command.key_word, expect: command.expect, script })
    }

    /// Appends the command; where in `out` its key is.
    pub(super) fn write(
        &self,
        keys: &mut Keys,
        values: &Values,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Range<usize> {
        let mut key = out.len()..out.len();
        let mut marks = 0;
        for hole in &self.holes {
            match hole {
                Hole::Bytes(bytes) => out.extend_from_slice(bytes),
                Hole::Key => keys.write(random, out),
                Hole::Data => {
                    let value = values.pick(random);
                    resp::header(b'$', value.len(), out);
                    out.extend_from_slice(value);
                    out.extend_from_slice(b"\r\n");
                }
                Hole::Random(count) => {
                    let end = out.len() + count;
                    while out.len() < end {
                        let bytes = random.next_u64().to_be_bytes();
                        out.extend_from_slice(&bytes[..bytes.len().min(end - out.len())]);
                    }
                }
                Hole::Below(below) => out.extend_from_slice(&random.below(*below).to_be_bytes()),
                Hole::Mark if marks == 0 => (key, marks) = (out.len()..out.len(), 1),
                Hole::Mark => key.end = out.len(),
            }
        }
        key
    }

    /// Whether it says where in a cluster it belongs.
    pub(super) fn has_key(&self) -> bool {
        self.key_word > 0 && self.holes.iter().any(|hole| matches!(hole, Hole::Mark))
    }

    pub(super) fn judge(&self, reply: Reply<'_>) -> Outcome {
        if let Reply::Error(error) = reply {
            return self.judge_error(error);
        }
        let right = match self.expect {
            Expect::Done => reply == Reply::Simple(b"OK"),
            Expect::Value => matches!(reply, Reply::Bulk(_)),
            Expect::Integer => matches!(reply, Reply::Integer(_)),
            Expect::Any => true,
            Expect::Reserve => return judge_reserve(reply),
        };
        if right { Outcome::Served } else { Outcome::Failed }
    }

    /// Redis says before it does anything that it will not do it; only a script can fail when it has begun.
    fn judge_error(&self, error: &[u8]) -> Outcome {
        let code = error.split(|byte| *byte == b' ').next().unwrap_or_default();
        match code {
            // These pass by themselves: ask again later.
            b"LOADING" | b"BUSY" | b"TRYAGAIN" | b"CLUSTERDOWN" | b"MASTERDOWN" | b"ASK" => Outcome::Busy,
            b"MOVED" | b"OOM" | b"MISCONF" | b"READONLY" | b"NOREPLICAS" | b"NOAUTH" | b"NOPERM"
            | b"NOSCRIPT" | b"WRONGPASS" | b"CROSSSLOT" => Outcome::Failed,
            _ if self.script => Outcome::Unknown,
            _ => Outcome::Failed,
        }
    }
}

/// Of one order. The codes are those of the server's `prelude.lua`.
fn judge_reserve(reply: Reply<'_>) -> Outcome {
    let Reply::Array(mut answer) = reply else { return Outcome::Failed };
    // Behind the first 0: epoch, number, stock and time.
    match (answer.next().and_then(Reply::integer), answer.nth(4).and_then(Reply::integer)) {
        (Some(0), Some(0)) => Outcome::Won,
        (Some(0), Some(11)) => Outcome::OverLimit,
        (Some(0), Some(12 | 13)) => Outcome::SoldOut,
        // Lost, fenced, of another run, known already, outside of the sale, not understood: not with this gate.
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Order;
    use super::*;

    fn template(text: &str) -> Template {
        let keys = Keys::new("k", 3, 5, Order::Sequence).unwrap();
        Template::new(&RedisCommand::parse(text).unwrap(), &keys).unwrap()
    }

    fn written(text: &str) -> (String, String) {
        let mut keys = Keys::new("k", 3, 5, Order::Sequence).unwrap();
        let mut random = Random::new(1);
        let values = Values::new(2, &mut random);
        let mut out = Vec::new();
        let key = template(text).write(&mut keys, &values, &mut random, &mut out);
        let key = String::from_utf8(out[key].to_vec()).unwrap();
        (String::from_utf8(out).unwrap(), key)
    }

    #[test]
    fn templates_are_filled_in_and_know_their_key() {
        let (command, key) = written("SET __key__ __data__");
        assert!(command.starts_with("*3\r\n$3\r\nSET\r\n$4\r\nk000\r\n$2\r\n"), "{command}");
        assert_eq!((command.len(), key.as_str()), (31, "k000"));
        let (command, key) = written("EVALSHA abc 1 {__key__}:s 1");
        assert_eq!(command, "*5\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n1\r\n$8\r\n{k000}:s\r\n$1\r\n1\r\n");
        assert_eq!(key, "{k000}:s");
        assert_eq!(written("INCR hot"), ("*2\r\n$4\r\nINCR\r\n$3\r\nhot\r\n".to_owned(), "hot".to_owned()));
        assert_eq!(written("PING"), ("*1\r\n$4\r\nPING\r\n".to_owned(), String::new()));
        assert!(template("GET __key__").has_key() && !template("PING").has_key());
        assert!(RedisCommand::parse("").is_err());
    }

    #[test]
    fn random_pieces_have_their_length() {
        let words = vec![vec![Piece::Text(b"X".to_vec())], vec![Piece::Random(11), Piece::Below(300)]];
        let keys = &mut Keys::new("", 3, 5, Order::Sequence).unwrap();
        let template = Template::new(&RedisCommand::new(words).unwrap(), keys).unwrap();
        let mut random = Random::new(1);
        let values = Values::new(0, &mut random);
        let mut out = Vec::new();
        template.write(keys, &values, &mut random, &mut out);
        assert!(out.starts_with(b"*2\r\n$1\r\nX\r\n$19\r\n"));
        assert_eq!(out.len(), 16 + 19 + 2);
        assert_eq!(&out[27..33], [0; 6]);
    }

    #[test]
    fn answers_are_judged_by_what_was_asked() {
        let (set, get, incr, eval) =
            (template("SET __key__ v"), template("GET __key__"), template("INCR a"), template("EVALSHA s 0"));
        let table: &[(&Template, Reply<'_>, Outcome)] = &[
            (&set, Reply::Simple(b"OK"), Outcome::Served),
            (&set, Reply::Simple(b"QUEUED"), Outcome::Failed),
            (&set, Reply::Integer(1), Outcome::Failed),
            (&get, Reply::Bulk(b""), Outcome::Served),
            (&get, Reply::Nil, Outcome::Failed),
            (&get, Reply::Simple(b"OK"), Outcome::Failed),
            (&incr, Reply::Integer(4), Outcome::Served),
            (&incr, Reply::Bulk(b"4"), Outcome::Failed),
            (&incr, Reply::Error(b"ERR value is not an integer"), Outcome::Failed),
            (&eval, Reply::Nil, Outcome::Served),
            (&eval, Reply::Error(b"ERR user_script:3: bad argument"), Outcome::Unknown),
            (&eval, Reply::Error(b"OOM command not allowed"), Outcome::Failed),
            (&eval, Reply::Error(b"NOSCRIPT No matching script"), Outcome::Failed),
            (&set, Reply::Error(b"LOADING Redis is loading the dataset in memory"), Outcome::Busy),
            (&set, Reply::Error(b"BUSY Redis is busy running a script"), Outcome::Busy),
            (&set, Reply::Error(b"TRYAGAIN Multiple keys"), Outcome::Busy),
            (&set, Reply::Error(b"CLUSTERDOWN The cluster is down"), Outcome::Busy),
            (&set, Reply::Error(b"ASK 1 127.0.0.1:1"), Outcome::Busy),
            (&set, Reply::Error(b"MOVED 1 127.0.0.1:1"), Outcome::Failed),
            (&set, Reply::Error(b"MISCONF Errors writing to the AOF file"), Outcome::Failed),
            (&set, Reply::Error(b"READONLY You can't write against a read only replica."), Outcome::Failed),
        ];
        for (template, reply, wanted) in table {
            assert_eq!(template.judge(*reply), *wanted, "{reply:?}");
        }
    }

    #[test]
    fn answers_of_the_script_have_their_business_meaning() {
        for (answer, wanted) in [
            (&b"*6\r\n:0\r\n:1\r\n:2\r\n:9\r\n:1700000000000\r\n:0\r\n"[..], Outcome::Won),
            (b"*6\r\n:0\r\n:1\r\n:2\r\n:0\r\n:1700000000000\r\n:12\r\n", Outcome::SoldOut),
            (b"*6\r\n:0\r\n:1\r\n:2\r\n:1\r\n:1700000000000\r\n:13\r\n", Outcome::SoldOut),
            (b"*6\r\n:0\r\n:1\r\n:2\r\n:9\r\n:1700000000000\r\n:11\r\n", Outcome::OverLimit),
            (b"*6\r\n:0\r\n:1\r\n:2\r\n:9\r\n:1700000000000\r\n:9\r\n", Outcome::Failed),
            (b"*6\r\n:0\r\n:1\r\n:2\r\n:9\r\n:1700000000000\r\n*2\r\n:4\r\n$1\r\no\r\n", Outcome::Failed),
            (b"*5\r\n:0\r\n:1\r\n:2\r\n:9\r\n:1700000000000\r\n", Outcome::Failed),
            (b"*1\r\n:1\r\n", Outcome::Failed),
            (b"*4\r\n:3\r\n:1\r\n:2\r\n:9\r\n", Outcome::Failed),
            (b"*0\r\n", Outcome::Failed),
            (b"+OK\r\n", Outcome::Failed),
        ] {
            let (reply, _) = resp::decode(answer).unwrap().unwrap();
            assert_eq!(judge_reserve(reply), wanted, "{}", String::from_utf8_lossy(answer));
        }
    }
}
