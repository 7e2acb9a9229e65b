//! Reads the files that options name within bounds: a device or a wrong file ends in an error, not
//! in the memory of the machine.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a file with keys, a password, a connection string or certificates.
pub const OPTION_FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file of at most `bytes_max` bytes, which may be a pipe.
///
/// # Errors
/// The file cannot be read, or is longer; nothing behind the bound is read.
pub fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let bound = bound_in_words(bytes_max);
        return Err(io::Error::other(format!("it has more than {bound}")));
    }
    Ok(bytes)
}

/// Reads a text of at most [`OPTION_FILE_BYTES_MAX`] bytes.
///
/// # Errors
/// As [`read_bounded`]; the file is no UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_bounded(path, OPTION_FILE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

fn bound_in_words(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::write(&file, "four").unwrap();
        assert_eq!(read_bounded(&file, 4).unwrap(), b"four");
        let refused = read_bounded(&file, 3).unwrap_err().to_string();
        assert_eq!(refused, "it has more than 3 bytes");
        assert_eq!(read_text(&file).unwrap(), "four");
        std::fs::write(&file, b"\xff").unwrap();
        assert!(read_text(&file).unwrap_err().to_string().contains("UTF-8"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_without_end_is_refused() {
        let refused = read_bounded(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(refused.to_string(), "it has more than 1 MiB");
    }
}
