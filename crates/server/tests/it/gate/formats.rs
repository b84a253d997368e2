//! Gates of other formats: an older one is closed to everybody and rebuilt, a newer one is refused and left alone.

use engine::SkuId;
use server::gate::{Built, Closed, GateError};

use super::servers::Redis;
use super::{build, fresh, is_taken, place, reserve, reserve_of};

const SKU: SkuId = SkuId(1);
const STATE: &str = "{db:00000001}:s";

fn state(redis: &Redis) -> Vec<u8> {
    redis.command(&["HGET", STATE, "gate"])
}

/// Writes the packed state anew, by an expression over the old one, `gate`.
fn rewrite(redis: &Redis, expression: &str) {
    let script = format!(
        "local gate = redis.call('HGET', KEYS[1], 'gate') return redis.call('HSET', KEYS[1], 'gate', {expression})"
    );
    redis.command::<i64>(&["EVAL", &script, "1", STATE]);
}

#[test]
fn a_gate_of_the_older_format_is_fenced_for_its_own_servers_and_rebuilt() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 5, Some(2)));
    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 1, 8, 1), Some(2))));
    assert_eq!((state(&redis)[40], state(&redis)[70], state(&redis).len()), (b'O', 2, 71));
    // The servers of format 1 take every letter but theirs for a fence.
    rewrite(&redis, "string.sub(gate, 1, 40) .. 'o' .. string.sub(gate, 42, 70)");
    let older = GateError::Closed(Closed::OlderFormat);
    assert_eq!(reserve_of(&mut gate, place(SKU, 2, 8, 1), Some(2)), Err(older.clone()));
    assert_eq!(gate.find(&[place(SKU, 1, 8, 1).id]), [Err(older.clone())]);
    assert_eq!(gate.states(&[SKU]).remove(0).unwrap().unwrap().closed, Some(Closed::OlderFormat));
    let text = older.to_string();
    assert!(
        text.contains("format 1") && text.contains("format 2") && text.contains("it is rebuilt"),
        "{text}"
    );
    // While its servers sell from it, nobody replaces it.
    assert_eq!(gate.build(SKU, &fresh(2, 4, Some(2)), &mut || ()), Ok(Built::Old));
    assert_eq!(gate.fence(&[(SKU, 1)]), [Ok(())]);
    assert_eq!((state(&redis)[40], state(&redis).len()), (b'f', 70), "as its own servers fence it");
    let open = gate.open_reservations(SKU, 0, 10).unwrap();
    assert_eq!((open.len(), &*open[0].record), (1, &b"record"[..]));
    build(&mut gate, SKU, &fresh(2, 4, Some(2)));
    assert!(is_taken(&reserve_of(&mut gate, place(SKU, 2, 8, 1), Some(2))));
    assert_eq!(state(&redis)[70], 2);
}

#[test]
fn a_gate_of_a_newer_format_is_refused_by_name_and_left_as_it_is() {
    let redis = Redis::start(&[]);
    let mut gate = redis.gate();
    build(&mut gate, SKU, &fresh(1, 5, None));
    rewrite(&redis, "string.sub(gate, 1, 70) .. string.char(3)");
    let before = state(&redis);
    let newer = GateError::Closed(Closed::NewerFormat(3));
    assert_eq!(reserve(&mut gate, place(SKU, 1, 8, 1)), Err(newer.clone()));
    assert_eq!(gate.states(&[SKU]).remove(0).unwrap().unwrap().closed, Some(Closed::NewerFormat(3)));
    // Closed for us is as good as fenced: what it is for others is theirs.
    assert_eq!(gate.fence(&[(SKU, 9)]), [Ok(())]);
    assert_eq!(gate.build(SKU, &fresh(9, 5, None), &mut || ()), Err(newer.clone()));
    assert_eq!(gate.open_reservations(SKU, 0, 10).map(drop), Err(newer.clone()));
    assert_eq!(state(&redis), before);
    let text = newer.to_string();
    assert!(
        text.contains("format 3") && text.contains("format 2") && text.contains("stop this one"),
        "{text}"
    );
}
