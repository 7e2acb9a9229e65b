//! The measurement: loads the data set into each model, runs every request many times, and fills
//! the article's table.
//!
//! Reads run before writes, so that items added by measured writes do not affect the reads. Reads
//! use the probe user and probe post of the data set, and their results are checked: the figures of
//! a wrong response mean nothing. Writes create new items of one size. Equal requests must have
//! equal charges: a cell has the charge of its first run, and a run with another charge is an
//! error.
//!
//! One client sends one request after another. Latencies are therefore those of an idle server,
//! including the time of the client.
//!
//! Left out: the throughput of a loaded server, which the `bench` crate measures.

use crate::dataset::Dataset;
use crate::load::{self, Copies, Fill};
use crate::meter::{Charge, Measurement, Meter};
use crate::models::{Blog, FEED_LENGTH, Model, Request};
use crate::options::Options;
use crate::pipeline_bench::PipelineBench;
use crate::progress::Progress;
use crate::report::{LoadSummary, Report, Row};
use crate::resumption::{self, Measured, Resumption};
use crate::{BlogError, Client, Control, article, pricing};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// Smallest number of runs of a request to all physical partitions.
const ALL_PARTITIONS_RUNS_MIN: usize = 20;

/// Prefix of the database with the leases of measured pipelines.
const CONTROL_PREFIX: &str = "bench-blog";

/// Returns the name of the database in which a model is measured: `blog-v1` and so on.
pub fn database_name(model: Model) -> String {
    format!("blog-{}", model.to_string().to_lowercase())
}

/// Returns the names of the existing databases that [`run`] would delete before it loads: none if
/// the run resumes an interrupted one.
///
/// # Errors
/// Every error of a request.
pub async fn databases_to_delete(options: &Options) -> Result<Vec<String>, BlogError> {
    if options.resume {
        return Ok(Vec::new());
    }
    let client = Client::new(&options.endpoint, &options.key, options.connections)?;
    let mut names: Vec<String> = options.models.iter().copied().map(database_name).collect();
    if options.through_pipelines {
        names.push(Control::new(client.clone(), CONTROL_PREFIX).database);
    }
    names.sort_unstable();
    names.dedup();
    let mut existing = Vec::new();
    for name in names {
        if client.has_database(&name).await? {
            existing.push(name);
        }
    }
    Ok(existing)
}

/// Measures the models of `options`. Existing databases of the same names are deleted first, unless
/// the run resumes an interrupted one.
///
/// # Errors
/// [`BlogError::InvalidOption`] before any request is sent, and every error of a request.
pub async fn run(options: Options, progress: &dyn Progress) -> Result<Report, BlogError> {
    options.check()?;
    let data = Arc::new(Dataset::new(options.seed, options.scale)?);
    let client = Client::new(&options.endpoint, &options.key, options.connections)?;
    let control = Control::new(client.clone(), CONTROL_PREFIX);
    if options.through_pipelines {
        if !options.resume {
            client.delete_database(&control.database).await?;
        }
        control.create_missing().await?;
    }
    let mut models = options.models.clone();
    models.sort_unstable();
    models.dedup();
    let mut report = Report {
        format: options.format,
        profile: options.profile,
        scale: options.scale,
        totals: data.totals(),
        loaded: Vec::new(),
        rows: Vec::new(),
        writes: Vec::new(),
    };
    for model in models {
        let blog = Blog::new(client.clone(), model, &database_name(model));
        let measured = measured_before(&blog, &options).await?;
        let measured = match measured {
            Some(measured) => measured,
            None => load_and_measure(&blog, &data, &control, &options, progress).await?,
        };
        report.loaded.push(measured.loaded);
        report.rows.extend(measured.rows);
        report.writes.extend(measured.writes);
        if !options.keep {
            blog.delete().await?;
        }
    }
    // The article lists the models side by side for each request.
    report.rows.sort_by_key(|row| (row.request, row.model));
    Ok(report)
}

