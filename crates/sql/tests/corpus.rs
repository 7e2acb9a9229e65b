//! Every text that the fuzz targets found worth keeping, asked again on any compiler; and their dictionary, which is
//! made from the function table (`ORRERY_BLESS=1` writes it).

#[path = "support/oracle.rs"]
mod oracle;
mod support;

use orrery_model::json::parse;
use orrery_sql::function_reference;
use std::path::{Path, PathBuf};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

#[test]
fn what_was_found_once_stays_mended() {
    let corpus = std::fs::read_to_string(fuzz().join("corpus.jsonl")).expect("the corpus");
    assert!(
        corpus.len() < 1_000_000,
        "the corpus is kept small: see its README"
    );
    let mut count = 0;
    for line in corpus.lines() {
        let text = parse(line.as_bytes()).expect("a line is JSON");
        let text = text.as_str().expect("a line is a string");
        oracle::front(text);
        oracle::run(text);
        count += 1;
    }
    assert!(count > 1_000, "only {count} texts");
}

/// Words that are no functions.
const WORDS: &[&str] = &[
    "ALL",
    "AND",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "DESC",
    "DISTINCT",
    "ESCAPE",
    "EXISTS",
    "FALSE",
    "FIRST",
    "FROM",
    "GROUP",
    "IN",
    "JOIN",
    "LAST",
    "LET",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "OR",
    "ORDER",
    "RANK",
    "SELECT",
    "TOP",
    "TRUE",
    "UNDEFINED",
    "VALUE",
    "WHERE",
    "NaN",
    "Infinity",
    "udf.add(",
    "udf.nothing(",
    "udf.fail(",
];
const SIGNS: &[&str] = &[
    ">>>",
    "<<",
    ">>",
    "<=",
    ">=",
    "<>",
    "!=",
    "||",
    "??",
    "{documentdb-formattableorderbyquery-filter}",
    "--",
    "/*",
    "*/",
    "@p",
    "@n",
    "@list",
    "@o",
    "c.n",
    "c.s",
    "c.tags",
    "c.kids",
    "c.x",
    "c.a.b",
    "c.lowerName",
    "c.total",
    "1e999",
    "9007199254740993",
    "0x1F",
    "\\u00e9",
    "'%a_[b-c]%'",
];

#[test]
fn the_dictionary_has_every_function() {
    let reference = function_reference();
    let functions = reference.lines().skip(2).flat_map(|line| {
        let cells: Vec<&str> = line.split('|').collect();
        [cells[1], cells[2]]
            .join(",")
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect::<Vec<_>>()
    });
    let functions = functions
        .filter(|name| !name.is_empty())
        .map(|name| format!("{name}("));
    let words = WORDS
        .iter()
        .chain(SIGNS)
        .map(ToString::to_string)
        .chain(functions);
    let dictionary: String = words
        .map(|word| format!("\"{}\"\n", word.replace('\\', "\\\\")))
        .collect();
    let file = fuzz().join("sql.dict");
    if std::env::var_os("ORRERY_BLESS").is_some() {
        std::fs::write(&file, &dictionary).expect("writing the dictionary");
    }
    assert_eq!(
        std::fs::read_to_string(file).expect("the dictionary"),
        dictionary,
        "write it with ORRERY_BLESS=1"
    );
}
