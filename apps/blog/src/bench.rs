//! The measurement: loads the data set into each model, runs every request many times, and makes the article's table.
//!
//! Reads come before writes, so that what the writes add is not measured. Reads look at the probes, and their answers are
//! checked: a figure for a wrong answer is worth nothing. Writes create fresh items of one size. Since equal requests
//! must have equal charges, a cell's RU is that of its first run, and any run that differs is an error.
//!
//! Requests are run one after another by one client, so latencies are those of an idle server, client included; the
//! throughput of a busy one is measured elsewhere.

use crate::dataset::Dataset;
use crate::meter::{Charge, Measured, Meter};
use crate::models::{Blog, FEED_LENGTH, Model, Request};
use crate::progress::Progress;
use crate::report::{Loaded, Report, Row};
use crate::{BlogError, Client, article, load, pricing};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// Fewest runs of a request that asks every physical partition.
const MIN_FAN_OUTS: usize = 20;

/// Which prices the server charges; it tells the table what to expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Those of the article, spring 2019.
    Y2019,
    /// Today's.
    Modern,
}

impl std::str::FromStr for Profile {
    type Err = BlogError;

    fn from_str(text: &str) -> Result<Self, BlogError> {
        match text.to_ascii_lowercase().as_str() {
            "y2019" => Ok(Self::Y2019),
            "modern" => Ok(Self::Modern),
            _ => Err(BlogError::Option(format!(
                "'{text}' is no price profile; there are y2019 and modern"
            ))),
        }
    }
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An aligned table for a person.
    Table,
    /// A JSON array with one object per row.
    Json,
}

/// How data are loaded; see `load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// One transaction per logical partition, by a stored procedure.
    Procedure,
    /// One request per item.
    Creates,
}

/// What to measure, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the server is, e.g. `http://127.0.0.1:8081`.
    pub endpoint: String,
    /// The account's master key, base64.
    pub key: String,
    /// Size of the data set; 1 is the article's 100,000 users.
    pub scale: f64,
    /// The models to measure.
    pub models: Vec<Model>,
    /// The prices that the server charges.
    pub profile: Profile,
    /// Equal seeds give equal data.
    pub seed: u64,
    /// How the report is written.
    pub format: Format,
    /// Runs of each request; those that ask every partition run a tenth as often, but 20 times at least.
    pub runs: usize,
    /// Connections for loading.
    pub connections: usize,
    /// How data are loaded.
    pub load: Load,
    /// Whether the databases stay when the measurement is done.
    pub keep: bool,
}

impl Options {
    /// The usual measurement: all models at 40 users (70,000 items a model), 200 runs, prices of 2019.
    pub fn new(endpoint: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            key: key.into(),
            scale: 0.0004,
            models: Model::ALL.to_vec(),
            profile: Profile::Y2019,
            seed: 1,
            format: Format::Table,
            runs: 200,
            connections: 32,
            load: Load::Procedure,
            keep: true,
        }
    }

    fn check(&self) -> Result<(), BlogError> {
        let complaint = if self.models.is_empty() {
            "no model to measure"
        } else if !(1..=1_000_000).contains(&self.runs) {
            "the number of runs is not between 1 and 1,000,000"
        } else if !(1..=4096).contains(&self.connections) {
            "the number of connections is not between 1 and 4,096"
        } else {
            return Ok(());
        };
        Err(BlogError::Option(complaint.into()))
    }
}

/// The name of the database that a model is measured in: `blog-v1` and so on.
pub fn database_name(model: Model) -> String {
    format!("blog-{}", model.to_string().to_lowercase())
}

/// Measures what `options` name. Removes earlier databases of the same names first.
pub async fn run(options: Options, progress: &dyn Progress) -> Result<Report, BlogError> {
    options.check()?;
    let data = Arc::new(Dataset::new(options.seed, options.scale)?);
    let client = Client::new(&options.endpoint, &options.key, options.connections)?;
    let mut models = options.models.clone();
    models.sort_unstable();
    models.dedup();
    let mut loaded = Vec::new();
    let mut rows = Vec::new();
    for model in models {
        let blog = Blog::new(client.clone(), model, &database_name(model));
        blog.remove().await?;
        blog.create().await?;
        let begun = Instant::now();
        let items = load::load(&blog, &data, options.load, options.connections, progress).await?;
        let partitions = client.ranges(&blog.posts).await?.len();
        loaded.push(Loaded {
            model,
            items,
            seconds: begun.elapsed().as_secs_f64(),
            partitions,
        });
        rows.extend(measure(&blog, &data, &options, partitions, progress).await?);
        if !options.keep {
            blog.remove().await?;
        }
    }
    rows.sort_by_key(|row| (row.request, row.model));
    Ok(Report {
        format: options.format,
        profile: options.profile,
        scale: options.scale,
        totals: data.totals(),
        loaded,
        rows,
    })
}

