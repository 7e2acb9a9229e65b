//! `orrery-sim`: runs seeded worlds and prints what failed.
//!
//! ```text
//! orrery-sim --seed N [--steps M]        one world, with its trace
//! orrery-sim --seeds A..B [--steps M]    the worlds A to B - 1, and a closing line
//! orrery-sim --files ...                 the same with the store in files on a simulated disk
//! orrery-sim --planted [--seeds A..B]    a fault in each kind of rows, and what finds each
//! ```
//!
//! The program fails if a world failed or a planted fault was not found.
//!
//! Leaves out: options by a library. Two arguments need none.

#![allow(clippy::print_stdout, reason = "a program that reports to a terminal")]

use orrery_sim::{Plan, PlantedFault, RowFault, run};
use std::ops::Range;
use std::process::ExitCode;

const USAGE: &str =
    "orrery-sim [--files] (--seed N | --seeds A..B) [--steps M] | --planted [--seeds A..B]";
/// Steps of a world unless `--steps` says otherwise.
const STEPS: u64 = 300;
/// The worlds that look for a planted fault unless `--seeds` names others.
const PLANTED_SEEDS: Range<u64> = 0..20;

/// The arguments.
struct Arguments {
    seeds: Range<u64>,
    steps: u64,
    is_traced: bool,
    is_on_files: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(seeds) = planted_seeds(&arguments) {
        return run_planted(&seeds);
    }
    let Some(arguments) = parse(&arguments) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    // A panic of the engine is part of the report.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut passed, mut failed) = (0u64, 0u64);
    for seed in arguments.seeds {
        let listener: Option<orrery_sim::Listener> = match arguments.is_traced {
            true => Some(Box::new(|line| println!("{line}"))),
            false => None,
        };
        let plan = Plan {
            is_on_files: arguments.is_on_files,
            ..Plan::new(seed, arguments.steps)
        };
        match run(&plan, listener) {
            Ok(report) => {
                passed += 1;
                if arguments.is_traced {
                    println!("{report:?}");
                }
            }
            Err(failure) => {
                failed += 1;
                println!("{failure}");
            }
        }
    }
    println!("seeds {passed} passed, {failed} failed");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Returns the worlds that look for planted faults; `None` if the arguments ask for no such run.
fn planted_seeds(arguments: &[String]) -> Option<Range<u64>> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--planted"] => Some(PLANTED_SEEDS),
        ["--planted", "--seeds", seeds] => range(seeds).filter(|seeds| !seeds.is_empty()),
        _ => None,
    }
}

/// Returns the numbers of a text such as `3..7`.
fn range(text: &str) -> Option<Range<u64>> {
    let (first, end) = text.split_once("..")?;
    Some(first.parse().ok()?..end.parse().ok()?)
}

/// Runs worlds with each fault of rows until one finds it, and prints the difference.
fn run_planted(seeds: &Range<u64>) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let (mut found_count, mut missed_count) = (0u64, 0u64);
    for (name, fault) in RowFault::all() {
        let mut found = None;
        for seed in seeds.clone() {
            let plan = Plan {
                fault: Some(PlantedFault::Row(fault)),
                ..Plan::new(seed, STEPS)
            };
            if let Err(failure) = run(&plan, None) {
                found = Some((seed, failure.message));
                break;
            }
        }
        match found {
            Some((seed, message)) => {
                found_count += 1;
                println!("{name:<62} seed {seed:>2}: {message}");
            }
            None => {
                missed_count += 1;
                println!("{name:<62} not found in the seeds {seeds:?}");
            }
        }
    }
    println!("faults: {found_count} found, {missed_count} not found");
    match missed_count {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Returns the arguments; `None` if they are not understood.
fn parse(arguments: &[String]) -> Option<Arguments> {
    let mut parsed = Arguments {
        seeds: 0..0,
        steps: STEPS,
        is_traced: false,
        is_on_files: false,
    };
    let mut arguments = arguments;
    if let Some((first, rest)) = arguments.split_first()
        && first == "--files"
    {
        parsed.is_on_files = true;
        arguments = rest;
    }
    for pair in arguments.chunks(2) {
        let [name, value] = pair else {
            return None;
        };
        match name.as_str() {
            "--seed" => {
                let seed: u64 = value.parse().ok()?;
                parsed.seeds = seed..seed.checked_add(1)?;
                parsed.is_traced = true;
            }
            "--seeds" => {
                parsed.seeds = range(value)?;
            }
            "--steps" => parsed.steps = value.parse().ok()?,
            _ => return None,
        }
    }
    (!parsed.seeds.is_empty()).then_some(parsed)
}
