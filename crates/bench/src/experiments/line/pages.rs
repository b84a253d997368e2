//! The pages of a night: each waits by its own rules, is called, orders, pays or does not; and the bots among them, which ask
//! for everything out of turn.
//!
//! One thread plays them all over a bounded number of connections. Must not: judge what they were answered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use ring::hmac;

use super::joins::{NO_BODY, Signed};
use super::judge::{Answers, Reading, Shown};
use super::people::{Board, Phase, PlaceAnswer, Standing, presence_ms};
use super::wire::{Answer, Wire};
use super::{LINE, PRICE, PRODUCT, SALE, ScenarioContext};
use crate::audit::AUDIT_FAILED;
use crate::drivers::http::once;
use crate::load::choice::Random;
use crate::load::distribution::Durations;
use crate::rehearsal::payments::callback;
use crate::target::token::unix_ms;
use crate::target::{PAYMENT_SECRET, Target};

/// Requests under way at once.
const CONNECTIONS: usize = 256;
/// Of those who are called and are no bots: they never order. Half of them give their turn back, the others let it lapse.
const NEVER_ORDER: f64 = 0.1;
/// Of the orders.
const PAID: f64 = 0.5;
/// From knowing it to the order, and from the order to the payment: the least, and up to so much more.
const THINKING_MS: (u64, u64) = (300, 1_700);
const PAYING_MS: (u64, u64) = (200, 800);
/// After an answer that was lost, or "not now".
const AGAIN_MS: u64 = 500;
/// After everything was sold: so that everybody near the front reads it.
const SETTLES: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_millis(10);
/// Zones and presence that are kept, about 200 MB of each at most. A night with more is not judged.
const KEPT_MAX: usize = 8_000_000;
/// Of all answers: more that were lost, or that nobody should get, and the night is none.
const UNEXPECTED_SHARE_MAX: f64 = 0.001;

#[derive(Debug)]
pub(super) struct Guest {
    pub(super) person: u32,
    pub(super) place: u32,
    pub(super) is_bot: bool,
    standing: Standing,
    turn_until_ms: u64,
    board: Option<Board>,
    /// When presence is shown next: an entry of the heap for another time is an old one.
    presence_due_us: u64,
    is_showing: bool,
    order: Option<String>,
}

impl Guest {
    pub(super) fn new(person: u32, place: u32, is_bot: bool) -> Self {
        Self {
            person,
            place,
            is_bot,
            standing: Standing::Waiting,
            turn_until_ms: 0,
            board: None,
            presence_due_us: 0,
            is_showing: false,
            order: None,
        }
    }
}

/// When it starts and when it is over at the latest, and how much the bots ask.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) starts_at_ms: u64,
    pub(super) ends_at_ms: u64,
    /// From the end until the last who was sure has had a turn and the time to pay.
    pub(super) over_after_ms: u64,
    /// Between two requests of one bot.
    pub(super) bot_wait_ms: u64,
}

/// What the pages saw, beside what they were answered.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// From when presence was due to its answer.
    pub(super) presence: Durations,
    pub(super) boards: u64,
    pub(super) answers: u64,
    pub(super) ordered: u64,
    pub(super) paid: u64,
    /// Orders whose answer was lost for good: each is one or is none.
    pub(super) unknown: u64,
    /// Orders within their turn that were answered neither 201 nor "not now".
    pub(super) refused: u64,
    /// Orders whose turn was over before they were answered.
    pub(super) too_late: u64,
    /// Orders of bots that had no turn.
    pub(super) out_of_turn: u64,
    unexpected: u64,
    pub(super) first_unexpected: Option<String>,
    pub(super) seconds: f64,
    pub(super) sold_out: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Board,
    Presence,
    Order,
    Leave,
    Pay,
    /// A bot's next request, in turn: the board, presence, joining again, an order.
    Try(u8),
}

const TRIES: u8 = 4;

#[derive(Debug, Clone, Copy)]
struct Asked {
    guest: usize,
    act: Act,
    due_us: u64,
    sent_ms: u64,
}

pub(super) struct Pages<'a> {
    context: &'a ScenarioContext,
    times: Times,
    wire: Wire<Asked>,
    signed: Signed,
    payments: hmac::Key,
    random: Random,
    begun: Instant,
    guests: Vec<Guest>,
    due: BinaryHeap<Reverse<(u64, usize, Act)>>,
    latest: Option<Board>,
    answers: Answers,
    presence_kept: usize,
    seen: Seen,
    request: Vec<u8>,
}

