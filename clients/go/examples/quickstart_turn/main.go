// Runs one turn with one call, and prints what happens and its result.
package main

import (
	"context"
	"fmt"
	"log"

	callgate "callgate.invalid/clients/go"
)

func run(ctx context.Context) error {
	client, err := callgate.New()
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	turn, err := client.RunTurn(ctx, callgate.TurnRequest{
		SessionID: "demo",
		Calls:     []callgate.ToolCall{{CallID: "c1", Name: "add", Arguments: map[string]int{"a": 2, "b": 3}}},
	})
	if err != nil {
		return err
	}
	for event, err := range turn.Events() {
		if err != nil {
			return err
		}
		fmt.Printf("%d %T\n", event.About().Sequence, event)
	}
	result, err := turn.Wait() // At once: the events are over.
	if err != nil {
		return err
	}
	call := result.Call("c1")
	if err := call.Err(); err != nil {
		return err
	}
	fmt.Println(call.Text())
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
