//! The statically linked program of the archive, the Debian package and the image.
//!
//! A static program runs on every Linux of its architecture: in an image without libraries, and on
//! distributions with an older C library than the one of the build.
//!
//! Promises: the program needs no shared library, which is checked; the paths of the machine that
//! built it are not in it.
//! Leaves out: other systems than Linux. `.github/workflows/release.yml` builds for them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, cargo, must, output_of, program, root, target_directory};

/// The profile of the program: which is quick and small, or which is soon built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// The program for users.
    Dist,
    /// The program of the dev profile, linked anew. Every library is there from the other steps of
    /// CI, so this takes seconds; the program is larger and slower.
    Dev,
}

/// The names of an architecture.
pub(crate) struct Architecture {
    /// As Rust names it.
    pub(crate) rust: &'static str,
    /// As our archives name it.
    pub(crate) archive: &'static str,
    /// As Debian names it.
    pub(crate) debian: &'static str,
}

const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        rust: "x86_64",
        archive: "x64",
        debian: "amd64",
    },
    Architecture {
        rust: "aarch64",
        archive: "arm64",
        debian: "arm64",
    },
];

/// A program without line tables, and its line tables.
pub(crate) struct StaticProgram {
    pub(crate) path: PathBuf,
    /// The file with the line tables, which debuggers and backtraces find by its name.
    pub(crate) debug: PathBuf,
    pub(crate) architecture: &'static Architecture,
}

/// Builds the program and writes it to `directory` as `orrery`, its line tables as `orrery.debug`.
pub(crate) fn build(profile: Profile, directory: &Path) -> Result<StaticProgram, String> {
    let architecture = architecture()?;
    let built = match profile {
        Profile::Dist => build_for_users(architecture)?,
        Profile::Dev => link_anew()?,
    };
    fs::create_dir_all(directory)
        .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    let stripped = StaticProgram {
        path: directory.join("orrery"),
        debug: directory.join("orrery.debug"),
        architecture,
    };
    strip(&built, &stripped)?;
    check_is_static(&stripped.path)?;
    Ok(stripped)
}

/// Returns the architecture of this machine.
fn architecture() -> Result<&'static Architecture, String> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return Err("this command needs Linux with the GNU C library; \
             .github/workflows/release.yml builds for other systems"
            .to_owned());
    }
    let here = std::env::consts::ARCH;
    let known = ARCHITECTURES.iter().find(|known| known.rust == here);
    known.ok_or_else(|| format!("no archive has a name for the architecture {here}"))
}

/// Builds the program of the profile `dist`.
///
/// The target is named although it is this machine's: with a named target, the flags are not those
/// of macros and build scripts, which cannot be static.
fn build_for_users(architecture: &Architecture) -> Result<PathBuf, String> {
    let target = format!("{}-unknown-linux-gnu", architecture.rust);
    let mut flags = vec![
        "-C".to_owned(),
        "target-feature=+crt-static".to_owned(),
        // Addresses that the start adjusts take a bit each in place of 24 bytes.
        "-C".to_owned(),
        "link-arg=-Wl,-z,pack-relative-relocs".to_owned(),
        format!(
            "--remap-path-prefix={}=registry",
            cargo_home()?.join("registry/src").display()
        ),
        format!("--remap-path-prefix={}=.", root().display()),
    ];
    // Functions with equal code become one. Only the linker of this architecture has the option.
    if architecture.rust == "x86_64" {
        flags.extend(["-C".to_owned(), "link-arg=-Wl,--icf=all".to_owned()]);
    }
    let mut build = cargo(&["build", "--locked", "--profile", "dist"]);
    build.args(["--target", &target]);
    build.args(["--package", "orrery-cli", "--bin", "orrery"]);
    // C sources name themselves in the program, as those of Rust do.
    let root = root();
    build.env("CFLAGS", format!("-ffile-prefix-map={}=.", root.display()));
    // The separator of the encoded form, unlike a space, does not occur in paths.
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    must(&mut build)?;
    Ok(target_directory().join(target).join("dist/orrery"))
}

/// Links the program of the dev profile as a static one. Only the last crate is compiled again.
fn link_anew() -> Result<PathBuf, String> {
    let mut build = cargo(&["rustc", "--locked", "--package", "orrery-cli"]);
    build.args(["--bin", "orrery", "--", "-Ctarget-feature=+crt-static"]);
    must(&mut build)?;
    Ok(target_directory().join("debug/orrery"))
}

/// Returns the directory of cargo's downloads.
pub(super) fn cargo_home() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("CARGO_HOME") {
        return Ok(PathBuf::from(named));
    }
    let home = std::env::home_dir().ok_or("this user has no home directory, set CARGO_HOME")?;
    Ok(home.join(".cargo"))
}

/// Divides the built program into one without line tables and a file with the line tables.
fn strip(built: &Path, stripped: &StaticProgram) -> Outcome {
    let directory = stripped.path.parent().unwrap_or(Path::new("."));
    let mut keep = program("objcopy", directory);
    keep.args(["--only-keep-debug", "--compress-debug-sections=zlib"]);
    must(keep.arg(built).arg(&stripped.debug))
        .map_err(|error| format!("{error}; objcopy is in the package binutils"))?;
    let mut remove = program("objcopy", directory);
    remove.args(["--strip-all", "--add-gnu-debuglink=orrery.debug"]);
    must(remove.arg(built).arg(&stripped.path))
}

/// Checks that the program asks for no dynamic linker and no shared library.
fn check_is_static(path: &Path) -> Outcome {
    let mut headers = program("readelf", &root());
    headers.args(["--wide", "--program-headers", "--dynamic"]);
    let text = output_of(headers.arg(path))?;
    for line in text.lines() {
        if line.contains("INTERP") || line.contains("(NEEDED)") {
            return Err(format!(
                "{} is not statically linked: {}",
                path.display(),
                line.trim()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_shared_libraries_is_not_taken_for_a_static_one() {
        let refusal = check_is_static(Path::new("/proc/self/exe"));
        if cfg!(target_os = "linux") {
            // `readelf` opens its own program, which uses the shared C library.
            assert!(refusal.unwrap_err().contains("is not statically linked"));
        }
    }

    #[test]
    fn every_architecture_is_named_once() {
        for known in ARCHITECTURES {
            let same = ARCHITECTURES.iter().filter(|one| one.rust == known.rust);
            assert_eq!(same.count(), 1, "{}", known.rust);
            assert!(!known.archive.is_empty() && !known.debian.is_empty());
        }
    }
}
