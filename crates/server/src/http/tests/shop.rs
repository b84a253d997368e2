//! A shop under test: the service of one loop, and a writer on this thread with the engine's real book.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::draw::LedgerSecret;
use engine::{
    Accepted, Book, Command, ItemSpec, KeptAddress, OrderId, Payment, ProductId, SaleId, SaleSpec, UnixMs,
};

use super::Response;
use crate::figures::{Looking, Watched};
use crate::http::delivery::Delivery;
use crate::http::{
    AuthMode, Entrance, HttpOptions, HttpSecrets, HttpService, Parts, Reads, SessionOptions, Shared,
    TokenRules,
};
use crate::image_origins::ImageOrigins;
use crate::intake::admission::Limits;
use crate::intake::catalog::Catalog;
use crate::intake::{Envelope, Intake, Judged, Mailbox, NewOrder, Reply, Request};
use crate::ledger::Batch;
use crate::ledger::Source;
use crate::ledger::sqlite::{Options, SqliteLedger, Synchronous};
use crate::net::{
    Answer, EventLoop, HttpRequest, NetStats, ResponseWriter, Service, Stop, Ticket, TrustedProxies,
};
use crate::pages::{AddressAsked, Branding, Languages, Pages, Session, Settings};
use crate::rehearsals::{Rehearsals, RehearseCommand};
use crate::shop_keys::KeySource;
use crate::signing::SigningKey;
use crate::time::Instant;
use crate::verifier::Verifier;

pub(super) const NOW: UnixMs = UnixMs(1_700_000_000_000);
pub(super) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
pub(super) const OPERATOR: &str = "Bearer the operator's token";
/// The flash sale: product 29 has plenty, 30 has 2 units and limit 1, 31 has none.
pub(super) const SALE: SaleId = SaleId(3);
pub(super) const SHOP_SALE: SaleId = SaleId(1);

fn wall() -> UnixMs {
    NOW
}

/// How the shop is set up.
pub(super) struct Setup {
    pub(super) options: HttpOptions,
    pub(super) secrets: HttpSecrets,
    pub(super) limits: Limits,
    /// Requests that the mailbox has room for.
    pub(super) queue_commands_max: usize,
    /// What happens to the book is written to a real ledger too.
    pub(super) ledger: bool,
    pub(super) shop_key_source: Option<KeySource>,
    pub(super) image_origins: ImageOrigins,
    pub(super) verifier: Verifier,
    /// What its pages say of it.
    pub(super) refused_without_script: Option<&'static str>,
    pub(super) rehearse: Option<RehearseCommand>,
}

impl Setup {
    pub(super) fn new(auth: AuthMode) -> Setup {
        let options = HttpOptions {
            auth,
            sessions: SessionOptions {
                rules: TokenRules { claim: "sub".to_owned(), ..TokenRules::default() },
                lasts_s: 300,
                shop_origins: vec!["https://login.example".to_owned()],
            },
            allowed_origins: vec!["https://shop.example".to_owned()],
            public_names: Vec::new(),
            body_bytes_max: 16 * 1024,
            operator_body_bytes_max: 1024 * 1024,
            pay_page: None,
            stripe: false,
            address_after: false,
            payment_tolerance_s: 300,
            payment_ms: 900_000,
            open_holds_per_buyer_max: 5,
            metrics_token_required: false,
            message_route: true,
            published_unlimited: false,
            trusted_proxies: TrustedProxies::default(),
            anonymous_requests_per_s_per_address: 0,
            sessions_per_s_per_address: 0,
            demo: true,
            local_demo: true,
            shop_sale: Some(SHOP_SALE),
            beacon: None,
        };
        let secrets = HttpSecrets {
            session: vec![Box::from(SECRET)],
            shop_keys: None,
            operator: vec![Box::from(&OPERATOR.as_bytes()["Bearer ".len()..])],
            payment: vec![Box::from(SECRET)],
            pay_page: Some(Box::from(SECRET)),
            stripe: vec![Box::from(SECRET)],
            order_id: [7; 16],
        };
        let limits = Limits {
            orders_per_s: 0,
            burst: 0,
            orders_per_s_per_buyer: 0,
            in_flight_max: 0,
            in_flight_per_buyer_max: 0,
            gate_judges: false,
        };
        Setup {
            options,
            secrets,
            limits,
            queue_commands_max: 1024,
            ledger: false,
            shop_key_source: None,
            image_origins: ImageOrigins::default(),
            verifier: Verifier::None,
            refused_without_script: None,
            rehearse: None,
        }
    }
}

