//! Predictions of a container under another partition key, against the truth: a container with the
//! other key that gets the same items and the same requests.
//!
//! Each case runs requests on a container, predicts the container with another key from what was
//! recorded, then makes that container and runs the same requests there. The items are those of the
//! blog's data set and of the telemetry example.

use orrery_blog::dataset::Dataset;
use orrery_engine::request::*;
use orrery_engine::{Cancel, Container, Engine, EngineOptions};
use orrery_model::partition_key::PartitionKey;
use orrery_model::world::{SeededWorld, split_mix};
use orrery_model::{Json, Object, object};
use orrery_prediction::{
    Failure, Prediction, Proposal, QueryToMeasure, explain, predict, predict_query,
};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::MemoryStore;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Milliseconds since 1970 at which every case begins.
const START_MS: u64 = 1_767_225_600_000;
/// Requests of a case.
const REQUESTS: u64 = 1_500;
/// Physical partitions of every container.
const PARTITIONS: u32 = 4;

/// Charges and counts by class: the name of a kind, or the text of a query on the first container.
type Charges = BTreeMap<String, (f64, u64)>;

/// A container with one of the keys.
struct TestContainer {
    store: Arc<MemoryStore>,
    engine: Engine,
    world: Arc<SeededWorld>,
    container: Arc<Container>,
}

/// The requests of an application, which knows its items.
struct Application<'a> {
    place: &'a TestContainer,
    items: Vec<Object>,
    charges: Charges,
    drawn: u64,
}

/// A query of an application, as it is written for each of two keys.
struct Written {
    /// The text on the first container without its literals, by which its charges are known.
    form: &'static str,
    /// The text on the first container.
    first: &'static str,
    /// True if the request on the first container names the partition key.
    first_names_key: bool,
    /// The text on the second container.
    second: &'static str,
    /// The components of the partition key that the request on the second container names.
    second_names: usize,
    /// The parameters, each with the property of an item that gives its value.
    parameters: &'static [(&'static str, &'static str)],
}

/// Two keys and the requests that are run with both.
struct Case {
    name: &'static str,
    first: &'static [&'static str],
    second: &'static [&'static str],
    items: Vec<Object>,
    queries: Vec<Written>,
    /// The property that a replace changes.
    replaced: &'static str,
    /// A number that a patch increments.
    patched: &'static str,
}

fn open(store: &Arc<MemoryStore>, world: &Arc<SeededWorld>) -> Engine {
    let command = HostCommand {
        program: "no-such-program".into(),
        arguments: Vec::new(),
    };
    let options = EngineOptions::new(PoolOptions::new(command));
    Engine::open(Arc::clone(store) as _, options, Arc::clone(world) as _).expect("it opens")
}

fn place(key: &[&str]) -> TestContainer {
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let store = Arc::new(MemoryStore::new());
    let engine = open(&store, &world);
    let created = engine.create_database(&object! { "id" => "db" }, None);
    created.result.expect("a database");
    let database = engine.database(Id::Name("db")).expect("the database");
    let body = object! { "id" => "items", "partitionKey" => definition(key) };
    let throughput = Throughput::Manual(PARTITIONS * 6_000);
    let created = engine.create_container(&database, &body, Some(throughput));
    created.result.expect("a container");
    TestContainer {
        container: container(&engine),
        store,
        engine,
        world,
    }
}

fn container(engine: &Engine) -> Arc<Container> {
    let found = engine.container(Id::Name("db"), Id::Name("items"));
    found.expect("the container")
}

impl TestContainer {
    /// Opens the engine again, so that recorded traffic begins anew.
    fn forget_traffic(&mut self) {
        self.engine = open(&self.store, &self.world);
        self.container = container(&self.engine);
    }
}

fn definition(key: &[&str]) -> Json {
    let paths: Vec<Json> = key.iter().map(|path| Json::from(*path)).collect();
    let kind = if key.len() == 1 { "Hash" } else { "MultiHash" };
    object! { "paths" => paths, "kind" => kind, "version" => 2 }.into()
}

