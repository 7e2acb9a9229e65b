//! Names in documents exist: paths, Rust names, functions and links of every Markdown file.
//!
//! A piece of text in backticks is judged by its form:
//!
//! ```text
//! `core/sql/src/lib.rs`, `lib.rs`      a path below one of our directories, or the name of a
//!                                      source file: it exists
//! `core/sql/tests/a.rs::name`          the file exists and has the word `name`
//! `Engine::query`, `a::b::c`           a Rust name: one file defines `query` and mentions
//!                                      `Engine`, or mentions `query` and defines `Engine`
//! `open_engine()`                      a function of Rust, Python or JavaScript, in lower case
//! `Committer`, `max_pages`             one identifier: it occurs in a source file
//! `check` in `core/a/src/items.rs`     the file defines the name; several names may stand before
//!                                      `in`, divided by commas, `and` and `or`
//! ```
//!
//! Everything else in backticks is left alone: shell commands, headers, JSON, text with a
//! placeholder (`*`, `<…>`, `{…}`, `…`). Names of the crates that we depend on and of the standard
//! library are left alone as well.
//!
//! Leaves out: fenced blocks, and `CHANGELOG.md`, which tells of the past.

use std::collections::HashSet;

use super::markdown;
use super::tree::Tree;
use crate::rust_text::{code_only, words};

/// The directories whose subdirectories are crates with the name of the subdirectory.
const CRATE_DIRECTORIES: &[&str] = &["core/", "fleet/", "operator/", "program/", "clients/"];
const OUR_DIRECTORIES: &[&str] = &[
    "core/",
    "fleet/",
    "operator/",
    "program/",
    "clients/",
    "apps/",
    "docs/",
    "conformance/",
    "bench/",
    "examples/",
    "fuzz/",
    "sim/",
    "xtask/",
    ".ci/",
    ".cargo/",
    ".github/",
];
const SOURCE_ENDINGS: &[&str] = &[".rs", ".py"];
/// Files whose words are names of ours; data files are not.
const NAMING_ENDINGS: &[&str] = &[".rs", ".py", ".js", ".java", ".go", ".toml", ".txt"];
const PLACEHOLDERS: &[char] = &['*', '<', '{', '…', ' '];
const PAST: &str = "CHANGELOG.md";
/// Records of decisions name programs and libraries that were not taken, so their single words are
/// left alone.
const DECISIONS: &str = "docs/decisions/";
/// Words of other programs that documents name.
const FOREIGN_WORDS: &[&str] = &[
    "AZURE_COSMOS_AAD_SCOPE_OVERRIDE",
    "NODE_EXTRA_CA_CERTS",
    "TokenCredential",
];
/// Words before which a Rust name is defined.
const DEFINING: &[&str] = &[
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "mod",
    "union",
    "macro_rules",
];
/// Words before which a function is defined, in Rust, Python and JavaScript.
const FUNCTION: &[&str] = &["fn", "def", "function"];

/// Returns the names, paths and links of the documents that do not exist.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let code = Code::of(tree);
    let mut found = Vec::new();
    for (document, text) in tree.ending(".md") {
        if document == PAST {
            continue;
        }
        for (number, line) in markdown::lines(text) {
            let at = format!("{document}:{number}");
            for name in markdown::quoted(line) {
                let is_free = is_identifier(name)
                    && (document.starts_with(DECISIONS) || FOREIGN_WORDS.contains(&name));
                if !is_free && let Some(reason) = code.refusal(name) {
                    found.push(format!("{at}: `{name}`: {reason}"));
                }
            }
            for (name, path) in names_with_places(line) {
                if tree.has(path) && !code.defines_below(path, name) {
                    found.push(format!("{at}: {path} does not define `{name}`"));
                }
            }
            for target in markdown::link_targets(line) {
                if let Some(path) = linked_path(document, target)
                    && !tree.has(&path)
                {
                    found.push(format!(
                        "{at}: the link leads to {path}, which does not exist"
                    ));
                }
            }
        }
    }
    found
}

/// The words of the source files.
struct Code<'t> {
    tree: &'t Tree,
    rust: Vec<RustFile<'t>>,
    /// Every word of every source file.
    words: HashSet<&'t str>,
    /// Names of functions in Rust, Python and JavaScript.
    functions: HashSet<&'t str>,
    /// Names of crates that are not ours, as Rust writes them.
    foreign: HashSet<String>,
}

/// The words of a Rust file, without its comments and literals.
struct RustFile<'t> {
    path: &'t str,
    words: HashSet<String>,
    defined: HashSet<String>,
}

