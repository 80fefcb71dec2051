// The executor half of the fake sidecar: streams, dispatch, cancel, resume.

package fake

import (
	"crypto/sha256"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"callgate.invalid/clients/go/internal/pb"
)

// The sidecar's `tools_per_message_max` where its limits name none.
const defaultToolsMax = 1_000

// Execution is one dispatched call, with everything that the executor said about it.
type Execution struct {
	Request      *pb.ExecuteRequest
	Instance     *Instance
	Accepted     []bool
	Progress     []*pb.ExecutionProgress
	Output       []*pb.OutputChunk
	CancelAcks   int
	Rejected     *pb.ExecuteRejected
	Abandoned    bool
	Results      []*pb.ExecuteResult
	Acknowledged bool
}

// Done: it has ended, one way or another.
func (x *Execution) Done() bool { return len(x.Results) > 0 || x.Rejected != nil || x.Abandoned }

// Instance is one executor process.
type Instance struct {
	ID         string
	Name       string
	Tools      map[string]*pb.ToolDefinition
	Hellos     []*pb.Hello
	Updates    int
	Drained    []*pb.DrainRequest
	Executions []*Execution
	Stream     *ExecutorStream
}

// ExecutorStream is one stream of an executor.
type ExecutorStream struct {
	out      chan *pb.ConnectResponse
	dropped  chan struct{}
	Pongs    int
	Checks   []*pb.PermissionCheckResult
	Facts    []*pb.ResolveFactsResult
	Received []*pb.ConnectRequest
}

// Executors speaks ExecutorService. Its fields are read and written under the lock of the state.
type Executors struct {
	pb.UnimplementedExecutorServiceServer
	*State
	Instances map[string]*Instance
	// HoldAcks acknowledges no result.
	HoldAcks bool
	// Deaf answers neither pings nor a request to drain.
	Deaf bool
	// Refuse are codes of tools that are refused, by name.
	Refuse map[string]string
	// AbortHello ends every stream with this after its hello. Nil: none.
	AbortHello error
	Limits     *pb.StreamLimits
	Timing     *pb.StreamTiming
	// Decide says what becomes of what an executor has in flight. Nil: it goes on.
	Decide func(*pb.InFlightExecution) pb.InFlightAction
}

func newExecutors(state *State) *Executors {
	return &Executors{
		State: state, Instances: map[string]*Instance{}, Refuse: map[string]string{},
		Limits: &pb.StreamLimits{}, Timing: &pb.StreamTiming{PingIntervalMs: 5_000, PingMisses: 3},
	}
}

func (e *Executors) toolsMax() int {
	if most := e.Limits.GetMaxToolsPerMessage(); most > 0 {
		return int(most)
	}
	return defaultToolsMax
}

// Owner is a connected instance that has the tool. Nil: none. Under the lock.
func (e *Executors) Owner(tool string) *Instance {
	for _, instance := range e.Instances {
		if instance.Tools[tool] != nil && instance.Stream != nil {
			return instance
		}
	}
	return nil
}

func digest(definition *pb.ToolDefinition) []byte {
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(definition)
	sum := sha256.Sum256(text)
	return sum[:]
}

// Dispatch sends one call. Under the lock.
func (e *Executors) Dispatch(instance *Instance, request *pb.ExecuteRequest) *Execution {
	if request.Execution == nil {
		request.Execution = &pb.ExecutionRef{ExecutionId: newID(), Attempt: 1}
	}
	if definition := instance.Tools[request.GetToolName()]; definition != nil && request.ToolDigest == nil {
		request.ToolDigest = digest(definition)
	}
	if request.TimeoutMs > 0 {
		request.DeadlineAtMs = nowMs() + uint64(request.TimeoutMs)
	}
	made := &Execution{Request: request, Instance: instance}
	instance.Executions = append(instance.Executions, made)
	instance.send(&pb.ConnectResponse{Body: &pb.ConnectResponse_Execute{Execute: request}})
	return made
}

// send: nothing happens without a stream, or if it is full. Under the lock.
func (i *Instance) send(message *pb.ConnectResponse) {
	if i.Stream == nil {
		return
	}
	select {
	case i.Stream.out <- message:
	default:
	}
}

// SendAll sends any message to every executor.
func (e *Executors) SendAll(message *pb.ConnectResponse) {
	e.Do(func() {
		for _, instance := range e.Instances {
			instance.send(message)
		}
	})
}

// Cancel tells an execution to stop. Under the lock.
func (x *Execution) Cancel(reason pb.CancelReason, message string, grace time.Duration) {
	x.Instance.send(&pb.ConnectResponse{Body: &pb.ConnectResponse_Cancel{Cancel: &pb.CancelExecution{
		Execution: x.Request.GetExecution(), Reason: reason, Message: message, GraceMs: uint32(grace.Milliseconds()),
	}}})
}

