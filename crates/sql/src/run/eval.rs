//! Evaluates an expression in a chain of frames.
//!
//! Values are borrowed from the item or the query wherever they are only looked at; only what operators and functions
//! make is owned.

use super::frame::{Context, Scope};
use crate::bound::{Expr, LikePattern, Step};
use crate::error::QueryError;
use crate::functions::Implementation;
use crate::functions::like::Pattern;
use crate::syntax::ast::{SubqueryKind, UnaryOp};
use crate::value::{Value, binary, compared, digest, equal, number, to_i32, weight};
use orrery_model::json::{Json, Object};
use std::borrow::Cow;

type Evaluated<'s> = Result<Value<'s>, QueryError>;

impl Expr {
    /// Whether the value is the boolean true.
    pub fn holds<'s>(
        &'s self,
        cx: &mut Context<'_>,
        scope: &'s Scope<'s>,
    ) -> Result<bool, QueryError> {
        let made = cx.held_bytes;
        let holds = self.truth(cx, scope)? == Some(true);
        cx.held_bytes = made;
        Ok(holds)
    }

    /// The value as a truth value: anything but a boolean is undefined.
    fn truth<'s>(
        &'s self,
        cx: &mut Context<'_>,
        scope: &'s Scope<'s>,
    ) -> Result<Option<bool>, QueryError> {
        cx.count_iteration()?;
        match self {
            Expr::And(parts) => junction(parts, false, cx, scope),
            Expr::Or(parts) => junction(parts, true, cx, scope),
            Expr::Unary(UnaryOp::Not, operand) => Ok(operand.truth(cx, scope)?.map(|b| !b)),
            Expr::Compare(op, both) => {
                let (a, b) = (both[0].eval(cx, scope)?, both[1].eval(cx, scope)?);
                match (a.as_deref(), b.as_deref()) {
                    (Some(Json::String(a)), Some(Json::String(b))) => {
                        cx.count_bytes(a.len().min(b.len()))?
                    }
                    (
                        Some(a @ (Json::Array(_) | Json::Object(_))),
                        Some(Json::Array(_) | Json::Object(_)),
                    ) => cx.count_value_read(a)?,
                    _ => {}
                }
                Ok(compared(*op, a.as_deref(), b.as_deref()))
            }
            Expr::In { value, list } => {
                let value = value.eval(cx, scope)?;
                let mut unknown = false;
                for element in list {
                    cx.count_iteration()?;
                    match equal(value.as_deref(), element.eval(cx, scope)?.as_deref()) {
                        Some(true) => return Ok(Some(true)),
                        Some(false) => {}
                        None => unknown = true,
                    }
                }
                Ok(if unknown { None } else { Some(false) })
            }
            Expr::InSet { value, digests, .. } => {
                let Some(value) = value.eval(cx, scope)? else {
                    return Ok(None);
                };
                cx.count_value_read(&value)?;
                Ok(Some(digests.contains(&digest(Some(&value)))))
            }
            Expr::Like { value, pattern } => like(value, pattern, cx, scope),
            _ => Ok(self.eval(cx, scope)?.and_then(|v| v.as_bool())),
        }
    }

    /// The value.
    pub fn eval<'s>(&'s self, cx: &mut Context<'_>, scope: &'s Scope<'s>) -> Evaluated<'s> {
        Ok(match self {
            Expr::Constant(value) => value.as_ref().map(Cow::Borrowed),
            Expr::Slot(up) => scope.value(*up).map(Cow::Borrowed),
            Expr::GroupKey { up, index } => scope.key(*up, *index).map(Cow::Borrowed),
            Expr::Aggregate { up, index } => scope.aggregate(*up, *index).map(Cow::Borrowed),
            Expr::Path { base, steps } => return path(base, steps, cx, scope),
            Expr::And(_)
            | Expr::Or(_)
            | Expr::Compare(..)
            | Expr::In { .. }
            | Expr::InSet { .. }
            | Expr::Like { .. } => self.truth(cx, scope)?.map(bool_value),
            Expr::Unary(op, operand) => unary(*op, operand, cx, scope)?.map(Cow::Owned),
            Expr::Chain { first, rest } => {
                let made = cx.held_bytes;
                let mut left = first.eval(cx, scope)?;
                for (op, operand) in rest {
                    cx.count_iteration()?;
                    let right = operand.eval(cx, scope)?;
                    left = binary(*op, left.as_deref(), right.as_deref()).map(Cow::Owned);
                    if let Some(text) = left.as_deref().filter(|v| matches!(v, Json::String(_))) {
                        cx.count_value_made(text)?;
                        cx.held_bytes = made.saturating_add(weight(text));
                    }
                }
                left
            }
            Expr::Coalesce(parts) => {
                for part in parts {
                    let value = part.eval(cx, scope)?;
                    if value.is_some() {
                        return Ok(value);
                    }
                }
                None
            }
            Expr::Conditional(parts) => {
                let [condition, yes, no] = parts.as_ref();
                let chosen = if condition.holds(cx, scope)? { yes } else { no };
                return chosen.eval(cx, scope);
            }
            Expr::Choose(parts) => {
                let index = parts[0]
                    .eval(cx, scope)?
                    .and_then(|v| v.as_f64())
                    .filter(|n| *n >= 1.0);
                match index.and_then(|n| parts.get(n as usize)) {
                    Some(chosen) => return chosen.eval(cx, scope),
                    None => None,
                }
            }
            Expr::Array(elements) => {
                let mut values = Vec::with_capacity(elements.len());
                for element in elements {
                    let made = cx.held_bytes;
                    if let Some(value) = element.eval(cx, scope)? {
                        cx.held_bytes = made;
                        cx.count_value_made(&value)?;
                        values.push(value.into_owned());
                    }
                }
                Some(Cow::Owned(Json::Array(values)))
            }
            Expr::Object(members) => {
                let mut object = Object::new();
                for (name, member) in members {
                    let made = cx.held_bytes;
                    if let Some(value) = member.eval(cx, scope)? {
                        cx.held_bytes = made.saturating_add(name.len());
                        cx.count_value_made(&value)?;
                        object.push_new(name.as_str(), value.into_owned());
                    }
                }
                Some(Cow::Owned(Json::Object(object)))
            }
            Expr::Let { value, body } => {
                let made = cx.held_bytes;
                let value = value.eval(cx, scope)?;
                let inner = scope.with(value.as_deref());
                let result = body.eval(cx, &inner)?;
                if let Some(result) = &result {
                    cx.count_value_made(result)?;
                    cx.held_bytes = made.saturating_add(weight(result));
                }
                result.map(|v| Cow::Owned(v.into_owned()))
            }
            Expr::Call { .. } | Expr::Udf { .. } | Expr::Subquery(..) => {
                return self.eval_call(cx, scope);
            }
        })
    }

    fn eval_call<'s>(&'s self, cx: &mut Context<'_>, scope: &'s Scope<'s>) -> Evaluated<'s> {
        match self {
            Expr::Call {
                function,
                arguments,
            } => {
                // Nearly all functions take three arguments or fewer: no allocation for those.
                let mut few: [Value<'s>; 3] = [const { None }; 3];
                let mut many = Vec::new();
                let values = if arguments.len() <= few.len() {
                    &mut few[..arguments.len()]
                } else {
                    many.resize_with(arguments.len(), || None);
                    &mut many[..]
                };
                let before = cx.held_bytes;
                for (value, argument) in values.iter_mut().zip(arguments) {
                    *value = argument.eval(cx, scope)?;
                    // Nearly all functions go through all of their strings and lists.
                    match value.as_deref() {
                        Some(Json::String(text)) => cx.count_bytes(text.len())?,
                        Some(Json::Array(elements)) => {
                            cx.count_iterations(elements.len() as u64 / 8)?
                        }
                        _ => {}
                    }
                }
                cx.count_iteration()?;
                let values = crate::functions::Arguments(values);
                let made = match function.run {
                    Implementation::NonStrict(run) => run(values),
                    Implementation::Metered(run) => run(cx, values)?,
                    _ if values.iter().any(|v| v.is_none()) => None,
                    Implementation::Strict(run) | Implementation::Vector(run) => run(values),
                    Implementation::Context(run) => run(cx, values),
                    Implementation::FullText(run) => run(cx, values)?,
                    // The binder turns all others into expressions of their own, or refuses them.
                    _ => None,
                };
                if let Some(made) = &made {
                    cx.count_value_made(made)?;
                    cx.held_bytes = before.saturating_add(weight(made));
                }
                Ok(made.map(Cow::Owned))
            }
            Expr::Udf { name, arguments } => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(argument.eval(cx, scope)?.map(Cow::into_owned));
                }
                cx.work.udf_calls += 1;
                Ok(cx.functions.call(name, &values)?.map(Cow::Owned))
            }
            Expr::Subquery(kind, block) => {
                subquery(*kind, block, cx, scope).map(|v| v.map(Cow::Owned))
            }
            _ => Ok(None),
        }
    }
}

