//! The public beacon that draws wait for: drand, of the scheme `bls-unchained-g1-rfc9380`.
//!
//! A thread looks for lines whose entries are closed, asks for their round once it is due, checks its signature, and hands it to
//! the profile, which draws. Of lines that wait for another beacon than the configured one the log says so. Must not: decide when a draw goes without one; that is the engine's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use blst::BLST_ERROR;
use blst::min_sig::{PublicKey, Signature};
use engine::draw::randomness;
use engine::{BeaconTerms, Command, DrawView, LineView, Phase, SkuId, Spoken, UnixMs};
use serde::Deserialize;
use ureq::Agent;

use crate::authorities::{self, NotAuthorities};
use crate::hex::{hex, unhex};
use crate::intake::catalog::Catalog;
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

/// drand's own network of this scheme, as it is published: <https://api.drand.sh/52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971/info>
pub const QUICKNET: BeaconTerms = BeaconTerms {
    public_key: [
        0x83, 0xcf, 0x0f, 0x28, 0x96, 0xad, 0xee, 0x7e, 0xb8, 0xb5, 0xf0, 0x1f, 0xca, 0xd3, 0x91, 0x22, 0x12,
        0xc4, 0x37, 0xe0, 0x07, 0x3e, 0x91, 0x1f, 0xb9, 0x00, 0x22, 0xd3, 0xe7, 0x60, 0x18, 0x3c, 0x8c, 0x4b,
        0x45, 0x0b, 0x6a, 0x0a, 0x6c, 0x3a, 0xc6, 0xa5, 0x77, 0x6a, 0x2d, 0x10, 0x64, 0x51, 0x0d, 0x1f, 0xec,
        0x75, 0x8c, 0x92, 0x1c, 0xc2, 0x2b, 0x0e, 0x17, 0xe6, 0x3a, 0xaf, 0x4b, 0xcb, 0x5e, 0xd6, 0x63, 0x04,
        0xde, 0x9c, 0xf8, 0x09, 0xbd, 0x27, 0x4c, 0xa7, 0x3b, 0xab, 0x4a, 0xf5, 0xa6, 0xe9, 0xc7, 0x6a, 0x4b,
        0xc0, 0x9e, 0x76, 0xea, 0xe8, 0x99, 0x1e, 0xf5, 0xec, 0xe4, 0x5a,
    ],
    genesis_s: 1_692_803_367,
    period_s: 3,
};

/// That a beacon with a known key speaks when it really does: with other times a draw waits for what was said years before. Of a key
/// that is not known nobody here can tell.
///
/// # Errors
/// In words, to follow what has these terms.
pub fn check_times(terms: &BeaconTerms) -> Result<(), String> {
    let BeaconTerms { public_key, genesis_s, period_s } = QUICKNET;
    if terms.public_key == public_key && *terms != QUICKNET {
        return Err(format!(
            "drand's quicknet, whose key this is, has genesis_s = {genesis_s} and period_s = {period_s}"
        ));
    }
    Ok(())
}

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

