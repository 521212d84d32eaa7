//! Releases or deletes an account's records when the account is deleted.
//!
//! Records refer to an account as their owner or by a relation. [`OwnedRecords`] and the relation's `on_delete` decide
//! what happens to the records of each such column. All changes use the operations' own code, so that hooks run and
//! events are emitted, in transactions of bounded size. Every step can be repeated: an interrupted release continues
//! with the remaining records.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use gatewright_base::{Identity, UserId};
use gatewright_db::{Error as DatabaseError, Lane, Share, Sql, Tx, Value, dialect, params, schema};

use super::cascade::{self, Limits};
use super::delete;
use super::transaction::{Transaction, within};
use crate::access::Standing;
use crate::call::Call;
use crate::condition::LINK;
use crate::condition::Viewer;
use crate::context::entities::Entities;
use crate::context::gate::share;
use crate::declare::model::links_table;
use crate::declare::{OnDelete, Target};
use crate::encode::Record;
use crate::error::Error;
use crate::fragment::quoted;
use crate::plan::Plan;
use crate::readable::FieldRights;

/// What happens to the records that a deleted account owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OwnedRecords {
    /// They stay, without an owner.
    #[default]
    Keep,
    /// They are deleted with the account.
    Delete,
}

/// Some records that an account owns, of one entity.
#[derive(Debug)]
pub struct Owned {
    /// The entity's table; `None` if its records have no owners.
    pub table: Option<String>,
    /// By their ids.
    pub records: Vec<Record>,
    /// Whether no more of this entity remain.
    pub is_last: bool,
}

/// What happens to the records whose field names the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnRelease {
    Delete,
    SetNull,
    Restrict,
    /// The column cannot be empty, and is not a relation: the id stays.
    Keep,
}

struct AccountReference {
    plan: Arc<Plan>,
    field: usize,
    on_release: OnRelease,
    /// Whether the column may be null.
    nullable: bool,
}

/// Ids that are read at a time.
const PAGE: usize = 200;
/// Bytes of records that are read at once for an export, in addition to one record of any size.
const EXPORTED: usize = 256 << 10;

impl Entities {
    /// The table of a relation that restricts and leads to an account: the account must not be deleted.
    pub async fn holder_of_account(&self, user: &UserId, owned: OwnedRecords) -> Result<Option<String>, Error> {
        let all = references(self, owned).await?;
        for reference in all.iter().filter(|reference| reference.on_release == OnRelease::Restrict) {
            let mut condition = format!("{} = ?1", reference.column());
            // Records that are deleted in any case do not prevent anything.
            for other in
                all.iter().filter(|other| other.on_release == OnRelease::Delete && other.is_of(&reference.plan))
            {
                let column = other.column();
                let _infallible = write!(condition, " AND ({column} IS NULL OR {column} <> ?1)");
            }
            let sql = format!("SELECT 1 AS found FROM {} WHERE {condition} LIMIT 1", quoted(&reference.plan.table));
            if self.db().query_opt(sql, params![user]).await?.is_some() {
                return Ok(Some(reference.plan.table.to_string()));
            }
        }
        Ok(None)
    }

    /// Whether [`release_account`](Self::release_account) leaves no record of `table` that names the account in `column`. If so, the field
    /// is declared and [`holder_of_account`](Self::holder_of_account) checks it.
    pub fn releases_column(&self, table: &str, column: &str) -> bool {
        let plan = self.plans().iter().find(|plan| *plan.table == *table && !plan.is_read_only);
        plan.is_some_and(|plan| {
            plan.fields.iter().enumerate().any(|(index, field)| {
                let names_users = field.relation.is_some_and(|relation| relation.to == Target::Users);
                field.column == column && (names_users || plan.owner == Some(index))
            })
        }) || (column == LINK && self.is_of_links(table))
    }

    /// Whether `table` has the links of a relation to many accounts.
    fn is_of_links(&self, table: &str) -> bool {
        self.plans().iter().any(|plan| {
            let mut fields = plan.fields.iter().filter(|field| field.links == Some(Target::Users));
            fields.any(|field| links_table(&plan.table, &field.column) == table)
        })
    }