fn bool_value<'a>(value: bool) -> Cow<'a, Json> {
    Cow::Owned(Json::Bool(value))
}

/// AND (`decisive` false) or OR (`decisive` true) in three-valued logic.
fn junction<'s>(
    parts: &'s [Expr],
    decisive: bool,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Result<Option<bool>, QueryError> {
    let mut unknown = false;
    for part in parts {
        match part.truth(cx, scope)? {
            Some(value) if value == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(!decisive) })
}

fn like<'s>(
    value: &'s Expr,
    pattern: &'s LikePattern,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Result<Option<bool>, QueryError> {
    let value = value.eval(cx, scope)?;
    let Some(text) = value.as_deref().and_then(Json::as_str) else {
        return Ok(None);
    };
    match pattern {
        LikePattern::Constant(pattern) => pattern
            .matches_within(text, &mut |steps| cx.count_iterations(steps))
            .map(Some),
        LikePattern::Dynamic { pattern, escape } => {
            let pattern = pattern.eval(cx, scope)?;
            let Some(pattern) = pattern.as_deref().and_then(Json::as_str) else {
                return Ok(None);
            };
            cx.count_bytes(pattern.len())?;
            Pattern::new(pattern, *escape)
                .matches_within(text, &mut |steps| cx.count_iterations(steps))
                .map(Some)
        }
    }
}

