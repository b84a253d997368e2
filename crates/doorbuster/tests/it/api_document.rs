//! The API's document against the real server: clients that others generate of it, and a checker that asks whatever it
//! allows and forbids.

use std::path::Path;
use std::process::Command;

use crate::serving::{OPERATOR, Serving};

const PAYMENT_SECRET: &str = "payment-secret-of-the-program-tests-0123456789";

#[test]
fn generated_clients_and_a_checker_find_what_the_document_says() {
    let dir = tempfile::tempdir().unwrap();
    // The checker comes from another address with each request, as if by a proxy: wrong tokens are counted by address.
    let config = "[http]
trusted_proxies = [\"127.0.0.1\"]
[log]
level = \"error\"
";
    std::fs::write(dir.path().join("doorbuster.toml"), config).unwrap();
    let mut command = crate::doorbuster(dir.path());
    command.args(["serve", "--demo", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    command.args(["--data-dir", "data"]).env("DOORBUSTER_PAYMENT_SECRET", PAYMENT_SECRET);
    let server = Serving::start(command);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/check-api");
    let checked = Command::new(script)
        .arg(format!("http://{}", server.address))
        .env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR)
        .env("DOORBUSTER_PAYMENT_SECRET", PAYMENT_SECRET)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&checked.stdout);
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{printed}\n{errors}");
    for part in ["go", "typescript", "python", "schemathesis"] {
        assert!(printed.contains(&format!("{part}: as the document says")), "{printed}");
    }
    assert_eq!(server.stop(), 0);
    let (code, audited, errors) = crate::run(dir.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{audited}{errors}");
}
