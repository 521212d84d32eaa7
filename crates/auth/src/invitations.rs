//! Invitations in the database. `plugins/invitations` issues and accepts them.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, InvitationId, Roles, Secret, TenantId, UserId};
use gatewright_db::{Db, Error, Row, Share, Sql, Tx, dialect, params, readable};
use gatewright_http::Next;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use url::Url;

use crate::audit::Unstored;
use crate::email::EmailAddress;
use crate::open_session::OpenSession;
use crate::screens::paths::with_query;
use crate::single_use::{CLAIM, SingleUseToken, TokenKey, before_claims};
use crate::users::{UserStoreError, roles_from_text, roles_text};

/// The invitations that are open, in the table `account_invitations`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Invitations {
    db: Db,
    before_token: Arc<str>,
    sweep: Sql,
}

/// An open invitation. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invitation {
    /// Its identifier.
    pub id: InvitationId,
    pub(crate) key: TokenKey,
    /// The invited address.
    pub email: EmailAddress,
    /// The roles of the account. `None`: the default roles, or its current ones.
    pub roles: Option<Roles>,
    /// The tenant whose member it becomes.
    pub tenant: Option<TenantId>,
    /// Its roles there.
    pub tenant_roles: Vec<String>,
    /// The sender; `None`: an operator.
    pub invited_by: Option<UserId>,
    /// Whether a member of the tenant sent it. It is valid only while the sender's roles there permit it.
    pub by_member: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Why an invitation was not stored or not withdrawn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// The invitation, or the one that it would replace, is being accepted. The claim ends after at most this long.
    #[error("the invitation is being accepted; try again in a minute")]
    Claimed(Duration),
    /// The tenant's limit of open invitations is reached.
    #[error("the limit of pending invitations is reached")]
    Full,
    /// The inviting session has ended.
    #[error("the session has ended")]
    SessionEnded,
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Unstored(#[from] Unstored),
    #[error(transparent)]
    Store(#[from] Error),
}

/// Why an invitation was not claimed or spent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The invitation is accepted, withdrawn or expired.
    #[error("the invitation is invalid or expired")]
    Unknown,
    /// The invitation is being accepted, or was when a server stopped. The claim ends after at most this long.
    #[error("the invitation is being accepted; try again in a minute")]
    Claimed(Duration),
    #[error(transparent)]
    Store(#[from] Error),
}

/// How long an invitation works.
pub(crate) const LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

const COLUMNS: &str = "id, token_hash, email, roles, tenant, tenant_roles, sender, invited_by, created_at, expires_at \
                       FROM account_invitations";

/// The condition on the columns `claimed_until` and `claimed_by` that an invitation is not being accepted; `now` is a
/// parameter.
macro_rules! is_unclaimed {
    ($now:literal) => {
        concat!("(claimed_until IS NULL OR claimed_until <= ", $now, ")")
    };
}

/// The right of one acceptance to an invitation, until it is spent, released or [`CLAIM`] is over.
#[derive(Debug, Clone)]
pub(crate) struct Claim(String);

impl Claim {
    pub(crate) fn generate(ambient: &Ambient) -> Self {
        Self(ambient.uuid().to_string())
    }
}

/// How `sender` is spelled.
const MEMBER: &str = "member";
const OPERATOR: &str = "operator";

/// Expired invitations that each new one removes.
const RECLAIMED_AT_ONCE: i64 = 32;

impl Invitations {
    pub(crate) fn new(db: Db, public_url: &Url) -> Self {
        let mut url = public_url.clone();
        url.set_query(None);
        url.set_fragment(None);
        let before_token = format!("{}/register?invite=", url.as_str().trim_end_matches('/')).into();
        let sweep = dialect::delete_oldest(db.engine(), "account_invitations", "id", "expires_at").into();
        Self { db, before_token, sweep }
    }

    /// The link that is mailed. `next` is where accepting it leads.
    pub(crate) fn link(&self, token: &SingleUseToken, next: Option<&Next>) -> Secret {
        let next = next.map(|next| with_query("", [("next", next.as_str())]).replacen('?', "&", 1)).unwrap_or_default();
        Secret::new(format!("{}{}{next}", self.before_token, token.to_text().expose()))
    }

    /// The database that they are in.
    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Stores a new one, which replaces that for the same address and tenant. Fails if that one is being accepted or if the
    /// tenant has `most` others already. That of a session is stored only if the session may still act: what ends the session
    /// withdraws it otherwise before it is there.
    pub(crate) async fn put(
        &self,
        invitation: &Invitation,
        most: Option<u32>,
        by: Option<OpenSession>,
    ) -> Result<(), KeepError> {
        let (invitation, sweep) = (invitation.clone(), self.sweep.clone());
        self.db
            .write(async move |tx: &Tx| {
                if let Some(session) = &by
                    && !session.holds(tx).await?
                {
                    return Err(KeepError::SessionEnded);
                }
                let (email, tenant, now) = (invitation.email.as_str(), tenant_text(&invitation), invitation.created_at);
                // Concurrent calls run one after the other: so one open invitation is left for an address, and the count of a
                // tenant is correct.
                let name =
                    if tenant.is_empty() { format!("invitation {email}") } else { format!("invitations {tenant}") };
                dialect::hold_name(tx, &name).await?;
                if let Some(most) = most {
                    let sql = "SELECT COUNT(*) AS n FROM account_invitations \
                               WHERE tenant = ?1 AND email <> ?2 AND expires_at > ?3";
                    let row = tx.query_opt(sql, params![tenant, email, now]).await?;
                    if row.map_or(Ok(0), |row| row.get::<i64>("n"))? >= i64::from(most) {
                        return Err(KeepError::Full);
                    }
                }
                tx.execute(&sweep, params![before_claims(now), RECLAIMED_AT_ONCE]).await?;
                let sql = concat!(
                    "DELETE FROM account_invitations WHERE email = ?1 AND tenant = ?2 AND ",
                    is_unclaimed!("?3")
                );
                tx.execute(sql, params![email, tenant, now]).await?;
                let sql = "SELECT claimed_until FROM account_invitations \
                           WHERE email = ?1 AND tenant = ?2 ORDER BY claimed_until DESC LIMIT 1";
                if let Some(left) = tx.query_opt(sql, params![email, tenant]).await? {
                    return Err(KeepError::Claimed(claim_left(&left, now)?));
                }
                Ok(insert(tx, &invitation).await?)
            })
            .await
    }

    /// Claims it for [`CLAIM`]: in this time no other caller can accept, replace or withdraw it. Of concurrent callers, one gets the
    /// claim. At the end it [spends](Self::spend) the invitation or [releases](Self::release) it. Without either, the invitation can
    /// be accepted again after that time.
    pub(crate) async fn claim(&self, invitation: &Invitation, claim: &Claim, now: Timestamp) -> Result<(), ClaimError> {
        let until = now.saturating_add(CLAIM).unwrap_or(Timestamp::MAX);
        let sql = concat!(
            "UPDATE account_invitations SET claimed_until = ?3, claimed_by = ?4 WHERE id = ?1 AND expires_at > ?2 AND ",
            is_unclaimed!("?2")
        );
        if self.db.execute(sql, params![&invitation.id, now, until, &*claim.0]).await? > 0 {
            return Ok(());
        }
        Err(self.why_not(invitation, now).await?)
    }

    /// Ends a claim after a failure. If another caller has the claim by now, it stays.
    pub(crate) async fn release(&self, invitation: &Invitation, claim: &Claim) -> Result<(), Error> {
        let sql = "UPDATE account_invitations SET claimed_until = NULL, claimed_by = NULL \
                   WHERE id = ?1 AND claimed_by = ?2";
        self.db.execute(sql, params![&invitation.id, &*claim.0]).await.map(|_| ())
    }

    /// Runs `give`, which applies the invitation, and removes it, in one transaction. With a claim, that claim must still
    /// be valid; without one, the invitation must be unclaimed.
    pub(crate) async fn spend<T, E, F>(
        &self,
        invitation: &Invitation,
        claim: Option<&Claim>,
        now: Timestamp,
        give: F,
    ) -> Result<T, E>
    where
        F: AsyncFn(&Tx) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<ClaimError> + From<Error> + Send + 'static,
    {
        let (id, claim) = (invitation.id.clone(), claim.cloned());
        let spent = self.db.write(async move |tx: &Tx| -> Result<T, Unspent<E>> {
            let given = give(tx).await.map_err(Unspent::Refused)?;
            let removed = match &claim {
                Some(claim) => {
                    let sql = "DELETE FROM account_invitations WHERE id = ?1 AND claimed_by = ?2";
                    tx.execute(sql, params![&id, &*claim.0]).await?
                }
                None => {
                    let sql = concat!(
                        "DELETE FROM account_invitations WHERE id = ?1 AND expires_at > ?2 AND ",
                        is_unclaimed!("?2")
                    );
                    tx.execute(sql, params![&id, now]).await?
                }
            };
            // An error, so that nothing is applied.
            if removed == 0 { Err(Unspent::NotThere) } else { Ok(given) }
        });
        match spent.await {
            Ok(given) => Ok(given),
            Err(Unspent::Refused(error)) => Err(error),
            Err(Unspent::NotThere) => Err(self.why_not(invitation, now).await?.into()),
        }
    }

    /// Why an invitation could not be claimed or spent.
    async fn why_not(&self, invitation: &Invitation, now: Timestamp) -> Result<ClaimError, Error> {
        let sql = "SELECT claimed_until FROM account_invitations WHERE id = ?1 AND expires_at > ?2";
        match self.db.query_opt(sql, params![&invitation.id, now]).await? {
            Some(row) => Ok(ClaimError::Claimed(claim_left(&row, now)?)),
            None => Ok(ClaimError::Unknown),
        }
    }

    /// The invitation with this token, if its time is not over.
    pub(crate) async fn find(&self, token: &Secret, now: Timestamp) -> Result<Option<Invitation>, Error> {
        let Some(token) = SingleUseToken::parse(token.expose()) else { return Ok(None) };
        let sql = const_format(" WHERE token_hash IN (?1, ?2) AND expires_at > ?3");
        let keys = (token.key().as_bytes().to_vec(), of_tenants(&token));
        let row = self.db.query_opt(sql, params![keys.0, keys.1, now]).await?;
        row.as_ref().map(read).transpose()
    }

    /// The newest ones to this address, at most 100.
    pub(crate) async fn to(&self, email: &EmailAddress, now: Timestamp) -> Result<Vec<Invitation>, Error> {
        let sql = const_format(" WHERE email = ?1 AND expires_at > ?2 ORDER BY created_at DESC, id DESC LIMIT 100");
        readable("account_invitations", &self.db.query(sql, params![email.as_str(), now]).await?, read)
    }

    /// The open ones, the newest first: those to `tenant` or, without one, all. At most 500. `share` is that of the caller.
    pub(crate) async fn list(
        &self,
        tenant: Option<&TenantId>,
        now: Timestamp,
        share: Share,
    ) -> Result<Vec<Invitation>, Error> {
        let of_tenant = if tenant.is_some() { " AND tenant = ?2" } else { "" };
        let sql =
            const_format(&format!(" WHERE expires_at > ?1{of_tenant} ORDER BY created_at DESC, id DESC LIMIT 500"));
        let mut params = params![now];
        params.extend(tenant.into_iter().flat_map(|tenant| params![tenant.as_str()]));
        readable("account_invitations", &self.db.listing_for(share).query(sql, params).await?, read)
    }

    /// Those that an account has sent and, with an address, also those to it. At most 500.
    pub(crate) async fn of_account(
        &self,
        user: &UserId,
        email: Option<&EmailAddress>,
        now: Timestamp,
    ) -> Result<Vec<Invitation>, Error> {
        let sql = const_format(
            " WHERE (invited_by = ?1 OR email = ?2) AND expires_at > ?3 ORDER BY created_at DESC, id DESC LIMIT 500",
        );
        let values = params![user, email.map(EmailAddress::as_str), now];
        let rows = self.db.listing_for(Share::of_user(user)).query(sql, values).await?;
        readable("account_invitations", &rows, read)
    }

    /// Withdraws one; `false` if there is none, or if it is not to `tenant`.
    pub(crate) async fn remove(
        &self,
        id: &InvitationId,
        tenant: Option<&TenantId>,
        now: Timestamp,
    ) -> Result<bool, KeepError> {
        let of_tenant = if tenant.is_some() { " AND tenant = ?3" } else { "" };
        let sql = format!(
            concat!("DELETE FROM account_invitations WHERE id = ?1 AND ", is_unclaimed!("?2"), "{}"),
            of_tenant
        );
        let mut params = params![id, now];
        params.extend(tenant.into_iter().flat_map(|tenant| params![tenant.as_str()]));
        if self.db.execute(sql, params.clone()).await? > 0 {
            return Ok(true);
        }
        let sql =
            format!("SELECT claimed_until FROM account_invitations WHERE id = ?1 AND claimed_until > ?2{of_tenant}");
        match self.db.query_opt(sql, params).await? {
            Some(row) => Err(KeepError::Claimed(claim_left(&row, now)?)),
            None => Ok(false),
        }
    }

    /// Withdraws the open ones that an account has sent, of all time or since a moment, and returns how many. One that is being
    /// accepted with a store of the program's own is withdrawn too: its acceptance then fails.
    pub(crate) async fn withdraw_sent(
        &self,
        user: &UserId,
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let sql = "DELETE FROM account_invitations WHERE invited_by = ?1 AND created_at >= ?2 AND expires_at > ?3";
        self.db.execute(sql, params![user, since.unwrap_or(Timestamp::UNIX_EPOCH), now]).await
    }

    /// Removes expired ones, if their claims have ended too.
    pub(crate) async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, Error> {
        self.db.execute(&self.sweep, params![before_claims(now), limit]).await
    }
}

/// Why a transaction that spends an invitation was rolled back.
enum Unspent<E> {
    /// Another caller has claimed it, or it is gone.
    NotThere,
    Refused(E),
}

impl<E: From<Error>> From<Error> for Unspent<E> {
    fn from(error: Error) -> Self {
        Self::Refused(error.into())
    }
}

/// How long the claim of a row lasts. At least a second: one that is over by now was there a moment ago.
fn claim_left(row: &Row, now: Timestamp) -> Result<Duration, Error> {
    let until: Option<Timestamp> = row.get("claimed_until")?;
    let left = until.map_or(SignedDuration::ZERO, |until| until.duration_since(now));
    Ok(Duration::try_from(left).unwrap_or_default().max(Duration::from_secs(1)))
}

/// Removes those to an address and those that an account sent, whether or not the plugin is enabled.
pub(crate) async fn forget(db: &Db, user: &UserId, email: &EmailAddress) -> Result<(), Error> {
    db.execute("DELETE FROM account_invitations WHERE email = ?1", params![email.as_str()]).await?;
    db.execute("DELETE FROM account_invitations WHERE invited_by = ?1", params![user]).await?;
    Ok(())
}

/// The component of invitations to a tenant when these had their own table.
fn of_tenants(token: &SingleUseToken) -> Vec<u8> {
    Sha256::new().chain_update("tenant invitation").chain_update(token.key().as_bytes()).finalize().to_vec()
}

fn const_format(rest: &str) -> String {
    format!("SELECT {COLUMNS}{rest}")
}

async fn insert(tx: &Tx, invitation: &Invitation) -> Result<(), Error> {
    let sql = "INSERT INTO account_invitations \
               (id, token_hash, email, roles, tenant, tenant_roles, sender, invited_by, created_at, expires_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let values = params![
        &invitation.id,
        invitation.key.as_bytes().to_vec(),
        invitation.email.as_str(),
        invitation.roles.as_ref().map(roles_text),
        tenant_text(invitation),
        serde_json::Value::from(invitation.tenant_roles.clone()).to_string(),
        if invitation.by_member { MEMBER } else { OPERATOR },
        invitation.invited_by.as_ref(),
        invitation.created_at,
        invitation.expires_at
    ];
    tx.execute(sql, values).await.map(|_| ())
}

