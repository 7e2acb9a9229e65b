//! The report: the article's table with our figures beside its own, for a person or as JSON.

use crate::bench::{Format, Profile};
use crate::dataset::Totals;
use crate::models::{Model, Request};
use serde_json::{Value, json};
use std::fmt::{self, Write as _};

/// One cell of the article's table: a request under a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The request.
    pub request: Request,
    /// The model.
    pub model: Model,
    /// Our charge in RU, the same on every run.
    pub ru: f64,
    /// Our latency in milliseconds: half of all runs took no longer.
    pub ms_p50: f64,
    /// Our latency in milliseconds: 99 % of all runs took no longer.
    pub ms_p99: f64,
    /// Physical partitions asked.
    pub partitions: usize,
    /// Requests to the database.
    pub requests: usize,
    /// Attempts that were throttled, over all runs; their waiting is part of the latencies.
    pub throttled: usize,
    /// The article's charge.
    pub article_ru: f64,
    /// The article's latency in milliseconds.
    pub article_ms: f64,
    /// The charge that the published rules give for this data set.
    pub model_ru: f64,
    /// Why the article's figures cannot be compared as they stand.
    pub note: Option<&'static str>,
}

/// How the loading of one model went.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// Items created.
    pub items: u64,
    /// Time it took.
    pub seconds: f64,
    /// Physical partitions of `posts`.
    pub partitions: usize,
}

/// A finished measurement. It displays itself in the format that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How [`Report`] displays itself.
    pub format: Format,
    /// The prices that the server was said to charge.
    pub profile: Profile,
    /// Size of the data set; 1 is the article's.
    pub scale: f64,
    /// Numbers of entities.
    pub totals: Totals,
    /// Loading, per model.
    pub loaded: Vec<Loaded>,
    /// The cells, by request and then model.
    pub rows: Vec<Row>,
}

impl Report {
    /// The rows as a JSON array.
    pub fn to_json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "request": row.request.to_string(), "model": row.model.to_string(), "ru": row.ru,
                "ms_p50": row.ms_p50, "ms_p99": row.ms_p99, "partitions": row.partitions, "requests": row.requests,
                "throttled": row.throttled, "article_ru": row.article_ru, "article_ms": row.article_ms,
                "model_ru": (row.model_ru * 100.0).round() / 100.0, "note": row.note,
            })
        };
        self.rows.iter().map(row).collect()
    }

    /// The aligned table with what it was measured on, and the notes below.
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        self.write_table(&mut out).unwrap_or_default();
        out
    }

    fn write_table(&self, out: &mut String) -> fmt::Result {
        let Totals {
            users,
            posts,
            comments,
            likes,
        } = self.totals;
        writeln!(
            out,
            "{} users, {} posts, {} comments, {} likes (scale {})",
            grouped(users),
            grouped(posts),
            grouped(comments),
            grouped(likes),
            self.scale
        )?;
        for Loaded {
            model,
            items,
            seconds,
            partitions,
        } in &self.loaded
        {
            let rate = grouped((*items as f64 / seconds.max(1e-3)) as u64);
            let items = grouped(*items);
            writeln!(
                out,
                "{model}: {items} items loaded in {seconds:.1} s ({rate}/s); posts on {partitions} partitions"
            )?;
        }
        let year = if self.profile == Profile::Y2019 {
            "prices of 2019"
        } else {
            "prices of today"
        };
        writeln!(out)?;
        writeln!(
            out,
            "{:13}{:^29} {:^26} {:>10}",
            "",
            format!("RU ({year})"),
            "ms",
            "partitions"
        )?;
        writeln!(
            out,
            "{:<8}{:<5}{:>9}{:>10}{:>10} {:>8}{:>8}{:>10} {:>10}",
            "request", "model", "ours", "article", "model", "p50", "p99", "article", "asked"
        )?;
        let mut notes: Vec<&str> = Vec::new();
        let mut before = None;
        for row in &self.rows {
            if before.is_some_and(|request| request != row.request) {
                writeln!(out)?;
            }
            before = Some(row.request);
            write!(
                out,
                "{:<8}{:<5}{:>9.2}{:>10.2}{:>10.2} ",
                row.request, row.model, row.ru, row.article_ru, row.model_ru
            )?;
            write!(
                out,
                "{:>8.2}{:>8.2}{:>10.0} {:>10}",
                row.ms_p50, row.ms_p99, row.article_ms, row.partitions
            )?;
            if let Some(note) = row.note {
                let number = notes
                    .iter()
                    .position(|known| *known == note)
                    .unwrap_or(notes.len());
                if number == notes.len() {
                    notes.push(note);
                }
                write!(out, " [{}]", number + 1)?;
            }
            if row.throttled > 0 {
                write!(out, " (throttled {} times)", row.throttled)?;
            }
            writeln!(out)?;
        }
        if !notes.is_empty() {
            writeln!(out)?;
        }
        for (number, note) in notes.iter().enumerate() {
            writeln!(out, "[{}] {note}", number + 1)?;
        }
        if self.profile == Profile::Modern {
            writeln!(
                out,
                "The article's charges are of 2019, when queries paid several times today's price per item."
            )?;
        }
        // Below this, too many partitions have fewer than the ten posts that Q6 asks each of them for.
        let fewest = 15
            * self
                .loaded
                .iter()
                .map(|loaded| loaded.partitions as u64)
                .max()
                .unwrap_or(0);
        if self.totals.posts < fewest {
            writeln!(
                out,
                "With fewer than {} posts, Q6 of V1 and V2 is cheaper than the article's.",
                grouped(fewest)
            )?;
        }
        if self
            .loaded
            .iter()
            .any(|loaded| !(64..=68).contains(&loaded.partitions))
        {
            writeln!(
                out,
                "The article's Q3 and Q6 suppose 64 to 68 physical partitions of posts in V1 and V2."
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            Format::Table => f.write_str(&self.to_table()),
            Format::Json => write!(f, "{:#}", self.to_json()),
        }
    }
}

