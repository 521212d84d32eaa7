//! One file of functions, evaluated, in an engine of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gatewright_base::Ambient;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::{Declared, Module as JsModule};
use rquickjs::{
    Array, CatchResultExt, CaughtError, Context, Ctx, Error, Function, Object, Persistent, Promise, Runtime, Value,
};

use crate::arena::{Arena, ArenaAllocator, Image};
use crate::data::Data;
use crate::folder::{self, Modules};
use crate::native;
use crate::source::Fault;

/// The name of the module that functions import.
const OWN: &str = "gatewright";
const PRELUDE: &str = include_str!("prelude.js");
/// The stack of JavaScript in bytes. Threads of the server have two megabytes.
const STACK: usize = 256 * 1024;
/// How much may be allocated between two collections of circles.
const COLLECTED: usize = 4 << 20;
/// How long the modules of a file may take to be evaluated.
const EVALUATION: Duration = Duration::from_secs(2);
/// Realms that grew by more than this are not used again, so that their pages return to the system.
const GROWTH: usize = 4 << 20;
/// The most bytes of the declarations of a file.
const DECLARATIONS: usize = 1 << 20;

/// An engine with the modules of one file. Calls run in it one after the other.
pub(crate) struct Realm {
    // In the order in which they are dropped.
    handles: Handles,
    context: Context,
    pub(crate) runtime: Runtime,
    image: Image,
    arena: Arc<Arena>,
    pub(crate) watch: Arc<Watch>,
}

/// Functions of the prelude. They are held until the end, so that no call can free what the image contains.
struct Handles {
    start: Persistent<Function<'static>>,
    settle: Persistent<Function<'static>>,
    take: Persistent<Function<'static>>,
    _native: Persistent<Function<'static>>,
}

#[expect(unsafe_code, reason = "handles point into the realm's own engine")]
// SAFETY: a realm is used by one thread at a time, through `&mut`. Its handles belong to its own engine, which may move between
// threads.
unsafe impl Send for Realm {}

/// What a file declares.
pub(crate) struct Evaluated {
    /// Every declaration, in order.
    pub(crate) declared: Vec<Data>,
    /// The names of those that the file exports, with their positions.
    pub(crate) exported: Vec<(String, usize)>,
    /// The global names.
    pub(crate) globals: Vec<String>,
}

/// When the code that runs must end.
pub(crate) struct Watch {
    base: Instant,
    /// In nanoseconds since `base`; 0 while nothing runs.
    until: AtomicU64,
}

impl Watch {
    /// Begins to count.
    pub(crate) fn begin(&self, left: Duration) {
        self.until.store(self.now().saturating_add(nanos(left)).max(1), Ordering::Relaxed);
    }

