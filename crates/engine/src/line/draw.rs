//! The draw: who stands where, of those who joined a line before its close.
//!
//! A number is the order of joining; the draw gives the numbers up to the close their places. Its seed comes from three things,
//! of which nobody can know the last before the others are fixed: a secret whose hash is known since the sale was created, the
//! root of a tree over everybody who had joined at the close, and the value of a public beacon that is emitted after that. The
//! order is a permutation with the seed as its key, so that a place costs the same whoever many joined, and anybody can find
//! out every place again.
//!
//! All of it is a format: an export of a draw is verified years later, and by a page's script. Must not: know a line.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::{BuyerId, ProductId, SaleId};

/// SHA-256.
pub type Hash = [u8; 32];

/// What the secrets of a ledger's lines are made of. The ledger keeps it for good.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct LedgerSecret(pub [u8; 16]);

impl std::fmt::Debug for LedgerSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LedgerSecret")
    }
}

/// The secrets of one item's line.
#[derive(Clone)]
pub struct LineSecrets {
    sale: SaleId,
    product: ProductId,
    /// Keyed with the secret of the ledger.
    mac: Hmac<Sha256>,
}

impl std::fmt::Debug for LineSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LineSecrets of {:?} in {:?}", self.product, self.sale)
    }
}

/// Proves a number by itself: to the server, which can make it again, and to everybody once the root is published, because it
/// is a part of what was hashed. Nobody can guess another's.
pub type Proof = [u8; 16];

impl LineSecrets {
    pub fn new(ledger: LedgerSecret, sale: SaleId, product: ProductId) -> LineSecrets {
        let mac = Hmac::new_from_slice(&ledger.0).expect("a key of any length does");
        LineSecrets { sale, product, mac }
    }

    fn keyed(&self, what: &[u8], of: &[u8]) -> Hash {
        let mut mac = self.mac.clone();
        mac.update(what);
        mac.update(&self.sale.0.to_be_bytes());
        mac.update(&self.product.0.to_be_bytes());
        mac.update(of);
        mac.finalize().into_bytes().into()
    }

    /// What the draw's seed is made of, and is known to nobody else before.
    pub fn secret(&self) -> Hash {
        self.keyed(b"doorbuster draw 1", &[])
    }

    /// Known to everybody since the sale was created.
    pub fn commitment(&self) -> Hash {
        commitment(&self.secret())
    }

    pub fn proof(&self, number: u32, buyer: BuyerId) -> Proof {
        let mut of = [0; 20];
        of[..4].copy_from_slice(&number.to_be_bytes());
        of[4..].copy_from_slice(&buyer.0.to_be_bytes());
        let keyed = self.keyed(b"doorbuster ticket 1", &of);
        keyed[..16].try_into().expect("a hash has 32 bytes")
    }

    /// What stands in the tree for somebody who joined.
    pub fn leaf(&self, number: u32, buyer: BuyerId) -> Hash {
        leaf(self.sale, self.product, number, buyer, &self.proof(number, buyer))
    }
}

/// What a secret was committed to with.
pub fn commitment(secret: &Hash) -> Hash {
    Sha256::digest(secret).into()
}

/// The hash of an entry, by whoever has its proof.
pub fn leaf(sale: SaleId, product: ProductId, number: u32, buyer: BuyerId, proof: &Proof) -> Hash {
    let mut hash = Sha256::new();
    hash.update([0]);
    hash.update(sale.0.to_be_bytes());
    hash.update(product.0.to_be_bytes());
    hash.update(number.to_be_bytes());
    hash.update(buyer.0.to_be_bytes());
    hash.update(proof);
    hash.finalize().into()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    let mut hash = Sha256::new();
    hash.update([1]);
    hash.update(left);
    hash.update(right);
    hash.finalize().into()
}

/// Complete trees of two to this power of entries, and larger ones, are kept: 4 bytes of memory per entry. What is smaller is made
/// again when a path is asked for, which takes 30 leaves at most.
const KEPT_FROM: u32 = 4;

/// The tree over everybody who has joined, as RFC 6962 builds it.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    count: u32,
    /// What later joins need: of the complete trees that the count of entries is the sum of, the largest first.
    roots: Vec<Hash>,
    /// The roots of complete trees by their size, from `KEPT_FROM` on, in order.
    kept: Vec<Vec<Hash>>,
}

impl Entries {
    pub fn add(&mut self, leaf: Hash) {
        self.count += 1;
        let mut root = leaf;
        // Two trees of one size become one.
        for level in 1..=self.count.trailing_zeros() {
            root = node(&self.roots.pop().expect("there is one for each bit of the count"), &root);
            if let Some(size) = level.checked_sub(KEPT_FROM) {
                let size = size as usize;
                self.kept.resize(self.kept.len().max(size + 1), Vec::new());
                self.kept[size].push(root);
            }
        }
        self.roots.push(root);
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn root(&self) -> Hash {
        let mut roots = self.roots.iter().rev();
        let Some(last) = roots.next() else { return Sha256::digest([]).into() };
        roots.fold(*last, |right, left| node(left, &right))
    }

    /// What leads from the leaf of an entry to the root: the roots beside it, the nearest first. `leaf`: of any number.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn path(&self, number: u32, leaf: impl Fn(u32) -> Hash) -> Vec<Hash> {
        let beside = |(from, to)| self.root_of(from, to, &leaf);
        forks(number, self.count).map(|fork| beside(fork.beside)).collect()
    }

