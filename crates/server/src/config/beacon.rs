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
        if unhex::<96>(&self.public_key).is_none() {
            let message =
                "must be the 192 hexadecimal digits of a key of the scheme bls-unchained-g1-rfc9380";
            problems.push(("beacon.public_key", message.into()));
        }
    }

    /// The beacon, if there is one.
    pub(super) fn load(&self, problems: &mut Vec<String>) -> Option<beacon::Beacon> {
        let url = self.url.as_ref()?;
        let terms = BeaconTerms {
            public_key: unhex(&self.public_key)?,
            genesis_s: self.genesis_s,
            period_s: self.period_s,
        };
        let path = &self.authority_file;
        let authorities = url.starts_with("https://").then(|| std::fs::read(path)).transpose();
        let made = authorities.map_err(|error| format!("can't be read: {error}")).and_then(|pem| {
            beacon::Beacon::new(url, terms, pem.as_deref()).map_err(|error| error.to_string())
        });
        made.map_err(|why| problems.push(format!("beacon.authority_file = {path:?} {why}"))).ok()
    }
}
