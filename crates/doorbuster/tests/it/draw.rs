//! The beacon of a draw: when its value was known, by files that are consistent in themselves; and one that is not asked any more.

use engine::draw::{Entries, commitment, randomness, seed};
use engine::{BeaconTerms, ClosedLine, ProductId, SaleId, Spoken, UnixMs};
use serde_json::{Value, json};
use server::beacon::QUICKNET;
use server::hex::{hex, unhex};
use server::ledger::Statements;
use server::signing::SigningKey;

use crate::exchange::Connection;
use crate::line::{later_sale, operate};
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, run};

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
    let closed = ClosedLine { at: UnixMs(closed_at_ms), entries: 0, root, round: Some(round) };
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

/// It was not reported to who runs the sale, and the draw was signed as of a silent beacon that nobody had asked.
#[test]
fn a_beacon_that_is_not_configured_any_more_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let verdict = |url: &str, is_missed: bool, make: bool| {
        let mut command = doorbuster(directory.path());
        command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
        command.env("DOORBUSTER_BEACON_URL", url);
        let server = Serving::start_logging(command, std::fs::File::create(&log).unwrap());
        let mut connection = Connection::open(server.address).unwrap();
        if make {
            later_sale(&mut connection);
        }
        let mut seen = Value::Null;
        wait_until("the verdict", || {
            seen = operate(&mut connection, "GET", "/api/v1/figures", &Value::Null).json();
            let is_it = seen["verdict"]["code"] == "beacon_not_configured";
            seen["number"].as_u64() >= Some(2) && is_it == is_missed
        });
        let mut show = doorbuster(directory.path());
        show.args(["sale", "show", "70", "--server", &format!("http://{}", server.address)]);
        show.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
        let (code, shown, errors) = outcome(show.output().unwrap());
        assert_eq!((code, errors.as_str()), (0, ""));
        let says_without =
            shown.contains("then places are drawn, without the public beacon that they were announced with");
        assert_eq!(says_without, is_missed, "{shown}");
        assert_eq!(server.stop(), 0);
        (seen["verdict"]["says"].clone(), std::fs::read_to_string(&log).unwrap())
    };
    // Nobody is asked yet: the entries are open.
    let asked = "http://127.0.0.1:9";
    let says = "was announced with a beacon that this server is not configured to ask";
    let (_, said) = verdict(asked, false, true);
    assert!(!said.contains(says), "{said}");
    let (verdict_says, said) = verdict("", true, false);
    assert_eq!(verdict_says, format!("The draw of item 5 in sale 70 {says}."));
    assert!(
        said.contains(says) && said.contains("\"product\":5,") && said.contains("\"genesis_s\":1692803367,"),
        "{said}"
    );
    let (_, said) = verdict(asked, false, false);
    assert!(!said.contains(says), "{said}");
}
