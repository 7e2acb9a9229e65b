//! The first step of a comparison: all items are read once, and their hash values are summed by
//! user and by post. Users and posts whose sums do not agree are suspects.
//!
//! ```text
//! users    user u   ──> contents[u][model], name[u][model]
//!          copy     ──> posts[p].short      − hash                      (V3)
//! posts    post     ──> posts[p].content    + hash,  .short + hash of the short form,
//!                       posts[p].comments − commentCount,  .likes − likeCount
//!          comment  ──> posts[p].content    + hash,  .comments + 1
//!          like     ──> posts[p].content    + hash,  .likes + 1
//! ```
//! A sum does not depend on the order of its items, so a container is read by its change feed,
//! which is the fastest way to read everything. An item that changes meanwhile is read twice and
//! makes its post a suspect; so do copies that are on their way. A difference is overlooked only if
//! two 64-bit hash values with random keys agree by chance.
//!
//! Memory: about 200 bytes for each user, and for each post of a *share* of the posts. A share that
//! grows beyond [`POSTS_MAX`] is halved, and the other half is compared in another pass.

use super::Suspects;
use crate::migrate::has_names;
use crate::models::short_post;
use crate::{Blog, BlogError, Meter, Model};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Posts in memory at a time.
const POSTS_MAX: usize = 250_000;
/// Changes in one page.
const PAGE_SIZE: usize = 1_000;
/// Partitions of a container that are read at the same time.
const CONCURRENT_PARTITIONS: usize = 4;
/// The largest number of models.
const MODELS: usize = Model::ALL.len();

/// The sums of one post in one model.
#[derive(Clone, Copy, Default)]
struct Sums {
    content: u64,
    /// Hash values of the expected short copies minus those of the copies found.
    short: u64,
    /// Number of comments minus the count that the post shows.
    comments: i64,
    likes: i64,
    /// True if an item shows another name than that of its user.
    has_other_name: bool,
}

impl Sums {
    /// Returns true if the copies within the model agree with their sources.
    fn is_consistent(&self) -> bool {
        self.short == 0 && self.comments == 0 && self.likes == 0 && !self.has_other_name
    }
}

/// The hash values of one user in each model; 0 if the model does not have the user.
#[derive(Clone, Copy, Default)]
struct UserHashes {
    content: [u64; MODELS],
    name: [u64; MODELS],
}

/// The posts whose hash value has the remainder `remainder` for the divisor `divisor`.
#[derive(Clone, Copy)]
struct Share {
    remainder: u64,
    divisor: u64,
}

/// The result of a scan.
#[derive(Default)]
pub(super) struct Scan {
    pub suspects: Suspects,
    /// Number of items read, each counted once if it did not change meanwhile.
    pub items: u64,
}

/// The sums during one scan.
struct Scanner<'a> {
    blogs: &'a [Blog],
    /// True if the copies within the first blog are not compared.
    has_trusted_reference: bool,
    random: RandomState,
    users: HashMap<String, UserHashes>,
    posts: HashMap<String, [Sums; MODELS]>,
    share: Share,
    /// Shares of the posts that are still to be read.
    shares_left: Vec<Share>,
    items: u64,
    /// The number of items for an observer.
    items_read: &'a AtomicU64,
}

/// Reads all items of all models and returns the suspects. `items_read` shows the progress.
pub(super) async fn scan(
    blogs: &[Blog],
    has_trusted_reference: bool,
    items_read: &AtomicU64,
) -> Result<Scan, BlogError> {
    let mut scanner = Scanner {
        blogs,
        has_trusted_reference,
        random: RandomState::new(),
        users: HashMap::new(),
        posts: HashMap::new(),
        share: Share {
            remainder: 0,
            divisor: 1,
        },
        shares_left: Vec::new(),
        items: 0,
        items_read,
    };
    let mut scan = Scan::default();
    scanner.read_users().await?;
    loop {
        scanner.read_posts().await?;
        scanner.take_suspicious_posts(&mut scan.suspects);
        match scanner.shares_left.pop() {
            Some(share) => scanner.share = share,
            None => break,
        }
        // The items of later passes were counted in the first one.
        let items = scanner.items;
        scanner.read_short_copies().await?;
        scanner.items = items;
    }
    scanner.add_suspicious_users(&mut scan.suspects);
    scan.suspects.feed = blogs.iter().any(|blog| blog.model == Model::V3);
    scan.items = scanner.items;
    Ok(scan)
}

