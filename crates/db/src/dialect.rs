//! The differences between the engines, one named function for each.

mod fold;
mod lists;
mod search;
mod times;

use std::sync::LazyLock;

pub use fold::fold_case;
use fold::{LAST_FOLDED, folded_in};
pub use lists::{
    ItemType, json_distinct, json_element, json_has_text, json_item, json_items, json_parameter, json_root,
};
pub use search::{has_words, word_class, words, words_as_text};
pub use times::{TimeUnit, Zone, truncated};

use crate::{Engine, Error, Tx, params};

/// A table's or a column's name in quotes, so that it may be an SQL keyword such as `order`.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Takes the lock under which schemas change, until the transaction ends. On SQLite the transaction itself is that
/// lock; on Postgres it is an advisory lock, so that replicas which start together wait for each other.
pub async fn lock_schema(tx: &Tx) -> Result<(), Error> {
    /// Any number will do, as long as it stays the same.
    const LOCK: i64 = 0x6761_7465_7772_6967;
    match tx.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => tx.query("SELECT pg_advisory_xact_lock(?1)::text", params![LOCK]).await.map(|_| ()),
    }
}

/// Locks a name until the transaction ends: of transactions that lock the same name, each continues after the previous
/// one has ended, and sees its writes. Use it if there is no row to lock. Does nothing on SQLite, which has one writer.
pub async fn hold_name(tx: &Tx, name: &str) -> Result<(), Error> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended(?1, 0))::text";
    match tx.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => tx.query(sql, params![name]).await.map(|_| ()),
    }
}

/// Removes the time limit for this transaction's changes of tables. They fail with [`Error::Locked`] if one would wait
/// longer than two seconds for a table, because other callers' statements wait behind it. SQLite has one writer, whom
/// readers do not delay.
pub async fn give_way(tx: &Tx) -> Result<(), Error> {
    match tx.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => tx.execute_script("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '2s'").await,
    }
}

/// The end of an INSERT for [`Tx::insert_numbered`], if the database assigns numbers to `column`. SQLite returns the
/// number without RETURNING, which is slower there.
pub fn numbering(engine: Engine, column: &str) -> String {
    match engine {
        Engine::Sqlite => String::new(),
        Engine::Postgres => format!(" RETURNING {column}"),
    }
}

/// One statement that runs `insert`, an INSERT of one row without RETURNING, and then an INSERT `into` a table with
/// columns, of these `values`, and returns the value that the database assigned to `column` there. If the first inserts
/// nothing, the second inserts nothing. `None` on SQLite, where a second statement needs no round trip.
pub fn insert_both(engine: Engine, insert: &str, into: &str, values: &str, column: &str) -> Option<String> {
    match engine {
        Engine::Sqlite => None,
        Engine::Postgres => Some(format!(
            "WITH \"_first\" AS ({insert} RETURNING 1) INSERT INTO {into} SELECT {values} FROM \"_first\" RETURNING {column}"
        )),
    }
}

/// [`insert_both`] after a statement that returns one row, which all three may name: `first`, a name and the statement. What is
/// returned is `returning`.
pub fn insert_after(
    engine: Engine,
    (name, first): (&str, &str),
    insert: &str,
    (into, values): (&str, &str),
    returning: &str,
) -> Option<String> {
    let both = insert_both(engine, insert, into, values, returning)?;
    Some(both.replacen("WITH ", &format!("WITH {} AS ({first}), ", quoted(name)), 1))
}

/// Whether inserted values are stored unchanged, so that they need not be read back. Postgres normalises JSON
/// documents.
pub fn keeps_as_given(engine: Engine, has_json: bool) -> bool {
    engine == Engine::Sqlite || !has_json
}

/// The clause that locks selected rows and skips rows that other transactions have locked. SQLite has one writer, so
/// there is nothing to lock.
pub fn for_update_skip_locked(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "",
        Engine::Postgres => " FOR UPDATE SKIP LOCKED",
    }
}

/// The clause that locks selected rows, waiting for others. SQLite has one writer: nothing to lock.
pub fn for_update(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "",
        Engine::Postgres => " FOR UPDATE",
    }
}

/// The clause that locks selected rows, and waits for concurrent changes. Empty on SQLite, which has one writer.
pub fn for_share(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "",
        Engine::Postgres => " FOR SHARE",
    }
}

