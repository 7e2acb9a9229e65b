//! The pages of the lesson through HTTP, as a browser without scripts sees them.

use crate::application::{Application, Browser, Page, application, application_with};
use orrery_blog::dataset::Dataset;
use orrery_blog::pipelines::Pipeline;
use orrery_blog::{Meter, Model, Throughput};
use orrery_test_wait::wait_until;

/// Gives every model the same user with a few posts.
fn fill(application: &Application) {
    let data = Dataset::new(1, 0.000_02).expect("a data set");
    let meter = Meter::new();
    application.wait(async {
        for model in Model::ALL {
            let blog = application.blog(model);
            blog.create_user(&meter, &data.user(0))
                .await
                .expect("a user");
            for k in 0..3 {
                blog.create_post(&meter, &data.post(k))
                    .await
                    .expect("a post");
            }
            for mut pipeline in Pipeline::of(&blog) {
                pipeline.drain().await.expect("copies");
            }
        }
    });
}

/// Asks for a page again and again until it no longer follows something that runs.
fn settled(browser: &mut Browser, path: &str) -> Page {
    wait_until("the end of what runs", || {
        let page = browser.get(path);
        assert_eq!(page.status, 200, "{}", page.body);
        match page.body.contains("data-poll=") {
            false => Ok(page),
            true => Err(page.body),
        }
    })
}

#[test]
fn a_comparison_is_started_by_its_form_and_can_be_downloaded() {
    let application = application();
    fill(&application);
    let mut browser = application.browser();
    let empty = browser.get("/compare");
    assert!(
        empty
            .body
            .contains("The models of this blog are measured on demand"),
        "{}",
        empty.body
    );
    assert_eq!(browser.get("/compare.csv").status, 404);
    let form = empty.form("/compare").with("runs", "2").with("post", "");
    assert_eq!(
        browser
            .send("/compare", form.clone().without("csrf"))
            .status,
        403
    );

    let running = browser.submit("/compare", form.clone());
    // A fast machine may have finished already.
    let shown = ["being measured", "Measured on"];
    assert!(
        shown.iter().any(|text| running.body.contains(text)),
        "{}",
        running.body
    );
    // A second form does not disturb the comparison that is running.
    assert_eq!(browser.send("/compare", form).status, 303);
    let page = settled(&mut browser, "/compare");
    for text in [">2,063.54<", "pipeline: posts to feed", "C2 delete"] {
        assert!(page.body.contains(text), "{text} in {}", page.body);
    }

    let csv = browser.get("/compare.csv");
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(csv.body.contains("\r\naction,Q6,V3,"), "{}", csv.body);
    let markdown = browser.get("/compare.md");
    assert!(
        markdown
            .body
            .contains("\n| Q6 list the newest posts | V3 |"),
        "{}",
        markdown.body
    );
    let json = browser.get("/compare.json");
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert!(json.body.contains("\"totalRu\""), "{}", json.body);

    // The chapters now show the measured figures.
    let chapter = browser.get("/lesson/6?q6=123&c2=2");
    assert!(chapter.body.contains("value=\"123\"") && chapter.body.contains("class=\"chart\""));
    assert!(!chapter.body.contains("being measured"));
}

#[test]
fn the_models_are_measured_at_the_start_and_each_page_has_three_prices() {
    let mut application = application();
    fill(&application);
    application.measures = true;
    application.serve();
    let mut browser = application.browser();
    let compared = settled(&mut browser, "/compare");
    assert!(compared.body.contains("Measured on"), "{}", compared.body);
    assert!(compared.body.contains("up to 3 runs"), "{}", compared.body);

    // The page was not requested in V1 and V2.
    let page = settled(&mut browser, "/v3");
    for price in ["this page, just now", "this page, measured"] {
        assert!(page.body.contains(price), "{price} in {}", page.body);
    }
    assert!(
        !page.body.contains("the article&#39;s figure"),
        "{}",
        page.body
    );
    // The requests of the measurements belong to no page and to no session.
    let answered = browser.get("/v1");
    assert!(
        answered
            .body
            .contains(&format!("data-ru=\"{}\"", plain(answered.charge())))
    );
    let bars = browser.get("/prices/v3?page=");
    assert!(bars.body.contains("id=\"meter-bars\"") && bars.charge() == 0);
    assert_eq!(browser.get("/prices/v3?page=/posts/none").status, 404);
}

