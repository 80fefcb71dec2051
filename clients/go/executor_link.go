// What an executor says, as messages of its stream, and the change of its tools.

package callgate

import (
	"context"

	"callgate.invalid/clients/go/internal/pb"
)

const (
	toolsBytesMax           = 3 * 1024 * 1024
	progressMessageBytesMax = 1_024
	progressDetailsBytesMax = 16 * 1024
)

// executorLink.

func (s *executorStream) accepted(x *execution, queued bool) {
	s.control(&pb.ConnectRequest{Body: &pb.ConnectRequest_Accepted{
		Accepted: &pb.ExecuteAccepted{Execution: x.request.GetExecution(), Queued: queued},
	}})
}

func (s *executorStream) rejected(request *pb.ExecuteRequest, reason pb.RejectReason, message string) {
	s.control(&pb.ConnectRequest{Body: &pb.ConnectRequest_Rejected{
		Rejected: &pb.ExecuteRejected{Execution: request.GetExecution(), Reason: reason, Message: message},
	}})
}

func (s *executorStream) abandoned(x *execution, message string) {
	s.control(&pb.ConnectRequest{Body: &pb.ConnectRequest_Abandoned{
		Abandoned: &pb.ExecuteAbandoned{Execution: x.request.GetExecution(), Message: message},
	}})
}

func (s *executorStream) cancelAck(ref *pb.ExecutionRef, unknown bool) {
	s.control(&pb.ConnectRequest{Body: &pb.ConnectRequest_CancelAck{
		CancelAck: &pb.CancelAck{Execution: ref, UnknownExecution: unknown},
	}})
}

func (s *executorStream) progress(x *execution, report *progressReport) {
	details := report.details
	s.mu.Lock()
	if len(details) > min(progressDetailsBytesMax, s.metadataMax) {
		details = nil
	}
	s.mu.Unlock()
	s.work(outItem{message: &pb.ConnectRequest{Body: &pb.ConnectRequest_Progress{Progress: &pb.ExecutionProgress{
		Execution:   x.request.GetExecution(),
		Message:     cutText(report.message, progressMessageBytesMax),
		Fraction:    report.fraction,
		DetailsJson: details,
	}}}})
}

func (s *executorStream) output(x *execution, channel OutputChannel, sequence uint64, data []byte, dropped uint64) bool {
	chunk := &pb.OutputChunk{
		Execution:     x.request.GetExecution(),
		Channel:       enumNumber(pb.OutputChannel(0), channel),
		ChunkSequence: sequence,
		Data:          data,
		DroppedBytes:  dropped,
	}
	return s.work(outItem{
		message: &pb.ConnectRequest{Body: &pb.ConnectRequest_Output{Output: chunk}},
		x:       x,
		lost:    uint64(len(data)) + dropped,
	})
}

func (s *executorStream) result(x *execution) {
	s.mu.Lock()
	conn := s.welcomedConn()
	resultMax, metadataMax := s.resultMax, s.metadataMax
	s.mu.Unlock()
	if conn == nil || x.sentOn == conn {
		return
	}
	x.sentOn = conn
	// In order behind the execution's own output.
	conn.out.sayWork(outItem{message: &pb.ConnectRequest{Body: &pb.ConnectRequest_Result{
		Result: s.resultMessage(x, resultMax, metadataMax),
	}}})
}

func (s *executorStream) resultMessage(x *execution, resultMax, metadataMax int) *pb.ExecuteResult {
	made := &pb.ExecuteResult{Execution: x.request.GetExecution()}
	if stopped := x.outcome.stopped; stopped != nil {
		made.Outcome = &pb.ExecuteResult_Cancelled{Cancelled: &pb.ExecutionCancelled{
			Effect:  enumNumber(pb.CallEffect(0), stopped.Effect),
			Message: cutText(stopped.Message, messageBytesCut),
		}}
		return made
	}
	answer := x.outcome.answer
	if answer.size > resultMax {
		s.log.Warn("a result is too large", "tool", x.tool.name, "bytes", answer.size)
		answer = tooLarge(answer.size, resultMax, answer.message.GetStopFlag())
	}
	message := answer.message
	if len(message.GetMetadataJson()) > metadataMax {
		s.log.Warn("the metadata of a result is too large and was left out", "tool", x.tool.name)
		message.MetadataJson = nil
	}
	made.Outcome = &pb.ExecuteResult_Result{Result: message}
	return made
}

