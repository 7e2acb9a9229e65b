//! The parsed values of headers, and the refusals.

use super::*;
use http::HeaderName;
use orrery_engine::request::{Bucket, Priority};

fn parse(pairs: &[(&str, &str)]) -> Result<RequestHeaders> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = http::HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).expect("a name"),
            value,
        );
    }
    RequestHeaders::parse(&headers, Consistency::Session).map(|headers| *headers)
}

fn refused(pairs: &[(&str, &str)]) -> String {
    let error = parse(pairs).expect_err("it is refused");
    assert_eq!(error.status(), 400);
    error.message().to_owned()
}

#[test]
fn the_table_is_sorted_and_names_each_header_once() {
    assert!(
        known_headers()
            .windows(2)
            .all(|pair| pair[0].name < pair[1].name)
    );
    assert!(
        known_headers()
            .iter()
            .all(|h| !h.effect.is_empty() && h.name == h.name.to_lowercase())
    );
}

#[test]
fn unknown_headers_are_ignored() {
    assert!(parse(&[("x-ms-thinclient-anything", "1"), ("user-agent", "test")]).is_ok());
}

#[test]
fn booleans_come_in_every_spelling() {
    for yes in ["True", "true", "TRUE", "1"] {
        assert!(
            parse(&[("x-ms-documentdb-is-upsert", yes)])
                .expect("it parses")
                .is_upsert
        );
    }
    for no in ["False", "false", "0", ""] {
        assert!(
            !parse(&[("x-ms-documentdb-is-upsert", no)])
                .expect("it parses")
                .is_upsert
        );
    }
    assert!(
        refused(&[("x-ms-documentdb-is-upsert", "maybe")]).contains("x-ms-documentdb-is-upsert")
    );
    assert!(parse(&[("x-ms-documentdb-query-enable-scan", "maybe")]).is_ok());
}

#[test]
fn the_page_size_is_bounded_by_the_rules_of_the_service() {
    let limit = |text| parse(&[("x-ms-max-item-count", text)]).map(|a| a.max_items.limit());
    assert_eq!(parse(&[]).expect("it parses").max_items.limit(), Some(100));
    assert_eq!(limit("-1").expect("it parses"), None);
    assert_eq!(limit("2147483647").expect("it parses"), Some(2_147_483_647));
    for bad in ["-2", "2147483648", "ten", "1.5"] {
        assert_eq!(limit(bad).expect_err(bad).status(), 400);
    }
}

#[test]
fn only_versions_of_the_service_are_taken() {
    assert!(parse(&[("x-ms-version", "2020-07-15")]).is_ok());
    // The versions that SDKs in use send: .NET, Java, JavaScript, Python, Go, Rust, and the oldest
    // of the documented ones.
    for version in [
        "2014-08-21",
        "2018-12-31",
        "2018-08-31",
        "2018-09-17",
        "2020-07-15",
        "2020-11-05",
    ] {
        assert!(parse(&[("x-ms-version", version)]).is_ok(), "{version}");
    }
    assert!(parse(&[]).is_ok(), "a request may leave it out");
    assert!(refused(&[("x-ms-version", "2015-01-01")]).contains("2015-01-01"));
}

#[test]
fn consistency_may_be_weakened_and_not_strengthened() {
    for level in ["Session", "session", "ConsistentPrefix", "Eventual"] {
        assert!(
            parse(&[("x-ms-consistency-level", level)]).is_ok(),
            "{level}"
        );
    }
    assert!(
        refused(&[("x-ms-consistency-level", "Strong")])
            .contains("ConsistencyLevel Strong specified")
    );
    refused(&[("x-ms-consistency-level", "Sometimes")]);
    let both = [
        ("x-ms-consistency-level", "Strong"),
        ("x-ms-cosmos-read-consistency-strategy", "Session"),
    ];
    let both = parse(&both).expect("the strategy is the one that counts");
    assert_eq!(
        (both.consistency, both.strategy),
        (None, Some(Strategy::Session))
    );
    refused(&[("x-ms-cosmos-read-consistency-strategy", "GlobalStrong")]);
}

#[test]
fn the_default_strategy_of_a_read_leaves_the_consistency_as_it_is() {
    let strategy = ("x-ms-cosmos-read-consistency-strategy", "Default");
    assert_eq!(parse(&[strategy]).unwrap().strategy, None);
    let both = parse(&[("x-ms-consistency-level", "Eventual"), strategy]).unwrap();
    assert_eq!(both.consistency, Some(Consistency::Eventual));
}

