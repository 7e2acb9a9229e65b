//! Functions on objects, choices between values, and the aggregates.

use super::{ANY, AggregateKind, Arguments, Function, Implementation, IndexUse, metered, strict};
use crate::error::QueryError;
use crate::resume_filter::item_number;
use crate::run::frame::Context;
use orrery_model::json::{Json, Object};

const fn aggregate(
    names: &'static [&'static str],
    doc: &'static str,
    kind: AggregateKind,
) -> Function {
    Function {
        names,
        arity: (1, 1),
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::Aggregate(kind),
    }
}

pub(super) const TABLE: &[Function] = &[
    metered(
        &["OBJECTTOARRAY", "OBJECT_TO_ARRAY"],
        (1, 3),
        "an object's members as an array of pairs",
        object_to_array,
    ),
    strict(
        &["DOCUMENTID", "DOCUMENT_ID"],
        (1, 1),
        "the number of an item in its container, from its resource id",
        |a| document_id(a.get(0)?),
    ),
    Function {
        names: &["IIF"],
        arity: (3, 3),
        index_use: IndexUse::FullScan,
        doc: "the second if the first is true, else the third",
        run: Implementation::Conditional,
    },
    Function {
        names: &["CHOOSE"],
        arity: (2, ANY),
        index_use: IndexUse::FullScan,
        doc: "of the others the one of that number, from 1",
        run: Implementation::Choose,
    },
    aggregate(&["COUNT"], "how many defined values", AggregateKind::Count),
    aggregate(
        &["COUNTIF", "COUNT_IF"],
        "how many values are true",
        AggregateKind::CountIf,
    ),
    aggregate(
        &["SUM"],
        "the sum; 0 of nothing, undefined if one is no number",
        AggregateKind::Sum,
    ),
    aggregate(
        &["AVG"],
        "the mean; undefined of nothing or if one is no number",
        AggregateKind::Average,
    ),
    aggregate(
        &["MIN"],
        "the least scalar; undefined of nothing or if one is no scalar",
        AggregateKind::Min,
    ),
    aggregate(
        &["MAX"],
        "the greatest scalar; undefined of nothing or if one is no scalar",
        AggregateKind::Max,
    ),
    aggregate(
        &["MAKELIST", "MAKE_LIST"],
        "all defined values as an array",
        AggregateKind::MakeList,
    ),
    aggregate(
        &["MAKESET", "MAKE_SET"],
        "all different defined values as an array",
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
    // The two names stand in every pair: a long one multiplies.
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
