//! The program that libFuzzer drives, for all targets: `cargo xtask long fuzz` builds and starts
//! it.
//!
//! `ORRERY_FUZZ_TARGET` names the target; `list` prints the targets, each with its corpus. If
//! `ORRERY_FUZZ_SEEDS` names a folder, the committed corpus of the target is written there first,
//! one file for each input. The arguments are those of libFuzzer.

#![no_main]
#![allow(unsafe_code)] // the macro makes functions that libFuzzer finds by their names

use orrery_fuzz::corpus;
use orrery_fuzz::{TARGETS, Target, target};
use std::path::Path;
use std::sync::OnceLock;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

/// Reads the variables of the environment.
#[allow(clippy::print_stdout)] // a tool that speaks to a terminal
fn begin() {
    let name = std::env::var("ORRERY_FUZZ_TARGET").unwrap_or_default();
    if name == "list" {
        for target in TARGETS {
            println!("{} {}", target.name, target.corpus);
        }
        std::process::exit(0);
    }
    let target = target(&name).unwrap_or_else(|| panic!("there is no target '{name}'"));
    if let Some(folder) = std::env::var_os("ORRERY_FUZZ_SEEDS") {
        corpus::unpack(target, Path::new(&folder)).expect("writing the corpus");
    }
    TARGET.get_or_init(|| target);
}

libfuzzer_sys::fuzz_target!(init: begin(), |bytes: &[u8]| {
    let target = TARGET.get().expect("libFuzzer initializes first");
    (target.check)(bytes);
});
