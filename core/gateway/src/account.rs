//! The account document (`GET /`): the addresses that clients use, and the features of the account.
//!
//! A client sends all later requests to the address in this document. The document therefore
//! contains the address that the client used for this request, unless the operator sets another.
//!
//! An account may have several regions, so that clients with a list of preferred regions start as
//! they do with the service. One region accepts writes. A single server serves all regions at one
//! address; a fleet tells the address of each region with the request (`AccountRegions`).

use crate::direct::DirectMode;
use orrery_model::{Error, Json, Object, Result, limits, object};
use std::sync::Arc;

/// The account that clients read when they start.
#[derive(Clone, Debug)]
pub struct Account {
    /// The id of the account. Clients treat the id `localhost` specially, so avoid it.
    pub name: String,
    /// The names of the regions, at least one. This server serves all of them; the first is the
    /// write region.
    pub regions: Vec<String>,
    /// The consistency of requests that do not ask for a weaker level.
    pub consistency: Consistency,
    /// The address that the account document tells clients to use; `None` for the address that the
    /// client used. One that begins with `//` takes the scheme that the client used.
    pub endpoint: Option<String>,
    /// The addresses that clients of the direct mode get.
    pub direct: DirectMode,
}

impl Default for Account {
    fn default() -> Self {
        Account {
            name: "orrery".into(),
            regions: vec!["South Central US".into()],
            consistency: Consistency::Session,
            endpoint: None,
            direct: DirectMode::Off,
        }
    }
}

/// The consistency levels, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consistency {
    /// Reads return the last committed write.
    Strong,
    /// Reads lag behind by a bounded number of versions or seconds.
    BoundedStaleness,
    /// A client reads its own writes.
    Session,
    /// Reads never return writes out of order.
    ConsistentPrefix,
    /// Reads return every write eventually.
    Eventual,
}

impl Consistency {
    /// All levels, the strongest first.
    pub const ALL: [Consistency; 5] = [
        Consistency::Strong,
        Consistency::BoundedStaleness,
        Consistency::Session,
        Consistency::ConsistentPrefix,
        Consistency::Eventual,
    ];

    /// Returns the name of the level in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Strong => "Strong",
            Consistency::BoundedStaleness => "BoundedStaleness",
            Consistency::Session => "Session",
            Consistency::ConsistentPrefix => "ConsistentPrefix",
            Consistency::Eventual => "Eventual",
        }
    }

    /// Returns the level with a name, which is compared without regard to case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

/// A region of the account and its address for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRegion {
    /// The name of the region.
    pub name: String,
    /// The address for clients, such as `https://10.0.0.1:8081/`.
    pub endpoint: String,
}

/// The regions of the account, of which each has an address for reads: an extension of a request,
/// which takes the place of the regions of [`Account`]. The first region accepts writes, at the
/// address that the client used. No byte from the network becomes an extension, so a client cannot
/// set them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRegions(pub Arc<[AccountRegion]>);

/// Returns the document for a client that used `scheme` and `host`. `regions` take the place of
/// those of the account.
///
/// # Errors
/// 400 if there is no host, or the host has characters that no host has.
pub(crate) fn document(
    account: &Account,
    regions: Option<&AccountRegions>,
    scheme: &str,
    host: Option<&str>,
) -> Result<String> {
    let endpoint = address(account, scheme, host, "/")?;
    let location = |name: &str, endpoint: &str| {
        Json::Object(object! { "name" => name, "databaseAccountEndpoint" => endpoint })
    };
    let all: Vec<Json> = match regions {
        Some(AccountRegions(regions)) => {
            let regions = regions.iter();
            regions
                .map(|one| location(&one.name, &one.endpoint))
                .collect()
        }
        None => {
            let regions = account.regions.iter();
            regions.map(|name| location(name, &endpoint)).collect()
        }
    };
    // Every node takes writes, and some SDKs ask for the account only every five minutes: the
    // address that the client uses outlives the region's own one.
    let write_region: Vec<Json> = match regions {
        Some(AccountRegions(regions)) => {
            let first = regions.first().into_iter();
            first.map(|one| location(&one.name, &endpoint)).collect()
        }
        None => all.get(..1).unwrap_or_default().to_vec(),
    };
    let region_count = all.len();
    let replication = || {
        object! {
            "asyncReplication" => false,
            "minReplicaSetSize" => 1,
            "maxReplicasetSize" => 1,
        }
    };
    let document = Json::Object(object! {
        "_self" => "",
        "id" => account.name.as_str(),
        "_rid" => account.name.as_str(),
        "media" => "//media/",
        "addresses" => "//addresses/",
        "_dbs" => "//dbs/",
        "writableLocations" => write_region,
        "readableLocations" => all,
        "enableMultipleWriteLocations" => false,
        "continuousBackupEnabled" => false,
        "enableNRegionSynchronousCommit" => false,
        "enablePerPartitionFailoverBehavior" => false,
        "userReplicationPolicy" => replication(),
        "userConsistencyPolicy" => consistency_policy(account, region_count),
        "systemReplicationPolicy" => replication(),
        "readPolicy" => object! { "primaryReadCoefficient" => 1, "secondaryReadCoefficient" => 1 },
        "queryEngineConfiguration" => query_engine().to_text(),
    });
    Ok(document.to_text())
}

