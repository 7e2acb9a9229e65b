//! Operations: from method, target and headers to one entry of a table, and from that to the engine.
//!
//! Each entry says what the operation is called, whether it writes (read-only keys may not), where it runs, and what
//! it needs resolved before it starts. Files below hold the calls of the engine and the answers made from them.

mod batches;
mod feeds;
mod items;
mod metadata;
mod plain;
mod queries;
mod ranges;
mod row_batches;
mod scripts;

use crate::call::Call;
use crate::headers::{Content, RequestHeaders};
use crate::reply::{Owner, Reply};
use crate::route::Target;
use orrery_engine::request::{ProcedureReply, Written};
use orrery_engine::{Container, Database, Engine, Pending, PendingBatch};
use orrery_model::{Error, Kind, Result};
use std::sync::Arc;

/// One operation of the protocol.
pub(crate) struct Operation {
    /// Its name, for the log.
    pub(crate) name: &'static str,
    /// Whether it changes anything.
    pub(crate) writes: bool,
    /// Whether it may be slow, whatever its size.
    pub(crate) slow: bool,
    run: Run,
}

type OnEngine = fn(&Engine, &Call) -> Result<Step>;
type OnDatabase = fn(&Engine, &Call, &Arc<Database>) -> Result<Step>;
type OnOwner = fn(&Engine, &Call, &Owner) -> Result<Step>;
type OnContainer = fn(&Engine, &Call, &Container) -> Result<Step>;

/// What an operation needs resolved, and whose child it addresses.
enum Run {
    /// The account or its feeds.
    Account(OnEngine),
    /// A database.
    Database(OnDatabase),
    /// A child of a database, which must exist.
    InDatabase(OnDatabase),
    /// A user, permission or client encryption key, or a feed of them; what they belong to must exist.
    AccessResource(OnOwner),
    /// A container.
    Container(OnContainer),
    /// A child of a container, which must exist.
    InContainer(OnContainer),
}

/// How far an operation has come.
pub(crate) enum Step {
    /// It is done.
    Reply(Reply),
    /// An item is written and not yet durable.
    Write(Pending<Written>),
    /// The operations of a batch are done and what they wrote is not yet durable.
    Batch(PendingBatch),
    /// A procedure has ended and what it wrote is not yet durable.
    Procedure(Pending<ProcedureReply>),
}

/// An operation that has begun, and the owner of what it addresses.
pub(crate) struct Begun {
    pub(crate) step: Step,
    pub(crate) owner: Option<Owner>,
}

const fn read(name: &'static str, run: Run) -> Operation {
    Operation {
        name,
        writes: false,
        slow: false,
        run,
    }
}
const fn slow_read(name: &'static str, run: Run) -> Operation {
    Operation {
        name,
        writes: false,
        slow: true,
        run,
    }
}
const fn write(name: &'static str, run: Run) -> Operation {
    Operation {
        name,
        writes: true,
        slow: false,
        run,
    }
}
const fn slow_write(name: &'static str, run: Run) -> Operation {
    Operation {
        name,
        writes: true,
        slow: true,
        run,
    }
}

static READ_ACCOUNT: Operation = read("read_account", Run::Account(metadata::read_account));
static LIST_DATABASES: Operation = slow_read("list_databases", Run::Account(feeds::list_databases));
static QUERY_DATABASES: Operation =
    slow_read("query_databases", Run::Account(queries::query_databases));
static CREATE_DATABASE: Operation =
    slow_write("create_database", Run::Account(metadata::create_database));
static READ_DATABASE: Operation = read("read_database", Run::Database(metadata::read_database));
static DELETE_DATABASE: Operation =
    slow_write("delete_database", Run::Database(metadata::delete_database));
static LIST_CONTAINERS: Operation =
    slow_read("list_containers", Run::InDatabase(feeds::list_containers));
static QUERY_CONTAINERS: Operation = slow_read(
    "query_containers",
    Run::InDatabase(queries::query_containers),
);
static CREATE_CONTAINER: Operation = slow_write(
    "create_container",
    Run::InDatabase(metadata::create_container),
);
static READ_CONTAINER: Operation = read("read_container", Run::Container(metadata::read_container));
static REPLACE_CONTAINER: Operation = slow_write(
    "replace_container",
    Run::Container(metadata::replace_container),
);
static DELETE_CONTAINER: Operation = slow_write(
    "delete_container",
    Run::Container(metadata::delete_container),
);
static LIST_PLAINS: Operation = slow_read("list_plain_resources", Run::AccessResource(plain::list));
static QUERY_PLAINS: Operation =
    slow_read("query_plain_resources", Run::AccessResource(plain::query));