impl Application<'_> {
    /// Returns a random number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.drawn += 1;
        (split_mix(self.drawn) % limit as u64) as usize
    }

    /// Returns the index of an item; early items are much more likely than late ones.
    fn popular(&mut self) -> usize {
        self.drawn += 1;
        let part = split_mix(self.drawn) as f64 / u64::MAX as f64;
        (part.powi(3) * self.items.len() as f64) as usize
    }

    fn add(&mut self, class: &str, charge: Charge) {
        let (ru, count) = self.charges.entry(class.to_owned()).or_default();
        *ru += charge.as_ru();
        *count += 1;
    }

    fn key_of(&self, at: usize) -> PartitionKey {
        self.place
            .container
            .partition_key()
            .extract(&self.items[at])
            .expect("a key")
    }

    fn id_of(&self, at: usize) -> String {
        self.items[at]
            .get("id")
            .and_then(Json::as_str)
            .expect("an id")
            .to_owned()
    }

    fn write(&mut self, class: &str, operation: &WriteOperation, key: PartitionKey, body: &str) {
        let options = WriteOptions {
            partition_key: Some(key),
            ..WriteOptions::default()
        };
        let place = self.place;
        let written =
            place
                .engine
                .write_item(&place.container, operation, Some(body.as_bytes()), &options);
        let written = written.wait();
        written
            .result
            .unwrap_or_else(|error| panic!("{class}: {error:?}"));
        self.add(class, written.charge);
    }

    /// Runs all requests of a case. `is_second` tells on which of the containers.
    fn run(&mut self, case: &Case, is_second: bool) {
        for n in 0..REQUESTS {
            self.place.world.advance_ms(20);
            match n % 10 {
                0..3 => self.read(),
                3 => self.create(n),
                4 => self.replace(case.replaced, n),
                5 => self.patch(case.patched),
                _ => {
                    let query = &case.queries[self.below(case.queries.len())];
                    self.query(query, is_second);
                }
            }
        }
    }

    fn read(&mut self) {
        let at = self.popular();
        let (key, id) = (self.key_of(at), self.id_of(at));
        let place = self.place;
        let read = place
            .engine
            .read_item(&place.container, &key, &id[..], None, None)
            .wait();
        read.result.expect("the item exists");
        self.add("pointRead", read.charge);
    }

    fn create(&mut self, n: u64) {
        let at = self.popular();
        let mut item = self.items[at].clone();
        item.set("id", format!("new-{n}"));
        self.items.push(item);
        let at = self.items.len() - 1;
        let text = Json::Object(self.items[at].clone()).to_text();
        let key = self.key_of(at);
        self.write("create", &WriteOperation::Create, key, &text);
    }

    fn replace(&mut self, property: &str, n: u64) {
        let at = self.popular();
        let value = match self.items[at].get(property) {
            Some(Json::String(text)) => {
                let mut text = text.clone();
                text.pop();
                Json::from(format!("{text}{}", n % 10))
            }
            _ => Json::from(n),
        };
        self.items[at].set(property, value);
        let text = Json::Object(self.items[at].clone()).to_text();
        let (key, id) = (self.key_of(at), self.id_of(at));
        self.write("replace", &WriteOperation::Replace(id), key, &text);
    }

    fn patch(&mut self, property: &str) {
        let at = self.popular();
        let patch = format!(r#"{{"operations":[{{"op":"incr","path":"/{property}","value":1}}]}}"#);
        let before = self.items[at]
            .get(property)
            .and_then(Json::as_i64)
            .unwrap_or(0);
        self.items[at].set(property, before + 1);
        let (key, id) = (self.key_of(at), self.id_of(at));
        self.write("patch", &WriteOperation::Patch(id), key, &patch);
    }

    fn query(&mut self, query: &Written, is_second: bool) {
        let at = self.popular();
        let mut parameters = Vec::new();
        for (name, property) in query.parameters {
            let value = self.items[at].get(property).expect("a value").clone();
            parameters.push(((*name).to_owned(), value));
        }
        let components = match (is_second, query.first_names_key) {
            (true, _) => query.second_names,
            (false, names_key) => usize::from(names_key),
        };
        let scope = match components {
            0 => Scope::Everything,
            count => {
                let key = self.key_of(at);
                Scope::Key(PartitionKey::new(key.components()[..count].to_vec()))
            }
        };
        let text = if is_second { query.second } else { query.first };
        let mut charge = Charge(0);
        let mut page = PageRequest::default();
        let place = self.place;
        loop {
            let request = QueryRequest {
                cross_partition: true,
                ..QueryRequest::of(text, parameters.clone(), page)
            };
            let outcome = place.engine.query(&place.container, &scope, &request, None);
            charge.0 += outcome.charge.0;
            let answer = outcome
                .result
                .unwrap_or_else(|error| panic!("{text}: {error:?}"));
            match answer.page.continuation {
                None => break,
                continuation => {
                    page = PageRequest {
                        continuation,
                        ..PageRequest::default()
                    }
                }
            }
        }
        self.add(query.form, charge);
    }
}

