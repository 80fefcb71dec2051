// Runs a tool in this process, for tests.

package callgate

import "context"

// RunForTest runs a tool as an executor would, on this goroutine. It is what callgatetest.CallTool uses.
//
// The arguments go through JSON and the types of the function; the schema itself is checked by the
// sidecar, and so not here. A call in ctx is passed on; services are those that the tool has declared.
func (d *Definition) RunForTest(ctx context.Context, services *Services, arguments any) *CallResult {
	text, err := textOrJSON(arguments)
	made := &CallResult{CallID: "call", Tool: d.name, Outcome: OutcomeError, IsError: true, Effect: EffectExecuted, Attempts: 1}
	if err != nil || d.err != nil {
		if err == nil {
			err = d.err
		}
		made.Error = &ErrorInfo{Code: codeRejected, Message: err.Error()}
		return made
	}
	if len(text) == 0 {
		text = []byte("{}")
	}
	ended := d.runForTest(context.WithValue(ctx, callKey{}, d.callForTest(ctx, services)), text)
	if ended.stopped != nil {
		made.Outcome, made.Effect = OutcomeCancelled, ended.stopped.Effect
		made.Error = &ErrorInfo{Code: "tool_cancelled", Message: ended.stopped.Error()}
		return made
	}
	answer := ended.answer.message
	made.IsError, made.Stop, made.Sanitised = answer.GetIsError(), answer.GetStopFlag(), answer.GetSanitised()
	made.Error = errorInfoOf(answer.GetError())
	made.Structured, made.Metadata = document(answer.GetStructuredJson()), document(answer.GetMetadataJson())
	for _, part := range answer.GetContents() {
		made.Contents = append(made.Contents, partOf(part))
	}
	if !made.IsError {
		made.Outcome = OutcomeSuccess
	}
	return made
}

func (d *Definition) callForTest(ctx context.Context, services *Services) *Call {
	call := *CallFromContext(ctx)
	call.services = &AllowedServices{services, d.services}
	return &call
}

func (d *Definition) runForTest(ctx context.Context, arguments []byte) (ended outcome) {
	defer func() {
		if fault := recover(); fault != nil {
			ended = outcomeOf(newHandlerPanic(fault), false)
		}
	}()
	answer, err := d.run(ctx, arguments)
	if err != nil {
		return outcomeOf(err, ctx.Err() != nil)
	}
	return outcome{answer: answer}
}
