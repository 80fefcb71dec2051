//! The text of a rule: `Tool` or `Tool(specifier)`.
//!
//! The specifier runs from the first `(` to the last `)`, which ends the rule. Brackets in it are
//! counted, so that two rules in one text are not taken for one. Never tries a rule.

use super::command_pattern::CommandPattern;
use super::error::RuleError;
use super::host_pattern::HostPattern;
use super::param_pattern::ParamPattern;
use super::path_pattern::PathPattern;
use super::rule::{Plain, RULE_BYTES_MAX, Spec, ToolGlob, ToolPattern, Verdict};
use super::wild::Wild;
use super::words::quotes_close;

/// Reads a rule of that list. `root`: where its source lies, for paths that begin with `/`.
pub(super) fn parse(
    text: &str,
    list: Verdict,
    root: Option<&str>,
) -> Result<(ToolPattern, Spec), RuleError> {
    let text = text.trim();
    check_characters(text)?;
    let Some((tool, rest)) = text.split_once('(') else {
        return Ok((tool_pattern(text, list)?, Spec::Any));
    };
    let inner = match (rest.strip_suffix(')'), rest.contains(')')) {
        (Some(inner), _) => inner.trim(),
        (None, true) => return Err(RuleError::TextAfterSpec),
        (None, false) => return Err(RuleError::Unclosed),
    };
    let pattern = tool_pattern(tool, list)?;
    if inner.is_empty() || inner == ":*" {
        let tool = tool.to_owned();
        return Err(RuleError::SpecEmpty { tool });
    }
    if !brackets_match(inner) {
        return Err(RuleError::Unbalanced);
    }
    Ok((pattern, spec(inner, list, root)?))
}

fn check_characters(text: &str) -> Result<(), RuleError> {
    if text.is_empty() {
        return Err(RuleError::Empty);
    }
    if text.len() > RULE_BYTES_MAX {
        return Err(RuleError::TooLong);
    }
    match text.chars().find(|character| is_hidden(*character)) {
        Some(character) => Err(RuleError::HiddenCharacter {
            code: character.into(),
        }),
        None => Ok(()),
    }
}

/// Characters that change what a reader sees, or that none sees.
fn is_hidden(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\t' | '\n');
    is_control
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn tool_pattern(tool: &str, list: Verdict) -> Result<ToolPattern, RuleError> {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'*');
    if tool.is_empty() || !tool.bytes().all(is_allowed) {
        let tool = tool.chars().take(80).collect();
        return Err(RuleError::ToolInvalid { tool });
    }
    if !tool.contains('*') {
        return Ok(ToolPattern::Name(tool.into()));
    }
    if tool.starts_with('*') && list == Verdict::Allow {
        return Err(RuleError::AllowGlob);
    }
    Ok(ToolPattern::Glob(ToolGlob {
        text: tool.into(),
        wild: Wild::of_text(tool),
    }))
}

fn spec(inner: &str, list: Verdict, root: Option<&str>) -> Result<Spec, RuleError> {
    if inner == "*" {
        return Ok(Spec::Any);
    }
    if let Some(host) = inner.strip_prefix("domain:") {
        return Ok(Spec::Host(HostPattern::parse(host)?));
    }
    if let Some(param) = inner.strip_prefix("param:") {
        return Ok(Spec::Param(ParamPattern::parse(param)?));
    }
    let reach = list.reach();
    Ok(Spec::Plain(Box::new(Plain {
        command: CommandPattern::new(inner, reach),
        path: PathPattern::parse(inner, root, reach)?,
        text: Wild::of_text(inner),
    })))
}

/// Whether every bracket has its partner; those in quotes and behind a backslash do not count.
fn brackets_match(text: &str) -> bool {
    let has_quotes = quotes_close(text);
    let mut quote = None;
    let mut depth = 0_usize;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => {
                rest.next();
            }
            (Some(_), _) => {}
            (None, '\'' | '"') if has_quotes => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            (None, _) => {}
        }
    }
    depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str, list: Verdict) -> &'static str {
        parse(text, list, None).map_or_else(|error| error.code(), |_| "ok")
    }

    #[test]
    fn a_rule_is_a_tool_and_perhaps_a_specifier() {
        for text in [
            "Bash",
            "Bash(git *)",
            "Bash(*)",
            "mcp__git__*",
            " Read(src/**) ",
            "a.b-c_1",
        ] {
            assert_eq!(code(text, Verdict::Allow), "ok", "`{text}`");
        }
        assert!(matches!(
            parse("Bash(*)", Verdict::Deny, None),
            Ok((_, Spec::Any))
        ));
    }

    #[test]
    fn what_is_wrong_has_a_code_of_its_own() {
        let cases = [
            ("", "rule_empty"),
            ("Ba sh", "rule_tool_invalid"),
            ("(x)", "rule_tool_invalid"),
            ("Bash (x)", "rule_tool_invalid"),
            ("*", "rule_allow_glob"),
            ("*_git", "rule_allow_glob"),
            ("Bash(git", "rule_unclosed"),
            ("Bash(git) ", "ok"),
            ("Bash(git) x", "rule_text_after_spec"),
            ("Bash(a), Bash(b)", "rule_unbalanced"),
            ("Bash(cat <<EOF (x)", "rule_unbalanced"),
            (r#"Bash(echo "(")"#, "ok"),
            (r"Bash(find \( -name x \))", "ok"),
            ("Bash(echo (it's))", "ok"),
            ("Bash()", "rule_spec_empty"),
            ("Bash(:*)", "rule_spec_empty"),
            ("Web(domain:*)", "rule_host_invalid"),
            ("Web(param:x=1)", "rule_param_invalid"),
            ("Edit(!src)", "rule_path_negated"),
            ("Edit(**/../x)", "rule_path_parent"),
            ("Bash(a\u{202e}b)", "rule_hidden_character"),
            ("Bash(a\0b)", "rule_hidden_character"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text, Verdict::Allow), expected, "`{text}`");
        }
        assert_eq!(code("*", Verdict::Deny), "ok");
        let long = format!("Bash({})", "x".repeat(RULE_BYTES_MAX));
        assert_eq!(code(&long, Verdict::Deny), "rule_too_long");
    }
}
