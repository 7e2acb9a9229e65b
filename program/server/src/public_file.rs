//! A file that all users may read, in a place where other users may write, such as `/tmp`.
//!
//! Promises: no link that another user laid is followed, and no file that it names is changed.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file and gives it its name when it is complete. Missing folders are created.
///
/// If `is_own_choice` is true, the user did not name the path, and each of its folders and links
/// must belong to root or to this user: another user could lead the name elsewhere.
///
/// # Errors
/// The file cannot be written, or a part of its path belongs to another user.
pub(crate) fn replace(path: &Path, is_own_choice: bool, bytes: &[u8]) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if is_own_choice {
        refuse_foreign(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    #[cfg(unix)]
    {
        let all_read = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(all_read)?;
    }
    // A link with this name is replaced, and not what the link names.
    file.persist(path).map(drop).map_err(|kept| kept.error)
}

/// Refuses folders and links of other users. The path as it is named counts, because a link could
/// change between two looks.
fn refuse_foreign(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let own = rustix::process::geteuid().as_raw();
        for part in folder.ancestors() {
            let owner = match fs::symlink_metadata(part) {
                Ok(facts) => facts.uid(),
                // A missing folder will be this user's.
                Err(_) => own,
            };
            if owner != 0 && owner != own {
                let reason = format!("{} belongs to another user", part.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
            }
        }
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_link_is_replaced_and_its_target_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("mine"), folder.path().join("a/b/c.pem"));
        fs::write(&target, "mine").unwrap();
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&target, &link).unwrap();
        replace(&link, true, b"certificate").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"mine");
        assert_eq!(fs::read(&link).unwrap(), b"certificate");
        assert_eq!(
            fs::metadata(&link).unwrap().permissions().mode() & 0o777,
            0o644
        );
    }
}
