//! Functions on objects, choices between values, and aggregates.

use super::{
    ANY, AggregateKind, Arguments, Function, Implementation, entry, metered, non_strict, strict,
};
use crate::error::QueryError;
use crate::resume_filter::item_number;
use crate::run::frame::Context;
use orrery_model::json::{Json, Object};

const fn aggregate(
    names: &'static [&'static str],
    doc: &'static str,
    kind: AggregateKind,
) -> Function {
    entry(names, (1, 1), doc, Implementation::Aggregate(kind))
}

pub(super) const TABLE: &[Function] = &[
    metered(
        &["OBJECTTOARRAY", "OBJECT_TO_ARRAY"],
        (1, 3),
        "the members of an object as an array of pairs",
        object_to_array,
    ),
    strict(
        &["DOCUMENTID", "DOCUMENT_ID"],
        (1, 1),
        "the number of an item in its container, from its resource id (_rid)",
        |a| document_id(a.get(0)?),
    ),
    non_strict(
        &["_ALLPARTITIONS"],
        (0, 0),
        "true; in WHERE, marks a query that the server merges for a client that cannot",
        |_| Some(Json::Bool(true)),
    ),
    entry(
        &["IIF"],
        (3, 3),
        "the second argument if the first is true, else the third",
        Implementation::Conditional,
    ),
    entry(
        &["CHOOSE"],
        (2, ANY),
        "the argument with that number among the others, from 1",
        Implementation::Choose,
    ),
    aggregate(
        &["COUNT"],
        "the number of defined values",
        AggregateKind::Count,
    ),
    aggregate(
        &["COUNTIF", "COUNT_IF"],
        "the number of values that are true",
        AggregateKind::CountIf,
    ),
    aggregate(
        &["SUM"],
        "the sum; 0 of no values, undefined if one is no number",
        AggregateKind::Sum,
    ),
    aggregate(
        &["AVG"],
        "the mean; undefined of no values or if one is no number",
        AggregateKind::Average,
    ),
    aggregate(
        &["MIN"],
        "the smallest scalar; undefined of no values or if one is no scalar",
        AggregateKind::Min,
    ),
    aggregate(
        &["MAX"],
        "the largest scalar; undefined of no values or if one is no scalar",
        AggregateKind::Max,
    ),
    aggregate(
        &["MAKELIST", "MAKE_LIST"],
        "all defined values as an array",
        AggregateKind::MakeList,
    ),
    aggregate(
        &["MAKESET", "MAKE_SET"],
        "the distinct defined values as an array",
        AggregateKind::MakeSet,
    ),
];

fn object_to_array(cx: &mut Context<'_>, a: Arguments<'_, '_>) -> Result<Option<Json>, QueryError> {
    let (Some(key), Some(value)) = (a.text_or(1, "k"), a.text_or(2, "v")) else {
        return Ok(None);
    };
    let Some(members) = a.get(0).and_then(Json::as_object) else {
        return Ok(None);
    };
    // The two names are copied into every pair, so long names multiply.
    cx.check_memory(members.len().saturating_mul(key.len() + value.len()))?;
    let pairs = members.iter().map(|(name, member)| {
        let pair = [
            (key.to_owned(), Json::from(name)),
            (value.to_owned(), member.clone()),
        ];
        Json::Object(Object::from_iter(pair))
    });
    Ok(Some(Json::Array(pairs.collect())))
}

fn document_id(item: &Json) -> Option<Json> {
    item_number(item.get("_rid")?.as_str()?).map(Json::from)
}
