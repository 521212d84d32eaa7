use std::ffi::OsString;

use super::node::{Node, Table, Value};
use super::parse::parse_value;
use crate::config::{Place, Problem};

const PREFIX: &str = "GATEWRIGHT__";

/// Lays the environment over the file: `GATEWRIGHT__AUTH__JWT_SECRET` is `auth.jwt_secret`. A text that reads as a TOML
/// value is that value, any other is text.
pub(crate) fn overlay(table: &mut Table, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<Problem> {
    let mut ours: Vec<(String, OsString)> = variables
        .into_iter()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    ours.sort();
    ours.into_iter().filter_map(|(name, text)| put(table, name, text).err()).collect()
}

/// The variable that sets `path`.
pub(crate) fn name_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").to_ascii_uppercase())
}

fn put(table: &mut Table, name: String, text: OsString) -> Result<(), Problem> {
    let key = name[PREFIX.len()..].to_ascii_lowercase();
    let place = Place::Environment(name);
    let problem = |message: String| Problem { place: place.clone(), message };
    let text = text.into_string().map_err(|_| problem("its value is not UTF-8 text".to_owned()))?;
    let path: Vec<&str> = key.split("__").collect();
    if path.iter().any(|step| step.is_empty()) {
        return Err(problem(format!("expected a name such as {}", name_of("auth.jwt_secret"))));
    }
    let node = Node {
        value: parse_value(&text, &place).unwrap_or_else(|| Value::Text(text.clone())),
        place: place.clone(),
        raw: Some(text),
    };
    table
        .put(&path, node)
        .map_err(|in_the_way| problem(format!("`{in_the_way}` is not a section, so nothing can be set inside it")))
}
