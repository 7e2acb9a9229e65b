//! The report of a measurement: the article's table with the measured figures beside the published
//! ones, as text or JSON.

use crate::dataset::Totals;
use crate::models::{Model, Request};
use crate::options::{Format, Profile};
use serde_json::{Value, json};
use std::fmt::{self, Write as _};

/// One row: the figures of a request in a model, which are one cell of the article's table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The request.
    pub request: Request,
    /// The model.
    pub model: Model,
    /// Measured charge in RU, equal in all runs.
    pub ru: f64,
    /// Median of the measured latencies in milliseconds.
    pub ms_p50: f64,
    /// 99th percentile of the measured latencies in milliseconds.
    pub ms_p99: f64,
    /// Physical partitions that handled the request.
    pub partitions: usize,
    /// Number of requests to the database.
    pub requests: usize,
    /// Number of throttled attempts in all runs. Their waits are part of the latencies.
    pub throttled: usize,
    /// Charge in RU in the article.
    pub article_ru: f64,
    /// Latency in milliseconds in the article.
    pub article_ms: f64,
    /// Charge in RU that the published rules give for this data set.
    pub expected_ru: f64,
    /// Reason for which the article's figures cannot be compared directly.
    pub note: Option<&'static str>,
}

/// A write with its pipelines, or a part of that.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteRow {
    /// The write, or the part of it.
    pub name: String,
    /// The model.
    pub model: Model,
    /// Mean charge in RU.
    pub ru: f64,
    /// Median and 99th percentile in milliseconds: of a write its latency, of a write with its
    /// pipelines the delivery time. `None` for a part.
    pub ms: Option<(f64, f64)>,
    /// Number of writes.
    pub runs: usize,
}

/// The copies that pipelines have written after loading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopySummary {
    /// Number of changes read from the feeds.
    pub changes: u64,
    /// Number of items written.
    pub written: u64,
    /// Charge in RU of the feeds and the reactions.
    pub ru: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Ranges of all feeds. Each costs 1 RU for each empty page.
    pub ranges: usize,
}

/// The result of loading one model.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSummary {
    /// The model.
    pub model: Model,
    /// Number of items created.
    pub items: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of physical partitions of `posts`.
    pub partitions: usize,
    /// The work of the pipelines, if they were measured.
    pub copied: Option<CopySummary>,
}

/// A finished measurement. [`fmt::Display`] writes it in the chosen format.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The output format.
    pub format: Format,
    /// The prices that the server charges, according to the options.
    pub profile: Profile,
    /// Size of the data set; 1 is the size in the article.
    pub scale: f64,
    /// Numbers of entities in the data set.
    pub totals: Totals,
    /// The result of loading each model.
    pub loaded: Vec<LoadSummary>,
    /// The rows, sorted by request and then by model.
    pub rows: Vec<Row>,
    /// Writes with their pipelines, in the order of the models. Empty unless they were measured.
    pub writes: Vec<WriteRow>,
}

