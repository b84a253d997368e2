//! Images of items: as operators add, name and remove them, and as buyers' browsers get them.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::shop::{Sent, Setup, Shop, token_mode};
use super::{Response, problem};
use crate::image_origins::ImageOrigins;

const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";

fn add(shop: &mut Shop, body: &str) -> Response {
    shop.send(&Sent::post("/api/v1/images", body).operator())
}

fn added(shop: &mut Shop, body: &str) -> String {
    let answer = add(shop, body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["name"].as_str().unwrap().to_owned()
}

/// A sale of one item with this image.
fn sale(id: u64, image: &Value) -> Sent {
    let item = json!({"product": 1, "title": "Shoe", "price": 4999, "total": 5, "image": image});
    let sale = json!({
        "id": id, "title": "Shoes", "currency": "EUR", "starts_at_ms": 1, "ends_at_ms": 9_000_000_000_000_u64,
        "items": [item],
    });
    Sent::post("/api/v1/sales", &sale.to_string()).operator()
}

#[test]
fn an_image_is_added_once_named_in_a_sale_and_shown_on_its_pages() {
    let mut shop = Shop::new(token_mode());
    let name = added(&mut shop, SVG);
    assert_eq!(added(&mut shop, SVG), name, "the same image has the same name");
    assert!(name.len() == 36 && name.ends_with(".svg"), "{name}");
    let created = shop.send(&sale(7, &json!({"name": name, "alt": "A \"red\" shoe"})));
    assert_eq!(created.status, 201, "{}", created.text());
    let url = format!("/images/7/1/{name}");
    let image = json!({"name": name, "alt": "A \"red\" shoe", "url": url});
    assert_eq!(created.json()["items"][0]["image"], image);

    for page in ["/seckill_7_1.html", "/sales/7"] {
        let page = shop.send(&Sent::get(page)).text();
        let shown = format!("<img src=\"{url}\" alt=\"A &quot;red&quot; shoe\"");
        assert!(page.contains(&shown), "{page}");
    }
    let shown = shop.send(&Sent::get(&url));
    assert_eq!((shown.status, shown.text()), (200, SVG.to_owned()));
    assert_eq!(shown.header("content-type"), Some("image/svg+xml"));
    assert_eq!(shown.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(shown.header("x-content-type-options"), Some("nosniff"));
    let policy = shown.header("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe-inline"),
        "a script runs: {policy}"
    );
    let tag = shown.header("etag").unwrap().to_owned();
    assert_eq!(shop.send(&Sent::get(&url).with("If-None-Match", &tag)).status, 304);
}

#[test]
fn an_image_is_read_again_when_memory_has_none() {
    let mut shop = Shop::new(token_mode());
    let name = added(&mut shop, SVG);
    assert_eq!(shop.send(&sale(7, &json!({"name": name}))).status, 201);
    shop.shared.pages.remove_image(&name);
    let url = format!("/images/7/1/{name}");
    assert_eq!(shop.send(&Sent::get(&url)).text(), SVG);
    // Another item's, and one that nothing shows, are not looked for.
    let other = added(&mut shop, &SVG.replace('1', "2"));
    for wrong in [
        format!("/images/7/2/{name}"),
        format!("/images/8/1/{name}"),
        format!("/images/7/1/{other}"),
        "/images/7/1/..%2f..%2fledger.db".to_owned(),
        "/images/7/1/".to_owned(),
    ] {
        assert_eq!(shop.send(&Sent::get(&wrong)).status, 404, "{wrong}");
    }
    // Somebody has removed the file.
    std::fs::remove_file(shop.data_dir().join("images").join(&name)).unwrap();
    shop.shared.pages.remove_image(&name);
    assert_eq!(shop.send(&Sent::get(&url)).problem(), problem(404, "not_found"));
}

#[test]
fn what_is_no_image_and_what_is_not_there_is_refused() {
    let mut shop = Shop::new(token_mode());
    for body in ["", "GIF89a", "<html><svg></svg></html>"] {
        assert_eq!(add(&mut shop, body).problem(), problem(422, "not_an_image"), "{body}");
    }
    let large = format!("{SVG}{}", " ".repeat(512 * 1024));
    let refused = add(&mut shop, &large);
    assert_eq!(refused.problem(), problem(422, "not_an_image"));
    assert!(refused.text().contains("make it smaller"), "{}", refused.text());
    assert_eq!(
        shop.send(&Sent::post("/api/v1/images", SVG)).problem(),
        problem(401, "operator_unauthorized")
    );
    for name in ["00000000000000000000000000000000.png", "../ledger.db", ""] {
        let refused = shop.send(&sale(7, &json!({"name": name})));
        assert_eq!(refused.problem(), problem(422, "unknown_image"), "{name}");
        assert_eq!(shop.send(&Sent::get("/api/v1/sales/7")).status, 404);
    }
    let name = added(&mut shop, SVG);
    let long = json!({"name": name, "alt": "a".repeat(501)});
    assert_eq!(shop.send(&sale(7, &long)).problem(), problem(422, "invalid_sale"));
    let turned = json!({"name": name, "alt": "\u{202e}"});
    assert_eq!(shop.send(&sale(7, &turned)).problem(), problem(422, "invalid_sale"));
    assert_eq!(
        shop.send(&sale(7, &json!({"name": name, "url": "x"}))).problem(),
        problem(400, "invalid_body")
    );
}

#[test]
fn images_are_listed_and_removed_but_not_while_a_sale_shows_them() {
    let mut shop = Shop::new(token_mode());
    let (shown, unused) = (added(&mut shop, SVG), added(&mut shop, &SVG.replace('1', "2")));
    assert_eq!(shop.send(&sale(7, &json!({"name": shown}))).status, 201);
    let list = |shop: &mut Shop, query: &str| {
        shop.send(&Sent::get(&format!("/api/v1/images{query}")).operator()).json()
    };
    let names = |list: &Value| -> Vec<String> {
        let images = list["images"].as_array().unwrap();
        images.iter().map(|image| image["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut both = [shown.clone(), unused.clone()];
    both.sort();
    let all = list(&mut shop, "");
    assert_eq!((names(&all), &all["next_cursor"]), (both.to_vec(), &Value::Null));
    assert_eq!(all["images"][0]["bytes"], SVG.len());
    assert_eq!(names(&list(&mut shop, &format!("?cursor={}", both[0]))), both[1..]);
    let wrong = shop.send(&Sent::get("/api/v1/images?cursor=7").operator());
    assert_eq!(wrong.problem(), problem(400, "invalid_request"));

    let remove = |shop: &mut Shop, name: &str| {
        shop.send(&Sent::post(&format!("/api/v1/images/{name}/remove"), "").operator())
    };
    assert_eq!(remove(&mut shop, &shown).problem(), problem(409, "image_in_use"));
    assert_eq!(remove(&mut shop, &unused).status, 204);
    assert_eq!(remove(&mut shop, &unused).problem(), problem(422, "unknown_image"));
    assert_eq!(shop.send(&Sent::post("/api/v1/sales/7/end", "").operator()).status, 200);
    assert_eq!(remove(&mut shop, &shown).status, 204);
    assert_eq!(names(&list(&mut shop, "")), Vec::<String>::new());
    assert_eq!(shop.send(&Sent::get(&format!("/images/7/1/{shown}"))).status, 404);
}

#[test]
fn images_that_come_and_go_are_in_the_log() {
    let mut setup = Setup::new(token_mode());
    setup.ledger = true;
    let mut shop = Shop::with(setup);
    let name = added(&mut shop, SVG);
    let remove = || Sent::post(&format!("/api/v1/images/{name}/remove"), "").operator();
    assert_eq!(shop.send(&remove().with("Operator-Reason", "blurred")).status, 204);
    assert_eq!(shop.send(&remove()).status, 422, "what was not done is not in it");
    let log = shop.send(&Sent::get("/api/v1/operators/log").operator()).json();
    let said = |at: usize| ["what", "about", "why"].map(|field| log["log"][at][field].clone());
    assert_eq!(said(0), [json!("image_removed"), json!(name), json!("blurred")]);
    assert_eq!(said(1), [json!("image_added"), json!(name), json!("")]);
    assert_eq!(log["log"].as_array().unwrap().len(), 2);
}

#[test]
fn an_image_is_fetched_from_an_allowed_origin_and_from_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let answers = [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{SVG}", SVG.len()),
        "HTTP/1.1 302 Found\r\nLocation: /a.svg\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 900000\r\nConnection: close\r\n\r\n".to_owned()
            + &" ".repeat(600_000),
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nGIF89a".to_owned(),
    ];
    let server = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            assert!(stream.read(&mut asked).unwrap() > 0);
            // Whoever is sent too much hangs up.
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    let mut setup = Setup::new(token_mode());
    setup.image_origins = ImageOrigins::new(vec![origin.clone()], None).unwrap();
    let mut shop = Shop::with(setup);
    let mut fetch = |url: &str| {
        let body = json!({ "url": url }).to_string();
        let sent = Sent::post("/api/v1/images", &body).with("Content-Type", "application/json");
        shop.send(&sent.operator())
    };
    let fetched = fetch(&format!("{origin}/a.svg"));
    assert_eq!((fetched.status, &fetched.json()["content_type"]), (201, &"image/svg+xml".into()));
    for why in ["answered 302", "more than 524288 bytes", "is none of PNG"] {
        let refused = fetch(&format!("{origin}/a.svg"));
        assert_eq!(refused.problem(), problem(422, "image_not_fetched"), "{why}");
        assert!(refused.text().contains(why), "{why}: {}", refused.text());
    }
    server.join().unwrap();
    for (url, why) in [
        (format!("{origin}/a.svg"), "no answer from its server"),
        ("http://127.0.0.1:1/a.svg".to_owned(), "shop.image_origins"),
        (format!("{}@127.0.0.1:1/a.svg", origin), "shop.image_origins"),
    ] {
        let refused = fetch(&url);
        assert_eq!(refused.problem(), problem(422, "image_not_fetched"), "{url}");
        assert!(refused.text().contains(why), "{url}: {}", refused.text());
    }
}
