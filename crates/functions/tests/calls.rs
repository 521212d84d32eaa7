//! Functions run as their files say, and nothing of a call is left for the next.

mod folder;

use std::time::{Duration, Instant};

use folder::{Folder, data, program, run, value};
use gatewright_functions::{Data, Ended, Failure, HostError, Step};
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_before_changes_its_values_and_sees_the_old_record() {
    let program = program(
        r#"
        import { before } from "gatewright";
        interface Values { total: number; note?: string }
        export const total = before("orders", "update", async ({ values, old }: { values: Values; old: any }) => {
          values.total = old.total + 1;
          values.note = `${old.name} was here`;
        });
        "#,
    );
    let argument = data(json!({"values": {"total": 0}, "old": {"total": 41, "name": "Ada"}}));
    assert_eq!(value(run(&program, "total", argument)), json!({"values": {"total": 42, "note": "Ada was here"}}));
}

#[test]
fn what_a_function_asks_for_is_answered_in_steps() {
    let program = program(
        r#"
        import { before, refuse } from "gatewright";
        export const assign = before("tickets", "create", async ({ values, db }) => {
          const [agents, desk] = await Promise.all([db.system.list("agents", { limit: 1 }), db.get("desks", values.desk)]);
          values.agent = agents.data[0].id;
          try {
            await db.system.tenant("acme").create("notes", { text: desk.name });
          } catch (error) {
            refuse(409, { note: `${error.status} ${error.code} ${error.errors[0].field}` });
          }
        });
        "#,
    );
    let function = program.functions()[0].clone();
    let mut call = program.call(&function, data(json!({"values": {"desk": "d"}})), SECOND).expect("prepared");
    let Step::Wants(wanted) = call.step() else { panic!("two requests") };
    let asked: Vec<_> = wanted.iter().map(|request| (request.operation.as_str(), request.arguments.len())).collect();
    assert_eq!(asked, [("system", 4), ("db", 5)]);
    call.answer(wanted[1].id, Ok(data(json!({"name": "Support"}))));
    call.answer(wanted[0].id, Ok(data(json!({"data": [{"id": "a"}]}))));
    let Step::Wants(wanted) = call.step() else { panic!("one request") };
    assert_eq!(wanted[0].arguments[0], data(json!("acme")));
    assert_eq!(wanted[0].arguments[3], data(json!({"text": "Support"})));
    let errors = Some(data(json!([{"field": "text"}])));
    call.answer(wanted[0].id, Err(HostError { status: 422, code: "invalid".into(), message: "no".into(), errors }));
    let Step::Ended(Ok(Ended::Refused { status, answer })) = call.step() else { panic!("a refusal") };
    assert_eq!((status, answer), (data(json!(409)), data(json!({"note": "422 invalid text"}))));
}

#[test]
fn a_call_leaves_nothing_behind() {
    let program = program(
        r#"
        import { before } from "gatewright";
        let count = 0;
        const cache = new Map();
        const frozen: { seen?: string } = {};
        export const leak = before("a", "create", async ({ values }) => {
          const seen = [
            count++, cache.size, frozen.seen, (globalThis as any).left, ([] as any).left, ({} as any).left,
            (Math as any).left, (fetch as any).left, typeof (globalThis as any).bridge, typeof (globalThis as any).native,
            Object.prototype.toString.call(null), JSON.stringify({ a: 1 }), Array.isArray([]),
          ];
          cache.set("secret", values.secret);
          frozen.seen = values.secret;
          (globalThis as any).left = values.secret;
          (Array.prototype as any).left = values.secret;
          (Object.prototype as any).left = values.secret;
          (Math as any).left = values.secret;
          (fetch as any).left = values.secret;
          JSON.stringify = () => values.secret;
          Array.isArray = (() => false) as any;
          Object.prototype.toString = () => values.secret;
          Promise.resolve().then(() => { cache.set("later", 1); });
          delete (globalThis as any).URL;
          values.seen = seen.map(String);
        });
        "#,
    );
    let mut first = None;
    for round in 0..50 {
        let argument = data(json!({"values": {"secret": format!("secret {round}")}}));
        let Ended::Value(ended) = run(&program, "leak", argument).expect("ended") else { panic!("no refusal") };
        let seen = ended.get("values").and_then(|values| values.get("seen")).expect("the answer").clone();
        assert_eq!(first.get_or_insert(seen.clone()), &seen, "round {round}");
    }
    assert_eq!(
        first.map(Data::into_json),
        Some(json!([
            "0",
            "0",
            "undefined",
            "undefined",
            "undefined",
            "undefined",
            "undefined",
            "undefined",
            "undefined",
            "undefined",
            "[object Null]",
            "{\"a\":1}",
            "true"
        ]))
    );
}

