//! The write operations, their JSON form, and their application to one model.

use crate::dataset::{Comment, Like, Post, User};
use crate::models::{Blog, Model};
use crate::{BlogError, Meter};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Attempts to edit a post that other writers change at the same time.
const EDIT_ATTEMPTS_MAX: usize = 20;

/// A write of one user, with everything that is needed to apply the write at any time. Ids are made
/// by the application, so applying an operation twice has the effect of applying it once.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the properties of the items")]
pub enum WriteOperation {
    /// C1: creates a user.
    SignUp { user_id: String, username: String },
    /// C1: changes a user's name.
    Rename { user_id: String, username: String },
    /// C2: creates a post.
    CreatePost {
        post_id: String,
        user_id: String,
        title: String,
        content: String,
        created: String,
    },
    /// C2: changes the title and text of a post.
    EditPost {
        post_id: String,
        user_id: String,
        title: String,
        content: String,
    },
    /// Deletes a post with its comments and likes.
    DeletePost { post_id: String, user_id: String },
    /// C3: creates a comment.
    Comment {
        comment_id: String,
        post_id: String,
        user_id: String,
        content: String,
        created: String,
    },
    /// C4: creates a like, unless the user has liked the post before.
    Like {
        like_id: String,
        post_id: String,
        user_id: String,
        created: String,
    },
}

/// The effect of a write operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The operation is applied.
    Done,
    /// There is no such post, or the post was deleted. Nothing was written.
    PostGone,
    /// The post belongs to another user. Nothing was written.
    NotAuthor,
    /// There is no such user. Nothing was written.
    UserGone,
}

impl Outcome {
    /// Returns the name in the journal.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::PostGone => "postGone",
            Self::NotAuthor => "notAuthor",
            Self::UserGone => "userGone",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Done, Self::PostGone, Self::NotAuthor, Self::UserGone]
            .into_iter()
            .find(|outcome| outcome.name() == name)
    }
}

