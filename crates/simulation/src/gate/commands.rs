//! The commands that the gate's scripts and its client use, and no other: what is asked for beyond them is an error that names it.

use super::Dialect;
use super::keys::{Hash, Keys, Set, Sorted, Text};
use super::numbers::{float, whole};
use super::resp::{Parts, Reply};

/// What an engine has in memory.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) keys: Keys,
    pub(super) now_us: u64,
    /// Which life of the server it is: 40 digits.
    pub(super) run: String,
    pub(super) role: Role,
    /// The history that it followed until it was promoted: 40 digits.
    pub(super) followed: String,
}

/// What a server is to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Master,
    /// Without the replicas that `min-replicas-to-write` asks for: it takes no writes.
    MasterAlone,
    Replica,
}

impl Role {
    /// Why it takes no writes.
    fn refusal(self) -> Option<Reply> {
        match self {
            Role::Master => None,
            Role::MasterAlone => Some(error("NOREPLICAS Not enough good replicas to write.")),
            Role::Replica => Some(error("READONLY You can't write against a read only replica.")),
        }
    }
}

type Outcome = Result<Reply, Reply>;

struct Command {
    name: &'static str,
    writes: bool,
    /// Parts of the command, with its name; negative: at least.
    arity: isize,
    run: Run,
}

type Run = fn(&mut Store, &[Vec<u8>]) -> Outcome;

const fn reading(name: &'static str, arity: isize, run: Run) -> Command {
    Command { name, writes: false, arity, run }
}

const fn writing(name: &'static str, arity: isize, run: Run) -> Command {
    Command { name, writes: true, arity, run }
}

const COMMANDS: [Command; 27] = [
    writing("del", -2, remove),
    writing("flushall", 1, clear),
    reading("get", 2, get),
    writing("hdel", -3, hash_remove),
    reading("hget", 3, hash_get),
    reading("hgetall", 2, hash_all),
    writing("hincrby", 4, hash_add),
    reading("hmget", -3, hash_get_each),
    reading("hscan", -3, hash_scan),
    writing("hset", -4, hash_set),
    reading("info", -1, info),
    writing("pexpire", 3, expire),
    reading("ping", 1, |_, _| Ok(Reply::Status("PONG".into()))),
    reading("pttl", 2, time_left),
    writing("sadd", -3, set_add),
    reading("scan", -2, scan),
    writing("set", 3, set),
    reading("smembers", 2, set_all),
    writing("spop", 3, set_take),
    reading("time", 1, time),
    reading("type", 2, kind),
    writing("unlink", -2, remove),
    writing("zadd", -4, sorted_add),
    reading("zcard", 2, sorted_len),
    reading("zrangebyscore", -4, sorted_range),
    writing("zrem", -3, sorted_remove),
    reading("zscan", -3, sorted_scan),
];

fn error(text: &str) -> Reply {
    Reply::Error(text.to_owned())
}

fn not_whole() -> Reply {
    error("ERR value is not an integer or out of range")
}

fn unsupported(what: &str, args: &[Vec<u8>]) -> Reply {
    let args: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
    Reply::Error(format!("ERR the simulation's {what} does not know: {}", args.join(" ")))
}

impl Store {
    /// Why a script is not let in that may write.
    pub(super) fn refusal(&self) -> Option<Reply> {
        self.role.refusal()
    }

    /// One command: of a client, or of a script, which is answered some faults in words of its dialect.
    pub(super) fn carry_out(&mut self, parts: &Parts, script: Option<Dialect>) -> Reply {
        let Some((name, args)) = parts.split_first() else {
            return error(script.expect("a client names a command").no_command());
        };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
            return Reply::Error(format!("ERR the simulation has no command '{name}'"));
        };
        let count = parts.len();
        let least = command.arity.unsigned_abs();
        if count < least || (command.arity > 0 && count > least) {
            return Reply::Error(match script {
                Some(dialect) => dialect.wrong_count().into(),
                None => format!("ERR wrong number of arguments for '{name}' command"),
            });
        }
        if command.writes
            && script.is_none()
            && let Some(refusal) = self.role.refusal()
        {
            return refusal;
        }
        self.keys.expire(self.now_us / 1_000);
        (command.run)(self, args).unwrap_or_else(|error| error)
    }
}

impl Dialect {
    fn no_command(self) -> &'static str {
        match self {
            Dialect::Redis => "ERR Please specify at least one argument for this redis lib call",
            Dialect::Valkey => "ERR Please specify at least one argument for this call",
        }
    }

    fn wrong_count(self) -> &'static str {
        match self {
            Dialect::Redis => "ERR Wrong number of args calling Redis command from script",
            Dialect::Valkey => "ERR Wrong number of args calling command from script",
        }
    }
}

