// What the registry shows: tools, their export for a model, toolsets; and what the sidecar is.

package callgate

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc"

	"callgate.invalid/clients/go/internal/pb"
)

// ToolInfo is a tool as the registry has it. Timeout 0: the sidecar's default. State is active,
// unavailable or removed.
type ToolInfo struct {
	Name        string
	Description string
	Schema      json.RawMessage
	Dialect     Dialect
	Risk        Risk
	Kind        ToolKind
	Idempotent  bool
	Exclusive   bool
	Timeout     time.Duration
	Version     string
	Annotations json.RawMessage
	Owner       string
	State       string
	Generation  uint32
	Digest      []byte
	Instances   uint32
	InFlight    uint32
}

// ExportLoss is one thing that a provider's form could not hold, and what became of it.
type ExportLoss struct {
	Tool    string
	CallID  string
	Path    string
	Keyword string
	Action  string
}

// ToolList is what a model may see.
type ToolList struct {
	// SnapshotID names this very list; goes into TurnRequest.ToolSnapshotID.
	SnapshotID string
	// Tools, without a format, are sorted by name.
	Tools []ToolInfo
	// Exported, with one, is the provider's `tools` value. Empty: leave it out of the request.
	Exported []json.RawMessage
	// Aliases are names that the model sees to the tools that they stand for.
	Aliases map[string]string
	Losses  []ExportLoss
}

type registryRPC[Request, Response any] func(pb.RegistryServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error)

func askRegistry[Request, Response any](
	ctx context.Context, c *Client, method registryRPC[Request, Response], request Request,
) (Response, error) {
	return ask(ctx, c.shared, func(conn *grpc.ClientConn) func(context.Context, Request, ...grpc.CallOption) (Response, error) {
		return func(ctx context.Context, request Request, options ...grpc.CallOption) (Response, error) {
			return method(pb.NewRegistryServiceClient(conn), ctx, request, options...)
		}
	}, request)
}

// ListTools is what a model may see, whole; of a toolset, or with an empty one all. A format exports it
// in a provider's form.
func (c *Client) ListTools(ctx context.Context, toolset string, format ProviderFormat) (*ToolList, error) {
	request := &pb.ListToolsRequest{Toolset: toolset, Format: enumNumber(pb.ProviderFormat(0), format)}
	if format != "" && request.Format == 0 {
		return nil, invalid("there is no format %q", format)
	}
	made := &ToolList{Aliases: map[string]string{}}
	for {
		answer, err := askRegistry(ctx, c, pb.RegistryServiceClient.ListTools, request)
		if err != nil {
			return nil, err
		}
		made.SnapshotID = answer.GetToolSnapshotId()
		for _, item := range answer.GetTools() {
			made.Tools = append(made.Tools, toolInfoOf(item))
		}
		if err := made.takeExport(answer.GetToolExport()); err != nil {
			return nil, err
		}
		if request.PageToken = answer.GetNextPageToken(); request.PageToken == "" {
			return made, nil
		}
	}
}

func (l *ToolList) takeExport(export *pb.ToolExport) error {
	if len(export.GetToolsJson()) > 0 {
		var page []json.RawMessage
		if err := json.Unmarshal(export.GetToolsJson(), &page); err != nil {
			return newError(ErrProtocol, "the exported tools are no JSON array")
		}
		l.Exported = append(l.Exported, page...)
	}
	for _, item := range export.GetAliases() {
		l.Aliases[item.GetAlias()] = item.GetTool()
	}
	for _, item := range export.GetLosses() {
		l.Losses = append(l.Losses, ExportLoss{
			item.GetTool(), item.GetCallId(), item.GetPath(), item.GetKeyword(), enumName(item.GetAction(), "dropped"),
		})
	}
	return nil
}

// GetTool is one tool, whatever its state. Fails with ErrToolNotFound.
func (c *Client) GetTool(ctx context.Context, name string) (*ToolInfo, error) {
	answer, err := askRegistry(ctx, c, pb.RegistryServiceClient.GetTool, &pb.GetToolRequest{Name: name})
	if err != nil {
		return nil, err
	}
	made := toolInfoOf(answer.GetTool())
	return &made, nil
}

// Toolset is a named view over the registry: names or globs that it shows, and that it does not, of
// another toolset or of everything.
type Toolset struct {
	Name    string
	Base    string
	Include []string
	Exclude []string
	// Etag changes with every change; in PutToolset empty means whatever it is now.
	Etag string
}

