use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Ambient, Roles, Subject, TenantId, UserId};
use gatewright_db::{Db, Error, Lane, MigrateError, Row, Share, Tx, dialect, params, readable};

use crate::events::MemberEvents;
use crate::tenants::Place;
use crate::{
    COMPONENT, Changed, Joined, Member, MemberEventSink, MemberKind, NewTenant, STEPS, TenantMember, TenantOfUser,
    TenantStore, TenantStoreError, TenantSummary, TenantsWithin, joining, roles, tenants,
};

/// Memberships in the tables `tenant_members` and `tenant_names` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlMemberships {
    db: Db,
    ambient: Ambient,
    events: MemberEvents,
}

/// Why memberships could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipsInitError {
    /// A table is missing, and the operator must create it.
    #[error("the tables of memberships are missing or outdated; run `gatewright migrate`")]
    Missing,
    /// The tables could not be prepared.
    #[error("the tables of memberships could not be prepared: {0}")]
    Database(#[from] MigrateError),
}

impl SqlMemberships {
    /// Memberships over `db`. Tables that are missing are made with `create`, and refused without.
    pub async fn open(db: Db, ambient: Ambient, create: bool) -> Result<Self, MembershipsInitError> {
        if create {
            gatewright_db::migrate(&db, COMPONENT, STEPS).await?;
        } else if !gatewright_db::pending(&db, COMPONENT, STEPS).await?.is_empty() {
            return Err(MembershipsInitError::Missing);
        }
        Ok(Self::new(db, ambient))
    }

    /// Memberships over `db`, whose tables must exist: [`gatewright_db::migrate`] creates them from [`STEPS`].
    pub fn new(db: Db, ambient: Ambient) -> Self {
        Self { db: db.lane(Lane::Identity), ambient, events: MemberEvents::default() }
    }

    /// Tells `sink` what happens to tenants and members.
    pub fn telling(self, sink: Arc<dyn MemberEventSink>) -> Self {
        Self { events: MemberEvents::new(sink), ..self }
    }

    fn place(&self) -> Place<'_> {
        (&self.db, &self.events)
    }

    /// Makes an account a member without roles; `false` if it was one already.
    pub async fn add(&self, tenant: &TenantId, subject: &Subject) -> Result<bool, Error> {
        let (tenant, subject, now, events) = (tenant.clone(), subject.clone(), self.ambient.now(), self.events.clone());
        let add = async move |tx: &Tx| -> Result<bool, Error> {
            events.lock(tx, &tenant, now).await?;
            let watched = events.watch(tx, &tenant, &subject).await?;
            let sql =
                "INSERT INTO tenant_members (tenant_id, member_kind, member_id, created_at) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT (tenant_id, member_kind, member_id) DO NOTHING";
            let kind = MemberKind::of(&subject).as_str();
            let is_new = tx.execute(sql, params![&tenant, kind, subject.as_str(), now]).await? > 0;
            watched.tell(tx).await?;
            Ok(is_new)
        };
        self.db.write(add).await
    }

    /// Makes an account a member with exactly these roles, whether or not it was one. For trusted management: no
    /// permission is checked, and the last owner is not kept. Invitations that the member sent are withdrawn if the roles
    /// do not allow inviting.
    pub async fn put(&self, tenant: &TenantId, subject: &Subject, roles: &Roles) -> Result<(), Error> {
        tenants::put(self.place(), tenant, subject, roles, self.ambient.now()).await
    }

    /// Ends a membership, and withdraws the invitations that the member sent; `false` if there was none.
    pub async fn remove(&self, tenant: &TenantId, subject: &Subject) -> Result<bool, Error> {
        tenants::end(self.place(), tenant, subject, self.ambient.now()).await
    }

    /// The members of one tenant, or of all, by tenant and then by account.
    pub async fn list(&self, tenant: Option<&TenantId>) -> Result<Vec<Member>, Error> {
        let condition = if tenant.is_some() { " WHERE tenant_id = ?1" } else { "" };
        let sql = format!(
            "SELECT tenant_id, member_kind, member_id, roles FROM tenant_members{condition}
             ORDER BY tenant_id, member_kind, member_id"
        );
        let params = tenant.map_or_else(Vec::new, |tenant| params![tenant]);
        let rows = self.db.listing_for(Share::default()).query(sql, params).await?;
        readable("tenant_members", &rows, member)
    }

    /// At most `limit` tenants that have members, by id, starting after `after` if it is given.
    pub async fn tenants(&self, after: Option<&str>, limit: u32) -> Result<Vec<TenantSummary>, Error> {
        tenants::all(&self.db.listing_for(Share::default()), after.unwrap_or_default(), limit).await
    }

    /// One tenant, whether it has members or not.
    pub async fn tenant(&self, tenant: &TenantId) -> Result<TenantSummary, Error> {
        tenants::one(&self.db.listing_for(Share::default()), tenant).await
    }

    /// At most `limit` members of a tenant in the order of their kind and id, starting after `after` if it is given: users and
    /// service accounts, for operators.
    pub async fn members(
        &self,
        tenant: &TenantId,
        after: Option<&Subject>,
        limit: u32,
    ) -> Result<Vec<TenantMember>, Error> {
        tenants::members(&self.db.listing_for(Share::default()), tenant, after, limit).await
    }

    /// The roles of a member; `None` if the account is not a member.
    pub async fn roles_of(&self, tenant: &TenantId, subject: &Subject) -> Result<Option<Roles>, Error> {
        let params = params![tenant, MemberKind::of(subject).as_str(), subject.as_str()];
        self.db.query_opt(ROLES, params).await?.map(|row| roles::read(&row)).transpose()
    }

    /// Whether an account is a member, as the transaction sees it.
    pub async fn is_member_within(&self, tx: &Tx, tenant: &TenantId, subject: &Subject) -> Result<bool, Error> {
        let params = params![tenant, MemberKind::of(subject).as_str(), subject.as_str()];
        Ok(tx.query_opt(ROLES, params).await?.is_some())
    }

    /// Which of these users are members, as the transaction sees it.
    pub async fn members_among(&self, tx: &Tx, tenant: &TenantId, users: &[UserId]) -> Result<Vec<UserId>, Error> {
        let among = dialect::is_among(self.db.engine(), "member_id", "?3");
        let sql = format!("SELECT member_id FROM tenant_members WHERE tenant_id = ?1 AND member_kind = ?2 AND {among}");
        let ids: Vec<&str> = users.iter().map(UserId::as_str).collect();
        let ids = serde_json::Value::from(ids).to_string();
        let rows = tx.query(sql, params![tenant, MemberKind::User.as_str(), ids]).await?;
        rows.iter().map(|row| row.get("member_id")).collect()
    }
}

