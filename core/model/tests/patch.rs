//! Partial updates: tables of accepted and refused patches, and properties of all patches.

use orrery_model::json::parse;
use orrery_model::patch::Patch;
use orrery_model::{Json, Object, Result, limits};
use proptest::prelude::*;

#[track_caller]
fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[track_caller]
fn object(text: &str) -> Object {
    json(text).as_object().expect("an object").clone()
}

fn patched(before: &Object, operations: &str) -> Result<String> {
    Patch::from_json(&json(operations))?
        .apply(before)
        .map(|after| Json::Object(after).to_text())
}

/// Item before the patch, operations, item after the patch.
const CASES: &[(&str, &str, &str)] = &[
    // add
    (
        r#"{"a":1}"#,
        r#"[{"op":"add","path":"/b","value":null}]"#,
        r#"{"a":1,"b":null}"#,
    ),
    (
        r#"{"a":1,"b":2}"#,
        r#"[{"op":"add","path":"/a","value":3}]"#,
        r#"{"a":3,"b":2}"#,
    ),
    (
        r#"{"a":{"b":{}}}"#,
        r#"[{"op":"add","path":"/a/b/c","value":[1]}]"#,
        r#"{"a":{"b":{"c":[1]}}}"#,
    ),
    (
        r#"{"a":[1,2]}"#,
        r#"[{"op":"add","path":"/a/0","value":0}]"#,
        r#"{"a":[0,1,2]}"#,
    ),
    (
        r#"{"a":[1,2]}"#,
        r#"[{"op":"add","path":"/a/2","value":3}]"#,
        r#"{"a":[1,2,3]}"#,
    ),
    (
        r#"{"a":[]}"#,
        r#"[{"op":"add","path":"/a/-","value":3}]"#,
        r#"{"a":[3]}"#,
    ),
    (
        r#"{"a":[{"b":1}]}"#,
        r#"[{"op":"add","path":"/a/0/c","value":2}]"#,
        r#"{"a":[{"b":1,"c":2}]}"#,
    ),
    // set
    (
        r#"{"a":1}"#,
        r#"[{"op":"set","path":"/b","value":2}]"#,
        r#"{"a":1,"b":2}"#,
    ),
    (
        r#"{"a":[1,2]}"#,
        r#"[{"op":"set","path":"/a/0","value":0}]"#,
        r#"{"a":[0,2]}"#,
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"set","path":"/a/1","value":2}]"#,
        r#"{"a":[1,2]}"#,
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"set","path":"/a/-","value":2}]"#,
        r#"{"a":[1,2]}"#,
    ),
    (
        r#"{"a":[{"b":1}]}"#,
        r#"[{"op":"set","path":"/a/0/b","value":2}]"#,
        r#"{"a":[{"b":2}]}"#,
    ),
    // replace
    (
        r#"{"a":1,"b":2}"#,
        r#"[{"op":"replace","path":"/a","value":{"x":0}}]"#,
        r#"{"a":{"x":0},"b":2}"#,
    ),
    (
        r#"{"a":[1,2]}"#,
        r#"[{"op":"replace","path":"/a/1","value":0}]"#,
        r#"{"a":[1,0]}"#,
    ),
    // remove
    (
        r#"{"a":1,"b":2}"#,
        r#"[{"op":"remove","path":"/a"}]"#,
        r#"{"b":2}"#,
    ),
    (
        r#"{"a":[1,2,3]}"#,
        r#"[{"op":"remove","path":"/a/1"}]"#,
        r#"{"a":[1,3]}"#,
    ),
    (
        r#"{"a":1}"#,
        r#"[{"op":"remove","path":"/a","value":1}]"#,
        r#"{}"#,
    ),
    // incr
    (
        r#"{"a":1}"#,
        r#"[{"op":"incr","path":"/a","value":41}]"#,
        r#"{"a":42}"#,
    ),
    (
        r#"{"a":1}"#,
        r#"[{"op":"incr","path":"/a","value":-2}]"#,
        r#"{"a":-1}"#,
    ),
    (
        r#"{"a":1.5}"#,
        r#"[{"op":"incr","path":"/a","value":0.25}]"#,
        r#"{"a":1.75}"#,
    ),
    (
        r#"{"a":9007199254740993}"#,
        r#"[{"op":"incr","path":"/a","value":2}]"#,
        r#"{"a":9007199254740995}"#,
    ),
    (
        r#"{"a":9223372036854775807}"#,
        r#"[{"op":"incr","path":"/a","value":1}]"#,
        r#"{"a":9223372036854776000}"#,
    ),
    (
        r#"{}"#,
        r#"[{"op":"incr","path":"/a","value":1.50}]"#,
        r#"{"a":1.50}"#,
    ),
    (
        r#"{"a":[1,2]}"#,
        r#"[{"op":"incr","path":"/a/1","value":3}]"#,
        r#"{"a":[1,5]}"#,
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"incr","path":"/a/-","value":3}]"#,
        r#"{"a":[1,3]}"#,
    ),
    // move
    (
        r#"{"a":1,"b":2}"#,
        r#"[{"op":"move","from":"/a","path":"/c"}]"#,
        r#"{"b":2,"c":1}"#,
    ),
    (
        r#"{"a":1,"b":2}"#,
        r#"[{"op":"move","from":"/a","path":"/b"}]"#,
        r#"{"b":1}"#,
    ),
    (
        r#"{"a":[1,2,3]}"#,
        r#"[{"op":"move","from":"/a/0","path":"/a/2"}]"#,
        r#"{"a":[2,3,1]}"#,
    ),
    (
        r#"{"a":{"b":1},"c":[]}"#,
        r#"[{"op":"move","from":"/a/b","path":"/c/-"}]"#,
        r#"{"a":{},"c":[1]}"#,
    ),
    (
        r#"{"a":{"b":1}}"#,
        r#"[{"op":"move","from":"/a/b","path":"/a"}]"#,
        r#"{"a":1}"#,
    ),
    (
        r#"{"ab":1,"a":{}}"#,
        r#"[{"op":"move","from":"/a","path":"/ab"}]"#,
        r#"{"ab":{}}"#,
    ),
    // escaped and unusual names
    (
        r#"{"a/b":{"c~d":1}}"#,
        r#"[{"op":"incr","path":"/a~1b/c~0d","value":1}]"#,
        r#"{"a/b":{"c~d":2}}"#,
    ),
    (
        r#"{"a~1b":1}"#,
        r#"[{"op":"remove","path":"/a~01b"}]"#,
        r#"{}"#,
    ),
    (
        r#"{"":{"":1}}"#,
        r#"[{"op":"set","path":"//","value":2}]"#,
        r#"{"":{"":2}}"#,
    ),
    (
        r#"{"0":1,"-":2}"#,
        r#"[{"op":"set","path":"/0","value":3},{"op":"remove","path":"/-"}]"#,
        r#"{"0":3}"#,
    ),
    (
        r#"{"12345678901234567890123":1}"#,
        r#"[{"op":"remove","path":"/12345678901234567890123"}]"#,
        r#"{}"#,
    ),
    // several operations in order
    (
        r#"{"n":1}"#,
        r#"[{"op":"add","path":"/a","value":{}},
            {"op":"set","path":"/a/b","value":1},
            {"op":"incr","path":"/a/b","value":1},
            {"op":"move","from":"/a/b","path":"/n"}]"#,
        r#"{"n":2,"a":{}}"#,
    ),
];

