//! A check on a page of the shop's before one joins a line: there, back, and in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::json;

use super::axe::assert_accessible;
use super::real::{PRODUCT, SALE, Shop};
use super::steps::{open_sale, sale_url};
use super::webdriver::Browser;

/// The shop's page, which leads back at once, and the service, which calls its token good.
fn serve(listener: &TcpListener) {
    // A browser opens connections that it may never use.
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || (&stream).write_all(answer(&stream).as_bytes()));
    }
}

fn answer(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
        head += &line.to_lowercase();
        line.clear();
    }
    if let Some(asked) = head.strip_prefix("get /check?back=") {
        let back = asked.split(' ').next().unwrap().replace("%3a", ":").replace("%2f", "/");
        return format!(
            "HTTP/1.1 303 x\r\nLocation: {back}#verification=good.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
    }
    let length =
        head.split("content-length: ").nth(1).map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    let mut form = vec![0; length];
    drop(reader.read_exact(&mut form));
    let success = String::from_utf8(form).unwrap().contains("response=good.1");
    let body = json!({ "success": success }).to_string();
    format!("HTTP/1.1 200 x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn the_shops_page_is_gone_to_and_what_it_gave_joins_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let check = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || serve(&listener));
    let (shop, browser) = (Shop::checking(&check), Browser::start());
    shop.sell(&json!({ "line": { "close_s": 86_400 }, "total": 1 }));
    shop.wait_for_draw();
    let tail = || shop.get(&format!("sales/{SALE}/items/{PRODUCT}/line"))["tail"].as_u64().unwrap();
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.click("#join-button");
    browser.wait_for_text("#join-outcome", "the shop checks that you are no program");
    assert_accessible(&browser, "asked");
    assert_eq!(tail(), 0);
    browser.click("#join-outcome a");
    browser.wait_until("a place", |browser| browser.text("#place").starts_with("Your place"));
    assert_eq!((browser.url(), tail()), (sale_url(&shop.base, SALE, PRODUCT), 1), "it is nowhere to be seen");
    // A browser that has forgotten everything gets the place back without. It forgets on another page, as in `joining`.
    browser.open(&format!("{}/healthz", shop.base));
    browser.run("localStorage.clear()");
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.click("#join-button");
    browser.wait_until("a place", |browser| browser.text("#place").starts_with("Your place"));
    assert_eq!(tail(), 1);
}
