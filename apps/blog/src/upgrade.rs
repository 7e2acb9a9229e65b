//! Moving a live system to a newer model: the new views are built from the data that is there, in one pass of the
//! change feed, while the old model goes on being used.
//!
//! ```text
//! old users ──> new users          names, before anything shows them
//! old posts ──> new posts          with names and counts
//! old users ──> new users, posts   who was renamed meanwhile
//! new posts ──> new users, feed    V3 only: the short copies
//! ```
//! [`Upgraded::catch_up`] goes through these again from where they stopped, and is cheap when little has changed. An
//! application runs it until nothing is left, and then turns to the new model.

use crate::BlogError;
use crate::models::{Blog, Model};
use crate::pipelines::{Pipeline, Progressed, Reaction};

/// A newer model that follows an older one.
pub struct Upgraded {
    users: Pipeline,
    posts: Pipeline,
    copies: Vec<Pipeline>,
}

/// Creates `target` and fills it with everything that `source` holds; `target` must be of a newer model.
///
/// Answers what keeps the two together, and what was done. Refused with 409 if the target's database exists.
pub async fn upgrade(source: &Blog, target: &Blog) -> Result<(Upgraded, Progressed), BlogError> {
    if source.model >= target.model {
        return Err(BlogError::Option(format!(
            "there is no way from {} to {}",
            source.model, target.model
        )));
    }
    target.create().await?;
    let copies = if target.model == Model::V3 {
        [Reaction::CopyToUsers, Reaction::CopyToFeed]
            .map(|copy| Pipeline::new(target, target, copy))
            .into()
    } else {
        Vec::new()
    };
    let mut upgraded = Upgraded {
        users: Pipeline::new(source, target, Reaction::TakeUsers { rename: false }),
        posts: Pipeline::new(source, target, Reaction::TakePosts),
        copies,
    };
    let done = upgraded.catch_up().await?;
    Ok((upgraded, done))
}

impl Upgraded {
    /// Brings the newer model up to date with the older one, and answers what that took.
    pub async fn catch_up(&mut self) -> Result<Progressed, BlogError> {
        let mut sum = self.users.drain().await?;
        let mut add = |done: Progressed| {
            sum.changes += done.changes;
            sum.written += done.written;
        };
        add(self.posts.drain().await?);
        self.users.rename_from_now_on();
        add(self.users.drain().await?);
        for copy in &mut self.copies {
            add(copy.drain().await?);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;

    #[tokio::test]
    async fn there_is_no_way_back_to_an_older_model() {
        // The refusal comes before anything is asked of the server, of which there is none.
        let client = Client::new("http://127.0.0.1:9", "", 1).unwrap();
        let blog = |model| Blog::new(client.clone(), model, "blog");
        for (from, to) in [(Model::V2, Model::V1), (Model::V3, Model::V3)] {
            assert!(matches!(
                upgrade(&blog(from), &blog(to)).await,
                Err(BlogError::Option(_))
            ));
        }
    }
}
