//! Names of people in many languages and scripts.

use super::Sections;
use std::sync::LazyLock;

/// The first names and the family names of one language.
struct Language {
    first: Vec<&'static str>,
    family: Vec<&'static str>,
    is_family_first: bool,
    /// The separator of both names.
    gap: &'static str,
}

/// All names, parsed once for each process.
static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(languages);

/// Step through all names, a prime number, so that neighbours have different languages.
const STEP: u64 = 1_361;

/// The names of one seed. No two numbers have the same name.
#[derive(Debug)]
pub(crate) struct Names {
    offset: u64,
    count: u64,
}

impl Names {
    pub(crate) fn new(seed: u64) -> Self {
        let mut count = 0;
        for language in LANGUAGES.iter() {
            count += language.count();
        }
        Self {
            offset: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) % count.max(1),
            count: count.max(1),
        }
    }

    /// Returns the `n`-th name: at most 40 bytes. A name that comes again has a number.
    pub(crate) fn of(&self, n: u64) -> String {
        let mut place = (self.offset + n % self.count * STEP) % self.count;
        let mut name = String::new();
        for language in LANGUAGES.iter() {
            if place < language.count() {
                name = language.name(place as usize);
                break;
            }
            place -= language.count();
        }
        match n / self.count {
            0 => name,
            round => format!("{name} {}", round + 1),
        }
    }
}

impl Language {
    fn count(&self) -> u64 {
        (self.first.len() * self.family.len()) as u64
    }

    fn name(&self, place: usize) -> String {
        let first = self.first[place % self.first.len()];
        let family = self.family[place / self.first.len()];
        match self.is_family_first {
            true => format!("{family}{}{first}", self.gap),
            false => format!("{first}{}{family}", self.gap),
        }
    }
}

fn languages() -> Vec<Language> {
    let mut languages = Vec::new();
    for (name, lines) in Sections::parse(include_str!("names.txt")).0 {
        let words = |line: usize| -> Vec<&'static str> {
            let line = lines.get(line).copied().unwrap_or_default();
            line.split_whitespace().collect()
        };
        languages.push(Language {
            first: words(0),
            family: words(1),
            is_family_first: name.contains("family first"),
            gap: if name.contains("joined") { "" } else { " " },
        });
    }
    languages
}
