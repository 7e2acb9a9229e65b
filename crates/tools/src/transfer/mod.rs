//! Import and export of items.
