//! Tokens of requests.
//!
//! A token without a header is one of these: a part of the path, which HTTP has in the URL; a rule
//! of direct mode alone; or something that the gateway does not read.

use crate::token::Form::{Flag, Flags, Guid, Number, Signed, Text, Utf8, Words};
use crate::token::{Token, Type};

/// The words of [`INDEXING_DIRECTIVE`].
const INDEXING_DIRECTIVES: &[(u8, &str)] = &[(0, "Default"), (1, "Include"), (2, "Exclude")];
/// The words of [`CONSISTENCY_LEVEL`].
const CONSISTENCY_LEVELS: &[(u8, &str)] = &[
    (0, "Strong"),
    (1, "BoundedStaleness"),
    (2, "Session"),
    (3, "Eventual"),
    (4, "ConsistentPrefix"),
];
/// The words of [`READ_FEED_KEY_TYPE`].
const KEY_TYPES: &[(u8, &str)] = &[
    (1, "ResourceId"),
    (2, "EffectivePartitionKey"),
    (3, "EffectivePartitionKeyRange"),
];
/// The words of [`CONTENT_SERIALIZATION_FORMAT`].
const SERIALIZATION_FORMATS: &[(u8, &str)] =
    &[(0, "JsonText"), (1, "CosmosBinary"), (2, "HybridRow")];
/// The words of the bits of [`SUPPORTED_SERIALIZATION_FORMATS`].
const SERIALIZATION_FORMAT_BITS: &[(u8, &str)] =
    &[(1, "JsonText"), (2, "CosmosBinary"), (4, "HybridRow")];
/// The words of [`RETURN_PREFERENCE`], in the form of the header `prefer`.
const RETURN_PREFERENCES: &[(u8, &str)] = &[(1, "return=minimal"), (0xFF, "return=representation")];
/// The words of [`PRIORITY_LEVEL`].
const PRIORITIES: &[(u8, &str)] = &[(1, "High"), (2, "Low")];
/// The words of [`READ_CONSISTENCY_STRATEGY`].
const STRATEGIES: &[(u8, &str)] = &[
    (1, "Eventual"),
    (2, "Session"),
    (3, "LatestCommitted"),
    (4, "GlobalStrong"),
];

