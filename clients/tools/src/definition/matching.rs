//! The comparison of stated settings with those that a server shows.
//!
//! A definition may state a part of a policy; the server adds the rest. A stated value matches if
//! the server's value holds all of it.

use serde_json::Value;

/// The path that servers exclude from the index of every container.
const ETAG_PATH: &str = "/\"_etag\"/?";

/// Returns true if `actual` holds all that `stated` states.
pub(super) fn matches(stated: &Value, actual: &Value) -> bool {
    match (stated, actual) {
        (Value::Object(stated), Value::Object(actual)) => stated.iter().all(|(name, value)| {
            let found = actual.get(name).or_else(|| {
                let mut members = actual.iter();
                let same = members.find(|(other, _)| other.eq_ignore_ascii_case(name));
                same.map(|(_, value)| value)
            });
            found.is_some_and(|found| matches(value, found)) || is_empty(value) && found.is_none()
        }),
        (Value::Array(stated), Value::Array(actual)) => {
            let (stated, actual) = (without_etag(stated), without_etag(actual));
            let mut rest = actual.clone();
            stated.len() == actual.len()
                && stated.iter().all(|value| {
                    let at = rest.iter().position(|other| matches(value, other));
                    at.map(|at| rest.swap_remove(at)).is_some()
                })
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::String(a), Value::String(b)) => a == b,
        _ => stated == actual,
    }
}

/// Returns true for an empty array or object, which servers may leave out.
fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn without_etag(list: &[Value]) -> Vec<&Value> {
    let kept = list.iter().filter(|value| value["path"] != ETAG_PATH);
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_of_a_policy_matches_the_whole() {
        let actual = json!({"indexingMode": "consistent", "automatic": true,
            "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": ETAG_PATH}]});
        assert!(matches(
            &json!({"includedPaths": [{"path": "/*"}]}),
            &actual
        ));
        assert!(matches(&json!({"excludedPaths": []}), &actual));
        assert!(!matches(&json!({"includedPaths": []}), &actual));
        assert!(!matches(&json!({"indexingMode": "none"}), &actual));
        assert!(matches(&json!({"compositeIndexes": []}), &actual));
    }
}
