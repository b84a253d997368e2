//! The scripts, run by Lua 5.1 as in the engines, with their conversions between Lua and RESP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic};
use ring::digest;

use super::commands::Store;
use super::numbers::{shortest, to_i64};
use super::resp::{Parts, Reply};
use super::{Dialect, locked, packed};

const SANDBOX: &str = include_str!("sandbox.lua");
/// As the engines call a script in the text of an error.
const NAME: &str = "@user_script";
const NO_WRITES: &[u8] = b"#!lua flags=no-writes\n";

#[derive(Debug)]
pub(super) struct Scripts {
    lua: Lua,
    globals: Table,
    run: Function,
    loaded: HashMap<String, Loaded>,
    dialect: Dialect,
    /// What stands in scripts, and what runs in its place.
    changed: Option<(&'static str, &'static str)>,
}

#[derive(Debug)]
struct Loaded {
    function: Function,
    may_write: bool,
}

impl Scripts {
    pub(super) fn new(dialect: Dialect, store: &Arc<Mutex<Store>>) -> Scripts {
        Scripts::sandboxed(dialect, Arc::clone(store)).expect("the sandbox is a program of ours")
    }

    fn sandboxed(dialect: Dialect, store: Arc<Mutex<Store>>) -> mlua::Result<Scripts> {
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, options)?;
        let host = lua.create_table()?;
        host.set(
            "call",
            lua.create_function(move |lua, args: Variadic<Value>| {
                to_lua(lua, call(&mut locked(&store), dialect, &args))
            })?,
        )?;
        host.set("number", lua.create_function(move |_, text: String| Ok(dialect.number(text)))?)?;
        host.set(
            "pack",
            lua.create_function(|lua, (format, numbers): (String, Variadic<Value>)| {
                Ok(match packed::pack(lua, &format, &numbers) {
                    Ok(packed) => (None, Some(lua.create_string(packed)?)),
                    Err(text) => (Some(text), None),
                })
            })?,
        )?;
        host.set(
            "unpack",
            lua.create_function(|lua, (format, data, from): (String, Value, Option<usize>)| {
                let values = match packed::unpack(&format, &data, from.unwrap_or(1)) {
                    Ok(numbers) => numbers.into_iter().map(Value::Number).collect(),
                    Err(text) => vec![Value::String(lua.create_string(text)?)],
                };
                Ok(MultiValue::from_vec(values))
            })?,
        )?;
        let (globals, run) = lua.load(SANDBOX).set_name("=sandbox").call(host)?;
        Ok(Scripts { lua, globals, run, loaded: HashMap::new(), dialect, changed: None })
    }

    /// Scripts that have this text run with the other in its place, under the names that they had.
    pub(super) fn change(&mut self, from: &'static str, to: &'static str) {
        self.changed = Some((from, to));
    }

    /// `SCRIPT LOAD`: the name that `EVALSHA` takes.
    pub(super) fn load(&mut self, text: &[u8]) -> Reply {
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text);
        let sha: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        // The first line has the flags of the script; the others keep their numbers.
        let code = match text.strip_prefix(b"#!") {
            Some(rest) => &rest[rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())..],
            None => text,
        };
        let changed = self.changed.map(|(from, to)| String::from_utf8_lossy(code).replace(from, to));
        let code = changed.as_deref().map_or(code, str::as_bytes);
        let chunk = self.lua.load(code).set_name(NAME).set_environment(self.globals.clone());
        match chunk.into_function() {
            Ok(function) => {
                let may_write = !text.starts_with(NO_WRITES);
                self.loaded.insert(sha.clone(), Loaded { function, may_write });
                Reply::Text(sha.into_bytes())
            }
            Err(error) => Reply::Error(format!("ERR Error compiling script (new function): {error}")),
        }
    }

    /// Whether the script of this name may write. One that is not known never does.
    pub(super) fn may_write(&self, sha: &[u8]) -> bool {
        let sha = String::from_utf8_lossy(sha).to_ascii_lowercase();
        self.loaded.get(&sha).is_some_and(|script| script.may_write)
    }

    /// `EVALSHA`, with what follows its name.
    pub(super) fn evaluate(&self, args: &[Vec<u8>]) -> Reply {
        let [sha, count, rest @ ..] = args else {
            return Reply::Error("ERR wrong number of arguments for 'evalsha' command".into());
        };
        let error = |text: &str| Reply::Error(text.into());
        let Some(count) = super::numbers::whole(count) else {
            return error("ERR value is not an integer or out of range");
        };
        let Ok(count) = usize::try_from(count) else {
            return error("ERR Number of keys can't be negative");
        };
        if count > rest.len() {
            return error("ERR Number of keys can't be greater than number of args");
        }
        let sha = String::from_utf8_lossy(sha).to_ascii_lowercase();
        let Some(Loaded { function, .. }) = self.loaded.get(&sha) else {
            return error(self.dialect.no_script());
        };
        let (keys, args) = rest.split_at(count);
        self.run(&sha, function, keys, args).expect("what a script does is caught in the sandbox")
    }

    fn run(&self, sha: &str, script: &Function, keys: &[Vec<u8>], args: &[Vec<u8>]) -> mlua::Result<Reply> {
        for (name, parts) in [("KEYS", keys), ("ARGV", args)] {
            let list = self.lua.create_table_with_capacity(parts.len(), 0)?;
            for (at, part) in parts.iter().enumerate() {
                list.raw_set(at + 1, self.lua.create_string(part)?)?;
            }
            self.globals.raw_set(name, list)?;
        }
        let (done, value): (bool, Value) = self.run.call(script)?;
        if done {
            return of_lua(&value);
        }
        let failure: Table = self.lua.convert(value)?;
        let text = text_of(&failure.raw_get("err")?);
        let line: Option<String> = failure.raw_get("line")?;
        let place = line.map_or(String::new(), |line| format!(" script: {sha}, on {NAME}:{line}."));
        Ok(Reply::Error(text + &place))
    }
}

