//! Acknowledged writes survive the death of the process; a write that was not acknowledged is
//! stored completely or not at all.
//!
//! Clients write over HTTP and keep ledgers outside the server. The process gets SIGKILL at a
//! moment that follows from a seed, is started again and compared with the ledgers; then the next
//! round begins. Every client has at most one request in progress, so each item may be found in
//! exactly two states.
//!
//! `ORRERY_KILL9_ROUNDS` and `ORRERY_KILL9_SEED` set the number of rounds and the seed.

#![allow(clippy::print_stdout)] // the times of the restarts are part of the result

use crate::program::{Answer, Client, ITEMS, Request, Server, item, number, start_on, text};
use orrery_model::Json;
use orrery_model::world::split_mix;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const WRITERS: usize = 4;
const POSTS: usize = 2;
/// Number of items that each writer changes.
const SLOTS: usize = 12;
/// Number of acknowledgements after which the server is killed.
const ACKNOWLEDGEMENTS: std::ops::Range<u64> = 20..250;

/// Increments the counter of a post and creates a comment, in one transaction.
const CREATE_COMMENT: &str = "function createComment(post, id, n) {
    var items = getContext().getCollection();
    must(items.readDocument(items.getAltLink() + '/docs/' + post, function (error, found) {
        if (error) throw error;
        found.count += 1;
        must(items.replaceDocument(found._self, found, function (error) {
            if (error) throw error;
            var comment = { id: id, postId: post, type: 'comment', n: n };
            must(items.createDocument(items.getSelfLink(), comment, function (error) { if (error) throw error; }));
        }));
    }));
    function must(accepted) { if (!accepted) throw new Error(449, 'not accepted'); }
}";

/// An item of one writer: the acknowledged value, and the value that it has as well if the request
/// in progress was carried out. `None` stands for an item that does not exist.
#[derive(Clone, Default)]
struct Slot {
    acknowledged: Option<u64>,
    pending: Option<Option<u64>>,
}

/// The writes of one writer.
#[derive(Default)]
struct Ledger {
    slots: Vec<Slot>,
    comments: BTreeSet<String>,
    pending_comment: Option<String>,
}

/// State shared by all writers.
struct Shared {
    /// Next value; all values are distinct.
    serial: AtomicU64,
    /// Highest LSN in any response.
    lsn: AtomicU64,
}

/// A writer in one round.
struct Writer<'a> {
    number: usize,
    client: Client,
    ledger: &'a mut Ledger,
    shared: &'a Shared,
    /// LSN of the server at the start of the round; every write gets a higher one.
    lsn_at_start: u64,
    random: u64,
    acknowledged: Sender<()>,
}

fn slot_id(writer: usize, slot: usize) -> String {
    format!("slot-{writer}-{slot}")
}

fn post_id(post: usize) -> String {
    format!("post-{post}")
}

