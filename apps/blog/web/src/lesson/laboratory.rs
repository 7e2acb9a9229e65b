//! The part of the lesson that shows the lab: its buttons, and the state of the experiment.

use super::comparison::{Failure, explain};
use super::figures;
use super::pictures::{LoadPicture, hash_range};
use askama::Template;
use orrery_blog::lesson::Lab;
use orrery_blog::lesson::lab::{ContainerState, Experiment, LabOptions, LabState, Phase, Series};

/// Seconds in the table of the newest figures.
const SECONDS_SHOWN: usize = 12;

/// A button that starts an experiment.
pub(crate) struct Button {
    pub(crate) name: String,
    pub(crate) title: &'static str,
    pub(crate) is_offered: bool,
    /// The question that the experiment answers.
    pub(crate) question: &'static str,
}

/// Returns the buttons of all experiments.
pub(crate) fn buttons(options: &LabOptions) -> Vec<Button> {
    let mut buttons = Vec::new();
    for experiment in Experiment::ALL {
        buttons.push(Button {
            name: experiment.to_string(),
            title: experiment.title(),
            is_offered: options.offers(experiment),
            question: question(experiment),
        });
    }
    buttons
}

fn question(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::HotKey => "Most of the load goes to one key. Which requests are refused?",
        Experiment::Split => "More throughput than one partition can serve. Does a client notice?",
        Experiment::BadKey => "The same posts by /type and by /postId. Which container refuses?",
        Experiment::FullKey => "Comments on one post never end. Which answer does the server give?",
        Experiment::Growth => "Posts fill a physical partition. Which change does its limit bring?",
    }
}

/// The element `#lab`: the state of the experiment.
#[derive(Template)]
#[template(path = "lesson/lab.html")]
pub(crate) struct LabPart {
    /// Title of the running or last experiment; empty if there was none.
    title: &'static str,
    is_running: bool,
    failure: Option<Failure>,
    steps: Vec<String>,
    series: Vec<SeriesView>,
    containers: Vec<ContainerView>,
    fill: Option<FillView>,
    /// The result in one sentence.
    conclusion: String,
}

struct SeriesView {
    label: String,
    served: String,
    throttled: String,
    failed: String,
    percent: String,
    ru: String,
    seconds: Vec<SecondView>,
}

struct SecondView {
    number: usize,
    served: u32,
    throttled: u32,
    ru: String,
}

struct ContainerView {
    name: String,
    key_path: &'static str,
    throughput: String,
    share: String,
    picture: LoadPicture,
    replaced: Vec<(String, String, String)>,
}

struct FillView {
    bytes: String,
    limit: String,
    percent: String,
    width: String,
    is_near: bool,
    refusal: String,
}

impl LabPart {
    /// Returns the part for the state of a lab.
    pub(crate) fn of(lab: &Lab) -> Self {
        Self::of_state(&lab.state())
    }

    fn of_state(state: &LabState) -> Self {
        let is_running = state.phase == Phase::Running;
        let failure = match &state.phase {
            Phase::Failed(failure) => Some(explain(failure)),
            _ => None,
        };
        let fill = state.fill.as_ref().map(|fill| FillView {
            bytes: figures::bytes(fill.bytes as f64),
            limit: figures::bytes(fill.limit as f64),
            percent: figures::percent(fill.percent() / 100.0),
            width: figures::bar(fill.bytes as f64, fill.limit as f64),
            is_near: fill.is_near(),
            refusal: match &fill.refusal {
                Some((status, sub_status, message)) => {
                    format!("{status}/{sub_status}: {}", figures::server_words(message))
                }
                None => String::new(),
            },
        });
        let shown_second = match (is_running, newest_second(&state.series)) {
            (true, Some(second)) => Some(second),
            _ => None,
        };
        Self {
            title: state.experiment.map(Experiment::title).unwrap_or_default(),
            is_running,
            failure,
            steps: state.steps.clone(),
            series: state.series.iter().map(series_view).collect(),
            containers: state
                .containers
                .iter()
                .map(|container| container_view(container, shown_second))
                .collect(),
            fill,
            conclusion: match state.phase {
                Phase::Ended => conclusion(state),
                _ => String::new(),
            },
        }
    }
}

/// Returns the last second that is complete.
fn newest_second(series: &[Series]) -> Option<usize> {
    let seconds = series.iter().map(|one| one.seconds.len()).max()?;
    seconds.checked_sub(2)
}

fn series_view(series: &Series) -> SeriesView {
    let total = series.total();
    let mut seconds = Vec::new();
    for (number, second) in series.seconds.iter().enumerate() {
        seconds.push(SecondView {
            number: number + 1,
            served: second.served,
            throttled: second.throttled,
            ru: figures::grouped(second.ru),
        });
    }
    seconds.drain(..seconds.len().saturating_sub(SECONDS_SHOWN));
    SeriesView {
        label: series.label.clone(),
        served: figures::grouped(f64::from(total.served)),
        throttled: figures::grouped(f64::from(total.throttled)),
        failed: figures::grouped(f64::from(total.failed)),
        percent: figures::percent(series.throttled_percent() / 100.0),
        ru: figures::grouped(total.ru),
        seconds,
    }
}

