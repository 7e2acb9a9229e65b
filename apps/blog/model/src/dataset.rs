//! The article's data set at any scale. Equal seeds give equal data on every machine.
//!
//! Scale 1 is 100,000 users with 5 to 50 posts each; a post has up to 25 comments and up to 100
//! likes. Every entity can be created from its number alone and in any order, so only one number
//! for each user is kept in memory.
//!
//! At every scale there are 12.5 comments and 50 likes for each post. The ratio matters because Q6
//! of V1 and V2 passes the index entries of comments and likes between posts. The counts are
//! therefore not random but evenly spread (a low-discrepancy sequence): any run of posts in the
//! order of dates has almost exactly the mean.
//!
//! Measurements read the *probes*, user 0 and post 0: the probe user has 27 posts, the probe post
//! 20 comments and 50 likes. The texts of the probe user's posts and of the probe post's comments
//! have exactly the mean length. Measured writes create *fresh* entities with the text lengths that
//! the article's charges imply: 35 characters for the title and 230 for the text of a post, 260 for
//! the text of a comment.

use crate::BlogError;
use crate::random::{StreamKind, Texts, random, random_below, random_between, uuid};
use jiff::Timestamp;
use rand_core::RngCore;
use rand_pcg::Pcg32;
use std::fmt::Write as _;
use std::ops::Range;

/// Users at scale 1.
const USERS: f64 = 100_000.0;
const PROBE_POSTS: u64 = 27;
const PROBE_COMMENTS: u64 = 20;
const PROBE_LIKES: u64 = 50;
/// Date of the first post in seconds since 1970: 1 May 2018.
const FIRST_SECOND: i64 = 1_525_132_800;
/// Time span of all posts in microseconds: one year, up to the measurement of the article.
const SPAN_MICROS: u64 = 365 * 86_400 * 1_000_000;
/// Time in microseconds within which a post gets its comments and likes. It is short compared with
/// a year, so that the newest posts have as many comments and likes around them as other posts.
const REACTION_MICROS: u64 = 600 * 1_000_000;
/// Fractions of a two-dimensional low-discrepancy sequence (powers of the plastic number).
const SPREAD: (f64, f64) = (0.754_877_666_246_693, 0.569_840_290_998_053);
/// The fractional part of the golden ratio.
const GOLDEN: f64 = 0.618_033_988_749_895;
/// Numbers of possible values: 5 to 50 posts, 0 to 25 comments, 0 to 100 likes.
const POST_COUNTS: u64 = 46;
const COMMENT_COUNTS: u64 = 26;
const LIKE_COUNTS: u64 = 101;
/// Mean number of comments on a post.
pub(crate) const MEAN_COMMENTS: f64 = (COMMENT_COUNTS - 1) as f64 / 2.0;
/// Mean number of likes of a post.
pub(crate) const MEAN_LIKES: f64 = (LIKE_COUNTS - 1) as f64 / 2.0;

/// A user.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the properties of the item")]
pub struct User {
    pub id: String,
    pub username: String,
}

/// A post with its author.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the properties of the item")]
pub struct Post {
    pub id: String,
    pub user: User,
    pub title: String,
    pub content: String,
    pub created: String,
}

/// A comment on a post.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the properties of the item")]
pub struct Comment {
    pub id: String,
    pub post_id: String,
    pub user: User,
    pub content: String,
    pub created: String,
}

/// A like of a post.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the properties of the item")]
pub struct Like {
    pub id: String,
    pub post_id: String,
    pub user: User,
    pub created: String,
}

/// The numbers of entities in a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the names of the entities")]
pub struct Totals {
    pub users: u64,
    pub posts: u64,
    pub comments: u64,
    pub likes: u64,
}

/// A data set, defined by its seed and its scale.
#[derive(Debug)]
pub struct Dataset {
    seed: u64,
    /// Number of the first post of each user, then the number of posts.
    first_posts: Vec<u64>,
    /// Multiplier that gives the rank of a post by date: (post number × stride) mod posts.
    stride: u64,
    texts: Texts,
}

