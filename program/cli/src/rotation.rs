//! `orrery keys`: creates key files and replaces single keys in them, also while a server runs.
//!
//! The key file is the only place where keys are kept; a server reads it at its start and at each
//! SIGHUP. A changed file is written beside the old one and then renamed, so that no reader sees an
//! incomplete file. Owner and permissions of the old file are kept.

use crate::command::{KeysAction, KeysArguments};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_client::files::read_text;
use orrery_server::Failure;
use orrery_server::keys::{KeyKind, parse, with_key};
use orrery_server::private_file::{self, owner_only};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Length of a new key in bytes; keys of the service have the same length.
const KEY_BYTES: usize = 64;

/// Creates a key file or replaces a key in one.
///
/// # Errors
/// The file to create exists, a file cannot be read or written, or a file is not a key file.
pub(crate) fn run(arguments: &KeysArguments) -> Result<(), Failure> {
    let report = match &arguments.action {
        KeysAction::Create { key_file } => create(key_file)?,
        KeysAction::Regenerate { key_file, kind } => regenerate(key_file, (*kind).into())?,
    };
    writeln!(io::stdout(), "{report}")
        .map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}

/// Creates a key file with four new keys and returns a report for the user.
///
/// # Errors
/// The file exists or cannot be written.
pub(crate) fn create(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    for kind in KeyKind::ALL {
        text.push_str(&format!("{}: {}\n", kind.name(), new_key()?));
    }
    create_private(file)
        .and_then(|created| write_durably(created, &text))
        .map_err(|error| {
            Failure::Failed(format!(
                "cannot create the key file {}: {error}",
                file.display()
            ))
        })?;
    Ok(format!(
        "Created {} with four new keys. Start the server with --key-file.",
        file.display()
    ))
}

/// Replaces one key in a key file and returns a report for the user.
fn regenerate(file: &Path, kind: KeyKind) -> Result<String, Failure> {
    let cannot_change = |error: io::Error| {
        Failure::Failed(format!(
            "cannot change the key file {}: {error}",
            file.display()
        ))
    };
    let not_usable = |cause: String| {
        Failure::Failed(format!(
            "the key file {} is not usable: {cause}",
            file.display()
        ))
    };

    // Renaming a file over a symbolic link would replace the link, so the link is resolved first.
    let target = file.canonicalize().map_err(cannot_change)?;
    let old_text = read_text(&target).map_err(cannot_change)?;

    // The old text is checked so that a file that is not a key file stays as it is; the new text is
    // checked because a running server must be able to read the result.
    parse(&old_text).map_err(not_usable)?;
    let new_text = with_key(&old_text, kind, &new_key()?).map_err(not_usable)?;
    parse(&new_text).map_err(not_usable)?;
    replace(&target, &new_text).map_err(cannot_change)?;
    Ok(format!(
        "Replaced the {} key. A running server reads the new key at SIGHUP.",
        kind.name()
    ))
}

/// Returns a new random key in base64.
#[expect(
    clippy::disallowed_methods,
    reason = "a key needs the randomness of the system"
)]
fn new_key() -> Result<String, Failure> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::Failed(format!(
            "cannot get random numbers from the system for a key: {error}"
        ))
    })?;
    Ok(STANDARD.encode(bytes))
}

/// Replaces a file by one with this text and the same owner and permissions.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new_path: PathBuf = file.with_file_name(name);

    // A file left behind by an interrupted attempt may belong to another user, who could read the
    // new keys. It is removed rather than overwritten.
    match std::fs::remove_file(&new_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let old = std::fs::metadata(file)?;
    let new = create_private(&new_path)?;

    // Owner and permissions are set before the keys are written, and the file is synced before the
    // rename, so that a crash leaves either the old or the new file.
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::os::unix::fs::fchown(&new, Some(old.uid()), Some(old.gid()))?;
    }
    new.set_permissions(old.permissions())?;
    write_durably(new, text)?;
    std::fs::rename(&new_path, file)?;
    private_file::sync_directory_of(file)
}

/// Creates a file that only its owner may read; fails if the file exists.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    owner_only(&mut options).open(path)
}

/// Writes a text and waits until it is on disk.
fn write_durably(mut file: File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "c29tZSBrZXkgb2YgbXkgb3duIGhlcmU=";

    #[test]
    fn a_new_file_has_four_keys_and_an_existing_file_is_not_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("account.key");
        create(&file).expect("it is written");
        let text = std::fs::read_to_string(&file).expect("it can be read");
        assert!(!parse(&text).expect("keys").has_well_known_key);
        assert_eq!(text.lines().count(), 4);
        assert!(create(&file).is_err());
        assert_eq!(
            std::fs::read_to_string(&file).expect("it can be read"),
            text
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_changed_file_keeps_its_permissions_and_a_symbolic_link_stays_a_link() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let (file, link) = (
            directory.path().join("account.key"),
            directory.path().join("link"),
        );
        std::fs::write(&file, A).expect("it is written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640))
            .expect("permissions");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        regenerate(&link, KeyKind::Primary).expect("it is changed");
        assert!(link.is_symlink());
        let text = std::fs::read_to_string(&file).expect("it can be read");
        assert!(!text.contains(A));
        let mode = std::fs::metadata(&file)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}
