// The definition of a tool: what the model sees, and the handler behind it.

package callgate

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

// A Risk says how much harm a tool can do.
type Risk string

// How much harm a tool can do. Always name it: a tool without one counts as safe, unless the
// sidecar's `registry.unspecified_risk` says otherwise.
const (
	Safe      Risk = "safe"
	Sensitive Risk = "sensitive"
	Dangerous Risk = "dangerous"
)

// A ToolKind says what a tool does; permission modes decide by it.
type ToolKind string

// What a tool does.
const (
	KindRead     ToolKind = "read"
	KindFetch    ToolKind = "fetch"
	KindEdit     ToolKind = "edit"
	KindDelete   ToolKind = "delete"
	KindExecute  ToolKind = "execute"
	KindInteract ToolKind = "interact"
	KindOther    ToolKind = "other"
)

// A SubjectType says how a subject is read.
type SubjectType string

// How a subject is read: commands are split, paths matched as in .gitignore, URLs by their host.
const (
	SubjectCommand SubjectType = "command"
	SubjectPath    SubjectType = "path"
	SubjectURL     SubjectType = "url"
	SubjectText    SubjectType = "text"
)

// Subject is the argument that a rule's (…) is about, as in run_shell(git *).
type Subject struct {
	// Pointer is where it stands in the arguments, e.g. /command; for a path also a list of them.
	Pointer string
	Type    SubjectType
	// Dialect, of a command, is the shell that runs it. Empty: bash.
	Dialect string
}

// The sidecar's own rule: names longer than 64 only if its operator allows them, up to the ceiling.
const nameLengthCeiling = 128

