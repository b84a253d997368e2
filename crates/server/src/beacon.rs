//! The public beacon that draws wait for: drand, of the scheme `bls-unchained-g1-rfc9380`.
//!
//! A thread looks for lines whose entries are closed, asks for their round once it is due, checks its signature, and hands it to
//! the profile, which draws. Must not: decide when a draw goes without one; that is the engine's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use blst::BLST_ERROR;
use blst::min_sig::{PublicKey, Signature};
use engine::draw::randomness;
use engine::{BeaconTerms, Command, DrawView, SkuId, Spoken};
use serde::Deserialize;
use ureq::Agent;

use crate::authorities::{self, NotAuthorities};
use crate::hex::unhex;
use crate::intake::board::Board;
use crate::intake::{Asker, Intake, Reply, Request};
use crate::recurring::Recurring;

/// For a whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Of an answer's body.
const ANSWER_BYTES_MAX: u64 = 4096;
/// Between two looks at the lines.
const INTERVAL: Duration = Duration::from_millis(500);
const LEDGER_PATIENCE: Duration = Duration::from_secs(10);
/// What signatures of that scheme are made for.
const PURPOSE: &[u8] = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";

/// A beacon, and where it is asked.
#[derive(Clone)]
pub struct Beacon {
    agent: Agent,
    url: Arc<str>,
    terms: BeaconTerms,
}

impl fmt::Debug for Beacon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beacon").field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Answer {
    round: u64,
    signature: String,
}

/// Whether the beacon with this key has said so in this round.
pub fn is_genuine(public_key: &[u8; 96], spoken: &Spoken) -> bool {
    let read = PublicKey::key_validate(public_key).and_then(|key| {
        let signature = Signature::sig_validate(&spoken.signature, true)?;
        Ok((key, signature))
    });
    let Ok((key, signature)) = read else { return false };
    let message = randomness(&spoken.round.to_be_bytes());
    signature.verify(true, &message, PURPOSE, &[], &key, true) == BLST_ERROR::BLST_SUCCESS
}

impl Beacon {
    /// `authorities`: PEM certificates that vouch for an https server; `None`: it is reached without TLS.
    ///
    /// # Errors
    /// If the certificates can not be read as such.
    pub fn new(url: &str, terms: BeaconTerms, authorities: Option<&[u8]>) -> Result<Beacon, NotAuthorities> {
        let settings = authorities::client(TIMEOUT, authorities)?
            .user_agent(concat!("Doorbuster/", env!("CARGO_PKG_VERSION")));
        let url = Arc::from(url.trim_end_matches('/'));
        Ok(Beacon { agent: settings.build().into(), url, terms })
    }

    pub fn terms(&self) -> BeaconTerms {
        self.terms
    }

    /// What it said in a round. Blocks, at most for [`TIMEOUT`].
    fn ask(&self, round: u64) -> Result<Spoken, String> {
        let asked = self.agent.get(format!("{}/public/{round}", self.url)).call();
        let mut answer = asked.map_err(|error| error.to_string())?;
        if answer.status() != 200 {
            return Err(format!("it answers {}", answer.status()));
        }
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let said: Answer = body.read_json().map_err(|error| error.to_string())?;
        let signature = unhex(&said.signature).ok_or("its signature has not 48 bytes")?;
        let spoken = Spoken { round, signature };
        if said.round != round {
            return Err(format!("asked for round {round}, it answers with {}", said.round));
        }
        match is_genuine(&self.terms.public_key, &spoken) {
            true => Ok(spoken),
            false => Err(format!("its signature of round {round} is not by the key of the configuration")),
        }
    }
}

/// Listens to a beacon, until it is dropped.
#[derive(Debug)]
pub struct Listening {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// # Errors
    /// If the thread can't be started.
    pub fn start(
        beacon: Beacon,
        core: Intake,
        asker: Asker,
        thread: impl Fn(String) -> thread::Builder,
    ) -> io::Result<Listening> {
        let (stop, stopped) = sync_channel(1);
        let listen = move || listen(&beacon, &core, &asker, &stopped);
        Ok(Listening { stop: Some(stop), thread: Some(thread("beacon".to_owned()).spawn(listen)?) })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that listens to the beacon panicked; draws went without it");
        }
    }
}

fn listen(beacon: &Beacon, core: &Intake, asker: &Asker, stopped: &Receiver<()>) {
    let silence = Recurring::new("the beacon that a draw waits for says nothing; asked again");
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        for (round, skus) in due(beacon, core) {
            match beacon.ask(round) {
                Ok(spoken) => {
                    silence.well();
                    skus.into_iter().for_each(|sku| draw(asker, sku, spoken));
                }
                Err(error) => silence.met(&error),
            }
        }
    }
}

/// The rounds that lines of this beacon wait for and that it has spoken by now.
fn due(beacon: &Beacon, core: &Intake) -> BTreeMap<u64, Vec<SkuId>> {
    let (catalog, now) = (core.shelf.current(), core.clock.now());
    let mut rounds: BTreeMap<u64, Vec<SkuId>> = BTreeMap::new();
    for (number, sku) in (0..).zip(&catalog.skus) {
        let Some(line) = sku.board.as_deref().and_then(Board::read) else { continue };
        if let DrawView::Closed(closed) = line.draw
            && line.terms.beacon == Some(beacon.terms)
            && let Some(round) = closed.round
            && beacon.terms.due_at(round) <= now
        {
            rounds.entry(round).or_default().push(SkuId(number));
        }
    }
    rounds
}

/// What is unknown now is looked at again: the line waits still, or is drawn.
fn draw(asker: &Asker, sku: SkuId, spoken: Spoken) {
    let command = Command::Draw { sku, spoken: Box::new(spoken) };
    match asker.ask(Request::Execute(command), LEDGER_PATIENCE) {
        Reply::Accepted(_) => {
            tracing::info!(sku = sku.0, round = spoken.round, "the places of a line are drawn")
        }
        other => tracing::warn!(sku = sku.0, ?other, "the places of a line could not be drawn"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of drand's own network, and what it said in round 123.
    fn quicknet() -> ([u8; 96], Spoken) {
        let key = "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d1064510\
                   d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a";
        let signature = "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";
        (unhex(key).unwrap(), Spoken { round: 123, signature: unhex(signature).unwrap() })
    }

    #[test]
    fn only_what_the_beacon_said_is_genuine() {
        let (key, spoken) = quicknet();
        assert!(is_genuine(&key, &spoken));
        assert!(!is_genuine(&key, &Spoken { round: 124, ..spoken }), "another round");
        for place in [0, 1, 20, 47] {
            let mut other = spoken;
            other.signature[place] ^= 1;
            assert!(!is_genuine(&key, &other), "byte {place} changed");
            let mut other = key;
            other[place] ^= 1;
            assert!(!is_genuine(&other, &spoken), "byte {place} of the key changed");
        }
        // The point at infinity is nobody's signature, and nobody's key.
        let mut infinity = Spoken { round: 123, signature: [0; 48] };
        infinity.signature[0] = 0xc0;
        let mut nobody = [0; 96];
        nobody[0] = 0xc0;
        assert!(!is_genuine(&key, &infinity) && !is_genuine(&nobody, &infinity));
    }
}
