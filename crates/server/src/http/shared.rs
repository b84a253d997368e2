//! What the services of all event loops share, and the options that they are made with.

use std::sync::Arc;

use engine::{BeaconTerms, SaleId};

use crate::clock::Clock;
use crate::figures::Figures;
use crate::http::access::CurrentAccess;
use crate::http::auth::signed_out::SignedOut;
use crate::http::auth::{AuthMode, TokenRules};
use crate::http::histories::Histories;
use crate::http::images::ImageThreads;
use crate::http::lists::Lists;
use crate::http::pages::shelf::PageShelf;
use crate::http::pay_link::PayPage;
use crate::http::reads::Reads;
use crate::http::sessions::Sessions;
use crate::image_origins::ImageOrigins;
use crate::intake::admission::Admission;
use crate::intake::attempts::AllAttempts;
use crate::intake::catalog::Shelf;
use crate::intake::{AddressRate, Health, KnownOperators, PartAway};
use crate::ledger::Source;
use crate::metrics::Metrics;
use crate::net::{NetStats, Stop, TrustedProxies};
use crate::pages::Pages;
use crate::rehearsals::Rehearsals;
use crate::shop_keys::{KeySource, ShopKeys};
use crate::signing::SigningKey;
use crate::stripe::Desk;
use crate::verifier::Verifier;
use crate::webhooks::Control;

/// Options of the HTTP interface; every one is plain, the configuration is checked elsewhere.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    pub auth: AuthMode,
    pub sessions: SessionOptions,
    /// Origins of other sites whose pages may act for a buyer, as a browser writes them.
    pub allowed_origins: Vec<String>,
    /// Names under which a browser may ask; none: any, except in a local demo.
    pub public_names: Vec<String>,
    pub body_bytes_max: usize,
    pub operator_body_bytes_max: usize,
    /// Where orders are paid; `None`: the pages don't lead there.
    pub pay_page: Option<PayPage>,
    /// Stripe takes the payments.
    pub stripe: bool,
    /// By how many seconds a payment callback's time may differ from the clock.
    pub payment_tolerance_s: u64,
    /// An order's page asks for the address of one that has none.
    pub address_after: bool,
    /// For sales that do not say it themselves.
    pub payment_ms: u64,
    /// For sales that do not say it themselves; 0: no bound.
    pub open_holds_per_buyer_max: u32,
    /// `/metrics` asks for the operator's token.
    pub metrics_token_required: bool,
    /// The published route that stores messages exists.
    pub message_route: bool,
    /// The bounds of one buyer do not hold on the published routes.
    pub published_unlimited: bool,
    /// Proxies that say for whom they ask.
    pub trusted_proxies: TrustedProxies,
    /// Requests per second of one address that had to prove who sends them and did not; 0: no bound.
    pub anonymous_requests_per_s_per_address: u64,
    /// Exchanges for a session per second of one address; 0: no bound.
    pub sessions_per_s_per_address: u64,
    /// The demo's calls exist: paying by a button, sessions by cookie, loading the shop.
    pub demo: bool,
    /// A demo that is not meant for other machines.
    pub local_demo: bool,
    /// The sale that `/order/submit` places in; `None`: that route is off.
    pub shop_sale: Option<SaleId>,
    /// Whose values the draws of new lines wait for; `None`: none is known.
    pub beacon: Option<BeaconTerms>,
}

/// How the shop's tokens become sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// What the shop's tokens must say, and ours do.
    pub rules: TokenRules,
    /// Longest time that a session holds, in seconds.
    pub lasts_s: u64,
    /// Origins whose pages may sign a reader in by a form.
    pub shop_origins: Vec<String>,
}

/// Secrets of the HTTP interface, but for the buyers', which is in [`AuthMode`].
#[derive(Clone, Default)]
pub struct HttpSecrets {
    /// Those that sign sessions, the current one first; none, or a demo: there are no sessions.
    pub session: Vec<Box<[u8]>>,
    /// The shop's public keys, of a file.
    pub shop_keys: Option<ShopKeys>,
    /// The operator's bearer tokens, more than one while they change; none: operator calls are off.
    pub operator: Vec<Box<[u8]>>,
    /// Those that sign payment callbacks; none: they are off.
    pub payment: Vec<Box<[u8]>>,
    /// Signs the addresses where orders are paid.
    pub pay_page: Option<Box<[u8]>>,
    /// Those that sign Stripe's webhooks.
    pub stripe: Vec<Box<[u8]>>,
    /// Names orders: from the ledger, the same for its whole life.
    pub order_id: [u8; 16],
}

impl std::fmt::Debug for HttpSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HttpSecrets([redacted])")
    }
}

