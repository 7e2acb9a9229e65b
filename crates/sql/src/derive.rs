//! From WHERE to an index condition.
//!
//! Only "is true" matters to WHERE, and by three-valued logic "NOT e is true" is "e is false"; so there are two
//! readings of every expression, [`Deriver::truth`] with `wanted` true or false, and AND and OR swap between them.
//!
//! A leaf that an index cannot judge widens to [`Condition::All`], never narrows. Paths through arrays say that some
//! element passes, which is weaker than what the tuple at hand says: such terms are never exact.

use crate::bind::{Mapping, Rooted};
use crate::bound::{Expr, Input, LikePattern};
use crate::condition::{Condition, Path, Step, Test, ValueType};
use crate::functions::Function;
use crate::functions::compiled_regex::compile_for_index_scan;
use crate::functions::like::PatternKind;
use crate::functions::strings::{contains, ends_with, lower, starts_with, string_equals};
use crate::syntax::ast::{BinaryOp, SubqueryKind, UnaryOp};
use crate::value::digest;
use orrery_model::json::{Json, compare};
use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

/// The condition of a conjunction of filters, each with the frames it is bound in.
pub(crate) fn derive(
    filters: &[(usize, Expr)],
    frames: &[Mapping],
    base: usize,
) -> (Condition, bool) {
    let parts = filters.iter().map(|(bound, filter)| {
        let visible = &frames[..(base + bound).min(frames.len())];
        Deriver {
            frames: visible.to_vec(),
        }
        .truth(filter, true)
    });
    all_of(parts.collect())
}

/// A condition and whether it says all that the expression says.
type Derived = (Condition, bool);

const ALL: Derived = (Condition::All, false);
const NEVER: Derived = (Condition::Never, true);

struct Deriver {
    frames: Vec<Mapping>,
}

impl Deriver {
    /// What must hold for the expression to be the boolean `wanted`.
    fn truth(&self, expr: &Expr, wanted: bool) -> Derived {
        match expr {
            Expr::Constant(value) => {
                let holds = value.as_ref().and_then(Json::as_bool) == Some(wanted);
                if holds { (Condition::All, true) } else { NEVER }
            }
            Expr::Slot(_) | Expr::Path { .. } => self.term(expr, Test::Equals(Json::Bool(wanted))),
            Expr::Unary(UnaryOp::Not, operand) => self.truth(operand, !wanted),
            Expr::And(parts) | Expr::Or(parts) => {
                let derived = parts.iter().map(|p| self.truth(p, wanted)).collect();
                let conjunction = matches!(expr, Expr::And(_)) == wanted;
                if conjunction {
                    all_of(derived)
                } else {
                    any_of(derived)
                }
            }
            Expr::Compare(op, both) => self.comparison(*op, &both[0], &both[1], wanted),
            Expr::In { value, list } => {
                let values: Option<Vec<&Json>> = list.iter().map(constant).collect();
                match values {
                    Some(values) => self.in_list(value, &values, wanted),
                    // Without its constants, a false IN says nothing; a true one neither.
                    None => ALL,
                }
            }
            Expr::InSet { value, values, .. } => {
                self.in_list(value, &values.iter().collect::<Vec<_>>(), wanted)
            }
            Expr::Like {
                value,
                pattern: LikePattern::Constant(pattern),
            } => match (pattern.kind(), wanted) {
                (PatternKind::Exact(text), true) => {
                    self.term(value, Test::Equals(Json::String(text)))
                }
                (PatternKind::Prefix(prefix), true) => self.term(value, Test::Prefix(prefix)),
                _ => {
                    let pattern = pattern.clone();
                    self.strings(value, move |text| pattern.matches(text) == wanted)
                }
            },
            Expr::Call {
                function,
                arguments,
            } => self.call(function, arguments, wanted),
            Expr::Subquery(SubqueryKind::Exists, block) if wanted => self.exists(block),
            _ => ALL,
        }
    }

