//! Joining a tenant: the SQL.

use gatewright_base::{Roles, Subject, TenantId, UserId};
use gatewright_db::{Error, Tx, params};
use jiff::Timestamp;

use crate::events::MemberEvents;
use crate::tenants::{lock, of_member};
use crate::{Joined, roles};

/// Makes the member, or gives one that is there more roles. Nothing is changed if the tenant is full.
pub(crate) async fn join(
    tx: &Tx,
    events: &MemberEvents,
    tenant: &TenantId,
    user: &UserId,
    roles: &Roles,
    now: Timestamp,
    most: u32,
) -> Result<Joined, Error> {
    let Some(held) = admitted(tx, tenant, user, now, most).await? else { return Ok(Joined::Full) };
    let watched = events.watch(tx, tenant, &Subject::User(user.clone())).await?;
    let all = enter(tx, tenant, user, &held, roles, now).await?;
    watched.tell(tx).await?;
    Ok(Joined::Member(all))
}

/// The roles that a user has in a tenant, which is locked until the transaction ends; `None` if it has no room for one more
/// member.
async fn admitted(
    tx: &Tx,
    tenant: &TenantId,
    user: &UserId,
    now: Timestamp,
    most: u32,
) -> Result<Option<Roles>, Error> {
    lock(tx, tenant, now).await?;
    if let Some(held) = of_member(tx, tenant, user).await? {
        return Ok(Some(held));
    }
    let sql = "SELECT COUNT(*) AS n FROM tenant_members WHERE tenant_id = ?1";
    let row = tx.query_opt(sql, params![tenant]).await?;
    let members: i64 = row.map_or(Ok(0), |row| row.get("n"))?;
    let is_full = members >= i64::from(most);
    Ok((!is_full).then(Roles::default))
}

/// Adds these roles to those that a user has, and makes them a member if necessary.
async fn enter(
    tx: &Tx,
    tenant: &TenantId,
    user: &UserId,
    held: &Roles,
    more: &Roles,
    now: Timestamp,
) -> Result<Roles, Error> {
    let all: Roles = held.iter().chain(more.iter()).collect();
    let sql = "INSERT INTO tenant_members (tenant_id, member_kind, member_id, created_at, roles) \
               VALUES (?1, 'user', ?2, ?3, ?4) \
               ON CONFLICT (tenant_id, member_kind, member_id) DO UPDATE SET roles = excluded.roles";
    tx.execute(sql, params![tenant, user, now, roles::text(&all)]).await?;
    Ok(all)
}
