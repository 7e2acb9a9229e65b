//! The engine: databases, containers, physical partitions, items, index, queries, change feed, throughput.

pub mod request;

use orrery_model::partition_key::{Definition, PartitionKey};
use orrery_model::{Json, Object, Result, Rid};
use request::*;
use std::sync::Arc;

/// The engine.
pub struct Engine;

/// A database that a request addresses.
#[derive(Debug)]
pub struct Database;

impl Database {
    /// Its id.
    pub fn id(&self) -> &str { unreachable!() }
    /// Its resource id.
    pub fn rid(&self) -> Rid { unreachable!() }
}

/// A container that a request addresses.
#[derive(Debug)]
pub struct Container;

impl Container {
    /// Its id.
    pub fn id(&self) -> &str { unreachable!() }
    /// Its database's id.
    pub fn database_id(&self) -> &str { unreachable!() }
    /// Its resource id.
    pub fn rid(&self) -> Rid { unreachable!() }
    /// Its partition key definition.
    pub fn partition_key(&self) -> &Definition { unreachable!() }
}

/// Which feed of resources a list or query covers.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a> {
    /// All databases.
    Databases,
    /// The containers of a database.
    Containers(&'a Database),
    /// The scripts of one kind in a container.
    Scripts(&'a Container, ScriptKind),
    /// All offers.
    Offers,
}

/// A write that is ordered but not yet on disk. Answer the client only after [`Pending::wait`] or awaiting it.
pub struct Pending<T>(T);

impl<T> Pending<T> {
    /// Blocks until the write is durable.
    pub fn wait(self) -> Outcome<T> { unreachable!() }
}

impl<T: Unpin> Future for Pending<T> {
    type Output = Outcome<T>;
    fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<Outcome<T>> { unreachable!() }
}

#[allow(unused_variables, clippy::too_many_arguments)]
impl Engine {
    // ----- metadata (all blocking, all durable when they return) -----
    pub fn database(&self, id: Id<'_>) -> Result<Arc<Database>> { unreachable!() }
    /// NotFound if the container is missing, OwnerNotFound if the database is.
    pub fn container(&self, database: Id<'_>, container: Id<'_>) -> Result<Arc<Container>> { unreachable!() }

    pub fn create_database(&self, body: &Object, throughput: Option<Throughput>) -> Outcome<Resource> { unreachable!() }
    pub fn read_database(&self, database: &Database) -> Outcome<Resource> { unreachable!() }
    pub fn delete_database(&self, database: &Database, if_match: Option<&str>) -> Outcome<()> { unreachable!() }

    pub fn create_container(&self, database: &Database, body: &Object, throughput: Option<Throughput>) -> Outcome<Resource> { unreachable!() }
    pub fn read_container(&self, container: &Container) -> Outcome<Resource> { unreachable!() }
    pub fn replace_container(&self, container: &Container, body: &Object, if_match: Option<&str>) -> Outcome<Resource> { unreachable!() }
    pub fn delete_container(&self, container: &Container, if_match: Option<&str>) -> Outcome<()> { unreachable!() }
    /// (`x-ms-resource-quota`, `x-ms-resource-usage`)
    pub fn quota(&self, container: &Container) -> (String, String) { unreachable!() }

    pub fn create_script(&self, container: &Container, kind: ScriptKind, body: &Object, upsert: bool) -> Outcome<Resource> { unreachable!() }
    pub fn read_script(&self, container: &Container, kind: ScriptKind, id: Id<'_>) -> Outcome<Resource> { unreachable!() }
    pub fn replace_script(&self, container: &Container, kind: ScriptKind, id: Id<'_>, body: &Object, if_match: Option<&str>) -> Outcome<Resource> { unreachable!() }
    pub fn delete_script(&self, container: &Container, kind: ScriptKind, id: Id<'_>, if_match: Option<&str>) -> Outcome<()> { unreachable!() }

    pub fn read_offer(&self, rid: Rid) -> Outcome<Resource> { unreachable!() }
    pub fn replace_offer(&self, rid: Rid, body: &Object, if_match: Option<&str>) -> Outcome<Resource> { unreachable!() }

    pub fn list(&self, feed: Feed<'_>, page: &PageRequest) -> Outcome<Page> { unreachable!() }
    pub fn query_feed(&self, feed: Feed<'_>, query: &QueryRequest) -> Outcome<QueryPage> { unreachable!() }

    /// The live physical partitions in order of their ranges, and an etag that changes with them.
    pub fn partition_key_ranges(&self, container: &Container) -> (Vec<RangeInfo>, String) { unreachable!() }

    // ----- items -----
    /// `session` is the raw header `x-ms-session-token`.
    pub fn read_item(&self, container: &Container, key: &PartitionKey, id: &str, if_none_match: Option<&str>, session: Option<&str>) -> Outcome<ReadReply> { unreachable!() }
    /// `Err` inside: refused before anything was written.
    pub fn write_item(&self, container: &Container, operation: &WriteOperation, body: Option<&[u8]>, options: &WriteOptions) -> std::result::Result<Pending<Written>, Outcome<Written>> { unreachable!() }
    pub fn read_feed(&self, container: &Container, scope: &Scope, page: &PageRequest, session: Option<&str>) -> Outcome<Page> { unreachable!() }
    pub fn change_feed(&self, container: &Container, scope: &Scope, start: &FeedStart, max_items: Option<usize>, session: Option<&str>) -> Outcome<FeedPage> { unreachable!() }
    pub fn query(&self, container: &Container, scope: &Scope, query: &QueryRequest, session: Option<&str>) -> Outcome<QueryPage> { unreachable!() }
    /// The query plan document for clients that merge themselves (JSON text).
    pub fn query_plan(&self, container: &Container, text: &str, parameters: &[(String, Json)], features: &str, key: Option<&PartitionKey>) -> Outcome<String> { unreachable!() }
    /// Blocks while the script runs.
    pub fn execute(&self, container: &Container, procedure: Id<'_>, key: &PartitionKey, arguments: &[u8], logging: bool) -> std::result::Result<Pending<ProcedureReply>, Outcome<ProcedureReply>> { unreachable!() }

    /// Waits until everything accepted is durable; for a graceful end.
    pub fn shut_down(&self) -> Result<()> { unreachable!() }
}
