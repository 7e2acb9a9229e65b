//! The lesson of the application: `/compare`, `/lesson` and the lab.
//!
//! ```text
//! pages                         handlers, one for each route
//!   │
//! comparison   chapters         the parts of pages, rendered without the frame
//!              ├── opening      the picture at the beginning
//!              ├── story        figures of the article and of the last comparison
//!              ├── mix          the calculator
//!              ├── laboratory   the lab
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
mod laboratory;
mod mix;
mod opening;
mod pages;
mod parts;
mod pictures;
#[cfg(test)]
mod samples;
mod story;
mod trials;

pub(crate) use pages::router;
pub(crate) use trials::Running;
