use crate::{Sql, Value};

/// How a count of a table's rows follows from a log of its changes.
///
/// Each change of the count has a row in the log, written in the change's own transaction. The positions of the rows are in the
/// order of the commits.
#[derive(Debug, Clone)]
pub struct Changes {
    /// Selects the log's last position, or NULL.
    pub newest: Sql,
    /// Selects the change of the count after a position, and the position that it reaches. The first is NULL if the log does not
    /// tell, or tells only in more rows than a limit. The parameters are `params`, then the position, then the limit.
    pub since: Sql,
    /// The first parameters of `since`.
    pub params: Vec<Value>,
}