fn time(store: &mut Store, _: &[Vec<u8>]) -> Outcome {
    let parts =
        [store.now_us / 1_000_000, store.now_us % 1_000_000].map(|part| part.to_string().into_bytes());
    Ok(Reply::texts(parts.iter().map(Vec::as_slice)))
}

/// What the gate's client looks for in it, of all sections.
fn info(store: &mut Store, _: &[Vec<u8>]) -> Outcome {
    let role = if store.role == Role::Replica { "slave" } else { "master" };
    let (run, followed) = (&store.run, &store.followed);
    let text = format!(
        "redis_mode:standalone\r\nrun_id:{run}\r\nmaxmemory_policy:noeviction\r\nrole:{role}\r\nmaster_replid2:{followed}\r\n"
    );
    Ok(Reply::Text(text.into_bytes()))
}

fn clear(store: &mut Store, _: &[Vec<u8>]) -> Outcome {
    store.keys.clear();
    Ok(Reply::Status("OK".into()))
}

fn kind(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    Ok(Reply::Status(store.keys.get(&args[0]).map_or("none", |stored| stored.kind()).into()))
}

fn remove(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    Ok(Reply::count(args.iter().filter(|name| store.keys.remove(name)).count()))
}

fn expire(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let wait_ms = whole(&args[1]).ok_or_else(not_whole)?;
    let wait_ms = u64::try_from(wait_ms).map_err(|_negative| unsupported("PEXPIRE", args))?;
    Ok(Reply::Number(store.keys.set_expiry(&args[0], store.now_us / 1_000 + wait_ms).into()))
}

fn time_left(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    Ok(Reply::Number(match store.keys.expiry(&args[0]) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => i64::try_from(at_ms - store.now_us / 1_000).expect("what has expired is gone"),
    }))
}

fn get(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let text = store.keys.read::<Text>(&args[0])?;
    Ok(Reply::text_or_nothing(text.map(Vec::as_slice)))
}

fn set(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    store.keys.set(&args[0], args[1].clone());
    Ok(Reply::Status("OK".into()))
}

fn hash_get(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let hash = store.keys.read::<Hash>(&args[0])?;
    Ok(Reply::text_or_nothing(hash.and_then(|hash| hash.get(&args[1])).map(Vec::as_slice)))
}

fn hash_get_each(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let hash = store.keys.read::<Hash>(&args[0])?;
    let value = |field| hash.and_then(|hash| hash.get(field)).map(Vec::as_slice);
    Ok(Reply::List(args[1..].iter().map(|field| Reply::text_or_nothing(value(field))).collect()))
}

fn hash_all(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let hash = store.keys.read::<Hash>(&args[0])?;
    Ok(Reply::texts(hash.into_iter().flatten().flat_map(|(field, value)| [field.as_slice(), value])))
}

fn hash_set(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let (name, pairs) = (&args[0], &args[1..]);
    if !pairs.len().is_multiple_of(2) {
        return Err(error("ERR wrong number of arguments for 'hset' command"));
    }
    let hash = store.keys.write::<Hash>(name)?;
    let pairs = pairs.chunks_exact(2);
    let new = pairs.filter(|pair| hash.insert(pair[0].clone(), pair[1].clone()).is_none()).count();
    Ok(Reply::count(new))
}

fn hash_remove(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let hash = store.keys.write::<Hash>(&args[0])?;
    let gone = args[1..].iter().filter(|field| hash.remove(*field).is_some()).count();
    store.keys.drop_if_empty(&args[0]);
    Ok(Reply::count(gone))
}

fn hash_add(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let more = whole(&args[2]).ok_or_else(not_whole)?;
    let hash = store.keys.write::<Hash>(&args[0])?;
    let known = hash.get(&args[1]).map_or(Some(0), |text| whole(text));
    let known = known.ok_or_else(|| error("ERR hash value is not an integer"))?;
    let sum = known.checked_add(more).ok_or_else(|| error("ERR increment or decrement would overflow"))?;
    hash.insert(args[1].clone(), sum.to_string().into_bytes());
    Ok(Reply::Number(sum))
}

/// All of it at once: the cursor that follows is the end.
fn scanned(pairs: Reply) -> Reply {
    Reply::List(vec![Reply::Text(b"0".to_vec()), pairs])
}

/// The pattern that names must match; `COUNT` is a hint, and is not taken.
fn scan_options<'a>(what: &str, args: &'a [Vec<u8>]) -> Result<Option<&'a [u8]>, Reply> {
    let (cursor, options) = args.split_first().expect("a scan has a cursor");
    let mut pattern = None;
    for option in options.chunks(2) {
        match option {
            [name, value] if name == b"MATCH" => pattern = Some(value.as_slice()),
            [name, _] if name == b"COUNT" => {}
            _ => return Err(unsupported(what, args)),
        }
    }
    if cursor == b"0" { Ok(pattern) } else { Err(unsupported(what, args)) }
}

