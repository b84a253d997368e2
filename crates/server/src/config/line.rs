//! What is asked of whoever would join a line.

use serde::Deserialize;

use crate::verifier::{ProofOfWork, Verifier};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    verifier: Kind,
    pub(super) proof_of_work_bits: u8,
    without_script: WithoutScript,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    None,
    ProofOfWork,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WithoutScript {
    Refused,
    Admitted,
}

impl Line {
    pub(crate) fn verifier(&self) -> Verifier {
        let admits_without_script = self.without_script == WithoutScript::Admitted;
        match self.verifier {
            Kind::None => Verifier::None,
            Kind::ProofOfWork => {
                Verifier::ProofOfWork(ProofOfWork::new(self.proof_of_work_bits, admits_without_script))
            }
        }
    }
}
