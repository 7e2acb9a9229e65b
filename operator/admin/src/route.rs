//! The type of a route: its method, path, request, response and handler.
//!
//! This file knows no handler; [`crate::routes`] lists all routes with their handlers. A route is
//! built from a method and then refined:
//!
//! ```text
//! put("/clock", "moveClock", Serving(clock::set))
//!     .summary("Moves the time of the data forward.")
//!     .takes(&clock::OFFSET)         body; without this line a body is refused
//!     .returns(&clock::CLOCK)        200 with this body; the default is 204 without a body
//! ```
//!
//! A path is a list of segments; a segment in braces is a parameter and matches any non-empty text.
//! Two different paths of the table must not match the same request.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::Schema;
use crate::stage::{self, Stage};
use orrery_engine::Cancel;
use orrery_model::Object;
use std::sync::Arc;

/// A method on a path.
pub(crate) struct Route {
    /// HTTP method.
    pub(crate) method: &'static str,
    /// Path; a segment in braces is a parameter.
    pub(crate) path: &'static str,
    /// An older path that is still accepted and not described.
    pub(crate) former_path: Option<&'static str>,
    /// Name of the operation in the OpenAPI description.
    pub(crate) operation_id: &'static str,
    /// Description of the operation in a sentence.
    pub(crate) summary: &'static str,
    /// True if requests need no admin key.
    pub(crate) is_public: bool,
    /// True if requests change nothing.
    pub(crate) only_reads: bool,
    /// True if requests may keep a core busy for seconds.
    pub(crate) is_measurement: bool,
    /// Query parameters.
    pub(crate) query: &'static Schema,
    /// Request body; requests with a body are refused if there is none.
    pub(crate) body: Option<&'static Schema>,
    /// Status of a successful response.
    pub(crate) status: u16,
    /// Body of a successful response.
    pub(crate) response: ResponseBody,
    /// Function that carries out the request.
    pub(crate) handler: Handler,
}

/// The body of a successful response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResponseBody {
    /// No body.
    None,
    /// A JSON object of this schema.
    Json(&'static Schema),
    /// The OpenAPI description.
    OpenApi,
    /// Plain text.
    Text,
}

/// The function behind a route.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// A function for every stage of the server, including the one before the data is open.
    AnyStage(fn(Stage) -> Result<Answer, Problem>),
    /// A function that needs the data; requests get 503 until the data is open.
    Serving(fn(&Call) -> Result<Answer, Problem>),
    /// A function that needs the data of this node: a node without the lease of the account answers
    /// about the partitions that it owns.
    EachNode(fn(&Call) -> Result<Answer, Problem>),
}

impl Handler {
    /// Returns true if a node that forwards requests has not what the handler needs, and the
    /// leaseholder has.
    pub(crate) fn is_of_leaseholder(self) -> bool {
        matches!(self, Handler::Serving(_))
    }

    /// Carries out a request whose parameters and body have been checked.
    pub(crate) fn run(
        self,
        stage: Stage,
        path_parameters: Vec<String>,
        arguments: Object,
        cancel: Arc<Cancel>,
    ) -> Result<Answer, Problem> {
        match (self, stage) {
            (Handler::AnyStage(handler), stage) => handler(stage),
            (
                Handler::Serving(handler) | Handler::EachNode(handler),
                Stage::Serving(components) | Stage::Draining(components),
            )
            | (Handler::EachNode(handler), Stage::Forwarding(_, Some(components))) => {
                handler(&Call {
                    components,
                    path_parameters,
                    cancel,
                    arguments,
                })
            }
            (_, Stage::Recovering) => Err(stage::recovering()),
            (_, Stage::Forwarding(fleet, _)) => Err(stage::forwarding(fleet.as_ref())),
        }
    }
}

const NO_QUERY: &Schema = &Schema {
    name: "NoQuery",
    members: &[],
};

/// Creates a GET route.
pub(crate) const fn get(path: &'static str, operation_id: &'static str, handler: Handler) -> Route {
    Route::new("GET", path, operation_id, handler).only_reads()
}