fn container_view(container: &ContainerState, second: Option<usize>) -> ContainerView {
    let mut replaced = Vec::new();
    for partition in &container.replaced {
        let total = partition.total();
        replaced.push((
            partition.range.id.clone(),
            hash_range(&partition.range),
            figures::grouped(f64::from(total.served)),
        ));
    }
    ContainerView {
        name: container.name.clone(),
        key_path: container.key_path,
        throughput: figures::grouped(f64::from(container.ru_per_second)),
        share: figures::grouped(container.share()),
        picture: LoadPicture::of(container, second),
        replaced,
    }
}

/// Returns the result of an experiment that has ended.
fn conclusion(state: &LabState) -> String {
    let percent = |place: usize| match state.series.get(place) {
        Some(series) => series.throttled_percent(),
        None => 0.0,
    };
    let is_long_enough = state.series.iter().any(|series| series.seconds.len() > 2);
    if !is_long_enough {
        // The experiment was stopped before the load could show anything.
        return String::new();
    }
    let nothing_refused = percent(0) == 0.0;
    match state.experiment {
        Some(Experiment::HotKey) if nothing_refused => not_enforced(),
        Some(Experiment::HotKey) => format!(
            "{:.0} % of the requests on the hot key were refused with 429, and {:.0} % of those on \
             the key of another partition. More throughput for the container helps the hot key by \
             its partition's share only.",
            percent(0),
            percent(1)
        ),
        Some(Experiment::BadKey) if nothing_refused => not_enforced(),
        Some(Experiment::BadKey) => format!(
            "Partitioned by /type, {:.0} % of the requests were refused, because one value of the \
             key lies in one partition. Partitioned by /postId, {:.0} % of the same requests were.",
            percent(0),
            percent(1)
        ),
        Some(Experiment::Split) => {
            let total = state.series.first().map(Series::total).unwrap_or_default();
            format!(
                "{} requests were served before, during and after the split, and {} failed.",
                figures::grouped(f64::from(total.served)),
                total.failed
            )
        }
        Some(Experiment::FullKey | Experiment::Growth) | None => String::new(),
    }
}

fn not_enforced() -> String {
    "Nothing was refused: this server does not enforce the provisioned throughput. Start it with \
     --enforce-throughput on."
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_blog::BlogError;
    use orrery_blog::client::PartitionKeyRange;
    use orrery_blog::lesson::lab::{Fill, PartitionState, Second};

    fn html(state: &LabState) -> String {
        LabPart::of_state(state).render().expect("it renders")
    }

    fn loaded(phase: Phase) -> LabState {
        let second = Second {
            served: 8,
            throttled: 32,
            failed: 0,
            ru: 96.0,
        };
        let range = PartitionKeyRange {
            id: "0".to_owned(),
            min: String::new(),
            max: "FF".to_owned(),
            parents: Vec::new(),
        };
        let series = |label: &str, seconds: Vec<Second>| Series {
            label: label.to_owned(),
            seconds,
        };
        LabState {
            experiment: Some(Experiment::HotKey),
            phase,
            steps: vec!["The container was created.".to_owned()],
            series: vec![
                series("hot key", vec![second, second, second]),
                series("another key", vec![Second::default()]),
            ],
            containers: vec![ContainerState {
                link: String::new(),
                name: "hot".to_owned(),
                key_path: "/postId",
                ru_per_second: 400,
                partitions: vec![PartitionState {
                    range,
                    seconds: vec![second, second, second],
                    kilobytes: Some(12),
                }],
                replaced: Vec::new(),
            }],
            fill: None,
        }
    }

    #[test]
    fn a_lab_without_an_experiment_says_so_and_does_not_poll() {
        let html = html(&LabState::default());
        assert!(html.contains("No experiment has run yet") && !html.contains("data-poll"));
    }

    #[test]
    fn a_running_experiment_is_polled_and_shows_the_load() {
        let html = html(&loaded(Phase::Running));
        assert!(html.contains("data-poll=\"/lab/state\"") && html.contains("url(#hatch-hot-0)"));
        assert!(html.contains("The container was created."));
    }

    #[test]
    fn an_ended_experiment_has_a_conclusion() {
        let html = html(&loaded(Phase::Ended));
        assert!(
            html.contains("80 % of the requests on the hot key"),
            "{html}"
        );
        assert!(!html.contains("data-poll"));
        let mut calm = loaded(Phase::Ended);
        for series in &mut calm.series {
            for second in &mut series.seconds {
                second.throttled = 0;
            }
        }
        assert!(self::html(&calm).contains("--enforce-throughput on"));
    }

    #[test]
    fn a_failed_experiment_says_what_to_do() {
        let gone = BlogError::Unreachable {
            operation: "GET /".to_owned(),
            cause: "internal".to_owned(),
        };
        let html = html(&loaded(Phase::Failed(gone)));
        assert!(html.contains("does not answer") && !html.contains("internal"));
    }

    #[test]
    fn a_full_partition_shows_the_servers_refusal() {
        let state = LabState {
            fill: Some(Fill {
                bytes: 1 << 20,
                limit: 1 << 20,
                refusal: Some((403, 1014, "Partition key reached maximum size".to_owned())),
            }),
            ..loaded(Phase::Ended)
        };
        let html = html(&state);
        assert!(html.contains("403/1014") && html.contains("100 %"));
    }

    #[test]
    fn experiments_about_sizes_are_not_offered_with_the_limits_of_the_service() {
        let buttons = buttons(&LabOptions::default());
        assert_eq!(buttons.len(), Experiment::ALL.len());
        let fill = buttons.iter().find(|button| button.name == "full-key");
        let fill = fill.expect("a button");
        assert!(!fill.is_offered);
    }
}
