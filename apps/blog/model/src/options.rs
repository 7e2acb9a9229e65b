//! The options of a measurement.

use crate::BlogError;
use crate::models::Model;

/// The prices that the server charges. The expected charges in the report depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The prices of the article, spring 2019.
    Y2019,
    /// The current prices.
    Modern,
}

impl std::str::FromStr for Profile {
    type Err = BlogError;

    fn from_str(text: &str) -> Result<Self, BlogError> {
        match text.to_ascii_lowercase().as_str() {
            "y2019" => Ok(Self::Y2019),
            "modern" => Ok(Self::Modern),
            _ => Err(BlogError::InvalidOption(format!(
                "'{text}' is not a price profile; the profiles are y2019 and modern"
            ))),
        }
    }
}

/// The output format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An aligned text table.
    Table,
    /// A JSON array with one object for each row.
    Json,
}

/// The way in which the data set is loaded; see `load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// One transaction for each logical partition, by a stored procedure.
    Procedure,
    /// One request for each item.
    Creates,
}

/// The server to measure and the parameters of the measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// The URL of the server, e.g. `http://127.0.0.1:8081`.
    pub endpoint: String,
    /// The account's master key in base64.
    pub key: String,
    /// Size of the data set; 1 is the article's 100,000 users.
    pub scale: f64,
    /// The models to measure.
    pub models: Vec<Model>,
    /// The prices that the server charges.
    pub profile: Profile,
    /// Seed of the data set. Equal seeds give equal data.
    pub seed: u64,
    /// The output format of the report.
    pub format: Format,
    /// Runs of each request. A request to all physical partitions has a tenth of the runs, but at
    /// least 20, or all if they are fewer.
    pub runs: usize,
    /// Connections for loading.
    pub connections: usize,
    /// The way in which the data set is loaded.
    pub load: Load,
    /// True if the databases are kept after the measurement.
    pub keep: bool,
    /// True if the copies of V3 are written by the pipelines, and if writes are also measured
    /// together with their pipelines.
    pub through_pipelines: bool,
    /// True if databases of an interrupted run are used: loading continues, and finished
    /// measurements are not repeated.
    pub resume: bool,
}

impl Options {
    /// Returns the default options: all models with 40 users (about 70,000 items in each model),
    /// 200 runs, prices of 2019.
    pub fn new(endpoint: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            key: key.into(),
            scale: 0.0004,
            models: Model::ALL.to_vec(),
            profile: Profile::Y2019,
            seed: 1,
            format: Format::Table,
            runs: 200,
            connections: 32,
            load: Load::Procedure,
            keep: true,
            through_pipelines: false,
            resume: false,
        }
    }

    /// Checks the options that need neither the data set nor the server.
    ///
    /// # Errors
    /// [`BlogError::InvalidOption`] for a value out of range.
    pub(crate) fn check(&self) -> Result<(), BlogError> {
        let fault = if self.models.is_empty() {
            "no model to measure"
        } else if !(1..=1_000_000).contains(&self.runs) {
            "the number of runs is not between 1 and 1,000,000"
        } else if !(1..=4096).contains(&self.connections) {
            "the number of connections is not between 1 and 4,096"
        } else {
            return Ok(());
        };
        Err(BlogError::InvalidOption(fault.into()))
    }
}
