//! Evaluation of an expression for one row: the frames of a [`Scope`] in, a value out.
//!
//! `None` is undefined, the value of a property that does not exist. Every operator states below
//! what it does with undefined; the rules of comparison and arithmetic are in `value.rs`.
//!
//! Values are borrowed from the item or the query where possible. Only values that operators and
//! functions compute are owned, and these count against the memory limit of the page: each arm that
//! makes a value adds it to [`Context::held_bytes`], and each arm that drops one sets the counter
//! back. Loops and large values count towards the time limit.
//!
//! The binder has resolved names and checked the number of arguments, so evaluation fails only if a
//! limit is exceeded or a user-defined function fails. A value of a wrong type is no error: the
//! result is undefined.

use super::frame::{Context, Scope};
use crate::bound::{Block, Expr, LikePattern, Step, UdfCall};
use crate::error::QueryError;
use crate::functions::like::Pattern;
use crate::functions::{Arguments, Function, Implementation};
use crate::syntax::ast::{BinaryOp, SubqueryKind, UnaryOp};
use crate::value::{Value, binary, compared, digest, equal, number, sort_value, to_i32, weight};
use orrery_model::json::{Json, Object};
use std::borrow::Cow;

type Evaluated<'s> = Result<Value<'s>, QueryError>;

/// A truth value of three-valued logic; `None` is undefined.
type Truth = Result<Option<bool>, QueryError>;

