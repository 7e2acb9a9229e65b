//! Rows as JSON text.
//!
//! Promises: the numbers of a whole item keep the sender's text, wherever in a row the item stands,
//! because clients that merge ask for the items of `SELECT * ... ORDER BY` as a member. All other
//! numbers have their shortest form: `SELECT VALUE c.n` gives `1` for `1.0`.

use super::frame::{Context, Scope};
use crate::bind::Mapping;
use crate::bound::{Block, Expr, Output};
use crate::error::QueryError;
use orrery_model::json::{Json, write_json, write_shortest, write_string};

/// Largest row in bytes: four times the largest page of the service.
const MAX_ROW_BYTES: usize = 1 << 24;

/// The frames of a query's output that hold the whole item.
pub(crate) struct ItemSlots(Vec<bool>);

impl ItemSlots {
    /// Finds the frames of a block, whose mappings are `frames`, from the item to the last source.
    pub(crate) fn of(block: &Block, frames: &[Mapping]) -> Self {
        // The output of a grouping sees the group in place of the item and the sources.
        if !block.reads_container || block.grouping.is_some() {
            return ItemSlots(Vec::new());
        }
        ItemSlots(frames.iter().rev().map(Mapping::is_root).collect())
    }

    fn is_item(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Slot(up) if self.0.get(*up).copied().unwrap_or(false))
    }

    /// Returns true if an expression is the item, or a constructor around it.
    fn is_around_item(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Slot(_) => self.is_item(expr),
            Expr::Array(elements) => elements.iter().any(|e| self.is_around_item(e)),
            Expr::Object(members) => members.iter().any(|(_, e)| self.is_around_item(e)),
            _ => false,
        }
    }

    /// Appends the value of an expression.
    fn write(&self, expr: &Expr, value: &Json, out: &mut Vec<u8>) {
        match (expr, value) {
            (Expr::Slot(_), _) if self.is_item(expr) => write_json(value, out),
            (Expr::Object(exprs), Json::Object(_)) if self.is_around_item(expr) => {
                self.write_members(exprs, value, out);
            }
            // Undefined elements are left out of the value. Without them, the expressions cannot be
            // told apart.
            (Expr::Array(exprs), Json::Array(elements))
                if exprs.len() == elements.len() && self.is_around_item(expr) =>
            {
                out.push(b'[');
                for (i, (expr, element)) in exprs.iter().zip(elements).enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    self.write(expr, element, out);
                }
                out.push(b']');
            }
            _ => write_shortest(value, out),
        }
    }

    /// Appends an object, whose members are the values of the expressions of the same names.
    fn write_members(&self, exprs: &[(String, Expr)], value: &Json, out: &mut Vec<u8>) {
        let members = value
            .as_object()
            .into_iter()
            .flat_map(|members| members.iter());
        out.push(b'{');
        for (i, (name, member)) in members.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            write_string(name, out);
            out.push(b':');
            match exprs.iter().find(|(of, _)| of == name) {
                Some((_, expr)) => self.write(expr, member, out),
                None => write_shortest(member, out),
            }
        }
        out.push(b'}');
    }
}

/// Appends the row of a scope. Returns false if its value is undefined; then there is no row.
///
/// # Errors
/// Those of the evaluation and of [`checked`].
pub(crate) fn row(
    output: &Output,
    items: &ItemSlots,
    cx: &mut Context<'_>,
    scope: &Scope<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, QueryError> {
    let lap = cx.writes.begin();
    let is_defined = evaluated_row(output, items, cx, scope, out)?;
    cx.writes.end(lap, 0);
    Ok(is_defined)
}

/// Evaluates and appends a row, as [`row`] does.
fn evaluated_row(
    output: &Output,
    items: &ItemSlots,
    cx: &mut Context<'_>,
    scope: &Scope<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, QueryError> {
    match output {
        Output::Value(expr) => {
            let Some(row) = expr.eval(cx, scope)? else {
                return Ok(false);
            };
            checked(&row, out, |out| items.write(expr, &row, out))?;
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
                checked(&member, out, |out| items.write(expr, &member, out))?;
                cx.count_bytes(out.len() - value_start)?;
            }
            out.push(b'}');
            Ok(true)
        }
    }
}

/// Appends a row whose value is known.
///
/// # Errors
/// Those of [`checked`].
pub(crate) fn value(
    output: &Output,
    items: &ItemSlots,
    value: &Json,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    checked(value, out, |out| match output {
        Output::Value(expr) => items.write(expr, value, out),
        Output::Members(members) => items.write_members(members, value, out),
    })
}

/// Appends a value by `write`.
///
/// # Errors
/// [`QueryError::NonFinite`] if the value contains NaN or an infinity, which JSON cannot express;
/// [`QueryError::Memory`] if the row becomes too large.
fn checked(
    value: &Json,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<(), QueryError> {
    if !is_finite(value) {
        return Err(QueryError::NonFinite);
    }
    write(out);
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