#[test]
fn a_session_token_counts_only_at_session_consistency() {
    let token = ("x-ms-session-token", "0:-1#7");
    assert_eq!(
        parse(&[token]).expect("it parses").session(),
        Some("0:-1#7")
    );
    assert_eq!(
        parse(&[token, ("x-ms-consistency-level", "Eventual")])
            .expect("it parses")
            .session(),
        None
    );
    assert_eq!(
        parse(&[("x-ms-session-token", "")])
            .expect("it parses")
            .session(),
        None
    );
}

#[test]
fn the_account_s_level_holds_where_a_request_names_none() {
    let parse_for = |account, pairs: &[(&str, &str)]| {
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-ms-session-token",
            http::HeaderValue::from_static("0:-1#7"),
        );
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.insert(name, http::HeaderValue::from_str(value).expect("a value"));
        }
        RequestHeaders::parse(&headers, account)
    };
    let counts = |account, pairs: &[(&str, &str)]| {
        parse_for(account, pairs)
            .expect("it parses")
            .session()
            .is_some()
    };
    for (account, token_counts) in Consistency::ALL
        .into_iter()
        .zip([true, true, true, false, false])
    {
        assert_eq!(counts(account, &[]), token_counts, "{account:?}");
        // Every level may be asked for by name, and each weaker one; none that is stronger.
        for level in Consistency::ALL {
            let asked = parse_for(account, &[("x-ms-consistency-level", level.name())]);
            assert_eq!(
                asked.map_err(|e| e.status()).err(),
                (level < account).then_some(400),
                "{account:?} {level:?}"
            );
        }
        let strategy =
            |name| parse_for(account, &[("x-ms-cosmos-read-consistency-strategy", name)]);
        assert_eq!(
            strategy("GlobalStrong").is_ok(),
            account == Consistency::Strong
        );
        assert!(strategy("LatestCommitted").is_ok());
        assert!(counts(
            account,
            &[("x-ms-cosmos-read-consistency-strategy", "Session")]
        ));
        assert!(!counts(
            account,
            &[("x-ms-cosmos-read-consistency-strategy", "Eventual")]
        ));
    }
}

#[test]
fn a_range_is_named_with_or_without_its_container() {
    let range = |text| {
        parse(&[("x-ms-documentdb-partitionkeyrangeid", text)]).map(|a| a.range.expect("a range"))
    };
    assert_eq!(
        range("0").expect("it parses"),
        RangeName {
            container: None,
            id: Some(0)
        }
    );
    let with = RangeName {
        container: Some("hy5tAOrJ4DU=".into()),
        id: Some(3),
    };
    assert_eq!(range("hy5tAOrJ4DU=,3").expect("it parses"), with);
    assert_eq!(range("99999999999").expect("it parses").id, None);
    assert_eq!(range("first").expect_err("no number").status(), 400);
}

