package bootstrap

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// Participant gives a bank that has joined what must not pass the front door: the secret with which it
// seals its responses, and on a secured Kafka a user of its own. With newSeal it gets another secret
// beside the one that it has. It is safe to run again.
func Participant(ctx context.Context, config *Config, bank pix.ISPB, newSeal bool, progress io.Writer) error {
	say := func(format string, values ...any) { fmt.Fprintf(progress, "bootstrap: "+format+"\n", values...) }

	if config.AnswerKeysFile == "" {
		return errors.New("ANSWER_KEYS_FILE is empty: it names the file for the secret of the bank")
	}

	return withChart(config, func(c *chart) error { return c.provide(ctx, bank, newSeal, say) })
}

func (c *chart) provide(ctx context.Context, bank pix.ISPB, newSeal bool, say func(string, ...any)) error {
	register, err := c.readRegister(ctx)
	if err != nil {
		return err
	}

	if !slices.Contains(register.joined, bank) {
		return fmt.Errorf("%s has not joined: the central bank registers it first (liquida participant register %[1]s)",
			bank)
	}

	if err := c.sealOf(ctx, bank, newSeal, say); err != nil {
		return err
	}

	if c.config.PasswordsDir != "" {
		access := stream.ParticipantAccess(bank)
		if err := c.ensureParticipants(ctx, []stream.Access{access}, say); err != nil {
			return err
		}
		say("the password of Kafka's user %s, whose consumer group is %[1]s, is in %s; a bank that is asked over HTTP needs none",
			access.User, keys.PasswordFile(c.participants(), access.User))
	}

	return pause(ctx) // until engines and simulator have read the file
}

// sealOf makes the bank's secret, and names it in the register.
func (c *chart) sealOf(ctx context.Context, bank pix.ISPB, another bool, say func(string, ...any)) error {
	file := c.config.AnswerKeysFile

	err := keys.MakeSeals(file, []pix.ISPB{bank})
	if err == nil && another {
		// engines must know it before anybody seals with it
		if err = errors.Join(keys.AddSeal(file, bank), pause(ctx)); err == nil {
			err = keys.PreferNewSeal(file, bank)
		}
	}

	if err != nil {
		return fmt.Errorf("ANSWER_KEYS_FILE: %w", err)
	}

	if err := c.nameSecrets(ctx); err != nil {
		return err
	}

	seals, err := keys.ReadSeals(file)
	if err != nil {
		return err
	}

	for i, seal := range seals.Fingerprints(bank) {
		if i == 0 {
			say("%s seals with the secret of digest %x, in %s", bank, seal, file)
		} else {
			say("%s has another secret, of digest %x: revoke it when nobody seals with it (liquida seal revoke %[1]s %[2]x)",
				bank, seal)
		}
	}

	return nil
}

// pause waits until every reader of a file of secrets has read it again.
func pause(ctx context.Context) error {
	if !host.Sleep(ctx, 2*keys.WatchInterval) {
		return context.Cause(ctx)
	}

	return nil
}

// keepParticipants names the secrets that are there in the register, and gives banks that answer for
// themselves their users of Kafka, of which an empty Kafka knows nothing.
func (c *chart) keepParticipants(ctx context.Context, say func(string, ...any)) error {
	if err := c.nameSecrets(ctx); err != nil {
		return err
	}

	if c.config.PasswordsDir == "" {
		return nil
	}

	register, err := c.readRegister(ctx)
	if err != nil {
		return err
	}
	var accesses []stream.Access

	for _, bank := range register.joined {
		access := stream.ParticipantAccess(bank)
		if _, err := os.Stat(keys.PasswordFile(c.participants(), access.User)); err == nil {
			accesses = append(accesses, access)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("KAFKA_PASSWORDS_DIR: %w", err)
		}
	}

	return c.ensureParticipants(ctx, accesses, say)
}

// participants is the folder of the passwords of the banks' own users.
func (c *chart) participants() string {
	return filepath.Join(c.config.PasswordsDir, participantsFolder)
}

func (c *chart) ensureParticipants(ctx context.Context, accesses []stream.Access, say func(string, ...any)) error {
	if len(accesses) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()

	return ensureUsers(ctx, c.kafka, c.config, c.participants(), accesses, say)
}

// registered is what bootstrap needs of the register.
type registered struct {
	joined []pix.ISPB // in that order
	known  map[known]bool
}

// known is a key or a seal that a bank has named or revoked once.
type known struct {
	bank   pix.ISPB
	digest keys.Digest
}

// readRegister reads the joins, and the acts about keys and seals.
func (c *chart) readRegister(ctx context.Context) (registered, error) {
	r := registered{known: map[known]bool{}}

	for _, kind := range []ledger.ActKind{ledger.Joined, ledger.KeyNamed, ledger.KeyRevoked, ledger.SealNamed,
		ledger.SealRevoked} {
		filter := tb.AccountFilter{AccountID: ledger.RegisterAccount, Code: uint16(kind),
			Limit: uint32(c.config.EventsMax), Flags: tb.AccountFilterFlags{Debits: true}.ToUint32()}
		for {
			records, err := request(ctx, c.config, c.client.GetAccountTransfers, filter)
			if err != nil {
				return r, err
			}

			for _, record := range records {
				filter.TimestampMin = record.Timestamp + 1

				act, _, err := ledger.ActOf(record)
				switch {
				case err != nil: // of a later version, or forged: the audit says so
				case kind == ledger.Joined && !slices.Contains(r.joined, act.Bank):
					r.joined = append(r.joined, act.Bank)
				case kind != ledger.Joined:
					r.known[known{act.Bank, keys.Digest(act.Digest)}] = true
				}
			}

			if len(records) < int(filter.Limit) {
				break
			}
		}
	}

	return r, nil
}

// nameSecrets names the keys of CLIENT_KEYS_DIR and the secrets of ANSWER_KEYS_FILE in the register, of
// banks that have joined. What was named or revoked once, by whomever, stays as it is: a revoked key
// does not come back because its file is still there.
func (c *chart) nameSecrets(ctx context.Context) error {
	register, err := c.readRegister(ctx)
	if err != nil {
		return err
	}

	byHolder, seals := map[string]string{}, keys.Seals{}
	if c.config.ClientKeysDir != "" {
		if byHolder, err = keys.ReadAll(c.config.ClientKeysDir); err != nil {
			return fmt.Errorf("CLIENT_KEYS_DIR: %w", err)
		}
	}

	if c.config.AnswerKeysFile != "" {
		if seals, err = keys.ReadSeals(c.config.AnswerKeysFile); err != nil {
			return fmt.Errorf("ANSWER_KEYS_FILE: %w", err)
		}
	}
	var acts []tb.Transfer

	name := func(bank pix.ISPB, kind ledger.ActKind, what string, digest keys.Digest) {
		if !register.known[known{bank, digest}] {
			act := ledger.Act{Kind: kind, Bank: bank, Digest: ledger.ActDigest(digest), ByCentralBank: true}
			acts = ledger.AppendAct(acts, keys.CentralBank, "bootstrap-"+what+"-"+hex.EncodeToString(digest[:]), act)
		}
	}
	for _, bank := range register.joined {
		if key, there := byHolder[string(bank)]; there {
			name(bank, ledger.KeyNamed, "key", keys.DigestOf(key))
		}

		for _, seal := range seals.Fingerprints(bank) {
			name(bank, ledger.SealNamed, "seal", seal)
		}
	}

	return c.createTransfers(ctx, these(acts...))
}
