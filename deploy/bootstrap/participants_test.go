package bootstrap

import (
	"bytes"
	"context"
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
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// actsOf returns what the register says about a digest, in order.
func actsOf(t *testing.T, client tigerbeetle.Client, digest keys.Digest) string {
	t.Helper()
	records, err := client.GetAccountTransfers(tb.AccountFilter{AccountID: ledger.RegisterAccount, Limit: 8189, Flags: tb.AccountFilterFlags{Debits: true}.ToUint32()})
	kit.Must(t, err)
	var all []string
	for _, record := range records {
		if act, _, err := ledger.ActOf(record); err == nil && act.Digest == ledger.ActDigest(digest) {
			all = append(all, fmt.Sprintf("%v of %s", act.Kind, act.Bank))
		}
	}
	return strings.Join(all, ", ")
}

func actsOfKey(t *testing.T, client tigerbeetle.Client, key string) string {
	t.Helper()
	return actsOf(t, client, keys.DigestOf(key))
}

// do writes an act as the front door does.
func do(t *testing.T, client tigerbeetle.Client, id string, act ledger.Act) {
	t.Helper()
	kit.Must(t, kit.ErrorOf(client.CreateAccounts([]tb.Account{ledger.NewAccount(ledger.BooksAccount(act.Bank))})))
	act.ByCentralBank = true
	if results, err := client.CreateTransfers(ledger.AppendAct(nil, keys.CentralBank, id, act)); err != nil || len(results) > 0 {
		t.Fatalf("%v %v", results, err)
	}
}

// aBankThatJoinedIsKept is a step of TestTwoAtOnceFromNothingAndThenAgain. A bank that joins at run
// time gets its seal and its user of Kafka by a command, which may be run again, and the next run of
// bootstrap keeps them, on an empty Kafka, too.
func aBankThatJoinedIsKept(t *testing.T, ofLedger ledger.Config) {
	config := startSecuredKafka(t, startKafka)
	config.Ledger = ofLedger
	folder := t.TempDir()
	config.ClientKeysDir, config.DigestsFile, config.AnswerKeysFile = filepath.Join(folder, "keys"), filepath.Join(folder, "digests"), filepath.Join(folder, "answers")
	kit.Must(t, Run(t.Context(), config, io.Discard))
	client := connect(t, config.Ledger)
	const bank = pix.ISPB("10000006")
	kit.Says(t, Participant(t.Context(), config, bank, false, io.Discard), "10000006 has not joined") // a bank that has not joined
	seals := func() keys.Seals {
		t.Helper()
		seals, err := keys.ReadSeals(config.AnswerKeysFile)
		kit.Must(t, err)
		return seals
	}
	if len(seals()[bank]) > 0 {
		t.Error("a bank that has not joined has a secret")
	}

	do(t, client, "join", ledger.Act{Kind: ledger.Joined, Bank: bank})
	key := keys.New(string(bank)) // the holder's
	kit.Must(t, os.WriteFile(filepath.Join(config.ClientKeysDir, string(bank)), []byte(key+"\n"), 0o600))
	for range 2 {
		var said bytes.Buffer
		kit.Must(t, Participant(t.Context(), config, bank, false, &said))
		if all := seals().Fingerprints(bank); len(all) != 1 || actsOf(t, client, all[0]) != "seal named of 10000006" || !strings.Contains(said.String(), fmt.Sprintf("%x", all[0])) {
			t.Errorf("%x %s", all, said.String())
		}
	}
	user := stream.ParticipantAccess(bank).User
	own := *config
	own.PasswordsDir = filepath.Join(config.PasswordsDir, participantsFolder)
	check := func() {
		t.Helper()
		asked := as(t, config, stream.Admin, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		kit.Must(t, asked.ProduceSync(t.Context(), &kgo.Record{Topic: stream.AuthorizationRequests, Value: []byte("x")}).FirstErr())
		tryAll(t, config, &own, user, ofParticipant)
	}
	check()
	before := seals().Fingerprints(bank)

	// A Kafka that knows nothing of the user; the register and the files stay.
	gone, err := kadm.NewClient(as(t, config, stream.Admin)).AlterUserSCRAMs(t.Context(), []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha512}}, nil)
	if err != nil || gone.Error() != nil {
		t.Fatal(err, gone.Error())
	}
	kit.Must(t, Run(t.Context(), config, io.Discard))
	check()
	if after := seals().Fingerprints(bank); !slices.Equal(after, before) {
		t.Error("the bank has another secret")
	}
	if acts := actsOfKey(t, client, key); acts != "key named of 10000006" {
		t.Errorf("the key in the folder: %s", acts)
	}
}

// whatWasRevokedIsNotNamedAgain is a step of TestTwoAtOnceFromNothingAndThenAgain. A revoked key or
// secret does not come back with the next run, because its file is still there.
func whatWasRevokedIsNotNamedAgain(t *testing.T, ofLedger ledger.Config) {
	config := smallConfig(t)
	config.Ledger, config.Stream = ofLedger, startKafka(t)
	folder := t.TempDir()
	config.ClientKeysDir, config.DigestsFile, config.AnswerKeysFile = filepath.Join(folder, "keys"), filepath.Join(folder, "digests"), filepath.Join(folder, "answers")
	again := func() {
		t.Helper()
		kit.Must(t, Run(t.Context(), config, io.Discard))
	}
	again()
	client := connect(t, config.Ledger)
	one, other := config.Population.Bank(0), config.Population.Bank(1)
	key, err := keys.Read(config.ClientKeysDir, string(one))
	kit.Must(t, err)
	seals, err := keys.ReadSeals(config.AnswerKeysFile)
	kit.Must(t, err)
	seal := seals.Fingerprints(one)[0]
	do(t, client, "revoke-key", ledger.Act{Kind: ledger.KeyRevoked, Bank: one, Digest: ledger.ActDigest(keys.DigestOf(key))})
	do(t, client, "revoke-seal", ledger.Act{Kind: ledger.SealRevoked, Bank: one, Digest: ledger.ActDigest(seal)})
	// One that only the front door has named.
	theirs := keys.New(string(other))
	do(t, client, "name", ledger.Act{Kind: ledger.KeyNamed, Bank: other, Digest: ledger.ActDigest(keys.DigestOf(theirs))})
	do(t, client, "revoke", ledger.Act{Kind: ledger.KeyRevoked, Bank: other, Digest: ledger.ActDigest(keys.DigestOf(theirs))})
	kit.Must(t, os.WriteFile(filepath.Join(config.ClientKeysDir, string(other)), []byte(theirs), 0o600))
	again()
	for acts, want := range map[string]string{
		actsOfKey(t, client, key): "key named of 10000001, key revoked of 10000001", actsOf(t, client, seal): "seal named of 10000001, seal revoked of 10000001",
		actsOfKey(t, client, theirs): "key named of 10000002, key revoked of 10000002",
	} {
		if acts != want {
			t.Errorf("%s, want %s", acts, want)
		}
	}

	// Another secret makes the seals from the end of the command on, and the old one stays good.
	kit.Must(t, Participant(context.Background(), config, one, true, io.Discard))
	if seals, err = keys.ReadSeals(config.AnswerKeysFile); err != nil {
		t.Fatal(err)
	}
	all := seals.Fingerprints(one)
	if len(all) != 2 || !slices.Contains(all[1:], seal) || actsOf(t, client, all[0]) != "seal named of 10000001" {
		t.Errorf("%x, the first one: %s", all, actsOf(t, client, all[0]))
	}
}
