//! The article's data set at any scale: the same users, posts, comments and likes for the same seed, on every machine.
//!
//! Scale 1 is 100,000 users with 5 to 50 posts each, up to 25 comments and up to 100 likes per post. Every entity can be
//! made from its number alone, in any order, so nothing is held in memory but one number per user.
//!
//! What must hold at *any* scale is the ratio of 1 post to 12.5 comments to 50 likes, because the price of the
//! front page without a view of its own comes from walking past them. So counts are not drawn at random but spread
//! evenly (a low-discrepancy sequence): any stretch of posts, ordered by date, has almost exactly the mean.
//!
//! User 0 and post 0 are the *probes* that measurements look at: 27 posts; 20 comments and 50 likes. The probe user's
//! posts and the probe post's comments have the mean length of text exactly. Fresh entities, which measured writes
//! create, have the lengths the article must have used: 35 characters of title, 230 and 260 of text.

use crate::BlogError;
use crate::random::{Kind, Texts, below, between, random, uuid};
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
/// The posts of one year, from 1 May 2018: it ends when the article was measured.
const FIRST_SECOND: i64 = 1_525_132_800;
const SPAN_MICROS: u64 = 365 * 86_400 * 1_000_000;
/// A post is commented on and liked within this time. It is short against the year, so that the newest posts have as
/// many reactions around them as any others.
const REACTION_MICROS: u64 = 600 * 1_000_000;
/// Fractions of a two-dimensional low-discrepancy sequence (powers of the plastic number).
const SPREAD: (f64, f64) = (0.754_877_666_246_693, 0.569_840_290_998_053);
const GOLDEN: f64 = 0.618_033_988_749_895;

/// A user.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the entity's own words")]
pub struct User {
    pub id: String,
    pub username: String,
}

/// A post, with its author's name for the models that keep a copy of it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the entity's own words")]
pub struct Post {
    pub id: String,
    pub user: User,
    pub title: String,
    pub content: String,
    pub created: String,
}

/// A comment on a post.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the entity's own words")]
pub struct Comment {
    pub id: String,
    pub post_id: String,
    pub user: User,
    pub content: String,
    pub created: String,
}

/// A like of a post.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the entity's own words")]
pub struct Like {
    pub id: String,
    pub post_id: String,
    pub user: User,
    pub created: String,
}

/// How many entities a data set has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the entities' names")]
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
    /// Number of the first post of each user, and the number of posts at the end.
    first_posts: Vec<u64>,
    /// Post number times this, modulo the number of posts, is its rank by date.
    stride: u64,
    texts: Texts,
}

impl Dataset {
    /// The data set of `seed` at `scale`: scale 1 is the article's. Refuses scales of less than two users or above 10.
    pub fn new(seed: u64, scale: f64) -> Result<Self, BlogError> {
        let users = (USERS * scale).round();
        if !(2.0..=10.0 * USERS).contains(&users) {
            return Err(BlogError::Option(format!(
                "the scale {scale} is not between 0.00002 (two users) and 10"
            )));
        }
        let others = users as u64 - 1;
        let shuffle = coprime_near(others, (others as f64 * GOLDEN) as u64);
        let mut first_posts = vec![0, PROBE_POSTS];
        let mut posts = PROBE_POSTS;
        for user in 0..others {
            posts += 5 + share(user, shuffle, others, 46);
            first_posts.push(posts);
        }
        let stride = coprime_near(posts, (posts as f64 * GOLDEN) as u64);
        Ok(Self {
            seed,
            first_posts,
            stride,
            texts: Texts::new(&mut random(seed, Kind::Texts, 0)),
        })
    }

    /// Number of users.
    pub fn users(&self) -> u64 {
        self.first_posts.len() as u64 - 1
    }

    /// Number of posts.
    pub fn posts(&self) -> u64 {
        self.first_posts.last().copied().unwrap_or_default()
    }

    /// All numbers of entities; goes through all posts once.
    pub fn totals(&self) -> Totals {
        let (mut comments, mut likes) = (0, 0);
        for post in 0..self.posts() {
            let (more_comments, more_likes) = self.reactions(post);
            comments += more_comments;
            likes += more_likes;
        }
        Totals {
            users: self.users(),
            posts: self.posts(),
            comments,
            likes,
        }
    }

    /// User number `n`; number 0 is the probe user.
    pub fn user(&self, n: u64) -> User {
        named(&mut random(self.seed, Kind::User, n))
    }

