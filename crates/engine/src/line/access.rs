//! Who may join a line, and from when: by the groups that a buyer's token names.
//!
//! Must not: know a token. Whoever asks knows the buyer's groups; no entry has them, so a replay does not ask.

use crate::{UnixMs, limits};

/// A group, as the shop's tokens name it: 1 to 24 visible ASCII characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName([u8; limits::GROUP_BYTES_MAX]);

impl GroupName {
    pub fn new(text: &str) -> Option<GroupName> {
        let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut name = [0; limits::GROUP_BYTES_MAX];
        name.get_mut(..text.len()).filter(|_| is_name)?.copy_from_slice(text.as_bytes());
        Some(GroupName(name))
    }

    pub fn as_str(&self) -> &str {
        let text = std::str::from_utf8(&self.0).expect("it is ASCII");
        text.trim_end_matches('\0')
    }
}

impl std::fmt::Debug for GroupName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

/// From when somebody may join; it moves with the sale's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Since the sale's creation.
    Always,
    BeforeStart {
        ms: u64,
    },
}

impl Opening {
    fn at(self, starts_at: UnixMs) -> UnixMs {
        match self {
            Opening::Always => UnixMs(0),
            Opening::BeforeStart { ms } => UnixMs(starts_at.0.saturating_sub(ms)),
        }
    }
}

/// Who may join a line that is not everybody's from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// By name; those that there are come first.
    groups: [Option<(GroupName, Opening)>; limits::LINE_GROUPS_MAX],
    others: Option<Opening>,
}

impl LineAccess {
    /// `others`: when whoever is in none of the groups may join; `None`: never.
    ///
    /// # Errors
    /// Which bound it breaks.
    pub fn new(
        groups: impl IntoIterator<Item = (GroupName, Opening)>,
        others: Option<Opening>,
    ) -> Result<LineAccess, &'static str> {
        let mut sorted: Vec<_> = groups.into_iter().collect();
        sorted.sort_by_key(|(name, _)| *name);
        if !(1..=limits::LINE_GROUPS_MAX).contains(&sorted.len()) {
            return Err("access to a line must name 1 to 4 groups");
        }
        if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err("access to a line names a group twice");
        }
        let too_early = |opening: Opening| matches!(opening, Opening::BeforeStart { ms } if ms > limits::LINE_OPENS_MS_MAX);
        if sorted.iter().map(|(_, opening)| *opening).chain(others).any(too_early) {
            return Err("a line may open at most 30 days before the start, or be open always");
        }
        let mut access = LineAccess { groups: [None; limits::LINE_GROUPS_MAX], others };
        for (place, group) in access.groups.iter_mut().zip(sorted) {
            *place = Some(group);
        }
        Ok(access)
    }

    pub fn groups(&self) -> impl Iterator<Item = (GroupName, Opening)> {
        self.groups.into_iter().flatten()
    }

    pub fn others(&self) -> Option<Opening> {
        self.others
    }

    /// From when a buyer may join who is in these groups; `None`: never.
    pub fn opens_at(&self, starts_at: UnixMs, of_buyer: &[GroupName]) -> Option<UnixMs> {
        let mine = self.groups().filter(|(name, _)| of_buyer.contains(name)).map(|(_, opening)| opening);
        mine.chain(self.others).map(|opening| opening.at(starts_at)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> GroupName {
        GroupName::new(text).unwrap()
    }

    #[test]
    fn a_name_is_what_it_was_made_of() {
        let longest = "x".repeat(24);
        for (text, is) in [
            ("gold", true),
            ("shop:gold/1", true),
            (&*longest, true),
            ("", false),
            ("a b", false),
            ("\0", false),
            ("é", false),
        ] {
            assert_eq!(
                GroupName::new(text).map(|name| name.as_str().to_owned()),
                is.then(|| text.to_owned())
            );
        }
        assert_eq!(GroupName::new(&"x".repeat(25)), None);
        assert!(name("gold") != name("golden") && name("gold") != name("old"));
    }

    #[test]
    fn the_earliest_of_a_buyers_groups_counts_and_moves_with_the_start() {
        let before = |ms| Opening::BeforeStart { ms };
        let groups =
            [(name("gold"), Opening::Always), (name("club"), before(100)), (name("late"), before(0))];
        let open = LineAccess::new(groups, Some(before(10))).unwrap();
        let closed = LineAccess::new(groups, None).unwrap();
        for (of_buyer, by_open, by_closed) in [
            (&["gold", "club"][..], Some(0), Some(0)),
            (&["club"], Some(900), Some(900)),
            (&["late", "club"], Some(900), Some(900)),
            (&["late"], Some(990), Some(1_000)),
            (&["Gold", "goldx"], Some(990), None),
            (&[], Some(990), None),
        ] {
            let of_buyer: Vec<GroupName> = of_buyer.iter().map(|text| name(text)).collect();
            for (access, expected) in [(open, by_open), (closed, by_closed)] {
                assert_eq!(access.opens_at(UnixMs(1_000), &of_buyer), expected.map(UnixMs), "{of_buyer:?}");
            }
        }
        assert_eq!(open.opens_at(UnixMs(50), &[name("club")]), Some(UnixMs(0)));
    }

    #[test]
    fn what_breaks_a_bound_is_no_access() {
        let many = |count| (0..count).map(|number| (name(&format!("g{number}")), Opening::Always));
        let early = |ms| Opening::BeforeStart { ms };
        assert!(LineAccess::new(many(4), None).is_ok());
        assert!(LineAccess::new(many(1), Some(early(limits::LINE_OPENS_MS_MAX))).is_ok());
        for access in [
            LineAccess::new(many(5), None),
            LineAccess::new(many(0), Some(Opening::Always)),
            LineAccess::new(many(2).chain(many(1)), None),
            LineAccess::new(many(1), Some(early(limits::LINE_OPENS_MS_MAX + 1))),
            LineAccess::new([(name("g"), early(u64::MAX))], None),
        ] {
            access.unwrap_err();
        }
    }
}
