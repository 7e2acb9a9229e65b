//! The trials of the five questions: each runs the real thing and returns its figures.

use super::feed;
use super::stage::Stage;
use crate::lesson::lab::load::{is_key_full, large_item, small_item};
use crate::meter::{Measurement, Meter};
use crate::{BlogError, Query};
use futures_util::future::join_all;
use serde_json::json;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The posts of one user, of which only the user's id is known.
const POSTS_OF_USER: &str = "SELECT * FROM c WHERE c.userId = @userId AND c.type = 'post'";
/// The container of which one logical partition is filled.
const BRIM: &str = "brim";
const BRIM_RU_PER_SECOND: u32 = 6_000;
const LARGE_BYTES: usize = 64 << 10;
const WRITERS: u64 = 4;
/// Writes after which a logical partition without a lowered limit is left alone.
const WRITES_MAX: u64 = 1_000;

/// A trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trial {
    /// The posts of a user in `posts` with four physical partitions.
    FanOut,
    /// One item by its id and key, and by a query.
    PointRead,
    /// A procedure that runs twice.
    Again,
    /// A post in a full feed.
    FullFeed,
    /// A logical partition that is full, and another key.
    FullKey,
}

impl Trial {
    /// All trials, in the order of the questions.
    pub const ALL: [Self; 5] = [
        Self::FanOut,
        Self::PointRead,
        Self::Again,
        Self::FullFeed,
        Self::FullKey,
    ];
}

impl fmt::Display for Trial {
    /// Writes the name in addresses, e.g. `fan-out`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FanOut => "fan-out",
            Self::PointRead => "point-read",
            Self::Again => "again",
            Self::FullFeed => "full-feed",
            Self::FullKey => "full-key",
        })
    }
}

impl FromStr for Trial {
    type Err = BlogError;

    fn from_str(text: &str) -> Result<Self, BlogError> {
        let trial = Self::ALL
            .into_iter()
            .find(|trial| trial.to_string() == text);
        trial.ok_or_else(|| BlogError::InvalidOption(format!("'{text}' is not a trial")))
    }
}

/// The figures of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The number that was asked for.
    pub number: f64,
    /// Cost of the request that the question is about.
    pub first: Measurement,
    /// Cost of the request beside it.
    pub second: Measurement,
    /// The server's message, if one belongs to the answer.
    pub message: String,
}

/// Runs a trial.
pub(super) async fn measure(stage: &mut Stage, trial: Trial) -> Result<Measured, BlogError> {
    match trial {
        Trial::FanOut => fan_out(stage).await,
        Trial::PointRead => point_read(stage).await,
        Trial::Again => again(stage).await,
        Trial::FullFeed => full_feed(stage).await,
        Trial::FullKey => full_key(stage).await,
    }
}

/// Reads a user's posts from `posts`, which is partitioned by post, and from `users`.
async fn fan_out(stage: &Stage) -> Result<Measured, BlogError> {
    let (blog, id) = (&stage.blog, stage.user.id.as_str());
    let query = Query::new(POSTS_OF_USER).with("@userId", id);
    let (meter, started) = (Meter::recording(), Instant::now());
    blog.client.query_all(&meter, &blog.posts, &query).await?;
    let first = meter.measurement(started.elapsed());
    let (meter, started) = (Meter::recording(), Instant::now());
    blog.client.query(&meter, &blog.users, id, &query).await?;
    Ok(Measured {
        number: first.partitions as f64,
        first,
        second: meter.measurement(started.elapsed()),
        message: String::new(),
    })
}

/// Reads a user by id and key, and by a query with the same key.
async fn point_read(stage: &Stage) -> Result<Measured, BlogError> {
    let (blog, id) = (&stage.blog, stage.user.id.as_str());
    let (meter, started) = (Meter::recording(), Instant::now());
    blog.user(&meter, id).await?;
    let second = meter.measurement(started.elapsed());
    let query = Query::new("SELECT * FROM c WHERE c.id = @id").with("@id", id);
    let (meter, started) = (Meter::recording(), Instant::now());
    blog.client.query(&meter, &blog.users, id, &query).await?;
    let first = meter.measurement(started.elapsed());
    Ok(Measured {
        number: first.ru.ru() / second.ru.ru().max(0.01),
        first,
        second,
        message: String::new(),
    })
}

