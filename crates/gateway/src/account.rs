//! The account document (`GET /`): the addresses that clients use, and the features of the account.
//!
//! A client sends all later requests to the address in this document. The document therefore
//! contains the address that the client used for this request, unless the operator sets another.
//!
//! An account may have several regions, so that clients with a list of preferred regions start as
//! they do with the service. This server serves all regions: at one address, and with one region
//! that accepts writes.

use crate::options::{Account, Consistency};
use orrery_model::{Error, Json, Object, Result, limits, object};

/// Returns the document for a client that used `scheme` and `host`.
///
/// # Errors
/// 400 if there is no host, or the host has characters that no host has.
pub(crate) fn document(account: &Account, scheme: &str, host: Option<&str>) -> Result<String> {
    let endpoint = address(account, scheme, host, "/")?;
    let locations = |regions: &[String]| -> Vec<Json> {
        let location = |name: &String| {
            Json::Object(
                object! { "name" => name.as_str(), "databaseAccountEndpoint" => endpoint.as_str() },
            )
        };
        regions.iter().map(location).collect()
    };
    let write_region = account.regions.get(..1).unwrap_or_default();
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
        "writableLocations" => locations(write_region),
        "readableLocations" => locations(&account.regions),
        "enableMultipleWriteLocations" => false,
        "continuousBackupEnabled" => false,
        "enableNRegionSynchronousCommit" => false,
        "enablePerPartitionFailoverBehavior" => false,
        "userReplicationPolicy" => replication(),
        "userConsistencyPolicy" => consistency_policy(account),
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
fn consistency_policy(account: &Account) -> Object {
    let mut policy = object! { "defaultConsistencyLevel" => account.consistency.name() };
    if account.consistency == Consistency::BoundedStaleness {
        let (versions, seconds) = if account.regions.len() > 1 {
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
            document(account, scheme, Some(host))
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
                document(&Account::default(), "http", Some(host))
                    .expect_err(host)
                    .status(),
                400
            );
        }
        assert!(document(&Account::default(), "http", None).is_err());
    }

    #[test]
    fn every_region_has_the_one_address_and_the_first_takes_writes() {
        let regions = vec!["West US".into(), "North Europe".into(), "East Asia".into()];
        let account = Account {
            regions,
            ..Account::default()
        };
        let json = parse(
            document(&account, "http", Some("h:1"))
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
    fn only_bounded_staleness_has_bounds() {
        for level in Consistency::ALL {
            let account = Account {
                consistency: level,
                ..Account::default()
            };
            let json = parse(
                document(&account, "http", Some("h:1"))
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
        let text = document(&Account::default(), "http", Some("h:1")).expect("a document");
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
