//! The five questions at the end of the lesson. A reader predicts, the real thing runs, and the
//! answer says why with the measured figures.
//!
//! Answers belong to a browser's secret and are kept in memory for the visit only.

use super::comparison::{Failure, explain};
use super::figures;
use orrery_blog::BlogError;
use orrery_blog::lesson::lab::small_blog::{Measured, SmallBlog, Trial};
use std::collections::BTreeMap;

/// The answers of one browser.
pub(crate) type Answers = BTreeMap<Trial, Answer>;

/// A prediction with what was measured.
#[derive(Clone)]
pub(crate) struct Answer {
    /// The value of the chosen field.
    pub(crate) prediction: String,
    pub(crate) measured: Result<Measured, BlogError>,
}

/// A question as the page shows it.
pub(crate) struct QuestionView {
    pub(crate) name: String,
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    pub(crate) choices: Vec<ChoiceView>,
    /// The label of the number field; empty for a question with choices.
    pub(crate) number_label: &'static str,
    /// The number that was typed.
    pub(crate) number: String,
    /// The reason for which the question is not offered here; empty if it is.
    pub(crate) not_offered: &'static str,
    pub(crate) is_unanswered: bool,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) failure: Option<Failure>,
}

pub(crate) struct ChoiceView {
    pub(crate) value: &'static str,
    pub(crate) label: &'static str,
    pub(crate) is_chosen: bool,
}

