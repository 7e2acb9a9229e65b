//! All routes of the management API in one table.
//!
//! A request is checked against its route before the handler runs, and the OpenAPI description is
//! generated from the routes, so the description cannot differ from the checks.

use crate::call::Answer;
use crate::problem::Problem;
use crate::route::Handler::{AnyStage, EachNode, Serving};
use crate::route::{ResponseBody, Route, delete, get, post, put};
use crate::stage::Stage;
use crate::{
    backups, balancing, clock, clusters, faults, feed_consumers, health, language, live, metrics,
    nodes, openapi, operations, partitions, predictions, query_predictions, requests,
    running_queries, search_indexes, snapshots, status, throughput, traffic, verification,
};

const PARTITIONS: &str = "/dbs/{db}/colls/{coll}/partitions";
const DATABASE_THROUGHPUT: &str = "/dbs/{db}/throughput";
const THROUGHPUT: &str = "/dbs/{db}/colls/{coll}/throughput";
const DISTRIBUTION: &str = "/dbs/{db}/colls/{coll}/throughput/distribution";

/// Every route.
pub(crate) static ROUTES: &[Route] = &[
    // Health
    get("/alive", "isAlive", AnyStage(health::alive))
        .summary("Returns 200 while the process answers.")
        .without_key()
        .returns(&health::HEALTH),
    get("/livez", "isLive", AnyStage(health::alive))
        .summary("Same as /alive.")
        .without_key()
        .returns(&health::HEALTH),
    get("/ready", "isReady", AnyStage(health::ready))
        .summary("Returns 200 if requests succeed now, otherwise 503 with the reason.")
        .without_key()
        .returns(&health::HEALTH),
    get("/readyz", "isReadyz", AnyStage(health::ready))
        .summary("Same as /ready.")
        .without_key()
        .returns(&health::HEALTH),
    get("/healthz", "isHealthy", AnyStage(health::ready))
        .summary("Same as /ready.")
        .without_key()
        .returns(&health::HEALTH),
    // Status and metrics
    get("/status", "readStatus", Serving(status::read))
        .summary("Returns the version, the uptime, the size of the data and its damaged blocks.")
        .returns(&status::STATUS),
    get("/metrics", "readMetrics", EachNode(metrics::read))
        .summary("Returns the metrics in the text format of Prometheus.")
        .responds(200, ResponseBody::Text),
    // Live samples and the log of requests
    get("/live", "readLive", EachNode(live::read))
        .summary("Returns requests, charges, latencies and sizes over time.")
        .query(&live::QUERY)
        .returns(&live::LIVE),
    get("/requests", "listRequests", EachNode(requests::list))
        .summary("Lists the last slow, expensive, throttled and failed requests.")
        .query(&requests::QUERY)
        .returns(&requests::LIST),
    get(
        "/requests/settings",
        "readRequestSettings",
        Serving(requests::settings),
    )
    .summary("Returns which requests are recorded.")
    .returns(&requests::SETTINGS),
    put(
        "/requests/settings",
        "setRequestSettings",
        Serving(requests::set),
    )
    .summary("Sets which requests are recorded.")
    .takes(&requests::CHANGE)
    .returns(&requests::SETTINGS),
    // Queries that run
    get(
        "/running-queries",
        "listRunningQueries",
        EachNode(running_queries::list),
    )
    .summary("Lists the queries that run now, the longest first.")
    .returns(&running_queries::LIST),
    delete(
        "/running-queries/{number}",
        "cancelQuery",
        EachNode(running_queries::cancel),
    )
    .summary(
        "Cancels a query that runs: its work ends, and its client gets 403 with sub-status 5901.",
    )
    .returns(&running_queries::QUERY),
    // Fault rules
    get("/faults", "listFaults", Serving(faults::list))
        .summary("Lists the fault rules with their counters.")
        .returns(&faults::LIST),
    post("/faults", "createFault", Serving(faults::create))
        .summary("Adds a fault rule.")
        .takes(&faults::RULE)
        .creates(&faults::ARMED_RULE),
    delete("/faults", "deleteFaults", Serving(faults::delete_all))
        .summary("Removes all fault rules."),
    get("/faults/{id}", "readFault", Serving(faults::read))
        .summary("Returns a fault rule with its counters.")
        .returns(&faults::ARMED_RULE),
    delete("/faults/{id}", "deleteFault", Serving(faults::delete)).summary("Removes a fault rule."),
    // Clock
    get("/clock", "readClock", Serving(clock::read))
        .summary("Returns the time of the data.")
        .returns(&clock::CLOCK),
    put("/clock", "moveClock", Serving(clock::set))
        .summary("Moves the time of the data forward.")
        .takes(&clock::OFFSET)
        .returns(&clock::CLOCK),
    // Snapshots
    get("/snapshots", "listSnapshots", Serving(snapshots::list))
        .summary("Lists the snapshots by name.")
        .returns(&snapshots::LIST),
    get(
        "/snapshots/{name}",
        "readSnapshot",
        Serving(snapshots::read),
    )
    .summary("Returns a snapshot.")
    .returns(&snapshots::SNAPSHOT),
    put(
        "/snapshots/{name}",
        "takeSnapshot",
        Serving(snapshots::take),
    )
    .summary("Saves all data under a name; replaces an older snapshot of that name.")
    .returns(&snapshots::SNAPSHOT),
    delete(
        "/snapshots/{name}",
        "deleteSnapshot",
        Serving(snapshots::delete),
    )
    .summary("Deletes a snapshot."),
    post(
        "/snapshots/{name}/restore",
        "restoreSnapshot",
        Serving(snapshots::restore),
    )
    .summary("Replaces all data by a snapshot.")
    .returns(&snapshots::SNAPSHOT),
    post("/reset", "reset", Serving(snapshots::reset))
        .summary("Deletes all data except the snapshots and resets the clock to the real time."),
    // Verification
    post(
        "/verification",
        "startVerification",
        Serving(verification::start),
    )
    .summary(
        "Starts to read every row and to compare it with what must be there; requests go on \
             meanwhile.",
    )
    .takes(&verification::START)
    .starts(&verification::VERIFICATION),
    get(
        "/verification",
        "readVerification",
        Serving(verification::read),
    )
    .summary("Returns the verification that runs, or the last one, with its findings.")
    .returns(&verification::VERIFICATION),
    delete(
        "/verification",
        "cancelVerification",
        Serving(verification::cancel),
    )
    .summary("Ends the verification that runs.")
    .returns(&verification::VERIFICATION),
    // Backups
    post("/backups", "startBackup", Serving(backups::start))
        .summary("Starts a backup of the data directory; requests go on meanwhile.")
        .takes(&backups::START)
        .starts(&backups::BACKUP),
    get("/backups", "readBackup", Serving(backups::read))
        .summary("Returns the backup that runs, or the last one.")
        .returns(&backups::BACKUP),
    delete("/backups", "cancelBackup", Serving(backups::cancel))
        .summary("Ends the backup that runs.")
        .returns(&backups::BACKUP),
    // Physical partitions and the requests to them
    get(PARTITIONS, "listPartitions", Serving(partitions::list))
        .summary("Lists the physical partitions of a container in order of their EPK ranges.")
        .returns(&partitions::LIST),
    get(
        "/dbs/{db}/colls/{coll}/heatmap",
        "readHeatMap",
        Serving(traffic::heat_map),
    )
    .summary("Returns the load of a container by EPK range and time.")
    .query(&traffic::HEAT_QUERY)
    .returns(&traffic::HEAT_MAP),
    get(
        "/dbs/{db}/colls/{coll}/top-keys",
        "listTopKeys",
        Serving(traffic::top_keys),
    )
    .summary("Lists the logical partition keys with the highest load.")
    .query(&traffic::KEYS_QUERY)
    .returns(&traffic::TOP_KEYS),
    get(
        "/dbs/{db}/colls/{coll}/queries",
        "listQueries",
        Serving(traffic::queries),
    )
    .summary(
        "Lists the queries of a container, grouped by their text without values, in descending \
         order of their total charge.",
    )
    .returns(&traffic::QUERIES),
    // Vector and full-text indexes
    get(
        "/dbs/{db}/colls/{coll}/indexes",
        "listSearchIndexes",
        Serving(search_indexes::list),
    )
    .summary(
        "Lists the vector and full-text indexes of a container with their sizes and the progress \
         of the background work.",
    )
    .returns(&search_indexes::LIST),
    post(
        "/dbs/{db}/colls/{coll}/indexes/recall",
        "measureRecall",
        Serving(search_indexes::recall),
    )
    .summary(
        "Measures how many of the nearest vectors a vector index finds, and the time of queries \
         with and without it, by searches for vectors of the container.",
    )
    .measures()
    .takes(&search_indexes::RECALL_REQUEST)
    .returns(&search_indexes::RECALL),
    // Predictions
    post(
        "/dbs/{db}/colls/{coll}/prediction",
        "predict",
        Serving(predictions::run),
    )
    .summary(
        "Predicts the recorded requests of a container under another partition key, throughput or \
         indexing policy, on copies of its items.",
    )
    .formerly("/dbs/{db}/colls/{coll}/what-if")
    .measures()
    .takes(&predictions::PROPOSAL)
    .returns(&predictions::PREDICTION),
    get(
        "/dbs/{db}/colls/{coll}/prediction/keys",
        "listKeyCandidates",
        Serving(predictions::candidates),
    )
    .summary(
        "Lists the properties in a sample of items that could be the partition key, with the \
         number of their values.",
    )
    .formerly("/dbs/{db}/colls/{coll}/what-if/keys")
    .measures()
    .returns(&predictions::CANDIDATES),
    post(
        "/dbs/{db}/colls/{coll}/prediction/query",
        "predictQuery",
        Serving(query_predictions::run),
    )
    .summary(
        "Measures a query on copies of the items, with the indexing policy as it is and as \
         proposed.",
    )
    .formerly("/dbs/{db}/colls/{coll}/what-if/query")
    .measures()
    .takes(&query_predictions::PROPOSAL)
    .returns(&query_predictions::PREDICTION),
    post(
        "/dbs/{db}/colls/{coll}/prediction/why",
        "explainQuery",
        Serving(query_predictions::why),
    )
    .summary(
        "Measures a query without a charge to the container, and returns the reasons for its \
         charge in words.",
    )
    .formerly("/dbs/{db}/colls/{coll}/what-if/why")
    .measures()
    .takes(&query_predictions::QUERY)
    .returns(&query_predictions::SIDE),
    get(
        "/dbs/{db}/colls/{coll}/feed-consumers",
        "listFeedConsumers",
        Serving(feed_consumers::list),
    )
    .summary("Lists the leases of the consumers of a container's change feed, with their lag.")
    .query(&feed_consumers::QUERY)
    .returns(&feed_consumers::LIST),
    // Splits and merges
    post(
        "/dbs/{db}/colls/{coll}/partitions/{id}/split",
        "splitPartition",
        Serving(operations::split),
    )
    .summary("Starts to split a physical partition.")
    .takes(&operations::SPLIT)
    .starts(&operations::OPERATION),
    post(
        "/dbs/{db}/colls/{coll}/partitions/merge",
        "mergePartitions",
        Serving(operations::merge),
    )
    .summary("Starts to merge physical partitions with adjacent EPK ranges.")
    .takes(&operations::MERGE)
    .starts(&operations::OPERATION),
    get("/operations", "listOperations", Serving(operations::list))
        .summary("Lists the splits and merges.")
        .returns(&operations::LIST),
    get(
        "/operations/{id}",
        "readOperation",
        Serving(operations::read),
    )
    .summary("Returns a split or merge.")
    .returns(&operations::OPERATION),
    post(
        "/operations/{id}",
        "actOnOperation",
        Serving(operations::act),
    )
    .summary("Runs the next step or all remaining steps of a split or merge, or cancels it.")
    .takes(&operations::ACTION)
    .returns(&operations::OPERATION),
    // Clusters
    get("/clusters", "listClusters", Serving(clusters::list))
        .summary("Lists the clusters that hold the data.")
        .returns(&clusters::LIST),
    post(
        "/clusters/{name}/drain",
        "drainCluster",
        Serving(clusters::drain),
    )
    .summary(
        "Starts to move all partitions of a cluster to other clusters; the cluster gets no further \
         ones.",
    )
    .starts(&clusters::CLUSTER),
    delete(
        "/clusters/{name}/drain",
        "endDrainOfCluster",
        Serving(clusters::end_drain),
    )
    .summary("Lets a drained cluster get partitions again.")
    .returns(&clusters::CLUSTER),
    post(
        "/clusters/balance",
        "balanceClusters",
        Serving(balancing::start),
    )
    .summary(
        "Starts to move the partition that makes the clusters more equal in bytes or request \
         units, if there is one.",
    )
    .takes(&balancing::LIMITS)
    .starts(&balancing::BALANCE),
    get(
        "/placements",
        "listPlacements",
        Serving(clusters::placements),
    )
    .summary("Lists the partitions of the store with the clusters that have them.")
    .returns(&clusters::PLACEMENTS),
    post(
        "/dbs/{db}/colls/{coll}/partitions/{id}/move",
        "movePartition",
        Serving(clusters::start_move),
    )
    .summary("Starts to move a physical partition to another cluster.")
    .takes(&clusters::MOVE)
    .starts(&clusters::PLACEMENT),
    // Nodes
    get("/nodes", "listNodes", AnyStage(nodes::list))
        .summary("Lists the live nodes of the fleet.")
        .returns(&nodes::LIST),
    post("/nodes/{name}/lead", "leadByNode", Serving(nodes::lead))
        .summary("Gives the lease of the account to another node, and ends this process.")
        .starts(&nodes::NODE),
    // Throughput
    get(THROUGHPUT, "readThroughput", Serving(throughput::read))
        .summary(
            "Returns the throughput of a container: the provisioned RU/s, the settings of the \
             operator and the usage of each physical partition.",
        )
        .returns(&throughput::CONTAINER),
    put(THROUGHPUT, "setThroughput", Serving(throughput::set))
        .summary(
            "Provisions throughput for a container, with the limits and effects of replacing its \
             offer.",
        )
        .takes(&throughput::PROVISION)
        .returns(&throughput::CONTAINER),
    get(
        DATABASE_THROUGHPUT,
        "readDatabaseThroughput",
        Serving(throughput::read_database),
    )
    .summary(
        "Returns the throughput of a database, which its containers without throughput of their \
         own share.",
    )
    .returns(&throughput::DATABASE),
    put(
        DATABASE_THROUGHPUT,
        "setDatabaseThroughput",
        Serving(throughput::set_database),
    )
    .summary(
        "Provisions throughput for a database, with the limits and effects of replacing its offer.",
    )
    .takes(&throughput::PROVISION)
    .returns(&throughput::DATABASE),
    put(
        "/dbs/{db}/colls/{coll}/throughput/enforcement",
        "enforceThroughput",
        Serving(throughput::enforce),
    )
    .summary("Sets whether requests beyond the throughput of a container are refused.")
    .takes(&throughput::ENFORCEMENT)
    .returns(&throughput::CONTAINER),
    put(
        "/dbs/{db}/colls/{coll}/throughput/buckets",
        "setThroughputBuckets",
        Serving(throughput::set_buckets),
    )
    .summary("Sets the limits of a container's throughput buckets.")
    .takes(&throughput::BUCKETS)
    .returns(&throughput::CONTAINER),
    put(
        DISTRIBUTION,
        "distributeThroughput",
        Serving(throughput::distribute),
    )
    .summary("Sets the RU/s of each physical partition of a container.")
    .takes(&throughput::SHARES)
    .returns(&throughput::CONTAINER),
    delete(
        DISTRIBUTION,
        "distributeThroughputEqually",
        Serving(throughput::distribute_equally),
    )
    .summary("Distributes the RU/s of a container equally over its physical partitions."),
    // The query language
    get("/language", "readLanguage", AnyStage(language::read))
        .summary("Returns the words, clauses and functions of the query language, for editors.")
        .returns(&language::LANGUAGE),
    // The description of all of these
    get(
        "/openapi.json",
        "readDescription",
        AnyStage(read_description),
    )
    .summary("Returns this description.")
    .responds(200, ResponseBody::OpenApi),
];

