//! The work of the pipelines after a write: the reactions to its changes, with their charges.
//!
//! The pipelines keep their last reactions in memory, by post and by user. A reaction to another
//! write to the same post at the same time is shown as well. The section asks for itself again
//! until every expected reaction was seen, or for half a minute.

use crate::frame::path_name;
use crate::state::Inner;
use crate::text;
use askama::Template;
use jiff::Timestamp;
use orrery_blog::pipelines::Consequence;
use orrery_blog::writes::{Receipt, WriteOperation};
use orrery_blog::{Charge, Model};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Seconds after the write for which the section asks for itself again.
const POLLED_FOR_S: i64 = 30;
/// Seconds without a new reaction after which the work counts as complete.
const QUIET_S: i64 = 2;

/// The section of the drawer.
#[derive(Template)]
#[template(path = "consequences.html")]
pub(crate) struct Consequences {
    /// Address that returns this section.
    address: String,
    is_polled: bool,
    /// A sentence instead of a table.
    words: String,
    rows: Vec<Row>,
    sum_charge: String,
    sum_after: String,
    /// The reactions, for programs.
    json: Value,
}

/// The reactions of one kind.
struct Row {
    pipeline: String,
    ranges: String,
    work: String,
    items: String,
    charge: String,
    after: String,
}

impl Consequences {
    /// Returns what followed from a write in one model.
    pub(crate) fn of(state: &Inner, receipt: &Receipt, model: Model) -> Self {
        let mut section = Self {
            address: format!("/consequences/{}?model={}", receipt.id, path_name(model)),
            is_polled: false,
            words: String::new(),
            rows: Vec::new(),
            sum_charge: String::new(),
            sum_after: String::new(),
            json: json!([]),
        };
        let expected = expected_reactions(&receipt.operation, model);
        if expected.is_empty() {
            section.words =
                format!("In {model} no copy depends on this write, so nothing follows.");
            return section;
        }
        let Some(pipelines) = &state.options.pipelines else {
            section.words = "The pipelines run in another process.".into();
            return section;
        };
        let subject = match receipt.operation.post_id() {
            Some(post_id) => post_id,
            None => receipt.operation.user_id(),
        };
        // The journal's date is not of use if another program has changed it.
        let since = receipt.started.parse().unwrap_or(Timestamp::UNIX_EPOCH);
        let database = format!("{}.", state.site.blog(model).database());
        let mut reactions = pipelines.consequences(subject, since);
        reactions.retain(|reaction| reaction.pipeline.starts_with(&database));
        section.fill(receipt, model, &expected, &reactions, since);
        section
    }

    fn fill(
        &mut self,
        receipt: &Receipt,
        model: Model,
        expected: &[&str],
        reactions: &[Consequence],
        since: Timestamp,
    ) {
        let mut kinds: Vec<&str> = expected.to_vec();
        for reaction in reactions {
            if !kinds.contains(&reaction.reaction.as_str()) {
                kinds.push(&reaction.reaction);
            }
        }
        let mut is_waiting = false;
        let mut charge = receipt
            .cost(model)
            .map(|cost| cost.measurement.ru)
            .unwrap_or_default();
        let mut latest: Option<f64> = None;
        let mut listed = Vec::new();
        for kind in kinds {
            let members: Vec<&Consequence> = reactions
                .iter()
                .filter(|reaction| reaction.reaction == kind)
                .collect();
            is_waiting |= members.is_empty();
            for member in &members {
                charge.0 += member.ru.0;
                let after = milliseconds_after(since, member);
                latest = Some(latest.unwrap_or_default().max(after));
                listed.push(json!({
                    "pipeline": member.pipeline,
                    "reaction": member.reaction,
                    "range": member.range,
                    "items": member.written,
                    "ru": member.ru.ru(),
                    "afterMs": after,
                    "attempts": member.attempts,
                    "deadLetter": member.is_dead_letter,
                }));
            }
            self.rows.push(row(kind, &members, since));
        }
        let now = Timestamp::now().as_second();
        let last = reactions
            .iter()
            .map(|reaction| reaction.at.as_second())
            .max();
        let is_quiet = last.is_some_and(|last| now - last >= QUIET_S);
        self.is_polled = now - since.as_second() < POLLED_FOR_S && (is_waiting || !is_quiet);
        self.sum_charge = text::charge(charge);
        self.sum_after = latest.map_or("waiting".into(), text::milliseconds);
        self.json = json!({
            "model": path_name(model),
            "reactions": listed,
            "ru": charge.ru(),
            "complete": !self.is_polled && !is_waiting,
        });
    }

    /// Returns the reactions for programs.
    pub(crate) fn json(&self) -> String {
        self.json.to_string()
    }
}

/// Returns the names of the reactions that a write causes in a model.
fn expected_reactions(operation: &WriteOperation, model: Model) -> Vec<&'static str> {
    let is_of_user = operation.post_id().is_none();
    match (model, is_of_user) {
        (Model::V1, _) | (Model::V2, false) => Vec::new(),
        (Model::V2 | Model::V3, true) => vec!["renameInPosts"],
        (Model::V3, false) => vec!["copyToUsers", "copyToFeed"],
    }
}

/// Returns the row of the reactions of one kind.
fn row(kind: &str, members: &[&Consequence], since: Timestamp) -> Row {
    let ranges: BTreeSet<&str> = members.iter().map(|member| member.range.as_str()).collect();
    let written: u64 = members.iter().map(|member| member.written).sum();
    let charge: u64 = members.iter().map(|member| member.ru.0).sum();
    let is_dead = members.iter().any(|member| member.is_dead_letter);
    let after = members
        .iter()
        .map(|member| milliseconds_after(since, member));
    let (pipeline, work) = words_of(kind);
    Row {
        pipeline: pipeline.to_owned(),
        ranges: match ranges.len() {
            0 => "none yet".into(),
            1..=3 => ranges.into_iter().collect::<Vec<_>>().join(", "),
            count => format!("{count} ranges"),
        },
        work: match (members.is_empty(), is_dead) {
            (true, _) => "waiting for the change feed".into(),
            (false, true) => "failed; the change is a dead letter".into(),
            (false, false) => work.to_owned(),
        },
        items: text::count(written),
        charge: text::charge(Charge(charge)),
        after: match members.is_empty() {
            true => "waiting".into(),
            false => text::milliseconds(after.fold(0.0, f64::max)),
        },
    }
}

/// Returns the name of the pipeline of a reaction, and what the reaction does.
fn words_of(kind: &str) -> (&str, &str) {
    match kind {
        "renameInPosts" => ("usernames to posts", "procedure updateUsernames"),
        "copyToUsers" => ("posts to users", "upsert of the short post"),
        "copyToFeed" => ("posts to feed", "upsert with the trigger truncateFeed"),
        other => (other, "copy"),
    }
}

/// Returns the time from the begin of the write to the end of a reaction.
fn milliseconds_after(since: Timestamp, reaction: &Consequence) -> f64 {
    let microseconds = reaction.at.as_microsecond() - since.as_microsecond();
    (microseconds as f64 / 1000.0).max(0.0)
}
