//! Partial updates: a list of operations on one JSON object, as the service defines them.
//!
//! The operations are those of JSON Patch (RFC 6902) without `copy` and `test`, and with `set` and
//! `incr`. [`Patch::from_json`] checks the form of a patch, [`Patch::apply`] creates the changed
//! object. Guarantees:
//!
//! - A patch that fails changes nothing: the old object is not modified.
//! - Members that no operation names stay as they are, including the digits of numbers.
//! - The result is never nested deeper than [`limits::NESTING_DEPTH`].
//!
//! Left out: the condition is a query, which the engine evaluates. The engine also decides which
//! members may be patched (neither the id nor system properties), see [`Patch::top_level_names`].

mod pointer;

use crate::json::Number;
use crate::words::{did_you_mean, shortened};
use crate::{Error, Json, Object, Result, limits};
use pointer::{Node, Pointer};

/// A patch whose form has been checked.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The condition for the item, as query text (`FROM … WHERE …`). Not evaluated by this module.
    pub condition: Option<String>,
    operations: Vec<Operation>,
}

/// One operation and the path that it changes.
#[derive(Clone, Debug)]
struct Operation {
    path: Pointer,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    /// Sets a member of an object; inserts an element into an array.
    Add(Json),
    /// Sets a member of an object; overwrites an element of an array.
    Set(Json),
    /// Overwrites an existing value.
    Replace(Json),
    /// Removes an existing value.
    Remove,
    /// Adds to a number. A missing member counts as 0.
    Increment(Number),
    /// Removes the value at `from` and adds it at the path.
    Move { from: Pointer },
}

/// The result of one operation. The error is a message in the service's words.
type OperationResult<T> = std::result::Result<T, String>;

impl Patch {
    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns true if there are no operations. A patch from [`Patch::from_json`] has at least one.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Parses a patch: an object with `operations` and optionally `condition`, or the array of
    /// operations alone.
    ///
    /// # Errors
    /// 400 for any other form, for no operations, and for more than [`limits::PATCH_OPERATIONS`].
    pub fn from_json(json: &Json) -> Result<Patch> {
        let (operations, condition) = match json {
            Json::Array(operations) => (operations, None),
            Json::Object(body) => operations_and_condition(body).ok_or_else(|| {
                syntax_error().with_help(
                    "A patch has the array 'operations' and, if wanted, the text 'condition'.",
                )
            })?,
            _ => return Err(syntax_error().with_help("A patch is an array of operations.")),
        };
        if operations.is_empty() {
            return Err(syntax_error().with_help("It has no operations."));
        }
        // An oversized patch is refused before its operations are parsed.
        if operations.len() > limits::PATCH_OPERATIONS {
            let limit = limits::PATCH_OPERATIONS;
            return Err(Error::bad(format!(
                "The number of patch operations cannot exceed '{limit}'."
            ))
            .with_help(format!(
                "This one has {}: send them as several patches, or replace the item.",
                operations.len()
            )));
        }
        let mut parsed = Vec::with_capacity(operations.len());
        for (operation, number) in operations.iter().zip(1..) {
            let read = Operation::from_json(operation);
            parsed.push(read.ok_or_else(|| {
                syntax_error().with_help(format!(
                    "Operation {number}: {}",
                    problem_of_operation(operation)
                ))
            })?);
        }
        Ok(Patch {
            condition,
            operations: parsed,
        })
    }

    /// Returns the names of the item's top-level members that the patch reads, moves or changes.
    pub fn top_level_names(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().flat_map(|operation| {
            let from = match &operation.change {
                Change::Move { from } => Some(from.first()),
                _ => None,
            };
            std::iter::once(operation.path.first()).chain(from)
        })
    }

    /// Returns a copy of `object` with all operations applied in order.
    ///
    /// # Errors
    /// 400 with the number of the operation that failed, counted from 1, or if the result would be
    /// nested too deeply.
    pub fn apply(&self, object: &Object) -> Result<Object> {
        let mut patched = object.clone();
        for (operation, number) in self.operations.iter().zip(1..) {
            operation
                .apply(&mut patched)
                .map_err(|message| Error::bad(format!("For Operation({number}): {message}")))?;
        }
        // The item itself is one level above its members.
        let depth = 1 + depth_below(&patched);
        if depth > limits::NESTING_DEPTH {
            let limit = limits::NESTING_DEPTH;
            return Err(Error::bad(format!(
                "The item would be nested deeper than {limit} levels after the patch."
            )));
        }
        Ok(patched)
    }
}

