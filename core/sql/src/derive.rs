//! Derivation of an index condition from a bound WHERE clause.
//!
//! WHERE keeps the items for which its expression is true. In three-valued logic "NOT e is true"
//! means "e is false", which is not the same as "e is not true". The derivation therefore asks two
//! questions of an expression, through [`Deriver::condition_for`]: what holds of an item if the
//! expression is true, and what holds if it is false. NOT exchanges the two questions, and AND and
//! OR exchange their roles between them.
//!
//! An expression that an index cannot evaluate gives [`Condition::All`]: a derived condition may be
//! too weak, never too strong. A term on a path through an array says that some element passes,
//! which is weaker than a test of the element in the current tuple; such terms are never exact.

use crate::bind::{ItemPath, Mapping};
use crate::bound::{Block, Expr, Input, LikePattern};
use crate::condition::{Condition, Path, Step, Test, ValueType};
use crate::full_text::{Analyzer, Term};
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

/// Derives the condition of the conjuncts of a WHERE clause. Each conjunct comes with the number of
/// sources that it refers to; `frames` are the frames of the whole block, of which the first `base`
/// lie outside it. The boolean is true if the condition is exact.
pub(crate) fn derive(
    filters: &[(usize, Expr)],
    frames: &[Mapping],
    base: usize,
) -> (Condition, bool) {
    let mut parts = Vec::with_capacity(filters.len());
    for (sources, filter) in filters {
        let visible = &frames[..(base + sources).min(frames.len())];
        let deriver = Deriver {
            frames: visible.to_vec(),
        };
        parts.push(deriver.condition_for(filter, true));
    }
    let derived = all_of(parts);
    (derived.condition, derived.is_exact)
}

/// Returns the condition under which an expression is true. `frames` are the frames that it sees.
pub(crate) fn condition_of_value(expr: &Expr, frames: &[Mapping]) -> Condition {
    let deriver = Deriver {
        frames: frames.to_vec(),
    };
    deriver.condition_for(expr, true).condition
}

/// Returns the path of the item that an expression stands for, unless it is the item itself.
/// `frames` are the frames that it sees.
pub(crate) fn path_of(expr: &Expr, frames: &[Mapping]) -> Option<Path> {
    let deriver = Deriver {
        frames: frames.to_vec(),
    };
    deriver.item_path(expr).map(|path| path.path())
}

/// Returns the condition that both conditions hold.
pub(crate) fn conjunction(a: Condition, b: Condition) -> Condition {
    let exact = |condition| Derived {
        condition,
        is_exact: true,
    };
    all_of(vec![exact(a), exact(b)]).condition
}

/// Most words of a condition on a text. A source without an index may look for each word in turn,
/// so a function with more words is left to the query, which reads the text once.
const MAX_WORDS: usize = 16;

/// A derived condition.
struct Derived {
    condition: Condition,
    /// The condition is equivalent to the expression, not only necessary.
    is_exact: bool,
}

/// The result for an expression that an index cannot evaluate.
const UNKNOWN: Derived = Derived {
    condition: Condition::All,
    is_exact: false,
};

/// The result for an expression that cannot have the wanted value.
const NEVER: Derived = Derived {
    condition: Condition::Never,
    is_exact: true,
};

impl Derived {
    /// Marks the condition and all of its terms as not exact.
    fn inexact(self) -> Self {
        Derived {
            condition: self.condition.inexact(),
            is_exact: false,
        }
    }
}

/// The derivation for one conjunct.
struct Deriver {
    /// The frames that the conjunct sees, as parts of the item.
    frames: Vec<Mapping>,
}

