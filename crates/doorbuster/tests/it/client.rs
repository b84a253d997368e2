//! The operator's commands against prepared answers: what goes over the wire, what is shown, how it exits.

use std::net::TcpListener;

use crate::stand_in::{Asked, Prepared, StandIn};
use crate::{doorbuster, outcome, run, write_as};

const TOKEN: &str = "an-operator-token-of-the-tests";

pub(crate) const SALE: &str = r#"{"id":3,"title":"Winter drop","currency":"EUR","state":"live","starts_at_ms":1796119200000,
    "ends_at_ms":1796126400000,"payment_s":900,"open_holds_per_buyer_max":5,"items":[
    {"product":30,"title":"Shoe","description":"","image":null,"price":4999,"list_price":9999,"total":100,"available":97,"held":2,"sold":1,"limit":1},
    {"product":31,"title":"S\u001bock","description":"","image":null,"price":500,"list_price":500,"total":7,"available":7,"held":0,"sold":0,"limit":null}],
    "items_total":2,"items_next_cursor":null}"#;

pub(crate) const SHOWN: &str = "\
sale 3: Winter drop, live
2026-12-01T10:00:00Z to 2026-12-01T12:00:00Z, 15m to pay, 5 open holds per buyer at most

product  title      price  list price  total  available  held  sold  limit
     30  Shoe   49.99 EUR   99.99 EUR    100         97     2     1      1
     31  S\u{fffd}ock   5.00 EUR    5.00 EUR      7          7     0     0   none
";

const NO_SALES: &str = r#"{"sales":[],"next_cursor":null,"next_id":4}"#;
const UNKNOWN_SALE: &str = r#"{"title":"No such sale","detail":"","code":"unknown_sale"}"#;

/// Before a sale is made: the time, and what the sales come to.
fn nothing_there(now: &'static str) -> Vec<Prepared> {
    vec![Some((200, now)), Some((200, NO_SALES))]
}

/// Runs a command against prepared answers.
#[track_caller]
pub(crate) fn ask(arguments: &[&str], answers: Vec<Prepared>) -> ((i32, String, String), Vec<Asked>) {
    let directory = tempfile::tempdir().unwrap();
    let server = StandIn::start(answers);
    let output = doorbuster(directory.path())
        .args(arguments)
        .env("DOORBUSTER_SERVER", &server.url)
        .env("DOORBUSTER_OPERATOR_TOKEN", TOKEN)
        .output();
    (outcome(output.unwrap()), server.asked())
}

#[test]
fn a_sale_is_shown_as_a_table_or_as_it_came() {
    let ((code, stdout, stderr), asked) = ask(&["sale", "show", "3"], vec![Some((200, SALE))]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout, SHOWN);
    assert_eq!(asked[0].line, "GET /api/v1/sales/3?limit=200");
    assert!(asked[0].headers.contains(&format!("authorization: Bearer {TOKEN}")));
    let ((code, stdout, _), _) = ask(&["sale", "show", "3", "--json"], vec![Some((200, SALE))]);
    assert_eq!((code, stdout), (0, format!("{SALE}\n")));
}

/// A sale of 1,002 items had dashes for its units.
#[test]
fn a_list_has_the_units_of_all_items_of_a_sale() {
    let first: &'static str = SALE.replace(r#""items_next_cursor":null"#, r#""items_next_cursor":31"#).leak();
    let list: &'static str = format!("{{\"sales\":[{first}],\"next_cursor\":null,\"next_id\":4}}").leak();
    let ((code, stdout, _), asked) =
        ask(&["sale", "list"], vec![Some((200, list)), Some((200, first)), Some((200, SALE))]);
    assert!(code == 0 && stdout.ends_with("    214        208     4     2\n"), "{stdout}");
    assert_eq!(asked[2].line, "GET /api/v1/sales/3?limit=200&cursor=31");
}

