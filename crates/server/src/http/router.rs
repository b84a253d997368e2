//! From a path to the rows that it has, and what the path names.
//!
//! Built once from the tables of all modules. A path without parameters is found by its length and then a compare or
//! two; one with parameters by its first letters. Must not: look at anything but the path, or allocate for a request.

use std::sync::LazyLock;

use engine::{ProductId, SaleId};

use super::route::{BodyLimit, Route, Served};
use super::wire::answer::ProblemFormat;
use super::wire::decimal;
use super::wire::fields::Method;
use super::{pages, published, routes};

/// The rows of every module.
const TABLES: [&[Route]; 24] = [
    routes::orders::ROUTES,
    routes::sales::ROUTES,
    routes::line::ROUTES,
    routes::receipt::ROUTES,
    routes::session::ROUTES,
    routes::payments::ROUTES,
    routes::support::ROUTES,
    routes::stripe::ROUTES,
    routes::buyers::ROUTES,
    routes::webhooks::ROUTES,
    routes::images::ROUTES,
    routes::operating::ROUTES,
    routes::operators::ROUTES,
    routes::report::ROUTES,
    routes::figures::ROUTES,
    routes::rehearsals::ROUTES,
    routes::attempts::ROUTES,
    routes::console::ROUTES,
    routes::demo::ROUTES,
    published::ROUTES,
    published::submit::ROUTES,
    pages::ROUTES,
    pages::forms::ROUTES,
    pages::line::ROUTES,
];

/// All rows, for a server with one listener.
pub(super) static ROUTER: LazyLock<Router> = LazyLock::new(|| Router::of(|_| true));
/// Where operators have a listener of their own: what is left at the other one, and what is served at theirs.
pub(super) static PUBLIC: LazyLock<Router> =
    LazyLock::new(|| Router::of(|row| row.served != Served::Operators));
pub(super) static OPERATORS: LazyLock<Router> =
    LazyLock::new(|| Router::of(|row| row.served != Served::Public));

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Params<'a> {
    /// `{sale}`; 0 if the pattern has none.
    pub(super) sale: SaleId,
    /// `{product}`; 0 if the pattern has none.
    pub(super) product: ProductId,
    /// Any other parameter, still encoded; empty if the pattern has none.
    pub(super) name: &'a str,
}

impl Default for Params<'_> {
    fn default() -> Self {
        Params { sale: SaleId(0), product: ProductId(0), name: "" }
    }
}

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Text(&'static str),
    /// `{sale}` and `{product}`: a number, in digits.
    Sale,
    Product,
    /// `{id}`: one segment. With a question mark, `{id?}`, it may be empty.
    Segment {
        may_be_empty: bool,
    },
    /// `{name*}`: everything that follows.
    Rest,
}

/// A path, or a pattern of paths, with its rows.
#[derive(Debug)]
pub(super) struct Resource {
    pattern: &'static str,
    parts: Vec<Part>,
    get: Option<&'static Route>,
    post: Option<&'static Route>,
    patch: Option<&'static Route>,
}

/// All resources.
#[derive(Debug)]
pub(super) struct Router {
    /// Without parameters, by length.
    fixed: Vec<Vec<Resource>>,
    /// With parameters, by the text that they begin with.
    named: Vec<(&'static str, Vec<Resource>)>,
}

impl Router {
    fn of(wanted: impl Fn(&Route) -> bool) -> Router {
        Router::new(TABLES.into_iter().flatten().filter(|row| wanted(row)))
    }

    /// # Panics
    /// If two rows have the same method and path: the tables are constants, and every test builds them.
    fn new(rows: impl Iterator<Item = &'static Route>) -> Router {
        let mut router = Router { fixed: Vec::new(), named: Vec::new() };
        for row in rows {
            let place = router.resource(row.path).place(row.method);
            assert!(place.replace(row).is_none(), "{:?} {} is there twice", row.method, row.path);
        }
        router
    }