#[test]
fn each_call_has_its_own_random_numbers() {
    let program = program(
        r#"
        import { before } from "gatewright";
        export const chance = before("a", "create", async ({ values }) => {
          values.all = [Math.random(), Math.random(), crypto.randomUUID(), crypto.getRandomValues(new Uint8Array(8)).join()].map(String);
        });
        "#,
    );
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        let ended = value(run(&program, "chance", data(json!({"values": {}}))));
        for one in ended["values"]["all"].as_array().expect("a list") {
            assert!(seen.insert(one.to_string()), "{one} came twice");
        }
    }
}

#[test]
fn exceptions_have_lines_of_the_source() {
    let folder = Folder::new(&[
        (
            "a.ts",
            "import { before } from \"gatewright\";\nimport { deep } from \"./lib/deep\";\n\ntype X = string;\n\nexport const f = before(\"a\", \"create\", async ({ values }) => {\n  deep(values as X);\n});\n",
        ),
        (
            "lib/deep.ts",
            "export interface Y {\n  a: string;\n}\n\nexport function deep(_: unknown): never {\n  const nothing: any = null;\n  return nothing.field;\n}\n",
        ),
    ]);
    let program = folder.program().expect("valid");
    let Err(Failure::Thrown { message, stack, .. }) = run(&program, "f", data(json!({"values": {}}))) else {
        panic!("an exception")
    };
    assert!(message.starts_with("TypeError: ") && message.contains("null"), "{message}");
    let lines: Vec<&str> = stack.lines().map(str::trim).collect();
    assert!(lines[0].starts_with("at deep (lib/deep.ts:7:"), "{stack}");
    assert!(lines[1].contains("a.ts:7:"), "{stack}");
}

#[test]
fn time_memory_depth_and_output_are_bounded() {
    let program = program(
        r#"
        import { before } from "gatewright";
        const f = (run: (values: any) => unknown) => before("a", "create", async ({ values }) => { await run(values); });
        export const loop = f(() => { for (;;) {} });
        export const promises = f(async () => { for (;;) await null; });
        export const expression = f(() => /^(a+)+$/.test("a".repeat(40) + "b"));
        export const memory = f(() => { const all = []; for (;;) all.push(new Array(10000).fill(1.5)); });
        export const text = f(() => { let text = "x"; for (;;) text += text; });
        export const caught = f(() => { for (;;) { try { const all = []; for (;;) all.push(new Uint8Array(1 << 20)); } catch {} } });
        export const recursion = f(() => { const down = (n: number): number => down(n + 1) + 1; down(0); });
        export const never = f(() => new Promise(() => {}));
        export const output = f((values) => { values.text = "x".repeat(10_000_000); });
        export const circle = f((values) => { values.values = values; });
        export const sorted = f((values) => { values.list = [3, 1, 2].sort(() => { for (;;) {} }); });
        export const lines = f((values) => { for (let i = 0; i < 1_000_000; i++) console.log("line", i); values.done = true; });
        export const fine = f((values) => { values.done = true; });
        "#,
    );
    let begun = Instant::now();
    let failure = |name: &str| run(&program, name, data(json!({"values": {}}))).expect_err(name);
    for name in ["loop", "promises", "expression", "caught", "sorted"] {
        assert_eq!(failure(name), Failure::Timeout, "{name}");
    }
    for name in ["memory", "text"] {
        let failed = failure(name);
        assert!(matches!(failed, Failure::Memory) || format!("{failed}").contains("string"), "{name}: {failed}");
    }
    assert_eq!(failure("never"), Failure::NeverEnds);
    assert!(failure("recursion").to_string().contains("stack"), "{}", failure("recursion"));
    assert!(failure("output").to_string().contains("too large"));
    assert!(failure("circle").to_string().contains("contains itself"));
    assert_eq!(value(run(&program, "fine", data(json!({"values": {}})))), json!({"values": {"done": true}}));
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());

    let function = program.functions().iter().find(|function| function.name == "lines").expect("declared").clone();
    let mut call = program.call(&function, data(json!({"values": {}})), 10 * SECOND).expect("prepared");
    assert!(matches!(call.step(), Step::Ended(Ok(_))));
    let lines = call.take_lines();
    assert!(lines.len() <= 1001, "{}", lines.len());
    assert_eq!(lines.last().map(|line| line.text.as_str()), Some("further lines of this call are left out"));
}

