//! The queries of reads, before they are checked against the entity.

use std::collections::HashSet;
use std::fmt::{Display, Write as _};

/// The query of a list: which records, in which order, which page, and which fields.
///
/// A program builds one by its methods. REST reads one from a query string ([`parse`](Self::parse)), and tools from
/// their arguments (as pairs of name and text, by `collect`). [`Table::list`](crate::Table::list) checks names and
/// values after the access check: it fails with [`Error::Query`](crate::operations::Error::Query) if they are invalid.
///
/// ```
/// use gatewright_entities::ListQuery;
///
/// let open = ListQuery::new().condition("status", "open").condition("rank_gte", 3).sort("-created_at").limit(10);
/// assert_eq!(open, ListQuery::parse("status=open&rank_gte=3&sort=-created_at&limit=10"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    pub(crate) page: Option<Given<u32>>,
    pub(crate) limit: Option<Given<u32>>,
    pub(crate) sort: Option<String>,
    pub(crate) cursor: Option<String>,
    pub(crate) is_backward: Option<Given<bool>>,
    pub(crate) count: Option<Count>,
    pub(crate) view: RecordQuery,
    pub(crate) search: Option<String>,
    pub(crate) filter: Option<String>,
    pub(crate) trash: Option<Given<Trash>>,
    /// How many records may be read.
    pub(crate) looks_at: Option<u32>,
    /// Seldom there.
    pub(crate) groups: Option<Box<Groups>>,
    /// The parameters other than those above, in their order.
    pub(crate) conditions: Vec<(String, String)>,
}

/// The part of a record to return, for [`Table::view`](crate::Table::view) and for each record of a [`ListQuery`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordQuery {
    /// Names, with commas between them.
    pub(crate) fields: Option<String>,
    /// Names, with commas between them.
    pub(crate) include: Option<String>,
    pub(crate) tags: Option<Given<bool>>,
    /// The first parameter of another name.
    pub(crate) unknown: Option<String>,
    /// The first parameter that was given twice.
    pub(crate) repeated: Option<String>,
}

/// How the records on all pages are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Count {
    /// All of them.
    #[default]
    Exact,
    /// Up to a limit.
    Estimate,
    /// No count.
    None,
}

/// The value of a parameter with its own format.
pub(crate) type Given<T> = Result<T, Unreadable>;

/// A parameter with an invalid value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) is_empty: bool,
}

/// Which records in the trash are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trash {
    With,
    Only,
}

/// Records counted and summed up. Each is names, with commas between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) by: Option<String>,
    pub(crate) sum: Option<String>,
    pub(crate) min: Option<String>,
    pub(crate) max: Option<String>,
    pub(crate) avg: Option<String>,
    pub(crate) count_distinct: Option<String>,
}

impl ListQuery {
    /// The first page of all records, in the entity's own order.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a query string, such as `status=open&sort=-created_at`.
    pub fn parse(query: &str) -> Self {
        form_urlencoded::parse(query.as_bytes()).collect()
    }

    /// Adds a condition on a field: its name, or a name with an operator such as `rank_gte`. Each name can be used
    /// once.
    pub fn condition(mut self, name: impl Into<String>, value: impl Display) -> Self {
        self.narrow(name, value);
        self
    }

    /// Adds a condition to another caller's query, for example in `before_list` of a hook. If the query already has one
    /// of that name, it is refused, so that callers cannot remove the condition.
    pub fn narrow(&mut self, name: impl Into<String>, value: impl Display) {
        self.conditions.push((name.into(), value.to_string()));
    }

    /// An expression that records must match: `rank > 3 && author.name = 'Ann'`.
    pub fn filter(self, expression: impl Into<String>) -> Self {
        Self { filter: said(expression), ..self }
    }

    /// Text that one of the searchable fields must contain.
    pub fn search(self, text: impl Into<String>) -> Self {
        Self { search: said(text), ..self }
    }

    /// The order: fields separated by commas, each with a leading `-` for descending order.
    pub fn sort(self, order: impl Into<String>) -> Self {
        Self { sort: said(order), ..self }
    }

    /// The most records of the page.
    pub fn limit(self, limit: u32) -> Self {
        Self { limit: Some(at_least_one(limit)), ..self }
    }

