//! The lists `indexes` of included paths, as policies had them before version 2018-09-17 of the
//! protocol: `{"kind":"Range","dataType":"String","precision":-1}`.
//!
//! Every value at an included path has an index of the same kind today, for equality, ranges and
//! ORDER BY, as in the service, which takes such lists and ignores kind and precision. A spatial
//! index is the exception: it becomes an entry of `spatialIndexes`.
//!
//! Promises: a list that the earlier versions of the protocol do not allow is refused, whatever the
//! version of the request.
//!
//! Leaves out: the lists in answers to clients of those versions, which the gateway makes.

use super::policy::{GEOMETRY_TYPES, bad};
use orrery_model::words::shortened;
use orrery_model::{Error, Json, Object, Result, object};

/// A kind of index with its types of values and its largest precision; -1 is the whole value.
struct IndexKind {
    name: &'static str,
    types: &'static [&'static str],
    precision_max: i64,
}

const KINDS: [IndexKind; 3] = [
    IndexKind {
        name: "Hash",
        types: &["String", "Number"],
        precision_max: 8,
    },
    IndexKind {
        name: "Range",
        types: &["String", "Number"],
        precision_max: 100,
    },
    IndexKind {
        name: "Spatial",
        types: &GEOMETRY_TYPES,
        precision_max: -1,
    },
];

/// Returns the included paths that have spatial indexes in a list of their own, as old clients
/// write them, and checks these lists.
///
/// # Errors
/// 400 for an index that has no such kind, type or precision, and for two indexes of a type.
pub(super) fn spatial_paths(body: &Object) -> Result<Vec<String>> {
    let included = body.get("includedPaths").and_then(Json::as_array);
    let mut paths = Vec::new();
    for entry in included.unwrap_or_default() {
        if has_spatial(entry)?
            && let Some(path) = entry.get("path").and_then(Json::as_str)
        {
            paths.push(if path == "/" { "/*" } else { path }.to_owned());
        }
    }
    Ok(paths)
}

/// Checks the `indexes` of an entry of `includedPaths`. Returns true if one is spatial.
fn has_spatial(included: &Json) -> Result<bool> {
    let indexes = match included.get("indexes") {
        None | Some(Json::Null) => return Ok(false),
        Some(Json::Array(indexes)) => indexes,
        Some(_) => return Err(bad("'indexes' is not an array")),
    };
    let mut types: Vec<&str> = Vec::with_capacity(indexes.len());
    let mut has_spatial = false;
    for index in indexes {
        let kind = kind_of(index)?;
        let data_type = type_of(index, kind)?;
        check_precision(index, kind)?;
        if types.contains(&data_type) {
            return Err(bad(&format!(
                "a path has two indexes of the type {data_type}"
            )));
        }
        types.push(data_type);
        has_spatial |= kind.name == "Spatial";
    }
    Ok(has_spatial)
}

fn kind_of(index: &Json) -> Result<&'static IndexKind> {
    let Some(name) = index.get("kind").and_then(Json::as_str) else {
        return Err(Error::bad("The index spec format is invalid.").with_help(
            "An entry of 'indexes' is an object such as {\"kind\": \"Range\", \"dataType\": \
             \"String\", \"precision\": -1}; or leave 'indexes' out.",
        ));
    };
    let found = KINDS
        .iter()
        .find(|kind| kind.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        Error::bad(format!(
            "The specified value {} of the index kind is invalid.",
            shortened(name)
        ))
        .with_help("It is Hash, Range or Spatial.")
    })
}

fn type_of(index: &Json, kind: &IndexKind) -> Result<&'static str> {
    let name = index.get("dataType").and_then(Json::as_str);
    let found = name.and_then(|name| kind.types.iter().find(|t| t.eq_ignore_ascii_case(name)));
    found.copied().ok_or_else(|| {
        let shown = name.map_or_else(
            || "missing".to_owned(),
            |name| format!("'{}'", shortened(name)),
        );
        bad(&format!(
            "the 'dataType' of an index of the kind {} is {shown}",
            kind.name
        ))
        .with_help(format!("It is one of {}.", kind.types.join(", ")))
    })
}

fn check_precision(index: &Json, kind: &IndexKind) -> Result<()> {
    let precision = match index.get("precision") {
        None | Some(Json::Null) => return Ok(()),
        Some(precision) => precision,
    };
    let number = precision.as_i64();
    if number.is_some_and(|number| number == -1 || (1..=kind.precision_max).contains(&number)) {
        return Ok(());
    }
    let error = bad(&format!(
        "the precision {} of an index of the kind {} is out of range",
        shortened(&precision.to_text()),
        kind.name
    ));
    Err(match kind.precision_max {
        -1 => error.with_help("It is -1, or left out."),
        most => error.with_help(format!("It is -1 for the whole value, or 1 to {most}.")),
    })
}

