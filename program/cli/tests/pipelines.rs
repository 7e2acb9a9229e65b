//! The pipelines of the blog on a real server: workers that share, die and come back, changes that
//! cannot be processed, splits, deleted posts, and the length of the feed.

use crate::program::{Manager, Server, number, start, text};
use orrery_blog::dataset::{Comment, Dataset, Post, User};
use orrery_blog::pipelines::{ServiceOptions, Status};
use orrery_blog::{
    Blog, Client, Control, Copies, Fill, Meter, Model, Pipeline, Pipelines, Progress, Query,
    Throughput,
};
use orrery_test_wait::wait_until_async;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Time after which a test fails that waits for something.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server with the blog of V3 and its pipelines.
struct Fixture {
    server: Server,
    client: Client,
    control: Control,
    blog: Blog,
    meter: Meter,
}

impl Fixture {
    /// Starts a server and creates the containers: two physical partitions of `users`, three of
    /// `posts`.
    async fn new(model: Model) -> Self {
        let server = start(&["--memory"]).expect("it starts");
        let endpoint = format!("http://{}", server.address);
        let client = Client::new(&endpoint, &server.key, 32).expect("a client");
        let throughput = Throughput {
            users: 12_000,
            posts: 18_000,
            feed: 6_000,
        };
        let blog = Blog::new(client.clone(), model, "blog").with_throughput(throughput);
        blog.create().await.expect("created");
        let control = Control::new(client.clone(), "test");
        control.create_missing().await.expect("created");
        Self {
            server,
            client,
            control,
            blog,
            meter: Meter::new(),
        }
    }

    /// Returns a handle for the pipelines of the blog, without a worker.
    fn pipelines(&self) -> Pipelines {
        self.pipelines_with(ServiceOptions::default())
    }

    fn pipelines_with(&self, options: ServiceOptions) -> Pipelines {
        let blog = self.blog.clone();
        let source = Arc::new(move || Pipeline::of(&blog));
        Pipelines::new(&self.control, source, options)
    }

    /// Returns a handle with a running worker.
    fn started(&self) -> Pipelines {
        let pipelines = self.pipelines();
        pipelines.start();
        pipelines
    }

    /// Returns a handle with a running worker whose ranges are soon free after a crash.
    fn started_with(&self, lifetime: Duration) -> Pipelines {
        let pipelines = self.pipelines_with(ServiceOptions {
            lifetime,
            ..ServiceOptions::default()
        });
        pipelines.start();
        pipelines
    }

    async fn create_user(&self, n: usize) -> User {
        let user = User {
            id: format!("user{n}"),
            username: format!("name{n}"),
        };
        let created = self.blog.create_user(&self.meter, &user).await;
        created.expect("created");
        user
    }

    /// Creates a post whose date grows with `n`.
    async fn create_post(&self, user: &User, n: usize) -> Post {
        let post = Post {
            id: format!("post{n}"),
            user: user.clone(),
            title: format!("Title {n}"),
            content: "A text that is longer than the short form of a post. ".repeat(3),
            created: date(n),
        };
        let created = self.blog.create_post(&self.meter, &post).await;
        created.expect("created");
        post
    }

    /// Turns a post into a tombstone, as a deletion does.
    async fn delete_post(&self, post: &Post) {
        let tombstone = json!({
            "id": post.id, "postId": post.id, "userId": post.user.id, "type": "deletedPost",
            "ttl": 86_400,
        });
        let posts = self.container("posts");
        let stored = self
            .client
            .upsert(&self.meter, &posts, &post.id, &tombstone, None)
            .await;
        stored.expect("stored");
    }

    fn container(&self, name: &str) -> String {
        format!("dbs/blog/colls/{name}")
    }

    /// Returns all items of a container for which a condition holds, by id, without what belongs
    /// to the item and not to its contents.
    async fn items(&self, container: &str, condition: &str) -> Vec<Value> {
        let query = Query::new(format!("SELECT * FROM c WHERE {condition} ORDER BY c.id"));
        let link = self.container(container);
        self.client.clear_cached_metadata(&link);
        let rows = self.client.query_all(&self.meter, &link, &query).await;
        let mut rows = rows.expect("rows");
        for row in &mut rows {
            let properties = row.as_object_mut().expect("an item");
            properties.retain(|name, _| !name.starts_with('_'));
        }
        rows
    }