    /// Releases all records of an account. If another record or a hook prevents a deletion, the record stays without
    /// its owner.
    pub async fn release_account(&self, user: &UserId, owned: OwnedRecords) -> Result<(), Error> {
        let references = references(self, owned).await?;
        let call = Call::default().as_operator().releasing(user);
        // Records may prevent each other's deletion: each round deletes those that nothing prevents now.
        loop {
            let (mut gone, mut stuck) = (0_usize, 0_usize);
            for reference in references.iter().filter(|reference| reference.on_release == OnRelease::Delete) {
                let mut after = String::new();
                while let Some(ids) = self.page_of(reference, user, &after).await? {
                    for id in &ids {
                        match delete::purge(self, &reference.plan, &call, id).await {
                            Ok(()) | Err(Error::NotFound) => gone += 1,
                            Err(Error::InUse | Error::TooManyDependents(_) | Error::Rejected(_)) => stuck += 1,
                            Err(error) => return Err(error),
                        }
                    }
                    after = ids.last().cloned().unwrap_or_default();
                }
            }
            if stuck == 0 || gone == 0 {
                break;
            }
        }
        for reference in references.iter().filter(|reference| {
            reference.nullable && matches!(reference.on_release, OnRelease::Delete | OnRelease::SetNull)
        }) {
            while empty(self, reference, user, &call).await? {}
        }
        Ok(())
    }

    /// Removes the answers that are kept for an account.
    pub async fn forget_answers(&self, user: &UserId) -> Result<(), Error> {
        if let Some(answers) = self.answers() {
            answers.forget(user).await?;
        }
        Ok(())
    }

    /// Some of the records that an account owns, in the trash or not, with the fields that every client sees: those after an id, of
    /// the entity with this number. `None` if there is no entity with this number.
    pub async fn records_of_account(&self, user: &UserId, entity: usize, after: &str) -> Result<Option<Owned>, Error> {
        let Some(plan) = self.plans().get(entity).cloned() else { return Ok(None) };
        // The rows of a view are records of others, or follow from them.
        let Some(field) = plan.owner.filter(|_| !plan.is_read_only) else {
            return Ok(Some(Owned { table: None, records: Vec::new(), is_last: true }));
        };
        // The account's roles are not known here: of fields with rules for reading it gets those whose rules name it.
        let viewer = Viewer::new(&Identity::Anonymous, &Standing::Unnamed, self.ambient().now());
        let viewer = Viewer { me: Some(user.as_str().into()), ..viewer };
        let rights = FieldRights::of_viewer(self.plans(), &viewer);
        let name = plan.table.to_string();
        let sql = plan.sql.owned(&plan.fields.at(field).column, PAGE);
        let (records, is_last) = self.page_of_export(plan, sql, (user, after), rights).await?;
        Ok(Some(Owned { table: Some(name), records, is_last }))
    }

    /// Some of the records that name an account in a field other than their owner's, with all fields that operators see: those after
    /// an id, of the field with this number among all such fields. The table is named with the field, as `tasks.assignee`. `None` if
    /// there is no field with this number.
    pub async fn records_naming_account(
        &self,
        user: &UserId,
        number: usize,
        after: &str,
    ) -> Result<Option<Owned>, Error> {
        let fields = self.plans().iter().filter(|plan| !plan.is_read_only).flat_map(|plan| {
            let fields = plan.fields.iter().enumerate().filter(|(index, field)| {
                let names_one = field.relation.is_some_and(|relation| relation.to == Target::Users);
                (names_one || field.links == Some(Target::Users)) && plan.owner != Some(*index)
            });
            fields.map(|(_, field)| (plan.clone(), field))
        });
        let Some((plan, field)) = fields.into_iter().nth(number) else { return Ok(None) };
        let name = format!("{}.{}", plan.table, field.column);
        let sql = if field.links.is_some() {
            plan.sql.linking_one(&links_table(&plan.table, &field.column), PAGE)
        } else {
            plan.sql.owned(&field.column, PAGE)
        };
        let (records, is_last) = self.page_of_export(plan, sql, (user, after), FieldRights::ALL).await?;
        Ok(Some(Owned { table: Some(name), records, is_last }))
    }

    /// A page of an account's export: the records whose ids a statement finds, as far as they are seen.
    async fn page_of_export(
        &self,
        plan: Arc<Plan>,
        sql: Sql,
        (user, after): (&UserId, &str),
        rights: FieldRights,
    ) -> Result<(Vec<Record>, bool), Error> {
        let mut hasher = DefaultHasher::new();
        user.as_str().hash(&mut hasher);
        let share = Share(hasher.finish());
        let (user, after) = (user.clone(), after.to_owned());
        let read = async move |tx: &Tx| -> Result<(Vec<Record>, bool), DatabaseError> {
            let rows = tx.query(sql.clone(), params![&user, &after]).await?;
            let (mut ids, mut bytes) = (Vec::new(), 0);
            for row in &rows {
                bytes += usize::try_from(row.get::<i64>("size")?).unwrap_or_default();
                if bytes > EXPORTED && !ids.is_empty() {
                    break;
                }
                ids.push(Value::from(row.get::<String>("id")?));
            }
            if ids.is_empty() {
                return Ok((Vec::new(), true));
            }
            let is_last = ids.len() == rows.len() && rows.len() < PAGE;
            let mut records = tx
                .fold(plan.sql.with_ids(ids.len(), ""), ids, Vec::new(), |records, row| {
                    records.push(plan.shape.record(row)?.seen_by(rights.of(plan.index)));
                    Ok(())
                })
                .await?;
            records.sort_by(|a: &Record, b: &Record| a.id().cmp(b.id()));
            Ok((records, is_last))
        };
        // In the lane of lists, where no caller prevents others from reading.
        Ok(self.db().clone().lane(Lane::Lists(share)).read(read).await?)
    }

