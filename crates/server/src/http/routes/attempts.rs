//! Who tries most to order an item, and from where: for operators who look for machines among the buyers.
//!
//! Must not: be part of the figures, which every viewer sees: these name buyers and addresses.

use std::net::IpAddr;
use std::sync::Arc;

use engine::{BuyerId, Refusal, Role, UnixMs};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::reads::{LedgerRead, ShowRead};
use crate::http::route::{Handler, Route};
use crate::http::wire::Object;
use crate::http::wire::error::Problem;
use crate::intake::attempts::{CAME, Summed, Top, Tried};
use crate::net::Answer;

const ATTEMPTS: &str = "/api/v1/sales/{sale}/items/{product}/attempts";

pub(in crate::http) const ROUTES: &[Route] =
    &[Route::get(ATTEMPTS, Handler::Operator(Role::Support, HttpService::show_attempts))];

/// By [`crate::intake::attempts::Came`].
const NAMES: [&str; CAME] = [
    "accepted",
    "replayed",
    "refused_closed",
    "refused_stock",
    "refused_limit",
    "refused_invalid",
    "busy",
    "unknown",
];

impl HttpService {
    /// On the thread that may block: the counters of all event loops are gone through.
    fn show_attempts(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let sale = call.params.sale;
        let sku = self.catalog.sku_id(sale, call.params.product).ok_or(Refusal::UnknownSku)?;
        let (attempts, now) = (Arc::clone(&self.shared.attempts), call.now);
        let read = LedgerRead::new(move |_ledger| {
            let body = json(now, &attempts.top_of_all(sale, sku, now));
            Ok(ShowRead::new(move |_, out| {
                out.json(200, &body);
                Ok(())
            }))
        });
        self.read_ledger(call, ATTEMPTS, read)
    }
}

fn json(now: UnixMs, Summed { tops, servers, missing }: &Summed) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    let mut object = Object::begin(&mut out);
    object
        .number("at_ms", now.0)
        .flag("this_server_only", *servers == 1)
        .number("servers", *servers as u64)
        .number("servers_missing", *missing as u64)
        .number("uncounted", tops.uncounted);
    for (place, name) in ["night", "minute"].into_iter().enumerate() {
        let (buyers, addresses) = (&tops.buyers[place], &tops.addresses[place]);
        let mut lists = Object::begin(object.value(name));
        push_top(&mut lists, ["buyers", "buyers_missed_max"], buyers, |tried| match &tried.name {
            Some(name) => name.to_string(),
            None => BuyerId::to_string(&tried.who),
        });
        push_top(&mut lists, ["addresses", "addresses_missed_max"], addresses, |tried| match tried.who {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(network) => format!("{network}/64"),
        });
        lists.end();
    }
    object.end();
    out
}

fn push_top<K>(
    object: &mut Object<'_>,
    [list, missed_max]: [&str; 2],
    top: &Top<K>,
    who: impl Fn(&Tried<K>) -> String,
) {
    object.list(list, &top.tried, |out, tried| {
        let mut object = Object::begin(out);
        object
            .text("who", &who(tried))
            .number("attempts", tried.attempts.total().into())
            .number("missed_max", tried.missed_max.into());
        for (name, count) in NAMES.into_iter().zip(tried.attempts.0) {
            object.number(name, count.into());
        }
        object.end();
    });
    object.number(missed_max, top.missed_max.into());
}
