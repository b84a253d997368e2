//! Where the master is, as Redis Sentinel says it.
//!
//! What a Sentinel answers is only a place to look at: whoever connects there makes sure that a master is there, and its run
//! decides which gates may be used. Must not: be asked for each batch. A router without a connection asks at most every
//! `RETRY_PAUSE`, one with a connection once a second.

use std::time::Duration;

use redis::{Cmd, Value};

use super::connection::Connection;
use super::reply::{array, bytes};
use crate::gate::{GateConfig, Sentinel, Why, limits};
use crate::time::Instant;

#[derive(Debug)]
pub(super) struct Sentinels {
    /// The gate's, but for who we are to the Sentinels.
    config: GateConfig,
    /// The master's name.
    name: String,
    seats: Vec<Seat>,
    /// Whose turn it is.
    next: usize,
    /// The last time that the master was looked for, and what came of it.
    found: Option<(Instant, Result<String, Why>)>,
    check_at: Instant,
}

#[derive(Debug)]
struct Seat {
    address: String,
    /// Kept, so that a look takes one round trip.
    connection: Option<Connection>,
    /// What it named, or why it gave no answer, at the last try.
    said: Option<(Instant, Result<String, Why>)>,
}

impl Seat {
    /// What it named, no longer ago than that.
    fn named(&self, within: Duration) -> Option<&String> {
        let (at, said) = self.said.as_ref()?;
        said.as_ref().ok().filter(|_| at.elapsed() <= within)
    }

    fn is_silent(&self) -> bool {
        self.said
            .as_ref()
            .is_some_and(|(at, said)| said.is_err() && at.elapsed() <= limits::SENTINEL_LEFT_OUT)
    }
}

impl Sentinels {
    pub(super) fn new(config: &GateConfig, sentinel: &Sentinel) -> Sentinels {
        let seat = |address: &String| Seat { address: address.clone(), connection: None, said: None };
        let number = u32::try_from(config.addresses.len()).unwrap_or(u32::MAX).max(1);
        Sentinels {
            config: GateConfig {
                user: sentinel.user.clone(),
                password: sentinel.password.clone(),
                // Together they have one time-out.
                connect_timeout: config.connect_timeout / number,
                reply_timeout: config.reply_timeout / number,
                ..config.clone()
            },
            name: sentinel.master.clone(),
            seats: config.addresses.iter().map(seat).collect(),
            next: 0,
            found: None,
            check_at: Instant::now(),
        }
    }

    /// The master's address, for whoever has no connection to it: they are asked until most of all name the same, or only those are
    /// left that were silent when they were asked last. Of what is named, what most name.
    pub(super) fn find(&mut self) -> Result<String, Why> {
        if let Some((at, found)) = &self.found
            && at.elapsed() < limits::RETRY_PAUSE
        {
            return found.clone();
        }
        let started = Instant::now();
        for at in self.turns() {
            let named = self.named(started.elapsed());
            let is_agreed = named.is_some_and(|(_, by)| self.is_most(by));
            if is_agreed || (named.is_some() && self.seats[at].is_silent()) {
                break;
            }
            self.ask_one(at);
        }
        let named = self.named(started.elapsed()).map(|(address, _)| address.clone());
        let found = named.ok_or_else(|| self.silence());
        self.found = Some((Instant::now(), found.clone()));
        self.check_at = Instant::now() + limits::SENTINEL_CHECK;
        found
    }

    /// The same once in a while, and of one Sentinel after the other, for whoever has a connection: a master that was cut off from the
    /// Sentinels while they made another one does not know of it, nor does a Sentinel that was cut off with it. `None`: less than
    /// most of all name the same, so nothing is known to be wrong.
    pub(super) fn check(&mut self) -> Option<String> {
        let started = Instant::now();
        if started < self.check_at {
            return None;
        }
        let turn = self.next_to_check();
        turn.into_iter().for_each(|at| self.ask_one(at));
        let pause = limits::SENTINEL_CHECK.max(started.elapsed() * limits::SENTINEL_CHECK_SHARE);
        self.check_at = Instant::now() + pause;
        let named = self.named(limits::SENTINEL_COUNTS).filter(|(_, by)| self.is_most(*by));
        named.map(|(address, _)| address.clone())
    }

    fn is_most(&self, by: usize) -> bool {
        by > self.seats.len() / 2
    }

