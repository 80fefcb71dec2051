//! The rules of the files, what became of each of them, and since when.
//!
//! One load at a time; whoever looks sees the last one whole. Reads files, so it is asked where waiting
//! for a disk is no harm. Never decides a call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::rules::{RulesError, options};
use crate::config::rule_files::{Look, RuleFiles};
use crate::gate::ids::UnixMillis;
use crate::gate::permission::{
    Aliases, Lint, Loaded, Origin, Policy, RuleEntry, RuleError, RuleProblem, RuleRef, Source,
    SourceText, ToolInfo, Trust, Verdict,
};
use crate::gate::registry::Registry;
use crate::gate::result::Digest;

/// The rules of the files.
pub struct RuleBook {
    pub(super) files: RuleFiles,
    /// Held while files are read, so that two loads do not overtake each other.
    loading: Mutex<Loading>,
    standing: ArcSwap<RuleStanding>,
    /// The last advice, with the revisions of the rules and the tools that it is about.
    advice: Mutex<Option<Advice>>,
}

/// Revisions of rules and tools, and what is dubious about the one given the other.
type Advice = (u64, u64, Arc<Vec<Lint>>);

struct Loading {
    seen: Look,
    revision: u64,
}

/// What the last load left behind.
#[derive(Debug, Clone)]
pub struct RuleStanding {
    /// What holds.
    pub policy: Arc<Policy>,
    /// The rules as they came, of what holds.
    texts: Arc<Vec<SourceText>>,
    /// Allow rules that were left out.
    pub skipped: Arc<Vec<RuleProblem>>,
    /// Allow rules that wait for trust.
    inert: Arc<Vec<RuleRef>>,
    /// Whether the workspace was trusted.
    pub trust: Trust,
    /// When it was read.
    pub loaded_at: UnixMillis,
    /// Why what stands in the files now was not taken. None: it was.
    pub failure: Option<RulesError>,
}

/// Whether a rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleState {
    /// Counts.
    Active,
    /// Waits until the workspace is trusted.
    Untrusted,
    /// Is no rule.
    Invalid,
    /// Its time is over.
    Expired,
}

/// One rule as it stands somewhere.
#[derive(Debug, Clone)]
pub struct ListedRule {
    /// The list it stands in.
    pub list: Verdict,
    /// As written.
    pub entry: RuleEntry,
    /// Where it stands.
    pub origin: Origin,
    /// Its position in its source, from 0.
    pub place: u32,
    /// Whether it counts.
    pub state: RuleState,
    /// Why it is no rule.
    pub error: Option<RuleError>,
}

impl ListedRule {
    /// A name made of source, place and text, so that it is the same in the next process.
    #[must_use]
    pub fn id(&self) -> String {
        let (source, list) = (self.origin.source.as_str(), self.list.as_str());
        let (index, text) = (self.origin.index, &self.entry.text);
        let digest = Digest::of(format!("{source}\n{list}\n{index}\n{text}").as_bytes());
        let hex: String = digest.to_string().chars().take(32).collect();
        format!("rule-{hex}")
    }

    /// Finds what was said of the rule elsewhere.
    #[must_use]
    pub fn mark(&self) -> RuleMark {
        mark(&self.origin, self.list)
    }
}

/// Where a rule stands, as a key.
pub type RuleMark = (Source, Verdict, usize);

/// The key of a rule that stands there.
pub fn mark(origin: &Origin, list: Verdict) -> RuleMark {
    (origin.source, list, origin.index)
}

impl RuleBook {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// [`RulesError`]: there is nothing to begin with.
    pub fn open(files: RuleFiles, now: UnixMillis) -> Result<Self, RulesError> {
        // Looked at before it is read, so that a change in between is seen.
        let seen = files.look();
        let standing = read(&files, 1, now)?;
        Ok(Self {
            files,
            loading: Mutex::new(Loading { seen, revision: 1 }),
            standing: ArcSwap::from_pointee(standing),
            advice: Mutex::default(),
        })
    }

    /// What the last load left behind.
    pub fn standing(&self) -> Arc<RuleStanding> {
        self.standing.load_full()
    }

    /// What is dubious about the rules that hold, given the tools that are registered. Made once per
    /// change of either, since it looks at every rule and every tool.
    pub(super) fn advice(&self, policy: &Policy, registry: &Registry) -> Arc<Vec<Lint>> {
        let mut advice = self.advice.lock();
        if let Some((rules, tools, lints)) = &*advice
            && (*rules, *tools) == (policy.revision(), registry.revision)
        {
            return lints.clone();
        }
        let lints = Arc::new(lints_of(policy, registry, &self.files.aliases));
        *advice = Some((policy.revision(), registry.revision, lints.clone()));
        lints
    }

    /// The names that rules may use for tools.
    pub fn aliases(&self) -> &Aliases {
        &self.files.aliases
    }

    /// The file of that source. None: it has none here.
    pub fn file_of(&self, source: Source) -> Option<&Path> {
        self.files.file_of(source)
    }

