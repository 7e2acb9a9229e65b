//! Functions of the language that this engine does not offer. The compiler refuses them by name.

use super::{ANY, Function, Implementation, IndexUse};

const fn refused(names: &'static [&'static str], family: &'static str) -> Function {
    Function {
        names,
        arity: (0, ANY),
        index_use: IndexUse::FullScan,
        doc: "not supported",
        run: Implementation::Refused(family),
    }
}

pub(super) const TABLE: &[Function] = &[refused(&["HASH"], "HASH")];
