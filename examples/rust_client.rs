//! A client of the protocol in Rust: signs requests with the account's master key, creates a
//! database, a container and an item, reads the item and queries.
//!
//! ```text
//! cargo run --release -p orrery-cli -- start --memory
//! cargo run -p orrery-examples --bin rust-client -- 127.0.0.1:8081 KEY
//! ```
//!
//! The server prints the key when it starts. The steps of a signature are in [`authorization`]; the
//! rest is plain HTTP/1.1 with JSON bodies.
//! Leaves out: TLS, retries of throttled requests, session tokens. An official SDK has all of them.

#![allow(
    clippy::print_stdout,
    reason = "the output is the purpose of the program"
)]

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use orrery_model::Json;
use orrery_model::json::parse;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use tokio::net::TcpStream;

/// Version of the REST protocol that the client speaks.
const API_VERSION: &str = "2018-12-31";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("usage: rust-client ADDRESS KEY, for example 127.0.0.1:8081 C2y6y…".into());
    };
    let mut client = Client::connect(&address, &key).await?;

    // A create goes to the feed of the new resource's kind, and is signed with the parent's link.
    client
        .create("dbs", "", "dbs", r#"{"id": "blog"}"#, &[])
        .await?;
    let container = r#"{"id": "posts", "partitionKey": {"paths": ["/user"], "kind": "Hash"}}"#;
    client
        .create("colls", "dbs/blog", "dbs/blog/colls", container, &[])
        .await?;
    let posts = "dbs/blog/colls/posts";
    let feed = "dbs/blog/colls/posts/docs";

    // Each item operation names the logical partition: a JSON array with the key's values.
    let key = ("x-ms-documentdb-partitionkey", r#"["ada"]"#);
    let of_ada = [key];
    let item = r#"{"id": "1", "user": "ada", "title": "On engines"}"#;
    let created = client.create("docs", posts, feed, item, &of_ada).await?;
    println!("created for {} RU", created.charge);

    let link = "dbs/blog/colls/posts/docs/1";
    let read = client.send(Method::GET, "docs", link, link, "", &of_ada);
    let read = read.await?.expect(StatusCode::OK)?;
    let title = read.body.get("title").and_then(Json::as_str);
    println!("read {title:?} for {} RU", read.charge);

    // A query is a POST to the feed with a content type of its own.
    let query = r#"{"query": "SELECT VALUE c.title FROM c WHERE c.user = @user",
                    "parameters": [{"name": "@user", "value": "ada"}]}"#;
    let headers = [
        key,
        ("x-ms-documentdb-isquery", "True"),
        ("content-type", "application/query+json"),
    ];
    let found = client.send(Method::POST, "docs", posts, feed, query, &headers);
    let found = found.await?.expect(StatusCode::OK)?;
    let rows = found.body.get("Documents").map(Json::to_text);
    println!("found {} for {} RU", rows.unwrap_or_default(), found.charge);
    Ok(())
}

/// A connection to a server, and the account's key.
struct Client {
    connection: SendRequest<Full<Bytes>>,
    address: String,
    key: Vec<u8>,
}

/// A response: status, request charge and JSON body.
struct Response {
    status: StatusCode,
    charge: String,
    body: Json,
}

impl Client {
    /// Connects to a server, `host:port`, with the account's key in base64.
    async fn connect(address: &str, key: &str) -> Result<Client, Box<dyn Error>> {
        let stream = TcpStream::connect(address).await?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await?;
        // The driver moves bytes between the socket and the requests, until the client is dropped.
        tokio::spawn(driver);
        Ok(Client {
            connection,
            address: address.to_owned(),
            key: BASE64.decode(key)?,
        })
    }

    /// Creates a resource; an existing one is an error.
    async fn create(
        &mut self,
        kind: &str,
        parent: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response, Box<dyn Error>> {
        let response = self.send(Method::POST, kind, parent, path, body, headers);
        response.await?.expect(StatusCode::CREATED)
    }

    /// Sends a signed request. `kind` and `link` are signed; `path` is where the request goes.
    async fn send(
        &mut self,
        method: Method,
        kind: &str,
        link: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response, Box<dyn Error>> {
        let now = jiff::Timestamp::now();
        let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let signature = authorization(&self.key, &method, kind, link, &date)?;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/{path}"))
            .header("host", &self.address)
            .header("x-ms-version", API_VERSION)
            .header("x-ms-date", date)
            .header("authorization", signature);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;

        let response = self.connection.send_request(request).await?;
        let status = response.status();
        let charge = response.headers().get("x-ms-request-charge");
        let charge = charge.map_or("0", |value| value.to_str().unwrap_or_default());
        let charge = charge.to_owned();
        let body = response.into_body().collect().await?.to_bytes();
        let body = if body.is_empty() {
            Json::Null
        } else {
            parse(&body)?
        };
        Ok(Response {
            status,
            charge,
            body,
        })
    }
}

impl Response {
    /// Returns the response if it has this status, or else its message as an error.
    fn expect(self, status: StatusCode) -> Result<Response, Box<dyn Error>> {
        if self.status == status {
            return Ok(self);
        }
        let message = self.body.get("message").and_then(Json::as_str);
        Err(format!("{}: {}", self.status, message.unwrap_or_default()).into())
    }
}

/// Returns the `authorization` header: an HMAC-SHA256 of five lines under the account's key.
///
/// The lines are method, resource type and date in lower case, the link as it reads, and an empty
/// line; each ends with a line feed. The link names the resource, or the parent of a feed.
fn authorization(
    key: &[u8],
    method: &Method,
    kind: &str,
    link: &str,
    date: &str,
) -> Result<String, Box<dyn Error>> {
    let method = method.as_str().to_lowercase();
    let date = date.to_lowercase();
    let mut mac = Hmac::<Sha256>::new_from_slice(key)?;
    mac.update(format!("{method}\n{kind}\n{link}\n{date}\n\n").as_bytes());
    let signature = BASE64.encode(mac.finalize().into_bytes());
    let token = format!("type=master&ver=1.0&sig={signature}");
    Ok(utf8_percent_encode(&token, NON_ALPHANUMERIC).to_string())
}
