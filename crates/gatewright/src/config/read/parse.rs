use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::node::{Entry, Node, Table, Value};
use crate::config::{Place, Problem};

/// Parses TOML text into a tree. Every key and value has its line and column.
///
/// The parser's own messages quote the line, which may hold a secret. Only their first sentence and their position are
/// used.
pub(crate) fn parse(name: &str, text: &str) -> Result<Table, Vec<Problem>> {
    let lines = Lines::new(name, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return table(document.into_inner(), &lines).map_err(|problem| vec![problem]);
    }
    let mut problems: Vec<Problem> = errors
        .iter()
        .map(|error| Problem {
            place: lines.place(error.span().map_or(0, |span| span.start)),
            message: match error.message() {
                // A word without quotes, or with only the closing one.
                message if message.contains("must be quoted") || message.contains("missing opening quote") => {
                    "not TOML: strings need quotes, such as key = \"text\"".to_owned()
                }
                message => format!("not TOML: {message}"),
            },
        })
        .collect();
    problems.dedup();
    Err(problems)
}

/// Parses one TOML value, such as an environment variable's text. `None` if it is not one.
pub(crate) fn parse_value(text: &str, place: &Place) -> Option<Value> {
    let parsed = DeValue::parse(text).ok()?;
    value(parsed.into_inner(), &|_| place.clone()).ok()
}

fn table(table: DeTable<'_>, lines: &Lines<'_>) -> Result<Table, Problem> {
    convert_table(table, &|offset| lines.place(offset))
}

fn convert_table(table: DeTable<'_>, place: &impl Fn(usize) -> Place) -> Result<Table, Problem> {
    let mut converted = Table::default();
    for (key, value) in table {
        let entry = Entry::new(place(key.span().start), node(value, place)?);
        converted.0.insert(key.into_inner().into_owned(), entry);
    }
    Ok(converted)
}

fn node(spanned: Spanned<DeValue<'_>>, place: &impl Fn(usize) -> Place) -> Result<Node, Problem> {
    let place_here = place(spanned.span().start);
    match value(spanned.into_inner(), place) {
        Ok(value) => Ok(Node::new(value, place_here)),
        Err(Problem { message, place: Place::Unwritten }) => Err(Problem { place: place_here, message }),
        Err(problem) => Err(problem),
    }
}

fn value(value: DeValue<'_>, place: &impl Fn(usize) -> Place) -> Result<Value, Problem> {
    Ok(match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::Integer)
            .map_err(|_| unplaced("this whole number is too large"))?,
        DeValue::Float(number) => {
            number.as_str().parse().map(Value::Float).map_err(|_| unplaced("this number cannot be represented"))?
        }
        DeValue::Boolean(truth) => Value::Bool(truth),
        DeValue::Datetime(datetime) => Value::Datetime(datetime.to_string()),
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node(item, place)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(convert_table(table, place)?),
    })
}

fn unplaced(message: &str) -> Problem {
    Problem { place: Place::Unwritten, message: message.to_owned() }
}

/// Turns byte offsets into lines and columns.
struct Lines<'a> {
    name: &'a str,
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(name: &'a str, text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(index, _)| index + 1)).collect();
        Self { name, text, starts }
    }

    fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(1, |before| before.chars().count() + 1);
        Place::File { name: self.name.to_owned(), line, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let text = "a = 1\n[b]\n\"ä\" = { c = 2 }\n[[d]]\n[[d]]\ne = [1,\n 2]\n[b.x.y]\nz=1\n";
        let Ok(tree) = parse("f", text) else { panic!("it is TOML") };
        for (path, line, column) in [
            ("a", 1, 5),
            ("b", 2, 1),
            ("b.ä.c", 3, 13),
            ("b.ä.missing", 3, 7),
            ("d[1]", 5, 1),
            ("d[1].e[1]", 7, 2),
            ("b.x.y.z", 9, 3),
            ("b.q.y", 2, 1),
        ] {
            let place = Place::File { name: "f".to_owned(), line, column };
            assert_eq!(tree.locate(path), Some(&place), "{path}");
        }
        assert_eq!(tree.locate("nowhere"), None);
    }

    #[test]
    fn an_unquoted_word_gets_a_hint_about_quotes() {
        for text in ["[auth]\njwt_secret = canary7f3a\n", "[auth]\njwt_secret = canary7f3a\"\n"] {
            let Err(problems) = parse("f", text) else { panic!("it is not TOML") };
            let first = problems[0].to_string();
            assert!(first.starts_with("f:2:") && first.contains("strings need quotes"), "{first}");
            assert!(problems.iter().all(|problem| !problem.to_string().contains("canary")), "{problems:?}");
        }
    }

    #[test]
    fn a_syntax_error_names_its_position_and_no_secret() {
        let Err(problems) = parse("f", "[auth]\njwt_secret = \"canary-7f3a\nx = 1\n") else { panic!("it is not TOML") };
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().starts_with("f:2:"), "{}", problems[0]);
        assert!(!problems[0].to_string().contains("canary"));
    }
}
