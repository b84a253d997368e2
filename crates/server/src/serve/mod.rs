//! Wires the stages in the order of an order's path, runs them, and takes them down in the reverse order.
//!
//! Event loops take requests and hand them to the book writer, which hands answers back. Stopping begins at
//! the front: the loops drain while the writer still answers; then the writer finishes and closes the ledger.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use engine::{Book, Command, Seq};

use crate::beacon::Beacon;
use crate::clock::{WallClock, wall_clock};
use crate::cluster::Stages;
use crate::config::{Address, BuyerAuth, Config, Secrets};
use crate::embedded::{self, PrepareError, Writer};
use crate::figures::{self, Sampling};
use crate::http::{
    AuthMode, Entrance, HttpOptions, HttpSecrets, HttpService, PageFiles, Parts, Reads, SessionOptions,
    Shared, TokenRules,
};
use crate::intake::admission::Limits;
use crate::intake::catalog::{Shelf, Sku};
use crate::intake::{self, Health, Mailbox};
use crate::ledger::mysql::MySqlLedger;
use crate::ledger::sqlite::{self, SqliteLedger};
use crate::ledger::{AppendError, Ledger, LoadError, OpenError, Source};
use crate::metrics::Metrics;
use crate::net::{EventLoop, NetStats, Stop, Tls, Waker};
use crate::pages::{AddressAsked, Branding, Languages, Pages, Session, Settings};
use crate::rehearsals::Rehearsals;
use crate::secret::SecretBytes;
use crate::signing::{KeyError, SigningKey};
use crate::webhooks::{Counts, Duty, Sender, Surroundings};
use crate::{cluster, demo};

mod outbound;
mod paying;
mod reload;
mod watching;

pub use reload::Reloader;

