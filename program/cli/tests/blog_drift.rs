//! The comparison of a blog's copies finds every kind of difference and names it.

use crate::blog_users::{client, start_pipelines, throughput};
use crate::program::{Server, start};
use orrery_blog::writes::{Outcome, WriteOperation, Writes, derived_id};
use orrery_blog::{Blog, Meter, Model, Site, drift};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Posts of the test's site: more than fit into the feed.
const POSTS: usize = 103;

/// Options of a comparison that waits for nothing: no copy is on its way.
const AT_ONCE: drift::Options = drift::Options {
    patience: Duration::ZERO,
    differences_max: 100,
};

/// A site with all models, equal contents and nobody who writes.
async fn quiet_site(server: &Server) -> Site {
    let site = Site::open_or_create(client(server), "blog", Model::V3, false, throughput())
        .await
        .expect("the site is created");
    for model in Model::ALL {
        site.blog(model).create().await.expect("it is created");
    }
    let pipelines = start_pipelines(&site);
    let writes = Writes::new(site.clone());
    for user in ["ann", "bob"] {
        submit(
            &writes,
            user,
            WriteOperation::SignUp {
                user_id: user.into(),
                username: format!("{user}'s name"),
            },
        )
        .await;
    }
    for number in 0..POSTS {
        submit(
            &writes,
            &format!("post {number}"),
            WriteOperation::CreatePost {
                post_id: format!("p{number:03}"),
                user_id: "ann".into(),
                title: format!("title {number}"),
                content: "a content of more than thirty-five characters".into(),
                created: format!("2026-01-01T00:00:00.{number:07}Z"),
            },
        )
        .await;
    }
    for number in 0..3 {
        submit(
            &writes,
            &format!("comment {number}"),
            WriteOperation::Comment {
                comment_id: format!("c{number}"),
                post_id: "p050".into(),
                user_id: "bob".into(),
                content: "well".into(),
                created: "2026-01-02T00:00:00.0000000Z".into(),
            },
        )
        .await;
    }
    submit(&writes, "like", WriteOperation::like("p050", "bob")).await;
    submit(
        &writes,
        "delete",
        WriteOperation::DeletePost {
            post_id: "p102".into(),
            user_id: "ann".into(),
        },
    )
    .await;
    pipelines.settled().await.expect("the pipelines end");
    pipelines.stop().await;
    site
}

async fn submit(writes: &Writes, token: &str, operation: WriteOperation) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let receipt = writes
        .submit(token, operation, &Meter::new(), deadline)
        .await;
    assert_eq!(receipt.expect("it is written").outcome, Outcome::Done);
}

/// A place in a model: a container, a partition key and an id.
struct Place {
    model: Model,
    container: &'static str,
    key: &'static str,
    id: &'static str,
}

impl Place {
    fn link(&self, blog: &Blog) -> String {
        format!("dbs/{}/colls/{}", blog.database(), self.container)
    }

    async fn read(&self, site: &Site) -> Value {
        let blog = site.blog(self.model);
        let (client, link) = (blog.client(), self.link(&blog));
        let item = client.read(&Meter::new(), &link, self.key, self.id).await;
        item.expect("the item exists")
    }

    async fn write(&self, site: &Site, item: &Value) {
        let blog = site.blog(self.model);
        let (client, link) = (blog.client(), self.link(&blog));
        client
            .upsert(&Meter::new(), &link, self.key, item, None)
            .await
            .expect("the item is written");
    }

    async fn delete(&self, site: &Site) {
        let blog = site.blog(self.model);
        let (client, link) = (blog.client(), self.link(&blog));
        client
            .delete(&Meter::new(), &link, self.key, self.id, None)
            .await
            .expect("the item is deleted");
    }
}

const fn at(model: Model, container: &'static str, key: &'static str, id: &'static str) -> Place {
    Place {
        model,
        container,
        key,
        id,
    }
}

/// Returns the differences of a model as text, one in each line.
async fn differences(site: &Site, models: &[Model]) -> String {
    let report = drift::check(site, models, &AT_ONCE).await;
    let report = report.expect("it compares");
    assert_eq!(report.is_equal(), report.differences.is_empty());
    let lines: Vec<String> = report
        .differences
        .iter()
        .map(|d| format!("{} {}: {}", d.model, d.item, d.text))
        .collect();
    lines.join("\n")
}

/// Changes an item, checks that the comparison finds exactly `expected`, and restores the item.
async fn plant(site: &Site, place: Place, change: impl Fn(&mut Value), expected: &str) {
    let before = place.read(site).await;
    let mut item = before.clone();
    change(&mut item);
    place.write(site, &item).await;
    assert_eq!(differences(site, &Model::ALL).await, expected);
    place.write(site, &before).await;
}

/// Deletes an item, checks that the comparison finds exactly `expected`, and restores the item.
async fn remove(site: &Site, place: Place, expected: &str) {
    let before = place.read(site).await;
    place.delete(site).await;
    assert_eq!(differences(site, &Model::ALL).await, expected);
    place.write(site, &before).await;
}

