//! Random values: numbers, ids, header values, and bodies of every kind, valid and invalid.

use orrery_model::Json;
use orrery_model::world::split_mix;
use std::sync::LazyLock;

/// A source of random numbers with a seed.
pub(crate) struct RandomSource(u64);

impl RandomSource {
    pub(crate) fn new(seed: u64) -> Self {
        RandomSource(split_mix(seed) ^ 0x5851_F42D_4C95_7F2D)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (split_mix(self.0) % end.max(1) as u64) as usize
    }

    /// Returns true with a probability of 1/`n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// Returns one of `from` as a string.
    pub(crate) fn text(&mut self, from: &[&str]) -> String {
        self.pick(from).to_owned()
    }
}

/// Texts of queries, valid and invalid, as JSON.
static CORPUS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    include_str!("../../../../fuzz/corpus/sql.jsonl")
        .lines()
        .collect()
});

/// Texts that break careless code in ids, headers and bodies.
const HOSTILE: &[&str] = &[
    "",
    " ",
    ".",
    "..",
    "%",
    "%2",
    "%00",
    "%FF",
    "%2F",
    "a/b",
    "a\\b",
    "a?b",
    "a#b",
    "+",
    "ä",
    "😀",
    "\u{202e}x",
    "'",
    "\"",
    "\\",
    "{}",
    "[]",
    "null",
    "-1",
    "0",
    "1e999",
    "NaN",
    "18446744073709551616",
    "9223372036854775808",
    "true",
    "FF",
    "dbs",
    "XP0mAA==",
    "XP0mAJ3H-AA=",
    "XP0mAJ3H-AABAAAAAAAAAA==",
    "0:-1#9",
    "*",
    ",",
    ";",
    "0,0",
    "==",
    "\t",
];

pub(crate) fn hostile(random: &mut RandomSource) -> String {
    match random.below(40) {
        0 => "x".repeat(1 + random.below(3_000)),
        1 => "é".repeat(1 + random.below(600)),
        _ => random.text(HOSTILE),
    }
}

/// Returns mostly 0, so that requests name resources that exist and written items fit together.
pub(crate) fn first_or_below(random: &mut RandomSource, end: usize) -> usize {
    if random.one_in(3) {
        random.below(end)
    } else {
        0
    }
}

