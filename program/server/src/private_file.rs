//! Files and directories that only their owner may use, written durably.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Lets a file that `options` creates be readable and writable by its owner only. An existing file
/// keeps its permissions. Systems other than Unix use their default permissions.
pub fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Withdraws all rights of group and others from the files that this process and its libraries
/// create from now on.
pub fn restrict_new_files() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Writes a file that only its owner may read, and makes it durable with its name; replaces the
/// contents of an existing file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = owner_only(&mut options).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_directory_of(path)
}

/// Creates a directory that only its owner may enter, with its missing ancestors, and makes their
/// names durable. An existing directory keeps its permissions.
pub fn create_directory(path: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        if ancestor.as_os_str().is_empty() || ancestor.try_exists()? {
            break;
        }
        missing.push(ancestor);
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    for directory in missing {
        sync_directory_of(directory)?;
    }
    Ok(())
}

/// Returns true if the group or all users may read a file. Always false on systems other than Unix.
pub(crate) fn is_readable_by_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        match std::fs::metadata(path) {
            Ok(data) => data.permissions().mode() & 0o044 != 0,
            Err(_) => false,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Makes the name of a file or directory durable, on Unix.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
