//! Joining a tenant: the SQL.

use gatewright_base::{InvitationId, Roles, TenantId, UserId};
use gatewright_db::{Db, Error, Tx, params};
use jiff::Timestamp;

use crate::tenants::{lock, of_member};
use crate::{Joined, roles};

/// Spends the invitation and makes the member, in one transaction.
pub(crate) async fn join(
    db: &Db,
    tenant: &TenantId,
    user: &UserId,
    roles: &Roles,
    now: Timestamp,
    most: u32,
    invitation: &InvitationId,
) -> Result<Joined, Error> {
    let (tenant, user, roles, invitation) = (tenant.clone(), user.clone(), roles.clone(), invitation.clone());
    let join = async move |tx: &Tx| -> Result<Joined, Error> {
        let Some(held) = admitted(tx, &tenant, &user, now, most).await? else { return Ok(Joined::Full) };
        if tx.execute("DELETE FROM account_invitations WHERE id = ?1", params![&invitation]).await? == 0 {
            return Ok(Joined::NoInvitation);
        }
        enter(tx, &tenant, &user, &held, &roles, now).await.map(Joined::Member)
    };
    db.write(join).await
}

/// The roles that a user has in a tenant, which is held until the transaction ends; `None` if it has no room for one more member.
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

/// Makes a member with more roles than those that they have.
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
