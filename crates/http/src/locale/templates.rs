//! The texts in templates: `{{ t("sign_in.title") }}` and, within attributes, `{{ plain("sign_in.button") }}`.

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error};

use super::Locale;
use crate::html;

/// Adds `t`, which writes a text as HTML, `plain`, which writes it escaped without markup, and `words`, which writes it
/// without markup and not escaped, for parts that are not HTML. The values of a text are named: `t("x.y", email=email)`.
pub fn add_texts(environment: &mut Environment<'_>) {
    environment.add_function("t", |key: &str, values: Kwargs| {
        with_values(&values, |values| Value::from_safe_string(Locale::current().markup(key, values)))
    });
    environment.add_function("plain", |key: &str, values: Kwargs| {
        let plain = |values: &[(&str, &str)]| {
            Value::from_safe_string(html::escape(&Locale::current().text(key, values)).into_owned())
        };
        with_values(&values, plain)
    });
    environment.add_function("words", |key: &str, values: Kwargs| {
        with_values(&values, |values| Value::from_safe_string(Locale::current().text(key, values)))
    });
}

fn with_values(values: &Kwargs, write: impl FnOnce(&[(&str, &str)]) -> Value) -> Result<Value, Error> {
    let mut texts = Vec::new();
    for name in values.args() {
        let value: Value = values.get(name)?;
        texts.push((name, value.to_string()));
    }
    values.assert_all_used()?;
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Ok(write(&texts))
}
