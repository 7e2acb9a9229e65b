//! Tokens of answers. Clients require [`TRANSPORT_REQUEST_ID`], [`PAYLOAD_PRESENT`] and [`LSN`] in
//! every answer, and close the connection without the first two.

use crate::token::Form::{AfterRange, Decimal, Number, Text};
use crate::token::{Token, Type};

table! {
    /// 1 if a payload follows the head, else 0.
    PAYLOAD_PRESENT = 0x0000, "PayloadPresent", Byte;
    /// The date of the last change of the resource's replicas, in the form of RFC 1123.
    LAST_STATE_CHANGE = 0x0002, "LastStateChangeDateTime", SmallString;
    /// The position of the next page; absent on the last one.
    CONTINUATION_TOKEN = 0x0003, "ContinuationToken", String, "x-ms-continuation" as Text;
    /// The etag of an item, or the position of a change feed.
    ETAG = 0x0004, "ETag", String, "etag" as Text;
    /// The time to wait before the request is repeated, in milliseconds: with 429 and 449.
    RETRY_AFTER_MILLISECONDS = 0x000C, "RetryAfterMilliseconds", ULong,
        "x-ms-retry-after-ms" as Number;
    /// The indexing directive of the request. It is not sent.
    INDEXING_DIRECTIVE = 0x000D, "IndexingDirective", Byte;
    /// The limits of the container.
    STORAGE_MAX_RESOURCE_QUOTA = 0x000E, "StorageMaxResoureQuota", String,
        "x-ms-resource-quota" as Text;
    /// The part of its limits that the container uses.
    STORAGE_RESOURCE_QUOTA_USAGE = 0x000F, "StorageResourceQuotaUsage", String,
        "x-ms-resource-usage" as Text;
    /// The version of the schema.
    SCHEMA_VERSION = 0x0010, "SchemaVersion", SmallString, "x-ms-schemaversion" as Text;
    /// The LSN of the physical partition, which every answer has, errors too.
    LSN = 0x0013, "LSN", LongLong, "lsn" as Number;
    /// The rows of the page.
    ITEM_COUNT = 0x0014, "ItemCount", ULong, "x-ms-item-count" as Number;
    /// The charge in request units.
    REQUEST_CHARGE = 0x0015, "RequestCharge", Double, "x-ms-request-charge" as Decimal;
    /// The path of the container by names: `dbs/d/colls/c`.
    OWNER_FULL_NAME = 0x0017, "OwnerFullName", String, "x-ms-alt-content-path" as Text;
    /// The resource id of the container.
    OWNER_ID = 0x0018, "OwnerId", String, "x-ms-content-path" as Text;
    /// The LSN that a quorum of replicas has.
    QUORUM_ACKED_LSN = 0x001A, "QuorumAckedLSN", LongLong, "x-ms-quorum-acked-lsn" as Number;
    /// 1 if the request was invalid. It is not sent.
    REQUEST_VALIDATION_FAILURE = 0x001B, "RequestValidationFailure", Byte;
    /// The sub-status of an error.
    SUB_STATUS = 0x001C, "SubStatus", ULong, "x-ms-substatus" as Number;
    /// The replicas that confirm a write.
    CURRENT_WRITE_QUORUM = 0x001E, "CurrentWriteQuorum", ULong,
        "x-ms-current-write-quorum" as Number;
    /// The replicas of the physical partition.
    CURRENT_REPLICA_SET_SIZE = 0x001F, "CurrentReplicaSetSize", ULong,
        "x-ms-current-replica-set-size" as Number;
    /// The id of the physical partition, under which clients store the session token.
    PARTITION_KEY_RANGE_ID = 0x0021, "PartitionKeyRangeId", String,
        "x-ms-documentdb-partitionkeyrangeid" as Text;
    /// The log of a stored procedure, percent-encoded.
    LOG_RESULTS = 0x0025, "LogResults", String, "x-ms-documentdb-script-log-results" as Text;
    /// The role of the replica. It is not sent.
    XP_ROLE = 0x0026, "XPRole", ULong;
    /// The metrics of a query.
    QUERY_METRICS = 0x0028, "QueryMetrics", String, "x-ms-documentdb-query-metrics" as Text;
    /// The LSN that all regions have.
    GLOBAL_COMMITTED_LSN = 0x0029, "GlobalCommittedLSN", LongLong,
        "x-ms-global-committed-lsn" as Number;
    /// The regions for reads beside that of writes. If it is above 0, clients of strong consistency
    /// wait until [`GLOBAL_COMMITTED_LSN`] reaches [`LSN`].
    NUMBER_OF_READ_REGIONS = 0x0030, "NumberOfReadRegions", ULong,
        "x-ms-number-of-read-regions" as Number;
    /// The LSN of the item.
    ITEM_LSN = 0x0032, "ItemLSN", LongLong, "x-ms-item-lsn" as Number;
    /// The number by which the client finds the request: that of the request's token of this name.
    TRANSPORT_REQUEST_ID = 0x0035, "TransportRequestID", ULong;
    /// 1 if the client shall leave direct mode. It is not sent.
    DISABLE_RNTBD_CHANNEL = 0x0038, "DisableRntbdChannel", Byte;
    /// The time of the server.
    SERVER_DATE_TIME_UTC = 0x0039, "ServerDateTimeUtc", SmallString;
    /// The LSN of the replica in its region; it counts in answers with an error.
    LOCAL_LSN = 0x003A, "LocalLSN", LongLong, "x-ms-cosmos-llsn" as Number;
    /// The LSN that a quorum of replicas has in the region.
    QUORUM_ACKED_LOCAL_LSN = 0x003B, "QuorumAckedLocalLSN", LongLong,
        "x-ms-cosmos-quorum-acked-llsn" as Number;
    /// The LSN of the item in the region.
    ITEM_LOCAL_LSN = 0x003C, "ItemLocalLSN", LongLong, "x-ms-cosmos-item-llsn" as Number;
    /// The session token without the range: `version#lsn`.
    SESSION_TOKEN = 0x003E, "SessionToken", String, "x-ms-session-token" as AfterRange;
    /// The index metrics of a query.
    INDEX_UTILIZATION = 0x0044, "IndexUtilization", String,
        "x-ms-cosmos-index-utilization" as Text;
    /// The way in which a query was run, as JSON.
    QUERY_EXECUTION_INFO = 0x0045, "QueryExecutionInfo", String,
        "x-ms-cosmos-query-execution-info" as Text;
    /// The time that the server worked on the request, in milliseconds.
    BACKEND_REQUEST_DURATION = 0x0051, "BackendRequestDurationMilliseconds", Double,
        "x-ms-request-duration-ms" as Decimal;
    /// Advice about a query.
    QUERY_ADVICE = 0x0075, "QueryAdvice", String, "x-ms-cosmos-query-advice" as Text;
}