/// Creates the items of a case.
fn load(place: &TestContainer, items: &[Object]) {
    for item in items {
        let text = Json::Object(item.clone()).to_text();
        let options = WriteOptions::default();
        let operation = WriteOperation::Create;
        let engine = &place.engine;
        let written = engine.write_item(
            &place.container,
            &operation,
            Some(text.as_bytes()),
            &options,
        );
        written.wait().result.expect("the item is created");
    }
}

/// Returns the charges of each physical partition so far.
fn charged(place: &TestContainer) -> Vec<f64> {
    let throughput = place.engine.throughput_of(&place.container);
    let partitions = throughput.partitions.iter();
    partitions
        .map(|partition| partition.charged.as_ru())
        .collect()
}

/// Runs the requests of a case with a key. Returns the charges, and the share of the busiest
/// partition.
fn truth(place: &mut TestContainer, case: &Case, is_second: bool) -> (Charges, f64) {
    load(place, &case.items);
    place.forget_traffic();
    let mut application = Application {
        place,
        items: case.items.clone(),
        charges: Charges::new(),
        drawn: 0,
    };
    application.run(case, is_second);
    let charges = application.charges;
    let spent = charged(place);
    let hottest = spent.iter().copied().fold(0.0, f64::max);
    (charges, hottest / spent.iter().sum::<f64>())
}

/// The deviations of a prediction.
struct Deviations {
    table: String,
    /// The largest deviation of a class, as a part of the truth.
    class: f64,
    /// The deviation of the sum.
    total: f64,
    /// The deviation of the busiest partition's share, in points of a hundred.
    hottest: f64,
}

fn compare(case: &Case, prediction: &Prediction, truth: &Charges, hottest: f64) -> Deviations {
    let mut table = String::new();
    let mut class_most = 0.0;
    let (mut predicted_sum, mut true_sum) = (0.0, 0.0);
    for (name, (ru, count)) in truth {
        let class = prediction
            .classes
            .iter()
            .find(|class| match class.text.is_empty() {
                true => class.kind.name() == name,
                false => class.text == *name,
            });
        let class = class.unwrap_or_else(|| panic!("{}: no class {name}", case.name));
        let true_mean = ru / *count as f64;
        let off = class.predicted_ru / true_mean - 1.0;
        class_most = f64::max(class_most, off.abs());
        predicted_sum += class.predicted_ru * class.count;
        true_sum += ru;
        let _ = writeln!(
            table,
            "  {:<70.70} {count:>5} {:>9.2} {:>9.2} {true_mean:>9.2} {:>+6.1} %",
            name.replace('\n', " "),
            class.recorded_ru.unwrap_or_default(),
            class.predicted_ru,
            off * 100.0
        );
    }
    let total = predicted_sum / true_sum - 1.0;
    let points = (prediction.proposed.hottest_share() - hottest) * 100.0;
    let _ = writeln!(
        table,
        "  {:<70} {:>5} {:>9.0} {predicted_sum:>9.0} {true_sum:>9.0} {:>+6.1} %",
        "all requests",
        "",
        prediction.current.ru,
        total * 100.0
    );
    let _ = writeln!(
        table,
        "  {:<70} {:>5} {:>8.1}% {:>8.1}% {:>8.1}% {points:>+6.1} points",
        "busiest physical partition",
        "",
        prediction.current.hottest_share() * 100.0,
        prediction.proposed.hottest_share() * 100.0,
        hottest * 100.0
    );
    Deviations {
        table,
        class: class_most,
        total: total.abs(),
        hottest: points.abs(),
    }
}

