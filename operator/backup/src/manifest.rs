//! The texts of a repository: the marker, and the manifest of each backup.
//!
//! ```text
//! {"format": 1, "id": "20261126T174005Z", "momentMs": 1795801205000, "program": "0.1.0",
//!  "storeFormat": 3, "storeId": "32 hex digits", "heads": {"7": 41}, "group": 90,
//!  "about": any value,
//!  "bytes": 812, "newBytes": 300,
//!  "files": [{"name": "store/1.jnl", "bytes": 300, "sha256": "64 hex digits"},
//!            {"name": "store/keyspaces/1/tables/5", "bytes": 512, "sha256": "64 hex digits",
//!             "isTable": true, "identity": "modification time in ns, inode"}],
//!  "sha256": "64 hex digits"}      hash of the compact text without this member
//! ```
//!
//! Promised: a manifest that was changed in any byte that counts is refused, and no name in one
//! leads out of the directory that is restored.

use std::collections::BTreeMap;
use std::path::Path;

use orrery_model::json::{Json, Number, Object, parse};
use orrery_model::{hex, object};
use orrery_storage::{Lsn, PartitionId};

use crate::error::BackupError;
use crate::files::{is_safe_name, sha256};

/// The format of repositories, manifests and files with a whole backup.
pub(crate) const FORMAT: u64 = 1;

/// The name of the marker.
pub(crate) const MARKER_FILE: &str = "orrery-backups.json";

/// The sentence for a person who finds the folder.
const NOTE: &str = "Backups of an Orrery data directory. Copy or delete this folder only as a \
                    whole; `orrery backup prune` removes old backups.";

/// The description of one backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The id: the time of the backup in UTC, as `20261126T174005Z`; a second backup of the same
    /// second has `-2` behind it.
    pub id: String,
    /// The moment of the backup, in milliseconds since 1970.
    pub moment_ms: u64,
    /// The version of the program that made it.
    pub program: String,
    /// The format of the data directory.
    pub store_format: u64,
    /// The id of the data directory: 32 hexadecimal digits.
    pub store_id: String,
    /// The last commit of each partition that the backup has.
    pub heads: BTreeMap<PartitionId, Lsn>,
    /// The last group of commits of the store that the backup has; `None` in backups of earlier
    /// versions.
    pub group: Option<u64>,
    /// The description that the caller gave, such as the names of containers.
    pub about: Json,
    /// The files, in the order of their names.
    pub files: Vec<ManifestFile>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that the destination did not have before.
    pub new_bytes: u64,
}

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// The name inside of the data directory, with `/` between its parts.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// The SHA-256 of its content: 64 hexadecimal digits.
    pub sha256: String,
    /// The file is a table of the store, which does not change.
    pub is_table: bool,
    /// Equal in a later backup if the table is the same file; `None` if that is not known.
    pub(crate) identity: Option<String>,
}

impl Manifest {
    /// Returns the text.
    pub(crate) fn to_text(&self) -> String {
        let heads = self.heads.iter();
        let heads: Object = heads
            .map(|(partition, lsn)| (partition.to_string(), number(*lsn)))
            .collect();
        let files: Vec<Json> = self.files.iter().map(ManifestFile::to_json).collect();
        let mut members = Object::new();
        members.set("format", number(FORMAT));
        members.set("id", self.id.as_str());
        members.set("momentMs", number(self.moment_ms));
        members.set("program", self.program.as_str());
        members.set("storeFormat", number(self.store_format));
        members.set("storeId", self.store_id.as_str());
        members.set("heads", Json::Object(heads));
        if let Some(group) = self.group {
            members.set("group", number(group));
        }
        members.set("about", self.about.clone());
        members.set("bytes", number(self.bytes));
        members.set("newBytes", number(self.new_bytes));
        members.set("files", Json::Array(files));
        sealed(members)
    }

    /// Parses the text of the manifest at `path`.
    ///
    /// # Errors
    /// When a newer version wrote it, or it is not as written.
    pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Manifest, BackupError> {
        let members = opened(path, text)?;
        let manifest = Manifest::from_members(&members);
        manifest.ok_or_else(|| BackupError::damaged(path, "a member is missing or has no sense"))
    }

