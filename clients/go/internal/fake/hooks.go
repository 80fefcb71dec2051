// Hooks of the fake sidecar: they register, and are asked what a test wants to ask.

package fake

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"callgate.invalid/clients/go/internal/pb"
)

// Hooks speaks HookService. Its fields are read and written under the lock of the state.
type Hooks struct {
	pb.UnimplementedHookServiceServer
	*State
	Hellos   []*pb.HookHello
	Verdicts []*pb.HookVerdict
	More     []*pb.NeedMoreTime
	Pings    int
	// Deaf answers no pings.
	Deaf   bool
	Timing *pb.StreamTiming
	// Closed counts streams that a process has ended in order.
	Closed  int
	out     chan *pb.ConnectHookResponse
	dropped chan struct{}
}

func newHooks(state *State) *Hooks { return &Hooks{State: state} }

// Connected: a process of hooks is there. Under the lock.
func (h *Hooks) Connected() bool { return h.out != nil }

// Send sends any message to the process of hooks.
func (h *Hooks) Send(message *pb.ConnectHookResponse) {
	h.Do(func() {
		if h.out != nil {
			h.out <- message
		}
	})
}

// DropStreams breaks the stream, as a lost connection would.
func (h *Hooks) DropStreams() {
	h.Do(func() {
		if h.out != nil {
			close(h.dropped)
			h.out = nil
		}
	})
}

// ConnectHook is one stream.
func (h *Hooks) ConnectHook(stream pb.HookService_ConnectHookServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	out, dropped := make(chan *pb.ConnectHookResponse, 64), make(chan struct{})
	welcome := &pb.HookWelcome{Protocol: 1, InstanceId: first.GetHello().GetInstanceId()}
	for _, hook := range first.GetHello().GetHooks() {
		welcome.Registered = append(welcome.Registered, &pb.HookRegistered{HookId: hook.GetHookId()})
	}
	h.Do(func() {
		welcome.Timing = h.Timing
		h.Hellos = append(h.Hellos, first.GetHello())
		h.out, h.dropped = out, dropped
	})
	defer h.Do(func() {
		if h.out == out {
			h.out = nil
		}
	})
	out <- &pb.ConnectHookResponse{Body: &pb.ConnectHookResponse_Welcome{Welcome: welcome}}
	read := make(chan error, 1)
	go func() {
		for {
			message, err := stream.Recv()
			if err != nil {
				read <- err
				return
			}
			h.Do(func() { h.take(message, out) })
		}
	}()
	for {
		select {
		case message := <-out:
			if err := stream.Send(message); err != nil {
				return err
			}
		case err := <-read:
			if err.Error() == "EOF" {
				h.Do(func() { h.Closed++ })
			}
			return nil
		case <-dropped:
			return status.Error(codes.Unavailable, "dropped")
		}
	}
}

func (h *Hooks) take(message *pb.ConnectHookRequest, out chan *pb.ConnectHookResponse) {
	switch body := message.GetBody().(type) {
	case *pb.ConnectHookRequest_Verdict:
		h.Verdicts = append(h.Verdicts, body.Verdict)
	case *pb.ConnectHookRequest_NeedMoreTime:
		h.More = append(h.More, body.NeedMoreTime)
	case *pb.ConnectHookRequest_Ping:
		h.Pings++
		if !h.Deaf {
			out <- &pb.ConnectHookResponse{Body: &pb.ConnectHookResponse_Pong{Pong: &pb.Pong{Nonce: body.Ping.GetNonce()}}}
		}
	}
}
