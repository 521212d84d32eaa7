//! One text of a catalogue, read once.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::escape::escape;

/// A text with placeholders for values, and the few kinds of markup that translators may move.
///
/// `{name}` is a value, `**words**` are strong, `` `words` `` are code, and `[words]({name})` is a link to a value.
/// Everything except the markup is escaped, including values. A value with characters of a script that is written from right
/// to left is isolated, because it would reorder the words around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(String),
    Strong(Vec<Piece>),
    Code(Vec<Piece>),
    Link { words: Vec<Piece>, target: String },
}

/// The names and values of the placeholders.
pub(super) type Values<'a> = [(&'a str, &'a str)];

impl Message {
    /// Parses a text. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        pieces(text).map(Self)
    }

    /// The names of its placeholders; link targets have an arrow before them. They are the same in two languages.
    pub(super) fn places(&self) -> BTreeSet<String> {
        let mut places = BTreeSet::new();
        collect(&self.0, &mut places);
        places
    }

    /// The text without markup.
    pub(super) fn plain(&self, values: &Values<'_>) -> String {
        let mut text = String::new();
        push_plain(&mut text, &self.0, values);
        text
    }

    /// The text as HTML.
    pub(super) fn markup(&self, values: &Values<'_>) -> String {
        let mut markup = String::new();
        push_markup(&mut markup, &self.0, values);
        markup
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['{', '}', '*', '`', '[']) {
        let (before, from) = rest.split_at(at);
        push_text(&mut pieces, before);
        rest = if let Some(inner) = from.strip_prefix("**") {
            let (words, after) = inner.split_once("**").ok_or("`**` is never closed")?;
            pieces.push(Piece::Strong(self::pieces(words)?));
            after
        } else if let Some(inner) = from.strip_prefix('`') {
            let (words, after) = inner.split_once('`').ok_or("a backtick is never closed")?;
            // Code is written unchanged, except for values.
            pieces.push(Piece::Code(values_alone(words)?));
            after
        } else if let Some(inner) = from.strip_prefix('[') {
            let (words, after) = inner.split_once("](").ok_or("a link is written [words]({name})")?;
            let (target, after) = after.split_once(')').ok_or("a link is written [words]({name})")?;
            let target = target.strip_prefix('{').and_then(|target| target.strip_suffix('}'));
            let target = name(target.ok_or("a link leads to a value: [words]({name})")?)?;
            pieces.push(Piece::Link { words: self::pieces(words)?, target });
            after
        } else if let Some(inner) = from.strip_prefix('{') {
            let (value, after) = inner.split_once('}').ok_or("`{` is never closed")?;
            pieces.push(Piece::Value(name(value)?));
            after
        } else if let Some(after) = from.strip_prefix('*') {
            push_text(&mut pieces, "*");
            after
        } else {
            return Err("`}` without `{`".to_owned());
        };
    }
    push_text(&mut pieces, rest);
    Ok(pieces)
}

fn values_alone(words: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut rest) = (Vec::new(), words);
    while let Some((before, inner)) = rest.split_once('{') {
        let (value, after) = inner.split_once('}').ok_or("`{` is never closed")?;
        push_text(&mut pieces, before);
        pieces.push(Piece::Value(name(value)?));
        rest = after;
    }
    push_text(&mut pieces, rest);
    Ok(pieces)
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Text(before)) => before.push_str(text),
        _ if text.is_empty() => {}
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

fn name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    if is_name { Ok(text.to_owned()) } else { Err(format!("{{{text}}} is not the name of a value")) }
}

fn collect(pieces: &[Piece], places: &mut BTreeSet<String>) {
    for piece in pieces {
        match piece {
            Piece::Text(_) => {}
            Piece::Value(name) => {
                places.insert(name.clone());
            }
            Piece::Strong(words) | Piece::Code(words) => collect(words, places),
            Piece::Link { words, target } => {
                places.insert(format!("-> {target}"));
                collect(words, places);
            }
        }
    }
}

fn value<'v>(values: &Values<'v>, name: &str) -> &'v str {
    values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

/// Whether a text has a character of the blocks that Unicode reserves for scripts from right to left (UAX #9, 3.2), or a
/// control of direction.
fn changes_direction(text: &str) -> bool {
    text.chars().any(|c| {
        matches!(c,
            '\u{590}'..='\u{8ff}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}'
            | '\u{1e800}'..='\u{1efff}')
    })
}

