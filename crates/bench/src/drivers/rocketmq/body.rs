//! The bodies of measured messages, each with a number of its own, so that a consumer can count lost and doubled
//! ones; and sets of such numbers.

/// The number, and the run that it belongs to. Shorter bodies carry neither.
const MARKED_BYTES: usize = 16;
/// What fills the rest.
const FILLER: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

#[derive(Debug, Clone)]
pub struct Bodies {
    pub(super) run: u64,
    /// A whole body; its first bytes are replaced.
    filler: Vec<u8>,
}

impl Bodies {
    /// `run` distinguishes the messages of this run from all others.
    pub fn new(run: u64, bytes: usize) -> Self {
        Self { run, filler: FILLER.iter().copied().cycle().take(bytes).collect() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.filler.len()
    }

    pub(super) fn append(&self, number: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.filler);
        if let Some(mark) = out[start..].first_chunk_mut::<MARKED_BYTES>() {
            mark[..8].copy_from_slice(&number.to_be_bytes());
            mark[8..].copy_from_slice(&self.run.to_be_bytes());
        }
    }

    /// The number of a body of this run that arrived as it was sent.
    pub(super) fn number(&self, body: &[u8]) -> Option<u64> {
        let (mark, rest) = body.split_first_chunk::<MARKED_BYTES>()?;
        let (number, run) = mark.split_first_chunk::<8>()?;
        let intact = run == self.run.to_be_bytes() && rest == self.filler.get(MARKED_BYTES..)?;
        intact.then(|| u64::from_be_bytes(*number))
    }
}

/// Numbers that occurred, at a bit each.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    words: Vec<u64>,
    count: u64,
}

impl Numbers {
    /// More would be half a gigabyte: no run of a bench has as many messages.
    pub(super) const NUMBER_MAX: u64 = 1 << 32;

    /// `false` if it was there already.
    ///
    /// # Panics
    /// If it is not below 2^32.
    pub fn insert(&mut self, number: u64) -> bool {
        assert!(number < Self::NUMBER_MAX, "a run counts its messages from 0");
        let word = usize::try_from(number / 64).expect("it is below 2^26");
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (number % 64);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(new);
        new
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those that are not among the others.
    pub fn missing_in(&self, others: &Self) -> u64 {
        let other = |index| others.words.get(index).copied().unwrap_or(0);
        self.words.iter().enumerate().map(|(at, word)| u64::from((word & !other(at)).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_number_and_shows_whether_it_is_intact() {
        for bytes in [16, 40, 128] {
            let bodies = Bodies::new(77, bytes);
            let mut body = Vec::new();
            bodies.append(123_456, &mut body);
            assert_eq!((body.len(), bodies.number(&body)), (bytes, Some(123_456)));
            assert_eq!(Bodies::new(78, bytes).number(&body), None);
            assert_eq!(bodies.number(&body[..bytes - 1]), None);
            let last = body.last_mut().unwrap();
            *last ^= 1;
            assert_eq!(bodies.number(&body), None);
        }
        let mut short = Vec::new();
        Bodies::new(1, 3).append(5, &mut short);
        assert_eq!((&short[..], Bodies::new(1, 3).number(&short)), (&b"abc"[..], None));
    }

    #[test]
    fn numbers_are_counted_once_and_compared() {
        let (mut sent, mut got) = (Numbers::default(), Numbers::default());
        for number in [0, 63, 64, 1000] {
            assert!(sent.insert(number));
        }
        assert!(!sent.insert(64));
        for number in [0, 64, 5000] {
            got.insert(number);
        }
        assert_eq!((sent.count(), got.count()), (4, 3));
        assert_eq!((sent.missing_in(&got), got.missing_in(&sent)), (2, 1));
    }
}
