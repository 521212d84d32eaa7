use gatewright_db::{Changes, Engine, Sql, Value, params};

use super::EventLog;
use crate::EventKind;

/// The statements of [`Changes`].
pub(super) struct Counting {
    newest: Sql,
    of_table: Sql,
    of_tenant: Sql,
    of_none: Sql,
}

impl Counting {
    pub(super) fn new() -> Self {
        let change = "CASE type WHEN ?2 THEN 1 WHEN ?3 THEN -1 ELSE 0 END";
        let sum = |change: &str| format!("COALESCE(SUM({change}), 0)");
        Self {
            newest: "SELECT MAX(position) FROM event_log".into(),
            of_table: since(4, "COUNT(*) < ?5", &sum(change), "?5"),
            of_tenant: since(
                5,
                "COUNT(*) < ?6",
                &sum(&format!("CASE WHEN tenant_id = ?4 THEN {change} ELSE 0 END")),
                "?6",
            ),
            of_none: since(2, "COUNT(*) = 0", "0", "MIN(?3, 1)"),
        }
    }
}

/// What a table's rows after a position tell, unless rows after it were removed. `position` is the number of its parameter.
fn since(position: usize, is_known: &str, change: &str, limit: &str) -> Sql {
    format!(
        "SELECT CASE WHEN {is_known} AND (SELECT MAX(swept_to) FROM event_log_state) <= ?{position} THEN {change} END,
                COALESCE(MAX(position), ?{position})
         FROM (SELECT type, tenant_id, position FROM event_log
               WHERE table_name = ?1 AND position > ?{position} ORDER BY position LIMIT {limit})"
    )
    .into()
}

impl EventLog {
    /// How the number of a table's rows follows from the log, or of those of a tenant. The table must have no trash. `None` on
    /// Postgres, where positions are not in the order of the commits.
    pub fn changes_of(&self, table: &str, tenant: Option<&str>) -> Option<Changes> {
        let Counting { of_table, of_tenant, .. } = &self.0.counting;
        let mut params = params![table, EventKind::Created.as_str(), EventKind::Deleted.as_str()];
        params.extend(tenant.map(Value::from));
        self.changes(if tenant.is_some() { of_tenant } else { of_table }, params)
    }

    /// For counts of some of a table's rows: the log tells only whether any of its rows has changed. `None` on Postgres.
    pub fn changes_within(&self, table: &str) -> Option<Changes> {
        self.changes(&self.0.counting.of_none, params![table])
    }

    fn changes(&self, since: &Sql, params: Vec<Value>) -> Option<Changes> {
        let is_ordered = self.engine() == Engine::Sqlite;
        is_ordered.then(|| Changes { newest: self.0.counting.newest.clone(), since: since.clone(), params })
    }
}