/// Adds an entry to `spatialIndexes` for each path, unless the list has the path.
pub(super) fn add_spatial(given: Option<&Json>, paths: &[String]) -> Option<Json> {
    let given = given.filter(|given| **given != Json::Null);
    if paths.is_empty() {
        return given.cloned();
    }
    let mut list = match given {
        None => Vec::new(),
        Some(Json::Array(list)) => list.clone(),
        // The reader of the list refuses what is no array.
        Some(other) => return Some(other.clone()),
    };
    for path in paths {
        let has_path =
            |entry: &Json| entry.get("path").and_then(Json::as_str) == Some(path.as_str());
        if !list.iter().any(has_path) {
            list.push(Json::Object(spatial_index(path)));
        }
    }
    Some(list.into())
}

fn spatial_index(path: &str) -> Object {
    let mut types = Vec::new();
    for name in GEOMETRY_TYPES {
        types.push(Json::from(name));
    }
    object! { "path" => path, "types" => types }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::policy::Policy;
    use orrery_model::json::parse;

    fn policy(indexes: &str, rest: &str) -> Result<Policy> {
        let text = format!(
            r#"{{"includedPaths":[{{"path":"/*"}},{{"path":"/at/?","indexes":{indexes}}}]{rest}}}"#
        );
        Policy::from_json(Some(&parse(text.as_bytes()).expect("JSON")))
    }

    fn shown(indexes: &str, rest: &str) -> String {
        let policy = policy(indexes, rest).expect("a policy");
        policy.to_json().to_text()
    }

    #[test]
    fn indexes_of_values_are_taken_and_not_kept() {
        let plain = shown("[]", "");
        for indexes in [
            r#"[{"kind":"Range","dataType":"Number","precision":-1}]"#,
            r#"[{"kind":"Range","dataType":"String","precision":100},
                {"kind":"Hash","dataType":"Number","precision":8}]"#,
            r#"[{"kind":"Hash","dataType":"String"},
                {"kind":"hash","dataType":"number","precision":1}]"#,
            "null",
        ] {
            assert_eq!(shown(indexes, ""), plain, "{indexes}");
        }
    }

    #[test]
    fn a_spatial_index_becomes_an_entry_of_the_list_of_these() {
        let listed = r#","spatialIndexes":[{"path":"/at/?","types":["Point"]}]"#;
        let expected = shown("[]", listed);
        let spatial =
            r#"[{"kind":"Spatial","dataType":"Point"},{"kind":"Spatial","dataType":"Polygon"}]"#;
        assert_eq!(shown(spatial, ""), expected);
        assert_eq!(shown(spatial, listed), expected);
    }

    #[test]
    fn indexes_of_no_such_kind_type_or_precision_are_refused() {
        for (indexes, expected) in [
            ("{}", "'indexes' is not an array"),
            ("[1]", "The index spec format is invalid."),
            (
                r#"[{"dataType":"String"}]"#,
                "The index spec format is invalid.",
            ),
            (
                r#"[{"kind":"Tree","dataType":"String"}]"#,
                "The specified value Tree of the index kind is invalid.",
            ),
            (r#"[{"kind":"Range"}]"#, "is missing"),
            (r#"[{"kind":"Range","dataType":"Point"}]"#, "is 'Point'"),
            (r#"[{"kind":"Spatial","dataType":"String"}]"#, "is 'String'"),
            (
                r#"[{"kind":"Hash","dataType":"String","precision":9}]"#,
                "the precision 9",
            ),
            (
                r#"[{"kind":"Range","dataType":"String","precision":101}]"#,
                "the precision 101",
            ),
            (
                r#"[{"kind":"Range","dataType":"String","precision":0}]"#,
                "the precision 0",
            ),
            (
                r#"[{"kind":"Range","dataType":"String","precision":"3"}]"#,
                r#"the precision "3""#,
            ),
            (
                r#"[{"kind":"Spatial","dataType":"Point","precision":3}]"#,
                "the precision 3",
            ),
            (
                r#"[{"kind":"Hash","dataType":"String"},{"kind":"Range","dataType":"String"}]"#,
                "two indexes of the type String",
            ),
        ] {
            let error = policy(indexes, "").expect_err(indexes);
            assert_eq!(error.status(), 400, "{indexes}");
            assert!(error.message().contains(expected), "{indexes}: {error}");
        }
    }
}