impl Dataset {
    /// Creates the data set of `seed` at `scale`; scale 1 is the size in the article.
    ///
    /// # Errors
    /// [`BlogError::InvalidOption`] for a scale of less than two users or above 10.
    pub fn new(seed: u64, scale: f64) -> Result<Self, BlogError> {
        let users = (USERS * scale).round();
        if !(2.0..=10.0 * USERS).contains(&users) {
            return Err(BlogError::InvalidOption(format!(
                "the scale {scale} is not between 0.00002 (two users) and 10"
            )));
        }
        // The users other than the probe share the numbers of posts evenly, in a shuffled order.
        let others = users as u64 - 1;
        let shuffle = coprime_near(others, (others as f64 * GOLDEN) as u64);
        let mut first_posts = vec![0, PROBE_POSTS];
        let mut posts = PROBE_POSTS;
        for user in 0..others {
            posts += 5 + even_share(user, shuffle, others, POST_COUNTS);
            first_posts.push(posts);
        }
        let stride = coprime_near(posts, (posts as f64 * GOLDEN) as u64);
        Ok(Self {
            seed,
            first_posts,
            stride,
            texts: Texts::new(&mut random(seed, StreamKind::Texts, 0)),
        })
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of users.
    pub fn users(&self) -> u64 {
        self.first_posts.len() as u64 - 1
    }

    /// Returns the number of posts.
    pub fn posts(&self) -> u64 {
        self.first_posts.last().copied().unwrap_or_default()
    }

    /// Returns the numbers of all entities. Takes time in proportion to the number of posts.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            users: self.users(),
            posts: self.posts(),
            comments: 0,
            likes: 0,
        };
        for post in 0..self.posts() {
            let (comments, likes) = self.reaction_counts(post);
            totals.comments += comments;
            totals.likes += likes;
        }
        totals
    }

    /// Returns user number `n`; number 0 is the probe user.
    pub fn user(&self, n: u64) -> User {
        random_user(&mut random(self.seed, StreamKind::User, n))
    }

    /// Returns the numbers of a user's posts.
    pub fn posts_of(&self, user: u64) -> Range<u64> {
        let first_post = |user: u64| {
            self.first_posts
                .get(user as usize)
                .copied()
                .unwrap_or(self.posts())
        };
        first_post(user)..first_post(user.saturating_add(1))
    }

    /// Returns the numbers of the `count` newest posts, newest first.
    pub fn newest(&self, count: u64) -> Vec<u64> {
        let lowest_rank = self.posts().saturating_sub(count);
        let mut posts: Vec<u64> = (0..self.posts())
            .filter(|post| self.rank(*post) >= lowest_rank)
            .collect();
        posts.sort_by_key(|post| std::cmp::Reverse(self.rank(*post)));
        posts
    }

    /// Returns post number `k`; number 0 is the probe post.
    pub fn post(&self, k: u64) -> Post {
        let mut random = random(self.seed, StreamKind::Post, k);
        let author = self.first_posts.partition_point(|first| *first <= k) as u64 - 1;
        let is_of_probe_user = k < PROBE_POSTS;
        // The random numbers are used in this order; another order would give other data.
        let id = uuid(&mut random);
        let title_length = if is_of_probe_user {
            30
        } else {
            random_between(&mut random, 20, 40)
        };
        let content_length = if is_of_probe_user {
            400
        } else {
            random_between(&mut random, 300, 500)
        };
        Post {
            id,
            user: self.user(author),
            title: self.texts.take(&mut random, title_length),
            content: self.texts.take(&mut random, content_length),
            created: date(self.created_micros(k)),
        }
    }

    /// Returns the numbers of comments and likes of post `k`.
    pub fn reaction_counts(&self, k: u64) -> (u64, u64) {
        if k == 0 {
            return (PROBE_COMMENTS, PROBE_LIKES);
        }
        // The few posts of the probe user have the mean among themselves.
        if k < PROBE_POSTS {
            return (
                even_share(k, 7, PROBE_POSTS, COMMENT_COUNTS),
                even_share(k, 11, PROBE_POSTS, LIKE_COUNTS),
            );
        }
        let rank = self.rank(k);
        (
            even_spread(rank, SPREAD.0, COMMENT_COUNTS),
            even_spread(rank, SPREAD.1, LIKE_COUNTS),
        )
    }

    /// Returns the comments on post `k`.
    pub fn comments(&self, k: u64) -> Vec<Comment> {
        let post_id = self.post_id(k);
        let (count, _) = self.reaction_counts(k);
        let mut comments = Vec::with_capacity(count as usize);
        for j in 0..count {
            let mut random = random(self.seed, StreamKind::Comment, reaction_number(k, j));
            let length = if k == 0 {
                700
            } else {
                random_between(&mut random, 500, 900)
            };
            comments.push(Comment {
                id: uuid(&mut random),
                post_id: post_id.clone(),
                user: self.user(random_below(&mut random, self.users())),
                content: self.texts.take(&mut random, length),
                created: self.reaction_date(k, &mut random),
            });
        }
        comments
    }

    /// Returns the likes of post `k`.
    pub fn likes(&self, k: u64) -> Vec<Like> {
        let post_id = self.post_id(k);
        let (_, count) = self.reaction_counts(k);
        let mut likes = Vec::with_capacity(count as usize);
        for j in 0..count {
            let mut random = random(self.seed, StreamKind::Like, reaction_number(k, j));
            likes.push(Like {
                id: uuid(&mut random),
                post_id: post_id.clone(),
                user: self.user(random_below(&mut random, self.users())),
                created: self.reaction_date(k, &mut random),
            });
        }
        likes
    }

    /// Returns the `n`-th user that a measurement creates. The data set does not contain this user.
    pub fn fresh_user(&self, n: u64) -> User {
        random_user(&mut random(self.seed, StreamKind::FreshUser, n))
    }

    /// Returns the `n`-th post that a measurement creates, by the probe user.
    pub fn fresh_post(&self, n: u64) -> Post {
        let mut random = random(self.seed, StreamKind::FreshPost, n);
        Post {
            id: uuid(&mut random),
            user: self.user(0),
            title: self.texts.take(&mut random, 35),
            content: self.texts.take(&mut random, 230),
            created: date(SPAN_MICROS + REACTION_MICROS + n),
        }
    }

    /// Returns a comment on [`Dataset::fresh_post`] `n`, by the probe user.
    pub fn fresh_comment(&self, n: u64) -> Comment {
        let mut random = random(self.seed, StreamKind::FreshComment, n);
        Comment {
            id: uuid(&mut random),
            post_id: self.fresh_post(n).id,
            user: self.user(0),
            content: self.texts.take(&mut random, 260),
            created: date(SPAN_MICROS + 2 * REACTION_MICROS + n),
        }
    }

    /// Returns a like of [`Dataset::fresh_post`] `n`, by the probe user.
    pub fn fresh_like(&self, n: u64) -> Like {
        let mut random = random(self.seed, StreamKind::FreshLike, n);
        Like {
            id: uuid(&mut random),
            post_id: self.fresh_post(n).id,
            user: self.user(0),
            created: date(SPAN_MICROS + 2 * REACTION_MICROS + n),
        }
    }

    fn post_id(&self, k: u64) -> String {
        // The id is the first use of the post's random numbers, see `Dataset::post`.
        uuid(&mut random(self.seed, StreamKind::Post, k))
    }

    /// Returns the rank of post `k` by date; 0 is the oldest. The ranks are a permutation in which
    /// the posts of each user are spread over the year.
    fn rank(&self, k: u64) -> u64 {
        (u128::from(k) * u128::from(self.stride) % u128::from(self.posts())) as u64
    }

    /// Returns the date of post `k` in microseconds after the first post.
    fn created_micros(&self, k: u64) -> u64 {
        (u128::from(self.rank(k)) * u128::from(SPAN_MICROS) / u128::from(self.posts())) as u64
    }

    /// Returns the date of a comment on, or like of, post `k`.
    fn reaction_date(&self, k: u64, random: &mut Pcg32) -> String {
        date(self.created_micros(k) + 1 + random_below(random, REACTION_MICROS))
    }
}

