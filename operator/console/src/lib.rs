//! The console: pages in a browser that show the database and change it.
//!
//! ```text
//! service   puts the console before another service of a port, below a base path
//! console   one request: the place that its path names, the checks, the interface
//! page      the page that loads all others, and the built files
//! session   who is signed in, sign-in, sign-out
//! guard     checks of the host, the origin and the token against forged requests
//! sessions  sign-in by admin key or one-time address, and the sessions of signed-in browsers
//! files     the built pages, embedded or from a directory
//! remote    the database of a node that does not hold the lease of its account
//! reply     responses and the headers that they have in common
//! refusal   error responses
//! ```
//!
//! The pages are in `web/console`; their built files are in `dist`. The browser uses the server's
//! own interfaces below `api/`: the management API and the protocol of the database. The console
//! identifies the person and passes the request on; it holds no data of its own except sessions.
//!
//! Promises:
//! - Without a session no request reaches an interface, and no answer has data.
//! - A request from a page of another origin, or for a host name that is not the server's, is
//!   refused before its session is looked at.
//! - No key is in an address, in a page, or in an answer.
//!
//! Left out: users and roles. A person who has an admin key may do everything, or read everything
//! if the console is read-only.

mod console;
mod files;
mod guard;
mod page;
mod refusal;
mod remote;
mod reply;
mod service;
mod session;
mod sessions;

pub use console::{Access, Console, Database, LinkedBlog, Options};
pub use remote::{RemoteAnswer, RemoteDatabase, RemoteGateway};
pub use service::{Base, WithConsole};
