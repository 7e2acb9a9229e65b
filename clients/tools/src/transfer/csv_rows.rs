//! Rows of a CSV file as JSON objects.
//!
//! | cell | value |
//! |---|---|
//! | empty | the property is left out |
//! | `true`, `false`, `null`, a number, an array, an object | that value, with its digits |
//! | anything else, `007` and `1,5` for example | a string |
//!
//! The column `id` and the columns that the rules name are strings in any case. A column `a.b` is
//! the property `b` of the object `a`, unless the rules say otherwise.

use super::csv_text::{COLUMNS_MAX, Row, Rows};
use super::input::{CsvRules, Record, Sink, TEXT_BYTES_MAX, too_long};
use orrery_model::json::{parse, write_string};
use orrery_model::words::shortened;
use orrery_model::{Json, limits};
use std::io::BufRead;

/// Bytes of a header.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// A column, or an object that contains columns.
enum Node {
    Column { index: usize, is_text: bool },
    Object(Vec<(String, Node)>),
}

/// Reads all rows. A row that is too long, that does not fit its header, or whose quotation mark is
/// not closed, is a faulty record.
///
/// # Errors
/// A description of a header that cannot be used, or of a file that cannot be read.
pub(super) fn read(
    input: Box<dyn BufRead>,
    rules: &CsvRules,
    sink: Sink<'_>,
) -> Result<(), String> {
    let mut rows = Rows::new(input);
    let mut row = Row::default();
    if !read_row(&mut rows, &mut row, HEADER_BYTES_MAX)? {
        return Ok(());
    }
    let header = header(&row)?;
    let columns = columns(&header, rules)?;
    let mut number = 0;
    while read_row(&mut rows, &mut row, usize::MAX)? {
        number += 1;
        let mut record = Record {
            number,
            line: row.line,
            ..Record::default()
        };
        let outcome = match fault_of(&row, header.len()) {
            Some(fault) => Err(fault),
            None => write_object(&columns, &row, &mut record.text).map(drop),
        };
        if let Err(fault) = outcome {
            record.fault = Some(fault);
            record.text = row.kept_cells().collect::<Vec<_>>().join(&b","[..]);
        }
        if !sink(record) {
            return Ok(());
        }
    }
    Ok(())
}

fn read_row(rows: &mut Rows, row: &mut Row, bytes_max: usize) -> Result<bool, String> {
    rows.read(row, bytes_max).map_err(|e| e.to_string())
}

/// Returns the fault of a row that makes no object.
fn fault_of(row: &Row, columns: usize) -> Option<String> {
    let open = "a quotation mark opens a cell and none closes it before the end of the file";
    match (row.bytes > TEXT_BYTES_MAX, row.is_open) {
        (true, true) => return Some(format!("{}; {open}", too_long(row.bytes))),
        (true, false) => return Some(too_long(row.bytes)),
        (false, true) => return Some(open.to_owned()),
        (false, false) => {}
    }
    (row.cells != columns).then(|| {
        let cells = row.cells;
        format!("the row has {cells} cells and the header {columns}")
    })
}

