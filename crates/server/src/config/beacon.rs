//! The public beacon that draws of lines wait for.

use std::path::PathBuf;

use engine::BeaconTerms;
use serde::Deserialize;

use super::{Problem, is_safe_url, text_unless_empty};
use crate::beacon;
use crate::hex::unhex;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beacon {
    #[serde(deserialize_with = "text_unless_empty")]
    url: Option<String>,
    public_key: String,
    pub(super) genesis_s: u64,
    pub(super) period_s: u32,
    authority_file: PathBuf,
}

impl Beacon {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.url.as_ref().is_some_and(|url| !is_safe_url(url)) {
            let message = "must begin with https://; without TLS a beacon is stood in for on this machine alone \
                           (http://127.0.0.1, http://[::1], http://localhost)";
            problems.push(("beacon.url", message.into()));
        }
        match self.terms() {
            None => {
                let message =
                    "must be the 192 hexadecimal digits of a key of the scheme bls-unchained-g1-rfc9380";
                problems.push(("beacon.public_key", message.into()));
            }
            Some(terms) => {
                let wrong = beacon::check_times(&terms).err();
                problems.extend(wrong.map(|why| {
                    ("beacon.genesis_s", format!("or beacon.period_s is wrong: {why}; leave both out"))
                }));
            }
        }
    }

    /// `None`: the key is none.
    fn terms(&self) -> Option<BeaconTerms> {
        let Beacon { genesis_s, period_s, .. } = *self;
        Some(BeaconTerms { public_key: unhex(&self.public_key)?, genesis_s, period_s })
    }

    /// The beacon, if there is one.
    pub(super) fn load(&self, problems: &mut Vec<String>) -> Option<beacon::Beacon> {
        let url = self.url.as_ref()?;
        let terms = self.terms()?;
        let path = &self.authority_file;
        let authorities = url.starts_with("https://").then(|| std::fs::read(path)).transpose();
        let made = authorities.map_err(|error| format!("can't be read: {error}")).and_then(|pem| {
            beacon::Beacon::new(url, terms, pem.as_deref()).map_err(|error| error.to_string())
        });
        made.map_err(|why| problems.push(format!("beacon.authority_file = {path:?} {why}"))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// With another genesis draws wait for what drand said years before.
    #[test]
    fn the_times_of_a_known_beacon_are_its_own() {
        let problems = |genesis_s: u64, period_s: u32, other_key: bool| {
            let mut beacon = Config::default().beacon;
            assert_eq!(beacon.terms(), Some(beacon::QUICKNET), "the defaults are drand's");
            (beacon.genesis_s, beacon.period_s) = (genesis_s, period_s);
            if other_key {
                beacon.public_key = "07".repeat(96);
            }
            let mut problems = Vec::new();
            beacon.check(&mut problems);
            problems.into_iter().map(|(key, message)| format!("{key} {message}")).collect::<Vec<_>>()
        };
        let BeaconTerms { genesis_s, period_s, .. } = beacon::QUICKNET;
        let wrong = "beacon.genesis_s or beacon.period_s is wrong: drand's quicknet, whose key this is, has \
                     genesis_s = 1692803367 and period_s = 3; leave both out";
        for (genesis_s, period_s, other_key, expected) in [
            (genesis_s, period_s, false, &[][..]),
            (genesis_s + 1, period_s, false, &[wrong]),
            (genesis_s, 4, false, &[wrong]),
            (genesis_s + 1, 4, true, &[]),
        ] {
            assert_eq!(problems(genesis_s, period_s, other_key), expected, "{genesis_s} {period_s}");
        }
    }
}
