// Package bakery has the tools of the demo: a small bakery with one tool for every way a call can go.
package bakery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	callgate "callgate.invalid/clients/go"
)

// Record is one thing that was baked.
type Record struct {
	RecordID string `json:"record_id"`
	Name     string `json:"name"`
	Minutes  int    `json:"minutes"`
	Celsius  int    `json:"celsius"`
}

// Records are the bakery's, shared by the handlers as a service.
type Records struct {
	mu        sync.Mutex
	records   []Record
	cacheSize int
}

// NewRecords has three of them.
func NewRecords() *Records {
	return &Records{cacheSize: 3, records: []Record{
		{"r1", "sourdough", 45, 240}, {"r2", "brioche", 30, 180}, {"r3", "focaccia", 22, 220},
	}}
}

// ServiceID is what tools name in WithServices.
func (*Records) ServiceID() string { return "records" }

func recordsOf(ctx context.Context) (*Records, error) {
	store, ok := callgate.ServiceOf[*Records](ctx, "records")
	if !ok {
		return nil, &callgate.ToolError{
			Code: "records_unavailable", Message: "the records cannot be read now", Retryable: true,
		}
	}
	return store, nil
}

type readInput struct {
	RecordID string `json:"record_id,omitempty" jsonschema_description:"Id of one record; empty for all of them."`
}

type readOutput struct {
	Records []Record `json:"records"`
}

func readBakingRecords(ctx context.Context, in readInput) (*readOutput, error) {
	store, err := recordsOf(ctx)
	if err != nil {
		return nil, err
	}
	found := &readOutput{}
	for _, record := range store.records {
		if in.RecordID == "" || in.RecordID == record.RecordID {
			found.Records = append(found.Records, record)
		}
	}
	if len(found.Records) == 0 {
		// Never fake success: an empty list would let the model make something up.
		return nil, callgate.Errorf("record_not_found", "there is no record `%s`", in.RecordID)
	}
	return found, nil
}

type clearInput struct {
	Confirm string `json:"confirm" jsonschema_description:"Must be the word \"clear\"."`
}

func clearBakingCache(ctx context.Context, in clearInput) (string, error) {
	// Which words count is a business rule, so it is checked here and not in the schema.
	if in.Confirm != "clear" {
		return "", callgate.Errorf("confirmation_missing", `say confirm="clear" to clear the cache`)
	}
	store, err := recordsOf(ctx)
	if err != nil {
		return "", err
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	cleared := store.cacheSize
	store.cacheSize = 0
	return fmt.Sprintf("cleared %d entries", cleared), nil
}

type findInput struct {
	Index int `json:"index" jsonschema_description:"Position of the record, from 0."`
}

func findRecord(ctx context.Context, in findInput) (*Record, error) {
	store, err := recordsOf(ctx)
	if err != nil {
		return nil, err
	}
	if in.Index < 0 || in.Index >= len(store.records) {
		return nil, &callgate.ToolError{
			Code:    "record_not_found",
			Message: fmt.Sprintf("there is no record at %d; there are %d", in.Index, len(store.records)),
			Path:    "$.index",
		}
	}
	return &store.records[in.Index], nil
}

type proofInput struct {
	Seconds float64 `json:"seconds,omitempty" jsonschema_description:"How long the dough rests. Left out: 30."`
}

func proofDough(ctx context.Context, in proofInput) (string, error) {
	if in.Seconds == 0 {
		in.Seconds = 30
	}
	call := callgate.CallFromContext(ctx)
	steps := max(1, int(in.Seconds*10))
	for step := range steps {
		select {
		case <-time.After(time.Duration(in.Seconds / float64(steps) * float64(time.Second))):
		case <-ctx.Done():
			return "", &callgate.Stopped{
				Effect: callgate.EffectExecuted, Message: fmt.Sprintf("stopped after %d of %d steps", step, steps),
			}
		}
		call.Progress("proofing", float64(step+1)/float64(steps))
	}
	return fmt.Sprintf("proofed for %v s", in.Seconds), nil
}

type bakeInput struct {
	Count int `json:"count" jsonschema_description:"How many loaves."`
}

func bakeBatch(ctx context.Context, in bakeInput) (map[string]int, error) {
	if in.Count < 1 || in.Count > 100 {
		return nil, &callgate.ToolError{
			Code: "batch_size_invalid", Message: "between 1 and 100 loaves fit", Path: "$.count",
		}
	}
	call := callgate.CallFromContext(ctx)
	shelf := call.Writer(callgate.ChannelStdout)
	for loaf := 1; loaf <= in.Count; loaf++ {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		fmt.Fprintf(shelf, "loaf %d is done\n", loaf)
		call.Progress(fmt.Sprintf("%d of %d", loaf, in.Count), float64(loaf)/float64(in.Count))
	}
	return map[string]int{"baked": in.Count}, nil
}

func brokenOven(context.Context, struct{}) (string, error) {
	return "", errors.New("the oven does not heat")
}

type finishInput struct {
	Summary string `json:"summary" jsonschema_description:"What was done."`
}

func finishBaking(_ context.Context, in finishInput) (*callgate.Result, error) {
	return callgate.StopWith("finished: " + in.Summary), nil
}

// Tools are the tools of the bakery. Most of them need the service of NewRecords.
func Tools() []*callgate.Definition {
	safe, read := callgate.WithRisk(callgate.Safe), callgate.WithKind(callgate.KindRead)
	records := callgate.WithServices("records")
	return []*callgate.Definition{
		callgate.Tool("read_baking_records", "Reads the baking records, or one of them.",
			readBakingRecords, safe, read, records),
		callgate.Tool("clear_baking_cache", "Deletes everything in the cache of baking results. Cannot be undone.",
			clearBakingCache, callgate.WithRisk(callgate.Dangerous), callgate.WithKind(callgate.KindDelete), records),
		callgate.Tool("find_record", "Finds a record by its position.", findRecord, safe, read, records),
		callgate.Tool("proof_dough", "Lets the dough rest. Slow; stops early when it is cancelled.",
			proofDough, safe, read, callgate.WithTimeout(10*time.Minute)),
		callgate.Tool("bake_batch", "Bakes some loaves, and tells about each of them.",
			bakeBatch, safe, callgate.WithKind(callgate.KindOther)),
		callgate.Tool("broken_oven", "Fails in a way that nobody thought of.", brokenOven, safe, read),
		callgate.Tool("finish_baking", "Ends the work: call it when everything that was asked for is done.",
			finishBaking, safe, callgate.WithKind(callgate.KindOther)),
	}
}
