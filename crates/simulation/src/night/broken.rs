//! What does not hold in a night.

use std::time::Duration;

use engine::OrderId;

/// One thing that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub what: String,
    /// The orders that it is about; none: what there is to sell, or the whole night.
    pub(super) orders: Vec<OrderId>,
    /// When it was seen; `None`: when the night was over.
    pub(super) at: Option<Duration>,
}

impl Broken {
    pub(super) fn of(orders: impl IntoIterator<Item = OrderId>, what: String) -> Broken {
        Broken { what, orders: orders.into_iter().collect(), at: None }
    }

    /// While the night went on.
    pub(super) fn seen(self, at: Duration) -> Broken {
        Broken { what: format!("after {} ms: {}", at.as_millis(), self.what), at: Some(at), ..self }
    }
}

impl From<String> for Broken {
    fn from(what: String) -> Broken {
        Broken::of([], what)
    }
}
