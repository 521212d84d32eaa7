//! Tenants and their members: the SQL.

use gatewright_base::{Roles, Subject, TenantId, UserId};
use gatewright_db::{Db, Error, ReadablePage, Row, Sql, Tx, Value, params, readable};
use jiff::Timestamp;

use crate::events::MemberEvents;
use crate::roles;
use crate::{Change, Changed, MemberKind, NewTenant, OWNER, TenantMember, TenantOfUser, permits};

/// Where members are, and who is told what happens to them.
pub(crate) type Place<'a> = (&'a Db, &'a MemberEvents);

pub(crate) async fn of_user(db: &Db, user: &UserId) -> Result<Vec<TenantOfUser>, Error> {
    let sql = "SELECT tenant_members.tenant_id, tenant_members.roles, tenant_names.name FROM tenant_members \
               LEFT JOIN tenant_names ON tenant_names.tenant_id = tenant_members.tenant_id \
               WHERE tenant_members.member_kind = 'user' AND tenant_members.member_id = ?1 \
               ORDER BY tenant_members.tenant_id";
    let rows = db.query(sql, params![user]).await?;
    let tenant = |row: &Row| {
        let id: TenantId = row.get("tenant_id")?;
        let name = row.get::<Option<String>>("name")?.unwrap_or_else(|| id.as_str().to_owned());
        Ok(TenantOfUser { id, name, roles: roles::read(row)? })
    };
    readable("tenant_members", &rows, tenant)
}

/// One tenant, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantSummary {
    /// Its identifier.
    pub id: TenantId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its number of members.
    pub members: i64,
}

pub(crate) async fn all(db: &Db, after: &str, limit: u32) -> Result<Vec<TenantSummary>, Error> {
    let sql = "SELECT tenant_members.tenant_id, MAX(tenant_names.name) AS name, COUNT(*) AS members FROM tenant_members \
         LEFT JOIN tenant_names ON tenant_names.tenant_id = tenant_members.tenant_id \
         WHERE tenant_members.tenant_id > ?1 GROUP BY tenant_members.tenant_id \
         ORDER BY tenant_members.tenant_id LIMIT ?2";
    let summary = |row: &Row| {
        Ok(TenantSummary { id: row.get("tenant_id")?, name: row.get("name")?, members: row.get("members")? })
    };
    page(db, sql, &params![after], limit, summary).await
}

pub(crate) async fn one(db: &Db, tenant: &TenantId) -> Result<TenantSummary, Error> {
    let sql = "SELECT (SELECT name FROM tenant_names WHERE tenant_id = ?1) AS name, \
               (SELECT COUNT(*) FROM tenant_members WHERE tenant_id = ?1) AS members";
    let Some(row) = db.query_opt(sql, params![tenant]).await? else {
        return Ok(TenantSummary { id: tenant.clone(), name: None, members: 0 });
    };
    Ok(TenantSummary { id: tenant.clone(), name: row.get("name")?, members: row.get("members")? })
}

pub(crate) async fn create(
    (db, events): Place<'_>,
    tenant: &NewTenant,
    at: Timestamp,
    most: u32,
) -> Result<bool, Error> {
    let (tenant, events) = (tenant.clone(), events.clone());
    let create = async move |tx: &Tx| -> Result<bool, Error> {
        let sql = "INSERT INTO tenant_names (tenant_id, name, created_at) VALUES (?1, ?2, ?3)";
        tx.execute(sql, params![&tenant.id, &tenant.name, at]).await?;
        let owner: Roles = [OWNER].into_iter().collect();
        let watched = events.watch(tx, &tenant.id, &Subject::User(tenant.owner.clone())).await?;
        // One statement counts and inserts. On Postgres two that run at once may each see the count without the other:
        // the bound is against growth, and one more tenant does no harm.
        let sql = "INSERT INTO tenant_members (tenant_id, member_kind, member_id, created_at, roles) \
                   SELECT ?1, 'user', ?2, ?3, ?4 WHERE \
                   (SELECT COUNT(*) FROM tenant_members WHERE member_kind = 'user' AND member_id = ?2) < ?5";
        let kept =
            tx.execute(sql, params![&tenant.id, &tenant.owner, at, roles::text(&owner), i64::from(most)]).await? > 0;
        if !kept {
            tx.execute("DELETE FROM tenant_names WHERE tenant_id = ?1", params![&tenant.id]).await?;
            return Ok(false);
        }
        events.created(tx, &tenant.id, &tenant.name).await?;
        watched.tell(tx).await?;
        Ok(true)
    };
    db.write(create).await
}

