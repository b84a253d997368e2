//! Pages at the edge are the servers', with the same headers; and what is not for the public is not there.

use super::{PUBLISHED_ORDER, Shop, exchange, header, soon};
use crate::published::ab;

const PRODUCT: &str = "/product?flashPromotionId=3&promotionProductId=29&memberId=";

#[test]
fn a_product_page_is_the_servers_with_the_readers_number() {
    let shop = Shop::demo(&[]);
    for member in ["462245", "1", "0", "007", "999999999999999999"] {
        let path = format!("{PRODUCT}{member}");
        let found = shop.get_own(&path).expect("the edge has it");
        assert_eq!(found.status, 200);
        let originals: Vec<_> =
            shop.servers.iter().map(|server| exchange(server.address, "GET", &path, &[], "")).collect();
        assert!(originals.iter().any(|original| original.body == found.body), "{member}");
        for name in [
            "Content-Type",
            "Content-Security-Policy",
            "Referrer-Policy",
            "X-Content-Type-Options",
            "Cache-Control",
        ] {
            assert_eq!(header(&found, name), header(&originals[0], name), "{name}");
            assert!(header(&found, name).is_some(), "{name}");
        }
    }
    for (path, status) in [
        ("/product?flashPromotionId=3&promotionProductId=9999&memberId=1".to_owned(), 404),
        ("/product?flashPromotionId=3&promotionProductId=29".to_owned(), 400),
        (format!("{PRODUCT}x"), 400),
        (format!("{PRODUCT}9223372036854775808"), 400),
        // In another order it is a server's page.
        ("/product?memberId=1&promotionProductId=29&flashPromotionId=3".to_owned(), 200),
        (format!("{PRODUCT}9223372036854775807"), 200),
    ] {
        let response = shop.get(&path);
        assert_eq!((response.status, header(&response, "Age-Ms")), (status, None), "{path}");
    }
}

/// A page that is there already, in the first language: thousands, each synced, take a slow disk a while.
fn written(shop: &Shop) -> Option<String> {
    let mut entries = std::fs::read_dir(shop.dir.path().join("pages")).unwrap();
    entries.find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The others have their code before ".html".
        let is_first = name.matches('.').count() == 1;
        (name.starts_with("seckill_") && name.ends_with(".html") && is_first).then_some(name)
    })
}

#[test]
fn static_pages_come_from_disk_with_the_servers_headers() {
    let shop = Shop::demo(&[]);
    soon("the server has written a page", || written(&shop).is_some());
    let path = format!("/{}", written(&shop).unwrap());
    let file = shop.dir.path().join(format!("pages{path}"));
    let page = shop.get(&path);
    assert_eq!(page.body, std::fs::read_to_string(&file).unwrap());
    let asset = page.body.split('"').find(|part| part.starts_with("/assets/")).unwrap().to_owned();
    let names = [
        "Content-Type",
        "Content-Security-Policy",
        "Referrer-Policy",
        "X-Content-Type-Options",
        "Cache-Control",
    ];
    for path in [&path, &asset] {
        let (found, original) = (shop.get(path), exchange(shop.servers[0].address, "GET", path, &[], ""));
        assert!(header(&found, "Last-Modified").is_some(), "it is a file: {found:?}");
        for name in names {
            assert_eq!(header(&found, name), header(&original, name), "{name} of {path}");
        }
    }
    // The buy button's: a page of the shop may load it.
    assert_eq!(header(&shop.get(&asset), "Access-Control-Allow-Origin"), Some("*"));
    // Without its file, a server renders it.
    std::fs::remove_file(&file).unwrap();
    soon("the page is a server's", || {
        let response = shop.get(&path);
        response.status == 200 && header(&response, "Last-Modified").is_none()
    });
    assert_eq!(shop.get("/seckill_3_9999.html").status, 404);
}

#[test]
fn pages_come_in_the_readers_language() {
    let shop = Shop::demo(&[]);
    soon("the server has written a page", || written(&shop).is_some());
    let path = &format!("/{}", written(&shop).unwrap());
    let stem = path.strip_suffix(".html").unwrap();
    let file = |suffix: &str| shop.dir.path().join(format!("pages{stem}{suffix}.html"));
    // One product's are written one after the other.
    soon("it is written in every language", || {
        [".de", ".zh", ".ar"].iter().all(|suffix| file(suffix).exists())
    });
    let ask = |path: &str, headers: &[(&str, &str)]| exchange(shop.edge(), "GET", path, headers, "");
    for (headers, code) in [
        (&[][..], "en"),
        (&[("Accept-Language", "fr, de-AT;q=0.8, en;q=0.5")], "de"),
        (&[("Accept-Language", "de"), ("Cookie", "a=b; doorbuster_language=ar")], "ar"),
        (&[("Cookie", "doorbuster_language=../../x")], "en"),
        (&[("Accept-Language", "zh-Hant-TW;q=0.1,,;q=x,-;q=1")], "zh"),
    ] {
        let lang = format!("<html lang=\"{code}\"");
        let page = ask(path, headers);
        assert!(page.body.contains(&lang), "{headers:?}");
        assert!(header(&page, "Last-Modified").is_some(), "it is a file: {headers:?}");
        assert!(page.head.contains("Vary: Accept-Language, Cookie"), "{page:?}");
        let product = ask(&format!("{PRODUCT}7"), headers);
        assert!(product.body.contains(&lang) && header(&product, "Age-Ms").is_some(), "{headers:?}");
        assert!(ask("/orders", headers).body.contains(&lang), "{headers:?}");
    }
}

#[test]
fn what_is_not_for_the_public_is_not_at_the_edge() {
    let shop = Shop::demo(&[]);
    for path in ["/metrics", "/readyz", "/edge/product", "/edge/product?flashPromotionId=3", "/nginx.conf"] {
        assert_eq!(shop.get(path).status, 404, "{path}");
    }
    assert_eq!(shop.get("/healthz").status, 200);
}

#[test]
fn ab_runs_the_published_commands_through_the_edge() {
    let shop = Shop::demo(&[]);
    shop.redis("redis", &["SET db:product:29 0000001d", "HSET {db:0000001d}:s avail 4711", "WAIT 1 10000"]);
    let order = shop.dir.path().join("order.json");
    std::fs::write(&order, PUBLISHED_ORDER).unwrap();
    let base = format!("http://{}", shop.edge());
    for get in ["/seckill_3_29.html", &format!("{PRODUCT}462245"), "/cache/stock?productId=29"] {
        ab(&["-k", "-c", "100", "-n", "2000", &format!("{base}{get}")]);
    }
    let post = ["-p", order.to_str().unwrap(), "-T", "application/json", "-H", "memberId: 1"];
    for (path, clients) in [("/seckillOrder/pressureMQ", "20"), ("/seckillOrder/generateOrder", "200")] {
        ab(&[&["-c", clients, "-n", "1000"], post.as_slice(), &[&format!("{base}{path}")]].concat());
    }
}
