// The hooks of the demo: one fills an argument in, one denies, one keeps output from the model.
package main

import (
	"context"
	"fmt"
	"log"

	callgate "callgate.invalid/clients/go"
)

// fillInRecord reads the record of the day where the model names none.
func fillInRecord(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
	var arguments map[string]any
	if err := asked.Arguments(&arguments); err != nil || arguments["record_id"] != nil {
		return nil, nil // Not JSON, or nothing to fill in: no opinion.
	}
	arguments["record_id"] = "r2"
	return callgate.HookOutput{ModifiedArgs: arguments}, nil
}

// keepCaches denies whatever clears something.
func keepCaches(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
	reason := fmt.Sprintf("`%s` is not permitted during opening hours", asked.ToolName)
	return callgate.HookOutput{PermissionDecision: "deny", PermissionDecisionReason: reason}, nil
}

// keepQuiet keeps long output out of the conversation.
func keepQuiet(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) {
	return callgate.HookOutput{SuppressOutput: true, AdditionalContext: "The loaves are on the shelf."}, nil
}

func main() {
	hooks, err := callgate.NewHooks()
	if err != nil {
		log.Fatal(err)
	}
	hooks.Before("fill-in-record", fillInRecord, callgate.ForTools("read_baking_records"))
	hooks.Before("keep-caches", keepCaches, callgate.ForTools("clear_*"))
	hooks.Before("keep-quiet", keepQuiet, callgate.ForTools("bake_batch"))
	ctx := context.Background()
	if err := hooks.WaitReady(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	if err := hooks.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
