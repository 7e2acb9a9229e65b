//! The state of a site: one item of the container `state`.
//!
//! ```text
//! {"id": "site", "type": "site",
//!  "home": "V1", "models": ["V1"],        the home model and all present models
//!  "epoch": 4,                            number of changes of `home` and `models`
//!  "gate": null | {"id": "8f…", "renewals": 3},
//!  "migration": null | {"id": "1c…", "from": "V1", "to": "V2", "phase": "copying", …},
//!  "fill": null | {"seed": 1, "scale": 0.01, "end": 1790000000, "complete": ["V1"]}}
//! ```
//! Every change replaces the item that was read before, guarded by its etag. Two processes can
//! therefore not change the state from the same version.

use crate::{BlogError, Model};
use serde_json::{Value, json};

/// The id of the item, which is also its partition key.
pub(crate) const SITE_ID: &str = "site";

/// The closed gate: no write operation begins while it is part of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Differs each time the gate is closed.
    pub id: String,
    /// Increases while the migrator is alive.
    pub renewals: u64,
}

/// The progress of the data with which a new site is filled.
#[derive(Debug, Clone, PartialEq)]
pub struct FillState {
    /// Seed of the data set.
    pub seed: u64,
    /// Scale of the data set.
    pub scale: f64,
    /// End of the data set in seconds since 1970: the start of the fill. `None` in a state that an
    /// earlier version stored, whose texts and dates this version does not make.
    pub end: Option<i64>,
    /// The models that contain the whole data set.
    pub complete: Vec<Model>,
}

/// The steps of a migration, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The target's containers and scripts are created.
    Creating,
    /// Existing data are copied and changes are followed.
    Copying,
    /// The copies are compared with the source while changes are followed.
    Checking,
    /// The gate is closed, the last changes are copied, and home is changed.
    CuttingOver,
    /// The target is home; the earlier home model is deleted.
    Dropping,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 5] = [
        Self::Creating,
        Self::Copying,
        Self::Checking,
        Self::CuttingOver,
        Self::Dropping,
    ];

    /// Returns the name in the stored state.
    fn name(self) -> &'static str {
        ["creating", "copying", "checking", "cuttingOver", "dropping"][self as usize]
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(
            [
                "creating the target",
                "copying",
                "comparing",
                "cutting over",
                "deleting the old model",
            ][*self as usize],
        )
    }
}

/// A migration that has begun and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Differs for each migration; part of the names of its pipelines.
    pub id: String,
    /// The home model at the start.
    pub from: Model,
    /// The home model after the cut-over.
    pub to: Model,
    /// True if `to` was present at the start, so that nothing is copied.
    pub was_present: bool,
    /// True if `from` stays present after the migration, without further changes.
    pub keep_old: bool,
    /// The current step.
    pub phase: Phase,
}

impl Migration {
    /// Returns the name under which the positions of the migration are stored.
    pub(crate) fn pipeline(&self) -> String {
        format!("migration-{}", self.id)
    }
}

/// The state of a site.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub home: Model,
    /// In order; contains `home`.
    pub models: Vec<Model>,
    pub epoch: u64,
    pub gate: Option<Gate>,
    pub migration: Option<Migration>,
    pub fill: Option<FillState>,
}

impl State {
    /// Returns the state of a new site.
    pub(crate) fn new(home: Model, models: &[Model]) -> Self {
        Self {
            home,
            models: models.to_vec(),
            epoch: 0,
            gate: None,
            migration: None,
            fill: None,
        }
    }

    /// Returns the models whose pipelines run: the present ones, and the target of a migration as
    /// soon as it has its containers.
    pub(crate) fn pipeline_models(&self) -> Vec<Model> {
        let mut models = self.models.clone();
        if let Some(migration) = &self.migration
            && migration.phase > Phase::Creating
            && !models.contains(&migration.to)
        {
            models.push(migration.to);
        }
        models.sort();
        models
    }

    /// Returns the item.
    pub(crate) fn to_json(&self) -> Value {
        let gate = self
            .gate
            .as_ref()
            .map(|gate| json!({"id": gate.id, "renewals": gate.renewals}));
        let migration = self.migration.as_ref().map(|migration| {
            json!({
                "id": migration.id,
                "from": migration.from.to_string(),
                "to": migration.to.to_string(),
                "wasPresent": migration.was_present,
                "keepOld": migration.keep_old,
                "phase": migration.phase.name(),
            })
        });
        let fill = self.fill.as_ref().map(|fill| {
            json!({
                "seed": fill.seed,
                "scale": fill.scale,
                "end": fill.end,
                "complete": names(&fill.complete),
            })
        });
        json!({
            "id": SITE_ID,
            "type": SITE_ID,
            "home": self.home.to_string(),
            "models": names(&self.models),
            "epoch": self.epoch,
            "gate": gate,
            "migration": migration,
            "fill": fill,
        })
    }

