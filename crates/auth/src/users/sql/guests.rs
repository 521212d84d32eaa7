//! Guests in the table `users`, under their reserved addresses.

use async_trait::async_trait;
use gatewright_base::{Roles, UserId};
use gatewright_db::{Error, RowRef, Share, params, unless_unreadable};
use jiff::Timestamp;

use super::SqlUserStore;
use crate::email::EmailAddress;
use crate::users::rows::{read_user, user_columns};
use crate::users::{GuestUpgrade, GuestUsers, User, UserStoreError};

/// The lower-case texts between which the reserved addresses are, and the ending of each.
const FIRST: &str = "guest-";
const END: &str = "guest.";

#[async_trait]
impl GuestUsers for SqlUserStore {
    async fn create_guest(&self, roles: &Roles) -> Result<User, UserStoreError> {
        let id = UserId::generate(&self.ambient);
        let mut created = User::new(id.clone(), EmailAddress::of_guest(&id), roles.clone());
        created.password_set = false;
        self.insert(&created, None, None).await?;
        Ok(created)
    }

    async fn upgrade(&self, id: &UserId, new: &GuestUpgrade<'_>, at: Timestamp) -> Result<bool, UserStoreError> {
        let sql = "UPDATE users SET email = ?3, email_verified = ?4, password_hash = ?5, password_set = ?6, \
                   profile = COALESCE(?7, profile), updated_at = ?8, \
                   tokens_valid_after = CASE WHEN tokens_valid_after > ?8 THEN tokens_valid_after ELSE ?8 END, \
                   sessions_valid_after = CASE WHEN sessions_valid_after > ?8 THEN sessions_valid_after ELSE ?8 END \
                   WHERE id = ?1 AND email = ?2 AND disabled_at IS NULL";
        let params = params![
            id,
            EmailAddress::of_guest(id).as_str(),
            new.email.as_str(),
            false,
            new.password_hash.map(|hash| hash.expose().to_owned()),
            new.password_hash.is_some(),
            new.profile,
            at
        ];
        match self.change(id, sql, params).await {
            Ok(changed) => Ok(changed > 0),
            Err(Error::Unique { .. }) => Err(UserStoreError::EmailTaken),
            Err(error) => Err(UserStoreError::transport(error)),
        }
    }

    async fn close(&self, id: &UserId, at: Timestamp) -> Result<bool, UserStoreError> {
        let sql = "UPDATE users SET updated_at = ?3, disabled_at = ?3, tokens_valid_after = ?3, sessions_valid_after = ?3 \
                   WHERE id = ?1 AND email = ?2";
        let changed = self.change(id, sql, params![id, EmailAddress::of_guest(id).as_str(), at]).await;
        Ok(changed.map_err(UserStoreError::transport)? > 0)
    }

    async fn created_before(
        &self,
        moment: Timestamp,
        after: Option<&UserId>,
        limit: u32,
    ) -> Result<Vec<User>, UserStoreError> {
        let sql = concat!(
            "SELECT ",
            user_columns!(),
            " FROM users WHERE users.email >= ?1 AND users.email > ?2 AND users.email < ?3 AND users.created_at < ?4 \
             ORDER BY users.email LIMIT ?5"
        );
        let after = after.map(|id| EmailAddress::of_guest(id).as_str().to_owned()).unwrap_or_default();
        let each = |guests: &mut Vec<User>, row: &RowRef<'_>| {
            guests.extend(unless_unreadable(read_user(row, 0))?);
            Ok(())
        };
        let params = params![FIRST, after, END, moment, limit];
        let found = self.db.listing_for(Share::default()).fold(sql, params, Vec::new(), each).await;
        let mut found = found.map_err(UserStoreError::transport)?;
        // Others may have an address that begins like those of guests.
        found.retain(User::is_guest);
        Ok(found)
    }
}
