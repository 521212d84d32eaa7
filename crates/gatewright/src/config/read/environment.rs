use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::node::{Entry, Node, Table, Value};
use super::parse::parse_value;
use super::secret::FILE;
use crate::config::{Place, Problem};

/// The beginning of every variable.
pub(crate) const PREFIX: &str = "GATEWRIGHT__";

/// The end of a variable that names the file with a secret.
const FILE_SUFFIX: &str = "_FILE";

/// The settings whose values are secrets, such as `auth.jwt_secret`, and whether each is a list.
pub(crate) type SecretPaths = BTreeMap<String, bool>;

/// Overrides the file with the environment: `GATEWRIGHT__AUTH__JWT_SECRET` is `auth.jwt_secret`. A text that parses as
/// a TOML value is that value. Any other is text. `GATEWRIGHT__AUTH__JWT_SECRET_FILE` names a file with the secret.
pub(crate) fn overlay(
    table: &mut Table,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    secrets: &SecretPaths,
) -> Vec<Problem> {
    let mut ours: Vec<(String, OsString)> = variables
        .into_iter()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    ours.sort();
    let names: BTreeSet<String> = ours.iter().map(|(name, _)| name.clone()).collect();
    let put = |(name, text): (String, OsString)| match in_file(&name, secrets) {
        Some((of, _)) if names.contains(of) => {
            let message = format!("{of} is set too: set only one of the two");
            Err(Problem { place: Place::Environment(name), message })
        }
        Some((of, is_list)) => put_file(table, of, is_list, name.clone(), text),
        None => put(table, name, text),
    };
    ours.into_iter().map(put).filter_map(Result::err).collect()
}

/// The variable of the secret whose file `name` names, and whether the secret is a list.
fn in_file<'a>(name: &'a str, secrets: &SecretPaths) -> Option<(&'a str, bool)> {
    let of = name.strip_suffix(FILE_SUFFIX)?;
    let is_list = secrets.get(&of[PREFIX.len().min(of.len())..].to_ascii_lowercase().replace("__", "."))?;
    Some((of, *is_list))
}

/// A warning for each variable whose name has one underscore after the prefix or a section: it is ignored.
pub(crate) fn almost<'a>(names: impl Iterator<Item = &'a str>, sections: &BTreeSet<&str>) -> Vec<String> {
    let mut warnings: Vec<String> = names
        .filter_map(|name| {
            let rest = name.strip_prefix("GATEWRIGHT_").filter(|rest| !rest.starts_with('_'))?.to_ascii_lowercase();
            let section =
                sections.iter().find(|section| rest.strip_prefix(**section).is_some_and(|key| key.starts_with('_')))?;
            let key = rest[section.len()..].trim_start_matches('_');
            Some(format!(
                "environment variable {name} is ignored: two underscores separate the parts of a name, as in {}",
                name_of(&format!("{section}.{key}"))
            ))
        })
        .collect();
    warnings.sort();
    warnings
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

/// Sets the secret of the variable `of` to the content of a file; a list, to those of one file or of a TOML list of files.
fn put_file(table: &mut Table, of: &str, is_list: bool, name: String, text: OsString) -> Result<(), Problem> {
    let place = Place::Environment(name);
    let problem = |message: String| Problem { place: place.clone(), message };
    let text = text.into_string().map_err(|_| problem("its value is not UTF-8 text".to_owned()))?;
    let reference = |path: String| {
        let path = Entry::new(place.clone(), Node::new(Value::Text(path), place.clone()));
        Node::new(Value::Table(Table([(FILE.to_owned(), path)].into())), place.clone())
    };
    let value = if is_list {
        let listed = match parse_value(&text, &place) {
            Some(Value::List(items)) => items.into_iter().map(|item| match item.value {
                Value::Text(path) => Ok(reference(path)),
                _ => Err(problem("expected the path of a file, or a list of paths".to_owned())),
            }),
            _ => return put_at(table, of, Node::new(Value::List(vec![reference(text)]), place.clone()), &problem),
        };
        Node::new(Value::List(listed.collect::<Result<_, _>>()?), place.clone())
    } else {
        reference(text)
    };
    put_at(table, of, value, &problem)
}

fn put_at(table: &mut Table, of: &str, node: Node, problem: &dyn Fn(String) -> Problem) -> Result<(), Problem> {
    let key = of[PREFIX.len()..].to_ascii_lowercase();
    let path: Vec<&str> = key.split("__").collect();
    table.remove_section(&path);
    table
        .put(&path, node)
        .map_err(|in_the_way| problem(format!("`{in_the_way}` is not a section, so nothing can be set inside it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_underscore_where_two_are_meant_is_noticed() {
        let sections = BTreeSet::from(["auth", "rate_limit"]);
        let warned = |name: &str| almost([name].into_iter(), &sections);
        for (name, meant) in [
            ("GATEWRIGHT_AUTH_JWT_SECRET", "GATEWRIGHT__AUTH__JWT_SECRET"),
            ("GATEWRIGHT_AUTH__JWT_SECRET", "GATEWRIGHT__AUTH__JWT_SECRET"),
            ("GATEWRIGHT_RATE_LIMIT_STORE", "GATEWRIGHT__RATE_LIMIT__STORE"),
        ] {
            let warnings = warned(name);
            assert_eq!(warnings.len(), 1, "{name}");
            assert!(warnings[0].contains(name) && warnings[0].ends_with(meant), "{warnings:?}");
        }
        for name in
            ["GATEWRIGHT__AUTH__JWT_SECRET", "GATEWRIGHT_VERSION", "GATEWRIGHT_AUTHOR", "GATEWRIGHT_AUTH", "AUTH_X"]
        {
            assert!(warned(name).is_empty(), "{name}");
        }
    }
}
