//! The data directory: what lies in it, whose it is, and whether it is whole.
//!
//! ```text
//! ORRERY        format file: readable text, first to be written, says the version and whether creation finished
//! LOCK          held while a process has the directory open; its number inside
//! high-water    how far the log was acknowledged (high_water.rs)
//! store/        the tables and journals of fjall
//! ```
//!
//! Promised: a directory of something else is never touched, an unknown format is never read, two processes never share
//! one, and a finished directory that lost a part fjall would silently make anew (a table tree, its journals) is refused.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Version of everything in the directory: layout, key prefixes, internal records, high-water file.
pub(super) const FORMAT: u32 = 3;

const FORMAT_FILE: &str = "ORRERY";
const LOCK_FILE: &str = "LOCK";
const PREFACE: &str = "Orrery data directory. Copy, move or delete it only as a whole, and only while no server uses it.";

/// How far the making of the directory got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing acknowledged yet: what lies in it may be thrown away.
    Creating,
    /// Holds data.
    Ready,
}

/// A data directory that this process holds.
pub(super) struct Directory {
    root: PathBuf,
    pub(super) stage: Stage,
    /// Locked until dropped.
    _lock: File,
}

impl Directory {
    /// Takes the directory, making it if there is none.
    pub(super) fn claim(root: &Path) -> Result<Directory, StoreError> {
        std::fs::create_dir_all(root).map_err(StoreError::io("create the data directory", root))?;
        let format_file = root.join(FORMAT_FILE);
        let known = format_file
            .try_exists()
            .map_err(StoreError::io("look for", &format_file))?;
        if !known {
            refuse_foreign(root)?;
        }
        let lock = lock(root)?;
        let stage = if known {
            read_format(&format_file)?
        } else {
            Stage::Creating
        };
        let directory = Directory {
            root: root.to_owned(),
            stage,
            _lock: lock,
        };
        if !known {
            directory.write_format(Stage::Creating)?;
        }
        Ok(directory)
    }

    pub(super) fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    pub(super) fn high_water(&self) -> PathBuf {
        self.root.join("high-water")
    }

    /// Removes the remains of a creation that did not finish.
    pub(super) fn wipe(&self) -> Result<(), StoreError> {
        let ignore_missing = |result: std::io::Result<()>| match result {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let (store, mark) = (self.store(), self.high_water());
        ignore_missing(std::fs::remove_dir_all(&store))
            .map_err(StoreError::io("remove", &store))?;
        ignore_missing(std::fs::remove_file(&mark)).map_err(StoreError::io("remove", &mark))
    }

    /// Declares the directory complete.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        self.write_format(Stage::Ready)?;
        self.stage = Stage::Ready;
        Ok(())
    }

    /// Refuses a finished directory that lost what fjall would quietly replace by something empty.
    pub(super) fn check_parts(&self) -> Result<(), StoreError> {
        let store = self.store();
        let parts = [
            (store.clone(), "the directory with all tables and journals"),
            (store.join("version"), "the version mark of the tables"),
            (
                store.join("keyspaces/0/current"),
                "the pointer to the list of keyspaces",
            ),
            (
                store.join("keyspaces/1/current"),
                "the pointer to the tables of rows",
            ),
            (
                store.join("keyspaces/2/current"),
                "the pointer to the tables of index entries",
            ),
        ];
        for (path, what) in parts {
            if !path
                .try_exists()
                .map_err(StoreError::io("look for", &path))?
            {
                return Err(StoreError::damaged(
                    &path,
                    format!("{what} is missing. {RESTORE}"),
                ));
            }
        }
        if journals(&store)?.is_empty() {
            return Err(StoreError::damaged(
                &store,
                format!("no journal file (*.jnl) is left in it. {RESTORE}"),
            ));
        }
        Ok(())
    }

    /// Replaces the format file, atomically and durably.
    fn write_format(&self, stage: Stage) -> Result<(), StoreError> {
        let (path, draft) = (self.root.join(FORMAT_FILE), self.root.join("ORRERY.new"));
        let word = match stage {
            Stage::Creating => "creating",
            Stage::Ready => "ready",
        };
        let text = format!("{PREFACE}\nformat: {FORMAT}\nstage: {word}\n");
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            sync_directory(&self.root)
        };
        write().map_err(StoreError::io("write", &path))
    }
}

/// What to do about a damaged directory, for messages.
pub(super) const RESTORE: &str =
    "Put back what was moved or deleted, or restore a backup of the whole data directory";

/// The journal files in order, with their numbers.
pub(super) fn journals(store: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(store).map_err(StoreError::io("list", store))? {
        let path = entry.map_err(StoreError::io("list", store))?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .and_then(|stem| stem.parse().ok());
            let number = number
                .ok_or_else(|| StoreError::damaged(&path, "a journal's name must be a number"))?;
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Makes names in the directory durable.
pub(super) fn sync_directory(path: &Path) -> std::io::Result<()> {
    if cfg!(windows) {
        Ok(())
    } else {
        File::open(path)?.sync_all()
    }
}

fn refuse_foreign(root: &Path) -> Result<(), StoreError> {
    for entry in std::fs::read_dir(root).map_err(StoreError::io("list", root))? {
        let name = entry.map_err(StoreError::io("list", root))?.file_name();
        // Left by a creation that was cut short before the format file had its name.
        let ours = name == LOCK_FILE || name == "ORRERY.new";
        if name == "store" || name == "high-water" {
            let file = root.join(FORMAT_FILE);
            return Err(StoreError::damaged(
                &file,
                format!("it is missing, and data is beside it. {RESTORE}"),
            ));
        }
        if !ours {
            let found = name.to_string_lossy().into_owned();
            return Err(StoreError::Foreign {
                directory: root.to_owned(),
                found,
            });
        }
    }
    Ok(())
}

fn lock(root: &Path) -> Result<File, StoreError> {
    let path = root.join(LOCK_FILE);
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let mut file = open.map_err(StoreError::io("open the lock file", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let holder = file
                .read_to_string(&mut text)
                .ok()
                .and_then(|_| text.trim().parse().ok());
            return Err(StoreError::Locked {
                directory: root.to_owned(),
                holder,
            });
        }
        Err(TryLockError::Error(source)) => {
            return Err(StoreError::Io {
                doing: "lock",
                path,
                source,
            });
        }
    }
    let mut sign = || {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    sign().map_err(StoreError::io("write the lock file", &path))?;
    Ok(file)
}

fn read_format(path: &Path) -> Result<Stage, StoreError> {
    let bytes = std::fs::read(path).map_err(StoreError::io("read", path))?;
    let text = String::from_utf8_lossy(&bytes);
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let Some(format) = field("format:") else {
        return Err(StoreError::damaged(
            path,
            format!("it has no line \"format:\". {RESTORE}"),
        ));
    };
    if format != FORMAT.to_string() {
        return Err(StoreError::UnknownFormat {
            file: path.to_owned(),
            found: format.to_owned(),
            known: FORMAT,
        });
    }
    match field("stage:") {
        Some("creating") => Ok(Stage::Creating),
        Some("ready") => Ok(Stage::Ready),
        _ => Err(StoreError::damaged(
            path,
            format!("its line \"stage:\" is missing or unreadable. {RESTORE}"),
        )),
    }
}
