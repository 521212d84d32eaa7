//! The table `users_oauth_links`.

use async_trait::async_trait;
use gatewright_base::UserId;
use gatewright_db::{Error, Row, Share, Tx, dialect, params, readable};
use jiff::Timestamp;

use super::SqlUserStore;
use crate::users::rows::{INSERT, insert_params, read_user, user_columns};
use crate::users::{
    AccountLister, AccountUnlinker, LastLink, Linked, LinkedAccount, NewPasswordlessUser, OAuthLinks, OAuthUserCreator,
    ProviderLink, Unlinked, User, UserStoreError,
};

#[async_trait]
impl OAuthLinks for SqlUserStore {
    async fn find_linked(&self, provider: &str, provider_id: &str) -> Result<Option<User>, UserStoreError> {
        let sql = concat!(
            "SELECT ",
            user_columns!(),
            " FROM users_oauth_links AS links JOIN users ON users.id = links.user_id \
             WHERE links.provider = ?1 AND links.provider_id = ?2"
        );
        let linked = self.db.first(sql, params![provider, provider_id], |row| read_user(row, 0)).await;
        linked.map_err(UserStoreError::transport)
    }

    async fn link(&self, user: &User, link: &ProviderLink) -> Result<Linked, UserStoreError> {
        let (user, link, now) = (user.clone(), link.clone(), self.ambient.now());
        let linked = async move |tx: &Tx| -> Result<Option<Linked>, Error> {
            let Some(owner) = lock_user(tx, &user.id).await? else { return Ok(None) };
            if owner.get::<Option<Timestamp>>("sessions_valid_after")? != user.sessions_valid_after {
                return Ok(Some(Linked::Stale));
            }
            if insert(tx, &user.id, &link, now).await? {
                return Ok(Some(Linked::Created));
            }
            let sql = "SELECT user_id FROM users_oauth_links WHERE provider = ?1 AND provider_id = ?2";
            let row = tx.query_opt(sql, params![&link.provider, &link.provider_id]).await?;
            let theirs = match row {
                Some(row) => row.get::<UserId>("user_id")? == user.id,
                None => false,
            };
            Ok(Some(if theirs { Linked::AlreadyTheirs } else { Linked::BoundToAnother }))
        };
        self.db.write(linked).await.map_err(UserStoreError::transport)?.ok_or(UserStoreError::NotFound)
    }

    async fn drop_links(&self, user: &UserId) -> Result<u64, UserStoreError> {
        let user = user.clone();
        let drop = async move |tx: &Tx| -> Result<u64, Error> {
            // A concurrent new link locks the row, so it is either dropped here or comes too late.
            lock_user(tx, &user).await?;
            tx.execute("DELETE FROM users_oauth_links WHERE user_id = ?1", params![&user]).await
        };
        self.db.write(drop).await.map_err(UserStoreError::transport)
    }

    async fn refresh_profile(&self, link: &ProviderLink) -> Result<(), UserStoreError> {
        let sql = "UPDATE users_oauth_links SET email = ?3, name = ?4, avatar_url = ?5 \
                   WHERE provider = ?1 AND provider_id = ?2";
        let params = params![
            &link.provider,
            &link.provider_id,
            link.email.as_deref(),
            link.name.as_deref(),
            link.avatar_url.as_deref()
        ];
        self.db.execute(sql, params).await.map(|_| ()).map_err(UserStoreError::transport)
    }
}

#[async_trait]
impl OAuthUserCreator for SqlUserStore {
    async fn create_linked(
        &self,
        user: NewPasswordlessUser,
        link: &ProviderLink,
    ) -> Result<Option<User>, UserStoreError> {
        let mut created = User::new(UserId::generate(&self.ambient), user.email, user.roles);
        created.password_set = false;
        created.email_verified = user.email_verified;
        let (user, link, now) = (created.clone(), link.clone(), self.ambient.now());
        let events = self.events.clone();
        let create = async move |tx: &Tx| -> Result<(), Error> {
            let watched = events.watch(tx, &user.id).await?;
            tx.execute(INSERT, insert_params(&user, None, None, now)).await?;
            watched.tell(tx).await?;
            if insert(tx, &user.id, &link, now).await? {
                return Ok(());
            }
            Err(Error::Unique { table: "users_oauth_links".to_owned(), columns: Vec::new() })
        };
        match self.db.write(create).await {
            Ok(()) => Ok(Some(created)),
            Err(Error::Unique { table, .. }) if table == "users_oauth_links" => Ok(None),
            Err(Error::Unique { .. }) => Err(UserStoreError::EmailTaken),
            Err(error) => Err(UserStoreError::transport(error)),
        }
    }
}

