//! Removes all keys under a prefix, of a gate that was made to be thrown away.
//!
//! Must not: be used on the prefix of an installation. Its keys are what its sales are sold from.

use super::Gate;
use super::commands::slot_of;
use super::connection::Connection;
use super::reply::{array, bytes};
use crate::gate::{GateError, Why};

/// Keys that Redis looks at in one step, during which it serves nobody else.
const SCANNED_AT_ONCE: u32 = 1000;

impl Gate {
    /// Removes every key under this gate's prefix at all masters. Costs a pass over all keys that they have.
    ///
    /// # Errors
    /// If a master can't be reached or refuses; some keys may be removed.
    pub fn remove_all(&mut self) -> Result<(), GateError> {
        let prefix = self.router.config().key_prefix.clone();
        // A key that may be there: so that whoever may not remove hears of it while there is nothing to remove, too.
        let mut keys = vec![format!("{prefix}:figures").into_bytes()];
        for (_, connection) in self.router.masters() {
            let found = connection.and_then(|connection| keys_under(connection, &prefix));
            keys.extend(found.map_err(GateError::NotExecuted)?);
        }
        if let Some(why) = self.router.uncovered() {
            return Err(GateError::NotExecuted(why));
        }
        self.commands.clear();
        for key in &keys {
            self.commands.plain(slot_of(tag(key)), &[b"UNLINK", key]);
        }
        self.router.exchange(&self.commands).into_iter().try_for_each(|outcome| outcome.map(drop))
    }
}

fn keys_under(connection: &mut Connection, prefix: &str) -> Result<Vec<Vec<u8>>, Why> {
    let (mut cursor, mut found) = (b"0".to_vec(), Vec::new());
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(format!("*{prefix}:*")).arg("COUNT").arg(SCANNED_AT_ONCE);
        let answer = connection.ask(&scan)?;
        let Some([next, keys]) = array(&answer) else { return Err(no_scan()) };
        for key in array(keys).ok_or_else(no_scan)? {
            let key = bytes(key).ok_or_else(no_scan)?;
            if is_under(prefix, key) {
                found.push(key.to_vec());
            }
        }
        cursor = bytes(next).ok_or_else(no_scan)?.to_vec();
        if cursor == b"0" {
            return Ok(found);
        }
    }
}

fn no_scan() -> Why {
    Why::Unexpected("to SCAN, no cursor with keys".into())
}

/// What decides about the slot of a key.
fn tag(key: &[u8]) -> &[u8] {
    let tagged = key.strip_prefix(b"{").and_then(|key| key.split(|byte| *byte == b'}').next());
    tagged.unwrap_or(key)
}

/// Those of SKUs have the prefix in their [`tag`].
fn is_under(prefix: &str, key: &[u8]) -> bool {
    let named = if key.contains(&b'}') { tag(key) } else { key };
    named.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.starts_with(b":"))
}

#[cfg(test)]
mod tests {
    use engine::{ProductId, SkuId};

    use super::super::commands::{Keys, product_key};
    use super::*;

    #[test]
    fn keys_of_other_prefixes_are_left() {
        let keys_of = |prefix: &str| {
            let keys = Keys::of(prefix, SkuId(7));
            let mut keys: Vec<Vec<u8>> = keys.all().map(<[u8]>::to_vec).into();
            keys.extend([product_key(prefix, ProductId(29)), format!("{prefix}:figures").into_bytes()]);
            keys
        };
        assert!(keys_of("db_r").iter().all(|key| is_under("db_r", key)));
        assert_eq!((tag(b"{db:7}:s"), tag(b"db:figures")), (&b"db:7"[..], &b"db:figures"[..]));
        for other in ["db", "db_r1", "a:db_r", "{db_r"] {
            assert!(!keys_of(other).iter().any(|key| is_under("db_r", key)), "{other}");
        }
    }
}