    /// The page by its number, counted from 1.
    pub fn page(self, page: u32) -> Self {
        Self { page: Some(at_least_one(page)), ..self }
    }

    /// How the records on all pages are counted. Default: exactly.
    pub fn count(self, count: Count) -> Self {
        Self { count: Some(count), ..self }
    }

    /// The page that follows a cursor; an empty one is before the first record. Cursors go with their sort.
    pub fn after(self, cursor: impl Into<String>) -> Self {
        Self { cursor: Some(cursor.into()), is_backward: None, ..self }
    }

    /// The page that precedes a cursor; an empty one is behind the last record.
    pub fn before(self, cursor: impl Into<String>) -> Self {
        Self { cursor: Some(cursor.into()), is_backward: Some(Ok(true)), ..self }
    }

    /// Limits how many records are read. A page by cursor that ends at the limit has
    /// [`List::searched`](crate::operations::List::searched) and a cursor to continue. If more records would have to be
    /// sorted, or counted for a page by number or in groups, the list fails with
    /// [`Error::Query`](crate::operations::Error::Query). Lists under conditions over relations have no such limit. It is
    /// not part of query strings. Without it a search is limited only by its time.
    pub fn looking_at(self, most: u32) -> Self {
        Self { looks_at: Some(most.max(1)), ..self }
    }

    /// Shows these fields of each record and no others.
    pub fn fields(self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { view: self.view.fields(names), ..self }
    }

    /// Includes the records that these relations name.
    pub fn include(self, relations: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { view: self.view.include(relations), ..self }
    }

    /// Adds the entity tag to each record.
    pub fn with_tags(self) -> Self {
        Self { view: self.view.with_tags(), ..self }
    }

    /// Also lists records in the trash, for callers who may restore them.
    pub fn with_trash(self) -> Self {
        Self { trash: Some(Ok(Trash::With)), ..self }
    }

    /// Lists only records in the trash.
    pub fn only_trash(self) -> Self {
        Self { trash: Some(Ok(Trash::Only)), ..self }
    }

    /// Counts records by the values of these fields, instead of listing them.
    pub fn group_by(mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.groups_mut().by = joined(fields);
        self
    }

    /// The sums of fields in each group.
    pub fn sum(mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.groups_mut().sum = joined(fields);
        self
    }

    /// The least values of fields in each group.
    pub fn min(mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.groups_mut().min = joined(fields);
        self
    }

    /// The greatest values of fields in each group.
    pub fn max(mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.groups_mut().max = joined(fields);
        self
    }

    /// The averages of fields in each group.
    pub fn avg(mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.groups_mut().avg = joined(fields);
        self
    }

    /// The numbers of different values of fields in each group.
    pub fn count_distinct(mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.groups_mut().count_distinct = joined(fields);
        self
    }

    /// Whether groups of records are requested instead of records.
    pub fn is_grouped(&self) -> bool {
        self.groups.is_some()
    }

    /// Whether an empty parameter with this name is ignored, in addition to those of a [`RecordQuery`].
    fn may_be_empty(name: &str) -> bool {
        matches!(name, "filter" | "sort" | "q" | "group" | "sum" | "min" | "max" | "avg" | "count_distinct")
    }

    fn groups_mut(&mut self) -> &mut Groups {
        self.groups.get_or_insert_default()
    }

    /// Sets one parameter. Each known parameter has a bit in `given`, which is set once it occurred.
    fn parameter<V: Into<String> + AsRef<str>>(&mut self, name: &str, value: V, given: &mut Seen) {
        let text = value.as_ref();
        let is_new = match name {
            "page" => given.first(0, || self.page = Some(number(text))),
            "limit" => given.first(1, || self.limit = Some(number(text))),
            "direction" => {
                given.first(2, || self.is_backward = Some(word(text, &[("forward", false), ("backward", true)])))
            }
            "trashed" => {
                given.first(3, || self.trash = Some(word(text, &[("with", Trash::With), ("only", Trash::Only)])))
            }
            "cursor" => given.first(4, || self.cursor = Some(value.into())),
            "sort" => given.first(5, || self.sort = said(value)),
            "q" => given.first(6, || self.search = said(value)),
            "filter" => given.first(7, || self.filter = said(value)),
            "group" => given.first(8, || self.grouped(value, |groups| &mut groups.by)),
            "sum" => given.first(9, || self.grouped(value, |groups| &mut groups.sum)),
            "min" => given.first(10, || self.grouped(value, |groups| &mut groups.min)),
            "max" => given.first(11, || self.grouped(value, |groups| &mut groups.max)),
            "avg" => given.first(12, || self.grouped(value, |groups| &mut groups.avg)),
            "count_distinct" => given.first(16, || self.grouped(value, |groups| &mut groups.count_distinct)),
            _ if RecordQuery::knows(name) => self.view.parameter(name, value, given),
            _ => {
                self.conditions.push((name.to_owned(), value.into()));
                true
            }
        };
        if !is_new {
            self.view.repeat(name);
        }
    }

