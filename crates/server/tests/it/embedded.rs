//! The book writer with its real ledger, driven through the mailbox as an event loop would.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::{
    Accepted, BuyerId, Command, Fingerprint, OrderId, OrderView, Pay, Payment, Placement, Refusal, SaleId,
    SaleSpec, SkuId, Status, UnixMs,
};
use faultvfs::{Effect, Fault, FaultVfs, Operation, Which};
use server::clock::{Checks, Trust, WallClock, wall_clock};
use server::embedded::{Options, Writer};
use server::intake::admission::{BuyerBounds, Limits, NotAdmitted};
use server::intake::{Envelope, Intake, Judged, Mailbox, MailboxClient, NewOrder, Reply, Request};
use server::ledger::sqlite::{self, SqliteLedger, Synchronous, audit};
use server::ledger::{AppendError, Ledger};
use server::net::{self, EventLoop, Ticket};

use crate::history::sale;

/// A writer on its thread, and the loop that would be woken by its answers.
pub(crate) struct Harness {
    pub(crate) client: MailboxClient,
    mailbox: Arc<Mailbox>,
    pub(crate) shared: Intake,
    thread: JoinHandle<Result<(), AppendError>>,
    next_ticket: u32,
    _event_loop: EventLoop,
}

pub(crate) const NO_LIMITS: Limits = Limits {
    orders_per_s: 0,
    burst: 0,
    orders_per_s_per_buyer: 0,
    in_flight_max: 0,
    in_flight_per_buyer_max: 0,
    gate_judges: false,
};

/// Of a system that does not say that its clock is synchronised.
pub(crate) const CHECKS: Checks =
    Checks { jump_ms_max: 600_000, trust: Trust::Ask, demo: false, is_synchronised: || false };

impl Harness {
    pub(crate) fn start(dir: &std::path::Path, vfs: Option<&str>, limits: Limits) -> Harness {
        let ledger = SqliteLedger::open(sqlite::Options {
            data_dir: dir.to_owned(),
            synchronous: Synchronous::Full,
            checkpoint_pages: 64,
            vfs: vfs.map(str::to_owned),
        })
        .unwrap();
        Harness::over(ledger.into(), limits)
    }

    pub(crate) fn over(ledger: Ledger, limits: Limits) -> Harness {
        Harness::at(wall_clock, ledger, limits, CHECKS)
    }

    pub(crate) fn at(wall: WallClock, mut ledger: Ledger, limits: Limits, checks: Checks) -> Harness {
        let book = ledger.load().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let event_loop = EventLoop::new(listener, net::Limits::default(), None).unwrap();
        let mailbox = Mailbox::new(vec![event_loop.waker()], 10_000);
        let shared = Intake::new(wall, limits);
        let notes = ledger.clock_notes().unwrap();
        let options = Options { batch_commands_max: 4_096, address_retention_days: 90, clock: checks };
        let mut writer = Writer::new(book, ledger, Arc::clone(&mailbox), shared.clone(), options, &notes);
        writer.prepare(Vec::new()).unwrap();
        Harness {
            client: mailbox.client(0),
            mailbox,
            shared,
            thread: std::thread::spawn(move || writer.run()),
            next_ticket: 0,
            _event_loop: event_loop,
        }
    }

    /// Hands one batch over and waits for all of its answers, in order.
    pub(crate) fn ask(&mut self, requests: Vec<Request>) -> Vec<Reply> {
        self.ask_unless_ended(requests).expect("the writer has ended")
    }

    /// The same; none if the writer ends instead of answering.
    pub(crate) fn ask_unless_ended(&mut self, requests: Vec<Request>) -> Option<Vec<Reply>> {
        let count = requests.len();
        let mut batch = Vec::new();
        for request in requests {
            self.next_ticket += 1;
            let ticket = Ticket { connection: 0, generation: self.next_ticket };
            assert!(self.client.reserve(), "the mailbox is large");
            batch.push(Envelope { event_loop: 0, ticket, request });
        }
        self.client.submit(&mut batch);
        let (mut replies, mut taken) = (Vec::new(), Vec::new());
        wait_until(|| {
            // Before the answers are taken: its last ones are there when it has ended.
            let ended = self.thread.is_finished();
            self.client.take(&mut taken);
            replies.append(&mut taken);
            replies.len() == count || ended
        });
        (replies.len() == count).then(|| replies.into_iter().map(|(_, reply)| reply).collect())
    }

    pub(crate) fn one(&mut self, request: Request) -> Reply {
        self.ask(vec![request]).pop().unwrap()
    }

    pub(crate) fn available(&self, sku: u32) -> u64 {
        self.shared.shelf.current().sku(SkuId(sku)).unwrap().counters.available()
    }

