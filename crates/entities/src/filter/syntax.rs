//! The grammar: `||` binds weakest, then `&&`, then `!` and parentheses, then comparisons.

pub(crate) use super::ast::{Back, Comparison, Expression, Literal, Operand, Operator, Path, Quantifier, Step, Word};
pub(crate) use super::lexer::SyntaxError;
use super::lexer::{Place, Token, tokens};

/// How deep parentheses and negations may nest.
pub(crate) const MAX_DEPTH: usize = 8;
/// The most comparisons in one expression.
pub(crate) const MAX_TERMS: usize = 64;
/// The most steps of one path, keys of JSON objects included.
const MAX_STEPS: usize = 16;
/// The most values in one `in`.
pub(crate) const MAX_LIST: usize = 1_000;

/// Reads a whole expression.
pub(crate) fn parse(text: &str) -> Result<Expression, SyntaxError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, terms: 0 };
    let expression = parser.any(0)?;
    match parser.peek() {
        (Token::End, _) => Ok(expression),
        (token, place) => Err(SyntaxError::new(*place, format!("expected && or || or the end, found {token}"))),
    }
}

struct Parser {
    tokens: Vec<(Token, Place)>,
    at: usize,
    terms: usize,
}

impl Parser {
    fn peek(&self) -> &(Token, Place) {
        // The last token is the end token. It is never skipped.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> (Token, Place) {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn take(&mut self, symbol: &'static str) -> bool {
        let found = self.peek().0 == Token::Symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self, depth: usize) -> Result<Expression, SyntaxError> {
        self.chain(depth, "||", Self::all, Expression::Any)
    }

    fn all(&mut self, depth: usize) -> Result<Expression, SyntaxError> {
        self.chain(depth, "&&", Self::unary, Expression::All)
    }

    fn chain(
        &mut self,
        depth: usize,
        symbol: &'static str,
        part: fn(&mut Self, usize) -> Result<Expression, SyntaxError>,
        join: fn(Vec<Expression>) -> Expression,
    ) -> Result<Expression, SyntaxError> {
        let first = part(self, depth)?;
        if self.peek().0 != Token::Symbol(symbol) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take(symbol) {
            parts.push(part(self, depth)?);
        }
        Ok(join(parts))
    }

    fn unary(&mut self, depth: usize) -> Result<Expression, SyntaxError> {
        let place = self.peek().1;
        let deeper = || {
            if depth == MAX_DEPTH {
                return Err(SyntaxError::new(place, format!("nested more than {MAX_DEPTH} deep")));
            }
            Ok(depth + 1)
        };
        if self.take("!") {
            return Ok(Expression::Not(Box::new(self.unary(deeper()?)?)));
        }
        if self.take("(") {
            let inside = self.any(deeper()?)?;
            return match self.next() {
                (Token::Symbol(")"), _) => Ok(inside),
                (token, place) => Err(SyntaxError::new(place, format!("expected \")\", found {token}"))),
            };
        }
        if let Some(quantifier) = self.quantifier() {
            return self.bound(quantifier, deeper()?);
        }
        if let Some(truth) = self.constant() {
            self.count(place)?;
            return Ok(Expression::Constant(truth, place));
        }
        if self.calls("changed") {
            self.count(place)?;
            self.at += 2;
            let (token, place) = self.next();
            let Token::Word(name) = token else {
                return Err(SyntaxError::new(place, format!("changed takes a field, found {token}")));
            };
            self.expect(")")?;
            return Ok(Expression::Changed(Step { name, back: None, place }));
        }
        self.compare().map(Expression::Compare)
    }

    /// Steps over `any(` or `all(`. Fields of these names are compared and so are not followed by a parenthesis.
    fn quantifier(&mut self) -> Option<Quantifier> {
        let quantifier = match &self.peek().0 {
            Token::Word(word) if word == "any" => Quantifier::Any,
            Token::Word(word) if word == "all" => Quantifier::All,
            _ => return None,
        };
        let opens = self.tokens.get(self.at + 1).is_some_and(|(token, _)| *token == Token::Symbol("("));
        self.at += if opens { 2 } else { 0 };
        opens.then_some(quantifier)
    }

    /// Steps over `true` or `false` that is an expression by itself. Fields of these names are followed by an operator.
    fn constant(&mut self) -> Option<bool> {
        let truth = match &self.peek().0 {
            Token::Word(word) if word == "true" => true,
            Token::Word(word) if word == "false" => false,
            _ => return None,
        };
        let alone = match self.tokens.get(self.at + 1).map(|(token, _)| token) {
            Some(Token::End) => true,
            Some(Token::Symbol(symbol)) => ["&&", "||", ")"].contains(symbol),
            _ => false,
        };
        self.at += usize::from(alone);
        alone.then_some(truth)
    }

