//! Every path of the management API, in one table: what it takes, what it gives, and what it does.
//!
//! A request is checked against its row before anything is done, and the OpenAPI description is made from the rows, so
//! neither can differ from what is served.

use crate::admin::{self, Stage};
use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::Shape;
use crate::{
    clock, faults, health, metrics, openapi, operations, partitions, snapshots, status, throughput,
    traffic,
};
use orrery_model::Object;

/// One path and method.
pub(crate) struct Route {
    /// The method.
    pub(crate) method: &'static str,
    /// The path; a segment in braces stands for a parameter.
    pub(crate) path: &'static str,
    /// What it is called in the description.
    pub(crate) name: &'static str,
    /// What it does, in a sentence.
    pub(crate) told: &'static str,
    /// Whether it is answered without a key.
    pub(crate) open: bool,
    /// The query parameters that it takes.
    pub(crate) query: &'static Shape,
    /// The body that it takes.
    pub(crate) body: Option<&'static Shape>,
    /// The status of a good answer, and what it holds.
    pub(crate) gives: (u16, Gives),
    /// What it does.
    pub(crate) run: Run,
}

/// The body of a good answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gives {
    /// Nothing.
    Nothing,
    /// JSON of this shape.
    Json(&'static Shape),
    /// JSON that describes itself.
    Description,
    /// Text.
    Text,
}

/// What a route needs.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// How far the server's life has come; it may not serve yet.
    Always(fn(Stage) -> Result<Answer, Problem>),
    /// A server that serves.
    Serving(fn(&Call) -> Result<Answer, Problem>),
}

impl Run {
    /// Does what the route does.
    pub(crate) fn carry_out(
        self,
        stage: Stage,
        ids: Vec<String>,
        asked: Object,
    ) -> Result<Answer, Problem> {
        match (self, stage) {
            (Run::Always(run), stage) => run(stage),
            (Run::Serving(run), Stage::Serving(parts) | Stage::Draining(parts)) => {
                run(&Call { parts, ids, asked })
            }
            (Run::Serving(_), Stage::Recovering) => Err(health::recovering()),
        }
    }
}

const NO_QUERY: &Shape = &Shape {
    name: "NoQuery",
    members: &[],
};

const fn get(
    path: &'static str,
    name: &'static str,
    told: &'static str,
    gives: Gives,
    run: Run,
) -> Route {
    Route {
        method: "GET",
        path,
        name,
        told,
        open: false,
        query: NO_QUERY,
        body: None,
        gives: (200, gives),
        run,
    }
}

const fn open(
    path: &'static str,
    name: &'static str,
    told: &'static str,
    gives: Gives,
    run: Run,
) -> Route {
    Route {
        open: true,
        ..get(path, name, told, gives, run)
    }
}

const fn create(
    path: &'static str,
    name: &'static str,
    told: &'static str,
    gives: Gives,
    run: Run,
) -> Route {
    Route {
        method: "POST",
        gives: (201, gives),
        ..get(path, name, told, gives, run)
    }
}

const fn delete(path: &'static str, name: &'static str, told: &'static str, run: Run) -> Route {
    Route {
        method: "DELETE",
        gives: (204, Gives::Nothing),
        ..get(path, name, told, Gives::Nothing, run)
    }
}

const fn put(
    path: &'static str,
    name: &'static str,
    told: &'static str,
    body: &'static Shape,
    gives: Gives,
    run: Run,
) -> Route {
    Route {
        method: "PUT",
        body: Some(body),
        ..get(path, name, told, gives, run)
    }
}

/// Work that goes on after the answer.
const fn accept(
    path: &'static str,
    name: &'static str,
    told: &'static str,
    body: &'static Shape,
    run: Run,
) -> Route {
    Route {
        method: "POST",
        body: Some(body),
        gives: (202, OPERATION),
        ..get(path, name, told, OPERATION, run)
    }
}

