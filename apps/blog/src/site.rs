//! The models that an application serves: which are present, which is home, and the gate that every
//! write passes.
//!
//! The home model is the source of truth: `/` leads there, and a migration moves it. By default all
//! three models are present and the application applies each write to all of them.

use crate::{Blog, BlogError, Client, Control, Model, Throughput};
use std::sync::Arc;

/// A blog with its present models. Clones share their state.
#[derive(Clone)]
pub struct Site(Arc<Inner>);

struct Inner {
    client: Client,
    prefix: String,
    control: Control,
    home: Model,
    models: Vec<Model>,
    throughput: Throughput,
}

/// The permission for one write operation. No cut-over to another home model takes place while it
/// exists.
pub struct WriteTurn {
    /// The home model.
    pub home: Model,
    /// The models to which the operation must be applied, the home model first.
    pub models: Vec<Model>,
}

impl Site {
    /// Returns the site with the databases `{prefix}-v1`, `{prefix}-v2`, `{prefix}-v3` and
    /// `{prefix}-control`.
    pub fn new(
        client: Client,
        prefix: &str,
        home: Model,
        models: &[Model],
        throughput: Throughput,
    ) -> Self {
        Self(Arc::new(Inner {
            control: Control::new(client.clone(), prefix),
            client,
            prefix: prefix.to_owned(),
            home,
            models: models.to_vec(),
            throughput,
        }))
    }

    /// Returns the application's own containers.
    pub fn control(&self) -> &Control {
        &self.0.control
    }

    /// Returns the home model.
    pub fn home(&self) -> Model {
        self.0.home
    }

    /// Returns the present models in order.
    pub fn models(&self) -> Vec<Model> {
        self.0.models.clone()
    }

    /// Returns the blog of a model, present or not.
    pub fn blog(&self, model: Model) -> Blog {
        let name = format!("{}-{}", self.0.prefix, model.to_string().to_lowercase());
        Blog::new(self.0.client.clone(), model, &name).with_throughput(self.0.throughput)
    }

    /// Waits for the permission to write.
    ///
    /// # Errors
    /// Every error of a request, if the state of the site has to be read.
    pub async fn begin_write(&self) -> Result<WriteTurn, BlogError> {
        let mut models = self.0.models.clone();
        models.sort_by_key(|model| *model != self.0.home);
        Ok(WriteTurn {
            home: self.0.home,
            models,
        })
    }
}
