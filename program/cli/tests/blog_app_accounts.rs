//! The accounts of the blog's application: names, passwords, and forms that are sent again or at
//! the same time.

use crate::application::{Application, Browser, Fields, Page, application};
use orrery_blog::{Meter, Model, Query};
use serde_json::json;
use std::thread;

const PASSWORD: &str = "long enough";

fn sign_up_form(browser: &mut Browser, name: &str) -> Fields {
    let form = browser.get("/signup").form("/signup");
    form.with("username", name).with("password", PASSWORD)
}

fn rename_form(browser: &mut Browser, name: &str) -> Fields {
    let form = browser.get("/profile").form("/profile");
    form.with("username", name)
}

fn rename(browser: &mut Browser, name: &str) -> Page {
    let form = rename_form(browser, name);
    browser.send("/profile", form)
}

/// Returns the status of a new browser's attempt to sign in.
fn sign_in(application: &Application, name: &str, password: &str) -> u16 {
    let mut browser = application.browser();
    let form = browser.get("/signin").form("/signin");
    let form = form.with("username", name).with("password", password);
    browser.send("/signin", form).status
}

/// Sends the form of a new browser at an address.
fn attempt(application: &Application, place: &str, name: &str, password: &str) -> Page {
    let mut browser = application.browser().at(place);
    let form = browser.get("/signin").form("/signin");
    let form = form.with("username", name).with("password", password);
    browser.send("/signin", form)
}

/// Tries wrong passwords from an address until the address must wait.
fn try_until_refused(application: &Application, place: &str, name: &str) -> Page {
    // The wait doubles with each attempt, so that it becomes longer than an attempt takes.
    for _ in 0..40 {
        let answer = attempt(application, place, name, "wrong enough");
        if answer.status != 422 {
            return answer;
        }
    }
    panic!("40 wrong passwords were checked");
}

/// Returns the number of passwords that the application has hashed or compared.
fn passwords_hashed(application: &Application) -> u64 {
    let metrics = application.browser().get("/metrics").body;
    let found = metrics
        .lines()
        .find_map(|line| line.strip_prefix("blog_passwords_hashed_total "));
    found
        .and_then(|number| number.parse().ok())
        .expect("a count")
}

#[test]
fn wrong_passwords_make_their_sender_wait_and_not_the_owner() {
    let application = application();
    application.signed_up("dora");
    let refused = try_until_refused(&application, "10.0.0.1", "dora");
    assert_eq!(refused.status, 429, "{}", refused.body);
    let wait = refused
        .header("retry-after")
        .and_then(|text| text.parse::<u64>().ok());
    assert!(wait.is_some_and(|seconds| seconds >= 1), "{wait:?}");
    // The right password does not help the sender, and what was typed stays in the form.
    let right = attempt(&application, "10.0.0.1", "DORA", PASSWORD);
    assert_eq!(right.status, 429);
    assert_eq!(right.form("/signin").value("username"), "DORA");

    assert_eq!(
        attempt(&application, "10.0.0.2", "dora", PASSWORD).status,
        303
    );
    // The sender may still sign in with a name of their own.
    application.signed_up("eve");
    assert_eq!(
        attempt(&application, "10.0.0.1", "eve", PASSWORD).status,
        303
    );
}

#[test]
fn an_unknown_name_costs_as_much_as_a_wrong_password() {
    let application = application();
    application.signed_up("dora");
    // The first attempt makes the hash that is compared for an unknown name.
    attempt(&application, "10.0.0.1", "dora", "wrong enough");
    let mut counts = Vec::new();
    for name in ["dora", "unknown"] {
        let before = passwords_hashed(&application);
        let answer = attempt(&application, "10.0.0.1", name, "wrong enough");
        assert_eq!(answer.status, 422);
        let own = answer.header("x-orrery-own-charge").map(str::to_owned);
        counts.push((passwords_hashed(&application) - before, own));
    }
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0].0, 1);
}

/// Returns the status of a stranger's attempt to sign in as a user without a password.
fn demo_sign_in(application: &Application, user_id: &str) -> u16 {
    let mut browser = application.browser();
    let form = browser.get("/signin").form("/signin/demo");
    browser
        .send("/signin/demo", form.with("user", user_id))
        .status
}

