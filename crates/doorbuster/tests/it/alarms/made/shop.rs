//! Causes at a server of its own, with its ledger beside it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::Alarm;
use crate::cluster::sql;
use crate::engines::{Engines, freeze};
use crate::exchange::Connection;
use crate::fake_clock::{FakeClock, RIGHT};
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::small_mount::SmallMount;
use crate::webhooks::Receiver;
use crate::{doorbuster, outcome, payments, webhooks};

const MIB: u64 = 1024 * 1024;
/// More than a system is believed for that says that it is synchronised.
const FOUR_DAYS_AHEAD: &str = "+345600";
/// Longer than an event may wait.
const A_QUARTER_AND_A_MINUTE_AGO: &str = "-960";
/// Longer than a server tries to send an event.
const THREE_DAYS_AHEAD: &str = "+259260";
const CONNECTIONS_MAX: usize = 40;
/// The server takes its figures each second.
const FIGURES_INTERVAL: Duration = Duration::from_millis(1_100);
/// That ask a server which stops, one after the other: its figures may be late on a busy machine.
const ASKING: usize = 6;

const ANY_PORT: &str = "127.0.0.1:0";

/// A demo.
fn command(directory: &Path, settings: &str, listen: &str) -> Command {
    let mut command = command_of_shop(directory, settings, listen);
    command.arg("--demo");
    command
}

