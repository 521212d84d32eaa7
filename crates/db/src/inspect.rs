//! What a SELECT of an operator reads, found by the engine itself and without running it.
//!
//! A text that only looks harmless, by its quotes, comments or nested queries, is no way around this: SQLite reports each table and
//! function that it compiles, and Postgres has parsed the text into the tree that is looked at.

use crate::sql::is_closed;
use crate::{Db, Error, Tx};

/// What a SELECT reads and returns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspected {
    /// The columns of its rows.
    pub columns: Vec<String>,
    /// The tables that it reads, each with a column; an empty one if it reads only whether there are rows.
    pub reads: Vec<(String, String)>,
    /// Whether it reads rows as a whole, and so perhaps every column of its tables. SQLite names each column instead.
    pub is_whole: bool,
}

/// Why a SELECT is refused: a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// The temporary view on Postgres. It is never committed.
const VIEW: &str = "_gatewright_inspected";

const UNCLOSED: &str =
    "a quote of it has no end: write a quote within a text twice (''), and none alone within a comment";

fn not_allowed(table: &str) -> Refused {
    Refused(format!("it reads \"{table}\", which is no table of an entity"))
}

/// Inspects a SELECT against an empty SQLite database with the tables of `schema`. It may read the tables in `allowed`. `wrapped` is
/// the statement in which it will run.
#[cfg(feature = "sqlite")]
pub fn inspect_scratch(
    schema: &[String],
    allowed: &[String],
    select: &str,
    wrapped: &str,
) -> Result<Inspected, Refused> {
    use rusqlite::Connection;

    let failed = |error: rusqlite::Error| Refused(error.to_string());
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    for statement in schema {
        connection.execute_batch(statement).map_err(failed)?;
    }
    let inspected = compiled(&mut connection, allowed, select)?;
    compiled(&mut connection, allowed, wrapped)?;
    Ok(inspected)
}

/// Compiles one statement, and reports what it reads.
#[cfg(feature = "sqlite")]
fn compiled(connection: &mut rusqlite::Connection, allowed: &[String], text: &str) -> Result<Inspected, Refused> {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

    /// Functions that reach outside of the database.
    const OUTSIDE: [&str; 4] = ["load_extension", "fts3_tokenizer", "readfile", "writefile"];
    /// Functions that return rows of their argument.
    const ROWS: [&str; 2] = ["json_each", "json_tree"];

    /// What was seen: the reads, and the first refusal.
    type Seen = (Vec<(String, String)>, Option<Refused>);

    let seen: Arc<Mutex<Seen>> = Arc::default();
    let (noted, tables) = (seen.clone(), allowed.to_vec());
    let authorize = move |context: AuthContext<'_>| {
        let mut noted = noted.lock();
        let refusal = match context.action {
            AuthAction::Select | AuthAction::Recursive => None,
            AuthAction::Read { table_name, .. } if ROWS.contains(&table_name) => None,
            AuthAction::Read { table_name, column_name } if tables.iter().any(|table| table == table_name) => {
                noted.0.push((table_name.to_owned(), column_name.to_owned()));
                None
            }
            AuthAction::Read { table_name, .. } => Some(not_allowed(table_name)),
            AuthAction::Function { function_name } => {
                let is_outside = OUTSIDE.iter().any(|name| function_name.eq_ignore_ascii_case(name));
                is_outside.then(|| Refused(format!("it calls {function_name}, which reaches outside of the database")))
            }
            _ => Some(Refused("it is not a SELECT".to_owned())),
        };
        match refusal {
            None => Authorization::Allow,
            Some(refusal) => {
                noted.1.get_or_insert(refusal);
                Authorization::Deny
            }
        }
    };
    let failed = |error: rusqlite::Error| Refused(error.to_string());
    connection.authorizer(Some(authorize)).map_err(failed)?;
    let found = connection.prepare(text).map(|statement| {
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        (columns, statement.parameter_count(), statement.readonly())
    });
    let nobody: Option<fn(AuthContext<'_>) -> Authorization> = None;
    connection.authorizer(nobody).map_err(failed)?;
    let (reads, refusal) = std::mem::take(&mut *seen.lock());
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let (columns, parameters, is_readonly) = found.map_err(|error| match error {
        rusqlite::Error::MultipleStatement => Refused("it is more than one statement".to_owned()),
        error => failed(error),
    })?;
    if parameters > 0 {
        return Err(Refused("it has parameters".to_owned()));
    }
    if !is_readonly {
        return Err(Refused("it is not a SELECT".to_owned()));
    }
    Ok(Inspected { columns, reads, is_whole: false })
}

