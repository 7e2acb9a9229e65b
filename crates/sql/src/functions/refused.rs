//! Functions of the language that this engine does not have. They are refused by name when a query is compiled.

use super::{ANY, Cost, Function, Run};

const fn refused(names: &'static [&'static str], family: &'static str) -> Function {
    Function {
        names,
        arity: (0, ANY),
        cost: Cost::Scan,
        doc: "not served",
        run: Run::Refused(family),
    }
}

pub(super) const TABLE: &[Function] = &[refused(&["HASH"], "HASH")];
