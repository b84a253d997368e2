//! Building gates from what the ledger holds.

use engine::SkuId;
use engine::handover::Snapshot;

use super::commands::decimal;
use super::reply::{ScriptReply, code, malformed};
use super::scripts::Script;
use super::{Gate, decimals, hash_bytes, keys_of, phase_letter};
use crate::gate::mark::{buyer_bytes, letter_of, placement_body, returned_field, returned_value};
use crate::gate::{Built, GateError, Why, limits};

/// A field and its value.
type Row = (Vec<u8>, Vec<u8>);

/// A part of a gate that is written by one script.
struct Chunk {
    /// The position of its gate.
    of: usize,
    step: &'static [u8],
    rows: Vec<Row>,
}

/// What became of each gate so far; `None`: it is being built.
type Ends = Vec<Option<Result<Built, GateError>>>;

/// Gates whose build has begun.
#[derive(Debug)]
#[must_use = "they are closed until they are finished"]
pub struct Begun(Ends);

impl Gate {
    /// Builds the gate of one SKU: [`Gate::begin_each`] and [`Gate::finish_each`].
    pub fn build(
        &mut self,
        sku: SkuId,
        snapshot: &Snapshot,
        between: &mut dyn FnMut(),
    ) -> Result<Built, GateError> {
        let begun = self.begin_each(&[(sku, snapshot.epoch)]);
        let goes_on = &mut || {
            between();
            true
        };
        self.finish_each(begun, &[(sku, snapshot)], goes_on).remove(0)
    }

    /// Begins to build gates under new epochs, whatever was there. From now on each hears of changes of its sale, so what these are
    /// must be read before it is finished. After an error a gate is closed, and building it again under the same epoch is safe.
    pub fn begin_each(&mut self, gates: &[(SkuId, u64)]) -> Begun {
        let is_exact = |epoch| epoch > 0 && epoch <= limits::NUMBER_MAX;
        let inexact = || GateError::NotExecuted(Why::Invalid("the epoch must be positive, and exact in Lua"));
        let mut ends: Ends =
            gates.iter().map(|(_, epoch)| (!is_exact(*epoch)).then(|| Err(inexact()))).collect();
        let steps: Vec<_> = gates.iter().map(|(sku, epoch)| (*sku, *epoch, Vec::new())).collect();
        self.step_of_each(b"begin", &steps, &mut ends, |reply| {
            Ok((reply.code == code::OLD).then_some(Built::Old))
        });
        Begun(ends)
    }

