//! A client of the direct mode: frames over TLS, one connection that stays open.

use super::{Answer, Request, Server};
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_rntbd::tokens::{answer, context_answer, request as tokens};
use orrery_rntbd::{AnswerHead, FrameWriter, Token, Value};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The activity id of all frames.
pub(crate) const ACTIVITY: [u8; 16] = *b"0123456789abcdef";

/// The token and the resource number of each word of a path.
const WORDS: [(&str, &Token, u16); 9] = [
    ("dbs", &tokens::DATABASE_NAME, 1),
    ("colls", &tokens::COLLECTION_NAME, 2),
    ("docs", &tokens::DOCUMENT_NAME, 3),
    ("users", &tokens::USER_NAME, 5),
    ("permissions", &tokens::PERMISSION_NAME, 6),
    ("sprocs", &tokens::STORED_PROCEDURE_NAME, 7),
    ("conflicts", &tokens::CONFLICT_NAME, 8),
    ("triggers", &tokens::TRIGGER_NAME, 9),
    ("udfs", &tokens::USER_DEFINED_FUNCTION_NAME, 10),
];

/// The operations by the methods that their signatures have.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Create = 0x01,
    Patch = 0x02,
    Read = 0x03,
    ReadFeed = 0x04,
    Delete = 0x05,
    Replace = 0x06,
    Execute = 0x08,
    Query = 0x0F,
    Head = 0x11,
    Upsert = 0x13,
    Batch = 0x25,
}

impl Operation {
    fn method(self) -> &'static str {
        match self {
            Operation::Read | Operation::ReadFeed => "GET",
            Operation::Patch => "PATCH",
            Operation::Delete => "DELETE",
            Operation::Replace => "PUT",
            Operation::Head => "HEAD",
            _ => "POST",
        }
    }
}

/// A request as a frame, which is signed when it is sent.
#[derive(Clone)]
pub(crate) struct Frame {
    operation: Operation,
    path: String,
    texts: Vec<(&'static Token, String)>,
    numbers: Vec<(&'static Token, u64)>,
    payload: Vec<u8>,
    is_signed: bool,
}

impl Frame {
    /// Creates a request for a path of names, which are not escaped.
    pub(crate) fn new(operation: Operation, path: &str) -> Frame {
        Frame {
            operation,
            path: path.to_owned(),
            texts: Vec::new(),
            numbers: Vec::new(),
            payload: Vec::new(),
            is_signed: true,
        }
    }

    pub(crate) fn text(mut self, token: &'static Token, value: impl Into<String>) -> Frame {
        self.texts.push((token, value.into()));
        self
    }

    pub(crate) fn number(mut self, token: &'static Token, value: u64) -> Frame {
        self.numbers.push((token, value));
        self
    }

    /// Adds the partition key.
    pub(crate) fn key(self, key: &str) -> Frame {
        let key = Json::Array(vec![key.into()]).to_text();
        self.text(&tokens::PARTITION_KEY, key)
    }

    pub(crate) fn payload(mut self, payload: impl Into<Vec<u8>>) -> Frame {
        self.payload = payload.into();
        self
    }

    pub(crate) fn unsigned(mut self) -> Frame {
        self.is_signed = false;
        self
    }

    /// Returns the bytes of the frame.
    pub(crate) fn bytes(&self, number: u32, key: &str) -> Vec<u8> {
        let segments: Vec<&str> = self.path.trim_matches('/').split('/').collect();
        let last = segments.iter().rev().find_map(|segment| word(segment));
        let (_, _, resource) = last.expect("a resource");
        let mut frame = FrameWriter::request(*resource, self.operation as u16, ACTIVITY);
        frame.number(&tokens::TRANSPORT_REQUEST_ID, u64::from(number));
        frame.number(
            &tokens::PAYLOAD_PRESENT,
            u64::from(!self.payload.is_empty()),
        );
        for pair in segments.chunks(2) {
            if let [segment, name] = pair {
                let (_, token, _) = word(segment).expect("a word");
                frame.text(token, name);
            }
        }
        if self.is_signed {
            let request = Request::new(self.operation.method(), &self.path);
            for (name, value) in request.signed_headers(key) {
                match name.as_str() {
                    "x-ms-date" => frame.text(&tokens::DATE, &value),
                    "authorization" => frame.text(&tokens::AUTHORIZATION_TOKEN, &value),
                    _ => true,
                };
            }
        }
        for (token, text) in &self.texts {
            assert!(frame.text(token, text), "{} is too long", token.name);
        }
        for (token, number) in &self.numbers {
            frame.number(token, *number);
        }
        frame.finish(&self.payload)
    }
}

fn word(segment: &str) -> Option<&'static (&'static str, &'static Token, u16)> {
    WORDS.iter().find(|(word, _, _)| *word == segment)
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct FrameAnswer {
    pub(crate) status: u32,
    pub(crate) number: u64,
    head: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl FrameAnswer {
    fn head(&self) -> AnswerHead<'_> {
        AnswerHead::parse(&self.head, answer::TABLE).expect("a head")
    }

    /// Returns status and sub-status.
    pub(crate) fn code(&self) -> (u32, u64) {
        (
            self.status,
            self.number_of(&answer::SUB_STATUS).unwrap_or(0),
        )
    }

    pub(crate) fn number_of(&self, token: &Token) -> Option<u64> {
        self.head().number(token)
    }

    pub(crate) fn text_of(&self, token: &Token) -> Option<String> {
        self.head().text(token).map(str::to_owned)
    }

    /// Returns the charge in request units.
    pub(crate) fn charge(&self) -> f64 {
        match self.head().value(&answer::REQUEST_CHARGE) {
            Some(Value::Double(charge)) => charge,
            other => panic!("no charge: {other:?}"),
        }
    }

    pub(crate) fn json(&self) -> Json {
        parse(&self.payload).expect("JSON")
    }

    pub(crate) fn body(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}

/// Returns the places in an answer about addresses, and true with those of a primary.
pub(crate) fn places(body: &str) -> Vec<(bool, String)> {
    let body = parse(body.as_bytes()).expect("JSON");
    let Some(Json::Array(list)) = body.get("Addresss") else {
        panic!("no addresses in {}", body.to_text());
    };
    let mut places = Vec::new();
    for address in list {
        let is_primary = address.get("isPrimary") == Some(&Json::Bool(true));
        let uri = super::text(address, "physcialUri");
        let place = uri.trim_start_matches("rntbd://");
        let place = place.split('/').next().unwrap_or_default();
        places.push((is_primary, place.to_owned()));
    }
    places
}

/// A connection of the direct mode.
pub(crate) struct Frames {
    stream: StreamOwned<ClientConnection, TcpStream>,
    key: String,
    next: u32,
}

impl Frames {
    /// Opens a connection and waits for the answer to its context.
    pub(crate) fn connect(server: &Server) -> Frames {
        Frames::connect_at(server, &server.address)
    }

    /// Opens a connection to an address of a server.
    pub(crate) fn connect_at(server: &Server, address: &str) -> Frames {
        let mut frames = Frames::dial(server, address);
        let context = FrameWriter::request(0, 0, ACTIVITY).finish(&[]);
        frames.write(&context).expect("it is open");
        let head = frames.read_head().expect("an answer");
        let head = AnswerHead::parse(&head, context_answer::TABLE).expect("a head");
        assert_eq!((head.status, head.activity_id), (200, ACTIVITY));
        assert_eq!(head.text(&context_answer::SERVER_AGENT), Some("orrery"));
        frames
    }

    /// Opens a TLS connection to an address of a server and sends nothing on it.
    pub(crate) fn dial(server: &Server, address: &str) -> Frames {
        let request = Request::new("GET", "/_explorer/emulator.pem").unsigned();
        let answer = server.client().call(&request);
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&answer.body) {
            roots
                .add(certificate.expect("a certificate"))
                .expect("a root");
        }
        Frames::dial_with(server, address, roots)
    }

    /// Opens a TLS connection of a client that trusts no certificate.
    pub(crate) fn dial_distrustful(server: &Server) -> Frames {
        Frames::dial_with(server, &server.address, RootCertStore::empty())
    }

    fn dial_with(server: &Server, address: &str, roots: RootCertStore) -> Frames {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        stream
            .set_read_timeout(Some(super::TIMEOUT))
            .expect("a socket");
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("TLS");
        Frames {
            stream: StreamOwned::new(connection, stream),
            key: server.key.clone(),
            next: 1,
        }
    }

    /// Sends one request of HTTP over TLS. The host is that of the client's URL.
    pub(crate) fn over_https(server: &Server, host: &str, request: Request) -> Answer {
        let request = request.header("Connection", "close");
        let mut tls = Frames::dial(server, &server.address);
        tls.write(&request.bytes(host, &server.key))
            .expect("it is open");
        let bytes = tls.rest();
        Answer::read(&mut &bytes[..]).expect("an answer")
    }

    /// Does the TLS handshake.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        while self.stream.conn.is_handshaking() {
            self.stream.conn.complete_io(&mut self.stream.sock)?;
        }
        Ok(())
    }