/// Predicts the second key of a case and compares with the truth.
fn judge(case: &Case) -> Deviations {
    let mut first = place(case.first);
    truth(&mut first, case, false);
    let proposal = Proposal {
        partition_key: Some(definition(case.second)),
        physical_partitions: Some(PARTITIONS),
        uses_recorded: true,
        ..Proposal::default()
    };
    let prediction = predict(
        &first.engine,
        &first.container,
        &proposal,
        &Cancel::default(),
    )
    .expect("a prediction");
    let mut second = place(case.second);
    let (charges, hottest) = truth(&mut second, case, true);
    let mut deviations = compare(case, &prediction, &charges, hottest);
    for sentence in &prediction.words {
        let _ = writeln!(deviations.table, "  - {sentence}");
    }
    deviations
}

const POSTS_OF_USER: &str = "SELECT * FROM c WHERE c.userId = @userId AND c.type = 'post'";
const POSTS_OF_USER_FORM: &str = "SELECT * FROM c WHERE c.userId = @userId AND c.type = ?";
const COMMENTS_OF_POST: &str = "SELECT * FROM c WHERE c.postId = @postId AND c.type = 'comment'";
const COMMENTS_OF_POST_FORM: &str = "SELECT * FROM c WHERE c.postId = @postId AND c.type = ?";
const FEED: &str = "SELECT TOP 20 * FROM c WHERE c.type = 'post' ORDER BY c.creationDate DESC";
const FEED_FORM: &str = "SELECT TOP ? * FROM c WHERE c.type = ? ORDER BY c.creationDate DESC";
const NEWEST: &str = "SELECT TOP 5 * FROM c ORDER BY c.creationDate DESC";
const NEWEST_FORM: &str = "SELECT TOP ? * FROM c ORDER BY c.creationDate DESC";

/// A query that names the partition key on neither container.
const fn unnamed(
    form: &'static str,
    text: &'static str,
    parameters: &'static [(&'static str, &'static str)],
) -> Written {
    Written {
        form,
        first: text,
        first_names_key: false,
        second: text,
        second_names: 0,
        parameters,
    }
}

const USER: &[(&str, &str)] = &[("@userId", "userId")];
const POST: &[(&str, &str)] = &[("@postId", "postId")];

fn cases() -> Vec<Case> {
    let mut cases = blog_cases();
    cases.extend(telemetry_cases());
    cases
}