    fn from_members(members: &Object) -> Option<Manifest> {
        let mut heads = BTreeMap::new();
        for (partition, lsn) in members.get("heads")?.as_object()?.iter() {
            heads.insert(PartitionId(partition.parse().ok()?), u64_of(lsn)?);
        }
        let files = members.get("files")?.as_array()?;
        Some(Manifest {
            id: text_of(members, "id").filter(|id| is_id(id))?,
            moment_ms: u64_of(members.get("momentMs")?)?,
            program: text_of(members, "program")?,
            store_format: u64_of(members.get("storeFormat")?)?,
            store_id: text_of(members, "storeId")?,
            heads,
            group: members.get("group").and_then(u64_of),
            about: members.get("about")?.clone(),
            files: files
                .iter()
                .map(ManifestFile::from_json)
                .collect::<Option<_>>()?,
            bytes: u64_of(members.get("bytes")?)?,
            new_bytes: u64_of(members.get("newBytes")?)?,
        })
    }
}

impl ManifestFile {
    fn to_json(&self) -> Json {
        let mut file = object! {
            "name" => self.name.as_str(),
            "bytes" => number(self.bytes),
            "sha256" => self.sha256.as_str(),
        };
        if self.is_table {
            file.set("isTable", true);
        }
        if let Some(identity) = &self.identity {
            file.set("identity", identity.as_str());
        }
        Json::Object(file)
    }

    fn from_json(json: &Json) -> Option<ManifestFile> {
        let members = json.as_object()?;
        Some(ManifestFile {
            name: text_of(members, "name").filter(|name| is_safe_name(name))?,
            bytes: u64_of(members.get("bytes")?)?,
            sha256: text_of(members, "sha256").filter(|hash| is_hash(hash))?,
            is_table: members.get("isTable").is_some(),
            identity: text_of(members, "identity"),
        })
    }
}

/// Returns the text of the marker of a repository, or of a file with a whole backup.
pub(crate) fn marker_text(store_id: &str) -> String {
    let mut members = Object::new();
    members.set("format", number(FORMAT));
    members.set("storeId", store_id);
    members.set("note", NOTE);
    sealed(members)
}

/// Parses a marker. Returns the id of the store.
///
/// # Errors
/// When a newer version wrote it, or it is not as written.
pub(crate) fn parse_marker(path: &Path, text: &[u8]) -> Result<String, BackupError> {
    let members = opened(path, text)?;
    text_of(&members, "storeId").ok_or_else(|| BackupError::damaged(path, "it names no store"))
}

/// Returns the text of an object, with the hash of the object.
pub(crate) fn sealed(mut members: Object) -> String {
    let hash = sha256(Json::Object(members.clone()).to_text().as_bytes());
    members.set("sha256", hash);
    let mut text = Json::Object(members).to_text();
    text.push('\n');
    text
}

/// Parses the text of an object and checks its format and its hash.
pub(crate) fn opened(path: &Path, text: &[u8]) -> Result<Object, BackupError> {
    let Ok(Json::Object(mut members)) = parse(text) else {
        return Err(BackupError::damaged(path, "it is no JSON object"));
    };
    // A newer format may have the hash elsewhere, so the format is looked at first.
    match members.get("format").and_then(u64_of) {
        Some(found) if found > FORMAT => {
            return Err(BackupError::NewerFormat {
                path: path.to_owned(),
                found,
                known: FORMAT,
            });
        }
        Some(FORMAT) => {}
        _ => return Err(BackupError::damaged(path, "it has no format")),
    }
    let hash = members.remove("sha256");
    let found = sha256(Json::Object(members.clone()).to_text().as_bytes());
    if hash.as_ref().and_then(Json::as_str) != Some(&found) {
        return Err(BackupError::damaged(
            path,
            "its hash does not match its text",
        ));
    }
    Ok(members)
}

