//! What operators did: who, what and why, as the ledger keeps it after the entries of what it came to.

mod changed;

use changed::changed;

use crate::operator::is_name;
use crate::rules::rows::Rows;
use crate::sale::limits;
use crate::{Adjust, Command, ROOT, Refund, SaleId, amount, is_plain};

/// Of a message to a line: the whole of it is in its own entry.
const ABOUT_MESSAGE_CHARS: usize = 50;

/// Who asks, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// The operator's name, or [`crate::ROOT`].
    pub who: Box<str>,
    /// In the operator's words; empty: not said.
    pub why: Box<str>,
}

impl By {
    /// Somebody who is not known by a token, such as whoever has the ledger's password.
    ///
    /// # Errors
    /// If nobody can be called so, or the reason is none that an entry takes.
    pub fn named(who: &str, why: &str) -> Result<By, &'static str> {
        if who != ROOT && !is_name(who) {
            return Err("a name has 1 to 32 of a-z, 0-9 and -");
        }
        if why.chars().count() > limits::REASON_CHARS_MAX || !is_plain(why) {
            return Err(
                "a reason has 200 characters at most, no line ends, and none that turn the direction of text",
            );
        }
        Ok(By { who: who.into(), why: why.into() })
    }
}

/// What an operator did. The entries before it, of the same time, are what it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operated {
    pub by: By,
    /// A word of the API.
    pub what: Box<str>,
    /// `None`: it is about no sale.
    pub sale: Option<SaleId>,
    /// What was changed, from what to what; or the order (of a refund followed by a comma and its amount), the payment, the operator,
    /// what an action was about. Empty: the sale says it all, or it must not be said.
    pub about: Box<str>,
}

impl Operated {
    /// What carrying out a command is called, before it is carried out.
    ///
    /// # Panics
    /// If it is a command that no operator gives.
    pub(crate) fn new<R: Rows>(by: By, command: &Command, rows: &R) -> Operated {
        let sales = rows.registry();
        let of_sku = |sku| sales.of_sku(sku).map(|sale| sale.spec.id);
        let product_of = |sku| {
            let sale = sales.of_sku(sku);
            let item = sale.and_then(|sale| sale.skus().zip(&sale.spec.items).find(|of| of.0 == sku));
            item.map_or(0, |(_, item)| item.product.0)
        };
        let (what, sale, about) = match command {
            Command::CreateSale(spec) => ("sale_created", Some(spec.id), String::new()),
            Command::ChangeSale { sale, change } => {
                let about = sales.get(*sale).map(|known| changed(&known.spec, change));
                ("sale_changed", Some(*sale), about.unwrap_or_default())
            }
            Command::DeleteSale(sale) => ("sale_deleted", Some(*sale), String::new()),
            Command::Pause(sale) => ("sale_paused", Some(*sale), String::new()),
            Command::Resume(sale) => ("sale_resumed", Some(*sale), String::new()),
            Command::End(sale) => ("sale_ended", Some(*sale), String::new()),
            Command::Adjust { sku, how, units, .. } => {
                let what = if *how == Adjust::Restock { "restocked" } else { "corrected" };
                let total = sales.terms(*sku).map_or(0, |_| rows.sku(*sku).stock.total());
                let comes_to = match how {
                    Adjust::Restock => total.saturating_add(*units),
                    Adjust::Correct => total.saturating_sub(*units),
                };
                let about = format!("product {}, {units} units: {total} -> {comes_to}", product_of(*sku));
                (what, of_sku(*sku), about)
            }
            Command::LimitPace { sku, per_s_max } => {
                let limit =
                    per_s_max.map_or_else(|| "no limit".to_owned(), |per_s| format!("{per_s} per second"));
                let about = format!("product {}, {limit}", product_of(*sku));
                ("line_pace_limited", of_sku(*sku), about)
            }
            Command::SetLineMessage { sku, message } => {
                let begins: String = message.chars().take(ABOUT_MESSAGE_CHARS).collect();
                ("line_told", of_sku(*sku), format!("product {}: {begins}", product_of(*sku)))
            }
            Command::CancelFor(order) => ("order_cancelled", of_sku(order.sku), order.to_string()),
            Command::Refund(refund) => ("order_refunded", of_sku(refund.order.sku), refunded(refund, rows)),
            Command::Settle { payment } => ("refund_settled", None, payment.to_string()),
            // Their name is what goes.
            Command::EraseBuyer(_) => ("buyer_erased", None, String::new()),
            Command::AddOperator(operator) => ("operator_added", None, operator.name.to_string()),
            Command::RevokeOperator(name) => ("operator_revoked", None, name.to_string()),
            Command::KeepAction(action, about) => (action.as_str(), None, about.to_string()),
            Command::Place(_)
            | Command::Join { .. }
            | Command::ShowPresence { .. }
            | Command::Draw { .. }
            | Command::GiveTurnBack { .. }
            | Command::Cancel { .. }
            | Command::Address { .. }
            | Command::Pay(_)
            | Command::Notice(_) => {
                unreachable!("no operator gives this command")
            }
        };
        Operated { by, what: what.into(), sale, about: about.into() }
    }

    /// What bounds an entry.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let By { who, why } = &self.by;
        let is_named = (1..=limits::OPERATOR_NAME_BYTES_MAX).contains(&who.len());
        let fits = why.chars().count() <= limits::REASON_CHARS_MAX
            && self.what.len() <= limits::KEY_BYTES_MAX
            && self.about.len() <= limits::PAYMENT_ID_BYTES_MAX;
        if is_named && fits { Ok(()) } else { Err("an operator's action is not named as one can be") }
    }
}

/// The order, and the amount that is to be refunded of it: what was asked for, was asked for before, or is left.
fn refunded<R: Rows>(refund: &Refund, rows: &R) -> String {
    let known = || rows.find_payment(&refund.id).map(|name| rows.payment(name).pay.amount);
    let left = || {
        let order = rows.order_view(rows.find(refund.order)?);
        order.amount().checked_sub(order.refunded.amount)
    };
    let minor = refund.amount.or_else(known).or_else(left).unwrap_or_default();
    let currency = rows.registry().of_sku(refund.order.sku).map_or("", |sale| &sale.spec.currency);
    format!("{}, {} {currency}", refund.order, amount(minor, currency))
}