    /// Asserts that every copy equals its source: names in `posts`, short posts in `users`, and
    /// exactly the newest hundred in `feed`.
    async fn assert_exact(&self) {
        let names = self.names().await;
        let items = self.items("posts", "c.type != 'deletedPost'").await;
        for item in &items {
            let user = item["userId"].as_str().expect("an id");
            assert_eq!(item["userUsername"], names[user], "{item}");
        }
        if self.blog.model() != Model::V3 {
            return;
        }
        let mut posts: Vec<Value> = items.into_iter().filter(|i| i["type"] == "post").collect();
        for post in &mut posts {
            post["content"] = orrery_blog::excerpt(&text_of(post, "content")).into();
        }
        let copies = self.items("users", "c.type = 'post'").await;
        assert_eq!(copies.len(), posts.len(), "copies in users");
        assert_eq!(copies, posts);

        posts.sort_by_key(|post| std::cmp::Reverse(text_of(post, "creationDate")));
        posts.truncate(100);
        let mut feed = self.items("feed", "true").await;
        feed.sort_by_key(|post| std::cmp::Reverse(text_of(post, "creationDate")));
        assert_eq!(feed.len(), posts.len(), "length of the feed");
        assert_eq!(feed, posts);
    }

    /// Returns the name of each user.
    async fn names(&self) -> serde_json::Map<String, Value> {
        let users = self.items("users", "IS_DEFINED(c.username)").await;
        let entry = |user: &Value| (text_of(user, "id"), user["username"].clone());
        users.iter().map(entry).collect()
    }

    async fn rename(&self, user: &User, name: &str) {
        let renamed = self.blog.rename_user(&self.meter, &user.id, name).await;
        renamed.expect("renamed");
    }

    /// Runs an operation of the management API to its end.
    fn manage(&self, path: &str, body: &str) {
        let mut manager: Manager = self.server.manager();
        let begun = manager.call("POST", path, body);
        assert_eq!(begun.status, 202, "{}", begun.text());
        let operation = format!("/operations/{}", number(&begun.json(), "id"));
        loop {
            let state = manager.get(&operation).json();
            if state.get("next").is_none() {
                assert_eq!(text(&state, "status"), "done", "{}", state.to_text());
                return;
            }
        }
    }
}

fn text_of(item: &Value, name: &str) -> String {
    item[name].as_str().expect("a text").to_owned()
}

/// Returns a date that grows with `n`.
fn date(n: usize) -> String {
    format!("2020-01-01T00:{:02}:{:02}.0000000Z", n / 60, n % 60)
}

/// Waits until all changes are processed.
async fn settle(pipelines: &Pipelines) {
    let settled = tokio::time::timeout(PATIENCE, pipelines.settled()).await;
    let Ok(settled) = settled else {
        panic!(
            "not settled: {:?}\n{:?}",
            pipelines.last_error(),
            pipelines.status().await
        );
    };
    settled.expect("the feeds can be read");
}

