//! Folding of constant expressions: an expression whose operands are constants is computed once,
//! when the query is compiled.

use crate::bound::Expr;
use crate::error::QueryError;
use crate::functions::Implementation;
use crate::run::frame::{Context, Scope};
use crate::seams::{Functions, Work};
use crate::value::weight;
use orrery_model::json::Json;
use std::borrow::Cow;

/// Replaces an expression by its value if all of its operands are constants. `bytes_left` is the
/// memory that folded values may still take; it decreases by the size of the value. When a value
/// does not fit, folding ends for the whole query, and the remaining expressions are computed for
/// each row, within the memory limit of a row.
pub(super) fn folded(expr: Expr, bytes_left: &mut usize) -> Expr {
    if *bytes_left == 0 || !is_foldable(&expr) {
        return expr;
    }
    let mut work = Work::default();
    let mut functions = NoFunctions;
    let mut is_never_expired = || false;
    let mut context = Context::new(
        &mut functions,
        &mut work,
        &mut is_never_expired,
        *bytes_left,
    );
    let scope = Scope::root(None);
    let value = expr
        .eval(&mut context, &scope)
        .map(|value| value.map(Cow::into_owned));
    let bytes_of = |value: &Option<Json>| value.as_ref().map_or(0, weight);
    let value = match value {
        Ok(value) if bytes_of(&value) <= *bytes_left => value,
        _ => {
            *bytes_left = 0;
            return expr;
        }
    };
    // Other scalars are smaller than the expressions that they replace.
    if matches!(
        value,
        Some(Json::String(_) | Json::Array(_) | Json::Object(_))
    ) {
        *bytes_left -= bytes_of(&value);
    }
    Expr::Constant(value)
}

/// Returns true if the value of an expression depends on nothing but constant operands.
fn is_foldable(expr: &Expr) -> bool {
    let are_constant = |list: &[Expr]| list.iter().all(Expr::is_constant);
    match expr {
        Expr::Path { base, .. } => base.is_constant(),
        Expr::Call {
            function,
            arguments,
        } => {
            // The other implementations depend on the time, the page or the container.
            let is_pure = matches!(
                function.run,
                Implementation::Strict(_)
                    | Implementation::NonStrict(_)
                    | Implementation::Vector(_)
            );
            is_pure && are_constant(arguments)
        }
        Expr::Unary(_, operand) => operand.is_constant(),
        Expr::And(list) | Expr::Or(list) | Expr::Coalesce(list) | Expr::Array(list) => {
            are_constant(list)
        }
        Expr::Compare(_, both) => are_constant(both.as_slice()),
        Expr::Conditional(parts) => are_constant(parts.as_slice()),
        Expr::Chain { first, rest } => {
            first.is_constant() && rest.iter().all(|(_, e)| e.is_constant())
        }
        Expr::In { value, list } => value.is_constant() && are_constant(list),
        Expr::Object(members) => members.iter().all(|(_, e)| e.is_constant()),
        _ => false,
    }
}

/// The user-defined functions of a folded expression: none, since such calls are not folded.
struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&mut self, name: &str, _: &[Option<Json>]) -> Result<Option<Json>, QueryError> {
        Err(QueryError::Udf {
            number: None,
            message: format!("udf.{name} is not available here"),
        })
    }
}
