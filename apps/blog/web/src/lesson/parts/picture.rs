//! The frame of a picture: title, description, the drawing, and the same as a table.

use super::rendered;
use askama::Template;

/// The table beside a picture. The first column names the rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A picture with its words and its table.
#[derive(Template)]
#[template(path = "lesson/parts/picture.html")]
pub(crate) struct Picture<'a> {
    /// The kind of the picture: the module of `web/blog/pictures` that moves it has this name.
    pub(crate) kind: &'a str,
    pub(crate) title: String,
    /// The picture in one or two sentences, for those who do not see it.
    pub(crate) description: String,
    /// The drawing: markup of this program, mostly SVG.
    pub(crate) drawing: String,
    pub(crate) table: Table,
}

impl Table {
    /// Returns a table without rows.
    pub(crate) fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: &[&str]) {
        self.rows
            .push(cells.iter().map(|cell| (*cell).to_owned()).collect());
    }
}

impl Picture<'_> {
    /// Returns the markup.
    pub(crate) fn html(&self) -> String {
        rendered(self)
    }
}