/// Shared by the services of all event loops.
#[derive(Debug)]
pub struct Shared {
    pub clock: Arc<Clock>,
    pub shelf: Arc<Shelf>,
    pub admission: Arc<Admission>,
    pub metrics: Arc<Metrics>,
    pub net: Arc<NetStats>,
    pub(super) operators: Arc<KnownOperators>,
    pub(super) options: HttpOptions,
    pub(super) access: CurrentAccess,
    pub(super) signed_out: SignedOut,
    pub(super) anonymous: AddressRate,
    pub(super) exchanges: AddressRate,
    pub(super) sessions: Sessions,
    pub(super) order_id_secret: [u8; 16],
    pub(super) pages: Arc<PageShelf>,
    pub(super) lists: Lists,
    pub(super) reads: Reads,
    pub(super) images: ImageThreads,
    health: Arc<Health>,
    pub(super) attempts: Arc<AllAttempts>,
    pub(super) webhooks: Vec<Arc<Control>>,
    /// `None`: another provider takes the payments.
    pub(super) stripe: Option<Desk>,
    pub(super) verifier: Verifier,
    pub(super) figures: Arc<Figures>,
    pub(super) histories: Arc<Histories>,
    pub rehearsals: Rehearsals,
    pub(super) signing_key: Option<SigningKey>,
    stop: Stop,
}

/// The parts of the process that the HTTP interface reads.
#[derive(Debug)]
pub struct Parts {
    pub clock: Arc<Clock>,
    pub shelf: Arc<Shelf>,
    pub admission: Arc<Admission>,
    pub metrics: Arc<Metrics>,
    pub net: Arc<NetStats>,
    /// Who may.
    pub operators: Arc<KnownOperators>,
    /// Who tries.
    pub attempts: Arc<AllAttempts>,
    pub pages: Pages,
    pub reads: Reads,
    /// Where images of items are kept, and come from.
    pub images: (Source, ImageOrigins),
    /// Where the shop publishes more keys.
    pub shop_key_source: Option<KeySource>,
    /// What this server knows of its engines.
    pub health: Arc<Health>,
    /// The shop's endpoints.
    pub webhooks: Vec<Arc<Control>>,
    /// What asks Stripe.
    pub stripe: Option<Desk>,
    /// By what joining a line is guarded.
    pub verifier: Verifier,
    /// What this server does, second by second.
    pub figures: Arc<Figures>,
    /// What plays rehearsals at an operator's word.
    pub rehearsals: Rehearsals,
    /// Signs closes of draws and receipts; `None`: nothing does.
    pub signing_key: Option<SigningKey>,
    /// What the event loops are stopped with.
    pub stop: Stop,
}

impl Shared {
    pub fn new(parts: Parts, options: HttpOptions, secrets: &HttpSecrets) -> Arc<Shared> {
        let pages = Arc::new(PageShelf::new(parts.pages));
        let (images, origins) = parts.images;
        let images = ImageThreads::start(images, origins, Arc::clone(&pages), parts.reads.answers());
        let (shelf, clock) = (Arc::clone(&parts.shelf), Arc::clone(&parts.clock));
        let terms = (options.beacon, options.payment_ms);
        Arc::new(Shared {
            lists: Lists::start(shelf, clock, Arc::clone(&pages), terms, parts.reads.answers()),
            exchanges: AddressRate::new(options.sessions_per_s_per_address),
            sessions: Sessions::start(parts.reads.answers(), parts.shop_key_source),
            clock: parts.clock,
            webhooks: parts.webhooks,
            stripe: parts.stripe,
            verifier: parts.verifier,
            figures: parts.figures,
            histories: Arc::default(),
            rehearsals: parts.rehearsals,
            shelf: parts.shelf,
            admission: parts.admission,
            metrics: parts.metrics,
            net: parts.net,
            operators: parts.operators,
            signed_out: SignedOut::default(),
            access: CurrentAccess::new(&options, secrets),
            anonymous: AddressRate::new(options.anonymous_requests_per_s_per_address),
            order_id_secret: secrets.order_id,
            pages,
            reads: parts.reads,
            images,
            options,
            health: parts.health,
            attempts: parts.attempts,
            signing_key: parts.signing_key,
            stop: parts.stop,
        })
    }

    /// Lets in whom these let in, from the next request on: by the buyers' and the operators' secrets, the provider's, the
    /// origins and the names. The other options and the secret of order ids stay what they were.
    pub(crate) fn change_access(&self, options: &HttpOptions, secrets: &HttpSecrets) {
        self.access.change(options, secrets);
    }

    /// Why orders should not come here because of an engine, if so.
    pub(super) fn why_not_ready(&self) -> Option<String> {
        self.health.why_not_ready()
    }

    /// What can't be bought although the server is ready.
    pub(super) fn part_away(&self) -> Option<PartAway> {
        self.health.part_away()
    }

    /// What the engines said of their settings, a line for each server of them.
    pub(super) fn engine_settings(&self) -> String {
        self.health.settings()
    }

    /// What an operator should know although the server is ready.
    pub(super) fn remarks(&self) -> String {
        self.health.remarks()
    }

    /// Whether new requests should be sent here: not to a server that stops, although what comes is answered
    /// still. A server that has not started yet, or whose ledger failed, answers nothing at all.
    pub(super) fn is_ready(&self) -> bool {
        !self.stop.is_requested()
    }
}
