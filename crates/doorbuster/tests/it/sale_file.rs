//! Sales from files, through the real program and a real server: tried without being made, asked about, made again at another
//! time, compared and applied.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

const HAT: &str = "<svg xmlns='http://www.w3.org/2000/svg'><circle r='5'/></svg>";
/// Far ahead, so that no test waits for it.
const DROP: &str = "\
id = 7
title = 'Winter drop'
starts_at = '2099-12-01T10:00:00Z'
for = '2h'
payment = '15m'
[[item]]
product = 30
title = 'Shoe'
price = 4999
list = 9999
total = 100
limit = 1
[[item]]
product = 31
title = 'Hat'
description = 'Warm'
price = 500
total = 7
image = 'hat.svg'
alt = 'A hat'
";

/// A shop without a sale, and a folder with drop.toml and its image.
struct Shop {
    directory: tempfile::TempDir,
    server: Serving,
}

impl Shop {
    fn open() -> Shop {
        let directory = tempfile::tempdir().unwrap();
        let mut serve = doorbuster(directory.path());
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
        serve.env("DOORBUSTER_AUTH_TOKEN_SECRET", "a-secret-of-more-than-thirty-two-bytes");
        let shop = Shop { server: Serving::start(serve), directory };
        shop.write("hat.svg", HAT);
        shop.write("drop.toml", DROP);
        shop
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// drop.toml with one thing written otherwise.
    fn rewrite(&self, from: &str, to: &str) {
        assert!(DROP.contains(from), "{from}");
        self.write("drop.toml", &DROP.replace(from, to));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = doorbuster(self.directory.path());
        command.args(arguments).env("DOORBUSTER_SERVER", format!("http://{}", self.server.address));
        command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        outcome(self.command(arguments).output().unwrap())
    }

    /// What it prints; it must succeed.
    #[track_caller]
    fn does(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}: {stdout}");
        stdout
    }

    /// Its error; it must end with this code, and print nothing else.
    #[track_caller]
    fn refuses(&self, code: i32, arguments: &[&str]) -> String {
        let (ended, stdout, stderr) = self.run(arguments);
        assert_eq!((ended, stdout.as_str()), (code, ""), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        stderr
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.does(&[arguments, &["--json"]].concat())).unwrap()
    }

    #[track_caller]
    fn has_nothing(&self) {
        assert!(self.does(&["sale", "list"]).starts_with("no sales here"));
        assert!(self.does(&["images", "list"]).starts_with("no images"));
    }

    /// As somebody at a terminal runs it, who answers so.
    fn at_a_terminal(&self, arguments: &[&str], answer: &str) -> (i32, String) {
        let program = Path::new(env!("CARGO_BIN_EXE_doorbuster"));
        let line = format!("{} {}", program.display(), arguments.join(" "));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).current_dir(self.directory.path());
        script.env("DOORBUSTER_SERVER", format!("http://{}", self.server.address));
        script.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }
}

