/// What the types forbid: a session made outside the mint, a pending one taken for a full one, a secret shown.
#[test]
fn what_must_not_compile_does_not() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