    /// Builds the same gates to their end, with which each sells. `goes_on` is asked before each portion, as large gates take long,
    /// and once at least: whoever stood still may have begun them behind the fence of another, who has raised the epochs since.
    pub fn finish_each(
        &mut self,
        Begun(mut ends): Begun,
        gates: &[(SkuId, &Snapshot)],
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Vec<Result<Built, GateError>> {
        if !self.add_rows(gates, &mut ends, goes_on) {
            return ends.into_iter().map(|end| end.unwrap_or_else(|| Err(overtaken()))).collect();
        }
        let finish = |snapshot: &Snapshot| {
            let sale = &snapshot.sale;
            let numbers =
                [snapshot.limit.map_or(0, u64::from), sale.version, sale.starts_at.0, sale.ends_at.0];
            let mut digits = [[0; 20]; 4];
            let mut args = vec![snapshot.available.to_string().into_bytes()];
            args.extend(decimals(&mut digits, numbers).map(<[u8]>::to_vec));
            args.push(vec![phase_letter(sale)]);
            args
        };
        let steps: Vec<_> =
            gates.iter().map(|(sku, snapshot)| (*sku, snapshot.epoch, finish(snapshot))).collect();
        self.step_of_each(b"finish", &steps, &mut ends, |reply| match reply.code {
            code::DONE | code::ALREADY => Ok(Some(Built::Open(reply.seen))),
            code::OLD => Ok(Some(Built::Old)),
            _ => Err(malformed()),
        });
        ends.into_iter().map(|end| end.unwrap_or_else(|| Err(malformed()))).collect()
    }

    /// Takes one step at each gate that is still being built: its SKU, its epoch, and what else the step takes.
    fn step_of_each(
        &mut self,
        step: &'static [u8],
        gates: &[(SkuId, u64, Vec<Vec<u8>>)],
        ends: &mut Ends,
        read: impl Fn(&ScriptReply) -> Result<Option<Built>, GateError>,
    ) {
        self.commands.clear();
        let open: Vec<usize> = (0..gates.len()).filter(|at| ends[*at].is_none()).collect();
        for at in &open {
            let (sku, epoch, more) = &gates[*at];
            let more: Vec<&[u8]> = more.iter().map(Vec::as_slice).collect();
            self.pack(*sku, step, *epoch, &more);
        }
        for (at, outcome) in open.into_iter().zip(self.router.exchange(&self.commands)) {
            ends[at] = outcome.and_then(ScriptReply::read).and_then(|reply| read(&reply)).transpose();
        }
    }

    fn pack(&mut self, sku: SkuId, step: &[u8], epoch: u64, more: &[&[u8]]) {
        let keys = keys_of(&mut self.keys, &self.router, sku);
        let mut digits = [0; 20];
        let mut args: Vec<&[u8]> = vec![step, decimal(&mut digits, epoch)];
        args.extend_from_slice(more);
        self.commands.script(Script::Build, keys.slot, &keys.all(), &args);
    }

    /// Adds the marks and the buyers of each gate, a bounded number of which is on its way at once. False: it does not go on.
    fn add_rows(
        &mut self,
        gates: &[(SkuId, &Snapshot)],
        ends: &mut Ends,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let cool_down = self.router.config().cool_down;
        let of_each = gates.iter().enumerate().flat_map(|(of, (_, snapshot))| {
            let marks = chunks(of, b"marks", marks(snapshot));
            marks.chain(chunks(of, b"buyers", buyers(snapshot, cool_down)))
        });
        let mut of_each = of_each.peekable();
        loop {
            if !goes_on() {
                return false;
            }
            self.commands.clear();
            let (mut sent, mut rows) = (Vec::new(), 0);
            while rows < limits::BUILD_ROWS_AT_ONCE
                && let Some(chunk) = of_each.next()
            {
                if ends[chunk.of].is_some() {
                    continue;
                }
                let (sku, snapshot) = gates[chunk.of];
                rows += chunk.rows.len();
                let fields = chunk.rows.iter().flat_map(|(field, value)| [field.as_slice(), value]);
                self.pack(sku, chunk.step, snapshot.epoch, &fields.collect::<Vec<_>>());
                sent.push(chunk.of);
            }
            for (of, outcome) in sent.into_iter().zip(self.router.exchange(&self.commands)) {
                let added = outcome.and_then(ScriptReply::read).and_then(|reply| match reply.code {
                    code::DONE => Ok(()),
                    // Somebody else builds under a later epoch, or has finished under this one: not ours any more.
                    _ => Err(overtaken()),
                });
                if let Err(error) = added {
                    ends[of].get_or_insert(Err(error));
                }
            }
            if of_each.peek().is_none() {
                return true;
            }
        }
    }
}

fn overtaken() -> GateError {
    GateError::NotExecuted(Why::Invalid("the build was overtaken by another"))
}

fn chunks(of: usize, step: &'static [u8], rows: impl Iterator<Item = Row>) -> impl Iterator<Item = Chunk> {
    let mut rows = rows;
    std::iter::from_fn(move || {
        let rows: Vec<Row> = rows.by_ref().take(limits::BUILD_ROWS_MAX).collect();
        (!rows.is_empty()).then_some(Chunk { of, step, rows })
    })
}

fn marks(snapshot: &Snapshot) -> impl Iterator<Item = Row> + '_ {
    snapshot.marks.iter().map(|mark| {
        let mut value = vec![letter_of(mark.state)];
        value.extend_from_slice(&placement_body(&mark.placement));
        (hash_bytes(mark.placement.id).to_vec(), value)
    })
}

/// Units of each buyer, where there is a limit, and the holds that came back.
fn buyers(snapshot: &Snapshot, cool_down: engine::CoolDown) -> impl Iterator<Item = Row> + '_ {
    let limited = snapshot.limit.is_some();
    let units = snapshot
        .buyers
        .iter()
        .filter(move |_| limited)
        .map(|(buyer, units)| (buyer_bytes(*buyer).to_vec(), decimal(&mut [0; 20], *units).to_vec()));
    let returned = snapshot.returned_holds.iter().map(move |(buyer, returned)| {
        let until = cool_down.until(returned.count, returned.latest_at);
        (returned_field(*buyer), returned_value(returned.count, until))
    });
    units.chain(returned)
}