fn unary<'s>(
    op: UnaryOp,
    operand: &'s Expr,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Result<Option<Json>, QueryError> {
    if op == UnaryOp::Not {
        return Ok(operand.truth(cx, scope)?.map(|b| Json::Bool(!b)));
    }
    let value = operand.eval(cx, scope)?;
    let Some(double) = value.as_deref().and_then(Json::as_f64) else {
        return Ok(None);
    };
    Ok(match op {
        UnaryOp::Plus => value.map(Cow::into_owned),
        // Minus the least integer is no integer; all others keep their exact digits.
        UnaryOp::Minus => match value.as_deref() {
            Some(Json::Number(n)) => Some(
                n.exact_integer()
                    .and_then(i64::checked_neg)
                    .map_or_else(|| number(-double), Json::from),
            ),
            _ => None,
        },
        _ => Some(number(f64::from(!to_i32(double)))),
    })
}

fn path<'s>(
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
            Step::Name(name) => member(value, name),
            Step::Index(index) => element(value, *index),
            Step::Nothing => None,
            Step::Dynamic(expr) => match expr.eval(cx, scope)?.as_deref() {
                Some(Json::String(name)) => member(value, name),
                Some(Json::Number(n)) => n
                    .as_i64()
                    .and_then(|i| usize::try_from(i).ok())
                    .and_then(|i| element(value, i)),
                _ => None,
            },
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
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

fn subquery<'s>(
    kind: SubqueryKind,
    block: &'s crate::bound::Block,
    cx: &mut Context<'_>,
    scope: &'s Scope<'s>,
) -> Result<Option<Json>, QueryError> {
    let before = cx.held_bytes;
    let mut list = Vec::new();
    let mut all = true;
    block.each(cx, scope, &mut |cx, value| {
        match kind {
            // For these the first value settles it.
            SubqueryKind::Exists | SubqueryKind::Scalar | SubqueryKind::First => {
                list.push(value.into_owned());
                return Ok(false);
            }
            SubqueryKind::Array => {
                cx.count_value_made(&value)?;
                list.push(value.into_owned());
            }
            SubqueryKind::Last => list = vec![value.into_owned()],
            SubqueryKind::All => all &= value.as_bool() == Some(true),
        }
        Ok(all)
    })?;
    // What is left of all that was made is the list.
    if kind != SubqueryKind::Array {
        cx.held_bytes = before.saturating_add(list.iter().map(weight).sum());
    }
    Ok(match kind {
        SubqueryKind::Exists => Some(Json::Bool(!list.is_empty())),
        SubqueryKind::All => Some(Json::Bool(all)),
        SubqueryKind::Array => Some(Json::Array(list)),
        SubqueryKind::Scalar | SubqueryKind::First | SubqueryKind::Last => list.pop(),
    })
}
