//! The parts of the lesson that show the small blog of the lab: the copies of a name, the feed that
//! is cut, the feed that is not, and the charges of indexing policies.
//!
//! Each part is a picture with its table and the button of its step. A part that is being prepared
//! is polled.

use super::comparison::{Failure, explain};
use super::figures;
use super::parts::{Item, Script, query};
use askama::Template;
use orrery_blog::Measurement;
use orrery_blog::lesson::lab::small_blog::{
    Added, Copy, FEED_QUERY, Feed, Grown, Names, PolicyCost, Repeated, Results, SEARCH_QUERY, Step,
};
use orrery_blog::lesson::scripts::{TRUNCATE_FEED, UPDATE_USERNAMES};

/// Squares in a row of the picture of the feed, and their size with the gap.
const FEED_COLUMNS: usize = 20;
const SQUARE: f64 = 16.0;

/// The fields that each form of a part has.
#[derive(Clone)]
pub(crate) struct Fields {
    pub(crate) csrf: String,
    pub(crate) token: String,
}

/// A picture of the chapters about copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Picture {
    /// The copies of a name.
    Names,
    /// The feed that is cut.
    Feed,
    /// The feed without the trigger.
    Uncut,
    /// One item under several policies.
    Policies,
}

impl Picture {
    /// Returns the picture that shows the result of a step.
    pub(crate) fn of(step: Step) -> Self {
        match step {
            Step::Rename | Step::Repeat => Self::Names,
            Step::AddPost => Self::Feed,
            Step::Grow => Self::Uncut,
            Step::Policies => Self::Policies,
        }
    }

    /// Returns the id of its element.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Feed => "feed-cut",
            Self::Uncut => "uncut",
            Self::Policies => "policies",
        }
    }

    /// Returns the chapter with the picture.
    pub(crate) fn chapter(self) -> usize {
        match self {
            Self::Names => 4,
            Self::Feed | Self::Uncut => 5,
            Self::Policies => 6,
        }
    }
}

/// Returns what happened to the last step, if it belongs to this picture.
fn failure_of(results: &Results, picture: Picture) -> Option<Failure> {
    let (step, error) = results.failure.as_ref()?;
    let is_own = step.is_none_or(|step| Picture::of(step) == picture);
    is_own.then(|| explain(error))
}

/// Returns the markup of the four pictures.
pub(crate) fn rendered(picture: Picture, results: &Results, fields: &Fields) -> String {
    let part: Result<String, askama::Error> = match picture {
        Picture::Names => NamesPart::of(results, fields.clone()).render(),
        Picture::Feed => FeedPart::of(results, fields.clone()).render(),
        Picture::Uncut => UncutPart::of(results, fields.clone()).render(),
        Picture::Policies => PoliciesPart::of(results, fields.clone()).render(),
    };
    // A part that does not render leaves a gap, not an error page.
    part.unwrap_or_default()
}

/// A figure with its unit, of a list of figures.
struct Figure {
    label: String,
    value: String,
    unit: &'static str,
}

fn ru_of(label: &str, cost: Measurement) -> Figure {
    charge_of(label, cost.ru.ru())
}

fn charge_of(label: &str, ru: f64) -> Figure {
    Figure {
        label: label.to_owned(),
        value: figures::exact_ru(ru),
        unit: "RU",
    }
}

fn time_of(label: &str, ms: f64) -> Figure {
    Figure {
        label: label.to_owned(),
        value: figures::milliseconds(ms),
        unit: "",
    }
}

/// The element `#names`.
#[derive(Template)]
#[template(path = "lesson/names.html")]
struct NamesPart {
    fields: Fields,
    failure: Option<Failure>,
    is_preparing: bool,
    /// The name before the last rename; empty before the first.
    from: String,
    username: String,
    groups: Vec<CopyGroup>,
    figures: Vec<Figure>,
    /// The last rename in words.
    words: String,
    repeated: String,
    /// Markup of an item, and of the script.
    sample: String,
    sql: String,
    script: String,
}

/// The copies in one container.
struct CopyGroup {
    container: &'static str,
    purpose: &'static str,
    partitions: Vec<CopyPartition>,
}

/// The copies in one physical partition.
struct CopyPartition {
    range: String,
    copies: Vec<CopyView>,
}

struct CopyView {
    kind: String,
    key: String,
    username: String,
    lag: String,
    /// Milliseconds after the rename, for the replay; empty before a rename.
    at: String,
    ru: String,
}

