//! The gate's two servers in a night: the master and its replica, killed, restored, out of reach, failed over.

use crate::gate::{Network, Role, Snapshot};

use super::planted::run;
use super::watch::{GATE, LEFT};
use super::{BEGAN, Fault, Night, Planted, REDIS, SENTINEL, SERVERS, SKU, host};

/// From the time that nobody hears of the master until its replica takes over.
pub(super) const PROMOTED_AFTER_MS: u64 = 1_500;

#[derive(Debug)]
pub(super) struct Gates {
    /// The place of the one that is the master.
    master: usize,
    fails_over: bool,
    /// All lives of both, and all histories that one of them has followed.
    lives: u64,
}

/// What comes after a fault has begun.
#[derive(Debug)]
pub(super) enum Step {
    Restored { redis: usize, snapshot: Snapshot },
    Reached { server: usize },
    CutOff { server: usize, alone: u64, lasts: u64, snapshot: Snapshot },
    Promoted { snapshot: Snapshot },
    Alone { redis: usize },
    Mended { redis: usize },
}

/// Both, and a Sentinel.
pub(super) fn network(planted: Planted, seed: u64) -> (Network, Gates) {
    let (master, mut replica) = (planted.redis(1), planted.redis(2));
    replica.set_role(Role::Replica);
    let network = Network::new(vec![(REDIS[0], master), (REDIS[1], replica)], BEGAN.0 * 1_000, seed);
    network.add_sentinel(SENTINEL, REDIS[0]);
    (network, Gates { master: 0, fails_over: false, lives: 2 })
}

/// What a Redis has to sell.
pub(super) fn units_at(network: &Network, address: &str) -> Option<i64> {
    let left = network.change(address, |redis| redis.field(GATE, LEFT))?;
    std::str::from_utf8(&left).ok()?.parse().ok()
}

impl Night {
    /// What the master has to sell.
    pub(super) fn units_at_gate(&self) -> Option<i64> {
        units_at(&self.engines.network, REDIS[self.gate.master])
    }

    /// Why the master does not sell, when the night is over.
    pub(super) fn closed_at_the_end(&self) -> Option<String> {
        let gate = self.engines.network.change(REDIS[self.gate.master], |redis| redis.field(GATE, b"gate"));
        let Some((_, [flag, phase, rest @ ..])) = gate.as_deref().and_then(|gate| gate.split_at_checked(40))
        else {
            return Some("there is no gate when the night is over".to_owned());
        };
        let (flag, phase) = (char::from(*flag), char::from(*phase));
        let epoch = rest.first_chunk::<8>().map(|epoch| u64::from_be_bytes(*epoch));
        let newest = self.engines.database.epoch(SKU);
        let is_open = (flag, phase, epoch) == ('O', 'l', Some(newest));
        (!is_open).then(|| {
            format!("the gate is {flag}, {phase}, of epoch {epoch:?} of {newest} when the night is over")
        })
    }

    fn next_life(&mut self) -> u64 {
        self.gate.lives += 1;
        self.gate.lives
    }

    /// One of the faults that are of Redis. What comes next, and after how many milliseconds.
    pub(super) fn begin_at_gate(&mut self, fault: Fault) -> Option<(u64, Step)> {
        let (master, network) = (self.gate.master, self.engines.network.clone());
        let snapshot = || network.change(REDIS[master], |redis| redis.snapshot());
        match fault {
            Fault::GateWiped => {
                let wiped = self.engines.planted.redis(self.next_life());
                network.replace(REDIS[master], |redis| *redis = wiped);
                None
            }
            Fault::GateRestarted => {
                let life = self.next_life();
                network.replace(REDIS[master], |redis| redis.set_run(&run(life)));
                None
            }
            Fault::GateRestored { age } => {
                Some((age, Step::Restored { redis: master, snapshot: snapshot() }))
            }
            Fault::GateCut { server, lasts } => {
                self.cut(server, &REDIS, true);
                Some((lasts, Step::Reached { server }))
            }
            Fault::GateFailsOver { server, behind, alone, lasts } if !self.gate.fails_over => {
                self.gate.fails_over = true;
                Some((behind, Step::CutOff { server, alone, lasts, snapshot: snapshot() }))
            }
            _ => None,
        }
    }

    pub(super) fn step_at_gate(&mut self, step: Step) -> Vec<(u64, Step)> {
        let (master, network) = (self.gate.master, self.engines.network.clone());
        match step {
            Step::Restored { redis, snapshot } => {
                let life = self.next_life();
                network.replace(REDIS[redis], |redis| {
                    redis.restore(snapshot);
                    redis.set_run(&run(life));
                });
            }
            Step::Reached { server } => self.cut(server, &REDIS, false),
            Step::CutOff { server, alone, lasts, snapshot } => {
                self.watch.cut_off(&self.engines, REDIS[master]);
                self.cut(server, &[REDIS[1 - master], SENTINEL], true);
                (0..SERVERS).filter(|other| *other != server).for_each(|other| {
                    self.cut(other, &[REDIS[master]], true);
                });
                let mended = PROMOTED_AFTER_MS + lasts;
                let mut next = vec![
                    (PROMOTED_AFTER_MS, Step::Promoted { snapshot }),
                    (mended, Step::Mended { redis: master }),
                ];
                if alone < mended {
                    next.push((alone, Step::Alone { redis: master }));
                }
                return next;
            }
            Step::Alone { redis } => network.change(REDIS[redis], |redis| redis.set_role(Role::MasterAlone)),
            Step::Promoted { snapshot } => {
                let (followed, new) = (run(self.next_life()), 1 - master);
                network.change(REDIS[new], |redis| {
                    redis.restore(snapshot);
                    redis.promote(&followed);
                });
                network.name_master(REDIS[new]);
                self.gate.master = new;
            }
            Step::Mended { redis } => {
                network.replace(REDIS[redis], |redis| redis.set_role(Role::Replica));
                (0..SERVERS).for_each(|server| self.cut(server, &[REDIS[0], REDIS[1], SENTINEL], false));
                self.gate.fails_over = false;
                self.watch.mended();
            }
        }
        Vec::new()
    }

    fn cut(&self, server: usize, addresses: &[&str], cut: bool) {
        addresses.iter().for_each(|address| self.engines.network.set_cut(&host(server), address, cut));
    }
}
