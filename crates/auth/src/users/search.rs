use gatewright_base::UserId;
use gatewright_db::{Db, Error, ReadablePage, RowRef, params};
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
    let after = search.after.as_deref().unwrap_or_default();
    let mut page = ReadablePage::new("users", search.limit.clamp(1, SearchUsers::MOST));
    loop {
        let params = params![after, search.prefix.as_str(), end.as_str(), page.asked()];
        let each = |page: &mut ReadablePage<FoundUser>, row: &RowRef<'_>| page.add(String::new, found(row));
        match db.fold(sql, params, page, each).await?.finish()? {
            Ok(found) => return Ok(found),
            Err(longer) => page = longer,
        }
    }
}

pub(super) async fn find(db: &Db, id: &UserId) -> Result<Option<FoundUser>, Error> {
    let sql = concat!("SELECT ", user_columns!(), ", users.created_at FROM users WHERE users.id = ?1");
    db.first(sql, params![id], found).await
}

fn found(row: &RowRef<'_>) -> Result<FoundUser, Error> {
    let user = read_user(row, 0)?;
    let created_at = row.get(USER_COLUMNS).map_err(|error| error.of_record("users", user.id.as_str()))?;
    Ok(FoundUser { user, created_at })
}
