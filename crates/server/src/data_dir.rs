//! The data directory of a server.

use crate::command::StartArguments;
use crate::failure::Failure;
use crate::private_file;
use std::path::{Path, PathBuf};

/// Returns the data directory that the arguments select and creates it if it is missing; `None` if
/// the data is to be kept in memory.
///
/// # Errors
/// [`Failure::Usage`] if no directory is given and the user has no home directory;
/// [`Failure::Data`] if the directory cannot be created.
pub(crate) fn prepare(arguments: &StartArguments) -> Result<Option<PathBuf>, Failure> {
    if arguments.memory {
        return Ok(None);
    }
    let directory = locate(arguments.data_dir.as_deref(), SERVER)?;
    private_file::create_directory(&directory).map_err(|error| {
        Failure::Data(format!(
            "cannot create the data directory {}: {error}",
            directory.display()
        ))
    })?;
    Ok(Some(directory))
}

/// The name of the default directory of a server.
pub(crate) const SERVER: &str = "orrery";
/// The name of the default directory of a blog with its server.
pub(crate) const BLOG: &str = "orrery-blog";

/// Returns the data directory that an option names, or the default directory with this name.
///
/// # Errors
/// [`Failure::Usage`] if no directory is given and the user has no home directory.
pub(crate) fn locate(given: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
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
fn absolute_path(variable: &str) -> Option<PathBuf> {
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
        let home = default_directory(None, Some("/home/a".into()), BLOG);
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
