//! The comparison of the database with the record of the simulated users, in each present model.
//!
//! A certain entry must exist once, a possible one at most once, and nothing may carry the tag of a
//! simulated user without an entry. Counts must equal the numbers of comments and likes.

use super::ledger::Books;
use orrery_blog::{Blog, BlogError, Meter, Query};
use serde_json::Value;
use std::collections::BTreeMap;

/// The result of a comparison of one model.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Entries that were compared.
    pub(crate) compared: u64,
    /// Certain entries that do not exist.
    pub(crate) lost: u64,
    /// Entries that exist more than once.
    pub(crate) doubled: u64,
    /// All other differences, such as a wrong count, title or name.
    pub(crate) wrong: u64,
    /// Descriptions of the first differences.
    pub(crate) differences: Vec<String>,
}

/// Differences that are described.
const DESCRIBED_MAX: usize = 40;

impl Verdict {
    /// Returns true if nothing differs.
    pub(crate) fn is_equal(&self) -> bool {
        self.lost + self.doubled + self.wrong == 0
    }

    fn note(&mut self, text: String) {
        if self.differences.len() < DESCRIBED_MAX {
            self.differences.push(text);
        }
    }

    fn expect_once(&mut self, what: &str, found: u64, is_certain: bool) {
        self.compared += 1;
        if found == 0 && is_certain {
            self.lost += 1;
            self.note(format!("{what} is lost"));
        }
        if found > 1 {
            self.doubled += 1;
            self.note(format!("{what} is there {found} times"));
        }
    }

    fn expect(&mut self, is_right: bool, describe: impl FnOnce() -> String) {
        self.compared += 1;
        if !is_right {
            self.wrong += 1;
            self.note(describe());
        }
    }
}

/// Compares one model with the records.
///
/// # Errors
/// Every error of a request.
pub(crate) async fn verify(blog: &Blog, books: &Books) -> Result<Verdict, BlogError> {
    let mut verdict = Verdict::default();
    let users = check_users(blog, books, &mut verdict).await?;
    check_posts(blog, books, &users, &mut verdict).await?;
    let mut by_post: BTreeMap<&str, Vec<(&str, bool)>> = BTreeMap::new();
    for comment in &books.comments {
        let tags = by_post.entry(&comment.post).or_default();
        tags.push((&comment.tag, comment.is_certain));
    }
    let mut likes: BTreeMap<&str, Vec<(usize, bool)>> = BTreeMap::new();
    for ((post, user), is_certain) in &books.likes {
        likes.entry(post).or_default().push((*user, *is_certain));
        by_post.entry(post).or_default();
    }
    for (post, comments) in &by_post {
        if books.deleted.contains(*post) {
            continue;
        }
        let likes = likes.get(post).map(Vec::as_slice).unwrap_or_default();
        check_reactions(blog, post, comments, likes, &users, &mut verdict).await?;
    }
    Ok(verdict)
}

/// Checks the names of the simulated users and returns their ids and current names.
async fn check_users(
    blog: &Blog,
    books: &Books,
    verdict: &mut Verdict,
) -> Result<BTreeMap<usize, (String, String)>, BlogError> {
    let query = Query::new("SELECT c.id, c.username FROM c WHERE IS_DEFINED(c.username)");
    let containers = blog.containers();
    let users = containers.first().copied().unwrap_or_default();
    let rows = blog
        .client()
        .query_all(&Meter::new(), users, &query)
        .await?;
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &rows {
        let name = row["username"].as_str().unwrap_or_default();
        by_name
            .entry(name)
            .or_default()
            .push(row["id"].as_str().unwrap_or_default());
    }
    let mut found = BTreeMap::new();
    for (user, names) in &books.names {
        let mut ids = Vec::new();
        for name in names {
            for id in by_name.get(name.as_str()).into_iter().flatten() {
                ids.push(((*id).to_owned(), name.clone()));
            }
        }
        let what = format!("the user with the name {names:?}");
        // One name is certain; with more, the last request failed.
        verdict.expect_once(&what, ids.len() as u64, true);
        if let Some(user_entry) = ids.pop() {
            found.insert(*user, user_entry);
        }
    }
    Ok(found)
}

