//! The writer's loop: batch by batch, from the mailbox to the synced ledger to the answers.

mod addresses;
mod lines;
mod timekeeping;
mod webhooks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Accepted, Book, BuyerId, Command, Entry, Event, OrderId, Placement, Refusal, Seq, UnixMs};

use super::balance::set_balance;
use crate::chores::{ClockWatch, Erasing, Purging};
use crate::clock::{Checks, Notes};
use crate::intake::admission::Permitted;
use crate::intake::catalog::Catalog;
use crate::intake::{Drained, Envelope, HoldEnded, Intake, Judged, Mailbox, NewOrder, Reply, Request};
use crate::ledger::{AppendError, Batch, Ledger};
use crate::net::Ticket;
use crate::recurring::Recurring;
use crate::webhooks::{Duty, Noticing};
use lines::{Reaching, publish_line};
use timekeeping::Timekeeper;

/// The longest that the writer waits for commands before it looks after holds and the ledger again.
const PATIENCE_MAX: Duration = Duration::from_millis(200);
/// Holds that expire with one batch: bounds the batch, the rest follow with the next.
const EXPIRIES_PER_BATCH: usize = 10_000;
/// Between two times that it is stored how far the shop's endpoints have come: each costs a sync.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// Between two tries to load the book while the disk refuses even reads.
const RELOAD_PAUSE: Duration = Duration::from_millis(250);
/// Between two lines in the log that say that the ledger is still away.
const LOG_PAUSE: Duration = Duration::from_secs(10);
/// From a failed commit to the first try to write again. Doubled, up to the maximum, each time that writing
/// fails again soon: on a nearly full disk a small write succeeds and the next batch does not, and each
/// failure costs a reload of the whole book.
const WRITE_PAUSE_MIN: Duration = Duration::from_millis(250);
const WRITE_PAUSE_MAX: Duration = Duration::from_secs(8);
const WRITE_AGAIN_SOON: Duration = Duration::from_secs(10);

/// Bounds of the writer.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Commands in one transaction.
    pub batch_commands_max: usize,
    /// Days after which the address of an order is removed.
    pub address_retention_days: u32,
    /// How the clock at the start is judged.
    pub clock: Checks,
}

/// Why what should be there at the start is not.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error("cannot prepare the sales: {0}")]
    Refused(Refusal),
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// The owner of the book and the ledger. Lives on one thread.
#[derive(Debug)]
pub struct Writer {
    book: Book,
    ledger: Ledger,
    mailbox: Arc<Mailbox>,
    shared: Intake,
    catalog: Arc<Catalog>,
    options: Options,
    entries: Vec<Entry>,
    addresses: Vec<(Seq, Box<[u8]>)>,
    /// Of them those of orders that were there before: the order's entry, and which it is.
    addressed: Vec<(Seq, usize)>,
    /// Texts of the batch's buyers who are hashes, by the entries that they came with.
    buyers: Vec<(Seq, Box<str>)>,
    messages: Vec<Box<[u8]>>,
    /// Per event loop.
    replies: Vec<Vec<(Ticket, Reply)>>,
    purging: Purging,
    erasing: Erasing,
    /// Has how far the shop's endpoints have come, which is to be stored.
    duty: Arc<Duty>,
    /// Only if the shop has endpoints.
    noticing: Option<Noticing>,
    progress_stored_at: Instant,
    clock_watch: ClockWatch,
    timekeeper: Timekeeper,
    reaching: Reaching,
    present_counted_at: Instant,
    /// When writing is tried again, while the ledger takes no write. Reads and known keys are answered from
    /// the book; nothing changes it.
    read_only: Option<Instant>,
    write_pause: Duration,
    writable_since: Instant,
    refusals: Recurring,
    checkpoints: Recurring,
    purges: Recurring,
    progress_stores: Recurring,
}

