//! A template: the form of a query, whose literals are unknown, as a query with parameters.
//!
//! `SELECT TOP ? * FROM c WHERE c.a = ? AND c.t = @t` becomes a text with a parameter for each `?`,
//! and for each parameter the use that the text makes of its value. A caller that repeats the query
//! chooses the values: for `c.a = ?` the value that some item has at `a`.
//!
//! Left out: values inside expressions, such as `c.a + ?`; their use is [`SlotUse::Free`].

use super::ast::Source;
use super::ast::{
    BinaryOp, Collection, Count, CountValue, Expr, Kind, PathStep, Projection, Query,
};
use super::build::expr;
use super::form::{ends_operand, is_before_count};
use super::lexer::{TokenKind, tokens};
use super::{parse, print};
use crate::condition::{Path, Step};
use crate::error::QueryError;
use orrery_model::json::Json;

/// A query text whose values are parameters.
#[derive(Clone, Debug)]
pub struct QueryTemplate {
    tree: Query,
    slots: Vec<Slot>,
    root: Option<String>,
}

/// A parameter of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The name of the parameter, with its `@`.
    pub name: String,
    /// The use of its value.
    pub used: SlotUse,
}

/// The use that a query makes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotUse {
    /// The count of TOP, OFFSET or LIMIT: its position among these counts in the text.
    Count(usize),
    /// The value at the path is equal, or one of several values.
    Equal(Path),
    /// The value at the path is compared by its order.
    Ordered(Path),
    /// A part of the string at the path.
    Part(Path),
    /// An element of the array at the path.
    Element(Path),
    /// Anything else.
    Free,
}

/// The prefix of the parameters that stand for `?`.
const PREFIX: &str = "@value_";

impl QueryTemplate {
    /// Parses the form of a query, or any query text.
    ///
    /// # Errors
    /// [`QueryError::Compile`] if the text is no query.
    pub fn parse(form: &str) -> Result<QueryTemplate, QueryError> {
        let (text, counts) = with_parameters(form)?;
        let tree = parse(&text)?;
        let root = root_of(&tree);
        let mut uses = Uses {
            slots: counts,
            aliases: Vec::new(),
        };
        uses.visit_query(&tree);
        let slots = uses.slots;
        Ok(QueryTemplate { tree, slots, root })
    }

    /// Returns the text, whose parameters are those of [`QueryTemplate::slots`].
    pub fn text(&self) -> String {
        print::query(&self.tree)
    }

    /// Returns the parameters, each once, in the order of the text.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns the parameter that an item's value at `path` must equal for the item to give a row.
    /// `None` if the filter does not say so.
    pub fn equality(&self, path: &[String]) -> Option<&str> {
        let filter = self.tree.filter.as_ref()?;
        self.equality_in(filter, path)
    }

    fn equality_in<'t>(&'t self, filter: &'t Expr, path: &[String]) -> Option<&'t str> {
        let Kind::Chain { first, rest } = &filter.kind else {
            return None;
        };
        if rest.iter().all(|(op, _)| *op == BinaryOp::And) {
            let mut parts = std::iter::once(&**first).chain(rest.iter().map(|(_, part)| part));
            return parts.find_map(|part| self.equality_in(part, path));
        }
        let [(BinaryOp::Equal, second)] = &rest[..] else {
            return None;
        };
        for (place, value) in [(&**first, second), (second, &**first)] {
            if let Kind::Parameter(name) = &value.kind
                && self.is_place(place, path)
            {
                return Some(name);
            }
        }
        None
    }

    /// Returns true if an expression is the property at `path` of the item.
    fn is_place(&self, place: &Expr, path: &[String]) -> bool {
        let Kind::Path { base, steps } = &place.kind else {
            return false;
        };
        let is_item =
            matches!(&base.kind, Kind::Identifier(name) if Some(name) == self.root.as_ref());
        let names: Vec<Step> = path.iter().cloned().map(Step::Name).collect();
        is_item && steps_of(steps).is_some_and(|steps| steps == names)
    }

