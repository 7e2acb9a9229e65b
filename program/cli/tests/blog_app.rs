//! The application of the blog over HTTP: what visitors see and write.

use crate::application::{Application, Browser, Fields, application, application_with};
use orrery_blog::{Meter, Model, Throughput};

/// Publishes a post in a model and returns its id.
fn publish(browser: &mut Browser, model: &str, title: &str, content: &str) -> String {
    let path = format!("/{model}/write");
    let form = browser.get(&path).form(&path);
    let page = browser.submit(&path, form.with("title", title).with("content", content));
    assert_eq!(page.status, 200);
    page.between(&format!("action=\"/{model}/posts/"), "/likes\"")
        .expect("the page of the post")
}

/// Returns the form for a comment on a post.
fn comment_form(browser: &mut Browser, post: &str) -> (String, Fields) {
    let action = format!("/v3/posts/{post}/comments");
    let form = browser.get(&format!("/v3/posts/{post}")).form(&action);
    (action, form)
}

/// Returns the counts of a post in a model: comments, likes.
fn counts(application: &Application, model: Model, post: &str) -> (u64, u64) {
    let blog = application.blog(model);
    let post = application
        .wait(blog.post(&Meter::new(), post))
        .expect("a post");
    let count = |name: &str| post[name].as_u64().expect("a count");
    (count("commentCount"), count("likeCount"))
}

#[test]
fn a_visitor_signs_up_writes_comments_likes_and_sees_the_same_in_every_model() {
    let application = application();
    let (mut browser, user) = application.signed_up("Dora.1");
    let post = publish(&mut browser, "v3", "A first post", "Some *text*.");
    let (action, form) = comment_form(&mut browser, &post);
    browser.submit(&action, form.with("content", "A first comment"));
    let likes = format!("/v3/posts/{post}/likes");
    let form = browser.get(&format!("/v3/posts/{post}")).form(&likes);
    let page = browser.submit(&likes, form);
    assert!(page.body.contains("Liked"), "{}", page.body);

    for model in ["v1", "v2", "v3"] {
        let page = browser.get(&format!("/{model}/posts/{post}"));
        assert_eq!(page.status, 200, "{model}");
        for text in [
            "A first post",
            "<em>text</em>",
            "A first comment",
            "1 like<",
            "1 comment<",
            "Dora.1",
        ] {
            assert!(page.body.contains(text), "{model}: {text} in {}", page.body);
        }
        let liked = browser.get(&format!("/{model}/posts/{post}/likes"));
        assert!(liked.body.contains("Dora.1"), "{model}");
        assert_eq!(browser.get(&format!("/{model}/users/{user}")).status, 200);
    }
    for model in Model::ALL {
        assert_eq!(counts(&application, model, &post), (1, 1), "{model}");
    }
    for model in ["v1", "v2"] {
        assert!(
            browser
                .get(&format!("/{model}"))
                .body
                .contains("A first post")
        );
        let feed = browser.get(&format!("/{model}/feed.atom"));
        assert!(feed.body.contains("A first post") && feed.body.contains("urn:uuid:"));
    }
}

#[test]
fn a_form_that_is_sent_twice_writes_once_and_gets_the_same_answer() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let form = browser.get("/v3/write").form("/v3/write");
    let form = form.with("title", "Once").with("content", "Text");
    let first = browser.send("/v3/write", form.clone());
    let second = browser.send("/v3/write", form.clone());
    assert_eq!(first.status, 303);
    assert_eq!(first.header("location"), second.header("location"));

    let post = first
        .header("location")
        .and_then(|to| to.split(['/', '?']).nth(3));
    let post = post.expect("an id").to_owned();
    let (action, form) = comment_form(&mut browser, &post);
    let form = form.with("content", "Twice");
    let mut others = Vec::new();
    for _ in 0..4 {
        let (mut other, action, form) = (browser.clone(), action.clone(), form.clone());
        others.push(std::thread::spawn(move || {
            let answer = other.send(&action, form);
            answer.header("location").map(str::to_owned)
        }));
    }
    let mut answers = Vec::new();
    for other in others {
        answers.push(other.join().expect("it ends").expect("a location"));
    }
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );

    let likes = format!("/v3/posts/{post}/likes");
    for _ in 0..3 {
        // Three forms with three tokens: the like is a function of post and user.
        let form = browser.get(&format!("/v3/posts/{post}")).form(&likes);
        browser.submit(&likes, form);
    }
    for model in Model::ALL {
        assert_eq!(counts(&application, model, &post), (1, 1), "{model}");
    }
    assert_eq!(
        browser
            .get("/v1")
            .body
            .matches("<h2 dir=\"auto\"><a")
            .count(),
        1
    );
}

