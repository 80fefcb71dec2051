// How one call ended, as the sidecar recorded it.

package callgate

import (
	"encoding/json"
	"fmt"

	"callgate.invalid/clients/go/internal/pb"
)

// An Outcome says how a call ended.
type Outcome string

// How a call ended.
const (
	OutcomeSuccess   Outcome = "success"
	OutcomeError     Outcome = "error"
	OutcomeCancelled Outcome = "cancelled"
)

// unknownContent stands for a part that is newer than this package.
const unknownContent = Text("[content of an unknown kind]")

// CallResult is how one call ended; exactly one for every call id that came in.
type CallResult struct {
	CallID  string
	Tool    string
	Outcome Outcome
	IsError bool
	// Stop: the tool asked to end the loop.
	Stop bool
	// Error is set exactly if IsError.
	Error    *ErrorInfo
	Contents []Part
	// Structured and Metadata are JSON text as the tool sent it. Nil: none.
	Structured json.RawMessage
	Metadata   json.RawMessage
	// NotExecutedReason is why no executor ran it, e.g. "denied_by_user". Empty: one did.
	NotExecutedReason string
	Effect            Effect
	// Truncated: content was cut; OriginalBytes is what it had.
	Truncated     bool
	OriginalBytes uint64
	Sanitised     bool
	// Suppressed: a hook keeps the content from the model.
	Suppressed bool
	Attempts   uint32
	Timing     CallTiming
	// ApprovalID is the approval that let it run or refused it. Empty: nobody was asked.
	ApprovalID string
	// ArgumentsDigest is over the arguments that ran, or would have.
	ArgumentsDigest []byte
}

// CallTiming is when things happened, Unix time in milliseconds, and the spans that the call waited
// for a slot and for approvers. StartedAtMs 0: no executor took it.
type CallTiming struct {
	ReceivedAtMs uint64
	StartedAtMs  uint64
	FinishedAtMs uint64
	QueueMs      uint32
	ApprovalMs   uint64
}

// Text is all text parts, joined by line ends.
func (r *CallResult) Text() string { return joinedText(r.Contents) }

// Err is what the call's error stands for, nil without one. Its kind is ErrToolNotFound,
// ErrInvalidArguments, ErrPermissionDenied, ErrCancelled, ErrDeadlineExceeded, ErrLimitExceeded,
// ErrUnavailable or ErrCallFailed.
func (r *CallResult) Err() error {
	if !r.IsError {
		return nil
	}
	info := ErrorInfo{Code: codeFailed}
	if r.Error != nil {
		info = *r.Error
	}
	info.Message = textOr(textOr(info.Message, r.Text()), info.Code)
	return errorForCall(info)
}

// Decode reads the structured result, or where there is none the text, into a value.
//
// Fails with what the call failed with, or if it is no JSON of that form.
func (r *CallResult) Decode(into any) error {
	if err := r.Err(); err != nil {
		return err
	}
	if r.Structured != nil {
		return json.Unmarshal(r.Structured, into)
	}
	return json.Unmarshal([]byte(r.Text()), into)
}

func callResultOf(message *pb.CallResult) *CallResult {
	timing := message.GetTiming()
	made := &CallResult{
		CallID:            message.GetCallId(),
		Tool:              message.GetTool(),
		Outcome:           outcomeName(message.GetOutcome()),
		IsError:           message.GetIsError(),
		Stop:              message.GetStopFlag(),
		Error:             errorInfoOf(message.GetError()),
		Structured:        document(message.GetStructuredJson()),
		Metadata:          document(message.GetMetadataJson()),
		NotExecutedReason: enumName(message.GetNotExecutedReason(), "not_executed"),
		Effect:            Effect(textOr(enumName(message.GetEffect(), ""), string(EffectUnknown))),
		Truncated:         message.GetTruncated(),
		OriginalBytes:     message.GetOriginalBytes(),
		Sanitised:         message.GetSanitised(),
		Suppressed:        message.GetSuppressed(),
		Attempts:          message.GetAttempts(),
		ApprovalID:        message.GetApprovalId(),
		ArgumentsDigest:   message.GetArgumentsDigest(),
		Timing: CallTiming{
			timing.GetReceivedAtMs(), timing.GetStartedAtMs(), timing.GetFinishedAtMs(),
			timing.GetQueueMs(), timing.GetApprovalMs(),
		},
	}
	for _, part := range message.GetContents() {
		made.Contents = append(made.Contents, partOf(part))
	}
	return made
}

func callResultsOf(messages []*pb.CallResult) []*CallResult {
	made := make([]*CallResult, 0, len(messages))
	for _, item := range messages {
		made = append(made, callResultOf(item))
	}
	return made
}

func outcomeName(number pb.CallOutcome) Outcome {
	return Outcome(textOr(enumName(number, ""), string(OutcomeError)))
}

// document is a JSON field; nil if it is absent.
func document(text []byte) json.RawMessage {
	if len(text) == 0 {
		return nil
	}
	return json.RawMessage(text)
}

func partOf(message *pb.ContentPart) Part {
	switch content := message.GetContent().(type) {
	case *pb.ContentPart_Text:
		return Text(content.Text)
	case *pb.ContentPart_ValueJson:
		return JSON{json.RawMessage(content.ValueJson)}
	case *pb.ContentPart_Image:
		return Image{content.Image.GetData(), mimeOf(content.Image)}
	case *pb.ContentPart_Audio:
		return Audio{content.Audio.GetData(), mimeOf(content.Audio)}
	case *pb.ContentPart_Resource:
		found := content.Resource
		return Resource{found.GetUri(), found.GetMimeType(), found.GetText(), found.GetBlob()}
	case *pb.ContentPart_ResourceLink:
		link := content.ResourceLink
		return ResourceLink{
			link.GetUri(), link.GetName(), textOr(link.GetTitle(), link.GetName()),
			link.GetDescription(), link.GetMimeType(), link.GetSizeBytes(),
		}
	}
	return unknownContent
}

func mimeOf(media *pb.Media) string { return textOr(media.GetMimeType(), "application/octet-stream") }

// String is for logs: who and how, never contents.
func (r *CallResult) String() string {
	if r.Error != nil {
		return fmt.Sprintf("%s of `%s`: %s (%s)", r.CallID, r.Tool, r.Outcome, r.Error.Code)
	}
	return fmt.Sprintf("%s of `%s`: %s", r.CallID, r.Tool, r.Outcome)
}