    pub(crate) fn finish(self) -> Result<(), AppendError> {
        self.mailbox.close();
        self.thread.join().unwrap()
    }
}

/// A disk that has no room from the `nth` write on, until it is disarmed.
pub(crate) fn full_disk(nth: u64) -> Fault {
    let (operation, effect) = (Operation::Write, Effect::DiskFull);
    Fault { operation, nth, effect, lasting: true, files: Which::Any }
}

pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(30), "it did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A sale that is open now, with so much time to pay.
pub(crate) fn open_sale(payment_ms: u64) -> Request {
    let spec = SaleSpec {
        starts_at: UnixMs(0),
        ends_at: UnixMs(engine::limits::SALE_TIME_MS_MAX),
        payment: Payment::WithinMs(payment_ms),
        ..sale(1)
    };
    Request::Execute(Command::CreateSale(spec))
}

pub(crate) fn order(hash: u128, buyer: u64, quantity: u32) -> Request {
    let place = Placement {
        id: OrderId { sku: SkuId(0), hash },
        buyer: BuyerId(buyer.into()),
        quantity,
        fingerprint: Fingerprint(u64::from(quantity)),
    };
    let admission = Judged::ByTheProfile { over: None, bounds: BuyerBounds::Kept };
    let address = Some(br#"{"city":"Bonn"}"#.as_slice().into());
    let asked_at = server::time::Instant::now();
    Request::Place(NewOrder { placement: place, buyer_text: None, address, admission, asked_at })
}

pub(crate) fn read(hash: u128) -> Request {
    let order = OrderId { sku: SkuId(0), hash };
    Request::Read { order, buyer: None, wait: Duration::ZERO, with_address: false }
}

#[track_caller]
pub(crate) fn accepted(reply: &Reply) -> (OrderView, bool) {
    match reply {
        Reply::Accepted(Accepted::Order { order, replayed }) => (*order, *replayed),
        other => panic!("not an accepted order: {other:?}"),
    }
}

#[test]
fn the_same_key_in_the_same_batch_is_one_order_and_another_body_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Harness::start(dir.path(), None, NO_LIMITS);
    writer.one(open_sale(60_000));
    let same = || order(1, 7, 1);
    let replies = writer.ask(vec![same(), same(), order(1, 7, 2), read(1), read(2)]);
    let ((first, fresh), (again, replayed)) = (accepted(&replies[0]), accepted(&replies[1]));
    assert_eq!((first, fresh, replayed), (again, false, true));
    assert!(matches!(replies[2], Reply::Refused(Refusal::KeyConflict)));
    assert!(matches!(&replies[3], Reply::Order(order) if order.buyer == BuyerId(7)));
    assert!(matches!(replies[4], Reply::Refused(Refusal::UnknownOrder)));
    assert_eq!(writer.available(0), 19);
    writer.finish().unwrap();
    assert_eq!(audit(dir.path()).unwrap().orders, 1);
}

#[test]
fn a_known_key_is_answered_when_sold_out_paused_over_the_rate_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let one_per_hour = Limits { orders_per_s: 1, burst: 1, ..NO_LIMITS };
    let mut writer = Harness::start(dir.path(), None, one_per_hour);
    writer.one(open_sale(60_000));
    let (first, _) = accepted(&writer.one(order(1, 7, 1)));
    let over = writer.one(order(2, 8, 1));
    assert!(matches!(over, Reply::NotAdmitted(NotAdmitted::RateLimited { .. })), "{over:?}");
    assert_eq!(accepted(&writer.one(order(1, 7, 1))), (first, true));
    writer.one(Request::SetBalance { sale: SaleId(1), balance: 0 });
    assert!(matches!(writer.one(order(3, 9, 1)), Reply::NotAdmitted(NotAdmitted::Refused(Refusal::SoldOut))));
    assert_eq!(accepted(&writer.one(order(1, 7, 1))), (first, true));
    writer.one(Request::Execute(Command::Pause(SaleId(1))));
    assert_eq!(accepted(&writer.one(order(1, 7, 1))), (first, true));
    writer.one(Request::Execute(Command::End(SaleId(1))));
    assert_eq!(accepted(&writer.one(order(1, 7, 1))), (first, true));
    writer.finish().unwrap();
    let mut writer = Harness::start(dir.path(), None, one_per_hour);
    assert_eq!(accepted(&writer.one(order(1, 7, 1))), (first, true));
    writer.finish().unwrap();
}

