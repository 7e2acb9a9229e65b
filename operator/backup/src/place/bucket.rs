//! A prefix of a bucket of an S3 service as the place of a repository.
//!
//! ```text
//! s3://BUCKET/PREFIX            the place; its files are the objects PREFIX/NAME
//! AWS_ACCESS_KEY_ID, …          the settings: the variables that the tools of the service read
//! AWS_ENDPOINT_URL              the address of another service than that of Amazon
//! ```
//!
//! A content is read twice, since its name is its hash: once for the name, and once to be sent.
//! An upload that is cut leaves parts that nothing names; a rule of the bucket removes them.
//!
//! Left out: the files of settings in a home folder, and services without conditional writes, which
//! the lock needs.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use hyper::Uri;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, Error, MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};

use super::client::{Connector, run};
use super::lease::{Lease, TIMES, Times};
use super::{Lock, Place, PlacedFile, Unopened, object_name};
use crate::archive::is_archive;
use crate::error::BackupError;
use crate::files::{Digested, HashedReader, OnPiece, copy_hashed};
use crate::sink::SourceFile;

/// The bytes of a part of a large content. The service takes 10,000 parts, of 5 MiB at least.
const PART_BYTES: u64 = 8 << 20;
const PARTS_MAX: u64 = 10_000;
/// The beginning of the names of the variables with settings.
const VARIABLE_PREFIX: &str = "AWS_";
/// The variables with the address of a service. The first one that is set counts.
const ENDPOINT_VARIABLES: &[&str] = &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
/// The most characters of the answer of a service in a message.
const WORDS_MAX: usize = 600;
/// The time for the repetitions of a request.
const RETRIES_MAX: Duration = Duration::from_secs(20);
/// The longest pause between two of them.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A prefix of a bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    /// The address, without a slash at its end.
    address: PathBuf,
    /// The prefix; empty for the whole bucket.
    prefix: String,
    store: Arc<dyn ObjectStore>,
    times: Times,
}

