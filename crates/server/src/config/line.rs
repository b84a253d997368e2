//! What is asked of whoever would join a line.

use std::path::PathBuf;
use std::{io, thread};

use serde::Deserialize;

use super::shop::check_url;
use super::{Problem, is_safe_url, path_unless_empty, text_unless_empty};
use crate::metrics::Metrics;
use crate::secret::SecretBytes;
use crate::verifier::{Desk, Expected, ProofOfWork, Service, Verifier};

/// Of hostnames that are taken, and of each and an action in bytes.
const HOSTNAMES_MAX: usize = 64;
const EXPECTED_BYTES_MAX: usize = 255;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Of one item.
    pub(crate) places_max: u32,
    verifier: Kind,
    pub(super) proof_of_work_bits: u8,
    without_script: WithoutScript,
    http_url: String,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(super) http_secret_file: Option<PathBuf>,
    on_failure: OnFailure,
    http_hostnames: Vec<String>,
    #[serde(deserialize_with = "text_unless_empty")]
    http_action: Option<String>,
    http_send_address: bool,
    http_allow_private: bool,
    http_authority_file: PathBuf,
    #[serde(deserialize_with = "text_unless_empty")]
    pub(crate) verification_url: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    None,
    ProofOfWork,
    Http,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WithoutScript {
    Refused,
    Admitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnFailure {
    Closed,
    Open,
}

impl Line {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let url = &self.http_url;
        let as_https = format!("https://{}", url.strip_prefix("http://").unwrap_or_default());
        let is_safe = url.starts_with("https://") && is_safe_url(url)
            || self.http_allow_private && is_safe_url(&as_https);
        match self.verifier {
            Kind::Http if !is_safe => {
                let message = "must begin with https://, or with http:// and line.http_allow_private = true, and name no user";
                problems.push(("line.http_url", message.into()));
            }
            Kind::None | Kind::ProofOfWork if !url.is_empty() => {
                let message = "has no effect: set line.verifier = \"http\", or leave it empty";
                problems.push(("line.http_url", message.into()));
            }
            _ => {}
        }
        let texts = self.http_hostnames.iter().chain(&self.http_action);
        let is_long = |text: &String| text.is_empty() || text.len() > EXPECTED_BYTES_MAX;
        if self.http_hostnames.len() > HOSTNAMES_MAX || texts.clone().any(is_long) {
            let message = format!(
                "and line.http_action may have {HOSTNAMES_MAX} texts and one, of 1 to {EXPECTED_BYTES_MAX} bytes each"
            );
            problems.push(("line.http_hostnames", message));
        }
        if let Some(url) = &self.verification_url {
            check_url("line.verification_url", url, &["return"], problems);
        }
    }

    /// The service that is asked, if one is.
    pub(super) fn load(&self, secret: Option<&SecretBytes>, problems: &mut Vec<String>) -> Option<Service> {
        if self.verifier != Kind::Http {
            return None;
        }
        let Some(secret) = secret else {
            problems.push(
                "line.verifier = \"http\" needs the secret that the service knows us by: set line.http_secret_file"
                    .to_owned(),
            );
            return None;
        };
        let path = &self.http_authority_file;
        let authorities = self.http_url.starts_with("https://").then(|| std::fs::read(path)).transpose();
        let expected = Expected {
            hostnames: self.http_hostnames.clone(),
            action: self.http_action.clone(),
            sends_address: self.http_send_address,
        };
        let made = authorities.map_err(|error| format!("can't be read: {error}")).and_then(|pem| {
            let reached = (pem.as_deref(), self.http_allow_private);
            Service::new(&self.http_url, secret.clone(), expected, reached).map_err(|error| error.to_string())
        });
        made.map_err(|why| problems.push(format!("line.http_authority_file = {path:?} {why}"))).ok()
    }

    fn admits_without_script(&self) -> bool {
        self.without_script == WithoutScript::Admitted
    }

    /// Shown to whoever has no script: why they can't join; `None`: they can.
    pub(crate) fn refused_without_script(&self) -> Option<&'static str> {
        match self.verifier {
            Kind::None => None,
            _ if self.admits_without_script() => None,
            Kind::ProofOfWork => Some("refused-verification-required"),
            Kind::Http => Some("refused-verification-token-required"),
        }
    }

    /// Starts what it takes. `service`: what was loaded for it.
    ///
    /// # Errors
    /// If a thread can't be started.
    pub(crate) fn start(
        &self,
        service: Option<&Service>,
        metrics: &Metrics,
        thread: impl Fn(String) -> thread::Builder,
    ) -> io::Result<Verifier> {
        let admits_without_script = self.admits_without_script();
        Ok(match (self.verifier, service) {
            (Kind::Http, Some(service)) => {
                let opens = self.on_failure == OnFailure::Open;
                let desk = Desk::start(service.clone(), opens, metrics, thread)?;
                Verifier::Http { desk, admits_without_script }
            }
            (Kind::Http, None) => unreachable!("a configuration without its secret is not served with"),
            (Kind::ProofOfWork, _) => {
                Verifier::ProofOfWork(ProofOfWork::new(self.proof_of_work_bits, admits_without_script))
            }
            (Kind::None, _) => Verifier::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn problems(change: impl FnOnce(&mut Line)) -> Vec<String> {
        let mut line = Config::default().line;
        line.verifier = Kind::Http;
        line.http_url = "https://check.example/siteverify".to_owned();
        change(&mut line);
        let mut problems = Vec::new();
        line.check(&mut problems);
        problems.into_iter().map(|(key, message)| format!("{key} {message}")).collect()
    }

    #[test]
    fn a_service_that_verifies_is_reached_safely() {
        let plain = "line.http_url must begin with https://, or with http:// and line.http_allow_private = true, and name no user";
        let at = |url: &str, allow_private| {
            problems(|line| (line.http_url, line.http_allow_private) = (url.to_owned(), allow_private))
        };
        for (url, allow_private, expected) in [
            ("https://check.example/siteverify", false, &[][..]),
            ("http://10.0.0.7/siteverify", true, &[]),
            ("", false, &[plain]),
            ("http://127.0.0.1/siteverify", false, &[plain]),
            ("https://user@check.example/", false, &[plain]),
            ("ftp://10.0.0.7/siteverify", true, &[plain]),
        ] {
            assert_eq!(at(url, allow_private), expected, "{url}");
        }
        let unused = problems(|line| line.verifier = Kind::ProofOfWork);
        assert!(unused[0].contains("has no effect"), "{unused:?}");
        let place = problems(|line| line.verification_url = Some("https://shop.example/{sale}".to_owned()));
        assert!(place[0].ends_with("names a place that there is not: there are {return}"), "{place:?}");
        let texts = problems(|line| line.http_hostnames = vec![String::new()]);
        assert!(texts[0].starts_with("line.http_hostnames and line.http_action"), "{texts:?}");
    }
}