#[test]
fn sales_are_listed() {
    let ((code, stdout, _), asked) =
        ask(&["sale", "list"], vec![Some((200, r#"{"sales":[],"next_cursor":null,"next_id":1}"#))]);
    assert_eq!((code, asked[0].line.as_str()), (0, "GET /api/v1/sales?limit=200"));
    assert!(stdout.starts_with("no sales here"), "{stdout}");
    let list: &'static str = format!("{{\"sales\":[{SALE}],\"next_cursor\":null,\"next_id\":4}}").leak();
    let ((code, stdout, _), _) = ask(&["sale", "list"], vec![Some((200, list))]);
    assert_eq!(code, 0);
    assert_eq!(
        stdout,
        "sale  title        state  starts                ends                  items  total  available  held  sold\n   \
         3  Winter drop  live   2026-12-01T10:00:00Z  2026-12-01T12:00:00Z      2    107        104     2     1\n"
    );
}

#[test]
fn a_servers_state_is_one_screen_and_an_exit_code() {
    let list: &'static str = format!("{{\"sales\":[{SALE}],\"next_cursor\":null,\"next_id\":4}}").leak();
    let ((code, stdout, stderr), asked) = ask(&["status"], vec![Some((200, "ready\n")), Some((200, list))]);
    assert_eq!((code, stderr.as_str(), asked[0].line.as_str()), (0, "", "GET /readyz"));
    assert!(stdout.starts_with("ready  http://127.0.0.1:") && stdout.contains("Winter drop"), "{stdout}");
    const FULL: &str = r#"{"type":"/problems/unavailable","title":"Unavailable","status":503,"detail":"the disk is full","code":"unavailable"}"#;
    let closed = || vec![Some((503, FULL)), Some((200, list))];
    let ((code, stdout, stderr), _) = ask(&["status"], closed());
    assert_eq!((code, stderr.as_str()), (1, "error: the server is not ready\n"));
    assert!(stdout.starts_with("NOT READY  ") && stdout.contains("\n  the disk is full\n\n"), "{stdout}");
    let ((code, stdout, _), _) = ask(&["status", "--json"], closed());
    let shown: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &shown["ready"], &shown["reasons"][0]), (1, &false.into(), &"the disk is full".into()));
    assert_eq!(shown["sales"][0]["id"], 3);
    let ((code, stdout, _), _) = ask(&["status"], vec![Some((503, "the ledger is away\n")), None]);
    assert!(code == 1 && stdout.ends_with("\n  the ledger is away\n"), "{code} {stdout}");
    let long: &'static str =
        list.replace("\"next_cursor\":null,\"next_id", "\"next_cursor\":3,\"next_id").leak();
    let ((code, stdout, _), asked) = ask(&["status"], vec![Some((200, "ready\n")), Some((200, long))]);
    assert_eq!((code, asked[1].line.as_str()), (0, "GET /api/v1/sales?limit=20"));
    assert!(stdout.ends_with("and older ones: `doorbuster sale list`\n"), "{stdout}");
    let ((code, _, _), _) = ask(&["status"], vec![None]);
    assert_eq!(code, 69);
}

/// It said which server is ready, and not what is to be done, or which one has no room left.
#[test]
fn a_servers_state_has_the_verdict_and_the_machines_of_its_cluster() {
    const FIGURES: &str = r#"{"number":1,"at_ms":1796119200000,"age_ms":0,"verdict":{"level":"amber","code":"sale_paused",
        "says":"It is paused.","do":"Resume it.","action":{"kind":"resume","sale":3,"product":null},"runbook":"sale-paused"},
        "rates":{},"refused_by_code":{},"order_route":null,"health":{"ready":true,"reasons":[],"in_flight":0,"commit":null,
        "disk_free_bytes":null,"memory_bytes":null,"connections":0,"processors_busy":null,"refunds_due":0,"dead_letters":0},
        "servers":[{"server":"a:80","silent_ms":0,"counted":true,"ready":true,"accepted_per_s":0.0,"memory_bytes":1048576,
        "disk_free_bytes":2097152,"disk_bytes":3145728,"clock_confirmed":true,"clock_ahead_ms":-4,"clock_difference_ms":5}],
        "sales":[],"sales_total":0,"events":[]}"#;
    let list: &'static str = format!("{{\"sales\":[{SALE}],\"next_cursor\":null,\"next_id\":4}}").leak();
    let answers = || vec![Some((200, "ready\n")), Some((200, list)), Some((200, FIGURES))];
    let ((code, stdout, stderr), asked) = ask(&["status"], answers());
    assert_eq!((code, stderr.as_str(), asked[2].line.as_str()), (0, "", "GET /api/v1/figures"));
    let verdict =
        "\nAMBER  It is paused.\n-> Resume it.\n   doorbuster sale resume 3 --server http://127.0.0.1:";
    assert!(stdout.contains(verdict), "{stdout}");
    let machine = "\na:80    0s ago      2 MiB  3 MiB   1 MiB  confirmed      -4 ms         5 ms\n";
    assert!(stdout.ends_with(machine), "{stdout}");
    let ((code, stdout, _), _) = ask(&["status", "--json"], answers());
    let shown: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &shown["verdict"]["action"]["kind"]), (0, &"resume".into()));
    assert_eq!(shown["servers"][0]["disk_free_bytes"], 2_097_152);
    // One that has no figures is ready all the same.
    for figures in [(404, "{}"), (200, "{}")] {
        let answers = vec![Some((200, "ready\n")), Some((200, list)), Some(figures)];
        let ((code, stdout, stderr), _) = ask(&["status"], answers);
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        assert!(stdout.contains("Winter drop") && !stdout.contains("->"), "{stdout}");
    }
}