impl Report {
    /// Returns the rows as a JSON array, those of writes with their pipelines last.
    pub fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(row_to_json);
        rows.chain(self.writes.iter().map(write_to_json)).collect()
    }

    /// Returns the aligned table with the size of the data set above and the notes below.
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        self.write_table(&mut out).unwrap_or_default();
        out
    }

    fn write_table(&self, out: &mut String) -> fmt::Result {
        self.write_data_set(out)?;
        writeln!(out)?;
        let notes = self.write_rows(out)?;
        self.write_writes(out)?;
        if !notes.is_empty() {
            writeln!(out)?;
        }
        for (number, note) in notes.iter().enumerate() {
            writeln!(out, "[{}] {note}", number + 1)?;
        }
        self.write_partitions(out)?;
        self.write_cautions(out)
    }

    /// Writes the numbers of entities and the result of loading each model.
    fn write_data_set(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "{} users, {} posts, {} comments, {} likes (scale {})",
            grouped(self.totals.users),
            grouped(self.totals.posts),
            grouped(self.totals.comments),
            grouped(self.totals.likes),
            self.scale
        )?;
        for loaded in &self.loaded {
            let rate = (loaded.items as f64 / loaded.seconds.max(1e-3)) as u64;
            writeln!(
                out,
                "{}: {} items loaded in {:.1} s ({}/s); posts on {} partitions",
                loaded.model,
                grouped(loaded.items),
                loaded.seconds,
                grouped(rate),
                loaded.partitions
            )?;
            if let Some(copied) = loaded.copied {
                writeln!(
                    out,
                    "{}: {} items written by pipelines after {} changes in {:.1} s, {} RU",
                    loaded.model,
                    grouped(copied.written),
                    grouped(copied.changes),
                    copied.seconds,
                    grouped(copied.ru as u64)
                )?;
            }
        }
        Ok(())
    }

    /// Writes the rows of writes with their pipelines.
    fn write_writes(&self, out: &mut String) -> fmt::Result {
        if self.writes.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        writeln!(
            out,
            "{:<30}{:<5}{:>9} {:>8}{:>8} {:>7}",
            "writes with their pipelines", "model", "mean RU", "ms p50", "p99", "writes"
        )?;
        for row in &self.writes {
            write!(out, "{:<30}{:<5}{:>9.2} ", row.name, row.model, row.ru)?;
            match row.ms {
                Some((p50, p99)) => write!(out, "{p50:>8.2}{p99:>8.2}")?,
                None => write!(out, "{:>8}{:>8}", "", "")?,
            }
            writeln!(out, " {:>7}", row.runs)?;
        }
        for loaded in &self.loaded {
            if let Some(copied) = loaded.copied {
                writeln!(
                    out,
                    "{}: the pipelines read {} ranges, at 1 RU for each empty page.",
                    loaded.model, copied.ranges
                )?;
            }
        }
        Ok(())
    }

    /// Writes the header and the rows, with an empty line between requests. Returns the notes, to
    /// which the rows refer by number.
    fn write_rows(&self, out: &mut String) -> Result<Vec<&'static str>, fmt::Error> {
        let prices = match self.profile {
            Profile::Y2019 => "RU (prices of 2019)",
            Profile::Modern => "RU (prices of today)",
        };
        writeln!(
            out,
            "{:32}{prices:^27} {:^25} {:>10}",
            "", "ms", "partitions"
        )?;
        writeln!(
            out,
            "{:<26}{:<6}{:>9}{:>9}{:>9} {:>8}{:>8}{:>9} {:>10}",
            "request",
            "model",
            "measured",
            "article",
            "expected",
            "p50",
            "p99",
            "article",
            "queried"
        )?;

        let mut notes = Vec::new();
        let mut previous = None;
        for row in &self.rows {
            if previous.is_some_and(|request| request != row.request) {
                writeln!(out)?;
            }
            previous = Some(row.request);
            write!(
                out,
                "{:<3}{:<23}{:<6}{:>9.2}{:>9.2}{:>9.2} ",
                row.request,
                row.request.purpose(),
                row.model,
                row.ru,
                row.article_ru,
                row.expected_ru
            )?;
            write!(
                out,
                "{:>8.2}{:>8.2}{:>9.0} {:>10}",
                row.ms_p50, row.ms_p99, row.article_ms, row.partitions
            )?;
            if let Some(note) = row.note {
                // Equal notes share one number.
                if !notes.contains(&note) {
                    notes.push(note);
                }
                let number = notes.iter().take_while(|known| **known != note).count() + 1;
                write!(out, " [{number}]")?;
            }
            if row.throttled > 0 {
                write!(out, " (throttled {} times)", row.throttled)?;
            }
            writeln!(out)?;
        }
        Ok(notes)
    }

    /// Explains requests that ask more partitions than `posts` has.
    fn write_partitions(&self, out: &mut String) -> fmt::Result {
        let posts_partitions = |model| {
            let mut loaded = self.loaded.iter();
            let summary = loaded.find(|summary| summary.model == model);
            summary.map_or(usize::MAX, |summary| summary.partitions)
        };
        let beyond = |row: &&Row| row.partitions > posts_partitions(row.model);
        let Some(row) = self.rows.iter().find(beyond) else {
            return Ok(());
        };
        writeln!(
            out,
            "Partitions are those of all containers that a request asks: {} of {} asks {} of posts \
             and {} of users.",
            row.request,
            row.model,
            posts_partitions(row.model),
            row.partitions - posts_partitions(row.model)
        )
    }

    /// Writes the conditions under which the measured figures differ from the article's.
    fn write_cautions(&self, out: &mut String) -> fmt::Result {
        if self.profile == Profile::Modern {
            writeln!(
                out,
                "The article's charges are of 2019, when queries cost several times today's price \
                 per item."
            )?;
        }

        // Q6 requests ten posts of each partition. With a mean below 15, too many partitions have
        // fewer than ten.
        let partitions_max = self.loaded.iter().map(|loaded| loaded.partitions).max();
        let posts_min = 15 * partitions_max.unwrap_or(0) as u64;
        if self.totals.posts < posts_min {
            writeln!(
                out,
                "With fewer than {} posts, Q6 of V1 and V2 is cheaper than the article's.",
                grouped(posts_min)
            )?;
        }

        let article_partitions = 64..=68;
        let mut partitions = self.loaded.iter().map(|loaded| loaded.partitions);
        if partitions.any(|count| !article_partitions.contains(&count)) {
            writeln!(
                out,
                "The article's Q3 and Q6 imply 64 to 68 physical partitions of posts in V1 and V2."
            )?;
        }
        Ok(())
    }
}

fn row_to_json(row: &Row) -> Value {
    json!({
        "request": row.request.to_string(),
        "purpose": row.request.purpose(),
        "model": row.model.to_string(),
        "ru": row.ru,
        "ms_p50": whole_nanoseconds(row.ms_p50),
        "ms_p99": whole_nanoseconds(row.ms_p99),
        "partitions": row.partitions,
        "requests": row.requests,
        "throttled": row.throttled,
        "article_ru": row.article_ru,
        "article_ms": row.article_ms,
        "expected_ru": (row.expected_ru * 100.0).round() / 100.0,
        "note": row.note,
    })
}

