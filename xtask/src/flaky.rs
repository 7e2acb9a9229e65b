//! `cargo xtask flaky N`: repeats the test binaries of the first tier, and its suites if asked,
//! under four busy loops, and counts rounds and failures in `docs/history/flaky.tsv`.
//!
//! A run of one binary or of one step is a unit of a round. The unit with the fewest rounds runs
//! next, and its result is written at once, so rounds may lie days apart and an interrupted run
//! goes on where it stopped. Three binaries run at the same time, which is a load of its own;
//! suites share their environments, so they run one at a time. A change of the code begins the
//! count anew for the binaries whose inputs have changed (`flaky/inputs.rs`).
//!
//! Promises: every failure is counted, and its output is kept in a file that is named.
//! Leaves out: tests in documentation, the steps of `ci` that use no server, and two runs at the
//! same time, of which one would write its counts over those of the other.

mod counts;
mod inputs;
pub(crate) mod load;
mod locked;
pub(crate) mod packages;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ci;
use crate::history::line::Facts;
use crate::run::{Outcome, forget_variables_of_cargo, root, set_test_threads, target_directory};
use crate::rust_tests;
use crate::sdk_tools::{self, PROGRAM_VARIABLE};
use counts::{Count, Counts, Round};
use inputs::{Inputs, Part};
use load::{BusyLoops, run_within};
use packages::Package;

/// The file of rounds.
const FILE: &str = "docs/history/flaky.tsv";
/// Rounds without a failure after which a binary counts as stable.
const ROUNDS_WANTED: u32 = 20;
/// Threads that compute while the tests run.
const BUSY_LOOPS: usize = 4;
/// Test binaries that run at the same time.
const BINARIES_AT_ONCE: usize = 3;
/// Time after which a unit counts as one that does not end.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// The arguments of the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Rounds to do; none prints the state.
    rounds: usize,
    has_steps: bool,
    /// Names of units; all without one.
    names: Vec<String>,
}

/// A test binary or a step, of which one run is a part of a round.
#[derive(Debug, PartialEq, Eq)]
struct Unit {
    name: String,
    /// The hash of its inputs.
    inputs: String,
    work: Work,
}

#[derive(Debug, PartialEq, Eq)]
enum Work {
    /// The test binary of this name, of the package in this folder.
    Binary { folder: PathBuf },
    /// The step of `ci` of this name.
    Step(&'static str),
}

impl Unit {
    /// Returns true if the unit starts the server program. The tests of the examples do, and would
    /// build the program with the features of one package.
    fn uses_server(&self) -> bool {
        match self.work {
            Work::Binary { .. } => self.name.starts_with("orrery-examples test "),
            Work::Step(_) => true,
        }
    }
}

/// The rounds of a unit in one run of this command.
#[derive(Default)]
struct Tally {
    rounds: u32,
    failures: u32,
    slowest_s: f64,
}

/// A run of a unit that has not begun: the place of the unit, and the number of its round.
type Planned = (usize, u32);

/// The state that the threads share which run units.
struct Rounds {
    planned: VecDeque<Planned>,
    counts: Counts,
    tallies: BTreeMap<String, Tally>,
    /// The reason why a unit could not run or a result could not be written.
    failure: Option<String>,
}

/// Runs `flaky [N] [--steps] [NAME...]`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let options = options(arguments)?;
    let packages = packages::packages()?;
    let all = units(&packages)?;
    let names: Vec<&str> = all.iter().map(|unit| unit.name.as_str()).collect();
    let path = root().join(FILE);
    let mut counts = Counts::of_file(&path)?;
    counts.forget_except(&names);
    let chosen = chosen(all, &options)?;
    if options.rounds == 0 {
        print!("{}", state(&chosen, &counts));
        return Ok(());
    }

