//! What the servers of a cluster make known to each other, between who takes the figures and who carries them. Must not: know what
//! is in them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::time::Instant;

/// What this server says, and what it has heard of the others.
#[derive(Debug, Default)]
pub struct Servers {
    ours: Mutex<Option<Arc<[u8]>>>,
    others: Mutex<Arc<[ServerReport]>>,
}

/// What another server has said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    pub said: Arc<[u8]>,
    /// When it was first read here; so nobody's clock counts.
    pub at: Instant,
    /// It has said something while we listened. Otherwise it may have been gone for long.
    pub lives: bool,
}

impl Servers {
    /// What is longer is not said, and not read.
    pub const SAID_BYTES_MAX: usize = 16 * 1024;
    /// Others beyond that are not heard.
    pub const OTHERS_MAX: usize = 31;

    /// Something longer than [`Servers::SAID_BYTES_MAX`] is left out, and this server is silent to the others.
    pub fn say(&self, ours: Vec<u8>) {
        if ours.len() <= Servers::SAID_BYTES_MAX {
            *self.ours.lock().unwrap_or_else(PoisonError::into_inner) = Some(ours.into());
        }
    }

    pub fn ours(&self) -> Option<Arc<[u8]>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn hear(&self, others: Vec<ServerReport>) {
        *self.others.lock().unwrap_or_else(PoisonError::into_inner) = others.into();
    }

    /// The same while nothing has changed.
    pub fn others(&self) -> Arc<[ServerReport]> {
        Arc::clone(&self.others.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
