//! A folder of functions, ready to be called.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Ambient;
use parking_lot::Mutex;

use crate::call::Call;
use crate::data::Data;
use crate::folder::{self, Modules};
use crate::realm::Realm;
use crate::source::Fault;

/// What a folder may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The memory of a call in bytes, with that of the engine and of the modules.
    pub memory_bytes: usize,
    /// How many prepared engines are kept for a file that nobody calls at the moment. Each takes some hundred kilobytes.
    pub idle: usize,
}

/// A folder of functions: compiled, evaluated once, and ready to be called from any thread.
#[derive(Debug)]
pub struct Program {
    shared: Arc<Shared>,
    functions: Vec<Arc<Function>>,
}

pub(crate) struct Shared {
    pub(crate) modules: Arc<Modules>,
    ambient: Ambient,
    limits: Limits,
    /// Prepared engines, by files.
    idle: BTreeMap<String, Mutex<Vec<Realm>>>,
}

/// One function of a folder.
#[derive(Debug)]
pub struct Function {
    /// The name of its export. No two functions of a folder have the same.
    pub name: String,
    /// The file, as a path within the folder.
    pub file: String,
    /// The line of its export, from 1. 0 if the file exports it by another name.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// When it runs.
    pub trigger: Trigger,
    pub(crate) index: usize,
}

/// When a function runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// In the transaction of a write, before it.
    Before {
        /// The entity, or `user`.
        entity: String,
        /// `create`, `update`, `delete`; of users `create`, `sign_in`, `token`.
        action: String,
    },
    /// After an event.
    On {
        /// The entity, if it was named.
        entity: Option<String>,
        /// Of an entity, `created`, `updated` or `deleted`; otherwise the type of the event, as `user.created`.
        event: String,
    },
    /// At times.
    Job {
        /// Five fields of cron.
        schedule: String,
        /// The name of a time zone.
        timezone: String,
    },
    /// For a request.
    Route {
        /// In capital letters.
        method: String,
        /// Begins with `/`.
        path: String,
        /// Whether a request with a session cookie needs a CSRF token. Without it, the cookie is not read.
        csrf: bool,
    },
}

impl Program {
    /// Compiles and evaluates every file of the folder.
    ///
    /// Fails with everything that is wrong, by file, line and column.
    pub fn load(folder: &Path, limits: Limits, ambient: Ambient) -> Result<Self, Vec<Fault>> {
        let modules = Arc::new(folder::compile(folder)?);
        let entries: Vec<String> = modules.keys().filter(|file| folder::is_entry(file)).cloned().collect();
        let idle = entries.iter().map(|file| (file.clone(), Mutex::default())).collect();
        let shared = Arc::new(Shared { modules, ambient, limits, idle });
        let (mut functions, mut faults): (Vec<Arc<Function>>, Vec<Fault>) = (Vec::new(), Vec::new());
        let mut globals = None;
        for file in &entries {
            match shared.prepare(file) {
                Ok((realm, found, names)) => {
                    shared.keep(file, realm);
                    globals.get_or_insert(names);
                    match found {
                        Ok(found) => functions.extend(found.into_iter().map(Arc::new)),
                        Err(found) => faults.extend(found),
                    }
                }
                Err(fault) => faults.push(fault),
            }
        }
        faults.extend(unknown(&shared.modules, &globals.unwrap_or_default()));
        faults.extend(repeated(&functions));
        if faults.is_empty() { Ok(Self { shared, functions }) } else { Err(faults) }
    }

    /// Every function, by files and then in the order of their exports.
    pub fn functions(&self) -> &[Arc<Function>] {
        &self.functions
    }

    /// Prepares a call of the function with its argument. The code runs in [`Call::step`], for at most `time` in all.
    ///
    /// Fails if there is no memory for an engine.
    pub fn call(&self, function: &Arc<Function>, argument: Data, time: Duration) -> Result<Call, Fault> {
        let prepared = self.shared.idle.get(&function.file).and_then(|idle| idle.lock().pop());
        let realm = match prepared {
            Some(realm) => realm,
            None => self.shared.prepare(&function.file)?.0,
        };
        Ok(Call::new(self.shared.clone(), realm, function.clone(), argument, time))
    }
}

type Declared = (Realm, Result<Vec<Function>, Vec<Fault>>, Vec<String>);