table! {
    /// The bytes of a resource id: 4 of a database, 8 of a container, 16 of an item. If there are
    /// names, the names address the resource.
    RESOURCE_ID = 0x0000, "ResourceId", Bytes;
    /// The signature or token, percent-encoded as in HTTP.
    AUTHORIZATION_TOKEN = 0x0001, "AuthorizationToken", String, "authorization" as Text;
    /// 1 if a payload follows the head, else 0.
    PAYLOAD_PRESENT = 0x0002, "PayloadPresent", Byte;
    /// The date that the signature covers.
    DATE = 0x0003, "Date", SmallString, "x-ms-date" as Text;
    /// The largest number of rows of a page; `FFFFFFFF` leaves it to the server.
    PAGE_SIZE = 0x0004, "PageSize", ULong, "x-ms-max-item-count" as Signed;
    /// The writes that a read must include, of one range and with it: `rangeId:version#lsn`.
    SESSION_TOKEN = 0x0005, "SessionToken", String, "x-ms-session-token" as Text;
    /// The end of the previous page.
    CONTINUATION_TOKEN = 0x0006, "ContinuationToken", String, "x-ms-continuation" as Text;
    /// The directive that says if the item is indexed.
    INDEXING_DIRECTIVE = 0x0007, "IndexingDirective", Byte,
        "x-ms-indexing-directive" as Words(INDEXING_DIRECTIVES);
    /// An etag: `if-none-match` of a read or a read feed, `if-match` of any other operation.
    MATCH = 0x0008, "Match", String;
    /// The triggers that run before a write.
    PRE_TRIGGER_INCLUDE = 0x0009, "PreTriggerInclude", String,
        "x-ms-documentdb-pre-trigger-include" as Text;
    /// The triggers that run after a write.
    POST_TRIGGER_INCLUDE = 0x000A, "PostTriggerInclude", String,
        "x-ms-documentdb-post-trigger-include" as Text;
    /// The triggers that do not run before a write.
    PRE_TRIGGER_EXCLUDE = 0x000E, "PreTriggerExclude", String,
        "x-ms-documentdb-pre-trigger-exclude" as Text;
    /// The triggers that do not run after a write.
    POST_TRIGGER_EXCLUDE = 0x000F, "PostTriggerExclude", String,
        "x-ms-documentdb-post-trigger-exclude" as Text;
    /// The consistency of a read. Reads of databases, users and permissions have 0, whatever the
    /// level of the account is.
    CONSISTENCY_LEVEL = 0x0010, "ConsistencyLevel", Byte,
        "x-ms-consistency-level" as Words(CONSISTENCY_LEVELS);
    /// The path of the address that the client uses.
    REPLICA_PATH = 0x0013, "ReplicaPath", String;
    /// The lifetime of the resource tokens in an answer, in seconds.
    RESOURCE_TOKEN_EXPIRY = 0x0014, "ResourceTokenExpiry", ULong,
        "x-ms-documentdb-expiry-seconds" as Number;
    /// The id of the database. This and all other names are plain text.
    DATABASE_NAME = 0x0015, "DatabaseName", String;
    /// The id of the container.
    COLLECTION_NAME = 0x0016, "CollectionName", String;
    /// The id of the item.
    DOCUMENT_NAME = 0x0017, "DocumentName", String;
    /// The id of the user.
    USER_NAME = 0x0019, "UserName", String;
    /// The id of the permission.
    PERMISSION_NAME = 0x001A, "PermissionName", String;
    /// The id of the stored procedure.
    STORED_PROCEDURE_NAME = 0x001B, "StoredProcedureName", String;
    /// The id of the user-defined function.
    USER_DEFINED_FUNCTION_NAME = 0x001C, "UserDefinedFunctionName", String;
    /// The id of the trigger.
    TRIGGER_NAME = 0x001D, "TriggerName", String;
    /// 1 if a query may read all items.
    ENABLE_SCAN = 0x001E, "EnableScanInQuery", Byte, "x-ms-documentdb-query-enable-scan" as Flag;
    /// 1 if a query writes traces.
    EMIT_TRACES = 0x001F, "EmitVerboseTracesInQuery", Byte,
        "x-ms-documentdb-query-emit-traces" as Flag;
    /// The id of the conflict.
    CONFLICT_NAME = 0x0020, "ConflictName", String;
    /// 1 if a query may order by an index of low precision.
    ENABLE_LOW_PRECISION_ORDER_BY = 0x0027, "EnableLowPrecisionOrderBy", Byte,
        "x-ms-documentdb-query-enable-low-precision-order-by" as Flag;
    /// The API version of this request; without it that of the context.
    CLIENT_VERSION = 0x0028, "ClientVersion", SmallString, "x-ms-version" as Text;
    /// The partition key as a JSON array.
    PARTITION_KEY = 0x002B, "PartitionKey", String, "x-ms-documentdb-partitionkey" as Text;
    /// The id of a physical partition, perhaps behind the resource id of the container: `rid,0`.
    PARTITION_KEY_RANGE_ID = 0x002C, "PartitionKeyRangeId", String,
        "x-ms-documentdb-partitionkeyrangeid" as Text;
    /// The resource id that the client has stored for the named container. If the container has
    /// another one, it was created anew, and the answer is 410/1000.
    COLLECTION_RID = 0x0035, "CollectionRid", String, "x-ms-documentdb-collection-rid" as Text;
    /// The id of a physical partition that is addressed as a resource.
    PARTITION_KEY_RANGE_NAME = 0x0036, "PartitionKeyRangeName", String;
    /// 1 if the log of a stored procedure is returned.
    ENABLE_LOGGING = 0x003E, "EnableLogging", Byte,
        "x-ms-documentdb-script-enable-logging" as Flag;
    /// The kind of change feed that a read feed becomes.
    A_IM = 0x003F, "A_IM", String, "a-im" as Text;
    /// 1 if the answer has quota and usage.
    POPULATE_QUOTA_INFO = 0x0040, "PopulateQuotaInfo", Byte,
        "x-ms-documentdb-populatequotainfo" as Flag;
    /// 1 if the answer has the metrics of the query.
    POPULATE_QUERY_METRICS = 0x0042, "PopulateQueryMetrics", Byte,
        "x-ms-documentdb-populatequerymetrics" as Flag;
    /// The limit of the size of continuations, in KiB.
    RESPONSE_CONTINUATION_TOKEN_LIMIT_IN_KB = 0x0043, "ResponseContinuationTokenLimitInKb", ULong,
        "x-ms-documentdb-responsecontinuationtokenlimitinkb" as Number;
    /// 1 if the answer has statistics of physical partitions.
    POPULATE_PARTITION_STATISTICS = 0x0044, "PopulatePartitionStatistics", Byte,
        "x-ms-documentdb-populatepartitionstatistics" as Flag;
    /// The start of a change feed, in the form of RFC 1123.
    IF_MODIFIED_SINCE = 0x0047, "IfModifiedSince", String, "if-modified-since" as Text;
    /// The time that the client has left for the operation, in milliseconds.
    REMAINING_TIME_IN_MS = 0x0049, "RemainingTimeInMsOnClientRequest", ULong;
    /// The number of tries before this one.
    CLIENT_RETRY_ATTEMPT_COUNT = 0x004A, "ClientRetryAttemptCount", ULong;
    /// The LSN for which a barrier, a HEAD of the container, waits.
    TARGET_LSN = 0x004B, "TargetLsn", LongLong;
    /// The LSN that a barrier waits for in all regions.
    TARGET_GLOBAL_COMMITTED_LSN = 0x004C, "TargetGlobalCommittedLsn", LongLong;
    /// The number by which the client finds the answer, unique in its process.
    TRANSPORT_REQUEST_ID = 0x004D, "TransportRequestID", ULong;
    /// 1 if a stored procedure writes nothing.
    IS_READ_ONLY_SCRIPT = 0x0052, "IsReadOnlyScript", Byte;
    /// 1 if an item is stored, or read, without the links of the resource model.
    EXCLUDE_SYSTEM_PROPERTIES = 0x0057, "ExcludeSystemProperties", Byte,
        "x-ms-exclude-system-properties" as Flag;
    /// The time to live in seconds. Java sends a number with sign, .NET one without.
    TIME_TO_LIVE_IN_SECONDS = 0x0059, "TimeToLiveInSeconds", Long;
    /// The effective partition key.
    EFFECTIVE_PARTITION_KEY = 0x005A, "EffectivePartitionKey", Bytes;
    /// The start of an EPK range, as hexadecimal text.
    START_EPK = 0x0062, "StartEpk", Bytes, "x-ms-start-epk" as Utf8;
    /// The end of an EPK range, as hexadecimal text.
    END_EPK = 0x0063, "EndEpk", Bytes, "x-ms-end-epk" as Utf8;
    /// The kind of keys that [`START_EPK`] and [`END_EPK`] are.
    READ_FEED_KEY_TYPE = 0x0064, "ReadFeedKeyType", Byte, "x-ms-read-key-type" as Words(KEY_TYPES);
    /// The encoding of the answer's payload.
    CONTENT_SERIALIZATION_FORMAT = 0x0065, "ContentSerializationFormat", Byte,
        "x-ms-documentdb-content-serialization-format" as Words(SERIALIZATION_FORMATS);
    /// 1 if a region that has no writes may take this one.
    ALLOW_TENTATIVE_WRITES = 0x0066, "AllowTentativeWrites", Byte,
        "x-ms-cosmos-allow-tentative-writes" as Flag;
    /// 1 if all operations of a batch run, or none.
    IS_BATCH_ATOMIC = 0x0073, "IsBatchAtomic", Byte, "x-ms-cosmos-batch-atomic" as Flag;
    /// 1 if bulk goes on after an operation that failed.
    SHOULD_BATCH_CONTINUE_ON_ERROR = 0x0074, "ShouldBatchContinueOnError", Byte,
        "x-ms-cosmos-batch-continue-on-error" as Flag;
    /// 1 if the operations of a batch run in order.
    IS_BATCH_ORDERED = 0x0075, "IsBatchOrdered", Byte, "x-ms-cosmos-batch-ordered" as Flag;
    /// The choice of an answer to a write with or without a payload.
    RETURN_PREFERENCE = 0x0082, "ReturnPreference", Byte, "prefer" as Words(RETURN_PREFERENCES);
    /// 1 if the client encrypts properties.
    IS_CLIENT_ENCRYPTED = 0x0087, "IsClientEncrypted", Byte;
    /// The resource id that the container must have.
    INTENDED_COLLECTION_RID = 0x009D, "IntendedCollectionRid", String,
        "x-ms-cosmos-intended-collection-rid" as Text;
    /// The bits of what the client supports; bit 8 says that it skips unknown tokens.
    SDK_SUPPORTED_CAPABILITIES = 0x00A2, "SDKSupportedCapabilities", ULong;
    /// 1 if the answer has the index metrics of the query.
    POPULATE_INDEX_METRICS = 0x00A9, "PopulateIndexMetrics", Byte,
        "x-ms-cosmos-populateindexmetrics" as Flag;
    /// The GUID that all pages of a query have.
    CORRELATED_ACTIVITY_ID = 0x00B0, "CorrelatedActivityId", Guid,
        "x-ms-cosmos-correlated-activityid" as Guid;
    /// The format of a change feed of all versions.
    CHANGE_FEED_WIRE_FORMAT_VERSION = 0x00B2, "ChangeFeedWireFormatVersion", String,
        "x-ms-cosmos-changefeed-wire-format-version" as Text;
    /// The priority of the request.
    PRIORITY_LEVEL = 0x00BF, "PriorityLevel", Byte,
        "x-ms-cosmos-priority-level" as Words(PRIORITIES);
    /// 1 if the answer has the index metrics of the query in their second form.
    POPULATE_INDEX_METRICS_V2 = 0x00C2, "PopulateIndexMetricsV2", Byte,
        "x-ms-cosmos-populateindexmetrics-v2" as Flag;
    /// The bits of the encodings that the client reads.
    SUPPORTED_SERIALIZATION_FORMATS = 0x00C4, "SupportedSerializationFormats", Byte,
        "x-ms-cosmos-supported-serialization-formats" as Flags(SERIALIZATION_FORMAT_BITS);
    /// 1 if one physical partition can answer the query.
    OPTIMISTIC_DIRECT_EXECUTE = 0x00C8, "OptimisticDirectExecute", Byte,
        "x-ms-cosmos-query-optimisticdirectexecute" as Flag;
    /// The span of the client, in the form of W3C Trace Context.
    TRACE_PARENT = 0x00CC, "TraceParent", String;
    /// The state of the trace, in the form of W3C Trace Context.
    TRACE_STATE = 0x00CD, "TraceState", String;
    /// The name of the account.
    GLOBAL_DATABASE_ACCOUNT_NAME = 0x00CE, "GlobalDatabaseAccountName", String;
    /// The start of an EPK range, as the bytes of a hash.
    START_EPK_HASH = 0x00D2, "StartEpkHash", Bytes;
    /// The end of an EPK range, as the bytes of a hash.
    END_EPK_HASH = 0x00D3, "EndEpkHash", Bytes;
    /// 1 if the answer has advice about the query.
    POPULATE_QUERY_ADVICE = 0x00DA, "PopulateQueryAdvice", Byte,
        "x-ms-cosmos-populatequeryadvice" as Flag;
    /// The throughput bucket.
    THROUGHPUT_BUCKET = 0x00DB, "ThroughputBucket", Byte, "x-ms-cosmos-throughput-bucket" as Number;
    /// The name of the account in its region.
    REGIONAL_DATABASE_ACCOUNT_NAME = 0x00E8, "RegionalDatabaseAccountName", String;
    /// 1 if only the region of writes may answer; .NET sets it after 404/1002.
    HUB_REGION_PROCESSING_ONLY = 0x00EF, "HubRegionProcessingOnly", Byte;
    /// The consistency of a read, in place of the level.
    READ_CONSISTENCY_STRATEGY = 0x00FE, "ReadConsistencyStrategy", Byte,
        "x-ms-cosmos-read-consistency-strategy" as Words(STRATEGIES);
    /// The features of queries that the client can merge.
    SUPPORTED_QUERY_FEATURES = 0x00FF, "SupportedQueryFeatures", String,
        "x-ms-cosmos-supported-query-features" as Text;
    /// The version of the form of plans.
    QUERY_VERSION = 0x0100, "QueryVersion", SmallString, "x-ms-cosmos-query-version" as Text;
}
