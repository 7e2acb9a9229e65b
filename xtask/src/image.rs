//! The image: its files, its build without a daemon, and the suite that runs it.
//!
//! `packaging/Dockerfile` is the only description of the image. Its first stage calls
//! `image --tree` and compiles; here the directory with the files takes the place of that stage,
//! and buildah reads the rest, which needs no network and no daemon. The suite
//! `conformance/release/image` unpacks the image and runs its entry point in namespaces, as a
//! runtime would.
//!
//! Promises: the files of the image are the same in both ways; an image that is larger than its
//! limit fails the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::files::{self, PLAIN, PROGRAM};
use crate::dist::program::{self, Profile};
use crate::dist::{epoch, licences, size};
use crate::run::{Outcome, must, program as command, root, target_directory};
use crate::sdk_tools::python_environment;

/// The largest image for users, in bytes of its layers. That is what a machine stores; a registry
/// sends less.
const IMAGE_BYTES_MAX: u64 = 30_000_000;

/// The root certificates of the machine that builds, for connections to other servers.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The users of the image. No program needs the names; `ls` in a debugging container shows them.
const USERS: &str =
    "root:x:0:0:root:/:/sbin/nologin\norrery:x:65532:0:orrery:/data:/sbin/nologin\n";

/// The order of look-ups of host names.
const NAME_SERVICES: &str = "hosts: files dns\n";

/// Runs `image [--dev] [--tree DIRECTORY]`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => test(Profile::Dist),
        ["--dev"] => test(Profile::Dev),
        ["--tree", tree] => lay_out(Profile::Dist, &root().join(tree)),
        ["--dev", "--tree", tree] => lay_out(Profile::Dev, &root().join(tree)),
        _ => Err(format!(
            "image takes `--dev` and `--tree DIRECTORY`, not `{}`",
            arguments.join(" ")
        )),
    }
}

/// Returns the help text of the command.
pub(crate) fn help() -> String {
    format!(
        "The image is built by buildah from packaging/Dockerfile and written to\n\
         target/image/orrery.tar, which `docker load` and `podman load` read. Then the suite\n\
         conformance/release/image unpacks and runs it. An image of more than {} MB fails the\n\
         command.\n\n\
         --dev takes the program of the dev profile: quick, for tests; its size is not checked.\n\
         --tree DIRECTORY writes the files of the image there and does nothing else.\n",
        IMAGE_BYTES_MAX / 1_000_000
    )
}

/// Builds the image with the program of the dev profile and runs the suite: the step of `ci`.
pub(crate) fn test_dev() -> Outcome {
    test(Profile::Dev)
}

/// Builds the image and runs the suite with it.
fn test(profile: Profile) -> Outcome {
    let work = target_directory().join("image");
    let context = work.join("context");
    lay_out(profile, &context.join("rootfs"))?;
    let image = build(&work, &context)?;
    suite(&image, profile)
}

/// Writes the files of the image to `tree`, which it empties first.
fn lay_out(profile: Profile, tree: &Path) -> Outcome {
    let work = target_directory().join("image/program");
    let built = program::build(profile, &work)?;
    files::create_empty(tree)?;
    files::copy(&built.path, &tree.join("usr/bin/orrery"), PROGRAM)?;
    files::copy(
        Path::new(CERTIFICATES),
        &tree.join(&CERTIFICATES[1..]),
        PLAIN,
    )
    .map_err(|error| format!("{error}; the file is in the package ca-certificates"))?;
    files::write(&tree.join("etc/passwd"), USERS.as_bytes(), PLAIN)?;
    files::write(&tree.join("etc/group"), b"root:x:0:\n", PLAIN)?;
    let names = tree.join("etc/nsswitch.conf");
    files::write(&names, NAME_SERVICES.as_bytes(), PLAIN)?;

    let documents = tree.join("usr/share/doc/orrery");
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        files::copy(&root().join(licence), &documents.join(licence), PLAIN)?;
    }
    let third_party = documents.join("third-party.txt");
    files::write(&third_party, licences::text()?.as_bytes(), PLAIN)?;
    files::compress(&third_party)?;

    // A runtime may choose any user for the process, so that every user may write here.
    for open in ["data", "tmp"] {
        files::create_directory(&tree.join(open))?;
        files::set_mode(&tree.join(open), 0o1777)?;
    }
    Ok(())
}