#[test]
fn the_same_token_with_another_text_is_refused_and_the_new_text_is_kept() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let form = browser.get("/v3/write").form("/v3/write");
    browser.send(
        "/v3/write",
        form.clone().with("title", "First").with("content", "one"),
    );
    let second = form.with("title", "Second").with("content", "two");
    let answer = browser.send("/v3/write", second.clone());
    assert_eq!(answer.status, 409);
    let again = answer.form("/v3/write");
    assert_eq!(
        (again.value("title"), again.value("content")),
        ("Second", "two")
    );
    assert_ne!(again.value("token"), second.value("token"));
    assert_eq!(browser.submit("/v3/write", again).status, 200);
    assert_eq!(
        browser
            .get("/v1")
            .body
            .matches("<h2 dir=\"auto\"><a")
            .count(),
        2
    );
}

#[test]
fn forms_of_other_sites_and_of_other_sessions_are_refused() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let form = browser.get("/v3/write").form("/v3/write");
    let form = form.with("title", "Forged").with("content", "text");
    for forged in [form.clone().without("csrf"), form.clone().with("csrf", "x")] {
        let answer = browser.send("/v3/write", forged);
        assert_eq!(answer.status, 403);
        assert_eq!(answer.form("/v3/write").value("title"), "Forged");
    }
    let body = "title=a&content=b";
    let content_type = ("content-type", "application/x-www-form-urlencoded");
    for header in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let answer = browser.request("POST", "/v3/write", &[content_type, header], body);
        assert_eq!(answer.status, 403, "{header:?}");
    }
    // A form without a token, or with one that is no token, writes nothing.
    for forged in [form.clone().without("token"), form.with("token", "../x")] {
        assert_eq!(browser.send("/v3/write", forged).status, 403);
    }
    let (mut other, _) = application.signed_up("other");
    let form = other.get("/v3/write").form("/v3/write");
    let answer = browser.send("/v3/write", form.with("title", "a").with("content", "b"));
    assert_eq!(answer.status, 403);
    assert_eq!(
        browser
            .get("/v1")
            .body
            .matches("<h2 dir=\"auto\"><a")
            .count(),
        0
    );
}

#[test]
fn forged_ids_positions_models_and_bodies_have_clear_pages() {
    let application = application();
    let (mut browser, user) = application.signed_up("dora");
    let post = publish(&mut browser, "v3", "Title", "Text");
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (path, status) in [
        (format!("/v3/posts/{unknown}"), 404),
        ("/v3/posts/..%2f..%2fdbs".to_owned(), 404),
        (format!("/v3/users/{unknown}"), 404),
        (format!("/v1/posts/{post}%00"), 404),
        ("/v4".to_owned(), 404),
        ("/V3".to_owned(), 404),
        ("/nothing/here".to_owned(), 404),
        (format!("/v3/posts/{post}?after=forged"), 400),
        (format!("/v3/posts/{post}?after=WyJmb3JnZWQiXQ"), 400),
        (
            format!("/v2/users/{user}?after=WyIwIiwiIiwiZm9yZ2VkIl0"),
            400,
        ),
        (format!("/v1/users/{user}?after=bm8"), 400),
        (format!("/v3/posts/{post}?done=forged"), 200),
        (format!("/v3/posts/{post}?done={unknown}"), 200),
        ("/assets/..%2fCargo.toml".to_owned(), 404),
    ] {
        let page = browser.get(&path);
        assert_eq!(page.status, status, "{path}: {}", page.body);
    }
    let json = [("content-type", "application/json")];
    assert_eq!(
        browser.request("POST", "/v3/write", &json, "{}").status,
        415
    );
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(
        browser
            .request("POST", "/v3/write", &form, "%zz=%ff")
            .status,
        403
    );
    let huge = "a".repeat(3 << 20);
    assert_eq!(
        browser.request("POST", "/v3/write", &form, &huge).status,
        413
    );
    // A user cannot edit or delete the post of another one.
    let (mut other, _) = application.signed_up("other");
    for action in ["edit", "delete"] {
        let path = format!("/v3/posts/{post}/{action}");
        assert_eq!(other.get(&path).status, 403, "{action}");
        let own = other.get("/v3/write").form("/v3/write");
        let answer = other.send(&path, own.with("title", "a").with("content", "b"));
        assert_eq!(answer.status, 403, "{action}: {}", answer.body);
    }
    assert!(
        browser
            .get(&format!("/v3/posts/{post}"))
            .body
            .contains("Title")
    );
}

