//! What an accepted order survives is decided by settings of the engines (docs/guarantees.md): these, as the engines
//! themselves report them.

use std::fmt;

/// One of the three engines that a cluster is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    Gate,
    Broker,
    Ledger,
}

/// One setting as its engine reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    /// Or why it can't be read: the right may be missing.
    pub value: Result<String, String>,
    /// What this value may lose, if it is less than the table's safe row.
    pub weak: Option<&'static str>,
}

/// One server of an engine and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// Its kind and address, for people.
    pub engine: String,
    pub settings: Vec<Setting>,
}

impl Setting {
    /// A setting of which any value keeps accepted orders.
    pub fn new(name: &'static str, value: Result<String, String>) -> Setting {
        Setting { name, value, weak: None }
    }

    /// A setting of which these values alone do; others may lose this.
    pub fn safe_if(self, safe: &[&str], loses: &'static str) -> Setting {
        let weak = self.value.as_ref().is_ok_and(|value| !safe.contains(&value.as_str()));
        Setting { weak: weak.then_some(loses), ..self }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.value, self.weak) {
            (Ok(value), None) => write!(f, "{} = {value}", self.name),
            (Ok(value), Some(loses)) => write!(f, "{} = {value} ({loses})", self.name),
            (Err(why), _) => write!(f, "{} can't be read ({why})", self.name),
        }
    }
}

impl fmt::Display for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.engine)?;
        for (at, setting) in self.settings.iter().enumerate() {
            write!(f, "{}{setting}", if at > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_shows_its_value_what_it_may_lose_or_why_it_is_not_known() {
        let flush = |value: &str| {
            Setting::new("flush", Ok(value.into())).safe_if(&["1"], "a power cut may lose orders")
        };
        let unread = Setting::new("role", Err("no permission".into())).safe_if(&["MASTER"], "never shown");
        let settings = vec![flush("1"), flush("0"), unread];
        let shown = EngineSettings { engine: "mysql db:1".into(), settings }.to_string();
        assert_eq!(
            shown,
            "mysql db:1: flush = 1, flush = 0 (a power cut may lose orders), role can't be read (no permission)"
        );
    }
}
