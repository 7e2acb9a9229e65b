//! Reads a definition from a file or a folder.
//!
//! A folder has a folder for each database, in it one for each container:
//!
//! ```text
//! shop/database.json                 settings of the database; may be missing
//! shop/orders/container.json         settings of the container
//! shop/orders/procedures/total.js    body of the stored procedure total
//! shop/orders/functions/vat.js       body of the user-defined function vat
//! shop/orders/triggers/check.js      body of a trigger that container.json lists
//! shop/orders/items.jsonl            items, one per line
//! ```
//!
//! Characters of an id that file names cannot hold are written as `%` and two hexadecimal digits.
//! Files and folders whose names begin with a dot are passed over; others that the form does not
//! know are refused.

use super::DefinitionError;
use super::cosmium;
use super::members::Members;
use super::model::{ContainerDefinition, DatabaseDefinition, Definition, Script};
use super::scripts::Session;
use super::write::{DATABASE_FILE, id_of_name};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a definition, over all its files. Its items are held in memory.
const BYTES_MAX: u64 = 256 << 20;

/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// The bytes that the files of a definition may still have.
struct Allowance(u64);

/// Reads the definition at `path`: a JSON file, a state file of cosmium, or a folder.
///
/// # Errors
/// [`DefinitionError::File`] with file, line and field.
pub fn read(path: &Path) -> Result<Definition, DefinitionError> {
    read_within(path, &mut Allowance(BYTES_MAX))
}

fn read_within(path: &Path, allowance: &mut Allowance) -> Result<Definition, DefinitionError> {
    let definition = if path.is_dir() {
        read_folder(path, allowance)?
    } else {
        let text = read_text(path, allowance)?;
        match cosmium::parse(&text) {
            Some(state) => state.map_err(|reason| wrong(path, &reason))?,
            None => parse(path, &text)?,
        }
    };
    check(path, &definition)?;
    Ok(definition)
}

/// Reads the folder from which the vendor's emulator takes its first data: scripts of its shell
/// (`.csh`), and beside them definitions, as JSON files (`.json`) and as folders of databases.
/// Returns the definition and the names of the entries that are none of these.
///
/// The definitions are read first, then the scripts in alphabetical order, so that a script can
/// fill a container that a definition states.
///
/// # Errors
/// [`DefinitionError::File`] with file, line and reason, before anything is applied.
pub fn read_seeds(folder: &Path) -> Result<(Definition, Vec<String>), DefinitionError> {
    let mut allowance = Allowance(BYTES_MAX);
    let mut definition = Definition::default();
    let (mut scripts, mut others) = (Vec::new(), Vec::new());
    for (name, path) in entries(folder)? {
        if path.is_dir() && is_database(&path) {
            let database = read_database(&name, &path, &mut allowance)?;
            definition.databases.push(database);
        } else if path.is_file() && name.ends_with(".csh") {
            scripts.push(path);
        } else if path.is_file() && name.ends_with(".json") {
            let read = read_within(&path, &mut allowance)?;
            definition.databases.extend(read.databases);
        } else {
            others.push(name);
        }
    }
    check(folder, &definition)?;
    let mut session = Session::after(definition);
    for path in scripts {
        session.read(&path, &read_text(&path, &mut allowance)?)?;
    }
    Ok((session.finish(), others))
}

/// Returns true if a folder has the form of a database.
fn is_database(folder: &Path) -> bool {
    if folder.join(DATABASE_FILE).is_file() {
        return true;
    }
    let Ok(inside) = entries(folder) else {
        return false;
    };
    inside
        .iter()
        .any(|(_, path)| path.join("container.json").is_file())
}

/// Refuses missing and repeated ids.
fn check(path: &Path, definition: &Definition) -> Result<(), DefinitionError> {
    let databases = definition.databases.iter().map(|d| d.id.as_str());
    check_ids(path, "databases", databases)?;
    for (at, database) in definition.databases.iter().enumerate() {
        let place = format!("databases/{at} ({})", database.id);
        let containers = database.containers.iter().map(|c| c.id.as_str());
        check_ids(path, &format!("{place}/containers"), containers)?;
        for container in &database.containers {
            if container.partition_key.is_none() {
                let reason = format!(
                    "{place}: the container '{}' has no partitionKey; add for example \
                     \"partitionKey\": {{\"paths\": [\"/id\"]}}",
                    container.id
                );
                return Err(wrong(path, &reason));
            }
            check_container(
                path,
                &format!("{place}/containers ({})", container.id),
                container,
            )?;
        }
    }
    Ok(())
}