#[test]
fn texts_with_markup_are_shown_and_not_run() {
    let application = application();
    let (mut browser, user) = application.signed_up("dora");
    let attack = "<script>alert(1)</script><img src=x onerror=alert(1)>";
    let content = format!("{attack}\n\n[x](javascript:alert(1))");
    let post = publish(&mut browser, "v3", attack, &content);
    let (action, form) = comment_form(&mut browser, &post);
    browser.submit(&action, form.with("content", attack));
    for path in [
        format!("/v1/posts/{post}"),
        format!("/v3/posts/{post}"),
        format!("/v3/posts/{post}/edit"),
        format!("/v3/posts/{post}/delete"),
        "/v1".to_owned(),
        "/v2/feed.atom".to_owned(),
        format!("/v2/users/{user}"),
        format!("/signin?next=%22%3E{attack}").replace(' ', "%20"),
    ] {
        let page = browser.get(&path);
        for forbidden in ["<script>alert", "<img src=x", "href=\"javascript"] {
            assert!(!page.body.contains(forbidden), "{path}: {}", page.body);
        }
    }
    let page = browser.get(&format!("/v3/posts/{post}"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert!(!page.body.contains("style=") && !page.body.contains("<script>"));
    let next = browser.get("/signin?next=//evil.example").form("/signin");
    assert_eq!(next.value("next"), "");
}

#[test]
fn mistakes_stand_beside_their_fields_and_typed_text_stays() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let form = browser.get("/v3/write").form("/v3/write");
    let answer = browser.send("/v3/write", form.clone().with("content", "kept & <typed>"));
    assert_eq!(answer.status, 422);
    assert!(answer.body.contains("Write a title."), "{}", answer.body);
    assert_eq!(answer.form("/v3/write").value("content"), "kept & <typed>");
    let preview = form.with("content", "**bold**").with("intent", "preview");
    let answer = browser.send("/v3/write", preview);
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("<strong>bold</strong>"));

    let post = publish(&mut browser, "v3", "Title", "Text");
    let (action, form) = comment_form(&mut browser, &post);
    let answer = browser.send(&action, form.with("content", "x\u{1}y"));
    assert_eq!(answer.status, 422);
    assert!(answer.body.contains("control character"));
    let signup = application.browser().get("/signup");
    assert_eq!(signup.status, 200);
}

#[test]
fn names_are_unique_in_either_case_and_a_rename_releases_the_old_name() {
    let application = application();
    let (mut dora, _) = application.signed_up("Dora");
    let mut other = application.browser();
    let form = other.get("/signup").form("/signup");
    let answer = other.send(
        "/signup",
        form.with("username", "dORA")
            .with("password", "long enough"),
    );
    assert_eq!(answer.status, 409);
    assert!(answer.body.contains("This name is taken"));

    let form = dora
        .get("/profile")
        .form("/profile")
        .with("username", "Nora");
    let first = dora.send("/profile", form.clone());
    assert_eq!(first.status, 303, "{}", first.body);
    // The same form again changes nothing, and the password stays.
    assert_eq!(
        dora.send("/profile", form).header("location"),
        first.header("location")
    );
    let mut again = application.browser();
    let form = again.get("/signin").form("/signin");
    let form = form
        .with("username", "nora")
        .with("password", "long enough");
    assert_eq!(again.send("/signin", form.clone()).status, 303);
    let wrong = form.with("password", "wrong enough");
    assert_eq!(application.browser().get("/signin").status, 200);
    let mut stranger = application.browser();
    let fresh = stranger.get("/signin").form("/signin");
    let wrong = fresh
        .with("username", wrong.value("username"))
        .with("password", "wrong");
    assert_eq!(stranger.send("/signin", wrong).status, 422);

    let (mut second, _) = application.signed_up("dora");
    let form = second.get("/profile").form("/profile");
    assert_eq!(
        second
            .send("/profile", form.with("username", "NORA"))
            .status,
        409
    );
    for model in ["v1", "v2", "v3"] {
        let page = dora.get(&format!("/{model}/write"));
        assert!(
            page.body.contains("<bdi class=\"name\">Nora</bdi>"),
            "{model}"
        );
    }
}

