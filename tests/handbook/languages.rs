//! Blocks of the other languages: each is parsed by its language's program, or is part of an example that compiles.

use std::{env, fs, path::Path};

use gatewright_servers::Folder;
use serde_json::json;

use super::pages::{Block, Page, handbook, pages, root};
use crate::client::{built, compile, node};
use crate::harness::{gatewright, run};

/// The languages that a block may have. If no test of this folder checks a language, the comment says why.
const LANGUAGES: [&str; 16] = [
    "console", "html", // a form for a reader's own page
    "ini", "js", "json", "mermaid", // a picture that GitHub draws
    "nginx",   // run by the tutorial's test
    "promql", "python", "rust", "sh", "sql", // run against a database in `operations`
    "text", "toml", "ts", "tsx",
];

/// Declarations for the blocks of TypeScript.
const GLOBALS: &str = include_str!("globals.d.ts");

/// The entities of the examples of functions.
const FUNCTIONS: &str = r#"
[[entity]]
name = "agents"
[[entity.field]]
name = "free"
type = "bool"
[[entity]]
name = "tickets"
[[entity.field]]
name = "due_at"
type = "timestamp"
[[entity.field]]
name = "opened_at"
type = "timestamp"
[[entity.field]]
name = "agent"
type = "relation"
to = "agents"
[[entity.field]]
name = "email"
type = "string"
[[entity]]
name = "comments"
[[entity.field]]
name = "text"
type = "text"
[[entity.field]]
name = "ticket"
type = "relation"
to = "tickets"
[[entity]]
name = "orders"
[[entity.field]]
name = "paid"
type = "bool"
"#;

#[test]
fn every_block_has_a_known_language() {
    for page in pages() {
        for block in page.blocks() {
            assert!(LANGUAGES.contains(&block.language), "{}: `{}` is no language", block.place, block.language);
        }
    }
}

#[test]
fn every_block_of_rust_is_part_of_a_program_that_compiles() {
    // The formatter breaks lines in other places than a page.
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let program = dense(&fs::read_to_string(root().join("examples/handbook.rs")).unwrap());
    for page in handbook() {
        for block in page.blocks().into_iter().filter(|block| block.language == "rust") {
            let found = program.contains(&dense(&block.code));
            assert!(found, "{}: examples/handbook.rs does not have these lines:\n{}", block.place, block.code);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_javascript_and_python_is_well_formed() {
    let folder = Folder::create("handbook").unwrap();
    let python = env::var("GATEWRIGHT_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let read = "import ast,sys; [ast.parse(open(name).read(), name) for name in sys.argv[1:]]";
    let mut programs: Vec<String> = vec!["-c".into(), read.into()];
    for page in handbook() {
        for (number, block) in page.blocks().iter().enumerate() {
            let name = folder.path().join(format!("{}-{number}", page.name.replace('/', "-")));
            match block.language {
                "js" => {
                    let name = name.with_extension("mjs");
                    fs::write(&name, &block.code).unwrap();
                    run(node(), &[Path::new("--check"), &name]).await;
                }
                "python" => {
                    fs::write(&name, &block.code).unwrap();
                    programs.push(name.to_str().unwrap().to_owned());
                }
                _ => {}
            }
        }
    }
    run(python, &programs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_typescript_compiles() {
    let Some(client) = built().await else { return };
    let folder = Folder::create("handbook").unwrap();
    let pages = handbook();
    let blocks: Vec<Block<'_>> = pages.iter().flat_map(Page::blocks).filter(|block| block.language == "ts").collect();
    for block in &blocks {
        let name = block.place.replace(['/', ':', '.'], "-");
        // A file of functions, as it is.
        if block.code.contains("from \"gatewright\"") {
            fs::write(folder.path().join(format!("{name}.ts")), &block.code).unwrap();
            continue;
        }
        let (imports, rest): (Vec<&str>, Vec<&str>) = block.code.lines().partition(|line| line.starts_with("import "));
        let text = format!("{}\nexport async function block() {{\n{}\n}}\n", imports.join("\n"), rest.join("\n"));
        fs::write(folder.path().join(format!("{name}.ts")), text).unwrap();
    }
    fs::write(folder.path().join("globals.d.ts"), GLOBALS).unwrap();
    fs::write(folder.path().join("functions.toml"), FUNCTIONS).unwrap();
    let types = gatewright(folder.path(), &["types", "--functions", "--config", "functions.toml"], "");
    assert_eq!(types.status, 0, "{}", types.err);
    fs::write(folder.path().join("gatewright.d.ts"), types.out).unwrap();
    fs::write(folder.path().join("schema.ts"), "export type { Schema } from \"./globals\";\n").unwrap();
    let options = json!({
        "compilerOptions": {
            "target": "ES2022", "module": "ES2022", "moduleResolution": "bundler", "strict": true, "noEmit": true, "types": [],
            "lib": ["ES2022", "DOM", "DOM.Iterable", "DOM.AsyncIterable"],
            "paths": { "@gatewright/client": [client.join("index").to_str().unwrap()] },
        },
        "include": ["*.ts"],
    });
    let project = folder.path().join("tsconfig.json");
    fs::write(&project, options.to_string()).unwrap();
    compile(&["-p", project.to_str().unwrap()]).await;
    assert!(blocks.len() > 5, "only {} blocks of TypeScript", blocks.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_tsx_compiles() {
    let folder = Folder::create("handbook").unwrap();
    let pages = handbook();
    let blocks: Vec<Block<'_>> = pages.iter().flat_map(Page::blocks).filter(|block| block.language == "tsx").collect();
    for (number, block) in blocks.iter().enumerate() {
        fs::write(folder.path().join(format!("block-{number}.tsx")), &block.code).unwrap();
    }
    fs::write(folder.path().join("globals.d.ts"), GLOBALS).unwrap();
    fs::write(folder.path().join("schema.ts"), "export type { Schema } from \"./globals\";\n").unwrap();
    assert!(!blocks.is_empty());
    crate::react::compiles(folder.path()).await;
}
