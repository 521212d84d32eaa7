mod guests;
mod links;

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Ambient, Roles, UserId};
use gatewright_db::{Db, Error, Lane, RowRef, Share, Tx, Value, dialect, params, schema, unless_unreadable};
use jiff::Timestamp;

use super::rows::{INSERT, USER_COLUMNS, insert_params, read_user, roles_text, user_columns};
use super::{
    AccountLister, AccountUnlinker, EmailChanger, EmailVerifier, FoundUser, GuestUsers, HashSettings, Holder,
    ListUsers, NewPasswordlessUser, NewUser, OAuthLinks, OAuthUserCreator, PasswordChecker, PasswordSetter,
    PasswordlessUsers, SearchUsers, Sessions, SignOutEverywhere, User, UserDeleter, UserDisabler, UserLister, UserPage,
    UserProfiles, UserStore, UserStoreError, UserSummary, UserWithHash, UsersWithin, hashes, search,
};
use crate::account_events::AccountEvents;
use crate::email::EmailAddress;
use crate::mailbox::MailboxProof;
use crate::password::{PasswordHash, StoredHashes};

/// Users in the tables `users` and `users_oauth_links` of a SQLite or Postgres database. It has every capability.
#[derive(Debug, Clone)]
pub struct SqlUserStore {
    db: Db,
    ambient: Ambient,
    events: AccountEvents,
}

/// An assignment that moves a mark forward to the parameter `$at`, never back.
macro_rules! forward {
    ($mark:literal, $at:literal) => {
        concat!($mark, " = CASE WHEN ", $mark, " > ", $at, " THEN ", $mark, " ELSE ", $at, " END")
    };
}

impl SqlUserStore {
    /// A store over `db`. [`Auth`](crate::Auth) creates its tables.
    pub fn new(db: Db, ambient: Ambient) -> Self {
        Self { db: db.lane(Lane::Identity), ambient, events: AccountEvents::default() }
    }

    /// Tells what happens to accounts.
    pub(crate) fn telling(self, events: AccountEvents) -> Self {
        Self { events, ..self }
    }

    /// Runs a statement that changes, creates or deletes an account, and tells what it has changed. Returns how many rows there were.
    async fn change(&self, id: &UserId, sql: &'static str, params: Vec<Value>) -> Result<u64, Error> {
        if !self.events.are_wanted() {
            return self.db.execute(sql, params).await;
        }
        let (events, id) = (self.events.clone(), id.clone());
        let change = async move |tx: &Tx| {
            let watched = events.watch(tx, &id).await?;
            let changed = tx.execute(sql, params.clone()).await?;
            watched.tell(tx).await?;
            Ok(changed)
        };
        self.db.write(change).await
    }

    async fn insert(
        &self,
        user: &User,
        hash: Option<&PasswordHash>,
        profile: Option<&str>,
    ) -> Result<(), UserStoreError> {
        match self.change(&user.id, INSERT, insert_params(user, hash, profile, self.ambient.now())).await {
            Ok(_) => Ok(()),
            Err(Error::Unique { .. }) => Err(UserStoreError::EmailTaken),
            Err(error) => Err(UserStoreError::transport(error)),
        }
    }

