//! The packages for users of Linux: an archive, a Debian package, the line tables, checksums.
//!
//! ```text
//! program     the statically linked program
//! licences    licences of all that is in it
//! files       copies, modes, archives with fixed bytes
//! debian      the Debian package
//! ```
//!
//! Promises: the same sources give the same bytes, if the compiler is the same; a program that is
//! larger than its limit fails the command.
//! Leaves out: signing and publishing.

mod debian;
pub(crate) mod files;
pub(crate) mod licences;
pub(crate) mod program;

use std::fs;
use std::path::{Path, PathBuf};

use crate::image;
use crate::run::{Outcome, must, output_of, program as command, root, target_directory};
use files::{PLAIN, PROGRAM};
use program::{Profile, StaticProgram};

/// Version of everything that is packed.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The largest program for users, in bytes. The aim is 20 MB; the bound keeps what was reached.
const PROGRAM_BYTES_MAX: u64 = 23_000_000;

/// Shells for which the program writes completions, each with the name of its file.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "orrery.bash"),
    ("zsh", "_orrery"),
    ("fish", "orrery.fish"),
];

/// The parts of all packages, before they are arranged as an archive or as a Debian package.
struct Contents {
    program: StaticProgram,
    /// Directory with the files that the program writes: `man` and `completions`.
    generated: PathBuf,
    licences: String,
    /// The time of all entries, in seconds since 1970.
    epoch: String,
}

/// Runs `dist [--dev]`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let profile = match arguments[..] {
        [] => Profile::Dist,
        ["--dev"] => Profile::Dev,
        _ => {
            return Err(format!(
                "dist takes `--dev` or nothing, not `{}`",
                arguments.join(" ")
            ));
        }
    };
    make(profile)
}

/// Packs the program of the dev profile and runs the suite of the packages: the step of `ci`.
pub(crate) fn test_dev() -> Outcome {
    make(Profile::Dev)
}

/// Makes all packages and tests them.
fn make(profile: Profile) -> Outcome {
    let output = directory(profile);
    files::create_empty(&output)?;
    let contents = contents(profile)?;
    archive(&contents, &output)?;
    debian::package(&contents, &output)?;
    let debug = output.join(format!("{}.debug", stem(&contents)));
    files::copy(&contents.program.debug, &debug, PLAIN)?;
    files::compress(&debug)?;
    write_checksums(&output)?;
    report(&contents, &output, profile)?;
    suite(&output)
}

/// Runs the suite that unpacks and installs the packages.
fn suite(output: &Path) -> Outcome {
    let mut pytest = image::python(&root().join("conformance/release/packages"))?;
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    must(pytest.env("ORRERY_PACKAGES", output))
}

/// Returns the help text of the command.
pub(crate) fn help() -> String {
    format!(
        "The packages are in target/packages: a compressed archive, a Debian package, the line\n\
         tables for debuggers, and SHA256SUMS. The program is built with the profile `dist` and\n\
         linked statically; one of more than {} MB fails the command.\n\n\
         SOURCE_DATE_EPOCH is the time of all entries, by default that of the last commit.\n\n\
         --dev packs the program of the dev profile into target/packages-dev, which takes seconds\n\
         in place of minutes. The program is larger and slower, and its size is not checked.\n",
        PROGRAM_BYTES_MAX / 1_000_000
    )
}

/// Returns the directory of the finished packages.
pub(crate) fn directory(profile: Profile) -> PathBuf {
    target_directory().join(match profile {
        Profile::Dist => "packages",
        Profile::Dev => "packages-dev",
    })
}