/// Why the server could not serve, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{0} is a ledger that is no demo's; the demo would sell from it: give another one")]
    NotADemo(String),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error(transparent)]
    Cluster(#[from] cluster::StartError),
    #[error(transparent)]
    SigningKey(#[from] KeyError),
    #[error("cannot write the pages to pages.write_dir: {0}")]
    Pages(#[source] io::Error),
    #[error("a thread can't be started: {0}")]
    Thread(#[source] io::Error),
    #[error("an event loop failed: {0}; what was answered is in the ledger, start again")]
    EventLoop(#[source] io::Error),
    /// Everybody who waited was answered that the outcome is unknown; a restart decides what is in the ledger.
    #[error("stopped, because {0}; start again, the ledger is checked then")]
    Ledger(#[source] AppendError),
    /// As above; and to start again would take the ledger over from the server that has it now.
    #[error("stopped, because {0}")]
    TakenOver(#[source] AppendError),
    #[error("a thread behind the event loops panicked; what was answered is in the ledger, start again")]
    ProfilePanicked,
}

/// The sockets that are served.
#[derive(Debug)]
pub struct Listeners {
    pub public: TcpListener,
    /// The operators' own, if they have one.
    pub operators: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(public: TcpListener) -> Listeners {
        Listeners { public, operators: None }
    }
}

/// What can be watched of a server that serves.
#[derive(Clone, Debug)]
pub struct Running {
    pub metrics: Arc<Metrics>,
    pub shelf: Arc<Shelf>,
    pub reloader: Reloader,
}

/// What a server takes from the system, so that tests can make it fail.
#[derive(Clone, Copy, Debug)]
struct System {
    wall: WallClock,
    /// Makes a thread of this name, ready to be spawned.
    thread: fn(String) -> thread::Builder,
}

/// Serves until `stop` is requested and everything in flight was answered, or until the ledger fails.
/// `on_ready` is called once, when the ledger is open and connections are served.
///
/// # Errors
/// See [`ServeError`]. Nothing was served unless it is one of the last three.
pub fn run(
    config: Config,
    secrets: Secrets,
    listeners: impl Into<Listeners>,
    stop: Stop,
    on_ready: impl FnOnce(&Running),
) -> Result<(), ServeError> {
    let system = System { wall: wall_clock, thread: |name| thread::Builder::new().name(name) };
    run_on(system, &config, &secrets, listeners.into(), &stop, on_ready)
}

fn run_on(
    system: System,
    config: &Config,
    secrets: &Secrets,
    listeners: Listeners,
    stop: &Stop,
    on_ready: impl FnOnce(&Running),
) -> Result<(), ServeError> {
    let address = listeners.public.local_addr().map_err(ServeError::EventLoop)?;
    let net_stats = Arc::new(NetStats::default());
    let loops =
        event_loops(config, listeners, secrets.tls.as_ref(), &net_stats).map_err(ServeError::EventLoop)?;
    let wakers: Vec<Waker> = loops.iter().map(|(_, event_loop)| event_loop.waker()).collect();
    let mailbox = Mailbox::new(wakers.clone(), config.ledger.queue_commands_max);
    let limits = Limits { gate_judges: config.cluster.enabled, ..config.admission.limits(servers(config)) };
    let intake = intake::Intake::new(system.wall, limits);
    let (mut profile, order_id, health) = if config.cluster.enabled {
        join_cluster(config, secrets, address, &mailbox, &intake)?
    } else {
        open_book(config, secrets, &mailbox, &intake)?
    };
    let duty = Arc::new(Duty::default());
    let surroundings = Surroundings {
        clock: Arc::clone(&intake.clock),
        duty: Arc::clone(&duty),
        counts: Arc::new(Counts::registered(&intake.metrics)),
        health: Arc::clone(&health),
    };
    let (desk, following) = paying::start(config, secrets, &intake, &mailbox, &order_id)?.unzip();
    let senders = outbound::senders(config, secrets, following, &mut profile, surroundings)?;
    let webhooks: Vec<_> = senders.iter().map(Sender::control).collect();
    let watched = watching::WatchedParts {
        intake: &intake,
        net: &net_stats,
        health: &health,
        mailbox: &mailbox,
        stop,
        cluster: profile.figures(servers(config)),
        webhooks: &webhooks,
    };
    let looking = watching::look(config, secrets, address, &watched);
    let parts = Parts {
        clock: Arc::clone(&intake.clock),
        shelf: Arc::clone(&intake.shelf),
        admission: Arc::clone(&intake.admission),
        metrics: Arc::clone(&intake.metrics),
        net: net_stats,
        operators: Arc::clone(&intake.operators),
        attempts: Arc::clone(&intake.attempts),
        health,
        pages: Pages::new(page_settings(config, secrets)),
        reads: Reads::start(config.ledger_source(secrets), wakers, stop.clone()),
        images: (config.ledger_source(secrets), secrets.image_origins.clone()),
        shop_key_source: secrets.shop_key_source.clone(),
        webhooks,
        stripe: desk,
        verifier: config
            .line
            .start(secrets.line_service.as_ref(), &intake.metrics, system.thread)
            .map_err(ServeError::Thread)?,
        figures: looking.figures(),
        rehearsals: Rehearsals::new(config.rehearse.clone(), intake.clone(), mailbox.asker(), stop.clone()),
        signing_key: config.signing_key().map(|path| signing_key(&path, &intake)).transpose()?,
        stop: stop.clone(),
    };
    let shared = Shared::new(parts, http_options(config, secrets), &http_secrets(secrets, order_id));
    shared.rehearsals.follow(config.ledger_source(secrets), config.cluster.enabled);
    let files = page_files(config, &shared)?;
    let listening = outbound::listen(secrets, &intake, &mailbox, system).map_err(ServeError::Thread)?;
    let sampling = Sampling::start(looking, system.thread).map_err(ServeError::Thread)?;
    let reloader = Reloader::new(config, secrets, Arc::clone(&shared), order_id);
    let running = Running { metrics: intake.metrics, shelf: intake.shelf, reloader };
    let behind = Behind { profile, senders, duty };
    let served = serve(system, loops, behind, &mailbox, &shared, stop, || on_ready(&running));
    drop((files, sampling, listening));
    served
}

fn page_files(config: &Config, shared: &Arc<Shared>) -> Result<Option<PageFiles>, ServeError> {
    let files = config.pages.write_dir.clone().map(|dir| PageFiles::start(Arc::clone(shared), dir));
    files.transpose().map_err(ServeError::Pages)
}

/// Refuses a demo the ledger of a shop, before anything of it is changed: migrated, taken over, or given a demo's secrets.
///
/// # Errors
/// [`ServeError::NotADemo`], or if the ledger can't be read.
pub fn check_demo(config: &Config, secrets: &Secrets) -> Result<(), ServeError> {
    if config.demo.is_none() {
        return Ok(());
    }
    let source = config.ledger_source(secrets);
    if !source.is_a_shops()? {
        return Ok(());
    }
    Err(ServeError::NotADemo(match source {
        Source::Directory(data_dir) => data_dir.join(sqlite::FILE_NAME).display().to_string(),
        Source::MySql(options) => options.to_string(),
    }))
}

/// The threads behind the event loops.
struct Behind {
    profile: Profile,
    senders: Vec<Sender>,
    duty: Arc<Duty>,
}

/// What takes the requests that the event loops hand over.
#[derive(Debug)]
enum Profile {
    Embedded(Box<Writer>),
    Cluster(Box<Stages>),
}

impl Profile {
    /// What a server of a cluster shows besides.
    fn figures(&self, servers_expected: u32) -> Option<figures::Cluster> {
        match self {
            Profile::Embedded(_) => None,
            Profile::Cluster(stages) => Some(stages.figures(servers_expected)),
        }
    }

    fn thread_name(&self) -> &'static str {
        match self {
            Profile::Embedded(_) => "book-writer",
            Profile::Cluster(_) => "cluster",
        }
    }

    fn run(self, stop: &Stop) -> Result<(), AppendError> {
        match self {
            Profile::Embedded(writer) => writer.run(),
            Profile::Cluster(stages) => {
                stages.run(stop);
                Ok(())
            }
        }
    }
}

type Opened = (Profile, [u8; 16], Arc<Health>);

/// A ledger that was copied back without its key was shown to people with another one.
fn signing_key(path: &Path, intake: &intake::Intake) -> Result<SigningKey, KeyError> {
    if let Some(key) = SigningKey::read(path)? {
        return Ok(key);
    }
    let key = SigningKey::read_or_make(path)?;
    let has_joined = |sku: &Sku| {
        let line = sku.board.as_ref().and_then(|board| board.read());
        line.is_some_and(|line| line.joined > 0)
    };
    if intake.shelf.current().skus.iter().any(has_joined) {
        let (file, public) = (path.display(), key.public());
        tracing::warn!(%file, public, "a new key signs draws and receipts from now on: put the old file back, or publish this key");
    }
    Ok(key)
}

/// The embedded profile: this process keeps the book.
fn open_book(
    config: &Config,
    secrets: &Secrets,
    mailbox: &Arc<Mailbox>,
    intake: &intake::Intake,
) -> Result<Opened, ServeError> {
    let (mut ledger, book) = open_ledger(config, secrets)?;
    if config.demo.is_some() && !ledger.is_for_demo(book.next_seq() == Seq(1))? {
        return Err(ServeError::NotADemo(ledger.to_string()));
    }
    intake.metrics.show_ledger(ledger.settings());
    let order_id = ledger.id_secret()?;
    let options = embedded::Options {
        batch_commands_max: config.ledger.batch_commands_max,
        address_retention_days: config.ledger.address_retention_days,
        clock: config.clock.checks(config.demo.is_some()),
    };
    let notes = ledger.clock_notes()?;
    let mut writer = Writer::new(book, ledger, Arc::clone(mailbox), intake.clone(), options, &notes);
    writer.prepare(missing_demo_sales(config, intake))?;
    Ok((Profile::Embedded(Box::new(writer)), order_id, Arc::default()))
}

/// The cluster profile: this process is one of many, and keeps nothing.
fn join_cluster(
    config: &Config,
    secrets: &Secrets,
    address: SocketAddr,
    mailbox: &Arc<Mailbox>,
    intake: &intake::Intake,
) -> Result<Opened, ServeError> {
    let name = watching::server_name(config, address);
    let mut stages = Stages::new(config, secrets, name, Arc::clone(mailbox), intake.clone())?;
    if config.demo.is_some() && !stages.is_for_demo()? {
        return Err(ServeError::NotADemo(config.ledger.mysql_options(secrets).to_string()));
    }
    stages.prepare(missing_demo_sales(config, intake))?;
    let (order_id, health) = (stages.id_secret()?, stages.health());
    Ok((Profile::Cluster(Box::new(stages)), order_id, health))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Servers that share the rate: one, unless it is a cluster.
fn servers(config: &Config) -> u32 {
    if config.cluster.enabled { config.cluster.servers } else { 1 }
}

fn open_ledger(config: &Config, secrets: &Secrets) -> Result<(Ledger, Book), ServeError> {
    let started = Instant::now();
    let mut ledger = match config.ledger.source(secrets) {
        Source::Directory(data_dir) => Ledger::from(
            SqliteLedger::open(sqlite::Options {
                data_dir,
                synchronous: config.ledger.synchronous,
                checkpoint_pages: config.ledger.checkpoint_pages,
                vfs: None,
            })
            .map_err(OpenError::from)?,
        ),
        Source::MySql(options) => Ledger::from(MySqlLedger::open(*options).map_err(OpenError::from)?),
    };
    // A new one has none before; the secrets of its lines are made of it.
    ledger.id_secret()?;
    let mut book = ledger.load()?;
    book.set_cool_down(config.sale.cool_down());
    book.set_line_places_max(config.line.places_max);
    let (orders, took) = (book.orders_len(), started.elapsed());
    tracing::info!(path = %ledger, orders, ?took, "the ledger is open");
    Ok((ledger, book))
}

/// The public's loops accept from the same socket; the operators have one of their own, on theirs.
fn event_loops(
    config: &Config,
    listeners: Listeners,
    tls: Option<&Tls>,
    stats: &Arc<NetStats>,
) -> io::Result<Vec<(Entrance, EventLoop)>> {
    let Listeners { public, operators } = listeners;
    let entrance = if operators.is_some() { Entrance::Public } else { Entrance::Only };
    let mut loops = Vec::with_capacity(config.http.threads + 1);
    for _ in 0..config.http.threads {
        let event_loop = EventLoop::new(public.try_clone()?, config.http.limits(), tls.map(Tls::config))?;
        loops.push((entrance, event_loop.with_stats(Arc::clone(stats))));
    }
    if let Some(listener) = operators {
        // What does not leave the machine needs no TLS, and the public's certificate would not be for this address.
        let tls = if listener.local_addr()?.ip().is_loopback() { None } else { tls.map(Tls::config) };
        let event_loop = EventLoop::new(listener, config.http.operator_limits(), tls)?;
        loops.push((Entrance::Operators, event_loop.with_stats(Arc::clone(stats))));
    }
    Ok(loops)
}

fn missing_demo_sales(config: &Config, intake: &intake::Intake) -> Vec<Command> {
    let Some(demo) = &config.demo else { return Vec::new() };
    let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let catalog = intake.shelf.current();
    if !demo.starts_in.is_zero() && catalog.sale(demo::FLASH_SALE).is_some() {
        tracing::warn!(
            "--starts-in has no effect: the demo's sale is in this data directory already; give another --data-dir"
        );
    }
    let sells_alone = !config.cluster.enabled;
    demo::sales(intake.clock.now(), ms(demo.starts_in), ms(config.sale.payment()), sells_alone)
        .into_iter()
        .filter(|sale| catalog.sale(sale.id).is_none())
        .map(Command::CreateSale)
        .collect()
}

fn page_settings(config: &Config, secrets: &Secrets) -> Settings {
    let session = match config.auth.buyer {
        BuyerAuth::Token => Session::Token,
        BuyerAuth::MemberId => Session::Edge,
        BuyerAuth::DemoCookie => Session::Demo,
    };
    let branding = Branding {
        accent: config.shop.accent(),
        logo: secrets.logo.clone(),
        sign_in_url: config.shop.sign_in_url.clone(),
        legal_links: config.shop.legal_links().map(|(text, url)| (text.to_owned(), url.to_owned())).collect(),
    };
    Settings {
        shop: config.shop.name.clone(),
        session,
        demo_pay: config.demo.is_some(),
        address_asked: match config.shop.address {
            Address::None | Address::Token => AddressAsked::Never,
            Address::Before => AddressAsked::Before,
            Address::After => AddressAsked::After,
        },
        refused_without_script: config.line.refused_without_script(),
        verification_url: config.line.verification_url.clone(),
        branding,
        languages: secrets.languages.clone().unwrap_or_else(Languages::built_in),
    }
}

fn http_options(config: &Config, secrets: &Secrets) -> HttpOptions {
    let rules = TokenRules {
        claim: config.auth.token_claim.clone(),
        issuer: config.auth.token_issuer.clone(),
        audience: config.auth.token_audience.clone(),
        with_address: config.shop.address == Address::Token,
        groups: config.auth.token_groups_claim.clone(),
    };
    HttpOptions {
        auth: match config.auth.buyer {
            BuyerAuth::Token => AuthMode::Token {
                secrets: both(&secrets.token, &secrets.token_previous),
                rules: rules.clone(),
            },
            BuyerAuth::MemberId => AuthMode::MemberId,
            BuyerAuth::DemoCookie => {
                AuthMode::DemoCookie { secret: secrets.token.as_ref().map_or_else(Box::default, bytes) }
            }
        },
        sessions: SessionOptions {
            rules,
            lasts_s: config.auth.session().as_secs(),
            shop_origins: config.auth.shop_origins.clone(),
        },
        allowed_origins: config.http.allowed_origins.clone(),
        public_names: config.http.public_names.clone(),
        body_bytes_max: config.http.body_bytes_max,
        operator_body_bytes_max: config.http.operator_body_bytes_max,
        pay_page: paying::page(config, secrets),
        stripe: secrets.stripe.is_some(),
        address_after: config.shop.address == Address::After,
        payment_tolerance_s: config.auth.payment_tolerance().as_secs(),
        payment_ms: u64::try_from(config.sale.payment().as_millis()).unwrap_or(u64::MAX),
        // A cluster can't keep that bound, so it has no default there.
        open_holds_per_buyer_max: if config.cluster.enabled {
            0
        } else {
            config.sale.open_holds_per_buyer_max
        },
        metrics_token_required: config.http.metrics_token_required,
        message_route: config.http.message_route,
        published_unlimited: config.published.unlimited,
        trusted_proxies: config.http.trusted_proxies(),
        anonymous_requests_per_s_per_address: config.admission.anonymous_requests_per_s_per_address,
        sessions_per_s_per_address: config.admission.sessions_per_s_per_address,
        demo: config.demo.is_some(),
        local_demo: config.demo.as_ref().is_some_and(|demo| !demo.public),
        shop_sale: config.demo.is_some().then_some(demo::SHOP_SALE),
        beacon: secrets.beacon.as_ref().map(Beacon::terms),
    }
}

fn http_secrets(secrets: &Secrets, order_id: [u8; 16]) -> HttpSecrets {
    HttpSecrets {
        pay_page: paying::page_key(secrets, &order_id),
        stripe: secrets.stripe_webhook.iter().map(bytes).collect(),
        session: both(&secrets.token, &secrets.token_previous),
        shop_keys: secrets.shop_keys.clone(),
        operator: both(&secrets.operator, &secrets.operator_previous),
        payment: both(&secrets.payment, &secrets.payment_previous),
        order_id,
    }
}

/// A secret, and the one before it while both are taken.
fn both(current: &Option<SecretBytes>, previous: &Option<SecretBytes>) -> Vec<Box<[u8]>> {
    current.iter().chain(previous).map(bytes).collect()
}

fn bytes(secret: &SecretBytes) -> Box<[u8]> {
    secret.as_bytes().into()
}

/// Runs the threads until the loops have drained, and then until the writer has finished.
fn serve(
    system: System,
    loops: Vec<(Entrance, EventLoop)>,
    behind: Behind,
    mailbox: &Arc<Mailbox>,
    shared: &Arc<Shared>,
    stop: &Stop,
    on_ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let Behind { profile, senders, duty } = behind;
    thread::scope(|scope| {
        // Also when a thread can't be started, or the writer fails.
        let ended = EndOnDrop(&duty);
        // Dropped when a thread can't be started: the scope waits for those that were, so they must end.
        let unfinished = AbortOnDrop(stop);
        let mut threads = Vec::with_capacity(loops.len());
        for (number, (entrance, mut event_loop)) in loops.into_iter().enumerate() {
            let mut service = HttpService::new(Arc::clone(shared), mailbox.client(number), entrance);
            let run = move || {
                // One loop that ends early, even by a panic, takes the others with it: no half a server.
                let _guard = StopOnDrop(stop);
                event_loop.run(&mut service, stop)
            };
            let thread = (system.thread)(format!("http-{number}")).spawn_scoped(scope, run);
            threads.push(thread.map_err(ServeError::Thread)?);
        }
        let running = (system.thread)(profile.thread_name().to_owned()).spawn_scoped(scope, || {
            let _guard = AbortOnDrop(stop);
            profile.run(stop)
        });
        let running = running.map_err(ServeError::Thread)?;
        let mut sender_threads = Vec::with_capacity(senders.len());
        for sender in senders {
            let thread = (system.thread)("webhooks".to_owned()).spawn_scoped(scope, || sender.run());
            sender_threads.push(thread.map_err(ServeError::Thread)?);
        }
        std::mem::forget(unfinished);
        on_ready();
        let mut looped = Ok(());
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|_panic| Err(io::Error::other("it panicked")));
            looped = looped.and(ended);
        }
        // Before the writer, which keeps what it said.
        shared.rehearsals.end();
        // Before the writer, which stores how far they came.
        drop(ended);
        for thread in sender_threads {
            if thread.join().is_err() {
                tracing::error!(
                    "a thread that sends webhooks panicked; what it had not sent is sent after the next start"
                );
            }
        }
        mailbox.close();
        match running.join() {
            Err(_panic) => Err(ServeError::ProfilePanicked),
            Ok(Err(error @ AppendError::Fenced(_))) => Err(ServeError::TakenOver(error)),
            Ok(Err(error)) => Err(ServeError::Ledger(error)),
            Ok(Ok(())) => looped.map_err(ServeError::EventLoop),
        }
    })
}

/// Stops the other loops when one ends.
struct StopOnDrop<'a>(&'a Stop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

/// Ends the senders.
struct EndOnDrop<'a>(&'a Duty);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// When the writer ends while loops run, it failed: nothing can be accepted any more.
struct AbortOnDrop<'a>(&'a Stop);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