impl Writer {
    /// Takes over a loaded book: publishes it and sets the clock not behind it, or lets it stand if it can't be believed
    /// after what was noted of it.
    pub fn new(
        book: Book,
        ledger: impl Into<Ledger>,
        mailbox: Arc<Mailbox>,
        shared: Intake,
        options: Options,
        notes: &Notes,
    ) -> Writer {
        let end = (book.next_seq(), book.last_at());
        let timekeeper = Timekeeper::start(options.clock, notes, end, &shared.clock);
        let catalog = shared.shelf.publish(Catalog::of(book.registry(), &shared.shelf.current()));
        let replies = (0..mailbox.event_loops()).map(|_| Vec::new()).collect();
        let mut writer = Writer {
            book,
            ledger: ledger.into(),
            mailbox,
            shared,
            catalog,
            options,
            entries: Vec::new(),
            addresses: Vec::new(),
            addressed: Vec::new(),
            buyers: Vec::new(),
            messages: Vec::new(),
            replies,
            purging: Purging::new(options.address_retention_days),
            erasing: Erasing::default(),
            duty: Arc::default(),
            noticing: None,
            progress_stored_at: Instant::now(),
            clock_watch: ClockWatch::default(),
            timekeeper,
            reaching: Reaching::new(),
            present_counted_at: Instant::now(),
            read_only: None,
            write_pause: WRITE_PAUSE_MIN,
            writable_since: Instant::now(),
            refusals: Recurring::new("the ledger takes no writes yet; reads only"),
            checkpoints: Recurring::new("a checkpoint failed"),
            purges: Recurring::new("addresses could not be purged; tried again later"),
            progress_stores: Recurring::new(
                "how far the shop's endpoints have come could not be stored; tried again",
            ),
        };
        if writer.ledger.is_full() {
            writer.read_only = Some(Instant::now() + WRITE_PAUSE_MIN);
            writer.mailbox.set_read_only(true);
        }
        writer.publish_all();
        writer.catalog.count_holds_ended(writer.book.holds_ended().map(HoldEnded::in_book));
        writer.open_lines();
        writer
    }

    /// From now on this server notifies the shop of what becomes of orders; with `noticing`, of sales too.
    pub fn begin_webhooks(&mut self, duty: &Arc<Duty>, noticing: Option<Noticing>) {
        duty.begin(None);
        self.duty = Arc::clone(duty);
        self.noticing = noticing;
    }

    /// Judges the clock, and carries out commands before anything is served: the demo's sales.
    ///
    /// # Errors
    /// If one is refused or cannot be written; nothing must be served then.
    pub fn prepare(&mut self, commands: Vec<Command>) -> Result<(), PrepareError> {
        self.look_at_clock()?;
        let now = self.shared.clock.now().max(self.book.last_at());
        for command in commands {
            self.book.execute(now, command).map_err(PrepareError::Refused)?;
        }
        self.book.drain_journal(&mut self.entries);
        self.commit(now)?;
        self.publish();
        self.entries.clear();
        Ok(())
    }

    /// Runs until the mailbox is closed and empty, then closes the ledger.
    ///
    /// # Errors
    /// If a sync failed, or another server has taken the ledger over: everybody who waited was answered that the
    /// outcome is unknown, and the process must end.
    pub fn run(mut self) -> Result<(), AppendError> {
        let mut envelopes = Vec::new();
        loop {
            let drained =
                self.mailbox.drain(&mut envelopes, self.options.batch_commands_max, self.patience());
            if drained == Drained::Closed {
                break;
            }
            let done = self.batch(&mut envelopes);
            let done = done.and_then(|()| self.look_after_ledger()).and_then(|()| self.look_at_clock());
            if let Err(AppendError::Misplaced(_)) = done {
                self.ledger.rescue();
            }
            done?;
            self.clock_watch.look(&self.shared.clock);
        }
        if self.read_only.is_none()
            && let Err(error) = self.store_progress()
        {
            tracing::warn!(%error, "how far the shop's endpoints have come could not be stored: the latest events are sent again");
        }
        if let Err(error) = self.ledger.close() {
            tracing::warn!(%error, "the last checkpoint failed; nothing is lost, the next start does it");
        }
        Ok(())
    }

