//! The definition that a server applies before it is ready.

use crate::config::ServerConfig;
use crate::failure::Failure;
use orrery_client::{Client, ClientError, Connection, Secret, Trust};
use orrery_gateway::{Gateway, Port, serve};
use orrery_tools::definition::{self, Definition, DefinitionError, ExistingMode};

/// The definition of a server's options.
pub(crate) struct Stated {
    definition: Definition,
    mode: ExistingMode,
    /// True for the first data of the emulator, which an account with containers does not get.
    is_first_data: bool,
    /// Lines for the log.
    notes: Vec<String>,
}

/// Reads the definition of a server's options.
///
/// # Errors
/// [`Failure::Usage`] if it cannot be read or is wrong.
pub(crate) fn of_server(config: &ServerConfig) -> Result<Option<Stated>, Failure> {
    let seeds = config.emulator.as_ref();
    if let Some(folder) = seeds.and_then(|emulator| emulator.seeds.as_deref()) {
        let (definition, others) = definition::read_seeds(folder).map_err(usage)?;
        let mut notes = Vec::new();
        if !others.is_empty() {
            let (others, folder) = (others.join(", "), folder.display());
            notes.push(format!(
                "entries of {folder} that are no first data: {others}"
            ));
        }
        return Ok(Some(Stated {
            definition,
            mode: ExistingMode::Keep,
            is_first_data: true,
            notes,
        }));
    }
    let Some(wanted) = &config.definition else {
        return Ok(None);
    };
    Ok(Some(Stated {
        definition: definition::read(&wanted.path).map_err(usage)?,
        mode: wanted.mode,
        is_first_data: false,
        notes: Vec::new(),
    }))
}

/// Applies a definition to the gateway of `port`, over a port of its own that closes again. Returns
/// lines that say what was done. `has_containers` tells whether the account has any.
///
/// # Errors
/// [`Failure::Failed`] if a resource cannot be created or differs.
pub(crate) async fn apply(
    port: Port<Gateway>,
    key: &str,
    stated: Stated,
    has_containers: bool,
) -> Result<Vec<String>, Failure> {
    if stated.is_first_data && has_containers {
        let note = "the first data is skipped, because the data directory has containers";
        return Ok(vec![note.to_owned()]);
    }
    let cannot = |e| Failure::Failed(format!("--init: cannot listen on the loopback: {e}"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve(port, vec![listener], async {
        // A dropped sender stops the port too.
        let _ = stopped.await;
    }));
    let client = Client::new(&Connection {
        endpoint: format!("http://{address}/"),
        key: Secret::new(key),
        key_source: "this server".to_owned(),
        trust: Trust::System,
        connections: 16,
        database: None,
        container: None,
    })
    .map_err(client_failure)?;
    let applied = definition::apply(&client, stated.definition, stated.mode).await;
    // The port waits for open connections, so the client goes first.
    drop(client);
    drop(stop);
    let _ = serving.await;
    let done = applied.map_err(|error| Failure::Failed(format!("--init: {error}")))?;
    let mut told = stated.notes;
    told.extend(done.lines());
    Ok(told)
}

fn client_failure(error: ClientError) -> Failure {
    match error {
        ClientError::InvalidOption(text) => Failure::Usage(text),
        error => Failure::Failed(error.to_string()),
    }
}

fn usage(error: DefinitionError) -> Failure {
    Failure::Usage(error.to_string())
}
