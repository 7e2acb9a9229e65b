//! The sentences of a prediction: what changes, and why.

use crate::prediction::{Prediction, PredictionClass, PredictionSide};
use crate::replay::GroupRun;
use orrery_engine::request::OperationKind;
use orrery_model::words::plural;

/// A ratio of two charges from which on they differ.
const NOTABLE: f64 = 0.02;
/// A share of the largest size of a logical partition from which on the size is worth a word.
const NEAR_LIMIT: f64 = 0.5;
/// A ratio of recorded and repeated charges from which on the repetition is doubtful.
const DOUBTFUL: f64 = 0.3;

/// Returns the sentences of a prediction, the most important first.
pub(crate) fn sentences(prediction: &Prediction) -> Vec<String> {
    let Prediction {
        current,
        proposed,
        classes,
        sample,
        ..
    } = prediction;
    let mut said = Vec::new();
    said.extend(total(current, proposed));
    said.extend(conflicts(proposed));
    said.extend(fan_out(current, proposed, classes));
    said.extend(point_reads(current, proposed, classes));
    said.extend(hottest(current, proposed));
    said.extend(throttled(current, proposed));
    said.extend(largest(proposed));
    said.extend(index(current, proposed));
    said.extend(writes(classes));
    if !sample.is_complete() {
        said.push(format!(
            "The figures come from a sample of {} of {} items. Sizes are scaled to the container; \
             charges are the recorded ones times the ratio that the sample shows.",
            sample.items, sample.container_items
        ));
    }
    if classes.is_empty() {
        said.push(
            "No request to this container was recorded since the server started, and no query was \
             given, so only sizes are predicted."
                .to_owned(),
        );
    }
    said
}

/// Says what limits the repetition of a group.
pub(crate) fn note(run: &GroupRun, actions: usize) -> Option<String> {
    if let Some(reason) = &run.refused_then
        && run.refused_now.is_none()
    {
        return Some(format!(
            "The proposed settings refuse the request: {reason}"
        ));
    }
    if let Some(reason) = &run.refused_now {
        return Some(format!("The repeated request was refused: {reason}"));
    }
    match run.pairs.len() {
        0 => Some("No request could be repeated; the recorded charge is kept.".to_owned()),
        count if count < actions => Some(format!(
            "{count} of {actions} sampled requests were repeated."
        )),
        _ => None,
    }
}

/// Says that a class was not repeated. `ratio` is applied to its charge.
pub(crate) fn kept_note(reason: &str, ratio: f64) -> String {
    match (ratio - 1.0).abs() < 0.005 {
        true => format!("{reason} The recorded charge is kept."),
        false => format!(
            "{reason} The recorded charge is scaled as that of single writes, by {ratio:.2}."
        ),
    }
}

fn total(current: &PredictionSide, proposed: &PredictionSide) -> Option<String> {
    if current.ru <= 0.0 {
        return None;
    }
    let change = proposed.ru / current.ru - 1.0;
    let text = match change.abs() < NOTABLE {
        true => "The recorded requests would cost about the same in all".to_owned(),
        false => format!(
            "The recorded requests would cost {:.0} % {}",
            change.abs() * 100.0,
            if change < 0.0 { "less" } else { "more" }
        ),
    };
    Some(format!(
        "{text}: {} RU in place of {} RU.",
        ru(proposed.ru),
        ru(current.ru)
    ))
}

/// Says which items cannot be stored.
fn conflicts(proposed: &PredictionSide) -> Vec<String> {
    let mut said = Vec::new();
    let key = proposed.key_paths.join(", ");
    if proposed.conflicts > 0 {
        said.push(format!(
            "{} items cannot be stored under {key}: another item with the same value of the \
             partition key has the same id or the same unique key. Give them other ids first.",
            proposed.conflicts
        ));
    }
    if let Some(reason) = &proposed.refusal {
        said.push(format!(
            "{} items cannot be stored under {key}: {reason}",
            proposed.refused
        ));
    }
    said
}

/// Says which forms of queries ask more or fewer partitions, and why.
fn fan_out(
    current: &PredictionSide,
    proposed: &PredictionSide,
    classes: &[PredictionClass],
) -> Vec<String> {
    let queries: Vec<&PredictionClass> = classes
        .iter()
        .filter(|class| class.kind == OperationKind::Query && class.repeated > 0)
        .collect();
    let partitions = proposed.ru_shares.len();
    let mut said = Vec::new();
    let more = count(&queries, |class| {
        class.proposed.partitions > class.current.partitions * 1.05
    });
    let fewer = count(&queries, |class| {
        class.proposed.partitions < class.current.partitions * 0.95
    });
    let (all, forms) = (queries.len(), plural(queries.len(), "form", "forms"));
    let new_key = proposed.key_paths.join(", ");
    if more > 0 && current.key_paths != proposed.key_paths {
        said.push(format!(
            "{more} of {all} {forms} of queries {} more physical partitions (up to {partitions}), \
             because their filter does not name {new_key}.",
            plural(more, "asks", "ask")
        ));
    } else if more > 0 {
        said.push(format!(
            "{more} of {all} {forms} of queries {} more physical partitions, because the container \
             has {partitions} in place of {}.",
            plural(more, "asks", "ask"),
            current.ru_shares.len()
        ));
    }
    if fewer > 0 && current.key_paths != proposed.key_paths {
        said.push(format!(
            "{fewer} of {all} {forms} of queries {} fewer physical partitions, because their \
             filter names {new_key}.",
            plural(fewer, "asks", "ask")
        ));
    } else if fewer > 0 {
        said.push(format!(
            "{fewer} of {all} {forms} of queries {} fewer physical partitions, because the \
             container has {partitions} in place of {}.",
            plural(fewer, "asks", "ask"),
            current.ru_shares.len()
        ));
    }
    said
}

