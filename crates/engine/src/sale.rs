//! A sale and its items: what an operator describes, and when it sells.

use std::collections::{BTreeMap, BTreeSet};

use crate::{BeaconTerms, LineTerms, ProductId, Refusal, SaleId, SkuId, Status, Stock, UnixMs};

/// Bounds of what an operator may describe; each is checked when a sale is created or changed.
pub mod limits {
    pub const TITLE_BYTES_MAX: usize = 200;
    pub const DESCRIPTION_BYTES_MAX: usize = 2_000;
    pub const IMAGE_NAME_BYTES_MAX: usize = 64;
    pub const IMAGE_ALT_BYTES_MAX: usize = 500;
    pub const ITEMS_MAX: usize = 10_000;
    /// Before its start, where several servers sell: from then on its items stay as they are, and it is not deleted.
    pub const ITEMS_FIXED_MS: u64 = 60_000;
    /// Minor units of the currency.
    pub const PRICE_MAX: u64 = 1_000_000_000_000;
    pub const TOTAL_MAX: u64 = 1_000_000_000_000;
    /// Places in the line of one item.
    pub const LINE_PLACES_MAX: u32 = 5_000_000;
    /// Of the pace that an operator limits the line of one item to.
    pub const LINE_PACE_PER_S_MAX: u32 = 100_000;
    /// Of what an operator says to a line.
    pub const LINE_MESSAGE_CHARS_MAX: usize = 280;
    /// Milliseconds: of a turn, and of the grace for who is not there.
    pub const TURN_MS: std::ops::RangeInclusive<u64> = 10_000..=3_600_000;
    pub const GRACE_MS_MAX: u64 = 600_000;
    /// Milliseconds before the start at which the entries of a line close.
    pub const CLOSE_MS_MAX: u64 = 24 * 3600 * 1000;
    /// Milliseconds before the start from which a group may join a line.
    pub const LINE_OPENS_MS_MAX: u64 = 30 * 24 * 3600 * 1000;
    pub const LINE_GROUPS_MAX: usize = 4;
    pub const GROUP_BYTES_MAX: usize = 24;
    /// Seconds between two rounds of a beacon.
    pub const BEACON_PERIOD_S: std::ops::RangeInclusive<u32> = 1..=3600;
    pub const QUANTITY_MAX: u32 = 1_000_000;
    /// Milliseconds since 1970: the latest time that a clock can be corrected from or to.
    pub const TIME_MS_MAX: u64 = 1 << 52;
    /// Of a sale's start and end, in milliseconds since 1970: the end of the year 9999, the last that calendars write.
    pub const SALE_TIME_MS_MAX: u64 = 253_402_300_799_999;
    pub const PAYMENT_MS_MAX: u64 = 30 * 24 * 3600 * 1000;
    /// Of an operator's idempotency key.
    pub const KEY_BYTES_MAX: usize = 64;
    pub const OPERATOR_NAME_BYTES_MAX: usize = 32;
    /// Operators with a token of their own, at one time.
    pub const OPERATORS_MAX: usize = 64;
    /// Of why an operator does something.
    pub const REASON_CHARS_MAX: usize = 200;
    /// Of a payment, as its provider names it.
    pub const PAYMENT_ID_BYTES_MAX: usize = 255;
}

/// When the orders of a sale are paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    /// An order is a hold until it is paid, at most this many milliseconds.
    WithinMs(u64),
    /// An order is paid by being placed (on account).
    OnPlacing,
}

impl Payment {
    /// What an order is when it is placed.
    pub fn placed_as(self) -> Status {
        match self {
            Payment::WithinMs(_) => Status::Held,
            Payment::OnPlacing => Status::Paid,
        }
    }

    /// For how long it may be paid then.
    pub(crate) fn hold_ms(self) -> u32 {
        match self {
            Payment::WithinMs(ms) => u32::try_from(ms).expect("at most 30 days, checked"),
            Payment::OnPlacing => 0,
        }
    }
}

/// One product of a sale, as the operator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemSpec {
    pub product: ProductId,
    pub title: String,
    pub description: String,
    /// Minor units of the sale's currency, per unit.
    pub price: u64,
    pub list_price: u64,
    /// Units on sale.
    pub total: u64,
    /// Units that one buyer may hold and own; `None`: as many as there are.
    pub limit: Option<u32>,
    /// What its page shows; `None`: nothing of its own.
    pub image: Option<ItemImage>,
    /// It is sold to a line; `None`: to whoever comes first.
    pub line: Option<LineTerms>,
}

/// An image that is kept elsewhere, by its name there. Nothing follows from it but what a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemImage {
    pub name: String,
    /// What it shows, for whoever does not see it; empty: nothing that its title does not say.
    pub alt: String,
}