    /// One that was silent only if those that were not can't be most of all: they may be the ones that were cut off.
    fn next_to_check(&self) -> Option<usize> {
        let not_silent = self.seats.iter().filter(|seat| !seat.is_silent()).count();
        if self.is_most(not_silent) { self.turns().next() } else { Some(self.next) }
    }

    /// Whether half of them answer at least. Those that did not answer lately are asked.
    pub(super) fn are_heard(&mut self) -> bool {
        let is_heard = |seat: &Seat| seat.named(limits::SENTINEL_COUNTS).is_some();
        let enough = self.seats.len().div_ceil(2);
        for at in self.turns() {
            if self.seats.iter().filter(|seat| is_heard(seat)).count() >= enough {
                return true;
            }
            if !is_heard(&self.seats[at]) {
                self.ask_one(at);
            }
        }
        self.seats.iter().filter(|seat| is_heard(seat)).count() >= enough
    }

    /// All of them, from the one whose turn it is; those that were silent when they were asked last come last.
    fn turns(&self) -> impl Iterator<Item = usize> + use<> {
        let (number, next) = (self.seats.len(), self.next);
        let mut turns: Vec<_> = (0..number).map(|at| (next + at) % number).collect();
        turns.sort_by_key(|at| self.seats[*at].is_silent());
        turns.into_iter()
    }

    fn ask_one(&mut self, at: usize) {
        let answer = self.ask(at).map_err(explained);
        let seat = &mut self.seats[at];
        if answer.is_err() {
            seat.connection = None;
        }
        seat.said = Some((Instant::now(), answer));
        self.next = (at + 1) % self.seats.len();
    }

    /// What most of them name that answered no longer ago than that, and how many; of two that as many name, the first.
    fn named(&self, within: Duration) -> Option<(&String, usize)> {
        let named = || self.seats.iter().filter_map(|seat| seat.named(within));
        let by = |address: &String| named().filter(|named| *named == address).count();
        let all: Vec<_> = named().map(|address| (address, by(address))).collect();
        all.into_iter().rev().max_by_key(|(_, by)| *by)
    }

    fn ask(&mut self, at: usize) -> Result<String, Why> {
        let seat = &mut self.seats[at];
        let mut command = command("GET-MASTER-ADDR-BY-NAME");
        command.arg(&self.name);
        // A connection that was kept may have been closed in the meantime.
        let kept = seat.connection.as_mut().and_then(|connection| connection.ask(&command).ok());
        let value = match kept {
            Some(value) => value,
            None => {
                let connection = seat.connection.insert(Connection::to_anybody(&self.config, &seat.address)?);
                connection.ask(&command)?
            }
        };
        if value == Value::Nil {
            let known = seat.connection.as_mut().map(known_names).unwrap_or_default();
            return Err(Why::Refused(unknown(&self.name, &known)));
        }
        address(&value)
            .ok_or_else(|| Why::Unexpected("SENTINEL GET-MASTER-ADDR-BY-NAME can't be read".into()))
    }

    /// Why there is no answer: of each that was asked.
    fn silence(&self) -> Why {
        let each: Vec<String> = self
            .seats
            .iter()
            .filter_map(|seat| {
                let (_, said) = seat.said.as_ref()?;
                Some(format!("{}: {}", seat.address, said.as_ref().err()?))
            })
            .collect();
        Why::Refused(format!("no Sentinel names its master: {}", each.join("; ")).into())
    }
}

/// Of the server that the Sentinels name: what else an operator would be asked to change is not to be changed.
pub(super) fn of_named(why: Why) -> Why {
    match why {
        Why::ReadOnly => Why::Refused(
            "it is a replica, and the Sentinels name it as the master: a fail-over is not over".into(),
        ),
        Why::Unreachable => {
            Why::Refused("no connection can be made, and the Sentinels name it as the master".into())
        }
        why => why,
    }
}

fn command(what: &str) -> Cmd {
    let mut command = redis::cmd("SENTINEL");
    command.arg(what);
    command
}

fn address(value: &Value) -> Option<String> {
    let [host, port] = array(value)? else { return None };
    let text = |value| std::str::from_utf8(bytes(value)?).ok();
    let port: u16 = text(port)?.parse().ok()?;
    Some(format!("{}:{port}", text(host)?))
}

fn unknown(name: &str, known: &[String]) -> Box<str> {
    let known = match known {
        [] => "none".to_owned(),
        names => names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "),
    };
    format!("it knows no master called {name:?} (it watches {known}): set gate.sentinel_master").into()
}