/// Plays the night from now to its end.
///
/// # Errors
/// If the server can't be reached, answers what nobody should get, or has another place for somebody; if it does not end, or
/// the stop flag is raised.
pub(super) fn play(
    context: &ScenarioContext,
    server: &Target,
    guests: Vec<Guest>,
    times: Times,
) -> anyhow::Result<(Answers, Seen)> {
    let mut pages = Pages::open(context, server, guests, times)?;
    pages.run()?;
    let Pages { answers, mut seen, begun, guests, .. } = pages;
    seen.seconds = begun.elapsed().as_secs_f64();
    let share = seen.unexpected as f64 / seen.answers.max(1) as f64;
    let first = || seen.first_unexpected.as_deref().unwrap_or("an answer that was lost").to_owned();
    ensure!(
        share <= UNEXPECTED_SHARE_MAX,
        "{} of {} answers of {} pages are none that a page should get; the first: {}",
        seen.unexpected,
        seen.answers,
        guests.len(),
        first()
    );
    Ok((answers, seen))
}

impl<'a> Pages<'a> {
    fn open(
        context: &'a ScenarioContext,
        server: &Target,
        guests: Vec<Guest>,
        times: Times,
    ) -> anyhow::Result<Self> {
        let mut random = Random::new(context.seed);
        // They have not all opened their pages at one moment.
        let spread_us = 1_000_000;
        let first = |(index, guest): (usize, &Guest)| {
            let act = if guest.is_bot { Act::Try(0) } else { Act::Board };
            Reverse((random.below(spread_us), index, act))
        };
        let due = guests.iter().enumerate().map(first).collect();
        Ok(Self {
            context,
            times,
            wire: Wire::new(server.address(), CONNECTIONS).context("the pages' connections")?,
            signed: Signed::new(),
            payments: hmac::Key::new(hmac::HMAC_SHA256, PAYMENT_SECRET.as_bytes()),
            random,
            begun: Instant::now(),
            guests,
            due,
            latest: None,
            answers: Answers::default(),
            presence_kept: 0,
            seen: Seen::default(),
            request: Vec::new(),
        })
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let (mut looked, mut sold_out_at) = (Instant::now(), None);
        loop {
            self.send_due()?;
            // Where all connections are taken an answer comes first, whatever is due.
            let due_us =
                self.due.peek().filter(|_| self.wire.has_free()).map(|Reverse((due_us, ..))| *due_us);
            let wait = due_us.map_or(WAIT_MAX, |due_us| {
                Duration::from_micros(due_us.saturating_sub(self.now_us())).min(WAIT_MAX)
            });
            for (asked, answer) in self.wire.wait(wait).context("waiting for answers")? {
                self.take(asked, answer)?;
            }
            if looked.elapsed() < LOOK {
                continue;
            }
            looked = Instant::now();
            self.context.ensure_running()?;
            let kept = self.answers.readings.len().max(self.presence_kept);
            ensure!(
                kept < KEPT_MAX,
                "the pages were answered more than {KEPT_MAX} things, which can't be judged"
            );
            let Some(board) = self.latest else { continue };
            self.context.progress.doing(&format!(
                "the night: {} sold, {} held, {} called, {} still free",
                board.sold, board.held, board.turns, board.free
            ));
            if board.open_units() == 0 {
                self.seen.sold_out = true;
                if sold_out_at.get_or_insert_with(Instant::now).elapsed() > SETTLES {
                    return Ok(());
                }
            }
            if unix_ms() > self.times.ends_at_ms + self.times.over_after_ms {
                ensure!(board.state == Phase::Ended, "the sale does not end: {board:?}");
                return Ok(());
            }
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).expect("a night has few microseconds")
    }

    fn starts_in_ms(&self) -> u64 {
        self.times.starts_at_ms.saturating_sub(unix_ms())
    }

    fn later(&mut self, guest: usize, act: Act, wait_ms: u64) {
        let due_us = self.now_us() + wait_ms * 1_000;
        if act == Act::Presence {
            self.guests[guest].presence_due_us = due_us;
        }
        self.due.push(Reverse((due_us, guest, act)));
    }