var nameForm = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_.-]{1,%d}$`, nameLengthCeiling))

// A Definition is a tool, made by [Tool] and immutable from then on.
type Definition struct {
	name           string
	description    string
	schema         []byte
	dialect        Dialect
	risk           Risk
	kind           ToolKind
	subject        *Subject
	skipPermission bool
	loopExempt     bool
	loopKey        []string
	secretPointers []string
	timeout        time.Duration
	idempotent     bool
	exclusive      bool
	maxConcurrency uint32
	notCancellable bool
	services       []string
	version        string
	annotations    []byte
	run            func(ctx context.Context, arguments []byte) (*sealed, error)
	check          func(ctx context.Context, arguments []byte, asked PermissionContext) (Permission, error)
	err            error
}

// Tool makes a tool of a function.
//
// The schema of In comes from its json and jsonschema tags; fields without omitempty are required.
// What the function returns becomes the result, see [ResultOf]. It runs on a goroutine of its own;
// its context is cancelled when the call must stop, with a [*Cancellation] as the cause, and
// [CallFromContext] tells about the call. A panic is the failure of that call alone.
//
// What cannot be a tool is refused by [Client.Add]; see also [Definition.Err].
func Tool[In, Out any](
	name, description string, handler func(ctx context.Context, in In) (Out, error), options ...ToolOption,
) *Definition {
	made := &Definition{name: name, description: validText(description)}
	made.run = func(ctx context.Context, arguments []byte) (*sealed, error) {
		var in In
		if err := decodeArguments(arguments, &in); err != nil {
			return nil, err
		}
		out, err := handler(ctx, in)
		if err != nil {
			return nil, err
		}
		return seal(resultOf(out)), nil
	}
	for _, option := range options {
		option(made)
	}
	made.finish(reflect.TypeFor[In]())
	return made
}

// Name is what the model calls.
func (d *Definition) Name() string { return d.name }

// Schema is what the sidecar checks arguments against, and how it is read.
func (d *Definition) Schema() (json.RawMessage, Dialect) { return slices.Clone(d.schema), d.dialect }

// Err is what is wrong with the tool. Nil: it can be registered.
func (d *Definition) Err() error { return d.err }

func (d *Definition) refuse(code, format string, arguments ...any) {
	if d.err == nil {
		d.err = codedError(ErrDefinition, code, fmt.Sprintf(format, arguments...))
	}
}

// finish derives what was not given and checks the rest.
func (d *Definition) finish(in reflect.Type) {
	d.checkName()
	if d.risk != "" && !slices.Contains([]Risk{Safe, Sensitive, Dangerous}, d.risk) {
		d.refuse("", "the risk of `%s` is none: %q", d.name, d.risk)
	}
	if d.kind != "" && enumNumber(pb.ToolKind(0), d.kind) == 0 {
		d.refuse("", "the kind of `%s` is none: %q", d.name, d.kind)
	}
	if d.subject != nil {
		if enumNumber(pb.SubjectType(0), d.subject.Type) == 0 {
			d.refuse("", "the type of the subject of `%s` is none: %q", d.name, d.subject.Type)
		}
		if len(d.subject.Pointer) < 2 || d.subject.Pointer[0] != '/' {
			d.refuse("", "the subject of `%s` needs a pointer such as /command, not %q", d.name, d.subject.Pointer)
		}
	}
	for _, pointer := range slices.Concat(d.loopKey, d.secretPointers) {
		if !strings.HasPrefix(pointer, "/") {
			d.refuse("", "`%s` needs pointers such as /path, not %q", d.name, pointer)
		}
	}
	if d.timeout < 0 {
		d.refuse("", "the timeout of `%s` is below zero", d.name)
	}
	if d.schema != nil {
		d.takeSchema()
		return
	}
	schema, dialect, err := deriveSchema(in)
	if err != nil {
		d.refuse("", "`%s`: %v", d.name, err)
		return
	}
	d.schema = schema
	if d.dialect == "" {
		d.dialect = dialect
	}
}

func (d *Definition) checkName() {
	if nameForm.MatchString(d.name) {
		return
	}
	shown := d.name
	if len(shown) > 80 {
		shown = shown[:80] + "..."
	}
	code := "tool_name_invalid"
	if strings.TrimSpace(d.name) == "" {
		code = "tool_name_empty"
	}
	// In ASCII, so that a name with hidden or turning characters cannot play with a log.
	d.refuse(code, "the name of a tool must be 1 to 64 of A-Z a-z 0-9 _ . -, not %+q", shown)
}

// takeSchema takes a schema that was given; with a dialect it is sent as it is, since whether it is
// a schema at all is for the sidecar to say.
func (d *Definition) takeSchema() {
	if d.dialect != "" {
		if d.dialect != DialectCore && d.dialect != Dialect202012 {
			d.refuse("", "the dialect of `%s` is none: %q", d.name, d.dialect)
		}
		return
	}
	var parsed any
	if err := json.Unmarshal(d.schema, &parsed); err != nil {
		d.refuse("", "the schema of `%s` is not JSON: %v", d.name, err)
		return
	}
	d.dialect = dialectOf(parsed)
}

// message is what is registered.
func (d *Definition) message() *pb.ToolDefinition {
	made := &pb.ToolDefinition{
		Name:                 d.name,
		Description:          d.description,
		ParametersJson:       d.schema,
		SchemaDialect:        pb.SchemaDialect_SCHEMA_DIALECT_CORE,
		RiskLevel:            enumNumber(pb.RiskLevel(0), d.risk),
		Kind:                 enumNumber(pb.ToolKind(0), d.kind),
		SkipPermission:       d.skipPermission,
		LoopExempt:           d.loopExempt,
		LoopKey:              d.loopKey,
		SecretPointers:       d.secretPointers,
		Idempotent:           d.idempotent,
		Exclusive:            d.exclusive,
		MaxConcurrency:       d.maxConcurrency,
		SupportsCancellation: !d.notCancellable,
		HasPermissionCheck:   d.check != nil,
		Services:             d.services,
		Version:              d.version,
		AnnotationsJson:      d.annotations,
	}
	if d.dialect == Dialect202012 {
		made.SchemaDialect = pb.SchemaDialect_SCHEMA_DIALECT_JSON_SCHEMA_2020_12
	}
	if d.subject != nil {
		made.Subject = &pb.Subject{
			Pointer:     d.subject.Pointer,
			SubjectType: enumNumber(pb.SubjectType(0), d.subject.Type),
			Dialect:     d.subject.Dialect,
		}
	}
	if d.timeout > 0 {
		span := milliseconds(d.timeout)
		made.TimeoutMs = &span
	}
	return made
}
