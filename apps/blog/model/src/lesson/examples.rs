//! Small examples in the database of the lab: items that a reader changes with one click, and the
//! answer is there at once.
//!
//! The container `examples` has the partition key, the scripts and the items of `posts` in V2. It
//! is created by the first example and again after a reset of the lab. Each example writes items
//! with a name of its own, which expire after an hour, so that readers do not meet each other.
//!
//! Left out: loads and limits, which are experiments of the lab (`lab`).

use super::scripts;
use crate::control::existing_is_fine;
use crate::meter::{Charge, Meter, RequestRecord};
use crate::{BlogError, Client};
use serde_json::{Value, json};

/// RU/s of the container, which give it one physical partition.
const THROUGHPUT: u32 = 6_000;
/// Seconds after which an item of an example expires.
const TIME_TO_LIVE_S: u32 = 3_600;
/// The date of example items, so that their sizes are always the same.
const DATE: &str = "2026-05-14T09:30:00Z";
/// Numbers of comments at which [`Examples::embedding`] measures.
const EMBEDDED: [usize; 6] = [1, 20, 50, 100, 150, 200];

/// The examples of one application.
pub struct Examples {
    client: Client,
    database: String,
    container: String,
}

/// A run of `createComment`, with the items before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct CommentRun {
    /// The post before the run.
    pub before: Value,
    /// The post after the run, read again.
    pub after: Value,
    /// The comment that the procedure was to create.
    pub comment: Value,
    /// The comments in the logical partition after the run.
    pub comments: Vec<Value>,
    /// Status and message of the refusal, if the run failed.
    pub refusal: Option<(u16, u32, String)>,
    /// The request that ran the procedure.
    pub procedure: RequestRecord,
    /// The charge of everything around it: the post created before, the reads after.
    pub around: Charge,
}

/// The charges of one more comment at a number of comments.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingPoint {
    /// Comments that the post has before.
    pub comments: usize,
    /// Size of the post with these comments in bytes.
    pub bytes: usize,
    /// Charge of the replacement of the post by one with one more comment.
    pub embedded_write: Charge,
    /// Charge of a read of the post with its comments.
    pub embedded_read: Charge,
    /// Charge of the creation of a comment as an item.
    pub referenced_write: Charge,
    /// Charge of a read of the post without comments.
    pub referenced_read: Charge,
}

impl Examples {
    /// Returns the examples in the database `database`, which need not exist yet.
    pub fn new(client: Client, database: &str) -> Self {
        Self {
            client,
            database: database.to_owned(),
            container: format!("dbs/{database}/colls/examples"),
        }
    }

    /// Returns the link of the container.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Creates the database, the container and its scripts if they do not exist.
    ///
    /// # Errors
    /// Every error of a request other than a conflict with another creation.
    pub async fn create_missing(&self) -> Result<(), BlogError> {
        let procedures = [
            ("updateUsernames", scripts::UPDATE_USERNAMES),
            ("createComment", scripts::CREATE_COMMENT),
        ];
        // The procedure that is created last stands for everything before it.
        let last = format!("{}/sprocs/createComment", self.container);
        match self.client.unmetered().read(&last).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        // A reset has deleted what the client knows of an earlier container of this name.
        self.client.clear_cached_metadata(&self.container);
        existing_is_fine(self.client.create_database(&self.database).await)?;
        let database = format!("dbs/{}", self.database);
        let created = self
            .client
            .create_container(&database, "examples", "/postId", THROUGHPUT)
            .await;
        existing_is_fine(created)?;
        for (id, source) in procedures {
            let created = self
                .client
                .create_procedure(&self.container, id, source)
                .await;
            existing_is_fine(created)?;
        }
        Ok(())
    }

