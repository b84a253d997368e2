//! Each call of the contract, as the statements of the real ledger have it.

use std::collections::BTreeMap;

use engine::handover::{OutboxRow, Reservation};
use engine::rules::Declined;
use engine::working_set::{Executed, Needs, Operation, Outcome, SkuState, WorkingSet};
use engine::{
    Accepted, Command, Entry, KeptAddress, Operators, OrderId, PaymentView, Refusal, Seq, SkuId, UnixMs,
};
use server::intake::{EngineSettings, HoldEnded};
use server::ledger::mysql::cluster::{
    Assignment, ClusterLedger, Holder, Lease, LedgerError, LedgerTime, MarksAsked, OPERATIONS_MAX,
    ORDERS_MAX, Placed, Progress, QUEUE_LEASE_MS, QueueRow, Raised, Recorded, ServerClock, Share, SkuRow,
    fits, share_queues,
};
use server::time::Instant;

use super::tables::{LeaseState, QueueState, Tables};
use super::{Connection, Failure, Inside, load};

/// How far the clock may step back before a lease is known to be from before.
const STEP_MS_MAX: u64 = 1_000;
/// For so long what a server said of its clock is believed.
const SAID_MS: u64 = 3_000;
/// How far the clock may be past the time by which a correction is judged.
const CORRECTED_WITHIN_MS: u64 = 10_000;

fn is_over(leased_until: u64, now: UnixMs, ms: u64) -> bool {
    !(now.0..=now.0 + ms + STEP_MS_MAX).contains(&leased_until)
}

impl Connection {
    /// With the sales as far as the ledger has them now.
    fn read_with_sales<T>(
        &mut self,
        mut look: impl FnMut(&engine::Sales, &Tables) -> Result<T, Failure>,
    ) -> Result<T, LedgerError> {
        self.attempt(false, |connection, inside| {
            let sales = &mut connection.sales;
            let new: Vec<_> = inside.tables.sale_entries(sales.seen()).cloned().collect();
            new.iter().try_for_each(|entry| sales.replay(entry))?;
            look(sales, &inside.tables)
        })
    }

    fn stocks_where(&mut self, which: impl Fn(SkuId) -> bool) -> Result<Vec<SkuRow>, LedgerError> {
        self.read_with_sales(|sales, tables| {
            let rows = tables.skus().filter(|(sku, _)| which(**sku));
            let row = |(sku, state): (&SkuId, &SkuState)| {
                let no_sale = || Failure::Damaged(format!("SKU {} has no sale", sku.0));
                let sale = sales.of_sku(*sku).ok_or_else(no_sale)?;
                let SkuState { stock, orders, epoch } = *state;
                Ok(SkuRow { sku: *sku, sale: sale.spec.id, version: sale.version, stock, orders, epoch })
            };
            rows.map(row).collect()
        })
    }
}

/// All that operations need.
fn load_for(set: &mut WorkingSet<'_>, tables: &Tables, operations: &[Operation]) -> Result<(), Failure> {
    load(set, tables, Needs::of_operations(operations))?;
    let further = set.needs_further(operations);
    load(set, tables, further)?;
    let about_operators = |operation: &Operation| {
        matches!(operation.command(), Command::AddOperator(_) | Command::RevokeOperator(_))
    };
    if operations.iter().any(about_operators) {
        set.load_operators(tables.operators());
    }
    for operation in operations {
        if let Command::Address { order, .. } = operation.command()
            && let Some(kept) = kept_address(tables, *order)
        {
            set.load_address(*order, kept);
        }
    }
    Ok(())
}

fn kept_address(tables: &Tables, order: OrderId) -> Option<KeptAddress> {
    let address = tables.address(tables.order(order)?.seq);
    Some(address.map_or(KeptAddress::Missing, |address| KeptAddress::Is(address.into())))
}

/// Moves a queue on, if it is still this owner's and stands where the owner has read from.
fn advance(queues: &mut BTreeMap<String, QueueState>, progress: &Progress) -> Result<(), Failure> {
    let fenced = || Failure::Fenced(format!("the queue {}", progress.queue));
    let state = queues.get_mut(&progress.queue).ok_or_else(fenced)?;
    let same_owner = (state.owner, state.generation) == (progress.owner, progress.generation);
    if !same_owner || (state.next_offset != progress.from && state.next_offset != progress.to) {
        return Err(fenced());
    }
    state.next_offset = progress.to;
    Ok(())
}

