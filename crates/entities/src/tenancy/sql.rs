use async_trait::async_trait;
use gatewright_base::{Ambient, Subject, TenantId};
use gatewright_db::{Db, Error, Lane, MigrateError, Row, Step, params};

use crate::Tables;

use super::{MembershipError, Memberships};

/// Memberships in the table `tenant_members` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlMemberships {
    db: Db,
    ambient: Ambient,
}

/// What the steps belong to, for `migrate` and `pending` of `gatewright_db`.
pub const COMPONENT: &str = "tenancy";

/// The steps that make the table.
pub const STEPS: &[Step] = &[Step {
    version: 1,
    name: "tenant members",
    sql: "CREATE TABLE tenant_members (
            tenant_id {text} NOT NULL,
            member_kind {text} NOT NULL,
            member_id {text} NOT NULL,
            created_at {time} NOT NULL,
            PRIMARY KEY (tenant_id, member_kind, member_id)
          );
          CREATE INDEX tenant_members_member ON tenant_members (member_kind, member_id)",
}];

/// Why memberships could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum MembershipsInitError {
    /// The table is missing, and making it is left to the operator.
    #[error("the table of memberships is missing or of an older shape; run `gatewright migrate`")]
    Missing,
    /// The table could not be made ready.
    #[error("the table of memberships could not be made ready: {0}")]
    Database(#[from] MigrateError),
}

/// One membership.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Member {
    /// The tenant.
    pub tenant: TenantId,
    /// What kind of account belongs to it.
    pub kind: MemberKind,
    /// The account's id.
    pub id: String,
}

/// What kind of account a member is. A user and a service account of the same id are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberKind {
    /// A person.
    User,
    /// A program.
    Service,
}

impl MemberKind {
    fn of(subject: &Subject) -> Self {
        match subject {
            Subject::User(_) => Self::User,
            Subject::Service(_) => Self::Service,
        }
    }

    /// The word that the table holds.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Service => "service",
        }
    }
}

impl SqlMemberships {
    /// Memberships over `db`. The table is made, or only looked for.
    pub async fn open(db: Db, ambient: Ambient, tables: Tables) -> Result<Self, MembershipsInitError> {
        match tables {
            Tables::Create => drop(gatewright_db::migrate(&db, COMPONENT, STEPS).await?),
            Tables::Check if gatewright_db::pending(&db, COMPONENT, STEPS).await?.is_empty() => {}
            Tables::Check => return Err(MembershipsInitError::Missing),
        }
        Ok(Self::new(db, ambient))
    }

    /// Memberships over `db`, whose table is there: [`gatewright_db::migrate`] makes it of [`STEPS`].
    pub fn new(db: Db, ambient: Ambient) -> Self {
        Self { db: db.lane(Lane::Identity), ambient }
    }

    /// Makes an account a member; `false` if it was one already.
    pub async fn add(&self, tenant: &TenantId, subject: &Subject) -> Result<bool, Error> {
        let sql = "INSERT INTO tenant_members (tenant_id, member_kind, member_id, created_at) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (tenant_id, member_kind, member_id) DO NOTHING";
        let kind = MemberKind::of(subject).as_str();
        let params = params![tenant, kind, subject.as_str(), self.ambient.now()];
        Ok(self.db.execute(sql, params).await? > 0)
    }

    /// Ends a membership; `false` if there was none.
    pub async fn remove(&self, tenant: &TenantId, subject: &Subject) -> Result<bool, Error> {
        let sql = "DELETE FROM tenant_members WHERE tenant_id = ?1 AND member_kind = ?2 AND member_id = ?3";
        let params = params![tenant, MemberKind::of(subject).as_str(), subject.as_str()];
        Ok(self.db.execute(sql, params).await? > 0)
    }

    /// The members of one tenant, or of all, by tenant and then by account.
    pub async fn list(&self, tenant: Option<&TenantId>) -> Result<Vec<Member>, Error> {
        let condition = if tenant.is_some() { " WHERE tenant_id = ?1" } else { "" };
        let sql = format!(
            "SELECT tenant_id, member_kind, member_id FROM tenant_members{condition}
             ORDER BY tenant_id, member_kind, member_id"
        );
        let params = tenant.map_or_else(Vec::new, |tenant| params![tenant]);
        self.db.query(sql, params).await?.iter().map(member).collect()
    }
}

fn member(row: &Row) -> Result<Member, Error> {
    let kind: String = row.get("member_kind")?;
    let kind = if kind == MemberKind::Service.as_str() { MemberKind::Service } else { MemberKind::User };
    Ok(Member { tenant: row.get("tenant_id")?, kind, id: row.get("member_id")? })
}

#[async_trait]
impl Memberships for SqlMemberships {
    async fn is_member(&self, subject: &Subject, tenant: &TenantId) -> Result<bool, MembershipError> {
        let sql = "SELECT 1 AS found FROM tenant_members WHERE tenant_id = ?1 AND member_kind = ?2 AND member_id = ?3";
        let params = params![tenant, MemberKind::of(subject).as_str(), subject.as_str()];
        Ok(self.db.query_opt(sql, params).await?.is_some())
    }
}
