//! Who is let in, as far as it can change while the server serves: secrets, origins and names.
//!
//! Each event loop has a copy, and sees by one atomic load per request whether it is the current one: nothing of an order's
//! way waits for a change. Must not: read a file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::auth::signature::Checker;
use super::auth::token::Exchange;
use super::auth::{Auth, AuthMode};
use super::hosts::Hosts;
use super::pay_link::PayLink;
use super::shared::{HttpOptions, HttpSecrets, SessionOptions};
use crate::ledger::Buyers;

/// What was configured at one time.
#[derive(Debug)]
pub(super) struct Access {
    version: u64,
    pub(super) auth: Auth,
    /// Finds whom an operator names.
    pub(super) buyers: Buyers,
    pub(super) hosts: Hosts,
    /// Signs with the newer secret while there are two.
    pub(super) pay_link: Option<PayLink>,
    /// Checks Stripe's webhooks.
    pub(super) stripe: Checker,
}

impl Access {
    fn new(version: u64, options: &HttpOptions, secrets: &HttpSecrets) -> Arc<Access> {
        let checker = (!secrets.payment.is_empty())
            .then(|| Checker::new(&secrets.payment, options.payment_tolerance_s));
        let buyers = Buyers::new(&secrets.order_id);
        let SessionOptions { rules, lasts_s, shop_origins } = &options.sessions;
        let keys = secrets.shop_keys.clone();
        let exchange = Exchange::new(&secrets.session, rules.clone(), buyers.clone(), keys, *lasts_s);
        let exchange = exchange.filter(|_| !matches!(options.auth, AuthMode::DemoCookie { .. }));
        let auth = Auth::new(
            options.auth.clone(),
            buyers.clone(),
            &secrets.operator,
            checker,
            &options.allowed_origins,
        )
        .with_sessions(exchange, shop_origins);
        let hosts = Hosts::new(&options.public_names, options.local_demo);
        let pay_link = options
            .pay_page
            .as_ref()
            .zip(secrets.pay_page.as_ref())
            .map(|(page, secret)| PayLink::new(page, secret));
        let stripe = Checker::of_stripe(&secrets.stripe, options.payment_tolerance_s);
        Arc::new(Access { version, auth, buyers, hosts, pay_link, stripe })
    }
}

/// What is configured now.
#[derive(Debug)]
pub(super) struct CurrentAccess {
    version: AtomicU64,
    current: Mutex<Arc<Access>>,
}

impl CurrentAccess {
    pub(super) fn new(options: &HttpOptions, secrets: &HttpSecrets) -> CurrentAccess {
        let current = Mutex::new(Access::new(0, options, secrets));
        CurrentAccess { version: AtomicU64::new(0), current }
    }

    pub(super) fn change(&self, options: &HttpOptions, secrets: &HttpSecrets) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = Access::new(current.version + 1, options, secrets);
        self.version.store(changed.version, Ordering::Release);
        *current = changed;
    }

    pub(super) fn get(&self) -> Arc<Access> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings a loop's copy up to date.
    pub(super) fn refresh(&self, copy: &mut Arc<Access>) {
        if self.version.load(Ordering::Acquire) != copy.version {
            *copy = self.get();
        }
    }
}