async fn measure(
    blog: &Blog,
    data: &Dataset,
    options: &Options,
    partitions: usize,
    progress: &dyn Progress,
) -> Result<Vec<Row>, BlogError> {
    let (reads, writes): (Vec<_>, Vec<_>) = Request::ALL
        .into_iter()
        .partition(|request| !request.writes());
    let runs = |request| {
        if asks_everywhere(blog.model, request) {
            fan_outs(options.runs)
        } else {
            options.runs
        }
    };
    let total = Request::ALL
        .into_iter()
        .map(|request| runs(request) as u64)
        .sum();
    progress.begin(&format!("measuring {}", blog.model), total);
    let mut rows = Vec::new();
    for request in reads.into_iter().chain(writes) {
        let mut measured = Vec::with_capacity(runs(request));
        if !request.writes() {
            // Opens connections, and fetches what a client keeps: ranges and query plans.
            once(blog, data, request, 0).await?;
        }
        for n in 0..runs(request) {
            measured.push(once(blog, data, request, n as u64).await?);
            progress.advance(1);
        }
        let expected = pricing::foretold(data, partitions, options.profile, blog.model, request);
        rows.push(row(blog.model, request, &measured, expected)?);
    }
    progress.end();
    Ok(rows)
}

fn asks_everywhere(model: Model, request: Request) -> bool {
    model != Model::V3 && matches!(request, Request::Q3 | Request::Q6)
}

fn fan_outs(runs: usize) -> usize {
    (runs / 10).max(MIN_FAN_OUTS)
}

/// Runs one request, for the `n`-th time, and checks its answer.
async fn once(
    blog: &Blog,
    data: &Dataset,
    request: Request,
    n: u64,
) -> Result<Measured, BlogError> {
    let (user, post) = (data.user(0), data.post(0));
    let (fresh_user, fresh_post) = (data.fresh_user(n), data.fresh_post(n));
    let (fresh_comment, fresh_like) = (data.fresh_comment(n), data.fresh_like(n));
    let meter = Meter::new();
    let begun = Instant::now();
    let answer = match request {
        Request::C1 => blog
            .create_user(&meter, &fresh_user)
            .await
            .map(|()| Vec::new()),
        Request::C2 => blog
            .create_post(&meter, &fresh_post)
            .await
            .map(|()| Vec::new()),
        Request::C3 => blog
            .create_comment(&meter, &fresh_comment)
            .await
            .map(|()| Vec::new()),
        Request::C4 => blog
            .create_like(&meter, &fresh_like)
            .await
            .map(|()| Vec::new()),
        Request::Q1 => blog.user(&meter, &user.id).await.map(|user| vec![user]),
        Request::Q2 => blog.post(&meter, &post.id).await.map(|post| vec![post]),
        Request::Q3 => blog.posts_of_user(&meter, &user.id).await,
        Request::Q4 => blog.comments(&meter, &post.id).await,
        Request::Q5 => blog.likes(&meter, &post.id).await,
        Request::Q6 => blog.feed(&meter).await,
    }?;
    let elapsed = begun.elapsed();
    check(data, request, &answer)
        .map_err(|e| BlogError::unexpected(format!("{request} of {}", blog.model), e))?;
    Ok(meter.measured(elapsed))
}

