//! What of the configuration a server takes up while it serves.
//!
//! Must not: read a file; what it is given was read and checked whole.

use std::sync::Arc;

use super::{http_options, http_secrets, servers};
use crate::config::{BuyerAuth, Config, Secrets};
use crate::http::Shared;
use crate::net::Tls;

/// Keys whose values a server takes up while it serves. All others need a restart: threads, sockets, tables and
/// everything that orders are kept in are made with them.
const RELOADED: [&str; 25] = [
    "admission.burst",
    "admission.orders_per_s",
    "admission.orders_per_s_per_buyer",
    "auth.operator_token_file",
    "auth.operator_token_previous_file",
    "auth.payment_secret_file",
    "auth.payment_secret_previous_file",
    "auth.payment_tolerance_s",
    "auth.session_s",
    "auth.shop_key_file",
    "auth.shop_origins",
    "auth.token_audience",
    "auth.token_claim",
    "auth.token_issuer",
    "auth.token_secret_file",
    "auth.token_secret_previous_file",
    "http.allowed_origins",
    "http.public_names",
    "http.tls_certificate_file",
    "http.tls_key_file",
    "log.level",
    "shop.pay_url",
    "shop.return_url",
    "stripe.webhook_secret_file",
    "stripe.webhook_secret_previous_file",
];

/// Changes what can be changed of a server that serves.
#[derive(Clone, Debug)]
pub struct Reloader {
    shared: Arc<Shared>,
    tls: Option<Tls>,
    /// Whether Stripe takes the payments.
    stripe: bool,
    buyer: BuyerAuth,
    /// That share the rates: how many there are needs a restart.
    servers: u32,
    order_id: [u8; 16],
}

impl Reloader {
    pub(super) fn new(
        config: &Config,
        secrets: &Secrets,
        shared: Arc<Shared>,
        order_id: [u8; 16],
    ) -> Reloader {
        Reloader {
            shared,
            tls: secrets.tls.clone(),
            stripe: secrets.stripe.is_some(),
            buyer: config.auth.buyer,
            servers: servers(config),
            order_id,
        }
    }

    /// Takes up secrets, certificate, origins, names and rates, from the next request and the next handshake on; all of them
    /// or none. Whether there is TLS stays as it is.
    ///
    /// # Errors
    /// What can't be taken up beside the rest; then nothing is.
    pub fn reload(&self, config: &Config, secrets: &Secrets) -> Result<(), &'static str> {
        if config.auth.buyer != self.buyer {
            return Err("auth.buyer can't change while the server serves: restart it");
        }
        if self.tls.is_some() != secrets.tls.is_some() {
            return Err("TLS can't be switched on or off while the server serves: restart it");
        }
        if self.stripe != secrets.stripe.is_some() {
            return Err("Stripe can't be switched on or off while the server serves: restart it");
        }
        if let (Some(shown), Some(renewed)) = (&self.tls, &secrets.tls) {
            shown.show(renewed);
        }
        self.shared.admission.change_rates(&config.admission.limits(self.servers));
        self.shared.change_access(&http_options(config, secrets), &http_secrets(secrets, self.order_id));
        Ok(())
    }

    /// Whether a key's value is taken up.
    pub fn takes_up(&self, key: &str) -> bool {
        RELOADED.contains(&key)
    }
}