/// Builds the program and lets it write its own manual pages and completions.
fn contents(profile: Profile) -> Result<Contents, String> {
    let work = directory(profile).join("work");
    let program = program::build(profile, &work)?;
    let generated = work.join("generated");
    let mut pages = command(&program.path, &root());
    files::create_directory(&generated.join("man"))?;
    must(pages.args(["man", "--dir"]).arg(generated.join("man")))?;
    for (shell, name) in SHELLS {
        let script = output_of(command(&program.path, &root()).args(["completions", shell]))?;
        let file = generated.join("completions").join(name);
        files::write(&file, format!("{script}\n").as_bytes(), PLAIN)?;
    }
    Ok(Contents {
        program,
        generated,
        licences: licences::text()?,
        epoch: epoch()?,
    })
}

/// Returns the time of all entries, in seconds since 1970.
pub(crate) fn epoch() -> Result<String, String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return match given.parse::<u64>() {
            Ok(seconds) => Ok(seconds.to_string()),
            Err(_) => Err(format!(
                "SOURCE_DATE_EPOCH is '{given}', not a number of seconds"
            )),
        };
    }
    output_of(command("git", &root()).args(["log", "-1", "--format=%ct"]))
        .map_err(|error| format!("{error}; outside of git, set SOURCE_DATE_EPOCH"))
}

/// Returns the name of the archive without its ending.
fn stem(contents: &Contents) -> String {
    let architecture = contents.program.architecture.archive;
    format!("orrery-{VERSION}-linux-{architecture}")
}

/// Writes the compressed archive, with one directory of the archive's name.
fn archive(contents: &Contents, output: &Path) -> Outcome {
    let work = output.join("work/archive");
    let name = stem(contents);
    let tree = work.join(&name);
    files::create_empty(&tree)?;
    files::copy(&contents.program.path, &tree.join("orrery"), PROGRAM)?;
    for (from, to) in [
        ("README.md", "README.md"),
        ("CHANGELOG.md", "CHANGELOG.md"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("docs/how-to/install.md", "INSTALL.md"),
        (debian::UNIT, "systemd/orrery.service"),
    ] {
        files::copy(&root().join(from), &tree.join(to), PLAIN)?;
    }
    for directory in ["man", "completions"] {
        for file in list(&contents.generated.join(directory))? {
            let name = file.file_name().unwrap_or_default();
            files::copy(&file, &tree.join(directory).join(name), PLAIN)?;
        }
    }
    let licences = contents.licences.as_bytes();
    files::write(&tree.join("THIRD-PARTY.txt"), licences, PLAIN)?;
    let archive = output.join(format!("{name}.tar.gz"));
    files::pack(&work, &name, &archive, &contents.epoch)
}

/// Returns the files of a directory, ordered by name.
fn list(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = fs::read_dir(directory)
        .map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

/// Writes `SHA256SUMS` with a line for each package.
fn write_checksums(output: &Path) -> Outcome {
    let mut sums = command("sha256sum", output);
    for path in list(output)? {
        sums.arg(path.file_name().unwrap_or_default());
    }
    let sums = output_of(&mut sums)?;
    files::write(
        &output.join("SHA256SUMS"),
        format!("{sums}\n").as_bytes(),
        PLAIN,
    )
}

/// Prints the sizes and checks those that have a limit.
fn report(contents: &Contents, output: &Path, profile: Profile) -> Outcome {
    let program_bytes = size(&contents.program.path)?;
    println!("{:>12}  the program itself", program_bytes);
    for path in list(output)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{:>12}  {name}", size(&path)?);
    }
    println!("in {}", output.display());
    if profile == Profile::Dist && program_bytes > PROGRAM_BYTES_MAX {
        return Err(format!(
            "the program has {program_bytes} bytes, more than {PROGRAM_BYTES_MAX}"
        ));
    }
    Ok(())
}

/// Returns the size of a file in bytes.
pub(crate) fn size(path: &Path) -> Result<u64, String> {
    let found = fs::metadata(path);
    found
        .map(|found| found.len())
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_argument_is_refused() {
        let refusal = run(&["--profile".to_owned()]).unwrap_err();
        assert!(refusal.contains("`--profile`"), "{refusal}");
    }
}