impl Expr {
    /// Returns true if the value is the boolean true. WHERE keeps a row only then: false, undefined
    /// and values of other types drop the row.
    pub(crate) fn is_true<'s>(
        &'s self,
        cx: &mut Context<'_>,
        scope: &'s Scope<'s>,
    ) -> Result<bool, QueryError> {
        cx.releasing(|cx| Ok(self.eval_truth(cx, scope)? == Some(true)))
    }

    /// Evaluates the expression as a truth value. Values other than booleans are undefined.
    fn eval_truth<'s>(&'s self, cx: &mut Context<'_>, scope: &'s Scope<'s>) -> Truth {
        cx.count_iteration()?;
        match self {
            // AND: one false operand makes the result false, even beside an undefined one.
            Expr::And(operands) => eval_junction(operands, false, cx, scope),

            // OR: one true operand makes the result true, even beside an undefined one.
            Expr::Or(operands) => eval_junction(operands, true, cx, scope),

            // NOT: the negation of undefined, or of a value that is no boolean, is undefined.
            Expr::Unary(UnaryOp::Not, operand) => {
                Ok(operand.eval_truth(cx, scope)?.map(|truth| !truth))
            }

            // =, !=, <, <=, >, >=: undefined if an operand is undefined. <, <=, > and >= are also
            // undefined between values of two types and between arrays or objects.
            Expr::Compare(op, operands) => {
                let left = operands[0].eval(cx, scope)?;
                let right = operands[1].eval(cx, scope)?;
                count_comparison(cx, left.as_deref(), right.as_deref())?;
                Ok(compared(*op, left.as_deref(), right.as_deref()))
            }

            // IN: true if an element equals the value; otherwise undefined if a comparison was
            // undefined, else false.
            Expr::In { value, list } => {
                let value = value.eval(cx, scope)?;
                let mut has_undefined = false;
                for element in list {
                    cx.count_iteration()?;
                    let element = element.eval(cx, scope)?;
                    match equal(value.as_deref(), element.as_deref()) {
                        Some(true) => return Ok(Some(true)),
                        Some(false) => {}
                        None => has_undefined = true,
                    }
                }
                Ok(if has_undefined { None } else { Some(false) })
            }

            // IN with a list of constants: one look-up by digest. The list holds no undefined
            // value, so only an undefined operand makes the result undefined.
            Expr::InSet { value, digests, .. } => {
                let Some(value) = value.eval(cx, scope)? else {
                    return Ok(None);
                };
                cx.count_value_read(&value)?;
                Ok(Some(digests.contains(&digest(Some(&value)))))
            }

            // LIKE: undefined unless value and pattern are strings.
            Expr::Like { value, pattern } => eval_like(value, pattern, cx, scope),

            // Every other expression has a value, which may be a boolean.
            _ => Ok(self.eval(cx, scope)?.and_then(|value| value.as_bool())),
        }
    }

    /// Evaluates the expression.
    pub(crate) fn eval<'s>(&'s self, cx: &mut Context<'_>, scope: &'s Scope<'s>) -> Evaluated<'s> {
        match self {
            // A literal, a parameter, or an expression that the compiler evaluated.
            Expr::Constant(value) => Ok(value.as_ref().map(Cow::Borrowed)),

            // An alias of FROM or JOIN, or a variable of LET.
            Expr::Slot(up) => Ok(scope.value(*up).map(Cow::Borrowed)),

            // An expression of GROUP BY, read from the group.
            Expr::GroupKey { up, index } => Ok(scope.group_key(*up, *index).map(Cow::Borrowed)),

            // An aggregate, computed before the group's row is evaluated.
            Expr::Aggregate { up, index } => Ok(scope.aggregate(*up, *index).map(Cow::Borrowed)),

            // A path such as c.address.city or c.tags[0].
            Expr::Path { base, steps } => eval_path(base, steps, cx, scope),

            // Predicates have a rule for undefined operands, stated in `eval_truth`.
            Expr::And(_)
            | Expr::Or(_)
            | Expr::Compare(..)
            | Expr::In { .. }
            | Expr::InSet { .. }
            | Expr::Like { .. } => {
                let truth = self.eval_truth(cx, scope)?;
                Ok(truth.map(|truth| Cow::Owned(Json::Bool(truth))))
            }

            // +, -, ~ and NOT before an operand.
            Expr::Unary(op, operand) => Ok(eval_unary(*op, operand, cx, scope)?.map(Cow::Owned)),

            // Arithmetic, bit operators, || and repeated comparisons, from left to right.
            Expr::Chain { first, rest } => eval_chain(first, rest, cx, scope),

            // a ?? b: the first operand that is defined. Null is defined.
            Expr::Coalesce(operands) => eval_coalesce(operands, cx, scope),

            // IIF(condition, a, b) and condition ? a : b.
            Expr::Conditional(parts) => eval_conditional(parts, cx, scope),

            // CHOOSE(index, a, b, ...): counts from 1.
            Expr::Choose(parts) => eval_choose(parts, cx, scope),

            // [a, b]: undefined elements are left out.
            Expr::Array(elements) => eval_array(elements, cx, scope),

            // {"a": x}: members with an undefined value are left out.
            Expr::Object(members) => eval_object(members, cx, scope),

            Expr::SortValue(operand) => Ok(operand.eval(cx, scope)?.map(sort_value)),

            // LET name = value IN body.
            Expr::Let { value, body } => eval_let(value, body, cx, scope),

            // A built-in function.
            Expr::Call {
                function,
                arguments,
            } => eval_call(function, arguments, cx, scope),

            // udf.name(...): undefined arguments are passed on as undefined.
            Expr::Udf(call) => eval_udf(call, cx, scope),

            // (SELECT ...), EXISTS, ARRAY, ALL, FIRST and LAST of a subquery.
            Expr::Subquery(kind, block) => {
                Ok(eval_subquery(*kind, block, cx, scope)?.map(Cow::Owned))
            }
        }
    }
}

/// Counts the bytes that a comparison of two values reads.
fn count_comparison(
    cx: &mut Context<'_>,
    left: Option<&Json>,
    right: Option<&Json>,
) -> Result<(), QueryError> {
    match (left, right) {
        (Some(Json::String(left)), Some(Json::String(right))) => {
            cx.count_bytes(left.len().min(right.len()))
        }
        (
            Some(left @ (Json::Array(_) | Json::Object(_))),
            Some(Json::Array(_) | Json::Object(_)),
        ) => cx.count_value_read(left),
        _ => Ok(()),
    }
}

