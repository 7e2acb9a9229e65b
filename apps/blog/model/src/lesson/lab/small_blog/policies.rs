//! One item written under several indexing policies, and a query that one of them does not help.

use super::stage::{Stage, add_bulk_load};
use crate::meter::{Measurement, Meter};
use crate::{BlogError, Query};
use orrery_client::Throughput;
use serde_json::{Value, json};
use std::time::Instant;

/// Posts in each container before the measured write.
const POSTS: u64 = 100;
const RU_PER_SECOND: u32 = 6_000;
/// The query by a property that some policies leave out.
const BY_TITLE: &str = "SELECT * FROM c WHERE c.title = @title";

/// A policy with the charges under it.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyCost {
    /// The policy in words.
    pub label: &'static str,
    /// Name of the container.
    pub container: &'static str,
    /// The policy as JSON.
    pub policy: Value,
    /// Cost of the write of one post.
    pub write: Measurement,
    /// Cost of the query for posts by title in one logical partition.
    pub query: Measurement,
}

/// The policies: words, name of the container, and the policy.
fn policies() -> [(&'static str, &'static str, Value); 4] {
    let policy = |included: &[&str], excluded: &[&str], composite: Value| {
        let paths = |paths: &[&str]| {
            let paths = paths.iter().map(|path| json!({"path": path}));
            paths.collect::<Vec<_>>()
        };
        json!({
            "indexingMode": "consistent",
            "automatic": true,
            "includedPaths": paths(included),
            "excludedPaths": paths(excluded),
            "compositeIndexes": composite,
        })
    };
    let composite = json!([[
        {"path": "/type", "order": "ascending"},
        {"path": "/creationDate", "order": "descending"},
    ]]);
    let without_texts = ["/title/?", "/content/?"];
    let asked = ["/type/?", "/userId/?", "/creationDate/?"];
    [
        (
            "every path, and one composite index",
            "policyComposite",
            policy(&["/*"], &[], composite),
        ),
        (
            "every path: the default",
            "policyAll",
            policy(&["/*"], &[], json!([])),
        ),
        (
            "every path but title and content",
            "policyNoTexts",
            policy(&["/*"], &without_texts, json!([])),
        ),
        (
            "only the paths that the blog's queries ask",
            "policyAsked",
            policy(&asked, &["/*"], json!([])),
        ),
    ]
}

/// Creates a container for each policy and measures the write and the query in it.
pub(super) async fn measure(stage: &Stage) -> Result<Vec<PolicyCost>, BlogError> {
    let mut costs = Vec::new();
    for (label, container, policy) in policies() {
        let (write, query) = measure_one(stage, container, &policy).await?;
        costs.push(PolicyCost {
            label,
            container,
            policy,
            write,
            query,
        });
    }
    Ok(costs)
}

async fn measure_one(
    stage: &Stage,
    name: &str,
    policy: &Value,
) -> Result<(Measurement, Measurement), BlogError> {
    let (client, data) = (&stage.blog.client, &stage.data);
    let database = format!("dbs/{}", stage.blog.database());
    let link = format!("{database}/colls/{name}");
    client.delete_container(&link).await?;
    client.clear_cached_metadata(&link);
    let definition = json!({
        "id": name,
        "partitionKey": {"paths": ["/userId"], "kind": "Hash", "version": 2},
        "indexingPolicy": policy,
    });
    let throughput = Some(Throughput::Manual(RU_PER_SECOND));
    let unmetered = client.unmetered();
    unmetered
        .create_container(&database, &definition, throughput)
        .await?;
    add_bulk_load(client, &link).await?;

    // Other posts are there first, so that the query has something to pass over.
    let key = data.user(0).id;
    let post = |n: u64| {
        let post = data.fresh_post(n);
        crate::models::post_item(stage.blog.model(), &post, 0, 0)
    };
    let others: Vec<Value> = (1..=POSTS).map(post).collect();
    let meter = Meter::new();
    client
        .execute(&meter, &link, &key, "bulkLoad", &json!([others]))
        .await?;

    let measured = post(0);
    let (meter, started) = (Meter::recording(), Instant::now());
    client.create(&meter, &link, &key, &measured).await?;
    let write = meter.measurement(started.elapsed());
    let (meter, started) = (Meter::recording(), Instant::now());
    let title = measured["title"].as_str().unwrap_or_default();
    let query = Query::new(BY_TITLE).with("@title", title);
    client.query(&meter, &link, &key, &query).await?;
    Ok((write, meter.measurement(started.elapsed())))
}