    /// Of the entries behind one number, up to another.
    fn root_of(&self, from: u32, to: u32, leaf: &impl Fn(u32) -> Hash) -> Hash {
        let size = to - from;
        if size == 1 {
            return leaf(to);
        }
        let level = size.ilog2();
        if size.is_power_of_two() && level >= KEPT_FROM {
            return self.kept[(level - KEPT_FROM) as usize][(from >> level) as usize];
        }
        let middle = from + left_of(size);
        node(&self.root_of(from, middle, leaf), &self.root_of(middle, to, leaf))
    }
}

/// The root that the leaf of an entry and its path lead to; `None`: no path of so many entries is like that.
pub fn climb(leaf: Hash, (number, entries): (u32, u32), path: &[Hash]) -> Option<Hash> {
    if !(1..=entries).contains(&number) || forks(number, entries).count() != path.len() {
        return None;
    }
    let root = forks(number, entries).zip(path).fold(leaf, |root, (fork, beside)| match fork.is_left {
        true => node(&root, beside),
        false => node(beside, &root),
    });
    Some(root)
}

/// Where two parts of a tree meet, and a path goes up.
struct Fork {
    /// Whether it comes from the left.
    is_left: bool,
    /// What is on the other side: the entries behind one number, up to another.
    beside: (u32, u32),
}

/// From an entry to the root.
fn forks(number: u32, entries: u32) -> impl Iterator<Item = Fork> {
    assert!((1..=entries).contains(&number), "no entry {number} of {entries}");
    let (mut from, mut to) = (0, entries);
    let mut down = Vec::with_capacity(u32::BITS as usize);
    while to - from > 1 {
        let middle = from + left_of(to - from);
        let is_left = number <= middle;
        down.push(Fork { is_left, beside: if is_left { (middle, to) } else { (from, middle) } });
        (from, to) = if is_left { (from, middle) } else { (middle, to) };
    }
    down.into_iter().rev()
}

/// How many of so many entries, two or more, are in the left part of their tree: the largest power of two below.
fn left_of(entries: u32) -> u32 {
    1 << (entries - 1).ilog2()
}

/// The seed of a draw. `beacon`: the randomness of its round, which is the SHA-256 of the round's signature.
pub fn seed(secret: &Hash, root: &Hash, beacon: Option<&Hash>) -> Hash {
    let mut hash = Sha256::new();
    hash.update(b"doorbuster seed 1");
    hash.update(secret);
    hash.update(root);
    hash.update([u8::from(beacon.is_some())]);
    hash.update(beacon.map_or(&[][..], |beacon| beacon));
    hash.finalize().into()
}

/// A value of the beacon, by its signature.
pub fn randomness(signature: &[u8]) -> Hash {
    Sha256::digest(signature).into()
}

const ROUNDS: u8 = 10;

/// The order of a draw: a Feistel network over the smallest power of two that has room for all, which is walked until it comes
/// to a number that there is; so it is one to one, whatever the count.
#[derive(Clone)]
pub struct Permutation {
    count: u32,
    left_bits: u32,
    right_bits: u32,
    mac: Hmac<Sha256>,
}

impl std::fmt::Debug for Permutation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permutation of {}", self.count)
    }
}

impl Permutation {
    pub fn new(seed: &Hash, count: u32) -> Permutation {
        let bits = (u32::BITS - count.saturating_sub(1).leading_zeros()).max(2);
        let right_bits = bits / 2;
        let mac = Hmac::new_from_slice(seed).expect("a key of any length does");
        Permutation { count, left_bits: bits - right_bits, right_bits, mac }
    }

    /// Where a number stands. Who joined after the close follows in the order of joining.
    pub fn place_of(&self, number: u32) -> u32 {
        self.walk(number, |half| half)
    }

    /// Whose number stands at a place.
    pub fn number_at(&self, place: u32) -> u32 {
        self.walk(place, |round| ROUNDS - 1 - round)
    }

    /// `order`: of the rounds.
    fn walk(&self, from: u32, order: impl Fn(u8) -> u8) -> u32 {
        if self.count < 2 || from == 0 || from > self.count {
            return from;
        }
        let mut at = from - 1;
        loop {
            at = (0..ROUNDS).map(&order).fold(at, |at, round| self.round(at, round));
            if at < self.count {
                return at + 1;
            }
        }
    }

    /// Undoes itself.
    fn round(&self, at: u32, round: u8) -> u32 {
        let (left, right) = (at >> self.right_bits, at & mask(self.right_bits));
        if round.is_multiple_of(2) {
            (left ^ self.mixed(round, right) & mask(self.left_bits)) << self.right_bits | right
        } else {
            left << self.right_bits | (right ^ self.mixed(round, left) & mask(self.right_bits))
        }
    }

    fn mixed(&self, round: u8, half: u32) -> u32 {
        let mut mac = self.mac.clone();
        mac.update(&[round]);
        mac.update(&self.count.to_be_bytes());
        mac.update(&half.to_be_bytes());
        let [a, b, c, d, ..] = mac.finalize().into_bytes()[..] else { unreachable!("a hash has 32 bytes") };
        u32::from_be_bytes([a, b, c, d])
    }
}

fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}
