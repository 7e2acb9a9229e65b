//! Metadata: databases, containers, scripts, offers, users, permissions and client encryption keys.
//!
//! The [`Catalog`] does the work; the functions here add the charge. Metadata has no budget, so
//! nothing is admitted, and a write of the catalog is durable when the catalog returns.

use crate::catalog::{AccessResource, Catalog, PermissionContent, TokenSigner};
use crate::operator::statistics;
use crate::query::{ListedRow, NoFunctions, Turn, Workplace, client_plan, query_rows};
use crate::request::{
    AccessResourceKind, Id, OfferChange, Offered, Outcome, Page, PageRequest, QueryPage,
    QueryRequest, RangeInfo, Resource, ScriptKind, Throughput,
};
use crate::{Container, Database, Engine};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::work::{QueryWork, Step, Work};
use orrery_model::{Error, Json, Object, Result, Rid};
use orrery_sql::{Environment, MergeSupport};
use std::sync::Arc;

/// The resources that a list or a query over resources covers.
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
    /// The users or client encryption keys of a database, or the permissions of a user.
    AccessResources(AccessResourceKind, Rid, TokenSigner<'a>),
    /// Conflicts of a container. There are none, because there is one write region.
    Conflicts(&'a Container),
}

impl Feed<'_> {
    /// Returns bytes that no other list has.
    fn name(&self) -> Vec<u8> {
        let (kind, owner) = match self {
            Feed::Databases => ("databases".to_owned(), None),
            Feed::Containers(database) => ("containers".to_owned(), Some(database.rid())),
            Feed::Scripts(container, kind) => (format!("{kind:?}"), Some(container.rid())),
            Feed::Offers => ("offers".to_owned(), None),
            Feed::AccessResources(kind, owner, _) => (format!("{kind:?}"), Some(*owner)),
            Feed::Conflicts(container) => ("conflicts".to_owned(), Some(container.rid())),
        };
        let owner = owner.as_ref().map_or(&[][..], Rid::as_bytes);
        [kind.as_bytes(), owner].concat()
    }
}

/// Charges.
impl Engine {
    fn metadata_read<T>(&self, result: Result<T>) -> Outcome<T> {
        let steps = vec![Step::MetadataRead];
        self.outcome(result, Work { steps }, None)
    }

    /// Charges a write of metadata. `bytes` is the size of the body.
    fn metadata_write<T>(&self, bytes: usize, result: Result<T>) -> Outcome<T> {
        let step = match &result {
            Ok(_) => Step::MetadataWrite { bytes },
            Err(_) => Step::Refused { bytes, terms: 0 },
        };
        self.outcome(result, Work { steps: vec![step] }, None)
    }

    /// Charges a write that leaves a resource behind; a refused write by the body that was sent.
    fn metadata_resource(&self, body: &Object, result: Result<Resource>) -> Outcome<Resource> {
        let bytes = match &result {
            Ok(resource) => resource.body.len(),
            Err(_) => Json::Object(body.clone()).to_text().len(),
        };
        self.metadata_write(bytes, result)
    }
}

/// Databases.
impl Engine {
    /// Returns a database.
    ///
    /// # Errors
    /// 404 if there is none.
    pub fn database(&self, id: Id<'_>) -> Result<Arc<Database>> {
        self.catalog().try_to_end_doubt();
        self.catalog().database(id)
    }

    /// Creates a database, with a throughput that its containers share if one is given.
    pub fn create_database(
        &self,
        body: &Object,
        throughput: Option<Throughput>,
    ) -> Outcome<Resource> {
        let created = self.catalog().create_database(body, throughput);
        self.metadata_resource(body, created)
    }

    /// Reads a database.
    pub fn read_database(&self, database: &Database) -> Outcome<Resource> {
        self.metadata_read(Ok(database.resource(false)))
    }

    /// Deletes a database with all its containers.
    pub fn delete_database(&self, database: &Database, if_match: Option<&str>) -> Outcome<()> {
        let deleted = self.catalog().delete_database(database, if_match);
        self.metadata_write(0, deleted)
    }
}

/// Containers.
impl Engine {
    /// Returns a container.
    ///
    /// # Errors
    /// 404 if there is none, 404/1003 if there is no such database.
    pub fn container(&self, database: Id<'_>, container: Id<'_>) -> Result<Arc<Container>> {
        self.catalog().try_to_end_doubt();
        self.catalog().container(database, container)
    }

