//! `orrery keys`: new keys for an account, while its server runs.
//!
//! The key file is the truth; a server reads it at its start and on SIGHUP. A file is changed by putting a whole new one
//! in its place, so that nobody ever reads half of it, and its owner and permissions stay what they were.

use crate::command::{KeyKind, KeysAction, KeysArguments};
use crate::failure::Failure;
use crate::keys::{is_remark, parse, read_line};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes of a new key, as the service's are.
const KEY_BYTES: usize = 64;

/// Makes a key file or changes one.
///
/// # Errors
/// The file exists already, or cannot be read or written, or holds something else than keys.
pub(crate) fn run(arguments: &KeysArguments) -> Result<(), Failure> {
    let done = match &arguments.action {
        KeysAction::Create { key_file } => create(key_file)?,
        KeysAction::Regenerate { key_file, kind } => regenerate(key_file, *kind)?,
    };
    let written = io::stdout().write_all(format!("{done}\n").as_bytes());
    written.map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}

fn create(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    for kind in KeyKind::ALL {
        text.push_str(&format!("{}: {}\n", kind.name(), new_key()?));
    }
    let written = private(OpenOptions::new().write(true).create_new(true)).open(file);
    written
        .and_then(|file| write_durably(file, &text))
        .map_err(|error| {
            Failure::Failed(format!(
                "cannot write a new key file {}: {error}",
                file.display()
            ))
        })?;
    Ok(format!(
        "{} holds four new keys. Start the server with --key-file.",
        file.display()
    ))
}

fn regenerate(file: &Path, kind: KeyKind) -> Result<String, Failure> {
    let failed = |error: io::Error| {
        Failure::Failed(format!(
            "cannot change the key file {}: {error}",
            file.display()
        ))
    };
    // A link stays one: what it leads to is replaced.
    let file = file.canonicalize().map_err(failed)?;
    let old = std::fs::read_to_string(&file).map_err(failed)?;
    let unusable = |why: String| {
        Failure::Failed(format!(
            "the key file {} is not usable: {why}",
            file.display()
        ))
    };
    parse(&old).map_err(unusable)?;
    let new = with_key(&old, kind, &new_key()?).map_err(unusable)?;
    parse(&new).map_err(unusable)?;
    replace(&file, &new).map_err(failed)?;
    Ok(format!(
        "The {} key is a new one. A running server takes it on SIGHUP.",
        kind.name()
    ))
}

/// The text of a key file with another key of one kind; everything else stays as it is.
fn with_key(text: &str, kind: KeyKind, key: &str) -> Result<String, String> {
    let (mut out, mut first, mut found) = (String::new(), true, false);
    for line in text.lines() {
        if is_remark(line) {
            out.push_str(line);
        } else {
            let (named, _) = read_line(line, first)?;
            first = false;
            found |= named == kind;
            out.push_str(&if named == kind {
                format!("{}: {key}", kind.name())
            } else {
                line.to_owned()
            });
        }
        out.push('\n');
    }
    if !found {
        out.push_str(&format!("{}: {key}\n", kind.name()));
    }
    Ok(out)
}

fn new_key() -> Result<String, Failure> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::Failed(format!(
            "the system has no random numbers for a key: {error}"
        ))
    })?;
    Ok(STANDARD.encode(bytes))
}

/// Puts a file with this text in the place of another, with its owner and permissions.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside: PathBuf = file.with_file_name(name);
    let old = std::fs::metadata(file)?;
    // One that an earlier attempt left behind may have any owner.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let new = private(OpenOptions::new().write(true).create_new(true)).open(&beside)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::os::unix::fs::fchown(&new, Some(old.uid()), Some(old.gid()))?;
    }
    new.set_permissions(old.permissions())?;
    write_durably(new, text)?;
    std::fs::rename(&beside, file)
}

/// A file that only its owner may read.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn write_durably(mut file: File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "c29tZSBrZXkgb2YgbXkgb3duIGhlcmU=";
    const B: &str = "YW5vdGhlciBrZXkgb2YgbXkgb3duIQ==";

    #[test]
    fn one_key_changes_and_the_rest_stays() {
        let text = format!("# mine\n{A}\n\nsecondary: {A}\n");
        let with = |kind| with_key(&text, kind, B).expect("a key file");
        assert_eq!(
            with(KeyKind::Primary),
            format!("# mine\nprimary: {B}\n\nsecondary: {A}\n")
        );
        assert_eq!(
            with(KeyKind::Secondary),
            format!("# mine\n{A}\n\nsecondary: {B}\n")
        );
        assert_eq!(
            with(KeyKind::PrimaryReadOnly),
            format!("{text}primary-read-only: {B}\n")
        );
    }

    #[test]
    fn a_new_file_has_four_keys_and_an_old_one_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("account.key");
        create(&file).expect("it is written");
        let text = std::fs::read_to_string(&file).expect("it can be read");
        assert!(!parse(&text).expect("keys").well_known);
        assert_eq!(text.lines().count(), 4);
        assert!(create(&file).is_err());
        assert_eq!(
            std::fs::read_to_string(&file).expect("it can be read"),
            text
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_changed_file_keeps_its_permissions_and_links_stay_links() {
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
        assert!(
            link.is_symlink()
                && !std::fs::read_to_string(&file)
                    .expect("it can be read")
                    .contains(A)
        );
        let mode = std::fs::metadata(&file)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}
