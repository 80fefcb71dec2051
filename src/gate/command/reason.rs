//! Why a command, or one segment of it, cannot run unasked.
//!
//! Never decides anything: the codes are for the answer and the approver.

/// Why nothing of a text may be allowed by a rule.
///
/// Deny and ask rules are still tried against everything that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opaque {
    /// Holds no command at all.
    Empty,
    /// Longer than [`super::limits::TEXT_BYTES_MAX`].
    TooLong,
    /// Nested deeper than [`super::limits::NESTING_MAX`], or has too much that could nest.
    TooDeep,
    /// More commands than [`super::limits::SEGMENTS_MAX`].
    TooManySegments,
    /// A control character, or one that shows nothing or turns the text around.
    ForbiddenCharacter,
    /// A file descriptor with too many digits.
    HugeDescriptor,
    /// A parser refused it.
    Unparsable,
    /// The two parsers read it differently.
    Disagreement,
    /// This build has one parser only, so that nothing could agree.
    OneParser,
    /// A parser crashed on it.
    ParserCrashed,
    /// Parsing took longer than its budget.
    TimedOut,
    /// More views, or more scripts in scripts, than are looked at.
    TooMuch,
    /// Defines a function, which may stand for any later command.
    DefinesFunction,
    /// Arithmetic as a command: variables in it are evaluated, and may run commands.
    Arithmetic,
    /// `[[ … ]]`: subscripts and numbers in it are evaluated.
    ExtendedTest,
    /// `coproc`.
    Coprocess,
    /// A loop whose variable may mean something to the shell, such as `PATH`.
    SetsVariable,
    /// Runs a file that it makes itself.
    RunsWhatItMakes,
    /// Another construct outside the list of understood ones.
    Unsupported,
}

impl Opaque {
    /// The stable code that clients match on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Opaque::Empty => "command_empty",
            Opaque::TooLong => "command_too_long",
            Opaque::TooDeep => "command_too_deep",
            Opaque::TooManySegments => "command_too_many_segments",
            Opaque::ForbiddenCharacter => "command_forbidden_character",
            Opaque::HugeDescriptor => "command_huge_descriptor",
            Opaque::Unparsable => "command_unparsable",
            Opaque::Disagreement => "command_read_differently",
            Opaque::OneParser => "command_one_parser",
            Opaque::ParserCrashed => "command_parser_crashed",
            Opaque::TimedOut => "command_parser_timed_out",
            Opaque::TooMuch => "command_too_much",
            Opaque::DefinesFunction => "command_defines_function",
            Opaque::Arithmetic => "command_arithmetic",
            Opaque::ExtendedTest => "command_extended_test",
            Opaque::Coprocess => "command_coprocess",
            Opaque::SetsVariable => "command_sets_variable",
            Opaque::RunsWhatItMakes => "command_runs_what_it_makes",
            Opaque::Unsupported => "command_unsupported",
        }
    }
}

impl std::fmt::Display for Opaque {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Opaque::Empty => "it holds no command",
            Opaque::TooLong => "it is too long",
            Opaque::TooDeep => "it is nested too deeply",
            Opaque::TooManySegments => "it has too many commands",
            Opaque::ForbiddenCharacter => "it has a character that does not show",
            Opaque::HugeDescriptor => "it has a file descriptor with too many digits",
            Opaque::Unparsable => "it does not parse",
            Opaque::Disagreement => "two parsers read it differently",
            Opaque::OneParser => "this build has one parser only",
            Opaque::ParserCrashed => "a parser crashed on it",
            Opaque::TimedOut => "parsing it took too long",
            Opaque::TooMuch => "too much is hidden inside it",
            Opaque::DefinesFunction => "it defines a function",
            Opaque::Arithmetic => "it evaluates arithmetic as a command",
            Opaque::ExtendedTest => "it evaluates a `[[` test",
            Opaque::Coprocess => "it starts a coprocess",
            Opaque::SetsVariable => "its loop sets a variable of the shell",
            Opaque::RunsWhatItMakes => "it runs a file that it makes itself",
            Opaque::Unsupported => "it has a construct that is not looked into",
        })
    }
}

/// Why no allow rule covers a segment, or only one that spells more of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AskReason {
    /// Nothing but assignments or redirections.
    NoCommand,
    /// The program's name comes out of an expansion or a pattern.
    DynamicName,
    /// An argument is not known before it runs.
    DynamicWord,
    /// A redirection or the text behind it is not known before it runs.
    DynamicRedirection,
    /// An assignment before the command that is not known to be harmless.
    Assignment,
    /// Runs its arguments, or a file, as part of the shell.
    Evaluates,
    /// Changes what later commands in the same shell mean.
    ChangesShell,
    /// Runs what it reads from its input, as a shell does without a script.
    ReadsScript,
    /// Runs another program in a way that a rule must spell.
    ExecWrapper,
    /// An option of a wrapper that is not known, so that the inner command is not either.
    UnknownOption,
    /// An option before the sub-command that changes what the program does.
    ConfigOption,
    /// A sub-command that may be an alias, run something or send something.
    OtherSubCommand,
    /// An option with which a harmless program deletes or writes.
    ActingOption,
    /// An option or word that the program runs as a command.
    RunsText,
    /// More is hidden in it than is looked at.
    TooMuch,
}

impl AskReason {
    /// The stable code that clients match on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            AskReason::NoCommand => "segment_no_command",
            AskReason::DynamicName => "segment_dynamic_name",
            AskReason::DynamicWord => "segment_dynamic_word",
            AskReason::DynamicRedirection => "segment_dynamic_redirection",
            AskReason::Assignment => "segment_assignment",
            AskReason::Evaluates => "segment_evaluates",
            AskReason::ChangesShell => "segment_changes_shell",
            AskReason::ReadsScript => "segment_reads_script",
            AskReason::ExecWrapper => "segment_exec_wrapper",
            AskReason::UnknownOption => "segment_unknown_option",
            AskReason::ConfigOption => "segment_config_option",
            AskReason::OtherSubCommand => "segment_other_sub_command",
            AskReason::ActingOption => "segment_acting_option",
            AskReason::RunsText => "segment_runs_text",
            AskReason::TooMuch => "segment_too_much",
        }
    }
}

impl std::fmt::Display for AskReason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            AskReason::NoCommand => "it runs no program that a rule could name",
            AskReason::DynamicName => "the program is not known before it runs",
            AskReason::DynamicWord => "an argument is not known before it runs",
            AskReason::DynamicRedirection => "a redirection is not known before it runs",
            AskReason::Assignment => "it sets a variable that may change what runs",
            AskReason::Evaluates => "it runs its arguments as part of the shell",
            AskReason::ChangesShell => "it changes what later commands mean",
            AskReason::ReadsScript => "it runs what it reads from its input",
            AskReason::ExecWrapper => "it runs another program, which the rule must spell",
            AskReason::UnknownOption => "an option before the inner command is not known",
            AskReason::ConfigOption => "an option before the sub-command changes what it does",
            AskReason::OtherSubCommand => {
                "its sub-command may do anything, and the rule must spell it"
            }
            AskReason::ActingOption => "one of its options deletes or writes",
            AskReason::RunsText => "it runs one of its words as a command",
            AskReason::TooMuch => "too much is hidden inside it",
        })
    }
}
