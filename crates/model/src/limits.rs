//! Every limit of the service that the server enforces, in one place, with its unit in its name or text.

/// Levels of arrays and objects in an item or a query parameter.
pub const NESTING_DEPTH: usize = 128;
/// Bytes of an item's JSON text, system properties included.
pub const ITEM_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a request body: an item and a small envelope. Clients cut bulk requests at 2,202,010 bytes.
pub const REQUEST_BODY_BYTES: usize = 2 * 1024 * 1024 + 128 * 1024;
/// Operations of one batch.
pub const BATCH_OPERATIONS: usize = 100;
/// Bytes of the items in the answer to one batch.
pub const BATCH_RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// Operations of one patch.
pub const PATCH_OPERATIONS: usize = 10;
/// Bytes of one page of a feed or query.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Rows of a page when the client names no number.
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Bytes of a query's text.
pub const QUERY_TEXT_BYTES: usize = 512 * 1024;
/// UTF-8 bytes of an item's id.
pub const ITEM_ID_BYTES: usize = 1023;
/// Characters of the id of anything that is not an item.
pub const RESOURCE_ID_CHARS: usize = 255;
/// Bytes of a partition key value under hash version 2.
pub const PARTITION_KEY_BYTES_V2: usize = 2048;
/// Levels of a hierarchical partition key.
pub const PARTITION_KEY_LEVELS: usize = 3;
/// RU/s that one physical partition serves at most.
pub const PARTITION_RU_PER_SECOND: u32 = 10_000;
/// Bytes of items that a physical partition holds before it is split.
pub const PARTITION_BYTES: u64 = 50 * GIGABYTE;
/// Bytes of a gigabyte, for which some throughput has to be provisioned.
pub const GIGABYTE: u64 = 1 << 30;
/// RU/s of a container or database at most.
pub const THROUGHPUT_RU_MAX: u32 = 1_000_000;
/// Milliseconds that one request may run.
pub const REQUEST_TIME_MS: u64 = 5_000;
/// Milliseconds that the condition of a patch may take: other writes of the partition wait for it.
pub const CONDITION_TIME_MS: u64 = 100;
/// Stored procedures in a container.
pub const PROCEDURES_PER_CONTAINER: usize = 100;
/// User-defined functions in a container.
pub const FUNCTIONS_PER_CONTAINER: usize = 50;
/// Triggers in a container.
pub const TRIGGERS_PER_CONTAINER: usize = 50;
/// JOINs in a query.
pub const JOINS_PER_QUERY: usize = 10;
/// Calls of user-defined functions in a query.
pub const UDF_CALLS_PER_QUERY: usize = 10;
/// Paths of one composite index.
pub const COMPOSITE_PATHS: usize = 8;
/// Paths of all composite indexes of a container.
pub const COMPOSITE_PATHS_TOTAL: usize = 100;
/// Included and excluded paths of an indexing policy, each.
pub const INDEXING_PATHS: usize = 1_500;
/// Client encryption keys in a database.
pub const ENCRYPTION_KEYS_PER_DATABASE: usize = 20;
/// Bytes of a permission's resource link: seven ids and their words.
pub const RESOURCE_LINK_BYTES: usize = 4 * 1024;
/// Seconds that a resource token may live, and those that it lives unless asked otherwise.
pub const TOKEN_SECONDS: std::ops::RangeInclusive<u64> = 10..=86_400;
/// See [`TOKEN_SECONDS`].
pub const TOKEN_SECONDS_DEFAULT: u64 = 3_600;
