//! Writes to several entities as one.
//!
//! Each operation has the rights, rules, checks and hooks that it has alone. An operation may name the record of an earlier
//! one: `{"$ref":"p"}` in the place of an id.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::value::RawValue;

use super::batch::{Batch, condition};
use super::body::Body;
use super::create::Create;
use super::delete::Delete;
use super::items::{self, Doing, Item, Outcome};
use super::links::Relations;
use super::members::{self, invalid, shortened};
use super::precondition::IfMatch;
use super::transaction::Transaction;
use super::update::Update;
use super::upsert::{OnConflict, Rights, Upsert};
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::{admit, field_rights};
use crate::context::entities::Entities;
use crate::error::Error;
use crate::plan::{Field, Key, Plan};
use crate::readable::Readable;
use crate::value::body::{Mode, malformed};
use crate::value::code;
use crate::value::json::Members;

/// The name of the member that stands for the id of an earlier record.
const REF: &str = "$ref";
/// The longest name of an operation's record, in characters.
const LONGEST_NAME: usize = 64;

/// The result of a batch over several entities.
#[derive(Debug)]
pub struct MixedBatch {
    /// The entity of each operation, as the operation names it. Absent if it names none.
    pub entities: Vec<Option<String>>,
    /// What became of the operations.
    pub batch: Batch,
}

impl MixedBatch {
    /// The entity of each operation of a body, as the operation names it.
    pub fn entities_of(body: &[u8]) -> Vec<Option<String>> {
        let parts = members::parts(body, &["operations"]).map(|(_, parts)| parts).unwrap_or_default();
        parts.into_iter().map(entity_of).collect()
    }
}

impl Entities {
    /// Whether the caller has the rights of each operation of a body, as far as it can be read.
    pub async fn may_batch(&self, call: &Call, body: &[u8]) -> Result<(), Error> {
        let Ok((_, parts)) = members::parts(body, &["operations"]) else { return Ok(()) };
        let mut seen = HashSet::new();
        for operation in parts.into_iter().map_while(|part| Operation::read(part).ok()) {
            let table = self.table(&operation.entity).ok().filter(|table| call.surface.serves(table.plan));
            let Some(table) = table else { return Ok(()) };
            let action = operation.op.action();
            if seen.insert((table.plan.index, action)) {
                table.reach(call, action).await?;
            }
        }
        Ok(())
    }

    /// Runs writes to several entities in one transaction: `{"operations":[{"op","entity",…},…]}`. Either all of them happen,
    /// or none.
    ///
    /// Fails if the body is not a batch. If one operation is refused, invalid or fails, returns [`Batch::Failed`].
    pub async fn batch(&self, call: &Call, body: impl Into<Body<'_>>) -> Result<MixedBatch, Error> {
        let body = body.into();
        let (_, parts) = members::parts(&body, &["operations"])?;
        let (items, refused) = read(self, call, &parts).await;
        let entities = MixedBatch::entities_of(&body);
        let outcome = items::run(self, call, items, refused).await?;
        Ok(MixedBatch { entities, batch: Batch::of(outcome, parts.len()) })
    }
}

impl Transaction<'_> {
    /// Runs writes to several entities, like [`Entities::batch`]. After a failure, let the whole transaction fail.
    pub async fn batch(&self, call: &Call, body: impl Into<Body<'_>>) -> Result<MixedBatch, Error> {
        let body = body.into();
        let (_, parts) = members::parts(&body, &["operations"])?;
        let (items, mut refused) = read(self.entities, call, &parts).await;
        let at = AtomicUsize::new(0);
        let outcome = match items::perform(self, &items, &at, call.surface.most_bytes()).await {
            Ok(done) => match refused.take() {
                None => Outcome::Committed(done),
                Some(error) => Outcome::Failed { index: items.len(), error },
            },
            Err(error @ Error::Database(_)) => return Err(error),
            Err(error) => Outcome::Failed { index: at.load(Ordering::Relaxed), error },
        };
        Ok(MixedBatch { entities: MixedBatch::entities_of(&body), batch: Batch::of(outcome, parts.len()) })
    }
}

/// The items before the first that is invalid or refused, and its error.
async fn read(entities: &Entities, call: &Call, parts: &[&RawValue]) -> (Vec<Item>, Option<Error>) {
    let mut items = Vec::with_capacity(parts.len());
    let mut named = HashMap::new();
    for part in parts {
        let operation = Operation::read(part).and_then(|operation| operation.checked(&named));
        let item = match operation {
            Ok(operation) => operation.item(entities, call, &named).await.map(|item| (operation.name, item)),
            Err(error) => Err(error),
        };
        match item {
            Ok((name, mut item)) => {
                if let Some(name) = name
                    && let Some(id) = item.placeholder(|| entities.next_id())
                {
                    named.insert(name, id);
                }
                items.push(item);
            }
            Err(error) => return (items, Some(error)),
        }
    }
    (items, None)
}

