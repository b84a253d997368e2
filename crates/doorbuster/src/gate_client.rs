//! `doorbuster bench gate-client`: the gate's own client, reserving as fast as it can, for the scenario `gate`.
//!
//! It makes two SKUs under the prefix `bench-gate`: it reserves of the first one, and leaves the second one to another
//! program. What it prints, one line of JSON, is checked by the benchmark against what Redis has.

use std::time::{Duration, Instant};

use clap::Args;
use engine::handover::{GateSale, Snapshot};
use engine::{BuyerId, Fingerprint, OrderId, Placement, SkuId, UnixMs};
use server::clock::wall_clock;
use server::gate::redis::Script;
use server::gate::{Gate, GateConfig, Reserve, Reserved};

use crate::failure::Failure;
use crate::output;

const PREFIX: &str = "bench-gate";
const SKUS: [SkuId; 2] = [SkuId(1), SkuId(2)];
/// As the configuration's default.
const BATCH_COMMANDS: usize = 512;
/// Requests in a call, as a relay hands them over that drains a full queue.
const CALL_REQUESTS: u128 = 1024;
/// About what an order with an address is.
const RECORD_BYTES: usize = 150;
const UNITS: u64 = 1 << 50;
const TIMEOUT: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_millis(300);

#[derive(Args, Debug)]
pub(crate) struct GateClientArguments {
    /// Redis' address
    #[arg(long, value_name = "HOST:PORT")]
    redis: String,
    /// How long to reserve
    #[arg(long, value_name = "N")]
    milliseconds: u64,
}

pub(crate) fn run(arguments: &GateClientArguments) -> Result<(), Failure> {
    let mut gate = Gate::new(config(&arguments.redis));
    for sku in SKUS {
        gate.build(sku, &full(), &mut || ()).map_err(Failure::unavailable)?;
    }
    let mut next = 0;
    let before = reserve_for(&mut gate, WARM_UP, &mut next)?;
    let begun = Instant::now();
    let reserves = reserve_for(&mut gate, Duration::from_millis(arguments.milliseconds), &mut next)?;
    let seconds = begun.elapsed().as_secs_f64();
    let sha = Script::Reserve.sha();
    output::print(&format!(
        "{{\"reserves\":{reserves},\"seconds\":{seconds},\"before\":{before},\"sha\":\"{sha}\",\
         \"record_bytes\":{RECORD_BYTES},\"prefix\":\"{PREFIX}\",\"skus\":[{},{}]}}",
        SKUS[0].0, SKUS[1].0
    ))
}

fn config(address: &str) -> GateConfig {
    let batch_commands_max = BATCH_COMMANDS;
    GateConfig { batch_commands_max, ..GateConfig::plain(vec![address.to_owned()], PREFIX, TIMEOUT) }
}

/// A sale that never ends nor runs short, without a limit.
fn full() -> Snapshot {
    let sale =
        GateSale { version: 1, starts_at: UnixMs(0), ends_at: UnixMs(u64::MAX), paused: false, ended: false };
    Snapshot {
        epoch: 1,
        available: UNITS,
        sale,
        limit: None,
        buyers: Vec::new(),
        returned_holds: Vec::new(),
        marks: Vec::new(),
    }
}

/// Reserves in calls until the time is over; how many were taken, which must be all.
fn reserve_for(gate: &mut Gate, time: Duration, next: &mut u128) -> Result<u128, Failure> {
    let record = [b'r'; RECORD_BYTES];
    let (begun, first) = (Instant::now(), *next);
    let mut call = Vec::new();
    while begun.elapsed() < time {
        call.clear();
        call.extend((*next..*next + CALL_REQUESTS).map(|number| Reserve {
            placement: place(number),
            limit: None,
            record: &record,
        }));
        for answer in gate.reserve(&call, Some(wall_clock())) {
            match answer.map_err(Failure::unavailable)?.what {
                Reserved::Taken { .. } => {}
                other => return Err(Failure::check(format!("the gate answered {other:?}"))),
            }
        }
        *next += CALL_REQUESTS;
    }
    Ok(*next - first)
}

/// Ids are scattered like hashes, and never the same twice: the factor is odd.
fn place(number: u128) -> Placement {
    let hash = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Placement {
        id: OrderId { sku: SKUS[0], hash },
        buyer: BuyerId(1),
        quantity: 1,
        fingerprint: Fingerprint(7),
    }
}
