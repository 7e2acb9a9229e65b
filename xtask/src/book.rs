//! `cargo xtask book`: the site of the documents, built by mdBook from `docs/` into `target/book`.
//!
//! Before the build it checks the links of all pages, with their places within a page, and that
//! `docs/SUMMARY.md` lists every page. The pages are copied first: a link that leads out of `docs/`
//! becomes text, since the site has no such page.
//!
//! Promises: a page that is not listed, a link to a page or heading that does not exist, and a
//! listed page without a file are refused by name.
//! Leaves out: the code blocks, which `cargo xtask conformance book` runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, cargo, must, program, root, target_directory};
use crate::sdk_tools::{self, PROGRAM_VARIABLE, python_program};

/// The version of mdBook that builds the site.
const MDBOOK: &str = "0.5.4";
const SUMMARY: &str = "SUMMARY.md";
/// Records of decisions are linked from pages and are not pages of the site.
const NO_PAGES: &[&str] = &["decisions/"];

/// The pages of `docs/` by their paths below it.
type Pages = BTreeMap<String, String>;

/// Runs `book [--check | --write]`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => build(),
        ["--check"] => check(&pages()?),
        ["--write"] => write_functions(),
        _ => Err(format!(
            "book takes `--check`, `--write` or nothing, not `{}`",
            arguments.join(" ")
        )),
    }
}

/// Returns the help text of the command.
pub(crate) fn help() -> String {
    format!(
        "Builds the site into target/book with mdBook {MDBOOK}, which is installed below \
         target/tools\nat the first time.\n\n\
         --check   check links, headings and the list of pages, and build nothing\n\
         --write   write docs/reference/functions.md from the functions of the program\n"
    )
}

/// Builds the site.
pub(crate) fn build() -> Outcome {
    let pages = pages()?;
    check(&pages)?;
    let source = target_directory().join("book-source");
    copy(&pages, &source)?;
    let mut book = program(mdbook()?, &source);
    must(book.args(["build", "--dest-dir"]).arg(site()))?;
    println!("the site is {}", site().join("index.html").display());
    Ok(())
}

/// Returns the directory of the built site.
fn site() -> PathBuf {
    target_directory().join("book")
}

/// Writes the page of functions with the results of the program.
fn write_functions() -> Outcome {
    let mut write = python_program(&root().join("conformance/docs/book"))?;
    write.args(["functions.py", "--write"]);
    must(write.env(PROGRAM_VARIABLE, sdk_tools::server()?))
}

/// Returns the program mdBook, installed below `target/tools` if it is missing.
///
/// The features that watch and serve a book are left out, which halves the build.
fn mdbook() -> Result<PathBuf, String> {
    let tools = target_directory().join("tools");
    let installed = tools.join(format!("bin/mdbook{}", std::env::consts::EXE_SUFFIX));
    let stamp = sdk_tools::Stamp {
        file: tools.join("mdbook.stamp"),
        wanted: MDBOOK.to_owned(),
    };
    if !(stamp.is_current() && installed.is_file()) {
        println!("installing mdBook {MDBOOK} into {}", tools.display());
        let mut install = cargo(&["install", "--quiet", "--locked", "--version", MDBOOK]);
        install.args(["--no-default-features", "--features", "search", "--root"]);
        must(install.arg(&tools).arg("mdbook"))
            .map_err(|error| format!("{error}; is the package registry reachable?"))?;
        stamp.set()?;
    }
    Ok(installed)
}

/// Returns every page below `docs/`.
fn pages() -> Result<Pages, String> {
    let mut pages = Pages::new();
    collect(&root().join("docs"), "", &mut pages)?;
    Ok(pages)
}

fn collect(directory: &Path, prefix: &str, pages: &mut Pages) -> Outcome {
    let unreadable = |error| format!("cannot read {}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let below = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{below}/"), pages)?;
        } else if name.ends_with(".md") {
            pages.insert(below, sdk_tools::read(&path)?);
        }
    }
    Ok(())
}

