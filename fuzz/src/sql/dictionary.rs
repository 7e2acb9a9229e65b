//! The dictionary of the fuzz targets of the query language, which is made from the function table
//! (`ORRERY_BLESS=1` writes it).

use orrery_sql::function_reference;
use std::path::Path;

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

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/sql.dict");
    if std::env::var_os("ORRERY_BLESS").is_some() {
        std::fs::write(&file, &dictionary).expect("writing the dictionary");
    }
    assert_eq!(
        std::fs::read_to_string(file).expect("the dictionary"),
        dictionary,
        "write it with ORRERY_BLESS=1"
    );
}