/// Returns the OpenAPI description of [`ROUTES`].
fn read_description(_: Stage) -> Result<Answer, Problem> {
    Answer::json(200, openapi::document(ROUTES))
}

/// A route that a request names.
#[derive(Debug)]
pub(crate) struct RouteMatch {
    /// The route.
    pub(crate) route: &'static Route,
    /// Values of the path parameters, in the order of the path.
    pub(crate) path_parameters: Vec<String>,
}

/// Finds the route of a method and path. HEAD is treated as GET.
///
/// # Errors
/// 404 if no route has the path, 405 if the path has no such method, 400 if the path holds an
/// invalid escape sequence.
pub(crate) fn find(method: &str, path: &str) -> Result<RouteMatch, Problem> {
    let method = if method == "HEAD" { "GET" } else { method };
    let mut segments = Vec::new();
    for segment in path.trim_matches('/').split('/') {
        segments.push(percent_decode(segment)?);
    }

    // The methods of the path are collected for the 405 response.
    let mut methods = Vec::new();
    for route in ROUTES {
        let Some(path_parameters) = route.match_path(&segments) else {
            continue;
        };
        if route.method == method {
            return Ok(RouteMatch {
                route,
                path_parameters,
            });
        }
        methods.push(route.method);
    }

    if methods.is_empty() {
        return Err(Problem::not_found(format!(
            "there is no path '{path}'; /openapi.json lists all paths"
        )));
    }
    let methods = methods.join(", ");
    let message = format!("the path '{path}' has no method {method}, only {methods}");
    Err(Problem::new(405, "MethodNotAllowed", message).with_header("allow", methods))
}

