//! What is to be done at a verdict, where the console has a button for it.
//!
//! Must not: judge, or do it.

use serde::Serialize;

/// As the console calls its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Create,
    Resume,
}

/// What is pressed, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::figures) struct Press {
    kind: Kind,
    /// `None`: about none that there is.
    sale: Option<u64>,
    /// `None`: about no single item of it.
    product: Option<u64>,
}

impl Press {
    /// Makes a sale.
    pub(super) const CREATE: Press = Press { kind: Kind::Create, sale: None, product: None };

    pub(super) fn resume(sale: u64) -> Press {
        Press { kind: Kind::Resume, sale: Some(sale), product: None }
    }
}