/// Evaluates AND (`decisive` false) or OR (`decisive` true). The first operand that equals
/// `decisive` decides the result, and the operands after it are not evaluated. Otherwise an
/// undefined operand makes the result undefined.
fn eval_junction<'s>(
    operands: &'s [Expr],
    decisive: bool,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Truth {
    let mut has_undefined = false;
    for operand in operands {
        match operand.eval_truth(cx, scope)? {
            Some(truth) if truth == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => has_undefined = true,
        }
    }
    Ok(if has_undefined { None } else { Some(!decisive) })
}

fn eval_like<'s>(
    value: &'s Expr,
    pattern: &'s LikePattern,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Truth {
    let value = value.eval(cx, scope)?;
    let Some(text) = value.as_deref().and_then(Json::as_str) else {
        return Ok(None);
    };
    let is_match = match pattern {
        LikePattern::Constant(pattern) => {
            pattern.matches_within(text, &mut |n| cx.count_iterations(n))?
        }
        // A pattern that depends on the row is parsed for each row.
        LikePattern::Dynamic { pattern, escape } => {
            let pattern = pattern.eval(cx, scope)?;
            let Some(pattern) = pattern.as_deref().and_then(Json::as_str) else {
                return Ok(None);
            };
            cx.count_bytes(pattern.len())?;
            Pattern::new(pattern, *escape).matches_within(text, &mut |n| cx.count_iterations(n))?
        }
    };
    Ok(Some(is_match))
}

/// Evaluates a unary operator. Arithmetic operators are undefined for values that are no numbers.
fn eval_unary<'s>(
    op: UnaryOp,
    operand: &'s Expr,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Result<Option<Json>, QueryError> {
    if op == UnaryOp::Not {
        return Ok(operand
            .eval_truth(cx, scope)?
            .map(|truth| Json::Bool(!truth)));
    }
    let Some(value) = operand.eval(cx, scope)? else {
        return Ok(None);
    };
    let Json::Number(operand_number) = value.as_ref() else {
        return Ok(None);
    };
    Ok(Some(match op {
        // The number keeps its text.
        UnaryOp::Plus => value.into_owned(),

        // Integers keep their exact digits. The least 64-bit integer has no positive counterpart
        // and becomes a double.
        UnaryOp::Minus => match operand_number.exact_integer().and_then(i64::checked_neg) {
            Some(negated) => Json::from(negated),
            None => number(-operand_number.as_f64()),
        },

        // ~ works on 32-bit integers, as in JavaScript.
        _ => number(f64::from(!to_i32(operand_number.as_f64()))),
    }))
}

/// Evaluates a chain of binary operators of one precedence level from left to right.
fn eval_chain<'s>(
    first: &'s Expr,
    rest: &'s [(BinaryOp, Expr)],
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    let held_before = cx.held_bytes;
    let mut left = first.eval(cx, scope)?;
    for (op, operand) in rest {
        cx.count_iteration()?;
        let right = operand.eval(cx, scope)?;
        left = binary(*op, left.as_deref(), right.as_deref()).map(Cow::Owned);
        // || makes strings that can grow; of the intermediate ones only the last is held.
        if let Some(text @ Json::String(_)) = left.as_deref() {
            cx.count_value_made(text)?;
            cx.held_bytes = held_before.saturating_add(weight(text));
        }
    }
    Ok(left)
}

fn eval_coalesce<'s>(
    operands: &'s [Expr],
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    for operand in operands {
        let value = operand.eval(cx, scope)?;
        if value.is_some() {
            return Ok(value);
        }
    }
    Ok(None)
}