pub(super) fn token_mode() -> AuthMode {
    let rules = TokenRules { claim: "sub".to_owned(), ..TokenRules::default() };
    AuthMode::Token { secrets: vec![SECRET.into()], rules }
}

pub(super) fn demo_mode() -> AuthMode {
    AuthMode::DemoCookie { secret: SECRET.into() }
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
    pub(super) peer: [u8; 4],
}

impl Sent {
    pub(super) fn new(method: &str, target: &str) -> Sent {
        let headers = vec![("Host".to_owned(), b"here".to_vec())];
        Sent {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            body: Vec::new(),
            peer: [127, 0, 0, 1],
        }
    }

    pub(super) fn get(target: &str) -> Sent {
        Sent::new("GET", target)
    }

    pub(super) fn post(target: &str, body: &str) -> Sent {
        Sent { body: body.as_bytes().to_vec(), ..Sent::new("POST", target) }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Sent {
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    pub(super) fn from(self, peer: [u8; 4]) -> Sent {
        Sent { peer, ..self }
    }

    pub(super) fn member(self, buyer: u64) -> Sent {
        self.with("memberId", &buyer.to_string())
    }

    pub(super) fn key(self, key: &str) -> Sent {
        self.with("Idempotency-Key", key)
    }

    pub(super) fn operator(self) -> Sent {
        self.with("Authorization", OPERATOR)
    }
}

/// Answers that came later, as bytes.
#[derive(Debug, Default)]
pub(super) struct Delivered(pub(super) Vec<(Ticket, Vec<u8>)>);

impl Delivery for Delivered {
    fn reply(&mut self, ticket: Ticket, write: impl FnOnce(&mut ResponseWriter<'_>)) -> bool {
        self.0.push((ticket, ResponseWriter::render(write)));
        true
    }

    fn part(&mut self, ticket: Ticket, bytes: &[u8]) -> bool {
        self.0.push((ticket, bytes.to_vec()));
        true
    }

    fn has_taken_parts(&self, _ticket: Ticket) -> Option<bool> {
        Some(true)
    }

    fn end(&mut self, ticket: Ticket) {
        self.0.push((ticket, Vec::new()));
    }
}

pub(super) struct Shop {
    pub(super) shared: Arc<Shared>,
    pub(super) service: HttpService,
    pub(super) book: Book,
    /// The commits of the writer fail.
    pub(super) failing: bool,
    pub(super) stop: Stop,
    mailbox: Arc<Mailbox>,
    catalog: Arc<Catalog>,
    /// In place of the ledger's.
    addresses: HashMap<OrderId, Box<[u8]>>,
    ledger: Option<SqliteLedger>,
    pub(super) looking: Looking,
    next: u32,
    _data_dir: tempfile::TempDir,
}

impl Shop {
    pub(super) fn new(auth: AuthMode) -> Shop {
        Shop::with(Setup::new(auth))
    }

    pub(super) fn with(setup: Setup) -> Shop {
        let data_dir = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let waker = EventLoop::new(listener, crate::net::Limits::default(), None).unwrap().waker();
        let stop = Stop::new();
        let ledger = Source::Directory(data_dir.path().to_owned());
        let reads = Reads::start(ledger.clone(), vec![waker.clone()], stop.clone());
        let settings = page_settings(&setup.options, setup.refused_without_script);
        let mailbox = Mailbox::new(vec![waker], setup.queue_commands_max);
        let intake = Intake::new(wall, setup.limits);
        let looking = look(&intake, &mailbox, &stop, data_dir.path());
        let rehearsals = Rehearsals::new(setup.rehearse, intake.clone(), mailbox.asker(), stop.clone());
        let parts = Parts {
            health: Arc::default(),
            clock: intake.clock,
            shelf: intake.shelf,
            admission: intake.admission,
            metrics: intake.metrics,
            net: Arc::new(NetStats::default()),
            operators: intake.operators,
            attempts: intake.attempts,
            figures: looking.figures(),
            rehearsals,
            pages: Pages::new(settings),
            reads,
            images: (ledger, setup.image_origins),
            shop_key_source: setup.shop_key_source,
            webhooks: Vec::new(),
            stripe: None,
            verifier: setup.verifier,
            signing_key: Some(SigningKey::of_seed([7; 32])),
            stop: stop.clone(),
        };
        let shared = Shared::new(parts, setup.options, &setup.secrets);
        let mut service = HttpService::new(Arc::clone(&shared), mailbox.client(0), Entrance::Only);
        service.delayed.delay = Duration::ZERO;
        let options = Options {
            data_dir: data_dir.path().to_owned(),
            synchronous: Synchronous::Off,
            checkpoint_pages: 1000,
            vfs: None,
        };
        let ledger = setup.ledger.then(|| SqliteLedger::open(options).unwrap());
        let mut shop = Shop {
            shared,
            service,
            book: book(),
            failing: false,
            mailbox,
            stop,
            catalog: Arc::default(),
            addresses: HashMap::new(),
            ledger,
            looking,
            next: 0,
            _data_dir: data_dir,
        };
        shop.execute(Command::CreateSale(shop_sale()));
        shop.execute(Command::CreateSale(flash_sale()));
        shop
    }

    /// The service of another event loop of the same server.
    pub(super) fn another_loop(&self) -> HttpService {
        self.at(Entrance::Only)
    }

    /// The service of a loop at this listener.
    pub(super) fn at(&self, entrance: Entrance) -> HttpService {
        let mut service = HttpService::new(Arc::clone(&self.shared), self.mailbox.client(0), entrance);
        service.delayed.delay = Duration::ZERO;
        service
    }

    /// Does something to the book without HTTP.
    pub(super) fn execute(&mut self, command: Command) -> Accepted {
        let accepted = self.book.execute(self.shared.clock.now(), command).unwrap();
        self.publish();
        self.service.round_ended();
        accepted
    }

    /// The same, published at once.
    pub(super) fn execute_all(&mut self, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            self.book.execute(self.shared.clock.now(), command).unwrap();
        }
        self.publish();
    }

    /// Moves the clock forward.
    pub(super) fn advance(&mut self, ms: u64) {
        self.shared.clock.advance_to(self.shared.clock.now().plus(ms));
        let now = self.shared.clock.now();
        self.book.expire_due(now, 1000);
        self.book.call_due(now, 1000, u32::MAX);
        self.publish();
    }

    fn publish(&mut self) {
        let mut entries = Vec::new();
        self.book.drain_journal(&mut entries);
        if let Some(ledger) = &mut self.ledger {
            let batch = Batch {
                entries: &entries,
                addresses: &[],
                buyers: &[],
                messages: &[],
                at: self.shared.clock.now(),
            };
            ledger.append(&batch).unwrap();
        }
        self.shared.operators.publish(self.book.operators());
        let changed = entries.iter().any(|entry| entry.event.is_about_a_sale());
        let catalog = changed.then(|| Catalog::of(self.book.registry(), &self.catalog));
        let skus = catalog.as_ref().map_or(&self.catalog.skus, |catalog| &catalog.skus);
        self.book.drain_touched(|sku, stock| skus[sku.0 as usize].counters.publish(stock));
        let board = |sku: engine::SkuId| skus[sku.0 as usize].board.as_ref().unwrap();
        let now = self.shared.clock.now();
        self.book.drain_moved_lines(|sku, line, message| board(sku).publish(now, line, message));
        if let Some(catalog) = catalog {
            self.catalog = self.shared.shelf.publish(catalog);
        }
    }

    /// Hands a request to the service; `None`: the answer comes later.
    pub(super) fn call(&mut self, sent: &Sent) -> (Ticket, Option<Response>) {
        self.next += 1;
        let ticket = Ticket { connection: 5, generation: self.next };
        let (path, query) = sent.target.split_once('?').unwrap_or((&sent.target, ""));
        let headers: Vec<_> =
            sent.headers.iter().map(|(name, value)| httparse::Header { name, value }).collect();
        let request = HttpRequest {
            method: &sent.method,
            path,
            query,
            headers: &headers,
            body: &sent.body,
            peer: (sent.peer, 40_000).into(),
            secure: false,
        };
        let mut answer = Answer::Ready;
        let bytes = ResponseWriter::render(|writer| {
            answer = self.service.call(&request, ticket, writer);
            if answer == Answer::Later {
                writer.head(204).empty();
            }
        });
        (ticket, (answer != Answer::Later).then(|| Response::read(&bytes)))
    }

    /// One round of the writer: carries out what waits, publishes, answers.
    pub(super) fn write(&mut self) {
        let envelopes = self.waiting();
        self.carry_out_all(envelopes);
    }

    fn waiting(&mut self) -> Vec<Envelope> {
        self.service.round_ended();
        let mut envelopes = Vec::new();
        self.mailbox.drain(&mut envelopes, 1024, Duration::ZERO);
        envelopes
    }

    fn carry_out_all(&mut self, envelopes: Vec<Envelope>) {
        let before = self.failing.then(|| self.book.clone());
        let mut replies: Vec<_> = envelopes
            .into_iter()
            .map(|Envelope { event_loop, ticket, request }| (event_loop, ticket, self.carry_out(request)))
            .collect();
        if let Some(before) = before {
            self.book = before;
            replies.iter_mut().for_each(|(_, _, reply)| *reply = Reply::Unknown);
        }
        self.publish();
        // Threads beside the loop ask, too.
        for (event_loop, ticket, reply) in replies {
            self.mailbox.answer(event_loop, &mut vec![(ticket, reply)]);
        }
    }

    fn carry_out(&mut self, request: Request) -> Reply {
        let now = self.shared.clock.now();
        let answer = |result| match result {
            Ok(accepted) => Reply::Accepted(accepted),
            Err(refusal) => Reply::Refused(refusal),
        };
        match request {
            Request::Place(NewOrder { placement, address, admission: judged, .. }) => {
                if let Judged::ByTheProfile { over, bounds } = judged
                    && self.book.lookup(&placement).is_none()
                {
                    let known = (&self.book, &*self.catalog);
                    if let Err(why) =
                        self.shared.admission.admit_by_book(known, &placement, (over, bounds), now)
                    {
                        return Reply::NotAdmitted(why);
                    }
                }
                if let Some(address) = address {
                    self.addresses.entry(placement.id).or_insert(address);
                }
                answer(self.book.execute(now, Command::Place(placement)))
            }
            Request::Execute(Command::Address { order, buyer, address }) => {
                let kept = self.addresses.get(&order).cloned().map_or(KeptAddress::Missing, KeptAddress::Is);
                let given = self.book.give_address(now, (order, buyer), &address, &kept);
                if let Ok((_, Some(_))) = &given {
                    self.addresses.insert(order, address);
                }
                answer(given.map(|(order, entry)| Accepted::Order { order, replayed: entry.is_none() }))
            }
            Request::Execute(command) => answer(self.book.execute(now, command)),
            Request::Operate(command, by) => answer(self.book.execute_by(now, command, by)),
            Request::Read { order, buyer, with_address, .. } => match self.book.order(order) {
                Some(order) if buyer.is_none_or(|buyer| buyer == order.buyer) => match with_address {
                    false => Reply::Order(order),
                    true => Reply::AddressedOrder { order, address: self.addresses.get(&order.id).cloned() },
                },
                _ => Reply::Refused(engine::Refusal::UnknownOrder),
            },
            Request::Message(_) => Reply::Stored,
            Request::RefundsDue => Reply::RefundsDue(self.book.refunds_due().collect()),
            Request::Join { sku, buyer, verified, .. } => {
                let known = if verified { Ok(()) } else { self.book.known_to_lines_of_sale(sku, buyer) };
                answer(known.and_then(|()| self.book.execute(now, Command::Join { sku, buyer })))
            }
            Request::Receipt { sku, buyer } => match self.book.receipt(sku, buyer) {
                Ok(receipt) => Reply::Receipt(Box::new(receipt)),
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::SetBalance { .. } => Reply::BalanceSet { items: 2 },
            Request::ConfirmClock { .. } => Reply::ClockConfirmed { from: UnixMs(7), to: UnixMs(5) },
        }
    }

    /// Sends a request and lets the writer run until it is answered.
    pub(super) fn send(&mut self, sent: &Sent) -> Response {
        let (ticket, ready) = self.call(sent);
        if let Some(response) = ready {
            return response;
        }
        // Whatever the writer does not answer comes from the thread that reads the ledger or the one that renders.
        let until = Instant::now() + Duration::from_secs(60);
        let mut delivered = Delivered::default();
        self.write();
        loop {
            assert!(Instant::now() < until, "{sent:?} was never answered");
            // Only then: a catalog that is published again and again is rendered again and again.
            let envelopes = self.waiting();
            if !envelopes.is_empty() {
                self.carry_out_all(envelopes);
            }
            self.service.deliver_to(&mut delivered);
            if let Some((_, bytes)) = delivered.0.iter().find(|(found, _)| *found == ticket) {
                return Response::read(bytes);
            }
            std::thread::yield_now();
        }
    }

    /// So many may join each of its lines.
    pub(super) fn bound_lines(&mut self, places: u32) {
        self.book.set_line_places_max(places);
    }

    pub(super) fn data_dir(&self) -> &Path {
        self._data_dir.path()
    }

    /// A value of `/metrics`.
    pub(super) fn metric(&mut self, name: &str) -> i64 {
        let text = self.send(&Sent::get("/metrics")).text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
    }

    /// The stage's counters sum, whatever was done.
    pub(super) fn check_sums(&mut self) {
        let received = self.metric("doorbuster_orders_received_total");
        let outcomes = ["accepted", "replayed", "refused", "rejected", "unavailable", "unknown"]
            .map(|outcome| self.metric(&format!("doorbuster_orders_{outcome}_total")));
        let in_flight = self.metric("doorbuster_orders_in_flight");
        assert_eq!(received, outcomes.iter().sum::<i64>() + in_flight, "{outcomes:?} {in_flight}");
    }
}

fn look(intake: &Intake, mailbox: &Arc<Mailbox>, stop: &Stop, data_dir: &Path) -> Looking {
    let watched = Watched {
        intake: intake.clone(),
        net: Arc::default(),
        health: Arc::default(),
        client: mailbox.client(0),
        stop: stop.clone(),
        server: "here:80".to_owned(),
        data_dir: Some(data_dir.to_owned()),
        history_dir: Some(data_dir.to_owned()),
        ledger: None,
        cluster: None,
        measured_peak: None,
        webhooks: Vec::new(),
        beacon: None,
    };
    Looking::new(watched, Instant::now())
}

fn page_settings(options: &HttpOptions, refused_without_script: Option<&'static str>) -> Settings {
    Settings {
        shop: "Doorbuster".to_owned(),
        session: Session::Demo,
        demo_pay: true,
        address_asked: match options.address_after {
            true => AddressAsked::After,
            false => AddressAsked::Before,
        },
        refused_without_script,
        verification_url: None,
        branding: Branding::default(),
        languages: Languages::built_in(),
    }
}

pub(super) fn item(product: u64, total: u64, limit: Option<u32>) -> ItemSpec {
    ItemSpec {
        product: ProductId(product),
        title: format!("Product \"{product}\""),
        description: "A thing.".to_owned(),
        price: 499_900,
        list_price: 549_900,
        total,
        limit,
        image: None,
        line: None,
    }
}

pub(super) fn flash_sale() -> SaleSpec {
    SaleSpec {
        id: SALE,
        title: "Flash".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: NOW,
        ends_at: NOW.plus(3_600_000),
        payment: Payment::WithinMs(60_000),
        open_holds_per_buyer_max: None,
        items: vec![item(29, 1_000_000, None), item(30, 2, Some(1)), item(31, 0, None)],
    }
}

/// With the secret of the service.
fn book() -> Book {
    let mut book = Book::new();
    book.set_ledger_secret(LedgerSecret([7; 16]));
    book
}

fn shop_sale() -> SaleSpec {
    SaleSpec {
        id: SHOP_SALE,
        title: "Shop".to_owned(),
        payment: Payment::OnPlacing,
        items: vec![item(101, 10, None), item(102, 10, None)],
        ..flash_sale()
    }
}
