//! One request to the console.
//!
//! ```text
//! place    the part of the console that a path names
//! handle   guard, then one of:
//!   page     index.html, with a new nonce and the content security policy; the one-time address
//!   file     a built file
//!   session  who is signed in; sign-in; sign-out
//!   pass     a request for the management API or the database, after the checks of its session
//! ```

use crate::files::Files;
use crate::guard::{self, TOKEN_HEADER};
use crate::refusal::Refusal;
use crate::remote::RemoteDatabase;
use crate::reply::{complete, json, redirect};
use crate::service::Base;
use crate::sessions::{Sessions, is_equal};
use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, Uri};
use orrery_admin::Admin;
use orrery_gateway::{
    Connection, Gateway, Hosts, RequestBody, Service, TrustedAccess, Unanswered, body,
};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The abilities of people who are signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// They may read and change everything.
    Full,
    /// They may read everything and change nothing.
    ReadOnly,
}

/// Options of the console.
pub struct Options {
    /// The management API, which also checks the keys.
    pub admin: Arc<Admin>,
    /// The abilities of people who are signed in.
    pub access: Access,
    /// True if browsers are signed in without a key. Only for a server whose account key is known
    /// to all; the checks of host, origin and token stay.
    pub open: bool,
    /// Host names that the console answers for.
    pub hosts: Hosts,
    /// Directory with built files in place of the embedded ones.
    pub files: Option<PathBuf>,
    /// Version of the program.
    pub version: &'static str,
}

/// The database of a server whose data is open.
pub struct Database {
    /// The gateway that answers requests of the protocol.
    pub gateway: Arc<Gateway>,
    /// URL of the port for clients.
    pub endpoint: String,
    /// True if a key of the account is the well-known key of the emulator, which is no secret.
    pub has_well_known_key: bool,
}

/// A blog of this program whose data is in the database.
#[derive(Clone, Debug)]
pub struct LinkedBlog {
    /// Address of the blog, with a slash at its end.
    pub address: String,
    /// The databases of its models are `{prefix}-v1`, `{prefix}-v2` and `{prefix}-v3`.
    pub prefix: String,
}

/// The console of a server.
pub struct Console {
    pub(crate) admin: Arc<Admin>,
    pub(crate) access: Access,
    pub(crate) open: bool,
    hosts: Hosts,
    pub(crate) files: Files,
    pub(crate) version: &'static str,
    pub(crate) sessions: Sessions,
    pub(crate) database: OnceLock<Database>,
    /// Used until this server's own data is open.
    pub(crate) remote: OnceLock<RemoteDatabase>,
    pub(crate) blog: OnceLock<LinkedBlog>,
}

/// The part of the console that a path names.
pub(crate) enum ConsolePath {
    /// The path without its last slash.
    Redirect,
    /// The page.
    Page,
    /// A built file with this name.
    File(String),
    /// The session.
    Session,
    /// The management API, with a path that begins with a slash.
    Manage(String),
    /// The database, with a path that begins with a slash.
    Data(String),
    /// Nothing.
    Unknown,
}

impl Console {
    /// Creates the console of a server whose data is not yet open.
    pub fn new(options: Options) -> Self {
        Console {
            admin: options.admin,
            access: options.access,
            open: options.open,
            hosts: options.hosts,
            files: Files {
                directory: options.files,
            },
            version: options.version,
            sessions: Sessions::default(),
            database: OnceLock::new(),
            remote: OnceLock::new(),
            blog: OnceLock::new(),
        }
    }

    /// Announces that the data is open; from now on requests for the database are answered.
    pub fn begin_serving(&self, database: Database) {
        // A server opens its data once.
        let _ = self.database.set(database);
    }

    /// Announces that another node holds the lease of the account; from now on requests for the
    /// database go that way until this node's own data is open.
    pub fn begin_forwarding(&self, remote: RemoteDatabase) {
        // A node forwards in one way.
        let _ = self.remote.set(remote);
    }

    /// Announces a blog, to whose posts and users the console links from their items.
    pub fn link_blog(&self, blog: LinkedBlog) {
        // A process serves one blog.
        let _ = self.blog.set(blog);
    }

    /// Returns a token that signs one browser in, as `?token=…` after the address of the console;
    /// `None` if the system has no random numbers.
    pub fn one_time_token(&self) -> Option<String> {
        self.sessions.new_one_time_token().ok()
    }

    /// Returns the part of the console that the path `below` its base names; `None` if the path
    /// belongs to the other service of the port.
    pub(crate) fn place(&self, below: &str, base: Base) -> Option<ConsolePath> {
        if below.starts_with('/') {
            return Some(match base {
                Base::Explorer => ConsolePath::Redirect,
                Base::Root => return None,
            });
        }
        match below {
            "" | "index.html" => return Some(ConsolePath::Page),
            "api/session" => return Some(ConsolePath::Session),
            _ => {}
        }
        if let Some(path) = below.strip_prefix("api/manage/") {
            return Some(ConsolePath::Manage(format!("/{path}")));
        }
        if let Some(path) = below.strip_prefix("api/data/") {
            return Some(ConsolePath::Data(format!("/{path}")));
        }
        let name = below.strip_prefix("assets/").unwrap_or(below);
        if self.files.find(name, &HeaderMap::new()).is_some() {
            return Some(ConsolePath::File(name.to_owned()));
        }
        (base == Base::Explorer).then_some(ConsolePath::Unknown)
    }