impl Shared {
    fn prepare(&self, file: &str) -> Result<Declared, Fault> {
        let (realm, evaluated) = Realm::new(&self.modules, file, self.limits.memory_bytes, self.ambient.clone())?;
        let fault = |message: String| Fault { file: file.to_owned(), line: 0, column: 0, message };
        let mut faults = Vec::new();
        let mut functions = Vec::new();
        for (name, index) in evaluated.exported {
            let (line, column) = self.modules.get(file).map_or((0, 0), |module| module.place_of(&name));
            match evaluated.declared.get(index).map(trigger) {
                Some(Ok(trigger)) => {
                    functions.push(Function { name, file: file.to_owned(), line, column, trigger, index });
                }
                Some(Err(message)) => faults.push(Fault { line, column, ..fault(format!("{name}: {message}")) }),
                None => {}
            }
        }
        if functions.len() + faults.len() < evaluated.declared.len() {
            let message = "a function is declared but not exported, or imported from another file of functions";
            faults
                .push(fault(format!("{message}: write `export const name = …`, and put shared code into a subfolder")));
        }
        let found = if faults.is_empty() { Ok(functions) } else { Err(faults) };
        Ok((realm, found, evaluated.globals))
    }

    /// Keeps the engine for the next call, if it is clean and there is room.
    pub(crate) fn keep(&self, file: &str, realm: Realm) {
        let Some(realm) = realm.reset() else { return };
        if let Some(idle) = self.idle.get(file) {
            let mut idle = idle.lock();
            if idle.len() < self.limits.idle {
                idle.push(realm);
            }
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("files", &self.modules.len()).finish_non_exhaustive()
    }
}

/// Names that a file uses and that nothing declares. In plain JavaScript, bundles of packages may mention what they find absent.
fn unknown(modules: &Modules, globals: &[String]) -> Vec<Fault> {
    let typed = modules.iter().filter(|(file, _)| Path::new(file).extension().is_some_and(|end| end == "ts"));
    let used = typed.flat_map(|(file, module)| module.globals.iter().map(move |used| (file, used)));
    let unknown = used.filter(|(_, (name, ..))| !globals.contains(name));
    let faults = unknown.map(|(file, (name, line, column))| Fault {
        file: file.clone(),
        line: *line,
        column: *column,
        message: format!("`{name}` does not exist in functions"),
    });
    faults.collect()
}

fn repeated(functions: &[Arc<Function>]) -> Vec<Fault> {
    let mut seen = BTreeMap::new();
    let again = functions.iter().filter_map(|function| {
        let first = seen.insert(function.name.as_str(), &function.file)?;
        Some(Fault {
            file: function.file.clone(),
            line: 0,
            column: 0,
            message: format!("a function with the name {} is in {first} already", function.name),
        })
    });
    again.collect()
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

fn trigger(declared: &Data) -> Result<Trigger, String> {
    let text = |key: &str| declared.get(key).and_then(Data::as_str).map(str::to_owned);
    let needed = |key: &str| text(key).ok_or_else(|| format!("{key} must be a text"));
    match declared.get("kind").and_then(Data::as_str) {
        Some("before") => {
            let (entity, action) = (needed("entity")?, needed("action")?);
            let actions: &[&str] =
                if entity == "user" { &["create", "sign_in", "token"] } else { &["create", "update", "delete"] };
            if !actions.contains(&action.as_str()) {
                return Err(format!("before(\"{entity}\", …) is for {}, not \"{action}\"", actions.join(", ")));
            }
            Ok(Trigger::Before { entity, action })
        }
        Some("on") => {
            if let Some(event) = text("event") {
                return Ok(Trigger::On { entity: None, event });
            }
            let (entity, action) = (needed("entity")?, needed("action")?);
            if !["created", "updated", "deleted"].contains(&action.as_str()) {
                return Err(format!("on(\"{entity}\", …) is for created, updated, deleted, not \"{action}\""));
            }
            Ok(Trigger::On { entity: Some(entity), event: action })
        }
        Some("job") => {
            let timezone = text("timezone").unwrap_or_else(|| "UTC".to_owned());
            Ok(Trigger::Job { schedule: needed("schedule")?, timezone })
        }
        Some("route") => {
            let (method, path) = (needed("method")?.to_uppercase(), needed("path")?);
            if !METHODS.contains(&method.as_str()) {
                return Err(format!("the method {method} is none of {}", METHODS.join(", ")));
            }
            let is_plain = |unit: char| unit.is_ascii_alphanumeric() || "-_.~/{}:".contains(unit);
            if !path.starts_with('/') || path.len() < 2 || !path.chars().all(is_plain) {
                return Err(format!(
                    "the path \"{path}\" must begin with / and have letters, digits, - _ . ~ and {{names}}"
                ));
            }
            let csrf = !matches!(declared.get("csrf"), Some(Data::Bool(false)));
            Ok(Trigger::Route { method, path, csrf })
        }
        _ => Err("this is no function".to_owned()),
    }
}
