// Declares tools that must be refused, and prints what was said about each: one is refused where it is
// added, the others by the sidecar. Exits 0 if exactly the bad ones were refused.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"time"

	callgate "callgate.invalid/clients/go"
)

var expected = map[string]string{
	"":              "tool_name_empty",
	"twice":         "tool_name_duplicate",
	"choose_flour":  "schema_unsupported_keyword",
	"lost_property": "schema_invalid_required",
}

func text(context.Context, map[string]any) (string, error) { return "fine", nil }

func tool(name, description string, options ...callgate.ToolOption) *callgate.Definition {
	options = append(options, callgate.WithRisk(callgate.Safe), callgate.WithKind(callgate.KindRead))
	return callgate.Tool(name, description, text, options...)
}

func tools() []*callgate.Definition {
	core := callgate.WithDialect(callgate.DialectCore)
	return []*callgate.Definition{
		tool("good", "Is fine, and is registered although its neighbours are not."),
		tool("", "Has no name."),
		tool("twice", "Has the name first."),
		tool("twice", "Has a name that is taken."),
		tool("choose_flour", "Has a keyword that its dialect does not know. It is refused, not ignored.", core,
			callgate.WithSchema(`{"type":"object","properties":{"flour":{"type":"string","enum":["rye","wheat"]}}}`)),
		tool("lost_property", "Has a `required` that is no list.", core,
			callgate.WithSchema(`{"type":"object","properties":{},"required":"flour"}`)),
	}
}

func run(ctx context.Context) (map[string]string, error) {
	refused := map[string]string{}
	client, err := callgate.New(callgate.WithExecutor("bad-bakery"))
	if err != nil {
		return nil, err
	}
	defer client.Close(ctx)
	var problem *callgate.Error
	if err := client.Add(tools()...); errors.As(err, &problem) {
		refused[""] = problem.Code
	}
	if err := client.WaitReady(ctx); err != nil {
		return nil, err
	}
	for _, item := range client.Refused() {
		refused[item.Name] = item.Error.Code
	}
	return refused, nil
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	refused, err := run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		fmt.Printf("%q: %s\n", name, refused[name])
	}
	if !maps.Equal(refused, expected) {
		os.Exit(1)
	}
}