fn blog_cases() -> Vec<Case> {
    vec![
        Case {
            name: "blog, /id to /userId",
            first: &["/id"],
            second: &["/userId"],
            items: blog(),
            queries: vec![
                unnamed(POSTS_OF_USER_FORM, POSTS_OF_USER, USER),
                unnamed(COMMENTS_OF_POST_FORM, COMMENTS_OF_POST, POST),
                unnamed(FEED_FORM, FEED, &[]),
            ],
            replaced: "content",
            patched: "commentCount",
        },
        Case {
            name: "blog, /userId to /postId",
            first: &["/userId"],
            second: &["/postId"],
            items: blog(),
            queries: vec![
                Written {
                    first_names_key: true,
                    ..unnamed(POSTS_OF_USER_FORM, POSTS_OF_USER, USER)
                },
                unnamed(COMMENTS_OF_POST_FORM, COMMENTS_OF_POST, POST),
                Written {
                    first_names_key: true,
                    second: "SELECT TOP 5 * FROM c WHERE c.userId = @userId \
                             ORDER BY c.creationDate DESC",
                    ..unnamed(NEWEST_FORM, NEWEST, USER)
                },
            ],
            replaced: "content",
            patched: "commentCount",
        },
        Case {
            name: "blog, /postId to /userId",
            first: &["/postId"],
            second: &["/userId"],
            items: blog(),
            queries: vec![
                unnamed(POSTS_OF_USER_FORM, POSTS_OF_USER, USER),
                Written {
                    first_names_key: true,
                    ..unnamed(COMMENTS_OF_POST_FORM, COMMENTS_OF_POST, POST)
                },
                unnamed(FEED_FORM, FEED, &[]),
            ],
            replaced: "content",
            patched: "commentCount",
        },
    ]
}

fn telemetry_cases() -> Vec<Case> {
    vec![
        Case {
            name: "telemetry, /deviceId to /date",
            first: &["/deviceId"],
            second: &["/date"],
            items: telemetry(),
            queries: telemetry_by_date(),
            replaced: "metricValue",
            patched: "corrections",
        },
        Case {
            name: "telemetry, /deviceId to /deviceId and /date",
            first: &["/deviceId"],
            second: &["/deviceId", "/date"],
            items: telemetry(),
            queries: telemetry_by_both(),
            replaced: "metricValue",
            patched: "corrections",
        },
    ]
}

const OF_DAY: &str = "SELECT * FROM c WHERE c.deviceId = @device AND c.date = @date";
const OF_DAY_VALUES: &[(&str, &str)] = &[("@device", "deviceId"), ("@date", "date")];
const LAST: &str = "SELECT TOP 5 * FROM c WHERE c.deviceId = @device ORDER BY c.readingTime DESC";
const LAST_FORM: &str =
    "SELECT TOP ? * FROM c WHERE c.deviceId = @device ORDER BY c.readingTime DESC";
const DEVICE: &[(&str, &str)] = &[("@device", "deviceId")];
const ALL_OF_DAY: &str = "SELECT * FROM c WHERE c.date = @date AND c.metricType = @metric";
const ALL_OF_DAY_VALUES: &[(&str, &str)] = &[("@date", "date"), ("@metric", "metricType")];

fn telemetry_by_date() -> Vec<Written> {
    vec![
        Written {
            first_names_key: true,
            second_names: 1,
            ..unnamed(OF_DAY, OF_DAY, OF_DAY_VALUES)
        },
        Written {
            first_names_key: true,
            ..unnamed(LAST_FORM, LAST, DEVICE)
        },
        unnamed(ALL_OF_DAY, ALL_OF_DAY, ALL_OF_DAY_VALUES),
    ]
}

fn telemetry_by_both() -> Vec<Written> {
    vec![
        Written {
            first_names_key: true,
            second_names: 2,
            ..unnamed(OF_DAY, OF_DAY, OF_DAY_VALUES)
        },
        Written {
            first_names_key: true,
            second_names: 1,
            ..unnamed(LAST_FORM, LAST, DEVICE)
        },
        unnamed(ALL_OF_DAY, ALL_OF_DAY, ALL_OF_DAY_VALUES),
    ]
}

