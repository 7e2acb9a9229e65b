//! Rows as JSON text.

use super::frame::{Context, Scope};
use crate::bound::Output;
use crate::error::QueryError;
use orrery_model::json::{Json, write_json, write_string};

/// Bytes of the largest row: four pages of the service.
const ROW_BYTES: usize = 1 << 24;

/// Appends the row; false if there is none, because its value is undefined.
pub(crate) fn row(
    output: &Output,
    cx: &mut Context<'_>,
    scope: &Scope<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, QueryError> {
    match output {
        Output::Value(expr) => match expr.eval(cx, scope)? {
            Some(made) => {
                value(&made, out)?;
                cx.count_bytes(out.len()).map(|()| true)
            }
            None => Ok(false),
        },
        Output::Members(members) => {
            out.push(b'{');
            let mut first = true;
            for (name, expr) in members {
                let Some(member) = expr.eval(cx, scope)? else {
                    continue;
                };
                if !first {
                    out.push(b',');
                }
                first = false;
                write_string(name, out);
                out.push(b':');
                let before = out.len();
                value(&member, out)?;
                cx.count_bytes(out.len() - before)?;
            }
            out.push(b'}');
            Ok(true)
        }
    }
}

/// Appends a value.
///
/// # Errors
/// [`QueryError::NonFinite`] if a number in it has no JSON form, [`QueryError::Memory`] if the row becomes too large.
pub(crate) fn value(value: &Json, out: &mut Vec<u8>) -> Result<(), QueryError> {
    if !is_finite(value) {
        return Err(QueryError::NonFinite);
    }
    write_json(value, out);
    if out.len() > ROW_BYTES {
        return Err(QueryError::Memory(format!(
            "A row of the query has more than {ROW_BYTES} bytes."
        )));
    }
    Ok(())
}

fn is_finite(value: &Json) -> bool {
    match value {
        Json::Number(n) => n.is_finite(),
        Json::Array(elements) => elements.iter().all(is_finite),
        Json::Object(members) => members.iter().all(|(_, v)| is_finite(v)),
        _ => true,
    }
}
