//! Three days of failures through the real program: the event that is given up, the alarm, and the way back.

use std::fs::File;

use crate::exchange::Connection;
use crate::fake_clock::FakeClock;
use crate::reload::wait_until;
use crate::serving::Serving;
use crate::webhooks::{Receiver, audited, command, does, place, serve, waiting, webhooks};

#[test]
fn what_fails_for_three_days_is_given_up_with_an_alarm_and_can_be_sent_again() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    receiver.refuse(Some("order.held"));
    let server = serve(directory.path(), &receiver, "");
    let order = place(&server, "anna");
    wait_until("it was tried", || !receiver.heard().is_empty());
    does(&server, "anna", &order, "cancel");
    wait_until("both wait", || waiting(directory.path()) == 2);
    assert_eq!(server.stop(), 0);

    // The shop's endpoint goes on refusing it, and three days and a minute have passed.
    let clock = FakeClock::new(directory.path(), "+259260");
    let log = directory.path().join("log");
    let mut later = command(directory.path(), &receiver, "");
    later.envs(clock.environment()).env("DOORBUSTER_CLOCK_TRUST", "system");
    let server = Serving::start_logging(later, File::create(&log).unwrap());
    let came =
        |kinds: &[&str]| receiver.delivered().get(&order).is_some_and(|delivered| delivered[..] == *kinds);
    wait_until("the order's next event was sent", || came(&["order.cancelled"]));
    let get = |path: &str| {
        let mut connection = Connection::open(server.address).unwrap();
        connection.exchange("GET", path, &[], "").unwrap().body
    };
    let given_up = "doorbuster_webhook_events_given_up{endpoint=\"shop\"} ";
    wait_until("it is counted", || get("/metrics").contains(&format!("{given_up}1\n")));
    assert!(
        get("/readyz").contains("the shop's endpoint shop: 1 events were given up"),
        "{}",
        get("/readyz")
    );
    let logged = std::fs::read_to_string(&log).unwrap();
    let line = logged.lines().find(|line| line.contains("an event was given up")).expect(&logged);
    assert!(line.contains("ERROR") && line.contains("shop") && line.contains("answered 500"), "{line}");
    let ask = |arguments: &[&str]| webhooks(directory.path(), &server, arguments);
    let (code, list, _) = ask(&["list"]);
    // Name, state, sent to, waiting, since, given up.
    let row: Vec<&str> = list.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((code, row[0], row[1], row[3], row[4], row[5]), (0, "shop", "on", "0", "-", "1"), "{list}");

    receiver.refuse(None);
    assert_eq!(ask(&["replay", "shop", "--since", "0"]).0, 0);
    wait_until("it came after all", || came(&["order.cancelled", "order.held"]));
    wait_until("nothing is given up any more", || get("/metrics").contains(&format!("{given_up}0\n")));
    wait_until("nor reported", || !get("/readyz").contains("given up"));
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}
