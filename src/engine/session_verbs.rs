//! What orchestrators, approvers and administrators ask about sessions.
//!
//! Each verb may be called at the same time as itself and as any other; changes of one session follow
//! each other. A change is durable before it holds, and everything that waits is decided again. Never
//! ends a turn itself.

use std::sync::Arc;

use super::sessions::Session;
use super::verbs::{answer, deliver};
use super::{Engine, EngineError};
use crate::gate::event::RunState;
use crate::gate::ids::{SessionId, UnixMillis};
use crate::gate::permission::{Grant, GrantId, Grants, Mode, Revoked};
use crate::gate::record::Record;
use crate::gate::session::{DEPTH_MAX, SessionRecord, SessionSettings, StoredSession};
use crate::gate::turn::Input;

/// What a change of a session led to.
#[derive(Debug)]
pub struct SessionChange {
    /// The session.
    pub session: Arc<Session>,
    /// Waiting calls that may run now.
    pub released: u32,
    /// Waiting calls that are denied now.
    pub denied: u32,
}

impl Engine {
    /// The session of that id, which comes into being if nobody knows it.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub async fn session(&self, id: &SessionId) -> Result<Arc<Session>, EngineError> {
        match self.known_session(id).await? {
            Some(session) => Ok(session),
            None => Ok(self.sessions.insert(fresh(None, id, self.now()))),
        }
    }

    /// The session, if it is in memory or something of it is kept.
    async fn known_session(&self, id: &SessionId) -> Result<Option<Arc<Session>>, EngineError> {
        if let Some(session) = self.sessions.get(id) {
            return Ok(Some(session));
        }
        if !self.sessions.may_be_kept() {
            return Ok(None);
        }
        // From the session up to its root; each is put in behind its parent.
        let mut line = Vec::new();
        let mut next = Some(id.clone());
        let mut parent = None;
        while let Some(id) = next.take() {
            if let Some(known) = self.sessions.get(&id) {
                parent = Some(known);
                break;
            }
            let Some(stored) = answer(self.store.read_session(id)).await? else {
                break;
            };
            next.clone_from(&stored.record.parent);
            line.push(stored);
        }
        let found = !line.is_empty();
        for stored in line.into_iter().rev() {
            parent = Some(self.sessions.insert(Session::new(parent, stored)));
        }
        Ok(parent.filter(|_| found))
    }

    /// A session that somebody asked for by id: one in memory, kept, or known by its turns.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Store`].
    pub async fn find_session(&self, id: &SessionId) -> Result<Arc<Session>, EngineError> {
        if let Some(session) = self.known_session(id).await? {
            return Ok(session);
        }
        let known = answer(self.store.list_sessions()).await?;
        match known.iter().find(|(known, _)| known == id) {
            Some((id, at)) => Ok(self.sessions.insert(fresh(None, id, *at))),
            None => Err(not_found(id)),
        }
    }

    /// Makes a session.
    ///
    /// # Errors
    /// [`EngineError::AlreadyExists`], [`EngineError::ModeNotAllowed`], [`EngineError::NotFound`] of the
    /// toolset, [`EngineError::Store`].
    pub async fn create_session(
        &self,
        id: Option<SessionId>,
        settings: SessionSettings,
        by: &Arc<str>,
    ) -> Result<Arc<Session>, EngineError> {
        let id = id.unwrap_or_else(|| SessionId::trusted(self.mint.id()));
        match self.find_session(&id).await {
            Ok(_) => return Err(EngineError::AlreadyExists { id: id.to_string() }),
            Err(EngineError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut record = SessionRecord::new(id, self.now());
        record.settings = settings;
        self.make(None, record, by).await
    }

    /// Makes a child of a session.
    ///
    /// # Errors
    /// As [`create_session`](Self::create_session), and [`EngineError::SessionClosed`],
    /// [`EngineError::NotFound`] of the parent, [`EngineError::TooDeep`].
    pub async fn fork_session(
        &self,
        parent: &SessionId,
        id: Option<SessionId>,
        settings: SessionSettings,
        inherits_grants: bool,
        by: &Arc<str>,
    ) -> Result<Arc<Session>, EngineError> {
        let parent = self.find_session(parent).await?;
        let above = parent.state().record.clone();
        if above.closed_at.is_some() {
            return Err(closed(&parent));
        }
        if above.depth >= DEPTH_MAX {
            return Err(EngineError::TooDeep);
        }
        let id = id.unwrap_or_else(|| SessionId::trusted(self.mint.id()));
        match self.find_session(&id).await {
            Ok(_) => return Err(EngineError::AlreadyExists { id: id.to_string() }),
            Err(EngineError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut inherited = SessionSettings {
            mode: None,
            ..above.settings
        };
        inherited.take(settings);
        let record = SessionRecord {
            parent: Some(parent.id().clone()),
            root: above.root,
            depth: above.depth + 1,
            settings: inherited,
            inherits_grants,
            ..SessionRecord::new(id, self.now())
        };
        if above.version == 1 {
            // A parent that was never set would not be found again after a restart.
            self.write(parent.state().record.clone(), by).await?;
        }
        self.make(Some(parent), record, by).await
    }

    async fn make(
        &self,
        parent: Option<Arc<Session>>,
        record: SessionRecord,
        by: &Arc<str>,
    ) -> Result<Arc<Session>, EngineError> {
        let session = Session::new(parent, stored(record.clone()));
        self.check_settings(&session, &record.settings)?;
        self.write(record, by).await?;
        let session = self.sessions.insert(session);
        self.events.session_changed(&session);
        Ok(session)
    }

    async fn write(&self, record: SessionRecord, by: &Arc<str>) -> Result<(), EngineError> {
        self.sessions.note_kept();
        let records = [Record::By(by.clone()), Record::SessionPut(Arc::new(record))];
        answer(self.store.commit(&records)).await
    }

    fn check_settings(
        &self,
        session: &Session,
        settings: &SessionSettings,
    ) -> Result<(), EngineError> {
        if let Some(mode) = settings.mode
            && mode > self.max_mode(session)
        {
            return Err(EngineError::ModeNotAllowed { mode });
        }
        match &settings.toolset {
            Some(name) if self.directory.registry().toolsets.get(name).is_none() => {
                Err(EngineError::NotFound {
                    kind: "toolset",
                    id: name.clone(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The freest mode that the session may have.
    pub fn max_mode(&self, session: &Session) -> Mode {
        let permissions = self.permissions();
        let max = permissions.policy.max_mode();
        let bounds = session.bounds(permissions.mode, max, self.now());
        let highest = max.unwrap_or(Mode::Auto);
        bounds.parent.map_or(highest, |parent| parent.min(highest))
    }

    /// The mode that holds in the session.
    pub fn mode_of(&self, session: &Session) -> Mode {
        let permissions = self.permissions();
        session.effective(permissions.mode, permissions.policy.max_mode(), self.now())
    }

    /// How many approvals wait in sessions of its line.
    pub fn pending_of_line(&self, session: &Session) -> u32 {
        self.approvals.pending_of_line(&session.root())
    }

    /// Changes settings; everything that waits in sessions of its line is decided again.
    ///
    /// # Errors
    /// [`EngineError::VersionMismatch`], [`EngineError::ModeNotAllowed`],
    /// [`EngineError::SessionClosed`], [`EngineError::NotFound`], [`EngineError::Store`].
    pub async fn update_session(
        &self,
        id: &SessionId,
        version: Option<u32>,
        settings: SessionSettings,
        by: &Arc<str>,
    ) -> Result<SessionChange, EngineError> {
        let session = self.find_session(id).await?;
        let changing = session.changing.lock().await;
        let mut record = session.state().record.clone();
        if version.is_some_and(|seen| seen != record.version) {
            return Err(EngineError::VersionMismatch);
        }
        if record.closed_at.is_some() {
            return Err(closed(&session));
        }
        self.check_settings(&session, &settings)?;
        record.settings.take(settings);
        record.version = record.version.saturating_add(1);
        record.updated_at = self.now();
        self.write(record.clone(), by).await?;
        session.put(record);
        session.use_now(self.now());
        drop(changing);
        self.events.session_changed(&session);
        let (released, denied) = self.decide_line_again(&session).await;
        Ok(SessionChange {
            session,
            released,
            denied,
        })
    }

    /// Closes a session and its children: cancels their runs, refuses further turns.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Store`].
    pub async fn close_session(
        &self,
        id: &SessionId,
        reason: &str,
        by: &Arc<str>,
    ) -> Result<Arc<Session>, EngineError> {
        let session = self.find_session(id).await?;
        for member in self.descendants(&session).await? {
            self.close_one(&member, reason, by).await?;
        }
        Ok(session)
    }

    /// The session and everything below it.
    async fn descendants(&self, session: &Arc<Session>) -> Result<Vec<Arc<Session>>, EngineError> {
        let root = session.root();
        let mut line = vec![session.clone()];
        for (id, _) in answer(self.store.list_sessions()).await? {
            let member = self.session(&id).await?;
            if member.root() == root && member.id() != session.id() && is_below(&member, session) {
                line.push(member);
            }
        }
        Ok(line)
    }

    async fn close_one(
        &self,
        session: &Arc<Session>,
        reason: &str,
        by: &Arc<str>,
    ) -> Result<(), EngineError> {
        let changing = session.changing.lock().await;
        let mut record = session.state().record.clone();
        if record.closed_at.is_some() {
            return Ok(());
        }
        record.closed_at = Some(self.now());
        record.updated_at = self.now();
        record.version = record.version.saturating_add(1);
        self.write(record.clone(), by).await?;
        session.put(record);
        drop(changing);
        self.events.session_changed(session);
        for run in self.runs.of_session(session.id()) {
            if run.state == RunState::Active {
                let reason = match reason.is_empty() {
                    true => "the session was closed".to_owned(),
                    false => reason.to_owned(),
                };
                self.cancel_run(session.id(), &run.run, reason, None, by)
                    .await?;
            }
        }
        Ok(())
    }

    /// Every session, last used first.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub async fn list_sessions(&self) -> Result<Vec<(SessionId, UnixMillis)>, EngineError> {
        let mut known = answer(self.store.list_sessions()).await?;
        for session in self.sessions.all() {
            match known.iter_mut().find(|(id, _)| id == session.id()) {
                Some((_, at)) => *at = (*at).max(session.used_at()),
                None => known.push((session.id().clone(), session.used_at())),
            }
        }
        known.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        Ok(known)
    }

    /// Takes grants back. Empty: all of the session.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] of the session or one of the grants: none is taken back.
    /// [`EngineError::Store`].
    pub async fn revoke_grants(
        &self,
        id: &SessionId,
        ids: Vec<GrantId>,
        by: String,
    ) -> Result<(Arc<Session>, Vec<Grant>), EngineError> {
        let session = self.find_session(id).await?;
        let changing = session.changing.lock().await;
        let mut grants: Grants = session.state().grants.clone();
        let ids: Vec<GrantId> = match ids.is_empty() {
            true => grants.iter().map(|grant| grant.id).collect(),
            false => ids,
        };
        if let Some(unknown) = ids.iter().find(|id| grants.get(**id).is_none()) {
            return Err(EngineError::NotFound {
                kind: "grant",
                id: unknown.to_string(),
            });
        }
        let revoked = Revoked { by, at: self.now() };
        let changed = ids.iter().filter(|id| grants.revoke(**id, revoked.clone()));
        let changed: Vec<GrantId> = changed.copied().collect();
        let now_are = |ids: &[GrantId]| -> Vec<Grant> {
            let found = ids.iter().filter_map(|id| grants.get(*id).cloned());
            found.collect()
        };
        let records = now_are(&changed);
        if !records.is_empty() {
            self.sessions.note_kept();
            let record = Record::GrantsPut {
                session: session.id().clone(),
                grants: records.clone(),
            };
            answer(self.store.commit(&[record])).await?;
            session.put_grants(&records);
        }
        let meant = now_are(&ids);
        drop(changing);
        for grant in &records {
            self.events.grant_changed(&session, grant);
        }
        if !records.is_empty() {
            self.decide_line_again(&session).await;
        }
        Ok((session, meant))
    }

    /// Has everything that waits in sessions of that line decided again, and says what became of it.
    async fn decide_line_again(&self, session: &Session) -> (u32, u32) {
        let root = session.root();
        let (before, _) = self.watch_approvals();
        let turns = self.turns.running_turns(None).into_iter();
        for turn in turns.filter(|turn| turn.session.root() == root) {
            deliver(&turn, Input::ToolsChanged).await;
        }
        self.approvals.decided_since(before, &root)
    }

    /// Tells turns of that line that something of their session changed, and waits for nothing.
    pub(super) fn nudge_line(&self, session: &Session) {
        let root = session.root();
        let turns = self.turns.running_turns(None).into_iter();
        for turn in turns.filter(|turn| turn.session.root() == root) {
            turn.inbox.push(Input::ToolsChanged, None);
        }
    }
}

fn is_below(member: &Session, above: &Session) -> bool {
    let mut next = member.parent();
    while let Some(parent) = next {
        if parent.id() == above.id() {
            return true;
        }
        next = parent.parent();
    }
    false
}

fn stored(record: SessionRecord) -> StoredSession {
    StoredSession {
        touched_at: record.updated_at,
        record,
        grants: Grants::default(),
    }
}

fn fresh(parent: Option<Arc<Session>>, id: &SessionId, now: UnixMillis) -> Session {
    Session::new(parent, stored(SessionRecord::new(id.clone(), now)))
}

fn not_found(id: &SessionId) -> EngineError {
    EngineError::NotFound {
        kind: "session",
        id: id.to_string(),
    }
}

pub(super) fn closed(session: &Session) -> EngineError {
    EngineError::SessionClosed {
        session: session.id().to_string(),
    }
}
