//! `callgate explain CODE`: the page of one error code. With brackets it is a call that is asked about.
//!
//! Pages stand in one text file beside this one; every code has exactly one. Never guesses a code.

use super::output::{Outcome, data, outcome};
use super::verdict::{Question, shown_answer};
use crate::gate::permission::Answer;

/// All pages: `# code`, then its text.
const PAGES: &str = include_str!("explain_pages.md");

/// Explain an error code, or how a call would be decided.
#[derive(Debug, clap::Args)]
pub(super) struct Explain {
    /// The code, e.g. `tool_not_found`, or a call, e.g. `run_shell(git push)`. Without one: every code, one a line.
    #[arg(value_name = "CODE|CALL")]
    code: Option<String>,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    question: Question,
}

impl Explain {
    pub(super) fn run(self) -> Outcome {
        outcome(match &self.code {
            None => self.list(),
            Some(call) if call.contains('(') => self.question.answer(call, self.json),
            Some(code) => self.explain(code),
        })
    }

    fn list(&self) -> Result<(), Outcome> {
        for (code, text) in pages() {
            match self.json {
                true => data(&serde_json::json!({"code": code, "page": text}).to_string()),
                false => data(code),
            }
        }
        Ok(())
    }

    fn explain(&self, code: &str) -> Result<(), Outcome> {
        let page = pages().find(|(known, _)| *known == code);
        let Some((code, text)) = page else {
            let hint = "\n\nhint: all codes are listed by  callgate explain; a call is asked about with \
                        brackets, e.g.  callgate explain 'run_shell(ls)'";
            return Err(Outcome::no(format!("no code `{code}`{hint}")));
        };
        match self.json {
            true => data(&serde_json::json!({"code": code, "page": text}).to_string()),
            false => data(&format!("{code}\n\n{text}")),
        }
        Ok(())
    }
}

/// A decision as `callgate explain --json` shows it.
pub fn shown(answer: &Answer) -> serde_json::Value {
    shown_answer(answer)
}

/// Every code with its page, in the file's order.
pub fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    let sections = PAGES.split("\n# ").skip(1);
    sections.filter_map(|section| {
        let (code, text) = section.split_once('\n')?;
        Some((code.trim(), text.trim()))
    })
}
