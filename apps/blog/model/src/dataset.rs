//! The article's data set at any scale. Equal seeds give equal data on every machine, with dates
//! relative to the *end* of the data set: the time at which the data set begins to be loaded.
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
//! The posts are spread over the four months before the end, the newest is two hours old, and
//! comments and likes follow within hours. The texts are those of module `prose`.
//!
//! Measurements read the *probes*, user 0 and post 0: the probe user has 27 posts, the probe post
//! 20 comments and 50 likes. The texts of the probe user's posts and of the probe post's comments
//! have the mean length. Measured writes create *fresh* entities with as many index terms as the
//! article's charges imply: 1 for the title and 6 for the text of a post (201 to 240 bytes), 7 for
//! the text of a comment (241 to 280 bytes).

use crate::BlogError;
use crate::prose::{Names, Prose, Topic, Topics, coprime_near};
use crate::random::{StreamKind, random, random_below, random_between, uuid};
use jiff::Timestamp;
use rand_pcg::Pcg32;
use std::ops::Range;

/// Users at scale 1.
const USERS: f64 = 100_000.0;
const PROBE_POSTS: u64 = 27;
const PROBE_COMMENTS: u64 = 20;
const PROBE_LIKES: u64 = 50;
/// The end of the dates in a data set that is only measured, in seconds since 1970: 1 May 2019, the
/// time of the article's measurement.
pub const ARTICLE_END: i64 = 1_556_668_800;
const MICROS_PER_HOUR: u64 = 3_600 * 1_000_000;
/// Time span of all posts in microseconds: 120 days.
const SPAN_MICROS: u64 = 120 * 24 * MICROS_PER_HOUR;
/// Age of the newest post at the end of the data set.
const NEWEST_AGE_MICROS: u64 = 2 * MICROS_PER_HOUR;
/// Time within which a post gets its comments and likes.
const REACTION_MICROS_MAX: u64 = 20 * MICROS_PER_HOUR;
/// The same time in mean intervals between posts. It is short compared with the 670 posts that Q6
/// reads, so that the newest posts have as many comments and likes around them as other posts.
const REACTION_INTERVALS: u64 = 25;
/// Bytes of texts: see the module documentation.
const PROBE_CONTENT: usize = 400;
const PROBE_COMMENT: usize = 700;
const FRESH_CONTENT: usize = 226;
const FRESH_COMMENT: usize = 262;
/// Time between a fresh post and a fresh comment or like.
const AFTER_POST_MICROS: i64 = 600 * 1_000_000;
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

/// A data set, defined by its seed, its scale and its end.
#[derive(Debug)]
pub struct Dataset {
    seed: u64,
    /// In seconds since 1970.
    end: i64,
    /// Number of the first post of each user, then the number of posts.
    first_posts: Vec<u64>,
    /// Multiplier that gives the rank of a post by date: (post number × stride) mod posts.
    stride: u64,
    topics: Topics,
    names: Names,
}

