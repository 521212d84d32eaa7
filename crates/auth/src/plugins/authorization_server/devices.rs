//! Devices that wait for a user, in the table `oauth2_devices` (RFC 8628).
//!
//! A device polls with a device code of 256 random bits, kept as a hash. Its user types a code of eight letters. So short a
//! code is kept as a tag under a key of this server: a reader of the table cannot find it by trying. The device code becomes
//! the code of the grant when a user allows it, so single use, replays and revocation are those of authorization codes.

use gatewright_base::{Ambient, Scopes, Secret, SigningKey, TenantId};
use gatewright_db::{Db, Error, Row, Tx, dialect, params};
use jiff::{SignedDuration, Timestamp};

use super::rows::{Grant, Grants};
use super::secret::{Hash, Kind};
use crate::open_session::OpenSession;
use crate::session::Client as Browser;
use crate::typed;

/// How long a user has.
pub(super) const LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// How often a device polls at first, and by how much that grows if it polls sooner, in seconds.
pub(super) const INTERVAL: i64 = 5;
/// Devices that wait at a time, of all clients together: each has a row that an anonymous caller makes.
const MOST: i64 = 100_000;
/// Expired rows that each new one removes.
const RECLAIMED_AT_ONCE: i64 = 64;
/// Letters without vowels, so that no code is a word (RFC 8628, section 6.1). None looks like a digit.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const LENGTH: usize = 8;

#[derive(Clone)]
pub(super) struct Devices {
    db: Db,
    tagging: SigningKey,
}

/// The request of a device.
pub(super) struct Asking<'a> {
    pub(super) client: &'a str,
    /// The URL of the resource.
    pub(super) resource: &'a str,
    pub(super) scopes: &'a Scopes,
    pub(super) tenant: Option<&'a TenantId>,
    /// From where it came.
    pub(super) from: &'a Browser,
}

/// The codes of a device, here and nowhere else.
pub(super) struct Codes {
    pub(super) device: Secret,
    /// As people read it: `WDJB-MJHT`.
    pub(super) user: Secret,
}

/// A device that waits for the decision of a user.
#[derive(Debug, Clone)]
pub(super) struct Device {
    pub(super) id: String,
    pub(super) code: Hash,
    pub(super) client: String,
    /// The URL of the resource.
    pub(super) resource: String,
    pub(super) scopes: Scopes,
    /// The tenant that it wants to act in.
    pub(super) tenant: Option<TenantId>,
    /// The client address of its request.
    pub(super) address: Option<String>,
    /// The `User-Agent` of its request.
    pub(super) agent: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) expires_at: Timestamp,
}

/// The result of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    Pending,
    /// It polls too often.
    TooSoon,
    Denied,
    Expired,
    Allowed,
    /// Unknown, or of another client.
    Unknown,
}

/// The result of allowing a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    Done,
    /// Somebody has decided, or it has expired.
    TooLate,
    SessionEnded,
}

const COLUMNS: &str = "id, device_hash, client_id, resource, scopes, tenant_id, address, agent, created_at, expires_at";

impl Devices {
    pub(super) fn new(db: Db, tagging: SigningKey) -> Self {
        Self { db, tagging }
    }