impl<'t> Code<'t> {
    fn of(tree: &'t Tree) -> Code<'t> {
        let mut code = Code {
            tree,
            rust: Vec::new(),
            words: HashSet::new(),
            functions: HashSet::new(),
            foreign: foreign_crates(tree),
        };
        for (path, text) in &tree.files {
            if !NAMING_ENDINGS.iter().any(|ending| path.ends_with(ending)) {
                continue;
            }
            let mut before = "";
            for (_, word) in words(text) {
                code.words.insert(word);
                if FUNCTION.contains(&before) {
                    code.functions.insert(word);
                }
                before = word;
            }
            if path.ends_with(".rs") {
                code.rust.push(RustFile::of(path, text));
            }
        }
        code
    }

    /// Returns the reason why a piece in backticks names nothing, if it should name something.
    fn refusal(&self, piece: &str) -> Option<String> {
        if piece.contains(PLACEHOLDERS) {
            return None;
        }
        if OUR_DIRECTORIES.iter().any(|ours| piece.starts_with(ours)) {
            return self.path_refusal(piece);
        }
        let is_source_name = SOURCE_ENDINGS.iter().any(|ending| piece.ends_with(ending));
        if is_source_name && !piece.starts_with(['.', '/']) {
            let end = format!("/{piece}");
            let exists = self.tree.has(piece) || self.tree.ending(&end).next().is_some();
            return (!exists).then(|| "there is no such file".to_owned());
        }

        let name = piece.strip_suffix("()").unwrap_or(piece);
        if let Some((before, last)) = name.rsplit_once("::") {
            let segments: Vec<&str> = name.split("::").collect();
            let is_rust = segments.iter().all(|segment| is_identifier(segment));
            if !is_rust || self.foreign.contains(segments[0]) {
                return None;
            }
            let qualifier = before.rsplit("::").next().unwrap_or(before);
            let exists = self.rust.iter().any(|file| file.has(qualifier, last));
            return (!exists).then(|| "there is no such name in Rust".to_owned());
        }
        if !is_identifier(name) {
            return None;
        }
        let is_call = name.len() < piece.len();
        if is_call {
            // Functions with capitals are JavaScript's or SQL's, and most of them the service's.
            let is_ours = !name.contains(|character: char| character.is_uppercase());
            let exists = !is_ours || self.functions.contains(name);
            return (!exists).then(|| "there is no such function".to_owned());
        }
        let exists = self.words.contains(name);
        (!exists).then(|| "the word occurs in no source file".to_owned())
    }

    /// Judges `path`, `path:12` and `path::name`.
    fn path_refusal(&self, piece: &str) -> Option<String> {
        let (path, rest) = piece.split_once(':').unwrap_or((piece, ""));
        if !self.tree.has(path) {
            return Some("there is no such path".to_owned());
        }
        let name = rest.strip_prefix(':')?.rsplit("::").next()?;
        let text = self.tree.text(path)?;
        let exists = words(text).any(|(_, word)| word == name);
        (!exists).then(|| format!("{path} does not contain `{name}`"))
    }

    /// Returns true if a file of this path, or below this directory, defines the name. A file of
    /// another language than Rust only needs to contain the name.
    fn defines_below(&self, path: &str, name: &str) -> bool {
        if let Some(text) = self.tree.text(path)
            && !path.ends_with(".rs")
        {
            return text.contains(name);
        }
        let last = name.rsplit("::").next().unwrap_or(name);
        self.rust.iter().any(|file| {
            let is_below = file.path == path || is_below(file.path, path);
            is_below && (file.defined.contains(last) || file.is_named(name, last))
        })
    }
}

impl<'t> RustFile<'t> {
    fn of(path: &'t str, text: &str) -> RustFile<'t> {
        let code = code_only(text);
        let mut file = RustFile {
            path,
            words: HashSet::new(),
            defined: HashSet::new(),
        };
        let mut before = "";
        for (_, word) in words(&code) {
            if DEFINING.contains(&before) {
                file.defined.insert(word.to_owned());
            }
            file.words.insert(word.to_owned());
            before = word;
        }
        file
    }

    /// Returns true if the file joins the two: it defines one and mentions the other.
    fn has(&self, qualifier: &str, name: &str) -> bool {
        let is_module = self.module() == qualifier || self.is_in_crate(qualifier);
        let mentions = is_module || self.words.contains(qualifier);
        let defines = is_module || self.defined.contains(qualifier);
        (mentions && self.defined.contains(name)) || (defines && self.words.contains(name))
    }

    /// Returns true if `name` is `Type::last` and this file has both words: a variant, a field, or
    /// a method made by a macro.
    fn is_named(&self, name: &str, last: &str) -> bool {
        match name.split_once("::") {
            Some((first, _)) => self.words.contains(first) && self.words.contains(last),
            None => false,
        }
    }

    /// Returns the name of the module that the file is.
    fn module(&self) -> &str {
        let stem = self.path.strip_suffix(".rs").unwrap_or(self.path);
        let stem = stem.strip_suffix("/mod").unwrap_or(stem);
        stem.rsplit('/').next().unwrap_or(stem)
    }

    /// Returns true if the file belongs to the crate of this name, such as `orrery_sql`.
    fn is_in_crate(&self, name: &str) -> bool {
        let Some(folder) = name.strip_prefix("orrery_") else {
            return false;
        };
        let folder = folder.replace('_', "-");
        CRATE_DIRECTORIES
            .iter()
            .any(|street| is_below(self.path, &format!("{street}{folder}")))
    }
}

fn is_below(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.starts_with('/'))
}

fn is_identifier(text: &str) -> bool {
    let begins = text.starts_with(|character: char| character.is_alphabetic() || character == '_');
    begins
        && text
            .chars()
            .all(|character| character.is_alphanumeric() || character == '_')
}

/// Returns the crates that the workspace depends on, and those of the standard library.
fn foreign_crates(tree: &Tree) -> HashSet<String> {
    let mut names: HashSet<String> = ["std", "core", "alloc"].map(str::to_owned).into();
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    for line in manifest.lines() {
        if let Some((name, _)) = line.split_once(" = ")
            && !name.starts_with("orrery-")
        {
            names.insert(name.replace('-', "_"));
        }
    }
    names
}

/// Returns the names that stand before `in` and a path, each with the path: "`a`, `b` in `path`".
fn names_with_places(line: &str) -> Vec<(&str, &str)> {
    // Odd pieces stand in backticks, even pieces between them.
    let pieces: Vec<&str> = line.split('`').collect();
    let mut found = Vec::new();
    for place in (1..pieces.len()).step_by(2) {
        let path = pieces[place];
        let is_path = OUR_DIRECTORIES.iter().any(|ours| path.starts_with(ours));
        if !is_path || path.contains(PLACEHOLDERS) || path.contains(':') {
            continue;
        }
        let mut at = place;
        let mut joint = " in ";
        while at >= 2 && (pieces[at - 1] == joint || is_list_joint(pieces[at - 1], joint)) {
            at -= 2;
            joint = "";
            let name = pieces[at].strip_suffix("()").unwrap_or(pieces[at]);
            if name.split("::").all(is_identifier) {
                found.push((name, path));
            }
        }
    }
    found
}

/// Returns true if the text divides the names of a list, once the word `in` has been found.
fn is_list_joint(text: &str, expected: &str) -> bool {
    expected.is_empty() && [", ", " and ", ", and ", " or "].contains(&text)
}

/// Returns the path that a link of a document leads to; `None` for an address or a place within the
/// document.
pub(super) fn linked_path(document: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return None;
    }
    let mut names: Vec<&str> = document.split('/').collect();
    names.pop();
    for name in path.split('/') {
        match name {
            "." | "" => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: &str = "pub struct Engine;\nimpl Engine {\n    pub fn query() {}\n}\n\
                          enum Phase { Open, Gone }\n// a comment on rows\n";

    fn judged(text: &str) -> Vec<String> {
        complaints(&Tree::of(&[
            ("docs/map.md", text),
            ("README.md", ""),
            ("Cargo.toml", "[dependencies]\nring-buffer = \"1\"\n"),
            ("core/engine/src/lib.rs", ENGINE),
            (
                "core/engine/src/query/walk.rs",
                "fn walk_index() { Phase::Gone; }\n",
            ),
            ("conformance/run.py", "def start(port):\n    pass\n"),
        ]))
    }

    #[test]
    fn names_that_exist_pass() {
        let text = "See `core/engine/`, `core/engine/src/lib.rs:12`, `walk.rs`, `README.md`,\n\
                    `Engine::query`, `Engine::query()`, `Phase::Gone`, `walk::walk_index`,\n\
                    `orrery_engine::Engine`, `walk_index()`, `start()`, `Engine`, `port`,\n\
                    `query` in `core/engine/src/lib.rs`, [the first](../README.md#top),\n\
                    `core/engine/src/lib.rs::query`.\n";
        assert_eq!(judged(text), Vec::<String>::new());
    }

    #[test]
    fn text_that_names_nothing_of_ours_passes() {
        let text = "`cargo test -p x`, `x-ms-version`, `{\"a\": 1}`, `core/*/src`,\n\
                    `docs/<date>.md`,\n\
                    `COUNT(1)`, `getContext()`, `std::process::Command`, `ring_buffer::Ring`,\n\
                    [site](https://example.org), [here](#top)\n```\n`NoSuchName`\n```\n";
        assert_eq!(judged(text), Vec::<String>::new());
    }

    #[test]
    fn a_path_that_does_not_exist_is_a_complaint() {
        let found = judged("line\nthe file `core/attic/src/lib.rs` is long");
        assert_eq!(
            found,
            ["docs/map.md:2: `core/attic/src/lib.rs`: there is no such path"]
        );
        assert_eq!(judged("`attic.rs`").len(), 1);
        assert_eq!(judged("[link](attic.md)").len(), 1);
        assert_eq!(judged("`core/engine/src/lib.rs::no_test`").len(), 1);
    }

    #[test]
    fn a_name_that_does_not_exist_is_a_complaint() {
        for name in [
            "Engine::ask",
            "Reader::query",
            "walk::query",
            "ask()",
            "Reader",
            "max_rows",
        ] {
            assert_eq!(judged(&format!("call `{name}` first")).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_name_is_looked_for_where_the_text_says_it_is() {
        let place = "in `core/engine/src/query/walk.rs`";
        assert!(judged(&format!("`walk_index` {place}")).is_empty());
        assert!(judged("`walk_index` in `core/engine/src/query`").is_empty());
        assert_eq!(judged(&format!("`query` {place}")).len(), 1);
        assert_eq!(
            judged(&format!("`query`, `Engine` and `walk_index` {place}")).len(),
            2
        );
    }
}
