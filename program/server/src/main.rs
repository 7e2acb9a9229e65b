//! The program `orrery`: the database server and its tools.
//!
//! ```text
//! command      command line
//! start        orrery start: life of a server; uses
//!   context      parts that exist before the data is open (descriptors, data_dir, tls, world)
//!   admin        server of the management API
//!   engine       engine on its store
//!   library_log  lines that libraries log
//!   account, keys, entra   options of the gateway
//!   announce     announcement on standard output
//!   signals      shutdown, reload of the keys
//!   fleet_node   node of a fleet in this server
//!   background, write_watch   periodic tasks
//! emulator     orrery emulator: the server in the place of the vendor's emulator
//! health, public_paths   probes, and the certificate for clients
//! certificate, pfx, cert   self-signed certificate, PFX files, orrery cert
//! repair       orrery repair: lost commits, and their acceptance
//! migrate_store   orrery migrate-store: data between a directory and clusters
//! fleet        orrery clusters, orrery partitions
//! rotation     orrery keys: creates and changes key files
//! healthcheck  orrery healthcheck
//! blog         orrery blog: the application of the blog, with a server in the same process
//! bench        orrery bench: workloads
//! definition   orrery init, orrery dump, --init of a server
//! query        orrery query
//! shell        orrery shell: session at a terminal or of a script
//! mcp          orrery mcp
//! doctor       orrery doctor
//! transfer     orrery import, orrery export
//! settings     settings from command line, environment and file; orrery config
//! shell_files  orrery completions, orrery man
//! variables    warnings about variables that no command reads
//! notify       messages to systemd
//! failure      failures and exit codes
//! ```

mod account;
mod address;
mod admin;
mod allocator;
mod announce;
mod background;
mod bench;
mod blog;
mod cert;
mod certificate;
mod client_port;
mod command;
mod config;
mod context;
mod data_dir;
mod definition;
mod descriptors;
mod doctor;
mod emulator;
mod engine;
mod entra;
mod failure;
mod fleet;
mod fleet_node;
mod gateway_options;
mod health;
mod healthcheck;
mod hosts;
mod key_users;
mod keys;
mod library_log;
mod mcp;
mod memory;
mod migrate_store;
mod notify;
mod observers;
mod opening;
mod pfx;
mod private_file;
mod public_file;
mod public_paths;
mod query;
#[cfg(test)]
mod reference;
mod repair;
mod retention;
mod rotation;
mod settings;
mod shell;
mod shell_files;
mod signals;
mod sizes;
mod start;
mod telemetry;
mod tls;
mod transfer;
mod variables;
mod world;
mod write_watch;

use command::Command;
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let program = match settings::program(std::env::args_os().collect()) {
        Ok(program) => program,
        Err(failure) => return report(&failure),
    };
    warn_of_variables(&program.command);
    let result = match program.command {
        Command::Start(arguments) => arguments.into_config().and_then(start::run),
        Command::Cert(arguments) => cert::run(&arguments),
        Command::Emulator(arguments) => emulator::run(&arguments),
        Command::Healthcheck(arguments) => healthcheck::run(&arguments),
        Command::Doctor(arguments) => match doctor::run(&arguments) {
            Ok(true) => Ok(()),
            // The report has said it all.
            Ok(false) => return ExitCode::FAILURE,
            Err(failure) => Err(failure),
        },
        Command::Repair(arguments) => repair::run(&arguments),
        Command::Nodes(arguments) => fleet::run_nodes(&arguments),
        Command::Clusters(arguments) => fleet::run_clusters(&arguments),
        Command::Partitions(arguments) => fleet::run_partitions(&arguments),
        Command::MigrateStore(arguments) => migrate_store::run(&arguments),
        Command::Keys(arguments) => rotation::run(&arguments),
        Command::Blog(arguments) => blog::run(*arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Init(arguments) => definition::run_init(&arguments),
        Command::Dump(arguments) => definition::run_dump(&arguments),
        Command::Query(arguments) => query::run(&arguments),
        Command::Shell(arguments) => shell::run(&arguments),
        Command::Mcp(arguments) => mcp::run(&arguments),
        Command::Import(arguments) => transfer::run_import(&arguments),
        Command::Export(arguments) => transfer::run_export(&arguments),
        Command::Config(arguments) => settings::run(&arguments),
        Command::Completions(arguments) => shell_files::completions(&arguments),
        Command::Man(arguments) => shell_files::man(&arguments),
        Command::ScriptHost => return orrery_script::serve_script_host(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

/// Writes a warning for each variable that no command reads. A server writes them to its log,
/// `orrery doctor` to its report, and the output for shells and manuals stays without them.
fn warn_of_variables(command: &Command) {
    let is_server = match command {
        Command::Start(_) | Command::Emulator(_) => true,
        Command::Blog(blog) => blog.action.is_none() && blog.serve.endpoint.is_none(),
        _ => false,
    };
    let is_quiet = matches!(
        command,
        Command::Completions(_) | Command::Man(_) | Command::Doctor(_) | Command::ScriptHost
    );
    if is_server || is_quiet {
        return;
    }
    for warning in variables::warnings() {
        // If standard error is closed, the command works all the same.
        let _ = writeln!(std::io::stderr(), "orrery: {warning}");
    }
}

/// Writes a failure to standard error and returns its exit code.
fn report(failure: &failure::Failure) -> ExitCode {
    // If standard error is closed, the exit code alone reports the failure.
    let _ = writeln!(std::io::stderr(), "orrery: {failure}");
    failure.exit_code()
}
