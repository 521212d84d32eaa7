//! One file: TypeScript to JavaScript, with the places that lines of the result come from.

use std::path::Path;

use oxc_allocator::Allocator;
use oxc_ast::AstKind;
use oxc_codegen::{Codegen, CodegenOptions};
use oxc_diagnostics::{Diagnostics, OxcDiagnostic};
use oxc_parser::Parser;
use oxc_semantic::{Scoping, SemanticBuilder};
use oxc_span::SourceType;
use oxc_transformer::{TransformOptions, Transformer};

/// Something in a file that keeps it from being used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, as a path within the folder.
    pub file: String,
    /// The line, from 1. 0 if the fault is that of the whole file.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

/// A compiled file.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) code: String,
    places: Vec<Place>,
    /// Names that the file uses without declaring them, each with the place of its first use.
    pub(crate) globals: Vec<(String, u32, u32)>,
    /// Names that the file declares, each with its place.
    pub(crate) declared: Vec<(String, u32, u32)>,
}

/// From here on, the result comes from there. Lines and columns from 0, in the order of the result.
#[derive(Debug, Clone, Copy)]
struct Place {
    to: (u32, u32),
    from: (u32, u32),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message),
        }
    }
}

impl Module {
    /// Compiles the file with that path.
    pub(crate) fn compile(file: &str, text: &str) -> Result<Self, Vec<Fault>> {
        let path = Path::new(file);
        let source_type = SourceType::from_path(path).unwrap_or_else(|_| SourceType::mjs()).with_module(true);
        let allocator = Allocator::default();
        let parsed = Parser::new(&allocator, text, source_type).parse();
        if parsed.diagnostics.has_errors() || parsed.panicked {
            return Err(faults(file, text, parsed.diagnostics));
        }
        let mut program = parsed.program;
        let built = SemanticBuilder::new()
            .with_build_nodes(true)
            .with_check_syntax_error(true)
            .with_enum_eval(true)
            .build(&program);
        if built.diagnostics.has_errors() {
            return Err(faults(file, text, built.diagnostics));
        }
        let globals = globals(text, &built.semantic);
        let scoping: Scoping = built.semantic.into_scoping();
        let declared = declared(text, &scoping);
        let options = TransformOptions::default();
        let transformed = Transformer::new(&allocator, path, &options).build_with_scoping(scoping, &mut program);
        if transformed.diagnostics.has_errors() {
            return Err(faults(file, text, transformed.diagnostics));
        }
        let options = CodegenOptions { source_map_path: Some(path.to_owned()), ..CodegenOptions::default() };
        let generated = Codegen::new().with_options(options).with_source_text(text).build(&program);
        let places =
            generated.map.as_ref().map(|map| map.get_tokens().collect::<Vec<_>>()).unwrap_or_default().into_iter();
        let places = places.map(|token| Place {
            to: (token.get_dst_line(), token.get_dst_col()),
            from: (token.get_src_line(), token.get_src_col()),
        });
        let places = places.collect();
        Ok(Self { code: generated.code, places, globals, declared })
    }

    /// The place where the file declares a name. 0 if it does not.
    pub(crate) fn place_of(&self, name: &str) -> (u32, u32) {
        let found = self.declared.iter().find(|(declared, ..)| declared == name);
        found.map_or((0, 0), |(_, line, column)| (*line, *column))
    }

    /// The place in the file that a place in the result comes from, both from 1.
    pub(crate) fn place(&self, line: u32, column: u32) -> (u32, u32) {
        let wanted = (line.saturating_sub(1), column.saturating_sub(1));
        let after = self.places.partition_point(|place| place.to <= wanted);
        let found = after.checked_sub(1).map(|at| self.places[at].from);
        found.map_or((line, column), |(line, column)| (line + 1, column + 1))
    }
}

fn globals(text: &str, semantic: &oxc_semantic::Semantic<'_>) -> Vec<(String, u32, u32)> {
    let scoping = semantic.scoping();
    let mut found = Vec::new();
    for (name, references) in scoping.root_unresolved_references() {
        let uses =
            references.iter().map(|id| (scoping.get_reference(*id), *id)).filter(|(reference, _)| reference.is_value());
        // `typeof name` asks whether it is there.
        let uses = uses.filter(|(reference, _)| !is_asked(semantic, reference.node_id()));
        let first = uses.map(|(reference, _)| semantic.reference_span(reference).start).min();
        if let Some(first) = first {
            let (line, column) = line_and_column(text, first as usize);
            found.push((name.to_string(), line, column));
        }
    }
    found.sort_by_key(|(_, line, column)| (*line, *column));
    found
}

/// What a file declares outside of its functions.
fn declared(text: &str, scoping: &Scoping) -> Vec<(String, u32, u32)> {
    let symbols = scoping.get_bindings(scoping.root_scope_id()).values().copied();
    let place = |symbol| {
        let (line, column) = line_and_column(text, scoping.symbol_span(symbol).start as usize);
        (scoping.symbol_name(symbol).to_owned(), line, column)
    };
    symbols.map(place).collect()
}

fn is_asked(semantic: &oxc_semantic::Semantic<'_>, node: oxc_semantic::NodeId) -> bool {
    let parent = semantic.nodes().parent_node(node).kind();
    matches!(parent, AstKind::UnaryExpression(unary) if unary.operator.is_typeof())
}

fn faults(file: &str, text: &str, diagnostics: Diagnostics) -> Vec<Fault> {
    diagnostics.into_vec().into_iter().map(|diagnostic| fault(file, text, &diagnostic)).collect()
}

fn fault(file: &str, text: &str, diagnostic: &OxcDiagnostic) -> Fault {
    let at = diagnostic.labels.first().map(|label| label.offset() as usize);
    let (line, column) = at.map_or((1, 1), |at| line_and_column(text, at));
    Fault { file: file.to_owned(), line, column, message: diagnostic.message.to_string() }
}

fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset.min(text.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_removed_and_places_are_kept() {
        let text = "interface A { a: number }\n\nenum Color { Red = 1 }\nexport const f = (a: A): number => {\n  return a.a + Color.Red + oops;\n};\n";
        let module = Module::compile("a.ts", text).expect("valid");
        assert!(!module.code.contains("interface"), "{}", module.code);
        assert_eq!(module.globals, [("oops".to_owned(), 5, 28)]);
        let line = module.code.lines().position(|line| line.contains("oops")).expect("the line") + 1;
        let column = module.code.lines().nth(line - 1).and_then(|line| line.find("oops")).expect("the column") + 1;
        let place = module.place(u32::try_from(line).expect("small"), u32::try_from(column).expect("small"));
        assert_eq!(place, (5, 28));
    }

    #[test]
    fn faults_have_a_line_and_a_column() {
        let faults = Module::compile("a.ts", "const a = 1;\nconst b = ;\n").expect_err("invalid");
        assert_eq!((faults[0].file.as_str(), faults[0].line, faults[0].column), ("a.ts", 2, 11), "{faults:?}");
        assert!(Module::compile("a.ts", "let a = 1; let a = 2;").is_err());
    }

    #[test]
    fn a_declared_name_has_a_place() {
        let module = Module::compile("a.ts", "const a = 1;\n  export const fine = 2;\n").expect("valid");
        assert_eq!((module.place_of("fine"), module.place_of("other")), ((2, 16), (0, 0)));
    }

    #[test]
    fn what_is_only_asked_for_is_no_use() {
        let module =
            Module::compile("a.js", "export const a = typeof process === 'undefined' ? 1 : 2;").expect("valid");
        assert_eq!(module.globals, []);
    }
}
