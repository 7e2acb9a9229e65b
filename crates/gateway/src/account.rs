//! The account document (`GET /`): where clients go after they start, and what the account can do.
//!
//! All later traffic of a client goes to the address that stands here, so it is the one by which this request came,
//! unless the operator names another.

use crate::options::Account;
use orrery_model::{Error, Json, Result, limits, object};

/// Writes the document for a client that came by `scheme` and `host`.
///
/// # Errors
/// 400 if there is no host, or one that is no host.
pub(crate) fn document(account: &Account, scheme: &str, host: Option<&str>) -> Result<String> {
    let endpoint = match (&account.endpoint, host) {
        (Some(endpoint), _) => format!("{}/", endpoint.trim_end_matches('/')),
        (None, Some(host)) if is_host(host) => format!("{scheme}://{host}/"),
        (None, Some(host)) => return Err(Error::bad(format!("The host '{host}' is not valid."))),
        (None, None) => return Err(Error::bad("The request names no host.")),
    };
    let locations = || {
        let location = object! { "name" => account.region.as_str(), "databaseAccountEndpoint" => endpoint.as_str() };
        vec![Json::Object(location)]
    };
    let replication = || object! { "asyncReplication" => false, "minReplicaSetSize" => 1, "maxReplicasetSize" => 1 };
    let document = Json::Object(object! {
        "_self" => "",
        "id" => account.name.as_str(),
        "_rid" => account.name.as_str(),
        "media" => "//media/",
        "addresses" => "//addresses/",
        "_dbs" => "//dbs/",
        "writableLocations" => locations(),
        "readableLocations" => locations(),
        "enableMultipleWriteLocations" => false,
        "continuousBackupEnabled" => false,
        "enableNRegionSynchronousCommit" => false,
        "enablePerPartitionFailoverBehavior" => false,
        "userReplicationPolicy" => replication(),
        "userConsistencyPolicy" => object! { "defaultConsistencyLevel" => account.consistency.name() },
        "systemReplicationPolicy" => replication(),
        "readPolicy" => object! { "primaryReadCoefficient" => 1, "secondaryReadCoefficient" => 1 },
        "queryEngineConfiguration" => query_engine().to_text(),
    });
    Ok(document.to_text())
}

/// What clients may want to know of the query engine. Two of them parse this text and fail if it is no JSON.
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

/// Letters, digits, and what addresses and ports need; a host goes into a URL that clients then use.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= 300
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn endpoint(account: &Account, scheme: &str, host: &str) -> String {
        let json = parse(document(account, scheme, Some(host)).expect("a document").as_bytes()).expect("JSON");
        let location = json.get("writableLocations").and_then(|l| l.as_array()).expect("a list")[0].clone();
        location.get("databaseAccountEndpoint").and_then(|e| e.as_str()).expect("an address").to_owned()
    }

    #[test]
    fn clients_are_sent_to_the_address_they_came_by() {
        let account = Account::default();
        assert_eq!(endpoint(&account, "https", "db.example:8443"), "https://db.example:8443/");
        assert_eq!(endpoint(&account, "http", "[::1]:8081"), "http://[::1]:8081/");
    }

    #[test]
    fn the_operator_may_name_another_address() {
        let account = Account { endpoint: Some("https://proxy.example/".into()), ..Account::default() };
        assert_eq!(endpoint(&account, "http", "127.0.0.1:8081"), "https://proxy.example/");
    }

    #[test]
    fn a_host_that_would_break_the_url_is_refused() {
        for host in ["", "a/b", "a\"b", "a b", "user@host"] {
            assert_eq!(document(&Account::default(), "http", Some(host)).expect_err(host).status(), 400);
        }
        assert!(document(&Account::default(), "http", None).is_err());
    }

    #[test]
    fn what_clients_parse_is_there() {
        let text = document(&Account::default(), "http", Some("h:1")).expect("a document");
        let json = parse(text.as_bytes()).expect("JSON");
        for name in ["_self", "id", "_rid"] {
            assert!(json.get(name).and_then(|v| v.as_str()).is_some(), "{name}");
        }
        assert_ne!(json.get("id").and_then(|v| v.as_str()), Some("localhost"));
        let engine = json.get("queryEngineConfiguration").and_then(|v| v.as_str()).expect("a string");
        assert!(parse(engine.as_bytes()).expect("JSON").as_object().is_some());
        let level = json.get("userConsistencyPolicy").and_then(|p| p.get("defaultConsistencyLevel"));
        assert_eq!(level.and_then(|l| l.as_str()), Some("Session"));
    }
}
