//! The creation of the small blog: its containers, its items, and pipelines that stand behind the
//! last change.

use crate::control::existing_is_fine;
use crate::dataset::{Comment, Dataset, User};
use crate::lesson::scratch;
use crate::models::{Blog, Model, Throughput};
use crate::pipelines::Pipeline;
use crate::{BlogError, Client, Meter};

/// Four physical partitions of `posts`, one of each other container.
const THROUGHPUT: Throughput = Throughput {
    users: 6_000,
    posts: 24_000,
    feed: 6_000,
};
/// The container with the feed that no trigger cuts, and its throughput.
const UNCUT: &str = "uncut";
const UNCUT_RU_PER_SECOND: u32 = 6_000;
/// Posts of others on which the user who is renamed has commented.
const COMMENTED: usize = 3;
/// Procedure that creates many items in one transaction.
const BULK_LOAD: &str = include_str!("../../../scripts/bulkLoad.js");

/// The small blog while steps run in it.
pub(super) struct Stage {
    pub(super) blog: Blog,
    pub(super) data: Dataset,
    /// The pipeline from `users` to the names in `posts`.
    pub(super) to_posts: Pipeline,
    /// The pipeline from `posts` to the copies in `users` and `feed`.
    pub(super) to_copies: Pipeline,
    /// The user who is renamed, under the present name.
    pub(super) user: User,
    /// Number of posts written by steps.
    pub(super) written: u64,
    /// Link of the container with the feed that is not cut.
    pub(super) uncut: String,
    /// Number of posts in it.
    pub(super) uncut_posts: u64,
    /// Number of trials so far, which gives fresh ids.
    pub(super) trials: u64,
}

impl Stage {
    /// Creates the blog in a database. Containers that an earlier process has left are replaced.
    pub(super) async fn create(client: Client, database: &str) -> Result<Self, BlogError> {
        let blog = Blog::new(client, Model::V3, database).with_throughput(THROUGHPUT);
        let data = Dataset::new(1, scratch::SCALE)?;
        existing_is_fine(blog.client.create_database(database).await)?;
        let uncut = format!("dbs/{database}/colls/{UNCUT}");
        for container in blog.containers() {
            blog.client.delete_container(container).await?;
        }
        blog.client.delete_container(&uncut).await?;
        blog.client
            .clear_cached_metadata(&format!("dbs/{database}"));

        // The feed that is not cut is a container like the feed, without the trigger.
        blog.create_missing().await?;
        scratch::fill(&blog, &data).await?;
        create_loadable(&blog.client, database, UNCUT, "/type", UNCUT_RU_PER_SECOND).await?;

        // The pipelines begin behind everything that was loaded.
        let user = add_comments(&blog, &data).await?;
        let users = scratch::end_of_feed(&blog, &blog.users).await?;
        let posts = scratch::end_of_feed(&blog, &blog.posts).await?;
        let mut pipelines = Pipeline::of(&blog).into_iter();
        let (Some(to_posts), Some(to_copies)) = (pipelines.next(), pipelines.next()) else {
            return Err(BlogError::unexpected("the lab", "V3 has two pipelines"));
        };
        Ok(Self {
            to_posts: to_posts.from_positions(users),
            to_copies: to_copies.from_positions(posts),
            blog,
            data,
            user,
            written: 0,
            uncut,
            uncut_posts: 0,
            trials: 0,
        })
    }

    /// Returns a number that no trial has used.
    pub(super) fn next_trial(&mut self) -> u64 {
        self.trials += 1;
        self.trials
    }
}

/// Creates a container with the procedure `bulkLoad`.
pub(super) async fn create_loadable(
    client: &Client,
    database: &str,
    name: &str,
    key_path: &str,
    ru_per_second: u32,
) -> Result<(), BlogError> {
    let database = format!("dbs/{database}");
    client
        .create_container(&database, name, key_path, ru_per_second)
        .await?;
    let link = format!("{database}/colls/{name}");
    client.create_procedure(&link, "bulkLoad", BULK_LOAD).await
}

/// Creates `bulkLoad` in a container.
pub(super) async fn add_bulk_load(client: &Client, link: &str) -> Result<(), BlogError> {
    client.create_procedure(link, "bulkLoad", BULK_LOAD).await
}

/// Lets the user with the fewest posts comment on posts of others, and returns the user.
async fn add_comments(blog: &Blog, data: &Dataset) -> Result<User, BlogError> {
    let posts = |n: &u64| data.posts_of(*n).count();
    let n = (0..data.users()).min_by_key(posts).unwrap_or_default();
    let user = data.user(n);
    let of_others = (0..data.posts()).filter(|k| !data.posts_of(n).contains(k));
    let meter = Meter::new();
    for (number, k) in of_others.take(COMMENTED).enumerate() {
        let sample = data.fresh_comment(number as u64);
        let comment = Comment {
            post_id: data.post(k).id,
            user: user.clone(),
            ..sample
        };
        blog.create_comment(&meter, &comment).await?;
    }
    Ok(user)
}
