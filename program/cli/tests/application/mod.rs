//! The application of the blog, served in the test process over a database server of its own, and a
//! browser without scripts that uses the application.

#[path = "../../src/blog/port.rs"]
mod port;

use crate::program::{Server, number, start};
use orrery_blog::pipelines::ServiceOptions;
use orrery_blog::{Blog, Client, Model, Pipelines, Site, Throughput};
use orrery_blog_web::Options;
use orrery_gateway::{CloseReason, ConnectionCounters, Log, LogFormat, LogLevel, Service, serve};
use orrery_model::world::SeededWorld;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// Time limit of an answer; a test fails rather than hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The application with its database.
pub(crate) struct Application {
    pub(crate) database: Server,
    pub(crate) site: Site,
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    /// The pipelines that run in the process of the application.
    pub(crate) pipelines: Arc<Pipelines>,
    /// The largest number of connections of visitors, from the next call of `serve` on.
    pub(crate) connections: usize,
    counters: Arc<ConnectionCounters>,
    stop: Option<oneshot::Sender<()>>,
}

/// Starts a database in memory and the application with all models, home V3.
pub(crate) fn application() -> Application {
    application_with(&Model::ALL, &["--memory"], Throughput::of_each(6_000))
}

/// Starts the application with `models`; the last one is home.
pub(crate) fn application_with(
    models: &[Model],
    arguments: &[&str],
    throughput: Throughput,
) -> Application {
    let database = start(arguments).expect("it starts");
    let runtime = Runtime::new().expect("a runtime");
    let endpoint = format!("http://{}", database.address);
    let client = Client::new(&endpoint, &database.key, 32).expect("a client");
    let home = *models.last().expect("a model");
    let site = Site::new(client, "blog", home, models, throughput);
    runtime.block_on(async {
        for model in models {
            site.blog(*model).create().await.expect("a new database");
        }
        site.control().create_missing().await.expect("containers");
    });
    let pipelines = Arc::new(Pipelines::of_site(&site, ServiceOptions::default()));
    let mut application = Application {
        database,
        pipelines,
        site,
        runtime,
        connections: 1_024,
        counters: Arc::default(),
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        stop: None,
    };
    application.serve();
    application
}

impl Application {
    /// Serves the application on a free port; an earlier one is stopped.
    pub(crate) fn serve(&mut self) {
        self.stop = None;
        let listener = self
            .runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("a free port");
        self.address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let options = Options {
            demo: true,
            console: None,
            pipelines: Some(self.pipelines.clone()),
            lab: orrery_blog::lesson::lab::LabOptions::default(),
            // A browser of a test may say where it is.
            proxies: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        };
        let application = orrery_blog_web::Application::open(self.site.clone(), options);
        let application = self.runtime.block_on(application);
        let log = Arc::new(Log::new(LogLevel::Error, LogFormat::Text, std::io::sink()));
        let world = Arc::new(SeededWorld::new(0, 1));
        let port = port::port(application, self.connections, log, world);
        self.counters = port.service.connections();
        let served = serve(port, vec![listener], async move {
            let _ = stopped.await;
        });
        self.runtime.spawn(served);
        self.stop = Some(stop);
    }

    /// Returns a browser without cookies.
    pub(crate) fn browser(&self) -> Browser {
        Browser {
            address: self.address,
            cookie: String::new(),
            place: None,
        }
    }

    /// Returns the number of connections of visitors that were closed for a reason.
    pub(crate) fn closed(&self, reason: CloseReason) -> u64 {
        self.counters.closed(reason)
    }

    /// Returns a browser of a user who has just signed up, and the user's id.
    pub(crate) fn signed_up(&self, name: &str) -> (Browser, String) {
        let mut browser = self.browser();
        let form = browser.get("/signup").form("/signup");
        let answer = browser.send(
            "/signup",
            form.with("username", name).with("password", "long enough"),
        );
        assert_eq!(answer.status, 303, "{}", answer.body);
        let profile = browser.get("/profile");
        let id = profile
            .between("/users/", "\"")
            .expect("a link to the posts");
        (browser, id)
    }

    /// Starts the pipelines.
    pub(crate) fn start_pipelines(&self) {
        let _runtime = self.runtime.enter();
        self.pipelines.start();
    }

    /// Waits until every pipeline has processed every change.
    pub(crate) fn settle(&self) {
        self.wait(self.pipelines.settled()).expect("an answer");
    }

    /// Adds a fault rule to the database and returns its id.
    pub(crate) fn fail(&self, rule: &str) -> String {
        let answer = self.database.manager().ok("POST", "/faults", rule).json();
        number(&answer, "id").to_string()
    }

    /// Removes all fault rules.
    pub(crate) fn heal(&self) {
        self.database.manager().ok("DELETE", "/faults", "");
    }

    /// Returns the blog of a model.
    pub(crate) fn blog(&self, model: Model) -> Blog {
        self.site.blog(model)
    }

