//! What is asked of whoever would join a line before they may, and whether they have given it: one contract for all ways.
//!
//! Must not: know who has a place already; nobody who has one in a sale is asked again there.

mod desk;
mod proof_of_work;
mod siteverify;

use std::net::IpAddr;

use engine::{BuyerId, ProductId, SaleId, UnixMs};

pub use desk::{Desk, OnOutcome, Question, TokenOutcome};
pub use proof_of_work::ProofOfWork;
#[cfg(test)]
pub(crate) use proof_of_work::solve;
pub use siteverify::{Expected, Service};

/// By what joining is guarded.
#[derive(Debug, Default)]
pub enum Verifier {
    #[default]
    None,
    ProofOfWork(ProofOfWork),
    /// A service is asked. Whoever has no script has nothing to show, and joins without if they are admitted.
    Http {
        desk: Desk,
        admits_without_script: bool,
    },
}

/// Who would join which line, and from where. What one has given counts for no other.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub sale: SaleId,
    pub product: ProductId,
    pub buyer: BuyerId,
    pub address: IpAddr,
}

/// What came along with the wish to join.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// The answer to an earlier challenge, or what a service gave, if any.
    Answer(Option<&'a str>),
    /// A page without a script asks, which can answer none.
    NoScript,
}

/// What is said to it.
#[derive(Debug)]
pub enum Verification {
    Passed,
    /// This has to be given first.
    Required(RequiredProof),
    /// Somebody else has to be asked: see [`Verifier::ask`].
    Later(Question),
}

/// What has to be given first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequiredProof {
    /// The answer to this challenge.
    Challenge(String),
    /// A token of the service, which the shop's own pages get.
    Token,
}

impl Verifier {
    /// `secret`: the ledger's, the same after a restart.
    pub fn judge(
        &self,
        secret: &[u8; 16],
        candidate: &Candidate,
        given: Given<'_>,
        now: UnixMs,
    ) -> Verification {
        match (self, given) {
            (Verifier::None, _) => Verification::Passed,
            (Verifier::ProofOfWork(work), _) => match work.challenge(secret, candidate, given, now) {
                None => Verification::Passed,
                Some(challenge) => Verification::Required(RequiredProof::Challenge(challenge)),
            },
            (Verifier::Http { admits_without_script: true, .. }, Given::NoScript) => Verification::Passed,
            (Verifier::Http { .. }, Given::Answer(Some(token))) if siteverify::is_token(token) => {
                let Candidate { buyer, address, .. } = *candidate;
                Verification::Later(Question { buyer, address, token: token.into() })
            }
            (Verifier::Http { .. }, _) => Verification::Required(RequiredProof::Token),
        }
    }

    /// Asks what has to be asked elsewhere: `answer` is called once, now or from another thread.
    pub fn ask(&self, question: Question, answer: OnOutcome) {
        match self {
            Verifier::Http { desk, .. } => desk.ask(question, answer),
            Verifier::None | Verifier::ProofOfWork(_) => unreachable!("these ask nobody"),
        }
    }
}
