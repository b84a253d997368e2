//! Admission as a buyer meets it: before an order without a key, never before a known key; and the sums.

use super::shop::{Delivered, Sent, Setup, Shop, demo_mode};
use super::{Response, problem};
use crate::net::Service;

fn order(buyer: u64) -> Sent {
    Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#).member(buyer)
}

fn sold_out(buyer: u64) -> Sent {
    Sent::post("/api/v1/orders", r#"{"sale":3,"product":31}"#).member(buyer)
}

#[test]
fn sold_out_is_answered_at_once_and_clears_when_units_come_back() {
    let mut shop = Shop::new(demo_mode());
    let (_, refused) = shop.call(&sold_out(1));
    assert_eq!(refused.unwrap().problem(), problem(409, "sold_out"));
    let (_, waiting) = shop.call(&sold_out(1).key("k"));
    assert_eq!(waiting, None, "a key may be known: the writer looks");
    shop.write();
    let restock = Sent::post("/api/v1/sales/3/items/31/restock", r#"{"units":1}"#).operator().key("r");
    assert_eq!(shop.send(&restock).status, 200);
    assert_eq!(shop.send(&sold_out(1)).status, 201);
    shop.check_sums();
}

/// A loop took up a new catalog at the end of its round only: one that had rested still sold what the operator had
/// been answered is paused.
#[test]
fn a_loop_never_decides_on_older_state_than_another_has_answered_with() {
    let mut shop = Shop::new(demo_mode());
    let mut rested = shop.another_loop();
    let paused = shop.send(&Sent::post("/api/v1/sales/3/pause", "").operator());
    assert_eq!(paused.json()["state"], "paused");
    std::mem::swap(&mut shop.service, &mut rested);
    let (_, refused) = shop.call(&order(1));
    assert_eq!(refused.unwrap().problem(), problem(409, "paused"));
    assert_eq!(shop.send(&Sent::get("/api/v1/sales/3")).json()["state"], "paused");
}

#[test]
fn over_the_rate_the_answer_says_when_to_come_again_but_a_known_key_is_answered() {
    let mut setup = Setup::new(demo_mode());
    setup.limits.orders_per_s = 1;
    setup.limits.burst = 1;
    let mut shop = Shop::with(setup);
    let first = shop.send(&order(1).key("k"));
    assert_eq!(first.status, 201);
    for sent in [order(2), order(2).key("other")] {
        let limited = shop.send(&sent);
        assert_eq!(limited.problem(), problem(429, "rate_limited"));
        assert_eq!(limited.header("retry-after"), Some("1"));
    }
    assert_eq!(shop.send(&order(1).key("k")).body, first.body);
    let published = r#"{"flashPromotionId":3,"productId":29}"#;
    let busy = shop.send(&Sent::post("/seckillOrder/generateOrder", published).member(1));
    assert_eq!((busy.status, &busy.json()["code"]), (429, &500.into()));
    shop.check_sums();
}

#[test]
fn orders_in_flight_are_bounded_in_all_and_per_buyer() {
    let mut setup = Setup::new(demo_mode());
    setup.limits.in_flight_max = 3;
    setup.limits.in_flight_per_buyer_max = 2;
    let mut shop = Shop::with(setup);
    assert_eq!(shop.call(&order(1)).1, None);
    assert_eq!(shop.call(&order(1)).1, None);
    let problem_of = |response: Option<Response>| response.unwrap().problem();
    assert_eq!(problem_of(shop.call(&order(1)).1), problem(429, "buyer_busy"));
    assert_eq!(shop.call(&order(2)).1, None);
    assert_eq!(problem_of(shop.call(&order(3)).1), problem(503, "busy"));
    shop.check_sums();
    // All four requests were of one connection: three are waiting still, and each is counted out.
    shop.write();
    let mut delivered = Delivered::default();
    shop.service.deliver_to(&mut delivered);
    assert_eq!(delivered.0.len(), 3);
    assert_eq!(shop.metric("doorbuster_orders_in_flight"), 0);
    assert_eq!(shop.send(&order(3)).status, 201);
    shop.check_sums();
}

#[test]
fn of_keyed_orders_in_one_batch_only_those_over_the_bound_are_refused_and_a_known_key_never() {
    let mut setup = Setup::new(demo_mode());
    setup.limits.in_flight_per_buyer_max = 2;
    let mut shop = Shop::with(setup);
    let known = shop.send(&order(1).key("known"));
    for key in ["a", "b", "c", "known"] {
        assert_eq!(shop.call(&order(1).key(key)).1, None);
    }
    shop.write();
    let mut delivered = Delivered::default();
    shop.service.deliver_to(&mut delivered);
    let statuses: Vec<u16> = delivered
        .0
        .iter()
        .map(|(_, bytes)| String::from_utf8_lossy(&bytes[9..12]).parse().unwrap())
        .collect();
    assert_eq!((known.status, statuses), (201, vec![201, 201, 429, 201]));
    shop.check_sums();
}

/// What was taken of the shared rate was lost with the answer 503, so a full mailbox also starved the rate.
#[test]
fn an_order_that_finds_the_mailbox_full_gives_back_what_it_took_from_the_rate() {
    let mut setup = Setup::new(demo_mode());
    (setup.limits.orders_per_s, setup.limits.burst, setup.queue_commands_max) = (1, 1, 1);
    let mut shop = Shop::with(setup);
    // Its permit is asked for by the writer, once the other one is refused.
    assert_eq!(shop.call(&order(1).key("k")).1, None);
    assert_eq!(shop.call(&order(2)).1.unwrap().problem(), problem(503, "busy"));
    shop.write();
    let mut delivered = Delivered::default();
    shop.service.deliver_to(&mut delivered);
    assert_eq!(Response::read(&delivered.0[0].1).status, 201);
    shop.check_sums();
}

#[test]
fn the_published_routes_may_be_unlimited_for_one_buyer_and_never_for_all() {
    let published =
        Sent::post("/seckillOrder/generateOrder", r#"{"flashPromotionId":3,"productId":29}"#).member(1);
    let form = Sent::post("/order/submit", "user_id=1&goods_id=101&count=1");
    for unlimited in [false, true] {
        let mut setup = Setup::new(demo_mode());
        (setup.limits.orders_per_s_per_buyer, setup.limits.in_flight_per_buyer_max) = (1, 1);
        setup.options.published_unlimited = unlimited;
        let mut shop = Shop::with(setup);
        let asked = [&published, &published, &form, &published.clone().key("a"), &published.clone().key("b")];
        let waiting = asked.map(|sent| shop.call(sent).1.is_none());
        // Only the writer can say of a key whether it is known.
        assert_eq!(waiting, [true, unlimited, unlimited, true, true]);
        assert_eq!(shop.call(&order(1)).1.unwrap().status, 429, "the bounds hold for our own routes");
        shop.write();
        let mut delivered = Delivered::default();
        shop.service.deliver_to(&mut delivered);
        let refused = delivered.0.iter().filter(|(_, bytes)| Response::read(bytes).status != 200);
        assert_eq!(refused.count(), if unlimited { 0 } else { 2 });
        shop.check_sums();
    }
    let mut setup = Setup::new(demo_mode());
    (setup.limits.orders_per_s, setup.limits.burst) = (1, 1);
    setup.options.published_unlimited = true;
    let mut shop = Shop::with(setup);
    assert_eq!([shop.send(&published).status, shop.send(&published).status], [200, 429]);
}

#[test]
fn a_failed_commit_is_unknown_and_the_key_finds_out() {
    let mut shop = Shop::new(demo_mode());
    shop.failing = true;
    let unknown = shop.send(&order(1).key("k"));
    assert_eq!(unknown.problem(), problem(503, "outcome_unknown"));
    // A pause, say, has no key to ask with again.
    let advice = unknown.json()["detail"].as_str().unwrap().to_owned();
    assert!(advice.contains("With the same key") && advice.contains("without a key"), "{advice}");
    assert_eq!(unknown.header("retry-after"), Some("1"));
    shop.failing = false;
    let placed = shop.send(&order(1).key("k"));
    assert_eq!((placed.status, placed.header("idempotency-replayed")), (201, None));
    shop.check_sums();
}

#[test]
fn a_server_that_stops_is_not_ready_and_answers_what_comes() {
    let mut shop = Shop::new(demo_mode());
    for ready in [200, 503] {
        assert_eq!(shop.send(&Sent::get("/readyz")).status, ready);
        assert_eq!(shop.metric("doorbuster_ready"), i64::from(ready == 200));
        assert_eq!(shop.send(&order(1)).status, 201);
        assert_eq!(shop.send(&Sent::get("/healthz")).status, 200);
        shop.check_sums();
        shop.stop.request();
    }
}

#[test]
fn a_round_hands_over_what_it_brought_in_one_batch() {
    let mut shop = Shop::new(demo_mode());
    let tickets: Vec<_> = (0..5).map(|buyer| shop.call(&order(buyer)).0).collect();
    shop.service.round_ended();
    shop.write();
    let mut delivered = Delivered::default();
    shop.service.deliver_to(&mut delivered);
    let answered: Vec<_> = delivered.0.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(answered, tickets);
    assert!(delivered.0.iter().all(|(_, bytes)| Response::read(bytes).status == 201));
}
