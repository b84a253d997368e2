//! Lines, as the ledger writes them: the terms of one in its sale's record, and its entries as kinds of `further_entries` with
//! JSON. A format on disk: fields are only added.

use engine::{
    BeaconTerms, Borders, ClosedLine, Event, GroupName, LineAccess, LineTerms, Opening, SkuId, Spoken, Turn,
    TurnEnd, UnixMs,
};
use serde::{Deserialize, Serialize};

use super::rows::{RowError, buyer_of, json, unknown};
use crate::hex::{hex, unhex};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LineRecord {
    units: u32,
    turn_ms: u64,
    grace_ms: u64,
    close_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    beacon: Option<BeaconRecord>,
    /// Absent: everybody may join, always.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "access")]
    access: Option<LineAccess>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AccessRecord {
    groups: Vec<GroupRecord>,
    /// Absent: they may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    others: Option<OpeningRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct GroupRecord {
    name: String,
    #[serde(flatten)]
    opening: OpeningRecord,
}

/// Absent: always.
#[derive(Debug, Serialize, Deserialize)]
struct OpeningRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BeaconRecord {
    #[serde(with = "digits")]
    public_key: [u8; 96],
    genesis_s: u64,
    period_s: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct JoinRecord {
    sku: u32,
    /// Digits, or the 32 hexadecimal ones of a hash.
    buyer: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct CloseRecord {
    sku: u32,
    at_ms: u64,
    entries: u32,
    #[serde(with = "digits")]
    root: [u8; 32],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round: Option<u64>,
}

/// Absent: no beacon spoke.
#[derive(Debug, Serialize, Deserialize)]
struct DrawnRecord {
    sku: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spoken: Option<SpokenRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SpokenRecord {
    round: u64,
    #[serde(with = "digits")]
    signature: [u8; 48],
}

#[derive(Debug, Serialize, Deserialize)]
struct MoveRecord {
    sku: u32,
    away_to: u32,
    reached: u32,
    sure_to: u32,
}

/// Absent: no limit.
#[derive(Debug, Serialize, Deserialize)]
struct PaceRecord {
    sku: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_s_max: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
struct MessageRecord {
    sku: u32,
    message: Box<str>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TurnRecord {
    sku: u32,
    place: u32,
    /// One of these two is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opened: Option<TurnOpenRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<TurnEndRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TurnOpenRecord {
    number: u32,
    /// As who joined.
    buyer: String,
    /// Absent: as many as a turn of the line has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    units: Option<u32>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TurnEndRecord {
    Expired,
    GivenBack,
}

/// Bytes of a known count, as hexadecimal digits.
mod digits {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{hex, unhex};

    pub(super) fn serialize<const WIDTH: usize, S: Serializer>(
        bytes: &[u8; WIDTH],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(bytes))
    }

    pub(super) fn deserialize<'de, const WIDTH: usize, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; WIDTH], D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        unhex(&text).ok_or_else(|| D::Error::custom(format!("not {WIDTH} bytes in hexadecimal digits")))
    }
}

/// Who may join, checked as it is read.
mod access {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{AccessRecord, LineAccess};

    pub(super) fn serialize<S: Serializer>(
        access: &Option<LineAccess>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        access.as_ref().map(AccessRecord::of).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<LineAccess>, D::Error> {
        let record = Option::<AccessRecord>::deserialize(deserializer)?;
        record.map(AccessRecord::into_access).transpose().map_err(D::Error::custom)
    }
}

impl LineRecord {
    pub(crate) fn of(terms: &LineTerms) -> LineRecord {
        let LineTerms { units, turn_ms, grace_ms, close_ms, beacon, access } = *terms;
        let beacon = beacon.map(|BeaconTerms { public_key, genesis_s, period_s }| BeaconRecord {
            public_key,
            genesis_s,
            period_s,
        });
        LineRecord { units, turn_ms, grace_ms, close_ms, beacon, access }
    }

    pub(crate) fn into_terms(self) -> LineTerms {
        let LineRecord { units, turn_ms, grace_ms, close_ms, beacon, access } = self;
        let beacon = beacon.map(|BeaconRecord { public_key, genesis_s, period_s }| BeaconTerms {
            public_key,
            genesis_s,
            period_s,
        });
        LineTerms { units, turn_ms, grace_ms, close_ms, beacon, access }
    }
}

impl AccessRecord {
    fn of(access: &LineAccess) -> AccessRecord {
        let groups = access.groups();
        AccessRecord {
            groups: groups
                .map(|(name, opening)| GroupRecord {
                    name: name.as_str().to_owned(),
                    opening: OpeningRecord::of(opening),
                })
                .collect(),
            others: access.others().map(OpeningRecord::of),
        }
    }

    fn into_access(self) -> Result<LineAccess, &'static str> {
        let named = |group: &GroupRecord| Some((GroupName::new(&group.name)?, group.opening.opening()));
        let groups = self.groups.iter().map(named).collect::<Option<Vec<_>>>();
        let others = self.others.map(|opening| opening.opening());
        LineAccess::new(groups.ok_or("a group has another name than one can have")?, others)
    }
}

impl OpeningRecord {
    fn of(opening: Opening) -> OpeningRecord {
        let before_ms = match opening {
            Opening::Always => None,
            Opening::BeforeStart { ms } => Some(ms),
        };
        OpeningRecord { before_ms }
    }

    fn opening(&self) -> Opening {
        self.before_ms.map_or(Opening::Always, |ms| Opening::BeforeStart { ms })
    }
}

pub(super) const KINDS: [&str; 7] = [JOINED, CLOSED, DRAWN, MOVED, PACE_LIMITED, MESSAGE_SET, TURN];
pub(super) const JOINED: &str = "line_joined";
pub(super) const CLOSED: &str = "line_closed";
pub(super) const DRAWN: &str = "line_drawn";
pub(super) const MOVED: &str = "line_moved";
pub(super) const PACE_LIMITED: &str = "line_pace_limited";
pub(super) const MESSAGE_SET: &str = "line_told";
pub(super) const TURN: &str = "line_turn";

/// `None`: the event is not of a line.
pub(super) fn row(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::LineJoined { sku, buyer } => {
            (JOINED, json(&JoinRecord { sku: sku.0, buyer: buyer.to_string() }))
        }
        Event::LineClosed { sku, closed } => {
            let ClosedLine { at, entries, root, round } = **closed;
            (CLOSED, json(&CloseRecord { sku: sku.0, at_ms: at.0, entries, root, round }))
        }
        Event::LineDrawn { sku, spoken } => {
            let spoken = spoken.as_deref().copied();
            let spoken = spoken.map(|Spoken { round, signature }| SpokenRecord { round, signature });
            (DRAWN, json(&DrawnRecord { sku: sku.0, spoken }))
        }
        Event::LineMoved { sku, to } => {
            let Borders { away_to, reached, sure_to } = *to;
            (MOVED, json(&MoveRecord { sku: sku.0, away_to, reached, sure_to }))
        }
        Event::PaceLimited { sku, per_s_max } => {
            (PACE_LIMITED, json(&PaceRecord { sku: sku.0, per_s_max: *per_s_max }))
        }
        Event::LineMessageSet { sku, message } => {
            (MESSAGE_SET, json(&MessageRecord { sku: sku.0, message: message.clone() }))
        }
        Event::TurnOpened { sku, turn: Turn { place, number, buyer, fewer_units: units } } => {
            let opened = Some(TurnOpenRecord { number: *number, buyer: buyer.to_string(), units: *units });
            (TURN, json(&TurnRecord { sku: sku.0, place: *place, opened, ended: None }))
        }
        Event::TurnEnded { sku, place, how } => {
            let ended = match how {
                TurnEnd::Expired => TurnEndRecord::Expired,
                TurnEnd::GivenBack => TurnEndRecord::GivenBack,
            };
            (TURN, json(&TurnRecord { sku: sku.0, place: *place, opened: None, ended: Some(ended) }))
        }
        _ => return None,
    })
}

/// `kind`: one of [`KINDS`].
pub(super) fn event(kind: &str, body: &[u8]) -> Result<Event, RowError> {
    Ok(match kind {
        JOINED => {
            let JoinRecord { sku, buyer } = serde_json::from_slice(body)?;
            Event::LineJoined { sku: SkuId(sku), buyer: buyer_of(&buyer)? }
        }
        CLOSED => {
            let CloseRecord { sku, at_ms, entries, root, round } = serde_json::from_slice(body)?;
            let closed = Box::new(ClosedLine { at: UnixMs(at_ms), entries, root, round });
            Event::LineClosed { sku: SkuId(sku), closed }
        }
        DRAWN => {
            let DrawnRecord { sku, spoken } = serde_json::from_slice(body)?;
            let spoken =
                spoken.map(|SpokenRecord { round, signature }| Box::new(Spoken { round, signature }));
            Event::LineDrawn { sku: SkuId(sku), spoken }
        }
        MOVED => {
            let MoveRecord { sku, away_to, reached, sure_to } = serde_json::from_slice(body)?;
            Event::LineMoved { sku: SkuId(sku), to: Borders { away_to, reached, sure_to } }
        }
        PACE_LIMITED => {
            let PaceRecord { sku, per_s_max } = serde_json::from_slice(body)?;
            Event::PaceLimited { sku: SkuId(sku), per_s_max }
        }
        MESSAGE_SET => {
            let MessageRecord { sku, message } = serde_json::from_slice(body)?;
            Event::LineMessageSet { sku: SkuId(sku), message }
        }
        TURN => {
            let TurnRecord { sku, place, opened, ended } = serde_json::from_slice(body)?;
            let sku = SkuId(sku);
            match (opened, ended) {
                (Some(TurnOpenRecord { number, buyer, units }), None) => {
                    let turn = Turn { place, number, buyer: buyer_of(&buyer)?, fewer_units: units };
                    Event::TurnOpened { sku, turn }
                }
                (None, Some(TurnEndRecord::Expired)) => {
                    Event::TurnEnded { sku, place, how: TurnEnd::Expired }
                }
                (None, Some(TurnEndRecord::GivenBack)) => {
                    Event::TurnEnded { sku, place, how: TurnEnd::GivenBack }
                }
                _ => return Err(unknown("a turn that neither opened nor ended")),
            }
        }
        other => return Err(unknown(other)),
    })
}