    /// Whether a call of `function` is next. A back relation of that name is followed by a dot.
    fn calls(&self, function: &str) -> bool {
        let rest = &self.tokens[self.at..];
        let opens = matches!(rest, [(Token::Word(word), _), (Token::Symbol("("), _), ..] if word == function);
        let is_back = matches!(rest, [_, _, (Token::Word(_), _), (Token::Symbol(")"), _), (Token::Symbol("."), _), ..]);
        opens && !is_back
    }

    fn bound(&mut self, quantifier: Quantifier, depth: usize) -> Result<Expression, SyntaxError> {
        self.count(self.peek().1)?;
        let path = self.path()?;
        self.expect(",")?;
        let inside = self.any(depth)?;
        self.expect(")")?;
        Ok(Expression::Bound(quantifier, path, Box::new(inside)))
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), SyntaxError> {
        match self.next() {
            (Token::Symbol(found), _) if found == symbol => Ok(()),
            (token, place) => Err(SyntaxError::new(place, format!("expected \"{symbol}\", found {token}"))),
        }
    }

    fn count(&mut self, place: Place) -> Result<(), SyntaxError> {
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return Err(SyntaxError::new(place, format!("more than {MAX_TERMS} comparisons")));
        }
        Ok(())
    }

    /// `a.b(c).d`
    fn path(&mut self) -> Result<Path, SyntaxError> {
        let mut steps = Vec::new();
        loop {
            let (token, place) = self.next();
            let Token::Word(name) = token else {
                return Err(SyntaxError::new(place, format!("expected a field, found {token}")));
            };
            if steps.len() == MAX_STEPS {
                return Err(SyntaxError::new(place, format!("a path of more than {MAX_STEPS} steps")));
            }
            let back = if self.take("(") { Some(self.field()?) } else { None };
            steps.push(Step { name, back, place });
            if !self.take(".") {
                return Ok(Path(steps));
            }
        }
    }

    /// The field of a back relation, and the parenthesis behind it.
    fn field(&mut self) -> Result<Back, SyntaxError> {
        let (token, place) = self.next();
        let Token::Word(field) = token else {
            return Err(SyntaxError::new(place, format!("expected a relation field, found {token}")));
        };
        self.expect(")")?;
        Ok(Back { field, place })
    }

    fn compare(&mut self) -> Result<Comparison, SyntaxError> {
        let place = self.peek().1;
        let left = match self.peek().0 {
            Token::At(_) => self.word()?,
            _ => self.path_or_length()?,
        };
        self.count(place)?;
        let (token, at) = self.next();
        let operator = match &token {
            Token::Symbol(symbol) => operator(symbol),
            Token::Word(word) if word == "in" => Some(Operator::In),
            Token::Word(word) if word == "has" => Some(Operator::Has),
            _ => None,
        };
        let expected = "expected = != > >= < <= ~ !~ has or in";
        let operator = operator.ok_or_else(|| SyntaxError::new(at, format!("{expected}, found {token}")))?;
        let right_place = self.peek().1;
        let right = self.operand()?;
        let is_fitting = match (&right, operator) {
            // `tags = []` compares a list with the list without items.
            (Operand::Literal(Literal::List(list)), Operator::Equal | Operator::NotEqual) => list.is_empty(),
            (Operand::Literal(Literal::List(_)), operator) => operator == Operator::In,
            (_, operator) => operator != Operator::In,
        };
        if !is_fitting {
            let left: String = left.to_string().chars().take(64).collect();
            let message = match operator {
                Operator::In => format!("\"{left}\" in takes a list, such as [1, 2]"),
                _ => format!("a list goes with in: \"{left}\" in [1, 2]"),
            };
            return Err(SyntaxError::new(right_place, message));
        }
        Ok(Comparison { left, place, operator, right, right_place })
    }

    fn operand(&mut self) -> Result<Operand, SyntaxError> {
        match &self.peek().0 {
            Token::At(_) => self.word(),
            Token::Word(word) if !matches!(word.as_str(), "true" | "false" | "null") => self.path_or_length(),
            _ => self.value().map(Operand::Literal),
        }
    }

    fn path_or_length(&mut self) -> Result<Operand, SyntaxError> {
        if !self.calls("length") {
            return self.path().map(Operand::Path);
        }
        self.at += 2;
        let is_old = matches!(&self.peek().0, Token::At(word) if word == "old");
        if is_old {
            self.at += 1;
            self.expect(".")?;
        }
        let path = self.path()?;
        self.expect(")")?;
        Ok(if is_old { Operand::OldLength(path) } else { Operand::Length(path) })
    }

    fn word(&mut self) -> Result<Operand, SyntaxError> {
        let (token, place) = self.next();
        let word = match &token {
            Token::At(word) => word.as_str(),
            _ => "",
        };
        Ok(Operand::Caller(match word {
            "me" => Word::Me,
            "roles" => Word::Roles,
            "tenant_roles" => Word::TenantRoles,
            "tenant" => Word::Tenant,
            "now" => Word::Now,
            "old" => {
                self.expect(".")?;
                return self.path().map(Operand::Old);
            }
            _ => {
                let words = "@me, @roles, @tenant, @tenant_roles, @now or @old";
                return Err(SyntaxError::new(place, format!("unknown word {token}; use {words}")));
            }
        }))
    }

    fn value(&mut self) -> Result<Literal, SyntaxError> {
        if self.take("[") {
            return self.list();
        }
        match self.next() {
            (Token::Text(text), _) => Ok(Literal::Text(text)),
            (Token::Number(number), _) => Ok(Literal::Number(number)),
            (Token::Word(word), _) if word == "true" => Ok(Literal::Bool(true)),
            (Token::Word(word), _) if word == "false" => Ok(Literal::Bool(false)),
            (Token::Word(word), _) if word == "null" => Ok(Literal::Null),
            (Token::Word(word), place) => Err(SyntaxError::new(
                place,
                format!("expected a value, found {}; put text in quotes", Token::Word(word)),
            )),
            (token, place) => Err(SyntaxError::new(place, format!("expected a value, found {token}"))),
        }
    }

    fn list(&mut self) -> Result<Literal, SyntaxError> {
        let mut values = Vec::new();
        if self.take("]") {
            return Ok(Literal::List(values));
        }
        loop {
            let place = self.peek().1;
            if self.peek().0 == Token::Symbol("[") {
                return Err(SyntaxError::new(place, "a list in a list"));
            }
            if values.len() == MAX_LIST {
                return Err(SyntaxError::new(place, format!("more than {MAX_LIST} values")));
            }
            values.push(self.value()?);
            match self.next() {
                (Token::Symbol(","), _) => {}
                (Token::Symbol("]"), _) => return Ok(Literal::List(values)),
                (token, place) => {
                    return Err(SyntaxError::new(place, format!("expected \",\" or \"]\", found {token}")));
                }
            }
        }
    }
}

