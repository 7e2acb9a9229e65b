//! Which identities of Microsoft Entra ID a server accepts: what the options say, checked together.

use crate::command::{Entra, StartArguments};
use crate::failure::Failure;
use orrery_gateway::Directory;

/// The directory that the options describe; none without `--entra`.
///
/// # Errors
/// Options that do not fit together, tokens that nobody checks on an address that others reach, a file that cannot be
/// read or holds no keys.
pub(crate) fn directory(arguments: &StartArguments) -> Result<Option<Directory>, Failure> {
    let usage = |told: &str| Err(Failure::Usage(told.into()));
    let (issuer, keys) = (&arguments.entra_issuer, &arguments.entra_keys);
    let audiences = arguments.entra_audiences.clone();
    match arguments.entra {
        None => Ok(None),
        Some(Entra::AcceptAny) if !arguments.listen.ip().is_loopback() => usage(
            "--entra accept-any believes every token, and this address can be reached from other machines: listen on \
             127.0.0.1, or use --entra verify",
        ),
        Some(Entra::AcceptAny) if issuer.is_some() || keys.is_some() => usage(
            "--entra accept-any checks no signature: an issuer and its keys belong to --entra verify",
        ),
        Some(Entra::AcceptAny) => Ok(Some(Directory::accept_any().for_audiences(audiences))),
        Some(Entra::Verify) => {
            let (Some(issuer), Some(file), false) = (issuer, keys, audiences.is_empty()) else {
                return usage(
                    "--entra verify needs --entra-issuer, --entra-audience and --entra-keys",
                );
            };
            let keys = std::fs::read_to_string(file).map_err(|error| {
                Failure::Failed(format!("cannot read the file {}: {error}", file.display()))
            })?;
            let directory = Directory::issued_by(issuer, &keys).map_err(|error| {
                Failure::Failed(format!(
                    "the file {} is no key set: {error}",
                    file.display()
                ))
            })?;
            Ok(Some(directory.for_audiences(audiences)))
        }
    }
}