/// Builds the image from its files and returns the path of its archive.
fn build(work: &Path, context: &Path) -> Result<PathBuf, String> {
    let image = work.join("orrery.tar");
    if image.exists() {
        fs::remove_file(&image)
            .map_err(|error| format!("cannot delete {}: {error}", image.display()))?;
    }
    let mut build = buildah(work);
    // The format of Docker, because that of OCI has no health check.
    build.args(["build", "--isolation", "chroot", "--format", "docker"]);
    build.arg("--timestamp").arg(epoch()?);
    build.arg(format!("--build-context=build={}", context.display()));
    build.args(["--tag", "orrery", "--file", "packaging/Dockerfile"]);
    must(build.arg("packaging"))
        .map_err(|error| format!("{error}; on Debian `apt-get install buildah` installs it"))?;
    let mut push = buildah(work);
    push.args(["push", "--quiet", "orrery"]);
    must(push.arg(format!("docker-archive:{}:orrery:latest", image.display())))?;
    // The store has a copy of each layer, which serves no further purpose.
    must(buildah(work).args(["rmi", "--all", "--force"]))?;
    Ok(image)
}

/// Creates a command of buildah with a store of its own below `target`.
fn buildah(work: &Path) -> Command {
    let mut command = command("buildah", &root());
    // The driver that copies needs no rights for mounts and works on every file system.
    command.args(["--storage-driver", "vfs", "--root"]);
    command.arg(work.join("storage")).arg("--runroot");
    command.arg(work.join("run"));
    command
}

/// Creates a command for the Python of the suites of the image and of the packages, to be run in
/// this directory.
pub(crate) fn python(directory: &Path) -> Result<Command, String> {
    let pins = root().join("conformance/release/image");
    let environment = target_directory().join("conformance/image");
    let mut python = command(python_environment(&pins, &environment)?, directory);
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(python)
}

/// Measures the program for users without load; the arguments go to `footprint.py`.
pub(crate) fn footprint(arguments: &[String]) -> Outcome {
    let built = program::build(Profile::Dist, &target_directory().join("image/program"))?;
    let mut measure = python(&root().join("conformance/release/image"))?;
    must(measure.arg("footprint.py").arg(built.path).args(arguments))
}

/// Runs the suite of the image, in a network of its own, so that the ports of the image are free.
fn suite(image: &Path, profile: Profile) -> Outcome {
    let suite = root().join("conformance/release/image");
    let mut pytest = command("unshare", &suite);
    pytest.arg("--net").arg(python(&suite)?.get_program());
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    pytest.env("ORRERY_IMAGE", image);
    pytest.env("ORRERY_IMAGE_BYTES_MAX", limit(profile).to_string());
    must(&mut pytest).map_err(|error| format!("{error}; the image is {}", image.display()))?;
    println!("{:>12}  {}", size(image)?, image.display());
    Ok(())
}

/// Returns the largest size of the layers, in bytes. The program of the dev profile is larger than
/// that for users, so its limit shows only that nothing else came into the image.
fn limit(profile: Profile) -> u64 {
    match profile {
        Profile::Dist => IMAGE_BYTES_MAX,
        Profile::Dev => 2 * IMAGE_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk_tools::read;

    #[test]
    fn an_unknown_argument_is_refused() {
        let refusal = run(&["--push".to_owned()]).unwrap_err();
        assert!(refusal.contains("`--push`"), "{refusal}");
    }

    #[test]
    fn the_first_stage_of_the_image_makes_the_files_that_this_command_makes() {
        let text = read(&root().join("packaging/Dockerfile")).unwrap();
        assert!(text.contains("cargo xtask image --tree /rootfs"), "{text}");
        assert!(text.contains("COPY --from=build /rootfs/ /"), "{text}");
        // The oldest toolchain that builds the workspace is older than that of the image.
        let version = text.split("library/rust:1.").nth(1).unwrap();
        let minor: u32 = version.split('-').next().unwrap().parse().unwrap();
        assert!(minor >= 90, "{minor}");
    }
}
