//! The identity of a test binary: a hash of what it is built from.
//!
//! Two builds of one commit in two directories give binaries that differ, so the binary itself is
//! not hashed. These are the inputs:
//!
//! ```text
//! unit tests of a package         its folder without tests/, benches/ and examples/
//! a file of tests of a package    its whole folder
//! both                            the folders of the packages of this workspace that it uses,
//!                                 without their tests; the entries of Cargo.lock and the lines of
//!                                 Cargo.toml for the libraries that they use; the toolchain; the
//!                                 sections of the profile of tests
//! ```
//!
//! A literal in a source that names a file or folder outside (`"../../docs/page.md"`) adds it, but
//! for `Cargo.lock`, whose entries count one by one.
//!
//! Promises: the hash depends on the paths within the repository and on the contents, and on
//! nothing else of the machine.
//! Leaves out: Markdown that no source names, and files whose path a test computes while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::locked::{Locked, used_lines};
use super::packages::Package;
use crate::run::FOREIGN_DIRECTORIES;
use crate::rust_text::{Kind, pieces};
use crate::sdk_tools::read;

/// Files of the root that take part in every build.
const SHARED_FILES: &[&str] = &["rust-toolchain.toml", ".cargo/config.toml"];
/// Sections of the manifest of the workspace that the build of tests does not use.
const UNUSED_SECTIONS: &[&str] = &[
    "[profile.bench",
    "[profile.dist",
    "[profile.release",
    "[workspace.lints",
];
/// Folders of a package that its library and its programs do not use.
const TEST_FOLDERS: &[&str] = &["tests", "benches", "examples"];
/// The package of the server program, with which the suites run.
const PROGRAM_PACKAGE: &str = "orrery-cli";
/// The folders of the suites and of the programs that they run.
const SUITES: &[&str] = &["conformance", "examples/first-item"];
/// The package of the simulated users, which one step of the suites runs.
const USERS_PACKAGE: &str = "orrery-bench";

/// The treatment of a package within a folder.
#[derive(Clone, Copy)]
enum Nested {
    Taken,
    LeftOut,
}

/// The part of a package that is an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The library and the programs.
    Sources,
    /// These and the tests.
    Whole,
}

/// The hashes of the parts of packages, each computed once.
pub(super) struct Inputs<'w> {
    root: &'w Path,
    packages: &'w [Package],
    /// Hash of the shared files.
    shared: u64,
    locked: Locked,
    /// The manifest of the workspace.
    manifest: String,
    parts: BTreeMap<(String, Part), u64>,
}

