package bootstrap

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// quotasOf returns the quotas of writing that the broker stores, by user.
func quotasOf(t *testing.T, config *Config) map[string]float64 {
	t.Helper()
	described, err := kadm.NewClient(as(t, config, stream.Admin)).DescribeClientQuotas(t.Context(), false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: kmsg.QuotasMatchTypeAny}})
	kit.Must(t, err)
	quotas := map[string]float64{}
	for _, one := range described {
		for _, value := range one.Values {
			if value.Key == quota {
				quotas[*one.Entity[0].Name] = value.Value
			}
		}
	}
	return quotas
}

// The embedded broker stores quotas and enforces none. Apache Kafka does: see TestSecuredKafka
// in loadtest/e2e.
func TestProgramsOfBanksHaveAQuota(t *testing.T) {
	t.Parallel()
	config := startSecuredKafka(t, startKafka)
	var said []string
	say := func(format string, values ...any) { said = append(said, fmt.Sprintf(format, values...)) }
	for _, most := range []int64{1 << 20, 2 << 20, 0} {
		config.WriterBytesMax = most
		kit.Must(t, kit.ErrorOf(ensureKafka(t.Context(), config, say)))
		got := quotasOf(t, config)
		for _, access := range stream.Accesses {
			quota, has := got[access.User]
			if want := access.Foreign && most > 0; has != want || want && quota != float64(most) {
				t.Errorf("with %d the quota of %s is %v (%v)", most, access.User, quota, has)
			}
		}
	}
	if !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "may each write 2097152 bytes a second") }) {
		t.Errorf("it does not say what it did: %q", said)
	}
}

// Without quotas everything else is prepared, and the log says what is missing.
func TestABrokerWithoutQuotasIsNamed(t *testing.T) {
	t.Parallel()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.AlterClientQuotas.Int16(), -1)
	config := startSecuredKafka(t, func(t *testing.T, options ...kfake.Opt) stream.Config {
		return startKafka(t, append(options, kfake.MaxVersions(versions))...)
	})
	var said []string
	kit.Must(t, kit.ErrorOf(ensureKafka(t.Context(), config, func(format string, values ...any) { said = append(said, fmt.Sprintf(format, values...)) })))
	if !slices.ContainsFunc(said, func(line string) bool {
		return strings.Contains(line, "NO QUOTAS") && strings.Contains(line, "does not know client quotas")
	}) {
		t.Errorf("it does not say that there are no quotas: %q", said)
	}
}