/// Creates a POST route.
pub(crate) const fn post(
    path: &'static str,
    operation_id: &'static str,
    handler: Handler,
) -> Route {
    Route::new("POST", path, operation_id, handler)
}

/// Creates a PUT route.
pub(crate) const fn put(path: &'static str, operation_id: &'static str, handler: Handler) -> Route {
    Route::new("PUT", path, operation_id, handler)
}

/// Creates a DELETE route.
pub(crate) const fn delete(
    path: &'static str,
    operation_id: &'static str,
    handler: Handler,
) -> Route {
    Route::new("DELETE", path, operation_id, handler)
}

impl Route {
    /// Creates a route that needs an admin key, takes nothing and returns 204 without a body.
    const fn new(
        method: &'static str,
        path: &'static str,
        operation_id: &'static str,
        handler: Handler,
    ) -> Self {
        Route {
            method,
            path,
            former_path: None,
            operation_id,
            summary: "",
            is_public: false,
            only_reads: false,
            is_measurement: false,
            query: NO_QUERY,
            body: None,
            status: 204,
            response: ResponseBody::None,
            handler,
        }
    }

    /// Sets the summary.
    pub(crate) const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// Accepts the path that the route had before as well.
    pub(crate) const fn formerly(mut self, path: &'static str) -> Self {
        self.former_path = Some(path);
        self
    }

    /// Lets requests through without an admin key.
    pub(crate) const fn without_key(mut self) -> Self {
        self.is_public = true;
        self
    }

    /// Marks the route as one whose requests change nothing.
    pub(crate) const fn only_reads(mut self) -> Self {
        self.only_reads = true;
        self
    }

    /// Marks the route as one whose requests measure on copies: they change nothing and may keep a
    /// core busy for seconds.
    pub(crate) const fn measures(mut self) -> Self {
        self.is_measurement = true;
        self.only_reads()
    }

    /// Accepts query parameters.
    pub(crate) const fn query(mut self, query: &'static Schema) -> Self {
        self.query = query;
        self
    }

    /// Accepts a request body.
    pub(crate) const fn takes(mut self, body: &'static Schema) -> Self {
        self.body = Some(body);
        self
    }

    /// Returns 200 with a JSON body.
    pub(crate) const fn returns(self, schema: &'static Schema) -> Self {
        self.responds(200, ResponseBody::Json(schema))
    }

    /// Returns 201 with the created object.
    pub(crate) const fn creates(self, schema: &'static Schema) -> Self {
        self.responds(201, ResponseBody::Json(schema))
    }

    /// Returns 202 with a description of work that goes on after the response.
    pub(crate) const fn starts(self, schema: &'static Schema) -> Self {
        self.responds(202, ResponseBody::Json(schema))
    }

    /// Returns this status and body.
    pub(crate) const fn responds(mut self, status: u16, response: ResponseBody) -> Self {
        self.status = status;
        self.response = response;
        self
    }

    /// Returns the values of the path parameters if `segments` is the path of this route, or its
    /// former path.
    pub(crate) fn match_path(&self, segments: &[String]) -> Option<Vec<String>> {
        let former = || match_segments(self.former_path?, segments);
        match_segments(self.path, segments).or_else(former)
    }

    /// Returns the names of the path parameters.
    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path
            .split('/')
            .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// Returns the values of the path parameters if `segments` has the form of `path`.
fn match_segments(path: &str, segments: &[String]) -> Option<Vec<String>> {
    let pattern: Vec<&str> = path.trim_matches('/').split('/').collect();
    if pattern.len() != segments.len() {
        return None;
    }

    let mut parameters = Vec::new();
    for (expected, segment) in pattern.iter().zip(segments) {
        let is_parameter = expected.starts_with('{');
        if is_parameter && !segment.is_empty() {
            parameters.push(segment.clone());
        } else if is_parameter || expected != segment {
            return None;
        }
    }
    Some(parameters)
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
