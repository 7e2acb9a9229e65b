//! The data tools of the program `orrery`: they use any endpoint of the protocol, this server's or
//! another, through `orrery-client`.
//!
//! ```text
//! transfer     orrery import, orrery export
//! definition   orrery init, orrery start --init, orrery dump
//! copy         orrery restore --into: parts of one account in another
//! query        orrery query
//! shell        orrery shell
//! form, table  rows as a table, JSON or CSV
//! fault        failures in words
//! raw          objects whose values keep their text
//! mcp          orrery mcp
//! manage       orrery clusters, orrery partitions
//! doctor       orrery doctor
//! ports        the program that holds a port
//! connection   client and runtime of a tool
//! ```
//!
//! The crate knows nothing of command lines: the program parses options and calls the tools.

pub mod connection;
pub mod copy;
pub mod definition;
pub mod doctor;
pub mod fault;
pub mod form;
pub mod manage;
pub mod mcp;
pub mod ports;
pub mod query;
mod raw;
pub mod shell;
pub mod table;
pub mod transfer;
