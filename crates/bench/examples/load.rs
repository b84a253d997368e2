//! The load generator by itself, against any address, or beside `wrk` on one nginx.
//!
//! `load ADDRESS CONNECTIONS SECONDS [PER_S]` sends `GET /` in a closed loop, or in an open loop at a rate, with so many
//! connections at most.
//! `load wrk [ROUNDS] [SECONDS]` compares with `wrk -t1`, interleaved: throughput, and processor time per request.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use bench::drivers::http::{Http, Settings, Workload, once};
use bench::host::procfs;
use bench::load::Generator;
use bench::load::record::{Outcome, Record};
use bench::load::schedule::Schedule;
use bench::target::nginx::Nginx;

struct Get(Vec<u8>);

impl Workload for Get {
    fn request(&mut self) -> &[u8] {
        &self.0
    }

    fn judge(&mut self, status: u16, _body: &[u8]) -> Outcome {
        if status == 200 { Outcome::Served } else { Outcome::Failed }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["wrk"] => compare(5, 4),
        ["wrk", rounds] => compare(rounds.parse()?, 4),
        ["wrk", rounds, seconds] => compare(rounds.parse()?, seconds.parse()?),
        [address, connections, seconds] => {
            load(address.parse()?, connections.parse()?, seconds.parse()?, None)
        }
        [address, connections, seconds, per_s] => {
            load(address.parse()?, connections.parse()?, seconds.parse()?, Some(per_s.parse()?))
        }
        _ => bail!("usage: load ADDRESS CONNECTIONS SECONDS [PER_S] | load wrk [ROUNDS] [SECONDS]"),
    }
}

fn run(address: SocketAddr, connections: usize, schedule: Schedule) -> anyhow::Result<(Record, f64)> {
    let mut workload = Get(once::encode("GET", "/", &[], &[]));
    let before = procfs::own_cpu()?;
    let settings = match schedule.is_open() {
        true => Settings::open_loop(address, connections),
        false => Settings::keep_alive(address, connections),
    };
    let mut http = Http { workload: &mut workload };
    let record =
        Generator::connect(settings, &mut http)?.run(schedule, &mut http, &AtomicBool::new(false))?;
    let cpu = procfs::own_cpu()? - before;
    let cpu_us = cpu.as_secs_f64() * 1e6 / record.outcomes.served.max(1) as f64;
    Ok((record, cpu_us))
}

fn load(address: SocketAddr, connections: usize, seconds: u64, per_s: Option<f64>) -> anyhow::Result<()> {
    let duration = Duration::from_secs(seconds);
    let schedule = per_s.map_or(Schedule::closed(duration), |per_s| Schedule::constant(per_s, duration));
    let (record, cpu_us) = run(address, connections, schedule)?;
    println!("{:.0} served/s, {cpu_us:.2} us of own CPU each", record.per_s(Outcome::Served));
    println!(
        "response {:?}\nservice  {:?}\nsend lag {:?}, of which the generator's own {:?}",
        record.response(),
        record.service(),
        record.send_lag(),
        record.generator_lag()
    );
    println!("{:?} first surprise {:?}", record.outcomes, record.first_surprise);
    println!("unsent {}, waited for a connection {}", record.unsent, record.waited_for_cap);
    Ok(())
}

/// Requests per second and microseconds of processor time per request.
#[derive(Debug, Clone, Copy)]
struct Point {
    per_s: f64,
    own_us: f64,
    nginx_us: f64,
}

fn compare(rounds: usize, seconds: u64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let nginx = Nginx::start(folder.path())?;
    for connections in [64, 200, 1000] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let before = procfs::cpu(nginx.pid())?;
            let (record, own_us) =
                run(nginx.address, connections, Schedule::closed(Duration::from_secs(seconds)))?;
            let nginx_us =
                (procfs::cpu(nginx.pid())? - before).as_secs_f64() * 1e6 / record.outcomes.served as f64;
            ours.push(Point { per_s: record.per_s(Outcome::Served), own_us, nginx_us });
            theirs.push(wrk(&nginx, connections, seconds)?);
            println!(
                "{connections} connections, round {}: ours {:?} wrk {:?}",
                round + 1,
                ours[round],
                theirs[round]
            );
        }
        let median = |points: &[Point], value: fn(&Point) -> f64| {
            let mut values: Vec<f64> = points.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        for (name, value) in [
            ("requests/s", (|point| point.per_s) as fn(&Point) -> f64),
            ("own CPU us/request", |point| point.own_us),
            ("nginx CPU us/request", |point| point.nginx_us),
        ] {
            let (ours, theirs) = (median(&ours, value), median(&theirs, value));
            println!(
                "{connections} connections, {name}: ours {ours:.2}, wrk {theirs:.2}, ratio {:.2}",
                ours / theirs
            );
        }
    }
    Ok(())
}

fn wrk(nginx: &Nginx, connections: usize, seconds: u64) -> anyhow::Result<Point> {
    let (nginx_before, own_before) = (procfs::cpu(nginx.pid())?, procfs::ended_children_cpu()?);
    let output = Command::new("wrk")
        .args([
            "-t1",
            &format!("-c{connections}"),
            &format!("-d{seconds}s"),
            &format!("http://{}/", nginx.address),
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("wrk is not installed")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |name: &str| {
        let line = text.lines().find(|line| line.contains(name)).context("wrk's output")?;
        line.split_whitespace().find_map(|word| word.parse::<f64>().ok()).context("wrk's number")
    };
    let requests = number("requests in")?;
    Ok(Point {
        per_s: number("Requests/sec")?,
        own_us: (procfs::ended_children_cpu()? - own_before).as_secs_f64() * 1e6 / requests,
        nginx_us: (procfs::cpu(nginx.pid())? - nginx_before).as_secs_f64() * 1e6 / requests,
    })
}
