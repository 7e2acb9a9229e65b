//! Every way a request can fail, in one table: status, sub-status, code word, and what a client should do next.
//!
//! Layers below the gateway name a [`Kind`]; only this table knows numbers. Numbers are the service's.

use std::fmt;

/// What a client does after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The same request will fail again.
    Never,
    /// The same request may succeed after a wait.
    AfterWait,
    /// The client's picture of the partitions or names is stale.
    AfterRefresh,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $status:literal, $sub:literal, $code:literal, $advice:ident;)*) => {
        /// The kinds of failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// All kinds, for documents and tests.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];

            /// HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Kind::$name => $status,)* }
            }

            /// `x-ms-substatus`; 0 means that none is sent.
            pub fn sub_status(self) -> u32 {
                match self { $(Kind::$name => $sub,)* }
            }

            /// `code` of the error body.
            pub fn code(self) -> &'static str {
                match self { $(Kind::$name => $code,)* }
            }

            /// What a client should do.
            pub fn advice(self) -> Advice {
                match self { $(Kind::$name => Advice::$advice,)* }
            }
        }
    };
}

kinds! {
    /// The request itself is wrong.
    BadRequest => 400, 0, "BadRequest", Never;
    /// The partition key of the header and that of the body differ, or have the wrong number of components.
    PartitionKeyMismatch => 400, 1001, "BadRequest", Never;
    /// The query needs a client that merges, or permission to cross partitions.
    CrossPartitionQueryNotServable => 400, 1004, "BadRequest", Never;
    /// The container was deleted and created again since the client looked.
    ContainerRidMismatch => 400, 1024, "BadRequest", AfterRefresh;
    /// A query's result holds NaN or an infinity.
    NotRepresentable => 400, 4001, "BadRequest", Never;
    /// A script does not compile.
    ScriptCompile => 400, 65535, "BadRequest", Never;
    /// No or no usable credentials.
    Unauthorized => 401, 0, "Unauthorized", Never;
    /// There is no authorization header.
    AuthorizationMissing => 401, 5000, "Unauthorized", Never;
    /// The authorization header cannot be read.
    AuthorizationMalformed => 401, 5001, "Unauthorized", Never;
    /// Directory identities are not accepted.
    DirectoryDisabled => 401, 5002, "Unauthorized", Never;
    /// The token of a directory is none.
    DirectoryTokenMalformed => 401, 5003, "Unauthorized", Never;
    /// The token of a directory is not signed with a key of its issuer.
    DirectoryTokenSignature => 401, 5004, "Unauthorized", Never;
    /// The time of the token of a directory has not come.
    DirectoryTokenNotYetValid => 401, 5005, "Unauthorized", AfterWait;
    /// The time of the token of a directory is over.
    DirectoryTokenExpired => 401, 5006, "Unauthorized", Never;
    /// The token of a directory comes from another issuer.
    DirectoryTokenIssuer => 401, 5007, "Unauthorized", Never;
    /// The token of a directory is for somebody else.
    DirectoryTokenAudience => 401, 5008, "Unauthorized", Never;
    /// The credentials do not allow this.
    Forbidden => 403, 0, "Forbidden", Never;
    /// Directory identities do not do this, whoever they are.
    DirectoryOperation => 403, 5300, "Forbidden", Never;
    /// There is no such item, container, database or script.
    NotFound => 404, 0, "NotFound", Never;
    /// This replica has not seen what the session token claims.
    SessionNotReached => 404, 1002, "NotFound", AfterWait;
    /// The database or container that should own the addressed resource does not exist.
    OwnerNotFound => 404, 1003, "NotFound", Never;
    /// The path exists, the method does not.
    MethodNotAllowed => 405, 0, "MethodNotAllowed", Never;
    /// A script or request ran too long.
    RequestTimeout => 408, 0, "RequestTimeout", AfterWait;
    /// The id or a unique key is taken.
    Conflict => 409, 0, "Conflict", Never;
    /// The container was replaced by another of the same name.
    NameCacheIsStale => 410, 1000, "Gone", AfterRefresh;
    /// The partition key range does not exist or was split.
    PartitionKeyRangeGone => 410, 1002, "Gone", AfterRefresh;
    /// The partition is about to be replaced by others.
    CompletingSplit => 410, 1007, "Gone", AfterWait;
    /// The ETag does not match.
    PreconditionFailed => 412, 0, "PreconditionFailed", Never;
    /// The condition of a patch does not hold for the item.
    PatchConditionNotMet => 412, 1110, "PreconditionFailed", Never;
    /// The body or item is too large.
    RequestEntityTooLarge => 413, 0, "RequestEntityTooLarge", Never;
    /// The answers of a batch are too large together.
    BatchResponseTooLarge => 413, 3402, "RequestEntityTooLarge", Never;
    /// Another operation of the same batch failed.
    FailedDependency => 424, 0, "FailedDependency", Never;
    /// The partition's budget of request units is spent.
    Throttled => 429, 3200, "TooManyRequests", AfterWait;
    /// A transient conflict with another write.
    RetryWith => 449, 0, "RetryWith", AfterWait;
    /// The server is at fault.
    Internal => 500, 0, "InternalServerError", AfterWait;
    /// The server cannot serve now.
    Unavailable => 503, 0, "ServiceUnavailable", AfterWait;
}

