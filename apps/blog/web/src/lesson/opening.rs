//! The picture with which the lesson opens: the price of each request in the chosen model, and the
//! containers of the model with the physical partitions that the chosen request asks.
//!
//! The markup has the figures of all models, so that a script changes the picture without a
//! request. Until the blog has been measured the bars are the article's, and the page says so.

use super::figures;
use super::parts::rendered;
use super::story::{CostRow, Story};
use askama::Template;
use orrery_blog::client::PartitionKeyRange;
use orrery_blog::lesson::compare::{Cell, Comparison};
use orrery_blog::lesson::{Action, hashing, published};
use orrery_blog::{Model, Request};
use std::collections::HashMap;
use std::sync::Arc;

/// The ends of the scale in RU. It is logarithmic: equal distances are equal factors.
const SCALE: (f64, f64) = (0.5, 2_500.0);
/// The lines of the scale in RU.
const TICKS: [f64; 4] = [1.0, 10.0, 100.0, 1_000.0];
/// Squares in a row, and their size with the gap.
const COLUMNS: usize = 17;
const SQUARE: usize = 12;

/// The ranges of the containers of each present model, in the order of `users`, `posts`, `feed`.
pub(crate) type Ranges = HashMap<Model, Vec<Arc<Vec<PartitionKeyRange>>>>;

/// The element `#opening`.
#[derive(Template)]
#[template(path = "lesson/opening.html")]
pub(crate) struct Opening {
    is_measured: bool,
    /// `1`, `2` or `3`.
    shown: usize,
    models: Vec<Choice>,
    rows: Vec<Row>,
    ticks: Vec<(String, String)>,
    drawings: Vec<Drawing>,
    table: Vec<CostRow>,
}

struct Choice {
    number: usize,
    name: String,
    href: String,
    about: &'static str,
    is_shown: bool,
}

struct Row {
    code: String,
    /// The code in addresses: `q6`.
    value: String,
    words: &'static str,
    is_chosen: bool,
    /// Width of the bar, place of the article's mark, and both figures, for each model.
    bars: [Bar; 3],
    shown: Bar,
}

#[derive(Clone, Default)]
struct Bar {
    width: String,
    article_x: String,
    figure: String,
    article: String,
}

/// The containers of one model.
struct Drawing {
    number: usize,
    name: String,
    is_shown: bool,
    containers: Vec<Container>,
}

struct Container {
    name: &'static str,
    key: &'static str,
    kinds: &'static [(&'static str, &'static str)],
    count: usize,
    /// The number of partitions that the chosen request asks, by request.
    asked: Vec<(String, usize)>,
    words: String,
    width: usize,
    height: usize,
    squares: Vec<Square>,
}

struct Square {
    x: usize,
    y: usize,
    /// The requests that ask the partition, separated by spaces.
    asked_by: String,
    is_lit: bool,
}

impl Opening {
    /// Returns the picture for the model and the request in the parameters of the address.
    pub(crate) fn of(
        comparison: Option<&Arc<Comparison>>,
        ranges: &Ranges,
        query: &HashMap<String, String>,
    ) -> Self {
        let shown = match query.get("model").map(String::as_str) {
            Some("2" | "v2") => 2,
            Some("3" | "v3") => 3,
            _ => 1,
        };
        let asked = query.get("request").map_or("", String::as_str);
        let is_asked = |request: &Request| request.to_string().eq_ignore_ascii_case(asked);
        let mut all = Request::ALL.into_iter();
        let chosen = all.find(is_asked).unwrap_or(Request::Q6);
        let comparison = comparison.map(Arc::as_ref);
        let story = Story {
            comparison: comparison.cloned().map(Arc::new),
        };
        Self {
            is_measured: comparison.is_some(),
            shown,
            models: choices(shown, chosen),
            rows: rows(comparison, shown, chosen),
            ticks: TICKS.map(|ru| (percent(ru), figures::grouped(ru))).to_vec(),
            drawings: drawings(comparison, ranges, shown, chosen),
            table: story.table("C1 Q1 C2 Q2 Q3 C3 Q4 C4 Q5 Q6", "1 2 3"),
        }
    }