impl NamesPart {
    fn of(results: &Results, fields: Fields) -> Self {
        let names = results.names.as_ref();
        let renamed = names.and_then(|names| names.renamed.as_ref());
        let mut figures = Vec::new();
        let mut words = String::new();
        if let (Some(names), Some(renamed)) = (names, renamed) {
            let last = names.copies.iter().filter_map(|copy| copy.lag_ms);
            let last = last.fold(0.0, f64::max);
            figures.push(ru_of("the rename itself", renamed.rename));
            figures.push(ru_of("the pipeline to posts", renamed.to_posts));
            figures.push(ru_of("the pipelines to users and feed", renamed.to_copies));
            figures.push(time_of("until the last copy had the name", last));
            words = format!(
                "{} became {}. One write was answered after {}; {} copies followed, and {} posts \
                 have the old name now.",
                renamed.from,
                names.username,
                figures::milliseconds(renamed.rename.ms),
                names.copies.len(),
                renamed.left
            );
        }
        Self {
            fields,
            failure: failure_of(results, Picture::Names),
            is_preparing: results.is_preparing,
            from: renamed
                .map(|renamed| renamed.from.clone())
                .unwrap_or_default(),
            username: names
                .map(|names| names.username.clone())
                .unwrap_or_default(),
            groups: names.map(copy_groups).unwrap_or_default(),
            figures,
            words,
            repeated: results
                .repeated
                .as_ref()
                .map(repeated_words)
                .unwrap_or_default(),
            sample: names.map(name_sample).unwrap_or_default(),
            sql: names.map(name_query).unwrap_or_default(),
            script: Script::new("updateUsernames", UPDATE_USERNAMES).html(),
        }
    }
}

fn repeated_words(repeated: &Repeated) -> String {
    format!(
        "The procedure changed {} items and cost {} RU: the post {} had the name already.",
        repeated.updated,
        figures::exact_ru(repeated.cost.ru.ru()),
        short(&repeated.post)
    )
}

/// Returns a post in which the name is marked as a copy.
fn name_sample(names: &Names) -> String {
    Item::new("a post in posts", &names.sample)
        .copy("userUsername", "username in users")
        .html()
}

/// Returns the query with which the pipeline finds the posts with an old name.
fn name_query(names: &Names) -> String {
    let parameters = [
        ("@userId".to_owned(), names.user["id"].clone()),
        ("@username".to_owned(), names.user["username"].clone()),
    ];
    query(SEARCH_QUERY, &parameters)
}

/// Returns the newest item of the feed with its copies marked.
fn feed_sample(feed: &Feed) -> String {
    Item::new("the newest item in feed", &feed.sample)
        .copy("title", "the post in posts")
        .copy("content", "the first 35 characters")
        .copy("userUsername", "username in users")
        .html()
}

/// Returns a policy as a reader sees it.
fn json_text(item: &serde_json::Value) -> String {
    serde_json::to_string_pretty(item).unwrap_or_default()
}

/// Returns the first characters of an id.
fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

fn copy_groups(names: &Names) -> Vec<CopyGroup> {
    let mut groups = Vec::new();
    for (container, purpose) in [
        ("posts", "posts and comments, spread by postId"),
        ("users", "short copies, together by userId"),
        ("feed", "short copies of the newest hundred"),
    ] {
        let own = names
            .copies
            .iter()
            .filter(|copy| copy.container == container);
        let mut partitions: Vec<CopyPartition> = Vec::new();
        for copy in own {
            let view = copy_view(copy);
            match partitions.iter_mut().find(|one| one.range == copy.range) {
                Some(partition) => partition.copies.push(view),
                None => partitions.push(CopyPartition {
                    range: copy.range.clone(),
                    copies: vec![view],
                }),
            }
        }
        partitions.sort_by(|a, b| a.range.cmp(&b.range));
        groups.push(CopyGroup {
            container,
            purpose,
            partitions,
        });
    }
    groups
}

fn copy_view(copy: &Copy) -> CopyView {
    CopyView {
        kind: match copy.container {
            "posts" => copy.kind.clone(),
            _ => "copy".to_owned(),
        },
        key: short(&copy.key),
        username: copy.username.clone(),
        lag: copy.lag_ms.map(figures::milliseconds).unwrap_or_default(),
        at: copy.lag_ms.map(figures::plain).unwrap_or_default(),
        ru: match copy.charge {
            Some(charge) => figures::exact_ru(charge.ru()),
            None => "not written yet".to_owned(),
        },
    }
}

