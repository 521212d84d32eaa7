//! The order of a list, and the steps that continue reading from a place in it.
//!
//! Ascending columns have their nulls last, descending ones first. Records that are equal otherwise come in id order.
//!
//! A page begins at a place and not at a number, so its cost does not depend on the place, and records that are added or
//! removed elsewhere do not shift it. The records after a place `(a, b, id)` are, in order: the same `a` and `b` and a
//! later id; the same `a` and a later `b`; a later `a`. Each of these is one range of the index over those columns, and
//! one [`Step`]; a page reads them one after the other until it is full. One condition with OR would mean the same, but
//! the engine would read the index from its start. The first two are one range, `(b, id) > (…)`: then a page that crosses
//! the end of a value needs one query, and if values hardly repeat, every page does. SQLite uses the index for such a
//! comparison only with plain columns, so decimals need two steps there.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use gatewright_db::{Engine, Value, dialect};

use crate::condition::follow::Followed;
use crate::declare::{Kind, Model, names};
use crate::fragment::quoted;

/// The rank of a search, by which a list can be sorted. No field has this name.
pub(crate) const RANK: &str = "_rank";

/// The columns that order an entity's records. The last is the id, so that no two are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Keyset {
    columns: Vec<Column>,
    /// Whether the id and the column before it are compared together.
    rows: bool,
}

/// One column of an order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The SQL that is compared.
    pub(crate) expression: String,
    pub(crate) nullable: bool,
    /// Ascending or descending.
    pub(crate) direction: Direction,
    /// The path that it ends, if it is not a column of the table: the statement selects it under this name.
    pub(crate) path: Option<Arc<Followed>>,
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
    /// The condition; empty for all rows.
    pub(crate) condition: String,
    pub(crate) params: Vec<Value>,
    /// The content of ORDER BY.
    pub(crate) order: String,
}

impl Direction {
    /// The direction in which a page that reads in direction `page` reads a column with this direction.
    fn within(self, page: Self) -> Self {
        if self == page { Self::Forward } else { Self::Backward }
    }
}

impl Column {
    /// A column for the value at the end of a path.
    pub(crate) fn at_the_end_of(path: Followed, place: usize, direction: Direction, engine: Engine) -> Self {
        let name = format!("_s{place}");
        let expression = match path.kind {
            Kind::Decimal => dialect::decimal_order(engine, &quoted(&name)),
            _ => quoted(&name),
        };
        Self { name, expression, nullable: true, direction, path: Some(Arc::new(path)) }
    }

    /// The column for the rank of a search.
    pub(crate) fn of_rank(direction: Direction) -> Self {
        Self { name: RANK.to_owned(), expression: quoted(RANK), nullable: false, direction, path: None }
    }

    /// The name that distinguishes it from other columns.
    pub(crate) fn label(&self) -> &str {
        self.path.as_ref().map_or(&self.name, |path| &path.text)
    }
}

impl Keyset {
    /// The order of an entity's `cursor_fields`.
    pub(crate) fn new(model: &Model, engine: Engine) -> Self {
        let column = |name: &String| {
            let field = model.fields.iter().find(|field| field.name == *name);
            let expression = match field {
                Some(field) if field.kind == Kind::Decimal => dialect::decimal_order(engine, &quoted(name)),
                _ => quoted(name),
            };
            // A column that was created before its field became required may contain nulls.
            let nullable = !model.own_columns().contains(&&**name);
            Column { name: name.clone(), expression, nullable, direction: Direction::Forward, path: None }
        };
        Self::of(model.cursor_fields.iter().map(column).collect(), engine)
    }