/// A failed request: its kind, the sentence for the client, and the cause that only our log reads.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    sub_status: Option<u32>,
    message: String,
    additional_info: Option<String>,
    retry_after_ms: Option<u64>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What most operations return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with the sentence that the client reads.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error {
            kind,
            sub_status: None,
            message: message.into(),
            additional_info: None,
            retry_after_ms: None,
            cause: None,
        }
    }

    /// A plain 400.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, message)
    }

    /// A field or option that the server understands but does not offer; refused by name.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::bad(format!("{what} is not supported by this server"))
    }

    /// An item or resource that is not there, in the service's words.
    pub fn not_found() -> Self {
        Self::new(
            Kind::NotFound,
            "Entity with the specified id does not exist in the system. More info: \
             https://aka.ms/cosmosdb-tsg-not-found. Resource Not Found.",
        )
    }

    /// A missing database or container above the addressed resource.
    pub fn owner_not_found() -> Self {
        Self::new(
            Kind::OwnerNotFound,
            "Owner resource does not exist. More info: https://aka.ms/cosmosdb-tsg-not-found. Resource Not Found.",
        )
    }

    /// A taken id, in the service's words.
    pub fn conflict() -> Self {
        Self::new(
            Kind::Conflict,
            "Entity with the specified id already exists in the system. Resource with specified id, name, or unique \
             index already exists.",
        )
    }

    /// A unique key whose values another item of the logical partition has, in the service's words.
    pub fn unique_key_taken() -> Self {
        Self::new(Kind::Conflict, "Unique index constraint violation.")
    }

    /// An ETag that does not match, in the service's words.
    pub fn precondition_failed() -> Self {
        Self::not_met(Kind::PreconditionFailed)
    }

    /// A patch whose condition does not hold, in the service's words.
    pub fn patch_condition_not_met() -> Self {
        Self::not_met(Kind::PatchConditionNotMet)
    }

    fn not_met(kind: Kind) -> Self {
        Self::new(
            kind,
            "Operation cannot be performed because one of the specified precondition is not met. One of the specified \
             pre-condition is not met. Learn more: https://aka.ms/CosmosDB/sql/errors/precondition-failed",
        )
    }

    /// An operation that was not carried out because another of its batch failed.
    pub fn failed_dependency() -> Self {
        Self::new(
            Kind::FailedDependency,
            "The operation was not carried out because another one of its batch failed.",
        )
    }

    /// A request beyond the budget, in the service's words.
    pub fn request_rate_is_large(retry_after_ms: u64) -> Self {
        let message = "Request rate is large. More Request Units may be needed, so no changes were made. Please retry this \
                    request later. Learn more: http://aka.ms/cosmosdb-error-429";
        Self::new(Kind::Throttled, message).with_retry_after_ms(retry_after_ms)
    }

    /// A partition key that does not fit, in the service's words.
    pub fn partition_key_mismatch() -> Self {
        Self::new(
            Kind::PartitionKeyMismatch,
            "Partition key provided either doesn't correspond to definition in the collection or doesn't match \
             partition key field values specified in the document.",
        )
    }

    /// Something of ours broke; the client learns only that.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let mut error = Self::new(
            Kind::Internal,
            "The server met an internal error and did not carry out the request.",
        );
        error.cause = Some(cause.into());
        error
    }

    /// The same error with another sub-status (a number that a script threw).
    pub fn with_sub_status(mut self, sub_status: u32) -> Self {
        self.sub_status = Some(sub_status);
        self
    }

    /// The same error with the time after which a retry may succeed.
    pub fn with_retry_after_ms(mut self, milliseconds: u64) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// The same error with `additionalErrorInfo` for the body.
    pub fn with_additional_info(mut self, additional_info: impl Into<String>) -> Self {
        self.additional_info = Some(additional_info.into());
        self
    }

    /// The same error with a cause for the log.
    pub fn with_cause(
        mut self,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// HTTP status.
    pub fn status(&self) -> u16 {
        self.kind.status()
    }

    /// Sub-status; 0 for none.
    pub fn sub_status(&self) -> u32 {
        self.sub_status.unwrap_or(self.kind.sub_status())
    }

    /// The sentence for the client.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// `additionalErrorInfo`, if there is any.
    pub fn additional_info(&self) -> Option<&str> {
        self.additional_info.as_deref()
    }

    /// When a retry may succeed.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after_ms
    }

    /// The cause and its causes, for the log.
    pub fn cause_chain(&self) -> String {
        let mut text = String::new();
        let mut next = self.cause.as_deref().map(|c| c as &dyn std::error::Error);
        while let Some(error) = next {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&error.to_string());
            next = error.source();
        }
        text
    }
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
    fn only_errors_are_in_the_table_and_each_pair_stands_once() {
        for (i, kind) in Kind::ALL.iter().enumerate() {
            assert!(kind.status() >= 400);
            let twin = Kind::ALL[..i]
                .iter()
                .find(|k| (k.status(), k.sub_status()) == (kind.status(), kind.sub_status()));
            assert!(twin.is_none(), "{kind:?} and {twin:?} share a status");
        }
    }

    #[test]
    fn the_cause_goes_to_the_log_and_not_to_the_client() {
        let error = Error::internal("disk on fire");
        assert!(!error.to_string().contains("fire"));
        assert_eq!(error.cause_chain(), "disk on fire");
    }
}