/// The element `#feed-cut`.
#[derive(Template)]
#[template(path = "lesson/feed-cut.html")]
struct FeedPart {
    fields: Fields,
    failure: Option<Failure>,
    is_preparing: bool,
    squares: Vec<Square>,
    /// The place of the post that was cut.
    cut: Option<Square>,
    height: String,
    posts: Vec<PostRow>,
    figures: Vec<Figure>,
    words: String,
    /// Markup of an item, and of the script.
    sample: String,
    sql: String,
    script: String,
}

/// A post in the picture of the feed.
struct Square {
    x: String,
    y: String,
    is_new: bool,
}

struct PostRow {
    number: usize,
    title: String,
    created: String,
    is_new: bool,
}

impl FeedPart {
    fn of(results: &Results, fields: Fields) -> Self {
        let feed = results.feed.as_ref();
        let added = feed.and_then(|feed| feed.added.as_ref());
        let count = feed.map_or(0, |feed| feed.posts.len());
        let is_new = |id: &str| added.is_some_and(|added| added.id == id);
        let (mut squares, mut posts) = (Vec::new(), Vec::new());
        for (place, post) in feed.iter().flat_map(|feed| &feed.posts).enumerate() {
            squares.push(square(place, is_new(&post.id)));
            posts.push(PostRow {
                number: place + 1,
                title: post.title.clone(),
                created: post.created.clone(),
                is_new: is_new(&post.id),
            });
        }
        let was_cut = added.is_some_and(|added| added.cut.is_some());
        // The row of the cut post is there before the first cut, so that nothing moves.
        let rows = count.div_ceil(FEED_COLUMNS) + 1;
        Self {
            fields,
            failure: failure_of(results, Picture::Feed),
            is_preparing: results.is_preparing,
            squares,
            cut: was_cut.then(|| square(count, false)),
            height: figures::plain(rows as f64 * SQUARE),
            posts,
            figures: feed.map(feed_figures).unwrap_or_default(),
            words: feed.map(feed_words).unwrap_or_default(),
            sample: feed.map(feed_sample).unwrap_or_default(),
            sql: query(FEED_QUERY, &[]),
            script: Script::new("truncateFeed", TRUNCATE_FEED).html(),
        }
    }
}

fn square(place: usize, is_new: bool) -> Square {
    let (row, column) = (place / FEED_COLUMNS, place % FEED_COLUMNS);
    Square {
        x: figures::plain(column as f64 * SQUARE + 1.0),
        y: figures::plain(row as f64 * SQUARE + 1.0),
        is_new,
    }
}

fn feed_figures(feed: &Feed) -> Vec<Figure> {
    let mut figures = vec![ru_of("to read the feed, Q6", feed.q6)];
    if let Some(added) = &feed.added {
        let trigger = added.with_trigger.ru() - added.without_trigger.ru();
        figures.push(ru_of("the post itself, C2", added.post));
        figures.push(charge_of(
            "its copy, with the trigger",
            added.with_trigger.ru(),
        ));
        figures.push(charge_of("of which the trigger", trigger));
        figures.push(time_of("until the copy was in the feed", added.lag_ms));
    }
    figures
}

fn feed_words(feed: &Feed) -> String {
    match &feed.added {
        None => format!("The feed has {} posts.", feed.posts.len()),
        Some(added) => added_words(feed.posts.len(), added),
    }
}

fn added_words(count: usize, added: &Added) -> String {
    match &added.cut {
        Some(cut) => format!(
            "The new post is the first square. The trigger has removed the oldest, “{}”, in the \
             same transaction: the feed has {count} posts again.",
            cut.title
        ),
        None => format!("The new post is the first square. The feed has {count} posts."),
    }
}

/// The element `#uncut`.
#[derive(Template)]
#[template(path = "lesson/uncut.html")]
struct UncutPart {
    fields: Fields,
    failure: Option<Failure>,
    rows: Vec<GrownRow>,
    /// The filled part of the logical partition: bytes, limit, percent, width of the bar.
    fill: Option<(String, String, String, String)>,
    lines: Vec<UncutLine>,
    x_end: String,
    y_end: String,
    refusal: String,
    is_limited: bool,
}

struct GrownRow {
    posts: String,
    bytes: String,
    q6: String,
    count: String,
    write: String,
}

/// A line of the chart of the feed without the trigger.
struct UncutLine {
    name: &'static str,
    class: &'static str,
    points: String,
    dots: Vec<(String, String)>,
    label_y: String,
}

