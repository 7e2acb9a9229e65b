//! Changes of a graph, gathered in memory.

use crate::ENTRY;
use crate::bridge::{Answer, Desk, Removal, Request, Server, Strategy, Vectors, drive};
use crate::codes::Codes;
use crate::graph::{Lists, Shape};
use crate::metric::Metric;
use crate::quantiser::{Origin, Quantiser};
use crate::random::mixed;
use diskann::graph::{DiskANNIndex, InplaceDeleteMethod};
use diskann::provider::DefaultContext;
use orrery_model::{Error, Result};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

/// Edges that replace one edge to a removed node, as the paper about IP-DiskANN has it.
const REPLACEMENTS: usize = 3;

/// Nodes near a removed one among which the replacements are chosen.
const REPLACEMENT_CANDIDATES: usize = 50;

/// The width of a blur beside the spread of the centroids.
const BLUR_SHARE: f32 = 1e-4;

/// The smallest width of a blur, for a quantiser that was trained on equal vectors.
const BLUR_MIN: f32 = 1e-6;

/// The width of a blur of normalised vectors, whose distances are rounded at about 1e-7.
const BLUR_OF_NORMALISED: f32 = 3e-3;

/// Components of a blur.
const BLUR_COMPONENTS: usize = 4;

/// Changes of a graph, gathered in memory over the stored lists and codes, which stay as they are.
///
/// Edges are chosen by the squared Euclidean distances of the vectors that codes stand for; for the
/// inner product these are normalised first, because short vectors would be near to all others.
/// After an error an edit is incomplete and must be dropped.
pub struct GraphEdit<'a> {
    /// Made by the first change.
    index: Option<DiskANNIndex<Desk>>,
    shape: Shape,
    state: State<'a>,
}

/// The changes of an edit, each sorted by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphChanges {
    /// The new lists, ascending; an empty one is removed. That of [`ENTRY`] is among them.
    pub lists: BTreeMap<u64, Vec<u64>>,
    /// The new codes; `None` for a removed one.
    pub codes: BTreeMap<u64, Option<Vec<u8>>>,
}

impl<'a> GraphEdit<'a> {
    /// Begins an edit of a graph.
    pub fn new(
        quantiser: &'a Quantiser,
        codes: &'a Codes,
        lists: &'a dyn Lists,
        shape: Shape,
    ) -> Self {
        let blur = Blur::of(quantiser);
        let state = State {
            quantiser,
            codes,
            lists,
            blur,
            read: FxHashMap::default(),
            changed_lists: FxHashMap::default(),
            changed_codes: BTreeMap::new(),
            origin: quantiser.coder().origin(quantiser.coder().entry_code()),
            origin_node: ENTRY,
        };
        Self {
            index: None,
            shape,
            state,
        }
    }

    /// Links a node with its vector. A node that is linked already is linked anew.
    ///
    /// # Errors
    /// Those of the lists; an internal error for [`ENTRY`].
    pub fn link(&mut self, node: u64, vector: &[f32]) -> Result<()> {
        if node == ENTRY {
            return Err(Error::internal("the entry of a graph cannot be linked"));
        }
        if self.state.is_linked(node)? {
            self.unlink(node)?;
        }
        let code = self.state.quantiser.encode(vector);
        self.state.set_origin(node, &code);
        self.state.changed_codes.insert(node, Some(code));
        let index = made(&mut self.index, self.shape)?;
        let context = DefaultContext;
        let insert = index.insert(&Strategy, &context, &node, ());
        drive(&index.data_provider, insert, &mut self.state)?;
        let degree = index.config.pruned_degree().get();
        self.state.enter(node, degree)
    }

