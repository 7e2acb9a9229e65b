//! The price of a page in each of the three models, as bars with the physical partitions asked.
//!
//! Every model has a bar at any time. Its figure is, in this order: the page as it was just made;
//! the same page as it was last measured; a page of the same kind from the last comparison; the
//! figure of the article, which is named as such.
//!
//! The parts of a page with bars follow the server until every present model is measured.

use crate::drawer::{PageCost, after_write, write_cost};
use crate::frame::path_name;
use crate::lesson::explain;
use crate::pages::read::Subject;
use crate::scale::{Scale, Tick};
use crate::squares::{Asked, AskedAt, Group, Layout};
use crate::state::Inner;
use crate::text;
use crate::trouble::Trouble;
use crate::visit::Visit;
use askama::Template;
use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use orrery_blog::lesson::compare::Comparison;
use orrery_blog::lesson::comparing::Status;
use orrery_blog::lesson::{Action, published};
use orrery_blog::writes::Receipt;
use orrery_blog::{Charge, Model, Request};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Instant;

/// The origin of the figure of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This page, just now.
    Here,
    /// The same page, measured before.
    Measured,
    /// A page of the same kind, from the last comparison.
    Alike,
    /// The article.
    Article,
}

/// The bars of a page.
#[derive(Template)]
#[template(path = "price-parts.html")]
pub(crate) struct PriceBars {
    /// Address that returns the parts with bars.
    address: String,
    is_polled: bool,
    /// A sentence about the figures.
    status: String,
    bars: Vec<Bar>,
    ticks: Vec<Tick>,
}

/// The bar of a model.
struct Bar {
    /// `v3`
    name: String,
    /// `V3`
    label: String,
    /// The same page in this model; empty if the model is not on the site.
    href: String,
    is_current: bool,
    /// The charge with two decimals.
    figure: String,
    /// The charge as short as the smallest bars need it.
    short: String,
    /// The charge without separators.
    plain: String,
    /// Length of the bar in percent.
    width: String,
    /// The origin of the figure in words.
    origin: &'static str,
    is_theirs: bool,
    groups: Vec<Group>,
    /// E.g. `68 of 78 partitions`; empty if unknown.
    partitions: String,
}

/// A part of a page with bars, of which a page has up to two.
#[derive(Template)]
#[template(path = "prices.html")]
struct Part<'a> {
    id: &'a str,
    /// True for the part that asks for itself and the others again.
    is_polled: bool,
    /// True for the part beside the page: bars and words, no squares and no labels of the scale.
    is_short: bool,
    prices: &'a PriceBars,
}

/// The bars in the line of the meter that is always seen.
#[derive(Template)]
#[template(path = "price-summary.html")]
struct Summary<'a> {
    bars: &'a [Bar],
}

/// The physical partitions of the page's model in the line of the meter that is always seen.
#[derive(Template)]
#[template(path = "price-squares.html")]
struct Squares<'a> {
    bars: &'a [Bar],
}

/// The facts from which the bars of a page are made.
struct Page<'a> {
    state: &'a Inner,
    path: &'a str,
    /// Names of the article's requests.
    codes: &'a [&'static str],
    current: Model,
    /// The page as it was just made, with the write before it; `None` if it made no request.
    own: Option<(Charge, Asked)>,
    written: Option<&'a Receipt>,
    /// True for a page of a list beyond the first, which no other model has.
    is_continued: bool,
    /// Time after which the database is not asked for partitions again.
    deadline: Instant,
}

/// A figure with its origin.
struct Figure {
    charge: Charge,
    asked: Asked,
    origin: Origin,
}

