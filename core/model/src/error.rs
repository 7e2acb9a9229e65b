//! The errors that a client can receive, in one table: status, sub-status, code word and advice.
//!
//! Layers below the gateway do not know HTTP. They return an [`Error`] with a [`Kind`]; the table
//! in this file alone maps a kind to numbers, and the gateway alone renders them. The numbers are
//! the service's.
//!
//! Lower layers have error types of their own (`StoreError`, `QueryError`, `ScriptError`). Each
//! type is converted to an [`Error`] in one place of the engine, where the kind and the client's
//! text are chosen; the original error becomes the cause.
//!
//! An error carries two texts for two audiences:
//!
//! | text | audience | contents |
//! |---|---|---|
//! | message | the client, in the response body | a sentence that names the fault of the request |
//! | cause | the operator, in the log | the underlying error with its sources: files, addresses |
//!
//! The cause never reaches a response: a client of a broken server reads only that the server
//! failed. A message is written for the client and holds nothing about the machine.

use std::fmt;

/// The action that a client should take after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Do not repeat the request: the same request will fail again.
    Never,
    /// Repeat the request after a wait.
    AfterWait,
    /// Read the container and its partition key ranges again: the client's cached copy is stale.
    AfterRefresh,
}

macro_rules! kinds {
    ($(
        $(#[$doc:meta])*
        $name:ident => $status:literal, $sub_status:literal, $code:literal, $advice:ident;
    )*) => {
        /// The kinds of error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// All kinds, for generated documents and for tests.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];

            /// Returns the HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Kind::$name => $status,)* }
            }

            /// Returns the value of `x-ms-substatus`; 0 means that the header is not sent.
            pub fn sub_status(self) -> u32 {
                match self { $(Kind::$name => $sub_status,)* }
            }

            /// Returns the `code` member of the error body.
            pub fn code(self) -> &'static str {
                match self { $(Kind::$name => $code,)* }
            }

            /// Returns the action that the client should take.
            pub fn advice(self) -> Advice {
                match self { $(Kind::$name => Advice::$advice,)* }
            }
        }
    };
}

