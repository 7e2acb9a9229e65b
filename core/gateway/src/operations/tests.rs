//! The table of operations, and the choice between its rows.

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

/// Returns the form of every row for a method of a target, in the order of the table.
fn forms(target: Target, method: &str) -> Vec<Form> {
    let rows = ROWS.iter().filter(|row| row.target == target);
    rows.map(|row| row.form)
        .filter(|form| form.methods().contains(&method))
        .collect()
}

#[test]
fn every_method_of_every_route_ends_with_a_row_that_matches_any_headers() {
    for route in route::ROUTES {
        let methods = allowed_methods(route.target);
        assert!(!methods.is_empty(), "{:?} has no operation", route.pattern);
        for method in methods {
            let forms = forms(route.target, method);
            let is_catch_all = |form: &Form| form.matches_headers(&RequestHeaders::default());
            let (last, others) = forms.split_last().expect("a row");
            assert!(is_catch_all(last), "{method} {:?}", route.pattern);
            // A row behind a row that matches everything would never be chosen.
            assert!(
                !others.iter().any(is_catch_all),
                "{method} {:?}",
                route.pattern
            );
        }
    }
}

#[test]
fn every_row_has_a_route_and_every_operation_a_name_of_its_own() {
    for row in ROWS {
        assert!(route::ROUTES.iter().any(|route| route.target == row.target));
    }
    let mut names: Vec<&str> = Operation::all().map(Operation::name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for name in names {
        let found = Operation::from_name(name).expect(name);
        assert_eq!(found.name(), name);
    }
}

#[test]
fn each_kind_of_resource_has_operations_of_its_own() {
    let create = |target| name(target, "POST", RequestHeaders::default());
    assert_eq!(create(USERS), Ok("create_user"));
    assert_eq!(create(PERMISSIONS), Ok("create_permission"));
    assert_eq!(create(KEYS), Ok("create_client_encryption_key"));
    assert_eq!(create(TRIGGERS), Ok("create_trigger"));
    assert_eq!(create(UDFS), Ok("create_user_defined_function"));
    assert_eq!(name(KEY, "DELETE", RequestHeaders::default()), Err(405));
    assert_eq!(name(TRIGGER, "POST", RequestHeaders::default()), Err(405));
}

#[test]
fn a_405_lists_the_methods_of_the_path() {
    assert_eq!(
        allowed_methods(Target::Item),
        ["GET", "HEAD", "PUT", "PATCH", "DELETE"]
    );
    assert_eq!(allowed_methods(Target::Items), ["GET", "HEAD", "POST"]);
    assert_eq!(
        allowed_methods(PROCEDURE),
        ["GET", "HEAD", "PUT", "DELETE", "POST"]
    );
    assert_eq!(allowed_methods(KEY), ["GET", "HEAD", "PUT"]);
    assert!(is_allowed(Target::Item, "HEAD") && !is_allowed(Target::Item, "POST"));
    assert!(!is_allowed(Target::Item, "BREW"));
}

#[test]
fn headers_distinguish_posts_to_items_in_the_order_of_the_service() {
    let post = |headers| name(Target::Items, "POST", headers);
    assert_eq!(post(RequestHeaders::default()), Ok("create_item"));
    assert_eq!(
        post(RequestHeaders {
            is_upsert: true,
            ..RequestHeaders::default()
        }),
        Ok("upsert_item")
    );
    assert_eq!(
        post(RequestHeaders {
            is_query: true,
            is_upsert: true,
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
            is_batch: true,
            is_query: true,
            ..RequestHeaders::default()
        }),
        Ok("execute_batch")
    );
    let everything = RequestHeaders {
        is_query_plan: true,
        is_batch: true,
        is_query: true,
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
        Ok("create_stored_procedure")
    );
}

#[test]
fn unknown_methods_are_405_and_operations_that_are_not_offered_400() {
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
    let error = choose(Target::Truncation, "POST", &RequestHeaders::default())
        .map(|o| o.name)
        .expect_err("refused");
    assert_eq!(error.status(), 400);
    assert!(
        error
            .message()
            .starts_with("Emptying a container (collectiontruncate) is not supported")
    );
}

#[test]
fn only_writes_of_items_may_name_triggers() {
    let headers = || RequestHeaders {
        pre_trigger: Some("check".into()),
        ..RequestHeaders::default()
    };
    assert_eq!(name(Target::Items, "POST", headers()), Ok("create_item"));
    assert_eq!(name(Target::Item, "GET", headers()), Ok("read_item"));
    assert_eq!(name(Target::Databases, "POST", headers()), Err(400));
}
