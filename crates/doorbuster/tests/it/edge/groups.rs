//! Who may join a line by the groups of their token, behind an edge: a server that reads the tokens itself sees them, for the edge
//! passes them on; one that believes the header memberId knows of no groups.

use serde_json::json;

use super::buyers::{now_s, token};
use super::{Shop, exchange, header, token_secret};
use crate::doorbuster;
use crate::exchange::Response;
use crate::serving::{OPERATOR, Serving};

const EARLY: &str = "/api/v1/sales/77/items/5/line";
const INVITED: &str = "/api/v1/sales/77/items/6/line";

/// One server behind an edge that knows the same secret.
fn shop(auth: &str) -> Shop {
    let dir = tempfile::tempdir().unwrap();
    let secret = token_secret(dir.path());
    std::fs::write(dir.path().join("shop.toml"), format!("[auth]\n{auth}")).unwrap();
    let mut command = doorbuster(dir.path());
    command.args(["serve", "--config", "shop.toml", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    let server = Serving::start(command);
    let shop = Shop::before(vec![server], dir, &[("EDGE_TOKEN_SECRET_FILE", secret.to_str().unwrap())]);
    let access = |others| json!({ "groups": [{ "name": "gold", "before_s": null }], "others": others });
    let item = |product: u64, others| {
        let line = json!({ "access": access(others) });
        json!({ "product": product, "title": "Shoe", "price": 100, "total": 1, "limit": 1, "line": line })
    };
    let starts_at = (now_s() + 3_600) * 1_000;
    let sale = json!({
        "id": 77, "title": "Drop", "currency": "EUR", "starts_at_ms": starts_at, "ends_at_ms": starts_at + 3_600_000,
        "items": [item(5, json!({ "before_s": 60 })), item(6, json!(null))],
    });
    let operator = format!("Bearer {OPERATOR}");
    let made = shop.post("/api/v1/sales", &[("Authorization", &operator)], &sale.to_string());
    assert_eq!(made.status, 201, "{made:?}");
    shop
}

fn token_of(buyer: &str, groups: &[&str]) -> String {
    token(&json!({ "sub": buyer, "exp": now_s() + 600, "groups": groups }).to_string())
}

impl Shop {
    fn join(&self, line: &str, token: &str) -> Response {
        self.post(line, &[("Authorization", &format!("Bearer {token}"))], "")
    }
}

/// Whether two answers say the same to whoever reads them.
fn same(through_the_edge: &Response, of_the_server: &Response) -> bool {
    let shown = |answer: &Response| {
        let headers = ["Content-Type", "Cache-Control", "Retry-After"];
        headers.map(|name| header(answer, name).map(str::to_owned))
    };
    (through_the_edge.status, &through_the_edge.body) == (of_the_server.status, &of_the_server.body)
        && shown(through_the_edge) == shown(of_the_server)
}

#[test]
fn who_may_join_is_the_servers_to_say_and_is_said_to_nobody_else() {
    let auth = "buyer = \"token\"\ntoken_secret_file = \"token-secret\"\ntoken_groups_claim = \"groups\"\n";
    let shop = shop(auth);
    let (gold, other) = (token_of("anna", &["club", "gold"]), token_of("bert", &["club"]));
    let mut tickets = Vec::new();
    // What one of them was answered, the next is not.
    for _twice in 0..2 {
        for (line, code) in [(EARLY, "line_opens_later"), (INVITED, "line_not_open")] {
            let refused = shop.join(line, &other);
            assert_eq!((refused.status, &refused.json()["code"]), (403, &code.into()), "{refused:?}");
            assert_eq!(refused.json()["opens_at_ms"].is_u64(), code == "line_opens_later", "{refused:?}");
            let bearer = format!("Bearer {other}");
            let headers = [("Authorization", bearer.as_str())];
            let direct = exchange(shop.servers[0].address, "POST", line, &headers, "");
            assert!(same(&refused, &direct), "{refused:?} {direct:?}");
            assert_eq!(header(&refused, "Cache-Control"), Some("no-store"), "{refused:?}");
            let place = shop.join(line, &gold);
            assert!(matches!(place.status, 200 | 201), "{place:?}");
            tickets.push(place.json()["ticket"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!((&tickets[0], &tickets[1]), (&tickets[2], &tickets[3]), "the same places");
    // A page has its token in a cookie; its groups count as well.
    let cookie = |token: &str| {
        let cookie = format!("doorbuster_token={token}");
        shop.post(INVITED, &[("Cookie", &cookie), ("Origin", "http://localhost")], "").status
    };
    assert_eq!([cookie(&gold), cookie(&other)], [200, 403]);
    // A group that whoever asks has made up.
    let (own, wanted) = (token_of("carl", &["club"]), token_of("carl", &["gold"]));
    let (signed, signature) = (wanted.rsplit_once('.').unwrap().0, own.rsplit_once('.').unwrap().1);
    assert_eq!(shop.join(INVITED, &format!("{signed}.{signature}")).status, 401);
    assert_eq!(shop.get(INVITED).json()["tail"], 1);
}

#[test]
fn a_server_that_believes_the_edges_header_has_everybody_be_one_of_the_others() {
    let shop = shop("buyer = \"member_id\"\n");
    let gold = token_of("anna", &["gold"]);
    for (line, code) in [(EARLY, "line_opens_later"), (INVITED, "line_not_open")] {
        let refused = shop.join(line, &gold);
        assert_eq!((refused.status, &refused.json()["code"]), (403, &code.into()), "{refused:?}");
    }
}
