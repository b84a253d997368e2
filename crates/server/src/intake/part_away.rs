//! A gate in parts, of which one can't be used: what can't be bought, while the rest is sold.

use std::fmt;

use engine::SkuId;
use serde::{Deserialize, Serialize};

use super::catalog::{Catalog, quoted};

/// What can't be sold because of the gate while other products can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartAway {
    /// Of the first of them, each once.
    pub(crate) titles: Vec<String>,
    /// All that are on sale, or soon.
    pub(crate) products: u64,
    pub(crate) why: String,
}

impl PartAway {
    /// The titles that are named: of a thousand products a line has no room.
    pub(crate) const TITLES_MAX: usize = 3;

    pub(crate) fn of(catalog: &Catalog, skus: &[SkuId], why: String) -> PartAway {
        let mut titles: Vec<String> = Vec::new();
        for (_, item) in skus.iter().filter_map(|sku| catalog.item(*sku)) {
            if titles.len() == PartAway::TITLES_MAX {
                break;
            }
            if !titles.iter().any(|title| **title == *item.title) {
                titles.push(item.title.to_string());
            }
        }
        PartAway { titles, products: skus.len() as u64, why }
    }

    /// Whether the same can't be bought; why, may be said otherwise from try to try.
    pub(crate) fn is_as(&self, other: &PartAway) -> bool {
        (&self.titles, self.products) == (&other.titles, other.products)
    }
}

impl fmt::Display for PartAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartAway { titles, products, why } = self;
        let named: Vec<_> = titles.iter().map(|title| quoted(title)).collect();
        let which = match (&named[..], products.saturating_sub(named.len() as u64)) {
            ([], 0) => {
                return write!(
                    f,
                    "a part of the stock gate can't be used, nothing that is on sale is there: {why}"
                );
            }
            ([], more) => format!("{more} products"),
            ([first @ .., last], 0) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            (named, 0) => named.join(", "),
            (named, more) => format!("{} and {more} more", named.join(", ")),
        };
        write!(f, "{which} can't be bought, other products can: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_named_and_the_others_counted() {
        for (titles, products, said) in [
            (&["Shoe"][..], 1, "“Shoe” can't be bought, other products can: refused"),
            (&["Shoe"], 2, "“Shoe” and 1 more can't be bought, other products can: refused"),
            (
                &["Shoe", "Hat", "Cap"],
                3,
                "“Shoe”, “Hat” and “Cap” can't be bought, other products can: refused",
            ),
            (
                &["Shoe", "Hat", "Cap"],
                1000,
                "“Shoe”, “Hat”, “Cap” and 997 more can't be bought, other products can: refused",
            ),
            (&[], 7, "7 products can't be bought, other products can: refused"),
            (&[], 0, "a part of the stock gate can't be used, nothing that is on sale is there: refused"),
        ] {
            let titles = titles.iter().map(|title| (*title).to_owned()).collect();
            let part = PartAway { titles, products, why: "refused".to_owned() };
            assert_eq!(part.to_string(), said);
        }
    }
}