/// Returns a charge in hundredths as pages state it for scripts.
fn plain(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[test]
fn an_item_of_a_model_is_shown_and_one_of_the_application_is_not() {
    let application = application();
    fill(&application);
    let post = Dataset::new(1, 0.000_02).expect("a data set").post(0).id;
    let mut browser = application.browser();
    let item = browser.get(&format!("/v2/items/posts/{post}/{post}"));
    assert_eq!(item.status, 200);
    assert!(item.body.contains("commentCount"), "{}", item.body);
    for absent in [
        "/v2/items/feed/post/none".to_owned(),
        format!("/v2/items/posts/{post}/none"),
        format!("/v2/items/accounts/{post}/{post}"),
        "/v2/items/posts/..%2F..%2Fblog-control/x".to_owned(),
    ] {
        assert_eq!(browser.get(&absent).status, 404, "{absent}");
    }
}

#[test]
fn a_comparison_of_an_unknown_post_says_what_to_do() {
    let application = application();
    fill(&application);
    let mut browser = application.browser();
    let form = browser.get("/compare").form("/compare");
    browser.submit("/compare", form.with("post", "no-such-post"));
    let page = settled(&mut browser, "/compare");
    assert!(
        page.body.contains("there is no post with this id"),
        "{}",
        page.body
    );
}

#[test]
fn the_lab_runs_one_experiment_at_a_time_and_is_reset() {
    let application = application_with(
        &[Model::V3],
        &["--memory", "--enforce-throughput", "on"],
        Throughput::of_each(6_000),
    );
    let mut browser = application.browser();
    let chapter = browser.get("/lesson/7");
    assert!(
        chapter.body.contains("No experiment has run yet"),
        "{}",
        chapter.body
    );
    let form = chapter.form("/lab/start").with("experiment", "hot-key");
    assert_eq!(
        browser
            .send("/lab/start", form.clone().without("csrf"))
            .status,
        403
    );
    let unknown = form.clone().with("experiment", "nothing");
    assert_eq!(browser.send("/lab/start", unknown).status, 404);
    let unbounded = browser.submit("/lab/start", form.clone().with("experiment", "full-key"));
    assert!(
        unbounded.body.contains("would not end"),
        "{}",
        unbounded.body
    );

    let running = browser.submit("/lab/start", form.clone());
    assert!(
        running.body.contains("data-poll=\"/lab/state\""),
        "{}",
        running.body
    );
    let second = browser.submit("/lab/start", form.clone());
    assert!(
        second.body.contains("An experiment is running"),
        "{}",
        second.body
    );
    let ended = settled(&mut browser, "/lab/state");
    assert!(
        ended
            .body
            .contains("of the requests on the hot key were refused"),
        "{}",
        ended.body
    );
    let json = browser.get("/lab/state.json");
    assert!(json.body.contains("\"phase\":\"ended\""), "{}", json.body);

    let again = browser.get("/lesson/7").form("/lab/reset");
    let reset = browser.submit("/lab/reset", again);
    assert!(
        reset.body.contains("No experiment has run yet"),
        "{}",
        reset.body
    );
}

#[test]
fn the_lesson_is_readable_while_the_database_is_gone() {
    let mut application = application();
    let mut browser = application.browser();
    let form = browser.get("/compare").form("/compare");
    let lab = browser.get("/lesson/7").form("/lab/start");
    application.database.kill();
    for path in [
        "/lesson",
        "/lesson/1",
        "/lesson/2",
        "/lesson/3",
        "/lesson/4",
        "/lesson/5",
        "/lesson/8",
    ] {
        assert_eq!(browser.get(path).status, 200, "{path}");
    }
    assert_eq!(browser.get("/lesson/9").status, 404);
    browser.submit("/compare", form);
    let page = settled(&mut browser, "/compare");
    assert!(
        page.body.contains("The database does not answer."),
        "{}",
        page.body
    );
    browser.submit("/lab/start", lab.with("experiment", "split"));
    let page = settled(&mut browser, "/lab/state");
    assert!(
        page.body.contains("The database does not answer."),
        "{}",
        page.body
    );
}
