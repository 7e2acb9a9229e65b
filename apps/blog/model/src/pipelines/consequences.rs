//! The last reactions of this process, so that an application can show what followed from a write.

use super::delivery::Precision;
use crate::sync::lock;
use crate::{Charge, RequestRecord};
use jiff::Timestamp;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Reactions that are kept.
const KEPT: usize = 2_000;
/// Requests that are kept of one reaction. A rename of an active user has thousands.
pub(super) const REQUESTS_KEPT: usize = 50;

/// A reaction to one change.
#[derive(Debug, Clone, PartialEq)]
pub struct Consequence {
    /// The time at which the reaction was complete.
    pub at: Timestamp,
    /// Name of the pipeline, e.g. `blog-v3.posts`.
    pub pipeline: String,
    /// Name of the reaction, e.g. `copyToFeed`.
    pub reaction: String,
    /// The range whose feed had the change.
    pub range: String,
    /// The changed post, or the post of the changed items.
    pub post_id: Option<String>,
    /// The changed user, or the author of the changed item.
    pub user_id: Option<String>,
    /// Number of attempts; more than one if requests failed.
    pub attempts: u32,
    /// Number of items written.
    pub written: u64,
    /// Charge of all requests of all attempts.
    pub ru: Charge,
    /// Time in milliseconds from the commit of the change to the end of the reaction, and how
    /// exactly the commit is known. `None` if it is not known.
    pub delivery_ms: Option<(f64, Precision)>,
    /// The first requests of the last attempt.
    pub requests: Vec<RequestRecord>,
    /// True if the change became a dead letter.
    pub is_dead_letter: bool,
}

/// The last reactions, oldest first.
#[derive(Default)]
pub(super) struct Consequences(Mutex<VecDeque<Consequence>>);

impl Consequences {
    pub(super) fn add(&self, consequence: Consequence) {
        let mut kept = lock(&self.0);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(consequence);
    }

    /// Returns the reactions to changes of a post or a user since a point in time.
    pub(super) fn of(&self, subject: &str, since: Timestamp) -> Vec<Consequence> {
        let concerns = |id: &Option<String>| id.as_deref() == Some(subject);
        let kept = lock(&self.0);
        kept.iter()
            .filter(|c| c.at >= since && (concerns(&c.post_id) || concerns(&c.user_id)))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_reactions_kept_is_bounded_and_those_of_a_subject_are_found() {
        let consequences = Consequences::default();
        let reaction = |n: usize| Consequence {
            at: Timestamp::from_second(n as i64).unwrap(),
            pipeline: "blog-v3.posts".into(),
            reaction: "copyToFeed".into(),
            range: "0".into(),
            post_id: Some(format!("p{}", n % 2)),
            user_id: Some("u".into()),
            attempts: 1,
            written: 1,
            ru: Charge(100),
            delivery_ms: None,
            requests: vec![],
            is_dead_letter: false,
        };
        (0..KEPT + 10).for_each(|n| consequences.add(reaction(n)));
        let start = Timestamp::UNIX_EPOCH;
        assert_eq!(consequences.of("u", start).len(), KEPT);
        assert_eq!(consequences.of("p1", start).len(), KEPT / 2);
        let late = Timestamp::from_second(KEPT as i64 + 8).unwrap();
        assert_eq!(consequences.of("p0", late).len(), 1);
        assert!(consequences.of("p2", start).is_empty());
    }
}