/// Every route.
pub(crate) static ROUTES: &[Route] = &[
    open(
        "/alive",
        "isAlive",
        "Whether the process answers.",
        HEALTH,
        Run::Always(health::alive),
    ),
    open(
        "/livez",
        "isLive",
        "As /alive.",
        HEALTH,
        Run::Always(health::alive),
    ),
    open(
        "/ready",
        "isReady",
        "Whether requests succeed now; 503 with the reason if not.",
        HEALTH,
        READY,
    ),
    open("/readyz", "isReadyz", "As /ready.", HEALTH, READY),
    open("/healthz", "isHealthy", "As /ready.", HEALTH, READY),
    get(
        "/status",
        "readStatus",
        "What the server is and holds.",
        STATUS,
        Run::Serving(status::read),
    ),
    get(
        "/metrics",
        "readMetrics",
        "Metrics in the text form of Prometheus.",
        Gives::Text,
        METRICS,
    ),
    get(
        "/faults",
        "listFaults",
        "The fault rules, with how often each struck.",
        FAULTS,
        Run::Serving(faults::list),
    ),
    Route {
        body: Some(&faults::RULE),
        ..create(
            "/faults",
            "createFault",
            "Puts a fault rule in force.",
            FAULT,
            Run::Serving(faults::create),
        )
    },
    delete(
        "/faults",
        "deleteFaults",
        "Takes all fault rules out of force.",
        Run::Serving(faults::delete_all),
    ),
    get(
        "/faults/{id}",
        "readFault",
        "A fault rule, with how often it struck.",
        FAULT,
        Run::Serving(faults::read),
    ),
    delete(
        "/faults/{id}",
        "deleteFault",
        "Takes a fault rule out of force.",
        Run::Serving(faults::delete),
    ),
    get(
        "/clock",
        "readClock",
        "The time of the data.",
        CLOCK,
        Run::Serving(clock::read),
    ),
    put(
        "/clock",
        "moveClock",
        "Moves the time of the data on.",
        &clock::OFFSET,
        CLOCK,
        Run::Serving(clock::set),
    ),
    get(
        "/snapshots",
        "listSnapshots",
        "The snapshots, by name.",
        SNAPSHOTS,
        Run::Serving(snapshots::list),
    ),
    get(
        "/snapshots/{name}",
        "readSnapshot",
        "A snapshot.",
        SNAPSHOT,
        Run::Serving(snapshots::read),
    ),
    Route {
        method: "PUT",
        ..get(
            "/snapshots/{name}",
            "takeSnapshot",
            TAKE_TOLD,
            SNAPSHOT,
            Run::Serving(snapshots::take),
        )
    },
    delete(
        "/snapshots/{name}",
        "deleteSnapshot",
        "Deletes a snapshot.",
        Run::Serving(snapshots::delete),
    ),
    Route {
        method: "POST",
        ..get(
            "/snapshots/{name}/restore",
            "restoreSnapshot",
            RESTORE_TOLD,
            SNAPSHOT,
            Run::Serving(snapshots::restore),
        )
    },
    Route {
        method: "POST",
        ..delete(
            "/reset",
            "reset",
            RESET_TOLD,
            Run::Serving(snapshots::reset),
        )
    },
    get(
        "/dbs/{db}/colls/{coll}/partitions",
        "listPartitions",
        PARTITIONS_TOLD,
        PARTITIONS,
        Run::Serving(partitions::list),
    ),
    Route {
        query: &traffic::HEAT_QUERY,
        ..get(
            "/dbs/{db}/colls/{coll}/heatmap",
            "readHeatMap",
            "What was asked of a container, by parts of its hash space and by time.",
            Gives::Json(&traffic::HEAT_MAP),
            Run::Serving(traffic::heat_map),
        )
    },
    Route {
        query: &traffic::KEYS_QUERY,
        ..get(
            "/dbs/{db}/colls/{coll}/top-keys",
            "listTopKeys",
            "The logical partition keys of which most was asked.",
            Gives::Json(&traffic::TOP_KEYS),
            Run::Serving(traffic::top_keys),
        )
    },
    get(
        "/dbs/{db}/colls/{coll}/queries",
        "listQueries",
        "The queries that a container was asked, by their form, the dearest in total first.",
        Gives::Json(&traffic::QUERIES),
        Run::Serving(traffic::queries),
    ),
    accept(
        "/dbs/{db}/colls/{coll}/partitions/{id}/split",
        "splitPartition",
        "Begins to split a physical partition.",
        &operations::SPLIT,
        Run::Serving(operations::split),
    ),
    accept(
        "/dbs/{db}/colls/{coll}/partitions/merge",
        "mergePartitions",
        "Begins to merge physical partitions that are neighbours.",
        &operations::MERGE,
        Run::Serving(operations::merge),
    ),
    get(
        "/operations",
        "listOperations",
        "Splits and merges.",
        OPERATIONS,
        Run::Serving(operations::list),
    ),
    get(
        "/operations/{id}",
        "readOperation",
        "A split or merge.",
        OPERATION,
        Run::Serving(operations::read),
    ),
    Route {
        method: "POST",
        ..put(
            "/operations/{id}",
            "actOnOperation",
            ACT_TOLD,
            &operations::ACTION,
            OPERATION,
            Run::Serving(operations::act),
        )
    },
    get(
        THROUGHPUT,
        "readThroughput",
        THROUGHPUT_TOLD,
        GIVEN,
        Run::Serving(throughput::read),
    ),
    put(
        THROUGHPUT,
        "setThroughput",
        "Provisions RU/s for a container, with the rules and effects of an offer that a client replaces.",
        &throughput::WANTED,
        GIVEN,
        Run::Serving(throughput::set),
    ),
    get(
        DATABASE_THROUGHPUT,
        "readDatabaseThroughput",
        "What is provisioned for a database, to be shared by those of its containers that have nothing of their own.",
        DATABASE_GIVEN,
        Run::Serving(throughput::read_database),
    ),
    put(
        DATABASE_THROUGHPUT,
        "setDatabaseThroughput",
        "Provisions RU/s for a database, with the rules and effects of an offer that a client replaces.",
        &throughput::WANTED,
        DATABASE_GIVEN,
        Run::Serving(throughput::set_database),
    ),
    put(
        "/dbs/{db}/colls/{coll}/throughput/enforcement",
        "enforceThroughput",
        "Decides whether requests beyond the budget of a container are refused.",
        &throughput::ENFORCEMENT,
        GIVEN,
        Run::Serving(throughput::enforce),
    ),
    put(
        "/dbs/{db}/colls/{coll}/throughput/buckets",
        "setThroughputBuckets",
        "Sets the ceilings of a container's throughput buckets.",
        &throughput::BUCKETS,
        GIVEN,
        Run::Serving(throughput::set_buckets),
    ),
    put(
        DISTRIBUTION,
        "distributeThroughput",
        "Gives each physical partition of a container RU/s of its own.",
        &throughput::SHARES,
        GIVEN,
        Run::Serving(throughput::distribute),
    ),
    delete(
        DISTRIBUTION,
        "distributeThroughputEqually",
        "Gives all physical partitions of a container the same RU/s again.",
        Run::Serving(throughput::distribute_equally),
    ),
    get(
        "/openapi.json",
        "readDescription",
        "This description.",
        Gives::Description,
        Run::Always(openapi::read),
    ),
];

