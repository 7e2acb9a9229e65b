//! The table of tools: name, title, description, arguments, annotations.
//!
//! A read-only session knows the tools that read, and no others: the same table gives the list of
//! tools and decides whether a call is carried out.

use super::account::{Account, ToolError};
use super::wire::Members;
use super::{reading, writing};
use serde_json::{Map, Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The running call of a tool; it yields the JSON text of an object.
pub(super) type Call = Pin<Box<dyn Future<Output = Result<String, ToolError>> + Send>>;

/// The effect of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Reads.
    Reads,
    /// Adds something, and changes nothing that exists.
    Adds,
    /// Changes or deletes what exists; twice has the effect of once.
    Changes,
    /// Changes what exists each time anew.
    ChangesAgain,
}

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    pub(super) effect: Effect,
    arguments: &'static [Argument],
    pub(super) call: fn(Arc<Account>, Members) -> Call,
}

/// An argument of a tool.
struct Argument {
    name: &'static str,
    /// Type as JSON Schema names it; several are separated by `|`.
    kind: &'static str,
    description: &'static str,
    is_needed: bool,
}

const fn needed(name: &'static str, kind: &'static str, description: &'static str) -> Argument {
    Argument {
        name,
        kind,
        description,
        is_needed: true,
    }
}

const fn optional(name: &'static str, kind: &'static str, description: &'static str) -> Argument {
    Argument {
        is_needed: false,
        ..needed(name, kind, description)
    }
}

const DATABASE: Argument = needed("database", "string", "Name of the database");
const CONTAINER: Argument = needed("container", "string", "Name of the container");
const ID: Argument = needed("id", "string", "Id of the item");
const KEY_TEXT: &str = "Partition key value of the item, or an array for a container with several \
                        partition key paths";
const KEY_KIND: &str = "string|number|boolean|null|array";
const KEY: Argument = needed("partition_key", KEY_KIND, KEY_TEXT);
const ONE_KEY: Argument = optional(
    "partition_key",
    KEY_KIND,
    "Partition key value of the only logical partition to ask, which costs least; without it, all \
     partitions are asked",
);
const SQL: Argument = needed(
    "query",
    "string",
    "Query, for example SELECT * FROM c WHERE c.n > @n",
);
const PARAMETERS: Argument = optional(
    "parameters",
    "object",
    "Values of the parameters of the query, by name with or without @",
);
const ITEM: Argument = needed("item", "object", "Item, with its id and its partition key");
const ETAG: Argument = optional(
    "etag",
    "string",
    "Etag of the version that may be changed; another version is left as it is",
);
const RU: Argument = optional("throughput", "integer", "Provisioned throughput in RU/s");
const AUTOSCALE: Argument = optional(
    "autoscale_max_throughput",
    "integer",
    "Largest throughput of autoscale in RU/s",
);

macro_rules! call {
    ($function:path) => {
        |account, arguments| Box::pin($function(account, arguments))
    };
}