/// Evaluates CHOOSE. The fraction of the index is dropped, and an index beyond the list is
/// undefined. `parts[0]` is the index, so that `parts[1]` is the first choice.
fn eval_choose<'s>(parts: &'s [Expr], cx: &mut Context<'_>, scope: &'s Scope<'s>) -> Evaluated<'s> {
    let index = parts[0].eval(cx, scope)?;
    let index = match index.and_then(|index| index.as_f64()) {
        Some(index) if index >= 1.0 => index as usize,
        _ => return Ok(None),
    };
    match parts.get(index) {
        Some(choice) => choice.eval(cx, scope),
        None => Ok(None),
    }
}

/// Follows a path from a value. The result is undefined if a step finds nothing.
fn eval_path<'s>(
    base: &'s Expr,
    steps: &'s [Step],
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    let Some(mut value) = base.eval(cx, scope)? else {
        return Ok(None);
    };
    for step in steps {
        let next = match step {
            // .name or ["name"] selects a member of an object.
            Step::Name(name) => member(value, name),
            // [0] selects an element of an array.
            Step::Index(index) => element(value, *index),
            // A negative or fractional constant, or one of another type, selects nothing.
            Step::Nothing => None,
        };
        let Some(next) = next else {
            return Ok(None);
        };
        value = next;
    }
    Ok(Some(value))
}

fn member<'s>(value: Cow<'s, Json>, name: &str) -> Value<'s> {
    match value {
        Cow::Borrowed(json) => json.get(name).map(Cow::Borrowed),
        Cow::Owned(mut json) => json.as_object_mut()?.remove(name).map(Cow::Owned),
    }
}

fn element(value: Cow<'_, Json>, index: usize) -> Value<'_> {
    match value {
        Cow::Borrowed(json) => json.as_array()?.get(index).map(Cow::Borrowed),
        Cow::Owned(Json::Array(mut elements)) if index < elements.len() => {
            Some(Cow::Owned(elements.swap_remove(index)))
        }
        Cow::Owned(_) => None,
    }
}

fn eval_array<'s>(
    elements: &'s [Expr],
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    let mut values = Vec::with_capacity(elements.len());
    for element in elements {
        // The copy in the array replaces whatever the element held while it was evaluated.
        let Some(value) = cx.releasing(|cx| element.eval(cx, scope))? else {
            continue;
        };
        cx.count_value_made(&value)?;
        values.push(value.into_owned());
    }
    Ok(Some(Cow::Owned(Json::Array(values))))
}

/// Evaluates an object literal, or the SELECT list of a row that is needed as a value.
pub(super) fn eval_object<'s>(
    members: &'s [(String, Expr)],
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    let mut object = Object::new();
    for (name, member) in members {
        let Some(value) = cx.releasing(|cx| member.eval(cx, scope))? else {
            continue;
        };
        cx.held_bytes = cx.held_bytes.saturating_add(name.len());
        cx.count_value_made(&value)?;
        object.push_new(name.as_str(), value.into_owned());
    }
    Ok(Some(Cow::Owned(Json::Object(object))))
}

/// Evaluates a conditional. A condition other than true, undefined included, chooses the last
/// branch. The other branch is not evaluated.
fn eval_conditional<'s>(
    [condition, if_true, if_false]: &'s [Expr; 3],
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    if condition.is_true(cx, scope)? {
        if_true.eval(cx, scope)
    } else {
        if_false.eval(cx, scope)
    }
}

/// Evaluates LET: the value once, then the body with the value in one more frame.
fn eval_let<'s>(
    value: &'s Expr,
    body: &'s Expr,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    let held_before = cx.held_bytes;
    let value = value.eval(cx, scope)?;
    let inner = scope.with_value(value.as_deref());
    let Some(result) = body.eval(cx, &inner)? else {
        return Ok(None);
    };
    // The frame ends here, so the result is copied out of it and all else is dropped.
    cx.count_value_made(&result)?;
    cx.held_bytes = held_before.saturating_add(weight(&result));
    Ok(Some(Cow::Owned(result.into_owned())))
}