/// A proxy that does not pass `/readyz` on made servers that are well look as if they were not.
#[test]
fn an_address_without_readyz_is_no_server_that_is_not_ready() {
    for status in [204, 301, 401, 404, 502] {
        let ((code, stdout, stderr), _) = ask(&["status"], vec![Some((status, "<h1>nginx</h1>"))]);
        assert_eq!((code, stdout.as_str()), (69, ""), "{status}");
        let expected =
            format!("/readyz answered {status}: this address has no /readyz; name a server's own address");
        assert!(stderr.contains(&expected), "{stderr}");
    }
}

#[test]
fn steering_goes_to_its_own_path() {
    let figures = Some((200, r#"{"sales":[{"id":3,"stock_asked_per_s":80.0}]}"#));
    let says = "Pauses sale 3, “Winter drop”: nobody can order of its 104 units left until it is resumed; it still ends at \
                2026-12-01T12:00:00Z. 2 held units can be paid as before. About 120 open pages say so.\n";
    let sale = Some((200, SALE));
    let paused: &'static str = SALE.replace("\"live\"", "\"paused\"").leak();
    let now = Some((200, r#"{"now_ms":1796119200000}"#));
    let ((code, stdout, _), asked) = ask(&["sale", "pause", "3"], vec![sale, figures, Some((200, paused))]);
    assert_eq!((code, stdout), (0, format!("{says}sale 3 is paused\n")));
    assert_eq!(asked[2].line, "POST /api/v1/sales/3/pause");
    let ((code, stdout, _), asked) = ask(&["sale", "resume", "3"], vec![Some((200, paused)), now, sale]);
    assert!(code == 0 && stdout.ends_with(" until 2026-12-01T12:00:00Z.\nsale 3 is live\n"), "{stdout}");
    assert_eq!(asked[2].line, "POST /api/v1/sales/3/resume");
    let ((code, stdout, _), asked) = ask(&["sale", "pause", "3", "--dry-run"], vec![sale, figures]);
    assert_eq!((code, stdout, asked.len()), (0, format!("{says}nothing was paused\n"), 2));
    let ((code, stdout, _), asked) = ask(&["sale", "pause", "3", "--json"], vec![sale]);
    assert_eq!((code, stdout, asked.len()), (0, format!("{SALE}\n"), 1), "machines ask for it at once");
}

/// `restock 3 30 -3` was answered with how to pass an option's name as a value.
#[test]
fn units_that_are_no_number_of_units_are_said_to_be_none() {
    for verb in ["restock", "correct"] {
        let ((code, _, stderr), asked) = ask(&["sale", verb, "3", "30", "-3"], Vec::new());
        assert!(
            code == 64 && stderr.starts_with("error: invalid value '-3' for '<UNITS>'"),
            "{code} {stderr}"
        );
        assert!(asked.is_empty());
    }
}

#[test]
fn a_sale_is_ended_by_whoever_names_it() {
    let ended = ["sale", "end", "3", "--title", "Winter drop"];
    let ((code, stdout, _), asked) = ask(&ended, vec![Some((200, SALE)), Some((200, SALE))]);
    assert_eq!((code, stdout.as_str()), (0, SHOWN));
    assert_eq!(asked[1].line, "POST /api/v1/sales/3/end");
    let ((code, stdout, stderr), asked) = ask(&ended[..3], vec![Some((200, SALE))]);
    assert_eq!((code, stdout.as_str(), asked.len()), (64, "", 1));
    assert!(stderr.contains("nothing was ended: name the sale by --title"), "{stderr}");
}

#[test]
fn stock_changes_carry_a_key() {
    for (verb, yes) in [("restock", &["--yes"][..]), ("correct", &[])] {
        let arguments = [&["sale", verb, "3", "30", "50", "--key", "k-1"], yes].concat();
        let looks = usize::from(yes.is_empty());
        let ((code, _, _), asked) = ask(&arguments, vec![Some((200, SALE)); 1 + looks]);
        assert_eq!(code, 0);
        let asked = &asked[looks];
        assert_eq!(asked.line, format!("POST /api/v1/sales/3/items/30/{verb}"));
        assert_eq!(asked.body, r#"{"units":50}"#);
        assert!(asked.headers.contains(&"idempotency-key: k-1".to_owned()));
    }
    let key = |asked: &[Asked]| {
        let header = asked[1].headers.iter().find(|header| header.starts_with("idempotency-key: cli-"));
        header.expect("a key is made").clone()
    };
    let (_, first) = ask(&["sale", "restock", "3", "30", "50"], vec![Some((200, SALE)); 2]);
    let (_, second) = ask(&["sale", "restock", "3", "30", "50"], vec![Some((200, SALE)); 2]);
    assert_ne!(key(&first), key(&second));
}

#[test]
fn a_change_of_stock_says_what_comes_of_it_before_and_alone() {
    let many: &str =
        SALE.replace("\"total\":100,\"available\":97", "\"total\":1200,\"available\":1100").leak();
    for (verb, sum) in [
        ("restock", "adds 50 to 1,200 units of item 30 in sale 3: 1,250\n"),
        ("correct", "takes 50 off 1,200 units of item 30 in sale 3: 1,150\n"),
    ] {
        let ((code, stdout, stderr), _) = ask(&["sale", verb, "3", "30", "50"], vec![Some((200, many)); 2]);
        assert!(code == 0 && stdout.starts_with(&format!("{sum}\nsale 3: ")), "{stdout}{stderr}");
        let dry = ["sale", verb, "3", "30", "50", "--dry-run"];
        let ((code, stdout, _), asked) = ask(&dry, vec![Some((200, many))]);
        assert_eq!((code, stdout, asked.len()), (0, format!("{sum}nothing was changed\n"), 1));
    }
    let ((code, _, stderr), _) =
        ask(&["sale", "correct", "3", "30", "1101", "--dry-run"], vec![Some((200, many))]);
    let refused = "error: of the 1,200 units of item 30 in sale 3 at most 1,100 can be taken off\n";
    assert_eq!((code, stderr.as_str()), (1, refused));
    let ((code, _, stderr), _) =
        ask(&["sale", "correct", "3", "9", "1", "--dry-run"], vec![Some((200, many))]);
    assert_eq!((code, stderr.as_str()), (1, "error: sale 3 has no item 9\n"));
}

#[test]
fn an_edit_that_names_nothing_is_answered_what_can_be_changed() {
    let ((code, _, stderr), asked) = ask(&["sale", "edit", "3"], vec![]);
    assert_eq!((code, asked.len()), (64, 0), "{stderr}");
    for option in
        ["--title", "--starts-at", "--ends-at", "--for", "--payment", "--item PRODUCT", "--price", "--limit"]
    {
        assert!(stderr.contains(option), "{option}: {stderr}");
    }
}

/// `doorbuster status` waited 31 s.
#[test]
fn a_server_that_accepts_and_never_answers_has_no_status() {
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", hangs.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let mut command = doorbuster(directory.path());
    command.args(["status", "--server", &server]).env("DOORBUSTER_OPERATOR_TOKEN", "token");
    let (code, stdout, stderr) = outcome(command.output().unwrap());
    assert_eq!((code, stdout.as_str()), (69, ""));
    assert_eq!(stderr, format!("error: no answer from {server} within 5s\n"));
}

#[test]
fn a_sale_without_a_bound_of_open_holds_is_shown_so() {
    let unbounded: &str = SALE.replace("_per_buyer_max\":5", "_per_buyer_max\":0").leak();
    let ((code, stdout, _), _) = ask(&["sale", "show", "3"], vec![Some((200, unbounded))]);
    assert_eq!(
        (code, stdout),
        (0, SHOWN.replace("5 open holds per buyer at most", "any number of open holds"))
    );
}

#[test]
fn a_lost_answer_names_the_key_to_repeat_it_with() {
    let ((code, stdout, stderr), _) =
        ask(&["sale", "restock", "3", "30", "50", "--key", "k-1", "--yes"], vec![None]);
    assert_eq!((code, stdout.as_str()), (69, ""));
    assert!(stderr.starts_with("error: no answer from http://127.0.0.1:"), "{stderr}");
    assert!(stderr.ends_with("; repeat it with --key k-1 to learn its outcome\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);
}

#[test]
fn refusals_are_shown_with_title_and_detail() {
    for (status, body, code, expected) in [
        (
            409,
            r#"{"type":"/problems/below-sold","title":"Too few","status":409,"detail":"3 are sold","code":"below_sold"}"#,
            1,
            "error: Too few: 3 are sold\n",
        ),
        (404, r#"{"title":"No such sale","detail":"","code":"unknown_sale"}"#, 1, "error: No such sale\n"),
        (
            401,
            r#"{"title":"Not the operator","detail":"wrong token"}"#,
            64,
            "error: Not the operator: wrong token (--token-file FILE or DOORBUSTER_OPERATOR_TOKEN)\n",
        ),
        (429, r#"{"title":"Busy","detail":"later","code":"busy"}"#, 69, "error: Busy: later\n"),
        // As another token would be: whoever guesses gets no answer of its own.
        (
            429,
            r#"{"title":"Too many wrong tokens","detail":"","code":"operator_guesses"}"#,
            64,
            "error: Too many wrong tokens (--token-file FILE or DOORBUSTER_OPERATOR_TOKEN)\n",
        ),
        (502, "<html>", 69, "error: HTTP 502 Bad Gateway\n"),
        (503, r#"{"title":"Busy","detail":"try again"}"#, 69, "error: Busy: try again\n"),
        (200, "[]", 69, "error: the server's answer is not understood"),
    ] {
        let ((exit, stdout, stderr), _) = ask(&["sale", "show", "3"], vec![Some((status, body))]);
        assert_eq!((exit, stdout.as_str()), (code, ""), "{stderr}");
        assert!(stderr.starts_with(expected), "{stderr}");
    }
}

#[test]
fn a_sale_is_created_from_arguments() {
    let arguments = [
        "sale",
        "create",
        "--id",
        "3",
        "--title",
        "Winter drop",
        "--starts-at",
        "2026-12-01T10:00:00Z",
        "--for",
        "2h",
        "--payment",
        "15m",
        "--open-holds",
        "2",
        "--item",
        "product=30,title=Shoe,price=4999,list=9999,total=100,limit=1",
        "--item",
        "product=31,price=500,total=7",
    ];
    let answers = [nothing_there(r#"{"now_ms":1000}"#), vec![Some((404, UNKNOWN_SALE)), Some((201, SALE))]];
    let ((code, stdout, stderr), asked) = ask(&arguments, answers.concat());
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, SHOWN, ""));
    assert_eq!(asked[2].line, "GET /api/v1/sales/3?limit=200");
    assert_eq!(asked[3].line, "POST /api/v1/sales");
    let sent: serde_json::Value = serde_json::from_str(&asked[3].body).unwrap();
    assert_eq!(
        sent,
        serde_json::json!({"id":3,"title":"Winter drop","currency":"EUR","starts_at_ms":1_796_119_200_000_u64,
            "ends_at_ms":1_796_126_400_000_u64,"payment_s":900,"open_holds_per_buyer_max":2,"items":[
            {"product":30,"title":"Shoe","description":"","price":4999,"list_price":9999,"total":100,"limit":1},
            {"product":31,"title":"Product 31","description":"","price":500,"list_price":500,"total":7,"limit":null}]})
    );
}

#[test]
fn a_sale_is_created_from_a_file_with_times_by_the_servers_clock() {
    let directory = tempfile::tempdir().unwrap();
    let toml = "title = 't'\nstarts_at = '+60s'\nfor = '2h'\npayment = 'none'\n[[item]]\nproduct = 1\nprice = 2\n\
                total = 3\n";
    let json = r#"{"title":"t","starts_at":"+60s","for":"2h","payment":"none","item":[{"product":1,"price":2,"total":3}]}"#;
    for (name, text) in [("drop.toml", toml), ("drop.json", json)] {
        std::fs::write(directory.path().join(name), text).unwrap();
        let file = directory.path().join(name);
        let answers = [nothing_there(r#"{"now_ms":1000,"other":1}"#), vec![Some((201, SALE))]].concat();
        let ((code, _, stderr), asked) = ask(&["sale", "create", file.to_str().unwrap()], answers);
        assert_eq!((code, stderr.as_str()), (0, ""), "{name}");
        assert_eq!(asked[0].line, "GET /api/v1/time");
        assert_eq!(asked[1].line, "GET /api/v1/sales?limit=1");
        let sent: serde_json::Value = serde_json::from_str(&asked[2].body).unwrap();
        assert_eq!(
            sent,
            serde_json::json!({"id":4,"title":"t","currency":"EUR","starts_at_ms":61_000,"ends_at_ms":7_261_000,
                "payment_s":null,"items":[{"product":1,"title":"Product 1","description":"","price":2,"list_price":2,"total":3,"limit":null}]})
        );
    }
}

#[test]
fn a_sale_whose_answer_was_lost_can_be_made_once() {
    let arguments =
        ["sale", "create", "--title", "t", "--starts-at", "2026-12-01T10:00:00Z", "--for", "2h", "--item"];
    let arguments = [&arguments[..], &["product=1,price=2,total=3"]].concat();
    let ((code, _, stderr), asked) =
        ask(&arguments, [nothing_there(r#"{"now_ms":1000}"#), vec![None]].concat());
    assert_eq!(code, 69);
    assert!(asked[2].body.contains(r#""id":4,"#), "{}", asked[2].body);
    assert!(stderr.ends_with("; repeat it with the id 4 to learn its outcome\n"), "{stderr}");

    // The repetition comes after the start: it makes nothing, so it is not asked whether that is meant.
    let again = [&arguments[..], &["--id", "3"]].concat();
    let answers = [nothing_there(r#"{"now_ms":1796119200001}"#), vec![Some((200, SALE)), Some((200, SALE))]];
    let ((code, stdout, stderr), asked) = ask(&again, answers.concat());
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, SHOWN, ""));
    assert_eq!(asked[3].line, "POST /api/v1/sales");
}

/// Two applies of different files at once must end in one of both: each sends all that its file says.
#[test]
fn an_apply_sends_all_that_can_be_changed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drop.toml");
    let toml = "id = 3\ntitle = 'Drop'\nstarts_at = '2026-12-01T10:00:00Z'\nfor = '2h'\npayment = '15m'\n\
                [[item]]\nproduct = 30\ntitle = 'Shoe'\nprice = 4999\nlist = 9999\ntotal = 100\nlimit = 1\n\
                [[item]]\nproduct = 31\ntitle = 'Sock'\nprice = 500\ntotal = 7\n";
    std::fs::write(&file, toml).unwrap();
    let sale: &'static str = SALE.replace("S\\u001bock", "Sock").leak();
    for (now, sent) in [
        (
            r#"{"now_ms":1796119199999}"#,
            r#"{"ends_at_ms":1796126400000,"payment_s":900,"starts_at_ms":1796119200000,"title":"Drop"}"#,
        ),
        // It has started: a start is taken no more, and is the same for everybody.
        (r#"{"now_ms":1796119200000}"#, r#"{"ends_at_ms":1796126400000,"payment_s":900,"title":"Drop"}"#),
    ] {
        let answers = vec![Some((200, sale)), Some((200, now)), Some((200, sale))];
        let ((code, stdout, stderr), asked) = ask(&["sale", "apply", file.to_str().unwrap()], answers);
        assert_eq!((code, stderr.as_str()), (0, ""));
        let lines = "sale 3: Winter drop\n  title: \"Winter drop\" -> \"Drop\"\nsale 3 is changed\n";
        assert_eq!(stdout, lines);
        assert_eq!((asked[2].line.as_str(), asked[2].body.as_str()), ("PATCH /api/v1/sales/3", sent));
    }
}

/// The server says what the largest item is, to the console as well: one rule for both.
#[test]
fn units_are_compared_with_the_largest_item_of_all_sales() {
    let arguments = ["sale", "create", "--title", "t", "--starts-at", "+1h", "--for", "2h", "--item"];
    let arguments = [&arguments[..], &["product=1,price=2,total=1001"]].concat();
    let listed = r#"{"sales":[],"next_cursor":null,"next_id":4,"largest_total":100}"#;
    let there = || vec![Some((200, r#"{"now_ms":1000}"#)), Some((200, listed))];
    let ((code, stdout, stderr), asked) = ask(&arguments, there());
    assert_eq!((code, stdout.as_str(), asked.len()), (64, "", 2));
    assert_eq!(
        stderr,
        "error: nothing was done: item 1 has 1001 units, more than 10 times the largest item of this server's sales so \
         far (100); if that is meant, say --yes\n"
    );
    let fits: Vec<_> = arguments.iter().map(|argument| argument.replace("1001", "1000")).collect();
    let fits: Vec<_> = fits.iter().map(String::as_str).collect();
    let ((code, _, stderr), _) = ask(&fits, [there(), vec![Some((201, SALE))]].concat());
    assert_eq!((code, stderr.as_str()), (0, ""));
}

/// Lists are shown to everybody: that the token is wrong is seen by what they leave out.
#[test]
fn a_token_that_is_not_the_operators_is_refused() {
    let public: &'static str = SALE.replace(r#""held":2,"sold":1,"#, "").leak();
    for (arguments, answer) in
        [(&["sale", "show", "3"][..], public), (&["sale", "list"], r#"{"sales":[],"next_cursor":null}"#)]
    {
        let ((code, stdout, stderr), _) = ask(arguments, vec![Some((200, answer))]);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}");
        assert!(stderr.starts_with("error: the server takes this token for no operator's"), "{stderr}");
    }
}

#[test]
fn a_sale_is_changed_in_what_is_named() {
    let sale: &'static str = SALE.replace("S\\u001bock", "Sock").leak();
    let shown = SHOWN.replace("S\u{fffd}ock   5", "Sock    5");
    let before = || vec![Some((200, r#"{"now_ms":1796119000000}"#)), Some((200, sale))];
    for (arguments, sent) in [
        (&["--title", "Drop"][..], r#"{"title":"Drop"}"#),
        (&["--ends-at", "+30m"], r#"{"ends_at_ms":1796120800000}"#),
        (&["--for", "1h"], r#"{"ends_at_ms":1796122800000}"#),
        (
            &["--starts-at", "2026-12-01T11:00:00Z", "--for", "60s", "--payment", "5m"],
            r#"{"ends_at_ms":1796122860000,"payment_s":300,"starts_at_ms":1796122800000}"#,
        ),
        (
            &["--starts-at", "now", "--for", "1s", "--payment", "2d", "--yes"],
            r#"{"ends_at_ms":1796119001000,"payment_s":172800,"starts_at_ms":1796119000000}"#,
        ),
        (
            &["--item", "30", "--price", "3999", "--limit", "none"],
            r#"{"items":[{"product":30,"price":3999,"limit":null}]}"#,
        ),
    ] {
        let arguments = [&["sale", "edit", "3"], arguments].concat();
        let ((code, stdout, stderr), asked) = ask(&arguments, [before(), vec![Some((200, sale))]].concat());
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, shown.as_str(), ""), "{arguments:?}");
        let asked = asked.last().unwrap();
        assert_eq!(asked.line, "PATCH /api/v1/sales/3");
        let [sent, expected] =
            [&asked.body, sent].map(|json| serde_json::from_str::<serde_json::Value>(json).unwrap());
        assert_eq!(sent, expected, "{arguments:?}");
    }
    let ((code, _, stderr), _) =
        ask(&["sale", "edit", "3", "--title", "Drop"], [before(), vec![None]].concat());
    assert!(
        code == 69 && stderr.ends_with("; `doorbuster sale show 3` tells whether it was changed\n"),
        "{stderr}"
    );
    let started = [Some((200, r#"{"now_ms":1796119200000}"#)), Some((200, sale))];
    let ((code, _, stderr), _) = ask(&["sale", "edit", "3", "--starts-at", "+3h"], started.into());
    assert_eq!((code, &*stderr), (1, "error: sale 3 has started: its start is what it was\n"));
    for half in [&["--item", "30"][..], &["--title", "Drop", "--price", "1"]] {
        let ((code, _, stderr), _) = ask(&[&["sale", "edit", "3"], half].concat(), vec![]);
        assert_eq!(code, 64, "{half:?} {stderr}");
    }
}

#[test]
fn the_demos_shop_is_loaded() {
    let ((code, stdout, _), asked) = ask(&["demo", "load", "--balance", "10"], vec![Some((200, "{}"))]);
    assert_eq!((code, stdout.as_str()), (0, "every good of the shop has 10 units\n"));
    assert_eq!(
        (asked[0].line.as_str(), asked[0].body.as_str()),
        ("POST /api/v1/demo/load", r#"{"balance":10}"#)
    );
}

#[test]
fn the_token_comes_from_the_file_then_the_environment_then_the_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("var/doorbuster");
    std::fs::create_dir_all(&data_dir).unwrap();
    std::fs::write(data_dir.join("operator-token"), "from-the-data-directory\n").unwrap();
    write_as(directory.path(), "token", "from-the-file\n", 0o644);
    for (file, variable, expected) in [
        (true, true, "from-the-file"),
        (false, true, "from-the-environment"),
        (false, false, "from-the-data-directory"),
    ] {
        let server = StandIn::start(vec![Some((200, SALE))]);
        let mut command = doorbuster(directory.path());
        command.args(["sale", "show", "3", "--server", &server.url]);
        if file {
            command.args(["--token-file", "token"]);
        }
        if variable {
            command.env("DOORBUSTER_OPERATOR_TOKEN", "from-the-environment");
        }
        let (code, _, errors) = outcome(command.output().unwrap());
        assert_eq!(code, 0, "{errors}");
        assert_eq!(errors.contains("warning: token is a secret that everybody"), file, "{errors}");
        assert!(server.asked()[0].headers.contains(&format!("authorization: Bearer {expected}")));
    }
}

#[test]
fn what_is_missing_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    write_as(directory.path(), "token", "a-token", 0o600);
    write_as(directory.path(), "two-lines", "a\nb", 0o600);
    for (arguments, code, reason) in [
        (
            &["sale", "list"][..],
            64,
            "error: no operator token: set DOORBUSTER_OPERATOR_TOKEN, give --token-file",
        ),
        (&["sale", "list", "--token-file", "none"], 64, "error: none: can't be read: No such file"),
        (&["sale", "list", "--token-file", "two-lines"], 64, "error: two-lines holds no token"),
        (
            &["sale", "list", "--token-file", "token", "--server", &url],
            69,
            "error: no server at http://127.0.0.1:",
        ),
        (
            &["sale", "list", "--token-file", "token", "--server", "localhost"],
            64,
            "error: \"localhost\" is no server",
        ),
        (
            &["sale", "list", "--token-file", "token", "--server", "http://"],
            64,
            "error: \"http://\" is no server",
        ),
        (
            &[
                "sale",
                "list",
                "--token-file",
                "token",
                "--server",
                "https://127.0.0.1:1",
                "--ca-file",
                "token",
            ],
            64,
            "error: token: holds no PEM certificate; name the certificates",
        ),
    ] {
        let (exit, stdout, stderr) = run(directory.path(), arguments);
        assert_eq!((exit, stdout.as_str()), (code, ""), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(reason), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}
