use std::collections::BTreeMap;

use gatewright_base::UserId;
use gatewright_db::{Db, Error, ReadablePage, RowRef, Share, Value, dialect, params};
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
    /// Only those with this role.
    pub role: Option<String>,
    /// Only those whose mailbox is proven, or is not.
    pub verified: Option<bool>,
    /// Only those with an enabled second factor, or without one.
    pub second_factor: Option<bool>,
    /// Only those whose last sign-in was before this moment, and those who never signed in.
    pub signed_in_before: Option<Timestamp>,
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
    let (conditions, values) = conditions(db, search);
    let sql = format!(
        concat!(
            "SELECT ",
            user_columns!(),
            ", users.created_at FROM users WHERE users.email > ?1 AND users.email >= ?2 AND users.email < ?3{} \
             ORDER BY users.email LIMIT ?4"
        ),
        conditions
    );
    // No character sorts after this one.
    let end = format!("{}\u{10ffff}", search.prefix);
    let after = search.after.as_deref().unwrap_or_default();
    let mut page = ReadablePage::new("users", search.limit.clamp(1, SearchUsers::MOST));
    loop {
        let mut params = params![after, search.prefix.as_str(), end.as_str(), page.asked()];
        params.extend(values.iter().cloned());
        let each = |page: &mut ReadablePage<FoundUser>, row: &RowRef<'_>| page.add(String::new, found(row));
        match db.fold(sql.clone(), params, page, each).await?.finish()? {
            Ok(found) => return Ok(found),
            Err(longer) => page = longer,
        }
    }
}

/// The conditions of a search besides the address, each after `AND`, and the values of their placeholders, which begin with `?5`.
fn conditions(db: &Db, search: &SearchUsers) -> (String, Vec<Value>) {
    let (mut conditions, mut values) = (String::new(), Vec::new());
    let mut add = |condition: &dyn Fn(&str) -> String, value: Value| {
        values.push(value);
        conditions.push_str(" AND ");
        conditions.push_str(&condition(&format!("?{}", 4 + values.len())));
    };
    if let Some(role) = &search.role {
        add(&|at| dialect::is_among(db.engine(), at, "users.roles"), role.as_str().into());
    }
    if let Some(verified) = search.verified {
        add(&|at| format!("users.email_verified = {at}"), verified.into());
    }
    if let Some(has_factor) = search.second_factor {
        let factor = |at: &str| {
            format!(
                "{at} = EXISTS (SELECT 1 FROM two_factor WHERE two_factor.user_id = users.id AND two_factor.enabled)"
            )
        };
        add(&factor, has_factor.into());
    }
    if let Some(before) = search.signed_in_before {
        let later = |at: &str| {
            format!(
                "NOT EXISTS (SELECT 1 FROM device_owners WHERE device_owners.user_id = users.id \
                 AND device_owners.last_arrival_at >= {at})"
            )
        };
        add(&later, before.into());
    }
    (conditions, values)
}

/// What operators see of an account besides the account itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountDates {
    /// When the account was created.
    pub created_at: Timestamp,
    /// When an operator disabled it, if it is disabled.
    pub disabled_at: Option<Timestamp>,
    /// The last sign-in, by any method. For an account that is older than the record of sign-ins and has not signed in since,
    /// the time of its creation.
    pub last_sign_in_at: Option<Timestamp>,
}

/// The dates of accounts, in one statement.
pub(crate) async fn dates(db: &Db, ids: &[UserId]) -> Result<BTreeMap<UserId, AccountDates>, Error> {
    let sql = format!(
        "SELECT users.id, users.created_at, users.disabled_at, device_owners.last_arrival_at FROM users \
         LEFT JOIN device_owners ON device_owners.user_id = users.id WHERE {}",
        dialect::is_among(db.engine(), "users.id", "?1")
    );
    let ids = serde_json::Value::from(ids.iter().map(UserId::as_str).collect::<Vec<_>>()).to_string();
    let each = |found: &mut BTreeMap<UserId, AccountDates>, row: &RowRef<'_>| {
        let dates = AccountDates { created_at: row.get(1)?, disabled_at: row.get(2)?, last_sign_in_at: row.get(3)? };
        found.insert(row.get(0)?, dates);
        Ok(())
    };
    db.listing_for(Share::default()).fold(sql, params![ids], BTreeMap::new(), each).await
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