    /// Stores the request of a device; `None` if too many devices wait.
    pub(super) async fn begin(&self, ambient: &Ambient, asking: &Asking<'_>) -> Result<Option<Codes>, Error> {
        let device = Kind::Device.generate(ambient);
        let now = ambient.now();
        let expires = now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX);
        // A code that another device has already is as good as impossible.
        for _ in 0..3 {
            let letters = draw(ambient);
            let values = params![
                ambient.uuid().to_string(),
                Hash::of(device.expose()).as_bytes(),
                self.tagging.tag(&[letters.as_bytes()]).to_vec(),
                asking.client,
                asking.resource,
                serde_json::to_string(asking.scopes).unwrap_or_default(),
                asking.tenant,
                asking.from.address().map(|address| address.to_string()),
                asking.from.user_agent(),
                now,
                expires,
                INTERVAL
            ];
            let begin = async move |tx: &Tx| -> Result<Option<bool>, Error> {
                let sql = "DELETE FROM oauth2_devices WHERE id IN \
                           (SELECT id FROM oauth2_devices WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";
                tx.execute(sql, params![now, RECLAIMED_AT_ONCE]).await?;
                let kept = tx.query_opt("SELECT COUNT(*) AS n FROM oauth2_devices", params![]).await?;
                if kept.map_or(Ok(0_i64), |row| row.get("n"))? >= MOST {
                    return Ok(None);
                }
                let sql = "INSERT INTO oauth2_devices (id, device_hash, user_tag, client_id, resource, scopes, tenant_id, \
                           address, agent, created_at, expires_at, interval_seconds) \
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING";
                Ok(Some(tx.execute(sql, values.clone()).await? == 1))
            };
            match self.db.write(begin).await? {
                None => return Ok(None),
                Some(false) => {}
                Some(true) => {
                    let (first, second) = letters.split_at(LENGTH / 2);
                    return Ok(Some(Codes { device, user: Secret::new(format!("{first}-{second}")) }));
                }
            }
        }
        Ok(None)
    }

    /// The device that shows these letters and waits.
    pub(super) async fn find(&self, letters: &Letters, now: Timestamp) -> Result<Option<Device>, Error> {
        for tag in self.tagging.tags(&[letters.0.as_bytes()]) {
            let sql = format!(
                "SELECT {COLUMNS} FROM oauth2_devices WHERE user_tag = ?1 AND expires_at > ?2 AND decision IS NULL"
            );
            if let Some(row) = self.db.query_opt(sql, params![tag.to_vec(), now]).await? {
                return read(&row).map(Some);
            }
        }
        Ok(None)
    }

    /// The waiting device with this id.
    pub(super) async fn waiting(&self, id: &str, now: Timestamp) -> Result<Option<Device>, Error> {
        let sql =
            format!("SELECT {COLUMNS} FROM oauth2_devices WHERE id = ?1 AND expires_at > ?2 AND decision IS NULL");
        self.db.query_opt(sql, params![id, now]).await?.as_ref().map(read).transpose()
    }

    /// Allows a device: stores `grant`, whose code is the device code.
    pub(super) async fn allow(&self, open: &OpenSession, device: &Device, grant: &Grant) -> Result<Allowed, Error> {
        let (open, device, grant) = (open.clone(), device.clone(), grant.clone());
        let allow = async move |tx: &Tx| -> Result<Allowed, Error> {
            if !open.holds(tx).await? {
                return Ok(Allowed::SessionEnded);
            }
            let sql = "UPDATE oauth2_devices SET decision = 'allowed' \
                       WHERE id = ?1 AND decision IS NULL AND expires_at > ?2";
            if tx.execute(sql, params![&device.id, grant.created_at]).await? == 0 {
                return Ok(Allowed::TooLate);
            }
            Grants::store(tx, &grant, &device.code, device.expires_at).await?;
            Ok(Allowed::Done)
        };
        self.db.write(allow).await
    }

    /// Denies a device; `false` if somebody has decided.
    pub(super) async fn deny(&self, id: &str) -> Result<bool, Error> {
        let sql = "UPDATE oauth2_devices SET decision = 'denied' WHERE id = ?1 AND decision IS NULL";
        Ok(self.db.execute(sql, params![id]).await? > 0)
    }

    /// A poll with a device code of `client`. Each that comes before the interval is over makes it longer.
    pub(super) async fn poll(&self, code: &Hash, client: &str, now: Timestamp) -> Result<Polled, Error> {
        // A guess takes no turn of a writer.
        let sql = "SELECT id FROM oauth2_devices WHERE device_hash = ?1 AND client_id = ?2";
        let Some(row) = self.db.query_opt(sql, params![code.as_bytes(), client]).await? else {
            return Ok(Polled::Unknown);
        };
        let (device, code, client) = (row.get::<String>("id")?, *code, client.to_owned());
        let poll = async move |tx: &Tx| -> Result<Polled, Error> {
            // Of polls at the same time, all but one come too soon.
            dialect::hold_name(tx, &format!("polls of {device}")).await?;
            let sql = "SELECT id, expires_at, interval_seconds, polled_at, decision FROM oauth2_devices \
                       WHERE device_hash = ?1 AND client_id = ?2";
            let Some(row) = tx.query_opt(sql, params![code.as_bytes(), &client]).await? else {
                return Ok(Polled::Unknown);
            };
            if row.get::<Timestamp>("expires_at")? <= now {
                return Ok(Polled::Expired);
            }
            match row.get::<Option<String>>("decision")?.as_deref() {
                Some("allowed") => return Ok(Polled::Allowed),
                Some(_) => return Ok(Polled::Denied),
                None => {}
            }
            let (id, interval): (String, i64) = (row.get("id")?, row.get("interval_seconds")?);
            let next = row
                .get::<Option<Timestamp>>("polled_at")?
                .map(|at| at.checked_add(SignedDuration::from_secs(interval)).unwrap_or(Timestamp::MAX));
            let too_soon = next.is_some_and(|next| now < next);
            let interval = if too_soon { (interval + INTERVAL).min(LIFETIME.as_secs()) } else { interval };
            let sql = "UPDATE oauth2_devices SET polled_at = ?2, interval_seconds = ?3 WHERE id = ?1";
            tx.execute(sql, params![id, now, interval]).await?;
            Ok(if too_soon { Polled::TooSoon } else { Polled::Pending })
        };
        self.db.write(poll).await
    }
}

