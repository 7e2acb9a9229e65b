//! The data directory of a server.

use crate::config::ServerConfig;
use crate::failure::Failure;
use crate::moved;
use crate::private_file;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the data directory that the configuration selects, and creates it if it is missing;
/// `None` if the data is to be kept in memory.
///
/// # Errors
/// [`Failure::Usage`] if no directory is given and the user has no home directory;
/// [`Failure::Data`] if the directory cannot be created.
pub(crate) fn prepare(config: &ServerConfig) -> Result<Option<PathBuf>, Failure> {
    if config.data.in_memory {
        return Ok(None);
    }
    let directory = locate(config.data.directory.as_deref(), SERVER)?;
    private_file::create_directory(&directory)
        .map_err(|error| cannot_create(&directory, &error))?;
    refuse_foreign(&directory, &config.files())?;
    refuse_read_only(&directory)?;
    Ok(Some(directory))
}

/// Creates the data directory of a copy if it is missing. `named` are files that the command line
/// names, which may lie in the directory.
///
/// # Errors
/// [`Failure::Data`] if the directory cannot be created or used, or has files of others.
pub fn prepare_copy(directory: &Path, named: &[&Path]) -> Result<(), Failure> {
    private_file::create_directory(directory).map_err(|error| cannot_create(directory, &error))?;
    refuse_foreign(directory, named)?;
    refuse_read_only(directory)
}

/// The files that the program makes in a data directory before its data exists, or beside it.
pub const OWN_FILES: [&str; 7] = [
    "store",
    moved::FILE,
    "tls",
    "admin.key",
    "blog.json",
    "lost+found",
    "desktop.ini",
];
/// The foreign files that a message names.
const NAMED_MAX: usize = 5;

/// Returns the failure of a directory that cannot be created, with the remedy.
fn cannot_create(directory: &Path, error: &io::Error) -> Failure {
    let existing = directory
        .ancestors()
        .skip(1)
        .find(|ancestor| ancestor.exists());
    let advice = match (error.kind(), existing) {
        (io::ErrorKind::PermissionDenied, Some(parent)) => format!(
            "; the user of this process may not write to {}: give the directory to this user, or \
             choose another one with --data-dir",
            parent.display()
        ),
        (io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory, _) => {
            "; a file has this name: choose another directory with --data-dir".to_owned()
        }
        (io::ErrorKind::ReadOnlyFilesystem, _) => {
            "; choose a directory that can be written with --data-dir, or use --memory".to_owned()
        }
        _ => String::new(),
    };
    Failure::Data(format!(
        "cannot create the data directory {}: {error}{advice}",
        directory.display()
    ))
}

/// Refuses a directory without data of ours that has files of others: a server there would mix its
/// files with theirs, and the usual cause is a wrong path. Data that is there already may have
/// files beside it, because a note of the operator must not keep a server from starting again.
fn refuse_foreign(directory: &Path, named: &[&Path]) -> Result<(), Failure> {
    let has_data = |name: &str| directory.join(name).exists();
    // A directory that lost its data keeps the marker, and gets a message of its own later.
    if has_data("store/ORRERY") || has_data("HOLDS-DATA") {
        return Ok(());
    }
    let named: Vec<PathBuf> = named.iter().map(|file| whole(file)).collect();
    let entries = std::fs::read_dir(directory).map_err(|error| cannot_list(directory, &error))?;
    let mut foreign = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| cannot_list(directory, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_own = OWN_FILES.contains(&name.as_str()) || name.starts_with("lost-");
        // Files with a dot are those of the system and of file managers.
        if !is_own && !name.starts_with('.') && !named.contains(&whole(&entry.path())) {
            foreign.push(name);
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    foreign.sort_unstable();
    let more = match foreign.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    foreign.truncate(NAMED_MAX);
    Err(Failure::Data(format!(
        "the directory {} has no data of this program and has files of others: {}{more}; name an \
         empty or new directory with --data-dir, such as {}",
        directory.display(),
        foreign.join(", "),
        directory.join("orrery").display()
    )))
}

/// Returns the path of an existing file without links, so that paths can be compared.
fn whole(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn cannot_list(directory: &Path, error: &io::Error) -> Failure {
    Failure::Data(format!(
        "cannot list the data directory {}: {error}; the user of this process needs the rights to \
         read, write and enter it",
        directory.display()
    ))
}

/// Refuses a directory in which this process may create no files.
fn refuse_read_only(directory: &Path) -> Result<(), Failure> {
    #[cfg(unix)]
    {
        use rustix::fs::{Access, access};
        let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        if let Err(error) = access(directory, wanted) {
            return Err(Failure::Data(format!(
                "cannot write to the data directory {}: {}; give it to the user of this process \
                 with chown, mount it writable, or choose another one with --data-dir",
                directory.display(),
                io::Error::from(error)
            )));
        }
    }
    let _ = directory;
    Ok(())
}

/// The name of the default directory of a server.
pub const SERVER: &str = "orrery";

/// Returns the data directory that an option names, or the default directory with this name.
///
/// # Errors
/// [`Failure::Usage`] if no directory is given and the user has no home directory.
pub fn locate(given: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
    match given {
        Some(directory) => Ok(directory.to_owned()),
        None => {
            let home = absolute_path("HOME").or_else(|| absolute_path("USERPROFILE"));
            default_directory(absolute_path("XDG_DATA_HOME"), home, name)
        }
    }
}

/// Returns the path in an environment variable. The XDG specification demands that relative paths
/// are ignored.
pub fn absolute_path(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    path.is_absolute().then_some(path)
}

/// Returns the directory `name` in the user's directory for data, as defined by the XDG Base
/// Directory Specification.
fn default_directory(
    xdg_data_home: Option<PathBuf>,
    home: Option<PathBuf>,
    name: &str,
) -> Result<PathBuf, Failure> {
    if let Some(xdg_data_home) = xdg_data_home {
        return Ok(xdg_data_home.join(name));
    }
    match home {
        Some(home) => Ok(home.join(".local").join("share").join(name)),
        None => Err(Failure::Usage(
            "there is no home directory for the data: set --data-dir, or use --memory".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_directory_follows_the_xdg_specification() {
        let xdg = default_directory(Some("/x".into()), Some("/home/a".into()), SERVER);
        assert_eq!(xdg.expect("a directory"), Path::new("/x/orrery"));
        let home = default_directory(None, Some("/home/a".into()), "orrery-blog");
        assert_eq!(
            home.expect("a directory"),
            Path::new("/home/a/.local/share/orrery-blog")
        );
        assert!(matches!(
            default_directory(None, None, SERVER),
            Err(Failure::Usage(_))
        ));
    }
}