#[test]
fn an_unpaid_hold_expires_by_itself_and_its_units_are_on_sale_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Harness::start(dir.path(), None, NO_LIMITS);
    // Far more than the test takes; its time is over when the test moves the clock.
    const PAYMENT_MS: u64 = 3_600_000;
    writer.ask(vec![open_sale(PAYMENT_MS), Request::SetBalance { sale: SaleId(1), balance: 1 }]);
    let (held, _) = accepted(&writer.one(order(1, 7, 1)));
    assert_eq!((held.status, writer.available(0)), (Status::Held, 0));
    writer.shared.clock.advance_to(held.placed_at.plus(PAYMENT_MS / 2));
    assert!(matches!(writer.one(read(1)), Reply::Order(order) if order.status == Status::Held), "too soon");
    // Nobody asks for anything: the writer wakes by itself.
    writer.shared.clock.advance_to(held.placed_at.plus(PAYMENT_MS));
    wait_until(|| writer.available(0) == 1);
    assert!(matches!(writer.one(read(1)), Reply::Order(order) if order.status == Status::Expired));
    accepted(&writer.one(order(2, 8, 1)));
    // The late payment of the first finds no unit: recorded, and a refund is due.
    let pay = Pay { id: "p1".into(), order: held.id, amount: 4_999 };
    writer.one(Request::Execute(Command::Pay(pay)));
    assert!(matches!(writer.one(Request::RefundsDue), Reply::RefundsDue(due) if due.len() == 1));
    writer.finish().unwrap();
    assert_eq!(audit(dir.path()).unwrap().broken, Vec::<String>::new());
}

#[test]
fn a_commit_that_is_rolled_back_answers_unknown_and_service_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = FaultVfs::register("writer-rolled-back");
    let mut writer = Harness::start(dir.path(), Some("writer-rolled-back"), NO_LIMITS);
    writer.one(open_sale(60_000));
    let (first, _) = accepted(&writer.one(order(1, 7, 1)));
    vfs.arm(full_disk(1));
    // All of the batch, the replay and the refusal too: they may have seen what is not there now.
    let replies = writer.ask(vec![order(2, 8, 1), order(1, 7, 1), order(3, 8, 9)]);
    assert!(replies.iter().all(|reply| matches!(reply, Reply::Unknown)), "{replies:?}");
    assert!(vfs.fired() > 0);
    // While the disk is full: reads and known keys are answered, the rest is refused before it is started.
    // That an order does not exist is not known before the log was written again.
    assert!(matches!(writer.one(read(1)), Reply::Order(order) if order.id == first.id));
    assert!(matches!(writer.one(read(2)), Reply::Unknown));
    assert_eq!(accepted(&writer.one(order(1, 7, 1))), (first, true));
    assert!(matches!(writer.one(order(4, 9, 1)), Reply::Unavailable));
    assert!(writer.client.read_only());
    vfs.disarm();
    wait_until(|| !writer.client.read_only());
    assert!(matches!(writer.one(read(2)), Reply::Refused(Refusal::UnknownOrder)));
    let (second, replayed) = accepted(&writer.one(order(2, 8, 1)));
    assert!(!replayed);
    assert_eq!(writer.available(0), 18);
    assert!(matches!(writer.one(read(2)), Reply::Order(order) if order.id == second.id));
    assert_eq!(writer.shared.metrics.commits_failed.get(), 1);
    writer.finish().unwrap();
    let audit = audit(dir.path()).unwrap();
    assert_eq!((audit.orders, audit.broken), (2, Vec::new()));
}

#[test]
fn a_ledger_that_was_removed_or_replaced_ends_the_writer_and_is_rescued() {
    type Slip = fn(&std::path::Path);
    let slips: [Slip; 3] = [
        |dir| std::fs::remove_file(dir.join("ledger.db")).unwrap(),
        |dir| std::fs::remove_file(dir.join("ledger.db-wal")).unwrap(),
        |dir| {
            std::fs::copy(dir.join("ledger.db"), dir.join("copy")).unwrap();
            std::fs::rename(dir.join("copy"), dir.join("ledger.db")).unwrap();
        },
    ];
    for slip in slips {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Harness::start(dir.path(), None, NO_LIMITS);
        writer.one(open_sale(60_000));
        accepted(&writer.one(order(1, 7, 1)));
        slip(dir.path());
        assert!(
            matches!(writer.one(order(2, 8, 1)), Reply::Unknown),
            "nobody is answered that it is on disk"
        );
        let result = writer.thread.join().unwrap();
        assert!(matches!(result, Err(AppendError::Misplaced(_))), "{result:?}");
        // As the log says: the copy in place of what is there. It has both, and a retry is answered.
        for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
            drop(std::fs::remove_file(dir.path().join(name)));
        }
        std::fs::rename(dir.path().join("ledger.db.rescued"), dir.path().join("ledger.db")).unwrap();
        let mut writer = Harness::start(dir.path(), None, NO_LIMITS);
        assert!(accepted(&writer.one(order(1, 7, 1))).1);
        assert!(accepted(&writer.one(order(2, 8, 1))).1);
        writer.finish().unwrap();
        assert_eq!(audit(dir.path()).unwrap().broken, Vec::<String>::new());
    }
}