#[async_trait]
impl AccountLister for SqlUserStore {
    async fn linked_accounts(&self, user: &UserId) -> Result<Vec<LinkedAccount>, UserStoreError> {
        let sql = "SELECT provider, provider_id, email, name, avatar_url, linked_at FROM users_oauth_links \
                   WHERE user_id = ?1 ORDER BY linked_at, provider, provider_id";
        let rows = self.db.listing_for(Share::of_user(user)).query(sql, params![user]).await;
        let rows = rows.map_err(UserStoreError::transport)?;
        readable("users_oauth_links", &rows, read).map_err(UserStoreError::transport)
    }
}

#[async_trait]
impl AccountUnlinker for SqlUserStore {
    async fn unlink(&self, user: &UserId, provider: &str, last: LastLink<'_>) -> Result<Unlinked, UserStoreError> {
        let (user, provider) = (user.clone(), provider.to_owned());
        let usable = match last {
            LastLink::MayGo => None,
            LastLink::Stays(usable) => Some(usable.to_owned()),
        };
        let unlink = async move |tx: &Tx| -> Result<Unlinked, Error> {
            // The row is locked, so that concurrent calls count one after the other.
            lock_user(tx, &user).await?;
            let providers = linked(tx, &user).await?;
            if !providers.contains(&provider) {
                return Ok(Unlinked::NotLinked);
            }
            let last = usable.as_deref().map_or(LastLink::MayGo, LastLink::Stays);
            if !last.allows(&provider, providers.iter().map(String::as_str)) {
                return Ok(Unlinked::WasLast);
            }
            remove(tx, &user, &provider).await?;
            Ok(Unlinked::Removed)
        };
        self.db.write(unlink).await.map_err(UserStoreError::transport)
    }
}

/// The providers of a user's links.
pub(super) async fn linked(tx: &Tx, user: &UserId) -> Result<Vec<String>, Error> {
    let links = tx.query("SELECT provider FROM users_oauth_links WHERE user_id = ?1", params![user]).await?;
    links.iter().map(|row| row.get::<String>("provider")).collect()
}

/// Removes a user's links to one provider.
pub(super) async fn remove(tx: &Tx, user: &UserId, provider: &str) -> Result<(), Error> {
    let sql = "DELETE FROM users_oauth_links WHERE user_id = ?1 AND provider = ?2";
    tx.execute(sql, params![user, provider]).await.map(|_| ())
}

/// Locks the user's row until the transaction ends.
async fn lock_user(tx: &Tx, user: &UserId) -> Result<Option<Row>, Error> {
    let lock = dialect::for_update(tx.engine());
    tx.query_opt(format!("SELECT sessions_valid_after FROM users WHERE id = ?1{lock}"), params![user]).await
}

/// `false` if the identity is linked already.
async fn insert(tx: &Tx, user: &UserId, link: &ProviderLink, now: Timestamp) -> Result<bool, Error> {
    let sql = "INSERT INTO users_oauth_links (provider, provider_id, user_id, email, name, avatar_url, linked_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (provider, provider_id) DO NOTHING";
    let params = params![
        &link.provider,
        &link.provider_id,
        user,
        link.email.as_deref(),
        link.name.as_deref(),
        link.avatar_url.as_deref(),
        now
    ];
    Ok(tx.execute(sql, params).await? > 0)
}

fn read(row: &Row) -> Result<LinkedAccount, Error> {
    let link = ProviderLink {
        provider: row.get("provider")?,
        provider_id: row.get("provider_id")?,
        email: row.get("email")?,
        name: row.get("name")?,
        avatar_url: row.get("avatar_url")?,
    };
    Ok(LinkedAccount { link, linked_at: row.get("linked_at")? })
}