    /// Removes a node and repairs the lists that lead to it. A node that is not linked is left
    /// alone.
    ///
    /// Some lists may still name the node afterwards; they lose it when they change, and searches
    /// skip it because it has no code. If the node has a list and no code, its lists are sought
    /// near one of its neighbours.
    ///
    /// # Errors
    /// Those of the lists.
    pub fn unlink(&mut self, node: u64) -> Result<()> {
        if node == ENTRY {
            return Ok(());
        }
        let neighbours = self.state.live_list(node)?;
        let known = self.state.code(node).map(<[u8]>::to_vec);
        let near = neighbours.first().and_then(|&near| self.state.code(near));
        let Some(code) = known.or_else(|| near.map(<[u8]>::to_vec)) else {
            return self.state.drop_list(node);
        };
        // Without a code of its own the algorithm would not see the node in any list.
        self.state.changed_codes.insert(node, Some(code.clone()));
        self.state.set_origin(node, &code);
        let index = made(&mut self.index, self.shape)?;
        let list_size = index.config.l_build().get();
        let method = InplaceDeleteMethod::VisitedAndTopK {
            k_value: REPLACEMENT_CANDIDATES.min(list_size),
            l_value: list_size,
        };
        let context = DefaultContext;
        let removal = Removal { node };
        let delete = index.inplace_delete(removal, &context, &node, REPLACEMENTS, method);
        drive(&index.data_provider, delete, &mut self.state)?;
        self.state.changed_codes.insert(node, None);
        self.state.leave(node, &neighbours)
    }

    /// Returns what changed.
    pub fn into_changes(self) -> GraphChanges {
        let State {
            read,
            changed_lists,
            changed_codes,
            ..
        } = self.state;
        let differs = |node: &u64, list: &Vec<u64>| {
            let stored = read.get(node).map(|stored| {
                let mut stored = stored.clone();
                stored.sort_unstable();
                stored
            });
            stored.as_ref() != Some(list)
        };
        let lists = changed_lists
            .into_iter()
            .filter(|(node, list)| differs(node, list));
        GraphChanges {
            lists: lists.collect(),
            codes: changed_codes,
        }
    }
}

/// Makes the algorithms of a graph if there are none yet.
fn made(index: &mut Option<DiskANNIndex<Desk>>, shape: Shape) -> Result<&DiskANNIndex<Desk>> {
    if index.is_none() {
        *index = Some(shape.index(true)?);
    }
    index
        .as_ref()
        .ok_or_else(|| Error::internal("a graph has no algorithms"))
}

/// The graph as the edit sees it: its changes over what is stored.
struct State<'a> {
    quantiser: &'a Quantiser,
    codes: &'a Codes,
    lists: &'a dyn Lists,
    blur: Blur,
    /// Stored lists that were read.
    read: FxHashMap<u64, Vec<u64>>,
    changed_lists: FxHashMap<u64, Vec<u64>>,
    changed_codes: BTreeMap<u64, Option<Vec<u8>>>,
    /// The code of the node that the algorithm is about.
    origin: Box<dyn Origin + 'a>,
    origin_node: u64,
}

