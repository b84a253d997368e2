//! Files of draws that are consistent in themselves: when the value of their beacon was known.

use engine::draw::{Entries, commitment, randomness, seed};
use engine::{BeaconTerms, Closed, ProductId, SaleId, Spoken, UnixMs};
use serde_json::{Value, json};
use server::beacon::QUICKNET;
use server::hex::{hex, unhex};
use server::ledger::Statements;
use server::signing::SigningKey;

use crate::run;

/// Of quicknet's round 123.
const SAID: &str =
    "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";
/// So that round 123 is waited for, with a second to spare.
const CLOSED_AT_MS: u64 = (QUICKNET.genesis_s + 122 * 3) * 1000 - 4_000;

/// The file of a draw of nobody, signed by whoever has the key.
fn file(key: &SigningKey, terms: BeaconTerms, said: Option<&str>, closed_at_ms: u64) -> Value {
    let secret = [5; 32];
    let (committed, root) = (commitment(&secret), Entries::default().root());
    let round = terms.round_after(UnixMs(closed_at_ms));
    let spoken = said.map(|said| Spoken { round, signature: unhex(said).unwrap() });
    let seed = seed(&secret, &root, spoken.map(|spoken| randomness(&spoken.signature)).as_ref());
    let closed = Closed { at: UnixMs(closed_at_ms), entries: 0, root, round: Some(round) };
    let statements = Statements {
        sale: SaleId(7),
        product: ProductId(31),
        commitment: &committed,
        closed: &closed,
        beacon: Some(&terms),
    };
    let BeaconTerms { public_key, genesis_s, period_s } = terms;
    json!({
        "format": 3, "sale": 7, "product": 31, "commitment": hex(&committed), "closed_at_ms": closed_at_ms,
        "entries": 0, "root": hex(&root),
        "beacon": {
            "public_key": hex(&public_key), "genesis_s": genesis_s, "period_s": period_s,
            "round": round, "signature": said,
        },
        "secret": hex(&secret), "seed": hex(&seed), "signed_by": key.public(),
        "signature": key.sign(statements.close().as_bytes()),
        "drawn_signature": key.sign(statements.drawn(spoken.as_ref(), &seed).as_bytes()),
    })
}

/// One whose beacon had another genesis was called genuine, though its value was known for years.
#[test]
fn a_draw_says_when_its_beacons_value_was_known() {
    let directory = tempfile::tempdir().unwrap();
    let key = SigningKey::read_or_make(&directory.path().join("key")).unwrap();
    let verify = |file: &Value| {
        std::fs::write(directory.path().join("draw.txt"), format!("{file}\n")).unwrap();
        run(directory.path(), &["draw", "verify", "draw.txt"])
    };
    let (code, output, errors) = verify(&file(&key, QUICKNET, Some(SAID), CLOSED_AT_MS));
    assert_eq!(code, 0, "{output}{errors}");
    for said in [
        "by round 123 of the beacon, emitted at 2023-08-23T15:15:33Z; the entries closed at 2023-08-23T15:15:29Z",
        "drand's quicknet, whose key and times these are:\npublic_key 83cf0f2896ad",
        "\ngenesis_s  1692803367\nperiod_s   3\n",
    ] {
        assert!(output.contains(said), "{said}: {output}");
    }

    let years_later_ms = CLOSED_AT_MS + 100_000_000_000;
    let later = BeaconTerms { genesis_s: QUICKNET.genesis_s + 100_000_000, ..QUICKNET };
    let slower = BeaconTerms { period_s: 4, ..QUICKNET };
    for (terms, said) in [(later, Some(SAID)), (later, None), (slower, None)] {
        let (code, output, errors) = verify(&file(&key, terms, said, years_later_ms));
        assert!(
            code == 1 && errors.contains("drand's quicknet, whose key this is, has genesis_s = 1692803367"),
            "{terms:?}: {output}{errors}"
        );
    }

    // Of a beacon that is not known they are named, and signed.
    let own = BeaconTerms { public_key: [7; 96], ..later };
    let good = file(&key, own, None, years_later_ms);
    let (code, output, errors) = verify(&good);
    assert!(
        code == 0
            && output.contains("silent in round 123, due at 2026-10-24T01:02:13Z")
            && output.contains("compare all three with what the beacon's operators publish")
            && output.contains("\ngenesis_s  1792803367\nperiod_s   3\n"),
        "{output}{errors}"
    );
    let mut changed = good.clone();
    changed["beacon"]["genesis_s"] = json!(own.genesis_s + 1);
    let (code, output, errors) = verify(&changed);
    assert!(
        code == 1 && errors.contains("the signature of its close is of something else"),
        "{output}{errors}"
    );
    // By the file's own times, the round was emitted before the close.
    let mut before = good;
    before["beacon"]["genesis_s"] = json!(own.genesis_s - 100);
    let (code, output, errors) = verify(&before);
    assert!(code == 1 && errors.contains("the draw was to wait for round"), "{output}{errors}");
}
