package answers

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// A settlement that is older than the streams, and that an engine could write only later, need not be told.
func TestWhatAStreamMustTell(t *testing.T) {
	for before, untold := range map[time.Duration]int{0: 1, time.Second: 0} {
		j := NewJudge(1, 0)
		j.follow("10000001")
		j.reportedTo(&kgo.Record{Timestamp: j.since.Add(-before)}, &pixv1.SettlementReport{
			EndToEndId: "E1000000120261125040402q7MkZLOJV", Payer: &pixv1.Account{Ispb: "10000001"}})
		j.concludeStream("10000001")

		if j.verdict.ContradictionCount != untold {
			t.Errorf("reported %v before the stream, and not told: %v", before, j.verdict.Contradictions)
		}
	}
}