fn hash_scan(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    match scan_options("HSCAN", &args[1..])? {
        None => hash_all(store, args).map(scanned),
        Some(_) => Err(unsupported("HSCAN", args)),
    }
}

fn scan(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    // `*part*` is what the client asks for.
    let part = match scan_options("SCAN", args)? {
        None => &b""[..],
        Some(pattern) => {
            let part = pattern.strip_prefix(b"*").and_then(|rest| rest.strip_suffix(b"*"));
            let is_plain = |part: &&[u8]| !part.iter().any(|byte| b"*?[]\\".contains(byte));
            part.filter(is_plain).ok_or_else(|| unsupported("SCAN", args))?
        }
    };
    let has_part = |name: &&[u8]| part.is_empty() || name.windows(part.len()).any(|window| window == part);
    Ok(scanned(Reply::texts(store.keys.names().filter(has_part))))
}

fn set_add(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let set = store.keys.write::<Set>(&args[0])?;
    Ok(Reply::count(args[1..].iter().filter(|member| set.insert((*member).clone())).count()))
}

fn set_all(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let set = store.keys.read::<Set>(&args[0])?;
    Ok(Reply::texts(set.into_iter().flatten().map(Vec::as_slice)))
}

/// The first ones, where an engine takes any.
fn set_take(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let count = whole(&args[1]).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| error("ERR value is out of range, must be positive"))?;
    let set = store.keys.write::<Set>(&args[0])?;
    let taken: Vec<_> = std::iter::from_fn(|| set.pop_first()).take(count).map(Reply::Text).collect();
    store.keys.drop_if_empty(&args[0]);
    Ok(Reply::List(taken))
}

fn sorted_add(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let pairs = &args[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err(error("ERR syntax error"));
    }
    let no_float = || error("ERR value is not a valid float");
    let pairs: Vec<(f64, &[u8])> = pairs
        .chunks_exact(2)
        .map(|pair| Ok((float(&pair[0]).ok_or_else(no_float)?, pair[1].as_slice())))
        .collect::<Result<_, Reply>>()?;
    let sorted = store.keys.write::<Sorted>(&args[0])?;
    Ok(Reply::count(pairs.into_iter().filter(|(score, member)| sorted.insert(member, *score)).count()))
}

fn sorted_remove(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let sorted = store.keys.write::<Sorted>(&args[0])?;
    let gone = args[1..].iter().filter(|member| sorted.remove(member)).count();
    store.keys.drop_if_empty(&args[0]);
    Ok(Reply::count(gone))
}

fn sorted_len(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    Ok(Reply::count(store.keys.read::<Sorted>(&args[0])?.map_or(0, Sorted::len)))
}

fn sorted_range(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    let no_float = || error("ERR min or max is not a float");
    let bound = |text: &[u8]| float(text).ok_or_else(no_float);
    let (least, most) = (bound(&args[1])?, bound(&args[2])?);
    let (skipped, count) = match &args[3..] {
        [] => (0, usize::MAX),
        [option, skipped, count] if option.eq_ignore_ascii_case(b"LIMIT") => {
            let skipped = whole(skipped).ok_or_else(not_whole)?;
            let count = whole(count).ok_or_else(not_whole)?;
            // From a negative place there is nothing; a negative count is all.
            let Ok(skipped) = usize::try_from(skipped) else { return Ok(Reply::List(Vec::new())) };
            (skipped, usize::try_from(count).unwrap_or(usize::MAX))
        }
        _ => return Err(unsupported("ZRANGEBYSCORE", args)),
    };
    let sorted = store.keys.read::<Sorted>(&args[0])?;
    let members = sorted.into_iter().flat_map(Sorted::members);
    let within = members.filter(|(_, score)| *score >= least).take_while(|(_, score)| *score <= most);
    let within = within.map(|(member, _)| member);
    Ok(Reply::texts(within.skip(skipped).take(count)))
}

/// Scores without a fraction alone: the engines write others each in its own way.
fn sorted_scan(store: &mut Store, args: &[Vec<u8>]) -> Outcome {
    if scan_options("ZSCAN", &args[1..])?.is_some() {
        return Err(unsupported("ZSCAN", args));
    }
    let sorted = store.keys.read::<Sorted>(&args[0])?;
    let members = sorted.into_iter().flat_map(Sorted::members);
    let pairs = members.flat_map(|(member, score)| [member.to_vec(), score.to_string().into_bytes()]);
    Ok(scanned(Reply::List(pairs.map(Reply::Text).collect())))
}
