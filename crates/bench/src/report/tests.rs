//! The published schema against what is written: with a checker of the few keywords that the schema uses, because a
//! whole validator would be a hundred crates for one file. A keyword that it does not know fails the test.

use serde_json::Value;

use super::{json, sample};

/// What is wrong with `value`, with the place of it; nothing if it keeps to `schema`.
fn complaints(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut wants = |holds: bool, what: &str| {
        if !holds {
            found.push(format!("{place}: {what}: {value}"));
        }
    };
    let mut deeper: Vec<(&Value, &Value, String)> = Vec::new();
    for (keyword, rule) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                deeper.push((&root["$defs"][name], value, place.to_owned()));
            }
            "type" => wants(is(value, rule.as_str().unwrap()), "type"),
            "const" => wants(value == rule, "const"),
            "enum" => wants(rule.as_array().unwrap().contains(value), "enum"),
            "minimum" => wants(value.as_f64() >= rule.as_f64(), "minimum"),
            "maximum" => wants(value.as_f64() <= rule.as_f64(), "maximum"),
            "minItems" => wants(value.as_array().map(Vec::len) >= length(rule), "minItems"),
            "maxItems" => wants(value.as_array().map(Vec::len) <= length(rule), "maxItems"),
            "anyOf" => {
                let any =
                    rule.as_array().unwrap().iter().any(|of| complaints(root, of, value, place).is_empty());
                wants(any, "anyOf");
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    wants(value.get(name.as_str().unwrap()).is_some(), &format!("required {name}"));
                }
            }
            "properties" => {
                let named = value.as_object().into_iter().flatten();
                deeper.extend(
                    named.filter_map(|(key, of)| Some((rule.get(key)?, of, format!("{place}.{key}")))),
                );
            }
            "additionalProperties" => {
                let others = value.as_object().into_iter().flatten();
                for (key, of) in others.filter(|(key, _)| schema["properties"].get(key).is_none()) {
                    match rule {
                        Value::Bool(false) => wants(false, &format!("additional {key}")),
                        rule => deeper.push((rule, of, format!("{place}.{key}"))),
                    }
                }
            }
            "items" => deeper
                .extend(value.as_array().into_iter().flatten().map(|of| (rule, of, format!("{place}[]")))),
            unknown => panic!("this checker does not know {unknown}"),
        }
    }
    found.extend(
        deeper.into_iter().flat_map(|(schema, value, place)| complaints(root, schema, value, &place)),
    );
    found
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => panic!("no type {kind}"),
    }
}

fn length(rule: &Value) -> Option<usize> {
    Some(usize::try_from(rule.as_u64().unwrap()).unwrap())
}

fn of_report(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let schema: Value = serde_json::from_str(json::JSON_SCHEMA).unwrap();
    let mut report = serde_json::to_value(sample::report()).unwrap();
    change(&mut report);
    complaints(&schema, &schema, &report, "report")
}

#[test]
fn what_is_written_keeps_to_the_published_schema() {
    assert_eq!(of_report(|_report| {}), [""; 0]);
    assert_eq!(json::JSON_SCHEMA.matches(super::model::SCHEMA).count(), 1);
}

#[test]
fn every_flag_is_in_the_schema() {
    use super::model::Flag;
    let flags = [
        Flag::CoLocated,
        Flag::InFlightCap { cap: 1, times: 1 },
        Flag::SendLag { p99_us: 1, most_us: 1 },
        Flag::GeneratorBusy { share: 0.9, most: 0.8 },
        Flag::Steal { share: 0.1, most: 0.02 },
        Flag::Unsent { requests: 1 },
        Flag::SlowTail { seconds: 1.0, share: 0.2, most: 0.1 },
        Flag::Stray { answers: 1 },
        Flag::NotCarried { requests: 1, of: 9 },
        Flag::Disturbed { processors: 1.5, most: 0.5 },
    ];
    let complaints = of_report(|report| {
        report["scenarios"][0]["cases"][0]["trials"][0]["flags"] = serde_json::to_value(flags).unwrap();
    });
    assert_eq!(complaints, [""; 0]);
}

#[test]
fn the_schema_refuses_what_is_no_report() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 6] = [
        (|report| report["schema"] = "doorbuster-bench/3".into(), "report.schema: const"),
        (|report| report["more"] = 1.into(), "additional more"),
        (|report| drop(report.as_object_mut().unwrap().remove("seed")), "required \"seed\""),
        (|report| report["scenarios"][0]["cases"][0]["metrics"][0]["better"] = "up".into(), "better: enum"),
        (|report| report["scenarios"][0]["cases"][0]["trials"][0]["flags"] = "late".into(), "flags: type"),
        (
            |report| report["scenarios"][2]["cases"][2]["load"]["verdict"] = "late".into(),
            "load.verdict: enum",
        ),
    ];
    for (change, wanted) in cases {
        let complaints = of_report(change).join("\n");
        assert!(complaints.contains(wanted), "{wanted}: {complaints}");
    }
}
