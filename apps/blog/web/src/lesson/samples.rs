//! A comparison for tests, with round figures.

use orrery_blog::client::PartitionKeyRange;
use orrery_blog::lesson::compare::{Cell, Comparison, ModelFacts, PipelineCost, Probe};
use orrery_blog::lesson::growth::Sizes;
use orrery_blog::lesson::mix::Price;
use orrery_blog::lesson::{Action, published};
use orrery_blog::{Model, Request};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns a comparison in which every charge is the article's, except C2 of V3, which has two
/// pipelines.
pub(crate) fn comparison() -> Comparison {
    let mut cells = Vec::new();
    for action in Action::ALL {
        for model in Model::ALL {
            cells.push(cell(action, model));
        }
    }
    Comparison {
        at: jiff::Timestamp::UNIX_EPOCH,
        seconds: 12.34,
        runs: 10,
        probe: Probe {
            user: "u-1".to_owned(),
            post: "p-1".to_owned(),
        },
        models: Model::ALL.into_iter().map(facts).collect(),
        cells,
    }
}

fn facts(model: Model) -> ModelFacts {
    let range = |id: &str, min: &str, max: &str| PartitionKeyRange {
        id: id.to_owned(),
        min: min.to_owned(),
        max: max.to_owned(),
        parents: Vec::new(),
    };
    ModelFacts {
        model,
        partitions: [1, 2, usize::from(model == Model::V3)],
        ranges: Arc::new(vec![range("0", "", "20"), range("1", "20", "FF")]),
        sizes: Sizes {
            post: 900.0,
            comment: 1_100.0,
            like: 450.0,
            short_post: (model == Model::V3).then_some(550.0),
        },
        posts_of_user: 27,
        posts_with_name: 40,
        poll_ru: 7.0,
    }
}

fn cell(action: Action, model: Model) -> Cell {
    let article = match action {
        Action::Article(request) => Some(published(request, model)),
        _ => None,
    };
    let is_copied = action == Action::Article(Request::C2) && model == Model::V3;
    let ru = match article {
        _ if is_copied => 9.9,
        Some((_, ru)) => ru,
        None => 12.0,
    };
    let pipeline = |name: &'static str, ru: f64, place: usize| {
        let mut by_container = [0.0; 3];
        by_container[place] = ru;
        PipelineCost {
            name,
            ru,
            by_container,
            requests: 2,
            written: 1,
            ms: 3.0,
        }
    };
    let pipelines = if is_copied {
        vec![
            pipeline("posts to users", 9.5, 0),
            pipeline("posts to feed", 13.5, 2),
        ]
    } else {
        Vec::new()
    };
    let mut price = Price {
        request: [0.0, ru, 0.0],
        pipelines: [0.0; 3],
    };
    for pipeline in &pipelines {
        for (sum, ru) in price.pipelines.iter_mut().zip(pipeline.by_container) {
            *sum += ru;
        }
    }
    Cell {
        action,
        model,
        ru,
        varies: false,
        ms_p50: 2.0,
        runs: 10,
        partitions: 1,
        requests: 1,
        asked: BTreeMap::from([("1".to_owned(), ru)]),
        pipelines,
        price,
        article,
        note: None,
    }
}
