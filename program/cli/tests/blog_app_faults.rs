//! The application of the blog over a database that is throttled, gone, or fails in one model, and
//! under concurrent writes.

use crate::application::{Application, Browser, application};
use orrery_blog::writes::Writes;
use orrery_blog::{Meter, Model};
use serde_json::Value;
use std::collections::BTreeMap;

/// Publishes a post and returns its id.
fn publish(browser: &mut Browser, title: &str) -> String {
    let form = browser.get("/v3/write").form("/v3/write");
    let form = form.with("title", title).with("content", "Text");
    let answer = browser.send("/v3/write", form);
    let location = answer.header("location").expect("a location");
    location.split(['/', '?']).nth(3).expect("an id").to_owned()
}

/// Returns the stored item of a post in a model.
fn stored(application: &Application, model: Model, post: &str) -> Value {
    let blog = application.blog(model);
    application
        .wait(blog.post(&Meter::new(), post))
        .expect("a post")
}

/// Returns all items of `posts` in a model by id, without system properties and without the names
/// and counts that V1 does not store.
fn contents(application: &Application, model: Model) -> BTreeMap<String, Value> {
    let blog = application.blog(model);
    let query = orrery_blog::Query::new("SELECT * FROM c");
    let meter = Meter::new();
    let posts = blog
        .client()
        .query_all(&meter, blog.containers()[1], &query);
    let mut items = BTreeMap::new();
    for mut item in application.wait(posts).expect("all items") {
        let properties = item.as_object_mut().expect("an object");
        properties.retain(|name, _| {
            let is_derived = matches!(name.as_str(), "userUsername" | "commentCount" | "likeCount");
            !is_derived && !name.starts_with('_')
        });
        items.insert(item["id"].as_str().expect("an id").to_owned(), item);
    }
    items
}

/// Checks the stored counts of every post in V2 and V3 against the stored comments and likes.
fn check_counts(application: &Application) {
    let items = contents(application, Model::V1);
    for (id, post) in &items {
        if post["type"] != "post" {
            continue;
        }
        let count = |kind: &str| {
            let is_of = |item: &&Value| item["type"] == kind && item["postId"] == id.as_str();
            items.values().filter(is_of).count() as u64
        };
        for model in [Model::V2, Model::V3] {
            let stored = stored(application, model, id);
            assert_eq!(stored["commentCount"], count("comment"), "{model} {id}");
            assert_eq!(stored["likeCount"], count("like"), "{model} {id}");
        }
    }
}

#[test]
fn a_throttled_database_has_a_page_that_keeps_the_text_and_the_form_can_be_sent_again() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let post = publish(&mut browser, "Title");
    let action = format!("/v3/posts/{post}/comments");
    let form = browser.get(&format!("/v3/posts/{post}")).form(&action);
    let form = form.with("content", "typed <text>");

    application.fail(r#"{"database":"blog-v3","status":429,"retryAfterMilliseconds":2500}"#);
    let answer = browser.send(&action, form.clone());
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.header("retry-after").is_some());
    assert!(
        answer.body.contains("The database is busy"),
        "{}",
        answer.body
    );
    let again = answer.form(&action);
    assert_eq!(again.value("content"), "typed <text>");
    assert_eq!(again.value("token"), form.value("token"));
    let page = browser.get("/v3");
    assert_eq!(page.status, 503);
    assert!(page.header("retry-after").is_some());
    // The other models still answer.
    assert_eq!(browser.get("/v1").status, 200);

    application.heal();
    assert_eq!(browser.submit(&action, again.clone()).status, 200);
    assert_eq!(browser.submit(&action, again).status, 200);
    for model in Model::ALL {
        assert_eq!(
            stored(&application, model, &post)["commentCount"],
            1,
            "{model}"
        );
    }
}

#[test]
fn a_database_that_is_gone_has_a_page_and_no_typed_text_is_lost() {
    let mut application = application();
    let (mut browser, _) = application.signed_up("dora");
    let form = browser.get("/v3/write").form("/v3/write");
    let form = form
        .with("title", "Kept title")
        .with("content", "kept text");
    application.database.kill();
    let answer = browser.send("/v3/write", form.clone());
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("The database does not answer"));
    let again = answer.form("/v3/write");
    assert_eq!(
        (again.value("title"), again.value("content")),
        ("Kept title", "kept text")
    );
    assert_eq!(again.value("token"), form.value("token"));
    let page = application.browser().get("/v3");
    assert_eq!(page.status, 503);
    assert!(page.body.contains("The database does not answer"));
    assert!(!page.body.contains("127.0.0.1"), "{}", page.body);
    assert_eq!(browser.get("/healthz").status, 503);
    assert_eq!(browser.get("/metrics").status, 200);
}