impl UncutPart {
    fn of(results: &Results, fields: Fields) -> Self {
        let uncut = &results.uncut;
        let newest = uncut.grown.last().map_or(0, |one| one.bytes);
        let fill = uncut.limit.map(|limit| {
            let (bytes, limit) = (newest as f64, limit as f64);
            (
                figures::bytes(bytes),
                figures::bytes(limit),
                figures::percent(bytes / limit.max(1.0)),
                figures::bar(bytes, limit),
            )
        });
        let x_max = uncut.grown.iter().map(|one| one.posts as f64);
        let x_max = x_max.fold(1_000.0, f64::max);
        let highest = uncut.grown.iter();
        let highest = highest.map(|one| one.q6.ru.ru().max(one.count.ru.ru()));
        let y_max = super::pictures::nice(highest.fold(10.0, f64::max));
        Self {
            fields,
            failure: failure_of(results, Picture::Uncut),
            rows: uncut.grown.iter().map(grown_row).collect(),
            fill,
            lines: vec![
                uncut_line("Q6", "q6", &uncut.grown, (x_max, y_max), |one| {
                    one.q6.ru.ru()
                }),
                uncut_line("count", "count", &uncut.grown, (x_max, y_max), |one| {
                    one.count.ru.ru()
                }),
            ],
            x_end: figures::grouped(x_max),
            y_end: figures::plain(y_max),
            refusal: match &uncut.refusal {
                Some((status, sub_status, message)) => {
                    format!("{status}/{sub_status}: {}", figures::server_words(message))
                }
                None => String::new(),
            },
            is_limited: uncut.limit.is_some(),
        }
    }
}

fn grown_row(one: &Grown) -> GrownRow {
    let is_refused = one.write.ru() == 0.0;
    GrownRow {
        posts: figures::grouped(one.posts as f64),
        bytes: figures::bytes(one.bytes as f64),
        q6: figures::exact_ru(one.q6.ru.ru()),
        count: figures::exact_ru(one.count.ru.ru()),
        write: match is_refused {
            true => "refused".to_owned(),
            false => figures::exact_ru(one.write.ru()),
        },
    }
}

/// Returns a line in a chart of 560 × 160 with a margin of 48 at the left and 16 above.
fn uncut_line(
    name: &'static str,
    class: &'static str,
    grown: &[Grown],
    (x_max, y_max): (f64, f64),
    value: impl Fn(&Grown) -> f64,
) -> UncutLine {
    let mut dots = Vec::new();
    for one in grown {
        let x = 48.0 + one.posts as f64 / x_max * 512.0;
        let y = 176.0 - value(one) / y_max * 160.0;
        dots.push((figures::plain(x), figures::plain(y)));
    }
    let points: Vec<String> = dots.iter().map(|(x, y)| format!("{x},{y}")).collect();
    let last = grown.last().map_or(0.0, value);
    UncutLine {
        name,
        class,
        points: points.join(" "),
        dots,
        label_y: figures::plain(176.0 - last / y_max * 160.0 + 4.0),
    }
}

/// The element `#policies`.
#[derive(Template)]
#[template(path = "lesson/policies.html")]
struct PoliciesPart {
    fields: Fields,
    failure: Option<Failure>,
    rows: Vec<PolicyRow>,
    words: String,
}

struct PolicyRow {
    label: &'static str,
    write: String,
    write_width: String,
    query: String,
    query_width: String,
    policy: String,
}

impl PoliciesPart {
    fn of(results: &Results, fields: Fields) -> Self {
        let costs = &results.policies;
        let highest = |value: fn(&PolicyCost) -> f64| costs.iter().map(value).fold(0.0, f64::max);
        let (write, query) = (
            |one: &PolicyCost| one.write.ru.ru(),
            |one: &PolicyCost| one.query.ru.ru(),
        );
        let (write_max, query_max) = (highest(write), highest(query));
        let mut rows = Vec::new();
        for cost in costs {
            rows.push(PolicyRow {
                label: cost.label,
                write: figures::exact_ru(write(cost)),
                write_width: figures::bar(write(cost), write_max),
                query: figures::exact_ru(query(cost)),
                query_width: figures::bar(query(cost), query_max),
                policy: json_text(&cost.policy),
            });
        }
        Self {
            fields,
            failure: failure_of(results, Picture::Policies),
            words: policy_words(costs),
            rows,
        }
    }
}

