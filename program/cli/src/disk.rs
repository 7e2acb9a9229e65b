//! The free space of disks, and sizes for people.
//!
//! Leaves out: systems that do not tell the free space, which count as large enough.

use orrery_server::Failure;
use std::path::Path;

/// Refuses a disk with less free space than needed. `advice` says what to choose instead.
///
/// # Errors
/// [`Failure::Failed`] with both sizes. A system that does not tell the free space refuses nothing.
pub(crate) fn check_space(directory: &Path, needed: u64, advice: &str) -> Result<(), Failure> {
    match free_bytes(directory) {
        Some(free) if free < needed => Err(too_small(directory, needed, free, advice)),
        _ => Ok(()),
    }
}

fn too_small(directory: &Path, needed: u64, free: u64, advice: &str) -> Failure {
    Failure::Failed(format!(
        "the disk is too small: {} are needed in {}, and {} are free; {advice}",
        size(needed),
        directory.display(),
        size(free)
    ))
}

/// Returns the free space of the disk of a directory that need not exist; `None` if the system does
/// not tell.
#[cfg(unix)]
fn free_bytes(directory: &Path) -> Option<u64> {
    // A relative path ends in the empty path, which stands for the current directory.
    let existing = directory.ancestors().find(|path| path.exists());
    let existing = existing.unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(existing).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// Returns the free space of the disk of a directory: the system is not asked.
#[cfg(not(unix))]
fn free_bytes(_directory: &Path) -> Option<u64> {
    None
}

/// Returns a number of bytes as text: `45 MB`, `61.5 GB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_small_is_named_with_both_sizes() {
        let place = Path::new("/data");
        let failure = too_small(place, 61_500_000_000, 45_200_000, "choose another disk");
        let Failure::Failed(message) = failure else {
            panic!("{failure:?}");
        };
        assert_eq!(
            message,
            "the disk is too small: 61.5 GB are needed in /data, and 46 MB are free; choose \
             another disk"
        );
    }

    #[test]
    fn a_directory_that_does_not_exist_has_the_space_of_its_disk() {
        let existing = free_bytes(Path::new("/"));
        let missing = free_bytes(Path::new("/no/such/directory"));
        assert_eq!(missing.is_some(), existing.is_some());
        assert!(check_space(Path::new("/no/such/directory"), 1, "").is_ok());
    }
}
