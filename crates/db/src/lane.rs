use std::hash::{DefaultHasher, Hash, Hasher};

use gatewright_base::{Subject, UserId};

/// The group of readers that a read uses.
///
/// The lanes have their own threads (SQLite) or connections (Postgres), so that a read waits only for others of its own
/// lane. [`Db::lane`](crate::Db::lane) chooses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Short reads: one record, or a few. One that is slow or large runs beside the others, in the turns of its share.
    Records(Share),
    /// Lookups of a request's credentials: one row by an index. Every request waits for them, in one queue for all callers, so
    /// nothing else belongs here.
    Identity,
    /// Reads whose cost depends on the caller. [`Db::read`](crate::Db::read) ends them after
    /// [`Options::list_timeout`](crate::Options::list_timeout), waiting included, and stops the running statement when
    /// its future is dropped.
    Lists(Share),
}

/// The owner of a read or write, for fair scheduling. No share gets all readers of [`Lane::Lists`], all connections for
/// records or all connections for transactions, and shares take turns. The default share is the program's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Share(pub u64);

impl Share {
    /// The share of an account, or of anything else that requests are counted by.
    pub fn of(owner: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        owner.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// The share of a user: [`of`](Self::of) their [`Subject`].
    pub fn of_user(user: &UserId) -> Self {
        Self::of(&Subject::User(user.clone()))
    }
}

impl Lane {
    pub(crate) fn share(self) -> Share {
        match self {
            Self::Records(share) | Self::Lists(share) => share,
            Self::Identity => Share::default(),
        }
    }
}

impl Default for Lane {
    /// The program's own short reads.
    fn default() -> Self {
        Self::Records(Share::default())
    }
}
