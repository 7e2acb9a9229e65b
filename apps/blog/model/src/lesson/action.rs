//! The actions that a comparison measures: the article's ten requests and three more writes.

use crate::models::Request;
use std::fmt;

/// One action of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// A request of the article.
    Article(Request),
    /// A user takes another name: the second half of C1.
    Rename,
    /// A post gets another title and content: the second half of C2.
    EditPost,
    /// A post is deleted with its comments and likes.
    DeletePost,
}

impl Action {
    /// Number of actions.
    pub const COUNT: usize = 13;

    /// All actions, in the order of tables.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Article(Request::C1),
        Self::Rename,
        Self::Article(Request::Q1),
        Self::Article(Request::C2),
        Self::EditPost,
        Self::DeletePost,
        Self::Article(Request::Q2),
        Self::Article(Request::Q3),
        Self::Article(Request::C3),
        Self::Article(Request::Q4),
        Self::Article(Request::C4),
        Self::Article(Request::Q5),
        Self::Article(Request::Q6),
    ];

    /// Returns the place of the action in [`Action::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().take_while(|other| **other != self).count()
    }

    /// Returns true for an action that writes.
    pub fn is_write(self) -> bool {
        match self {
            Self::Article(request) => request.is_write(),
            Self::Rename | Self::EditPost | Self::DeletePost => true,
        }
    }

    /// Returns true for an action on the logical partition of one post in `posts`.
    pub fn is_on_one_post(self) -> bool {
        match self {
            Self::Article(request) => matches!(
                request,
                Request::C2 | Request::Q2 | Request::C3 | Request::Q4 | Request::C4 | Request::Q5
            ),
            Self::EditPost | Self::DeletePost => true,
            Self::Rename => false,
        }
    }

    /// Returns the description for readers, e.g. `read a post`.
    pub fn description(self) -> &'static str {
        match self {
            Self::Article(Request::C1) => "create a user",
            Self::Article(Request::Q1) => "read a user",
            Self::Article(Request::C2) => "create a post",
            Self::Article(Request::Q2) => "read a post",
            Self::Article(Request::Q3) => "list a user's posts",
            Self::Article(Request::C3) => "comment on a post",
            Self::Article(Request::Q4) => "list a post's comments",
            Self::Article(Request::C4) => "like a post",
            Self::Article(Request::Q5) => "list a post's likes",
            Self::Article(Request::Q6) => "list the newest posts",
            Self::Rename => "rename a user",
            Self::EditPost => "edit a post",
            Self::DeletePost => "delete a post",
        }
    }
}

impl fmt::Display for Action {
    /// Writes the code: the article's, or `C1 edit`, `C2 edit`, `C2 delete`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Article(request) => request.fmt(f),
            Self::Rename => f.pad("C1 edit"),
            Self::EditPost => f.pad("C2 edit"),
            Self::DeletePost => f.pad("C2 delete"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_listed_once_and_every_request_of_the_article_is_an_action() {
        for (index, action) in Action::ALL.iter().enumerate() {
            assert_eq!(action.index(), index);
        }
        for request in Request::ALL {
            assert!(Action::ALL.contains(&Action::Article(request)));
        }
    }
}
