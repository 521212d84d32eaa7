//! Accounts: the fields that signed-in callers see.

use std::sync::Arc;

use gatewright_base::{TenantId, UserId};
use gatewright_db::{Error as DatabaseError, Tx, Value};

use super::{Found, quoted};
use crate::access::Standing;
use crate::call::Call;
use crate::context::table::Table;
use crate::error::Error;
use crate::profile::PublicUsers;
use crate::tenancy::{self, MembershipError, Memberships};

/// Users of whom the caller sees more than the id.
#[derive(Clone)]
pub(super) struct Known {
    users: PublicUsers,
    /// The tenant that the users must be members of, on multi-tenant entities.
    within: Option<(Arc<dyn Memberships>, TenantId)>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("users", &self.users).finish_non_exhaustive()
    }
}

/// The users whose public fields the caller sees, in relations of an entity. `None`: no user.
pub(super) async fn known(table: Table<'_>, call: &Call) -> Result<Option<Known>, Error> {
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

/// Each user with the id, and with more if the caller sees more. `None` if they do not fit.
pub(super) async fn load(
    known: Option<&Known>,
    tx: &Tx,
    ids: &[String],
    most: usize,
) -> Result<Option<Found>, DatabaseError> {
    let bare = |id: &String| (id.clone(), format!("{{\"id\":{}}}", quoted(id)).into_bytes());
    let mut found: Found = ids.iter().map(bare).collect();
    if let Some(known) = known.filter(|_| !ids.is_empty()) {
        let Some(more) = known.load(tx, ids, most).await? else { return Ok(None) };
        found.extend(more);
    }
    Ok(Some(found))
}

impl Known {
    /// The public fields of these users, up to `most` bytes. Users who do not exist, or are not in the tenant, are left
    /// out.
    async fn load(&self, tx: &Tx, ids: &[String], most: usize) -> Result<Option<Found>, DatabaseError> {
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
