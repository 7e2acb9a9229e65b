//! The free space of disks, and sizes for people.

use std::path::Path;

/// Returns the free space of the disk of a directory that need not exist; `None` if the system does
/// not tell.
#[cfg(unix)]
pub(crate) fn free_bytes(directory: &Path) -> Option<u64> {
    // A relative path ends in the empty path, which stands for the current directory.
    let existing = directory.ancestors().find(|path| path.exists());
    let existing = existing.unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(existing).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// Returns the free space of the disk of a directory: the system is not asked.
#[cfg(not(unix))]
pub(crate) fn free_bytes(_directory: &Path) -> Option<u64> {
    None
}

/// Returns a number of bytes as text: `45 MB`, `61.5 GB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
