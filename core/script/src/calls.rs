//! The values at the border of this crate: the calls of the engine with their outcomes, and the
//! operations that a script requests from the engine.
//!
//! JSON crosses this border as text. The prelude checks links, so a [`Host`] never gets the link of
//! another container.

/// Time and randomness of one execution; the same values give the same run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ambient {
    /// The value of `Date.now()` at the start, in milliseconds since 1970. It then advances with
    /// the work done, not with the wall clock: one millisecond per ten thousand interrupt polls or
    /// per thousand readings.
    pub now_ms: i64,
    /// Seed of `Math.random` and of generated ids.
    pub seed: u64,
}

/// The two links of the container in which a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerLinks<'a> {
    /// The link by resource ids, `dbs/{rid}/colls/{rid}/`, with a slash at the end.
    pub self_link: &'a str,
    /// The link by names, `dbs/{name}/colls/{name}`, without a slash at the end.
    pub alt_link: &'a str,
}

/// The quota texts that a script may read, in the form
/// `documentSize=0;documentsSize=0;collectionSize=0;`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota<'a> {
    /// The present use of the container.
    pub current: &'a str,
    /// The quota of the container.
    pub maximum: &'a str,
}

/// One execution of a stored procedure.
#[derive(Debug, Clone, Copy)]
pub struct Procedure<'a> {
    /// The id of the procedure, which names it in stack traces.
    pub id: &'a str,
    /// The source, verbatim.
    pub body: &'a str,
    /// The request body, verbatim: a JSON array or array-like object of arguments, `null`, or
    /// nothing.
    pub arguments: &'a [u8],
    /// The links of the container.
    pub links: ContainerLinks<'a>,
    /// The texts of the container's use and quota.
    pub quota: Quota<'a>,
    /// True if the request asks for the log.
    pub logging: bool,
    /// Time and randomness.
    pub ambient: Ambient,
}

/// The outcome of a stored procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcedureOutcome {
    /// The response body as JSON text; `""` (two quotes) if the script set none.
    pub body: String,
    /// The lines of `console.log`, joined by newlines, short enough that the percent-encoded text
    /// is below 4 KiB; `None` if the request did not ask for the log.
    pub log: Option<String>,
    /// The work done: interrupt ticks (one per ten thousand polls of the interpreter) plus
    /// `host_calls`.
    pub steps: u64,
    /// The number of operations that the script sent to the [`Host`].
    pub host_calls: u64,
}

/// The moment at which a trigger runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerTime {
    /// Before the write; the trigger may rewrite the request body.
    Pre,
    /// After the write; the trigger may overwrite the response body.
    Post,
}

/// The write that fires a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates an item.
    Create,
    /// Replaces an item.
    Replace,
    /// Creates or replaces an item.
    Upsert,
    /// Deletes an item.
    Delete,
    /// Changes an item in part.
    Patch,
}

/// One execution of a trigger.
#[derive(Debug, Clone, Copy)]
pub struct Trigger<'a> {
    /// The id of the trigger, which names it in stack traces.
    pub id: &'a str,
    /// The source, verbatim.
    pub body: &'a str,
    /// The moment: before or after the write.
    pub time: TriggerTime,
    /// The write.
    pub operation: Operation,
    /// The request body as JSON text, if there is one.
    pub request: Option<&'a str>,
    /// For a post-trigger: the stored item as JSON text, if there is one.
    pub response: Option<&'a str>,
    /// The links of the container.
    pub links: ContainerLinks<'a>,
    /// The texts of the container's use and quota.
    pub quota: Quota<'a>,
    /// True if the request asks for the log.
    pub logging: bool,
    /// Time and randomness.
    pub ambient: Ambient,
}

/// The outcome of a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerOutcome {
    /// The rewritten request body (pre) or response body (post) as JSON text; `None` if the script
    /// did not change it.
    pub body: Option<String>,
    /// As in [`ProcedureOutcome::log`].
    pub log: Option<String>,
    /// As in [`ProcedureOutcome::steps`].
    pub steps: u64,
    /// As in [`ProcedureOutcome::host_calls`].
    pub host_calls: u64,
}

/// An item of the script's own container, as a link names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentLink {
    /// From `{alt link}/docs/{id}`: the id, verbatim.
    Id(String),
    /// From `{self link}docs/{rid}/`: the resource id, not decoded.
    Rid(String),
}

/// The option `indexAction` of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexAction {
    /// Indexes the item as the container's policy says.
    #[default]
    Default,
    /// Indexes the item whatever the policy says.
    Include,
    /// Does not index the item.
    Exclude,
}

/// One operation that a script requests, within its container and logical partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostCall {
    /// Reads one item.
    Read {
        /// The item.
        link: DocumentLink,
        /// The reply is [`HostReply::not_modified`] if the item has this ETag.
        if_none_match: Option<String>,
    },
    /// Reads a page of all items.
    ReadFeed {
        /// The most items of the page, at least 1.
        page_size: u32,
        /// The continuation of an earlier page, verbatim.
        continuation: Option<String>,
    },
    /// Reads a page of a query.
    Query {
        /// The query's text.
        text: String,
        /// A JSON array of `{"name","value"}`.
        parameters: String,
        /// The most results of the page, at least 1.
        page_size: u32,
        /// The continuation of an earlier page, verbatim.
        continuation: Option<String>,
        /// The option `enableScan`.
        enable_scan: bool,
        /// The option `enableLowPrecisionOrderBy`.
        enable_low_precision_order_by: bool,
    },
    /// Creates an item.
    Create {
        /// The item as JSON text.
        body: String,
        /// The option `indexAction`.
        index: IndexAction,
    },
    /// Creates or replaces an item.
    Upsert {
        /// The item as JSON text.
        body: String,
        /// The option `indexAction`.
        index: IndexAction,
    },
    /// Replaces an item.
    Replace {
        /// The item.
        link: DocumentLink,
        /// The new item as JSON text.
        body: String,
        /// The ETag that the item must have.
        if_match: Option<String>,
        /// The option `indexAction`.
        index: IndexAction,
    },
    /// Deletes an item.
    Delete {
        /// The item.
        link: DocumentLink,
        /// The ETag that the item must have.
        if_match: Option<String>,
    },
    /// Changes an item in part.
    Patch {
        /// The item.
        link: DocumentLink,
        /// The patch as JSON text: an array of operations, or an object with `operations`.
        spec: String,
        /// The ETag that the item must have.
        if_match: Option<String>,
        /// The option `filterPredicate`.
        filter_predicate: Option<String>,
    },
}

/// The reply to a successful [`HostCall`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostReply {
    /// JSON texts: the item read or written (one), the page (any number), none after a delete.
    pub items: Vec<String>,
    /// The continuation of the page, if there is more.
    pub continuation: Option<String>,
    /// True if the item has the ETag of the request; `items` is empty.
    pub not_modified: bool,
}

/// The refusal of a [`HostCall`]. The script's callback gets an error with these properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFailure {
    /// A status as in HTTP: 400, 404, 409, 412, 413 …
    pub number: u16,
    /// The text for people.
    pub message: String,
    /// The error body that a client would get.
    pub body: String,
}

/// The operations of one script: a transaction over one logical partition.
pub trait Host {
    /// Does one operation; the script waits for the reply.
    ///
    /// # Errors
    /// When the operation is refused.
    fn call(&mut self, call: HostCall) -> Result<HostReply, HostFailure>;
}
