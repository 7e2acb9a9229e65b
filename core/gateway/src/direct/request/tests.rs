//! Frames and the heads of requests that they become.

use super::*;
use orrery_rntbd::FrameWriter;
use orrery_rntbd::tokens::{answer, context_request};

const ACTIVITY: [u8; 16] = [7; 16];

/// Returns the request of a frame with these tokens.
fn request(resource: u16, operation: u16, write: impl FnOnce(&mut FrameWriter)) -> FrameRequest {
    let mut frame = FrameWriter::request(resource, operation, ACTIVITY);
    frame.number(&tokens::TRANSPORT_REQUEST_ID, 5);
    write(&mut frame);
    let bytes = frame.finish(&[]);
    let head = RequestHead::parse(&bytes).expect("a head");
    FrameRequest::of(&head, &ClientContext::default()).expect("a number")
}

/// Returns the method and the path of a frame in the container `a b`.
fn line(resource: u16, operation: u16, names: &[(&Token, &str)]) -> String {
    let request = request(resource, operation, |frame| {
        frame.text(&tokens::DATABASE_NAME, "d");
        for (token, name) in names {
            frame.text(token, name);
        }
    });
    match request.refusal {
        Some(error) => format!("{} {}", error.status(), error.message()),
        None => format!("{} {}", request.head.method, request.head.uri),
    }
}

fn header<'a>(request: &'a FrameRequest, name: &str) -> Option<&'a str> {
    let value = request.head.headers.get(name)?;
    value.to_str().ok()
}

#[test]
fn operations_and_resources_become_methods_and_paths() {
    let container = [(&tokens::COLLECTION_NAME, "a b")];
    let item = [
        (&tokens::COLLECTION_NAME, "a b"),
        (&tokens::DOCUMENT_NAME, "x/y?#%ü "),
    ];
    let path = "/dbs/d/colls/a%20b/docs/x%2Fy%3F%23%25%C3%BC%20";
    assert_eq!(line(3, 3, &item), format!("GET {path}"));
    assert_eq!(line(3, 6, &item), format!("PUT {path}"));
    assert_eq!(line(3, 2, &item), format!("PATCH {path}"));
    assert_eq!(line(3, 5, &item), format!("DELETE {path}"));
    for post in [0x01, 0x09, 0x0F, 0x13, 0x25] {
        assert_eq!(line(3, post, &container), "POST /dbs/d/colls/a%20b/docs");
    }
    assert_eq!(line(3, 4, &container), "GET /dbs/d/colls/a%20b/docs");
    assert_eq!(line(2, 0x11, &container), "HEAD /dbs/d/colls/a%20b");
    assert_eq!(line(1, 0x12, &[]), "HEAD /dbs");
    assert_eq!(line(1, 3, &[]), "GET /dbs/d");
    assert_eq!(line(2, 4, &[]), "GET /dbs/d/colls");
    let procedure = [
        (&tokens::COLLECTION_NAME, "c"),
        (&tokens::STORED_PROCEDURE_NAME, "p"),
    ];
    assert_eq!(line(7, 8, &procedure), "POST /dbs/d/colls/c/sprocs/p");
    let permission = [(&tokens::USER_NAME, "u"), (&tokens::PERMISSION_NAME, "p")];
    assert_eq!(line(6, 6, &permission), "PUT /dbs/d/users/u/permissions/p");
}

#[test]
fn a_frame_that_names_something_else_is_refused_by_name() {
    for (resource, operation, named) in [
        (3, 0x42, "operation 0x42"),
        (3, 0xFFFF, "operation 0xffff"),
        (0x0F, 3, "resource type 0x0f (offer)"),
    ] {
        let refused = line(resource, operation, &[]);
        assert!(refused.starts_with("400 "), "{refused}");
        assert!(refused.contains(named), "{refused}");
    }
    // An empty name would make another operation of the request.
    let empty = (&tokens::DOCUMENT_NAME, "");
    for names in [
        &[(&tokens::COLLECTION_NAME, "c")][..],
        &[(&tokens::COLLECTION_NAME, "c"), empty],
    ] {
        let refused = line(3, 3, names);
        assert!(refused.contains("DocumentName"), "{refused}");
    }
}