/// Decodes the escape sequences of a path segment or query parameter.
///
/// # Errors
/// 400 if the decoded bytes are not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Result<String, Problem> {
    match percent_encoding::percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(Problem::bad_request(format!(
            "'{text}' is not percent-encoded UTF-8"
        ))),
    }
}

/// A route, for documents and tests.
#[derive(Clone, Copy, Debug)]
pub struct KnownRoute {
    /// HTTP method.
    pub method: &'static str,
    /// Path; a segment in braces is a parameter.
    pub path: &'static str,
    /// True if requests need no admin key.
    pub is_public: bool,
}

/// Returns every route of the management API.
pub fn known_routes() -> impl Iterator<Item = KnownRoute> {
    ROUTES.iter().map(|route| KnownRoute {
        method: route.method,
        path: route.path,
        is_public: route.is_public,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::Json;

    #[test]
    fn every_route_and_every_operation_id_is_unique_and_every_route_is_found() {
        for (index, route) in ROUTES.iter().enumerate() {
            let duplicate = ROUTES[..index].iter().find(|other| {
                other.operation_id == route.operation_id
                    || (other.method, other.path) == (route.method, route.path)
            });
            assert!(duplicate.is_none(), "{route:?} and {duplicate:?}");
            let found = find(route.method, route.path).expect("the route exists");
            assert_eq!(found.route.operation_id, route.operation_id, "{route:?}");
            assert!(!route.summary.is_empty(), "{route:?}");
        }
    }

    /// The description that the console's client is generated from. `ORRERY_BLESS=1` writes it;
    /// `node console/generate-api.mjs` in `web/` then writes the client.
    #[test]
    fn the_consoles_client_has_the_description_of_these_routes() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../web/console/api/openapi.json"
        );
        let description = Json::from(openapi::document(ROUTES));
        if std::env::var_os("ORRERY_BLESS").is_some() {
            std::fs::write(path, format!("{description}\n")).expect("the file can be written");
        }
        let text = std::fs::read(path).expect("the file is committed");
        let committed = orrery_model::json::parse(&text).expect("the file is JSON");
        // The generator breaks the file into lines, so that the values are compared, not the text.
        assert!(
            committed == description,
            "web/console/api/openapi.json differs from the routes: write it with ORRERY_BLESS=1"
        );
    }

    #[test]
    fn a_former_path_finds_its_route_and_is_not_described() {
        let described = openapi::document(ROUTES);
        let paths = described.get("paths").expect("paths");
        for route in ROUTES {
            let Some(former) = route.former_path else {
                continue;
            };
            let found = find(route.method, former).expect("the route exists");
            assert_eq!(found.route.operation_id, route.operation_id, "{route:?}");
            assert!(paths.get(former).is_none(), "{former}");
        }
        let found = find("POST", "/dbs/a/colls/b/what-if").expect("the route exists");
        assert_eq!(found.route.operation_id, "predict");
        assert_eq!(found.path_parameters, ["a", "b"]);
    }

    #[test]
    fn unknown_paths_and_methods_are_refused() {
        assert_eq!(find("GET", "/nowhere").expect_err("no path").status, 404);
        let problem = find("POST", "/status").expect_err("no method");
        assert_eq!(
            (problem.status, problem.header),
            (405, Some(("allow", "GET".into())))
        );
        assert_eq!(find("GET", "/%ff").expect_err("no text").status, 400);
        assert!(find("HEAD", "/status/").is_ok());
    }
    #[test]
    fn every_route_is_described_and_every_reference_resolves() {
        let document = Json::Object(openapi::document(ROUTES));
        for route in ROUTES {
            let operation = document
                .get("paths")
                .and_then(|paths| paths.get(route.path))
                .and_then(|methods| methods.get(&route.method.to_lowercase()))
                .expect("the route is described");
            assert_eq!(
                operation.get("operationId").and_then(Json::as_str),
                Some(route.operation_id)
            );
        }
        let text = document.to_text();
        let schemas = document
            .get("components")
            .and_then(|components| components.get("schemas"))
            .expect("schemas");
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().expect("a name");
            assert!(schemas.get(name).is_some(), "{name}");
        }
    }
}