/// Returns an id of the form of a UUID that is a function of `parts`. The ids of the data set have
/// the same length, so items with either id have the same charge.
pub fn derived_id(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut hex = String::with_capacity(32);
    for byte in hash.finalize().iter().take(16) {
        hex.push_str(&format!("{byte:02x}"));
    }
    format!(
        "{}-{}-8{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// Returns the current time in the format of the data set's dates.
pub fn date_now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.6f0Z")
        .to_string()
}

impl WriteOperation {
    /// Returns the like of a post by a user. Its id depends on post and user only.
    pub fn like(post_id: &str, user_id: &str) -> Self {
        Self::Like {
            like_id: derived_id(&["like", post_id, user_id]),
            post_id: post_id.to_owned(),
            user_id: user_id.to_owned(),
            created: date_now(),
        }
    }

    /// Returns the article's name of the request: C1 to C4, or `delete`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SignUp { .. } | Self::Rename { .. } => "C1",
            Self::CreatePost { .. } | Self::EditPost { .. } => "C2",
            Self::DeletePost { .. } => "delete",
            Self::Comment { .. } => "C3",
            Self::Like { .. } => "C4",
        }
    }

    /// Returns the id of the user who writes.
    pub fn user_id(&self) -> &str {
        match self {
            Self::SignUp { user_id, .. }
            | Self::Rename { user_id, .. }
            | Self::CreatePost { user_id, .. }
            | Self::EditPost { user_id, .. }
            | Self::DeletePost { user_id, .. }
            | Self::Comment { user_id, .. }
            | Self::Like { user_id, .. } => user_id,
        }
    }

    /// Returns the id of the post that is written, or to which a comment or like belongs.
    pub fn post_id(&self) -> Option<&str> {
        match self {
            Self::SignUp { .. } | Self::Rename { .. } => None,
            Self::CreatePost { post_id, .. }
            | Self::EditPost { post_id, .. }
            | Self::DeletePost { post_id, .. }
            | Self::Comment { post_id, .. }
            | Self::Like { post_id, .. } => Some(post_id),
        }
    }

    /// Returns true if the items of the operation show the name of the user.
    pub(crate) fn shows_username(&self) -> bool {
        matches!(
            self,
            Self::CreatePost { .. } | Self::Comment { .. } | Self::Like { .. }
        )
    }

    /// Returns true if `other` asks for the same write. Dates are ignored: they differ between two
    /// submissions of one form.
    pub fn has_same_intent(&self, other: &Self) -> bool {
        let without_date = |operation: &Self| {
            let mut stored = operation.to_json();
            if let Some(properties) = stored.as_object_mut() {
                properties.remove("created");
            }
            stored
        };
        without_date(self) == without_date(other)
    }

    /// Returns the JSON form for the journal.
    pub fn to_json(&self) -> Value {
        match self {
            Self::SignUp { user_id, username } => {
                json!({"kind": "signUp", "userId": user_id, "username": username})
            }
            Self::Rename { user_id, username } => {
                json!({"kind": "rename", "userId": user_id, "username": username})
            }
            Self::CreatePost {
                post_id,
                user_id,
                title,
                content,
                created,
            } => json!({
                "kind": "createPost",
                "postId": post_id,
                "userId": user_id,
                "title": title,
                "content": content,
                "created": created,
            }),
            Self::EditPost {
                post_id,
                user_id,
                title,
                content,
            } => json!({
                "kind": "editPost",
                "postId": post_id,
                "userId": user_id,
                "title": title,
                "content": content,
            }),
            Self::DeletePost { post_id, user_id } => {
                json!({"kind": "deletePost", "postId": post_id, "userId": user_id})
            }
            Self::Comment {
                comment_id,
                post_id,
                user_id,
                content,
                created,
            } => json!({
                "kind": "comment",
                "commentId": comment_id,
                "postId": post_id,
                "userId": user_id,
                "content": content,
                "created": created,
            }),
            Self::Like {
                like_id,
                post_id,
                user_id,
                created,
            } => json!({
                "kind": "like",
                "likeId": like_id,
                "postId": post_id,
                "userId": user_id,
                "created": created,
            }),
        }
    }

    /// Restores an operation from the result of [`WriteOperation::to_json`]. `None` for JSON of
    /// another form.
    pub fn from_json(stored: &Value) -> Option<Self> {
        let text = |name: &str| stored[name].as_str().map(str::to_owned);
        Some(match stored["kind"].as_str()? {
            "signUp" => Self::SignUp {
                user_id: text("userId")?,
                username: text("username")?,
            },
            "rename" => Self::Rename {
                user_id: text("userId")?,
                username: text("username")?,
            },
            "createPost" => Self::CreatePost {
                post_id: text("postId")?,
                user_id: text("userId")?,
                title: text("title")?,
                content: text("content")?,
                created: text("created")?,
            },
            "editPost" => Self::EditPost {
                post_id: text("postId")?,
                user_id: text("userId")?,
                title: text("title")?,
                content: text("content")?,
            },
            "deletePost" => Self::DeletePost {
                post_id: text("postId")?,
                user_id: text("userId")?,
            },
            "comment" => Self::Comment {
                comment_id: text("commentId")?,
                post_id: text("postId")?,
                user_id: text("userId")?,
                content: text("content")?,
                created: text("created")?,
            },
            "like" => Self::Like {
                like_id: text("likeId")?,
                post_id: text("postId")?,
                user_id: text("userId")?,
                created: text("created")?,
            },
            _ => return None,
        })
    }

    /// Applies the operation to one model. May be repeated: an operation that is applied already
    /// changes nothing. `username` is the current name of the user.
    ///
    /// # Errors
    /// Every error of a request that leaves the effect unknown or incomplete. The operation can be
    /// applied again.
    pub async fn apply(
        &self,
        blog: &Blog,
        meter: &Meter,
        username: &str,
    ) -> Result<Outcome, BlogError> {
        let user = User {
            id: self.user_id().to_owned(),
            username: username.to_owned(),
        };
        match self {
            Self::SignUp { user_id, username } => {
                let user = User {
                    id: user_id.clone(),
                    username: username.clone(),
                };
                created(blog.create_user(meter, &user).await)
            }
            Self::Rename { user_id, username } => rename(blog, meter, user_id, username).await,
            Self::EditPost { .. } => self.edit(blog, meter).await,
            Self::DeletePost { post_id, user_id } => {
                in_procedure(blog.delete_post(meter, post_id, user_id).await)
            }
            Self::CreatePost { .. } | Self::Comment { .. } | Self::Like { .. } => {
                self.create(blog, meter, user).await
            }
        }
    }

    /// Applies an operation that creates an item with the name of the user.
    async fn create(&self, blog: &Blog, meter: &Meter, user: User) -> Result<Outcome, BlogError> {
        match self {
            Self::CreatePost {
                post_id,
                title,
                content,
                created: date,
                ..
            } => {
                let post = Post {
                    id: post_id.clone(),
                    user,
                    title: title.clone(),
                    content: content.clone(),
                    created: date.clone(),
                };
                created(blog.create_post(meter, &post).await)
            }
            Self::Comment {
                comment_id,
                post_id,
                content,
                created: date,
                ..
            } => {
                let comment = Comment {
                    id: comment_id.clone(),
                    post_id: post_id.clone(),
                    user,
                    content: content.clone(),
                    created: date.clone(),
                };
                in_post(blog, blog.create_comment(meter, &comment).await)
            }
            Self::Like {
                like_id,
                post_id,
                created: date,
                ..
            } => {
                let like = Like {
                    id: like_id.clone(),
                    post_id: post_id.clone(),
                    user,
                    created: date.clone(),
                };
                in_post(blog, blog.create_like(meter, &like).await)
            }
            _ => Ok(Outcome::Done),
        }
    }

    /// Applies [`WriteOperation::EditPost`]. A post that changes at the same time is read again.
    async fn edit(&self, blog: &Blog, meter: &Meter) -> Result<Outcome, BlogError> {
        let Self::EditPost {
            post_id,
            user_id,
            title,
            content,
        } = self
        else {
            return Ok(Outcome::Done);
        };
        let mut attempts = 0;
        loop {
            let mut post = match blog.stored_post(meter, post_id).await {
                Err(e) if e.is_not_found() => return Ok(Outcome::PostGone),
                post => post?,
            };
            if post["userId"] != user_id.as_str() {
                return Ok(Outcome::NotAuthor);
            }
            if post["title"] == title.as_str() && post["content"] == content.as_str() {
                return Ok(Outcome::Done);
            }
            post["title"] = title.as_str().into();
            post["content"] = content.as_str().into();
            attempts += 1;
            match blog.replace_post(meter, &post).await {
                Ok(()) => return Ok(Outcome::Done),
                Err(e) if e.is_conflict() && attempts < EDIT_ATTEMPTS_MAX => {}
                // The post was removed between the two requests.
                Err(e) if e.is_not_found() => return Ok(Outcome::PostGone),
                Err(e) => return Err(e),
            }
        }
    }
}