    /// Reads the files if they have changed since the last time. None: they have not.
    pub(super) fn follow(
        &self,
        now: UnixMillis,
        install: impl FnOnce(&RuleStanding),
    ) -> Option<Result<Arc<RuleStanding>, RulesError>> {
        let mut loading = self.loading.lock();
        let look = self.files.look();
        (look != loading.seen).then(|| self.take(&mut loading, look, now, install))
    }

    /// Reads the files now.
    pub(super) fn reload(
        &self,
        now: UnixMillis,
        install: impl FnOnce(&RuleStanding),
    ) -> Result<Arc<RuleStanding>, RulesError> {
        let mut loading = self.loading.lock();
        let look = self.files.look();
        self.take(&mut loading, look, now, install)
    }

    /// `install`: puts what was read in place, before another load can begin.
    fn take(
        &self,
        loading: &mut Loading,
        look: Look,
        now: UnixMillis,
        install: impl FnOnce(&RuleStanding),
    ) -> Result<Arc<RuleStanding>, RulesError> {
        loading.seen = look;
        match read(&self.files, loading.revision + 1, now) {
            Ok(standing) => {
                loading.revision += 1;
                install(&standing);
                let standing = Arc::new(standing);
                self.standing.store(standing.clone());
                Ok(standing)
            }
            Err(error) => {
                let last = RuleStanding::clone(&self.standing());
                self.standing.store(Arc::new(RuleStanding {
                    failure: Some(error.clone()),
                    ..last
                }));
                Err(error)
            }
        }
    }
}

/// What is dubious about rules, given the tools that are registered.
pub(super) fn lints_of(policy: &Policy, registry: &Registry, aliases: &Aliases) -> Vec<Lint> {
    let tools = registry.visible(None);
    let tools = tools.iter().map(|tool| ToolInfo {
        name: tool.definition.name.as_str(),
        subject: tool.definition.subject.as_ref().and_then(|own| own.kind),
    });
    policy.lint(&tools.collect::<Vec<_>>(), aliases)
}

fn read(files: &RuleFiles, revision: u64, now: UnixMillis) -> Result<RuleStanding, RulesError> {
    let texts = files.read()?;
    let trust = files.trust();
    let loaded = Policy::load(texts.clone(), &options(&files.aliases, trust), revision);
    let loaded = loaded.map_err(RulesError::Rule)?;
    Ok(RuleStanding::of(loaded, texts, trust, now))
}

impl RuleStanding {
    fn of(loaded: Loaded, mut texts: Vec<SourceText>, trust: Trust, now: UnixMillis) -> Self {
        texts.sort_by_key(|text| text.source);
        Self {
            policy: Arc::new(loaded.policy),
            texts: Arc::new(texts),
            skipped: Arc::new(loaded.skipped),
            inert: Arc::new(loaded.inert),
            trust,
            loaded_at: now,
            failure: None,
        }
    }

    /// Reads the rules of all files, as a sidecar would when it starts.
    ///
    /// # Errors
    /// [`RulesError`].
    pub fn read(files: &RuleFiles, now: UnixMillis) -> Result<Self, RulesError> {
        read(files, 1, now)
    }

    /// Allow rules that wait for trust.
    #[must_use]
    pub fn inert(&self) -> &[RuleRef] {
        &self.inert
    }

    /// Whether any rules came from that source.
    #[must_use]
    pub fn has(&self, source: Source) -> bool {
        self.texts.iter().any(|text| text.source == source)
    }

    /// Every rule, by source, then place.
    #[must_use]
    pub fn rules(&self, now: UnixMillis) -> Vec<ListedRule> {
        let skipped = self.skipped.iter();
        let skipped: BTreeMap<RuleMark, &RuleError> = skipped
            .map(|problem| (mark(&problem.origin, problem.list), &problem.error))
            .collect();
        let inert = self.inert.iter();
        let inert: BTreeSet<RuleMark> = inert.map(|rule| mark(&rule.origin, rule.list)).collect();
        let mut listed = Vec::new();
        for text in self.texts.iter() {
            let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
            for (place, (list, entry)) in (0..).zip(&text.rules.entries) {
                let count = counts.entry(*list).or_default();
                let origin = Origin {
                    source: text.source,
                    file: text.file.clone(),
                    index: *count,
                };
                *count += 1;
                let own = mark(&origin, *list);
                let error = skipped.get(&own).map(|error| (*error).clone());
                listed.push(ListedRule {
                    list: *list,
                    state: match &error {
                        Some(_) => RuleState::Invalid,
                        None if has_expired(entry, now) => RuleState::Expired,
                        None if inert.contains(&own) => RuleState::Untrusted,
                        None => RuleState::Active,
                    },
                    entry: entry.clone(),
                    origin,
                    place,
                    error,
                });
            }
        }
        listed
    }
}

fn has_expired(entry: &RuleEntry, now: UnixMillis) -> bool {
    let expires = entry.extras.as_ref().ok().and_then(|extras| extras.expires);
    expires.is_some_and(|expires| expires <= now)
}
