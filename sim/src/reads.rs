//! Clients that read single items: with and without a session, with and without a known etag, and
//! each read twice, so that the charges of equal requests are compared.

use crate::Checked;
use crate::model::{ContainerModel, Seen};
use crate::node::Node;
use crate::spec::{ItemKey, Value};
use orrery_engine::request::{Outcome, ReadReply};
use orrery_model::json::parse;
use orrery_model::{Json, Kind};

impl Node<'_> {
    /// Reads one item.
    pub(crate) fn read_item(&mut self) -> Checked {
        let container = self.random_container();
        let key = ItemKey::random(&mut self.random);
        let session = self
            .random
            .chance(50)
            .then(|| self.session(container))
            .flatten();
        let etags = self.models[container].etags.get(&key);
        let known = etags.and_then(|etags| etags.last()).cloned();
        let known = known.filter(|_| self.random.chance(25));
        let first = self.read(container, key, known.as_ref(), session.as_deref())?;
        let second = self.read(container, key, known.as_ref(), session.as_deref())?;
        let (Some((first, first_charge)), Some((second, second_charge))) = (first, second) else {
            return Ok(());
        };
        self.note(format!(
            "c{container} read {}/{}: {:?} for {first_charge}",
            key.key,
            key.id,
            first.as_ref().map(|seen| seen.n)
        ));
        if (&first, first_charge) != (&second, second_charge) {
            return Err(format!(
                "two reads of one state differ: {first:?} for {first_charge}, {second:?} for \
                 {second_charge}"
            ));
        }
        let now = self.now();
        self.models[container].observe(key, first.as_ref(), now)
    }

    /// Reads an item. Returns what it shows and the charge; `None` if the store or a split keeps it
    /// from being read.
    pub(crate) fn read(
        &mut self,
        container: usize,
        key: ItemKey,
        known: Option<&(u64, String)>,
        session: Option<&str>,
    ) -> Checked<Option<(Option<Seen>, u64)>> {
        let handle = self.handle(container)?;
        let partition_key = self.models[container].spec.partition_key(key.key);
        let etag = known.map(|(_, etag)| etag.as_str());
        let Outcome {
            result,
            charge,
            position,
            ..
        } = self
            .engine
            .read_item(&handle, &partition_key, key.name().as_str(), etag, session)
            .wait();
        self.note_charge(container, charge);
        let seen = match result {
            Ok(ReadReply::Item { body, etag }) => {
                let seen = seen_of(&self.models[container], key, &body, None)?.1;
                if seen.etag != etag {
                    return Err(format!("the answer has two etags: {seen:?}, {etag}"));
                }
                Some(seen)
            }
            Ok(ReadReply::NotModified { etag }) => {
                let named = known.filter(|(_, known)| *known == etag);
                let Some((n, _)) = named else {
                    return Err(format!(
                        "{key:?} is said to be unchanged, with the etag {etag}"
                    ));
                };
                let ts = self.models[container]
                    .settled(key)
                    .map_or(0, |value| value.ts);
                Some(Seen { n: *n, ts, etag })
            }
            Err(error) if error.kind() == Kind::NotFound => None,
            Err(error) => {
                self.check_failure(container, &error)?;
                return Ok(None);
            }
        };
        self.note_read_lsn(container, position)?;
        Ok(Some((seen, charge.0)))
    }
}

/// Returns the item and the version that a text shows, after comparing the members with those of
/// the write that it names: `sent`, or one that the model knows.
pub(crate) fn seen_of(
    model: &ContainerModel,
    key: ItemKey,
    text: &[u8],
    sent: Option<&Value>,
) -> Checked<(ItemKey, Seen)> {
    let item = parse(text).map_err(|error| format!("an item is no JSON: {error}"))?;
    let (found, seen) = named_by(model, &item)?;
    if found != key {
        return Err(format!("{item} is not the item {key:?}"));
    }
    let value = sent.cloned().or_else(|| model.value_of(key, seen.n));
    let Some(value) = value else {
        return Err(format!(
            "{key:?} shows write {}, which must not be there",
            seen.n
        ));
    };
    let expected = parse(model.spec.item_text(key, &value).as_bytes());
    let Ok(Json::Object(expected)) = expected else {
        return Err("the model makes items that are none".to_owned());
    };
    for (name, value) in expected.iter() {
        if item.get(name) != Some(value) {
            return Err(format!("{item} must have {value} as `{name}`"));
        }
    }
    Ok((key, seen))
}

/// Returns the item and the version that an item of an answer names.
pub(crate) fn named_by(model: &ContainerModel, item: &Json) -> Checked<(ItemKey, Seen)> {
    let key = key_of(model, item).ok_or_else(|| format!("{item} is none of the items"))?;
    let number = |name: &str| {
        let number = item.get(name).and_then(Json::as_i64);
        let number = number.and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| format!("{item} has no `{name}`"))
    };
    let etag = item
        .get("_etag")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned();
    let seen = Seen {
        n: number("n")?,
        ts: number("_ts")?,
        etag,
    };
    Ok((key, seen))
}

/// Returns the item that an id and the members of the partition key name.
fn key_of(model: &ContainerModel, item: &Json) -> Option<ItemKey> {
    let id = item.get("id")?.as_str()?.strip_prefix('i')?.parse().ok()?;
    let (member, prefix) = match model.spec.is_hierarchical {
        true => ("s", 's'),
        false => ("p", 'p'),
    };
    let key = item
        .get(member)?
        .as_str()?
        .strip_prefix(prefix)?
        .parse()
        .ok()?;
    Some(ItemKey { key, id })
}
