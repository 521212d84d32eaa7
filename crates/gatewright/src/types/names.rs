use std::collections::HashSet;

/// The names of the types of one module, each given once.
#[derive(Debug)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// With names that are taken already.
    pub(super) fn new<const N: usize>(taken: [&str; N]) -> Self {
        Self(taken.map(str::to_owned).into())
    }

    /// A name for the entity called `entity`, under which it can also have types that end in `suffixes`.
    pub(super) fn of<const N: usize>(&mut self, entity: &str, suffixes: [&str; N]) -> String {
        let mut name = spelled(entity);
        let all = |name: &str| suffixes.map(|suffix| format!("{name}{suffix}"));
        while self.0.contains(&name) || all(&name).iter().any(|name| self.0.contains(name)) {
            name.push('_');
        }
        self.0.extend(all(&name));
        self.0.insert(name.clone());
        name
    }

    /// A name for one more type.
    pub(super) fn one(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.0.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}

/// `blog_posts` as `BlogPosts`.
pub(super) fn spelled(name: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect::<String>()
    };
    name.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_collide_become_different() {
        let mut names = Names::new(["Schema"]);
        let suffixes = ["Create", "Update"];
        let given =
            ["a_b", "a__b", "schema", "posts", "posts_create", "x_update", "x"].map(|name| names.of(name, suffixes));
        assert_eq!(given, ["AB", "AB_", "Schema_", "Posts", "PostsCreate_", "XUpdate", "X_"]);
        assert_eq!([names.one("X"), names.one("X"), names.one("XCreate")], ["X", "X__", "XCreate"]);
    }
}
