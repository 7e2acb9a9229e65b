//! The file in a blog's data directory that tells other commands where the blog runs.
//!
//! The file exists while the blog runs, and after a crash until the next start. It holds the
//! account key, so only its owner may read it.

use super::{CONNECTIONS, DIRECTORY, failure};
use crate::command::{KeyArguments, RunningBlog};
use orrery_blog::{Client, Site, Throughput};
use orrery_client::ConnectionOptions;
use orrery_model::json::parse;
use orrery_model::{Json, object};
use orrery_server::{Failure, data_dir, private_file};
use std::path::{Path, PathBuf};

/// Name of the file.
const FILE: &str = "blog.json";

/// The place at which a blog's database can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// URL of the database.
    pub(super) endpoint: String,
    /// Account key.
    pub(super) key: String,
    /// First part of the names of the databases.
    pub(super) database: String,
    /// RU/s of each container; `None` for those of the published figures.
    pub(super) throughput: Option<u32>,
}

/// The file of a running blog, which is removed when the value is dropped.
pub(super) struct PlaceFile(PathBuf);

impl PlaceFile {
    /// Writes the file into the data directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(data_dir: &Path, place: &Place) -> Result<Self, Failure> {
        let file = data_dir.join(FILE);
        let mut content = object! {
            "endpoint" => place.endpoint.as_str(),
            "key" => place.key.as_str(),
            "database" => place.database.as_str(),
        };
        if let Some(ru) = place.throughput {
            content.set("throughput", ru);
        }
        let text = Json::Object(content).to_text();
        match private_file::write(&file, text.as_bytes()) {
            Ok(()) => Ok(PlaceFile(file)),
            Err(error) => Err(Failure::Failed(format!(
                "cannot write {}: {error}",
                file.display()
            ))),
        }
    }
}

impl Drop for PlaceFile {
    fn drop(&mut self) {
        // A file that stays is harmless: commands that use it report that no blog answers.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Place {
    /// Returns the place of the running blog that the options name.
    ///
    /// # Errors
    /// [`Failure::Usage`] if no blog runs on the data directory, or if there is no key.
    pub(super) fn find(blog: &RunningBlog) -> Result<Self, Failure> {
        let mut place = match &blog.endpoint {
            Some(endpoint) => {
                let (endpoint, key) = account_at(endpoint, &blog.key)?;
                Place {
                    endpoint,
                    key,
                    database: "blog".to_owned(),
                    throughput: None,
                }
            }
            None => Self::read(&data_dir::locate(blog.data_dir.as_deref(), DIRECTORY)?)?,
        };
        if let Some(database) = &blog.database {
            place.database.clone_from(database);
        }
        Ok(place)
    }

    fn read(data_dir: &Path) -> Result<Self, Failure> {
        let file = data_dir.join(FILE);
        let unusable = |cause: &str| {
            Failure::Usage(format!(
                "no blog runs on the data directory {} ({cause}): start it with 'orrery blog', \
                 name its directory with --data-dir, or name its database with --endpoint",
                data_dir.display()
            ))
        };
        let text = std::fs::read(&file).map_err(|error| unusable(&error.to_string()))?;
        let json = parse(&text).unwrap_or(Json::Null);
        let member = |name: &str| json.get(name).and_then(Json::as_str).map(str::to_owned);
        let (Some(endpoint), Some(key), Some(database)) =
            (member("endpoint"), member("key"), member("database"))
        else {
            return Err(unusable("its file blog.json is not usable"));
        };
        let throughput = json.get("throughput").and_then(Json::as_i64);
        Ok(Place {
            endpoint,
            key,
            database,
            throughput: throughput.and_then(|ru| u32::try_from(ru).ok()),
        })
    }

    /// Returns a client of the database.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the endpoint or the key is invalid.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        Client::new(&self.endpoint, &self.key, CONNECTIONS).map_err(failure)
    }

    /// Returns the throughput of new containers.
    pub(super) fn throughput(&self) -> Throughput {
        match self.throughput {
            Some(ru) => Throughput::of_each(ru),
            None => Throughput::default(),
        }
    }

    /// Opens the site of the running blog.
    ///
    /// # Errors
    /// The blog does not exist, or its database does not answer.
    pub(super) async fn open(&self) -> Result<Site, Failure> {
        let opened = Site::open(self.client()?, &self.database, self.throughput()).await;
        opened.map_err(failure)
    }
}

/// Returns the endpoint and the key of an account: the key of the options, else that of the
/// environment, else for this machine the well-known key.
///
/// # Errors
/// [`Failure::Usage`] if the endpoint cannot be used or there is no key.
pub(crate) fn account_at(endpoint: &str, key: &KeyArguments) -> Result<(String, String), Failure> {
    let options = ConnectionOptions {
        endpoint: Some(endpoint.to_owned()),
        key: key.key.clone(),
        key_file: key.key_file.clone(),
        ..ConnectionOptions::default()
    };
    let found = options.resolve(&|name| std::env::var(name).ok());
    let found = found.map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((found.endpoint, found.key.reveal().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_directory(directory: &Path) -> RunningBlog {
        RunningBlog {
            endpoint: None,
            key: KeyArguments::default(),
            data_dir: Some(directory.to_owned()),
            database: None,
        }
    }

    #[test]
    fn the_file_of_a_running_blog_names_its_place_until_the_blog_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        let blog = of_directory(directory.path());
        assert!(matches!(Place::find(&blog), Err(Failure::Usage(_))));
        let place = Place {
            endpoint: "http://127.0.0.1:1/".into(),
            key: "a2V5".into(),
            database: "blog".into(),
            throughput: Some(400),
        };
        let file = PlaceFile::write(directory.path(), &place).expect("it is written");
        assert_eq!(Place::find(&blog).expect("a place"), place);
        drop(file);
        assert!(matches!(Place::find(&blog), Err(Failure::Usage(_))));
    }

    #[test]
    fn another_machine_needs_a_key_and_a_file_gives_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("account.key");
        std::fs::write(&file, "a2V5\n").expect("it is written");
        let of = |key_file: Option<PathBuf>| RunningBlog {
            endpoint: Some("https://db.example/".into()),
            key: KeyArguments {
                key_file,
                ..KeyArguments::default()
            },
            ..of_directory(Path::new("/"))
        };
        assert!(matches!(Place::find(&of(None)), Err(Failure::Usage(_))));
        assert_eq!(Place::find(&of(Some(file))).expect("a place").key, "a2V5");
    }
}
