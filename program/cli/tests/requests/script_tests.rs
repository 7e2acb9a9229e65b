//! Tests of the parser of scripts: each line that the form does not know is refused with its place.

use super::names::{Names, Source};
use super::script::{Script, Shown, Signature, Step, parse};
use orrery_model::json::parse as json;

fn parsed(text: &str) -> Script {
    parse("a.txt", text).unwrap_or_else(|message| panic!("{message}"))
}

/// Checks that a script is refused at a line with a message that has these words.
#[track_caller]
fn refused(text: &str, line: usize, words: &str) {
    let message = parse("a.txt", text).expect_err("it is refused");
    assert!(
        message.starts_with(&format!("a.txt:{line}: ")) && message.contains(words),
        "{message}"
    );
}

#[test]
fn a_request_has_headers_words_a_body_and_the_place_of_its_answer() {
    let script = parsed(
        "# Subject.\n\n== One\n\n# Comment.\nPUT /a\nif-match: \"x\"\nkey: [1]\nsign: token t\n\
         show: etag, x-a as percent\n{\"b\":\n1}\n---\n200\n{}\n\n== Two\n\nGET /\n",
    );
    assert_eq!(script.facts.len(), 2);
    let [Step::Exchange(exchange)] = script.facts[0].steps.as_slice() else {
        panic!("one request")
    };
    assert_eq!((exchange.method, exchange.path.as_str()), ("PUT", "/a"));
    assert_eq!(exchange.body, "{\"b\":\n1}");
    let names: Vec<&str> = exchange.headers.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["if-match", "x-ms-documentdb-partitionkey"]);
    assert_eq!(exchange.signature, Signature::Token("t".into()));
    let shown = [Shown::Plain("etag".into()), Shown::Percent("x-a".into())];
    assert_eq!(exchange.shown, shown);
    assert_eq!(script.lines[exchange.answer.clone()], ["---", "200", "{}"]);
}

#[test]
fn unknown_lines_are_refused_with_their_place() {
    refused("== A\n\nGET /\n\nFETCH /\n", 5, "`FETCH /` is no request");
    refused("== A\n\nGET /\nqury: SELECT\n", 4, "`qury` is no word");
    refused("== A\n\nGET /\nx-unknown: 1\n", 4, "`raw x-unknown: …`");
    refused("== A\n\nGET /\nnonsense\n", 4, "`nonsense` is no request");
    refused("server: shared\n\n== A\n", 1, "`server: own`");
    refused("options: --data-dir x\n\n== A\n", 1, "`--data-dir`");
    refused("== A\n\nGET /\nsign: me\n", 4, "`sign: me`");
    refused("== A\n\nGET /\nshow: ETag\n", 4, "`ETag`");
    refused("== A\n\nGET /\nhide: lsn\n", 4, "`lsn`");
    refused("== A\n\nGET /\nkeep a = head.b\n", 4, "`head.b`");
    refused("# Nothing.\n", 1, "no fact");
    refused("== A\n\nGET /\n\n== A\n", 5, "stands twice");
    refused("GET /\n\n== A\n", 1, "`given`");
}

#[test]
fn parts_of_a_request_that_exclude_each_other_are_refused() {
    refused("== A\n\ngiven GET /\n---\n200\n", 3, "no answer to show");
    refused(
        "== A\n\nGET /${n}\neach n: 1 | 2\npages: all\n",
        3,
        "exclude",
    );
    refused(
        "== A\n\nGET /${n}\neach n: 1 | 2\nkeep a = body\n",
        3,
        "keeps none",
    );
    refused("== A\n\nPUT /\nmerge: {}\n", 3, "needs a body");
    refused("== A\n\nmanage GET /\nkey: [1]\n", 3, "no headers");
    refused(
        "== A\n\nGET /\n\nserver: own\n",
        5,
        "before the first request",
    );
}

#[test]
fn names_are_defined_once_before_their_use_and_used() {
    refused("== A\n\nGET /${a}\n", 3, "`a` is not defined");
    refused("== A\n\nGET /\nkeep a = body\n", 3, "`a` is not used");
    refused("== A\n\nlet a = 1\nlet a = 2\n", 4, "defined already");
    refused("== A\n\nlet db = 1\n", 3, "defined already");
    refused("== A\n\nGET /\neach n: 1 | 2\n", 3, "`n` is not used");
    refused(
        "let a = 1\n\n== A\n\nGET /\n",
        1,
        "no fact uses the name `a`",
    );
    refused("== A\n\nGET /${A}\n", 3, "`${A}` has no name");
    refused("== A\n\nGET /${a\n", 3, "is not closed");
    let other = "== A\n\nlet a = 1\n\nGET /${a}\n\n== B\n\nGET /${a}\n";
    refused(other, 9, "`a` is not defined");
    parsed("let a = 1\n\n== A\n\nGET /\n\n== B\n\nGET /${a}/${db}\n");
}

#[test]
fn numbers_and_texts_are_values_of_each() {
    let script = parsed("== A\n\nGET /${n}\neach n: 3 to 5\n\nGET /${n}\neach n: a b | c\n");
    let values = |step: &Step| match step {
        Step::Exchange(exchange) => exchange.each.as_ref().expect("values").values.clone(),
        Step::Let { .. } => panic!("a request"),
    };
    let steps = &script.facts[0].steps;
    assert_eq!(values(&steps[0]), ["3", "4", "5"]);
    assert_eq!(values(&steps[1]), ["a b", "c"]);
}

#[test]
fn texts_and_raw_headers_can_be_repeated() {
    let script = parsed("== A\n\nlet a = x times 3\n\nGET /${a}\nraw x-b: 1 times 2\n");
    let [Step::Let { value, times, .. }, Step::Exchange(exchange)] =
        script.facts[0].steps.as_slice()
    else {
        panic!("a name and a request")
    };
    assert_eq!((value.as_str(), *times), ("x", 3));
    let header = ("x-b".to_owned(), "1".to_owned());
    assert_eq!(exchange.headers, [header.clone(), header]);
}

#[test]
fn a_name_stands_for_a_text_a_member_or_an_encoded_text() {
    let mut names = Names::default();
    let body = br#"{"_rid":"AA==","list":[{"n":1},"x"]}"#;
    names.set("made", json(body).expect("JSON"));
    let text = "${made._rid} ${made._rid:percent} ${made.list.0} ${made.list.1} ${made.list.0.n}";
    let expanded = names.expand(text);
    assert_eq!(expanded.as_deref(), Ok("AA== AA%3D%3D {\"n\":1} x 1"));
    let missing = names.expand("${made.wheels}").expect_err("it is missing");
    assert!(missing.contains("`wheels`"), "{missing}");
}

#[test]
fn a_part_of_an_answer_is_the_body_a_member_or_a_header() {
    let path = vec!["a".to_owned(), "0".to_owned()];
    assert_eq!(Source::parse("body.a.0"), Ok(Source::Body(path)));
    assert_eq!(Source::parse("body"), Ok(Source::Body(Vec::new())));
    let header = Source::Header("etag".to_owned());
    assert_eq!(Source::parse("header.etag"), Ok(header));
}