fn text_of(value: &Value) -> String {
    value.as_string().map_or(String::new(), |text| String::from_utf8_lossy(&text.as_bytes()).into_owned())
}

/// A command out of a script. Its numbers are text already.
fn call(store: &mut Store, dialect: Dialect, args: &[Value]) -> Reply {
    let part = |value: &Value| value.as_string().map(|text| text.as_bytes().to_vec());
    let Some(parts) = args.iter().map(part).collect::<Option<Parts>>() else {
        return Reply::Error(dialect.no_text().into());
    };
    store.carry_out(&parts, Some(dialect))
}

fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    let named = |name, text: String| {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    Ok(match reply {
        #[expect(clippy::cast_precision_loss, reason = "a number of Lua is a double")]
        Reply::Number(number) => Value::Number(number as f64),
        Reply::Text(text) => Value::String(lua.create_string(text)?),
        Reply::Nothing => Value::Boolean(false),
        Reply::Status(text) => return named("ok", text),
        Reply::Error(text) => return named("err", text),
        Reply::List(replies) => {
            let list = lua.create_table_with_capacity(replies.len(), 0)?;
            for (at, reply) in replies.into_iter().enumerate() {
                list.raw_set(at + 1, to_lua(lua, reply)?)?;
            }
            Value::Table(list)
        }
    })
}

/// A list ends before its first nil; a fraction is cut off; false is nothing.
fn of_lua(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Boolean(true) => Reply::Number(1),
        Value::Integer(number) => Reply::Number(*number),
        Value::Number(number) => Reply::Number(to_i64(*number)),
        Value::String(text) => Reply::Text(text.as_bytes().to_vec()),
        Value::Table(table) => {
            let named = |name| table.raw_get::<Value>(name);
            match (named("err")?, named("ok")?) {
                (error @ Value::String(_), _) => Reply::Error(text_of(&error)),
                (_, status @ Value::String(_)) => Reply::Status(text_of(&status)),
                _ => {
                    let mut replies = Vec::new();
                    loop {
                        match table.raw_get(replies.len() + 1)? {
                            Value::Nil => break Reply::List(replies),
                            value => replies.push(of_lua(&value)?),
                        }
                    }
                }
            }
        }
        _ => Reply::Nothing,
    })
}

impl Dialect {
    /// A number of Lua that a script gives to a command; `text` has all of its digits.
    fn number(self, text: String) -> String {
        match self {
            Dialect::Redis => text,
            Dialect::Valkey => shortest(text.parse().expect("Lua wrote a number")),
        }
    }

    fn no_script(self) -> &'static str {
        match self {
            Dialect::Redis => "NOSCRIPT No matching script. Please use EVAL.",
            Dialect::Valkey => "NOSCRIPT No matching script.",
        }
    }

    fn no_text(self) -> &'static str {
        match self {
            Dialect::Redis => "ERR Lua redis lib command arguments must be strings or integers",
            Dialect::Valkey => "ERR Command arguments must be strings or integers",
        }
    }
}