impl Bucket {
    /// Returns the place of an address, `BUCKET/PREFIX`, with the settings of the environment.
    ///
    /// # Errors
    /// When the address is none, or a setting cannot be used.
    pub(super) fn from_environment(path: &Path, address: &str) -> Result<Bucket, BackupError> {
        let refused = |detail: String| BackupError::Address {
            path: path.to_owned(),
            detail,
        };
        let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() {
            return Err(refused(
                "a bucket is named as in s3://BUCKET/PREFIX".to_owned(),
            ));
        }
        if is_archive(Path::new(prefix)) {
            let detail = "one file with a whole backup is written to a folder of this machine; \
                          name a prefix of the bucket";
            return Err(refused(detail.to_owned()));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if !bucket.bytes().all(is_name) {
            return Err(refused(format!("'{bucket}' is no name of a bucket")));
        }
        let key = Key::parse(prefix).map_err(|error| refused(error.to_string()))?;
        // The library would write such a prefix in another way than other tools do.
        if Key::from(prefix) != key || key.as_ref() != prefix {
            let detail = "a prefix has no slash at its beginning, and none of the characters that \
                          are written as %XX";
            return Err(refused(detail.to_owned()));
        }
        let mut builder = AmazonS3Builder::new();
        for (name, value) in settings().map_err(&refused)? {
            // The library knows more variables than it needs here, and others are of other tools.
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        if let Some(endpoint) = endpoint().map_err(&refused)? {
            // A person has named an address without TLS.
            let is_plain = endpoint.starts_with("http://");
            builder = builder.with_endpoint(endpoint).with_allow_http(is_plain);
        }
        let builder = builder
            .with_bucket_name(bucket)
            .with_http_connector(Connector)
            .with_retry(RetryConfig {
                // The time is the limit.
                max_retries: usize::MAX,
                retry_timeout: RETRIES_MAX,
                backoff: BackoffConfig {
                    max_backoff: PAUSE_MAX,
                    ..BackoffConfig::default()
                },
            });
        let store = builder
            .build()
            .map_err(|error| refused(error.to_string()))?;
        Ok(Bucket::new(path, prefix, Arc::new(store), TIMES))
    }

    /// Returns the place of a prefix in a store.
    pub(super) fn new(
        path: &Path,
        prefix: &str,
        store: Arc<dyn ObjectStore>,
        times: Times,
    ) -> Bucket {
        let address = path.to_string_lossy();
        Bucket {
            address: PathBuf::from(address.trim_end_matches('/')),
            prefix: prefix.to_owned(),
            store,
            times,
        }
    }

    /// Returns the key of a file or of a folder.
    fn key(&self, name: &str) -> Key {
        match (self.prefix.as_str(), name) {
            ("", name) => Key::from(name),
            (prefix, "") => Key::from(prefix),
            (prefix, name) => Key::from(format!("{prefix}/{name}")),
        }
    }

    /// Runs a request to the service.
    fn request<T, F>(
        &self,
        doing: &'static str,
        name: &str,
        work: impl FnOnce(Arc<dyn ObjectStore>, Key) -> F,
    ) -> Result<T, BackupError>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let done = run(work(self.store.clone(), self.key(name)));
        let done = done.and_then(|done| done.map_err(io_error));
        done.map_err(BackupError::io(doing, &self.path(name)))
    }

    /// Sends a content whose hash is known, in parts. A content that is another one now is not
    /// stored.
    fn send(
        &self,
        file: &SourceFile<'_>,
        expected: &Digested,
        piece_bytes: usize,
        on_piece: OnPiece<'_>,
    ) -> Result<(), BackupError> {
        let name = object_name(&expected.sha256);
        let source = File::open(file.path).map_err(BackupError::io("open", file.path))?;
        let mut source = source.take(expected.bytes);
        let mut content = HashedReader::new(&mut source, on_piece);
        let part_bytes = PART_BYTES.max(expected.bytes.div_ceil(PARTS_MAX));
        let mut parts = Parts {
            bucket: self,
            name: &name,
            upload: None,
        };
        let mut first = None;
        let sent = loop {
            let part = match read_part(&mut content, part_bytes, piece_bytes) {
                Ok(part) => part,
                Err(error) => break Err(error),
            };
            // One part is sent by one request.
            if part.is_empty() || expected.bytes <= part_bytes {
                first = Some(part);
                break Ok(());
            }
            if let Err(error) = parts.send(part) {
                parts.give_up();
                return Err(error);
            }
        };
        let found = content.finish(sent);
        let found = match found.map_err(|error| file.copy_failed(&self.path(&name), error)) {
            Ok(found) if found == *expected => Ok(()),
            Ok(_) => {
                let changed = io::Error::other("it changed while it was read");
                Err(BackupError::io("read", file.path)(changed))
            }
            Err(error) => Err(error),
        };
        if let Err(error) = found {
            parts.give_up();
            return Err(error);
        }
        match first {
            Some(part) if parts.upload.is_none() => self.put(&name, part),
            _ => parts.complete(),
        }
    }

    fn put(&self, name: &str, content: Vec<u8>) -> Result<(), BackupError> {
        let put = move |store: Arc<dyn ObjectStore>, key| async move {
            store.put(&key, PutPayload::from(content)).await
        };
        self.request("write", name, put).map(drop)
    }
}

/// Returns the variables with settings, but those with the address of the service. One without a
/// value counts as unset, as in the tools of the service.
fn settings() -> Result<Vec<(String, String)>, String> {
    let mut settings = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name
            .to_str()
            .filter(|name| name.starts_with(VARIABLE_PREFIX))
        else {
            continue;
        };
        let value = text_of_variable(name, &value)?;
        if !value.is_empty() && !ENDPOINT_VARIABLES.contains(&name) {
            settings.push((name.to_owned(), value));
        }
    }
    settings.sort_unstable();
    Ok(settings)
}

/// Returns the address of the service; `None` for that of Amazon.
fn endpoint() -> Result<Option<String>, String> {
    for name in ENDPOINT_VARIABLES {
        let value = std::env::var_os(name).unwrap_or_default();
        let value = text_of_variable(name, &value)?;
        if value.is_empty() {
            continue;
        }
        let Some((scheme, rest)) = value.split_once("://") else {
            return Err(format!("{name} begins with http:// or https://"));
        };
        let scheme = scheme.to_ascii_lowercase();
        let address = format!("{scheme}://{rest}");
        let is_address = address.parse::<Uri>().is_ok_and(|uri| uri.host().is_some());
        if !is_address || !["http", "https"].contains(&scheme.as_str()) {
            return Err(format!(
                "{name} is no address of a service, such as https://s3.example.com"
            ));
        }
        return Ok(Some(address));
    }
    Ok(None)
}

/// Returns the value of a variable, which goes into headers and addresses. A line feed at its end
/// is that of a file with a secret.
fn text_of_variable(name: &str, value: &OsStr) -> Result<String, String> {
    let text = value
        .to_str()
        .map(|text| text.trim_end_matches(['\r', '\n']));
    match text {
        Some(text) if !text.contains(|char: char| char.is_control()) => Ok(text.to_owned()),
        _ => Err(format!("{name} has characters that no setting has")),
    }
}

