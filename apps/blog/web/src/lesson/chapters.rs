//! The chapters of the lesson as markup, without the frame of the page.

use super::comparison::explain;
use super::laboratory::{Button, LabPart, buttons};
use super::mix::{MixPart, Question, SliderGroup};
use super::parts::{self, Item};
use super::questions::{self, Answers, QuestionView};
use super::small_blog::{self, Fields, Picture};
use super::story::Story;
use super::trials::Elements;
use crate::bars;
use askama::Template;
use orrery_blog::lesson::Lab;
use orrery_blog::lesson::comparing::Status;
use serde_json::json;
use std::collections::HashMap;

/// A chapter in the table of contents.
pub(crate) struct Chapter {
    pub(crate) number: usize,
    pub(crate) title: &'static str,
    /// The subject in one sentence.
    pub(crate) about: &'static str,
}

/// The chapters in order.
pub(crate) const CHAPTERS: [Chapter; 8] = [
    Chapter {
        number: 1,
        title: "Where a key lands",
        about: "Type a key and see its partition. Each thing is stored once.",
    },
    Chapter {
        number: 2,
        title: "What a fan-out costs",
        about: "Send a query and watch every physical partition charge for it.",
    },
    Chapter {
        number: 3,
        title: "Counts by procedure",
        about: "Step through a transaction, and make it fail in the middle.",
    },
    Chapter {
        number: 4,
        title: "Names by change feed",
        about: "Copies that change a moment later.",
    },
    Chapter {
        number: 5,
        title: "A place for each list",
        about: "Lists in one partition, and why the feed is cut.",
    },
    Chapter {
        number: 6,
        title: "What it costs",
        about: "Whole prices of writes, your traffic, break-even and growth.",
    },
    Chapter {
        number: 7,
        title: "Break it",
        about: "A hot key, a split, a bad key and full partitions.",
    },
    Chapter {
        number: QUESTIONS_CHAPTER,
        title: "Five questions",
        about: "Predict, and let the database answer.",
    },
];

/// The chapter with the questions.
pub(crate) const QUESTIONS_CHAPTER: usize = 8;

/// The overview of the lesson.
#[derive(Template)]
#[template(path = "lesson/overview.html")]
pub(crate) struct Overview {
    pub(crate) toc: &'static [Chapter],
    /// The price of the front page in V1 and in V3.
    pub(crate) first: String,
    pub(crate) last: String,
    /// The picture at the beginning, as markup.
    pub(crate) opening: String,
}

/// The fields that forms of a browser contain.
#[derive(Default)]
pub(crate) struct FormFields {
    pub(crate) csrf: String,
    pub(crate) token: String,
    /// The reason for which the last form did nothing; empty if there is none.
    pub(crate) notice: String,
    /// The answers of this browser to the questions.
    pub(crate) answers: Answers,
    /// The trials of the chapter.
    pub(crate) trials: Elements,
}

/// The pictures of the lab's small blog as markup.
struct Pictures {
    names: String,
    feed: String,
    uncut: String,
    policies: String,
}

impl Pictures {
    fn of(lab: &Lab, form: &FormFields) -> Self {
        let results = lab.small_blog().results();
        let fields = Fields {
            csrf: form.csrf.clone(),
            token: form.token.clone(),
        };
        let picture = |picture| small_blog::rendered(picture, &results, &fields);
        Self {
            names: picture(Picture::Names),
            feed: picture(Picture::Feed),
            uncut: picture(Picture::Uncut),
            policies: picture(Picture::Policies),
        }
    }
}

/// One chapter.
#[derive(Template)]
#[template(path = "lesson/chapter.html")]
pub(crate) struct ChapterPart {
    toc: &'static [Chapter],
    number: usize,
    title: &'static str,
    before: Option<&'static Chapter>,
    after: Option<&'static Chapter>,
    story: Story,
    /// A sentence instead of the figures of this blog; empty once they are measured.
    progress: String,
    is_awaited: bool,
    growth: Vec<(String, String)>,
    groups: Vec<SliderGroup>,
    mix: String,
    lab: String,
    lab_database: String,
    buttons: Vec<Button>,
    pictures: Pictures,
    questions: Vec<QuestionView>,
    /// Right predictions, and answers.
    score: (usize, usize),
    csrf: String,
    token: String,
    notice: String,
    trials: Elements,
}

