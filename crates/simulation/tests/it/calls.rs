//! Calls as the server makes them: every method of its client, with arguments that a seed draws.

use engine::handover::{
    Change, Claim, GateSale, Mark, MarkState, OutboxRow, ReturnedHolds, Settle, Snapshot, Verdict,
};
use engine::{BuyerId, Fingerprint, OrderId, Placement, ProductId, SkuId, UnixMs};
use server::gate::redis::AttemptsSaid;
use server::gate::{ClaimRequest, Gate, Reserve, limits};

use simulation::random::Random;

const SKUS: usize = 2;
const ORDERS: usize = 40;
const BUYERS: usize = 8;

/// What the calls of one sequence have in common.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) random: Random,
    pub(crate) now: UnixMs,
    epoch: u64,
    version: u64,
    limits: [Option<u32>; SKUS],
}

impl Caller {
    pub(crate) fn new(seed: u64) -> Caller {
        Caller { random: Random(seed), now: UnixMs(0), epoch: 1, version: 1, limits: [None; SKUS] }
    }

    pub(crate) fn sku(&mut self) -> SkuId {
        SkuId(self.random.of(&[0, 1]))
    }

    fn limit_of(&mut self, sku: SkuId) -> Option<u32> {
        let known = self.limits[sku.0 as usize];
        if self.random.below(20) == 0 { Some(7) } else { known }
    }

    fn id(&mut self, sku: SkuId) -> OrderId {
        OrderId { sku, hash: self.random.below(ORDERS) as u128 }
    }

    fn buyer(&mut self) -> BuyerId {
        let number = self.random.below(BUYERS) as u64;
        if number < 2 {
            return BuyerId::of_number(BuyerId::NUMBER_MAX - number).unwrap();
        }
        if number.is_multiple_of(2) { BuyerId(number.into()) } else { BuyerId::of_hash(number.into()) }
    }

    /// Mostly what belongs to its id, so that one comes again; sometimes another buyer, quantity or body.
    fn place(&mut self) -> Placement {
        let sku = self.sku();
        self.place_of(sku)
    }

    fn place_of(&mut self, sku: SkuId) -> Placement {
        let id = self.id(sku);
        let own = u64::try_from(id.hash).unwrap();
        let odd = self.random.below(12) == 0;
        Placement {
            id,
            buyer: if odd { self.buyer() } else { Caller::buyer(&mut Caller::new(own)) },
            quantity: if odd {
                self.random.of(&[0, 5, 1_000_000, 1_000_001, 1 << 24, u32::MAX])
            } else {
                1 + (own % 3) as u32
            },
            fingerprint: Fingerprint(if self.random.below(25) == 0 { u64::MAX } else { 7 }),
        }
    }

    fn record(&mut self) -> Vec<u8> {
        let len = if self.random.below(60) == 0 { limits::RECORD_BYTES_MAX } else { self.random.below(60) };
        self.random.bytes(len)
    }

    /// Mostly the clock's, or not compared; sometimes at the edge of what is allowed.
    fn asked_at(&mut self) -> Option<UnixMs> {
        let bound = limits::CLOCK_OFF_MS_MAX;
        match self.random.below(12) {
            0 => Some(self.now.plus(bound + self.random.below(2) as u64)),
            1 => Some(UnixMs(self.now.0 - bound - self.random.below(2) as u64)),
            2..=4 => None,
            _ => Some(self.now),
        }
    }

    fn epoch(&mut self) -> u64 {
        match self.random.below(12) {
            0 => self.epoch.saturating_sub(1),
            1 => self.epoch + 1,
            2 => limits::NUMBER_MAX,
            _ => self.epoch,
        }
    }

