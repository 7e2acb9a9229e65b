//! Runs other programs from the root of the repository and passes their output through.
//!
//! Promises: a program that cannot be started, that fails or that is killed becomes an error that
//! names the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// Result of a command or step; the error is the reason of the failure, in one line.
pub(crate) type Outcome = Result<(), String>;

/// Directories that the repository does not own: build output, installations, and git's.
pub(crate) const FOREIGN_DIRECTORIES: &[&str] =
    &["target", "node_modules", ".git", ".venv", "__pycache__"];

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Returns the directory of cargo's build output.
pub(crate) fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Creates a `cargo` command with these arguments, for the cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command.current_dir(root());
    // The build of a library such as `ring` depends on them, and would be done again, with all that
    // uses the library.
    forget_variables_of_cargo(&mut command);
    command
}

/// Removes the variables that cargo has set for this program from the environment of a command.
pub(crate) fn forget_variables_of_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Creates a `cargo` command that compiles the crates of the workspace with clippy's compiler,
/// which is rustc with more lints. One build then serves lints, tests and suites; its code is that
/// of rustc without the optimisations before LLVM.
pub(crate) fn linted_cargo(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    command
}

/// The variable that sets the number of tests that run at once in a test binary.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Lets more tests run at once than the machine has cores: tests of the server wait for processes,
/// the disk, clients and limits of time for most of their time. The user's own number stays.
pub(crate) fn set_test_threads(command: &mut Command) {
    if std::env::var_os(TEST_THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(TEST_THREADS, test_threads(cores).to_string());
    }
}

/// Returns the number of tests that run at once on so many cores. It is no larger, because suites
/// run beside the tests, and the time of scripts is that of the clock.
fn test_threads(cores: usize) -> usize {
    cores * 2
}

/// Returns the path of this program.
///
/// # Errors
/// The system does not tell it.
pub(crate) fn this_program() -> Result<PathBuf, String> {
    let path = std::env::current_exe()
        .map_err(|error| format!("this program does not find itself: {error}"))?;
    Ok(without_mark(path))
}

/// Returns a path without the mark that Linux adds when the file was replaced. A build of the
/// workspace puts another file with the same program there.
fn without_mark(path: PathBuf) -> PathBuf {
    let text = path.to_string_lossy();
    match text.strip_suffix(" (deleted)") {
        Some(plain) if !path.exists() => PathBuf::from(plain),
        _ => path,
    }
}

/// Creates a command for a program, to be run in this directory.
pub(crate) fn program(name: impl AsRef<Path>, directory: &Path) -> Command {
    let mut command = Command::new(name.as_ref());
    command.current_dir(directory);
    command
}

/// Runs the command and waits for its end.
///
/// # Errors
/// The command line and the exit status, or the reason why the program did not start.
pub(crate) fn must(command: &mut Command) -> Outcome {
    let end = start(command)?.wait();
    ended(command, end)
}

/// Starts the command.
///
/// # Errors
/// The command line and the reason why the program did not start.
pub(crate) fn start(command: &mut Command) -> Result<Child, String> {
    let line = command_line(command);
    let child = command.spawn();
    child.map_err(|error| format!("`{line}` could not be started: {error}"))
}

/// Returns an error that names the command line, unless the command ended successfully.
pub(crate) fn ended(command: &Command, end: io::Result<ExitStatus>) -> Outcome {
    let line = command_line(command);
    match end {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}")),
        Err(error) => Err(format!("the end of `{line}` is not known: {error}")),
    }
}

/// Runs the command and returns its standard output without surrounding white space.
pub(crate) fn output_of(command: &mut Command) -> Result<String, String> {
    let line = command_line(command);
    let output = command
        .output()
        .map_err(|error| format!("`{line}` could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn command_line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask").is_dir());
    }

    #[test]
    fn one_more_test_than_cores_runs_at_once() {
        assert_eq!([1, 2, 32].map(test_threads), [2, 4, 64]);
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_arguments() {
        let failure = must(&mut cargo(&["no-such-command-of-cargo"])).unwrap_err();
        assert!(failure.contains("no-such-command-of-cargo"), "{failure}");
    }

    #[test]
    fn a_program_that_was_replaced_is_found_at_its_place() {
        let replaced = PathBuf::from("/no/such/xtask (deleted)");
        assert_eq!(without_mark(replaced), PathBuf::from("/no/such/xtask"));
        assert_eq!(without_mark(root()), root());
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = must(&mut program("no-such-program-anywhere", &root())).unwrap_err();
        assert!(
            failure.contains("`no-such-program-anywhere` could not be started"),
            "{failure}"
        );
    }
}