#[test]
fn a_write_that_fails_in_one_model_is_completed_before_the_next_write_to_the_post() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let post = publish(&mut browser, "First title");
    let edit = format!("/v3/posts/{post}/edit");
    application
        .fail(r#"{"database":"blog-v2","operations":["replace_item"],"status":503,"count":1}"#);
    let form = browser.get(&edit).form(&edit).with("title", "Second title");
    assert_eq!(browser.send(&edit, form).status, 303);
    // The first edit is repeated in V2 before the second, so no model ends with the older text.
    let form = browser.get(&edit).form(&edit).with("title", "Third title");
    assert_eq!(browser.send(&edit, form).status, 303);
    for model in Model::ALL {
        assert_eq!(
            stored(&application, model, &post)["title"],
            "Third title",
            "{model}"
        );
    }
}

#[test]
fn a_write_that_was_interrupted_is_completed_at_the_next_start() {
    let application = application();
    let (mut browser, user) = application.signed_up("dora");
    // The process ends between the home model and the others: the journal has a pending operation.
    let id = "11111111-1111-4111-8111-111111111111";
    let item = serde_json::json!({
        "id": id,
        "state": "pending",
        "started": "2026-01-01T00:00:00.0000000Z",
        "operation": {
            "kind": "createPost",
            "postId": id,
            "userId": user,
            "title": "Interrupted",
            "content": "Text",
            "created": "2026-01-01T00:00:00.0000000Z",
        },
    });
    let control = application.site.control().clone();
    let meter = Meter::new();
    let created = control.client.create(&meter, &control.writes, id, &item);
    application.wait(created).expect("a pending operation");

    let writes = Writes::new(application.site.clone());
    assert_eq!(application.wait(writes.recover()), Ok(1));
    assert_eq!(application.wait(writes.recover()), Ok(0));
    for model in Model::ALL {
        assert_eq!(
            stored(&application, model, id)["title"],
            "Interrupted",
            "{model}"
        );
    }
    assert_eq!(browser.get(&format!("/v1/posts/{id}")).status, 200);
}

#[test]
fn edits_and_comments_at_the_same_time_lose_nothing() {
    let application = application();
    let (mut author, _) = application.signed_up("dora");
    let post = publish(&mut author, "Title");
    let mut threads = Vec::new();
    for number in 0..4 {
        let (mut browser, _) = application.signed_up(&format!("visitor{number}"));
        let action = format!("/v2/posts/{post}/comments");
        let page = format!("/v2/posts/{post}");
        threads.push(std::thread::spawn(move || {
            for comment in 0..5 {
                let form = browser.get(&page).form(&action);
                let form = form.with("content", &format!("{comment} of {number}"));
                assert_eq!(browser.send(&action, form).status, 303);
            }
        }));
    }
    let edit = format!("/v1/posts/{post}/edit");
    for number in 0..5 {
        let form = author.get(&edit).form(&edit);
        let form = form.with("title", &format!("Title {number}"));
        assert_eq!(author.send(&edit, form).status, 303);
    }
    for thread in threads {
        thread.join().expect("no failure");
    }
    for model in Model::ALL {
        let post = stored(&application, model, &post);
        assert_eq!(
            (&post["title"], &post["commentCount"]),
            (&"Title 4".into(), &20.into())
        );
    }
    check_counts(&application);
}