/// Runs `updateUsernames` twice with one name in a logical partition of its own.
async fn again(stage: &mut Stage) -> Result<Measured, BlogError> {
    let key = format!("trial-{}", stage.next_trial());
    let blog = &stage.blog;
    let mut post = small_item("postId", &key, 0);
    post["userId"] = "reader".into();
    post["userUsername"] = "Before".into();
    let meter = Meter::new();
    // The item is no post of the blog: the pipelines leave it alone.
    post["type"] = "comment".into();
    blog.client.create(&meter, &blog.posts, &key, &post).await?;
    let arguments = json!(["reader", "After"]);
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (meter, started) = (Meter::recording(), Instant::now());
        let answer = blog
            .client
            .execute(&meter, &blog.posts, &key, "updateUsernames", &arguments)
            .await?;
        let updated = answer["updated"].as_f64().unwrap_or_default();
        runs.push((updated, meter.measurement(started.elapsed())));
    }
    Ok(Measured {
        number: runs[1].0,
        first: runs[1].1,
        second: runs[0].1,
        message: String::new(),
    })
}

/// Adds a post to the full feed.
async fn full_feed(stage: &mut Stage) -> Result<Measured, BlogError> {
    let feed = feed::add_post(stage).await?;
    let Some(added) = feed.added else {
        return Err(BlogError::unexpected("the feed", "no post was added"));
    };
    let cost = |ru| Measurement {
        ru,
        requests: 1,
        partitions: 1,
        ..Measurement::default()
    };
    Ok(Measured {
        number: added.with_trigger.ru() / added.without_trigger.ru().max(0.01),
        first: cost(added.with_trigger),
        second: cost(added.without_trigger),
        message: feed.posts.len().to_string(),
    })
}

/// Fills a logical partition until the server refuses, then writes to another key.
async fn full_key(stage: &mut Stage) -> Result<Measured, BlogError> {
    let (client, database) = (&stage.blog.client, stage.blog.database());
    let link = format!("dbs/{database}/colls/{BRIM}");
    client.delete_container(&link).await?;
    client.clear_cached_metadata(&link);
    client
        .create_container(
            &format!("dbs/{database}"),
            BRIM,
            "/postId",
            BRIM_RU_PER_SECOND,
        )
        .await?;
    let (refused, message) = fill(stage, &link).await?;
    let meter = Meter::recording();
    let other_key = small_item("postId", "other-key", 0);
    let started = Instant::now();
    client
        .create(&meter, &link, "other-key", &other_key)
        .await?;
    Ok(Measured {
        number: 1.0,
        first: refused,
        second: meter.measurement(started.elapsed()),
        message,
    })
}

/// Writes large items under one key until the server refuses one, and returns the cost of the
/// refused write with the server's message.
async fn fill(stage: &Stage, link: &str) -> Result<(Measurement, String), BlogError> {
    let client = &stage.blog.client;
    for number in (0..WRITES_MAX).step_by(WRITERS as usize) {
        let writes = (number..number + WRITERS).map(|n| async move {
            let meter = Meter::recording();
            let item = large_item("endless", n, LARGE_BYTES);
            let written = client.create(&meter, link, "endless", &item).await;
            (meter.measurement(Duration::ZERO), written)
        });
        for (cost, written) in join_all(writes).await {
            match written {
                Err(error) if is_key_full(&error) => return Ok((cost, refusal_of(error))),
                written => written?,
            }
        }
    }
    Err(BlogError::unexpected(
        link,
        "the logical partition has no limit within reach",
    ))
}

fn refusal_of(error: BlogError) -> String {
    match error {
        BlogError::Refused {
            status,
            sub_status,
            message,
            ..
        } => format!("{status}/{sub_status}: {message}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_found_by_its_name() {
        for trial in Trial::ALL {
            assert_eq!(trial.to_string().parse(), Ok(trial));
        }
        assert!("".parse::<Trial>().is_err());
    }
}