    fn comparison(&self, op: BinaryOp, left: &Expr, right: &Expr, wanted: bool) -> Derived {
        if let (Expr::Constant(_), false) = (left, right.is_constant()) {
            return self.comparison(mirrored(op), right, left, wanted);
        }
        let Expr::Constant(value) = right else {
            return ALL;
        };
        let Some(value) = value else { return NEVER };
        // Nothing stored is NaN or infinite, and NaN has no place in an order.
        if matches!(value, Json::Number(n) if !n.is_finite()) {
            return ALL;
        }
        // `e = false` asks for e being false, whatever e is.
        if let (BinaryOp::Equal, Json::Bool(asked), true) = (op, value, wanted) {
            return self.truth(left, *asked);
        }
        let op = if wanted { op } else { opposite(op) };
        if let (
            Expr::Call {
                function,
                arguments,
            },
            Some(distance),
        ) = (left, value.as_f64())
            && function.names[0] == "ST_DISTANCE"
        {
            let is_bounded = matches!(op, BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Equal);
            return if is_bounded {
                self.near(arguments, distance)
            } else {
                ALL
            };
        }
        let scalar = !matches!(value, Json::Array(_) | Json::Object(_));
        let value = value.clone();
        match op {
            BinaryOp::Equal if scalar => self.term(left, Test::Equals(value)),
            BinaryOp::Equal => {
                let kind = if matches!(value, Json::Array(_)) {
                    ValueType::Array
                } else {
                    ValueType::Object
                };
                (self.term(left, Test::IsType(kind)).0.inexact(), false)
            }
            BinaryOp::NotEqual if scalar => self.term(left, Test::NotEquals(value)),
            BinaryOp::NotEqual => (self.term(left, Test::Defined).0.inexact(), false),
            _ if !scalar => NEVER,
            // Null has no neighbours.
            BinaryOp::LessOrEqual | BinaryOp::GreaterOrEqual if matches!(value, Json::Null) => {
                self.term(left, Test::Equals(value))
            }
            _ if matches!(value, Json::Null) => NEVER,
            BinaryOp::Less => self.range(left, Bound::Unbounded, Bound::Excluded(value)),
            BinaryOp::LessOrEqual => self.range(left, Bound::Unbounded, Bound::Included(value)),
            BinaryOp::Greater => self.range(left, Bound::Excluded(value), Bound::Unbounded),
            BinaryOp::GreaterOrEqual => self.range(left, Bound::Included(value), Bound::Unbounded),
            _ => ALL,
        }
    }

    fn range(&self, expr: &Expr, lower: Bound<Json>, upper: Bound<Json>) -> Derived {
        self.term(expr, Test::Range { lower, upper })
    }

    fn in_list(&self, value: &Expr, list: &[&Json], wanted: bool) -> Derived {
        if !wanted {
            // A value that is missing is not "not in" the list either, not even in an empty one.
            if list.is_empty() {
                return self.term(value, Test::Defined);
            }
            return all_of(list.iter().map(|v| self.not_equal(value, v)).collect());
        }
        if !list.iter().all(|v| is_stored_scalar(v)) {
            return ALL;
        }
        let mut seen = HashSet::new();
        let mut scalars: Vec<Json> = Vec::new();
        for scalar in list {
            if seen.insert(digest(Some(scalar))) {
                scalars.push((*scalar).clone());
            }
        }
        match scalars.len() {
            1 => self.term(value, Test::Equals(scalars.swap_remove(0))),
            _ => self.term(value, Test::In(scalars)),
        }
    }

    fn not_equal(&self, expr: &Expr, value: &Json) -> Derived {
        if !is_stored_scalar(value) {
            return (self.term(expr, Test::Defined).0.inexact(), false);
        }
        self.term(expr, Test::NotEquals(value.clone()))
    }

