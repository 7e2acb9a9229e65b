//! TLS handshakes that a client has refused: the sign of a certificate that the client does not
//! trust.
//!
//! Clients of the direct mode report such a refusal as a time-out of half a minute and more, whose
//! text speaks of the load of the machine. The server sees the refusal itself, counts it, and tells
//! the operator with the remedy.
//!
//! A client refuses with an alert, or, as the .NET runtime on Linux does, by closing the connection
//! right after the handshake without a byte. A probe of a load balancer that does no more than a
//! handshake looks like the latter.

use crate::log::{Field, Log, LogLevel};
use orrery_model::sync::lock;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio_rustls::rustls;
use tokio_rustls::rustls::AlertDescription;

/// The shortest time between two lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The way in which a client refused a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client named its reason.
    Alert(AlertDescription),
    /// The client closed the connection after the handshake without a byte.
    Silent,
}

impl Refusal {
    /// Returns the refusal behind the error of a handshake; `None` for another error.
    pub(crate) fn of(error: &io::Error) -> Option<Refusal> {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        let rustls::Error::AlertReceived(alert) = error else {
            return None;
        };
        let is_about_certificate = matches!(
            alert,
            AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
        );
        is_about_certificate.then_some(Refusal::Alert(*alert))
    }

    /// Returns the refusal in words.
    fn words(self) -> String {
        match self {
            Refusal::Alert(alert) => format!("the client answered {alert:?}"),
            Refusal::Silent => "the client closed the connection after the handshake".to_owned(),
        }
    }
}

/// The refused handshakes of a port.
#[derive(Debug, Default)]
pub(crate) struct RefusedHandshakes {
    last_told: Mutex<Option<Instant>>,
}

impl RefusedHandshakes {
    /// Tells the operator of a refusal, at most once in a minute.
    pub(crate) fn tell(&self, refusal: Refusal, peer: IpAddr, log: &Log, now_ms: u64) {
        let now = Instant::now();
        let mut last = lock(&self.last_told);
        if last.is_some_and(|last| now.duration_since(last) < LOG_INTERVAL) {
            return;
        }
        *last = Some(now);
        drop(last);
        let (peer, reason) = (peer.to_string(), refusal.words());
        let fields = [
            ("peer", Field::Text(&peer)),
            ("reason", Field::Text(&reason)),
            (
                "remedy",
                Field::Text(
                    "let the client trust the certificate: orrery cert install, or SSL_CERT_FILE; \
                     docs/how-to/certificates.md has each SDK",
                ),
            ),
        ];
        let message = "a client has refused the TLS handshake, probably because it does not trust \
                       the certificate";
        log.write(now_ms, LogLevel::Warn, message, &fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_about_certificates_are_refusals_and_others_are_not() {
        let of = |error: rustls::Error| Refusal::of(&io::Error::other(error));
        let alert = AlertDescription::UnknownCA;
        let refused = of(rustls::Error::AlertReceived(alert));
        assert_eq!(refused, Some(Refusal::Alert(alert)));
        let other = AlertDescription::ProtocolVersion;
        assert_eq!(of(rustls::Error::AlertReceived(other)), None);
        assert_eq!(of(rustls::Error::DecryptError), None);
        assert_eq!(Refusal::of(&io::ErrorKind::UnexpectedEof.into()), None);
    }
}
