//! Who may: the operators of a ledger, each with a name, a role and the hash of a token.
//!
//! Must not: know a token, or what a role may do; that is whoever serves.

use crate::sale::limits;
use crate::{Refusal, UnixMs};

/// What somebody may do. Each may do what the ones before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads what names no buyer.
    Viewer,
    /// Reads orders, cancels and refunds them.
    Support,
    /// Makes, changes and runs sales.
    Operator,
    /// Takes units away, erases, sets the clock, and says who may.
    Admin,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Support, Role::Operator, Role::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Support => "support",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    pub fn of(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// Somebody with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub name: Box<str>,
    pub role: Role,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    pub added_at: UnixMs,
    /// The operator who added this one.
    pub by: Box<str>,
    /// `None`: until it is revoked.
    pub expires_at: Option<UnixMs>,
}

impl Operator {
    pub fn is_expired(&self, now: UnixMs) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// The name of whoever has the token of the configuration. Nobody else has it.
pub const ROOT: &str = "root";

/// All operators who were not revoked, by name. At most [`limits::OPERATORS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operators(Vec<Operator>);

impl Operators {
    /// Those that a ledger has.
    pub fn new(mut operators: Vec<Operator>) -> Operators {
        operators.sort_by(|one, other| one.name.cmp(&other.name));
        Operators(operators)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Operator> {
        self.0.iter()
    }

    pub fn get(&self, name: &str) -> Option<&Operator> {
        self.find(name).ok().map(|index| &self.0[index])
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|operator| (*operator.name).cmp(name))
    }

    pub(crate) fn judge_add(&self, operator: &Operator) -> Result<(), Refusal> {
        let invalid = |why| Err(Refusal::InvalidChange(why));
        if !is_name(&operator.name) {
            return invalid("the name must have 1 to 32 of a-z, 0-9 and -, and not be root");
        }
        if operator.by.is_empty() || operator.by.len() > limits::OPERATOR_NAME_BYTES_MAX {
            return invalid("whoever adds an operator has a name of 1 to 32 bytes");
        }
        let expires_at = operator.expires_at.unwrap_or(operator.added_at);
        if expires_at < operator.added_at || expires_at.0 > limits::TIME_MS_MAX {
            return invalid("the token would expire before it is made, or too far ahead");
        }
        if self.get(&operator.name).is_some() {
            return invalid("there is an operator of this name: revoke that one first");
        }
        if self.0.len() >= limits::OPERATORS_MAX {
            return invalid("there are as many operators as can be: revoke one first, expired ones count");
        }
        Ok(())
    }

    pub(crate) fn judge_revoke(&self, name: &str) -> Result<(), Refusal> {
        self.get(name).map(drop).ok_or(Refusal::InvalidChange("there is no operator of this name"))
    }

    pub(crate) fn add(&mut self, operator: &Operator) {
        let place = self.find(&operator.name).expect_err("whoever is added was judged to be new");
        self.0.insert(place, operator.clone());
    }

    pub(crate) fn revoke(&mut self, name: &str) {
        let place = self.find(name).expect("whoever is revoked was judged to be there");
        self.0.remove(place);
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=limits::OPERATOR_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(known) && name != ROOT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str) -> Operator {
        let (digest, by, added_at) = ([7; 32], ROOT.into(), UnixMs(5));
        Operator { name: name.into(), role: Role::Support, digest, added_at, by, expires_at: None }
    }

    #[test]
    fn who_can_be_added() {
        let ok = |operator: &Operator| Operators::default().judge_add(operator).is_ok();
        for (name, fine) in [
            ("anna", true),
            ("a-1", true),
            (&"a".repeat(32), true),
            ("", false),
            (&"a".repeat(33), false),
            ("Anna", false),
            ("an_na", false),
            ("änna", false),
            ("a b", false),
            (ROOT, false),
        ] {
            assert_eq!(ok(&operator(name)), fine, "{name:?}");
        }
        for (expires_at, fine) in [(4, false), (6, true), (limits::TIME_MS_MAX + 1, false)] {
            let expires_at = Some(UnixMs(expires_at));
            assert_eq!(ok(&Operator { expires_at, ..operator("anna") }), fine, "{expires_at:?}");
        }
        assert!(!ok(&Operator { by: "".into(), ..operator("anna") }));
        assert!(!ok(&Operator { by: "a".repeat(33).into(), ..operator("anna") }));
    }

    #[test]
    fn names_are_there_once_and_they_are_bounded() {
        let mut operators = Operators::default();
        for number in 0..limits::OPERATORS_MAX {
            let operator = operator(&format!("o{number}"));
            operators.judge_add(&operator).unwrap();
            operators.add(&operator);
            assert!(operators.judge_add(&operator).is_err(), "its name is taken");
        }
        assert!(operators.judge_add(&operator("one-more")).is_err());
        operators.revoke("o3");
        assert!(operators.judge_revoke("o3").is_err() && operators.get("o3").is_none());
        operators.judge_add(&operator("o3")).unwrap();
        assert!(operators.judge_revoke("o4").is_ok() && operators.get("o4").is_some());
        assert_eq!(
            Operators::new(operators.iter().cloned().collect::<Vec<_>>().into_iter().rev().collect()),
            operators
        );
    }

    #[test]
    fn a_role_may_what_the_ones_before_may_and_is_known_by_its_word() {
        assert!(Role::ALL.is_sorted());
        assert!(Role::ALL.into_iter().all(|role| Role::of(role.as_str()) == Some(role)));
        assert_eq!(Role::of("root"), None);
    }
}
