//! The faults of a fleet: Patroni clusters in network namespaces under each fault of
//! `conformance/faults/fleet/faults.py`, with numbered commits through the store, or with nodes and
//! SDKs.
//!
//! Promises: all programs of the run come from this repository, from the pins of the suite, or from
//! packages that the run names if they are missing.
//! Leaves out: the faults and the judgement, which are the work of
//! `conformance/faults/fleet/run.py` and `sdk.py`.

use std::path::Path;
use std::process::Command;

use crate::run::{Outcome, cargo, must, program, root, target_directory};
use crate::sdk_tools::{
    PROGRAM_VARIABLE, javascript_sdk, python_environment, python_program, server,
};

/// Returns the help text of the command.
pub(crate) fn help() -> String {
    "--faults takes a number (the first N of the table) or names with commas; without it, every\n\
     fault runs, about 15 minutes. Further options go to conformance/faults/fleet/run.py:\n\
     --ttl SECONDS, --json FILE, --keep, --patroni PROGRAM.\n\n\
     With --nodes N, N nodes run on the cluster, with the Python and the JavaScript SDK as\n\
     clients; two rounds of every fault, also those of nodes and of the networks between them,\n\
     take about 50 minutes. Further options go to conformance/faults/fleet/sdk.py: --rounds N,\n\
     --faults NAME[,NAME], --seed N, --json FILE, --keep, --patroni PROGRAM.\n\n\
     Needs root, for network namespaces, and the Debian packages postgresql, etcd-server,\n\
     iproute2 and iptables. Patroni is installed below target/.\n"
        .to_owned()
}

/// Runs `fleet [--faults N|NAME] [--nodes N] [further arguments]`: the tests of the harness, then
/// the faults.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let suite = root().join("conformance/faults/fleet");
    let environment = target_directory().join("conformance/fleet");
    let python = python_environment(&suite, &environment)?;
    let mut tests = program(&python, &suite);
    tests.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    must(tests.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    let patroni = environment.join("bin/patroni");
    let has_nodes = arguments.iter().any(|argument| argument == "--nodes");
    let mut faults = match has_nodes {
        true => with_nodes(&suite)?,
        false => with_store(&python, &suite)?,
    };
    // A later option of the caller replaces this one.
    faults.arg("--patroni").arg(patroni).args(arguments);
    must(&mut faults).map_err(|error| format!("{error}; `--keep` keeps data and logs"))
}

/// Returns the run of numbered commits through the store.
fn with_store(python: &Path, suite: &Path) -> Result<Command, String> {
    // An optimised program, since the writers share the machine with the whole fleet.
    let package = "orrery-storage-postgres";
    let build = [
        "build",
        "--profile",
        "bench",
        "--locked",
        "--package",
        package,
    ];
    must(cargo(&build).args(["--example", "numbered"]))?;
    let mut faults = program(python, suite);
    faults.env("PYTHONDONTWRITEBYTECODE", "1").arg("run.py");
    faults.arg("--writer");
    faults.arg(target_directory().join("release/examples/numbered"));
    Ok(faults)
}

/// Returns the run of nodes with SDKs as clients.
fn with_nodes(suite: &Path) -> Result<Command, String> {
    javascript_sdk()?;
    let mut faults = python_program(suite)?;
    faults.arg("sdk.py").env(PROGRAM_VARIABLE, server()?);
    Ok(faults)
}
