//! The scripts: their text, and the hash that Redis knows them by.

use std::sync::OnceLock;

use ring::digest;

/// Said to a script that may run when the memory is full: what gives units or memory back, and what stops selling.
const ALLOW_OOM: &str = "#!lua flags=allow-oom\n";
/// A script that writes nothing also runs when Redis can't save.
const NO_WRITES: &str = "#!lua flags=no-writes\n";
/// Everything else is refused by a full memory before it has written anything. A script without this first line
/// would be stopped in the middle.
const PLAIN: &str = "#!lua\n";

const PRELUDE: &str = include_str!("lua/prelude.lua");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    Reserve,
    Settle,
    Apply,
    Claim,
    Sale,
    Fence,
    Build,
    Find,
    Open,
    Product,
    Probe,
}

pub(super) const ALL: [Script; 11] = [
    Script::Reserve,
    Script::Settle,
    Script::Apply,
    Script::Claim,
    Script::Sale,
    Script::Fence,
    Script::Build,
    Script::Find,
    Script::Open,
    Script::Product,
    Script::Probe,
];

struct Loaded {
    text: String,
    sha: String,
}

impl Script {
    fn parts(self) -> [&'static str; 3] {
        match self {
            Script::Reserve => [PLAIN, "", include_str!("lua/reserve.lua")],
            Script::Settle => [ALLOW_OOM, PRELUDE, include_str!("lua/settle.lua")],
            Script::Apply => [ALLOW_OOM, PRELUDE, include_str!("lua/apply.lua")],
            Script::Claim => [PLAIN, PRELUDE, include_str!("lua/claim.lua")],
            Script::Sale => [ALLOW_OOM, PRELUDE, include_str!("lua/sale.lua")],
            Script::Fence => [ALLOW_OOM, PRELUDE, include_str!("lua/fence.lua")],
            Script::Build => [PLAIN, PRELUDE, include_str!("lua/build.lua")],
            Script::Find => [NO_WRITES, PRELUDE, include_str!("lua/find.lua")],
            Script::Open => [NO_WRITES, PRELUDE, include_str!("lua/open.lua")],
            Script::Product => [PLAIN, "", include_str!("lua/product.lua")],
            Script::Probe => [PLAIN, "", include_str!("lua/probe.lua")],
        }
    }

    fn loaded(self) -> &'static Loaded {
        static LOADED: OnceLock<Vec<Loaded>> = OnceLock::new();
        let all = LOADED.get_or_init(|| {
            let load = |script: &Script| {
                let text = script.parts().concat();
                let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
                let sha = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
                Loaded { text, sha }
            };
            ALL.iter().map(load).collect()
        });
        &all[self as usize]
    }

    /// What is loaded into Redis.
    pub fn text(self) -> &'static str {
        &self.loaded().text
    }

    /// 40 hexadecimal digits: the name that EVALSHA takes.
    pub fn sha(self) -> &'static str {
        &self.loaded().sha
    }
}

#[cfg(test)]
mod tests {
    use engine::limits::QUANTITY_MAX;
    use engine::{CoolDown, RETURNED_HOLDS_FREE, UnixMs};

    use super::*;
    use crate::gate::limits::CLOCK_OFF_MS_MAX;

    #[test]
    fn the_scripts_compare_clocks_by_the_bound() {
        for script in [Script::Reserve, Script::Open] {
            let text = script.parts().concat();
            assert!(text.contains(&format!("> {CLOCK_OFF_MS_MAX}")), "{script:?}");
        }
    }

    #[test]
    fn the_scripts_judge_by_the_numbers_of_the_engine() {
        let first = RETURNED_HOLDS_FREE + 1;
        let doublings = CoolDown { first_ms: 1 }.until(u32::MAX, UnixMs(0)).0.ilog2();
        let waits = format!(
            "count > {RETURNED_HOLDS_FREE} and at + first_ms * 2 ^ math.min(count - {first}, {doublings})"
        );
        assert!(PRELUDE.contains(&waits), "{waits}");
        let bound = format!("units > {QUANTITY_MAX} then");
        assert!(Script::Reserve.parts().concat().contains(&bound), "{bound}");
    }
}
