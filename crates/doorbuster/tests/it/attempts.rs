//! Who tries most, by the real program: counted on a server, shown to support.

use crate::cluster::ask_once;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

#[test]
fn support_sees_who_tries_most_and_from_where() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::demo(&directory.path().join("data"), &[]);
    let order = r#"{"sale":3,"product":29}"#;
    for (member, key) in [("7", "a"), ("7", "a"), ("8", "b")] {
        let headers = [("memberId", member), ("Idempotency-Key", key), ("Content-Type", "application/json")];
        assert_eq!(ask_once(&server, "POST", "/api/v1/orders", &headers, order).status, 201);
    }
    let show = |product: &str, more: &[&str]| {
        let mut command = doorbuster(directory.path());
        command.args(["attempts", "--sale", "3", "--product", product]).args(more);
        command.args(["--server", &format!("http://{}", server.address)]);
        outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
    };
    let (code, text, errors) = show("29", &[]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().take(5).collect()).collect();
    for row in [["7", "2", "0", "1", "1"], ["8", "1", "0", "1", "0"], ["127.0.0.1", "3", "0", "2", "1"]] {
        assert_eq!(rows.iter().filter(|found| **found == row).count(), 2, "minute and night: {text}");
    }
    assert!(
        text.contains("buyer, the last minute\n") && text.contains("address, the night so far\n"),
        "{text}"
    );
    let (_, text, _) = show("30", &[]);
    assert!(text.contains("buyer, the last minute: nobody tried"), "{text}");
    let (_, json, _) = show("29", &["--json"]);
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["night"]["buyers"][0]["who"], "7");
    assert_eq!(show("99", &[]).0, 1, "no such item");
}
