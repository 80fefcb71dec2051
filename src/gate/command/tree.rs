//! Reads a text with tree-sitter-bash, which repairs what it does not understand.
//!
//! Without recursion over the tree; only the parts of one word are looked at within each other.
//! Never trusts a repaired tree: its commands are searched by deny and ask rules only.

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::brush::PROCESS_SUBSTITUTION;
use super::limits;
use super::reading::{
    Assignment, Reading, Redirection, RedirectionKind, Simple, is_plain_variable,
};
use super::reason::Opaque;
use super::word::{Word, WordBuilder};

/// Reads a text that passed the precheck.
pub(super) fn read(text: &str) -> Reading {
    let mut reader = Reader {
        out: Reading::default(),
        text,
    };
    match parse(text) {
        Some(tree) => reader.tree(&tree),
        None => reader.out.fail(Opaque::TimedOut),
    }
    reader.out
}

/// Parses within a number of steps, since there is no clock here.
fn parse(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .ok()?;
    let mut steps = 0_usize;
    let mut progress = |_: &ParseState| -> bool {
        steps += 1;
        steps > limits::TREE_STEPS_MAX
    };
    let bytes = text.as_bytes();
    let options = ParseOptions::new().progress_callback(&mut progress);
    let mut rest = |at: usize, _| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut rest, None, Some(options))
}

struct Reader<'text> {
    out: Reading,
    text: &'text str,
}

