//! The lesson of the blog against a running server: the comparison of the models and the
//! experiments of the lab.

use crate::program::{Server, start};
use orrery_blog::lesson::lab::{Experiment, LabError, LabOptions, LabState, Phase};
use orrery_blog::lesson::{Action, Comparison, Lab, compare};
use orrery_blog::{Blog, Client, Meter, Model, Request, Site, Throughput};
use std::time::Duration;

/// Time limit for an experiment; a test fails rather than hangs.
const TIMEOUT: Duration = Duration::from_secs(150);

fn client(server: &Server) -> Client {
    let endpoint = format!("http://{}/", server.address);
    Client::new(&endpoint, &server.key, 32).expect("a client")
}

/// Runs an experiment to its end and returns the last state.
async fn run(lab: &Lab, experiment: Experiment) -> LabState {
    lab.start(experiment).expect("no experiment is running");
    let settled = tokio::time::timeout(TIMEOUT, lab.settled()).await;
    let state = lab.state();
    assert!(settled.is_ok(), "{:?}", state.steps);
    assert_eq!(state.phase, Phase::Ended, "{:?}", state.steps);
    state
}

fn lab(server: &Server, options: LabOptions) -> Lab {
    Lab::new(client(server), "blog", options)
}

fn seconds(seconds: u64) -> LabOptions {
    LabOptions {
        seconds,
        ..LabOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_key_is_throttled_and_a_key_of_another_partition_is_not() {
    let server = start(&["--memory", "--enforce-throughput", "on"]).expect("it starts");
    let lab = lab(&server, seconds(4));
    let state = run(&lab, Experiment::HotKey).await;
    let container = &state.containers[0];
    assert_eq!(
        (container.partitions.len(), container.ru_per_second),
        (4, 400)
    );
    let (hot, other) = (state.series[0].total(), state.series[1].total());
    assert!(hot.throttled > 0 && hot.served > 0, "{hot:?}");
    assert_eq!((other.throttled, other.failed, hot.failed), (0, 0, 0));
    assert!(other.served > 0, "{other:?}");
    // The partition of the hot key is the only one with refusals.
    let refusing = container
        .partitions
        .iter()
        .filter(|partition| partition.total().throttled > 0);
    assert_eq!(refusing.count(), 1);
    lab.reset().await.expect("it is reset");
    assert_eq!(lab.state(), LabState::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_posts_under_one_type_are_throttled_while_throughput_is_left() {
    let server = start(&["--memory", "--enforce-throughput", "on"]).expect("it starts");
    let state = run(&lab(&server, seconds(4)), Experiment::BadKey).await;
    let by_type = &state.containers[0];
    let used = by_type
        .partitions
        .iter()
        .filter(|partition| partition.total().served > 0);
    assert_eq!(used.count(), 1, "one value of /type lies in one partition");
    let (by_type, by_post) = (&state.series[0], &state.series[1]);
    assert!(by_type.total().throttled > 0, "{by_type:?}");
    assert!(
        by_type.throttled_percent() > by_post.throttled_percent(),
        "{by_type:?} {by_post:?}"
    );
    let loaded = state.containers[1]
        .partitions
        .iter()
        .filter(|partition| partition.total().served > 0);
    assert_eq!(loaded.count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_under_load_fails_no_request() {
    let server = start(&["--memory", "--enforce-throughput", "on"]).expect("it starts");
    let state = run(&lab(&server, LabOptions::default()), Experiment::Split).await;
    let container = &state.containers[0];
    assert!(container.partitions.len() > 1, "{:?}", state.steps);
    assert_eq!(container.replaced.len(), 1);
    let total = state.series[0].total();
    assert_eq!(total.failed, 0);
    assert!(total.served > 0);
    // Each new partition names the old one as its parent and has served requests.
    for partition in &container.partitions {
        assert_eq!(
            partition.range.parents,
            [container.replaced[0].range.id.clone()]
        );
        assert!(partition.total().served > 0, "{partition:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logical_partition_is_filled_until_the_server_refuses() {
    let server = start(&["--memory", "--logical-partition-limit", "1"]).expect("it starts");
    let options = LabOptions {
        logical_partition_limit: Some(1 << 20),
        ..LabOptions::default()
    };
    let state = run(&lab(&server, options), Experiment::FullKey).await;
    let fill = state.fill.expect("the progress");
    let (status, sub_status, message) = fill.refusal.clone().expect("a refusal");
    assert_eq!((status, sub_status), (403, 1014));
    assert!(message.contains("1 MB"), "{message}");
    assert!(fill.is_near());
    assert!(state.steps.iter().any(|step| step.contains("80 %")));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_experiment_runs_at_a_time_and_only_those_that_end_are_offered() {
    let server = start(&["--memory"]).expect("it starts");
    let lab = lab(&server, seconds(60));
    assert_eq!(lab.start(Experiment::FullKey), Err(LabError::NotOffered));
    lab.start(Experiment::HotKey).expect("it starts");
    assert_eq!(lab.start(Experiment::Split), Err(LabError::Busy));
    assert_eq!(lab.reset().await, Err(LabError::Busy));
    lab.stop();
    let settled = tokio::time::timeout(TIMEOUT, lab.settled()).await;
    assert!(settled.is_ok(), "{:?}", lab.state().steps);
    assert_eq!(lab.state().phase, Phase::Ended);
}

/// Creates the three models with the same few users and posts.
async fn small_site(server: &Server) -> Site {
    let client = client(server);
    let throughput = Throughput {
        users: 400,
        posts: 18_000,
        feed: 400,
    };
    let site = Site::new(client, "blog", Model::V3, &Model::ALL, throughput);
    let data = orrery_blog::dataset::Dataset::new(1, 0.000_02).expect("a data set");
    let meter = Meter::new();
    for model in Model::ALL {
        let blog: Blog = site.blog(model);
        blog.create().await.expect("a database");
        for n in 0..2 {
            blog.create_user(&meter, &data.user(n))
                .await
                .expect("a user");
        }
        for k in 0..4 {
            blog.create_post(&meter, &data.post(k))
                .await
                .expect("a post");
        }
        for comment in data.comments(0) {
            blog.create_comment(&meter, &comment)
                .await
                .expect("a comment");
        }
        for mut pipeline in orrery_blog::pipelines::Pipeline::of(&blog) {
            pipeline.drain().await.expect("copies");
        }
    }
    site
}

/// Returns the charge of an action with its pipelines.
fn total(comparison: &Comparison, action: Action, model: Model) -> f64 {
    let cell = comparison.cell(action, model).expect("a cell");
    cell.price.total_ru()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_has_the_articles_charges_and_leaves_the_blog_as_it_was() {
    let server = start(&["--memory", "--profile", "y2019"]).expect("it starts");
    let site = small_site(&server).await;
    let meter = Meter::new();
    let before = site.blog(Model::V3).feed(&meter).await.expect("a feed");

    let comparison = compare::compare(&site, None, 3, &|_| {})
        .await
        .expect("it is measured");
    assert_eq!(comparison.models.len(), 3);
    for model in Model::ALL {
        for action in Action::ALL {
            let cell = comparison.cell(action, model);
            assert!(cell.is_some(), "{action} of {model}");
            let cell = cell.expect("a cell");
            assert!(!cell.varies, "{action} of {model} has two charges");
            let sum: f64 = cell.price.request_ru();
            assert!(
                (sum - cell.ru).abs() < 0.001,
                "{action} of {model}: {sum} {}",
                cell.ru
            );
        }
        assert_eq!(comparison.facts(model).expect("facts").partitions[1], 3);
    }
    let article = |request| Action::Article(request);
    // The charges of the article's table.
    let ru = |request, model| comparison.cell(article(request), model).expect("a cell").ru;
    assert_eq!(ru(Request::C1, Model::V1), 5.71);
    assert_eq!(ru(Request::C2, Model::V3), 9.9);
    assert_eq!(ru(Request::Q2, Model::V3), 1.0);

    // V1 has no pipelines; the pipelines of V3 cost more than the post itself.
    assert_eq!(
        total(&comparison, article(Request::C2), Model::V1),
        ru(Request::C2, Model::V1)
    );
    let c2 = comparison
        .cell(article(Request::C2), Model::V3)
        .expect("a cell");
    assert_eq!(c2.pipelines.len(), 2, "copies in users and feed");
    assert!(c2.price.total_ru() > 2.0 * c2.ru, "{:?}", c2.price);
    let rename = comparison.cell(Action::Rename, Model::V2).expect("a cell");
    assert_eq!(
        rename.pipelines[0].written,
        comparison.facts(Model::V2).expect("facts").posts_with_name
    );
    assert!(rename.pipelines[0].written >= 4);

    let after = site.blog(Model::V3).feed(&meter).await.expect("a feed");
    assert_eq!(before, after);
    let left = client(&server).delete_database("blog-v3-scratch").await;
    assert_eq!(left, Ok(()));
    let csv = comparison.to_csv();

    assert_eq!(
        csv.lines()
            .filter(|line| line.starts_with("action,"))
            .count(),
        comparison.cells.len()
    );
    assert!(csv.contains("pipeline,C2,V3,"), "{csv}");
    assert_eq!(
        comparison.to_json()["cells"].as_array().map(Vec::len),
        Some(comparison.cells.len())
    );
}