#[test]
fn throughput_follows_the_steps_of_the_service() {
    let manual = |text| parse(&[("x-ms-offer-throughput", text)]).map(|a| a.throughput());
    assert_eq!(
        manual("400").expect("it parses"),
        Some(Throughput::Manual(400))
    );
    for bad in ["300", "450", "1000100", "many"] {
        assert!(manual(bad).is_err(), "{bad}");
    }
    let autoscale =
        |text| parse(&[("x-ms-cosmos-offer-autopilot-settings", text)]).map(|a| a.throughput());
    let settings =
        r#"{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":0}}}"#;
    assert_eq!(
        autoscale(settings).expect("it parses"),
        Some(Throughput::Autoscale {
            max: 4000,
            increment_percent: Some(0)
        })
    );
    let rising =
        r#"{"maxThroughput":1000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":3}}}"#;
    let risen = Throughput::Autoscale {
        max: 1000,
        increment_percent: Some(3),
    };
    assert_eq!(autoscale(rising).expect("it parses"), Some(risen));
    let too_low = autoscale(r#"{"maxThroughput":-200}"#).expect_err("it is too low");
    let message = "Requested throughput -200 is less than required minimum throughput 1000";
    assert!(too_low.message().contains(message), "{too_low}");
    for bad in [
        r#"{"maxThroughput":1500}"#,
        "{}",
        "4000",
        r#"{"maxThroughput":1001000}"#,
    ] {
        assert!(autoscale(bad).is_err(), "{bad}");
    }
    let both = [
        ("x-ms-cosmos-migrate-offer-to-autopilot", "true"),
        ("x-ms-cosmos-migrate-offer-to-manual-throughput", "true"),
    ];
    refused(&both);
    refused(&[
        ("x-ms-offer-throughput", "400"),
        (
            "x-ms-cosmos-offer-autopilot-settings",
            r#"{"maxThroughput":4000}"#,
        ),
    ]);
}

#[test]
fn one_trigger_of_each_kind_at_most() {
    let a = parse(&[("x-ms-documentdb-pre-trigger-include", "check")]).expect("it parses");
    assert_eq!(a.pre_trigger.as_deref(), Some("check"));
    refused(&[("x-ms-documentdb-pre-trigger-include", "one,two")]);
    let a = parse(&[
        ("x-ms-documentdb-pre-trigger-include", "check"),
        ("x-ms-documentdb-pre-trigger-exclude", "check"),
    ]);
    assert_eq!(a.expect("it parses").pre_trigger, None);
}

#[test]
fn values_that_are_not_offered_are_refused_by_name() {
    assert!(refused(&[("content-encoding", "gzip")]).contains("gzip"));
}

#[test]
fn a_query_is_answered_in_text_if_the_client_reads_text() {
    const READS: &str = "x-ms-cosmos-supported-serialization-formats";
    const DEMANDS: &str = "x-ms-documentdb-content-serialization-format";
    let binary = |pairs: &[(&str, &str)]| parse(pairs).expect("it parses").wants_binary();
    for text in [
        "jsontext",
        "JsonText, CosmosBinary",
        "JsonText,CosmosBinary, HybridRow",
        "HybridRow,JSONTEXT",
    ] {
        assert!(!binary(&[(READS, text)]), "{text}");
    }
    for text in ["COSMOSBINARY", "CosmosBinary, HybridRow"] {
        assert!(binary(&[(READS, text)]), "{text}");
    }
    assert!(!binary(&[(DEMANDS, "JsonText"), (READS, "CosmosBinary")]));
    assert!(binary(&[
        (DEMANDS, "CosmosBinary"),
        (READS, "JsonText,CosmosBinary")
    ]));
    assert!(!binary(&[]));
    for bad in [
        "Invalid value",
        ", ,",
        ",,",
        "JsonText CosmosBinary",
        ",JsonText|CosmosBinary",
        "Json,Text",
        "JsonText, ",
    ] {
        // An HTTP field has no blanks at its end, so the comma is the last character.
        refused(&[(READS, bad)]);
    }
    refused(&[(DEMANDS, "Not a valid value")]);
}

#[test]
fn a_change_feed_has_two_modes_and_all_versions_one_form() {
    let form = ("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15");
    let mode = |pairs: &[(&str, &str)]| parse(pairs).expect("it parses").change_feed;
    assert_eq!(mode(&[]), None);
    assert_eq!(
        mode(&[("a-im", "Incremental feed")]),
        Some(FeedMode::LatestVersion)
    );
    assert_eq!(
        mode(&[("a-im", "Incremental Feed"), form]),
        Some(FeedMode::LatestVersion)
    );
    assert_eq!(
        mode(&[("a-im", "full-fidelity feed"), form]),
        Some(FeedMode::AllVersions)
    );
    assert!(refused(&[("a-im", "Full-Fidelity Feed")]).contains("2021-09-15"));
    assert!(refused(&[("a-im", "Some Feed")]).contains("Incremental Feed, Full-Fidelity Feed"));
    refused(&[("a-im", "Full-Fidelity Feed"), (form.0, "2020-01-01")]);
}

#[test]
fn priorities_and_buckets_are_checked() {
    for (name, good, bad) in [
        ("x-ms-cosmos-priority-level", "Low", "Middle"),
        ("x-ms-cosmos-throughput-bucket", "5", "6"),
    ] {
        assert!(parse(&[(name, good)]).is_ok());
        assert!(
            refused(&[(name, bad)])
                .contains(&format!("specified for the header '{name}' is invalid."))
        );
    }
}

#[test]
fn a_partition_key_may_be_real_utf8() {
    let key = parse(&[("x-ms-documentdb-partitionkey", "[\"ü\"]")])
        .expect("it parses")
        .partition_key;
    assert_eq!(key.expect("a key").components().len(), 1);
    refused(&[("x-ms-documentdb-partitionkey", "ü")]);
}

#[test]
fn a_priority_and_a_bucket_go_with_the_request() {
    let admission = |pairs| parse(pairs).expect("it parses").admission;
    assert_eq!(admission(&[]), AdmissionOptions::default());
    assert_eq!(
        admission(&[("x-ms-cosmos-priority-level", "Low")]).priority,
        Priority::Low
    );
    assert_eq!(
        admission(&[("x-ms-cosmos-priority-level", "high")]).priority,
        Priority::High
    );
    assert_eq!(
        admission(&[("x-ms-cosmos-throughput-bucket", "5")]).bucket,
        Bucket::new(5)
    );
    assert!(
        refused(&[("x-ms-cosmos-priority-level", "Middle")]).contains("x-ms-cosmos-priority-level")
    );
    assert!(
        refused(&[("x-ms-cosmos-throughput-bucket", "6")]).contains("specified for the header")
    );
}
