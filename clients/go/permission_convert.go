// Messages about permissions to the types of this package and back. Decides nothing; what is newer
// than this package counts as the strictest.

package callgate

import (
	"fmt"

	"callgate.invalid/clients/go/internal/pb"
)

// modeOf is a mode. Unknown: plan.
func modeOf(number pb.Mode) Mode { return Mode(enumName(number, string(ModePlan))) }

// batchPolicyOf is a policy. Unknown: freeze_atomic.
func batchPolicyOf(number pb.BatchPolicy) BatchPolicy {
	return BatchPolicy(enumName(number, string(FreezeAtomic)))
}

func ruleMessage(rule Rule) *pb.RuleSpec {
	made := &pb.RuleSpec{
		Effect: enumNumber(pb.PermissionEffect(0), rule.Effect), Rule: validText(rule.Rule), Matches: rule.Matches,
		NotMatches: rule.NotMatches, Message: validText(rule.Message),
	}
	if rule.ExpiresAtMs > 0 {
		made.ExpiresAtMs = &rule.ExpiresAtMs
	}
	for _, mode := range rule.Modes {
		made.Modes = append(made.Modes, enumNumber(pb.Mode(0), mode))
	}
	return made
}

// verdictOf is why a call may run or not. An unknown effect is a denial.
func verdictOf(message *pb.PermissionVerdict) PermissionVerdict {
	return PermissionVerdict{
		Effect:         PermissionEffect(enumName(message.GetEffect(), string(PermissionDeny))),
		Stage:          enumName(message.GetStage(), fmt.Sprint(int32(message.GetStage()))),
		Rule:           message.GetRule(),
		Source:         enumName(message.GetSource(), fmt.Sprint(int32(message.GetSource()))),
		Origin:         message.GetOrigin(),
		Segment:        message.GetSegment(),
		SegmentIndex:   segmentIndexOf(message),
		HookID:         message.GetHookId(),
		Message:        message.GetMessage(),
		PolicyRevision: message.GetPolicyRevision(),
	}
}

func segmentIndexOf(message *pb.PermissionVerdict) *uint32 {
	if message == nil {
		return nil
	}
	return message.SegmentIndex
}

func candidateOf(message *pb.GrantCandidate) GrantCandidate {
	return GrantCandidate{
		message.GetCandidateId(), enumName(message.GetKind(), "unknown"), message.GetRule(), message.GetSummary(),
		message.GetSegment(), message.SegmentIndex, message.GetAlsoCovers(),
	}
}

func grantOf(message *pb.Grant) Grant {
	return Grant{
		GrantID:     message.GetGrantId(),
		SessionID:   message.GetSessionId(),
		Kind:        enumName(message.GetKind(), "unknown"),
		Rule:        message.GetRule(),
		Tool:        message.GetTool(),
		Owner:       message.GetOwner(),
		ToolDigest:  message.GetToolDigest(),
		ApprovalID:  message.GetApprovalId(),
		GrantedBy:   message.GetGrantedBy(),
		GrantedAtMs: message.GetGrantedAtMs(),
		ExpiresAtMs: message.GetExpiresAtMs(),
		Uses:        message.GetUses(),
		State:       enumName(message.GetState(), "unknown"),
		RevokedBy:   message.GetRevokedBy(),
		EndedAtMs:   message.GetEndedAtMs(),
	}
}

func grantsOf(messages []*pb.Grant) []Grant {
	made := make([]Grant, 0, len(messages))
	for _, item := range messages {
		made = append(made, grantOf(item))
	}
	return made
}
