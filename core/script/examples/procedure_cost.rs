//! Measures the cost of a procedure over the pipe. The procedure reads a post, counts a comment in
//! it and creates the comment.
//!
//! ```text
//! cargo run --profile bench -p orrery-script --example procedure_cost -- PATH
//! ```
//!
//! PATH is that of the program orrery-script-host.

#![allow(clippy::print_stdout, reason = "a tool for a terminal")]

use std::time::{Duration, Instant};

use orrery_script::{
    Ambient, ContainerLinks, Host, HostCall, HostCommand, HostFailure, HostReply, PoolOptions,
    Procedure, Quota, ScriptPool,
};

const CREATE_COMMENT: &str = r"function createComment(postId, comment) {
    var collection = getContext().getCollection();
    var postLink = collection.getAltLink() + '/docs/' + postId;
    var accepted = collection.readDocument(postLink, function (err, post) {
        if (err) throw err;
        post.commentCount++;
        collection.replaceDocument(post._self, post, { etag: post._etag }, function (err) {
            if (err) throw err;
            comment.postId = postId;
            collection.createDocument(collection.getSelfLink(), comment, function (err, created) {
                if (err) throw err;
                getContext().getResponse().setBody(created.id);
            });
        });
    });
    if (!accepted) throw new Error(449, 'not accepted');
}";

const POST: &str = r#"{"id":"p1","type":"post","postId":"p1","userId":"u1","userUsername":"ann",
    "title":"A title","content":"Some text that goes on for a while, as posts do.",
    "commentCount":1,"likeCount":2,"creationDate":"2024-01-01T00:00:00Z",
    "_self":"dbs/AAAAAA==/colls/AAAAAJAAAAA=/docs/AAAAAJAAAAABAAAAAAAAAA==/","_etag":"\"1\""}"#;

/// A host that answers without work, so that only the script and the pipe are measured.
struct ImmediateHost;

impl Host for ImmediateHost {
    fn call(&mut self, call: HostCall) -> Result<HostReply, HostFailure> {
        let item = match call {
            HostCall::Create { body, .. } | HostCall::Replace { body, .. } => body,
            _ => POST.to_string(),
        };
        Ok(HostReply {
            items: vec![item],
            ..HostReply::default()
        })
    }
}

fn main() {
    let Some(program) = std::env::args_os().nth(1) else {
        println!("usage: procedure_cost <path of orrery-script-host>");
        return;
    };
    let pool = ScriptPool::new(PoolOptions::new(HostCommand {
        program,
        arguments: Vec::new(),
    }));
    let call = Procedure {
        id: "createComment",
        body: CREATE_COMMENT,
        arguments: br#"["p1",{"type":"comment","userId":"u2","content":"Well said."}]"#,
        links: ContainerLinks {
            self_link: "dbs/AAAAAA==/colls/AAAAAJAAAAA=/",
            alt_link: "dbs/d/colls/c",
        },
        quota: Quota::default(),
        logging: false,
        ambient: Ambient {
            now_ms: 1_700_000_000_000,
            seed: 1,
        },
    };
    let run = || {
        let start = Instant::now();
        if let Err(error) = pool.run_procedure(call, &mut ImmediateHost) {
            println!("{error}");
            #[expect(
                clippy::disallowed_methods,
                reason = "ends the example from within a closure"
            )]
            std::process::exit(1);
        }
        start.elapsed()
    };
    println!("first call, process start included: {:?}", run());
    report("back to back", (0..3_000).map(|_| run()).collect());
    let spaced = (0..300).map(|_| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the measured calls are 2 ms apart"
        )]
        std::thread::sleep(Duration::from_millis(2));
        run()
    });
    report("2 ms apart", spaced.collect());
    functions(&pool);
}

/// Prints percentiles of durations.
fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let percentile = |percent: usize| {
        let index = times.len() * percent / 100;
        times.get(index).copied().unwrap_or_default()
    };
    println!(
        "{name}: p50 {:?}, p90 {:?}, p99 {:?} ({} calls)",
        percentile(50),
        percentile(90),
        percentile(99),
        times.len()
    );
}

/// Measures a batch of calls of a user-defined function.
fn functions(pool: &ScriptPool) {
    let sources = [(
        "double".to_string(),
        "function (n) { return n * 2; }".to_string(),
    )];
    let session = pool.functions(&sources, Ambient { now_ms: 0, seed: 0 });
    let rows: Vec<_> = (0..1_000).map(|n| vec![Some(n.to_string())]).collect();
    let start = Instant::now();
    match session.and_then(|mut session| session.call_batch("double", rows)) {
        Ok(values) => println!(
            "function on {} rows in one batch: {:?} per row",
            values.len(),
            start.elapsed() / 1_000
        ),
        Err(error) => println!("{error}"),
    }
}