impl<'w> Inputs<'w> {
    /// Reads the files that take part in every build.
    pub(super) fn new(root: &'w Path, packages: &'w [Package]) -> Result<Inputs<'w>, String> {
        let mut hash = Hash::new();
        for file in SHARED_FILES {
            let path = root.join(file);
            if path.is_file() {
                hash.write(read(&path)?.as_bytes());
            }
        }
        Ok(Inputs {
            root,
            packages,
            shared: hash.value(),
            locked: Locked::parse(&read(&root.join("Cargo.lock"))?),
            manifest: read(&root.join("Cargo.toml"))?,
            parts: BTreeMap::new(),
        })
    }

    /// Returns the hash of the inputs of a test binary of a package.
    pub(super) fn of_tests(&mut self, package: &str, part: Part) -> Result<String, String> {
        let used = self.used_by(package, true);
        let mut hash = Hash::new();
        hash.write(&self.shared.to_le_bytes());
        self.write_libraries(&mut hash, &[package], &used);
        hash.write(&self.part(package, part)?.to_le_bytes());
        for used in used {
            hash.write(&self.part(&used, Part::Sources)?.to_le_bytes());
        }
        Ok(hash.text())
    }

    /// Returns the hash of the inputs of the suites: the server program, that of the simulated
    /// users, and the folders of the suites.
    pub(super) fn of_suites(&mut self) -> Result<String, String> {
        let mut files = BTreeSet::new();
        for folder in SUITES {
            collect(&self.root.join(folder), Nested::Taken, &mut files)?;
        }
        let programs = [PROGRAM_PACKAGE, USERS_PACKAGE];
        let used = self.used_by(PROGRAM_PACKAGE, false);
        let mut hash = Hash::new();
        hash.write(&self.shared.to_le_bytes());
        self.write_libraries(&mut hash, &programs, &used);
        hash.write(&self.hash_of_files(&files)?.to_le_bytes());
        for package in programs {
            hash.write(&self.part(package, Part::Sources)?.to_le_bytes());
        }
        for used in used {
            hash.write(&self.part(&used, Part::Sources)?.to_le_bytes());
        }
        Ok(hash.text())
    }

    /// Adds the libraries of packages, and what the manifest of the workspace says of them.
    fn write_libraries(&self, hash: &mut Hash, packages: &[&str], used: &BTreeSet<String>) {
        let used = used.iter().map(String::as_str);
        let libraries = self.locked.libraries(packages.iter().copied().chain(used));
        for entry in self.locked.text_of(&libraries) {
            hash.write(entry.as_bytes());
        }
        let lines = used_lines(&self.manifest, UNUSED_SECTIONS, &libraries);
        hash.write(lines.as_bytes());
    }

    /// Returns the packages that a package uses, directly or through others. Packages that only the
    /// tests of a used package use do not count.
    fn used_by(&self, package: &str, with_tests: bool) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![(package.to_owned(), with_tests)];
        while let Some((name, with_tests)) = open.pop() {
            let Some(package) = self.packages.iter().find(|known| known.name == name) else {
                continue;
            };
            for used in &package.uses {
                let counts = with_tests || !used.is_for_tests;
                if counts && found.insert(used.name.clone()) {
                    open.push((used.name.clone(), false));
                }
            }
        }
        // A package may use itself in its tests.
        found.remove(package);
        found
    }

    /// Returns the hash of a part of a package.
    fn part(&mut self, name: &str, part: Part) -> Result<u64, String> {
        let key = (name.to_owned(), part);
        if let Some(hash) = self.parts.get(&key) {
            return Ok(*hash);
        }
        let package = self.packages.iter().find(|known| known.name == name);
        let package = package.ok_or_else(|| format!("there is no package `{name}`"))?;
        let files = self.files_of(package, part)?;
        let hash = self.hash_of_files(&files)?;
        self.parts.insert(key, hash);
        Ok(hash)
    }

    /// Returns the files of a part of a package, with those outside that its sources name.
    fn files_of(&self, package: &Package, part: Part) -> Result<BTreeSet<PathBuf>, String> {
        let mut files = BTreeSet::new();
        collect(&package.root, Nested::LeftOut, &mut files)?;
        files.retain(|file| {
            let below = file.strip_prefix(&package.root).unwrap_or(file);
            let folder = below.iter().next().unwrap_or_default().to_string_lossy();
            let is_of_tests = TEST_FOLDERS.contains(&folder.as_ref());
            let is_document = below.extension().is_some_and(|ending| ending == "md");
            !is_document && (part == Part::Whole || !is_of_tests)
        });

        let mut open: Vec<PathBuf> = files.iter().cloned().collect();
        while let Some(file) = open.pop() {
            if file.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            for named in self.named_in(&file, package)? {
                if files.insert(named.clone()) {
                    open.push(named);
                }
            }
        }
        Ok(files)
    }

    /// Returns the files that the literals of a source name with `../`, from the folder of the
    /// source or of the package.
    fn named_in(&self, source: &Path, package: &Package) -> Result<BTreeSet<PathBuf>, String> {
        let mut named = BTreeSet::new();
        let text = read(source)?;
        for (kind, range) in pieces(&text) {
            let Some(literal) = literal(kind, &text[range]) else {
                continue;
            };
            for folder in [source.parent().unwrap_or(source), &package.root] {
                let path = without_dots(&folder.join(literal));
                // The entries of the libraries that the package uses are inputs already.
                if path == self.root.join("Cargo.lock") {
                    continue;
                }
                let is_outside = path.starts_with(self.root) && !package.root.starts_with(&path);
                if is_outside && path.is_dir() {
                    collect(&path, Nested::LeftOut, &mut named)?;
                } else if is_outside && path.is_file() {
                    // The modules of a `mod.rs` lie beside it.
                    if path.file_name().is_some_and(|name| name == "mod.rs") {
                        collect(path.parent().unwrap_or(&path), Nested::LeftOut, &mut named)?;
                    }
                    named.insert(path);
                }
            }
        }
        Ok(named)
    }

    /// Returns the hash of the paths and contents of files.
    fn hash_of_files(&self, files: &BTreeSet<PathBuf>) -> Result<u64, String> {
        let mut hash = Hash::new();
        for file in files {
            let path = file.strip_prefix(self.root).unwrap_or(file);
            hash.write(path.to_string_lossy().as_bytes());
            let content = fs::read(file);
            let content =
                content.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            hash.write(&content);
        }
        Ok(hash.value())
    }
}

/// Returns the path in a literal that leads out of a folder. The literal of `concat!` behind the
/// folder of the package begins with a slash.
fn literal(kind: Kind, piece: &str) -> Option<&str> {
    if kind != Kind::Literal {
        return None;
    }
    let text = piece.split_once('"')?.1.rsplit_once('"')?.0;
    let text = text.strip_prefix('/').unwrap_or(text);
    text.starts_with("../").then_some(text)
}