/// Refuses scripts and items that could be created only in part.
fn check_container(
    path: &Path,
    place: &str,
    container: &ContainerDefinition,
) -> Result<(), DefinitionError> {
    let procedures = container.stored_procedures.iter().map(|s| s.id.as_str());
    check_ids(path, &format!("{place}/storedProcedures"), procedures)?;
    let functions = container
        .user_defined_functions
        .iter()
        .map(|s| s.id.as_str());
    check_ids(path, &format!("{place}/userDefinedFunctions"), functions)?;
    let triggers = container.triggers.iter().map(|t| t.id.as_str());
    check_ids(path, &format!("{place}/triggers"), triggers)?;

    let paths: Vec<String> = container
        .partition_key
        .as_ref()
        .and_then(|key| key["paths"].as_array())
        .into_iter()
        .flatten()
        .filter_map(|path| path.as_str().map(str::to_owned))
        .collect();
    let mut seen = HashSet::new();
    for (at, item) in container.items.iter().enumerate() {
        let place = format!("{place}/items/{at}");
        let members = Members::parse(item.get())
            .map_err(|reason| wrong(path, &format!("{place}: {reason}")))?;
        let Some(id) = members.id().filter(|id| !id.is_empty()) else {
            let reason = format!(
                "{place}: the id must be a string that is not empty; it names the item when the \
                 definition is applied again"
            );
            return Err(wrong(path, &reason));
        };
        if !seen.insert((members.key(&paths), id.clone())) {
            let reason = format!("{place} repeats the id '{id}' in its logical partition");
            return Err(wrong(path, &reason));
        }
    }
    Ok(())
}

fn check_ids<'a>(
    path: &Path,
    place: &str,
    ids: impl Iterator<Item = &'a str>,
) -> Result<(), DefinitionError> {
    let mut seen = HashSet::new();
    for (at, id) in ids.enumerate() {
        if id.is_empty() {
            return Err(wrong(path, &format!("{place}/{at} has no id")));
        }
        if !seen.insert(id) {
            return Err(wrong(path, &format!("{place}/{at} repeats the id '{id}'")));
        }
    }
    Ok(())
}

fn read_folder(path: &Path, allowance: &mut Allowance) -> Result<Definition, DefinitionError> {
    let mut definition = Definition::default();
    for (name, folder) in entries(path)? {
        if !folder.is_dir() {
            return Err(wrong(&folder, "a folder for each database was expected"));
        }
        let database = read_database(&name, &folder, allowance)?;
        definition.databases.push(database);
    }
    Ok(definition)
}

fn read_database(
    name: &str,
    folder: &Path,
    allowance: &mut Allowance,
) -> Result<DatabaseDefinition, DefinitionError> {
    let file = folder.join(DATABASE_FILE);
    let mut database: DatabaseDefinition = match file.exists() {
        true => parse(&file, &read_text(&file, allowance)?)?,
        false => DatabaseDefinition::default(),
    };
    set_id(&mut database.id, name, &file)?;
    for (name, entry) in entries(folder)? {
        if name == DATABASE_FILE {
            continue;
        }
        if !entry.is_dir() {
            return Err(wrong(&entry, "only database.json and folders belong here"));
        }
        let container = read_container(&name, &entry, allowance)?;
        database.containers.push(container);
    }
    Ok(database)
}

