//! All tables against the database.

use gatewright_db::schema::describe_in;
use gatewright_db::{Tx, column_types};

use super::compare::Compare;
use super::history::History;
use super::obstacles::Obstacles;
use super::order::creation_order;
use super::rename::{self, Present};
use super::script::qualified;
use super::table::Table;
use super::{Changes, Refusal, SchemaError, Users, files, links, marks, search, sequences};
use crate::declare::{Model, Target};
use crate::files::RELEASED;
use crate::fragment::quoted;

/// What is missing, or why it cannot be created.
pub(super) async fn changes(tx: &Tx, models: &[Model], users: &Users) -> Result<Changes, SchemaError> {
    let mut changes = Changes::default();
    let mut refusals = Vec::new();
    if let Some(refusal) = check_users(tx, models, users).await? {
        refusals.push(refusal);
    }
    let (mut opening, mut dropping, mut closing) = (Vec::new(), Vec::new(), Vec::new());
    let renamed = rename::tables(tx, models).await?;
    let history = History::load(tx).await?;
    let counts = models.iter().any(|model| !model.sequences.is_empty());
    let has_counts = counts && describe_in(tx, sequences::TABLE).await?.is_some();
    if counts && !has_counts {
        changes.statements.push(sequences::create_table(tx.engine()));
    }
    let marks = models.iter().any(|model| !marks::triggers(model, tx.engine()).is_empty());
    let has_marks = marks && describe_in(tx, marks::TABLE).await?.is_some();
    if marks && !has_marks {
        changes.statements.extend(marks::create_table(tx.engine()));
    }
    let searches = search::Present::load(tx, models, &mut changes.statements).await?;
    if models.iter().any(Model::has_files) && describe_in(tx, RELEASED).await?.is_none() {
        changes.statements.extend(files::create_table(tx.engine()));
    }
    for (index, later) in creation_order(models) {
        let table = Table::of(&models[index], models, users, tx.engine());
        match Present::find(tx, &models[index], &renamed, &mut opening).await? {
            None => {
                refusals.extend(history.table(tx, &models[index], models).await?);
                changes.statements.push(table.create(&later));
                let waiting = table.columns.iter().filter(|column| later.contains(&&*column.name));
                closing.extend(waiting.map(|column| column.add(&table.name, false)));
                closing.extend(table.indexes.iter().map(|index| index.create(&table.name)));
                closing.extend(searches.changes(&models[index], None, None, &table.triggers, tx.engine()).created);
                closing.extend(marks::create(&table.triggers, None));
            }
            Some(present) => {
                let obstacles = Obstacles::count(tx, &table, &present).await?;
                refusals.extend(history.columns(&models[index], &present.shape));
                changes.notes.extend(both_names(&models[index], &present));
                let compare =
                    Compare { table: &table, shape: &present.shape, obstacles: &obstacles, engine: tx.engine() };
                compare.run(&mut changes, &mut closing, &mut refusals);
                if has_counts {
                    opening.extend(present.renamed_sequences(&models[index]));
                }
                if has_marks {
                    opening.extend(present.renamed_marks(&models[index]));
                }
                dropping.extend(marks::drop_left_over(&table.triggers, &table.name, &present.shape, tx.engine()));
                let search = {
                    let (shape, triggers) = (Some(&present.shape), &table.triggers);
                    searches.changes(&models[index], present.former_table(), shape, triggers, tx.engine())
                };
                if !search.is_built || (obstacles.rows && !search.created.is_empty()) {
                    let note = "until it has all records, `q=` is answered with 503";
                    changes.notes.push(format!("table \"{}\" gets a search index in batches: {note}", table.name));
                }
                dropping.extend(search.dropped);
                closing.extend(search.created);
                let triggers = marks::create(&table.triggers, Some(&present.shape));
                if !triggers.is_empty() {
                    closing.extend(triggers);
                    // After the triggers: they wait for writes that are in progress.
                    closing.extend(sequences::number(&models[index], tx.engine()));
                    closing.extend(marks::mark_unfolded(&models[index], &present.shape));
                }
                if obstacles.rows && sequences::is_new(&models[index], &present.shape) {
                    let note = "its records are numbered in the order of their ids";
                    changes.notes.push(format!("table \"{}\" gets a sequence: {note}", table.name));
                }
            }
        }
    }
    closing.extend(links::statements(tx, models, users).await?);
    if !refusals.is_empty() {
        renames_first(opening, &mut refusals);
        return Err(SchemaError::Refused(refusals));
    }
    opening.append(&mut dropping);
    changes.statements.splice(0..0, opening);
    changes.statements.append(&mut closing);
    Ok(changes)
}

/// A script uses the names that the database has, and a declaration those that it will have. So while renames are
/// pending, only the renames are printed.
fn renames_first(renames: Vec<String>, refusals: &mut Vec<Refusal>) {
    if renames.is_empty() {
        return;
    }
    for refusal in refusals.iter_mut().filter(|refusal| !refusal.sql.is_empty()) {
        refusal.sql.clear();
        refusal.reason.push_str("; the SQL for it is printed after the pending renames");
    }
    let first = refusals.first().map(|refusal| refusal.table.clone()).unwrap_or_default();
    let reason = "renames are pending, and nothing is changed while something is refused; rename first, then run \
                  `gatewright migrate --plan` again"
        .to_owned();
    refusals.insert(0, Refusal { table: first, column: None, reason, sql: renames });
}

/// Columns whose old name exists beside the new one: an older configuration, or a manual copy, created a second one.
fn both_names(model: &Model, present: &Present) -> Vec<String> {
    let there = |name: &str| present.shape.column(name).is_some();
    let renamed = model.fields.iter().filter_map(|field| Some((field.renamed_from.as_deref()?, &*field.name)));
    let both = renamed.filter(|(old, new)| !present.is_renamed() && there(old) && there(new));
    both.map(|(old, new)| {
        let (table, column) = (quoted(&model.table), qualified(&model.table, old));
        format!(
            "table \"{}\" has \"{old}\" and \"{new}\", which was renamed from it; \"{new}\" is used. To see what the other \
             one holds: SELECT \"id\", {column} FROM {table} WHERE {column} IS NOT NULL",
            model.table
        )
    })
    .collect()
}

/// Relations to users need the users' table, with an id that they can refer to.
async fn check_users(tx: &Tx, models: &[Model], users: &Users) -> Result<Option<Refusal>, SchemaError> {
    let mut relations = models
        .iter()
        .flat_map(|model| &model.fields)
        .filter_map(|field| field.relation.map(|relation| relation.to).or(field.links));
    let Users::Table(name) = users else { return Ok(None) };
    if !relations.any(|to| to == Target::Users) {
        return Ok(None);
    }
    let reason = match describe_in(tx, name).await? {
        None => "relations to users need it, and it is not there".to_owned(),
        Some(shape) => {
            let text = column_types("{text}", tx.engine());
            let fits = |id: &gatewright_db::schema::ColumnShape| text.starts_with(&id.type_name);
            match shape.column("id") {
                Some(id) if fits(id) => return Ok(None),
                Some(id) => format!("relations to users need its id to be text, and it is {}", id.type_name),
                None => "relations to users need its id, which is not there".to_owned(),
            }
        }
    };
    Ok(Some(Refusal { table: name.clone(), column: Some("id".to_owned()), reason, sql: Vec::new() }))
}
