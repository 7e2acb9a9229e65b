use super::*;

#[track_caller]
fn round_trip(text: &str, expected: &str) {
    assert_eq!(parse(text.as_bytes()).expect(text).to_text(), expected);
}

#[test]
fn numbers_strings_and_member_order_survive_a_round_trip() {
    for text in [
        "1",
        "-7",
        "1.0",
        "1e2",
        "1E+2",
        "0.1",
        "-0",
        "-0.0",
        "9007199254740993",
        "123456789012345678901234567890",
    ] {
        round_trip(text, text);
    }
    round_trip(
        r#"{"b":1,"a":[true,null,"x\n\"é😀"]}"#,
        r#"{"b":1,"a":[true,null,"x\n\"é😀"]}"#,
    );
    round_trip(r#"{ "a" : "\u0041\/" }"#, r#"{"a":"A/"}"#);
}

#[test]
fn a_repeated_name_keeps_its_first_position_and_its_last_value() {
    round_trip(r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#);
}

#[test]
fn invalid_texts_are_refused_with_an_offset() {
    for text in [
        "",
        "  ",
        "{",
        "[1,]",
        "{\"a\":}",
        "nul",
        "1e999",
        "\"\\ud800\"",
        "1 2",
        "{\"a\" 1}",
        "\u{1}",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text:?} was accepted");
    }
    assert!(
        parse(&[b'"', 0xFF, b'"']).is_err(),
        "bytes that are not UTF-8 were accepted"
    );
    let error = parse(br#"{"a": nope}"#).unwrap_err();
    assert!((5..=10).contains(&error.offset), "{error}");
}

#[test]
fn an_error_has_a_line_and_a_column() {
    let text = "{\n  \"ü\": 'a'\n}".as_bytes();
    let error = parse(text).expect_err("single quotes");
    assert_eq!(error.place(text).0, 2, "{error}");
    let beyond = JsonError {
        offset: 99,
        message: String::new(),
    };
    assert_eq!(beyond.place("ü\nüü".as_bytes()), (2, 3));
}

#[test]
fn nesting_depth_is_limited() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(parse(deep(crate::limits::NESTING_DEPTH).as_bytes()).is_ok());
    assert!(parse(deep(crate::limits::NESTING_DEPTH + 1).as_bytes()).is_err());
    assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn doubles_print_as_javascript_does() {
    for (double, text) in [
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-2.5, "-2.5"),
        (5e-324, "5e-324"),
        (3.0, "3"),
    ] {
        assert_eq!(Json::from(double).to_text(), text);
    }
}

#[test]
fn values_sort_by_type_then_value() {
    let sorted = [
        "null",
        "false",
        "true",
        "-1",
        "1.5",
        "2",
        r#""10""#,
        r#""9""#,
        "[]",
        "[1]",
        "{}",
        r#"{"a":1}"#,
    ];
    let values: Vec<Json> = sorted
        .iter()
        .map(|t| parse(t.as_bytes()).unwrap())
        .collect();
    for pair in values.windows(2) {
        assert!(
            compare(&pair[0], &pair[1]).is_lt(),
            "{} < {}",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn equality_is_deep_and_by_value() {
    let equal = |a: &str, b: &str| parse(a.as_bytes()).unwrap() == parse(b.as_bytes()).unwrap();
    assert!(equal("1", "1.0"));
    assert!(equal(r#"{"a":1,"b":[2]}"#, r#"{"b":[2.0],"a":1}"#));
    assert!(!equal("[1,2]", "[2,1]"));
    assert!(!equal("1", r#""1""#));
    assert!(!equal("9007199254740993", "9007199254740992"));
}

#[test]
fn strings_may_contain_control_characters_that_are_not_escaped() {
    let text = "{\"a\tb\":\"x\r\ny\u{5}\u{0}\\\\\t\"}";
    let json = parse(text.as_bytes()).expect("JSON");
    assert_eq!(
        json.get("a\tb").and_then(Json::as_str),
        Some("x\r\ny\u{5}\u{0}\\\t")
    );
    assert_eq!(json.to_text(), r#"{"a\tb":"x\r\ny\u0005\u0000\\\t"}"#);
    // Neither a backslash before one nor one between values is valid.
    for bad in ["\"\\\t\"", "[1,\u{5}2]", "\"\t"] {
        assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
    }
}

#[test]
fn the_place_of_an_error_is_that_of_the_text_as_sent() {
    let place = |text: &str| parse(text.as_bytes()).expect_err("an error").offset;
    let (raw, plain) = (
        "{\"a\":\"\t\t\",\"b\":x,\"c\":\"\t\"}",
        r#"{"a":"..","b":x,"c":"."}"#,
    );
    assert_eq!(place(raw), place(plain));
}