#[test]
fn sign_out_ends_the_session() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let form = browser.get("/v3/write").form("/signout");
    let before = browser.clone();
    assert_eq!(browser.send("/signout", form).status, 303);
    assert!(browser.get("/v3").body.contains("href=\"/signup\""));
    // The old cookie is of no use any more.
    let mut stolen = before.clone();
    assert_eq!(stolen.get("/v3/write").status, 303);

    // Text that is typed without a session stays until the visitor has signed in again.
    let mut stale = before;
    let form = Fields::default()
        .with("title", "Typed")
        .with("content", "before");
    let answer = stale.send("/v3/write", form);
    assert_eq!(answer.status, 403);
    let answer = stale.send("/v3/write", answer.form("/v3/write"));
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("Sign in first"), "{}", answer.body);
    let typed = answer.form("/v3/write");
    let form = stale.get("/signin").form("/signin");
    let form = form
        .with("username", "other")
        .with("password", "long enough");
    application.signed_up("other");
    assert_eq!(stale.send("/signin", form).status, 303);
    let answer = stale.send("/v3/write", typed);
    assert_eq!(
        stale.send("/v3/write", answer.form("/v3/write")).status,
        303
    );
}

#[test]
fn a_deleted_post_is_gone_everywhere_and_takes_no_comments() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let post = publish(&mut browser, "v3", "Short life", "Text");
    let (action, form) = comment_form(&mut browser, &post);
    browser.submit(&action, form.with("content", "a comment"));
    let (action, late) = comment_form(&mut browser, &post);
    let likes = format!("/v3/posts/{post}/likes");
    let late_like = browser.get(&format!("/v3/posts/{post}")).form(&likes);
    let edit = format!("/v3/posts/{post}/edit");
    let late_edit = browser.get(&edit).form(&edit);

    let path = format!("/v3/posts/{post}/delete");
    let form = browser.get(&path).form(&path);
    let answer = browser.send(&path, form.clone());
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert_eq!(
        browser.send(&path, form).header("location"),
        answer.header("location")
    );

    assert_eq!(
        browser
            .send(&action, late.with("content", "too late"))
            .status,
        410
    );
    assert_eq!(browser.send(&likes, late_like).status, 410);
    assert_eq!(
        browser.send(&edit, late_edit.with("title", "x")).status,
        410
    );
    for model in ["v1", "v2", "v3"] {
        assert_eq!(
            browser.get(&format!("/{model}/posts/{post}")).status,
            404,
            "{model}"
        );
    }
    for model in Model::ALL {
        let blog = application.blog(model);
        let meter = Meter::new();
        let comments = application
            .wait(blog.comments(&meter, &post))
            .expect("a list");
        assert!(comments.is_empty(), "{model}");
    }
    for model in ["v1", "v2"] {
        assert!(
            !browser
                .get(&format!("/{model}"))
                .body
                .contains("Short life")
        );
    }
}

#[test]
fn the_meter_shows_every_charge_of_a_page_and_of_a_write() {
    let application = application();
    let (mut browser, _) = application.signed_up("dora");
    let post = publish(&mut browser, "v3", "Title", "Text");
    for model in ["v1", "v2", "v3"] {
        let page = browser.get(&format!("/{model}/posts/{post}?measure=all"));
        let rows = page.meter_rows("Requests of this page");
        assert_eq!(rows.iter().sum::<u64>(), page.charge(), "{model}");
        assert_eq!(page.meter_sum(), page.charge(), "{model}");
        // All three prices are known after the measurement.
        assert!(!page.body.contains("the article&#39;s figure"), "{model}");

        let action = format!("/{model}/posts/{post}/comments");
        let form = page.form(&action).with("content", "priced");
        let answer = browser.send(&action, form);
        let to = answer.header("location").expect("a location").to_owned();
        let shown = browser.get(to.split('#').next().unwrap_or_default());
        assert!(answer.charge() > 0);
        assert_eq!(
            shown.meter_sum(),
            answer.charge() + shown.charge(),
            "{model}"
        );
        let rows = shown.meter_rows("Requests of this page");
        assert_eq!(rows.iter().sum::<u64>(), shown.meter_sum(), "{model}");
    }
    // Comments are more expensive where a procedure raises a count.
    let (v1, v3) = (
        comment_price(&mut browser, &post, "v1"),
        comment_price(&mut browser, &post, "v3"),
    );
    assert!(v1 < v3, "{v1} {v3}");
}

