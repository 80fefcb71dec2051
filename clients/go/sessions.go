// Sessions as the sidecar keeps them: settings, grants, child sessions.

package callgate

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"

	"callgate.invalid/clients/go/internal/pb"
)

// An ApproverAvailability says whether somebody can be asked.
type ApproverAvailability string

// Now or later; only while an approver watches; nobody.
const (
	ApproversExpected  ApproverAvailability = "expected"
	ApproversConnected ApproverAvailability = "connected"
	ApproversNone      ApproverAvailability = "none"
)

// SessionSettings is what can be set about a session. What is empty or nil stays as it is, or gets the
// configured default.
type SessionSettings struct {
	Mode        Mode
	BatchPolicy BatchPolicy
	// MaxParallel is most calls of a turn that execute at once.
	MaxParallel *uint32
	// Toolset is for turns that name none. Empty text: the whole registry.
	Toolset *string
	// Cwd is the working directory of its tools, for relative paths in rules.
	Cwd       *string
	Approvers ApproverAvailability
	// ApprovalTTL is after what time an approval expires. Zero: never.
	ApprovalTTL *time.Duration
}

// Session is one conversation. ClosedAtMs 0: it is open.
type Session struct {
	SessionID string
	// ParentSessionID is what it was forked from. Empty: nothing.
	ParentSessionID string
	// RootSessionID is the first of its line; its own id if it has no parent.
	RootSessionID string
	Depth         uint32
	// Settings are all of them, as they hold.
	Settings SessionSettings
	// MaxMode is the freest mode that it may have.
	MaxMode     Mode
	CreatedAtMs uint64
	UsedAtMs    uint64
	ClosedAtMs  uint64
	// PendingApprovals are those that wait, child sessions included.
	PendingApprovals uint32
	// Etag changes with every change.
	Etag string
}

// SessionUpdate is a changed session, and how many calls that waited may run or are denied now.
type SessionUpdate struct {
	Session  *Session
	Released uint32
	Denied   uint32
}

// RevokedGrants are the grants that were meant, as they are now, and the session's mode. Revoking
// accept_edits restores the mode before it.
type RevokedGrants struct {
	Grants []Grant
	Mode   Mode
}

// Sessions asks about sessions, with the rights of whoever it belongs to.
type Sessions struct{ shared *sharedConn }

type sessionRPC[Request, Response any] func(pb.SessionServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error)

func askSession[Request, Response any](
	ctx context.Context, s *Sessions, method sessionRPC[Request, Response], request Request,
) (Response, error) {
	return ask(ctx, s.shared, func(conn *grpc.ClientConn) func(context.Context, Request, ...grpc.CallOption) (Response, error) {
		return func(ctx context.Context, request Request, options ...grpc.CallOption) (Response, error) {
			return method(pb.NewSessionServiceClient(conn), ctx, request, options...)
		}
	}, request)
}

// Create makes a session. An empty id is minted.
func (s *Sessions) Create(ctx context.Context, sessionID string, settings SessionSettings) (*Session, error) {
	message, err := settingsMessage(settings)
	if err != nil {
		return nil, err
	}
	answer, err := askSession(ctx, s, pb.SessionServiceClient.CreateSession,
		&pb.CreateSessionRequest{SessionId: sessionID, Settings: message})
	return sessionOf(answer.GetSession()), err
}

// Get is one session. Fails with ErrNotFound.
func (s *Sessions) Get(ctx context.Context, sessionID string) (*Session, error) {
	answer, err := askSession(ctx, s, pb.SessionServiceClient.GetSession, &pb.GetSessionRequest{SessionId: sessionID})
	return sessionOf(answer.GetSession()), err
}

// List are sessions, last used first, page by page. An empty root: all.
func (s *Sessions) List(ctx context.Context, rootSessionID string, includeClosed bool) iter.Seq2[*Session, error] {
	return pages(func(token string) ([]*Session, string, error) {
		answer, err := askSession(ctx, s, pb.SessionServiceClient.ListSessions, &pb.ListSessionsRequest{
			RootSessionId: rootSessionID, IncludeClosed: includeClosed, PageToken: token,
		})
		var page []*Session
		for _, item := range answer.GetSessions() {
			page = append(page, sessionOf(item))
		}
		return page, answer.GetNextPageToken(), err
	})
}

// Update changes settings; everything that waits is decided again with them. An etag binds the change
// to the session as it was looked at.
func (s *Sessions) Update(ctx context.Context, sessionID, etag string, settings SessionSettings) (*SessionUpdate, error) {
	message, err := settingsMessage(settings)
	if err != nil {
		return nil, err
	}
	answer, err := askSession(ctx, s, pb.SessionServiceClient.UpdateSession,
		&pb.UpdateSessionRequest{SessionId: sessionID, Etag: etag, Settings: message})
	if err != nil {
		return nil, err
	}
	return &SessionUpdate{sessionOf(answer.GetSession()), answer.GetReleased(), answer.GetDenied()}, nil
}

