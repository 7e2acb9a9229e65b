//! A server of the Orrery database, for a program that runs one in its process.
//!
//! The program describes the server in a [`config::ServerConfig`] and calls [`run`], which returns
//! when the server has stopped. The program decides how the options are read, what is printed when
//! the server is ready ([`Announcement`]), and when the server stops.

mod account;
pub mod address;
mod admin;
mod announcement;
mod background;
pub mod certificate;
mod client_port;
pub mod clusters;
pub mod config;
mod context;
pub mod data_dir;
mod definition;
pub mod descriptors;
pub mod engine;
mod entra;
mod failure;
mod forwarding;
mod gateway_options;
mod grants;
mod health;
mod hosts;
mod key_reloader;
mod key_users;
pub mod keys;
mod library_log;
mod members;
mod memory;
mod node;
pub mod notify;
mod observers;
mod opening;
pub mod pfx;
pub mod private_file;
mod public_file;
mod public_paths;
mod reader;
mod start;
mod telemetry;
mod tls;
mod world;
mod write_watch;

pub use admin::AdminServer;
pub use announcement::Announcement;
pub use failure::Failure;
pub use memory::MemoryLimit;
pub use start::run;
pub use world::SystemWorld;
