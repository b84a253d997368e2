//! `doorbuster draw`: the draw of an item's line as a file, and whether such a file is true.
//!
//! The file is text: a line of JSON with what was announced and what came of it, then a line for each entry: its number, its leaf
//! of the tree, and its place. Verifying needs nothing else: no ledger, no server, no network. Must not: draw.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use engine::draw::{self, Entries, Hash, Permutation};
use engine::{BeaconTerms, ClosedLine, DrawView, ProductId, SaleId, Spoken, UnixMs, limits};
use serde::{Deserialize, Serialize};
use server::beacon::{QUICKNET, check_times, is_genuine};
use server::config::Environment;
use server::hex::{hex, unhex};
use server::ledger::{Draw, NoDraw, Statements};
use server::line_ticket::LineTicket;
use server::signing::{SigningKey, is_signed};

use crate::failure::Failure;
use crate::ledger::LedgerArguments;
use crate::output;
use crate::signing_key::{parse_public_key, signed_by};
use crate::time::format_utc_exactly;

const FORMAT: u64 = 3;
/// Of its first line.
const HEAD_BYTES_MAX: u64 = 8_192;
/// Of one about an entry.
const ENTRY_BYTES_MAX: u64 = 100;

/// Export the draw of an item's line, or verify an exported one: who stands in which place.
#[derive(Args, Debug)]
pub(crate) struct DrawArguments {
    #[command(subcommand)]
    command: DrawCommand,
}

#[derive(Subcommand, Debug)]
enum DrawCommand {
    Export(ExportArguments),
    Verify(VerifyArguments),
}

/// Write the draw of an item's line to a file, while the server runs or not.
#[derive(Args, Debug)]
#[command(after_help = "\
The file names nobody: an entry is a hash that only whoever has its ticket can make. It has all that is needed to compute every
place again, and the shop's signatures of who took part and of what was drawn.

Exit codes: 0 it is written; 1 the item has no draw, or none yet; 64 the file is there already, there is no key, or several sales
have the product: name one.

Examples:
  doorbuster draw export --data-dir var/doorbuster --product 31 --to draw-31.txt
  doorbuster draw export --data-dir var/doorbuster --sale 7 --product 31 --to draw-7-31.txt")]
struct ExportArguments {
    #[command(flatten)]
    ledger: LedgerArguments,
    /// The sale's number [default: the only one that sells the product to a line]
    #[arg(long, value_name = "SALE")]
    sale: Option<u64>,
    /// The product in it
    #[arg(long, value_name = "PRODUCT")]
    product: u64,
    /// The file, which must not be there yet
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The shop's key, which signs [default: ledger.signing_key_file, or report-key in the data directory]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Compute every place of an exported draw again, without a server or a network.
#[derive(Args, Debug)]
#[command(after_help = "\
It checks that the secret is the one that was committed to before, that the entries add up to the root that was published at the
close, that the beacon said so in its round, that every place follows from these, and that one key signed both who took part and
what was drawn. Of drand's quicknet it knows the times, too. With a ticket, also that it took part, and where it stands; whoever
joined after the close did not. Compare commitment, root, round and the close's time with what the server showed before the draw,
the beacon's key, genesis and period with what its operators publish, and the signatures with what the server showed after the
draw: a file can't prove when it was made.

Exit codes: 0 it holds; 1 it does not, or it can't be verified, and why; 64 the arguments are wrong, or the file is not there.

Examples:
  doorbuster draw verify draw-7-31.txt
  doorbuster draw verify draw-7-31.txt --ticket 7.4711.0f3c...")]
struct VerifyArguments {
    /// The file, as `doorbuster draw export` wrote it
    file: PathBuf,
    /// Whose place to show: the ticket that joining the line gave
    #[arg(long, value_name = "TICKET")]
    ticket: Option<LineTicket>,
    /// The public key that must have signed it: 64 hexadecimal digits
    #[arg(long, value_name = "KEY", value_parser = parse_public_key)]
    key: Option<String>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: u64,
    sale: u64,
    product: u64,
    commitment: String,
    closed_at_ms: u64,
    entries: u32,
    root: String,
    beacon: Option<HeadBeacon>,
    secret: String,
    seed: String,
    /// Whose the two signatures are.
    signed_by: String,
    /// Of the close.
    signature: String,
    drawn_signature: String,
}

/// What the first line has in every format.
#[derive(Deserialize)]
struct OfAnyFormat {
    format: u64,
}

/// What was announced; without a signature, it was silent, and the draw made without it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadBeacon {
    public_key: String,
    genesis_s: u64,
    period_s: u32,
    round: u64,
    signature: Option<String>,
}