impl Writer<'_> {
    fn random_below(&mut self, bound: u64) -> u64 {
        self.random = split_mix(self.random);
        self.random % bound
    }

    /// Writes until the server is gone.
    fn run(mut self) {
        while self.step().is_ok() {}
    }

    fn step(&mut self) -> io::Result<()> {
        if self.random_below(4) == 0 {
            self.comment()
        } else {
            self.change_slot()
        }
    }

    /// Sends a write; returns false if the server refused it.
    fn send(&mut self, request: &Request) -> io::Result<bool> {
        let answer = self.client.try_call(request)?;
        match answer.status {
            200 | 201 | 204 => {
                let lsn = answer.lsn();
                assert!(
                    lsn > self.lsn_at_start,
                    "a write got LSN {lsn}, but LSN {} was acknowledged before the restart",
                    self.lsn_at_start
                );
                self.shared.lsn.fetch_max(lsn, Ordering::SeqCst);
                // The receiver is gone when the server is about to be killed.
                let _ = self.acknowledged.send(());
                Ok(true)
            }
            408 | 429 | 449 => Ok(false),
            _ => panic!(
                "{request:?} was answered with {}: {}",
                answer.status,
                answer.text()
            ),
        }
    }

    fn change_slot(&mut self) -> io::Result<()> {
        let slot = self.random_below(SLOTS as u64) as usize;
        let (id, key) = (
            slot_id(self.number, slot),
            format!("writer-{}", self.number),
        );
        let n = self.shared.serial.fetch_add(1, Ordering::SeqCst);
        let body = format!(r#"{{"id":"{id}","postId":"{key}","type":"slot","n":{n}}}"#);
        let delete = self.random_below(3) == 0;
        let (request, new_value) = match self.ledger.slots[slot].acknowledged {
            None => (Request::new("POST", ITEMS).body(body), Some(n)),
            Some(_) if delete => (Request::new("DELETE", &item(&id)), None),
            Some(_) => (Request::new("PUT", &item(&id)).body(body), Some(n)),
        };
        self.ledger.slots[slot].pending = Some(new_value);
        let done = self.send(&request.key(&key))?;
        let slot = &mut self.ledger.slots[slot];
        slot.acknowledged = if done { new_value } else { slot.acknowledged };
        slot.pending = None;
        Ok(())
    }

    fn comment(&mut self) -> io::Result<()> {
        let post = post_id(self.random_below(POSTS as u64) as usize);
        let n = self.shared.serial.fetch_add(1, Ordering::SeqCst);
        let id = format!("comment-{n}");
        let request = Request::new("POST", "/dbs/blog/colls/posts/sprocs/createComment")
            .key(&post)
            .body(format!(r#"["{post}","{id}",{n}]"#));
        self.ledger.pending_comment = Some(id.clone());
        if self.send(&request)? {
            self.ledger.comments.insert(id);
        }
        self.ledger.pending_comment = None;
        Ok(())
    }
}

/// The contents of a started server, read in several ways that must agree.
struct StoredState {
    rows: BTreeMap<String, Json>,
    lsn: u64,
}

fn read_everything(server: &Server, token: u64) -> StoredState {
    let mut client = server.client();
    let paged = |request: Request| request.header("x-ms-max-item-count", "500");
    let session = format!("0:-1#{token}");
    let feed = paged(Request::new("GET", ITEMS)).header("x-ms-session-token", session);
    let (rows, last) = client.pages(&feed);
    let lsn = last.lsn();
    assert!(
        lsn >= token,
        "LSN {token} was acknowledged, and the server is at {lsn}"
    );
    let rows: BTreeMap<String, Json> = rows
        .into_iter()
        .map(|row| (text(&row, "id"), row))
        .collect();

    let by_index = paged(Request::query(
        ITEMS,
        "SELECT c.id, c.n FROM c WHERE c.n >= 0 ORDER BY c.n",
    ));
    let by_index: Vec<_> = client
        .pages(&by_index)
        .0
        .iter()
        .map(|row| (number(row, "n"), text(row, "id")))
        .collect();
    let mut by_feed: Vec<_> = rows
        .values()
        .map(|row| (number(row, "n"), text(row, "id")))
        .collect();
    by_feed.sort();
    assert_eq!(by_index, by_feed, "the index and the read feed disagree");
    for kind in ["slot", "comment", "post"] {
        let count = Request::query(
            ITEMS,
            &format!("SELECT VALUE COUNT(1) FROM c WHERE c.type = '{kind}'"),
        );
        let counted = client
            .pages(&count)
            .0
            .iter()
            .map(|n| n.to_text().parse::<usize>().expect("a number"))
            .sum::<usize>();
        let listed = rows
            .values()
            .filter(|row| text(row, "type") == kind)
            .count();
        assert_eq!(
            counted, listed,
            "{kind}: COUNT by index and the read feed disagree"
        );
    }
    check_change_feed(&mut client, &rows, lsn);
    StoredState { rows, lsn }
}

/// Checks that the change feed returns the current version of every item once, in the order of
/// LSNs, and ends at the last LSN.
fn check_change_feed(client: &mut Client, rows: &BTreeMap<String, Json>, head: u64) {
    let page = Request::new("GET", ITEMS)
        .header("A-IM", "Incremental feed")
        .header("x-ms-max-item-count", "500");
    let (mut seen, mut last_lsn, mut next) = (BTreeSet::new(), 0, page.clone());
    loop {
        let answer: Answer = client.call(&next);
        let etag = answer
            .header("etag")
            .expect("every page has an etag")
            .to_owned();
        if answer.status == 304 {
            assert_eq!(
                etag.trim_matches('"').parse(),
                Ok(head),
                "the change feed ends at the head"
            );
            break;
        }
        for row in answer.rows() {
            let (id, lsn) = (text(&row, "id"), number(&row, "_lsn"));
            assert!(
                lsn >= last_lsn && lsn <= head,
                "{id} has LSN {lsn} after {last_lsn}, the head is {head}"
            );
            last_lsn = lsn;
            let item = rows
                .get(&id)
                .unwrap_or_else(|| panic!("{id} is in the change feed only"));
            assert_eq!(
                text(&row, "_etag"),
                text(item, "_etag"),
                "{id} is old in the change feed"
            );
            assert!(seen.insert(id.clone()), "{id} is in the change feed twice");
        }
        next = page.clone().header("If-None-Match", etag);
    }
    assert_eq!(seen.len(), rows.len(), "the change feed is incomplete");
}

/// Compares the stored items with the ledgers; where two states are allowed, the ledger takes over
/// the one found.
fn compare_with_ledgers(ledgers: &mut [Ledger], found: &StoredState) {
    let mut comments: BTreeSet<&str> = found
        .rows
        .iter()
        .filter(|(_, row)| text(row, "type") == "comment")
        .map(|(id, _)| id.as_str())
        .collect();
    for (post, n) in (0..POSTS).map(|post| (post_id(post), post)) {
        let children = found
            .rows
            .values()
            .filter(|row| text(row, "type") == "comment" && text(row, "postId") == post);
        let counter = number(&found.rows[&post], "count");
        assert_eq!(
            counter,
            children.count() as u64,
            "post {n}: its counter and its comments disagree"
        );
    }
    for (writer, ledger) in ledgers.iter_mut().enumerate() {
        for (n, slot) in ledger.slots.iter_mut().enumerate() {
            let id = slot_id(writer, n);
            let stored = found.rows.get(&id).map(|row| number(row, "n"));
            let is_allowed = stored == slot.acknowledged || Some(stored) == slot.pending;
            assert!(
                is_allowed,
                "{id} is {stored:?}, acknowledged was {:?}, in progress {:?}",
                slot.acknowledged, slot.pending
            );
            *slot = Slot {
                acknowledged: stored,
                pending: None,
            };
        }
        for id in &ledger.comments {
            assert!(
                comments.remove(id.as_str()),
                "{id} was acknowledged but is missing"
            );
        }
        if let Some(id) = ledger.pending_comment.take()
            && comments.remove(id.as_str())
        {
            ledger.comments.insert(id);
        }
    }
    assert!(comments.is_empty(), "no writer created {comments:?}");
}

/// Waits for a number of acknowledgements and then for some microseconds, so that the moment does
/// not depend on the server.
fn wait_for_acknowledgements(received: &Receiver<()>, acknowledgements: u64, microseconds: u64) {
    for _ in 0..acknowledgements {
        received
            .recv_timeout(Duration::from_secs(30))
            .expect("the server acknowledges writes");
    }
    let over = Instant::now() + Duration::from_micros(microseconds);
    while Instant::now() < over {
        std::hint::spin_loop();
    }
}

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .map_or(default, |text| text.parse().expect("a number"))
}

fn create_container_and_posts(server: &Server) {
    let mut client = server.client();
    client.make_posts();
    client.make_procedure("createComment", CREATE_COMMENT);
    for post in 0..POSTS {
        let id = post_id(post);
        let body = format!(r#"{{"id":"{id}","postId":"{id}","type":"post","n":{post},"count":0}}"#);
        let answer = client.call(&Request::new("POST", ITEMS).key(&id).body(body));
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
}

/// Starts the writers and kills the server while they write.
fn kill_during_writes(
    server: &mut Server,
    ledgers: &mut [Ledger],
    shared: &Shared,
    lsn_at_start: u64,
    seed: u64,
) {
    let (acknowledged, received) = channel();
    std::thread::scope(|scope| {
        for (number, ledger) in ledgers.iter_mut().enumerate() {
            let (client, acknowledged) = (server.client(), acknowledged.clone());
            let random = split_mix(seed ^ number as u64);
            scope.spawn(move || {
                Writer {
                    number,
                    client,
                    ledger,
                    shared,
                    lsn_at_start,
                    random,
                    acknowledged,
                }
                .run()
            });
        }
        let acknowledgements = ACKNOWLEDGEMENTS.start
            + split_mix(seed) % (ACKNOWLEDGEMENTS.end - ACKNOWLEDGEMENTS.start);
        wait_for_acknowledgements(&received, acknowledgements, split_mix(!seed) % 3000);
        server.kill();
    });
}

#[test]
fn acknowledged_writes_survive_kill_minus_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let (rounds, seed) = (
        number_from("ORRERY_KILL9_ROUNDS", 20),
        number_from("ORRERY_KILL9_SEED", 9),
    );
    println!("{rounds} rounds from seed {seed}");
    let mut server = start_on(directory.path()).expect("it starts");
    create_container_and_posts(&server);
    let shared = Shared {
        serial: AtomicU64::new(POSTS as u64),
        lsn: AtomicU64::new(0),
    };
    let mut ledgers: Vec<_> = (0..WRITERS)
        .map(|_| Ledger {
            slots: vec![Slot::default(); SLOTS],
            ..Ledger::default()
        })
        .collect();
    let mut lsn_at_start = read_everything(&server, 0).lsn;
    let mut restarts = Vec::new();
    for round in 0..rounds {
        let seed = split_mix(seed.wrapping_add(round << 32));
        kill_during_writes(&mut server, &mut ledgers, &shared, lsn_at_start, seed);
        server = start_on(directory.path()).expect("it starts again");
        restarts.push(server.ready_after);
        let found = read_everything(&server, shared.lsn.load(Ordering::SeqCst));
        compare_with_ledgers(&mut ledgers, &found);
        lsn_at_start = found.lsn;
        println!(
            "round {round}: {} items, LSN {lsn_at_start}, ready after {:?}",
            found.rows.len(),
            server.ready_after
        );
    }
    restarts.sort();
    let (best, middle, worst) = (
        restarts[0],
        restarts[restarts.len() / 2],
        restarts[restarts.len() - 1],
    );
    println!("ready after {best:?} at best, {middle:?} in the middle, {worst:?} at worst");
}