fn read_container(
    name: &str,
    folder: &Path,
    allowance: &mut Allowance,
) -> Result<ContainerDefinition, DefinitionError> {
    let file = folder.join("container.json");
    let mut container: ContainerDefinition = parse(&file, &read_text(&file, allowance)?)?;
    set_id(&mut container.id, name, &file)?;
    for (name, entry) in entries(folder)? {
        match name.as_str() {
            "container.json" => {}
            "procedures" => container
                .stored_procedures
                .extend(read_scripts(&entry, allowance)?),
            "functions" => container
                .user_defined_functions
                .extend(read_scripts(&entry, allowance)?),
            "triggers" => {
                for script in read_scripts(&entry, allowance)? {
                    let mut listed = container.triggers.iter_mut();
                    let Some(trigger) = listed.find(|trigger| trigger.id == script.id) else {
                        let reason = format!("'triggers' does not list '{}'", script.id);
                        return Err(wrong(&file, &reason));
                    };
                    trigger.body = script.body;
                }
            }
            "items.jsonl" => container.items.extend(read_items(&entry, allowance)?),
            _ => {
                let reason = "expected container.json, items.jsonl, procedures, functions or \
                              triggers";
                return Err(wrong(&entry, reason));
            }
        }
    }
    Ok(container)
}

fn read_scripts(folder: &Path, allowance: &mut Allowance) -> Result<Vec<Script>, DefinitionError> {
    let mut scripts = Vec::new();
    for (name, file) in entries(folder)? {
        let Some(name) = name.strip_suffix(".js") else {
            return Err(wrong(&file, "a file with the ending .js was expected"));
        };
        scripts.push(Script {
            id: id_of_name(name).map_err(|reason| wrong(&file, &reason))?,
            body: read_text(&file, allowance)?,
        });
    }
    Ok(scripts)
}

fn read_items(
    file: &Path,
    allowance: &mut Allowance,
) -> Result<Vec<Box<RawValue>>, DefinitionError> {
    let text = read_text(file, allowance)?;
    let mut items = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let item = serde_json::from_str(line).map_err(|error| {
            let reason = format!("line {}, column {}: {error}", at + 1, error.column());
            wrong(file, &reason)
        })?;
        items.push(item);
    }
    Ok(items)
}

/// Sets the id that a folder's name states, and refuses another one in the file.
fn set_id(id: &mut String, name: &str, file: &Path) -> Result<(), DefinitionError> {
    let named = id_of_name(name).map_err(|reason| wrong(file, &reason))?;
    if !id.is_empty() && *id != named {
        let reason = format!("the id '{id}' differs from the name '{named}' of the folder");
        return Err(wrong(file, &reason));
    }
    *id = named;
    Ok(())
}