static CREATE_PLAIN: Operation =
    slow_write("create_plain_resource", Run::AccessResource(plain::create));
static READ_PLAIN: Operation = read("read_plain_resource", Run::AccessResource(plain::read));
static REPLACE_PLAIN: Operation = slow_write(
    "replace_plain_resource",
    Run::AccessResource(plain::replace),
);
static DELETE_PLAIN: Operation =
    slow_write("delete_plain_resource", Run::AccessResource(plain::delete));
static READ_RANGES: Operation = read("read_partition_key_ranges", Run::InContainer(ranges::read));
static LIST_OFFERS: Operation = slow_read("list_offers", Run::Account(feeds::list_offers));
static QUERY_OFFERS: Operation = slow_read("query_offers", Run::Account(queries::query_offers));
static READ_OFFER: Operation = read("read_offer", Run::Account(metadata::read_offer));
static REPLACE_OFFER: Operation =
    slow_write("replace_offer", Run::Account(metadata::replace_offer));
static LIST_SCRIPTS: Operation = slow_read("list_scripts", Run::InContainer(feeds::list_scripts));
static QUERY_SCRIPTS: Operation =
    slow_read("query_scripts", Run::InContainer(queries::query_scripts));
static CREATE_SCRIPT: Operation = slow_write("create_script", Run::InContainer(scripts::create));
static READ_SCRIPT: Operation = slow_read("read_script", Run::InContainer(scripts::read));
static REPLACE_SCRIPT: Operation = slow_write("replace_script", Run::InContainer(scripts::replace));
static DELETE_SCRIPT: Operation = slow_write("delete_script", Run::InContainer(scripts::delete));
static EXECUTE: Operation = slow_write(
    "execute_stored_procedure",
    Run::InContainer(scripts::execute),
);
static LIST_CONFLICTS: Operation = read("list_conflicts", Run::InContainer(feeds::list_conflicts));
static QUERY_CONFLICTS: Operation = read(
    "query_conflicts",
    Run::InContainer(queries::query_conflicts),
);
static READ_CONFLICT: Operation = read("read_conflict", Run::InContainer(feeds::no_such_conflict));
static DELETE_CONFLICT: Operation =
    write("delete_conflict", Run::InContainer(feeds::no_such_conflict));
static READ_FEED: Operation = slow_read("read_items", Run::InContainer(feeds::read_items));
static CHANGE_FEED: Operation =
    slow_read("query_change_feed", Run::InContainer(feeds::change_feed));
static QUERY_PLAN: Operation = slow_read("query_plan", Run::InContainer(queries::plan));
static QUERY_ITEMS: Operation = slow_read("query_items", Run::InContainer(queries::query_items));
static CREATE_ITEM: Operation = write("create_item", Run::InContainer(items::create));
static UPSERT_ITEM: Operation = write("upsert_item", Run::InContainer(items::upsert));
static READ_ITEM: Operation = read("read_item", Run::InContainer(items::read));
static REPLACE_ITEM: Operation = write("replace_item", Run::InContainer(items::replace));
static PATCH_ITEM: Operation = write("patch_item", Run::InContainer(items::patch));
static DELETE_ITEM: Operation = write("delete_item", Run::InContainer(items::delete));
static EXECUTE_BATCH: Operation = slow_write("execute_batch", Run::InContainer(batches::run));
static DELETE_LOGICAL_PARTITION: Operation = slow_write(
    "delete_all_items_by_partition_key",
    Run::InContainer(items::delete_logical_partition),
);

/// Every operation.
#[rustfmt::skip] // a table that fills its lines
pub(crate) static ALL: &[&Operation] = &[
    &READ_ACCOUNT, &LIST_DATABASES, &QUERY_DATABASES, &CREATE_DATABASE, &READ_DATABASE, &DELETE_DATABASE,
    &LIST_CONTAINERS, &QUERY_CONTAINERS, &CREATE_CONTAINER, &READ_CONTAINER, &REPLACE_CONTAINER, &DELETE_CONTAINER,
    &LIST_PLAINS, &QUERY_PLAINS, &CREATE_PLAIN, &READ_PLAIN, &REPLACE_PLAIN, &DELETE_PLAIN,
    &READ_RANGES, &LIST_OFFERS, &QUERY_OFFERS, &READ_OFFER, &REPLACE_OFFER, &LIST_SCRIPTS,
    &QUERY_SCRIPTS, &CREATE_SCRIPT, &READ_SCRIPT, &REPLACE_SCRIPT, &DELETE_SCRIPT, &EXECUTE,
    &LIST_CONFLICTS, &QUERY_CONFLICTS, &READ_CONFLICT, &DELETE_CONFLICT, &READ_FEED, &CHANGE_FEED,
    &QUERY_PLAN, &QUERY_ITEMS, &CREATE_ITEM, &UPSERT_ITEM, &READ_ITEM, &REPLACE_ITEM,
    &PATCH_ITEM, &DELETE_ITEM, &EXECUTE_BATCH, &DELETE_LOGICAL_PARTITION,
];

