//! The records that a deletion also deletes: found by ids and sizes, and read only once it is known that they fit.
//!
//! A cascade that fits [`Limits::PIECE`] is one transaction. A larger one goes in pieces, each a transaction of its own:
//! records on which nothing more depends go first, the record itself last. Memory is bounded by one piece, other writers
//! get in between two pieces, and the events of each piece go out with it. If the delete ends early (the caller leaves,
//! the server stops), the record is still there with the rest of its dependents, and deleting it again continues.
//!
//! If something refuses a delete, it must do so before the first record is deleted. So `restrict` relations are looked
//! up first ([`is_held_back`]), and a cascade through an entity with hooks is never divided ([`is_divisible`]).

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatewright_db::{Error as DatabaseError, Sql, Tx, Value, dialect};

use super::linked;
use crate::context::entities::Entities;
use crate::declare::OnDelete;
use crate::error::Error;
use crate::fragment::quoted;
use crate::plan::{Incoming, Plan};

/// The most ids in one statement.
pub(super) const CHUNK: usize = 500;
/// The most steps from a record towards the records on which nothing more depends.
const MAX_STEPS: usize = 64;
/// How deep `restrict` relations are looked for, in entities.
const DEPTH: usize = 8;
/// The most statements that look for them.
const MAX_CHECKS: usize = 64;

/// The limit of what one transaction deletes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) records: usize,
    /// Bytes of the records' fields.
    pub(super) bytes: usize,
}

impl Limits {
    /// One piece of a larger cascade.
    pub(super) const PIECE: Self = Self { records: 900, bytes: 8 << 20 };
    /// The limit of one indivisible transaction.
    pub(super) const WHOLE: Self = Self { records: 10_000, bytes: 64 << 20 };
}