/// A number with its thousands apart: 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(format: Format) -> Report {
        let row = |request, model, ru, note| Row {
            request,
            model,
            ru,
            ms_p50: 0.417,
            ms_p99: 12.5,
            partitions: 67,
            requests: 67,
            throttled: 0,
            article_ru: 201.54,
            article_ms: 28.0,
            model_ru: 202.584,
            note,
        };
        Report {
            format,
            profile: Profile::Y2019,
            scale: 0.01,
            totals: Totals {
                users: 1_000,
                posts: 27_500,
                comments: 343_750,
                likes: 1_375_000,
            },
            loaded: vec![Loaded {
                model: Model::V2,
                items: 1_747_250,
                seconds: 100.0,
                partitions: 67,
            }],
            rows: vec![
                row(Request::C1, Model::V3, 6.67, Some("carried over")),
                row(Request::C2, Model::V3, 9.9, Some("carried over")),
                row(Request::Q3, Model::V2, 202.5, None),
            ],
        }
    }

    #[test]
    fn the_table_is_aligned_and_its_notes_stand_below() {
        let expected = "\
1,000 users, 27,500 posts, 343,750 comments, 1,375,000 likes (scale 0.01)
V2: 1,747,250 items loaded in 100.0 s (17,472/s); posts on 67 partitions

                  RU (prices of 2019)                  ms             partitions
request model     ours   article     model      p50     p99   article      asked
C1      V3        6.67    201.54    202.58     0.42   12.50        28         67 [1]

C2      V3        9.90    201.54    202.58     0.42   12.50        28         67 [1]

Q3      V2      202.50    201.54    202.58     0.42   12.50        28         67

[1] carried over
";
        let table = report(Format::Table).to_string();
        assert_eq!(table, expected, "\n{table}");
    }

    #[test]
    fn json_has_one_object_per_cell_with_the_names_that_scripts_rely_on() {
        let text = report(Format::Json).to_string();
        let rows: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(rows.as_array().map(Vec::len), Some(3));
        let names = [
            "request",
            "model",
            "ru",
            "ms_p50",
            "ms_p99",
            "partitions",
            "article_ru",
            "article_ms",
            "model_ru",
        ];
        assert!(names.iter().all(|name| !rows[2][*name].is_null()), "{text}");
        assert_eq!(
            (&rows[2]["request"], &rows[2]["ru"], &rows[2]["model_ru"]),
            (&json!("Q3"), &json!(202.5), &json!(202.58))
        );
    }

    #[test]
    fn a_data_set_too_small_for_the_front_page_is_said_to_be() {
        let mut report = report(Format::Table);
        report.totals.posts = 550;
        assert!(report.to_table().ends_with(
            "With fewer than 1,005 posts, Q6 of V1 and V2 is cheaper than the article's.\n"
        ));
        report.loaded[0].partitions = 1;
        assert!(
            report
                .to_table()
                .ends_with("suppose 64 to 68 physical partitions of posts in V1 and V2.\n")
        );
    }

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!(
            [0, 999, 1_000, 12_345_678].map(grouped),
            ["0", "999", "1,000", "12,345,678"]
        );
    }
}