/// Changes a user's name; a user that changes at the same time is read again.
async fn rename(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
    username: &str,
) -> Result<Outcome, BlogError> {
    let mut attempts = 0;
    loop {
        let mut user = match blog.user(meter, user_id).await {
            Err(e) if e.is_not_found() => return Ok(Outcome::UserGone),
            user => user?,
        };
        if user["username"] == username {
            return Ok(Outcome::Done);
        }
        user["username"] = username.into();
        attempts += 1;
        let replaced = blog
            .client
            .replace(meter, &blog.users, user_id, &user)
            .await;
        match replaced {
            Ok(()) => return Ok(Outcome::Done),
            Err(e) if e.is_conflict() && attempts < EDIT_ATTEMPTS_MAX => {}
            Err(e) => return Err(e),
        }
    }
}

/// Returns the outcome of a create. A conflict means that the item exists: the operation was
/// applied before.
fn created(result: Result<(), BlogError>) -> Result<Outcome, BlogError> {
    match result {
        Err(BlogError::Refused { status: 409, .. }) => Ok(Outcome::Done),
        result => result.map(|()| Outcome::Done),
    }
}

/// Returns the outcome of a comment or like. V1 creates an item; V2 and V3 run a procedure.
fn in_post(blog: &Blog, result: Result<(), BlogError>) -> Result<Outcome, BlogError> {
    if blog.model == Model::V1 {
        created(result)
    } else {
        in_procedure(result)
    }
}

/// Returns the outcome of a stored procedure, whose error has a number.
fn in_procedure(result: Result<(), BlogError>) -> Result<Outcome, BlogError> {
    let Err(error) = result else {
        return Ok(Outcome::Done);
    };
    match error.script_error() {
        // The transaction was rolled back, so the count was not raised twice.
        Some(409) => Ok(Outcome::Done),
        Some(404) => Ok(Outcome::PostGone),
        Some(401) => Ok(Outcome::NotAuthor),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<WriteOperation> {
        let text = |text: &str| text.to_owned();
        vec![
            WriteOperation::SignUp {
                user_id: text("u"),
                username: text("dora"),
            },
            WriteOperation::Rename {
                user_id: text("u"),
                username: text("dóra"),
            },
            WriteOperation::CreatePost {
                post_id: text("p"),
                user_id: text("u"),
                title: text("t \"quoted\""),
                content: text("line\nline"),
                created: date_now(),
            },
            WriteOperation::EditPost {
                post_id: text("p"),
                user_id: text("u"),
                title: text("t"),
                content: text("c"),
            },
            WriteOperation::DeletePost {
                post_id: text("p"),
                user_id: text("u"),
            },
            WriteOperation::Comment {
                comment_id: text("c"),
                post_id: text("p"),
                user_id: text("u"),
                content: text("c"),
                created: date_now(),
            },
            WriteOperation::like("p", "u"),
        ]
    }

    #[test]
    fn every_operation_survives_its_way_through_the_journal() {
        for operation in examples() {
            let stored = operation.to_json().to_string();
            let stored: Value = serde_json::from_str(&stored).unwrap();
            assert_eq!(WriteOperation::from_json(&stored), Some(operation));
        }
        assert_eq!(WriteOperation::from_json(&json!({"kind": "other"})), None);
        assert_eq!(WriteOperation::from_json(&json!({"kind": "like"})), None);
    }

    #[test]
    fn a_second_submission_has_the_same_intent_and_another_text_has_not() {
        let comment = |content: &str, created: &str| WriteOperation::Comment {
            comment_id: "c".into(),
            post_id: "p".into(),
            user_id: "u".into(),
            content: content.into(),
            created: created.into(),
        };
        assert!(comment("a", "1").has_same_intent(&comment("a", "2")));
        assert!(!comment("a", "1").has_same_intent(&comment("b", "1")));
    }

    #[test]
    fn the_id_of_a_like_is_a_function_of_post_and_user_with_the_length_of_a_uuid() {
        let id = derived_id(&["like", "p", "u"]);
        assert_eq!(id, derived_id(&["like", "p", "u"]));
        assert_ne!(id, derived_id(&["like", "pu", ""]));
        assert_eq!(id.len(), 36);
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!(date_now().len(), 28);
    }
}
