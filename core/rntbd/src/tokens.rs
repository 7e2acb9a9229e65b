//! The tables of tokens: what each id is called, its type, and the HTTP header that it stands for.
//!
//! There are four tables, because the context and its answer number their tokens anew. A row is a
//! constant, and `TABLE` has all rows ascending by id. The column of headers names headers of the
//! gateway alone: those of requests that it reads, and those of answers that it sends.
//!
//! Left out: ids that the service's own gateway sends, and ids that mean different things to
//! different clients (0x00DC and 0x00E7, the id of a workload). A reader skips them.

/// Defines a table: `NAME = id, "name", Type[, "header" as Form];` for each row.
macro_rules! table {
    ($(
        $(#[$doc:meta])*
        $constant:ident = $id:literal, $name:literal, $kind:ident
            $(, $header:literal as $form:expr)?;
    )*) => {
        $(
            $(#[$doc])*
            pub const $constant: Token = Token {
                id: $id,
                name: $name,
                kind: Type::$kind,
                header: table!(@header $($header, $form)?),
            };
        )*

        /// All tokens of this table, ascending by id.
        pub static TABLE: &[Token] = &[$($constant),*];
    };
    (@header) => { None };
    (@header $header:literal, $form:expr) => { Some(($header, $form)) };
}

pub mod answer;
pub mod context_answer;
pub mod context_request;
pub mod request;