    /// Creates a container with the physical partitions that its throughput needs.
    pub fn create_container(
        &self,
        database: &Database,
        body: &Object,
        throughput: Option<Throughput>,
    ) -> Outcome<Resource> {
        let created = self.catalog().create_container(database, body, throughput);
        if let Ok(resource) = &created {
            let rid = Id::Rid(resource.rid);
            if let Ok(container) = self.catalog().container(Id::Rid(database.rid()), rid) {
                self.keep_versions(&container);
            }
        }
        self.metadata_resource(body, created)
    }

    /// Returns true if a container spends the throughput of its database.
    pub fn shares_throughput(&self, container: Rid) -> bool {
        let catalog = self.catalog();
        catalog.offer_of(container).is_none()
            && catalog.offer_of(container.database_part()).is_some()
    }

    /// Begins to keep versions if the container asks for them. A failure is no failure of the
    /// request: [`Engine::remove_old_versions`] tries again.
    fn keep_versions(&self, container: &Container) {
        let _ = self.begin_versions(container);
    }

    /// Reads a container.
    pub fn read_container(&self, container: &Container) -> Outcome<Resource> {
        self.container_read(container, Ok(container.resource(false)))
    }

    /// Charges a read of a container. The answer has the position of the first physical partition:
    /// some clients expect a session token in it, as the service sends one.
    fn container_read(&self, container: &Container, result: Result<Resource>) -> Outcome<Resource> {
        let partitions = container.partitions();
        let position = partitions.first().map(|first| first.position_now());
        Outcome {
            // A partition that another process owns may not be readable here.
            position: position.filter(|position| position.lsn > 0),
            ..self.metadata_read(result)
        }
    }

    /// Reads a container with statistics of its partitions, see `operator/statistics.rs`.
    pub fn read_container_with_statistics(&self, container: &Container) -> Outcome<Resource> {
        let mut resource = container.resource(false);
        let result = statistics::of_container(container).and_then(|statistics| {
            let Ok(Json::Object(mut body)) = parse(&resource.body) else {
                return Err(Error::internal("the body of a container is no object"));
            };
            body.set("statistics", statistics);
            resource.body = Json::Object(body).to_text().into();
            Ok(resource)
        });
        self.container_read(container, result)
    }

    /// Replaces the settings of a container. The index follows a new indexing policy step by step,
    /// see [`Engine::reindex_some`].
    pub fn replace_container(
        &self,
        container: &Container,
        body: &Object,
        if_match: Option<&str>,
    ) -> Outcome<Resource> {
        let replaced = self.catalog().replace_container(container, body, if_match);
        if replaced.is_ok() {
            self.keep_versions(container);
        }
        self.metadata_resource(body, replaced.map(|()| container.resource(false)))
    }

    /// Deletes a container.
    pub fn delete_container(&self, container: &Container, if_match: Option<&str>) -> Outcome<()> {
        let deleted = self.catalog().delete_container(container, if_match);
        self.metadata_write(0, deleted)
    }

    /// Returns the live physical partitions in order of their ranges, and an etag that changes with
    /// them.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn partition_key_ranges(&self, container: &Container) -> Result<(Vec<RangeInfo>, String)> {
        let mut ranges = container.ranges()?;
        let to_split = self.ranges_to_split(container);
        let mut newest = 0;
        let mut splitting = String::new();
        for range in &mut ranges {
            range.is_splitting |= to_split.contains(&range.id);
            newest = newest.max(u64::from(range.id));
            if range.is_splitting {
                splitting.push_str(&format!("-{}", range.id));
            }
        }
        Ok((ranges, format!("\"{}{splitting}\"", newest + 1)))
    }
}

/// Stored procedures, triggers and user-defined functions.
impl Engine {
    /// Returns the resource id of a script, or `None` if there is no such script.
    pub fn script_rid(&self, container: &Container, kind: ScriptKind, id: Id<'_>) -> Option<Rid> {
        let script = self.catalog().find_script(container, kind, id).ok()?;
        Some(script.meta.rid)
    }

