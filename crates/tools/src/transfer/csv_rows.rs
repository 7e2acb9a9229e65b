//! Rows of a CSV file as JSON objects.
//!
//! | cell | value |
//! |---|---|
//! | empty | the property is left out |
//! | `true`, `false`, `null`, a number, an array or an object in JSON | that value, a number with its digits |
//! | anything else, `007` and `1,5` for example | a string |
//!
//! The column `id` and the columns that the rules name are strings in any case. A column `a.b` is
//! the property `b` of the object `a`, unless the rules say otherwise.

use super::input::{CsvRules, Record, Sink};
use orrery_model::Json;
use orrery_model::json::{parse, write_string};
use std::io::BufRead;

/// A column, or an object that contains columns.
enum Node {
    Column { index: usize, is_text: bool },
    Object(Vec<(String, Node)>),
}

/// Reads all rows.
///
/// # Errors
/// A description of a header that cannot be used, or of a file that cannot be read.
pub(super) fn read(
    input: Box<dyn BufRead>,
    rules: &CsvRules,
    sink: Sink<'_>,
) -> Result<(), String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(input);
    let header = reader
        .headers()
        .map_err(|e| format!("header: {e}"))?
        .clone();
    let columns = columns(&header, rules)?;
    let mut row = csv::ByteRecord::new();
    let mut number = 0;
    while reader
        .read_byte_record(&mut row)
        .map_err(|e| e.to_string())?
    {
        number += 1;
        let line = row.position().map_or(0, csv::Position::line);
        let mut record = Record {
            number,
            line,
            ..Record::default()
        };
        let outcome = if row.len() == header.len() {
            let is_written = write_object(&columns, &row, &mut record.text);
            is_written.map(drop)
        } else {
            Err(format!(
                "the row has {} cells and the header {}",
                row.len(),
                header.len()
            ))
        };
        if let Err(fault) = outcome {
            record.fault = Some(fault);
            record.text = row.iter().collect::<Vec<_>>().join(&b","[..]);
        }
        if !sink(record) {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the columns as a tree of objects.
fn columns(header: &csv::StringRecord, rules: &CsvRules) -> Result<Vec<(String, Node)>, String> {
    for name in &rules.text_columns {
        if !header.iter().any(|column| column == name) {
            return Err(format!("header: there is no column '{name}'"));
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
        if path.iter().any(|step| step.is_empty()) {
            return Err(format!(
                "header: column {} has no usable name '{name}'",
                index + 1
            ));
        }
        let node = Node::Column { index, is_text };
        insert(&mut root, &path, node)
            .map_err(|()| format!("header: the column '{name}' stands twice or in another"))?;
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
fn write_object(
    members: &[(String, Node)],
    row: &csv::ByteRecord,
    out: &mut Vec<u8>,
) -> Result<bool, String> {
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
                write_cell(name, row.get(*index).unwrap_or_default(), *is_text, out)?
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