/// Checks the list of pages and the links of all pages.
fn check(pages: &Pages) -> Outcome {
    let mut complaints = orphans(pages);
    complaints.extend(broken_links(pages));
    for complaint in &complaints {
        println!("  {complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        count => Err(format!("{count} complaint(s) about the pages of docs/")),
    }
}

/// Returns the pages that the summary does not list, and the listed ones that do not exist.
fn orphans(pages: &Pages) -> Vec<String> {
    let summary = pages.get(SUMMARY).map(String::as_str).unwrap_or_default();
    let listed: Vec<String> = links(summary)
        .map(|(_, target)| target.to_owned())
        .collect();
    let mut found = Vec::new();
    for page in pages.keys() {
        let is_page = page != SUMMARY && !NO_PAGES.iter().any(|start| page.starts_with(start));
        if is_page && !listed.contains(page) {
            found.push(format!(
                "docs/{page} is not listed: add `- [Title]({page})` to docs/{SUMMARY}"
            ));
        }
    }
    for target in &listed {
        if !pages.contains_key(target) {
            found.push(format!(
                "docs/{SUMMARY} lists {target}, which does not exist"
            ));
        }
    }
    found
}

/// Returns the links to pages of `docs/`, or to headings of them, that do not exist.
fn broken_links(pages: &Pages) -> Vec<String> {
    let mut found = Vec::new();
    for (page, text) in pages {
        for (number, target) in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let Some(path) = resolved(page, path) else {
                continue;
            };
            if !path.ends_with(".md") {
                continue;
            }
            match pages.get(&path) {
                None => found.push(format!(
                    "docs/{page}:{number}: there is no page docs/{path}"
                )),
                Some(text) if !heading.is_empty() && !has_heading(text, heading) => {
                    found.push(format!(
                        "docs/{page}:{number}: docs/{path} has no heading `#{heading}`"
                    ));
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// Returns the targets of the links of a text outside of fenced blocks, with their lines.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    let lines = text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fence && !is_fenced
    });
    lines.flat_map(|(place, line)| {
        let targets = line.split("](").skip(1);
        targets.filter_map(move |rest| Some((place + 1, rest.split(')').next()?)))
    })
}

/// Returns the path below `docs/` that a link of a page leads to; `None` if it leads out.
fn resolved(page: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(page.to_owned());
    }
    let mut names: Vec<&str> = page.split('/').collect();
    names.pop();
    for name in target.split('/') {
        match name {
            "." | "" => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// Returns true if a page has a heading whose place has this name.
fn has_heading(text: &str, name: &str) -> bool {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| place_of(line.trim_start_matches('#').trim()) == name)
}

/// Returns the name of a heading's place as mdBook and GitHub make it.
fn place_of(heading: &str) -> String {
    let kept = heading.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        character if character.is_alphanumeric() => Some(character.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// Copies the pages, the settings and the pictures to the directory that mdBook reads.
fn copy(pages: &Pages, source: &Path) -> Outcome {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if source.exists() {
        fs::remove_dir_all(source).map_err(|error| failed(source, error))?;
    }
    for (page, text) in pages {
        if NO_PAGES.iter().any(|start| page.starts_with(start)) {
            continue;
        }
        let path = source.join(page);
        let directory = path.parent().unwrap_or(source);
        fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        let text = inside_only(page, text);
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    let mut others = vec![PathBuf::from("book.toml")];
    fs::create_dir_all(source.join("pictures")).map_err(|error| failed(source, error))?;
    let pictures = root().join("docs/pictures");
    for entry in fs::read_dir(&pictures).map_err(|error| failed(&pictures, error))? {
        let entry = entry.map_err(|error| failed(&pictures, error))?;
        others.push(Path::new("pictures").join(entry.file_name()));
    }
    for other in others {
        let from = root().join("docs").join(&other);
        fs::copy(&from, source.join(&other)).map_err(|error| failed(&from, error))?;
    }
    Ok(())
}

/// Returns the text of a page in which links to files that are no pages of the site are text.
fn inside_only(page: &str, text: &str) -> String {
    let mut is_fenced = false;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        match is_fenced {
            true => out.push_str(line),
            false => out.push_str(&inside_only_line(page, line)),
        }
        out.push('\n');
    }
    out
}

fn inside_only_line(page: &str, line: &str) -> String {
    let is_inside = |target: &str| {
        let path = target.split('#').next().unwrap_or_default();
        let is_address = target.contains("://");
        is_address
            || resolved(page, path).is_some_and(|path| {
                !NO_PAGES.iter().any(|start| path.starts_with(start))
                    && (path.ends_with(".md") || path.starts_with("pictures/"))
            })
    };
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let (target, behind) = after.split_once(')').unwrap_or((after, ""));
        match before.rfind('[').filter(|_| !is_inside(target)) {
            Some(open) => {
                out.push_str(&before[..open]);
                out.push_str(&before[open + 1..]);
            }
            None => {
                out.push_str(before);
                out.push_str("](");
                out.push_str(target);
                out.push(')');
            }
        }
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(pages: &[(&str, &str)]) -> Pages {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        pages.iter().map(owned).collect()
    }

    #[test]
    fn the_documents_of_this_repository_are_listed_and_linked() {
        assert_eq!(check(&pages().unwrap()), Ok(()));
    }

    #[test]
    fn a_page_that_is_not_listed_and_a_listed_one_without_a_file_are_complaints() {
        let complaints = orphans(&book(&[
            (SUMMARY, "- [A](a.md)\n- [Gone](gone.md)\n"),
            ("a.md", ""),
            ("how-to/b.md", ""),
            ("decisions/c.md", ""),
        ]));
        assert_eq!(
            complaints,
            [
                "docs/how-to/b.md is not listed: add `- [Title](how-to/b.md)` to docs/SUMMARY.md",
                "docs/SUMMARY.md lists gone.md, which does not exist"
            ]
        );
    }

    #[test]
    fn a_link_leads_to_a_page_and_to_a_heading_of_it() {
        let complaints = broken_links(&book(&[
            (
                "a.md",
                "# One, two\n[b](how-to/b.md#the-way)\n[c](c.md) [out](../README.md)\n",
            ),
            (
                "how-to/b.md",
                "## The way\n[up](../a.md#one-two) [bad](../a.md#three)\n",
            ),
        ]));
        assert_eq!(
            complaints,
            [
                "docs/a.md:3: there is no page docs/c.md",
                "docs/how-to/b.md:2: docs/a.md has no heading `#three`"
            ]
        );
    }

    #[test]
    fn links_that_leave_the_site_are_text_in_it() {
        let text = "see [the map](../ARCHITECTURE.md), [why](decisions/x.md) and [a](a.md#b)\n\
                    ![p](pictures/p.png) [w](https://e.org)\n```\n[x](../y)\n```\n";
        assert_eq!(
            inside_only("index.md", text),
            "see the map, why and [a](a.md#b)\n![p](pictures/p.png) [w](https://e.org)\n\
             ```\n[x](../y)\n```\n"
        );
    }
}
