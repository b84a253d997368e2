//! What is rehearsed by others on the engines that servers share: known by the lock that each program holds for as long as it
//! plays, and by the operators' log, which has the beginning of one that an operator has begun.
//!
//! Must not: keep anybody from rehearsing for longer than it takes to note an end.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use engine::Operated;

use super::process::LAST_WORDS;
use super::{LEDGER_PATIENCE, cut_off, keep};
use crate::intake::Asker;
use crate::ledger::mysql::Options;
use crate::ledger::mysql::beside::{Onlooker, REHEARSAL};
use crate::ledger::{OperatorAction, Source};

/// Between two looks at the lock.
const INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks into the log while the lock stays as it is.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Between two looks whether this is to end.
const STEP: Duration = Duration::from_millis(200);
/// So long none is played of which an end is missing: more than its server takes to note it.
const NOTED_WITHIN: Duration = Duration::from_secs(20);
const _: () = assert!(NOTED_WITHIN.as_secs() > LAST_WORDS.as_secs() + LEDGER_PATIENCE.as_secs());

/// The one that is played elsewhere, if there is one: in words as what follows "another rehearsal of this installation is under way".
#[derive(Debug, Default)]
pub(super) struct Elsewhere(Mutex<Option<String>>);

impl Elsewhere {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, played: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = played;
    }
}

/// Looks for it, on a thread.
pub(super) struct Watch {
    lock: Onlooker,
    ledger: Source,
    asker: Asker,
    taken: bool,
    log_read_at: Option<Instant>,
    /// One without an end that is not played, since when.
    unended: Option<(OperatorAction, Instant)>,
}

impl Watch {
    pub(super) fn new(options: Options, asker: Asker) -> Watch {
        let lock = Onlooker::new(&options, REHEARSAL);
        let ledger = Source::MySql(Box::new(options));
        Watch { lock, ledger, asker, taken: false, log_read_at: None, unended: None }
    }

    pub(super) fn run(
        mut self,
        elsewhere: &Elsewhere,
        plays_here: impl Fn() -> bool,
        is_over: impl Fn() -> bool,
    ) {
        while !is_over() {
            let begun = Instant::now();
            elsewhere.set(self.look(elsewhere.get(), &plays_here));
            while begun.elapsed() < INTERVAL && !is_over() {
                thread::sleep(STEP);
            }
        }
    }

    /// `played`: what was found last.
    fn look(&mut self, played: Option<String>, plays_here: impl Fn() -> bool) -> Option<String> {
        let taken = self.lock.is_taken();
        // After the look: one that began here meanwhile has taken it.
        if plays_here() {
            (self.taken, self.log_read_at, self.unended) = (false, None, None);
            return None;
        }
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                tracing::debug!(%error, "whether a rehearsal is played elsewhere is not known");
                return None;
            }
        };
        let due = self.log_read_at.is_none_or(|read| read.elapsed() >= LOG_INTERVAL);
        if taken == self.taken && !due {
            return played.filter(|_| taken);
        }
        self.taken = taken;
        self.log_read_at = Some(Instant::now());
        let began = cut_off::unended(&self.ledger).unwrap_or_else(|error| {
            tracing::debug!(%error, "whether a rehearsal has no end is not known");
            None
        });
        if taken {
            self.unended = None;
            return Some(in_words(began.as_ref()));
        }
        self.judge(began);
        None
    }

    /// None is played, and this one has no end.
    fn judge(&mut self, began: Option<OperatorAction>) {
        let known = self.unended.take().filter(|(known, _)| Some(known) == began.as_ref());
        match (known, began) {
            (Some((began, since)), _) if since.elapsed() >= NOTED_WITHIN => self.note(began),
            (known, began) => self.unended = known.or_else(|| Some((began?, Instant::now()))),
        }
    }

    /// Under the lock, so that of all servers one does it. If it fails, it is tried again as if it had been found now.
    fn note(&mut self, began: OperatorAction) {
        let Watch { lock, ledger, asker, .. } = self;
        let noted = lock.alone(|| {
            if cut_off::unended(ledger).ok().flatten().as_ref() == Some(&began) {
                let Operated { by, about, .. } = began.operated;
                tracing::info!(rehearsal = %about, "a rehearsal was cut off");
                let about =
                    format!("{about}: Cut off: it is not played any more, and its server has noted no end.");
                keep((asker, LEDGER_PATIENCE), by, about);
            }
        });
        if let Err(error) = noted {
            tracing::debug!(%error, "that a rehearsal was cut off could not be noted yet");
        }
    }
}

fn in_words(began: Option<&OperatorAction>) -> String {
    let said = |OperatorAction { operated: Operated { by, about, .. }, .. }: &OperatorAction| {
        format!(": {about}, begun by {}", by.who)
    };
    began.map(said).unwrap_or_default()
}
