//! The copies of posts in `feed`: exactly the 100 newest.
//!
//! The post-trigger `truncateFeed` keeps the length and removes the oldest, which may be the post
//! just written. A write to a full feed with a post that is older than all in the feed would thus
//! change nothing, at the price of a write with its trigger. Every comment on an old post would
//! cause one. The reaction therefore reads the date of the oldest post of a full feed, the *floor*,
//! and leaves older posts out. The floor that was read last is remembered: a post that is newer is
//! written without a look.
//!
//! A deleted post leaves a gap, which is filled from `posts`. The fill creates copies and never
//! replaces one, and looks at each post again after its copy was created. A change of the post that
//! came between is thus not lost: either the look finds the change, or the change is processed
//! after the copy exists.

use super::Pipeline;
use super::reactions::{Page, remove_item, string_property};
use crate::models::{FEED, FEED_LENGTH, short_post};
use crate::sync::lock;
use crate::{BlogError, Meter, Query};
use serde_json::Value;
use std::collections::HashSet;

/// The partition key of all posts in the feed.
const KEY: &str = "post";
const TRIGGER: &str = "truncateFeed";
/// Copies after which a remembered floor is read again: the longer it is kept, the more posts that
/// are too old for the feed are written.
const FLOOR_USES_MAX: u32 = 100;
/// Looks at a post that changes all the time while its copy is created.
const LOOKS_MAX: usize = 10;

/// The date of the oldest post of a full feed when the feed was last read.
#[derive(Debug, Default)]
pub(super) struct Floor {
    date: Option<String>,
    /// Number of copies written since.
    uses: u32,
}

impl Pipeline {
    /// Writes the short copy of a post to the feed, unless the feed is full of newer posts.
    pub(super) async fn copy_to_feed(
        &self,
        page: &Page,
        meter: &Meter,
        post: &Value,
    ) -> Result<u64, BlogError> {
        let created = string_property(post, "creationDate")?;
        let Some(short) = short_post(post) else {
            return Ok(0);
        };
        if !self.is_above_remembered_floor(created) {
            let floor = self.floor_of_page(page, meter).await?;
            if floor.is_some_and(|floor| created < floor.as_str()) {
                return Ok(0);
            }
        }
        let feed = &self.blog.feed;
        self.blog
            .client
            .upsert(meter, feed, KEY, &short, Some(TRIGGER))
            .await?;
        Ok(1)
    }

    /// Removes the copy of a deleted post from the feed and fills the gap.
    pub(super) async fn remove_from_feed(
        &self,
        meter: &Meter,
        deleted: &Value,
    ) -> Result<u64, BlogError> {
        let id = string_property(deleted, "id")?;
        // The floor sinks when the gap is filled.
        *lock(&self.feed_floor) = Floor::default();
        let removed = remove_item(&self.blog, meter, &self.blog.feed, KEY, id).await?;
        // The gap is looked for even if the copy is gone: an earlier run may have ended before it
        // filled the gap.
        Ok(removed + self.fill_feed(meter).await?)
    }

    /// Adds the newest posts that are missing in a feed that is not full.
    async fn fill_feed(&self, meter: &Meter) -> Result<u64, BlogError> {
        let (client, feed) = (&self.blog.client, &self.blog.feed);
        let query = Query::new("SELECT VALUE f.id FROM f");
        let rows = client.query(meter, feed, KEY, &query).await?;
        if rows.len() as u64 >= FEED_LENGTH {
            return Ok(0);
        }
        let present: HashSet<&str> = rows.iter().filter_map(Value::as_str).collect();
        let newest = client
            .query_all(meter, &self.blog.posts, &Query::new(FEED))
            .await?;
        let mut added = 0;
        for post in &newest {
            if !present.contains(post["id"].as_str().unwrap_or_default()) {
                added += self.add_to_feed(meter, post).await?;
            }
        }
        Ok(added)
    }

    /// Creates the copy of a post and brings the copy up to date with changes that came between.
    async fn add_to_feed(&self, meter: &Meter, post: &Value) -> Result<u64, BlogError> {
        let (client, feed) = (&self.blog.client, &self.blog.feed);
        let id = string_property(post, "id")?;
        let Some(mut short) = short_post(post) else {
            return Ok(0);
        };
        let created = client
            .create_with_trigger(meter, feed, KEY, &short, TRIGGER)
            .await;
        match created {
            // Another reaction has written the copy.
            Err(e) if e.is_conflict() => return Ok(0),
            created => created?,
        }
        for _ in 0..LOOKS_MAX {
            let current = match client.read(meter, &self.blog.posts, id, id).await {
                Err(e) if e.is_item_missing() => None,
                read => short_post(&read?),
            };
            let Some(current) = current else {
                remove_item(&self.blog, meter, feed, KEY, id).await?;
                return Ok(0);
            };
            if current == short {
                return Ok(1);
            }
            client
                .upsert(meter, feed, KEY, &current, Some(TRIGGER))
                .await?;
            short = current;
        }
        Err(BlogError::unexpected(
            format!("filling the feed with '{id}'"),
            format!("the post changed {LOOKS_MAX} times meanwhile"),
        ))
    }

    /// Returns true if the feed had an older post when it was full and last read. Such a post may
    /// be written without a look: if the feed has only newer posts now, the trigger removes it.
    fn is_above_remembered_floor(&self, created: &str) -> bool {
        let mut floor = lock(&self.feed_floor);
        let is_above = floor.date.as_deref().is_some_and(|date| created >= date);
        floor.uses += u32::from(is_above);
        is_above && floor.uses <= FLOOR_USES_MAX
    }

    /// Returns the floor as it was after the page was read.
    async fn floor_of_page<'a>(
        &self,
        page: &'a Page,
        meter: &Meter,
    ) -> Result<Option<&'a String>, BlogError> {
        if let Some(floor) = page.floor.get() {
            return Ok(floor.as_ref());
        }
        let query = Query::new(format!(
            "SELECT VALUE f.creationDate FROM f ORDER BY f.creationDate DESC OFFSET {} LIMIT 1",
            FEED_LENGTH - 1
        ));
        let client = &self.blog.client;
        let rows = client.query(meter, &self.blog.feed, KEY, &query).await?;
        let date = rows.first().and_then(Value::as_str).map(str::to_owned);
        *lock(&self.feed_floor) = Floor {
            date: date.clone(),
            uses: 0,
        };
        Ok(page.floor.get_or_init(|| date).as_ref())
    }
}
