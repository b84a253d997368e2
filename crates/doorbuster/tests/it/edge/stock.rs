//! The stock at the edge: from the replica, not older than it says, and from a server whenever the replica is not to
//! be believed.

use std::time::Duration;

use super::{Shop, header, soon};
use crate::exchange::Response;

/// Unlike any stock of the demo's sales, where product 29 has 10,000,000 units.
const UNITS: &str = "4711";
const SERVERS_UNITS: &str = "10000000";
const ASK: &str = "/cache/stock?productId=29";
/// The edge keeps nothing longer, by a clock that counts milliseconds.
const CACHE: Duration = Duration::from_millis(102);

/// As the gate writes it; returns when the replica has it, and the edge has forgotten what was before.
#[track_caller]
fn set_units(shop: &Shop, units: &str) {
    let state = format!("HSET {{db:0000001d}}:s avail {units} seq 1");
    let replies = shop.redis("redis", &["SET db:product:29 0000001d", &state, "WAIT 1 10000"]);
    assert_eq!(replies[2], ":1", "the replica has it");
    std::thread::sleep(CACHE);
}

/// What the edge says of its replica.
#[track_caller]
fn stock(shop: &Shop) -> Result<Response, Response> {
    let response = shop.get_own(ASK)?;
    let silence: u64 = header(&response, "Replica-Silence-S").unwrap().parse().unwrap();
    assert!(silence <= 5, "{response:?}");
    Ok(response)
}

#[test]
fn the_stock_is_the_replicas_and_not_older_than_it_says() {
    let shop = Shop::demo(&[]);
    assert_eq!(shop.get(ASK).body, SERVERS_UNITS, "nothing is in Redis yet");
    for (units, shown) in [(UNITS, UNITS), ("4710", "4710"), ("0", "0"), ("-3", "0"), ("1", "1")] {
        set_units(&shop, units);
        for _ in 0..20 {
            let response = stock(&shop).expect("the edge knows it");
            assert_eq!((response.status, response.body.as_str()), (200, shown));
            assert_eq!(header(&response, "Cache-Control"), Some("no-store"));
        }
    }
}

#[test]
fn without_a_cache_every_answer_is_read_anew() {
    let shop = Shop::demo(&[("EDGE_CACHE_MS", "0")]);
    for units in ["5", "4", "3"] {
        let state = format!("HSET {{db:0000001d}}:s avail {units} seq 1");
        shop.redis("redis", &["SET db:product:29 0000001d", &state, "WAIT 1 10000"]);
        assert_eq!(stock(&shop).expect("the edge knows it").body, units);
    }
}

#[test]
fn what_the_replica_does_not_say_the_servers_are_asked() {
    let shop = Shop::demo(&[]);
    set_units(&shop, UNITS);
    for (ask, body) in [
        ("/cache/stock?productId=30", "100"),
        // Which sale has which SKU is not in Redis.
        ("/cache/stock?flashPromotionId=3&productId=29", SERVERS_UNITS),
        ("/cache/stock?productId=29&x=1", SERVERS_UNITS),
    ] {
        assert_eq!(shop.get(ask).body, body, "{ask}");
    }
    for (ask, status) in [
        ("/cache/stock?productId=9999999", 404),
        ("/cache/stock?productId=x", 400),
        ("/cache/stock", 400),
        ("/cache/stock?productId=99999999999999999999", 400),
    ] {
        let response = shop.get(ask);
        assert_eq!((response.status, header(&response, "Age-Ms")), (status, None), "{ask}");
    }
    assert_eq!(shop.post(ASK, &[], "").status, 405);
    // A gate that is being rebuilt counts up from nothing: its numbers are nobody's stock. And those of a gate of another
    // format (its 71st byte) are the servers' to read.
    let (run, between) = ("0".repeat(40), "0".repeat(29));
    for (flag, format, body) in [
        ("B", 2, SERVERS_UNITS),
        ("F", 2, SERVERS_UNITS),
        ("O", 2, UNITS),
        ("O", 3, SERVERS_UNITS),
        ("O", 2, UNITS),
    ] {
        let gate = format!("\"{run}{flag}{between}\\x{format:02x}\"");
        shop.redis("redis", &[&format!("HSET {{db:0000001d}}:s gate {gate}")]);
        set_units(&shop, UNITS);
        assert_eq!(shop.get(ASK).body, body, "{flag} of format {format}");
    }
    shop.redis("redis", &[&format!("HSET {{db:0000001d}}:s gate {run}ol")]);
    set_units(&shop, UNITS);
    assert_eq!(shop.get(ASK).body, SERVERS_UNITS, "a gate of before there were formats");
}

#[test]
fn a_replica_that_is_gone_or_out_of_touch_is_not_believed() {
    let shop = Shop::demo(&[("EDGE_REPLICA_SILENCE_S_MAX", "2")]);
    set_units(&shop, UNITS);
    let servers_say = || {
        let response = shop.get(ASK);
        assert!(response.status == 200, "nobody notices: {response:?}");
        response.body == SERVERS_UNITS && header(&response, "Age-Ms").is_none()
    };
    let edge_says = || stock(&shop).is_ok_and(|response| response.body == UNITS);
    soon("the edge knows it", edge_says);

    shop.engines.freeze("redis-edge");
    soon("the servers are asked while the replica hangs", servers_say);
    shop.engines.thaw("redis-edge");
    soon("the replica is asked again", edge_says);

    shop.engines.kill("redis-edge");
    soon("the servers are asked while the replica is dead", servers_say);
    shop.engines.up(&["redis-edge"]);
    soon("the new replica is asked", edge_says);

    shop.engines.freeze("redis");
    soon("the servers are asked when the replica hears nothing", servers_say);
    shop.engines.thaw("redis");
    soon("the replica is asked when it hears its master", edge_says);

    shop.redis("redis-edge", &["REPLICAOF NO ONE"]);
    soon("a master is never asked", servers_say);
}
