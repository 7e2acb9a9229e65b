//! The Microsoft Entra ID identities that a server accepts, from the options `--entra…`.

use crate::address::reachable_by_others;
use crate::config::{EntraConfig, ServerConfig};
use crate::failure::Failure;
use orrery_client::files::read_text;
use orrery_gateway::Directory;

/// Returns the directory of identities that the options describe; `None` without `--entra`.
///
/// # Errors
/// [`Failure::Usage`] for options that contradict each other or are missing, and for unchecked
/// tokens on an address that other machines can reach; [`Failure::Failed`] if the file with the
/// keys cannot be read or contains no keys.
pub(crate) fn directory(config: &ServerConfig) -> Result<Option<Directory>, Failure> {
    match &config.account.entra {
        None => Ok(None),
        Some(entra) if entra.verifies => verify(entra).map(Some),
        Some(entra) => accept_any(entra, config).map(Some),
    }
}

/// Returns a directory that accepts tokens without checking their signatures.
fn accept_any(entra: &EntraConfig, config: &ServerConfig) -> Result<Directory, Failure> {
    // The key of the emulator is known to all, so a token adds no risk to it.
    let is_open = config
        .emulator
        .as_ref()
        .is_some_and(|emulator| emulator.is_open());
    if reachable_by_others(&config.clients.listen).is_some() && !is_open {
        return Err(Failure::Usage(
            "--entra accept-any accepts tokens without checking their signatures, and other \
             machines can reach this address: listen on 127.0.0.1, or use --entra verify"
                .into(),
        ));
    }
    if entra.issuer.is_some() || entra.keys_file.is_some() {
        return Err(Failure::Usage(
            "--entra accept-any checks no signatures: --entra-issuer and --entra-keys require \
             --entra verify"
                .into(),
        ));
    }
    Ok(Directory::accept_any().for_audiences(entra.audiences.clone()))
}

/// Returns a directory that accepts tokens of one issuer for the given audiences.
fn verify(entra: &EntraConfig) -> Result<Directory, Failure> {
    let audiences = entra.audiences.clone();
    let (Some(issuer), Some(file), false) = (&entra.issuer, &entra.keys_file, audiences.is_empty())
    else {
        return Err(Failure::Usage(
            "--entra verify requires --entra-issuer, --entra-audience and --entra-keys".into(),
        ));
    };
    let jwks = read_text(file).map_err(|error| {
        Failure::Failed(format!("cannot read the file {}: {error}", file.display()))
    })?;
    let directory = Directory::issued_by(issuer, &jwks).map_err(|error| {
        Failure::Failed(format!(
            "the file {} is not a JSON Web Key Set: {error}",
            file.display()
        ))
    })?;
    Ok(directory.for_audiences(audiences))
}
