//! Operations: one table, from which everything about an operation is derived.
//!
//! A row of [`ROWS`] states the request that it matches (method, distinguishing header, target),
//! and for an operation its name, the required rights, the place where it runs and its function.
//! All else follows from the rows:
//!
//! ```text
//! the methods of a path, and the 405 for others   allowed_methods
//! the choice between rows by headers              choose
//! the access check                                Operation::rights
//! the worker thread or the pool                   Operation::lane
//! labels of metrics, the log, fault rules         Operation::name, Operation::resource_type
//! ```
//!
//! The code compares operations as rows and never by their names; a name is for printing, and is
//! parsed in one place, [`Operation::from_name`]. The modules below contain the functions: each
//! calls the engine and builds the reply.

mod access;
pub(crate) mod addresses;
mod batches;
mod feeds;
mod items;
mod metadata;
mod old_versions;
mod queries;
mod quota;
mod ranges;
mod row_batches;
mod scripts;

pub(crate) use batches::read_batch;
pub(crate) use feeds::{etag_text, feed_start};

use crate::auth::Rights;
use crate::call::Call;
use crate::headers::{Content, RequestHeaders};
use crate::reply::{Owner, Reply};
use crate::route::{self, Target};
use orrery_engine::request::{AccessResourceKind, ProcedureReply, ScriptKind, Written};
use orrery_engine::{Container, Counted, Database, Engine, Pending, PendingBatch, ScriptPlace};
use orrery_model::{Error, Kind, Result};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The size of a request body, in bytes, above which every operation runs on the pool.
const POOL_BODY_BYTES: usize = 64 * 1024;

/// One operation of the protocol. There is one for each kind of resource: creating a user and
/// creating a permission are two operations.
///
/// An operation exists only as a row of a static table, so operations are equal if they are the
/// same row.
pub struct Operation {
    name: &'static str,
    target: Target,
    rights: Rights,
    runs_on: RunsOn,
    triggers: Triggers,
    is_query: bool,
    /// The operation is a patch.
    is_patch: bool,
    function: Function,
}

/// The thread on which an operation starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunsOn {
    /// The worker thread that read the request: the operation is short whatever the data.
    Worker,
    /// The bounded pool: the operation may take long, and must not delay other requests.
    Pool,
    /// The lane for requests that run scripts.
    Scripts,
}

/// The thread or pool of one request. Requests of one lane never wait for those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The worker thread that read the request.
    Worker,
    /// The pool for requests that are neither queries nor run scripts.
    Pool,
    /// The pool for queries.
    Query,
    /// The lane for requests that run scripts.
    Script,
}

/// The triggers that a request for the operation may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Triggers {
    /// A pre-trigger and a post-trigger run around the operation.
    Run,
    /// None: a write that names a trigger is refused, a read ignores the name, as in the service.
    None,
}

type AccountFunction = fn(&Engine, &Call) -> Result<Progress>;
type DatabaseFunction = fn(&Engine, &Call, &Arc<Database>) -> Result<Progress>;
type ContainerFunction = fn(&Engine, &Call, &Container) -> Result<Progress>;
type ScriptFunction = fn(&Engine, &Call, &Container, ScriptKind) -> Result<Progress>;
type AccessFunction = fn(&Engine, &Call, &Owner, AccessResourceKind) -> Result<Progress>;

/// The function of an operation, by the resources that must exist before the function is called.
#[derive(Clone, Copy)]
enum Function {
    /// Requires nothing: the account, offers and the list of databases.
    Account(AccountFunction),
    /// Requires the database that the path addresses.
    Database(DatabaseFunction),
    /// Requires the database that owns the addressed resource.
    InDatabase(DatabaseFunction),
    /// Requires the container that the path addresses.
    Container(ContainerFunction),
    /// Requires the container that owns the addressed resource.
    InContainer(ContainerFunction),
    /// Requires the container that owns the addressed scripts.
    Script(ScriptFunction),
    /// Requires the database or user that owns the addressed users, permissions or keys.
    Access(AccessFunction),
}

/// One row of the table: the requests that it matches, and the operation that these requests get.
struct Row {
    form: Form,
    target: Target,
    entry: TableEntry,
}