impl Head {
    fn closed_at(&self) -> UnixMs {
        UnixMs(self.closed_at_ms)
    }
}

/// A beacon as it was announced, and what it said in its round; `None`: it was silent.
struct Heard {
    terms: BeaconTerms,
    round: u64,
    spoken: Option<Spoken>,
}

pub(crate) fn run(arguments: &DrawArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        DrawCommand::Export(arguments) => export(arguments, environment),
        DrawCommand::Verify(arguments) => verify(arguments),
    }
}

fn export(arguments: &ExportArguments, environment: &Environment) -> Result<(), Failure> {
    let source = arguments.ledger.source(environment)?;
    let key = arguments
        .ledger
        .key_file(arguments.key.as_deref(), environment)?
        .ok_or_else(|| Failure::usage("a draw is signed: name the shop's key with --key"))?;
    let key = key.read()?.ok_or_else(|| Failure::usage(format!("there is no key {key}")))?;
    let product = arguments.product;
    let found =
        source.draw(arguments.sale.map(SaleId), ProductId(product)).map_err(crate::ledger::cannot_audit)?;
    let draw = found.map_err(|why| match (&why, arguments.sale) {
        (NoDraw::Several(_), _) => Failure::usage(format!("product {product}: {why}; name one with --sale")),
        (_, Some(sale)) => Failure::check(format!("product {product} of sale {sale}: {why}")),
        (_, None) => Failure::check(format!("product {product}: {why}")),
    })?;
    let path = &arguments.to;
    let failed =
        |error: std::io::Error| Failure::usage(format!("{} can't be written: {error}", path.display()));
    let file = File::options().write(true).create_new(true).open(path).map_err(failed)?;
    write(&draw, &key, file).inspect_err(|_| drop(std::fs::remove_file(path))).map_err(failed)?;
    let (entries, sale) = (draw.leaves.len(), draw.sale.0);
    output::print(&format!("{}: {entries} entries, product {product} of sale {sale}\n", path.display()))
}

fn write(draw: &Draw, key: &SigningKey, file: File) -> std::io::Result<()> {
    let DrawView::Drawn { closed, spoken, secret, seed } = draw.line.draw else {
        unreachable!("only places that are drawn are exported")
    };
    let terms = draw.line.terms.beacon;
    let beacon = terms.zip(closed.round).map(|(beacon, round)| HeadBeacon {
        public_key: hex(&beacon.public_key),
        genesis_s: beacon.genesis_s,
        period_s: beacon.period_s,
        round,
        signature: spoken.map(|spoken| hex(&spoken.signature)),
    });
    let (sale, product, commitment) = (draw.sale, draw.product, &draw.line.commitment);
    let statements = Statements { sale, product, commitment, closed: &closed, beacon: terms.as_ref() };
    let head = Head {
        format: FORMAT,
        sale: sale.0,
        product: product.0,
        commitment: hex(commitment),
        closed_at_ms: closed.at.0,
        entries: closed.entries,
        root: hex(&closed.root),
        beacon,
        secret: hex(&secret),
        seed: hex(&seed),
        signed_by: key.public(),
        signature: key.sign(statements.close().as_bytes()),
        drawn_signature: key.sign(statements.drawn(spoken.as_ref(), &seed).as_bytes()),
    };
    let mut out = BufWriter::new(file);
    serde_json::to_writer(&mut out, &head)?;
    let order = Permutation::new(&seed, closed.entries);
    for (number, leaf) in (1..).zip(&draw.leaves) {
        write!(out, "\n{number} {} {}", hex(leaf), order.place_of(number))?;
    }
    out.write_all(b"\n")?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
}

fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let VerifyArguments { file: path, ticket, key } = arguments;
    let name = path.display();
    let file = File::open(path).map_err(|error| Failure::usage(format!("{name} can't be read: {error}")))?;
    let mut lines = Lines { input: BufReader::new(file), line: String::new() };
    let wrong = |why: String| Failure::check(format!("{name}: {why}"));
    let head =
        lines.next(HEAD_BYTES_MAX).and_then(|line| line.ok_or("it is empty".to_owned())).map_err(wrong)?;
    let head = read_head(head).map_err(wrong)?;
    let beacon = head.beacon.as_ref().map(|beacon| check_beacon(beacon, head.closed_at())).transpose();
    let beacon = beacon.map_err(wrong)?;
    let seed = check_seed(&head, beacon.as_ref().and_then(|beacon| beacon.spoken)).map_err(wrong)?;
    let signed = check_signatures(&head, &seed, beacon.as_ref(), key.as_deref()).map_err(wrong)?;
    let own = check_entries(&head, &seed, lines, *ticket).map_err(wrong)?;
    let beacon = beacon_text(head.closed_at(), beacon.as_ref());
    let mut text = format!(
        "ok: {} places of product {} in sale {} are as they were drawn\n{beacon}\ncommitment {}\nroot       {}\n",
        head.entries, head.product, head.sale, head.commitment, head.root
    );
    text.push_str(&format!("seed       {}\nclose and draw are {signed}\n", head.seed));
    if let Some((number, place)) = own {
        text.push_str(&format!("your number {number} has place {place}\n"));
    }
    output::print(&text)
}

/// What to compare, and with what.
fn beacon_text(closed_at: UnixMs, beacon: Option<&Heard>) -> String {
    let closed = format!("the entries closed at {}", format_utc_exactly(closed_at.0));
    let Some(Heard { terms, round, spoken }) = beacon else {
        return format!(
            "no beacon was announced: whoever runs the sale could choose who else joined; {closed}"
        );
    };
    let at = format_utc_exactly(terms.due_at(*round).0);
    let came = match spoken {
        Some(_) => format!("by round {round} of the beacon, emitted at {at}; {closed}"),
        None => format!(
            "the beacon was silent in round {round}, due at {at}: whoever runs the sale could have kept it from being heard; {closed}"
        ),
    };
    let which = match *terms == QUICKNET {
        true => "the beacon is drand's quicknet, whose key and times these are",
        false => {
            "compare all three with what the beacon's operators publish: with another key or other times its value was known before"
        }
    };
    let BeaconTerms { public_key, genesis_s, period_s } = terms;
    format!("{came}\n{which}:\npublic_key {}\ngenesis_s  {genesis_s}\nperiod_s   {period_s}", hex(public_key))
}

fn read_head(line: &str) -> Result<Head, String> {
    let not_one = |error: serde_json::Error| format!("it is no draw: {error}");
    let OfAnyFormat { format } = serde_json::from_str(line).map_err(not_one)?;
    if format != FORMAT {
        return Err(format!("it is of format {format}, and this program verifies {FORMAT}: export it again"));
    }
    serde_json::from_str(line).map_err(not_one)
}

/// That the seed comes of what was announced, and what the beacon said.
fn check_seed(head: &Head, spoken: Option<Spoken>) -> Result<Hash, String> {
    let read =
        |what: &str, text: &str| unhex::<32>(text).ok_or_else(|| format!("its {what} has not 32 bytes"));
    let (secret, root) = (read("secret", &head.secret)?, read("root", &head.root)?);
    if draw::commitment(&secret) != read("commitment", &head.commitment)? {
        return Err("the secret is not the one that was committed to".to_owned());
    }
    let beacon = spoken.map(|spoken| draw::randomness(&spoken.signature));
    let seed = draw::seed(&secret, &root, beacon.as_ref());
    if seed != read("seed", &head.seed)? {
        return Err("the seed does not come of secret, root and beacon".to_owned());
    }
    Ok(seed)
}

/// That one key signed who takes part, and all that came of it; says which.
fn check_signatures(
    head: &Head,
    seed: &Hash,
    beacon: Option<&Heard>,
    wanted: Option<&str>,
) -> Result<String, String> {
    let root = unhex(&head.root).expect("it was read before");
    let commitment: Hash = unhex(&head.commitment).expect("it was read before");
    let round = beacon.map(|beacon| beacon.round);
    let closed = ClosedLine { at: head.closed_at(), entries: head.entries, root, round };
    let statements = Statements {
        sale: SaleId(head.sale),
        product: ProductId(head.product),
        commitment: &commitment,
        closed: &closed,
        beacon: beacon.map(|beacon| &beacon.terms),
    };
    let spoken = beacon.and_then(|beacon| beacon.spoken.as_ref());
    for (what, statement, signature) in [
        ("close", statements.close(), &head.signature),
        ("draw", statements.drawn(spoken, seed), &head.drawn_signature),
    ] {
        if !is_signed(statement.as_bytes(), &head.signed_by, signature) {
            return Err(format!("the signature of its {what} is of something else"));
        }
    }
    signed_by(&head.signed_by, wanted)
}

