//! The bytes of a file, with its holes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// The bytes of a file. Pages that were never written are zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    length: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Writes one byte or more, and makes the file longer if they end behind it.
    pub(crate) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        self.length = self.length.max(offset + bytes.len() as u64);
        while !bytes.is_empty() {
            let within = (offset % PAGE) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(PAGE as usize - within));
            let page = self.pages.entry(offset / PAGE);
            let page = page.or_insert_with(|| vec![0; PAGE as usize]);
            page[within..within + part.len()].copy_from_slice(part);
            offset += part.len() as u64;
            bytes = rest;
        }
    }

    /// Cuts the file, or makes it longer by zeros.
    pub(crate) fn resize(&mut self, length: u64) {
        if length < self.length {
            self.pages.retain(|page, _| page * PAGE < length);
            let within = (length % PAGE) as usize;
            if let Some(last) = self.pages.get_mut(&(length / PAGE)) {
                last[within..].fill(0);
            }
        }
        self.length = length;
    }

    /// Returns the pages with their offsets, without those that were never written.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages
            .iter()
            .map(|(page, bytes)| (page * PAGE, &bytes[..]))
    }

    /// Returns the number of the first byte from which on all are zeros.
    pub(crate) fn end_of_bytes(&self) -> u64 {
        for (page, bytes) in self.pages.iter().rev() {
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                return page * PAGE + last as u64 + 1;
            }
        }
        0
    }

    /// Inverts a bit of the byte at an offset, which is in a page that was written.
    pub(crate) fn flip(&mut self, offset: u64, bit: u64) {
        if let Some(page) = self.pages.get_mut(&(offset / PAGE)) {
            page[(offset % PAGE) as usize] ^= 1 << bit;
        }
    }

    /// Writes everything into a new file.
    pub(crate) fn write_to(&self, file: &File) -> io::Result<()> {
        file.set_len(self.length)?;
        for (page, bytes) in &self.pages {
            let begin = page * PAGE;
            let length = PAGE.min(self.length.saturating_sub(begin)) as usize;
            file.write_all_at(&bytes[..length], begin)?;
        }
        Ok(())
    }

    /// Reads a file.
    pub(crate) fn read(file: &File) -> io::Result<Content> {
        let mut content = Content::default();
        let length = file.metadata()?.len();
        let mut page = vec![0; PAGE as usize];
        let mut offset = 0;
        while offset < length {
            let count = file.read_at(&mut page, offset)?;
            if count == 0 {
                break;
            }
            // A page of zeros is a hole.
            if page[..count].iter().any(|byte| *byte != 0) {
                content.write(offset, &page[..count]);
            }
            offset += count as u64;
        }
        content.resize(length);
        Ok(content)
    }

    /// Returns the first byte that differs from those of another file.
    pub(crate) fn difference(&self, other: &Content) -> Option<u64> {
        if self.length != other.length {
            return Some(self.length.min(other.length));
        }
        let zeros = vec![0; PAGE as usize];
        let mut pages: Vec<&u64> = self.pages.keys().chain(other.pages.keys()).collect();
        pages.sort_unstable();
        for page in pages {
            let mine = self.pages.get(page).unwrap_or(&zeros);
            let others = other.pages.get(page).unwrap_or(&zeros);
            if let Some(at) = mine.iter().zip(others).position(|(a, b)| a != b) {
                return Some(page * PAGE + at as u64);
            }
        }
        None
    }
}
