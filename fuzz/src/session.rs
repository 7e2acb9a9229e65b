//! Session tokens of a point read.

use crate::fixture::{Fixture, check_refusal, key};
use orrery_engine::request::Position;
use std::sync::LazyLock;

static FIXTURE: LazyLock<(Fixture, Position)> = LazyLock::new(|| {
    let fixture = Fixture::new(2);
    let read = fixture
        .engine
        .read_item(&fixture.container, &key(0), "i0", None, None::<&str>);
    let position = read.wait().position.expect("a position");
    (fixture, position)
});

/// The answer to a token.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Invalid,
    NotReached,
}

/// Checks an input: the text of a token, with `$` for the version of the container and `!` for the
/// LSN of the partition. A token is accepted or refused as a second reader says.
pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (fixture, position) = &*FIXTURE;
    let token = text
        .replace('$', &position.version.to_string())
        .replace('!', &position.lsn.to_string());
    let Fixture { engine, container } = fixture;
    let read = engine.read_item(container, &key(0), "i0", None, Some(&token[..]));
    let verdict = match read.wait().result {
        Ok(_) => Verdict::Accepted,
        Err(error) => {
            check_refusal(&error, token.len());
            match (error.status(), error.sub_status()) {
                (400, 0) => Verdict::Invalid,
                (404, 1002) => Verdict::NotReached,
                other => panic!("{other:?}: {error}"),
            }
        }
    };
    assert_eq!(verdict, expected(&token, position), "{token:?}");
}

/// Returns the verdict on a token by the first entry that is refused.
fn expected(token: &str, position: &Position) -> Verdict {
    if token.trim().is_empty() {
        return Verdict::Accepted;
    }
    for entry in token.split(',') {
        let Some(entry) = Entry::read(entry.trim()) else {
            return Verdict::Invalid;
        };
        let is_of_container = match entry.version {
            Some(version) if version >= 0 => version.unsigned_abs() == position.version,
            _ => true,
        };
        let is_of_partition = entry.range == position.range_id && is_of_container;
        if is_of_partition && entry.lsn > position.lsn {
            return Verdict::NotReached;
        }
    }
    Verdict::Accepted
}

/// An entry `range:lsn` or `range:version#lsn#region=lsn…`.
struct Entry {
    range: u32,
    version: Option<i64>,
    lsn: u64,
}

impl Entry {
    fn read(text: &str) -> Option<Entry> {
        let colon = text.find(':')?;
        let range = text[..colon].parse().ok()?;
        let parts: Vec<&str> = text[colon + 1..].split('#').collect();
        match parts[..] {
            [lsn] => Some(Entry {
                range,
                version: None,
                lsn: lsn.parse().ok()?,
            }),
            [version, lsn, ref regions @ ..] => {
                for region in regions {
                    let equals = region.find('=')?;
                    region[..equals].parse::<u64>().ok()?;
                    region[equals + 1..].parse::<i64>().ok()?;
                }
                Some(Entry {
                    range,
                    version: Some(version.parse().ok()?),
                    lsn: lsn.parse().ok()?,
                })
            }
            [] => None,
        }
    }
}
