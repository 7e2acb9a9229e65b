//! Rows as JSON text.

use super::frame::{Context, Scope};
use crate::bound::Output;
use crate::error::QueryError;
use orrery_model::json::{Json, write_json, write_string};

/// Largest row in bytes: four times the largest page of the service.
const MAX_ROW_BYTES: usize = 1 << 24;

/// Appends the row of a scope. Returns false if its value is undefined; then there is no row.
///
/// # Errors
/// Those of the evaluation and of [`value`].
pub(crate) fn row(
    output: &Output,
    cx: &mut Context<'_>,
    scope: &Scope<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, QueryError> {
    match output {
        Output::Value(expr) => {
            let Some(row) = expr.eval(cx, scope)? else {
                return Ok(false);
            };
            value(&row, out)?;
            cx.count_bytes(out.len())?;
            Ok(true)
        }
        // Members are written one by one, without an object in between. Undefined ones are left
        // out.
        Output::Members(members) => {
            out.push(b'{');
            let mut is_first = true;
            for (name, expr) in members {
                let Some(member) = expr.eval(cx, scope)? else {
                    continue;
                };
                if !is_first {
                    out.push(b',');
                }
                is_first = false;
                write_string(name, out);
                out.push(b':');
                let value_start = out.len();
                value(&member, out)?;
                cx.count_bytes(out.len() - value_start)?;
            }
            out.push(b'}');
            Ok(true)
        }
    }
}

/// Appends a value.
///
/// # Errors
/// [`QueryError::NonFinite`] if the value contains NaN or an infinity, which JSON cannot express;
/// [`QueryError::Memory`] if the row becomes too large.
pub(crate) fn value(value: &Json, out: &mut Vec<u8>) -> Result<(), QueryError> {
    if !is_finite(value) {
        return Err(QueryError::NonFinite);
    }
    write_json(value, out);
    if out.len() > MAX_ROW_BYTES {
        return Err(QueryError::Memory(format!(
            "A row of the query has more than {MAX_ROW_BYTES} bytes."
        )));
    }
    Ok(())
}

/// Returns true if every number in a value is finite.
fn is_finite(value: &Json) -> bool {
    match value {
        Json::Number(n) => n.is_finite(),
        Json::Array(elements) => elements.iter().all(is_finite),
        Json::Object(members) => members.iter().all(|(_, v)| is_finite(v)),
        _ => true,
    }
}