/// The bytes of `expression` as text, computed without reading all of it if the engine can.
pub fn byte_length(engine: Engine, expression: &str) -> String {
    match engine {
        Engine::Sqlite => format!("octet_length({expression})"),
        Engine::Postgres => format!("octet_length({expression}::text)"),
    }
}

/// A condition that is true if `expression`, a text, is one of those in `array`, which returns a JSON array of texts. Any
/// number of values uses one placeholder and the same statement.
///
/// Postgres gets an array, which it looks up in an index one by one. For a subquery it assumes a hundred rows, and
/// without statistics it may compare each of them with each row of the table.
pub fn is_among(engine: Engine, expression: &str, array: &str) -> String {
    match engine {
        Engine::Sqlite => format!("{expression} IN (SELECT value FROM json_each({array}))"),
        Engine::Postgres => format!("{expression} = ANY (ARRAY(SELECT jsonb_array_elements_text({array}::jsonb)))"),
    }
}

/// A condition that is true if `expression` is one of the values that `select` returns, found by an index on it.
pub fn is_selected(engine: Engine, expression: &str, select: &str) -> String {
    match engine {
        Engine::Sqlite => format!("{expression} IN ({select})"),
        Engine::Postgres => format!("{expression} = ANY (ARRAY({select}))"),
    }
}

/// A table of the texts in `array`, which yields a JSON array of them. Its column is `_v`.
pub fn texts(engine: Engine, array: &str) -> String {
    match engine {
        Engine::Sqlite => format!("(SELECT value AS \"_v\" FROM json_each({array}))"),
        Engine::Postgres => format!("(SELECT jsonb_array_elements_text({array}::jsonb) AS \"_v\")"),
    }
}

/// A table of the texts in `array`, a JSON array of an earlier table in the same FROM or around it, as `alias`. Its column is
/// `value`.
pub fn elements(engine: Engine, array: &str, alias: &str) -> String {
    match engine {
        Engine::Sqlite => format!("json_each({array}) AS {alias}"),
        Engine::Postgres => format!("jsonb_array_elements_text(CAST({array} AS jsonb)) AS {alias}(\"value\")"),
    }
}

/// A table of the texts in `array`, which yields a JSON array of them, with their positions from 0. Its columns are `value` and
/// `position`.
pub fn numbered_elements(engine: Engine, array: &str) -> String {
    match engine {
        Engine::Sqlite => format!("(SELECT value, key AS position FROM json_each({array}))"),
        Engine::Postgres => format!(
            "(SELECT \"e\".\"value\", \"e\".\"n\" - 1 AS position \
             FROM jsonb_array_elements_text(CAST({array} AS jsonb)) WITH ORDINALITY AS \"e\"(\"value\", \"n\"))"
        ),
    }
}

/// `column`, a JSON array of texts, without those in `array`, which yields a JSON array too, in its order.
pub fn without_elements(engine: Engine, column: &str, array: &str) -> String {
    match engine {
        Engine::Sqlite => format!(
            "(SELECT json_group_array(\"e\".value ORDER BY \"e\".key) FROM json_each({column}) AS \"e\" \
             WHERE \"e\".value NOT IN (SELECT value FROM json_each({array})))"
        ),
        Engine::Postgres => format!(
            "COALESCE((SELECT jsonb_agg(\"e\".\"value\" ORDER BY \"e\".\"n\") \
             FROM jsonb_array_elements_text({column}) WITH ORDINALITY AS \"e\"(\"value\", \"n\") \
             WHERE \"e\".\"value\" NOT IN (SELECT jsonb_array_elements_text(CAST({array} AS jsonb)))), CAST('[]' AS jsonb))"
        ),
    }
}

/// A table of the first `most` rows of `select`, which returns one column, `_v`, in no order. Materialized, so that Postgres does
/// not assume that these few rows are found early in the table: it would read the whole table if there are none.
pub fn first(engine: Engine, select: &str, most: usize) -> String {
    match engine {
        Engine::Sqlite => format!("({select} LIMIT {most})"),
        Engine::Postgres => {
            format!("(WITH \"_f\" AS MATERIALIZED ({select}) SELECT \"_v\" FROM \"_f\" LIMIT {most})")
        }
    }
}

