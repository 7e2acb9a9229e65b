//! The code of a script with numbered lines, of which some can carry the number of a step.

use super::{escaped, rendered};
use askama::Template;

/// A script that the database runs.
pub(crate) struct Script<'a> {
    name: &'a str,
    source: &'a str,
    /// The step of each line that begins with a text, see [`Script::step`].
    steps: Vec<(&'a str, usize)>,
    is_open: bool,
}

#[derive(Template)]
#[template(path = "lesson/parts/script.html")]
struct View<'a> {
    name: &'a str,
    is_open: bool,
    lines: Vec<Line>,
    count: usize,
}

struct Line {
    /// Markup.
    text: String,
    is_comment: bool,
    step: Option<usize>,
}

impl<'a> Script<'a> {
    /// Returns the script `name` with its source, folded up.
    pub(crate) fn new(name: &'a str, source: &'a str) -> Self {
        Self {
            name,
            source,
            steps: Vec::new(),
            is_open: false,
        }
    }

    /// Shows the code without a click.
    pub(crate) fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Says that the lines that contain `text` belong to a step: the picture of the steps marks
    /// them.
    pub(crate) fn step(mut self, text: &'a str, step: usize) -> Self {
        self.steps.push((text, step));
        self
    }

    /// Returns the markup.
    pub(crate) fn html(&self) -> String {
        let mut lines = Vec::new();
        for line in self.source.lines() {
            let step = self.steps.iter().find(|(text, _)| line.contains(text));
            lines.push(Line {
                text: escaped(line),
                is_comment: line.trim_start().starts_with("//"),
                step: step.map(|(_, step)| *step),
            });
        }
        rendered(&View {
            name: self.name,
            is_open: self.is_open,
            count: lines.len(),
            lines,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_blog::lesson::scripts;

    #[test]
    fn the_lines_of_a_step_carry_its_number() {
        let html = Script::new("createComment", scripts::CREATE_COMMENT)
            .step("readDocument", 1)
            .step("commentCount++", 2)
            .html();
        assert!(html.contains("data-step=\"1\"") && html.contains("data-step=\"2\""));
        assert!(html.contains("&#39;deletedPost&#39;"), "{html}");
    }
}