impl Scanner<'_> {
    async fn read_users(&mut self) -> Result<(), BlogError> {
        let blogs = self.blogs;
        for (index, blog) in blogs.iter().enumerate() {
            read_container(blog, &blog.users, |item| self.add_to_users(index, item)).await?;
        }
        Ok(())
    }

    /// Reads the short copies in `users` again, for the current share of the posts.
    async fn read_short_copies(&mut self) -> Result<(), BlogError> {
        let blogs = self.blogs;
        for (index, blog) in blogs.iter().enumerate() {
            if blog.model == Model::V3 {
                let add = |item: &Value| {
                    if item["type"] == "post" {
                        self.add_short_copy(index, item);
                    }
                };
                read_container(blog, &blog.users, add).await?;
            }
        }
        Ok(())
    }

    async fn read_posts(&mut self) -> Result<(), BlogError> {
        let blogs = self.blogs;
        let is_first = self.share.remainder == 0;
        for (index, blog) in blogs.iter().enumerate() {
            let add = |item: &Value| {
                if is_first {
                    self.items += 1;
                    self.items_read.store(self.items, Ordering::Relaxed);
                }
                self.add_to_posts(index, blog.model, item);
            };
            read_container(blog, &blog.posts, add).await?;
        }
        Ok(())
    }

    fn add_to_users(&mut self, index: usize, item: &Value) {
        self.items += 1;
        self.items_read.store(self.items, Ordering::Relaxed);
        if item["type"] == "post" {
            self.add_short_copy(index, item);
            return;
        }
        let id = item["id"].as_str().unwrap_or_default();
        let content = self.hash_of(item, |name| name != "type" && name != "userId");
        let name = self.hash_of_text(item["username"].as_str().unwrap_or_default());
        let hashes = self.users.entry(id.to_owned()).or_default();
        // The later version of a user that changes meanwhile replaces the earlier one.
        hashes.content[index] = content;
        hashes.name[index] = name;
    }

    fn add_short_copy(&mut self, index: usize, item: &Value) {
        let id = item["id"].as_str().unwrap_or_default();
        let hash = self.hash_of(item, |_| true);
        if let Some(sums) = self.sums(id) {
            sums[index].short = sums[index].short.wrapping_sub(hash);
        }
    }

    fn add_to_posts(&mut self, index: usize, model: Model, item: &Value) {
        let kind = item["type"].as_str().unwrap_or_default();
        let post_id = item["postId"].as_str().unwrap_or_default();
        if kind == "deletedPost" || !self.is_in_share(post_id) {
            return;
        }
        let is_post = kind == "post";
        let mut short = 0;
        if is_post && model == Model::V3 {
            short = short_post(item).map_or(0, |copy| self.hash_of(&copy, |_| true));
        }
        let content = self.hash_of(item, |name| {
            !matches!(name, "userUsername" | "commentCount" | "likeCount")
        });
        let mut has_other_name = false;
        if has_names(model) {
            let name = self.hash_of_text(item["userUsername"].as_str().unwrap_or_default());
            let user_id = item["userId"].as_str().unwrap_or_default();
            let user = self.users.get(user_id);
            has_other_name = user.is_none_or(|user| user.name[index] != name);
        }

        let Some(sums) = self.sums(post_id) else {
            return;
        };
        let sums = &mut sums[index];
        sums.content = sums.content.wrapping_add(content);
        sums.short = sums.short.wrapping_add(short);
        sums.has_other_name |= has_other_name;
        if !has_names(model) {
            return;
        }
        match kind {
            "comment" => sums.comments += 1,
            "like" => sums.likes += 1,
            _ => {
                // A post without counts is a suspect.
                sums.comments -= item["commentCount"].as_i64().unwrap_or(i64::from(i32::MAX));
                sums.likes -= item["likeCount"].as_i64().unwrap_or(i64::from(i32::MAX));
            }
        }
    }

    /// Returns the sums of a post, if it belongs to the current share. Halves the share if it has
    /// too many posts.
    fn sums(&mut self, post_id: &str) -> Option<&mut [Sums; MODELS]> {
        if !self.is_in_share(post_id) {
            return None;
        }
        if self.posts.len() >= POSTS_MAX && !self.posts.contains_key(post_id) {
            let Share { remainder, divisor } = self.share;
            self.shares_left.push(Share {
                remainder: remainder + divisor,
                divisor: divisor * 2,
            });
            self.share.divisor = divisor * 2;
            let mut posts = std::mem::take(&mut self.posts);
            posts.retain(|id, _| self.is_in_share(id));
            self.posts = posts;
            if !self.is_in_share(post_id) {
                return None;
            }
        }
        Some(self.posts.entry(post_id.to_owned()).or_default())
    }

    fn is_in_share(&self, post_id: &str) -> bool {
        let Share { remainder, divisor } = self.share;
        divisor == 1 || self.hash_of_text(post_id) % divisor == remainder
    }

    /// Moves the suspicious posts of the current share to `suspects`.
    fn take_suspicious_posts(&mut self, suspects: &mut Suspects) {
        for (post_id, sums) in self.posts.drain() {
            let sums = &sums[..self.blogs.len()];
            let mut checked = sums.iter().skip(usize::from(self.has_trusted_reference));
            let is_consistent = checked.all(Sums::is_consistent);
            let is_equal = sums.iter().all(|other| other.content == sums[0].content);
            if !is_consistent || !is_equal {
                suspects.posts.insert(post_id);
            }
        }
    }

    fn add_suspicious_users(&self, suspects: &mut Suspects) {
        for (user_id, hashes) in &self.users {
            let contents = &hashes.content[..self.blogs.len()];
            if contents.iter().any(|content| *content != contents[0]) {
                suspects.users.insert(user_id.clone());
            }
        }
    }

    /// Returns a hash of the properties of an item whose names `is_included` accepts. System
    /// properties are left out. The order of the properties has no influence.
    fn hash_of(&self, item: &Value, is_included: impl Fn(&str) -> bool) -> u64 {
        let mut sum: u64 = 1;
        for (name, value) in item.as_object().into_iter().flatten() {
            if name.starts_with('_') || !is_included(name) {
                continue;
            }
            let mut hasher = self.random.build_hasher();
            hasher.write(name.as_bytes());
            hasher.write_u8(0);
            match value {
                Value::String(text) => hasher.write(text.as_bytes()),
                other => hasher.write(other.to_string().as_bytes()),
            }
            sum = sum.wrapping_add(hasher.finish());
        }
        // The sum of the properties is hashed once more: otherwise two items could exchange
        // properties without a change of the sum of the post.
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(sum);
        hasher.finish()
    }

    fn hash_of_text(&self, text: &str) -> u64 {
        let mut hasher = self.random.build_hasher();
        hasher.write(text.as_bytes());
        hasher.finish()
    }
}

