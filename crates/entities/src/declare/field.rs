use super::{Kind, Literal, OnDelete};
use crate::files::FileRules;

/// One field of an [`Entity`](super::Entity), as declared: nothing is checked before the entities are built.
///
/// ```
/// use gatewright_entities::Field;
/// let title = Field::string("title").required().min(1).max(200);
/// let state = Field::choice("state", ["draft", "published"]).default("draft");
/// ```
#[expect(clippy::struct_excessive_bools, reason = "one for each attribute that a declaration may set")]
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) unique: bool,
    pub(crate) index: bool,
    pub(crate) hidden: bool,
    pub(crate) read_only: bool,
    pub(crate) default: Option<Literal>,
    pub(crate) min: Option<Literal>,
    pub(crate) max: Option<Literal>,
    pub(crate) pattern: Option<String>,
    pub(crate) values: Option<Vec<String>>,
    pub(crate) to: Option<String>,
    pub(crate) on_delete: Option<OnDelete>,
    pub(crate) renamed_from: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) read: Option<String>,
    pub(crate) write: Option<String>,
    pub(crate) sequence: Option<Vec<String>>,
    pub(crate) of: Option<Kind>,
    pub(crate) max_items: Option<u32>,
    pub(crate) unique_items: bool,
    pub(crate) many: bool,
    pub(crate) files: FileRules,
}

/// A constructor for each kind.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),+ $(,)?) => {
        $($(#[$doc])*
        pub fn $name(name: impl Into<String>) -> Self {
            Self::new(name, Kind::$kind)
        })+
    };
}

