//! The direct connection mode on the command line: `--direct` and `--direct-advertise`.

use orrery_gateway::DirectMode;
use orrery_server::Failure;
use orrery_server::config::DirectConfig;
use std::str::FromStr;

/// The value of `--direct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    /// Clients are told to use the gateway mode.
    Off,
    /// The port for clients takes frames.
    On,
    /// A second port takes frames too.
    Port(u16),
}

impl FromStr for Direct {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "on" => Ok(Direct::On),
            "off" => Ok(Direct::Off),
            text => match text.parse() {
                Ok(0) | Err(_) => Err(format!(
                    "'{text}' is none of 'on', 'off' and a port from 1 to 65535"
                )),
                Ok(port) => Ok(Direct::Port(port)),
            },
        }
    }
}

/// Parses the address that clients connect to.
pub(crate) fn parse_place(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_host = !host.is_empty() && host.bytes().all(is_allowed);
    match port.parse::<u16>() {
        Ok(port) if port > 0 && is_host => Ok(text.to_owned()),
        _ => Err(format!(
            "'{text}' is no host name or IPv4 address with a port, such as db.example:8081; \
             clients of the direct mode cannot use an address of IPv6"
        )),
    }
}

/// Returns the configuration of the direct mode. Without `--direct`, it is on if `is_local`, so if
/// no other machine can reach the server, and off on a node of a fleet.
///
/// # Errors
/// [`Failure::Usage`] for options that contradict each other.
pub(crate) fn config(
    direct: Option<Direct>,
    advertise: Option<String>,
    is_local: bool,
    is_fleet: bool,
) -> Result<DirectConfig, Failure> {
    let chosen = match direct {
        Some(chosen) => chosen,
        None if advertise.is_some() => Direct::On,
        None if is_local && !is_fleet => Direct::On,
        None => Direct::Off,
    };
    if is_fleet && (matches!(chosen, Direct::Port(_)) || advertise.is_some()) {
        return Err(Failure::Usage(
            "a node tells clients of the direct mode the addresses of --advertise: give --direct \
             on alone"
                .into(),
        ));
    }
    let (addresses, port) = match (chosen, advertise) {
        (Direct::Off, None) => (DirectMode::Off, None),
        (Direct::Off, Some(_)) => {
            let problem = "--direct-advertise names an address of the direct mode, which is off";
            return Err(Failure::Usage(problem.into()));
        }
        (Direct::On, None) => (DirectMode::On, None),
        (Direct::Port(port), None) => (DirectMode::Port(port), Some(port)),
        (Direct::On, Some(place)) => (DirectMode::At(place), None),
        (Direct::Port(port), Some(place)) => (DirectMode::At(place), Some(port)),
    };
    Ok(DirectConfig { addresses, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_on_where_only_this_machine_can_reach_the_server() {
        let addresses = |direct: Option<&str>, is_local| {
            let direct = direct.map(|text| text.parse().expect("a value"));
            let config = config(direct, None, is_local, false).expect("a configuration");
            (config.addresses, config.port)
        };
        assert_eq!(addresses(None, true), (DirectMode::On, None));
        assert_eq!(addresses(None, false), (DirectMode::Off, None));
        assert_eq!(addresses(Some("off"), true), (DirectMode::Off, None));
        assert_eq!(addresses(Some("on"), false), (DirectMode::On, None));
        let own_port = (DirectMode::Port(10_250), Some(10_250));
        assert_eq!(addresses(Some("10250"), false), own_port);
    }

    #[test]
    fn an_address_of_the_operator_takes_the_place_of_all_others() {
        let config = |direct| config(direct, Some("db.example:443".into()), false, false);
        let addresses = |direct| config(direct).expect("a configuration").addresses;
        let given = DirectMode::At("db.example:443".into());
        assert_eq!(addresses(None), given);
        assert_eq!(addresses(Some(Direct::Port(9_000))), given);
        assert!(config(Some(Direct::Off)).is_err());
    }

    #[test]
    fn values_that_are_no_mode_and_places_that_are_no_address_are_refused() {
        for text in ["0", "65536", "yes", "ON", ""] {
            assert!(text.parse::<Direct>().is_err(), "{text}");
        }
        for text in [
            "db.example",
            "db.example:0",
            ":8081",
            "[::1]:8081",
            "a b:1",
            "x:y",
        ] {
            assert!(parse_place(text).is_err(), "{text}");
        }
        assert_eq!(parse_place("10.0.0.1:443"), Ok("10.0.0.1:443".into()));
    }
}