/// Returns the names that are claimed for a user, in lower case.
fn claims(application: &Application, user_id: &str) -> Vec<String> {
    let control = application.site.control();
    let query =
        Query::new("SELECT VALUE c.id FROM c WHERE c.userId = @id AND STARTSWITH(c.id, 'name-')")
            .with("@id", user_id);
    let own = Meter::new();
    let found = control.client.query_all(&own, &control.accounts, &query);
    let mut names = Vec::new();
    for id in application.wait(found).expect("an answer") {
        let id = id.as_str().unwrap_or_default();
        names.push(id.strip_prefix("name-").unwrap_or_default().to_owned());
    }
    names.sort();
    names
}

/// Returns the stored name of a user, which every model has.
fn stored_name(application: &Application, user_id: &str) -> String {
    let mut names = Vec::new();
    for model in Model::ALL {
        let blog = application.blog(model);
        let user = application.wait(blog.user(&Meter::new(), user_id));
        let user = user.expect("a user");
        names.push(user["username"].as_str().unwrap_or_default().to_owned());
    }
    names.dedup();
    assert_eq!(names.len(), 1, "{names:?}");
    names.remove(0)
}

/// Checks that the user's name, and no other, is claimed and admits the user.
fn check_name(application: &Application, user_id: &str) -> String {
    let name = stored_name(application, user_id);
    assert_eq!(claims(application, user_id), [name.to_lowercase()]);
    assert_eq!(sign_in(application, &name, PASSWORD), 303, "{name}");
    assert_eq!(demo_sign_in(application, user_id), 403, "{name}");
    name
}

/// Sends forms at the same time.
fn send_together(path: &str, forms: Vec<(Browser, Fields)>) -> Vec<u16> {
    let mut threads = Vec::new();
    for (mut browser, form) in forms {
        let path = path.to_owned();
        threads.push(thread::spawn(move || browser.send(&path, form).status));
    }
    let mut statuses = Vec::new();
    for thread in threads {
        statuses.push(thread.join().expect("no panic"));
    }
    statuses
}

/// Creates a user without a password, as the data set does.
fn seeded(application: &Application, user_id: &str, name: &str) {
    let user = orrery_blog::dataset::User {
        id: user_id.to_owned(),
        username: name.to_owned(),
    };
    for model in Model::ALL {
        let blog = application.blog(model);
        let created = application.wait(blog.create_user(&Meter::new(), &user));
        created.expect("a new user");
    }
}

#[test]
fn a_rename_form_that_is_sent_again_after_a_newer_rename_changes_nothing() {
    let application = application();
    let (mut browser, user_id) = application.signed_up("t0x");
    let first = rename_form(&mut browser, "t1x");
    let sent = browser.send("/profile", first.clone());
    assert_eq!(sent.status, 303, "{}", sent.body);
    assert_eq!(rename(&mut browser, "t2x").status, 303);

    let again = browser.send("/profile", first);
    assert_eq!(again.header("location"), sent.header("location"));
    assert_eq!(check_name(&application, &user_id), "t2x");
    assert_eq!(sign_in(&application, "t1x", PASSWORD), 422);
    let profile = browser.get("/profile").form("/profile");
    assert_eq!(profile.value("username"), "t2x");
}

#[test]
fn renames_of_one_user_at_the_same_time_leave_one_name() {
    let application = application();
    let (mut browser, user_id) = application.signed_up("many");
    for round in 0..3 {
        let mut forms = Vec::new();
        for n in 0..6 {
            let name = match n {
                0 => "many".to_owned(),
                n => format!("many-{round}-{}", n % 3),
            };
            let form = rename_form(&mut browser, &name);
            forms.push((browser.clone(), form));
        }
        for status in send_together("/profile", forms) {
            assert_eq!(status, 303);
        }
        check_name(&application, &user_id);
    }
}