/// Says that point reads and writes need the new key.
fn point_reads(
    current: &PredictionSide,
    proposed: &PredictionSide,
    classes: &[PredictionClass],
) -> Option<String> {
    let needs_key = |class: &&PredictionClass| {
        let kinds = [
            OperationKind::PointRead,
            OperationKind::Replace,
            OperationKind::Patch,
            OperationKind::Delete,
        ];
        kinds.contains(&class.kind)
    };
    let requests: f64 = classes
        .iter()
        .filter(needs_key)
        .map(|class| class.count)
        .sum();
    if requests == 0.0 || current.key_paths == proposed.key_paths {
        return None;
    }
    let partitions = proposed.ru_shares.len();
    Some(format!(
        "{requests:.0} recorded reads and writes name an item by its id: they must know its value \
         of {} as well. Where the application does not know the value, it has to query for the id, \
         which asks {partitions} physical {}.",
        proposed.key_paths.join(", "),
        plural(partitions, "partition", "partitions")
    ))
}

fn hottest(current: &PredictionSide, proposed: &PredictionSide) -> Option<String> {
    if current.ru <= 0.0 || proposed.ru_shares.len() < 2 {
        return None;
    }
    let even = 1.0 / proposed.ru_shares.len() as f64;
    let share = proposed.hottest_share();
    let before = current.hottest_share();
    let judged = match share / even {
        ratio if ratio < 1.25 => "the load is even",
        ratio if ratio < 2.0 => "the load is somewhat uneven",
        _ => "one partition carries most of what it could share",
    };
    Some(format!(
        "The busiest of {} physical partitions serves {:.0} % of the request units (now {:.0} % of \
         {}): {judged}.",
        proposed.ru_shares.len(),
        share * 100.0,
        before * 100.0,
        current.ru_shares.len()
    ))
}

fn throttled(current: &PredictionSide, proposed: &PredictionSide) -> Option<String> {
    let (now, then) = (current.throttled?, proposed.throttled?);
    let rate = proposed.ru_per_second?;
    if now < 0.0005 && then < 0.0005 {
        return Some(format!(
            "At the recorded rates and {rate} RU/s no request would be answered with 429."
        ));
    }
    Some(format!(
        "At the recorded rates and {rate} RU/s, {:.1} % of the requests would be answered with 429 \
         (with the settings as they are: {:.1} %).",
        then * 100.0,
        now * 100.0
    ))
}

fn largest(proposed: &PredictionSide) -> Option<String> {
    let largest = proposed.keys.largest.first()?;
    let limit = proposed.keys.limit_bytes.max(1);
    let of_limit = largest.bytes as f64 / limit as f64;
    let key = proposed.key_paths.join(", ");
    if of_limit >= NEAR_LIMIT {
        return Some(format!(
            "The largest logical partition, {}, has {:.0} % of the bytes that one may have. Choose \
             a key with more values, or a hierarchical key.",
            largest.key,
            of_limit * 100.0
        ));
    }
    let distinct = proposed.keys.distinct;
    if distinct < proposed.ru_shares.len() as u64 {
        return Some(format!(
            "{key} has {distinct} {} for {} physical partitions: some partitions stay empty.",
            plural(distinct as usize, "value", "values"),
            proposed.ru_shares.len()
        ));
    }
    Some(format!(
        "{key} has {distinct} values among the copied items; the largest logical partition, {}, \
         has {:.1} % of the bytes.",
        largest.key,
        largest.share * 100.0
    ))
}

fn index(current: &PredictionSide, proposed: &PredictionSide) -> Option<String> {
    let (before, after) = (current.index_bytes as f64, proposed.index_bytes as f64);
    if before <= 0.0 || (after / before - 1.0).abs() < NOTABLE {
        return None;
    }
    Some(format!(
        "The index would take {:.0} % {} space.",
        (after / before - 1.0).abs() * 100.0,
        if after < before { "less" } else { "more" }
    ))
}

/// Says how charges of writes change, and where the repetition is doubtful.
fn writes(classes: &[PredictionClass]) -> Vec<String> {
    let mut said = Vec::new();
    for class in classes {
        let Some(recorded) = class.recorded_ru else {
            continue;
        };
        let name = match class.text.is_empty() {
            true => class.kind.name(),
            false => &class.text,
        };
        if class.current.ru > 0.0 && (recorded / class.current.ru - 1.0).abs() > DOUBTFUL {
            said.push(format!(
                "The repetition of “{name}” costs {} RU with the settings as they are, and {} RU \
                 were recorded: its values or items differ from those of the recorded requests, so \
                 its prediction is less certain.",
                ru(class.current.ru),
                ru(recorded)
            ));
        }
    }
    said
}

fn count(classes: &[&PredictionClass], is_counted: impl Fn(&PredictionClass) -> bool) -> usize {
    classes.iter().filter(|class| is_counted(class)).count()
}

/// Returns request units with as many digits as they need.
fn ru(amount: f64) -> String {
    match amount {
        amount if amount < 100.0 => format!("{amount:.2}"),
        amount if amount < 1_000.0 => format!("{amount:.1}"),
        amount => format!("{amount:.0}"),
    }
}
