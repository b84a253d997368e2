//! Every kind of request that the program sends is valid by Stripe's own document, which `stripe-mock` answers by.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::stand_in::StandIn;
use super::{CAPTURABLE, amount, command, id, none_is_due, notify, place, serve, to_stripe};
use crate::reload::wait_until;

/// Stripe's server of its document, as long as it is not dropped.
struct Mock {
    child: Child,
    address: SocketAddr,
}

impl Mock {
    fn start() -> Mock {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/install-stripe-mock");
        let installed = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        assert!(installed.status.success(), "stripe-mock can't be installed");
        let program = PathBuf::from(String::from_utf8(installed.stdout).unwrap().trim_end());
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut child = Command::new(program)
            .args(["-http-addr", &address.to_string(), "-https-addr", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("Listening for HTTP at")), "it does not serve");
        // Whatever else it prints is read, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Mock { child, address }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn every_request_is_valid_by_stripes_document() {
    let (directory, stripe, mock) = (tempfile::tempdir().unwrap(), StandIn::start(), Mock::start());
    stripe.state().mirror = Some(mock.address);
    let server = serve(directory.path(), &stripe);
    assert_eq!(command(directory.path(), &server, &["webhooks", "test", "payments.stripe"]).0, 0);
    // Paid and refunded; voided; closed.
    let order = place(&server, "anna", 3, 29);
    let intent = stripe.authorise(&to_stripe(&server, id(&order)));
    notify(&server, &stripe.intent_event(CAPTURABLE, &intent));
    wait_until("it is captured", || stripe.money(&intent).0 == "succeeded");
    assert_eq!(command(directory.path(), &server, &["refunds", "create", id(&order)]).0, 0);
    wait_until("it is settled", || none_is_due(directory.path(), &server));
    let second = stripe.authorised(id(&order), amount(&order), "EUR");
    notify(&server, &stripe.intent_event(CAPTURABLE, &second));
    wait_until("it is voided", || stripe.money(&second).0 == "canceled");
    let other = place(&server, "bert", 3, 29);
    let session = to_stripe(&server, id(&other));
    let path = format!("/api/v1/orders/{}/cancel", id(&other));
    super::ask(&server, "POST", &path, &[("memberId", "bert")], "");
    wait_until("its session is closed", || stripe.state().sessions[&session].status == "expired");
    // Authorised when it is to be closed.
    let last = place(&server, "cleo", 3, 29);
    let late = stripe.authorise(&to_stripe(&server, id(&last)));
    let path = format!("/api/v1/orders/{}/cancel", id(&last));
    super::ask(&server, "POST", &path, &[("memberId", "cleo")], "");
    wait_until("it is voided", || stripe.money(&late).0 == "canceled");
    assert_eq!(server.stop(), 0);

    let state = stripe.state();
    assert!(state.refused.is_empty(), "{:#?}", state.refused);
    let kind = |line: &str| {
        let words = line
            .split('/')
            .map(|part| if part.contains('_') && part.ends_with(char::is_numeric) { "ID" } else { part });
        words.collect::<Vec<_>>().join("/")
    };
    let mut kinds: Vec<String> = state.asked.iter().map(|asked| kind(&asked.line)).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "GET /v1/checkout/sessions/ID",
            "GET /v1/payment_intents",
            "GET /v1/payment_intents/ID",
            "GET /v1/refunds",
            "POST /v1/checkout/sessions",
            "POST /v1/checkout/sessions/ID/expire",
            "POST /v1/payment_intents/ID/cancel",
            "POST /v1/payment_intents/ID/capture",
            "POST /v1/refunds",
        ]
    );
    let opened = state.asked.iter().find(|asked| asked.form.contains_key("mode")).unwrap();
    assert_eq!(opened.form["line_items[0][price_data][currency]"], "eur");
    assert_eq!(opened.form["success_url"], format!("http://127.0.0.1:1/orders/{}", id(&order)));
}
