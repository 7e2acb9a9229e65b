//! The upgrade of a live system to a newer model. The copies of the newer model are built from the
//! existing data by reading the change feed from its beginning, while the older model stays in use.
//!
//! ```text
//! old users ──> new users          first, so that names exist before posts show them
//! old posts ──> new posts          with names and counts
//! old users ──> new users, posts   users that were renamed in the meantime
//! new posts ──> new users, feed    V3 only: the short copies
//! ```
//! [`Upgrade::catch_up`] repeats these steps from the positions that they have reached, and is
//! cheap if little has changed. An application calls it until there are no more changes and then
//! switches to the new model.

use crate::BlogError;
use crate::models::{Blog, Model};
use crate::pipelines::{Pipeline, PipelineProgress, Reaction};

/// A newer model that follows the changes of an older one.
pub struct Upgrade {
    users: Pipeline,
    posts: Pipeline,
    /// The pipelines inside the newer model that build its short copies.
    copies: Vec<Pipeline>,
}

/// Creates `target`, which must be of a newer model, and copies all data of `source` to it. Returns
/// the upgrade, with which to catch up later, and the work done.
///
/// # Errors
/// [`BlogError::InvalidOption`] unless the model of `target` is newer; [`BlogError::Refused`] with
/// 409 if the database of `target` exists.
pub async fn upgrade(
    source: &Blog,
    target: &Blog,
) -> Result<(Upgrade, PipelineProgress), BlogError> {
    if source.model >= target.model {
        return Err(BlogError::InvalidOption(format!(
            "an upgrade from {} to {} is not possible",
            source.model, target.model
        )));
    }
    target.create().await?;
    let mut copies = Vec::new();
    if target.model == Model::V3 {
        for reaction in [Reaction::CopyToUsers, Reaction::CopyToFeed] {
            copies.push(Pipeline::new(target, target, reaction));
        }
    }
    let mut upgrade = Upgrade {
        // No post exists yet, so the first pass has no names to rewrite.
        users: Pipeline::new(source, target, Reaction::MigrateUsers { rename: false }),
        posts: Pipeline::new(source, target, Reaction::MigratePosts),
        copies,
    };
    let progress = upgrade.catch_up().await?;
    Ok((upgrade, progress))
}

impl Upgrade {
    /// Copies all changes since the last call to the newer model and returns the work done.
    pub async fn catch_up(&mut self) -> Result<PipelineProgress, BlogError> {
        let mut progress = self.users.drain().await?;
        progress += self.posts.drain().await?;
        // Users renamed while posts were copied: the posts may show the old name.
        self.users.enable_renames();
        progress += self.users.drain().await?;
        for copy in &mut self.copies {
            progress += copy.drain().await?;
        }
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;

    #[tokio::test]
    async fn an_upgrade_to_an_older_or_equal_model_is_refused() {
        // The options are checked before any request: no server listens on this port.
        let client = Client::new("http://127.0.0.1:9", "", 1).unwrap();
        let blog = |model| Blog::new(client.clone(), model, "blog");
        for (from, to) in [(Model::V2, Model::V1), (Model::V3, Model::V3)] {
            assert!(matches!(
                upgrade(&blog(from), &blog(to)).await,
                Err(BlogError::InvalidOption(_))
            ));
        }
    }
}
