//! Converts the corpus between `corpus.jsonl`, which holds one text as a JSON string on each line,
//! and a folder with one file for each text, which libFuzzer reads and writes.
//!
//! ```text
//! corpus unpack FOLDER    writes one file for each line
//! corpus pack FOLDER      reads the files that are UTF-8, shortest first, up to 900,000 bytes
//! ```

use orrery_model::Json;
use orrery_model::json::parse;
use std::error::Error;
use std::path::Path;

/// Limit in bytes of `corpus.jsonl`.
const PACKED_BYTES: usize = 900_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/sql.jsonl");
    match arguments[..] {
        ["unpack", folder] => unpack(&corpus, Path::new(folder)),
        ["pack", folder] => pack(Path::new(folder), &corpus),
        _ => Err("corpus unpack FOLDER | corpus pack FOLDER".into()),
    }
}

fn unpack(corpus: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for (number, line) in std::fs::read_to_string(corpus)?.lines().enumerate() {
        let json = parse(line.as_bytes())?;
        let text = json.as_str().unwrap_or_default();
        std::fs::write(folder.join(format!("{number:06}")), text)?;
    }
    Ok(())
}

fn pack(folder: &Path, corpus: &Path) -> Result<(), Box<dyn Error>> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        // A query is text, so files of other bytes are left out.
        if let Ok(text) = String::from_utf8(std::fs::read(entry?.path())?) {
            texts.push(text);
        }
    }
    texts.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    let mut out = String::new();
    for text in texts {
        let line = Json::from(text.as_str()).to_text();
        if out.len() + line.len() < PACKED_BYTES {
            out.push_str(&line);
            out.push('\n');
        }
    }
    std::fs::write(corpus, out)?;
    Ok(())
}