/// Checks the titles and authors of the posts of simulated users, and that deleted posts are gone.
async fn check_posts(
    blog: &Blog,
    books: &Books,
    users: &BTreeMap<usize, (String, String)>,
    verdict: &mut Verdict,
) -> Result<(), BlogError> {
    for (id, entry) in &books.posts {
        let post = match blog.post(&Meter::new(), id).await {
            Ok(post) => Some(post),
            Err(e) if e.is_not_found() => None,
            Err(e) => return Err(e),
        };
        let is_there = post.as_ref().is_some_and(|post| post["type"] == "post");
        if entry.is_deleted {
            verdict.expect(!is_there, || {
                format!("the deleted post {id} is still there")
            });
            continue;
        }
        verdict.expect_once(&format!("the post {id}"), u64::from(is_there), true);
        let Some(post) = post else {
            continue;
        };
        let title = post["title"].as_str().unwrap_or_default();
        let is_title = entry.titles.iter().any(|known| known == title);
        verdict.expect(is_title, || {
            format!(
                "the post {id} has the title '{title}', not {:?}",
                entry.titles
            )
        });
        let name = users.get(&entry.author).map(|(_, name)| name.as_str());
        verdict.expect(post["userUsername"].as_str() == name, || {
            format!(
                "the post {id} shows the name {}, not {name:?}",
                post["userUsername"]
            )
        });
    }
    Ok(())
}

/// Checks the comments and likes of a post, and its counts.
async fn check_reactions(
    blog: &Blog,
    post_id: &str,
    comments: &[(&str, bool)],
    likes: &[(usize, bool)],
    users: &BTreeMap<usize, (String, String)>,
    verdict: &mut Verdict,
) -> Result<(), BlogError> {
    let meter = Meter::new();
    let stored_comments = blog.comments(&meter, post_id).await?;
    let stored_likes = blog.likes(&meter, post_id).await?;
    let mut by_tag: BTreeMap<&str, u64> = BTreeMap::new();
    for comment in &stored_comments {
        let content = comment["content"].as_str().unwrap_or_default();
        if let Some((tag, _)) = content.split_once(" says <i>so</i>") {
            *by_tag.entry(tag).or_default() += 1;
        }
    }
    for (tag, is_certain) in comments {
        let found = by_tag.remove(tag).unwrap_or(0);
        verdict.expect_once(
            &format!("the comment {tag} on {post_id}"),
            found,
            *is_certain,
        );
    }
    for (tag, found) in by_tag {
        verdict.expect(false, || {
            format!("{found} comments {tag} on {post_id} have no entry")
        });
    }
    for (user, is_certain) in likes {
        let id = users.get(user).map_or("", |(id, _)| id.as_str());
        let found = stored_likes.iter().filter(|like| like["userId"] == id);
        let what = format!("the like of {post_id} by {id}");
        verdict.expect_once(&what, found.count() as u64, *is_certain);
    }
    let post = blog.post(&meter, post_id).await?;
    for (name, stored) in [
        ("commentCount", stored_comments.len()),
        ("likeCount", stored_likes.len()),
    ] {
        let count = post[name].as_u64();
        verdict.expect(count == Some(stored as u64), || {
            format!(
                "the post {post_id} has the {name} {}, and {stored} are stored",
                post[name]
            )
        });
    }
    check_names(&stored_comments, users, post_id, verdict);
    check_names(&stored_likes, users, post_id, verdict);
    Ok(())
}

/// Checks that comments or likes show the current names of the simulated users.
fn check_names(
    stored: &[Value],
    users: &BTreeMap<usize, (String, String)>,
    post_id: &str,
    verdict: &mut Verdict,
) {
    for item in stored {
        let author = users.values().find(|(id, _)| item["userId"] == id.as_str());
        let Some((_, name)) = author else {
            continue;
        };
        verdict.expect(item["userUsername"] == name.as_str(), || {
            format!(
                "an item of {post_id} shows the name {}, not {name}",
                item["userUsername"]
            )
        });
    }
}