enum TableEntry {
    Offered(Operation),
    /// The protocol has such an operation and this server does not. The text is the subject of the
    /// sentence that refuses the request.
    NotOffered(&'static str),
}

/// The form of a request: its method, and the header that distinguishes it where one method of a
/// target has several meanings.
///
/// A variant that names only a method matches every request with this method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// GET or HEAD. HEAD is a GET whose reply is sent without its body.
    Get,
    /// GET with `A-IM`.
    GetChangeFeed,
    Post,
    /// POST with `x-ms-cosmos-is-query-plan-request`.
    PostQueryPlan,
    /// POST with `x-ms-cosmos-is-batch-request`.
    PostBatch,
    /// POST with `A-IM`.
    PostChangeFeed,
    /// POST with `x-ms-documentdb-isquery` or the content type of a query.
    PostQuery,
    /// POST with `x-ms-documentdb-is-upsert`.
    PostUpsert,
    Put,
    Patch,
    Delete,
}

impl Form {
    /// Returns the methods of HTTP that have this form.
    const fn methods(self) -> &'static [&'static str] {
        match self {
            Form::Get | Form::GetChangeFeed => &["GET", "HEAD"],
            Form::Post
            | Form::PostQueryPlan
            | Form::PostBatch
            | Form::PostChangeFeed
            | Form::PostQuery
            | Form::PostUpsert => &["POST"],
            Form::Put => &["PUT"],
            Form::Patch => &["PATCH"],
            Form::Delete => &["DELETE"],
        }
    }

    /// Returns true for a read or a write of one whole item.
    fn stores_or_reads_one(self, target: Target) -> bool {
        match target {
            Target::Item => self != Form::Patch,
            Target::Items => matches!(self, Form::Post | Form::PostUpsert),
            _ => false,
        }
    }

    /// Returns true if the headers have what distinguishes this form from others of its method.
    fn matches_headers(self, headers: &RequestHeaders) -> bool {
        match self {
            Form::Get | Form::Post | Form::Put | Form::Patch | Form::Delete => true,
            Form::GetChangeFeed | Form::PostChangeFeed => headers.change_feed.is_some(),
            Form::PostQueryPlan => headers.is_query_plan,
            Form::PostBatch => headers.is_batch,
            Form::PostQuery => {
                headers.is_query || matches!(headers.content, Content::Query | Content::Sql)
            }
            Form::PostUpsert => headers.is_upsert,
        }
    }
}

/// Creates a row for an operation that starts on the worker thread.
const fn worker(
    form: Form,
    target: Target,
    name: &'static str,
    rights: Rights,
    function: Function,
) -> Row {
    offered(form, target, name, rights, RunsOn::Worker, function)
}

/// Creates a row for an operation that starts on the pool.
const fn pool(
    form: Form,
    target: Target,
    name: &'static str,
    rights: Rights,
    function: Function,
) -> Row {
    offered(form, target, name, rights, RunsOn::Pool, function)
}

/// Creates a row for an operation that runs a script.
const fn scripted(
    form: Form,
    target: Target,
    name: &'static str,
    rights: Rights,
    function: Function,
) -> Row {
    offered(form, target, name, rights, RunsOn::Scripts, function)
}

/// Creates a row for an operation. A row that makes no sense stops the build, because the compiler
/// evaluates the table.
const fn offered(
    form: Form,
    target: Target,
    name: &'static str,
    rights: Rights,
    runs_on: RunsOn,
    function: Function,
) -> Row {
    // A caller that may only read must be able to send every form of read.
    let is_read = matches!(
        form,
        Form::Get | Form::GetChangeFeed | Form::PostQueryPlan | Form::PostQuery
    );
    assert!(
        !(is_read && rights.includes_writes()),
        "a read that may write"
    );
    // The function gets the kind of script or access resource from the target.
    let is_kind_known = match function {
        Function::Script(_) => matches!(target, Target::Scripts(_) | Target::Script(_)),
        Function::Access(_) => {
            matches!(
                target,
                Target::AccessResources(_) | Target::AccessResource(_)
            )
        }
        _ => true,
    };
    assert!(
        is_kind_known,
        "a function of another kind of resource than the target"
    );
    let operation = Operation {
        name,
        target,
        rights,
        runs_on,
        triggers: Triggers::None,
        is_query: matches!(form, Form::PostQuery | Form::PostQueryPlan),
        is_patch: matches!(form, Form::Patch),
        function,
    };
    Row {
        form,
        target,
        entry: TableEntry::Offered(operation),
    }
}