fn push_plain(text: &mut String, pieces: &[Piece], values: &Values<'_>) {
    for piece in pieces {
        match piece {
            Piece::Text(words) => text.push_str(words),
            Piece::Value(name) => match value(values, name) {
                ordinary if !changes_direction(ordinary) => text.push_str(ordinary),
                // First strong isolate, pop directional isolate: the value's direction changes nothing around it.
                isolated => text.extend(["\u{2068}", isolated, "\u{2069}"]),
            },
            Piece::Strong(words) | Piece::Code(words) | Piece::Link { words, .. } => push_plain(text, words, values),
        }
    }
}

fn push_markup(markup: &mut String, pieces: &[Piece], values: &Values<'_>) {
    let within = |markup: &mut String, tag: &str, words: &[Piece]| {
        // Writing to a String cannot fail.
        let _ = write!(markup, "<{tag}>");
        push_markup(markup, words, values);
        let _ = write!(markup, "</{tag}>");
    };
    for piece in pieces {
        match piece {
            Piece::Text(words) => markup.push_str(&escape(words)),
            Piece::Value(name) => match value(values, name) {
                ordinary if !changes_direction(ordinary) => markup.push_str(&escape(ordinary)),
                isolated => markup.extend(["<bdi>", &*escape(isolated), "</bdi>"]),
            },
            Piece::Strong(words) => within(markup, "strong", words),
            Piece::Code(words) => within(markup, "code", words),
            Piece::Link { words, target } => {
                let _ = write!(markup, "<a href=\"{}\">", escape(value(values, target)));
                push_markup(markup, words, values);
                markup.push_str("</a>");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_markup_and_plain_words() {
        for (text, markup, plain) in [
            ("Sign in", "Sign in", "Sign in"),
            ("{email} & you", "a&lt;b&gt; &amp; you", "a<b> & you"),
            ("**{email}** signs in", "<strong>a&lt;b&gt;</strong> signs in", "a<b> signs in"),
            (
                "No account? [Create **one**]({href})",
                "No account? <a href=\"/x?a&amp;&quot;\">Create <strong>one</strong></a>",
                "No account? Create one",
            ),
            (
                "2 * 3, `posts:*` or `{email}`",
                "2 * 3, <code>posts:*</code> or <code>a&lt;b&gt;</code>",
                "2 * 3, posts:* or a<b>",
            ),
            ("<script>", "&lt;script&gt;", "<script>"),
            ("{nothing}", "", ""),
        ] {
            let message = Message::parse(text).unwrap();
            let values = [("email", "a<b>"), ("href", "/x?a&\"")];
            assert_eq!((&*message.markup(&values), &*message.plain(&values)), (markup, plain), "{text}");
        }
    }

    #[test]
    fn a_value_is_never_read_as_markup() {
        let message = Message::parse("Hello {name}").unwrap();
        let values = [("name", "**x** [y]({name}) {name} `z`")];
        assert_eq!(message.markup(&values), "Hello **x** [y]({name}) {name} `z`");
    }

    #[test]
    fn a_value_of_another_direction_is_isolated() {
        let message = Message::parse("Connect **{name}** (`{name}`)?").unwrap();
        let values = [("name", "\u{5d0}<\u{5d1}")];
        let markup =
            "Connect <strong><bdi>\u{5d0}&lt;\u{5d1}</bdi></strong> (<code><bdi>\u{5d0}&lt;\u{5d1}</bdi></code>)?";
        assert_eq!(message.markup(&values), markup);
        let one = "\u{2068}\u{5d0}<\u{5d1}\u{2069}";
        assert_eq!(message.plain(&values), format!("Connect {one} ({one})?"));
        let plain = "Connect Bücher 書店 (Bücher 書店)?";
        assert_eq!(message.plain(&[("name", "Bücher 書店")]), plain);
    }

    #[test]
    fn an_invalid_text_is_refused() {
        for text in ["{a", "a}", "{A}", "{}", "**a", "`a", "[a]", "[a](/x)", "[a]({b)", "{a b}"] {
            assert!(Message::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_places_are_the_names_of_values_and_links() {
        let message = Message::parse("{a} **{b}** [{c}]({d}) `{a}`").unwrap();
        assert_eq!(message.places().into_iter().collect::<Vec<_>>(), ["-> d", "a", "b", "c"]);
    }
}
