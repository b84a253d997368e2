//! Stripe: the account that takes the shop's payments.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::http::{is_origin, not_an_origin};
use super::{Config, Problem, is_safe_url, path_unless_empty, text_unless_empty};
use crate::secret::SecretBytes;
use crate::stripe::{Account, Client};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripe {
    #[serde(deserialize_with = "path_unless_empty")]
    pub(super) secret_key_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(super) webhook_secret_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(super) webhook_secret_previous_file: Option<PathBuf>,
    #[serde(deserialize_with = "text_unless_empty")]
    public_url: Option<String>,
    api_url: String,
    authority_file: PathBuf,
}

impl Stripe {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if !is_safe_url(&self.api_url) {
            let message = "must begin with https://; without TLS Stripe is stood in for on this machine alone \
                           (http://127.0.0.1, http://[::1], http://localhost)";
            problems.push(("stripe.api_url", message.into()));
        }
        if let Some(url) = self.public_url.as_ref().filter(|url| !is_origin(url) || !is_safe_url(url)) {
            problems.push(("stripe.public_url", not_an_origin(url)));
        }
    }

    /// The account, if there is a key.
    pub(super) fn load(
        &self,
        config: &Config,
        key: Option<&SecretBytes>,
        webhook: Option<&SecretBytes>,
        problems: &mut Vec<String>,
    ) -> Option<Account> {
        let Some(key) = key else {
            if webhook.is_some() {
                problems.push(
                    "stripe.webhook_secret_file is set, but there is no key: set stripe.secret_key_file"
                        .into(),
                );
            }
            return None;
        };
        let mut needed = |is_there: bool, problem: &str| {
            if !is_there {
                problems.push(format!("stripe.secret_key_file is set, but {problem}"));
            }
        };
        needed(webhook.is_some(), "Stripe's webhooks can't be checked: set stripe.webhook_secret_file");
        needed(self.public_url.is_some(), "buyers are not led there: set stripe.public_url");
        needed(
            config.shop.pay_url.is_none(),
            "so is shop.pay_url: an order is paid at one place, set one of them",
        );
        let key = key.as_bytes();
        let is_secret = key.starts_with(b"sk_") || key.starts_with(b"rk_");
        needed(
            is_secret && key.is_ascii() && !key.iter().any(u8::is_ascii_control),
            "it is no secret key: that is one line that begins with sk_ or rk_",
        );
        match self.client(key.into()) {
            Ok(client) => {
                let public_url = self.public_url.clone()?;
                let shop = config.shop.return_url.clone();
                let return_url = shop.unwrap_or_else(|| format!("{public_url}/orders/{{order}}"));
                Some(Account { client, public_url, return_url })
            }
            Err(problem) => {
                problems.push(problem);
                None
            }
        }
    }

    fn client(&self, key: SecretBytes) -> Result<Client, String> {
        let path: &Path = &self.authority_file;
        let authorities = match self.api_url.starts_with("https://") {
            true => Some(
                std::fs::read(path)
                    .map_err(|error| format!("stripe.authority_file = {path:?} can't be read: {error}"))?,
            ),
            false => None,
        };
        Client::new(&self.api_url, key, authorities.as_deref())
            .map_err(|error| format!("stripe.authority_file = {path:?} {error}"))
    }
}
