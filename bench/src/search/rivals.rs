//! Other databases with the same data: `bench/search_rivals.py` as a child, asked by lines of JSON.
//!
//! A request is one line, its answer is the next line. The milliseconds of an answer are measured
//! in the child, around the call of the database's driver.

use super::answer::Answer;
use super::data::{Data, SHARES};
use crate::Result;
use crate::record::figure;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Path of the script from the folder of this crate.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/search_rivals.py");

/// The child. It ends when its standard input does.
pub(crate) struct Rivals {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// A search for the nearest vectors by pgvector.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Pgvector {
    /// Candidates of the graph; `None` for the exact search without it.
    pub(crate) ef_search: Option<u32>,
    /// True if the graph is read on until enough rows pass the filter.
    pub(crate) is_iterative: bool,
}

impl Rivals {
    /// Starts the child with the interpreter `python` and loads the data of `data`.
    pub(crate) fn start(
        python: &Path,
        source: &Path,
        directory: &Path,
        data: &Data,
    ) -> Result<Rivals> {
        let directory = directory.join("rivals");
        std::fs::create_dir(&directory)?;
        let mut child = Command::new(python)
            .arg(SCRIPT)
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", python.display()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut rivals = Rivals {
            child,
            input,
            output: BufReader::new(output.ok_or("the child has no standard output")?),
        };
        println!("\nload of the rivals");
        let answer = rivals.ask(&json!({
            "do": "load",
            "data": source,
            "items": data.items(),
            "real": data.real,
        }))?;
        for pair in answer["figures"].as_array().into_iter().flatten() {
            let name = pair[0].as_str().unwrap_or_default();
            let value = pair[1].as_f64().unwrap_or_default();
            println!("  {name:<50}{value:>11.1}");
            figure(format!("search, {name}"), value);
        }
        Ok(rivals)
    }

    /// Sends a request and returns its answer.
    fn ask(&mut self, request: &Value) -> Result<Value> {
        let input = self.input.as_mut().ok_or("the rivals have ended")?;
        writeln!(input, "{request}")?;
        input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line)
            .map_err(|_| format!("search_rivals.py answers {line:?} instead of JSON"))?;
        match answer["error"].as_str() {
            Some(error) => Err(format!("search_rivals.py: {error}").into()),
            None => Ok(answer),
        }
    }

    fn rows(&mut self, request: &Value) -> Result<Answer> {
        let answer = self.ask(request)?;
        let ids = answer["ids"].as_array().into_iter().flatten();
        let milliseconds = answer["ms"].as_f64().ok_or("an answer without a time")?;
        Ok(Answer {
            took: Duration::try_from_secs_f64(milliseconds / 1e3)?,
            processor: answer["cpu"].as_f64(),
            rows: ids.map(Value::to_string).collect(),
        })
    }

    /// Returns the nearest items of a vector, of those that a filter keeps.
    pub(crate) fn nearest(
        &mut self,
        search: Pgvector,
        vector: &str,
        share: usize,
    ) -> Result<Answer> {
        self.rows(&json!({
            "do": "nearest",
            "ef": search.ef_search,
            "iterative": search.is_iterative,
            "below": SHARES[share],
            "vector": vector,
        }))
    }

    /// Returns the best items with any of some words.
    pub(crate) fn rank(&mut self, database: &str, words: &[String]) -> Result<Answer> {
        self.rows(&json!({"do": "rank", "database": database, "words": words}))
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        // The end of its input tells the child to stop its databases.
        self.input = None;
        let _ = self.child.wait();
    }
}
