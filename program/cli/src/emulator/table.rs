//! The settings of the vendor's emulators: options, variables of the environment and switches, with
//! what becomes of each. Command line, help text, reader and documentation follow this table.

/// The fate of a setting: honoured, fulfilled already, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It changes the server.
    Honoured,
    /// The server always does what it asks for, for this reason. A line in the log says so.
    Fulfilled(&'static str),
    /// A value that asks for it ends the start, with this reason.
    Refused(&'static str),
}

/// One setting.
pub(crate) struct Setting {
    /// Name of the option, without dashes; it also names the setting in the program.
    pub(crate) option: &'static str,
    /// Name of the value in the help text.
    pub(crate) value: &'static str,
    /// Variables of the environment, the first that is set counts.
    pub(crate) variables: &'static [&'static str],
    /// Switches of the Windows emulator in lower case, without the slash.
    pub(crate) switches: &'static [&'static str],
    pub(crate) effect: Effect,
    pub(crate) help: &'static str,
}

impl Setting {
    /// Returns true if the setting is on or off; an option or switch without a value is on.
    pub(crate) fn is_boolean(&self) -> bool {
        self.value == BOOL
    }

    /// Returns true if this variable of the environment gives the setting its value.
    pub(crate) fn has_variable(&self, name: &str) -> bool {
        self.variables.contains(&name)
    }

    /// Returns true if the value is a secret, which the command line would show to other users.
    pub(crate) fn is_secret(&self) -> bool {
        self.value == SECRET
    }
}

/// Value of a setting that is on or off.
pub(crate) const BOOL: &str = "true|false";
/// Value of a secret.
pub(crate) const SECRET: &str = "SECRET";

const fn honoured(
    option: &'static str,
    value: &'static str,
    variables: &'static [&'static str],
    switches: &'static [&'static str],
    help: &'static str,
) -> Setting {
    Setting {
        option,
        value,
        variables,
        switches,
        effect: Effect::Honoured,
        help,
    }
}

const fn fulfilled(
    option: &'static str,
    value: &'static str,
    variables: &'static [&'static str],
    switches: &'static [&'static str],
    reason: &'static str,
) -> Setting {
    Setting {
        option,
        value,
        variables,
        switches,
        effect: Effect::Fulfilled(reason),
        help: reason,
    }
}

const fn refused(
    option: &'static str,
    variables: &'static [&'static str],
    switches: &'static [&'static str],
    reason: &'static str,
) -> Setting {
    Setting {
        option,
        value: BOOL,
        variables,
        switches,
        effect: Effect::Refused(reason),
        help: reason,
    }
}