impl State<'_> {
    fn set_origin(&mut self, node: u64, code: &[u8]) {
        self.origin = self.quantiser.coder().origin(code);
        self.origin_node = node;
    }

    /// Returns the distance from the node that the algorithm is about.
    fn distance(&self, node: u64, code: &[u8]) -> f32 {
        self.origin.squared_distance(code) + self.blur.squared_distance(self.origin_node, node)
    }

    fn code(&self, node: u64) -> Option<&[u8]> {
        if node == ENTRY {
            return Some(self.quantiser.coder().entry_code());
        }
        match self.changed_codes.get(&node) {
            Some(changed) => changed.as_deref(),
            None => self.codes.get(node),
        }
    }

    /// Returns the list of a node, from the changes, else as it is stored.
    fn list(&mut self, node: u64) -> Result<&[u64]> {
        if let Some(list) = self.changed_lists.get(&node) {
            return Ok(list);
        }
        Ok(match self.read.entry(node) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(place) => place.insert(self.lists.neighbours(node)?),
        })
    }

    fn live_list(&mut self, node: u64) -> Result<Vec<u64>> {
        let mut list = self.list(node)?.to_vec();
        list.retain(|&neighbour| self.code(neighbour).is_some());
        Ok(list)
    }

    /// Makes a new node one of those at which searches begin, while these are few. Later the nodes
    /// of the smallest mixed numbers stay: a random sample of all, which seldom changes.
    fn enter(&mut self, node: u64, degree: usize) -> Result<()> {
        let mut list = self.live_list(ENTRY)?;
        if list.contains(&node) {
            return Ok(());
        }
        list.push(node);
        if list.len() > degree {
            list.sort_unstable_by_key(|&node| mixed(node));
            list.truncate(degree);
            if !list.contains(&node) {
                return Ok(());
            }
        }
        self.set_list(ENTRY, list);
        Ok(())
    }

    /// Replaces a removed node among those at which searches begin by one of its neighbours, or by
    /// any node if there would be none.
    fn leave(&mut self, node: u64, neighbours: &[u64]) -> Result<()> {
        if !self.list(ENTRY)?.contains(&node) {
            return Ok(());
        }
        let mut list = self.live_list(ENTRY)?;
        let others = neighbours.iter().copied();
        let successor = others
            .filter(|other| *other != node && !list.contains(other))
            .min_by_key(|&other| mixed(other));
        list.extend(successor);
        if list.is_empty() {
            let stored = self.codes.iter().map(|(node, _)| node);
            let nodes = stored.chain(self.changed_codes.keys().copied());
            list.extend(nodes.filter(|&node| self.code(node).is_some()).min());
        }
        self.set_list(ENTRY, list);
        Ok(())
    }

    /// Returns true if the node has a list or is one of those at which searches begin.
    fn is_linked(&mut self, node: u64) -> Result<bool> {
        Ok(!self.list(node)?.is_empty() || self.list(ENTRY)?.contains(&node))
    }

    /// Removes the list of a node without repairing others.
    fn drop_list(&mut self, node: u64) -> Result<()> {
        if !self.list(node)?.is_empty() {
            self.set_list(node, Vec::new());
        }
        self.leave(node, &[])
    }

    fn set_list(&mut self, node: u64, mut neighbours: Vec<u64>) {
        neighbours.sort_unstable();
        neighbours.dedup();
        self.changed_lists.insert(node, neighbours);
    }

    fn distances(&self, nodes: &[u64]) -> Vec<(u64, f32)> {
        let mut found = Vec::with_capacity(nodes.len());
        for &node in nodes {
            if let Some(code) = self.code(node) {
                found.push((node, self.distance(node, code)));
            }
        }
        found
    }

    fn vectors(&self, nodes: &[u64]) -> Vectors {
        let mut vectors = Vectors::default();
        for &node in nodes {
            if let Some(code) = self.code(node) {
                vectors.push(node, |components| {
                    self.quantiser.coder().append_decoded(code, components);
                    components.extend(self.blur.at(node));
                });
            }
        }
        vectors
    }
}

impl Server for State<'_> {
    fn answer(&mut self, request: Request) -> Result<Answer> {
        Ok(match request {
            Request::List(node) => Answer::List(self.list(node)?.to_vec()),
            Request::LiveList(node) => Answer::List(self.live_list(node)?),
            Request::Distances(nodes) => Answer::Distances(self.distances(&nodes)),
            Request::Vectors(nodes) => Answer::Vectors(self.vectors(&nodes)),
            Request::SetList(node, neighbours) => {
                self.set_list(node, neighbours);
                Answer::Done
            }
        })
    }
}

/// Small additional components of vectors, which depend on the node alone.
///
/// The rule that prunes lists keeps one of several equal vectors, and then no edge would lead to
/// the others. With the blur, nodes of equal codes are different points close together; beside
/// distances of different codes it is too small to count.
struct Blur {
    width: f32,
}

impl Blur {
    fn of(quantiser: &Quantiser) -> Self {
        let width = match quantiser.metric() {
            Metric::DotProduct => BLUR_OF_NORMALISED,
            Metric::Cosine | Metric::Euclidean => {
                (quantiser.coder().spread() * BLUR_SHARE).max(BLUR_MIN)
            }
        };
        Self { width }
    }

    /// Returns the additional components of a node, each from 0 to the width.
    fn at(&self, node: u64) -> [f32; BLUR_COMPONENTS] {
        let bits = mixed(node);
        std::array::from_fn(|component| {
            let part = (bits >> (16 * component)) as u16;
            f32::from(part) / f32::from(u16::MAX) * self.width
        })
    }

    fn squared_distance(&self, left: u64, right: u64) -> f32 {
        let components = self.at(left).into_iter().zip(self.at(right));
        components
            .map(|(left, right)| (left - right) * (left - right))
            .sum()
    }
}
