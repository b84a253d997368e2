//! What the operator's commands say, against prepared answers: nothing twice, nothing that is not so.

use crate::client::{SALE, ask};

const NOW: &str = r#"{"now_ms":1796119200000,"confirmed":true}"#;

fn sale_that_is(state: &str) -> &'static str {
    SALE.replace("\"live\"", &format!("\"{state}\"")).leak()
}

#[test]
fn what_is_not_there_is_said_once() {
    for (arguments, answer, says) in [
        (
            &["sale", "show", "99"][..],
            r#"{"title":"No such sale","detail":"no sale here has this number","code":"unknown_sale"}"#,
            "error: no sale here has this number\n",
        ),
        (
            &["sale", "pace", "3", "9", "1"],
            r#"{"title":"No such product in this sale","detail":"this product is not in this sale","code":"unknown_sku"}"#,
            "error: this product is not in this sale\n",
        ),
    ] {
        let ((code, _, stderr), _) = ask(arguments, vec![Some((404, answer))]);
        assert_eq!((code, stderr.as_str()), (1, says));
    }
}

/// It announced what it did not do.
#[test]
fn a_pause_and_a_resume_announce_only_what_comes_of_them() {
    let [live, paused, ended, planned] = ["live", "paused", "ended", "not_started"].map(sale_that_is);
    for (verb, before, says) in [
        ("pause", paused, "sale 3 is paused already\n"),
        ("resume", live, "sale 3 is live already\n"),
        ("resume", planned, "sale 3 is not paused; it starts at 2026-12-01T10:00:00Z\n"),
    ] {
        let ((code, stdout, _), asked) = ask(&["sale", verb, "3"], vec![Some((200, before)); 2]);
        assert_eq!((code, stdout.as_str(), asked.len()), (0, says, 2));
    }
    let is_over = r#"{"title":"Ended","detail":"the sale is over","code":"ended"}"#;
    let may_not = r#"{"title":"The operator may not do that","detail":"ask","code":"role_required"}"#;
    for (before, looks, status, answer) in [(ended, 0, 409, is_over), (paused, 1, 403, may_not)] {
        let answers =
            [vec![Some((200, before))], vec![Some((200, NOW)); looks], vec![Some((status, answer))]].concat();
        let ((code, stdout, _), _) = ask(&["sale", "resume", "3"], answers);
        assert_eq!((code > 0, stdout.as_str()), (true, ""), "{status}");
    }
    let answers = vec![Some((200, paused)), Some((200, NOW)), Some((200, planned))];
    let ((_, stdout, _), _) = ask(&["sale", "resume", "3"], answers);
    assert!(stdout.ends_with("\nsale 3 is not paused; it starts at 2026-12-01T10:00:00Z\n"), "{stdout}");
    let ((code, stdout, stderr), _) = ask(&["sale", "pause", "3", "--dry-run"], vec![Some((200, ended))]);
    let refused = "error: sale 3 is over: it can't be paused\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (1, "", refused));
}