/// Returns the address of `path`, which starts with a slash, for a client that used `scheme` and
/// `host`.
///
/// # Errors
/// 400 if there is no host, or the host has characters that no host has.
pub(crate) fn address(
    account: &Account,
    scheme: &str,
    host: Option<&str>,
    path: &str,
) -> Result<String> {
    match (&account.endpoint, host) {
        // An address without a scheme takes the client's.
        (Some(endpoint), _) if endpoint.starts_with("//") => {
            Ok([scheme, ":", endpoint.trim_end_matches('/'), path].concat())
        }
        (Some(endpoint), _) => Ok([endpoint.trim_end_matches('/'), path].concat()),
        (None, Some(host)) if is_host(host) => Ok([scheme, "://", host, path].concat()),
        (None, Some(host)) => Err(Error::bad(format!("The host '{host}' is not valid."))),
        (None, None) => Err(Error::bad("The request names no host.")),
    }
}

/// Returns the consistency level of the account. Bounded staleness has bounds in versions and
/// seconds: the service's defaults for one region and for several. This server has one copy of the
/// data, so every read is within any bound.
fn consistency_policy(account: &Account, regions: usize) -> Object {
    let mut policy = object! { "defaultConsistencyLevel" => account.consistency.name() };
    if account.consistency == Consistency::BoundedStaleness {
        let (versions, seconds) = if regions > 1 {
            (100_000, 300)
        } else {
            (100, 5)
        };
        policy.push_new("maxStalenessPrefix", versions);
        policy.push_new("maxIntervalInSeconds", seconds);
    }
    policy
}

/// Returns the limits and features of the query engine. Two clients parse this text, and fail if it
/// is not JSON.
fn query_engine() -> Json {
    Json::Object(object! {
        "maxSqlQueryInputLength" => limits::QUERY_TEXT_BYTES,
        "maxJoinsPerSqlQuery" => limits::JOINS_PER_QUERY,
        "maxUdfRefPerSqlQuery" => limits::UDF_CALLS_PER_QUERY,
        "sqlAllowNonFiniteNumbers" => false,
        "sqlAllowAggregateFunctions" => true,
        "sqlAllowSubQuery" => true,
        "sqlAllowScalarSubQuery" => true,
        "sqlAllowLike" => true,
        "sqlAllowGroupByClause" => true,
        "allowNewKeywords" => true,
        // Clients that make plans themselves refuse the functions of full text without it.
        "queryEnableFullText" => true,
        // The same for an array of terms as one argument of FullTextScore.
        "queryEnableFullTextScoreLegacySyntax" => true,
        // With the feature, a client may return wrong rows after a split; see the record
        // `docs/decisions/2026-11-no-optimistic-direct-execution.md`.
        "clientDisableOptimisticDirectExecution" => true,
    })
}

