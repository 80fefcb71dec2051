// The fake sidecar as a whole: a server in memory, that can go away and come back.

package fake

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"callgate.invalid/clients/go/internal/pb"
)

const bufferBytes = 1024 * 1024

// Sidecar is one fake sidecar.
type Sidecar struct {
	*State
	Executors *Executors
	Turns     *Turns
	Approvals *Approvals
	Hooks     *Hooks
	Health    *health.Server

	stop     context.CancelFunc
	mu       sync.Mutex
	listener *bufconn.Listener
	server   *grpc.Server
	serving  sync.WaitGroup
}

// New begins to serve.
func New() *Sidecar {
	state := newState()
	ctx, stop := context.WithCancel(context.Background())
	made := &Sidecar{
		State: state, Executors: newExecutors(state), Approvals: newApprovals(state), Hooks: newHooks(state),
		Health: health.NewServer(), stop: stop,
	}
	made.Turns = newTurns(ctx, state, made.Executors, made.Approvals)
	made.Health.SetServingStatus("readiness", healthpb.HealthCheckResponse_SERVING)
	made.Up()
	return made
}

// Dial makes a connection to it. Fails while it is down.
func (s *Sidecar) Dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener == nil {
		return nil, errors.New("nothing listens")
	}
	return listener.DialContext(ctx)
}

// Up serves, with its memory of executions and turns.
func (s *Sidecar) Up() {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(8*bufferBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	pb.RegisterExecutorServiceServer(server, s.Executors)
	pb.RegisterTurnServiceServer(server, s.Turns)
	pb.RegisterApprovalServiceServer(server, s.Approvals)
	pb.RegisterHookServiceServer(server, s.Hooks)
	pb.RegisterRegistryServiceServer(server, &registry{executors: s.Executors})
	pb.RegisterServerServiceServer(server, &info{})
	healthpb.RegisterHealthServer(server, s.Health)
	listener := bufconn.Listen(bufferBytes)
	s.mu.Lock()
	s.server, s.listener = server, listener
	s.mu.Unlock()
	s.serving.Go(func() { _ = server.Serve(listener) })
}

// Down ends every connection; nothing listens until Up.
func (s *Sidecar) Down() {
	s.mu.Lock()
	server := s.server
	s.server, s.listener = nil, nil
	s.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	s.Executors.DropStreams()
	s.serving.Wait()
}

// Close ends it for good.
func (s *Sidecar) Close() {
	s.Down()
	s.stop()
	s.Turns.running.Wait()
}

// DropStreams breaks every stream, as a lost connection would.
func (s *Sidecar) DropStreams() {
	s.Executors.DropStreams()
	s.Turns.DropStreams()
	s.Approvals.DropStreams()
	s.Hooks.DropStreams()
}

type registry struct {
	pb.UnimplementedRegistryServiceServer
	executors *Executors
}

// ListTools shows every tool of every executor.
func (r *registry) ListTools(_ context.Context, request *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	made := &pb.ListToolsResponse{ToolSnapshotId: newID()}
	r.executors.Do(func() {
		for _, instance := range r.executors.Instances {
			for _, tool := range instance.Tools {
				made.Tools = append(made.Tools, &pb.Tool{
					Definition: tool, ToolDigest: digest(tool), Generation: 1, Owner: instance.Name,
					State: pb.ToolState_TOOL_STATE_ACTIVE, Instances: 1,
				})
			}
		}
	})
	slices.SortFunc(made.Tools, func(a, b *pb.Tool) int {
		return strings.Compare(a.GetDefinition().GetName(), b.GetDefinition().GetName())
	})
	if request.GetFormat() == pb.ProviderFormat_PROVIDER_FORMAT_UNSPECIFIED {
		return made, nil
	}
	exported := []any{}
	for _, tool := range made.Tools {
		exported = append(exported, map[string]any{"type": "function", "function": map[string]any{
			"name": tool.GetDefinition().GetName(), "description": tool.GetDefinition().GetDescription(),
			"parameters": json.RawMessage(tool.GetDefinition().GetParametersJson()),
		}})
	}
	text, err := json.Marshal(exported)
	made.Tools, made.ToolExport = nil, &pb.ToolExport{Format: request.GetFormat(), ToolsJson: text}
	return made, err
}

type info struct {
	pb.UnimplementedServerServiceServer
}

// GetServerInfo tells what it is.
func (*info) GetServerInfo(context.Context, *pb.GetServerInfoRequest) (*pb.GetServerInfoResponse, error) {
	return &pb.GetServerInfoResponse{
		Version: "0.0.0-fake", ProcessId: "fake", State: pb.ServerState_SERVER_STATE_SERVING, Store: "memory",
		Dialects:    []pb.SchemaDialect{pb.SchemaDialect_SCHEMA_DIALECT_CORE, pb.SchemaDialect_SCHEMA_DIALECT_JSON_SCHEMA_2020_12},
		Formats:     []pb.ProviderFormat{pb.ProviderFormat_PROVIDER_FORMAT_OPENAI_CHAT},
		Limits:      []*pb.Limit{{Name: "calls_max", Value: 128, Unit: "count"}},
		CallerRoles: []pb.Role{pb.Role_ROLE_ORCHESTRATOR, pb.Role_ROLE_EXECUTOR},
	}, nil
}