kinds! {
    // kind => status, sub-status, code, advice;
    /// The request is invalid.
    BadRequest => 400, 0, "BadRequest", Never;
    /// The partition keys of header and body differ, or the number of components is wrong.
    PartitionKeyMismatch => 400, 1001, "BadRequest", Never;
    /// The query needs a client that merges results, or permission to cross partitions.
    CrossPartitionQueryNotServable => 400, 1004, "BadRequest", Never;
    /// The container was deleted and created again after the client had read it.
    ContainerRidMismatch => 400, 1024, "BadRequest", AfterRefresh;
    /// The result of a query contains NaN or an infinity, which JSON cannot represent.
    NotRepresentable => 400, 4001, "BadRequest", Never;
    /// The script does not compile.
    ScriptCompile => 400, 65535, "BadRequest", Never;
    /// The credentials are missing or not usable.
    Unauthorized => 401, 0, "Unauthorized", Never;
    /// The authorization header is missing.
    AuthorizationMissing => 401, 5000, "Unauthorized", Never;
    /// The authorization header cannot be parsed.
    AuthorizationMalformed => 401, 5001, "Unauthorized", Never;
    /// The server does not accept directory (Microsoft Entra ID) identities.
    DirectoryDisabled => 401, 5002, "Unauthorized", Never;
    /// The directory token cannot be parsed.
    DirectoryTokenMalformed => 401, 5003, "Unauthorized", Never;
    /// The directory token is not signed with a key of its issuer.
    DirectoryTokenSignature => 401, 5004, "Unauthorized", Never;
    /// The directory token is not valid yet.
    DirectoryTokenNotYetValid => 401, 5005, "Unauthorized", AfterWait;
    /// The directory token has expired.
    DirectoryTokenExpired => 401, 5006, "Unauthorized", Never;
    /// The directory token comes from an issuer that the server does not accept.
    DirectoryTokenIssuer => 401, 5007, "Unauthorized", Never;
    /// The directory token was issued for another audience.
    DirectoryTokenAudience => 401, 5008, "Unauthorized", Never;
    /// The credentials do not permit the operation.
    Forbidden => 403, 0, "Forbidden", Never;
    /// The logical partition would be larger than one may be.
    PartitionKeyFull => 403, 1014, "Forbidden", Never;
    /// An operator cancelled the query.
    QueryCancelled => 403, 5901, "Forbidden", Never;
    /// No directory identity may perform the operation.
    DirectoryOperation => 403, 5300, "Forbidden", Never;
    /// The item, container, database or script does not exist.
    NotFound => 404, 0, "NotFound", Never;
    /// The replica has not yet reached the LSN of the session token.
    SessionNotReached => 404, 1002, "NotFound", AfterWait;
    /// The database or container that would own the addressed resource does not exist.
    OwnerNotFound => 404, 1003, "NotFound", Never;
    /// The path exists but does not support the method.
    MethodNotAllowed => 405, 0, "MethodNotAllowed", Never;
    /// A script or request exceeded its time limit.
    RequestTimeout => 408, 0, "RequestTimeout", AfterWait;
    /// The write may have taken place or not, and the server could not find out.
    UnknownOutcome => 408, 1900, "RequestTimeout", Never;
    /// The id or the value of a unique key already exists.
    Conflict => 409, 0, "Conflict", Never;
    /// The address that a client of the direct mode used serves the partition no longer, or the
    /// server there ends. The request was not carried out.
    AddressGone => 410, 0, "Gone", AfterRefresh;
    /// The container was replaced by another container of the same name.
    NameCacheIsStale => 410, 1000, "Gone", AfterRefresh;
    /// The partition key range does not exist, or was split or merged.
    PartitionKeyRangeGone => 410, 1002, "Gone", AfterRefresh;
    /// A split or merge is about to replace the partition.
    CompletingSplit => 410, 1007, "Gone", AfterWait;
    /// The partition went to another owner in the middle of several operations, and this operation
    /// was not carried out.
    CompletingMigration => 410, 1008, "Gone", AfterWait;
    /// The ETag does not match.
    PreconditionFailed => 412, 0, "PreconditionFailed", Never;
    /// The item does not meet the condition of the patch.
    PatchConditionNotMet => 412, 1110, "PreconditionFailed", Never;
    /// The body or item is too large.
    RequestEntityTooLarge => 413, 0, "RequestEntityTooLarge", Never;
    /// The results of a batch exceed the response size limit together.
    BatchResponseTooLarge => 413, 3402, "RequestEntityTooLarge", Never;
    /// The operation was skipped because another operation of the batch failed.
    FailedDependency => 424, 0, "FailedDependency", Never;
    /// The partition has no request units left in the current second.
    Throttled => 429, 3200, "TooManyRequests", AfterWait;
    /// The write conflicted with a concurrent write; a retry may succeed.
    RetryWith => 449, 0, "RetryWith", AfterWait;
    /// The server failed.
    Internal => 500, 0, "InternalServerError", AfterWait;
    /// A block on the disk is damaged: the data of the request cannot be read, or the physical
    /// partition takes no writes.
    DataDamaged => 500, 5900, "InternalServerError", Never;
    /// The server cannot handle the request at the moment.
    Unavailable => 503, 0, "ServiceUnavailable", AfterWait;
    /// Another node owns the physical partition, or may own it since a commit was fenced. The
    /// request was not carried out; the node forwards it, so clients see this error only if no
    /// owner could be reached.
    NotOwned => 503, 0, "ServiceUnavailable", AfterWait;
    /// The disk of the server is full. Reads and deletions go on.
    StorageFull => 507, 0, "InsufficientStorage", AfterWait;
}