#[test]
fn a_dry_run_checks_everything_and_makes_nothing() {
    let shop = Shop::open();
    let shown = shop.does(&["sale", "create", "drop.toml", "--dry-run"]);
    for part in [
        "sale 7, a dry run: Winter drop\nstarts 2099-12-01T10:00:00Z (in ",
        "ends   2099-12-01T12:00:00Z (in ",
        "), after 2h\n15m to pay, the server's bound of open holds (in a cluster none)\n",
        "product  title      price  list price  total  limit  image\n",
        "     30  Shoe   49.99 EUR   99.99 EUR    100      1  none\n",
        "     31  Hat     5.00 EUR    5.00 EUR      7   none  hat.svg\n\nnothing was made\n",
    ] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    let shown = shop.json(&["sale", "create", "drop.toml", "--dry-run"]);
    assert_eq!(
        (&shown["id"], &shown["there"], &shown["slips"]),
        (&7.into(), &false.into(), &Value::Array(vec![]))
    );
    assert_eq!(shown["new"]["starts_at_ms"], 4_099_802_400_000_u64);
    let arguments =
        ["sale", "create", "--title", "t", "--starts-at", "+1h", "--for", "9s", "--dry-run", "--item"];
    let shown = shop.does(&[&arguments[..], &["product=1,price=0,total=3"]].concat());
    for part in
        ["sale 1, a dry run: t\n", " (in 1h), after 9s\n", "less than a minute", "item 1 costs nothing"]
    {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }

    let dry_run = ["sale", "create", "drop.toml", "--dry-run"];
    for (from, to, code, reason) in [
        ("'hat.svg'", "'none.svg'", 64, "none.svg: can't be read"),
        ("'hat.svg'", "'drop.toml'", 64, "drop.toml: the image is none of PNG"),
        ("'hat.svg'", "'00000000000000000000000000000000.svg'", 1, "the server has no image 0000"),
        ("product = 31", "product = 30", 64, "a product may stand in a sale only once"),
        ("'2h'", "'0s'", 64, "the sale would end before it starts"),
        ("limit = 1", "limit = 0", 64, "items[0].limit: it must be 1 to 1,000,000 units"),
    ] {
        shop.rewrite(from, to);
        let error = shop.refuses(code, &dry_run);
        assert!(error.contains(reason), "{from}: {error}");
    }
    let mut stranger = shop.command(&dry_run);
    stranger.env("DOORBUSTER_OPERATOR_TOKEN", "a-token-of-somebody-else");
    let (code, stdout, stderr) = outcome(stranger.output().unwrap());
    assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
    shop.rewrite("'hat.svg'", "'https://img.example/hat.svg'");
    assert!(
        shop.does(&dry_run)
            .contains("not checked: the image of item 31, which the server is to fetch: https://")
    );
    shop.has_nothing();

    shop.write("drop.toml", DROP);
    shop.does(&["sale", "create", "drop.toml"]);
    let before = shop.does(&["sale", "show", "7", "--json"]);
    assert!(shop.does(&dry_run).starts_with("sale 7 is there already, as it is written"));
    assert_eq!(shop.json(&dry_run)["there"], true);
    shop.rewrite("4999", "5999");
    let (code, stdout, stderr) = shop.run(&dry_run);
    assert_eq!(
        (code, stderr.as_str()),
        (1, "error: sale 7 is there already, and is another one: choose another id\n")
    );
    assert!(stdout.contains("price of item 30: 49.99 EUR -> 59.99 EUR\n"), "{stdout}");
    assert_eq!(shop.does(&["sale", "show", "7", "--json"]), before);
}

#[test]
fn what_is_rarely_meant_is_asked_about() {
    let shop = Shop::open();
    for (from, to, slip) in [
        ("2099-", "2020-", "the start is past: 2020-12-01T10:00:00Z, "),
        ("price = 500", "price = 0", "item 31 costs nothing"),
        ("'15m'", "'2d'", "buyers have more than a day to pay: 2d"),
        ("'2h'", "'59s'", "the sale lasts less than a minute"),
        ("'2h'", "'31d'", "the sale lasts more than 30 days: 31d"),
    ] {
        shop.rewrite(from, to);
        for command in ["create", "apply"] {
            let error = shop.refuses(64, &["sale", command, "drop.toml"]);
            assert!(error.contains(slip) && error.ends_with("if that is meant, say --yes\n"), "{error}");
        }
    }
    shop.has_nothing();
    let (code, shown) = shop.at_a_terminal(&["sale", "create", "drop.toml"], "n\n");
    assert_eq!(code, 1, "{shown}");
    assert!(
        shown.contains("31d\r\nIs that meant? [y/N]") && shown.ends_with("error: nothing was done\r\n"),
        "{shown}"
    );
    shop.has_nothing();
    let (code, shown) = shop.at_a_terminal(&["sale", "create", "drop.toml"], "y\n");
    assert!(code == 0 && shown.contains("sale 7: Winter drop, not_started"), "{code} {shown}");

    // The largest item has 100 units; ended or not.
    assert!(shop.refuses(64, &["sale", "end", "7"]).contains("nothing was ended: name the sale by --title"));
    let error = shop.refuses(1, &["sale", "end", "7", "--title", "winter drop"]);
    assert!(error.contains("nothing was ended: the title is “Winter drop”"), "{error}");
    let shown = shop.does(&["sale", "end", "7", "--dry-run"]);
    assert!(
        shown.starts_with("Ends sale 7, “Winter drop”, which would end at 2100-")
            && shown.ends_with("nothing was ended\n"),
        "{shown}"
    );
    let (code, shown) = shop.at_a_terminal(&["sale", "end", "7"], "Winter drop\n");
    assert!(
        code == 0 && shown.contains("Its title, to end it: ") && shown.contains("ended"),
        "{code} {shown}"
    );
    // Twice is once, and asks nothing.
    shop.does(&["sale", "end", "7"]);
    shop.write("drop.toml", &DROP.replace("id = 7", "id = 8").replace("total = 7", "total = 1001"));
    let error = shop.refuses(64, &["sale", "create", "drop.toml"]);
    assert!(error.contains("item 31 has 1001 units, more than 10 times the largest item of"), "{error}");
    shop.does(&["sale", "create", "drop.toml", "--yes"]);

    let error = shop.refuses(64, &["sale", "duplicate", "8", "--starts-at", "2020-01-01T00:00:00Z"]);
    assert!(error.contains("the start is past"), "{error}");
    shop.does(&["sale", "duplicate", "8", "--starts-at", "now"]);
    // Nothing is asked about what a change leaves as it is.
    shop.write(
        "drop.toml",
        &DROP.replace("id = 7", "id = 10").replace("2099-", "2020-").replace("'2h'", "'40000d'"),
    );
    shop.does(&["sale", "apply", "drop.toml", "--yes"]);
    shop.write(
        "drop.toml",
        &DROP
            .replace("id = 7", "id = 10")
            .replace("2099-", "2020-")
            .replace("'2h'", "'40000d'")
            .replace("Winter", "Spring"),
    );
    assert!(shop.does(&["sale", "apply", "drop.toml"]).contains("\"Winter drop\" -> \"Spring drop\""));
    assert_eq!(shop.server.stop(), 0);
}