    let binaries = build(&packages, &chosen, &options)?;
    let outputs = target_directory().join("flaky");
    fs::create_dir_all(&outputs)
        .map_err(|error| format!("cannot write {}: {error}", outputs.display()))?;
    let facts = Facts::now();
    let moment = format!("{} {}", facts.date, facts.commit);
    let busy = BusyLoops::start(BUSY_LOOPS);
    let kept: Mutex<Vec<PathBuf>> = Mutex::default();
    let tallies = repeat(
        &chosen,
        options.rounds,
        &mut counts,
        |unit, number| {
            let (round, output) = round(unit, number, &binaries, &outputs, &moment)?;
            locked(&kept).extend(output);
            Ok(round)
        },
        |counts| counts.write(&path),
    )?;
    drop(busy);
    print!("{}", table(&chosen, &tallies, &counts));
    let failures = locked(&kept).len();
    match failures {
        0 => Ok(()),
        _ => Err(format!(
            "{failures} runs failed; their outputs are in {}",
            outputs.display()
        )),
    }
}

/// Builds what the units need, and returns the paths of test binaries by their names.
fn build(
    packages: &[Package],
    units: &[Unit],
    options: &Options,
) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut names = Vec::new();
    for unit in units {
        if matches!(unit.work, Work::Binary { .. }) {
            names.push(unit.name.as_str());
        }
    }
    if units.iter().any(Unit::uses_server) {
        sdk_tools::build_programs()?;
    }
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    if options.names.is_empty() {
        names.clear();
    }
    packages::build(packages, &names)
}

/// Returns the help text of the command.
pub(crate) fn help() -> String {
    let steps: Vec<&str> = ci::suites_of_first_tier().collect();
    format!(
        "With a number N, every test binary of the workspace runs N times, {BINARIES_AT_ONCE} at \
         the same time,\nbeside {BUSY_LOOPS} busy loops; the binary with the fewest rounds runs \
         next. Each result is\nwritten to {FILE} at once, so that an interrupted run goes on \
         where it\nstopped. The outputs of failures are kept in target/flaky.\n\n\
         Without a number, the rounds of each binary are printed, of {ROUNDS_WANTED}. A change of \
         the\nsources, of Cargo.lock or of the profile begins the count anew for the binaries that \
         it\nchanges.\n\n\
         --steps   the suites of the first tier as well; then one unit runs at a time\n\
         NAME      only these binaries and steps\n\n\
         The suites: {}.\n",
        steps.join("; ")
    )
}

/// Reads the arguments.
fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    for argument in arguments {
        if argument == "--steps" {
            options.has_steps = true;
        } else if argument.starts_with('-') {
            return Err(format!(
                "flaky takes a number of rounds, `--steps` and names, not `{argument}`"
            ));
        } else if options.rounds == 0
            && let Ok(rounds) = argument.parse()
        {
            options.rounds = rounds;
        } else {
            options.names.push(argument.clone());
        }
    }
    Ok(options)
}

/// Returns the test binaries of the workspace, and the suites of the first tier.
fn units(packages: &[Package]) -> Result<Vec<Unit>, String> {
    let root = root();
    let mut inputs = Inputs::new(&root, packages)?;
    let mut units = Vec::new();
    for package in packages {
        for target in &package.targets {
            let part = match target.is_of_tests() {
                true => Part::Whole,
                false => Part::Sources,
            };
            units.push(Unit {
                name: target.binary_name(&package.name),
                inputs: inputs.of_tests(&package.name, part)?,
                work: Work::Binary {
                    folder: package.root.clone(),
                },
            });
        }
    }
    let of_suites = inputs.of_suites()?;
    for name in ci::suites_of_first_tier() {
        units.push(Unit {
            name: name.to_owned(),
            inputs: of_suites.clone(),
            work: Work::Step(name),
        });
    }
    Ok(units)
}