    /// Adds the condition that the item's value at `path` equals a parameter. Returns false, and
    /// changes nothing, if FROM does not name the items.
    pub fn require(&mut self, path: &[String], parameter: &str) -> bool {
        let Some(root) = &self.root else {
            return false;
        };
        let mut steps = Vec::with_capacity(path.len());
        for name in path {
            steps.push(PathStep::Bracket(expr(Kind::Constant(Json::from(
                name.as_str(),
            )))));
        }
        let place = expr(Kind::Path {
            base: Box::new(expr(Kind::Identifier(root.clone()))),
            steps,
        });
        let condition = expr(Kind::Chain {
            first: Box::new(place),
            rest: vec![(BinaryOp::Equal, expr(Kind::Parameter(parameter.to_owned())))],
        });
        self.tree.filter = Some(match self.tree.filter.take() {
            None => condition,
            Some(filter) => expr(Kind::Chain {
                first: Box::new(condition),
                rest: vec![(BinaryOp::And, filter)],
            }),
        });
        true
    }
}

/// Replaces each `?` that stands for a value by a parameter. Returns the text and the parameters of
/// the counts of rows.
fn with_parameters(form: &str) -> Result<(String, Vec<Slot>), QueryError> {
    let tokens = tokens(form)?;
    let mut text = String::with_capacity(form.len() + 32);
    let mut counts = Vec::new();
    let (mut copied, mut number) = (0, 0);
    let mut counted = 0;
    let mut is_after_operand = false;
    let mut before = &TokenKind::End;
    for token in &tokens {
        let is_value = token.kind == TokenKind::Symbol("?") && !is_after_operand;
        if is_value {
            text.push_str(&form[copied..token.span.0]);
            let name = format!("{PREFIX}{number}");
            text.push_str(&name);
            copied = token.span.1;
            number += 1;
            if is_before_count(before) {
                let used = SlotUse::Count(counted);
                counts.push(Slot { name, used });
            }
        } else if token.kind == TokenKind::Parameter && is_before_count(before) {
            let name = form[token.span.0..token.span.1].to_owned();
            let used = SlotUse::Count(counted);
            counts.push(Slot { name, used });
        }
        counted += usize::from(is_before_count(before));
        is_after_operand = is_value || is_operand_end(&token.kind);
        before = &token.kind;
    }
    text.push_str(&form[copied..]);
    Ok((text, counts))
}

fn is_operand_end(kind: &TokenKind) -> bool {
    let is_constant = matches!(
        kind,
        TokenKind::Keyword("TRUE" | "FALSE" | "NULL" | "UNDEFINED")
    );
    is_constant || ends_operand(kind)
}

/// Returns the name of the items in a query whose first source is the container itself.
fn root_of(query: &Query) -> Option<String> {
    let source = query.from.first()?;
    match &source.collection {
        Collection::Path { root, steps, .. } if steps.is_empty() && !source.iterate => {
            Some(source.alias.clone().unwrap_or_else(|| root.clone()))
        }
        _ => None,
    }
}

/// Collects the parameters of a query and their uses.
struct Uses {
    slots: Vec<Slot>,
    /// The names of sources with the paths that they stand for.
    aliases: Vec<(String, Vec<Step>)>,
}

impl Uses {
    fn visit_query(&mut self, query: &Query) {
        let outer = self.aliases.len();
        for count in [&query.top].into_iter().flatten() {
            self.visit_count(count);
        }
        for (at, source) in query.from.iter().enumerate() {
            self.visit_source(source, outer == 0 && at == 0);
        }
        match &query.projection {
            Projection::All(_) => {}
            Projection::Value(value) => self.visit(value),
            Projection::List(items) => items.iter().for_each(|item| self.visit(&item.expr)),
        }
        query.filter.iter().for_each(|filter| self.visit(filter));
        query.group_by.iter().for_each(|key| self.visit(key));
        if let Some(order) = &query.order_by {
            order.keys.iter().for_each(|key| self.visit(&key.expr));
        }
        if let Some(window) = &query.offset_limit {
            self.visit_count(&window.offset);
            self.visit_count(&window.limit);
        }
        self.aliases.truncate(outer);
    }

    fn visit_count(&mut self, count: &Count) {
        if let CountValue::Parameter(name) = &count.value {
            self.add(name, SlotUse::Free);
        }
    }

