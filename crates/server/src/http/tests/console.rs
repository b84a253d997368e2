//! The console: who may sign in, and what the session does for whom.

use std::collections::HashSet;
use std::time::Duration;

use engine::Role;

use super::operators::bearer;
use super::shop::{Delivered, NOW, Sent, Setup, Shop, demo_mode};
use super::{Response, problem};
use crate::http::Entrance;
use crate::http::delayed::{DELAYED_MAX, Delayed};

const SESSION: &str = "/api/v1/console/session";
const REFUNDS: &str = "/api/v1/payments/refunds-due";

/// The cookie that signing in sets, as a browser sends it.
fn sign_in(shop: &mut Shop) -> String {
    let answer = shop.send(&Sent::post(SESSION, "").operator());
    assert_eq!(answer.status, 204, "{}", answer.text());
    let header = answer.header("set-cookie").unwrap();
    assert!(header.ends_with("; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict"), "{header}");
    header.split(';').next().unwrap().to_owned()
}

#[test]
fn the_token_gives_a_session_and_nothing_else_does() {
    let mut shop = Shop::new(demo_mode());
    for refused in [
        Sent::post(SESSION, ""),
        Sent::post(SESSION, "").with("Authorization", "Bearer wrong"),
        Sent::post(SESSION, "").with("Cookie", "doorbuster_console=1.2"),
    ] {
        let answer = shop.send(&refused);
        assert_eq!(answer.problem(), problem(401, "operator_unauthorized"));
        assert_eq!(answer.header("set-cookie"), None);
    }
    let cookie = sign_in(&mut shop);
    let answer = shop.send(&Sent::post(SESSION, "").with("Cookie", &cookie));
    assert_eq!(answer.status, 401, "a session does not lead to another");
    let of_another_site = Sent::post(SESSION, "").operator().with("Origin", "https://evil.example");
    assert_eq!(shop.send(&of_another_site).problem(), problem(403, "forbidden_origin"));
    let mut setup = Setup::new(demo_mode());
    setup.secrets.operator.clear();
    assert_eq!(Shop::with(setup).send(&Sent::post(SESSION, "").operator()).status, 403);
}

/// The proxy before the server ends TLS; the page says so by its origin.
#[test]
fn a_session_of_a_page_that_came_by_tls_goes_by_tls_alone() {
    let mut shop = Shop::new(demo_mode());
    for (origin, secure) in [("https://here", true), ("http://here", false)] {
        let begun = shop.send(&Sent::post(SESSION, "").operator().with("Origin", origin));
        assert_eq!(begun.header("set-cookie").unwrap().ends_with("; Secure"), secure, "{origin}");
    }
}

#[test]
fn who_guesses_at_the_console_is_slowed_down() {
    let mut shop = Shop::new(demo_mode());
    let guess = Sent::post(SESSION, "").with("Authorization", "Bearer wrong");
    let mut answers: Vec<_> = (0..20).map(|_| shop.send(&guess).status).collect();
    answers.dedup();
    assert_eq!(answers, [401, 429]);
    sign_in(&mut shop);
}

#[test]
fn a_wrong_token_is_answered_late_and_so_many_wait_at_most() {
    let mut shop = Shop::new(demo_mode());
    let guess = |number: usize| {
        let address = u32::try_from(number).unwrap().to_be_bytes();
        Sent::post(SESSION, "").with("Authorization", "Bearer wrong").from(address)
    };
    assert!(Delayed::default().delay >= Duration::from_millis(300));
    shop.service.delayed.delay = Duration::from_secs(3600);
    for number in 0..DELAYED_MAX {
        assert_eq!(shop.call(&guess(number)).1, None, "{number}");
    }
    let mut delivered = Delivered::default();
    shop.service.deliver_to(&mut delivered);
    assert!(delivered.0.is_empty());
    let (_, ready) = shop.call(&guess(DELAYED_MAX));
    assert_eq!(ready.unwrap().problem(), problem(401, "operator_unauthorized"), "there is no more room");
    sign_in(&mut shop);

    let mut shop = Shop::new(demo_mode());
    let (_, ready) = shop.call(&Sent::post(SESSION, ""));
    assert_eq!(ready.unwrap().status, 401, "what is no guess is answered at once");
    let of_page = guess(0).with("Origin", "http://here");
    let (ticket, ready) = shop.call(&of_page);
    assert_eq!(ready, None);
    shop.service.deliver_to(&mut delivered);
    let [(answered, bytes)] = &delivered.0[..] else { panic!("{delivered:?}") };
    assert_eq!((*answered, Response::read(bytes).problem()), (ticket, problem(401, "operator_unauthorized")));
}