/// Creates a row for requests that are refused with 400, because `subject` is not supported.
const fn not_offered(form: Form, target: Target, subject: &'static str) -> Row {
    Row {
        form,
        target,
        entry: TableEntry::NotOffered(subject),
    }
}

impl Row {
    /// Returns the row with triggers that run around the operation.
    const fn with_triggers(self) -> Row {
        match self.entry {
            TableEntry::Offered(operation) => {
                assert!(operation.rights.includes_writes(), "triggers of a read");
                Row {
                    form: self.form,
                    target: self.target,
                    entry: TableEntry::Offered(Operation {
                        triggers: Triggers::Run,
                        ..operation
                    }),
                }
            }
            TableEntry::NotOffered(_) => panic!("triggers of what is not offered"),
        }
    }
}

const PROCEDURES: Target = Target::Scripts(ScriptKind::Procedure);
const PROCEDURE: Target = Target::Script(ScriptKind::Procedure);
const TRIGGERS: Target = Target::Scripts(ScriptKind::Trigger);
const TRIGGER: Target = Target::Script(ScriptKind::Trigger);
const UDFS: Target = Target::Scripts(ScriptKind::Function);
const UDF: Target = Target::Script(ScriptKind::Function);
const USERS: Target = Target::AccessResources(AccessResourceKind::User);
const USER: Target = Target::AccessResource(AccessResourceKind::User);
const PERMISSIONS: Target = Target::AccessResources(AccessResourceKind::Permission);
const PERMISSION: Target = Target::AccessResource(AccessResourceKind::Permission);
const KEYS: Target = Target::AccessResources(AccessResourceKind::EncryptionKey);
const KEY: Target = Target::AccessResource(AccessResourceKind::EncryptionKey);

