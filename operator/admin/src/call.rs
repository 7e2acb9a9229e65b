//! A checked request, as handlers see it, and the response that a handler returns.

use crate::problem::Problem;
use crate::stage::Components;
use orrery_engine::{Cancel, Container, Database, Engine};
use orrery_model::{Json, Object};
use std::sync::Arc;

/// A request that has passed authentication and the checks of its route.
pub(crate) struct Call {
    /// Components of the server.
    pub(crate) components: Arc<Components>,
    /// Values of the path parameters, in the order of the path.
    pub(crate) path_parameters: Vec<String>,
    /// Set when the caller no longer waits, or has waited too long for a measurement.
    pub(crate) cancel: Arc<Cancel>,
    /// Query parameters and body members, checked against the schemas of the route.
    pub(crate) arguments: Object,
}

/// A successful response.
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: u16,
    /// Value of the header `content-type`; empty for a response without a body.
    pub(crate) content_type: &'static str,
    /// Response body.
    pub(crate) body: String,
}

impl Answer {
    /// Creates a response with a JSON body.
    pub(crate) fn json(status: u16, body: impl Into<Json>) -> Result<Answer, Problem> {
        Ok(Answer {
            status,
            content_type: "application/json",
            body: body.into().to_text(),
        })
    }

    /// Creates a 204 response, which has no body.
    pub(crate) fn empty() -> Result<Answer, Problem> {
        Ok(Answer {
            status: 204,
            content_type: "",
            body: String::new(),
        })
    }
}

impl Call {
    /// Returns the engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.components.engine
    }

    /// Returns the path parameter at `index`, counted from 0.
    pub(crate) fn path_parameter(&self, index: usize) -> &str {
        self.path_parameters.get(index).map_or("", String::as_str)
    }

    /// Returns the database that the first path parameter names.
    ///
    /// # Errors
    /// 404 with the id of the database if it does not exist.
    pub(crate) fn database(&self) -> Result<Arc<Database>, Problem> {
        let id = self.path_parameter(0);
        self.engine()
            .database(id.into())
            .map_err(|_| Problem::not_found(format!("there is no database '{id}'")))
    }

    /// Returns the container that the first two path parameters name.
    ///
    /// # Errors
    /// 404 with the id of the database or of the container, whichever does not exist.
    pub(crate) fn container(&self) -> Result<Arc<Container>, Problem> {
        self.database()?;
        let (database, container) = (self.path_parameter(0), self.path_parameter(1));
        self.engine()
            .container(database.into(), container.into())
            .map_err(|_| {
                Problem::not_found(format!(
                    "there is no container '{container}' in the database '{database}'"
                ))
            })
    }

    /// Returns a string argument.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).and_then(Json::as_str)
    }

    /// Returns the elements of an array argument; no elements if the argument is absent.
    pub(crate) fn list(&self, name: &str) -> &[Json] {
        self.arguments
            .get(name)
            .and_then(Json::as_array)
            .unwrap_or_default()
    }

    /// Returns an integer argument.
    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        self.arguments.get(name).and_then(Json::as_i64)
    }

    /// Returns a non-negative integer argument.
    pub(crate) fn unsigned(&self, name: &str) -> Option<u64> {
        self.integer(name)
            .and_then(|number| u64::try_from(number).ok())
    }

    /// Returns a boolean argument.
    pub(crate) fn boolean(&self, name: &str) -> Option<bool> {
        self.arguments.get(name).and_then(Json::as_bool)
    }

    /// Returns a number argument.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.arguments.get(name).and_then(Json::as_f64)
    }
}