    /// The order of these columns. Columns after the id do not affect the order; if the id is missing, it is added at
    /// the end.
    pub(crate) fn of(mut columns: Vec<Column>, engine: Engine) -> Self {
        match columns.iter().position(|column| column.name == "id") {
            Some(id) => columns.truncate(id + 1),
            None => columns.push(Column {
                name: "id".to_owned(),
                expression: quoted("id"),
                nullable: false,
                direction: Direction::Forward,
                path: None,
            }),
        }
        let rows = match columns.as_slice() {
            // A column that SQLite has no row comparison for is an expression.
            [.., before, id] => {
                let is_plain = engine == Engine::Postgres || before.expression == quoted(&before.name);
                is_plain && before.direction == id.direction
            }
            _ => false,
        };
        Self { columns, rows }
    }

    /// The order of creation, where ids are in none: by `created_at` and the id.
    pub(crate) fn by_creation(engine: Engine) -> Self {
        let name = names::OWN_COLUMNS[1];
        let direction = Direction::Forward;
        let created =
            Column { name: name.to_owned(), expression: quoted(name), nullable: false, direction, path: None };
        Self::of(vec![created], engine)
    }

    /// The rank of a search.
    pub(crate) fn by_rank(engine: Engine) -> Self {
        Self::of(vec![Column::of_rank(Direction::Backward)], engine)
    }

    /// Id order, which is the order of creation.
    pub(crate) fn by_id() -> Self {
        Self::of(Vec::new(), Engine::Sqlite)
    }