/// Returns the units that the arguments choose.
fn chosen(units: Vec<Unit>, options: &Options) -> Result<Vec<Unit>, String> {
    for name in &options.names {
        if units.iter().all(|unit| unit.name != *name) {
            let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
            return Err(format!(
                "there is no test binary or suite `{name}`; there are: {}",
                names.join("; ")
            ));
        }
    }
    let mut chosen = units;
    chosen.retain(|unit| match options.names.is_empty() {
        true => options.has_steps || matches!(unit.work, Work::Binary { .. }),
        false => options.names.contains(&unit.name),
    });
    Ok(chosen)
}

/// Returns the runs of units until every unit could have run `rounds` times. The unit with the
/// fewest rounds runs next, in the order of the list among equals.
fn planned(units: &[Unit], rounds: usize, counts: &Counts) -> VecDeque<Planned> {
    let counted = |unit: &Unit| counts.rounds(&unit.name, &unit.inputs);
    let mut done: Vec<u32> = units.iter().map(counted).collect();
    let mut planned = VecDeque::new();
    for _ in 0..rounds.saturating_mul(units.len()) {
        let Some(place) = (0..done.len()).min_by_key(|place| done[*place]) else {
            break;
        };
        done[place] += 1;
        planned.push_back((place, done[place]));
    }
    planned
}

