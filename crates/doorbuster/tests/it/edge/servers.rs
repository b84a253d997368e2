//! What a client sees when servers die behind the edge, and when it asks for too much.

use std::net::SocketAddr;
use std::time::Duration;

use super::{PUBLISHED_ORDER, Response, Shop, exchange, header, soon};
use crate::engines::freeze;

const PLACE: &str = "/seckillOrder/generateOrder";
const MEMBER: (&str, &str) = ("memberId", "1");

#[test]
fn a_dead_server_is_noticed_by_nobody_and_two_are_said() {
    let mut shop = Shop::demo(&[]);
    shop.servers.pop().unwrap().kill();
    for number in 0..20 {
        let key = format!("a-key-of-this-test-{number}");
        for headers in [&[MEMBER][..], &[MEMBER, ("Idempotency-Key", &key)]] {
            assert_eq!(shop.post(PLACE, headers, PUBLISHED_ORDER).status, 200);
        }
        assert_eq!(shop.get("/api/v1/sales").status, 200);
    }
    shop.servers.pop().unwrap().kill();
    let (read, placed) = (shop.get("/api/v1/sales"), shop.post(PLACE, &[MEMBER], PUBLISHED_ORDER));
    assert_eq!((read.status, &read.json()["code"]), (503, &"unavailable".into()));
    assert_eq!(header(&read, "Retry-After"), Some("1"));
    assert_eq!((placed.status, &placed.json()["code"]), (503, &500.into()));
    let own = shop.post("/api/v1/orders", &[MEMBER, ("Idempotency-Key", "a-key-of-this-test")], "{}");
    assert_eq!((own.status, &own.json()["code"]), (503, &"outcome_unknown".into()));
}

/// Whether bytes have come on a connection to this port that nobody has read.
fn has_unread(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, local, _, state, queues, ..] = fields[..] else { return false };
        local.ends_with(&format!(":{port:04X}")) && state == "01" && !queues.ends_with(":00000000")
    })
}

/// Of two orders at once each server gets one; the first server has not read its own when it is killed.
fn place_while_one_dies(place: impl Fn(SocketAddr, usize) -> Response + Sync) -> [u16; 2] {
    let mut shop = Shop::demo(&[]);
    let edge = shop.edge();
    let dying = shop.servers.remove(0);
    freeze(dying.pid());
    std::thread::scope(|scope| {
        let orders = [0, 1].map(|number| {
            scope.spawn({
                let place = &place;
                move || place(edge, number).status
            })
        });
        soon("an order waits at the server that does not read", || has_unread(dying.address.port()));
        dying.kill();
        orders.map(|order| order.join().unwrap())
    })
}

#[test]
fn an_order_with_a_key_moves_on_when_its_server_dies() {
    let statuses = place_while_one_dies(|edge, number| {
        let key = format!("a-key-of-this-test-{number}");
        exchange(edge, "POST", PLACE, &[MEMBER, ("Idempotency-Key", &key)], PUBLISHED_ORDER)
    });
    assert_eq!(statuses, [200, 200]);
}

#[test]
fn an_order_by_a_form_moves_on_when_its_server_dies() {
    let statuses = place_while_one_dies(|edge, number| {
        let form = format!("sale=3&product=29&quantity=1&key=a-key-of-this-test-{number}");
        let headers = [MEMBER, ("Content-Type", "application/x-www-form-urlencoded")];
        exchange(edge, "POST", "/buy", &headers, &form)
    });
    assert_eq!(statuses, [303, 303]);
}

#[test]
fn an_order_without_a_key_is_unknown_when_its_server_dies() {
    let mut statuses =
        place_while_one_dies(|edge, _| exchange(edge, "POST", PLACE, &[MEMBER], PUBLISHED_ORDER));
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
}

#[test]
fn a_client_who_asks_too_much_is_asked_to_wait() {
    let limits = [
        ("EDGE_POSTS_PER_S_PER_CLIENT", "1"),
        ("EDGE_POSTS_BURST_PER_CLIENT", "2"),
        ("EDGE_REQUESTS_PER_S_PER_CLIENT", "1"),
        ("EDGE_REQUESTS_BURST_PER_CLIENT", "30"),
    ];
    let shop = Shop::demo(&limits);
    let (mut placed, mut refused) = (0, 0);
    while refused == 0 {
        let response = shop.post(PLACE, &[MEMBER], PUBLISHED_ORDER);
        match response.status {
            200 => placed += 1,
            429 => {
                refused += 1;
                assert_eq!(header(&response, "Retry-After"), Some("1"));
                assert_eq!(response.json()["code"], 500);
            }
            _ => panic!("{response:?}"),
        }
        assert!(placed < 20, "nobody was limited");
    }
    assert!(placed >= 3, "the burst passes");
    // A provider reports all payments of a sale from one address; what it signs is checked behind.
    for path in ["/api/v1/payments", "/api/v1/payments/refunds", "/api/v1/payments/stripe"] {
        for _ in 0..40 {
            assert_ne!(shop.post(path, &[], "{}").status, 429, "{path}");
        }
    }
    assert_eq!(shop.get("/api/v1/sales").status, 200, "reading has a limit of its own");
    let mut reads = 0;
    let refusal = loop {
        let response = shop.get("/cache/stock?productId=29");
        if response.status == 429 {
            break response;
        }
        assert_eq!(response.status, 200);
        reads += 1;
        assert!(reads < 200, "nobody was limited");
    };
    assert_eq!(refusal.json()["type"], "https://doorbuster.dev/problems/rate-limited");
    soon("who waits is let in", || {
        std::thread::sleep(Duration::from_secs(1));
        shop.get("/cache/stock?productId=29").status == 200
    });
}