    fn call(&self, function: &Function, arguments: &[Expr], wanted: bool) -> Derived {
        let Some(subject) = arguments.first() else {
            return ALL;
        };
        let text = |index: usize| {
            arguments
                .get(index)
                .and_then(constant)
                .and_then(Json::as_str)
        };
        match function.names[0] {
            "IS_DEFINED" => self.term(
                subject,
                if wanted {
                    Test::Defined
                } else {
                    Test::NotDefined
                },
            ),
            "IS_NULL" if wanted => self.term(subject, Test::Equals(Json::Null)),
            "IS_BOOL" if wanted => self.term(subject, Test::IsType(ValueType::Bool)),
            "IS_NUMBER" | "IS_FINITE_NUMBER" if wanted => {
                self.term(subject, Test::IsType(ValueType::Number))
            }
            "IS_STRING" if wanted => self.term(subject, Test::IsType(ValueType::String)),
            "IS_ARRAY" if wanted => self.term(subject, Test::IsType(ValueType::Array)),
            "IS_OBJECT" if wanted => self.term(subject, Test::IsType(ValueType::Object)),
            "IS_INTEGER" if wanted => (
                self.term(subject, Test::IsType(ValueType::Number))
                    .0
                    .inexact(),
                false,
            ),
            "IS_PRIMITIVE" if wanted => (self.term(subject, Test::Defined).0.inexact(), false),
            "ARRAY_CONTAINS" => self.array_contains(arguments, wanted),
            "ST_WITHIN" | "ST_INTERSECTS" if wanted => self.near(arguments, 0.0),
            "REGEXMATCH" => {
                let flags = if arguments.len() > 2 {
                    text(2)
                } else {
                    Some("")
                };
                match (text(1), flags) {
                    (Some(pattern), Some(flags)) => match compile_for_index_scan(pattern, flags) {
                        Some((regex, true)) => {
                            self.strings(subject, move |text| regex.is_match(text) == wanted)
                        }
                        Some((_, false)) => ALL,
                        None => NEVER,
                    },
                    _ => ALL,
                }
            }
            "STARTSWITH" | "STRINGEQUALS" | "CONTAINS" | "ENDSWITH" => {
                let any_case = match arguments.get(2).map(constant) {
                    None => Some(false),
                    Some(flag) => flag.and_then(Json::as_bool),
                };
                match (text(1), any_case) {
                    (Some(part), Some(any_case)) => {
                        self.compared_text(function, subject, part, any_case, wanted)
                    }
                    _ => ALL,
                }
            }
            _ => ALL,
        }
    }

    fn compared_text(
        &self,
        function: &Function,
        subject: &Expr,
        part: &str,
        any_case: bool,
        wanted: bool,
    ) -> Derived {
        let test: fn(&str, &str) -> bool = match (function.names[0], any_case, wanted) {
            ("STARTSWITH", false, true) => {
                return self.term(subject, Test::Prefix(part.to_owned()));
            }
            ("STRINGEQUALS", false, true) => {
                return self.term(subject, Test::Equals(Json::from(part)));
            }
            ("STARTSWITH", ..) => starts_with,
            ("STRINGEQUALS", ..) => string_equals,
            ("ENDSWITH", ..) => ends_with,
            _ => contains,
        };
        if any_case {
            let part = lower(part);
            return self.strings(subject, move |text| test(&lower(text), &part) == wanted);
        }
        let part = part.to_owned();
        self.strings(subject, move |text| test(text, &part) == wanted)
    }

