//! Random items, policies and queries. Names and values come from small sets, so that queries match
//! items.

use orrery_model::Json;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Returns JSON texts of scalars that are equal, nearly equal, or edge cases of the index encoding.
fn scalar() -> impl Strategy<Value = String> {
    let long = |end: &str| Json::from(format!("{}{end}", "x".repeat(1022))).to_text();
    let edge_cases = vec![
        "-0".to_owned(),
        "1.0".to_owned(),
        "1e300".to_owned(),
        "9007199254740992".to_owned(),
        "9007199254740993".to_owned(),
        "9007199254740994".to_owned(),
        format!("\"{}{}\"", "z".repeat(850), "1"),
        format!("\"{}{}\"", "z".repeat(850), "2"),
        "9223372036854775807".to_owned(),
        "-9223372036854775808".to_owned(),
        r#""a\u0000b""#.to_owned(),
        r#""é""#.to_owned(),
        long(""),
        long("y"),
        long("yy"),
        long("yyz"),
        long("yyza"),
        long("\u{0}\u{0}"),
    ];
    let plain = [
        "null", "true", "false", "0", "1", "2", "-1", "1.5", r#""""#, r#""a""#, r#""ab""#,
        r#""abc""#, r#""b""#,
    ];
    prop_oneof![4 => select(plain.map(str::to_owned).to_vec()), 1 => select(edge_cases)]
}

