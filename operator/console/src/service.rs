//! The console in front of another service of the same port.

use crate::console::Console;
use bytes::Bytes;
use http::{Request, Response};
use orrery_gateway::{
    BodyMemory, Connection, ConnectionCounters, Log, RequestBody, Service, Unanswered,
};
use std::sync::Arc;

/// The path below which the console is served on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `/`: paths that are not the console's belong to the other service.
    Root,
    /// `/_explorer/`, the path of the vendor's emulator: all paths below are the console's.
    Explorer,
}

impl Base {
    /// Returns the path, with a slash at both ends.
    pub fn path(self) -> &'static str {
        match self {
            Base::Root => "/",
            Base::Explorer => "/_explorer/",
        }
    }

    /// Returns the part of `path` below the base; `None` if the path is not below the base.
    fn strip(self, path: &str) -> Option<&str> {
        match self {
            Base::Root => path.strip_prefix('/'),
            // The path without the last slash is redirected.
            Base::Explorer if path == "/_explorer" => Some(path),
            Base::Explorer => path.strip_prefix(Base::Explorer.path()),
        }
    }
}

/// A service with the console in front.
pub struct WithConsole<S> {
    inner: Arc<S>,
    console: Option<Arc<Console>>,
    base: Base,
}

impl<S: Service> WithConsole<S> {
    /// Puts `console` before `inner`; without a console, all requests go to `inner`.
    pub fn new(inner: Arc<S>, console: Option<Arc<Console>>, base: Base) -> Self {
        WithConsole {
            inner,
            console,
            base,
        }
    }
}

impl<S: Service> Service for WithConsole<S> {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        if let Some(console) = &self.console
            && let Some(below) = self.base.strip(request.uri().path())
            && let Some(place) = console.place(below, self.base)
        {
            // Boxed, so that the requests of clients do not pay for a larger future.
            let answer = console.handle(place, request, connection, self.base);
            return Box::pin(answer).await;
        }
        self.inner.handle(request, connection).await
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
