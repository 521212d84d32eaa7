//! Invitations: the SQL.

use gatewright_base::{Roles, TenantId, UserId};
use gatewright_db::{Db, Error, Row, Tx, params};
use jiff::Timestamp;

use crate::sql::{roles, text};
use crate::tenants::{hold, lock, of_member};
use crate::{Accepted, Change, Changed, Invitation, Invited, NewInvitation, TokenHash, permits};

pub(crate) async fn invite(db: &Db, invitation: &NewInvitation, most: u32) -> Result<Invited, Error> {
    let invitation = invitation.clone();
    let invite = async move |tx: &Tx| -> Result<Invited, Error> {
        let NewInvitation { id, tenant, email, roles, token, by, at, expires_at } = &invitation;
        let Some(acting) = hold(tx, tenant, by, *at).await? else { return Ok(Invited::Stranger) };
        if !permits(&acting, Change::Invite(roles)) {
            return Ok(Invited::Forbidden);
        }
        let sql = "DELETE FROM tenant_invitations WHERE tenant_id = ?1 AND (expires_at <= ?2 OR email = ?3)";
        tx.execute(sql, params![tenant, *at, email]).await?;
        let sql = "SELECT COUNT(*) AS n FROM tenant_invitations WHERE tenant_id = ?1";
        if count(tx.query_opt(sql, params![tenant]).await?)? >= i64::from(most) {
            return Ok(Invited::TooMany);
        }
        let sql = "INSERT INTO tenant_invitations \
                   (id, tenant_id, email, roles, token_hash, invited_by, created_at, expires_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        tx.execute(sql, params![id, tenant, email, text(roles), token.0, by, *at, *expires_at]).await?;
        Ok(Invited::Done)
    };
    db.write(invite).await
}

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT tenant_invitations.id, tenant_invitations.tenant_id, tenant_invitations.email, \
             tenant_invitations.roles, tenant_invitations.expires_at, tenant_names.name FROM tenant_invitations \
             LEFT JOIN tenant_names ON tenant_names.tenant_id = tenant_invitations.tenant_id WHERE ",
            $condition
        )
    };
}

pub(crate) async fn of_tenant(db: &Db, tenant: &TenantId, now: Timestamp) -> Result<Vec<Invitation>, Error> {
    let sql = select!(
        "tenant_invitations.tenant_id = ?1 AND tenant_invitations.expires_at > ?2 ORDER BY tenant_invitations.email"
    );
    db.query(sql, params![tenant, now]).await?.iter().map(read).collect()
}

pub(crate) async fn by_token(db: &Db, token: &TokenHash, now: Timestamp) -> Result<Option<Invitation>, Error> {
    let sql = select!("tenant_invitations.token_hash = ?1 AND tenant_invitations.expires_at > ?2");
    db.query_opt(sql, params![token.0, now]).await?.as_ref().map(read).transpose()
}

pub(crate) async fn withdraw(
    db: &Db,
    tenant: &TenantId,
    id: &str,
    actor: &UserId,
    at: Timestamp,
) -> Result<Changed, Error> {
    let (tenant, id, actor) = (tenant.clone(), id.to_owned(), actor.clone());
    let withdraw = async move |tx: &Tx| -> Result<Changed, Error> {
        let Some(acting) = hold(tx, &tenant, &actor, at).await? else { return Ok(Changed::Stranger) };
        if !permits(&acting, Change::Withdraw) {
            return Ok(Changed::Forbidden);
        }
        let sql = "DELETE FROM tenant_invitations WHERE tenant_id = ?1 AND id = ?2";
        let gone = tx.execute(sql, params![&tenant, &id]).await? > 0;
        Ok(if gone { Changed::Done } else { Changed::Missing })
    };
    db.write(withdraw).await
}

pub(crate) async fn accept(
    db: &Db,
    token: &TokenHash,
    user: &UserId,
    now: Timestamp,
    most: u32,
) -> Result<Accepted, Error> {
    let (token, user) = (*token, user.clone());
    let accept = async move |tx: &Tx| -> Result<Accepted, Error> {
        let sql = "SELECT tenant_id, roles FROM tenant_invitations WHERE token_hash = ?1 AND expires_at > ?2";
        let Some(row) = tx.query_opt(sql, params![token.0, now]).await? else { return Ok(Accepted::Gone) };
        let (tenant, invited): (TenantId, Roles) = (row.get("tenant_id")?, roles(&row)?);
        let Some(held) = admitted(tx, &tenant, &user, now, most).await? else { return Ok(Accepted::Full) };
        if tx.execute("DELETE FROM tenant_invitations WHERE token_hash = ?1", params![token.0]).await? == 0 {
            return Ok(Accepted::Gone);
        }
        let roles = enter(tx, &tenant, &user, &held, &invited, now).await?;
        Ok(Accepted::Member { tenant, roles })
    };
    db.write(accept).await
}

pub(crate) async fn join(
    db: &Db,
    tenant: &TenantId,
    user: &UserId,
    roles: &Roles,
    now: Timestamp,
    most: u32,
) -> Result<Option<Roles>, Error> {
    let (tenant, user, roles) = (tenant.clone(), user.clone(), roles.clone());
    let join = async move |tx: &Tx| -> Result<Option<Roles>, Error> {
        let Some(held) = admitted(tx, &tenant, &user, now, most).await? else { return Ok(None) };
        enter(tx, &tenant, &user, &held, &roles, now).await.map(Some)
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
    let is_full = count(tx.query_opt(sql, params![tenant]).await?)? >= i64::from(most);
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
    tx.execute(sql, params![tenant, user, now, text(&all)]).await?;
    Ok(all)
}

fn count(row: Option<Row>) -> Result<i64, Error> {
    row.map_or(Ok(0), |row| row.get("n"))
}

fn read(row: &Row) -> Result<Invitation, Error> {
    let tenant: TenantId = row.get("tenant_id")?;
    Ok(Invitation {
        id: row.get("id")?,
        tenant_name: row.get::<Option<String>>("name")?.unwrap_or_else(|| tenant.as_str().to_owned()),
        tenant,
        email: row.get("email")?,
        roles: roles(row)?,
        expires_at: row.get("expires_at")?,
    })
}