// SetMode changes how much runs unasked.
func (s *Sessions) SetMode(ctx context.Context, sessionID, etag string, mode Mode) (*SessionUpdate, error) {
	return s.Update(ctx, sessionID, etag, SessionSettings{Mode: mode})
}

// Fork makes a child session. Its mode is never above its parent's, now and later.
func (s *Sessions) Fork(
	ctx context.Context, parentSessionID, sessionID string, settings SessionSettings, inheritGrants bool,
) (*Session, error) {
	message, err := settingsMessage(settings)
	if err != nil {
		return nil, err
	}
	answer, err := askSession(ctx, s, pb.SessionServiceClient.ForkSession, &pb.ForkSessionRequest{
		ParentSessionId: parentSessionID, SessionId: sessionID, Settings: message, InheritGrants: inheritGrants,
	})
	return sessionOf(answer.GetSession()), err
}

// Close closes a session and its child sessions: cancels their runs, ends their grants.
func (s *Sessions) Close(ctx context.Context, sessionID, reason string) (*Session, error) {
	answer, err := askSession(ctx, s, pb.SessionServiceClient.CloseSession,
		&pb.CloseSessionRequest{SessionId: sessionID, Reason: validText(reason)})
	return sessionOf(answer.GetSession()), err
}

// Grants are a session's grants, newest first. State is active, revoked, void or expired; empty: all.
func (s *Sessions) Grants(ctx context.Context, sessionID, state string) iter.Seq2[Grant, error] {
	return pages(func(token string) ([]Grant, string, error) {
		answer, err := askSession(ctx, s, pb.SessionServiceClient.ListGrants, &pb.ListGrantsRequest{
			SessionId: sessionID, State: enumNumber(pb.GrantState(0), state), PageToken: token,
		})
		return grantsOf(answer.GetGrants()), answer.GetNextPageToken(), err
	})
}

// Revoke takes grants back, for everything that waits too. Without ids: all of the session.
func (s *Sessions) Revoke(ctx context.Context, sessionID string, grantIDs ...string) (*RevokedGrants, error) {
	answer, err := askSession(ctx, s, pb.SessionServiceClient.RevokeGrants,
		&pb.RevokeGrantsRequest{SessionId: sessionID, GrantIds: grantIDs})
	if err != nil {
		return nil, err
	}
	return &RevokedGrants{grantsOf(answer.GetGrants()), modeOf(answer.GetMode())}, nil
}

// pages walks all pages. An error is the last.
func pages[T any](page func(token string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		token := ""
		for {
			items, next, err := page(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

func settingsMessage(settings SessionSettings) (*pb.SessionSettings, error) {
	made := &pb.SessionSettings{
		Mode:        enumNumber(pb.Mode(0), settings.Mode),
		BatchPolicy: enumNumber(pb.BatchPolicy(0), settings.BatchPolicy),
		MaxParallel: settings.MaxParallel,
		Toolset:     settings.Toolset,
		Cwd:         settings.Cwd,
		Approvers:   enumNumber(pb.ApproverAvailability(0), settings.Approvers),
	}
	switch {
	case settings.Mode != "" && made.Mode == 0:
		return nil, invalid("there is no mode %q", settings.Mode)
	case settings.BatchPolicy != "" && made.BatchPolicy == 0:
		return nil, invalid("there is no batch policy %q", settings.BatchPolicy)
	case settings.Approvers != "" && made.Approvers == 0:
		return nil, invalid("there is no availability of approvers %q", settings.Approvers)
	}
	if settings.ApprovalTTL != nil {
		span := uint64(max(0, settings.ApprovalTTL.Milliseconds()))
		made.ApprovalTtlMs = &span
	}
	return made, nil
}

func sessionOf(message *pb.Session) *Session {
	if message == nil {
		return nil
	}
	sent := message.GetSettings()
	settings := SessionSettings{
		Mode: modeOf(sent.GetMode()), BatchPolicy: batchPolicyOf(sent.GetBatchPolicy()),
		Approvers: ApproverAvailability(enumName(sent.GetApprovers(), string(ApproversNone))),
	}
	if sent != nil {
		settings.MaxParallel, settings.Toolset, settings.Cwd = sent.MaxParallel, sent.Toolset, sent.Cwd
		if sent.ApprovalTtlMs != nil {
			span := time.Duration(sent.GetApprovalTtlMs()) * time.Millisecond
			settings.ApprovalTTL = &span
		}
	}
	return &Session{
		SessionID:        message.GetSessionId(),
		ParentSessionID:  message.GetParentSessionId(),
		RootSessionID:    message.GetRootSessionId(),
		Depth:            message.GetDepth(),
		Settings:         settings,
		MaxMode:          modeOf(message.GetMaxMode()),
		CreatedAtMs:      message.GetCreatedAtMs(),
		UsedAtMs:         message.GetUsedAtMs(),
		ClosedAtMs:       message.GetClosedAtMs(),
		PendingApprovals: message.GetPendingApprovals(),
		Etag:             message.GetEtag(),
	}
}