/// Returns the finished measurement of an interrupted run. A database in which a measurement began
/// and did not end is deleted, as is every database unless the run resumes.
async fn measured_before(blog: &Blog, options: &Options) -> Result<Option<Measured>, BlogError> {
    if options.resume {
        match resumption::read(blog, options).await? {
            Resumption::Finished(measured) => return Ok(Some(measured)),
            Resumption::NotMeasured => return Ok(None),
            Resumption::Unusable => {}
        }
    }
    // A new database, so that items of earlier measurements do not affect this one.
    blog.delete().await?;
    Ok(None)
}

/// Loads a model and measures its requests.
async fn load_and_measure(
    blog: &Blog,
    data: &Arc<Dataset>,
    control: &Control,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Measured, BlogError> {
    let fill = Fill {
        method: options.load,
        workers: options.connections,
        copies: match options.through_pipelines {
            true => Copies::ByPipelines,
            false => Copies::Loaded,
        },
    };
    let started = Instant::now();
    let items = load::fill(blog, data, fill, progress).await?.items;
    // The number of partitions is read from the server: the expected charges depend on it.
    let mut loaded = LoadSummary {
        model: blog.model,
        items,
        seconds: started.elapsed().as_secs_f64(),
        partitions: blog.client.ranges(&blog.posts).await?.len(),
        copied: None,
    };
    let mut pipelines = None;
    if options.through_pipelines {
        let started = PipelineBench::start(blog, data, control, options.runs);
        if blog.model != Model::V1 {
            loaded.copied = Some(started.copy_loaded().await?);
        }
        started.pause().await;
        pipelines = Some(started);
    }
    resumption::begin(blog).await?;
    let rows = measure_model(blog, data, options, loaded.partitions, progress).await?;
    let writes = match pipelines {
        Some(pipelines) => pipelines.measure(progress).await?,
        None => Vec::new(),
    };
    let measured = Measured {
        loaded,
        rows,
        writes,
    };
    resumption::finish(blog, options, &measured).await?;
    Ok(measured)
}

/// Measures all requests of one model.
async fn measure_model(
    blog: &Blog,
    data: &Dataset,
    options: &Options,
    partitions: usize,
    progress: &dyn Progress,
) -> Result<Vec<Row>, BlogError> {
    let mut requests = Request::ALL;
    // Reads first; the sort keeps the article's order among reads and among writes.
    requests.sort_by_key(|request| request.is_write());
    let runs = |request| runs_of(blog.model, request, options.runs);
    let total = requests.iter().map(|request| runs(*request) as u64).sum();
    progress.begin(&format!("measuring {}", blog.model), total);

    let mut rows = Vec::new();
    for request in requests {
        if !request.is_write() {
            // A run that is not measured opens connections and fills the client's caches of
            // partition key ranges and query plans.
            run_once(blog, data, request, 0).await?;
        }
        let mut measurements = Vec::with_capacity(runs(request));
        for n in 0..runs(request) {
            measurements.push(run_once(blog, data, request, n as u64).await?);
            progress.advance(1);
        }
        let expected_ru =
            pricing::expected_charge(data, partitions, options.profile, blog.model, request);
        rows.push(report_row(blog.model, request, &measurements, expected_ru)?);
    }
    progress.end();
    Ok(rows)
}

/// Returns the number of runs of a request.
fn runs_of(model: Model, request: Request, runs: usize) -> usize {
    if asks_all_partitions(model, request) {
        (runs / 10).max(ALL_PARTITIONS_RUNS_MIN).min(runs)
    } else {
        runs
    }
}

/// Returns true if the request queries every physical partition of `posts`.
fn asks_all_partitions(model: Model, request: Request) -> bool {
    model != Model::V3 && matches!(request, Request::Q3 | Request::Q6)
}

/// Runs one request for the `n`-th time and checks the result.
async fn run_once(
    blog: &Blog,
    data: &Dataset,
    request: Request,
    n: u64,
) -> Result<Measurement, BlogError> {
    // All items are created before the clock starts.
    let (user, post) = (data.user(0), data.post(0));
    let (fresh_user, fresh_post) = (data.fresh_user(n), data.fresh_post(n));
    let (fresh_comment, fresh_like) = (data.fresh_comment(n), data.fresh_like(n));
    let meter = Meter::new();
    let started = Instant::now();
    let rows = match request {
        Request::C1 => {
            blog.create_user(&meter, &fresh_user).await?;
            Vec::new()
        }
        Request::C2 => {
            blog.create_post(&meter, &fresh_post).await?;
            Vec::new()
        }
        Request::C3 => {
            blog.create_comment(&meter, &fresh_comment).await?;
            Vec::new()
        }
        Request::C4 => {
            blog.create_like(&meter, &fresh_like).await?;
            Vec::new()
        }
        Request::Q1 => vec![blog.user(&meter, &user.id).await?],
        Request::Q2 => vec![blog.post(&meter, &post.id).await?],
        Request::Q3 => blog.posts_of_user(&meter, &user.id).await?,
        Request::Q4 => blog.comments(&meter, &post.id).await?,
        Request::Q5 => blog.likes(&meter, &post.id).await?,
        Request::Q6 => blog.feed(&meter).await?,
    };
    let elapsed = started.elapsed();
    check_rows(data, request, &rows)
        .map_err(|e| BlogError::unexpected(format!("{request} of {}", blog.model), e))?;
    Ok(meter.measurement(elapsed))
}

/// Checks the rows of a request against the loaded data.
///
/// # Errors
/// A description of the first difference.
fn check_rows(data: &Dataset, request: Request, rows: &[Value]) -> Result<(), String> {
    let expected = match request {
        Request::C1 | Request::C2 | Request::C3 | Request::C4 => return Ok(()),
        Request::Q1 | Request::Q2 => 1,
        Request::Q3 => data.posts_of(0).count() as u64,
        Request::Q4 => data.reaction_counts(0).0,
        Request::Q5 => data.reaction_counts(0).1,
        Request::Q6 => FEED_LENGTH.min(data.posts()),
    };
    if rows.len() as u64 != expected {
        return Err(format!("{} rows instead of {expected}", rows.len()));
    }

    // Every row shows a username, which V1 has to look up.
    let name = if request == Request::Q1 {
        "username"
    } else {
        "userUsername"
    };
    if let Some(row) = rows.iter().find(|row| !row[name].is_string()) {
        return Err(format!("a row without {name}: {row}"));
    }

    match request {
        Request::Q2 if !has_counts_of(data, &rows[0], 0) => {
            Err(format!("wrong counts: {}", rows[0]))
        }
        Request::Q6 => check_feed(data, rows),
        _ => Ok(()),
    }
}

/// Checks that `rows` are the newest posts, newest first, with the right counts.
fn check_feed(data: &Dataset, rows: &[Value]) -> Result<(), String> {
    let newest = data.newest(FEED_LENGTH);
    for (position, (row, post)) in rows.iter().zip(newest).enumerate() {
        let is_newest = row["id"] == data.post(post).id.as_str();
        if !is_newest || !has_counts_of(data, row, post) {
            return Err(format!(
                "not the newest post, or wrong counts, at position {position}: {row}"
            ));
        }
    }
    Ok(())
}

/// Returns true if `row` has the numbers of comments and likes of post `post`.
fn has_counts_of(data: &Dataset, row: &Value, post: u64) -> bool {
    let (comments, likes) = data.reaction_counts(post);
    row["commentCount"].as_u64() == Some(comments) && row["likeCount"].as_u64() == Some(likes)
}

/// Returns the report's row for the measurements of one request.
///
/// # Errors
/// [`BlogError::UnequalCharges`] if the charges differ, [`BlogError::InvalidOption`] without
/// measurements.
fn report_row(
    model: Model,
    request: Request,
    measurements: &[Measurement],
    expected_ru: f64,
) -> Result<Row, BlogError> {
    let Some(first) = measurements.first() else {
        return Err(BlogError::InvalidOption(format!(
            "{request} of {model} was not run"
        )));
    };
    let charge: Charge = first.ru;
    if let Some(other) = measurements.iter().find(|run| run.ru != charge) {
        return Err(BlogError::UnequalCharges {
            request,
            model,
            first: charge,
            other: other.ru,
        });
    }
    let mut times: Vec<f64> = measurements.iter().map(|run| run.ms).collect();
    times.sort_unstable_by(f64::total_cmp);
    let (article_ms, article_ru) = article::published(request, model);
    Ok(Row {
        request,
        model,
        ru: charge.ru(),
        ms_p50: percentile(&times, 50.0),
        ms_p99: percentile(&times, 99.0),
        partitions: first.partitions,
        requests: first.requests,
        throttled: measurements.iter().map(|run| run.throttled).sum(),
        article_ru,
        article_ms,
        expected_ru,
        note: article::note(request, model),
    })
}

/// Returns the `p`-th percentile of sorted values by the nearest-rank method: the smallest value
/// that is at least as large as `p` percent of the values.
pub fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn measurement(ru: u64, ms: f64) -> Measurement {
        Measurement {
            ru: Charge(ru),
            ms,
            partitions: 1,
            requests: 1,
            throttled: 0,
        }
    }

    #[test]
    fn percentiles_are_measured_values() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(
            (percentile(&values, 50.0), percentile(&values, 99.0)),
            (100.0, 198.0)
        );
        assert_eq!(
            (percentile(&[7.0], 50.0), percentile(&[7.0], 99.0)),
            (7.0, 7.0)
        );
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 99.0), 3.0);
    }

    #[test]
    fn unequal_charges_of_one_request_are_an_error() {
        let equal = report_row(
            Model::V2,
            Request::Q4,
            &[measurement(771, 2.0), measurement(771, 1.0)],
            7.71,
        )
        .unwrap();
        assert_eq!((equal.ru, equal.ms_p50, equal.ms_p99), (7.71, 1.0, 2.0));
        let unequal = report_row(
            Model::V2,
            Request::Q4,
            &[measurement(771, 1.0), measurement(772, 1.0)],
            7.71,
        )
        .unwrap_err();
        assert!(matches!(
            unequal,
            BlogError::UnequalCharges {
                first: Charge(771),
                other: Charge(772),
                ..
            }
        ));
    }

    #[test]
    fn a_wrong_response_is_an_error() {
        let data = Dataset::new(1, 0.0004).unwrap();
        let comment = json!({"userUsername": "dora"});
        assert_eq!(
            check_rows(&data, Request::Q4, &vec![comment.clone(); 20]),
            Ok(())
        );
        assert!(
            check_rows(&data, Request::Q4, &vec![comment.clone(); 19])
                .unwrap_err()
                .contains("19 rows")
        );
        assert!(
            check_rows(&data, Request::Q4, &vec![json!({}); 20])
                .unwrap_err()
                .contains("userUsername")
        );
        let post = json!({"userUsername": "dora", "commentCount": 20, "likeCount": 49});
        assert!(
            check_rows(&data, Request::Q2, &[post])
                .unwrap_err()
                .contains("wrong counts")
        );
        let post_row = |k: &u64| {
            let (comments, likes) = data.reaction_counts(*k);
            json!({
                "id": data.post(*k).id,
                "userUsername": "d",
                "commentCount": comments,
                "likeCount": likes,
            })
        };
        let mut feed: Vec<_> = data.newest(100).iter().map(post_row).collect();
        assert_eq!(check_rows(&data, Request::Q6, &feed), Ok(()));
        feed.swap(3, 4);
        assert!(
            check_rows(&data, Request::Q6, &feed)
                .unwrap_err()
                .contains("position 3")
        );
    }

    #[test]
    fn requests_to_all_partitions_have_a_tenth_of_the_runs() {
        assert!(asks_all_partitions(Model::V2, Request::Q6));
        assert!(!asks_all_partitions(Model::V3, Request::Q6));
        assert_eq!(runs_of(Model::V2, Request::Q6, 200), 20);
        assert_eq!(runs_of(Model::V2, Request::Q6, 1000), 100);
    }

    #[tokio::test]
    async fn invalid_options_are_refused_before_any_request() {
        let valid = Options::new("http://127.0.0.1:9", "");
        for invalid in [
            Options {
                models: vec![],
                ..valid.clone()
            },
            Options {
                runs: 0,
                ..valid.clone()
            },
            Options {
                connections: 0,
                ..valid.clone()
            },
            Options {
                scale: 0.0,
                ..valid.clone()
            },
            Options {
                key: "no base64!".into(),
                ..valid.clone()
            },
            Options {
                endpoint: "here".into(),
                ..valid
            },
        ] {
            assert!(matches!(
                run(invalid, &crate::progress::NoProgress).await,
                Err(BlogError::InvalidOption(_))
            ));
        }
    }
}
