//! The style sheets and scripts of the blog and the console: their types, and their built files.
//!
//! The sources are in `web/`. The built files are committed in `apps/blog/web/dist` and
//! `operator/console/dist`, so that building the program needs no Node.js.
//!
//! Promises: `check` fails unless the committed files are what the sources give.
//! Leaves out: the pages in a browser; `conformance blog` and `conformance console` test them.

use crate::run::{Outcome, must, program, root};
use crate::sdk_tools::node_modules;

/// Runs `web [--write]`: checks the types, then compares or writes the built files.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => build(&["--check"]),
        ["--write"] => build(&[]),
        _ => Err(format!(
            "web takes `--write` or nothing, not `{}`",
            arguments.join(" ")
        )),
    }
}

/// Checks the types of the scripts and that the committed files are what the sources give.
pub(crate) fn check() -> Outcome {
    run(&[])
}

fn build(arguments: &[&str]) -> Outcome {
    let web = root().join("web");
    node_modules(&web)?;
    must(program("npm", &web).args(["run", "--silent", "check"]))?;
    must(program("npm", &web).args(["run", "--silent", "test"]))?;
    must(program("node", &web).arg("build.mjs").args(arguments))
        .map_err(|error| format!("{error}; `cargo xtask web --write` writes the built files"))
}

/// Returns the help text of the command.
pub(crate) fn help() -> String {
    "Without arguments, checks the types of the scripts in web/ and that apps/blog/web/dist and\n\
     operator/console/dist are what the sources give. With --write, writes these files.\n"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_argument_is_refused() {
        let refusal = run(&["--fast".to_owned()]).unwrap_err();
        assert!(refusal.contains("`--fast`"), "{refusal}");
    }
}