/// The table: form, target, name, rights, function; the row's constructor says where the function
/// runs.
///
/// [`choose`] takes the first row that matches a request. The code relies on these properties,
/// which the tests check:
///
/// * Rows of one method and target stand in the order in which the service examines the headers.
/// * The last of these rows matches whatever the headers are, so a request with an allowed method
///   always finds a row.
/// * No two operations have the same name.
/// * Every route has a row, so that no path exists without a method.
///
/// Rows of one target stand in the order in which a 405 lists their methods. The most frequent
/// target stands first.
#[rustfmt::skip] // one row on one line
static ROWS: &[Row] = {
    use Form::*;
    use Function::{Access, Account, Container, Database, InContainer, InDatabase, Script};
    use Rights::*;
    use Target::{
        Addresses, Conflict, Conflicts, Containers, Databases, Item, Items, LogicalPartition,
        Offer, Offers, Ranges, Truncation,
    };
    &[
        // Items.
        worker(Get, Item, "read_item", ReadData, InContainer(items::read)),
        worker(Put, Item, "replace_item", WriteData, InContainer(items::replace)).with_triggers(),
        worker(Patch, Item, "patch_item", WriteData, InContainer(items::patch)),
        worker(Delete, Item, "delete_item", WriteData, InContainer(items::delete)).with_triggers(),
        pool(GetChangeFeed, Items, "query_change_feed", ReadData, InContainer(feeds::change_feed)),
        pool(Get, Items, "read_items", ReadData, InContainer(feeds::read_items)),
        pool(PostQueryPlan, Items, "query_plan", ReadData, InContainer(queries::query_plan)),
        pool(PostBatch, Items, "execute_batch", WriteData, InContainer(batches::execute)),
        not_offered(PostChangeFeed, Items, "A change feed with a query (POST with A-IM)"),
        pool(PostQuery, Items, "query_items", ReadData, InContainer(queries::query_items)),
        worker(PostUpsert, Items, "upsert_item", WriteData, InContainer(items::upsert))
            .with_triggers(),
        worker(Post, Items, "create_item", WriteData, InContainer(items::create)).with_triggers(),
        pool(Post, LogicalPartition, "delete_all_items_by_partition_key", WriteData,
            InContainer(items::delete_by_partition_key)),
        not_offered(Post, Truncation, "Emptying a container (collectiontruncate)"),
        not_offered(Put, Truncation, "Emptying a container (collectiontruncate)"),

        // Containers.
        worker(Get, Ranges, "read_partition_key_ranges", ReadDefinition, InContainer(ranges::read)),
        worker(Get, Target::Container, "read_container", ReadDefinition,
            Container(metadata::read_container)),
        pool(Put, Target::Container, "replace_container", WriteMetadata,
            Container(metadata::replace_container)),
        pool(Delete, Target::Container, "delete_container", DeleteContainer,
            Container(metadata::delete_container)),
        pool(Get, Containers, "list_containers", ReadMetadata, InDatabase(feeds::list_containers)),
        pool(PostQuery, Containers, "query_containers", ReadMetadata,
            InDatabase(queries::query_containers)),
        not_offered(PostUpsert, Containers, UPSERT_OF_CONTAINERS),
        pool(Post, Containers, "create_container", WriteMetadata,
            InDatabase(metadata::create_container)),

        // The account, databases and offers.
        worker(Get, Target::Account, "read_account", Identity, Account(metadata::read_account)),
        worker(Get, Target::Database, "read_database", ReadMetadata,
            Database(metadata::read_database)),
        pool(Delete, Target::Database, "delete_database", WriteMetadata,
            Database(metadata::delete_database)),
        pool(Get, Databases, "list_databases", ReadMetadata, Account(feeds::list_databases)),
        pool(PostQuery, Databases, "query_databases", ReadMetadata,
            Account(queries::query_databases)),
        not_offered(PostUpsert, Databases, UPSERT_OF_CONTAINERS),
        pool(Post, Databases, "create_database", WriteMetadata, Account(metadata::create_database)),
        pool(Get, Offers, "list_offers", ReadMetadata, Account(feeds::list_offers)),
        pool(PostQuery, Offers, "query_offers", ReadMetadata, Account(queries::query_offers)),
        not_offered(Post, Offers, "Creating an offer by itself"),
        worker(Get, Offer, "read_offer", ReadMetadata, Account(metadata::read_offer)),
        pool(Put, Offer, "replace_offer", WriteMetadata, Account(metadata::replace_offer)),

        // Stored procedures, triggers and user-defined functions.
        pool(Get, PROCEDURES, "list_stored_procedures", ReadScripts, Script(scripts::list)),
        pool(PostQuery, PROCEDURES, "query_stored_procedures", ReadScripts, Script(scripts::query)),
        pool(Post, PROCEDURES, "create_stored_procedure", WriteScripts, Script(scripts::create)),
        pool(Get, PROCEDURE, "read_stored_procedure", ReadScripts, Script(scripts::read)),
        pool(Put, PROCEDURE, "replace_stored_procedure", WriteScripts, Script(scripts::replace)),
        pool(Delete, PROCEDURE, "delete_stored_procedure", WriteScripts, Script(scripts::delete)),
        scripted(Post, PROCEDURE, "execute_stored_procedure", WriteData,
            InContainer(scripts::execute)),
        pool(Get, TRIGGERS, "list_triggers", ReadScripts, Script(scripts::list)),
        pool(PostQuery, TRIGGERS, "query_triggers", ReadScripts, Script(scripts::query)),
        pool(Post, TRIGGERS, "create_trigger", WriteScripts, Script(scripts::create)),
        pool(Get, TRIGGER, "read_trigger", ReadScripts, Script(scripts::read)),
        pool(Put, TRIGGER, "replace_trigger", WriteScripts, Script(scripts::replace)),
        pool(Delete, TRIGGER, "delete_trigger", WriteScripts, Script(scripts::delete)),
        pool(Get, UDFS, "list_user_defined_functions", ReadScripts, Script(scripts::list)),
        pool(PostQuery, UDFS, "query_user_defined_functions", ReadScripts, Script(scripts::query)),
        pool(Post, UDFS, "create_user_defined_function", WriteScripts, Script(scripts::create)),
        pool(Get, UDF, "read_user_defined_function", ReadScripts, Script(scripts::read)),
        pool(Put, UDF, "replace_user_defined_function", WriteScripts, Script(scripts::replace)),
        pool(Delete, UDF, "delete_user_defined_function", WriteScripts, Script(scripts::delete)),

        // Users, permissions and client encryption keys. Deleting a key would leave items that no
        // client can decrypt, so the protocol has no such operation.
        pool(Get, USERS, "list_users", ReadMetadata, Access(access::list)),
        pool(PostQuery, USERS, "query_users", ReadMetadata, Access(access::query)),
        pool(Post, USERS, "create_user", WriteMetadata, Access(access::create)),
        worker(Get, USER, "read_user", ReadMetadata, Access(access::read)),
        pool(Put, USER, "replace_user", WriteMetadata, Access(access::replace)),
        pool(Delete, USER, "delete_user", WriteMetadata, Access(access::delete)),
        pool(Get, PERMISSIONS, "list_permissions", ReadPermissions, Access(access::list)),
        pool(PostQuery, PERMISSIONS, "query_permissions", ReadPermissions, Access(access::query)),
        pool(Post, PERMISSIONS, "create_permission", WritePermissions, Access(access::create)),
        worker(Get, PERMISSION, "read_permission", ReadPermissions, Access(access::read)),
        pool(Put, PERMISSION, "replace_permission", WritePermissions, Access(access::replace)),
        pool(Delete, PERMISSION, "delete_permission", WritePermissions, Access(access::delete)),
        pool(Get, KEYS, "list_client_encryption_keys", ReadMetadata, Access(access::list)),
        pool(PostQuery, KEYS, "query_client_encryption_keys", ReadMetadata, Access(access::query)),
        pool(Post, KEYS, "create_client_encryption_key", WriteMetadata, Access(access::create)),
        worker(Get, KEY, "read_client_encryption_key", ReadMetadata, Access(access::read)),
        pool(Put, KEY, "replace_client_encryption_key", WriteMetadata, Access(access::replace)),

        // Conflicts, and the addresses of replicas.
        worker(Get, Conflicts, "list_conflicts", ReadData, InContainer(feeds::list_conflicts)),
        pool(PostQuery, Conflicts, "query_conflicts", ReadData,
            InContainer(queries::query_conflicts)),
        not_offered(Post, Conflicts, "Creating a conflict"),
        worker(Get, Conflict, "read_conflict", ReadData, InContainer(feeds::no_such_conflict)),
        worker(Delete, Conflict, "delete_conflict", WriteData,
            InContainer(feeds::delete_conflict)),
        worker(Get, Addresses, "read_addresses", Identity, Account(addresses::read)),
    ]
};