impl PriceBars {
    /// Returns the bars of the page of a visit; `None` for a page without a request of
    /// the article.
    pub(crate) async fn of_visit(visit: &Visit, cost: &PageCost, asked: &Asked) -> Option<Self> {
        let (path, current) = (visit.page.as_deref()?, visit.model?);
        if visit.codes.is_empty() {
            return None;
        }
        // The page itself made no request if the database does not answer.
        let own = (visit.cost().requests > 0).then(|| (cost.charge, asked.clone()));
        let page = Page {
            state: &visit.state,
            path,
            codes: &visit.codes,
            current,
            own,
            written: visit.written.as_ref(),
            is_continued: visit.query.contains_key("after"),
            deadline: visit.deadline,
        };
        Some(page.bars().await)
    }

    /// Returns the element with this id: the bars with their squares and scale.
    pub(crate) fn part(&self, id: &str) -> String {
        let part = Part {
            id,
            is_polled: self.is_polled && id == "prices",
            is_short: id != "prices",
            prices: self,
        };
        // A part that does not render leaves a gap, not an error page.
        part.render().unwrap_or_default()
    }

    /// Returns the element `meter-bars`: the bars without scale and squares.
    pub(crate) fn summary(&self) -> String {
        let bars = &self.bars;
        Summary { bars }.render().unwrap_or_default()
    }

    /// Returns the element `meter-squares`: the squares of the page's model.
    pub(crate) fn squares(&self) -> String {
        let bars = &self.bars;
        Squares { bars }.render().unwrap_or_default()
    }
}

