//! Which operation a request is.

use super::*;
use crate::headers::FeedMode;
use orrery_engine::request::ScriptKind;

fn name(target: Target, method: &str, ask: Ask) -> std::result::Result<&'static str, u16> {
    choose(target, method, &ask)
        .map(|operation| operation.name)
        .map_err(|error| error.status())
}

#[test]
fn headers_tell_posts_to_the_items_apart_in_the_order_of_the_service() {
    let post = |ask| name(Target::Items, "POST", ask);
    assert_eq!(post(Ask::default()), Ok("create_item"));
    assert_eq!(
        post(Ask {
            upsert: true,
            ..Ask::default()
        }),
        Ok("upsert_item")
    );
    assert_eq!(
        post(Ask {
            query: true,
            upsert: true,
            ..Ask::default()
        }),
        Ok("query_items")
    );
    assert_eq!(
        post(Ask {
            content: Content::Query,
            ..Ask::default()
        }),
        Ok("query_items")
    );
    assert_eq!(
        post(Ask {
            content: Content::Sql,
            ..Ask::default()
        }),
        Ok("query_items")
    );
    assert_eq!(
        post(Ask {
            batch: true,
            query: true,
            ..Ask::default()
        }),
        Ok("execute_batch")
    );
    let everything = Ask {
        plan: true,
        batch: true,
        query: true,
        content: Content::Query,
        ..Ask::default()
    };
    assert_eq!(post(everything), Ok("query_plan"));
}

#[test]
fn a_read_feed_with_a_im_is_a_change_feed_and_head_is_a_get() {
    assert_eq!(name(Target::Items, "GET", Ask::default()), Ok("read_items"));
    assert_eq!(
        name(
            Target::Items,
            "GET",
            Ask {
                change_feed: Some(FeedMode::LatestVersion),
                ..Ask::default()
            }
        ),
        Ok("query_change_feed")
    );
    assert_eq!(name(Target::Item, "HEAD", Ask::default()), Ok("read_item"));
    assert_eq!(
        name(
            Target::Items,
            "POST",
            Ask {
                change_feed: Some(FeedMode::LatestVersion),
                ..Ask::default()
            }
        ),
        Err(400)
    );
}

#[test]
fn a_post_to_a_procedure_runs_it_and_to_a_trigger_does_not_exist() {
    assert_eq!(
        name(
            Target::Script(ScriptKind::Procedure),
            "POST",
            Ask::default()
        ),
        Ok("execute_stored_procedure")
    );
    assert_eq!(
        name(
            Target::Scripts(ScriptKind::Procedure),
            "POST",
            Ask::default()
        ),
        Ok("create_script")
    );
}

#[test]
fn unknown_methods_are_405_and_what_is_not_offered_400() {
    assert_eq!(name(Target::Database, "PUT", Ask::default()), Err(405));
    assert_eq!(name(Target::Account, "POST", Ask::default()), Err(405));
    assert_eq!(
        name(Target::Item, "PATCH", Ask::default()),
        Ok("patch_item")
    );
    let refused = Target::Refused("Being in two places");
    let error = choose(refused, "GET", &Ask::default())
        .map(|o| o.name)
        .expect_err("refused");
    assert_eq!(error.status(), 400);
    assert!(
        error
            .message()
            .starts_with("Being in two places is not supported")
    );
}

#[test]
fn triggers_surround_writes_of_items_only() {
    let ask = || Ask {
        pre_trigger: Some("check".into()),
        ..Ask::default()
    };
    assert_eq!(name(Target::Items, "POST", ask()), Ok("create_item"));
    assert_eq!(name(Target::Item, "GET", ask()), Ok("read_item"));
    assert_eq!(name(Target::Databases, "POST", ask()), Err(400));
}
