//! Simulated users of the blog: they read and write through the application's pages, check every
//! answer, and compare the database with what they wrote.
//!
//! ```text
//! user ── browser ── html     a browser without JavaScript: cookies, forms, redirects
//!   │
//! ledger ── verify            what was written; its comparison with each model
//! stress ── processes         workers and migrations that are killed
//! pages                       times of pages without other load
//! ```
//! The run fails if an answer was wrong or missing, or if the database differs from the ledger
//! after the pipelines have caught up.

mod browser;
mod html;
mod ledger;
mod pages;
mod processes;
mod stress;
mod user;
mod verify;

use crate::random::Random;
use crate::record::figure;
use crate::report::percentile;
use crate::{Result, temporary_directory};
use ledger::{Books, Ledger};
use orrery_blog::{Client, Site, Throughput};
use processes::{BlogProcess, Database, drift};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stress::{Migrations, Stop};
use user::User;
use verify::{Verdict, verify};

/// Time for pipelines to catch up after the users have ended.
const SETTLE: Duration = Duration::from_secs(180);

/// Arguments of `blog-users`.
#[derive(Debug, clap::Args)]
pub(crate) struct BlogUsersArguments {
    /// Number of simulated users
    #[arg(long, default_value_t = 50)]
    users: usize,
    /// Duration of the run in minutes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Mean pause of a user between two actions in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    pause: u64,
    /// Scale of the blog before the run
    #[arg(long, value_name = "S", default_value_t = 0.0001)]
    scale: f64,
    /// Home model at the start
    #[arg(long, value_name = "MODEL", default_value = "v3")]
    model: String,
    /// Keep the blog in its home model only
    #[arg(long)]
    only: bool,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run the pipelines in processes of their own, and kill one of two every so many seconds
    #[arg(long, value_name = "SECONDS")]
    kill_workers: Option<f64>,
    /// Migrate to these models, one after the other, as long as the run lasts; implies --only
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    migrate: Vec<String>,
    /// Number of migrations to kill and continue
    #[arg(long, value_name = "N", default_value_t = 0, requires = "migrate")]
    kill_migrate: u32,
    /// Measure the times of pages without other load instead, with so many requests of each kind
    #[arg(long, value_name = "N")]
    pages: Option<usize>,
    /// Directory for the data while measuring [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// The result of a run.
struct Outcome {
    books: Books,
    drift: String,
    has_drift: bool,
    verdicts: Vec<(String, Verdict)>,
    worker_kills: u32,
    migrations: Migrations,
    seconds: f64,
}

/// Runs the simulated users and prints their report.
///
/// # Errors
/// A wrong or missing answer, a difference, or a process that failed.
pub(crate) fn run(arguments: &BlogUsersArguments) -> Result<()> {
    let directory = temporary_directory(arguments.directory.clone())?;
    let blog = BlogProcess::start(directory.path(), &blog_options(arguments))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    if let Some(requests) = arguments.pages {
        runtime.block_on(pages::run(&blog.address, requests))?;
        return end(blog);
    }
    let outcome = simulate(arguments, &blog, &runtime)?;
    print(&outcome);
    let failed: u64 = outcome.books.failure_counts.values().sum();
    let is_equal = outcome
        .verdicts
        .iter()
        .all(|(_, verdict)| verdict.is_equal());
    end(blog)?;
    match failed == 0 && is_equal && !outcome.has_drift {
        true => Ok(()),
        false => Err("the run failed; see the table above".into()),
    }
}

/// Stops the blog; its exit status must be that of a clean end.
fn end(blog: BlogProcess) -> Result<()> {
    let status = blog.stop()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the blog did not stop cleanly: {status}").into()),
    }
}

/// Returns the options of the blog's process.
fn blog_options(arguments: &BlogUsersArguments) -> Vec<String> {
    let mut options = vec![
        "--scale".to_owned(),
        arguments.scale.to_string(),
        "--model".to_owned(),
        arguments.model.clone(),
    ];
    if arguments.only || !arguments.migrate.is_empty() {
        options.push("--only".to_owned());
    }
    if arguments.kill_workers.is_some() {
        options.extend(["--workers".to_owned(), "0".to_owned()]);
    }
    options
}