    fn grouped(&mut self, names: impl Into<String>, place: impl Fn(&mut Groups) -> &mut Option<String>) {
        if let Some(names) = said(names) {
            *place(self.groups_mut()) = Some(names);
        }
    }

    /// The first name that was given twice.
    pub(crate) fn repeated(&self) -> Option<&str> {
        let mut seen = HashSet::new();
        let repeated = self.conditions.iter().find(|(name, _)| !seen.insert(name.as_str()));
        self.view.repeated.as_deref().or(repeated.map(|(name, _)| name.as_str()))
    }
}

impl RecordQuery {
    /// The whole record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a query string, such as `fields=id,title&include=author`.
    pub fn parse(query: &str) -> Self {
        form_urlencoded::parse(query.as_bytes()).collect()
    }

    /// Shows these fields and no others.
    pub fn fields(self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { fields: joined(names), ..self }
    }

    /// Includes the records that these relations name.
    pub fn include(self, relations: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { include: joined(relations), ..self }
    }

    /// Puts the entity tag into the record.
    pub fn with_tags(self) -> Self {
        Self { tags: Some(Ok(true)), ..self }
    }

    fn knows(name: &str) -> bool {
        matches!(name, "fields" | "include" | "etag")
    }

    /// Takes one parameter; `false` if it was there before.
    fn parameter<V: Into<String> + AsRef<str>>(&mut self, name: &str, value: V, given: &mut Seen) -> bool {
        match name {
            "fields" => given.first(13, || self.fields = said(value)),
            "include" => given.first(14, || self.include = said(value)),
            _ => given.first(15, || self.tags = Some(word(value.as_ref(), &[("true", true), ("false", false)]))),
        }
    }

    fn repeat(&mut self, name: &str) {
        self.repeated.get_or_insert_with(|| name.to_owned());
    }
}

/// The known parameters that were read, a bit for each.
#[derive(Default)]
struct Seen(u32);

impl Seen {
    /// Runs `take` the first time; `false` afterwards.
    fn first(&mut self, bit: u32, take: impl FnOnce()) -> bool {
        let is_first = self.0 & (1 << bit) == 0;
        self.0 |= 1 << bit;
        if is_first {
            take();
        }
        is_first
    }
}

impl<N: AsRef<str>, V: Into<String> + AsRef<str>> FromIterator<(N, V)> for ListQuery {
    /// Reads parameters as a query string has them, decoded.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(parameters: I) -> Self {
        let (mut query, mut given) = (Self::default(), Seen::default());
        for (name, value) in parameters {
            query.parameter(name.as_ref(), value, &mut given);
        }
        query
    }
}

impl<N: AsRef<str>, V: Into<String> + AsRef<str>> FromIterator<(N, V)> for RecordQuery {
    /// Reads parameters as a query string has them, decoded.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(parameters: I) -> Self {
        let (mut query, mut given, mut others) = (Self::default(), Seen::default(), HashSet::new());
        for (name, value) in parameters {
            let name = name.as_ref();
            let is_new = if Self::knows(name) {
                query.parameter(name, value, &mut given)
            } else {
                // A form for lists that is sent to a record asks for nothing either.
                if !(value.as_ref().is_empty() && ListQuery::may_be_empty(name)) {
                    query.unknown.get_or_insert_with(|| name.to_owned());
                }
                others.insert(name.to_owned())
            };
            if !is_new {
                query.repeat(name);
            }
        }
        query
    }
}

