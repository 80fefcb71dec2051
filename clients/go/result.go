// What a handler gives back: parts for the model, a flag, an error of its own domain.
//
// Making an answer of any Go value never fails silently: what cannot be expressed becomes an
// explicit error.

package callgate

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"callgate.invalid/clients/go/internal/pb"
)

const (
	messageBytesCut = 4 * 1024
	detailBytesCut  = 16 * 1024
	partsMax        = 64
	codeFailed      = "tool_execution_failed"
	codeNotJSON     = "result_not_json"
)

// A Part is one piece of a result: Text, JSON, Image, Audio, Resource or ResourceLink.
type Part interface{ part() }

// Text is plain text.
type Text string

// JSON is any JSON value; the model reads it as text.
type JSON struct{ Value any }

// Image is a picture. Data is the bytes as they are, not base64.
type Image struct {
	Data     []byte
	MIMEType string
}

// Audio is a sound. Data is the bytes as they are, not base64.
type Audio struct {
	Data     []byte
	MIMEType string
}

// Resource is a document inside the result: Text, or where that is empty Blob.
type Resource struct {
	URI      string
	MIMEType string
	Text     string
	Blob     []byte
}

// ResourceLink is a document elsewhere. Never fetched by the sidecar. SizeBytes 0: unknown.
type ResourceLink struct {
	URI         string
	Name        string
	Title       string
	Description string
	MIMEType    string
	SizeBytes   uint64
}

func (Text) part()         {}
func (JSON) part()         {}
func (Image) part()        {}
func (Audio) part()        {}
func (Resource) part()     {}
func (ResourceLink) part() {}

// ErrorInfo is what went wrong with one call or one registration.
type ErrorInfo struct {
	Code string
	// Message is what the model reads.
	Message string
	// Detail is for operators: type, stack, ids.
	Detail string
	// Path is where in the arguments or the schema, from $.
	Path      string
	Retryable bool
	// RetryAfter: with Retryable, not earlier than this. Zero: no advice.
	RetryAfter time.Duration
	// Layer is the part of the system that it comes from, e.g. "permission".
	Layer string
}

// Result is a handler's answer, for those that need more than a plain value.
type Result struct {
	// Contents are for the model, in order. At most 64.
	Contents []Part
	// IsError: the tool did not do what was asked. Never fake success.
	IsError bool
	// Stop ends the loop after this turn, and the run completes. Holds with IsError.
	Stop bool
	// Error, with IsError, is what went wrong.
	Error *ErrorInfo
	// Structured is the same result for programs, an object.
	Structured any
	// Metadata is an object that is never shown to the model.
	Metadata any
}

// ResultOf is the answer that returning the value would be, to be changed before it is returned.
func ResultOf(value any) *Result { return resultOf(value) }

// StopWith is the answer that returning the value would be, and ends the loop after this turn.
func StopWith(value any) *Result {
	made := resultOf(value)
	made.Stop = true
	return made
}

// Text is all text parts, joined by line ends.
func (r *Result) Text() string { return joinedText(r.Contents) }

func joinedText(contents []Part) string {
	var texts []string
	for _, part := range contents {
		if text, ok := part.(Text); ok {
			texts = append(texts, string(text))
		}
	}
	return strings.Join(texts, "\n")
}

// encoded is JSON that is text already, so that it is not written twice.
type encoded []byte

// MarshalJSON is the text.
func (e encoded) MarshalJSON() ([]byte, error) { return e, nil }

// resultOf is the answer that a handler means by returning the value.
//
// Text of any type is text; nil and struct{} are an empty answer; a part is taken as it is, and so is a
// list of parts; anything else is the text of its JSON, and an object is the structured result too.
func resultOf(value any) *Result {
	switch value := value.(type) {
	case nil, struct{}:
		return &Result{}
	case *Result:
		if value == nil {
			return &Result{}
		}
		made := *value
		return &made
	case Result:
		return &value
	case string:
		return &Result{Contents: []Part{Text(value)}}
	case Part:
		return &Result{Contents: []Part{value}}
	case []Part:
		return &Result{Contents: value}
	case []byte:
		return failed(&ToolError{
			Code:    codeNotJSON,
			Message: "the tool returned bytes without saying what they are",
			Detail:  "wrap them in Image, Audio or Resource",
		})
	}
	if text, isText := plainText(value); isText {
		return &Result{Contents: []Part{Text(text)}}
	}
	text, err := encodeJSON(value)
	if err != nil {
		return failed(&ToolError{
			Code:    codeNotJSON,
			Message: fmt.Sprintf("the tool's result is not valid JSON: %v", err),
			Detail:  fmt.Sprintf("returned %T", value),
		})
	}
	if string(text) == "null" {
		return &Result{}
	}
	made := &Result{Contents: []Part{Text(text)}}
	if text[0] == '{' {
		made.Structured = encoded(text)
	}
	return made
}

