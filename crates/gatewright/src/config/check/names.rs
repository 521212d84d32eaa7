//! The names of the numbered parts of a setting's path, so that a message names the entity instead of its number.

use gatewright_entities::ProfileField;

use super::{Fault, Faults};
use crate::config::Config;

/// Adds the name of the entity, field, consumer or provider to each fault about one.
pub(super) fn add(config: &Config, faults: &mut Faults) {
    for Fault { key, message, .. } in &mut faults.0 {
        message.push_str(&names_of(config, key));
    }
}

/// The names of the indexed parts of `key`, such as ` (entity "posts", field "title")`. Empty if none of them has a
/// name.
pub(crate) fn names_of(config: &Config, key: &str) -> String {
    let mut names = Vec::new();
    let mut note = |what: &str, name: &str| {
        if !name.is_empty() {
            names.push(format!("{what} {:?}", name.chars().take(64).collect::<String>()));
        }
    };
    let declared = [("entity", &config.entities), ("view", &config.views)];
    let section = declared.into_iter().find_map(|(what, of)| Some((what, of, counted(key, what)?)));
    if let Some((what, of, (index, rest))) = section {
        if let Some(entity) = of.get(index) {
            note(what, entity.name());
            if let Some(field) = counted(rest, ".field").and_then(|(index, _)| entity.field_name(index)) {
                note("field", field);
            }
        }
    } else if let Some((index, _)) = counted(key, "outbox.consumer") {
        note("consumer", config.outbox.consumers.get(index).map_or("", |consumer| &consumer.name));
    } else if let Some((index, _)) = counted(key, "hook") {
        note("entity", config.hooks.get(index).map_or("", |hook| &hook.entity));
    } else if let Some((index, _)) = counted(key, "job") {
        note("job", config.jobs.get(index).map_or("", |job| &job.name));
    } else if let Some((index, _)) = counted(key, "auth.profile.field") {
        note("field", config.auth.profile.get(index).map_or("", ProfileField::name));
    } else if let Some((index, _)) = counted(key, "auth.oauth.oidc") {
        note("provider", config.auth.oauth.oidc.get(index).map_or("", |provider| &provider.name));
    } else if let Some((index, _)) = counted(key, "auth.oauth.oauth2") {
        note("provider", config.auth.oauth.oauth2.get(index).map_or("", |provider| &provider.name));
    }
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

/// The index of a part, and the rest after it: 2 and `.name` for `entity[2].name`.
fn counted<'a>(key: &'a str, step: &str) -> Option<(usize, &'a str)> {
    let (index, rest) = key.strip_prefix(step)?.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use gatewright_entities::{Entity, Field};

    use super::*;

    #[test]
    fn counted_steps_get_their_names() {
        let posts = Entity::new("posts").field(Field::string("title"));
        let config = Config { entities: vec![Entity::new(""), posts], ..Config::default() };
        for (key, names) in [
            ("entity[1].field[0].max", " (entity \"posts\", field \"title\")"),
            ("entity[1].field[0]", " (entity \"posts\", field \"title\")"),
            ("entity[1].name", " (entity \"posts\")"),
            ("entity[1].field[7].max", " (entity \"posts\")"),
            ("entity[0].name", ""),
            ("entity[9].name", ""),
            ("entity", ""),
            ("server.listen", ""),
            ("outbox.consumer[0].event", ""),
        ] {
            assert_eq!(names_of(&config, key), names, "{key}");
        }
    }
}
