//! Runs other programs from the root of the repository, their output passed straight through.
//!
//! Promises: a program that cannot be started, fails or is killed becomes an error that names the command line.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How a chore ended: nothing to say, or the reason of its failure.
pub type Outcome = Result<(), String>;

/// The root of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// `cargo` with these arguments: the same cargo that runs this program.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command.current_dir(root());
    command
}

/// A program by name, in a directory of the repository.
pub fn program(name: impl AsRef<Path>, directory: &Path) -> Command {
    let mut command = Command::new(name.as_ref());
    command.current_dir(directory);
    command
}

/// Runs the command to its end.
pub fn must(command: &mut Command) -> Outcome {
    let line = command_line(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}")),
        Err(error) => Err(format!("`{line}` could not be started: {error}")),
    }
}

/// Runs the command and gives what it wrote to its standard output.
pub fn output_of(command: &mut Command) -> Result<String, String> {
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
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
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
    fn a_program_that_fails_is_named_with_its_arguments() {
        let failure = must(&mut cargo(&["no-such-command-of-cargo"])).unwrap_err();
        assert!(failure.contains("no-such-command-of-cargo"), "{failure}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let failure = must(&mut program("no-such-program-anywhere", &root())).unwrap_err();
        assert!(
            failure.contains("`no-such-program-anywhere` could not be started"),
            "{failure}"
        );
    }
}
