//! What a page shows, as plain data. `http` fills these from the book; [`super::Pages`] renders them.
//!
//! Must not: know the engine's types, so that a page can be rendered, and tested, without a sale running.

/// The phase of a sale as its page shows it. Sold out is no phase: it is live with no unit available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleState {
    NotStarted,
    Live,
    Paused,
    Ended,
}

impl SaleState {
    /// The name on the wire (`GET /api/v1/stock`) and in the pages' `data-state`.
    pub fn name(self) -> &'static str {
        match self {
            SaleState::NotStarted => "not_started",
            SaleState::Live => "live",
            SaleState::Paused => "paused",
            SaleState::Ended => "ended",
        }
    }
}

/// One of our own drawings, for an item that has no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Picture {
    Phone,
    Headphones,
    Watch,
    Sneaker,
    Speaker,
    /// For everything else.
    Parcel,
}

impl Picture {
    /// The picture whose subject a demo's title names; a parcel if it names none.
    pub(super) fn for_title(title: &str) -> Picture {
        const SUBJECTS: [(&str, Picture); 10] = [
            ("headphone", Picture::Headphones),
            ("earbud", Picture::Headphones),
            ("phone", Picture::Phone),
            ("watch", Picture::Watch),
            ("sneaker", Picture::Sneaker),
            ("shoe", Picture::Sneaker),
            ("runner", Picture::Sneaker),
            ("speaker", Picture::Speaker),
            ("radio", Picture::Speaker),
            ("parcel", Picture::Parcel),
        ];
        let title = title.to_lowercase();
        let found = SUBJECTS.iter().find(|(word, _)| title.contains(word));
        found.map_or(Picture::Parcel, |&(_, picture)| picture)
    }

    /// The asset's file name before its fingerprint.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Picture::Phone => "phone.svg",
            Picture::Headphones => "headphones.svg",
            Picture::Watch => "watch.svg",
            Picture::Sneaker => "sneaker.svg",
            Picture::Speaker => "speaker.svg",
            Picture::Parcel => "parcel.svg",
        }
    }
}

/// A sale, with those of its products that its page lists.
#[derive(Clone, Debug)]
pub struct SaleView {
    pub id: u64,
    pub title: String,
    /// ISO 4217, three capital letters.
    pub currency: String,
    pub state: SaleState,
    pub starts_at_ms: u64,
    pub ends_at_ms: u64,
    /// It was ended by hand: `ends_at_ms` is a time that it never reached.
    pub ended_early: bool,
    /// How long an order waits for its payment before it expires; 0: it is paid on placing.
    pub payment_time_ms: u64,
    pub items: Vec<ItemView>,
    /// Items of the sale, of which those may be a part.
    pub items_total: usize,
}

/// Where a list of sales or of items leads on to.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The next page of the same list.
    pub next: Option<String>,
    /// The sales that are over.
    pub to_ended: bool,
    /// The sales that are not.
    pub to_current: bool,
}

/// A product in a sale. Money is in minor units of the sale's currency.
#[derive(Clone, Debug)]
pub struct ItemView {
    pub product: u64,
    pub title: String,
    pub description: String,
    pub price: u64,
    /// The price outside of the sale; `None`, or no more than `price`, shows no comparison.
    pub list_price: Option<u64>,
    pub total: u64,
    /// As of rendering: the page asks for the current figure itself.
    pub available: u64,
    /// Units per buyer; `None` is no limit.
    pub limit: Option<u32>,
    /// It is sold to a line; `None`: to whoever comes first.
    pub line: Option<TurnView>,
    pub image: Option<ImageView>,
}

/// What a turn is, of an item that is sold to its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnView {
    /// Units that it is for, at most.
    pub units: u32,
    pub turn_ms: u64,
    pub grace_ms: u64,
}

/// An image of an item, as a page shows it.
#[derive(Clone, Debug)]
pub struct ImageView {
    pub path: String,
    /// Empty: nothing that the title does not say.
    pub alt: String,
}