/// Listens to a beacon, and looks for lines that wait for another, until it is dropped.
#[derive(Debug)]
pub struct Listening {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// # Errors
    /// If the thread can't be started.
    pub fn start(
        beacon: Option<Beacon>,
        intake: Intake,
        asker: Asker,
        thread: impl Fn(String) -> thread::Builder,
    ) -> io::Result<Listening> {
        let (stop, stopped) = sync_channel(1);
        let listen = move || listen(beacon.as_ref(), &intake, &asker, &stopped);
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

fn listen(beacon: Option<&Beacon>, intake: &Intake, asker: &Asker, stopped: &Receiver<()>) {
    let silence = Recurring::new("the beacon that a draw waits for says nothing; asked again");
    let (asked, mut unasked) = (beacon.map(Beacon::terms), Unasked::default());
    loop {
        let catalog = intake.shelf.current();
        for (sku, line) in unasked.look(asked.as_ref(), &catalog, intake.clock.now()) {
            report(&catalog, sku, &line);
        }
        if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Some(beacon) = beacon else { continue };
        for (round, skus) in due(beacon, intake) {
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

/// All, as last committed.
fn lines(catalog: &Catalog) -> impl Iterator<Item = (SkuId, LineView)> {
    (0..).zip(&catalog.skus).filter_map(|(number, sku)| Some((SkuId(number), sku.board.as_deref()?.read()?)))
}

/// The rounds that lines of this beacon wait for and that it has spoken by now.
fn due(beacon: &Beacon, intake: &Intake) -> BTreeMap<u64, Vec<SkuId>> {
    let now = intake.clock.now();
    let mut rounds: BTreeMap<u64, Vec<SkuId>> = BTreeMap::new();
    for (sku, line) in lines(&intake.shelf.current()) {
        if let DrawView::Closed(closed) = line.draw
            && line.terms.beacon == Some(beacon.terms)
            && let Some(round) = closed.round
            && beacon.terms.due_at(round) <= now
        {
            rounds.entry(round).or_default().push(sku);
        }
    }
    rounds
}

/// The lines whose draw is to come and waits for another beacon than the one that is asked: it will be made without.
pub fn unasked(
    asked: Option<&BeaconTerms>,
    catalog: &Catalog,
    now: UnixMs,
) -> impl Iterator<Item = (SkuId, LineView)> {
    lines(catalog).filter(move |(sku, line)| {
        let (sale, _) = catalog.item(*sku).expect("a SKU has a sale");
        is_unasked(asked, line, sale.phase(now))
    })
}

/// As above, of a line in a sale of this phase.
pub fn is_unasked(asked: Option<&BeaconTerms>, line: &LineView, phase: Phase) -> bool {
    let is_to_come = match line.draw {
        DrawView::Open => phase != Phase::Ended,
        DrawView::Closed(_) => true,
        DrawView::Drawn { .. } => false,
    };
    is_to_come && line.terms.beacon.is_some() && line.terms.beacon.as_ref() != asked
}

/// Those lines as they were at the last look, and whether their entries were closed then: no more than there are items.
#[derive(Debug, Default)]
struct Unasked(BTreeMap<SkuId, bool>);

impl Unasked {
    /// Those that are new, whose entries were closed since, and that were drawn since.
    fn look(
        &mut self,
        asked: Option<&BeaconTerms>,
        catalog: &Catalog,
        now: UnixMs,
    ) -> Vec<(SkuId, LineView)> {
        let before = std::mem::take(&mut self.0);
        let mut news: Vec<_> = unasked(asked, catalog, now).collect();
        self.0 = news.iter().map(|(sku, line)| (*sku, line.draw.closed().is_some())).collect();
        news.retain(|(sku, _)| before.get(sku) != self.0.get(sku));
        let is_drawn = |line: &LineView| matches!(line.draw, DrawView::Drawn { spoken: None, .. });
        news.extend(lines(catalog).filter(|(sku, line)| before.contains_key(sku) && is_drawn(line)));
        news
    }
}

fn report(catalog: &Catalog, sku: SkuId, line: &LineView) {
    let (sale, item) = catalog.item(sku).expect("a SKU has a sale");
    let (sale, product) = (sale.spec.id.0, item.product.0);
    let BeaconTerms { public_key, genesis_s, period_s } = line.terms.beacon.expect("such lines alone");
    let says = match line.draw {
        DrawView::Open => {
            "a line's draw was announced with a beacon that this server is not configured to ask: give [beacon] the url, public_key, \
             genesis_s and period_s that it had when the sale was created, and start again before the entries close"
        }
        DrawView::Closed(_) => {
            "the entries of a line are closed, and nobody asks the beacon that its draw waits for: give [beacon] what it had when the \
             sale was created, and start again; else the draw is made without it, and signed as of a silent one"
        }
        DrawView::Drawn { .. } => {
            "the places of a line are drawn without its beacon, which this server was not configured to ask; what is signed says that \
             it was silent"
        }
    };
    tracing::error!(sale, product, public_key = hex(&public_key), genesis_s, period_s, "{says}");
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
    use engine::{Book, ItemSpec, LineTerms, Payment, ProductId, SaleId, SaleSpec};

    use super::*;

    /// What drand's own network said in round 123.
    fn quicknet() -> ([u8; 96], Spoken) {
        let signature = "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";
        (QUICKNET.public_key, Spoken { round: 123, signature: unhex(signature).unwrap() })
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

    const NOW: UnixMs = UnixMs(1_700_000_000_000);

    fn book() -> Book {
        let terms = LineTerms {
            units: 1,
            turn_ms: 60_000,
            grace_ms: 10_000,
            close_ms: 30_000,
            beacon: Some(QUICKNET),
            access: None,
        };
        let item = ItemSpec {
            product: ProductId(5),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: 1,
            list_price: 1,
            total: 1,
            limit: Some(1),
            image: None,
            line: Some(terms),
        };
        let spec = SaleSpec {
            id: SaleId(7),
            title: "Drop".to_owned(),
            currency: "EUR".to_owned(),
            starts_at: NOW.plus(60_000),
            ends_at: NOW.plus(600_000),
            payment: Payment::OnPlacing,
            open_holds_per_buyer_max: None,
            items: vec![item],
        };
        let mut book = Book::new();
        book.execute(NOW, Command::CreateSale(spec)).unwrap();
        book
    }

    fn catalog(book: &mut Book, now: UnixMs) -> Catalog {
        book.call_due(now, usize::MAX, u32::MAX);
        let catalog = Catalog::of(book.registry(), &Catalog::default());
        let line = book.line_of(SkuId(0)).unwrap();
        catalog.skus[0].board.as_ref().unwrap().publish(now, line, "");
        catalog
    }

    /// A server without the beacon drew as of a silent one, and nothing was logged.
    #[test]
    fn a_line_whose_beacon_nobody_asks_is_said_once_at_each_step() {
        let mut book = book();
        let other = BeaconTerms { period_s: 30, ..QUICKNET };
        let asked = [None, Some(other), Some(QUICKNET)];
        let mut looks: [Unasked; 3] = Default::default();
        for (after_ms, state) in [(0, "open"), (30_000, "closed"), (60_000, "drawn")] {
            let now = NOW.plus(after_ms);
            let catalog = catalog(&mut book, now);
            for (look, asked) in looks.iter_mut().zip(&asked) {
                let mut states = || -> Vec<_> {
                    let news = look.look(asked.as_ref(), &catalog, now);
                    news.into_iter().map(|(_, line)| line.draw.as_str(false)).collect()
                };
                let expected = if *asked == Some(QUICKNET) { vec![] } else { vec![state] };
                assert_eq!((states(), states()), (expected, vec![]), "{asked:?} after {after_ms} ms");
            }
            let at_a_start = Unasked::default().look(None, &catalog, now).len();
            assert_eq!(at_a_start, usize::from(state != "drawn"), "one that was drawn before is over");
        }
        // One that was ended before its close is drawn by nobody.
        let mut book = self::book();
        book.execute(NOW, Command::End(SaleId(7))).unwrap();
        assert_eq!(unasked(None, &catalog(&mut book, NOW), NOW).count(), 0);
    }
}