    /// Runs `createComment` on a post with one comment. With `fails`, the new comment has the id of
    /// that comment, so the last step of the procedure fails.
    ///
    /// # Errors
    /// Every error of a request except the procedure's own refusal.
    pub async fn comment(&self, name: &str, fails: bool) -> Result<CommentRun, BlogError> {
        self.create_missing().await?;
        let (client, container) = (&self.client, self.container.as_str());
        let around = Meter::recording();
        let first = comment(name, "first", "The path along the river is open again.");
        let mut post = post(name);
        post["commentCount"] = 1.into();
        client.create(&around, container, name, &post).await?;
        client.create(&around, container, name, &first).await?;
        let before = client.read(&around, container, name, name).await?;

        let suffix = if fails { "first" } else { "second" };
        let comment = comment(name, suffix, "Thank you, I walked it this morning.");
        let metered = Meter::recording();
        let arguments = json!([name, comment]);
        let result = client
            .execute(&metered, container, name, "createComment", &arguments)
            .await;
        let refusal = match result {
            Ok(_) => None,
            Err(BlogError::Refused {
                status,
                sub_status,
                message,
                ..
            }) if fails => Some((status, sub_status, message)),
            Err(error) => return Err(error),
        };
        let procedure = metered
            .records()
            .pop()
            .ok_or_else(|| BlogError::unexpected("createComment", "no request charge"))?;

        let after = client.read(&around, container, name, name).await?;
        let query = crate::Query::new(
            "SELECT * FROM c WHERE c.postId = @postId AND c.type = 'comment' ORDER BY c.id",
        )
        .with("@postId", name);
        let comments = client.query(&around, container, name, &query).await?;
        Ok(CommentRun {
            before,
            after,
            comment,
            comments,
            refusal,
            procedure,
            around: sum(&around.records()),
        })
    }

    /// Measures one more comment on a post that contains its comments, and on a post whose comments
    /// are items of their own, at growing numbers of comments.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn embedding(&self, name: &str) -> Result<Vec<EmbeddingPoint>, BlogError> {
        self.create_missing().await?;
        let (client, container) = (&self.client, self.container.as_str());
        let alone = format!("{name}-alone");
        let meter = Meter::new();
        client
            .create(&meter, container, &alone, &post(&alone))
            .await?;
        let mut points = Vec::with_capacity(EMBEDDED.len());
        for count in EMBEDDED {
            let item = embedded_post(name, count);
            client.upsert(&meter, container, name, &item, None).await?;
            let read = Meter::recording();
            client.read(&read, container, name, name).await?;
            let write = Meter::recording();
            let more = embedded_post(name, count + 1);
            client.replace(&write, container, name, &more).await?;

            let single_read = Meter::recording();
            client.read(&single_read, container, &alone, &alone).await?;
            let single_write = Meter::recording();
            let comment = comment(&alone, &count.to_string(), TEXT);
            client
                .create(&single_write, container, &alone, &comment)
                .await?;
            points.push(EmbeddingPoint {
                comments: count,
                bytes: item.to_string().len(),
                embedded_write: sum(&write.records()),
                embedded_read: sum(&read.records()),
                referenced_write: sum(&single_write.records()),
                referenced_read: sum(&single_read.records()),
            });
        }
        Ok(points)
    }
}

/// The text of a comment that is measured.
const TEXT: &str = "I tried this with rye flour and a longer rest. The crust came out dark and \
                    the crumb stayed soft for three days. Next week I bake two of them.";

/// Returns the sum of charges.
fn sum(records: &[RequestRecord]) -> Charge {
    Charge(records.iter().map(|record| record.charge.0).sum())
}

/// Returns the post of an example.
fn post(name: &str) -> Value {
    json!({
        "id": name,
        "type": "post",
        "postId": name,
        "userId": "u-mira",
        "userUsername": "mira",
        "title": "Along the river before breakfast",
        "content": "The lower path was closed all winter. This week the town put new planks on \
                    the bridge, and the herons are back.",
        "commentCount": 0,
        "likeCount": 0,
        "creationDate": DATE,
        "ttl": TIME_TO_LIVE_S,
    })
}

/// Returns a comment on the post of an example.
fn comment(name: &str, suffix: &str, content: &str) -> Value {
    json!({
        "id": format!("{name}-{suffix}"),
        "type": "comment",
        "postId": name,
        "userId": "u-omar",
        "userUsername": "omar",
        "content": content,
        "creationDate": DATE,
        "ttl": TIME_TO_LIVE_S,
    })
}

/// Returns the post of an example with `count` comments in it.
fn embedded_post(name: &str, count: usize) -> Value {
    let mut item = post(name);
    let mut comments = Vec::with_capacity(count);
    for number in 0..count {
        comments.push(json!({
            "id": format!("{name}-{number}"),
            "userId": "u-omar",
            "content": TEXT,
            "creationDate": DATE,
        }));
    }
    item["comments"] = comments.into();
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_post_grows_with_its_comments_and_a_comment_does_not() {
        let bytes = |count| embedded_post("p", count).to_string().len();
        assert!(bytes(200) > 10 * bytes(1));
        assert_eq!(
            embedded_post("p", 3)["comments"].as_array().map(Vec::len),
            Some(3)
        );
        assert_eq!(comment("p", "1", TEXT)["id"], "p-1");
    }
}