/// Returns the next number of a fixed sequence below `bound`.
fn next(state: &mut u64, bound: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

/// Writes at random in all models and returns the posts that exist at the end, with the places of
/// their authors.
fn write_at_random(browsers: &mut [Browser]) -> Vec<(usize, String)> {
    let mut posts: Vec<(usize, String)> = Vec::new();
    let mut state = 7;
    for step in 0..60 {
        let who = next(&mut state, 3) as usize;
        let model = ["v1", "v2", "v3"][next(&mut state, 3) as usize];
        let kind = next(&mut state, 10);
        let target = match posts.len() {
            0 => None,
            length => Some(posts[next(&mut state, length as u64) as usize].clone()),
        };
        let browser = &mut browsers[who];
        match (kind, target) {
            (0..=1, _) | (_, None) => {
                posts.push((who, publish(browser, &format!("Post {step}"))));
            }
            (2..=5, Some((_, post))) => {
                let action = format!("/{model}/posts/{post}/comments");
                let form = browser.get(&format!("/{model}/posts/{post}")).form(&action);
                let form = form.with("content", &format!("comment {step}"));
                assert_eq!(browser.send(&action, form).status, 303);
            }
            (6..=7, Some((_, post))) => {
                let action = format!("/{model}/posts/{post}/likes");
                let form = browser.get(&format!("/{model}/posts/{post}")).form(&action);
                assert_eq!(browser.send(&action, form).status, 303);
            }
            (8, Some((author, post))) => {
                let path = format!("/{model}/posts/{post}/delete");
                let form = browsers[author].get(&path).form(&path);
                assert_eq!(browsers[author].send(&path, form).status, 303);
                posts.retain(|(_, known)| *known != post);
            }
            (_, Some(_)) => {
                let form = browser.get("/profile").form("/profile");
                let form = form.with("username", &format!("renamed{step}"));
                assert_eq!(browser.send("/profile", form).status, 303);
            }
        }
    }
    posts
}

#[test]
fn the_models_have_equal_contents_after_many_writes_and_the_copies_follow() {
    let application = application();
    application.start_pipelines();
    let mut browsers = Vec::new();
    for number in 0..3 {
        browsers.push(application.signed_up(&format!("writer{number}")).0);
    }
    let posts = write_at_random(&mut browsers);
    let expected = contents(&application, Model::V1);
    for model in [Model::V2, Model::V3] {
        assert_eq!(contents(&application, model), expected, "{model}");
    }
    check_counts(&application);

    application.settle();
    for path in ["", "/feed.atom"] {
        let titles = |page: &str| -> Vec<String> {
            let mut titles = Vec::new();
            for part in page.split("Post ").skip(1) {
                titles.push(part.chars().take_while(char::is_ascii_digit).collect());
            }
            titles
        };
        let first = titles(&browsers[0].get(&format!("/v1{path}")).body);
        assert_eq!(first.len(), posts.len());
        for model in ["v2", "v3"] {
            let shown = titles(&browsers[0].get(&format!("/{model}{path}")).body);
            assert_eq!(shown, first, "{model}{path}");
        }
    }
    for (_, post) in &posts {
        let names: Vec<Value> = Model::ALL
            .iter()
            .map(|model| stored(&application, *model, post)["userUsername"].clone())
            .collect();
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    }
}

#[test]
fn a_write_shows_the_work_of_the_pipelines_that_followed() {
    let application = application();
    application.start_pipelines();
    let (mut browser, _) = application.signed_up("dora");
    let form = browser.get("/v3/write").form("/v3/write");
    let form = form.with("title", "Followed").with("content", "Text");
    let answer = browser.send("/v3/write", form);
    let receipt = answer
        .header("location")
        .and_then(|to| to.split("done=").nth(1));
    let receipt = receipt.expect("a receipt").to_owned();
    application.settle();
    let shown = browser.get(&format!("/consequences/{receipt}?model=v3"));
    assert_eq!(shown.status, 200);
    for text in ["posts to users", "posts to feed", "id=\"consequences\""] {
        assert!(shown.body.contains(text), "{text} in {}", shown.body);
    }
    assert!(
        !shown.body.contains("waiting for the change feed"),
        "{}",
        shown.body
    );
    let json = [("accept", "application/json")];
    let path = format!("/consequences/{receipt}?model=v3");
    let body = browser.request("GET", &path, &json, "").body;
    let work: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(work["reactions"].as_array().map(Vec::len), Some(2));
    // The write and its copies together cost more than the write.
    let total = (work["ru"].as_f64().expect("a sum") * 100.0).round() as u64;
    assert!(total > answer.charge(), "{total}");
    let quiet = browser.get(&format!("/consequences/{receipt}?model=v1"));
    assert!(quiet.body.contains("nothing follows"), "{}", quiet.body);
    assert_eq!(browser.get("/consequences/forged").status, 404);

    let pipelines = browser.get("/pipelines");
    assert_eq!(pipelines.status, 200);
    assert!(pipelines.body.contains("copyToFeed"), "{}", pipelines.body);
    assert!(browser.get("/metrics").body.contains("blog_pipeline_"));
}
