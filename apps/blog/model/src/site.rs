//! The models that an application serves: which are present, which is home, and the gate that every
//! write passes.
//!
//! The home model is the source of truth: `/` leads there, and a migration moves it. By default all
//! three models are present and the application applies each write to all of them.
//!
//! The state of the site is an item of the control database (module `state`). Each process reads
//! the item several times a second and writes under a permit that is valid for 2 s (module
//! `presence`).
//! Promises:
//!
//! 1. A write that begins while a migration cuts over waits; it never fails because of it.
//! 2. Home changes only while no write is in progress: a [`WriteTurn`] of any process holds it up.
//!    A process that stops answering in the middle of a write holds it up for a few seconds only;
//!    its [`WriteTurn::is_current`] is false afterwards, and the write must be applied again.
//! 3. A dead migrator holds up writes for a few seconds only.
//!
//! Reads are not held up: they use [`Site::home`], which follows a change within 2 s. The earlier
//! home stays readable for longer.

pub(crate) mod presence;
pub(crate) mod state;

pub use state::{FillState, Migration, Phase};

use crate::control::existing_is_fine;
use crate::{Blog, BlogError, Client, Control, Meter, Model, Throughput};
use presence::Presence;
use state::{SITE_ID, State};
use std::sync::Arc;

/// Attempts to change the state of a site that other processes change at the same time.
const CHANGES_MAX: usize = 100;

/// A blog with its present models. Clones share their state.
#[derive(Clone)]
pub struct Site(Arc<Inner>);

struct Inner {
    client: Client,
    prefix: String,
    control: Control,
    throughput: Throughput,
    state: Source,
}

/// The origin of the state.
enum Source {
    /// The state never changes.
    Fixed(Box<State>),
    /// The state is an item of the control database.
    Shared(Arc<Presence>),
}

/// The permission for one write operation. No cut-over to another home model takes place while it
/// exists.
pub struct WriteTurn {
    /// The home model.
    pub home: Model,
    /// The models to which the operation must be applied, the home model first.
    pub models: Vec<Model>,
    epoch: u64,
    presence: Option<Arc<Presence>>,
}

impl WriteTurn {
    /// Returns true if the models of this turn are still those of the site.
    ///
    /// To be called after the operation was applied. False means that the process did not answer
    /// for several seconds and home has changed in the meantime: the operation must be applied
    /// again under a new turn.
    ///
    /// # Errors
    /// Every error of a request, if the state of the site has to be read.
    pub async fn is_current(&self) -> Result<bool, BlogError> {
        match &self.presence {
            Some(presence) => presence.is_current(self.epoch).await,
            None => Ok(true),
        }
    }
}

impl Drop for WriteTurn {
    fn drop(&mut self) {
        if let Some(presence) = &self.presence {
            presence.end();
        }
    }
}

impl Site {
    /// Returns a site whose state never changes, with the databases `{prefix}-v1`, `{prefix}-v2`,
    /// `{prefix}-v3` and `{prefix}-control`. Such a site cannot be migrated.
    pub fn new(
        client: Client,
        prefix: &str,
        home: Model,
        models: &[Model],
        throughput: Throughput,
    ) -> Self {
        let state = Source::Fixed(Box::new(State::new(home, models)));
        Self::with_state(client, prefix, throughput, state)
    }

