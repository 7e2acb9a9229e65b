//! Growth: the time until a logical partition reaches its limit, and until a physical partition is
//! split.
//!
//! Sizes are those of measured items. The limits are the service's; a server may have lower ones,
//! so the limits are part of the question.

use crate::dataset::{MEAN_COMMENTS, MEAN_LIKES};

/// The size limit of a logical partition in the service, in GB.
pub const LOGICAL_LIMIT_GB: f64 = 20.0;
/// The size limit of a physical partition in the service, in GB.
pub const PHYSICAL_LIMIT_GB: f64 = 50.0;
const GIGABYTE: f64 = (1u64 << 30) as f64;
const MONTHS_PER_YEAR: f64 = 12.0;
const DAYS_PER_YEAR: f64 = 365.25;

/// The mean sizes of items in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sizes {
    /// Of a post.
    pub post: f64,
    /// Of a comment.
    pub comment: f64,
    /// Of a like.
    pub like: f64,
    /// Of the short copy of a post. Known only if V3 is present.
    pub short_post: Option<f64>,
}

/// The rates at which the blog grows, and the limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// New posts of all users in a month.
    pub posts_per_month: f64,
    /// Comments on each post.
    pub comments_per_post: f64,
    /// Likes of each post.
    pub likes_per_post: f64,
    /// New posts of the busiest user in a month.
    pub posts_of_user_per_month: f64,
    /// Comments on one post that never ends, in a day.
    pub comments_per_day: f64,
    /// Size limit of a logical partition in GB.
    pub logical_limit_gb: f64,
    /// Size limit of a physical partition in GB.
    pub physical_limit_gb: f64,
}

impl Default for Growth {
    fn default() -> Self {
        Self {
            posts_per_month: 100_000.0,
            comments_per_post: MEAN_COMMENTS,
            likes_per_post: MEAN_LIKES,
            posts_of_user_per_month: 50.0,
            comments_per_day: 1_000.0,
            logical_limit_gb: LOGICAL_LIMIT_GB,
            physical_limit_gb: PHYSICAL_LIMIT_GB,
        }
    }
}

/// Years until each limit is reached. `None` if nothing grows, or if the size is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// Until the feed reaches the limit of a logical partition, if it is never cut.
    pub feed: Option<f64>,
    /// Until one post with endless comments reaches the limit of a logical partition.
    pub comments: Option<f64>,
    /// Until the busiest user's logical partition in V3 reaches the limit.
    pub user: Option<f64>,
    /// Until the first physical partition of `posts` reaches its limit and is split.
    pub split: Option<f64>,
}

/// Returns the years until each limit, for `posts` on `partitions` physical partitions that hold
/// nothing yet.
pub fn forecast(sizes: &Sizes, growth: &Growth, partitions: usize) -> Forecast {
    let logical = growth.logical_limit_gb * GIGABYTE;
    let physical = growth.physical_limit_gb * GIGABYTE;
    let bytes_per_post =
        sizes.post + growth.comments_per_post * sizes.comment + growth.likes_per_post * sizes.like;
    let posts_per_year = growth.posts_per_month * MONTHS_PER_YEAR;
    let of_user_per_year = growth.posts_of_user_per_month * MONTHS_PER_YEAR;
    let all_partitions = physical * partitions.max(1) as f64;
    let copies = |per_year: f64| years(logical, per_year * sizes.short_post?);
    Forecast {
        feed: copies(posts_per_year),
        comments: years(
            logical,
            growth.comments_per_day * DAYS_PER_YEAR * sizes.comment,
        ),
        user: copies(of_user_per_year),
        split: years(all_partitions, posts_per_year * bytes_per_post),
    }
}

/// Returns the years until `limit` bytes at `per_year` bytes in a year.
fn years(limit: f64, per_year: f64) -> Option<f64> {
    (per_year > 0.0 && limit > 0.0).then(|| limit / per_year)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        post: 700.0,
        comment: 1_000.0,
        like: 400.0,
        short_post: Some(512.0),
    };

    #[test]
    fn the_years_are_those_that_a_count_of_items_gives() {
        let growth = Growth::default();
        let forecast = forecast(&SIZES, &growth, 4);
        // The feed is filled month by month, with one copy of each post.
        let (mut bytes, mut months) = (0.0, 0.0);
        while bytes < 20.0 * GIGABYTE {
            bytes += growth.posts_per_month * 512.0;
            months += 1.0;
        }
        assert!((forecast.feed.unwrap() - months / 12.0).abs() < 0.1);
        let of_post = 700.0 + 12.5 * 1_000.0 + 50.0 * 400.0;
        let expected = 4.0 * 50.0 * GIGABYTE / (of_post * growth.posts_per_month * 12.0);
        assert!((forecast.split.unwrap() - expected).abs() < 1e-9);
        let per_user = forecast.user.unwrap() / forecast.feed.unwrap();
        assert!((per_user - growth.posts_per_month / 50.0).abs() < 1e-6);
    }

    #[test]
    fn without_growth_or_without_a_size_no_limit_is_reached() {
        let growth = Growth {
            posts_per_month: 0.0,
            comments_per_day: 0.0,
            ..Growth::default()
        };
        let still = forecast(&SIZES, &growth, 1);
        assert_eq!(
            (still.feed, still.comments, still.split),
            (None, None, None)
        );
        let unknown = Sizes {
            short_post: None,
            ..SIZES
        };
        let forecast = forecast(&unknown, &Growth::default(), 1);
        assert_eq!((forecast.feed, forecast.user), (None, None));
        assert!(forecast.comments.is_some());
    }
}