    /// Runs an UPDATE that must change one user.
    async fn update(&self, id: &UserId, sql: &'static str, params: Vec<Value>) -> Result<(), UserStoreError> {
        match self.change(id, sql, params).await.map_err(UserStoreError::transport)? {
            0 => Err(UserStoreError::NotFound),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl UserStore for SqlUserStore {
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError> {
        let sql = concat!("SELECT ", user_columns!(), ", users.password_hash FROM users WHERE users.email = ?1");
        let read = |row: &RowRef<'_>| {
            let password_hash = row.get::<Option<String>>(USER_COLUMNS)?.map(PasswordHash::from_stored);
            Ok(UserWithHash { user: read_user(row, 0)?, password_hash })
        };
        let found = self.db.first(sql, params![email.as_str()], read).await.map_err(UserStoreError::transport)?;
        found.ok_or(UserStoreError::NotFound)
    }

    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError> {
        let sql = concat!("SELECT ", user_columns!(), " FROM users WHERE users.id = ?1");
        let found = self.db.first(sql, params![id], |row| read_user(row, 0)).await;
        found.map_err(UserStoreError::transport)?.ok_or(UserStoreError::NotFound)
    }

    async fn find_among(&self, ids: &[UserId], share: Share) -> Result<Vec<User>, UserStoreError> {
        let among = dialect::is_among(self.db.engine(), "users.id", "?1");
        let sql = format!(concat!("SELECT ", user_columns!(), " FROM users WHERE {}"), among);
        let ids: Vec<&str> = ids.iter().map(UserId::as_str).collect();
        let each = |users: &mut Vec<User>, row: &RowRef<'_>| {
            users.push(read_user(row, 0)?);
            Ok(())
        };
        let ids = serde_json::Value::from(ids).to_string();
        let found = self.db.listing_for(share).fold(sql, params![ids], Vec::new(), each).await;
        found.map_err(UserStoreError::transport)
    }

    async fn create(&self, user: NewUser) -> Result<User, UserStoreError> {
        let created = User::new(UserId::generate(&self.ambient), user.email, user.roles);
        self.insert(&created, Some(&user.password_hash), user.profile.as_deref()).await?;
        Ok(created)
    }

    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError> {
        let sql = "UPDATE users SET roles = ?2, updated_at = ?3 WHERE id = ?1";
        self.update(id, sql, params![id, roles_text(roles), self.ambient.now()]).await
    }

    fn user_lister(self: Arc<Self>) -> Option<Arc<dyn UserLister>> {
        Some(self)
    }
    fn user_deleter(self: Arc<Self>) -> Option<Arc<dyn UserDeleter>> {
        Some(self)
    }
    fn user_disabler(self: Arc<Self>) -> Option<Arc<dyn UserDisabler>> {
        Some(self)
    }
    fn email_changer(self: Arc<Self>) -> Option<Arc<dyn EmailChanger>> {
        Some(self)
    }
    fn user_profiles(self: Arc<Self>) -> Option<Arc<dyn UserProfiles>> {
        Some(self)
    }
    fn password_setter(self: Arc<Self>) -> Option<Arc<dyn PasswordSetter>> {
        Some(self)
    }
    fn hash_settings(self: Arc<Self>) -> Option<Arc<dyn HashSettings>> {
        Some(self)
    }
    fn password_checker(self: Arc<Self>) -> Option<Arc<dyn PasswordChecker>> {
        Some(self)
    }
    fn email_verifier(self: Arc<Self>) -> Option<Arc<dyn EmailVerifier>> {
        Some(self)
    }
    fn passwordless_users(self: Arc<Self>) -> Option<Arc<dyn PasswordlessUsers>> {
        Some(self)
    }
    fn guest_users(self: Arc<Self>) -> Option<Arc<dyn GuestUsers>> {
        Some(self)
    }
    fn sign_out_everywhere(self: Arc<Self>) -> Option<Arc<dyn SignOutEverywhere>> {
        Some(self)
    }
    fn oauth_links(self: Arc<Self>) -> Option<Arc<dyn OAuthLinks>> {
        Some(self)
    }
    fn oauth_user_creator(self: Arc<Self>) -> Option<Arc<dyn OAuthUserCreator>> {
        Some(self)
    }
    fn account_lister(self: Arc<Self>) -> Option<Arc<dyn AccountLister>> {
        Some(self)
    }
    fn account_unlinker(self: Arc<Self>) -> Option<Arc<dyn AccountUnlinker>> {
        Some(self)
    }
    fn users_within(self: Arc<Self>) -> Option<Arc<dyn UsersWithin>> {
        Some(self)
    }
}

#[async_trait]
impl UserLister for SqlUserStore {
    async fn list(&self, page: ListUsers) -> Result<UserPage, UserStoreError> {
        let (limit, offset) = (i64::from(page.limit()), i64::try_from(page.offset()).unwrap_or(i64::MAX));
        let listed = async move |tx: &gatewright_db::Tx| -> Result<UserPage, Error> {
            let sql = concat!(
                "SELECT ",
                user_columns!(),
                ", substr(users.password_hash, 1, 4097) AS hash FROM users ORDER BY users.email LIMIT ?1 OFFSET ?2"
            );
            let each = |items: &mut Vec<UserSummary>, row: &RowRef<'_>| {
                let hash: Option<String> = row.get(USER_COLUMNS)?;
                let user = unless_unreadable(read_user(row, 0))?;
                items.extend(user.map(|user| UserSummary::with_hash(&user, hash.as_deref())));
                Ok(())
            };
            let items = tx.fold(sql, params![limit, offset], Vec::new(), each).await?;
            let count = tx.query_opt("SELECT COUNT(*) AS total FROM users", params![]).await?;
            let total = count.map_or(Ok(0), |row| row.get::<i64>("total"))?;
            Ok(UserPage { items, total: u64::try_from(total).unwrap_or(0) })
        };
        self.db.listing_for(Share::default()).read(listed).await.map_err(UserStoreError::transport)
    }