#[test]
fn each_accepted_patch_gives_the_expected_item() {
    for (before, operations, after) in CASES {
        let found = patched(&object(before), operations)
            .unwrap_or_else(|e| panic!("{e}: {operations} on {before}"));
        assert_eq!(found, *after, "{operations} on {before}");
    }
}

/// Item before the patch, operations, part of the error message.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        r#"{}"#,
        r#"[{"op":"add","path":"/nonExistentParent/Child","value":"bar"}]"#,
        "For Operation(1): Add Operation can only create a child object of an existing node(array \
         or object) and cannot create path recursively, no path found beyond: 'nonExistentParent'. \
         Learn more: https://aka.ms/cosmosdbpatchdocs",
    ),
    (
        r#"{"a":{}}"#,
        r#"[{"op":"set","path":"/a/b","value":1},{"op":"set","path":"/a/c/d","value":1}]"#,
        "For Operation(2): Given Operation can only create a child object of an existing \
         node(array or object) and cannot create path recursively, no path found beyond: 'c'.",
    ),
    (
        r#"{"a":"text"}"#,
        r#"[{"op":"add","path":"/a/b","value":1}]"#,
        "no path found beyond: 'a'",
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"add","path":"/a/2","value":1}]"#,
        "For Operation(1): Index(2) to operate on is out of",
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"set","path":"/a/2","value":1}]"#,
        "Index(2) to operate on is out of array bounds",
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"add","path":"/a/00","value":1}]"#,
        "Index(00) to operate on is out of array bounds",
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"add","path":"/a/x","value":1}]"#,
        "Index(x) to operate on is out of array bounds",
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"replace","path":"/a/1","value":1}]"#,
        "Index(1) to operate on is out of array bounds",
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"replace","path":"/a/-","value":1}]"#,
        "Index(-) to operate on is out of array bounds",
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"remove","path":"/a/1"}]"#,
        "Index(1) to operate on is out of array bounds",
    ),
    (
        r#"{"a":[1]}"#,
        r#"[{"op":"incr","path":"/a/2","value":1}]"#,
        "Index(2) to operate on is out of array bounds",
    ),
    (
        r#"{"a":[]}"#,
        r#"[{"op":"add","path":"/a/99999999999999999999999","value":1}]"#,
        "out of array bounds",
    ),
    (
        r#"{}"#,
        r#"[{"op":"replace","path":"/a","value":1}]"#,
        "For Operation(1): Node(/a) to be replaced is absent.",
    ),
    (
        r#"{}"#,
        r#"[{"op":"remove","path":"/a"}]"#,
        "For Operation(1): Node(/a) to be removed is absent.",
    ),
    (
        r#"{}"#,
        r#"[{"op":"move","from":"/a~1","path":"/b"}]"#,
        "Node(/a~1) to be removed is absent.",
    ),
    (
        r#"{"a":"1"}"#,
        r#"[{"op":"incr","path":"/a","value":1}]"#,
        "For Operation(1): Node(/a) is not a number.",
    ),
    (
        r#"{"a":null}"#,
        r#"[{"op":"incr","path":"/a","value":1}]"#,
        "Node(/a) is not a number.",
    ),
    (
        r#"{"a":1e308}"#,
        r#"[{"op":"incr","path":"/a","value":1e308}]"#,
        "Node(/a) is not a number.",
    ),
    (
        r#"{"a":{"b":1}}"#,
        r#"[{"op":"move","from":"/a","path":"/x/y"}]"#,
        "no path found beyond: 'x'",
    ),
];

