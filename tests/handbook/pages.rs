//! The pages of the handbook, and their blocks of code.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A Markdown file.
pub(crate) struct Page {
    /// The path from the root of the repository.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A fenced block of code.
pub(crate) struct Block<'a> {
    /// The page and the line of the fence, in the form that editors open.
    pub(crate) place: String,
    /// The first word of the fence.
    pub(crate) language: &'a str,
    pub(crate) code: String,
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The handbook, the README files and the changelog.
pub(crate) fn pages() -> Vec<Page> {
    let mut files: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)).into();
    for folder in ["docs", "docs/how-to", "examples/tracker", "clients/typescript"] {
        files.extend(markdown(&root().join(folder)));
    }
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        files.extend(markdown(&folder.unwrap().path()));
    }
    let page = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        Page { name, text: fs::read_to_string(&path).unwrap(), path }
    };
    files.into_iter().map(page).collect()
}

/// The pages in `docs`, which are the book.
pub(crate) fn handbook() -> Vec<Page> {
    pages().into_iter().filter(|page| page.name.starts_with("docs/") || page.name == "README.md").collect()
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    files
}

impl Page {
    /// Its lines with their numbers, and whether each is inside a block of code, fences included.
    pub(crate) fn lines(&self) -> Vec<(usize, &str, bool)> {
        let mut inside = false;
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            let fence = line.trim_start().starts_with("```");
            lines.push((number, line, inside || fence));
            inside ^= fence;
        }
        assert!(!inside, "{}: a block of code has no end", self.name);
        lines
    }

    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let (mut open, mut indent) = (false, 0);
        for (number, line, inside) in self.lines() {
            match line.trim_start().strip_prefix("```") {
                Some(word) if inside && !open => {
                    let language = word.split(',').next().unwrap_or_default();
                    blocks.push(Block { place: format!("{}:{number}", self.name), language, code: String::new() });
                    open = true;
                    indent = line.len() - line.trim_start().len();
                }
                Some(_) => open = false,
                None if open => {
                    let block = blocks.last_mut().expect("a block was opened");
                    // A block in a list is indented like the list.
                    block.code += line.get(indent..).unwrap_or_default();
                    block.code.push('\n');
                }
                None => {}
            }
        }
        blocks
    }
}
