package main

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/keys"
)

func keyCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use: "key", Short: "Make, name, revoke and list the keys with which a bank calls",
		Long: `The holder makes the key, and only its digest travels. A bank names and revokes its own keys, the
central bank those of every bank: the first key of a bank is named by the central bank.`,
		Example: `  liquida key make 10000006 bank.key                                  # prints the digest
  liquida key name 10000006 DIGEST --key-file .stack/keys/central-bank # used within 2 s
  liquida key revoke 10000006 old.key --key-file bank.key              # what it began ends in 5 s`,
	}
	command.AddCommand(&cobra.Command{
		Use: "make ISPB FILE", Short: "Make a key in a new file, and print its digest",
		Args: ofBank(cobra.ExactArgs(2)),
		Long: "Make a key in a new file that only its owner may read, and print its digest. Nothing is sent:\nname it next.",
		RunE: func(_ *cobra.Command, arguments []string) error {
			digest, err := keys.MakeFile(arguments[1], arguments[0])
			if err != nil {
				return err
			}
			text := hex.EncodeToString(digest[:])

			return o.show(map[string]string{"digest": text}, func() { fmt.Fprintln(o.out, text) })
		},
	}, o.secretAct("name ISPB FILE|DIGEST", client.NameKey, "Name a key: it is in use within two seconds", `Name a key by its file or its digest: it is in use within two seconds. A bank has at most eight
keys in use. What another bank has named does no harm: a key begins with its holder.`),
		o.secretAct("revoke ISPB FILE|DIGEST", client.RevokeKey, "Revoke a key", `Revoke a key by its file or its digest. It is refused within two seconds, and what it has begun
(streams, waits, batches, statements) ends within five.`),
		o.secretList("list ISPB", "List the digests of a bank's keys in use", func(w io.Writer, p client.Participant) {
			for _, digest := range p.Keys {
				fmt.Fprintln(w, digest)
			}
		}))

	return command
}

func sealCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use: "seal", Short: "List and revoke the seals of a bank, as the central bank",
		Long: `Secrets of seals never pass the front door: bootstrap participant makes them and names their
fingerprints. The central bank revokes them.`,
		Example: `  liquida seal list 10000006
  liquida seal revoke 10000006 DIGEST --key-file .stack/keys/central-bank`,
	}
	command.AddCommand(
		o.secretAct("revoke ISPB DIGEST", client.RevokeSeal, "Revoke a seal",
			"Revoke a seal by its digest. What is sealed with it is forged within two seconds."),
		o.secretList("list ISPB", "List the digests of a bank's seals", func(w io.Writer, p client.Participant) {
			for _, seal := range p.Seals {
				state := "in use"
				if seal.Revoked {
					state = "revoked"
				}
				fmt.Fprintf(w, "%s  %s\n", seal.Digest, state)
			}
		}))

	return command
}

// secretAct returns a command that does an act about a key or a seal.
func (o *options) secretAct(use, act, short, long string) *cobra.Command {
	return o.onParticipant(use, 2, short, long, func(arguments []string) (client.ParticipantAct, error) {
		digest, err := digestOf(arguments[0], arguments[1], act == client.NameKey || act == client.RevokeKey)
		return client.ParticipantAct{Act: act, Digest: digest}, err
	})
}

// digestOf returns the digest that an argument is, or that of the key in the file that it names.
func digestOf(ispb, argument string, files bool) (string, error) {
	if digest, err := hex.DecodeString(argument); err == nil && len(digest) == len(keys.Digest{}) {
		return hex.EncodeToString(digest), nil
	}

	if !files {
		return "", fmt.Errorf("DIGEST %q: it must be 48 hexadecimal digits", argument)
	}

	key, err := keys.ReadFile(argument)
	if err != nil {
		return "", fmt.Errorf("FILE|DIGEST: it must be 48 hexadecimal digits, or a file with a key: %w", err)
	}

	if keys.HolderOf(key) != ispb {
		return "", fmt.Errorf("FILE %s does not hold a key of %s", argument, ispb)
	}
	digest := keys.DigestOf(key)

	return hex.EncodeToString(digest[:]), nil
}

func (o *options) secretList(use, short string, write func(io.Writer, client.Participant)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: ofBank(cobra.ExactArgs(1)),
		RunE: func(command *cobra.Command, arguments []string) error {
			o.started = true
			participant, err := o.api.Participant(command.Context(), arguments[0])
			return shown(o, participant, err, write)
		},
	}
}