/// Reads all items of a container.
async fn read_container(
    blog: &Blog,
    container: &str,
    mut add: impl FnMut(&Value),
) -> Result<(), BlogError> {
    let client = &blog.client;
    let ranges = client.ranges(container).await?;
    let mut waiting: Vec<(String, Option<String>)> = Vec::new();
    for range in ranges.iter().rev() {
        waiting.push((range.id.clone(), None));
    }
    // Up to four partitions are read at the same time, page by page.
    while !waiting.is_empty() {
        let batch = waiting.split_off(waiting.len().saturating_sub(CONCURRENT_PARTITIONS));
        let pages: Vec<_> = batch
            .into_iter()
            .map(|(range, etag)| async move {
                let meter = Meter::new();
                let page = client.changes(&meter, container, &range, etag.as_deref(), PAGE_SIZE);
                (page.await, range, etag)
            })
            .collect();
        let mut pages = stream::iter(pages).buffer_unordered(CONCURRENT_PARTITIONS);
        while let Some((page, range, etag)) = pages.next().await {
            let page = page?;
            page.items.iter().for_each(&mut add);
            let is_at_end = page.items.is_empty() && etag.as_deref() == Some(page.etag.as_str());
            if !is_at_end {
                waiting.push((range, Some(page.etag)));
            }
        }
    }
    Ok(())
}
