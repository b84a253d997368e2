//! The gate's client against `redis-benchmark -P 64`, driving the same script in the same run.
//!
//! `cargo run --release -p server --example gate_speed -- [reserves per round] [rounds]` starts a `redis-server` of its
//! own (append-only file, synced every second), lets the two take turns, and prints reserves per second, CPU per reserve
//! of the client and of Redis, and the ratio. Each round begins with an empty server.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::handover::{GateSale, Snapshot};
use engine::{BuyerId, Fingerprint, OrderId, Placement, SkuId, UnixMs};
use server::gate::redis::Script;
use server::gate::{Gate, GateConfig, Reserve};

type Error = Box<dyn std::error::Error>;

const SKU: SkuId = SkuId(1);
/// About what an order with an address is.
const RECORD_BYTES: usize = 150;
/// CPU ticks of /proc per second: fixed in Linux's interface to user space.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
struct Redis {
    child: Child,
    port: u16,
    dir: std::path::PathBuf,
}

impl Redis {
    fn start() -> Result<Redis, Error> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let dir = std::env::temp_dir().join(format!("gate-speed-{}-{port}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"])
            .arg("--dir")
            .arg(&dir)
            .stdout(Stdio::null())
            .spawn()?;
        let redis = Redis { child, port, dir };
        let started = Instant::now();
        while redis.gate(64).states(&[SKU])[0].is_err() {
            if started.elapsed() > Duration::from_secs(10) {
                return Err("redis-server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }

    fn gate(&self, batch_commands_max: usize) -> Gate {
        let address = format!("127.0.0.1:{}", self.port);
        let plain = GateConfig::plain(vec![address], "db", Duration::from_secs(5));
        Gate::new(GateConfig { batch_commands_max, ..plain })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.dir));
    }
}

/// Seconds of CPU of a process and of the children that it has waited for.
fn cpu(pid: u32) -> Result<f64, Error> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(") ").ok_or("stat")?.1.split(' ').collect();
    let ticks = fields[11..15].iter().map(|field| field.parse::<u32>()).sum::<Result<u32, _>>()?;
    Ok(f64::from(ticks) / TICKS_PER_SECOND)
}

#[derive(Clone, Copy, Debug)]
struct Speed {
    per_second: f64,
    client_us: f64,
    redis_us: f64,
}

fn measure(
    reserves: u32,
    limit: Option<u32>,
    run: impl FnOnce(&Redis) -> Result<(), Error>,
) -> Result<Speed, Error> {
    let redis = Redis::start()?;
    let mut gate = redis.gate(64);
    let sale =
        GateSale { version: 1, starts_at: UnixMs(0), ends_at: UnixMs(u64::MAX), paused: false, ended: false };
    let available = 1_000_000_000_000;
    let snapshot =
        Snapshot { epoch: 1, available, sale, limit, buyers: vec![], returned_holds: vec![], marks: vec![] };
    gate.build(SKU, &snapshot, &mut || ())?;
    let (own, server) = (cpu(std::process::id())?, cpu(redis.child.id())?);
    let started = Instant::now();
    run(&redis)?;
    let seconds = started.elapsed().as_secs_f64();
    let (own, server) = (cpu(std::process::id())? - own, cpu(redis.child.id())? - server);
    let state = gate.states(&[SKU]).remove(0)?.ok_or("the gate is gone")?;
    // redis-benchmark draws its ids: a few come twice, and take nothing the second time.
    let taken = f64::from(u32::try_from(state.seen.seq)?);
    if taken < f64::from(reserves) * 0.99 {
        return Err(format!("only {taken} of {reserves} were taken").into());
    }
    let reserves = f64::from(reserves);
    Ok(Speed {
        per_second: reserves / seconds,
        client_us: own * 1e6 / reserves,
        redis_us: server * 1e6 / reserves,
    })
}

