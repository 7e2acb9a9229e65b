//! A file with one whole backup: a tar stream that zstd compresses.
//!
//! ```text
//! orrery-backups.json   the marker
//! files/NAME            each file of the data directory
//! manifest.json         the manifest, which has the hashes of the files
//! ```
//!
//! Promised: the file appears under its name when it is complete and durable. A file that was cut
//! has no manifest, and is refused.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};
use zstd::stream::{Decoder, Encoder};

use crate::error::BackupError;
use crate::files::{
    CopyError, DRAFT_ENDING, HashedReader, OnPiece, TemporaryFile, create_folder, is_safe_name,
    parent, sync_folder,
};
use crate::manifest::{MARKER_FILE, Manifest, marker_text, parse_marker};
use crate::place::is_remote;
use crate::sink::{Sink, SourceFile, Stored};
use crate::source::{Entry, OnFile};

/// The ending of the names of such files.
const ENDING: &str = ".tar.zst";
const FILES_FOLDER: &str = "files/";
const MANIFEST_FILE: &str = "manifest.json";
/// The level of compression: more takes much longer and saves little, since tables are compressed.
const LEVEL: i32 = 3;
/// The most bytes of the marker and of the manifest. More is damage.
const MARKER_BYTES_MAX: u64 = 64 << 10;
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Returns true if a path is that of a file of this machine with one whole backup.
pub fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(ENDING) && !is_remote(path)
}

/// A file that is being written.
pub(crate) struct ArchiveSink {
    path: PathBuf,
    builder: Builder<Encoder<'static, File>>,
    temporary: TemporaryFile,
    /// The modification time of all entries, in seconds since 1970.
    mtime: u64,
}

impl ArchiveSink {
    /// Begins a file under a temporary name.
    ///
    /// # Errors
    /// When the file exists, or another process writes it.
    pub(crate) fn create(path: &Path, now_ms: u64) -> Result<ArchiveSink, BackupError> {
        let exists = path
            .try_exists()
            .map_err(BackupError::io("look for", path))?;
        if exists {
            return Err(BackupError::TargetExists {
                path: path.to_owned(),
            });
        }
        create_folder(parent(path))?;
        let mut draft = path.as_os_str().to_owned();
        draft.push(DRAFT_ENDING);
        let temporary = TemporaryFile::create_locked(PathBuf::from(draft), path)?;
        let begin = || {
            let mut encoder = Encoder::new(temporary.file.try_clone()?, LEVEL)?;
            encoder.include_checksum(true)?;
            Ok(encoder)
        };
        let encoder = begin().map_err(BackupError::io("write", path))?;
        Ok(ArchiveSink {
            path: path.to_owned(),
            builder: Builder::new(encoder),
            temporary,
            mtime: now_ms / 1000,
        })
    }

    fn header(&self, bytes: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(self.mtime);
        header
    }

    fn add_text(&mut self, name: &str, text: &str) -> Result<(), BackupError> {
        let mut header = self.header(text.len() as u64);
        let added = self.builder.append_data(&mut header, name, text.as_bytes());
        added.map_err(BackupError::io("write", &self.path))
    }
}

impl Sink for ArchiveSink {
    fn begin(&mut self, store_id: &str) -> Result<(), BackupError> {
        self.add_text(MARKER_FILE, &marker_text(store_id))
    }

    fn known(&self, _: &SourceFile<'_>) -> Option<String> {
        None
    }

    fn add(
        &mut self,
        file: &SourceFile<'_>,
        content: &mut dyn Read,
        _: usize,
        on_piece: OnPiece<'_>,
    ) -> Result<Stored, BackupError> {
        let mut header = self.header(file.bytes);
        let name = format!("{FILES_FOLDER}{}", file.name);
        let mut reader = HashedReader::new(content, on_piece);
        let added = self.builder.append_data(&mut header, name, &mut reader);
        let content = reader.finish(added);
        let content = content.map_err(|error| file.copy_failed(&self.path, error))?;
        file.check_length(content.bytes)?;
        Ok(Stored {
            is_new: true,
            new_bytes: content.bytes,
            content,
        })
    }

