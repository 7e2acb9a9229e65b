//! The blog on a server under test: sites as processes see them, simulated users, and a model of
//! the data that must be stored.

use crate::program::Server;
use orrery_blog::pipelines::{Pipelines, ServiceOptions};
use orrery_blog::writes::{Outcome, WriteOperation, Writes, date_now};
use orrery_blog::{Blog, Client, Meter, Model, Progress, Site, Throughput};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::interval_at;

/// Time limit of one write of a simulated user. A write waits for a cut-over.
const WRITE_TIME_MAX: Duration = Duration::from_secs(60);

/// The pause of a simulated user after a write is some times as long as the write, within bounds.
/// On a slow machine too, most of the time is left to what follows the writes: a migration could
/// not end otherwise, since the posts grow meanwhile.
const PAUSE_OF_WRITE: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A source of random numbers (SplitMix64): the same seed gives the same numbers.
pub(crate) struct Rng(u64);

impl Rng {
    /// Creates a source from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Discards all progress.
pub(crate) struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _stage: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn end(&self) {}
}

/// Throughput of two physical partitions for users and posts.
pub(crate) fn throughput() -> Throughput {
    Throughput {
        users: 12_000,
        posts: 12_000,
        feed: 6_000,
    }
}

/// Returns a client with connections of its own, as a process has.
pub(crate) fn client(server: &Server) -> Client {
    let endpoint = format!("http://{}", server.address);
    Client::new(&endpoint, &server.key, 16).expect("a valid endpoint and key")
}

/// Creates a site with one model, and its containers.
pub(crate) async fn site_with_only(server: &Server, home: Model) -> Site {
    let site = Site::open_or_create(client(server), "blog", home, true, throughput())
        .await
        .expect("the site is created");
    site.blog(home)
        .create()
        .await
        .expect("the model is created");
    site
}

/// Opens the site as another process would.
pub(crate) async fn open(server: &Server) -> Site {
    Site::open(client(server), "blog", throughput())
        .await
        .expect("the site exists")
}

/// Starts the pipelines of a site.
pub(crate) fn start_pipelines(site: &Site) -> Pipelines {
    let options = ServiceOptions {
        lifetime: Duration::from_secs(2),
        poll_max: Duration::from_millis(50),
        ..ServiceOptions::default()
    };
    let pipelines = Pipelines::of_site(site, options);
    pipelines.start();
    pipelines
}

/// The data that one simulated user has written successfully.
#[derive(Default)]
pub(crate) struct Written {
    pub user_id: String,
    pub username: String,
    /// Title and content by post id.
    pub posts: BTreeMap<String, (String, String)>,
    /// Post id and content by comment id.
    pub comments: BTreeMap<String, (String, String)>,
    /// Ids of the liked posts.
    pub likes: BTreeSet<String>,
    /// Number of writes.
    pub writes: u64,
}

/// The posts on which all simulated users comment.
pub(crate) type Posts = Arc<std::sync::Mutex<Vec<String>>>;

/// Signs up and writes until `stop` is true. Panics if a write fails.
pub(crate) async fn simulate_user(
    writes: Writes,
    seed: u64,
    posts: Posts,
    stop: Arc<AtomicBool>,
) -> Written {
    let mut random = Rng::new(seed);
    let mut written = Written {
        user_id: format!("user-{seed}"),
        username: format!("name-{seed}-0"),
        ..Written::default()
    };
    let sign_up = WriteOperation::SignUp {
        user_id: written.user_id.clone(),
        username: written.username.clone(),
    };
    submit(&writes, &mut written, sign_up).await;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        step(&writes, &mut random, &posts, &mut written).await;
        let pause = (began.elapsed() * PAUSE_OF_WRITE).clamp(PAUSE_MIN, PAUSE_MAX);
        interval_at(tokio::time::Instant::now() + pause, pause)
            .tick()
            .await;
    }
    written
}

/// Makes one random write.
async fn step(writes: &Writes, random: &mut Rng, posts: &Posts, written: &mut Written) {
    let number = written.writes;
    let user_id = written.user_id.clone();
    let own = pick(random, &written.posts.keys().cloned().collect::<Vec<_>>());
    let any = pick(random, &lock(posts));
    match (random.next() % 40, own, any) {
        (0..=7, _, _) => create_post(writes, posts, written).await,
        (8..=10, Some(post_id), _) => {
            let (title, content) = (format!("edited {number}"), format!("newer {number}"));
            let operation = WriteOperation::EditPost {
                post_id: post_id.clone(),
                user_id,
                title: title.clone(),
                content: content.clone(),
            };
            assert_eq!(submit(writes, written, operation).await, Outcome::Done);
            written.posts.insert(post_id, (title, content));
        }
        (11, Some(post_id), _) => {
            let operation = WriteOperation::DeletePost {
                post_id: post_id.clone(),
                user_id,
            };
            assert_eq!(submit(writes, written, operation).await, Outcome::Done);
            written.posts.remove(&post_id);
            lock(posts).retain(|post| *post != post_id);
        }
        (12, _, _) => {
            let username = format!("name-{user_id}-{number}");
            let operation = WriteOperation::Rename {
                user_id,
                username: username.clone(),
            };
            assert_eq!(submit(writes, written, operation).await, Outcome::Done);
            written.username = username;
        }
        (13..=25, _, Some(post_id)) => comment(writes, &post_id, written).await,
        (_, _, Some(post_id)) => {
            let operation = WriteOperation::like(&post_id, &user_id);
            if submit(writes, written, operation).await == Outcome::Done {
                written.likes.insert(post_id);
            }
        }
        _ => {}
    }
}

