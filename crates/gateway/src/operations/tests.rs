//! Which operation a request is.

use super::*;
use crate::headers::FeedMode;
use orrery_engine::request::ScriptKind;

fn name(
    target: Target,
    method: &str,
    headers: RequestHeaders,
) -> std::result::Result<&'static str, u16> {
    choose(target, method, &headers)
        .map(|operation| operation.name)
        .map_err(|error| error.status())
}

#[test]
fn headers_tell_posts_to_the_items_apart_in_the_order_of_the_service() {
    let post = |headers| name(Target::Items, "POST", headers);
    assert_eq!(post(RequestHeaders::default()), Ok("create_item"));
    assert_eq!(
        post(RequestHeaders {
            upsert: true,
            ..RequestHeaders::default()
        }),
        Ok("upsert_item")
    );
    assert_eq!(
        post(RequestHeaders {
            query: true,
            upsert: true,
            ..RequestHeaders::default()
        }),
        Ok("query_items")
    );
    assert_eq!(
        post(RequestHeaders {
            content: Content::Query,
            ..RequestHeaders::default()
        }),
        Ok("query_items")
    );
    assert_eq!(
        post(RequestHeaders {
            content: Content::Sql,
            ..RequestHeaders::default()
        }),
        Ok("query_items")
    );
    assert_eq!(
        post(RequestHeaders {
            batch: true,
            query: true,
            ..RequestHeaders::default()
        }),
        Ok("execute_batch")
    );
    let everything = RequestHeaders {
        plan: true,
        batch: true,
        query: true,
        content: Content::Query,
        ..RequestHeaders::default()
    };
    assert_eq!(post(everything), Ok("query_plan"));
}

#[test]
fn a_read_feed_with_a_im_is_a_change_feed_and_head_is_a_get() {
    assert_eq!(
        name(Target::Items, "GET", RequestHeaders::default()),
        Ok("read_items")
    );
    assert_eq!(
        name(
            Target::Items,
            "GET",
            RequestHeaders {
                change_feed: Some(FeedMode::LatestVersion),
                ..RequestHeaders::default()
            }
        ),
        Ok("query_change_feed")
    );
    assert_eq!(
        name(Target::Item, "HEAD", RequestHeaders::default()),
        Ok("read_item")
    );
    assert_eq!(
        name(
            Target::Items,
            "POST",
            RequestHeaders {
                change_feed: Some(FeedMode::LatestVersion),
                ..RequestHeaders::default()
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
            RequestHeaders::default()
        ),
        Ok("execute_stored_procedure")
    );
    assert_eq!(
        name(
            Target::Scripts(ScriptKind::Procedure),
            "POST",
            RequestHeaders::default()
        ),
        Ok("create_script")
    );
}

#[test]
fn unknown_methods_are_405_and_what_is_not_offered_400() {
    assert_eq!(
        name(Target::Database, "PUT", RequestHeaders::default()),
        Err(405)
    );
    assert_eq!(
        name(Target::Account, "POST", RequestHeaders::default()),
        Err(405)
    );
    assert_eq!(
        name(Target::Item, "PATCH", RequestHeaders::default()),
        Ok("patch_item")
    );
    let refused = Target::Refused("Being in two places");
    let error = choose(refused, "GET", &RequestHeaders::default())
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
    let headers = || RequestHeaders {
        pre_trigger: Some("check".into()),
        ..RequestHeaders::default()
    };
    assert_eq!(name(Target::Items, "POST", headers()), Ok("create_item"));
    assert_eq!(name(Target::Item, "GET", headers()), Ok("read_item"));
    assert_eq!(name(Target::Databases, "POST", headers()), Err(400));
}