/// Waits until `is_reached` is true of the status.
async fn wait_for(pipelines: &Pipelines, is_reached: impl Fn(&Status) -> bool) {
    wait_until_async("the status", async || {
        let status = pipelines.status().await.expect("a status");
        if is_reached(&status) {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
}

/// Discards the progress of a load.
struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _stage: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn end(&self) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_share_the_ranges_and_the_survivor_of_a_crash_takes_over_all() {
    let fixture = Fixture::new(Model::V3).await;
    let lifetime = Duration::from_secs(2);
    let (first, second) = (
        fixture.started_with(lifetime),
        fixture.started_with(lifetime),
    );
    // Five ranges: two of `users`, three of `posts`.
    let is_even = |status: &Status| {
        let ranges: Vec<usize> = status.workers.iter().map(|worker| worker.ranges).collect();
        ranges.contains(&2) && ranges.contains(&3)
    };
    wait_for(&first, is_even).await;
    let user = fixture.create_user(1).await;
    for n in 0..20 {
        fixture.create_post(&user, n).await;
    }
    settle(&second).await;
    fixture.assert_exact().await;

    // A crash: nothing is released. The copies of the dead worker's ranges arrive nevertheless.
    drop(first);
    for n in 20..40 {
        fixture.create_post(&user, n).await;
    }
    fixture.rename(&user, "other").await;
    settle(&second).await;
    fixture.assert_exact().await;
    wait_for(&second, |status| {
        status.workers.iter().any(|w| w.is_own && w.ranges == 5)
    })
    .await;

    // An orderly end leaves no ranges.
    let id = second.worker_id();
    second.stop().await;
    let status = second.status().await.expect("a status");
    let mut ranges = status.pipelines.iter().flat_map(|p| &p.ranges);
    assert!(
        ranges.all(|range| range.owner.as_ref() != Some(&id)),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_end_at_any_point_lose_nothing() {
    let fixture = Fixture::new(Model::V3).await;
    let mut users = Vec::new();
    for n in 0..3 {
        users.push(fixture.create_user(n).await);
    }
    for round in 0..6 {
        let pipelines = fixture.started_with(Duration::from_millis(600));
        // The ranges of the worker before are free after its lifetime.
        wait_for(&pipelines, |status| {
            status.workers.iter().any(|w| w.is_own && w.ranges > 0)
        })
        .await;
        for n in 0..25 {
            let user = &users[n % users.len()];
            fixture.create_post(user, round * 25 + n).await;
        }
        let name = format!("name{round}x");
        fixture.rename(&users[round % 3], &name).await;
        users[round % 3].username = name;
        // The worker ends somewhere in its work, or after it.
        let pause = Duration::from_millis(70 * round as u64 % 200);
        let _ = tokio::time::timeout(pause, pipelines.settled()).await;
        drop(pipelines);
    }
    let last = fixture.started();
    settle(&last).await;
    fixture.assert_exact().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_cannot_be_processed_becomes_a_dead_letter_and_can_be_retried() {
    let fixture = Fixture::new(Model::V3).await;
    let pipelines = fixture.started();
    let user = fixture.create_user(1).await;
    // A post without an author cannot be copied to the author's partition.
    let posts = fixture.container("posts");
    let mut poison = json!({
        "id": "bad1", "postId": "bad1", "type": "post", "creationDate": date(1), "content": "x",
        "title": "t", "commentCount": 0, "likeCount": 0, "userUsername": "name1",
    });
    let (client, meter) = (&fixture.client, &fixture.meter);
    let stored = client.upsert(meter, &posts, "bad1", &poison, None).await;
    stored.expect("stored");
    for n in 2..12 {
        fixture.create_post(&user, n).await;
    }
    settle(&pipelines).await;
    let letters = pipelines.dead_letters().await.expect("a list");
    assert_eq!(letters.len(), 1, "{letters:?}");
    let letter = &letters[0];
    assert_eq!(letter.reaction, "copyToUsers");
    assert_eq!(letter.items[0]["id"], "bad1");
    assert!(letter.error.contains("userId"), "{}", letter.error);
    assert_eq!(letter.attempts, ServiceOptions::default().attempts);
    // The feed went on, and the other reaction to the change was complete.
    assert_eq!(fixture.items("users", "c.type = 'post'").await.len(), 10);
    assert_eq!(fixture.items("feed", "true").await.len(), 11);
    let status = pipelines.status().await.expect("a status");
    let copies = &status.pipelines[1];
    assert_eq!(copies.ranges.iter().map(|r| r.dead_letters).sum::<u64>(), 1);

    // A retry fails as long as the item is as it was.
    let retried = pipelines
        .retry_dead_letter(&letter.pipeline, &letter.id)
        .await;
    assert!(retried.is_err(), "{retried:?}");
    // The item is repaired while no worker runs, so that only the retry can copy it.
    pipelines.stop().await;
    poison["userId"] = user.id.as_str().into();
    let stored = client.upsert(meter, &posts, "bad1", &poison, None).await;
    stored.expect("stored");
    let retried = pipelines
        .retry_dead_letter(&letter.pipeline, &letter.id)
        .await;
    assert_eq!(retried, Ok(true));
    assert_eq!(fixture.items("users", "c.type = 'post'").await.len(), 11);
    assert_eq!(pipelines.dead_letters().await, Ok(vec![]));
    let again = pipelines
        .retry_dead_letter(&letter.pipeline, &letter.id)
        .await;
    assert_eq!(again, Ok(false), "there is no such dead letter any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn splits_and_merges_while_pipelines_run_lose_nothing() {
    let fixture = Fixture::new(Model::V3).await;
    let (first, second) = (fixture.started(), fixture.started());
    let user = fixture.create_user(1).await;
    for n in 0..60 {
        fixture.create_post(&user, n).await;
    }
    let partitions = "/dbs/blog/colls/posts/partitions";
    fixture.manage(&format!("{partitions}/0/split"), r#"{"at":"median"}"#);
    for n in 60..90 {
        fixture.create_post(&user, n).await;
    }
    settle(&first).await;
    fixture.assert_exact().await;

    // The halves of partition 0 are 3 and 4.
    fixture.manage(&format!("{partitions}/merge"), r#"{"ids":["3","4"]}"#);
    for n in 90..120 {
        fixture.create_post(&user, n).await;
    }
    fixture.rename(&user, "other").await;
    settle(&second).await;
    fixture.assert_exact().await;
    // The leases of ranges that no longer exist disappear.
    wait_for(&first, |status| {
        let ranges = status.pipelines[1].ranges.iter();
        ranges.map(|range| range.range.as_str()).eq(["1", "2", "5"])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_post_leaves_no_copies_and_the_feed_is_filled_again() {
    let fixture = Fixture::new(Model::V3).await;
    let pipelines = fixture.started();
    let user = fixture.create_user(1).await;
    let mut posts = Vec::new();
    for n in 0..110 {
        posts.push(fixture.create_post(&user, n).await);
    }
    settle(&pipelines).await;
    fixture.assert_exact().await;
    // One of the feed, one that is too old for the feed, and the newest.
    for n in [50, 3, 109] {
        fixture.delete_post(&posts[n]).await;
    }
    settle(&pipelines).await;
    fixture.assert_exact().await;
    assert_eq!(fixture.items("feed", "true").await.len(), 100);
    assert_eq!(fixture.items("users", "c.type = 'post'").await.len(), 107);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_old_and_new_posts_leave_exactly_the_hundred_newest_in_the_feed() {
    let fixture = Fixture::new(Model::V3).await;
    let pipelines = fixture.started();
    let user = fixture.create_user(1).await;
    let mut posts = Vec::new();
    for n in 0..105 {
        posts.push(fixture.create_post(&user, n).await);
    }
    settle(&pipelines).await;
    // The oldest, the oldest of the feed, the newest; then the same again after a crash.
    for title in ["first", "second"] {
        for n in [0, 5, 104] {
            let edited = fixture
                .blog
                .edit_post(&fixture.meter, &posts[n].id, title, "text")
                .await;
            edited.expect("edited");
        }
        settle(&pipelines).await;
        fixture.assert_exact().await;
    }
    // Written to the feed directly, a post that is older than all of a full feed does not stay.
    let (client, meter, feed) = (&fixture.client, &fixture.meter, fixture.container("feed"));
    let before = fixture.items("feed", "true").await;
    let mut old = before[0].clone();
    old["id"] = "old".into();
    old["creationDate"] = "2019-01-01T00:00:00.0000000Z".into();
    let stored = client
        .upsert(meter, &feed, "post", &old, Some("truncateFeed"))
        .await;
    stored.expect("stored");
    assert_eq!(fixture.items("feed", "true").await, before);
    // A post of the feed that is written again takes no other's place.
    let stored = client
        .upsert(meter, &feed, "post", &before[0], Some("truncateFeed"))
        .await;
    stored.expect("stored");
    assert_eq!(fixture.items("feed", "true").await, before);
    // A feed that is too long is cut at the next write.
    for n in 200..205 {
        let mut newer = before[0].clone();
        newer["id"] = format!("new{n}").into();
        newer["creationDate"] = date(n).into();
        let trigger = (n == 204).then_some("truncateFeed");
        let stored = client.upsert(meter, &feed, "post", &newer, trigger).await;
        stored.expect("stored");
    }
    assert_eq!(fixture.items("feed", "true").await.len(), 100);
    assert_eq!(
        fixture.items("feed", "STARTSWITH(c.id, 'new')").await.len(),
        5
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_more_comments_on_a_post_than_a_page_is_renamed_in_all_of_them() {
    let fixture = Fixture::new(Model::V2).await;
    let pipelines = fixture.started();
    let (author, user) = (fixture.create_user(1).await, fixture.create_user(2).await);
    let post = fixture.create_post(&author, 1).await;
    let comment = |n: usize| {
        json!({
            "id": format!("c{n}"), "type": "comment", "postId": post.id, "userId": user.id,
            "userUsername": user.username, "content": "x", "creationDate": date(n),
        })
    };
    let posts = fixture.container("posts");
    for batch in 0..6 {
        let comments: Vec<Value> = (batch * 200..(batch + 1) * 200).map(comment).collect();
        let mut remaining = comments.as_slice();
        while !remaining.is_empty() {
            let created = fixture
                .client
                .execute(
                    &fixture.meter,
                    &posts,
                    &post.id,
                    "bulkLoad",
                    &json!([remaining]),
                )
                .await;
            let created = created.expect("created").as_u64().expect("a number");
            remaining = &remaining[created as usize..];
        }
    }
    fixture.rename(&user, "renamed").await;
    settle(&pipelines).await;
    let renamed = fixture.items("posts", "c.userUsername = 'renamed'").await;
    assert_eq!(renamed.len(), 1_200);
    fixture.assert_exact().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_of_the_pipelines_are_shown_as_status_metrics_and_consequences() {
    let fixture = Fixture::new(Model::V3).await;
    let pipelines = fixture.started();
    let before = now();
    let user = fixture.create_user(1).await;
    let post = Post {
        id: "fresh".into(),
        user: user.clone(),
        title: "Now".into(),
        content: "Text".into(),
        created: now().to_string(),
    };
    let meter = Meter::recording();
    let created = fixture.blog.create_post(&meter, &post).await;
    created.expect("created");
    pipelines.wake().ring_after(&meter.records());
    settle(&pipelines).await;

    let status = pipelines.status().await.expect("a status");
    let own = status.workers.iter().find(|worker| worker.is_own);
    assert_eq!(own.map(|own| &own.id), Some(&pipelines.worker_id()));
    let [users, posts] = &status.pipelines[..] else {
        panic!("{status:?}");
    };
    assert_eq!((users.ranges.len(), posts.ranges.len()), (2, 3));
    assert_eq!((users.lag(), posts.lag()), (Some(0), Some(0)));
    assert!(posts.feed_reads > 0 && posts.feed_ru.0 > 0);
    for reaction in &posts.reactions {
        assert_eq!(
            (reaction.processed, reaction.written),
            (1, 1),
            "{reaction:?}"
        );
        assert!(reaction.ru.0 > 0);
        assert_eq!(reaction.delivery.len(), 1, "{reaction:?}");
    }
    // The sum over the ranges is the same as that over the reactions and their pages.
    let of_ranges: u64 = posts.ranges.iter().map(|range| range.ru.0).sum();
    let of_reactions: u64 = posts.reactions.iter().map(|reaction| reaction.ru.0).sum();
    assert!(of_ranges > of_reactions && of_ranges <= posts.ru().0);

    let consequences = pipelines.consequences("fresh", before);
    let mut names: Vec<&str> = consequences.iter().map(|c| c.reaction.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["copyToFeed", "copyToUsers"]);
    let ru: u64 = consequences.iter().map(|c| c.ru.0).sum();
    assert_eq!(ru, of_reactions, "of the only post");
    let requests: u64 = consequences
        .iter()
        .flat_map(|c| &c.requests)
        .map(|request| request.charge.0)
        .sum();
    assert_eq!(requests, ru);
    assert!(pipelines.consequences("fresh", now()).is_empty());

    let metrics = pipelines.metrics();
    let line = "blog_pipeline_changes_total{pipeline=\"blog.posts\",reaction=\"copyToFeed\"} 1";
    assert!(metrics.lines().any(|l| l == line), "{metrics}");
    assert!(
        metrics.contains("blog_pipeline_lag_changes{pipeline=\"blog.posts\",range=\"0\"} 0"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lag_of_a_feed_without_a_worker_is_shown() {
    let fixture = Fixture::new(Model::V3).await;
    let pipelines = fixture.started();
    let user = fixture.create_user(1).await;
    settle(&pipelines).await;
    pipelines.stop().await;
    fixture.create_post(&user, 1).await;
    let other = fixture.pipelines();
    let status = other.status().await.expect("a status");
    assert!(status.workers.is_empty());
    let lag = status.pipelines[1].lag().expect("it is known");
    assert!(lag >= 1, "{status:?}");
    assert!(other.lag().await.expect("it is known") >= 1);
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_was_created_again_is_read_from_its_beginning() {
    let fixture = Fixture::new(Model::V3).await;
    let user = fixture.create_user(1).await;
    for n in 0..10 {
        fixture.create_post(&user, n).await;
    }
    let pipelines = fixture.started();
    settle(&pipelines).await;
    pipelines.stop().await;
    fixture.blog.delete().await.expect("deleted");
    fixture.blog.create().await.expect("created");
    let user = fixture.create_user(1).await;
    fixture.create_post(&user, 1).await;
    // The stored positions are after the ends of the new feeds: without a worker, none of the
    // three ranges of `posts` and two of `users` counts as processed.
    let lag = fixture.pipelines().lag().await.expect("a lag");
    assert!(lag >= 5, "{lag}");
    let pipelines = fixture.started();
    settle(&pipelines).await;
    fixture.assert_exact().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_is_interrupted_anywhere_continues_to_the_same_items() {
    let fixture = Fixture::new(Model::V3).await;
    let data = Arc::new(Dataset::new(3, 0.00004).expect("a data set"));
    let options = Fill {
        workers: 4,
        ..Fill::default()
    };
    // Each attempt has more time than the one before, and the last as much as it needs.
    let mut time = Duration::from_millis(20);
    let mut interruptions = 0;
    let filled = loop {
        let load = orrery_blog::fill(&fixture.blog, &data, options, &Quiet);
        match tokio::time::timeout(time, load).await {
            Ok(filled) => break filled.expect("it loads"),
            Err(_) => interruptions += 1,
        }
        time *= 2;
    };
    let totals = data.totals();
    let posts = fixture.items("posts", "true").await;
    let expected = totals.posts + totals.comments + totals.likes;
    assert_eq!(
        posts.len() as u64,
        expected,
        "after {interruptions} interruptions"
    );
    let users = fixture.items("users", "true").await.len() as u64;
    assert_eq!(users, totals.users + totals.posts);
    assert!(filled.items + filled.items_before <= expected + users + 100);
    fixture.assert_exact().await;
    let again = orrery_blog::fill(&fixture.blog, &data, options, &Quiet).await;
    assert_eq!(again.expect("nothing to do").items, 0);
    // Pipelines start after the loaded items.
    let pipelines = fixture.started();
    settle(&pipelines).await;
    let status = pipelines.status().await.expect("a status");
    let ranges = status.pipelines.iter().flat_map(|p| &p.ranges);
    assert_eq!(
        ranges.map(|range| range.changes).sum::<u64>(),
        0,
        "{status:?}"
    );

    let other = Fill {
        copies: Copies::ByPipelines,
        ..options
    };
    let refused = orrery_blog::fill(&fixture.blog, &data, other, &Quiet).await;
    let message = refused
        .expect_err("another origin of the copies")
        .to_string();
    assert!(message.contains("copies"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_whose_procedures_run_out_of_time_stores_all_items_once() {
    let fixture = Fixture::new(Model::V3).await;
    let rule = r#"{"operations":["execute_stored_procedure"],"count":6,"status":408}"#;
    fixture.server.manager().ok("POST", "/faults", rule);
    let data = Arc::new(Dataset::new(3, 0.00004).expect("a data set"));
    let filled = orrery_blog::fill(&fixture.blog, &data, Fill::default(), &Quiet).await;
    filled.expect("it loads");
    let rules = fixture.server.manager().get("/faults");
    assert!(rules.text().contains(r#""struck":6"#), "{}", rules.text());
    let totals = data.totals();
    let posts = fixture.items("posts", "true").await.len() as u64;
    assert_eq!(posts, totals.posts + totals.comments + totals.likes);
    fixture.assert_exact().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_are_left_to_the_pipelines_become_those_that_a_load_writes() {
    let fixture = Fixture::new(Model::V3).await;
    let data = Arc::new(Dataset::new(3, 0.00006).expect("a data set"));
    let options = Fill {
        copies: Copies::ByPipelines,
        ..Fill::default()
    };
    let filled = orrery_blog::fill(&fixture.blog, &data, options, &Quiet).await;
    filled.expect("it loads");
    assert_eq!(fixture.items("feed", "true").await.len(), 0);
    let pipelines = fixture.started();
    settle(&pipelines).await;
    fixture.assert_exact().await;
    assert_eq!(fixture.items("feed", "true").await.len(), 100);
    // Comments on posts, too, reach the copies.
    let comment = Comment {
        id: "c".into(),
        post_id: data.post(5).id,
        user: data.user(0),
        content: "x".into(),
        created: date(1),
    };
    let created = fixture.blog.create_comment(&fixture.meter, &comment).await;
    created.expect("created");
    settle(&pipelines).await;
    fixture.assert_exact().await;
}
