//! The charges that the published rules give for the requests of the blog.
//!
//! The server applies these rules; this file states the part that the blog needs a second time. The
//! report can then show measured and expected charges side by side, and tests can check that the
//! items of the data set have the sizes and index terms that the article's charges imply. In short:
//!
//! - 1 RU is 21 units. A write costs (26 + index terms) units on each of four replicas, a point
//!   read 21 units on one replica.
//! - A query pays for each partition, each equality lookup, each index entry passed, and each item
//!   and KB loaded.
//! - A stored procedure pays a fixed part, its reads, its most expensive write, and a share of
//!   every further write.
//!
//! `docs/request-units.md` derives the prices. The rules for items over 1 KB are left out: no item
//! that the blog writes or reads by key is larger, which a test checks. The number of index entries
//! passed is an estimate, since it depends on the access path that the server chooses.

use crate::dataset::Dataset;
use crate::models::{
    FEED_LENGTH, Model, Request, comment_item, like_item, post_item, short_post, user_item,
};
use crate::options::Profile;
use serde_json::Value;
use std::collections::BTreeSet;

/// Bytes of the five system properties in a stored item.
const SYSTEM_BYTES: usize = 225;
const UNITS_PER_RU: f64 = 21.0;
/// Replicas that a write pays for.
const REPLICAS: f64 = 4.0;
/// Units of a write on one replica, without index terms.
const WRITE_UNITS: f64 = 26.0;
/// Index terms that change if a replacement changes one counter: the old and new value of the
/// counter and of `_ts`.
const COUNTER_CHANGE_TERMS: f64 = 4.0;
/// Rows that Q6 requests of each partition, see `page_size` in `query`.
const FEED_ROWS_PER_PARTITION: f64 = 10.0;
/// Items for each post of the data set: the post, 12.5 comments and 50 likes on average.
const ITEMS_PER_POST: f64 = 63.5;

/// Prices of query and script work in RU, unless a field says otherwise.
struct Rates {
    /// For each physical partition that a query reads.
    partition: f64,
    /// For each equality lookup in an index.
    seek: f64,
    /// For each index entry passed.
    walked_entry: f64,
    loaded_item: f64,
    loaded_kb: f64,
    returned_row: f64,
    returned_kb: f64,
    /// For each row built by a SELECT list other than `*`.
    projected_row: f64,
    /// For each aggregate query.
    aggregate: f64,
    /// True if COUNT loads the items that it counts.
    count_loads_items: bool,
    /// For each execution of a stored procedure.
    script: f64,
    /// The share (0 to 1) of every write of a procedure after its most expensive one.
    further_write_share: f64,
}

const Y2019: Rates = Rates {
    partition: 2.70,
    seek: 0.10,
    walked_entry: 0.005,
    loaded_item: 0.040,
    loaded_kb: 0.170,
    returned_row: 0.0,
    returned_kb: 0.0,
    projected_row: 0.010,
    aggregate: 0.20,
    count_loads_items: true,
    script: 2.20,
    further_write_share: 0.13,
};

const MODERN: Rates = Rates {
    partition: 2.70,
    seek: 0.10,
    walked_entry: 0.004,
    loaded_item: 0.0145,
    loaded_kb: 0.0062,
    returned_row: 0.0095,
    returned_kb: 0.0010,
    projected_row: 0.0006,
    aggregate: 0.0,
    count_loads_items: false,
    script: 2.20,
    further_write_share: 0.13,
};

/// A number of items and their total size.
#[derive(Clone, Copy, Default)]
struct ItemTotals {
    count: f64,
    kb: f64,
}

impl ItemTotals {
    fn of<'a>(items: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut totals = Self::default();
        for item in items {
            totals.count += 1.0;
            totals.kb += stored_kb(item);
        }
        totals
    }

    fn times(self, factor: f64) -> Self {
        Self {
            count: self.count * factor,
            kb: self.kb * factor,
        }
    }

    /// Returns one item of the mean size.
    fn mean(self) -> Self {
        self.times(1.0 / self.count.max(1.0))
    }
}

/// Returns the stored size of an item in KB of 1,024 bytes.
fn stored_kb(item: &Value) -> f64 {
    (item.to_string().len() + SYSTEM_BYTES) as f64 / 1024.0
}

