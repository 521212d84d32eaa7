//! The order that cursors page through, and the steps that read on from a place in it.
//!
//! A page begins at a place and not at a number, so that it costs the same wherever it is and that records which come or
//! go elsewhere do not shift it. What lies beyond a place `(a, b, id)` is, in order: the same `a` and `b` and a later
//! id; the same `a` and a later `b`; a later `a`. Each of these is one range of the index over those columns, and one
//! [`Step`]; a page takes them one after the other until it is full. One condition with OR would say the same, and be
//! answered by reading the index from its start. The first two are one range, `(b, id) > (…)`, so that a page that reads
//! over the end of a value, as every page does where values hardly repeat, asks once. SQLite answers such a comparison by
//! the index for plain columns alone, so that decimals there are asked for in two steps.

use std::fmt::Write;

use gatewright_db::{Engine, Value, dialect};

use super::quoted;
use crate::declare::{Kind, Model, names};

/// The columns that order an entity's records for cursors. The last is the id, so that no two are equal.
#[derive(Debug)]
pub(crate) struct Keyset {
    columns: Vec<Column>,
    /// Whether the id and the column before it are compared together.
    rows: bool,
}

#[derive(Debug)]
struct Column {
    name: String,
    /// What compares.
    expression: String,
    nullable: bool,
}

/// Where a page begins or ends: right after a record, or right before it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    pub(crate) after: bool,
    /// The record's values of the key's columns.
    pub(crate) values: Vec<Value>,
}

/// Which way a page reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Direction {
    #[default]
    Forward,
    Backward,
}

/// One range of the index.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    /// The condition; empty where everything is meant.
    pub(crate) condition: String,
    pub(crate) params: Vec<Value>,
    /// What follows ORDER BY.
    pub(crate) order: String,
}

impl Keyset {
    pub(crate) fn new(model: &Model, engine: Engine) -> Self {
        let column = |name: &String| {
            let field = model.fields.iter().find(|field| field.name == *name);
            let expression = match field {
                Some(field) if field.kind == Kind::Decimal => dialect::decimal_order(engine, &quoted(name)),
                _ => quoted(name),
            };
            // A column that was made before its field became required may hold nulls.
            let nullable = !names::OWN_COLUMNS.contains(&&**name);
            Column { name: name.clone(), expression, nullable }
        };
        let mut columns: Vec<Column> = model.cursor_fields.iter().map(column).collect();
        columns.push(column(&"id".to_owned()));
        let rows = columns.iter().rev().nth(1).is_some_and(|column| {
            // What SQLite has no row comparison for is an expression.
            engine == Engine::Postgres || column.expression == quoted(&column.name)
        });
        Self { columns, rows }
    }