// DropStreams breaks every stream, as a lost connection would.
func (e *Executors) DropStreams() {
	e.Do(func() {
		for _, instance := range e.Instances {
			if instance.Stream != nil {
				close(instance.Stream.dropped)
				instance.Stream = nil
			}
		}
	})
}

// ReleaseAcks acknowledges again, what was held back included.
func (e *Executors) ReleaseAcks() {
	e.Do(func() {
		e.HoldAcks = false
		for _, instance := range e.Instances {
			for _, x := range instance.Executions {
				if len(x.Results) > 0 && !x.Acknowledged {
					x.acknowledge()
				}
			}
		}
	})
}

func (x *Execution) acknowledge() {
	x.Acknowledged = true
	x.Instance.send(&pb.ConnectResponse{Body: &pb.ConnectResponse_ResultAck{ResultAck: &pb.ResultAck{
		Execution: x.Request.GetExecution(), Status: pb.ResultAckStatus_RESULT_ACK_STATUS_RECORDED,
	}}})
}

// Connect is one stream.
func (e *Executors) Connect(stream pb.ExecutorService_ConnectServer) error {
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		return status.Error(codes.InvalidArgument, "the first message is not the hello")
	}
	own := &ExecutorStream{out: make(chan *pb.ConnectResponse, 4_096), dropped: make(chan struct{})}
	var instance *Instance
	e.Do(func() { instance, err = e.welcome(hello, own) })
	if err != nil {
		return err
	}
	defer e.Do(func() {
		if instance.Stream == own {
			instance.Stream = nil
		}
	})
	read := make(chan error, 1)
	go func() {
		for {
			message, err := stream.Recv()
			if err != nil {
				read <- err
				return
			}
			e.Do(func() { e.take(instance, own, message) })
		}
	}()
	for {
		select {
		case message := <-own.out:
			if err := stream.Send(message); err != nil {
				return err
			}
		case <-read:
			return nil
		case <-own.dropped:
			return status.Error(codes.Unavailable, "dropped")
		}
	}
}

// welcome takes a hello in. Under the lock.
func (e *Executors) welcome(hello *pb.Hello, own *ExecutorStream) (*Instance, error) {
	if e.AbortHello != nil {
		return nil, e.AbortHello
	}
	if most := e.toolsMax(); len(hello.GetTools()) > most {
		return nil, withDetail(codes.InvalidArgument, "too many tools", &pb.ErrorDetail{
			Reason: pb.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED, Code: "limit_exceeded",
			Limit: &pb.LimitViolation{Name: "tools_per_message_max", Allowed: uint64(most), Actual: uint64(len(hello.GetTools()))},
		})
	}
	id := hello.GetInstanceId()
	if id == "" {
		id = newID()
	}
	instance := e.Instances[id]
	if instance == nil {
		instance = &Instance{ID: id, Name: hello.GetExecutorName()}
		e.Instances[id] = instance
	}
	if instance.Stream != nil {
		instance.send(&pb.ConnectResponse{Body: &pb.ConnectResponse_GoAway{GoAway: &pb.GoAway{
			Reason: pb.GoAwayReason_GO_AWAY_REASON_SUPERSEDED,
		}}})
	}
	instance.Tools = map[string]*pb.ToolDefinition{}
	instance.Hellos = append(instance.Hellos, hello)
	instance.Stream = own
	welcome := &pb.Welcome{
		Protocol: 1, ConnectionId: newID(), InstanceId: id, ResumeToken: "token-" + id, Capabilities: hello.GetCapabilities(),
		Registrations: e.register(instance, hello.GetTools()), Timing: e.Timing, Limits: e.Limits,
	}
	for _, item := range hello.GetInFlight() {
		welcome.InFlight = append(welcome.InFlight, &pb.InFlightDecision{
			Execution: item.GetExecution(), Action: e.decide(instance, hello, item),
		})
	}
	instance.send(&pb.ConnectResponse{Body: &pb.ConnectResponse_Welcome{Welcome: welcome}})
	return instance, nil
}

func (e *Executors) decide(instance *Instance, hello *pb.Hello, item *pb.InFlightExecution) pb.InFlightAction {
	switch {
	case e.Decide != nil:
		return e.Decide(item)
	case instance.find(item.GetExecution()) == nil || hello.GetResumeToken() != "token-"+instance.ID:
		return pb.InFlightAction_IN_FLIGHT_ACTION_FORGET
	case item.GetState() == pb.InFlightState_IN_FLIGHT_STATE_FINISHED:
		return pb.InFlightAction_IN_FLIGHT_ACTION_SEND_RESULT
	}
	return pb.InFlightAction_IN_FLIGHT_ACTION_CONTINUE
}