/// Reads the next bytes of a content, up to a number.
fn read_part(content: &mut dyn Read, part_bytes: u64, piece_bytes: usize) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    let mut left = usize::try_from(part_bytes).unwrap_or(usize::MAX);
    let mut piece = vec![0; piece_bytes];
    while left > 0 {
        let wanted = left.min(piece.len());
        match content.read(&mut piece[..wanted]) {
            Ok(0) => break,
            Ok(read) => {
                part.extend_from_slice(&piece[..read]);
                left -= read;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(part)
}

/// The parts of a large content.
struct Parts<'a> {
    bucket: &'a Bucket,
    name: &'a str,
    upload: Option<Box<dyn MultipartUpload>>,
}

impl Parts<'_> {
    /// Sends a part. The first one begins the upload.
    fn send(&mut self, part: Vec<u8>) -> Result<(), BackupError> {
        let upload = self.upload.take();
        let sent = move |store: Arc<dyn ObjectStore>, key| async move {
            let mut upload = match upload {
                Some(upload) => upload,
                None => store.put_multipart(&key).await?,
            };
            let sent = upload.put_part(PutPayload::from(part)).await;
            Ok((upload, sent))
        };
        let (upload, sent) = self.bucket.request("write", self.name, sent)?;
        self.upload = Some(upload);
        let path = self.bucket.path(self.name);
        sent.map_err(io_error)
            .map_err(BackupError::io("write", &path))
    }

    fn complete(&mut self) -> Result<(), BackupError> {
        let Some(mut upload) = self.upload.take() else {
            return Ok(());
        };
        let complete = move |_, _| async move { upload.complete().await };
        self.bucket.request("write", self.name, complete).map(drop)
    }

    /// Removes the parts, as far as the service answers.
    fn give_up(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            let abort = move |_, _| async move { upload.abort().await };
            let _ = self.bucket.request("remove", self.name, abort);
        }
    }
}

impl Place for Bucket {
    fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.address.clone(),
            name => PathBuf::from(format!("{}/{name}", self.address.display())),
        }
    }

    fn names(&self) -> Result<Option<Vec<String>>, BackupError> {
        let prefix = (!self.prefix.is_empty()).then(|| self.key(""));
        let list = |store: Arc<dyn ObjectStore>, _| async move {
            store.list_with_delimiter(prefix.as_ref()).await
        };
        let found = self.request("list", "", list)?;
        let mut names: Vec<String> = Vec::new();
        let own = self.key("");
        // Some tools make an object of the prefix itself, as a folder.
        let objects = found.objects.iter().filter(|object| object.location != own);
        for object in objects {
            names.extend(object.location.filename().map(str::to_owned));
        }
        for folder in &found.common_prefixes {
            names.extend(folder.filename().map(str::to_owned));
        }
        names.sort_unstable();
        // A prefix exists as long as it has objects.
        Ok((!names.is_empty()).then_some(names))
    }

    fn files(&self, folder: &str) -> Result<Vec<PlacedFile>, BackupError> {
        let list = |store: Arc<dyn ObjectStore>, key: Key| async move {
            store.list(Some(&key)).try_collect::<Vec<_>>().await
        };
        let objects = self.request("list", folder, list)?;
        let above = match self.key(folder) {
            whole if whole.as_ref().is_empty() => String::new(),
            key => format!("{key}/"),
        };
        let mut files = Vec::with_capacity(objects.len());
        for object in objects {
            if let Some(name) = object.location.as_ref().strip_prefix(&above) {
                files.push(PlacedFile {
                    name: name.to_owned(),
                    bytes: object.size,
                });
            }
        }
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BackupError> {
        let read = |store: Arc<dyn ObjectStore>, key: Key| async move {
            match store.get(&key).await {
                Ok(found) => Ok(Some(found.bytes().await?)),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let content = self.request("read", name, read)?;
        Ok(content.map(|content| content.to_vec()))
    }

    fn open(&self, name: &str) -> Box<dyn Read> {
        let (store, key) = (self.store.clone(), self.key(name));
        let opened = run(async move { store.get(&key).await });
        match opened.and_then(|opened| opened.map_err(io_error)) {
            Ok(found) => Box::new(Content {
                stream: Some(found.into_stream()),
                piece: Bytes::new(),
            }),
            Err(error) => Box::new(Unopened(Some(error))),
        }
    }

    fn create_folder(&self, _name: &str) -> Result<(), BackupError> {
        // A bucket has names alone.
        Ok(())
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        self.put(name, content.to_vec())
    }

    fn add_object(
        &self,
        file: &SourceFile<'_>,
        content: &mut dyn Read,
        piece_bytes: usize,
        on_piece: OnPiece<'_>,
    ) -> Result<Digested, BackupError> {
        // Each of the two readings counts half.
        let hashed = copy_hashed(content, &mut io::sink(), piece_bytes, &mut |bytes| {
            on_piece(bytes / 2)
        });
        let content = hashed.map_err(|error| file.copy_failed(file.path, error))?;
        file.check_length(content.bytes)?;
        self.send(file, &content, piece_bytes, &mut |bytes| {
            on_piece(bytes - bytes / 2)
        })?;
        Ok(content)
    }

    fn sync_objects(&self) -> Result<(), BackupError> {
        // An object is durable when the service has answered.
        Ok(())
    }

    fn remove(&self, folder: &str, names: &[String]) -> Result<(), BackupError> {
        let keys: Vec<_> = names
            .iter()
            .map(|name| Ok(self.key(&format!("{folder}/{name}"))))
            .collect();
        let remove = |store: Arc<dyn ObjectStore>, _| async move {
            let keys = futures_util::stream::iter(keys).boxed();
            store
                .delete_stream(keys)
                .try_for_each(|_| async { Ok(()) })
                .await
        };
        self.request("remove files of", folder, remove)
    }

    fn remove_folder(&self, folder: &str) -> Result<(), BackupError> {
        let files = self.files(folder)?.into_iter();
        let names: Vec<String> = files.map(|file| file.name).collect();
        self.remove(folder, &names)
    }

    fn remove_drafts(&self, _folder: &str) -> Result<(), BackupError> {
        // An object appears with its whole content.
        Ok(())
    }

    fn lock(&self, name: &str, holder: Option<&str>) -> Result<Box<dyn Lock>, BackupError> {
        let path = self.path(name);
        let lease = Lease::take(self.store.clone(), self.key(name), path, holder, self.times)?;
        Ok(Box::new(lease))
    }
}

/// The content of an object.
struct Content {
    /// The rest; `None` behind the end or an error.
    stream: Option<BoxStream<'static, object_store::Result<Bytes>>>,
    piece: Bytes,
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let Some(mut stream) = self.stream.take() else {
                return Ok(0);
            };
            let next = run(async move {
                let next = stream.next().await;
                (stream, next)
            });
            let (stream, next) = next?;
            match next {
                Some(piece) => self.piece = piece.map_err(io_error)?,
                None => return Ok(0),
            }
            self.stream = Some(stream);
        }
        let read = buffer.len().min(self.piece.len());
        buffer[..read].copy_from_slice(&self.piece.split_to(read));
        Ok(read)
    }
}