/// What a client in the direct mode reads, once it asks for addresses. A 400 is what these clients hand to their users
/// at once; see `docs/decisions`.
const DIRECT_MODE: &str = "The direct connection mode (address resolution; choose the gateway mode in the client, such \
                           as ConnectionMode.Gateway or gatewayMode())";

/// The operation that a request asks for. HEAD is a GET whose body is left out.
///
/// # Errors
/// 405 for a method that the target does not have; 400 for what the protocol has and we do not offer.
pub(crate) fn choose(
    target: Target,
    method: &str,
    headers: &RequestHeaders,
) -> Result<&'static Operation> {
    match target {
        Target::Refused(what) => return Err(Error::unsupported(what)),
        Target::Addresses => return Err(Error::unsupported(DIRECT_MODE)),
        _ => {}
    }
    let method = if method == "HEAD" { "GET" } else { method };
    let is_query = headers.query || matches!(headers.content, Content::Query | Content::Sql);
    let operation = match (method, target) {
        ("GET", Target::Account) => &READ_ACCOUNT,
        ("GET", Target::Databases) => &LIST_DATABASES,
        ("POST", Target::Databases) => post(headers, is_query, &QUERY_DATABASES, &CREATE_DATABASE)?,
        ("GET", Target::Database) => &READ_DATABASE,
        ("DELETE", Target::Database) => &DELETE_DATABASE,
        ("GET", Target::Containers) => &LIST_CONTAINERS,
        ("POST", Target::Containers) => {
            post(headers, is_query, &QUERY_CONTAINERS, &CREATE_CONTAINER)?
        }
        ("GET", Target::Container) => &READ_CONTAINER,
        ("PUT", Target::Container) => &REPLACE_CONTAINER,
        ("DELETE", Target::Container) => &DELETE_CONTAINER,
        ("GET", Target::Ranges) => &READ_RANGES,
        ("GET", Target::Offers) => &LIST_OFFERS,
        ("POST", Target::Offers) if is_query => &QUERY_OFFERS,
        ("POST", Target::Offers) => return Err(Error::unsupported("Creating an offer by itself")),
        ("GET", Target::Offer) => &READ_OFFER,
        ("PUT", Target::Offer) => &REPLACE_OFFER,
        ("GET", Target::Scripts(_)) => &LIST_SCRIPTS,
        ("POST", Target::Scripts(_)) => {
            if is_query {
                &QUERY_SCRIPTS
            } else {
                &CREATE_SCRIPT
            }
        }
        ("GET", Target::Script(_)) => &READ_SCRIPT,
        ("PUT", Target::Script(_)) => &REPLACE_SCRIPT,
        ("DELETE", Target::Script(_)) => &DELETE_SCRIPT,
        ("POST", Target::Script(_)) => &EXECUTE,
        ("GET", Target::Plains(_)) => &LIST_PLAINS,
        ("POST", Target::Plains(_)) if is_query => &QUERY_PLAINS,
        ("POST", Target::Plains(_)) => &CREATE_PLAIN,
        ("GET", Target::Plain(_)) => &READ_PLAIN,
        ("PUT", Target::Plain(_)) => &REPLACE_PLAIN,
        ("DELETE", Target::Plain(_)) => &DELETE_PLAIN,
        ("GET", Target::Conflicts) => &LIST_CONFLICTS,
        ("POST", Target::Conflicts) if is_query => &QUERY_CONFLICTS,
        ("POST", Target::Conflicts) => return Err(Error::unsupported("Creating a conflict")),
        ("GET", Target::Conflict) => &READ_CONFLICT,
        ("DELETE", Target::Conflict) => &DELETE_CONFLICT,
        ("GET", Target::Items) => {
            if headers.change_feed.is_some() {
                &CHANGE_FEED
            } else {
                &READ_FEED
            }
        }
        ("POST", Target::Items) => post_items(headers, is_query)?,
        ("GET", Target::Item) => &READ_ITEM,
        ("PUT", Target::Item) => &REPLACE_ITEM,
        ("DELETE", Target::Item) => &DELETE_ITEM,
        ("POST", Target::LogicalPartition) => &DELETE_LOGICAL_PARTITION,
        ("PATCH", Target::Item) => &PATCH_ITEM,
        _ => {
            return Err(Error::new(
                Kind::MethodNotAllowed,
                format!("The method {method} does not exist here."),
            ));
        }
    };
    if headers.wants_binary() && operation.name == QUERY_ITEMS.name {
        return Err(Error::unsupported(
            "An answer in binary JSON (x-ms-cosmos-supported-serialization-formats must name JsonText, and \
             x-ms-documentdb-content-serialization-format nothing else)",
        ));
    }
    check_triggers(operation, headers)
}

