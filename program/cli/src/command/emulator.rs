//! Arguments of `orrery emulator`. The options of the vendor's emulators follow the table in
//! `crate::emulator`.

use crate::emulator::table::{Effect, SETTINGS, Setting};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use orrery_gateway::Cors;
use orrery_server::address::Listen;
use orrery_server::certificate::parse_name;

const HELP: &str = "\
Examples:
  In the place of the vendor's emulator, on all interfaces with its well-known key:
    orrery emulator
  In a test, with free ports:
    orrery emulator --listen 127.0.0.1:0 --explorer-port 0 --health-port 0 --ready-json

Each option has a variable of the environment, and some have a switch of the Windows emulator, which
stands on the command line or in AZURE_COSMOS_EMULATOR_ARGS:
";

/// Arguments of `orrery emulator`.
#[derive(Clone, Debug, Default)]
pub(crate) struct EmulatorArguments {
    /// Options of the table that were given.
    pub(crate) options: Vec<(&'static str, String)>,
    /// Switches of the Windows emulator.
    pub(crate) switches: Vec<String>,
    /// Listen addresses in the place of the port on all interfaces.
    pub(crate) listen: Vec<Listen>,
    /// Further names of the certificate.
    pub(crate) cert_hosts: Vec<String>,
    /// Further host names of the server.
    pub(crate) allow_hosts: Vec<String>,
    /// Origins whose pages may use the server.
    pub(crate) cors: Vec<String>,
    /// True if the announcement is one line of JSON.
    pub(crate) ready_json: bool,
}

impl Args for EmulatorArguments {
    fn augment_args(command: Command) -> Command {
        let mut command = command.after_help(table_text());
        for setting in SETTINGS.iter().filter(|setting| is_option(setting)) {
            let mut argument = Arg::new(setting.option)
                .long(setting.option)
                .value_name(setting.value)
                .help(setting.help)
                .num_args(1);
            if setting.is_boolean() {
                argument = argument.num_args(0..=1).default_missing_value("true");
            }
            command = command.arg(argument);
        }
        let listen = Arg::new("listen")
            .long("listen")
            .value_name("ADDR:PORT")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .env("ORRERY_LISTEN")
            .value_parser(|text: &str| text.parse::<Listen>())
            .help(
                "Listen address for clients, in a form of 'orrery start --listen', in the \
                   place of --port; may be repeated. The console and the probes of health listen \
                   on the same interfaces as the first",
            );
        let cert_host = Arg::new("cert-host")
            .long("cert-host")
            .value_name("NAME")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .env("ORRERY_CERT_HOST")
            .value_parser(parse_name)
            .help("Host name or address that the self-signed certificate names; may be repeated");
        let allow_host = Arg::new("allow-host")
            .long("allow-host")
            .value_name("NAME")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .env("ORRERY_ALLOW_HOST")
            .value_parser(parse_name)
            .help(
                "Host name by which clients and browsers reach the server, beside addresses, names \
                   without a dot and names of the certificate; may be repeated",
            );
        let cors = Arg::new("cors")
            .long("cors")
            .value_name("ORIGIN")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .env("ORRERY_CORS")
            .value_parser(Cors::parse_origin)
            .help(
                "Origin whose pages may use the server from a browser, such as \
                   http://localhost:3000, or * for all; may be repeated",
            );
        let ready_json = Arg::new("ready-json")
            .long("ready-json")
            .action(ArgAction::SetTrue)
            .help(
                "Print one JSON line with the endpoints and keys when the server is ready, and \
                   nothing else",
            );
        let switches = Arg::new("switches")
            .value_name("/SWITCH")
            .num_args(0..)
            .help("Switches of the Windows emulator");
        command.args([listen, cert_host, allow_host, cors, ready_json, switches])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EmulatorArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Vec::new();
        for setting in SETTINGS.iter().filter(|setting| is_option(setting)) {
            if let Some(text) = matches.get_one::<String>(setting.option) {
                options.push((setting.option, text.clone()));
            }
        }
        Ok(EmulatorArguments {
            options,
            switches: all(matches, "switches"),
            listen: all(matches, "listen"),
            cert_hosts: all(matches, "cert-host"),
            allow_hosts: all(matches, "allow-host"),
            cors: all(matches, "cors"),
            ready_json: matches.get_flag("ready-json"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns true if a setting has an option: secrets have none, and switches alone have none.
fn is_option(setting: &Setting) -> bool {
    !setting.is_secret() && !setting.variables.is_empty()
}

fn all<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
    matches
        .get_many(name)
        .into_iter()
        .flatten()
        .cloned()
        .collect()
}

/// Returns the list of all names, with what becomes of each.
fn table_text() -> String {
    let mut text = HELP.to_owned();
    for setting in SETTINGS {
        let switches = setting.switches.iter().map(|switch| format!("/{switch}"));
        let names: Vec<String> = setting
            .variables
            .iter()
            .map(|name| (*name).to_owned())
            .chain(switches)
            .collect();
        let effect = match setting.effect {
            Effect::Honoured => String::new(),
            Effect::Fulfilled(reason) => format!("\n      always so: {reason}"),
            Effect::Refused(reason) => format!("\n      refused: {reason}"),
        };
        text.push_str(&format!("  {}{effect}\n", names.join(", ")));
    }
    text.push_str(
        "\nVariables of 'orrery start' (ORRERY_...) hold as well. A variable with the prefix\n\
         AZURE_COSMOS_EMULATOR_ that is not in this list is named in the log and has no effect:\n\
         clients use the prefix for variables of their own.",
    );
    text
}