impl Dataset {
    /// Creates the data set of `seed` at `scale`; scale 1 is the size in the article. It ends at
    /// [`ARTICLE_END`].
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
            end: ARTICLE_END,
            first_posts,
            stride,
            topics: Topics::new(seed),
            names: Names::new(seed),
        })
    }

    /// Returns the same data set with another end, in seconds since 1970.
    pub fn ending_at(mut self, end: i64) -> Self {
        self.end = end;
        self
    }

    /// Returns the end in seconds since 1970.
    pub fn end(&self) -> i64 {
        self.end
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
        User {
            id: uuid(&mut random(self.seed, StreamKind::User, n)),
            username: self.names.of(n),
        }
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
        let content_length = if is_of_probe_user {
            PROBE_CONTENT
        } else {
            random_between(&mut random, 300, 500)
        };
        let topic = self.topic(k);
        Post {
            id,
            user: self.user(author),
            content: Prose::get().post(&mut random, &topic, content_length),
            title: topic.title,
            created: self.date(-(self.age_micros(k) as i64)),
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
        let topic = self.topic(k);
        let mut comments = Vec::with_capacity(count as usize);
        for j in 0..count {
            let mut random = random(self.seed, StreamKind::Comment, reaction_number(k, j));
            let length = if k == 0 {
                PROBE_COMMENT
            } else {
                random_between(&mut random, 500, 900)
            };
            comments.push(Comment {
                id: uuid(&mut random),
                post_id: post_id.clone(),
                user: self.user(random_below(&mut random, self.users())),
                content: Prose::get().comment(&mut random, &topic, j, length),
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
        User {
            id: uuid(&mut random(self.seed, StreamKind::FreshUser, n)),
            username: self.names.of(self.users() + n),
        }
    }

    /// Returns the `n`-th post that a measurement creates, by the probe user.
    pub fn fresh_post(&self, n: u64) -> Post {
        let mut random = random(self.seed, StreamKind::FreshPost, n);
        let topic = self.topics.of(n);
        Post {
            id: uuid(&mut random),
            user: self.user(0),
            content: Prose::get().post(&mut random, &topic, FRESH_CONTENT),
            title: topic.title,
            created: self.date(n as i64),
        }
    }

    /// Returns a comment on [`Dataset::fresh_post`] `n`, by the probe user.
    pub fn fresh_comment(&self, n: u64) -> Comment {
        let mut random = random(self.seed, StreamKind::FreshComment, n);
        Comment {
            id: uuid(&mut random),
            post_id: self.fresh_post(n).id,
            user: self.user(0),
            content: Prose::get().comment(&mut random, &self.topics.of(n), 0, FRESH_COMMENT),
            created: self.date(AFTER_POST_MICROS + n as i64),
        }
    }

    /// Returns a like of [`Dataset::fresh_post`] `n`, by the probe user.
    pub fn fresh_like(&self, n: u64) -> Like {
        let mut random = random(self.seed, StreamKind::FreshLike, n);
        Like {
            id: uuid(&mut random),
            post_id: self.fresh_post(n).id,
            user: self.user(0),
            created: self.date(AFTER_POST_MICROS + n as i64),
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

    /// Returns the topic of post `k`.
    fn topic(&self, k: u64) -> Topic {
        self.topics.of(self.rank(k))
    }

    /// Returns the mean interval between two posts.
    fn interval_micros(&self) -> u64 {
        (SPAN_MICROS / self.posts()).max(1)
    }

    /// Returns the age of post `k` at the end of the data set. Ages differ, and are in the order of
    /// the ranks: a post is moved within the last four fifths of its interval.
    fn age_micros(&self, k: u64) -> u64 {
        let younger = self.posts() - 1 - self.rank(k);
        let move_max = match younger {
            0 => 0,
            _ => self.interval_micros() * 4 / 5,
        };
        let mut random = random(self.seed, StreamKind::Dates, k);
        NEWEST_AGE_MICROS + younger * self.interval_micros() + random_below(&mut random, move_max)
    }

    /// Returns the date of a comment on, or like of, post `k`: after the post, before the end.
    fn reaction_date(&self, k: u64, random: &mut Pcg32) -> String {
        let age = self.age_micros(k);
        let within = REACTION_MICROS_MAX
            .min(REACTION_INTERVALS * self.interval_micros())
            .min(age - 1);
        let after = 1 + random_below(random, within);
        self.date(after as i64 - age as i64)
    }

    /// Returns a date in ISO 8601 with seven decimals of the second, in the format of .NET: 28
    /// characters. `micros` counts from the end of the data set.
    fn date(&self, micros: i64) -> String {
        // The end is the time of a clock, and the argument a few months at most.
        let time = Timestamp::from_microsecond(self.end.saturating_mul(1_000_000) + micros);
        let time = time.unwrap_or_default();
        time.strftime("%Y-%m-%dT%H:%M:%S%.6f0Z").to_string()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prose::SLACK;
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
    const FIRST_USER: (&str, &str) = ("6bf5efd5-03d2-4e84-b8ed-a1ff64dd138e", "박현우");

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
        for comment in data.comments(0) {
            assert!(comment.content.len().abs_diff(700) <= SLACK, "{comment:?}");
            assert_eq!(comment.post_id, data.post(0).id);
        }
        for post in data.posts_of(0).map(|k| data.post(k)) {
            assert!(post.content.len().abs_diff(400) <= SLACK, "{post:?}");
            assert_eq!(post.user, data.user(0));
        }
        // All runs of a measured write have one price: one number of index terms, of 40 bytes each.
        let terms = |text: &str| text.len().div_ceil(40);
        for n in 0..2_000 {
            let (user, post) = (data.fresh_user(n), data.fresh_post(n));
            assert_eq!((user.id.len(), terms(&user.username)), (36, 1), "{user:?}");
            assert_eq!(
                (terms(&post.title), terms(&post.content)),
                (1, 6),
                "{post:?}"
            );
            assert_eq!((post.id.len(), post.created.len()), (36, 28));
            let comment = data.fresh_comment(n);
            assert_eq!(terms(&comment.content), 7, "{comment:?}");
        }
    }

    #[test]
    fn texts_have_the_mean_lengths_of_the_article() {
        let data = Dataset::new(1, 0.001).unwrap();
        let (mut titles, mut contents, mut names, mut comments) = (0, 0, 0, Vec::new());
        for k in 0..data.posts() {
            let post = data.post(k);
            titles += post.title.len() as u64;
            contents += post.content.len() as u64;
            names += post.user.username.len() as u64;
            for comment in data.comments(k) {
                comments.push(comment.content.len() as u64);
            }
        }
        let mean = |sum: u64| sum / data.posts();
        assert!((26..=32).contains(&mean(titles)), "{}", mean(titles));
        assert!((395..=405).contains(&mean(contents)), "{}", mean(contents));
        assert!((9..=18).contains(&mean(names)), "{}", mean(names));
        let mean = comments.iter().sum::<u64>() / comments.len() as u64;
        assert!((695..=705).contains(&mean), "{mean}");
    }

    #[test]
    fn posts_are_of_the_last_months_and_reactions_come_before_the_end() {
        const END: i64 = 1_790_000_000;
        for scale in [0.00002, 0.0004, 0.01] {
            let data = Dataset::new(1, scale).unwrap().ending_at(END);
            let hours_before = |date: &str| {
                let date: Timestamp = date.parse().unwrap();
                (END * 1_000 - date.as_millisecond()) as f64 / 3_600_000.0
            };
            let newest = data.newest(1)[0];
            assert!((hours_before(&data.post(newest).created) - 2.0).abs() < 0.001);
            for k in [newest, 0, data.posts() - 1] {
                let created = data.post(k).created;
                assert!(hours_before(&created) < 121.0 * 24.0, "{created}");
                let (comments, likes) = (data.comments(k), data.likes(k));
                let dates = comments.iter().map(|comment| &comment.created);
                for date in dates.chain(likes.iter().map(|like| &like.created)) {
                    assert!(*date > created && hours_before(date) > 0.0, "{date}");
                }
            }
            assert!(hours_before(&data.fresh_post(0).created) <= 0.0);
        }
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