    /// The numbers of a user's posts.
    pub fn posts_of(&self, user: u64) -> Range<u64> {
        let at = |n: u64| {
            self.first_posts
                .get(n as usize)
                .copied()
                .unwrap_or(self.posts())
        };
        at(user)..at(user.saturating_add(1))
    }

    /// The numbers of the `count` newest posts, newest first.
    pub fn newest(&self, count: u64) -> Vec<u64> {
        let oldest = self.posts().saturating_sub(count);
        let mut posts: Vec<u64> = (0..self.posts())
            .filter(|post| self.rank(*post) >= oldest)
            .collect();
        posts.sort_by_key(|post| std::cmp::Reverse(self.rank(*post)));
        posts
    }

    /// Post number `k`; number 0 is the probe post.
    pub fn post(&self, k: u64) -> Post {
        let mut random = random(self.seed, Kind::Post, k);
        let author = self.first_posts.partition_point(|first| *first <= k) as u64 - 1;
        let probe = k < PROBE_POSTS;
        let id = uuid(&mut random);
        let title = if probe {
            30
        } else {
            between(&mut random, 20, 40)
        };
        let content = if probe {
            400
        } else {
            between(&mut random, 300, 500)
        };
        Post {
            id,
            user: self.user(author),
            title: self.texts.take(&mut random, title),
            content: self.texts.take(&mut random, content),
            created: date(self.created_micros(k)),
        }
    }

    /// How many comments and likes post `k` has.
    pub fn reactions(&self, k: u64) -> (u64, u64) {
        if k == 0 {
            return (PROBE_COMMENTS, PROBE_LIKES);
        }
        if k < PROBE_POSTS {
            return (share(k, 7, PROBE_POSTS, 26), share(k, 11, PROBE_POSTS, 101));
        }
        let rank = self.rank(k);
        (spread(rank, SPREAD.0, 26), spread(rank, SPREAD.1, 101))
    }

    /// The comments on post `k`.
    pub fn comments(&self, k: u64) -> Vec<Comment> {
        let post_id = uuid(&mut random(self.seed, Kind::Post, k));
        let one = |j: u64| {
            let mut random = random(self.seed, Kind::Comment, k * 128 + j);
            let length = if k == 0 {
                700
            } else {
                between(&mut random, 500, 900)
            };
            Comment {
                id: uuid(&mut random),
                post_id: post_id.clone(),
                user: self.user(below(&mut random, self.users())),
                content: self.texts.take(&mut random, length),
                created: date(self.created_micros(k) + 1 + below(&mut random, REACTION_MICROS)),
            }
        };
        (0..self.reactions(k).0).map(one).collect()
    }

    /// The likes of post `k`.
    pub fn likes(&self, k: u64) -> Vec<Like> {
        let post_id = uuid(&mut random(self.seed, Kind::Post, k));
        let one = |j: u64| {
            let mut random = random(self.seed, Kind::Like, k * 128 + j);
            Like {
                id: uuid(&mut random),
                post_id: post_id.clone(),
                user: self.user(below(&mut random, self.users())),
                created: date(self.created_micros(k) + 1 + below(&mut random, REACTION_MICROS)),
            }
        };
        (0..self.reactions(k).1).map(one).collect()
    }

    /// A user that is not in the data set: the `n`-th that a measurement creates.
    pub fn fresh_user(&self, n: u64) -> User {
        named(&mut random(self.seed, Kind::FreshUser, n))
    }

    /// A post that is not in the data set, by the probe user.
    pub fn fresh_post(&self, n: u64) -> Post {
        let mut random = random(self.seed, Kind::FreshPost, n);
        Post {
            id: uuid(&mut random),
            user: self.user(0),
            title: self.texts.take(&mut random, 35),
            content: self.texts.take(&mut random, 230),
            created: date(SPAN_MICROS + REACTION_MICROS + n),
        }
    }

    /// A comment on [`Dataset::fresh_post`] `n`, by the probe user.
    pub fn fresh_comment(&self, n: u64) -> Comment {
        let mut random = random(self.seed, Kind::FreshComment, n);
        Comment {
            id: uuid(&mut random),
            post_id: self.fresh_post(n).id,
            user: self.user(0),
            content: self.texts.take(&mut random, 260),
            created: date(SPAN_MICROS + 2 * REACTION_MICROS + n),
        }
    }