pub(crate) async fn members(
    db: &Db,
    tenant: &TenantId,
    after: Option<&Subject>,
    limit: u32,
) -> Result<Vec<TenantMember>, Error> {
    let mut params = params![tenant];
    let beyond = if let Some(after) = after {
        params.extend(params![MemberKind::of(after).as_str(), after.as_str()]);
        " AND (member_kind > ?2 OR (member_kind = ?2 AND member_id > ?3))"
    } else {
        ""
    };
    let sql = format!(
        "SELECT member_kind, member_id, roles, created_at FROM tenant_members WHERE tenant_id = ?1{beyond} \
         ORDER BY member_kind, member_id LIMIT ?{}",
        params.len() + 1
    );
    page(db, sql, &params, limit, member).await
}

pub(crate) async fn users(
    db: &Db,
    tenant: &TenantId,
    after: Option<&UserId>,
    limit: u32,
) -> Result<Vec<TenantMember>, Error> {
    let sql = "SELECT member_kind, member_id, roles, created_at FROM tenant_members \
               WHERE tenant_id = ?1 AND member_kind = ?2 AND member_id > ?3 ORDER BY member_id LIMIT ?4";
    // No id is the empty text.
    let params = params![tenant, MemberKind::User.as_str(), after.map_or("", UserId::as_str)];
    page(db, sql, &params, limit, member).await
}

/// At most `limit` rows that can be read. The last placeholder of `sql` is the number of rows.
async fn page<T>(
    db: &Db,
    sql: impl Into<Sql>,
    params: &[Value],
    limit: u32,
    read: impl Fn(&Row) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let (sql, mut page) = (sql.into(), ReadablePage::new("tenant_members", limit));
    loop {
        let params = params.iter().cloned().chain([Value::Int(page.asked())]).collect();
        page.add_all(&db.query(&sql, params).await?, &read)?;
        match page.finish()? {
            Ok(found) => return Ok(found),
            Err(longer) => page = longer,
        }
    }
}

fn member(row: &Row) -> Result<TenantMember, Error> {
    let id: String = row.get("member_id")?;
    let subject = MemberKind::parse(&row.get::<String>("member_kind")?).subject(&id).ok_or_else(|| Error::Corrupt {
        statement: "a read of tenant_members".to_owned(),
        column: "member_id".to_owned(),
        found: "text",
        expected: "an identifier",
    })?;
    Ok(TenantMember { subject, roles: roles::read(row)?, since: row.get("created_at")? })
}

pub(crate) async fn set_roles(
    (db, events): Place<'_>,
    tenant: &TenantId,
    member: &UserId,
    to: &Roles,
    actor: &UserId,
    at: Timestamp,
) -> Result<Changed, Error> {
    let (tenant, member, to, actor) = (tenant.clone(), member.clone(), to.clone(), actor.clone());
    let events = events.clone();
    let change = async move |tx: &Tx| -> Result<Changed, Error> {
        let Some(acting) = hold(tx, &tenant, &actor, at).await? else { return Ok(Changed::Stranger) };
        if !permits(&acting, Change::List) {
            return Ok(Changed::Forbidden);
        }
        let Some(from) = of_member(tx, &tenant, &member).await? else { return Ok(Changed::Missing) };
        if !permits(&acting, Change::SetRoles { from: &from, to: &to }) {
            return Ok(Changed::Forbidden);
        }
        if from.contains(OWNER) && !to.contains(OWNER) && !has_other_owner(tx, &tenant, &member).await? {
            return Ok(Changed::LastOwner);
        }
        let watched = events.watch(tx, &tenant, &Subject::User(member.clone())).await?;
        let sql = "UPDATE tenant_members SET roles = ?3 \
                   WHERE tenant_id = ?1 AND member_kind = 'user' AND member_id = ?2";
        tx.execute(sql, params![&tenant, &member, roles::text(&to)]).await?;
        watched.tell(tx).await?;
        if !permits(&to, Change::List) {
            drop_invitations_by(tx, &tenant, &member).await?;
        }
        Ok(Changed::Done)
    };
    db.write(change).await
}