/// Nothing is stored of a session: there is nothing that a flood could fill or push out.
#[test]
fn who_signs_in_without_end_takes_nothing_from_the_others() {
    let mut shop = Shop::new(demo_mode());
    let first = sign_in(&mut shop);
    for _ in 0..2_000 {
        sign_in(&mut shop);
    }
    let session = Sent::get(SESSION).with("Cookie", &first);
    assert_eq!(shop.send(&session).json()["signed_in"], true);
}

#[test]
fn a_session_does_what_the_token_does_for_pages_of_this_server_alone() {
    let mut shop = Shop::new(demo_mode());
    let cookie = sign_in(&mut shop);
    let pause = || Sent::post("/api/v1/sales/3/pause", "").with("Cookie", &cookie);
    for of_another in [
        pause().with("Origin", "https://evil.example"),
        pause().with("Origin", "http://here.evil"),
        pause().with("Sec-Fetch-Site", "cross-site"),
        pause().with("Sec-Fetch-Site", "same-site"),
        pause().with("Sec-Fetch-Site", "none"),
        pause().with("Origin", "null"),
        pause(),
    ] {
        assert_eq!(shop.send(&of_another).problem(), problem(401, "operator_unauthorized"));
    }
    let own = pause().with("Origin", "http://here").with("Sec-Fetch-Site", "same-origin");
    assert_eq!(shop.send(&own).status, 200);
    assert_eq!(shop.send(&pause().with("Origin", "http://here")).status, 200, "without TLS");
    assert_eq!(shop.send(&pause().with("Sec-Fetch-Site", "same-origin")).status, 200);
    let held = shop.send(&Sent::get("/api/v1/sales/3").with("Cookie", &cookie)).json();
    assert!(held["items"][0].get("held").is_some(), "it sees what operators see");
    assert_eq!(shop.send(&Sent::get(REFUNDS)).status, 401);
}

#[test]
fn a_session_ends_by_signing_out_by_time_and_with_the_token() {
    let mut shop = Shop::new(demo_mode());
    let anna = bearer(&mut shop, "anna", Role::Support, None);
    let cookie = sign_in(&mut shop);
    let session = Sent::get(SESSION).with("Cookie", &cookie);
    let of = |shop: &mut Shop| shop.send(&session).json();
    let session_now = of(&mut shop);
    assert_eq!(session_now["signed_in"], true);
    let lasts_ms = session_now["until_ms"].as_u64().unwrap() - NOW.0;
    assert!(
        (3_600_000..3_660_000).contains(&lasts_ms),
        "an hour, and as long as this test takes: {lasts_ms}"
    );
    let end = |of: &str| Sent::post("/api/v1/console/session/end", "").with("Cookie", of);
    let of_no_page = shop.send(&end(&cookie));
    assert_eq!(of_no_page.status, 204);
    assert_eq!(of(&mut shop)["signed_in"], true, "of a page of this server alone");
    let another = shop.send(&Sent::post(SESSION, "").with("Authorization", &anna));
    let another = another.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let out = shop.send(&end(&cookie).with("Origin", "http://here"));
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().starts_with("doorbuster_console=; Path=/; Max-Age=0;"));
    let nobody = serde_json::json!({ "signed_in": false, "until_ms": null, "operator": null, "role": null });
    assert_eq!(shop.send(&Sent::get(SESSION)).json(), nobody);
    // A copy of the cookie went on for an hour after its last use.
    assert_eq!(of(&mut shop), nobody);
    let session = Sent::get(SESSION).with("Cookie", &another);
    let of = |shop: &mut Shop| shop.send(&session).json();
    assert_eq!(of(&mut shop)["signed_in"], true, "another session stays");
    let mut setup = Setup::new(demo_mode());
    setup.secrets.operator = vec![Box::from(*b"another token")];
    shop.shared.change_access(&setup.options, &setup.secrets);
    assert_eq!(of(&mut shop), nobody, "the token is no longer taken");
}