    fn send_due(&mut self) -> anyhow::Result<()> {
        while self.wire.has_free()
            && let Some(Reverse((due_us, guest, act))) = self.due.peek().copied()
            && due_us <= self.now_us()
        {
            self.due.pop();
            if self.is_wanted(guest, act, due_us) {
                self.encode(guest, act)?;
                let asked = Asked { guest, act, due_us, sent_ms: unix_ms() };
                self.wire.send(&self.request, asked).context("connecting to the server")?;
            }
        }
        Ok(())
    }

    /// Whether what was planned is still to be asked.
    fn is_wanted(&mut self, index: usize, act: Act, due_us: u64) -> bool {
        let starts_in_ms = self.starts_in_ms();
        let guest = &mut self.guests[index];
        if act != Act::Presence {
            return true;
        }
        if guest.presence_due_us != due_us || guest.standing == Standing::Over {
            return false;
        }
        let is_near = guest.board.is_some_and(|board| board.is_near(guest.place, starts_in_ms));
        if guest.standing == Standing::Waiting && !is_near {
            let wait_ms = presence_ms(&mut self.random);
            self.later(index, act, wait_ms);
            return false;
        }
        guest.is_showing = true;
        true
    }

    fn encode(&mut self, guest: usize, act: Act) -> anyhow::Result<()> {
        let Self { guests, request, signed, payments, .. } = self;
        let Guest { person, order, .. } = &guests[guest];
        request.clear();
        match act {
            Act::Board | Act::Try(0) => request.extend(once::encode("GET", LINE, &[], &[])),
            Act::Presence | Act::Try(1) => {
                signed.post(&format!("{LINE}/presence"), *person, NO_BODY, request)
            }
            Act::Leave => signed.post(&format!("{LINE}/leave"), *person, NO_BODY, request),
            Act::Try(2) => signed.post(LINE, *person, NO_BODY, request),
            Act::Order | Act::Try(_) => {
                let body = format!("{{\"sale\":{SALE},\"product\":{PRODUCT},\"quantity\":1}}");
                let rest = format!(
                    "\r\nIdempotency-Key: once\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                signed.post("/api/v1/orders", *person, &rest, request);
            }
            Act::Pay => {
                let order = order.as_deref().context("only who has ordered pays")?;
                callback(payments, order, PRICE, request);
            }
        }
        Ok(())
    }

    fn take(&mut self, asked: Asked, answer: Answer) -> anyhow::Result<()> {
        self.seen.answers += 1;
        let Asked { guest, act, .. } = asked;
        match act {
            Act::Board | Act::Try(0) => self.take_board(asked, answer),
            Act::Presence | Act::Try(1) => self.take_place(asked, answer)?,
            Act::Order | Act::Try(3) => self.take_order(asked, answer),
            Act::Leave => self.later(guest, Act::Presence, 0),
            Act::Pay => match answer {
                Some((200, body)) => self.seen.paid += u64::from(holds(&body, "\"result\":\"paid\"")),
                // A repeated callback pays once.
                answer => {
                    self.unexpected(answer);
                    self.later(guest, Act::Pay, AGAIN_MS);
                }
            },
            Act::Try(_) => match answer {
                Some((200 | 429 | 503, _)) => {}
                answer => self.unexpected(answer),
            },
        }
        let of = &self.guests[guest];
        if let (Act::Try(tried), false) = (act, of.standing == Standing::Over || of.order.is_some()) {
            self.later(guest, Act::Try((tried + 1) % TRIES), self.times.bot_wait_ms);
        }
        Ok(())
    }

    fn unexpected(&mut self, answer: Answer) {
        self.seen.unexpected += 1;
        if let Some((status, body)) = answer {
            let text = || format!("{status} {}", String::from_utf8_lossy(&body));
            self.seen.first_unexpected.get_or_insert_with(text);
        }
    }

    fn take_board(&mut self, Asked { guest: index, act, .. }: Asked, answer: Answer) {
        let read = answer.as_ref().filter(|(status, _)| *status == 200);
        let Some(board) = read.and_then(|(_, body)| serde_json::from_slice::<Board>(body).ok()) else {
            self.unexpected(answer);
            if act == Act::Board {
                self.later(index, Act::Board, 2 * AGAIN_MS);
            }
            return;
        };
        self.seen.boards += 1;
        self.answers.read(board);
        if self.latest.is_none_or(|latest| latest.version <= board.version) {
            self.latest = Some(board);
        }
        let starts_in_ms = self.starts_in_ms();
        let guest = &mut self.guests[index];
        let (place, is_waiting) = (guest.place, guest.standing == Standing::Waiting);
        let is_first = guest.board.replace(board).is_none();
        let (is_over, is_showing) = (guest.standing == Standing::Over, guest.is_showing);
        if let Some(zone) = board.zone(place, unix_ms()).filter(|_| is_waiting) {
            self.answers.readings.push(Reading { place, zone, version: board.version });
        }
        if act != Act::Board || is_over {
            return;
        }
        if (is_first || (is_waiting && place <= board.served)) && !is_showing {
            self.later(index, Act::Presence, 0);
        }
        let wait_ms = board.wait_ms(place, starts_in_ms, &mut self.random);
        self.later(index, Act::Board, wait_ms);
    }

    fn take_place(&mut self, asked: Asked, answer: Answer) -> anyhow::Result<()> {
        let Asked { guest: index, act, due_us, sent_ms } = asked;
        self.guests[index].is_showing = false;
        let read = answer.as_ref().filter(|(status, _)| *status == 200);
        let said = read.and_then(|(_, body)| serde_json::from_slice::<PlaceAnswer>(body).ok());
        let wait_ms = presence_ms(&mut self.random);
        let Some(said) = said else {
            // A bot that hammers is answered to wait.
            if !matches!((act, &answer), (Act::Try(_), Some((429, _)))) {
                self.unexpected(answer);
            }
            if act == Act::Presence {
                self.later(index, Act::Presence, AGAIN_MS);
            }
            return Ok(());
        };
        if act == Act::Presence {
            let answered_us = self.now_us();
            self.seen.presence.saturating_record((answered_us - due_us).max(1));
        }
        let guest = &mut self.guests[index];
        let place = guest.place;
        if said.place != Some(place) {
            bail!("{AUDIT_FAILED}: who stands in place {place} is answered {said:?}");
        }
        let was = std::mem::replace(&mut guest.standing, said.standing);
        guest.turn_until_ms = said.turn_until_ms.unwrap_or(0);
        let is_bot = guest.is_bot;
        self.answers.presence.entry(place).or_default().push(Shown { sent_ms, answered_ms: said.now_ms });
        self.presence_kept += 1;
        if said.standing == Standing::Called && was != Standing::Called {
            self.answers.known.push((place, unix_ms()));
            self.decide(index, is_bot);
        }
        if act == Act::Presence {
            self.later(index, Act::Presence, wait_ms);
        }
        Ok(())
    }

    /// What somebody does who has just learnt that it is their turn. A bot orders as it always does.
    fn decide(&mut self, guest: usize, is_bot: bool) {
        let never = self.random.happens(NEVER_ORDER);
        let think_ms = THINKING_MS.0 + self.random.below(THINKING_MS.1);
        if is_bot || (never && self.random.happens(0.5)) {
            return;
        }
        self.later(guest, if never { Act::Leave } else { Act::Order }, think_ms);
    }

    fn take_order(&mut self, Asked { guest: index, act, .. }: Asked, answer: Answer) {
        let guest = &self.guests[index];
        let is_in_turn = unix_ms() < guest.turn_until_ms;
        match answer {
            Some((201, body)) => {
                let id = order_id(&body);
                let pays = self.random.happens(PAID);
                self.seen.ordered += 1;
                if pays && id.is_some() {
                    let wait_ms = PAYING_MS.0 + self.random.below(PAYING_MS.1);
                    self.later(index, Act::Pay, wait_ms);
                }
                self.guests[index].order = id;
            }
            // The same key: it is found if it was carried out.
            None | Some((429 | 503, _)) if act == Act::Order && is_in_turn => {
                self.later(index, Act::Order, AGAIN_MS);
            }
            Some((429 | 503, _)) => {}
            None => self.seen.unknown += 1,
            Some((409, _)) if act != Act::Order => self.seen.out_of_turn += 1,
            Some((409, _)) if !is_in_turn => self.seen.too_late += 1,
            Some(answer) => {
                self.seen.refused += u64::from(act == Act::Order);
                self.unexpected(Some(answer));
            }
        }
    }
}

fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|part| part == text.as_bytes())
}

fn order_id(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Ordered {
        id: String,
    }
    serde_json::from_slice::<Ordered>(body).ok().map(|ordered| ordered.id)
}