/// A server that can't say how busy the processors are: while this machine's are, the verdict about them comes before others.
fn command_of_shop(directory: &Path, settings: &str, listen: &str) -> Command {
    std::fs::write(directory.join("shop.toml"), settings).unwrap();
    std::fs::write(directory.join("stat"), "cpu  1 0 0 1 0 0 0 0 0 0\n").unwrap();
    let mut command = Command::new("unshare");
    command.current_dir(directory).env_clear().stdin(Stdio::null());
    command.args(["--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount --bind stat /proc/stat && exec \"$0\" \"$@\"");
    command.args([env!("CARGO_BIN_EXE_doorbuster"), "serve", "--config", "shop.toml"]);
    command.args(["--listen", listen, "--data-dir", "data"]);
    command
}

fn shop(directory: &Path, settings: &str) -> Serving {
    Serving::start(command(directory, settings, ANY_PORT))
}

/// Asks for one unit under a key of its own: the status, whatever it is.
fn attempt(server: SocketAddr, key: usize) -> u16 {
    let (key, body) = (key.to_string(), r#"{"sale": 3, "product": 29}"#);
    let headers = [("memberId", key.as_str()), ("Idempotency-Key", key.as_str())];
    let mut connection = Connection::open(server).unwrap();
    connection.exchange("POST", "/api/v1/orders", &headers, body).unwrap().status
}

/// As an operator; it must succeed.
fn operate(directory: &Path, server: &Serving, arguments: &[&str]) {
    let mut command = doorbuster(directory);
    command.args(arguments).args(["--server", &format!("http://{}", server.address)]);
    let (code, _, errors) = outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
    assert_eq!(code, 0, "{arguments:?}: {errors}");
}

pub(super) fn thaw(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::CONT).unwrap();
}

pub(super) fn server_frozen(alarm: &mut Alarm) {
    let server = shop(alarm.directory(), "");
    alarm.is_quiet(&[&server]);
    freeze(server.pid());
    alarm.is_seen(|| {});
    thaw(server.pid());
    alarm.is_gone();
}

pub(super) fn no_servers(alarm: &mut Alarm) {
    let server = shop(alarm.directory(), "");
    alarm.is_quiet(&[&server]);
    alarm.prometheus().watch(&[]);
    alarm.is_seen(|| {});
    alarm.prometheus().watch(&[&server]);
    alarm.is_gone();
}

/// Only who has begun to ask is answered by a server that stops.
pub(super) fn stopping(alarm: &mut Alarm) {
    let server = shop(alarm.directory(), "");
    let address = server.address;
    alarm.is_quiet(&[&server]);
    let asking: Vec<TcpStream> = (0..ASKING).map(|_| begin_to_ask(address)).collect();
    // It has read what was sent before once it answers what was sent after.
    assert_eq!(attempt(address, 1), 201);
    let stopped = thread::spawn(move || server.stop());
    let is_said = asking.into_iter().any(|asking| {
        thread::sleep(FIGURES_INTERVAL);
        end_asking(asking).is_ok_and(|answer| answer.contains("\"code\":\"stopping\""))
    });
    assert!(is_said);
    alarm.verdict_is_seen("stopping");
    assert_eq!(stopped.join().unwrap(), 0);
    let again = Serving::start(command(alarm.directory(), "", &address.to_string()));
    alarm.is_gone();
    assert_eq!(again.stop(), 0);
}

fn begin_to_ask(server: SocketAddr) -> TcpStream {
    let mut asking = TcpStream::connect(server).unwrap();
    write!(asking, "GET /api/v1/figures HTTP/1.1\r\nAuthorization: Bearer {OPERATOR}\r\n").unwrap();
    asking
}

fn end_asking(mut asking: TcpStream) -> std::io::Result<String> {
    asking.write_all(b"Host: localhost\r\n\r\n")?;
    let mut answer = String::new();
    asking.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A shop whose data are on a disk of this size.
fn on_disk(alarm: &Alarm, size: &str) -> (SmallMount, Serving) {
    let disk = SmallMount::new(size);
    std::os::unix::fs::symlink(disk.path(), alarm.directory().join("data")).unwrap();
    let server = shop(alarm.directory(), "");
    (disk, server)
}

pub(super) fn disk_full(alarm: &mut Alarm) {
    let (disk, server) = on_disk(alarm, "300m");
    alarm.is_quiet(&[&server]);
    disk.fill(0);
    let mut keys = 0..;
    alarm.is_seen(|| {
        attempt(server.address, keys.next().unwrap());
    });
    disk.free();
    wait_until("orders are taken again", || attempt(server.address, keys.next().unwrap()) == 201);
    alarm.lets_others_go_on();
    alarm.is_gone();
}

pub(super) fn disk_full_soon(alarm: &mut Alarm) {
    is_short(alarm, "300m", 20 * MIB);
}

pub(super) fn disk_low(alarm: &mut Alarm) {
    is_short(alarm, "1200m", 110 * MIB);
}

fn is_short(alarm: &mut Alarm, size: &str, left: u64) {
    let (disk, server) = on_disk(alarm, size);
    alarm.is_quiet(&[&server]);
    disk.fill(left);
    alarm.is_seen(|| {});
    disk.free();
    alarm.is_gone();
    assert_eq!(server.stop(), 0);
}

/// A shop whose ledger is on a MariaDB of its own.
fn on_mariadb(alarm: &Alarm) -> (Engines, Serving) {
    let engines = Engines::private(&["mariadb"], &[]);
    let address = engines.address("mariadb");
    sql(&address, "CREATE DATABASE alarms");
    let settings = format!(
        "[ledger]\nbackend = \"mysql\"\nmysql_address = \"{address}\"\nmysql_user = \"root\"\n\
         mysql_database = \"alarms\"\n"
    );
    let server = shop(alarm.directory(), &settings);
    (engines, server)
}

pub(super) fn database_frozen(alarm: &mut Alarm) {
    let (engines, server) = on_mariadb(alarm);
    alarm.is_quiet(&[&server]);
    engines.freeze("mariadb");
    assert_eq!(attempt(server.address, 1), 503);
    engines.thaw("mariadb");
    alarm.is_seen(|| {});
    alarm.lets_others_go_on();
    alarm.is_gone();
}

pub(super) fn orders_slow(alarm: &mut Alarm) {
    waits_for_the_database(alarm, Duration::from_millis(1_300));
}

pub(super) fn commits_slow(alarm: &mut Alarm) {
    waits_for_the_database(alarm, Duration::from_millis(600));
}

fn waits_for_the_database(alarm: &mut Alarm, frozen: Duration) {
    let (engines, server) = on_mariadb(alarm);
    alarm.is_quiet(&[&server]);
    let mut keys = 0..;
    alarm.is_seen(|| {
        engines.freeze("mariadb");
        let (address, key) = (server.address, keys.next().unwrap());
        let order = thread::spawn(move || attempt(address, key));
        thread::sleep(frozen);
        engines.thaw("mariadb");
        order.join().unwrap();
    });
    alarm.lets_others_go_on();
    alarm.is_gone();
}

/// Of a shop, for a demo takes any clock.
pub(super) fn clock_unconfirmed(alarm: &mut Alarm) {
    let directory = alarm.directory().to_owned();
    let clock = FakeClock::new(&directory, RIGHT);
    let serve = |listen: &str| {
        let mut command = command_of_shop(&directory, "[auth]\nbuyer = \"member_id\"\n", listen);
        command.envs(clock.environment());
        Serving::start_unseen(command)
    };
    let server = serve(ANY_PORT);
    let listen = server.address.to_string();
    alarm.is_quiet(&[&server]);
    assert_eq!(server.stop(), 0);
    clock.set(FOUR_DAYS_AHEAD);
    let server = serve(&listen);
    alarm.is_seen(|| {});
    // As the runbook says of a clock that is wrong.
    assert_eq!(server.stop(), 0);
    clock.set(RIGHT);
    let server = serve(&listen);
    alarm.is_gone();
    assert_eq!(server.stop(), 0);
}

pub(super) fn clock_differs(alarm: &mut Alarm) {
    let clock = FakeClock::new(alarm.directory(), RIGHT);
    let mut command = command(alarm.directory(), "", ANY_PORT);
    command.envs(clock.environment());
    let server = Serving::start(command);
    alarm.is_quiet(&[&server]);
    clock.set("+5");
    alarm.is_seen(|| {});
    operate(alarm.directory(), &server, &["clock", "confirm"]);
    alarm.is_gone();
}

pub(super) fn busy(alarm: &mut Alarm) {
    let server = shop(alarm.directory(), "[admission]\norders_per_s = 1\nburst = 1\n");
    alarm.is_quiet(&[&server]);
    let mut keys = 0..;
    alarm.is_seen(|| {
        for key in keys.by_ref().take(3) {
            attempt(server.address, key);
        }
    });
    alarm.lets_others_go_on();
    alarm.is_gone();
}

struct Loops(Vec<Child>);

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Also what others do on this machine keeps it from being quiet.
pub(super) fn processors_busy(alarm: &mut Alarm) {
    alarm.lets_others_go_on();
    let server = Serving::demo(&alarm.directory().join("data"), &[]);
    alarm.is_quiet(&[&server]);
    // Whatever else runs on this machine goes first.
    let endless =
        |_| Command::new("nice").args(["-n", "19", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
    let loops = Loops((0..thread::available_parallelism().unwrap().get()).map(endless).collect());
    alarm.is_seen(|| {});
    drop(loops);
    alarm.is_gone();
}

pub(super) fn connections_refused(alarm: &mut Alarm) {
    let server = shop(alarm.directory(), &format!("[http]\nconnections_max = {CONNECTIONS_MAX}\n"));
    alarm.is_quiet(&[&server]);
    let connect = |_| TcpStream::connect(server.address).unwrap();
    drop((0..2 * CONNECTIONS_MAX).map(connect).collect::<Vec<_>>());
    alarm.is_seen(|| {});
    alarm.lets_others_go_on();
    alarm.is_gone();
}

pub(super) fn refunds_due(alarm: &mut Alarm) {
    let mut command = command(alarm.directory(), "", ANY_PORT);
    command.env("DOORBUSTER_PAYMENT_SECRET", payments::PAYMENT_SECRET);
    let server = Serving::start(command);
    alarm.is_quiet(&[&server]);
    let order =
        payments::post(&server, "/api/v1/orders", &[("memberId", "7")], &json!({ "sale": 3, "product": 29 }));
    let (id, amount) = (order["id"].as_str().unwrap(), order["amount"].as_u64().unwrap());
    for payment in ["first", "second"] {
        payments::pay(&server, payment, id, amount);
    }
    alarm.is_seen(|| {});
    operate(alarm.directory(), &server, &["refunds", "settle", "second"]);
    alarm.is_gone();
}

pub(super) fn sale_paused(alarm: &mut Alarm) {
    let server = shop(alarm.directory(), "");
    alarm.is_quiet(&[&server]);
    operate(alarm.directory(), &server, &["sale", "pause", "3"]);
    alarm.is_seen(|| {});
    operate(alarm.directory(), &server, &["sale", "resume", "3"]);
    alarm.is_gone();
}

pub(super) fn webhook_off(alarm: &mut Alarm) {
    let receiver = Receiver::start();
    let server = webhooks::serve(alarm.directory(), &receiver, "");
    alarm.is_quiet(&[&server]);
    receiver.set(410);
    webhooks::place(&server, "anna");
    alarm.is_seen(|| {});
    receiver.set(204);
    operate(alarm.directory(), &server, &["webhooks", "enable", "shop"]);
    alarm.is_gone();
}

pub(super) fn webhook_waiting(alarm: &mut Alarm) {
    let (receiver, server) = refused_since(alarm, A_QUARTER_AND_A_MINUTE_AGO, RIGHT);
    alarm.is_seen(|| {});
    receiver.set(204);
    alarm.is_gone();
    assert_eq!(server.stop(), 0);
}

pub(super) fn webhook_given_up(alarm: &mut Alarm) {
    let (receiver, server) = refused_since(alarm, RIGHT, THREE_DAYS_AHEAD);
    alarm.is_seen(|| {});
    receiver.set(204);
    operate(alarm.directory(), &server, &["webhooks", "replay", "shop", "--since", "0"]);
    alarm.is_gone();
    assert_eq!(server.stop(), 0);
}

/// A shop whose endpoint refused an event first by one clock, and goes on by another.
fn refused_since(alarm: &mut Alarm, first: &str, then: &str) -> (Receiver, Serving) {
    let receiver = Receiver::start();
    let clock = FakeClock::new(alarm.directory(), first);
    let serve = |alarm: &Alarm, listen: &str| {
        let settings = webhooks::endpoint(alarm.directory(), &receiver, "");
        let mut command = command(alarm.directory(), &settings, listen);
        command.envs(clock.environment()).env("DOORBUSTER_CLOCK_TRUST", "system");
        Serving::start(command)
    };
    let server = serve(alarm, ANY_PORT);
    let listen = server.address.to_string();
    alarm.is_quiet(&[&server]);
    receiver.set(500);
    webhooks::place(&server, "anna");
    wait_until("it was tried", || !receiver.heard().is_empty());
    assert_eq!(server.stop(), 0);
    clock.set(then);
    let server = serve(alarm, &listen);
    (receiver, server)
}