    /// The next ids of a reference; `None` at its end.
    async fn page_of(
        &self,
        reference: &AccountReference,
        user: &UserId,
        after: &str,
    ) -> Result<Option<Vec<String>>, DatabaseError> {
        let (table, column) = (quoted(&reference.plan.table), reference.column());
        let sql =
            format!("SELECT \"id\" FROM {table} WHERE {column} = ?1 AND \"id\" > ?2 ORDER BY \"id\" LIMIT {PAGE}");
        let rows = self.db().query(sql, params![user, after]).await?;
        let ids = rows.iter().map(|row| row.get("id")).collect::<Result<Vec<String>, _>>()?;
        Ok((!ids.is_empty()).then_some(ids))
    }
}

impl AccountReference {
    fn column(&self) -> String {
        quoted(&self.plan.fields.at(self.field).column)
    }

    fn is_of(&self, plan: &Plan) -> bool {
        self.plan.index == plan.index
    }
}

/// Sets the field of some records to null; `false` if there was none left.
async fn empty(entities: &Entities, reference: &AccountReference, user: &UserId, call: &Call) -> Result<bool, Error> {
    let share = share(call);
    let (plan, field, user, call) = (reference.plan.clone(), reference.field, user.clone(), call.clone());
    within(entities, share, async move |transaction: &Transaction<'_>| {
        let tx = transaction.tx;
        let lock = dialect::for_update(tx.engine());
        let sql = cascade::naming(&plan, field, 1, PAGE, lock);
        let (mut ids, mut bytes) = (Vec::new(), 0);
        for row in tx.query(sql, vec![Value::from(user.as_str())]).await? {
            bytes += usize::try_from(row.get::<i64>("size")?).unwrap_or_default();
            if bytes > Limits::PIECE.bytes && !ids.is_empty() {
                break;
            }
            ids.push(row.get::<String>("id")?);
        }
        if ids.is_empty() {
            return Ok(false);
        }
        delete::empty(transaction, &plan, field, (user.as_str(), ids), &call).await?;
        Ok(true)
    })
    .await
}

/// Every field that may name an account.
async fn references(entities: &Entities, owned: OwnedRecords) -> Result<Vec<AccountReference>, DatabaseError> {
    let mut references = Vec::new();
    for plan in entities.plans().iter().filter(|plan| !plan.is_read_only) {
        let mut shape = None;
        for (index, field) in plan.fields.iter().enumerate() {
            if field.links == Some(Target::Users) {
                let on_release = OnRelease::SetNull;
                references.push(AccountReference { plan: plan.clone(), field: index, on_release, nullable: true });
                continue;
            }
            let relation = field.relation.filter(|relation| relation.to == Target::Users);
            let is_owner = plan.owner == Some(index);
            if !is_owner && relation.is_none() {
                continue;
            }
            if shape.is_none() {
                shape = schema::describe(entities.db(), &plan.table).await?;
            }
            let column = shape.as_ref().and_then(|shape| shape.column(&field.column));
            let nullable = column.is_some_and(|column| column.nullable);
            let on_delete = relation.map(|relation| relation.on_delete);
            let on_release = match (is_owner, on_delete) {
                (_, Some(OnDelete::Cascade)) => OnRelease::Delete,
                (true, _) if owned == OwnedRecords::Delete => OnRelease::Delete,
                (true, _) | (false, Some(OnDelete::SetNull)) if nullable => OnRelease::SetNull,
                (true, None) => OnRelease::Keep,
                (true, Some(_)) | (false, Some(OnDelete::SetNull | OnDelete::Restrict) | None) => OnRelease::Restrict,
            };
            references.push(AccountReference { plan: plan.clone(), field: index, on_release, nullable });
        }
    }
    Ok(references)
}
