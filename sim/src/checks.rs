//! The comparison of everything: every item by its id, every row of a query, every change feed to
//! its end, the counters, the accounts of request units, and the engine's own verification of each
//! row of the store.

use crate::Checked;
use crate::node::Node;
use crate::spec::ItemKey;
use orrery_engine::PartitionInventory;

impl Node<'_> {
    /// Compares everything, with no answer awaited and no failure under way.
    pub(crate) fn check_everything(&mut self) -> Checked {
        self.settle_completely()?;
        for container in 0..self.models.len() {
            self.check_counters(container)?;
            self.check_charges(container)?;
        }
        self.finish_feeds()?;
        if self.plan.is_verified {
            self.verify()?;
        }
        self.note("everything is as it must be".to_owned());
        Ok(())
    }

    /// Compares the counters of each partition with its rows, and with the items that clients see.
    fn check_counters(&mut self, container: usize) -> Checked {
        let handle = self.handle(container)?;
        let counters = |all: Vec<PartitionInventory>| -> Vec<_> {
            let one = |one: &PartitionInventory| (one.id, one.items, one.bytes, one.index_bytes);
            all.iter().map(one).collect()
        };
        let counted = self.engine.partition_inventory(&handle).map(counters);
        let found = self.engine.partition_recount(&handle).map(counters);
        let (Ok(counted), Ok(found)) = (counted, found) else {
            return Err(format!("the counters of c{container} cannot be read"));
        };
        if counted != found {
            return Err(format!("c{container} counts {counted:?} and has {found:?}"));
        }
        let items: u64 = counted.iter().map(|(_, items, _, _)| items).sum();
        let now = self.now();
        let is_there = |key: &ItemKey| {
            let states = self.models[container].visible(*key, now);
            states.iter().all(Option::is_some)
        };
        let seen = ItemKey::all().filter(is_there).count() as u64;
        match items >= seen {
            true => Ok(()),
            false => Err(format!(
                "c{container} counts {items} items, and clients see {seen}"
            )),
        }
    }

    /// Lets the engine compare each row of the store with what must be there.
    fn verify(&mut self) -> Checked {
        let verified = self.engine.verify(None, &mut |_| true);
        let verified = verified.map_err(|error| format!("no verification: {error:?}"))?;
        match verified.findings.is_empty() {
            true => Ok(()),
            false => Err(format!("the verification finds {:?}", verified.findings)),
        }
    }
}