    async fn search(&self, query: &SearchUsers) -> Result<Vec<FoundUser>, UserStoreError> {
        search::search(&self.db.listing_for(Share::default()), query).await.map_err(UserStoreError::transport)
    }

    async fn find(&self, id: &UserId) -> Result<FoundUser, UserStoreError> {
        search::find(&self.db, id).await.map_err(UserStoreError::transport)?.ok_or(UserStoreError::NotFound)
    }
}

#[async_trait]
impl UserDeleter for SqlUserStore {
    async fn delete(&self, id: &UserId) -> Result<(), UserStoreError> {
        match self.change(id, "DELETE FROM users WHERE id = ?1", params![id]).await {
            Ok(0) => Err(UserStoreError::NotFound),
            Ok(_) => Ok(()),
            Err(Error::ForeignKey { constraint }) => Err(UserStoreError::Referenced(constraint)),
            Err(error) => Err(UserStoreError::transport(error)),
        }
    }

    async fn holders(&self, id: &UserId) -> Result<Vec<Holder>, UserStoreError> {
        let mut holders = Vec::new();
        for restriction in schema::restrictions(&self.db, "users", "id").await.map_err(UserStoreError::transport)? {
            if restriction.holds(&self.db, id.as_str()).await.map_err(UserStoreError::transport)? {
                holders.push(Holder { table: restriction.table, column: restriction.column });
            }
        }
        Ok(holders)
    }
}

#[async_trait]
impl UserDisabler for SqlUserStore {
    async fn disable(&self, id: &UserId, at: Timestamp) -> Result<(), UserStoreError> {
        let sql = concat!(
            "UPDATE users SET updated_at = ?2, disabled_at = ?3, ",
            forward!("tokens_valid_after", "?3"),
            ", ",
            forward!("sessions_valid_after", "?3"),
            " WHERE id = ?1"
        );
        self.update(id, sql, params![id, self.ambient.now(), at]).await
    }

    async fn enable(&self, id: &UserId) -> Result<(), UserStoreError> {
        let sql = "UPDATE users SET updated_at = ?2, disabled_at = NULL WHERE id = ?1";
        self.update(id, sql, params![id, self.ambient.now()]).await
    }
}

#[async_trait]
impl EmailChanger for SqlUserStore {
    async fn change_email(&self, from: &EmailAddress, to: &MailboxProof) -> Result<(), UserStoreError> {
        match self.change(to.user(), CHANGE_EMAIL, self.changed_email(from, to)).await {
            Ok(0) => Err(UserStoreError::NotFound),
            Ok(_) => Ok(()),
            Err(Error::Unique { .. }) => Err(UserStoreError::EmailTaken),
            Err(error) => Err(UserStoreError::transport(error)),
        }
    }

    async fn restore_email(
        &self,
        id: &UserId,
        from: Option<&EmailAddress>,
        to: &EmailAddress,
    ) -> Result<Option<UserId>, UserStoreError> {
        let (id, from, to, now) = (id.clone(), from.cloned(), to.clone(), self.ambient.now());
        let events = self.events.clone();
        let restore = async move |tx: &Tx| -> Result<Option<Option<UserId>>, Error> {
            let mut watched = events.watch(tx, &id).await?;
            if let Some(from) = &from {
                // The write locks the row, so that the address stays until the end of the transaction.
                let sql = "UPDATE users SET updated_at = ?3 WHERE id = ?1 AND email = ?2";
                if tx.execute(sql, params![&id, from.as_str(), now]).await? == 0 {
                    return Ok(None);
                }
            }
            let sql = "SELECT id FROM users WHERE email = ?1 AND id <> ?2 AND email_verified = ?3";
            let row = tx.query_opt(sql, params![to.as_str(), &id, false]).await?;
            let displaced = row.map(|row| row.get::<UserId>("id")).transpose()?;
            if let Some(other) = &displaced {
                watched.also(tx, other).await?;
                let sql = "UPDATE users SET email = ?2, updated_at = ?3 WHERE id = ?1";
                let email = format!("{other}@displaced.invalid");
                tx.execute(sql, params![other, email, now]).await?;
            }
            let sql = "UPDATE users SET email = ?2, email_verified = ?3, updated_at = ?4 WHERE id = ?1";
            let found = tx.execute(sql, params![&id, to.as_str(), false, now]).await? > 0;
            watched.tell(tx).await?;
            Ok(found.then_some(displaced))
        };
        match self.db.write(restore).await {
            Ok(restored) => restored.ok_or(UserStoreError::NotFound),
            Err(Error::Unique { .. }) => Err(UserStoreError::EmailTaken),
            Err(error) => Err(UserStoreError::transport(error)),
        }
    }
}