    /// Waits for a future of the blog's library.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// A browser without scripts: one cookie, one connection for each request.
#[derive(Clone)]
pub(crate) struct Browser {
    address: SocketAddr,
    cookie: String,
    /// The address of the visitor, as a proxy tells it.
    place: Option<String>,
}

/// An answer of the application.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// The fields of a form.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn encoded(&self) -> String {
        let escape = |text: &str| {
            percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
                .to_string()
        };
        let mut pairs = Vec::new();
        for (name, value) in &self.0 {
            pairs.push(format!("{}={}", escape(name), escape(value)));
        }
        pairs.join("&")
    }
}

impl Browser {
    /// Returns the browser at another address.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.place = Some(place.to_owned());
        self
    }

    pub(crate) fn get(&mut self, path: &str) -> Page {
        self.request("GET", path, &[], "")
    }

    /// Sends a form as a browser does.
    pub(crate) fn send(&mut self, path: &str, fields: Fields) -> Page {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        self.request("POST", path, &headers, &fields.encoded())
    }

    /// Sends a form and follows the redirect.
    pub(crate) fn submit(&mut self, path: &str, fields: Fields) -> Page {
        let answer = self.send(path, fields);
        assert_eq!(answer.status, 303, "{path}: {}", answer.body);
        let to = answer.header("location").expect("a location").to_owned();
        let to = to.split('#').next().unwrap_or_default();
        self.get(to)
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Page {
        let mut stream = TcpStream::connect(self.address).expect("the application listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        text.push_str("connection: close\r\n");
        if !self.cookie.is_empty() {
            text.push_str(&format!("cookie: {}\r\n", self.cookie));
        }
        if let Some(place) = &self.place {
            text.push_str(&format!("x-forwarded-for: {place}\r\n"));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if method == "POST" {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        // A server that refuses a body closes early; the answer can be read all the same.
        let _ = stream.write_all(text.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let page = Page::parse(&answer);
        if let Some(cookie) = page.header("set-cookie") {
            self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        }
        page
    }
}

impl Page {
    fn parse(answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(answer)));
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut page = Self {
            status: status
                .and_then(|status| status.parse().ok())
                .expect("a status"),
            headers,
            body: String::new(),
        };
        let rest = &answer[end + 4..];
        let body = match page.header("transfer-encoding") {
            Some(_) => unchunked(rest),
            None => rest.to_vec(),
        };
        page.body = String::from_utf8_lossy(&body).into_owned();
        page
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the text between the first `from` and the next `to`.
    pub(crate) fn between(&self, from: &str, to: &str) -> Option<String> {
        between(&self.body, from, to).map(str::to_owned)
    }

    /// Returns the hidden and filled fields of the form that is sent to `action`.
    pub(crate) fn form(&self, action: &str) -> Fields {
        let start = format!("action=\"{action}\"");
        let form = between(&self.body, &start, "</form>")
            .unwrap_or_else(|| panic!("no form for {action} in {}", self.body));
        let mut fields = Fields::default();
        for input in form.split("<input").skip(1) {
            let name = between(input, "name=\"", "\"").unwrap_or_default();
            let value = between(input, "value=\"", "\"").unwrap_or_default();
            fields = fields.with(name, &unescaped(value));
        }
        for area in form.split("<textarea").skip(1) {
            let name = between(area, "name=\"", "\"").unwrap_or_default();
            let value = between(area, ">", "</textarea>").unwrap_or_default();
            let value = value.strip_prefix('\n').unwrap_or(value);
            fields = fields.with(name, &unescaped(value));
        }
        fields
    }

    /// Returns the sum in the head of the meter drawer in hundredths of an RU.
    pub(crate) fn meter_sum(&self) -> u64 {
        let sum = self
            .between("<span class=\"charge figure\">", " RU</span>")
            .unwrap_or_else(|| panic!("no meter in {}", self.body));
        hundredths(&sum)
    }

    /// Returns the sums of the rows of the table `caption` in hundredths of an RU.
    pub(crate) fn meter_rows(&self, caption: &str) -> Vec<u64> {
        let start = format!("<caption class=\"hidden-text\">{caption}</caption>");
        let table = between(&self.body, &start, "</table>").expect("a table");
        let mut rows = Vec::new();
        for row in table.split("<tbody data-ru=\"").skip(1) {
            rows.push(hundredths(row.split('"').next().unwrap_or_default()));
        }
        rows
    }

    /// Returns the charge in the headers in hundredths of an RU.
    pub(crate) fn charge(&self) -> u64 {
        hundredths(self.header("x-orrery-request-charge").expect("a charge"))
    }
}

/// Parses `1,234.56`.
pub(crate) fn hundredths(text: &str) -> u64 {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no charge: {text}"))
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let start = text.find(from)? + from.len();
    let length = text[start..].find(to)?;
    Some(&text[start..start + length])
}

fn unescaped(text: &str) -> String {
    let mut plain = text.to_owned();
    for (entity, character) in [
        ("&#34;", "\""),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#60;", "<"),
        ("&lt;", "<"),
        ("&#62;", ">"),
        ("&gt;", ">"),
        ("&#38;", "&"),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(entity, character);
    }
    plain
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = String::from_utf8_lossy(&rest[..end]).trim().to_owned();
        let size = usize::from_str_radix(&size, 16).unwrap_or(0);
        if size == 0 || rest.len() < end + 2 + size {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[(end + 2 + size + 2).min(rest.len())..];
    }
    body
}