#[test]
fn an_impossible_operation_is_refused_with_its_number() {
    for (before, operations, expected) in REFUSED {
        let error = patched(&object(before), operations).expect_err(operations);
        assert_eq!(error.status(), 400);
        assert!(
            error.message().contains(expected),
            "{operations} on {before}: {}",
            error.message()
        );
    }
}

#[test]
fn an_invalid_patch_is_refused() {
    for body in [
        r#"[]"#,
        r#"{}"#,
        r#"{"operations":[]}"#,
        r#"{"operations":{}}"#,
        r#"{"condition":1,"operations":[{"op":"remove","path":"/a"}]}"#,
        r#"{"operations":[{"op":"remove","path":"/a"}],"more":1}"#,
        r#""text""#,
        r#"[1]"#,
        r#"[{"op":"remove"}]"#,
        r#"[{"path":"/a"}]"#,
        r#"[{"op":"test","path":"/a","value":1}]"#,
        r#"[{"op":"remove","path":""}]"#,
        r#"[{"op":"remove","path":"a"}]"#,
        r#"[{"op":"remove","path":"/a~2"}]"#,
        r#"[{"op":"remove","path":"/a~"}]"#,
        r#"[{"op":"remove","path":"/~é"}]"#,
        r#"[{"op":"add","path":"/a"}]"#,
        r#"[{"op":"incr","path":"/a","value":"1"}]"#,
        r#"[{"op":"move","path":"/a"}]"#,
        r#"[{"op":"move","from":"/a","path":"/a/b"}]"#,
    ] {
        let error = Patch::from_json(&json(body)).expect_err(body);
        let sentence = "Invalid patch request: check syntax of patch specification. ";
        let remedy = error.message().strip_prefix(sentence);
        assert!(
            remedy.is_some_and(|remedy| !remedy.is_empty()),
            "{body}: {error}"
        );
    }
    let eleven = format!("[{}]", [r#"{"op":"remove","path":"/a"}"#; 11].join(","));
    let error = Patch::from_json(&json(&eleven)).expect_err("too many");
    assert_eq!(
        error.message(),
        "The number of patch operations cannot exceed '10'. This one has 11: send them as several \
         patches, or replace the item."
    );
}

#[test]
fn a_patch_keeps_its_condition_and_lists_the_top_level_names() {
    let text = r#"{"condition":"from c where c.n = 1","operations":[
        {"op":"set","path":"/a/b","value":1},
        {"op":"move","from":"/c~1d","path":"/e"}]}"#;
    let patch = Patch::from_json(&json(text)).expect("a patch");
    assert_eq!(patch.condition.as_deref(), Some("from c where c.n = 1"));
    assert_eq!(
        patch.top_level_names().collect::<Vec<_>>(),
        ["a", "e", "c/d"]
    );
    let without = Patch::from_json(&json(
        r#"{"condition":null,"operations":[{"op":"remove","path":"/a"}]}"#,
    ));
    assert_eq!(without.expect("a patch").condition, None);
}