    fn patience(&self) -> Duration {
        let now = self.shared.clock.now();
        let until_expiry = |deadline: UnixMs| Duration::from_millis(deadline.0.saturating_sub(now.0));
        let deadline = self.book.next_deadline().filter(|_| self.expires());
        deadline.map_or(PATIENCE_MAX, until_expiry).min(self.until_reaching()).min(PATIENCE_MAX)
    }

    /// Whether holds may expire: that can be written, and the time is known.
    fn expires(&self) -> bool {
        self.read_only.is_none() && self.shared.clock.is_confirmed()
    }

    /// One batch: carry out, commit, publish, answer.
    fn batch(&mut self, envelopes: &mut Vec<Envelope>) -> Result<(), AppendError> {
        let now = self.shared.clock.now().max(self.book.last_at());
        if !envelopes.is_empty() {
            self.shared
                .metrics
                .batch_commands
                .observe(f64::from(u32::try_from(envelopes.len()).unwrap_or(u32::MAX)));
        }
        for Envelope { event_loop, ticket, request } in envelopes.drain(..) {
            let reply =
                if self.read_only.is_some() { self.look_up(request) } else { self.carry_out(now, request) };
            self.replies[event_loop].push((ticket, reply));
        }
        let mut expired = 0;
        if self.expires() {
            expired = self.book.expire_due(now, EXPIRIES_PER_BATCH);
            self.call_lines(now);
        }
        self.notice(now);
        let corrections = self.book.corrections_len();
        self.correct_clock();
        self.book.drain_journal(&mut self.entries);
        let committed = self.commit(now);
        match &committed {
            Ok(()) => {
                self.shared.metrics.holds_expired.inc_by(expired as u64);
                self.publish();
                self.count_present(now);
                self.clock_corrected();
            }
            Err(error) => {
                self.shared.metrics.commits_failed.inc();
                tracing::error!(%error, commands = self.replies.iter().map(Vec::len).sum::<usize>(), "commit failed");
                self.make_unknown();
            }
        }
        self.entries.clear();
        self.addresses.clear();
        self.addressed.clear();
        self.buyers.clear();
        self.messages.clear();
        for (event_loop, replies) in self.replies.iter_mut().enumerate() {
            self.mailbox.answer(event_loop, replies);
        }
        match committed {
            Err(error) if error.is_retryable() => {
                self.noticing.iter_mut().for_each(Noticing::forget);
                self.reload()?;
                self.settle_correction(corrections);
                Ok(())
            }
            committed => committed,
        }
    }

    fn commit(&mut self, at: UnixMs) -> Result<(), AppendError> {
        if self.entries.is_empty() && self.messages.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let batch = Batch {
            entries: &self.entries,
            addresses: &self.addresses,
            buyers: &self.buyers,
            messages: &self.messages,
            at,
        };
        self.ledger.append(&batch)?;
        self.shared.metrics.commit_seconds.observe(started.elapsed());
        self.shared.metrics.entries.inc_by(self.entries.len() as u64);
        Ok(())
    }

    /// Every answer of the batch may have been computed from a change that is not there: none is given.
    fn make_unknown(&mut self) {
        for replies in &mut self.replies {
            for (_, reply) in replies {
                *reply = Reply::Unknown;
            }
        }
    }

