//! From names to entities, and whether the caller may read each.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gatewright_base::{nearest, to_snake};

use super::users::known;
use super::wanted::{Wanted, shown};
use super::{Back, From, Included, Target as Entity, Via};
use crate::access::Action;
use crate::call::Call;
use crate::condition::{LINK, LINKING};
use crate::context::admission::reach;
use crate::context::table::Table;
use crate::declare::model::links_table;
use crate::declare::{Kind, Target};
use crate::error::Error;
use crate::fragment::quoted;
use crate::plan::Field;
use crate::readable::FieldRights;

/// A relation that was found.
struct Relation<'a> {
    table: Table<'a>,
    field: &'a Field,
}

/// Looks up the relations, and checks whether the caller may read their targets.
pub(in crate::operations) async fn included(
    table: Table<'_>,
    call: &Call,
    (wanted, tags): (&[Wanted], bool),
    rights: &FieldRights,
) -> Result<Vec<Included>, Error> {
    below(table, call, (wanted, true), tags, rights).await
}

/// The relations of records that are included, each after its entity was found to be readable: a caller learns nothing about the names
/// of another. `is_first` is whether they are those of the request's own records.
fn below<'a>(
    table: Table<'a>,
    call: &'a Call,
    (wanted, is_first): (&'a [Wanted], bool),
    tags: bool,
    rights: &'a FieldRights,
) -> BoxFuture<'a, Result<Vec<Included>, Error>> {
    async move {
        let mut included = Vec::with_capacity(wanted.len());
        for one in wanted {
            included.push(if one.back.is_some() {
                let relation = match backward(table, one, rights) {
                    Ok(relation) => relation,
                    Err(message) => return Err(refusal(table, call, one).await.unwrap_or(Error::Query(message))),
                };
                let key = format!("{}({})", relation.table.plan.name, relation.field.key);
                let via = Via::Back(of_back(&relation, one));
                let from = entity((relation.table, &key), call, one, tags, rights).await?;
                Included { column: "id".to_owned(), key, via, from }
            } else {
                let Relation { field, .. } = forward(table, one, rights, is_first).map_err(Error::Query)?;
                let (to, via) = match (field.relation, field.links) {
                    (Some(relation), _) => (Some(relation.to), Via::One),
                    (None, links) => (links, Via::Many),
                };
                let from = match to {
                    Some(Target::Entity(target)) => {
                        entity((table.other(target), &field.key), call, one, tags, rights).await?
                    }
                    Some(Target::Users) | None => {
                        if let Some(child) = one.children.first() {
                            let message = format!("include: accounts have no relation \"{}\"", shown(&child.name));
                            return Err(Error::Query(message));
                        }
                        From::Users(known(table, call, rights).await?.map(Box::new))
                    }
                };
                Included { column: field.column.clone(), key: field.key.clone(), via, from }
            });
        }
        Ok(included)
    }
    .boxed()
}

/// Why the caller may not read the entity of a back relation at all, if it exists and so it is.
async fn refusal(table: Table<'_>, call: &Call, wanted: &Wanted) -> Option<Error> {
    let other = table.other(table.entities.plan(&wanted.name)?.index);
    if !call.surface.serves(other.plan) {
        return Some(Error::NotServed(wanted.name.clone()));
    }
    reach(other, call, Action::Read).await.err()
}

/// An entity whose records are included, under its own rights.
async fn entity(
    (target, key): (Table<'_>, &str),
    call: &Call,
    wanted: &Wanted,
    tags: bool,
    rights: &FieldRights,
) -> Result<From, Error> {
    if !call.surface.serves(target.plan) {
        return Err(Error::NotServed(key.to_owned()));
    }
    Ok(From::Entity(Box::new(Entity {
        plan: target.plan.clone(),
        reach: reach(target, call, Action::Read).await?,
        readable: target.plan.shape.readable(rights.of(target.plan.index)),
        tags,
        children: below(target, call, (&wanted.children, false), tags, rights).await?,
    })))
}

fn of_back(relation: &Relation<'_>, wanted: &Wanted) -> Back {
    let (plan, field) = (relation.table.plan, relation.field);
    let table = quoted(plan.table());
    let condition = if field.links.is_some() {
        let links = quoted(&links_table(plan.table(), &field.column));
        let of = format!("SELECT {LINKING} FROM {links} WHERE {LINK} = \"_k\".\"_v\"");
        gatewright_db::dialect::is_selected(plan.engine, &format!("{table}.\"id\""), &of)
    } else {
        format!("{table}.{} = \"_k\".\"_v\"", quoted(&field.column))
    };
    Back { condition, most: wanted.back.as_ref().map_or(0, super::wanted::Back::most) }
}

/// A relation of the entity itself.
fn forward<'a>(
    table: Table<'a>,
    wanted: &Wanted,
    rights: &FieldRights,
    is_first: bool,
) -> Result<Relation<'a>, String> {
    let (plan, readable, name) = (table.plan, rights.of(table.plan.index), &*wanted.name);
    let names = plan.columns.seen_by(readable);
    let column = names.find(name).map(|index| names.at(index));
    let field = column.and_then(|column| plan.fields().find(|field| field.column == column.name));
    let of = if is_first { String::new() } else { format!(" of \"{}\"", plan.name) };
    match field {
        Some(field) if field.relation.is_some() || field.links.is_some() => Ok(Relation { table, field }),
        _ if column.is_some() => Err(format!("include: \"{}\"{of} is not a relation", shown(name))),
        _ => {
            let is_relation = |field: &&Field| field.kind == Kind::Relation || field.links.is_some();
            let relations = plan.fields().filter(is_relation).filter(|field| readable.has_column(&field.column));
            let written = to_snake(&shown(name));
            let mut columns: Vec<&str> = relations.map(|field| &*field.column).collect();
            // A relation is often named without the ending of its column.
            let ending = columns.iter().position(|column| column.strip_suffix("_id") == Some(&*written));
            let meant = match ending {
                Some(place) => Some(columns.swap_remove(place)),
                None => nearest(&written, columns.iter().copied()),
            };
            let key = meant.and_then(|column| plan.fields.wire_key(column));
            let hint = key.map(|meant| format!("; did you mean \"{meant}\"?"));
            Err(format!("include: there is no relation \"{}\"{of}{}", shown(name), hint.unwrap_or_default()))
        }
    }
}

/// The relation of another entity to this one.
fn backward<'a>(table: Table<'a>, wanted: &Wanted, rights: &FieldRights) -> Result<Relation<'a>, String> {
    let written = wanted.back.as_ref().map(|back| &*back.field).unwrap_or_default();
    let none = || {
        format!(
            "include: there is no relation \"{}({})\" to \"{}\"",
            shown(&wanted.name),
            shown(written),
            table.plan.name
        )
    };
    let other = table.entities.plan(&wanted.name).map(|plan| table.other(plan.index)).ok_or_else(none)?;
    let names = other.plan.columns.seen_by(rights.of(other.plan.index));
    let column = names.find(written).map(|index| names.at(index)).ok_or_else(none)?;
    let field = other.plan.fields().find(|field| field.column == column.name).ok_or_else(none)?;
    let to = field.relation.map(|relation| relation.to).or(field.links);
    let leads_here = to.and_then(|to| table.plan.catalog.entity(to)) == Some(table.plan.index);
    if leads_here { Ok(Relation { table: other, field }) } else { Err(none()) }
}