const UPSERT_OF_CONTAINERS: &str = "Upsert (x-ms-documentdb-is-upsert) of a database or container";

/// Returns the methods that a target has, in the order of the table.
pub(crate) fn allowed_methods(target: Target) -> Vec<&'static str> {
    let mut methods = Vec::new();
    for row in ROWS.iter().filter(|row| row.target == target) {
        for method in row.form.methods() {
            if !methods.contains(method) {
                methods.push(*method);
            }
        }
    }
    methods
}

/// Returns true if a target has a method.
pub(crate) fn is_allowed(target: Target, method: &str) -> bool {
    ROWS.iter()
        .any(|row| row.target == target && row.form.methods().contains(&method))
}

/// Returns the operation of a request.
///
/// # Errors
/// 400 for an operation of the protocol that is not offered, for an answer in binary JSON, for
/// items without links where no record tells what they are, and for triggers on a write without
/// triggers; 405 for a method that the target does not have.
pub(crate) fn choose(
    target: Target,
    method: &str,
    headers: &RequestHeaders,
) -> Result<&'static Operation> {
    let row = ROWS.iter().find(|row| {
        row.target == target
            && row.form.methods().contains(&method)
            && row.form.matches_headers(headers)
    });
    let row = row.ok_or_else(|| method_not_allowed(method))?;
    let operation = match &row.entry {
        TableEntry::Offered(operation) => operation,
        TableEntry::NotOffered(subject) => return Err(Error::unsupported(subject)),
    };

    // Only queries of items are ever answered in binary JSON: for other requests the service
    // ignores the headers that ask for it.
    if row.form == Form::PostQuery && target == Target::Items && headers.wants_binary() {
        return Err(Error::unsupported(
            "An answer in binary JSON (x-ms-cosmos-supported-serialization-formats must name \
             JsonText, and x-ms-documentdb-content-serialization-format nothing else)",
        ));
    }

    // The records of the service tell what the header does to reads and writes of one item only.
    let is_of_items = matches!(target, Target::Item | Target::Items);
    if headers.leaves_out_links && is_of_items && !row.form.stores_or_reads_one(target) {
        return Err(Error::unsupported(
            "The header x-ms-exclude-system-properties on a list, a query, a change feed, a batch \
             or a patch of items",
        ));
    }

    let refuses_triggers =
        operation.rights.includes_writes() && operation.triggers == Triggers::None;
    if refuses_triggers && headers.names_trigger() {
        return Err(Error::bad(
            "Triggers can only be named on the creation, replacement and deletion of items.",
        ));
    }
    Ok(operation)
}