pub(crate) async fn remove(
    (db, events): Place<'_>,
    tenant: &TenantId,
    member: &UserId,
    actor: &UserId,
    at: Timestamp,
) -> Result<Changed, Error> {
    let (tenant, member, actor, events) = (tenant.clone(), member.clone(), actor.clone(), events.clone());
    let remove = async move |tx: &Tx| -> Result<Changed, Error> {
        let Some(acting) = hold(tx, &tenant, &actor, at).await? else { return Ok(Changed::Stranger) };
        if member != actor && !permits(&acting, Change::List) {
            return Ok(Changed::Forbidden);
        }
        let Some(from) = of_member(tx, &tenant, &member).await? else { return Ok(Changed::Missing) };
        let change = if member == actor { Change::Leave } else { Change::Remove(&from) };
        if !permits(&acting, change) {
            return Ok(Changed::Forbidden);
        }
        if from.contains(OWNER) && !has_other_owner(tx, &tenant, &member).await? {
            return Ok(Changed::LastOwner);
        }
        let watched = events.watch(tx, &tenant, &Subject::User(member.clone())).await?;
        let sql = "DELETE FROM tenant_members WHERE tenant_id = ?1 AND member_kind = 'user' AND member_id = ?2";
        tx.execute(sql, params![&tenant, &member]).await?;
        watched.tell(tx).await?;
        drop_invitations_by(tx, &tenant, &member).await?;
        Ok(Changed::Done)
    };
    db.write(remove).await
}

pub(crate) async fn put(
    (db, events): Place<'_>,
    tenant: &TenantId,
    member: &Subject,
    to: &Roles,
    at: Timestamp,
) -> Result<(), Error> {
    let (tenant, member, to, events) = (tenant.clone(), member.clone(), to.clone(), events.clone());
    let put = async move |tx: &Tx| -> Result<(), Error> {
        events.lock(tx, &tenant, at).await?;
        let inviter = inviter(tx, &tenant, &member, at).await?;
        let watched = events.watch(tx, &tenant, &member).await?;
        let sql = "INSERT INTO tenant_members (tenant_id, member_kind, member_id, created_at, roles) \
                   VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT (tenant_id, member_kind, member_id) DO UPDATE SET roles = excluded.roles";
        let kind = MemberKind::of(&member).as_str();
        tx.execute(sql, params![&tenant, kind, member.as_str(), at, roles::text(&to)]).await?;
        watched.tell(tx).await?;
        match inviter {
            Some(user) if !permits(&to, Change::List) => drop_invitations_by(tx, &tenant, user).await,
            _ => Ok(()),
        }
    };
    db.write(put).await
}

pub(crate) async fn end(
    (db, events): Place<'_>,
    tenant: &TenantId,
    member: &Subject,
    at: Timestamp,
) -> Result<bool, Error> {
    let (tenant, member, events) = (tenant.clone(), member.clone(), events.clone());
    let end = async move |tx: &Tx| -> Result<bool, Error> {
        let inviter = inviter(tx, &tenant, &member, at).await?;
        let watched = events.watch(tx, &tenant, &member).await?;
        let sql = "DELETE FROM tenant_members WHERE tenant_id = ?1 AND member_kind = ?2 AND member_id = ?3";
        let kind = MemberKind::of(&member).as_str();
        let was_member = tx.execute(sql, params![&tenant, kind, member.as_str()]).await? > 0;
        watched.tell(tx).await?;
        if let Some(user) = inviter {
            drop_invitations_by(tx, &tenant, user).await?;
        }
        Ok(was_member)
    };
    db.write(end).await
}

/// The member if they may have sent invitations: a user who belongs to the tenant. No member can invite until the transaction
/// ends.
async fn inviter<'a>(
    tx: &Tx,
    tenant: &TenantId,
    member: &'a Subject,
    at: Timestamp,
) -> Result<Option<&'a UserId>, Error> {
    let Subject::User(user) = member else { return Ok(None) };
    Ok(hold(tx, tenant, user, at).await?.map(|_| user))
}