    /// Sends bytes, whatever they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Reads all that the server sends until it closes the connection.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A server may close without the farewell of TLS; what was read is kept.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }

    /// Sends a request; returns its number.
    pub(crate) fn send(&mut self, frame: &Frame) -> u64 {
        let number = self.next;
        self.next += 1;
        let bytes = frame.bytes(number, &self.key);
        self.write(&bytes).expect("it is open");
        u64::from(number)
    }

    /// Sends a request and returns the answer to it.
    pub(crate) fn call(&mut self, frame: &Frame) -> FrameAnswer {
        let number = self.send(frame);
        let answer = self.answer().expect("an answer");
        assert_eq!(answer.number, number);
        answer
    }

    /// Reads the next answer.
    pub(crate) fn answer(&mut self) -> io::Result<FrameAnswer> {
        let bytes = self.read_head()?;
        let head = AnswerHead::parse(&bytes, answer::TABLE).map_err(io::Error::other)?;
        let mut payload = Vec::new();
        if head.number(&answer::PAYLOAD_PRESENT) == Some(1) {
            let mut length = [0; 4];
            self.stream.read_exact(&mut length)?;
            payload.resize(u32::from_le_bytes(length) as usize, 0);
            self.stream.read_exact(&mut payload)?;
        }
        assert_eq!(head.activity_id, ACTIVITY);
        Ok(FrameAnswer {
            status: head.status,
            number: head
                .number(&answer::TRANSPORT_REQUEST_ID)
                .expect("a number"),
            payload,
            head: bytes,
        })
    }

    fn read_head(&mut self) -> io::Result<Vec<u8>> {
        let mut first = [0; 4];
        self.stream.read_exact(&mut first)?;
        let mut head = first.to_vec();
        head.resize(u32::from_le_bytes(first) as usize, 0);
        self.stream.read_exact(&mut head[4..])?;
        Ok(head)
    }
}
