//! Checks of the data directory: kind and rights, files of others, format, lock, free space, sync.

use super::{Finding, Subject};
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const CHECK: &str = "data";
/// Free bytes below which a server soon refuses writes, and below which a warning is due.
const FREE_BYTES_MIN: u64 = 100 << 20;
const FREE_BYTES_GOOD: u64 = 1 << 30;
/// Time of one sync that is worth a warning: every group of writes waits for one.
const SYNC_SLOW: Duration = Duration::from_millis(50);
/// Files of others that a finding names.
const NAMED_MAX: usize = 5;
/// Bytes of the format file that are read.
const FORMAT_FILE_BYTES_MAX: u64 = 4096;

/// Runs the checks.
pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let Some(directory) = &subject.data_dir else {
        let found = "there is no home directory for the data";
        return vec![Finding::problem(CHECK, found, "name one with --data-dir")];
    };
    let metadata = match std::fs::metadata(directory) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return vec![missing(directory)];
        }
        Err(error) => {
            let found = format!("{}: {error}", directory.display());
            let remedy = "give the directory and those above it to the user of the server";
            return vec![Finding::problem(CHECK, found, remedy)];
        }
    };
    if !metadata.is_dir() {
        let found = format!("{} is not a directory", directory.display());
        return vec![Finding::problem(
            CHECK,
            found,
            "name another one with --data-dir",
        )];
    }
    let mut findings = vec![rights(directory, &metadata)];
    findings.extend(foreign(directory, subject.own_files));
    findings.extend(format(directory, subject.format));
    findings.extend(lock(directory));
    findings.extend(space(directory));
    findings.push(sync(directory));
    findings
}

/// A server creates its directory, if it may.
fn missing(directory: &Path) -> Finding {
    let above = directory.ancestors().skip(1).find(|above| above.exists());
    let above = above.filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    let shown = directory.display();
    match may_write(above) {
        Ok(()) => Finding::ok(
            CHECK,
            format!("{shown} does not exist; a server creates it"),
        ),
        Err(cause) => {
            let found = format!("{shown} cannot be created: {}: {cause}", above.display());
            let remedy = "create it and give it to the user of the server, or name another one \
                          with --data-dir";
            Finding::problem(CHECK, found, remedy)
        }
    }
}

#[cfg(unix)]
fn may_write(directory: &Path) -> std::io::Result<()> {
    use rustix::fs::{Access, access};
    let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    Ok(access(directory, wanted)?)
}

#[cfg(not(unix))]
fn may_write(_directory: &Path) -> std::io::Result<()> {
    Ok(())
}

fn rights(directory: &Path, metadata: &std::fs::Metadata) -> Finding {
    let shown = directory.display();
    if let Err(cause) = may_write(directory) {
        let found = format!("{shown} cannot be read and written by this user: {cause}");
        let remedy = "give it to the user of the server with chown, or mount it writable";
        return Finding::problem(CHECK, found, remedy);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
        if mode & 0o077 != 0 {
            let found = format!("{shown} has the mode {mode:04o}: other users may enter it");
            let remedy = format!("chmod 700 {shown}");
            return Finding::warning(CHECK, found, remedy);
        }
        Finding::ok(CHECK, format!("{shown}, user {owner}, mode {mode:04o}"))
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        Finding::ok(CHECK, shown.to_string())
    }
}

/// Names files of others in a directory that has no data yet: a server does not start there.
fn foreign(directory: &Path, own_files: &[&str]) -> Option<Finding> {
    if directory.join("store/ORRERY").exists() || directory.join("HOLDS-DATA").exists() {
        return None;
    }
    let entries = std::fs::read_dir(directory).ok()?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| {
            let is_own = own_files.contains(&name.as_str()) || name.starts_with("lost-");
            !is_own && !name.starts_with('.')
        })
        .collect();
    if names.is_empty() {
        return Some(Finding::ok(
            "data files",
            "no data yet, and no files of others",
        ));
    }
    names.sort_unstable();
    let count = names.len();
    names.truncate(NAMED_MAX);
    let found = format!("{count} files of others and no data: {}", names.join(", "));
    let remedy = format!(
        "name an empty directory, such as {}",
        directory.join("orrery").display()
    );
    Some(Finding::problem("data files", found, remedy))
}

