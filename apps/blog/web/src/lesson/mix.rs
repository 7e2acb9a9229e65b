//! The calculator of the lesson: traffic and growth from the parameters of the URL, and what they
//! cost.

use super::figures;
use super::pictures::Chart;
use super::story::code_of;
use askama::Template;
use orrery_blog::Request;
use orrery_blog::lesson::Action;
use orrery_blog::lesson::compare::Comparison;
use orrery_blog::lesson::growth::{self, Growth};
use orrery_blog::lesson::mix::{self, CONTAINER_NAMES, CostLine, Mix, Need};
use std::collections::HashMap;

/// Largest rate of a read and of a write per second.
const READS_MAX: f64 = 500.0;
const WRITES_MAX: f64 = 100.0;

/// A slider with its number field.
pub(crate) struct Slider {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) max: String,
    pub(crate) step: &'static str,
    pub(crate) value: String,
}

/// A group of sliders.
pub(crate) struct SliderGroup {
    pub(crate) title: &'static str,
    /// True for a group that is folded at first.
    pub(crate) is_folded: bool,
    pub(crate) sliders: Vec<Slider>,
}

/// The question: traffic and growth.
pub(crate) struct Question {
    pub(crate) mix: Mix,
    pub(crate) growth: Growth,
}

/// One number of the growth: name in the URL, label, largest value, step, and its place.
struct GrowthField {
    id: &'static str,
    label: &'static str,
    max: f64,
    step: &'static str,
    place: fn(&mut Growth) -> &mut f64,
}

const GROWTH_FIELDS: [GrowthField; 7] = [
    GrowthField {
        id: "posts-month",
        label: "New posts in a month",
        max: 5_000_000.0,
        step: "1000",
        place: |growth| &mut growth.posts_per_month,
    },
    GrowthField {
        id: "comments-post",
        label: "Comments on each post",
        max: 100.0,
        step: "0.5",
        place: |growth| &mut growth.comments_per_post,
    },
    GrowthField {
        id: "likes-post",
        label: "Likes of each post",
        max: 500.0,
        step: "1",
        place: |growth| &mut growth.likes_per_post,
    },
    GrowthField {
        id: "posts-user",
        label: "Posts of the busiest user in a month",
        max: 10_000.0,
        step: "10",
        place: |growth| &mut growth.posts_of_user_per_month,
    },
    GrowthField {
        id: "comments-day",
        label: "Comments in a day on a post that never ends",
        max: 100_000.0,
        step: "100",
        place: |growth| &mut growth.comments_per_day,
    },
    GrowthField {
        id: "logical-gb",
        label: "Limit of a logical partition in GB",
        max: 20.0,
        step: "0.01",
        place: |growth| &mut growth.logical_limit_gb,
    },
    GrowthField {
        id: "physical-gb",
        label: "Limit of a physical partition in GB",
        max: 50.0,
        step: "0.01",
        place: |growth| &mut growth.physical_limit_gb,
    },
];

impl Question {
    /// Reads the question from the parameters of a URL. A missing or wrong number has its default,
    /// and a number outside of its slider the nearest end.
    pub(crate) fn of(query: &HashMap<String, String>) -> Self {
        let number = |id: &str, default: f64, max: f64| {
            let parsed = query
                .get(id)
                .and_then(|text| text.trim().parse::<f64>().ok());
            match parsed {
                Some(value) if value.is_finite() => value.clamp(0.0, max),
                _ => default,
            }
        };
        let mut mix = Mix::default();
        for action in Action::ALL {
            let rate = &mut mix.rates[action.index()];
            *rate = number(&code_of(action), *rate, rate_max(action));
        }
        mix.hot_share = number("hot", mix.hot_share * 100.0, 100.0) / 100.0;
        let mut growth = Growth::default();
        for field in &GROWTH_FIELDS {
            let place = (field.place)(&mut growth);
            *place = number(field.id, *place, field.max);
        }
        Self { mix, growth }
    }

