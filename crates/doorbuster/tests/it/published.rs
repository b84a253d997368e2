//! The published load, against the real program: `ab` as it was run, and the plan of random goods.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::exchange::Connection;
use crate::run;
use crate::serving::{OPERATOR, Serving};

/// 40 requests for each of the 1,000 goods: enough that every one of them sells its 10 units.
const REQUESTS: u64 = 40_000;
const CLIENTS: u64 = 8;

#[test]
fn random_goods_with_ten_units_each_end_in_exactly_ten_thousand_orders() {
    let dir = tempfile::tempdir().unwrap();
    let serving = Serving::demo(&dir.path().join("data"), &[]);
    random_goods(serving.address);
    assert_eq!(serving.stop(), 0);
    let (code, output, _) = run(dir.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("10000 orders") || output.contains("10,000 orders"), "{output}");
}

/// Sends the plan to a shop with 10 units of each good, and requires that exactly those are sold.
pub(crate) fn random_goods(address: SocketAddr) {
    let (accepted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (accepted, refused) = (&accepted, &refused);
            scope.spawn(move || {
                let mut connection = Connection::open(address).unwrap();
                let form = [("Content-Type", "application/x-www-form-urlencoded")];
                // A stride that is coprime to 1,000 visits the goods in an order of its own per client.
                for number in 0..REQUESTS / CLIENTS {
                    let good = 101 + (number * 7_919 + client * 131) % 1_000;
                    let body = format!("user_id={}&goods_id={good}&count=1", 1 + number % 977);
                    let response = connection.exchange("POST", "/order/submit", &form, &body).unwrap();
                    match response.status {
                        200 => accepted.fetch_add(1, Ordering::Relaxed),
                        409 => refused.fetch_add(1, Ordering::Relaxed),
                        _ => panic!("{response:?}"),
                    };
                }
            });
        }
    });
    assert_eq!((accepted.into_inner(), refused.into_inner()), (10_000, REQUESTS - 10_000));
}

#[test]
fn ab_runs_the_published_commands_without_a_failed_request() {
    let dir = tempfile::tempdir().unwrap();
    let serving = Serving::demo(&dir.path().join("data"), &[]);
    let base = format!("http://{}", serving.address);
    let gets = [
        "/seckill_3_29.html",
        "/product?flashPromotionId=3&promotionProductId=29&memberId=462245",
        "/cache/stock?productId=29",
    ];
    for get in gets {
        ab(&["-c", "100", "-n", "1000", &format!("{base}{get}")]);
        ab(&["-k", "-c", "100", "-n", "1000", &format!("{base}{get}")]);
    }
    let order = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev/ab-order.json");
    let post = ["-p", order, "-T", "application/json", "-H", "memberId: 1"];
    let message = format!("{base}/seckillOrder/pressureMQ");
    ab(&[&["-c", "20", "-n", "1000"], post.as_slice(), &[&message]].concat());
    let place = format!("{base}/seckillOrder/generateOrder");
    ab(&[&["-c", "1000", "-n", "3000"], post.as_slice(), &[&place]].concat());
    ab(&[&["-k", "-c", "1000", "-n", "3000"], post.as_slice(), &[&place]].concat());
    let metrics = Connection::open(serving.address).unwrap().exchange("GET", "/metrics", &[], "").unwrap();
    assert!(metrics.body.contains("doorbuster_orders_accepted_total 6000\n"), "{}", metrics.body);
    assert_eq!(serving.stop(), 0);
    let (code, output, _) = run(dir.path(), &["orders", "export", "--data-dir", "data", "--format", "csv"]);
    assert_eq!((code, output.lines().count()), (0, 1 + 6_000));
}

#[test]
fn a_demo_does_not_touch_a_ledger_that_is_no_demos() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = crate::doorbuster(dir.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.env("DOORBUSTER_AUTH_TOKEN_SECRET", "a-secret-of-more-than-thirty-two-bytes");
    let serving = Serving::start(command);
    let server = format!("http://{}", serving.address);
    let item = "product=1,title=Lamp,price=100,list=200,total=5,limit=1";
    let create =
        ["sale", "create", "--server", &server, "--id", "9", "--title", "Real", "--starts-at", "now"];
    let mut command = crate::doorbuster(dir.path());
    command.args(create).args(["--for", "1h", "--item", item]).env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
    assert_eq!(crate::outcome(command.output().unwrap()).0, 0);
    assert_eq!(serving.stop(), 0);
    let (code, output, errors) =
        run(dir.path(), &["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    assert_eq!((code, output.as_str()), (69, ""), "{errors}");
    assert!(errors.contains("no demo's"), "{errors}");
    let (_, output, _) = run(dir.path(), &["audit", "--data-dir", "data"]);
    assert!(!output.contains("Doorbuster Friday") && output.contains("Lamp"), "{output}");
}

#[test]
fn a_full_mailbox_refuses_and_the_server_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = crate::doorbuster(dir.path());
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.env("DOORBUSTER_LEDGER_QUEUE_COMMANDS_MAX", "1").env("DOORBUSTER_LEDGER_BATCH_COMMANDS_MAX", "1");
    let serving = Serving::start(command);
    let order = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev/ab-order.json");
    let place = format!("http://{}/seckillOrder/generateOrder", serving.address);
    let load =
        ["-q", "-k", "-c", "50", "-n", "3000", "-p", order, "-T", "application/json", "-H", "memberId: 1"];
    let output = Command::new("ab").args(load).arg(place).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Complete requests:      3000\n") && text.contains("Non-2xx responses"), "{text}");
    let metrics = Connection::open(serving.address).unwrap().exchange("GET", "/metrics", &[], "").unwrap();
    let value = |name: &str| -> usize {
        let line = metrics.body.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (accepted, rejected) =
        (value("doorbuster_orders_accepted_total"), value("doorbuster_orders_rejected_total"));
    assert!(accepted > 0 && rejected > 0 && accepted + rejected == 3_000, "{accepted} {rejected}");
    assert_eq!(serving.stop(), 0);
    let (code, output, _) = run(dir.path(), &["orders", "export", "--data-dir", "data", "--format", "csv"]);
    assert_eq!((code, output.lines().count()), (0, 1 + accepted));
}

/// Runs `ab` and requires that every request succeeded, with one constant length.
#[track_caller]
pub(crate) fn ab(arguments: &[&str]) {
    let output = Command::new("ab").arg("-q").args(arguments).output().expect("dev/install-test-packages");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Failed requests:        0\n"), "{arguments:?}\n{text}");
    assert!(!text.contains("Non-2xx responses"), "{arguments:?}\n{text}");
}

#[test]
fn the_shops_balance_is_set_by_one_command() {
    let dir = tempfile::tempdir().unwrap();
    let serving = Serving::demo(&dir.path().join("data"), &[]);
    let server = format!("http://{}", serving.address);
    let (code, output, errors) =
        run(dir.path(), &["demo", "load", "--balance", "7", "--server", &server, "--data-dir", "data"]);
    // The token of the tests comes from the environment of the server, so the file is not there.
    assert_eq!(code, 64, "{output}{errors}");
    let mut command = crate::doorbuster(dir.path());
    command
        .args(["demo", "load", "--balance", "7", "--server", &server])
        .env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
    let (code, output, errors) = crate::outcome(command.output().unwrap());
    assert_eq!(code, 0, "{output}{errors}");
    let stock = "/cache/stock?productId=500";
    let left = Connection::open(serving.address).unwrap().exchange("GET", stock, &[], "").unwrap();
    assert_eq!(left.body, "7");
}
