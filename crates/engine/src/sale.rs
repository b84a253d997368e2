//! A sale and its items: what an operator describes, and when it sells.

use std::collections::BTreeMap;

use crate::{ProductId, Refusal, SaleId, SkuId, Stock, UnixMs};

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
    pub const QUANTITY_MAX: u32 = 1_000_000;
    /// Milliseconds since 1970: the latest time that a clock can be corrected from or to.
    pub const TIME_MS_MAX: u64 = 1 << 52;
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
fn is_plain(text: &str) -> bool {
    !text.chars().any(|character| {
        character.is_control()
            || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

impl SaleSpec {
    /// Checks what people will read. Not when a ledger is loaded: it may have been written before this was asked.
    pub(crate) fn check_texts(&self) -> Result<(), Refusal> {
        let items = self.items.iter();
        let mut texts = items.flat_map(|item| {
            let alt = item.image.as_ref().map(|image| image.alt.as_str());
            item.description.split('\n').chain([item.title.as_str()]).chain(alt)
        });
        if is_plain(&self.title) && texts.all(is_plain) {
            return Ok(());
        }
        Err(Refusal::InvalidSale(
            "a title, description or alternative text has control characters, or characters that turn the direction of text",
        ))
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
        self.items.iter().try_for_each(ItemSpec::check)?;
        let mut products: Vec<_> = self.items.iter().map(|item| item.product).collect();
        products.sort_unstable();
        if products.windows(2).any(|pair| pair[0] == pair[1]) {
            return invalid("a product may stand in a sale only once");
        }
        Ok(())
    }
}

impl ItemSpec {
    fn check(&self) -> Result<(), Refusal> {
        let invalid = |why| Err(Refusal::InvalidSale(why));
        if self.title.is_empty() || self.title.len() > limits::TITLE_BYTES_MAX {
            return invalid("an item's title must have 1 to 200 bytes");
        }
        if self.description.len() > limits::DESCRIPTION_BYTES_MAX {
            return invalid("an item's description may have at most 2,000 bytes");
        }
        if self.price > limits::PRICE_MAX || self.list_price > limits::PRICE_MAX {
            return invalid("a price may be at most 1,000,000,000,000 minor units");
        }
        if self.total > limits::TOTAL_MAX {
            return invalid("an item may have at most 1,000,000,000,000 units");
        }
        if let Some(image) = &self.image {
            if image.name.is_empty() || image.name.len() > limits::IMAGE_NAME_BYTES_MAX {
                return invalid("an image's name must have 1 to 64 bytes");
            }
            if image.alt.len() > limits::IMAGE_ALT_BYTES_MAX {
                return invalid("an image's alternative text may have at most 500 bytes");
            }
        }
        if self.limit.is_some_and(|limit| limit == 0 || limit > limits::QUANTITY_MAX) {
            return invalid("the limit per buyer must be 1 to 1,000,000 units");
        }
        Ok(())
    }
}

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
}