#[test]
fn what_is_rarely_meant_is_asked_about_before_a_change() {
    let shop = Shop::open();
    shop.does(&["sale", "create", "drop.toml"]);
    let before = shop.does(&["sale", "show", "7", "--json"]);
    for (arguments, slip) in [
        (
            &["edit", "7", "--starts-at", "2020-01-01T00:00:00Z"][..],
            "the start is past: 2020-01-01T00:00:00Z, ",
        ),
        (&["edit", "7", "--ends-at", "2099-12-01T10:00:05Z"], "the sale lasts less than a minute: 5s"),
        (&["edit", "7", "--for", "31d"], "the sale lasts more than 30 days: 31d"),
        (&["edit", "7", "--payment", "30d"], "buyers have more than a day to pay: 30d"),
        (&["edit", "7", "--item", "31", "--price", "0"], "item 31 costs nothing"),
        (&["restock", "7", "30", "901"], "item 30 has 1001 units then, more than 10 times what it has (100)"),
    ] {
        let error = shop.refuses(64, &[&["sale"], arguments].concat());
        assert!(error.contains(slip) && error.ends_with("if that is meant, say --yes\n"), "{error}");
    }
    assert_eq!(shop.does(&["sale", "show", "7", "--json"]), before);

    let payment = ["sale", "edit", "7", "--payment", "30d"];
    let (code, shown) = shop.at_a_terminal(&payment, "n\n");
    assert!(code == 1 && shown.ends_with("error: nothing was done\r\n"), "{code} {shown}");
    let (code, shown) = shop.at_a_terminal(&payment, "y\n");
    assert!(code == 0 && shown.contains("Is that meant? [y/N]"), "{code} {shown}");
    // It is so already: nothing is asked about what stays.
    shop.does(&payment);
    shop.does(&["sale", "restock", "7", "30", "900"]);
    shop.does(&["sale", "restock", "7", "30", "1000000", "--yes"]);
    assert_eq!(shop.server.stop(), 0);
}