    fn sale(&mut self) -> GateSale {
        self.version += self.random.below(2) as u64;
        let hour = 3_600_000;
        let (starts_at, ends_at) = match self.random.below(10) {
            0 => (self.now.plus(hour), self.now.plus(2 * hour)),
            1 => (UnixMs(0), self.now),
            2 => (self.now, UnixMs(u64::MAX)),
            _ => (UnixMs(0), self.now.plus(10 * hour)),
        };
        let version = if self.random.below(20) == 0 { limits::NUMBER_MAX - 1 } else { self.version };
        let (paused, ended) = (self.random.below(8) == 0, self.random.below(20) == 0);
        GateSale { version, starts_at, ends_at, paused, ended }
    }

    fn limit(&mut self) -> Option<u32> {
        self.random.of(&[None, Some(2), Some(4), Some(u32::MAX)])
    }

    fn snapshot(&mut self, sku: SkuId) -> Snapshot {
        const STATES: [MarkState; 6] = [
            MarkState::Sold,
            MarkState::Returned,
            MarkState::RejectedKept,
            MarkState::RejectedReturned,
            MarkState::PaidLate,
            MarkState::Adjustment,
        ];
        let limit = self.limit();
        let marks = (0..self.random.below(12))
            .map(|_| Mark { placement: self.place_of(sku), state: self.random.of(&STATES) });
        let marks = marks.collect();
        let buyers =
            (0..self.random.below(6)).map(|_| (self.buyer(), 1 + self.random.below(3) as u64)).collect();
        let returned = |caller: &mut Caller| ReturnedHolds {
            count: 1 + caller.random.below(40) as u32,
            latest_at: caller.now,
        };
        let returned_holds = (0..self.random.below(4)).map(|_| (self.buyer(), returned(self))).collect();
        let available = self.random.of(&[0, 1, 5, 30, 30, 1_000_000, limits::NUMBER_MAX]);
        let sale = self.sale();
        let epoch = if self.random.below(6) == 0 { self.epoch() } else { self.epoch + 1 };
        if epoch == self.epoch + 1 {
            self.epoch = epoch;
            self.limits[sku.0 as usize] = limit;
        }
        Snapshot { epoch, available, sale, limit, buyers, returned_holds, marks }
    }

    /// Closes a gate and builds it anew.
    pub(crate) fn build(&mut self, gate: &mut Gate, sku: SkuId) {
        if self.random.below(8) > 0 {
            drop(gate.fence(&[(sku, self.epoch)]));
        }
        let snapshot = self.snapshot(sku);
        drop(gate.build(sku, &snapshot, &mut || ()));
    }

    fn change(&mut self, sku: SkuId) -> Change {
        let place = self.place_of(sku);
        let units = self.random.of(&[0, 1, 3, u64::from(u32::MAX), limits::NUMBER_MAX, u64::MAX]);
        match self.random.below(8) {
            0..=2 => Change::Release(place),
            3 => Change::Take(place),
            4 => Change::TakeLate(place),
            5 => Change::Restock { units },
            _ => Change::Correct { id: place.id, units },
        }
    }

    /// One call of any kind.
    pub(crate) fn call(&mut self, gate: &mut Gate) {
        match self.random.below(32) {
            0..=8 => self.reserve(gate),
            9..=12 => self.settle(gate),
            13..=17 => self.apply(gate),
            18 | 19 => self.claim(gate),
            20 | 21 => self.set_sale(gate),
            22 => {
                let (sku, epoch) = (self.sku(), self.epoch());
                drop(gate.fence(&[(sku, epoch)]));
            }
            23..=25 => {
                let sku = self.sku();
                self.build(gate, sku);
            }
            _ => self.look(gate),
        }
        drop(gate.take_suspects());
    }

    fn reserve(&mut self, gate: &mut Gate) {
        let wanted: Vec<_> = (0..=self.random.below(6))
            .map(|_| {
                let place = self.place();
                (place, self.limit_of(place.id.sku), self.record())
            })
            .collect();
        let requests: Vec<_> = wanted
            .iter()
            .map(|(place, limit, record)| Reserve { placement: *place, limit: *limit, record })
            .collect();
        let asked_at = self.asked_at();
        if self.random.below(4) == 0 {
            return drop(gate.reserve_again(&requests, asked_at));
        }
        drop(gate.reserve(&requests, asked_at));
    }