    /// Creates a script, or replaces the script of its id if `upsert`.
    pub fn create_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        body: &Object,
        upsert: bool,
    ) -> Outcome<Resource> {
        let created = self.catalog().create_script(container, kind, body, upsert);
        self.metadata_resource(body, created)
    }

    /// Reads a script.
    pub fn read_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
    ) -> Outcome<Resource> {
        let found = self.catalog().find_script(container, kind, id);
        self.metadata_read(found.map(|script| script.resource(container, false)))
    }

    /// Replaces a script.
    pub fn replace_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
        body: &Object,
        if_match: Option<&str>,
    ) -> Outcome<Resource> {
        let replaced = self
            .catalog()
            .replace_script(container, kind, id, body, if_match);
        self.metadata_resource(body, replaced)
    }

    /// Deletes a script.
    pub fn delete_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
        if_match: Option<&str>,
    ) -> Outcome<()> {
        let deleted = self.catalog().delete_script(container, kind, id, if_match);
        self.metadata_write(0, deleted)
    }
}

/// Offers.
impl Engine {
    /// Reads an offer.
    pub fn read_offer(&self, rid: Rid) -> Outcome<Offered> {
        self.metadata_read(self.catalog().offer(rid))
    }

    /// Changes the throughput of an offer.
    pub fn replace_offer(
        &self,
        rid: Rid,
        change: &OfferChange,
        if_match: Option<&str>,
    ) -> Outcome<Offered> {
        let replaced = self.catalog().replace_offer(rid, change, if_match);
        let bytes = match &replaced {
            Ok(offered) => offered.resource.body.len(),
            Err(_) => 0,
        };
        self.metadata_write(bytes, replaced)
    }
}

/// Users, permissions and client encryption keys.
impl Engine {
    /// Returns an access resource of `owner`, which is a database or a user.
    ///
    /// # Errors
    /// 404 if there is none.
    pub fn access_resource(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
        id: Id<'_>,
    ) -> Result<Arc<AccessResource>> {
        self.catalog().access_resource(owner, kind, id)
    }

    /// Creates an access resource, or replaces the one of its id if `upsert`.
    pub fn create_access_resource(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
        body: &Object,
        upsert: bool,
        token_signer: TokenSigner<'_>,
    ) -> Outcome<Resource> {
        let created =
            self.catalog()
                .create_access_resource(owner, kind, body, upsert, token_signer);
        self.metadata_resource(body, created)
    }

    /// Reads an access resource.
    pub fn read_access_resource(
        &self,
        resource: &AccessResource,
        token_signer: TokenSigner<'_>,
    ) -> Outcome<Resource> {
        self.metadata_read(Ok(resource.resource(token_signer, false)))
    }

    /// Replaces an access resource. The id of a user or a permission may change.
    pub fn replace_access_resource(
        &self,
        resource: &AccessResource,
        body: &Object,
        if_match: Option<&str>,
        token_signer: TokenSigner<'_>,
    ) -> Outcome<Resource> {
        let replaced =
            self.catalog()
                .replace_access_resource(resource, body, if_match, token_signer);
        self.metadata_resource(body, replaced)
    }

    /// Deletes an access resource; with a user, the permissions of the user.
    pub fn delete_access_resource(
        &self,
        resource: &AccessResource,
        if_match: Option<&str>,
    ) -> Outcome<()> {
        let deleted = self.catalog().delete_access_resource(resource, if_match);
        self.metadata_write(0, deleted)
    }

    /// Returns the rights that a permission grants now, or `None` if the permission is gone.
    pub fn permission_content(&self, permission: Rid) -> Option<PermissionContent> {
        let kind = AccessResourceKind::Permission;
        let user = permission.user_part();
        let found = self
            .catalog()
            .access_resource(user, kind, Id::Rid(permission))
            .ok()?;
        found.permission_content()
    }
}

/// Lists of resources.
impl Engine {
    /// Returns a page of a list of resources.
    pub fn list(&self, feed: Feed<'_>, page: &PageRequest) -> Outcome<Page> {
        let query = QueryRequest::everything(page);
        // A list is short work and waits for no query.
        let listed = self.rows_of_feed(feed, &query, None).result;
        self.metadata_read(listed.map(|answer| answer.page))
    }

    /// Returns a page of a query over a list of resources.
    pub fn query_feed(&self, feed: Feed<'_>, query: &QueryRequest) -> Outcome<QueryPage> {
        let turn = self.slots().begin(None, None);
        self.rows_of_feed(feed, query, Some(&turn))
    }

