//! The bridge to the crate `diskann`, whose algorithms are async and own their data.
//!
//! The crate's data provider must be `'static`, and the data of a graph is borrowed. So the
//! provider, [`Desk`], has no data: an algorithm asks at the desk and waits, and [`drive`], which
//! polls it, answers from the borrowed data and polls again. An algorithm is thereby a coroutine.
//!
//! ```text
//! drive            future of diskann         accessor              Server (borrowed data)
//!   ├── poll ────────────▶ search ── expand ────▶ ask: List(7)
//!   │◀─────── Pending ───────┴──────────────────────┘
//!   ├── answer List(7) ─────────────────────────────────────────────▶ [3, 9, 12]
//!   ├── poll ────────────▶ search ── expand ────▶ ask: Distances([3, 12]) …
//! ```

use diskann::error::Infallible;
use diskann::graph::glue::{
    HybridPredicate, InplaceDeleteStrategy, InsertStrategy, PruneAccessor, PruneStrategy,
    SearchAccessor, SearchPostProcess, SearchStrategy,
};
use diskann::graph::workingset::View;
use diskann::graph::{AdjacencyList, SearchOutputBuffer};
use diskann::neighbor::Neighbor;
use diskann::provider::{
    DataProvider, DefaultContext, Delete, ElementStatus, HasId, NeighborAccessor,
    NeighborAccessorMut, Neighbors, NoopGuard, SetElement,
};
use diskann::{ANNError, ANNResult};
use diskann_utils::Reborrow;
use diskann_utils::future::SendFuture;
use diskann_vector::DistanceFunction;
use orrery_model::{Error, Result};
use rustc_hash::FxHashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::ENTRY;
use crate::metric::squared_distance;

/// A request of an algorithm.
pub(crate) enum Request {
    /// The neighbours of a node, as they are.
    List(u64),
    /// The neighbours of a node that are not removed.
    LiveList(u64),
    /// The distances of nodes from the vector that the algorithm is about.
    Distances(Vec<u64>),
    /// The vectors of nodes.
    Vectors(Vec<u64>),
    /// The list of a node is replaced.
    SetList(u64, Vec<u64>),
}

/// The answer to a request. Nodes without a code are left out.
pub(crate) enum Answer {
    List(Vec<u64>),
    Distances(Vec<(u64, f32)>),
    Vectors(Vectors),
    Done,
}

/// The data that requests are answered from.
pub(crate) trait Server {
    fn answer(&mut self, request: Request) -> Result<Answer>;
}

/// Runs an algorithm to its end. Its requests are answered by `server`.
pub(crate) fn drive<T>(
    desk: &Desk,
    algorithm: impl Future<Output = ANNResult<T>>,
    server: &mut dyn Server,
) -> Result<T> {
    let mut algorithm = pin!(algorithm);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match algorithm.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result.map_err(Error::internal),
            Poll::Pending => {
                let Some(request) = desk.lock().request.take() else {
                    return Err(Error::internal("a graph algorithm waits for nothing"));
                };
                let answer = server.answer(request)?;
                desk.lock().answer = Some(answer);
            }
        }
    }
}

/// The data provider: a place for one request and one answer.
#[derive(Default)]
pub(crate) struct Desk {
    exchange: Mutex<Exchange>,
}

#[derive(Default)]
struct Exchange {
    request: Option<Request>,
    answer: Option<Answer>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a request and waits for the answer.
    async fn ask(&self, request: Request) -> Answer {
        // The answer to a request of an algorithm that was dropped.
        self.lock().answer = None;
        let mut request = Some(request);
        poll_fn(|_| {
            let mut exchange = self.lock();
            if let Some(request) = request.take() {
                exchange.request = Some(request);
                return Poll::Pending;
            }
            exchange.answer.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    async fn list(&self, request: Request) -> ANNResult<Vec<u64>> {
        match self.ask(request).await {
            Answer::List(list) => Ok(list),
            _ => Err(mismatch()),
        }
    }

    async fn distances(&self, nodes: Vec<u64>) -> ANNResult<Vec<(u64, f32)>> {
        match self.ask(Request::Distances(nodes)).await {
            Answer::Distances(distances) => Ok(distances),
            _ => Err(mismatch()),
        }
    }
}

fn mismatch() -> ANNError {
    ANNError::message("a request of a graph algorithm got the answer to another one")
}

impl DataProvider for Desk {
    type Context = DefaultContext;
    type InternalId = u64;
    type ExternalId = u64;
    type Error = ANNError;
    type Guard = NoopGuard<u64>;

    fn to_internal_id(&self, _: &DefaultContext, node: &u64) -> ANNResult<u64> {
        Ok(*node)
    }

    fn to_external_id(&self, _: &DefaultContext, node: u64) -> ANNResult<u64> {
        Ok(node)
    }
}

/// The code of a new node is known before the algorithm starts.
impl SetElement<()> for Desk {
    type SetError = ANNError;

    async fn set_element(
        &self,
        _: &DefaultContext,
        node: &u64,
        (): (),
    ) -> ANNResult<NoopGuard<u64>> {
        Ok(NoopGuard::new(*node))
    }
}

/// A node that is removed keeps its code until the algorithm ends, so that the search can pass
/// through it. Lists show no other removed nodes, so every node is valid.
impl Delete for Desk {
    async fn delete(&self, _: &DefaultContext, _: &u64) -> ANNResult<()> {
        Ok(())
    }

    async fn release(&self, _: &DefaultContext, _: u64) -> ANNResult<()> {
        Ok(())
    }

    async fn status_by_internal_id(&self, _: &DefaultContext, _: u64) -> ANNResult<ElementStatus> {
        Ok(ElementStatus::Valid)
    }

    async fn status_by_external_id(&self, _: &DefaultContext, _: &u64) -> ANNResult<ElementStatus> {
        Ok(ElementStatus::Valid)
    }
}

/// Reads the graph for searches and for changes of lists.
pub(crate) struct Accessor<'a> {
    desk: &'a Desk,
    /// The vectors that were asked for.
    vectors: Vectors,
}

impl<'a> Accessor<'a> {
    fn new(desk: &'a Desk) -> Self {
        Self {
            desk,
            vectors: Vectors::default(),
        }
    }
}

impl HasId for Accessor<'_> {
    type Id = u64;
}

impl SearchAccessor for Accessor<'_> {
    async fn starting_points(&self) -> ANNResult<Vec<u64>> {
        Ok(vec![ENTRY])
    }

