use super::*;
use crate::grants::messages::Granted;
use crate::grants::recaller::Recaller;
use crate::roster::ToldNodes;
use crate::{Moment, NodeFacts};
use orrery_engine::EngineOptions;
use orrery_engine::request::{Id, Throughput};
use orrery_gateway::LogFormat;
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_model::world::SeededWorld;
use orrery_placement::NamedCluster;
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::MemoryStore;
use orrery_test_wait::wait_for;
use std::io::{self, Write};

const START_MS: u64 = 1_767_225_600_000;
const PROCESS: u64 = 7;
/// No node listens there.
const ADDRESS: &str = "http://127.0.0.1:9";

/// A log that the test reads.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn count(&self, part: &str) -> usize {
        String::from_utf8_lossy(&lock(&self.0))
            .matches(part)
            .count()
    }
}

/// The leaseholder 'a', with a container of two partitions in memory.
struct Bench {
    world: Arc<SeededWorld>,
    members: Arc<Members>,
    grantor: Arc<Grantor>,
    /// Keeps the partitions.
    _engine: Arc<Engine>,
    lines: Lines,
    polls: u64,
}

impl Bench {
    fn new() -> Bench {
        let world = Arc::new(SeededWorld::new(START_MS, 1));
        let lines = Lines::default();
        let members = Arc::new(Members::new(
            facts("a", "http://127.0.0.1:8"),
            world.clone(),
        ));
        let placed = PlacedStore::open(vec![NamedCluster {
            name: "first".to_owned(),
            store: Arc::new(MemoryStore::new()),
            drained: false,
        }]);
        let placed = Arc::new(placed.expect("it opens"));
        let validity = Arc::new(Validity::ended(world.clone()));
        validity.extend(Moment::now(world.as_ref()), 3_600_000);
        let log = Log::new(LogLevel::Debug, LogFormat::Text, lines.clone());
        let key = NodesKey::random().expect("a key");
        let grantor = Grantor::new(GrantorOptions {
            term: 1,
            key: key.clone(),
            validity,
            world: world.clone(),
            log: Arc::new(log),
            placed: placed.clone(),
            members: members.clone(),
            recalls: Box::new(Recaller::start(key.clone(), 1, world.clone())),
            in_background: on_threads(),
            least_load: Some(0),
        });
        let command = HostCommand {
            program: "none".into(),
            arguments: Vec::new(),
        };
        let options = EngineOptions {
            owners: grantor.clone(),
            ..EngineOptions::new(PoolOptions::new(command))
        };
        let engine = Arc::new(Engine::open(placed, options, world.clone()).expect("it opens"));
        grantor.set_engine(&engine);
        let object = |text: &[u8]| match parse(text) {
            Ok(Json::Object(object)) => object,
            other => panic!("{other:?}"),
        };
        let created = engine.create_database(&object(br#"{"id":"d"}"#), None);
        created.result.expect("a database");
        let database = engine.database(Id::Name("d")).expect("it is there");
        let body = object(br#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#);
        let created = engine.create_container(&database, &body, Some(Throughput::Manual(12_000)));
        created.result.expect("a container");
        Bench {
            world,
            members,
            grantor,
            _engine: engine,
            lines,
            polls: 0,
        }
    }

    /// Takes in a hello of the node 'b', whose clock is ahead.
    fn hello(&self, ahead_ms: i64) {
        let now_ms = self.world.now_ms() as i64;
        self.members.take_hello(ToldNodes {
            nodes: vec![facts("b", ADDRESS)],
            now_ms: Some(now_ms + ahead_ms),
        });
    }

    /// Answers a poll of the node 'b'. Returns its grants.
    fn poll(&mut self) -> Vec<Granted> {
        self.polls += 1;
        let poll = poll_of(PROCESS, self.polls);
        self.grantor.poll(poll).expect("an answer").grants
    }
}

/// Returns the poll with a number of a process that owns nothing and has heard of no leaseholder.
fn poll_of(process: u64, number: u64) -> Poll {
    Poll {
        process,
        number,
        name: "b".to_owned(),
        address: ADDRESS.to_owned(),
        term: Some(0),
        owned: Vec::new(),
        given_back: Vec::new(),
        heads: Vec::new(),
        report: Report::default(),
        seen: (0, 0),
        work: Vec::new(),
        takes_none: false,
    }
}

fn facts(name: &str, address: &str) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        region: None,
        address: address.to_owned(),
        clusters: Vec::new(),
        clock_ahead_ms: 0,
    }
}

#[test]
fn a_node_with_a_wrong_clock_owns_no_partitions() {
    let mut bench = Bench::new();
    bench.hello(-30_000);
    assert_eq!(bench.poll().len(), 1, "half a minute is no fault");

    bench.hello(3_600_000);
    bench.poll();
    let world = bench.world.clone();
    let grantor = bench.grantor.clone();
    let given = || {
        // The node does not answer, so its time must pass.
        world.advance_ms(VALID_MS);
        read(&grantor.given).len()
    };
    wait_for("the partition is back", given, |given| *given == 0);
    bench.hello(3_600_000);
    assert_eq!(bench.poll(), []);
    assert_eq!(bench.poll(), []);
    let sentence = "the clock of the node 'b' is 60 minutes ahead of the leaseholder's: set it";
    assert_eq!(bench.lines.count(sentence), 1);
    let live = bench.members.live();
    assert_eq!(live[1].facts.wrong_clock().as_deref(), Some(sentence));

    bench.hello(0);
    assert_eq!(bench.poll().len(), 1);
    let sentence = "the clock of the node 'b' is right again";
    assert_eq!(bench.lines.count(sentence), 1);
    let counts = GrantCounts {
        granted: 2,
        returned: 0,
        expired: 1,
    };
    assert_eq!(bench.grantor.counts(), counts);
    let sum = "other nodes own 1 partitions: 1 were given";
    assert_eq!(bench.lines.count(sum), 1, "the last is due later");
}

/// The ids of grants begin anew with each leaseholder.
#[test]
fn what_an_earlier_leaseholder_had_given_ends_no_grant() {
    let mut bench = Bench::new();
    bench.hello(0);
    let grants = bench.poll();
    let grant = grants[0];
    let back = |is_settled| GivenBack {
        grant,
        standing: None,
        head: None,
        is_settled,
    };
    for (process, term) in [
        (PROCESS + 1, Some(0)),
        (PROCESS + 1, Some(1)),
        (PROCESS + 1, None),
        (PROCESS, Some(0)),
    ] {
        for is_settled in [true, false] {
            bench.polls += 1;
            let poll = Poll {
                given_back: vec![back(is_settled)],
                term,
                takes_none: true,
                ..poll_of(process, bench.polls)
            };
            bench.grantor.poll(poll).expect("an answer");
            let given = read(&bench.grantor.given);
            assert!(given.has(grant), "{process} {term:?}");
            assert!(!given.is_expired(grant.0, bench.world.monotonic_ms()));
            drop(given);
        }
    }
    bench.polls += 1;
    let poll = Poll {
        given_back: vec![back(true)],
        term: Some(1),
        ..poll_of(PROCESS, bench.polls)
    };
    bench.grantor.poll(poll).expect("an answer");
    assert!(
        !read(&bench.grantor.given).has(grant),
        "the owner's own word"
    );
}

/// A process that owns a partition under the same id of an earlier leaseholder hears the terms.
#[test]
fn the_terms_of_a_grant_are_told_to_an_owner_of_an_earlier_term() {
    let mut bench = Bench::new();
    bench.hello(0);
    let grant = bench.poll()[0];
    for (term, told) in [(Some(1), 0), (Some(0), 1), (None, 0)] {
        bench.polls += 1;
        let poll = Poll {
            owned: vec![grant],
            term,
            ..poll_of(PROCESS, bench.polls)
        };
        let answer = bench.grantor.poll(poll).expect("an answer");
        assert!(answer.grants.contains(&grant));
        let terms = answer.terms.iter();
        let terms = terms.filter(|terms| terms.partition == grant.0);
        assert_eq!(terms.count(), told, "{term:?}");
    }
}