/// Returns the number of the random stream of the `j`-th comment or like of post `k`. A post has at
/// most 100 of each.
fn reaction_number(k: u64, j: u64) -> u64 {
    k * 128 + j
}

/// Returns the `n`-th value of an evenly spread sequence over 0..values.
fn even_spread(n: u64, fraction: f64, values: u64) -> u64 {
    ((0.5 + n as f64 * fraction).fract() * values as f64) as u64
}

/// Returns the value in 0..values for the `n`-th of `count` members. All values have about equally
/// many members; `shuffle`, coprime to `count`, determines the order.
fn even_share(n: u64, shuffle: u64, count: u64, values: u64) -> u64 {
    (2 * (n * shuffle % count) + 1) * values / (2 * count)
}

/// Returns the smallest number from `near` upward that is coprime to `modulus`.
fn coprime_near(modulus: u64, near: u64) -> u64 {
    let mut candidate = near.max(1);
    while greatest_common_divisor(modulus, candidate) > 1 {
        candidate += 1;
    }
    candidate
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns a user with a pronounceable name of ten characters.
fn random_user(random: &mut Pcg32) -> User {
    let id = uuid(random);
    let mut username = String::with_capacity(10);
    for _ in 0..4 {
        let bits = random.next_u32() as usize;
        username.push(char::from(b"bdfgklmnprstvwz"[bits % 15]));
        username.push(char::from(b"aeiou"[bits / 15 % 5]));
    }
    write!(username, "{:02}", random.next_u32() % 100).unwrap_or_default();
    User { id, username }
}

/// Returns a date in ISO 8601 with seven decimals of the second, in the format of .NET: 28
/// characters. `micros` counts from the first post.
fn date(micros: u64) -> String {
    // The argument is at most a few days above one year, so the sum is always a valid time.
    let time =
        Timestamp::from_microsecond(FIRST_SECOND * 1_000_000 + micros as i64).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.6f0Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn equal_seeds_give_equal_data_and_other_seeds_give_other_data() {
        let (a, b, c) = (
            Dataset::new(7, 0.001),
            Dataset::new(7, 0.001),
            Dataset::new(8, 0.001),
        );
        let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
        for k in [0, 1, 500, a.posts() - 1] {
            assert_eq!(
                (a.post(k), a.comments(k), a.likes(k)),
                (b.post(k), b.comments(k), b.likes(k))
            );
            assert_ne!(a.post(k).id, c.post(k).id);
        }
        assert_eq!(a.fresh_comment(3), b.fresh_comment(3));
        // Another generator would make new measurements incomparable with old ones.
        assert_eq!(
            a.user(0),
            User {
                id: FIRST_USER.0.into(),
                username: FIRST_USER.1.into()
            }
        );
    }

    /// Id and name of user 0 for seed 7.
    const FIRST_USER: (&str, &str) = ("6bf5efd5-03d2-4e84-b8ed-a1ff64dd138e", "paruligi97");

    #[test]
    fn the_ratios_of_entities_hold_at_every_scale() {
        for scale in [0.0002, 0.0004, 0.001, 0.01, 0.1] {
            let data = Dataset::new(1, scale).unwrap();
            let totals = data.totals();
            let posts = totals.posts as f64;
            let is_near = |value: f64, expected: f64, tolerance: f64| {
                (value / expected - 1.0).abs() < tolerance
            };
            assert_eq!(totals.users, (scale * 100_000.0_f64).round() as u64);
            assert!(
                is_near(posts / totals.users as f64, 27.5, 0.02),
                "{scale}: {totals:?}"
            );
            assert!(
                is_near(totals.comments as f64 / posts, 12.5, 0.02),
                "{scale}: {totals:?}"
            );
            assert!(
                is_near(totals.likes as f64 / posts, 50.0, 0.02),
                "{scale}: {totals:?}"
            );
            // The posts that measurements read have the mean as well.
            for posts in [data.newest(100), data.posts_of(0).collect()] {
                let mut sums = (0, 0);
                for k in &posts {
                    let (comments, likes) = data.reaction_counts(*k);
                    sums = (sums.0 + comments, sums.1 + likes);
                }
                let count = posts.len() as f64;
                assert!(
                    is_near(sums.0 as f64 / count, 12.5, 0.1),
                    "{scale}: {sums:?} of {count}"
                );
                assert!(
                    is_near(sums.1 as f64 / count, 50.0, 0.1),
                    "{scale}: {sums:?} of {count}"
                );
            }
        }
    }

    #[test]
    fn counts_reach_the_articles_bounds_and_do_not_exceed_them() {
        let data = Dataset::new(1, 0.01).unwrap();
        let reactions: Vec<_> = (1..data.posts()).map(|k| data.reaction_counts(k)).collect();
        assert_eq!(
            reactions
                .iter()
                .map(|r| r.0)
                .min()
                .zip(reactions.iter().map(|r| r.0).max()),
            Some((0, 25))
        );
        assert_eq!(
            reactions
                .iter()
                .map(|r| r.1)
                .min()
                .zip(reactions.iter().map(|r| r.1).max()),
            Some((0, 100))
        );
        let posts: Vec<_> = (1..data.users())
            .map(|user| data.posts_of(user).count())
            .collect();
        assert_eq!(posts.iter().min().zip(posts.iter().max()), Some((&5, &50)));
    }

    #[test]
    fn probes_and_fresh_entities_have_the_counts_and_lengths_that_the_article_implies() {
        let data = Dataset::new(3, 0.0004).unwrap();
        assert_eq!(data.posts_of(0), 0..27);
        assert_eq!((data.comments(0).len(), data.likes(0).len()), (20, 50));
        assert!(
            data.comments(0)
                .iter()
                .all(|c| c.content.len() == 700 && c.post_id == data.post(0).id)
        );
        assert!(
            data.posts_of(0)
                .all(|k| data.post(k).content.len() == 400 && data.post(k).user == data.user(0))
        );
        let fresh = data.fresh_post(9);
        assert_eq!((fresh.title.len(), fresh.content.len()), (35, 230));
        assert_eq!(data.fresh_comment(9).content.len(), 260);
        assert_eq!(
            (
                fresh.id.len(),
                fresh.created.len(),
                fresh.user.username.len()
            ),
            (36, 28, 10)
        );
    }

    #[test]
    fn ids_and_dates_are_unique_and_newest_returns_the_latest_posts() {
        let data = Dataset::new(5, 0.0004).unwrap();
        let posts: Vec<_> = (0..data.posts()).map(|k| data.post(k)).collect();
        let mut ids: HashSet<_> = posts.iter().map(|p| p.id.clone()).collect();
        ids.extend(
            (0..data.posts())
                .flat_map(|k| data.likes(k))
                .map(|like| like.id),
        );
        assert_eq!(ids.len() as u64, data.posts() + data.totals().likes);
        let mut dates: Vec<_> = posts.iter().map(|p| p.created.clone()).collect();
        dates.sort_unstable_by(|a, b| b.cmp(a));
        dates.dedup();
        assert_eq!(dates.len(), posts.len());
        let newest: Vec<_> = data
            .newest(100)
            .into_iter()
            .map(|k| data.post(k).created)
            .collect();
        assert_eq!(newest, dates[..100]);
        assert!(data.fresh_post(0).created > dates[0]);
    }

    #[test]
    fn a_scale_out_of_range_is_refused() {
        for scale in [0.0, -1.0, 0.00001, 11.0, f64::NAN] {
            assert!(Dataset::new(1, scale).is_err(), "{scale}");
        }
    }
}
