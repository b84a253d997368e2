//! The part of Lua's `struct` that the scripts use: unsigned numbers of one to eight bytes, the highest first.

use mlua::{Lua, Value};

use super::numbers::to_u64;

/// Of each number in a format like `>I8I4`.
fn sizes(format: &str) -> Result<Vec<usize>, String> {
    let unknown = || format!("the simulation's struct does not know the format '{format}'");
    let numbers = format.strip_prefix(">I").ok_or_else(unknown)?;
    let size = |digits: &str| digits.parse().ok().filter(|size| (1..=8).contains(size)).ok_or_else(unknown);
    numbers.split('I').map(size).collect()
}

/// `struct.pack`.
pub(super) fn pack(lua: &Lua, format: &str, numbers: &[Value]) -> Result<Vec<u8>, String> {
    let mut packed = Vec::new();
    for (at, size) in sizes(format)?.into_iter().enumerate() {
        let given = numbers.get(at).unwrap_or(&Value::Nil);
        let number = lua.coerce_number(given.clone()).ok().flatten().ok_or_else(|| {
            let kind = given.type_name();
            format!("bad argument #{} to 'pack' (number expected, got {kind})", at + 2)
        })?;
        packed.extend_from_slice(&to_u64(number).to_be_bytes()[8 - size..]);
    }
    Ok(packed)
}

/// `struct.unpack`: the numbers, and where the next one would begin.
#[expect(clippy::cast_precision_loss, reason = "a number of Lua is a double")]
pub(super) fn unpack(format: &str, data: &Value, from: usize) -> Result<Vec<f64>, String> {
    let Value::String(data) = data else {
        let kind = data.type_name();
        return Err(format!("bad argument #2 to 'unpack' (string expected, got {kind})"));
    };
    let (data, mut at) = (data.as_bytes(), from - 1);
    let mut numbers = Vec::new();
    for size in sizes(format)? {
        let bytes = data.get(at..at + size).ok_or("bad argument #2 to 'unpack' (data string too short)")?;
        numbers.push(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)) as f64);
        at += size;
    }
    numbers.push((at + 1) as f64);
    Ok(numbers)
}