/// Returns any value: mostly scalars, some arrays and objects.
fn value() -> impl Strategy<Value = String> {
    let objects = ["{}", r#"{"x":1}"#, r#"{"x":"a","y":[1]}"#];
    prop_oneof![
        8 => scalar(),
        1 => array(),
        1 => select(objects.map(str::to_owned).to_vec()),
    ]
}

fn array() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![6 => scalar(), 1 => Just("[1]".to_owned()), 1 => Just(r#"{"k":1}"#.to_owned())],
        0..4,
    )
    .prop_map(|elements| format!("[{}]", elements.join(",")))
}

/// Returns partition key values of items; `None` is an item without the property.
pub(crate) fn partition_key() -> impl Strategy<Value = Option<String>> {
    prop_oneof![9 => some_key().prop_map(Some), 1 => Just(None)]
}

fn some_key() -> impl Strategy<Value = String> {
    let keys = [
        r#""p0""#, r#""p1""#, r#""p2""#, r#""p3""#, "1", "null", "true",
    ];
    select(keys.map(str::to_owned).to_vec())
}

/// Returns GeoJSON values, near each other and far apart, and some invalid values.
fn geometry() -> impl Strategy<Value = String> {
    let position = || {
        (
            select(vec![-180.0, -179.9, -60.0, 0.0, 8.5, 8.6, 40.0, 180.0]),
            select(vec![-89.0, -1.0, 0.0, 47.3, 47.4, 80.0, 90.0]),
        )
    };
    let point =
        position().prop_map(|(x, y)| format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#));
    let line = (position(), position()).prop_map(|((a, b), (c, d))| {
        format!(r#"{{"type":"LineString","coordinates":[[{a},{b}],[{c},{d}]]}}"#)
    });
    let polygon = (position(), select(vec![0.05, 1.0, 30.0]), any::<bool>()).prop_map(
        |((x, y), size, clockwise)| {
            let (x, y) = (f64::clamp(x, -150.0, 149.0), f64::clamp(y, -59.0, 59.0));
            let mut ring = [
                (x, y),
                (x + size, y),
                (x + size, y + size),
                (x, y + size),
                (x, y),
            ];
            if clockwise {
                ring.reverse();
            }
            let positions: Vec<String> = ring.iter().map(|(x, y)| format!("[{x},{y}]")).collect();
            format!(
                r#"{{"type":"Polygon","coordinates":[[{}]]}}"#,
                positions.join(",")
            )
        },
    );
    prop_oneof![
        4 => point,
        1 => line,
        2 => polygon,
        1 => Just(r#"{"type":"Point"}"#.to_owned()),
        1 => scalar(),
    ]
}

/// Returns vectors of three components, some of them alike, and some values that are none.
fn vector() -> impl Strategy<Value = String> {
    let component = || select(vec!["0", "1", "-1", "2", "0.1", "1e30"]);
    let components = (component(), component(), component());
    prop_oneof![
        6 => components.prop_map(|(x, y, z)| format!("[{x},{y},{z}]")),
        1 => select(vec!["[1,2]", "[1,2,3,4]", "[]", "[1,\"2\",3]", "[1e39,0,0]", "7", "null"])
            .prop_map(str::to_owned),
    ]
}

/// Returns texts of few words, and some values that are none.
fn words() -> impl Strategy<Value = String> {
    let word = select(vec!["red", "rods", "Rod", "the", "radar", "rowing", "row"]);
    prop_oneof![
        8 => prop::collection::vec(word, 0..6)
            .prop_map(|words| Json::from(words.join(" ")).to_text()),
        1 => select(vec!["7", "null", "[\"red\"]"]).prop_map(str::to_owned),
    ]
}

/// Returns search terms: words, phrases, words that texts lack, stop words, and fuzzy words.
fn search_term() -> impl Strategy<Value = &'static str> {
    select(vec![
        "'red'",
        "'rod'",
        "'rows'",
        "'red rod'",
        "'row the radar'",
        "'green'",
        "'the'",
        "{'term':'rad','distance':1}",
        "{'term':'reds','distance':1}",
        "{'term':'rod','distance':2}",
        "{'term':'row radios','distance':2}",
        "{'term':'gren','distance':1}",
        "{'term':'the','distance':2}",
        "{'term':'row','distance':0}",
    ])
}

/// Returns the members of an item except `id` and `pk`, each with a leading comma.
pub(crate) fn members() -> impl Strategy<Value = String> {
    let member = |name: &'static str, value: BoxedStrategy<String>| {
        prop::option::weighted(0.7, value)
            .prop_map(move |v| v.map_or_else(String::new, |v| format!(",\"{name}\":{v}")))
    };
    let nested = (
        scalar(),
        prop::option::of(value()),
        prop::option::of(scalar()),
    )
        .prop_map(|(x, y, w)| {
            let y = y.map_or_else(String::new, |y| format!(",\"y\":{y}"));
            let z = w.map_or_else(String::new, |w| format!(",\"z\":{{\"w\":{w}}}"));
            format!("{{\"x\":{x}{y}{z}}}")
        });
    let objects = prop::collection::vec(scalar(), 0..3).prop_map(|values| {
        let all: Vec<String> = values.iter().map(|v| format!("{{\"k\":{v}}}")).collect();
        format!("[{}]", all.join(","))
    });
    (
        member("a", value().boxed()),
        member("b", scalar().boxed()),
        member("n", prop_oneof![5 => nested, 1 => value()].boxed()),
        member("t", prop_oneof![5 => array(), 1 => value()].boxed()),
        member("o", objects.boxed()),
        member("odd name", scalar().boxed()),
        prop::option::weighted(0.4, geometry())
            .prop_map(|v| v.map_or_else(String::new, |v| format!(",\"g\":{v}"))),
        member("v", vector().boxed()),
        member("s", words().boxed()),
    )
        .prop_map(|(a, b, n, t, o, odd, g, v, s)| [a, b, n, t, o, odd, g, v, s].concat())
}

/// A policy that includes scalar paths only, although items have arrays and objects there as well.
const NARROW: &str = r#"{
    "includedPaths":[{"path":"/a/?"},{"path":"/n/?"},{"path":"/n/y/?"},{"path":"/t/?"}],
    "excludedPaths":[{"path":"/*"}]}"#;

/// Returns an indexing policy.
pub(crate) fn policy() -> impl Strategy<Value = String> {
    let paths: Vec<&'static str> = vec![
        "/a/?",
        "/a/*",
        "/b/?",
        "/n/*",
        "/n/x/?",
        "/n/y/*",
        "/n/z/w/?",
        "/t/*",
        "/t/[]/?",
        "/o/[]/k/?",
        "/o/*",
        "/pk/?",
        "/t/?",
        "/\"odd name\"/?",
    ];
    let count = paths.len();
    let lists = (
        any::<bool>(),
        subsequence(paths, 0..=count / 2),
        prop::collection::vec(any::<bool>(), count),
    );
    let random = lists.prop_map(|(is_root_included, paths, choices)| {
        let (mut included, mut excluded) = (Vec::new(), Vec::new());
        if is_root_included {
            included.push("/*")
        } else {
            excluded.push("/*")
        }
        for (path, is_included) in paths.into_iter().zip(choices) {
            if is_included {
                included.push(path)
            } else {
                excluded.push(path)
            }
        }
        let list = |paths: Vec<&str>| {
            let all: Vec<String> = paths
                .iter()
                .map(|p| format!("{{\"path\":{}}}", Json::from(*p)))
                .collect();
            format!("[{}]", all.join(","))
        };
        format!(
            "{{\"includedPaths\":{},\"excludedPaths\":{}}}",
            list(included),
            list(excluded)
        )
    });
    let random = (random, composites()).prop_map(with_composites);
    let everything =
        composites().prop_map(|composites| with_composites(("{}".to_owned(), composites)));
    prop_oneof![
        3 => everything,
        1 => Just(NARROW.to_owned()),
        4 => random,
        1 => Just(r#"{"indexingMode":"none"}"#.to_owned()),
    ]
}

/// Returns composite indexes over a few paths, so that some orders of queries have an index.
fn composites() -> impl Strategy<Value = Vec<Vec<(&'static str, bool)>>> {
    let paths = subsequence(vec!["/a", "/b", "/n/x", "/pk", "/_ts", "/t"], 2..4).prop_shuffle();
    let one = (paths, prop::collection::vec(any::<bool>(), 4))
        .prop_map(|(paths, directions)| paths.into_iter().zip(directions).collect());
    prop::collection::vec(one, 0..4)
}

/// The spatial index, added to policies with an even number of composite indexes.
const SPATIAL: &str = r#""spatialIndexes":[
    {"path":"/g/*","types":["Point","LineString","Polygon","MultiPolygon"]}],"#;