/// For each row of `table`, which has a column `_v`, selects the rows that `select` returns for it, a column `id` of texts:
/// as `_v` and `_id`. `select` refers to the row's column as `"_k"."_v"`.
pub fn for_each(engine: Engine, table: &str, select: &str) -> String {
    match engine {
        // The only form in which a subquery of SQLite may depend on the other row, and have several rows.
        Engine::Sqlite => format!(
            "SELECT \"_k\".\"_v\" AS \"_v\", \"_x\".value AS \"_id\" FROM {table} AS \"_k\", \
             json_each((SELECT json_group_array(\"id\") FROM ({select}))) AS \"_x\""
        ),
        Engine::Postgres => format!(
            "SELECT \"_k\".\"_v\" AS \"_v\", \"_x\".\"id\" AS \"_id\" FROM {table} AS \"_k\" \
             CROSS JOIN LATERAL ({select}) AS \"_x\""
        ),
    }
}

/// Counts the rows of `select` up to a number, the parameter with the number `limit`.
pub fn count_to(engine: Engine, select: &str, limit: usize) -> String {
    match engine {
        Engine::Sqlite => format!("SELECT COUNT(*) FROM ({select} LIMIT ?{limit}) AS counted"),
        // As in `first`.
        Engine::Postgres => format!(
            "WITH \"_f\" AS MATERIALIZED ({select}) SELECT COUNT(*) FROM (SELECT 1 FROM \"_f\" LIMIT ?{limit}) AS counted"
        ),
    }
}

/// [`is_among`] for an integer `expression` and a JSON array of integers.
pub fn is_among_integers(engine: Engine, expression: &str, array: &str) -> String {
    match engine {
        Engine::Sqlite => format!("{expression} IN (SELECT value FROM json_each({array}))"),
        Engine::Postgres => {
            format!("{expression} = ANY (ARRAY(SELECT jsonb_array_elements_text({array}::jsonb)::bigint))")
        }
    }
}

/// A number that is greater than those of all transactions that wrote before this call. On SQLite, where writes run one
/// after the other, it is 0.
///
/// On Postgres it uses up a transaction id, so it must not be called for every read.
pub async fn transaction_mark(db: &crate::Db) -> Result<i64, Error> {
    one_number(db, "SELECT pg_current_xact_id()::text::bigint AS number").await
}

/// The number below which all transactions have ended. If it is greater than an earlier [`transaction_mark`],
/// everything that was written before the mark is committed or never will be. On SQLite it is 1.
pub async fn transaction_horizon(db: &crate::Db) -> Result<i64, Error> {
    Ok(one_number(db, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS number").await? + 1)
}

async fn one_number(db: &crate::Db, sql: &'static str) -> Result<i64, Error> {
    match db.engine() {
        Engine::Sqlite => Ok(0),
        Engine::Postgres => db.query_opt(sql, vec![]).await?.map_or(Ok(0), |row| row.get("number")),
    }
}

/// Notifies all [listeners](crate::Db::listen) of `channel` on any replica. Does nothing on SQLite, which only this
/// process uses.
pub async fn notify(db: &crate::Db, channel: &str, payload: &str) -> Result<(), Error> {
    match db.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => db.query("SELECT pg_notify(?1, ?2)::text", params![channel, payload]).await.map(|_| ()),
    }
}

/// [`notify`] with several payloads, in order and in one step: all are sent or none.
pub async fn notify_all(db: &crate::Db, channel: &str, payloads: &[String]) -> Result<(), Error> {
    if db.engine() == Engine::Sqlite {
        return Ok(());
    }
    let list = serde_json::Value::from(payloads).to_string();
    // Bytes: none of the payload is returned.
    let sql = "SELECT count(pg_notify(?1, payload))::text FROM jsonb_array_elements_text(?2::jsonb) AS payload";
    db.query(sql, params![channel, list]).await.map(|_| ())
}

/// The database's own clock as an expression, in the form of `{time}` columns.
pub fn now(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "(strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z')",
        Engine::Postgres => "clock_timestamp()",
    }
}

/// The database's own clock as an integer expression: microseconds since 1970, the same throughout one statement.
pub fn now_micros(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "(CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000)",
        Engine::Postgres => "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint",
    }
}

