/// Which of the database's readers a read waits for.
///
/// The lanes have their own threads (SQLite) or connections (Postgres), so that a read waits for others of its own lane
/// alone. [`Db::lane`](crate::Db::lane) chooses one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lane {
    /// Short reads: one record, or a few.
    #[default]
    Records,
    /// Who a request's credentials belong to. Every request waits for this.
    Identity,
    /// Reads whose cost the caller decides. [`Db::read`](crate::Db::read) ends them after
    /// [`Options::list_timeout`](crate::Options::list_timeout), waiting included, and stops the running statement when
    /// its future is dropped.
    Lists(Share),
}

/// Whose read or write it is. No share takes all the readers of [`Lane::Lists`], nor all connections for transactions, and shares take
/// turns. The default one is the program's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Share(pub u64);

impl Lane {
    pub(crate) fn share(self) -> Share {
        match self {
            Self::Lists(share) => share,
            Self::Records | Self::Identity => Share::default(),
        }
    }
}