/// A sale, as the operator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleSpec {
    pub id: SaleId,
    pub title: String,
    /// ISO 4217, three capital letters.
    pub currency: String,
    pub starts_at: UnixMs,
    /// The first moment at which nothing is sold any more.
    pub ends_at: UnixMs,
    pub payment: Payment,
    /// Unpaid orders that one buyer may have in this sale; `None`: no bound.
    pub open_holds_per_buyer_max: Option<u32>,
    pub items: Vec<ItemSpec>,
}

/// Whether a text shows what it says: in a page, a log, a terminal. Letters of any script do, and the marks that a right-to-left
/// language needs; what overrides the direction of text, or moves a terminal's cursor, does not.
pub fn is_plain(text: &str) -> bool {
    text.chars().all(is_plain_char)
}

/// Text from elsewhere as such a text: what it must not have is shown as what can't be shown.
pub fn plain(text: &str) -> String {
    text.chars().map(|character| if is_plain_char(character) { character } else { '\u{fffd}' }).collect()
}

/// One character of such a text.
pub fn is_plain_char(character: char) -> bool {
    let turns =
        matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !turns && !character.is_control()
}

/// Whether there is something to see in a text. What Rust writes as an escape (format characters, marks that need a letter
/// before them, what has no meaning) is not to be seen alone; nor are fillers, which count as letters.
fn is_visible(text: &str) -> bool {
    text.chars().any(|character| {
        let is_blank = character.is_whitespace()
            || matches!(character, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
        let is_escaped = !character.is_ascii() && character.escape_debug().len() > 1;
        !is_blank && !is_escaped
    })
}

const UNPLAIN: &str = "control characters, or characters that turn the direction of text";
const INVISIBLE: &str = "nothing visible";

/// What is wrong with a title, or another text of one line.
pub(crate) fn title_fault(title: &str) -> Option<&'static str> {
    if !is_plain(title) {
        return Some(UNPLAIN);
    }
    (!is_visible(title)).then_some(INVISIBLE)
}

/// What is wrong with the texts of an item: its field, and why.
fn texts_fault(title: Option<&str>, description: Option<&str>) -> Option<(&'static str, &'static str)> {
    if let Some(why) = title.and_then(title_fault) {
        return Some(("title", why));
    }
    let is_unplain = |description: &str| !description.split('\n').all(is_plain);
    description.is_some_and(is_unplain).then_some(("description", UNPLAIN))
}

fn check_title(title: &str) -> Result<(), Refusal> {
    match title_fault(title) {
        Some(INVISIBLE) => Err(Refusal::InvalidSale("title: nothing visible")),
        Some(_) => Err(Refusal::InvalidSale(
            "title: control characters, or characters that turn the direction of text",
        )),
        None => Ok(()),
    }
}

fn check_times(times: [Option<UnixMs>; 2]) -> Result<(), Refusal> {
    let why = "a sale must start and end before the year 10000; times are in milliseconds since 1970";
    let is_late = times.into_iter().flatten().any(|at| at.0 > limits::SALE_TIME_MS_MAX);
    if is_late { Err(Refusal::InvalidSale(why)) } else { Ok(()) }
}

/// The item at a place of the list that was sent, if something is wrong with it.
fn check_item(place: usize, fault: Option<(&'static str, &'static str)>) -> Result<(), Refusal> {
    let place = u32::try_from(place).expect("a sale has at most 10,000 items");
    fault.map_or(Ok(()), |(field, why)| Err(Refusal::InvalidItem { place, field, why }))
}

impl SaleSpec {
    /// Checks what people will read: texts and times. Not when a ledger is loaded: it may have been written before this was asked.
    pub(crate) fn check_shown(&self) -> Result<(), Refusal> {
        check_times([Some(self.starts_at), Some(self.ends_at)])?;
        check_title(&self.title)?;
        self.items.iter().enumerate().try_for_each(|(place, item)| {
            let is_unplain = |image: &ItemImage| !is_plain(&image.alt);
            let alt = item.image.as_ref().is_some_and(is_unplain).then_some(("image.alt", UNPLAIN));
            check_item(place, texts_fault(Some(&item.title), Some(&item.description)).or(alt))
        })
    }

