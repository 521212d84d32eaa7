//! `include=`: the records that a page's relations name, with one query for each relation.
//!
//! Each target is read with the permissions of its own list: a caller who may not read it is refused, and others see
//! the records that the list would show. An entity that the request's interface does not serve is refused. A record
//! that the caller does not reach is null, like one that does not exist. For a user, signed-in callers see the id and
//! the public fields of the profile; on multi-tenant entities only for members of the request's tenant. Other callers
//! see only the id, which the relation already contains.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::{TenantId, UserId};
use gatewright_db::{Error as DatabaseError, Tx, Value, unless_unreadable};

use super::parameters::View;
use crate::access::{Action, Reach, Standing};
use crate::call::Call;
use crate::context::admission::reach;
use crate::context::table::Table;
use crate::declare::Target;
use crate::error::Error;
use crate::filter::Predicate;
use crate::plan::{INCLUDED, Plan, Trashed};
use crate::profile::PublicUsers;
use crate::readable::{FieldRights, Readable};
use crate::tenancy::{self, MembershipError, Memberships};

/// A relation whose records are included.
#[derive(Debug, Clone)]
pub(in crate::operations) struct Included {
    /// The column that holds the other record's id.
    pub(in crate::operations) column: String,
    /// The key on the wire.
    key: String,
    /// Whether its records carry their entity tags.
    tags: bool,
    from: From,
}

#[derive(Debug, Clone)]
enum From {
    Users(Option<Known>),
    Entity(Arc<Plan>, Reach, Readable),
}

/// Users of whom the caller sees more than the id.
#[derive(Clone)]
struct Known {
    users: PublicUsers,
    /// The tenant that the users must be members of, on multi-tenant entities.
    within: Option<(Arc<dyn Memberships>, TenantId)>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("users", &self.users).finish_non_exhaustive()
    }
}

/// The related records of one relation by their ids, as JSON.
pub(in crate::operations) type Found = HashMap<String, Vec<u8>>;

/// Looks up the relations, and checks whether the caller may read their targets.
pub(in crate::operations) async fn included(
    table: Table<'_>,
    call: &Call,
    view: &View,
    rights: &FieldRights,
) -> Result<Vec<Included>, Error> {
    let mut included = Vec::with_capacity(view.include.len());
    for index in &view.include {
        let field = table.plan.fields.at(*index);
        let from = match field.relation.map(|relation| relation.to) {
            Some(Target::Entity(target)) => {
                let target = table.other(target);
                if !call.surface.serves(target.plan) {
                    return Err(Error::NotServed(field.key.clone()));
                }
                let readable = rights.of(target.plan.index).clone();
                From::Entity(target.plan.clone(), Box::pin(reach(target, call, Action::Read)).await?, readable)
            }
            Some(Target::Users) | None => From::Users(Box::pin(known(table, call)).await?),
        };
        included.push(Included { column: field.column.clone(), key: field.key.clone(), tags: view.tags, from });
    }
    Ok(included)
}

/// The users whose public fields the caller sees. `None`: no user.
async fn known(table: Table<'_>, call: &Call) -> Result<Option<Known>, Error> {
    let Table { entities, plan } = table;
    let Some(users) = entities.public_users().filter(|_| call.identity.principal().is_some()) else { return Ok(None) };
    if plan.tenant.is_none() || call.is_operators() {
        return Ok(Some(Known { users: users.clone(), within: None }));
    }
    let standing = tenancy::standing(entities.memberships(), &call.identity, &call.tenant).await?;
    let (Standing::Member(membership), Some(memberships)) = (standing, entities.shared_memberships()) else {
        return Ok(None);
    };
    Ok(Some(Known { users: users.clone(), within: Some((memberships.clone(), membership.tenant)) }))
}

