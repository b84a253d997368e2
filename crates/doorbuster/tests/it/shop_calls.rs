//! The calls of the README from nothing to a paid order and its webhook, as `dev/try-shop-calls` makes them.

use std::path::Path;
use std::process::Command;

use crate::outcome;

#[test]
fn the_calls_of_the_readme_lead_to_a_paid_order_and_its_webhook() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("dev/try-shop-calls"));
    command.env("TRY_SHOP_BINARY", env!("CARGO_BIN_EXE_doorbuster"));
    let (code, printed, errors) = outcome(command.output().unwrap());
    assert_eq!((code, errors.as_str()), (0, ""), "{printed}");
    assert_eq!(printed.lines().filter(|line| line.starts_with("curl ")).count(), 10, "{printed}");
    let (calls, heard) = printed.split_once("The receiver heard:\n").unwrap();
    assert!(calls.contains("\"result\":\"paid\"") && calls.contains("\"pay_url\":\"https://"), "{calls}");
    let order = |text: &str| {
        let (_, id) = text.split_once("\"id\":\"").unwrap();
        id.split_once('"').unwrap().0.to_owned()
    };
    // The same order for the same key, then as it is read.
    let placed: Vec<String> =
        calls.lines().filter(|line| line.starts_with("{\"id\":\"")).map(order).collect();
    assert!(placed.len() == 2 && placed[0] == placed[1], "{calls}");
    // That the sale has started is sent too, within a second: before or after what becomes of the order.
    let of_orders = heard.lines().filter(|line| line.contains(" order."));
    let kinds: Vec<&str> = of_orders.clone().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(kinds, ["order.held", "order.paid"], "{heard}");
    assert!(of_orders.clone().all(|line| line.contains(&placed[0])), "{heard}");
}
