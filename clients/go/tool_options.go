// What can be said of a tool besides its name, its description and its function.

package callgate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A ToolOption says something more of a tool.
type ToolOption func(*Definition)

// WithRisk says how much harm the tool can do.
func WithRisk(risk Risk) ToolOption { return func(d *Definition) { d.risk = risk } }

// WithKind says what the tool does.
func WithKind(kind ToolKind) ToolOption { return func(d *Definition) { d.kind = kind } }

// WithSubject names the argument that rules are about. Without one only rules about the whole tool
// or about a parameter match.
func WithSubject(subject Subject) ToolOption {
	return func(d *Definition) { d.subject = &subject }
}

// SkipPermission lifts an ask that comes from mode or risk. Never for a dangerous tool, never in plan
// mode, and no rule.
func SkipPermission() ToolOption { return func(d *Definition) { d.skipPermission = true } }

// LoopExempt keeps the tool from the loop detector: it may be called again and again.
func LoopExempt() ToolOption { return func(d *Definition) { d.loopExempt = true } }

// WithLoopKey names pointers, such as /path, to the only arguments that the loop detector compares.
func WithLoopKey(pointers ...string) ToolOption { return func(d *Definition) { d.loopKey = pointers } }

// WithSecretPointers names pointers, such as /token, to arguments that the audit masks.
func WithSecretPointers(pointers ...string) ToolOption {
	return func(d *Definition) { d.secretPointers = pointers }
}

// WithTimeout limits an execution. Zero: the sidecar's default, 120 s.
func WithTimeout(timeout time.Duration) ToolOption {
	return func(d *Definition) { d.timeout = timeout }
}

// Idempotent says that a second execution does no harm, so that a lost one may be repeated.
func Idempotent() ToolOption { return func(d *Definition) { d.idempotent = true } }

// Exclusive lets no other call of its batch execute meanwhile.
func Exclusive() ToolOption { return func(d *Definition) { d.exclusive = true } }

// WithMaxConcurrency limits executions at once in this process. Zero: only the client's limit holds.
func WithMaxConcurrency(most uint32) ToolOption {
	return func(d *Definition) { d.maxConcurrency = most }
}

// NotCancellable says that the function does not look at its context, so that it is not told to stop.
func NotCancellable() ToolOption { return func(d *Definition) { d.notCancellable = true } }

// WithServices names the services that the function may use; see [Services].
func WithServices(ids ...string) ToolOption { return func(d *Definition) { d.services = ids } }

// WithVersion is the author's version, for people.
func WithVersion(version string) ToolOption {
	return func(d *Definition) { d.version = validText(version) }
}

// WithAnnotations is free data, an object. Kept and shown, never acted on.
func WithAnnotations(value any) ToolOption {
	return func(d *Definition) {
		text, err := encodeJSON(value)
		if err != nil || len(text) == 0 || text[0] != '{' {
			d.refuse("", "the annotations of `%s` are no JSON object", d.name)
			return
		}
		d.annotations = text
	}
}

// WithSchema takes the place of the derived schema: JSON text as a string or bytes, or a value to be
// written as JSON. The types of the function still convert what passed; json.RawMessage and
// map[string]any take everything.
func WithSchema(schema any) ToolOption {
	return func(d *Definition) {
		switch schema := schema.(type) {
		case string:
			d.schema = []byte(schema)
		case []byte:
			d.schema = schema
		case json.RawMessage:
			d.schema = schema
		default:
			text, err := encodeJSON(schema)
			if err != nil {
				d.refuse("", "the schema of `%s` is not JSON: %v", d.name, err)
			}
			d.schema = text
		}
	}
}

// WithDialect says how the schema is read. Without it the client finds out.
func WithDialect(dialect Dialect) ToolOption { return func(d *Definition) { d.dialect = dialect } }

// WithPermissionCheck has the tool asked about each call before it may run.
//
// The check gets the arguments as the function would, and two seconds. An error or a panic of it is
// logged and counts as [Ask]. It may be asked several times about one call, or about a call that
// never runs, so it should change nothing.
func WithPermissionCheck[In any](
	check func(ctx context.Context, in In, asked PermissionContext) (Permission, error),
) ToolOption {
	return func(d *Definition) {
		d.check = func(ctx context.Context, arguments []byte, asked PermissionContext) (said Permission, err error) {
			defer func() {
				if fault := recover(); fault != nil {
					// The value may quote arguments.
					err = fmt.Errorf("a panic of type %T", fault)
				}
			}()
			var in In
			if err := decodeArguments(arguments, &in); err != nil {
				return Permission{}, err
			}
			return check(ctx, in, asked)
		}
	}
}