/// When the database server started, as an integer expression, in microseconds since 1970. 0 on SQLite, which has no
/// server.
pub fn server_start_micros(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "0",
        Engine::Postgres => "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint",
    }
}

/// Adds one to the whole number `member` of `column`, a JSON object. An absent member counts as 1.
pub fn json_count_up(engine: Engine, column: &str, member: &str) -> String {
    match engine {
        Engine::Sqlite => {
            format!("json_set({column}, '$.{member}', COALESCE(json_extract({column}, '$.{member}'), 1) + 1)")
        }
        Engine::Postgres => {
            format!("jsonb_set({column}, '{{{member}}}', to_jsonb(COALESCE(({column}->>'{member}')::bigint, 1) + 1))")
        }
    }
}

/// `column`, a JSON object, without `member`.
pub fn json_without(engine: Engine, column: &str, member: &str) -> String {
    match engine {
        Engine::Sqlite => format!("json_remove({column}, '$.{member}')"),
        Engine::Postgres => format!("({column} - '{member}')"),
    }
}

/// The text of `member` of `column`, a JSON object; null if it is absent.
pub fn json_text(engine: Engine, column: &str, member: &str) -> String {
    match engine {
        Engine::Sqlite => format!("json_extract({column}, '$.{member}')"),
        Engine::Postgres => format!("({column} ->> '{member}')"),
    }
}

/// Deletes rows of `table` whose `column` is at or before `?1`, the oldest first and at most `?2` of them. Replicas
/// that do this at the same time skip each other's rows. `key` is the table's primary key.
pub fn delete_oldest(engine: Engine, table: &str, key: &str, column: &str) -> String {
    let lock = for_update_skip_locked(engine);
    format!(
        "DELETE FROM {table} WHERE {key} IN \
         (SELECT {key} FROM {table} WHERE {column} <= ?1 ORDER BY {column} LIMIT ?2{lock})"
    )
}

/// Turns `expression`, a decimal column, into something that compares and sorts by its number.
pub fn decimal_order(engine: Engine, expression: &str) -> String {
    match engine {
        Engine::Sqlite => format!("{expression} COLLATE decimal"),
        Engine::Postgres => expression.to_owned(),
    }
}

/// The number at `path` in `column`, JSON of a record; not a number elsewhere, so its type must be known. Both engines
/// compare it by its exact value.
pub fn json_number(engine: Engine, column: &str, path: &str) -> String {
    match engine {
        Engine::Sqlite => format!("json_number({column} -> {path})"),
        Engine::Postgres => format!("CAST(({column} #>> {path}) AS numeric)"),
    }
}

/// Whether the JSON array at `path` in `column` has `number`. On Postgres `number` is a `numeric`.
pub fn json_has_number(engine: Engine, column: &str, path: &str, number: &str) -> String {
    match engine {
        // The operator fails for text that is no JSON, and the function does not.
        Engine::Sqlite if path == json_root(engine) => format!("has_number({column}, {number})"),
        Engine::Sqlite => format!("has_number({column} -> {path}, {number})"),
        Engine::Postgres => {
            format!("(jsonb_typeof({column} #> {path}) = 'array' AND ({column} #> {path}) @> to_jsonb({number}))")
        }
    }
}

/// A condition that compares `number`, from [`json_number`], with `float`, a column of doubles, by their exact values.
pub fn json_number_and_float(engine: Engine, number: &str, order: &str, float: &str) -> String {
    match engine {
        Engine::Sqlite => format!("{number} {order} {float}"),
        // Postgres may spell a double otherwise than JSON does, so two doubles compare as doubles. An integer of 64 bits
        // does not become one, and neither does an older number that none holds.
        Engine::Postgres => format!(
            "CASE WHEN {number} BETWEEN -9223372036854775808 AND 9223372036854775807 AND {number} = trunc({number}) \
             OR abs({number}) NOT BETWEEN 5e-324 AND 1.7976931348623157e308 \
             THEN {number} {order} {} ELSE CAST({number} AS double precision) {order} {float} END",
            exact_float(float)
        ),
    }
}