    /// What is left.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_nanos(self.until.load(Ordering::Relaxed).saturating_sub(self.now()))
    }

    pub(crate) fn is_over(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until != 0 && self.now() >= until
    }

    fn now(&self) -> u64 {
        nanos(self.base.elapsed())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Realm {
    /// Evaluates the file in `memory` bytes.
    pub(crate) fn new(
        modules: &Arc<Modules>,
        file: &str,
        memory: usize,
        ambient: Ambient,
    ) -> Result<(Self, Evaluated), Fault> {
        let failed = |message: &str| Fault { file: file.to_owned(), line: 0, column: 0, message: message.to_owned() };
        let arena = Arc::new(Arena::new(memory).ok_or_else(|| failed("there is no memory for it"))?);
        let runtime = Runtime::new_with_alloc(ArenaAllocator(arena.clone()));
        let runtime = runtime.map_err(|_| failed("functions.memory_bytes is too small for the engine"))?;
        runtime.set_max_stack_size(STACK);
        runtime.set_gc_threshold(COLLECTED);
        runtime.set_loader(Files(modules.clone()), Files(modules.clone()));
        let watch = Arc::new(Watch { base: Instant::now(), until: AtomicU64::new(0) });
        let watched = watch.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || watched.is_over())));
        let context =
            Context::full(&runtime).map_err(|_| failed("functions.memory_bytes is too small for the engine"))?;
        watch.begin(EVALUATION);
        let evaluated = context.with(|ctx| evaluate(&ctx, modules, file, &watch, ambient));
        watch.until.store(0, Ordering::Relaxed);
        let (handles, evaluated) = evaluated?;
        let image = arena.image();
        Ok((Self { handles, context, runtime, image, arena, watch }, evaluated))
    }

    /// Begins to run the declaration at that position.
    pub(crate) fn start(&mut self, index: usize, data: &Data) -> Result<(), Thrown> {
        let start = self.handles.start.clone();
        self.with(|ctx| start.restore(ctx)?.call((index, data.to_js(ctx)?)))
    }

    /// Gives the answer to a request.
    pub(crate) fn settle(&mut self, id: u32, is_done: bool, data: &Data) -> Result<(), Thrown> {
        let settle = self.handles.settle.clone();
        self.with(|ctx| settle.restore(ctx)?.call((id, is_done, data.to_js(ctx)?)))
    }

    /// What the call wants, says and results in by now. `room` is the number of bytes that it may still give.
    pub(crate) fn take(&mut self, room: &mut usize) -> Result<Data, Thrown> {
        let take = self.handles.take.clone();
        self.with(|ctx| {
            let taken: Value<'_> = take.restore(ctx)?.call(())?;
            Data::from_js(ctx, &taken, room)
        })
    }

    /// Forgets the call. `None` if the realm should not be used again.
    pub(crate) fn reset(self) -> Option<Self> {
        if self.arena.used() > self.image.len() + GROWTH {
            return None;
        }
        self.watch.until.store(0, Ordering::Relaxed);
        self.arena.restore(&self.image);
        Some(self)
    }

    fn with<T>(&self, run: impl for<'js> FnOnce(&Ctx<'js>) -> rquickjs::Result<T>) -> Result<T, Thrown> {
        self.context.with(|ctx| run(&ctx).catch(&ctx).map_err(Thrown::from))
    }
}

/// An exception that left the code.
#[derive(Debug)]
pub(crate) struct Thrown {
    pub(crate) message: String,
    pub(crate) stack: String,
}

impl From<CaughtError<'_>> for Thrown {
    fn from(caught: CaughtError<'_>) -> Self {
        match caught {
            CaughtError::Exception(exception) => {
                Self { message: exception.message().unwrap_or_default(), stack: exception.stack().unwrap_or_default() }
            }
            CaughtError::Value(value) => {
                Self { message: format!("thrown: {}", value.type_name()), stack: String::new() }
            }
            CaughtError::Error(error) => Self { message: error.to_string(), stack: String::new() },
        }
    }
}

fn evaluate(
    ctx: &Ctx<'_>,
    modules: &Modules,
    file: &str,
    watch: &Watch,
    ambient: Ambient,
) -> Result<(Handles, Evaluated), Fault> {
    let broken = |error: CaughtError<'_>| fault(modules, file, watch, &Thrown::from(error));
    let native = native::install(ctx, ambient).catch(ctx).map_err(broken)?;
    let native = Persistent::save(ctx, native);
    JsModule::evaluate(ctx.clone(), OWN, PRELUDE).and_then(|done| done.finish::<()>()).catch(ctx).map_err(broken)?;
    let bridge =
        |name: &str| -> rquickjs::Result<Function<'_>> { ctx.globals().get::<_, Object<'_>>("bridge")?.get(name) };
    let [start, settle, take, listed, exported] =
        ["start", "settle", "take", "listed", "exported"].map(|name| bridge(name).catch(ctx).map_err(broken));
    let (start, settle, take, listed, exported) = (start?, settle?, take?, listed?, exported?);
    let forget = bridge("forget").catch(ctx).map_err(broken)?;
    ctx.globals().remove("bridge").catch(ctx).map_err(broken)?;
    let code = modules.get(file).map(|module| module.code.as_str()).unwrap_or_default();
    let run = || -> rquickjs::Result<Evaluated> {
        let (module, done) = JsModule::declare(ctx.clone(), file, code)?.eval()?;
        finish(&done)?;
        let names: Vec<Array<'_>> = exported.call((module.namespace()?,))?;
        let exported = names.iter().map(|pair| Ok((pair.get(0)?, pair.get(1)?)));
        let exported = exported.collect::<rquickjs::Result<_>>()?;
        let listed: Value<'_> = listed.call(())?;
        let declared = match Data::from_js(ctx, &listed, &mut DECLARATIONS.clone())? {
            Data::List(declared) => declared,
            _ => Vec::new(),
        };
        forget.call::<_, ()>(())?;
        let names = ctx.globals().own_keys::<String>(rquickjs::object::Filter::new().string());
        Ok(Evaluated { declared, exported, globals: names.collect::<Result<_, _>>()? })
    };
    let evaluated = run().catch(ctx).map_err(broken)?;
    let [start, settle, take] = [start, settle, take].map(|function| Persistent::save(ctx, function));
    Ok((Handles { start, settle, take, _native: native }, evaluated))
}