#[test]
fn two_users_who_want_one_name_at_the_same_time_do_not_both_get_it() {
    let application = application();
    let (mut one, one_id) = application.signed_up("one");
    let (mut two, two_id) = application.signed_up("two");
    for round in 0..4 {
        // The first user leaves the name that the second user wants.
        let wanted = stored_name(&application, &one_id);
        let leaving = rename_form(&mut one, &format!("one-{round}"));
        let mut forms = vec![(one.clone(), leaving.clone()), (one.clone(), leaving)];
        for _ in 0..4 {
            let form = rename_form(&mut two, &wanted);
            forms.push((two.clone(), form));
        }
        for status in send_together("/profile", forms) {
            assert!(status == 303 || status == 409, "{status}");
        }
        let (one_name, two_name) = (
            check_name(&application, &one_id),
            check_name(&application, &two_id),
        );
        assert_eq!(one_name, format!("one-{round}"));
        assert_ne!(one_name.to_lowercase(), two_name.to_lowercase());
    }
    let mut forms = Vec::new();
    for name in ["Race", "rAce", "raCe", "racE"] {
        let mut browser = application.browser();
        let form = sign_up_form(&mut browser, name);
        forms.push((browser, form));
    }
    let mut statuses = send_together("/signup", forms);
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 409, 409, 409]);
}

#[test]
fn a_sign_up_with_a_token_that_was_used_takes_no_name() {
    let application = application();
    let mut browser = application.browser();
    let form = sign_up_form(&mut browser, "first");
    assert_eq!(browser.send("/signup", form.clone()).status, 303);
    let token = form.value("token").to_owned();

    let mut second = application.browser();
    let form = sign_up_form(&mut second, "second").with("token", &token);
    let answer = second.send("/signup", form);
    assert_eq!(answer.status, 409, "{}", answer.body);
    assert!(answer.body.contains("used before"), "{}", answer.body);
    assert_eq!(sign_in(&application, "second", PASSWORD), 422);
    application.signed_up("second");

    // The token of another write gives no name either.
    let answer = {
        let form = rename_form(&mut browser, "third").with("token", &token);
        browser.send("/profile", form)
    };
    assert_eq!(answer.status, 409, "{}", answer.body);
    let (_, third) = application.signed_up("third");
    check_name(&application, &third);
}

#[test]
fn a_sign_up_form_that_is_sent_again_gives_neither_a_second_name_nor_a_second_password() {
    let application = application();
    let mut browser = application.browser();
    let form = sign_up_form(&mut browser, "before");
    let sent = browser.send("/signup", form.clone());
    assert_eq!(sent.status, 303);
    let profile = browser.get("/profile");
    let user_id = profile.between("/users/", "\"").expect("an id");
    assert_eq!(rename(&mut browser, "after").status, 303);

    let mut other = application.browser();
    let csrf = sign_up_form(&mut other, "before");
    let again = form.clone().with("csrf", csrf.value("csrf"));
    let wrong = again.clone().with("password", "another password");
    let answer = other.send("/signup", wrong);
    assert_eq!(answer.status, 409, "{}", answer.body);
    assert!(answer.body.contains("another password"), "{}", answer.body);
    assert_eq!(check_name(&application, &user_id), "after");
    assert_eq!(sign_in(&application, "after", "another password"), 422);
    assert_eq!(sign_in(&application, "before", PASSWORD), 422);

    // With the same password the answer is the same.
    let answer = other.send("/signup", again);
    assert_eq!(answer.header("location"), sent.header("location"));
    let profile = other.get("/profile").form("/profile");
    assert_eq!(profile.value("username"), "after");
    application.signed_up("before");
}

#[test]
fn a_claim_that_is_not_a_name_of_its_user_admits_nobody_and_is_taken_over() {
    let application = application();
    let (_, user_id) = application.signed_up("holder");
    let control = application.site.control();
    let own = Meter::new();
    // An application that ended between two steps leaves such claims.
    for (name, user) in [("old", user_id.as_str()), ("ghost", "no-such-user")] {
        let id = format!("name-{name}");
        let claim = json!({"id": id, "userId": user});
        let created = control.client.create(&own, &control.accounts, &id, &claim);
        application.wait(created).expect("a new claim");
        assert_eq!(sign_in(&application, name, PASSWORD), 422, "{name}");
        let (_, taker) = application.signed_up(name);
        check_name(&application, &taker);
    }
    check_name(&application, &user_id);
}