fn entity_of(part: &RawValue) -> Option<String> {
    let Members(members) = serde_json::from_str(part.get()).ok()?;
    let entity = members.iter().find(|(key, _)| key == "entity")?.1;
    serde_json::from_str(entity).ok().map(|name: String| shortened(&name))
}

/// The word of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Create,
    Update,
    Delete,
    Upsert,
}

impl Op {
    const ALL: [(&'static str, Self); 4] =
        [("create", Self::Create), ("update", Self::Update), ("delete", Self::Delete), ("upsert", Self::Upsert)];

    /// The right that it needs at least.
    fn action(self) -> Action {
        match self {
            Self::Create | Self::Upsert => Action::Create,
            Self::Update => Action::Update,
            Self::Delete => Action::Delete,
        }
    }

    /// The members that it may have, besides `op` and `entity`, and whether each is required.
    fn members(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::Create => &[("data", true), ("as", false)],
            Self::Update => &[("id", true), ("data", true), ("ifMatch", false)],
            Self::Delete => &[("id", true), ("ifMatch", false)],
            Self::Upsert => &[("on", true), ("data", true), ("resolution", false), ("as", false)],
        }
    }
}

/// One operation, its members read.
struct Operation<'a> {
    op: Op,
    entity: String,
    /// As JSON.
    id: Option<&'a str>,
    data: &'a str,
    /// The name by which later operations refer to its record.
    name: Option<String>,
    if_match: Option<IfMatch>,
    on: Vec<String>,
    resolution: Option<String>,
}

impl<'a> Operation<'a> {
    fn read(part: &'a RawValue) -> Result<Self, Error> {
        let Members(members) = serde_json::from_str(part.get()).map_err(|error| malformed(&error))?;
        let mut given: HashMap<&str, &'a str> = HashMap::new();
        for (key, value) in &members {
            let key = if members::is_if_match(key) { "ifMatch" } else { &**key };
            if given.insert(key, value).is_some() {
                return Err(invalid(&shortened(key), code::DUPLICATE, "is given more than once"));
            }
        }
        let text = |name: &str| members::text(name, given.get(name).copied());
        let word = text("op")?;
        let Some((_, op)) = Op::ALL.into_iter().find(|(known, _)| *known == word) else {
            return Err(invalid("op", code::ENUM, "must be create, update, delete or upsert"));
        };
        let entity = text("entity")?;
        for key in given.keys() {
            if !["op", "entity"].contains(key) && !op.members().iter().any(|(member, _)| member == key) {
                return Err(invalid(
                    &shortened(key),
                    code::UNKNOWN_FIELD,
                    format!("is not part of the operation {word}"),
                ));
            }
        }
        let missing = op.members().iter().find(|(member, needed)| *needed && !given.contains_key(member));
        if let Some((member, _)) = missing {
            return Err(invalid(member, code::REQUIRED, "is required"));
        }
        let data = given.get("data").copied().unwrap_or("{}");
        if !data.starts_with('{') {
            return Err(invalid("data", code::TYPE, "must be an object"));
        }
        let on = match given.get("on") {
            None => Vec::new(),
            Some(names) => serde_json::from_str(names)
                .map_err(|_| invalid("on", code::TYPE, "must be an array with the names of fields"))?,
        };
        let optional = |name: &str| given.contains_key(name).then(|| text(name)).transpose();
        Ok(Self {
            op,
            entity,
            id: given.get("id").copied(),
            data,
            name: optional("as")?,
            if_match: given.get("ifMatch").map(|json| members::if_match(json)).transpose()?.flatten(),
            on,
            resolution: optional("resolution")?,
        })
    }

    /// Checks the name of its record.
    fn checked(self, named: &HashMap<String, String>) -> Result<Self, Error> {
        let Some(name) = &self.name else { return Ok(self) };
        if name.is_empty() || name.chars().count() > LONGEST_NAME {
            return Err(invalid("as", code::MAX, format!("must have 1 to {LONGEST_NAME} characters")));
        }
        if named.contains_key(name) {
            return Err(invalid("as", code::DUPLICATE, "is the name of an earlier operation already"));
        }
        Ok(self)
    }