    fn settle(&mut self, gate: &mut Gate) {
        const VERDICTS: [Verdict; 4] =
            [Verdict::Placed, Verdict::RejectedKept, Verdict::ClaimKept, Verdict::ClaimUndone];
        let settles: Vec<_> = (0..=self.random.below(8))
            .map(|_| {
                let sku = self.sku();
                Settle { id: self.id(sku), epoch: self.epoch(), verdict: self.random.of(&VERDICTS) }
            })
            .collect();
        drop(gate.settle(&settles));
    }

    fn apply(&mut self, gate: &mut Gate) {
        let rows: Vec<_> = (0..=self.random.below(4))
            .map(|_| {
                let sku = self.sku();
                OutboxRow {
                    id: self.random.below(30) as u64,
                    sku,
                    epoch: self.epoch(),
                    change: self.change(sku),
                }
            })
            .collect();
        drop(gate.apply(&rows));
    }

    fn claim(&mut self, gate: &mut Gate) {
        let (place, record) = (self.place(), self.record());
        let units = self.random.of(&[0, 1, 2, u64::MAX]);
        let claim = match self.random.below(2) {
            0 => Claim::LatePayment(place),
            _ => Claim::Correction { id: place.id, units },
        };
        drop(gate.claim(&[ClaimRequest { claim, record: &record }]));
    }

    fn set_sale(&mut self, gate: &mut Gate) {
        let (sku, sale) = (self.sku(), self.sale());
        let limit = if self.random.below(3) == 0 { self.limit() } else { self.limits[sku.0 as usize] };
        if self.random.below(2) == 0 {
            self.limits[sku.0 as usize] = limit;
        }
        drop(gate.set_sale(&[(sku, sale, limit)]));
    }

    /// What is only read, or decides nothing.
    fn look(&mut self, gate: &mut Gate) {
        let sku = self.sku();
        match self.random.below(9) {
            0 | 1 => {
                let ids: Vec<_> = (0..=self.random.below(6)).map(|_| self.id(sku)).collect();
                drop(gate.find(&ids));
            }
            2 | 3 => {
                let age_ms = self.random.of(&[0, 0, 1, 1_000, 3_600_000, limits::NUMBER_MAX, u64::MAX]);
                let (asked_at, most) = (self.asked_at(), self.random.of(&[0, 1, 2, limits::OPEN_ROWS_MAX]));
                drop(gate.open_of_each(&[SkuId(0), SkuId(1)], age_ms, asked_at, most));
                drop(gate.open_beyond(&[(sku, self.random.below(4) as u64)]));
            }
            4 => {
                drop(gate.states(&[SkuId(0), SkuId(1)]));
                drop(gate.open_counts(&[sku]));
            }
            5 => {
                let product = ProductId(self.random.below(3) as u64);
                drop(gate.publish_products(&[(product, SkuId(self.random.of(&[0, 9, 10, u32::MAX])))]));
            }
            6 => {
                drop(gate.want(&[sku, SkuId(7)]));
                // Which ones it takes first is not said, so all are taken.
                drop(gate.take_wanted());
            }
            7 => {
                let forgotten = ["b".to_owned()];
                let figures = self.record();
                drop(gate.exchange_figures(Some((self.random.of(&["a", "b"]), &figures)), &forgotten));
                let questions = vec![("q".to_owned(), self.record())];
                let answers = [(sku, self.record())];
                let said =
                    AttemptsSaid { run: "a", questions, answers: &answers, settled: &[], wanted: &[sku] };
                drop(gate.exchange_attempts(&said));
            }
            _ => drop(gate.audit(sku)),
        }
    }
}
