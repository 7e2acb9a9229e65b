//! `corpus.jsonl`, one text in JSON on each line, to a folder of files and back: libFuzzer wants the one, a repository
//! the other.
//!
//! ```text
//! corpus unpack FOLDER    one file for each line
//! corpus pack FOLDER      the files that are UTF-8, shortest first, up to 900,000 bytes
//! ```

use orrery_model::Json;
use orrery_model::json::parse;
use std::path::Path;

/// Bytes that the packed corpus may have.
const PACKED_BYTES: usize = 900_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus.jsonl");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["unpack", folder] => {
            std::fs::create_dir_all(folder)?;
            for (n, line) in std::fs::read_to_string(packed)?.lines().enumerate() {
                let text = parse(line.as_bytes())?.as_str().unwrap_or_default().to_owned();
                std::fs::write(Path::new(folder).join(format!("{n:06}")), text)?;
            }
        }
        ["pack", folder] => {
            let files = std::fs::read_dir(folder)?.map(|entry| std::fs::read(entry?.path()));
            let texts = files.filter_map(|f| f.map(|bytes| String::from_utf8(bytes).ok()).transpose());
            let mut texts = texts.collect::<Result<Vec<_>, _>>()?;
            texts.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
            let mut out = String::new();
            for text in texts {
                let line = Json::from(text.as_str()).to_text();
                if out.len() + line.len() < PACKED_BYTES {
                    out.push_str(&line);
                    out.push('\n');
                }
            }
            std::fs::write(packed, out)?;
        }
        _ => return Err("corpus unpack FOLDER | corpus pack FOLDER".into()),
    }
    Ok(())
}