fn operator(symbol: &str) -> Option<Operator> {
    Some(match symbol {
        "=" => Operator::Equal,
        "!=" => Operator::NotEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        "~" => Operator::Contains,
        "!~" => Operator::NotContains,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(expression: &Expression) -> String {
        let join = |parts: &[Expression], word: &str| parts.iter().map(shape).collect::<Vec<_>>().join(word);
        match expression {
            Expression::Any(parts) => format!("({})", join(parts, " or ")),
            Expression::All(parts) => format!("({})", join(parts, " and ")),
            Expression::Not(inner) => format!("not {}", shape(inner)),
            Expression::Compare(c) => format!("{} {:?} {}", operand(&c.left), c.operator, operand(&c.right)),
            Expression::Bound(quantifier, steps, inner) => format!("{quantifier:?} {} [{}]", path(steps), shape(inner)),
            Expression::Constant(truth, _) => truth.to_string(),
            Expression::Changed(step) => format!("changed {}", step.name),
        }
    }

    fn operand(operand: &Operand) -> String {
        match operand {
            Operand::Path(steps) => path(steps),
            Operand::Old(steps) => format!("old {}", path(steps)),
            Operand::Length(steps) => format!("length {}", path(steps)),
            Operand::OldLength(steps) => format!("length old {}", path(steps)),
            Operand::Caller(word) => format!("@{word:?}"),
            Operand::Literal(literal) => format!("{literal:?}"),
        }
    }

    fn path(Path(steps): &Path) -> String {
        let step = |step: &Step| match &step.back {
            Some(back) => format!("{}({})", step.name, back.field),
            None => step.name.clone(),
        };
        steps.iter().map(step).collect::<Vec<_>>().join(".")
    }

    #[test]
    fn expressions_bind_as_the_grammar_says() {
        for (text, expected) in [
            ("a=1", "a Equal Number(\"1\")"),
            ("a=1||b=2&&c=3", "(a Equal Number(\"1\") or (b Equal Number(\"2\") and c Equal Number(\"3\")))"),
            ("(a=1||b=2)&&!c=3", "((a Equal Number(\"1\") or b Equal Number(\"2\")) and not c Equal Number(\"3\"))"),
            ("!!a = true", "not not a Equal Bool(true)"),
            ("a in [1, 'x', null]", "a In List([Number(\"1\"), Text(\"x\"), Null])"),
            ("a in []", "a In List([])"),
            ("a !~ \"q\\\"\\u00e9\\ud83d\\ude00\\n\"", "a NotContains Text(\"q\\\"é😀\\n\")"),
            ("a >= -1.5e3", "a GreaterOrEqual Number(\"-1.5e3\")"),
            ("in in ['in']", "in In List([Text(\"in\")])"),
            ("any = all", "any Equal all"),
            ("true && !false", "(true and not false)"),
            ("true = false", "true Equal Bool(false)"),
            ("changed(a) && @old.b = length(c.d)", "(changed a and old b Equal length c.d)"),
            ("length(a(b).c) > length(d.a(b).c)", "length a(b).c Greater length d.a(b).c"),
            ("length(a).b = changed(a).b", "length(a).b Equal changed(a).b"),
            ("a.b.c = @me", "a.b.c Equal @Me"),
            ("@now >= a.b", "@Now GreaterOrEqual a.b"),
            ("@roles has 'x'", "@Roles Has Text(\"x\")"),
            ("p.members(project).user = @me", "p.members(project).user Equal @Me"),
            (
                "!any(members(project), user = @me && role = 'x')",
                "not Any members(project) [(user Equal @Me and role Equal Text(\"x\"))]",
            ),
            ("all(a.b, c = 1)", "All a.b [c Equal Number(\"1\")]"),
        ] {
            assert_eq!(parse(text).map(|expression| shape(&expression)).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_are_reported_with_their_position() {
        let deep = format!("{}a=1{}", "(".repeat(9), ")".repeat(9));
        let many = vec!["a=1"; 65].join("||");
        let long = format!("a in [{}]", vec!["1"; 1001].join(","));
        for (text, message) in [
            ("", "expected a field, found the end at 1:1"),
            ("true false", "expected = != > >= < <= ~ !~ has or in, found \"false\" at 1:6"),
            ("@old = 1", "expected \".\", found \"=\" at 1:6"),
            ("changed(1)", "changed takes a field, found 1 at 1:9"),
            ("a", "expected = != > >= < <= ~ !~ has or in, found the end at 1:2"),
            ("a=", "expected a value, found the end at 1:3"),
            ("a = @you", "unknown word \"@you\"; use @me, @roles, @tenant, @tenant_roles, @now or @old at 1:5"),
            ("a.1 = 1", "expected a field, found 1 at 1:3"),
            ("a.b( = 1", "expected a relation field, found \"=\" at 1:6"),
            ("a.b(c = 1", "expected \")\", found \"=\" at 1:7"),
            ("any(a b = 1)", "expected \",\", found \"b\" at 1:7"),
            ("'x' = a", "expected a field, found a text at 1:1"),
            ("a=1 b=2", "expected && or || or the end, found \"b\" at 1:5"),
            ("a=1 &&\n  (b=2", "expected \")\", found the end at 2:7"),
            ("a='x", "a text that does not end at 1:3"),
            ("a='\\q'", "an escape that is not known; those are \\\" \\' \\\\ \\n \\t and \\uXXXX at 1:4"),
            ("a='\\ud83d'", "half of a surrogate pair at 1:4"),
            ("seq = [1]", "a list goes with in: \"seq\" in [1, 2] at 1:7"),
            ("n in 5", "\"n\" in takes a list, such as [1, 2] at 1:6"),
            ("a.b(c).d in 5", "\"a.b(c).d\" in takes a list, such as [1, 2] at 1:13"),
            ("@me = [1]", "a list goes with in: \"@me\" in [1, 2] at 1:7"),
            ("a in [[1]]", "a list in a list at 1:7"),
            ("a & b", "unexpected '&' at 1:3"),
            ("a == 1", "use = to compare, found \"==\" at 1:3"),
            ("a=1 && b === 'x'", "use = to compare, found \"==\" at 1:10"),
            ("a=1; DROP TABLE posts", "unexpected ';' at 1:4"),
            (&deep, "nested more than 8 deep at 1:9"),
            (&many, "more than 64 comparisons at 1:321"),
            (&long, "more than 1000 values at 1:2007"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert_eq!(error, message, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_any_text_does_not_panic(text in "[a-z0-9_ =<>!~&|().@\\[\\],'\"\\\\\n-]{0,80}") {
            let _either = parse(&text);
        }
    }
}
