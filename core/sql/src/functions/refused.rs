//! Functions of the language that this engine does not offer. The compiler refuses them by name.

use super::{ANY, Function, Implementation, entry};

const fn refused(names: &'static [&'static str], family: &'static str) -> Function {
    let run = Implementation::Refused(family);
    entry(names, (0, ANY), "not supported", run)
}

pub(super) const TABLE: &[Function] = &[refused(&["HASH"], "HASH")];