impl ClusterLedger for Connection {
    fn server(&self) -> String {
        "the simulated database".to_owned()
    }

    fn heartbeat(&mut self, server: u64, address: &str) -> Result<(), LedgerError> {
        self.write(|Inside { tables, .. }| {
            tables.servers.entry(server).or_default().address = address.to_owned();
            Ok(())
        })
    }

    fn leave(&mut self, server: u64) -> Result<(), LedgerError> {
        self.write(|Inside { tables, .. }| {
            for queue in tables.queues.values_mut().filter(|queue| queue.owner == server) {
                (queue.owner, queue.leased_until) = (0, 0);
            }
            tables.servers.remove(&server);
            Ok(())
        })
    }

    fn lease_queues(
        &mut self,
        server: u64,
        queues: &[(String, u64)],
    ) -> Result<Vec<Assignment>, LedgerError> {
        self.write(|inside| {
            let (now, known) = (inside.now(), &mut inside.tables.queues);
            for (queue, from) in queues {
                let new = QueueState { next_offset: *from, ..QueueState::default() };
                known.entry(queue.clone()).or_insert(new);
            }
            let share = |(queue, state): (&String, &QueueState)| {
                let QueueState { next_offset, owner, leased_until, generation } = *state;
                let free = owner == 0 || is_over(leased_until, now, QUEUE_LEASE_MS);
                let queue = queue.clone();
                (queue.clone(), Share { queue, next_offset, owner, free, generation, mine: false })
            };
            let mut shares: BTreeMap<_, _> = known.iter().map(share).collect();
            let reaches = |queue: &str| queues.iter().any(|(reached, _)| reached == queue);
            let mine = share_queues(&mut shares, server, reaches);
            for share in shares.into_values().filter(|share| share.mine) {
                let state = known.get_mut(&share.queue).expect("it is one of these");
                (state.owner, state.generation) = (share.owner, share.generation);
                state.leased_until = now.0 + QUEUE_LEASE_MS;
            }
            Ok(mine)
        })
    }

    fn queue_rows(&mut self) -> Result<Vec<QueueRow>, LedgerError> {
        self.read(|inside| {
            let (now, tables) = (inside.now(), &inside.tables);
            let row = |(queue, state): (&String, &QueueState)| {
                let QueueState { next_offset, owner, leased_until, generation } = *state;
                let address = tables.servers.get(&owner).map(|server| server.address.clone());
                let holder = match owner {
                    0 => Holder::Nobody,
                    _ if is_over(leased_until, now, QUEUE_LEASE_MS) => Holder::Nobody,
                    _ => Holder::Server(address.unwrap_or_default()),
                };
                QueueRow { queue: queue.clone(), next_offset, generation, holder }
            };
            tables.queues.iter().map(row).collect()
        })
    }

    fn rewind_queue(&mut self, queue: &str, owner: u64, generation: u64, to: u64) -> Result<(), LedgerError> {
        self.write(|Inside { tables, .. }| {
            let state = tables.queues.get_mut(queue);
            let is_owners = |state: &&mut QueueState| (state.owner, state.generation) == (owner, generation);
            if let Some(state) = state.filter(is_owners) {
                state.next_offset = to.min(state.next_offset);
            }
            Ok(())
        })
    }

    fn consume(
        &mut self,
        now: UnixMs,
        progress: &[Progress],
        orders: &[Reservation],
        refused: &dyn Fn(OrderId) -> Option<Refusal>,
    ) -> Result<Result<Vec<Outcome>, Vec<OrderId>>, LedgerError> {
        assert!(orders.len() <= ORDERS_MAX && orders.iter().all(fits));
        self.transact(now, |set, tables| {
            load(set, tables, Needs::of_orders(orders))?;
            let mut queues = tables.queues.clone();
            progress.iter().try_for_each(|progress| advance(&mut queues, progress))?;
            let outcomes = set.admit_all(orders, refused);
            if outcomes.is_ok() {
                tables.queues = queues;
            }
            Ok(outcomes)
        })
    }

    fn lease(&mut self, name: &str, owner: u64, ms: u64) -> Result<Option<Lease>, LedgerError> {
        self.write(|inside| {
            let now = inside.now();
            let state = inside.tables.leases.entry(name.to_owned()).or_default();
            if state.owner == owner || is_over(state.leased_until, now, ms) {
                state.generation += u64::from(state.owner != owner);
                (state.owner, state.leased_until) = (owner, now.0 + ms);
            }
            let LeaseState { generation, .. } = *state;
            let name = name.to_owned();
            Ok((state.owner == owner).then_some(Lease { name, owner, generation }))
        })
    }