/// Returns the number of index terms of a flat item under the default indexing policy. `key_path`
/// is the path of the partition key.
///
/// `id`, `_ts` and the partition key (unless its path is `/id`) have one term each. Every other
/// property has one term for its presence and one for its value; a string has one for every 40
/// bytes or part thereof, up to 1,024 bytes.
fn index_terms(item: &Value, key_path: &str) -> f64 {
    let mut terms = BTreeSet::new();
    for (name, value) in item.as_object().into_iter().flatten() {
        if name == "id" {
            continue;
        }
        let value_terms = match value.as_str() {
            Some(text) => text.len().clamp(1, 1024).div_ceil(40),
            None => 1,
        };
        // Term 0 is the presence of the property.
        for term in 0..=value_terms {
            terms.insert((name.as_str(), term));
        }
    }
    let system_terms = if key_path == "/id" { 2 } else { 3 };
    (terms.len() + system_terms) as f64
}

/// Returns the charge of creating an item of at most 1 KB, in RU.
fn create_charge(item: &Value, key_path: &str) -> f64 {
    REPLICAS * (WRITE_UNITS + index_terms(item, key_path)) / UNITS_PER_RU
}

/// Returns the charge of a request according to the published rules, in RU. `partitions` is the
/// number of physical partitions of `posts`.
pub(crate) fn expected_charge(
    data: &Dataset,
    partitions: usize,
    profile: Profile,
    model: Model,
    request: Request,
) -> f64 {
    let rates = match profile {
        Profile::Y2019 => &Y2019,
        Profile::Modern => &MODERN,
    };
    let cost_model = CostModel {
        data,
        partitions: partitions as f64,
        rates,
        model,
    };
    cost_model.charge(request)
}

/// The charges of one model with one data set, in RU.
struct CostModel<'a> {
    data: &'a Dataset,
    /// Physical partitions of `posts`.
    partitions: f64,
    rates: &'static Rates,
    model: Model,
}

