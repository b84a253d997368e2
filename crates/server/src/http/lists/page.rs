//! What page of which list is asked for, from the query; in few enough forms that pages can be kept.

use engine::SaleId;

use super::listing::Listing;
use crate::http::wire::error::Problem;
use crate::http::wire::{decimal, parameter};
use crate::intake::catalog::Catalog;
use crate::pages::LanguageId;

/// The sizes of a page; what is asked for is rounded down to one, so that one list has few pages.
const SIZES: [u8; 7] = [1, 5, 10, 20, 50, 100, SIZE_MAX];
pub(super) const SIZE_DEFAULT: u8 = 50;
pub(super) const SIZE_MAX: u8 = 200;
/// Sales, and items of one, on a page for people.
pub(super) const SHOWN_SALES: usize = 10;
pub(super) const SHOWN_ITEMS: u32 = 24;
/// Of a list of sales without a cursor.
const NEWEST: u32 = u32::MAX;

/// Which sales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::http) enum States {
    /// Those that are not over, or in whose lines somebody may order still.
    Current,
    Upcoming,
    Open,
    Ended,
}

/// A page of a list. A sale is its place in the catalog, which it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::http) enum Page {
    Sales {
        states: States,
        before: u32,
        size: u8,
    },
    /// One sale with some of its items.
    Items {
        sale: u32,
        from: u32,
        size: u8,
    },
    /// The sales, for people.
    SalesHtml {
        states: States,
        before: u32,
        language: LanguageId,
    },
    ItemsHtml {
        sale: u32,
        from: u32,
        language: LanguageId,
    },
}

impl Page {
    /// A page where everybody begins. There are few, so they are kept apart from all others.
    pub(super) fn is_first_of_sales(self) -> bool {
        matches!(self, Page::Sales { before: NEWEST, .. } | Page::SalesHtml { before: NEWEST, .. })
    }

    /// The same page under the cursor that the page before it has given. Others between two sales that are listed are
    /// the same page, and it is kept once.
    pub(super) fn as_given(self, listing: &Listing) -> Page {
        let given = |states, before| {
            let first = listing.before(states, before).next();
            if before == NEWEST { NEWEST } else { first.map_or(0, |place| place + 1) }
        };
        match self {
            Page::Sales { states, before, size } => {
                Page::Sales { states, before: given(states, before), size }
            }
            Page::SalesHtml { states, before, language } => {
                Page::SalesHtml { states, before: given(states, before), language }
            }
            Page::Items { .. } | Page::ItemsHtml { .. } => self,
        }
    }

    pub(super) fn has_more_for_operators(self) -> bool {
        matches!(self, Page::Sales { .. } | Page::Items { .. })
    }
}

/// A page of the sales, from a query; for people it has one size.
pub(in crate::http) fn sales_page(
    query: &str,
    catalog: &Catalog,
    html: Option<LanguageId>,
) -> Result<Page, Problem> {
    let states = match parameter(query, "state") {
        None => States::Current,
        Some("upcoming") => States::Upcoming,
        Some("open") => States::Open,
        Some("ended") => States::Ended,
        Some(_) => return Err(Problem::invalid("state must be upcoming, open or ended.")),
    };
    let before = match cursor(query)? {
        None => NEWEST,
        Some(cursor) => u32::try_from(cursor)
            .ok()
            .filter(|before| *before as usize <= catalog.sales.len())
            .ok_or_else(|| cursor_ahead(cursor, catalog))?,
    };
    if let Some(language) = html {
        return Ok(Page::SalesHtml { states, before, language });
    }
    Ok(Page::Sales { states, before, size: size(query)? })
}

/// A page of a sale's items, from a query.
pub(in crate::http) fn items_page(
    query: &str,
    catalog: &Catalog,
    sale: SaleId,
    html: Option<LanguageId>,
) -> Result<Page, Problem> {
    if catalog.is_deleted(sale) {
        return Err(Problem::sale_deleted());
    }
    let position = catalog.position(sale).ok_or(engine::Refusal::UnknownSale)?;
    let items = catalog.sales[position].spec.items.len();
    let from = u32::try_from(cursor(query)?.unwrap_or(0)).ok().filter(|from| (*from as usize) < items);
    let from = from.ok_or_else(Problem::cursor_of_items_ahead)?;
    let sale =
        u32::try_from(position).expect("the book numbers its SKUs, of which each sale has one, by u32");
    if let Some(language) = html {
        return Ok(Page::ItemsHtml { sale, from, language });
    }
    Ok(Page::Items { sale, from, size: size(query)? })
}

fn cursor(query: &str) -> Result<Option<u64>, Problem> {
    let number = |text| decimal(text).ok_or_else(|| Problem::invalid("cursor must be one that a page gave."));
    parameter(query, "cursor").map(number).transpose()
}

fn size(query: &str) -> Result<u8, Problem> {
    let Some(text) = parameter(query, "limit") else { return Ok(SIZE_DEFAULT) };
    let limit = decimal(text).filter(|limit| (1..=u64::from(SIZE_MAX)).contains(limit));
    let limit =
        limit.ok_or_else(|| Problem::invalid(format!("limit must be a number from 1 to {SIZE_MAX}.")))?;
    let fits = |size: &&u8| u64::from(**size) <= limit;
    Ok(*SIZES.iter().rev().find(fits).expect("the smallest size is the smallest limit"))
}

fn cursor_ahead(cursor: u64, catalog: &Catalog) -> Problem {
    let sales = catalog.sales.len();
    Problem::cursor_ahead(format!(
        "The cursor {cursor} is ahead of this ledger, which has {sales} sales: begin without one."
    ))
}