    /// The resource of a pattern, made if it is new.
    fn resource(&mut self, pattern: &'static str) -> &mut Resource {
        let parts = parts(pattern);
        let siblings = match parts[..] {
            [Part::Text(path)] => {
                let length = self.fixed.len().max(path.len() + 1);
                self.fixed.resize_with(length, Vec::new);
                &mut self.fixed[path.len()]
            }
            [Part::Text(begin), ..] => {
                let known = self.named.iter().position(|(text, _)| *text == begin);
                let position = known.unwrap_or_else(|| {
                    self.named.push((begin, Vec::new()));
                    self.named.len() - 1
                });
                &mut self.named[position].1
            }
            _ => panic!("{pattern} does not begin with a slash"),
        };
        let known = siblings.iter().position(|resource| resource.pattern == pattern);
        let position = known.unwrap_or_else(|| {
            siblings.push(Resource { pattern, parts, get: None, post: None, patch: None });
            siblings.len() - 1
        });
        &mut siblings[position]
    }

    /// What is at a path, if anything is.
    pub(super) fn find<'a>(&self, path: &'a str) -> Option<(&Resource, Params<'a>)> {
        let mut params = Params::default();
        // One letter rules most out before any text is compared.
        let (second, last) = (path.as_bytes().get(1), path.as_bytes().last());
        if let Some(same_length) = self.fixed.get(path.len())
            && let Some(resource) = same_length
                .iter()
                .find(|resource| resource.pattern.as_bytes().last() == last && resource.pattern == path)
        {
            return Some((resource, params));
        }
        for (begin, resources) in &self.named {
            if begin.as_bytes().get(1) == second
                && let Some(rest) = path.strip_prefix(begin)
            {
                return resources
                    .iter()
                    .find(|resource| read(&resource.parts[1..], rest, &mut params))
                    .map(|resource| (resource, params));
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.fixed.iter().flatten().chain(self.named.iter().flat_map(|(_, resources)| resources))
    }
}

impl Resource {
    fn place(&mut self, method: Method) -> &mut Option<&'static Route> {
        match method {
            Method::Get => &mut self.get,
            Method::Post => &mut self.post,
            Method::Patch => &mut self.patch,
            Method::Options | Method::Other => panic!("no row is about {method:?}"),
        }
    }

    pub(super) fn route(&self, method: Method) -> Option<&'static Route> {
        match method {
            Method::Get => self.get,
            Method::Post => self.post,
            Method::Patch => self.patch,
            Method::Options | Method::Other => None,
        }
    }

    pub(super) fn routes(&self) -> impl Iterator<Item = &'static Route> {
        [self.get, self.post, self.patch].into_iter().flatten()
    }

    /// The methods that it takes, as for the header `Allow`.
    pub(super) fn allow(&self) -> &'static str {
        match (self.get.is_some(), self.post.is_some(), self.patch.is_some()) {
            (true, false, false) => "GET, HEAD, OPTIONS",
            (true, true, false) => "GET, HEAD, POST, OPTIONS",
            (true, false, true) => "GET, HEAD, PATCH, OPTIONS",
            (true, true, true) => "GET, HEAD, POST, PATCH, OPTIONS",
            (false, true, false) => "POST, OPTIONS",
            (false, false, true) => "PATCH, OPTIONS",
            (false, true, true) => "POST, PATCH, OPTIONS",
            (false, false, false) => "OPTIONS",
        }
    }

    /// Whether it takes the operator's larger bodies. By path: a method that it does not take is answered 405.
    pub(super) fn takes_large_bodies(&self) -> bool {
        self.routes().any(|route| route.body == BodyLimit::Operator)
    }

    /// How problems are reported that no row is to blame for.
    pub(super) fn problems(&self) -> ProblemFormat {
        self.routes().next().map_or(ProblemFormat::Problem, |route| route.problems)
    }

    /// As the API's description writes it.
    #[cfg(test)]
    pub(super) fn described(&self) -> String {
        self.pattern.replace("?}", "}").replace("*}", "}")
    }
}

/// Splits a pattern at its braces.
fn parts(pattern: &'static str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((text, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').expect("every brace of a pattern is closed");
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        parts.push(match name {
            "sale" => Part::Sale,
            "product" => Part::Product,
            name if name.ends_with('*') => Part::Rest,
            name => Part::Segment { may_be_empty: name.ends_with('?') },
        });
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