func (e *Executors) register(instance *Instance, tools []*pb.ToolDefinition) []*pb.ToolRegistration {
	var answers []*pb.ToolRegistration
	seen := map[string]bool{}
	for _, tool := range tools {
		answer := &pb.ToolRegistration{Name: tool.GetName(), Generation: 1}
		code := e.Refuse[tool.GetName()]
		if seen[tool.GetName()] {
			code = "tool_name_duplicate"
		}
		seen[tool.GetName()] = true
		if code == "" {
			instance.Tools[tool.GetName()] = tool
			answer.State, answer.ToolDigest = pb.RegistrationState_REGISTRATION_STATE_ACTIVE, digest(tool)
		} else {
			answer.State = pb.RegistrationState_REGISTRATION_STATE_REFUSED
			answer.Error = &pb.ToolError{Code: code, MessageForModel: "refused"}
		}
		answers = append(answers, answer)
	}
	return answers
}

func (i *Instance) find(ref *pb.ExecutionRef) *Execution {
	at := slices.IndexFunc(i.Executions, func(x *Execution) bool { return proto.Equal(x.Request.GetExecution(), ref) })
	if at < 0 {
		return nil
	}
	return i.Executions[at]
}

// take takes one message of an executor. Under the lock.
func (e *Executors) take(instance *Instance, own *ExecutorStream, message *pb.ConnectRequest) {
	own.Received = append(own.Received, message)
	switch body := message.GetBody().(type) {
	case *pb.ConnectRequest_Accepted:
		if x := instance.find(body.Accepted.GetExecution()); x != nil {
			x.Accepted = append(x.Accepted, body.Accepted.GetQueued())
		}
	case *pb.ConnectRequest_Rejected:
		if x := instance.find(body.Rejected.GetExecution()); x != nil {
			x.Rejected = body.Rejected
		}
	case *pb.ConnectRequest_Abandoned:
		if x := instance.find(body.Abandoned.GetExecution()); x != nil {
			x.Abandoned = true
		}
	case *pb.ConnectRequest_Result:
		if x := instance.find(body.Result.GetExecution()); x != nil {
			x.Results = append(x.Results, body.Result)
			if !e.HoldAcks {
				x.acknowledge()
			}
		}
	case *pb.ConnectRequest_Progress:
		if x := instance.find(body.Progress.GetExecution()); x != nil {
			x.Progress = append(x.Progress, body.Progress)
		}
	case *pb.ConnectRequest_Output:
		if x := instance.find(body.Output.GetExecution()); x != nil {
			x.Output = append(x.Output, body.Output)
		}
	case *pb.ConnectRequest_CancelAck:
		if x := instance.find(body.CancelAck.GetExecution()); x != nil {
			x.CancelAcks++
		}
	case *pb.ConnectRequest_PermissionCheckResult:
		own.Checks = append(own.Checks, body.PermissionCheckResult)
	case *pb.ConnectRequest_ResolveFactsResult:
		own.Facts = append(own.Facts, body.ResolveFactsResult)
	case *pb.ConnectRequest_Pong:
		own.Pongs++
	case *pb.ConnectRequest_Ping:
		if !e.Deaf {
			instance.send(&pb.ConnectResponse{Body: &pb.ConnectResponse_Pong{Pong: &pb.Pong{Nonce: body.Ping.GetNonce()}}})
		}
	case *pb.ConnectRequest_ToolUpdate:
		e.update(instance, body.ToolUpdate)
	case *pb.ConnectRequest_DrainRequest:
		instance.Drained = append(instance.Drained, body.DrainRequest)
		if !e.Deaf {
			instance.send(&pb.ConnectResponse{Body: &pb.ConnectResponse_DrainStarted{DrainStarted: &pb.DrainStarted{}}})
		}
	}
}

func (e *Executors) update(instance *Instance, update *pb.ToolUpdate) {
	instance.Updates++
	answers := e.register(instance, update.GetUpsert())
	for _, name := range update.GetRemove() {
		delete(instance.Tools, name)
		answers = append(answers, &pb.ToolRegistration{Name: name, State: pb.RegistrationState_REGISTRATION_STATE_REMOVED})
	}
	instance.send(&pb.ConnectResponse{Body: &pb.ConnectResponse_ToolUpdateResult{ToolUpdateResult: &pb.ToolUpdateResult{
		UpdateId: update.GetUpdateId(), Registrations: answers,
	}}})
}
