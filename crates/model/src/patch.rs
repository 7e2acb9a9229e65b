//! Partial updates: a list of operations on one JSON object, as the service has them (JSON Patch without `copy` and
//! `test`, with `set` and `incr`).
//!
//! [`Patch::read`] checks a patch, [`Patch::apply`] makes a new object of an old one. Promises: a patch that fails leaves
//! nothing behind, since the old object is not touched; what no operation names stays as it is, digit for digit; the
//! result is never nested deeper than [`limits::NESTING_DEPTH`].
//!
//! Left out: the condition is a query, which others evaluate; what of an item may be patched (not its id, not its system
//! properties) is for them to say too, see [`Patch::roots`].

mod pointer;

use crate::json::Number;
use crate::{Error, Json, Object, Result, limits};
use pointer::{Node, Pointer};

/// A patch whose form has been checked.
#[derive(Clone, Debug)]
pub struct Patch {
    /// `FROM … WHERE …`: what must hold for the item. Not looked at here.
    pub condition: Option<String>,
    operations: Vec<Operation>,
}

/// One operation and where it works.
#[derive(Clone, Debug)]
struct Operation {
    path: Pointer,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    /// Into an object; between the elements of an array.
    Add(Json),
    /// Into an object; over an element of an array.
    Set(Json),
    /// Over what is there.
    Replace(Json),
    Remove,
    Increment(Number),
    Move {
        from: Pointer,
    },
}

/// Why an operation cannot be done, in the service's words.
type Told<T> = std::result::Result<T, String>;

impl Patch {
    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it has none; one that was read has some.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Reads a patch: an object with `operations` and perhaps `condition`, or the bare array of operations.
    ///
    /// # Errors
    /// 400 for anything else, for no operations or more than [`limits::PATCH_OPERATIONS`].
    pub fn from_json(json: &Json) -> Result<Patch> {
        let (operations, condition) = match json {
            Json::Array(operations) => (operations, None),
            Json::Object(body) => {
                if body
                    .iter()
                    .any(|(name, _)| !["operations", "condition"].contains(&name))
                {
                    return Err(syntax());
                }
                let condition = match body.get("condition") {
                    None | Some(Json::Null) => None,
                    Some(Json::String(text)) => Some(text.clone()),
                    Some(_) => return Err(syntax()),
                };
                let Some(Json::Array(operations)) = body.get("operations") else {
                    return Err(syntax());
                };
                (operations, condition)
            }
            _ => return Err(syntax()),
        };
        if operations.is_empty() {
            return Err(syntax());
        }
        if operations.len() > limits::PATCH_OPERATIONS {
            let most = limits::PATCH_OPERATIONS;
            return Err(Error::bad(format!(
                "The number of patch operations cannot exceed '{most}'."
            )));
        }
        let operations = operations
            .iter()
            .map(|json| Operation::read(json).ok_or_else(syntax))
            .collect::<Result<_>>()?;
        Ok(Patch {
            condition,
            operations,
        })
    }

    /// The names of the object's own members that the patch takes from, changes or looks into.
    pub fn top_level_names(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().flat_map(|operation| {
            let from = match &operation.change {
                Change::Move { from } => Some(from.root()),
                _ => None,
            };
            std::iter::once(operation.path.root()).chain(from)
        })
    }

    /// The object after all operations, in order.
    ///
    /// # Errors
    /// 400 with the number of the operation that cannot be done, counted from 1.
    pub fn apply(&self, object: &Object) -> Result<Object> {
        let mut patched = object.clone();
        for (operation, number) in self.operations.iter().zip(1..) {
            operation
                .apply(&mut patched)
                .map_err(|told| Error::bad(format!("For Operation({number}): {told}")))?;
        }
        let deepest = patched
            .iter()
            .map(|(_, value)| levels(value))
            .max()
            .unwrap_or(0);
        if deepest >= limits::NESTING_DEPTH {
            let most = limits::NESTING_DEPTH;
            return Err(Error::bad(format!(
                "The item would be nested deeper than {most} levels after the patch."
            )));
        }
        Ok(patched)
    }
}

