//! A sale that is to be made: checked, with every time absolute and what was left out filled in.
//!
//! Must not: ask a server. What a sale may be is the engine's to say.

use std::collections::HashMap;
use std::time::Duration;

use engine::{Book, Command, ItemImage, ItemSpec, LineTerms, Payment, ProductId, SaleId, SaleSpec, UnixMs};
use serde::Serialize;
use server::pages::is_image_name;

use super::Sale;
use super::line::Line;
use crate::failure::Failure;
use crate::images::is_address;
use crate::time::Moment;

/// When a sale starts and ends, before the server's present is known.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) starts: Moment,
    pub(super) ends: End,
}

#[derive(Clone, Copy)]
pub(super) enum End {
    At(Moment),
    After(Duration),
}

impl Times {
    pub(super) fn is_relative(&self) -> bool {
        matches!(self.starts, Moment::In(_)) || matches!(self.ends, End::At(Moment::In(_)))
    }

    /// Start and end in milliseconds since 1970.
    pub(super) fn at(&self, now_ms: u64) -> Result<(u64, u64), Failure> {
        let starts = at(self.starts, now_ms);
        let ends = match self.ends {
            End::At(moment) => at(moment, now_ms),
            End::After(length) => starts.saturating_add(whole_ms(length)),
        };
        if ends <= starts {
            return Err(Failure::usage("the sale would end before it starts: move its end"));
        }
        Ok((starts, ends))
    }
}

/// In milliseconds since 1970.
pub(super) fn at(moment: Moment, now_ms: u64) -> u64 {
    match moment {
        Moment::At(ms) => ms,
        Moment::In(duration) => now_ms.saturating_add(whole_ms(duration)),
    }
}

pub(super) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// All of a sale but its number and its times on the clock, which only a server knows.
pub(super) struct Plan {
    pub(super) title: String,
    pub(super) currency: String,
    pub(super) times: Times,
    /// `None`: the server's default; `Some(None)`: paid on placing.
    pub(super) payment_s: Option<Option<u64>>,
    /// `None`: the server's default; 0: no bound.
    pub(super) open_holds_per_buyer_max: Option<u64>,
    pub(super) items: Vec<NewItem>,
}

/// The request of `POST /sales`. What is left out takes the server's default; `payment_s: null` is no payment.
#[derive(Serialize)]
pub(super) struct NewSale {
    pub(super) id: u64,
    pub(super) title: String,
    pub(super) currency: String,
    pub(super) starts_at_ms: u64,
    pub(super) ends_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payment_s: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) open_holds_per_buyer_max: Option<u64>,
    pub(super) items: Vec<NewItem>,
}

#[derive(Clone, Serialize)]
pub(super) struct NewItem {
    pub(super) product: u64,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) price: u64,
    pub(super) list_price: u64,
    pub(super) total: u64,
    pub(super) limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<NewImage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<Line>,
}

#[derive(Clone, Serialize)]
pub(super) struct NewImage {
    /// A file or an address until [`NewSale::name_images`] has found its name.
    pub(super) name: String,
    pub(super) alt: String,
}

impl Plan {
    /// Another sale of the same items on the same terms.
    pub(super) fn like(sale: Sale, title: Option<String>, times: Times) -> Plan {
        let item = |item: super::Item| NewItem {
            product: item.product,
            title: item.title,
            description: item.description,
            price: item.price,
            list_price: item.list_price,
            total: item.total,
            limit: item.limit,
            image: item.image.map(|image| NewImage { name: image.name, alt: image.alt }),
            line: item.line,
        };
        Plan {
            title: title.unwrap_or(sale.title),
            currency: sale.currency,
            times,
            payment_s: Some(sale.payment_s),
            open_holds_per_buyer_max: Some(sale.open_holds_per_buyer_max.unwrap_or(0)),
            items: sale.items.into_iter().map(item).collect(),
        }
    }