#[test]
fn values_keep_their_types() {
    let program = program(
        r#"
        import { before } from "gatewright";
        export const types = before("a", "create", async ({ values }) => {
          values.kinds = Object.entries(values).map(([key, value]) => `${key} ${typeof value}`);
          values.big += 1n;
          values.date = new Date(0);
          values.nothing = undefined;
          values.bytes = new Uint8Array([1, 2]);
          values.nan = NaN;
          values.float = 2.0;
        });
        "#,
    );
    let values = Data::Object(vec![
        ("big".into(), Data::BigInt(i64::MAX - 1)),
        ("small".into(), Data::from(json!(5))),
        ("far".into(), Data::from(json!(9_007_199_254_740_993_i64))),
        ("decimal".into(), Data::from("1.10")),
    ]);
    let Ended::Value(ended) = run(&program, "types", Data::Object(vec![("values".into(), values)])).expect("ended")
    else {
        panic!("a value")
    };
    let values = ended.get("values").expect("values");
    let kinds = values.get("kinds").expect("kinds").clone().into_json();
    assert_eq!(kinds, json!(["big bigint", "small number", "far bigint", "decimal string"]));
    assert_eq!(values.get("big"), Some(&Data::BigInt(i64::MAX)));
    assert_eq!(values.get("far"), Some(&Data::BigInt(9_007_199_254_740_993)));
    assert_eq!(values.get("date"), Some(&Data::from("1970-01-01T00:00:00.000Z")));
    assert_eq!(values.get("nothing"), None);
    assert_eq!(values.get("bytes"), Some(&Data::Bytes(vec![1, 2])));
    assert_eq!(values.get("nan"), Some(&Data::Null));
    assert_eq!(values.get("float"), Some(&Data::from(json!(2))));
}

#[test]
fn calls_run_on_many_threads_at_once() {
    let program = program(
        r#"
        import { before } from "gatewright";
        let mine = "";
        export const own = before("a", "create", async ({ values, db }) => {
          mine = values.name;
          await db.get("a", "b");
          values.same = mine === values.name;
        });
        "#,
    );
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let program = &program;
            scope.spawn(move || {
                for round in 0..50 {
                    let name = format!("{thread} {round}");
                    let function = program.functions()[0].clone();
                    let argument = data(json!({"values": {"name": name}}));
                    let mut call = program.call(&function, argument, SECOND).expect("prepared");
                    let Step::Wants(wanted) = call.step() else { panic!("a request") };
                    std::thread::yield_now();
                    call.answer(wanted[0].id, Ok(data(json!(null))));
                    let Step::Ended(ended) = call.step() else { panic!("the end") };
                    assert_eq!(value(ended)["values"]["same"], json!(true));
                }
            });
        }
    });
}

#[test]
fn what_a_file_does_while_it_is_evaluated_is_no_part_of_a_call() {
    let program = program(
        r#"
        import { before } from "gatewright";
        const seed = Math.random();
        console.log("evaluated", seed);
        export const chance = before("a", "create", ({ values }) => { values.all = [Math.random(), Math.random()]; });
        "#,
    );
    let mut seen = std::collections::HashSet::new();
    for _ in 0..10 {
        let ended = value(run(&program, "chance", data(json!({"values": {}}))));
        assert!(seen.insert(ended.to_string()), "each call has numbers of its own");
    }
    let mut call =
        program.call(&program.functions()[0].clone(), data(json!({"values": {}})), SECOND).expect("prepared");
    assert!(matches!(call.step(), Step::Ended(Ok(_))));
    assert_eq!(call.take_lines(), [], "and no lines of the evaluation");
    let asking = Folder::new(&[("a.ts", "await fetch(\"http://a.example/\");\nexport {};\n")]);
    let faults = asking.program().expect_err("nothing answers yet");
    assert!(faults[0].message.contains("while a file is evaluated"), "{faults:?}");
}

#[test]
fn texts_and_keys_of_callers_are_data() {
    let program = program(
        r#"
        import { before } from "gatewright";
        export const texts = before("a", "create", ({ values }) => {
          console.log(values.text.slice(0, 2));
          values.half = values.text.slice(0, 2);
          values.isAdmin = String(values.settings.isAdmin);
        });
        export const search = before("a", "create", ({ values }) => { values.found = values.text.includes(values.word); });
        "#,
    );
    let settings = json!({"__proto__": {"isAdmin": true}, "a": 1});
    let argument = data(json!({"values": {"text": "a\u{1F600}b", "settings": settings}}));
    let ended = value(run(&program, "texts", argument));
    assert_eq!(ended["values"]["half"], json!("a\u{FFFD}"), "half of a pair is no text");
    assert_eq!(ended["values"]["isAdmin"], json!("undefined"));
    assert_eq!(ended["values"]["settings"], settings, "the key stays one");
    let (text, word) = ("a".repeat(500_000), format!("{}b", "a".repeat(250_000)));
    let failed = run(&program, "search", data(json!({"values": {"text": text, "word": word}}))).expect_err("too long");
    assert!(failed.to_string().contains("too long"), "{failed}");
}