/// Selects the members that are users, with `member_id` and `tenant_id`.
pub const USER_MEMBERS: &str = "SELECT member_id, tenant_id FROM tenant_members WHERE member_kind = 'user'";

const ROLES: &str = "SELECT roles FROM tenant_members WHERE tenant_id = ?1 AND member_kind = ?2 AND member_id = ?3";

fn member(row: &Row) -> Result<Member, Error> {
    let kind = MemberKind::parse(&row.get::<String>("member_kind")?);
    Ok(Member { tenant: row.get("tenant_id")?, kind, id: row.get("member_id")?, roles: roles::read(row)? })
}

#[async_trait]
impl TenantStore for SqlMemberships {
    async fn tenants_of(&self, user: &UserId) -> Result<Vec<TenantOfUser>, TenantStoreError> {
        Ok(tenants::of_user(&self.db.listing_for(Share::of_user(user)), user).await?)
    }

    async fn create(&self, tenant: &NewTenant, most: u32) -> Result<bool, TenantStoreError> {
        Ok(tenants::create(self.place(), tenant, self.ambient.now(), most).await?)
    }

    async fn name(&self, tenant: &TenantId) -> Result<Option<String>, TenantStoreError> {
        Ok(tenants::name(&self.db, tenant).await?)
    }

    async fn roles(&self, tenant: &TenantId, member: &Subject) -> Result<Option<Roles>, TenantStoreError> {
        Ok(self.roles_of(tenant, member).await?)
    }

    async fn users(
        &self,
        tenant: &TenantId,
        after: Option<&UserId>,
        limit: u32,
        share: Share,
    ) -> Result<Vec<TenantMember>, TenantStoreError> {
        Ok(tenants::users(&self.db.listing_for(share), tenant, after, limit).await?)
    }

    async fn set_roles(
        &self,
        tenant: &TenantId,
        member: &UserId,
        roles: &Roles,
        actor: &UserId,
    ) -> Result<Changed, TenantStoreError> {
        Ok(tenants::set_roles(self.place(), tenant, member, roles, actor, self.ambient.now()).await?)
    }

    async fn remove(&self, tenant: &TenantId, member: &UserId, actor: &UserId) -> Result<Changed, TenantStoreError> {
        Ok(tenants::remove(self.place(), tenant, member, actor, self.ambient.now()).await?)
    }

    async fn join(
        &self,
        tenant: &TenantId,
        user: &UserId,
        roles: &Roles,
        most_members: u32,
    ) -> Result<Joined, TenantStoreError> {
        let (tenant, user, roles, now) = (tenant.clone(), user.clone(), roles.clone(), self.ambient.now());
        let events = self.events.clone();
        let join = async move |tx: &Tx| joining::join(tx, &events, &tenant, &user, &roles, now, most_members).await;
        Ok(self.db.write(join).await?)
    }

    fn within(self: Arc<Self>) -> Option<Arc<dyn TenantsWithin>> {
        Some(self)
    }

    async fn depart(&self, user: &UserId) -> Result<Vec<TenantId>, TenantStoreError> {
        Ok(tenants::depart(self.place(), user, self.ambient.now()).await?)
    }

    async fn forget(&self, user: &UserId) -> Result<u64, TenantStoreError> {
        Ok(tenants::forget(self.place(), user).await?)
    }
}

#[async_trait]
impl TenantsWithin for SqlMemberships {
    fn database(&self) -> &Db {
        &self.db
    }

    async fn join(
        &self,
        tx: &Tx,
        tenant: &TenantId,
        user: &UserId,
        roles: &Roles,
        most_members: u32,
    ) -> Result<Joined, Error> {
        joining::join(tx, &self.events, tenant, user, roles, self.ambient.now(), most_members).await
    }
}
