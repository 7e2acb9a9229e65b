//! Files of a backup: durable writes, hashes, temporary files and the lock.
//!
//! Promised: a file that is created here is readable by its owner only; a name appears with its
//! whole content, or not at all; a temporary file is removed when its writer fails.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use orrery_model::hex;
use sha2::{Digest, Sha256};

use crate::error::BackupError;

/// The ending of a file that is being written.
pub(crate) const DRAFT_ENDING: &str = ".new";

/// Bytes that are read at a time, unless a limit of bytes per second makes it less.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Lets a file that `options` creates be readable and writable by its owner only, on Unix.
pub(crate) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Creates a folder that only its owner may enter, with its missing ancestors, durably.
pub(crate) fn create_folder(path: &Path) -> Result<(), BackupError> {
    let create = || {
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
        for folder in missing {
            sync_folder(parent(folder))?;
        }
        Ok(())
    };
    create().map_err(BackupError::io("create the folder", path))
}

/// Returns the folder of a file.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(windows) {
        Ok(())
    } else {
        File::open(path)?.sync_all()
    }
}

/// Writes a file under another name and renames it, durably.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<(), BackupError> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(DRAFT_ENDING);
    let mut draft = TemporaryFile::create(PathBuf::from(draft))?;
    draft
        .file
        .write_all(content)
        .map_err(BackupError::io("write", path))?;
    draft.keep_as(path)?;
    sync_folder(parent(path)).map_err(BackupError::io("sync", parent(path)))
}

/// A file that is removed when it is dropped, unless it was given its last name.
pub(crate) struct TemporaryFile {
    pub(crate) file: File,
    path: PathBuf,
    is_kept: bool,
}

impl TemporaryFile {
    /// Creates the file, in the place of what an interrupted run left.
    pub(crate) fn create(path: PathBuf) -> Result<TemporaryFile, BackupError> {
        remove_leftover(&path)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = owner_only(&mut options).open(&path);
        let file = file.map_err(BackupError::io("create", &path))?;
        Ok(TemporaryFile {
            file,
            path,
            is_kept: false,
        })
    }

    /// Creates the file and locks it, so that no other process writes it. `owner` is named in the
    /// refusal.
    pub(crate) fn create_locked(path: PathBuf, owner: &Path) -> Result<TemporaryFile, BackupError> {
        // A file that another process writes is locked; any other one was left by an interrupted
        // run, and is replaced, so that no link and no other rights are taken over.
        if is_locked(&path)? {
            return Err(BackupError::Locked {
                path: owner.to_owned(),
                holder: None,
            });
        }
        remove_leftover(&path)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = owner_only(&mut options).open(&path);
        let file = file.map_err(BackupError::io("create", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(BackupError::Locked {
                    path: owner.to_owned(),
                    holder: None,
                });
            }
            Err(TryLockError::Error(error)) => return Err(BackupError::io("lock", &path)(error)),
        }
        // The other process may have given the file its last name between the two steps.
        if !is_at(&file, &path).map_err(BackupError::io("look for", &path))? {
            return Err(BackupError::Locked {
                path: owner.to_owned(),
                holder: None,
            });
        }
        file.set_len(0).map_err(BackupError::io("write", &path))?;
        Ok(TemporaryFile {
            file,
            path,
            is_kept: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file and gives it its last name. The caller syncs the folder.
    pub(crate) fn keep_as(mut self, path: &Path) -> Result<(), BackupError> {
        self.file
            .sync_all()
            .map_err(BackupError::io("write", path))?;
        std::fs::rename(&self.path, path).map_err(BackupError::io("rename a file to", path))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // A file that cannot be removed now is removed by the next run.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes what an interrupted run left at the path of a temporary file: a file, or a link, which
/// is not followed.
fn remove_leftover(path: &Path) -> Result<(), BackupError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BackupError::io(
            "remove what is left of a backup in",
            path,
        )(error)),
        _ => Ok(()),
    }
}

/// Returns true if another process has a file locked. A link is not followed.
fn is_locked(path: &Path) -> Result<bool, BackupError> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => {}
        _ => return Ok(false),
    }
    let file = OpenOptions::new().write(true).open(path);
    let file = file.map_err(BackupError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(BackupError::io("lock", path)(error)),
    }
}

/// Returns true if an open file is still the one at a path, as far as the system tells.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let open = file.metadata()?;
        match path.metadata() {
            Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        Ok(true)
    }
}

/// A lock file, locked until dropped.
#[derive(Debug)]
pub(crate) struct LockFile(File);

impl LockFile {
    /// Returns true if the locked file is still the one at a path, as far as the system tells.
    pub(crate) fn is_at(&self, path: &Path) -> io::Result<bool> {
        is_at(&self.0, path)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // A process that another thread starts at this moment has a copy of the open file.
        let _ = self.0.unlock();
    }
}

/// Locks a file and writes the id of this process into it. `owner` is named in the refusal.
pub(crate) fn lock(path: &Path, owner: &Path) -> Result<LockFile, BackupError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let open = owner_only(&mut options).open(path);
    let mut file = open.map_err(BackupError::io("open the lock file", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            return Err(BackupError::Locked {
                path: owner.to_owned(),
                holder: text
                    .trim()
                    .parse()
                    .ok()
                    .map(|id: u32| format!("process {id}")),
            });
        }
        Err(TryLockError::Error(error)) => return Err(BackupError::io("lock", path)(error)),
    }
    // The id only improves the message of a later refusal.
    let mut write_process_id = || {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    let _ = write_process_id();
    Ok(LockFile(file))
}