/// Runs users and disturbances, waits for the pipelines, and compares.
fn simulate(
    arguments: &BlogUsersArguments,
    blog: &BlogProcess,
    runtime: &tokio::runtime::Runtime,
) -> Result<Outcome> {
    let started = Instant::now();
    let ledger = Arc::new(Ledger::default());
    let stop = Arc::new(Stop::default());
    let workers = arguments.kill_workers.map(|seconds| {
        let (database, stop) = (blog.database.clone(), stop.clone());
        let every = Duration::from_secs_f64(seconds);
        std::thread::spawn(move || {
            stress::kill_workers(&database, every, &stop).map_err(|error| error.to_string())
        })
    });
    let migrations = (!arguments.migrate.is_empty()).then(|| {
        let (database, stop) = (blog.database.clone(), stop.clone());
        let (targets, kills) = (arguments.migrate.clone(), arguments.kill_migrate);
        let mut random = Random::new(arguments.seed ^ 0x6d69_6772_6174_6500);
        std::thread::spawn(move || {
            stress::migrate(&database, &targets, kills, &mut random, &stop)
                .map_err(|error| error.to_string())
        })
    });

    let end = started + Duration::from_secs_f64(arguments.minutes * 60.0);
    runtime.block_on(live(arguments, &blog.address, &ledger, end));
    let seconds = started.elapsed().as_secs_f64();
    stop.set();
    let migrations = match migrations {
        Some(thread) => thread.join().map_err(|_| "the migrations panicked")??,
        None => Migrations::default(),
    };
    // The workers that are left go on until the comparison.
    let (workers, worker_kills) = match workers {
        Some(thread) => thread.join().map_err(|_| "the workers panicked")??,
        None => (Vec::new(), 0),
    };
    let (has_no_drift, drift) = settle(&blog.database)?;
    let books = ledger.open().clone();
    let verdicts = runtime.block_on(compare(&blog.database, &books))?;
    drop(workers);
    Ok(Outcome {
        books,
        drift,
        has_drift: !has_no_drift,
        verdicts,
        worker_kills,
        migrations,
        seconds,
    })
}

/// Lets all users live until `end`.
async fn live(arguments: &BlogUsersArguments, address: &str, ledger: &Arc<Ledger>, end: Instant) {
    let pause = Duration::from_millis(arguments.pause);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..arguments.users {
        let user = User::new(number, "x", address, arguments.seed, ledger.clone());
        tasks.spawn(user.live(end, pause));
    }
    while let Some(task) = tasks.join_next().await {
        if let Err(error) = task {
            ledger.fail("user", error.to_string());
        }
    }
}

/// Repeats the drift check until it finds nothing or the time is over.
fn settle(database: &Database) -> Result<(bool, String)> {
    let end = Instant::now() + SETTLE;
    loop {
        let (has_no_drift, output) = drift(database)?;
        if has_no_drift || Instant::now() >= end {
            return Ok((has_no_drift, output));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "other processes do not notify this one"
        )]
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Compares each present model with the ledger.
async fn compare(database: &Database, books: &Books) -> Result<Vec<(String, Verdict)>> {
    let client = Client::new(&database.endpoint, &database.key, 16)?;
    let site = Site::open(client, "blog", Throughput::default()).await?;
    let mut verdicts = Vec::new();
    for model in site.models() {
        let verdict = verify(&site.blog(model), books).await?;
        verdicts.push((model.to_string(), verdict));
    }
    Ok(verdicts)
}

/// Prints the report.
fn print(outcome: &Outcome) {
    let books = &outcome.books;
    println!(
        "\n{:<16}{:>9}{:>10}{:>10}{:>10}",
        "", "requests", "p50 ms", "p99 ms", "max ms"
    );
    let mut requests = 0;
    for (kind, times) in &books.times {
        let mut times = times.clone();
        requests += times.len();
        let (p50, p99) = (percentile(&mut times, 50.0), percentile(&mut times, 99.0));
        println!(
            "{kind:<16}{:>9}{p50:>10.1}{p99:>10.1}{:>10.1}",
            times.len(),
            percentile(&mut times, 100.0)
        );
        figure(format!("{kind}, p50 ms"), p50);
        figure(format!("{kind}, p99 ms"), p99);
    }
    figure("requests/s", requests as f64 / outcome.seconds);
    println!(
        "\n{requests} requests in {:.0} s, {:.1} a second",
        outcome.seconds,
        requests as f64 / outcome.seconds
    );
    println!(
        "written: {} users, {} posts ({} deleted), {} comments, {} likes",
        books.names.len(),
        books.posts.len(),
        books.deleted.len(),
        books.comments.len(),
        books.likes.len()
    );
    if outcome.worker_kills > 0 {
        println!("workers killed: {}", outcome.worker_kills);
    }
    if !outcome.migrations.finished.is_empty() {
        let list: Vec<String> = outcome
            .migrations
            .finished
            .iter()
            .map(|(target, seconds)| format!("{target} in {seconds:.0} s"))
            .collect();
        println!(
            "migrations: {}; processes killed: {}, given up and continued: {}",
            list.join(", "),
            outcome.migrations.kills,
            outcome.migrations.restarts
        );
    }
    print_failures(outcome);
}

/// Prints failures and differences.
fn print_failures(outcome: &Outcome) {
    let failed: u64 = outcome.books.failure_counts.values().sum();
    println!("failures: {failed}");
    for (action, count) in &outcome.books.failure_counts {
        println!("  {action}: {count}");
    }
    for failure in &outcome.books.failures {
        println!("  - {failure}");
    }
    println!("drift: {}", if outcome.has_drift { "found" } else { "0" });
    if outcome.has_drift {
        println!("{}", outcome.drift);
    }
    for (model, verdict) in &outcome.verdicts {
        println!(
            "{model}: {} facts compared, lost {}, doubled {}, wrong {}",
            verdict.compared, verdict.lost, verdict.doubled, verdict.wrong
        );
        for difference in &verdict.differences {
            println!("  - {difference}");
        }
    }
}