async fn create_post(writes: &Writes, posts: &Posts, written: &mut Written) {
    let (user_id, number) = (written.user_id.clone(), written.writes);
    let post_id = format!("post-{user_id}-{number}");
    let (title, content) = (format!("title {number}"), format!("content {number}"));
    let operation = WriteOperation::CreatePost {
        post_id: post_id.clone(),
        user_id,
        title: title.clone(),
        content: content.clone(),
        created: date_now(),
    };
    assert_eq!(submit(writes, written, operation).await, Outcome::Done);
    written.posts.insert(post_id.clone(), (title, content));
    lock(posts).push(post_id);
}

async fn comment(writes: &Writes, post_id: &str, written: &mut Written) {
    let (user_id, number) = (written.user_id.clone(), written.writes);
    let comment_id = format!("comment-{user_id}-{number}");
    let content = format!("comment {number}");
    let operation = WriteOperation::Comment {
        comment_id: comment_id.clone(),
        post_id: post_id.to_owned(),
        user_id,
        content: content.clone(),
        created: date_now(),
    };
    if submit(writes, written, operation).await == Outcome::Done {
        let comment = (post_id.to_owned(), content);
        written.comments.insert(comment_id, comment);
    }
}

/// Submits a write, which must not fail, and returns its outcome in the home model.
async fn submit(writes: &Writes, written: &mut Written, operation: WriteOperation) -> Outcome {
    let token = format!("{}-{}", written.user_id, written.writes);
    written.writes += 1;
    let deadline = Instant::now() + WRITE_TIME_MAX;
    let receipt = writes
        .submit(&token, operation, &Meter::new(), deadline)
        .await;
    receipt.expect("no write fails").outcome
}

fn pick(random: &mut Rng, list: &[String]) -> Option<String> {
    let index = random.next() as usize % list.len().max(1);
    list.get(index).cloned()
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no simulated user has failed")
}

/// Compares the contents of a model with everything that the users have written.
pub(crate) async fn assert_contents(blog: &Blog, users: &[Written]) {
    let meter = Meter::new();
    let names: BTreeMap<&str, &str> = users
        .iter()
        .map(|user| (user.user_id.as_str(), user.username.as_str()))
        .collect();
    for user in users {
        let stored = blog.user(&meter, &user.user_id).await.expect("the user");
        assert_eq!(stored["username"], user.username.as_str());
        let posts = blog
            .posts_of_user(&meter, &user.user_id)
            .await
            .expect("the posts");
        let ids: BTreeSet<_> = posts.iter().map(|post| text(post, "id")).collect();
        assert_eq!(ids, user.posts.keys().cloned().collect());
        for (post_id, (title, content)) in &user.posts {
            let post = blog.post(&meter, post_id).await.expect("the post");
            assert_eq!(post["title"], title.as_str());
            assert_eq!(post["content"], content.as_str());
            assert_eq!(post["userUsername"], user.username.as_str());
            assert_reactions(blog, users, &names, post_id).await;
        }
    }
}

/// Compares the comments and likes of one post with everything that the users have written.
async fn assert_reactions(
    blog: &Blog,
    users: &[Written],
    names: &BTreeMap<&str, &str>,
    post_id: &str,
) {
    let meter = Meter::new();
    let post = blog.post(&meter, post_id).await.expect("the post");
    let mut expected = BTreeMap::new();
    let mut expected_likes = BTreeSet::new();
    for user in users {
        for (id, (on, content)) in &user.comments {
            if on == post_id {
                expected.insert(id.clone(), (user.username.clone(), content.clone()));
            }
        }
        if user.likes.contains(post_id) {
            expected_likes.insert(user.username.clone());
        }
    }
    let comments = blog.comments(&meter, post_id).await.expect("the comments");
    let stored: BTreeMap<_, _> = comments
        .iter()
        .map(|comment| {
            assert_eq!(
                names.get(text(comment, "userId").as_str()).copied(),
                comment["userUsername"].as_str()
            );
            let contents = (text(comment, "userUsername"), text(comment, "content"));
            (text(comment, "id"), contents)
        })
        .collect();
    assert_eq!(stored, expected, "comments of {post_id}");
    let likes = blog.likes(&meter, post_id).await.expect("the likes");
    let stored: BTreeSet<_> = likes
        .iter()
        .map(|like| text(like, "userUsername"))
        .collect();
    assert_eq!(stored, expected_likes, "likes of {post_id}");
    assert_eq!(likes.len(), expected_likes.len());
    assert_eq!(post["commentCount"], expected.len());
    assert_eq!(post["likeCount"], expected_likes.len());
}

fn text(item: &Value, name: &str) -> String {
    item[name].as_str().unwrap_or_default().to_owned()
}
