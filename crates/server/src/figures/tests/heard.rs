//! Of how many servers what is kept is the sum.

use std::time::Duration;

use super::{HOUR_MS, NOW, Server, sale};
use crate::figures::Export;
use crate::intake::ServerReport;

/// What the others said, each so many milliseconds after the start.
fn hear(server: &Server, said: &[(&str, u64)]) {
    let heard = said.iter().map(|(name, after_ms)| {
        let said = format!(r#"{{"server":"{name}","rates":{{"accepted":4.0}},"health":{{"ready":true}}}}"#);
        ServerReport {
            said: said.into_bytes().into(),
            at: server.begun + Duration::from_millis(*after_ms),
            lives: true,
        }
    });
    server.servers.hear(heard.collect());
}

/// Looks each second. Accepted orders of the last one, and of how many servers they are.
fn kept(server: &mut Server, seconds: u64) -> [Option<f64>; 3] {
    let look = |second| server.looking.look(server.begun + Duration::from_secs(second));
    let taken = (1..=seconds).map(look).last().unwrap();
    [1, 15, 16].map(|place| taken.values[place])
}

/// Half the servers were not heard, and what the others did stood as if it were of all.
#[test]
fn what_is_kept_says_of_how_many_servers_it_is_the_sum() {
    for (what, others, servers_expected, row) in [
        ("alone", &[][..], 1, [0.0, 1.0, 1.0]),
        ("all were heard", &[("b", 9_800), ("c", 8_000)], 3, [8.0, 3.0, 3.0]),
        ("one was not, for 2 s", &[("b", 9_000), ("c", 7_999)], 3, [4.0, 2.0, 3.0]),
        ("nobody was, at the other side of a cut", &[("b", 1_000), ("c", 1_000)], 3, [0.0, 1.0, 3.0]),
        ("none was ever heard of three", &[], 3, [0.0, 1.0, 3.0]),
        ("more than there were to be", &[("b", 9_500), ("c", 9_500)], 1, [8.0, 3.0, 3.0]),
    ] {
        let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
        server.looking.watched.cluster.as_mut().unwrap().servers_expected = servers_expected;
        hear(&server, others);
        assert_eq!(kept(&mut server, 10), row.map(Some), "{what}");
    }
}

#[test]
fn the_export_has_it_too() {
    let mut server = Server::with(vec![sale(3, NOW.0, 1)], true);
    hear(&server, &[("b", 900)]);
    server.look(1_000);
    let page = server.looking.figures().history.page(&Export::new((0, NOW.0 + HOUR_MS), None)).unwrap();
    let csv = String::from_utf8(page.csv).unwrap();
    let last: Vec<_> = csv.lines().last().unwrap().split(',').collect();
    let place = |name| csv.lines().next().unwrap().split(',').position(|column| column == name).unwrap();
    assert_eq!((last[place("servers_heard")], last[place("servers_known")]), ("2", "2"), "{csv}");
}