    /// After a failed commit the book is ahead of the ledger: it is loaded again, and nothing is taken until the
    /// ledger takes a write. While even reading fails, whoever asks is answered that the outcome is unknown.
    fn reload(&mut self) -> Result<(), AppendError> {
        self.mailbox.set_read_only(true);
        let mut logged: Option<Instant> = None;
        loop {
            match self.ledger.load() {
                Ok(mut book) => {
                    book.keep_settings_of(&self.book);
                    self.book = book;
                    self.publish_all();
                    tracing::info!(orders = self.book.orders_len(), "the book was loaded again; reads only");
                    let soon = self.writable_since.elapsed() < WRITE_AGAIN_SOON;
                    self.write_pause =
                        if soon { (self.write_pause * 2).min(WRITE_PAUSE_MAX) } else { WRITE_PAUSE_MIN };
                    self.read_only = Some(Instant::now() + self.write_pause);
                    return Ok(());
                }
                Err(error) if error.is_fenced() => return Err(AppendError::Fenced(error.into())),
                Err(error) if logged.is_none_or(|logged| logged.elapsed() >= LOG_PAUSE) => {
                    logged = Some(Instant::now());
                    tracing::error!(%error, "the book cannot be loaded again yet");
                }
                Err(_) => {}
            }
            let mut envelopes = Vec::new();
            let drained = self.mailbox.drain(&mut envelopes, self.options.batch_commands_max, RELOAD_PAUSE);
            if drained == Drained::Closed {
                return Ok(());
            }
            for Envelope { event_loop, ticket, request } in envelopes {
                // An order without a key is a new one; whatever else is asked may be about what is not known.
                let reply = match request {
                    Request::Place(NewOrder { admission: Judged::ByTheLoop(permit), .. }) => {
                        self.shared.admission.take_back(permit);
                        Reply::Unavailable
                    }
                    Request::Message(_) => Reply::Unavailable,
                    _ => Reply::Unknown,
                };
                self.replies[event_loop].push((ticket, reply));
            }
            for (event_loop, replies) in self.replies.iter_mut().enumerate() {
                self.mailbox.answer(event_loop, replies);
            }
            std::thread::sleep(RELOAD_PAUSE);
        }
    }

