//! Building gates from what the ledger holds.

use engine::SkuId;
use engine::handover::Snapshot;

use super::commands::decimal;
use super::reply::{ScriptReply, code, malformed};
use super::scripts::Script;
use super::{Gate, decimals, hash_bytes, keys_of, phase_letter};
use crate::gate::mark::{buyer_bytes, letter_of, place_body, returned_field, returned_value};
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

impl Gate {
    /// Builds the gate of one SKU, as [`Gate::build_each`].
    pub fn build(
        &mut self,
        sku: SkuId,
        snapshot: &Snapshot,
        between: &mut dyn FnMut(),
    ) -> Result<Built, GateError> {
        self.build_each(&[(sku, snapshot)], between).remove(0)
    }

    /// Builds gates under new epochs, whatever was there; each sells with its last step. After an error a gate is closed,
    /// and building it again under the same epoch is safe. `between` is called after each portion: large gates take long.
    pub fn build_each(
        &mut self,
        gates: &[(SkuId, &Snapshot)],
        between: &mut dyn FnMut(),
    ) -> Vec<Result<Built, GateError>> {
        let is_exact = |epoch| epoch > 0 && epoch <= limits::NUMBER_MAX;
        let inexact = || GateError::NotExecuted(Why::Invalid("the epoch must be positive, and exact in Lua"));
        let mut ends: Ends =
            gates.iter().map(|(_, snapshot)| (!is_exact(snapshot.epoch)).then(|| Err(inexact()))).collect();
        self.step_of_each(
            gates,
            &mut ends,
            b"begin",
            |_| Vec::new(),
            |reply| Ok((reply.code == code::OLD).then_some(Built::Old)),
        );
        self.add_rows(gates, &mut ends, between);
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
        self.step_of_each(gates, &mut ends, b"finish", finish, |reply| match reply.code {
            code::DONE | code::ALREADY => Ok(Some(Built::Open(reply.seen))),
            code::OLD => Ok(Some(Built::Old)),
            _ => Err(malformed()),
        });
        ends.into_iter().map(|end| end.unwrap_or_else(|| Err(malformed()))).collect()
    }

    /// Takes one step at each gate that is still being built.
    fn step_of_each(
        &mut self,
        gates: &[(SkuId, &Snapshot)],
        ends: &mut Ends,
        step: &'static [u8],
        more: impl Fn(&Snapshot) -> Vec<Vec<u8>>,
        read: impl Fn(&ScriptReply) -> Result<Option<Built>, GateError>,
    ) {
        self.commands.clear();
        let open: Vec<usize> = (0..gates.len()).filter(|at| ends[*at].is_none()).collect();
        for at in &open {
            let (sku, snapshot) = gates[*at];
            let more = more(snapshot);
            let more: Vec<&[u8]> = more.iter().map(Vec::as_slice).collect();
            self.pack(sku, step, snapshot.epoch, &more);
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

    /// Adds the marks and the buyers of each gate, a bounded number of which is on its way at once.
    fn add_rows(&mut self, gates: &[(SkuId, &Snapshot)], ends: &mut Ends, between: &mut dyn FnMut()) {
        let cool_down = self.router.config().cool_down;
        let of_each = gates.iter().enumerate().flat_map(|(of, (_, snapshot))| {
            let marks = chunks(of, b"marks", marks(snapshot));
            marks.chain(chunks(of, b"buyers", buyers(snapshot, cool_down)))
        });
        let mut of_each = of_each.peekable();
        while of_each.peek().is_some() {
            between();
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
                    _ => Err(GateError::NotExecuted(Why::Invalid("the build was overtaken by another"))),
                });
                if let Err(error) = added {
                    ends[of].get_or_insert(Err(error));
                }
            }
        }
    }
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
        value.extend_from_slice(&place_body(&mark.place));
        (hash_bytes(mark.place.id).to_vec(), value)
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
