//! What is asked of whoever would join a line before they may, and whether they have given it: one contract for all ways.
//!
//! Must not: know who has a place already; nobody who has one is asked again.

mod proof_of_work;

use engine::{BuyerId, ProductId, SaleId, UnixMs};

pub use proof_of_work::ProofOfWork;
#[cfg(test)]
pub(crate) use proof_of_work::solve;

/// By what joining is guarded.
#[derive(Clone, Debug, Default)]
pub enum Verifier {
    #[default]
    None,
    ProofOfWork(ProofOfWork),
}

/// Who would join which line. What one has given counts for no other.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub sale: SaleId,
    pub product: ProductId,
    pub buyer: BuyerId,
}

/// What came along with the wish to join.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// The answer to an earlier challenge, if any.
    Answer(Option<&'a str>),
    /// A page without a script asks, which can answer none.
    NoScript,
}

impl Verifier {
    /// The challenge that has to be answered first; `None`: they may join. `secret`: the ledger's, the same after a restart.
    pub fn challenge(
        &self,
        secret: &[u8; 16],
        candidate: &Candidate,
        given: Given<'_>,
        now: UnixMs,
    ) -> Option<String> {
        match self {
            Verifier::None => None,
            Verifier::ProofOfWork(work) => work.challenge(secret, candidate, given, now),
        }
    }

    /// Whoever has no script can't join.
    pub fn needs_script(&self) -> bool {
        match self {
            Verifier::None => false,
            Verifier::ProofOfWork(work) => work.needs_script(),
        }
    }
}
