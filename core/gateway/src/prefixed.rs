//! A stream whose first bytes have been read already: what tells the protocols of one port apart.

use crate::spin::Socket;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The bytes that tell a frame of the direct mode from HTTP.
const PREFIX_BYTES: usize = 8;

/// A stream with its first bytes before the rest.
pub(crate) struct Prefixed<S> {
    stream: S,
    prefix: [u8; PREFIX_BYTES],
    /// The bytes of the prefix that are there, and those that were read again.
    filled: usize,
    taken: usize,
}

impl<S: AsyncRead + Unpin> Prefixed<S> {
    /// Reads the first bytes of a stream. Fewer arrive only if the stream ends. A client that
    /// closes the connection without the farewell of TLS ends the stream as well.
    pub(crate) async fn read(mut stream: S) -> io::Result<Self> {
        let mut prefix = [0; PREFIX_BYTES];
        let mut filled = 0;
        while filled < PREFIX_BYTES {
            let read = match stream.read(&mut prefix[filled..]).await {
                Ok(read) => read,
                Err(error) if filled == 0 && is_end(&error) => 0,
                Err(error) => return Err(error),
            };
            if read == 0 {
                break;
            }
            filled += read;
        }
        Ok(Prefixed {
            stream,
            prefix,
            filled,
            taken: 0,
        })
    }

    /// Returns true if the stream ended before its first byte.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns true if the stream begins with a frame of the direct mode: the resource and the
    /// operation of the first one are 0, and neither version of HTTP has zeros there.
    pub(crate) fn begins_with_frame(&self) -> bool {
        self.filled == PREFIX_BYTES && self.prefix[4..] == [0; 4]
    }
}

/// Returns true for the error of a connection that its client has closed.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let ends = [
        BrokenPipe,
        ConnectionAborted,
        ConnectionReset,
        UnexpectedEof,
    ];
    ends.contains(&error.kind())
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken < self.filled {
            let rest = &self.prefix[self.taken..self.filled];
            let count = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..count]);
            self.taken += count;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<S: Socket> Socket for Prefixed<S> {
    fn has_input(&self) -> bool {
        self.taken < self.filled || self.stream.has_input()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_bytes_are_read_again() {
        let mut whole = Prefixed::read(&b"GET /dbs HTTP/1.1"[..])
            .await
            .expect("bytes");
        assert!(!whole.begins_with_frame() && !whole.is_empty());
        let mut text = String::new();
        whole.read_to_string(&mut text).await.expect("text");
        assert_eq!(text, "GET /dbs HTTP/1.1");
    }

    #[tokio::test]
    async fn a_frame_begins_with_a_length_and_four_zeros() {
        let begins = async |bytes: &[u8]| {
            let stream = Prefixed::read(bytes).await.expect("bytes");
            (stream.begins_with_frame(), stream.is_empty())
        };
        assert_eq!(begins(&[60, 0, 0, 0, 0, 0, 0, 0, 9]).await, (true, false));
        assert_eq!(begins(b"PRI * HTTP/2.0\r\n").await, (false, false));
        assert_eq!(begins(&[60, 0, 0, 0, 3, 0, 1, 0]).await, (false, false));
        // An end within the first bytes is no frame.
        assert_eq!(begins(&[60, 0, 0, 0, 0, 0, 0]).await, (false, false));
        assert_eq!(begins(b"").await, (false, true));
    }
}