/// The hash and the length of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digested {
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

/// Called with the bytes of each piece that is read; may stop the copy.
pub(crate) type OnPiece<'a> = &'a mut dyn FnMut(u64) -> Result<(), BackupError>;

/// The side on which a copy failed.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// The content could not be read.
    Read(io::Error),
    /// The content could not be written.
    Write(io::Error),
    /// The caller stopped the copy.
    Stopped(BackupError),
}

/// A content that is hashed while it is read, and that tells a failure of its own from one of the
/// writer.
pub(crate) struct HashedReader<'a> {
    from: &'a mut dyn Read,
    on_piece: OnPiece<'a>,
    hash: Sha256,
    bytes: u64,
    failure: Option<CopyError>,
}

impl<'a> HashedReader<'a> {
    /// `on_piece` is called with the bytes of each piece, and may stop the reading.
    pub(crate) fn new(from: &'a mut dyn Read, on_piece: OnPiece<'a>) -> HashedReader<'a> {
        HashedReader {
            from,
            on_piece,
            hash: Sha256::new(),
            bytes: 0,
            failure: None,
        }
    }

    /// Returns the hash after the reading; `result` is that of the writer.
    pub(crate) fn finish(self, result: io::Result<()>) -> Result<Digested, CopyError> {
        match (self.failure, result) {
            (Some(failure), _) => Err(failure),
            (None, Err(error)) => Err(CopyError::Write(error)),
            (None, Ok(())) => Ok(Digested {
                sha256: hex::encode(&self.hash.finalize()),
                bytes: self.bytes,
            }),
        }
    }

    /// Keeps a failure. Returns the error that ends the copy.
    fn fail(&mut self, failure: CopyError) -> io::Error {
        self.failure = Some(failure);
        io::Error::other("the content cannot be read")
    }
}

impl Read for HashedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.from.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => return Err(self.fail(CopyError::Read(error))),
        };
        if read == 0 {
            return Ok(0);
        }
        if let Err(error) = (self.on_piece)(read as u64) {
            return Err(self.fail(CopyError::Stopped(error)));
        }
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Copies a content to its end, in pieces of `piece_bytes`, and returns its hash.
pub(crate) fn copy_hashed(
    from: &mut dyn Read,
    to: &mut dyn Write,
    piece_bytes: usize,
    on_piece: OnPiece<'_>,
) -> Result<Digested, CopyError> {
    let mut reader = HashedReader::new(from, on_piece);
    let mut buffer = vec![0; piece_bytes];
    let copied = loop {
        match reader.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(read) => {
                if let Err(error) = to.write_all(&buffer[..read]) {
                    break Err(error);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    reader.finish(copied)
}

/// Returns the SHA-256 of a text, as hexadecimal digits.
pub(crate) fn sha256(text: &[u8]) -> String {
    hex::encode(&Sha256::digest(text))
}

/// Returns true if a name is a relative path with `/` that leads nowhere else.
pub(crate) fn is_safe_name(name: &str) -> bool {
    !name.is_empty()
        && name.split('/').all(|part| {
            !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':', '\0'])
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["a", "store/1.jnl", "extra/key.pem", "a..b"] {
            assert!(is_safe_name(name), "{name}");
        }
        for name in [
            "", "/a", "a/", "a//b", "../a", "a/..", "./a", "c:/a", "a\\b", "a\0",
        ] {
            assert!(!is_safe_name(name), "{name}");
        }
    }

    #[test]
    fn a_temporary_file_disappears_unless_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        drop(TemporaryFile::create(dir.path().join("a.new")).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        write_whole(&path, b"text").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_got_its_last_name_is_not_taken_for_a_temporary_one() {
        let dir = tempfile::tempdir().unwrap();
        let (draft, last) = (dir.path().join("a.new"), dir.path().join("a"));
        let file = File::create(&draft).unwrap();
        assert!(is_at(&file, &draft).unwrap());
        std::fs::rename(&draft, &last).unwrap();
        assert!(!is_at(&file, &draft).unwrap());
        File::create(&draft).unwrap();
        assert!(!is_at(&file, &draft).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn new_files_and_folders_belong_to_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        create_folder(&folder).unwrap();
        write_whole(&folder.join("c"), b"text").unwrap();
        for (name, mode) in [("a", 0o700), ("a/b", 0o700), ("a/b/c", 0o600)] {
            let found = dir
                .path()
                .join(name)
                .metadata()
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(found & 0o777, mode, "{name}");
        }
    }

    /// A device that is always full stands for a full disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_target_is_named_with_its_remedy() {
        let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut content: &[u8] = &[7; 100];
        let copied = copy_hashed(&mut content, &mut full, 10, &mut |_| Ok(()));
        let Err(CopyError::Write(error)) = copied else {
            panic!("a full device was written");
        };
        let error = BackupError::io("write", Path::new("/backups/shop"))(error).to_string();
        for part in ["cannot write", "/backups/shop", "free space there"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
