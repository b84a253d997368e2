//! How an item is sold to its line: as the API gives and takes it, and in words.
//!
//! Must not: decide anything about a line.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Item;
use crate::output::{plain, units_of};
use crate::time::format_duration;

/// How a line stands that an operator steers.
#[derive(Clone, Deserialize)]
pub(super) struct LineNow {
    /// `None`: no limit.
    pub(super) pace_max_per_s: Option<u64>,
    /// Empty: nothing is said.
    pub(super) message: String,
    /// Units that are available and kept for those who are sure to be called.
    pub(super) promised: u64,
    /// People in it; one that is older does not say.
    #[serde(default)]
    pub(super) joined: u64,
    /// Its draw is to come, and the server does not ask the beacon of it; one that is older does not say.
    #[serde(default)]
    pub(super) beacon_not_configured: bool,
}

/// How an item is sold to its line, as the API gives and takes it.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Line {
    pub(super) units: u64,
    pub(super) turn_s: u64,
    pub(super) grace_s: u64,
    pub(super) close_s: u64,
    /// Left out: as the server has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) beacon: Option<bool>,
    /// `None`: everybody may join, always.
    pub(super) access: Option<Access>,
}

/// Who may join a line, and from when.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Access {
    /// By name.
    pub(super) groups: Vec<Group>,
    /// `None`: never.
    pub(super) others: Option<Opening>,
}

#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Group {
    pub(super) name: String,
    /// Before the start; `None`: always.
    pub(super) before_s: Option<u64>,
}

#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Opening {
    pub(super) before_s: Option<u64>,
}

impl Access {
    fn in_words(&self) -> String {
        let from = |before_s: Option<u64>| match before_s {
            None => "always".to_owned(),
            Some(s) => format!("from {} before the start", format_duration(Duration::from_secs(s))),
        };
        let groups =
            self.groups.iter().map(|group| format!("{} {}, ", plain(&group.name), from(group.before_s)));
        let others = self.others.as_ref().map_or("never".to_owned(), |others| from(others.before_s));
        format!("may join: {}all others {others}", groups.collect::<String>())
    }
}

/// How an item is sold to its line, and what its draw proves: said whenever such a sale is shown, first when it is made.
/// `unasked`: the draw is to come, and the server does not ask its beacon.
pub(super) fn line_terms(product: u64, line: &Line, unasked: bool) -> String {
    let seconds = |seconds| format_duration(Duration::from_secs(seconds));
    let draw = match line.beacon {
        Some(true) if unasked => {
            "without the public beacon that they were announced with, as this server is not configured to ask it: give [beacon] what it \
             had when the sale was created, and start the server again before"
        }
        Some(true) => {
            "with the value of a public beacon, which nobody here knows before. If the beacon stays silent, they are drawn without \
             it once the sale starts, or 20s after its round if that is later"
        }
        Some(false) => {
            "without a public beacon: whoever runs the sale could still choose by the last entries which draw comes of them"
        }
        None => "with the value of a public beacon if the server has one (beacon.url)",
    };
    format!(
        "item {product} is sold to its line: a turn is {} long, for {} at most. Entries close {} before the start; then places are drawn, \
         {draw}.\n{}",
        seconds(line.turn_s),
        units_of(line.units, ""),
        seconds(line.close_s),
        line.access.as_ref().map_or_else(String::new, |access| access.in_words() + "\n"),
    )
}

/// What operators have set for a line, where they have.
pub(super) fn line_now(item: &Item) -> String {
    let Some(LineNow { pace_max_per_s, message, .. }) = &item.line_now else { return String::new() };
    let product = item.product;
    let pace = pace_max_per_s.map_or_else(String::new, |per_s| {
        format!("the pace of the line of {product} is limited: at most {per_s} places per second\n")
    });
    let message = match &**message {
        "" => String::new(),
        message => format!("everybody in the line of {product} reads: {}\n", plain(message)),
    };
    pace + &message
}