/// Returns the answer of a service as an error of reading and writing.
pub(super) fn io_error(error: Error) -> io::Error {
    let kind = match error {
        Error::NotFound { .. } => ErrorKind::NotFound,
        Error::AlreadyExists { .. } => ErrorKind::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            ErrorKind::PermissionDenied
        }
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, short(&error.to_string()))
}

/// Returns the words for the answer of a service, in one line: of its XML, the code and the message
/// alone. The rest may repeat headers of the request, with credentials.
fn short(text: &str) -> String {
    let (before, xml) = match text.find('<') {
        Some(place) => text.split_at(place),
        None => (text, ""),
    };
    let element = |name: &str| {
        let behind = xml.split_once(&format!("<{name}>"))?.1;
        Some(behind.split_once('<')?.0)
    };
    let mut words = vec![before.trim_end_matches([' ', ':'])];
    words.extend(["Code", "Message"].into_iter().filter_map(element));
    let words: String = words
        .join(": ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    words.chars().take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_a_service_is_one_line_without_the_request() {
        let text = "Error performing PUT http://a/b in 1s - Server returned non-2xx status code: \
                    403 Forbidden: <?xml version=\"1.0\"?>\n<Error><Code>SignatureDoesNotMatch\
                    </Code><Message>The key\nis another.</Message><CanonicalRequest>PUT\n\
                    x-amz-security-token:SECRET</CanonicalRequest></Error>";
        assert_eq!(
            short(text),
            "Error performing PUT http://a/b in 1s - Server returned non-2xx status code: 403 \
             Forbidden: SignatureDoesNotMatch: The key is another."
        );
        assert_eq!(short("no XML"), "no XML");
        assert_eq!(short(&"x".repeat(9_999)).len(), WORDS_MAX);
    }

    #[test]
    fn a_value_of_a_file_loses_its_line_feed_and_other_control_characters_are_refused() {
        let text = |value: &str| text_of_variable("AWS_REGION", OsStr::new(value));
        assert_eq!(text("eu-central-1\n").unwrap(), "eu-central-1");
        assert!(text("a\nb").unwrap_err().contains("AWS_REGION"));
    }
}