/// Whether an answer is the right one for the data loaded.
fn check(data: &Dataset, request: Request, answer: &[Value]) -> Result<(), String> {
    let expected = match request {
        Request::C1 | Request::C2 | Request::C3 | Request::C4 => return Ok(()),
        Request::Q1 | Request::Q2 => 1,
        Request::Q3 => data.posts_of(0).count() as u64,
        Request::Q4 => data.reactions(0).0,
        Request::Q5 => data.reactions(0).1,
        Request::Q6 => FEED_LENGTH.min(data.posts()),
    };
    if answer.len() as u64 != expected {
        return Err(format!("{} rows instead of {expected}", answer.len()));
    }
    let name = if request == Request::Q1 {
        "username"
    } else {
        "userUsername"
    };
    if let Some(nameless) = answer.iter().find(|row| !row[name].is_string()) {
        return Err(format!("a row without {name}: {nameless}"));
    }
    let counted = |row: &Value, k: u64| {
        (row["commentCount"].as_u64().zip(row["likeCount"].as_u64())) == Some(data.reactions(k))
    };
    match request {
        Request::Q2 if !counted(&answer[0], 0) => Err(format!("wrong counts: {}", answer[0])),
        Request::Q6 => {
            let newest = data.newest(FEED_LENGTH);
            let right = |(row, k): (&Value, &u64)| {
                row["id"] == data.post(*k).id.as_str() && counted(row, *k)
            };
            match answer.iter().zip(&newest).position(|pair| !right(pair)) {
                Some(place) => Err(format!(
                    "not the newest post, or wrong counts, at place {place}: {}",
                    answer[place]
                )),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn row(
    model: Model,
    request: Request,
    measured: &[Measured],
    model_ru: f64,
) -> Result<Row, BlogError> {
    let Some(first) = measured.first() else {
        return Err(BlogError::Option(format!(
            "{request} of {model} was not run"
        )));
    };
    let ru: Charge = first.ru;
    if let Some(other) = measured.iter().find(|run| run.ru != ru) {
        return Err(BlogError::Unsteady {
            request,
            model,
            first: ru,
            other: other.ru,
        });
    }
    let mut times: Vec<f64> = measured.iter().map(|run| run.ms).collect();
    times.sort_unstable_by(f64::total_cmp);
    let (article_ms, article_ru) = article::published(request, model);
    Ok(Row {
        request,
        model,
        ru: ru.ru(),
        ms_p50: percentile(&times, 50.0),
        ms_p99: percentile(&times, 99.0),
        partitions: first.partitions,
        requests: first.requests,
        throttled: measured.iter().map(|run| run.throttled).sum(),
        article_ru,
        article_ms,
        model_ru,
        note: article::note(request, model),
    })
}

/// The `p`-th percentile of sorted values by nearest rank: the least value that `p` percent do not exceed.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ran(ru: u64, ms: f64) -> Measured {
        Measured {
            ru: Charge(ru),
            ms,
            partitions: 1,
            requests: 1,
            throttled: 0,
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
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
    fn charges_that_vary_between_runs_are_an_error_and_never_averaged() {
        let steady = row(
            Model::V2,
            Request::Q4,
            &[ran(771, 2.0), ran(771, 1.0)],
            7.71,
        )
        .unwrap();
        assert_eq!((steady.ru, steady.ms_p50, steady.ms_p99), (7.71, 1.0, 2.0));
        let unsteady = row(
            Model::V2,
            Request::Q4,
            &[ran(771, 1.0), ran(772, 1.0)],
            7.71,
        )
        .unwrap_err();
        assert!(matches!(
            unsteady,
            BlogError::Unsteady {
                first: Charge(771),
                other: Charge(772),
                ..
            }
        ));
    }

    #[test]
    fn a_wrong_answer_is_not_measured() {
        let data = Dataset::new(1, 0.0004).unwrap();
        let comment = json!({"userUsername": "dora"});
        assert_eq!(
            check(&data, Request::Q4, &vec![comment.clone(); 20]),
            Ok(())
        );
        assert!(
            check(&data, Request::Q4, &vec![comment.clone(); 19])
                .unwrap_err()
                .contains("19 rows")
        );
        assert!(
            check(&data, Request::Q4, &vec![json!({}); 20])
                .unwrap_err()
                .contains("userUsername")
        );
        let post = json!({"userUsername": "dora", "commentCount": 20, "likeCount": 49});
        assert!(
            check(&data, Request::Q2, &[post])
                .unwrap_err()
                .contains("wrong counts")
        );
        let newest = |k: &u64| {
            let (comments, likes) = data.reactions(*k);
            json!({"id": data.post(*k).id, "userUsername": "d", "commentCount": comments, "likeCount": likes})
        };
        let mut feed: Vec<_> = data.newest(100).iter().map(newest).collect();
        assert_eq!(check(&data, Request::Q6, &feed), Ok(()));
        feed.swap(3, 4);
        assert!(
            check(&data, Request::Q6, &feed)
                .unwrap_err()
                .contains("place 3")
        );
    }

    #[test]
    fn requests_that_ask_every_partition_run_less_often() {
        assert!(
            asks_everywhere(Model::V2, Request::Q6) && !asks_everywhere(Model::V3, Request::Q6)
        );
        assert_eq!((fan_outs(200), fan_outs(1000)), (20, 100));
    }

    #[tokio::test]
    async fn options_that_cannot_be_used_are_refused_before_anything_is_removed() {
        let good = Options::new("http://127.0.0.1:9", "");
        for bad in [
            Options {
                models: vec![],
                ..good.clone()
            },
            Options {
                runs: 0,
                ..good.clone()
            },
            Options {
                connections: 0,
                ..good.clone()
            },
            Options {
                scale: 0.0,
                ..good.clone()
            },
            Options {
                key: "no base64!".into(),
                ..good.clone()
            },
            Options {
                endpoint: "here".into(),
                ..good
            },
        ] {
            assert!(matches!(
                run(bad, &crate::progress::Quiet).await,
                Err(BlogError::Option(_))
            ));
        }
    }
}
