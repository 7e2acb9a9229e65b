//! Reads from standbys: each consistency level shows what it may show, and nothing else.
//!
//! The standby of these tests stops applying the log when a test says so, and the node without the
//! lease reads that standby.

use crate::program::{Answer, Client, ITEMS, Request, Server, item, number, start};
use crate::servers;
use orrery_test_wait::{wait_for, wait_until};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LEVEL: &str = "x-ms-consistency-level";

/// A cluster of a primary and a standby, and a holder and a second node on the cluster.
struct Fleet {
    // The nodes end before the servers.
    holder: Option<Server>,
    reader: Server,
    standby: servers::Server,
    _primary: servers::Server,
    _folder: TempDir,
}

impl Fleet {
    fn start(delay_ms: u64, options: &[&str]) -> Fleet {
        let primary = servers::Server::start(&["-c", "fsync=off"]);
        let standby = primary.start_standby();
        standby.set_feedback(if delay_ms > 0 { "on" } else { "off" });
        let mut config = primary.config_at(&[primary.port, standby.port]);
        config.follower_delay_ms = delay_ms;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("clusters.toml");
        std::fs::write(&file, servers::cluster_file(&[config])).expect("written");
        let node = |name: &str| {
            let data = folder.path().join(name).display().to_string();
            let file = file.display().to_string();
            let place = ["--store", "postgres", "--cluster-file", &file];
            let own = ["--node", name, "--data-dir", &data];
            start(&[&place[..], &own, options].concat()).expect("it starts")
        };
        let holder = node("a");
        holder.client().make_posts();
        Fleet {
            holder: Some(holder),
            reader: node("b"),
            standby,
            _primary: primary,
            _folder: folder,
        }
    }

    fn holder(&self) -> Client {
        self.holder.as_ref().expect("it serves").client()
    }

    /// Makes the standby keep its present state.
    fn pause_standby(&self) {
        self.standby.sql("SELECT pg_wal_replay_pause()");
        let state = "SELECT pg_get_wal_replay_pause_state()";
        self.standby
            .wait_for_sql(state, |rows| rows == [["paused"]]);
    }

    fn resume_standby(&self) {
        self.standby.sql("SELECT pg_wal_replay_resume()");
    }

    /// Repeats a request at the second node until a standby answers as wanted.
    fn wait_for(&self, request: &Request, is_wanted: impl Fn(&Answer) -> bool) {
        let mut client = self.reader.client();
        wait_until("an answer of a standby", || {
            let answer = client.call(request);
            match is_from_standby(&answer) && is_wanted(&answer) {
                true => Ok(()),
                false => Err((answer.status, answer.text())),
            }
        });
    }
}

fn is_from_standby(answer: &Answer) -> bool {
    answer.header("x-orrery-answered-by") == Some("standby")
}

fn read(id: &str, level: &str) -> Request {
    Request::new("GET", &item(id)).key("p").header(LEVEL, level)
}

