//! What a frame or an expression stands for in terms of the item: a path of it, an object made of paths, or neither.
//!
//! ORDER BY and the index condition speak of paths of the item; aliases of joins and columns of subqueries are
//! followed back to them.

use super::Binder;
use crate::bound::{self, Block, Expr, Input, Output};
use crate::condition::{Path, Step};

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Mapping {
    Unknown,
    Path(Rooted),
    Object(Vec<(String, Mapping)>),
}

/// A path from the root of the item.
#[derive(Clone, Debug)]
pub(crate) struct Rooted {
    pub steps: Vec<Step>,
    /// A step was an array index; the path says any element instead.
    pub widened: bool,
}

impl Rooted {
    pub fn path(&self) -> Path {
        Path(self.steps.clone())
    }

    /// The path if it names exactly this value.
    pub fn exact_path(&self) -> Option<Path> {
        (!self.widened).then(|| self.path())
    }
}

impl Mapping {
    /// The item itself.
    pub fn root() -> Self {
        Mapping::Path(Rooted {
            steps: Vec::new(),
            widened: false,
        })
    }

    pub fn is_root(&self) -> bool {
        matches!(self, Mapping::Path(rooted) if rooted.steps.is_empty())
    }

    /// Any element of the array that this is.
    pub fn element(self) -> Self {
        match self {
            Mapping::Path(mut rooted) => {
                rooted.steps.push(Step::Element);
                Mapping::Path(rooted)
            }
            _ => Mapping::Unknown,
        }
    }

    fn step(self, step: &bound::Step) -> Self {
        match (self, step) {
            (Mapping::Path(mut rooted), bound::Step::Name(name)) => {
                rooted.steps.push(Step::Name(name.clone()));
                Mapping::Path(rooted)
            }
            (Mapping::Path(mut rooted), bound::Step::Index(_)) => {
                rooted.steps.push(Step::Element);
                rooted.widened = true;
                Mapping::Path(rooted)
            }
            (Mapping::Object(members), bound::Step::Name(name)) => members
                .into_iter()
                .find(|(n, _)| n == name)
                .map_or(Mapping::Unknown, |(_, m)| m),
            _ => Mapping::Unknown,
        }
    }
}

/// What an expression stands for, given what the frames around it stand for.
pub(crate) fn of(expr: &Expr, frames: &[Mapping]) -> Mapping {
    match expr {
        Expr::Slot(up) => {
            let frame = frames
                .len()
                .checked_sub(up + 1)
                .and_then(|at| frames.get(at));
            frame.cloned().unwrap_or(Mapping::Unknown)
        }
        Expr::Path { base, steps } => steps.iter().fold(of(base, frames), Mapping::step),
        Expr::Object(members) => Mapping::Object(
            members
                .iter()
                .map(|(name, e)| (name.clone(), of(e, frames)))
                .collect(),
        ),
        _ => Mapping::Unknown,
    }
}

/// What the rows of a subquery stand for.
pub(crate) fn of_block(block: &Block, frames: &[Mapping]) -> Mapping {
    if block.grouping.is_some() {
        return Mapping::Unknown;
    }
    let mut inner = frames.to_vec();
    for source in &block.sources {
        inner.push(of_source(source, &inner));
    }
    match &block.output {
        Output::Value(e) => of(e, &inner),
        Output::Members(members) => Mapping::Object(
            members
                .iter()
                .map(|(name, e)| (name.clone(), of(e, &inner)))
                .collect(),
        ),
    }
}

/// What the frame of a source stands for.
pub(crate) fn of_source(source: &bound::Source, frames: &[Mapping]) -> Mapping {
    let whole = match &source.input {
        Input::Expr(e) => of(e, frames),
        Input::Subquery(block) => of_block(block, frames),
    };
    if source.iterate {
        whole.element()
    } else {
        whole
    }
}

impl Binder<'_> {
    pub(super) fn mapping(&self, expr: &Expr) -> Mapping {
        of(expr, &self.frames)
    }
}