#[async_trait]
impl UserProfiles for SqlUserStore {
    async fn profile(&self, id: &UserId) -> Result<Option<String>, UserStoreError> {
        // Bytes: of one account, whose profile has a limit.
        let sql = "SELECT users.profile FROM users WHERE users.id = ?1";
        let records = self.db.clone().lane(Lane::Records(Share::of_user(id)));
        let found = records.first(sql, params![id], |row| row.get::<Option<String>>(0)).await;
        found.map_err(UserStoreError::transport)?.ok_or(UserStoreError::NotFound)
    }

    async fn replace_profile(&self, id: &UserId, before: Option<&str>, profile: &str) -> Result<bool, UserStoreError> {
        let now = self.ambient.now();
        let (sql, params) = match before {
            Some(before) => (
                "UPDATE users SET profile = ?2, updated_at = ?3 WHERE id = ?1 AND profile = ?4",
                params![id, profile, now, before],
            ),
            None => (
                "UPDATE users SET profile = ?2, updated_at = ?3 WHERE id = ?1 AND profile IS NULL",
                params![id, profile, now],
            ),
        };
        Ok(self.change(id, sql, params).await.map_err(UserStoreError::transport)? > 0)
    }

    fn table(&self) -> Option<&str> {
        Some("users")
    }
}

#[async_trait]
impl PasswordSetter for SqlUserStore {
    async fn set_password(&self, id: &UserId, hash: &PasswordHash, at: Timestamp) -> Result<(), UserStoreError> {
        let sql = concat!(
            "UPDATE users SET password_hash = ?2, password_set = ?3, updated_at = ?4, ",
            forward!("tokens_valid_after", "?5"),
            ", ",
            forward!("sessions_valid_after", "?5"),
            " WHERE id = ?1"
        );
        self.update(id, sql, params![id, hash.expose(), true, self.ambient.now(), at]).await
    }

    async fn rehash(&self, id: &UserId, old: &PasswordHash, new: &PasswordHash) -> Result<(), UserStoreError> {
        let sql = "UPDATE users SET password_hash = ?3, updated_at = ?4 WHERE id = ?1 AND password_hash = ?2";
        let params = params![id, old.expose(), new.expose(), self.ambient.now()];
        self.db.execute(sql, params).await.map(|_| ()).map_err(UserStoreError::transport)
    }

    async fn drop_password(&self, id: &UserId, at: Timestamp) -> Result<(), UserStoreError> {
        let sql = concat!(
            "UPDATE users SET password_hash = NULL, password_set = ?2, updated_at = ?3, ",
            forward!("tokens_valid_after", "?4"),
            ", ",
            forward!("sessions_valid_after", "?4"),
            " WHERE id = ?1"
        );
        self.update(id, sql, params![id, false, self.ambient.now(), at]).await
    }
}

#[async_trait]
impl HashSettings for SqlUserStore {
    async fn hash_settings(&self) -> Result<StoredHashes, UserStoreError> {
        hashes::survey(&self.db).await.map_err(UserStoreError::transport)
    }
}

#[async_trait]
impl PasswordChecker for SqlUserStore {
    async fn has_password(&self, id: &UserId) -> Result<bool, UserStoreError> {
        self.find_by_id(id).await.map(|user| user.password_set)
    }
}

#[async_trait]
impl EmailVerifier for SqlUserStore {
    async fn verify_email(&self, proof: &MailboxProof) -> Result<(), UserStoreError> {
        let sql = "UPDATE users SET email_verified = ?3, updated_at = ?4 WHERE id = ?1 AND email = ?2";
        self.update(proof.user(), sql, params![proof.user(), proof.email().as_str(), true, self.ambient.now()]).await
    }
}

#[async_trait]
impl PasswordlessUsers for SqlUserStore {
    async fn create_passwordless(&self, user: NewPasswordlessUser) -> Result<User, UserStoreError> {
        let mut created = User::new(UserId::generate(&self.ambient), user.email, user.roles);
        created.password_set = false;
        created.email_verified = user.email_verified;
        self.insert(&created, None, None).await?;
        Ok(created)
    }
}