/// Runs units as [`planned`] says. `written` gets the counts after each run. No further run begins
/// once one could not run or its result could not be written.
fn repeat(
    units: &[Unit],
    rounds: usize,
    counts: &mut Counts,
    run: impl Fn(&Unit, u32) -> Result<Round, String> + Sync,
    written: impl Fn(&Counts) -> Outcome + Sync,
) -> Result<BTreeMap<String, Tally>, String> {
    let shared = Mutex::new(Rounds {
        planned: planned(units, rounds, counts),
        counts: std::mem::take(counts),
        tallies: BTreeMap::new(),
        failure: None,
    });
    let repeat_units = || {
        loop {
            let next = locked(&shared).planned.pop_front();
            let Some((place, number)) = next else { return };
            let unit = &units[place];
            let round = run(unit, number);
            let mut shared = locked(&shared);
            let ended = round.and_then(|round| {
                shared.add(unit, &round);
                written(&shared.counts)
            });
            if let Err(reason) = ended {
                shared.planned.clear();
                shared.failure = Some(reason);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once(units) {
            scope.spawn(repeat_units);
        }
    });
    let ended = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    *counts = ended.counts;
    ended.failure.map_or(Ok(ended.tallies), Err)
}

/// Returns the number of units that run at the same time.
fn at_once(units: &[Unit]) -> usize {
    let is_step = |unit: &Unit| matches!(unit.work, Work::Step(_));
    match units.iter().any(is_step) {
        true => 1,
        false => BINARIES_AT_ONCE,
    }
}

impl Rounds {
    /// Counts a round that has ended.
    fn add(&mut self, unit: &Unit, round: &Round) {
        self.counts.add(&unit.name, &unit.inputs, round);
        let tally = self.tallies.entry(unit.name.clone()).or_default();
        tally.rounds += 1;
        tally.failures += u32::from(round.has_failed);
        tally.slowest_s = tally.slowest_s.max(round.seconds);
    }
}

/// Locks a value, also after a thread that held the lock has panicked.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a unit once. Returns its round, and the file of its output if it failed.
fn round(
    unit: &Unit,
    number: u32,
    binaries: &BTreeMap<String, PathBuf>,
    outputs: &Path,
    moment: &str,
) -> Result<(Round, Option<PathBuf>), String> {
    // A count begins anew with other inputs, and the output of an older failure is kept.
    let name = unit.name.replace(' ', "-");
    let output = outputs.join(format!("{name}.{}.{number}.log", unit.inputs));
    let mut command = command_of(unit, binaries)?;
    let unwritable = |error| format!("cannot write {}: {error}", output.display());
    let file = File::create(&output).map_err(unwritable)?;
    let errors = file.try_clone().map_err(unwritable)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let begun = Instant::now();
    let end = run_within(LIMIT, &mut command);
    let seconds = begun.elapsed().as_secs_f64();
    let mut round = Round {
        moment: moment.to_owned(),
        seconds,
        has_failed: end.is_err(),
        failed_tests: Vec::new(),
    };
    let Err(reason) = end else {
        println!("{:<40} round {number:>3} {seconds:>8.1} s", unit.name);
        fs::remove_file(&output).map_err(unwritable)?;
        return Ok((round, None));
    };
    println!(
        "{:<40} round {number:>3} {seconds:>8.1} s  FAILED: {reason}: {}",
        unit.name,
        output.display()
    );
    let text = fs::read(&output).map_err(unwritable)?;
    let text = String::from_utf8_lossy(&text);
    for name in rust_tests::failed_tests(text.lines()) {
        round.failed_tests.push(name.replace(' ', "-"));
    }
    Ok((round, Some(output)))
}

/// Creates the command of a test binary of the package in this folder, with the directory and the
/// variables that cargo would give it.
pub(crate) fn test_command(binary: &Path, folder: &Path) -> Command {
    let mut command = Command::new(binary);
    forget_variables_of_cargo(&mut command);
    set_test_threads(&mut command);
    command.current_dir(folder);
    command.env("CARGO_MANIFEST_DIR", folder);
    command.env("CARGO_MANIFEST_PATH", folder.join("Cargo.toml"));
    command
}

/// Creates the command of a unit.
fn command_of(unit: &Unit, binaries: &BTreeMap<String, PathBuf>) -> Result<Command, String> {
    let folder = match &unit.work {
        Work::Binary { folder } => folder,
        Work::Step(name) => return ci::step_process(name),
    };
    let binary = binaries
        .get(&unit.name)
        .ok_or_else(|| format!("cargo built no test binary for `{}`", unit.name))?;
    let mut command = test_command(binary, folder);
    if unit.uses_server() {
        command.env(PROGRAM_VARIABLE, sdk_tools::server()?);
    }
    Ok(command)
}

/// Returns the table of a run of this command.
fn table(units: &[Unit], tallies: &BTreeMap<String, Tally>, counts: &Counts) -> String {
    let mut text = format!(
        "\n{:<40} {:>6} {:>8} {:>9} {:>6}\n",
        "binary", "rounds", "failures", "slowest s", "in all"
    );
    for unit in units {
        if let Some(tally) = tallies.get(&unit.name) {
            text.push_str(&format!(
                "{:<40} {:>6} {:>8} {:>9.1} {:>6}\n",
                unit.name,
                tally.rounds,
                tally.failures,
                tally.slowest_s,
                counts.rounds(&unit.name, &unit.inputs)
            ));
        }
    }
    text
}

/// Returns the table of the rounds that count for the present inputs, and a closing line.
fn state(units: &[Unit], counts: &Counts) -> String {
    let mut text = format!(
        "{:<40} {:>8} {:>8} {:>9}\n",
        "binary", "rounds", "failures", "slowest s"
    );
    let mut stable = 0;
    for unit in units {
        let count = counts.get(&unit.name, &unit.inputs);
        let (rounds, failures, slowest_s) = count.map_or((0, 0, 0.0), figures);
        let of = format!("{rounds}/{ROUNDS_WANTED}");
        text.push_str(&format!(
            "{:<40} {of:>8} {failures:>8} {slowest_s:>9.1}\n",
            unit.name
        ));
        if rounds >= ROUNDS_WANTED && failures == 0 {
            stable += 1;
        }
    }
    text.push_str(&format!(
        "{stable} of {} have {ROUNDS_WANTED} rounds without a failure\n",
        units.len()
    ));
    text
}

fn figures(count: &Count) -> (u32, u32, f64) {
    (count.rounds, count.failures, count.slowest_s)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn unit(name: &str, inputs: &str) -> Unit {
        Unit {
            name: name.to_owned(),
            inputs: inputs.to_owned(),
            work: Work::Binary {
                folder: PathBuf::new(),
            },
        }
    }

    fn ended(has_failed: bool) -> Round {
        Round {
            moment: "2026-11-26 1a2b3c4".to_owned(),
            seconds: 1.5,
            has_failed,
            failed_tests: Vec::new(),
        }
    }

    /// Repeats units that pass, except `fails`. Returns the names in the order of the plan.
    fn order(units: &[Unit], rounds: usize, counts: &mut Counts, fails: &str) -> Vec<String> {
        let mut names = Vec::new();
        for (place, _) in planned(units, rounds, counts) {
            names.push(units[place].name.clone());
        }
        let run = |unit: &Unit, _| Ok(ended(unit.name == fails));
        repeat(units, rounds, counts, run, |_| Ok(())).unwrap();
        names
    }

    #[test]
    fn every_unit_runs_once_in_each_round() {
        let units = [unit("a", "1"), unit("b", "1")];
        let mut counts = Counts::default();
        let plan = planned(&units, 2, &counts);
        assert_eq!(plan, [(0, 1), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(order(&units, 2, &mut counts, "b"), ["a", "b", "a", "b"]);
        assert_eq!(counts.get("b", "1").map(figures), Some((2, 2, 1.5)));
    }

    #[test]
    fn the_unit_with_the_fewest_rounds_runs_next() {
        let units = [unit("a", "1"), unit("b", "1")];
        let mut counts = Counts::default();
        counts.add("a", "1", &ended(false));
        counts.add("a", "1", &ended(false));
        assert_eq!(order(&units, 1, &mut counts, ""), ["b", "b"]);
    }

    #[test]
    fn binaries_run_at_the_same_time_and_suites_alone() {
        let mut units = vec![unit("a", "1")];
        let (all_wait, counts) = (Barrier::new(BINARIES_AT_ONCE), &mut Counts::default());
        let run = |_: &Unit, _| {
            all_wait.wait();
            Ok(ended(false))
        };
        repeat(&units, BINARIES_AT_ONCE, counts, run, |_| Ok(())).unwrap();
        assert_eq!(counts.rounds("a", "1") as usize, BINARIES_AT_ONCE);

        units.push(Unit {
            work: Work::Step("a suite"),
            ..unit("b", "1")
        });
        assert_eq!(at_once(&units), 1);
    }

    #[test]
    fn changed_inputs_begin_the_count_of_their_unit_anew() {
        let mut counts = Counts::default();
        order(&[unit("a", "1"), unit("b", "1")], 2, &mut counts, "");
        let changed = [unit("a", "2"), unit("b", "1")];
        assert_eq!(order(&changed, 1, &mut counts, ""), ["a", "a"]);
        assert_eq!(counts.rounds("b", "1"), 2);
    }

    #[test]
    fn the_counts_are_written_after_each_run_and_kept_if_a_run_cannot_begin() {
        let units = [unit("a", "1")];
        let mut counts = Counts::default();
        let written = Mutex::new(Vec::new());
        let run = |_: &Unit, number| match number {
            1 => Ok(ended(false)),
            _ => Err("no binary".to_owned()),
        };
        let end = repeat(&units, 9, &mut counts, run, |counts| {
            locked(&written).push(counts.rounds("a", "1"));
            Ok(())
        });
        assert_eq!(end.err(), Some("no binary".to_owned()));
        assert_eq!(*locked(&written), [1]);
        assert_eq!(counts.rounds("a", "1"), 1);
    }

    #[test]
    fn the_state_counts_the_units_that_are_stable() {
        let units = [unit("a", "1"), unit("b", "1"), unit("c", "1")];
        let mut counts = Counts::default();
        order(&units[..2], ROUNDS_WANTED as usize, &mut counts, "b");
        let state = state(&units, &counts);
        let lines: Vec<&str> = state.lines().collect();
        assert!(lines[1].contains(" 20/20        0       1.5"), "{state}");
        assert!(lines[2].contains(" 20/20       20 "), "{state}");
        assert!(lines[3].contains("  0/20        0       0.0"), "{state}");
        assert_eq!(lines[4], "1 of 3 have 20 rounds without a failure");
    }

    #[test]
    fn a_failure_is_kept_with_its_output_and_the_names_of_its_tests() {
        let outputs = std::env::temp_dir().join(format!("xtask-flaky-{}", std::process::id()));
        fs::create_dir_all(&outputs).unwrap();
        let this = std::env::current_exe().unwrap();
        let binaries: BTreeMap<String, PathBuf> = [
            ("passes".to_owned(), PathBuf::from("true")),
            ("fails".to_owned(), PathBuf::from("false")),
            ("absent".to_owned(), outputs.join("absent")),
            ("this".to_owned(), this),
        ]
        .into();
        let here = |name: &str| Unit {
            work: Work::Binary { folder: root() },
            ..unit(name, "1")
        };
        let run = |name: &str| round(&here(name), 1, &binaries, &outputs, "day").unwrap();
        let (passed, none) = run("passes");
        assert!(!passed.has_failed && none.is_none());
        assert!(!outputs.join("passes.1.log").exists());
        for name in ["fails", "absent"] {
            let (failed, output) = run(name);
            assert!(failed.has_failed && output.unwrap().is_file(), "{name}");
        }
        assert!(command_of(&here("unknown"), &binaries).is_err());
        fs::remove_dir_all(&outputs).unwrap();
    }

    #[test]
    fn a_test_binary_has_the_directory_and_the_variables_of_its_package() {
        let folder = root().join("bench");
        let binaries: BTreeMap<String, PathBuf> = [("a".to_owned(), "/t/a".into())].into();
        let unit = Unit {
            work: Work::Binary {
                folder: folder.clone(),
            },
            ..unit("a", "1")
        };
        let command = command_of(&unit, &binaries).unwrap();
        assert_eq!(command.get_current_dir(), Some(folder.as_path()));
        let mut variables = command.get_envs();
        let manifest = variables.find(|(name, _)| *name == "CARGO_MANIFEST_DIR");
        assert_eq!(manifest.unwrap().1, Some(folder.as_os_str()));
    }

    #[test]
    fn the_arguments_choose_rounds_steps_and_names() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let read = options(&words("3 --steps a")).unwrap();
        assert!(read.rounds == 3 && read.has_steps && read.names == ["a"]);
        assert_eq!(options(&[]).unwrap(), Options::default());
        assert!(options(&words("--fast")).unwrap_err().contains("`--fast`"));
    }

    #[test]
    fn suites_are_chosen_by_the_option_or_by_name() {
        let units = || {
            let step = Unit {
                work: Work::Step("s"),
                ..unit("s", "1")
            };
            vec![unit("a", "1"), step]
        };
        let names = |has_steps, names: &[&str]| {
            let options = Options {
                rounds: 1,
                has_steps,
                names: names.iter().map(|&name| name.to_owned()).collect(),
            };
            let chosen = chosen(units(), &options)?;
            Ok::<_, String>(chosen.into_iter().map(|unit| unit.name).collect::<Vec<_>>())
        };
        assert_eq!(names(false, &[]).unwrap(), ["a"]);
        assert_eq!(names(true, &[]).unwrap(), ["a", "s"]);
        assert_eq!(names(false, &["s"]).unwrap(), ["s"]);
        assert!(names(false, &["b"]).unwrap_err().contains("a; s"));
    }

    #[test]
    fn the_units_of_this_workspace_have_names_of_their_own() {
        let units = units(&packages::packages().unwrap()).unwrap();
        let mut names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
        assert!(names.contains(&"xtask bin xtask") && names.contains(&"conformance python"));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_file_of_the_repository_can_be_read() {
        Counts::of_file(&root().join(FILE)).unwrap();
    }
}
