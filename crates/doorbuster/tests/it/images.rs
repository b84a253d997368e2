//! Images of items, through the real program: added, named in a sale's file, shown, kept over a restart, removed.

use std::path::Path;

use serde_json::Value;

use crate::exchange::Connection;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

const SHOE: &str = "<svg xmlns='http://www.w3.org/2000/svg'><circle r='4'/></svg>";
const HAT: &str = "<svg xmlns='http://www.w3.org/2000/svg'><circle r='5'/></svg>";
const SALE: &str = "title = 'Hats'\nstarts_at = '+1h'\nfor = '1h'\n[[item]]\nproduct = 1\ntitle = 'Hat'\nprice = 5\n\
                    total = 9\nimage = 'hat.svg'\nalt = 'A hat'\n";

fn start(directory: &Path) -> Serving {
    let mut command = doorbuster(directory);
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    Serving::start(command)
}

fn get(server: &Serving, path: &str) -> (u16, String) {
    let response = Connection::open(server.address).unwrap().exchange("GET", path, &[], "").unwrap();
    (response.status, response.body)
}

#[test]
fn an_image_is_added_shown_with_its_item_and_removed_after_the_sale() {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("drop");
    std::fs::create_dir(&files).unwrap();
    for (name, content) in [
        ("shoe.svg", SHOE),
        ("hat.svg", HAT),
        ("drop.toml", SALE),
        ("text.png", "no image"),
        ("empty.png", ""),
    ] {
        std::fs::write(files.join(name), content).unwrap();
    }
    let server = start(directory.path());
    let run = |server: &Serving, arguments: &[&str]| {
        let mut command = doorbuster(directory.path());
        command.args(arguments).args(["--server", &format!("http://{}", server.address)]);
        outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
    };

    let (code, out, errors) = run(&server, &["images", "list"]);
    assert_eq!(
        (code, out.as_str(), errors.as_str()),
        (0, "no images: `doorbuster images add FILE` adds one\n", "")
    );
    let (code, shoe, errors) = run(&server, &["images", "add", "drop/shoe.svg"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(run(&server, &["images", "add", "drop/shoe.svg"]), (0, shoe.clone(), String::new()));
    for (file, what) in [
        ("drop/text.png", "drop/text.png: Not an image for a page: The image is none of PNG"),
        ("drop/empty.png", "is none of PNG"),
        ("drop/none.png", "drop/none.png: can't be read"),
        ("https://img.example/a.png", "shop.image_origins"),
    ] {
        let (code, out, errors) = run(&server, &["images", "add", file]);
        assert!(code != 0 && out.is_empty() && errors.contains(what), "{file}: {code} {out}{errors}");
    }

    std::fs::write(files.join("alt.toml"), SALE.replace("image = 'hat.svg'\n", "")).unwrap();
    let (code, _, errors) = run(&server, &["sale", "create", "drop/alt.toml"]);
    assert!(code == 64 && errors.contains("has alt, and no image"), "{code} {errors}");

    // A file beside the sale's own, from wherever the command is run.
    let (code, created, errors) = run(&server, &["sale", "create", "drop/drop.toml", "--json"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let created: Value = serde_json::from_str(&created).unwrap();
    let image = &created["items"][0]["image"];
    assert_eq!(image["alt"], "A hat");
    let (url, hat) = (image["url"].as_str().unwrap(), image["name"].as_str().unwrap());
    assert_eq!(get(&server, url), (200, HAT.to_owned()));
    let (code, out, errors) = run(&server, &["images", "list"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(out.contains(hat) && out.contains(shoe.trim_end()), "{out}");
    let (code, _, errors) = run(&server, &["images", "remove", hat]);
    assert!(code != 0 && errors.contains("a sale that is not over shows it"), "{errors}");

    server.kill();
    let server = start(directory.path());
    assert_eq!(get(&server, url), (200, HAT.to_owned()), "kept through a kill");
    let sale = created["id"].to_string();
    assert_eq!(run(&server, &["sale", "end", &sale, "--title", "Hats"]).0, 0);
    let (code, out, errors) = run(&server, &["images", "remove", hat, shoe.trim_end()]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(out, format!("{hat}: removed\n{shoe}").trim_end().to_owned() + ": removed\n");
    assert_eq!(get(&server, url).0, 404);
    assert_eq!(get(&server, &format!("/seckill_{sale}_1.html")).0, 200);
    assert_eq!(server.stop(), 0);
}