/// Returns a small JSON value, sometimes an unusual one.
pub(crate) fn json(random: &mut RandomSource, depth: usize) -> String {
    match random.below(if depth == 0 { 9 } else { 12 }) {
        0 => "null".into(),
        1 => random.text(&["true", "false"]),
        2 => (random.below(2_000) as i64 - 1_000).to_string(),
        3 => random.text(&[
            "0.1",
            "-0",
            "1e300",
            "1e-320",
            "9007199254740993",
            "123456789012345678901234567890",
        ]),
        4 | 5 => format!("\"s{}\"", random.below(6)),
        6 => Json::from(hostile(random).as_str()).to_text(),
        7 => random.text(&["[]", "{}", "\"\"", "\"2026-01-01T00:00:00.0000000Z\""]),
        8 => r#"{"type":"Point","coordinates":[7.5,47.5]}"#.into(),
        9 | 10 => {
            let members: Vec<String> = (0..random.below(4))
                .map(|_| format!("\"{}\":{}", name(random), json(random, depth - 1)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        _ => {
            let elements: Vec<String> = (0..random.below(4))
                .map(|_| json(random, depth - 1))
                .collect();
            format!("[{}]", elements.join(","))
        }
    }
}

/// Returns the name of a member that items have or that has a meaning.
pub(crate) fn name(random: &mut RandomSource) -> String {
    random.text(&[
        "a", "b", "n", "s", "list", "pk", "id", "ttl", "_ts", "_etag", "_rid", "deep", "x y", "😀",
    ])
}

pub(crate) fn item(random: &mut RandomSource) -> String {
    let mut members = vec![format!("\"id\":\"i{}\"", random.below(8))];
    if !random.one_in(8) {
        members.push(format!("\"pk\":\"p{}\"", first_or_below(random, 3)));
    }
    members
        .extend((0..random.below(4)).map(|_| format!("\"{}\":{}", name(random), json(random, 3))));
    format!("{{{}}}", members.join(","))
}

pub(crate) fn database(random: &mut RandomSource) -> String {
    format!("{{\"id\":\"d{}\"}}", first_or_below(random, 3))
}

pub(crate) fn container(random: &mut RandomSource) -> String {
    let key = random.text(&[
        r#"{"paths":["/pk"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/pk"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/pk"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/pk"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/pk"],"kind":"Hash"}"#,
        r#"{"paths":["/pk","/a"],"kind":"MultiHash","version":2}"#,
        r#"{"paths":["/pk"]}"#,
        r#"{"paths":[]}"#,
        r#"{"paths":["pk"],"kind":"Hash","version":3}"#,
        "null",
        "7",
    ]);
    let further = random.text(&[
        "",
        "",
        r#","defaultTtl":-1"#,
        r#","defaultTtl":0"#,
        r#","indexingPolicy":{"indexingMode":"none","automatic":false}"#,
        r#","indexingPolicy":{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#,
        r#","indexingPolicy":{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]]}"#,
        r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]}]}"#,
        r#","computedProperties":[{"name":"up","query":"SELECT VALUE UPPER(c.s) FROM c"}]"#,
        r#","changeFeedPolicy":{"retentionDuration":10}"#,
        r#","conflictResolutionPolicy":{"mode":"Custom"}"#,
        r#","vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32","dimensions":3,"distanceFunction":"cosine"}]}"#,
        r#","fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/s","language":"en-US"}]}"#,
        r#","unknownMember":1"#,
    ]);
    format!(
        "{{\"id\":\"c{}\",\"partitionKey\":{key}{further}}}",
        first_or_below(random, 3)
    )
}

pub(crate) fn script(random: &mut RandomSource) -> String {
    let body = random.text(&[
        "function f(a) { getContext().getResponse().setBody(a === undefined ? 1 : a); }",
        "function f(n) { return n + 1; }",
        "function f() { throw new Error(4242, 'no'); }",
        "function f() { var c = getContext().getCollection(); c.queryDocuments(c.getSelfLink(), 'SELECT * FROM c', {}, function (e, r) { getContext().getResponse().setBody(r); }); }",
        "function f(d) { __.createDocument(__.getSelfLink(), d || {id: 'i1', pk: 'p1'}, {}, function (e) { if (e) throw e; }); }",
        "function f() { var r = getContext().getRequest(); var b = r.getBody(); b.stamped = 1; r.setBody(b); }",
        "function f( {",
        "",
        "7",
    ]);
    let kind = random.text(&[
        "",
        r#","triggerType":"Pre","triggerOperation":"All""#,
        r#","triggerType":"post","triggerOperation":"create""#,
        r#","triggerType":"Never","triggerOperation":"All""#,
    ]);
    format!(
        "{{\"id\":\"s{}\",\"body\":{}{kind}}}",
        random.below(3),
        Json::from(body.as_str()).to_text()
    )
}

pub(crate) fn query(random: &mut RandomSource) -> String {
    let text = match random.below(3) {
        0 => random.text(&[
            "SELECT * FROM c",
            "SELECT VALUE COUNT(1) FROM c",
            "SELECT TOP 3 c.id FROM c ORDER BY c.a DESC",
        ]),
        1 => {
            let line = random.pick(&CORPUS);
            return format!("{{\"query\":{line}}}");
        }
        _ => {
            let filter = random.text(&[
                "c.a = @p",
                "c.n > @p",
                "ARRAY_CONTAINS(c.list, @p)",
                "c.pk = @p",
                "STARTSWITH(c.s, @p)",
            ]);
            let order = random.text(&[
                "",
                " ORDER BY c.n",
                " ORDER BY c.s DESC",
                " ORDER BY c.a, c.b",
                " OFFSET 1 LIMIT 2",
            ]);
            let what = random.text(&[
                "*",
                "VALUE c.id",
                "DISTINCT VALUE c.a",
                "c.a, COUNT(1) AS n",
                "udf.s1(c.n) AS u",
            ]);
            format!("SELECT {what} FROM c WHERE {filter}{order}")
        }
    };
    let value = json(random, 2);
    format!(
        "{{\"query\":{},\"parameters\":[{{\"name\":\"@p\",\"value\":{value}}}]}}",
        Json::from(text.as_str()).to_text()
    )
}

