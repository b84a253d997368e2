//! Two listeners: the operators' calls are at theirs, and at the other one nothing shows that there are any.

use super::problem;
use super::shop::{Sent, Shop, demo_mode};
use crate::http::Entrance;
use crate::http::route::{Handler, Served};
use crate::http::router::ROUTER;
use crate::http::wire::fields::Method;
use crate::net::Service;

fn shop_at(entrance: Entrance) -> Shop {
    let mut shop = Shop::new(demo_mode());
    shop.service = shop.at(entrance);
    shop
}

/// Every row, as a request with the operator's token.
fn requests() -> Vec<(Served, Handler, Sent)> {
    let rows = ROUTER.resources().flat_map(|resource| resource.routes());
    rows.map(|row| {
        let path = row.path.replace("{sale}", "3").replace("{product}", "29");
        let path = path.replace("{id?}", &"0".repeat(40)).replace("{id}", "0").replace("{payment?}", "p1");
        let method = match row.method {
            Method::Get => "GET",
            Method::Post => "POST",
            _ => "PATCH",
        };
        let path = path
            .replace("{name?}", "none")
            .replace("{name*}", "none")
            .replace("{endpoint?}", "none")
            .replace("{code}", "en");
        let sent = Sent { body: b"{}".to_vec(), ..Sent::new(method, &path) };
        (row.served, row.handler, sent.operator().member(1).key("k"))
    })
    .collect()
}

#[test]
fn each_route_is_served_at_its_listener_and_unknown_at_the_other() {
    let (mut public, mut operators) = (shop_at(Entrance::Public), shop_at(Entrance::Operators));
    for (served, handler, sent) in requests() {
        let is_unknown = |shop: &mut Shop| {
            let (_, answer) = shop.call(&sent);
            // At one listener a path may have the other method only.
            answer.is_some_and(|answer| {
                answer.status == 405 || (answer.status == 404 && answer.text().contains("GET /api lists"))
            })
        };
        let nothing_there = sent.target.contains("none") || sent.target == "/orders/0";
        let unknown = (is_unknown(&mut public), is_unknown(&mut operators));
        let expected = (served == Served::Operators, served == Served::Public);
        assert!(nothing_there || unknown == expected, "{sent:?}: {unknown:?}");
        let is_operators = matches!(handler, Handler::Operator(..) | Handler::OperatorReads(..));
        assert!(!is_operators || served == Served::Operators, "{sent:?}");
    }
}

#[test]
fn at_the_public_listener_nobody_is_an_operator() {
    let held = |shop: &mut Shop| {
        let sales = shop.send(&Sent::get("/api/v1/sales/3").operator()).json();
        sales["items"][0].get("held").is_some()
    };
    let (mut public, mut operators) = (shop_at(Entrance::Public), shop_at(Entrance::Operators));
    assert_eq!((held(&mut public), held(&mut operators)), (false, true));
    assert_eq!(public.send(&Sent::get("/metrics").operator()).problem(), problem(404, "not_found"));
    assert_eq!(operators.send(&Sent::get("/metrics")).status, 200);
    assert_eq!(operators.send(&Sent::get("/seckill_3_29.html")).status, 404);
    for shop in [&mut public, &mut operators] {
        assert_eq!(
            [shop.send(&Sent::get("/healthz")).status, shop.send(&Sent::get("/readyz")).status],
            [200, 200]
        );
    }
    // Nobody may have the public's loop buffer what only operators may send.
    let token = [httparse::Header { name: "Authorization", value: super::shop::OPERATOR.as_bytes() }];
    let bound = |shop: &Shop| shop.service.body_bytes_max("POST", "/api/v1/sales", &token);
    assert_eq!((bound(&public), bound(&operators)), (16 * 1024, 1024 * 1024));
    let patched = Sent { method: "PATCH".to_owned(), ..Sent::post("/api/v1/sales/3", "{}") }.operator();
    let refused = public.send(&patched);
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
}