#[test]
fn a_sign_up_that_fails_admits_nobody_until_it_is_complete() {
    let application = application();
    let mut browser = application.browser();
    let form = sign_up_form(&mut browser, "slow");
    application.fail(r#"{"database":"blog-control","container":"writes","status":503}"#);
    let answer = browser.send("/signup", form);
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert_eq!(sign_in(&application, "slow", PASSWORD), 422);
    application.heal();
    let form = answer.form("/signup").with("password", PASSWORD);
    assert_eq!(browser.send("/signup", form).status, 303);
    assert_eq!(sign_in(&application, "slow", PASSWORD), 303);
}

#[test]
fn the_demonstration_finds_a_seeded_user_though_a_registered_user_wrote_last() {
    let application = application();
    let seeded_id = "0b52c2d0-1111-4222-8333-0123456789ab";
    seeded(&application, seeded_id, "seeded");
    let (mut browser, user_id) = application.signed_up("writer");
    let form = browser.get("/v3/write").form("/v3/write");
    let form = form.with("title", "Newest").with("content", "text");
    assert_eq!(browser.send("/v3/write", form).status, 303);

    assert_eq!(demo_sign_in(&application, ""), 303);
    assert_eq!(demo_sign_in(&application, &user_id), 403);
    // A seeded user who has another name still has no password.
    let mut visitor = application.browser();
    let form = visitor.get("/signin").form("/signin/demo");
    let answer = visitor.send("/signin/demo", form);
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert_eq!(rename(&mut visitor, "renamed").status, 303);
    assert_eq!(stored_name(&application, seeded_id), "renamed");
    assert_eq!(demo_sign_in(&application, seeded_id), 303);
    assert_eq!(sign_in(&application, "renamed", PASSWORD), 422);
    let mut other = application.browser();
    let form = sign_up_form(&mut other, "RENAMED");
    assert_eq!(other.send("/signup", form).status, 409);
}

#[test]
fn a_text_for_a_post_that_is_deleted_meanwhile_can_be_copied() {
    let application = application();
    let (mut author, _) = application.signed_up("author");
    let form = author.get("/v3/write").form("/v3/write");
    let form = form.with("title", "Short-lived").with("content", "text");
    let answer = author.send("/v3/write", form);
    let location = answer.header("location").expect("a location");
    let post = location.split('?').next().unwrap_or_default().to_owned();
    let comments = format!("{post}/comments");
    let comment = author.get(&post).form(&comments);
    let edit_path = format!("{post}/edit");
    let edit = author.get(&edit_path).form(&edit_path);
    assert_eq!(author.get(&format!("{post}/likes")).status, 200);
    let delete = format!("{post}/delete");
    let form = author.get(&delete).form(&delete);
    assert_eq!(author.send(&delete, form).status, 303);

    let answer = author.send(&comments, comment.with("content", "A long thought"));
    assert_eq!(answer.status, 410);
    assert!(answer.body.contains("A long thought"), "{}", answer.body);
    let answer = author.send(&edit_path, edit.with("content", "A better text"));
    assert_eq!(answer.status, 410);
    assert!(answer.body.contains("A better text"), "{}", answer.body);
    for model in ["v1", "v2", "v3"] {
        let likes = format!("/{model}{}/likes", &post[3..]);
        assert_eq!(author.get(&likes).status, 404, "{likes}");
    }
}

#[test]
fn pages_about_a_wrong_address_speak_of_the_address_only() {
    let application = application();
    let mut browser = application.browser();
    let page = browser.get("/v3/users/0b52c2d0-1111-4222-8333-0123456789ab");
    assert_eq!(page.status, 404);
    assert!(!page.body.contains("deleted"), "{}", page.body);
    for path in ["/v3/posts/%ff", "/%ff"] {
        let page = browser.get(path);
        assert_eq!(page.status, 400, "{path}");
        assert!(page.body.contains("The address is not valid"), "{path}");
    }
}

#[test]
fn a_comparison_with_an_impossible_number_of_runs_is_not_started() {
    let application = application();
    let mut browser = application.browser();
    for typed in ["0", "51", "abc", "-1"] {
        let form = browser.get("/compare").form("/compare");
        let answer = browser.send("/compare", form.with("runs", typed));
        assert_eq!(answer.status, 422, "{typed}");
        assert!(
            answer.body.contains("Enter a whole number from 1 to"),
            "{typed}"
        );
        assert_eq!(answer.form("/compare").value("runs"), typed);
    }
}