pub(crate) fn patch(random: &mut RandomSource) -> String {
    let operations: Vec<String> = (0..1 + random.below(3))
        .map(|_| {
            let kind = random.text(&[
                "add", "set", "replace", "remove", "incr", "move", "copy", "Add",
            ]);
            let path = random.text(&[
                "/a", "/n", "/list/0", "/list/-", "/deep/x", "/id", "/pk", "/_ts", "a", "",
                "/a~1b", "/list/9",
            ]);
            format!(
                "{{\"op\":\"{kind}\",\"path\":\"{path}\",\"value\":{},\"from\":\"/b\"}}",
                json(random, 2)
            )
        })
        .collect();
    let condition = random.text(&[
        "",
        "",
        r#","condition":"from c where c.n > 3""#,
        r#","condition":"nonsense""#,
    ]);
    format!("{{\"operations\":[{}]{condition}}}", operations.join(","))
}

pub(crate) fn batch(random: &mut RandomSource) -> String {
    let operations: Vec<String> = (0..random.below(5))
        .map(|_| {
            let kind = random.text(&[
                "Create", "Upsert", "Read", "Replace", "Delete", "Patch", "Dance",
            ]);
            let body = if kind == "Patch" {
                patch(random)
            } else {
                item(random)
            };
            let further = random.text(&[
                "",
                r#","ifMatch":"\"1\"""#,
                r#","ifNoneMatch":"*""#,
                r#","partitionKey":"[\"p1\"]""#,
            ]);
            format!(
                "{{\"operationType\":\"{kind}\",\"id\":\"i{}\",\"resourceBody\":{body}{further}}}",
                random.below(8)
            )
        })
        .collect();
    format!("[{}]", operations.join(","))
}

pub(crate) fn offer(random: &mut RandomSource) -> String {
    let content = random.text(&[
        r#"{"offerThroughput":400}"#,
        r#"{"offerThroughput":1000000}"#,
        r#"{"offerThroughput":-1}"#,
        r#"{"offerAutopilotSettings":{"maxThroughput":4000}}"#,
        r#"{"offerAutopilotSettings":{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":3}}}}"#,
        "7",
    ]);
    format!(
        "{{\"id\":\"x\",\"_rid\":\"x\",\"resource\":\"dbs/x/\",\"offerVersion\":\"V2\",\"content\":{content}}}"
    )
}

pub(crate) fn user(random: &mut RandomSource) -> String {
    format!("{{\"id\":\"u{}\"}}", first_or_below(random, 3))
}

pub(crate) fn permission(random: &mut RandomSource) -> String {
    let mode = random.text(&["Read", "All", "None", ""]);
    let resource = random.text(&[
        "dbs/d0/colls/c0",
        "dbs/d0/colls/c0/docs/i1",
        "dbs/d0",
        "nowhere",
        "",
    ]);
    format!(
        "{{\"id\":\"r{}\",\"permissionMode\":\"{mode}\",\"resource\":\"{resource}\"}}",
        random.below(3)
    )
}

/// Returns a body with a few bytes changed, cut or doubled.
pub(crate) fn damaged(random: &mut RandomSource, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    for _ in 0..1 + random.below(3) {
        let at = random.below(body.len());
        match random.below(5) {
            0 => body.truncate(at),
            1 if !body.is_empty() => body[at] = random.below(256) as u8,
            2 if !body.is_empty() => drop(body.remove(at)),
            3 => body.insert(at, random.below(256) as u8),
            _ => {
                let tail = body[at..].to_vec();
                body.extend(tail.into_iter().take(40));
            }
        }
    }
    body
}