    /// A like of [`Dataset::fresh_post`] `n`, by the probe user.
    pub fn fresh_like(&self, n: u64) -> Like {
        let mut random = random(self.seed, Kind::FreshLike, n);
        let created = date(SPAN_MICROS + 2 * REACTION_MICROS + n);
        Like {
            id: uuid(&mut random),
            post_id: self.fresh_post(n).id,
            user: self.user(0),
            created,
        }
    }

    /// The rank of post `k` by date, 0 the oldest: a permutation, so that each user's posts lie all over the year.
    fn rank(&self, k: u64) -> u64 {
        (u128::from(k) * u128::from(self.stride) % u128::from(self.posts())) as u64
    }

    fn created_micros(&self, k: u64) -> u64 {
        (u128::from(self.rank(k)) * u128::from(SPAN_MICROS) / u128::from(self.posts())) as u64
    }
}

/// The `n`-th value of an even spread over 0..values.
fn spread(n: u64, fraction: f64, values: u64) -> u64 {
    ((0.5 + n as f64 * fraction).fract() * values as f64) as u64
}

/// The value in 0..values of the `n`-th of `count`, which take even shares of the values in a shuffled order.
fn share(n: u64, shuffle: u64, count: u64, values: u64) -> u64 {
    (2 * (n * shuffle % count) + 1) * values / (2 * count)
}

fn coprime_near(modulus: u64, near: u64) -> u64 {
    let divides = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a > 1
    };
    let mut candidate = near.max(1);
    while divides(modulus, candidate) {
        candidate += 1;
    }
    candidate
}

/// A user with a pronounceable name of ten characters.
fn named(random: &mut Pcg32) -> User {
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

/// A date in ISO 8601 with seven digits of the second, as .NET writes it: 28 characters.
fn date(micros: u64) -> String {
    // At most a few days after the year, so the sum is always a time.
    let time =
        Timestamp::from_microsecond(FIRST_SECOND * 1_000_000 + micros as i64).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.6f0Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_same_seed_gives_the_same_data_and_another_gives_others() {
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
        // Pinned: a change of generator would silently make old and new runs incomparable.
        assert_eq!(
            a.user(0),
            User {
                id: PINNED.0.into(),
                username: PINNED.1.into()
            }
        );
    }

    const PINNED: (&str, &str) = ("6bf5efd5-03d2-4e84-b8ed-a1ff64dd138e", "paruligi97");

    #[test]
    fn the_ratios_hold_at_every_scale() {
        for scale in [0.0002, 0.0004, 0.001, 0.01, 0.1] {
            let data = Dataset::new(1, scale).unwrap();
            let totals = data.totals();
            let posts = totals.posts as f64;
            let near = |value: f64, wanted: f64, part: f64| (value / wanted - 1.0).abs() < part;
            assert_eq!(totals.users, (scale * 100_000.0_f64).round() as u64);
            assert!(
                near(posts / totals.users as f64, 27.5, 0.02),
                "{scale}: {totals:?}"
            );
            assert!(
                near(totals.comments as f64 / posts, 12.5, 0.02),
                "{scale}: {totals:?}"
            );
            assert!(
                near(totals.likes as f64 / posts, 50.0, 0.02),
                "{scale}: {totals:?}"
            );
            // The stretches that measurements look at have the mean too.
            for stretch in [data.newest(100), data.posts_of(0).collect()] {
                let sums = stretch
                    .iter()
                    .map(|k| data.reactions(*k))
                    .fold((0, 0), |s, r| (s.0 + r.0, s.1 + r.1));
                let count = stretch.len() as f64;
                assert!(
                    near(sums.0 as f64 / count, 12.5, 0.1),
                    "{scale}: {sums:?} of {count}"
                );
                assert!(
                    near(sums.1 as f64 / count, 50.0, 0.1),
                    "{scale}: {sums:?} of {count}"
                );
            }
        }
    }

    #[test]
    fn counts_stay_within_the_articles_bounds_and_reach_them() {
        let data = Dataset::new(1, 0.01).unwrap();
        let reactions: Vec<_> = (1..data.posts()).map(|k| data.reactions(k)).collect();
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
    fn the_probes_have_the_counts_and_lengths_that_the_article_implies() {
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
    fn ids_and_dates_are_distinct_and_the_newest_posts_are_the_newest() {
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
    fn a_scale_without_users_is_refused() {
        for scale in [0.0, -1.0, 0.00001, 11.0, f64::NAN] {
            assert!(Dataset::new(1, scale).is_err(), "{scale}");
        }
    }
}
