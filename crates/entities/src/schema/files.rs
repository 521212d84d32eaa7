//! The files that no record has any more: triggers of the database note them in the transaction that removes them, whatever does.

use gatewright_db::{Engine, column_types};

use super::marks::Trigger;
use crate::declare::Model;
use crate::files::RELEASED;
use crate::fragment::quoted;

const FUNCTION: &str = "CREATE OR REPLACE FUNCTION gatewright_release_files() RETURNS trigger LANGUAGE plpgsql AS $body$ \
    DECLARE old_ids jsonb := jsonb_path_query_array(to_jsonb(OLD) -> TG_ARGV[0], 'lax $[*].id'); new_ids jsonb := '[]'; BEGIN \
    IF TG_OP = 'UPDATE' THEN new_ids := jsonb_path_query_array(to_jsonb(NEW) -> TG_ARGV[0], 'lax $[*].id'); END IF; \
    INSERT INTO gatewright_released_files (id, at) SELECT file, now() FROM jsonb_array_elements_text(old_ids) AS file \
    WHERE NOT jsonb_exists(new_ids, file) ON CONFLICT DO NOTHING; RETURN NULL; END $body$";

/// The statements that create the table and what its triggers call.
pub(super) fn create_table(engine: Engine) -> Vec<String> {
    let sql = format!("CREATE TABLE {RELEASED} (id {{text}} PRIMARY KEY, at {{time}} NOT NULL)");
    let function = (engine == Engine::Postgres).then(|| FUNCTION.to_owned());
    std::iter::once(column_types(&sql, engine)).chain(function).collect()
}

/// The triggers of an entity's table: after a delete and after an update, for each field with files.
pub(super) fn triggers(model: &Model, engine: Engine) -> Vec<Trigger> {
    let fields = model.fields.iter().filter(|field| field.files.is_some());
    fields.flat_map(|field| [delete(model, &field.name, engine), update(model, &field.name, engine)]).collect()
}

fn delete(model: &Model, column: &str, engine: Engine) -> Trigger {
    let (table, name) = (quoted(&model.table), quoted(column));
    let does = match engine {
        Engine::Sqlite => note(&ids(&format!("OLD.{name}")), ""),
        Engine::Postgres => call(column),
    };
    let each = if engine == Engine::Postgres { "FOR EACH ROW " } else { "" };
    let when = condition(&format!("OLD.{name} IS NOT NULL"), engine);
    Trigger::new(&format!("AFTER DELETE ON {table} {each}WHEN {when} {does}"))
}

fn update(model: &Model, column: &str, engine: Engine) -> Trigger {
    let (table, name) = (quoted(&model.table), quoted(column));
    let does = match engine {
        Engine::Sqlite => {
            let kept = format!(" AND \"_o\".id NOT IN (SELECT id FROM ({}))", ids(&format!("NEW.{name}")));
            note(&ids(&format!("OLD.{name}")), &kept)
        }
        Engine::Postgres => call(column),
    };
    let each = if engine == Engine::Postgres { "FOR EACH ROW " } else { "" };
    let when = condition(&format!("OLD.{name} IS DISTINCT FROM NEW.{name}"), engine);
    Trigger::new(&format!("AFTER UPDATE OF {name} ON {table} {each}WHEN {when} {does}"))
}

fn condition(condition: &str, engine: Engine) -> String {
    match engine {
        Engine::Sqlite => condition.to_owned(),
        Engine::Postgres => format!("({condition})"),
    }
}

fn call(column: &str) -> String {
    format!("EXECUTE FUNCTION gatewright_release_files('{}')", column.replace('\'', "''"))
}

/// The ids of the files in a column of SQLite.
fn ids(column: &str) -> String {
    let files = format!(
        "CASE WHEN NOT json_valid({column}) THEN '[]' WHEN json_type({column}) = 'array' THEN {column} \
         WHEN json_type({column}) = 'object' THEN json_array(json({column})) ELSE '[]' END"
    );
    format!(
        "SELECT json_extract(\"_f\".value, '$.id') AS id FROM json_each({files}) AS \"_f\" \
         WHERE \"_f\".type = 'object' AND json_extract(\"_f\".value, '$.id') IS NOT NULL"
    )
}

fn note(ids: &str, kept: &str) -> String {
    format!(
        "BEGIN INSERT INTO {RELEASED} (id, at) SELECT DISTINCT \"_o\".id, strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z' \
         FROM ({ids}) AS \"_o\" WHERE NOT EXISTS (SELECT 1 FROM {RELEASED} AS \"_r\" WHERE \"_r\".id = \"_o\".id){kept}; END"
    )
}
