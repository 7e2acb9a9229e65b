//! The program `orrery`: the command line, and the tools that have no server of their own.
//!
//! The server itself is the crate `orrery_server`. This crate reads options, settings files and
//! variables, and writes to the terminal.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | the command failed |
//! | 2 | the command line is wrong; the parser of the command line uses this code too |
//! | 4 | the data directory cannot be opened |
//!
//! ```text
//! command      command line
//! settings     settings from command line, environment and file; orrery config
//!   variables  warnings about variables that no command reads
//!   sizes, retention   values of options
//! start        orrery start, and what every command with a server in its process needs
//!   allocator  allocator of the program, within the limit of the server
//!   announce   announcement on standard output
//!   signals    signals to stop
//!   server_inside   server in the process of another command
//! emulator     orrery emulator: the server in the place of the vendor's emulator
//! blog         orrery blog: the application of the blog, with a server in the same process
//! cert         orrery cert
//! rotation     orrery keys: creates and changes key files
//! repair       orrery repair: lost commits, and their acceptance
//! verify       orrery verify
//! backup       orrery backup, orrery restore: data directories
//!   restore_into    containers of a backup into an account that runs
//!   fleet_backup    base backups of the clusters of a fleet
//! migrate_store   orrery migrate-store: data between a directory and clusters
//! fleet        orrery nodes, orrery clusters, orrery partitions
//! healthcheck  orrery healthcheck
//! doctor       orrery doctor
//! definition   orrery init, orrery dump
//! query        orrery query
//! shell        orrery shell: session at a terminal or of a script
//! transfer     orrery import, orrery export
//! mcp          orrery mcp
//! bench        orrery bench: workloads
//!   temporary_server   server in a process of its own
//! script_host  processes for scripts
//! shell_files  orrery completions, orrery man
//! reference    test of the pages in docs/reference
//! ```

mod allocator;
mod announce;
mod backup;
mod bench;
mod blog;
mod cert;
mod command;
mod definition;
mod disk;
mod doctor;
mod emulator;
mod fleet;
mod fleet_backup;
mod healthcheck;
mod management;
mod mcp;
mod migrate_store;
mod query;
#[cfg(test)]
mod reference;
mod repair;
mod restore_into;
mod retention;
mod rotation;
mod script_host;
mod server_inside;
mod settings;
mod shell;
mod shell_files;
mod signals;
mod sizes;
mod start;
mod temporary_server;
mod transfer;
mod variables;
mod verify;

use command::Command;
use orrery_server::Failure;
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
        Command::Start(arguments) => start::run(*arguments),
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
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => backup::run_restore(&arguments),
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
        Command::ScriptHost => return script_host::run(),
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
fn report(failure: &Failure) -> ExitCode {
    // If standard error is closed, the exit code alone reports the failure.
    let _ = writeln!(std::io::stderr(), "orrery: {failure}");
    ExitCode::from(match failure {
        Failure::Failed(_) => 1,
        Failure::Usage(_) => 2,
        Failure::Data(_) => 4,
    })
}
