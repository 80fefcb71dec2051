// The executor of the demo: registers the tools of the bakery and serves them until SIGTERM.
package main

import (
	"context"
	"log"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/examples/bakery"
)

func main() {
	client, err := callgate.New(callgate.WithExecutor("bakery"), callgate.WithConcurrency(8))
	if err != nil {
		log.Fatal(err)
	}
	client.Services.Register(bakery.NewRecords())
	if err := client.Add(bakery.Tools()...); err != nil {
		log.Fatal(err)
	}
	if err := client.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