    fn visit_source(&mut self, source: &Source, is_container: bool) {
        let (root, mut path) = match &source.collection {
            Collection::Subquery(query) => {
                self.visit_query(query);
                return;
            }
            Collection::Path { root, steps, .. } => (root, steps_of(steps)),
        };
        let base = match is_container {
            true => Some(Vec::new()),
            false => self.alias(root),
        };
        if source.iterate
            && let Some(path) = &mut path
        {
            path.push(Step::Element);
        }
        if let (Some(mut whole), Some(path)) = (base, path) {
            let is_named_by_root = path.is_empty();
            whole.extend(path);
            match &source.alias {
                Some(alias) => self.aliases.push((alias.clone(), whole)),
                None if is_named_by_root => self.aliases.push((root.clone(), whole)),
                None => {}
            }
        }
    }

    fn alias(&self, name: &str) -> Option<Vec<Step>> {
        let mut aliases = self.aliases.iter().rev();
        let found = aliases.find(|(alias, _)| alias == name);
        found.map(|(_, path)| path.clone())
    }

    fn visit(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Parameter(name) => self.add(name, SlotUse::Free),
            Kind::Subquery(_, query) => self.visit_query(query),
            Kind::Chain { first, rest } => self.visit_chain(first, rest),
            Kind::Between { value, bounds, .. } => {
                if let Some(path) = self.path_of(value) {
                    for bound in bounds.iter() {
                        self.add_value(bound, &SlotUse::Ordered(path.clone()));
                    }
                }
            }
            Kind::In { value, list, .. } => {
                if let Some(path) = self.path_of(value) {
                    for element in list {
                        self.add_value(element, &SlotUse::Equal(path.clone()));
                    }
                }
            }
            Kind::Like { value, pattern, .. } => {
                if let Some(path) = self.path_of(value) {
                    self.add_value(pattern, &SlotUse::Part(path));
                }
            }
            Kind::Call {
                name, arguments, ..
            } => self.visit_call(&name.to_ascii_uppercase(), arguments),
            _ => {}
        }
        expr.for_each_operand(&mut |operand| self.visit(operand));
    }

    /// Looks for `path = value`.
    fn visit_chain(&mut self, first: &Expr, rest: &[(BinaryOp, Expr)]) {
        let [(op, second)] = rest else { return };
        if !op.is_comparison() {
            return;
        }
        for (place, value) in [(first, second), (second, first)] {
            let Some(path) = self.path_of(place) else {
                continue;
            };
            let used = match op {
                BinaryOp::Equal | BinaryOp::NotEqual => SlotUse::Equal(path),
                _ => SlotUse::Ordered(path),
            };
            self.add_value(value, &used);
        }
    }

    fn visit_call(&mut self, name: &str, arguments: &[Expr]) {
        let [place, value, ..] = arguments else {
            return;
        };
        let Some(path) = self.path_of(place) else {
            return;
        };
        let used = match name {
            "CONTAINS" | "STARTSWITH" | "ENDSWITH" => SlotUse::Part(path),
            "STRINGEQUALS" => SlotUse::Equal(path),
            "ARRAY_CONTAINS" => SlotUse::Element(path),
            _ => return,
        };
        self.add_value(value, &used);
    }

    /// Adds a value that is a parameter.
    fn add_value(&mut self, value: &Expr, used: &SlotUse) {
        if let Kind::Parameter(name) = &value.kind {
            self.add(name, used.clone());
        }
    }

    /// Adds a use of a parameter. The first use that says something counts.
    fn add(&mut self, name: &str, used: SlotUse) {
        match self.slots.iter_mut().find(|slot| slot.name == name) {
            Some(slot) if slot.used == SlotUse::Free => slot.used = used,
            Some(_) => {}
            None => self.slots.push(Slot {
                name: name.to_owned(),
                used,
            }),
        }
    }

    /// Returns the path of a property, also inside LOWER and UPPER.
    fn path_of(&self, expr: &Expr) -> Option<Path> {
        match &expr.kind {
            Kind::Identifier(name) => self.alias(name).map(Path),
            Kind::Path { base, steps } => {
                let Kind::Identifier(name) = &base.kind else {
                    return None;
                };
                let mut path = self.alias(name)?;
                path.extend(steps_of(steps)?);
                Some(Path(path))
            }
            Kind::Call {
                name, arguments, ..
            } if matches!(name.to_ascii_uppercase().as_str(), "LOWER" | "UPPER") => {
                self.path_of(arguments.first()?)
            }
            _ => None,
        }
    }
}