fn place(number: u32) -> Placement {
    // Scattered like hashes, and never the same twice.
    let hash = (u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Placement { id: OrderId { sku: SKU, hash }, buyer: BuyerId(1), quantity: 1, fingerprint: Fingerprint(7) }
}

/// `requests` per call, as a relay would hand them over that drains a queue.
fn own(redis: &Redis, limit: Option<u32>, reserves: u32, requests: u32, batch: usize) -> Result<(), Error> {
    let mut gate = redis.gate(batch);
    let record = [b'r'; RECORD_BYTES];
    let mut next = 0;
    while next < reserves {
        let end = reserves.min(next + requests);
        let call: Vec<Reserve<'_>> =
            (next..end).map(|number| Reserve { placement: place(number), limit, record: &record }).collect();
        for answer in gate.reserve(&call, None) {
            answer?;
        }
        next = end;
    }
    Ok(())
}

fn redis_benchmark(redis: &Redis, limit: Option<u32>, reserves: u32) -> Result<(), Error> {
    let mut run = String::new();
    for (section, name) in [("server", "run_id:"), ("replication", "master_replid2:")] {
        let output =
            Command::new("redis-cli").args(["-p", &redis.port.to_string(), "INFO", section]).output()?;
        let text = String::from_utf8(output.stdout)?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)).ok_or("INFO")?;
        run.push_str(&value[..20]);
    }
    // redis-benchmark can't send a zero byte: this is a mark's body of 65,793 units, and the stock is large.
    let body = "fprint--\u{1}\u{1}\u{1}buyer---";
    let keys = ["s", "k", "t", "b"].map(|kind| format!("{{db:{:08x}}}:{kind}", SKU.0));
    let status = Command::new("redis-benchmark")
        .args(["-p", &redis.port.to_string(), "-P", "64", "-c", "50", "-n", &reserves.to_string()])
        .args(["-r", "1000000000", "-q", "EVALSHA", Script::Reserve.sha(), "4"])
        .args(keys)
        .args([
            &run,
            "0",
            &limit.unwrap_or(0).to_string(),
            "0",
            "id__rand_int__id",
            body,
            &"r".repeat(RECORD_BYTES),
        ])
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err("redis-benchmark failed".into()) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Error> {
    let arguments: Vec<u32> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let reserves = arguments.first().copied().unwrap_or(300_000);
    let rounds = arguments.get(1).copied().unwrap_or(3);
    for limit in [None, Some(u32::MAX)] {
        // redis-benchmark takes 65,793 units each time, all for one buyer: more than this would be over any limit.
        let reserves = if limit.is_some() { reserves.min(65_000) } else { reserves };
        println!("limit per buyer: {}; {reserves} reserves a round, median of {rounds}", limit.is_some());
        println!("{:<34} {:>10} {:>8} {:>8} {:>6}", "", "reserves/s", "client", "redis", "ratio");
        let ways =
            [(64, 64), (128, 64), (128, 128), (256, 64), (512, 64), (1024, 64), (256, 256), (1024, 256)];
        let mut speeds: Vec<Vec<Speed>> = vec![Vec::new(); ways.len() + 1];
        for _ in 0..rounds {
            speeds[0].push(measure(reserves, limit, |redis| redis_benchmark(redis, limit, reserves))?);
            for (at, (requests, batch)) in ways.iter().enumerate() {
                let run = |redis: &Redis| own(redis, limit, reserves, *requests, *batch);
                speeds[at + 1].push(measure(reserves, limit, run)?);
            }
        }
        let mut base = 0.0;
        for (at, speeds) in speeds.iter().enumerate() {
            let of = |pick: fn(&Speed) -> f64| median(speeds.iter().map(pick).collect());
            let name = match at {
                0 => "redis-benchmark -P 64 -c 50".to_owned(),
                _ => format!("{} requests a call, batches of {}", ways[at - 1].0, ways[at - 1].1),
            };
            let per_second = of(|speed| speed.per_second);
            if at == 0 {
                base = per_second;
            }
            let (client, redis) = (of(|speed| speed.client_us), of(|speed| speed.redis_us));
            println!(
                "{name:<34} {per_second:>10.0} {client:>6.2}us {redis:>6.2}us {:>6.2}",
                per_second / base
            );
        }
    }
    Ok(())
}