const METRICS: Run = Run::Serving(metrics::read);
const FAULT: Gives = Gives::Json(&faults::ARMED);
const FAULTS: Gives = Gives::Json(&faults::LIST);
const CLOCK: Gives = Gives::Json(&clock::SHAPE);
const SNAPSHOT: Gives = Gives::Json(&snapshots::SNAPSHOT);
const SNAPSHOTS: Gives = Gives::Json(&snapshots::LIST);
const TAKE_TOLD: &str =
    "Keeps all that is there under a name; an older snapshot of that name goes.";
const RESTORE_TOLD: &str = "Puts a snapshot in the place of everything there is.";
const RESET_TOLD: &str = "Deletes everything but the snapshots, and brings the real time back.";
const OPERATION: Gives = Gives::Json(&operations::OPERATION);
const OPERATIONS: Gives = Gives::Json(&operations::LIST);
const ACT_TOLD: &str =
    "Takes the next step of a split or merge, all that are left, or gives it up.";
const GIVEN: Gives = Gives::Json(&throughput::SHAPE);
const DATABASE_GIVEN: Gives = Gives::Json(&throughput::DATABASE);
const DATABASE_THROUGHPUT: &str = "/dbs/{db}/throughput";
const THROUGHPUT: &str = "/dbs/{db}/colls/{coll}/throughput";
const THROUGHPUT_TOLD: &str =
    "What a container may spend, what is decided about that, and what its partitions served.";
