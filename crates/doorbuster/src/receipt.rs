//! `doorbuster receipt verify`: whether the receipt of a place in a line is true, without a server or a network.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use engine::draw;
use serde::Deserialize;
use server::hex::{hex, unhex};
use server::line_ticket::RECEIPT;
use server::signing::read_document;

use crate::failure::Failure;
use crate::output::{self, plain, units_of};
use crate::signing_key::{parse_public_key, signed_by};
use crate::time::format_utc;

const FORMAT: u64 = 1;
/// Ten times what one has.
const FILE_BYTES_MAX: u64 = 16_384;

/// Check what the shop signed about somebody's place in a line.
#[derive(Args, Debug)]
pub(crate) struct ReceiptArguments {
    #[command(subcommand)]
    command: ReceiptCommand,
}

#[derive(Subcommand, Debug)]
enum ReceiptCommand {
    Verify(VerifyArguments),
}

/// Check the receipt of a place in a line.
#[derive(Args, Debug)]
#[command(after_help = "\
It says what the receipt says, and whose signature it has. Compare that key with the one that the shop published: with --key it is
compared here. That the buyer's entry is one of the draw's is checked, too; where the place comes from is checked by
`doorbuster draw verify`: root, entries and seed are those of the same draw.

Exit codes: 0 it holds; 1 it was changed, is no receipt, another key signed it, or it has an entry that is none of the draw's.

Examples:
  doorbuster receipt verify receipt.json
  doorbuster receipt verify receipt.json --key 5f0c...")]
struct VerifyArguments {
    /// The receipt, as the page of the line gave it
    file: PathBuf,
    /// The public key that must have signed it: 64 hexadecimal digits
    #[arg(long, value_name = "KEY", value_parser = parse_public_key)]
    key: Option<String>,
}

/// Fields that a newer program adds are read past.
#[derive(Deserialize)]
struct Receipt {
    format: u64,
    ledger: String,
    sale: u64,
    product: u64,
    title: String,
    buyer: String,
    number: u32,
    place: Option<u32>,
    outcome: String,
    reached_by_entry: Option<u64>,
    left_when_reached: Option<u64>,
    /// Why the buyer was passed over; older receipts have neither this nor the next ones.
    blocked_by: Option<String>,
    state: Option<String>,
    sure_to: Option<u32>,
    made_at_ms: Option<u64>,
    served: u32,
    free: u64,
    turns: u64,
    held: u64,
    sold: u64,
    entries: Option<u32>,
    root: Option<String>,
    /// Of the order of places; older receipts have none.
    seed: Option<String>,
    leaf: Option<String>,
    path: Option<Vec<String>>,
    entry: u64,
}

pub(crate) fn run(arguments: &ReceiptArguments) -> Result<(), Failure> {
    let ReceiptCommand::Verify(VerifyArguments { file, key }) = &arguments.command;
    let name = file.display();
    let bytes = read(file).map_err(|error| Failure::usage(format!("{name} can't be read: {error}")))?;
    let wrong = |why: &str| Failure::check(format!("{name}: {why}"));
    let changed = || wrong("it was changed, or is no receipt");
    let (content, public_key) = read_document(RECEIPT, &bytes).ok_or_else(changed)?;
    let signed = signed_by(&public_key, key.as_deref()).map_err(|why| wrong(&why))?;
    let receipt: Receipt = serde_json::from_str(content.get()).map_err(|_other| changed())?;
    if receipt.format != FORMAT {
        return Err(wrong(&format!(
            "it is of format {}, and this program verifies {FORMAT}",
            receipt.format
        )));
    }
    if !receipt.is_of_its_draw() {
        return Err(wrong("its entry is none of those that its draw was made of"));
    }
    output::print(&format!("ok: {}{signed}\n", receipt.says()))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Receipt {
    /// Whoever came after the close has no entry, and a receipt of an older program shows none.
    fn is_of_its_draw(&self) -> bool {
        let (Some(leaf), Some(path)) = (&self.leaf, &self.path) else { return true };
        let climbed = || {
            let path: Vec<_> = path.iter().map(|beside| unhex(beside)).collect::<Option<_>>()?;
            draw::climb(unhex(leaf)?, (self.number, self.entries?), &path)
        };
        climbed().is_some_and(|root| self.root == Some(hex(&root)))
    }

    fn says(&self) -> String {
        let Receipt { sale, product, number, served, entry, .. } = self;
        // Whoever has made the file may have signed it, too.
        let [ledger, title, buyer, outcome] =
            [&self.ledger, &self.title, &self.buyer, &self.outcome].map(|text| plain(text));
        let place = self.place.map_or("no place yet".to_owned(), |place| format!("place {place}"));
        let reached = match (self.reached_by_entry, self.left_when_reached) {
            (Some(by), Some(left)) => format!("reached by entry {by} with {} left", units_of(left, "")),
            _ => format!("not reached: {served} places were"),
        };
        let units =
            format!("{} free, {} in turns, {} held, {} sold", self.free, self.turns, self.held, self.sold);
        let blocked =
            self.blocked_by.as_deref().map_or(String::new(), |why| format!(", passed over: {}", plain(why)));
        let sale_was =
            self.state.as_deref().map_or(String::new(), |state| format!(", the sale {}", plain(state)));
        let sure = self.sure_to.map_or(String::new(), |place| format!(", promised up to place {place}"));
        let made = self.made_at_ms.map_or(String::new(), |at| format!(", made at {}", format_utc(at)));
        let root = self.root.as_deref().map_or("none: the entries were not closed".to_owned(), plain);
        let seed = self.seed.as_deref().map_or("not in it".to_owned(), plain);
        format!(
            "product {product} of sale {sale}, {title}\nbuyer {buyer}, number {number}, {place}: {outcome}{blocked}; {reached}\nas of entry {entry} of the ledger {ledger}{made}: {units}{sure}{sale_was}\n\
             root of the draw: {root}\nseed of the draw: {seed}\n"
        )
    }
}
