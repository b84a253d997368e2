//! What a shop is to hear of beside its orders. Data only.

use crate::{SaleId, SkuId};

/// Something that follows from the clock or the stock, and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    SaleStarted(SaleId),
    /// By the clock; one that an operator ended has [`crate::Event::SaleEnded`].
    SaleEnded(SaleId),
    /// Nothing of it can be bought at the moment.
    SoldOut(SkuId),
    BackInStock(SkuId),
}