/// The vector and full-text indexes, added to policies with up to two composite indexes.
const SEARCH: &str = concat!(
    r#""vectorIndexes":[{"path":"/v","type":"flat"}],"#,
    r#""fullTextIndexes":[{"path":"/s"}],"#,
);

fn with_composites((policy, composites): (String, Vec<Vec<(&'static str, bool)>>)) -> String {
    let part = |(path, ascending): &(&str, bool)| {
        format!(
            "{{\"path\":\"{path}\",\"order\":\"{}\"}}",
            if *ascending {
                "ascending"
            } else {
                "descending"
            }
        )
    };
    let one = |parts: &Vec<(&str, bool)>| {
        format!("[{}]", parts.iter().map(part).collect::<Vec<_>>().join(","))
    };
    let all = composites.iter().map(one).collect::<Vec<_>>().join(",");
    let comma = if policy == "{}" { "" } else { "," };
    let comma = if composites.len() % 2 == 0 {
        format!("{comma}{SPATIAL}")
    } else {
        comma.to_owned()
    };
    let comma = match composites.len() {
        0..=2 => format!("{comma}{SEARCH}"),
        _ => comma,
    };
    format!(
        "{}{comma}\"compositeIndexes\":[{all}]}}",
        policy.strip_suffix('}').expect("an object")
    )
}

fn path() -> impl Strategy<Value = &'static str> {
    let paths = [
        "c.a",
        "c.a",
        "c.b",
        "c.b",
        "c.n.x",
        "c.n.y",
        "c.n.z.w",
        "c.n",
        "c.t",
        "c.t[0]",
        "c.o",
        "c.id",
        "c.pk",
        "c._ts",
        "c.gone",
        "c[\"odd name\"]",
        "c.a.x",
    ];
    select(paths.to_vec())
}

fn text_constant() -> impl Strategy<Value = String> {
    let long = Json::from("x".repeat(1023)).to_text();
    select(vec![
        r#""""#.to_owned(),
        r#""a""#.into(),
        r#""ab""#.into(),
        r#""b""#.into(),
        r#""x""#.into(),
        long,
    ])
}

/// Returns the condition of a WHERE clause.
fn condition() -> impl Strategy<Value = String> {
    let compare = || select(vec!["=", "=", "=", "!=", "<", "<=", ">", ">="]);
    let functions = vec!["STARTSWITH", "CONTAINS", "ENDSWITH", "STRINGEQUALS"];
    let checks = vec![
        "IS_DEFINED",
        "IS_NULL",
        "IS_BOOL",
        "IS_NUMBER",
        "IS_STRING",
        "IS_ARRAY",
        "IS_OBJECT",
        "IS_PRIMITIVE",
    ];
    let constant = || prop_oneof![8 => scalar(), 1 => value()];
    let element =
        || prop_oneof![6 => scalar(), 1 => select(vec!["[1]".to_owned(), r#"{"k":1}"#.into()])];
    let key = some_key;
    let leaf = prop_oneof![
        6 => (path(), compare(), constant()).prop_map(|(p, op, v)| format!("{p} {op} {v}")),
        1 => (path(), compare(), constant()).prop_map(|(p, op, v)| format!("{v} {op} {p}")),
        1 => (path(), compare(), path()).prop_map(|(p, op, q)| format!("{p} {op} {q}")),
        2 => key().prop_map(|v| format!("c.pk = {v}")),
        1 => prop::collection::vec(key(), 1..3).prop_map(|v| format!("c.pk IN ({})", v.join(", "))),
        2 => (path(), prop::collection::vec(constant(), 1..4))
            .prop_map(|(p, v)| format!("{p} IN ({})", v.join(", "))),
        1 => (path(), scalar(), scalar())
            .prop_map(|(p, v, w)| format!("({p} BETWEEN {v} AND {w})")),
        1 => (path(), scalar(), scalar())
            .prop_map(|(p, v, w)| format!("({p} >= {v} AND {p} < {w})")),
        2 => (select(functions), path(), text_constant())
            .prop_map(|(f, p, v)| format!("{f}({p}, {v})")),
        1 => (path(), select(vec!["a%", "%b", "%b%", "ab", "_b%"]))
            .prop_map(|(p, v)| format!("{p} LIKE \"{v}\"")),
        2 => (select(checks), path()).prop_map(|(f, p)| format!("{f}({p})")),
        2 => (select(vec!["c.t", "c.n.y", "c.a"]), element())
            .prop_map(|(p, v)| format!("ARRAY_CONTAINS({p}, {v})")),
        1 => scalar().prop_map(|v| format!("ARRAY_CONTAINS(c.o, {{\"k\": {v}}}, true)")),
        1 => (compare(), scalar())
            .prop_map(|(op, v)| format!("EXISTS(SELECT VALUE e FROM e IN c.t WHERE e {op} {v})")),
        1 => path().prop_map(str::to_owned),
        2 => (
            select(vec!["FullTextContainsAll", "FullTextContainsAny"]),
            prop::collection::vec(search_term(), 1..3),
        )
            .prop_map(|(f, terms)| format!("{f}(c.s, {})", terms.join(", "))),
        1 => path().prop_map(|p| format!("{p} % 2 = 0")),
        1 => (select(vec!["ST_WITHIN", "ST_INTERSECTS"]), geometry(), any::<bool>())
            .prop_map(|(f, g, is_constant_first)| match is_constant_first {
                true => format!("{f}({g}, c.g)"),
                false => format!("{f}(c.g, {g})"),
            }),
        1 => (
            geometry(),
            select(vec!["<", "<=", ">"]),
            select(vec![0.0, 10_000.0, 20_000.0, 8_000_000.0]),
        )
            .prop_map(|(g, op, d)| format!("ST_DISTANCE(c.g, {g}) {op} {d}")),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" AND "))),
            2 => prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" OR "))),
            1 => inner.prop_map(|part| format!("NOT ({part})")),
        ]
    })
}

