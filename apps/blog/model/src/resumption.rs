//! The measurement of one model, kept in its database so that an interrupted run can be resumed.
//!
//! An item beside the load state has three forms:
//!
//! | item | meaning for a run that resumes |
//! |---|---|
//! | absent | loading continues |
//! | begun | measured writes have changed the data: the database is of no use |
//! | finished, with the same options | the figures are taken over |

use crate::article;
use crate::load::state_link;
use crate::meter::Meter;
use crate::models::{Blog, Request};
use crate::options::Options;
use crate::report::{CopySummary, LoadSummary, Row, WriteRow};
use crate::{BlogError, Model};
use serde_json::{Value, json};

/// Id and partition key of the item.
const ID: &str = "measurement";

/// The figures of one model.
pub(crate) struct Measured {
    pub(crate) loaded: LoadSummary,
    pub(crate) rows: Vec<Row>,
    pub(crate) writes: Vec<WriteRow>,
}

/// The state that an interrupted run has left.
pub(crate) enum Resumption {
    /// No measurement has begun.
    NotMeasured,
    /// The measurement is complete.
    Finished(Measured),
    /// A measurement has begun, or was made with other options.
    Unusable,
}

/// Reads what an interrupted run has left in the database of a model.
///
/// # Errors
/// Every error of a request other than a missing database or item.
pub(crate) async fn read(blog: &Blog, options: &Options) -> Result<Resumption, BlogError> {
    let link = state_link(blog);
    let item = match blog.client.read(&Meter::new(), &link, ID, ID).await {
        Err(e) if e.is_not_found() => return Ok(Resumption::NotMeasured),
        read => read?,
    };
    if item["options"] != identity(options) {
        return Ok(Resumption::Unusable);
    }
    match measured_from_json(blog.model, &item) {
        Some(measured) => Ok(Resumption::Finished(measured)),
        None => Ok(Resumption::Unusable),
    }
}

/// Records that measured writes may change the data from now on.
pub(crate) async fn begin(blog: &Blog) -> Result<(), BlogError> {
    store(blog, &json!({"id": ID})).await
}

/// Records the figures.
pub(crate) async fn finish(
    blog: &Blog,
    options: &Options,
    measured: &Measured,
) -> Result<(), BlogError> {
    let mut item = measured_to_json(measured);
    item["id"] = ID.into();
    item["options"] = identity(options);
    store(blog, &item).await
}

async fn store(blog: &Blog, item: &Value) -> Result<(), BlogError> {
    let link = state_link(blog);
    blog.client
        .upsert(&Meter::new(), &link, ID, item, None)
        .await
}

/// Returns the options that determine the figures.
fn identity(options: &Options) -> Value {
    json!({
        "seed": options.seed,
        "scale": options.scale,
        "profile": format!("{:?}", options.profile),
        "runs": options.runs,
        "throughPipelines": options.through_pipelines,
    })
}

fn measured_to_json(measured: &Measured) -> Value {
    let loaded = &measured.loaded;
    let copied = loaded.copied.map(|copied| {
        json!({
            "changes": copied.changes,
            "written": copied.written,
            "ru": copied.ru,
            "seconds": copied.seconds,
            "ranges": copied.ranges,
        })
    });
    let rows = measured.rows.iter().map(|row| {
        json!({
            "request": row.request.to_string(),
            "ru": row.ru,
            "msP50": row.ms_p50,
            "msP99": row.ms_p99,
            "partitions": row.partitions,
            "requests": row.requests,
            "throttled": row.throttled,
            "expectedRu": row.expected_ru,
        })
    });
    let writes = measured.writes.iter().map(|row| {
        json!({
            "name": row.name,
            "ru": row.ru,
            "ms": row.ms.map(|(p50, p99)| [p50, p99]),
            "runs": row.runs,
        })
    });
    json!({
        "loaded": {
            "items": loaded.items,
            "seconds": loaded.seconds,
            "partitions": loaded.partitions,
            "copied": copied,
        },
        "rows": rows.collect::<Vec<_>>(),
        "writes": writes.collect::<Vec<_>>(),
    })
}

/// Returns `None` if the measurement is not complete.
fn measured_from_json(model: Model, item: &Value) -> Option<Measured> {
    let loaded = &item["loaded"];
    let copied = &loaded["copied"];
    let copied = match copied.is_object() {
        true => Some(CopySummary {
            changes: copied["changes"].as_u64()?,
            written: copied["written"].as_u64()?,
            ru: copied["ru"].as_f64()?,
            seconds: copied["seconds"].as_f64()?,
            ranges: count(&copied["ranges"])?,
        }),
        false => None,
    };
    let mut rows = Vec::new();
    for row in item["rows"].as_array()? {
        rows.push(row_from_json(model, row)?);
    }
    let mut writes = Vec::new();
    for row in item["writes"].as_array()? {
        let ms = row["ms"].as_array();
        writes.push(WriteRow {
            name: row["name"].as_str()?.to_owned(),
            model,
            ru: row["ru"].as_f64()?,
            ms: ms.and_then(|ms| Some((ms.first()?.as_f64()?, ms.get(1)?.as_f64()?))),
            runs: count(&row["runs"])?,
        });
    }
    Some(Measured {
        loaded: LoadSummary {
            model,
            items: loaded["items"].as_u64()?,
            seconds: loaded["seconds"].as_f64()?,
            partitions: count(&loaded["partitions"])?,
            copied,
        },
        rows,
        writes,
    })
}

fn row_from_json(model: Model, row: &Value) -> Option<Row> {
    let name = row["request"].as_str()?;
    let request = Request::ALL
        .into_iter()
        .find(|request| request.to_string() == name)?;
    let (article_ms, article_ru) = article::published(request, model);
    Some(Row {
        request,
        model,
        ru: row["ru"].as_f64()?,
        ms_p50: row["msP50"].as_f64()?,
        ms_p99: row["msP99"].as_f64()?,
        partitions: count(&row["partitions"])?,
        requests: count(&row["requests"])?,
        throttled: count(&row["throttled"])?,
        article_ru,
        article_ms,
        expected_ru: row["expectedRu"].as_f64()?,
        note: article::note(request, model),
    })
}

fn count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|count| usize::try_from(count).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_round_trips_and_one_that_only_began_does_not_count() {
        let (article_ms, article_ru) = article::published(Request::Q6, Model::V3);
        let measured = Measured {
            loaded: LoadSummary {
                model: Model::V3,
                items: 12,
                seconds: 1.5,
                partitions: 67,
                copied: Some(CopySummary {
                    changes: 1,
                    written: 2,
                    ru: 3.25,
                    seconds: 4.0,
                    ranges: 77,
                }),
            },
            rows: vec![Row {
                request: Request::Q6,
                model: Model::V3,
                ru: 16.61,
                ms_p50: 1.0,
                ms_p99: 2.0,
                partitions: 1,
                requests: 1,
                throttled: 0,
                article_ru,
                article_ms,
                expected_ru: 16.6,
                note: article::note(Request::Q6, Model::V3),
            }],
            writes: vec![WriteRow {
                name: "C2".into(),
                model: Model::V3,
                ru: 9.9,
                ms: Some((1.0, 2.0)),
                runs: 200,
            }],
        };
        let item = measured_to_json(&measured);
        let restored = measured_from_json(Model::V3, &item).unwrap();
        assert_eq!(restored.loaded, measured.loaded);
        assert_eq!(restored.rows, measured.rows);
        assert_eq!(restored.writes, measured.writes);
        assert!(measured_from_json(Model::V3, &json!({"id": ID})).is_none());
    }
}