    /// Returns the sliders with their values.
    pub(crate) fn groups(&self) -> Vec<SliderGroup> {
        let slider = |action: Action| Slider {
            id: code_of(action),
            label: format!("{action}, {}", action.description()),
            max: figures::plain(rate_max(action)),
            step: if action.is_write() { "0.01" } else { "1" },
            value: figures::plain(self.mix.rates[action.index()]),
        };
        let all = |wanted: fn(Action) -> bool| {
            let actions = Action::ALL.into_iter().filter(|action| wanted(*action));
            actions.map(slider).collect::<Vec<_>>()
        };
        let mut rare = all(is_rare);
        rare.push(Slider {
            id: "hot".to_owned(),
            label: "Requests on posts that go to one post, in percent".to_owned(),
            max: "100".to_owned(),
            step: "1",
            value: figures::plain(self.mix.hot_share * 100.0),
        });
        let mut growth = self.growth;
        let mut growth_sliders = Vec::new();
        for field in &GROWTH_FIELDS {
            growth_sliders.push(Slider {
                id: field.id.to_owned(),
                label: field.label.to_owned(),
                max: figures::plain(field.max),
                step: field.step,
                value: figures::plain(*(field.place)(&mut growth)),
            });
        }
        let group = |title, is_folded, sliders| SliderGroup {
            title,
            is_folded,
            sliders,
        };
        vec![
            group("Reads in a second", false, all(|action| !action.is_write())),
            group(
                "Writes in a second",
                false,
                all(|action| action.is_write() && !is_rare(action)),
            ),
            group("Rare writes, and a hot post", true, rare),
            group("Growth and limits", true, growth_sliders),
        ]
    }
}

/// Returns true for the writes that are rare in a blog.
fn is_rare(action: Action) -> bool {
    action == Action::Article(Request::C1) || code_of(action).len() > 2
}

fn rate_max(action: Action) -> f64 {
    if action.is_write() {
        WRITES_MAX
    } else {
        READS_MAX
    }
}

/// The element `#mix`: the answer.
#[derive(Template)]
#[template(path = "lesson/mix.html")]
pub(crate) struct MixPart {
    models: Vec<ModelView>,
    pairs: Vec<String>,
    chart: Option<Chart>,
    own: String,
    growth: Vec<(String, String)>,
    is_measured: bool,
}

struct ModelView {
    model: String,
    name: String,
    width: String,
    load: String,
    requests: String,
    pipelines: String,
    provision: String,
    containers: Vec<ContainerView>,
    read: String,
    write: String,
}

struct ContainerView {
    name: &'static str,
    load: String,
    hottest: String,
    hottest_share: String,
    provision: String,
    is_beyond: bool,
}

impl MixPart {
    /// Returns the answer for the figures of a comparison.
    pub(crate) fn of(question: &Question, comparison: Option<&Comparison>) -> Self {
        let Some(comparison) = comparison else {
            return Self {
                models: Vec::new(),
                pairs: Vec::new(),
                chart: None,
                own: String::new(),
                growth: Vec::new(),
                is_measured: false,
            };
        };
        let prices = comparison.prices();
        let needs: Vec<Need> = prices
            .iter()
            .map(|prices| mix::need(prices, &question.mix))
            .collect();
        let lines: Vec<CostLine> = prices
            .iter()
            .filter_map(|prices| mix::cost_line(prices, &question.mix))
            .collect();
        let own = mix::reads_per_write(&question.mix);
        let (pairs, crossings) = break_evens(&lines);
        Self {
            models: model_views(&needs, &lines),
            pairs,
            chart: Chart::of(&lines, &crossings, own),
            own: own.map(figures::plain).unwrap_or_default(),
            growth: growth_rows(question, comparison),
            is_measured: true,
        }
    }
}

impl MixPart {
    /// Returns the times until limits.
    pub(crate) fn growth(&self) -> &[(String, String)] {
        &self.growth
    }
}

fn model_views(needs: &[Need], lines: &[CostLine]) -> Vec<ModelView> {
    let longest = needs.iter().map(Need::load).fold(0.0, f64::max);
    let mut views = Vec::new();
    for need in needs {
        let line = lines.iter().find(|line| line.model == need.model);
        let mut containers = Vec::new();
        for (name, container) in CONTAINER_NAMES.into_iter().zip(&need.containers) {
            if container.provision <= 0.0 {
                continue;
            }
            containers.push(ContainerView {
                name,
                load: figures::ru(container.load),
                hottest: figures::ru(container.hottest),
                hottest_share: figures::percent(container.hottest_share()),
                provision: figures::grouped(container.provision),
                is_beyond: container.is_beyond_partition(),
            });
        }
        views.push(ModelView {
            model: need.model.to_string().to_lowercase(),
            name: need.model.to_string(),
            width: figures::bar(need.load(), longest),
            load: figures::grouped(need.load()),
            requests: figures::grouped(need.requests),
            pipelines: figures::grouped(need.pipelines),
            provision: figures::grouped(need.provision()),
            containers,
            read: line.map_or("–".to_owned(), |line| figures::ru(line.read)),
            write: line.map_or("–".to_owned(), |line| figures::ru(line.write)),
        });
    }
    views
}