impl ChapterPart {
    /// Returns chapter `number`; `None` if there is no such chapter. `query` has the parameters of
    /// the URL, which chapter 6 reads.
    pub(crate) fn of(
        number: usize,
        status: &Status,
        lab: &Lab,
        query: &HashMap<String, String>,
        form: FormFields,
    ) -> Option<Self> {
        let place = number.checked_sub(1)?;
        let chapter = CHAPTERS.get(place)?;
        let question = Question::of(query);
        let comparison = status.last.clone();
        let answer = MixPart::of(&question, comparison.as_deref());
        let growth = answer.growth().to_vec();
        Some(Self {
            toc: &CHAPTERS,
            number,
            title: chapter.title,
            before: place.checked_sub(1).and_then(|place| CHAPTERS.get(place)),
            after: CHAPTERS.get(place + 1),
            progress: match (&comparison, status.is_awaited(), &status.failure) {
                (Some(_), _, _) => String::new(),
                (None, false, Some(failure)) => explain(failure).happened,
                (None, false, None) => "The models are measured on demand, see Compare.".to_owned(),
                (None, _, _) => bars::progress(status),
            },
            is_awaited: status.is_awaited(),
            story: Story { comparison },
            growth,
            groups: question.groups(),
            // A part that does not render leaves a gap, not an error page.
            mix: answer.render().unwrap_or_default(),
            lab: LabPart::of(lab).render().unwrap_or_default(),
            lab_database: lab.database().to_owned(),
            buttons: buttons(lab.options()),
            pictures: Pictures::of(lab, &form),
            questions: questions::views(
                lab.small_blog(),
                &form.answers,
                query.get("unanswered").map_or("", String::as_str),
            ),
            score: questions::score(&form.answers),
            csrf: form.csrf,
            token: form.token,
            notice: form.notice,
            trials: form.trials,
        })
    }
}

impl ChapterPart {
    /// Returns the title of the chapter.
    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    /// Returns the items of `posts` in a model as markup, with what is a copy marked.
    fn items(is_copied: bool) -> String {
        let mut post = json!({
            "id": "p-17",
            "type": "post",
            "postId": "p-17",
            "userId": "u-mira",
            "title": "Along the river before breakfast",
        });
        let mut comment = json!({
            "id": "c-4",
            "type": "comment",
            "postId": "p-17",
            "userId": "u-omar",
            "content": "Thank you, I walked it this morning.",
        });
        if is_copied {
            post["userUsername"] = "mira".into();
            post["commentCount"] = 2.into();
            post["likeCount"] = 9.into();
            comment["userUsername"] = "omar".into();
        }
        let user = json!({"id": "u-mira", "username": "mira"});
        let name = "username in users";
        let items = [
            Item::new("user in users", &user).html(),
            Item::new("post in posts", &post)
                .copy("userUsername", name)
                .copy("commentCount", "the number of comments")
                .copy("likeCount", "the number of likes")
                .html(),
            Item::new("comment in posts", &comment)
                .copy("userUsername", name)
                .html(),
        ];
        format!("<div class=\"items\">{}</div>", items.concat())
    }

    /// Returns the queries that count for a post of V1.
    fn count_query() -> String {
        parts::query(
            "SELECT VALUE COUNT(1) FROM c WHERE c.postId = @postId AND c.type = @type",
            &[
                ("@postId".to_owned(), "p-17".into()),
                ("@type".to_owned(), "comment".into()),
            ],
        )
    }

    /// Returns the element of a trial; empty if the chapter has none of this name.
    fn trial(&self, name: &str) -> &str {
        self.trials.get(name).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson::samples;
    use orrery_blog::Client;
    use orrery_blog::lesson::Comparison;
    use orrery_blog::lesson::lab::LabOptions;
    use std::sync::Arc;

    fn lab() -> Lab {
        let client = Client::new("http://127.0.0.1:9", "", 1).expect("a client");
        Lab::new(client, "blog", LabOptions::default())
    }

    fn html(number: usize, comparison: Option<Comparison>) -> String {
        let status = Status {
            last: comparison.map(Arc::new),
            is_watched: true,
            ..Status::default()
        };
        let form = FormFields::default();
        let part = ChapterPart::of(number, &status, &lab(), &HashMap::new(), form);
        part.expect("a chapter").render().expect("it renders")
    }

    #[test]
    fn every_chapter_has_an_exercise_and_renders_without_and_with_figures() {
        for chapter in &CHAPTERS {
            let without = html(chapter.number, None);
            let with = html(chapter.number, Some(samples::comparison()));
            for html in [&without, &with] {
                let has_exercise = html.contains("class=\"exercise");
                assert!(has_exercise, "{}", chapter.number);
                assert!(html.contains(&format!("<h1>{}</h1>", chapter.title)));
                // Every element that is opened is closed.
                for tag in ["div", "section", "details", "table", "ul", "form", "p"] {
                    let opened = html.matches(&format!("<{tag}>")).count()
                        + html.matches(&format!("<{tag} ")).count();
                    let closed = html.matches(&format!("</{tag}>")).count();
                    assert_eq!(opened, closed, "{tag} in chapter {}", chapter.number);
                }
            }
            assert!(without.contains("The models are being measured…"));
            assert!(!with.contains("being measured"), "{}", chapter.number);
        }
    }

    #[test]
    fn there_is_no_chapter_beyond_the_last() {
        let form = FormFields::default;
        for number in [0, CHAPTERS.len() + 1] {
            let part = ChapterPart::of(number, &Status::default(), &lab(), &HashMap::new(), form());
            assert!(part.is_none());
        }
    }

    #[test]
    fn the_whole_price_of_a_post_stands_beside_its_charge() {
        let html = html(6, Some(samples::comparison()));
        assert!(
            html.contains("<b>32.90 RU</b>"),
            "9.90 with copies of 9.50 and 13.50"
        );
    }
}
