//! Which address leads where. By hand: the addresses are few and known, and a busy one is found in a compare
//! or two.
//!
//! Must not: look at anything but method and path.

use engine::{Adjust, ProductId, SaleId};

use crate::http::wire::decimal;
use crate::http::wire::fields::Method;

/// What an operator does to a whole sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steer {
    Pause,
    Resume,
    End,
}

/// An address, with what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address<'a> {
    // Buyers.
    Orders,
    Order(&'a str),
    CancelOrder(&'a str),
    PayOrder(&'a str),
    Stock,
    Time,
    Sales,
    Sale(SaleId),
    // Operators.
    Steer(SaleId, Steer),
    Adjust(SaleId, ProductId, Adjust),
    Audit,
    Reanchor,
    RefundsDue,
    Settle(&'a str),
    DemoLoad,
    DemoSession,
    // The payment provider.
    Payments,
    // The published interface.
    GenerateOrder,
    PressureMq,
    CacheStock,
    Submit,
    // Pages.
    Index,
    SalePage(SaleId, ProductId),
    ProductPage,
    OrderPage,
    ApiPage,
    Asset,
    // Operating.
    OpenApi,
    Health,
    Ready,
    Metrics,
}

impl<'a> Address<'a> {
    pub(super) fn of(path: &'a str) -> Option<Address<'a>> {
        if let Some(rest) = path.strip_prefix("/api/v1/") {
            return Address::own(rest);
        }
        Some(match path {
            "/seckillOrder/generateOrder" => Address::GenerateOrder,
            "/cache/stock" => Address::CacheStock,
            "/product" => Address::ProductPage,
            "/seckillOrder/pressureMQ" => Address::PressureMq,
            "/order/submit" => Address::Submit,
            "/" => Address::Index,
            "/api" => Address::ApiPage,
            "/healthz" => Address::Health,
            "/readyz" => Address::Ready,
            "/metrics" => Address::Metrics,
            _ => return Address::page(path),
        })
    }

    fn own(rest: &'a str) -> Option<Address<'a>> {
        Some(match rest {
            "orders" => Address::Orders,
            "stock" => Address::Stock,
            "time" => Address::Time,
            "sales" => Address::Sales,
            "payments" => Address::Payments,
            "payments/refunds-due" => Address::RefundsDue,
            "audit" => Address::Audit,
            "clock/re-anchor" => Address::Reanchor,
            "demo/load" => Address::DemoLoad,
            "demo/session" => Address::DemoSession,
            "openapi.json" => Address::OpenApi,
            _ => return Address::named(rest),
        })
    }

    /// Addresses that name something: at most five parts follow the version.
    fn named(rest: &'a str) -> Option<Address<'a>> {
        let mut parts = rest.split('/');
        let mut next = || parts.next();
        let parts = (next()?, next()?, next(), next(), next(), next());
        let sale = |text| decimal(text).map(SaleId);
        Some(match parts {
            ("orders", id, None, ..) => Address::Order(id),
            ("orders", id, Some("cancel"), None, ..) => Address::CancelOrder(id),
            ("orders", id, Some("pay"), None, ..) => Address::PayOrder(id),
            ("payments", id, Some("settle"), None, ..) => Address::Settle(id),
            ("sales", id, None, ..) => Address::Sale(sale(id)?),
            ("sales", id, Some("pause"), None, ..) => Address::Steer(sale(id)?, Steer::Pause),
            ("sales", id, Some("resume"), None, ..) => Address::Steer(sale(id)?, Steer::Resume),
            ("sales", id, Some("end"), None, ..) => Address::Steer(sale(id)?, Steer::End),
            ("sales", id, Some("items"), Some(product), Some(verb), None) => {
                let how = match verb {
                    "restock" => Adjust::Restock,
                    "correct" => Adjust::Correct,
                    _ => return None,
                };
                Address::Adjust(sale(id)?, ProductId(decimal(product)?), how)
            }
            _ => return None,
        })
    }

    fn page(path: &'a str) -> Option<Address<'a>> {
        if let Some(name) = path.strip_prefix("/seckill_") {
            let (sale, product) = name.strip_suffix(".html")?.split_once('_')?;
            return Some(Address::SalePage(SaleId(decimal(sale)?), ProductId(decimal(product)?)));
        }
        if path.starts_with("/assets/") {
            return Some(Address::Asset);
        }
        let id = path.strip_prefix("/orders/")?;
        (!id.is_empty() && !id.contains('/')).then_some(Address::OrderPage)
    }

    /// The methods that it takes, as for the header `Allow`.
    pub(super) fn allow(self) -> &'static str {
        use Address as A;
        match self {
            A::Orders | A::Sales => "GET, HEAD, POST, OPTIONS",
            A::Sale(_) => "GET, HEAD, PATCH, OPTIONS",
            A::CancelOrder(_)
            | A::PayOrder(_)
            | A::Steer(..)
            | A::Adjust(..)
            | A::Reanchor
            | A::Settle(_) => "POST, OPTIONS",
            A::DemoLoad | A::DemoSession | A::Payments | A::GenerateOrder | A::PressureMq | A::Submit => {
                "POST, OPTIONS"
            }
            _ => "GET, HEAD, OPTIONS",
        }
    }

    pub(super) fn takes(self, method: Method) -> bool {
        let name = match method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Options => "OPTIONS",
            Method::Other => return false,
        };
        self.allow().split(", ").any(|allowed| allowed == name)
    }

    /// Errors here have the published shape, not that of our own API.
    pub(super) fn is_published(self) -> bool {
        matches!(self, Address::GenerateOrder | Address::PressureMq)
    }

    /// Somebody reads the answer in a browser's window.
    pub(super) fn is_page(self) -> bool {
        matches!(
            self,
            Address::Index
                | Address::SalePage(..)
                | Address::ProductPage
                | Address::OrderPage
                | Address::ApiPage
        )
    }

    /// The sender is an operator: creating a sale takes a larger body than an order.
    pub(super) fn is_operators(self) -> bool {
        matches!(self, Address::Sales | Address::Sale(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_where_they_should() {
        for (path, address) in [
            ("/api/v1/orders", Address::Orders),
            ("/api/v1/orders/00ff", Address::Order("00ff")),
            ("/api/v1/orders/00ff/cancel", Address::CancelOrder("00ff")),
            ("/api/v1/sales/3", Address::Sale(SaleId(3))),
            ("/api/v1/sales/3/end", Address::Steer(SaleId(3), Steer::End)),
            ("/api/v1/sales/3/items/29/correct", Address::Adjust(SaleId(3), ProductId(29), Adjust::Correct)),
            ("/api/v1/payments/refunds-due", Address::RefundsDue),
            ("/api/v1/payments/p%201/settle", Address::Settle("p%201")),
            ("/seckill_3_29.html", Address::SalePage(SaleId(3), ProductId(29))),
            ("/orders/00ff", Address::OrderPage),
            ("/assets/sale-00.js", Address::Asset),
        ] {
            assert_eq!(Address::of(path), Some(address), "{path}");
        }
    }

    #[test]
    fn what_is_no_address_leads_nowhere() {
        for path in [
            "",
            "*",
            "//",
            "/api/",
            "/api/v1",
            "/api/v1/",
            "/api/v1/order",
            "/api/v1/orders/1/refund",
            "/api/v1/orders/1/cancel/2",
            "/api/v1/sales/x",
            "/api/v1/sales/+3",
            "/api/v1/sales/3/items/29",
            "/api/v1/sales/3/items/29/take",
            "/api/v1/sales/3/items/29/correct/1",
            "/seckill_3.html",
            "/seckill_3_29",
            "/seckill_3_x.html",
            "/orders/",
            "/orders/1/2",
            "/ORDER/submit",
        ] {
            assert_eq!(Address::of(path), None, "{path}");
        }
    }

    #[test]
    fn methods_are_told_apart() {
        let address = Address::of("/api/v1/sales/3").unwrap();
        assert!(address.takes(Method::Get) && address.takes(Method::Patch) && address.takes(Method::Options));
        assert!(!address.takes(Method::Post) && !address.takes(Method::Other));
        assert!(!Address::CacheStock.takes(Method::Post));
    }
}