impl Known {
    /// The public fields of these users, up to `most` bytes. Users who do not exist, or are not in the tenant, are left
    /// out.
    async fn load(&self, tx: &Tx, ids: &[&str], most: usize) -> Result<Option<Found>, DatabaseError> {
        let among = match &self.within {
            None => serde_json::Value::from(ids.to_vec()),
            Some((memberships, tenant)) => {
                let users: Vec<UserId> = ids.iter().filter_map(|id| UserId::parse(id).ok()).collect();
                let members = match memberships.members_among(tx, &users, tenant).await {
                    Ok(members) => members,
                    Err(MembershipError::Database(error)) => return Err(error),
                    Err(error @ MembershipError::Store(_)) => {
                        tracing::warn!(%error, "cannot read the members of a tenant; users are shown by id only");
                        Vec::new()
                    }
                };
                members.iter().map(|member| serde_json::Value::from(member.as_str())).collect()
            }
        };
        let start = (Found::new(), 0_usize);
        let (found, bytes) = tx
            .fold(&self.users.sql, vec![Value::Text(among.to_string())], start, |(found, bytes), row| {
                if *bytes <= most {
                    let id: String = row.get(0)?;
                    let user = self.users.show(&id, row.get::<Option<String>>(1)?.as_deref());
                    *bytes += user.len();
                    found.insert(id, user);
                }
                Ok(())
            })
            .await?;
        Ok((bytes <= most).then_some(found))
    }
}

impl Included {
    /// The records with these ids that the caller reaches, up to `most` bytes: `None` if they do not fit.
    pub(in crate::operations) async fn load<'a>(
        &self,
        tx: &Tx,
        ids: impl Iterator<Item = &'a Value>,
        most: usize,
    ) -> Result<Option<Found>, DatabaseError> {
        let ids = ids.filter_map(|id| match id {
            Value::Text(id) => Some(id.as_str()),
            _ => None,
        });
        let mut ids: Vec<&str> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        let (plan, reach, readable) = match &self.from {
            From::Users(known) => {
                let bare = |id: &&str| ((*id).to_owned(), format!("{{\"id\":{}}}", quoted(id)).into_bytes());
                let mut found: Found = ids.iter().map(bare).collect();
                if let Some(known) = known.as_ref().filter(|_| !ids.is_empty()) {
                    let Some(more) = known.load(tx, &ids, most).await? else { return Ok(None) };
                    found.extend(more);
                }
                return Ok(Some(found));
            }
            From::Entity(plan, reach, readable) => (plan, reach, readable),
        };
        if ids.is_empty() {
            return Ok(Some(Found::new()));
        }
        let everything = Predicate::All(Vec::new());
        let scope = plan.sql.scope(reach, Trashed::Without, &everything, &plan.columns, plan.engine);
        let mut params = scope.params.clone();
        params.push(Value::Text(serde_json::Value::from(ids).to_string()));
        let sql = plan.sql.among(&scope, scope.params.len() + 1, plan.engine);
        let start = (Found::new(), 0_usize);
        let (found, bytes) = tx
            .fold(sql, params, start, |(found, bytes), row| {
                if *bytes <= most {
                    let Some(record) = unless_unreadable(plan.shape.record(row))? else { return Ok(()) };
                    let record = record.seen_by(readable);
                    let json = if self.tags { record.tagged() } else { record.json().to_vec() };
                    *bytes += json.len();
                    found.insert(record.id().to_owned(), json);
                }
                Ok(())
            })
            .await?;
        Ok((bytes <= most).then_some(found))
    }
}

/// Writes the related records into the object that `out` ends in.
pub(in crate::operations) fn append(included: &[Included], found: &[Found], ids: &[Value], out: &mut Vec<u8>) {
    if included.is_empty() || out.pop() != Some(b'}') {
        return;
    }
    out.extend_from_slice(format!(",\"{INCLUDED}\":{{").as_bytes());
    for (index, ((included, found), id)) in included.iter().zip(found).zip(ids).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(quoted(&included.key).as_bytes());
        out.push(b':');
        let record = match id {
            Value::Text(id) => found.get(id),
            _ => None,
        };
        out.extend_from_slice(record.map_or(b"null", Vec::as_slice));
    }
    out.extend_from_slice(b"}}");
}

/// Text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