/// Returns the steps of a path; `None` if one is computed.
fn steps_of(steps: &[PathStep]) -> Option<Vec<Step>> {
    let mut path = Vec::with_capacity(steps.len());
    for step in steps {
        path.push(match step {
            PathStep::Dot(name) => Step::Name(name.clone()),
            PathStep::Bracket(inner) => match &inner.kind {
                Kind::Constant(Json::String(name)) => Step::Name(name.clone()),
                Kind::Constant(Json::Number(_)) => Step::Element,
                _ => return None,
            },
        });
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{QueryForm, golden_queries};

    fn names(path: &str) -> Path {
        let step = |name: &str| match name {
            "[]" => Step::Element,
            name => Step::Name(name.to_owned()),
        };
        Path(path.split('/').map(step).collect())
    }

    fn uses(form: &str) -> Vec<SlotUse> {
        let template = QueryTemplate::parse(form).expect(form);
        template
            .slots()
            .iter()
            .map(|slot| slot.used.clone())
            .collect()
    }

    #[test]
    fn values_are_found_where_they_are_compared() {
        use SlotUse::{Count, Element, Equal, Free, Ordered, Part};
        for (form, expected) in [
            (
                "SELECT TOP ? * FROM c WHERE c.a = ? AND ? < c.b.n",
                vec![Count(0), Equal(names("a")), Ordered(names("b/n"))],
            ),
            (
                "SELECT * FROM c WHERE c[\"a b\"] IN (?) ORDER BY c.n OFFSET ? LIMIT @rows",
                vec![Count(0), Count(1), Equal(names("a b"))],
            ),
            (
                "SELECT VALUE t FROM c JOIN t IN c.tags WHERE t.name = @tag",
                vec![Equal(names("tags/[]/name"))],
            ),
            (
                "SELECT * FROM c WHERE CONTAINS(LOWER(c.name), ?) AND ARRAY_CONTAINS(c.t, ?)",
                vec![Part(names("name")), Element(names("t"))],
            ),
            (
                "SELECT * FROM c WHERE (c.n BETWEEN ? AND ?) AND c.s LIKE ?",
                vec![Ordered(names("n")), Ordered(names("n")), Part(names("s"))],
            ),
            (
                "SELECT c.x ? ?: ? AS kind FROM c WHERE c.n + ? > ?",
                vec![Free, Free, Free, Free],
            ),
        ] {
            assert_eq!(uses(form), expected, "{form}");
        }
    }

    #[test]
    fn equalities_of_the_filter_are_known_and_can_be_added() {
        let form = "SELECT * FROM c WHERE c.type = ? AND (c.a = ? OR c.b = ?)";
        let mut template = QueryTemplate::parse(form).expect("a query");
        let path = |name: &str| vec![name.to_owned()];
        assert_eq!(template.equality(&path("type")), Some("@value_0"));
        assert_eq!(template.equality(&path("a")), None);
        assert!(template.require(&path("user id"), "@user"));
        let text = template.text();
        let again = QueryTemplate::parse(&text).expect(&text);
        assert_eq!(again.equality(&path("user id")), Some("@user"));
        assert_eq!(again.equality(&path("type")), Some("@value_0"));
    }

    #[test]
    fn the_form_of_a_valid_query_is_a_template() {
        let (mut count, mut refused) = (0, Vec::new());
        for text in golden_queries().iter().filter(|text| parse(text).is_ok()) {
            let form = QueryForm::of(text).expect("tokens").text;
            count += 1;
            if QueryTemplate::parse(&form).is_err() {
                refused.push(form);
            }
        }
        // A form drops the sign of a number, also where `undefined -1` is a subtraction.
        assert!(
            count > 1000 && refused.len() < 10,
            "{refused:#?} of {count}"
        );
    }
}