/// Eight letters that somebody typed.
pub(super) struct Letters(String);

impl Letters {
    /// Reads a code as people type it: in either case, with or without the hyphen. `None`: it is no code.
    pub(super) fn parse(typed: &str) -> Option<Self> {
        let letters = typed::code(typed).to_ascii_uppercase();
        let is_code = letters.len() == LENGTH && letters.bytes().all(|letter| LETTERS.contains(&letter));
        is_code.then_some(Self(letters))
    }
}

fn draw(ambient: &Ambient) -> String {
    let mut number = u64::from_le_bytes(ambient.bytes());
    // 20 to the power of 8 is far below 2 to the power of 64: each code is as likely as any other.
    let letters = (0..LENGTH).map(|_| {
        let index = usize::try_from(number % 20).unwrap_or_default();
        number /= 20;
        char::from(LETTERS[index])
    });
    letters.collect()
}

fn read(row: &Row) -> Result<Device, Error> {
    let corrupt = |column: &str, expected| Error::Corrupt {
        statement: "a read of oauth2_devices".to_owned(),
        column: column.to_owned(),
        found: "text",
        expected,
    };
    let code: Vec<u8> = row.get("device_hash")?;
    let scopes: String = row.get("scopes")?;
    Ok(Device {
        id: row.get("id")?,
        code: Hash::stored(&code).ok_or_else(|| corrupt("device_hash", "a hash of 32 bytes"))?,
        client: row.get("client_id")?,
        resource: row.get("resource")?,
        scopes: serde_json::from_str(&scopes).map_err(|_| corrupt("scopes", "a JSON list of scopes"))?,
        tenant: row.get("tenant_id")?,
        address: row.get("address")?,
        agent: row.get("agent")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_code_is_read_as_people_type_it() {
        for (typed, read_as) in [
            ("WDJB-MJHT", Some("WDJBMJHT")),
            (" wdjb mjht\n", Some("WDJBMJHT")),
            ("WDJBMJHT", Some("WDJBMJHT")),
            ("WDJB-MJH", None),
            ("WDJB-MJHTT", None),
            ("WDJA-MJHT", None),
            ("WDJ0-MJHT", None),
            ("", None),
        ] {
            assert_eq!(Letters::parse(typed).map(|letters| letters.0).as_deref(), read_as, "{typed}");
        }
        assert!(Letters::parse(&"B".repeat(1 << 20)).is_none());
    }

    #[test]
    fn user_codes_have_no_vowels_and_differ() {
        let ambient = Ambient::manual(Timestamp::UNIX_EPOCH, 1).0;
        let codes: std::collections::BTreeSet<_> = (0..1000).map(|_| draw(&ambient)).collect();
        assert_eq!(codes.len(), 1000);
        let seen: std::collections::BTreeSet<_> = codes.iter().flat_map(|code| code.bytes()).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), LETTERS);
        assert!(!LETTERS.iter().any(|letter| b"AEIOUY".contains(letter)));
    }
}
