//! Functions of the language that this engine does not have. They are refused by name when a query is compiled.

use super::{ANY, Cost, Function, Run};

const fn refused(names: &'static [&'static str], family: &'static str) -> Function {
    Function { names, arity: (0, ANY), cost: Cost::Scan, doc: "not served", run: Run::Refused(family) }
}

pub(super) const TABLE: &[Function] = &[
    refused(
        &["ST_AREA", "ST_DISTANCE", "ST_INTERSECTS", "ST_ISVALID", "ST_ISVALIDDETAILED", "ST_WITHIN"],
        "spatial functions",
    ),
    refused(&["VECTORDISTANCE", "VECTOR_DISTANCE"], "vector search"),
    refused(
        &[
            "FULLTEXTCONTAINS",
            "FULLTEXT_CONTAINS",
            "FULLTEXTCONTAINSALL",
            "FULLTEXT_CONTAINS_ALL",
            "FULLTEXTCONTAINSANY",
            "FULLTEXT_CONTAINS_ANY",
            "FULLTEXTSCORE",
            "FULLTEXT_SCORE",
            "_FULLTEXTSCORE",
            "_FULLTEXTWORDCOUNT",
            "RRF",
        ],
        "full-text search",
    ),
    refused(&["HASH"], "HASH"),
];