    fn release(&mut self, lease: &Lease) -> Result<(), LedgerError> {
        self.write(|Inside { tables, .. }| {
            let state = tables.leases.entry(lease.name.clone()).or_default();
            if (state.owner, state.generation) == (lease.owner, lease.generation) {
                (state.owner, state.leased_until) = (0, 0);
            }
            Ok(())
        })
    }

    fn fence_with(&mut self, lease: Option<Lease>) {
        self.lease = lease;
    }

    fn expire_due(&mut self, now: UnixMs, max: usize) -> Result<Vec<OrderId>, LedgerError> {
        let max = max.min(OPERATIONS_MAX);
        let is_any_due = self.read(|Inside { tables, .. }| {
            !tables.due(WorkingSet::time(now, tables.latest_at), 1).is_empty()
        })?;
        if !is_any_due {
            return Ok(Vec::new());
        }
        self.transact(now, |set, tables| {
            let due = tables.due(set.at(), max);
            load(set, tables, Needs::of_due(&due))?;
            let due: Vec<_> = due.into_iter().map(|(id, _)| id).collect();
            set.expire(&due)?;
            Ok(due)
        })
    }

    fn outbox(&mut self, max: usize, after: u64) -> Result<Vec<OutboxRow>, LedgerError> {
        self.attempt(false, |connection, inside| {
            connection.compare(inside);
            Ok(inside.tables.outbox.range(after + 1..).take(max).map(|(_, row)| *row).collect())
        })
    }

    fn outbox_done(&mut self, ids: &[u64]) -> Result<(), LedgerError> {
        self.write(|Inside { tables, .. }| {
            tables.outbox.retain(|id, _| !ids.contains(id));
            Ok(())
        })
    }

    fn outbox_len(&mut self, sku: Option<SkuId>) -> Result<u64, LedgerError> {
        let is_of = move |row: &&OutboxRow| sku.is_none_or(|sku| row.sku == sku);
        self.read(|Inside { tables, .. }| tables.outbox.values().filter(is_of).count() as u64)
    }

    fn raise_epochs(&mut self, skus: &[SkuId]) -> Result<Vec<Raised>, LedgerError> {
        self.transact(UnixMs(0), |set, tables| {
            load(set, tables, Needs::of_skus(skus.iter().copied()))?;
            let seq = Seq(set.next_seq().0 - 1);
            let mut raised = Vec::new();
            for sku in skus {
                let Some(epoch) = set.raise_epoch(*sku) else { continue };
                let stock = set.stock(*sku).expect("it has an epoch");
                let orders = set.orders(*sku).expect("it has an epoch");
                let limit = set.sales().terms(*sku).and_then(|terms| terms.limit);
                raised.push(Raised { sku: *sku, epoch, seq, stock, orders, limit });
            }
            Ok(raised)
        })
    }

    fn marks(&mut self, asked: &MarksAsked) -> Result<Vec<Placed>, LedgerError> {
        self.read(|Inside { tables, .. }| tables.marks(asked))
    }

    fn has_adjustment(&mut self, sku: SkuId, key: &str) -> Result<bool, LedgerError> {
        self.read(|Inside { tables, .. }| tables.has_adjustment(sku, key))
    }

    fn purge_addresses(&mut self, _: UnixMs, _: u32) -> Result<u32, LedgerError> {
        self.read(|_| 0)
    }

    fn erase_addresses(&mut self, _: u32) -> Result<u32, LedgerError> {
        self.read(|_| 0)
    }

    fn execute(&mut self, now: UnixMs, operations: &[Operation]) -> Result<Vec<Executed>, LedgerError> {
        assert!(operations.len() <= OPERATIONS_MAX);
        let at = self.read(Inside::now)?;
        let is_late = operations.iter().any(Operation::is_correction) && at > now.plus(CORRECTED_WITHIN_MS);
        if is_late {
            return Err(LedgerError::Unknown("a correction came late".into()));
        }
        self.transact(now, |set, tables| {
            load_for(set, tables, operations)?;
            Ok(operations.iter().map(|operation| set.execute(operation)).collect())
        })
    }

    fn execute_all(
        &mut self,
        now: UnixMs,
        operations: &[Operation],
    ) -> Result<Result<Vec<Accepted>, Declined>, LedgerError> {
        self.transact(now, |set, tables| {
            load_for(set, tables, operations)?;
            Ok(set.execute_all(operations))
        })
    }

