//! Values inside JSON. A comparison with a value of another type is false.

use gatewright_db::{Engine, Value, dialect};

use super::super::{Operand, Order, Type};
use super::{Rows, Writer};
use crate::declare::Kind;

impl Writer<'_> {
    /// The value as text; NULL if it is absent or JSON null.
    pub(super) fn json_text(&mut self, operand: &Operand, rows: &Rows) -> String {
        let (column, path) = self.json(operand, rows);
        match self.engine {
            Engine::Sqlite => format!("json_extract({column}, {path})"),
            Engine::Postgres => format!("({column} #>> {path})"),
        }
    }

    pub(super) fn json_compare(
        &mut self,
        left: &Operand,
        order: Order,
        right: &Operand,
        as_type: Type,
        rows: &Rows,
    ) -> String {
        let is_type = self.is_type(left, as_type, rows);
        let (text, (column, path)) = (self.json_text(left, rows), self.json(left, rows));
        let is_float = matches!(right, Operand::Column { kind: Kind::Float, .. });
        let right = self.element(right, as_type, rows);
        let order = order.sql();
        match (self.engine, as_type) {
            (_, Type::Number) => {
                let number = dialect::json_number(self.engine, &column, &path);
                let compared = if is_float {
                    dialect::json_number_and_float(self.engine, &number, order, &right)
                } else {
                    format!("{number} {order} {right}")
                };
                format!("(CASE WHEN {is_type} THEN {compared} ELSE FALSE END)")
            }
            (Engine::Sqlite, _) => format!("({is_type} AND {text} {order} {right})"),
            (Engine::Postgres, Type::Bool) => {
                format!("(CASE WHEN {is_type} THEN CAST({text} AS boolean) {order} {right} ELSE FALSE END)")
            }
            (Engine::Postgres, Type::Text | Type::Time | Type::Own) => {
                format!("({is_type} AND {text} COLLATE \"C\" {order} {right})")
            }
        }
    }

    pub(super) fn json_contains(&mut self, operand: &Operand, text: &str, rows: &Rows) -> String {
        let is_text = self.is_type(operand, Type::Text, rows);
        let value = self.json_text(operand, rows);
        let text = self.bind(Value::from(text));
        let contains = dialect::contains_folded(self.engine, &value, &text);
        // SQL may evaluate both sides of an AND, even if the first one is false.
        format!("(CASE WHEN {is_text} THEN {contains} ELSE FALSE END)")
    }

    pub(super) fn has(&mut self, array: &Operand, element: &Operand, as_type: Type, rows: &Rows) -> String {
        let (column, path) = match array {
            Operand::Json { .. } => self.json(array, rows),
            word => (self.operand(word, rows), "'$'".to_owned()),
        };
        let element = self.element(element, as_type, rows);
        if as_type == Type::Number {
            return dialect::json_has_number(self.engine, &column, &path, &element);
        }
        match self.engine {
            Engine::Sqlite if as_type == Type::Bool => format!(
                "(json_type({column}, {path}) = 'array' AND EXISTS (SELECT 1 FROM json_each({column}, {path}) AS \"_e\" \
                 WHERE \"_e\".\"type\" IN ('true', 'false') AND \"_e\".\"value\" = {element}))"
            ),
            Engine::Sqlite => dialect::json_has_text(self.engine, &column, &path, &element),
            Engine::Postgres => {
                let value = match array {
                    Operand::Json { .. } => format!("({column} #> {path})"),
                    _ => format!("CAST({column} AS jsonb)"),
                };
                format!("(jsonb_typeof({value}) = 'array' AND {value} @> to_jsonb({element}))")
            }
        }
    }

    fn is_type(&mut self, operand: &Operand, as_type: Type, rows: &Rows) -> String {
        let (column, path) = self.json(operand, rows);
        match self.engine {
            Engine::Sqlite => {
                let names = match as_type {
                    Type::Number => "IN ('integer', 'real')",
                    Type::Bool => "IN ('true', 'false')",
                    Type::Text | Type::Time | Type::Own => "= 'text'",
                };
                format!("json_type({column}, {path}) {names}")
            }
            Engine::Postgres => {
                let name = match as_type {
                    Type::Number => "number",
                    Type::Bool => "boolean",
                    Type::Text | Type::Time | Type::Own => "string",
                };
                format!("jsonb_typeof({column} #> {path}) = '{name}'")
            }
        }
    }

    /// What a JSON value is compared with.
    fn element(&mut self, operand: &Operand, as_type: Type, rows: &Rows) -> String {
        match (operand, self.engine, as_type) {
            (Operand::Value(value), Engine::Postgres, Type::Number) => {
                let (value, is_number) = dialect::json_element(self.engine, value);
                let placeholder = self.bind(value);
                dialect::json_parameter(self.engine, &placeholder, is_number)
            }
            (Operand::Value(value), Engine::Postgres, Type::Bool) => {
                format!("CAST({} AS boolean)", self.bind(value.clone()))
            }
            (Operand::Value(value), Engine::Postgres, Type::Text | Type::Time | Type::Own) => {
                format!("CAST({} AS text)", self.bind(value.clone()))
            }
            _ => self.operand(operand, rows),
        }
    }

    /// The column, and the path in it as the engine writes it. Keys are plain words.
    pub(super) fn json(&mut self, operand: &Operand, rows: &Rows) -> (String, String) {
        let Operand::Json { path, .. } = operand else { return (self.operand(operand, rows), "'$'".to_owned()) };
        let path = match self.engine {
            Engine::Sqlite => {
                let keys: Vec<String> = path.iter().map(|key| format!(".\"{key}\"")).collect();
                format!("'${}'", keys.concat())
            }
            Engine::Postgres => {
                let keys: Vec<String> = path.iter().map(|key| format!("\"{key}\"")).collect();
                format!("'{{{}}}'", keys.join(","))
            }
        };
        (self.operand(operand, rows), path)
    }
}