fn format(directory: &Path, known: u32) -> Option<Finding> {
    let file = directory.join("store/ORRERY");
    if !file.exists() {
        let is_lost = directory.join("HOLDS-DATA").exists();
        return is_lost.then(|| {
            let found = format!("the directory held data, and {} is missing", file.display());
            Finding::problem(
                "data format",
                found,
                "restore the whole directory from a backup",
            )
        });
    }
    let mut text = String::new();
    let read = File::open(&file).and_then(|opened| {
        let mut limited = opened.take(FORMAT_FILE_BYTES_MAX);
        limited.read_to_string(&mut text)
    });
    if let Err(error) = read {
        let found = format!("{}: {error}", file.display());
        let remedy = "give the directory to the user of the server, or restore it from a backup";
        return Some(Finding::problem("data format", found, remedy));
    }
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix("format:"));
    Some(match found.map(str::trim) {
        Some(found) if found == known.to_string() => {
            Finding::ok("data format", format!("version {known}"))
        }
        Some(found) => Finding::problem(
            "data format",
            format!("version {found:.20}, and this program opens version {known}"),
            "use the program that wrote the data, and move the data with 'orrery export' and \
             'orrery import'",
        ),
        None => Finding::problem(
            "data format",
            format!("{} states no format", file.display()),
            "restore the whole directory from a backup",
        ),
    })
}

/// Tells if a process holds the lock. The lock is taken for an instant and shared.
fn lock(directory: &Path) -> Option<Finding> {
    let path = directory.join("store/LOCK");
    let mut file = File::open(&path).ok()?;
    Some(match file.try_lock_shared() {
        Ok(()) => Finding::ok("data lock", "free: no server uses the directory"),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Without the number the finding is still true.
            let _ = file.read_to_string(&mut text);
            let holder = match text.trim().parse::<u32>() {
                Ok(number) => format!("process {number}"),
                Err(_) => "a process".to_owned(),
            };
            Finding::ok(
                "data lock",
                format!("{holder} uses the directory; a second server cannot start on it"),
            )
        }
        Err(TryLockError::Error(error)) => Finding::problem(
            "data lock",
            format!("{}: {error}", path.display()),
            "use a file system with locks",
        ),
    })
}

#[cfg(unix)]
fn space(directory: &Path) -> Option<Finding> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    Some(judge_space(free))
}

#[cfg(not(unix))]
fn space(_directory: &Path) -> Option<Finding> {
    None
}

fn judge_space(free: u64) -> Finding {
    let found = format!("{} MB free", free >> 20);
    let remedy = "free space, or move the directory; a full disk refuses writes with 507";
    match free {
        FREE_BYTES_GOOD.. => Finding::ok("data space", found),
        FREE_BYTES_MIN..FREE_BYTES_GOOD => Finding::warning("data space", found, remedy),
        _ => Finding::problem("data space", found, remedy),
    }
}

/// Writes and syncs a small file.
fn sync(directory: &Path) -> Finding {
    let started = Instant::now();
    let write = || -> std::io::Result<()> {
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix(".orrery-doctor-").tempfile_in(directory)?;
        file.write_all(&[0; 4096])?;
        file.as_file().sync_all()
    };
    let remedy = "use a local disk that confirms writes";
    match write() {
        Err(error) => {
            let found = format!("a file cannot be written and synced: {error}");
            Finding::problem("data sync", found, remedy)
        }
        Ok(()) => {
            let took = started.elapsed();
            let found = format!("{:.1} ms", took.as_secs_f64() * 1000.0);
            match took > SYNC_SLOW {
                true => Finding::warning("data sync", found, remedy),
                false => Finding::ok("data sync", found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn little_space_is_a_warning_and_none_a_problem() {
        assert_eq!(judge_space(0).state, State::Problem);
        assert_eq!(judge_space(FREE_BYTES_MIN).state, State::Warning);
        assert_eq!(judge_space(FREE_BYTES_GOOD).state, State::Ok);
    }
}