/// Returns the path without `..`.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Adds the files below a folder, without build output.
fn collect(folder: &Path, nested: Nested, files: &mut BTreeSet<PathBuf>) -> Result<(), String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let kind = entry.file_type().map_err(unreadable)?;
        let name = entry.file_name();
        let is_foreign = FOREIGN_DIRECTORIES.iter().any(|foreign| name == *foreign);
        let is_taken = match nested {
            Nested::Taken => true,
            Nested::LeftOut => !path.join("Cargo.toml").is_file(),
        };
        if kind.is_file() {
            files.insert(path);
        } else if kind.is_dir() && !is_foreign && is_taken {
            collect(&path, nested, files)?;
        }
    }
    Ok(())
}

/// The hash FNV-1a of 64 bits over pieces, each with its length.
struct Hash(u64);

impl Hash {
    fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, piece: &[u8]) {
        for byte in (piece.len() as u64).to_le_bytes().iter().chain(piece) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn value(&self) -> u64 {
        self.0
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packages::Used;
    use super::*;

    /// A workspace in a folder of its own, removed at the end of the test.
    struct Workspace {
        root: PathBuf,
        packages: Vec<Package>,
    }

    impl Workspace {
        /// Creates `model`, `engine`, which uses it, and `server`, which uses `engine`, and
        /// `bench` in its tests.
        fn new(name: &str) -> Workspace {
            let name = format!("xtask-inputs-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(name);
            let used = |name: &str, is_for_tests| Used {
                name: name.to_owned(),
                is_for_tests,
            };
            let package = |name: &str, uses| Package {
                name: name.to_owned(),
                root: root.join("crates").join(name),
                uses,
                targets: Vec::new(),
            };
            let packages = vec![
                package("model", vec![]),
                package("bench", vec![used("model", false)]),
                package("engine", vec![used("model", false), used("bench", true)]),
                package("server", vec![used("engine", false)]),
            ];
            let workspace = Workspace { root, packages };
            workspace.write("Cargo.toml", "[profile.dev]\nopt-level = 1\n");
            workspace.write("Cargo.lock", "");
            for package in ["model", "bench", "engine", "server"] {
                workspace.write(&format!("crates/{package}/src/lib.rs"), "fn f() {}\n");
                workspace.write(&format!("crates/{package}/tests/all.rs"), "fn t() {}\n");
            }
            workspace
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Returns the hashes of the unit tests and of the files of tests of a package.
        fn hashes(&self, package: &str) -> [String; 2] {
            let mut inputs = Inputs::new(&self.root, &self.packages).unwrap();
            [Part::Sources, Part::Whole].map(|part| inputs.of_tests(package, part).unwrap())
        }

        /// Returns true for the unit tests and for the files of tests of a package if writing the
        /// file changes their hash.
        fn changes(&self, package: &str, file: &str, text: &str) -> [bool; 2] {
            let before = self.hashes(package);
            self.write(file, text);
            let after = self.hashes(package);
            [before[0] != after[0], before[1] != after[1]]
        }
    }

    impl Drop for Workspace {
        fn drop(&mut self) {
            // A folder that cannot be removed is left to the system.
            let _ = fs::remove_dir_all(&self.root);
        }
    }

    #[test]
    fn two_copies_of_one_workspace_have_the_same_hashes() {
        let (one, two) = (Workspace::new("one"), Workspace::new("two"));
        assert_eq!(one.hashes("engine"), two.hashes("engine"));
        let [unit_tests, tests] = one.hashes("engine");
        assert!(unit_tests != tests && unit_tests.len() == 16);
    }

    #[test]
    fn a_change_counts_for_the_packages_that_use_it_and_for_no_other() {
        let workspace = Workspace::new("uses");
        let model = "crates/model/src/lib.rs";
        assert_eq!(workspace.changes("server", model, "1"), [true, true]);
        assert_eq!(workspace.changes("engine", model, "2"), [true, true]);
        let server = "crates/server/src/lib.rs";
        assert_eq!(workspace.changes("engine", server, "3"), [false, false]);
    }

    #[test]
    fn a_file_of_tests_counts_for_the_files_of_tests_of_its_package_alone() {
        let workspace = Workspace::new("tests");
        let file = "crates/engine/tests/all.rs";
        assert_eq!(workspace.changes("engine", file, "1"), [false, true]);
        assert_eq!(workspace.changes("server", file, "2"), [false, false]);
    }

    #[test]
    fn a_package_that_only_tests_use_counts_for_the_tests_of_the_user_alone() {
        let workspace = Workspace::new("dev");
        let file = "crates/bench/src/lib.rs";
        assert_eq!(workspace.changes("engine", file, "1"), [true, true]);
        assert_eq!(workspace.changes("server", file, "2"), [false, false]);
    }

    #[test]
    fn files_outside_count_if_a_source_names_them() {
        let workspace = Workspace::new("outside");
        workspace.write("docs/page.md", "text");
        workspace.write("docs/other.md", "text");
        workspace.write("crates/model/tests/support/mod.rs", "mod more;");
        workspace.write("crates/model/tests/support/more.rs", "");
        let text = "const PAGE: &str = include_str!(\"../../../docs/page.md\");\n\
                    const LOCK: &str = include_str!(\"../../../Cargo.lock\");\n\
                    #[path = \"../../model/tests/support/mod.rs\"]\nmod support;\n";
        workspace.write("crates/server/tests/all.rs", text);
        let changes = |file, text| workspace.changes("server", file, text);
        assert_eq!(changes("docs/page.md", "1"), [false, true]);
        assert_eq!(changes("docs/other.md", "2"), [false, false]);
        let library = "[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"registry\"\n";
        assert_eq!(changes("Cargo.lock", library), [false, false]);
        let module = "crates/model/tests/support/more.rs";
        assert_eq!(changes(module, "3"), [false, true]);
    }

    #[test]
    fn a_folder_counts_if_a_source_names_it_behind_the_folder_of_the_package() {
        let workspace = Workspace::new("folder");
        workspace.write("docs/reference/a.json", "1");
        let text = "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../../docs/reference\")";
        workspace.write("crates/server/src/lib.rs", text);
        let file = "docs/reference/a.json";
        assert_eq!(workspace.changes("server", file, "2"), [true, true]);
    }

    #[test]
    fn a_library_counts_for_the_packages_that_use_it_and_the_profile_of_tests_for_all() {
        let workspace = Workspace::new("shared");
        let changes = |file: &str, text: &str| workspace.changes("model", file, text);
        let locked = |user: &str, version: &str| {
            format!(
                "[[package]]\nname = \"a\"\nversion = \"{version}\"\nsource = \"registry\"\n\n\
                 [[package]]\nname = \"{user}\"\ndependencies = [\n \"a\",\n]\n"
            )
        };
        assert_eq!(
            changes("Cargo.lock", &locked("engine", "1")),
            [false, false]
        );
        assert_eq!(changes("Cargo.lock", &locked("model", "1")), [true, true]);
        assert_eq!(changes("Cargo.lock", &locked("model", "2")), [true, true]);
        let engine = workspace.changes("engine", "Cargo.lock", &locked("model", "3"));
        assert_eq!(engine, [true, true]);
        let profile = "[profile.dev]\nopt-level = 2\n";
        assert_eq!(changes("Cargo.toml", profile), [true, true]);
        let other = format!("# A comment.\n{profile}\n[profile.dist]\nlto = true\n");
        assert_eq!(changes("Cargo.toml", &other), [false, false]);
    }

    #[test]
    fn documents_build_output_and_inner_packages_do_not_count() {
        let workspace = Workspace::new("left-out");
        let changes = |file| workspace.changes("model", file, "1");
        assert_eq!(changes("crates/model/README.md"), [false, false]);
        assert_eq!(changes("crates/model/target/debug/a"), [false, false]);
        workspace.write("crates/model/fuzz/Cargo.toml", "");
        assert_eq!(changes("crates/model/fuzz/src/lib.rs"), [false, false]);
    }

    #[test]
    fn the_suites_depend_on_their_folder_and_on_the_server() {
        let mut workspace = Workspace::new("suites");
        workspace.packages[1].name = USERS_PACKAGE.to_owned();
        workspace.packages[3].name = PROGRAM_PACKAGE.to_owned();
        workspace.write("examples/first-item/README.md", "1");
        let hash = |workspace: &Workspace| {
            let mut inputs = Inputs::new(&workspace.root, &workspace.packages).unwrap();
            inputs.of_suites().unwrap()
        };
        workspace.write("conformance/sdk/python/test_a.py", "1");
        let first = hash(&workspace);
        workspace.write("conformance/sdk/python/test_a.py", "2");
        let second = hash(&workspace);
        workspace.write("crates/model/src/lib.rs", "3");
        let third = hash(&workspace);
        assert!(first != second && second != third);
        workspace.write("conformance/sdk/scenarios/rust/Cargo.toml", "");
        let fourth = hash(&workspace);
        workspace.write("conformance/sdk/scenarios/rust/src/main.rs", "1");
        let fifth = hash(&workspace);
        assert!(third != fourth && fourth != fifth);
        workspace.write("crates/server/tests/all.rs", "4");
        assert_eq!(hash(&workspace), fifth);
    }
}
