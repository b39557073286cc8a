package bootstrap

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// actsOf returns what the register says about the digest of a key or secret, in order.
func actsOf(t *testing.T, client tigerbeetle.Client, digest keys.Digest) string {
	t.Helper()
	records, err := client.GetAccountTransfers(
		tb.AccountFilter{AccountID: ledger.RegisterAccount, Limit: 8189,
			Flags: tb.AccountFilterFlags{Debits: true}.ToUint32()})
	kit.Must(t, err)
	var all []string

	for _, record := range records {
		if act, _, err := ledger.ActOf(record); err == nil && act.Digest == ledger.ActDigest(digest) {
			all = append(all, fmt.Sprintf("%v of %s", act.Kind, act.Bank))
		}
	}

	return strings.Join(all, ", ")
}

// do writes an act as the front door does.
func do(t *testing.T, client tigerbeetle.Client, id string, kind ledger.ActKind, bank pix.ISPB, digest keys.Digest) {
	t.Helper()
	kit.Must(t, kit.ErrorOf(client.CreateAccounts([]tb.Account{ledger.NewAccount(ledger.BooksAccount(bank))})))

	act := ledger.Act{Kind: kind, Bank: bank, ByCentralBank: true}
	if kind.HasDigest() {
		act.Digest = ledger.ActDigest(digest)
	}
	write(t, client, ledger.AppendAct(nil, keys.CentralBank, id, act))
}

func sealsOf(t *testing.T, config *Config, bank pix.ISPB) []keys.Digest {
	t.Helper()
	seals, err := keys.ReadSeals(config.AnswerKeysFile)
	kit.Must(t, err)

	return seals.Fingerprints(bank)
}

// aBankThatJoinedIsKept is a step of TestTwoAtOnceFromNothingAndThenAgain. A bank that joins at run
// time gets its seal and its user of Kafka by a command, which may be run again, and the next run of
// bootstrap keeps them, on an empty Kafka, too.
func aBankThatJoinedIsKept(t *testing.T, ofLedger ledger.Config) {
	config := withKeys(t, onSecuredKafka(t))
	config.Ledger = ofLedger
	kit.Must(t, Run(t.Context(), config, io.Discard))
	client := connect(t, config.Ledger)
	const bank = pix.ISPB("10000006")
	kit.Says(t, Participant(t.Context(), config, bank, false, io.Discard), "10000006 has not joined")
	do(t, client, "join", ledger.Joined, bank, keys.Digest{})
	key := keys.New(string(bank)) // the holder's
	kit.Must(t, os.WriteFile(filepath.Join(config.ClientKeysDir, string(bank)), []byte(key+"\n"), 0o600))

	for range 2 {
		var said bytes.Buffer
		kit.Must(t, Participant(t.Context(), config, bank, false, &said))

		if all := sealsOf(t, config, bank); len(all) != 1 || actsOf(t, client, all[0]) != "seal named of 10000006" ||
			!strings.Contains(said.String(), fmt.Sprintf("%x", all[0])) {
			t.Errorf("%x %s", all, said.String())
		}
	}
	before := sealsOf(t, config, bank)
	user := stream.ParticipantAccess(bank).User
	own := *config
	own.PasswordsDir = filepath.Join(config.PasswordsDir, participantsFolder)
	ofParticipant.expect(t, config, user)

	// A Kafka that knows nothing of the user; the register and the files stay.
	gone, err := kadm.NewClient(as(t, config, stream.Admin)).AlterUserSCRAMs(t.Context(),
		[]kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha512}}, nil)
	if err != nil || gone.Error() != nil {
		t.Fatal(err, gone.Error())
	}
	kit.Must(t, Run(t.Context(), config, io.Discard))
	kit.Must(t, stream.Reach(t.Context(), as(t, &own, user)))

	if !slices.Equal(sealsOf(t, config, bank), before) {
		t.Error("the bank has another secret")
	}

	if acts := actsOf(t, client, keys.DigestOf(key)); acts != "key named of 10000006" {
		t.Errorf("the key in the folder: %s", acts)
	}
}

// whatWasRevokedIsNotNamedAgain is a step of TestTwoAtOnceFromNothingAndThenAgain. A revoked key or
// secret does not come back with the next run, because its file is still there.
func whatWasRevokedIsNotNamedAgain(t *testing.T, ofLedger ledger.Config) {
	config := withKeys(t, onKafka(t, ofLedger))
	kit.Must(t, Run(t.Context(), config, io.Discard))
	client := connect(t, config.Ledger)
	one, other := config.Population.Bank(0), config.Population.Bank(1)
	key, err := keys.Read(config.ClientKeysDir, string(one))
	kit.Must(t, err)
	theirs := keys.New(string(other)) // that only the front door has named
	digest, seal, ofTheirs := keys.DigestOf(key), sealsOf(t, config, one)[0], keys.DigestOf(theirs)
	do(t, client, "revoke-key", ledger.KeyRevoked, one, digest)
	do(t, client, "revoke-seal", ledger.SealRevoked, one, seal)
	do(t, client, "name", ledger.KeyNamed, other, ofTheirs)
	do(t, client, "revoke", ledger.KeyRevoked, other, ofTheirs)
	kit.Must(t, os.WriteFile(filepath.Join(config.ClientKeysDir, string(other)), []byte(theirs), 0o600))
	kit.Must(t, Run(t.Context(), config, io.Discard))

	for digest, want := range map[keys.Digest]string{
		digest:   "key named of 10000001, key revoked of 10000001",
		seal:     "seal named of 10000001, seal revoked of 10000001",
		ofTheirs: "key named of 10000002, key revoked of 10000002",
	} {
		if acts := actsOf(t, client, digest); acts != want {
			t.Errorf("%s, want %s", acts, want)
		}
	}

	// Another secret makes the seals from the end of the command on, and the old one stays good.
	kit.Must(t, Participant(t.Context(), config, one, true, io.Discard))

	all := sealsOf(t, config, one)
	if len(all) != 2 || !slices.Contains(all[1:], seal) || actsOf(t, client, all[0]) != "seal named of 10000001" {
		t.Errorf("%x, the first one: %s", all, actsOf(t, client, all[0]))
	}
}