/// Adds an item, checks that the comparison finds exactly `expected`, and deletes the item.
async fn add(site: &Site, place: Place, item: Value, expected: &str) {
    place.write(site, &item).await;
    assert_eq!(differences(site, &Model::ALL).await, expected);
    place.delete(site).await;
}

#[test]
fn a_comparison_finds_every_kind_of_difference() {
    let server = start(&["--memory"]).expect("it starts");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let site = quiet_site(&server).await;
        assert_eq!(differences(&site, &Model::ALL).await, "");
        names_and_counts(&site).await;
        short_copies(&site).await;
        feed(&site).await;
        contents(&site).await;
        assert_eq!(differences(&site, &Model::ALL).await, "");
    });
}

async fn names_and_counts(site: &Site) {
    plant(
        site,
        at(Model::V2, "posts", "p050", "c1"),
        |item| item["userUsername"] = "old".into(),
        "V2 comment c1 of post p050: userUsername is \"old\", and the user's name is \
         \"bob's name\"",
    )
    .await;
    plant(
        site,
        at(Model::V2, "posts", "p050", "p050"),
        |item| item["commentCount"] = 2.into(),
        "V2 post p050: commentCount is 2, and there are 3",
    )
    .await;
    plant(
        site,
        at(Model::V2, "posts", "p050", "p050"),
        |item| item["likeCount"] = Value::Null,
        "V2 post p050: likeCount is null, and there are 1",
    )
    .await;
}

async fn short_copies(site: &Site) {
    let copy = || at(Model::V3, "users", "ann", "p001");
    plant(
        site,
        copy(),
        |item| item["title"] = "old".into(),
        "V3 short copy of post p001: title is \"old\" instead of \"title 1\"",
    )
    .await;
    remove(site, copy(), "V3 short copy of post p001: missing").await;
    add(
        site,
        at(Model::V3, "users", "bob", "gone"),
        json!({"id": "gone", "type": "post", "userId": "bob"}),
        "V3 short copy of post gone at user \"bob\": surplus",
    )
    .await;
}

async fn feed(site: &Site) {
    let copy = || at(Model::V3, "feed", "post", "p050");
    plant(
        site,
        copy(),
        |item| item["commentCount"] = 0.into(),
        "V3 post p050 in the feed: commentCount is 0 instead of 3",
    )
    .await;
    remove(
        site,
        copy(),
        "V3 feed: 99 posts instead of 100\nV3 post p050 in the feed: missing",
    )
    .await;
    // The oldest of the 102 posts, which is not one of the newest.
    let older = at(Model::V3, "users", "ann", "p000").read(site).await;
    let mut older = older;
    older
        .as_object_mut()
        .expect("an item")
        .retain(|name, _| !name.starts_with('_'));
    add(
        site,
        at(Model::V3, "feed", "post", "p000"),
        older,
        "V3 feed: 101 posts instead of 100\n\
         V3 post p000 in the feed: surplus: the post is not one of the 100 newest",
    )
    .await;
}

async fn contents(site: &Site) {
    plant(
        site,
        at(Model::V2, "posts", "p007", "p007"),
        |item| item["content"] = "other".into(),
        "V2 post p007: content is \"other\" instead of \"a content of more than thirty-five \
         characters\"",
    )
    .await;
    let like = derived_id(&["like", "p050", "bob"]);
    let expected = format!(
        "V2 comment c0 of post p050: there is no user bob\n\
         V2 comment c1 of post p050: there is no user bob\n\
         V2 comment c2 of post p050: there is no user bob\n\
         V2 like {like} of post p050: there is no user bob\n\
         V2 user bob: missing"
    );
    remove(site, at(Model::V2, "users", "bob", "bob"), &expected).await;
    add(
        site,
        at(Model::V1, "posts", "p050", "c9"),
        json!({"id": "c9", "type": "comment", "postId": "p050", "userId": "bob", "content": "?"}),
        "V2 comment c9 of post p050: missing\nV3 comment c9 of post p050: missing",
    )
    .await;
    // Comments of a deleted post.
    add(
        site,
        at(Model::V1, "posts", "p102", "c9"),
        json!({"id": "c9", "type": "comment", "postId": "p102", "userId": "bob", "content": "?"}),
        "V1 comment c9 of post p102: the post was deleted",
    )
    .await;
}

#[test]
fn a_comparison_waits_for_copies_that_are_on_their_way() {
    let server = start(&["--memory"]).expect("it starts");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let site = quiet_site(&server).await;
        let place = at(Model::V3, "posts", "p003", "p003");
        let mut post = place.read(&site).await;
        post["likeCount"] = 1.into();
        place.write(&site, &post).await;
        let options = drift::Options {
            patience: Duration::from_secs(60),
            ..AT_ONCE
        };
        let models = [Model::V3];
        let compared = drift::check(&site, &models, &options);
        let repaired = async {
            post["likeCount"] = 0.into();
            place.write(&site, &post).await;
        };
        let (report, ()) = tokio::join!(compared, repaired);
        let report = report.expect("it compares");
        assert!(report.is_equal(), "{report}");
    });
}