/// The comparison of a prediction with the measurement.
pub(crate) struct Verdict {
    pub(crate) is_right: bool,
    /// The measured answer in words, with its figures.
    pub(crate) words: String,
    /// The reason.
    pub(crate) reason: &'static str,
    /// The two requests: label, RU, width of the bar.
    pub(crate) bars: Vec<(&'static str, String, String)>,
}

/// A question.
struct Question {
    trial: Trial,
    title: &'static str,
    text: &'static str,
    choices: &'static [(&'static str, &'static str)],
    number_label: &'static str,
    reason: &'static str,
    /// Labels of the two requests that are measured.
    requests: (&'static str, &'static str),
}

const QUESTIONS: [Question; 5] = [
    Question {
        trial: Trial::FanOut,
        title: "All posts of one user",
        text: "The lab's posts are partitioned by /postId and lie in four physical partitions. A \
               query asks for the posts of one user. Which number of partitions answers?",
        choices: &[("1", "one"), ("2", "two"), ("4", "all four")],
        number_label: "",
        reason: "The query does not name the partition key, so the user's posts may lie anywhere. \
                 The copies in users are together under /userId: one partition answers.",
        requests: ("from posts, by postId", "from users, by userId"),
    },
    Question {
        trial: Trial::PointRead,
        title: "One item, two ways",
        text: "A user is read by id and partition key for one price. The same user is found by a \
               query that names the same key. What does the query cost?",
        choices: &[
            ("less", "less than the read"),
            ("same", "the same"),
            ("few", "two to five times as much"),
            ("many", "more than five times as much"),
        ],
        number_label: "",
        reason: "A query is parsed, planned and looks into the index before it loads the item. A \
                 read by id and key goes straight to it.",
        requests: ("query", "read by id and key"),
    },
    Question {
        trial: Trial::Again,
        title: "A change that comes twice",
        text: "updateUsernames gives an item a new name. Then the change feed delivers the same \
               change again, and the procedure runs a second time. It changes some number of \
                 items.",
        choices: &[],
        number_label: "Items changed by the second run",
        reason: "The procedure asks for items with another name and finds none. A pipeline may \
                 therefore repeat a change at any time; the repetition costs little.",
        requests: ("second run", "first run"),
    },
    Question {
        trial: Trial::FullFeed,
        title: "The hundred and first post",
        text: "The feed is full, and a copy is written with the trigger truncateFeed. The same \
               copy \
               is written to a feed without a trigger. The write with the trigger costs",
        choices: &[
            ("same", "the same"),
            ("double", "up to three times as much"),
            ("more", "more than three times as much"),
        ],
        number_label: "",
        reason: "In the same transaction the trigger counts the posts, finds the oldest and \
               deletes \
                 it. The price is paid once for each post, and every reader of the front page \
                 saves.",
        requests: ("with the trigger", "without"),
    },
    Question {
        trial: Trial::FullKey,
        title: "The key beside a full one",
        text: "One logical partition is filled until the server refuses. Another key \
               lies in the same physical partition. A write to that key is",
        choices: &[("refused", "refused as well"), ("accepted", "accepted")],
        number_label: "",
        reason: "The limit counts the bytes of one value of the key. The physical partition has \
                 room, and would be split if it had none.",
        requests: ("the refused write", "the write to the other key"),
    },
];

/// Returns the questions with the answers of a browser. `unanswered` is the name of a trial that
/// was sent without a prediction.
pub(crate) fn views(blog: &SmallBlog, answers: &Answers, unanswered: &str) -> Vec<QuestionView> {
    let mut views = Vec::new();
    for question in &QUESTIONS {
        let answer = answers.get(&question.trial);
        let chosen = answer.map_or("", |answer| answer.prediction.as_str());
        let choices = question.choices.iter().map(|(value, label)| ChoiceView {
            value,
            label,
            is_chosen: *value == chosen,
        });
        let name = question.trial.to_string();
        views.push(QuestionView {
            is_unanswered: name == unanswered,
            name,
            title: question.title,
            text: question.text,
            choices: choices.collect(),
            number_label: question.number_label,
            number: chosen.to_owned(),
            not_offered: match blog.offers(question.trial) {
                true => "",
                false => {
                    "This server is not the blog's own, and its limits are those of the service: \
                     to fill 20 GB would take days. Start orrery blog without --endpoint to try."
                }
            },
            verdict: answer.and_then(|answer| verdict(question, answer)),
            failure: answer.and_then(|answer| answer.measured.as_ref().err().map(explain)),
        });
    }
    views
}

/// Returns the number of right predictions and of answers.
pub(crate) fn score(answers: &Answers) -> (usize, usize) {
    let measured = answers.iter().filter_map(|(trial, answer)| {
        let measured = answer.measured.as_ref().ok()?;
        Some(is_right(*trial, &answer.prediction, measured))
    });
    let results: Vec<bool> = measured.collect();
    let right = results.iter().filter(|is_right| **is_right).count();
    (right, results.len())
}

/// Returns true if a prediction can be compared: one of the choices, or a number.
pub(crate) fn is_prediction(trial: Trial, text: &str) -> bool {
    let question = QUESTIONS.iter().find(|question| question.trial == trial);
    question.is_some_and(|question| match question.choices {
        [] => text.parse::<u32>().is_ok(),
        choices => choices.iter().any(|(value, _)| *value == text),
    })
}

/// Compares a prediction with the measurement.
fn is_right(trial: Trial, prediction: &str, measured: &Measured) -> bool {
    prediction == right_answer(trial, measured.number)
}

/// Returns the value of the right choice, or the right number.
fn right_answer(trial: Trial, number: f64) -> String {
    let text = match trial {
        Trial::FanOut | Trial::Again => return format!("{number:.0}"),
        Trial::PointRead if number < 0.9 => "less",
        Trial::PointRead if number < 1.5 => "same",
        Trial::PointRead if number <= 5.0 => "few",
        Trial::PointRead => "many",
        Trial::FullFeed if number < 1.1 => "same",
        Trial::FullFeed if number <= 3.0 => "double",
        Trial::FullFeed => "more",
        Trial::FullKey => "accepted",
    };
    text.to_owned()
}

fn verdict(question: &Question, answer: &Answer) -> Option<Verdict> {
    let measured = answer.measured.as_ref().ok()?;
    let (first, second) = (measured.first.ru.ru(), measured.second.ru.ru());
    let longest = first.max(second);
    let bar = |label, ru| (label, figures::exact_ru(ru), figures::bar(ru, longest));
    Some(Verdict {
        is_right: is_right(question.trial, &answer.prediction, measured),
        words: answer_words(question.trial, measured),
        reason: question.reason,
        bars: vec![
            bar(question.requests.0, first),
            bar(question.requests.1, second),
        ],
    })
}

fn answer_words(trial: Trial, measured: &Measured) -> String {
    let number = figures::plain(measured.number);
    match trial {
        Trial::FanOut => format!("{number} partitions answered."),
        Trial::PointRead => format!("The query cost {number} times as much."),
        Trial::Again => format!("The second run changed {number} items."),
        Trial::FullFeed => format!(
            "The write with the trigger cost {number} times as much, and the feed has {} posts.",
            measured.message
        ),
        Trial::FullKey => format!(
            "The other key accepted the write. The full partition refused: “{}”.",
            figures::server_words(&measured.message)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_blog::Measurement;

    fn measured(number: f64) -> Measured {
        Measured {
            number,
            first: Measurement::default(),
            second: Measurement::default(),
            message: String::new(),
        }
    }

    #[test]
    fn every_trial_has_one_question_and_its_right_answer_is_a_prediction() {
        for trial in Trial::ALL {
            let of = QUESTIONS.iter().filter(|question| question.trial == trial);
            assert_eq!(of.count(), 1);
            for number in [0.0, 1.0, 2.0, 4.0, 9.0] {
                let is_possible = trial != Trial::FanOut || [1.0, 2.0, 4.0].contains(&number);
                let right = right_answer(trial, number);
                assert!(
                    !is_possible || is_prediction(trial, &right),
                    "{trial} {right}"
                );
            }
            assert!(!is_prediction(trial, "") && !is_prediction(trial, "-1"));
        }
    }

    #[test]
    fn the_score_counts_measured_answers_only() {
        let answer = |prediction: &str, measured| Answer {
            prediction: prediction.to_owned(),
            measured,
        };
        let gone = BlogError::Unreachable {
            operation: String::new(),
            cause: String::new(),
        };
        let answers = Answers::from([
            (Trial::FanOut, answer("4", Ok(measured(4.0)))),
            (Trial::Again, answer("3", Ok(measured(0.0)))),
            (Trial::FullKey, answer("accepted", Err(gone))),
        ]);
        assert_eq!(score(&answers), (1, 2));
    }
}
