//! `cargo xtask pictures`: makes the pictures of README and documentation from a running server.
//!
//! `conformance/pages/console/pictures.js` takes the pages of the blog and its console; the walk
//! through the tutorial takes the pages of the tutorial. Beside the pictures stands a file with the
//! names of the scripts and style sheets of the pages, so that `tidy` warns of old pictures.
//!
//! Promises: a page without its content fails the command.
//! Leaves out: a comparison of pictures, since figures in them depend on times.

use std::collections::BTreeMap;
use std::fs;

use crate::run::{Outcome, must, program, root};
use crate::sdk_tools::{PROGRAM_VARIABLE, node_modules, read, server};

/// The directory of the pictures, from the root of the repository.
const DIRECTORY: &str = "docs/pictures";
/// The file with the state of the pages of which the pictures were made.
const STATE_FILE: &str = "docs/pictures/made-from.txt";
/// The lists of the built files of both applications; each file's name has a hash of its content.
const MANIFESTS: &[&str] = &[
    "apps/blog/web/dist/manifest.json",
    "operator/console/dist/manifest.json",
];
/// The variable that names the directory for the pictures of the tutorial.
const TUTORIAL_VARIABLE: &str = "ORRERY_PICTURES";

/// Runs `pictures`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(argument) = arguments.first() {
        return Err(format!("pictures takes no arguments, not `{argument}`"));
    }
    let suite = root().join("conformance/pages/console");
    node_modules(&suite)?;
    let directory = root().join(DIRECTORY);
    let server = server()?;
    let mut pages = program("node", &suite);
    must(
        pages
            .arg("pictures.js")
            .arg(&directory)
            .env(PROGRAM_VARIABLE, &server),
    )?;
    let mut tutorial = program("node", &suite);
    must(
        tutorial
            .args(["--test", "tests/tutorial.test.js"])
            .env(TUTORIAL_VARIABLE, &directory)
            .env(PROGRAM_VARIABLE, &server),
    )?;
    let mut lists = BTreeMap::new();
    for manifest in MANIFESTS {
        lists.insert(*manifest, read(&root().join(manifest))?);
    }
    let state = state_of_pages(|name| lists.get(name).map(String::as_str));
    let file = root().join(STATE_FILE);
    let unwritable = |error| format!("cannot write {}: {error}", file.display());
    fs::write(&file, state).map_err(unwritable)
}

/// Returns the help text of the command.
pub(crate) fn help() -> String {
    format!(
        "Starts the blog with its console, opens the pages in Chromium, light and dark, and\n\
         writes the pictures into {DIRECTORY}.\n"
    )
}

/// Returns a sentence if the pages have changed since the pictures were made. `text` returns the
/// content of a file of the repository.
pub(crate) fn warning<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let made_from = text(STATE_FILE).unwrap_or_default();
    let is_new = made_from == state_of_pages(text);
    (!is_new).then(|| {
        format!(
            "the pages have changed since the pictures in {DIRECTORY} were made; \
             `cargo xtask pictures` makes the pictures anew"
        )
    })
}

/// Returns the lists of the built files, which change with each change of a script or style sheet.
fn state_of_pages<'a>(text: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut state = String::new();
    for manifest in MANIFESTS {
        let list = text(manifest).unwrap_or_default().trim();
        state.push_str(&format!("{manifest}\n{list}\n"));
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_other_pages_are_a_warning() {
        let pages = |name: &str| match name {
            STATE_FILE => None,
            _ => Some("{\"blog.js\": \"blog-1.js\"}\n"),
        };
        let state = state_of_pages(pages);
        let with_state = |name: &str| match name {
            STATE_FILE => Some(state.as_str()),
            _ => pages(name),
        };
        assert_eq!(warning(with_state), None);
        let changed = |name: &str| match name {
            STATE_FILE => Some(state.as_str()),
            _ => Some("{\"blog.js\": \"blog-2.js\"}\n"),
        };
        assert!(warning(changed).is_some() && warning(pages).is_some());
    }

    #[test]
    fn an_unknown_argument_is_refused() {
        let refusal = run(&["--fast".to_owned()]).unwrap_err();
        assert!(refusal.contains("`--fast`"), "{refusal}");
    }
}