    async fn item(&self, entities: &Entities, call: &Call, named: &HashMap<String, String>) -> Result<Item, Error> {
        let found = entities.table(&self.entity).ok().filter(|table| call.surface.serves(table.plan));
        let table = found.ok_or_else(|| invalid("entity", code::ENUM, "names no entity"))?;
        let rights = field_rights(entities, call).await?;
        let (data, links) = linked(table.plan, rights.of(table.plan.index), self.data, named)?;
        let data = data.as_deref().unwrap_or(self.data.as_bytes());
        let doing = match self.op {
            Op::Create => {
                let admission = admit(table, call, Action::Create).await?;
                let relations = Relations::outside(table, call, &admission);
                let create = Create::read(relations, &admission, data, Mode::Create).await;
                Doing::Create(Box::new(create.map_err(|error| items::without_links(&links, error))?))
            }
            Op::Update => {
                let admission = admit(table, call, Action::Update).await?;
                let relations = Relations::outside(table, call, &admission);
                let update = Update::read(relations, &admission, &self.id(named)?, data).await?;
                Doing::Update(Box::new(update.under(condition(table, call, &admission, self.if_match.clone()))))
            }
            Op::Delete => {
                let admission = admit(table, call, Action::Delete).await?;
                let delete = Delete::read(table, call, &admission, &self.id(named)?)?;
                Doing::Delete(Box::new(delete.under(condition(table, call, &admission, self.if_match.clone()))))
            }
            Op::Upsert => {
                let on_conflict = OnConflict::of(self.on.clone(), self.resolution.as_deref())?;
                let rights = Rights::of(table, call, &on_conflict).await?;
                Doing::Upsert(Box::new(Upsert::read(table, call, &rights, data).await?))
            }
        };
        Ok(Item::new(table, call, doing).linked(links))
    }

    fn id(&self, named: &HashMap<String, String>) -> Result<String, Error> {
        let json = self.id.unwrap_or("null");
        match reference(json) {
            Some(name) => earlier(&name, named).map_err(|message| invalid("id", code::RELATION, message)),
            None => members::id(Some(json)),
        }
    }
}

/// The data with ids in the place of references, if it has any, and the keys of the fields that have them. Only relations
/// are searched: a JSON field may contain an object that looks the same.
fn linked(
    plan: &Plan,
    readable: &Readable,
    data: &str,
    named: &HashMap<String, String>,
) -> Result<(Option<Vec<u8>>, Vec<String>), Error> {
    let Members(members) = serde_json::from_str(data).map_err(|error| malformed(&error))?;
    let mut links = Vec::new();
    let mut changed = Vec::with_capacity(members.len());
    for (key, value) in &members {
        let is_relation = |field: &&Field| field.relation.is_some() || field.links.is_some();
        let field = match plan.fields.key(key, readable) {
            Some(Key::Field(index)) => Some(plan.fields.at(index)).filter(is_relation),
            Some(Key::Ignored | Key::Id) | None => None,
        };
        let Some(field) = field else {
            changed.push((&**key, (*value).to_owned()));
            continue;
        };
        let resolved = resolved(value, named).map_err(|message| invalid(&field.key, code::RELATION, message))?;
        if resolved.is_some() {
            links.push(field.key.clone());
        }
        changed.push((&**key, resolved.unwrap_or_else(|| (*value).to_owned())));
    }
    let data = (!links.is_empty()).then(|| members::object(changed.iter().map(|(key, value)| (*key, &**value))));
    Ok((data, links))
}

/// The value of a relation, of a list of them or of an operator on such a list, with ids in the place of references. `None` if it has
/// none.
fn resolved(json: &str, named: &HashMap<String, String>) -> Result<Option<String>, String> {
    let id = |name: String| earlier(&name, named).map(|id| serde_json::Value::from(id).to_string());
    if let Some(name) = reference(json) {
        return id(name).map(Some);
    }
    if let Ok(Members(members)) = serde_json::from_str(json)
        && let [(operator, list)] = members.as_slice()
        && list.starts_with('[')
    {
        let list = resolved(list, named)?;
        return Ok(list.map(|list| format!("{{{}:{list}}}", serde_json::Value::from(&**operator))));
    }
    let list: Vec<&RawValue> =
        if json.starts_with('[') { serde_json::from_str(json).unwrap_or_default() } else { Vec::new() };
    if !list.iter().any(|entry| reference(entry.get()).is_some()) {
        return Ok(None);
    }
    let entry = |entry: &&RawValue| reference(entry.get()).map_or_else(|| Ok(entry.get().to_owned()), id);
    let entries = list.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(format!("[{}]", entries.join(","))))
}

/// The name in `{"$ref":"name"}`.
fn reference(json: &str) -> Option<String> {
    if !json.starts_with('{') {
        return None;
    }
    let Members(members) = serde_json::from_str(json).ok()?;
    match members.as_slice() {
        [(key, name)] if key == REF => serde_json::from_str(name).ok(),
        _ => None,
    }
}

fn earlier(name: &str, named: &HashMap<String, String>) -> Result<String, String> {
    let id = named.get(name).cloned();
    id.ok_or_else(|| format!("\"{}\" is not the name of an earlier create or upsert", shortened(name)))
}