/// A module that waits for something waits for ever.
fn finish(done: &Promise<'_>) -> rquickjs::Result<()> {
    done.finish::<()>()
}

/// What went wrong while the file was evaluated, where it did.
fn fault(modules: &Modules, file: &str, watch: &Watch, thrown: &Thrown) -> Fault {
    if watch.is_over() {
        let message = format!("evaluating the file took more than {} seconds", EVALUATION.as_secs());
        return Fault { file: file.to_owned(), line: 0, column: 0, message };
    }
    let (file, line, column) = places(modules, &thrown.stack).next().unwrap_or((file, 0, 0));
    Fault { file: file.to_owned(), line, column, message: thrown.message.clone() }
}

/// The places of the folder's files in a stack, each with the line and column of its source.
pub(crate) fn places<'a>(modules: &'a Modules, stack: &'a str) -> impl Iterator<Item = (&'a str, u32, u32)> {
    stack.lines().filter_map(|line| place(modules, line).map(|(file, line, column, _)| (file, line, column)))
}

/// The stack with places of the source, without the lines of the server's own module.
pub(crate) fn mapped(modules: &Modules, stack: &str) -> String {
    let lines = stack.lines().filter_map(|text| {
        let (file, line, column, rest) = place(modules, text)?;
        let function = rest.trim().strip_prefix("at ").unwrap_or_default().trim();
        Some(if function.is_empty() || function == "<anonymous>" {
            format!("    at {file}:{line}:{column}")
        } else {
            format!("    at {function} ({file}:{line}:{column})")
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line of a stack: `    at name (file.ts:3:7)`, or without a name. The last part is what is before the place.
fn place<'a>(modules: &'a Modules, text: &'a str) -> Option<(&'a str, u32, u32, &'a str)> {
    let text = text.trim_end().trim_end_matches(')');
    let (rest, column) = text.rsplit_once(':')?;
    let (rest, line) = rest.rsplit_once(':')?;
    let at = rest.rfind(['(', ' ']).map_or(0, |at| at + 1);
    let (before, file) = rest.split_at(at);
    let (file, module) = modules.get_key_value(file)?;
    let (line, column) = module.place(line.parse().ok()?, column.parse().ok()?);
    Some((file.as_str(), line, column, before.trim_end_matches('(')))
}

/// The folder's files as modules.
struct Files(Arc<Modules>);

impl Resolver for Files {
    fn resolve<'js>(
        &mut self,
        _: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        if name == OWN {
            return Ok(OWN.to_owned());
        }
        let found = folder::resolve(&self.0, base, name);
        found.map(str::to_owned).ok_or_else(|| {
            let message = if name.starts_with('.') {
                "there is no such file in the folder"
            } else {
                "only \"gatewright\" and files of the folder can be imported; bundle a package into a file of it"
            };
            Error::new_resolving_message(base, name, message)
        })
    }
}

impl Loader for Files {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<JsModule<'js, Declared>> {
        let module = self.0.get(name).ok_or_else(|| Error::new_loading(name))?;
        JsModule::declare(ctx.clone(), name, module.code.as_str())
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        // The engine ends in the state in which its handles are.
        self.arena.restore(&self.image);
    }
}

impl std::fmt::Debug for Realm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Realm").field("memory", &self.arena.used()).finish_non_exhaustive()
    }
}
