//! One request in our words, and its answer.

use crate::admin::Parts;
use crate::problem::Problem;
use orrery_engine::{Container, Database, Engine};
use orrery_model::{Json, Object};
use std::sync::Arc;

/// A request that may be carried out.
pub(crate) struct Call {
    /// What the server is made of.
    pub(crate) parts: Arc<Parts>,
    /// What stands in the path for its parameters, in order.
    pub(crate) ids: Vec<String>,
    /// Query parameters and the members of the body, checked.
    pub(crate) asked: Object,
}

/// What a request comes to.
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: u16,
    /// The type of the body.
    pub(crate) content: &'static str,
    /// The body.
    pub(crate) body: String,
}

impl Answer {
    /// JSON.
    pub(crate) fn json(status: u16, body: impl Into<Json>) -> Result<Answer, Problem> {
        Ok(Answer {
            status,
            content: "application/json",
            body: body.into().to_text(),
        })
    }

    /// Nothing to say.
    pub(crate) fn empty() -> Result<Answer, Problem> {
        Ok(Answer {
            status: 204,
            content: "",
            body: String::new(),
        })
    }
}

impl Call {
    /// The engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.parts.engine
    }

    /// A parameter of the path.
    pub(crate) fn id(&self, n: usize) -> &str {
        self.ids.get(n).map_or("", String::as_str)
    }

    /// The database that the first parameter of the path names.
    ///
    /// # Errors
    /// 404 that names it.
    pub(crate) fn database(&self) -> Result<Arc<Database>, Problem> {
        let database = self.id(0);
        let found = self.engine().database(database.into());
        found.map_err(|_| Problem::not_found(format!("there is no database '{database}'")))
    }

    /// The container that the first two parameters of the path name.
    ///
    /// # Errors
    /// 404 that says which of the two is missing.
    pub(crate) fn container(&self) -> Result<Arc<Container>, Problem> {
        self.database()?;
        let (database, container) = (self.id(0), self.id(1));
        self.engine()
            .container(database.into(), container.into())
            .map_err(|_| {
                Problem::not_found(format!(
                    "there is no container '{container}' in the database '{database}'"
                ))
            })
    }

    /// A text that was asked for.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.asked.get(name).and_then(Json::as_str)
    }

    /// Objects that were asked for.
    pub(crate) fn objects(&self, name: &str) -> &[Json] {
        self.asked
            .get(name)
            .and_then(Json::as_array)
            .unwrap_or_default()
    }

    /// A whole number that was asked for.
    pub(crate) fn whole(&self, name: &str) -> Option<i64> {
        self.asked.get(name).and_then(Json::as_i64)
    }

    /// A number that was asked for.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.asked.get(name).and_then(Json::as_f64)
    }
}