/// A failed request, as the engine reports the failure and the gateway renders it.
///
/// `message` is the text for the client; `cause` is for the log only, see the module's description.
/// An error made by [`Error::internal`] has a fixed message, so that no caller can put the cause
/// into a response by mistake. [`fmt::Display`] prints status, sub-status and message without the
/// cause; [`Error::cause_chain`] prints the cause with all its sources, once, where the error is
/// logged.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    /// Replaces the sub-status of the kind.
    sub_status: Option<u32>,
    /// The text for the client.
    message: String,
    /// `additionalErrorInfo` of the error body, as text.
    additional_info: Option<String>,
    retry_after_ms: Option<u64>,
    /// The key space of the partition that another node owns.
    partition: Option<u64>,
    /// The underlying error, for the log.
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A result whose error is an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error with the message that the client reads.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error {
            kind,
            sub_status: None,
            message: message.into(),
            additional_info: None,
            retry_after_ms: None,
            partition: None,
            cause: None,
        }
    }

    /// Creates a 400 without a sub-status.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, message)
    }

    /// Creates the 400 for a field or option of the service that this server does not offer.
    /// `feature` is named in the message.
    pub fn unsupported(feature: impl fmt::Display) -> Self {
        Self::bad(format!("{feature} is not supported by this server"))
    }

    /// Creates the 404 for an item or resource that does not exist, in the service's words.
    pub fn not_found() -> Self {
        Self::new(
            Kind::NotFound,
            "Entity with the specified id does not exist in the system. More info: \
             https://aka.ms/cosmosdb-tsg-not-found. Resource Not Found.",
        )
    }

    /// Creates the 404/1003 for a missing database or container above the addressed resource.
    pub fn owner_not_found() -> Self {
        Self::new(
            Kind::OwnerNotFound,
            "Owner resource does not exist. More info: https://aka.ms/cosmosdb-tsg-not-found. \
             Resource Not Found.",
        )
    }

    /// Creates the 409 for an id that already exists, in the service's words.
    pub fn conflict() -> Self {
        Self::new(
            Kind::Conflict,
            "Entity with the specified id already exists in the system. Resource with specified \
             id, name, or unique index already exists.",
        )
    }

    /// Creates the 409 for an id that an item of another partition key with the same hash has, in
    /// the service's words.
    pub fn hashed_key_conflict() -> Self {
        Self::new(
            Kind::Conflict,
            "Resource with id already exists with a conflicting hashed partition key, Please retry \
             with a different partition key.",
        )
    }

    /// Creates the 409 for unique key values that another item of the logical partition has, in the
    /// service's words.
    pub fn unique_key_taken() -> Self {
        Self::new(Kind::Conflict, "Unique index constraint violation.")
    }

    /// Creates the 412 for an ETag that does not match, in the service's words.
    pub fn precondition_failed() -> Self {
        Self::precondition_error(Kind::PreconditionFailed)
    }

    /// Creates the 412/1110 for a patch whose condition does not hold, in the service's words.
    pub fn patch_condition_not_met() -> Self {
        Self::precondition_error(Kind::PatchConditionNotMet)
    }

    fn precondition_error(kind: Kind) -> Self {
        Self::new(
            kind,
            "One of the specified pre-condition is not met. Learn more: \
             https://aka.ms/CosmosDB/sql/errors/precondition-failed",
        )
    }

    /// Creates the 424 for an operation that was skipped because another operation of its batch
    /// failed.
    pub fn failed_dependency() -> Self {
        Self::new(
            Kind::FailedDependency,
            "The operation was not carried out because another one of its batch failed.",
        )
    }

    /// Creates the 429/3200 for a request beyond the provisioned throughput, in the service's
    /// words.
    pub fn request_rate_is_large(retry_after_ms: u64) -> Self {
        Self::new(
            Kind::Throttled,
            "Request rate is large. More Request Units may be needed, so no changes were made. \
             Please retry this request later. Learn more: http://aka.ms/cosmosdb-error-429",
        )
        .with_retry_after_ms(retry_after_ms)
    }

    /// Creates the 400/1001 for a partition key that does not match the definition or the item, in
    /// the service's words.
    pub fn partition_key_mismatch() -> Self {
        Self::new(
            Kind::PartitionKeyMismatch,
            "Partition key provided either doesn't correspond to definition in the collection or \
             doesn't match partition key field values specified in the document.",
        )
    }

    /// Creates the 400 for a query that reads several partitions without permission, in the
    /// service's words.
    pub fn cross_partition_disabled() -> Self {
        Self::bad(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify \
             x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
        )
    }

    /// Creates the error of a node that does not own the partitions that a request needs.
    /// `partition` is the number of the only one of them in the store, if there is one.
    pub fn not_owned(partition: Option<u64>) -> Self {
        let mut error = Self::new(
            Kind::NotOwned,
            "Another node owns the physical partition of the request, which was not carried out. \
             Retry later.",
        );
        error.partition = partition;
        error
    }

    /// Returns the number in the store of the partition that another node owns.
    pub fn partition(&self) -> Option<u64> {
        self.partition
    }

    /// Creates a 500 for a failure of the server itself. The message is fixed; `cause` goes to the
    /// log.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(
            Kind::Internal,
            "The server met an internal error and did not carry out the request.",
        )
        .with_cause(cause)
    }

    /// Appends a sentence that says how to mend the request. The sentences before it stay as they
    /// are, because tools look for the service's words.
    pub fn with_help(mut self, help: impl AsRef<str>) -> Self {
        let help = help.as_ref().trim();
        if !help.is_empty() {
            self.message.push(' ');
            self.message.push_str(help);
        }
        self
    }

    /// Turns the 404 about a database or container into the 404/1003 about the owner of the
    /// resource that a request addresses, and keeps the help. Other errors stay as they are.
    pub fn about_owner(self) -> Self {
        if self.kind != Kind::NotFound {
            return self;
        }
        let help = self.message.strip_prefix(Self::not_found().message());
        Self::owner_not_found().with_help(help.unwrap_or_default())
    }

    /// Replaces the sub-status of the kind, for instance by the number that a script threw.
    pub fn with_sub_status(mut self, sub_status: u32) -> Self {
        self.sub_status = Some(sub_status);
        self
    }

    /// Adds the time after which a retry may succeed.
    pub fn with_retry_after_ms(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// Adds the text of `additionalErrorInfo` in the error body.
    pub fn with_additional_info(mut self, additional_info: impl Into<String>) -> Self {
        self.additional_info = Some(additional_info.into());
        self
    }

    /// Adds the underlying error, for the log only.
    pub fn with_cause(
        mut self,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> u16 {
        self.kind.status()
    }

    /// Returns the sub-status; 0 if there is none.
    pub fn sub_status(&self) -> u32 {
        self.sub_status.unwrap_or(self.kind.sub_status())
    }

    /// Returns the text for the client.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the text of `additionalErrorInfo`, if there is any.
    pub fn additional_info(&self) -> Option<&str> {
        self.additional_info.as_deref()
    }

    /// Returns the milliseconds after which a retry may succeed, if they are known.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after_ms
    }

    /// Returns the cause and its sources, separated by colons, for the log. Empty without a cause.
    pub fn cause_chain(&self) -> String {
        std::error::Error::source(self)
            .map(with_causes)
            .unwrap_or_default()
    }

    /// Returns the reason for the operator: the cause and its sources, which name files, or the
    /// message of an error without a cause.
    pub fn operator_text(&self) -> String {
        match self.cause_chain() {
            cause if cause.is_empty() => self.message().to_owned(),
            cause => cause,
        }
    }
}