/// Splits the object form of a patch. `None` for other members or members of other types.
fn operations_and_condition(body: &Object) -> Option<(&Vec<Json>, Option<String>)> {
    for (name, _) in body.iter() {
        if !["operations", "condition"].contains(&name) {
            return None;
        }
    }
    let condition = match body.get("condition") {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) => Some(text.clone()),
        Some(_) => return None,
    };
    match body.get("operations") {
        Some(Json::Array(operations)) => Some((operations, condition)),
        _ => None,
    }
}

impl Operation {
    /// Parses one operation; `None` if it is invalid. Members that the operation does not use are
    /// ignored, as RFC 6902 requires.
    fn from_json(json: &Json) -> Option<Operation> {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let path = Pointer::parse(text("path")?)?;
        let value = || json.get("value").cloned();
        let change = match text("op")? {
            "add" => Change::Add(value()?),
            "set" => Change::Set(value()?),
            "replace" => Change::Replace(value()?),
            "remove" => Change::Remove,
            "incr" => match value()? {
                Json::Number(by) => Change::Increment(by),
                _ => return None,
            },
            "move" => {
                let from = Pointer::parse(text("from")?)?;
                // RFC 6902: a value cannot be moved into one of its own children.
                if from.is_ancestor_of(&path) {
                    return None;
                }
                Change::Move { from }
            }
            _ => return None,
        };
        Some(Operation { path, change })
    }

    fn apply(&self, object: &mut Object) -> OperationResult<()> {
        let path = &self.path;
        match &self.change {
            Change::Add(value) => add(object, path, value.clone()),
            Change::Set(value) => set(object, path, value.clone()),
            Change::Replace(value) => replace(object, path, value.clone()),
            Change::Remove => remove(object, path).map(drop),
            Change::Increment(by) => increment(object, path, by),
            Change::Move { from } => {
                let value = remove(object, from)?;
                add(object, path, value)
            }
        }
    }
}

fn add(object: &mut Object, path: &Pointer, value: Json) -> OperationResult<()> {
    let parent = path
        .parent(object)
        .map_err(|missing| no_path("Add", missing))?;
    match parent {
        Node::Object(members) => members.set(path.last(), value),
        Node::Array(elements) => {
            let index = path.index_in(elements).ok_or_else(|| out_of_bounds(path))?;
            elements.insert(index, value);
        }
    }
    Ok(())
}

fn set(object: &mut Object, path: &Pointer, value: Json) -> OperationResult<()> {
    match parent_node(object, path)? {
        Node::Object(members) => members.set(path.last(), value),
        Node::Array(elements) => {
            let index = path.index_in(elements).ok_or_else(|| out_of_bounds(path))?;
            match elements.get_mut(index) {
                Some(element) => *element = value,
                // The index equals the length: the value becomes the last element.
                None => elements.push(value),
            }
        }
    }
    Ok(())
}

fn replace(object: &mut Object, path: &Pointer, value: Json) -> OperationResult<()> {
    *existing(object, path, "replaced")? = value;
    Ok(())
}

fn remove(object: &mut Object, path: &Pointer) -> OperationResult<Json> {
    // A missing value is an error with its own message, and `Vec::remove` panics.
    existing(object, path, "removed")?;
    let removed = match parent_node(object, path)? {
        Node::Object(members) => members.remove(path.last()),
        Node::Array(elements) => path.index_in(elements).map(|index| elements.remove(index)),
    };
    removed.ok_or_else(|| absent(path, "removed"))
}

/// Returns the object or array that contains the last segment of `path`.
fn parent_node<'a>(object: &'a mut Object, path: &Pointer) -> OperationResult<Node<'a>> {
    path.parent(object)
        .map_err(|missing| no_path("Given", missing))
}

/// Returns the value at `path`, which must exist. `to_be` completes the error message.
fn existing<'a>(
    object: &'a mut Object,
    path: &Pointer,
    to_be: &str,
) -> OperationResult<&'a mut Json> {
    match parent_node(object, path)? {
        Node::Object(members) => members
            .get_mut(path.last())
            .ok_or_else(|| absent(path, to_be)),
        Node::Array(elements) => {
            let index = path.index_in(elements).ok_or_else(|| out_of_bounds(path))?;
            elements.get_mut(index).ok_or_else(|| out_of_bounds(path))
        }
    }
}