    fn array_contains(&self, arguments: &[Expr], wanted: bool) -> Derived {
        // Beside true and false the third argument makes the answer undefined, whatever the others are.
        let plain = match arguments.get(2) {
            None => true,
            Some(flag) => matches!(constant(flag), Some(Json::Bool(false))),
        };
        match (&arguments[0], &arguments[1]) {
            // ARRAY_CONTAINS(@list, c.x) is IN with a list.
            (Expr::Constant(Some(Json::Array(list))), value) if plain => {
                if list.is_empty() && wanted {
                    return NEVER;
                }
                self.in_list(value, &list.iter().collect::<Vec<_>>(), wanted)
            }
            (array, Expr::Constant(Some(value))) if wanted => {
                let Some(mut rooted) = self.rooted(array) else {
                    return ALL;
                };
                let nested = rooted.steps.contains(&Step::Element);
                rooted.steps.push(Step::Element);
                let term = |path: Path, value: &Json, exact: bool| {
                    (
                        Condition::Term {
                            path,
                            test: Test::Equals(value.clone()),
                            exact,
                        },
                        exact,
                    )
                };
                match value {
                    // Some element has each of the scalar members, which need not be one and the same element, and
                    // an object without such members says nothing at all.
                    Json::Object(members) => {
                        let scalars = members
                            .iter()
                            .filter(|(_, member)| is_stored_scalar(member));
                        let parts = scalars.map(|(name, member)| {
                            let mut path = rooted.path();
                            path.0.push(Step::Name(name.to_owned()));
                            term(path, member, false)
                        });
                        (all_of(parts.collect()).0, false)
                    }
                    // One element equal to a scalar is exactly what the index of elements says.
                    scalar if is_stored_scalar(scalar) => {
                        let flagged = arguments
                            .get(2)
                            .is_none_or(|f| matches!(constant(f), Some(Json::Bool(_))));
                        term(rooted.path(), scalar, flagged && !nested && !rooted.widened)
                    }
                    _ => ALL,
                }
            }
            _ => ALL,
        }
    }

    /// EXISTS needs one tuple that passes the subquery's filters.
    fn exists(&self, block: &crate::bound::Block) -> Derived {
        if block.grouping.is_some() {
            return ALL;
        }
        let mut frames = self.frames.clone();
        for source in &block.sources {
            let mapping = match &source.input {
                Input::Expr(_) => crate::bind::of_source(source, &frames),
                Input::Subquery(_) => Mapping::Unknown,
            };
            frames.push(mapping);
        }
        let (condition, _) = derive(&block.filters, &frames, self.frames.len());
        // What the subquery selects can only narrow further.
        (condition.inexact(), false)
    }

    /// A value and a constant geometry that are at most so far apart, whichever stands first.
    fn near(&self, arguments: &[Expr], distance: f64) -> Derived {
        let (value, geometry) = match arguments {
            [Expr::Constant(Some(geometry)), value] | [value, Expr::Constant(Some(geometry))] => {
                (value, geometry)
            }
            _ => return ALL,
        };
        if !distance.is_finite() {
            return ALL;
        }
        let test = Test::Near {
            geometry: Arc::new(geometry.clone()),
            distance: distance.max(0.0),
        };
        (self.term(value, test).0.inexact(), false)
    }

    fn strings(&self, expr: &Expr, test: impl Fn(&str) -> bool + Send + Sync + 'static) -> Derived {
        self.term(expr, Test::ScanStrings(Arc::new(test)))
    }

    fn rooted(&self, expr: &Expr) -> Option<Rooted> {
        match crate::bind::mapping_of(expr, &self.frames) {
            Mapping::Path(rooted) if !rooted.steps.is_empty() => Some(rooted),
            _ => None,
        }
    }

    fn term(&self, expr: &Expr, test: Test) -> Derived {
        let Some(rooted) = self.rooted(expr) else {
            return ALL;
        };
        let through_array = rooted.widened || rooted.steps.contains(&Step::Element);
        // That one element lacks something cannot be said of the array.
        if through_array && matches!(test, Test::NotDefined) {
            return ALL;
        }
        let exact = !through_array;
        (
            Condition::Term {
                path: rooted.path(),
                test,
                exact,
            },
            exact,
        )
    }
}

/// Two conditions at once.
pub(crate) fn both(a: Condition, b: Condition) -> Condition {
    all_of(vec![(a, true), (b, true)]).0
}

/// Whether an index can hold just this value: arrays and objects it knows only as such, and nothing stored is NaN or
/// infinite.
fn is_stored_scalar(value: &Json) -> bool {
    match value {
        Json::Array(_) | Json::Object(_) => false,
        Json::Number(n) => n.is_finite(),
        _ => true,
    }
}

fn constant(expr: &Expr) -> Option<&Json> {
    match expr {
        Expr::Constant(value) => value.as_ref(),
        _ => None,
    }
}

fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        other => other,
    }
}