/// That its round was emitted after the close, by the times that are in the file, and that it said so.
fn check_beacon(beacon: &HeadBeacon, closed_at: UnixMs) -> Result<Heard, String> {
    let public_key = unhex(&beacon.public_key).ok_or("the beacon's key has not 96 bytes")?;
    if !limits::BEACON_PERIOD_S.contains(&beacon.period_s) {
        return Err("a beacon does not speak so seldom or so often".to_owned());
    }
    let terms = BeaconTerms { public_key, genesis_s: beacon.genesis_s, period_s: beacon.period_s };
    check_times(&terms).map_err(|why| {
        format!("the beacon's value may have been known before: {why}, and not what it says")
    })?;
    let round = terms.round_after(closed_at);
    if round != beacon.round {
        return Err(format!("the draw was to wait for round {round}"));
    }
    let Some(signature) = &beacon.signature else { return Ok(Heard { terms, round, spoken: None }) };
    let signature = unhex(signature).ok_or("the beacon's signature has not 48 bytes")?;
    let spoken = Spoken { round, signature };
    match is_genuine(&public_key, &spoken) {
        true => Ok(Heard { terms, round, spoken: Some(spoken) }),
        false => Err(format!("the beacon did not say so in round {round}")),
    }
}

/// That the entries add up to the root, and stand where the seed has them. Returns number and place of a ticket.
fn check_entries(
    head: &Head,
    seed: &Hash,
    mut lines: Lines,
    ticket: Option<LineTicket>,
) -> Result<Option<(u32, u32)>, String> {
    let (order, mut entries) = (Permutation::new(seed, head.entries), Entries::default());
    let mut own = None;
    while let Some(line) = lines.next(ENTRY_BYTES_MAX)? {
        let number = entries.count() + 1;
        let mut words = line.split(' ');
        let mut read = || {
            let is_next = words.next()? == number.to_string();
            let entry = (unhex::<32>(words.next()?)?, words.next()?.parse::<u32>().ok()?);
            (is_next && words.next().is_none()).then_some(entry)
        };
        let (leaf, place) = read().ok_or_else(|| format!("its line {} is no entry {number}", number + 1))?;
        if order.place_of(number) != place {
            return Err(format!("number {number} has place {}, not {place}", order.place_of(number)));
        }
        if let Some(LineTicket { buyer, proof, .. }) = ticket.filter(|ticket| ticket.number == number) {
            if draw::leaf(SaleId(head.sale), ProductId(head.product), number, buyer, &proof) != leaf {
                return Err(format!("the entry of number {number} is not that ticket's"));
            }
            own = Some((number, place));
        }
        entries.add(leaf);
    }
    if entries.count() != head.entries {
        return Err(format!("it has {} entries, not {}", entries.count(), head.entries));
    }
    if hex(&entries.root()) != head.root {
        return Err("its entries do not add up to the root".to_owned());
    }
    match ticket {
        Some(LineTicket { number, .. }) if own.is_none() => Err(format!(
            "all of it holds, but number {number} is not among these entries, and can't be verified: whoever joined after the \
             close has the place of their number, and their receipt says so"
        )),
        _ => Ok(own),
    }
}

/// Reads lines of a bounded length.
struct Lines {
    input: BufReader<File>,
    line: String,
}

impl Lines {
    fn next(&mut self, bytes_max: u64) -> Result<Option<&str>, String> {
        self.line.clear();
        let read = (&mut self.input).take(bytes_max).read_line(&mut self.line);
        match read.map_err(|error| format!("it can't be read: {error}"))? {
            0 => Ok(None),
            _ => self
                .line
                .strip_suffix('\n')
                .map(Some)
                .ok_or_else(|| "a line of it is too long, or cut off".to_owned()),
        }
    }
}