#[test]
fn a_start_on_a_full_disk_answers_what_is_known_and_writes_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let image = tempfile::tempdir().unwrap();
    let before = FaultVfs::register("writer-before-full-start");
    before.record_unsynced(true);
    let mut writer = Harness::start(dir.path(), Some("writer-before-full-start"), NO_LIMITS);
    writer.one(open_sale(60_000));
    accepted(&writer.one(order(1, 7, 1)));
    before.process_kill(image.path()).unwrap();
    let vfs = FaultVfs::register("writer-full-start");
    vfs.arm(full_disk(1));
    let mut again = Harness::start(image.path(), Some("writer-full-start"), NO_LIMITS);
    assert!(vfs.fired() > 0);
    assert!(matches!(again.one(read(1)), Reply::Order(_)));
    assert!(accepted(&again.one(order(1, 7, 1))).1);
    assert!(matches!(again.one(order(2, 8, 1)), Reply::Unavailable));
    assert!(again.client.read_only());
    vfs.disarm();
    wait_until(|| !again.client.read_only());
    assert!(!accepted(&again.one(order(2, 8, 1))).1);
    again.finish().unwrap();
    let audit = audit(image.path()).unwrap();
    assert_eq!((audit.orders, audit.broken), (2, Vec::new()));
    writer.finish().unwrap();
}

#[test]
fn who_is_over_the_limit_takes_nothing_from_the_shared_rate() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { orders_per_s: 1, burst: 3, ..NO_LIMITS };
    let mut writer = Harness::start(dir.path(), None, limits);
    writer.one(open_sale(60_000));
    // Two units each; what is refused is given back, however often it is asked for.
    accepted(&writer.one(order(1, 7, 2)));
    for hash in 10..30 {
        assert!(matches!(writer.one(order(hash, 7, 2)), Reply::Refused(Refusal::OverLimit)));
    }
    accepted(&writer.one(order(2, 8, 1)));
    writer.finish().unwrap();
}

/// What was taken of the shared rate was lost with the answer 503, so a full disk also starved the rate.
#[test]
fn an_order_that_finds_no_ledger_gives_back_what_it_took_from_the_rate() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = FaultVfs::register("writer-gives-back");
    let limits = Limits { orders_per_s: 1, burst: 2, ..NO_LIMITS };
    let mut writer = Harness::start(dir.path(), Some("writer-gives-back"), limits);
    writer.one(open_sale(60_000));
    vfs.arm(full_disk(1));
    assert!(matches!(writer.one(Request::Execute(Command::Pause(SaleId(1)))), Reply::Unknown));
    for buyer in 1..20_u64 {
        // As an event loop judges an order without a key.
        let Intake { admission, shelf, clock, .. } = &writer.shared;
        let asked = (BuyerId(buyer.into()), SkuId(0));
        let admitted = admission.admit(&shelf.current(), asked, BuyerBounds::Kept, clock.now());
        let permit = admitted.expect("what the orders before it took was given back");
        let Request::Place(new) = order(buyer.into(), buyer, 1) else {
            unreachable!("that is what it makes")
        };
        let new = NewOrder { admission: Judged::ByTheLoop(permit), ..new };
        assert!(matches!(writer.one(Request::Place(new)), Reply::Unavailable));
    }
    vfs.disarm();
    wait_until(|| !writer.client.read_only());
    accepted(&writer.one(order(30, 30, 1)));
    writer.finish().unwrap();
}

#[test]
fn a_failed_sync_answers_unknown_and_ends_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = FaultVfs::register("writer-failed-sync");
    vfs.record_unsynced(true);
    let mut writer = Harness::start(dir.path(), Some("writer-failed-sync"), NO_LIMITS);
    writer.one(open_sale(60_000));
    accepted(&writer.one(order(1, 7, 1)));
    vfs.arm(Fault {
        operation: Operation::Sync,
        nth: 1,
        effect: Effect::IoError,
        lasting: false,
        files: Which::Any,
    });
    assert!(matches!(writer.one(order(2, 8, 1)), Reply::Unknown));
    let image = tempfile::tempdir().unwrap();
    let result = writer.thread.join().unwrap();
    assert!(matches!(result, Err(AppendError::SyncFailed(_))), "{result:?}");
    vfs.process_kill(image.path()).unwrap();
    // At the next start it is decided: the retry is answered, with the order that came back or with a new one.
    let mut writer = Harness::start(image.path(), None, NO_LIMITS);
    accepted(&writer.one(order(1, 7, 1)));
    accepted(&writer.one(order(2, 8, 1)));
    assert_eq!(writer.available(0), 18);
    writer.finish().unwrap();
    assert_eq!(audit(image.path()).unwrap().broken, Vec::<String>::new());
}