impl Operation {
    /// `None` for what is no operation. Members that the operation has no use for are ignored, as JSON Patch wants it.
    fn read(json: &Json) -> Option<Operation> {
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let path = Pointer::read(text("path")?)?;
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
                let from = Pointer::read(text("from")?)?;
                if from.holds(&path) {
                    return None;
                }
                Change::Move { from }
            }
            _ => return None,
        };
        Some(Operation { path, change })
    }

    fn apply(&self, object: &mut Object) -> Told<()> {
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

fn add(object: &mut Object, path: &Pointer, value: Json) -> Told<()> {
    match path
        .parent(object)
        .map_err(|missing| no_path("Add", missing))?
    {
        Node::Object(members) => members.set(path.last(), value),
        Node::Array(elements) => {
            let at = path.place_in(elements).ok_or_else(|| out_of_bounds(path))?;
            elements.insert(at, value);
        }
    }
    Ok(())
}

fn set(object: &mut Object, path: &Pointer, value: Json) -> Told<()> {
    match path
        .parent(object)
        .map_err(|missing| no_path("Given", missing))?
    {
        Node::Object(members) => members.set(path.last(), value),
        Node::Array(elements) => {
            let at = path.place_in(elements).ok_or_else(|| out_of_bounds(path))?;
            match elements.get_mut(at) {
                Some(element) => *element = value,
                None => elements.push(value),
            }
        }
    }
    Ok(())
}

fn replace(object: &mut Object, path: &Pointer, value: Json) -> Told<()> {
    *existing(object, path, "replaced")? = value;
    Ok(())
}

fn remove(object: &mut Object, path: &Pointer) -> Told<Json> {
    // What is not there is found out before anything is taken.
    existing(object, path, "removed")?;
    match path
        .parent(object)
        .map_err(|missing| no_path("Given", missing))?
    {
        Node::Object(members) => members.remove(path.last()),
        Node::Array(elements) => path.place_in(elements).map(|at| elements.remove(at)),
    }
    .ok_or_else(|| absent(path, "removed"))
}

/// What the path leads to.
fn existing<'a>(object: &'a mut Object, path: &Pointer, to_be: &str) -> Told<&'a mut Json> {
    match path
        .parent(object)
        .map_err(|missing| no_path("Given", missing))?
    {
        Node::Object(members) => members
            .get_mut(path.last())
            .ok_or_else(|| absent(path, to_be)),
        Node::Array(elements) => {
            let at = path.place_in(elements);
            at.and_then(|at| elements.get_mut(at))
                .ok_or_else(|| out_of_bounds(path))
        }
    }
}

fn increment(object: &mut Object, path: &Pointer, by: &Number) -> Told<()> {
    let number = match path
        .parent(object)
        .map_err(|missing| no_path("Given", missing))?
    {
        Node::Object(members) => members.get_mut(path.last()),
        Node::Array(elements) => {
            let at = path.place_in(elements).ok_or_else(|| out_of_bounds(path))?;
            elements.get_mut(at)
        }
    };
    match number {
        // What is missing counts as nothing.
        None => set(object, path, Json::Number(by.clone())),
        Some(Json::Number(number)) => {
            *number = sum(number, by).ok_or_else(|| not_a_number(path))?;
            Ok(())
        }
        Some(_) => Err(not_a_number(path)),
    }
}

/// Whole numbers are added exactly as long as they fit. `None` beyond the range of a double.
fn sum(a: &Number, b: &Number) -> Option<Number> {
    let exact = a
        .exact_integer()
        .zip(b.exact_integer())
        .and_then(|(a, b)| a.checked_add(b));
    let number = exact.map_or_else(|| Number::from(a.as_f64() + b.as_f64()), Number::from);
    number.is_finite().then_some(number)
}

/// Levels of arrays and objects.
fn levels(json: &Json) -> usize {
    match json {
        Json::Array(elements) => 1 + elements.iter().map(levels).max().unwrap_or(0),
        Json::Object(members) => {
            1 + members
                .iter()
                .map(|(_, value)| levels(value))
                .max()
                .unwrap_or(0)
        }
        _ => 0,
    }
}

fn syntax() -> Error {
    Error::bad("Invalid patch request: check syntax of patch specification.")
}

fn no_path(operation: &str, missing: &str) -> String {
    format!(
        "{operation} Operation can only create a child object of an existing node(array or object) and cannot create \
         path recursively, no path found beyond: '{missing}'. Learn more: https://aka.ms/cosmosdbpatchdocs"
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
    format!("Node({path}) to be {to_be} is absent.{note}")
}

fn not_a_number(path: &Pointer) -> String {
    format!("Node({path}) is not a number.")
}