/// A query with the paths of its ORDER BY clause; `true` is descending.
#[derive(Clone, Debug)]
pub(crate) struct RandomQuery {
    pub text: String,
    pub order: Vec<(&'static str, bool)>,
}

/// Returns an optional WHERE clause.
fn filter() -> impl Strategy<Value = String> {
    prop::option::weighted(0.8, condition())
        .prop_map(|c| c.map_or_else(String::new, |c| format!(" WHERE {c}")))
}

/// Returns a query of rows, with ORDER BY, TOP and OFFSET LIMIT in part of the cases.
fn row_query() -> impl Strategy<Value = RandomQuery> {
    let selections = vec![
        ("*", ""),
        ("*", ""),
        ("VALUE c.id", ""),
        ("c.id, c.a, c.n", ""),
        ("VALUE c.a", ""),
        ("DISTINCT VALUE c.a", ""),
        ("DISTINCT c.a, c.b", ""),
        ("VALUE e", " JOIN e IN c.t"),
    ];
    let window = || {
        let offset = (0..6usize, 0..12usize)
            .prop_map(|(offset, limit)| format!(" OFFSET {offset} LIMIT {limit}"));
        prop_oneof![4 => Just(String::new()), 1 => offset]
    };
    let top = || {
        prop_oneof![
            5 => Just(String::new()),
            1 => (1..12usize).prop_map(|n| format!("TOP {n} ")),
        ]
    };
    let several = prop::collection::vec(
        (
            select(vec!["c.a", "c.b", "c.n.x", "c.pk", "c._ts", "c.t"]),
            any::<bool>(),
        ),
        2..4,
    );
    let order = prop_oneof![
        4 => Just(Vec::new()),
        4 => (path(), any::<bool>()).prop_map(|key| vec![key]),
        2 => several,
    ];
    (select(selections), top(), filter(), order, window()).prop_map(
        |((selection, join), top, filter, order, window)| {
            let (distinct, selection) = selection
                .strip_prefix("DISTINCT ")
                .map_or(("", selection), |rest| ("DISTINCT ", rest));
            let window = if top.is_empty() {
                window
            } else {
                String::new()
            };
            let keys: Vec<String> = order
                .iter()
                .map(|(path, is_descending)| {
                    format!("{path}{}", if *is_descending { " DESC" } else { "" })
                })
                .collect();
            let by = if keys.is_empty() {
                String::new()
            } else {
                format!(" ORDER BY {}", keys.join(", "))
            };
            RandomQuery {
                text: format!("SELECT {distinct}{top}{selection} FROM c{join}{filter}{by}{window}"),
                order,
            }
        },
    )
}

/// Returns a query with aggregates.
fn aggregate_query() -> impl Strategy<Value = RandomQuery> {
    let selections = vec![
        ("VALUE COUNT(1)", ""),
        ("VALUE COUNT(c.a)", ""),
        ("VALUE SUM(c.b)", ""),
        ("VALUE MIN(c.a)", ""),
        ("VALUE MAX(c.n.x)", ""),
        ("VALUE AVG(c.b)", ""),
        ("COUNT(1) AS n, MAX(c.b) AS m", ""),
        ("c.a, COUNT(1) AS n", " GROUP BY c.a"),
        ("c.b, c.pk, SUM(c.n.x) AS s", " GROUP BY c.b, c.pk"),
        ("VALUE COUNT(1)", " JOIN e IN c.t"),
    ];
    (select(selections), filter()).prop_map(|((selection, rest), filter)| {
        let text = match rest.strip_prefix(" GROUP") {
            Some(_) => format!("SELECT {selection} FROM c{filter}{rest}"),
            None => format!("SELECT {selection} FROM c{rest}{filter}"),
        };
        RandomQuery {
            text,
            order: Vec::new(),
        }
    })
}

/// Returns a query whose SELECT and WHERE clauses read one path only, which an index may answer
/// alone.
fn one_path_query() -> impl Strategy<Value = RandomQuery> {
    (
        select(vec![
            "VALUE MIN(@)",
            "VALUE MAX(@)",
            "VALUE COUNT(@)",
            "MAX(@) AS m, MIN(@) AS n",
            "VALUE SUM(@)",
            "DISTINCT VALUE @",
            "DISTINCT @",
            "@ AS v, COUNT(1) AS n GROUP BY @",
            "VALUE COUNT(@) GROUP BY @",
            "@ AS v GROUP BY @",
        ]),
        select(vec!["c.a", "c.b", "c.t", "c.n.x"]),
        select(vec![
            "",
            " WHERE @ % 2 = 0",
            " WHERE @ > 0",
            " WHERE @ >= 'a' AND LENGTH(@) < 3",
            " WHERE @ != 1",
            " WHERE ARRAY_CONTAINS(@, 1)",
            " WHERE @ IN (1, 'a', 2)",
            " WHERE IS_DEFINED(@) AND NOT IS_ARRAY(@)",
            " WHERE @ < 9007199254740993",
        ]),
    )
        .prop_map(|(selection, path, filter)| {
            let (selection, group) = match selection.split_once(" GROUP") {
                Some((selection, group)) => (selection, format!(" GROUP{group}")),
                None => (selection, String::new()),
            };
            let text = format!("SELECT {selection} FROM c{filter}{group}");
            RandomQuery {
                text: text.replace("@", path),
                order: Vec::new(),
            }
        })
}

/// Returns a query in the order of the distance of vectors. The order of ties is that of an order
/// that descends by a path which no item has.
fn vector_query() -> impl Strategy<Value = RandomQuery> {
    let top = prop_oneof![
        2 => (1..12usize).prop_map(|n| format!("TOP {n} ")),
        1 => Just(String::new()),
    ];
    let options = select(vec![
        "",
        ", true",
        ", false, {'distanceFunction':'euclidean'}",
        ", false, {'distanceFunction':'dotproduct'}",
        ", false, {'dataType':'float16'}",
    ]);
    let selection = select(vec!["*", "VALUE c.id", "c.id, c.v", "VALUE e"]);
    (top, selection, filter(), vector(), options).prop_map(
        |(top, selection, filter, vector, options)| {
            let join = if selection == "VALUE e" {
                " JOIN e IN c.t"
            } else {
                ""
            };
            RandomQuery {
                text: format!(
                    "SELECT {top}{selection} FROM c{join}{filter} \
                     ORDER BY VectorDistance(c.v, {vector}{options})"
                ),
                order: vec![("c.gone", true)],
            }
        },
    )
}

/// Returns a query in the order of the score of a text, as client plans have it.
fn text_query() -> impl Strategy<Value = RandomQuery> {
    let terms = prop::collection::vec(search_term(), 1..3);
    (1..12usize, filter(), terms).prop_map(|(top, filter, terms)| {
        let hits = vec!["2"; terms.len()].join(",");
        RandomQuery {
            text: format!(
                "SELECT TOP {top} VALUE c.id FROM c{filter} \
                 ORDER BY _FullTextScore(c.s, [{}], 20, 60, [{hits}]) DESC",
                terms.join(",")
            ),
            order: vec![("c.gone", true)],
        }
    })
}

/// Returns the query for the statistics of texts, as client plans have it.
fn statistics_query() -> impl Strategy<Value = RandomQuery> {
    prop::collection::vec(search_term(), 1..3).prop_map(|terms| {
        let mut hits = Vec::new();
        for term in terms {
            hits.push(format!("COUNTIF(FullTextContains(c.s, {term}))"));
        }
        RandomQuery {
            text: format!(
                "SELECT COUNT(1) AS documentCount, [{{totalWordCount: \
                 SUM(_FullTextWordCount(c.s)), hitCounts: [{}]}}] AS fullTextStatistics FROM c",
                hits.join(", ")
            ),
            order: Vec::new(),
        }
    })
}

/// Returns a query with ORDER BY RANK.
fn ranked_query() -> impl Strategy<Value = RandomQuery> {
    let text = || {
        prop::collection::vec(search_term(), 1..3)
            .prop_map(|terms| format!("FullTextScore(c.s, {})", terms.join(", ")))
    };
    let vector = || vector().prop_map(|v| format!("VectorDistance(c.v, {v})"));
    let rank = prop_oneof![
        2 => text(),
        3 => (text(), vector()).prop_map(|(text, vector)| format!("RRF({text}, {vector})")),
        1 => (text(), text()).prop_map(|(a, b)| format!("RRF({a}, {b}, [2, 1])")),
        1 => (text(), vector())
            .prop_map(|(text, vector)| format!("RRF({text}, {vector}, [1, -1])")),
    ];
    (1..12usize, filter(), rank).prop_map(|(top, filter, rank)| RandomQuery {
        text: format!("SELECT TOP {top} c.id, c.s FROM c{filter} ORDER BY RANK {rank}"),
        order: Vec::new(),
    })
}

/// Returns a random query.
pub(crate) fn random_query() -> impl Strategy<Value = RandomQuery> {
    prop_oneof![
        6 => row_query(),
        2 => aggregate_query(),
        1 => one_path_query(),
        2 => vector_query(),
        1 => text_query(),
        1 => statistics_query(),
        2 => ranked_query(),
    ]
}