    /// Checks every bound.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let invalid = |why| Err(Refusal::InvalidSale(why));
        if self.title.is_empty() || self.title.len() > limits::TITLE_BYTES_MAX {
            return invalid("the title must have 1 to 200 bytes");
        }
        if self.currency.len() != 3 || !self.currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return invalid("the currency must be three capital letters, as in ISO 4217");
        }
        if self.starts_at >= self.ends_at {
            return invalid("the sale must end after it starts");
        }
        if let Payment::WithinMs(ms) = self.payment
            && !(1..=limits::PAYMENT_MS_MAX).contains(&ms)
        {
            return invalid("the payment time must be more than 0 and at most 30 days");
        }
        if self.open_holds_per_buyer_max == Some(0) {
            return invalid("a buyer must be allowed at least one open hold");
        }
        if self.items.is_empty() || self.items.len() > limits::ITEMS_MAX {
            return invalid("a sale must have 1 to 10,000 items");
        }
        let mut items = self.items.iter().enumerate();
        items.try_for_each(|(place, item)| check_item(place, item.fault()))?;
        let mut products = BTreeSet::new();
        let twice = self.items.iter().position(|item| !products.insert(item.product));
        twice.map_or(Ok(()), |place| {
            check_item(place, Some(("product", "a product may stand in a sale only once")))
        })
    }
}

impl ItemSpec {
    /// The field that breaks a bound, and which.
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        if self.title.is_empty() || self.title.len() > limits::TITLE_BYTES_MAX {
            return Some(("title", "it must have 1 to 200 bytes"));
        }
        if self.description.len() > limits::DESCRIPTION_BYTES_MAX {
            return Some(("description", "it may have at most 2,000 bytes"));
        }
        if self.price > limits::PRICE_MAX {
            return Some(("price", PRICE_BOUND));
        }
        if self.list_price > limits::PRICE_MAX {
            return Some(("list_price", PRICE_BOUND));
        }
        if self.total > limits::TOTAL_MAX {
            return Some(("total", TOTAL_BOUND));
        }
        if let Some(image) = &self.image {
            if image.name.is_empty() || image.name.len() > limits::IMAGE_NAME_BYTES_MAX {
                return Some(("image.name", "it must have 1 to 64 bytes"));
            }
            if image.alt.len() > limits::IMAGE_ALT_BYTES_MAX {
                return Some(("image.alt", "it may have at most 500 bytes"));
            }
        }
        let is_limit = |limit| (1..=limits::QUANTITY_MAX).contains(&limit);
        if self.limit.is_some_and(|limit| !is_limit(limit)) {
            return Some(("limit", "it must be 1 to 1,000,000 units"));
        }
        self.line.and_then(|line| self.fault_of_line(line))
    }

    fn fault_of_line(&self, line: LineTerms) -> Option<(&'static str, &'static str)> {
        if line.units == 0 || self.limit.is_none_or(|limit| line.units > limit) {
            return Some((
                "line.units",
                "a turn must be for at least 1 unit, and the item have a limit of no less",
            ));
        }
        if !limits::TURN_MS.contains(&line.turn_ms) {
            return Some(("line.turn_s", "a turn must last 10 s to 1 h"));
        }
        if line.grace_ms > limits::GRACE_MS_MAX {
            return Some(("line.grace_s", "it may be at most 10 minutes"));
        }
        if line.close_ms > limits::CLOSE_MS_MAX {
            return Some(("line.close_s", "entries may close at most a day before the start"));
        }
        let is_period = |beacon: BeaconTerms| limits::BEACON_PERIOD_S.contains(&beacon.period_s);
        let strange = line.beacon.is_some_and(|beacon| !is_period(beacon));
        strange.then_some(("line.beacon", "a beacon must speak every second to every hour"))
    }
}

const PRICE_BOUND: &str = "a price may be at most 1,000,000,000,000 minor units";
pub(crate) const TOTAL_BOUND: &str = "an item may have at most 1,000,000,000,000 units";

/// What may be changed in a sale that exists; `None` leaves it as it is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SaleChange {
    /// Only before the start, and before anything was ordered. Each product once.
    pub items: Vec<ItemChange>,
    pub title: Option<String>,
    /// Only before the start.
    pub starts_at: Option<UnixMs>,
    pub ends_at: Option<UnixMs>,
    /// For orders placed from now on. A sale whose orders are paid on placing stays so.
    pub payment_ms: Option<u64>,
}

/// What may be changed in an item; `None` leaves it as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemChange {
    pub product: ProductId,
    pub title: Option<String>,
    pub description: Option<String>,
    pub price: Option<u64>,
    pub list_price: Option<u64>,
    /// `Some(None)`: as many as there are.
    pub limit: Option<Option<u32>>,
}

impl SaleChange {
    /// As [`SaleSpec::check_shown`], what is changed alone: the rest may be older than what is asked of it.
    pub(crate) fn check_shown(&self) -> Result<(), Refusal> {
        check_times([self.starts_at, self.ends_at])?;
        self.title.as_deref().map_or(Ok(()), check_title)?;
        self.items.iter().enumerate().try_for_each(|(place, item)| {
            check_item(place, texts_fault(item.title.as_deref(), item.description.as_deref()))
        })
    }

