//! A server of the Orrery database, for a program that runs one in its process.
//!
//! The program describes the server in a [`config::ServerConfig`] and calls [`run`], which returns
//! when the server has stopped. The program reads the options, tells its user when the server is
//! ready ([`Announcement`]), and decides when the server stops. `orrery` is such a program: its
//! command line is the crate `orrery-cli`.
//!
//! Promises:
//! 1. Every write that a client was told of is durable when [`run`] returns without a failure.
//! 2. Nothing is written to standard output or read from standard input; the log goes to standard
//!    error.
//! 3. A wrong configuration ends the start before any file is created, as far as that can be known
//!    without the files.
//! 4. The process keeps three settings of a server: new files belong to their owner alone, SIGHUP
//!    reads the account keys again, and warnings of the libraries of the store are logged.
//!
//! Left out: the command line, its defaults and the settings file; the allocator of the program
//! ([`config::ServerConfig::memory_bytes`] is the limit to keep it within); other signals. Messages
//! name the options of `orrery`, because most operators have that program.
//!
//! ```text
//! config         settings of a server, which every other part reads
//! start          life of a server: run; uses
//!   context        parts that exist before the data is open: memory, descriptors, data_dir, world
//!   opening        opening of the data, at once or after the wait for a lease; uses
//!     engine         engine on its store
//!     gateway_options   options of the gateway: account, keys, entra, hosts
//!   observers      those who learn the state: admin (management API), health (probes),
//!                  announcement (for the program)
//!   client_port    port for clients: address (listening), tls, public_paths
//!   definition     databases, containers and items that exist when the server is ready
//!   background, write_watch   periodic tasks
//!   continuous_backup   copying of the log of the store at an interval
//!   telemetry      export by OpenTelemetry
//!   key_reloader   account keys at SIGHUP, for all key_users
//! certificate, pfx   self-signed certificate, PFX files
//! private_file, public_file   files for their owner, and for all users
//! library_log    lines that libraries log
//! notify         messages to systemd
//! failure        failures of all these parts
//!
//! fleet_node     node of a fleet in this server, by `orrery-node`
//! console_data   way of the console to the data of other nodes
//! ```

mod account;
pub mod address;
mod admin;
mod announcement;
mod background;
pub mod certificate;
mod client_port;
pub mod config;
mod console_data;
mod context;
mod continuous_backup;
pub mod data_dir;
mod definition;
pub mod descriptors;
pub mod engine;
mod entra;
mod failure;
mod fleet_node;
mod gateway_options;
mod health;
mod hosts;
mod key_reloader;
mod key_users;
pub mod keys;
mod library_log;
mod memory;
pub mod moved;
pub mod notify;
mod observers;
mod opening;
pub mod pfx;
pub mod private_file;
mod public_file;
mod public_paths;
mod start;
mod telemetry;
mod tls;
mod world;
mod world_as_of;
mod write_watch;

pub use admin::AdminServer;
pub use announcement::Announcement;
pub use failure::Failure;
pub use memory::MemoryLimit;
pub use start::run;
pub use world::SystemWorld;
