//! Reads a text with brush-parser: its commands, those in substitutions and here-documents too.
//!
//! May recurse as deep as the text nests, and brush-parser may panic: see [`super::analyse`]. It also
//! tells words to the log at debug level and keeps the last ones in a cache; the log must silence
//! its targets `tokenize`, `parse` and `expansion`.

use brush_parser::ast::{
    AndOr, AndOrList, Assignment as BrushAssignment, AssignmentName, AssignmentValue, Command,
    CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList, ExtendedTestExpr,
    IoFileRedirectKind, IoFileRedirectTarget, IoHereDocument, IoRedirect, Pipeline, RedirectList,
    SimpleCommand, Word as BrushWord,
};
use brush_parser::word::{WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};

use super::limits;
use super::precheck::branches;
use super::reading::{
    Assignment, Reading, Redirection, RedirectionKind, Simple, is_plain_variable,
    unescape_backquoted,
};
use super::reason::Opaque;
use super::word::{Word, WordBuilder};

/// What stands in an argument vector for a process substitution.
pub(super) const PROCESS_SUBSTITUTION: &str = "<()";

/// Reads a text that passed the precheck, unless reading it could take for ever.
pub(super) fn read(text: &str) -> Reading {
    let mut reader = Reader {
        out: Reading::default(),
        options: ParserOptions::default(),
        is_fed: false,
    };
    match branches(text) > limits::BRANCHES_MAX {
        true => reader.out.fail(Opaque::TooDeep),
        false => reader.program(text, 0),
    }
    reader.out
}

struct Reader {
    out: Reading,
    options: ParserOptions,
    /// What is read now gets its input from a pipe or a redirection.
    is_fed: bool,
}

impl Reader {
    fn program(&mut self, text: &str, nesting: u16) {
        if nesting > limits::NESTING_MAX {
            self.out.fail(Opaque::TooDeep);
            return;
        }
        match Parser::new(text.as_bytes(), &self.options).parse_program() {
            Ok(program) => {
                for list in &program.complete_commands {
                    self.list(list, nesting);
                }
            }
            Err(_) => self.out.fail(Opaque::Unparsable),
        }
    }

    fn list(&mut self, list: &CompoundList, nesting: u16) {
        for item in &list.0 {
            self.and_or(&item.0, nesting);
        }
    }