    /// Answers a request.
    ///
    /// # Errors
    /// A fault rule demands that the connection is closed without a reply.
    pub(crate) async fn handle(
        &self,
        place: ConsolePath,
        request: Request<RequestBody>,
        connection: &Connection,
        base: Base,
    ) -> Result<Response<Bytes>, Unanswered> {
        let is_head = request.method() == Method::HEAD;
        let mut response = match self.answer(place, request, connection, base).await {
            Ok(Ok(response)) => response,
            Ok(Err(unanswered)) => return Err(unanswered),
            Err(refusal) => json(refusal.status, refusal.to_body()),
        };
        complete(&mut response);
        if is_head {
            *response.body_mut() = Bytes::new();
        }
        Ok(response)
    }

    async fn answer(
        &self,
        place: ConsolePath,
        request: Request<RequestBody>,
        connection: &Connection,
        base: Base,
    ) -> Result<Result<Response<Bytes>, Unanswered>, Refusal> {
        let (head, body) = request.into_parts();
        let checked = self.check(&place, &head, connection);
        if let Err(refusal) = checked {
            // A client that is still sending would see a broken connection instead of the response
            // if the body were not read.
            body::discard(body).await;
            return Err(refusal);
        }
        let response = match place {
            ConsolePath::Redirect => redirect(base, ""),
            ConsolePath::Page => self.page(&head, connection, base)?,
            ConsolePath::File(name) => self.file(&name, &head)?,
            ConsolePath::Session => self.session(&head, body, connection, base).await?,
            ConsolePath::Manage(path) => {
                let request = passed_on(head, body, &path)?;
                return Ok(self.admin.handle_trusted(request, connection).await);
            }
            ConsolePath::Data(path) => {
                let request = passed_on(head, body, &path)?;
                return self.pass_to_data(request, connection).await;
            }
            ConsolePath::Unknown => return Err(Refusal::not_found()),
        };
        Ok(Ok(response))
    }

    /// Passes a request to the database of this server, or to that of the node that can answer.
    ///
    /// # Errors
    /// 503 if neither is known yet.
    async fn pass_to_data(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Result<Response<Bytes>, Unanswered>, Refusal> {
        if let Some(database) = self.database.get() {
            let access = match self.access {
                Access::Full => TrustedAccess::Full,
                Access::ReadOnly => TrustedAccess::ReadOnly,
            };
            let gateway = &database.gateway;
            return Ok(gateway.handle_trusted(request, connection, access).await);
        }
        let remote = self.remote.get();
        let remote = remote
            .ok_or_else(|| Refusal::new(503, "Recovering", "the server is opening its data"))?;
        let answer = remote.gateway.send(request, connection, self.access);
        Ok(answer.await)
    }

    /// Checks everything that can be checked before the body is read: host, method, origin, session
    /// and token.
    fn check(
        &self,
        place: &ConsolePath,
        head: &Parts,
        connection: &Connection,
    ) -> Result<(), Refusal> {
        let host = guard::check_host(head, &self.hosts)?;
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        match place {
            ConsolePath::Unknown => Ok(()),
            ConsolePath::Redirect | ConsolePath::Page | ConsolePath::File(_) if is_read => Ok(()),
            ConsolePath::Redirect | ConsolePath::Page | ConsolePath::File(_) => Err(Refusal::new(
                405,
                "MethodNotAllowed",
                "this page can only be read",
            )),
            ConsolePath::Session => guard::check_origin(head, host, connection),
            ConsolePath::Manage(_) | ConsolePath::Data(_) => {
                guard::check_origin(head, host, connection)?;
                self.check_session(head, connection)?;
                self.check_access(place, head)
            }
        }
    }

    /// Checks that a request for the management API changes nothing if the console is read-only.
    /// The gateway checks requests for the database by the rights of their caller.
    ///
    /// # Errors
    /// 403 for a request that may change something.
    fn check_access(&self, place: &ConsolePath, head: &Parts) -> Result<(), Refusal> {
        let ConsolePath::Manage(path) = place else {
            return Ok(());
        };
        if self.access == Access::Full || self.admin.only_reads(head.method.as_str(), path) {
            return Ok(());
        }
        let message = "the console of this server is read-only";
        Err(Refusal::new(403, "ReadOnly", message))
    }

    /// Checks the session of a request and its token.
    ///
    /// # Errors
    /// 401 without a session, 403 without the token of the session.
    pub(crate) fn check_session(
        &self,
        head: &Parts,
        connection: &Connection,
    ) -> Result<(), Refusal> {
        let (_, token) = self
            .signed_in(head, connection)
            .ok_or_else(Refusal::sign_in_required)?;
        let sent = head.headers.get(TOKEN_HEADER);
        let sent = sent.and_then(|value| value.to_str().ok());
        if sent.is_some_and(|sent| is_equal(sent, &token)) {
            return Ok(());
        }
        let message = format!(
            "the header '{TOKEN_HEADER}' does not have the token of the session; load the page \
             again"
        );
        Err(Refusal::new(403, "WrongToken", message))
    }

    /// Returns the current time, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        Service::now_ms(&*self.admin)
    }
}

/// Returns the request that an interface gets: with the path below the console's, and without the
/// headers that are the console's own.
///
/// # Errors
/// 400 if the path is not valid.
fn passed_on(
    mut head: Parts,
    body: RequestBody,
    path: &str,
) -> Result<Request<RequestBody>, Refusal> {
    let path = match head.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut uri = head.uri.into_parts();
    let invalid = || Refusal::new(400, "BadRequest", "the path is not valid");
    uri.path_and_query = Some(path.parse().map_err(|_| invalid())?);
    head.uri = Uri::from_parts(uri).map_err(|_| invalid())?;
    for name in [AUTHORIZATION, COOKIE, ORIGIN] {
        head.headers.remove(name);
    }
    head.headers.remove(TOKEN_HEADER);
    Ok(Request::from_parts(head, body))
}
