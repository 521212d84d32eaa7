//! Accounts: the fields that signed-in callers see, and those of the directory for its readers.

use std::sync::Arc;

use gatewright_base::{TenantId, UserId};
use gatewright_db::{Error as DatabaseError, Tx, Value};

use super::{Found, Target, quoted};
use crate::access::{Action, Refusal, Standing};
use crate::call::Call;
use crate::condition::{Rule, Viewer, caller};
use crate::context::admission::reach;
use crate::context::table::Table;
use crate::declare::Target as To;
use crate::error::Error;
use crate::profile::PublicUsers;
use crate::readable::FieldRights;
use crate::tenancy::{self, MembershipError, Memberships};
use crate::value::json::Members;

/// Users of whom the caller sees more than the id.
pub(super) struct Known {
    public: Option<Public>,
    /// The directory, as far as the caller reaches it.
    directory: Option<Target>,
}

/// Users whose public fields the caller sees.
#[derive(Clone)]
struct Public {
    users: PublicUsers,
    /// The tenant that the users must be members of, on multi-tenant entities.
    within: Option<(Arc<dyn Memberships>, TenantId)>,
}

impl Clone for Known {
    fn clone(&self) -> Self {
        Self { public: self.public.clone(), directory: self.directory.clone() }
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// The users of whom the caller sees more than the id, in relations of an entity. `None`: no user.
pub(super) async fn known(table: Table<'_>, call: &Call, rights: &FieldRights) -> Result<Option<Known>, Error> {
    let public = public(table, call).await?;
    let directory = directory(table, call, rights).await?;
    Ok((public.is_some() || directory.is_some()).then_some(Known { public, directory }))
}

/// The directory, if there is one and the caller may read it.
async fn directory(table: Table<'_>, call: &Call, rights: &FieldRights) -> Result<Option<Target>, Error> {
    let Some(index) = table.plan.catalog.entity(To::Users) else { return Ok(None) };
    let directory = table.other(index);
    let plan = directory.plan;
    let reach = match reach(directory, call, Action::Read).await {
        Ok(reach) => reach,
        // A caller for whom the rule does not hold without a tenant either gets what everybody gets.
        Err(Error::Refused(refusal @ (Refusal::NoTenant(_) | Refusal::UnreadableTenant))) => {
            let viewer = Viewer::new(&call.identity, &Standing::Unnamed, table.entities.ambient().now());
            let holds = |rule: &Arc<Rule>| caller::is_true(&rule.resolved.condition, &viewer);
            return if call.identity.principal().is_some() && plan.readers.as_ref().is_none_or(holds) {
                Err(refusal.into())
            } else {
                Ok(None)
            };
        }
        Err(Error::Refused(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let readable = plan.shape.readable(rights.of(index));
    Ok(Some(Target { plan: plan.clone(), reach, readable, tags: false, children: Vec::new() }))
}

/// The users whose public fields the caller sees.
async fn public(table: Table<'_>, call: &Call) -> Result<Option<Public>, Error> {
    let Table { entities, plan } = table;
    let Some(users) = entities.public_users().filter(|_| call.identity.principal().is_some()) else { return Ok(None) };
    if plan.tenant.is_none() || call.is_operators() {
        return Ok(Some(Public { users: users.clone(), within: None }));
    }
    let standing = tenancy::standing(entities.memberships(), &call.identity, &call.tenant).await?;
    let (Standing::Member(membership), Some(memberships)) = (standing, entities.shared_memberships()) else {
        return Ok(None);
    };
    Ok(Some(Public { users: users.clone(), within: Some((memberships.clone(), membership.tenant)) }))
}

/// Each user with the id, and with more if the caller sees more. `None` if they do not fit.
pub(super) async fn load(
    known: Option<&Known>,
    tx: &Tx,
    ids: &[String],
    most: usize,
) -> Result<Option<Found>, DatabaseError> {
    let bare = |id: &String| (id.clone(), format!("{{\"id\":{}}}", quoted(id)).into_bytes());
    let mut found: Found = ids.iter().map(bare).collect();
    let Some(Known { public, directory }) = known.filter(|_| !ids.is_empty()) else { return Ok(Some(found)) };
    if let Some(public) = public {
        let Some(more) = public.load(tx, ids, directory.is_some(), most).await? else { return Ok(None) };
        found.extend(more);
    }
    if let Some(directory) = directory {
        let Some(listed) = directory.rows(tx, ids, None, most).await? else { return Ok(None) };
        for (id, _, read) in listed {
            let with = found.get(&id).map_or(&b"{}"[..], Vec::as_slice);
            let both = joined(&read.json, with);
            found.insert(id, both);
        }
    }
    let bytes: usize = found.values().map(Vec::len).sum();
    Ok((bytes <= most || ids.len() <= 1).then_some(found))
}

/// One object with the members of both: where both have one, that of the first.
fn joined(first: &[u8], second: &[u8]) -> Vec<u8> {
    let (Ok(Members(first)), Ok(Members(second))) = (serde_json::from_slice(first), serde_json::from_slice(second))
    else {
        return first.to_vec();
    };
    let more = second.iter().filter(|(key, _)| !first.iter().any(|(known, _)| known == key));
    let members: Vec<String> =
        first.iter().chain(more).map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
    format!("{{{}}}", members.join(",")).into_bytes()
}

impl Public {
    /// The public fields of these users, up to `most` bytes; with `only_open` without closed accounts. Users who do not exist, or are not in the tenant, are left
    /// out.
    async fn load(
        &self,
        tx: &Tx,
        ids: &[String],
        only_open: bool,
        most: usize,
    ) -> Result<Option<Found>, DatabaseError> {
        let sql = if only_open { &self.users.open } else { &self.users.sql };
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
            .fold(sql, vec![Value::Text(among.to_string())], start, |(found, bytes), row| {
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
