//! The rules again, over a list of people: slow, and with nothing that could be out of step.

use engine::draw::Permutation;
use engine::{
    BuyerId, ItemSpec, PRESENT_MS, Placement, Refusal, Standing, Standings, Status, TurnEnd, UnixMs,
};

use crate::shop::{BEACON, CLOSE_MS, END, GRACE_MS, Random, SKU, START, Shop, TURN_MS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Reached { until: u64 },
    Called { units: u64, until: u64 },
    Ordered,
    LetGo(TurnEnd),
}

/// How far the draw is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draw {
    Open,
    Closed { entries: u32, round: Option<u64>, until: u64 },
    Drawn { entries: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Person {
    number: u32,
    buyer: BuyerId,
    state: State,
    seen: Option<u64>,
    /// Was promised: you will get one.
    sure: bool,
    /// The grace was over.
    away: bool,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    key: u128,
    quantity: u64,
    at: u64,
    status: Status,
}

pub(crate) struct Model {
    draw: Draw,
    has_beacon: bool,
    /// In the order of joining until the places are drawn, and in the order of places then.
    people: Vec<Person>,
    holds: Vec<Hold>,
    free: u64,
    units: u64,
    paused_at: Option<u64>,
    ended: bool,
    /// Before it began.
    called_off: bool,
    /// Places per second, and until when those that were reached are enough.
    pace_max: Option<u32>,
    paced_until: u64,
}

impl Person {
    fn is_there(&self, now: u64) -> bool {
        self.seen.is_some_and(|seen| now <= seen + PRESENT_MS)
    }
}

impl Model {
    pub(crate) fn new(item: &ItemSpec) -> Model {
        let units = item.line.expect("it is sold to a line").units.into();
        Model {
            draw: Draw::Open,
            has_beacon: item.line.expect("it is sold to a line").beacon.is_some(),
            people: Vec::new(),
            holds: Vec::new(),
            free: item.total,
            units,
            paused_at: None,
            ended: false,
            called_off: false,
            pace_max: None,
            paced_until: 0,
        }
    }

    fn is_over(&self, now: u64) -> bool {
        self.ended || now >= END
    }

    fn is_paused(&self, now: u64) -> bool {
        self.paused_at.is_some() && !self.is_over(now)
    }

    fn person(&mut self, buyer: BuyerId) -> Option<&mut Person> {
        self.people.iter_mut().find(|person| person.buyer == buyer)
    }

    pub(crate) fn called(&self) -> Option<BuyerId> {
        self.people
            .iter()
            .find(|person| matches!(person.state, State::Called { .. }))
            .map(|person| person.buyer)
    }

    pub(crate) fn join(&mut self, now: u64, buyer: BuyerId) -> bool {
        if self.person(buyer).is_some() {
            return true;
        }
        if self.is_over(now) {
            return false;
        }
        let number = u32::try_from(self.people.len()).expect("a few") + 1;
        self.people.push(Person {
            number,
            buyer,
            state: State::Waiting,
            seen: None,
            sure: false,
            away: false,
        });
        true
    }

    /// Before the draw nobody is near.
    pub(crate) fn see(&mut self, now: u64, buyer: BuyerId) -> bool {
        let is_drawn = matches!(self.draw, Draw::Drawn { .. });
        let seen = is_drawn.then_some(now);
        self.person(buyer).map(|person| person.seen = seen).is_some()
    }

    /// The round that is waited for.
    pub(crate) fn round(&self) -> Option<u64> {
        if let Draw::Closed { round, .. } = self.draw { round } else { None }
    }

    pub(crate) fn speak(&mut self, round: u64, seed: impl FnOnce() -> [u8; 32]) -> bool {
        match self.draw {
            Draw::Closed { round: Some(expected), .. } if expected == round => {
                self.place_all(&seed());
                true
            }
            Draw::Drawn { .. } => true,
            _ => false,
        }
    }

    fn place_all(&mut self, seed: &[u8; 32]) {
        let Draw::Closed { entries, .. } = self.draw else { panic!("only closed entries are drawn") };
        let order = Permutation::new(seed, entries);
        self.people.sort_by_key(|person| order.place_of(person.number));
        self.draw = Draw::Drawn { entries };
    }

    pub(crate) fn place(&mut self, now: u64, asked: &Placement, answer: Result<bool, Refusal>) {
        let paused = self.is_paused(now);
        if let Some(hold) = self.holds.iter().find(|hold| hold.key == asked.id.hash) {
            let same = hold.quantity == u64::from(asked.quantity);
            assert_eq!(answer, if same { Ok(true) } else { Err(Refusal::KeyConflict) });
            return;
        }
        let started = now >= START && !self.is_over(now);
        let called = self.person(asked.buyer).and_then(|person| match person.state {
            State::Called { units, .. } => Some((person, units)),
            _ => None,
        });
        let expected = match called {
            _ if paused => Err(Refusal::Paused),
            Some((_, units)) if u64::from(asked.quantity) > units => Err(Refusal::NotEnoughLeft),
            Some((person, units)) => {
                person.state = State::Ordered;
                let quantity = u64::from(asked.quantity);
                self.free += units - quantity;
                self.holds.push(Hold { key: asked.id.hash, quantity, at: now, status: Status::Held });
                Ok(false)
            }
            None if started => Err(Refusal::TurnRequired),
            None if now < START => Err(Refusal::NotStarted),
            None => Err(Refusal::Ended),
        };
        let expected =
            if self.ended && expected == Err(Refusal::NotStarted) { Err(Refusal::Ended) } else { expected };
        assert_eq!(answer, expected);
    }

    pub(crate) fn give_back(&mut self, buyer: BuyerId) -> bool {
        let Some(person) = self.person(buyer) else { return false };
        match person.state {
            State::Called { units, .. } => {
                person.state = State::LetGo(TurnEnd::GivenBack);
                self.free += units;
                true
            }
            State::Waiting | State::Reached { .. } => false,
            State::Ordered | State::LetGo(_) => true,
        }
    }

    pub(crate) fn cancel(&mut self, key: u128, accepted: bool) {
        let hold = self.holds.iter_mut().find(|hold| hold.key == key);
        // Cancelling again is answered as the first time.
        if let Some(hold) = hold.filter(|hold| accepted && hold.status == Status::Held) {
            hold.status = Status::Cancelled;
            self.free += hold.quantity;
        }
    }

    /// The key and the units of some order, and how it stands once it is paid: late with what nobody was promised.
    pub(crate) fn pay(&mut self, random: &mut Random) -> Option<(u128, u64, Status)> {
        let spare = self.free - self.promised();
        let some = random.index(self.holds.len().max(1));
        let hold = self.holds.get_mut(some)?;
        match hold.status {
            Status::Held => hold.status = Status::Paid,
            Status::Expired if hold.quantity <= spare => {
                hold.status = Status::Paid;
                self.free -= hold.quantity;
            }
            _ => {}
        }
        Some((hold.key, hold.quantity, hold.status))
    }

    pub(crate) fn restock(&mut self, units: u64) {
        self.free += units;
    }

    /// Only what nobody was promised.
    pub(crate) fn correct(&mut self, units: u64) -> bool {
        let can = units <= self.free - self.promised();
        if can {
            self.free -= units;
        }
        can
    }

    pub(crate) fn pause(&mut self, now: u64, pauses: bool) {
        if pauses {
            self.paused_at = Some(now);
        }
    }

    pub(crate) fn resume(&mut self, now: u64, resumes: bool) {
        if !resumes {
            return;
        }
        assert!(self.paused_at.is_some(), "it was paused");
        self.give_back_the_pause(now);
    }

    /// Once it is over, which it is with the sale at the latest.
    fn give_back_the_pause(&mut self, at: u64) {
        let Some(paused_at) = self.paused_at.take() else { return };
        let pause = at - paused_at;
        for person in &mut self.people {
            match &mut person.state {
                State::Reached { until } | State::Called { until, .. } => *until += pause,
                State::Waiting | State::Ordered | State::LetGo(_) => {}
            }
            person.seen = person.seen.map(|seen| seen.max(at.min(seen + pause)));
        }
    }

    pub(crate) fn end(&mut self, now: u64, ends: bool) {
        if ends {
            self.give_back_the_pause(now.min(END));
        }
        self.ended |= ends;
        self.called_off |= ends && now < START;
    }

    pub(crate) fn expire(&mut self, now: u64, payment_ms: u64) -> usize {
        let due =
            self.holds.iter_mut().filter(|hold| hold.status == Status::Held && hold.at + payment_ms <= now);
        due.map(|hold| {
            hold.status = Status::Expired;
            self.free += hold.quantity;
        })
        .count()
    }

    pub(crate) fn limit_pace(&mut self, per_s_max: Option<u32>) {
        if self.pace_max != per_s_max {
            (self.pace_max, self.paced_until) = (per_s_max, 0);
        }
    }

    /// As many as come in a twentieth of a second, and then none for as long as that many take.
    fn pace_allows(&self, now: u64) -> u32 {
        let at_once = self.pace_max.map_or(u32::MAX, |per_s| per_s.div_ceil(20));
        if self.paced_until <= now { at_once } else { 0 }
    }

    /// Units that are kept for each, one after the other: the last gets what there is.
    fn kept(&self) -> Vec<u64> {
        let mut left = self.free;
        let kept_for = |person: &Person| match person.state {
            State::Waiting => person.sure,
            State::Reached { .. } => !person.away,
            State::Called { .. } | State::Ordered | State::LetGo(_) => false,
        };
        let share = |person| {
            let units = if kept_for(person) { self.units.min(left) } else { 0 };
            assert!(units > 0 || !kept_for(person), "somebody is sure of nothing");
            left -= units;
            units
        };
        self.people.iter().map(share).collect()
    }

    fn promised(&self) -> u64 {
        self.kept().iter().sum()
    }

    /// `seed`: of the draw that was made, if one was to be. Returns how many were reached.
    pub(crate) fn call(&mut self, now: u64, reach_max: u32, seed: impl Fn() -> [u8; 32]) -> u32 {
        if self.is_over(now) {
            self.give_back_the_pause(END);
        }
        if self.draw == Draw::Open && now >= START - CLOSE_MS && !self.is_over(now) {
            let entries = u32::try_from(self.people.len()).expect("a few");
            // The first that is due three seconds later or more.
            let due = |round: u64| BEACON.genesis_s * 1000 + (round - 1) * 3_000;
            let round = self.has_beacon.then(|| (1..).find(|round| due(*round) >= now + 3_000).expect("one"));
            let until = round.map_or(0, |round| START.max(due(round) + 20_000));
            self.draw = Draw::Closed { entries, round, until };
        }
        if let Draw::Closed { until, .. } = self.draw
            && until <= now
        {
            self.place_all(&seed());
        }
        let is_drawn = matches!(self.draw, Draw::Drawn { .. });
        let mut reached = 0;
        let reach_max = reach_max.min(self.pace_allows(now));
        while is_drawn && !self.is_paused(now) && self.step(now, reach_max, &mut reached) {}
        if let Some(per_s) = self.pace_max
            && reached > 0
        {
            let begun = self.paced_until.max(now.saturating_sub(50));
            self.paced_until = begun + (u64::from(reached) * 1000).div_ceil(per_s.into());
        }
        reached
    }

    /// One change by the rules; `false`: there is none to be made.
    fn step(&mut self, now: u64, reach_max: u32, reached: &mut u32) -> bool {
        let kept = self.kept();
        let spare = self.free - kept.iter().sum::<u64>();
        let (is_over, has_started) = (self.is_over(now), now >= START || self.ended);
        let is_there = |person: &Person| person.is_there(now);
        // What is over is over.
        for person in &mut self.people {
            match person.state {
                State::Called { units, until } if until <= now => {
                    person.state = State::LetGo(TurnEnd::Expired);
                    self.free += units;
                    return true;
                }
                State::Reached { until } if until <= now && !person.away => {
                    person.away = true;
                    return true;
                }
                _ => {}
            }
        }
        if self.called_off {
            return false;
        }
        // Those in grace, then those who stand by.
        for in_grace in [true, false] {
            for (person, kept) in self.people.iter_mut().zip(&kept) {
                let waits = matches!(person.state, State::Reached { .. }) && person.away != in_grace;
                let may = in_grace || (spare > 0 && !is_over);
                if waits && may && is_there(person) {
                    let units = if in_grace { *kept } else { self.units.min(spare) };
                    person.state = State::Called { units, until: now + TURN_MS };
                    self.free -= units;
                    return true;
                }
            }
        }
        // The next becomes sure, and whoever is sure is reached.
        for person in &mut self.people {
            if person.state == State::Waiting && !person.sure && spare > 0 && !is_over {
                person.sure = true;
                return true;
            }
            if person.state == State::Waiting && person.sure && has_started && *reached < reach_max {
                *reached += 1;
                person.state = State::Reached { until: now + GRACE_MS };
                return true;
            }
        }
        false
    }

    /// Who is there of those who can be called. All are near.
    pub(crate) fn count_present(&self, now: u64) -> u32 {
        let waits = |person: &&Person| matches!(person.state, State::Waiting | State::Reached { .. });
        let present = self.people.iter().filter(waits).filter(|person| person.is_there(now));
        u32::try_from(present.count()).expect("a few")
    }

    fn standings(&self) -> Standings {
        let mut counts = Standings::default();
        for person in &self.people {
            match person.state {
                State::Waiting => {}
                State::Reached { .. } if person.away => counts.away += 1,
                State::Reached { .. } => counts.in_grace += 1,
                State::Called { .. } => counts.called += 1,
                State::Ordered => counts.ordered += 1,
                State::LetGo(TurnEnd::Expired) => counts.expired += 1,
                State::LetGo(TurnEnd::GivenBack) => counts.given_back += 1,
            }
            counts.gave_up += u32::from(person.away || matches!(person.state, State::LetGo(_)));
        }
        counts
    }

    pub(crate) fn assert_same(&self, shop: &Shop) {
        let line = shop.book.line_of(SKU).expect("the item has a line");
        let drawn = if let Draw::Drawn { entries } = self.draw { Some(entries) } else { None };
        assert_eq!(line.draw.drawn(), drawn);
        assert_eq!(line.standings, self.standings());
        let sure = self.people.iter().filter(|person| person.sure).count();
        assert_eq!((line.joined as usize, line.borders.sure_to as usize), (self.people.len(), sure));
        assert_eq!((line.stock.available(), line.promised), (self.free, self.promised()));
        for (place, person) in (1..).zip(&self.people) {
            let found = shop.book.place_in_line(SKU, person.buyer).expect("the buyer has joined");
            let standing = match person.state {
                State::Waiting => Standing::Waiting,
                State::Reached { .. } if person.away => Standing::Away,
                State::Reached { .. } => Standing::Grace,
                State::Called { units, until } => {
                    let units = u32::try_from(units).expect("a few");
                    Standing::Called { units, until: UnixMs(until) }
                }
                State::Ordered => Standing::Ordered,
                State::LetGo(how) => Standing::LetGo(how),
            };
            let place = matches!(self.draw, Draw::Drawn { .. }).then_some(place);
            assert_eq!((found.number, found.place, found.standing), (person.number, place, standing));
        }
    }
}
