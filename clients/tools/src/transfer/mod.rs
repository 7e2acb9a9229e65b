//! Import and export of items.
//!
//! ```text
//! import     run of an import        feed ── input ── json_values, csv_rows   files, stdin
//!   send     bulk requests             │                            └── csv_text
//!   pace     speed                     └── origin                              another container
//!   ending   words of an early end   item     records become items
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
mod origin;
mod pace;
mod progress;
mod router;
mod rows;
mod send;

pub use ending::Ended;
pub use export::{ExportOptions, ExportSummary, export};
pub use import::{ImportOptions, Mode, NewContainer, Summary, TransferError, import};
pub use input::{CsvRules, InputFormat};
pub use ledger::Counts;
pub use progress::{Progress, Quiet, State, on_stderr};
pub use rows::OutputFormat;
