//! Every pair of hooks, every rule, mode and tool, held against the oracle.
//!
//! On paper: no process is started. Never shares code with the oracle.

use callgate::gate::call::CallState;
use callgate::gate::hooks::{BeforeAction, FailureKind, Hook, HookAnswer, HookFailure, Point};
use callgate::gate::permission::{self, Approver, Permissions, Settings, Verdict};
use callgate::gate::tool::{Kind, Risk, ToolDefinition};
use callgate::gate::turn::{Effect, HookTicket, Input};

use super::oracle::{Case, Fate, Mode, Rule, Says, Tool, asked, fate};
use crate::turn_machine::drive::{Turn, paper};
use crate::turn_machine::hooking::{hook, list, rewrites, says};
use crate::turn_machine::judging::rules;
use crate::turn_machine::tools::definition;

const TOOLS: [(Tool, Risk, Kind); 5] = [
    (Tool::SafeRead, Risk::Safe, Kind::Read),
    (Tool::SensitiveRead, Risk::Sensitive, Kind::Read),
    (Tool::SensitiveEdit, Risk::Sensitive, Kind::Edit),
    (Tool::SensitiveOther, Risk::Sensitive, Kind::Other),
    (Tool::DangerousDelete, Risk::Dangerous, Kind::Delete),
];

const MODES: [(Mode, permission::Mode); 4] = [
    (Mode::Plan, permission::Mode::Plan),
    (Mode::Default, permission::Mode::Default),
    (Mode::AcceptEdits, permission::Mode::AcceptEdits),
    (Mode::Auto, permission::Mode::Auto),
];

fn permissions(case: &Case) -> Permissions {
    let list = match case.rule {
        Rule::None => None,
        Rule::Allow => Some(Verdict::Allow),
        Rule::Ask => Some(Verdict::Ask),
        Rule::Deny => Some(Verdict::Deny),
    };
    let named = list.map(|list| (list, "tool"));
    Permissions {
        settings: Settings {
            hook_allow_covers_dangerous: case.covers_dangerous,
            ..Settings::default()
        },
        ..rules(named.as_slice())
    }
}

fn turn_of(case: &Case, (_, risk, kind): (Tool, Risk, Kind), mode: permission::Mode) -> Turn {
    let mut turn = paper(&[("a", "tool", "{\"n\":1}")]).lay();
    turn.register(ToolDefinition {
        risk: Some(risk),
        kind,
        ..definition("tool")
    });
    turn.hooks = list(hooks());
    turn.permissions = permissions(case);
    turn.session_mode = Some(mode);
    turn.approver = match case.approver {
        true => Approver::Expected,
        false => Approver::None,
    };
    turn
}

fn hooks() -> Vec<Hook> {
    let points = [Point::BeforeToolCall];
    vec![hook("one", 1, &points), hook("two", 2, &points)]
}

fn answer(said: Says) -> HookAnswer {
    let before = |verdict| HookAnswer::Before(Box::new(verdict));
    let failed = |kind| {
        HookAnswer::Failed(HookFailure {
            kind,
            message: String::new(),
        })
    };
    match said {
        Says::Proceed => before(says(BeforeAction::Proceed)),
        Says::Rewrite => before(rewrites("{\"n\":2}")),
        Says::Allow => before(says(BeforeAction::Allow)),
        Says::Ask => before(says(BeforeAction::Ask)),
        Says::Defer => before(says(BeforeAction::Defer)),
        Says::Deny => before(says(BeforeAction::Deny)),
        Says::Abort => before(says(BeforeAction::Abort)),
        Says::Timeout => failed(FailureKind::Timeout),
        Says::Crash => failed(FailureKind::Failed),
        Says::Garbage => HookAnswer::After(Box::default()),
        Says::Gone => failed(FailureKind::Unavailable),
    }
}

/// Plays the case; what became of the call, and how many hooks were asked.
fn play(case: &Case, mut turn: Turn) -> (Fate, usize) {
    let mut questions = 0;
    let mut effects = turn.effects(Input::Started);
    for said in case.hooks {
        let is_asked = |effect: &Effect| matches!(effect, Effect::AskHook(_));
        if !effects.iter().any(is_asked) {
            break;
        }
        questions += 1;
        effects = turn.effects(Input::HookAnswered {
            ticket: HookTicket(questions),
            answer: answer(said),
            took_ms: 0,
        });
    }
    let fate = match turn.state("a") {
        CallState::AwaitingApproval => {
            let approval = turn.approval("a");
            Fate::Waits {
                rewritten: &*approval.arguments == b"{\"n\":2}",
                deferred: approval.is_deferred,
            }
        }
        CallState::Scheduled => {
            let lines = turn.claimed(&["a"]);
            let sent = |text: &str| {
                let start = format!("dispatch a#1 {text}");
                lines.iter().any(|line| line.starts_with(&start))
            };
            assert!(sent("{\"n\":1}") || sent("{\"n\":2}"), "{lines:?}");
            Fate::Runs {
                rewritten: sent("{\"n\":2}"),
            }
        }
        CallState::Error => {
            let result = turn.result("a");
            assert_eq!(result.attempts, 0, "{case:?}");
            let code = &result.error.as_ref().unwrap().code;
            let known = [
                "tool_denied_by_hook",
                "run_aborted",
                "hook_timeout",
                "hook_failed",
                "hook_unavailable",
                "tool_denied_by_rule",
                "tool_denied_by_mode",
                "approval_unavailable",
            ];
            let known = known.into_iter().find(|known| known == code);
            Fate::Ends(known.unwrap_or_else(|| panic!("{code} in {case:?}")))
        }
        other @ (CallState::Validating
        | CallState::Executing
        | CallState::Success
        | CallState::Cancelled) => panic!("{other:?} in {case:?}"),
    };
    (fate, usize::try_from(questions).unwrap())
}

#[test]
fn whatever_hooks_rules_and_modes_say_the_oracle_says_the_same() {
    let mut cases = 0;
    for first in Says::ALL {
        for second in Says::ALL {
            for rule in [Rule::None, Rule::Allow, Rule::Ask, Rule::Deny] {
                for tool in TOOLS {
                    for mode in MODES {
                        for (approver, covers_dangerous) in
                            [(true, false), (false, false), (true, true)]
                        {
                            let case = Case {
                                hooks: [first, second],
                                rule,
                                tool: tool.0,
                                mode: mode.0,
                                approver,
                                covers_dangerous,
                            };
                            let (found, questions) = play(&case, turn_of(&case, tool, mode.1));
                            assert_eq!(found, fate(&case), "{case:?}");
                            assert_eq!(questions, asked(&case), "{case:?}");
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 11 * 11 * 4 * 5 * 4 * 3);
}
