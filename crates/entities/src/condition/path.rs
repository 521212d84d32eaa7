//! Following a path from a row to its end.

use gatewright_base::nearest;

use super::resolve::{At, Fault, OF_CALLER, Resolver, Rights};
use super::{Hop, HopDirection, LINK, LINKING, Operand, old_name};
use crate::declare::{Kind, Target};
use crate::filter::columns::Column;
use crate::filter::lexer::Place;
use crate::filter::syntax::{Back, Path, Step};
use crate::readable::Readable;

/// The most relations that are followed from the record that is judged.
const MAX_RELATIONS: usize = 4;
/// The most relations in one expression.
const MAX_HOPS: usize = 128;

/// A path that ends in a value.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) hops: Vec<Hop>,
    pub(super) operand: Operand,
    pub(super) column: Column,
}

impl Resolver<'_> {
    /// Follows `path` to a field. A relation to many records ends in each id that it names.
    pub(super) fn field(&mut self, at: At, path: &Path) -> Result<Ended, Fault> {
        self.ended(at, path, true)
    }

    /// The same. `follows` is whether a relation to many records at the end of the path is followed, or is a list.
    fn ended(&mut self, at: At, path @ Path(steps): &Path, follows: bool) -> Result<Ended, Fault> {
        self.may_name_fields(path)?;
        let (mut at, mut hops) = (at, Vec::new());
        for (index, step) in steps.iter().enumerate() {
            let rest = &steps[index + 1..];
            if let Some(back) = &step.back {
                if rest.is_empty() {
                    let message = format!("a path ends in a field; write {}({}).id", step.name, back.field);
                    return Err(Fault::new(step.place, message));
                }
                at = self.back(at, step, back, &mut hops)?;
                continue;
            }
            let mut column = self.column(at.entity, &step.name, step.place)?;
            if let Some(to) = column.links
                && (follows || !rest.is_empty())
            {
                at = self.links(at, &column, step.place, &mut hops)?;
                column = Column {
                    name: LINK.to_owned(),
                    kind: Kind::Relation,
                    // By this it is known as a link.
                    of: Some(Kind::Relation),
                    to: Some(to),
                    links: None,
                    ..column
                };
            }
            let row = at.row;
            match (column.kind, column.to) {
                _ if rest.is_empty() => {
                    let operand = match column.kind {
                        Kind::Json | Kind::List => Operand::Json { row, name: column.name.clone(), path: Vec::new() },
                        kind => Operand::Column { row, name: column.name.clone(), kind },
                    };
                    return Ok(Ended { hops, operand, column });
                }
                (Kind::Json, _) => {
                    let path = rest.iter().map(key).collect::<Result<_, _>>()?;
                    return Ok(Ended { hops, operand: Operand::Json { row, name: column.name.clone(), path }, column });
                }
                (_, Some(Target::Users)) if rest.len() == 1 && rest[0].back.is_none() && rest[0].name == "id" => {
                    // The relation's column contains the account's id.
                    let operand = Operand::Column { row, name: column.name.clone(), kind: Kind::Relation };
                    return Ok(Ended { hops, operand, column });
                }
                (_, Some(to)) => at = self.forward(at, &column, to, (step.place, &rest[0]), &mut hops)?,
                (_, None) => {
                    return Err(Fault::new(
                        step.place,
                        format!("\"{}\" is neither a relation nor a json field", column.key),
                    ));
                }
            }
        }
        Err(Fault::new(steps[0].place, "a path ends in a field"))
    }

    /// Follows `path` from the record as it was before the change.
    pub(super) fn old_field(&mut self, at: At, path: &Path) -> Result<Ended, Fault> {
        self.of_before(at, path, Self::field)
    }

    /// Follows `path` from the record as it was before the change to what has a length.
    pub(super) fn old_length(&mut self, at: At, path: &Path) -> Result<Ended, Fault> {
        self.of_before(at, path, Self::length)
    }

    fn of_before(
        &mut self,
        at: At,
        path: &Path,
        end: impl Fn(&mut Self, At, &Path) -> Result<Ended, Fault>,
    ) -> Result<Ended, Fault> {
        let start = &path.0[0];
        self.may_compare_with_before(at, start.place, "@old")?;
        if let Some(back) = &start.back {
            return Err(Fault::new(back.place, "@old has the fields of the record itself"));
        }
        let mut ended = end(self, at, path)?;
        let operand = match &mut ended.operand {
            Operand::Length(of) => &mut **of,
            operand => operand,
        };
        match (&mut *ended.hops, operand) {
            ([first, ..], _) => first.from_column = old_name(&first.from_column),
            ([], Operand::Column { name, .. } | Operand::Json { name, .. }) => *name = old_name(name),
            _ => {}
        }
        Ok(ended)
    }

    /// Whether `path` ends in a relation to many records.
    pub(super) fn ends_in_links(&mut self, at: At, path: &Path) -> Result<bool, Fault> {
        let row = self.row;
        let ended = self.ended(at, path, false)?;
        self.row = row;
        Ok(ended.column.links.is_some())
    }

    /// Follows `path` to what has a length.
    pub(super) fn length(&mut self, at: At, path: &Path) -> Result<Ended, Fault> {
        let ended = self.ended(at, path, false)?;
        let column = &ended.column;
        if !has_length(column) {
            let message = format!("\"{}\" has no length: length() takes a text or a list", column.key);
            return Err(Fault::new(path.0[0].place, message));
        }
        let column = Column { kind: Kind::Int, of: None, values: Vec::new(), to: None, links: None, ..column.clone() };
        Ok(Ended { operand: Operand::Length(Box::new(ended.operand)), column, ..ended })
    }

    /// Follows `path` to related rows.
    pub(super) fn rows(&mut self, at: At, path @ Path(steps): &Path) -> Result<(Vec<Hop>, At), Fault> {
        self.may_name_fields(path)?;
        let (mut at, mut hops) = (at, Vec::new());
        for step in steps {
            if let Some(back) = &step.back {
                at = self.back(at, step, back, &mut hops)?;
                continue;
            }
            let mut column = self.column(at.entity, &step.name, step.place)?;
            if let Some(to) = column.links {
                at = self.links(at, &column, step.place, &mut hops)?;
                column = Column { name: LINK.to_owned(), to: Some(to), ..column };
            }
            match column.to {
                Some(to) => at = self.forward(at, &column, to, (step.place, step), &mut hops)?,
                None => return Err(Fault::new(step.place, format!("\"{}\" is not a relation", column.key))),
            }
        }
        Ok((hops, at))
    }

    fn forward(
        &mut self,
        at: At,
        column: &Column,
        to: Target,
        (place, next): (Place, &Step),
        hops: &mut Vec<Hop>,
    ) -> Result<At, Fault> {
        // A declaration knows nothing about accounts: what it reads of them would change without an event.
        let known = self.catalog.entity(to).filter(|_| to != Target::Users || matches!(self.rights, Rights::Reader(_)));
        let entity = known.ok_or_else(|| stops_at_users(next))?;
        let hop = |row| Hop {
            from: at.row,
            from_column: column.name.clone(),
            row,
            entity,
            column: "id".to_owned(),
            direction: HopDirection::Forward,
        };
        self.follow(at, place, hops, hop)
    }

    /// From a record to the ids of its relation to many records.
    fn links(&mut self, at: At, column: &Column, place: Place, hops: &mut Vec<Hop>) -> Result<At, Fault> {
        let links = self.links_of(at.entity, column, place)?;
        let hop = |row| Hop {
            from: at.row,
            from_column: column.name.clone(),
            row,
            entity: links,
            column: LINKING.to_owned(),
            direction: HopDirection::Links,
        };
        // The ids belong to the record itself, and the record at the end of a link is one relation away, not two.
        let reached = self.follow(At { depth: 0, ..at }, place, hops, hop)?;
        Ok(At { depth: at.depth, ..reached })
    }

    fn links_of(&self, entity: usize, column: &Column, place: Place) -> Result<usize, Fault> {
        let unknown = || Fault::new(place, format!("\"{}\" is not a relation to many records", column.key));
        self.catalog.links(entity, &column.name).ok_or_else(unknown)
    }

    fn back(&mut self, at: At, step: &Step, back: &Back, hops: &mut Vec<Hop>) -> Result<At, Fault> {
        let catalog = self.catalog;
        let Some(entity) = catalog.find(&step.name) else {
            let hint = nearest(&step.name, catalog.names()).filter(|_| !matches!(self.rights, Rights::Reader(_)));
            let hint = hint.map(|meant| format!(", did you mean \"{meant}\"?")).unwrap_or_default();
            return Err(Fault::new(step.place, format!("there is no entity \"{}\"{hint}", cut(&step.name))));
        };
        if catalog.at(entity).is_read_only && !matches!(self.rights, Rights::Reader(_)) {
            let message = format!("\"{}\" is a view, whose records change without events", step.name);
            return Err(Fault::new(step.place, message));
        }
        let column = self.column(entity, &back.field, back.place)?;
        let leads_here = |to: Option<Target>| to.and_then(|to| catalog.entity(to)) == Some(at.entity);
        if leads_here(column.links) {
            return self.back_over_links(at, (entity, &column), step.place, hops);
        }
        if !leads_here(column.to) {
            let message = format!(
                "\"{}\" of \"{}\" is not a relation to \"{}\"",
                column.key,
                step.name,
                catalog.at(at.entity).name
            );
            return Err(Fault::new(back.place, message));
        }
        let hop = |row| Hop {
            from: at.row,
            from_column: "id".to_owned(),
            row,
            entity,
            column: column.name.clone(),
            direction: HopDirection::Back,
        };
        self.follow(at, step.place, hops, hop)
    }

    /// From a record to all whose relation to many records names it.
    fn back_over_links(
        &mut self,
        at: At,
        (entity, column): (usize, &Column),
        place: Place,
        hops: &mut Vec<Hop>,
    ) -> Result<At, Fault> {
        let links = self.links_of(entity, column, place)?;
        let to_link = |row| Hop {
            from: at.row,
            from_column: "id".to_owned(),
            row,
            entity: links,
            column: LINK.to_owned(),
            direction: HopDirection::Back,
        };
        let link = self.follow(at, place, hops, to_link)?;
        let to_record = |row| Hop {
            from: link.row,
            from_column: LINKING.to_owned(),
            row,
            entity,
            column: "id".to_owned(),
            direction: HopDirection::Back,
        };
        self.follow(At { depth: at.depth, ..link }, place, hops, to_record)
    }

    fn follow(&mut self, at: At, place: Place, hops: &mut Vec<Hop>, hop: impl Fn(usize) -> Hop) -> Result<At, Fault> {
        if at.depth == MAX_RELATIONS {
            return Err(Fault::new(place, format!("more than {MAX_RELATIONS} relations in one path")));
        }
        self.row += 1;
        if self.row > MAX_HOPS {
            return Err(Fault::new(place, format!("more than {MAX_HOPS} relations in one expression")));
        }
        let hop = hop(self.row);
        let reached = At { row: hop.row, entity: hop.entity, depth: at.depth + 1 };
        if !self.catalog.is_of_links(hop.entity) {
            self.entities.insert(hop.entity);
        }
        hops.push(hop);
        Ok(reached)
    }

    pub(super) fn column(&self, entity: usize, name: &str, place: Place) -> Result<Column, Fault> {
        let entry = self.catalog.at(entity);
        let columns = match self.rights {
            Rights::Declared | Rights::Change => entry.columns.seen_by(Readable::all()),
            Rights::Reader(rights) => entry.visible.seen_by(rights.of(entity)),
            Rights::Caller => return Err(Fault::new(place, OF_CALLER)),
        };
        let Some(index) = columns.find(name) else {
            let (shown, meant) = columns.unknown(name);
            let hint = meant.map(|meant| format!(", did you mean \"{meant}\"?")).unwrap_or_default();
            return Err(Fault::new(place, format!("unknown field \"{shown}\" of \"{}\"{hint}", entry.name)));
        };
        Ok(columns.at(index).clone())
    }
}

/// Whether it is a text or a list, and not a value inside JSON.
fn has_length(column: &Column) -> bool {
    matches!(column.kind, Kind::String | Kind::Text | Kind::List)
}

fn key(step: &Step) -> Result<String, Fault> {
    match step.back {
        None => Ok(step.name.clone()),
        Some(_) => Err(Fault::new(step.place, "nothing refers to a value inside a json field")),
    }
}

fn stops_at_users(step: &Step) -> Fault {
    Fault::new(step.place, "a path stops at users: of an account only id is known")
}

fn cut(name: &str) -> String {
    name.chars().take(64).collect()
}
