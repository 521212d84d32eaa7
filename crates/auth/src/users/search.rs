use gatewright_base::UserId;
use gatewright_db::{Db, Error, RowRef, params};
use jiff::Timestamp;

use super::User;
use super::rows::{USER_COLUMNS, read_user, user_columns};

/// A search for users whose address begins with a text, ordered by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchUsers {
    /// The beginning of the address. Empty: every address.
    pub prefix: String,
    /// Users after this address.
    pub after: Option<String>,
    /// The most users to return, 1 to 200.
    pub limit: u32,
}

/// A user with the time of creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundUser {
    /// The user.
    pub user: User,
    /// When the account was created.
    pub created_at: Timestamp,
}

impl SearchUsers {
    /// The most users of one answer.
    pub const MOST: u32 = 200;
}

/// Uses the index on addresses, so the number of users does not matter.
pub(super) async fn search(db: &Db, search: &SearchUsers) -> Result<Vec<FoundUser>, Error> {
    let sql = concat!(
        "SELECT ",
        user_columns!(),
        ", users.created_at FROM users WHERE users.email > ?1 AND users.email >= ?2 AND users.email < ?3 \
         ORDER BY users.email LIMIT ?4"
    );
    // No character sorts after this one.
    let end = format!("{}\u{10ffff}", search.prefix);
    let limit = i64::from(search.limit.clamp(1, SearchUsers::MOST));
    let after = search.after.as_deref().unwrap_or_default();
    let each = |all: &mut Vec<FoundUser>, row: &RowRef<'_>| {
        all.push(found(row)?);
        Ok(())
    };
    db.fold(sql, params![after, search.prefix.as_str(), end, limit], Vec::new(), each).await
}

pub(super) async fn find(db: &Db, id: &UserId) -> Result<Option<FoundUser>, Error> {
    let sql = concat!("SELECT ", user_columns!(), ", users.created_at FROM users WHERE users.id = ?1");
    db.first(sql, params![id], found).await
}

fn found(row: &RowRef<'_>) -> Result<FoundUser, Error> {
    Ok(FoundUser { user: read_user(row, 0)?, created_at: row.get(USER_COLUMNS)? })
}
