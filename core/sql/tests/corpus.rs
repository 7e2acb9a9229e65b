//! The corpus of the fuzz targets, checked on every compiler, and their dictionary, which is made
//! from the function table (`ORRERY_BLESS=1` writes it).

use crate::oracle;
use orrery_model::json::parse;
use orrery_sql::function_reference;
use std::path::{Path, PathBuf};

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

#[test]
fn every_text_of_the_corpus_passes_the_checks_of_the_fuzz_targets() {
    let corpus = std::fs::read_to_string(fuzz_folder().join("corpus/sql.jsonl")).expect("the corpus");
    assert!(
        corpus.len() < 1_000_000,
        "the corpus is kept below 1 MB: see its README"
    );
    let mut count = 0;
    for line in corpus.lines() {
        let text = parse(line.as_bytes()).expect("a line is JSON");
        let text = text.as_str().expect("a line is a string");
        oracle::check_compile_plan_and_print(text);
        oracle::check_run(text);
        count += 1;
    }
    assert!(count > 1_000, "only {count} texts");
}

/// Keywords, constants and user-defined functions.
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
/// Operators, placeholders, parameters, paths and literals.
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
    // The first two columns of the reference are the name and the other spellings.
    let reference = function_reference();
    let mut entries: Vec<String> = WORDS.iter().chain(SIGNS).map(ToString::to_string).collect();
    for line in reference.lines().skip(2) {
        let cells: Vec<&str> = line.split('|').collect();
        let names = [cells[1], cells[2]].join(",");
        for name in names.split(',').map(str::trim) {
            if !name.is_empty() {
                entries.push(format!("{name}("));
            }
        }
    }
    let dictionary: String = entries
        .iter()
        .map(|entry| format!("\"{}\"\n", entry.replace('\\', "\\\\")))
        .collect();

    let file = fuzz_folder().join("sql.dict");
    if std::env::var_os("ORRERY_BLESS").is_some() {
        std::fs::write(&file, &dictionary).expect("writing the dictionary");
    }
    assert_eq!(
        std::fs::read_to_string(file).expect("the dictionary"),
        dictionary,
        "write it with ORRERY_BLESS=1"
    );
}
