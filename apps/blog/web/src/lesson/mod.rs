//! The lesson of the application: `/compare`, `/lesson` and the lab.
//!
//! ```text
//! pages, lab_pages              handlers, one for each route
//!   │
//! comparison   chapters         the parts of pages, rendered without the frame
//!              ├── opening      the picture at the beginning
//!              ├── story        figures of the article and of the last comparison
//!              ├── mix          the calculator
//!              ├── laboratory   the lab
//!              ├── small_blog   pictures of the lab's small blog
//!              ├── questions    the five questions
//!              └── trials       experiments that answer at once, each with its picture
//! parts                         an item, a query, a script, the frame of a picture
//! pictures, figures             numbers as SVG and as text
//! ```
//!
//! A part that changes by itself or with a form has an id, and scripts take the element with this
//! id from an answer. Without scripts the same pages have links and buttons.

mod chapters;
mod comparison;
mod figures;
mod lab_pages;
mod laboratory;
mod mix;
mod opening;
mod pages;
mod parts;
mod pictures;
mod questions;
#[cfg(test)]
mod samples;
mod small_blog;
mod story;
mod trials;

pub(crate) use pages::router;
pub(crate) use questions::Answers;
pub(crate) use trials::Running;