const DISTRIBUTION: &str = "/dbs/{db}/colls/{coll}/throughput/distribution";
const HEALTH: Gives = Gives::Json(&health::SHAPE);
const PARTITIONS: Gives = Gives::Json(&partitions::LIST);
const PARTITIONS_TOLD: &str = "The physical partitions of a container, in order of their ranges.";
const READY: Run = Run::Always(health::ready);
const STATUS: Gives = Gives::Json(&status::SHAPE);

/// A route and what its path says for the parameters.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) route: &'static Route,
    pub(crate) ids: Vec<String>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Route {
    /// The parameters' values, if the path is this one's.
    fn matches(&self, segments: &[String]) -> Option<Vec<String>> {
        let own: Vec<&str> = self.path.trim_matches('/').split('/').collect();
        if own.len() != segments.len() {
            return None;
        }
        let mut ids = Vec::new();
        for (own, segment) in own.iter().zip(segments) {
            match own.starts_with('{') {
                true if !segment.is_empty() => ids.push(segment.clone()),
                false if own == segment => {}
                _ => return None,
            }
        }
        Some(ids)
    }

    /// The names of the parameters in the path.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path
            .split('/')
            .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// The route of a method and path. HEAD is a GET whose body is left out.
///
/// # Errors
/// 404 for a path that does not exist, 405 for a method that does not exist there, 400 for a broken escape.
pub(crate) fn find(method: &str, path: &str) -> Result<Found, Problem> {
    let method = if method == "HEAD" { "GET" } else { method };
    let segments = path
        .trim_matches('/')
        .split('/')
        .map(decoded)
        .collect::<Result<Vec<_>, _>>()?;
    let there: Vec<Found> = ROUTES
        .iter()
        .filter_map(|route| route.matches(&segments).map(|ids| Found { route, ids }))
        .collect();
    let methods: Vec<&str> = there.iter().map(|found| found.route.method).collect();
    if methods.is_empty() {
        return Err(Problem::not_found(format!(
            "there is no path '{path}'; see /openapi.json for those there are"
        )));
    }
    there
        .into_iter()
        .find(|found| found.route.method == method)
        .ok_or_else(|| {
            let told = format!(
                "'{path}' knows no method {method}, only {}",
                methods.join(", ")
            );
            let (name, value) = admin::allowing(&methods);
            Problem::new(405, "MethodNotAllowed", told).with_header(name, value)
        })
}

/// A segment or query parameter without its escapes.
///
/// # Errors
/// 400 if it is not UTF-8.
pub(crate) fn decoded(text: &str) -> Result<String, Problem> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded
        .map(|text| text.into_owned())
        .map_err(|_| Problem::bad(format!("'{text}' is not percent-encoded UTF-8")))
}

/// A route, as documents and tests look at it.
#[derive(Clone, Copy, Debug)]
pub struct KnownRoute {
    /// The method.
    pub method: &'static str,
    /// The path; a segment in braces stands for a parameter.
    pub path: &'static str,
    /// Whether it is answered without a key.
    pub open: bool,
}

/// Every route of the management API.
pub fn known_routes() -> impl Iterator<Item = KnownRoute> {
    ROUTES.iter().map(|route| KnownRoute {
        method: route.method,
        path: route.path,
        open: route.open,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_and_every_name_is_there_once() {
        for (i, route) in ROUTES.iter().enumerate() {
            let twin = ROUTES[..i]
                .iter()
                .find(|r| r.name == route.name || (r.method, r.path) == (route.method, route.path));
            assert!(twin.is_none(), "{route:?} and {twin:?}");
            assert!(
                find(route.method, route.path).is_ok_and(|found| found.route.name == route.name),
                "{route:?}"
            );
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        assert_eq!(find("GET", "/nowhere").expect_err("no path").status, 404);
        let problem = find("POST", "/status").expect_err("no method");
        assert_eq!(
            (problem.status, problem.header),
            (405, Some(("allow", "GET".into())))
        );
        assert_eq!(find("GET", "/%ff").expect_err("no text").status, 400);
        assert!(find("HEAD", "/status/").is_ok());
    }
}