pub(crate) async fn depart((db, events): Place<'_>, user: &UserId, at: Timestamp) -> Result<Vec<TenantId>, Error> {
    let (user, events) = (user.clone(), events.clone());
    let depart = async move |tx: &Tx| -> Result<Vec<TenantId>, Error> {
        // In the order of their ids: otherwise two accounts that depart at once could deadlock.
        let sql =
            "SELECT tenant_id FROM tenant_members WHERE member_kind = 'user' AND member_id = ?1 ORDER BY tenant_id";
        let mut needed = Vec::new();
        for row in tx.query(sql, params![&user]).await? {
            let tenant: TenantId = row.get("tenant_id")?;
            lock(tx, &tenant, at).await?;
            let Some(held) = of_member(tx, &tenant, &user).await? else { continue };
            if held.contains(OWNER)
                && !has_other_owner(tx, &tenant, &user).await?
                && has_other_user(tx, &tenant, &user).await?
            {
                needed.push(tenant);
            }
        }
        if needed.is_empty() {
            leave_all(tx, &events, &user).await?;
            let sql = "DELETE FROM account_invitations WHERE sender = 'member' AND invited_by = ?1";
            tx.execute(sql, params![&user]).await?;
        }
        Ok(needed)
    };
    db.write(depart).await
}

pub(crate) async fn forget((db, events): Place<'_>, user: &UserId) -> Result<u64, Error> {
    let (user, events) = (user.clone(), events.clone());
    db.write(async move |tx: &Tx| leave_all(tx, &events, &user).await).await
}

async fn leave_all(tx: &Tx, events: &MemberEvents, user: &UserId) -> Result<u64, Error> {
    let watched = events.watch_all(tx, &Subject::User(user.clone())).await?;
    let sql = "DELETE FROM tenant_members WHERE member_kind = 'user' AND member_id = ?1";
    let ended = tx.execute(sql, params![user]).await?;
    watched.tell(tx).await?;
    Ok(ended)
}

pub(crate) async fn name(db: &Db, tenant: &TenantId) -> Result<Option<String>, Error> {
    let sql = "SELECT name FROM tenant_names WHERE tenant_id = ?1";
    db.query_opt(sql, params![tenant]).await?.map(|row| row.get("name")).transpose()
}

/// Locks the tenant until the transaction ends, and returns the actor's roles in it; `None` for a stranger, for whom nothing
/// is locked or written.
pub(crate) async fn hold(tx: &Tx, tenant: &TenantId, actor: &UserId, at: Timestamp) -> Result<Option<Roles>, Error> {
    if of_member(tx, tenant, actor).await?.is_none() {
        return Ok(None);
    }
    lock(tx, tenant, at).await?;
    // They may have been changed while this waited.
    of_member(tx, tenant, actor).await
}

/// A write that changes nothing locks the row. A tenant that an operator created gets a row here.
pub(crate) async fn lock(tx: &Tx, tenant: &TenantId, at: Timestamp) -> Result<(), Error> {
    let sql = "INSERT INTO tenant_names (tenant_id, name, created_at) VALUES (?1, ?2, ?3) \
               ON CONFLICT (tenant_id) DO UPDATE SET name = tenant_names.name";
    tx.execute(sql, params![tenant, tenant.as_str(), at]).await?;
    Ok(())
}

pub(crate) async fn of_member(tx: &Tx, tenant: &TenantId, user: &UserId) -> Result<Option<Roles>, Error> {
    let sql = "SELECT roles FROM tenant_members WHERE tenant_id = ?1 AND member_kind = 'user' AND member_id = ?2";
    tx.query_opt(sql, params![tenant, user]).await?.map(|row| roles::read(&row)).transpose()
}

async fn has_other_owner(tx: &Tx, tenant: &TenantId, user: &UserId) -> Result<bool, Error> {
    let sql = "SELECT roles FROM tenant_members WHERE tenant_id = ?1 AND member_kind = 'user' AND member_id <> ?2 \
               AND roles LIKE '%\"owner\"%'";
    for row in tx.query(sql, params![tenant, user]).await? {
        if roles::read(&row)?.contains(OWNER) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn has_other_user(tx: &Tx, tenant: &TenantId, user: &UserId) -> Result<bool, Error> {
    let sql = "SELECT 1 AS found FROM tenant_members WHERE tenant_id = ?1 AND member_kind = 'user' AND member_id <> ?2 LIMIT 1";
    Ok(tx.query_opt(sql, params![tenant, user]).await?.is_some())
}

/// A member who may no longer invite must have no open invitations, because they could use one to return.
async fn drop_invitations_by(tx: &Tx, tenant: &TenantId, user: &UserId) -> Result<(), Error> {
    let sql = "DELETE FROM account_invitations WHERE sender = 'member' AND tenant = ?1 AND invited_by = ?2";
    tx.execute(sql, params![tenant, user]).await?;
    Ok(())
}
