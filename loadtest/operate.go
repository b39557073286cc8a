package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/operate"
	"github.com/liquida/liquida/platform/settings"
)

// operateRateMax keeps what a bank moves while it is suspended within one answer of the ledger.
const operateRateMax = 1000

func operateCommand() *cobra.Command {
	var config operate.Config
	command := &cobra.Command{
		Use:   "operate",
		Short: "Runs a clearing house as its people do, and checks what is promised to them",
		Args:  cobra.NoArgs,
		Long: `Starts a stack of its own on free ports: a ledger, a broker, two engines, two front doors. Sends a
load of every kind of payment, and does meanwhile what docs/operating.md says, with the commands
that are written there. Nothing is restarted. One line for each step says what was measured:

  a bank joins: registered, key, seal, liquidity, account, deposit; it is paid and pays within 10 s
  accounts are blocked, closed, reopened; each act bites within 2 s
  caps: AM13 above one on a payment, not at it; payments race through both front doors and engines
    for what a cap on outflow leaves; it is raised, and lowered below what is held; a capped bank is
    suspended; a bank is capped that pays all the time; what was paid leaves its window. API and
    metric show what is left
  liquidity goes out down to what payments hold, and not below; a refused act stays refused
  a bank is suspended under load: nothing begins 2 s after it; returns to it are taken; it resumes
  a key is rotated: no request with the new one fails, the old one and its stream end
  every engine is frozen for 10 s across a suspension, and begins nothing stale
  acts are repeated, reordered, and race through two front doors
  each act is tried by whom it does not belong to
  load and audit judge; reserve and transit of each bank agreed with its books all the time

At the first step that fails it stops, names it, and keeps data and logs in --dir. Exit code 1.`,
		Example: "  make operate\n  loadtest operate --rate 300 --kafka apache",
	}
	return onOwnStack(command, &config, "operate", "OPERATED: every step did what is promised", operate.Run)
}

func heistCommand() *cobra.Command {
	var config operate.Config
	command := &cobra.Command{
		Use:   "heist",
		Short: "Robs a bank with a stolen key, without a cap and with one, and prints what is lost",
		Args:  cobra.NoArgs,
		Long: `Starts a stack of its own, as operate does, and sends honest payments of every kind. A thief has the
key of a bank, and pays as fast as two front doors take it on 16 connections, from the bank's
customers to accounts at all other banks. It tries acts of all kinds, too. The central bank suspends
the bank and revokes its key, with one command each; other banks give back what is still there. Then
the new key is stolen, too, but the bank has a cap on its outflow. One line for each step says what
was measured.`,
		Example: "  make heist\n  loadtest heist --rate 300",
	}
	return onOwnStack(command, &config, "heist", "HEIST: no more was lost than is promised", operate.Heist)
}

// onOwnStack gives a command its flags, and what it runs.
func onOwnStack(command *cobra.Command, config *operate.Config, folder, verdict string, run func(context.Context, operate.Config) error) *cobra.Command {
	f := command.Flags()
	f.Float64Var(&config.Rate, "rate", 100, "payments per second of the load")
	f.Uint64Var(&config.Seed, "seed", 1, "decides the payments of the load")
	f.StringVar(&config.Kafka, "kafka", stack.Embedded, "broker: "+stack.Embedded+", "+stack.RedpandaLike+" or "+stack.Apache)
	f.StringVar(&config.Dir, "dir", filepath.Join(".stack", folder), "folder of the stack; what an earlier run left in it is removed")
	command.Long += "\n\nEnvironment:\n" + environmentHelp(&config.Population)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := errors.Join(settings.Parse(&config.Population), stack.CheckKafka("--kafka", config.Kafka)); err != nil {
			return err
		}
		if config.Rate < 1 || config.Rate > operateRateMax {
			return fmt.Errorf("--rate is %v: it must be from 1 to %d", config.Rate, operateRateMax)
		}
		if config.Population.Banks != operate.Banks {
			return fmt.Errorf("SANDBOX_BANKS is %d: it must be %d, because the next ones join", config.Population.Banks, operate.Banks)
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		started = true
		config.BinDir, config.Out = filepath.Dir(program), command.OutOrStdout()
		if err := run(command.Context(), *config); err != nil {
			return err
		}
		fmt.Fprintln(config.Out, verdict)
		return nil
	}
	return command
}
