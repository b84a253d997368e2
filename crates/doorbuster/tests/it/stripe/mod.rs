//! Payments by Stripe through the real program: authorised, committed, captured, whatever is killed or away in between; and
//! each way in which a payment pays for nothing.

pub(crate) mod alarms;
mod cluster;
mod outcomes;
mod requests;
mod stand_in;

use std::path::Path;
use std::time::SystemTime;

use ring::hmac;
use serde_json::{Value, json};

use crate::exchange::{Connection, Response};
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome, run};
use stand_in::{Fault, KEY, StandIn};

const WEBHOOK_SECRET: &str = "whsec_of_the_program_tests";
const CAPTURABLE: &str = "payment_intent.amount_capturable_updated";

/// The section of the configuration.
fn section(directory: &Path, stripe: &StandIn) -> String {
    std::fs::write(directory.join("stripe-key"), format!("{KEY}\n")).unwrap();
    std::fs::write(directory.join("stripe-webhook"), format!("{WEBHOOK_SECRET}\n")).unwrap();
    format!(
        "[stripe]\nsecret_key_file = \"stripe-key\"\nwebhook_secret_file = \"stripe-webhook\"\n\
         public_url = \"http://127.0.0.1:1\"\napi_url = \"http://{}\"\n",
        stripe.address
    )
}

/// A demo whose payments Stripe takes.
fn serve(directory: &Path, stripe: &StandIn) -> Serving {
    std::fs::write(directory.join("stripe.toml"), section(directory, stripe)).unwrap();
    let mut command = doorbuster(directory);
    command.args(["serve", "--demo", "--config", "stripe.toml", "--listen", "127.0.0.1:0"]);
    command.args(["--data-dir", "data"]);
    Serving::start(command)
}

fn ask(server: &Serving, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut connection = Connection::open(server.address).unwrap();
    connection.exchange(method, path, headers, body).unwrap()
}

fn place(server: &Serving, buyer: &str, sale: u64, product: u64) -> Value {
    let body = json!({ "sale": sale, "product": product }).to_string();
    let response = ask(server, "POST", "/api/v1/orders", &[("memberId", buyer)], &body);
    assert_eq!(response.status, 201, "{response:?}");
    response.json()
}

fn id(order: &Value) -> &str {
    order["id"].as_str().unwrap()
}

fn amount(order: &Value) -> u64 {
    order["amount"].as_u64().unwrap()
}

fn read(server: &Serving, order: &str) -> Value {
    let authorization = format!("Bearer {OPERATOR}");
    let path = format!("/api/v1/orders/{order}");
    ask(server, "GET", &path, &[("Authorization", &authorization)], "").json()
}

/// Follows the address where an order is paid; the session at Stripe that it leads to.
fn to_stripe(server: &Serving, order: &str) -> String {
    let response = follow(server, order);
    assert_eq!(response.status, 303, "{response:?}");
    let location = response.head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
    location.strip_prefix("https://checkout.example/").unwrap().to_owned()
}

fn follow(server: &Serving, order: &str) -> Response {
    let held = read(server, order);
    let url = held["pay_url"].as_str().unwrap_or_else(|| panic!("{held}")).to_owned();
    let path = url.strip_prefix("http://127.0.0.1:1").unwrap();
    ask(server, "GET", path, &[], "")
}

fn signature(secret: &str, body: &str) -> String {
    let at = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{at}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={at},v1={hex}")
}

/// Stripe sends an event to the server.
fn send_event(server: &Serving, event: &Value) -> Response {
    let body = event.to_string();
    let signed = signature(WEBHOOK_SECRET, &body);
    ask(server, "POST", "/api/v1/payments/stripe", &[("Stripe-Signature", &signed)], &body)
}

/// The same, and the server has taken it.
fn notify(server: &Serving, event: &Value) -> Value {
    let response = send_event(server, event);
    assert_eq!(response.status, 200, "{response:?}");
    response.json()
}

fn operate(server: &Serving, path: &str, body: &Value) -> Value {
    let authorization = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", "1")];
    let response = ask(server, "POST", path, &headers, &body.to_string());
    assert!([200, 201, 202].contains(&response.status), "{response:?}");
    response.json()
}

fn command(directory: &Path, server: &Serving, arguments: &[&str]) -> (i32, String, String) {
    let mut command = doorbuster(directory);
    command.args(arguments).args(["--server", &format!("http://{}", server.address)]);
    outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
}

fn none_is_due(directory: &Path, server: &Serving) -> bool {
    command(directory, server, &["refunds", "list"]).1 == "no refunds are due\n"
}

