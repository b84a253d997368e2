//! The Redis driver on real servers, one of which is killed in the middle, and on one that lies.
#![allow(clippy::unwrap_used, reason = "everything here is a test, its functions beside #[test] too")]

mod ports;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::drivers::redis::command::RedisCommand;
use bench::drivers::redis::keys::{Keys, Order};
use bench::drivers::redis::{Redis as Driver, Workload};
use bench::host::process::{Guard, log_tail};
use bench::load::record::{Outcomes, Record};
use bench::load::schedule::Schedule;
use bench::load::{Generator, Settings};
use bench::target::engines::redis::Redis;
use ports::free_ports;

const PATIENCE: Duration = Duration::from_secs(30);

struct Server {
    guard: Guard,
    address: SocketAddr,
    folder: tempfile::TempDir,
    /// Keeps its port, also while it is away.
    _ports: File,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (port, ports) = free_ports();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let guard = spawn(folder.path(), address, arguments);
        Self { guard, address, folder, _ports: ports }
    }

    fn client(&self) -> Redis {
        Redis::connect(self.address).expect("it serves")
    }
}

/// Returns when it answers anything at all, be it that it wants a password.
fn spawn(folder: &Path, address: SocketAddr, arguments: &[&str]) -> Guard {
    let mut program = Command::new("redis-server");
    program.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", ""]);
    program.arg("--dir").arg(folder).args(arguments);
    let log = folder.join("log");
    let mut guard = Guard::start(&mut program, &log).expect("redis-server is installed");
    let begun = Instant::now();
    loop {
        let said = Redis::connect(address).and_then(|mut redis| redis.query::<String>(&["PING"]));
        if said.is_ok() || said.is_err_and(|error| error.to_string().contains("NOAUTH")) {
            return guard;
        }
        assert!(
            guard.ended().expect("a child").is_none() && begun.elapsed() < PATIENCE,
            "{}",
            log_tail(&log)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn workload(command: &str) -> Workload {
    let keys = Keys::new("", 20, 1000, Order::Random).expect("keys");
    Workload { value_bytes: 8, ..Workload::of(RedisCommand::parse(command).expect("a command"), keys) }
}

fn run(address: SocketAddr, users: usize, workload: Workload, schedule: Schedule) -> (Record, Driver) {
    let mut driver = Driver::new(workload).expect("a workload");
    let settings =
        Settings { answer_timeout: Duration::from_millis(1500), ..Settings::keep_alive(address, users) };
    let mut generator = Generator::connect(settings, &mut driver).expect("connections");
    let record = generator.run(schedule, &mut driver, &AtomicBool::new(false)).expect("nobody stops it");
    (record, driver)
}

#[test]
fn what_is_written_is_there_and_what_is_counted_is_its_sum() {
    let server = Server::start(&[]);
    let mut fill = workload("SET __key__ __data__");
    fill.keys = Keys::new("", 20, 1000, Order::Sequence).unwrap();
    fill.depth = 100;
    let (record, _) = run(server.address, 1, fill, Schedule::closed_requests(10));
    assert_eq!(record.outcomes, Outcomes { served: 1000, ..Outcomes::default() });
    let mut redis = server.client();
    assert_eq!(redis.query::<u64>(&["DBSIZE"]).unwrap(), 1000);
    assert_eq!(redis.query::<u64>(&["STRLEN", &format!("{:020}", 999)]).unwrap(), 8);

    redis.exec(&["CONFIG", "RESETSTAT"]).unwrap();
    let counting = Workload { depth: 16, ..workload("INCR counter") };
    let (record, driver) = run(server.address, 20, counting, Schedule::closed_requests(1000));
    assert_eq!(record.outcomes, Outcomes { served: 16_000, ..Outcomes::default() });
    let counter: i64 = redis.query(&["GET", "counter"]).unwrap();
    assert_eq!((driver.highest(), counter), (Some(counter), 16_000));
    let stats: String = redis.query(&["INFO", "commandstats"]).unwrap();
    assert!(stats.contains(&format!("cmdstat_incr:calls={counter},")), "{stats}");
}

#[test]
fn refusals_of_redis_are_counted_and_the_first_one_is_shown() {
    let server = Server::start(&[]);
    server.client().exec(&["LPUSH", "list", "x"]).unwrap();
    let (record, _) = run(server.address, 2, workload("INCR list"), Schedule::closed_requests(10));
    assert_eq!(record.outcomes, Outcomes { failed: 10, ..Outcomes::default() });
    assert!(record.first_surprise.unwrap().starts_with("WRONGTYPE"));

    let missing = workload("GET missing");
    let (record, _) = run(server.address, 1, missing, Schedule::closed_requests(3));
    assert_eq!(record.outcomes, Outcomes { failed: 3, ..Outcomes::default() });
    server.client().exec(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let (record, _) = run(server.address, 1, workload("SET __key__ v"), Schedule::closed_requests(3));
    assert_eq!(record.outcomes, Outcomes { failed: 3, ..Outcomes::default() });
    assert!(record.first_surprise.unwrap().starts_with("OOM"));
}

#[test]
fn a_password_is_given_before_the_first_request() {
    let server = Server::start(&["--requirepass", "secret"]);
    let with = |password: &str| Workload { password: Some(password.to_owned()), ..workload("SET __key__ v") };
    let (record, _) = run(server.address, 10, with("secret"), Schedule::closed_requests(100));
    assert_eq!(record.outcomes, Outcomes { served: 100, ..Outcomes::default() });
    let (record, _) = run(server.address, 1, workload("SET __key__ v"), Schedule::closed_requests(2));
    assert_eq!(record.outcomes, Outcomes { failed: 2, ..Outcomes::default() });
    let mut driver = Driver::new(with("wrong")).unwrap();
    let refused = Generator::connect(Settings::keep_alive(server.address, 1), &mut driver).unwrap_err();
    assert!(refused.to_string().contains("password"), "{refused}");
}

/// With the log synced before each answer, what was acknowledged survives; what lost its answer may.
#[test]
fn a_server_killed_under_load_keeps_every_acknowledged_increment() {
    const ARGUMENTS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start(&ARGUMENTS);
    let (address, folder) = (server.address, server.folder.path().to_owned());
    let finish = AtomicBool::new(false);
    let ((record, driver), killed_at) = std::thread::scope(|scope| {
        let (guard, finish) = (&mut server.guard, &finish);
        let killing = scope.spawn(move || {
            let begun = Instant::now();
            let mut redis = Redis::connect(address).unwrap();
            let wait_for = |redis: &mut Redis, wanted: u64| loop {
                assert!(begun.elapsed() < PATIENCE, "no {wanted} are counted");
                let value: u64 = redis.query(&["INCRBY", "hot", "0"]).unwrap();
                if value >= wanted {
                    return value;
                }
            };
            let seen = wait_for(&mut redis, 200);
            guard.kill().unwrap();
            *guard = spawn(&folder, address, &ARGUMENTS);
            let mut redis = Redis::connect(address).unwrap();
            let back = wait_for(&mut redis, seen);
            wait_for(&mut redis, back + 20);
            finish.store(true, Ordering::Relaxed);
            seen
        });
        let mut driver = Driver::new(workload("INCR hot")).expect("a workload");
        // It goes on until the server has worked again, however long that takes here.
        let settings = Settings { answer_timeout: PATIENCE, ..Settings::keep_alive(address, 20) };
        let mut generator = Generator::connect(settings, &mut driver).expect("connections");
        let schedule = Schedule::closed(2 * PATIENCE);
        let record = generator.run_until(schedule, &mut driver, finish, &mut |_| {}).expect("it has begun");
        ((record, driver), killing.join().unwrap())
    });
    let value: u64 = server.client().query(&["GET", "hot"]).unwrap();
    let Outcomes { served, unknown, .. } = record.outcomes;
    assert!((served..=served + unknown).contains(&value), "{value}, {:?}", record.outcomes);
    assert!(driver.highest().unwrap() <= i64::try_from(value).unwrap());
    // It was hit while it worked, and it worked again after that.
    assert!(unknown > 0 && record.reconnects > 0, "{:?} {}", record.outcomes, record.reconnects);
    assert!(value > killed_at + 20, "killed at {killed_at}, {value} at the end");
}

/// What the server that lies does with the command of this number.
#[derive(Clone, Copy)]
enum Lie {
    Say(&'static [u8]),
    SayAndClose(&'static [u8]),
    Silence,
}

const PONG: Lie = Lie::Say(b"+PONG\r\n");

/// Reads PINGs and answers each one as it was set up. Its threads end with their connections, or with the process.
fn liar(lie: impl Fn(u64) -> Lie + Send + Sync + 'static) -> SocketAddr {
    const PING_BYTES: usize = b"*1\r\n$4\r\nPING\r\n".len();
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (lie, number) = (Arc::new(lie), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, lie, number) = (stream.expect("a client"), lie.clone(), number.clone());
            std::thread::spawn(move || {
                let mut ping = [0; PING_BYTES];
                while stream.read_exact(&mut ping).is_ok() {
                    assert_eq!(&ping, b"*1\r\n$4\r\nPING\r\n");
                    let (bytes, close) = match lie(number.fetch_add(1, Ordering::Relaxed)) {
                        Lie::Say(bytes) => (bytes, false),
                        Lie::SayAndClose(bytes) => (bytes, true),
                        Lie::Silence => continue,
                    };
                    if stream.write_all(bytes).is_err() || close {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn lies_are_never_taken_for_answers() {
    let served = |served, unknown| Outcomes { served, unknown, ..Outcomes::default() };
    let lie_at = |at: u64, lie: Lie| move |number| if number == at { lie } else { PONG };
    // (lie at the sixth command, commands per request, outcomes of 20 commands, stray answers)
    let table = [
        (Lie::Say(b"+PO"), 1, served(19, 1), 0),
        (Lie::SayAndClose(b"+PO"), 1, served(19, 1), 0),
        (Lie::SayAndClose(b""), 1, served(19, 1), 0),
        (Lie::Silence, 1, served(19, 1), 0),
        (Lie::Say(b"HTTP/1.1 200 OK\r\n\r\n"), 1, served(19, 1), 0),
        (Lie::Say(b"$1\r\nPONG\r\n"), 1, served(19, 1), 0),
        (Lie::Say(b"+PONG\r\n+PONG\r\n"), 1, served(20, 0), 1),
        // The first of a second pipeline of five is the sixth: its answers up to there count.
        (Lie::SayAndClose(b"+PONG\r\n+P"), 5, served(16, 4), 0),
        (Lie::Silence, 5, served(19, 1), 0),
    ];
    for (index, (lie, depth, wanted, stray)) in table.into_iter().enumerate() {
        let address = liar(lie_at(5, lie));
        let workload = Workload { depth, ..workload("PING") };
        let requests = 20 / u64::try_from(depth).unwrap();
        let (record, _) = run(address, 1, workload, Schedule::closed_requests(requests));
        assert_eq!(record.outcomes, wanted, "row {index}: {:?}", record.first_surprise);
        assert_eq!(record.stray_answers, stray, "row {index}");
    }
}
