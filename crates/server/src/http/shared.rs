//! What the services of all event loops share, and the options that they are made with.
//!
//! Called by: `server::run`, which makes one [`Shared`] per process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use engine::SaleId;

use super::auth::{Auth, AuthMode};
use super::pages::PageShelf;
use super::reads::Reads;
use super::signature::Checker;
use crate::admission::Admission;
use crate::catalog::Shelf;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::net::NetStats;
use crate::pages::Pages;

/// Options of the HTTP interface; every one is plain, the configuration is checked elsewhere.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    pub auth: AuthMode,
    /// Origins of other sites whose pages may act for a buyer, as a browser writes them.
    pub allowed_origins: Vec<String>,
    pub body_bytes_max: usize,
    pub operator_body_bytes_max: usize,
    /// By how many seconds a payment callback's time may differ from the clock.
    pub payment_tolerance_s: u64,
    /// For sales that do not say it themselves.
    pub payment_ms: u64,
    /// For sales that do not say it themselves; 0: no bound.
    pub open_holds_per_buyer_max: u32,
    /// The demo's calls exist: paying by a button, sessions by cookie, loading the shop.
    pub demo: bool,
    /// The sale that `/order/submit` places in; `None`: that route is off.
    pub shop_sale: Option<SaleId>,
}

/// Secrets of the HTTP interface, but for the buyers', which is in [`AuthMode`].
#[derive(Clone, Default)]
pub struct HttpSecrets {
    /// The operator's bearer token; `None`: operator calls are off.
    pub operator: Option<Box<[u8]>>,
    /// Signs payment callbacks; `None`: they are off.
    pub payment: Option<Box<[u8]>>,
    /// Names orders: from the ledger, the same for its whole life.
    pub order_id: [u8; 16],
}

impl std::fmt::Debug for HttpSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HttpSecrets([redacted])")
    }
}

/// What the server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// The ledger is being opened.
    Starting,
    Serving,
    /// Told to stop: what comes is still answered, but nothing new should be sent here.
    Draining,
    /// The writer has stopped: nothing can be changed any more.
    Failed,
}

const STATES: [ServerState; 4] =
    [ServerState::Starting, ServerState::Serving, ServerState::Draining, ServerState::Failed];

/// Shared by the services of all event loops.
#[derive(Debug)]
pub struct Shared {
    pub clock: Arc<Clock>,
    pub shelf: Arc<Shelf>,
    pub admission: Arc<Admission>,
    pub metrics: Arc<Metrics>,
    pub net: Arc<NetStats>,
    pub(super) options: HttpOptions,
    pub(super) auth: Auth,
    pub(super) payments: Option<Checker>,
    pub(super) order_id_secret: [u8; 16],
    pub(super) pages: PageShelf,
    pub(super) reads: Reads,
    state: AtomicU8,
}

/// The parts of the process that the HTTP interface reads.
#[derive(Debug)]
pub struct Parts {
    pub clock: Arc<Clock>,
    pub shelf: Arc<Shelf>,
    pub admission: Arc<Admission>,
    pub metrics: Arc<Metrics>,
    pub net: Arc<NetStats>,
    pub pages: Pages,
    pub reads: Reads,
}

impl Shared {
    /// Begins in [`ServerState::Starting`].
    pub fn new(parts: Parts, options: HttpOptions, secrets: &HttpSecrets) -> Arc<Shared> {
        let checker = |secret: &[u8]| Checker::new(secret, options.payment_tolerance_s);
        Arc::new(Shared {
            clock: parts.clock,
            shelf: parts.shelf,
            admission: parts.admission,
            metrics: parts.metrics,
            net: parts.net,
            auth: Auth::new(options.auth.clone(), secrets.operator.as_deref(), &options.allowed_origins),
            payments: secrets.payment.as_deref().map(checker),
            order_id_secret: secrets.order_id,
            pages: PageShelf::new(parts.pages),
            reads: parts.reads,
            options,
            state: AtomicU8::new(0),
        })
    }

    pub fn set_state(&self, state: ServerState) {
        let position = STATES.iter().position(|known| *known == state).expect("every state is in the list");
        self.state.store(u8::try_from(position).expect("four states"), Ordering::Release);
    }

    pub fn state(&self) -> ServerState {
        STATES[usize::from(self.state.load(Ordering::Acquire))]
    }
}