/// The comparison that is true where this one is false.
fn opposite(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Equal => BinaryOp::NotEqual,
        BinaryOp::NotEqual => BinaryOp::Equal,
        BinaryOp::Less => BinaryOp::GreaterOrEqual,
        BinaryOp::Greater => BinaryOp::LessOrEqual,
        BinaryOp::LessOrEqual => BinaryOp::Greater,
        BinaryOp::GreaterOrEqual => BinaryOp::Less,
        other => other,
    }
}

/// AND, with ranges on one path joined.
fn all_of(parts: Vec<Derived>) -> Derived {
    let exact = parts.iter().all(|(_, exact)| *exact);
    let mut flat: Vec<Condition> = Vec::new();
    for (part, part_exact) in parts {
        match part {
            Condition::All => {}
            Condition::Never if part_exact => return NEVER,
            Condition::And(inner) => inner.into_iter().for_each(|c| add_joined(&mut flat, c)),
            other => add_joined(&mut flat, other),
        }
    }
    if flat.iter().any(|c| matches!(c, Condition::Never)) {
        return NEVER;
    }
    match flat.len() {
        0 => (Condition::All, exact),
        1 => (flat.swap_remove(0), exact),
        _ => (Condition::And(flat), exact),
    }
}

fn any_of(parts: Vec<Derived>) -> Derived {
    let exact = parts.iter().all(|(_, exact)| *exact);
    let mut flat = Vec::new();
    for (part, _) in parts {
        match part {
            Condition::All => return (Condition::All, exact),
            Condition::Never => {}
            Condition::Or(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    match flat.len() {
        0 => NEVER,
        1 => (flat.swap_remove(0), exact),
        _ => (Condition::Or(flat), exact),
    }
}

/// Parts of an AND with which a further range may be joined; among thousands nothing is gained by it.
const PARTS_LOOKED_AT: usize = 64;

/// Adds a part of an AND; two half-open ranges of one plain path become one range.
fn add_joined(parts: &mut Vec<Condition>, new: Condition) {
    if let Condition::Term {
        path,
        test: Test::Range { lower, upper },
        exact: true,
    } = &new
    {
        for part in parts.iter_mut().take(PARTS_LOOKED_AT) {
            let Condition::Term {
                path: p,
                test: Test::Range { lower: l, upper: u },
                exact: true,
            } = part
            else {
                continue;
            };
            if p != path {
                continue;
            }
            let joined = match (&*l, &*u, lower, upper) {
                (from, Bound::Unbounded, Bound::Unbounded, to) => (from.clone(), to.clone()),
                (Bound::Unbounded, to, from, Bound::Unbounded) => (from.clone(), to.clone()),
                _ => continue,
            };
            *part = range_or_never(path, joined.0, joined.1);
            return;
        }
    }
    parts.push(new);
}

/// A range, unless its ends are of two types or out of order.
fn range_or_never(path: &Path, lower: Bound<Json>, upper: Bound<Json>) -> Condition {
    if let (Bound::Included(l) | Bound::Excluded(l), Bound::Included(u) | Bound::Excluded(u)) =
        (&lower, &upper)
    {
        let one_type = std::mem::discriminant(l) == std::mem::discriminant(u);
        let closed = matches!((&lower, &upper), (Bound::Included(_), Bound::Included(_)));
        let order = compare(l, u);
        if !one_type || order.is_gt() || (order.is_eq() && !closed) {
            return Condition::Never;
        }
        if order.is_eq() {
            return Condition::Term {
                path: path.clone(),
                test: Test::Equals(l.clone()),
                exact: true,
            };
        }
    }
    Condition::Term {
        path: path.clone(),
        test: Test::Range { lower, upper },
        exact: true,
    }
}

impl Condition {
    /// The same, with no term exact.
    fn inexact(self) -> Self {
        match self {
            Condition::Term { path, test, .. } => Condition::Term {
                path,
                test,
                exact: false,
            },
            Condition::And(parts) => {
                Condition::And(parts.into_iter().map(Condition::inexact).collect())
            }
            Condition::Or(parts) => {
                Condition::Or(parts.into_iter().map(Condition::inexact).collect())
            }
            other => other,
        }
    }
}
