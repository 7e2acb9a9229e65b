//! Import and export of items.
//!
//! ```text
//! import     run of an import        feed ── input ── json_values, csv_rows   files, stdin
//!   send     bulk requests             │                            └── csv_text
//!   pace     speed                     └── origin                              another container
//!   ending   early ends, in words    item     records become items
//!   router   ranges                  ledger   counts, refused items, checkpoint
//! export     run of an export: segments of each physical partition, then one file
//!   rows     rows as JSON lines, JSON, CSV
//! progress   lines and bars
//! ```

mod csv_rows;
mod csv_text;
mod ending;
mod export;
mod feed;
mod import;
mod input;
mod item;
mod json_values;
mod ledger;
mod options;
mod origin;
mod pace;
mod progress;
mod router;
mod rows;
mod send;

pub use ending::{Ended, TransferError};
pub use export::{ExportOptions, ExportSummary, export};
pub use import::{Summary, import};
pub use input::{CsvRules, InputFormat};
pub use ledger::Counts;
pub use options::{ImportOptions, Mode, NewContainer};
pub use progress::{Progress, Quiet, State, on_stderr};
pub use rows::OutputFormat;