fn audited(directory: &Path) {
    let (code, printed, errors) = run(directory, &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{printed}{errors}");
}

#[test]
fn a_payment_is_authorised_committed_and_captured() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    let order = place(&server, "anna", 3, 29);
    let session = to_stripe(&server, id(&order));
    assert_eq!(to_stripe(&server, id(&order)), session, "coming again leads to the same page");
    assert_eq!(stripe.state().sessions[&session].amount, amount(&order));
    let intent = stripe.authorise(&session);
    let event = stripe.intent_event(CAPTURABLE, &intent);
    assert_eq!(notify(&server, &event)["result"], "paid");
    assert_eq!(read(&server, id(&order))["status"], "paid");
    wait_until("it is captured", || stripe.money(&intent) == ("succeeded", amount(&order), 0));
    // What comes again, or late, changes nothing.
    for kind in [CAPTURABLE, "payment_intent.succeeded", "checkout.session.completed"] {
        notify(&server, &stripe.intent_event(kind, &intent));
    }
    assert_eq!(notify(&server, &event)["result"], "paid");
    let response = ask(&server, "GET", &format!("/orders/{}/pay?signature=00", id(&order)), &[], "");
    assert_eq!(response.status, 403, "{response:?}");
    let (code, _, errors) = command(directory.path(), &server, &["webhooks", "test", "payments.stripe"]);
    assert_eq!(code, 0, "{errors}");
    assert_eq!(server.stop(), 0);
    assert_eq!(stripe.intent(&intent).captures, 1);
    audited(directory.path());
}

#[test]
fn only_what_stripe_has_signed_is_believed() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    let order = place(&server, "anna", 3, 29);
    let intent = stripe.authorised(id(&order), amount(&order), "EUR");
    let body = stripe.intent_event(CAPTURABLE, &intent).to_string();
    let wrong = signature("whsec_of_somebody_else", &body);
    let post = |headers: &[(&str, &str)], body: &str| {
        ask(&server, "POST", "/api/v1/payments/stripe", headers, body).status
    };
    assert_eq!(post(&[], &body), 401);
    assert_eq!(post(&[("Stripe-Signature", &wrong)], &body), 401);
    assert_eq!(post(&[("Stripe-Signature", &signature(WEBHOOK_SECRET, "{}"))], &body), 401);
    let both = format!("{wrong},v0=00,{}", signature(WEBHOOK_SECRET, &body).split_once(',').unwrap().1);
    assert_eq!(read(&server, id(&order))["status"], "held");
    assert_eq!(post(&[("Stripe-Signature", &both)], &body), 200);
    assert_eq!(read(&server, id(&order))["status"], "paid");
    let text = "no JSON";
    assert_eq!(post(&[("Stripe-Signature", &signature(WEBHOOK_SECRET, text))], text), 400);
    let huge = " ".repeat(20_000);
    assert_eq!(post(&[("Stripe-Signature", &signature(WEBHOOK_SECRET, &huge))], &huge), 413);
    assert_eq!(server.stop(), 0);
}

/// Killed between each two steps, it is captured exactly once.
#[test]
fn no_kill_loses_a_payment_or_takes_it_twice() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let mut server = serve(directory.path(), &stripe);
    let again = |server: Serving| {
        server.kill();
        serve(directory.path(), &stripe)
    };
    let order = place(&server, "anna", 3, 29);
    server = again(server);
    let session = to_stripe(&server, id(&order));
    server = again(server);
    let again_session = to_stripe(&server, id(&order));
    // The same under the same key, unless it ends later.
    let ends = |session: &str| stripe.state().sessions[session].expires_at;
    assert!(again_session == session || ends(&again_session) > ends(&session));
    let intent = stripe.authorise(&again_session);
    server = again(server);
    // Committed, and Stripe is away when it is to be captured.
    stripe.set(Fault::Away);
    notify(&server, &stripe.intent_event(CAPTURABLE, &intent));
    server = again(server);
    // Captured, and the answer was lost.
    stripe.set(Fault::Deaf);
    try_now(directory.path(), &server);
    wait_until("it is captured", || stripe.money(&intent).0 == "succeeded");
    server = again(server);
    stripe.set(Fault::None);
    try_now(directory.path(), &server);
    wait_until("nothing waits", || settled(&server));
    server = again(server);
    notify(&server, &stripe.intent_event("payment_intent.succeeded", &intent));
    assert_eq!(stripe.money(&intent), ("succeeded", amount(&order), 0));
    assert_eq!(stripe.intent(&intent).captures, 1);
    assert_eq!(read(&server, id(&order))["status"], "paid");
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

fn standing(server: &Serving) -> Value {
    let authorization = format!("Bearer {OPERATOR}");
    let listed = ask(server, "GET", "/api/v1/webhooks", &[("Authorization", &authorization)], "").json();
    let all = listed["endpoints"].as_array().unwrap().clone();
    all.into_iter().find(|endpoint| endpoint["name"] == "payments.stripe").unwrap()
}