/// Returns the names of the columns.
fn header(row: &Row) -> Result<Vec<String>, String> {
    let line = row.line;
    if row.bytes > HEADER_BYTES_MAX {
        return Err(format!(
            "line {line}: the header has more than {} MiB; the first row names the columns of a \
             CSV file",
            HEADER_BYTES_MAX >> 20
        ));
    }
    if row.is_open {
        return Err(format!(
            "line {line}: a quotation mark opens a name of the header and none closes it"
        ));
    }
    if row.cells > COLUMNS_MAX {
        return Err(format!(
            "line {line}: the header has {} columns; a file has at most {COLUMNS_MAX}",
            row.cells
        ));
    }
    let mut names = Vec::with_capacity(row.cells);
    for cell in row.kept_cells() {
        let name = std::str::from_utf8(cell).map_err(|e| {
            let (column, byte) = (names.len() + 1, e.valid_up_to() + 1);
            format!("line {line}: the name of column {column} is no UTF-8 at byte {byte}")
        })?;
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Returns the columns as a tree of objects.
fn columns(header: &[String], rules: &CsvRules) -> Result<Vec<(String, Node)>, String> {
    for name in &rules.text_columns {
        if !header.iter().any(|column| column == name) {
            return Err(format!("header: there is no column '{}'", shortened(name)));
        }
    }
    let mut root = Vec::new();
    for (index, name) in header.iter().enumerate() {
        let is_text = name == "id" || rules.text_columns.iter().any(|text| text == name);
        let path: Vec<&str> = if rules.flat {
            vec![name]
        } else {
            name.split('.').collect()
        };
        let named = shortened(name);
        if path.iter().any(|step| step.is_empty()) {
            return Err(format!(
                "header: column {} has no usable name '{named}'",
                index + 1
            ));
        }
        if path.len() > limits::NESTING_DEPTH {
            return Err(format!(
                "header: the column '{named}' is a path of {} steps; an item is nested at most {} \
                 deep (--csv-flat takes names as they stand)",
                path.len(),
                limits::NESTING_DEPTH
            ));
        }
        let node = Node::Column { index, is_text };
        insert(&mut root, &path, node)
            .map_err(|()| format!("header: the column '{named}' stands twice or in another"))?;
    }
    Ok(root)
}

fn insert(members: &mut Vec<(String, Node)>, path: &[&str], node: Node) -> Result<(), ()> {
    let Some((name, rest)) = path.split_first() else {
        return Err(());
    };
    let existing = members.iter().position(|(given, _)| given == name);
    match (existing, rest.is_empty()) {
        (None, true) => members.push(((*name).to_owned(), node)),
        (None, false) => {
            let mut inner = Vec::new();
            insert(&mut inner, rest, node)?;
            members.push(((*name).to_owned(), Node::Object(inner)));
        }
        (Some(at), false) => match &mut members[at].1 {
            Node::Object(inner) => insert(inner, rest, node)?,
            Node::Column { .. } => return Err(()),
        },
        (Some(_), true) => return Err(()),
    }
    Ok(())
}

/// Writes an object and returns true if it has members.
fn write_object(members: &[(String, Node)], row: &Row, out: &mut Vec<u8>) -> Result<bool, String> {
    out.push(b'{');
    let begin = out.len();
    for (name, node) in members {
        let before = out.len();
        if before > begin {
            out.push(b',');
        }
        write_string(name, out);
        out.push(b':');
        let is_written = match node {
            Node::Object(inner) => write_object(inner, row, out)?,
            Node::Column { index, is_text } => {
                write_cell(name, row.cell(*index).unwrap_or_default(), *is_text, out)?
            }
        };
        if !is_written {
            out.truncate(before);
        }
    }
    let has_members = out.len() > begin;
    out.push(b'}');
    Ok(has_members)
}

fn write_cell(name: &str, cell: &[u8], is_text: bool, out: &mut Vec<u8>) -> Result<bool, String> {
    if cell.is_empty() {
        return Ok(false);
    }
    let text = std::str::from_utf8(cell)
        .map_err(|e| format!("column '{name}': no UTF-8 at byte {}", e.valid_up_to() + 1))?;
    let begins_like_json = matches!(
        cell[0],
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'[' | b'{'
    );
    if !is_text && begins_like_json && !matches!(parse(cell), Err(_) | Ok(Json::String(_))) {
        out.extend_from_slice(cell);
    } else {
        write_string(text, out);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &'static [u8], rules: &CsvRules) -> Result<Vec<Record>, String> {
        let mut found = Vec::new();
        read(Box::new(text), rules, &mut |record| {
            found.push(record);
            true
        })?;
        Ok(found)
    }

    fn texts(text: &'static [u8], rules: &CsvRules) -> Vec<String> {
        let rows = rows(text, rules).unwrap();
        rows.into_iter()
            .map(|row| String::from_utf8(row.text).unwrap())
            .collect()
    }

    #[test]
    fn cells_have_the_type_that_they_look_like() {
        let text = b"id,n,ok,tags,zip,note\r\n7,9007199254740993.10,true,\"[1,2]\",007,\r\n\
                     8,-1e3,false,null,x,\"a \"\"b\"\",\nc\"\r\n";
        let expected = [
            r#"{"id":"7","n":9007199254740993.10,"ok":true,"tags":[1,2],"zip":"007"}"#,
            r#"{"id":"8","n":-1e3,"ok":false,"tags":null,"zip":"x","note":"a \"b\",\nc"}"#,
        ];
        assert_eq!(texts(text, &CsvRules::default()), expected);
    }

    #[test]
    fn columns_are_paths_and_may_be_kept_as_text() {
        let text = b"id,address.city,address.zip\n1,Bern,3000\n2,,\n";
        let expected = [
            r#"{"id":"1","address":{"city":"Bern","zip":3000}}"#,
            r#"{"id":"2"}"#,
        ];
        assert_eq!(texts(text, &CsvRules::default()), expected);
        let rules = CsvRules {
            text_columns: vec!["address.zip".into()],
            flat: true,
        };
        let expected = [
            r#"{"id":"1","address.city":"Bern","address.zip":"3000"}"#,
            r#"{"id":"2"}"#,
        ];
        assert_eq!(texts(text, &rules), expected);
    }

    #[test]
    fn a_row_that_does_not_fit_its_header_is_a_faulty_record_and_the_next_is_read() {
        let found = rows(b"id,a\n1\n2,3\n4,\xff\n", &CsvRules::default()).unwrap();
        assert!(found[0].fault.as_ref().unwrap().contains("1 cells"));
        assert_eq!((found[1].fault.as_ref(), found[1].line), (None, 3));
        assert!(found[2].fault.as_ref().unwrap().contains("UTF-8"));
    }

    #[test]
    fn a_quotation_mark_that_is_not_closed_is_told_with_the_line_that_it_opens_on() {
        let text = b"id,a\n1,x\n2,\"open\n3,y\n4,z\n";
        let found = rows(text, &CsvRules::default()).unwrap();
        assert_eq!((found.len(), found[0].fault.as_ref()), (2, None));
        let fault = found[1].fault.as_ref().unwrap();
        assert!(fault.contains("none closes it"), "{fault}");
        assert_eq!((found[1].number, found[1].line), (2, 3));
    }

    #[test]
    fn a_row_that_is_too_long_is_a_faulty_record_and_the_next_is_read() {
        let long = "x".repeat(TEXT_BYTES_MAX);
        let text = format!("id,a\n1,{long}\n2,y\n3,\"{long}").into_bytes();
        let found = rows(text.leak(), &CsvRules::default()).unwrap();
        let fault = |at: usize| found[at].fault.clone().unwrap_or_default();
        assert!(fault(0).contains("16777219 bytes"), "{}", fault(0));
        assert_eq!((found[1].fault.as_ref(), found[1].line), (None, 3));
        assert!(fault(2).contains("none closes it"), "{}", fault(2));
        assert!(found.iter().all(|row| row.text.len() <= TEXT_BYTES_MAX + 2));
    }

    #[test]
    fn a_header_beyond_its_bounds_is_refused_with_its_line() {
        let long = "x".repeat(HEADER_BYTES_MAX + 1);
        let many = ["c"; COLUMNS_MAX + 1].join(",");
        let deep = ["d"; limits::NESTING_DEPTH + 1].join(".");
        for (text, part) in [
            (
                format!("\n{long},b\n1,2\n"),
                "line 2: the header has more than 1 MiB",
            ),
            (format!("{many}\n"), "line 1: the header has 16385 columns"),
            (format!("{deep}\n"), "a path of 129 steps"),
            ("id,\"a\n1,2\n".to_owned(), "line 1: a quotation mark opens"),
        ] {
            let fault = rows(text.into_bytes().leak(), &CsvRules::default()).unwrap_err();
            assert!(fault.contains(part) && fault.len() < 300, "{fault}");
        }
        let fault = rows(b"id,\xff\n", &CsvRules::default()).unwrap_err();
        assert!(fault.contains("column 2 is no UTF-8 at byte 1"), "{fault}");
    }

    #[test]
    fn a_header_with_two_equal_or_nested_columns_is_refused() {
        for text in [
            &b"a,a\n1,2\n"[..],
            b"a,a.b\n1,2\n",
            b"a,\n1,2\n",
            b"a.,b\n1,2\n",
        ] {
            assert!(rows(text, &CsvRules::default()).is_err());
        }
    }
}
