/**
 * Sessions: their mode, settings, child sessions and grants.
 *
 * A session comes into being with its first turn; making one here is for those that need other settings
 * than the configured ones.
 */
import { GrantState as GrantStates } from "./gen/callgate/v1/permission_pb.js";
import { SessionService } from "./gen/callgate/v1/session_service_pb.js";
import type { Grant, GrantState, Mode } from "./permission.js";
import type { RevokedGrants, Session, SessionSettings, SessionUpdate } from "./session.js";
import { numberOf } from "./wire/convert.js";
import { grantOf, modeOf } from "./wire/convert-permission.js";
import { sessionOf, settingsMessage } from "./wire/convert-sessions.js";
import type { Link } from "./wire/link.js";

/**
 * The sidecar's sessions, over the connection of the client that it is taken from.
 *
 * `Client.sessions` has the rights of an orchestrator, `Approvals.sessions` those of an approver: the first
 * makes, changes, forks and closes sessions, the second changes their mode and takes grants back. Both
 * read. Everywhere a session may be given as its id or as a `Session`. All reject with `NotFound` and
 * `PermissionDenied`.
 */
export class Sessions {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  /** Makes a session; without an id one is minted. Rejects with `Conflict`: `already_exists`. */
  async create(sessionId = "", settings: SessionSettings = {}): Promise<Session> {
    const request = { sessionId, settings: settingsMessage(settings) };
    const answer = await this.#link.ask(SessionService, (stub, options) =>
      stub.createSession(request, options),
    );
    return sessionOf(answer.session);
  }

  /** One session as it is now. */
  async get(session: Session | string): Promise<Session> {
    const request = { sessionId: idOf(session) };
    const answer = await this.#link.ask(SessionService, (stub, options) => stub.getSession(request, options));
    return sessionOf(answer.session);
  }

  /** All sessions, last used first, page by page. `rootSessionId`: only this one and its line. */
  async *list(
    wanted: { rootSessionId?: string; includeClosed?: boolean } = {},
  ): AsyncGenerator<Session, void, undefined> {
    const { rootSessionId = "", includeClosed = false } = wanted;
    let pageToken = "";
    do {
      const request = { rootSessionId, includeClosed, pageToken };
      const page = await this.#link.ask(SessionService, (stub, options) =>
        stub.listSessions(request, options),
      );
      yield* page.sessions.map(sessionOf);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /** Changes how much runs unasked. As `update`. */
  setMode(session: Session | string, mode: Mode, options: { etag?: string } = {}): Promise<SessionUpdate> {
    return this.update(session, { mode }, options);
  }

  /**
   * Changes settings; what is absent stays. Everything that waits in the session is decided again. With the
   * `etag` of the session as it was looked at, a change in between is refused.
   *
   * Rejects with `Conflict`: `etag_mismatch`, `mode_not_allowed`, `session_closed`.
   */
  async update(
    session: Session | string,
    settings: SessionSettings,
    options: { etag?: string } = {},
  ): Promise<SessionUpdate> {
    const request = {
      sessionId: idOf(session),
      etag: options.etag ?? "",
      settings: settingsMessage(settings),
    };
    const answer = await this.#link.ask(SessionService, (stub, call) => stub.updateSession(request, call));
    return { session: sessionOf(answer.session), released: answer.released, denied: answer.denied };
  }

  /**
   * Makes a child session, e.g. for a delegated task. Its mode is never above its parent's. The settings are
   * what differs from the parent; `inheritGrants`: it has the parent's grants too, as long as they last.
   */
  async fork(
    parent: Session | string,
    options: SessionSettings & { sessionId?: string; inheritGrants?: boolean } = {},
  ): Promise<Session> {
    const request = {
      parentSessionId: idOf(parent),
      sessionId: options.sessionId ?? "",
      settings: settingsMessage(options),
      inheritGrants: options.inheritGrants ?? false,
    };
    const answer = await this.#link.ask(SessionService, (stub, call) => stub.forkSession(request, call));
    return sessionOf(answer.session);
  }

  /** Closes a session and its child sessions: their runs are cancelled, their grants end. */
  async close(session: Session | string, options: { reason?: string } = {}): Promise<Session> {
    const request = { sessionId: idOf(session), reason: options.reason ?? "" };
    const answer = await this.#link.ask(SessionService, (stub, call) => stub.closeSession(request, call));
    return sessionOf(answer.session);
  }

  /** A session's grants, newest first, page by page. `state` absent: all. */
  async *grants(
    session: Session | string,
    wanted: { state?: GrantState } = {},
  ): AsyncGenerator<Grant, void, undefined> {
    const sessionId = idOf(session);
    const state = wanted.state === undefined ? 0 : numberOf("state", GrantStates, wanted.state);
    let pageToken = "";
    do {
      const request = { sessionId, state, pageToken };
      const page = await this.#link.ask(SessionService, (stub, options) => stub.listGrants(request, options));
      yield* page.grants.map(grantOf);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /**
   * Takes grants back, from the next decision on and for everything that waits; "all": all of the session.
   *
   * Rejects with `NotFound`: one of them is unknown, and none is taken back. With `TypeError`: none is named,
   * which the sidecar would take for all.
   */
  async revoke(
    session: Session | string,
    grants: readonly (Grant | string)[] | "all",
  ): Promise<RevokedGrants> {
    if (grants !== "all" && grants.length === 0)
      throw new TypeError('name the grants to take back, or "all"');
    const grantIds =
      grants === "all" ? [] : grants.map((item) => (typeof item === "string" ? item : item.grantId));
    const request = { sessionId: idOf(session), grantIds };
    const answer = await this.#link.ask(SessionService, (stub, options) =>
      stub.revokeGrants(request, options),
    );
    return { grants: answer.grants.map(grantOf), mode: modeOf(answer.mode) };
  }
}

function idOf(session: Session | string): string {
  return typeof session === "string" ? session : session.sessionId;
}