/// Returns the text of an error and of its causes, separated by colons.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{} {}",
            self.status(),
            self.sub_status(),
            self.message
        )
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|c| c as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_a_4xx_or_5xx_and_no_two_share_status_and_sub_status() {
        for (i, kind) in Kind::ALL.iter().enumerate() {
            assert!((400..600).contains(&kind.status()));
            let duplicate = Kind::ALL[..i]
                .iter()
                .find(|k| (k.status(), k.sub_status()) == (kind.status(), kind.sub_status()));
            // To a client, an owner that cannot be reached is a server that cannot answer now.
            let expected = (*kind == Kind::NotOwned).then_some(&Kind::Unavailable);
            assert_eq!(duplicate, expected, "the kind with the status of {kind:?}");
        }
    }

    #[test]
    fn help_follows_the_words_of_the_service() {
        let error = Error::conflict().with_help("Take another id.");
        assert!(error.message().starts_with("Entity with the specified id"));
        assert!(
            error
                .message()
                .ends_with("already exists. Take another id.")
        );
        assert_eq!(Error::bad("No.").with_help("").message(), "No.");
    }

    #[test]
    fn the_cause_is_absent_from_the_message() {
        let error = Error::internal("data file 7 is truncated");
        assert!(!error.to_string().contains("truncated"));
        assert_eq!(error.cause_chain(), "data file 7 is truncated");
    }
}