    /// The columns' names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| &*column.name)
    }

    /// The columns' names, each with its direction: they identify the order that a cursor was created for.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.columns.iter().map(|column| match column.direction {
            Direction::Forward => Cow::Borrowed(column.label()),
            Direction::Backward => Cow::Owned(format!("-{}", column.label())),
        })
    }

    /// The columns that are ends of paths, by their names.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&str, &Followed)> {
        self.columns.iter().filter_map(|column| Some((&*column.name, &**column.path.as_ref()?)))
    }

    /// The content of ORDER BY, for all records.
    pub(crate) fn clause(&self) -> String {
        self.order_from(0, Direction::Forward)
    }

    /// All records as one range.
    pub(crate) fn whole(&self) -> Step {
        Step { condition: String::new(), params: Vec::new(), order: self.clause() }
    }

    /// Whether it orders by the rank of a search.
    pub(crate) fn ranks(&self) -> bool {
        self.names().any(|name| name == RANK)
    }

    /// Whether it orders by something that the table has no column for: the ends of paths, or a rank.
    pub(crate) fn is_computed(&self) -> bool {
        self.paths().next().is_some() || self.ranks()
    }

    /// The steps from `place`, or from the end if there is none, in the order to read them. Their parameters are
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
        let absent = step(format!("{} IS NULL", quoted(&leading.name)), self.order_from(1, direction));
        match leading.direction.within(direction) {
            Direction::Forward => vec![present, absent],
            Direction::Backward => vec![absent, present],
        }
    }

    fn from(&self, place: &Place, direction: Direction, first: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let last = self.columns.len() - 1;
        // A page that reads over the record at its edge has it.
        let has_edge = place.after != (direction == Direction::Forward);
        // A comparison of rows is not defined for nulls.
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
            let way = column.direction.within(direction);
            // Nulls are last: nothing comes after them, and everything that is there comes before.
            match (way, *value == Value::Null) {
                (Direction::Forward, true) => {}
                (Direction::Backward, true) => {
                    steps.push(step(format!("{name} IS NOT NULL"), &[], self.order(index, direction)));
                }
                (_, false) => {
                    let is_pair = pair == Some(index);
                    let operator = match (way, (index == last || is_pair) && has_edge) {
                        (Direction::Forward, false) => ">",
                        (Direction::Forward, true) => ">=",
                        (Direction::Backward, false) => "<",
                        (Direction::Backward, true) => "<=",
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
                    if way == Direction::Forward && column.nullable {
                        steps.push(step(format!("{name} IS NULL"), &[], self.order_from(index + 1, direction)));
                    }
                }
            }
        }
        steps
    }

    /// By the column at `index`, which has no nulls among the rows in question, and those after it.
    fn order(&self, index: usize, direction: Direction) -> String {
        let column = &self.columns[index];
        let mut order = format!("{}{}", column.expression, word(column.direction.within(direction)));
        if index + 1 < self.columns.len() {
            let _infallible = write!(order, ", {}", self.order_from(index + 1, direction));
        }
        order
    }

    /// By the column at `index` and those after it.
    fn order_from(&self, index: usize, direction: Direction) -> String {
        let columns = self.columns.iter().skip(index).map(|column| {
            let way = column.direction.within(direction);
            let nulls = match way {
                _ if !column.nullable => "",
                Direction::Forward => " NULLS LAST",
                Direction::Backward => " NULLS FIRST",
            };
            format!("{}{}{nulls}", column.expression, word(way))
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
    fn a_key_of_only_the_id_is_one_range() {
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
    fn records_after_a_position_are_one_range_and_one_for_nulls() {
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
    fn records_after_a_position_in_many_columns_are_a_range_for_each_except_the_last_two() {
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
    fn a_descending_column_has_its_nulls_first_and_the_ids_rising() {
        let column = |name: &str, direction| Column {
            name: name.to_owned(),
            expression: quoted(name),
            nullable: true,
            direction,
            path: None,
        };
        let place = |rank: Value| Some(Place { after: true, values: vec![rank, "x".into()] });
        let keyset = Keyset::of(vec![column("rank", Direction::Backward)], Engine::Sqlite);
        assert_eq!(keyset.clause(), r#""rank" DESC NULLS FIRST, "id""#);
        assert_eq!(
            steps(&keyset, None, Direction::Forward),
            [r#""rank" IS NULL by "id""#, r#""rank" IS NOT NULL by "rank" DESC, "id""#]
        );
        assert_eq!(
            steps(&keyset, place(7_i64.into()).as_ref(), Direction::Forward),
            [r#""rank" = ?4 AND "id" > ?5 by "id""#, r#""rank" < ?4 by "rank" DESC, "id""#]
        );
        assert_eq!(
            steps(&keyset, place(Value::Null).as_ref(), Direction::Forward),
            [r#""rank" IS NULL AND "id" > ?4 by "id""#, r#""rank" IS NOT NULL by "rank" DESC, "id""#]
        );
        assert_eq!(
            steps(&keyset, place(7_i64.into()).as_ref(), Direction::Backward),
            [
                r#""rank" = ?4 AND "id" <= ?5 by "id" DESC"#,
                r#""rank" > ?4 by "rank", "id" DESC"#,
                r#""rank" IS NULL by "id" DESC"#,
            ]
        );
        let both =
            Keyset::of(vec![column("rank", Direction::Backward), column("title", Direction::Forward)], Engine::Sqlite);
        let place = Place { after: true, values: vec![7_i64.into(), "t".into(), "x".into()] };
        assert_eq!(
            steps(&both, Some(&place), Direction::Forward),
            [
                r#""rank" = ?4 AND ("title", "id") > (?5, ?6) by "title", "id""#,
                r#""rank" = ?4 AND "title" IS NULL by "id""#,
                r#""rank" < ?4 by "rank" DESC, "title" NULLS LAST, "id""#,
            ]
        );
        assert_eq!(both.parts().collect::<Vec<_>>(), ["-rank", "title", "id"]);
    }

    #[test]
    fn nothing_orders_after_the_id() {
        let id = |direction| Column {
            name: "id".to_owned(),
            expression: quoted("id"),
            nullable: false,
            direction,
            path: None,
        };
        let keyset = Keyset::of(vec![id(Direction::Backward), id(Direction::Forward)], Engine::Postgres);
        assert_eq!(keyset.clause(), r#""id" DESC"#);
        let place = Place { after: true, values: vec!["x".into()] };
        assert_eq!(steps(&keyset, Some(&place), Direction::Forward), [r#""id" < ?4 by "id" DESC"#]);
        assert_eq!(steps(&keyset, Some(&place), Direction::Backward), [r#""id" >= ?4 by "id""#]);
    }

    #[test]
    fn decimals_on_sqlite_are_not_part_of_a_row_comparison() {
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