    /// The columns' names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| &*column.name)
    }

    /// The steps from `place`, or from the end where there is none, in the order to take them. Their parameters are
    /// numbered from `first`.
    pub(crate) fn steps(&self, place: Option<&Place>, direction: Direction, first: usize) -> Vec<Step> {
        match place {
            Some(place) => self.from(place, direction, first),
            None => self.all(direction),
        }
    }

    /// All records: those with a value in the first column, and those without.
    fn all(&self, direction: Direction) -> Vec<Step> {
        let leading = &self.columns[0];
        let step = |condition: String, order| Step { condition, params: Vec::new(), order };
        if !leading.nullable {
            return vec![step(String::new(), self.order(0, direction))];
        }
        let present = step(format!("{} IS NOT NULL", quoted(&leading.name)), self.order(0, direction));
        let absent = step(format!("{} IS NULL", quoted(&leading.name)), self.order_after(0, direction));
        match direction {
            Direction::Forward => vec![present, absent],
            Direction::Backward => vec![absent, present],
        }
    }

    fn from(&self, place: &Place, direction: Direction, first: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let forward = direction == Direction::Forward;
        let last = self.columns.len() - 1;
        // A comparison of rows says nothing about nulls.
        let pair = (self.rows && place.values[last - 1] != Value::Null).then(|| last - 1);
        for (index, (column, value)) in self.columns.iter().zip(&place.values).enumerate().rev() {
            if pair.is_some() && index == last {
                continue;
            }
            let (mut condition, mut params) = (String::new(), Vec::new());
            for (equal, value) in self.columns.iter().zip(&place.values).take(index) {
                if *value == Value::Null {
                    let _infallible = write!(condition, "{} IS NULL AND ", quoted(&equal.name));
                } else {
                    let _infallible = write!(condition, "{} = ?{} AND ", equal.expression, first + params.len());
                    params.push(value.clone());
                }
            }
            let name = quoted(&column.name);
            let step = |test: String, values: &[Value], order: String| Step {
                condition: format!("{condition}{test}"),
                params: params.iter().chain(values).cloned().collect(),
                order,
            };
            // Nulls are last: nothing comes after them, and everything that is there comes before.
            match (forward, *value == Value::Null) {
                (true, true) => {}
                (false, true) => steps.push(step(format!("{name} IS NOT NULL"), &[], self.order(index, direction))),
                (_, false) => {
                    let is_pair = pair == Some(index);
                    // A page that reads over the record at its edge has it.
                    let inclusive = (index == last || is_pair) && place.after != forward;
                    let operator = match (forward, inclusive) {
                        (true, false) => ">",
                        (true, true) => ">=",
                        (false, false) => "<",
                        (false, true) => "<=",
                    };
                    let at = first + params.len();
                    let (test, values) = if is_pair {
                        let id = &self.columns[last].expression;
                        let test = format!("({}, {id}) {operator} (?{at}, ?{})", column.expression, at + 1);
                        (test, &place.values[index..])
                    } else {
                        (format!("{} {operator} ?{at}", column.expression), std::slice::from_ref(value))
                    };
                    steps.push(step(test, values, self.order(index, direction)));
                    if forward && column.nullable {
                        steps.push(step(format!("{name} IS NULL"), &[], self.order_after(index, direction)));
                    }
                }
            }
        }
        steps
    }

    /// By the column at `index`, which has no nulls among the rows in question, and those after it.
    fn order(&self, index: usize, direction: Direction) -> String {
        let mut order = format!("{}{}", self.columns[index].expression, word(direction));
        if index + 1 < self.columns.len() {
            let _infallible = write!(order, ", {}", self.order_after(index, direction));
        }
        order
    }

    /// By the columns after the one at `index`.
    fn order_after(&self, index: usize, direction: Direction) -> String {
        let nulls = match direction {
            Direction::Forward => " NULLS LAST",
            Direction::Backward => " NULLS FIRST",
        };
        let columns = self.columns.iter().skip(index + 1).map(|column| {
            format!("{}{}{}", column.expression, word(direction), if column.nullable { nulls } else { "" })
        });
        columns.collect::<Vec<_>>().join(", ")
    }
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "",
        Direction::Backward => " DESC",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::Declarations;
    use crate::{Entity, Field};

    fn keyset(fields: &[&str]) -> Keyset {
        let posts = Entity::new("posts")
            .field(Field::string("title"))
            .field(Field::int("rank"))
            .field(Field::decimal("price"))
            .cursor_fields(fields.iter().copied());
        let models = Declarations::check(&[posts]).unwrap().models;
        Keyset::new(&models[0], Engine::Sqlite)
    }

    fn steps(keyset: &Keyset, place: Option<&Place>, direction: Direction) -> Vec<String> {
        let steps = keyset.steps(place, direction, 4);
        steps.into_iter().map(|step| format!("{} by {}", step.condition, step.order)).collect()
    }

    #[test]
    fn the_id_alone_is_one_range() {
        let (keyset, place) = (keyset(&[]), |after| Some(Place { after, values: vec!["x".into()] }));
        for (place, direction, expected) in [
            (None, Direction::Forward, r#" by "id""#),
            (None, Direction::Backward, r#" by "id" DESC"#),
            (place(true), Direction::Forward, r#""id" > ?4 by "id""#),
            (place(false), Direction::Forward, r#""id" >= ?4 by "id""#),
            (place(true), Direction::Backward, r#""id" <= ?4 by "id" DESC"#),
            (place(false), Direction::Backward, r#""id" < ?4 by "id" DESC"#),
        ] {
            assert_eq!(steps(&keyset, place.as_ref(), direction), [expected]);
        }
    }

    #[test]
    fn what_lies_beyond_a_place_is_one_range_and_one_for_nulls() {
        let place = |rank: Value| Some(Place { after: true, values: vec![rank, "x".into()] });
        let keyset = keyset(&["rank"]);
        assert_eq!(
            steps(&keyset, place(7_i64.into()).as_ref(), Direction::Forward),
            [r#"("rank", "id") > (?4, ?5) by "rank", "id""#, r#""rank" IS NULL by "id""#]
        );
        assert_eq!(
            steps(&keyset, place(Value::Null).as_ref(), Direction::Forward),
            [r#""rank" IS NULL AND "id" > ?4 by "id""#]
        );
        assert_eq!(
            steps(&keyset, place(Value::Null).as_ref(), Direction::Backward),
            [r#""rank" IS NULL AND "id" <= ?4 by "id" DESC"#, r#""rank" IS NOT NULL by "rank" DESC, "id" DESC"#,]
        );
        assert_eq!(
            steps(&keyset, None, Direction::Backward),
            [r#""rank" IS NULL by "id" DESC"#, r#""rank" IS NOT NULL by "rank" DESC, "id" DESC"#]
        );
    }

    #[test]
    fn what_lies_beyond_a_place_in_many_columns_is_a_range_for_each_but_the_last_two() {
        let place = |after, values: [Value; 3]| Some(Place { after, values: values.to_vec() });
        let keyset = keyset(&["title", "rank"]);
        assert_eq!(
            steps(&keyset, place(true, ["t".into(), 7_i64.into(), "x".into()]).as_ref(), Direction::Forward),
            [
                r#""title" = ?4 AND ("rank", "id") > (?5, ?6) by "rank", "id""#,
                r#""title" = ?4 AND "rank" IS NULL by "id""#,
                r#""title" > ?4 by "title", "rank" NULLS LAST, "id""#,
                r#""title" IS NULL by "rank" NULLS LAST, "id""#,
            ]
        );
        assert_eq!(
            steps(&keyset, place(true, [Value::Null, 7_i64.into(), "x".into()]).as_ref(), Direction::Backward),
            [
                r#""title" IS NULL AND ("rank", "id") <= (?4, ?5) by "rank" DESC, "id" DESC"#,
                r#""title" IS NOT NULL by "title" DESC, "rank" DESC NULLS FIRST, "id" DESC"#,
            ]
        );
        assert_eq!(
            steps(&keyset, place(false, ["t".into(), Value::Null, "x".into()]).as_ref(), Direction::Forward)[0],
            r#""title" = ?4 AND "rank" IS NULL AND "id" >= ?5 by "id""#
        );
    }

    #[test]
    fn decimals_on_sqlite_are_no_part_of_a_comparison_of_rows() {
        let place = Some(Place { after: true, values: vec!["1.5".into(), "x".into()] });
        let order = dialect::decimal_order(Engine::Sqlite, r#""price""#);
        assert_eq!(
            steps(&keyset(&["price"]), place.as_ref(), Direction::Forward),
            [
                format!(r#"{order} = ?4 AND "id" > ?5 by "id""#),
                format!(r#"{order} > ?4 by {order}, "id""#),
                r#""price" IS NULL by "id""#.to_owned(),
            ]
        );
    }
}