/// What ends the transaction, which never commits.
enum End {
    Found(Inspected),
    Refused(Refused),
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Inspects a SELECT on Postgres, in a transaction that is rolled back. It may read the tables in `allowed`, and call functions
/// that have no effects and read nothing else. `wrapped` is the statement in which it will run.
pub async fn inspect(
    db: &Db,
    allowed: &[String],
    select: &str,
    wrapped: &str,
) -> Result<Result<Inspected, Refused>, Error> {
    let (allowed, select, wrapped) = (allowed.to_vec(), select.to_owned(), wrapped.to_owned());
    let ended =
        db.write(async move |tx: &Tx| -> Result<(), End> { Err(parsed(tx, &allowed, &select, &wrapped).await) }).await;
    match ended {
        Err(End::Found(inspected)) => Ok(Ok(inspected)),
        Err(End::Refused(refused)) => Ok(Err(refused)),
        Err(End::Failed(error)) => Err(error),
        Ok(()) => Ok(Err(Refused("it was not looked at".to_owned()))),
    }
}

async fn parsed(tx: &Tx, allowed: &[String], select: &str, wrapped: &str) -> End {
    match look(tx, allowed, select, wrapped).await {
        Ok(inspected) => End::Found(inspected),
        Err(end) => end,
    }
}

async fn look(tx: &Tx, allowed: &[String], select: &str, wrapped: &str) -> Result<Inspected, End> {
    // Only parsed: a view is not planned, and nothing of it runs. A protocol of one statement for each message is used.
    let wrong = |error: Error| match error {
        error if error.is_unavailable() => End::Failed(error),
        error => End::Refused(Refused(error.to_string())),
    };
    if !is_closed(select) {
        return Err(End::Refused(Refused(UNCLOSED.to_owned())));
    }
    tx.execute(format!("CREATE TEMPORARY VIEW \"{VIEW}\" AS\n{select}\n"), Vec::new()).await.map_err(wrong)?;
    tx.execute("SET TRANSACTION READ ONLY", Vec::new()).await?;
    let view = format!("CAST('pg_temp.{VIEW}' AS regclass)");
    let sql = format!("SELECT CAST(ev_action AS text) AS tree FROM pg_rewrite WHERE ev_class = {view}");
    let rows = tx.query(sql, Vec::new()).await?;
    let tree: String = rows.first().map(|row| row.get("tree")).transpose()?.unwrap_or_default();
    if tree.contains("ROWMARKCLAUSE") {
        return Err(End::Refused(Refused("it locks rows".to_owned())));
    }
    tables(tx, &tree, &view, allowed).await?;
    functions(tx, &tree).await?;
    let sql = format!(
        "SELECT CAST(c.relname AS text) AS name, COALESCE(CAST(a.attname AS text), '') AS part FROM pg_depend d \
         JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = CAST('pg_rewrite' AS regclass) \
         JOIN pg_class c ON c.oid = d.refobjid AND d.refclassid = CAST('pg_class' AS regclass) \
         LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid \
         WHERE r.ev_class = {view} AND c.oid <> {view} ORDER BY 1, 2"
    );
    let reads = tx.query(sql, Vec::new()).await?;
    let reads = reads.iter().map(|row| Ok((row.get("name")?, row.get("part")?))).collect::<Result<_, Error>>()?;
    let sql = format!(
        "SELECT CAST(attname AS text) AS name FROM pg_attribute WHERE attrelid = {view} AND attnum > 0 ORDER BY attnum"
    );
    let columns = tx.query(sql, Vec::new()).await?;
    let columns = columns.iter().map(|row| row.get("name")).collect::<Result<_, Error>>()?;
    tx.query(format!("EXPLAIN {wrapped}"), Vec::new()).await.map_err(wrong)?;
    let is_whole = tree.contains(":varattno 0 ");
    Ok(Inspected { columns, reads, is_whole })
}

/// Refuses relations other than the tables in `allowed`, as their names are looked up at the time.
async fn tables(tx: &Tx, tree: &str, view: &str, allowed: &[String]) -> Result<(), End> {
    let oids = numbers(tree, &["relid"]);
    let sql = format!(
        "SELECT CAST(c.relname AS text) AS name, c.relkind = 'r' AND c.oid = COALESCE(CAST(to_regclass(quote_ident(c.relname)) AS oid), 0) \
         AS ours FROM pg_class c WHERE c.oid IN ({oids}) AND c.oid <> {view}"
    );
    for row in tx.query(sql, Vec::new()).await? {
        let (name, ours): (String, bool) = (row.get("name")?, row.get("ours")?);
        if !ours || !allowed.contains(&name) {
            return Err(End::Refused(not_allowed(&name)));
        }
    }
    Ok(())
}

/// Refuses functions that could have effects, or read what the tree does not show.
async fn functions(tx: &Tx, tree: &str) -> Result<(), End> {
    /// The beginnings of the names of functions that run other statements, read settings or ask about the server.
    const ASIDE: [&str; 14] = [
        "pg_",
        "has_",
        "txid_",
        "lo_",
        "current_setting",
        "query_to_",
        "table_to_",
        "schema_to_",
        "database_to_",
        "cursor_to_",
        "ts_stat",
        "ts_rewrite",
        "obj_description",
        "col_description",
    ];
    let oids = numbers(tree, &["funcid", "opfuncid", "aggfnoid", "winfnoid"]);
    let sql = format!(
        "SELECT CAST(p.proname AS text) AS name, n.nspname = 'pg_catalog' AS own, CAST(p.provolatile AS text) AS volatile, \
         l.lanname IN ('c', 'internal') AND NOT EXISTS (SELECT 1 FROM pg_aggregate g JOIN pg_proc s ON s.oid IN (g.aggtransfn, \
         g.aggfinalfn, g.aggcombinefn, g.aggmtransfn, g.aggminvtransfn, g.aggmfinalfn, g.aggserialfn, g.aggdeserialfn) \
         JOIN pg_language sl ON sl.oid = s.prolang WHERE g.aggfnoid = p.oid AND sl.lanname NOT IN ('c', 'internal')) AS compiled FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
         JOIN pg_language l ON l.oid = p.prolang WHERE p.oid IN ({oids})"
    );
    for row in tx.query(sql, Vec::new()).await? {
        let (name, own, compiled): (String, bool, bool) = (row.get("name")?, row.get("own")?, row.get("compiled")?);
        let volatile: String = row.get("volatile")?;
        let is_allowed = match (own, &*volatile) {
            (true, "i" | "s") => !ASIDE.iter().any(|beginning| name.starts_with(beginning)),
            // Of an extension. A function in SQL could read anything, whatever it promises.
            (false, "i") => compiled,
            _ => false,
        };
        if !is_allowed {
            let reason = "a view calls functions that have no effects and depend on their arguments or the time";
            return Err(End::Refused(Refused(format!("it calls {name}: {reason}"))));
        }
    }
    Ok(())
}

/// The numbers that follow these names in a tree, as a list for IN. Zero is no object.
fn numbers(tree: &str, names: &[&str]) -> String {
    let mut words = tree.split([' ', '\n', '(', ')', '{', '}']).peekable();
    let mut found = std::collections::BTreeSet::from([0_u32]);
    while let Some(word) = words.next() {
        if word.strip_prefix(':').is_some_and(|name| names.contains(&name)) {
            found.extend(words.peek().and_then(|number| number.parse::<u32>().ok()));
        }
    }
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
