//! Who used the machine between two moments: processor time of processes and of their threads, and the disk.
//!
//! The evidence for what limits a rate. Read from `/proc` before and after a measurement, never within it. It draws no conclusion: see `limit.rs`.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use ::procfs::{CpuTime, CurrentSI, KernelStats, diskstats};
use serde::{Deserialize, Serialize};

use crate::host::procfs;

/// A process that is watched, under the name that the report gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    pub name: String,
    pub pid: u32,
}

impl Watched {
    pub fn new(name: &str, pid: u32) -> Self {
        Self { name: name.to_owned(), pid }
    }

    /// This very process, which makes the load.
    pub fn load() -> Self {
        Self::new("load", std::process::id())
    }
}

#[derive(Debug)]
pub struct Snapshot {
    at: Instant,
    /// Of all processors together since the machine started, in ticks.
    machine: CpuTime,
    disk_busy_ms: Option<u64>,
    processes: Vec<(Watched, Duration, HashMap<i32, Thread>)>,
}

#[derive(Debug)]
struct Thread {
    name: String,
    cpu: Duration,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Usage {
    pub seconds: f64,
    pub processors: usize,
    /// Of all processors together, 0 to 1, whoever used them.
    pub machine_busy: f64,
    /// Share of all processors' time that the hypervisor gave to others, 0 to 1.
    #[serde(default)]
    pub steal: f64,
    /// Processors that were used by whatever is not listed: 0.5 is half of one.
    pub others: f64,
    /// Share of the time in which the disk had something to do, 0 to 1; `None` where it can't be known.
    pub disk_busy: Option<f64>,
    pub processes: Vec<ProcessUsage>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProcessUsage {
    pub name: String,
    pub cpu_seconds: f64,
    /// Processors that it used on average: 1.5 is one and a half.
    pub processors: f64,
    pub busiest_thread: String,
    /// Of one processor, 0 to 1.
    pub busiest_thread_share: f64,
}

#[cfg(test)]
impl ProcessUsage {
    /// With one thread, over a second.
    pub(crate) fn of(name: &str, share: f64) -> Self {
        let (name, busiest_thread) = (name.to_owned(), name.to_owned());
        Self { name, cpu_seconds: share, processors: share, busiest_thread, busiest_thread_share: share }
    }
}

impl Snapshot {
    /// `disk` is a block device's name, such as `vda`. A process that is named twice counts under its first name. One
    /// that has ended is an error that names it.
    pub fn take(watched: &[Watched], disk: Option<&str>) -> io::Result<Self> {
        let first = |index: usize, of: &Watched| watched[..index].iter().all(|earlier| earlier.pid != of.pid);
        let processes = watched
            .iter()
            .enumerate()
            .filter(|(index, of)| first(*index, of))
            .map(|(_, of)| of)
            .map(|of| counters(of).map_err(|error| ended_or(of, error)))
            .collect::<io::Result<_>>()?;
        let of_disk = |disk| diskstats().ok()?.into_iter().find(|of| of.name == disk);
        let disk_busy_ms = disk.and_then(of_disk).map(|of| of.time_in_progress);
        let machine = KernelStats::current().map_err(io::Error::other)?.total;
        Ok(Self { at: Instant::now(), machine, disk_busy_ms, processes })
    }

    /// Processes of one name count as one.
    pub fn until(&self, later: &Self) -> Usage {
        let seconds = later.at.duration_since(self.at).as_secs_f64().max(1e-9);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let ticks = |of: fn(&CpuTime) -> u64| of(&later.machine).saturating_sub(of(&self.machine)) as f64;
        let total = ticks(total).max(1.0);
        let machine_busy = 1.0 - ticks(idle) / total;
        // In which a processor had work, and the hypervisor gave it to others.
        let steal = ticks(|of| of.steal.unwrap_or(0)) / total;
        let mut processes: Vec<ProcessUsage> = Vec::new();
        for (before, after) in self.processes.iter().zip(&later.processes) {
            let usage = process_usage(before, after, seconds);
            match processes.iter_mut().find(|of| of.name == usage.name) {
                Some(of) => of.add(usage),
                None => processes.push(usage),
            }
        }
        let listed: f64 = processes.iter().map(|of| of.processors).sum();
        let disk_busy = self
            .disk_busy_ms
            .zip(later.disk_busy_ms)
            .map(|(before, after)| (after.saturating_sub(before) as f64 / 1000.0 / seconds).min(1.0));
        Usage {
            seconds,
            processors,
            machine_busy,
            steal,
            others: (machine_busy * processors as f64 - listed).max(0.0),
            disk_busy,
            processes,
        }
    }
}

impl Usage {
    /// So many threads of a process shared its work evenly, and have ended: how busy each was, or the processors if
    /// there are fewer.
    pub fn spread_over(&mut self, process: &str, threads: usize) {
        let at_once = threads.min(self.processors).max(1) as f64;
        for of in self.processes.iter_mut().filter(|of| of.name == process) {
            of.busiest_thread = "each thread".to_owned();
            of.busiest_thread_share = of.processors / at_once;
        }
    }

    /// Children that ended meanwhile were counted as others: their processor time, under a name of their own.
    pub fn add_ended(&mut self, name: &str, cpu: Duration) {
        let (cpu_seconds, processors) = (cpu.as_secs_f64(), cpu.as_secs_f64() / self.seconds.max(1e-9));
        self.others = (self.others - processors).max(0.0);
        if processors > 0.0 {
            self.processes.push(ProcessUsage {
                name: name.to_owned(),
                cpu_seconds,
                processors,
                busiest_thread: String::new(),
                busiest_thread_share: 0.0,
            });
        }
    }
}

impl ProcessUsage {
    fn add(&mut self, other: Self) {
        self.cpu_seconds += other.cpu_seconds;
        self.processors += other.processors;
        if other.busiest_thread_share > self.busiest_thread_share {
            self.busiest_thread = other.busiest_thread;
            self.busiest_thread_share = other.busiest_thread_share;
        }
    }
}

fn process_usage(
    before: &(Watched, Duration, HashMap<i32, Thread>),
    after: &(Watched, Duration, HashMap<i32, Thread>),
    seconds: f64,
) -> ProcessUsage {
    assert_eq!(before.0, after.0, "both snapshots are of the same processes");
    let cpu_seconds = after.1.saturating_sub(before.1).as_secs_f64();
    let busiest = after
        .2
        .iter()
        .map(|(id, thread)| {
            let earlier = before.2.get(id).map_or(Duration::ZERO, |thread| thread.cpu);
            (thread.cpu.saturating_sub(earlier), &thread.name)
        })
        .max_by_key(|(cpu, _)| *cpu);
    let (thread_cpu, thread) = busiest.map_or((Duration::ZERO, ""), |(cpu, name)| (cpu, name.as_str()));
    ProcessUsage {
        name: after.0.name.clone(),
        cpu_seconds,
        processors: cpu_seconds / seconds,
        busiest_thread: thread.to_owned(),
        busiest_thread_share: thread_cpu.as_secs_f64() / seconds,
    }
}

fn threads(pid: u32) -> io::Result<HashMap<i32, Thread>> {
    let tasks = procfs::process(pid)?.tasks().map_err(io::Error::other)?;
    // A thread may end between the listing and the look at it.
    let stats = tasks.filter_map(|task| task.ok()?.stat().ok());
    Ok(stats.map(|stat| (stat.pid, Thread { cpu: procfs::cpu_of(&stat), name: stat.comm })).collect())
}

/// Guest time is in user's already.
fn total(of: &CpuTime) -> u64 {
    let irq = of.irq.unwrap_or(0) + of.softirq.unwrap_or(0);
    of.user + of.nice + of.system + irq + of.steal.unwrap_or(0) + idle(of)
}

/// The time in which no processor had anything to run, waiting for the disk included.
fn idle(of: &CpuTime) -> u64 {
    of.idle + of.iowait.unwrap_or(0)
}

fn counters(of: &Watched) -> io::Result<(Watched, Duration, HashMap<i32, Thread>)> {
    // What the counters of a process say that only waits for its parent is no work of a server any more.
    if procfs::is_gone(of.pid) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok((of.clone(), procfs::cpu(of.pid)?, threads(of.pid)?))
}

fn ended_or(of: &Watched, error: io::Error) -> io::Error {
    if procfs::is_gone(of.pid) {
        io::Error::other(format!("{} (pid {}) has ended", of.name, of.pid))
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_once_and_those_of_one_name_together() {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut child = crate::host::process::Guard::adopt(child);
        let watched = [Watched::load(), Watched::new("load", child.pid()), Watched::new("idle", child.pid())];
        let before = Snapshot::take(&watched, None).unwrap();
        assert_eq!(before.processes.len(), 2);
        let usage = before.until(&Snapshot::take(&watched, None).unwrap());
        crate::host::process::run_tool(
            std::process::Command::new("kill").args(["-KILL", &child.pid().to_string()]),
            Duration::from_secs(60),
            &std::sync::atomic::AtomicBool::new(false),
        )
        .unwrap();
        // Dead, and not waited for: its counters can still be read, and must not be.
        while !procfs::is_gone(child.pid()) {
            std::thread::yield_now();
        }
        let gone = format!("idle (pid {}) has ended", child.pid());
        assert_eq!(Snapshot::take(&watched[2..], None).unwrap_err().to_string(), gone);
        child.stop().unwrap();
        assert_eq!(Snapshot::take(&watched[2..], None).unwrap_err().to_string(), gone);
        let names: Vec<_> = usage.processes.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["load"]);
    }

    #[test]
    fn threads_that_have_ended_are_as_busy_as_the_processors_for_them() {
        let before = Snapshot::take(&[Watched::load()], None).unwrap();
        let mut usage = before.until(&Snapshot::take(&[Watched::load()], None).unwrap());
        (usage.processors, usage.processes[0].processors) = (4, 0.9);
        for (threads, share) in [(1, 0.9), (3, 0.3), (100, 0.225)] {
            usage.spread_over("other", 1);
            usage.spread_over("load", threads);
            assert!((usage.processes[0].busiest_thread_share - share).abs() < 1e-9, "{usage:?}");
        }
    }

    #[test]
    fn work_of_a_thread_is_seen_under_its_name() {
        let before = Snapshot::take(&[Watched::load()], None).unwrap();
        let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(0);
        let worker = std::thread::Builder::new()
            .name("worker-of-test".to_owned())
            .spawn(move || {
                let mut value = 1_u64;
                while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    value = (0..1000_u64).fold(value, |value, n| value.wrapping_mul(n | 1));
                }
                value
            })
            .unwrap();
        let usage = loop {
            std::thread::sleep(Duration::from_millis(50));
            let usage = before.until(&Snapshot::take(&[Watched::load()], None).unwrap());
            // However little of the processor it gets, it gets there.
            if usage.processes[0].busiest_thread == "worker-of-test" && usage.seconds < 20.0 {
                break usage;
            }
            assert!(usage.seconds < 20.0, "{usage:?}");
        };
        drop(stop);
        worker.join().unwrap();
        assert!(usage.processes[0].cpu_seconds > 0.0 && usage.machine_busy > 0.0, "{usage:?}");
        assert_eq!(usage.disk_busy, None);
    }
}