impl Deriver {
    /// Derives the condition under which an expression is the boolean `wanted`.
    fn condition_for(&self, expr: &Expr, wanted: bool) -> Derived {
        match expr {
            Expr::Constant(value) => {
                if value.as_ref().and_then(Json::as_bool) != Some(wanted) {
                    return NEVER;
                }
                Derived {
                    condition: Condition::All,
                    is_exact: true,
                }
            }
            Expr::Slot(_) | Expr::Path { .. } => self.term(expr, Test::Equals(Json::Bool(wanted))),
            Expr::Unary(UnaryOp::Not, operand) => self.condition_for(operand, !wanted),
            Expr::And(parts) | Expr::Or(parts) => {
                let derived = parts
                    .iter()
                    .map(|part| self.condition_for(part, wanted))
                    .collect();
                // By De Morgan a false AND is an OR, and a false OR is an AND.
                let is_conjunction = matches!(expr, Expr::And(_)) == wanted;
                if is_conjunction {
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
                    None => UNKNOWN,
                }
            }
            Expr::InSet { value, values, .. } => {
                let values: Vec<&Json> = values.iter().collect();
                self.in_list(value, &values, wanted)
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
                    self.string_scan(value, move |text| pattern.matches(text) == wanted)
                }
            },
            Expr::Call {
                function,
                arguments,
            } => self.call(function, arguments, wanted),
            Expr::Subquery(SubqueryKind::Exists, block) if wanted => self.exists(block),
            _ => UNKNOWN,
        }
    }

    fn comparison(&self, op: BinaryOp, left: &Expr, right: &Expr, wanted: bool) -> Derived {
        // A constant on the left changes sides, so that only constants on the right remain.
        if left.is_constant() && !right.is_constant() {
            return self.comparison(mirrored(op), right, left, wanted);
        }
        let Expr::Constant(value) = right else {
            return UNKNOWN;
        };
        // A comparison with undefined is undefined.
        let Some(value) = value else { return NEVER };
        // No stored number is NaN or infinite, and NaN has no place in an order.
        if matches!(value, Json::Number(n) if !n.is_finite()) {
            return UNKNOWN;
        }
        // `e = false` is true if e is false, for any expression e.
        if let (BinaryOp::Equal, Json::Bool(compared), true) = (op, value, wanted) {
            return self.condition_for(left, *compared);
        }
        let op = if wanted { op } else { opposite(op) };
        if let Expr::Call {
            function,
            arguments,
        } = left
            && function.names[0] == "ST_DISTANCE"
            && let Some(distance) = value.as_f64()
        {
            return match op {
                BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Equal => {
                    self.near(arguments, distance)
                }
                _ => UNKNOWN,
            };
        }
        self.comparison_with_constant(op, left, value)
    }

    /// Derives the condition under which `left op value` is true.
    fn comparison_with_constant(&self, op: BinaryOp, left: &Expr, value: &Json) -> Derived {
        let is_scalar = !matches!(value, Json::Array(_) | Json::Object(_));
        let is_null = matches!(value, Json::Null);
        let value = value.clone();
        match op {
            BinaryOp::Equal if is_scalar => self.term(left, Test::Equals(value)),
            BinaryOp::Equal => {
                let kind = if matches!(value, Json::Array(_)) {
                    ValueType::Array
                } else {
                    ValueType::Object
                };
                self.term(left, Test::IsType(kind)).inexact()
            }
            BinaryOp::NotEqual if is_scalar => self.term(left, Test::NotEquals(value)),
            BinaryOp::NotEqual => self.term(left, Test::Defined).inexact(),
            // Arrays and objects have no order.
            _ if !is_scalar => NEVER,
            // Null is the only value of its type: only "or equal" can be true.
            BinaryOp::LessOrEqual | BinaryOp::GreaterOrEqual if is_null => {
                self.term(left, Test::Equals(value))
            }
            _ if is_null => NEVER,
            BinaryOp::Less => self.range(left, Bound::Unbounded, Bound::Excluded(value)),
            BinaryOp::LessOrEqual => self.range(left, Bound::Unbounded, Bound::Included(value)),
            BinaryOp::Greater => self.range(left, Bound::Excluded(value), Bound::Unbounded),
            BinaryOp::GreaterOrEqual => self.range(left, Bound::Included(value), Bound::Unbounded),
            _ => UNKNOWN,
        }
    }

    fn range(&self, expr: &Expr, lower: Bound<Json>, upper: Bound<Json>) -> Derived {
        self.term(expr, Test::Range { lower, upper })
    }

    /// Derives the condition under which `value IN (list)` is the boolean `wanted`.
    fn in_list(&self, value: &Expr, list: &[&Json], wanted: bool) -> Derived {
        if !wanted {
            // NOT IN is undefined for a missing value, even with an empty list.
            if list.is_empty() {
                return self.term(value, Test::Defined);
            }
            return all_of(list.iter().map(|v| self.not_equal(value, v)).collect());
        }
        if !list.iter().all(|v| is_stored_scalar(v)) {
            return UNKNOWN;
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
            return self.term(expr, Test::Defined).inexact();
        }
        self.term(expr, Test::NotEquals(value.clone()))
    }

    /// Derives the condition under which a call of a built-in function is the boolean `wanted`.
    fn call(&self, function: &Function, arguments: &[Expr], wanted: bool) -> Derived {
        let Some(subject) = arguments.first() else {
            return UNKNOWN;
        };
        let is_type = |kind| self.term(subject, Test::IsType(kind));
        match function.names[0] {
            "IS_DEFINED" if wanted => self.term(subject, Test::Defined),
            "IS_DEFINED" => self.term(subject, Test::NotDefined),
            "IS_NULL" if wanted => self.term(subject, Test::Equals(Json::Null)),
            "IS_BOOL" if wanted => is_type(ValueType::Bool),
            "IS_NUMBER" | "IS_FINITE_NUMBER" if wanted => is_type(ValueType::Number),
            "IS_STRING" if wanted => is_type(ValueType::String),
            "IS_ARRAY" if wanted => is_type(ValueType::Array),
            "IS_OBJECT" if wanted => is_type(ValueType::Object),
            "IS_INTEGER" if wanted => is_type(ValueType::Number).inexact(),
            "IS_PRIMITIVE" if wanted => self.term(subject, Test::Defined).inexact(),
            "ARRAY_CONTAINS" => self.array_contains(arguments, wanted),
            "ST_WITHIN" | "ST_INTERSECTS" if wanted => self.near(arguments, 0.0),
            "FULLTEXTCONTAINS" | "FULLTEXTCONTAINSALL" if wanted => {
                self.has_terms(arguments, all_of)
            }
            "FULLTEXTCONTAINSANY" if wanted => self.has_terms(arguments, any_of),
            "REGEXMATCH" => self.regex_match(arguments, wanted),
            "STARTSWITH" | "STRINGEQUALS" | "CONTAINS" | "ENDSWITH" => {
                self.string_comparison(function, arguments, wanted)
            }
            _ => UNKNOWN,
        }
    }

    /// A full-text function (language, text, terms ...) that is true if the text has all or any of
    /// the terms, as `combine` says.
    fn has_terms(&self, arguments: &[Expr], combine: fn(Vec<Derived>) -> Derived) -> Derived {
        let (Some(language), [_, text, terms @ ..]) = (constant_text(arguments, 0), arguments)
        else {
            return UNKNOWN;
        };
        let analyzer = Analyzer::of(language);
        let language: Arc<str> = language.into();
        let mut word_count = 0;
        let mut parts = Vec::with_capacity(terms.len());
        for term in terms {
            let Some(term) = constant(term).and_then(|term| Term::parse(term, &analyzer)) else {
                return UNKNOWN;
            };
            let term = term.into_words();
            // The words of a phrase occur in the text, and their order is left to the query. A term
            // of stop words never occurs.
            word_count += term.len();
            if word_count > MAX_WORDS {
                return UNKNOWN;
            }
            let is_phrase = term.len() > 1;
            let mut words = Vec::with_capacity(term.len());
            for word in term {
                let language = Arc::clone(&language);
                words.push(self.term(text, Test::HasWord { language, word }));
            }
            parts.push(match words.is_empty() {
                true => NEVER,
                false if is_phrase => all_of(words).inexact(),
                false => all_of(words),
            });
        }
        combine(parts)
    }

    /// REGEXMATCH(subject, pattern[, flags])
    fn regex_match(&self, arguments: &[Expr], wanted: bool) -> Derived {
        let flags = if arguments.len() > 2 {
            constant_text(arguments, 2)
        } else {
            Some("")
        };
        let (Some(pattern), Some(flags)) = (constant_text(arguments, 1), flags) else {
            return UNKNOWN;
        };
        match compile_for_index_scan(pattern, flags) {
            Some((regex, true)) => {
                self.string_scan(&arguments[0], move |text| regex.is_match(text) == wanted)
            }
            // The pattern is too large to run on every string of an index.
            Some((_, false)) => UNKNOWN,
            // The call is undefined for an invalid pattern.
            None => NEVER,
        }
    }

    /// STARTSWITH, STRINGEQUALS, CONTAINS or ENDSWITH: (subject, part[, ignore_case])
    fn string_comparison(&self, function: &Function, arguments: &[Expr], wanted: bool) -> Derived {
        let subject = &arguments[0];
        let ignores_case = match arguments.get(2) {
            None => Some(false),
            Some(flag) => constant(flag).and_then(Json::as_bool),
        };
        let (Some(part), Some(ignores_case)) = (constant_text(arguments, 1), ignores_case) else {
            return UNKNOWN;
        };
        let compare: fn(&str, &str) -> bool = match (function.names[0], ignores_case, wanted) {
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
        if ignores_case {
            let part = lower(part);
            return self.string_scan(subject, move |text| compare(&lower(text), &part) == wanted);
        }
        let part = part.to_owned();
        self.string_scan(subject, move |text| compare(text, &part) == wanted)
    }

    /// ARRAY_CONTAINS(array, value[, partial])
    fn array_contains(&self, arguments: &[Expr], wanted: bool) -> Derived {
        // Only a third argument that is false has the meaning of a missing one.
        let flag = arguments.get(2).map(constant);
        let is_plain = matches!(flag, None | Some(Some(Json::Bool(false))));
        match (&arguments[0], &arguments[1]) {
            // ARRAY_CONTAINS(@list, c.x) is IN with a list.
            (Expr::Constant(Some(Json::Array(list))), value) if is_plain => {
                if list.is_empty() && wanted {
                    return NEVER;
                }
                self.in_list(value, &list.iter().collect::<Vec<_>>(), wanted)
            }
            (array, Expr::Constant(Some(value))) if wanted => {
                // The function is undefined if the flag is not a boolean.
                let has_valid_flag = matches!(flag, None | Some(Some(Json::Bool(_))));
                self.array_contains_constant(array, value, has_valid_flag)
            }
            _ => UNKNOWN,
        }
    }

    /// Derives the condition under which an array of the item contains a constant.
    fn array_contains_constant(&self, array: &Expr, value: &Json, has_valid_flag: bool) -> Derived {
        let Some(array) = self.item_path(array) else {
            return UNKNOWN;
        };
        let is_through_array = array.is_widened || array.steps.contains(&Step::Element);
        let mut element = array.path();
        element.0.push(Step::Element);
        match value {
            // If an element contains the object, some element has each of its scalar members. The
            // condition does not say that it is the same element.
            Json::Object(members) => {
                let mut parts = Vec::new();
                for (name, member) in members.iter() {
                    if is_stored_scalar(member) {
                        let mut path = element.clone();
                        path.0.push(Step::Name(name.to_owned()));
                        parts.push(equality(path, member, false));
                    }
                }
                Derived {
                    condition: all_of(parts).condition,
                    is_exact: false,
                }
            }
            // An entry of the index says that one element equals the scalar, which is the function.
            scalar if is_stored_scalar(scalar) => {
                equality(element, scalar, has_valid_flag && !is_through_array)
            }
            _ => UNKNOWN,
        }
    }

    /// EXISTS is true if some tuple passes the filters of the subquery.
    fn exists(&self, block: &Block) -> Derived {
        if block.grouping.is_some() {
            return UNKNOWN;
        }
        let mut frames = self.frames.clone();
        for source in &block.sources {
            let mapping = match &source.input {
                Input::Expr(_) => crate::bind::mapping_of_source(source, &frames),
                Input::Subquery(_) => Mapping::Unknown,
            };
            frames.push(mapping);
        }
        let (condition, _) = derive(&block.filters, &frames, self.frames.len());
        // The output of the subquery can only remove rows, those with undefined values.
        Derived {
            condition: condition.inexact(),
            is_exact: false,
        }
    }

    /// Derives the condition that a value of the item and a constant geometry, in any order, are at
    /// most `distance` apart.
    fn near(&self, arguments: &[Expr], distance: f64) -> Derived {
        let (value, geometry) = match arguments {
            [Expr::Constant(Some(geometry)), value] | [value, Expr::Constant(Some(geometry))] => {
                (value, geometry)
            }
            _ => return UNKNOWN,
        };
        if !distance.is_finite() {
            return UNKNOWN;
        }
        let test = Test::Near {
            geometry: Arc::new(geometry.clone()),
            distance: distance.max(0.0),
        };
        self.term(value, test).inexact()
    }

    fn string_scan(
        &self,
        expr: &Expr,
        test: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Derived {
        self.term(expr, Test::ScanStrings(Arc::new(test)))
    }

    /// Returns the path of the item that an expression stands for, unless it is the item itself.
    fn item_path(&self, expr: &Expr) -> Option<ItemPath> {
        match crate::bind::mapping_of(expr, &self.frames) {
            Mapping::Path(path) if !path.steps.is_empty() => Some(path),
            _ => None,
        }
    }

    /// Makes the term that an expression passes a test.
    fn term(&self, expr: &Expr, test: Test) -> Derived {
        let Some(path) = self.item_path(expr) else {
            return UNKNOWN;
        };
        let is_through_array = path.is_widened || path.steps.contains(&Step::Element);
        // A missing value in one element says nothing about the other elements of the array.
        if is_through_array && matches!(test, Test::NotDefined) {
            return UNKNOWN;
        }
        term(path.path(), test, !is_through_array)
    }
}

fn term(path: Path, test: Test, is_exact: bool) -> Derived {
    Derived {
        condition: Condition::Term {
            path,
            test,
            exact: is_exact,
        },
        is_exact,
    }
}

fn equality(path: Path, value: &Json, is_exact: bool) -> Derived {
    term(path, Test::Equals(value.clone()), is_exact)
}

/// Returns true if an index can hold exactly this value. Of arrays and objects an index holds the
/// type only, and no stored number is NaN or infinite.
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

/// Returns the argument at `index` if it is a constant string.
fn constant_text(arguments: &[Expr], index: usize) -> Option<&str> {
    constant(arguments.get(index)?)?.as_str()
}

/// Returns the operator for exchanged operands.
fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        other => other,
    }
}

