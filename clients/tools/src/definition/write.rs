//! Writes a definition as one file or as a folder (see `read`).

use super::DefinitionError;
use super::model::{ContainerDefinition, DatabaseDefinition, Definition};
use orrery_model::words::shortened;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// The file with the settings of a database.
pub(super) const DATABASE_FILE: &str = "database.json";
/// Bytes of the longest name that common file systems take, without an extension.
const NAME_BYTES_MAX: usize = 250;

/// Writes the definition as JSON with indentation.
///
/// # Errors
/// [`DefinitionError::File`] if the output cannot be written.
pub fn write_file(
    definition: &Definition,
    output: &mut dyn io::Write,
) -> Result<(), DefinitionError> {
    let text = pretty(definition)?;
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|e| DefinitionError::File(format!("cannot write the definition: {e}")))
}

/// Writes the definition as a file, which gets its name when it is complete.
///
/// # Errors
/// [`DefinitionError::File`] if the file cannot be written, or exists and `overwrite` is false.
pub fn replace_file(
    definition: &Definition,
    path: &Path,
    overwrite: bool,
) -> Result<(), DefinitionError> {
    let failed = |error: io::Error| cannot(path, &error);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    // The rights of a new file, and not those of a temporary one.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    write_file(definition, &mut file)?;
    file.as_file().sync_all().map_err(failed)?;
    let kept = match overwrite {
        true => file.persist(path),
        false => file.persist_noclobber(path),
    };
    kept.map(drop).map_err(|kept| failed(kept.error))
}

/// Writes the definition as a folder. The folder must not exist, or be empty.
///
/// # Errors
/// [`DefinitionError::File`] if the folder holds something or cannot be written.
pub fn write_folder(definition: Definition, folder: &Path) -> Result<(), DefinitionError> {
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let reason = format!("{} is not empty; choose another folder", folder.display());
        return Err(DefinitionError::File(reason));
    }
    check_names(&definition)?;
    fs::create_dir_all(folder).map_err(|e| cannot(folder, &e))?;
    for mut database in definition.databases {
        let home = folder.join(name_of_id(&database.id));
        for container in std::mem::take(&mut database.containers) {
            write_container(container, &home)?;
        }
        database.id = String::new();
        write(
            &home.join(DATABASE_FILE),
            &pretty::<DatabaseDefinition>(&database)?,
        )?;
    }
    Ok(())
}

/// Refuses ids that make no file names, before anything is written.
fn check_names(definition: &Definition) -> Result<(), DefinitionError> {
    for database in &definition.databases {
        let mut ids = vec![&database.id];
        for container in &database.containers {
            ids.push(&container.id);
            ids.extend(container.stored_procedures.iter().map(|script| &script.id));
            let functions = &container.user_defined_functions;
            ids.extend(functions.iter().map(|script| &script.id));
            ids.extend(container.triggers.iter().map(|trigger| &trigger.id));
        }
        for id in ids {
            if name_of_id(id).len() > NAME_BYTES_MAX {
                return Err(DefinitionError::File(format!(
                    "the id '{}' is too long for the name of a file; --format file has no such \
                     limit",
                    shortened(id)
                )));
            }
        }
    }
    Ok(())
}

fn write_container(mut container: ContainerDefinition, home: &Path) -> Result<(), DefinitionError> {
    let home = home.join(name_of_id(&std::mem::take(&mut container.id)));
    let scripts = [
        (
            "procedures",
            std::mem::take(&mut container.stored_procedures),
        ),
        (
            "functions",
            std::mem::take(&mut container.user_defined_functions),
        ),
    ];
    for (folder, scripts) in scripts {
        for script in scripts {
            let name = format!("{}.js", name_of_id(&script.id));
            write(&home.join(folder).join(name), &script.body)?;
        }
    }
    for trigger in &mut container.triggers {
        let name = format!("{}.js", name_of_id(&trigger.id));
        let body = std::mem::take(&mut trigger.body);
        write(&home.join("triggers").join(name), &body)?;
    }
    let items = std::mem::take(&mut container.items);
    if !items.is_empty() {
        let mut text = String::new();
        for item in items {
            text.push_str(item.get());
            text.push('\n');
        }
        write(&home.join("items.jsonl"), &text)?;
    }
    write(&home.join("container.json"), &pretty(&container)?)
}

fn pretty<T: Serialize>(value: &T) -> Result<String, DefinitionError> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|e| DefinitionError::File(format!("cannot write JSON: {e}")))?;
    Ok(text + "\n")
}

fn write(path: &Path, text: &str) -> Result<(), DefinitionError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|e| cannot(folder, &e))?;
    let mut file = fs::File::create(path).map_err(|e| cannot(path, &e))?;
    file.write_all(text.as_bytes())
        .map_err(|e| cannot(path, &e))
}

fn cannot(path: &Path, error: &io::Error) -> DefinitionError {
    DefinitionError::File(format!("cannot write {}: {error}", path.display()))
}

/// Returns the file name for an id. Characters that some file systems refuse, `%`, and a dot at the
/// begin or end are written as `%` and two hexadecimal digits.
fn name_of_id(id: &str) -> String {
    // The file of this name is beside the folders of the containers.
    if id == DATABASE_FILE {
        return DATABASE_FILE.replace('.', "%2E");
    }
    let mut name = String::new();
    let last = id.len().saturating_sub(1);
    for (at, c) in id.char_indices() {
        let is_plain = match c {
            '.' => at != 0 && at != last,
            '%' | '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => false,
            _ => !c.is_control(),
        };
        if is_plain {
            name.push(c);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in c.encode_utf8(&mut bytes).bytes() {
            // Writing to a string cannot fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

/// Returns the id that a file name states.
pub(super) fn id_of_name(name: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let digits = tail
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("'{name}': % needs two hexadecimal digits"))?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("'{name}' is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_a_file_name_of_its_own() {
        for id in [
            "orders",
            ".",
            "..",
            "a%b",
            "a:b*",
            "é 日本",
            "x.",
            ".hidden",
            "%2E",
            "database.json",
        ] {
            let name = name_of_id(id);
            assert!(
                !name.starts_with('.') && !name.contains(['/', ':']) && name != DATABASE_FILE,
                "{name}"
            );
            assert_eq!(id_of_name(&name).unwrap(), id);
        }
        assert!(id_of_name("%2").is_err() && id_of_name("%zz").is_err());
    }
}
