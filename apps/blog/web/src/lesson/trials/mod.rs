//! The trials: experiments of the chapters whose answer is there at once. `POST /lesson/run/{name}`
//! runs one.
//!
//! A trial is an element with the id `trial-{name}` that contains its form and its result. Without
//! scripts the answer is the page of the chapter with the result in it; for a script it is this
//! element alone. Experiments that take longer belong to the lab (`laboratory`).
//!
//! Promises:
//! 1. A trial that fails leaves the page as it was, with a sentence on what happened.
//! 2. A visitor runs one trial at a time, and all visitors together at most [`TRIALS_MAX`].
//! 3. A trial ends after [`TIME_MAX`] at the latest.
//!
//! To add a trial: a variant of [`Trial`], and a module with `show`, which never fails and asks the
//! database for metadata at most, and `run`. Both return the element.

mod comment;
mod embedding;
mod fan_out;
mod hashing;

use super::comparison::{Failure, explain};
use crate::forms::Form;
use crate::secret;
use crate::visit::Visit;
use orrery_blog::lesson::examples::Examples;
use orrery_blog::sync::lock;
use orrery_blog::{BlogError, Client};
use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Trials that run at the same time.
const TRIALS_MAX: usize = 8;
/// Time limit of a trial.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Time after which throttled requests of a trial are not repeated.
const PATIENCE: Duration = Duration::from_secs(10);

/// The trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    /// Chapter 1: a key, its hash, and its physical partition.
    Hashing,
    /// Chapter 1: comments in the post against comments of their own.
    Embedding,
    /// Chapter 2: a query to all physical partitions, or to one.
    FanOut,
    /// Chapter 3: the transaction of `createComment`.
    Comment,
}

impl Trial {
    const ALL: [Self; 4] = [Self::Hashing, Self::Embedding, Self::FanOut, Self::Comment];

    /// Returns the trial with a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trial| trial.name() == name)
    }

    /// Returns the name in addresses and templates.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hashing => "hashing",
            Self::Embedding => "embedding",
            Self::FanOut => "fan-out",
            Self::Comment => "comment",
        }
    }

    /// Returns the chapter that shows the trial.
    pub(crate) fn chapter(self) -> usize {
        match self {
            Self::Hashing | Self::Embedding => 1,
            Self::FanOut => 2,
            Self::Comment => 3,
        }
    }

    /// Returns the element as it is before the first run, or after a failed one.
    async fn show(self, bench: &Bench<'_>) -> String {
        match self {
            Self::Hashing => hashing::show(bench).await,
            Self::Embedding => embedding::show(bench),
            Self::FanOut => fan_out::show(bench).await,
            Self::Comment => comment::show(bench),
        }
    }

    /// Runs the trial and returns the element with the result.
    async fn run(self, bench: &Bench<'_>) -> Result<String, BlogError> {
        match self {
            Self::Hashing => hashing::run(bench).await,
            Self::Embedding => embedding::run(bench).await,
            Self::FanOut => fan_out::run(bench).await,
            Self::Comment => comment::run(bench).await,
        }
    }
}

/// The visit, the sent form and the frame of the element, which every trial has.
pub(crate) struct Bench<'a> {
    pub(crate) visit: &'a Visit,
    /// The fields that were sent; empty before the first run.
    pub(crate) form: &'a Form,
    pub(crate) shell: Shell,
}

/// The frame of the element of a trial, which the template `lesson/trial.html` draws.
#[derive(Clone)]
pub(crate) struct Shell {
    pub(crate) name: &'static str,
    pub(crate) csrf: String,
    pub(crate) failure: Option<Failure>,
    /// The result in one sentence, which scripts say to a screen reader.
    pub(crate) said: String,
}

impl Shell {
    fn new(trial: Trial, visit: &Visit, failure: Option<Failure>) -> Self {
        Self {
            name: trial.name(),
            csrf: visit.csrf(),
            failure,
            said: String::new(),
        }
    }

    /// Returns the frame with the result in one sentence.
    pub(crate) fn saying(&self, said: String) -> Self {
        Self {
            said,
            ..self.clone()
        }
    }
}

impl Bench<'_> {
    /// Returns a client with the patience of a trial.
    pub(crate) fn client(&self) -> Client {
        let client = &self.visit.state.site.control().client;
        client.with_deadline(Instant::now() + PATIENCE)
    }

    /// Returns the examples in the database of the lab.
    pub(crate) fn examples(&self) -> Examples {
        Examples::new(self.client(), self.visit.state.lab.database())
    }

    /// Returns a name for the items of one run.
    pub(crate) fn fresh_name(&self) -> String {
        format!("example-{}", secret::random::<6>())
    }
}