/// Calls a built-in function.
fn eval_call<'s>(
    function: &Function,
    arguments: &'s [Expr],
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Evaluated<'s> {
    // Nearly all functions take at most three arguments; these need no allocation.
    let mut few: [Value<'s>; 3] = [const { None }; 3];
    let mut many = Vec::new();
    let values = if arguments.len() <= few.len() {
        &mut few[..arguments.len()]
    } else {
        many.resize_with(arguments.len(), || None);
        &mut many[..]
    };

    let held_before = cx.held_bytes;
    for (value, argument) in values.iter_mut().zip(arguments) {
        *value = argument.eval(cx, scope)?;
        // Nearly all functions read all of their strings and arrays.
        match value.as_deref() {
            Some(Json::String(text)) => cx.count_bytes(text.len())?,
            Some(Json::Array(elements)) => cx.count_iterations(elements.len() as u64 / 8)?,
            _ => {}
        }
    }
    cx.count_iteration()?;

    // An undefined argument makes the call undefined, except for functions that handle it.
    let is_defined = values.iter().all(|value| value.is_some());
    let values = Arguments(values);
    let result = match function.run {
        Implementation::NonStrict(run) => run(values),
        Implementation::Metered(run) => run(cx, values)?,
        _ if !is_defined => None,
        Implementation::Strict(run) | Implementation::Vector(run) => run(values),
        Implementation::Context(run) => run(cx, values),
        Implementation::FullText(run) => run(cx, values)?,
        // The binder turns all others into expressions of their own, or refuses them.
        _ => None,
    };

    // The arguments are dropped here; only the result is held.
    if let Some(result) = &result {
        cx.count_value_made(result)?;
        cx.held_bytes = held_before.saturating_add(weight(result));
    }
    Ok(result.map(Cow::Owned))
}

/// Calls a user-defined function.
fn eval_udf<'s>(call: &'s UdfCall, cx: &mut Context<'_>, scope: &'s Scope<'s>) -> Evaluated<'s> {
    if let Some(error) = &call.missing {
        return Err(QueryError::Compile(vec![error.clone()]));
    }
    let mut values = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        values.push(argument.eval(cx, scope)?.map(Cow::into_owned));
    }
    cx.count_call()?;
    Ok(cx.functions.call(&call.name, &values)?.map(Cow::Owned))
}

/// Runs a subquery for the current row. Rows with an undefined value are no rows.
fn eval_subquery<'s>(
    kind: SubqueryKind,
    block: &'s Block,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Result<Option<Json>, QueryError> {
    let held_before = cx.held_bytes;
    let mut rows = Vec::new();
    let mut all_true = true;
    block.for_each_value(cx, scope, &mut |cx, value| {
        match kind {
            // The first row decides; false ends the subquery.
            SubqueryKind::Exists | SubqueryKind::Scalar | SubqueryKind::First => {
                rows.push(value.into_owned());
                return Ok(false);
            }
            SubqueryKind::Array => {
                cx.count_value_made(&value)?;
                rows.push(value.into_owned());
            }
            SubqueryKind::Last => rows = vec![value.into_owned()],
            // The first row that is not true ends the subquery.
            SubqueryKind::All => all_true &= value.as_bool() == Some(true),
        }
        Ok(all_true)
    })?;

    // Only the kept rows remain in memory. ARRAY has counted each row already.
    if kind != SubqueryKind::Array {
        cx.held_bytes = held_before.saturating_add(rows.iter().map(weight).sum());
    }
    Ok(match kind {
        SubqueryKind::Exists => Some(Json::Bool(!rows.is_empty())),
        SubqueryKind::All => Some(Json::Bool(all_true)),
        SubqueryKind::Array => Some(Json::Array(rows)),
        // Undefined if the subquery has no row.
        SubqueryKind::Scalar | SubqueryKind::First | SubqueryKind::Last => rows.pop(),
    })
}
