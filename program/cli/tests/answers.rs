//! Quota and usage in every successful answer about items, whose usage may be that of an earlier
//! answer. `requests/answers.txt` has the other headers of answers.

use crate::program::{Answer, ITEMS, Request, item, start_with_item};

/// Returns the quota and the usage that an answer states.
fn quota(answer: &Answer) -> (&str, &str) {
    let header = |name| answer.header(name).unwrap_or_else(|| panic!("no {name}"));
    (header("x-ms-resource-quota"), header("x-ms-resource-usage"))
}

#[test]
fn every_successful_answer_about_items_states_the_quota_and_the_usage() {
    let (_server, mut client) = start_with_item();
    let body = r#"{"id":"a","postId":"p1"}"#;
    let at = |method: &'static str| Request::new(method, &item("a")).key("p1");
    let batch = r#"[{"operationType":"Read","id":"a"}]"#;
    for request in [
        at("GET"),
        at("PUT").body(body),
        at("PATCH").body(r#"[{"op":"set","path":"/n","value":1}]"#),
        Request::new("GET", ITEMS),
        Request::new("GET", ITEMS).header("A-IM", "Incremental feed"),
        Request::query(ITEMS, "SELECT * FROM c"),
        Request::new("POST", ITEMS)
            .key("p1")
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True")
            .body(batch),
        at("DELETE"),
        Request::new("POST", ITEMS).body(body),
    ] {
        let answer = client.call(&request);
        assert!(answer.status < 300, "{request:?}: {}", answer.text());
        let (quota, usage) = quota(&answer);
        let names = |text: &str| -> Vec<String> {
            let parts = text.trim_end_matches(';').split(';');
            parts
                .map(|part| part.split('=').next().unwrap_or_default().to_owned())
                .collect()
        };
        let wanted = [
            "documentSize",
            "documentsSize",
            "documentsCount",
            "collectionSize",
        ];
        assert_eq!(
            (names(quota), names(usage)),
            (
                wanted.map(String::from).to_vec(),
                wanted.map(String::from).to_vec()
            )
        );
        // The count may be that of an earlier answer.
        assert!(
            usage.contains("documentsCount=1;") || usage.contains("documentsCount=0;"),
            "{request:?}: {usage}"
        );
    }
    let missing = client.call(&Request::new("GET", &item("none")).key("p1"));
    assert_eq!(missing.header("x-ms-resource-quota"), None, "an error");
}