impl Field {
    /// A field of the given kind. [`Kind::Enum`] needs [`values`](Self::values), [`Kind::Relation`] needs
    /// [`to`](Self::to), [`Kind::List`] needs [`of`](Self::of).
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            required: false,
            unique: false,
            index: false,
            hidden: false,
            read_only: false,
            default: None,
            min: None,
            max: None,
            pattern: None,
            values: None,
            to: None,
            on_delete: None,
            renamed_from: None,
            description: None,
            read: None,
            write: None,
            sequence: None,
            of: None,
            max_items: None,
            unique_items: false,
            many: false,
            files: FileRules::default(),
        }
    }

    kinds! {
        /// Short text.
        string => String,
        /// Text of any length.
        text => Text,
        /// A 64-bit signed integer.
        int => Int,
        /// A finite double.
        float => Float,
        /// An exact decimal of at most 38 digits.
        decimal => Decimal,
        /// A truth value.
        boolean => Bool,
        /// A calendar day.
        date => Date,
        /// A point in time.
        timestamp => Timestamp,
        /// A UUID.
        uuid => Uuid,
        /// Any JSON value.
        json => Json,
    }

    /// One of `values` (the kind `enum`).
    pub fn choice<V: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self::new(name, Kind::Enum).values(values)
    }

    /// The id of a record of the entity named `to`, or of a user if `to` is `users`.
    pub fn relation(name: impl Into<String>, to: impl Into<String>) -> Self {
        Self::new(name, Kind::Relation).to(to)
    }

    /// A list of values of the kind `of`. A list of [`Kind::Enum`] needs [`values`](Self::values).
    ///
    /// ```
    /// use gatewright_entities::{Field, Kind};
    /// let tags = Field::list("tags", Kind::String).max_items(20).unique_items();
    /// let days = Field::list("days", Kind::Enum).values(["mon", "tue"]);
    /// ```
    pub fn list(name: impl Into<String>, of: Kind) -> Self {
        Self::new(name, Kind::List).of(of)
    }

    /// A file. Its limits are those of [`files`](Self::files).
    ///
    /// ```
    /// use gatewright_entities::{Field, FileRules};
    /// let images = FileRules { accept: vec!["image/*".to_owned()], ..FileRules::default() };
    /// let attachments = Field::file("attachments").many().max_items(10).files(images);
    /// ```
    pub fn file(name: impl Into<String>) -> Self {
        Self::new(name, Kind::File)
    }

    /// What files a `file` takes, and who may download them.
    pub fn files(self, rules: FileRules) -> Self {
        Self { files: rules, ..self }
    }

    /// Every record must have a value.
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// No two records have the same value. Absent values do not count.
    pub fn unique(self) -> Self {
        Self { unique: true, ..self }
    }

    /// The column gets an index.
    pub fn index(self) -> Self {
        Self { index: true, ..self }
    }

    /// Clients never see it: not in responses, sorts, filters, errors or documents.
    pub fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    /// Values that clients send for it are ignored.
    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// The value of a record that was created without one.
    pub fn default(self, value: impl Into<Literal>) -> Self {
        Self { default: Some(value.into()), ..self }
    }

    /// The least value, or the least number of characters of text.
    pub fn min(self, bound: impl Into<Literal>) -> Self {
        Self { min: Some(bound.into()), ..self }
    }

    /// The greatest value, or the greatest number of characters of text.
    pub fn max(self, bound: impl Into<Literal>) -> Self {
        Self { max: Some(bound.into()), ..self }
    }

    /// A regular expression that the text must match somewhere; anchor it with `^` and `$` to match the whole text.
    pub fn pattern(self, pattern: impl Into<String>) -> Self {
        Self { pattern: Some(pattern.into()), ..self }
    }

    /// The allowed values of an `enum`, or of the items of a `list` of them.
    pub fn values<V: Into<String>>(self, values: impl IntoIterator<Item = V>) -> Self {
        Self { values: Some(values.into_iter().map(Into::into).collect()), ..self }
    }

    /// The type of the items of a `list`: string, int, float, decimal, enum, date, timestamp or uuid.
    pub fn of(self, kind: Kind) -> Self {
        Self { of: Some(kind), ..self }
    }

    /// The most items of a `list`: 1 to 10,000. Default: 1,000.
    pub fn max_items(self, most: u32) -> Self {
        Self { max_items: Some(most), ..self }
    }

    /// A `list` has no item twice.
    pub fn unique_items(self) -> Self {
        Self { unique_items: true, ..self }
    }

    /// A `relation` names many records, in an order and each once: a list of ids. A `file` holds many files, in an order.
    /// Their [`max_items`](Self::max_items) is 1 to 1,000. Default: 100.
    pub fn many(self) -> Self {
        Self { many: true, ..self }
    }

    /// The entity that a `relation` names, or `users`.
    pub fn to(self, entity: impl Into<String>) -> Self {
        Self { to: Some(entity.into()), ..self }
    }

    /// What happens when the record that a `relation` names is deleted. Default: [`OnDelete::Restrict`].
    pub fn on_delete(self, rule: OnDelete) -> Self {
        Self { on_delete: Some(rule), ..self }
    }

    /// What it means, for documents, tools and generated types: at most 1,000 characters.
    pub fn description(self, text: impl Into<String>) -> Self {
        Self { description: Some(text.into()), ..self }
    }

    /// The server numbers the records: 1, 2, 3 and so on among those with the same values in `fields`, of a tenant where there are
    /// tenants. Clients cannot set it. The type is `int`.
    pub fn sequence<N: Into<String>>(self, fields: impl IntoIterator<Item = N>) -> Self {
        Self { sequence: Some(fields.into_iter().map(Into::into).collect()), ..self }
    }

    /// Who may set or change it: a rule on the record as it will be stored, with `@old`. Callers for whom it does not hold may
    /// leave the field out or send its present value. `false`: nobody, so that the field keeps its default.
    pub fn write(self, rule: impl Into<String>) -> Self {
        Self { write: Some(rule.into()), ..self }
    }

    /// Who may read it: a rule over the caller alone, with `@me`, `@roles`, `@tenant_roles` and `@tenant`. For other callers the
    /// field does not exist: they can set it only if it has a rule for [writing](Self::write) that holds.
    pub fn read(self, rule: impl Into<String>) -> Self {
        Self { read: Some(rule.into()), ..self }
    }

    /// The former name of the field: the column is renamed if it still has that name. It may stay declared.
    pub fn renamed_from(self, name: impl Into<String>) -> Self {
        Self { renamed_from: Some(name.into()), ..self }
    }
}
