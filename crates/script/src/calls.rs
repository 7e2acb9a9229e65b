//! What goes in and what comes out: the calls of the engine, and the calls a script makes back to it.
//!
//! JSON crosses this border as text. Links are parsed before they get here, so a [`Host`] never sees one of another
//! container.

/// Time and randomness of one execution; the same values give the same run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ambient {
    /// What `Date.now()` says at the start, in milliseconds since 1970. It then advances with the work done,
    /// not with the wall clock: one millisecond per ten thousand interrupt polls or per thousand readings.
    pub now_ms: i64,
    /// Seed of `Math.random` and of generated ids.
    pub seed: u64,
}

/// The two links of the container a script runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerLinks<'a> {
    /// `dbs/{rid}/colls/{rid}/`, with the slash at the end.
    pub self_link: &'a str,
    /// `dbs/{name}/colls/{name}`, without one.
    pub alt_link: &'a str,
}

/// The quota texts a script may read, in the form `documentSize=0;documentsSize=0;collectionSize=0;`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota<'a> {
    /// What the container uses now.
    pub current: &'a str,
    /// What it may use.
    pub maximum: &'a str,
}

/// One execution of a stored procedure.
#[derive(Debug, Clone, Copy)]
pub struct Procedure<'a> {
    /// Its id, which names it in stack traces.
    pub id: &'a str,
    /// Its source, verbatim.
    pub body: &'a str,
    /// The request body, verbatim: a JSON array or array-like object of arguments, `null`, or nothing.
    pub arguments: &'a [u8],
    /// The container.
    pub links: ContainerLinks<'a>,
    /// Texts of the container's size.
    pub quota: Quota<'a>,
    /// Whether the request asked for the log.
    pub logging: bool,
    /// Time and randomness.
    pub ambient: Ambient,
}

/// What a stored procedure left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcedureOutcome {
    /// The response body as JSON text; `""` (two quotes) if the script set none.
    pub body: String,
    /// The lines of `console.log`, joined by newlines, short enough that its percent-encoded form stays below
    /// 4 KiB; `None` unless asked for.
    pub log: Option<String>,
    /// Work done: interrupt ticks (one per ten thousand polls of the interpreter) plus `host_calls`.
    pub steps: u64,
    /// Operations the script sent to the [`Host`].
    pub host_calls: u64,
}

/// When a trigger runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerTime {
    /// Before the write; may rewrite the request body.
    Pre,
    /// After the write; may overwrite the response body.
    Post,
}

/// The write that fires a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new item.
    Create,
    /// An item for another.
    Replace,
    /// Whichever of both fits.
    Upsert,
    /// An item goes.
    Delete,
    /// An item is changed in part.
    Patch,
}

/// One execution of a trigger.
#[derive(Debug, Clone, Copy)]
pub struct Trigger<'a> {
    /// Its id, which names it in stack traces.
    pub id: &'a str,
    /// Its source, verbatim.
    pub body: &'a str,
    /// Before or after the write.
    pub time: TriggerTime,
    /// Which write it is.
    pub operation: Operation,
    /// The request body as JSON text, if there is one.
    pub request: Option<&'a str>,
    /// For a post-trigger: the stored item as JSON text, if there is one.
    pub response: Option<&'a str>,
    /// The container.
    pub links: ContainerLinks<'a>,
    /// Texts of the container's size.
    pub quota: Quota<'a>,
    /// Whether the request asked for the log.
    pub logging: bool,
    /// Time and randomness.
    pub ambient: Ambient,
}

/// What a trigger left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerOutcome {
    /// The rewritten request body (pre) or response body (post) as JSON text; `None` if the script left it alone.
    pub body: Option<String>,
    /// As in [`ProcedureOutcome::log`].
    pub log: Option<String>,
    /// As in [`ProcedureOutcome::steps`].
    pub steps: u64,
    /// As in [`ProcedureOutcome::host_calls`].
    pub host_calls: u64,
}

/// An item of the script's own container, as its link named it.
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
    /// As the container's policy says.
    #[default]
    Default,
    /// Indexed whatever the policy says.
    Include,
    /// Not indexed.
    Exclude,
}

/// One operation a script asks for, within its container and logical partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostCall {
    /// Read one item.
    Read {
        /// Which.
        link: DocumentLink,
        /// Answer [`HostReply::not_modified`] if the item still has this ETag.
        if_none_match: Option<String>,
    },
    /// Read a page of all items.
    ReadFeed {
        /// Items wanted at most, at least 1.
        page_size: u32,
        /// Where an earlier page ended, in the host's own words.
        continuation: Option<String>,
    },
    /// Read a page of a query.
    Query {
        /// The query's text.
        text: String,
        /// A JSON array of `{"name","value"}`.
        parameters: String,
        /// Results wanted at most, at least 1.
        page_size: u32,
        /// Where an earlier page ended, in the host's own words.
        continuation: Option<String>,
        /// The option `enableScan`.
        enable_scan: bool,
        /// The option `enableLowPrecisionOrderBy`.
        enable_low_precision_order_by: bool,
    },
    /// Create an item.
    Create {
        /// The item as JSON text.
        body: String,
        /// The option `indexAction`.
        index: IndexAction,
    },
    /// Create or replace an item.
    Upsert {
        /// The item as JSON text.
        body: String,
        /// The option `indexAction`.
        index: IndexAction,
    },
    /// Replace an item.
    Replace {
        /// Which.
        link: DocumentLink,
        /// The new item as JSON text.
        body: String,
        /// Only if it has this ETag.
        if_match: Option<String>,
        /// The option `indexAction`.
        index: IndexAction,
    },
    /// Delete an item.
    Delete {
        /// Which.
        link: DocumentLink,
        /// Only if it has this ETag.
        if_match: Option<String>,
    },
    /// Change an item in part.
    Patch {
        /// Which.
        link: DocumentLink,
        /// The patch as JSON text: an array of operations, or an object with `operations`.
        spec: String,
        /// Only if it has this ETag.
        if_match: Option<String>,
        /// The option `filterPredicate`.
        filter_predicate: Option<String>,
    },
}

/// A successful answer to a [`HostCall`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostReply {
    /// JSON texts: the item read or written (one), the page (any number), nothing after a delete.
    pub items: Vec<String>,
    /// Where the page ended, if there is more.
    pub continuation: Option<String>,
    /// The item still has the ETag named; `items` is empty.
    pub not_modified: bool,
}

/// A refused [`HostCall`]; the script's callback sees it as an error with these properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFailure {
    /// Status in the manner of HTTP: 400, 404, 409, 412, 413 …
    pub number: u16,
    /// For people.
    pub message: String,
    /// The error body a client would have read.
    pub body: String,
}

/// The engine as a script sees it: one transaction over one logical partition.
pub trait Host {
    /// Does one operation, in order; the script waits meanwhile.
    fn call(&mut self, call: HostCall) -> Result<HostReply, HostFailure>;
}