#[test]
fn without_names_the_resource_id_addresses_the_resource() {
    let uri = |resource, operation, rid: &[u8]| {
        let request = request(resource, operation, |frame| {
            frame.bytes(&tokens::RESOURCE_ID, rid);
        });
        match request.refusal {
            Some(error) => error.status().to_string(),
            None => request.head.uri.to_string(),
        }
    };
    let container = [3, 0x55, 0x37, 0x1E, 0x88, 0xEA, 0x14, 0xC0];
    assert_eq!(uri(2, 4, &container[..4]), "/dbs/A1U3Hg%3D%3D/colls");
    assert_eq!(
        uri(3, 1, &container),
        "/dbs/A1U3Hg%3D%3D/colls/A1U3HojqFMA%3D/docs"
    );
    let item = [&container[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(
        uri(3, 3, &item),
        "/dbs/A1U3Hg%3D%3D/colls/A1U3HojqFMA%3D/docs/A1U3HojqFMABAAAAAAAAAA%3D%3D"
    );
    assert_eq!(uri(3, 3, &container), "400");
    assert_eq!(uri(3, 3, &[]), "400");
}

#[test]
fn tokens_become_the_headers_that_they_stand_for() {
    let request = request(3, 0x0F, |frame| {
        frame.text(&tokens::DATABASE_NAME, "d");
        frame.text(&tokens::COLLECTION_NAME, "c");
        frame.number(&tokens::PAGE_SIZE, u64::from(u32::MAX));
        frame.text(&tokens::SESSION_TOKEN, "0:1#2");
        frame.text(&tokens::PARTITION_KEY, "[\"ü\"]");
        frame.number(&tokens::CONSISTENCY_LEVEL, 3);
        frame.number(&tokens::POPULATE_QUERY_METRICS, 1);
        frame.number(&tokens::SUPPORTED_SERIALIZATION_FORMATS, 3);
        frame.bytes(&tokens::START_EPK, b"05C1");
        frame.bytes(&tokens::END_EPK, &[0x0A, 0xFF]);
        frame.number(&tokens::READ_FEED_KEY_TYPE, 3);
    });
    for (name, value) in [
        ("x-ms-max-item-count", "-1"),
        ("x-ms-session-token", "0:1#2"),
        ("x-ms-consistency-level", "Eventual"),
        ("x-ms-documentdb-populatequerymetrics", "True"),
        (
            "x-ms-cosmos-supported-serialization-formats",
            "JsonText,CosmosBinary",
        ),
        ("x-ms-start-epk", "05C1"),
        ("x-ms-end-epk", "0AFF"),
        ("x-ms-documentdb-isquery", "True"),
        ("x-ms-version", VERSION),
    ] {
        assert_eq!(header(&request, name), Some(value), "{name}");
    }
    let key = request.head.headers.get("x-ms-documentdb-partitionkey");
    assert_eq!(key.map(|key| key.as_bytes()), Some("[\"ü\"]".as_bytes()));
}

#[test]
fn a_condition_is_one_of_change_for_reads_and_of_equality_for_writes() {
    let condition = |operation| {
        let request = request(3, operation, |frame| {
            frame.text(&tokens::DATABASE_NAME, "d");
            frame.text(&tokens::COLLECTION_NAME, "c");
            frame.text(&tokens::DOCUMENT_NAME, "i");
            frame.text(&tokens::MATCH, "\"7\"");
        });
        let name = |name: &str| header(&request, name).map(str::to_owned);
        (name("if-none-match"), name("if-match"))
    };
    let etag = || Some("\"7\"".to_owned());
    for read in [3, 4] {
        assert_eq!(condition(read), (etag(), None));
    }
    for write in [2, 5, 6, 0x13, 0x25] {
        assert_eq!(condition(write), (None, etag()));
    }
}

#[test]
fn the_strongest_level_of_metadata_reads_is_left_out() {
    let level = |resource| {
        let request = request(resource, 4, |frame| {
            frame.text(&tokens::DATABASE_NAME, "d");
            frame.text(&tokens::COLLECTION_NAME, "c");
            frame.text(&tokens::USER_NAME, "u");
            frame.number(&tokens::CONSISTENCY_LEVEL, 0);
        });
        header(&request, "x-ms-consistency-level").map(str::to_owned)
    };
    for metadata in [1, 2, 5, 6] {
        assert_eq!(level(metadata), None, "{metadata}");
    }
    assert_eq!(level(3), Some("Strong".to_owned()));
}

#[test]
fn values_that_stand_for_nothing_are_refused() {
    let status = |write: fn(&mut FrameWriter)| {
        let request = request(3, 4, |frame| {
            frame.text(&tokens::DATABASE_NAME, "d");
            frame.text(&tokens::COLLECTION_NAME, "c");
            write(frame);
        });
        request.refusal.map(|error| error.status())
    };
    assert_eq!(
        status(|frame| frame.number(&tokens::CONSISTENCY_LEVEL, 9)),
        Some(400)
    );
    assert_eq!(
        status(|frame| _ = frame.text(&tokens::SESSION_TOKEN, "a\nb")),
        Some(400)
    );
    assert_eq!(status(|_| {}), None);
}

#[test]
fn a_body_is_a_query_in_json_or_a_text() {
    let content = |operation, body: &[u8]| {
        let mut request = request(3, operation, |frame| {
            frame.text(&tokens::DATABASE_NAME, "d");
            frame.text(&tokens::COLLECTION_NAME, "c");
        });
        request.set_content(body);
        header(&request, "content-type").map(str::to_owned)
    };
    let json = Some("application/query+json".to_owned());
    assert_eq!(content(0x0F, b"{\"query\":\"\"}"), json);
    assert_eq!(content(0x09, b"{\"query\":\"\"}"), json);
    assert_eq!(content(0x09, b"\n {\"query\":\"\"}"), json);
    assert_eq!(content(0x0F, b"SELECT"), json);
    assert_eq!(content(0x09, b"SELECT"), Some("application/sql".to_owned()));
    assert_eq!(content(0x01, b"{}"), None);
}

#[test]
fn the_context_of_a_connection_names_the_client_of_its_requests() {
    let context = |version: &str| {
        let mut frame = FrameWriter::request(0, 0, ACTIVITY);
        frame.text(&context_request::CLIENT_VERSION, version);
        frame.text(&context_request::USER_AGENT, "an sdk/1.0");
        let bytes = frame.finish(&[]);
        ClientContext::of(&RequestHead::parse(&bytes).expect("a head"))
    };
    let headers = |version: &str| {
        let mut frame = FrameWriter::request(1, 4, ACTIVITY);
        frame.number(&tokens::TRANSPORT_REQUEST_ID, 1);
        let bytes = frame.finish(&[]);
        let head = RequestHead::parse(&bytes).expect("a head");
        let request = FrameRequest::of(&head, &context(version)).expect("a request");
        ["x-ms-version", "user-agent"].map(|name| header(&request, name).map(str::to_owned))
    };
    let agent = || Some("an sdk/1.0".to_owned());
    assert_eq!(headers("2018-12-31"), [Some("2018-12-31".into()), agent()]);
    // A version that is not known is that of a newer client.
    assert_eq!(headers("2099-01-01"), [Some(VERSION.into()), agent()]);
}

#[test]
fn a_frame_without_a_number_is_no_request() {
    let frame = FrameWriter::request(1, 4, ACTIVITY).finish(&[]);
    let head = RequestHead::parse(&frame).expect("a head");
    assert!(FrameRequest::of(&head, &ClientContext::default()).is_none());
}

#[test]
fn a_refusal_has_the_number_an_lsn_and_the_bare_list_of_errors() {
    let request = request(1, 4, |_| {});
    let frame = request.refuse(super::super::address_gone());
    let length = u32::from_le_bytes(*frame.head.first_chunk().expect("a length")) as usize;
    let head = orrery_rntbd::AnswerHead::parse(&frame.head[..length], answer::TABLE);
    let head = head.expect("a head");
    assert_eq!((head.status, head.activity_id), (410, ACTIVITY));
    assert_eq!(head.number(&answer::TRANSPORT_REQUEST_ID), Some(5));
    assert_eq!(head.number(&answer::LSN), Some(1));
    assert_eq!(head.number(&answer::LOCAL_LSN), Some(1));
    assert_eq!(head.number(&answer::SUB_STATUS), None);
    let payload = &frame.head[length + 4..];
    assert!(payload.starts_with(b"{\"Errors\":[\""), "{payload:?}");
}

#[test]
fn a_client_has_read_the_container_that_it_names_or_whose_address_it_uses() {
    let cached = |names: &[(&Token, &str)]| {
        let request = request(3, 4, |frame| {
            frame.text(&tokens::DATABASE_NAME, "d");
            frame.text(&tokens::COLLECTION_NAME, "c");
            for (token, text) in names {
                frame.text(token, text);
            }
        });
        let direct = request.head.extensions.get::<DirectRequest>();
        direct.expect("an extension").cached_container.clone()
    };
    let of = |rid: &str| Some(rid.to_owned());
    let address = |service: &str| format!("/apps/0/services/{service}/partitions/0/replicas/0p");
    let (old, master) = (address("old="), address("0"));
    let named = (&tokens::COLLECTION_RID, "new=");
    assert_eq!(cached(&[(&tokens::REPLICA_PATH, &old)]), of("old="));
    assert_eq!(cached(&[(&tokens::REPLICA_PATH, &old[1..])]), of("old="));
    assert_eq!(cached(&[(&tokens::REPLICA_PATH, &old), named]), of("new="));
    assert_eq!(cached(&[(&tokens::REPLICA_PATH, &master)]), None);
    assert_eq!(cached(&[(&tokens::REPLICA_PATH, "/something/else")]), None);
    assert_eq!(cached(&[]), None);
}