#[async_trait]
impl SignOutEverywhere for SqlUserStore {
    async fn refuse_until(&self, id: &UserId, at: Timestamp, sessions: Sessions) -> Result<(), UserStoreError> {
        let sql = match sessions {
            Sessions::Keep => REFUSE_TOKENS,
            Sessions::End => concat!(
                "UPDATE users SET updated_at = ?2, ",
                forward!("tokens_valid_after", "?3"),
                ", ",
                forward!("sessions_valid_after", "?3"),
                " WHERE id = ?1"
            ),
        };
        self.update(id, sql, params![id, self.ambient.now(), at]).await
    }
}

#[async_trait]
impl UsersWithin for SqlUserStore {
    fn database(&self) -> &Db {
        &self.db
    }

    async fn lock(&self, tx: &Tx, id: &UserId) -> Result<Option<User>, Error> {
        let lock = dialect::for_update(tx.engine());
        let sql = format!("SELECT {} FROM users WHERE users.id = ?1{lock}", user_columns!());
        let each = |found: &mut Option<User>, row: &RowRef<'_>| {
            *found = Some(read_user(row, 0)?);
            Ok(())
        };
        tx.fold(sql, params![id], None, each).await
    }

    async fn linked(&self, tx: &Tx, id: &UserId) -> Result<Vec<String>, Error> {
        links::linked(tx, id).await
    }

    async fn unlink(&self, tx: &Tx, id: &UserId, provider: &str) -> Result<(), Error> {
        links::remove(tx, id, provider).await
    }

    async fn refuse_tokens(&self, tx: &Tx, id: &UserId, at: Timestamp) -> Result<(), Error> {
        tx.execute(REFUSE_TOKENS, params![id, self.ambient.now(), at]).await.map(|_| ())
    }

    async fn change_email(&self, tx: &Tx, from: &EmailAddress, to: &MailboxProof) -> Result<bool, Error> {
        let watched = self.events.watch(tx, to.user()).await?;
        let changed = tx.execute(CHANGE_EMAIL, self.changed_email(from, to)).await? > 0;
        watched.tell(tx).await?;
        Ok(changed)
    }

    async fn create_proven(&self, tx: &Tx, user: &NewUser) -> Result<User, Error> {
        let mut created = User::new(UserId::generate(&self.ambient), user.email.clone(), user.roles.clone());
        created.email_verified = true;
        let watched = self.events.watch(tx, &created.id).await?;
        let (hash, profile) = (Some(&user.password_hash), user.profile.as_deref());
        tx.execute(INSERT, insert_params(&created, hash, profile, self.ambient.now())).await?;
        watched.tell(tx).await?;
        Ok(created)
    }

    async fn add_roles(&self, tx: &Tx, id: &UserId, email: &EmailAddress, roles: &Roles) -> Result<bool, Error> {
        let watched = self.events.watch(tx, id).await?;
        // The write locks the row: concurrent changes of roles come before or after.
        let sql = "UPDATE users SET updated_at = ?3 WHERE id = ?1 AND email = ?2";
        if tx.execute(sql, params![id, email.as_str(), self.ambient.now()]).await? == 0 {
            return Ok(false);
        }
        let sql = concat!("SELECT ", user_columns!(), " FROM users WHERE users.id = ?1");
        let read = |found: &mut Option<Roles>, row: &RowRef<'_>| {
            *found = Some(read_user(row, 0)?.roles);
            Ok(())
        };
        let Some(held) = tx.fold(sql, params![id], None, read).await? else { return Ok(false) };
        let all: Roles = held.iter().chain(roles.iter()).map(str::to_owned).collect();
        tx.execute("UPDATE users SET roles = ?2 WHERE id = ?1", params![id, roles_text(&all)]).await?;
        watched.tell(tx).await?;
        Ok(true)
    }
}

const CHANGE_EMAIL: &str =
    "UPDATE users SET email = ?3, email_verified = ?4, updated_at = ?5 WHERE id = ?1 AND email = ?2";

impl SqlUserStore {
    fn changed_email(&self, from: &EmailAddress, to: &MailboxProof) -> Vec<Value> {
        params![to.user(), from.as_str(), to.email().as_str(), true, self.ambient.now()]
    }
}

/// Refuses the tokens of the user `?1` from `?3` or before.
const REFUSE_TOKENS: &str =
    concat!("UPDATE users SET updated_at = ?2, ", forward!("tokens_valid_after", "?3"), " WHERE id = ?1");