    /// The request under this number, with the times by the server's clock.
    ///
    /// # Errors
    /// If the engine would refuse such a sale.
    pub(super) fn at(self, id: u64, now_ms: u64) -> Result<NewSale, Failure> {
        let (starts_at_ms, ends_at_ms) = self.times.at(now_ms)?;
        let new = NewSale {
            id,
            title: self.title,
            currency: self.currency,
            starts_at_ms,
            ends_at_ms,
            payment_s: self.payment_s,
            open_holds_per_buyer_max: self.open_holds_per_buyer_max,
            items: self.items,
        };
        let create = Command::CreateSale(new.spec()?);
        let made = Book::new().execute(UnixMs(0), create);
        made.map_err(|refusal| Failure::usage(format!("such a sale can't be: {refusal}")))?;
        Ok(new)
    }
}

/// The products whose images the server fetches, and from where: only it can name those.
pub(super) fn fetched_images(items: &[NewItem]) -> impl Iterator<Item = (u64, &str)> {
    let images = items.iter().filter_map(|item| Some((item.product, item.image.as_ref()?)));
    images.map(|(product, image)| (product, image.name.as_str())).filter(|(_, image)| is_address(image))
}

impl NewSale {
    /// Puts the name that `name` finds into the place of each image, and asks once for each.
    pub(super) fn name_images(
        &mut self,
        mut name: impl FnMut(&str) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let mut names: HashMap<String, String> = HashMap::new();
        for image in self.items.iter_mut().filter_map(|item| item.image.as_mut()) {
            let known = match names.get(&image.name) {
                Some(known) => known.clone(),
                None => name(&image.name)?,
            };
            let written = std::mem::replace(&mut image.name, known.clone());
            names.insert(written, known);
        }
        Ok(())
    }

    /// The images that the server must have already.
    pub(super) fn image_names(&self) -> impl Iterator<Item = &str> {
        let images = self.items.iter().filter_map(|item| item.image.as_ref());
        images.map(|image| image.name.as_str()).filter(|name| is_image_name(name))
    }

    fn spec(&self) -> Result<SaleSpec, Failure> {
        let holds_max = self.open_holds_per_buyer_max.map(u32::try_from).transpose();
        let holds_max = holds_max.map_err(|_too_large| {
            Failure::usage(format!("open_holds_per_buyer_max must be 0 (no bound) to {}", u32::MAX))
        })?;
        // Of the server's own default nothing can be wrong here.
        let payment = match self.payment_s {
            Some(Some(seconds)) => Payment::WithinMs(seconds.saturating_mul(1_000)),
            Some(None) | None => Payment::OnPlacing,
        };
        Ok(SaleSpec {
            id: SaleId(self.id),
            title: self.title.clone(),
            currency: self.currency.clone(),
            starts_at: UnixMs(self.starts_at_ms),
            ends_at: UnixMs(self.ends_at_ms),
            payment,
            open_holds_per_buyer_max: holds_max.filter(|max| *max > 0),
            items: self.items.iter().map(NewItem::spec).collect(),
        })
    }
}

impl NewItem {
    fn spec(&self) -> ItemSpec {
        ItemSpec {
            product: ProductId(self.product),
            title: self.title.clone(),
            description: self.description.clone(),
            price: self.price,
            list_price: self.list_price,
            total: self.total,
            // What fits into no limit is one that the engine refuses.
            limit: self.limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
            // A file or an address is longer than a name may be: which image it is, is found out elsewhere.
            image: self
                .image
                .as_ref()
                .map(|image| ItemImage { name: "-".to_owned(), alt: image.alt.clone() }),
            line: self.line.as_ref().map(|line| LineTerms {
                units: u32::try_from(line.units).unwrap_or(u32::MAX),
                turn_ms: line.turn_s.saturating_mul(1000),
                grace_ms: line.grace_s.saturating_mul(1000),
                close_ms: line.close_s.saturating_mul(1000),
                // Which one is the server's to know; and access was checked where it was written.
                beacon: None,
                access: None,
            }),
        }
    }
}