/// The order in which headers decide what a POST to the items of a container is.
fn post_items(headers: &RequestHeaders, is_query: bool) -> Result<&'static Operation> {
    match headers {
        RequestHeaders { plan: true, .. } => Ok(&QUERY_PLAN),
        RequestHeaders { batch: true, .. } => Ok(&EXECUTE_BATCH),
        RequestHeaders {
            change_feed: Some(_),
            ..
        } => Err(Error::unsupported(
            "A change feed with a query (POST with A-IM)",
        )),
        _ if is_query => Ok(&QUERY_ITEMS),
        RequestHeaders { upsert: true, .. } => Ok(&UPSERT_ITEM),
        _ => Ok(&CREATE_ITEM),
    }
}

fn post(
    headers: &RequestHeaders,
    is_query: bool,
    query: &'static Operation,
    create: &'static Operation,
) -> Result<&'static Operation> {
    match headers.upsert {
        _ if is_query => Ok(query),
        true => Err(Error::unsupported(
            "Upsert (x-ms-documentdb-is-upsert) of a database or container",
        )),
        false => Ok(create),
    }
}

/// Triggers surround writes of items. Reads ignore their names, as the service does; other writes refuse them.
fn check_triggers(
    operation: &'static Operation,
    headers: &RequestHeaders,
) -> Result<&'static Operation> {
    let named = headers.pre_trigger.is_some() || headers.post_trigger.is_some();
    let of_item = matches!(
        operation.name,
        "create_item" | "upsert_item" | "replace_item" | "delete_item"
    );
    if named && operation.writes && !of_item {
        return Err(Error::bad(
            "Triggers can only be named on the creation, replacement and deletion of items.",
        ));
    }
    Ok(operation)
}

/// Starts an operation; everything but the wait for the disk happens here.
pub(crate) fn begin(operation: &Operation, engine: &Engine, call: &Call) -> Begun {
    let mut owner = None;
    let step = start(operation, engine, call, &mut owner);
    Begun {
        step: step.unwrap_or_else(|error| Step::Reply(Reply::failed(error))),
        owner,
    }
}

fn start(
    operation: &Operation,
    engine: &Engine,
    call: &Call,
    owner: &mut Option<Owner>,
) -> Result<Step> {
    match operation.run {
        Run::Account(run) => run(engine, call),
        Run::Database(run) => run(engine, call, &call.database(engine)?),
        Run::InDatabase(run) => {
            let database = call.database(engine).map_err(of_owner)?;
            *owner = Some(Owner {
                path: format!("dbs/{}", database.id()),
                rid: database.rid(),
            });
            run(engine, call, &database)
        }
        Run::AccessResource(run) => {
            let above = plain::owner(engine, call).map_err(of_owner)?;
            *owner = Some(above.clone());
            run(engine, call, &above)
        }
        Run::Container(run) => {
            let container = call.container(engine)?;
            let path = format!("dbs/{}", container.database_id());
            *owner = Some(Owner {
                path,
                rid: container.rid().database_part(),
            });
            run(engine, call, &container)
        }
        Run::InContainer(run) => {
            let container = call.container(engine).map_err(of_owner)?;
            let path = format!("dbs/{}/colls/{}", container.database_id(), container.id());
            *owner = Some(Owner {
                path,
                rid: container.rid(),
            });
            run(engine, call, &container)
        }
    }
}

/// What is missing is not what was asked for but the resource above it.
fn of_owner(error: Error) -> Error {
    if error.kind() == Kind::NotFound {
        Error::owner_not_found()
    } else {
        error
    }
}

/// The answer to a batch whose writes are durable now.
pub(crate) use batches::finish as finish_batch;
/// The answer to a write that is durable now.
pub(crate) use items::finish as finish_write;
/// The answer to a procedure whose writes are durable now.
pub(crate) use scripts::finish as finish_procedure;

#[cfg(test)]
mod tests;