    /// Returns the markup.
    pub(crate) fn html(&self) -> String {
        rendered(self)
    }
}

fn choices(shown: usize, chosen: Request) -> Vec<Choice> {
    let about = [
        "Each thing is stored once. Writes are cheap, and lists gather.",
        "Posts carry names and counts. Reading one post costs 1 RU.",
        "Each list has a place of its own. One partition answers.",
    ];
    let of = |(place, about)| Choice {
        number: place + 1,
        name: format!("V{}", place + 1),
        href: format!(
            "/lesson?model={}&request={}",
            place + 1,
            chosen.to_string().to_lowercase()
        ),
        about,
        is_shown: place + 1 == shown,
    };
    about.into_iter().enumerate().map(of).collect()
}

fn rows(comparison: Option<&Comparison>, shown: usize, chosen: Request) -> Vec<Row> {
    let mut rows = Vec::new();
    for request in Request::ALL {
        let bars = Model::ALL.map(|model| {
            let (_, article) = published(request, model);
            let action = Action::Article(request);
            let cell = comparison.and_then(|comparison| comparison.cell(action, model));
            let ru = cell.map_or(article, |cell| cell.ru);
            Bar {
                width: percent(ru),
                article_x: percent(article),
                figure: format!("{} RU", figures::ru(ru)),
                article: figures::ru(article),
            }
        });
        rows.push(Row {
            code: request.to_string(),
            value: request.to_string().to_lowercase(),
            words: request.purpose(),
            is_chosen: request == chosen,
            shown: bars.get(shown - 1).cloned().unwrap_or_default(),
            bars,
        });
    }
    rows
}

/// Returns the place of a price on the scale.
fn percent(ru: f64) -> String {
    let (low, high) = SCALE;
    let part = (ru.max(low) / low).ln() / (high / low).ln();
    format!("{:.2}%", part.min(1.0) * 100.0)
}

/// The containers of a model: name, partition key, kinds of items with what is copied.
type Shape = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

fn shapes(model: Model) -> &'static [Shape] {
    const PLAIN: &[(&str, &str)] = &[("post", ""), ("comment", ""), ("like", "")];
    const COPIES: &[(&str, &str)] = &[
        ("post", "name, counts"),
        ("comment", "name"),
        ("like", "name"),
    ];
    match model {
        Model::V1 => &[
            ("users", "/id", &[("user", "")]),
            ("posts", "/postId", PLAIN),
        ],
        Model::V2 => &[
            ("users", "/id", &[("user", "")]),
            ("posts", "/postId", COPIES),
        ],
        Model::V3 => &[
            ("users", "/userId", &[("user", ""), ("post", "short post")]),
            ("posts", "/postId", COPIES),
            ("feed", "/type", &[("post", "short post")]),
        ],
    }
}

fn drawings(
    comparison: Option<&Comparison>,
    ranges: &Ranges,
    shown: usize,
    chosen: Request,
) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    for (place, model) in Model::ALL.into_iter().enumerate() {
        let mut containers = Vec::new();
        for (index, shape) in shapes(model).iter().enumerate() {
            let own = ranges.get(&model).and_then(|all| all.get(index));
            let own = own.map_or(&[] as &[PartitionKeyRange], |ranges| ranges.as_slice());
            containers.push(container(shape, index, model, own, comparison, chosen));
        }
        drawings.push(Drawing {
            number: place + 1,
            name: model.to_string(),
            is_shown: place + 1 == shown,
            containers,
        });
    }
    drawings
}

