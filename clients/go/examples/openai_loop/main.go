// An orchestrator: an agent loop over messages of OpenAI Chat Completions. The model is played by files,
// one message each, named as arguments, so that the example runs without one.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"

	callgate "callgate.invalid/clients/go"
)

// model is what a request to the provider would be: it gets the tools and the history.
type model func(tools, history []json.RawMessage) (json.RawMessage, error)

func recorded(files []string) model {
	return func(_, _ []json.RawMessage) (json.RawMessage, error) {
		if len(files) == 0 {
			return json.RawMessage(`{"role":"assistant","content":"done"}`), nil
		}
		text, err := os.ReadFile(files[0])
		files = files[1:]
		return text, err
	}
}

func loop(ctx context.Context, client *callgate.Client, ask model, runID string) ([]json.RawMessage, error) {
	var history []json.RawMessage
	for {
		tools, err := client.ListTools(ctx, "", callgate.OpenAIChat)
		if err != nil {
			return history, err
		}
		message, err := ask(tools.Exported, history)
		if err != nil {
			return history, err
		}
		var answer struct {
			ToolCalls []json.RawMessage `json:"tool_calls"`
		}
		if err := json.Unmarshal(message, &answer); err != nil {
			return history, err
		}
		result, err := client.RunTurnToEnd(ctx, callgate.TurnRequest{
			SessionID: "session-1", OpenAIMessage: message, RunID: runID, ToolSnapshotID: tools.SnapshotID,
		})
		if err != nil {
			return history, err
		}
		history = append(history, message)
		history = append(history, result.Messages...)
		history = append(history, result.ClosingMessages...)
		if result.Stop || len(answer.ToolCalls) == 0 {
			return history, nil // Do not ask the model again in this run.
		}
	}
}

func run(ctx context.Context) error {
	client, err := callgate.New()
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	// A new run for each message of the user.
	history, err := loop(ctx, client, recorded(os.Args[1:]), fmt.Sprintf("run-%d", os.Getpid()))
	for _, message := range history {
		fmt.Println(string(message))
	}
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
