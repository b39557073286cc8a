package main

import (
	"github.com/spf13/cobra"

	"github.com/liquida/liquida/loadtest/bench"
)

// bareCommand is a process of the bench's bare pipeline, which starts it itself.
func bareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "bare ROLE KAFKA LEDGER ANSWERS", Hidden: true, Args: cobra.ExactArgs(4), ValidArgs: bench.BareRoles,
		RunE: func(command *cobra.Command, args []string) error {
			started = true
			return bench.RunBare(command.Context(), args[0], args[1], args[2], args[3])
		},
	}
}
