//! The lesson of the application: `/compare`, `/lesson` and the lab.
mod chapters;
mod comparison;
mod figures;
mod laboratory;
mod mix;
mod pictures;
#[cfg(test)]
mod samples;
mod story;