/// Returns the comparison that is true if and only if this one is false.
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

/// Combines conditions by AND. Joins half-open ranges on one path.
fn all_of(parts: Vec<Derived>) -> Derived {
    let is_exact = parts.iter().all(|part| part.is_exact);
    let mut flat: Vec<Condition> = Vec::new();
    for part in parts {
        match part.condition {
            Condition::All => {}
            Condition::Never if part.is_exact => return NEVER,
            Condition::And(inner) => inner.into_iter().for_each(|c| add_conjunct(&mut flat, c)),
            other => add_conjunct(&mut flat, other),
        }
    }
    if flat.iter().any(|c| matches!(c, Condition::Never)) {
        return NEVER;
    }
    let condition = match flat.len() {
        0 => Condition::All,
        1 => flat.swap_remove(0),
        _ => Condition::And(flat),
    };
    Derived {
        condition,
        is_exact,
    }
}

/// Combines conditions by OR.
fn any_of(parts: Vec<Derived>) -> Derived {
    let is_exact = parts.iter().all(|part| part.is_exact);
    let mut flat = Vec::new();
    for part in parts {
        match part.condition {
            Condition::All => {
                return Derived {
                    condition: Condition::All,
                    is_exact,
                };
            }
            Condition::Never => {}
            Condition::Or(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    let condition = match flat.len() {
        0 => return NEVER,
        1 => flat.swap_remove(0),
        _ => Condition::Or(flat),
    };
    Derived {
        condition,
        is_exact,
    }
}

/// The number of conjuncts that are compared with a new range. Bounds the time for a filter with
/// thousands of conjuncts.
const MAX_PARTS_COMPARED: usize = 64;

/// Adds a conjunct. Two half-open ranges on one path become one range.
fn add_conjunct(parts: &mut Vec<Condition>, new: Condition) {
    let Condition::Term {
        path,
        test: Test::Range { lower, upper },
        exact: true,
    } = &new
    else {
        parts.push(new);
        return;
    };
    for part in parts.iter_mut().take(MAX_PARTS_COMPARED) {
        let Condition::Term {
            path: other_path,
            test:
                Test::Range {
                    lower: other_lower,
                    upper: other_upper,
                },
            exact: true,
        } = part
        else {
            continue;
        };
        if other_path != path {
            continue;
        }
        // Only a range without an upper bound and a range without a lower bound can be joined.
        let (lower, upper) = match (&*other_lower, &*other_upper, lower, upper) {
            (lower, Bound::Unbounded, Bound::Unbounded, upper) => (lower.clone(), upper.clone()),
            (Bound::Unbounded, upper, lower, Bound::Unbounded) => (lower.clone(), upper.clone()),
            _ => continue,
        };
        *part = range_or_never(path, lower, upper);
        return;
    }
    parts.push(new);
}

/// Makes a range term. Returns [`Condition::Never`] if the bounds have different types or no value
/// lies between them.
fn range_or_never(path: &Path, lower: Bound<Json>, upper: Bound<Json>) -> Condition {
    if let (Bound::Included(l) | Bound::Excluded(l), Bound::Included(u) | Bound::Excluded(u)) =
        (&lower, &upper)
    {
        let has_one_type = std::mem::discriminant(l) == std::mem::discriminant(u);
        let is_closed = matches!((&lower, &upper), (Bound::Included(_), Bound::Included(_)));
        let order = compare(l, u);
        if !has_one_type || order.is_gt() || (order.is_eq() && !is_closed) {
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
    /// Returns the condition that a path has a value. It is not exact.
    pub(crate) fn defined(path: Path) -> Self {
        term(path, Test::Defined, false).condition
    }

    /// Returns the condition with all terms marked as not exact.
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
