//! The marks of providers, for their buttons. `marks/LICENSE` names their source.

/// The mark of a provider, by its name in the configuration: an SVG. `None` for providers that have no preset.
pub(crate) fn mark(provider: &str) -> Option<&'static str> {
    MARKS.iter().find(|(name, _)| *name == provider).map(|(_, mark)| *mark)
}

const MARKS: &[(&str, &str)] = &[
    ("apple", include_str!("marks/apple.svg")),
    ("discord", include_str!("marks/discord.svg")),
    ("facebook", include_str!("marks/facebook.svg")),
    ("github", include_str!("marks/github.svg")),
    ("gitlab", include_str!("marks/gitlab.svg")),
    ("google", include_str!("marks/google.svg")),
    ("linkedin", include_str!("marks/linkedin.svg")),
    ("microsoft", include_str!("marks/microsoft.svg")),
    ("slack", include_str!("marks/slack.svg")),
    ("spotify", include_str!("marks/spotify.svg")),
    ("twitch", include_str!("marks/twitch.svg")),
    ("x", include_str!("marks/x.svg")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_a_mark_that_contains_only_a_picture() {
        for preset in crate::presets::ALL {
            assert!(mark(preset.name).is_some(), "{}", preset.name);
        }
        for (name, mark) in MARKS {
            assert!(mark.starts_with("<svg class=\"mark\" ") && mark.matches('<').count() == 3, "{name}");
        }
        assert!(mark("mine").is_none());
    }
}
