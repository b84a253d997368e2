//! Buyers' tokens and the real program: what `token mint` makes, a server takes.

use std::path::Path;

use crate::exchange::Connection;
use crate::serving::Serving;
use crate::{doorbuster, outcome, run};

const SECRET: &str = "a-secret-of-the-shop-of-more-than-32-bytes";
const ORDER: &str = "/api/v1/orders/0000000000000000000000000000000000000000";

/// A configuration whose tokens need an issuer and an audience.
fn configure(directory: &Path) {
    std::fs::write(directory.join("token-secret"), format!("{SECRET}\n")).unwrap();
    let auth = "[auth]\ntoken_secret_file = \"token-secret\"\ntoken_issuer = \"https://shop\"\ntoken_audience = \"drops\"\n";
    std::fs::write(directory.join("doorbuster.toml"), auth).unwrap();
}

#[track_caller]
fn mint(directory: &Path, more: &[&str]) -> String {
    let (code, stdout, stderr) =
        run(directory, &[&["token", "mint", "--config", "doorbuster.toml"], more].concat());
    assert_eq!((code, stderr.as_str()), (0, ""), "{more:?}");
    stdout.trim_end().to_owned()
}

#[test]
fn a_minted_token_is_taken_by_a_server_with_the_same_configuration() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path());
    let mut command = doorbuster(directory.path());
    command.args(["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    let server = Serving::start(command);
    let ask = |token: &str| {
        let bearer = format!("Bearer {token}");
        let mut connection = Connection::open(server.address).unwrap();
        connection.exchange("GET", ORDER, &[("Authorization", &bearer)], "").unwrap()
    };
    for member in ["42", "anna@shop.example", "Ännä"] {
        let answer = ask(&mint(directory.path(), &["--member", member]));
        assert_eq!(answer.status, 404, "known, and without such an order: {answer:?}");
    }
    for (more, reason) in
        [(["--issuer", "https://other"], "another issuer"), (["--audience", "other"], "another audience")]
    {
        let answer = ask(&mint(directory.path(), &[&["--member", "42"], &more[..]].concat()));
        assert!(answer.status == 401 && answer.body.contains(reason), "{answer:?}");
    }
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_token_that_would_be_no_good_is_not_minted() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path());
    let long = "x".repeat(129);
    for (more, reason) in [
        (&["--member", ""][..], "1 to 128 bytes"),
        (&["--member", &long], "1 to 128 bytes"),
        (&["--member", "anna "], "no spaces at its ends"),
        (&["--member", "7", "--expires-in", "0s"], "from 1s to 366d"),
        (&["--member", "7", "--expires-in", "367d"], "from 1s to 366d"),
    ] {
        let (code, stdout, stderr) =
            run(directory.path(), &[&["token", "mint", "--config", "doorbuster.toml"], more].concat());
        assert_eq!((code, stdout.as_str()), (64, ""), "{more:?}: {stderr}");
        assert!(stderr.contains(reason), "{more:?}: {stderr}");
    }
    let short = doorbuster(directory.path())
        .args(["token", "mint", "--member", "7"])
        .env("DOORBUSTER_AUTH_TOKEN_SECRET", "short")
        .output();
    let (code, _, stderr) = outcome(short.unwrap());
    assert!(code == 64 && stderr.contains("needs 32 at least"), "{stderr}");
}