/// Has everything carried out again, without a wait for the next try.
fn try_now(directory: &Path, server: &Serving) {
    let replay = ["webhooks", "replay", "payments.stripe", "--since", "0"];
    let (code, _, errors) = command(directory, server, &replay);
    assert_eq!(code, 0, "{errors}");
}

/// All that the ledger has for Stripe was carried out.
fn settled(server: &Serving) -> bool {
    let standing = standing(server);
    standing["waiting"] == 0 && standing["given_up"] == 0 && standing["sent_to"].as_u64() > Some(0)
}

#[test]
fn what_stripe_could_not_do_is_done_when_it_is_back() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    let (first, second) = (place(&server, "anna", 3, 29), place(&server, "bert", 3, 29));
    let intent = stripe.authorise(&to_stripe(&server, id(&first)));
    stripe.set(Fault::Status(500));
    notify(&server, &stripe.intent_event(CAPTURABLE, &intent));
    wait_until("it was tried", || standing(&server)["waiting"] == 1);
    let response = follow(&server, id(&second));
    assert!(response.status == 503 && response.head.contains("Retry-After: "), "{response:?}");
    assert_eq!(stripe.money(&intent), ("requires_capture", 0, 0));
    stripe.set(Fault::None);
    try_now(directory.path(), &server);
    wait_until("it is captured", || stripe.money(&intent) == ("succeeded", amount(&first), 0));
    to_stripe(&server, id(&second));
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}

#[test]
fn an_authorisation_that_is_gone_is_an_alarm_with_a_name() {
    let (directory, stripe) = (tempfile::tempdir().unwrap(), StandIn::start());
    let server = serve(directory.path(), &stripe);
    let order = place(&server, "anna", 3, 29);
    let intent = stripe.authorised(id(&order), amount(&order), "EUR");
    let event = stripe.intent_event(CAPTURABLE, &intent);
    stripe.state().intents.get_mut(&intent).unwrap().status = "canceled";
    notify(&server, &event);
    wait_until("it is given up", || standing(&server)["given_up"] == 1);
    let error = standing(&server)["latest_error"].as_str().unwrap().to_owned();
    assert!(error.contains(id(&order)) && error.contains(&intent) && error.contains("canceled"), "{error}");
    let ready = ask(&server, "GET", "/readyz", &[], "");
    assert!(ready.status == 200 && ready.body.contains("payments.stripe"), "{ready:?}");
    let metrics = ask(&server, "GET", "/metrics", &[], "");
    assert!(metrics.body.contains("doorbuster_stripe_authorisations_lost_total 1"), "{}", metrics.body);
    // Others go on.
    let next = place(&server, "bert", 3, 29);
    let intent = stripe.authorise(&to_stripe(&server, id(&next)));
    notify(&server, &stripe.intent_event(CAPTURABLE, &intent));
    wait_until("it is captured", || stripe.money(&intent).0 == "succeeded");
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_can_not_be_an_account_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("key", KEY), ("hook", WEBHOOK_SECRET), ("empty", ""), ("public", "pk_test_1")] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let good = "secret_key_file = \"key\"\nwebhook_secret_file = \"hook\"\npublic_url = \"https://a.example\"\n\
                api_url = \"http://127.0.0.1:1\"\n";
    let without = |key: &str| -> String {
        good.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect()
    };
    let with = |key: &str, value: &str| without(key) + &format!("{key} = \"{value}\"\n");
    for (section, said) in [
        (without("webhook_secret_file"), "stripe.webhook_secret_file"),
        (without("secret_key_file"), "stripe.secret_key_file"),
        (without("public_url"), "stripe.public_url"),
        (with("public_url", "https://a.example/shop"), "stripe.public_url"),
        (with("public_url", "a.example"), "stripe.public_url"),
        (with("api_url", "http://a.example"), "stripe.api_url"),
        (with("secret_key_file", "none"), "can't be read"),
        (with("secret_key_file", "empty"), "is empty"),
        (with("secret_key_file", "public"), "it is no secret key"),
        (with("authority_file", "none") + "#", "stripe.authority_file"),
        (with("webhook_secret_previous_file", "none"), "stripe.webhook_secret_previous_file"),
        (with("colour", "red"), "colour"),
        (
            good.to_owned()
                + "[shop]\npay_url = \"https://a.example/{order}{amount}{currency}{signature}\"\n",
            "shop.pay_url",
        ),
    ] {
        let section = if said == "stripe.authority_file" {
            section.replace("http://127.0.0.1:1", "https://a.example")
        } else {
            section
        };
        std::fs::write(directory.path().join("stripe.toml"), format!("[stripe]\n{section}")).unwrap();
        let serve =
            ["serve", "--demo", "--config", "stripe.toml", "--listen", "127.0.0.1:0", "--data-dir", "data"];
        let (code, _, errors) = run(directory.path(), &serve);
        assert!(code == 64 && errors.contains(said) && !errors.contains(KEY), "{section}: {errors}");
    }
}