/// Returns the 405 for a method that a path does not have.
pub(crate) fn method_not_allowed(method: &str) -> Error {
    let message = format!("The method {method} is not allowed on this path.");
    Error::new(Kind::MethodNotAllowed, message)
}

impl Operation {
    /// Returns all operations, in the order of the table.
    pub fn all() -> impl Iterator<Item = &'static Operation> {
        ROWS.iter().filter_map(|row| match &row.entry {
            TableEntry::Offered(operation) => Some(operation),
            TableEntry::NotOffered(_) => None,
        })
    }

    /// Returns the operation with this name.
    ///
    /// # Errors
    /// A sentence that lists the names of all operations, if none has this name.
    pub fn from_name(name: &str) -> std::result::Result<&'static Operation, String> {
        Operation::all()
            .find(|operation| operation.name == name)
            .ok_or_else(|| {
                let names: Vec<&str> = Operation::all().map(Operation::name).collect();
                format!(
                    "there is no operation '{name}'; known are {}",
                    names.join(", ")
                )
            })
    }

    /// Returns the name of the operation in the log, in metrics and in fault rules.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the type of the addressed resource, as in signatures; `account` for the account.
    pub fn resource_type(&self) -> &'static str {
        route::resource_type(self.target)
    }

    /// Returns true if a request addresses one stored procedure.
    pub(crate) fn is_at_procedure(&self) -> bool {
        self.target == PROCEDURE
    }

    /// Returns true if the operation is a query or the plan of one.
    pub(crate) fn is_query(&self) -> bool {
        self.is_query
    }

    /// Returns the rights that the operation requires of its caller.
    pub(crate) fn rights(&self) -> Rights {
        self.rights
    }

    /// Returns the lane of a call: by its row, because of a large body, or because a script runs
    /// with it.
    pub(crate) fn lane(&self, call: &Call) -> Lane {
        let runs_trigger = self.triggers == Triggers::Run && call.headers.names_trigger();
        let runs_function =
            self.is_query && self.target == Target::Items && may_call_functions(&call.body);
        if self.runs_on == RunsOn::Scripts || runs_trigger || runs_function {
            Lane::Script
        } else if self.is_query || (self.is_patch && may_have_condition(&call.body)) {
            // The condition of a patch is a query over its item.
            Lane::Query
        } else if self.runs_on == RunsOn::Pool
            || call.body.len() > POOL_BODY_BYTES
            || call.headers.wants_statistics
        {
            // Statistics read all keys of a large partition.
            Lane::Pool
        } else {
            Lane::Worker
        }
    }

    /// Returns the place in the lane for scripts that a call takes.
    ///
    /// # Errors
    /// 404/1003 if the container does not exist.
    pub(crate) fn script_place(&self, engine: &Engine, call: &Call) -> Result<ScriptPlace> {
        let container = call.container(engine).map_err(owner_missing)?;
        let key = match self.is_query {
            true => None,
            false => call.optional_key(&container),
        };
        Ok(container.script_place(key))
    }

    /// Starts the operation: resolves the resources that its function requires and calls the
    /// function. Does everything but the wait for durability.
    ///
    /// # Errors
    /// 404 or 404/1003 if a required resource is missing. An error of the function itself is part
    /// of [`Started`], because its reply names the owner.
    pub(crate) fn start(&self, engine: &Engine, call: &Call) -> Result<Started> {
        // A required owner that is missing is 404/1003; a missing target is 404. The reply names
        // the owner, so that clients can store session tokens under its names.
        let above = quota::above_containers(self.target);
        let (owner, counted, progress) = match self.function {
            Function::Account(run) => (None, above, run(engine, call)),
            Function::Database(run) => {
                let database = call.database(engine)?;
                (None, above, run(engine, call, &database))
            }
            Function::InDatabase(run) => {
                let database = call.database(engine).map_err(owner_missing)?;
                let owner = Owner::database(&database);
                (Some(owner), above, run(engine, call, &database))
            }
            Function::Container(run) => {
                let container = call.container(engine)?;
                let owner = Owner::database_of(&container);
                (Some(owner), above, run(engine, call, &container))
            }
            Function::InContainer(run) => {
                let container = call.container(engine).map_err(owner_missing)?;
                let owner = Owner::container(&container);
                let counted = quota::in_container(self.target, &container);
                (Some(owner), counted, run(engine, call, &container))
            }
            Function::Script(run) => {
                let (Target::Scripts(kind) | Target::Script(kind)) = self.target else {
                    return Err(Error::internal("the target of a script function"));
                };
                let container = call.container(engine).map_err(owner_missing)?;
                let owner = Owner::container(&container);
                let counted = quota::in_container(self.target, &container);
                (Some(owner), counted, run(engine, call, &container, kind))
            }
            Function::Access(run) => {
                let (Target::AccessResources(kind) | Target::AccessResource(kind)) = self.target
                else {
                    return Err(Error::internal("the target of an access function"));
                };
                let owner = access::owner(engine, call, kind).map_err(owner_missing)?;
                let counted = Some(Counted::AccessResources(kind, owner.rid));
                let progress = run(engine, call, &owner, kind);
                (Some(owner), counted, progress)
            }
        };
        Ok(Started {
            owner,
            counted,
            progress,
        })
    }
}

