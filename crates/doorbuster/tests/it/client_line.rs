//! What operators see and do of a line, against prepared answers.

use crate::client::{SALE, SHOWN, ask};

/// What the draw of an item's line proves is said when the sale is made, and whenever it is shown.
#[test]
fn a_sale_to_a_line_says_what_comes_of_its_beacon() {
    for (beacon, said) in [
        (true, "are drawn without it once the sale starts, or 20s after its round if that is later.\n"),
        (false, "whoever runs the sale could still choose by the last entries which draw comes of them.\n"),
    ] {
        let line = format!(
            r#""limit":1,"line":{{"units":1,"turn_s":120,"grace_s":20,"close_s":30,"beacon":{beacon}}}"#
        );
        let sale: &'static str = SALE.replace(r#""limit":1"#, &line).leak();
        let ((code, stdout, _), _) = ask(&["sale", "show", "3"], vec![Some((200, sale))]);
        let begin = "item 30 is sold to its line: a turn is 2m long, for 1 unit at most. Entries close 30s before the start;";
        let last = stdout.lines().last().unwrap();
        assert!(code == 0 && last.starts_with(begin) && stdout.ends_with(said), "{stdout}");
    }
}

#[test]
fn a_sale_to_a_line_shows_who_may_join_it() {
    let line = r#""limit":1,"line":{"units":1,"turn_s":120,"grace_s":20,"close_s":30,"beacon":false,
        "access":{"groups":[{"name":"gold","before_s":null},{"name":"club","before_s":86400}],"others":OTHERS}}"#;
    let began = "may join: gold always, club from 1d before the start, all others ";
    for (others, said) in [("{\"before_s\":1800}", "from 30m before the start"), ("null", "never")] {
        let line = line.replace("OTHERS", others);
        let sale: &'static str = SALE.replace(r#""limit":1"#, &line).leak();
        let ((code, stdout, _), _) = ask(&["sale", "show", "3"], vec![Some((200, sale))]);
        assert!(code == 0 && stdout.ends_with(&format!("{began}{said}\n")), "{stdout}");
    }
}

#[test]
fn a_sale_to_a_line_shows_its_turns_and_how_it_is_steered() {
    let line = r#""turns":3,"limit":1,"line":{"units":1,"turn_s":120,"grace_s":20,"close_s":30,"beacon":false},
        "line_now":{"pace_max_per_s":7,"message":"Slow \u001bnight","promised":90}"#;
    let sale: &'static str = SALE.replacen(r#""limit":1"#, line, 1).leak();
    let ((code, stdout, _), _) = ask(&["sale", "show", "3"], vec![Some((200, sale))]);
    let row = "     30  Shoe   49.99 EUR   99.99 EUR    100         97      3     2     1      1\n";
    let said = "the pace of the line of 30 is limited: at most 7 places per second\n\
                everybody in the line of 30 reads: Slow \u{fffd}night\n";
    assert!(code == 0 && stdout.contains(row) && stdout.ends_with(said), "{stdout}");
    // Of 97 units 90 are promised.
    for (units, code) in [("7", 0), ("8", 1)] {
        let dry = ["sale", "correct", "3", "30", units, "--dry-run"];
        assert_eq!(ask(&dry, vec![Some((200, sale))]).0.0, code, "{units}");
    }
}

/// They were shown when to be back.
#[test]
fn a_start_that_comes_sooner_than_people_in_a_line_expect_is_asked_about() {
    let line = r#""limit":1,"line":{"units":1,"turn_s":120,"grace_s":20,"close_s":30,"beacon":false},
        "line_now":{"pace_max_per_s":null,"message":"","promised":0,"joined":JOINED}"#;
    let sale = |joined: &str| -> &'static str {
        let sale =
            SALE.replace(r#""state":"live""#, r#""state":"not_started""#).replace("S\\u001bock", "Sock");
        sale.replacen(r#""limit":1"#, &line.replace("JOINED", joined), 1).leak()
    };
    let edit = |starts_at, joined, answers: usize| {
        let arguments = ["sale", "edit", "3", "--starts-at", starts_at];
        let known = Some((200, sale(joined)));
        ask(&arguments, [&[Some((200, r#"{"now_ms":1796000000000}"#))], &vec![known; answers][..]].concat()).0
    };
    let (sooner, later) = ("2026-12-01T09:59:59Z", "2026-12-01T10:00:01Z");
    let (code, _, stderr) = edit(sooner, "1901", 1);
    assert!(code == 64 && stderr.contains("the start comes sooner than 1901 people expect"), "{stderr}");
    for (joined, starts_at) in [("1901", later), ("0", sooner)] {
        let (code, _, stderr) = edit(starts_at, joined, 2);
        assert_eq!(code, 0, "{joined} {starts_at}: {stderr}");
    }
}

#[test]
fn the_pace_of_a_line_is_limited_and_the_limit_lifted() {
    for (pace, body) in
        [("20", r#"{"per_s_max":20}"#), ("0", r#"{"per_s_max":0}"#), ("all", r#"{"per_s_max":null}"#)]
    {
        let ((code, stdout, _), asked) = ask(&["sale", "pace", "3", "30", pace], vec![Some((200, SALE))]);
        assert_eq!((code, stdout.as_str()), (0, SHOWN));
        assert_eq!(asked[0].line, "POST /api/v1/sales/3/items/30/line/pace");
        assert_eq!(asked[0].body, body);
    }
}

#[test]
fn a_line_is_sent_a_message_and_none_any_more() {
    for (message, body) in
        [("Back at \"nine\".", r#"{"message":"Back at \"nine\"."}"#), ("", r#"{"message":""}"#)]
    {
        let ((code, _, _), asked) = ask(&["sale", "message", "3", "30", message], vec![Some((200, SALE))]);
        assert_eq!((code, asked[0].line.as_str()), (0, "POST /api/v1/sales/3/items/30/line/message"));
        assert_eq!(asked[0].body, body);
    }
}
