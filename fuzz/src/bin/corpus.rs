//! Works with inputs of the fuzz targets, without libFuzzer.
//!
//! ```text
//! fuzz-corpus list                  prints the targets with their properties
//! fuzz-corpus run TARGET FILE...    checks the property of the target on each file
//! fuzz-corpus unpack TARGET FOLDER  writes the corpus of the target, one file for each input
//! fuzz-corpus pack TARGET FOLDER    makes the corpus of the files, shortest first
//! ```

use orrery_fuzz::corpus::{self, Packed};
use orrery_fuzz::{TARGETS, Target};
use std::error::Error;
use std::path::Path;

const USAGE: &str = "fuzz-corpus list | run TARGET FILE... | unpack TARGET FOLDER | pack TARGET \
                     FOLDER";

#[allow(clippy::print_stdout)] // a tool that speaks to a terminal
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list"] => {
            for Target { name, property, .. } in TARGETS {
                println!("{name:<14} {property}");
            }
        }
        ["run", name, ref files @ ..] if !files.is_empty() => {
            for file in files {
                (target(name)?.check)(&std::fs::read(file)?);
                println!("{file}: the property holds");
            }
        }
        ["unpack", name, folder] => corpus::unpack(target(name)?, Path::new(folder))?,
        ["pack", name, folder] => {
            let Packed { inputs, left_out } = corpus::pack(target(name)?, Path::new(folder))?;
            println!("{inputs} inputs, {left_out} left out");
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn target(name: &str) -> Result<&'static Target, String> {
    orrery_fuzz::target(name).ok_or_else(|| format!("there is no target '{name}'"))
}