    /// While nothing can be written: a small commit shows whether the disk is back.
    fn try_to_write(&mut self) -> Result<(), AppendError> {
        match self.ledger.settle_rolled_back() {
            Ok(()) => {
                self.read_only = None;
                self.open_lines();
                self.writable_since = Instant::now();
                self.mailbox.set_read_only(false);
                tracing::info!("the ledger takes writes again");
                Ok(())
            }
            Err(error) if error.is_retryable() => {
                self.read_only = Some(Instant::now() + self.write_pause);
                self.refusals.met(&error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// What can be answered without a change. What is not in the book may still be in the log, complete but
    /// rolled back, until a commit has overwritten it; so nobody is answered that an order does not exist.
    fn look_up(&self, request: Request) -> Reply {
        match request {
            Request::Read { order, .. } if self.book.order(order).is_none() => Reply::Unknown,
            // Without its address: the ledger may be what is away.
            Request::Read { order, buyer, .. } => self.read(order, buyer),
            Request::RefundsDue => Reply::RefundsDue(self.book.refunds_due().collect()),
            Request::Receipt { sku, buyer } => self.receipt(sku, buyer),
            Request::Place(NewOrder { placement, admission, .. }) => {
                // It does not get to ask the book.
                if let Judged::ByTheLoop(permit) = admission {
                    self.shared.admission.take_back(permit);
                }
                match self.book.lookup(&placement) {
                    Some(known) => answer(known.map(|order| Accepted::Order { order, replayed: true })),
                    None => Reply::Unavailable,
                }
            }
            Request::Execute(_)
            | Request::Operate(..)
            | Request::Join { .. }
            | Request::Message(_)
            | Request::SetBalance { .. }
            | Request::ConfirmClock { .. } => Reply::Unavailable,
        }
    }

    fn read(&self, order: OrderId, buyer: Option<BuyerId>) -> Reply {
        match self.book.order(order) {
            Some(order) if buyer.is_none_or(|buyer| buyer == order.buyer) => Reply::Order(order),
            _ => Reply::Refused(Refusal::UnknownOrder),
        }
    }

    /// Makes what was committed visible, before anybody is answered.
    fn publish(&mut self) {
        let sales_changed = self.entries.iter().any(|entry| entry.event.is_about_a_sale());
        let catalog = sales_changed.then(|| Catalog::of(self.book.registry(), &self.catalog));
        let skus = catalog.as_ref().map_or(&self.catalog.skus, |catalog| &catalog.skus);
        self.book.drain_touched(|sku, stock| skus[sku.0 as usize].counters.publish(stock));
        let clock = &self.shared.clock;
        self.book.drain_moved_lines(|sku, line, message| {
            publish_line(clock.now(), &skus[sku.0 as usize], (line, message));
        });
        if let Some(catalog) = catalog {
            self.catalog = self.shared.shelf.publish(catalog);
        }
        self.shared.operators.publish(self.book.operators());
        let ended =
            self.entries.iter().filter_map(|entry| HoldEnded::of(entry, |order| self.book.order_at(order)));
        self.catalog.count_holds_ended(ended);
        let payments =
            self.entries.iter().filter(|entry| matches!(entry.event, Event::PaymentRecorded { .. }));
        self.shared.metrics.payments_recorded.inc_by(payments.count() as u64);
        self.shared.metrics.book_orders.set(i64::try_from(self.book.orders_len()).unwrap_or(i64::MAX));
        if self.entries.iter().any(|entry| {
            matches!(
                entry.event,
                Event::PaymentRecorded { .. } | Event::PaymentMatched { .. } | Event::RefundSettled { .. }
            )
        }) {
            let due = self.book.refunds_due_len();
            self.shared.metrics.refunds_due.set(i64::try_from(due).unwrap_or(i64::MAX));
        }
    }

    /// Publishes the stock of every SKU and the sales: at start and after a reload.
    fn publish_all(&mut self) {
        self.book.drain_touched(|_, _| {});
        self.book.drain_moved_lines(|_, _, _| {});
        self.shared.operators.publish(self.book.operators());
        self.catalog = self.shared.shelf.publish(Catalog::of(self.book.registry(), &self.catalog));
        for (number, sku) in self.catalog.skus.iter().enumerate() {
            let id = engine::SkuId(u32::try_from(number).expect("the book numbers its SKUs by u32"));
            sku.counters.publish(self.book.stock(id).expect("the catalog is made from the book"));
            if let Some(line) = self.book.line_of(id) {
                publish_line(self.shared.clock.now(), sku, (line, self.book.message_to_line(id)));
            }
        }
        self.shared.metrics.book_orders.set(i64::try_from(self.book.orders_len()).unwrap_or(i64::MAX));
        let due = self.book.refunds_due_len();
        self.shared.metrics.refunds_due.set(i64::try_from(due).unwrap_or(i64::MAX));
    }

    fn look_after_ledger(&mut self) -> Result<(), AppendError> {
        if let Some(again_at) = self.read_only {
            return if Instant::now() < again_at { Ok(()) } else { self.try_to_write() };
        }
        match self.ledger.maintain() {
            Ok(Some(checkpoint)) => {
                self.shared.metrics.checkpoint_seconds.observe(checkpoint.took.as_secs_f64());
                tracing::debug!(took = ?checkpoint.took, complete = checkpoint.complete, "checkpoint");
            }
            Ok(None) => {
                self.refusals.well();
                self.checkpoints.well();
            }
            Err(AppendError::Away(error)) => {
                tracing::error!(%error, "the ledger's server is away; reads only");
                self.read_only = Some(Instant::now() + WRITE_PAUSE_MIN);
                self.mailbox.set_read_only(true);
                return Ok(());
            }
            // The WAL keeps what could not be copied; the next checkpoint tries again.
            Err(error) if error.is_retryable() => self.checkpoints.met(&error),
            Err(error) => return Err(error),
        }
        if self.progress_stored_at.elapsed() >= PROGRESS_INTERVAL {
            match self.store_progress() {
                Ok(()) => self.progress_stores.well(),
                Err(error) if error.is_retryable() => self.progress_stores.met(&error),
                Err(error) => return Err(error),
            }
        }
        let may_purge = self.timekeeper.may_purge(self.shared.clock.now());
        let Writer { purging, erasing, ledger, shared, .. } = self;
        let mut removed = erasing.portion(|max| ledger.erase_addresses(max));
        if removed.is_ok() && may_purge {
            removed = purging
                .portion(&shared.clock, &shared.metrics, |cutoff, max| ledger.purge_addresses(cutoff.0, max));
        }
        match removed {
            Err(error) if error.is_retryable() => {
                self.purges.met(&error);
                Ok(())
            }
            removed => removed,
        }
    }

    fn carry_out(&mut self, now: UnixMs, request: Request) -> Reply {
        match request {
            // What was sold can't be taken back, and whether the sale is open is what nobody knows.
            Request::Place(_) if !self.shared.clock.is_confirmed() => match self.look_up(request) {
                Reply::Unavailable => Reply::ClockUnconfirmed,
                known => known,
            },
            Request::Place(order) => self.place(now, order),
            Request::Execute(Command::Address { order, buyer, address }) => {
                self.give_address(now, order, buyer, address)
            }
            Request::Execute(command) => answer(self.book.execute(now, command)),
            Request::Operate(command, by) => answer(self.book.execute_by(now, command, by)),
            Request::Read { order, buyer, with_address: true, .. } => self.read_with_address(order, buyer),
            Request::Read { order, buyer, .. } => self.read(order, buyer),
            Request::Message(body) => {
                self.messages.push(body);
                Reply::Stored
            }
            Request::RefundsDue => Reply::RefundsDue(self.book.refunds_due().collect()),
            Request::Join { sku, buyer, buyer_text, verified } => {
                self.join(now, (sku, buyer, verified), buyer_text)
            }
            Request::Receipt { sku, buyer } => self.receipt(sku, buyer),
            Request::SetBalance { sale, balance } => set_balance(&mut self.book, now, sale, balance),
            Request::ConfirmClock { closed } => self.confirm_clock(now, closed),
        }
    }

    fn place(&mut self, now: UnixMs, order: NewOrder) -> Reply {
        let NewOrder { placement, buyer_text, address, admission, .. } = order;
        let admitted = match admission {
            Judged::ByTheLoop(permit) => Ok(permit),
            Judged::ByTheProfile { over, bounds } => {
                if let Some(known) = self.book.lookup(&placement) {
                    return answer(known.map(|order| Accepted::Order { order, replayed: true }));
                }
                let known = (&self.book, &*self.catalog);
                self.shared.admission.admit_by_book(known, &placement, (over, bounds), now)
            }
        };
        match admitted {
            Ok(permit) => self.reserve(now, permit.spend_on(Kept { placement, buyer_text, address })),
            Err(why) => Reply::NotAdmitted(why),
        }
    }

    fn reserve(&mut self, now: UnixMs, order: Permitted<Kept>) -> Reply {
        let (Kept { placement, buyer_text, address }, permit) = order.into_parts();
        let placed = self.book.place(now, &placement);
        if placed.is_err() {
            self.shared.admission.take_back(permit);
        }
        if let Ok((order, false)) = &placed {
            self.addresses.extend(address.map(|address| (order.seq, address)));
            self.buyers.extend(buyer_text.map(|text| (order.seq, text)));
        }
        answer(placed.map(|(order, replayed)| Accepted::Order { order, replayed }))
    }
}

/// What the ledger keeps of an order that was admitted.
struct Kept {
    placement: Placement,
    buyer_text: Option<Box<str>>,
    address: Option<Box<[u8]>>,
}

fn answer(result: Result<Accepted, Refusal>) -> Reply {
    match result {
        Ok(accepted) => Reply::Accepted(accepted),
        Err(refusal) => Reply::Refused(refusal),
    }
}