fn increment(object: &mut Object, path: &Pointer, by: &Number) -> OperationResult<()> {
    let number = match parent_node(object, path)? {
        Node::Object(members) => members.get_mut(path.last()),
        Node::Array(elements) => {
            let index = path.index_in(elements).ok_or_else(|| out_of_bounds(path))?;
            elements.get_mut(index)
        }
    };
    match number {
        // A missing value counts as 0.
        None => set(object, path, Json::Number(by.clone())),
        Some(Json::Number(number)) => {
            *number = sum(number, by).ok_or_else(|| not_a_number(path))?;
            Ok(())
        }
        Some(_) => Err(not_a_number(path)),
    }
}

/// Returns `a + b`, exactly if both are 64-bit integers and the sum fits. `None` if the sum exceeds
/// the range of a double.
fn sum(a: &Number, b: &Number) -> Option<Number> {
    if let (Some(a), Some(b)) = (a.exact_integer(), b.exact_integer())
        && let Some(exact) = a.checked_add(b)
    {
        return Some(Number::from(exact));
    }
    let rounded = Number::from(a.as_f64() + b.as_f64());
    rounded.is_finite().then_some(rounded)
}

/// Returns the levels of arrays and objects below `object`; 0 if all members are primitive.
fn depth_below(object: &Object) -> usize {
    object
        .iter()
        .map(|(_, value)| depth(value))
        .max()
        .unwrap_or(0)
}

/// Returns the levels of arrays and objects of a value; 0 for a primitive value.
fn depth(json: &Json) -> usize {
    match json {
        Json::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Json::Object(members) => 1 + depth_below(members),
        _ => 0,
    }
}

/// Returns what is wrong with an operation that cannot be parsed, and how to mend it.
fn problem_of_operation(json: &Json) -> String {
    const OPERATIONS: [&str; 6] = ["add", "set", "replace", "remove", "incr", "move"];
    // The name of the operation decides what else it needs.
    let text = |name: &str| json.get(name).and_then(Json::as_str);
    let Some(op) = text("op") else {
        return "it has no 'op'; a patch operation is {\"op\": \"set\", \"path\": \"/name\", \
                \"value\": 1}."
            .to_owned();
    };
    if !OPERATIONS.contains(&op) {
        return format!(
            "the op '{}' is unknown.{} Known are {}.",
            shortened(op),
            did_you_mean(op, OPERATIONS),
            OPERATIONS.join(", ")
        );
    }
    // A path without a slash, or with dots, is the usual slip.
    for name in ["path", "from"] {
        let Some(path) = text(name) else { continue };
        if Pointer::parse(path).is_none() {
            let guess = format!("/{}", path.trim_matches('/').replace('.', "/"));
            return format!(
                "the {name} '{}' is no path: write '{}'.",
                shortened(path),
                shortened(&guess)
            );
        }
    }
    if text("path").is_none() {
        return format!("the op '{op}' needs a 'path', such as '/name'.");
    }
    // Name and paths are right, so the rest is what the operation lacks.
    match op {
        "move" if text("from").is_none() => "the op 'move' needs 'from', a path.".to_owned(),
        "move" => "a value cannot be moved into itself.".to_owned(),
        "incr" => "the op 'incr' needs a number as 'value'.".to_owned(),
        _ => format!("the op '{op}' needs a 'value'."),
    }
}

fn syntax_error() -> Error {
    Error::bad("Invalid patch request: check syntax of patch specification.")
}

fn no_path(operation: &str, missing: &str) -> String {
    format!(
        "{operation} Operation can only create a child object of an existing node(array or object) \
         and cannot create path recursively, no path found beyond: '{missing}'. Learn more: \
         https://aka.ms/cosmosdbpatchdocs Add an object at '{missing}' first."
    )
}

fn out_of_bounds(path: &Pointer) -> String {
    format!(
        "Index({}) to operate on is out of array bounds.",
        path.last()
    )
}

fn absent(path: &Pointer, to_be: &str) -> String {
    let note = if to_be == "removed" {
        " Note: it may also have been removed earlier in the transaction."
    } else {
        ""
    };
    let help = if to_be == "replaced" {
        " The op 'set' also adds what is absent."
    } else {
        ""
    };
    format!("Node({path}) to be {to_be} is absent.{note}{help}")
}

fn not_a_number(path: &Pointer) -> String {
    format!("Node({path}) is not a number. Only numbers are incremented: use the op 'set'.")
}