/// `sale end` asked, and an end in an hour that took the rest of the day from buyers did not.
#[test]
fn an_end_that_comes_sooner_is_asked_about_while_the_sale_runs() {
    let shop = Shop::open();
    let slip = "the sale runs, and ends sooner than was announced: ";
    shop.does(&["sale", "create", "drop.toml"]);
    // It has not started.
    shop.does(&["sale", "edit", "7", "--for", "1h"]);
    shop.does(&["sale", "edit", "7", "--starts-at", "now", "--for", "5h", "--yes"]);
    let sooner = ["sale", "edit", "7", "--for", "4h"];
    assert!(shop.refuses(64, &sooner).contains(slip));
    let (code, shown) = shop.at_a_terminal(&sooner, "n\n");
    assert!(code == 1 && shown.contains("Is that meant? [y/N]"), "{code} {shown}");
    shop.does(&["sale", "edit", "7", "--for", "6h"]);
    shop.does(&[&sooner[..], &["--yes"]].concat());
    shop.does(&sooner);

    let running = DROP.replace("id = 7", "id = 8").replace("2099-", "2020-");
    shop.write("drop.toml", &running.replace("'2h'", "'40000d'"));
    shop.does(&["sale", "apply", "drop.toml", "--yes"]);
    shop.write("drop.toml", &running.replace("'2h'", "'39999d'"));
    assert!(shop.refuses(64, &["sale", "apply", "drop.toml"]).contains(slip));
    shop.write("drop.toml", &running.replace("'2h'", "'40001d'"));
    assert!(!shop.refuses(64, &["sale", "apply", "drop.toml"]).contains(slip), "it is long, and later");
    assert_eq!(shop.server.stop(), 0);
}

#[test]
fn a_duplicate_has_the_same_items_on_the_same_terms() {
    let shop = Shop::open();
    shop.does(&["sale", "create", "drop.toml"]);
    shop.does(&["sale", "restock", "7", "31", "3"]);
    let arguments = ["sale", "duplicate", "7", "--starts-at", "2099-12-08T10:00:00.250Z"];
    let shown = shop.does(&[&arguments[..], &["--dry-run"]].concat());
    assert!(
        shown.contains("sale 8, a dry run: Winter drop\nstarts 2099-12-08T10:00:00.250Z (in "),
        "{shown}"
    );
    assert!(shop.refuses(1, &["sale", "show", "8"]).contains("no sale here has this number"));
    let second = shop.json(&arguments);
    let first = shop.json(&["sale", "show", "7"]);
    assert_eq!(second["id"], 8);
    assert_eq!(
        second["ends_at_ms"].as_u64(),
        first["ends_at_ms"].as_u64().map(|at| at + 7 * 86_400_000 + 250)
    );
    assert_eq!(
        (&second["items"][1]["total"], &second["items"][1]["image"]["alt"]),
        (&10.into(), &"A hat".into())
    );
    for field in ["title", "currency", "payment_s", "open_holds_per_buyer_max"] {
        assert_eq!(second[field], first[field], "{field}");
    }
    let same = |sale: &Value| {
        let mut items = sale["items"].clone();
        // The address of an image has the sale's number; its name has not.
        items[1]["image"]["url"] = Value::Null;
        items
    };
    assert_eq!(same(&second), same(&first));

    let third = ["--title", "Again", "--id", "20", "--for", "30m"];
    let third = shop.json(&[&arguments[..], &third].concat());
    assert_eq!((&third["id"], &third["title"]), (&20.into(), &"Again".into()));
    assert_eq!(third["ends_at_ms"].as_u64(), third["starts_at_ms"].as_u64().map(|at| at + 1_800_000));
    let error = shop.refuses(1, &["sale", "duplicate", "99", "--starts-at", "+1h"]);
    assert!(error.contains("no sale here has this number"), "{error}");
    let error = shop.refuses(64, &[&arguments[..], &["--ends-at", "2099-01-01T00:00:00Z"]].concat());
    assert!(error.contains("would end before it starts"), "{error}");
}

