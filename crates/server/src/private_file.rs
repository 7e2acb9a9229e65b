//! Files with secrets, which only their owner may read.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Lets a file that `options` creates be readable and writable by its owner only. An existing file
/// keeps its permissions. Systems other than Unix use their default permissions.
pub(crate) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Writes a file that only its owner may read; replaces the contents of an existing file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    owner_only(&mut options).open(path)?.write_all(bytes)
}