    fn rows_of_feed(
        &self,
        feed: Feed<'_>,
        query: &QueryRequest,
        turn: Option<&Turn<'_>>,
    ) -> Outcome<QueryPage> {
        let mut work = orrery_sql::Work::default();
        let list = feed.name();
        let rows = listed_rows(self.catalog(), feed);
        let loaded_items = rows.as_ref().map_or(0, Vec::len) as u64;
        let page = rows.and_then(|rows| {
            let environment = Environment::default();
            let mut functions = NoFunctions;
            let place = Workplace {
                engine: self,
                turn,
                answer: None,
                clock: None,
            };
            let mut page = query_rows(
                place,
                &list,
                &environment,
                &rows,
                query,
                &mut functions,
                &mut work,
            )?;
            if !has_rows_after(place, &list, &rows, query, &page)? {
                page.continuation = None;
            }
            Ok(page)
        });
        let counted = QueryWork {
            loaded_items,
            returned_rows: work.rows_out,
            returned_bytes: work.bytes_out,
            ..QueryWork::default()
        };
        let page = page.map(|page| QueryPage {
            page,
            ..QueryPage::default()
        });
        let steps = vec![Step::Query(counted)];
        self.outcome(page, Work { steps }, None)
    }

    /// Returns the query plan document (JSON text) for clients that merge by themselves. `features`
    /// is the comma-separated list of the merges that the client can do.
    ///
    /// A plan reads no item, takes nothing from a budget and is charged nothing.
    pub fn query_plan(
        &self,
        container: &Container,
        text: &str,
        parameters: &[(String, Json)],
        features: &str,
        key: Option<&PartitionKey>,
    ) -> Outcome<String> {
        let support = MergeSupport::Listed(features);
        let plan = client_plan(container, text, parameters, support, key);
        self.outcome(plan, Work::default(), None)
    }
}

/// Returns true if a query over a list may have rows after a page. A list is small, so the page
/// with the last row is the last page. The rows that are looked at are in no answer and in no
/// charge.
fn has_rows_after(
    place: Workplace<'_>,
    list: &[u8],
    rows: &[ListedRow],
    query: &QueryRequest,
    page: &Page,
) -> Result<bool> {
    if page.continuation.is_none() {
        return Ok(false);
    }
    let mut next = query.clone();
    next.page.continuation = page.continuation.clone();
    next.page.max_items = Some(1);
    let environment = Environment::default();
    let mut work = orrery_sql::Work::default();
    let place = Workplace {
        answer: None,
        ..place
    };
    let after = query_rows(
        place,
        list,
        &environment,
        rows,
        &next,
        &mut NoFunctions,
        &mut work,
    )?;
    Ok(!after.rows.is_empty() || after.continuation.is_some())
}

/// Returns the rows of a feed, each with the key that keeps its place in the list.
fn listed_rows(catalog: &Catalog, feed: Feed<'_>) -> Result<Vec<ListedRow>> {
    let mut rows = Vec::new();
    let mut add = |order: &[u8], resource: Resource| {
        rows.push(ListedRow {
            key: [order, resource.rid.as_bytes()].concat(),
            text: resource.body,
        });
    };
    match feed {
        Feed::Databases => {
            for database in catalog.databases() {
                add(&database.meta().ts.to_be_bytes(), database.resource(false));
            }
        }
        Feed::Containers(database) => {
            for container in catalog.containers(database) {
                add(
                    &container.created().to_be_bytes(),
                    container.resource(false),
                );
            }
        }
        Feed::Scripts(container, kind) => {
            for script in container.scripts(kind) {
                let number = script.meta.rid.child_number();
                let number = number.map_or(0, |(_, number)| number);
                add(&number.to_be_bytes(), script.resource(container, false));
            }
        }
        Feed::AccessResources(kind, owner, token_signer) => {
            for resource in catalog.access_resources(owner, kind) {
                let created = resource.created.to_be_bytes();
                add(&created, resource.resource(token_signer, false));
            }
        }
        Feed::Offers => {
            for offer in catalog.offers()? {
                add(&[], offer);
            }
        }
        Feed::Conflicts(_) => {}
    }
    Ok(rows)
}