/// Returns true if a text has only characters of host names, addresses and ports. The host becomes
/// part of a URL that clients use.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= 300
        && host.bytes().all(|b| {
            b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']')
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn endpoint(account: &Account, scheme: &str, host: &str) -> String {
        let json = parse(
            document(account, None, scheme, Some(host))
                .expect("a document")
                .as_bytes(),
        )
        .expect("JSON");
        let location = json
            .get("writableLocations")
            .and_then(|l| l.as_array())
            .expect("a list")[0]
            .clone();
        location
            .get("databaseAccountEndpoint")
            .and_then(|e| e.as_str())
            .expect("an address")
            .to_owned()
    }

    #[test]
    fn the_document_contains_the_address_that_the_client_used() {
        let account = Account::default();
        assert_eq!(
            endpoint(&account, "https", "db.example:8443"),
            "https://db.example:8443/"
        );
        assert_eq!(
            endpoint(&account, "http", "[::1]:8081"),
            "http://[::1]:8081/"
        );
    }

    #[test]
    fn the_operator_may_set_another_address() {
        let account = Account {
            endpoint: Some("https://proxy.example/".into()),
            ..Account::default()
        };
        assert_eq!(
            endpoint(&account, "http", "127.0.0.1:8081"),
            "https://proxy.example/"
        );
    }

    #[test]
    fn a_host_that_would_break_the_url_is_refused() {
        for host in ["", "a/b", "a\"b", "a b", "user@host"] {
            assert_eq!(
                document(&Account::default(), None, "http", Some(host))
                    .expect_err(host)
                    .status(),
                400
            );
        }
        assert!(document(&Account::default(), None, "http", None).is_err());
    }

    #[test]
    fn every_region_has_the_one_address_and_the_first_takes_writes() {
        let regions = vec!["West US".into(), "North Europe".into(), "East Asia".into()];
        let account = Account {
            regions,
            ..Account::default()
        };
        let json = parse(
            document(&account, None, "http", Some("h:1"))
                .expect("a document")
                .as_bytes(),
        )
        .expect("JSON");
        let names = |member: &str| -> Vec<String> {
            let locations = json.get(member).and_then(|l| l.as_array()).expect("a list");
            let text = |location: &Json, name: &str| {
                location
                    .get(name)
                    .and_then(|v| v.as_str())
                    .map(str::to_owned)
            };
            assert!(
                locations
                    .iter()
                    .all(|l| text(l, "databaseAccountEndpoint").as_deref() == Some("http://h:1/"))
            );
            locations
                .iter()
                .filter_map(|location| text(location, "name"))
                .collect()
        };
        assert_eq!(names("writableLocations"), ["West US"]);
        assert_eq!(
            names("readableLocations"),
            ["West US", "North Europe", "East Asia"]
        );
        assert_eq!(
            json.get("enableMultipleWriteLocations")
                .and_then(Json::as_bool),
            Some(false)
        );
    }

    #[test]
    fn the_regions_of_a_request_take_the_place_of_those_of_the_account() {
        let region = |name: &str, endpoint: &str| AccountRegion {
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
        };
        let regions = AccountRegions(Arc::new([
            region("East Asia", "http://b:1/"),
            region("West US", "http://a:1/"),
        ]));
        let account = Account {
            consistency: Consistency::BoundedStaleness,
            ..Account::default()
        };
        let text = document(&account, Some(&regions), "http", Some("h:1")).expect("a document");
        let json = parse(text.as_bytes()).expect("JSON");
        let first = r#"{"name":"East Asia","databaseAccountEndpoint":"http://b:1/"}"#;
        let second = r#"{"name":"West US","databaseAccountEndpoint":"http://a:1/"}"#;
        let list = |name: &str| json.get(name).expect("a list").to_text();
        let write = r#"{"name":"East Asia","databaseAccountEndpoint":"http://h:1/"}"#;
        assert_eq!(list("writableLocations"), format!("[{write}]"));
        assert_eq!(list("readableLocations"), format!("[{first},{second}]"));
        let policy = json.get("userConsistencyPolicy").expect("a policy");
        let bound = policy.get("maxIntervalInSeconds").and_then(Json::as_i64);
        assert_eq!(bound, Some(300));
    }

    #[test]
    fn only_bounded_staleness_has_bounds() {
        for level in Consistency::ALL {
            let account = Account {
                consistency: level,
                ..Account::default()
            };
            let json = parse(
                document(&account, None, "http", Some("h:1"))
                    .expect("a document")
                    .as_bytes(),
            )
            .expect("JSON");
            let policy = json.get("userConsistencyPolicy").expect("a policy");
            assert_eq!(
                policy
                    .get("defaultConsistencyLevel")
                    .and_then(|l| l.as_str()),
                Some(level.name())
            );
            let bounded = level == Consistency::BoundedStaleness;
            assert_eq!(
                policy.get("maxStalenessPrefix").is_some(),
                bounded,
                "{level:?}"
            );
            assert_eq!(
                policy.get("maxIntervalInSeconds").is_some(),
                bounded,
                "{level:?}"
            );
        }
    }

    #[test]
    fn the_document_has_the_members_that_clients_parse() {
        let text = document(&Account::default(), None, "http", Some("h:1")).expect("a document");
        let json = parse(text.as_bytes()).expect("JSON");
        for name in ["_self", "id", "_rid"] {
            assert!(json.get(name).and_then(|v| v.as_str()).is_some(), "{name}");
        }
        assert_ne!(json.get("id").and_then(|v| v.as_str()), Some("localhost"));
        let engine = json
            .get("queryEngineConfiguration")
            .and_then(|v| v.as_str())
            .expect("a string");
        assert!(
            parse(engine.as_bytes())
                .expect("JSON")
                .as_object()
                .is_some()
        );
        let level = json
            .get("userConsistencyPolicy")
            .and_then(|p| p.get("defaultConsistencyLevel"));
        assert_eq!(level.and_then(|l| l.as_str()), Some("Session"));
    }
}
