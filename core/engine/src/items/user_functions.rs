//! The user-defined functions of a container as the functions of a query.
//!
//! A script host is started only when a query calls a function, and compiles only the functions
//! that the query names: a function that does not compile does no harm to queries that do not name
//! it.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::udf_error;
use crate::query::Turn;
use crate::request::ScriptKind;
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_script::{FunctionSession, ScriptError};
use orrery_sql::{Functions, QueryError};

/// The user-defined functions of a container, for one query.
pub(crate) struct UserFunctions<'a> {
    engine: &'a Engine,
    container: &'a Container,
    /// The functions that the query names.
    names: Vec<String>,
    /// The turn of the query, which holds no slot while a function runs.
    turn: &'a Turn<'a>,
    /// The script host with these functions, once one was called.
    session: Option<FunctionSession<'a>>,
}

impl<'a> UserFunctions<'a> {
    /// Creates the functions of a container.
    pub(crate) fn new(engine: &'a Engine, container: &'a Container, turn: &'a Turn<'a>) -> Self {
        UserFunctions {
            engine,
            container,
            names: Vec::new(),
            turn,
            session: None,
        }
    }

    fn session(&mut self) -> Result<&mut FunctionSession<'a>, ScriptError> {
        if self.session.is_none() {
            let mut sources = Vec::new();
            for function in self.container.scripts(ScriptKind::Function) {
                if self.names.iter().any(|name| name == function.id()) {
                    sources.push((function.id().to_owned(), function.source().to_owned()));
                }
            }
            let ambient = self.engine.ambient();
            self.session = Some(self.engine.scripts().functions(&sources, ambient)?);
        }
        Ok(self.session.as_mut().expect("just opened"))
    }
}

impl Functions for UserFunctions<'_> {
    fn prepare(&mut self, names: &[String]) {
        if self.names != names {
            self.names = names.to_vec();
            self.session = None;
        }
    }

    fn call(&mut self, name: &str, arguments: &[Option<Json>]) -> Result<Option<Json>, QueryError> {
        let mut texts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            texts.push(argument.as_ref().map(Json::to_text));
        }
        let script = self.container.script(ScriptKind::Function, name);
        if let Some(script) = &script {
            let checked = self.engine.denied_scripts().check(script);
            checked.map_err(|denied| QueryError::Source(Box::new(denied)))?;
        }
        let turn = self.turn;
        let result = turn.pause(|| self.session()?.call(name, &texts));
        if let (Err(ScriptError::TimedOut), Some(script)) = (&result, &script) {
            let now_ms = self.engine.world().now_ms();
            self.engine.denied_scripts().add_timeout(script, now_ms);
        }
        match result.map_err(udf_error)? {
            Some(text) => parse(text.as_bytes())
                .map(Some)
                .map_err(|error| QueryError::Source(Box::new(error))),
            None => Ok(None),
        }
    }
}