    /// What `changed`, the sale with this change, is refused with: by the item's place in this list.
    pub(crate) fn check_bounds(&self, changed: &SaleSpec) -> Result<(), Refusal> {
        changed.check().map_err(|refusal| {
            let Refusal::InvalidItem { place, field, why } = refusal else { return refusal };
            let product = changed.items[place as usize].product;
            let sent = self.items.iter().position(|item| item.product == product);
            sent.map_or(refusal, |sent| {
                let place = u32::try_from(sent).expect("each item is changed once");
                Refusal::InvalidItem { place, field, why }
            })
        })
    }
}

/// What a sale is doing at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    NotStarted,
    Live,
    Paused,
    Ended,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::NotStarted => "not_started",
            Phase::Live => "live",
            Phase::Paused => "paused",
            Phase::Ended => "ended",
        }
    }

    /// Why nothing is sold in this phase, if nothing is.
    pub fn refusal(self) -> Option<Refusal> {
        match self {
            Phase::NotStarted => Some(Refusal::NotStarted),
            Phase::Live => None,
            Phase::Paused => Some(Refusal::Paused),
            Phase::Ended => Some(Refusal::Ended),
        }
    }

    /// The one rule of the window: over beats paused, paused beats not started.
    pub fn at(now: UnixMs, starts_at: UnixMs, ends_at: UnixMs, paused: bool, ended: bool) -> Phase {
        if ended || now >= ends_at {
            Phase::Ended
        } else if paused {
            Phase::Paused
        } else if now < starts_at {
            Phase::NotStarted
        } else {
            Phase::Live
        }
    }
}

pub(crate) fn apply_change(spec: &mut SaleSpec, change: &SaleChange) {
    // The items of a sale are up to 10,000, and so are those that change.
    if !change.items.is_empty() {
        let changes: BTreeMap<_, _> = change.items.iter().map(|item| (item.product, item)).collect();
        for item in &mut spec.items {
            if let Some(change) = changes.get(&item.product) {
                apply_item_change(item, change);
            }
        }
    }
    if let Some(title) = &change.title {
        spec.title.clone_from(title);
    }
    if let Some(starts_at) = change.starts_at {
        spec.starts_at = starts_at;
    }
    if let Some(ends_at) = change.ends_at {
        spec.ends_at = ends_at;
    }
    if let Some(ms) = change.payment_ms {
        spec.payment = Payment::WithinMs(ms);
    }
}

fn apply_item_change(item: &mut ItemSpec, change: &ItemChange) {
    if let Some(title) = &change.title {
        item.title.clone_from(title);
    }
    if let Some(description) = &change.description {
        item.description.clone_from(description);
    }
    item.price = change.price.unwrap_or(item.price);
    item.list_price = change.list_price.unwrap_or(item.list_price);
    item.limit = change.limit.unwrap_or(item.limit);
}

/// A sale to read: its description with the state and the stock of each item.
#[derive(Debug)]
pub struct SaleView<'a> {
    pub spec: &'a SaleSpec,
    pub paused: bool,
    pub ended: bool,
    pub first_sku: SkuId,
    /// One per item, in the same order.
    pub stocks: Vec<Stock>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_shows_what_it_says() {
        for (text, plain) in [
            ("Aria 8 Plus, 64 GB", true),
            ("Grüße 你好 \u{1f600}", true),
            ("سماعات \u{200f}(لاسلكية)", true),
            ("a\0b", false),
            ("\u{1b}[2J", false),
            ("two\nlines", false),
            ("c1 \u{9b}31m", false),
            ("\u{202e}gnp.exe", false),
            ("\u{2066}isolated\u{2069}", false),
            ("a\u{2028}b", false),
        ] {
            assert_eq!(is_plain(text), plain, "{text:?}");
        }
    }

    #[test]
    fn a_title_has_something_to_see() {
        for (text, visible) in [
            ("Aria 8 Plus", true),
            ("7", true),
            ("\"", true),
            ("'\\'", true),
            ("你好", true),
            ("سماعات", true),
            ("\u{1f600}", true),
            ("\u{2026}", true),
            ("e\u{301}", true),
            ("\u{200f}a", true),
            ("", false),
            (" \u{a0}\u{3000}", false),
            ("\u{200b}", false),
            ("\u{200e} \u{200f}", false),
            ("\u{feff}\u{2060}\u{ad}\u{61c}", false),
            ("\u{301}\u{20dd}", false),
            ("\u{fe0f}\u{200d}\u{e0041}", false),
            ("\u{3164}\u{ffa0}\u{115f}\u{1160}\u{2800}", false),
        ] {
            assert_eq!(is_visible(text), visible, "{text:?}");
        }
    }
}
