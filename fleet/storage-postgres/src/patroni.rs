//! The question to Patroni which server is the primary: `GET /primary` answers 200 on the server
//! that holds the leader lock, and 503 on others.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The time for one answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The answer of one Patroni.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its server holds the leader lock.
    Primary,
    /// Its server does not hold the leader lock.
    Other,
    /// No answer.
    Unknown,
}

/// The parts of an address of a Patroni.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    is_https: bool,
    host: String,
    port: u16,
}

/// Returns the parts of an address such as `http://10.0.0.1:8008`.
pub(crate) fn parse(url: &str) -> Result<Url, String> {
    let wrong = || format!("'{url}' is no address of a Patroni, such as http://10.0.0.1:8008");
    let parsed: hyper::Uri = url.parse().map_err(|_| wrong())?;
    let is_https = match parsed.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(wrong()),
    };
    let host = parsed.host().ok_or_else(wrong)?;
    if !matches!(parsed.path(), "" | "/") {
        return Err(wrong());
    }
    Ok(Url {
        is_https,
        host: host.trim_matches(['[', ']']).to_owned(),
        port: parsed.port_u16().unwrap_or(8008),
    })
}

/// Asks one Patroni for the role of its server.
pub(crate) async fn role(url: &str, tls: Option<Arc<ClientConfig>>) -> Role {
    let Ok(url) = parse(url) else {
        return Role::Unknown;
    };
    match tokio::time::timeout(TIMEOUT, status(&url, tls)).await {
        Ok(Some(200)) => Role::Primary,
        Ok(Some(503)) => Role::Other,
        _ => Role::Unknown,
    }
}

/// Returns the status of the answer; `None` if there is no answer.
async fn status(url: &Url, tls: Option<Arc<ClientConfig>>) -> Option<u16> {
    let stream = TcpStream::connect((url.host.as_str(), url.port))
        .await
        .ok()?;
    if !url.is_https {
        return status_over(stream, url).await;
    }
    let name = ServerName::try_from(url.host.clone()).ok()?;
    let stream = TlsConnector::from(tls?).connect(name, stream).await.ok()?;
    status_over(stream, url).await
}

async fn status_over<S>(stream: S, url: &Url) -> Option<u16>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/primary")
        .header("host", format!("{}:{}", url.host, url.port))
        .header("connection", "close")
        .body(Empty::<bytes::Bytes>::new())
        .ok()?;
    let answer = sender.send_request(request).await.ok();
    connection.abort();
    Some(answer?.status().as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_a_host_and_perhaps_a_port() {
        let url = |is_https, host: &str, port| Url {
            is_https,
            host: host.to_owned(),
            port,
        };
        assert_eq!(parse("http://db1"), Ok(url(false, "db1", 8008)));
        assert_eq!(parse("https://[::1]:9/"), Ok(url(true, "::1", 9)));
        for wrong in ["db1:8008", "ftp://db1", "http://db1/leader", ""] {
            assert!(parse(wrong).unwrap_err().contains(wrong));
        }
    }
}
