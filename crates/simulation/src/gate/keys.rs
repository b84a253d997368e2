//! The key space: what there is under each key, and until when.
//!
//! Everything is in the order of its bytes, so that a run is the same each time. What an engine gives out in an order of its own
//! (the fields of a hash, the members of a set) comes in this one.

use std::collections::{BTreeMap, BTreeSet};

use super::resp::Reply;

pub(crate) type Text = Vec<u8>;
pub(crate) type Hash = BTreeMap<Vec<u8>, Vec<u8>>;
pub(crate) type Set = BTreeSet<Vec<u8>>;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Members by score, and then by their bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted {
    scores: BTreeMap<Vec<u8>, f64>,
    order: BTreeSet<(Score, Vec<u8>)>,
}

/// A number that is one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Score(f64);

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Sorted {
    /// Whether it is new.
    pub(crate) fn insert(&mut self, member: &[u8], score: f64) -> bool {
        let score = score + 0.0; // of the two zeros the positive one
        let before = self.scores.insert(member.to_vec(), score);
        if let Some(before) = before {
            self.order.remove(&(Score(before), member.to_vec()));
        }
        self.order.insert((Score(score), member.to_vec()));
        before.is_none()
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let before = self.scores.remove(member);
        before.is_some_and(|score| self.order.remove(&(Score(score), member.to_vec())))
    }

    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    /// In order, with their scores.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.order.iter().map(|(score, member)| (member.as_slice(), score.0))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Stored {
    Text(Text),
    Hash(Hash),
    Set(Set),
    Sorted(Sorted),
}

impl Stored {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Stored::Text(_) => "string",
            Stored::Hash(_) => "hash",
            Stored::Set(_) => "set",
            Stored::Sorted(_) => "zset",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Stored::Text(_) => false,
            Stored::Hash(hash) => hash.is_empty(),
            Stored::Set(set) => set.is_empty(),
            Stored::Sorted(sorted) => sorted.len() == 0,
        }
    }
}

/// What can be under a key.
pub(crate) trait Kind: Default + Sized {
    fn of(stored: &Stored) -> Option<&Self>;
    fn of_mut(stored: &mut Stored) -> Option<&mut Self>;
    fn stored(self) -> Stored;
}

macro_rules! kinds {
    ($($kind:ident),*) => {$(
        impl Kind for $kind {
            fn of(stored: &Stored) -> Option<&$kind> {
                if let Stored::$kind(it) = stored { Some(it) } else { None }
            }

            fn of_mut(stored: &mut Stored) -> Option<&mut $kind> {
                if let Stored::$kind(it) = stored { Some(it) } else { None }
            }

            fn stored(self) -> Stored {
                Stored::$kind(self)
            }
        }
    )*};
}

kinds!(Text, Hash, Set, Sorted);

#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    map: BTreeMap<Vec<u8>, Stored>,
    /// Of the few that do not stay: until when, in ms.
    expiries: BTreeMap<Vec<u8>, u64>,
}

impl Keys {
    /// Lets go what has expired.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        let Keys { map, expiries } = self;
        expiries.retain(|name, at_ms| {
            let stays = now_ms <= *at_ms;
            if !stays {
                map.remove(name);
            }
            stays
        });
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.map.keys().map(Vec::as_slice)
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Stored> {
        self.map.get(name)
    }

    /// # Errors
    /// If something of another kind is there.
    pub(crate) fn read<K: Kind>(&self, name: &[u8]) -> Result<Option<&K>, Reply> {
        let Some(stored) = self.get(name) else { return Ok(None) };
        K::of(stored).map(Some).ok_or_else(wrong_type)
    }

    /// What is there, or a new one. [`Keys::drop_if_empty`] is called after it: nothing empty stays.
    ///
    /// # Errors
    /// If something of another kind is there.
    pub(crate) fn write<K: Kind>(&mut self, name: &[u8]) -> Result<&mut K, Reply> {
        let stored = self.map.entry(name.to_vec()).or_insert_with(|| K::default().stored());
        K::of_mut(stored).ok_or_else(wrong_type)
    }

    pub(crate) fn drop_if_empty(&mut self, name: &[u8]) {
        if self.get(name).is_some_and(Stored::is_empty) {
            self.remove(name);
        }
    }

    /// Whatever was there goes, and its time with it.
    pub(crate) fn set(&mut self, name: &[u8], text: Text) {
        self.expiries.remove(name);
        self.map.insert(name.to_vec(), Stored::Text(text));
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        self.expiries.remove(name);
        self.map.remove(name).is_some()
    }

    pub(crate) fn clear(&mut self) {
        *self = Keys::default();
    }

    /// Whether it is there.
    pub(crate) fn set_expiry(&mut self, name: &[u8], at_ms: u64) -> bool {
        let is_there = self.map.contains_key(name);
        if is_there {
            self.expiries.insert(name.to_vec(), at_ms);
        }
        is_there
    }

    /// `None`: there is no such key. `Some(None)`: it stays.
    pub(crate) fn expiry(&self, name: &[u8]) -> Option<Option<u64>> {
        self.map.contains_key(name).then(|| self.expiries.get(name).copied())
    }
}

fn wrong_type() -> Reply {
    Reply::Error(WRONG_TYPE.into())
}
