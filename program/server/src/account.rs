//! The account that clients see: endpoint, consistency level and regions.

use crate::config::ServerConfig;
use crate::failure::Failure;
use orrery_gateway::Account;

/// Name of the account of the vendor's newest emulator, which tests of client libraries compare.
const EMULATOR_ACCOUNT: &str = "cosmosdev";

/// Returns the account that the configuration describes.
///
/// # Errors
/// [`Failure::Usage`] if a region has no name or two regions have the same name.
pub(crate) fn account(config: &ServerConfig) -> Result<Account, Failure> {
    let mut account = Account {
        endpoint: config.account.endpoint.clone(),
        consistency: config.account.consistency,
        direct: config.clients.direct.addresses.clone(),
        ..Account::default()
    };
    if config.emulator.is_some() {
        account.name = EMULATOR_ACCOUNT.to_owned();
    }
    if !config.account.regions.is_empty() {
        account.regions = parse_regions(&config.account.regions)?;
    }
    Ok(account)
}

/// Returns the names of the regions without surrounding blanks.
fn parse_regions(names: &[String]) -> Result<Vec<String>, Failure> {
    let mut regions = Vec::new();
    let mut seen = Vec::new();
    for name in names {
        let normalized = normalize(name);
        if normalized.is_empty() {
            return Err(Failure::Usage("--region: the name is empty".into()));
        }
        if seen.contains(&normalized) {
            return Err(Failure::Usage(format!(
                "--region: the region '{name}' is named twice"
            )));
        }
        seen.push(normalized);
        regions.push(name.trim().to_owned());
    }
    Ok(regions)
}

/// Returns the form in which clients compare names of regions: without blanks, in lower case.
fn normalize(name: &str) -> String {
    name.replace(' ', "").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_compared_as_clients_compare_them() {
        let regions = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            parse_regions(&names)
        };
        assert_eq!(
            regions(&["West US", " East US"]).expect("two regions"),
            ["West US", "East US"]
        );
        assert!(matches!(
            regions(&["West US", "westus"]),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(regions(&[" "]), Err(Failure::Usage(_))));
    }
}