/// Returns the visible entries of a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, DefinitionError> {
    let cannot = |error: std::io::Error| wrong(folder, &format!("cannot be read: {error}"));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|_| wrong(&entry.path(), "the name is not UTF-8"))?;
        if !name.starts_with('.') {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a file of a definition.
fn read_text(path: &Path, allowance: &mut Allowance) -> Result<String, DefinitionError> {
    let read = text_within(path, allowance.0);
    let mut text = read.map_err(|cause| wrong(path, &format!("cannot be read: {cause}")))?;
    allowance.0 -= text.len() as u64;
    // Some editors begin a file with a byte order mark.
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

fn too_large() -> String {
    format!(
        "the files of a definition have at most {} MiB together, and 'orrery import' reads more \
         items",
        BYTES_MAX >> 20
    )
}

/// Reads a text of at most `bytes_max` bytes. Bytes that are no text end the reading at once.
fn text_within(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    // The size of a file is known before it is read; that of a pipe or a device is not.
    if file.metadata().is_ok_and(|facts| facts.len() > bytes_max) {
        return Err(too_large());
    }
    let (mut bytes, mut checked) = (Vec::new(), 0);
    loop {
        let before = bytes.len();
        let part = (&file).take(CHUNK_BYTES).read_to_end(&mut bytes);
        part.map_err(|error| error.to_string())?;
        if bytes.len() == before {
            break;
        }
        if bytes.len() as u64 > bytes_max {
            return Err(too_large());
        }
        if let Some(at) = bytes[before..].iter().position(|byte| *byte == 0) {
            return Err(format!("it is no text: byte {} is 0", before + at + 1));
        }
        // A character may end in the next part.
        checked += match std::str::from_utf8(&bytes[checked..]) {
            Ok(part) => part.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(error) => {
                let at = checked + error.valid_up_to() + 1;
                return Err(format!("it is no UTF-8 at byte {at}"));
            }
        };
    }
    String::from_utf8(bytes).map_err(|_| "it ends within a character".to_owned())
}

/// Parses a file. The error of the parser ends with line and column.
fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, DefinitionError> {
    serde_json::from_str(text).map_err(|error| wrong(path, &error.to_string()))
}

fn wrong(path: &Path, reason: &str) -> DefinitionError {
    DefinitionError::File(format!("{}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_file(text: &str) -> Result<Definition, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_line() {
        let error = read_file("{\"databases\":[\n {\"id\":\"d\",\"troughput\":{}}]}").unwrap_err();
        assert!(error.contains("unknown field `troughput`"), "{error}");
        assert!(error.contains("line 2"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_without_end_and_files_beyond_the_bound_are_refused() {
        let refused = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(refused.contains("no text: byte 1 is 0"), "{refused}");
        let refused = read(Path::new("/dev/urandom")).unwrap_err().to_string();
        assert!(refused.contains("it is no"), "{refused}");

        // The bound counts over all files of a folder, here 34 and 64 bytes for each container.
        let folder = tempfile::tempdir().unwrap();
        for container in ["a", "b"] {
            let container = folder.path().join("shop").join(container);
            fs::create_dir_all(&container).unwrap();
            fs::write(
                container.join("container.json"),
                r#"{"partitionKey":{"paths":["/pk"]}}"#,
            )
            .unwrap();
            fs::write(container.join("items.jsonl"), "\n".repeat(64)).unwrap();
        }
        let mut allowance = Allowance(150);
        let refused = read_within(folder.path(), &mut allowance).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("shop/b/items.jsonl"), "{refused}");
        assert!(refused.contains("at most 256 MiB together"), "{refused}");
        assert!(read(folder.path()).is_ok());
    }

    #[test]
    fn an_id_and_a_partition_key_are_needed_and_ids_differ() {
        let error = read_file(r#"{"databases":[{"containers":[]}]}"#).unwrap_err();
        assert!(error.contains("databases/0 has no id"), "{error}");
        let error = read_file(r#"{"databases":[{"id":"d"},{"id":"d"}]}"#).unwrap_err();
        assert!(error.contains("repeats the id 'd'"), "{error}");
        let error = read_file(r#"{"databases":[{"id":"d","containers":[{"id":"c"}]}]}"#);
        assert!(error.unwrap_err().contains("no partitionKey"));
    }

    #[test]
    fn items_and_scripts_that_repeat_an_id_are_refused_before_anything_is_created() {
        let with = |members: &str| {
            let container = r#""id":"c","partitionKey":{"paths":["/pk"]}"#;
            read_file(&format!(
                r#"{{"databases":[{{"id":"d","containers":[{{{container},{members}}}]}}]}}"#
            ))
        };
        let two = r#""items":[{"id":"1","pk":"a"},{"id":"1","pk":"b"}]"#;
        assert_eq!(with(two).unwrap().databases[0].containers[0].items.len(), 2);
        for (members, part) in [
            (
                r#""items":[{"id":"1","pk":"a"},{"id":"1","pk":"a"}]"#,
                "items/1 repeats the id '1'",
            ),
            (r#""items":[{"id":7}]"#, "items/0: the id must be a string"),
            (r#""items":[7]"#, "items/0: invalid type"),
            (
                r#""storedProcedures":[{"id":"p"},{"id":"p"}]"#,
                "storedProcedures/1 repeats the id 'p'",
            ),
        ] {
            let error = with(members).unwrap_err();
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_definition() {
        assert!(read_file("\u{feff}{\"databases\":[]}").is_ok());
    }

    #[test]
    fn a_state_of_cosmium_is_a_definition() {
        let state = r#"{"databases":{"d":{"id":"d","_rid":"x"}},
            "collections":{"d":{"c":{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash",
                "Version":2},"indexingPolicy":{"indexingMode":"consistent","automatic":true,
                "includedPaths":[],"excludedPaths":[]}}}},
            "documents":{"d":{"c":{"1":{"id":"1","pk":"a","_ts":5}}}},
            "triggers":null,"sprocs":{"d":{"c":{"p":{"id":"p","body":"function f(){}"}}}}}"#;
        let definition = read_file(state).unwrap();
        let container = &definition.databases[0].containers[0];
        assert_eq!(container.id, "c");
        assert_eq!(container.items[0].get(), r#"{"id":"1","pk":"a"}"#);
        assert_eq!(container.stored_procedures[0].id, "p");
    }
}