/// All tools.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "list_databases",
        title: "List databases",
        description: "Lists the databases of the account.",
        effect: Effect::Reads,
        arguments: &[],
        call: call!(reading::list_databases),
    },
    Tool {
        name: "list_containers",
        title: "List containers",
        description: "Lists the containers of a database with their partition key paths.",
        effect: Effect::Reads,
        arguments: &[DATABASE],
        call: call!(reading::list_containers),
    },
    Tool {
        name: "describe_container",
        title: "Describe a container",
        description: "Describes a container: partition key, indexing policy, throughput, and the \
                      schema of a sample of its items (property paths with types and frequency). \
                      Call this before you write a query.",
        effect: Effect::Reads,
        arguments: &[
            DATABASE,
            CONTAINER,
            optional(
                "sample_size",
                "integer",
                "Items of the sample, 100 if not given, 1000 at most",
            ),
        ],
        call: call!(reading::describe_container),
    },
    Tool {
        name: "query",
        title: "Run a query",
        description: "Runs a query in the SQL of Azure Cosmos DB for NoSQL on one container and \
                      returns rows, request charge and a continuation. Queries cannot change \
                      data. A query with the partition key costs least.",
        effect: Effect::Reads,
        arguments: &[
            DATABASE,
            CONTAINER,
            SQL,
            PARAMETERS,
            ONE_KEY,
            optional(
                "max_rows",
                "integer",
                "Rows at most, 100 if not given, 10000 at most",
            ),
            optional(
                "continuation",
                "string",
                "Continuation of the previous answer",
            ),
        ],
        call: call!(reading::query),
    },
    Tool {
        name: "explain_query",
        title: "Explain a query",
        description: "Runs the first page of a query and returns its request charge, metrics, use \
                      of the index with proposed indexes, advice, and the plan as far as the \
                      endpoint gives them. The rows are left out.",
        effect: Effect::Reads,
        arguments: &[DATABASE, CONTAINER, SQL, PARAMETERS, ONE_KEY],
        call: call!(reading::explain_query),
    },
    Tool {
        name: "get_item",
        title: "Get an item",
        description: "Reads one item by its id and partition key, the cheapest request.",
        effect: Effect::Reads,
        arguments: &[DATABASE, CONTAINER, ID, KEY],
        call: call!(reading::get_item),
    },
    Tool {
        name: "partition_statistics",
        title: "Show physical partitions",
        description: "Lists the physical partitions of a container with their ranges, sizes, \
                      numbers of items and largest partition keys, as far as the endpoint gives \
                      them.",
        effect: Effect::Reads,
        arguments: &[DATABASE, CONTAINER],
        call: call!(reading::partition_statistics),
    },
    Tool {
        name: "create_item",
        title: "Create an item",
        description: "Creates an item. An item with the same id and partition key is a conflict.",
        effect: Effect::Adds,
        arguments: &[DATABASE, CONTAINER, KEY, ITEM],
        call: call!(writing::create_item),
    },
    Tool {
        name: "upsert_item",
        title: "Create or replace an item",
        description: "Creates an item, or replaces the item with the same id and partition key.",
        effect: Effect::Changes,
        arguments: &[DATABASE, CONTAINER, KEY, ITEM],
        call: call!(writing::upsert_item),
    },
    Tool {
        name: "patch_item",
        title: "Patch an item",
        description: "Changes properties of an item with at most 10 operations, for example \
                      {\"op\":\"set\",\"path\":\"/total\",\"value\":7}; op is add, set, replace, \
                      remove, incr or move.",
        effect: Effect::ChangesAgain,
        arguments: &[
            DATABASE,
            CONTAINER,
            ID,
            KEY,
            needed("operations", "array", "Operations in their order"),
            ETAG,
        ],
        call: call!(writing::patch_item),
    },
    Tool {
        name: "delete_item",
        title: "Delete an item",
        description: "Deletes an item.",
        effect: Effect::Changes,
        arguments: &[DATABASE, CONTAINER, ID, KEY, ETAG],
        call: call!(writing::delete_item),
    },
    Tool {
        name: "create_database",
        title: "Create a database",
        description: "Creates a database, with throughput that its containers share if given.",
        effect: Effect::Adds,
        arguments: &[DATABASE, RU, AUTOSCALE],
        call: call!(writing::create_database),
    },
    Tool {
        name: "create_container",
        title: "Create a container",
        description: "Creates a container. The partition key paths cannot be changed later.",
        effect: Effect::Adds,
        arguments: &[
            DATABASE,
            CONTAINER,
            needed(
                "partition_key_paths",
                "array",
                "One to three paths such as /customer",
            ),
            optional(
                "indexing_policy",
                "object",
                "Indexing policy; all paths if not given",
            ),
            optional(
                "default_ttl",
                "integer",
                "Seconds after which items expire; -1 for never",
            ),
            RU,
            AUTOSCALE,
        ],
        call: call!(writing::create_container),
    },
    Tool {
        name: "delete_container",
        title: "Delete a container",
        description: "Deletes a container with all its items. This cannot be undone.",
        effect: Effect::Changes,
        arguments: &[DATABASE, CONTAINER],
        call: call!(writing::delete_container),
    },
];

impl Tool {
    /// Returns the tool as a list shows it. Arguments that the view fixes are optional.
    pub(super) fn listed(&self, account: &Account) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for argument in self.arguments {
            let kinds: Vec<&str> = argument.kind.split('|').collect();
            let mut property = match kinds[..] {
                [one] => json!({"type": one}),
                _ => json!({"type": kinds}),
            };
            property["description"] = argument.description.into();
            properties.insert(argument.name.to_owned(), property);
            let is_fixed = match argument.name {
                "database" => account.options.database.is_some(),
                "container" => account.options.container.is_some(),
                _ => false,
            };
            if argument.is_needed && !is_fixed {
                required.push(argument.name);
            }
        }
        let schema = json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false});
        let is_destructive = matches!(self.effect, Effect::Changes | Effect::ChangesAgain);
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.effect == Effect::Reads,
                "destructiveHint": is_destructive,
                "idempotentHint": matches!(self.effect, Effect::Reads | Effect::Changes),
                "openWorldHint": false,
            },
        })
    }

    /// Checks the names of the arguments, and that the needed ones are there.
    ///
    /// # Errors
    /// The name of an argument that is unknown.
    pub(super) fn check(&self, arguments: &Members) -> Result<(), ToolError> {
        let mut names = arguments.keys();
        let unknown = names.find(|name| !self.arguments.iter().any(|known| known.name == **name));
        match unknown {
            None => Ok(()),
            Some(name) => {
                let known: Vec<&str> = self.arguments.iter().map(|known| known.name).collect();
                Err(ToolError(format!(
                    "{} has no argument {name}; its arguments are: {}",
                    self.name,
                    known.join(", ")
                )))
            }
        }
    }
}

/// Returns the tools of a session.
pub(super) fn offered(account: &Account) -> impl Iterator<Item = &'static Tool> {
    let allows_writes = account.options.allows_writes;
    let has_writes = move |tool: &&Tool| allows_writes || tool.effect == Effect::Reads;
    TOOLS.iter().filter(has_writes)
}