// PutToolset makes or replaces a toolset.
func (c *Client) PutToolset(ctx context.Context, toolset Toolset) (*Toolset, error) {
	answer, err := askRegistry(ctx, c, pb.RegistryServiceClient.PutToolset, &pb.PutToolsetRequest{Toolset: &pb.Toolset{
		Name: toolset.Name, Base: toolset.Base, Include: toolset.Include, Exclude: toolset.Exclude, Etag: toolset.Etag,
	}})
	if err != nil {
		return nil, err
	}
	stored := answer.GetToolset()
	return &Toolset{stored.GetName(), stored.GetBase(), stored.GetInclude(), stored.GetExclude(), stored.GetEtag()}, nil
}

// DeleteToolset removes a toolset. Fails with ErrConflict while it is the base of another one.
func (c *Client) DeleteToolset(ctx context.Context, name string) error {
	_, err := askRegistry(ctx, c, pb.RegistryServiceClient.DeleteToolset, &pb.DeleteToolsetRequest{Name: name})
	return err
}

func toolInfoOf(message *pb.Tool) ToolInfo {
	definition := message.GetDefinition()
	dialect := DialectCore
	if definition.GetSchemaDialect() == pb.SchemaDialect_SCHEMA_DIALECT_JSON_SCHEMA_2020_12 {
		dialect = Dialect202012
	}
	return ToolInfo{
		Name:        definition.GetName(),
		Description: definition.GetDescription(),
		Schema:      document(definition.GetParametersJson()),
		Dialect:     dialect,
		Risk:        riskOf(definition.GetRiskLevel()),
		Kind:        kindOf(definition.GetKind()),
		Idempotent:  definition.GetIdempotent(),
		Exclusive:   definition.GetExclusive(),
		Timeout:     time.Duration(definition.GetTimeoutMs()) * time.Millisecond,
		Version:     definition.GetVersion(),
		Annotations: document(definition.GetAnnotationsJson()),
		Owner:       message.GetOwner(),
		State:       enumName(message.GetState(), "unavailable"),
		Generation:  message.GetGeneration(),
		Digest:      message.GetToolDigest(),
		Instances:   message.GetInstances(),
		InFlight:    message.GetInFlight(),
	}
}

// Limit is one limit that holds in the sidecar; Unit is bytes, ms, count or per_second.
type Limit struct {
	Name    string
	Value   uint64
	Unit    string
	Ceiling uint64
}

// ServerInfo is what the sidecar is and allows. State is serving, draining or store_unavailable.
type ServerInfo struct {
	Version         string
	ProcessID       string
	State           string
	Store           string
	Features        []string
	Dialects        []Dialect
	Formats         []ProviderFormat
	Limits          []Limit
	CallerRoles     []string
	CallerPrincipal string
	StartedAtMs     uint64
}

// ServerInfo asks for version, limits and what is switched on.
func (c *Client) ServerInfo(ctx context.Context) (*ServerInfo, error) {
	answer, err := ask(ctx, c.shared, func(conn *grpc.ClientConn) func(
		context.Context, *pb.GetServerInfoRequest, ...grpc.CallOption,
	) (*pb.GetServerInfoResponse, error) {
		return pb.NewServerServiceClient(conn).GetServerInfo
	}, &pb.GetServerInfoRequest{})
	if err != nil {
		return nil, err
	}
	made := &ServerInfo{
		Version: answer.GetVersion(), ProcessID: answer.GetProcessId(), State: enumName(answer.GetState(), "serving"),
		Store: answer.GetStore(), Features: answer.GetFeatures(), CallerPrincipal: answer.GetCallerPrincipal(),
		StartedAtMs: answer.GetStartedAtMs(),
	}
	for _, item := range answer.GetDialects() {
		dialect := DialectCore
		if item == pb.SchemaDialect_SCHEMA_DIALECT_JSON_SCHEMA_2020_12 {
			dialect = Dialect202012
		}
		made.Dialects = append(made.Dialects, dialect)
	}
	for _, item := range answer.GetFormats() {
		made.Formats = append(made.Formats, ProviderFormat(enumName(item, "unknown")))
	}
	for _, item := range answer.GetLimits() {
		made.Limits = append(made.Limits, Limit{item.GetName(), item.GetValue(), item.GetUnit(), item.GetCeiling()})
	}
	for _, item := range answer.GetCallerRoles() {
		made.CallerRoles = append(made.CallerRoles, enumName(item, "unknown"))
	}
	return made, nil
}
