//! The sources of the scripts that the lesson shows and runs.

/// Creates a comment and raises the count of its post in one transaction.
pub const CREATE_COMMENT: &str = include_str!("../scripts/createComment.js");
/// Sets a user's name in the copies of one logical partition.
pub const UPDATE_USERNAMES: &str = include_str!("../scripts/updateUsernames.js");
/// Keeps the newest hundred posts of the feed.
pub const TRUNCATE_FEED: &str = include_str!("../scripts/truncateFeed.js");
