//! The texts of one language.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::message::Message;

/// The texts of one language: a TOML document of sections, with the language's own name and direction before them.
#[derive(Debug, Clone)]
pub(super) struct Catalogue {
    /// The language's own name.
    pub(super) name: String,
    /// `ltr` or `rtl`.
    pub(super) direction: Direction,
    /// The texts by their key: `sign_in.title`.
    pub(super) messages: BTreeMap<String, Message>,
}

/// In which direction a language is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    #[default]
    Ltr,
    Rtl,
}

/// How a catalogue differs from the English one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// Keys that it lacks.
    pub(super) missing: Vec<String>,
    /// Keys that nothing asks for.
    pub(super) superfluous: Vec<String>,
    /// Keys whose texts have other placeholders.
    pub(super) mismatched: Vec<String>,
}

impl Catalogue {
    /// Parses a document. The error says which key is invalid, and why.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut document: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let name = match document.remove("name") {
            Some(toml::Value::String(name)) if !name.trim().is_empty() => name,
            _ => return Err("`name` must say what the language calls itself".to_owned()),
        };
        let direction = match document.remove("direction") {
            None => Direction::default(),
            Some(value) => value.try_into().map_err(|_| "`direction` must be \"ltr\" or \"rtl\"".to_owned())?,
        };
        let mut messages = BTreeMap::new();
        flatten("", document, &mut messages)?;
        Ok(Self { name, direction, messages })
    }

    /// The differences from `english`.
    pub(super) fn differences(&self, english: &Self) -> Differences {
        let mut differences = Differences::default();
        for (key, message) in &english.messages {
            match self.messages.get(key) {
                None => differences.missing.push(key.clone()),
                Some(own) if own.places() != message.places() => differences.mismatched.push(key.clone()),
                Some(_) => {}
            }
        }
        let superfluous = self.messages.keys().filter(|key| !english.messages.contains_key(*key));
        differences.superfluous = superfluous.cloned().collect();
        differences
    }

    /// Takes the English text for every key that is missing or names other values.
    pub(super) fn complete(&mut self, english: &Self, differences: &Differences) {
        for key in differences.missing.iter().chain(&differences.mismatched) {
            if let Some(message) = english.messages.get(key) {
                self.messages.insert(key.clone(), message.clone());
            }
        }
    }
}

impl Direction {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ltr => "ltr",
            Self::Rtl => "rtl",
        }
    }
}

fn flatten(section: &str, table: toml::Table, messages: &mut BTreeMap<String, Message>) -> Result<(), String> {
    for (name, value) in table {
        let key = if section.is_empty() { name } else { format!("{section}.{name}") };
        match value {
            toml::Value::Table(table) => flatten(&key, table, messages)?,
            toml::Value::String(text) => {
                let message = Message::parse(text.trim()).map_err(|error| format!("`{key}`: {error}"))?;
                messages.insert(key, message);
            }
            _ => return Err(format!("`{key}` must be a text")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_their_keys() {
        let read = |text: &str| Catalogue::parse(&format!("name = \"X\"\n{text}")).unwrap();
        let english = read("[a]\nb = \"{x} and {y}\"\nc = \"words\"\nd = \"[w]({x})\"");
        let mut other = read("[a]\nb = \"{y}\"\nd = \"{x}\"\ne = \"more\"");
        let differences = other.differences(&english);
        assert_eq!(differences.missing, ["a.c"]);
        assert_eq!(differences.mismatched, ["a.b", "a.d"]);
        assert_eq!(differences.superfluous, ["a.e"]);
        other.complete(&english, &differences);
        assert_eq!(other.messages["a.b"], english.messages["a.b"]);
        assert_eq!(other.messages["a.c"], english.messages["a.c"]);
    }

    #[test]
    fn a_document_that_cannot_be_used_is_refused() {
        for (text, word) in [
            ("[a]\nb = \"c\"", "name"),
            ("name = \"\"", "name"),
            ("name = \"X\"\ndirection = \"up\"", "direction"),
            ("name = \"X\"\n[a]\nb = 3", "a.b"),
            ("name = \"X\"\n[a]\nb = \"{\"", "a.b"),
            ("name = ", "TOML"),
        ] {
            let error = Catalogue::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