/// It succeeded without a word.
#[test]
fn a_restock_of_a_sale_that_is_over_is_asked_about() {
    let (ended, slip) = (sale_that_is("ended"), "the sale is over: nobody can order what is added");
    let restock = ["sale", "restock", "3", "30", "5"];
    let ((code, _, stderr), asked) = ask(&restock, vec![Some((200, ended))]);
    assert!(code == 64 && asked.len() == 1 && stderr.contains(slip), "{stderr}");
    let dry = [&restock[..], &["--dry-run"]].concat();
    let ((code, stdout, _), _) = ask(&dry, vec![Some((200, ended))]);
    let shown = format!("asked about, or refused without --yes: {slip}\nadds 5 to 100 units");
    assert!(code == 0 && stdout.starts_with(&shown), "{stdout}");
    let meant = [&restock[..], &["--yes"]].concat();
    let ((code, _, stderr), _) = ask(&meant, vec![Some((200, ended))]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    // Units are counted whenever they are counted.
    let ((code, _, stderr), _) = ask(&["sale", "correct", "3", "30", "5"], vec![Some((200, ended)); 2]);
    assert_eq!((code, stderr.as_str()), (0, ""));
}

#[test]
fn relative_times_by_a_clock_that_is_not_confirmed_are_warned_of() {
    let create = ["sale", "create", "--title", "t", "--for", "2h", "--item", "product=1,price=2,total=3"];
    let listed = r#"{"sales":[],"next_cursor":null,"next_id":4,"largest_total":null}"#;
    for (starts, confirmed, warned) in
        [("+1h", "false", true), ("+1h", "true", false), ("2026-12-01T12:00:00Z", "false", false)]
    {
        let now: &'static str = NOW.replace("true", confirmed).leak();
        let answers = vec![Some((200, now)), Some((200, listed)), Some((201, SALE))];
        let ((code, _, stderr), _) = ask(&[&create[..], &["--starts-at", starts]].concat(), answers);
        let says =
            "warning: the server's clock is not confirmed: relative times count from 2026-12-01T10:00:00Z";
        assert_eq!((code, stderr.starts_with(says)), (0, warned), "{stderr}");
    }
}

/// A verdict of half a minute ago stood as if it were of now.
#[test]
fn a_state_whose_figures_are_old_has_no_verdict() {
    let figures = r#"{"number":1,"at_ms":1796119200000,"age_ms":35554,"verdict":{"level":"green","code":"selling",
        "says":"It sells.","do":"Nothing to do.","action":null,"runbook":"selling"},"rates":{},"refused_by_code":{},
        "order_route":null,"health":{"ready":true,"reasons":[],"in_flight":0,"commit":null,"disk_free_bytes":null,
        "memory_bytes":null,"connections":0,"processors_busy":null,"refunds_due":0,"dead_letters":null},
        "servers":[],"sales":[],"sales_total":0,"events":[]}"#;
    let list: &'static str = format!("{{\"sales\":[{SALE}],\"next_cursor\":null,\"next_id\":4}}").leak();
    let answers = || vec![Some((200, "ready\n")), Some((200, list)), Some((200, figures))];
    let ((code, stdout, stderr), _) = ask(&["status"], answers());
    assert_eq!((code, stderr.as_str()), (0, ""));
    let old = "\nUNKNOWN  the figures are 35s old: the server answers, and takes none\nuntil then GREEN: It sells.\n";
    assert!(stdout.contains(old) && !stdout.contains("Nothing to do"), "{stdout}");
    let ((_, stdout, _), _) = ask(&["status", "--json"], answers());
    let shown: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(shown["age_ms"], 35_554);
}

#[test]
fn the_token_of_the_configuration_is_revoked_there() {
    let ((code, _, stderr), asked) = ask(&["operators", "revoke", "root"], Vec::new());
    assert!(code == 1 && asked.is_empty() && stderr.contains("auth.operator_token_file"), "{stderr}");
}

#[test]
fn what_only_looks_is_not_asked_why() {
    for (arguments, asked_why) in [
        (&["status", "--help"][..], false),
        (&["watch", "--help"], false),
        (&["sale", "pause", "--help"], true),
    ] {
        let ((_, stdout, _), _) = ask(arguments, Vec::new());
        assert_eq!(stdout.contains("--why"), asked_why, "{stdout}");
    }
}

/// "Nothing to do", it said of a sale that somebody had ended or paused, and no word of that.
#[test]
fn a_comparison_says_that_a_sale_is_over_or_paused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drop.toml");
    let toml = "id = 3\ntitle = 'Winter drop'\nstarts_at = '2026-12-01T10:00:00Z'\nfor = '2h'\npayment = '15m'\n\
                [[item]]\nproduct = 30\ntitle = 'Shoe'\nprice = 4999\nlist = 9999\ntotal = 100\nlimit = 1\n\
                [[item]]\nproduct = 31\ntitle = 'Sock'\nprice = 500\ntotal = 7\n";
    std::fs::write(&file, toml).unwrap();
    let after = r#"{"now_ms":1796126400000}"#;
    let compare = |command: &str, state: &str, now: &'static str| {
        let sale: &'static str = sale_that_is(state).replace("S\\u001bock", "Sock").leak();
        ask(&["sale", command, file.to_str().unwrap()], vec![Some((200, sale)), Some((200, now))])
    };
    for (state, now, says) in [
        ("live", NOW, "sale 3: nothing to do\n"),
        ("paused", NOW, "sale 3: nothing to do; it is paused\n"),
        ("ended", after, "sale 3: nothing to do; it is over\n"),
    ] {
        for command in ["diff", "apply"] {
            let ((code, stdout, stderr), _) = compare(command, state, now);
            assert_eq!((code, stdout.as_str()), (0, says), "{command} {state}: {stderr}");
        }
    }
    let why = "it was ended before its time, for good";
    let ((code, stdout, _), _) = compare("diff", "ended", NOW);
    let lines = format!("sale 3: Winter drop\n  state: \"ended\" -> \"live\"  (can't be changed: {why})\n");
    assert_eq!((code, stdout), (1, lines));
    let ((code, stdout, stderr), _) = compare("apply", "ended", NOW);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(stderr, format!("error: nothing was changed, because this can't be: state ({why})\n"));
}
