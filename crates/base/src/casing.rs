/// How multi-word JSON keys are spelled on the wire. Columns are always `snake_case`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonCase {
    /// `createdAt`
    #[default]
    Camel,
    /// `created_at`
    Snake,
}

impl JsonCase {
    /// Spells a `snake_case` name in this case.
    pub fn spell(self, snake: &str) -> String {
        match self {
            Self::Camel => to_camel(snake),
            Self::Snake => snake.to_owned(),
        }
    }
}

/// `created_at` to `createdAt`. Underscores at either end, and before a digit, are kept, so that
/// [`to_snake`] leads back.
pub fn to_camel(snake: &str) -> String {
    let mut camel = String::with_capacity(snake.len());
    let mut chars = snake.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '_' && !camel.is_empty() && next.is_ascii_lowercase() => {
                camel.push(next.to_ascii_uppercase());
                chars.next();
            }
            _ => camel.push(c),
        }
    }
    camel
}

/// `createdAt` to `created_at`; a name in snake case stays unchanged.
pub fn to_snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_convert_between_both_cases() {
        for (snake, camel) in [
            ("created_at", "createdAt"),
            ("title", "title"),
            ("a_b_c", "aBC"),
            ("line_2", "line_2"),
            ("x_", "x_"),
            ("has_more", "hasMore"),
        ] {
            assert_eq!(to_camel(snake), camel);
            assert_eq!(to_snake(camel), snake);
        }
        assert_eq!(to_snake("created_at"), "created_at");
    }
}