    async fn start_point_distances<F>(&mut self, mut f: F) -> ANNResult<()>
    where
        F: FnMut(u64, f32) + Send,
    {
        for (node, distance) in self.desk.distances(vec![ENTRY]).await? {
            f(node, distance);
        }
        Ok(())
    }

    async fn expand_beam<Itr, P, F>(
        &mut self,
        nodes: Itr,
        mut pred: P,
        mut on_neighbors: F,
    ) -> ANNResult<()>
    where
        Itr: Iterator<Item = u64> + Send,
        P: HybridPredicate<u64> + Send + Sync,
        F: FnMut(u64, f32) + Send,
    {
        for node in nodes {
            let mut neighbours = self.desk.list(Request::List(node)).await?;
            neighbours.retain(|neighbour| pred.eval_mut(neighbour));
            if !neighbours.is_empty() {
                for (neighbour, distance) in self.desk.distances(neighbours).await? {
                    on_neighbors(neighbour, distance);
                }
            }
        }
        Ok(())
    }
}

impl NeighborAccessor for Accessor<'_> {
    async fn get_neighbors(
        &mut self,
        node: u64,
        neighbours: &mut AdjacencyList<u64>,
    ) -> ANNResult<()> {
        let list = self.desk.list(Request::LiveList(node)).await?;
        neighbours.clear();
        neighbours.extend_from_slice(&list);
        Ok(())
    }
}

impl NeighborAccessorMut for Accessor<'_> {
    async fn set_neighbors(&mut self, node: u64, neighbours: &[u64]) -> ANNResult<()> {
        let request = Request::SetList(node, neighbours.to_vec());
        match self.desk.ask(request).await {
            Answer::Done => Ok(()),
            _ => Err(mismatch()),
        }
    }

    async fn append_vector(&mut self, node: u64, neighbours: &[u64]) -> ANNResult<()> {
        let mut list = self.desk.list(Request::LiveList(node)).await?;
        list.extend_from_slice(neighbours);
        self.set_neighbors(node, &list).await
    }
}

impl PruneAccessor for Accessor<'_> {
    type Neighbors<'a>
        = Neighbors<'a, Self>
    where
        Self: 'a;
    type ElementRef<'a> = &'a [f32];
    type View<'a>
        = &'a Vectors
    where
        Self: 'a;
    type Distance<'a>
        = Squared
    where
        Self: 'a;

    fn neighbors(&mut self) -> Self::Neighbors<'_> {
        Neighbors(self)
    }

    fn fill<Itr>(
        &mut self,
        nodes: Itr,
    ) -> impl SendFuture<ANNResult<(Self::View<'_>, Self::Distance<'_>)>>
    where
        Itr: ExactSizeIterator<Item = u64> + Clone + Send + Sync,
    {
        // The entry lies between all nodes, so it would make the rule of pruning drop nearly all
        // others. No list has it.
        let is_missing = |node: &u64| *node != ENTRY && !self.vectors.has(*node);
        let missing: Vec<u64> = nodes.filter(is_missing).collect();
        async move {
            if !missing.is_empty() {
                match self.desk.ask(Request::Vectors(missing)).await {
                    Answer::Vectors(vectors) => self.vectors.add(vectors),
                    _ => return Err(mismatch()),
                }
            }
            Ok((&self.vectors, Squared))
        }
    }
}

/// Vectors by node.
#[derive(Default)]
pub(crate) struct Vectors {
    /// The place at which the vector of each node begins.
    starts: FxHashMap<u64, usize>,
    components: Vec<f32>,
    /// Components of a vector; 0 before the first one.
    width: usize,
}

impl Vectors {
    /// Adds a vector, which `append` appends. All have the same number of components.
    pub(crate) fn push(&mut self, node: u64, append: impl FnOnce(&mut Vec<f32>)) {
        let start = self.components.len();
        append(&mut self.components);
        self.width = self.components.len() - start;
        self.starts.insert(node, start);
    }