/// The empty text if there is no tenant, so that two of these are equal.
fn tenant_text(invitation: &Invitation) -> &str {
    invitation.tenant.as_ref().map_or("", TenantId::as_str)
}

fn read(row: &Row) -> Result<Invitation, Error> {
    let corrupt = |column: &str, expected| Error::Corrupt {
        statement: "a read of account_invitations".to_owned(),
        column: column.to_owned(),
        found: "text",
        expected,
    };
    let tenant = row.get::<String>("tenant")?;
    let tenant = (!tenant.is_empty()).then(|| TenantId::parse(&tenant)).transpose();
    let roles = row.get::<Option<String>>("roles")?;
    let roles = roles.map(|text| roles_from_text(&text).ok_or_else(|| corrupt("roles", "a JSON list of names")));
    let tenant_roles = row.get::<String>("tenant_roles")?;
    let key = row.get::<Vec<u8>>("token_hash")?;
    Ok(Invitation {
        id: row.get("id")?,
        key: TokenKey::of_bytes(&key).ok_or_else(|| corrupt("token_hash", "32 bytes"))?,
        email: EmailAddress::parse(&row.get::<String>("email")?).map_err(|_| corrupt("email", "an email address"))?,
        roles: roles.transpose()?,
        tenant: tenant.map_err(|_| corrupt("tenant", "a tenant's name"))?,
        tenant_roles: serde_json::from_str(&tenant_roles).map_err(|_| corrupt("tenant_roles", "a JSON list"))?,
        invited_by: row.get("invited_by")?,
        by_member: row.get::<String>("sender")? == MEMBER,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
    })
}

#[cfg(test)]
mod tests;