/// How much of [`Limits::WHOLE`] a transaction has not used.
#[derive(Debug)]
pub(super) struct Room {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

impl Default for Room {
    fn default() -> Self {
        Self { records: Limits::WHOLE.records.into(), bytes: Limits::WHOLE.bytes.into() }
    }
}

impl Room {
    pub(super) fn left(&self) -> Limits {
        Limits { records: self.records.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    pub(super) fn take(&self, found: &Closure) {
        let less = |room: &AtomicUsize, by: usize| {
            room.store(room.load(Ordering::Relaxed).saturating_sub(by), Ordering::Relaxed);
        };
        less(&self.records, found.records().saturating_sub(1));
        less(&self.bytes, found.bytes);
    }
}

/// A record by its entity's position and its id.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) plan: usize,
    pub(super) id: String,
    /// How many relations separate it from the first records.
    pub(super) level: usize,
    bytes: usize,
}

impl Node {
    pub(super) fn new(plan: &Plan, id: &str) -> Self {
        Self { plan: plan.index, id: id.to_owned(), level: 0, bytes: 0 }
    }
}

/// Records, and everything that is deleted with them.
#[derive(Debug)]
pub(super) struct Closure {
    /// Nearest first, from the records themselves on.
    pub(super) gone: Vec<Node>,
    /// `set_null` relations to them.
    pub(super) emptied: Vec<Emptied>,
    pub(super) bytes: usize,
}

impl Closure {
    fn records(&self) -> usize {
        self.gone.len() + self.emptied.iter().map(|emptied| emptied.ids.len()).sum::<usize>()
    }
}

/// Records that stay without the relation, or without some ids of a relation to many records.
#[derive(Debug)]
pub(super) struct Emptied {
    pub(super) incoming: Incoming,
    /// The ids that the relation may have named.
    pub(super) targets: Vec<Value>,
    /// The records that stay.
    pub(super) ids: Vec<String>,
}

/// The result of a search for a cascade.
#[derive(Debug)]
pub(super) enum Found {
    /// All of it.
    Whole(Closure),
    /// It does not fit. Some of the records that it reached last, all of one entity.
    Beyond(Vec<Node>),
    /// The deleted records fit; the records that lose a relation do not. Some of the latter.
    Loose(Emptied),
}

/// The work of one transaction for a cascade.
#[derive(Debug)]
pub(super) enum Piece {
    /// Deletes the record itself and all remaining dependents.
    Last(Closure),
    /// Deletes records that must be deleted before it.
    Before(Closure),
    /// Empties a relation.
    Empty(Emptied),
}

/// Finds a piece that fits `limits`: the whole cascade from `root`, or a part of it that must be deleted first.
pub(super) async fn piece(tx: &Tx, entities: &Entities, root: Node, limits: Limits) -> Result<Piece, Error> {
    let mut visited = HashSet::from([(root.plan, root.id.clone())]);
    let mut sources = vec![root];
    for step in 0..MAX_STEPS {
        match closure(tx, entities, &sources, limits).await? {
            Found::Whole(closure) if step == 0 => return Ok(Piece::Last(closure)),
            Found::Whole(closure) => return Ok(Piece::Before(closure)),
            Found::Beyond(_) if sources.len() > 1 => sources.truncate(sources.len() / 2),
            Found::Beyond(deeper) => match deeper.first() {
                Some(first) if visited.insert((first.plan, first.id.clone())) => sources = deeper,
                _ => break,
            },
            Found::Loose(emptied) => return Ok(Piece::Empty(emptied)),
        }
        let mut left = limits.bytes;
        let fits = sources.iter().take_while(|source| {
            left = left.saturating_sub(source.bytes);
            left > 0
        });
        sources.truncate(fits.count().max(1));
    }
    // A cycle of records: none of them can be deleted before the others.
    Err(Error::TooManyDependents(Limits::WHOLE.records))
}

/// The cascade from `sources`, or the point at which it no longer fits.
pub(super) async fn closure(tx: &Tx, entities: &Entities, sources: &[Node], limits: Limits) -> Result<Found, Error> {
    let mut seen: HashSet<(usize, String)> = sources.iter().map(|node| (node.plan, node.id.clone())).collect();
    let mut gone = sources.to_vec();
    for node in &mut gone {
        node.level = 0;
    }
    let (mut level, mut depth, mut bytes) = (0..gone.len(), 0, 0);
    while !level.is_empty() {
        depth += 1;
        let mut found: Vec<Node> = Vec::new();
        for (incoming, ids) in pointing_at(entities, &gone[level.clone()], OnDelete::Cascade) {
            let from = entities.at(incoming.from);
            for ids in ids.chunks(CHUNK) {
                let rows = sizes(tx, from, &incoming, ids, limits.records).await?;
                let has_more = rows.len() > limits.records;
                let mut is_over = false;
                for (id, size) in rows {
                    if seen.insert((from.index, id.clone())) {
                        bytes += size;
                        found.push(Node { plan: from.index, id, level: depth, bytes: size });
                    }
                    is_over = bytes > limits.bytes || gone.len() + found.len() > limits.records + sources.len();
                    if is_over {
                        break;
                    }
                }
                if is_over || has_more {
                    let last = found.last().map(|node| node.plan);
                    found.retain(|node| Some(node.plan) == last);
                    return Ok(Found::Beyond(found));
                }
            }
        }
        level = gone.len()..gone.len() + found.len();
        gone.append(&mut found);
    }
    let mut emptied: Vec<Emptied> = Vec::new();
    let mut losing = 0;
    for (incoming, ids) in pointing_at(entities, &gone, OnDelete::SetNull) {
        let from = entities.at(incoming.from);
        for ids in ids.chunks(CHUNK) {
            // Records that are deleted themselves may be among them.
            let rows = sizes(tx, from, &incoming, ids, limits.records + gone.len()).await?;
            let mut losers = Vec::new();
            for (id, size) in rows {
                if seen.contains(&(from.index, id.clone())) {
                    continue;
                }
                bytes += size;
                losing += 1;
                losers.push(id);
                if bytes > limits.bytes || losing > limits.records {
                    return Ok(Found::Loose(Emptied { incoming, targets: ids.to_vec(), ids: losers }));
                }
            }
            emptied.push(Emptied { incoming: incoming.clone(), targets: ids.to_vec(), ids: losers });
        }
    }
    Ok(Found::Whole(Closure { gone, emptied, bytes }))
}

/// Whether the cascade from `plan` may be divided: hooks may refuse, and must do so before the first record is deleted.
pub(super) fn is_divisible(entities: &Entities, plan: &Plan) -> bool {
    let (mut reached, mut next) = (HashSet::from([plan.index]), vec![plan.index]);
    while let Some(index) = next.pop() {
        let plan = entities.at(index);
        if entities.hooks_of(plan).is_some() {
            return false;
        }
        for incoming in &plan.incoming {
            match incoming.on_delete {
                OnDelete::Cascade if reached.insert(incoming.from) => next.push(incoming.from),
                OnDelete::SetNull if entities.hooks_of(entities.at(incoming.from)).is_some() => return false,
                OnDelete::Cascade | OnDelete::SetNull | OnDelete::Restrict => {}
            }
        }
    }
    true
}

/// Whether a `restrict` relation prevents the deletion of `root`, or of something that is deleted with it. A relation
/// that appears later, or is deeper than [`DEPTH`], is found when its piece is deleted.
pub(super) async fn is_held_back(tx: &Tx, entities: &Entities, root: &Node) -> Result<bool, DatabaseError> {
    let mut checks = Vec::new();
    restricting(entities, &mut vec![root.plan], "?1", &mut checks);
    for check in checks {
        if tx.query_opt(check, vec![Value::from(&*root.id)]).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The statements that look for `restrict` relations to the records in `ids`, and to records that are deleted with
/// them.
fn restricting(entities: &Entities, path: &mut Vec<usize>, ids: &str, checks: &mut Vec<Sql>) {
    let Some(&last) = path.last() else { return };
    for incoming in &entities.at(last).incoming {
        let from = entities.at(incoming.from);
        let (table, column) = (quoted(&from.table), quoted(&from.fields.at(incoming.field).column));
        match incoming.on_delete {
            OnDelete::Restrict if checks.len() < MAX_CHECKS => {
                checks.push(format!("SELECT 1 AS found FROM {table} WHERE {column} IN ({ids}) LIMIT 1").into());
            }
            // An entity that refers to itself is followed once.
            OnDelete::Cascade
                if path.len() < DEPTH && path.iter().filter(|plan| **plan == incoming.from).count() < 2 =>
            {
                path.push(incoming.from);
                let ids = format!("SELECT \"id\" FROM {table} WHERE {column} IN ({ids})");
                restricting(entities, path, &ids, checks);
                path.pop();
            }
            OnDelete::Restrict | OnDelete::Cascade | OnDelete::SetNull => {}
        }
    }
}

/// The relations with that rule which point at the entities of `nodes`, each with the ids of the records there.
fn pointing_at(entities: &Entities, nodes: &[Node], rule: OnDelete) -> Vec<(Incoming, Vec<Value>)> {
    let mut pointing: Vec<(Incoming, Vec<Value>)> = Vec::new();
    for plan in entities.plans() {
        let ids = nodes.iter().filter(|node| node.plan == plan.index);
        let ids: Vec<Value> = ids.map(|node| Value::from(&*node.id)).collect();
        if !ids.is_empty() {
            let relations = plan.incoming.iter().filter(|incoming| incoming.on_delete == rule);
            pointing.extend(relations.map(|incoming| (incoming.clone(), ids.clone())));
        }
    }
    pointing
}

/// The records whose relation names one of `ids`, locked for the transaction, with their sizes: at most `most` and one
/// more.
async fn sizes(
    tx: &Tx,
    from: &Plan,
    incoming: &Incoming,
    ids: &[Value],
    most: usize,
) -> Result<Vec<(String, usize)>, Error> {
    let sql = naming(from, incoming.field, ids.len(), most.saturating_add(1), dialect::for_update(tx.engine()));
    let rows = tx.query(sql, ids.to_vec()).await?;
    let size = |size: i64| usize::try_from(size).unwrap_or_default();
    rows.iter().map(|row| Ok((row.get("id")?, size(row.get("size")?)))).collect()
}

/// Selects the ids and sizes of at most `most` records whose field names one of `count` parameters, locked as `lock` says.
pub(super) fn naming(from: &Plan, field: usize, count: usize, most: usize, lock: &str) -> Sql {
    let declared = from.fields.at(field);
    if declared.links.is_some() {
        return from.sql.sizes_of_linking(&linked::table(from, field), count, most, lock);
    }
    from.sql.sizes(&declared.column, count, most, lock)
}
