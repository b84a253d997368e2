//! The groups that a token's claim names: a text, or a list of texts.
//!
//! Must not: be given a claim of a token whose signature was not checked.

use engine::GroupName;
use serde_json::Value;
use serde_json::value::RawValue;

/// Of one buyer, those that come first: a session of ours has them too, and must not be longer than a token.
const GROUPS_MAX: usize = 16;

/// What can be no group of a line is none of the buyer's, and no reason to turn them away.
pub(super) fn read(claim: &RawValue) -> Box<[GroupName]> {
    let texts = match serde_json::from_str(claim.get()) {
        Ok(Value::Array(several)) => several,
        Ok(one) => vec![one],
        Err(_unreadable) => Vec::new(),
    };
    texts.iter().filter_map(|text| GroupName::new(text.as_str()?)).take(GROUPS_MAX).collect()
}

pub(super) fn claim(groups: &[GroupName]) -> Value {
    groups.iter().map(|group| group.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_or_a_list_names_groups_and_nothing_else_does() {
        let many: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        for (json, expected) in [
            (r#""gold""#, &["gold"][..]),
            (r#"["gold","a b","","club",7,null,["x"]]"#, &["gold", "club"]),
            (r#""g\u006fld""#, &["gold"]),
            ("[]", &[]),
            ("7", &[]),
            ("null", &[]),
            (r#"{"gold":true}"#, &[]),
        ] {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let found = read(&raw);
            let names: Vec<&str> = found.iter().map(|group| group.as_str()).collect();
            assert_eq!(names, expected, "{json}");
            let again = RawValue::from_string(claim(&found).to_string()).unwrap();
            assert_eq!(read(&again), found, "{json}");
        }
        let raw = RawValue::from_string(serde_json::json!(many).to_string()).unwrap();
        assert_eq!(read(&raw).len(), GROUPS_MAX);
    }
}