#[test]
fn the_runbook_is_where_operators_are_and_has_what_verdicts_name() {
    let mut shop = Shop::new(demo_mode());
    let page = shop.send(&Sent::get("/console/runbook"));
    assert_eq!(page.status, 200);
    assert!((10_000..150_000).contains(&page.body.len()), "{}", page.body.len());
    let figures = shop.send(&Sent::get("/api/v1/figures").operator());
    let figures: serde_json::Value = serde_json::from_slice(&figures.body).unwrap();
    let anchor = format!(" id=\"{}\"", figures["verdict"]["runbook"].as_str().unwrap());
    assert!(page.text().contains(&anchor), "{anchor}");
    for (entrance, status) in [(Entrance::Public, 404), (Entrance::Operators, 200)] {
        shop.service = shop.at(entrance);
        assert_eq!(shop.send(&Sent::get("/console/runbook")).status, status);
    }
}

#[test]
fn the_page_is_where_operators_are() {
    let mut shop = Shop::new(demo_mode());
    let page = shop.send(&Sent::get("/console"));
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let text = page.text();
    let assets: Vec<_> = text.split('"').filter(|part| part.starts_with("/assets/")).collect();
    assert_eq!(assets.len(), 5, "an icon, two styles, two scripts: {assets:?}");
    let mut bytes = page.body.len();
    let (mut wanted, mut loaded) =
        (assets.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>(), HashSet::new());
    while let Some(path) = wanted.pop() {
        if loaded.insert(path.clone()) {
            let asset = shop.send(&Sent::get(&path));
            bytes += asset.body.len();
            let text = asset.text();
            let imported = text.split('"').filter(|part| part.starts_with("/assets/console-"));
            wanted.extend(imported.map(str::to_owned));
        }
    }
    assert!((60_000..150_000).contains(&bytes), "{bytes}");
    for (entrance, status) in [(Entrance::Public, 404), (Entrance::Operators, 200)] {
        shop.service = shop.at(entrance);
        assert_eq!(shop.send(&Sent::get("/console")).status, status);
        let script = assets.iter().find(|path| path.contains("/console-")).unwrap();
        assert_eq!(shop.send(&Sent::get(script)).status, 200);
    }
    shop.service = shop.at(Entrance::Public);
    assert_eq!(shop.send(&Sent::post(SESSION, "").operator()).status, 404);
}

#[test]
fn a_session_ends_while_the_servers_clock_stands_too() {
    let mut shop = Shop::new(demo_mode());
    let anna = bearer(&mut shop, "anna", Role::Admin, Some(NOW.plus(86_400_000)));
    let begun = shop.send(&Sent::post(SESSION, "").with("Authorization", &anna));
    let annas = begun.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let roots = sign_in(&mut shop);
    let good = |shop: &mut Shop| {
        [&annas, &roots].map(|cookie| {
            shop.send(&Sent::get(SESSION).with("Cookie", cookie)).json()["signed_in"].as_bool().unwrap()
        })
    };
    assert_eq!(good(&mut shop), [true, true]);
    shop.shared.clock.stand_at(NOW.shifted(-86_400_000));
    assert_eq!(good(&mut shop), [false, true], "hers is no better than her token");
    shop.shared.clock.advance_to(NOW.plus(3_700_000));
    assert_eq!(good(&mut shop), [false, false]);
    let roots = sign_in(&mut shop);
    assert!(shop.send(&Sent::get(SESSION).with("Cookie", &roots)).json()["signed_in"] == true);
}
