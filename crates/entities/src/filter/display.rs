//! Expressions as text, as their authors would write them.

use std::fmt::{self, Display, Formatter};

use super::ast::{Comparison, Expression, Literal, Operand, Operator, Path, Quantifier, Step, Word};

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(parts) => join(f, parts, " || ", |part| matches!(part, Self::Any(_))),
            Self::All(parts) => join(f, parts, " && ", |part| matches!(part, Self::Any(_) | Self::All(_))),
            Self::Not(inner) if matches!(**inner, Self::Bound(..)) => write!(f, "!{inner}"),
            Self::Not(inner) => write!(f, "!({inner})"),
            Self::Compare(comparison) => comparison.fmt(f),
            Self::Bound(quantifier, path, inner) => write!(f, "{quantifier}({path}, {inner})"),
            Self::Constant(truth, _) => truth.fmt(f),
            Self::Changed(field) => write!(f, "changed({})", field.name),
        }
    }
}

fn join(
    f: &mut Formatter<'_>,
    parts: &[Expression],
    word: &str,
    binds_weaker: impl Fn(&Expression) -> bool,
) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        f.write_str(if index > 0 { word } else { "" })?;
        if binds_weaker(part) {
            write!(f, "({part})")?;
        } else {
            part.fmt(f)?;
        }
    }
    Ok(())
}

impl Display for Quantifier {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::All => "all",
        })
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.operator, self.right)
    }
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Contains => "~",
            Self::NotContains => "!~",
            Self::In => "in",
            Self::Has => "has",
        })
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.fmt(f),
            Self::Old(path) => write!(f, "@old.{path}"),
            Self::Length(path) => write!(f, "length({path})"),
            Self::OldLength(path) => write!(f, "length(@old.{path})"),
            Self::Caller(word) => word.fmt(f),
            Self::Literal(literal) => literal.fmt(f),
        }
    }
}

impl Display for Word {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Me => "@me",
            Self::Roles => "@roles",
            Self::TenantRoles => "@tenant_roles",
            Self::Tenant => "@tenant",
            Self::Now => "@now",
        })
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, Step { name, back, .. }) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { "." } else { "" })?;
            match back {
                Some(back) => write!(f, "{name}({})", back.field)?,
                None => f.write_str(name)?,
            }
        }
        Ok(())
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(truth) => truth.fmt(f),
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => {
                let text = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\t', "\\t");
                write!(f, "'{text}'")
            }
            Self::List(list) => {
                f.write_str("[")?;
                for (index, literal) in list.iter().enumerate() {
                    write!(f, "{}{literal}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::syntax::parse;

    #[test]
    fn an_expression_is_displayed_as_written() {
        for text in [
            "a = 1",
            "a = 1 || b != 'x' && c >= -1.5",
            "(a = 1 || b ~ 'it\\'s') && !(c !~ 'x' || d < 2)",
            "a in [1, 'x', null]",
            "project.members(project).user = @me",
            "!any(members(project), user = @me && role = 'editor')",
            "true",
            "changed(state) && @old.state = 'open' || length(a.b) > @old.n && @tenant_roles has 'agent'",
            "false || length = 1 && changed = true && length(a).b = 2 && changed(a).b = 3",
            "all(a.b, c = true) || @roles has 'x' || @now > until || team != @tenant",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }
}
