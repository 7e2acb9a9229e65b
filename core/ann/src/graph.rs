//! Graphs that are read.

use crate::ENTRY;
use crate::bridge::{Answer, Desk, Nodes, Request, Server, Strategy, drive};
use crate::codes::Codes;
use crate::quantiser::Quantiser;
use crate::tables::Distances;
use diskann::graph::config::{Builder, MaxDegree, PruneKind};
use diskann::graph::search::Knn;
use diskann::graph::{Config, DiskANNIndex};
use diskann::neighbor::{BackInserter, Neighbor};
use diskann::provider::DefaultContext;
use orrery_model::{Error, Result};

/// The adjacency lists as they are stored.
pub trait Lists: Send + Sync {
    /// Returns the neighbours of a node; none if the node has no list.
    ///
    /// # Errors
    /// Those of the store.
    fn neighbours(&self, node: u64) -> Result<Vec<u64>>;
}

/// The shape of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The neighbours of a node after its list was pruned. A list has up to 1.3 times as many
    /// before it is pruned again.
    pub degree: usize,
    /// The nodes that a search keeps while a node is linked or unlinked.
    pub build_list_size: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            degree: 32,
            build_list_size: 100,
        }
    }
}

impl Shape {
    /// Creates the algorithms of graphs of this shape. `scratch` keeps memory between operations.
    pub(crate) fn index(self, scratch: bool) -> Result<DiskANNIndex<Desk>> {
        let degree = self.degree.clamp(2, 1000);
        let list_size = self.build_list_size.clamp(2, 10_000);
        // All graphs are linked by the squared Euclidean distance, for which this rule is made.
        let rule = PruneKind::TriangleInequality;
        let mut builder = Builder::new(degree, MaxDegree::default_slack(), list_size, rule);
        // Where some vectors are near to nearly all others, the rule keeps these and few more; the
        // rest of a list is then filled with the nearest nodes.
        builder.saturate_after_prune(true);
        let config: Config = builder.build().map_err(Error::internal)?;
        let threads = if scratch {
            std::num::NonZeroUsize::new(1)
        } else {
            None
        };
        Ok(DiskANNIndex::new(config, Desk::default(), threads))
    }
}

/// A graph that is read.
#[derive(Clone, Copy)]
pub struct GraphView<'a> {
    /// The quantiser that made the codes.
    pub quantiser: &'a Quantiser,
    /// The codes of the nodes.
    pub codes: &'a Codes,
    /// The lists of the nodes.
    pub lists: &'a dyn Lists,
}

/// The result of a search, and what it cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The nodes near the vector with their distances, ascending by distance and node.
    pub nodes: Vec<(f32, u64)>,
    /// Adjacency lists that were read.
    pub lists_read: u64,
    /// Codes that were compared with the vector.
    pub compared: u64,
}

impl GraphView<'_> {
    /// Finds up to `list_size` nodes near a vector. Nodes without a code are skipped.
    ///
    /// # Errors
    /// Those of the lists.
    pub fn search(&self, vector: &[f32], list_size: usize) -> Result<Found> {
        if list_size == 0 || self.codes.is_empty() {
            return Ok(Found::default());
        }
        let list_size = list_size.min(self.codes.len());
        let index = Shape::default().index(false)?;
        let mut reader = Reader {
            graph: self,
            distances: self.quantiser.distances(vector),
            lists_read: 0,
            compared: 0,
        };
        let mut nodes = vec![Neighbor::<u64>::default(); list_size];
        let mut output = BackInserter::new(&mut nodes);
        let parameters = Knn::new(list_size, None).map_err(Error::internal)?;
        let context = DefaultContext;
        let search = index.search_with(parameters, &Strategy, Nodes, &context, (), &mut output);
        let stats = drive(&index.data_provider, search, &mut reader)?;

        nodes.truncate(stats.result_count as usize);
        let mut nodes: Vec<_> = nodes
            .into_iter()
            .map(|found| (*found.distance(), *found.id()))
            .collect();
        nodes.sort_unstable_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
        Ok(Found {
            nodes,
            lists_read: reader.lists_read,
            compared: reader.compared,
        })
    }
}

/// Answers the requests of a search.
struct Reader<'a> {
    graph: &'a GraphView<'a>,
    distances: Distances,
    lists_read: u64,
    compared: u64,
}

impl Server for Reader<'_> {
    fn answer(&mut self, request: Request) -> Result<Answer> {
        match request {
            Request::List(node) => {
                self.lists_read += 1;
                Ok(Answer::List(self.graph.lists.neighbours(node)?))
            }
            Request::Distances(nodes) => {
                let mut found = Vec::with_capacity(nodes.len());
                for node in nodes {
                    let code = match node {
                        ENTRY => Some(self.graph.quantiser.coder().entry_code()),
                        _ => self.graph.codes.get(node),
                    };
                    if let Some(code) = code {
                        found.push((node, self.distances.to(code)));
                    }
                }
                self.compared += found.len() as u64;
                Ok(Answer::Distances(found))
            }
            Request::LiveList(_) | Request::Vectors(_) | Request::SetList(..) => {
                Err(Error::internal("a search wants to change the graph"))
            }
        }
    }
}