/// Returns posts, comments and likes of a small blog.
fn blog() -> Vec<Object> {
    let dataset = Dataset::new(7, 0.0002).expect("a scale");
    let mut items = Vec::new();
    for k in (0..dataset.posts()).step_by(4) {
        let post = dataset.post(k);
        items.push(object! {
            "id" => post.id.as_str(), "type" => "post", "postId" => post.id.as_str(),
            "userId" => post.user.id.as_str(), "userUsername" => post.user.username.as_str(),
            "title" => post.title, "content" => post.content, "commentCount" => 0, "likeCount" => 0,
            "creationDate" => post.created,
        });
        for comment in dataset.comments(k).into_iter().take(6) {
            items.push(object! {
                "id" => comment.id, "type" => "comment", "postId" => comment.post_id,
                "userId" => comment.user.id, "userUsername" => comment.user.username,
                "content" => comment.content, "commentCount" => 0,
                "creationDate" => comment.created,
            });
        }
        for like in dataset.likes(k).into_iter().take(2) {
            items.push(object! {
                "id" => like.id, "type" => "like", "postId" => like.post_id,
                "userId" => like.user.id, "userUsername" => like.user.username,
                "content" => "+1", "commentCount" => 0, "creationDate" => like.created,
            });
        }
    }
    items
}

/// Returns readings of devices, as the telemetry example makes them.
fn telemetry() -> Vec<Object> {
    const METRICS: [(&str, &str); 4] = [
        ("Temperature", "Fahrenheit"),
        ("Humidity", "Percent"),
        ("Pressure", "Hectopascal"),
        ("Voltage", "Volt"),
    ];
    let mut items = Vec::new();
    for number in 0..24_usize {
        for device in 1..=60_usize {
            let (day, quarter) = (number / 4, number % 4);
            let (metric, unit) = METRICS[(number + day) % 4];
            let value = (device * 7_919 + number * 104_729) % 600 + 600;
            items.push(object! {
                "id" => format!("XMS-{device:04}-{number:05}"),
                "deviceId" => format!("XMS-{device:04}"),
                "readingTime" => format!("2016-02-{:02}T{:02}:00:00Z", day + 1, quarter * 6),
                "date" => format!("2016-02-{:02}", day + 1),
                "metricType" => metric,
                "unit" => unit,
                "metricValue" => value as f64 / 10.0,
                "corrections" => 0,
            });
        }
    }
    items
}

/// Prints the table of a case. Returns the deviations.
#[expect(clippy::print_stdout, reason = "the table is the result")]
fn check(case: &Case) -> Deviations {
    let deviations = judge(case);
    println!(
        "{}\n  {:<70} {:>5} {:>9} {:>9} {:>9}",
        case.name, "RU of", "count", "recorded", "predicted", "true"
    );
    println!("{}", deviations.table);
    deviations
}

#[test]
fn five_pairs_of_keys_are_predicted_within_a_tenth_and_five_points() {
    let cases = cases();
    let all: Vec<Deviations> = cases.iter().map(check).collect();
    for (case, deviations) in cases.iter().zip(all) {
        let name = case.name;
        assert!(deviations.total <= 0.1, "{name}: the sum is wrong");
        assert!(deviations.class <= 0.1, "{name}: a class is wrong");
        assert!(
            deviations.hottest <= 5.0,
            "{name}: the busiest partition is wrong"
        );
    }
}

/// Returns a container with recorded requests, and the proposal of another key.
fn used_container() -> (TestContainer, Proposal) {
    let case = &cases()[2];
    let mut first = place(case.first);
    truth(&mut first, case, false);
    let proposal = Proposal {
        partition_key: Some(definition(case.second)),
        physical_partitions: Some(PARTITIONS),
        uses_recorded: true,
        ..Proposal::default()
    };
    (first, proposal)
}

#[test]
fn a_prediction_leaves_no_trace_in_the_container_and_is_repeatable() {
    let (place, proposal) = used_container();
    let TestContainer {
        engine, container, ..
    } = &place;
    let state = || {
        let inventory = engine.partition_inventory(container).expect("counters");
        let heat = engine.heat_map(container, 0, u64::MAX);
        format!(
            "{inventory:?} {heat:?} {:?}",
            engine.recorded_traffic(container)
        )
    };
    let before = state();
    let predictions = [0, 1]
        .map(|_| predict(engine, container, &proposal, &Cancel::default()).expect("a prediction"));
    assert_eq!(state(), before);
    let [one, other] = predictions.map(|prediction| format!("{prediction:?}"));
    assert_eq!(one, other);
    assert_eq!(engine.query_memory().used(), 0);
}