/// Returns true for 64 hexadecimal digits of lower case.
pub(crate) fn is_hash(text: &str) -> bool {
    text.len() == 64 && hex::decode(text).is_some() && text.to_ascii_lowercase() == text
}

/// Returns true for the text of an id, which is a file name too.
pub(crate) fn is_id(text: &str) -> bool {
    let is_character = |byte: u8| byte.is_ascii_digit() || b"TZ-".contains(&byte);
    !text.is_empty() && text.len() <= 40 && text.bytes().all(is_character)
}

/// Returns the value by which ids are ordered: that of a later backup is greater. The ids of one
/// second differ in the number behind the time.
pub(crate) fn order_of(id: &str) -> (&str, usize, &str) {
    (time_of(id), id.len(), id)
}

/// Returns the time in an id.
pub(crate) fn time_of(id: &str) -> &str {
    id.split('-').next().unwrap_or_default()
}

pub(crate) fn number(value: u64) -> Json {
    Json::Number(Number::from(value))
}

pub(crate) fn u64_of(json: &Json) -> Option<u64> {
    u64::try_from(json.as_i64()?).ok()
}

pub(crate) fn text_of(members: &Object, name: &str) -> Option<String> {
    Some(members.get(name)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let file = |name: &str, is_table: bool| ManifestFile {
            name: name.to_owned(),
            bytes: 5,
            sha256: sha256(name.as_bytes()),
            is_table,
            identity: is_table.then(|| "17-4".to_owned()),
        };
        Manifest {
            id: "20261126T174005Z-2".to_owned(),
            moment_ms: 1_795_801_205_000,
            program: "0.1.0".to_owned(),
            store_format: 3,
            store_id: "ab".repeat(16),
            heads: BTreeMap::from([(PartitionId(u64::MAX - 3), 41)]),
            group: Some(77),
            about: Json::Object(object! { "account" => "é \"quoted\"" }),
            files: vec![
                file("ORRERY", false),
                file("store/keyspaces/1/tables/5", true),
            ],
            bytes: 10,
            new_bytes: 5,
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let written = manifest();
        let read = Manifest::parse(Path::new("m"), written.to_text().as_bytes()).unwrap();
        assert_eq!(read, written);
        let marker = marker_text(&written.store_id);
        assert_eq!(
            parse_marker(Path::new("m"), marker.as_bytes()).unwrap(),
            written.store_id
        );
    }

    #[test]
    fn ids_are_ordered_by_time_and_then_by_number() {
        let ids = [
            "20261126T174005Z",
            "20261126T174005Z-2",
            "20261126T174005Z-10",
            "20261126T174006Z",
        ];
        assert!(ids.is_sorted_by_key(|id| order_of(id)));
    }

    #[test]
    fn no_changed_byte_of_a_manifest_is_taken_for_another_manifest() {
        let written = manifest();
        let text = written.to_text().into_bytes();
        for at in 0..text.len() {
            for flip in [1, 0x20, 0x80] {
                let mut changed = text.clone();
                changed[at] ^= flip;
                if let Ok(read) = Manifest::parse(Path::new("m"), &changed) {
                    assert_eq!(read, written, "byte {at}");
                }
            }
            let cut = Manifest::parse(Path::new("m"), &text[..at]);
            assert!(cut.is_err() || at + 1 == text.len());
        }
    }

    #[test]
    fn a_newer_format_is_named_and_a_name_that_leads_elsewhere_is_refused() {
        let newer = br#"{"format": 2, "other": []}"#;
        let error = Manifest::parse(Path::new("m"), newer)
            .unwrap_err()
            .to_string();
        assert!(error.contains("made by a newer version"), "{error}");
        let mut evil = manifest();
        evil.files[0].name = "../ORRERY".to_owned();
        assert!(Manifest::parse(Path::new("m"), evil.to_text().as_bytes()).is_err());
        let mut evil = manifest();
        evil.id = "../up".to_owned();
        assert!(Manifest::parse(Path::new("m"), evil.to_text().as_bytes()).is_err());
    }
}