#[test]
fn a_patch_cannot_exceed_the_nesting_limit() {
    let nested = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let path = |levels: usize| "/a".repeat(levels);
    let limit = limits::NESTING_DEPTH;
    let before = object(&nested(limit));
    let fits = format!(
        r#"[{{"op":"set","path":"{}","value":{{}}}}]"#,
        path(limit - 1)
    );
    assert!(patched(&before, &fits).is_ok());
    let too_deep = format!(r#"[{{"op":"set","path":"{}","value":{{}}}}]"#, path(limit));
    assert_eq!(
        patched(&before, &too_deep).expect_err("too deep").status(),
        400
    );
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(Json::from),
        // Numbers whose shortest form differs from their text.
        prop::sample::select(vec![
            "1.0",
            "1e2",
            "0.10",
            "-0.0",
            "123456789012345678901234567890"
        ])
        .prop_map(json),
        "[a-c]{0,2}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::vec(("[a-c~/]{1,2}", inner), 0..4)
                .prop_map(|m| Json::Object(m.into_iter().collect())),
        ]
    })
}

fn item() -> impl Strategy<Value = Object> {
    prop::collection::vec(("[a-c]", value()), 1..4)
        .prop_map(|members| members.into_iter().collect())
}

fn path() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        4 => "[a-c]",
        1 => "[0-2]",
        1 => Just("-".to_owned()),
        1 => Just("a~1b~0".to_owned()),
    ];
    prop::collection::vec(segment, 1..4).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn operation() -> impl Strategy<Value = Json> {
    let named = prop::sample::select(vec!["add", "set", "replace", "remove", "incr", "move"]);
    (named, path(), path(), value(), -5..5i64).prop_map(|(op, path, from, value, by)| {
        let value = if op == "incr" { Json::from(by) } else { value };
        let members = [
            ("op", Json::from(op)),
            ("path", path.into()),
            ("from", from.into()),
            ("value", value),
        ];
        Json::Object(
            members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    })
}

fn text(object: &Object) -> String {
    Json::Object(object.clone()).to_text()
}

proptest! {
    /// Neither success nor failure of a patch changes the old object, and the new object is valid
    /// JSON.
    #[test]
    fn a_patch_leaves_the_old_object_unchanged_and_gives_valid_json(
        before in item(),
        operations in prop::collection::vec(operation(), 1..5),
    ) {
        let before_text = text(&before);
        if let Ok(patch) = Patch::from_json(&Json::Array(operations)) {
            let after = patch.apply(&before);
            prop_assert_eq!(text(&before), before_text);
            if let Ok(after) = after {
                let after_text = text(&after);
                prop_assert_eq!(json(&after_text).to_text(), after_text);
            }
        }
    }

    /// Members that no operation names keep their text, including the digits of numbers.
    #[test]
    fn members_without_an_operation_stay_unchanged(
        before in item(),
        operations in prop::collection::vec(operation(), 1..5),
    ) {
        let Ok(patch) = Patch::from_json(&Json::Array(operations)) else { return Ok(()) };
        if let Ok(after) = patch.apply(&before) {
            let named: Vec<&str> = patch.top_level_names().collect();
            for (name, value) in before.iter().filter(|(name, _)| !named.contains(name)) {
                prop_assert_eq!(after.get(name).map(Json::to_text), Some(value.to_text()));
            }
        }
    }

    #[test]
    fn adding_and_removing_a_member_restores_the_item(before in item(), value in value()) {
        let operations = format!(
            r#"[{{"op":"add","path":"/new","value":{value}}},{{"op":"remove","path":"/new"}}]"#
        );
        prop_assert_eq!(
            patched(&before, &operations).expect("both operations succeed"),
            text(&before)
        );
    }

    #[test]
    fn integers_are_added_exactly_unless_they_overflow(n in any::<i64>(), by in any::<i64>()) {
        let before = object(&format!(r#"{{"n":{n}}}"#));
        let operations = format!(r#"[{{"op":"incr","path":"/n","value":{by}}}]"#);
        let after = patched(&before, &operations).expect("both are numbers");
        if let Some(sum) = n.checked_add(by) {
            prop_assert_eq!(after, format!(r#"{{"n":{sum}}}"#));
        }
    }
}