#[test]
fn one_prediction_runs_at_a_time_and_a_wrong_proposal_is_refused() {
    let (place, proposal) = used_container();
    let TestContainer {
        engine, container, ..
    } = &place;
    let turn = engine.begin_prediction().expect("no prediction runs");
    let refused =
        predict(engine, container, &proposal, &Cancel::default()).expect_err("one runs already");
    assert!(matches!(refused, Failure::Busy), "{refused}");
    drop(turn);
    let wrong = Proposal {
        partition_key: Some(object! { "paths" => vec![Json::from("userId")] }.into()),
        ..proposal
    };
    let refused = predict(engine, container, &wrong, &Cancel::default()).expect_err("no path");
    assert!(
        matches!(&refused, Failure::Engine(error) if error.status() == 400),
        "{refused}"
    );
}

#[test]
fn a_sample_predicts_the_charge_within_a_tenth() {
    let (place, proposal) = used_container();
    let whole = predict(
        &place.engine,
        &place.container,
        &proposal,
        &Cancel::default(),
    )
    .expect("a prediction");
    let part = Proposal {
        sample_items: Some(whole.sample.items / 3),
        ..proposal
    };
    let part =
        predict(&place.engine, &place.container, &part, &Cancel::default()).expect("a prediction");
    assert!(!part.sample.is_complete() && whole.sample.is_complete());
    let off = part.proposed.ru / whole.proposed.ru - 1.0;
    assert!(off.abs() < 0.1, "{off}");
}

#[test]
fn a_query_is_measured_with_another_policy_before_it_is_applied() {
    let (place, _) = used_container();
    let TestContainer {
        engine, container, ..
    } = &place;
    let user = blog()[0].get("userId").expect("a user").clone();
    let query = QueryToMeasure {
        text: "SELECT TOP 50 c.id FROM c WHERE c.userId = @user ORDER BY c.creationDate DESC"
            .into(),
        parameters: vec![("@user".to_owned(), user)],
        pages: 1,
        ..QueryToMeasure::default()
    };
    let policy = r#"{"compositeIndexes": [[
        {"path": "/userId", "order": "ascending"},
        {"path": "/creationDate", "order": "descending"}]]}"#;
    let policy = orrery_model::json::parse(policy.as_bytes()).expect("JSON");
    let prediction = predict_query(engine, container, &query, &policy, None, &Cancel::default())
        .expect("a prediction");
    assert_eq!((prediction.now.rows, prediction.proposed.rows), (50, 50));
    let (now, proposed) = (prediction.now.charge, prediction.proposed.charge);
    assert!(proposed <= now, "{proposed} after {now}");
    assert!(prediction.proposed.index_bytes > prediction.now.index_bytes);

    // An order by two paths is refused without a composite index.
    let two = QueryToMeasure {
        text: "SELECT TOP 5 * FROM c ORDER BY c.userId, c.creationDate DESC".into(),
        ..query.clone()
    };
    let prediction = predict_query(engine, container, &two, &policy, None, &Cancel::default())
        .expect("a prediction");
    assert!(prediction.now.error.is_some() && prediction.proposed.error.is_none());
    assert_eq!(prediction.proposed.rows, 5);

    // The reasons add up to the charge, and one of them proposes the composite index.
    let query = QueryToMeasure {
        text: "SELECT TOP 5 * FROM c WHERE c.type = 'like' ORDER BY c.creationDate DESC".into(),
        ..query
    };
    let side = explain(engine, container, &query, &Cancel::default()).expect("reasons");
    let sum: f64 = side.why.iter().map(|reason| reason.ru).sum();
    assert!((sum - side.charge.as_ru()).abs() < 0.05, "{side:?}");
    let mut remedies = side.why.iter().filter_map(|reason| reason.remedy.as_ref());
    assert!(
        remedies.any(|remedy| !remedy.composite_indexes.is_empty()),
        "{:?}",
        side.why
    );
}