/// Returns the charge of a comment in a model.
fn comment_price(browser: &mut Browser, post: &str, model: &str) -> u64 {
    let action = format!("/{model}/posts/{post}/comments");
    let form = browser.get(&format!("/{model}/posts/{post}")).form(&action);
    browser
        .send(&action, form.with("content", "same text"))
        .charge()
}

#[test]
fn lists_have_pages_of_a_hundred_in_every_model() {
    let application = application();
    let (mut browser, user) = application.signed_up("dora");
    let post = publish(&mut browser, "v3", "Many comments", "Text");
    let meter = Meter::new();
    for model in Model::ALL {
        let blog = application.blog(model);
        for number in 0..230 {
            let comment = orrery_blog::dataset::Comment {
                id: format!("00000000-0000-4000-8000-{number:012}"),
                post_id: post.clone(),
                user: orrery_blog::dataset::User {
                    id: user.clone(),
                    username: "dora".into(),
                },
                content: format!("comment number {number}."),
                created: format!("2026-01-01T00:00:{:02}.{number:07}Z", number / 60),
            };
            application
                .wait(blog.create_comment(&meter, &comment))
                .expect("a comment");
        }
    }
    for model in ["v1", "v2", "v3"] {
        let mut seen = 0;
        let mut path = format!("/{model}/posts/{post}");
        let mut pages = 0;
        loop {
            let page = browser.get(&path);
            seen += page.body.matches("<li class=\"comment\"").count();
            pages += 1;
            let next = page.between("rel=\"next\" href=\"", "#comments\"");
            match next {
                Some(next) => path = next,
                None => break,
            }
        }
        assert_eq!((seen, pages), (230, 3), "{model}");
    }
}

#[test]
fn a_model_that_is_not_present_leads_to_home_which_says_so() {
    let throughput = Throughput::of_each(6_000);
    let application = application_with(&[Model::V2], &["--memory"], throughput);
    let (mut browser, _) = application.signed_up("dora");
    assert_eq!(browser.get("/").header("location"), Some("/v2"));
    let post = publish(&mut browser, "v2", "Title", "Text");
    let answer = browser.get(&format!("/v3/posts/{post}"));
    assert_eq!(answer.status, 303);
    let page = browser.get(answer.header("location").expect("a location"));
    assert_eq!(page.status, 200);
    assert!(
        page.body
            .contains("V3 is not present on this site. This is V2."),
        "{}",
        page.body
    );
    assert!(
        page.body
            .contains("<h1 id=\"title\" dir=\"auto\">Title</h1>")
    );
    // A form of a page that was shown before a migration writes to the home model.
    let form = page.form(&format!("/v2/posts/{post}/comments"));
    let answer = browser.send(
        &format!("/v1/posts/{post}/comments"),
        form.with("content", "late"),
    );
    assert_eq!(answer.status, 303);
    assert_eq!(counts(&application, Model::V2, &post), (1, 0));
}

#[test]
fn assets_are_compressed_and_kept_by_browsers() {
    let application = application();
    let mut browser = application.browser();
    let page = browser.get("/v3");
    let css = page
        .between("rel=\"stylesheet\" href=\"", "\"")
        .expect("a style sheet");
    let plain = browser.get(&css);
    assert_eq!(plain.status, 200);
    assert!(
        plain
            .header("cache-control")
            .is_some_and(|value| value.contains("immutable"))
    );
    let packed = browser.request("GET", &css, &[("accept-encoding", "gzip, br")], "");
    assert_eq!(packed.header("content-encoding"), Some("br"));
    let etag = packed.header("etag").expect("an etag").to_owned();
    assert_ne!(Some(etag.as_str()), plain.header("etag"));
    let headers = [("accept-encoding", "br"), ("if-none-match", etag.as_str())];
    assert_eq!(browser.request("GET", &css, &headers, "").status, 304);
    assert_eq!(browser.get("/assets/blog.css").status, 307);
    assert!(
        browser
            .get("/metrics")
            .body
            .contains("blog_responses_total{class=\"2xx\"}")
    );
    assert_eq!(browser.get("/healthz").status, 200);
}