    /// Opens the site with the prefix `prefix` and creates it if it does not exist: the control
    /// database, and a state with the home model `home` and, unless `only` is true, all models. The
    /// models' own databases are not created. An existing site keeps its home and its models.
    ///
    /// The state stays fresh as long as a clone of the site exists.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn open_or_create(
        client: Client,
        prefix: &str,
        home: Model,
        only: bool,
        throughput: Throughput,
    ) -> Result<Self, BlogError> {
        let control = Control::new(client.clone(), prefix);
        control.create_missing().await?;
        let models = if only {
            vec![home]
        } else {
            Model::ALL.to_vec()
        };
        let item = State::new(home, &models).to_json();
        let created = client
            .create(&Meter::new(), &control.state, SITE_ID, &item)
            .await;
        existing_is_fine(created)?;
        Self::open(client, prefix, throughput).await
    }

    /// Opens an existing site. The state stays fresh as long as a clone of the site exists.
    ///
    /// # Errors
    /// [`BlogError::InvalidOption`] if there is no such site; every error of a request.
    pub async fn open(
        client: Client,
        prefix: &str,
        throughput: Throughput,
    ) -> Result<Self, BlogError> {
        let control = Control::new(client.clone(), prefix);
        let (state, etag) = match presence::read(&control).await {
            Err(e) if e.is_not_found() => {
                return Err(BlogError::InvalidOption(format!(
                    "there is no blog with the prefix '{prefix}': the database '{}' has no state; \
                     start the blog once, or name its prefix",
                    control.database
                )));
            }
            read => read?,
        };
        let presence = Presence::new(control, state, etag);
        tokio::spawn(Presence::watch(Arc::downgrade(&presence)));
        let state = Source::Shared(presence);
        Ok(Self::with_state(client, prefix, throughput, state))
    }

    fn with_state(client: Client, prefix: &str, throughput: Throughput, state: Source) -> Self {
        Self(Arc::new(Inner {
            control: Control::new(client.clone(), prefix),
            client,
            prefix: prefix.to_owned(),
            throughput,
            state,
        }))
    }

    /// Returns the application's own containers.
    pub fn control(&self) -> &Control {
        &self.0.control
    }

    /// Returns the home model.
    pub fn home(&self) -> Model {
        self.state().home
    }

    /// Returns the present models in order.
    pub fn models(&self) -> Vec<Model> {
        let mut models = self.state().models;
        models.sort();
        models
    }

    /// Returns the models whose pipelines run: the present models, and the target of a migration.
    pub fn pipeline_models(&self) -> Vec<Model> {
        self.state().pipeline_models()
    }

    /// Returns the migration in progress.
    pub fn migration(&self) -> Option<Migration> {
        self.state().migration
    }

    /// Returns the progress of the data with which the site is filled. `None` if nothing was
    /// loaded.
    pub fn fill(&self) -> Option<FillState> {
        self.state().fill
    }

    /// Stores the progress of the data with which the site is filled.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn set_fill(&self, fill: &FillState) -> Result<(), BlogError> {
        self.change(|state| state.fill = Some(fill.clone())).await?;
        Ok(())
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
        let (state, presence) = match &self.0.state {
            Source::Fixed(state) => ((**state).clone(), None),
            Source::Shared(presence) => (presence.begin().await?, Some(presence.clone())),
        };
        let mut models = state.models;
        models.sort_by_key(|model| *model != state.home);
        Ok(WriteTurn {
            home: state.home,
            models,
            epoch: state.epoch,
            presence,
        })
    }

    /// Reads the state now instead of at the next regular time.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn refresh(&self) -> Result<(), BlogError> {
        match &self.0.state {
            Source::Fixed(_) => Ok(()),
            Source::Shared(presence) => presence.refresh().await,
        }
    }

    /// Returns the state as it was read last.
    pub(crate) fn state(&self) -> State {
        match &self.0.state {
            Source::Fixed(state) => (**state).clone(),
            Source::Shared(presence) => presence.state(),
        }
    }

    /// Changes the stored state and returns the new one.
    pub(crate) async fn change(
        &self,
        mut change: impl FnMut(&mut State),
    ) -> Result<State, BlogError> {
        for _ in 0..CHANGES_MAX {
            let (mut state, etag) = presence::read(&self.0.control).await?;
            change(&mut state);
            if presence::replace(&self.0.control, &state, &etag)
                .await?
                .is_some()
            {
                self.refresh().await?;
                return Ok(state);
            }
        }
        Err(BlogError::unexpected(
            "state of the site",
            format!("other processes changed the state {CHANGES_MAX} times in a row"),
        ))
    }
}