    fn take_holds_ended(&mut self) -> Vec<HoldEnded> {
        std::mem::take(&mut self.holds_ended)
    }

    fn lookup(&mut self, ids: &[OrderId]) -> Result<Vec<Option<Recorded>>, LedgerError> {
        self.read_with_sales(|sales, tables| {
            let of = |id: &OrderId| {
                if let Some(row) = tables.order(*id) {
                    let order = row.view(sales, *id, tables.has_refund_due(*id))?;
                    return Ok(Some(Recorded::Order { order, fingerprint: row.fingerprint }));
                }
                Ok(tables.rejection(*id).copied().map(Recorded::Rejected))
            };
            ids.iter().map(of).collect()
        })
    }

    fn kept_addresses(&mut self, ids: &[OrderId]) -> Result<Vec<(OrderId, KeptAddress)>, LedgerError> {
        self.read(|Inside { tables, .. }| {
            ids.iter().filter_map(|id| Some((*id, kept_address(tables, *id)?))).collect()
        })
    }

    fn refunds_due(&mut self, after: Seq, max: usize) -> Result<Vec<PaymentView>, LedgerError> {
        self.read(|Inside { tables, .. }| tables.refunds_due(after).take(max).cloned().collect())
    }

    fn refunds_due_count(&mut self) -> Result<u64, LedgerError> {
        self.read(|Inside { tables, .. }| tables.refunds_due(Seq(0)).count() as u64)
    }

    fn stocks(&mut self) -> Result<Vec<SkuRow>, LedgerError> {
        self.stocks_where(|_| true)
    }

    fn stocks_of(&mut self, skus: &[SkuId]) -> Result<Vec<SkuRow>, LedgerError> {
        if skus.is_empty() {
            return Ok(Vec::new());
        }
        self.stocks_where(|sku| skus.binary_search(&sku).is_ok())
    }

    fn sale_entries(&mut self, after: Seq) -> Result<Vec<Entry>, LedgerError> {
        self.attempt(false, |connection, inside| {
            connection.compare(inside);
            Ok(inside.tables.sale_entries(after).cloned().collect())
        })
    }

    fn wait_for_writers(&mut self) -> Result<(), LedgerError> {
        self.transact(UnixMs(0), |set, tables| load(set, tables, Needs::default()))
    }

    fn end(&mut self) -> Result<(Seq, UnixMs), LedgerError> {
        self.read(|Inside { tables, .. }| (Seq(tables.next_seq().0 - 1), tables.latest_at))
    }

    fn look_back(&mut self) -> Result<(), LedgerError> {
        self.attempt(false, |connection, inside| {
            connection.compare(inside);
            Ok(())
        })
    }

    fn times_back(&self) -> u64 {
        self.continuity.times_back()
    }

    fn time(&mut self) -> Result<LedgerTime, LedgerError> {
        let mut asked = Instant::now();
        let (at, latest_entry_at) = self.attempt(false, |_, inside| {
            // Of the attempt that was answered; the way there is in the time between.
            let said = (inside.now(), inside.tables.latest_at);
            asked = Instant::now();
            Ok(said)
        })?;
        Ok(LedgerTime { at, between: (asked, Instant::now()), latest_entry_at })
    }

    fn compare_clocks(&mut self, server: u64, ahead_ms: i64) -> Result<Vec<ServerClock>, LedgerError> {
        self.write(|inside| {
            let now = inside.now();
            if let Some(own) = inside.tables.servers.get_mut(&server) {
                (own.clock_ahead_ms, own.clock_said_at) = (Some(ahead_ms), now.0);
            }
            let believed = now.0.saturating_sub(SAID_MS)..=now.0 + STEP_MS_MAX;
            let others = inside.tables.servers.iter().filter(|(id, _)| **id != server);
            let said = others.filter(|(_, other)| believed.contains(&other.clock_said_at));
            let clock = |(server, other): (&u64, &super::tables::ServerState)| {
                let (server, address) = (*server, other.address.clone());
                Some(ServerClock { server, address, ahead_ms: other.clock_ahead_ms? })
            };
            Ok(said.filter_map(clock).collect())
        })
    }

    fn operators(&mut self) -> Result<Operators, LedgerError> {
        self.read(|Inside { tables, .. }| tables.operators())
    }

    fn settings(&mut self) -> Result<EngineSettings, LedgerError> {
        let engine = self.server();
        self.read(|_| EngineSettings { engine: engine.clone(), settings: Vec::new() })
    }
}
