//! The paths of the port for clients that need no signature: health, the certificate, and in the
//! place of the emulator a page below `/_explorer/` if there is no console.
//!
//! Programs that wait for the vendor's emulator ask for these paths before they sign anything.

use crate::health::Health;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use orrery_gateway::{
    BodyMemory, Connection, ConnectionCounters, Log, RequestBody, Service, Unanswered,
};
use std::sync::Arc;

/// Path of the certificate, as the vendor's emulator has it.
pub(crate) const CERTIFICATE_PATH: &str = "/_explorer/emulator.pem";
/// The page in place of the console.
const NO_CONSOLE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<title>Orrery</title><p>The server runs. Its console is switched off.</p></html>\n";

/// A service with the public paths in front.
pub(crate) struct PublicPaths<S> {
    pub(crate) inner: Arc<S>,
    pub(crate) health: Arc<Health>,
    /// Certificate chain in PEM.
    pub(crate) certificate: Bytes,
    /// True if the paths of the vendor's explorer are answered in place of a console that is off.
    /// Tools ask for them to see whether the vendor's emulator runs.
    pub(crate) stands_in_for_console: bool,
}

impl<S: Service> PublicPaths<S> {
    async fn answer(&self, request: &Request<RequestBody>) -> Option<Response<Bytes>> {
        let path = request.uri().path();
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        match path {
            "/alive" | "/ready" | "/status" => self.health.answer(request.method(), path).await,
            CERTIFICATE_PATH => Some(document("application/x-pem-file", self.certificate.clone())),
            "/_explorer" | "/_explorer/" | "/_explorer/index.html"
                if self.stands_in_for_console =>
            {
                let page = Bytes::from_static(NO_CONSOLE.as_bytes());
                Some(document("text/html; charset=utf-8", page))
            }
            _ => None,
        }
    }
}

impl<S: Service> Service for PublicPaths<S> {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        match self.answer(&request).await {
            Some(response) => Ok(response),
            None => self.inner.handle(request, connection).await,
        }
    }

    fn log(&self) -> &Log {
        self.inner.log()
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn connections(&self) -> Arc<ConnectionCounters> {
        self.inner.connections()
    }

    fn memory(&self) -> &BodyMemory {
        self.inner.memory()
    }
}

fn document(content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