func (s *executorStream) control(message *pb.ConnectRequest) {
	s.mu.Lock()
	conn := s.welcomedConn()
	s.mu.Unlock()
	if conn != nil {
		conn.out.say(outItem{message: message})
	}
}

func (s *executorStream) work(item outItem) bool {
	s.mu.Lock()
	conn := s.welcomedConn()
	s.mu.Unlock()
	if conn != nil {
		conn.out.sayWork(item)
	}
	return conn != nil
}

func capacityOf(slots int) outItem {
	return outItem{message: &pb.ConnectRequest{Body: &pb.ConnectRequest_CapacityUpdate{
		CapacityUpdate: &pb.CapacityUpdate{MaxConcurrentExecutions: uint32(slots)},
	}}}
}

// resize takes more or fewer executions at once from now on.
func (s *executorStream) resize(slots int) {
	s.executor.resize(slots)
	s.control(capacityOf(slots).message)
}

// The change of tools.

// toolUpdate is a change that the sidecar has not answered yet.
type toolUpdate struct {
	id     string
	upsert []*Definition
	remove []string
	answer chan updateAnswer
}

type updateAnswer struct {
	registrations []Registration
	err           error
}

func newToolUpdate(upsert []*Definition, remove []string) *toolUpdate {
	return &toolUpdate{newID(), upsert, remove, make(chan updateAnswer, 1)}
}

// update changes the tools; returns when the sidecar has answered, after a reconnect if need be.
func (s *executorStream) update(ctx context.Context, upsert []*Definition, remove []string) ([]Registration, error) {
	s.mu.Lock()
	if s.state == StateClosed {
		s.mu.Unlock()
		return nil, newError(ErrClosed, "the client is closed")
	}
	changed := map[string]bool{}
	for _, tool := range upsert {
		changed[tool.name] = true
	}
	for _, name := range remove {
		changed[name] = true
	}
	var kept []*Definition
	for _, tool := range s.tools {
		if !changed[tool.name] {
			kept = append(kept, tool)
		}
	}
	s.tools = append(kept, upsert...)
	pieces := updatePieces(upsert, remove, s.toolsMax)
	conn := s.welcomedConn()
	for _, piece := range pieces {
		s.updates[piece.id] = piece
		if conn != nil {
			s.sendUpdate(conn, piece)
		}
	}
	s.mu.Unlock()
	var answers []Registration
	for _, piece := range pieces {
		select {
		case answer := <-piece.answer:
			if answer.err != nil {
				return nil, answer.err
			}
			answers = append(answers, answer.registrations...)
		case <-ctx.Done():
			return nil, contextError(ctx)
		}
	}
	if len(pieces) > 1 {
		// Each piece has told only its own.
		s.onRegistrations(answers)
	}
	return answers, nil
}

// sendUpdate is called under the lock.
func (s *executorStream) sendUpdate(conn *executorConn, update *toolUpdate) {
	conn.sent[update.id] = true
	conn.out.sayWork(outItem{message: &pb.ConnectRequest{Body: &pb.ConnectRequest_ToolUpdate{ToolUpdate: &pb.ToolUpdate{
		UpdateId: update.id, Upsert: definitionMessages(update.upsert), Remove: update.remove,
	}}}})
}

func (s *executorStream) takeUpdateResult(conn *executorConn, message *pb.ToolUpdateResult) {
	s.mu.Lock()
	update := s.updates[message.GetUpdateId()]
	delete(s.updates, message.GetUpdateId())
	s.mu.Unlock()
	if update == nil {
		return
	}
	answers := registrationsOf(message.GetRegistrations())
	s.applyAll(update.upsert, answers)
	for _, name := range update.remove {
		s.executor.deactivate(name)
	}
	told, complete := answers, false
	s.mu.Lock()
	if conn.rest[update.id] {
		delete(conn.rest, update.id)
		conn.answers = append(conn.answers, answers...)
		told = append([]Registration(nil), conn.answers...)
		s.answerFromHello(conn)
		complete = len(conn.rest) == 0
	}
	s.mu.Unlock()
	s.onRegistrations(told)
	if complete {
		s.ready.set()
	}
	update.settle(answers, nil)
}

