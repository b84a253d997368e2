//! Where the shop is notified of what becomes of orders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::{Problem, is_safe_url};
use crate::webhooks::limits::{BATCH_EVENTS_MAX, ENDPOINTS_MAX, NAME_BYTES_MAX};
use crate::webhooks::{Client, Endpoint, EventFilter, KINDS, Secret, ShopEndpoint};

const URL_BYTES_MAX: usize = 2_000;
const KEY: &str = "webhooks.endpoints";

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    authority_file: PathBuf,
    endpoints: Vec<Configured>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configured {
    name: String,
    url: String,
    secret_file: PathBuf,
    secret_previous_file: Option<PathBuf>,
    #[serde(default = "all")]
    events: Vec<String>,
    #[serde(default)]
    sales: Vec<u64>,
    #[serde(default = "one")]
    batch_events_max: usize,
    #[serde(default)]
    allow_private: bool,
}

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}

fn one() -> usize {
    1
}

impl Webhooks {
    pub(super) fn secret_files(&self) -> impl Iterator<Item = &Path> {
        self.endpoints
            .iter()
            .flat_map(|of| [Some(&of.secret_file), of.secret_previous_file.as_ref()])
            .flatten()
            .map(PathBuf::as_path)
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.endpoints.len() > ENDPOINTS_MAX {
            problems.push((KEY, format!("has more than {ENDPOINTS_MAX}")));
        }
        let mut names = BTreeSet::new();
        for endpoint in &self.endpoints {
            let Configured { name, .. } = endpoint;
            if !names.insert(name) {
                problems.push((KEY, format!("has the name {name:?} twice")));
            }
            for problem in endpoint.problems() {
                problems.push((KEY, format!("of {name:?}: {problem}")));
            }
        }
    }

    /// The endpoints with their secrets; what can't be read is added to the problems.
    pub(super) fn load(&self, problems: &mut Vec<String>) -> Vec<Endpoint> {
        let mut endpoints = Vec::new();
        let mut authorities = None;
        for configured in &self.endpoints {
            if configured.url.starts_with("https://") && authorities.is_none() {
                match read(&self.authority_file) {
                    Ok(pem) => authorities = Some(pem),
                    Err(problem) => {
                        problems.push(format!("webhooks.authority_file = {problem}"));
                        return Vec::new();
                    }
                }
            }
            match configured.load(&self.authority_file, authorities.as_deref()) {
                Ok(endpoint) => endpoints.push(endpoint),
                Err(problem) => problems.push(problem),
            }
        }
        endpoints
    }
}

impl Configured {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if !(1..=NAME_BYTES_MAX).contains(&self.name.len()) || !self.name.bytes().all(is_name) {
            problems.push(format!("name must have 1 to {NAME_BYTES_MAX} letters, digits, - and _"));
        }
        let in_private = self.allow_private && self.url.starts_with("http://");
        let as_https = format!("https://{}", self.url.strip_prefix("http://").unwrap_or_default());
        if self.url.len() > URL_BYTES_MAX || !(is_safe_url(&self.url) || in_private && is_safe_url(&as_https))
        {
            problems.push(
                "url must begin with https://, or with http:// and allow_private = true, and name no user"
                    .to_owned(),
            );
        }
        if let Err(pattern) = self.filter() {
            problems.push(format!(
                "events has {pattern:?}; there are {}, \"order.*\" and \"*\"",
                KINDS.join(", ")
            ));
        }
        if !(1..=BATCH_EVENTS_MAX).contains(&self.batch_events_max) {
            problems.push(format!("batch_events_max must be 1 to {BATCH_EVENTS_MAX}"));
        }
        problems
    }

    fn filter(&self) -> Result<EventFilter, String> {
        EventFilter::new(&self.events, &self.sales)
    }

    fn load(&self, authority_file: &Path, authorities: Option<&[u8]>) -> Result<Endpoint, String> {
        let of = |key: &str, problem: String| format!("{KEY} of {:?}: {key} = {problem}", self.name);
        let mut secrets = Vec::new();
        for (key, file) in [
            ("secret_file", Some(&self.secret_file)),
            ("secret_previous_file", self.secret_previous_file.as_ref()),
        ] {
            let Some(file) = file else { continue };
            let bytes = read(file).map_err(|problem| of(key, problem))?;
            let secret = Secret::parse(&String::from_utf8_lossy(&bytes));
            secrets.push(secret.map_err(|error| of(key, format!("{file:?} {error}")))?);
        }
        let authorities = authorities.filter(|_| self.url.starts_with("https://"));
        let client = Client::new(authorities, self.allow_private)
            .map_err(|error| format!("webhooks.authority_file = {authority_file:?} {error}"))?;
        let url: Arc<str> = Arc::from(self.url.as_str());
        let listed = self.batch_events_max > 1;
        Ok(Endpoint {
            name: self.name.clone(),
            url: Arc::clone(&url),
            filter: self.filter().expect("the configuration was checked"),
            batch_events_max: self.batch_events_max,
            to: Arc::new(ShopEndpoint { url, secrets, client, listed }),
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{path:?} can't be read: {error}"))
}