/// Whether a path is what the parts say, to its end; with what it names.
fn read<'a>(parts: &[Part], path: &'a str, params: &mut Params<'a>) -> bool {
    let mut rest = path;
    for part in parts {
        match part {
            Part::Text(text) => match rest.strip_prefix(text) {
                Some(after) => rest = after,
                None => return false,
            },
            Part::Sale | Part::Product => {
                let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
                let Some(number) = decimal(&rest[..end]) else { return false };
                rest = &rest[end..];
                match part {
                    Part::Sale => params.sale = SaleId(number),
                    _ => params.product = ProductId(number),
                }
            }
            Part::Segment { may_be_empty } => {
                let end = rest.find('/').unwrap_or(rest.len());
                if end == 0 && !may_be_empty {
                    return false;
                }
                (params.name, rest) = rest.split_at(end);
            }
            Part::Rest => (params.name, rest) = (rest, ""),
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_they_should() {
        for (path, pattern, sale, product, name) in [
            ("/api/v1/orders", "/api/v1/orders", 0, 0, ""),
            ("/api/v1/orders/00ff", "/api/v1/orders/{id?}", 0, 0, "00ff"),
            ("/api/v1/orders/", "/api/v1/orders/{id?}", 0, 0, ""),
            ("/api/v1/orders/00ff/cancel", "/api/v1/orders/{id?}/cancel", 0, 0, "00ff"),
            ("/api/v1/sales/3", "/api/v1/sales/{sale}", 3, 0, ""),
            ("/api/v1/sales/3/end", "/api/v1/sales/{sale}/end", 3, 0, ""),
            ("/api/v1/sales/3/items/29/correct", "/api/v1/sales/{sale}/items/{product}/correct", 3, 29, ""),
            ("/api/v1/payments/refunds-due", "/api/v1/payments/refunds-due", 0, 0, ""),
            ("/api/v1/payments/p%201/settle", "/api/v1/payments/{payment?}/settle", 0, 0, "p%201"),
            ("/seckill_3_29.html", "/seckill_{sale}_{product}.html", 3, 29, ""),
            ("/orders/00ff", "/orders/{id}", 0, 0, "00ff"),
            ("/assets/sale-00.js", "/assets/{name*}", 0, 0, "sale-00.js"),
            ("/assets/a/b", "/assets/{name*}", 0, 0, "a/b"),
        ] {
            let (resource, params) = ROUTER.find(path).unwrap_or_else(|| panic!("{path} leads nowhere"));
            assert_eq!(resource.pattern, pattern);
            assert_eq!(params, Params { sale: SaleId(sale), product: ProductId(product), name }, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_of_ours_leads_nowhere() {
        for path in [
            "",
            "*",
            "//",
            "/api/",
            "/api/v1",
            "/api/v1/",
            "/api/v1/order",
            "/api/v1/orders/1/return",
            "/api/v1/orders/1/cancel/2",
            "/api/v1/sales/",
            "/api/v1/sales/x",
            "/api/v1/sales/+3",
            "/api/v1/sales/9223372036854775808",
            "/api/v1/sales/3/",
            "/api/v1/sales/3/items/29",
            "/api/v1/sales/3/items/29/take",
            "/api/v1/sales/3/items/29/correct/1",
            "/seckill_3.html",
            "/seckill_3_29",
            "/seckill_3_x.html",
            "/seckill_3_29.html/",
            "/orders/",
            "/orders/1/2",
            "/ORDER/submit",
        ] {
            assert!(ROUTER.find(path).is_none(), "{path}");
        }
    }

    #[test]
    fn a_resource_knows_its_methods() {
        for (path, allow) in [
            ("/api/v1/orders", "GET, HEAD, POST, OPTIONS"),
            ("/api/v1/sales/3", "GET, HEAD, PATCH, OPTIONS"),
            ("/api/v1/clock/confirm", "POST, OPTIONS"),
            ("/cache/stock", "GET, HEAD, OPTIONS"),
        ] {
            assert_eq!(ROUTER.find(path).unwrap().0.allow(), allow, "{path}");
        }
        let (sale, _) = ROUTER.find("/api/v1/sales/3").unwrap();
        assert!(sale.route(Method::Get).is_some() && sale.route(Method::Patch).is_some());
        assert!(sale.route(Method::Post).is_none() && sale.route(Method::Other).is_none());
    }

    /// What a row says of its body and its problems is also asked where no row is chosen yet.
    #[test]
    fn the_rows_of_a_resource_report_problems_in_one_shape() {
        for resource in ROUTER.resources() {
            for route in resource.routes() {
                assert_eq!(route.problems, resource.problems(), "{}", route.path);
            }
        }
    }
}