/// An empty text asks for nothing, as the empty box of an HTML form does.
fn said(text: impl Into<String>) -> Option<String> {
    Some(text.into()).filter(|text| !text.is_empty())
}

fn joined(names: impl IntoIterator<Item = impl AsRef<str>>) -> Option<String> {
    let mut text = String::new();
    for name in names {
        let comma = if text.is_empty() { "" } else { "," };
        let _infallible = write!(text, "{comma}{}", name.as_ref());
    }
    said(text)
}

fn at_least_one(number: u32) -> Given<u32> {
    if number > 0 { Ok(number) } else { Err(Unreadable { is_empty: false }) }
}

/// A whole number from 1.
fn number(text: &str) -> Given<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // Digits that exceed every number type count as a large number.
    let number = if digits { text.parse().unwrap_or(u64::MAX) } else { 0 };
    match u32::try_from(number.min(u64::from(u32::MAX))) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Unreadable { is_empty: text.is_empty() }),
    }
}

fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Given<T> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or(Unreadable { is_empty: text.is_empty() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_a_query_string_build_the_same_query() {
        let built = ListQuery::new()
            .condition("status", "open")
            .condition("rank_gte", 3)
            .filter("a = 1")
            .search("x y")
            .sort("-rank,title")
            .limit(7)
            .page(2)
            .fields(["id", "title"])
            .include(["author"])
            .with_tags()
            .with_trash();
        let read = "status=open&rank_gte=3&filter=a+%3D+1&q=x+y&sort=-rank,title&limit=7&page=2&fields=id,title\
                    &include=author&etag=true&trashed=with";
        assert_eq!(built, ListQuery::parse(read));
        let built = ListQuery::new().group_by(["a", "b"]).sum(["n"]).min(["n"]).max(["n"]).avg(["m"]).only_trash();
        assert_eq!(built, ListQuery::parse("group=a,b&sum=n&min=n&max=n&avg=m&trashed=only"));
        assert_eq!(ListQuery::new().before("x"), ListQuery::parse("cursor=x&direction=backward"));
        assert_eq!(ListQuery::new().after(""), ListQuery::parse("cursor="));
        let one = RecordQuery::new().fields(["id"]).include(["a", "b"]).with_tags();
        assert_eq!(one, RecordQuery::parse("fields=id&include=a,b&etag=true"));
    }

    #[test]
    fn an_empty_parameter_is_ignored_where_a_form_would_send_it() {
        let empty = "filter=&sort=&fields=&include=&q=&group=&sum=&min=&max=&avg=";
        assert_eq!(ListQuery::parse(empty), ListQuery::new());
        assert_eq!(RecordQuery::parse(empty), RecordQuery::new());
        assert_ne!(RecordQuery::parse("limit="), RecordQuery::new());
        for refused in ["page=", "limit=", "direction=", "trashed=", "etag=", "cursor="] {
            assert_ne!(ListQuery::parse(refused), ListQuery::new(), "{refused}");
        }
    }

    #[test]
    fn duplicate_parameters_are_detected_from_every_source() {
        for (query, name) in [
            ("limit=1&limit=1", Some("limit")),
            ("filter=&filter=a", Some("filter")),
            ("etag=true&etag=true", Some("etag")),
            ("status=a&status=b", Some("status")),
            ("status=a&status_ne=b", None),
        ] {
            assert_eq!(ListQuery::parse(query).repeated(), name, "{query}");
        }
        let mut narrowed = ListQuery::parse("status=draft");
        narrowed.narrow("status", "published");
        assert_eq!(narrowed.repeated(), Some("status"));
        assert_eq!(RecordQuery::parse("x=1&x=2").repeated.as_deref(), Some("x"));
    }

    #[test]
    fn numbers_are_whole_and_from_one() {
        for (text, expected) in [("1", Ok(1)), ("99999999999999999999999", Ok(u32::MAX)), ("007", Ok(7))] {
            assert_eq!(number(text), expected, "{text}");
        }
        for text in ["0", "-1", "1.5", "x", "+1"] {
            assert_eq!(number(text), Err(Unreadable { is_empty: false }), "{text}");
        }
        assert_eq!(ListQuery::new().limit(0), ListQuery::parse("limit=0"));
    }
}
