//! The files of a folder, read whole before any of them runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::source::{Fault, Module};

/// The most bytes of a folder's files together. Bundles of packages have a few hundred kilobytes.
const BYTES: u64 = 16 << 20;
/// The most files.
const FILES: usize = 1000;
/// How deep folders may be nested.
const DEPTH: usize = 8;

/// Compiled files by their paths within the folder, with `/` between names.
pub(crate) type Modules = BTreeMap<String, Module>;

/// Compiles every file of the folder. `.d.ts` and `.test.ts` files, hidden files and `node_modules` are left out.
pub(crate) fn compile(folder: &Path) -> Result<Modules, Vec<Fault>> {
    let mut paths = Vec::new();
    let whole = |message: String| vec![Fault { file: folder.display().to_string(), line: 0, column: 0, message }];
    walk(folder, DEPTH, &mut paths).map_err(|error| whole(error.to_string()))?;
    if paths.len() > FILES {
        return Err(whole(format!("there are {} files; at most {FILES} are read", paths.len())));
    }
    let (mut modules, mut faults, mut bytes) = (Modules::new(), Vec::new(), 0);
    for path in paths {
        let within = path.strip_prefix(folder).unwrap_or(&path);
        let file = within.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
        let failed = |message: String| Fault { file: file.clone(), line: 0, column: 0, message };
        bytes += fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if bytes > BYTES {
            faults.push(failed(format!("the folder has more than {} MiB", BYTES >> 20)));
            break;
        }
        match fs::read_to_string(&path) {
            Ok(text) => match Module::compile(&file, &text) {
                Ok(module) => {
                    modules.insert(file, module);
                }
                Err(found) => faults.extend(found),
            },
            Err(error) => faults.push(failed(error.to_string())),
        }
    }
    if faults.is_empty() { Ok(modules) } else { Err(faults) }
}

/// Whether functions are declared in the file: those of the folder itself. Files of its subfolders are imported by them.
pub(crate) fn is_entry(file: &str) -> bool {
    !file.contains('/')
}

/// The path of what `name` means in `base`, if it is a file of the folder.
pub(crate) fn resolve<'a>(modules: &'a Modules, base: &str, name: &str) -> Option<&'a str> {
    if !name.starts_with("./") && !name.starts_with("../") {
        return None;
    }
    let mut parts: Vec<&str> = base.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let spellings = ["", ".ts", ".js", ".mjs", "/index.ts", "/index.js"].map(|end| format!("{path}{end}"));
    // TypeScript's own habit: `./a.js` may mean `a.ts`.
    let typed = path.strip_suffix(".js").map(|path| format!("{path}.ts"));
    let found = spellings.into_iter().chain(typed).find_map(|path| modules.get_key_value(&path));
    found.map(|(path, _)| path.as_str())
}

fn walk(folder: &Path, depth: usize, into: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "node_modules" || into.len() > FILES {
            continue;
        }
        let kind = fs::metadata(entry.path())?;
        if kind.is_dir() {
            if depth > 0 {
                walk(&entry.path(), depth - 1, into)?;
            }
        } else if is_source(&name) {
            into.push(entry.path());
        }
    }
    Ok(())
}

fn is_source(name: &str) -> bool {
    let is_kind = [".ts", ".js", ".mjs"].iter().any(|end| name.ends_with(end));
    is_kind && ![".d.ts", ".test.ts", ".test.js"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules() -> Modules {
        let files = ["a.ts", "lib/b.ts", "lib/c.js", "lib/index.ts"];
        files.map(|file| (file.to_owned(), Module::compile(file, "export {};").expect("valid"))).into()
    }

    #[test]
    fn imports_stay_within_the_folder() {
        let modules = modules();
        assert_eq!(resolve(&modules, "a.ts", "./lib/b"), Some("lib/b.ts"));
        assert_eq!(resolve(&modules, "a.ts", "./lib/b.js"), Some("lib/b.ts"));
        assert_eq!(resolve(&modules, "a.ts", "./lib"), Some("lib/index.ts"));
        assert_eq!(resolve(&modules, "lib/b.ts", "../a"), Some("a.ts"));
        assert_eq!(resolve(&modules, "lib/b.ts", "./c"), Some("lib/c.js"));
        for name in ["../../a", "../a/../../a", "/a.ts", "a.ts", "zod", "node:fs", "./lib/nothing"] {
            assert_eq!(resolve(&modules, "lib/b.ts", name), None, "{name}");
        }
    }

    #[test]
    fn a_folder_is_read_without_tests_and_packages() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["a.ts", "b.test.ts", "c.d.ts", ".d.ts", "notes.md"] {
            fs::write(folder.path().join(file), "export {};").expect("written");
        }
        fs::create_dir_all(folder.path().join("node_modules/x")).expect("a folder");
        fs::write(folder.path().join("node_modules/x/index.js"), "syntax error").expect("written");
        let modules = compile(folder.path()).expect("valid");
        assert_eq!(modules.keys().collect::<Vec<_>>(), ["a.ts"]);
    }
}
