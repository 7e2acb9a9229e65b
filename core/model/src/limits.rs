//! The limits of the service that the server enforces, each with its unit in its name or text.
//!
//! A limit is the largest accepted value unless its text says otherwise.

/// Levels of arrays and objects in an item or a query parameter.
pub const NESTING_DEPTH: usize = 128;
/// Bytes of an item's JSON text, including system properties.
pub const ITEM_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a request body: one item and a small envelope. The SDKs cut bulk requests at 2,202,010
/// bytes.
pub const REQUEST_BODY_BYTES: usize = 2 * 1024 * 1024 + 128 * 1024;
/// Operations of one batch.
pub const BATCH_OPERATIONS: usize = 100;
/// Bytes of all items in the response to one batch.
pub const BATCH_RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// Operations of one patch.
pub const PATCH_OPERATIONS: usize = 10;
/// Bytes of one page of a feed or query.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Rows of a page if the client does not send `x-ms-max-item-count`.
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Bytes of a query's text.
pub const QUERY_TEXT_BYTES: usize = 512 * 1024;
/// UTF-8 bytes of an item's id.
pub const ITEM_ID_BYTES: usize = 1023;
/// Characters of the id of a resource other than an item.
pub const RESOURCE_ID_CHARS: usize = 255;
/// UTF-8 bytes of a string in a partition key under hash version 2.
pub const PARTITION_KEY_BYTES_V2: usize = 2048;
/// Levels of a hierarchical partition key.
pub const PARTITION_KEY_LEVELS: usize = 3;
/// Request units per second that one physical partition serves.
pub const PARTITION_RU_PER_SECOND: u32 = 10_000;
/// Bytes of items that a physical partition holds before it is split.
pub const PARTITION_BYTES: u64 = 50 * GIGABYTE;
/// Bytes of items that a logical partition holds at most.
pub const LOGICAL_PARTITION_BYTES: u64 = 20 * GIGABYTE;
/// Bytes of a gigabyte, the unit of storage for which a minimum throughput is required.
pub const GIGABYTE: u64 = 1 << 30;
/// Request units per second of a container whose creation states none.
pub const CONTAINER_RU_PER_SECOND: u32 = 400;
/// Request units per second of a container or database.
pub const THROUGHPUT_RU_MAX: u32 = 1_000_000;
/// Milliseconds that one request may run.
pub const REQUEST_TIME_MS: u64 = 5_000;
/// Time-outs of a script within [`SCRIPT_TIMEOUT_WINDOW_MS`] after which it is not run any more.
pub const SCRIPT_TIMEOUTS: u32 = 5;
/// Milliseconds within which [`SCRIPT_TIMEOUTS`] count.
pub const SCRIPT_TIMEOUT_WINDOW_MS: u64 = 60_000;
/// Milliseconds that the condition of a patch may take. The partition's other writes wait
/// meanwhile.
pub const CONDITION_TIME_MS: u64 = 100;
/// Stored procedures of a container.
pub const PROCEDURES_PER_CONTAINER: usize = 100;
/// User-defined functions of a container.
pub const FUNCTIONS_PER_CONTAINER: usize = 50;
/// Triggers of a container.
pub const TRIGGERS_PER_CONTAINER: usize = 50;
/// JOINs of a query.
pub const JOINS_PER_QUERY: usize = 10;
/// Calls of user-defined functions in the text of a query.
pub const UDF_CALLS_PER_QUERY: usize = 10;
/// Paths of one composite index.
pub const COMPOSITE_PATHS: usize = 8;
/// Paths of all composite indexes of a container together.
pub const COMPOSITE_PATHS_TOTAL: usize = 100;
/// Included paths of an indexing policy; the same limit holds for its excluded paths.
pub const INDEXING_PATHS: usize = 1_500;
/// Paths of properties, each a name at its place in an item, that the index of one physical
/// partition takes. A path stays when the last item with it is gone.
pub const PATHS_PER_PARTITION: usize = 500_000;
/// Bytes of the names of these paths.
pub const PATH_BYTES_PER_PARTITION: usize = 32 * 1024 * 1024;
/// Client encryption keys of a database.
pub const ENCRYPTION_KEYS_PER_DATABASE: usize = 20;
/// Bytes of a permission's resource link: up to seven ids and the words between them.
pub const RESOURCE_LINK_BYTES: usize = 4 * 1024;
/// Seconds for which a resource token may be valid.
pub const TOKEN_SECONDS: std::ops::RangeInclusive<u64> = 10..=86_400;
/// Seconds for which a resource token is valid if the client does not ask for a duration.
pub const TOKEN_SECONDS_DEFAULT: u64 = 3_600;
