//! What looking at one command may cost.
//!
//! Never configured: a command beyond one of these is asked about, so a larger number would only
//! save questions about texts that nobody reads.

/// Longest text that is parsed, in bytes.
pub const TEXT_BYTES_MAX: usize = 10_000;

/// Deepest nesting of brackets, substitutions and keywords that is parsed.
pub const NESTING_MAX: u16 = 32;

/// Most characters and keywords in one text that could open a level, whether or not they do; and most
/// that could close one, since thousands of those take the second parser seconds.
///
/// Invariant: this and not [`NESTING_MAX`] bounds the stack of the parsers. A closing bracket in
/// quotes can lie about the depth, but nothing lowers this count. Tried in a debug build: no
/// construct repeated this often needs 8 MiB.
pub const OPENERS_MAX: usize = 400;

/// Most brackets and `case` clauses in one text for brush-parser, strings not counted.
///
/// It tries alternatives without remembering what failed, so that each of these may double its
/// time, in commands that are fine as well. Tried in a debug build: 14 of the worst kind take half
/// a second of computing, 24 of them minutes. A thread cannot be stopped, so this must hold before.
pub const BRANCHES_MAX: usize = 12;

/// Most commands in one text, those in substitutions and here-documents included.
pub const SEGMENTS_MAX: usize = 200;

/// Most digits of a file descriptor. More do not fit the number that the parser takes.
pub const DESCRIPTOR_DIGITS_MAX: usize = 9;

/// How many times a script may stand in a script, as in `sh -c "sh -c 'ls'"`.
pub const SCRIPT_DEPTH_MAX: u16 = 6;

/// Most scripts inside one text that are looked into.
pub const SCRIPTS_MAX: usize = 64;

/// Most argument vectors that one command is unwrapped into.
pub const UNWRAPPED_MAX: usize = 64;

/// Most places in one command at which an inner command may start.
pub const STARTS_MAX: usize = 16;

/// Most words that are looked at in unwrapping, all forms of all commands of one text together.
pub const UNWRAPPED_WORDS_MAX: usize = 300_000;

/// Most views of one text.
pub const VIEWS_MAX: usize = 8_000;

/// Most bytes in the views of one text.
pub const VIEW_BYTES_MAX: usize = 4 << 20;

/// Most pieces into which a text is cut that no parser understood.
pub const RAW_PIECES_MAX: usize = 2_000;

/// Most words of such a piece.
pub const RAW_PIECE_WORDS_MAX: usize = 1_000;

/// Most words that one braced word is taken to mean.
pub const BRACE_WORDS_MAX: usize = 32;

/// Most steps of the second parser; it tells of itself once in a hundred operations or so.
pub const TREE_STEPS_MAX: usize = 20_000;

/// Most segments of one call for which a lasting approval is offered.
pub const CANDIDATE_SEGMENTS_MAX: usize = 5;