/// The masters that a Sentinel watches; none if it does not say.
fn known_names(connection: &mut Connection) -> Vec<String> {
    let name = |master: &Value| {
        let fields = array(master)?;
        let at = fields.iter().position(|field| bytes(field) == Some(b"name"))?;
        String::from_utf8(bytes(fields.get(at + 1)?)?.to_vec()).ok()
    };
    let masters = connection.ask(&command("MASTERS"));
    let masters = masters.as_ref().ok().and_then(array).unwrap_or_default();
    masters.iter().filter_map(name).collect()
}

/// With the keys that are the Sentinels'.
fn explained(why: Why) -> Why {
    match why {
        Why::Denied(text) => Why::Refused(
            format!("it refuses us: {text}; check gate.sentinel_user and gate.sentinel_password_file").into(),
        ),
        Why::Unexpected(text) if text.contains("unknown command") => {
            let said = text.split(',').next().unwrap_or_default();
            let advice = "it is no Sentinel: name Sentinels in gate.addresses, or set gate.mode = \"single\" or \"cluster\"";
            Why::Refused(format!("{said}: {advice}").into())
        }
        why => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That have said this a moment ago; `None`: nothing.
    fn having_said(said: &[Option<&str>]) -> Sentinels {
        let addresses = said.iter().map(|_| "nowhere:1".to_owned()).collect();
        let config = GateConfig::plain(addresses, "db", Duration::from_secs(1));
        let sentinel = Sentinel { master: "sale".to_owned(), user: None, password: None };
        let mut sentinels = Sentinels::new(&config, &sentinel);
        for (seat, said) in sentinels.seats.iter_mut().zip(said) {
            let said = said.map(str::to_owned).ok_or(Why::Unreachable);
            seat.said = Some((Instant::now(), said));
        }
        sentinels
    }

    /// Who was cut off with an old master and one Sentinel for a moment would believe that one for a minute.
    #[test]
    fn those_that_were_silent_are_checked_if_the_others_are_not_most_of_all() {
        for (said, next, expected) in [
            (&[Some("a"), Some("a"), None][..], 2, 0),
            (&[Some("a"), Some("a"), None], 1, 1),
            (&[Some("a"), None, None], 0, 0),
            (&[Some("a"), None, None], 1, 1),
            (&[Some("a"), None, None], 2, 2),
            (&[Some("a"), None], 1, 1),
            (&[None], 0, 0),
        ] {
            let sentinels = Sentinels { next, ..having_said(said) };
            assert_eq!(sentinels.next_to_check(), Some(expected), "{said:?}, {next}");
        }
    }

    /// One that has been heard alone names a master for whoever has none, and takes nobody's away.
    #[test]
    fn a_master_is_left_by_what_most_of_all_name() {
        let of = |said: &[Option<&str>]| {
            let sentinels = having_said(said);
            let named = sentinels.named(limits::SENTINEL_COUNTS);
            named.map(|(address, by)| (address.clone(), sentinels.is_most(by)))
        };
        let named = |address: &str, is_most| Some((address.to_owned(), is_most));
        for (said, expected) in [
            (&[Some("a")][..], named("a", true)),
            (&[None], None),
            (&[Some("a"), Some("b")], named("a", false)),
            (&[None, Some("b")], named("b", false)),
            (&[Some("a"), Some("b"), Some("b")], named("b", true)),
            (&[Some("a"), None, None], named("a", false)),
            (&[None, Some("b"), Some("b")], named("b", true)),
            (&[Some("a"), Some("b"), None], named("a", false)),
            (&[Some("a"), Some("b"), Some("c"), Some("b"), None], named("b", false)),
        ] {
            assert_eq!(of(said), expected, "{said:?}");
        }
    }

    #[test]
    fn an_answer_is_a_host_and_a_port() {
        let text = |text: &str| Value::BulkString(text.into());
        let pair = |host, port| Value::Array(vec![text(host), text(port)]);
        assert_eq!(address(&pair("10.0.0.1", "6379")).as_deref(), Some("10.0.0.1:6379"));
        assert_eq!(address(&pair("redis.example", "6380")).as_deref(), Some("redis.example:6380"));
        assert_eq!(address(&pair("10.0.0.1", "no")), None);
        assert_eq!(address(&Value::Okay), None);
    }
}
