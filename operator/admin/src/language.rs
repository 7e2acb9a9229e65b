//! The description of the query language, for completion and help in editors.

use crate::call::Answer;
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use crate::stage::Stage;
use orrery_engine::{FunctionInfo, language};
use orrery_model::{Json, object};

/// A clause or operator.
const CLAUSE: Schema = Schema {
    name: "LanguageClause",
    members: &[
        required("name", ValueType::Text, "words that begin it"),
        required("form", ValueType::Text, "example"),
        required("doc", ValueType::Text, "effect in a line"),
    ],
};

/// A function.
const FUNCTION: Schema = Schema {
    name: "LanguageFunction",
    members: &[
        required("name", ValueType::Text, "name in capitals"),
        required("aliases", ValueType::TextList, "other spellings"),
        required("family", ValueType::Text, "family, such as text or dates"),
        required(
            "arguments",
            ValueType::TextList,
            "names of the arguments; the last may be repeated if there is no maxArguments",
        ),
        required("minArguments", COUNT, "smallest number of arguments"),
        optional(
            "maxArguments",
            COUNT,
            "largest number of arguments; absent for any number",
        ),
        required("doc", ValueType::Text, "result in a line"),
        required(
            "indexUse",
            ValueType::OneOf(&["seek", "range", "scan", "none"]),
            "best use of an index by a filter with the function; none: the items are loaded",
        ),
        required("aggregate", ValueType::Boolean, "true for an aggregate"),
    ],
};

/// A property that the server adds to items.
const PROPERTY: Schema = Schema {
    name: "LanguageProperty",
    members: &[
        required("name", ValueType::Text, "name"),
        required("doc", ValueType::Text, "contents in a line"),
    ],
};

/// Response of [`read`].
pub(crate) const LANGUAGE: Schema = Schema {
    name: "Language",
    members: &[
        required(
            "keywords",
            ValueType::TextList,
            "words that cannot be identifiers, in capitals",
        ),
        required(
            "clauses",
            ValueType::ObjectList(&CLAUSE),
            "clauses and operators",
        ),
        required(
            "functions",
            ValueType::ObjectList(&FUNCTION),
            "built-in functions",
        ),
        required(
            "properties",
            ValueType::ObjectList(&PROPERTY),
            "properties that the server adds to every item",
        ),
    ],
};

/// Returns the description of the query language.
pub(crate) fn read(_: Stage) -> Result<Answer, Problem> {
    let language = language();
    let mut clauses: Vec<Json> = Vec::new();
    for clause in language.clauses {
        let json = object! { "name" => clause.name, "form" => clause.form, "doc" => clause.doc };
        clauses.push(json.into());
    }
    let mut properties: Vec<Json> = Vec::new();
    for property in language.properties {
        properties.push(object! { "name" => property.name, "doc" => property.doc }.into());
    }
    let functions: Vec<Json> = language.functions.iter().map(function_json).collect();
    Answer::json(
        200,
        object! {
            "keywords" => texts(language.keywords),
            "clauses" => clauses,
            "functions" => functions,
            "properties" => properties,
        },
    )
}

/// Returns the JSON form of a function.
fn function_json(function: &FunctionInfo) -> Json {
    let mut json = object! {
        "name" => function.name,
        "aliases" => texts(function.aliases),
        "family" => function.family,
        "arguments" => texts(&function.arguments),
        "minArguments" => function.arguments_min,
        "doc" => function.doc,
        "indexUse" => function.index_use,
        "aggregate" => function.is_aggregate,
    };
    if let Some(max) = function.arguments_max {
        json.set("maxArguments", max);
    }
    json.into()
}

/// Returns an array of strings.
fn texts(list: &[&str]) -> Vec<Json> {
    list.iter().map(|text| (*text).into()).collect()
}
