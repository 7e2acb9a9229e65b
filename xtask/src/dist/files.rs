//! Files with fixed bytes: copies with a mode, compressed files, archives whose bytes depend on
//! their contents alone.
//!
//! Archives are made by the tar and gzip of the system, with the order, the owners and the times of
//! the entries fixed.

use std::fs;
use std::path::Path;

use crate::run::{Outcome, must, program};

/// The mode of a file that everyone may read.
pub(crate) const PLAIN: u32 = 0o644;
/// The mode of a program.
pub(crate) const PROGRAM: u32 = 0o755;

/// Writes a file with this mode and creates the directories above it.
pub(crate) fn write(path: &Path, contents: &[u8], mode: u32) -> Outcome {
    create_directory(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, contents)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    set_mode(path, mode)
}

/// Copies a file, gives the copy this mode and creates the directories above it.
pub(crate) fn copy(from: &Path, to: &Path, mode: u32) -> Outcome {
    create_directory(to.parent().unwrap_or(Path::new(".")))?;
    fs::copy(from, to).map_err(|error| {
        format!(
            "cannot copy {} to {}: {error}",
            from.display(),
            to.display()
        )
    })?;
    set_mode(to, mode)
}

/// Creates a directory, and those above it, that every user may enter.
pub(crate) fn create_directory(path: &Path) -> Outcome {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        create_directory(above)?;
    }
    fs::create_dir(path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    set_mode(path, 0o755)
}

/// Deletes a directory with all that is in it, and creates it again.
pub(crate) fn create_empty(path: &Path) -> Outcome {
    if path.exists() {
        fs::remove_dir_all(path)
            .map_err(|error| format!("cannot delete {}: {error}", path.display()))?;
    }
    create_directory(path)
}

/// Gives a file or directory a mode, whatever the umask is.
#[cfg(unix)]
pub(crate) fn set_mode(path: &Path, mode: u32) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| format!("cannot change the mode of {}: {error}", path.display()))
}

/// Refuses: a system without modes cannot make the packages.
#[cfg(not(unix))]
pub(crate) fn set_mode(path: &Path, _: u32) -> Outcome {
    Err(format!(
        "{} cannot get a mode on this system",
        path.display()
    ))
}

/// Packs the directory `name` in `parent` as the compressed archive `archive`. Its entries have the
/// time `epoch`, in seconds.
pub(crate) fn pack(parent: &Path, name: &str, archive: &Path, epoch: &str) -> Outcome {
    let plain = archive.with_extension("");
    let mut tar = program("tar", parent);
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0"]);
    tar.args(["--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{epoch}"))
        .arg("--file")
        .arg(&plain);
    must(tar.arg(name))?;
    compress(&plain)
}

/// Compresses a file into one whose name ends with `.gz`, and deletes it.
pub(crate) fn compress(path: &Path) -> Outcome {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut gzip = program("gzip", directory);
    must(gzip.args(["--best", "--no-name", "--force"]).arg(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_of_the_same_files_has_the_same_bytes() {
        let place = std::env::temp_dir().join(format!("orrery-pack-{}", std::process::id()));
        let mut archives = Vec::new();
        // The second tree is made in another order, at another time.
        for (round, names) in [["b", "a"], ["a", "b"]].iter().enumerate() {
            let parent = place.join(round.to_string());
            create_empty(&parent.join("tree")).unwrap();
            for name in names {
                write(&parent.join("tree").join(name), name.as_bytes(), PLAIN).unwrap();
            }
            let archive = parent.join("tree.tar.gz");
            pack(&parent, "tree", &archive, "1000000000").unwrap();
            archives.push(fs::read(archive).unwrap());
            let later = std::time::SystemTime::UNIX_EPOCH;
            let file = fs::File::open(parent.join("tree/a")).unwrap();
            file.set_modified(later).unwrap();
        }
        fs::remove_dir_all(&place).unwrap();
        assert!(archives[0].len() > 50 && archives[0] == archives[1]);
    }
}
