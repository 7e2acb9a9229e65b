//! `orrery-sim`: runs seeded worlds and prints what failed.
//!
//! ```text
//! orrery-sim --seed N [--steps M]        one world, with its trace
//! orrery-sim --seeds A..B [--steps M]    the worlds A to B - 1, and a closing line
//! orrery-sim --files ...                 the same with the store in files on a simulated disk
//! orrery-sim --fleet (--seed N | --seeds A..B) [--requests M]   the same of a fleet
//! orrery-sim --planted [--seeds A..B]    a fault in each kind of rows, and what finds each
//! ```
//!
//! The program fails if a world failed or a planted fault was not found.
//!
//! Leaves out: options by a library. Two arguments need none.

#![allow(clippy::print_stdout, reason = "a program that reports to a terminal")]

use orrery_sim::{FleetPlan, Listener, Plan, PlantedFault, RowFault, run, run_fleet};
use std::ops::Range;
use std::process::ExitCode;

const USAGE: &str = "orrery-sim [--files] (--seed N | --seeds A..B) [--steps M]
orrery-sim --fleet (--seed N | --seeds A..B) [--requests M]
orrery-sim --planted [--seeds A..B]";
/// Steps of a world unless `--steps` says otherwise.
const STEPS: u64 = 300;
/// Requests of the clients of a fleet unless `--requests` says otherwise.
const REQUESTS: u64 = 400;
/// The worlds that look for a planted fault unless `--seeds` names others.
const PLANTED_SEEDS: Range<u64> = 0..20;

/// The arguments.
struct Arguments {
    seeds: Range<u64>,
    is_traced: bool,
    world: World,
}

/// A kind of worlds, with the length of a world.
enum World {
    Node { steps: u64, is_on_files: bool },
    Fleet { requests: u64 },
}

impl World {
    /// Runs the world of a seed. Returns its figures, or the text of a failure.
    fn run(&self, seed: u64, listener: Option<Listener>) -> Result<String, String> {
        match *self {
            World::Node { steps, is_on_files } => {
                let plan = Plan {
                    is_on_files,
                    ..Plan::new(seed, steps)
                };
                let ran = run(&plan, listener).map(|report| format!("{report:?}"));
                ran.map_err(|failure| failure.to_string())
            }
            World::Fleet { requests } => {
                let plan = FleetPlan::new(seed, requests);
                let ran = run_fleet(&plan, listener).map(|report| format!("{report:?}"));
                ran.map_err(|failure| failure.to_string())
            }
        }
    }
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
        let listener: Option<Listener> = match arguments.is_traced {
            true => Some(Box::new(|line| println!("{line}"))),
            false => None,
        };
        match arguments.world.run(seed, listener) {
            Ok(report) => {
                passed += 1;
                if arguments.is_traced {
                    println!("{report}");
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
    let first = arguments.first().map(String::as_str);
    let (mut world, options) = match first {
        Some("--fleet") => (World::Fleet { requests: REQUESTS }, &arguments[1..]),
        Some("--files") => (node(true), &arguments[1..]),
        _ => (node(false), arguments),
    };
    let mut seeds = 0..0;
    let mut is_traced = false;
    for pair in options.chunks(2) {
        let [name, value] = pair else {
            return None;
        };
        match (name.as_str(), &mut world) {
            ("--seed", _) => {
                let seed: u64 = value.parse().ok()?;
                seeds = seed..seed.checked_add(1)?;
                is_traced = true;
            }
            ("--seeds", _) => seeds = range(value)?,
            ("--steps", World::Node { steps, .. }) => *steps = value.parse().ok()?,
            ("--requests", World::Fleet { requests }) => *requests = value.parse().ok()?,
            _ => return None,
        }
    }
    (!seeds.is_empty()).then_some(Arguments {
        seeds,
        is_traced,
        world,
    })
}

fn node(is_on_files: bool) -> World {
    World::Node {
        steps: STEPS,
        is_on_files,
    }
}