    /// Parses the item.
    ///
    /// # Errors
    /// [`BlogError::Unexpected`] for an item of another form.
    pub(crate) fn from_json(item: &Value) -> Result<Self, BlogError> {
        let gate = match &item["gate"] {
            Value::Null => None,
            gate => Some(Gate {
                id: text(gate, "id")?,
                renewals: number(gate, "renewals")?,
            }),
        };
        let migration = match &item["migration"] {
            Value::Null => None,
            migration => Some(parse_migration(migration)?),
        };
        let fill = match &item["fill"] {
            Value::Null => None,
            fill => Some(FillState {
                seed: number(fill, "seed")?,
                scale: fill["scale"].as_f64().ok_or_else(|| invalid(fill))?,
                end: fill["end"].as_i64(),
                complete: models(&fill["complete"])?,
            }),
        };
        let state = Self {
            home: model(item, "home")?,
            models: models(&item["models"])?,
            epoch: number(item, "epoch")?,
            gate,
            migration,
            fill,
        };
        if !state.models.contains(&state.home) {
            return Err(invalid(item));
        }
        Ok(state)
    }
}

fn parse_migration(item: &Value) -> Result<Migration, BlogError> {
    let name = text(item, "phase")?;
    let phase = Phase::ALL.into_iter().find(|phase| phase.name() == name);
    let flag = |name: &str| item[name].as_bool().ok_or_else(|| invalid(item));
    Ok(Migration {
        id: text(item, "id")?,
        from: model(item, "from")?,
        to: model(item, "to")?,
        was_present: flag("wasPresent")?,
        keep_old: flag("keepOld")?,
        phase: phase.ok_or_else(|| invalid(item))?,
    })
}

fn names(models: &[Model]) -> Vec<String> {
    models.iter().map(Model::to_string).collect()
}

fn models(list: &Value) -> Result<Vec<Model>, BlogError> {
    let mut models = Vec::new();
    for name in list.as_array().ok_or_else(|| invalid(list))? {
        models.push(name.as_str().ok_or_else(|| invalid(list))?.parse()?);
    }
    Ok(models)
}

fn model(item: &Value, name: &str) -> Result<Model, BlogError> {
    text(item, name)?.parse()
}

fn text(item: &Value, name: &str) -> Result<String, BlogError> {
    let text = item[name].as_str().ok_or_else(|| invalid(item))?;
    Ok(text.to_owned())
}

fn number(item: &Value, name: &str) -> Result<u64, BlogError> {
    item[name].as_u64().ok_or_else(|| invalid(item))
}

fn invalid(item: &Value) -> BlogError {
    BlogError::unexpected(
        "state of the site",
        format!("an item of another version or form: {item}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrating() -> State {
        let mut state = State::new(Model::V1, &[Model::V1]);
        state.gate = Some(Gate {
            id: "g".into(),
            renewals: 2,
        });
        state.migration = Some(Migration {
            id: "m".into(),
            from: Model::V1,
            to: Model::V3,
            was_present: false,
            keep_old: true,
            phase: Phase::Creating,
        });
        state.fill = Some(FillState {
            seed: 7,
            scale: 0.01,
            end: Some(1_790_000_000),
            complete: vec![Model::V1],
        });
        state
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for phase in Phase::ALL {
            let mut state = migrating();
            state.migration.as_mut().unwrap().phase = phase;
            assert_eq!(State::from_json(&state.to_json()), Ok(state));
        }
    }

    #[test]
    fn a_state_without_its_home_among_the_models_is_refused() {
        let mut item = migrating().to_json();
        item["home"] = "V2".into();
        assert!(State::from_json(&item).is_err());
        assert!(State::from_json(&json!({"id": "site"})).is_err());
    }

    #[test]
    fn pipelines_run_in_the_target_from_its_creation_on() {
        let mut state = migrating();
        assert_eq!(state.pipeline_models(), [Model::V1]);
        state.migration.as_mut().unwrap().phase = Phase::Copying;
        assert_eq!(state.pipeline_models(), [Model::V1, Model::V3]);
    }
}
