// Registers one tool and serves it until SIGTERM.
package main

import (
	"context"
	"log"

	callgate "callgate.invalid/clients/go"
)

type numbers struct {
	A int64 `json:"a" jsonschema_description:"The first number."`
	B int64 `json:"b" jsonschema_description:"The second number."`
}

func add(_ context.Context, in numbers) (int64, error) { return in.A + in.B, nil }

func main() {
	client, err := callgate.New(callgate.WithExecutor("calculator"))
	if err != nil {
		log.Fatal(err)
	}
	err = client.Add(callgate.Tool("add", "Adds two whole numbers.", add,
		callgate.WithRisk(callgate.Safe), callgate.WithKind(callgate.KindRead)))
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