#[test]
fn a_file_is_applied_once_and_compared() {
    let shop = Shop::open();
    let (code, stdout, stderr) = shop.run(&["sale", "diff", "drop.toml"]);
    assert_eq!(
        (code, stderr.as_str()),
        (1, "error: sale 7 is not there: `doorbuster sale apply` makes it\n")
    );
    assert_eq!(stdout, "");
    let shown = shop.does(&["sale", "apply", "drop.toml", "--dry-run"]);
    assert!(shown.starts_with("sale 7, a dry run: Winter drop\n"), "{shown}");
    shop.has_nothing();

    assert!(shop.does(&["sale", "apply", "drop.toml"]).starts_with("sale 7: Winter drop, not_started\n"));
    for command in [&["sale", "diff", "drop.toml"][..], &["sale", "apply", "drop.toml"]] {
        assert_eq!(shop.does(command), "sale 7: nothing to do\n");
    }

    let moved =
        DROP.replace("10:00:00Z", "10:15:00.5Z").replace("'15m'", "'10m'").replace("Winter", "Spring");
    shop.write("drop.toml", &moved);
    let lines = "sale 7: Winter drop\n  title: \"Winter drop\" -> \"Spring drop\"\n  \
                 starts_at: 2099-12-01T10:00:00Z -> 2099-12-01T10:15:00.500Z\n  \
                 ends_at: 2099-12-01T12:00:00Z -> 2099-12-01T12:15:00.500Z\n  payment: 15m -> 10m\n";
    let (code, stdout, stderr) = shop.run(&["sale", "diff", "drop.toml"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (1, lines, "error: sale 7 differs\n"));
    let shown = shop.does(&["sale", "apply", "drop.toml", "--dry-run"]);
    assert_eq!(shown, format!("{lines}nothing was changed\n"));
    assert_eq!(shop.does(&["sale", "apply", "drop.toml"]), format!("{lines}sale 7 is changed\n"));
    assert_eq!(shop.does(&["sale", "apply", "drop.toml"]), "sale 7: nothing to do\n");

    // What can't be changed keeps everything as it is.
    let before = shop.does(&["sale", "show", "7", "--json"]);
    let fixed = moved.replace("Spring", "Summer").replace("4999", "3999");
    let fixed = fixed.replace("'A hat'", "'Hat'").replace("product = 31", "product = 32");
    shop.write("drop.toml", &fixed);
    let error = shop.refuses(1, &["sale", "apply", "drop.toml"]);
    assert!(["item 31 (", "item 32 ("].iter().all(|name| error.contains(name)), "{error}");
    shop.write(
        "drop.toml",
        &format!("open_holds_per_buyer_max = 1\ncurrency = 'USD'\n{moved}").replace("'10m'", "'none'"),
    );
    let error = shop.refuses(1, &["sale", "apply", "drop.toml"]);
    assert!(
        ["currency (", "payment (", "open_holds_per_buyer_max ("].iter().all(|name| error.contains(name)),
        "{error}"
    );
    shop.write("hat.svg", &HAT.replace('5', "6"));
    shop.write("drop.toml", &moved);
    assert!(
        shop.refuses(1, &["sale", "apply", "drop.toml"]).contains("be: image of item 31 (it is set when")
    );
    assert_eq!(shop.does(&["sale", "show", "7", "--json"]), before);
    assert_eq!(shop.server.stop(), 0);
}

#[test]
fn items_are_as_the_file_says_until_the_start() {
    let shop = Shop::open();
    shop.does(&["sale", "apply", "drop.toml"]);
    let wanted = DROP.replace("4999", "3999").replace("limit = 1\n", "").replace("'Warm'", "'Warmer'");
    shop.write("drop.toml", &wanted);
    let lines = "sale 7: Winter drop\n  price of item 30: 49.99 EUR -> 39.99 EUR\n  limit of item 30: 1 -> none\n  \
                 description of item 31: \"Warm\" -> \"Warmer\"\n";
    assert_eq!(shop.does(&["sale", "apply", "drop.toml"]), format!("{lines}sale 7 is changed\n"));
    assert_eq!(shop.does(&["sale", "apply", "drop.toml"]), "sale 7: nothing to do\n");
    let free = wanted.replace("price = 500", "price = 0");
    shop.write("drop.toml", &free);
    assert!(shop.refuses(64, &["sale", "apply", "drop.toml"]).contains("item 31 costs nothing"));

    let edit = ["sale", "edit", "7", "--item", "30", "--limit", "2", "--item-title", "Boot"];
    let shown = shop.does(&[&edit[..], &["--dry-run"]].concat());
    let lines = "sale 7: Winter drop\n  title of item 30: \"Shoe\" -> \"Boot\"\n  limit of item 30: none -> 2\n\n\
                 nothing was changed\n";
    assert_eq!(shown, lines);
    assert!(
        shop.does(&edit)
            .contains("     30  Boot   39.99 EUR   99.99 EUR    100        100     0     0      2\n")
    );
    shop.does(&["sale", "edit", "7", "--starts-at", "2020-12-01T10:00:00Z", "--yes"]);
    let error = shop.refuses(1, &edit);
    assert!(error.contains("The sale has started: the sale has started or has orders"), "{error}");
    let shown = shop.does(&["sale", "edit", "7", "--item", "30", "--price", "1", "--dry-run"]);
    assert!(shown.contains("39.99 EUR -> 0.01 EUR  (can't be changed: the sale has started)\n"), "{shown}");
    assert_eq!(shop.server.stop(), 0);
}

#[test]
fn a_sale_is_deleted_by_its_title() {
    let shop = Shop::open();
    shop.does(&["sale", "apply", "drop.toml"]);
    let delete = ["sale", "delete", "7"];
    let says = "Deletes sale 7, “Winter drop”, with 2 items, before it starts at 2099-12-01T10:00:00Z. Whoever has its page open \
                finds no sale there. This can't be undone.\n";
    assert_eq!(shop.does(&[&delete[..], &["--dry-run"]].concat()), format!("{says}nothing was deleted\n"));
    assert!(shop.refuses(64, &delete).contains("name the sale by --title"));
    let wrong = shop.refuses(1, &[&delete[..], &["--title", "Winter"]].concat());
    assert!(wrong.contains("nothing was deleted: the title is “Winter drop”"), "{wrong}");
    let (code, said) = shop.at_a_terminal(&delete, "Spring drop\n");
    assert!(code == 1 && said.contains("Its title, to delete it: "), "{said}");
    let (code, said) = shop.at_a_terminal(&delete, "Winter drop\n");
    assert!(code == 0 && said.ends_with("sale 7 is deleted\r\n"), "{said}");
    assert_eq!(shop.does(&[&delete[..], &["--title", "Winter drop"]].concat()), "sale 7 is deleted\n");
    assert!(shop.does(&["sale", "list"]).starts_with("no sales here"));
    let gone = "error: sale 7 was deleted, and its number is never used again: choose another id\n";
    for command in
        [&["diff", "drop.toml"][..], &["apply", "drop.toml"], &["create", "drop.toml", "--dry-run"]]
    {
        assert_eq!(shop.refuses(1, &[&["sale"], command].concat()), gone, "{command:?}");
    }
    assert!(shop.refuses(1, &["sale", "show", "7"]).contains("The sale was deleted: "));
    assert!(shop.refuses(1, &["sale", "delete", "8"]).contains("no sale here has this number"));
    let directory = shop.directory;
    assert_eq!(shop.server.stop(), 0);
    let mut report = doorbuster(directory.path());
    let (_, report, _) =
        outcome(report.args(["sale", "report", "7", "--data-dir", "data"]).output().unwrap());
    assert!(report.contains("  deleted\n"), "{report}");
}

#[test]
fn a_sale_of_many_pages_is_compared_whole() {
    let shop = Shop::open();
    let items: Vec<_> =
        (100..450).map(|product| format!("[[item]]\nproduct = {product}\nprice = 5\ntotal = 9\n")).collect();
    let many = DROP.to_owned() + &items.concat();
    shop.write("drop.toml", &many);
    shop.does(&["sale", "apply", "drop.toml"]);
    assert_eq!(shop.does(&["sale", "diff", "drop.toml"]), "sale 7: nothing to do\n");
    shop.write("drop.toml", &many.replace("product = 449\nprice = 5", "product = 449\nlist = 5\nprice = 6"));
    let (code, stdout, _) = shop.run(&["sale", "diff", "drop.toml"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("\n  price of item 449: 0.05 EUR -> 0.06 EUR\n"), "{stdout}");
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
}

#[test]
fn units_are_reported_and_never_applied() {
    let shop = Shop::open();
    shop.does(&["sale", "apply", "drop.toml"]);
    let wanted = DROP.replace("total = 100", "total = 150").replace("total = 7", "total = 4");
    shop.write("drop.toml", &wanted.replace("Winter", "Spring"));
    let (code, stdout, stderr) = shop.run(&["sale", "apply", "drop.toml"]);
    assert_eq!(code, 1);
    let reported = "error: total of item 30, total of item 31: not changed; use the commands above, or change the file\n";
    assert_eq!(stderr, reported);
    assert_eq!(
        stdout,
        "sale 7: Winter drop\n  title: \"Winter drop\" -> \"Spring drop\"\n  total of item 30: 100 -> 150  (`doorbuster sale \
         restock 7 30 50`)\n  total of item 31: 7 -> 4  (`doorbuster sale correct 7 31 3`)\nsale 7 is changed\n"
    );
    let (code, stdout, stderr) = shop.run(&["sale", "apply", "drop.toml", "--json"]);
    assert_eq!((code, stderr.as_str()), (1, reported));
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        found["differences"][1],
        serde_json::json!({ "field": "total", "product": 31, "server": 7, "file": 4, "change": "correct", "units": 3 })
    );
    shop.does(&["sale", "restock", "7", "30", "50"]);
    shop.does(&["sale", "correct", "7", "31", "3"]);
    assert_eq!(shop.does(&["sale", "apply", "drop.toml"]), "sale 7: nothing to do\n");
    assert_eq!(shop.server.stop(), 0);
}

#[test]
fn a_file_that_says_something_else_tomorrow_is_refused() {
    let shop = Shop::open();
    for (from, to, reason) in [
        ("id = 7\n", "", "drop.toml: id is missing: it says which sale this is"),
        ("'2099-12-01T10:00:00Z'", "'now'", "are another time at each apply"),
        ("'2099-12-01T10:00:00Z'", "'+60s'", "are another time at each apply"),
        ("'hat.svg'", "'https://img.example/hat.svg'", "the image of item 31 is an address"),
        ("title = 'Shoe'", "titel = 'Shoe'", "drop.toml:8: unknown field `titel`"),
        ("'2099-12-01T10:00:00Z'", "'2099-12-01'", "drop.toml:3: starts_at: \"2099-12-01\" is no time"),
        (
            "price = 500",
            "price = 2000000000000",
            "such a sale can't be: items[1].price: a price may be at most",
        ),
    ] {
        shop.rewrite(from, to);
        for command in ["diff", "apply"] {
            let error = shop.refuses(64, &["sale", command, "drop.toml"]);
            assert!(error.contains(reason), "{command} {from}: {error}");
        }
    }
    shop.has_nothing();
}

#[test]
fn the_start_of_a_sale_that_has_started_is_fixed() {
    let shop = Shop::open();
    let running = DROP.replace("2099-", "2020-").replace("for = '2h'", "ends_at = '2099-12-01T12:00:00Z'");
    shop.write("drop.toml", &running);
    shop.does(&["sale", "apply", "drop.toml", "--yes"]);
    shop.write("drop.toml", &running.replace("2020-", "2098-").replace("Winter", "Spring"));
    let error = shop.refuses(1, &["sale", "apply", "drop.toml"]);
    assert!(error.contains("starts_at (the sale has started)") && !error.contains("title"), "{error}");
    shop.write("drop.toml", &running.replace("Winter", "Spring"));
    shop.does(&["sale", "apply", "drop.toml"]);
    shop.does(&["sale", "end", "7", "--title", "Spring drop"]);
    // By the file it would go on.
    for command in [&["diff"][..], &["apply"], &["apply", "--dry-run"]] {
        let (code, stdout, stderr) = shop.run(&[&["sale"], command, &["drop.toml"]].concat());
        assert!(
            code == 1 && (stdout + &stderr).contains("it was ended before its time, for good"),
            "{stderr}"
        );
    }
    shop.write("drop.toml", &running);
    assert!(shop.refuses(1, &["sale", "apply", "drop.toml"]).contains("the sale is over"));
}

/// One changes only the title, the other only the start: a mixture would have both, or neither.
#[test]
fn two_files_applied_at_once_do_not_mix() {
    const ROUNDS: usize = 8;
    let shop = Shop::open();
    let files = ["drop.toml", "title.toml", "start.toml"];
    shop.write("title.toml", &DROP.replace("Winter", "Spring"));
    shop.write("start.toml", &DROP.replace("10:00:00Z", "11:00:00Z"));
    for _round in 0..ROUNDS {
        shop.run(&["sale", "apply", files[0]]);
        assert_eq!(shop.does(&["sale", "diff", files[0]]), "sale 7: nothing to do\n");
        let both = [files[1], files[2]].map(|file| {
            let mut apply = shop.command(&["sale", "apply", file]);
            apply.stdout(Stdio::null()).spawn().unwrap()
        });
        for mut apply in both {
            assert!(apply.wait().unwrap().success());
        }
        let equal = [files[1], files[2]].map(|file| shop.run(&["sale", "diff", file]).0 == 0);
        assert!(equal[0] != equal[1], "{equal:?}: {}", shop.does(&["sale", "show", "7"]));
    }
}
