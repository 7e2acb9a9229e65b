//! The requests of the .NET and Java change feed processors, in their order: leases are items that
//! hosts acquire, renew and lose by conditional writes; a lock expires by itself; pages of changes
//! come in between; and the estimator subtracts LSNs.

use crate::program::{Answer, Client, Request, Server, number, start, text};
use orrery_model::{Json, Object};
use orrery_test_wait::wait_until;

const LEASES: &str = "/dbs/app/colls/leases/docs";
const ITEMS: &str = "/dbs/app/colls/items/docs";
const PREFIX: &str = "orders_localhost_dbs_items";

/// Starts a server with a container of two physical partitions and a container for leases.
fn server() -> (Server, Client) {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"app"}"#);
    let watched = r#"{"id":"items","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#;
    let made = client.call(
        &Request::new("POST", "/dbs/app/colls")
            .header("x-ms-offer-throughput", "12000")
            .body(watched),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    let leases = r#"{"id":"leases","partitionKey":{"paths":["/id"],"kind":"Hash","version":2},"defaultTtl":-1}"#;
    client.create("/dbs/app/colls", leases);
    (server, client)
}

/// The lease container, as one host uses it.
struct LeaseStore<'a>(&'a mut Client);

impl LeaseStore<'_> {
    fn create(&mut self, id: &str, more: &str) -> Answer {
        self.0.call(
            &Request::new("POST", LEASES)
                .key(id)
                .body(format!(r#"{{"id":"{id}"{more}}}"#)),
        )
    }

    fn read(&mut self, id: &str) -> Answer {
        self.0
            .call(&Request::new("GET", &format!("{LEASES}/{id}")).key(id))
    }

    fn replace(&mut self, lease: &Json, etag: &str) -> Answer {
        let id = text(lease, "id");
        let request = Request::new("PUT", &format!("{LEASES}/{id}"))
            .key(&id)
            .header("If-Match", etag);
        self.0.call(&request.body(lease.to_text()))
    }

    fn delete(&mut self, id: &str, etag: &str) -> Answer {
        self.0.call(
            &Request::new("DELETE", &format!("{LEASES}/{id}"))
                .key(id)
                .header("If-Match", etag),
        )
    }

    fn all(&mut self) -> Vec<Json> {
        let query = format!("SELECT * FROM c WHERE STARTSWITH(c.id, '{PREFIX}..')");
        self.0.pages(&Request::query(LEASES, &query)).0
    }
}

fn with_member(lease: &Json, name: &str, value: impl Into<Json>) -> Json {
    let mut object: Object = lease.as_object().expect("a lease").clone();
    object.set(name, value);
    Json::Object(object)
}

fn lease_id(range: &str) -> String {
    format!("{PREFIX}..{range}")
}

fn changes(range: &str, continuation: Option<&str>, most: usize) -> Request {
    let request = Request::new("GET", ITEMS)
        .header("A-IM", "Incremental Feed")
        .header("x-ms-documentdb-partitionkeyrangeid", range)
        .header("x-ms-max-item-count", most.to_string());
    match continuation {
        Some(etag) => request.header("If-None-Match", etag),
        None => request,
    }
}

fn write(client: &mut Client, id: &str) {
    let answer = client.call(
        &Request::new("POST", ITEMS)
            .key(id)
            .header("x-ms-documentdb-is-upsert", "True")
            .body(format!(r#"{{"id":"{id}"}}"#)),
    );
    assert!(answer.status < 300, "{}", answer.text());
}

/// Initializes the lease container as the first host does: reads the marker, takes the lock,
/// creates the leases, writes the marker, releases the lock. Returns the ids of the ranges.
fn initialize_lease_store(client: &mut Client) -> Vec<String> {
    let ranges = client.range_ids("/dbs/app/colls/items");
    let mut leases = LeaseStore(client);
    let (info, lock) = (format!("{PREFIX}.info"), format!("{PREFIX}.lock"));
    assert_eq!(leases.read(&info).code(), (404, 0), "not initialized");
    let locked = leases.create(&lock, r#","ttl":60"#);
    assert_eq!(locked.status, 201);
    assert_eq!(
        leases.create(&lock, r#","ttl":60"#).code(),
        (409, 0),
        "the lock is taken"
    );
    for range in &ranges {
        let more =
            format!(r#","version":0,"LeaseToken":"{range}","ContinuationToken":null,"Owner":null"#);
        assert_eq!(leases.create(&lease_id(range), &more).status, 201);
        assert_eq!(
            leases.create(&lease_id(range), &more).code(),
            (409, 0),
            "a lease of the other host"
        );
    }
    assert_eq!(leases.create(&info, "").status, 201);
    let etag = locked.header("etag").expect("an etag").to_owned();
    assert_eq!(leases.delete(&lock, &etag).status, 204);
    assert_eq!(
        leases.delete(&lock, &etag).code(),
        (404, 0),
        "already released"
    );
    assert_eq!(leases.read(&info).status, 200);
    assert_eq!(
        leases.all().len(),
        ranges.len(),
        "neither marker nor lock is a lease"
    );
    ranges
}

/// Acquires a lease; returns the new lease, or the error if another host was faster.
fn acquire(client: &mut Client, lease: &Json, owner: &str) -> Result<Json, (u16, u32)> {
    let answer =
        LeaseStore(client).replace(&with_member(lease, "Owner", owner), &text(lease, "_etag"));
    if answer.status == 200 {
        Ok(answer.json())
    } else {
        Err(answer.code())
    }
}

/// Handles the changes of a range from the checkpoint of a lease to the end of the feed, with a
/// checkpoint after each page. Returns the lease after the last checkpoint.
fn handle_remaining(
    client: &mut Client,
    range: &str,
    mut lease: Json,
    handled: &mut Vec<String>,
) -> Json {
    loop {
        let continuation = text(&lease, "ContinuationToken");
        let page = client.call(&changes(range, Some(&continuation), 3));
        let etag = page.header("etag").expect("304 has an etag too").to_owned();
        if page.status == 304 {
            assert_eq!(page.header("x-ms-item-count"), Some("0"));
            return lease;
        }
        handled.extend(page.rows().iter().map(|row| text(row, "id")));
        let answer = LeaseStore(client).replace(
            &with_member(&lease, "ContinuationToken", etag),
            &text(&lease, "_etag"),
        );
        assert_eq!(answer.status, 200);
        lease = answer.json();
    }
}

#[test]
fn every_change_is_handled_once_across_checkpoints_and_owners() {
    let (_server, mut client) = server();
    let ranges = initialize_lease_store(&mut client);
    assert_eq!(ranges.len(), 2);
    let ids: Vec<String> = (0..30).map(|n| format!("order{n}")).collect();
    ids.iter().for_each(|id| write(&mut client, id));
    let mut handled: Vec<String> = Vec::new();
    for range in &ranges {
        let known = LeaseStore(&mut client).read(&lease_id(range)).json();
        let mut lease = acquire(&mut client, &known, "first").expect("the lease is free");
        assert_eq!(
            acquire(&mut client, &known, "second"),
            Err((412, 0)),
            "the etag is outdated"
        );
        // The host handles two pages and stops within the third: its changes are handled, but not
        // checkpointed.
        for checkpointed in [true, true, false] {
            let continuation = lease
                .get("ContinuationToken")
                .and_then(Json::as_str)
                .map(str::to_owned);
            let page = client.call(&changes(range, continuation.as_deref(), 3));
            let rows = page.rows();
            assert!(!rows.is_empty() && page.header("x-ms-session-token").is_some());
            if checkpointed {
                handled.extend(rows.iter().map(|row| text(row, "id")));
                let etag = text(&lease, "_etag");
                let next = with_member(
                    &lease,
                    "ContinuationToken",
                    page.header("etag").expect("an etag"),
                );
                let answer = LeaseStore(&mut client).replace(&next, &etag);
                assert_eq!(answer.status, 200);
                lease = answer.json();
            }
        }
        // Another host finds the lease abandoned and resumes at the last checkpoint.
        let found = LeaseStore(&mut client)
            .all()
            .into_iter()
            .find(|l| text(l, "LeaseToken") == *range)
            .expect("the lease");
        let taken = acquire(&mut client, &found, "second").expect("its etag is current");
        let renewed = LeaseStore(&mut client).replace(&lease, &text(&lease, "_etag"));
        assert_eq!(
            renewed.code(),
            (412, 0),
            "the first host learns that it lost the lease"
        );
        let mine = handle_remaining(&mut client, range, taken, &mut handled);
        let released = LeaseStore(&mut client).replace(
            &with_member(&mine, "Owner", Json::Null),
            &text(&mine, "_etag"),
        );
        assert_eq!(released.status, 200);
    }
    let mut wanted = ids;
    wanted.sort();
    handled.sort();
    assert_eq!(handled, wanted);
}

#[test]
fn the_lock_of_a_dead_host_expires() {
    let (_server, mut client) = server();
    let lock = format!("{PREFIX}.lock");
    let mut leases = LeaseStore(&mut client);
    let dead = leases.create(&lock, r#","ttl":1"#);
    assert_eq!(dead.status, 201);
    // The other host retries until the lock has expired.
    let mine = wait_until("the end of the lock", || {
        let answer = leases.create(&lock, r#","ttl":60"#);
        if answer.status == 201 {
            return Ok(answer);
        }
        assert_eq!(answer.code(), (409, 0));
        Err(answer.status)
    });
    let etag = |answer: &Answer| answer.header("etag").expect("an etag").to_owned();
    assert_eq!(
        leases.delete(&lock, &etag(&dead)).code(),
        (412, 0),
        "the dead host's lock is not this one"
    );
    assert_eq!(leases.delete(&lock, &etag(&mine)).status, 204);
}

#[test]
fn a_deleted_lease_and_a_gone_range_have_different_errors() {
    let (_server, mut client) = server();
    let ranges = initialize_lease_store(&mut client);
    let lease = LeaseStore(&mut client).read(&lease_id(&ranges[0])).json();
    assert_eq!(
        LeaseStore(&mut client)
            .delete(&text(&lease, "id"), &text(&lease, "_etag"))
            .status,
        204
    );
    assert_eq!(
        LeaseStore(&mut client)
            .replace(&lease, &text(&lease, "_etag"))
            .code(),
        (404, 0),
        "the lease is lost"
    );
    assert_eq!(
        client.call(&changes("99", None, 10)).code(),
        (410, 1002),
        "the range is to be looked up again"
    );
}

#[test]
fn the_estimator_counts_remaining_changes_by_subtracting_lsns() {
    let (_server, mut client) = server();
    let ranges = initialize_lease_store(&mut client);
    let estimate = |client: &mut Client, range: &str, continuation: Option<&str>| {
        let page = client.call(&changes(range, continuation, 1));
        let etag = page.header("etag").expect("an etag").to_owned();
        match page.status {
            304 => (0, etag),
            _ => (page.lsn() - number(&page.rows()[0], "_lsn") + 1, etag),
        }
    };
    let begun: Vec<String> = ranges
        .iter()
        .map(|range| estimate(&mut client, range, Some("*")).1)
        .collect();
    let changes_in = |client: &mut Client, range: &str| {
        client.call(&changes(range, None, 100)).rows().len() as u64
    };
    (0..20).for_each(|n| write(&mut client, &format!("order{n}")));
    for (range, begun) in ranges.iter().zip(&begun) {
        let written = changes_in(&mut client, range);
        assert!(written > 0, "the keys fall into both ranges");
        let (left, next) = estimate(&mut client, range, Some(begun));
        assert_eq!(left, written, "nothing is handled yet");
        assert_eq!(
            estimate(&mut client, range, Some(&next)).0,
            written - 1,
            "one is"
        );
        let all = client.call(&changes(range, Some(begun), 100));
        let end = all.header("etag").expect("an etag").to_owned();
        assert_eq!(estimate(&mut client, range, Some(&end)).0, 0, "all are");
    }
}