fn container(
    shape: &Shape,
    index: usize,
    model: Model,
    ranges: &[PartitionKeyRange],
    comparison: Option<&Comparison>,
    chosen: Request,
) -> Container {
    let mut asked = Vec::new();
    let mut by: Vec<Vec<String>> = vec![Vec::new(); ranges.len()];
    for request in Request::ALL {
        let action = Action::Article(request);
        let cell = comparison.and_then(|comparison| comparison.cell(action, model));
        let user = comparison.map_or("", |comparison| comparison.probe.user.as_str());
        let places = cell.map_or(Vec::new(), |cell| asked_places(cell, index, ranges, user));
        let code = request.to_string().to_lowercase();
        asked.push((code.clone(), places.len()));
        for place in places {
            if let Some(names) = by.get_mut(place) {
                names.push(code.clone());
            }
        }
    }
    let code = chosen.to_string().to_lowercase();
    let count = ranges.len();
    let columns = count.clamp(1, COLUMNS);
    let square = |(place, names): (usize, &Vec<String>)| Square {
        x: place % columns * SQUARE,
        y: place / columns * SQUARE,
        asked_by: names.join(" "),
        is_lit: names.contains(&code),
    };
    let lit = by.iter().filter(|names| names.contains(&code)).count();
    Container {
        name: shape.0,
        key: shape.1,
        kinds: shape.2,
        count,
        words: words(lit, count),
        asked,
        width: columns * SQUARE,
        height: count.div_ceil(columns).max(1) * SQUARE,
        squares: by.iter().enumerate().map(square).collect(),
    }
}

/// Returns the number of asked partitions in words, which the script writes in the same way.
fn words(lit: usize, count: usize) -> String {
    format!("{lit} of {count} asked")
}

/// Returns the places of the partitions that a request asked in a container. Of `posts` each one is
/// known. Of the others only the number is, so the partition of the measured user comes first.
fn asked_places(cell: &Cell, index: usize, ranges: &[PartitionKeyRange], user: &str) -> Vec<usize> {
    const POSTS: usize = 1;
    let is_asked = |range: &PartitionKeyRange| cell.asked.contains_key(&range.id);
    let all = 0..ranges.len();
    if index == POSTS {
        return all.filter(|place| is_asked(&ranges[*place])).collect();
    }
    if cell.price.request[index] <= 0.0 {
        return Vec::new();
    }
    let elsewhere = if index == 0 {
        cell.asked.len()
    } else {
        cell.partitions - 1
    };
    let number = cell
        .partitions
        .saturating_sub(elsewhere)
        .clamp(1, ranges.len().max(1));
    let home = hashing::effective_key(&user.into())
        .and_then(|epk| hashing::range_of(ranges, &epk))
        .and_then(|range| ranges.iter().position(|other| other.id == range.id))
        .unwrap_or_default();
    let from_home = all.map(|place| (home + place) % ranges.len());
    from_home.take(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson::samples;

    fn html(comparison: Option<Comparison>, query: &[(&str, &str)]) -> String {
        let range = |id: &str, min: &str, max: &str| PartitionKeyRange {
            id: id.to_owned(),
            min: min.to_owned(),
            max: max.to_owned(),
            parents: Vec::new(),
        };
        let two = Arc::new(vec![range("0", "", "20"), range("1", "20", "FF")]);
        let ranges = Model::ALL.map(|model| (model, vec![two.clone(); 3]));
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let query = query.iter().map(pair).collect();
        let comparison = comparison.map(Arc::new);
        Opening::of(comparison.as_ref(), &ranges.into_iter().collect(), &query).html()
    }

    #[test]
    fn before_the_measurement_the_bars_are_the_articles_and_said_to_be() {
        let html = html(None, &[]);
        assert!(
            html.contains("2,064 RU") && html.contains("being measured"),
            "{html}"
        );
        assert!(html.contains("data-poll"), "{html}");
    }

    #[test]
    fn the_address_chooses_model_and_request() {
        let html = html(
            Some(samples::comparison()),
            &[("model", "3"), ("request", "q3")],
        );
        assert!(
            html.contains("value=\"3\"") && html.contains("value=\"q3\" checked"),
            "{html}"
        );
        assert!(
            html.contains("1 of 2 asked") && !html.contains("data-poll"),
            "{html}"
        );
    }

    #[test]
    fn equal_factors_are_equal_distances() {
        let of = |ru: f64| {
            percent(ru)
                .trim_end_matches('%')
                .parse::<f64>()
                .unwrap_or_default()
        };
        let step = of(10.0) - of(1.0);
        assert!((of(1_000.0) - of(100.0) - step).abs() < 0.02);
        assert_eq!(percent(0.1), "0.00%");
    }
}
