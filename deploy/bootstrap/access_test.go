package bootstrap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// onSecuredKafka returns a configuration that logs in as the admin of a broker, and makes users.
func onSecuredKafka(t *testing.T, options ...kfake.Opt) *Config {
	t.Helper()
	config := smallConfig(t)
	config.PasswordsDir = t.TempDir()
	file := keys.PasswordFile(config.PasswordsDir, stream.Admin)
	kit.Must(t, keys.MakePassword(file))
	password, err := keys.ReadPassword(file)
	kit.Must(t, err)
	_, config.Stream = startKafka(t,
		append(options, kfake.EnableSASL(), kfake.EnableACLs(),
			kfake.Superuser("SCRAM-SHA-512", stream.Admin, password))...)
	config.Stream.SASLUser, config.Stream.SASLPasswordFile = stream.Admin, file
	kit.Must(t, config.Validate())

	return config
}

// as returns a client that logs in as user, with the password from the folder.
func as(t *testing.T, config *Config, user string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	kafka := config.Stream
	kafka.SASLUser, kafka.SASLPasswordFile = user, keys.PasswordFile(config.PasswordsDir, user)
	connection, err := kafka.Options()
	kit.Must(t, err)
	client, err := kgo.NewClient(
		slices.Concat(connection, []kgo.Opt{kgo.MetadataMinAge(50 * time.Millisecond)}, options)...)
	kit.Must(t, err)
	t.Cleanup(client.Close)

	return client
}

// rightsOf returns what a user may do, also what no row of the table has.
func rightsOf(t *testing.T, config *Config, user string) (rights []string) {
	t.Helper()
	all, err := kadm.NewClient(as(t, config, stream.Admin)).DescribeACLs(t.Context(),
		kadm.NewACLs().AnyResource().Allow("User:"+user).AllowHosts().Operations(kadm.OpAny).ResourcePatternType(
			kadm.ACLPatternAny))
	kit.Must(t, err)

	for _, acl := range all[0].Described {
		rights = append(rights, fmt.Sprintln(acl.Operation, acl.Type, acl.Name, acl.Host, acl.Pattern))
	}
	slices.Sort(rights)

	return rights
}

// expect compares what a user may do with a row of the table.
func (h has) expect(t *testing.T, config *Config, user string) {
	t.Helper()
	var want []string

	for _, row := range []struct{ names, operation, prefix string }{
		{h.writes, "WRITE TOPIC", "pix."}, {h.reads, "READ TOPIC", "pix."}, {h.joins, "READ GROUP", ""},
		{h.sees, "DESCRIBE GROUP", ""},
	} {
		for name := range strings.FieldsSeq(row.names) {
			want = append(want, row.operation+" "+row.prefix+name+" * LITERAL\n")
		}
	}
	slices.Sort(want)

	if is := rightsOf(t, config, user); !slices.Equal(is, want) {
		t.Errorf("%s may\n%vwant\n%v", user, is, want)
	}
}

// Each user may do what the table says and nothing else, also after somebody gave it more. Its password stays until its
// file is replaced, and is never printed.
func TestUsers(t *testing.T) {
	t.Parallel()
	versions := kversion.Stable()
	// all else works; TestSecuredKafka of loadtest/e2e has quotas
	versions.SetMaxKeyVersion(kmsg.AlterClientQuotas.Int16(), -1)
	config := onSecuredKafka(t, kfake.MaxVersions(versions))
	passwords := map[string]string{}

	for run := range 3 {
		said, err := prepare(t, config)
		if err != nil || !strings.Contains(said, "NO QUOTAS") {
			t.Fatalf("%v, and it says %q", err, said)
		}

		for user := range rightsByHand {
			password, err := keys.ReadPassword(keys.PasswordFile(config.PasswordsDir, user))

			changed := run > 0 && passwords[user] != password
			if err != nil || strings.Contains(said, password) || changed != (run == 2 && user == "producer") {
				t.Errorf("run %d: the password of %s: %v; changed %v; it must not be printed", run, user, err, changed)
			}
			passwords[user] = password
		}
		kit.Must(t, stream.Reach(t.Context(), as(t, config, "producer")))

		if run == 1 {
			kit.Must(t, os.Remove(keys.PasswordFile(config.PasswordsDir, "producer")))
		}
	}

	admin := kadm.NewClient(as(t, config, stream.Admin))
	for _, surplus := range []*kadm.ACLBuilder{
		kadm.NewACLs().Allow("User:producer").Topics(stream.Settlements).Operations(kadm.OpWrite),
		kadm.NewACLs().Allow("User:producer").Topics("pix.").Operations(kadm.OpAll).ResourcePatternType(
			kadm.ACLPatternPrefixed),
		kadm.NewACLs().Allow("User:producer").AllowHosts("127.0.0.1").Topics(stream.AuthorizationRequests).Operations(
			kadm.OpWrite),
		// a topic called like the group that the user may join
		kadm.NewACLs().Allow("User:clearing-engine").Topics(stream.EngineGroup).Operations(kadm.OpRead),
		// not our user: bootstrap leaves it
		kadm.NewACLs().Allow("User:somebody").Topics(stream.Settlements).Operations(kadm.OpRead),
	} {
		kit.Must(t, kit.ErrorOf(admin.CreateACLs(t.Context(), surplus)))
	}

	if len(rightsOf(t, config, "producer")) < 10 {
		t.Fatal("the surplus ACLs are not there: the test proves nothing")
	}
	kit.Must(t, kit.ErrorOf(prepare(t, config)))

	if others := rightsOf(t, config, "somebody"); len(others) != 1 {
		t.Errorf("the rights of a user that is not in the table: %v", others)
	}

	if len(rightsByHand) != len(stream.Accesses) {
		t.Errorf("%d users, and %d rows here", len(stream.Accesses), len(rightsByHand))
	}

	for user, has := range rightsByHand {
		has.expect(t, config, user)
	}

	config.Timeout = 4 * time.Second
	config.Stream.SASLPasswordFile = filepath.Join(t.TempDir(), "guessed")
	kit.Must(t, keys.MakePassword(config.Stream.SASLPasswordFile))

	const reason = "KAFKA_SASL_USER or its password is missing or wrong"
	if said, err := prepare(t, config); err == nil || !strings.Contains(err.Error(), reason) ||
		!strings.Contains(said, reason) {
		t.Errorf("it ended with %v after it had said %q; want %q in both", err, said, reason)
	}
}

// has lists by hand what a user may do, so that an error in the table of platform/stream is found. The names of
// topics are without "pix.".
type has struct{ writes, reads, joins, sees string }

var (
	rightsByHand = map[string]has{
		"producer": {"payments authorization-responses",
			"payments authorization-requests settlements dead-letters checkpoints", "", "clearing-engine"},
		"clearing-engine": {"authorization-requests settlements dead-letters checkpoints",
			"payments authorization-responses settlements dead-letters checkpoints", "clearing-engine", ""},
		"bank-simulator": {"authorization-responses", "authorization-requests", "bank-simulator", ""},
		"loadtest": {"payments",
			"payments authorization-requests authorization-responses settlements dead-letters checkpoints", "",
			"clearing-engine"},
		"room": {"", "payments authorization-requests authorization-responses settlements dead-letters checkpoints",
			"", "clearing-engine"},
	}
	ofParticipant = has{"authorization-responses", "authorization-requests", "participant-10000006", ""}
)