impl CostModel<'_> {
    fn charge(&self, request: Request) -> f64 {
        let (data, model) = (self.data, self.model);
        let users_key = if model == Model::V3 { "/userId" } else { "/id" };
        match request {
            Request::C1 => create_charge(&user_item(model, &data.fresh_user(0)), users_key),
            Request::Q1 => 1.0,
            Request::C2 => create_charge(&post_item(model, &data.fresh_post(0), 0, 0), "/postId"),
            // V1 reads the post and its author, and counts comments and likes.
            Request::Q2 if model == Model::V1 => 2.0 + self.count_queries(0),
            Request::Q2 => 1.0,
            Request::Q3 => self.posts_of_user(),
            Request::C3 => self.reaction(&comment_item(model, &data.fresh_comment(0))),
            Request::Q4 => self.list(self.comments_of(0)),
            Request::C4 => self.reaction(&like_item(model, &data.fresh_like(0))),
            Request::Q5 => self.list(self.likes_of(0)),
            Request::Q6 => self.feed(),
        }
    }

    /// Returns the charge of C3 or C4: a create in V1; in V2 and V3 a procedure that reads and
    /// replaces the post and creates the item.
    fn reaction(&self, item: &Value) -> f64 {
        let create = create_charge(item, "/postId");
        if self.model == Model::V1 {
            return create;
        }
        let read = 1.0;
        let replace = REPLICAS * (2.0 * WRITE_UNITS + COUNTER_CHANGE_TERMS) / UNITS_PER_RU;
        self.rates.script
            + read
            + replace.max(create)
            + self.rates.further_write_share * replace.min(create)
    }

    /// Returns the charge of Q4 or Q5: a query in one logical partition; V1 then reads the author
    /// of each item.
    fn list(&self, items: ItemTotals) -> f64 {
        let query = self.query(1.0, items.count, items);
        if self.model == Model::V1 {
            query + items.count
        } else {
            query
        }
    }

    /// Returns the charge of Q3.
    fn posts_of_user(&self) -> f64 {
        let posts: Vec<u64> = self.data.posts_of(0).collect();
        if self.model == Model::V3 {
            let short: Vec<_> = posts.iter().filter_map(|k| self.short_post(*k)).collect();
            return self.query(1.0, posts.len() as f64, ItemTotals::of(&short));
        }

        // The query intersects two index lists, the items of the user and all posts. The shorter
        // list is passed.
        let totals = self.data.totals();
        let items = totals.posts as f64 + (totals.comments + totals.likes) as f64;
        let items_of_user = items / totals.users as f64;
        let walked = items_of_user.min(totals.posts as f64);
        let full: Vec<_> = posts.iter().map(|k| self.full_post(*k)).collect();
        let query = self.query(self.partitions, walked, ItemTotals::of(&full));
        if self.model == Model::V2 {
            return query;
        }

        // V1 reads the user once and counts the comments and likes of every post.
        let mut charge = query + 1.0;
        for k in posts {
            charge += self.count_queries(k);
        }
        charge
    }

    /// Returns the charge of Q6.
    fn feed(&self) -> f64 {
        let newest = self.data.newest(FEED_LENGTH);
        if self.model == Model::V3 {
            let short: Vec<_> = newest.iter().filter_map(|k| self.short_post(*k)).collect();
            return self.query(1.0, short.len() as f64, ItemTotals::of(&short));
        }

        // Each partition returns ten posts. The index is ordered by date alone, so the walk to
        // these posts also passes the comments and likes between them.
        let posts_per_partition = self.data.posts() as f64 / self.partitions;
        let rows = self.partitions * posts_per_partition.min(FEED_ROWS_PER_PARTITION);
        let full: Vec<_> = newest.iter().map(|k| self.full_post(*k)).collect();
        let loaded = ItemTotals::of(&full).mean().times(rows);
        let query = self.query(self.partitions, rows * ITEMS_PER_POST, loaded)
            + rows * self.rates.projected_row;
        if self.model == Model::V2 {
            return query;
        }

        // V1 reads the author of every post and counts its comments and likes.
        let mut charge = query;
        for k in newest {
            charge += 1.0 + self.count_queries(k);
        }
        charge
    }

    /// Returns the charge of a query with two equality lookups (or one and an ORDER BY index) in
    /// each of `partitions`. `walked` index entries and `items` are totals over all partitions.
    fn query(&self, partitions: f64, walked: f64, items: ItemTotals) -> f64 {
        let rates = self.rates;
        partitions * (rates.partition + 2.0 * rates.seek)
            + walked * rates.walked_entry
            + items.count * (rates.loaded_item + rates.returned_row)
            + items.kb * (rates.loaded_kb + rates.returned_kb)
    }

    /// Returns the charge of the two COUNT queries of post `k`.
    fn count_queries(&self, k: u64) -> f64 {
        self.count(self.comments_of(k)) + self.count(self.likes_of(k))
    }

    /// Returns the charge of a COUNT query in one logical partition.
    fn count(&self, items: ItemTotals) -> f64 {
        let rates = self.rates;
        let loading = if rates.count_loads_items {
            items.count * rates.loaded_item + items.kb * rates.loaded_kb
        } else {
            0.0
        };
        rates.partition
            + 2.0 * rates.seek
            + items.count * rates.walked_entry
            + loading
            + rates.returned_row
            + rates.aggregate
    }

    /// Returns post `k` as `posts` stores it.
    fn full_post(&self, k: u64) -> Value {
        let (comments, likes) = self.data.reaction_counts(k);
        post_item(self.model, &self.data.post(k), comments, likes)
    }

    /// Returns the short copy of post `k` that V3 stores.
    fn short_post(&self, k: u64) -> Option<Value> {
        short_post(&self.full_post(k))
    }

    fn comments_of(&self, k: u64) -> ItemTotals {
        let comments = self.data.comments(k);
        let items: Vec<_> = comments
            .iter()
            .map(|comment| comment_item(self.model, comment))
            .collect();
        ItemTotals::of(&items)
    }

    fn likes_of(&self, k: u64) -> ItemTotals {
        let likes = self.data.likes(k);
        let items: Vec<_> = likes
            .iter()
            .map(|like| like_item(self.model, like))
            .collect();
        ItemTotals::of(&items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::article;

    fn data(scale: f64) -> Dataset {
        Dataset::new(1, scale).unwrap()
    }

    #[test]
    fn fresh_items_have_the_index_terms_that_the_articles_charges_imply() {
        let data = data(0.0004);
        let (user, post) = (data.fresh_user(0), data.fresh_post(0));
        let (comment, like) = (data.fresh_comment(0), data.fresh_like(0));
        assert_eq!(
            index_terms(&user_item(Model::V1, &user), "/id"),
            4.0,
            "a user is 30 units"
        );
        assert_eq!(
            index_terms(&post_item(Model::V1, &post, 0, 0), "/postId"),
            20.0,
            "a post is 46 units"
        );
        assert_eq!(
            index_terms(&comment_item(Model::V1, &comment), "/postId"),
            19.0,
            "a comment is 45 units"
        );
        assert_eq!(
            index_terms(&like_item(Model::V1, &like), "/postId"),
            11.0,
            "a like is 37 units"
        );
        assert_eq!(index_terms(&user_item(Model::V3, &user), "/userId"), 9.0);
        assert_eq!(
            index_terms(&post_item(Model::V2, &post, 0, 0), "/postId"),
            26.0
        );
        assert_eq!(
            index_terms(&comment_item(Model::V2, &comment), "/postId"),
            21.0
        );
        assert_eq!(index_terms(&like_item(Model::V2, &like), "/postId"), 13.0);
    }

    #[test]
    fn stored_items_have_the_sizes_that_the_articles_charges_imply() {
        let data = data(0.0004);
        let check = |value: f64, expected: f64| {
            assert!(
                (value - expected).abs() <= 0.011,
                "{value} KB, not {expected}"
            );
        };
        check(
            stored_kb(&comment_item(Model::V2, &data.comments(0)[0])),
            1.15,
        );
        check(stored_kb(&like_item(Model::V2, &data.likes(0)[0])), 0.44);
        let short: Vec<_> = data
            .newest(100)
            .iter()
            .filter_map(|k| short_post(&post_item(Model::V3, &data.post(*k), 12, 50)))
            .collect();
        // 35 characters of content would make 0.56 KB.
        let short_kb = ItemTotals::of(&short).mean().kb;
        assert!((0.62..0.66).contains(&short_kb), "{short_kb} KB");
        check(
            stored_kb(&post_item(Model::V2, &data.post(1), 12, 50)),
            0.92,
        );
    }

    #[test]
    fn items_that_are_written_or_read_by_key_are_at_most_one_kb() {
        let data = data(0.0004);
        for model in Model::ALL {
            for item in [
                user_item(model, &data.user(0)),
                post_item(model, &data.post(0), 20, 50),
                post_item(model, &data.fresh_post(0), 200, 200),
                comment_item(model, &data.fresh_comment(0)),
                like_item(model, &data.fresh_like(0)),
            ] {
                assert!(
                    stored_kb(&item) <= 1.0,
                    "{model}: {} KB: {item}",
                    stored_kb(&item)
                );
            }
        }
    }

    /// The charges that a cost model fitted to the article gives for the article's data set.
    const FITTED: [(Request, [f64; 3]); 10] = [
        (Request::C1, [5.71, 5.71, 6.67]),
        (Request::Q1, [1.00, 1.00, 1.00]),
        (Request::C2, [8.76, 9.90, 9.90]),
        (Request::Q2, [18.64, 1.00, 1.00]),
        (Request::Q3, [604.95, 202.58, 6.69]),
        (Request::C3, [8.57, 15.03, 15.03]),
        (Request::Q4, [27.61, 7.71, 7.71]),
        (Request::C4, [7.05, 14.83, 14.83]),
        (Request::Q5, [58.64, 8.89, 8.89]),
        (Request::Q6, [2103.66, 523.64, 16.92]),
    ];

    /// Returns the share by which a charge may differ from the fitted model. The excerpts in short
    /// copies are longer than the article's 35 characters, as far as its figures allow.
    fn tolerance(request: Request, model: Model) -> f64 {
        match (request, model) {
            (Request::Q3 | Request::Q6, Model::V3) => 0.1,
            _ => 0.06,
        }
    }

    #[test]
    fn every_charge_is_near_the_fitted_model_and_the_article_at_any_scale() {
        for scale in [0.0004, 0.01] {
            let data = data(scale);
            for (request, fitted) in FITTED {
                for (model, fitted) in Model::ALL.into_iter().zip(fitted) {
                    let ru = expected_charge(&data, 67, Profile::Y2019, model, request);
                    assert!(
                        (ru / fitted - 1.0).abs() < tolerance(request, model),
                        "{request} {model} at {scale}: {ru:.2}, fitted {fitted}"
                    );
                    if article::note(request, model).is_none() {
                        let published = article::published(request, model).1;
                        assert!(
                            (ru / published - 1.0).abs() < 0.1,
                            "{request} {model}: {ru:.2}, not {published}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn current_charges_of_the_four_lists_are_the_documented_ones() {
        let data = data(0.0004);
        for (request, model, documented) in [
            (Request::Q4, Model::V2, 3.63),
            (Request::Q5, Model::V2, 4.46),
            (Request::Q3, Model::V3, 3.76),
            (Request::Q6, Model::V3, 6.10),
        ] {
            let ru = expected_charge(&data, 67, Profile::Modern, model, request);
            assert!(
                (ru / documented - 1.0).abs() < 0.05,
                "{request} {model}: {ru:.2}, not {documented}"
            );
        }
    }
}