/// All settings, in the order of the help text.
pub(crate) const SETTINGS: &[Setting] = &[
    honoured(
        "port",
        "PORT",
        &["PORT"],
        &["port"],
        "Port for clients on all interfaces; 0 selects a free port [default: 8081]",
    ),
    honoured(
        "protocol",
        "http|https|https-insecure",
        &["PROTOCOL"],
        &[],
        "Protocol that the announcement names; the port answers both in any case [default: both]",
    ),
    honoured(
        "health-port",
        "PORT|off",
        &["HEALTH_PORT"],
        &[],
        "Port that answers /ready, /alive and /status [default: 8080]",
    ),
    honoured(
        "enable-explorer",
        BOOL,
        &["ENABLE_EXPLORER", "AZURE_COSMOS_EMULATOR_ENABLE_EXPLORER"],
        &[],
        "Console on a port of its own and below /_explorer/ [default: true]",
    ),
    honoured(
        "explorer-port",
        "PORT",
        &["EXPLORER_PORT"],
        &[],
        "Port of the console and of the management API [default: 1234]",
    ),
    honoured(
        "explorer-protocol",
        "http|https|https-insecure",
        &["EXPLORER_PROTOCOL"],
        &[],
        "Protocol of the console's address in the announcement [default: that of --protocol]",
    ),
    honoured(
        "gateway-endpoint",
        "HOST[:PORT]",
        &["GATEWAY_PUBLIC_ENDPOINT"],
        &[],
        "Host, or URL, that the account document tells clients to use, also a name of the \
         certificate [default: the address that each request used]",
    ),
    honoured(
        "ip-address-override",
        "HOST",
        &["AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE"],
        &[],
        "Further name of the certificate and of the console; clients are told the address that \
         they used, so mapped ports work",
    ),
    honoured(
        "key-file",
        "FILE",
        &["KEY_FILE", "ORRERY_KEY_FILE"],
        &["keyfile"],
        "File with the account keys [default: the well-known key]",
    ),
    honoured(
        "key",
        SECRET,
        &["AZURE_COSMOS_EMULATOR_KEY"],
        &["key"],
        "Primary key of the account, by the variable only",
    ),
    honoured(
        "data-path",
        "DIR",
        &["DATA_PATH", "ORRERY_DATA_DIR"],
        &["datapath"],
        "Data directory [default: /data if it can be written, otherwise memory]",
    ),
    honoured(
        "enable-data-persistence",
        BOOL,
        &["AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE"],
        &["enabledatapersistence"],
        "true: a directory is used in any case, /tmp/cosmos/appdata/orrery if /data cannot be \
         written; false: memory",
    ),
    honoured(
        "cert-path",
        "FILE",
        &["CERT_PATH", "ORRERY_TLS_CERT"],
        &[],
        "Certificate with its key, as PFX or as PEM [default: a self-signed certificate]",
    ),
    honoured(
        "cert-key-path",
        "FILE",
        &["ORRERY_TLS_KEY"],
        &[],
        "Private key in PEM, if it is not in the file of the certificate",
    ),
    honoured(
        "cert-secret",
        SECRET,
        &["CERT_SECRET", "ORRERY_TLS_PASSWORD"],
        &[],
        "Password of the PFX file, by the variable only",
    ),
    honoured(
        "cert-secret-file",
        "FILE",
        &["ORRERY_TLS_PASSWORD_FILE"],
        &[],
        "File with the password of the PFX file",
    ),
    honoured(
        "certificate-file",
        "FILE|off",
        &["ORRERY_EMULATOR_CERTIFICATE_FILE"],
        &[],
        "File to which the certificate in PEM is written, for programs that copy it from the \
         container [default: emulator.pem where the vendor's image has it]",
    ),
    honoured(
        "default-throughput",
        "RU/S",
        &["ORRERY_THROUGHPUT", "AZURE_COSMOS_EMULATOR_DEFAULT_RU"],
        &[],
        "Throughput of a container whose creation states none [default: 400]",
    ),
    honoured(
        "default-partition-count",
        "N",
        &["AZURE_COSMOS_EMULATOR_DEFAULT_PARTITION_COUNT"],
        &["defaultpartitioncount"],
        "Physical partitions of a container whose creation states no throughput: it gets 6,000 \
         RU/s for each",
    ),
    fulfilled(
        "partition-count",
        "N",
        &["AZURE_COSMOS_EMULATOR_PARTITION_COUNT"],
        &["partitioncount"],
        "The number of physical partitions has no limit: each container gets as many as its \
         throughput and its data need",
    ),
    honoured(
        "all-versions-and-deletes",
        "RETENTION|off",
        &["ORRERY_ALL_VERSIONS_AND_DELETES"],
        &[],
        "Time for which containers without a changeFeedPolicy keep all versions of items for the \
         change feed mode All Versions and Deletes, such as 12h, up to 64 MiB for a physical \
         partition [default: 7d]",
    ),
    honoured(
        "consistency",
        "LEVEL",
        &["AZURE_COSMOS_EMULATOR_DEFAULT_CONSISTENCY"],
        &["consistency"],
        "Default consistency level: Strong, BoundedStaleness, Session, ConsistentPrefix or \
         Eventual [default: Session]",
    ),
    honoured(
        "disable-rate-limiting",
        BOOL,
        &["AZURE_COSMOS_EMULATOR_DISABLE_RATE_LIMITING"],
        &["disableratelimiting"],
        "false: requests beyond the provisioned throughput are refused with 429 [default: true]",
    ),
    honoured(
        "enable-rate-limiting",
        BOOL,
        &["AZURE_COSMOS_EMULATOR_ENABLE_RATE_LIMITING"],
        &["enableratelimiting"],
        "true: requests beyond the provisioned throughput are refused with 429 [default: false]",
    ),
    honoured(
        "enable-aad-authentication",
        BOOL,
        &["AZURE_COSMOS_EMULATOR_ENABLE_AAD_AUTHENTICATION"],
        &["enableaadauthentication"],
        "Accept well-formed tokens of Microsoft Entra ID without checking their signatures",
    ),
    honoured(
        "log-level",
        "LEVEL",
        &["LOG_LEVEL"],
        &[],
        "Least severe level that is logged: quiet and error, warn, info, debug and trace \
         [default: info]",
    ),
    honoured(
        "verbose",
        BOOL,
        &["VERBOSE"],
        &[],
        "true: the log level is debug",
    ),
    honoured(
        "enable-telemetry",
        BOOL,
        &["ENABLE_TELEMETRY"],
        &[],
        "A line in the log says that nothing is sent, with either value",
    ),
    honoured(
        "args",
        "SWITCHES",
        &["AZURE_COSMOS_EMULATOR_ARGS"],
        &[],
        "Switches of the Windows emulator, separated by blanks",
    ),
    honoured(
        "enable-otlp",
        BOOL,
        &["ENABLE_OTLP_EXPORTER"],
        &[],
        "Send traces and metrics by OTLP over HTTP to OTEL_EXPORTER_OTLP_ENDPOINT, or to \
         http://localhost:4318 [default: true if that variable is set]",
    ),
    refused(
        "enable-console",
        &["ENABLE_CONSOLE_EXPORTER"],
        &[],
        "Telemetry is not printed; the management API has metrics at /metrics",
    ),
    honoured(
        "enable-init-data",
        BOOL,
        &["ENABLE_INIT_DATA"],
        &[],
        "Create the first data from scripts of the vendor's shell (.csh: mkdb, mkcon, mkitem, cd) \
         and definitions (.json) before the server is ready; skipped if a container exists",
    ),
    honoured(
        "init-path",
        "DIR",
        &["INIT_PATH"],
        &[],
        "Folder of --enable-init-data [default: /init]",
    ),
    refused(
        "enable-mongodb-endpoint",
        &["AZURE_COSMOS_EMULATOR_ENABLE_MONGODB_ENDPOINT"],
        &["enablemongodbendpoint", "mongoport", "mongoapiversion"],
        "This server has the API for NoSQL only",
    ),
    refused(
        "enable-cassandra-endpoint",
        &["AZURE_COSMOS_EMULATOR_CASSANDRA_ENDPOINT"],
        &["enablecassandraendpoint", "cassandraport"],
        "This server has the API for NoSQL only",
    ),
    refused(
        "enable-gremlin-endpoint",
        &["AZURE_COSMOS_EMULATOR_GREMLIN_ENDPOINT"],
        &["enablegremlinendpoint", "gremlinport"],
        "This server has the API for NoSQL only",
    ),
    refused(
        "enable-table-endpoint",
        &["AZURE_COSMOS_EMULATOR_TABLE_ENDPOINT"],
        &["enabletableendpoint", "tableport"],
        "This server has the API for NoSQL only",
    ),
    fulfilled(
        "direct-ports",
        "PORTS",
        &[],
        &["directports"],
        "The port for clients takes the direct mode too; ORRERY_DIRECT names a second one",
    ),
    refused(
        "compute-port",
        &[],
        &["computeport"],
        "The port for clients takes all requests",
    ),
    refused(
        "commands",
        &[],
        &[
            "shutdown",
            "getstatus",
            "genkeyfile",
            "exportcert",
            "start",
            "rdmport",
        ],
        "Use 'orrery healthcheck', 'orrery keys create' and 'orrery cert export'; a signal stops \
         the server",
    ),
    fulfilled(
        "query-buffer-size",
        "KB",
        &["QUERY_BUFFER_SIZE_KB"],
        &[],
        "Results of queries are not held in a buffer of a fixed size",
    ),
    fulfilled(
        "enable-preview",
        BOOL,
        &["AZURE_COSMOS_EMULATOR_ENABLE_PREVIEW"],
        &["enablepreview"],
        "All features are on",
    ),
    fulfilled(
        "allow-network-access",
        BOOL,
        &[],
        &["allownetworkaccess"],
        "The emulator listens on all interfaces; --listen restricts it",
    ),
    fulfilled(
        "no-window",
        BOOL,
        &[],
        &["noui", "noexplorer", "nofirewall", "minui"],
        "No window is opened and no firewall rule is changed",
    ),
    fulfilled(
        "accept-eula",
        "Y",
        &["ACCEPT_EULA"],
        &[],
        "There is no agreement to accept",
    ),
];

/// Prefix of variables that belong to the vendor's emulator.
pub(crate) const PREFIX: &str = "AZURE_COSMOS_EMULATOR_";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_documentation_has_every_setting() {
        let text = include_str!("../../../../docs/how-to/replace-the-emulator.md");
        for setting in SETTINGS {
            let help = setting.help.replace('|', "\\|");
            assert!(text.contains(&help), "{}", setting.option);
            for name in setting.variables {
                assert!(text.contains(&format!("`{name}`")), "{name}");
            }
            for switch in setting.switches {
                assert!(text.contains(&format!("`/{switch}`")), "{switch}");
            }
        }
    }

    #[test]
    fn every_name_is_in_the_table_once() {
        let mut seen = HashSet::new();
        for setting in SETTINGS {
            assert!(seen.insert(setting.option.to_owned()), "{}", setting.option);
            for variable in setting.variables {
                assert!(seen.insert((*variable).to_owned()), "{variable}");
            }
            for switch in setting.switches {
                assert_eq!(*switch, switch.to_lowercase());
                assert!(seen.insert(format!("/{switch}")), "{switch}");
            }
            assert!(!setting.help.ends_with('.'), "{}", setting.help);
        }
    }
}
