//! The check of a server's certificate: period, names, and trust of the programs of this system.
//!
//! The certificate is taken from a handshake that accepts everything, and then verified as a client
//! of this system verifies it. A server of this program answers TLS on the port of plain HTTP too;
//! its certificate counts as a warning there, because clients of that port need none.

use super::Finding;
use super::endpoint::Target;
use jiff::Timestamp;
use orrery_client::Trust;
use orrery_client::tls::{Shown, shown};
use std::time::Duration;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Time for the handshake.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds before the end of a certificate that are worth a warning.
const ENDS_SOON: i64 = 14 * 24 * 60 * 60;
const CHECK: &str = "certificate";

/// Checks the certificate of a target.
pub(super) async fn check(target: &Target, trust: &Trust, is_ours: bool) -> Finding {
    if !target.is_https && !is_ours {
        return Finding::skipped(CHECK, "the endpoint is http, and no certificate is shown");
    }
    let handshake = shown(&target.host, target.port, trust);
    let shown = match tokio::time::timeout(TIMEOUT, handshake).await {
        Ok(Ok(shown)) => shown,
        Ok(Err(cause)) if target.is_https => {
            let remedy = "use http:// if the server has no TLS";
            return Finding::problem(CHECK, format!("no TLS handshake: {cause}"), remedy);
        }
        Err(_) if target.is_https => {
            let found = format!("no TLS handshake within {} s", TIMEOUT.as_secs());
            return Finding::problem(CHECK, found, "use http:// if the server has no TLS");
        }
        _ => return Finding::skipped(CHECK, "the server answers plain HTTP only"),
    };
    judge(target, trust, is_ours, &shown)
}

fn judge(target: &Target, trust: &Trust, is_ours: bool, shown: &Shown) -> Finding {
    // Without a certificate that clients can refuse there is nothing worse than a warning.
    let matters = target.is_https && *trust != Trust::Any;
    let fault = |found: String, remedy: String| match matters {
        true => Finding::problem(CHECK, found, remedy),
        false => Finding::warning(CHECK, found, remedy),
    };
    let parsed = X509Certificate::from_der(&shown.certificate);
    let Ok((_, certificate)) = parsed else {
        return fault(
            "it cannot be parsed".into(),
            "give the server another certificate".into(),
        );
    };
    let validity = certificate.validity();
    let (begins, ends) = (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    );
    let now = Timestamp::now().as_second();
    let day = |second: i64| match Timestamp::from_second(second) {
        Ok(time) => time.to_string(),
        Err(_) => second.to_string(),
    };
    let renew = match is_ours {
        true => {
            "start the server again: it issues its own certificate anew; for one of \
                 --tls-cert, renew the file"
        }
        false => "renew the certificate of the server",
    };
    if ends < now {
        return fault(format!("it ended at {}", day(ends)), renew.into());
    }
    if begins > now {
        let remedy = "check the clock of this machine, or wait";
        return fault(format!("it begins at {}", day(begins)), remedy.into());
    }
    let names = names(&certificate);
    let described = format!("for {}, until {}", names.join(", "), day(ends));
    match &shown.verdict {
        Ok(()) if ends - now < ENDS_SOON => Finding::warning(CHECK, described, renew),
        Ok(()) => Finding::ok(CHECK, format!("trusted; {described}")),
        Err(distrust) if distrust.is_about_names => {
            let found = format!("it is not for {}, but {described}", target.host);
            let remedy = match is_ours {
                true => "connect with one of these names, or start the server with --cert-host",
                false => "connect with one of these names",
            };
            fault(found, remedy.into())
        }
        Err(distrust) => {
            let cause = &distrust.cause;
            let from = match target.is_https {
                true => format!("https://{}", target.authority()),
                false => target.authority(),
            };
            let remedy = format!(
                "run 'orrery cert install --endpoint {from}', or give clients the file of 'orrery \
                 cert export' (Java: 'orrery cert java-keystore'; Node.js: NODE_EXTRA_CA_CERTS)"
            );
            fault(
                format!("programs of this system do not trust it ({cause}); {described}"),
                remedy,
            )
        }
    }
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.map(|extension| &extension.value.general_names);
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress([a, b, c, d]) => Some(format!("{a}.{b}.{c}.{d}")),
        GeneralName::IPAddress(bytes) => {
            let bytes: [u8; 16] = (*bytes).try_into().ok()?;
            Some(std::net::Ipv6Addr::from(bytes).to_string())
        }
        _ => None,
    };
    names.into_iter().flatten().filter_map(name).collect()
}