// plainText is the text of a type of text that does not say itself how it is written.
func plainText(value any) (string, bool) {
	switch value.(type) {
	case json.Marshaler, encoding.TextMarshaler, json.Number:
		return "", false
	}
	found := reflect.ValueOf(value)
	return found.String(), found.Kind() == reflect.String
}

var codeForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// The sidecar answers with these; from an executor they would become codeFailed. The two that an
// executor is told to send itself are not among them.
var sidecarCodes = map[string]bool{
	"approval_expired": true, "approval_unavailable": true, "executor_protocol_error": true,
	"limit_exceeded": true, "loop_detected": true, "result_invalid": true, "run_not_active": true,
	"store_unavailable": true, "tool_argument_enum": true, "tool_argument_invalid": true,
	"tool_argument_pattern": true, "tool_argument_range": true, "tool_argument_required": true,
	"tool_argument_type_mismatch": true, "tool_argument_unknown": true, "tool_batch_rejected": true,
	"tool_cancelled": true, "tool_changed": true, "tool_definition_invalid": true,
	"tool_denied_by_mode": true, "tool_denied_by_tool": true, "tool_denied_by_rule": true,
	"tool_denied_by_user": true, "tool_name_duplicate": true, "tool_name_empty": true,
	"tool_name_invalid": true, "tool_not_found": true, "tool_outcome_unknown": true,
	"tool_timeout": true, "tool_unavailable": true,
}

// failed is the answer that stands for an error of the handler's own domain.
func failed(err *ToolError) *Result {
	code, detail := err.Code, err.Detail
	if !codeForm.MatchString(code) || sidecarCodes[code] {
		detail = fmt.Sprintf("the handler's code was %q, which executors may not send\n%s", code, detail)
		code = codeFailed
	}
	message := cutText(err.Message, messageBytesCut)
	made := &Result{IsError: true, Stop: err.Stop, Error: &ErrorInfo{
		Code: code, Message: message, Detail: cutText(detail, detailBytesCut), Path: validText(err.Path),
		Retryable: err.Retryable, RetryAfter: err.RetryAfter,
	}}
	if message != "" {
		made.Contents = []Part{Text(message)}
	}
	return made
}

// tooLarge is the answer in place of one that is beyond the agreed size.
func tooLarge(size, limit int, stop bool) *sealed {
	message := fmt.Sprintf("the result has %d bytes, at most %d are allowed", size, limit)
	return seal(&Result{
		Contents: []Part{Text(message)}, IsError: true, Stop: stop,
		Error: &ErrorInfo{Code: "result_too_large", Message: message},
	})
}

// sealed is an answer that needs no more code of the user to be sent. size is what counts towards
// the limit of results, in bytes.
type sealed struct {
	message *pb.ToolResult
	size    int
}

// seal makes an answer ready to send. Runs where the handler ran, since it may call the user's code.
func seal(result *Result) *sealed {
	made, err := trySeal(result)
	if err == nil {
		return made
	}
	failure := failed(&ToolError{Code: codeNotJSON, Message: fmt.Sprintf("the tool's result cannot be sent: %v", err)})
	failure.Stop = result.Stop
	made, _ = trySeal(failure)
	return made
}

