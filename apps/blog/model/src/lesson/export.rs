//! A comparison as CSV, as JSON and as a Markdown table.
//!
//! The first two have one row for each action and model, and one for each pipeline that a write
//! sets off. The table has the article's ten requests only.

use super::compare::{Cell, Comparison};
use serde_json::{Value, json};
use std::fmt::Write as _;

const HEADER: &str = "kind,action,model,pipeline,ru,ms_p50,partitions,requests,runs,\
                      article_ru,article_ms,note";

impl Comparison {
    /// Returns the figures as CSV (RFC 4180) with a header line.
    pub fn to_csv(&self) -> String {
        let mut csv = format!("{HEADER}\r\n");
        for cell in &self.cells {
            let (article_ms, article_ru) = match cell.article {
                Some((ms, ru)) => (ms.to_string(), ru.to_string()),
                None => (String::new(), String::new()),
            };
            // Writing to a string cannot fail.
            write!(
                csv,
                "action,{},{},,{:.2},{:.3},{},{},{},{article_ru},{article_ms},{}\r\n",
                cell.action,
                cell.model,
                cell.ru,
                cell.ms_p50,
                cell.partitions,
                cell.requests,
                cell.runs,
                quoted(cell.note.unwrap_or_default()),
            )
            .unwrap_or_default();
            for pipeline in &cell.pipelines {
                write!(
                    csv,
                    "pipeline,{},{},{},{:.2},{:.3},,{},1,,,\r\n",
                    cell.action,
                    cell.model,
                    pipeline.name,
                    pipeline.ru,
                    pipeline.ms,
                    pipeline.requests,
                )
                .unwrap_or_default();
            }
        }
        csv
    }

    /// Returns the figures of the article's requests as a Markdown table: one row for each request
    /// and model.
    pub fn to_markdown(&self) -> String {
        let mut table = String::from(
            "| Request | Model | RU | ms | Partitions | Article RU | Article ms |\n\
             |---|---|--:|--:|--:|--:|--:|\n",
        );
        for cell in &self.cells {
            let Some((article_ms, article_ru)) = cell.article else {
                continue;
            };
            // Writing to a string cannot fail.
            writeln!(
                table,
                "| {} {} | {} | {:.2} | {:.1} | {} | {article_ru:.2} | {article_ms} |",
                cell.action,
                cell.action.description(),
                cell.model,
                cell.ru,
                cell.ms_p50,
                cell.partitions,
            )
            .unwrap_or_default();
        }
        table
    }

    /// Returns the figures as JSON.
    pub fn to_json(&self) -> Value {
        let models: Vec<_> = self
            .models
            .iter()
            .map(|facts| {
                json!({
                    "model": facts.model.to_string(),
                    "partitions": {
                        "users": facts.partitions[0],
                        "posts": facts.partitions[1],
                        "feed": facts.partitions[2],
                    },
                    "bytes": {
                        "post": facts.sizes.post,
                        "comment": facts.sizes.comment,
                        "like": facts.sizes.like,
                        "shortPost": facts.sizes.short_post,
                    },
                    "postsWithName": facts.posts_with_name,
                    "pollRu": facts.poll_ru,
                })
            })
            .collect();
        json!({
            "at": self.at.to_string(),
            "seconds": self.seconds,
            "runs": self.runs,
            "probe": {"userId": self.probe.user, "postId": self.probe.post},
            "models": models,
            "cells": self.cells.iter().map(cell_to_json).collect::<Vec<_>>(),
        })
    }
}

fn cell_to_json(cell: &Cell) -> Value {
    let pipelines: Vec<_> = cell
        .pipelines
        .iter()
        .map(|pipeline| {
            json!({
                "name": pipeline.name,
                "ru": pipeline.ru,
                "ms": pipeline.ms,
                "requests": pipeline.requests,
                "written": pipeline.written,
            })
        })
        .collect();
    json!({
        "action": cell.action.to_string(),
        "description": cell.action.description(),
        "model": cell.model.to_string(),
        "ru": cell.ru,
        "varies": cell.varies,
        "totalRu": cell.price.total_ru(),
        "msP50": cell.ms_p50,
        "runs": cell.runs,
        "partitions": cell.partitions,
        "requests": cell.requests,
        "pipelines": pipelines,
        "articleMs": cell.article.map(|(ms, _)| ms),
        "articleRu": cell.article.map(|(_, ru)| ru),
        "note": cell.note,
    })
}

/// Quotes a field with a character that has a meaning in CSV.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a, b"), "\"a, b\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