    fn free_id(&self, base: &str) -> Result<String, BackupError> {
        Ok(base.to_owned())
    }

    fn finish(mut self: Box<Self>, manifest: &Manifest) -> Result<(), BackupError> {
        self.add_text(MANIFEST_FILE, &manifest.to_text())?;
        let ArchiveSink {
            path,
            builder,
            temporary,
            ..
        } = *self;
        let written = builder.into_inner().and_then(Encoder::finish);
        written.map_err(BackupError::io("write", &path))?;
        temporary.keep_as(&path)?;
        sync_folder(parent(&path)).map_err(BackupError::io("sync", parent(&path)))
    }
}

/// A file with one whole backup, for reading.
pub(crate) struct Archive {
    path: PathBuf,
}

impl Archive {
    /// Checks that the file exists.
    pub(crate) fn open(path: &Path) -> Result<Archive, BackupError> {
        let archive = Archive {
            path: path.to_owned(),
        };
        let exists = path
            .try_exists()
            .map_err(BackupError::io("look for", path))?;
        if !exists {
            return Err(BackupError::NotARepository {
                path: path.to_owned(),
                found: None,
            });
        }
        Ok(archive)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file from its start to its end, and calls `on_file` with each file of the data
    /// directory. The caller compares them with the manifest.
    ///
    /// # Errors
    /// When the file is cut or damaged, or `on_file` fails.
    pub(crate) fn read(&self, on_file: OnFile<'_>) -> Result<Manifest, BackupError> {
        let file = File::open(&self.path).map_err(BackupError::io("open", &self.path))?;
        let decoder = Decoder::new(file).map_err(|error| self.damaged(&error))?;
        let mut archive = tar::Archive::new(decoder);
        let entries = archive.entries().map_err(|error| self.damaged(&error))?;
        let mut store_id = None;
        for entry in entries {
            let mut entry = entry.map_err(|error| self.damaged(&error))?;
            let path = entry.path_bytes().into_owned();
            let name = String::from_utf8_lossy(&path);
            // The marker comes first, so that a file of another program is refused at once.
            if store_id.is_none() {
                if name != MARKER_FILE {
                    return Err(self.damaged(&"it does not begin with the marker of a backup"));
                }
                let text = self.text_of(&mut entry, MARKER_BYTES_MAX)?;
                store_id = Some(parse_marker(&self.path, &text)?);
            } else if let Some(name) = name.strip_prefix(FILES_FOLDER) {
                if !is_safe_name(name) {
                    return Err(self.damaged(&"the name of a file leads elsewhere"));
                }
                let file = Entry {
                    name,
                    sha256: None,
                    path: &self.path,
                };
                on_file(&file, &mut entry)?;
            } else if name == MANIFEST_FILE {
                let text = self.text_of(&mut entry, MANIFEST_BYTES_MAX)?;
                return Manifest::parse(&self.path, &text);
            }
        }
        Err(self.damaged(&"it ends before its manifest"))
    }

    fn text_of(&self, content: &mut dyn Read, bytes_max: u64) -> Result<Vec<u8>, BackupError> {
        let mut text = Vec::new();
        let read = content.take(bytes_max).read_to_end(&mut text);
        read.map_err(|error| self.damaged(&error))?;
        Ok(text)
    }

    /// Returns the error for a content that could not be read.
    pub(crate) fn copy_failed(&self, error: CopyError) -> BackupError {
        match error {
            CopyError::Read(error) | CopyError::Write(error) => self.damaged(&error),
            CopyError::Stopped(error) => error,
        }
    }

    /// Creates the error for a file that is not as written.
    pub(crate) fn damaged(&self, fault: &dyn std::fmt::Display) -> BackupError {
        BackupError::DamagedArchive {
            path: self.path.clone(),
            detail: fault.to_string(),
        }
    }
}
