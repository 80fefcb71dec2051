// Shows each call that waits, and asks on standard input whether it may run.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	callgate "callgate.invalid/clients/go"
)

func decide(ctx context.Context, approvals *callgate.Approvals, changed *callgate.Approval, input *bufio.Scanner) error {
	approval, err := approvals.Get(ctx, changed.ApprovalID) // Whole, and as it is now.
	if err != nil || !approval.Pending() {
		return err
	}
	fmt.Printf("%s, %s: %s\n%s\n", approval.Tool, approval.Risk, approval.Verdict.Message, approval.DisplayArguments)
	fmt.Print("y to run it once, else why not: ")
	if !input.Scan() {
		return errors.New("no answer")
	}
	if input.Text() == "y" {
		_, err = approvals.ApproveOnce(ctx, approval.Ref(), "")
	} else {
		_, err = approvals.Deny(ctx, approval.Ref(), input.Text())
	}
	if errors.Is(err, callgate.ErrDecisionConflict) || errors.Is(err, callgate.ErrDecisionRefused) {
		fmt.Println(err)
		return nil
	}
	return err
}

func run(ctx context.Context) error {
	approvals, err := callgate.NewApprovals()
	if err != nil {
		return err
	}
	defer approvals.Close()
	watch, err := approvals.Watch(callgate.ApprovalFilter{}, "")
	if err != nil {
		return err
	}
	input := bufio.NewScanner(os.Stdin)
	for update, err := range watch.Updates(ctx) {
		if err != nil {
			return err
		}
		for _, changed := range update.Approvals {
			if err := decide(ctx, approvals, changed, input); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}