    fn and_or(&mut self, list: &AndOrList, nesting: u16) {
        self.pipeline(&list.first, nesting);
        for next in &list.additional {
            match next {
                AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline, nesting),
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, nesting: u16) {
        let is_fed = self.is_fed;
        for command in &pipeline.seq {
            self.command(command, nesting);
            self.is_fed = true;
        }
        self.is_fed = is_fed;
    }

    fn command(&mut self, command: &Command, nesting: u16) {
        match command {
            Command::Simple(simple) => self.simple(simple, nesting),
            Command::Compound(compound, redirections) => {
                let is_fed = self.is_fed;
                self.is_fed |= redirections.is_some();
                self.compound(compound, nesting);
                self.is_fed = is_fed;
                self.around(redirections.as_ref(), nesting);
            }
            Command::Function(function) => {
                self.out.distrust(Opaque::DefinesFunction);
                self.compound(&function.body.0, nesting);
                self.around(function.body.1.as_ref(), nesting);
            }
            Command::ExtendedTest(test, redirections) => {
                self.out.distrust(Opaque::ExtendedTest);
                self.extended_test(&test.expr, nesting);
                self.around(redirections.as_ref(), nesting);
            }
        }
    }

    fn compound(&mut self, command: &CompoundCommand, nesting: u16) {
        let inner = nesting + 1;
        match command {
            CompoundCommand::Arithmetic(arithmetic) => {
                self.out.distrust(Opaque::Arithmetic);
                self.expansions(&arithmetic.expr.value, inner);
                self.maybe_program(&arithmetic.expr.value, inner);
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                self.out.distrust(Opaque::Arithmetic);
                let parts = [&clause.initializer, &clause.condition, &clause.updater];
                for part in parts.into_iter().flatten() {
                    self.expansions(&part.value, inner);
                }
                self.list(&clause.body.list, inner);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list, inner),
            CompoundCommand::Subshell(group) => self.list(&group.list, inner),
            CompoundCommand::ForClause(clause) => {
                if !is_plain_variable(&clause.variable_name) {
                    self.out.distrust(Opaque::SetsVariable);
                }
                self.visit(clause.values.iter().flatten(), inner);
                self.list(&clause.body.list, inner);
            }
            CompoundCommand::CaseClause(clause) => {
                self.visit([&clause.value], inner);
                for case in &clause.cases {
                    self.visit(&case.patterns, inner);
                    case.cmd.iter().for_each(|list| self.list(list, inner));
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, inner);
                self.list(&clause.then, inner);
                for part in clause.elses.iter().flatten() {
                    part.condition
                        .iter()
                        .for_each(|list| self.list(list, inner));
                    self.list(&part.body, inner);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0, inner);
                self.list(&clause.1.list, inner);
            }
            CompoundCommand::Coprocess(coprocess) => {
                self.out.distrust(Opaque::Coprocess);
                self.command(&coprocess.body, inner);
            }
        }
    }

    /// Arithmetic, which two opening brackets also look like.
    fn maybe_program(&mut self, text: &str, nesting: u16) {
        let parsed = Parser::new(text.as_bytes(), &self.options).parse_program();
        for list in parsed.iter().flat_map(|program| &program.complete_commands) {
            self.list(list, nesting);
        }
    }

    fn extended_test(&mut self, test: &ExtendedTestExpr, nesting: u16) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.extended_test(left, nesting);
                self.extended_test(right, nesting);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.extended_test(inner, nesting);
            }
            ExtendedTestExpr::UnaryTest(_, word) => self.visit([word], nesting),
            ExtendedTestExpr::BinaryTest(_, left, right) => self.visit([left, right], nesting),
        }
    }

    /// Redirections of a compound command: a command of their own, unless they are harmless.
    fn around(&mut self, redirections: Option<&RedirectList>, nesting: u16) {
        let list = redirections.iter().flat_map(|list| &list.0);
        let all: Vec<_> = list.map(|one| self.redirection(one, nesting)).collect();
        self.out.redirections.extend(all.iter().cloned());
        if all.iter().any(|one| !one.is_harmless()) {
            self.out.push(Simple {
                redirections: all,
                nesting,
                ..Simple::default()
            });
        }
    }

    fn simple(&mut self, command: &SimpleCommand, nesting: u16) {
        let at = self.out.commands.len();
        let mut simple = Simple {
            nesting,
            ..Simple::default()
        };
        let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in prefix {
            match item {
                Item::AssignmentWord(assignment, _) => {
                    let assignment = self.assignment(assignment, nesting);
                    simple.assignments.push(assignment);
                }
                Item::IoRedirect(_) | Item::Word(_) | Item::ProcessSubstitution(..) => {
                    self.item(item, &mut simple);
                }
            }
        }
        if let Some(name) = &command.word_or_name {
            simple.words.push(self.word(&name.value, nesting));
        }
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut simple);
        }
        let redirections = &simple.redirections;
        simple.is_fed = self.is_fed || redirections.iter().any(Redirection::reads);
        self.out.redirections.extend(redirections.iter().cloned());
        self.out.insert(at, simple);
    }

    fn item(&mut self, item: &Item, simple: &mut Simple) {
        let nesting = simple.nesting;
        match item {
            Item::IoRedirect(redirection) => {
                let redirection = self.redirection(redirection, nesting);
                simple.redirections.push(redirection);
            }
            Item::Word(word) => simple.words.push(self.word(&word.value, nesting)),
            // Behind the name it is an argument; only an array is none.
            Item::AssignmentWord(assignment, word) => {
                let argument = match &assignment.value {
                    AssignmentValue::Scalar(_) => self.word(&word.value, nesting),
                    AssignmentValue::Array(_) => self.assignment(assignment, nesting).value,
                };
                simple.words.push(argument);
            }
            Item::ProcessSubstitution(_, inner) => {
                self.list(&inner.list, nesting + 1);
                simple.words.push(Word::dynamic(PROCESS_SUBSTITUTION));
            }
        }
    }

    fn assignment(&mut self, assignment: &BrushAssignment, nesting: u16) -> Assignment {
        let (name, plain) = match &assignment.name {
            AssignmentName::VariableName(name) => (name.clone(), true),
            AssignmentName::ArrayElementName(name, index) => {
                self.expansions(index, nesting);
                (format!("{name}[]"), false)
            }
        };
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) if plain => self.word(&word.value, nesting),
            AssignmentValue::Scalar(word) => {
                self.visit([word], nesting);
                Word::dynamic("")
            }
            AssignmentValue::Array(elements) => {
                for (index, word) in elements {
                    self.visit(index, nesting);
                    self.visit([word], nesting);
                }
                Word::dynamic("")
            }
        };
        Assignment { name, value }
    }

    fn redirection(&mut self, redirection: &IoRedirect, nesting: u16) -> Redirection {
        match redirection {
            IoRedirect::File(_, kind, target) => {
                let word = self.target(target, nesting);
                let kind = match kind {
                    IoFileRedirectKind::Read => RedirectionKind::Read,
                    IoFileRedirectKind::Write | IoFileRedirectKind::Clobber => {
                        RedirectionKind::Write
                    }
                    IoFileRedirectKind::Append => RedirectionKind::Append,
                    IoFileRedirectKind::ReadAndWrite => RedirectionKind::ReadWrite,
                    IoFileRedirectKind::DuplicateInput => {
                        return Redirection::duplicate(false, word);
                    }
                    IoFileRedirectKind::DuplicateOutput => {
                        return Redirection::duplicate(true, word);
                    }
                };
                Redirection { kind, target: word }
            }
            IoRedirect::HereDocument(_, document) => self.here_document(document, nesting),
            IoRedirect::HereString(_, word) => Redirection {
                kind: RedirectionKind::HereString,
                target: self.word(&word.value, nesting),
            },
            IoRedirect::OutputAndError(word, append) => Redirection {
                kind: match append {
                    true => RedirectionKind::Append,
                    false => RedirectionKind::Write,
                },
                target: self.word(&word.value, nesting),
            },
        }
    }

    fn target(&mut self, target: &IoFileRedirectTarget, nesting: u16) -> Word {
        match target {
            IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                self.word(&word.value, nesting)
            }
            IoFileRedirectTarget::Fd(descriptor) => Word::literal(&descriptor.to_string()),
            IoFileRedirectTarget::ProcessSubstitution(_, inner) => {
                self.list(&inner.list, nesting + 1);
                Word::dynamic(PROCESS_SUBSTITUTION)
            }
        }
    }

    fn here_document(&mut self, document: &IoHereDocument, nesting: u16) -> Redirection {
        let body = &document.doc.value;
        let has_expansion = document.requires_expansion && self.expansions(body, nesting + 1);
        let target = match has_expansion {
            true => Word::dynamic(body),
            false => Word::literal(body),
        };
        Redirection {
            kind: RedirectionKind::HereDocument,
            target,
        }
    }

    /// Looks into words whose values are of no interest.
    fn visit<'a>(&mut self, words: impl IntoIterator<Item = &'a BrushWord>, nesting: u16) {
        for word in words {
            self.word(&word.value, nesting);
        }
    }

    fn word(&mut self, source: &str, nesting: u16) -> Word {
        if !source.is_empty() && source.bytes().all(is_plain) {
            return Word::literal(source);
        }
        if nesting > limits::NESTING_MAX {
            self.out.fail(Opaque::TooDeep);
            return Word::dynamic(source);
        }
        match brush_parser::word::parse(source, &self.options) {
            Ok(pieces) => {
                let mut builder = WordBuilder::default();
                for piece in &pieces {
                    self.piece(piece, source, InQuotes::No, &mut builder, nesting);
                }
                builder.finish(source)
            }
            Err(_) => {
                self.out.fail(Opaque::Unparsable);
                Word::dynamic(source)
            }
        }
    }

    fn piece(
        &mut self,
        piece: &WordPieceWithSource,
        word: &str,
        quotes: InQuotes,
        builder: &mut WordBuilder,
        nesting: u16,
    ) {
        let source = word
            .get(piece.start_index..piece.end_index)
            .unwrap_or_default();
        match &piece.piece {
            WordPiece::Text(text) => match quotes {
                InQuotes::Double => builder.double_quoted(text),
                InQuotes::No => builder.plain(text),
            },
            WordPiece::SingleQuotedText(text) => builder.quoted(text),
            WordPiece::AnsiCQuotedText(text) => builder.ansi_c(text),
            WordPiece::DoubleQuotedSequence(inner) => {
                // Empty quotes are a word all the same.
                builder.quoted("");
                for piece in inner {
                    self.piece(piece, word, InQuotes::Double, builder, nesting);
                }
            }
            WordPiece::GettextDoubleQuotedSequence(inner) => {
                builder.unknown();
                for piece in inner {
                    self.piece(piece, word, InQuotes::Double, builder, nesting);
                }
            }
            WordPiece::TildeExpansion(_) => builder.plain(source),
            WordPiece::EscapeSequence(text) => {
                let escaped = text.strip_prefix('\\').unwrap_or(text);
                if escaped != "\n" {
                    builder.quoted(escaped);
                }
            }
            WordPiece::CommandSubstitution(_)
            | WordPiece::BackquotedCommandSubstitution(_)
            | WordPiece::ArithmeticExpression(_)
            | WordPiece::ParameterExpansion(_) => {
                builder.expansion(source);
                self.expansion(&piece.piece, source, quotes, nesting + 1);
            }
        }
    }

    /// Looks into one expansion.
    fn expansion(&mut self, piece: &WordPiece, source: &str, quotes: InQuotes, nesting: u16) {
        match piece {
            WordPiece::CommandSubstitution(text) => self.program(text, nesting),
            WordPiece::BackquotedCommandSubstitution(_) => {
                let inner = source.get(1..source.len().saturating_sub(1));
                let in_quotes = matches!(quotes, InQuotes::Double);
                self.program(
                    &unescape_backquoted(inner.unwrap_or_default(), in_quotes),
                    nesting,
                );
            }
            WordPiece::ArithmeticExpression(arithmetic) => {
                self.expansions(&arithmetic.value, nesting);
                // Two brackets may also open a group in a substitution.
                if arithmetic.value.trim_start().starts_with('(') {
                    self.maybe_program(&arithmetic.value, nesting);
                }
            }
            WordPiece::ParameterExpansion(_) => {
                let braced = source
                    .strip_prefix("${")
                    .and_then(|rest| rest.strip_suffix('}'));
                if let Some(inner) = braced {
                    self.expansions(inner, nesting);
                }
            }
            WordPiece::Text(_)
            | WordPiece::SingleQuotedText(_)
            | WordPiece::AnsiCQuotedText(_)
            | WordPiece::DoubleQuotedSequence(_)
            | WordPiece::GettextDoubleQuotedSequence(_)
            | WordPiece::TildeExpansion(_)
            | WordPiece::EscapeSequence(_) => {}
        }
    }

    /// Looks into all expansions of a text in which quotes mean nothing, such as the body of a
    /// here-document. Says whether there was one.
    fn expansions(&mut self, text: &str, nesting: u16) -> bool {
        if !text.contains(['$', '`']) {
            return false;
        }
        if nesting > limits::NESTING_MAX {
            self.out.fail(Opaque::TooDeep);
            return true;
        }
        let Ok(pieces) = brush_parser::word::parse_heredoc(text, &self.options) else {
            self.out.fail(Opaque::Unparsable);
            return true;
        };
        let mut found = false;
        for piece in &pieces {
            found |= matches!(
                piece.piece,
                WordPiece::CommandSubstitution(_)
                    | WordPiece::BackquotedCommandSubstitution(_)
                    | WordPiece::ArithmeticExpression(_)
                    | WordPiece::ParameterExpansion(_)
            );
            let source = text.get(piece.start_index..piece.end_index);
            let source = source.unwrap_or_default();
            self.expansion(&piece.piece, source, InQuotes::No, nesting + 1);
        }
        found
    }
}

/// Whether a piece of a word stands in double quotes.
#[derive(Debug, Clone, Copy)]
enum InQuotes {
    No,
    Double,
}

/// Bytes that mean themselves in any word.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'_' | b'-' | b'.' | b'/' | b'@' | b'+' | b'%' | b'=' | b':'
        )
}