/// Returns true if the body of a patch may have a condition: the word, or an escape of JSON.
fn may_have_condition(body: &[u8]) -> bool {
    let word = b"condition";
    let has_word = body.windows(word.len()).any(|part| part == word);
    has_word || body.windows(2).any(|part| part == b"\\u")
}

/// Returns true if the body of a query may name a user-defined function: the letters `udf` in any
/// case, or one of them as an escape of JSON.
fn may_call_functions(body: &[u8]) -> bool {
    const ESCAPES: [&[u8]; 6] = [b"75", b"55", b"64", b"44", b"66", b"46"];
    let names = body
        .windows(3)
        .any(|part| part.eq_ignore_ascii_case(b"udf"));
    names
        || body
            .windows(6)
            .any(|part| part.starts_with(b"\\u00") && ESCAPES.contains(&&part[4..]))
}

impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Operation {}

impl Hash for Operation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self, state);
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An operation after [`Operation::start`].
pub(crate) struct Started {
    /// The owner of the addressed resource, if it was found; the reply names it.
    owner: Option<Owner>,
    /// The resources whose quota and usage the reply states.
    counted: Option<Counted>,
    progress: Result<Progress>,
}

/// The state in which a function of the table leaves its operation.
pub(crate) enum Progress {
    /// Complete.
    Complete(Reply),
    /// An item is written and not yet durable.
    ItemWrite(Pending<Written>),
    /// The operations of a batch are done, and their writes are not yet durable.
    Batch(PendingBatch),
    /// A stored procedure has ended, and its writes are not yet durable.
    Procedure(Pending<ProcedureReply>),
}

/// Waits until the writes of a started operation are durable, and returns its reply.
pub(crate) async fn finish(started: Result<Started>, engine: &Engine, call: &Call) -> Reply {
    let mut reply = match started {
        Ok(started) => {
            let mut reply = match started.progress {
                Ok(Progress::Complete(reply)) => reply,
                // Only what waits is boxed, so that the future of a read stays small.
                Ok(progress) => Box::pin(progress.wait(call)).await,
                Err(error) => Reply::failed(error),
            };
            reply.owner = started.owner;
            if let Some(counted) = &started.counted {
                quota::add(&mut reply, counted, engine);
            }
            reply
        }
        Err(error) => Reply::failed(error),
    };
    if call.headers.wants_charge_parts {
        reply.explain_charge(engine);
    }
    reply
}

impl Progress {
    /// Waits until the writes are durable, and returns the reply.
    async fn wait(self, call: &Call) -> Reply {
        match self {
            Progress::Complete(reply) => reply,
            Progress::ItemWrite(pending) => items::finish(call, pending.await),
            Progress::Batch(pending) => batches::finish(call, pending.await),
            Progress::Procedure(pending) => scripts::finish(call, pending.await),
        }
    }
}

/// Returns the error for a failed search for the owner of the addressed resource: 404/1003 in place
/// of 404, which would stand for the addressed resource itself.
fn owner_missing(error: Error) -> Error {
    error.about_owner()
}

#[cfg(test)]
mod tests;
