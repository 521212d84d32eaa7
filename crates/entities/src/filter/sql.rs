use std::fmt::Write;

use gatewright_db::{Engine, Value, dialect};

use super::columns::Columns;
use super::typed::{Predicate, Test};
use crate::declare::Kind;
use crate::fragment::quoted;

/// Writes `predicate` as a condition whose values are parameters, appended to `params`. Every word of the SQL comes from
/// the declarations.
pub(crate) fn write(
    predicate: &Predicate,
    columns: &Columns,
    engine: Engine,
    sql: &mut String,
    params: &mut Vec<Value>,
) {
    Writer { columns, engine, sql, params }.write(predicate, false);
}

struct Writer<'a> {
    columns: &'a Columns,
    engine: Engine,
    sql: &'a mut String,
    params: &'a mut Vec<Value>,
}

impl Writer<'_> {
    /// Writes the predicate, or its complement if `negated`.
    fn write(&mut self, predicate: &Predicate, negated: bool) {
        match predicate {
            Predicate::Not(inner) => self.write(inner, !negated),
            // The complement of "any" is "all the complements", and the other way round.
            Predicate::Any(parts) => self.join(parts, if negated { " AND " } else { " OR " }, negated),
            Predicate::All(parts) => self.join(parts, if negated { " OR " } else { " AND " }, negated),
            Predicate::Test(index, test) => self.test(*index, test, negated),
            Predicate::Words(sought) => {
                let found = sought.condition(&mut |value| self.bind(&value));
                let _infallible = if negated {
                    write!(self.sql, "NOT COALESCE({found}, FALSE)")
                } else {
                    write!(self.sql, "{found}")
                };
            }
        }
    }

    fn join(&mut self, parts: &[Predicate], word: &str, negated: bool) {
        if parts.is_empty() {
            self.sql.push_str(if word == " AND " { "1 = 1" } else { "1 = 0" });
            return;
        }
        self.sql.push('(');
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                self.sql.push_str(word);
            }
            self.write(part, negated);
        }
        self.sql.push(')');
    }

    fn test(&mut self, index: usize, test: &Test, negated: bool) {
        let column = self.columns.at(index);
        let name = quoted(&column.name);
        let operand =
            if column.kind == Kind::Decimal { dialect::decimal_order(self.engine, &name) } else { name.clone() };
        let condition = match test {
            Test::Absent => {
                let not = if negated { " NOT" } else { "" };
                let _infallible = write!(self.sql, "{name} IS{not} NULL");
                return;
            }
            Test::In(values) if values.is_empty() => {
                self.sql.push_str(if negated { "1 = 1" } else { "1 = 0" });
                return;
            }
            Test::In(values) => {
                let list: Vec<String> = values.iter().map(|value| self.bind(value)).collect();
                format!("{name}{} IN ({})", if negated { " NOT" } else { "" }, list.join(", "))
            }
            Test::Empty => {
                let length = dialect::json_items(self.engine, &name);
                let _infallible = write!(self.sql, "{length} {} 0", if negated { "<>" } else { "=" });
                return;
            }
            Test::Has(item) => {
                let (value, is_number) = dialect::json_element(self.engine, item);
                let (placeholder, path) = (self.bind(&value), dialect::json_root(self.engine));
                let element = dialect::json_parameter(self.engine, &placeholder, is_number);
                let has = if is_number {
                    dialect::json_has_number(self.engine, &name, path, &element)
                } else {
                    dialect::json_has_text(self.engine, &name, path, &element)
                };
                let _infallible =
                    if negated { write!(self.sql, "NOT COALESCE({has}, FALSE)") } else { write!(self.sql, "{has}") };
                return;
            }
            Test::Contains(needle) => {
                let needle = self.bind(&Value::Text(needle.clone()));
                let contains = dialect::contains_folded(self.engine, &name, &needle);
                if negated { format!("NOT {contains}") } else { contains }
            }
            Test::Equal(value) => format!("{operand} {} {}", if negated { "<>" } else { "=" }, self.bind(value)),
            Test::Greater(value) => format!("{operand} {} {}", if negated { "<=" } else { ">" }, self.bind(value)),
            Test::GreaterOrEqual(value) => {
                format!("{operand} {} {}", if negated { "<" } else { ">=" }, self.bind(value))
            }
            Test::Less(value) => format!("{operand} {} {}", if negated { ">=" } else { "<" }, self.bind(value)),
            Test::LessOrEqual(value) => format!("{operand} {} {}", if negated { ">" } else { "<=" }, self.bind(value)),
        };
        // An absent value fails every test, and so passes its complement.
        let _infallible =
            if negated { write!(self.sql, "({condition} OR {name} IS NULL)") } else { write!(self.sql, "{condition}") };
    }

    fn bind(&mut self, value: &Value) -> String {
        self.params.push(value.clone());
        format!("?{}", self.params.len())
    }
}