/// `float`, a column of doubles, as a `numeric` of Postgres: the integer that it is, or its shortest digits.
fn exact_float(float: &str) -> String {
    format!(
        "(CASE WHEN {float} >= -9223372036854775808 AND {float} < 9223372036854775808 AND {float} = trunc({float}) \
         THEN CAST(CAST({float} AS bigint) AS numeric) \
         WHEN abs({float}) BETWEEN 1e-300 AND 1e308 AND CAST(CAST({float} AS numeric) AS double precision) = {float} \
         THEN CAST({float} AS numeric) \
         ELSE CAST(CAST({float} AS text) AS numeric) END)"
    )
}

/// The exact sum of `expression`, a column of integers or decimals, as text without an exponent; null if there is no value.
pub fn exact_sum(engine: Engine, expression: &str) -> String {
    match engine {
        Engine::Sqlite => format!("exact_sum({expression})"),
        Engine::Postgres => format!("CAST(SUM(CAST({expression} AS numeric)) AS text)"),
    }
}

/// [`exact_sum`] of a column of doubles.
pub fn exact_sum_of_floats(engine: Engine, expression: &str) -> String {
    match engine {
        Engine::Sqlite => exact_sum(engine, expression),
        Engine::Postgres => exact_sum(engine, &exact_float(expression)),
    }
}

/// Compares two decimal texts by their numbers, as [`decimal_order`] does in SQL.
pub fn compare_decimals(a: &str, b: &str) -> std::cmp::Ordering {
    crate::decimal::compare(a, b)
}

/// A condition that is true if `expression`, a text, contains `needle`, ignoring case. `needle` must be the result of
/// [`fold_case`]; Postgres needs [`create_functions`] before.
pub fn contains_folded(engine: Engine, expression: &str, needle: &str) -> String {
    match engine {
        Engine::Sqlite => format!("contains_folded({expression}, {needle})"),
        Engine::Postgres => format!("(position({needle} IN gatewright_fold_case({expression})) > 0)"),
    }
}

/// `expression`, a text, whole number, truth value, UUID or day, as the text that JSON has for it.
pub fn as_text(engine: Engine, expression: &str, is_bool: bool) -> String {
    match engine {
        Engine::Sqlite if is_bool => format!("CASE {expression} WHEN 0 THEN 'false' WHEN 1 THEN 'true' END"),
        _ => format!("CAST({expression} AS text)"),
    }
}

/// A JSON array of texts or nulls, without spaces.
pub fn json_of_texts(engine: Engine, texts: &[String]) -> String {
    match engine {
        _ if texts.is_empty() => "'[]'".to_owned(),
        Engine::Sqlite => format!("json_array({})", texts.join(", ")),
        Engine::Postgres => {
            let texts: Vec<String> =
                texts.iter().map(|text| format!("COALESCE(CAST(to_json({text}) AS text), 'null')")).collect();
            format!("('[' || {} || ']')", texts.join(" || ',' || "))
        }
    }
}

/// The greater of two numbers.
pub fn greater(engine: Engine, one: &str, other: &str) -> String {
    match engine {
        Engine::Sqlite => format!("max({one}, {other})"),
        Engine::Postgres => format!("GREATEST({one}, {other})"),
    }
}

/// The number of characters of `expression`, a text.
pub fn characters(expression: &str) -> String {
    format!("length({expression})")
}

/// `expression`, a text, folded as [`fold_case`] does; Postgres needs [`create_functions`] before.
pub fn folded(expression: &str) -> String {
    format!("gatewright_fold_case({expression})")
}

/// Creates functions that statements use and the server lacks. On SQLite, each connection defines them.
pub async fn create_functions(tx: &Tx) -> Result<(), Error> {
    static FOLDED: LazyLock<(String, String)> = LazyLock::new(|| folded_in('\u{80}'..=LAST_FOLDED));
    if tx.engine() == Engine::Sqlite {
        return Ok(());
    }
    // A text of only ASCII, the usual case, skips the table of all other letters.
    let (upper, lower) = &*FOLDED;
    let function = format!(
        "CREATE OR REPLACE FUNCTION gatewright_fold_case(value text) RETURNS text
         LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $body$
         SELECT CASE WHEN octet_length(value) = char_length(value) THEN lower(value COLLATE \"C\")
                ELSE translate(lower(value COLLATE \"C\"), '{upper}', '{lower}') END $body$"
    );
    tx.execute_script(&function).await
}