/// Returns a sentence for each pair of models, and the ratios of the crossings.
fn break_evens(lines: &[CostLine]) -> (Vec<String>, Vec<f64>) {
    let (mut sentences, mut crossings) = (Vec::new(), Vec::new());
    for (index, a) in lines.iter().enumerate() {
        for b in &lines[index + 1..] {
            match a.break_even(b) {
                Some(reads) => {
                    let later = if b.read < a.read { b } else { a };
                    crossings.push(reads);
                    sentences.push(format!(
                        "{} and {} cost the same at {} reads for each write; with more reads {} \
                         is cheaper.",
                        a.model,
                        b.model,
                        figures::plain(reads),
                        later.model
                    ));
                }
                None => {
                    let cheaper = if a.at(1.0) <= b.at(1.0) { a } else { b };
                    let more_expensive = if cheaper.model == a.model { b } else { a };
                    sentences.push(format!(
                        "{} is cheaper than {} at every ratio of reads to writes.",
                        cheaper.model, more_expensive.model
                    ));
                }
            }
        }
    }
    (sentences, crossings)
}

/// Returns the times until limits, each with the thing that reaches its limit.
fn growth_rows(question: &Question, comparison: &Comparison) -> Vec<(String, String)> {
    let growth = &question.growth;
    let Some(facts) = comparison.models.last() else {
        return Vec::new();
    };
    let forecast = growth::forecast(&comparison.sizes(), growth, facts.partitions[1]);
    let time = |years: Option<f64>| years.map_or("never".to_owned(), figures::years);
    let limit = figures::plain(growth.logical_limit_gb);
    let row = |subject: String, years: Option<f64>| (subject, time(years));
    vec![
        row(
            format!(
                "The feed, if it were never cut, has {limit} GB in one logical partition after"
            ),
            forecast.feed,
        ),
        row(
            format!("One post with endless comments has {limit} GB after"),
            forecast.comments,
        ),
        row(
            format!("The busiest user's partition of V3 has {limit} GB after"),
            forecast.user,
        ),
        row(
            format!(
                "A physical partition of posts has {} GB, and is split, after",
                figures::plain(growth.physical_limit_gb)
            ),
            forecast.split,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson::samples::comparison;
    use orrery_blog::Model;

    #[test]
    fn parameters_are_read_bounded_and_shown_again() {
        let query = HashMap::from([
            ("q6".to_owned(), "12.5".to_owned()),
            ("c2".to_owned(), "1e9".to_owned()),
            ("c3".to_owned(), "-4".to_owned()),
            ("c4".to_owned(), "NaN".to_owned()),
            ("hot".to_owned(), "40".to_owned()),
            ("posts-month".to_owned(), "2000".to_owned()),
        ]);
        let question = Question::of(&query);
        let rate = |request| question.mix.rates[Action::Article(request).index()];
        assert_eq!(rate(Request::Q6), 12.5);
        assert_eq!(rate(Request::C2), WRITES_MAX);
        assert_eq!(rate(Request::C3), 0.0);
        let default = Mix::default().rates[Action::Article(Request::C4).index()];
        assert_eq!(rate(Request::C4), default);
        assert_eq!(question.mix.hot_share, 0.4);
        assert_eq!(question.growth.posts_per_month, 2_000.0);
        let groups = question.groups();
        let sliders: Vec<_> = groups.iter().flat_map(|group| &group.sliders).collect();
        assert_eq!(sliders.len(), Action::COUNT + 1 + GROWTH_FIELDS.len());
        let q6 = sliders.iter().find(|slider| slider.id == "q6").expect("it");
        assert_eq!(q6.value, "12.5");
    }

    #[test]
    fn the_answer_names_all_models_their_break_evens_and_the_limits() {
        let question = Question::of(&HashMap::new());
        let comparison = comparison();
        let html = MixPart::of(&question, Some(&comparison))
            .render()
            .expect("it renders");
        for model in Model::ALL {
            assert!(html.contains(&format!(
                "data-model=\"{}\"",
                model.to_string().to_lowercase()
            )));
        }
        assert!(html.contains("cost the same at") || html.contains("is cheaper than"));
        assert!(html.contains("<svg") && html.contains("never cut"));
        assert!(!html.contains("NaN") && !html.contains("inf"));
    }

    #[test]
    fn no_traffic_at_all_is_an_answer_without_a_chart() {
        let mut query = HashMap::new();
        for action in Action::ALL {
            query.insert(code_of(action), "0".to_owned());
        }
        let question = Question::of(&query);
        let html = MixPart::of(&question, Some(&comparison()))
            .render()
            .expect("it renders");
        assert!(
            !html.contains("NaN") && !html.contains("class=\"chart\""),
            "{html}"
        );
    }

    #[test]
    fn before_a_comparison_the_answer_asks_for_one() {
        let html = MixPart::of(&Question::of(&HashMap::new()), None)
            .render()
            .expect("it renders");
        assert!(html.contains("/compare"));
    }
}
