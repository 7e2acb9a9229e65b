//! Dead letters: changes that a reaction could not process for reasons of their own.
//!
//! A dead letter is an item of the container `deadLetters`; a second failure of the same item
//! replaces it. It shows the item as it was. A retry reads the item again and reacts to its current
//! version, since later changes may have been processed meanwhile.

use super::leases::Lease;
use super::reactions::Page;
use super::{Pipeline, Reaction};
use crate::{BlogError, Control, Meter, Query};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Length of an item in bytes above which only its ids are kept.
const ITEM_BYTES_MAX: usize = 200_000;
/// Attempts to react to an item that changes meanwhile.
const ATTEMPTS_MAX: usize = 10;

/// A change that a reaction could not process.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// The id, which is unique in the pipeline.
    pub id: String,
    /// Name of the pipeline.
    pub pipeline: String,
    /// Name of the reaction.
    pub reaction: String,
    /// Id of the range.
    pub range: String,
    /// The changed items; of a very large item, only its ids.
    pub items: Vec<Value>,
    /// The last error.
    pub error: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Time of the first failure, in ISO 8601.
    pub first_failed_at: String,
    /// Time of the last failure, in ISO 8601.
    pub failed_at: String,
}

impl DeadLetter {
    /// Returns the dead letter of a change.
    pub(super) fn new(
        lease: &Lease,
        reaction: Reaction,
        item: &Value,
        failure: (&BlogError, u32),
        times: (Timestamp, Timestamp),
    ) -> Self {
        let mut kept = item.clone();
        if item.to_string().len() > ITEM_BYTES_MAX {
            kept = json!({});
            for name in ["id", "type", "postId", "userId"] {
                kept[name] = item[name].clone();
            }
        }
        // Ids of items may contain characters that ids in links may not.
        let id = item["id"].as_str().unwrap_or_default();
        let id = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
        Self {
            id: format!("{reaction}.{id}").replace('%', "_"),
            pipeline: lease.pipeline.clone(),
            reaction: reaction.to_string(),
            range: lease.range.clone(),
            items: vec![kept],
            error: failure.0.to_string(),
            attempts: failure.1,
            first_failed_at: times.0.to_string(),
            failed_at: times.1.to_string(),
        }
    }

    fn from_json(item: &Value) -> Self {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        Self {
            id: text("id"),
            pipeline: text("pipeline"),
            reaction: text("reaction"),
            range: text("range"),
            items: item["items"].as_array().cloned().unwrap_or_default(),
            error: text("error"),
            attempts: item["attempts"].as_u64().unwrap_or(0) as u32,
            first_failed_at: text("firstFailedAt"),
            failed_at: text("failedAt"),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "pipeline": self.pipeline,
            "reaction": self.reaction,
            "range": self.range,
            "items": self.items,
            "error": self.error,
            "attempts": self.attempts,
            "firstFailedAt": self.first_failed_at,
            "failedAt": self.failed_at,
        })
    }
}

/// Stores a dead letter.
pub(super) async fn store(control: &Control, letter: &DeadLetter) -> Result<(), BlogError> {
    let (client, link) = (&control.client, &control.dead_letters);
    let meter = Meter::new();
    client
        .upsert(&meter, link, &letter.pipeline, &letter.to_json(), None)
        .await
}

/// Returns the dead letters of all pipelines.
pub(super) async fn all(control: &Control) -> Result<Vec<DeadLetter>, BlogError> {
    let query = Query::new("SELECT * FROM c");
    let (client, link) = (&control.client, &control.dead_letters);
    let items = client.query_all(&Meter::new(), link, &query).await?;
    Ok(items.iter().map(DeadLetter::from_json).collect())
}

/// Returns a dead letter, or `None` if it does not exist.
pub(super) async fn read(
    control: &Control,
    pipeline: &str,
    id: &str,
) -> Result<Option<DeadLetter>, BlogError> {
    let (client, link) = (&control.client, &control.dead_letters);
    match client.read(&Meter::new(), link, pipeline, id).await {
        Err(e) if e.is_item_missing() => Ok(None),
        read => read.map(|item| Some(DeadLetter::from_json(&item))),
    }
}

/// Removes a dead letter.
pub(super) async fn remove(control: &Control, letter: &DeadLetter) -> Result<(), BlogError> {
    let (client, link) = (&control.client, &control.dead_letters);
    let deleted = client
        .delete(&Meter::new(), link, &letter.pipeline, &letter.id, None)
        .await;
    match deleted {
        Err(e) if e.is_item_missing() => Ok(()),
        deleted => deleted,
    }
}

impl Pipeline {
    /// Reacts to the current version of the items of a dead letter. Items that no longer exist are
    /// left out.
    ///
    /// # Errors
    /// The error of the reaction, or of a request.
    pub(super) async fn retry(&self, letter: &DeadLetter) -> Result<(), BlogError> {
        let mut reactions = self.reactions.iter();
        let Some(reaction) = reactions.find(|reaction| reaction.to_string() == letter.reaction)
        else {
            let reason = format!("the pipeline has no reaction {}", letter.reaction);
            return Err(BlogError::unexpected(&letter.id, reason));
        };
        let meter = Meter::new();
        let mut current = self.current_items(&meter, letter).await?;
        // The worker may react to a newer version at the same time and be overtaken. The items are
        // therefore read again afterwards.
        for _ in 0..ATTEMPTS_MAX {
            for item in reaction.concerned(&current) {
                self.react(*reaction, &Page::default(), &meter, item)
                    .await?;
            }
            let after = self.current_items(&meter, letter).await?;
            if after == current {
                return Ok(());
            }
            current = after;
        }
        Err(BlogError::unexpected(
            &letter.id,
            format!("the item changed {ATTEMPTS_MAX} times during the retry"),
        ))
    }

    /// Returns the current versions of the items of a dead letter.
    async fn current_items(
        &self,
        meter: &Meter,
        letter: &DeadLetter,
    ) -> Result<Vec<Value>, BlogError> {
        let mut current = Vec::new();
        for item in &letter.items {
            let id = item["id"].as_str().unwrap_or_default();
            // Users without a type have their id as partition key.
            let key = match self.reads_users() {
                true => item["userId"].as_str().unwrap_or(id),
                false => item["postId"].as_str().unwrap_or(id),
            };
            let client = &self.blog.client;
            match client.read(meter, self.container(), key, id).await {
                Err(e) if e.is_item_missing() => {}
                read => current.push(read?),
            }
        }
        Ok(current)
    }
}
