//! What buyers hold in their hands: the id of every acknowledged order, in a file, in the order of the answers.
//!
//! 16 bytes an order (the hash that names it), buffered, so that memory does not grow with the run and the generator
//! pays about nothing. A sum of hashes in place of the file was rejected: as soon as one outcome is unknown the ledger may
//! rightly hold an order more, and then sums can't distinguish a lost order from that.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

/// An order's id as text: 8 hexadecimal digits of the SKU, 32 of the hash.
const ID_CHARS: usize = 40;
const SKU_CHARS: usize = 8;
const HASH_BYTES: usize = 16;
/// Where an id stands in an answer of our own API, and of the published route.
const FIELDS: [&[u8]; 2] = [b"\"id\":\"", b"\"orderSn\":\""];

#[derive(Debug)]
pub struct Receipts {
    file: BufWriter<File>,
    count: u64,
    /// Acknowledged without an id that can be read: the audit refuses to say that they are all there.
    pub(crate) unreadable: u64,
    failed: Option<io::Error>,
}

impl Receipts {
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
        Ok(Self { file: BufWriter::new(file), count: 0, unreadable: 0, failed: None })
    }

    /// Keeps the id in the body of an answer that acknowledged an order.
    pub fn keep(&mut self, body: &[u8]) {
        match order_hash(body) {
            Some(hash) => {
                // In mid-load nobody could act on it: it is kept for the next reader.
                if let Err(error) = self.file.write_all(&hash.to_be_bytes()) {
                    self.failed.get_or_insert(error);
                }
                self.count += 1;
            }
            None => self.unreadable += 1,
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them, in memory: of a short load.
    pub(crate) fn all(&mut self) -> io::Result<HashSet<u128>> {
        self.hashes(0, &(0..=u8::MAX))
    }

    /// The ids from number `first` on whose first byte is one of `part`.
    pub(super) fn hashes(
        &mut self,
        first: u64,
        part: &std::ops::RangeInclusive<u8>,
    ) -> io::Result<HashSet<u128>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(io::SeekFrom::Start(first * HASH_BYTES as u64))?;
        let mut reader = BufReader::new(&*file);
        let mut hashes = HashSet::new();
        let mut bytes = [0; HASH_BYTES];
        for _ in first..self.count {
            reader.read_exact(&mut bytes)?;
            if part.contains(&bytes[0]) {
                hashes.insert(u128::from_be_bytes(bytes));
            }
        }
        self.file.get_mut().seek(io::SeekFrom::End(0))?;
        Ok(hashes)
    }
}

fn order_hash(body: &[u8]) -> Option<u128> {
    FIELDS.iter().find_map(|field| {
        let begin = body.windows(field.len()).position(|bytes| bytes == *field)? + field.len();
        let text = std::str::from_utf8(body.get(begin..begin + ID_CHARS)?).ok()?;
        (body.get(begin + ID_CHARS) == Some(&b'"')).then_some(())?;
        u128::from_str_radix(text.get(SKU_CHARS..)?, 16).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_both_kinds_of_answers() {
        let own = br#"{"id":"000003eabefb5ef46fac3d1981aec21ef48b8301","sale":3}"#;
        assert_eq!(order_hash(own), Some(0xbefb_5ef4_6fac_3d19_81ae_c21e_f48b_8301));
        let published =
            br#"{"data":{"orderItemList":[{"id":1,"orderSn":"000003ea08b5444887a2ad2f999a4cd581526c93","#;
        assert_eq!(order_hash(published), Some(0x08b5_4448_87a2_ad2f_999a_4cd5_8152_6c93));
        for body in ["", r#"{"id":"12"}"#, r#"{"id":"000003eabefb5ef46fac3d1981aec21ef48b83011"}"#] {
            assert_eq!(order_hash(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn receipts_are_read_back_in_parts_and_more_can_follow() {
        let folder = tempfile::tempdir().unwrap();
        let mut receipts = Receipts::create(&folder.path().join("receipts")).unwrap();
        let id = |hash: u128| format!(r#"{{"id":"00000001{hash:032x}"}}"#);
        receipts.keep(id(1).as_bytes());
        receipts.keep(id(1 << 127).as_bytes());
        receipts.keep(b"{}");
        assert_eq!(receipts.hashes(0, &(0..=127)).unwrap(), HashSet::from([1]));
        receipts.keep(id(2).as_bytes());
        assert_eq!(receipts.hashes(0, &(0..=255)).unwrap(), HashSet::from([1, 2, 1 << 127]));
        assert_eq!(receipts.hashes(2, &(0..=255)).unwrap(), HashSet::from([2]));
        assert_eq!((receipts.count(), receipts.unreadable), (3, 1));
    }
}