func trySeal(result *Result) (made *sealed, err error) {
	defer func() {
		// A marshaller of the user's own may do anything.
		if fault := recover(); fault != nil {
			made, err = nil, fmt.Errorf("%v", fault)
		}
	}()
	if len(result.Contents) > partsMax {
		return nil, fmt.Errorf("%d parts, at most %d are allowed", len(result.Contents), partsMax)
	}
	s := &sealer{}
	message := &pb.ToolResult{IsError: result.IsError, StopFlag: result.Stop, Error: s.failure(result.Error)}
	for _, part := range result.Contents {
		message.Contents = append(message.Contents, s.part(part))
	}
	message.StructuredJson = s.object(result.Structured, "structured")
	s.size += len(message.StructuredJson)
	message.MetadataJson = s.object(result.Metadata, "metadata")
	message.Sanitised = s.dirty
	return &sealed{message, s.size}, s.err
}

// sealer collects, over the parts of one answer, its size, whether text was broken, and the first error.
type sealer struct {
	size  int
	dirty bool
	err   error
}

func (s *sealer) text(text string) string {
	clean := validText(text)
	s.dirty = s.dirty || clean != text
	s.size += len(clean)
	return clean
}

func (s *sealer) json(value any) []byte {
	text, err := encodeJSON(value)
	if err != nil {
		s.err = err
		return nil
	}
	// The encoder writes what was no UTF-8 as this escape, and a real U+FFFD as itself.
	s.dirty = s.dirty || bytes.Contains(bytes.ReplaceAll(text, []byte(`\\`), nil), []byte(`\ufffd`))
	return text
}

func (s *sealer) object(value any, what string) []byte {
	if value == nil {
		return nil
	}
	text := s.json(value)
	if s.err == nil && (len(text) == 0 || text[0] != '{') {
		s.err = fmt.Errorf("%s must be an object", what)
	}
	return text
}

func (s *sealer) part(part Part) *pb.ContentPart {
	switch part := part.(type) {
	case Text:
		return &pb.ContentPart{Content: &pb.ContentPart_Text{Text: s.text(string(part))}}
	case JSON:
		text := s.json(part.Value)
		s.size += len(text)
		return &pb.ContentPart{Content: &pb.ContentPart_ValueJson{ValueJson: text}}
	case Image:
		return &pb.ContentPart{Content: &pb.ContentPart_Image{Image: s.media(part.Data, part.MIMEType)}}
	case Audio:
		return &pb.ContentPart{Content: &pb.ContentPart_Audio{Audio: s.media(part.Data, part.MIMEType)}}
	case Resource:
		made := &pb.Resource{Uri: validText(part.URI), MimeType: validText(part.MIMEType)}
		if part.Blob != nil && part.Text == "" {
			s.size += len(part.Blob)
			made.Data = &pb.Resource_Blob{Blob: part.Blob}
		} else {
			made.Data = &pb.Resource_Text{Text: s.text(part.Text)}
		}
		return &pb.ContentPart{Content: &pb.ContentPart_Resource{Resource: made}}
	case ResourceLink:
		made := &pb.ResourceLink{
			Uri: s.text(part.URI), Name: s.text(part.Name), Title: s.text(part.Title),
			Description: s.text(part.Description), MimeType: validText(part.MIMEType),
		}
		if part.SizeBytes > 0 {
			made.SizeBytes = &part.SizeBytes
		}
		return &pb.ContentPart{Content: &pb.ContentPart_ResourceLink{ResourceLink: made}}
	}
	s.err = fmt.Errorf("%T is no content part", part)
	return nil
}

func (s *sealer) media(data []byte, mimeType string) *pb.Media {
	s.size += len(data)
	return &pb.Media{Data: data, MimeType: validText(mimeType)}
}

func (s *sealer) failure(info *ErrorInfo) *pb.ToolError {
	if info == nil {
		return nil
	}
	made := &pb.ToolError{
		Code: validText(info.Code), MessageForModel: validText(info.Message), Detail: validText(info.Detail),
		Path: validText(info.Path), Retryable: info.Retryable,
	}
	if info.RetryAfter > 0 {
		after := milliseconds(info.RetryAfter)
		made.RetryAfterMs = &after
	}
	return made
}

// validText is the text with what is no UTF-8 replaced by U+FFFD.
func validText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// cutText is the longest beginning that has at most so many bytes, as valid UTF-8.
func cutText(text string, limit int) string {
	text = validText(text)
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// milliseconds is a span, rounded up, so that a short one does not become none.
func milliseconds(span time.Duration) uint32 {
	whole := (span + time.Millisecond - 1) / time.Millisecond
	return uint32(min(max(whole, 1), 1<<32-1))
}