/// The elements of the trials of a chapter, by name.
pub(crate) type Elements = BTreeMap<&'static str, String>;

/// Returns the elements of the trials of a chapter. `done` is one that has just run.
pub(crate) async fn elements(
    visit: &Visit,
    chapter: usize,
    done: Option<(Trial, String)>,
) -> Elements {
    let form = Form::default();
    let mut elements = Elements::new();
    for trial in Trial::ALL {
        if trial.chapter() != chapter {
            continue;
        }
        let bench = Bench {
            visit,
            form: &form,
            shell: Shell::new(trial, visit, None),
        };
        elements.insert(trial.name(), trial.show(&bench).await);
    }
    if let Some((trial, element)) = done {
        elements.insert(trial.name(), element);
    }
    elements
}

/// The visitors whose trials run now.
#[derive(Default)]
pub(crate) struct Running(Mutex<HashSet<String>>);

/// The turn of a visitor, which ends when it is dropped.
struct Turn<'a> {
    running: &'a Running,
    visitor: String,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.running.0).remove(&self.visitor);
    }
}

impl Running {
    /// Returns the turn of a visitor, or the reason for which it has to wait.
    fn begin(&self, visitor: &str) -> Result<Turn<'_>, Failure> {
        let mut running = lock(&self.0);
        if running.contains(visitor) {
            return Err(failure(
                "An experiment of yours is running.",
                "Wait for its end, then try again.",
            ));
        }
        if running.len() >= TRIALS_MAX {
            return Err(failure(
                "Other readers are running experiments.",
                "Try again in a moment.",
            ));
        }
        running.insert(visitor.to_owned());
        Ok(Turn {
            running: self,
            visitor: visitor.to_owned(),
        })
    }
}

fn failure(happened: &str, to_do: &str) -> Failure {
    Failure {
        happened: happened.to_owned(),
        to_do: to_do.to_owned(),
    }
}

/// Returns the element of a trial after a form that another session of the browser made.
pub(crate) async fn refused(visit: &Visit, form: &Form, trial: Trial) -> String {
    let reason = failure(
        "The page is of an earlier session, and nothing was run.",
        "Press the button again.",
    );
    shown(visit, form, trial, reason).await
}

async fn shown(visit: &Visit, form: &Form, trial: Trial, failure: Failure) -> String {
    let shell = Shell::new(trial, visit, Some(failure));
    trial.show(&Bench { visit, form, shell }).await
}

/// Runs a trial for a visitor and returns its element: with the result, or with the reason for
/// which there is none.
pub(crate) async fn run(visit: &Visit, form: &Form, trial: Trial) -> String {
    let turn = match visit.state.trials.begin(&visit.secret) {
        Ok(turn) => turn,
        Err(reason) => return shown(visit, form, trial, reason).await,
    };
    let shell = Shell::new(trial, visit, None);
    let bench = Bench { visit, form, shell };
    let result = tokio::time::timeout(TIME_MAX, trial.run(&bench)).await;
    drop(turn);
    let reason = match result {
        Ok(Ok(element)) => return element,
        Ok(Err(BlogError::InvalidOption(text))) => failure(&text, ""),
        Ok(Err(error)) => explain(&error),
        Err(_) => failure(
            &format!("There was no result within {} seconds.", TIME_MAX.as_secs()),
            "Try again when the database is less busy.",
        ),
    };
    shown(visit, form, trial, reason).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_is_found_by_its_name() {
        for trial in Trial::ALL {
            assert_eq!(Trial::named(trial.name()), Some(trial));
        }
        assert_eq!(Trial::named("no-such"), None);
    }

    #[test]
    fn a_visitor_runs_one_trial_at_a_time_and_all_visitors_a_bounded_number() {
        let running = Running::default();
        let first = running.begin("one").ok();
        assert!(first.is_some() && running.begin("one").is_err());
        let names: Vec<String> = (1..TRIALS_MAX).map(|n| format!("other-{n}")).collect();
        let others: Vec<_> = names.iter().map(|name| running.begin(name)).collect();
        assert!(others.iter().all(Result::is_ok));
        assert!(running.begin("late").is_err());
        drop(first);
        assert!(running.begin("late").is_ok());
    }
}