/// `GET /prices/{v}`: the parts of a page with bars, from memory.
pub(crate) async fn show(mut visit: Visit, Path(v): Path<String>) -> Response {
    let model = match visit.enter(&v) {
        Ok(model) => model,
        Err(trouble) => return trouble.page(&visit, None).await,
    };
    let path = visit.query.get("page").cloned().unwrap_or_default();
    let Some(subject) = Subject::at(&path) else {
        return Trouble::NotFound("page").page(&visit, None).await;
    };
    if let Err(error) = visit.load_receipt().await {
        return visit.answer(Err(error.into())).await;
    }
    let written = visit.written.as_ref();
    let own = visit.state.prices.of(&path)[model as usize].take();
    let own = own.map(|price| {
        let mut charge = price.charge;
        if let Some(write) = write_cost(written, model) {
            charge.0 += write.measurement.ru.0;
        }
        (charge, after_write(written, model, price.asked))
    });
    let page = Page {
        state: &visit.state,
        path: &path,
        codes: subject.codes(),
        current: model,
        own,
        written,
        is_continued: false,
        deadline: visit.deadline,
    };
    match page.bars().await.render() {
        Ok(html) => visit.finished(Html(html).into_response()),
        Err(_) => http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

impl Page<'_> {
    /// Returns true if the remembered prices at the path are those of this page. The form that
    /// edits a post has the path of the post and makes one of its requests only.
    fn is_remembered(&self) -> bool {
        Subject::at(self.path).is_some_and(|subject| subject.codes() == self.codes)
    }

    async fn bars(&self) -> PriceBars {
        let status = self.state.comparing.status();
        let is_remembered = self.is_remembered();
        let present = self.state.site.models();
        let known = self.state.prices.of(self.path);
        let mut figures = Vec::new();
        for model in Model::ALL {
            let price = known[model as usize].as_ref();
            let price = price.filter(|_| is_remembered && present.contains(&model));
            let price = price.map(|price| (price.charge, price.asked.clone()));
            figures.push((model, self.figure(model, price, &status)));
        }
        let all = figures.iter().map(|(_, figure)| figure.charge.ru());
        let scale = Scale::up_to(all.fold(0.0, f64::max));

        let is_unknown = figures.iter().any(|(model, figure)| {
            present.contains(model) && matches!(figure.origin, Origin::Alike | Origin::Article)
        });
        let is_waiting = is_remembered && self.state.prices.is_waiting(self.path);
        let is_coming = is_waiting || is_unknown && status.is_awaited();
        let mut bars = Vec::new();
        for (model, figure) in &figures {
            bars.push(self.bar(*model, figure, scale, &present).await);
        }
        PriceBars {
            address: self.address(),
            is_polled: is_remembered && is_coming && !self.is_continued,
            status: self.status(&present, &status, is_unknown, is_waiting),
            bars,
            ticks: scale.ticks(),
        }
    }

    /// Returns the best figure that there is for a model.
    fn figure(&self, model: Model, price: Option<(Charge, Asked)>, status: &Status) -> Figure {
        if model == self.current
            && let Some((charge, asked)) = self.own.clone()
        {
            let origin = Origin::Here;
            return Figure {
                charge,
                asked,
                origin,
            };
        }
        let alike = || {
            let comparison = status.last.as_ref()?;
            alike(comparison, model, self.codes)
        };
        let (mut charge, asked, origin) =
            match price.map(|(charge, asked)| (charge, asked, Origin::Measured)) {
                Some(measured) => measured,
                None => match alike() {
                    Some((charge, asked)) => (charge, asked, Origin::Alike),
                    None => (of_article(model, self.codes), Asked::new(), Origin::Article),
                },
            };
        if origin == Origin::Article {
            return Figure {
                charge,
                asked,
                origin,
            };
        }
        if let Some(write) = write_cost(self.written, model) {
            charge.0 += write.measurement.ru.0;
        }
        Figure {
            charge,
            asked: after_write(self.written, model, asked),
            origin,
        }
    }

    async fn bar(&self, model: Model, figure: &Figure, scale: Scale, present: &[Model]) -> Bar {
        let is_present = present.contains(&model);
        let groups = match is_present {
            true => {
                let blog = self.state.blog(model, self.deadline);
                Layout::of(&blog).await.groups(&figure.asked)
            }
            false => Vec::new(),
        };
        let asked: usize = groups.iter().map(|group| group.asked).sum();
        let all: usize = groups.iter().map(|group| group.partitions).sum();
        let name = path_name(model);
        let is_theirs = figure.origin == Origin::Article;
        Bar {
            href: match is_present {
                true => format!("/{name}{}", self.path),
                false => String::new(),
            },
            label: model.to_string(),
            name,
            is_current: model == self.current,
            figure: text::charge(figure.charge),
            short: text::short_charge(figure.charge),
            plain: figure.charge.to_string(),
            width: scale.width(figure.charge.ru()),
            origin: match (figure.origin, is_present) {
                (Origin::Here, _) => "this page, just now",
                (Origin::Measured, _) if self.is_continued => "first page of this list",
                (Origin::Measured, _) => "this page, measured",
                (Origin::Alike, _) => "a page like this, measured",
                (Origin::Article, true) => "the article's figure",
                (Origin::Article, false) => "the article's figure; not on this site",
            },
            is_theirs,
            partitions: match all {
                0 => String::new(),
                _ if is_theirs => text::counted(all as u64, "partition", "partitions"),
                _ => format!(
                    "{asked} of {}",
                    text::counted(all as u64, "partition", "partitions")
                ),
            },
            groups,
        }
    }

    /// Returns the address of the parts with bars.
    fn address(&self) -> String {
        let path = utf8_percent_encode(self.path, NON_ALPHANUMERIC);
        let done = self.written.map(|receipt| format!("&done={}", receipt.id));
        let model = path_name(self.current);
        format!("/prices/{model}?page={path}{}", done.unwrap_or_default())
    }

    /// Returns the sentence about the figures.
    fn status(
        &self,
        present: &[Model],
        status: &Status,
        is_unknown: bool,
        is_waiting: bool,
    ) -> String {
        if is_unknown && status.is_awaited() {
            return format!(
                "{} Until then a bar may have the article's figure, and says so.",
                progress(status)
            );
        }
        if is_waiting {
            return "This page is being measured in the other models.".to_owned();
        }
        if present.len() < Model::ALL.len() {
            let names: Vec<String> = present.iter().map(Model::to_string).collect();
            return format!(
                "Only {} is on this site, so only {} can be measured here.",
                names.join(" and "),
                names.join(" and "),
            );
        }
        if is_unknown && let Some(failure) = &status.failure {
            return format!(
                "{} A bar may have the article's figure, and says so.",
                explain(failure).happened
            );
        }
        if is_unknown && !status.is_watched {
            let words =
                "Models are measured on demand, see Compare: the database may charge for it.";
            return words.to_owned();
        }
        "Measured on this blog: the page as you see it, in each model.".to_owned()
    }
}

/// Returns the sentence about a comparison that runs or is about to start.
pub(crate) fn progress(status: &Status) -> String {
    let step = status.running.as_ref().map(|running| &running.step);
    match step {
        Some(step) if step.of > 0 => {
            format!(
                "The models are being measured ({} of {})…",
                step.number, step.of
            )
        }
        _ => "The models are being measured…".to_owned(),
    }
}

/// Returns the article's request with a name.
fn request_of(code: &str) -> Option<Request> {
    Request::ALL
        .into_iter()
        .find(|request| request.to_string() == code)
}

/// Returns the sum of the article's charges of a page's requests.
fn of_article(model: Model, codes: &[&str]) -> Charge {
    let requests = codes.iter().filter_map(|code| request_of(code));
    let ru: f64 = requests.map(|request| published(request, model).1).sum();
    Charge((ru * 100.0).round() as u64)
}

/// Returns the sum of the measured charges of requests like a page's, and the partitions that they
/// asked; `None` unless all were measured. A container with one partition is asked if it has a
/// charge.
fn alike(comparison: &Comparison, model: Model, codes: &[&str]) -> Option<(Charge, Asked)> {
    let facts = comparison.facts(model)?;
    let (mut ru, mut asked) = (0.0, Asked::new());
    for code in codes {
        let cell = comparison.cell(Action::Article(request_of(code)?), model)?;
        ru += cell.ru;
        for (range, charge) in &cell.asked {
            let at = AskedAt {
                requests: 1,
                charge: Charge((charge * 100.0).round() as u64),
                order: 0,
            };
            asked.insert(("posts".to_owned(), range.clone()), at);
        }
        for (place, name) in orrery_blog::lesson::mix::CONTAINER_NAMES.iter().enumerate() {
            if facts.partitions[place] == 1 && cell.price.request[place] > 0.0 {
                let partition = ((*name).to_owned(), "0".to_owned());
                asked.entry(partition).or_default().requests += 1;
            }
        }
    }
    Some((Charge((ru * 100.0_f64).round() as u64), asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson::samples;

    #[test]
    fn the_articles_price_of_a_page_is_the_sum_of_its_requests() {
        assert_eq!(of_article(Model::V1, &["Q6"]), Charge(206_354));
        let post = of_article(Model::V1, &["Q2", "Q4", "Q5"]);
        assert_eq!(post, Charge(1_954 + 2_772 + 5_892));
        assert_eq!(of_article(Model::V1, &[]), Charge(0));
    }

    #[test]
    fn a_page_like_another_has_the_sum_of_the_measured_requests() {
        let comparison = samples::comparison();
        let (charge, asked) = alike(&comparison, Model::V2, &["Q1", "Q3"]).expect("figures");
        assert_eq!(charge, Charge(100 + 20_154));
        assert!(asked.contains_key(&("posts".to_owned(), "1".to_owned())));
        assert!(alike(&comparison, Model::V2, &["Q9"]).is_none());
    }

    #[test]
    fn the_progress_names_the_step_and_all_steps() {
        use orrery_blog::lesson::compare::Step;
        use orrery_blog::lesson::comparing::Running;
        let mut status = Status::default();
        assert_eq!(progress(&status), "The models are being measured…");
        status.running = Some(Running {
            step: Step {
                name: "V1: read a post".to_owned(),
                number: 4,
                of: 45,
            },
            started: std::time::Instant::now(),
        });
        assert_eq!(
            progress(&status),
            "The models are being measured (4 of 45)…"
        );
    }
}
