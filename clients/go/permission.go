// What decides whether a call runs: modes, rules, grants, and what a tool itself says.
//
// Plain data. Decides nothing: the sidecar does.

package callgate

// A Mode says how much runs unasked.
type Mode string

// How much runs unasked, in order of freedom. Deny and ask rules hold in every mode.
const (
	ModePlan        Mode = "plan"
	ModeDefault     Mode = "default"
	ModeAcceptEdits Mode = "accept_edits"
	ModeAuto        Mode = "auto"
)

// A BatchPolicy says what happens to a batch while a call waits, and when one is refused.
type BatchPolicy string

// Nothing runs before all is decided and one refusal ends the batch; the same, and the rest runs;
// safe calls do not wait.
const (
	FreezeAtomic  BatchPolicy = "freeze_atomic"
	FreezePartial BatchPolicy = "freeze_partial"
	EagerSafe     BatchPolicy = "eager_safe"
)

// A PermissionEffect is what a decision says. Empty: nothing.
type PermissionEffect string

// What a decision says.
const (
	PermissionAllow PermissionEffect = "allow"
	PermissionAsk   PermissionEffect = "ask"
	PermissionDeny  PermissionEffect = "deny"
)

// Rule is a rule as someone writes it.
type Rule struct {
	Effect PermissionEffect
	// Rule is Tool or Tool(spec), e.g. run_shell(git status*).
	Rule string
	// Matches and NotMatches are examples that are tried before the rule counts.
	Matches    []string
	NotMatches []string
	// Message is shown with every verdict of this rule; of a denial the model reads it too.
	Message string
	// ExpiresAtMs is Unix time. Zero: never.
	ExpiresAtMs uint64
	// Modes in which it counts. Empty: all.
	Modes []Mode
}

// PermissionVerdict is why a call may run, must be asked for or must not run.
//
// Stage and Source are a number as text where the sidecar is newer than this package, and empty
// where there is none.
type PermissionVerdict struct {
	Effect PermissionEffect
	Stage  string
	Rule   string
	Source string
	// Origin is file and line of the rule, or the grant's id.
	Origin string
	// Segment is the part of a command that decided. SegmentIndex nil: no command.
	Segment      string
	SegmentIndex *uint32
	// HookID is the hook that decided.
	HookID string
	// Message is for people, and never text from the model.
	Message        string
	PolicyRevision uint64
}

// GrantCandidate is what approving for the session would store, to be shown word for word.
//
// Candidates of one SegmentIndex exclude each other, and each segment needs one. AlsoCovers counts
// other pending approvals that it would cover as well.
type GrantCandidate struct {
	CandidateID  string
	Kind         string
	Rule         string
	Summary      string
	Segment      string
	SegmentIndex *uint32
	AlsoCovers   uint32
}

// Grant is a permission that an approver gave for a session.
//
// Kind is tool, command_prefix, command_exact or accept_edits; State active, revoked, void or
// expired. Either is "unknown" where the sidecar is newer: such a grant gives nothing. ExpiresAtMs
// 0: with the session. EndedAtMs 0: it counts.
type Grant struct {
	GrantID     string
	SessionID   string
	Kind        string
	Rule        string
	Tool        string
	Owner       string
	ToolDigest  []byte
	ApprovalID  string
	GrantedBy   string
	GrantedAtMs uint64
	ExpiresAtMs uint64
	Uses        uint32
	State       string
	RevokedBy   string
	EndedAtMs   uint64
}

// Permission is what a tool says of one call. Made by Deny, Ask, AskFirm, Allow and Passthrough.
type Permission struct {
	says    string
	reason  string
	message string
}

// Deny: must not run, whoever would allow it. The model reads the message.
func Deny(message string) Permission { return Permission{says: "deny", message: message} }

// Ask: somebody should be asked, unless a rule or a grant allows the call. The approver reads the reason.
func Ask(reason string) Permission { return Permission{says: "ask", reason: reason} }

// AskFirm: somebody must be asked, whatever allows the call.
func AskFirm(reason string) Permission { return Permission{says: "ask_firm", reason: reason} }

// Allow: may run unasked. Counts only if the sidecar trusts this executor, and never for a dangerous tool.
func Allow() Permission { return Permission{says: "allow"} }

// Passthrough: no opinion; rules and the mode decide.
func Passthrough() Permission { return Permission{says: "passthrough"} }

// PathFact is what a path in the arguments really is, as this process told the sidecar.
type PathFact struct {
	// Pointer is where it stands in the arguments, Value the path found there.
	Pointer string
	Value   string
	// Canonical is absolute, links followed. Empty: it could not be told, see Error.
	Canonical string
	// Exists is nil where nobody looked.
	Exists *bool
	Error  string
}

// PermissionContext is what a permission check may know besides the arguments.
type PermissionContext struct {
	ToolName string
	CallID   string
	// Mode is the session's.
	Mode Mode
	// Facts are as far as they are known.
	Facts []PathFact
	// MatchedRule is the allow rule or grant that matches so far, MatchedSource where it comes from.
	MatchedRule   string
	MatchedSource string
	SessionID     string
	RunID         string
	TurnID        string
	// Cwd is the session's working directory. Empty: none was set.
	Cwd string
}