    fn has(&self, node: u64) -> bool {
        self.starts.contains_key(&node)
    }

    fn add(&mut self, other: Vectors) {
        let start = self.components.len();
        self.components.extend(other.components);
        self.width = self.width.max(other.width);
        self.starts.extend(
            other
                .starts
                .into_iter()
                .map(|(node, place)| (node, start + place)),
        );
    }
}

impl View<u64> for &Vectors {
    type ElementRef<'a> = &'a [f32];
    type Element<'a>
        = &'a [f32]
    where
        Self: 'a;

    fn get(&self, node: u64) -> Option<&[f32]> {
        let start = *self.starts.get(&node)?;
        self.components.get(start..start + self.width)
    }
}

/// The squared Euclidean distance.
pub(crate) struct Squared;

impl DistanceFunction<&[f32], &[f32], f32> for Squared {
    fn evaluate_similarity(&self, left: &[f32], right: &[f32]) -> f32 {
        squared_distance(left, right)
    }
}

/// A search, and the search and the changes of lists when a node is linked.
pub(crate) struct Strategy;

impl<'a> SearchStrategy<'a, Desk, ()> for Strategy {
    type SearchAccessorError = Infallible;
    type SearchAccessor = Accessor<'a>;

    fn search_accessor(
        &'a self,
        desk: &'a Desk,
        _: &'a DefaultContext,
        (): (),
    ) -> std::result::Result<Accessor<'a>, Infallible> {
        Ok(Accessor::new(desk))
    }
}

impl<'a> InsertStrategy<'a, Desk, ()> for Strategy {
    type SearchAccessor = Accessor<'a>;
    type SearchAccessorError = Infallible;
    type PruneStrategy = Strategy;

    fn insert_search_accessor(
        &'a self,
        desk: &'a Desk,
        _: &'a DefaultContext,
        (): (),
    ) -> std::result::Result<Accessor<'a>, Infallible> {
        Ok(Accessor::new(desk))
    }

    fn prune_strategy(&self) -> Strategy {
        Strategy
    }
}

impl PruneStrategy<Desk> for Strategy {
    type PruneAccessor<'a> = Accessor<'a>;
    type PruneAccessorError = Infallible;

    fn prune_accessor<'a>(
        &'a self,
        desk: &'a Desk,
        _: &'a DefaultContext,
        _: usize,
    ) -> std::result::Result<Accessor<'a>, Infallible> {
        Ok(Accessor::new(desk))
    }
}

/// The removal of a node.
#[derive(Clone)]
pub(crate) struct Removal {
    pub(crate) node: u64,
}

impl InplaceDeleteStrategy<Desk> for Removal {
    type DeleteElement<'a> = ();
    type DeleteElementGuard = NoElement;
    type DeleteElementError = Infallible;
    type PruneStrategy = Strategy;
    type DeleteSearchAccessor<'a> = Accessor<'a>;
    type SearchPostProcessor = Survivors;
    type SearchStrategy = Strategy;

    fn prune_strategy(&self) -> Strategy {
        Strategy
    }

    fn search_strategy(&self) -> Strategy {
        Strategy
    }

    fn search_post_processor(&self) -> Survivors {
        Survivors { removed: self.node }
    }

    async fn get_delete_element<'a>(
        &'a self,
        _: &'a Desk,
        _: &'a DefaultContext,
        _: u64,
    ) -> std::result::Result<NoElement, Infallible> {
        Ok(NoElement)
    }
}

/// The vector of a removed node: the server knows it.
pub(crate) struct NoElement;

impl Reborrow<'_> for NoElement {
    type Target = ();

    fn reborrow(&self) {}
}

/// The result of a search: all nodes but the entry.
pub(crate) struct Nodes;

impl<'a> SearchPostProcess<Accessor<'a>, ()> for Nodes {
    type Error = Infallible;

    async fn post_process<I, B>(
        &self,
        _: &mut Accessor<'a>,
        (): (),
        candidates: I,
        output: &mut B,
    ) -> std::result::Result<usize, Infallible>
    where
        I: Iterator<Item = Neighbor<u64>> + Send,
        B: SearchOutputBuffer<u64> + Send + ?Sized,
    {
        Ok(output.extend(candidates.filter(|found| *found.id() != ENTRY)))
    }
}

/// The nodes that a removal looks at: those found, without the removed one and the entry.
pub(crate) struct Survivors {
    removed: u64,
}

impl<'a> SearchPostProcess<Accessor<'a>, ()> for Survivors {
    type Error = Infallible;

    async fn post_process<I, B>(
        &self,
        _: &mut Accessor<'a>,
        (): (),
        candidates: I,
        output: &mut B,
    ) -> std::result::Result<usize, Infallible>
    where
        I: Iterator<Item = Neighbor<u64>> + Send,
        B: SearchOutputBuffer<u64> + Send + ?Sized,
    {
        let others = candidates.filter(|found| ![ENTRY, self.removed].contains(found.id()));
        Ok(output.extend(others))
    }
}