impl<'text> Reader<'text> {
    fn source(&self, node: Node<'_>) -> &'text str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn tree(&mut self, tree: &Tree) {
        let mut cursor = tree.walk();
        let mut depth = 0_u16;
        loop {
            self.node(cursor.node(), depth);
            if cursor.goto_first_child() {
                depth = depth.saturating_add(1);
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
                depth = depth.saturating_sub(1);
            }
        }
    }

    /// The list of node kinds that are understood. Each node of the tree comes here once.
    fn node(&mut self, node: Node<'_>, depth: u16) {
        if node.is_error() || node.is_missing() {
            self.out.fail(Opaque::Unparsable);
            return;
        }
        match node.kind() {
            "command" => self.command(node, depth),
            "declaration_command" | "unset_command" => self.declaration(node, depth),
            "test_command" => self.test(node, depth),
            "variable_assignment" | "variable_assignments" => self.assignment_only(node, depth),
            "file_redirect" => self.file_redirect(node),
            "herestring_redirect" => self.here_string(node),
            "heredoc_redirect" => self.here_document(node),
            "function_definition" => self.out.distrust(Opaque::DefinesFunction),
            "c_style_for_statement" => self.out.distrust(Opaque::Arithmetic),
            "for_statement" => self.for_statement(node),
            "compound_statement" if self.source(node).starts_with("((") => {
                self.out.distrust(Opaque::Arithmetic);
            }
            "compound_statement"
            | "program"
            | "list"
            | "pipeline"
            | "subshell"
            | "do_group"
            | "if_statement"
            | "elif_clause"
            | "else_clause"
            | "while_statement"
            | "case_statement"
            | "case_item"
            | "negated_command"
            | "redirected_statement"
            | "command_name"
            | "comment" => {}
            // Words and what is in them; `word` sees them again.
            "word"
            | "number"
            | "string"
            | "string_content"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "concatenation"
            | "simple_expansion"
            | "expansion"
            | "variable_name"
            | "special_variable_name"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "brace_expression"
            | "subscript"
            | "array"
            | "regex"
            | "file_descriptor"
            | "heredoc_start"
            | "heredoc_body"
            | "heredoc_content"
            | "heredoc_end" => {}
            // Inside arithmetic and tests.
            "binary_expression"
            | "unary_expression"
            | "postfix_expression"
            | "ternary_expression"
            | "parenthesized_expression"
            | "test_operator" => {}
            // A pattern of a branch; there is nothing in it to run.
            "extglob_pattern" if is_in(node, "case_item") => {}
            // The other parser tells this one as the redirection that it is.
            "|&" => self.duplicate(true, Word::literal("1")),
            _ if !node.is_named() => {}
            _ => self.out.distrust(Opaque::Unsupported),
        }
    }

    fn for_statement(&mut self, node: Node<'_>) {
        let variable = node.child_by_field_name("variable");
        let plain = variable.is_some_and(|name| is_plain_variable(self.source(name)));
        if !plain {
            self.out.distrust(Opaque::SetsVariable);
        }
    }

    fn command(&mut self, node: Node<'_>, depth: u16) {
        let mut simple = Simple {
            nesting: depth,
            ..Simple::default()
        };
        for child in children(node) {
            match child.kind() {
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" | "comment" => {}
                "variable_assignment" => {
                    let assignment = self.assignment(child);
                    simple.assignments.push(assignment);
                }
                "command_name" => {
                    let names = children(child).into_iter().map(|name| self.word(name));
                    let names: Vec<_> = names.collect();
                    simple.words.extend(names);
                }
                _ => {
                    let word = self.word(child);
                    simple.words.push(word);
                }
            }
        }
        self.push(without_keywords(simple));
    }

    /// `export` and its like, `unset`: a keyword of this grammar, an ordinary command for the shell.
    fn declaration(&mut self, node: Node<'_>, depth: u16) {
        let words = children(node).into_iter();
        let words = words.map(|child| match child.kind() {
            "variable_assignment" => self.argument_assignment(child),
            _ => self.word(child),
        });
        let words = words.collect();
        self.push(Simple {
            words,
            nesting: depth,
            ..Simple::default()
        });
    }

    /// `[[ … ]]` is a language of its own; `[ … ]` an ordinary command with words.
    fn test(&mut self, node: Node<'_>, depth: u16) {
        let source = self.source(node);
        if !source.starts_with('[') || source.starts_with("[[") {
            self.out.distrust(match source.starts_with("((") {
                true => Opaque::Arithmetic,
                false => Opaque::ExtendedTest,
            });
            return;
        }
        let mut words = Vec::new();
        let mut open: Vec<Node<'_>> = vec![node];
        while let Some(next) = open.pop() {
            let inner = children(next);
            if is_word(next.kind()) || inner.is_empty() {
                words.push(self.word(next));
            } else {
                open.extend(inner.into_iter().rev());
            }
        }
        self.push(Simple {
            words,
            nesting: depth,
            ..Simple::default()
        });
    }

    fn assignment_only(&mut self, node: Node<'_>, depth: u16) {
        let parent = node.parent().map_or("", |parent| parent.kind());
        let belongs = ["command", "declaration_command", "variable_assignments"];
        if belongs.contains(&parent) {
            return;
        }
        let assignments = match node.kind() {
            "variable_assignments" => {
                let all = children(node).into_iter();
                all.map(|child| self.assignment(child)).collect()
            }
            _ => vec![self.assignment(node)],
        };
        self.push(Simple {
            assignments,
            nesting: depth,
            ..Simple::default()
        });
    }

    fn assignment(&mut self, node: Node<'_>) -> Assignment {
        let name = node.child_by_field_name("name");
        let mut value = WordBuilder::default();
        let name = match name {
            Some(name) if name.kind() == "variable_name" => self.source(name).to_owned(),
            Some(name) => {
                value.unknown();
                let array = name.child_by_field_name("name");
                format!("{}[]", array.map_or("", |array| self.source(array)))
            }
            None => String::new(),
        };
        let is_element = name.ends_with(']');
        let written = node.child_by_field_name("value");
        let source = written.map_or("", |value| self.source(value));
        match written {
            Some(written) if is_element || written.kind() == "array" => value.unknown(),
            Some(written) => self.pieces(written, &mut value),
            None => {}
        }
        Assignment {
            name,
            value: value.finish(source),
        }
    }

    /// An assignment behind a command's name, which is one word.
    fn argument_assignment(&mut self, node: Node<'_>) -> Word {
        let mut builder = WordBuilder::default();
        for child in children(node) {
            match child.kind() {
                "array" | "subscript" => return Word::dynamic(""),
                _ => self.pieces(child, &mut builder),
            }
        }
        builder.finish(self.source(node))
    }

    fn push(&mut self, simple: Simple) {
        self.out.push(simple);
    }

    fn file_redirect(&mut self, node: Node<'_>) {
        let mut operator = "";
        let mut targets = Vec::new();
        for child in children(node) {
            match child.kind() {
                "file_descriptor" => {}
                _ if !child.is_named() && operator.is_empty() => operator = self.source(child),
                _ => targets.push(self.word(child)),
            }
        }
        // The grammar counts later words among the targets; they are arguments.
        if targets.len() > 1 {
            self.out.distrust(Opaque::Disagreement);
        }
        let target = targets.into_iter().next();
        let target = target.unwrap_or_else(|| Word::literal("-"));
        let kind = match operator {
            "<" => RedirectionKind::Read,
            ">" | ">|" | "&>" => RedirectionKind::Write,
            ">>" | "&>>" => RedirectionKind::Append,
            "<>" => RedirectionKind::ReadWrite,
            "<&" | "<&-" => return self.duplicate(false, target),
            ">&" | ">&-" => return self.duplicate(true, target),
            _ => {
                self.out.distrust(Opaque::Unsupported);
                RedirectionKind::Write
            }
        };
        self.out.redirections.push(Redirection { kind, target });
    }

    fn duplicate(&mut self, is_output: bool, target: Word) {
        let redirection = Redirection::duplicate(is_output, target);
        self.out.redirections.push(redirection);
    }

    fn here_string(&mut self, node: Node<'_>) {
        let value = children(node).into_iter().rfind(Node::is_named);
        let target = value.map_or_else(|| Word::literal(""), |value| self.word(value));
        self.out.redirections.push(Redirection {
            kind: RedirectionKind::HereString,
            target,
        });
    }

    fn here_document(&mut self, node: Node<'_>) {
        let all = children(node);
        let body = all.iter().find(|child| child.kind() == "heredoc_body");
        let text = body.map_or("", |body| self.source(*body));
        let has_expansion =
            body.is_some_and(|body| children(*body).iter().any(|part| is_expansion(part.kind())));
        let target = match has_expansion {
            true => Word::dynamic(text),
            false => Word::literal(text),
        };
        self.out.redirections.push(Redirection {
            kind: RedirectionKind::HereDocument,
            target,
        });
    }

    fn word(&mut self, node: Node<'_>) -> Word {
        let mut builder = WordBuilder::default();
        self.pieces(node, &mut builder);
        builder.finish(self.source(node))
    }

    fn pieces(&mut self, node: Node<'_>, builder: &mut WordBuilder) {
        let source = self.source(node);
        match node.kind() {
            "word" | "variable_name" | "test_operator" => escaped(source, builder),
            "number" if node.child_count() == 0 => escaped(source, builder),
            "raw_string" => builder.quoted(between(source, "'", "'")),
            "ansi_c_string" => builder.ansi_c(between(source, "$'", "'")),
            "string" => self.string(node, builder),
            "translated_string" => {
                builder.unknown();
                let inner = children(node).into_iter().filter(Node::is_named);
                inner.for_each(|part| self.string(part, builder));
            }
            "process_substitution" => builder.expansion(PROCESS_SUBSTITUTION),
            "brace_expression" => builder.plain(source),
            kind if is_expansion(kind) => builder.expansion(source),
            "concatenation" => self.concatenation(node, builder),
            _ if !node.is_named() => escaped(source, builder),
            // A number may hold an expansion; the rest has no business in a word.
            _ => {
                self.out.distrust(Opaque::Unsupported);
                builder.expansion(source);
            }
        }
    }

    fn concatenation(&mut self, node: Node<'_>, builder: &mut WordBuilder) {
        let mut at = node.start_byte();
        for child in children(node) {
            // Joined lines; the other parser has one word there as well, or they disagree.
            if child.start_byte() != at {
                self.out.distrust(Opaque::Disagreement);
            }
            at = child.end_byte();
            match child.kind() {
                "concatenation" => self.out.distrust(Opaque::Unsupported),
                _ => self.pieces(child, builder),
            }
        }
    }

    /// Text in double quotes. The grammar has no node for some of it, such as blanks behind an
    /// expansion, so whatever lies between the expansions is text.
    fn string(&mut self, node: Node<'_>, builder: &mut WordBuilder) {
        builder.quoted("");
        let end = node.end_byte().saturating_sub(1);
        let mut at = node.start_byte() + 1;
        for child in children(node) {
            if is_expansion(child.kind()) {
                self.in_quotes(at, child.start_byte(), builder);
                builder.expansion(self.source(child));
                at = child.end_byte();
            }
        }
        self.in_quotes(at, end, builder);
    }

    fn in_quotes(&self, from: usize, to: usize, builder: &mut WordBuilder) {
        let mut rest = self
            .text
            .get(from..to)
            .unwrap_or_default()
            .chars()
            .peekable();
        let mut text = String::new();
        while let Some(character) = rest.next() {
            let next = rest.peek().copied();
            match (character, next) {
                ('\\', Some('\n')) => {
                    rest.next();
                }
                ('\\', Some('$' | '`' | '"' | '\\')) => text.extend(rest.next()),
                _ => text.push(character),
            }
        }
        builder.quoted(&text);
    }
}

/// Text outside of quotes with its escapes.
fn escaped(source: &str, builder: &mut WordBuilder) {
    let mut rest = source;
    while let Some((plain, behind)) = rest.split_once('\\') {
        builder.plain(plain);
        let mut characters = behind.chars();
        match characters.next() {
            Some('\n') | None => {}
            Some(quoted) => builder.quoted(quoted.encode_utf8(&mut [0; 4])),
        }
        rest = characters.as_str();
    }
    builder.plain(rest);
}

fn between<'text>(text: &'text str, before: &str, after: &str) -> &'text str {
    let inner = text.strip_prefix(before).unwrap_or(text);
    inner.strip_suffix(after).unwrap_or(inner)
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

fn is_in(node: Node<'_>, kind: &str) -> bool {
    node.parent().is_some_and(|parent| parent.kind() == kind)
}

fn is_expansion(kind: &str) -> bool {
    let kinds = [
        "simple_expansion",
        "expansion",
        "command_substitution",
        "arithmetic_expansion",
        "process_substitution",
    ];
    kinds.contains(&kind)
}

fn is_word(kind: &str) -> bool {
    let kinds = [
        "word",
        "string",
        "raw_string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
        "number",
    ];
    kinds.contains(&kind) || is_expansion(kind)
}

/// Takes off what this grammar takes for a command's name: `time`, `coproc` and `!`.
fn without_keywords(mut simple: Simple) -> Simple {
    let is = |simple: &Simple, at: usize, keyword: &str| {
        simple
            .words
            .get(at)
            .is_some_and(|word| word.source == keyword)
    };
    loop {
        let taken = match simple.assignments.is_empty() {
            true if is(&simple, 0, "time") && is(&simple, 1, "-p") => 2,
            true if is(&simple, 0, "time") || is(&simple, 0, "coproc") || is(&simple, 0, "!") => 1,
            _ => return simple,
        };
        simple.words.drain(..taken);
    }
}