fn write_to_json(row: &WriteRow) -> Value {
    json!({
        "write": row.name,
        "model": row.model.to_string(),
        "ru": (row.ru * 100.0).round() / 100.0,
        "ms_p50": row.ms.map(|ms| whole_nanoseconds(ms.0)),
        "ms_p99": row.ms.map(|ms| whole_nanoseconds(ms.1)),
        "runs": row.runs,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            Format::Table => f.write_str(&self.to_table()),
            Format::Json => write!(f, "{:#}", self.to_json()),
        }
    }
}

/// Returns milliseconds without the digits that only arithmetic adds.
fn whole_nanoseconds(ms: f64) -> f64 {
    (ms * 1e6).round() / 1e6
}

/// Returns a number with commas between groups of three digits: 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
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
            expected_ru: 202.584,
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
            loaded: vec![LoadSummary {
                model: Model::V2,
                items: 1_747_250,
                seconds: 100.0,
                partitions: 67,
                copied: None,
            }],
            writes: vec![],
            rows: vec![
                row(Request::C1, Model::V3, 6.67, Some("carried over")),
                row(Request::C2, Model::V3, 9.9, Some("carried over")),
                row(Request::Q3, Model::V2, 202.5, None),
            ],
        }
    }

    #[test]
    fn the_table_is_aligned_and_followed_by_its_notes() {
        let expected = "\
1,000 users, 27,500 posts, 343,750 comments, 1,375,000 likes (scale 0.01)
V2: 1,747,250 items loaded in 100.0 s (17,472/s); posts on 67 partitions

                                    RU (prices of 2019)                ms             partitions
request                   model  measured  article expected      p50     p99  article    queried
C1 create a user          V3         6.67   201.54   202.58     0.42   12.50       28         67 [1]

C2 create a post          V3         9.90   201.54   202.58     0.42   12.50       28         67 [1]

Q3 list a user's posts    V2       202.50   201.54   202.58     0.42   12.50       28         67

[1] carried over
";
        let table = report(Format::Table).to_string();
        assert_eq!(table, expected, "\n{table}");
    }

    #[test]
    fn json_has_one_object_for_each_row_with_the_documented_names() {
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
            "expected_ru",
        ];
        assert!(names.iter().all(|name| !rows[2][*name].is_null()), "{text}");
        assert_eq!(
            (&rows[2]["request"], &rows[2]["ru"], &rows[2]["expected_ru"]),
            (&json!("Q3"), &json!(202.5), &json!(202.58))
        );
    }

    #[test]
    fn writes_with_their_pipelines_stand_below_the_table() {
        let mut report = report(Format::Table);
        let row = |name: &str, ru, ms| WriteRow {
            name: name.into(),
            model: Model::V3,
            ru,
            ms,
            runs: 200,
        };
        report.writes = vec![
            row("C2", 9.9, Some((0.5, 1.25))),
            row("+ copyToFeed", 16.123, None),
        ];
        report.loaded[0].copied = Some(CopySummary {
            changes: 5_500,
            written: 5_600,
            ru: 12_345.6,
            seconds: 2.0,
            ranges: 77,
        });
        let table = report.to_table();
        let expected = "
writes with their pipelines   model  mean RU   ms p50     p99  writes
C2                            V3        9.90     0.50    1.25     200
+ copyToFeed                  V3       16.12                      200
V2: the pipelines read 77 ranges, at 1 RU for each empty page.
";
        assert!(table.contains(expected), "{table}");
        let summary =
            "V2: 5,600 items written by pipelines after 5,500 changes in 2.0 s, 12,345 RU";
        assert!(table.lines().any(|line| line == summary), "{table}");
        let json = report.to_json();
        assert_eq!(
            (&json[4]["write"], &json[4]["ru"], &json[4]["ms_p50"]),
            (&json!("+ copyToFeed"), &json!(16.12), &Value::Null)
        );
    }

    #[test]
    fn a_request_that_asks_more_partitions_than_posts_has_is_explained() {
        let mut report = report(Format::Table);
        assert!(!report.to_table().contains("Partitions are those"));
        report.rows[2].partitions = 68;
        let sentence = "Partitions are those of all containers that a request asks: \
                        Q3 of V2 asks 67 of posts and 1 of users.\n";
        let table = report.to_table();
        assert!(table.ends_with(sentence), "{table}");
    }

    #[test]
    fn the_report_warns_of_too_few_posts_or_partitions() {
        let mut report = report(Format::Table);
        report.totals.posts = 550;
        assert!(report.to_table().ends_with(
            "With fewer than 1,005 posts, Q6 of V1 and V2 is cheaper than the article's.\n"
        ));
        report.loaded[0].partitions = 1;
        assert!(
            report
                .to_table()
                .ends_with("imply 64 to 68 physical partitions of posts in V1 and V2.\n")
        );
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!(
            [0, 999, 1_000, 12_345_678].map(grouped),
            ["0", "999", "1,000", "12,345,678"]
        );
    }
}
