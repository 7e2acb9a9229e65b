//! The part of the item that a frame or an expression stands for: a path, an object made of paths,
//! or neither.
//!
//! ORDER BY and the index condition need paths of the item. Aliases of joins and columns of
//! subqueries are traced back to such paths here.

use super::Binder;
use crate::bound::{self, Block, Expr, Input, Output};
use crate::condition::{Path, Step};

/// The origin of a value.
#[derive(Clone, Debug)]
pub(crate) enum Mapping {
    /// Neither a path of the item nor an object of such paths.
    Unknown,
    /// The value at a path of the item.
    Path(ItemPath),
    /// An object with these members.
    Object(Vec<(String, Mapping)>),
}

/// A path from the root of the item.
#[derive(Clone, Debug)]
pub(crate) struct ItemPath {
    pub steps: Vec<Step>,
    /// A step was an array index, for which `steps` contains [`Step::Element`].
    pub is_widened: bool,
    /// A source with IN iterates an array on the path, so an item has several values.
    pub is_iterated: bool,
}

impl ItemPath {
    /// Returns the path. If it is widened the path is that of every element.
    pub(crate) fn path(&self) -> Path {
        Path(self.steps.clone())
    }

    /// Returns the path unless it is widened.
    pub(crate) fn exact(&self) -> Option<Path> {
        if self.is_widened {
            return None;
        }
        Some(self.path())
    }
}

impl Mapping {
    /// Returns the mapping of the item itself.
    pub(crate) fn root() -> Self {
        Mapping::Path(ItemPath {
            steps: Vec::new(),
            is_widened: false,
            is_iterated: false,
        })
    }

    /// Returns true for the item itself.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self, Mapping::Path(path) if path.steps.is_empty())
    }

    /// Returns the mapping of an element of an array with this mapping.
    pub(crate) fn element(self) -> Self {
        match self {
            Mapping::Path(mut path) => {
                path.steps.push(Step::Element);
                path.is_iterated = true;
                Mapping::Path(path)
            }
            _ => Mapping::Unknown,
        }
    }

    /// Returns the mapping of the value that one step of a path leads to.
    fn step(self, step: &bound::Step) -> Self {
        match (self, step) {
            (Mapping::Path(mut path), bound::Step::Name(name)) => {
                path.steps.push(Step::Name(name.clone()));
                Mapping::Path(path)
            }
            (Mapping::Path(mut path), bound::Step::Index(_)) => {
                path.steps.push(Step::Element);
                path.is_widened = true;
                Mapping::Path(path)
            }
            (Mapping::Object(members), bound::Step::Name(name)) => members
                .into_iter()
                .find(|(n, _)| n == name)
                .map_or(Mapping::Unknown, |(_, member)| member),
            _ => Mapping::Unknown,
        }
    }
}

/// Returns the mapping of an expression. `frames` are the mappings of the frames that it sees.
pub(crate) fn mapping_of(expr: &Expr, frames: &[Mapping]) -> Mapping {
    match expr {
        Expr::Slot(up) => {
            let index = frames.len().checked_sub(up + 1);
            let frame = index.and_then(|index| frames.get(index));
            frame.cloned().unwrap_or(Mapping::Unknown)
        }
        Expr::Path { base, steps } => steps.iter().fold(mapping_of(base, frames), Mapping::step),
        Expr::Object(members) => mapping_of_members(members, frames),
        _ => Mapping::Unknown,
    }
}

/// Returns the mapping of the rows of a subquery.
pub(crate) fn mapping_of_block(block: &Block, frames: &[Mapping]) -> Mapping {
    if block.grouping.is_some() {
        return Mapping::Unknown;
    }
    let inner = frames_of(block, frames);
    match &block.output {
        Output::Value(value) => mapping_of(value, &inner),
        Output::Members(members) => mapping_of_members(members, &inner),
    }
}

/// Returns the mappings of the frames outside a block, then those of its sources.
pub(crate) fn frames_of(block: &Block, outer: &[Mapping]) -> Vec<Mapping> {
    let mut frames = outer.to_vec();
    for source in &block.sources {
        frames.push(mapping_of_source(source, &frames));
    }
    frames
}

/// Returns the mapping of the frame of a source.
pub(crate) fn mapping_of_source(source: &bound::Source, frames: &[Mapping]) -> Mapping {
    let input = match &source.input {
        Input::Expr(expr) => mapping_of(expr, frames),
        Input::Subquery(block) => mapping_of_block(block, frames),
    };
    if source.iterate {
        input.element()
    } else {
        input
    }
}

fn mapping_of_members(members: &[(String, Expr)], frames: &[Mapping]) -> Mapping {
    let mapped = members
        .iter()
        .map(|(name, member)| (name.clone(), mapping_of(member, frames)));
    Mapping::Object(mapped.collect())
}

impl Binder<'_> {
    /// Returns the mapping of an expression that sees the current frames.
    pub(super) fn mapping(&self, expr: &Expr) -> Mapping {
        mapping_of(expr, &self.frames)
    }

    /// Returns the path of the item that an expression stands for, if it stands for exactly one.
    pub(super) fn exact_path(&self, expr: &Expr) -> Option<Path> {
        match self.mapping(expr) {
            Mapping::Path(path) => path.exact(),
            _ => None,
        }
    }
}