fn policy_words(costs: &[PolicyCost]) -> String {
    let (Some(all), Some(asked)) = (costs.get(1), costs.get(3)) else {
        return String::new();
    };
    format!(
        "The same post costs {} RU with every path in the index and {} RU with three. The query by \
         title then costs {} RU instead of {}: it reads every post of the user.",
        figures::exact_ru(all.write.ru.ru()),
        figures::exact_ru(asked.write.ru.ru()),
        figures::exact_ru(asked.query.ru.ru()),
        figures::exact_ru(all.query.ru.ru()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_blog::lesson::lab::small_blog::{FeedPost, Renamed, Uncut};
    use orrery_blog::{BlogError, Charge};
    use serde_json::json;

    fn fields() -> Fields {
        Fields {
            csrf: "c".to_owned(),
            token: "t".to_owned(),
        }
    }

    fn cost(hundredths: u64) -> Measurement {
        Measurement {
            ru: Charge(hundredths),
            requests: 1,
            ..Measurement::default()
        }
    }

    fn html(picture: Picture, results: &Results) -> String {
        rendered(picture, results, &fields())
    }

    fn copy(container: &'static str, range: &str, lag_ms: f64) -> Copy {
        Copy {
            container,
            range: range.to_owned(),
            key: "0123456789".to_owned(),
            kind: "post".to_owned(),
            title: "A title".to_owned(),
            username: "Mei <b>".to_owned(),
            lag_ms: Some(lag_ms),
            charge: Some(Charge(1_234)),
        }
    }

    #[test]
    fn copies_lie_in_their_partitions_with_lag_and_charge() {
        let results = Results {
            names: Some(Names {
                username: "Mei <b>".to_owned(),
                copies: vec![copy("posts", "3", 20.5), copy("posts", "0", 31.0)],
                user: json!({}),
                sample: json!({"userUsername": "Mei <b>"}),
                renamed: Some(Renamed {
                    from: "Jonas".to_owned(),
                    rename: cost(1_100),
                    to_posts: cost(5_000),
                    to_copies: cost(9_000),
                    left: 0,
                }),
            }),
            ..Results::default()
        };
        let html = html(Picture::Names, &results);
        assert!(html.find("partition 0").unwrap() < html.find("partition 3").unwrap());
        assert!(html.contains("data-at=\"20.5\"") && html.contains("12.34"));
        assert!(
            html.contains("Mei &#60;b&#62;") && !html.contains("Mei <b>"),
            "{html}"
        );
        assert!(html.contains("11.00") && html.contains("50.00") && html.contains("90.00"));
    }

    #[test]
    fn the_feed_shows_the_new_post_first_and_the_cut_one_beyond_the_hundredth() {
        let post = |n: usize| FeedPost {
            id: n.to_string(),
            title: format!("Title {n}"),
            created: String::new(),
        };
        let results = Results {
            feed: Some(Feed {
                posts: (0..100).map(post).collect(),
                q6: cost(1_700),
                sample: json!({}),
                added: Some(Added {
                    id: "0".to_owned(),
                    post: cost(990),
                    with_trigger: Charge(4_000),
                    without_trigger: Charge(1_000),
                    lag_ms: 12.0,
                    cut: Some(post(100)),
                }),
            }),
            ..Results::default()
        };
        let html = html(Picture::Feed, &results);
        assert_eq!(html.matches("class=\"square").count(), 101);
        assert_eq!(html.matches("square new").count(), 1);
        assert!(
            html.contains("“Title 100”") && html.contains("30.00"),
            "{html}"
        );
    }

    #[test]
    fn a_failed_step_is_told_at_its_picture_only() {
        let gone = BlogError::Unreachable {
            operation: "GET /".to_owned(),
            cause: "internal".to_owned(),
        };
        let results = Results {
            failure: Some((Some(Step::Grow), gone)),
            ..Results::default()
        };
        let uncut = html(Picture::Uncut, &results);
        assert!(uncut.contains("does not answer") && !uncut.contains("internal"));
        assert!(!html(Picture::Names, &results).contains("does not answer"));
    }

    #[test]
    fn a_full_partition_shows_its_limit_and_the_refusal() {
        let grown = |posts, write| Grown {
            posts,
            bytes: posts * 500,
            q6: cost(1_700),
            count: cost(posts / 10),
            write: Charge(write),
        };
        let results = Results {
            uncut: Uncut {
                grown: vec![grown(1_000, 700), grown(2_000, 0)],
                limit: Some(1_000_000),
                refusal: Some((403, 1014, "full".to_owned())),
            },
            ..Results::default()
        };
        let html = html(Picture::Uncut, &results);
        assert!(html.contains("403/1014: full") && html.contains("refused"));
        assert!(html.contains("100 %") && html.contains("<polyline"));
    }
}