fn replace(client: &mut Client, n: u32) -> String {
    let body = format!(r#"{{"id":"1","postId":"p","n":{n}}}"#);
    let answer = client.call(&Request::new("PUT", &item("1")).key("p").body(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-ms-session-token").expect("a token").into()
}

/// Returns the number of an item and the server that answered.
fn shown(answer: &Answer) -> (u64, &'static str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let by = match is_from_standby(answer) {
        true => "standby",
        false => "holder",
    };
    (number(&answer.json(), "n"), by)
}

#[test]
fn each_level_shows_what_it_may() {
    let fleet = Fleet::start(0, &["--consistency", "strong"]);
    let mut holder = fleet.holder();
    holder.create(ITEMS, r#"{"id":"1","postId":"p","n":0}"#);
    let old = replace(&mut holder, 1);
    fleet.wait_for(&read("1", "Eventual"), |answer| {
        answer.status == 200 && number(&answer.json(), "n") == 1
    });

    fleet.pause_standby();
    let new = replace(&mut holder, 2);
    holder.create(ITEMS, r#"{"id":"2","postId":"p","n":0}"#);
    let mut client = fleet.reader.client();
    let mut shown_at = |level: &str, token: Option<&str>| {
        let mut request = read("1", level);
        if let Some(token) = token {
            request = request.header("x-ms-session-token", token);
        }
        let (n, by) = shown(&client.call(&request));
        format!("{n} {by}")
    };
    assert_eq!(shown_at("Strong", None), "2 holder");
    assert_eq!(shown_at("BoundedStaleness", None), "2 holder");
    assert_eq!(shown_at("Session", Some(&new)), "2 holder");
    assert_eq!(shown_at("Session", Some(&old)), "1 standby");
    assert_eq!(shown_at("Session", None), "1 standby");
    assert_eq!(shown_at("ConsistentPrefix", None), "1 standby");
    assert_eq!(shown_at("Eventual", None), "1 standby");

    // Queries too. A session that does not find an item is answered by the holder.
    let count = |level: &str, token: &str| {
        Request::query(ITEMS, "SELECT VALUE COUNT(1) FROM c")
            .key("p")
            .header(LEVEL, level)
            .header("x-ms-session-token", token)
    };
    let mut counted = |request: &Request| {
        let answer = client.call(request);
        assert_eq!(answer.status, 200, "{}", answer.text());
        (answer.json().get("Documents").map(|list| list.to_text())).expect("rows")
    };
    assert_eq!(counted(&count("Eventual", &old)), "[1]");
    assert_eq!(counted(&count("Session", &old)), "[1]");
    assert_eq!(counted(&count("Session", &new)), "[2]");
    assert_eq!(counted(&count("Strong", &old)), "[2]");
    assert_eq!(client.call(&read("2", "Eventual")).status, 404);
    assert_eq!(client.call(&read("2", "Session")).status, 200);

    // A wrong key is refused, and a write takes place.
    let stranger = Client::connect(&fleet.reader.address, "d3Jvbmc=");
    let wrong = stranger.expect("connected").call(&read("1", "Eventual"));
    assert_eq!(wrong.status, 401);
    replace(&mut client, 3);
    fleet.resume_standby();
    fleet.wait_for(&read("1", "Eventual"), |answer| {
        number(&answer.json(), "n") == 3
    });
}

#[test]
fn a_standby_answers_under_the_catalog_of_its_moment() {
    let fleet = Fleet::start(0, &[]);
    let mut holder = fleet.holder();
    let token = {
        holder.create(ITEMS, r#"{"id":"1","postId":"p","n":0}"#);
        replace(&mut holder, 1)
    };
    fleet.wait_for(&read("1", "Eventual"), |answer| answer.status == 200);
    fleet.pause_standby();

    // A container that the standby does not have is read at the holder, and so is one that was
    // created again: the token of the new one is ahead of the standby.
    let container = ITEMS.trim_end_matches("/docs");
    let database = container.split("/colls").next().expect("a database");
    let definition = r#"{"id":"new","partitionKey":{"paths":["/postId"],"kind":"Hash"}}"#;
    holder.create(&format!("{database}/colls"), definition);
    let docs = format!("{database}/colls/new/docs");
    holder.create(&docs, r#"{"id":"1","postId":"p","n":7}"#);
    let mut client = fleet.reader.client();
    let of_new = Request::new("GET", &format!("{docs}/1"))
        .key("p")
        .header(LEVEL, "Eventual");
    assert_eq!(shown(&client.call(&of_new)), (7, "holder"));

    assert_eq!(holder.call(&Request::new("DELETE", container)).status, 204);
    let again = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
    holder.create(&format!("{database}/colls"), again);
    holder.create(ITEMS, r#"{"id":"1","postId":"p","n":0}"#);
    let newer = replace(&mut holder, 9);
    let in_session =
        |token: &str| read("1", "Session").header("x-ms-session-token", token.to_owned());
    assert_eq!(shown(&client.call(&in_session(&newer))), (9, "holder"));
    assert_eq!(shown(&client.call(&in_session(&token))), (1, "standby"));

    // Afterwards the standby shows the new one.
    fleet.resume_standby();
    fleet.wait_for(&read("1", "Eventual"), |answer| {
        answer.status == 200 && number(&answer.json(), "n") == 9
    });
    fleet.wait_for(&in_session(&newer), |answer| answer.status == 200);
    fleet.wait_for(&of_new, |answer| answer.status == 200);

    // A container that is unknown in memory is found without the help of another request.
    let newest = definition.replace("new", "newest");
    holder.create(&format!("{database}/colls"), &newest);
    let docs = format!("{database}/colls/newest/docs");
    holder.create(&docs, r#"{"id":"1","postId":"p","n":8}"#);
    let of_newest = Request::new("GET", &format!("{docs}/1"))
        .key("p")
        .header(LEVEL, "Eventual");
    fleet.wait_for(&of_newest, |answer| answer.status == 200);
}

/// The standby has the partition from before the split, and tokens of its successors are ahead.
#[test]
fn a_standby_that_is_behind_a_split_answers_no_session_of_the_successors() {
    let fleet = Fleet::start(0, &[]);
    let mut holder = fleet.holder();
    for n in 1..=8 {
        holder.create(ITEMS, &format!(r#"{{"id":"{n}","postId":"p{n}","n":0}}"#));
    }
    holder.create(ITEMS, r#"{"id":"1","postId":"p","n":0}"#);
    let before = replace(&mut holder, 1);
    let eventual = read("1", "Eventual");
    let is_at =
        |n: u64| move |answer: &Answer| answer.status == 200 && number(&answer.json(), "n") == n;
    fleet.wait_for(&eventual, is_at(1));
    fleet.pause_standby();

    let mut manager = fleet.holder.as_ref().expect("it serves").manager();
    let split = "/dbs/blog/colls/posts/partitions/0/split";
    manager.ok("POST", split, r#"{"at":"median"}"#);
    let container = ITEMS.trim_end_matches("/docs");
    let ranges = || holder.range_ids(container);
    wait_for("the end of the split", ranges, |ids| *ids == ["1", "2"]);
    let after = replace(&mut holder, 2);
    let mut client = fleet.reader.client();
    let mut in_session = |token: &str| {
        let request = read("1", "Session").header("x-ms-session-token", token);
        shown(&client.call(&request))
    };
    assert_eq!(in_session(&after), (2, "holder"));
    assert_eq!(in_session(&before), (1, "standby"));

    // Later the standby has the successors, also after the partition before was removed.
    fleet.resume_standby();
    fleet.wait_for(&eventual, is_at(2));
    let all = Request::query(ITEMS, "SELECT VALUE COUNT(1) FROM c")
        .header("x-ms-documentdb-query-enablecrosspartition", "true")
        .header(LEVEL, "Eventual");
    fleet.wait_for(&all, |answer| {
        let found = answer.json().get("Documents").map(|list| list.to_text());
        assert_eq!(found.as_deref(), Some("[9]"));
        true
    });
}

#[test]
fn a_query_at_a_standby_knows_paths_that_are_new() {
    let fleet = Fleet::start(0, &[]);
    let mut holder = fleet.holder();
    let mut create = |n: u32| {
        let body = format!(r#"{{"id":"{n}","postId":"p","name{n}":{n}}}"#);
        holder.create(ITEMS, &body);
    };
    for n in 1..=3 {
        create(n);
        let sql = format!("SELECT VALUE c.id FROM c WHERE c.name{n} = {n}");
        let query = Request::query(ITEMS, &sql)
            .key("p")
            .header(LEVEL, "Eventual");
        fleet.wait_for(&query, |answer| {
            let found = answer.json().get("Documents").map(|list| list.to_text());
            found == Some(format!("[\"{n}\"]"))
        });
    }
}

#[test]
fn a_delay_makes_standbys_show_old_states_on_purpose() {
    let delay = Duration::from_millis(1_500);
    let fleet = Fleet::start(1_500, &[]);
    let mut holder = fleet.holder();
    holder.create(ITEMS, r#"{"id":"1","postId":"p","n":0}"#);
    let is_at =
        |n: u64| move |answer: &Answer| answer.status == 200 && number(&answer.json(), "n") == n;
    fleet.wait_for(&read("1", "Eventual"), is_at(0));
    let written = Instant::now();
    let token = replace(&mut holder, 1);
    let own = read("1", "Session").header("x-ms-session-token", token);
    let mut client = fleet.reader.client();
    assert_eq!(shown(&client.call(&own)).0, 1);
    fleet.wait_for(&read("1", "Eventual"), is_at(1));
    assert!(written.elapsed() >= delay, "{:?}", written.elapsed());
}

#[test]
fn a_node_that_takes_the_lease_answers_itself() {
    let mut fleet = Fleet::start(0, &[]);
    let mut holder = fleet.holder();
    holder.create(ITEMS, r#"{"id":"1","postId":"p","n":0}"#);
    let request = read("1", "Eventual");
    fleet.wait_for(&request, |answer| answer.status == 200);
    drop(fleet.holder.take());
    wait_until("an answer of the new holder", || {
        let answer = fleet.reader.client().call(&request);
        match answer.status == 200 && !is_from_standby(&answer) {
            true => Ok(()),
            false => Err((answer.status, answer.text())),
        }
    });
}

#[test]
fn a_node_may_leave_all_reads_to_the_holder() {
    let fleet = Fleet::start(0, &["--standby-reads", "off"]);
    let mut holder = fleet.holder();
    holder.create(ITEMS, r#"{"id":"1","postId":"p","n":0}"#);
    fleet.pause_standby();
    replace(&mut holder, 1);
    let answer = fleet.reader.client().call(&read("1", "Eventual"));
    assert_eq!(shown(&answer), (1, "holder"));
}