// answerFromHello answers updates that were lost with an earlier stream: the hello has said the same.
//
// One whose tools are in a later piece of the hello waits for the answer to that piece. It is not
// sent again: it may have been cut for another limit than the one that holds now. Under the lock.
func (s *executorStream) answerFromHello(conn *executorConn) {
	said := map[string]Registration{}
	for _, answer := range conn.answers {
		said[answer.Name] = answer
	}
	for id := range conn.updates {
		update := s.updates[id]
		if update == nil || (len(conn.rest) > 0 && !allSaid(update.upsert, said)) {
			continue
		}
		delete(s.updates, id)
		var answers []Registration
		for _, tool := range update.upsert {
			answer, known := said[tool.name]
			if !known {
				// A tool that is not in the hello was taken back by a later update.
				answer = Registration{Name: tool.name}
			}
			answers = append(answers, answer)
		}
		for _, name := range update.remove {
			answers = append(answers, Registration{Name: name})
		}
		update.settle(answers, nil)
	}
}

func allSaid(tools []*Definition, said map[string]Registration) bool {
	for _, tool := range tools {
		if _, known := said[tool.name]; !known {
			return false
		}
	}
	return true
}

func (u *toolUpdate) settle(registrations []Registration, err error) {
	select {
	case u.answer <- updateAnswer{registrations, err}:
	default:
	}
}

func (s *executorStream) failUpdates() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, update := range s.updates {
		delete(s.updates, id)
		update.settle(nil, newError(ErrConnectionLost, "the client was closed before the sidecar answered"))
	}
}

func (s *executorStream) applyAll(tools []*Definition, answers []Registration) {
	for at, answer := range answers {
		if at >= len(tools) {
			return
		}
		if answer.Active {
			s.executor.activate(tools[at], answer.Digest)
			for _, warning := range answer.Warnings {
				s.log.Warn("a tool is dubious", "tool", answer.Name, "code", warning.Code, "why", warning.Message)
			}
			continue
		}
		failure := answer.Error
		if failure == nil {
			failure = &ErrorInfo{Code: "unknown"}
		}
		s.log.Error("the sidecar refused a tool",
			"tool", answer.Name, "code", failure.Code, "path", failure.Path, "why", failure.Message)
	}
}

func definitionMessages(tools []*Definition) []*pb.ToolDefinition {
	made := make([]*pb.ToolDefinition, 0, len(tools))
	for _, tool := range tools {
		made = append(made, tool.message())
	}
	return made
}

// toolBatches are the tools in pieces that one message takes each; at least one piece.
func toolBatches(tools []*Definition, most int) [][]*Definition {
	pieces := [][]*Definition{nil}
	size := 0
	for _, tool := range tools {
		own := len(tool.schema) + len(tool.description) + len(tool.annotations) + 1_024
		last := len(pieces) - 1
		if len(pieces[last]) > 0 && (len(pieces[last]) == most || size+own > toolsBytesMax) {
			pieces = append(pieces, nil)
			last, size = last+1, 0
		}
		pieces[last] = append(pieces[last], tool)
		size += own
	}
	return pieces
}

// updatePieces is a change of tools in pieces that one message takes each: tools first, at least one.
func updatePieces(upsert []*Definition, remove []string, most int) []*toolUpdate {
	tools := toolBatches(upsert, most)
	if len(tools) == 1 && len(tools[0])+len(remove) <= most {
		return []*toolUpdate{newToolUpdate(tools[0], remove)}
	}
	var pieces []*toolUpdate
	for _, batch := range tools {
		if len(batch) > 0 {
			pieces = append(pieces, newToolUpdate(batch, nil))
		}
	}
	for len(remove) > 0 {
		count := min(len(remove), most)
		pieces = append(pieces, newToolUpdate(nil, remove[:count]))
		remove = remove[count:]
	}
	return pieces
}
